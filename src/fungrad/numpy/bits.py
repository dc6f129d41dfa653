"""NumPy's functions of the bits of traced values: packbits, unpackbits and ndarray.view.

Bits have no derivatives. Complex numbers viewed as pairs of real ones, and pairs viewed as complex
numbers, have.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.ir.canonical import PLAIN_KINDS
from fungrad.numpy.mutation.views import linked
from fungrad.numpy.protocol.implements import implements
from fungrad.numpy.protocol.operands import array_of, axis_index, flattened
from fungrad.primitives.elementwise import ufuncs as u
from fungrad.primitives.elementwise.ufuncs import bitcast
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.tracing.aliasing import Step, array_over, private
from fungrad.tracing.source_location import user_line
from fungrad.tracing.subclass_arrays import OfTraced, is_subclass, overlaid
from fungrad.tracing.trace import Tracer, is_number, shape_of, typeof


def _weights(bitorder: str) -> Any:
    """The value of each of the eight bits of a byte."""
    if bitorder not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")
    weights = (1 << np.arange(8)).astype(np.uint8)
    return weights if bitorder == "little" else weights[::-1]


def _last(a: Any, axis: Any) -> tuple[Any, int]:
    """The array with an axis moved to the end, and that axis; flattened for None."""
    if axis is None or not a.shape:
        return flattened(a), 0
    axis = axis_index(axis, len(a.shape))
    return s.moveaxis(a, axis, len(a.shape) - 1), axis


@implements(np.packbits)
def packbits(a: Any, /, axis: Any = None, bitorder: str = "big") -> Any:
    """Booleans, or integers that are not 0, as the bits of bytes, as numpy.packbits."""
    a = array_of(a)
    if a.dtype.kind not in "iub":
        raise TypeError("Expected an input array of integer or boolean data type")
    weights = _weights(bitorder)
    last, axis = _last(a != 0, axis)
    *lead, count = last.shape
    last = s.pad(last, widths=(*[(0, 0)] * len(lead), (0, -count % 8)))
    eights = s.reshape(last, shape=(*lead, -(-count // 8), 8))
    packed = np.sum(s.cast(eights, np.uint8) * weights, axis=-1, dtype=np.uint8)
    return s.moveaxis(packed, len(lead), axis)


@implements(np.unpackbits)
def unpackbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: str = "big") -> Any:
    """The bits of bytes, each as a byte that is 0 or 1, as numpy.unpackbits."""
    a = array_of(a)
    if a.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    weights = _weights(bitorder)
    last, axis = _last(a, axis)
    *lead, length = last.shape
    column = s.reshape(last, shape=(*lead, length, 1))
    bits = s.cast(np.bitwise_and(column, weights) != 0, np.uint8)
    bits = s.reshape(bits, shape=(*lead, 8 * length))
    wanted = 8 * length if count is None else operator.index(count)
    if wanted < 0:
        wanted += 8 * length
        if wanted < 0:
            raise ValueError("-count larger than number of elements")
    bits = s.slice_axis(bits, axis=len(lead), start=0, stop=min(wanted, 8 * length))
    if wanted > 8 * length:
        bits = s.pad(bits, widths=(*[(0, 0)] * len(lead), (0, wanted - 8 * length)))
    return s.moveaxis(bits, len(lead), axis)


def _view(self: Tracer, dtype: Any = None, type: Any = None) -> Any:
    """A view of the same bits, in another dtype if one is given, as ndarray.view.

    Known bits that have no derivative are plain numbers, and read-only.

    Raises:
      UnsupportedArgumentError: if the dtype has the other byte order.
    """
    if isinstance(dtype, builtin_type) and issubclass(dtype, np.ndarray):
        dtype, type = None, dtype
    if type is not None and (
        is_subclass(type) or issubclass(type, OfTraced) or type in PLAIN_KINDS
    ):
        if dtype is None and is_number(self):
            return self
        found = array_over(self if dtype is None else _view(self, dtype))
        return overlaid(type, found, found)
    if dtype is None:
        dtype = self.dtype
    wanted = np.dtype(dtype)
    if not wanted.isnative:
        raise UnsupportedArgumentError(
            f"A view of a traced value as {wanted.str} was asked for{user_line()}, but traced "
            "values are in the machine's byte order. Turn the bytes of each number around: "
            'x.view("u1").reshape(-1, x.itemsize)[:, ::-1].'
        )
    step = Bits(wanted)
    found = step.forward(self)
    if builtin_type(found) is np.ndarray:
        found.flags.writeable = False
    return linked(private(found), self, step)


class Bits(Step):
    """The step to a view of all bits in another dtype."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def forward(self, base: Any) -> Any:
        """The bits of the base in the dtype."""
        return _bits(base, self.dtype)

    def in_memory(self, strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
        """The strides of the view, from those of the base and the bytes of its elements."""
        size = self.dtype.itemsize
        if size == itemsize:
            return strides
        return (*(n * itemsize // size for n in strides[:-1]), 1)

    def back(self, base: Any, view: Any) -> Any:
        """The bits of the view in the base's dtype."""
        return _bits(view, typeof(base).dtype)


def _bits(x: Any, wanted: np.dtype[Any]) -> Any:
    dtype = typeof(x).dtype
    if wanted == dtype:
        return x
    shape = np.empty(shape_of(x), dtype).view(wanted).shape  # raises as NumPy does
    if dtype.kind == "c" and wanted == _real_of(dtype):
        pairs = np.stack([u.real(x), u.imag(x)], axis=-1)
        return s.reshape(pairs, shape=shape)
    if wanted.kind == "c" and dtype == _real_of(wanted):
        pairs = s.reshape(x, shape=(*shape, 2))
        return u.complex_of(pairs[..., 0], pairs[..., 1])
    return bitcast(x, dtype=wanted)


builtin_type = type


def _real_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype).real.dtype


METHODS: dict[str, Any] = {"view": _view}

__all__ = ["packbits", "unpackbits"]
