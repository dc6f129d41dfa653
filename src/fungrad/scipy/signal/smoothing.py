"""detrend and savgol_filter of scipy.signal.

Each is a fixed linear map, composed of products.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.numpy.protocol.operands import axis_last
from fungrad.primitives.contraction.convolution import convolve_nd
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.tracing.trace import shape_of

_EXTENSIONS = {"mirror": "reflect", "nearest": "edge", "wrap": "wrap", "constant": "constant"}


def _floating(x: Any) -> Any:
    return x if x.dtype.char in "dfDF" else cast(x, np.dtype(np.float64))


def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False
) -> Any:
    """A signal minus its mean, or minus the lines fitted to it by least squares.

    Args:
      data: real or complex.
      axis: that of the signal.
      type: "constant" or "linear".
      bp: the ends of lines: indices between which each has its own.
      overwrite_data: ignored.

    Returns:
      An array of the shape of data, of a floating dtype.

    Raises:
      ValueError: for an unknown type, and for ends of lines outside of the signal.

    >>> np.round(detrend([1.0, 3.0, 5.0]), 12) + 0.0
    array([0., 0., 0.])
    """
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    x, axis = axis_last(data, axis)
    x = _floating(x)
    if type in ("constant", "c"):
        return np.moveaxis(x - np.mean(x, axis=-1, keepdims=True), -1, axis)
    length = shape_of(x)[-1]
    points = np.unique(np.concatenate([[0], np.atleast_1d(bp), [length]])).astype(int)
    if points[-1] > length:
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    parts = []
    for start, stop in itertools.pairwise(points):
        count = stop - start
        lines = np.stack([np.arange(1, count + 1) / count, np.ones(count)], axis=1)
        fit = np.linalg.pinv(lines).astype(x.dtype)
        part = x[..., start:stop]
        parts.append(part - (part @ fit.T) @ lines.T.astype(x.dtype))
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, axis)


def savgol_coeffs(
    window_length: int, polyorder: int, deriv: int = 0, delta: Any = 1.0, pos: Any = None,
    use: str = "conv",
) -> Any:  # fmt: skip
    """The coefficients of the filter that fits a polynomial to each window by least squares.

    A. Savitzky and M. Golay, "Smoothing and differentiation of data by simplified least squares
    procedures" (1964).

    Args:
      window_length: the number of points of a fit.
      polyorder: the degree of a fit, below that number.
      deriv: the order of the derivative to evaluate; 0 for the polynomial itself.
      delta: the distance of the points.
      pos: the index of the point at which it is evaluated; by default the middle.
      use: "conv" for the order of a convolution, "dot" for that of a scalar product.

    Returns:
      A vector of window_length numbers.

    Raises:
      ValueError: if polyorder or pos does not fit into the window, or for an unknown use.

    >>> np.round(savgol_coeffs(3, 1), 12)
    array([0.33333333, 0.33333333, 0.33333333])
    """
    if polyorder >= window_length:
        raise ValueError("polyorder must be less than window_length.")
    half, odd = divmod(window_length, 2)
    pos = (half if odd else half - 0.5) if pos is None else pos
    if not 0 <= pos < window_length:
        raise ValueError("pos must be nonnegative and less than window_length.")
    if use not in ("conv", "dot"):
        raise ValueError("`use` must be 'conv' or 'dot'")
    if deriv > polyorder:
        return np.zeros(window_length)
    x = np.arange(-pos, window_length - pos, dtype=np.float64)
    x = x[::-1] if use == "conv" else x
    fit = np.linalg.pinv(np.vander(x, polyorder + 1, increasing=True))
    return fit[deriv] * math.factorial(deriv) / delta**deriv


def savgol_filter(
    x: Any, window_length: int, polyorder: int, deriv: int = 0, delta: Any = 1.0, axis: int = -1,
    mode: str = "interp", cval: Any = 0.0,
) -> Any:  # fmt: skip
    """Polynomials fitted to sliding windows by least squares, or their derivatives.

    Args:
      x: the signal.
      window_length: the number of points of a fit.
      polyorder: the degree of a fit, below that number.
      deriv: the order of the derivative; 0 for the polynomials themselves.
      delta: the distance of the points.
      axis: that of the signal.
      mode: the values outside: "mirror", "nearest", "wrap", "constant" (cval), or "interp" for the
        fits of the first and the last window.
      cval: a number.

    Returns:
      An array of the shape of x, of a floating dtype.

    Raises:
      ValueError: for an unknown mode, and for a window that does not fit.

    >>> np.round(savgol_filter([1.0, 4.0, 9.0, 16.0], 3, 2), 12)
    array([ 1.,  4.,  9., 16.])
    """
    if mode not in (*_EXTENSIONS, "interp"):
        raise ValueError("mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp'.")
    x, axis = axis_last(x, axis)
    x = x if x.dtype.char in "fd" else cast(x, np.result_type(x.dtype, np.float64))
    coefficients = savgol_coeffs(window_length, polyorder, deriv, delta)
    length = shape_of(x)[-1]
    half = window_length // 2
    before = (window_length - 1) // 2  # the centre of an even window is the earlier point
    if mode == "interp" and window_length > length:
        raise ValueError(
            "If mode is 'interp', window_length must be less than or equal to the size of x."
        )
    kernel = cast(coefficients, x.dtype)
    kernel = np.reshape(kernel, (*(1,) * (len(shape_of(x)) - 1), window_length))
    if mode == "interp":
        inner = convolve_nd(x, kernel, axes=1, mode="valid")
        inner = inner[..., half - before : length - half - before]
        first = _fitted(x[..., :window_length], range(half), polyorder, deriv, delta)
        last = _fitted(
            x[..., length - window_length :], range(window_length - half, window_length),
            polyorder, deriv, delta,
        )  # fmt: skip
        smoothed = np.concatenate([first, inner, last], axis=-1)
    else:
        widths = [(0, 0)] * (len(shape_of(x)) - 1) + [(before, half)]
        extra: Any = {"constant_values": cval} if mode == "constant" else {}
        padded = np.pad(x, widths, mode=_EXTENSIONS[mode], **extra)  # type: ignore[call-overload]
        smoothed = convolve_nd(padded, kernel, axes=1, mode="valid")
    return np.moveaxis(smoothed, -1, axis)


def _fitted(part: Any, positions: Sequence[int], degree: int, deriv: int, delta: Any) -> Any:
    """The polynomial fitted to the last axis, or its derivative, at some of its points."""
    x = np.arange(shape_of(part)[-1], dtype=np.float64)
    fit = np.linalg.pinv(np.vander(x, degree + 1, increasing=True))
    rows = []
    for power in range(degree + 1):
        factor = math.perm(power, deriv)
        rows.append(factor * np.asarray(positions, np.float64) ** max(power - deriv, 0))
    weights = np.stack(rows, axis=1) @ fit if len(positions) else np.zeros((0, len(x)))
    return part @ cast(weights.T / delta**deriv, part.dtype)
