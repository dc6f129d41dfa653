"""Arguments prepared for primitives (arrays of one dtype, axes, shapes), and plain numbers.

item() and tolist() give traced numbers, and those of integers and booleans, if they are known. In
SciPy, whose compiled code would take their numbers without their derivatives, they raise an error.
float() and complex() by compiled code get these alone: a floating or complex number would lose its
derivative, and raises an error. (interception/python_numbers.py replaces `float` in Python code.)
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import AbstractValueError, FungradError
from fungrad.ir.canonical import DOUBLE, canonical_dtype
from fungrad.ir.types import PYTHON_SCALARS
from fungrad.numpy.protocol.implements import as_array
from fungrad.primitives.movement.reshape_broadcast_cast import cast, number, reshape
from fungrad.tracing.aliasing import fresh
from fungrad.tracing.code_origin import origin
from fungrad.tracing.concrete_answers import whole
from fungrad.tracing.read_texts import cuts_by_text
from fungrad.tracing.refusals import bound_before, formatted, refused_number, refused_store, stored
from fungrad.tracing.trace import (
    STRONG,
    OfNumbers,
    Tracer,
    is_weak,
    may_be_plain,
    outlived,
    shape_of,
    typeof,
)


def are_zeros(values: Any) -> bool:
    """Whether plain numbers are zeros, and none of them -0.0."""
    if type(values) is Tracer or np.any(values):
        return False
    return not np.any(np.signbit(np.real(values)) | np.signbit(np.imag(values)))


def array_of(value: Any) -> Any:
    """An array-like argument as an object with shape and dtype: numbers become NumPy's."""
    kind = type(value)
    if kind is Tracer:
        strong = type(value.inner) in STRONG or not is_weak(value)
        return value if strong else cast(value, value.dtype)
    if kind is np.ndarray:
        return value if value.dtype is DOUBLE else as_array(value)
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
        dtype = canonical_dtype(dtype)
    return [x if d == dtype else cast(x, dtype) for x, d in zip(arrays, dtypes, strict=True)]


def common_dtype(*values: Any) -> np.dtype[Any]:
    """The dtype that NumPy promotes values to; Python numbers, traced or not, are weak."""
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


def inexact_of(value: Any) -> Any:
    """An array-like argument as floating or complex numbers: others become float64."""
    x = array_of(value)
    return x if x.dtype.kind in "fc" else cast(x, DOUBLE)


def float64_of(value: Any) -> Any:
    """An array-like argument as float64."""
    return cast(array_of(value), DOUBLE)


def double_of(value: Any) -> Any:
    """An array-like argument in double precision: complex128, or float64 if it is real."""
    x = array_of(value)
    return cast(x, np.dtype(np.complex128) if x.dtype.kind == "c" else DOUBLE)


def axis_last(x: Any, axis: Any) -> tuple[Any, int]:
    """An array with an axis moved to the end, and the index of that axis before."""
    x = array_of(x)
    axis = axis_index(axis, len(shape_of(x)))
    return np.moveaxis(x, axis, -1), axis


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
      ValueError: if the numbers of elements differ, as NumPy does.
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


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that a reduction with `axis` runs over, none of them negative.

    Raises:
      numpy.exceptions.AxisError: if there is no such axis.
    """
    if axis is None:
        return tuple(range(ndim))
    return axis_indices(axis, ndim)


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """As `axes_of`; a 0-d value may be reduced along axis 0 or -1, as by NumPy's ufuncs."""
    return () if ndim == 0 and type(axis) is int and axis in (0, -1) else axes_of(axis, ndim)


def flattened(x: Any) -> Any:
    """x with one axis, in C order."""
    shape = shape_of(x)
    if len(shape) == 1:
        return x
    size = 1
    for length in shape:
        size *= length
    return reshape(x, shape=(size,))


def with_axes_kept(y: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """A reduced value with axes of length 1 for the reduced ones (keepdims=True)."""
    return reshape(y, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)]))


def _of(x: Tracer, asked: str, answer: Any) -> Any:
    """`answer` of a known integer or boolean; an error for other dtypes."""
    if may_be_plain(x):
        return answer(outlived(x))
    if x.dtype.kind in "biu":
        return x.owner.concrete(x, AbstractValueError, asked, answer)
    try:
        x.owner.concrete(x, AbstractValueError, asked, whole)
    except FungradError as error:
        advice = bound_before()
        if advice:
            error.add_note(advice)
        raise
    raise refused_number(x.type, asked)


def _float(self: Tracer) -> float:
    if stored() and not may_be_plain(self):
        raise refused_store(self.type)
    frame = formatted()
    if frame is not None and self.dtype.kind != "c":
        if cuts_by_text(self, frame):
            raise refused_number(self.type, "a number in the text")
        return self.owner.concrete(self, AbstractValueError, "format(x) by %", float)
    number: float = _of(self, "float()", float)
    return number


def _complex(self: Tracer) -> complex:
    if stored() and not may_be_plain(self):
        raise refused_store(self.type)
    number: complex = _of(self, "complex()", complex)
    return number


def python_number(x: Tracer, dtype: np.dtype[Any]) -> Any:
    """The only element of a traced array as a traced Python number.

    Raises:
      TypeError: if there are more elements, as NumPy does.
    """
    if x.size != 1:
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
    x = cast(reshape(x, shape=()) if x.shape else fresh(x), dtype)
    return number(x) if dtype.kind == "f" else x


def _is_known(x: Tracer) -> bool:
    """Whether a value has no derivative, or has outlived its transform."""
    return x.dtype.kind in "biu" or may_be_plain(x)


def _item(self: Tracer, *index: Any) -> Any:
    """An element as a Python number: traced if it is a float or complex number."""
    if _is_known(self) or origin(sys._getframe(1).f_code.co_filename) == "scipy":
        return _of(self, ".item()", lambda value: value.item(*index))
    if not index:
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return python_number(self, self.dtype)
    if len(index) == 1 and not isinstance(index[0], tuple):
        return python_number(reshape(self, shape=(self.size,))[index[0]], self.dtype)
    return python_number(self[index[0] if len(index) == 1 else index], self.dtype)


def _tolist(self: Tracer) -> Any:
    """The value as nested lists of Python numbers: traced if they have a derivative."""
    if _is_known(self) or origin(sys._getframe(1).f_code.co_filename) == "scipy":
        return _of(self, ".tolist()", lambda value: value.tolist())
    if not self.shape:
        return python_number(self, self.dtype)
    return [_tolist(self[i]) for i in range(len(self))]


def items_of(x: Tracer) -> list[Any]:
    """The elements of a traced array as Python numbers, traced if they have a derivative."""
    items: Any = _tolist(reshape(x, shape=(x.size,)))
    return list(items)


def _of_float(name: str) -> Any:
    """A method of floats that gives the number in another form, as fractions.Fraction asks for."""

    def method(self: Tracer) -> Any:
        return _of(self, f".{name}()", lambda value: getattr(float(value), name)())

    method.__name__ = name
    return OfNumbers(method)


METHODS: dict[str, Any] = {
    "__complex__": _complex,
    "__float__": _float,
    "as_integer_ratio": _of_float("as_integer_ratio"),
    "hex": _of_float("hex"),
    "item": _item,
    "tolist": _tolist,
}
