"""Stacks of small matrices as arithmetic on their elements, for loops over the stack.

A product, determinant, inverse, system or Cholesky factor of matrices of a few rows becomes
equations on the elements of all matrices, as do products along a short axis; vector loops compute
many matrices at once. Systems without a solution are noticed, and left to NumPy, which raises.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.gathers import bounds, indirect
from fungrad.compiler.native.index_maps import SHORT, WIDEST
from fungrad.compiler.native.jacobi_rotations import diagonalised
from fungrad.compiler.passes.pipeline import as_optimised
from fungrad.compiler.refusal import Refused
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.ir.types import Type
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.linalg.cholesky_pullback import cholesky_pullback
from fungrad.primitives.linalg.cholesky_qr import cholesky, hermitian_weights
from fungrad.primitives.linalg.determinant import cofactors, det, slogdet
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.linalg.spectra import eigenspaces, eigvalsh, shares
from fungrad.primitives.movement.diagonal_roll import from_diagonal
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    moveaxis,
    reduce_sum,
    reshape,
    transpose,
)
from fungrad.primitives.movement.stack_iota import stack
from fungrad.primitives.reduction.cumulative import cumprod, cumsum, linear_recurrence
from fungrad.primitives.reduction.reduce import product_of_others, reduce_max, reduce_prod
from fungrad.retracing.graph_transforms import drop_dead, memoised
from fungrad.support.lazy import Record
from fungrad.support.rules import Rules
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.provenance import Provenance, replayed
from fungrad.tracing.trace import shape_of

_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
Elements = Any
"""An array of objects: for each index along the short axes, the values along the others."""


class Form(Record):
    """An equation on the elements of its operands.

    Attributes:
      write: `write(wrong, *elements, **params)`, the elements of the results; conditions that are
        appended to `wrong` leave the program to NumPy where they hold.
      rows: the most elements of each short axis.
      axes: how many axes after those of the stack the operands have.
    """

    write: Callable[..., Sequence[Elements]]
    rows: int
    axes: int = 2


FORMS = Rules(Form)
"""Equations on matrices."""


def unrollable(equation: Equation) -> bool:
    """Whether an equation on a stack of small matrices has a form on their elements."""
    primitive: Any = equation.primitive
    if primitive is dot_general:
        return _is_small_product(equation) or times_vector(equation)
    atoms = (*equation.inputs, *equation.outputs)
    if any(a.type.dtype not in _FLOATS for a in atoms):
        return False
    if any(isinstance(a, Literal) for a in equation.inputs):
        return False
    shapes: list[tuple[int, ...]] = [a.type.shape for a in equation.inputs]
    if primitive in ALONG:
        axes = _axes(equation)
        others = [n for axis, n in enumerate(shapes[0]) if axis not in axes]
        one = len(axes) == 1 and len(set(shapes)) == 1
        return (
            one
            and 1 < shapes[0][axes[0]] <= SHORT
            and max(others, default=0) >= tuned.stacked_matrices
        )
    form = FORMS.get(primitive)
    if form is None:
        return False
    count = max([math.prod(shape[: -form.axes]) for shape in shapes], default=0)
    matrices = [shape[-form.axes :] for shape in shapes]
    return count >= tuned.stacked_matrices and all(
        0 < n <= form.rows for matrix in matrices for n in matrix
    )


def on_elements(equation: Equation) -> tuple[Graph, bool] | None:
    """An equation of one matrix, or a stack of any size, as `unrolled`; None if it has no form."""
    form = FORMS.get(equation.primitive)
    atoms = (*equation.inputs, *equation.outputs)
    if form is None and equation.primitive not in ALONG:
        return None
    if any(a.type.dtype not in _FLOATS or isinstance(a, Literal) for a in atoms):
        return None
    lengths = [n for a in equation.inputs for n in a.type.shape[-form.axes :]] if form else []
    most = form.rows if form else SHORT
    if not form:
        lengths = [equation.inputs[0].type.shape[axis] for axis in _axes(equation)]
        if len(lengths) != 1 or len({a.type.shape for a in equation.inputs}) > 1:
            return None
    if not all(0 < n <= most for n in lengths):
        return None
    inputs: Any = tuple(dict.fromkeys(equation.inputs))
    return _unrolled(Graph(inputs, (), (equation,), tuple(equation.outputs)), whole=True)


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
    if equation.primitive is not dot_general:
        return False
    (x, y), out = [a.type for a in equation.inputs], equation.outputs[0].type
    if any(t.dtype not in _FLOATS or t.dtype != out.dtype for t in (x, y)):
        return False
    if any(isinstance(a, Literal) for a in equation.inputs):
        return False
    summed = [x.shape[i] for i in equation.params["contract"][0]]
    lengths = [*out.shape, *summed]
    long = [n for n in lengths if n > WIDEST]
    short = math.prod(lengths) // math.prod(long) if long else 0
    if len(long) != 1 or long[0] < tuned.stacked_matrices:
        return False
    batch = long[0] in [x.shape[i] for i in equation.params["batch"][0]]
    least, most = tuned.narrow_terms, tuned.narrow_batch_terms
    return least <= short <= (most if batch else least)


def _unrolled(
    graph: Graph, whole: bool = False, also: Callable[[Equation], bool] = lambda e: False
) -> tuple[Graph, bool]:
    """`unrolled`; with all equations in place of those on long stacks if it is the `whole`."""
    wrong: list[Any] = []

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
            if whole or unrollable(equation) or also(equation):
                found = _outputs(equation, xs, wrong)
            else:
                primitive: Any = equation.primitive
                made = primitive(*xs, **equation.params)
                found = made if primitive.multiple else [made]
            values.update(zip(equation.outputs, found, strict=True))
        total = [_any(wrong)] if wrong else []
        return [*map(read, graph.outputs), *total]

    types = [v.type for v in graph.inputs]
    token = replayed.set(Provenance(None, "", 0))
    try:
        with np.errstate(all="ignore"):
            made = stage(run, types, [""] * len(types), lambda: "unrolled", graph.name)
    finally:
        replayed.reset(token)
    made = drop_dead(made.choosing(reassociate=graph.reassociate))
    return as_optimised(made), bool(wrong)


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
    by_shape: dict[Any, list[Any]] = {}
    for condition in conditions:
        number = select(condition, np.float64(1.0), np.float64(0.0))
        by_shape.setdefault(shape_of(number), []).append(number)
    found = []
    for shape, numbers in by_shape.items():
        total = functools.reduce(np.maximum, numbers)
        found.append(reduce_max(total, axes=tuple(range(len(shape)))) if shape else total)
    return functools.reduce(np.maximum, found)


def _outputs(equation: Equation, xs: Sequence[Any], wrong: list[Any]) -> Sequence[Any]:
    primitive: Any = equation.primitive
    if primitive is dot_general and times_vector(equation):
        return [_times_vector(equation, *xs)]
    if primitive is dot_general:
        return [_product(*xs, **equation.params, dtype=equation.outputs[0].type.dtype)]
    if primitive in ALONG:
        return _along(equation, xs)
    form = FORMS[primitive]
    leading = np.broadcast_shapes(*[shape_of(x)[: -form.axes] for x in xs])
    given = [_split(_broadcast(x, leading, form.axes), form.axes) for x in xs]
    made = form.write(wrong, *given, **equation.params)
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
    (x, y), out = [a.type for a in equation.inputs], equation.outputs[0].type
    types = (x, y, out)
    if any(t.dtype.kind != "f" or t.dtype.itemsize < 4 for t in types) or len(out.shape) < 1:
        return False
    if any(isinstance(a, Literal) for a in equation.inputs):
        return False
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
    (x, y), out = [a.type for a in equation.inputs], equation.outputs[0].type
    if any(t.dtype != out.dtype or t.dtype not in _FLOATS for t in (x, y)):
        return False
    if any(isinstance(a, Literal) for a in equation.inputs):
        return False
    contract = equation.params["contract"]
    shape = max(x.shape, y.shape, key=len)
    return (
        len(contract[0]) == 1
        and {x.ndim, y.ndim} == {1, 2}
        and (math.prod(shape) >= tuned.vector_product and 0 not in shape)
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


# --- factorisations -------------------------------------------------------------------------------


def _select(condition: Any, x: Any, y: Any) -> Any:
    return select(condition, x, y)


class _Factors:
    """The upper triangles of matrices, by elimination with exchanges of rows.

    Attributes:
      rows: the rows after elimination, each with what stood after it.
      sign: the signs of the permutations.
      singular: whether a pivot is zero.
      unbounded: whether a pivot is NaN or infinite, as of each matrix that is not finite.
    """

    def __init__(self, rows: list[list[Any]], count: int) -> None:
        self.rows, self.count, self.sign = rows, count, None
        for k in range(count):
            for i in range(k + 1, count):
                larger = abs(rows[i][k]) > abs(rows[k][k])
                for n in range(k, len(rows[k])):
                    x, y = rows[k][n], rows[i][n]
                    if x is y:
                        continue
                    rows[k][n], rows[i][n] = _select(larger, y, x), _select(larger, x, y)
                turned = _select(larger, -1.0, 1.0)
                self.sign = turned if self.sign is None else self.sign * turned
            for i in range(k + 1, count):
                factor = rows[i][k] / rows[k][k]
                for n in range(k + 1, len(rows[i])):
                    rows[i][n] = rows[i][n] - factor * rows[k][n]
        pivots = [rows[k][k] for k in range(count)]
        self.singular = functools.reduce(_or, [p == 0.0 for p in pivots])
        self.unbounded = functools.reduce(_or, [p - p != 0.0 for p in pivots])

    def solution(self) -> list[list[Any]]:
        """By back substitution."""
        found: list[list[Any]] = []
        for k in reversed(range(self.count)):
            row = self.rows[k][self.count :]
            for j, below in zip(range(self.count - 1, k, -1), found, strict=True):
                row = [x - self.rows[k][j] * y for x, y in zip(row, below, strict=True)]
            found.append([x / self.rows[k][k] for x in row])
        return found[::-1]


def _or(x: Any, y: Any) -> Any:
    return x | y


def _rows(a: Elements) -> list[list[Any]]:
    return [list(row) for row in a]


def _matrix(rows: Sequence[Sequence[Any]]) -> Elements:
    found = np.empty((len(rows), len(rows[0])), object)
    for i, j in np.ndindex(*found.shape):
        found[i, j] = rows[i][j]
    return found


def _filled(shape: Sequence[int], x: Any) -> Elements:
    return _matrix([[x] * shape[1]] * shape[0])


def _zero(a: Elements) -> Any:
    """Zeros of the kind of a matrix's elements."""
    return _typed(a, 0.0)


