"""Floor 8: how functions of ours take the place of NumPy's. Knows the registry alone.

`implements` registers a function for NumPy's protocol; `as_array` makes any array-like argument
ready for primitives; `known` gives the number inside a traced value where there is one; `refuse`
names an argument that has no meaning for traced values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from fungrad.errors import AbstractValueError, ArgumentError, UnsupportedArgumentError
from fungrad.tracing import interception
from fungrad.tracing.questions import whole
from fungrad.tracing.source import user_line
from fungrad.tracing.trace import EVAL, PLAIN, Tracer, current, registry

F = TypeVar("F", bound=Callable[..., Any])

NO_VALUE: Any = np._NoValue
"""NumPy's own mark of an argument that was not given."""


def implements(*functions: Callable[..., Any]) -> Callable[[F], F]:
    """Registers a function under the NumPy functions that it stands for on traced values.

    The function that is returned, for the namespace `fungrad.numpy`, is NumPy's own outside of
    transforms.
    """

    def register(function: F) -> F:
        targets = [interception.original(target) for target in functions]
        for target in targets:
            registry.functions[target] = function
        original = targets[0]

        @functools.wraps(function)
        def public(*args: Any, **kwargs: Any) -> Any:
            if current() is EVAL:
                return original(*args, **kwargs)
            return function(*args, **kwargs)

        return cast(F, public)

    return register


def as_array(value: Any) -> Any:
    """Any array-like argument as a tracer, an ndarray, a NumPy scalar or a Python number.

    Raises:
      ArgumentError: where it is no array and no number.
    """
    if type(value) in PLAIN:
        return value
    ready = registry.operand(value)
    if ready is NotImplemented and not hasattr(value, "__array_function__"):
        ready = array_from(value)
    if ready is NotImplemented:
        raise ArgumentError(
            f"{value!r} of type {type(value).__name__} was given beside a traced "
            f"value{user_line()}, and is not an array or a number: make it one, as by "
            "np.array(list(value))."
        )
    return ready


def array_from(value: Any) -> Any:
    """The array that an object hands out by `__array__` (a Series, a DataArray), as np.asarray.

    It is traced where the object holds a traced one: np.asarray would refuse that. NotImplemented
    where the object has no array.
    """
    give = getattr(value, "__array__", None)
    if give is None or isinstance(value, type):
        return NotImplemented
    return registry.operand(give())


def known(value: Any, asked: str, read: Callable[[Any], Any] = whole) -> Any:
    """What is read off the NumPy value of an argument that decides on shapes, traced or not.

    Examples of vmap that differ have to give the same answer, so `read` takes no more than counts.

    Raises:
      AbstractValueError: where it is only known as a type; `asked` says what wanted it.
    """
    value = as_array(value)
    if type(value) is Tracer:
        return value.owner.concrete(value, AbstractValueError, asked, read)
    return read(value)


def if_known(value: Any) -> Any:
    """The NumPy value of an argument, traced or not; None where it is only known as a type."""
    try:
        return known(value, "")
    except AbstractValueError:
        return None


def refuse(function: str, **arguments: Any) -> None:
    """Refuses arguments that were given (that are not None and not NumPy's mark).

    Raises:
      UnsupportedArgumentError: naming the function and the argument.
    """
    for name, value in arguments.items():
        if value is not None and value is not NO_VALUE:
            raise UnsupportedArgumentError(
                f"{function} was called with {name}=... on a traced value{user_line()}, which has "
                "no meaning there: arrays are values, and are not written into. Leave it out and "
                "use the result."
            )
