"""scipy.signal for traced values (`fungrad.scipy.signal`).

The differentiable functions are in this package; all other names are SciPy's: designs of filters
and window functions, which are constants.
"""

from __future__ import annotations

from typing import Any

from fungrad.scipy.optional import scipy_module
from fungrad.scipy.signal.convolution import (
    convolve,
    convolve2d,
    correlate,
    correlate2d,
    fftconvolve,
    oaconvolve,
)
from fungrad.scipy.signal.filters import (
    filtfilt,
    lfilter,
    lfilter_zi,
    sosfilt,
    sosfilt_zi,
    sosfiltfilt,
)
from fungrad.scipy.signal.smoothing import (
    detrend,
    hilbert,
    resample,
    savgol_coeffs,
    savgol_filter,
)
from fungrad.scipy.signal.spectral import coherence, csd, istft, periodogram, stft, welch

__all__ = [
    "coherence", "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend",
    "fftconvolve", "filtfilt", "hilbert", "istft", "lfilter", "lfilter_zi", "oaconvolve",
    "periodogram", "resample", "savgol_coeffs", "savgol_filter", "sosfilt", "sosfilt_zi",
    "sosfiltfilt", "stft", "welch",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(scipy_module("scipy.signal"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(scipy_module("scipy.signal"))})
