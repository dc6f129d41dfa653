"""scipy.fft and scipy.fftpack on traced values."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg

pytest.importorskip("scipy")
import scipy.fft
import scipy.fftpack

X = np.random.default_rng(0).normal(size=(4, 5))

CALLS = {
    **{f"scipy.fft.{n}": lambda x, n=n: getattr(scipy.fft, n)(x)
       for n in ("fft", "ifft", "rfft", "fft2", "ifft2", "rfft2", "fftn", "ifftn", "rfftn")},
    "scipy.fft.irfft2": lambda x: scipy.fft.irfft2(scipy.fft.rfft2(x), s=(4, 5)),
    "scipy.fft.fft2 of a shape": lambda x: scipy.fft.fft2(x, s=(3, 8), norm="ortho"),
    **{f"scipy.fft.{n}, type {t}": lambda x, n=n, t=t: getattr(scipy.fft, n)(x, type=t)
       for n in ("dct", "idct", "dst", "idst") for t in (1, 2, 3, 4)},
    "dct of a length": lambda x: scipy.fft.dct(x, 2, 7, 0, "ortho"),
    "dct of a list": lambda x: scipy.fft.dct([x[0, 0], x[0, 1], 1.0]),
    **{f"scipy.fft.{n}": lambda x, n=n: getattr(scipy.fft, n)(x, norm="ortho")
       for n in ("dctn", "idctn", "dstn", "idstn")},
    "dctn of axes": lambda x: scipy.fft.dctn(x, s=[3], axes=[0]),
    **{f"scipy.fftpack.{n}": lambda x, n=n: getattr(scipy.fftpack, n)(x)
       for n in ("fft", "ifft", "rfft", "irfft", "dct", "idct", "dst", "dctn", "fft2", "fftn")},
    **{f"scipy.fftpack.{n}": lambda x, n=n: getattr(scipy.fftpack, n)(x[0])
       for n in ("diff", "hilbert", "ihilbert")},
    "scipy.fftpack.shift": lambda x: scipy.fftpack.shift(x[0], 0.3),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_value_and_derivative(name):
    f = CALLS[name]

    def parts(x):
        y = f(x)
        return np.stack([y.real, y.imag])

    value, push = fg.vjp(parts, X)
    assert np.allclose(value, parts(X), atol=1e-13) and value.dtype == parts(X).dtype
    along = np.cos(np.arange(20.0)).reshape(4, 5)
    expected = (parts(X + along) - parts(X - along)) / 2  # of a linear function
    assert np.allclose(fg.jvp(parts, (X,), (along,))[1], expected, atol=1e-12)
    seed = np.random.default_rng(1).normal(size=value.shape)
    assert np.isclose(np.sum(push(seed)[0] * along), np.sum(seed * expected))
    assert np.allclose(fg.jit(f)(X), f(X), atol=1e-12)