def _typed(a: Elements, number: float) -> Any:
    x = a.reshape(-1)[0]
    return broadcast_to(x.dtype.type(number), shape=shape_of(x))


@FORMS.rule(solve, rows=tuned.unrolled_rows)
def _solve(wrong: list[Any], a: Elements, b: Elements, *, triangle: str) -> Sequence[Elements]:
    if triangle:
        return [_substituted(wrong, a, b, triangle == "lower")]
    rows = [[*x, *y] for x, y in zip(a, b, strict=True)]
    factors = _Factors(rows, len(a))
    wrong += [factors.singular, factors.unbounded]
    return [_matrix(factors.solution())]


def _substituted(wrong: list[Any], a: Elements, b: Elements, lower: bool) -> Elements:
    count, found = len(a), dict[int, list[Any]]()
    order = range(count) if lower else range(count - 1, -1, -1)
    for k in order:
        row = list(b[k])
        for j, x in found.items():
            row = [y - a[k, j] * z for y, z in zip(row, x, strict=True)]
        found[k] = [y / a[k, k] for y in row]
    wrong.append(functools.reduce(_or, [a[k, k] == 0.0 for k in range(count)]))
    return _matrix([found[k] for k in range(count)])


@FORMS.rule(inv, rows=tuned.unrolled_rows)
def _inv(wrong: list[Any], a: Elements) -> Sequence[Elements]:
    zero, one = _zero(a), _typed(a, 1.0)
    eye = [[one if i == j else zero for j in range(len(a))] for i in range(len(a))]
    return _solve(wrong, a, _matrix(eye), triangle="")


