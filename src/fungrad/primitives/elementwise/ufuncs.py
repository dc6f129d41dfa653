"""The rest of NumPy's ufuncs, each declared by its partials. Knows the family
`elementwise`.

Formulas: Abramowitz & Stegun 4.3-4.6 for the elementary functions. At kinks the values are those of
docs/kinks.md: abs at 0 has derivative 0, ties of maximum and minimum are shared half and half,
hypot at the origin has derivative 0, and powers take their limits.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from fungrad.ir.types import PYTHON_SCALARS
from fungrad.primitives.elementwise.family import (
    Masked,
    Over,
    Times,
    elementwise,
    python_operator,
    select,
)
from fungrad.primitives.movement.reshape_broadcast_cast import conj
from fungrad.primitives.primitive import Primitive, ScalarForm, general
from fungrad.tracing.trace import registry, typeof

# --- exponentials and logarithms
# ----------------------------------------------------------------------

exp = elementwise("exp", np.exp, partials=[lambda y, x: y], scalar=ScalarForm("exp"))
exp2 = elementwise(
    "exp2", np.exp2, partials=[lambda y, x: y * math.log(2.0)], scalar=ScalarForm("exp2")
)
expm1 = elementwise("expm1", np.expm1, partials=[lambda y, x: y + 1.0], scalar=ScalarForm("expm1"))
log = elementwise("log", np.log, partials=[Over(lambda y, x: x)], scalar=ScalarForm("log"))
log2 = elementwise(
    "log2", np.log2, partials=[Over(lambda y, x: x * math.log(2.0))], scalar=ScalarForm("log2")
)
log10 = elementwise(
    "log10", np.log10, partials=[Over(lambda y, x: x * math.log(10.0))], scalar=ScalarForm("log10")
)
log1p = elementwise(
    "log1p", np.log1p, partials=[Over(lambda y, x: x + 1.0)], scalar=ScalarForm("log1p")
)

# --- trigonometric and hyperbolic
# ----------------------------------------------------------------------

sin = elementwise("sin", np.sin, partials=[lambda y, x: np.cos(x)], scalar=ScalarForm("sin"))
cos = elementwise("cos", np.cos, partials=[lambda y, x: -np.sin(x)], scalar=ScalarForm("cos"))
tan = elementwise("tan", np.tan, partials=[lambda y, x: y * y + 1.0], scalar=ScalarForm("tan"))
arcsin = elementwise(
    "arcsin",
    np.arcsin,
    partials=[Over(lambda y, x: np.sqrt(1.0 - x * x))],
    scalar=ScalarForm("asin"),
)
arccos = elementwise(
    "arccos",
    np.arccos,
    partials=[Over(lambda y, x: -np.sqrt(1.0 - x * x))],
    scalar=ScalarForm("acos"),
)
arctan = elementwise(
    "arctan", np.arctan, partials=[Over(lambda y, x: x * x + 1.0)], scalar=ScalarForm("atan")
)
sinh = elementwise("sinh", np.sinh, partials=[lambda y, x: np.cosh(x)], scalar=ScalarForm("sinh"))
cosh = elementwise("cosh", np.cosh, partials=[lambda y, x: np.sinh(x)], scalar=ScalarForm("cosh"))
tanh = elementwise("tanh", np.tanh, partials=[lambda y, x: 1.0 - y * y], scalar=ScalarForm("tanh"))
arcsinh = elementwise(
    "arcsinh",
    np.arcsinh,
    partials=[Over(lambda y, x: np.sqrt(x * x + 1.0))],
    scalar=ScalarForm("asinh"),
)
arccosh = elementwise(
    "arccosh",
    np.arccosh,
    partials=[Over(lambda y, x: np.sqrt(x - 1.0) * np.sqrt(x + 1.0))],
    scalar=ScalarForm("acosh"),
)
arctanh = elementwise(
    "arctanh", np.arctanh, partials=[Over(lambda y, x: 1.0 - x * x)], scalar=ScalarForm("atanh")
)
deg2rad = elementwise("deg2rad", np.deg2rad, partials=[math.pi / 180.0])
rad2deg = elementwise("rad2deg", np.rad2deg, partials=[180.0 / math.pi])
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
], scalar=ScalarForm("atan2"))  # fmt: skip
hypot = elementwise("hypot", np.hypot, partials=[
    lambda z, x, y: x / select(z == 0, 1.0, z),
    lambda z, x, y: y / select(z == 0, 1.0, z),
], scalar=ScalarForm("hypot"))  # fmt: skip

# --- powers
# --------------------------------------------------------------------------------------------

sqrt = elementwise(
    "sqrt", np.sqrt, partials=[Over(lambda y, x: y * 2.0)], scalar=ScalarForm("sqrt")
)
cbrt = elementwise(
    "cbrt", np.cbrt, partials=[Over(lambda y, x: y * y * 3.0)], scalar=ScalarForm("cbrt")
)
square = elementwise(
    "square", np.square, partials=[lambda y, x: Times(2.0, x)], scalar=ScalarForm("square", "fi")
)
reciprocal = elementwise(
    "reciprocal",
    np.reciprocal,
    partials=[lambda y, x: -(y * y)],
    scalar=ScalarForm("reciprocal", "f"),
)


def _power_by_base(z: Any, x: Any, y: Any) -> Any:
    """y x^(y-1), which is 0 for y = 0 also at x = 0."""
    if type(y) in PYTHON_SCALARS:
        if y in (0, 1):
            return 0.0 if y == 0 else 1.0
        if y == 2:
            return Times(2.0, x)
        return x ** (y - 1) * y
    corner = np.logical_and(x == 0, y == 0)
    return y * select(corner, 1.0, x) ** (y - 1.0)


def _power_by_exponent(z: Any, x: Any, y: Any) -> Any:
    """x^y log x, and its limit 0 at x = 0 for positive y."""
    limit = x == 0 if typeof(y).dtype.kind == "c" else np.logical_and(x == 0, y > 0)
    return z * np.log(select(limit, 1.0, x))


power = elementwise("power", python_operator(np.power), ufunc=np.power,
                    partials=[_power_by_base, _power_by_exponent],
                    scalar=ScalarForm("power", "f"))  # fmt: skip

# --- kinks
# ---------------------------------------------------------------------------------------------


def _abs_slope(y: Any, x: Any) -> Any:
    if typeof(x).dtype.kind == "c":  # d|x| = Re(conj(x) dx) / |x|
        return np.conj(x) / select(y == 0, 1.0, y)
    return np.sign(x)


abs = elementwise(
    "abs", operator.abs, ufunc=np.absolute, partials=[_abs_slope], scalar=ScalarForm("abs", "fi")
)
fabs = elementwise("fabs", np.fabs, partials=[lambda y, x: np.sign(x)], scalar=ScalarForm("abs"))


def _part(z: Any, x: Any, y: Any) -> Any:
    """What each of two numbers has of an extremum: half of it where they are equal. In the dtype of
    that: two of Python's numbers would choose doubles.
    """
    type_ = typeof(z)
    number = float if type_.weak or not type_.inexact else type_.dtype.type
    return select(x == y, number(0.5), number(1.0))


def _larger(z: Any, x: Any, y: Any) -> Masked:
    return Masked(_part(z, x, y), x >= y)


def _smaller(z: Any, x: Any, y: Any) -> Masked:
    return Masked(_part(z, x, y), x <= y)


def _larger_number(z: Any, x: Any, y: Any) -> Masked:
    return Masked(_part(z, x, y), np.logical_or(x >= y, y != y))


def _smaller_number(z: Any, x: Any, y: Any) -> Masked:
    return Masked(_part(z, x, y), np.logical_or(x <= y, y != y))


maximum = elementwise(
    "maximum",
    np.maximum,
    partials=[_larger, lambda z, x, y: _larger(z, y, x)],
    scalar=ScalarForm("maximum", "fi"),
)
minimum = elementwise(
    "minimum",
    np.minimum,
    partials=[_smaller, lambda z, x, y: _smaller(z, y, x)],
    scalar=ScalarForm("minimum", "fi"),
)
fmax = elementwise(
    "fmax", np.fmax, partials=[_larger_number, lambda z, x, y: _larger_number(z, y, x)]
)
fmin = elementwise(
    "fmin", np.fmin, partials=[_smaller_number, lambda z, x, y: _smaller_number(z, y, x)]
)

copysign = elementwise(
    "copysign",
    np.copysign,
    partials=[lambda z, x, y: np.sign(x) * np.copysign(1.0, y), None],
    scalar=ScalarForm("copysign"),
)
heaviside = elementwise("heaviside", np.heaviside, partials=[None, lambda z, x, y: x == 0])
remainder = elementwise("remainder", python_operator(np.remainder), ufunc=np.remainder,
                        partials=[1, lambda z, x, y: -np.floor_divide(x, y)],
                        scalar=ScalarForm("remainder", "i"))  # fmt: skip
fmod = elementwise(
    "fmod",
    np.fmod,
    partials=[1, lambda z, x, y: -np.trunc(np.divide(x, y))],
    scalar=ScalarForm("fmod", "f"),
)
nextafter = elementwise("nextafter", np.nextafter, partials=[1, None])
ldexp: Primitive = elementwise("ldexp", np.ldexp, partials=[lambda z, x, n: ldexp(1.0, n), None])
frexp_exponent = elementwise("frexp_exponent", lambda x: np.frexp(x)[1], partials=[None])

# --- log of a sum of exponentials
# ------------------------------------------------------------------------


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

# --- complex numbers: `conj` is linear over the reals and stands in shaping.py
# ----------------------------


def _turned(ct: Any, y: Any, x: Any) -> Any:
    """ct without what would only stretch x, over the length of x; 0 where x is 0."""
    size = np.abs(x)
    along = np.real(ct * y) * conj(y)
    return select(size == 0, 0.0, ct - along) / select(size == 0, 1.0, size)


phase: Primitive = general(
    "phase",
    eval=np.sign,
    type=lambda x: x.with_shape(x.shape),
    vjp=lambda ct, y, args, wanted: [_turned(ct, y, args[0])],
    jvp=lambda primals, tangents: _jvp_phase(primals[0], tangents[0]),
    batch=lambda args, batched, size: phase(args[0]),
)
"""`phase(x)`: x / |x| of complex numbers, 0 at 0 with the derivative 0.

