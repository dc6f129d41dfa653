"""Stacks of small matrices as arithmetic on their elements, for loops over the stack.

A product, determinant, inverse, system or Cholesky factor of matrices of a few rows becomes
equations on the elements of all matrices, as do products along a short axis; vector loops compute
many matrices at once. Systems without a solution are noticed, and left to NumPy, which raises.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.gathers import bounds, indirect
from fungrad.compiler.native.generators import unfit, unlike
from fungrad.compiler.native.index_maps import SHORT, WIDEST
from fungrad.compiler.native.llvm_ir import FLOATS
from fungrad.compiler.native.matrix_forms import ALONG, FORMS, Elements, along, axes_of
from fungrad.compiler.native.restaging import restaged
from fungrad.compiler.refusal import Refused
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.ir.types import Type
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    moveaxis,
    reduce_sum,
    reshape,
    transpose,
)
from fungrad.primitives.movement.stack_iota import stack
from fungrad.primitives.reduction.reduce import reduce_max
from fungrad.retracing.graph_transforms import memoised
from fungrad.tracing.trace import shape_of


def unrollable(equation: Equation) -> bool:
    """Whether an equation on a stack of small matrices has a form on their elements."""
    primitive: Any = equation.primitive
    if primitive is dot_general:
        return _is_small_product(equation) or times_vector(equation)
    form = FORMS.get(primitive)
    if form is None and primitive not in ALONG:
        return False
    if unfit(equation, FLOATS[:2]) is not None:
        return False
    shapes: list[tuple[int, ...]] = [a.type.shape for a in equation.inputs]
    if form is None:
        return _is_along_one_short_axis(equation, shapes)
    count = max([math.prod(shape[: -form.axes]) for shape in shapes], default=0)
    matrices = [shape[-form.axes :] for shape in shapes]
    return count >= tuned.stacked_matrices and all(
        0 < n <= form.rows for matrix in matrices for n in matrix
    )


def _is_along_one_short_axis(equation: Equation, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether operands of these shapes are a large stack of short vectors."""
    axes = axes_of(equation)
    if len(axes) != 1 or len(set(shapes)) != 1 or not 1 < shapes[0][axes[0]] <= SHORT:
        return False
    others = [n for axis, n in enumerate(shapes[0]) if axis not in axes]
    return max(others, default=0) >= tuned.stacked_matrices


def numpy_ns(equation: Equation) -> float:
    """An estimate of NumPy's time for such an equation."""
    if equation.primitive in ALONG:
        return 2.0 * equation.inputs[0].type.size
    shape = max([a.type.shape for a in (*equation.inputs, *equation.outputs)], key=math.prod)
    size = math.prod(shape)
    count = size // max(1, math.prod(shape[-2:]))
    if times_vector(equation):
        return 0.2 * size
    if equation.primitive is dot_general and not unrollable(equation):
        summed = equation.params["contract"][0]
        terms: int = math.prod([equation.inputs[0].type.shape[i] for i in summed])
        size = terms * equation.outputs[0].type.size
        return tuned.blas_term_ns * size
    if equation.primitive is dot_general:
        return count * tuned.matrix_ns + size
    return 2.0 * count * tuned.matrix_ns + tuned.factor_ns * size


def unrolled(graph: Graph) -> tuple[Graph, bool]:
    """The Graph with arithmetic in place of such equations; and whether it has one more output,
    the number 1.0 if the work is for NumPy: a matrix has no inverse, or an index is out of bounds.
    """
    if not any(unrollable(e) or indirect(e) for e in graph.equations):
        return graph, False
    found: tuple[Graph, bool] = memoised(graph, "unrolled", lambda: _unrolled(graph))
    return found


def with_narrow_products(graph: Graph) -> tuple[Graph, bool]:
    """`unrolled`, with arithmetic in place of narrow products, too."""
    found: tuple[Graph, bool] = memoised(
        graph, "narrow products", lambda: _unrolled(graph, also=is_narrow_product)
    )
    return found


def is_narrow_product(equation: Equation) -> bool:
    """Whether an equation is a product along one long axis, with short ones beside it."""
    if equation.primitive is not dot_general or unlike(equation, FLOATS[:2]) is not None:
        return False
    x, out = equation.inputs[0].type, equation.outputs[0].type
    summed = [x.shape[i] for i in equation.params["contract"][0]]
    lengths = [*out.shape, *summed]
    long = [n for n in lengths if n > WIDEST]
    short = math.prod(lengths) // math.prod(long) if long else 0
    if len(long) != 1 or long[0] < tuned.stacked_matrices:
        return False
    batch = long[0] in [x.shape[i] for i in equation.params["batch"][0]]
    least, most = tuned.narrow_terms, tuned.narrow_batch_terms
    return least <= short <= (most if batch else least)


