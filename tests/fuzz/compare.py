"""Compares two results: in every bit, or up to the differences that rounding can cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.rounding.agreement import disagreement, equal


def same(a: Any, b: Any) -> bool:
    """Whether two arrays are the same bit for bit, except for the payload of NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(np.all(equal(a, b)))


def difference(
    expected: Sequence[Any], found: Sequence[Any], noisy: Callable[[int], list[list[Any]]] | None,
    signs: bool = True,
) -> str:  # fmt: skip
    """The error of `found`, or "".

    `noisy(n)` returns n results of runs, the first one not perturbed; None compares every bit.
    Without `signs`, zeros of either sign are the same.
    """
    if len(expected) != len(found):
        return f"{len(found)} results for {len(expected)}"
    runs = None if noisy is None else lambda count: noisy(count + 1)
    wrong = disagreement(expected, found, runs, signs=signs)
    return "" if wrong is None else str(wrong)
