"""Packages written for autograd, fitted on autograd and on fungrad: `python -m benchmarks.clients`.

Two processes import what is installed of lifelines, pymanopt, reliability and SurPyval, one of them
with `fungrad.compat.autograd` under the name `autograd`. They run each fit in turn; the table has
the largest difference of the results, relative to the largest of them, and the least CPU times.
"""

from __future__ import annotations

import argparse
import importlib.util
import pickle
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Fit = tuple[str, Callable[[], Any]]


def lifelines() -> Iterator[Fit]:
    import lifelines as ll
    from lifelines.datasets import load_rossi, load_waltons

    rossi, waltons = load_rossi(), load_waltons()
    t, e = waltons["T"], waltons["E"]
    for fitter in (
        ll.WeibullFitter, ll.LogNormalFitter, ll.LogLogisticFitter, ll.GeneralizedGammaFitter
    ):  # fmt: skip
        yield fitter.__name__, lambda fitter=fitter: fitter().fit(t, e).params_.to_numpy()
    for fitter in (ll.WeibullAFTFitter, ll.LogNormalAFTFitter, ll.LogLogisticAFTFitter):
        yield (
            fitter.__name__,
            lambda fitter=fitter: (
                fitter().fit(rossi, "week", "arrest").summary[["coef", "se(coef)"]].to_numpy()
            ),
        )
    yield (
        "PiecewiseExponentialRegressionFitter",
        lambda: (
            ll.PiecewiseExponentialRegressionFitter([10, 20, 30])
            .fit(rossi, "week", "arrest")
            .params_.to_numpy()
        ),
    )
    yield (
        "MixtureCureFitter",
        lambda: ll.MixtureCureFitter(base_fitter=ll.WeibullFitter()).fit(t, e).params_.to_numpy(),
    )


def pymanopt() -> Iterator[Fit]:
    import autograd.numpy as anp
    import pymanopt as pm

    matrix = np.random.default_rng(1).normal(size=(40, 40))
    matrix = matrix + matrix.T
    manifold = pm.manifolds.Stiefel(40, 3)
    start = np.linalg.qr(np.random.default_rng(2).normal(size=(40, 3)))[0]

    @pm.function.autograd(manifold)
    def cost(x: Any) -> Any:
        return -anp.trace(x.T @ matrix @ x)

    problem = pm.Problem(manifold, cost)
    optimizers = pm.optimizers
    for optimizer in (optimizers.ConjugateGradient, optimizers.TrustRegions):
        yield (
            f"{optimizer.__name__} on a Stiefel manifold",
            lambda optimizer=optimizer: np.linalg.eigvalsh(
                (lambda x: x.T @ matrix @ x)(
                    optimizer(verbosity=0).run(problem, initial_point=start).point
                )
            ),
        )


def reliability() -> Iterator[Fit]:
    from reliability import Fitters

    data = 10.0 * np.random.default_rng(3).weibull(2.0, 100)
    failures, censored = data[data < 12.0], np.full(np.sum(data >= 12.0), 12.0)
    for name in ("Fit_Weibull_2P", "Fit_Weibull_Mixture", "Fit_Gamma_2P", "Fit_Beta_2P"):
        scale = 20.0 if name == "Fit_Beta_2P" else 1.0
        fit = getattr(Fitters, name)
        yield (
            name,
            lambda fit=fit, scale=scale: (
                fit(
                    failures / scale,
                    censored / scale,
                    show_probability_plot=False,
                    print_results=False,
                )
                .results["Point Estimate"]
                .to_numpy()
            ),
        )


def surpyval() -> Iterator[Fit]:
    import surpyval as sv

    x = 10.0 * np.random.default_rng(4).weibull(2.0, 500)
    c = (x > 12.0).astype(int)
    for name in ("ExpoWeibull", "Weibull", "Gamma", "LogLogistic"):
        yield name, lambda name=name: np.asarray(getattr(sv, name).fit(x, c=c).params)
    z = np.random.default_rng(5).normal(size=(500, 2))
    yield "WeibullPH", lambda: np.asarray(sv.WeibullPH.fit(x, Z=z, c=c).params)


CLIENTS = {f.__name__: f for f in (lifelines, pymanopt, reliability, surpyval)}


def fits() -> dict[str, Callable[[], Any]]:
    """The installed fits, by package and name."""
    return {
        f"{package} {name}": fit
        for package, cases in CLIENTS.items()
        if importlib.util.find_spec(package) is not None
        for name, fit in cases()
    }


def serve(library: str) -> None:
    """Runs the fits that the parent names, one in each line, and writes CPU time and result."""
    warnings.simplefilter("ignore")
    out, sys.stdout = sys.stdout.buffer, sys.stderr
    if library == "fungrad":
        from fungrad.compat import autograd

        autograd.install()
    known = fits()
    pickle.dump(list(known), out)
    out.flush()
    for line in sys.stdin:
        np.random.seed(0)
        start = time.process_time()
        result = known[line.strip()]()
        pickle.dump((time.process_time() - start, np.asarray(result, float)), out)
        out.flush()


class Worker:
    """A process that runs the fits on one library."""

    def __init__(self, library: str) -> None:
        command = [sys.executable, "-m", "benchmarks.clients", "--serve", library]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.names: list[str] = self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return pickle.load(self._process.stdout)

    def run(self, name: str) -> tuple[float, Any]:
        """CPU seconds and the result of a fit."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n".encode())
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compared(rounds: int, words: list[str]) -> Iterator[tuple[str, float, float, float]]:
    """Of each fit its name, the difference of the results, and the seconds on either library."""
    workers = {library: Worker(library) for library in ("autograd", "fungrad")}
    for name in workers["autograd"].names:
        if words and not any(word in name for word in words):
            continue
        seconds: dict[str, list[float]] = {library: [] for library in workers}
        results = {}
        for _ in range(1 + rounds):  # the first imports and warms up
            for library, worker in workers.items():
                spent, results[library] = worker.run(name)
                seconds[library].append(spent)
        theirs, ours = results["autograd"], results["fungrad"]
        difference = float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))
        yield name, difference, min(seconds["autograd"][1:]), min(seconds["fungrad"][1:])
    for worker in workers.values():
        worker.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients", description=__doc__)
    parser.add_argument("fits", nargs="*", help="parts of names of fits; all without any")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each library (5)")
    parser.add_argument("--serve", choices=("autograd", "fungrad"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    print("| fit | difference | autograd, ms | fungrad, ms | ratio |\n|---|---|---|---|---|")
    for name, difference, theirs, ours in compared(options.rounds, options.fits):
        times = f"{theirs * 1e3:.0f} | {ours * 1e3:.0f} | {ours / theirs:.2f}"
        print(f"| {name} | {difference:.1e} | {times} |", flush=True)


if __name__ == "__main__":
    main()