class _OfArrays:
    """Arithmetic on arrays that a trace records.

    Attributes:
      wrong: the conditions where the program is left to NumPy.
    """

    select = staticmethod(select)

    def __init__(self) -> None:
        self.wrong: list[Any] = []
        self.leave = self.wrong.append

    def typed(self, number: float, like: Any) -> Any:
        return broadcast_to(like.dtype.type(number), shape=shape_of(like))

    def double(self, x: Any) -> Any:
        return cast(x, np.float64)


def _unrolled(
    graph: Graph, also: Callable[[Equation], bool] = lambda e: False
) -> tuple[Graph, bool]:
    on = _OfArrays()
    wrong = on.wrong

    def run(*args: Any) -> list[Any]:
        wrong.clear()
        tested = set[tuple[Atom, int]]()
        values: dict[Atom, Any] = dict(zip(graph.inputs, args, strict=True))
        values.update(graph.constants)

        def read(atom: Atom) -> Any:
            return atom.value if isinstance(atom, Literal) else values[atom]

        for equation in graph.equations:
            xs = list(map(read, equation.inputs))
            for atom, length in bounds(equation) if indirect(equation) else ():
                if (atom, length) not in tested:
                    tested.add((atom, length))
                    wrong.extend(_outside(read(atom), length))
            if unrollable(equation) or also(equation):
                found = _outputs(equation, xs, on)
            else:
                primitive: Any = equation.primitive
                made = primitive(*xs, **equation.params)
                found = made if primitive.multiple else [made]
            values.update(zip(equation.outputs, found, strict=True))
        total = [_any(wrong)] if wrong else []
        return [*map(read, graph.outputs), *total]

    made = restaged(graph, run, [v.type for v in graph.inputs], "unrolled")
    return made, bool(wrong)


def _outside(indices: Any, length: int) -> list[Any]:
    """Whether indices are out of bounds, as a list of conditions; of known ones none.

    Raises:
      Refused: if known ones are.
    """
    found = (indices < -length) | (indices >= length)
    if type(indices) is not np.ndarray:
        return [found]
    if found.any():
        raise Refused("an index out of bounds")
    return []


def _any(conditions: Sequence[Any]) -> Any:
    """1.0 if one of some arrays of conditions holds anywhere, else 0.0."""
    by_shape: dict[Any, Any] = {}
    for condition in conditions:
        shape = shape_of(condition)
        known = by_shape.get(shape)
        by_shape[shape] = condition if known is None else known | condition
    found = []
    for shape, condition in by_shape.items():
        total = select(condition, np.float64(1.0), np.float64(0.0))
        found.append(reduce_max(total, axes=tuple(range(len(shape)))) if shape else total)
    return functools.reduce(np.maximum, found)


def _outputs(equation: Equation, xs: Sequence[Any], on: _OfArrays) -> Sequence[Any]:
    primitive: Any = equation.primitive
    if primitive is dot_general and times_vector(equation):
        return [_times_vector(equation, *xs)]
    if primitive is dot_general:
        return [_product(*xs, **equation.params, dtype=equation.outputs[0].type.dtype)]
    if primitive in ALONG:
        (axis,) = axes_of(equation)
        rows = [[x[(slice(None),) * axis + (k,)] for k in range(shape_of(x)[axis])] for x in xs]
        made = along(on, equation, *rows)
        return [moveaxis(stack(*made), 0, axis) if isinstance(made, list) else made]
    form = FORMS[primitive]
    leading = np.broadcast_shapes(*[shape_of(x)[: -form.axes] for x in xs])
    given = [_split(_broadcast(x, leading, form.axes), form.axes) for x in xs]
    made = form.write(on, *given, **equation.params)
    return [
        cast(_joined(x, out.type), out.type.dtype)
        for x, out in zip(made, equation.outputs, strict=True)
    ]


def _broadcast(x: Any, leading: Sequence[int], axes: int) -> Any:
    shape = (*leading, *shape_of(x)[-axes:])
    return x if shape_of(x) == shape else broadcast_to(x, shape=shape)


