"""Whether two results of one program agree, up to what rounding can explain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.support.lazy import Record

FACTOR = 16.0
"""Results may differ by so many times the largest distance among perturbed runs."""
RUNS = (2, 6, 40)
"""The numbers of perturbed runs that are compared, one after the other, while two results seem to
differ. A disagreement that a correct program shows by chance gets less likely with each run."""

Runs = Callable[[int], Sequence[Sequence[Any]]]


class Disagreement(Record):
    """The first element at which two results disagree.

    Attributes:
      output: the number of the output.
      element: its index.
      expected, found: the two numbers there, or the types of outputs of different types.
      total: the number of elements that disagree.
    """

    output: int
    element: tuple[int, ...]
    expected: Any
    found: Any
    total: int

    def __str__(self) -> str:
        at = f"[{', '.join(map(str, self.element))}]" if self.element else ""
        more = f", and {self.total - 1} more numbers" if self.total > 1 else ""
        return f"output {self.output}{at} is {self.found} for {self.expected}{more}"


def disagreement(
    expected: Sequence[Any], found: Sequence[Any], runs: Runs | None,
    ulp: Callable[[], float] = float, signs: bool = True, regrouped: bool = False,
    sparse: Callable[[], bool] = bool,
) -> Disagreement | None:  # fmt: skip
    """The first disagreement of two results; None if they agree.

    Args:
      expected: the outputs of the evaluator.
      found: the outputs of another program. Outputs of dtype object (tapes) are not compared.
      runs: `runs(n)` returns the outputs of n perturbed runs of the Graph after those of one that
        is not perturbed. None: every bit is compared.
      ulp: returns by how many units in the last place elements may differ in any case.
      signs: whether zeros of different signs differ.
      regrouped: whether the program used identities of exact arithmetic, which may overflow: half
        of the digits of the largest number of an output have to agree, where both are finite.
      sparse: returns whether the program knows zeros of a Jacobian, which are NaN (0 times
        infinity) in the evaluator.

    What is a function is called only where bits differ.
    """
    for number, (e, f) in enumerate(zip(expected, found, strict=True)):
        e, f = _native(e), _native(f)
        if e.dtype.kind == "O" and runs is not None:
            continue
        if e.dtype != f.dtype or e.shape != f.shape:
            return Disagreement(number, (), _type_text(e), _type_text(f), 1)
        if not signs and e.dtype.kind in "fc":
            e, f = e + e.dtype.type(0), f + f.dtype.type(0)
        apart = ~equal(e, f)
        if not apart.any():
            continue
        if e.dtype.kind in "fc":
            if sparse():
                apart &= ~(np.isnan(e) & (f == 0))
            apart &= ~_tolerated(e, f, ulp(), regrouped)
        for count in RUNS:
            if runs is None or not apart.any():
                break
            base, *perturbed = [_native(run[number]) for run in runs(count)]
            apart &= ~_explained(e, f, base, perturbed)
        if apart.any():
            index = tuple(map(int, np.argwhere(apart)[0]))
            return Disagreement(number, index, e[index], f[index], int(apart.sum()))
    return None


def _type_text(x: Any) -> str:
    return f"{x.dtype}[{', '.join(map(str, x.shape))}]"


def _tolerated(e: Any, f: Any, ulp: float, regrouped: bool) -> Any:
    """Where two arrays are as near as any two programs may be."""
    if regrouped:
        return _alike(e, f)
    return _near(e, f, ulp) if ulp else np.zeros(e.shape, np.bool_)


def _native(x: Any) -> Any:
    """An array in the machine's byte order."""
    x = np.asarray(x)
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def equal(a: Any, b: Any) -> Any:
    """Where two arrays have equal numbers: the same bits, or NaN."""
    if a.dtype.kind not in "fc":
        return np.asarray(a == b)
    if a.dtype.kind == "c":
        # One part NaN is NaN; beside an infinity it is an infinity whose direction is unknown: of a
        # product that overflows NumPy's loops with multiply-adds know it, and others do not.
        unknown = (np.isnan(a) | np.isnan(b)) & np.isinf(a) & np.isinf(b)
        neither = np.isnan(a) & np.isnan(b) & ~np.isinf(a) & ~np.isinf(b)
        return np.asarray(np.all(_equal(_parts(a), _parts(b)), axis=0) | unknown | neither)
    return np.asarray(_equal(a, b))


def _equal(a: Any, b: Any) -> Any:
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def _parts(a: Any) -> Any:
    """Real and imaginary parts along a first axis."""
    return np.stack([a.real, a.imag]) if a.dtype.kind == "c" else a[None]


def _near(e: Any, f: Any, ulp: float) -> Any:
    """Where two finite numbers are a few units in the last place apart."""
    with np.errstate(all="ignore"):
        return np.abs(f - e) <= ulp * np.spacing(np.abs(e))


def _alike(e: Any, f: Any) -> Any:
    """Where a number is not finite, or half of the digits of the largest one agree."""
    finite = np.isfinite(e) & np.isfinite(f)
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(e), initial=0.0, where=finite)
        return ~finite | (np.abs(f - e) <= np.sqrt(np.finfo(e.dtype).eps) * largest)


def _explained(e: Any, f: Any, base: Any, runs: Sequence[Any]) -> Any:
    """Where the distance of f from e is explained by that of perturbed runs from the base."""
    with np.errstate(all="ignore"):
        if e.dtype.kind not in "fc":
            return np.any([run != base for run in runs], axis=0)
        wide = np.complex128 if e.dtype.kind == "c" else np.float64
        e, f, base = e.astype(wide), f.astype(wide), base.astype(wide)
        reach = np.zeros(e.shape)
        moved = np.zeros(e.shape, bool)  # an infinity or NaN comes or goes
        finite = np.isfinite(_parts(base))
        for run in [run.astype(wide) for run in runs]:
            moved |= np.any(np.isfinite(_parts(run)) != finite, axis=0)
            moved |= np.any(~finite & ~_equal(_parts(run), _parts(base)), axis=0)
            away = np.abs(run - base)
            reach = np.maximum(reach, np.where(np.isnan(away), 0.0, away))
            reach = np.maximum(reach, np.where(equal(run, base), 0.0, 5e-324))  # a zero's sign
        return moved | ((np.abs(f - e) <= FACTOR * reach) & (reach > 0))
