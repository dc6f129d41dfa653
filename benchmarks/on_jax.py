"""Derivatives of NumPy's functions on XLA, by fg.to_jax, beside JAX's of the same in jax.numpy.

    python -m benchmarks.on_jax                  eight gradient programs
    python -m benchmarks.on_jax --all            and all cases of `python -m benchmarks`
    python -m benchmarks.on_jax --markdown       the table as Markdown

Both are compiled by jax.jit, take and return arrays that JAX holds, and run in turn on the device
that JAX uses by default; their results are compared first. Medians, and ratios by medians, in
brackets by minima. Needs JAX.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import cases, libraries
from benchmarks.cases.case import Case, normal, uniform
from benchmarks.libraries import JAX, ON_JAX
from benchmarks.timing import sampled

NAMED = (
    "rosenbrock 10",
    "rosenbrock 1e+06",
    "logistic regression 20000x100",
    "MLP step 256x784x512",
    "attention 256x64",
    "mixture 5000x10x5",
)
"""Those of the eight programs that `python -m benchmarks` has, too."""
TOLERANCE = 1e-9
STEPS = 50


def heat(np: Any, ad: Any) -> Any:
    """The gradient of an error after explicit steps of the heat equation, by the start."""

    def loss(u: Any, target: Any) -> Any:
        for _ in range(STEPS):
            wide = np.pad(u, 1)
            u = u + 0.2 * (wide[2:] - 2.0 * u + wide[:-2])
        return np.mean((u - target) ** 2)

    return ad.value_and_grad(loss)


def heat_by_hand(u: Any, target: Any) -> Any:
    """The steps are symmetric matrices, so backward steps equal forward steps."""

    def step(v: Any) -> Any:
        wide = np.pad(v, 1)
        return v + 0.2 * (wide[2:] - 2.0 * v + wide[:-2])

    for _ in range(STEPS):
        u = step(u)
    errors = u - target
    value = np.mean(errors * errors)
    errors = errors * (2.0 / errors.size)
    for _ in range(STEPS):
        errors = step(errors)
    return value, errors


def gaussian_process(np: Any, ad: Any) -> Any:
    """The negative log-likelihood of a Gaussian process, and its gradient by three parameters."""

    def loss(theta: Any, x: Any, y: Any) -> Any:
        square = np.sum((x[:, None] - x[None]) ** 2, -1)
        kernel = np.exp(theta[0] - 0.5 * np.exp(theta[1]) * square)
        factor = np.linalg.cholesky(kernel + np.exp(theta[2]) * np.eye(len(y)))
        half = np.linalg.solve(factor, y)
        return 0.5 * half @ half + np.sum(np.log(np.diagonal(factor)))

    return ad.value_and_grad(loss)


def gaussian_process_by_hand(theta: Any, x: Any, y: Any) -> Any:
    """Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), equation 5.9."""
    square = np.sum((x[:, None] - x[None]) ** 2, -1)
    kernel = np.exp(theta[0] - 0.5 * np.exp(theta[1]) * square)
    noise = np.exp(theta[2])
    inverse = np.linalg.inv(kernel + noise * np.eye(len(y)))
    alpha = inverse @ y
    value = 0.5 * y @ alpha - 0.5 * np.linalg.slogdet(inverse)[1]
    weights = 0.5 * (inverse - np.outer(alpha, alpha))
    by_scale = np.sum(weights * kernel * (-0.5 * np.exp(theta[1]) * square))
    return value, np.array([np.sum(weights * kernel), by_scale, noise * np.trace(weights)])


def rod(size: int) -> tuple[Any, ...]:
    """A start and a target."""
    return uniform(size), uniform(size, seed=1)


def curve(points: int) -> tuple[Any, ...]:
    """Logarithms of the parameters, points and values."""
    return np.array([0.1, 0.3, -1.0]), normal(points, 3), normal(points, seed=1)


OWN = (
    Case(
        "heat equation, 50 steps of 100000", heat, heat_by_hand,
        lambda: rod(100_000), lambda: rod(6),
    ),
    Case(
        "Gaussian process 400", gaussian_process, gaussian_process_by_hand,
        lambda: curve(400), lambda: curve(5),
    ),
)  # fmt: skip
PROGRAMS = (*(case for case in cases.ALL if case.name in NAMED), *OWN)


def on_device(name: str, case: Case) -> Callable[..., Any]:
    """The compiled derivative, that takes and returns arrays of JAX's."""
    library = libraries.LIBRARIES[name]()
    f = case.derivative(library.np, library.ad)
    if name == ON_JAX:
        f = library.ad.to_jax(f, max_steps=libraries.MOST_STEPS)
    return jax.jit(f)


def differs(found: Any, want: Any) -> bool:
    """Whether two trees are not equal to rounding, each leaf by its largest element."""
    pairs = zip(jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(want), strict=True)
    return any(
        np.max(np.abs(np.asarray(a) - np.asarray(b))) > TOLERANCE * np.max(np.abs(np.asarray(b)))
        for a, b in pairs
    )


def measured(
    chosen: Sequence[Case], rounds: int
) -> Iterator[tuple[str, dict[str, list[float]], float]]:
    """(name, seconds of each call by library, ratio of the first calls) for each case."""
    for case in chosen:
        args = jax.tree_util.tree_map(jax.numpy.asarray, case.arguments())
        calls, first, found = {}, {}, {}
        for name in (ON_JAX, JAX):
            run = on_device(name, case)
            start = time.perf_counter()
            found[name] = jax.block_until_ready(run(*args))
            first[name] = time.perf_counter() - start
            calls[name] = lambda run=run, args=args: jax.block_until_ready(run(*args))
        if differs(found[ON_JAX], found[JAX]):
            raise SystemExit(f"{case.name}: the results differ.")
        yield case.name, sampled(calls, rounds, 0.004, 2.0), first[ON_JAX] / first[JAX]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="all cases of `python -m benchmarks`")
    parser.add_argument("--markdown", action="store_true", help="a table in Markdown")
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    others = [c for c in cases.ALL if options.all and c not in PROGRAMS and not c.large]
    line = "| {} | {} | {} | {} | {} |" if options.markdown else "{:36} {:>10} {:>10} {:>14} {:>12}"
    print(f"JAX {jax.__version__}, {jax.devices()[0]}, float64")
    print(line.format("", "fungrad, ms", "JAX, ms", "ratio", "first call"))
    if options.markdown:
        print("|---|---|---|---|---|")
    ratios = []
    for name, samples, first in measured([*PROGRAMS, *others], options.rounds):
        ours, theirs = samples[ON_JAX], samples[JAX]
        medians = statistics.median(ours), statistics.median(theirs)
        ratios.append((medians[0] / medians[1], min(ours) / min(theirs)))
        cells = [f"{1e3 * m:.4g}" for m in medians]
        print(
            line.format(name, *cells, "{:.2f} ({:.2f})".format(*ratios[-1]), f"{first:.2f}"),
            flush=True,
        )
    mean = [statistics.geometric_mean(column) for column in zip(*ratios, strict=True)]
    worst = [max(column) for column in zip(*ratios, strict=True)]
    print(line.format("geometric mean", "", "", "{:.2f} ({:.2f})".format(*mean), ""))
    print(line.format("largest", "", "", "{:.2f} ({:.2f})".format(*worst), ""))


if __name__ == "__main__":
    main()