@FORMS.rule(slogdet, rows=tuned.unrolled_rows)
def _slogdet(wrong: list[Any], a: Elements) -> Sequence[Elements]:
    factors = _Factors(_rows(a), len(a))
    wrong.append(factors.unbounded)
    pivots = [factors.rows[k][k] for k in range(len(a))]
    sign = _signs(factors, pivots)
    logs = functools.reduce(lambda x, y: x + y, [np.log(abs(p)) for p in pivots])
    return [
        _select(factors.singular, 0.0, sign),
        _select(factors.singular, float("-inf"), logs),
    ]


def _signs(factors: _Factors, pivots: Sequence[Any]) -> Any:
    sign = factors.sign
    for p in pivots:
        own = _select(p < 0.0, -1.0, 1.0)
        sign = own if sign is None else sign * own
    return sign


@FORMS.rule(det, rows=tuned.unrolled_rows)
def _det(wrong: list[Any], a: Elements) -> Sequence[Elements]:
    factors = _Factors(_rows(a), len(a))
    wrong.append(factors.unbounded)
    pivots = [factors.rows[k][k] for k in range(len(a))]
    size = _of_extremes([abs(p) for p in pivots])
    return [_select(factors.singular, 0.0, _signs(factors, pivots) * size)]


def _of_extremes(sizes: list[Any]) -> Any:
    """The product of positive numbers, which overflows only if the exact product does: of the
    largest and the smallest first.
    """
    while len(sizes) > 2:
        for end in range(len(sizes) - 1, 0, -1):  # sorted
            for i in range(end):
                x, y = sizes[i], sizes[i + 1]
                sizes[i], sizes[i + 1] = np.minimum(x, y), np.maximum(x, y)
        half = len(sizes) // 2
        middle = sizes[half : half + len(sizes) % 2]
        sizes = [x * y for x, y in zip(sizes[:half], reversed(sizes), strict=False)] + middle
    return sizes[0] * sizes[1] if len(sizes) == 2 else sizes[0]


