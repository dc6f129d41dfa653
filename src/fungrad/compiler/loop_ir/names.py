"""Names of constants in a program, and what its expressions look like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from fungrad.ir.graph import Equation
from fungrad.ir.types import Type


class Names(Protocol):
    """The constants of a program, and what its expressions look like."""

    def constant(self, wished: str, value: Any) -> str:
        """The expression of a constant: a name, the wished one if it is free, or a text."""

    def dtype(self, dtype: np.dtype[Any]) -> str:
        """The expression of a dtype, as an argument."""

    def number(self, dtype: np.dtype[Any]) -> str | None:
        """The function that casts a number to a dtype; None if `eval` is called for numbers."""

    def filled(self, function: str, type_: Type, *values: Any) -> str:
        """The call of `np.empty`, `np.zeros` or `np.full` that makes an array of a Type."""

    def part(self, x: str, entries: Sequence[Any], arrays: Sequence[str]) -> str | None:
        """The elements of x at an index."""

    def reduced(self, x: str, type_: Type, ufunc: np.ufunc, axes: tuple[int, ...]) -> str:
        """The reduction of x, of a Type, over axes."""

    def product(self, equation: Equation, arguments: Sequence[str]) -> str | None:
        """A dot_general."""
