"""Native programs of Graphs of small arrays and loops: the scalarising walk with the IR emitter."""

from __future__ import annotations

import functools
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
from fungrad.compiler.native.elementary_functions import FUNCTIONS
from fungrad.compiler.native.generators import Generator
from fungrad.compiler.native.kernel import Kernel
from fungrad.compiler.native.llvm_ir import FLOATS, Value
from fungrad.compiler.native.scalar_emitter import NativeEmitter
from fungrad.compiler.native.short_axes import ALONG, FORMS, on_elements
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
from fungrad.primitives.elementwise.ufuncs import log, power
from fungrad.primitives.linalg.cholesky_qr import cholesky
from fungrad.primitives.linalg.determinant import det, slogdet
from fungrad.primitives.linalg.finite import finite
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.linalg.spectra import eigenspaces, eigvalsh
from fungrad.primitives.movement.diagonal_roll import diagonal, from_diagonal
from fungrad.primitives.movement.gather import getitem
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum
from fungrad.primitives.reduction.reduce import reduce_prod
from fungrad.rematerialisation.checkpoint import checkpointed
from fungrad.retracing.inlining import copied
from fungrad.support.rules import Rules

Row = list[Value]
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


# Small systems of linear equations: a singular matrix leaves the program, so that NumPy raises; and
# so does one that is not finite, where LAPACK places NaN by the pivots that it has chosen.


OF_MATRICES = Rules(ElementRule)
"""Rules for matrices of up to `tuned.unrolled_rows` rows."""


class _Eliminated:
    """The upper triangle of a matrix, with rows in the order of their pivots.

    Args:
      walk: the Scalariser that writes the program.
      rows: the rows of the matrix, each followed by its right-hand sides.
      count: the number of columns of the matrix.
      exchanges: whether rows are exchanged.

    Attributes:
      rows: the rows after elimination.
      sign: the sign of the permutation.
    """

    def __init__(self, walk: Any, rows: list[Row], count: int, exchanges: bool = True) -> None:
        self.code = code = walk.emitter.code
        self.rows, self.count = rows, count
        self.sign = code.constant(1, rows[0][0].type, 1)
        for k in range(count):
            for i in range(k + 1, count if exchanges else k):
                larger = code.compare("ogt", code.fabs(rows[i][k]), code.fabs(rows[k][k]))
                for n in range(k, len(rows[k])):
                    x, y = rows[k][n], rows[i][n]
                    rows[k][n], rows[i][n] = code.select(larger, y, x), code.select(larger, x, y)
                self.sign = code.select(larger, code.neg(self.sign), self.sign)
            for i in range(k + 1, count):
                factor = code.div(rows[i][k], rows[k][k])
                for n in range(k + 1, len(rows[i])):
                    rows[i][n] = code.sub(rows[i][n], code.mul(factor, rows[k][n]))
        walk.pay(walk.costs.operation * count * count * len(rows[0]))
        walk.emitter.check_length()

    def must_be_finite(self, walk: Any) -> None:
        """A matrix that is not finite leaves the program: then a pivot is not, either."""
        code = self.code
        for k in range(self.count):
            pivot = self.rows[k][k]
            walk.emitter.must(code.compare("oeq", code.sub(pivot, pivot), 0.0))

    def solution(self, walk: Any) -> list[Row]:
        """The solution by back substitution; a zero pivot leaves the program."""
        self.must_be_finite(walk)
        code, found = self.code, list[Row]()
        for k in reversed(range(self.count)):
            walk.emitter.must(code.compare("une", self.rows[k][k], 0.0))
            row = self.rows[k][self.count :]
            for j, below in zip(range(self.count - 1, k, -1), found, strict=True):
                row = [
                    code.sub(x, code.mul(self.rows[k][j], y))
                    for x, y in zip(row, below, strict=True)
                ]
            found.append([code.div(x, self.rows[k][k]) for x in row])
        return found[::-1]


def _values(walk: Any, x: Elements, type: str) -> list[Row]:
    if not 0 < len(x) <= tuned.unrolled_rows:
        raise Refused(f"a system of {len(x)} equations")
    return [[walk.emitter.converted(number, type) for number in row] for row in x]