@FORMS.rule(cofactors, rows=tuned.unrolled_minors)
def _cofactors(wrong: list[Any], a: Elements) -> Sequence[Elements]:
    """The minors, with signs; NaN for matrices that are not finite."""
    count = len(a)
    everywhere = functools.reduce(lambda x, y: x + y, [x * 0.0 for x in a.reshape(-1)])
    minors: dict[tuple[Any, Any], Any] = {((), ()): None}
    for size in range(1, count):
        for rows in itertools.combinations(range(count), size):
            for columns in itertools.combinations(range(count), size):
                minors[rows, columns] = _expanded(a, rows, columns, minors)
    found = np.empty((count, count), object)
    for i, j in np.ndindex(count, count):
        rest = [tuple([k for k in range(count) if k != n]) for n in (i, j)]
        minor = minors[rest[0], rest[1]]
        minor = _typed(a, 1.0) if minor is None else minor
        found[i, j] = everywhere + (-minor if (i + j) % 2 else minor)
    return [found]


def _expanded(a: Elements, rows: Any, columns: Any, minors: Mapping[Any, Any]) -> Any:
    """A minor, expanded along its first row."""
    total = None
    for n, column in enumerate(columns):
        rest = minors[rows[1:], (*columns[:n], *columns[n + 1 :])]
        term = a[rows[0], column] if rest is None else a[rows[0], column] * rest
        total = term if total is None else total - term if n % 2 else total + term
    return total


@FORMS.rule(cholesky, rows=tuned.unrolled_rows)
def _cholesky(wrong: list[Any], a: Elements) -> Sequence[Elements]:
    count, zero = len(a), _zero(a)
    found = _filled((count, count), zero)
    for j in range(count):
        pivot = a[j, j]
        for k in range(j):
            pivot = pivot - found[j, k] * found[j, k]
        wrong.append(~(pivot > 0.0))
        found[j, j] = np.sqrt(pivot)
        for i in range(j + 1, count):
            total = a[i, j]
            for k in range(j):
                total = total - found[i, k] * found[j, k]
            found[i, j] = total / found[j, j]
    return [found]


@FORMS.rule(cholesky_pullback, rows=tuned.unrolled_rows)
def _cholesky_pullback(wrong: list[Any], y: Elements, ct: Elements) -> Sequence[Elements]:
    """The steps of `_cholesky` backwards."""
    count, g = len(y), ct.copy()
    for j in reversed(range(count)):
        for i in reversed(range(j + 1, count)):
            g[i, j] = g[i, j] / y[j, j]
            g[j, j] = g[j, j] - g[i, j] * y[i, j]
            for k in range(j):
                g[i, k] = g[i, k] - g[i, j] * y[j, k]
                g[j, k] = g[j, k] - g[i, j] * y[i, k]
            g[i, j] = g[j, i] = 0.5 * g[i, j]
        g[j, j] = 0.5 * (g[j, j] / y[j, j])
        for k in range(j):
            g[j, k] = g[j, k] - 2.0 * (g[j, j] * y[j, k])
    return [g]


@FORMS.rule(eigvalsh, rows=tuned.unrolled_spectra)
def _eigvalsh(wrong: list[Any], a: Elements, *, lower: bool) -> Sequence[Elements]:
    return _eigenspaces(wrong, a, lower=lower)[:1]


@FORMS.rule(eigenspaces, rows=tuned.unrolled_spectra)
def _eigenspaces(wrong: list[Any], a: Elements, *, lower: bool) -> Sequence[Elements]:
    """In double precision, as NumPy's."""
    count, given = len(a), a if lower else a.T
    below = {(i, j): cast(given[i, j], np.float64) for i in range(count) for j in range(i + 1)}
    w, v, done = diagonalised(below, count)
    wrong.append(~done)
    values = np.empty(count, object)
    values[:] = w
    return [values, _matrix(v)]


