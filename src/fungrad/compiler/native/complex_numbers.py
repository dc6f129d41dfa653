"""Complex Graphs as Graphs of real numbers, from which native code is made.

A complex value of shape s is an array of shape (*s, 2) for equations that hold Graphs, as it is in
memory; elsewhere it is a pair, of its real and its imaginary part.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.native.restaging import restaged
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.passes.simplify.driver import choices
from fungrad.compiler.refusal import Refused
from fungrad.compiler.scalar.structural import structural
from fungrad.control_flow.loop_bodies import Halves, body_counts, halves_key, halves_of
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.ir.types import Type
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise import family, ufuncs
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.diagonal_roll import diagonal, roll
from fungrad.primitives.movement.gather import getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    concatenate,
    conj,
    convert,
    flip,
    full,
    pad,
    reduce_sum,
    reshape,
    slice_axis,
    to_discrete,
    transpose,
)
from fungrad.primitives.movement.scatter import index_add, index_set
from fungrad.primitives.movement.stack_iota import stack, unstack
from fungrad.primitives.primitive import Primitive
from fungrad.rematerialisation.checkpoint import checkpointed
from fungrad.retracing.graph_transforms import (
    Differentiated,
    differentiate,
    memoised,
    pullback_graph,
)
from fungrad.support.lazy import Record
from fungrad.tracing.trace import Tracer, shape_of

Parts = tuple[Any, Any]
"""The real and the imaginary part of a value."""


def real_form(graph: Graph) -> Graph:
    """The Graph on real numbers: the same arrays, with an axis of parts after those of complex
    ones; the Graph itself if it has none.

    Raises:
      Refused: if an operation on complex numbers has no rule.
    """
    if not graph.complex:
        return graph
    graph = optimised(graph)
    found: Graph = memoised(graph, ("real form", choices(graph)), lambda: _real_form(graph))
    return found


def _is_complex(atom: Atom) -> bool:
    return atom.type.dtype.kind == "c"


def part_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of complex numbers; a real dtype itself."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _real_type(type_: Type) -> Type:
    if type_.dtype.kind != "c":
        return type_
    return Type((*type_.shape, 2), part_dtype(type_.dtype))


class _Complex:
    """A complex value: its parts, or one array of both; the other is made when it is read."""

    def __init__(self, parts: Parts | None, whole: Any = None) -> None:
        self._parts, self._whole = parts, whole

    @property
    def parts(self) -> Parts:
        if self._parts is None:
            self._parts = self._whole[..., 0], self._whole[..., 1]
        return self._parts

    @property
    def whole(self) -> Any:
        if self._whole is None:
            shape = (*shape_of(self.parts[0]), 1)
            parts = [reshape(x, shape=shape) for x in self.parts]
            self._whole = concatenate(*parts, axis=len(shape) - 1)
        return self._whole


def _real_form(graph: Graph) -> Graph:
    def run(*args: Any) -> list[Any]:
        values: dict[Atom, Any] = {}
        for variable, x in zip(graph.inputs, args, strict=True):
            values[variable] = _Complex(None, x) if _is_complex(variable) else x
        for variable, x in graph.constants:
            values[variable] = _constant(x) if _is_complex(variable) else x

        def read(atom: Atom) -> Any:
            if not isinstance(atom, Literal):
                return values[atom]
            return _constant(atom.value) if _is_complex(atom) else atom.value

        for equation in graph.equations:
            found = _outputs(equation, list(map(read, equation.inputs)))
            values.update(zip(equation.outputs, found, strict=True))
        return [_whole(read(atom)) for atom in graph.outputs]

    return restaged(graph, run, [_real_type(v.type) for v in graph.inputs], "real_form")


def _constant(x: Any) -> _Complex:
    x = np.asarray(x)
    whole = np.ascontiguousarray(x).view(part_dtype(x.dtype)).reshape(*x.shape, 2)
    return _Complex((x.real.copy()[()], x.imag.copy()[()]), whole)


class ComplexForm(Record):
    """How a primitive of complex numbers acts on their parts.

    Attributes:
      rule: a function of the parts of the operands, which returns both parts of the result, or a
        real one; None if the primitive acts on the real and the imaginary parts alike.
      numbers: the operands that are numbers; others are masks or indices.
    """

    rule: Callable[..., Any] | None
    numbers: slice


FORMS: dict[Primitive, ComplexForm] = {}
"""The primitives of complex numbers that native code knows."""


def complex_form(
    primitive: Primitive, rule: Callable[..., Any] | None = None, numbers: slice = slice(None)
) -> None:
    """Enters a ComplexForm."""
    FORMS[primitive] = ComplexForm(rule, numbers)


def _outputs(equation: Equation, xs: Sequence[Any]) -> Sequence[Any]:
    """The results of an equation."""
    primitive: Any = equation.primitive
    if primitive is checkpointed or structural(primitive) is not None:
        return _structural(equation, xs)
    if not any(map(_is_complex, (*equation.inputs, *equation.outputs))):
        found = primitive(*xs, **equation.params)
        return found if primitive.multiple else [found]
    own_form = FORMS.get(primitive)
    if own_form is None:
        raise Refused(f"{primitive.name} of complex numbers")
    rule, numbers = own_form
    examples = [a.type.zeros() if a.type.weak else a.type.dtype for a in equation.inputs[numbers]]
    dtype = np.result_type(*examples or [np.complex128])
    given = [_parts(x, part_dtype(dtype)) for x in xs[numbers]]
    if rule is not None:
        found = [rule(*given, **equation.params)]
    else:
        both = []
        shapes = [a.type.shape for a in equation.inputs[numbers]]
        for parts in zip(*given, strict=True):
            own = list(xs)
            own[numbers] = map(_of_shape, parts, shapes)
            both.append(primitive(*own, **equation.params))
        found = list(zip(*both, strict=True)) if primitive.multiple else [tuple(both)]
    return [_of_type(x, v.type) for x, v in zip(found, equation.outputs, strict=True)]


def _parts(x: Any, dtype: np.dtype[Any]) -> Parts:
    """The parts of a number, in a dtype."""
    if type(x) is _Complex:
        return _cast(x.parts[0], dtype), _cast(x.parts[1], dtype)
    return _cast(x, dtype), dtype.type(0)


def _cast(x: Any, dtype: np.dtype[Any]) -> Any:
    return cast(x, dtype) if type(x) is Tracer else np.asarray(x, dtype)[()]


def _of_type(x: Any, type_: Type) -> Any:
    """A result, or its parts, with the dtype and the shape of a Type."""
    if type_.dtype.kind == "c":
        inner = Type(type_.shape, part_dtype(type_.dtype))
        return _Complex((_of_type(x[0], inner), _of_type(x[1], inner)))
    return _of_shape(_cast(x, type_.dtype), type_.shape)


def _of_shape(x: Any, shape: tuple[int, ...]) -> Any:
    return x if shape_of(x) == shape else broadcast_to(x, shape=shape)


# --- equations that hold Graphs -------------------------------------------------------------------


def _structural(equation: Equation, xs: Sequence[Any]) -> Sequence[Any]:
    primitive: Any = equation.primitive
    params = {key: _real_graphs(value) for key, value in equation.params.items()}
    if "wanted" in params:
        _differentiate(equation, params)
    found = primitive(*map(_whole, xs), **params)
    return [_Complex(None, x) if _is_complex(v) else x
            for x, v in zip(found, equation.outputs, strict=True)]  # fmt: skip


def _whole(x: Any) -> Any:
    return x.whole if type(x) is _Complex else x


def _real_graphs(value: Any) -> Any:
    if isinstance(value, Graph):
        return real_form(value)
    return tuple(map(_real_graphs, value)) if type(value) is tuple else value


def _differentiate(equation: Equation, params: dict[str, Any]) -> None:
    """Derivatives of the Graphs of a loop or branch, which are made on complex numbers."""
    wanted, held = params["wanted"], equation.params
    if "body" in held:
        first, counts = body_counts(held)
        made = halves_of(held["body"], counts, wanted[first:])
        key = halves_key(counts, wanted[first:])
        params["body"].derived[key] = Halves(made.active, _halves(made.of))
        return
    wanted = tuple(wanted[1:])
    for graph, real in zip(held["branches"], params["branches"], strict=True):
        if params.get("taped", True):
            halves = _halves(differentiate(graph, wanted))
            real.derived["reverse", tuple(map(bool, wanted))] = halves
        else:
            real.derived["pullback", wanted] = real_form(pullback_graph(graph, wanted))


def _halves(made: Differentiated) -> Differentiated:
    return Differentiated(real_form(made.forward), real_form(made.backward), made.reached)


# --- operations -----------------------------------------------------------------------------------


def _product(a: Parts, b: Parts) -> Parts:
    """NumPy's formula, with each term rounded."""
    (x, y), (u, v) = a, b
    return x * u - y * v, x * v + y * u


