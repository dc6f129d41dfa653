"""Convolutions and correlations of scipy.signal.

Directly by the primitive convolve_nd, or by Fourier transforms; both equal SciPy's results up to
rounding. Integers are summed directly, and so exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.numpy.protocol.operands import array_of, axis_index, promoted
from fungrad.primitives.contraction.convolution import convolve_nd
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.tracing.trace import shape_of

Sizes = tuple[int, ...]
MODES = ("full", "same", "valid")
_BOUNDARIES = {
    "fill": "constant", "pad": "constant", "wrap": "wrap", "circular": "wrap", "symm": "symmetric",
    "symmetric": "symmetric",
}  # fmt: skip


def _check_mode(mode: Any) -> None:
    if mode not in MODES:
        raise ValueError("Acceptable mode flags are 'valid', 'same', or 'full'.")


def _swapped(mode: str, s1: Sizes, s2: Sizes, axes: Any) -> bool:
    """Whether a valid convolution slides the first array over the second."""
    if mode != "valid":
        return False
    if all(s1[i] >= s2[i] for i in axes):
        return False
    if all(s2[i] >= s1[i] for i in axes):
        return True
    raise ValueError(
        "For 'valid' mode, one must be at least as large as the other in every dimension"
    )


def _cropped(full: Any, s1: Sizes, s2: Sizes, mode: str, axes: Any, later: int = 0) -> Any:
    """The part of a full convolution that a mode keeps; `later` is 1 if the centre of an even
    number of elements is the one after the middle.
    """
    index = [slice(None)] * len(s1)
    for i in axes:
        if mode == "same":
            start, length = (s2[i] - 1 + later) // 2, s1[i]
        else:
            start, length = s2[i] - 1, s1[i] - s2[i] + 1
        index[i] = slice(start, start + length)
    return full if mode == "full" else full[tuple(index)]


def next_fast_len(target: int) -> int:
    """The least number >= target with no prime factors but 2, 3 and 5."""
    best = 1 << max(target - 1, 0).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            rest = -(-target // three)
            best = min(best, three << max(rest - 1, 0).bit_length())
            three *= 3
        five *= 5
    return best


def _pair(in1: Any, in2: Any) -> tuple[Any, Any]:
    in1, in2 = array_of(in1), array_of(in2)
    if len(shape_of(in1)) != len(shape_of(in2)):
        raise ValueError("in1 and in2 should have the same dimensionality")
    return in1, in2


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """The convolution of two arrays by Fourier transforms: the sums of in1[l] in2[k - l] over l.

    Args:
      in1, in2: real or complex arrays of the same ndim.
      mode: "full", "same" (centred, of the shape of in1) or "valid".
      axes: those to convolve along, by default all; the others broadcast.

    Returns:
      An array of the length m + n - 1, m or |m - n| + 1 along each axis.

    Raises:
      ValueError: if the numbers of axes differ, for "valid" neither array fits into the other, or
        for an unknown mode.

    >>> np.round(fftconvolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5]), 12) + 0.0
    array([0. , 1. , 2.5, 4. , 1.5])
    """
    in1, in2 = _pair(in1, in2)
    s1, s2 = shape_of(in1), shape_of(in2)
    if not s1:
        return in1 * in2
    if 0 in s1 or 0 in s2:
        return np.array([])
    _check_mode(mode)
    given = range(len(s1)) if axes is None else np.atleast_1d(axes).tolist()
    if not given:
        raise ValueError("when provided, axes cannot be empty")
    along = [axis_index(i, len(s1)) for i in given]
    along = [i for i in along if s1[i] != 1 and s2[i] != 1]
    if not all(s1[i] == s2[i] or 1 in (s1[i], s2[i]) for i in range(len(s1)) if i not in along):
        raise ValueError(f"incompatible shapes for in1 and in2: {s1} and {s2}")
    if _swapped(mode, s1, s2, along):
        in1, in2, s1, s2 = in2, in1, s2, s1
    in1, in2 = promoted([in1, in2])
    full = _by_transforms(in1, in2, along)
    return _cropped(full, s1, s2, mode, along)


def _by_transforms(in1: Any, in2: Any, axes: list[int]) -> Any:
    if not axes:
        return in1 * in2
    s1, s2 = shape_of(in1), shape_of(in2)
    lengths = [s1[i] + s2[i] - 1 for i in axes]
    fast = [next_fast_len(n) for n in lengths]
    real = in1.dtype.kind != "c" and in2.dtype.kind != "c"
    there, back = (np.fft.rfftn, np.fft.irfftn) if real else (np.fft.fftn, np.fft.ifftn)
    product = there(in1, fast, axes) * there(in2, fast, axes)
    index = [slice(None)] * len(s1)
    for i, n in zip(axes, lengths, strict=True):
        index[i] = slice(0, n)
    return back(product, fast, axes)[tuple(index)]


def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """The convolution of two arrays by one Fourier transform: another name of `fftconvolve`.

    SciPy adds up transforms of overlapping pieces, with the same result.

    Args:
      in1, in2: real or complex arrays of the same ndim.
      mode: "full", "same" (centred, of the shape of in1) or "valid".
      axes: those to convolve along, by default all; the others broadcast.

    Returns:
      An array, as fftconvolve's.

    Raises:
      ValueError: as fftconvolve.

    >>> np.round(oaconvolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5], "same"), 12)
    array([1. , 2.5, 4. ])
    """
    return fftconvolve(in1, in2, mode, axes)


def _prefers_transforms(in1: Any, in2: Any) -> bool:
    if any(x.dtype.kind not in "fc" for x in (in1, in2)):
        return False
    sizes = [math.prod(shape_of(x)) for x in (in1, in2)]
    pairs = zip(shape_of(in1), shape_of(in2), strict=True)
    full = math.prod(a + b - 1 for a, b in pairs)
    return sizes[0] * sizes[1] > 100 * full * max(math.log2(full), 1.0)


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """The convolution of two arrays of the same ndim: z[k] is the sum over l of in1[l] in2[k - l].

    Args:
      in1, in2: real or complex arrays of the same ndim.
      mode: "full", "same" (centred, of the shape of in1) or "valid".
      method: "direct", "fft", or "auto" for the faster one.

    Returns:
      An array of the length m + n - 1, m or |m - n| + 1 along each axis, of the common dtype.

    Raises:
      ValueError: if the numbers of axes differ, for "valid" neither array fits into the other, or
        for an unknown mode or method.

    >>> import fungrad as fg
    >>> convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    array([0. , 1. , 2.5, 4. , 1.5])
    >>> fg.grad(lambda x: convolve(x, [0.0, 1.0, 0.5])[2])(np.ones(3))
    array([0.5, 1. , 0. ])
    """
    in1, in2 = _pair(in1, in2)
    s1, s2 = shape_of(in1), shape_of(in2)
    if not s1:
        return in1 * in2
    _check_mode(mode)
    axes = range(len(s1))
    if _swapped(mode, s1, s2, axes):
        in1, in2, s1, s2 = in2, in1, s2, s1
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    if 0 in s1 or 0 in s2:
        return np.array([])
    in1, in2 = promoted([in1, in2])
    if method == "fft" or (method == "auto" and _prefers_transforms(in1, in2)):
        result = fftconvolve(in1, in2, mode)
        if in1.dtype.kind not in "fc":
            result = np.round(result)
        return cast(result, in1.dtype)
    if mode == "valid":
        return convolve_nd(in1, in2, axes=len(s1), mode="valid")
    return _cropped(convolve_nd(in1, in2, axes=len(s1), mode="full"), s1, s2, mode, axes)


def _reversed(x: Any) -> Any:
    x = x[(slice(None, None, -1),) * len(shape_of(x))]
    return np.conj(x) if x.dtype.kind == "c" else x


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """The correlation of two arrays: z[k] is the sum over l of in1[l] conj(in2[l - k + n - 1]).

    Args:
      in1, in2: real or complex arrays of the same ndim; n is the length of in2.
      mode: "full", "same" (centred, of the shape of in1) or "valid".
      method: "direct", "fft", or "auto" for the faster one.

    Returns:
      An array, as convolve's.

    Raises:
      ValueError: as convolve.

    >>> correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    array([0.5, 2. , 3.5, 3. , 0. ])
    """
    in1, in2 = _pair(in1, in2)
    if not shape_of(in1):
        return in1 * np.conj(in2)
    return convolve(in1, _reversed(in2), mode, method)


def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0
) -> Any:
    """The convolution of two matrices, with a choice of the values outside of the first.

    Args:
      in1, in2: real or complex matrices.
      mode: "full", "same" (centred, of the shape of in1) or "valid".
      boundary: the values outside of in1: "fill" (fillvalue), "wrap" or "symm".
      fillvalue: a number.

    Returns:
      A matrix of the common dtype.

    Raises:
      ValueError: if one is no matrix, and for an unknown mode or boundary.

    >>> convolve2d(np.ones((2, 2)), np.ones((2, 2)), boundary="wrap", mode="same")
    array([[4., 4.],
           [4., 4.]])
    """
    return _two_dimensional("convolve2d", in1, in2, mode, boundary, fillvalue)


def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0
) -> Any:
    """The correlation of two matrices, with a choice of the values outside of the first.

    Args:
      in1, in2, mode, boundary, fillvalue: as for `convolve2d`; so are the result and the errors.

    >>> correlate2d(np.eye(2), np.array([[1.0, 2.0]]), mode="valid")
    array([[1.],
           [2.]])
    """
    in1, in2 = array_of(in1), array_of(in2)
    if len(shape_of(in1)) != 2 or len(shape_of(in2)) != 2:
        raise ValueError("correlate2d inputs must both be 2-D arrays")
    if _swapped(mode, shape_of(in1), shape_of(in2), (0, 1)):
        in1, in2 = np.conj(in1), np.conj(in2)  # SciPy conjugates the sliding array: here in1
    # The centre of an even number of elements is the one after the middle.
    return _two_dimensional("correlate2d", in1, _reversed(in2), mode, boundary, fillvalue, 1)


def _two_dimensional(
    name: str, in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any, later: int = 0
) -> Any:
    in1, in2 = array_of(in1), array_of(in2)
    if len(shape_of(in1)) != 2 or len(shape_of(in2)) != 2:
        raise ValueError(f"{name} inputs must both be 2-D arrays")
    _check_mode(mode)
    if boundary not in _BOUNDARIES:
        raise ValueError(
            "Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric' (or "
            "'symm')."
        )
    if _swapped(mode, shape_of(in1), shape_of(in2), (0, 1)):
        in1, in2 = in2, in1
    in1, in2 = promoted([in1, in2])
    if mode == "valid":
        return convolve_nd(in1, in2, axes=2, mode="valid")
    kind = _BOUNDARIES[boundary]
    zero = issubclass(type(fillvalue), (int, float)) and fillvalue == 0
    if kind == "constant" and zero:
        full = convolve_nd(in1, in2, axes=2, mode="full")
    else:
        wide = [(k - 1, k - 1) for k in shape_of(in2)]
        extra = {"constant_values": cast(array_of(fillvalue), in1.dtype)}
        padded = np.pad(in1, wide, mode=kind, **(extra if kind == "constant" else {}))  # type: ignore[call-overload]
        full = convolve_nd(padded, in2, axes=2, mode="valid")
    return _cropped(full, shape_of(in1), shape_of(in2), mode, (0, 1), later)
