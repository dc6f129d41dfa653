"""Which equations compute each element from the elements at the same position."""

from __future__ import annotations

from typing import Any

from fungrad.ir.graph import Equation
from fungrad.primitives.movement.reshape_broadcast_cast import convert, to_discrete

CASTS = (convert, to_discrete)


def elementwise(equation: Equation) -> bool:
    """Whether each element of the output depends only on the elements at the same position."""
    primitive: Any = equation.primitive
    if primitive in CASTS:
        kinds = equation.inputs[0].type.dtype.kind + equation.outputs[0].type.dtype.kind
        return "O" not in kinds and kinds not in ("cf", "ci", "cb", "cu")
    if primitive.partials is None or primitive.multiple:
        return False
    return all(a.type.dtype.kind != "O" for a in (*equation.inputs, *equation.outputs))
