"""The rest of NumPy's ufuncs, each declared by its partials; and `bitcast`.

Formulas: Abramowitz & Stegun 4.3-4.6 for the elementary functions. Derivatives at kinks are those
of docs/kinks.md: abs at 0 has derivative 0, ties of maximum and minimum share equally, hypot at the
origin has derivative 0, and powers take their limits.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation, Literal
from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.primitives.elementwise.family import (
    OPERATORS,
    Masked,
    Over,
    Times,
    arithmetic,
    elementwise,
    python_operator,
    select,
)
from fungrad.primitives.facts import ARITHMETIC, EXACT, FUNCTION, ScalarForm, Work
from fungrad.primitives.movement.reshape_broadcast_cast import conj
from fungrad.primitives.primitive import Primitive, general
from fungrad.tracing.trace import registry, typeof


def _at_zero(*args: Any) -> Any:
    """Where all arguments are 0."""
    return functools.reduce(np.logical_and, [np.equal(x, 0) for x in args])


def _function(ufunc: np.ufunc, partial: Any) -> Primitive:
    """A function of one number that Python's module math has, too."""
    scalar = getattr(math, ufunc.__name__.replace("arc", "a"))
    return elementwise(ufunc.__name__, ufunc, partials=[partial], scalar=scalar)


# --- exponentials and logarithms ------------------------------------------------------------------

exp = _function(np.exp, lambda y, x: y)
exp2 = _function(np.exp2, lambda y, x: y * math.log(2.0))
expm1 = _function(np.expm1, lambda y, x: y + 1.0)
log = _function(np.log, Over(lambda y, x: x))
log2 = _function(np.log2, Over(lambda y, x: x * math.log(2.0)))
log10 = _function(np.log10, Over(lambda y, x: x * math.log(10.0)))
log1p = _function(np.log1p, Over(lambda y, x: x + 1.0))

# --- trigonometric and hyperbolic -----------------------------------------------------------------

sin = _function(np.sin, lambda y, x: np.cos(x))
cos = _function(np.cos, lambda y, x: -np.sin(x))
tan = _function(np.tan, lambda y, x: y * y + 1.0)
arcsin = _function(np.arcsin, Over(lambda y, x: np.sqrt(1.0 - x * x)))
arccos = _function(np.arccos, Over(lambda y, x: -np.sqrt(1.0 - x * x)))
arctan = _function(np.arctan, Over(lambda y, x: x * x + 1.0))
sinh = _function(np.sinh, lambda y, x: np.cosh(x))
cosh = _function(np.cosh, lambda y, x: np.sinh(x))
tanh = _function(np.tanh, lambda y, x: 1.0 - y * y)
arcsinh = _function(np.arcsinh, Over(lambda y, x: np.sqrt(x * x + 1.0)))
arccosh = _function(np.arccosh, Over(lambda y, x: np.sqrt(x - 1.0) * np.sqrt(x + 1.0)))
arctanh = _function(np.arctanh, Over(lambda y, x: 1.0 - x * x))
# The factor is rounded, too.
deg2rad = elementwise("deg2rad", np.deg2rad, partials=[math.pi / 180.0], rounding=1.5)
rad2deg = elementwise("rad2deg", np.rad2deg, partials=[180.0 / math.pi], rounding=1.5)
registry.ufuncs[np.radians] = deg2rad
registry.ufuncs[np.degrees] = rad2deg


def _arctan2_slope(a: Any, x: Any, y: Any) -> Any:
    """a / (x^2 + y^2) without overflow; 0 at the origin."""
    r = np.hypot(x, y)
    r = select(r == 0, 1.0, r)
    return a / r / r


arctan2 = elementwise("arctan2", np.arctan2, partials=[
    lambda z, x, y: _arctan2_slope(y, x, y),
    lambda z, x, y: -_arctan2_slope(x, x, y),
], scalar=math.atan2,
                      kink=_at_zero)  # fmt: skip
hypot = elementwise("hypot", np.hypot, partials=[
    lambda z, x, y: x / select(z == 0, 1.0, z),
    lambda z, x, y: y / select(z == 0, 1.0, z),
], scalar=math.hypot,
                    kink=_at_zero)  # fmt: skip

# --- powers ---------------------------------------------------------------------------------------

sqrt = elementwise(
    "sqrt", np.sqrt, partials=[Over(lambda y, x: y * 2.0)], scalar=math.sqrt, rounding=ARITHMETIC
)
cbrt = _function(np.cbrt, Over(lambda y, x: y * y * 3.0))
square = elementwise(
    "square",
    np.square,
    partials=[lambda y, x: Times(2.0, x)],
    cost=arithmetic(1, 6),
    scalar=ScalarForm("{0} * {0}", "fi", grows=True),
)
reciprocal = elementwise(
    "reciprocal",
    np.reciprocal,
    partials=[lambda y, x: -(y * y)],
    cost=1,
    scalar=ScalarForm("1.0 / {0}", "f"),
)


