"""NumPy's elementwise functions that are no ufuncs, and ufuncs composed of others.

NumPy's other ufuncs call their primitives by NumPy's protocol, and are in the namespace unchanged.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from fungrad.numpy.mutation.views import ComplexPart, linked
from fungrad.numpy.protocol.implements import as_array, implements
from fungrad.numpy.protocol.operands import array_of, common_dtype
from fungrad.primitives.elementwise import ufuncs as u
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.tracing.aliasing import private
from fungrad.tracing.trace import PLAIN, Tracer, is_weak, registry, typeof

# --- complex numbers ------------------------------------------------------------------------------


@implements(np.real)
def real(val: Any) -> Any:
    """The real part, as np.real: a view, or the array itself if it is real.

    A Python number stays one.
    """
    weak = is_weak(val)
    val = val if weak else array_of(val)
    kind = typeof(val).dtype.kind
    if kind == "c":
        return linked(u.real(val), val, ComplexPart(False)) if np.ndim(val) else u.real(val)
    return +val if weak and kind == "b" else val


@implements(np.imag)
def imag(val: Any) -> Any:
    """The imaginary part, as np.imag; a plain zero for real numbers."""
    if is_weak(val):
        kind = typeof(val).dtype.kind
        return u.imag(val) if kind == "c" else 0.0 if kind == "f" else 0
    val = array_of(val)
    if val.dtype.kind != "c":
        return np.zeros(val.shape, val.dtype)[()]
    return linked(u.imag(val), val, ComplexPart(True))


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """The argument of a complex number, as np.angle; its derivative is zero for real numbers."""
    z = array_of(z)
    result = np.arctan2(imag(z) if z.dtype.kind == "c" else 0, real(z))
    return result * (180 / math.pi) if deg else result


@implements(np.iscomplex)
def iscomplex(x: Any) -> Any:
    """Where the imaginary part is not zero, as np.iscomplex."""
    return imag(array_of(x)) != 0


@implements(np.isreal)
def isreal(x: Any) -> Any:
    """Where the imaginary part is zero, as np.isreal."""
    return imag(x) == 0


_real_sign = registry.ufuncs[np.sign]


def _sign(x: Any) -> Any:
    """z / |z| for complex numbers, 0 at 0; -1, 0 or 1 without a derivative for real ones."""
    x = as_array(x)
    return u.phase(x) if array_of(x).dtype.kind == "c" else _real_sign(x)


# --- rounding -------------------------------------------------------------------------------------


@implements(np.round, np.around)
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Rounded to decimals, as np.round; its derivative is zero."""
    a = array_of(a)
    places = operator.index(decimals)
    if a.dtype.kind in "iu" and places >= 0:
        return a
    if places == 0:
        return u.rint(a)
    factor = 10.0 ** builtin_abs(places)
    if places > 0:
        return u.rint(a * factor) / factor
    return cast(u.rint(a / factor) * factor, a.dtype)


builtin_abs = abs


def _round_method(self: Tracer, ndigits: int | None = None) -> Any:
    if ndigits is None:
        return cast(u.rint(self), np.int64)
    rounded = round(self, ndigits)
    return s.number(rounded) if is_weak(self) and self.dtype.kind == "f" else rounded


def _conjugate_method(self: Tracer) -> Any:
    return np.conjugate(self) if self.dtype.kind == "c" else self


@implements(np.fix)
def fix(x: Any, out: Any = None) -> Any:
    """Rounded towards zero, as np.fix; its derivative is zero."""
    return u.trunc(array_of(x))


# --- bounds and repairs ---------------------------------------------------------------------------


@implements(np.clip)
def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
) -> Any:
    """Kept between bounds, as np.clip; at a bound the derivative is shared with it."""
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    a = array_of(a)
    if a.dtype.kind in "iu":  # a Python integer outside of the dtype's range is no bound
        limits = np.iinfo(a.dtype)
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    if low is None and high is None:
        return u.positive(a)
    given = [bound for bound in (low, high) if bound is not None]
    a = cast(a, common_dtype(cast(a, a.dtype), *given))
    if low is not None and high is not None:  # where zeros of both signs meet, that of a is kept
        return u.minimum(as_array(high), u.maximum(as_array(low), a))
    return u.maximum(a, as_array(low)) if high is None else u.minimum(a, as_array(high))


def _clip_method(self: Tracer, min: Any = None, max: Any = None, out: Any = None) -> Any:
    return clip(self, min, max, out)


