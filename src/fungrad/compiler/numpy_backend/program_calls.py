"""Equations that call a program in place of others, in Graphs that are lowered."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from fungrad.ir.graph import Equation, Graph
from fungrad.primitives.primitive import Primitive, primitives
from fungrad.retracing.inlining import placed


def program_call(
    name: str, like: Equation, runner: Any, inputs: Sequence[Any], outputs: Sequence[Any],
    members: Sequence[Equation] = (),
) -> Equation:  # fmt: skip
    """The equation that calls a program in place of `members`, equations such as `like`."""
    types = tuple([v.type for v in outputs])
    params = {"runner": runner, "types": types, "members": tuple(members)}
    return placed(like, called(name), tuple(inputs), tuple(outputs), params)


@functools.cache
def called(name: str) -> Primitive:
    """The primitive of calls of some name."""
    made = Primitive(
        name,
        eval=lambda *args, runner, types, members: runner(*args),
        type=lambda *args, runner, types, members: types,
        fresh=True,
        multiple=True,
        module=__name__,
    )
    del primitives[made.module, made.name]  # only in lowered Graphs, which nothing transforms
    return made


def in_order(equations: Sequence[Equation], graph: Graph) -> list[Equation]:
    """The equations, each after its operands, otherwise in the order of the Graph."""
    position = {v: n for n, e in enumerate(graph.equations) for v in e.outputs}
    maker = {v: e for e in equations for v in e.outputs}
    done: set[Equation] = set()
    ordered: list[Equation] = []
    for last in sorted(equations, key=lambda e: min([position[v] for v in e.outputs])):
        stack = [last]
        while stack:
            equation = stack[-1]
            before = [maker[a] for a in equation.inputs if a in maker]
            missing = [e for e in before if e not in done]
            if equation in done or not missing:
                stack.pop()
                if equation not in done:
                    done.add(equation)
                    ordered.append(equation)
            else:
                stack.append(missing[0])
    return ordered
