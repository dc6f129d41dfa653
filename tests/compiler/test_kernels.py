"""Kernels in place of slow loops of NumPy's: within 2 ulp of the right value, else NumPy's."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.special

import fungrad as fg
import fungrad.scipy.special  # gives erf its kernel
from fungrad.compiler.numpy_backend.kernels import NumpyKernel
from fungrad.runtime import kernels

RNG = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e300, 5e-324])


def call(kernel, *arrays):
    return [NumpyKernel(kernel, 4 if kernel is kernels.erf else 1)(*arrays)]


def ulps(found, exact):
    """The largest error in units in the last place."""
    with mpmath.workdps(60):
        return max(
            float(abs(mpmath.mpf(float(got)) - want) / np.spacing(abs(float(want))))
            for got, want in zip(found, exact, strict=True)
            if want != 0
        )


@pytest.mark.parametrize("size", [9, 9_000, 70_000])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "float16"])
def test_dots_of_blocks_have_the_dtype_of_their_factors(dtype, size):
    x = (np.arange(size) % 1000 == 1).astype(dtype)
    expected = np.dot(x, x * x)
    found = fg.jit(lambda x: np.dot(x, x * x))(x)
    assert (found.dtype, found) == (expected.dtype, expected)


def test_logaddexp():
    x, y = RNG.normal(size=600) * 20.0, RNG.normal(size=600) * 20.0
    (found,) = call(kernels.logaddexp, x, y)
    with mpmath.workdps(60):
        exact = [
            mpmath.log(mpmath.exp(mpmath.mpf(float(a))) + mpmath.exp(mpmath.mpf(float(b))))
            for a, b in zip(x, y, strict=True)
        ]
        # Where the sum is next to one, its logarithm cancels: NumPy's digits there.
        far = [i for i, e in enumerate(exact) if abs(e) > 1.0]
        assert ulps(found[far], [exact[i] for i in far]) <= 2.0
    np.testing.assert_allclose(found, np.logaddexp(x, y), rtol=1e-13, atol=1e-15)


def singles(scale):
    """Pairs of numbers of single precision."""
    values = RNG.normal(size=(2, 4000)) * scale
    return values.astype(np.float32)


def ulps_of_singles(found, exact):
    assert found.dtype == np.float32
    return np.max(np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float32)))


@pytest.mark.parametrize("scale", [1.0, 3.0, 20.0])
def test_logaddexp_of_single_precision(scale):
    x, y = singles(scale)
    (found,) = call(kernels.logaddexp, x, y)
    exact = np.logaddexp(x.astype(float), y.astype(float))
    far = np.abs(exact) > 1.0
    assert ulps_of_singles(found[far], exact[far]) <= 2.0
    np.testing.assert_allclose(found, exact, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.numpy_backend
def test_kernels_of_both_precisions(dtype):
    x, y = RNG.normal(size=(2, 300, 100)).astype(dtype)

    def f(x, y):
        return np.logaddexp(x, y) + np.logaddexp(0.0, x) + np.abs(x) + 1.0

    text = fg.jit(f).lower(x, y).source
    assert text.count("= logaddexp(") == 2
    found = fg.jit(f)(x, y)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, f(x, y), rtol=8 * np.finfo(dtype).eps)


def test_the_error_function():
    steps = np.arange(-3072, 3073) / 512.0
    x = np.concatenate(
        [
            RNG.normal(size=2000),
            RNG.uniform(-7.0, 7.0, 500),
            RNG.uniform(-3.0, 3.0, 2000) / 512.0,  # where the correction is not small
            RNG.choice(steps, 500) + 0.5 / 512.0,
            10.0 ** RNG.uniform(-300.0, 300.0, 100),
        ]
    )
    (found,) = call(kernels.erf, x)
    with mpmath.workdps(40):
        assert ulps(found, [mpmath.erf(mpmath.mpf(float(v))) for v in x]) <= 2.0
    assert np.abs(found).max() <= 1.0


def test_the_error_function_at_special_arguments():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 6.0, -6.0, 1e300, -1e300, 5e-324, -2e-310])
    with np.errstate(all="raise"):
        (found,) = call(kernels.erf, x)
    np.testing.assert_array_equal(found, scipy.special.erf(x))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(x))
    with np.errstate(all="raise"):
        assert call(kernels.erf, x[x == 0.0])[0].tolist() == [0.0, 0.0]
        assert np.isnan(call(kernels.erf, np.array([np.nan]))[0]).all()
    assert call(kernels.erf, np.empty(0))[0].shape == (0,)


def test_special_arguments_are_numpys():
    x, y = (part.reshape(-1) for part in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        for i in range(x.size):
            pair = np.array([x[i], 0.5]), np.array([y[i], 0.25])
            (found,) = call(kernels.logaddexp, *pair)
            want = np.logaddexp(*pair)
            np.testing.assert_allclose(found, want, rtol=4.5e-16)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(want))


# Which of the zeros of a row is its extremum depends on the lanes of NumPy's own vectors.
OF_LANES = [pytest.param(f, 1, marks=pytest.mark.numpy_backend) for f in (np.max, np.min)]


@pytest.mark.parametrize("width", [6, 20, 60, 300])
@pytest.mark.parametrize(
    ("f", "axis"), [(np.max, 0), (np.min, 0), (np.sum, 0), (np.sum, 1), *OF_LANES]
)
def test_extrema_and_sums_of_zeros_have_the_signs_that_numpys_have(width, f, axis):
    x = np.where(RNG.random((12_000 // width * 20, width)) < 0.5, 0.0, -0.0)
    x[::3] = -0.0
    g = lambda x: f(x - 0.0, axis=axis)  # noqa: E731
    assert fg.jit(g)(x).tobytes() == g(x).tobytes()


@pytest.mark.numpy_backend  # counts NumPy's calls
def test_products_are_rounded_before_they_are_added_up():
    third = np.full((3000, 40), 1.0 / 3.0)
    third[:, 1::2] *= -1.0
    f = lambda x, y: np.sum(x * y * 1.5, axis=1) + np.sum(x * y, axis=1)  # noqa: E731
    y = np.abs(third)
    assert np.all(fg.jit(f)(third, y) == 0.0)


def functions(x, y):
    return (
        np.sin(x) * 2.0 + np.cos(x) * y,
        np.cos(y),
        np.logaddexp(x, y) + np.logaddexp(0.0, x),
        scipy.special.erf(x) * y,
    )


def test_two_dtypes_in_one_program():
    def f(x, y):
        terms = np.logaddexp(y, np.float32(1.5)) + np.logaddexp(1.5, x)
        return np.logaddexp(x, 1.5) * 2.0 + terms

    x = RNG.normal(size=20_000)
    args = x, x.astype(np.float32)
    np.testing.assert_allclose(fg.jit(f)(*args), f(*args), rtol=1e-6)


@pytest.mark.parametrize(
    "setting", ["auto", pytest.param("numpy", marks=pytest.mark.numpy_backend)]
)
@pytest.mark.parametrize("shape", [(40_000,), (300, 150), (9_000, 5)])
def test_functions_and_slopes(setting, shape):
    x, y = RNG.normal(size=shape), RNG.normal(size=shape[-1:])
    y = np.broadcast_to(y, shape) + 0.0 if len(shape) == 1 else y
    before = fg.config.kernels
    fg.config.kernels = setting
    try:
        f = fg.jit(lambda x, y: functions(x, y))
        g = fg.jit(fg.grad(lambda x, y: sum(np.sum(part) for part in functions(x, y)), (0, 1)))
        found, slopes = f(x, y), g(x, y)
    finally:
        fg.config.kernels = before
    exact = setting == "numpy"
    for got, want in zip(found, functions(x, y), strict=True):
        np.testing.assert_allclose(
            got, want, rtol=0 if exact else 1e-14, atol=0 if exact else 1e-15
        )
    wanted = fg.grad(lambda x, y: sum(np.sum(part) for part in functions(x, y)), (0, 1))(x, y)
    for got, want in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_error_function_in_programs(dtype):
    x = (RNG.normal(size=(200, 101)) * 3.0).astype(dtype)

    def f(x):
        return scipy.special.erf(x) * 2.0

    def slope(x):
        return fg.grad(lambda x: np.sum(f(x) ** 2))(x)

    within = 16 * np.finfo(dtype).eps
    for g in (f, slope, fg.grad(lambda x: np.sum(slope(x))), fg.vmap(f)):
        found = fg.jit(g)(x)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, g(x), rtol=within, atol=within)
    x[0, :4] = np.nan, np.inf, -np.inf, 1e30
    np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=within)


def chain(x):
    """Sines and cosines of values that nothing else reads, and of one that something does."""
    for _ in range(3):
        x = np.sin(x * 1.5) + 0.5 * np.cos(x * 1.5)
    y = np.logaddexp(0.25 * x, 0.5) * scipy.special.erf(x)
    return x * np.cos(x) + np.sin(x) - y


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_between_others(threads):
    x = RNG.normal(size=100_000)
    x[:3] = np.nan, np.inf, -1e20
    before, fg.config.num_threads = fg.config.num_threads, threads
    try:
        with np.errstate(all="ignore"):
            found, wanted = fg.jit(chain)(x), chain(x)
            slope = fg.grad(lambda x: np.sum(chain(x)))
            np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)
            np.testing.assert_allclose(fg.jit(slope)(x), slope(x), rtol=1e-11, atol=1e-11)
    finally:
        fg.config.num_threads = before
