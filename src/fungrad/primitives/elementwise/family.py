"""The family `elementwise`, and the arithmetic that rules use.

An elementwise primitive is declared by its NumPy function and one partial for each argument. The
type rule, both derivatives and batching are derived. The rest of NumPy's ufuncs are declared in
ufuncs.py.

A partial is one of
  None            the derivative is zero, on purpose
  1, -1           the cotangent passes unchanged, or negated
  a number        the cotangent is multiplied by it
  a function      `partial(output, *args)`, the local derivative
  an itemgetter   of the arguments: one of these is the local derivative
  Over(function)  the reciprocal of the local derivative: the cotangent is divided by it
  AfterSum(scale, finish)
                  two steps: `scale(cotangent, output, args)`, a sum over broadcast axes, and
                  `finish(sum, args)` of few elements
A partial that returns booleans is a mask: the cotangent passes where it is true, and is exactly
zero elsewhere; one that returns `Masked(factor, mask)` also scales it; one that returns
`Times(number, factor)` scales it by the number first. The mask stays with the cotangent, as
`Masked`, through the next elementwise equations of the backward walk, so that zero times an
infinite derivative is zero and never NaN ("the double where", done once, here).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Unpack

import numpy as np
from numpy import float64, ndarray

from fungrad.errors import ShapeError
from fungrad.ir.graph import Equation
from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.primitives.cotangents import Collected, Masked
from fungrad.primitives.facts import EXACT, TRANSCENDENTAL, Facts, ScalarForm, Work
from fungrad.primitives.movement.reshape_broadcast_cast import (
    aligned,
    broadcast_to,
    convert,
)
from fungrad.primitives.primitive import Later, Primitive
from fungrad.tracing.trace import Tracer, registry, typeof


class Over:
    """A partial given by its reciprocal: `Over(f)` is 1 / f(output, *args)."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


class AfterSum:
    """A partial in two steps, before and after the sum over broadcast axes."""

    __slots__ = ("finish", "scale")

    def __init__(
        self, scale: Callable[[Any, Any, Any], Any], finish: Callable[[Any, Any], Any]
    ) -> None:
        self.scale = scale
        self.finish = finish

    def __call__(self, cotangent: Any, output: Any, args: Any) -> Any:
        return self.finish(self.scale(cotangent, output, args), args)


class Times:
    """A factor of a cotangent: a number times a value. The cotangent is multiplied by the number
    first, where the compiler can join it with the factors of sums and means.
    """

    __slots__ = ("number", "value")

    def __init__(self, number: float, value: Any) -> None:
        self.number = number
        self.value = value


Kind = tuple[np.dtype[Any], bool]
Kinds = tuple[Kind, ...]
Partial = Callable[..., Any] | Over | AfterSum | int | float | complex | None


def elementwise(
    name: str,
    eval: Callable[..., Any],
    *,
    partials: Sequence[Partial],
    ufunc: np.ufunc | None = None,
    types: Mapping[Kinds, Kind] = MappingProxyType({}),
    reads: Sequence[int] | None = None,
    degree: str | None = None,
    **facts: Unpack[Facts],
) -> Primitive:
    """Declares an elementwise primitive; see the module's docstring for the partials.

    Args:
      name: its name in the IR.
      eval: a ufunc, or a function that broadcasts and promotes as one.
      partials: one for each argument.
      ufunc: the NumPy ufunc that it implements, if `eval` is another function.
      types: known output types: the output's dtype and weak bit, by those of the arguments. Other
        types are found by a call of `eval`.
      reads: the positions of the arguments that the partials read, if not all.
      degree: "multilinear" if it is linear in each argument alone, which the partials do not
        tell.
      facts: see `Primitive`. Its cost is one operation for a ufunc whose partials are numbers or
        None, else one transcendental function.

    >>> import fungrad as fg
    >>> cube = elementwise("cube", lambda x: x**3, partials=[lambda y, x: 3 * x**2])
    >>> float(fg.grad(cube)(2.0))
    12.0
    """
    partials = tuple(partials)
    scalers = tuple([_scaler(partial) for partial in partials])
    direct = tuple([_direct(partial, len(partials)) for partial in partials])

    def jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
        output = primitive(*primals)
        total: Any = None
        for tangent, scale in zip(tangents, scalers, strict=True):
            if tangent is not None and scale is not None:
                term = plain(scale(tangent, output, primals))
                total = term if total is None else total + term
        return output, None if total is None else fit_to(total, output)

    def batch(args: Any, batched: Any, size: int) -> Any:
        return primitive(*aligned(args, batched))

    known_types = dict(types)

    def result_type(*args: Type) -> Type:
        key = tuple([(a.dtype, a.weak) for a in args])
        known = known_types.get(key)
        if known is None:
            known = known_types[key] = _dtype_by_example(name, eval, args)
        dtype, weak = known
        shape = broadcast_shapes(name, args)
        for a in args:  # mostly one of them is of that Type, which need not be made then
            if a.shape == shape and a.dtype is dtype and a.weak is weak:
                return a
        return Type(shape, dtype, weak)

    found: Any = ufunc if ufunc is not None else eval
    source = found if isinstance(found, np.ufunc | Later) else None
    cuts = tuple(i for i, partial in enumerate(partials) if partial is None)
    constant = all(partial is None or type(partial) in PYTHON_SCALARS for partial in partials)
    if reads is None:
        reads = () if constant else range(len(partials))
    facts.setdefault("cost", 1 if constant and isinstance(source, np.ufunc) else TRANSCENDENTAL)
    primitive = Primitive(
        name, eval=eval, type=result_type, jvp=jvp, batch=batch, partials=scalers, direct=direct,
        slopes=partials, reads=reads, degree=degree or ("linear" if constant else ""),
        ufunc=source, cuts=True if len(cuts) == len(partials) else cuts, **facts,
    )  # fmt: skip
    if source is not None:
        registry.ufuncs[source] = primitive
    return primitive


