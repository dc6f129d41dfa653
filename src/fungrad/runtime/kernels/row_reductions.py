"""Reductions of blocks along their last axes, and copies along them, in the calls that
take least.

NumPy's loops run along the last axis: of 2 to 8 elements they take 4 to 25 times as long as a call
for each of these, and of more, in sums, 1.5 to 5 times as long as BLAS's products with ones. The
numbers are equal to rounding. Knows equations, and how many threads the BLAS has.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation
from fungrad.runtime.blas_threads import single_in_regions

FEW = 8
"""The most terms that are taken one at a time."""
ENOUGH = 500
"""The fewest elements of a term for which that takes less: shorter ones take longer to call for."""

Places = Sequence[tuple[Any, ...]]


def terms(shape: Sequence[int], axes: Collection[int]) -> Places | None:
    """The indices of what is reduced along some axes, the last among them; None where they are many
    or one.
    """
    count = math.prod(shape[axis] for axis in axes)
    if len(shape) - 1 not in axes or not 1 < count <= FEW:
        return None
    whole = slice(None)
    return list(
        itertools.product(*[range(n) if i in axes else (whole,) for i, n in enumerate(shape)])
    )


def by_terms(ufunc: np.ufunc, x: Any, places: Places, out: Any) -> None:
    """Writes a reduction of two terms of x or more."""
    first, second, *others = places
    ufunc(x[first], x[second], out=out)
    for place in others:
        ufunc(out, x[place], out=out)
    if ufunc is np.add:  # NumPy begins with 0.0, which -0.0 does not outlive
        ufunc(out, 0.0, out=out)


def row_sums(ndim: int) -> Any:
    """The function f(x, ones, out=z) that adds up rows: a BLAS's product of a matrix and a vector
    where that takes one thread.
    """
    return np.matmul if ndim == 2 and single_in_regions() else np.vecdot


def spreads(equation: Equation) -> bool:
    """Whether an equation broadcasts one element along a last axis of few."""
    before, after = equation.inputs[0].type.shape, equation.outputs[0].type.shape
    return before[-1:] == (1,) and 1 < after[-1] <= FEW


def spread(out: Any, x: Any) -> None:
    """Writes x, of which all elements along the last axis are one, element by element of that."""
    for i in range(out.shape[-1]):
        np.copyto(out[..., i], x[..., 0])


__all__ = ["ENOUGH", "FEW", "by_terms", "row_sums", "spread", "spreads", "terms"]