@FORMS.rule(hermitian_weights, rows=tuned.unrolled_rows)
def _weights(wrong: list[Any], a: Elements, *, lower: bool) -> Sequence[Elements]:
    count, dtype = len(a), a[0, 0].dtype
    size = functools.reduce(np.maximum, [abs(x) for x in a.reshape(-1)])
    pairs = [(i, j) for i in range(count) for j in range(i)]
    one = _typed(a, 1.0)
    if not pairs:
        return [_filled((1, 1), one)]
    error = functools.reduce(np.maximum, [abs(a[i, j] - a[j, i]) for i, j in pairs])
    diagonals = functools.reduce(lambda x, y: x + y, [a[k, k] * 0.0 for k in range(count)])
    hermitian = np.maximum(error, diagonals) <= 4 * count * np.finfo(dtype).eps * size
    found = _filled((count, count), one)
    for i, j in pairs:
        inside, beyond = _select(hermitian, one, 2.0), _select(hermitian, one, 0.0)
        found[i, j], found[j, i] = (inside, beyond) if lower else (beyond, inside)
    return [found]


@FORMS.rule(shares, rows=tuned.unrolled_rows, axes=1)
def _shares(wrong: list[Any], w: Elements) -> Sequence[Elements]:
    limit = 4 * len(w) * float(np.finfo(w[0].dtype).eps)
    found, one, zero = _filled((len(w), len(w)), None), _typed(w, 1.0), _zero(w)
    for i, j in np.ndindex(*found.shape):
        near = abs(w[i] - w[j]) <= limit * np.maximum(abs(w[i]), abs(w[j]))
        found[i, j] = _select(near, one, zero)
    for row in found:
        total = functools.reduce(lambda x, y: x + y, row)
        row[:] = [x / total for x in row]
    return [found]


@FORMS.rule(from_diagonal, rows=tuned.unrolled_rows, axes=1)
def _from_diagonal(
    wrong: list[Any], x: Elements, *, offset: int, shape: tuple[int, int]
) -> Sequence[Elements]:
    found = _filled(shape, _zero(x))
    for k, element in enumerate(x):
        found[k - min(offset, 0), k + max(offset, 0)] = element
    return [found]


# --- along one axis -------------------------------------------------------------------------------


def _axes(equation: Equation) -> tuple[int, ...]:
    params = equation.params
    return tuple(params["axes"]) if "axes" in params else (params["axis"],)


def _along(equation: Equation, xs: Sequence[Any]) -> Sequence[Any]:
    (axis,), params = _axes(equation), equation.params
    given = [[x[(slice(None),) * axis + (k,)] for k in range(shape_of(x)[axis])] for x in xs]
    reverse = params.get("reverse", False)
    if reverse:
        given = [x[::-1] for x in given]
    found = ALONG[equation.primitive](*given)
    if not isinstance(found, list):
        return [found]
    return [moveaxis(stack(*(found[::-1] if reverse else found)), 0, axis)]


ALONG = Rules()
"""Equations along one short axis, on the list of its elements."""


def _accumulated(operation: Callable[[Any, Any], Any], xs: list[Any]) -> list[Any]:
    return list(itertools.accumulate(xs, operation))


@ALONG.rule(cumsum)
def _sums(xs: list[Any]) -> list[Any]:
    return _accumulated(lambda x, y: x + y, xs)


@ALONG.rule(cumprod)
def _products(xs: list[Any]) -> list[Any]:
    return _accumulated(lambda x, y: x * y, xs)


@ALONG.rule(reduce_prod)
def _of_all(xs: list[Any]) -> Any:
    return functools.reduce(lambda x, y: x * y, xs)


@ALONG.rule(linear_recurrence)
def _recurrence(a: list[Any], u: list[Any]) -> list[Any]:
    found = [u[0]]
    for x, y in zip(a[1:], u[1:], strict=True):
        found.append(x * found[-1] + y)
    return found


@ALONG.rule(product_of_others)
def _others(xs: list[Any]) -> list[Any]:
    one = broadcast_to(xs[0].dtype.type(1), shape=shape_of(xs[0]))
    before = _accumulated(lambda x, y: x * y, [one, *xs[:-1]])
    after = _accumulated(lambda x, y: x * y, [one, *xs[:0:-1]])[::-1]
    return [x * y for x, y in zip(before, after, strict=True)]


UNROLLED = frozenset((*FORMS, *ALONG, dot_general))
"""The primitives of equations that may be `unrollable`."""
