"""Spectra and short-time Fourier transforms of signals, as in scipy.signal.

Sliding windows (the primitive `windows`) are scaled and transformed; the inverse adds overlapping
segments. Window functions are constants, and SciPy's. Follows Welch 1967, The use of fast Fourier
transform for the estimation of power spectra.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fungrad.numpy.protocol.operands import array_of, axis_index, axis_last, inexact_of
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.movement.sliding_window import overlap_add, windows
from fungrad.scipy.optional import scipy_module
from fungrad.scipy.signal.filters import edge_extension
from fungrad.scipy.signal.smoothing import detrend as detrended
from fungrad.tracing.trace import Tracer, shape_of

_BOUNDARIES = ("even", "odd", "constant", "zeros", None)


class Segments(NamedTuple):
    """The segments of a signal and their scale."""

    window: Any
    length: int
    overlap: int
    transform: int
    scale: Any


def _window(window: Any, length: int | None, signal: int | None) -> tuple[Any, int]:
    """(the window, its length); `signal` is the largest allowed length."""
    if isinstance(window, (str, tuple)):
        length = 256 if length is None else length
        if signal is not None and length > signal:
            warnings.warn(
                f"nperseg = {length} is greater than input length  = {signal}, using nperseg = "
                f"{signal}",
                stacklevel=5,
            )
            length = signal
        return scipy_module("scipy.signal").get_window(window, length), length
    window = array_of(window)
    if len(shape_of(window)) != 1:
        raise ValueError("window must be 1-D")
    if signal is not None and signal < shape_of(window)[0]:
        raise ValueError("window is longer than input signal")
    if length is not None and length != shape_of(window)[0]:
        raise ValueError("value specified for nperseg is different from length of window")
    return window, shape_of(window)[0]


def _segments(
    fs: float, window: Any, nperseg: Any, noverlap: Any, nfft: Any, scaling: str,
    scalings: tuple[str, str], signal: int | None,
) -> Segments:  # fmt: skip
    if nperseg is not None and int(nperseg) < 1:
        raise ValueError("nperseg must be a positive integer")
    win, length = _window(window, None if nperseg is None else int(nperseg), signal)
    transform = length if nfft is None else int(nfft)
    if transform < length:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    overlap = length // 2 if noverlap is None else int(noverlap)
    if overlap >= length:
        raise ValueError("noverlap must be less than nperseg.")
    if scaling not in scalings:
        raise ValueError(f"Parameter scaling={scaling!r} not in {scalings}!")
    if scaling == scalings[0]:
        scale = 1.0 / np.sum(win) ** 2
    else:
        scale = 1.0 / (fs * np.sum(win * win))
    return Segments(win, length, overlap, transform, scale)


def _transformed(x: Any, cut: Segments, detrend: Any, onesided: bool) -> Any:
    """The transforms of the segments of the last axis: (..., segments, frequencies)."""
    step = cut.length - cut.overlap
    parts = windows(x, sizes=(cut.length,), strides=(step,), dilations=(1,))
    if callable(detrend):
        parts = detrend(parts)
    elif detrend:
        parts = detrended(parts, type=detrend)
    parts = parts * cast(cut.window, np.result_type(x.dtype, np.float32))
    transform = np.fft.rfft if onesided else np.fft.fft
    return transform(parts, cut.transform)


def _onesided(wanted: bool, *signals: Any) -> bool:
    complex_given = any(x.dtype.kind == "c" for x in signals)
    if wanted and complex_given:
        warnings.warn("Input data is complex, switching to return_onesided=False", stacklevel=4)
    return wanted and not complex_given


def _frequencies(count: int, fs: float, onesided: bool) -> Any:
    return (np.fft.rfftfreq if onesided else np.fft.fftfreq)(count, 1 / fs)


def _extended(x: Any, boundary: Any, count: int) -> Any:
    if boundary not in _BOUNDARIES:
        raise ValueError(
            f"Unknown boundary option '{boundary}', must be one of: {list(_BOUNDARIES)}"
        )
    if boundary == "zeros":
        return edge_extension(x, "constant", 0) if not count else _padded(x, count, count)
    return edge_extension(x, boundary, count)


def _padded(x: Any, before: int, after: int) -> Any:
    return np.pad(x, [(0, 0)] * (len(shape_of(x)) - 1) + [(before, after)])


def stft(
    x: Any, fs: float = 1.0, window: Any = "hann", nperseg: Any = 256, noverlap: Any = None,
    nfft: Any = None, detrend: Any = False, return_onesided: bool = True,
    boundary: Any = "zeros", padded: bool = True, axis: int = -1, scaling: str = "spectrum",
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The short-time Fourier transform: that of each windowed segment of a signal.

    Args:
      x: the signal, real or complex.
      fs: samples per unit of time.
      window: a name, or a vector.
      nperseg, noverlap, nfft: lengths of the segments, of their overlap (by default half) and of
        the transforms (by default nperseg).
      detrend: what is subtracted from each segment: "constant", "linear", a function, or False.
      return_onesided: whether negative frequencies are left out, for a real signal.
      boundary: the continuation beyond the ends: "zeros", "even", "odd", "constant" or None.
      padded: whether zeros are appended, so that segments cover the whole signal.
      axis: that of the signal.
      scaling: "spectrum" or "psd".

    Returns:
      (frequencies, times, the transform); the last axis of the transform is time.

    Raises:
      ValueError: if the lengths do not fit, and for an unknown boundary or scaling.

    >>> f, t, z = stft(np.ones(8), nperseg=4)
    >>> z.shape, z.dtype
    ((3, 5), dtype('complex128'))
    """
    x, axis = axis_last(inexact_of(x), axis)
    cut = _segments(fs, window, nperseg, noverlap, nfft, scaling, ("spectrum", "psd"),
                    shape_of(x)[-1])  # fmt: skip
    onesided = _onesided(return_onesided, x)
    step = cut.length - cut.overlap
    x = _extended(x, boundary, cut.length // 2)
    if padded:
        x = _padded(x, 0, (-(shape_of(x)[-1] - cut.length) % step) % cut.length)
    spectrum = _transformed(x, cut, detrend, onesided) * np.sqrt(cut.scale)
    spectrum = cast(spectrum, np.result_type(x.dtype, np.complex64))
    times = np.arange(cut.length / 2, shape_of(x)[-1] - cut.length / 2 + 1, step) / float(fs)
    if boundary is not None:
        times = times - cut.length / 2 / fs
    spectrum = np.moveaxis(np.moveaxis(spectrum, -2, -1), -2, axis)
    return _frequencies(cut.transform, fs, onesided), times, spectrum


def istft(
    Zxx: Any, fs: float = 1.0, window: Any = "hann", nperseg: Any = None, noverlap: Any = None,
    nfft: Any = None, input_onesided: bool = True, boundary: bool = True, time_axis: int = -1,
    freq_axis: int = -2, scaling: str = "spectrum",
) -> tuple[Any, Any]:  # fmt: skip
    """The signal with a given short-time Fourier transform, by weighted sums of its segments.

    Args:
      Zxx: the transform, complex.
      fs: samples per unit of time.
      window: a name, or a vector: that of the transform.
      nperseg, noverlap, nfft: lengths of the segments, of their overlap (by default half) and of
        the transforms.
      input_onesided: whether negative frequencies are left out.
      boundary: whether the signal was continued beyond its ends.
      time_axis, freq_axis: the axes of times and frequencies.
      scaling: "spectrum" or "psd": that of the transform.

    Returns:
      (times, the signal).

    Raises:
      ValueError: if the lengths or axes do not fit, and for an unknown scaling.

    >>> t, x = istft(stft(np.arange(8.0), nperseg=4)[2], nperseg=4)
    >>> np.round(x, 12) + 0.0
    array([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    z = array_of(Zxx)
    ndim = len(shape_of(z))
    if ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    frequency, time = axis_index(freq_axis, ndim), axis_index(time_axis, ndim)
    if frequency == time:
        raise ValueError("Must specify differing time and frequency axes!")
    z = np.moveaxis(z, (time, frequency), (-2, -1))
    bins = shape_of(z)[-1]
    whole = 2 * (bins - 1) if input_onesided else bins
    length = whole if nperseg is None else int(nperseg)
    if nfft is None and not (input_onesided and length == whole + 1):
        nfft = whole if length <= whole else None
    cut = _segments(fs, window, length, noverlap, nfft, scaling, ("spectrum", "psd"), None)
    inverse = np.fft.irfft if input_onesided else np.fft.ifft
    parts = inverse(z, cut.transform)[..., : cut.length]
    step = cut.length - cut.overlap
    count = cut.length + (shape_of(parts)[-2] - 1) * step
    options = {"lengths": (count,), "strides": (step,), "dilations": (1,)}
    win = cast(cut.window, parts.dtype)
    signal = overlap_add(parts * win / np.sqrt(cast(cut.scale, parts.dtype)), **options)
    norm = overlap_add(np.broadcast_to(win**2, shape_of(parts)[-2:]), **options)
    if boundary:
        inner = slice(cut.length // 2, count - cut.length // 2)
        signal, norm = signal[..., inner], norm[..., inner]
    large = np.abs(norm) > 1e-10
    if type(large) is not Tracer and not np.all(large):
        warnings.warn(
            "NOLA condition failed, STFT may not be invertible."
            + ("" if boundary else " Possibly due to missing boundary"),
            stacklevel=2,
        )
    signal = signal / np.where(large, norm, 1.0)
    times = np.arange(shape_of(signal)[-1]) / float(fs)
    return times, np.moveaxis(signal, -1, time - (frequency < time))


def csd(
    x: Any, y: Any, fs: float = 1.0, window: Any = "hann", nperseg: Any = None,
    noverlap: Any = None, nfft: Any = None, detrend: Any = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Any, Any]:  # fmt: skip
    """The cross power spectral density of two signals: a mean of conj(X) Y over segments.

    P. Welch, "The use of fast Fourier transform for the estimation of power spectra" (1967).

    Args:
      x, y: the signals; the shorter one is padded with zeros.
      fs: samples per unit of time.
      window: a name, or a vector.
      nperseg, noverlap, nfft: lengths of the segments, of their overlap (by default half) and of
        the transforms (by default nperseg).
      detrend: what is subtracted from each segment: "constant", "linear", a function, or False.
      return_onesided: whether negative frequencies are left out, for real signals.
      scaling: "density" (per frequency) or "spectrum".
      axis: that of the signals.
      average: "mean" or "median" of the segments.

    Returns:
      (frequencies, the density).

    Raises:
      ValueError: if the lengths do not fit, and for an unknown scaling or average.

    >>> f, p = csd(np.arange(8.0), np.ones(8), nperseg=4, detrend=False)
    >>> p.shape, p.dtype
    ((3,), dtype('complex128'))
    """
    same = x is y
    y = y if same else axis_last(inexact_of(y), axis)[0]
    x, axis = axis_last(inexact_of(x), axis)
    y = x if same else y
    length = max(shape_of(x)[-1], shape_of(y)[-1])
    x = _padded(x, 0, length - shape_of(x)[-1]) if shape_of(x)[-1] < length else x
    y = _padded(y, 0, length - shape_of(y)[-1]) if shape_of(y)[-1] < length else y
    cut = _segments(fs, window, nperseg, noverlap, nfft, scaling, ("spectrum", "density"), length)
    onesided = _onesided(return_onesided, x, y)
    first = _transformed(x, cut, detrend, onesided)
    second = first if same else _transformed(y, cut, detrend, onesided)
    power = np.conj(first) * second * cut.scale
    power = np.real(power) if same else power
    if onesided:
        twice = np.full(cut.transform // 2 + 1, 2, power.dtype)
        twice[0] = 1
        if cut.transform % 2 == 0:
            twice[-1] = 1
        power = power * twice
    power = _averaged(power, average)
    dtype = np.result_type(x.dtype, y.dtype, np.complex64)
    power = cast(power, np.finfo(dtype).dtype if same else dtype)
    return _frequencies(cut.transform, fs, onesided), np.moveaxis(power, -1, axis)


def _averaged(power: Any, average: str) -> Any:
    """The mean or the bias-corrected median of the segments in the last axis but one."""
    if average not in ("mean", "median"):
        raise ValueError(f"Parameter average={average!r} must be 'median' or 'mean'!")
    if average == "mean" or shape_of(power)[-2] == 1:
        return np.mean(power, axis=-2)
    even = 2.0 * np.arange(1, (shape_of(power)[-2] - 1) // 2 + 1)
    bias = 1 + np.sum(1.0 / (even + 1) - 1.0 / even)
    middle: Callable[[Any], Any] = lambda part: np.median(part, axis=-2)  # noqa: E731
    if power.dtype.kind == "c":
        return (middle(np.real(power)) + middle(np.imag(power)) * 1j) / bias
    return middle(power) / bias
