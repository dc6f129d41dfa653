"""Replacements of functions of Python's module `math` while a transform traces.

`math.sin` converts its argument to a plain number, which would lose the derivative. Each function
here takes traced numbers, and passes all other arguments to math. Its result promotes as a Python
float, as math's. If the numbers are known, it raises math's errors (`math domain error`); under jit
and vmap it returns NumPy's NaN or infinity instead. `math.floor`, `ceil` and `trunc` call methods
of the number, `prod` multiplies, and `comb` and others need an index: they are not replaced.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.interception.python_numbers import NEVER_TRACED, traced_in
from fungrad.primitives.elementwise.ufuncs import power
from fungrad.primitives.movement.reshape_broadcast_cast import number, reshape
from fungrad.primitives.movement.stack_iota import stack
from fungrad.primitives.primitive import Primitive
from fungrad.primitives.reduction.reduce import exact_sum
from fungrad.tracing import interception
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, Tracer, current, registry, value_under
from fungrad.transforms.engine.operators import of_one, of_two


def _float(name: str, x: Any) -> Any:
    """A traced value as a traced Python float; any other value as math converts it.

    Raises:
      ArgumentError: if it is no real number.
    """
    if type(x) is not Tracer:
        found = traced_in(x, "__float__")
        if found is None:
            return math.ldexp(x, 0)  # a float, or math's error
        x = found
    if type(x.inner) is float:
        return x
    if x.size != 1 or x.dtype.kind == "c":
        raise ArgumentError(
            f"math.{name} takes a real number, and was given a traced value of type "
            f"{x.type}{user_line()}. NumPy's functions take arrays and complex numbers."
        )
    if x.shape:
        x = reshape(x, shape=())
    return x if x.type.weak and x.dtype == np.float64 else number(x)


def _known(value: Any) -> Any:
    """The number under a traced one; None if it is unknown, or an array."""
    value = value_under(value)
    if type(value) is float:
        return value
    return value if value is not None and np.ndim(value) == 0 else None


def _checked(original: Any, args: Any) -> None:
    """Raises the error of a function of math for these numbers, if they are known."""
    found = [_known(arg) for arg in args]
    if None not in found:
        original(*found)


def _by_numpy(name: str, numpys: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers that NumPy has, too."""

    original = getattr(math, name, None)  # some are of later versions

    def function(*args: Any) -> Any:
        args = tuple([_float(name, arg) for arg in args])
        _checked(original, args)
        found = numpys(*args)
        return found if type(found) is Tracer and type(found.inner) is float else number(found)

    return function


def _asked(name: str, numpys: Callable[..., Any]) -> Callable[..., Any]:
    """A function that tests a number."""
    return lambda x: numpys(_float(name, x))


def _special(name: str, ours: str) -> Callable[..., Any]:
    """A function of numbers that fungrad.scipy.special has."""

    def found(x: Any) -> Any:
        return getattr(registry.scipy("special"), ours)(x)

    return _by_numpy(name, found)


def _log(x: Any, *base: Any) -> Any:
    args = [_float("log", arg) for arg in (x, *base)]
    _checked(math.log, args)
    return number(np.log(args[0]) / np.log(args[1]) if base else np.log(args[0]))


def _remainder(x: Any, y: Any) -> Any:
    """x - n y for the integer n nearest to x / y, in CPython's steps, all exact."""
    x, y = _float("remainder", x), _float("remainder", y)
    _checked(math.remainder, (x, y))
    size, step = np.abs(x), np.abs(y)
    rest = np.fmod(size, step)
    beyond = step - rest
    half = rest - 2.0 * np.fmod(0.5 * (size - rest), step)
    nearest = np.where(rest < beyond, rest, np.where(rest > beyond, -beyond, half))
    found = np.where(np.isinf(y) & np.isfinite(x), size, nearest)
    return number(np.copysign(1.0, x) * found)


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> Any:
    a, b = _float("isclose", a), _float("isclose", b)
    for tolerance in (rel_tol, abs_tol):
        if type(tolerance) is not Tracer and tolerance < 0:
            raise ValueError("tolerances must be non-negative")
    apart = np.abs(b - a)
    near = (apart <= np.abs(rel_tol * b)) | (apart <= np.abs(rel_tol * a)) | (apart <= abs_tol)
    return (a == b) | (np.isfinite(a) & np.isfinite(b) & near)


def _hypot(*coordinates: Any) -> Any:
    first, *others = [_float("hypot", x) for x in coordinates]
    return number(functools.reduce(np.hypot, others, np.abs(first)))


def _modf(x: Any) -> tuple[Any, Any]:
    x = _float("modf", x)
    whole = np.trunc(x)
    part = np.where(np.isinf(x), 0.0, x - np.where(np.isinf(x), 0.0, whole))
    return number(np.copysign(part, x)), number(whole)


def _frexp(x: Any) -> tuple[Any, Any]:
    part, exponent = np.frexp(_float("frexp", x))
    return number(part), exponent


def _ldexp(x: Any, i: Any) -> Any:
    if not (type(i) is Tracer and i.dtype.kind in "biu"):
        math.ldexp(0.0, i)  # raises if it is no integer
    x = _float("ldexp", x)
    _checked(math.ldexp, (x, i))
    return number(np.ldexp(x, i))