def _power_by_base(z: Any, x: Any, y: Any) -> Any:
    """y x^(y-1), which is 0 for y = 0 also at x = 0."""
    if type(y) in PYTHON_SCALARS:
        if y in (0, 1):
            return 0.0 if y == 0 else 1.0
        if y == 2:
            return Times(2.0, x)
        return power(x, y - 1) * y
    corner = np.logical_and(x == 0, y == 0)
    return y * power(select(corner, 1.0, x), y - 1.0)


def _power_by_exponent(z: Any, x: Any, y: Any) -> Any:
    """x^y log x, and its limit 0 at x = 0 for positive y."""
    limit = x == 0 if typeof(y).dtype.kind == "c" else np.logical_and(x == 0, y > 0)
    return z * np.log(select(limit, 1.0, x))


def _cost_of_power(equation: Equation) -> Work:
    """One product or quotient for x**2 and x**-1, as in NumPy; else a transcendental function."""
    exponent, size = equation.inputs[1], equation.outputs[0].type.size
    short = isinstance(exponent, Literal) and exponent.value in (2, -1)
    return Work(size) if short else Work(0, size)


_python_power = python_operator(np.power)


def _eval_power(x: Any, y: Any) -> Any:
    """As np.power: Python's operator squares booleans as int8 by y = 2, and is int64 for others."""
    if type(y) is int and y == 2 and getattr(x, "dtype", None) == np.bool_:
        return np.power(x, y)
    return _python_power(x, y)


power = elementwise("power", _eval_power, ufunc=np.power, cost=_cost_of_power,
                    rounding=FUNCTION,
                    partials=[_power_by_base, _power_by_exponent],
                    scalar=ScalarForm("pow({0}, {1})", "f", cost="power"))  # fmt: skip

# --- kinks ----------------------------------------------------------------------------------------


def _abs_slope(y: Any, x: Any) -> Any:
    if typeof(x).dtype.kind == "c":  # d|x| = Re(conj(x) dx) / |x|
        return np.conj(x) / select(y == 0, 1.0, y)
    return np.sign(x)


abs = elementwise(
    "abs",
    operator.abs,
    ufunc=np.absolute,
    rounding=EXACT,
    partials=[_abs_slope],
    cost=1,
    scalar=ScalarForm("abs({0})", "fi", cost="absolute", grows=True),
    kink=_at_zero,
)
fabs = elementwise(
    "fabs",
    np.fabs,
    rounding=EXACT,
    partials=[lambda y, x: np.sign(x)],
    cost=1,
    scalar=ScalarForm("abs({0})", cost="absolute"),
    kink=_at_zero,
)


def _part(z: Any, x: Any, y: Any) -> Any:
    """The derivative of an extremum with respect to the number that attains it: 0.5 for equal
    numbers. It has the dtype of the extremum: plain Python numbers would select doubles.
    """
    type_ = typeof(z)
    number = float if type_.weak or not type_.inexact else type_.dtype.type
    return select(x == y, number(0.5), number(1.0))


def _extremum(ufunc: np.ufunc, attains: Callable[[Any, Any], Any], **facts: Any) -> Primitive:
    """An extremum of two numbers, which x attains if `attains(x, y)`."""

    def slope(z: Any, x: Any, y: Any) -> Masked:
        return Masked(_part(z, x, y), attains(x, y))

    return elementwise(
        ufunc.__name__, ufunc, partials=[slope, lambda z, x, y: slope(z, y, x)], rounding=EXACT,
        cost=1, kink=np.equal, **facts,
    )  # fmt: skip


maximum = _extremum(
    np.maximum,
    lambda x, y: x >= y,
    scalar=ScalarForm("{0} if {0} > {1} or {0} != {0} else {1}", "fi"),
)
minimum = _extremum(
    np.minimum,
    lambda x, y: x <= y,
    scalar=ScalarForm("{0} if {0} < {1} or {0} != {0} else {1}", "fi"),
)
fmax = _extremum(np.fmax, lambda x, y: np.logical_or(x >= y, y != y))
fmin = _extremum(np.fmin, lambda x, y: np.logical_or(x <= y, y != y))

copysign = elementwise(
    "copysign",
    np.copysign,
    rounding=EXACT,
    partials=[lambda z, x, y: np.sign(x) * np.copysign(1.0, y), None],
    cost=1,
    scalar=math.copysign,
)
heaviside = elementwise(
    "heaviside",
    np.heaviside,
    rounding=EXACT,
    partials=[None, lambda z, x, y: x == 0],
    cost=1,
    kink=lambda x, y: np.equal(x, 0),
)
remainder = elementwise("remainder", python_operator(np.remainder), ufunc=np.remainder,
                        partials=[1, lambda z, x, y: -np.floor_divide(x, y)],
                        cost=1,
                        scalar=ScalarForm("{0} % {1}", "i"))  # fmt: skip
