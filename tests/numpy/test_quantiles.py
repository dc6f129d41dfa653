"""Order statistics against NumPy: every method, axes, weights, NaN, dtypes, ties."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from surface import agrees, same, values

import fungrad as fg

METHODS = (
    "inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen "
    "weibull linear median_unbiased normal_unbiased lower higher midpoint nearest"
).split()  # fmt: skip
FUNCTIONS = (np.quantile, np.percentile, np.nanquantile, np.nanpercentile)
X = values((3, 5, 2))
HOLES = np.where(np.abs(X) < 0.4, np.nan, X)


def unchecked(f, *args):
    """Compares f under vjp with f alone, where differences are of no use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(fg.vjp(f, *args)[0], f(*args), str(args))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_numpys_numbers_and_derivatives(method):
    qs = np.linspace(0, 1, 21)
    for n in (1, 2, 5, 6):
        x = values((n,), seed=n)
        unchecked(lambda x: np.quantile(x, qs, method=method), x)
        unchecked(lambda x: np.nanquantile(x, qs, method=method), x)
        for q in (0, 1, 0.3, 0.5, np.float32(0.25)):
            unchecked(lambda x, q=q: np.quantile(x, q, method=method), x)
    agrees(lambda x: np.quantile(x, [0.13, 0.58], axis=1, method=method), X)
    for dtype in (np.float32, np.int64, np.int32):
        x = values((7,), dtype)
        unchecked(lambda x: np.quantile(x, 0.3, method=method), x.astype(np.float32))
        found = fg.make_jaxpr(lambda x: np.quantile(x, 0.3, method=method))(x)
        same(fg.evaluate(found, x)[0], np.quantile(x, 0.3, method=method), f"{method} {dtype}")


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (2, 0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes(f, axis, keepdims):
    q = 0.37 if "quantile" in f.__name__ else 37
    agrees(lambda x: f(x, q, axis=axis, keepdims=keepdims), X, order=1)
    agrees(lambda x: f(x, [q, q / 2], axis=axis, keepdims=keepdims), X, order=0)


@pytest.mark.parametrize("f", FUNCTIONS[2:])
def test_nan_is_ignored_and_has_no_derivative(f):
    q = 0.37 if "quantile" in f.__name__ else 37
    for axis in (None, 0, 1, (0, 1)):
        for method in METHODS:
            unchecked(lambda x, a=axis, m=method: f(x, q, axis=a, method=m), HOLES)
    gradient = fg.grad(lambda x: np.sum(f(x, q, axis=1)))(HOLES)
    assert np.all(gradient[np.isnan(HOLES)] == 0) and np.isfinite(gradient).all()


def test_nan_wins_where_it_is_not_ignored():
    x = np.array([[1.0, np.nan, 2.0], [1.0, 2.0, 3.0]])
    unchecked(lambda x: np.quantile(x, [0.2, 0.4], axis=1), x)
    unchecked(lambda x: np.median(x, axis=1), x)
    unchecked(np.median, x)


def test_weights():
    w = np.abs(values((5,), seed=3))
    full = np.abs(values((3, 5, 2), seed=4))
    # NumPy's nanquantile itself fails for weights of one axis.
    agrees(lambda x: np.quantile(x, 0.4, axis=1, weights=w, method="inverted_cdf"), X, order=1)
    for f in (np.quantile, np.nanquantile):
        agrees(lambda x, f=f: f(x, 0.4, weights=full, method="inverted_cdf"), X, order=1)
    unchecked(lambda x: np.nanquantile(x, 0.4, axis=1, weights=full, method="inverted_cdf"), HOLES)
    with pytest.raises(ValueError, match="inverted_cdf"):
        fg.grad(lambda x: np.quantile(x, 0.4, weights=np.ones(2)))(np.ones(2))


def test_the_quantile_is_differentiable_by_q():
    x = np.array([1.0, 4.0, 2.0, 8.0])
    assert fg.grad(lambda q: np.quantile(x, q))(0.5) == pytest.approx(3 * 2.0)
    agrees(lambda q: np.quantile(x, q), np.float64(0.4))
    assert fg.jit(lambda q: np.quantile(x, q))(0.4) == np.quantile(x, 0.4)


@pytest.mark.parametrize("f", [np.median, np.nanmedian])
def test_median(f):
    for axis in (None, 0, 1, (0, 1), (2, 0)):
        for keepdims in (False, True):
            agrees(lambda x, a=axis, k=keepdims: f(x, axis=a, keepdims=k), X, order=1)
    for dtype in (np.float32, np.int64, np.float16):
        x = values((6,), dtype)
        found = fg.make_jaxpr(f)(x)
        same(fg.evaluate(found, x)[0], f(x), str(dtype))
    unchecked(lambda x: np.nanmedian(x, axis=1), HOLES)
    unchecked(np.nanmedian, np.full(3, np.nan))


def test_ties_share_the_derivative_equally():
    x = np.array([2.0, 1.0, 2.0, 2.0, 5.0])
    np.testing.assert_allclose(fg.grad(np.median)(x), [1 / 3, 0, 1 / 3, 1 / 3, 0])
    _, moved = fg.jvp(np.median, (x,), (np.array([3.0, 9, 0, 0, 9]),))
    assert moved == pytest.approx(1.0)
    np.testing.assert_allclose(fg.grad(lambda x: np.quantile(x, 0.25))(x), fg.grad(np.median)(x))


def test_bad_input_is_refused_as_by_numpy():
    x = np.ones(3)
    with pytest.raises(ValueError, match="range"):
        fg.grad(lambda x: np.quantile(x, 1.5))(x)
    with pytest.raises(ValueError, match="not a valid method"):
        fg.grad(lambda x: np.quantile(x, 0.5, method="best"))(x)
    with pytest.raises(fg.errors.ItemAssignmentError, match=r"np\.median"):
        fg.grad(lambda x: np.median(x, out=np.loadtxt(["0"])))(x)


def test_a_quantile_of_one_number_is_that_number():
    for x in (-0.0, 0.0, 3.0):
        for q in (0.0, 0.3, 0.75, 1.0):
            found = fg.jit(lambda x, q=q: np.quantile(x, q))(np.array([x]))
            assert (found, np.signbit(found)) == (x, np.signbit(x))


def test_quantiles_round_in_the_precision_of_the_array():
    rng = np.random.default_rng(0)
    for dtype in (np.float16, np.float32):
        for n in (2, 3, 10):
            x = rng.normal(size=(50, n)).astype(dtype)
            for q in (0.3, 0.71, 1 / 3):
                for f in (np.quantile, lambda x, q, axis: np.percentile(x, 100 * q, axis=axis)):
                    expected, found = (
                        f(x, q, axis=1),
                        fg.jit(lambda x, q=q, f=f: f(x, q, axis=1))(x),
                    )
                    np.testing.assert_array_equal(found, expected, strict=True)