def _quotient(a: Parts, b: Parts) -> Parts:
    """By Smith's method, as in NumPy."""
    (x, y), (u, v) = a, b
    if type(v) is not Tracer and not np.ndim(v) and v == 0 and not np.signbit(v):
        zero, ratio = u == 0.0, np.copysign(0.0, u)
        scale = select(zero, np.inf, 1.0 / u)
        return select(zero, x, x + y * ratio) * scale, select(zero, y, y - x * ratio) * scale
    zero = (u == 0.0) & (v == 0.0)
    wide = abs(u) >= abs(v)
    large, small = select(wide, u, v), select(wide, v, u)
    ratio = small / large
    scale = select(zero, np.inf, 1.0 / (large + small * ratio))
    real = select(zero, x, select(wide, x + y * ratio, x * ratio + y))
    imag = select(zero, y, select(wide, y - x * ratio, y * ratio - x))
    return real * scale, imag * scale


def _reciprocal(a: Parts) -> Parts:
    x, y = a
    wide = abs(y) <= abs(x)
    large, small = select(wide, x, y), select(wide, y, x)
    ratio = small / large
    total = large + small * ratio
    return select(wide, 1.0, ratio) / total, -select(wide, ratio, 1.0) / total


def _power(a: Parts, exponent: Parts) -> Parts:
    """By products, as NumPy's for integers between -100 and 100."""
    n = exponent[0]
    if isinstance(n, Tracer | np.ndarray) or exponent[1] or n != round(n) or not -100 < n < 100:
        raise Refused("power of complex numbers with this exponent")
    if n in (2, -1):
        return _product(a, a) if n == 2 else _reciprocal(a)
    one, zero = a[0].dtype.type(1), a[0].dtype.type(0)
    result, factor, left = (one, zero), a, round(abs(n))
    if left in (1, 3):
        result, left = a if left == 1 else _product(a, _product(a, a)), 0
    while left:
        result = _product(result, factor) if left & 1 else result
        left >>= 1
        factor = _product(factor, factor) if left else factor
    if n < 0:
        result = _quotient((one, zero), result)
    at_zero = (a[0] == 0) & (a[1] == 0) & (n != 0)
    real, imag = [select(at_zero, zero if n > 0 else np.nan, x) for x in result]
    return real, imag


