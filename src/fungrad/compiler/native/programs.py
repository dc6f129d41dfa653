"""Native programs of Graphs of small arrays and loops: the scalarising walk with the IR emitter."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.compiler.lowering.scalar import element_rules
from fungrad.compiler.lowering.scalar.emitter import Costs, Elements, Stack, Unsupported, shaped
from fungrad.compiler.lowering.scalar.emitter import Value as Number
from fungrad.compiler.lowering.scalar.planning import Elementwise, Planner, Rule, Structural
from fungrad.compiler.lowering.scalar.scalar_program import structural
from fungrad.compiler.lowering.scalar.scalarise import Scalariser
from fungrad.compiler.native import small_matrices
from fungrad.compiler.native.element_operations import TYPES, apply, cost, known, of_python
from fungrad.compiler.native.kernel import Kernel, Refused
from fungrad.compiler.native.scalar_emitter import NativeEmitter
from fungrad.compiler.passes.pipeline import optimised
from fungrad.control_flow.call import call
from fungrad.ir.graph import Equation, Graph, Literal
from fungrad.ir.types import PYTHON_SCALARS
from fungrad.primitives.elementwise.ufuncs import power
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.movement.gather import getitem
from fungrad.rematerialisation.checkpoint import checkpointed

RULES = {**element_rules.RULES, **small_matrices.RULES}
del RULES[power]
COSTS = Costs(operation=0.5, pick=0.5, assign=0.2, trips=100)
"""Nanoseconds, and the assumed trip count of loops of unknown length."""


def scalar_kernel(graph: Graph) -> Kernel:
    """The native program of a Graph of small arrays, loops and branches.

    Raises:
      Refused: if it has other equations, or its program would be too long.
    """
    try:
        return _written(optimised(graph))
    except Unsupported as error:
        raise Refused(str(error)) from None


def _written(graph: Graph) -> Kernel:
    inputs, outputs = [v.type for v in graph.inputs], [a.type for a in graph.outputs]
    leaves, records = _needs(graph)
    emitter = NativeEmitter(len(inputs), len(outputs), leaves, records)
    walk = Scalariser(Planner(emitter, ELEMENTWISE, RULES, _structural, COSTS))
    for type_ in (*inputs, *outputs):
        if type_.dtype not in emitter.dtypes:
            raise Unsupported(f"arguments or results of {type_}")
    given = [emitter.argument(place, type_) for place, type_ in enumerate(inputs)]
    results = walk.graph(graph, given)
    for place, (value, type_) in enumerate(zip(results, outputs, strict=True)):
        emitter.result(place, value, type_)
    emitter.finish()
    return Kernel(
        emitter.module, inputs, outputs, scratch=emitter.memory.size, cost_ns=walk.cost,
        interruptible=leaves, constants=emitter.constants,
    )  # fmt: skip


def _structural(primitive: Any) -> Structural | None:
    """The Structural of a primitive, as in Python programs; a checkpoint is a call."""
    return structural(call if primitive is checkpointed else primitive)


def _needs(graph: Graph) -> tuple[bool, bool]:
    """Whether the program may return early, and whether it records residuals."""
    leaves = records = False
    for equation in graph.equations:
        primitive: Any = equation.primitive
        held = _structural(primitive)
        if held is not None:
            leaves = leaves or primitive not in (call, checkpointed)
            records = records or primitive.name.endswith(("_record", "_pullback"))
            for body, _ in held.bodies(equation):
                inner = _needs(optimised(body))
                leaves, records = leaves or inner[0], records or inner[1]
        leaves = leaves or (primitive is getitem and len(equation.inputs) > 1)
        leaves = leaves or primitive in (inv, solve) or of_python(equation)
    return leaves, records


def _getitem(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    """The rule of getitem, also for elements of a long array, which are loaded from memory."""
    x, *arrays = inputs
    if not isinstance(x, Stack) or arrays:
        return element_rules.RULES[getitem].write(walk, equation, [walk.whole(x), *arrays])
    walk.plans.check(equation.outputs[0].type)
    shape = [n for axis, n in enumerate(x.type.shape) if axis != x.axis]
    found, entries = np.empty(equation.outputs[0].type.shape, object), equation.params["index"]
    places = [axis[entries.entries] for axis in np.indices(x.type.shape, np.int32)]
    for place in np.ndindex(*found.shape):
        at = [int(axis[place]) for axis in places]
        row = walk.emitter.code.constant(at.pop(x.axis), "i64", 1)
        number = x.start + int(np.ravel_multi_index(at, shape)) if shape else x.start
        found[place] = Number(walk.emitter.memory.read(x.rows, number, row), x.type.dtype)
    return [found]


# --- elementwise equations ------------------------------------------------------------------------


def _price(emitter: Any, equation: Equation) -> float | None:
    dtypes = [atom.type.dtype for atom in (*equation.inputs, *equation.outputs)]
    if not known(equation.primitive.name) or any(dtype not in TYPES for dtype in dtypes):
        return None
    return cost(equation)


def _elementwise(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    emitter: Any = walk.emitter
    primitive: Any = equation.primitive
    dtype, name, params = equation.outputs[0].type.dtype, primitive.name, equation.params
    examples = [
        np.zeros((), atom.type.dtype).item() if atom.type.weak else atom.type.dtype
        for atom in equation.inputs
    ]
    computed = np.result_type(*examples)
    python = of_python(equation)
    literals = [isinstance(a, Literal) and type(a.value) in PYTHON_SCALARS for a in equation.inputs]

    def one(*parts: Number) -> Number:
        given = [
            x.number if literal or (name == "power" and i and x.number is not None)
            else emitter.value(x)
            for i, (x, literal) in enumerate(zip(parts, literals, strict=True))
        ]  # fmt: skip
        if not any(hasattr(x, "text") for x in given):
            given = [emitter.value(x) for x in parts]
        if python:
            emitter.unbounded(equation, given)
        found = apply(emitter.code, name, given, dtype, params, computed)
        emitter.code.overflown = ""
        return Number(found, dtype)

    spread = np.broadcast_arrays(*inputs) if len(inputs) > 1 else inputs
    found = [one(*parts) for parts in zip(*[x.reshape(-1) for x in spread], strict=True)]
    walk.pay(cost(equation) * len(found))
    emitter.check_length()
    return [shaped(found, spread[0].shape)]


ELEMENTWISE = Elementwise(_price, _elementwise)
RULES[getitem] = Rule(_getitem, moves=True, long=True)
