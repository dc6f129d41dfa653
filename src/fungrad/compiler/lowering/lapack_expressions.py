"""Lines of programs that call LAPACK. Imported with the primitives of linear algebra."""

from __future__ import annotations

from collections.abc import Sequence

from fungrad.compiler.lowering.numpy_expressions import WRITTEN, Constant
from fungrad.ir.graph import Equation
from fungrad.primitives.linalg import lapack_calls
from fungrad.primitives.linalg.solve import solve


def _solve(equation: Equation, arguments: Sequence[str], constant: Constant) -> str | None:
    if equation.params["triangle"]:
        return None
    return f"{constant('solve', lapack_calls.solve)}({', '.join(arguments)})"


WRITTEN[solve] = _solve
