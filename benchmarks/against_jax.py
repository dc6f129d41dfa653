"""Values and derivatives against JAX's: `python -m benchmarks.against_jax`.

Each function of against_jax_calls.py is called at five random points in float64, and everything is
compared: the value, reverse mode, forward mode, and a product with the Hessian. A difference that
against_jax_known.py does not explain ends the run with the status 1. Needs the extra `bench`.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from typing import Any, NamedTuple

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
import numpy as np

import fungrad as fg
from benchmarks.against_jax_calls import Comparison, comparisons
from benchmarks.against_jax_known import KNOWN, LIMITS
from benchmarks.against_jax_points import POINTS, UNLIKE
from fungrad.support import pytree

jax.config.update("jax_enable_x64", True)
QUANTITIES = ("value", "reverse", "forward", "order 2")
COUNT = 5
TOLERANCE = 1e-9
"""Of the largest element, or of 1."""


class Found(NamedTuple):
    """The result of a comparison: the largest difference by quantity, or an error."""

    differences: dict[str, float]
    error: str = ""


def points(args: tuple[Any, ...], seed: int) -> tuple[list[Any], list[Any]]:
    """Arguments near those given, 15 % below to 10 % above, and directions."""
    random = np.random.default_rng(seed)
    moved: list[Any] = []
    directions: list[Any] = []
    for arg in map(np.asarray, args):
        if arg.dtype.kind == "f":
            moved.append(arg * random.uniform(0.85, 1.1, arg.shape))
            directions.append(random.normal(size=arg.shape))
        else:
            moved.append(arg)
            directions.append(None)
    return moved, directions


def total(library: Any, leaves: list[Any]) -> Any:
    """All numbers of the results, in one with fixed weights."""
    result = 0.0
    for leaf in leaves:
        weights = np.cos(np.arange(1.0, 1 + np.size(leaf))).reshape(np.shape(leaf))
        if leaf.dtype.kind == "c":
            result = result + library.sum(weights * library.imag(leaf)) / 2.0
            leaf = library.real(leaf)
        if leaf.dtype.kind == "f":
            result = result + library.sum(weights * leaf)
    return result


def ours(case: Comparison, args: list[Any], directions: list[Any]) -> list[Any]:
    """fungrad's value, gradient, tangent and Hessian times direction."""
    wanted = tuple(i for i, d in enumerate(directions) if d is not None)

    def f(*moving: Any) -> Any:
        given = dict(zip(wanted, moving, strict=True))
        leaves = pytree.leaves(case.ours(*[given.get(i, a) for i, a in enumerate(args)]))
        return total(np, [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in leaves])

    at, along = [args[i] for i in wanted], [directions[i] for i in wanted]
    gradient = fg.grad(f, argnums=tuple(range(len(at))))
    found = [f(*at), gradient(*at), fg.jvp(f, at, along)[1]]
    return found + ([fg.jvp(gradient, at, along)[1]] if case.order > 1 else [])


def theirs(case: Comparison, args: list[Any], directions: list[Any]) -> Any:
    """The same as a function of arguments and directions, by JAX."""
    wanted = tuple(i for i, d in enumerate(directions) if d is not None)

    def everything(at: list[Any], along: list[Any]) -> list[Any]:
        def f(*moving: Any) -> Any:
            given = dict(zip(wanted, moving, strict=True))
            results = case.theirs(*[given.get(i, a) for i, a in enumerate(args)])
            return total(jax.numpy, [jax.numpy.asarray(x) for x in jax.tree.leaves(results)])

        gradient = jax.grad(f, argnums=tuple(range(len(at))))
        slope = gradient(*at)
        tangent = sum(jax.numpy.sum(g * d) for g, d in zip(slope, along, strict=True))
        found = [f(*at), slope, tangent]
        return found + ([jax.jvp(gradient, tuple(at), tuple(along))[1]] if case.order > 1 else [])

    return jax.jit(everything) if case.staged else everything


def apart(left: Any, right: Any) -> float:
    """The largest difference of two trees, of the largest element of the right one."""
    worst = 0.0
    for x, y in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.shape != y.shape or not np.array_equal(np.isnan(x), np.isnan(y)):
            return float("inf")
        scale = max(1.0, float(np.max(np.abs(y), initial=0.0, where=np.isfinite(y))))
        unequal = ~((x == y) | np.isnan(x))
        worst = max(worst, float(np.max(np.abs(x - y), initial=0.0, where=unequal)) / scale)
    return worst