fmod = elementwise(
    "fmod",
    np.fmod,
    rounding=EXACT,
    partials=[1, lambda z, x, y: -np.trunc(np.divide(x, y))],
    cost=1,
    scalar=ScalarForm(math.fmod, "f"),
)
nextafter = elementwise("nextafter", np.nextafter, rounding=EXACT, partials=[1, None])
ldexp: Primitive = elementwise(
    "ldexp", np.ldexp, rounding=EXACT, partials=[lambda z, x, n: ldexp(1.0, n), None], cost=1
)
frexp_exponent = elementwise("frexp_exponent", lambda x: np.frexp(x)[1], partials=[None], cost=1)

# --- log of a sum of exponentials -----------------------------------------------------------------


def _share(exponential: Any) -> Any:
    """The part e^x / (e^x + e^y) of the first argument, also where both are the same infinity."""

    def partial(z: Any, x: Any, y: Any) -> Any:
        both = np.logical_and(x == y, np.isinf(x))
        return select(both, 0.5, exponential(select(x == z, 0.0, x - z)))

    return partial


logaddexp = elementwise(
    "logaddexp", np.logaddexp, partials=[_share(np.exp), lambda z, x, y: _share(np.exp)(z, y, x)]
)
logaddexp2 = elementwise(
    "logaddexp2",
    np.logaddexp2,
    partials=[_share(np.exp2), lambda z, x, y: _share(np.exp2)(z, y, x)],
)

# --- complex numbers: `conj` is linear over the reals, and is in movement/reshape_broadcast_cast.py


def _turned(ct: Any, y: Any, x: Any) -> Any:
    """ct without its component along x, over |x|; 0 where x is 0."""
    size = np.abs(x)
    along = np.real(ct * y) * conj(y)
    return select(size == 0, 0.0, ct - along) / select(size == 0, 1.0, size)


phase: Primitive = general(
    "phase",
    cost=5,  # two squares, their sum, two quotients
    eval=np.sign,
    type=lambda x: x.with_shape(x.shape),
    vjp=lambda ct, y, args, wanted: [_turned(ct, y, args[0])],
    batch=lambda args, batched, size: phase(args[0]),
)
"""`phase(x)`: x / |x| of complex numbers, 0 at 0 with the derivative 0.

Its derivative along t is (t - y Re(conj(y) t)) / |x|, with y = x / |x|.
"""


def _eval_complex_of(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    made = np.empty(np.broadcast_shapes(x.shape, y.shape), np.result_type(x, y, np.complex64))
    made.real, made.imag = x, y
    return made[()]


complex_of = elementwise("complex_of", _eval_complex_of, partials=[1, 1j], cost=0)
"""`complex_of(x, y)`: x + i y of real numbers, infinities and zeros of both signs included."""

real = elementwise("real", np.real, rounding=EXACT, partials=[1], cost=1)
imag = elementwise("imag", np.imag, rounding=EXACT, partials=[-1j], cost=1)
registry.ufuncs[np.conjugate] = conj

# --- linear ---------------------------------------------------------------------------------------

positive = elementwise(
    "positive",
    operator.pos,
    ufunc=np.positive,
    rounding=EXACT,
    partials=[1],
    scalar=ScalarForm("{0}", "fi"),
)

# --- without a derivative, on purpose -------------------------------------------------------------


def _constant(ufunc: np.ufunc, **facts: Any) -> Primitive:
    apply = python_operator(ufunc) if ufunc.__name__ in OPERATORS else ufunc
    return elementwise(ufunc.__name__, apply, ufunc=ufunc, partials=[None] * ufunc.nin, **facts)


floor_divide = _constant(np.floor_divide)
floor = _constant(np.floor)
ceil = _constant(np.ceil)
trunc = _constant(np.trunc)
rint = _constant(np.rint)
sign = _constant(np.sign)
signbit = _constant(np.signbit)
spacing = _constant(np.spacing)
isnan = _constant(np.isnan, scalar="{0} != {0}")
isinf = _constant(np.isinf, scalar=math.isinf)
isfinite = _constant(np.isfinite, scalar=math.isfinite)
logical_xor = _constant(np.logical_xor, commutative=True)
bitwise_and = _constant(np.bitwise_and, commutative=True)
bitwise_or = _constant(np.bitwise_or, commutative=True)
bitwise_xor = _constant(np.bitwise_xor, commutative=True)
invert = _constant(np.invert)
left_shift = _constant(np.left_shift)
right_shift = _constant(np.right_shift)
bitwise_count = _constant(np.bitwise_count)
gcd = _constant(np.gcd, commutative=True)
lcm = _constant(np.lcm, commutative=True)


def _eval_bitcast(x: Any, *, dtype: Any) -> Any:
    return np.ascontiguousarray(x).reshape(np.shape(x)).view(dtype)[()]


def _type_bitcast(x: Type, *, dtype: Any) -> Type:
    return Type(np.empty(x.shape, x.dtype).view(dtype).shape, dtype)


bitcast: Primitive = general(
    "bitcast",
    cost=0,
    eval=_eval_bitcast,
    type=_type_bitcast,
    batch=lambda args, batched, size, *, dtype: bitcast(args[0], dtype=dtype),
    cuts=True,
)
"""`bitcast(x, dtype=)`: the bits of x, in C order, read in another dtype, as ndarray.view; the
length of the last axis changes accordingly. It has no derivative.
"""
