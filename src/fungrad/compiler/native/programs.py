"""Native programs of Graphs of small arrays and loops: the scalarising walk with the IR emitter."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native import short_sorts
from fungrad.compiler.native.block_sums import type_of_sum
from fungrad.compiler.native.element_operations import (
    TYPES,
    apply,
    cost,
    known,
    of_python,
    type_of,
)
from fungrad.compiler.native.generators import Generator
from fungrad.compiler.native.index_maps import SHORT
from fungrad.compiler.native.kernel import Kernel
from fungrad.compiler.native.llvm_ir import FLOATS
from fungrad.compiler.native.matrix_forms import ALONG, FORMS, along, axes_of
from fungrad.compiler.native.scalar_emitter import NativeEmitter
from fungrad.compiler.native.written_numbers import Writing
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.refusal import Refusal, Refused, refusal
from fungrad.compiler.scalar import element_rules
from fungrad.compiler.scalar.emitter import Costs, Elements, Number, Stack, shaped
from fungrad.compiler.scalar.planning import ElementRule, Elementwise, Planner, Structural
from fungrad.compiler.scalar.scalarise import Scalariser
from fungrad.compiler.scalar.structural import structural
from fungrad.control_flow.call import call
from fungrad.ir.graph import Equation, Graph, Literal, Variable
from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.ufuncs import power
from fungrad.primitives.linalg.cholesky_qr import cholesky
from fungrad.primitives.linalg.determinant import cofactors, det, slogdet
from fungrad.primitives.linalg.finite import finite
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.linalg.spectra import eigenspaces, eigvalsh
from fungrad.primitives.movement.gather import getitem
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum
from fungrad.primitives.reduction.reduce import reduce_prod
from fungrad.rematerialisation.checkpoint import checkpointed
from fungrad.retracing.inlining import copied

_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
COSTS = Costs(operation=0.5, pick=0.5, assign=0.2, trips=100)
"""Nanoseconds, and the assumed trip count of loops of unknown length."""


def _refusal(graph: Graph) -> Refusal | None:
    """Why numbers do not compute a Graph, by its arguments and results; None if they may."""
    for type_ in [v.type for v in (*graph.inputs, *graph.outputs)]:
        if type_.dtype not in TYPES:
            return refusal(f"arguments or results of {type_}", "dtype")
    return None


def _kernel(graph: Graph, longest: int = 0) -> Kernel:
    """The native program of a Graph of small arrays, loops and branches.

    Args:
      graph: the Graph.
      longest: the most lines of IR of a program without loops; 0 for the usual limit.

    Raises:
      Refused: if the plan meets other equations, or the program would be too long.
    """
    graph = optimised(graph)
    inputs, outputs = [v.type for v in graph.inputs], [a.type for a in graph.outputs]
    leaves, records = _needs(graph)
    longest = tuned.loop_lines if leaves else longest or _longest(graph)
    emitter = NativeEmitter(len(inputs), len(outputs), leaves, records, longest)
    walk = Scalariser(Planner(emitter, ELEMENTWISE, RULES, _structural, COSTS))
    written = sum([type_.size for type_ in outputs if type_.size <= emitter.size])
    if walk.plans.plan(graph).operations + 2 * written > longest:
        raise Refused("too many operations", "long")
    given = [emitter.argument(place, type_) for place, type_ in enumerate(inputs)]
    results = walk.graph(graph, given)
    for place, (value, type_) in enumerate(zip(results, outputs, strict=True)):
        emitter.result(place, value, type_)
    emitter.finish()
    return Kernel(
        emitter.module, inputs, outputs, scratch=emitter.scratch, cost_ns=walk.cost,
        interruptible=leaves, constants=emitter.constants,
    )  # fmt: skip


scalar_kernel = Generator(_kernel, _refusal)
long_kernel = Generator(functools.partial(_kernel, longest=tuned.lines), _refusal)
"""`scalar_kernel` of a program of any length, where loops over arrays are not possible."""


def _longest(graph: Graph) -> int:
    """The most lines of IR of a program without loops, before others are tried."""
    sizes = [v.type.size for equation in graph.equations for v in equation.outputs]
    return tuned.lines if max(sizes, default=0) < tuned.lane_elements else tuned.straight_lines


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
            records = records or held.tape
            for body, _ in held.bodies(equation):
                inner = _needs(optimised(body))
                leaves, records = leaves or inner[0], records or inner[1]
        leaves = leaves or (primitive is getitem and len(equation.inputs) > 1)
        leaves = leaves or primitive in LEAVING or of_python(equation)
    return leaves, records


def _getitem(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    """The rule of getitem, also for elements of a long array, which are loaded from memory."""
    x, *arrays = inputs
    if not isinstance(x, Stack) or arrays:
        known: ElementRule = element_rules.RULES[getitem]
        return known.write(walk, equation, [*map(walk.whole, inputs)])
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
    if not known(equation.primitive) or any(dtype not in TYPES for dtype in dtypes):
        return None
    return cost(equation)


def _elementwise(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    emitter: Any = walk.emitter
    primitive: Any = equation.primitive
    dtype, params = equation.outputs[0].type.dtype, equation.params
    examples = [
        np.zeros((), atom.type.dtype).item() if atom.type.weak else atom.type.dtype
        for atom in equation.inputs
    ]
    computed = np.result_type(*examples)
    python = of_python(equation)
    literals = [isinstance(a, Literal) and type(a.value) in PYTHON_SCALARS for a in equation.inputs]

    def one(*parts: Number) -> Number:
        given = [
            x.number if literal or (primitive is power and i and x.number is not None)
            else emitter.value(x)
            for i, (x, literal) in enumerate(zip(parts, literals, strict=True))
        ]  # fmt: skip
        if not any(hasattr(x, "text") for x in given):
            given = [emitter.value(x) for x in parts]
        if python:
            emitter.unbounded(equation, given)
        found = apply(emitter.code, primitive, given, dtype, params, computed)
        emitter.code.overflown = ""
        return Number(found, dtype)

    spread = np.broadcast_arrays(*inputs) if len(inputs) > 1 else inputs
    found = [one(*parts) for parts in zip(*[x.reshape(-1) for x in spread], strict=True)]
    walk.pay(cost(equation) * len(found))
    emitter.check_length()
    return [shaped(found, spread[0].shape)]


def _finite(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    code = walk.emitter.code
    for number in inputs[0].reshape(-1):
        x = walk.emitter.value(number)
        if x.type in FLOATS:
            walk.emitter.must(code.compare("oeq", code.sub(x, x), 0.0))
    return inputs


def _added_in_single(rule: ElementRule) -> ElementRule:
    """The rule of a primitive that adds or multiplies many numbers, for which NumPy rounds halves
    at the end alone; sums of rows are rounded one by one.
    """

    def write(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
        out = equation.outputs[0].type
        if out.dtype != np.float16:
            return rule.write(walk, equation, inputs)
        type = "float" if equation.primitive is not reduce_sum else type_of_sum(equation)
        if type == "i1":
            raise Refused("a sum of halves along axes that are not adjacent", equation=equation)
        if type == "half":
            return rule.write(walk, equation, inputs)
        float32 = np.dtype(np.float32)
        given = tuple([Variable(Type(a.type.shape, float32)) for a in equation.inputs])
        single = copied(equation, given, (Variable(Type(out.shape, float32)),))

        def converted(x: Elements, dtype: Any) -> Elements:
            found = [Number(walk.emitter.converted(n, type_of(dtype)), dtype) for n in x.flat]
            return shaped(found, x.shape)

        wide = [converted(x, float32) for x in inputs]
        return [converted(x, out.dtype) for x in rule.write(walk, single, wide)]

    return rule._replace(write=write)


def _formed(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    """An equation on matrices by its form; what has no solution leaves the program to NumPy."""
    form, types = FORMS[equation.primitive], [v.type for v in equation.outputs]
    on, axes = _writing(walk, equation, inputs[0].shape[-form.axes :], form.rows), form.axes
    leading = np.broadcast_shapes(*[x.shape[:-axes] for x in inputs])
    given = [np.broadcast_to(x, (*leading, *x.shape[-axes:])) for x in inputs]
    found = [np.empty(type_.shape, object) for type_ in types]
    for index in np.ndindex(*leading):
        made = form.write(on, *[on.elements(x[index]) for x in given], **equation.params)
        for x, result in zip(made, found, strict=True):
            result[index] = on.numbers(x)[()]
    return found


def _formed_along(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    """As `_formed`, of an equation along one short axis."""
    if len(axes_of(equation)) != 1 or len({x.shape for x in inputs}) != 1:
        raise Refused(equation.primitive.name)
    (axis,) = axes_of(equation)
    on = _writing(walk, equation, [inputs[0].shape[axis]], SHORT)
    given = [np.moveaxis(x, axis, -1) for x in inputs]
    found = np.empty(equation.outputs[0].type.shape, object)
    rows = np.moveaxis(found, axis, -1) if found.ndim == inputs[0].ndim else found
    for index in np.ndindex(given[0].shape[:-1]):
        made = along(on, equation, *[list(on.elements(x[index])) for x in given])
        rows[index] = on.numbers(np.array(made, object))[()]
    return [found]


def _writing(walk: Any, equation: Equation, lengths: Sequence[int], most: int) -> Writing:
    """The arithmetic of a form on the equation's numbers.

    Raises:
      Refused: if they are no floats, or too many.
    """
    dtype = equation.outputs[0].type.dtype
    if dtype not in _FLOATS or not all(0 < n <= most for n in lengths):
        raise Refused(f"{equation.primitive.name} of {equation.inputs[0].type}")
    return Writing(walk, dtype)


LEAVING = frozenset(
    (
        inv,
        solve,
        cholesky,
        cofactors,
        det,
        slogdet,
        eigvalsh,
        eigenspaces,
        finite,
        *short_sorts.RULES,
    )
)
"""Primitives that leave the program to NumPy for some numbers."""
ADDING = (reduce_sum, reduce_prod, dot_general)
RULES = {
    **dict.fromkeys(FORMS, ElementRule(_formed)),
    **dict.fromkeys(ALONG, ElementRule(_formed_along)),
    **element_rules.RULES,
    **{primitive: _added_in_single(element_rules.RULES[primitive]) for primitive in ADDING},
    finite: ElementRule(_finite),
    **short_sorts.RULES,
    getitem: ElementRule(_getitem, moves=True, long=True),
}
del RULES[power]
ELEMENTWISE = Elementwise(_price, _elementwise)
