"""How fungrad's functions implement NumPy's.

`implements` registers a function for NumPy's protocol; `as_array` prepares an array-like argument
for primitives; `known` returns the number under a traced value, if there is one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from fungrad.errors import AbstractValueError, ArgumentError
from fungrad.ir.canonical import own_arithmetic, refused_arithmetic
from fungrad.tracing import interception
from fungrad.tracing.aliasing import array_over
from fungrad.tracing.concrete_answers import whole
from fungrad.tracing.created_arrays import holds_traced
from fungrad.tracing.source_location import user_line
from fungrad.tracing.subclass_arrays import OfTraced, holds_own, value_of
from fungrad.tracing.trace import EVAL, PLAIN, Tracer, current, registry

F = TypeVar("F", bound=Callable[..., Any])

_NONE: frozenset[str] = frozenset()
NO_VALUE: Any = np._NoValue
"""NumPy's own mark of an argument that was not given."""


def implements(*functions: Callable[..., Any], own: frozenset[str] = _NONE) -> Callable[[F], F]:
    """Registers a function as the implementation of NumPy's functions for traced values.

    Returns the function for the namespace `fungrad.numpy`, which calls NumPy's own outside of
    transforms, unless a keyword is given that NumPy's does not have (`own`). An argument `out` is
    handled here: the result is written into it, and the function never gets it.
    """

    def register(function: F) -> F:
        targets = [interception.original(target) for target in functions]
        for target in targets:
            registry.of_one[target] = function
        if "out" in _arguments(function):
            function = _writing(function)
        for target in targets:
            registry.functions[target] = function
        original = targets[0]

        @functools.wraps(function)
        def public(*args: Any, **kwargs: Any) -> Any:
            if current() is EVAL and own.isdisjoint(kwargs):
                return original(*args, **kwargs)
            return function(*args, **kwargs)

        return cast(F, public)

    return register


def of_arrays(function: F) -> F:
    """Makes the results of a function arrays, also without axes, where NumPy returns no numbers."""

    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        return array_over(function(*args, **kwargs))

    return cast(F, made)


_SUMS = ("cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "mean", "prod", "sum")
"""The functions that compute in the dtype of `out`, if that is another one."""


def _arguments(function: Any) -> tuple[str, ...]:
    code = inspect.unwrap(function).__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names


def _writing(function: F) -> F:
    """The function, with its result written into the array `out`, if one is given."""
    names = _arguments(function)
    code = inspect.unwrap(function).__code__
    position = names.index("out")
    alone = position >= code.co_argcount  # by its keyword only
    summed = names.index("dtype") if function.__name__ in _SUMS else None

    @functools.wraps(function)
    def writing(*args: Any, **kwargs: Any) -> Any:
        if "out" not in kwargs and (alone or len(args) <= position):
            return function(*args, **kwargs)
        if "out" in kwargs:
            out = kwargs.pop("out")
        else:
            out = args[position]
            args = (*args[:position], None, *args[position + 1 :])
        if out is None:
            return function(*args, **kwargs)
        if type(out) is tuple and len(out) == 1:
            out = out[0]
        if summed is not None and widens(args[0], out):
            if len(args) <= summed:
                kwargs["dtype"] = kwargs.get("dtype") or out.dtype
            elif args[summed] is None:
                args = (*args[:summed], out.dtype, *args[summed + 1 :])
        return registry.into(out, function(*args, **kwargs), f"np.{function.__name__}")

    return cast(F, writing)


def widens(a: Any, out: Any) -> bool:
    """Whether NumPy sums an array in the dtype of `out`."""
    found = getattr(a, "dtype", None)
    return found is not None and out.dtype != found and np.can_cast(found, out.dtype, "same_kind")


def as_array(value: Any) -> Any:
    """Any array-like argument as a tracer, an ndarray, a NumPy scalar or a Python number.

    Raises:
      ArgumentError: if it is no array and no number.
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, np.ndarray) and holds_own(value):
        if isinstance(value, OfTraced):
            return value_of(value)
        if own_arithmetic(value):
            raise refused_arithmetic(value, user_line())
        value = value.view(np.ndarray)
    ready = registry.operand(value)
    if ready is NotImplemented and not hasattr(value, "__array_function__"):
        ready = registry.operand(array_from(value))
    if ready is NotImplemented:
        raise ArgumentError(
            f"{value!r} of type {type(value).__name__} was given beside a traced "
            f"value{user_line()}, and is not an array or a number: make it one, as by "
            "np.array(list(value))."
        )
    return ready


def array_from(value: Any) -> Any:
    """The array that `__array__` of an object (a Series, a DataArray) returns, as np.asarray.

    The object may hold a traced array, which np.asarray would not take, or traced values in an
    object array. NotImplemented if the object has no `__array__`.
    """
    give = getattr(value, "__array__", None)
    if give is None or isinstance(value, type):
        return NotImplemented
    array = give()
    return registry.operand(array) if holds_traced(array) else array


def known(value: Any, asked: str, read: Callable[[Any], Any] = whole) -> Any:
    """The NumPy value of an argument that determines shapes, traced or not.

    Under vmap `read` has to return the same for all examples, so it reads no more than it needs.

    Raises:
      AbstractValueError: if only the type is known; `asked` names the caller in the message.
    """
    value = as_array(value)
    if type(value) is Tracer:
        return value.owner.concrete(value, AbstractValueError, asked, read)
    return read(value)


def if_known(value: Any) -> Any:
    """The NumPy value of an argument, traced or not; None if only its type is known."""
    try:
        return known(value, "")
    except AbstractValueError:
        return None
