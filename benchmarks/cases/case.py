"""What a case is: one derivative, written once for all libraries, and once more by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arguments = Callable[[], tuple[Any, ...]]

ARRAYS = "arrays"
"""Work on whole arrays."""
ELEMENTWISE = "elementwise"
"""Elementwise functions of 1e5 doubles and more, and a sum."""
LOOP = "loop"
"""A sequential loop whose body does next to nothing."""


@dataclass(frozen=True)
class Case:
    """A derivative that is timed.

    `derivative(np, ad)` makes it out of a namespace of arrays and one of derivatives, with JAX's
    names (`ad.grad`, `ad.lax.scan`). `by_hand` takes the same arguments and returns the same tree.
    """

    name: str
    derivative: Callable[[Any, Any], Callable[..., Any]]
    by_hand: Callable[..., Any]
    arguments: Arguments
    tiny: Arguments
    kind: str = ARRAYS
    without: tuple[str, ...] = ()
    """Libraries that lack what it takes, or would take minutes."""
    large: bool = False
    """Whether it runs by `--large` only."""


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    """Normal numbers, the same at every call."""
    return scale * _generator(seed).normal(size=shape)


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, seed: int = 0) -> Any:
    """Uniform numbers, the same at every call."""
    return _generator(seed).uniform(low, high, size=shape)


def one_hot(rows: int, classes: int, seed: int = 0) -> Any:
    """Rows of zeros with a single one."""
    return np.eye(classes)[_generator(seed).integers(0, classes, rows)]


def sums(rows: Any, where: Any, count: int) -> Any:
    """Row i of the result is the sum of the rows with `where` i: faster than np.add.at."""
    columns = [np.bincount(where, rows[:, j], count) for j in range(rows.shape[1])]
    return np.stack(columns, axis=1)


def _generator(seed: int) -> Any:
    return np.random.default_rng(seed)