def _scaler(partial: Partial) -> Callable[[Any, Any, Any], Any] | None:
    """The function (cotangent, output, args) -> cotangent times the partial; None for zero.

    It uses Python's operators, not primitives: on arrays these call NumPy directly.
    """
    if partial is None or isinstance(partial, AfterSum):
        return partial
    if not callable(partial) and not isinstance(partial, Over):
        constant = partial
        if constant == 1:
            return passed
        if constant == -1:
            return AfterSum(passed, lambda cotangent, args: -cotangent)
        return lambda cotangent, output, args: cotangent * constant
    if isinstance(partial, Over):
        divisor = partial.function
        return lambda cotangent, output, args: cotangent / divisor(output, *args)
    function = partial
    if isinstance(partial, operator.itemgetter):  # saves a call of a Python function

        def scale_by(cotangent: Any, output: Any, args: Any) -> Any:
            factor = function(args)
            kind = type(factor)
            if kind is float64 or kind is float or (kind is ndarray and factor.dtype is not _BOOL):
                return cotangent * factor
            return _scaled(cotangent, factor)

        return scale_by

    def scale(cotangent: Any, output: Any, args: Any) -> Any:
        factor = function(output, args[0]) if len(args) == 1 else function(output, *args)
        kind = type(factor)
        if kind is float64 or kind is float or (kind is ndarray and factor.dtype is not _BOOL):
            return cotangent * factor
        return _scaled(cotangent, factor)

    return scale


_BOOL = np.dtype(np.bool_)


def _direct(partial: Partial, count: int) -> Callable[..., Any] | None:
    """As `_scaler`, for operands none of which is a boolean or broadcast: `(cotangent, output,
    *args)`. The two ways are apart since this one runs for each record of an eager gradient.
    """
    if partial is None:
        return None
    if isinstance(partial, AfterSum):
        scale, finish = partial.scale, partial.finish
        return lambda cotangent, output, *args: finish(scale(cotangent, output, args), args)
    if isinstance(partial, operator.itemgetter) and count == 2:
        if partial((False, True)):
            return lambda cotangent, output, x, y: cotangent * y
        return lambda cotangent, output, x, y: cotangent * x
    if isinstance(partial, Over):
        divisor = partial.function
        if count == 1:
            return lambda cotangent, output, x: cotangent / divisor(output, x)
        return lambda cotangent, output, *args: cotangent / divisor(output, *args)
    if not callable(partial):
        constant = partial
        if constant == 1:
            return lambda cotangent, output, x, y=None: cotangent
        if constant == -1:
            return lambda cotangent, output, x, y=None: -cotangent
        return lambda cotangent, output, x, y=None: cotangent * constant
    function = partial
    if count == 1:

        def scale(cotangent: Any, output: Any, x: Any) -> Any:
            factor = function(output, x)
            if type(factor) is ndarray and factor.dtype is not _BOOL:
                return cotangent * factor
            return _scaled(cotangent, factor)

        return scale
    return lambda cotangent, output, *args: _scaled(cotangent, function(output, *args))


def passed(cotangent: Any, output: Any, args: Any) -> Any:
    """The cotangent itself, for a local derivative of 1."""
    return cotangent


