"""Derivatives of other people's functions: code that knows nothing of fungrad, as it is installed.

    python -m benchmarks.third_party                     every package that is installed
    python -m benchmarks.third_party sklearn pvlib -v    some of them, with what is refused and why
    python -m benchmarks.third_party --peers             autograd and JAX beside it
    python -m benchmarks.third_party --json FILE         the findings as JSON, too

`third_party_cases.py` has the functions. Every derivative is compared with central differences of
plain NumPy by Richardson's extrapolation, whose error is estimated, and vmap with a loop; a Hessian
times a vector with differences of the gradient, which is compared itself. A result is right, wrong,
unjudged if the differences are not known well enough, or refused: an error was raised. Exit status
1 if one is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import fungrad as fg
from benchmarks.third_party_cases import PACKAGES
from fungrad.testing.gradients import Slope, slopes

STEP = 6e-4
"""The larger step of the differences, relative to an entry of the argument or to LEAST."""
LONGER = (1.0, 8.0, 64.0)
"""The steps over STEP that are tried in turn, until two steps agree."""
AGREED, ROUGH = 1e-6, 0.05
"""How far two steps may differ, as a share of the largest slope: to be taken at once, at all."""
LEAST = 0.1
TOLERANCES = {"order 2": 1e-3, "vmap": 1e-9}
"""How far a result may be off, as a share of its largest entry; where it is not FIRST."""
FIRST = 2e-5
SECONDS = 60
"""How much CPU time one derivative may take."""
ASPECTS = ("eager", "jvp", "order 2", "jit", "guard", "vmap")
TITLES = {"guard": 'jit, `branches="guard"`'}
PEERS = ("autograd", "JAX")


def numbers(value: Any) -> Any:
    """A result as one array of doubles; a tuple is stacked."""
    if isinstance(value, (tuple, list)):
        value = np.stack([numbers(item) for item in value])
    return np.asarray(value, dtype=float)


def fresh(x: Any) -> Any:
    """The argument, so that nothing a function does to it is seen by the next."""
    return x if isinstance(x, float) else x.copy()


class Jacobian(NamedTuple):
    """A Jacobian by differences, and the estimated error of each element."""

    value: Any
    doubt: Any


def differences(f: Callable[[Any], Any], x: Any) -> Jacobian:
    """The Jacobian by differences; its last axes are the argument's.

    A solver that stops at a tolerance has noise, which a longer step divides: where two steps
    differ, longer ones are tried, and those that differ least are taken.
    """
    places = list(np.ndindex(np.shape(x)))

    def column(place: tuple[int, ...]) -> Slope:
        def at(shift: float) -> list[Any]:
            moved = np.array(x, dtype=float)
            moved[place] += shift
            return [numbers(f(moved if moved.ndim else float(moved)))]

        size = max(abs(float(np.asarray(x)[place])), LEAST)
        found: list[Slope] = []
        for longer in LONGER:
            found.append(slopes(at, longer * STEP * size, np.finfo(float).eps)[0])
            if found[-1].doubt <= AGREED * found[-1].size:
                break
        return min(found, key=lambda slope: slope.doubt)

    columns = [column(place) for place in places]
    shape = np.shape(columns[0].value)
    value = np.stack([c.value for c in columns], axis=-1).reshape(shape + np.shape(x))
    doubts = np.array([c.doubt for c in columns]).reshape(np.shape(x))
    return Jacobian(value, np.broadcast_to(doubts, value.shape))


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raises TimeoutError in code that takes more than SECONDS of CPU time."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"more than {SECONDS} s of CPU time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def verdict(
    run: Callable[[], Any], expected: Any, tolerance: float, doubt: Any = 0.0
) -> dict[str, str]:
    """Whether a result is right, wrong or refused, and why; "unjudged" if the possible error
    `doubt` of what is expected exceeds the share ROUGH of it.
    """
    try:
        with limited():
            found = numbers(run())
    except Exception as error:
        first = (str(error) or repr(error)).splitlines()[0]
        return {"is": "refused", "why": f"{type(error).__name__}: {first}"}
    if found.size != expected.size:
        return {"is": "wrong", "why": f"shape {found.shape} for {expected.shape}"}
    far = np.abs(found.reshape(expected.shape) - expected)
    scale = np.max(np.abs(expected), initial=0.0) + 1e-6
    off, known = np.max(far, initial=0.0) / scale, np.max(doubt, initial=0.0) / scale
    why = f"off by {off:.1e}, known to {known:.1e}"
    if known > ROUGH:
        return {"is": "unjudged", "why": why}
    beyond = np.max(far - doubt, initial=0.0) / scale
    return {"is": "right" if beyond < tolerance else "wrong", "why": why}


def measured(f: Callable[[Any], Any], x: Any, first: float = FIRST) -> dict[str, dict[str, str]]:
    """The verdict of each aspect of fungrad on one function."""
    jacobian, doubt = differences(f, fresh(x))
    rng = np.random.default_rng(11)
    weights = rng.normal(size=numbers(f(fresh(x))).shape)
    sizes = np.maximum(np.abs(x), LEAST)
    along = sizes * rng.choice([-1.0, 1.0], np.shape(x)) * rng.uniform(0.5, 1.5, np.shape(x))
    scaled = [0.985 * np.asarray(x), np.asarray(x), 1.01 * np.asarray(x)]
    total = lambda t: np.sum(weights * f(t))  # noqa: E731
    whole = lambda: (jacobian, doubt)  # noqa: E731
    runs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "eager": (lambda: fg.jacrev(f)(fresh(x)), whole),
        "jvp": (
            lambda: fg.jvp(f, (fresh(x),), (along,))[1],
            lambda: [
                np.tensordot(a, b, np.ndim(x))
                for a, b in ((jacobian, along), (doubt, np.abs(along)))
            ],
        ),
        "order 2": (
            lambda: np.tensordot(fg.hessian(total)(fresh(x)), along, np.ndim(x)),
            lambda: differences(lambda step: fg.grad(total)(x + step * along), 0.0),
        ),
        "jit": (lambda: fg.jit(fg.jacrev(f))(fresh(x)), whole),
        "guard": (lambda: fg.jit(fg.jacrev(f), branches="guard")(fresh(x)), whole),
        "vmap": (
            lambda: fg.vmap(f)(np.stack(scaled)),
            lambda: (np.stack([numbers(f(s if s.ndim else float(s))) for s in scaled]), 0.0),
        ),
    }
    found = {}
    for aspect, (run, expected) in runs.items():
        if aspect == "order 2" and found["eager"]["is"] != "right":
            found[aspect] = found["eager"]  # there is nothing to take differences of
            continue
        value, error = expected()
        found[aspect] = verdict(run, value, TOLERANCES.get(aspect, first), error)
    return found


def by_peers(f: Callable[[Any], Any], x: Any) -> dict[str, dict[str, str]]:
    """The verdicts of autograd's and JAX's eager Jacobians of the same function."""
    import autograd
    import jax

    jax.config.update("jax_enable_x64", True)
    value, doubt = differences(f, fresh(x))
    return {
        "autograd": verdict(lambda: autograd.jacobian(f)(fresh(x)), value, FIRST, doubt),
        "JAX": verdict(lambda: jax.jacrev(f)(fresh(x)), value, FIRST, doubt),
    }


def findings(
    packages: Sequence[str], measure: Callable[[Any, Any], dict[str, dict[str, str]]]
) -> Iterator[dict[str, Any]]:
    """Rows of package, function and verdicts; a package that is not installed has none."""
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError:
            continue
        for name, x, f in PACKAGES[package]():
            yield {"package": package, "function": name, **measure(f, x)}


def table(rows: Sequence[dict[str, Any]], aspects: Sequence[str]) -> Iterator[str]:
    """How many functions of each package are right, as Markdown."""
    titles = [TITLES.get(aspect, aspect) for aspect in aspects]
    yield f"| package | functions | {' | '.join(titles)} |"
    yield "|---" * (len(aspects) + 2) + "|"
    for package in dict.fromkeys(row["package"] for row in rows):
        yield _counts(package, [row for row in rows if row["package"] == package], aspects)
    yield _counts("**all**", rows, aspects)
    wrong = [sum(row[aspect]["is"] == "wrong" for row in rows) for aspect in aspects]
    yield f"| **wrong** | | {' | '.join(map(str, wrong))} |"


def _counts(title: str, rows: Sequence[dict[str, Any]], aspects: Sequence[str]) -> str:
    right = [sum(row[aspect]["is"] == "right" for row in rows) for aspect in aspects]
    return f"| {title} | {len(rows)} | {' | '.join(map(str, right))} |"


def main() -> int:
    """Measures the packages that are named, or all; 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.third_party")
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=", ".join(PACKAGES))
    parser.add_argument("--peers", action="store_true", help="autograd and JAX beside fungrad")
    parser.add_argument("--json", help="a file for the findings")
    parser.add_argument("-v", "--verbose", action="store_true", help="what is not right, and why")
    given = parser.parse_args()
    for unknown in set(given.packages) - set(PACKAGES):
        parser.error(f"{unknown} is none of {', '.join(PACKAGES)}")
    aspects = (*ASPECTS, *PEERS) if given.peers else ASPECTS
    measure = (lambda f, x: measured(f, x) | by_peers(f, x)) if given.peers else measured
    warnings.simplefilter("ignore")
    rows = []
    said = io.StringIO()
    with np.errstate(all="ignore"), contextlib.redirect_stderr(said):
        for row in findings(given.packages or list(PACKAGES), measure):
            rows.append(row)
            if given.verbose:
                for aspect in aspects:
                    if row[aspect]["is"] != "right":
                        why = f"{row[aspect]['is']}: {row[aspect]['why']}"
                        print(f"{row['package']}.{row['function']}, {aspect}: {why}", flush=True)
    print("\n".join(table(rows, aspects)))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return int(any(row[aspect]["is"] == "wrong" for row in rows for aspect in ASPECTS))


if __name__ == "__main__":
    sys.exit(main())
