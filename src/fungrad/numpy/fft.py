"""numpy.fft for traced values (`fungrad.numpy.fft`), with NumPy's signatures.

`fftfreq` and `rfftfreq` take a dtype, too.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import implements
from fungrad.numpy.protocol.operands import array_of, axis_index
from fungrad.primitives import fft as p
from fungrad.primitives.movement.diagonal_roll import roll
from fungrad.primitives.movement.reshape_broadcast_cast import cast, conj, pad, slice_axis


def _frequencies(function: Any) -> Any:
    def frequencies(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
        given = {} if device is None else {"device": device}
        result = function(n, d, **given)
        return result if dtype is None else cast(result, dtype)

    frequencies.__name__ = frequencies.__qualname__ = function.__name__
    frequencies.__doc__ = (
        f"The frequencies of a transform, as numpy.fft.{function.__name__}, in a dtype; the step d "
        "may be traced."
    )
    return frequencies


fftfreq = _frequencies(np.fft.fftfreq)
rfftfreq = _frequencies(np.fft.rfftfreq)


def _norm(norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in p.OPPOSITE:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return norm


def _resized(x: Any, axis: int, length: int) -> Any:
    """x cropped or filled with zeros at the end of an axis."""
    size = x.shape[axis]
    if length < size:
        return slice_axis(x, axis=axis, start=0, stop=length)
    if length > size:
        widths = [(0, 0)] * len(x.shape)
        widths[axis] = (0, length - size)
        return pad(x, widths=tuple(widths))
    return x


def _length(n: Any) -> int:
    length: int = operator.index(n)
    if length < 1:
        raise ValueError(f"Invalid number of FFT data points ({length}) specified.")
    return length


def _conj(x: Any) -> Any:
    return conj(x) if x.dtype.kind == "c" else x


def _along(x: Any, n: Any, axis: Any, norm: str | None, inverse: bool) -> Any:
    axis = axis_index(axis, len(x.shape))
    x = _resized(x, axis, _length(x.shape[axis] if n is None else n))
    return p.fft(x, axes=(axis,), inverse=inverse, norm=_norm(norm))


def _real_along(x: Any, n: Any, axis: Any, norm: str | None) -> Any:
    axis = axis_index(axis, len(x.shape))
    if x.dtype.kind == "c":
        raise TypeError("rfft takes real input; use fft for complex input.")
    x = _resized(x, axis, _length(x.shape[axis] if n is None else n))
    return p.rfft(x, axis=axis, norm=_norm(norm))


def _to_real_along(x: Any, n: Any, axis: Any, norm: str | None) -> Any:
    axis = axis_index(axis, len(x.shape))
    length = _length((x.shape[axis] - 1) * 2 if n is None else n)
    x = _resized(x, axis, length // 2 + 1)
    return p.irfft(x, axis=axis, length=length, norm=_norm(norm))


@implements(np.fft.fft)
def fft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """The discrete Fourier transform along an axis, as numpy.fft.fft."""
    return _along(array_of(a), n, axis, norm, False)


@implements(np.fft.ifft)
def ifft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """The inverse transform along an axis, as numpy.fft.ifft."""
    return _along(array_of(a), n, axis, norm, True)


@implements(np.fft.rfft)
def rfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """The transform of real input, its first n // 2 + 1 frequencies, as numpy.fft.rfft."""
    return _real_along(array_of(a), n, axis, norm)


@implements(np.fft.irfft)
def irfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """The inverse of rfft, of length n, by default 2 (m - 1), as numpy.fft.irfft."""
    return _to_real_along(array_of(a), n, axis, norm)


@implements(np.fft.hfft)
def hfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """The real transform of a signal with Hermitian symmetry, as numpy.fft.hfft."""
    return _to_real_along(_conj(array_of(a)), n, axis, p.OPPOSITE[_norm(norm)])


@implements(np.fft.ihfft)
def ihfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """The inverse of hfft, as numpy.fft.ihfft."""
    return conj(_real_along(array_of(a), n, axis, p.OPPOSITE[_norm(norm)]))


# --- several axes ---------------------------------------------------------------------------------


