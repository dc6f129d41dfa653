"""scipy.signal for traced values (`fungrad.scipy.signal`).

The differentiable functions that SciPy computes in compiled code, or slowly, are in this package.
All other names are SciPy's: functions whose Python code is traced (`welch`, `periodogram`,
`coherence`, `hilbert`, `resample`), and designs of filters and window functions, which are
constants.
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
from fungrad.scipy.signal.smoothing import detrend, savgol_coeffs, savgol_filter
from fungrad.scipy.signal.spectral import csd, istft, stft

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve",
    "filtfilt", "istft", "lfilter", "lfilter_zi", "oaconvolve", "savgol_coeffs", "savgol_filter",
    "sosfilt", "sosfilt_zi", "sosfiltfilt", "stft",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(scipy_module("scipy.signal"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(scipy_module("scipy.signal"))})
