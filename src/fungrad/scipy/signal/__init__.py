"""scipy.signal for traced values (`fungrad.scipy.signal`).

The differentiable functions that SciPy computes in compiled code, or slowly, are in this package.
All other names are SciPy's: functions whose Python code is traced (`welch`, `periodogram`,
`coherence`, `hilbert`, `resample`), and designs of filters and window functions, which are
constants.
"""

from __future__ import annotations

from fungrad.scipy.optional import rest_of_scipy
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


__getattr__, __dir__ = rest_of_scipy(globals())