def _lengths(x: Any, s: Any, axes: Any, to_real: bool = False) -> tuple[list[int], list[int]]:
    """The lengths and the axes that NumPy reads from `s` and `axes`."""
    shape = x.shape
    ndim = len(shape)
    if axes is None:
        if s is not None:
            warnings.warn(
                "`axes` should not be `None` if `s` is not `None` (deprecated in NumPy 2.0).",
                DeprecationWarning,
                stacklevel=4,
            )
        axes = range(ndim) if s is None else range(ndim - len(s), ndim)
    axes = [axis_index(axis, ndim) for axis in axes]
    if s is None:
        lengths = [shape[axis] for axis in axes]
        if to_real:
            lengths[-1] = (lengths[-1] - 1) * 2
        return lengths, axes
    given = list(s)
    if len(given) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    defaults = [shape[axis] for axis in axes]
    if to_real and given and given[-1] is None:
        defaults[-1] = (defaults[-1] - 1) * 2
    return [
        d if n is None or operator.index(n) == -1 else operator.index(n)
        for n, d in zip(given, defaults, strict=True)
    ], axes


def _transformed(
    x: Any, lengths: list[int], axes: list[int], norm: str | None, inverse: bool
) -> Any:
    """The transform along axes, in one step if no axis is repeated."""
    if not axes:
        return x
    if len(set(axes)) < len(axes):
        for length, axis in zip(reversed(lengths), reversed(axes), strict=True):
            x = _along(x, length, axis, norm, inverse)
        return x
    for length, axis in zip(lengths, axes, strict=True):
        x = _resized(x, axis, _length(length))
    return p.fft(x, axes=tuple(axes), inverse=inverse, norm=_norm(norm))


@implements(np.fft.fftn)
def fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The transform along several axes, all by default, as numpy.fft.fftn."""
    x = array_of(a)
    return _transformed(x, *_lengths(x, s, axes), norm, False)


@implements(np.fft.ifftn)
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The inverse transform along several axes, all by default, as numpy.fft.ifftn."""
    x = array_of(a)
    return _transformed(x, *_lengths(x, s, axes), norm, True)


@implements(np.fft.rfftn)
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The transform of real input along several axes, half of the last, as numpy.fft.rfftn."""
    x = array_of(a)
    lengths, axes = _lengths(x, s, axes)
    if not axes:
        raise IndexError("at least 1 axis must be transformed")
    x = _real_along(x, lengths[-1], axes[-1], norm)
    return _transformed(x, lengths[:-1], axes[:-1], norm, False)


@implements(np.fft.irfftn)
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The inverse of rfftn, as numpy.fft.irfftn."""
    x = array_of(a)
    lengths, axes = _lengths(x, s, axes, True)
    if not axes:
        raise IndexError("at least 1 axis must be transformed")
    x = _transformed(x, lengths[:-1], axes[:-1], norm, True)
    return _to_real_along(x, lengths[-1], axes[-1], norm)


@implements(np.fft.fft2)
def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """The transform along two axes, as numpy.fft.fft2."""
    return fftn(a, s, axes, norm, out)


@implements(np.fft.ifft2)
def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """The inverse transform along two axes, as numpy.fft.ifft2."""
    return ifftn(a, s, axes, norm, out)


@implements(np.fft.rfft2)
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """The transform of real input along two axes, as numpy.fft.rfft2."""
    return rfftn(a, s, axes, norm, out)


@implements(np.fft.irfft2)
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """The inverse of rfft2, as numpy.fft.irfft2."""
    return irfftn(a, s, axes, norm, out)


# --- the zero frequency in the middle -------------------------------------------------------------


def _shifted(x: Any, axes: Any, sign: int) -> Any:
    x = array_of(x)
    ndim = len(x.shape)
    if axes is None:
        axes = range(ndim)
    elif not isinstance(axes, (tuple, list)):
        axes = (axes,)
    axes = tuple([axis_index(axis, ndim) for axis in axes])
    if not axes:
        return x
    # Forward by half the length, rounded down; back by the same.
    shifts = tuple([sign * (x.shape[axis] // 2) for axis in axes])
    return roll(x, shifts=shifts, axes=axes)


@implements(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Any:
    """The frequencies in ascending order, zero in the middle, as numpy.fft.fftshift."""
    return _shifted(x, axes, 1)


@implements(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Any:
    """The inverse of fftshift, as numpy.fft.ifftshift."""
    return _shifted(x, axes, -1)


__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