CLIP: np.ufunc = np._core.umath.clip  # type: ignore[attr-defined]
"""The ufunc of three arrays that `ndarray.clip` calls; it has no public name."""
registry.ufuncs[CLIP] = clip


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Numbers in place of NaN and infinities, as np.nan_to_num; the derivative is zero there."""
    x = array_of(x)
    if copy or type(x) is not Tracer or not x.shape:
        return _repaired(x, nan, posinf, neginf)
    return registry.into(x, _repaired(x, nan, posinf, neginf), "np.nan_to_num")


def _repaired(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    if x.dtype.kind == "c":
        return u.complex_of(*[_repaired(p, nan, posinf, neginf) for p in (u.real(x), u.imag(x))])
    if x.dtype.kind != "f":
        return private(x)
    bounds = np.finfo(x.dtype)
    high, low = bounds.max if posinf is None else posinf, bounds.min if neginf is None else neginf
    for where, number in ((np.isnan(x), nan), (x == np.inf, high), (x == -np.inf, low)):
        x = select(where, cast(array_of(number), x.dtype), x)
    return x


# --- comparisons ----------------------------------------------------------------------------------


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Where two arrays are equal within tolerances, as np.isclose."""
    a, b = array_of(a), array_of(b)
    if b.dtype.kind in "iub":  # differences of logical values raise, those of unsigned ones wrap
        b = b * 1.0
    close = np.abs(a - b) <= atol + rtol * np.abs(b)
    result = np.logical_or(np.logical_and(close, np.isfinite(b)), a == b)
    if equal_nan:
        result = np.logical_or(result, np.logical_and(np.isnan(a), np.isnan(b)))
    return result


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Whether two arrays are equal within tolerances, as np.allclose."""
    return _truth(np.all(isclose(a, b, rtol, atol, equal_nan)))


def _truth(x: Any) -> Any:
    """A Python boolean, as NumPy returns; traced, it promotes as one."""
    return s.number(x) != 0.0 if type(x) is Tracer else bool(x)


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have the same shape and elements, as np.array_equal."""
    a1, a2 = array_of(a1), array_of(a2)
    if a1.shape != a2.shape:
        return False
    same = a1 == a2
    if equal_nan and a1.dtype.kind in "fc" and a2.dtype.kind in "fc":
        same = np.logical_or(same, np.logical_and(np.isnan(a1), np.isnan(a2)))
    return _truth(np.all(same))


@implements(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays are equal after broadcasting, as np.array_equiv."""
    a1, a2 = array_of(a1), array_of(a2)
    try:
        np.broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return False
    return _truth(np.all(a1 == a2))


@implements(np.isposinf)
def isposinf(x: Any, out: Any = None) -> Any:
    """Where the value is plus infinity, as np.isposinf."""
    return _ordered(x) == np.inf


def _ordered(x: Any) -> Any:
    x = array_of(x)
    if x.dtype.kind == "c":
        raise TypeError(
            f"This operation is not supported for {x.dtype} values because it would be ambiguous."
        )
    return x


@implements(np.isneginf)
def isneginf(x: Any, out: Any = None) -> Any:
    """Where the value is minus infinity, as np.isneginf."""
    return _ordered(x) == -np.inf


# --- ufuncs composed of others --------------------------------------------------------------------


def _frexp(x: Any) -> tuple[Any, Any]:
    exponent = u.frexp_exponent(x)
    return u.ldexp(x, -exponent), exponent


def _modf(x: Any) -> tuple[Any, Any]:
    x = array_of(x)
    x = cast(x, np.modf(np.ones((), x.dtype))[0].dtype)
    whole = u.trunc(x)
    infinite = np.isinf(x)
    part = u.fmod(select(infinite, 0.0, x), 1.0)
    return select(infinite, np.copysign(0.0, x), part), whole


def _divmod(x: Any, y: Any) -> tuple[Any, Any]:
    return u.floor_divide(x, y), u.remainder(x, y)


def _power(x: Any, y: Any) -> Any:
    if type(y) is int and type(as_array(x)) is not int and array_of(x).dtype.kind == "b":
        x = cast(x, np.int_)  # Python's ** of booleans stays in int8, the ufunc does not
    return u.power(x, y)


def _float_power(x: Any, y: Any) -> Any:
    x, y = array_of(x), array_of(y)
    dtype = np.result_type(x.dtype, y.dtype, np.float64)
    return u.power(cast(x, dtype), cast(y, dtype))


def _divmod_method(self: Tracer, other: Any) -> Any:
    return _paired(self, self, other, other)


def _reflected_divmod_method(self: Tracer, other: Any) -> Any:
    return _paired(self, other, self, other)


def _paired(self: Tracer, x: Any, y: Any, other: Any) -> Any:
    if type(other) not in PLAIN and registry.operand(other) is NotImplemented:
        return NotImplemented
    return _divmod(as_array(x), as_array(y))


registry.ufuncs[np.sign] = _sign
registry.ufuncs[np.frexp] = _frexp
registry.ufuncs[np.modf] = _modf
registry.ufuncs[np.divmod] = _divmod
registry.ufuncs[np.power] = _power
registry.ufuncs[np.float_power] = _float_power


def _set_real(self: Tracer, value: Any) -> None:
    real(self)[...] = value


def _set_imag(self: Tracer, value: Any) -> None:
    if self.dtype.kind != "c":
        raise TypeError("array does not have imaginary part to set")
    imag(self)[...] = value


METHODS: dict[str, Any] = {
    "__divmod__": _divmod_method,
    "__rdivmod__": _reflected_divmod_method,
    "__round__": _round_method,
    "clip": _clip_method,
    "conj": _conjugate_method,
    "conjugate": _conjugate_method,
    "imag": property(registry.functions[np.imag], _set_imag),
    "real": property(registry.functions[np.real], _set_real),
    "round": registry.functions[np.round],
}

__all__ = [
    "allclose",
    "angle",
    "array_equal",
    "array_equiv",
    "clip",
    "fix",
    "imag",
    "isclose",
    "iscomplex",
    "isneginf",
    "isposinf",
    "isreal",
    "nan_to_num",
    "real",
    "round",
]
