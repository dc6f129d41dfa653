"""Arguments made ready for primitives: arrays of one dtype, axes as indices, complete
shapes.

Knows how NumPy reads such arguments; knows no function of NumPy's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.ir.types import PYTHON_SCALARS
from fungrad.numpy.protocol.implements import as_array
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.tracing.trace import STRONG, Tracer, is_weak, typeof


def are_zeros(values: Any) -> bool:
    """Whether plain numbers are zeros, and none of them -0.0."""
    if type(values) is Tracer or np.any(values):
        return False
    return not np.any(np.signbit(np.real(values)) | np.signbit(np.imag(values)))


def array_of(value: Any) -> Any:
    """Any array-like argument as something with a shape and a dtype: numbers become NumPy's."""
    kind = type(value)
    if kind is Tracer:
        strong = type(value.value) in STRONG or not is_weak(value)
        return value if strong else cast(value, value.dtype)
    if kind is np.ndarray and value.dtype.char != "O":
        return value
    if kind in PYTHON_SCALARS:
        return np.asarray(value)[()]
    return as_array(value)


def promoted(arrays: Sequence[Any], dtype: Any = None) -> list[Any]:
    """Arrays cast to one dtype: the given one, or the one that NumPy promotes theirs to."""
    dtypes = [x.dtype for x in arrays]
    if dtype is None:
        dtype = dtypes[0]
        if dtypes.count(dtype) == len(dtypes):
            return list(arrays)
        dtype = np.result_type(*dtypes)
    else:
        dtype = np.dtype(dtype)
    return [x if d == dtype else cast(x, dtype) for x, d in zip(arrays, dtypes, strict=True)]


def common_dtype(*values: Any) -> np.dtype[Any]:
    """The dtype that NumPy promotes values to; Python's numbers, traced or not, are weak."""
    types = [typeof(as_array(value)) for value in values]
    return np.result_type(*[type_.zeros() if type_.weak else type_.dtype for type_ in types])


def axis_index(axis: Any, ndim: int) -> int:
    """An axis as an index of 0 ... ndim - 1.

    Raises:
      numpy.exceptions.AxisError: as NumPy does.
    """
    index = operator.index(axis)
    if not -ndim <= index < ndim:
        raise np.exceptions.AxisError(index, ndim)
    return index + ndim if index < 0 else index


def axis_indices(axes: Any, ndim: int) -> tuple[int, ...]:
    """One axis or several, none of them twice, as indices of 0 ... ndim - 1."""
    if not isinstance(axes, (tuple, list)):
        return (axis_index(axes, ndim),)
    result = tuple([axis_index(axis, ndim) for axis in axes])
    if len(set(result)) != len(result):
        raise ValueError(f"repeated axis in {axes}")
    return result


def sizes(shape: Any) -> tuple[int, ...]:
    """A shape, given as one integer or several, as a tuple."""
    if type(shape) is int:
        return (shape,)
    if isinstance(shape, (tuple, list)):
        return tuple([n if type(n) is int else operator.index(n) for n in shape])
    if isinstance(shape, np.ndarray) and shape.ndim:
        return tuple([operator.index(n) for n in shape])
    return (operator.index(shape),)


def complete_shape(shape: tuple[int, ...], found: tuple[int, ...]) -> tuple[int, ...]:
    """A new shape for an array of the shape `found`, with its -1 filled in.

    Raises:
      ValueError: where the numbers of elements differ, as NumPy does.
    """
    size = math.prod(found)
    if -1 in shape:
        rest = math.prod([n for n in shape if n != -1])
        if shape.count(-1) > 1:
            raise ValueError("can only specify one unknown dimension")
        if rest > 0 and size % rest == 0:
            return tuple([size // rest if n == -1 else n for n in shape])
    elif math.prod(shape) == size:
        return shape
    raise ValueError(f"cannot reshape array of size {size} into shape {shape}")


__all__ = [
    "are_zeros", "array_of", "axis_index", "axis_indices", "common_dtype", "complete_shape",
    "promoted", "sizes",
]  # fmt: skip
