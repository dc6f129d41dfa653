"""Arrays of the elements of a traced array as objects, and functions of np.frompyfunc on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.numpy.protocol.operands import items_of
from fungrad.tracing.created_arrays import Written, holds_traced, tracer_of
from fungrad.tracing.object_arrays import objects
from fungrad.tracing.trace import Tracer


def filled(shape: Any, value: Any) -> Any:
    """An array of objects, each of them one value."""
    one = np.ndarray((), object)
    one[()] = value
    made = np.ndarray(shape, object)
    made[...] = one
    return objects(made)


def objects_of(value: Any) -> Any:
    """A traced array, or a list with traced values, as an array of objects: of Python's numbers, as
    ndarray.astype(object). Any other value itself.
    """
    value = tracer_of(value) if type(value) is Written else value
    if type(value) is not Tracer:
        listed = isinstance(value, (list, tuple)) and holds_traced(value)
        return objects(np.array(value, object)) if listed else value
    made = np.ndarray(value.shape, object)
    for index, item in zip(np.ndindex(made.shape), items_of(value), strict=True):
        made[index] = item
    return objects(made)


def is_of_python(ufunc: np.ufunc) -> bool:
    """Whether a ufunc is one of np.frompyfunc."""
    return not {*"".join(ufunc.types)} - {*"O->"}


def called(ufunc: np.ufunc, method: str, inputs: Any, kwargs: dict[str, Any]) -> Any:
    """A ufunc of np.frompyfunc, which calls its function with each element."""
    return getattr(ufunc, method)(*map(objects_of, inputs), **kwargs)