def _whole(name: str, numpys: Callable[..., Any]) -> Callable[..., Any]:
    """A function of integers: math's if they are known."""

    def function(*args: Any) -> Any:
        if any(_known(arg) is None for arg in args):
            return functools.reduce(numpys, args)
        return getattr(math, name)(*[_known(arg) for arg in args])

    return function


OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt,
    "copysign": np.copysign, "cos": np.cos, "cosh": np.cosh, "degrees": np.degrees, "exp": np.exp,
    "exp2": np.exp2, "expm1": np.expm1, "fabs": np.abs, "fmod": np.fmod, "log10": np.log10,
    "log1p": np.log1p, "log2": np.log2, "nextafter": np.nextafter, "pow": np.power,
    "radians": np.radians, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan,
    "tanh": np.tanh,
    "ulp": lambda x: np.where(np.isinf(x), np.abs(x), np.spacing(np.abs(x))),
    "fma": lambda x, y, z: x * y + z,
}  # fmt: skip
"""The functions of numbers, each with NumPy's equivalent."""

SPECIAL = {"erf": "erf", "erfc": "erfc", "gamma": "gamma", "lgamma": "gammaln"}
"""Those that fungrad.scipy.special has, with their names there."""

TABLE: dict[str, Callable[..., Any]] = {
    **{name: _by_numpy(name, numpys) for name, numpys in OF_NUMBERS.items()},
    **{f"is{kind}": _asked(f"is{kind}", getattr(np, f"is{kind}"))
       for kind in ("finite", "inf", "nan")},
    **{name: _special(name, ours) for name, ours in SPECIAL.items()},
    "frexp": _frexp, "gcd": _whole("gcd", np.gcd), "hypot": _hypot, "isclose": _isclose,
    "lcm": _whole("lcm", np.lcm), "ldexp": _ldexp, "log": _log, "modf": _modf,
    "remainder": _remainder,
}  # fmt: skip
"""The names in the module math, and their replacements."""


def _of_special(name: str, original: Callable[..., Any]) -> Callable[[Any], Any]:
    """The short way of a function that is declared in fungrad.scipy.special, once it is used."""

    @functools.cache
    def made() -> Callable[..., Any]:
        ufunc = getattr(registry.scipy("special"), SPECIAL[name])
        return of_one(registry.ufuncs[ufunc], original, _none)

    return lambda x: made()(x)


def _none(*args: Any) -> None:
    """The short way of a function that has none."""


def _short_ways(name: str, original: Callable[..., Any]) -> tuple[Any, Callable[..., Any]]:
    """How a function of math computes with one traced float, or None; and with two numbers."""
    ufunc = {**OF_NUMBERS, "log": np.log, "hypot": np.hypot}.get(name)
    primitive = power if name == "pow" else registry.ufuncs.get(ufunc)
    if name in SPECIAL:
        return _of_special(name, original), _none
    if not isinstance(primitive, Primitive) or not primitive.plain:
        return None, _none
    if len(primitive.slopes) == 1:
        return of_one(primitive, original, _none), _none
    left = of_two(primitive, original, _none)
    right = of_two(primitive, original, _none, swapped=True)
    return None, lambda x, y: left(x, y) if type(x) is Tracer else right(y, x)


def _replacing(name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    original = getattr(math, name)
    of_number, of_numbers = _short_ways(name, original)

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        for arg in args:
            if type(arg) is Tracer and current() is not EVAL:
                short = type(arg.inner) is float and len(args) == 2
                found = of_numbers(*args) if short else None
                return ours(*args, **kwargs) if found is None else found
        if not NEVER_TRACED.issuperset(map(type, args)) and current() is not EVAL:
            if any(traced_in(arg, "__float__") is not None for arg in args):
                return ours(*args, **kwargs)
        return original(*args, **kwargs)

    if of_number is None:
        return function

    @functools.wraps(original)
    def function_of_number(x: Any, /, *others: Any) -> Any:
        if type(x) is Tracer and type(x.inner) is float and not others:
            found = of_number(x)
            if found is not None:
                return found
        return function(x, *others)

    return function_of_number


def _parts(values: Any) -> tuple[Any, bool]:
    """The items of an iterable, and whether one is traced."""
    if type(values) is not Tracer:
        values = list(values)
    items = list(values)
    return items, any(type(item) is Tracer for item in items) and current() is not EVAL


_fsum, _dist = math.fsum, math.dist


@functools.wraps(_fsum)
def fsum(seq: Any, /) -> Any:
    """The sum, rounded once."""
    items, traced = _parts(seq)
    return exact_sum(stack(*[_float("fsum", item) for item in items])) if traced else _fsum(items)


@functools.wraps(_dist)
def dist(p: Any, q: Any, /) -> Any:
    """The distance of two points."""
    (p, traced_p), (q, traced_q) = _parts(p), _parts(q)
    if not (traced_p or traced_q):
        return _dist(p, q)
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    ends = zip(p, q, strict=True)
    return _hypot(*[_float("dist", a) - _float("dist", b) for a, b in ends])


interception.register(
    math,
    {
        **{name: _replacing(name, ours) for name, ours in TABLE.items() if hasattr(math, name)},
        "fsum": fsum,
        "dist": dist,
    },
)