def _scaled(cotangent: Any, factor: Any) -> Any:
    """A cotangent times the value of a partial."""
    kind = type(factor)
    if kind is Times:
        return cotangent * factor.number * factor.value
    if kind is Masked:
        if _is_true(factor.mask):
            return cotangent * factor.value
        return Masked(select(factor.mask, cotangent * factor.value, 0), factor.mask)
    if kind is bool or (kind not in PYTHON_SCALARS and factor.dtype == _BOOL):
        if _is_true(factor):
            return cotangent
        return Masked(select(factor, cotangent, 0), factor)
    return cotangent * factor


def _is_true(mask: Any) -> bool:
    """Whether a mask is known and true everywhere, as where all numbers are inside of a clip: then
    the steps before it need none.
    """
    kind = type(mask)
    return bool(mask.all() if kind is ndarray or kind is np.bool_ else kind is bool and mask)


def scale_masked(cotangent: Masked, scale: Any, output: Any, args: Any) -> Masked:
    """A masked cotangent times a partial: still exactly zero where the mask is false."""
    mask = cotangent.mask
    with np.errstate(all="ignore"):  # values where the mask is false are dropped
        scaled = scale(cotangent.value, output, args)
    if type(scaled) is Masked:
        mask = logical_and(mask, scaled.mask)
        scaled = scaled.value
    return Masked(select(mask, scaled, 0), mask)


def plain(cotangent: Any) -> Any:
    """The cotangent without its mask."""
    kind = type(cotangent)
    if kind is ndarray or kind is float64 or kind is Tracer:
        return cotangent
    if kind is float:
        return float64(cotangent)
    return cotangent.value if kind is Masked or isinstance(cotangent, Collected) else cotangent


def whole(cotangent: Any) -> Any:
    """The cotangent as rules take it: an array, or masked, but not collected, and no float."""
    if type(cotangent) is float:
        return float64(cotangent)
    return cotangent.total() if isinstance(cotangent, Collected) else cotangent


def fit_to(x: Any, value: Any) -> Any:
    """x broadcast and cast to the Type of a value; its real part if that is real."""
    kind = type(value)
    if type(x) is kind is ndarray and x.shape == value.shape and x.dtype is value.dtype:
        return x
    if type(x) is float64 and (kind is float64 or kind is float):
        return x
    return fit(x, typeof(value))


def fit(x: Any, type_: Type) -> Any:
    """x broadcast and cast to a Type; its real part if that is real."""
    found = typeof(x)
    if found.shape != type_.shape:
        x = broadcast_to(x, shape=type_.shape)
    return x if found.dtype == type_.dtype else convert(x, dtype=type_.dtype)


def broadcast_shapes(name: str, args: Sequence[Type]) -> tuple[int, ...]:
    """The shape of NumPy's broadcasting.

    Raises:
      ShapeError: naming the operation and the shapes.
    """
    first: tuple[int, ...] = ()
    for a in args:
        if a.shape != first and a.shape:
            if first:
                break
            first = a.shape
    else:
        return first
    try:
        return np.broadcast_shapes(*[a.shape for a in args])
    except ValueError:
        shapes = " and ".join(str(a.shape) for a in args)
        raise ShapeError(
            f"`{name}` got arrays of shapes {shapes}, which cannot be broadcast together."
        ) from None


def _dtype_by_example(name: str, eval: Any, args: Sequence[Type]) -> tuple[np.dtype[Any], bool]:
    """The dtype and weak bit of a ufunc's output, found by a call of the ufunc."""
    examples = [
        np.ones((), a.dtype).item() if a.weak else np.ones((1,) if a.shape else (), a.dtype)
        for a in args
    ]
    try:
        with np.errstate(all="ignore"):
            result = eval(*examples)
    except TypeError as error:
        raise ShapeError(
            f"`{name}` has no meaning for {', '.join(map(str, args))}: {error}"
        ) from None
    weak = type(result) in PYTHON_SCALARS
    return (typeof(result).dtype, weak)


OPERATORS: dict[str, Callable[..., Any]] = {
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "invert": operator.invert,
}


