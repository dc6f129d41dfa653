"""The expressions of primitives of linear algebra, imported with the first Graph that has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.ir.graph import Equation
from fungrad.primitives.linalg import lapack_calls, substitution
from fungrad.primitives.linalg.solve import solve


def _solve(equation: Equation, arguments: Sequence[str], names: Any) -> str | None:
    if equation.params["triangle"]:
        return None
    small = equation.inputs[0].type.shape[-1] <= substitution.LEAST
    function = lapack_calls.solve if small else substitution.solved
    return f"{names.constant('solve', function)}({', '.join(arguments)})"


RULES = {solve: _solve}
"""See `numpy_expressions.WRITTEN`."""