def _converted(a: Parts, *, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return _truth(a)
    return a if dtype.kind == "c" else a[0]


def _truth(a: Parts) -> Any:
    return (a[0] != 0) | (a[1] != 0)


def _of_truth(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: rule(*map(_truth, xs))


def _either(
    rule: Callable[..., Any], joined: Callable[..., Any] = operator.or_
) -> Callable[..., Any]:
    """A test of the real parts joined with that of the imaginary ones."""
    return lambda *xs: joined(*[rule(*parts) for parts in zip(*xs, strict=True)])


def _dot(a: Parts, b: Parts, **params: Any) -> Parts:
    (x, y), (u, v) = a, b

    def dot(p: Any, q: Any) -> Any:
        return dot_general(_of_shape(p, shape_of(x)), _of_shape(q, shape_of(u)), **params)

    return dot(x, u) - dot(y, v), dot(x, v) + dot(y, u)


# Functions, in double precision; special values as in annex G of the C standard.


def _exp(a: Parts) -> Parts:
    x, y = _doubles(a)
    rest, times = _divided(x)
    ends = np.isinf(x) & ~np.isfinite(y)
    imag = select(ends & (x < 0.0), np.copysign(0.0, y), times(np.sin(y)) * rest)
    return select(ends, rest, times(np.cos(y)) * rest), select(y == 0.0, y, imag)


def _divided(x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """e**x / f and the function y -> y f, for a factor f that prevents overflow."""
    far, further = x > 709.0, x > 1418.0
    rest = np.exp(x - select(further, 1418.0, select(far, 709.0, 0.0)))
    most = np.exp(709.0)
    return rest, lambda y: y * select(far, most, 1.0) * select(further, most, 1.0)


def _scaled(a: Parts) -> tuple[Parts, Any, Any]:
    """The parts times a power of 2 such that their squares neither overflow nor vanish, and the
    masks of large numbers (times 2**-4) and small ones (times 2**108).
    """
    size = np.maximum(abs(a[0]), abs(a[1]))
    large, small = size > 2.0**1020, size < 2.0**-960
    factor = select(large, 2.0**-4, select(small, 2.0**108, 1.0))
    return (a[0] * factor, a[1] * factor), large, small


def _sqrt(a: Parts) -> Parts:
    (x, y), large, small = _scaled(_doubles(a))
    root = np.sqrt(0.5 * (abs(x) + np.hypot(x, y)))
    other = select(root == 0.0, 0.0, 0.5 * (abs(y) / root))
    back = select(large, 4.0, select(small, 2.0**-54, 1.0))
    real = select(x < 0.0, other, root) * back
    imag = select(x < 0.0, root, other) * back
    return select(np.isinf(y), np.inf, real), select(np.isinf(y), y, np.copysign(imag, y))


def _doubles(a: Parts) -> Parts:
    double = np.dtype(np.float64)
    return _cast(a[0], double), _cast(a[1], double)


def _hyperbolic(x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    """cosh x cos y, sinh x sin y, sinh x cos y and cosh x sin y, where the results are finite."""
    rest, times = _divided(abs(x))
    far, half = abs(x) > 40.0, np.copysign(0.5, x)
    cos, sin, cosh, sinh = np.cos(y), np.sin(y), np.cosh(x), np.sinh(x)

    def product(near: Any, beyond: Any) -> Any:
        return select(far, times(beyond) * rest, near)

    return (
        product(cosh * cos, 0.5 * cos), product(sinh * sin, half * sin),
        product(sinh * cos, half * cos), product(cosh * sin, 0.5 * sin),
    )  # fmt: skip


def _cosh(a: Parts) -> Parts:
    x, y = _doubles(a)
    real, imag, _, _ = _hyperbolic(x, y)
    odd = ~np.isfinite(y)
    real = select(np.isinf(x) & odd, abs(x), real)
    imag = select((x == 0.0) & odd, 0.0, imag)
    sign = select(np.isnan(x), 1.0, np.copysign(1.0, x))
    return real, select(y == 0.0, y * sign, imag)


def _sinh(a: Parts) -> Parts:
    x, y = _doubles(a)
    _, _, real, imag = _hyperbolic(x, y)
    odd = ~np.isfinite(y)
    real = select(np.isinf(x) & odd, abs(x), select((x == 0.0) & odd, x, real))
    return real, select(y == 0.0, y, imag)


def _cos(a: Parts) -> Parts:
    return _cosh((-a[1], a[0]))


def _sin(a: Parts) -> Parts:
    imag, real = _sinh((-a[1], a[0]))
    odd = np.isinf(a[1]) & ~np.isfinite(a[0])
    return real, select(odd, abs(_cast(a[1], np.dtype(np.float64))), -imag)


def _log(a: Parts) -> Parts:
    """The logarithm of the size, near 1 from the difference of the squares to 1, and the angle."""
    x, y = _doubles(a)
    (u, v), large, small = _scaled((x, y))
    shift = select(large, 4.0, select(small, -108.0, 0.0)) * np.log(2.0)
    u, v = np.maximum(abs(u), abs(v)), np.minimum(abs(u), abs(v))
    (high, low), (square, rest) = _exact_square(u), _exact_square(v)
    first, lost = _exact_sum(high, -1.0)
    total, more = _exact_sum(first, square)
    near = 0.5 * np.log1p(total + (lost + more + low + rest))
    size = select((u > 0.5) & (u < 1.5), near, np.log(np.hypot(u, v)) + shift)
    return select(np.isinf(x) | np.isinf(y), np.inf, size), np.arctan2(y, x)


def _exact_sum(x: Any, y: Any) -> Parts:
    """The sum and its rounding error (D. E. Knuth, 1969)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _exact_square(x: Any) -> Parts:
    """The square and its rounding error (T. J. Dekker, 1971), of small numbers."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    low = x - high
    square = x * x
    return square, ((high * high - square) + 2.0 * (high * low)) + low * low


complex_form(family.mul, _product)
complex_form(ufuncs.square, lambda a: _product(a, a))
complex_form(family.div, _quotient)
complex_form(ufuncs.reciprocal, _reciprocal)
complex_form(ufuncs.power, _power)
complex_form(conj, lambda a: (a[0], -a[1]))
complex_form(ufuncs.real, lambda a: a[0])
complex_form(ufuncs.imag, lambda a: a[1])
complex_form(ufuncs.abs, lambda a: np.hypot(*a))
complex_form(ufuncs.exp, _exp)
complex_form(ufuncs.sqrt, _sqrt)
complex_form(ufuncs.sin, _sin)
complex_form(ufuncs.cos, _cos)
complex_form(ufuncs.sinh, _sinh)
complex_form(ufuncs.cosh, _cosh)
complex_form(ufuncs.log, _log)
complex_form(ufuncs.complex_of, lambda a, b: (a[0], b[0]))
complex_form(convert, _converted)
complex_form(to_discrete, _converted)
complex_form(dot_general, _dot)
complex_form(family.eq, _either(operator.eq, operator.and_))
complex_form(family.ne, _either(operator.ne))
complex_form(ufuncs.isnan, _either(np.isnan))
complex_form(ufuncs.isinf, _either(np.isinf))
complex_form(ufuncs.isfinite, _either(np.isfinite, operator.and_))
complex_form(family.logical_not, _of_truth(np.logical_not))
complex_form(family.logical_and, _of_truth(np.logical_and))
complex_form(family.logical_or, _of_truth(np.logical_or))
complex_form(ufuncs.logical_xor, _of_truth(np.logical_xor))
complex_form(
    full,
    lambda *, shape, value, dtype: tuple(
        [full(shape=shape, value=x, dtype=part_dtype(dtype)) for x in (value.real, value.imag)]
    ),
)
for _primitive in (
    family.add, family.sub, family.neg, ufuncs.positive, reshape, transpose, broadcast_to,
    concatenate, stack, unstack, pad, flip, diagonal, slice_axis, roll, reduce_sum,
):  # fmt: skip
    complex_form(_primitive)
complex_form(select, numbers=slice(1, None))
complex_form(getitem, numbers=slice(1))
complex_form(scatter, numbers=slice(1))
complex_form(index_add, numbers=slice(2))
complex_form(index_set, numbers=slice(2))