def python_operator(ufunc: np.ufunc) -> Callable[..., Any]:
    """A ufunc as Python's operator.

    The result for Python numbers alone is a Python number, and so weak, as in untraced code.
    Integers follow Python: they have no bound, and `//` and `%` by zero raise. Floats follow NumPy,
    without Python's errors and complex results.
    """
    name = ufunc.__name__
    apply = OPERATORS[name]

    def eval(*args: Any) -> Any:
        for arg in args:
            if type(arg) not in PYTHON_SCALARS:
                return apply(*args)
        if any(type(arg) is complex for arg in args):
            return ufunc(*args).item()
        if any(type(arg) is float for arg in args) or (name == "divide" and not args[1]):
            return ufunc(*map(float, args)).item()
        if name == "power" and args[1] < 0:
            raise ValueError(
                f"{args[0]} ** {args[1]} of two integers is a float, though a positive power is "
                "one: a compiled program has one type for both. Make the base a float."
            )
        return apply(*args)

    return eval


# --- the arithmetic of rules ----------------------------------------------------------------------


def arithmetic(real: int, of_complex: int) -> Callable[[Equation], Work]:
    """The cost for each element: `real` operations, or `of_complex` for complex numbers."""

    def cost(equation: Equation) -> Work:
        complex_operands = any(atom.type.dtype.kind == "c" for atom in equation.inputs)
        return Work(equation.outputs[0].type.size * (of_complex if complex_operands else real))

    return cost


neg = elementwise(
    "neg",
    operator.neg,
    ufunc=np.negative,
    rounding=EXACT,
    partials=[-1],
    cost=arithmetic(1, 2),
    scalar=ScalarForm("-{0}", "fi", grows=True),
)
add = elementwise("add", operator.add, ufunc=np.add, partials=[1, 1], cost=arithmetic(1, 2),
                  commutative=True,
                  scalar=ScalarForm("{0} + {1}", "fi", grows=True))  # fmt: skip
sub = elementwise(
    "sub",
    operator.sub,
    ufunc=np.subtract,
    partials=[1, -1],
    cost=arithmetic(1, 2),
    scalar=ScalarForm("{0} - {1}", "fi", grows=True),
)
mul = elementwise("mul", operator.mul, ufunc=np.multiply, cost=arithmetic(1, 6), commutative=True,
                  degree="multilinear",
                  partials=[operator.itemgetter(1), operator.itemgetter(0)],
                  scalar=ScalarForm("{0} * {1}", "fi", grows=True))  # fmt: skip


div = elementwise("div", python_operator(np.divide), ufunc=np.divide,
                  partials=[Over(lambda z, x, y: y),
                            AfterSum(lambda c, z, args: c * z, lambda c, args: -(c / args[1]))],
                  reads=(1,), cost=arithmetic(1, 11),
                  scalar="{0} / {1}")  # fmt: skip

ARITHMETIC = (add, sub, mul, div)


_where = np.where  # np.where may be replaced while a transform traces


def _eval_select(condition: Any, x: Any, y: Any) -> Any:
    chosen = _where(condition, x, y)
    return chosen if chosen.ndim else chosen[()]


select = elementwise(
    "select",
    _eval_select,
    fresh=True,
    rounding=EXACT,
    partials=[None, lambda z, c, x, y: c, lambda z, c, x, y: logical_not(c)],
    reads=(0,),
    masks=True,
    cost=1,
    scalar=ScalarForm("{1} if {0} else {2}", chooses=True),
)
"""`select(condition, x, y)`: x where the condition holds, else y (np.where of three arguments)."""

logical_not: Primitive = elementwise(
    "logical_not", np.logical_not, partials=[None], scalar="not {0}"
)
logical_and = elementwise(
    "logical_and",
    np.logical_and,
    partials=[None, None],
    commutative=True,
    scalar="bool({0} and {1})",
)
logical_or = elementwise(
    "logical_or",
    np.logical_or,
    partials=[None, None],
    commutative=True,
    scalar="bool({0} or {1})",
)


def _comparison(name: str, sign: str, ufunc: np.ufunc, **facts: Any) -> Primitive:
    apply, scalar = getattr(operator, name), f"{{0}} {sign} {{1}}"
    return elementwise(name, apply, ufunc=ufunc, partials=[None, None], scalar=scalar, **facts)


lt = _comparison("lt", "<", np.less)
le = _comparison("le", "<=", np.less_equal)
gt = _comparison("gt", ">", np.greater)
ge = _comparison("ge", ">=", np.greater_equal)
eq = _comparison("eq", "==", np.equal, commutative=True)
ne = _comparison("ne", "!=", np.not_equal, commutative=True)

__all__ = [
    "ARITHMETIC", "Collected", "Masked", "Over", "Times", "add",
    "broadcast_shapes", "div", "elementwise", "eq", "fit", "ge", "gt", "le", "logical_and",
    "logical_not", "logical_or", "lt", "mul", "ne", "neg", "passed", "plain", "select", "sub",
    "whole",
]  # fmt: skip