@OF_MATRICES.rule(solve, inv)
def _solve(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    dtype, triangle = equation.outputs[0].type.dtype, equation.params.get("triangle", "")
    type = type_of(dtype)
    a = inputs[0]
    ahead = a.shape[:-2]
    if len(inputs) > 1:
        ahead = np.broadcast_shapes(ahead, inputs[1].shape[:-2])
        b = np.broadcast_to(inputs[1], (*ahead, *inputs[1].shape[-2:]))
        a = np.broadcast_to(a, (*ahead, *a.shape[-2:]))
    count = a.shape[-1]
    result = np.empty((*ahead, count, b.shape[-1] if len(inputs) > 1 else count), object)
    for place in np.ndindex(*ahead):
        rows = _values(walk, a[place], type)
        zero, one = (walk.emitter.code.constant(n, type, 1) for n in (0, 1))
        if triangle:
            outside = np.tri(count, k=-1) if triangle == "upper" else np.tri(count, k=-1).T
            rows = [[zero if outside[i, j] else x for j, x in enumerate(row)]
                    for i, row in enumerate(rows)]  # fmt: skip
        if len(inputs) > 1:
            right = _values(walk, b[place], type)
        else:
            right = [[one if i == j else zero for j in range(count)] for i in range(count)]
        rows = [[*x, *y] for x, y in zip(rows, right, strict=True)]
        if triangle == "lower":  # reversed to an upper triangle
            rows = [[*reversed(row[:count]), *row[count:]] for row in reversed(rows)]
        found = _Eliminated(walk, rows, count, not triangle).solution(walk)
        for i, row in enumerate(reversed(found) if triangle == "lower" else found):
            for j, x in enumerate(row):
                result[(*place, i, j)] = Number(x, dtype)
    return [result]


@OF_MATRICES.rule(slogdet)
def _slogdet(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    (a,), code = inputs, walk.emitter.code
    dtype = equation.outputs[0].type.dtype
    signs, logs = np.empty(a.shape[:-2], object), np.empty(a.shape[:-2], object)
    for place in np.ndindex(*a.shape[:-2]):
        rows = _values(walk, a[place], type_of(dtype))
        found = _Eliminated(walk, rows, a.shape[-1])
        found.must_be_finite(walk)
        sign, total, singular = found.sign, None, None
        for k, row in enumerate(found.rows):
            sign = code.select(code.compare("olt", row[k], 0.0), code.neg(sign), sign)
            size = FUNCTIONS[log](code, code.fabs(row[k]))
            total = size if total is None else code.add(total, size)
            none = code.compare("oeq", row[k], 0.0)
            singular = none if singular is None else code.binary("or", singular, none)
        assert singular is not None
        signs[place] = Number(code.select(singular, 0.0, sign), dtype)
        logs[place] = Number(code.select(singular, float("-inf"), total), dtype)
    return [signs, logs]


@OF_MATRICES.rule(finite)
def _finite(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    code = walk.emitter.code
    for number in inputs[0].reshape(-1):
        x = walk.emitter.value(number)
        if x.type in FLOATS:
            walk.emitter.must(code.compare("oeq", code.sub(x, x), 0.0))
    return inputs


@OF_MATRICES.rule(from_diagonal)
def _from_diagonal(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    primitive: Any = equation.primitive
    (x,) = inputs
    places = primitive.eval(np.arange(1, x.size + 1).reshape(x.shape), **equation.params)
    result = walk.zeros(equation.outputs[0].type)
    result[places > 0] = x.reshape(-1)[places[places > 0] - 1]
    return [result]


@OF_MATRICES.rule(diagonal)
def _diagonal(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    return [np.diagonal(inputs[0], equation.params["offset"], -2, -1)]


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
    """An equation by its form on elements; what has no solution leaves the program to NumPy."""
    found = on_elements(equation)
    if found is None:
        raise Refused(f"{equation.primitive.name} of {equation.outputs[0].type}")
    graph, doubtful = found
    given = dict(zip(equation.inputs, inputs, strict=True))
    results = walk.graph(graph, [given[v] for v in dict.fromkeys(equation.inputs)])
    if doubtful:
        number = walk.emitter.value(results.pop()[()])
        walk.emitter.must(walk.emitter.code.compare("oeq", number, 0.0))
    return list(results)


LEAVING = frozenset(
    (inv, solve, cholesky, det, slogdet, eigvalsh, eigenspaces, finite, *short_sorts.RULES)
)
"""Primitives that leave the program to NumPy for some numbers."""
ADDING = (reduce_sum, reduce_prod, dot_general)
RULES = {
    **dict.fromkeys((*FORMS, *ALONG), ElementRule(_formed)),
    **element_rules.RULES,
    **{primitive: _added_in_single(element_rules.RULES[primitive]) for primitive in ADDING},
    **OF_MATRICES,
    **short_sorts.RULES,
    getitem: ElementRule(_getitem, moves=True, long=True),
}
del RULES[power]
ELEMENTWISE = Elementwise(_price, _elementwise)
