"""Differences, integrals, interpolation, convolution, products and polynomials against NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from surface import agrees, same, values

import fungrad as fg

V, W, M = values((6,)), values((4,), seed=1), values((4, 5))


def eager(f, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(fg.vjp(f, *args)[0], f(*args), str(args))


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient(edge_order):
    x = np.array([0.0, 0.4, 1.5, 2.0, 3.5])
    e = edge_order
    agrees(lambda f: np.gradient(f, edge_order=e), M)
    agrees(lambda f: np.gradient(f, 0.3, edge_order=e), V)
    agrees(lambda f: np.gradient(f, 0.3, 2.0, edge_order=e), M)
    agrees(lambda f: np.gradient(f, x, axis=1, edge_order=e), M)
    agrees(lambda f, x: np.gradient(f, x, axis=-1, edge_order=e), M, x)
    agrees(lambda f, h: np.gradient(f, h, edge_order=e), V, np.float64(0.3))
    agrees(lambda f: np.gradient(f, np.arange(5), axis=1, edge_order=e), M)
    agrees(lambda f: np.gradient(f, 0.3, edge_order=e), V.astype(np.float32), order=1)
    agrees(lambda f: np.gradient(f, edge_order=e), values((4,), np.complex128))
    agrees(lambda f: np.gradient(f, edge_order=e), np.arange(5) ** 2, order=0)
    with pytest.raises(ValueError, match="too small"):
        fg.grad(lambda f: np.sum(np.gradient(f, edge_order=e)))(np.ones(e))


def test_trapezoid_and_unwrap():
    agrees(np.trapezoid, M)
    agrees(lambda y: np.trapezoid(y, dx=0.2, axis=0), M)
    agrees(lambda y, x: np.trapezoid(y, x), M, values((5,)))
    agrees(lambda y, x: np.trapezoid(y, x, axis=0), M, values((4, 5), seed=2))
    phase = np.array([0.0, 2.0, -2.5, 1.0, 6.0, 12.9])
    agrees(np.unwrap, phase)
    agrees(lambda p: np.unwrap(p, discont=3.0, period=4.0), phase)
    agrees(lambda p: np.unwrap(p, axis=0), 3 * M)
    for period in (4, 5):
        agrees(lambda p, n=period: np.unwrap(p, period=n), np.array([0, 3, 1, 7, 9]), order=0)


def test_interp():
    xp, fp = np.array([0.0, 1.0, 3.0, 4.0]), np.array([1.0, 0.5, 2.0, -1.0])
    x = np.array([-0.5, 0.3, 2.2, 3.7, 4.4])
    agrees(np.interp, x, xp, fp)
    agrees(lambda x: np.interp(x, xp, fp, left=9.0, right=7.0), x)
    agrees(lambda x: np.interp(x, xp, fp * 1j), x)
    agrees(lambda x: np.interp(x, xp, fp, period=4.5), x + 0.05)
    agrees(lambda x: np.interp(x, [0, 1, 3], [1, 5, 2]), np.float64(0.4))
    same(np.interp(xp, xp, fp), fg.jit(np.interp)(xp, xp, fp), "at the points")
    special = np.array([np.nan, np.inf, -np.inf, 1.0])
    eager(lambda x: np.interp(x, xp, fp), special)
    eager(lambda x: np.interp(x, [1.0], [2.0]), x)
    eager(lambda x: np.interp(x, [0.0, 1.0, 1.0, 2.0], fp), x)
    slope = fg.grad(lambda x: np.interp(x, xp, fp))
    assert slope(0.5) == -0.5 and slope(9.0) == 0.0
    assert slope(1.0) == pytest.approx((-0.5 + 0.75) / 2)
    assert slope(0.0) == -0.25 and slope(4.0) == -1.5


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("f", [np.convolve, np.correlate])
def test_convolutions(f, mode):
    for n, m in ((6, 4), (4, 6), (5, 5), (1, 3), (7, 2), (2, 7), (3, 6), (6, 3)):
        eager(lambda a, v: f(a, v, mode), values((n,)), values((m,), seed=5))
        eager(lambda a, v: f(a, v, mode), values((n,), np.complex128), values((m,), np.complex128))
    agrees(lambda a, v: f(a, v, mode), V, W)
    agrees(lambda a, v: f(a, v, mode), W, V)
    agrees(lambda a, v: f(a, v, mode), V.astype(np.complex128), values((3,), np.complex128))
    agrees(lambda a: f(a, [1, 2, 3], mode), V)
    if f is np.convolve:
        agrees(lambda a: f(a, 2.0, mode), V)
    agrees(lambda a, v: f(a, v, mode), np.arange(5), np.arange(3), order=0)


def test_convolve_refuses_what_numpy_refuses():
    with pytest.raises(ValueError, match="empty"):
        fg.grad(lambda x: np.sum(np.convolve(x, [])))(V)
    with pytest.raises(ValueError, match="deep"):
        fg.grad(lambda x: np.sum(np.convolve(x, W)))(M)
    with pytest.raises(ValueError, match="mode"):
        fg.grad(lambda x: np.sum(np.convolve(x, W, "big")))(V)


def test_i0():
    agrees(np.i0, np.array([0.0, -0.3, 2.0, 9.0]) / 3)
    agrees(np.i0, np.float64(1.5))
    fourth = fg.grad(fg.grad(fg.grad(fg.grad(lambda x: np.i0(x)))))
    assert fourth(0.0) == pytest.approx(3 / 8)
    with pytest.raises(TypeError):
        fg.vjp(np.i0, np.ones(2) * 1j)


# --- polynomials ----------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [np.polyadd, np.polysub, np.polymul])
def test_arithmetic_of_polynomials(f):
    agrees(f, V, W)
    agrees(f, W, V)
    agrees(lambda p: f(p, [1, 2]), V)
    agrees(lambda p: f(p, 3.0), V)


def test_polynomials():
    agrees(np.polyval, V, M)
    agrees(np.polyval, V, np.float64(0.5))
    agrees(lambda x: np.polyval([1, 0, 2], x), M.astype(np.float32), order=1)
    agrees(lambda x: np.polyval(np.poly1d([1, 0, 2]), x), M)
    for m in (0, 1, 2):
        agrees(lambda p, m=m: np.polyder(p, m), V)
        agrees(lambda p, m=m: np.polyint(p, m), V)
    agrees(lambda p, k: np.polyint(p, 2, k), V, W[:2])
    agrees(lambda p: np.polyint(p, 2, 3.0), V)
    eager(np.polydiv, V, W)
    eager(np.polydiv, W, V)
    eager(np.polydiv, np.array([1.0, -3.0, 2.0]), np.array([1.0, -1.0]))
    fg.testing.check_grads(np.polydiv, (V, W + 3), order=2)
    agrees(np.poly, V)
    eager(np.poly, np.array([1j, -1j, 2.0]))
    eager(np.poly, np.array([1j, 1 - 1j, 2.0]))


def test_roots():
    p = np.array([2.0, -3.0, 1.0, 5.0])
    for q in (p, [1.0, -6.0, 11.0, -6.0], [0.0, 0.0, 1.0, -3.0, 0.0], [3.0], [0.0, 0.0]):
        eager(np.roots, np.array(q))
    eager(np.roots, p.astype(np.complex128))
    fg.testing.check_grads(np.roots, (p,), order=2)
    fg.testing.check_grads(np.roots, (np.array([1.0, -6.0, 11.0, -6.0]),), order=2)
    same(fg.jit(np.roots)(p), np.roots(p), "staged: always complex")
    rows = np.stack([p, p + 0.1])
    same(fg.vmap(np.roots)(rows), np.stack([np.roots(r) for r in rows]), "vmap")


def test_roots_have_derivatives_by_coefficients_that_are_zero():
    for jacobian in (fg.jacrev, fg.jacfwd):
        found = jacobian(np.roots)(np.array([1.0, -3.0, 0.0]))
        np.testing.assert_allclose(found, [[-3, -1, -1 / 3], [0, 0, 1 / 3]], atol=1e-15)
        found = jacobian(np.roots)(np.array([0.0, 1.0, -3.0]))
        np.testing.assert_allclose(found, [[-9.0, -3.0, -1.0]])
    p, step = np.array([0.0, 2.0, -6.0, 4.0]), 1e-5  # 2 and 1; a third root comes from infinity

    def near(shift):
        found = np.roots([shift, *p[1:]])
        return np.sort(np.real(found[np.abs(found) < 100]))[::-1]

    differences = (near(step) - near(-step)) / (2 * step)
    np.testing.assert_allclose(fg.jacrev(np.roots)(p)[:, 0], differences, rtol=1e-8)
    seconds = (near(step) - 2 * near(0.0) + near(-step)) / step**2
    for hessian in (fg.jacfwd(fg.jacrev(np.roots)), fg.jacrev(fg.jacfwd(np.roots))):
        np.testing.assert_allclose(hessian(p)[:, 0, 0], seconds, rtol=1e-4)
    q = np.array([1.0, 0.0, 1.0, 0.0])
    same(fg.jit(np.roots)(q), np.roots(q), "staged, in NumPy's order")
    rows = np.stack([q, p[::-1] + 1.0])
    same(fg.vmap(np.roots)(rows), np.stack([np.roots(r) for r in rows]) + 0j, "vmap")
    eager(np.roots, np.array([2.0, 0.0, 0.0], np.float32))
    for run in (fg.jit, lambda f: lambda p: fg.vmap(f)(p[None])):
        with pytest.raises(ValueError, match="first coefficient is 0"):
            run(np.roots)(p)


def test_products_of_polynomials_leave_leading_zeros_out():
    a, b = np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0])
    eager(np.polymul, a, b)
    eager(np.polymul, np.zeros(2), b)
    eager(np.polymul, np.array([0.0, 2.0]), a)
    jacobian = fg.jacrev(lambda a: np.polymul(a, b))(a)
    np.testing.assert_array_equal(jacobian, [[2, 1, 0], [0, 2, 1], [0, 0, 2]])
    eager(np.polydiv, np.array([0.0, 1.0, 3.0]), np.array([1.0, 3.0, 2.0, 3.0]))


def test_poly1d_of_traced_coefficients():
    p = np.array([2.0, 1.0, -3.0])
    for f in (
        lambda c: np.poly1d(c)(3.0),
        lambda c: (np.poly1d(c) * np.poly1d([1.0, 2.0]) + np.poly1d(c)).coeffs,
        lambda c: np.polyder(np.poly1d(c)).coeffs,
        lambda c: np.polyint(np.poly1d(c), k=2.0).coeffs,
    ):
        eager(f, p)
        fg.testing.check_grads(f, (p,), order=2)
    assert isinstance(np.polyadd(np.poly1d(p), p), np.poly1d)
    with pytest.raises(fg.errors.GradientCutError, match=r"numpy\.poly1d leaves"):
        fg.grad(lambda c: np.poly1d(c)(3.0))(np.array([0.0, 1.0, 2.0]))
    trimmed = fg.grad(lambda c: np.poly1d(np.trim_zeros(c, "f"))(3.0))(np.array([0.0, 1.0, 2.0]))
    np.testing.assert_array_equal(trimmed, [0.0, 3.0, 1.0])
    with pytest.raises(fg.errors.AbstractValueError, match="trim_zeros"):
        fg.jit(lambda c: np.poly1d(c)(3.0), branches="error")(p)


def test_polyfit():
    x = np.linspace(-1, 1, 6)
    y, w = np.sin(2 * x) + V, np.abs(V) + 0.5
    agrees(lambda y: np.polyfit(x, y, 2), y)
    agrees(lambda y: np.polyfit(x, y, 2, w=w), np.stack([y, y**2], 1))
    eager(lambda y: np.polyfit(x, y, 2, full=True), y)
    eager(lambda y: np.polyfit(x, y, 2, cov=True), y)
    eager(lambda y: np.polyfit(x, y, 2, cov="unscaled"), y)
    eager(lambda y: np.polyfit([0, 1, 2, 3, 4, 5], y, 1), y)


# --- statistics -----------------------------------------------------------------------------------


def test_covariances():
    y = values((2, 5), seed=4)
    f, a = np.array([1, 2, 1, 3, 1]), np.array([0.5, 1.0, 2.0, 0.3, 0.7])
    agrees(np.cov, M)
    agrees(np.cov, M, y)
    agrees(np.cov, V)
    agrees(lambda m: np.cov(m, rowvar=False, bias=True), M)
    agrees(lambda m: np.cov(m, rowvar=False, ddof=2), M)
    agrees(lambda m: np.cov(m, fweights=f), M)
    agrees(lambda m, a: np.cov(m, aweights=a), M, a)
    agrees(lambda m, a: np.cov(m, fweights=f, aweights=a, ddof=1), M, a)
    agrees(np.cov, values((2, 4), np.complex128))
    agrees(lambda m: np.cov(m, dtype=np.float64), M.astype(np.float32), order=1)
    agrees(np.corrcoef, M)
    agrees(np.corrcoef, values((2, 4), np.complex128))
    agrees(lambda x, y: np.corrcoef(x, y), V, np.cos(V))
    with pytest.raises(ValueError, match="2 dimensions"):
        fg.grad(lambda x: np.sum(np.cov(x)))(np.ones((1, 1, 1)))


def test_positions_and_sums_without_nan():
    x = np.where(np.abs(M) < 0.5, np.nan, M)
    for axis in (None, 0, 1):
        for f in (np.nanargmax, np.nanargmin, np.nancumsum, np.nancumprod):
            eager(lambda x, f=f, a=axis: f(x, axis=a), x)
    eager(lambda x: np.nanargmax(x, axis=1, keepdims=True), x)
    gradient = fg.grad(lambda x: np.sum(np.nancumsum(x)))(x)
    assert np.all(gradient[np.isnan(x)] == 0)
    with pytest.raises(ValueError, match="All-NaN"):
        fg.grad(lambda x: x[np.nanargmax(x)])(np.full(2, np.nan))


def test_what_cannot_be_cast_is_refused_as_by_numpy():
    long = np.zeros(2, np.longdouble)
    for run in (lambda f: f, fg.jit):
        with pytest.raises(TypeError, match="boolean subtract"):
            run(np.gradient)(np.array([True, False, True]))
        if long.dtype != np.float64:
            with pytest.raises(TypeError, match="rule 'safe'"):
                run(lambda x: np.interp(x, [0, 1], [1, 2]))(long)
            assert run(lambda x: np.float_power(x, 2))(long).dtype == long.dtype
        with pytest.raises(TypeError, match="not supported for complex128"):
            run(np.isposinf)(np.array([1j]))
    agrees(np.polyadd, M, M)
