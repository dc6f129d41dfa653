"""Native convolutions along some axes: lengths around those of lanes and blocks, modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad.primitives.contraction.convolution import convolve_nd

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


SHAPES = (((32, 32), (5, 5)), ((33, 140), (9, 3)), ((12, 5), (3, 9)), ((5, 30), (9, 3)),
          ((20, 70), (18, 66)), ((40, 45), (38, 45)), ((7, 700), (5, 683)), ((6, 7, 8), (2, 3, 3)),
          ((3, 1), (3, 1)), ((1, 1), (1, 1)), ((2, 5000), (1, 3)), ((300,), (297,)))  # fmt: skip


@pytest.mark.parametrize("mode", ["full", "valid"])
@pytest.mark.parametrize(("n", "m"), SHAPES)
def test_convolutions_along_several_axes(native: None, n: Any, m: Any, mode: str) -> None:
    """Stencils; few results of many terms; results at the ends of rows; batches that broadcast."""
    if mode == "valid" and any(a < b for a, b in zip(n, m, strict=True)):
        n, m = (tuple(map(f, n, m)) for f in (max, min))
    leads = ((), (), np.float64, 1e-12), ((2, 1), (3,), np.float32, 2e-5)
    for lead_x, lead_y, dtype, rounding in leads:
        x, y = RNG.normal(size=(*lead_x, *n)), RNG.normal(size=(*lead_y, *m))

        def f(x: Any, y: Any) -> Any:
            return convolve_nd(x, y, axes=len(n), mode=mode)

        compiled, given = fg.jit(f), (x.astype(dtype), y.astype(dtype))
        found, wanted = compiled(*given), f(x, y)
        assert not compiled.lower(*given).refused
        assert found.dtype == dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rounding, rounding * np.abs(wanted).max())


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
def test_gradients_of_images(native: None, mode: str, boundary: str) -> None:
    signal = pytest.importorskip("scipy.signal")
    image, kernel = RNG.normal(size=(70, 90)), RNG.normal(size=(5, 4))

    def loss(kernel: Any, image: Any) -> Any:
        return np.sum(signal.convolve2d(image, kernel, mode, boundary) ** 2)

    gradient = fg.grad(loss, argnums=(0, 1))
    compiled = fg.jit(gradient)
    refused = compiled.lower(kernel, image).refused
    assert not any(
        r.equation is not None and "convolve" in r.equation.primitive.name for r in refused
    )
    for found, wanted in zip(compiled(kernel, image), gradient(kernel, image), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-11, 1e-9)


def test_constant_kernels(native: None) -> None:
    kernel, image = RNG.normal(size=(3, 5)), RNG.normal(size=(40, 50))
    compiled = fg.jit(fg.grad(lambda x: np.sum(convolve_nd(x, kernel, axes=2, mode="full") ** 2)))
    full = convolve_nd(image, kernel, axes=2, mode="full")
    wanted = 2.0 * convolve_nd(full, kernel[::-1, ::-1], axes=2, mode="valid")
    assert not compiled.lower(image).refused
    np.testing.assert_allclose(compiled(image), wanted, 1e-11, 1e-11)


@pytest.mark.parametrize("mode", ["full", "valid"])
def test_what_is_not_finite_stays_in_place(native: None, mode: str) -> None:
    """Elements beyond an operand's ends take no part: no 0 * inf, and no NaN of the row above."""
    for n, m in (((12, 30), (3, 5)), ((12, 30), (10, 27))):
        x, y = RNG.normal(size=n), RNG.normal(size=m)
        x[4, -1], x[6, 0], x[8, 12], y[1, 1], y[-1, -1] = np.nan, np.inf, -np.inf, np.inf, np.nan
        for given in ((x, np.ones(m)), (np.ones(n), y), (x, y)):
            f = fg.jit(lambda x, y: convolve_nd(x, y, axes=2, mode=mode))
            with np.errstate(all="ignore"):
                wanted = convolve_nd(*given, axes=2, mode=mode)
                np.testing.assert_allclose(f(*given), wanted, 1e-11, 1e-11)


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
