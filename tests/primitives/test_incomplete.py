"""The incomplete gamma and beta functions by their parameters, against mpmath at 40 digits, and at
the ends of their domains.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.special as sp
import scipy.stats

import fungrad as fg
from fungrad.primitives.special.incomplete_gamma_beta import (
    beta_slope,
    gamma_slope,
    log_gamma_quantile,
)
from fungrad.primitives.special.polygamma import digamma_difference, log_gamma, polygamma

SHARES = np.array([1e-9, 1e-3, 0.3, 0.5, 0.7, 0.95, 1 - 1e-6])
SHAPES = (1e-3, 0.02, 0.5, 1.0, 3.0, 9.9, 30.0, 1e3)


def log_quantiles(a):
    """Logarithms of quantiles of a gamma variable, also where the quantiles underflow."""
    x = sp.gammaincinv(a, SHARES)
    low = (np.log(SHARES) + sp.gammaln(a + 1.0)) / a
    return np.where(x > 1e-200, np.log(np.maximum(x, 1e-300)), low)


def exact_gamma(a, z, order):
    """The derivative of P(a, e^z) by a over that by z, of the smaller of P and 1 - P."""
    x = mpmath.exp(mpmath.mpf(float(z)))
    a = mpmath.mpf(a)
    lower = x < a + 1

    def f(t):
        ends = (0, x) if lower else (x, mpmath.inf)
        return (1 if lower else -1) * mpmath.gammainc(t, *ends, regularized=True)

    slope = mpmath.diff(f, a, order, h=min(a, 1) * mpmath.mpf(10) ** -10)
    return float(slope / mpmath.exp(a * mpmath.log(x) - x - mpmath.loggamma(a)))


@pytest.mark.parametrize("a", SHAPES)
def test_the_gamma_distribution_by_its_shape(a):
    with mpmath.workdps(40):
        for z in log_quantiles(a):
            for order, rtol in ((1, 1e-11), (2, 3e-9)):
                expected = exact_gamma(a, z, order)
                np.testing.assert_allclose(gamma_slope(a, z, order=order), expected, rtol=rtol)


def exact_beta(a, b, x, order):
    a, b, x = map(mpmath.mpf, (a, b, float(x)))
    lower = x <= a / (a + b)

    def f(p, q):
        if lower:
            return mpmath.betainc(p, q, 0, x, regularized=True)
        return -mpmath.betainc(q, p, 0, 1 - x, regularized=True)

    step = mpmath.mpf(10) ** -10
    by = (lambda t: f(t, b)) if order[0] else (lambda t: f(a, t))
    at, n = (a, order[0]) if order[0] else (b, order[1])
    slope = mpmath.diff(by, at, n, h=step * min(at, 1))
    return float(slope * mpmath.beta(a, b) / (x**a * (1 - x) ** b))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (0.5, 0.5),
        (1e-3, 1e4),
        (1.0, 1.0),
        (2.0, 5.0),
        (10.0, 0.1),
        (0.1, 30.0),
        (0.02, 3.0),
        (200.0, 300.0),
    ],
)
def test_the_beta_distribution_by_its_shapes(a, b):
    quantiles = scipy.stats.beta.ppf([1e-6, 0.05, 0.4, 0.9, 0.9999], a, b)
    with mpmath.workdps(40):
        for x in quantiles[(quantiles > 1e-200) & (quantiles < 1)]:
            for order, rtol in (((1, 0), 1e-11), ((0, 1), 1e-11), ((2, 0), 1e-9)):
                found = beta_slope(a, b, x, m=order[0], n=order[1])
                expected = exact_beta(a, b, x, order)
                np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_polygamma(dtype, rtol):
    x = np.array([1e-3, 0.4, 1.4616, 3.0, 12.0, 1e5], dtype)
    for order in range(4):
        found = polygamma(x, order=order)
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found, sp.polygamma(order, x.astype(np.float64)), rtol=rtol, atol=rtol
        )
    assert np.isnan(polygamma(np.float64(-0.5), order=0))
    x = np.geomspace(1e-6, 1e6, 100)
    np.testing.assert_allclose(log_gamma(x), sp.gammaln(x), rtol=1e-13, atol=1e-14)


def test_differences_of_digamma():
    x = np.array([1e-3, 0.7, 5.0, 300.0, 1e6])
    for step in (1e-6, 0.5, 1e4):
        with mpmath.workdps(40):
            expected = [float(mpmath.digamma(v + mpmath.mpf(step)) - mpmath.digamma(v)) for v in x]
        np.testing.assert_allclose(digamma_difference(x, step), expected, rtol=1e-11)


def test_third_derivatives():
    with mpmath.workdps(40):
        f = fg.grad(fg.grad(fg.grad(sp.gammainc)))
        expected = mpmath.diff(lambda a: mpmath.gammainc(a, 0, 1, regularized=True), 2, 3)
        np.testing.assert_allclose(f(2.0, 1.0), float(expected), rtol=1e-9)
        expected = mpmath.diff(
            lambda a, b: mpmath.betainc(a, b, 0, 0.3, regularized=True), (2, 3), (2, 1)
        )
        f = fg.grad(fg.grad(fg.grad(sp.betainc), argnums=1))
        np.testing.assert_allclose(f(2.0, 3.0, 0.3), float(expected), rtol=1e-9)


def test_the_ends():
    with np.errstate(all="raise"):
        assert fg.grad(sp.gammainc)(2.0, 0.0) == fg.grad(sp.gammaincc)(2.0, np.inf) == 0.0
        assert fg.grad(sp.betainc, argnums=(0, 1))(2.0, 3.0, 0.0) == (0.0, 0.0)
        assert fg.grad(sp.betainc, argnums=(0, 1))(2.0, 3.0, 1.0) == (0.0, 0.0)
    assert fg.grad(sp.gammainc)(5.0, 2000.0) == 0.0
    near = fg.grad(sp.betainc, argnums=(0, 1))(0.0013, 35.0, 1e-316)  # x^(a - 1) would overflow
    assert np.isfinite(near).all()
    assert np.isnan(gamma_slope(-1.0, 0.3, order=1))


def test_inverses():
    a, b, y = 2.3, 1.7, 0.6
    for f, args in (
        (sp.gammaincinv, (a, y)),
        (sp.gammainccinv, (a, y)),
        (sp.betaincinv, (a, b, y)),
    ):
        found = fg.grad(f, argnums=0)(*args)
        step = 1e-6
        slope = (f(a + step, *args[1:]) - f(a - step, *args[1:])) / (2 * step)
        np.testing.assert_allclose(found, slope, rtol=1e-7)


def test_quantiles_that_move():
    for a, other in ((0.4, 0.5), (3.0, 2.0), (20.0, 25.0)):
        for z in log_quantiles(a):
            found = log_gamma_quantile(other, a, z)
            upper = sp.gammaincc(a, np.exp(z))
            expected = (
                sp.gammainccinv(other, upper)
                if upper < 0.5
                else sp.gammaincinv(other, sp.gammainc(a, np.exp(z)))
            )
            np.testing.assert_allclose(found, np.log(expected), rtol=1e-4, atol=1e-4)
        assert log_gamma_quantile(a, a, 0.3) == 0.3