def _split(x: Any, count: int) -> Elements:
    """The elements along the last axes of a value."""
    shape = shape_of(x)
    found = np.empty(shape[len(shape) - count :], object)
    for place in np.ndindex(*found.shape):
        found[place] = x[(..., *place)]
    return found


def _joined(elements: Elements, type_: Type) -> Any:
    """The value of elements along its last axes."""
    if type(elements) is not np.ndarray:
        return elements
    leading = type_.shape[: len(type_.shape) - elements.ndim]
    rows = np.empty(elements.shape, object)
    for place in np.ndindex(*elements.shape):
        x = elements[place]
        same = shape_of(x) == leading
        rows[place] = x if same else broadcast_to(type_.dtype.type(x), shape=leading)
    return _stacked(rows)


def _stacked(rows: Elements) -> Any:
    parts = [row if rows.ndim == 1 else _stacked(row) for row in rows]
    return _along_axis(parts, 1 - rows.ndim)


def _along_axis(parts: Sequence[Any], axis: int) -> Any:
    """Values, stacked along a new axis, which is counted from the last one (0)."""
    return moveaxis(stack(*parts), 0, len(shape_of(parts[0])) + axis)


# --- products -------------------------------------------------------------------------------------


def _is_small_product(equation: Equation) -> bool:
    """Whether a product has a long axis in its result, and short ones beside it."""
    if unfit(equation, FLOATS[:2]) is not None:
        return False
    x, out = equation.inputs[0].type, equation.outputs[0].type
    summed = [x.shape[i] for i in equation.params["contract"][0]]
    short = [n for n in (*out.shape, *summed) if n <= SHORT]
    long = [n for n in out.shape if n > SHORT]
    batch = [x.shape[i] for i in equation.params["batch"][0]]
    if max(summed, default=1) > SHORT or math.prod(short) > tuned.unrolled_terms or 0 in short:
        return False
    return len(long) == 1 and long[0] >= tuned.stacked_matrices and long[0] in batch


def times_vector(equation: Equation) -> bool:
    """Whether an equation is the product of a long matrix with a vector, along one axis of each."""
    if equation.primitive is not dot_general or any(equation.params["batch"]):
        return False
    if unlike(equation, FLOATS[:2]) is not None:
        return False
    x, y = [a.type for a in equation.inputs]
    contract = equation.params["contract"]
    shape = max(x.shape, y.shape, key=len)
    return (
        len(contract[0]) == 1
        and {x.ndim, y.ndim} == {1, 2}
        and math.prod(shape) >= tuned.vector_product
    )


def matrix_of(equation: Equation) -> tuple[int, int]:
    """The number of the operand of a product with a vector that is the matrix, and its axis along
    which terms are added.
    """
    which = int(equation.inputs[1].type.ndim == 2)
    return which, equation.params["contract"][which][0]


def _times_vector(equation: Equation, *xs: Any) -> Any:
    """A product with a vector as a sum of the matrix's elements times those of the vector."""
    which, axis = matrix_of(equation)
    matrix, vector = xs[which], xs[1 - which]
    shape = shape_of(matrix)
    lined = reshape(vector, shape=tuple([n if i == axis else 1 for i, n in enumerate(shape)]))
    return reduce_sum(matrix * broadcast_to(lined, shape=shape), axes=(axis,))


def _product(x: Any, y: Any, *, contract: Any, batch: Any, dtype: Any) -> Any:
    """A product as a sum of products of elements along the contracted axes."""
    shapes = shape_of(x), shape_of(y)
    free = [[i for i in range(len(s)) if i not in (*contract[n], *batch[n])]
            for n, s in enumerate(shapes)]  # fmt: skip
    left = transpose(x, axes=(*batch[0], *free[0], *contract[0]))
    right = transpose(y, axes=(*batch[1], *free[1], *contract[1]))
    ahead, first, second = (len(axes) for axes in (batch[0], free[0], free[1]))
    s, t = shape_of(left), shape_of(right)
    left = reshape(left, shape=(*s[: ahead + first], *[1] * second, *s[ahead + first :]))
    right = reshape(right, shape=(*t[:ahead], *[1] * first, *t[ahead:]))
    terms = cast(left, dtype) * cast(right, dtype)
    count = len(contract[0])
    if not count:
        return terms
    ndim = len(shape_of(terms))
    return reduce_sum(terms, axes=tuple(range(ndim - count, ndim)))


UNROLLED = frozenset((*FORMS, *ALONG, dot_general))
"""The primitives of equations that may be `unrollable`."""