def compare(case: Comparison) -> Found:
    """One function at all of its points; to the first order where the second is an error."""
    try:
        return compared(case)
    except Exception as error:  # reported, and counted as a difference unless it is explained
        message = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    if case.order == 1:
        return Found({}, message)
    first = compare(case._replace(order=1))
    return Found(first.differences, first.error or f"order 2: {message}")


def compared(case: Comparison) -> Found:
    """The largest differences at all points."""
    differences = dict.fromkeys(QUANTITIES[: 2 + case.order], 0.0)
    run = None
    for seed in range(COUNT):
        args, directions = points(case.args, seed)
        moving = [a for a, d in zip(args, directions, strict=True) if d is not None]
        along = [d for d in directions if d is not None]
        run = run or theirs(case, args, directions)
        expected = run(moving, along)
        for name, x, y in zip(differences, ours(case, args, directions), expected, strict=True):
            differences[name] = max(differences[name], apart(x, y))
    return Found({name: d for name, d in differences.items() if not d <= TOLERANCE})


def explanation(name: str, found: Found) -> str | None:
    """Why a function differs, if that is known."""
    if found.differences:
        return KNOWN.get(name)
    return next((reason for text, reason in LIMITS.items() if text in found.error), None)


def report_calls(chosen: list[str]) -> int:
    """Compares all functions; how many differ without an explanation."""
    tried, equal, unexplained = Counter[str](), Counter[str](), 0
    for case in comparisons():
        if chosen and not any(part in case.name for part in chosen):
            continue
        found = compare(case)
        tried[case.group] += 1
        if not found.differences and not found.error:
            equal[case.group] += 1
            if case.name in KNOWN:
                print(f"{case.name}: no longer differs; its entry can go")
            continue
        sizes = ", ".join(f"{name} by {size:.1e}" for name, size in found.differences.items())
        reason = explanation(case.name, found)
        unexplained += reason is None
        print(f"{case.name}: {sizes or found.error[:110]}\n    {reason or 'NOT EXPLAINED'}")
    print(f"\n{'namespace':16}{'functions':>10}{'equal':>8}{'unlike':>8}")
    for group in tried:
        print(f"{group:16}{tried[group]:10}{equal[group]:8}{tried[group] - equal[group]:8}")
    print(f"{'all':16}{tried.total():10}{equal.total():8}{tried.total() - equal.total():8}")
    return unexplained


def report_points() -> int:
    """Compares special points; how many of fungrad's are wrong, or of JAX's are so without an
    explanation. Of several elements the one is shown in which JAX is farthest off.
    """
    bad = 0
    print(f"\n{'special point':38}{'exact':>10}{'fungrad':>10}{'JAX':>10}")
    for name, point in POINTS.items():
        made = [jax.numpy.asarray(a) for a in point.args]
        exact = np.asarray(point.exact, float).ravel()
        left = np.asarray(point.derivative(fg, np, *point.args), float).ravel()
        right = np.asarray(point.derivative(jax, jax.numpy, *made), float).ravel()
        same = np.allclose(right, exact, rtol=1e-9, atol=1e-12)
        wrong = not np.allclose(left, exact, rtol=1e-9, atol=1e-12)
        bad += wrong + (not same and name not in UNLIKE)
        worst = int(np.argmax(np.abs(right - exact)))  # of a NaN, its place
        shown = "".join(f"{x[worst]:10.4g}" for x in (exact, left, right))
        remark = "" if same else UNLIKE.get(name, "NOT EXPLAINED")
        print(f"{name:38}{shown}  {remark}{' FUNGRAD IS WRONG' if wrong else ''}".rstrip())
    return bad


def main() -> int:
    """Prints all that differs."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        unexplained = report_calls(sys.argv[1:])
        unexplained += 0 if sys.argv[1:] else report_points()
    print(f"\n{unexplained} without an explanation")
    return 1 if unexplained else 0


if __name__ == "__main__":
    raise SystemExit(main())
