"""Native convolutions along one axis: lengths around those of lanes and blocks, modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg

RNG = np.random.default_rng(13)
LENGTHS = ((20, 1), (40, 3), (31, 31), (100, 33), (9, 70), (203, 64), (9_001, 31), (300, 290))


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
def test_convolutions(native: None, mode: Any) -> None:
    for n, m in LENGTHS:
        x, y = RNG.normal(size=n), RNG.normal(size=m)
        for dtype, rounding in ((np.float64, 1e-12), (np.float32, 1e-4)):
            given = x.astype(dtype), y.astype(dtype)
            found = fg.jit(lambda x, y: np.convolve(x, y, mode) * 2.0)(*given)
            wanted = np.convolve(*given, mode) * 2.0
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rounding, rounding * np.abs(wanted).max())


def test_a_gradient_is_one_kernel(native: None) -> None:
    x, y = RNG.normal(size=2_000), RNG.normal(size=31)
    gradient = fg.grad(lambda x, y: np.sum(np.convolve(x, y) ** 2), argnums=(0, 1))
    lowered = fg.jit(gradient).lower(x, y)
    assert not lowered.refused and len(lowered.kernels) == 1
    for a, b in zip(fg.jit(gradient)(x, y), gradient(x, y), strict=True):
        np.testing.assert_allclose(a, b, 1e-11, 1e-9)


def test_batches_and_what_is_not_finite(native: None) -> None:
    x, y = RNG.normal(size=(5, 300)), RNG.normal(size=(5, 20))
    x[2, 100], y[3, 4] = np.nan, np.inf
    for axes in ((0, None), (0, 0)):
        f = fg.vmap(lambda x, y: np.convolve(x, y, "valid") - 1.0, axes)
        given = x, y[3 if axes[1] is None else slice(None)]
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(fg.jit(f)(*given), f(*given), 1e-11, 1e-11)


@pytest.mark.parametrize("strides", [(1, 1), (2, 1)])
def test_overlapping_windows_add_up_in_kernels(native: None, strides: Any) -> None:
    """The gradient by the images: each window adds to the elements that it was taken from. Windows
    that are two elements apart are NumPy's."""
    x, k = RNG.normal(size=(3, 2, 17, 19)), RNG.normal(size=(4, 2, 3, 3))

    def loss(x: Any, k: Any) -> Any:
        return np.sum(np.sin(fg.lax.conv(x, k, strides, "SAME")))

    for dtype, rounding in ((np.float64, 1e-12), (np.float32, 1e-4)):
        gradient, given = fg.grad(loss, argnums=(0, 1)), (x.astype(dtype), k.astype(dtype))
        compiled = fg.jit(gradient)
        for found, wanted in zip(compiled(*given), gradient(*given), strict=True):
            assert found.dtype == dtype
            np.testing.assert_allclose(found, wanted, rounding, rounding)
        lowered = compiled.lower(*given)
        in_kernels = any("overlap_add" in kernel.loops for kernel in lowered.kernels)
        assert in_kernels is (strides == (1, 1))
