"""Floor 6: rules that replace an equation by one of its inputs or by a cheaper twin, exactly.

Only what holds for every float, NaN, infinities and the zeros of both signs included: x * 1 is x,
but x + 0 is not (-0.0 + 0.0 is 0.0), nor is x * 0. Each rule is (primitive name, reason, function).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.optimise.rewrite import copied, rewritten
from fungrad.primitives.elementwise import broadcast_shapes
from fungrad.primitives.shaping import broadcast_to


class Rule(NamedTuple):
    """`replace(equation, inputs)` gives the atom that the output is equal to, or None."""

    primitives: tuple[str, ...]
    reason: str
    replace: Callable[[Equation, tuple[Atom, ...]], Atom | None]


def _is(atom: Atom, number: float) -> bool:
    return isinstance(atom, Literal) and bool(atom.value == number)


def _same(x: Atom, equation: Equation) -> Atom | None:
    """x, where it is all that the equation gives, type included."""
    return x if x.type == equation.outputs[0].type else None


def _times_one(equation: Equation, inputs: tuple[Atom, ...]) -> Atom | None:
    x, y = inputs
    return _same(x, equation) if _is(y, 1) else _same(y, equation) if _is(x, 1) else None


def _over_one(equation: Equation, inputs: tuple[Atom, ...]) -> Atom | None:
    return _same(inputs[0], equation) if _is(inputs[1], 1) else None


def _nothing_done(equation: Equation, inputs: tuple[Atom, ...]) -> Atom | None:
    return _same(inputs[0], equation)


def _axes_in_order(equation: Equation, inputs: tuple[Atom, ...]) -> Atom | None:
    axes = equation.params["axes"]
    return _same(inputs[0], equation) if tuple(axes) == tuple(sorted(axes)) else None


RULES = (
    Rule(("mul",), "x * 1 is x", _times_one),
    Rule(("div", "power"), "x / 1 and x ** 1 are x", _over_one),
    Rule(("convert", "reshape", "broadcast_to"), "to what it is already", _nothing_done),
    Rule(("transpose",), "axes in their order", _axes_in_order),
)
_BY_NAME = {name: rule for rule in RULES for name in rule.primitives}


def simplified(graph: Graph) -> Graph:
    """Applies the rules once along the Graph, and reads through broadcasts that NumPy does by
    itself.
    """
    made: dict[int, Equation] = {}

    def replace(equation: Equation) -> Equation | tuple[Atom, ...]:
        new = copied(equation, _without_broadcasts(equation, made), equation.outputs)
        rule = _BY_NAME.get(equation.primitive.name)
        same = None if rule is None else rule.replace(new, new.inputs)
        if same is not None:
            return (same,)
        made.update((id(output), new) for output in new.outputs)
        return new

    return rewritten(graph, replace)


def _without_broadcasts(equation: Equation, made: dict[int, Equation]) -> tuple[Atom, ...]:
    """The inputs of an elementwise equation before they were broadcast, where its shape stays."""
    primitive: Any = equation.primitive
    inputs = equation.inputs
    if primitive.partials is None:
        return inputs
    for position, atom in enumerate(inputs):
        source = made.get(id(atom))
        if source is None or source.primitive is not broadcast_to:
            continue
        tried = (*inputs[:position], source.inputs[0], *inputs[position + 1 :])
        if tried[position].type.weak or tried[position].type.dtype != atom.type.dtype:
            continue
        if _shape(tried) == equation.outputs[0].type.shape:
            inputs = tried
    return inputs


def _shape(inputs: tuple[Atom, ...]) -> tuple[int, ...]:
    return broadcast_shapes("an elementwise equation", [a.type for a in inputs])