Its derivative along t is (t - y Re(conj(y) t)) / |x|, with y = x / |x|.
"""


def _jvp_phase(x: Any, t: Any) -> tuple[Any, Any]:
    y = phase(x)
    return y, conj(_turned(conj(t), y, x))


def _eval_complex_of(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    made = np.empty(np.broadcast_shapes(x.shape, y.shape), np.result_type(x, y, np.complex64))
    made.real, made.imag = x, y
    return made[()]


complex_of = elementwise("complex_of", _eval_complex_of, partials=[1, 1j])
"""`complex_of(x, y)`: x + i y of real numbers, infinities and zeros of both signs included."""

real = elementwise("real", np.real, partials=[1])
imag = elementwise("imag", np.imag, partials=[-1j])
registry.ufuncs[np.conjugate] = conj

# --- linear
# ------------------------------------------------------------------------------------------------

positive = elementwise(
    "positive", operator.pos, ufunc=np.positive, partials=[1], scalar=ScalarForm("positive", "fi")
)

# --- without a derivative, on purpose
# -----------------------------------------------------------------------

floor_divide = elementwise("floor_divide", python_operator(np.floor_divide), ufunc=np.floor_divide,
                           partials=[None, None])  # fmt: skip
floor = elementwise("floor", np.floor, partials=[None])
ceil = elementwise("ceil", np.ceil, partials=[None])
trunc = elementwise("trunc", np.trunc, partials=[None])
rint = elementwise("rint", np.rint, partials=[None])
sign = elementwise("sign", np.sign, partials=[None])
signbit = elementwise("signbit", np.signbit, partials=[None])
spacing = elementwise("spacing", np.spacing, partials=[None])
isnan = elementwise("isnan", np.isnan, partials=[None], scalar=ScalarForm("isnan"))
isinf = elementwise("isinf", np.isinf, partials=[None], scalar=ScalarForm("isinf"))
isfinite = elementwise("isfinite", np.isfinite, partials=[None], scalar=ScalarForm("isfinite"))
logical_xor = elementwise("logical_xor", np.logical_xor, partials=[None, None])
bitwise_and = elementwise(
    "bitwise_and", python_operator(np.bitwise_and), ufunc=np.bitwise_and, partials=[None, None]
)
bitwise_or = elementwise(
    "bitwise_or", python_operator(np.bitwise_or), ufunc=np.bitwise_or, partials=[None, None]
)
bitwise_xor = elementwise(
    "bitwise_xor", python_operator(np.bitwise_xor), ufunc=np.bitwise_xor, partials=[None, None]
)
invert = elementwise("invert", python_operator(np.invert), ufunc=np.invert, partials=[None])
left_shift = elementwise(
    "left_shift", python_operator(np.left_shift), ufunc=np.left_shift, partials=[None, None]
)
right_shift = elementwise(
    "right_shift", python_operator(np.right_shift), ufunc=np.right_shift, partials=[None, None]
)
bitwise_count = elementwise("bitwise_count", np.bitwise_count, partials=[None])
gcd = elementwise("gcd", np.gcd, partials=[None, None])
lcm = elementwise("lcm", np.lcm, partials=[None, None])
