"""Compares two results: in every bit, or up to the differences that rounding can cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FACTOR = 16.0  # times the largest distance among noisy runs
RUNS = (6, 40)  # the second number only before reporting a disagreement


def same(a: Any, b: Any) -> bool:
    """Whether two arrays are the same bit for bit, except for the payload of NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    return bool(np.all(_places(a, b)))


def _native(a: Any) -> Any:
    """The array in the machine's byte order, which fungrad's results and most of NumPy's have."""
    a = np.asarray(a)
    return a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("="))


def _parts(a: Any) -> Any:
    """Real and imaginary parts along a first axis."""
    return np.stack([a.real, a.imag]) if a.dtype.kind == "c" else a[None]


def _equal(a: Any, b: Any) -> Any:
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def difference(
    expected: Sequence[Any], found: Sequence[Any], noisy: Callable[[int], list[list[Any]]] | None,
    signs: bool = True,
) -> str:  # fmt: skip
    """The error of `found`, or "".

    `noisy(n)` returns n results of noisy runs, the first one without noise; None compares every
    bit. Without `signs`, zeros of either sign are the same.
    """
    if len(expected) != len(found):
        return f"{len(found)} results for {len(expected)}"
    for i, (e, f) in enumerate(zip(expected, found, strict=True)):
        e, f = _native(e), _native(f)
        if e.dtype != f.dtype or e.shape != f.shape:
            return f"output {i} is {f.dtype}{list(f.shape)} for {e.dtype}{list(e.shape)}"
        if not signs and e.dtype.kind in "fc":
            e, f = e + e.dtype.type(0), f + f.dtype.type(0)
        if same(e, f):
            continue
        if noisy is None or e.dtype.kind == "O":
            return _told(i, e, f, ~_places(e, f))
        for runs in RUNS:
            bad = _bad(e, f, [r[i] for r in noisy(runs)])
            if not bad.any():
                break
        else:
            return _told(i, e, f, bad)
    return ""


def _places(e: Any, f: Any) -> Any:
    if e.dtype.kind not in "fc":
        return e == f
    if e.dtype.kind == "c":  # one part NaN is NaN; whether there is an infinity beside it counts
        both = np.isnan(e) & np.isnan(f) & (np.isinf(e) == np.isinf(f))
        return np.all(_equal(_parts(e), _parts(f)), axis=0) | both
    return _equal(e, f)


def _bad(e: Any, f: Any, runs: list[Any]) -> Any:
    """Flags where `f` is further from `e` than noise explains."""
    with np.errstate(all="ignore"):
        if e.dtype.kind not in "fc":
            apart = np.zeros(e.shape, bool)
            for run in runs[1:]:
                apart |= run != runs[0]
            return (e != f) & ~apart
        wide = np.complex128 if e.dtype.kind == "c" else np.float64
        base = runs[0].astype(wide)
        reach = np.zeros(e.shape)
        moved = np.zeros(e.shape, bool)  # an infinity, NaN or sign comes or goes
        for run in runs[1:]:
            run = run.astype(wide)
            away = np.abs(run - base)
            moved |= np.any(np.isfinite(_parts(run)) != np.isfinite(_parts(base)), axis=0)
            moved |= np.any(~np.isfinite(_parts(base)) & ~_equal(_parts(run), _parts(base)), axis=0)
            reach = np.maximum(reach, np.where(np.isnan(away), 0.0, away))
            reach = np.maximum(reach, np.where(_places(run, base), 0.0, 5e-324))
        equal = _places(e, f)
        small = np.abs(f.astype(wide) - e.astype(wide)) <= FACTOR * reach
        # A sum of zeros, and a zero that noise turns, has either sign.
        return ~(equal | moved | (small & (reach > 0)))


def _told(i: int, e: Any, f: Any, bad: Any) -> str:
    places = np.argwhere(bad)
    first = tuple(int(k) for k in places[0]) if len(places) else ()
    return f"output {i} at {first}: {f[first]!r} for {e[first]!r}" + (
        f", and at {len(places) - 1} more of {e.size}" if len(places) > 1 else ""
    )
