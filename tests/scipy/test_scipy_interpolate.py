"""fungrad.scipy.interpolate: SciPy's interpolators, and derivatives by points, values and place."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.interpolate

import fungrad as fg
from fungrad.errors import UnsupportedArgumentError
from fungrad.scipy import interpolate
from fungrad.testing import check_grads

AT = np.array([[-1.0, 0.0, 0.3], [2.2, 5.0, 9.0]])


def points(count, seed=0):
    return np.cumsum(np.random.default_rng((seed, count)).uniform(0.3, 1.5, count))


def draw(shape, seed=0, complex_values=False):
    random = np.random.default_rng((seed, *np.atleast_1d(shape)))
    y = random.normal(size=shape)
    return y + 1j * random.normal(size=shape) if complex_values else y


def assert_same(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# --- piecewise polynomials ------------------------------------------------------------------------

CONDITIONS = (
    "not-a-knot", "natural", "clamped", "periodic", ("natural", "not-a-knot"),
    ("not-a-knot", "clamped"), ((1, 0.5), (2, 2.0)), ((2, -1.0), (1, 0.3)),
)  # fmt: skip


def compare(make):
    """An interpolator of both modules: its values, derivatives and integrals."""
    theirs, ours = make(scipy.interpolate), make(interpolate)
    assert_same(ours.c, theirs.c)
    np.testing.assert_array_equal(ours.x, theirs.x)
    for order in range(5):
        assert_same(ours(AT, order), theirs(AT, order))
    assert_same(ours(0.5), theirs(0.5))
    for mode in (True, False, "periodic"):
        assert_same(ours(AT, extrapolate=mode), theirs(AT, extrapolate=mode))
        for a, b in ((0.1, 2.0), (3.0, -1.0), (ours.x[0], ours.x[-1])):
            assert_same(ours.integrate(a, b, mode), theirs.integrate(a, b, mode))
    assert_same(ours.derivative(2)(AT), theirs.derivative(2)(AT))
    assert_same(ours.derivative(5)(AT), theirs.derivative(5)(AT))
    assert_same(ours.antiderivative(2)(AT), theirs.antiderivative(2)(AT))
    assert_same(ours.derivative(-1)(AT), theirs.derivative(-1)(AT))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("bc_type", CONDITIONS)
def test_cubic_splines(count, bc_type):
    x = points(count)
    for shape, axis, complex_values in (
        ((count,), 0, False), ((count,), 0, True), ((count, 2), 0, False),
        ((2, count, 3), -2, False),
    ):  # fmt: skip
        y = np.moveaxis(draw(shape, 0, complex_values), axis, 0).copy()
        if bc_type == "periodic":
            y[-1] = y[0]
        conditions = bc_type
        if not isinstance(bc_type, str) and not isinstance(bc_type[0], str):
            conditions = tuple((order, np.full(y.shape[1:], v)) for order, v in bc_type)
        y = np.moveaxis(y, 0, axis)
        compare(lambda m, y=y, a=axis, c=conditions: m.CubicSpline(x, y, a, c))


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_local_cubics(count):
    x = points(count)
    for shape, axis in (((count,), 0), ((count, 2), 0), ((2, count, 3), 1)):
        y, slopes = draw(shape), draw(shape, 1)
        compare(lambda m, y=y, d=slopes, a=axis: m.CubicHermiteSpline(x, y, d, a))
        compare(lambda m, y=y, a=axis: m.PchipInterpolator(x, y, a))
        compare(lambda m, y=y, a=axis: m.Akima1DInterpolator(x, y, a))
        compare(
            lambda m, y=y, a=axis: m.Akima1DInterpolator(x, y, a, method="makima", extrapolate=True)
        )
    flat = np.zeros(count)
    compare(lambda m: m.PchipInterpolator(x, flat))
    compare(lambda m: m.Akima1DInterpolator(x, flat))


def test_piecewise_polynomials():
    x, c = points(5), draw((3, 4, 2))
    compare(lambda m: m.PPoly(c, x))
    compare(lambda m: m.PPoly(c.astype(complex), x, "periodic"))
    line = interpolate.CubicSpline(x, np.array([1.0, -1.0, 2.0, -1.0, 1.0]))
    theirs = scipy.interpolate.CubicSpline(x, np.array([1.0, -1.0, 2.0, -1.0, 1.0]))
    np.testing.assert_allclose(line.roots(), theirs.roots())
    np.testing.assert_allclose(line.solve(0.5), theirs.solve(0.5))
    assert np.isnan(line(np.nan))
    with pytest.raises(UnsupportedArgumentError, match="roots"):
        fg.grad(lambda y: interpolate.CubicSpline(x, y).roots()[0])(np.ones(5))


@pytest.mark.slow
def test_derivatives_of_cubics():
    x, y, at = points(6), draw((6, 2)), np.array([0.9, 1.7, 3.0, 9.0])
    for bc in ("not-a-knot", "natural", "clamped"):
        check_grads(lambda x, y, t, b=bc: interpolate.CubicSpline(x, y, bc_type=b)(t), [x, y, at])

    def closed(x, y, t):
        y = np.concatenate([y, y[:1]])
        return interpolate.CubicSpline(x, y, bc_type="periodic")(t)

    check_grads(closed, [x, y[:5], at])
    check_grads(
        lambda v, w: interpolate.CubicSpline(x, y[:, 0], bc_type=((1, v), (2, w)))(at), [0.3, 0.4]
    )
    check_grads(lambda x, y, a, b: interpolate.CubicSpline(x, y).integrate(a, b), [x, y, 0.5, 2.0])
    check_grads(lambda x, y, t: interpolate.CubicSpline(x, y)(t, 1), [x, y, at], order=1)
    check_grads(lambda x, y, t: interpolate.PchipInterpolator(x, y)(t), [x, y, at], order=1)
    check_grads(
        lambda x, y, t: interpolate.Akima1DInterpolator(x, y, extrapolate=True)(t), [x, y, at],
        order=1,
    )  # fmt: skip
    rising = np.arange(6.0) ** 2
    check_grads(lambda x, y, t: interpolate.PchipInterpolator(x, y)(t), [x, rising, at])
    for kind in (interpolate.PchipInterpolator, interpolate.Akima1DInterpolator):
        slope = fg.grad(lambda y, k=kind: np.sum(k(x, y)(x[:-1] + 0.1)))(np.ones(6))
        assert np.isfinite(slope).all()


def test_interpolators_are_trees_and_batch():
    x, y = points(6), draw(6)
    made = fg.jit(lambda x, y: interpolate.CubicSpline(x, y))(x, y)
    expected = interpolate.CubicSpline(x, y)(AT)
    np.testing.assert_allclose(made(AT), expected, rtol=1e-12)
    np.testing.assert_allclose(fg.jit(lambda p, t: p(t))(made, AT), expected, rtol=1e-12)
    rows = fg.vmap(lambda x, y: interpolate.CubicSpline(x, y)(AT))(
        np.stack([x, 2 * x]), np.stack([y, -y])
    )
    one = interpolate.CubicSpline(2 * x, -y)(AT)
    np.testing.assert_allclose(rows[1], one, rtol=1e-9)
    single = interpolate.CubicSpline(x.astype(np.float32), y.astype(np.float32))
    assert single.c.dtype == np.float64


# --- B-splines ------------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_b_splines(degree):
    x = points(9)
    for shape, axis in (((9,), 0), ((2, 9, 3), 1)):
        y = draw(shape)
        theirs = scipy.interpolate.make_interp_spline(x, y, degree, axis=axis)
        ours = interpolate.make_interp_spline(x, y, degree, axis=axis)
        np.testing.assert_allclose(ours.t, theirs.t)
        for order in range(degree + 1):
            assert_same(ours(x[1:8] + 0.01, order), theirs(x[1:8] + 0.01, order))
        assert_same(ours(AT), theirs(AT))
        assert_same(ours(AT, 0, False), theirs(AT, 0, False))
        assert_same(ours(AT, 0, "periodic"), theirs(AT, 0, "periodic"))
    knots = np.array([0.0, 0.0, 1.0, 2.0, 2.0, 3.5, 4.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    c = draw(11 - degree)
    theirs, ours = (
        scipy.interpolate.BSpline(knots, c, degree),
        interpolate.BSpline(knots, c, degree),
    )
    inside = np.linspace(knots[degree], knots[-degree - 1], 23)
    assert_same(ours(inside), theirs(inside))
    if degree > 1:  # SciPy refuses where a piece ends in a jump
        assert_same(ours.derivative()(inside + 1e-3), theirs.derivative()(inside + 1e-3))


@pytest.mark.parametrize("ext", [0, 1, 3])
@pytest.mark.parametrize("der", [0, 1, 3])
def test_splev(ext, der):
    t, c, k = scipy.interpolate.splrep(points(9), draw(9))
    at = np.linspace(t[0] - 1.0, t[-1] + 1.0, 24).reshape(4, 6)
    assert_same(
        interpolate.splev(at, (t, c, k), der, ext), scipy.interpolate.splev(at, (t, c, k), der, ext)
    )
    inside = at[1:3]
    assert_same(
        interpolate.splev(inside, interpolate.BSpline(t, c, k), der, 2),
        scipy.interpolate.splev(inside, (t, c, k), der, 2),
    )
    if der == 0:
        traced = fg.jacobian(lambda c: scipy.interpolate.splev(inside, [t, c, k], ext=ext))(c)
        for i in range(len(c)):
            assert_same(traced[..., i], scipy.interpolate.splev(inside, (t, np.eye(len(c))[i], k)))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_splines_through_points_of_fitpack(k):
    x, y, at = points(9), draw(9), np.linspace(-1.0, 12.0, 17)
    for one, other in zip(interpolate.splrep(x, y, k=k), scipy.interpolate.splrep(x, y, k=k),
                          strict=True):  # fmt: skip
        assert_same(one, other)
    for name, options in (("InterpolatedUnivariateSpline", {}), ("UnivariateSpline", {"s": 0})):
        for ext in (0, 1, "const"):
            ours, theirs = (getattr(m, name)(x, y, k=k, ext=ext, **options)
                            for m in (interpolate, scipy.interpolate))  # fmt: skip
            assert_same(ours(at), theirs(at))
            assert_same(ours(at, nu=1), theirs(at, nu=1))
            assert_same(ours.integral(-0.5, 1.5), theirs.integral(-0.5, 1.5))
            assert_same(ours.get_knots(), theirs.get_knots())
            assert_same(ours.get_coeffs(), theirs.get_coeffs())
            assert_same(ours.derivatives(x[3]), theirs.derivatives(x[3]))
            inside = np.clip(at, x[0], x[-1])
            assert_same(ours.derivative()(inside), theirs.derivative()(inside))
            if k < 5:
                assert_same(ours.antiderivative()(inside), theirs.antiderivative()(inside))


def test_splines_of_fitpack_with_traced_values_and_their_refusals():
    x, y = points(7), draw(7)

    def f(y, at):
        spline = scipy.interpolate.InterpolatedUnivariateSpline(x, y)
        smooth = scipy.interpolate.UnivariateSpline(x, y * 2.0, s=0)
        tck = scipy.interpolate.splrep(x, y)
        found = spline(at) + smooth(at) * scipy.interpolate.splev(at, tck)
        return found + spline.integral(x[0], 0.9)

    check_grads(f, [y, np.array([0.9, 1.7])])
    for call in (lambda: scipy.interpolate.UnivariateSpline, lambda: scipy.interpolate.splrep):
        with pytest.raises(UnsupportedArgumentError, match="s=0"):
            fg.vjp(lambda y, call=call: call()(x, y, s=1.0), y)


def test_derivatives_of_b_splines():
    x, y, at = points(7), draw(7), np.array([0.9, 1.7, 3.0])
    check_grads(lambda x, y, t: interpolate.make_interp_spline(x, y)(t), [x, y, at])
    knots = np.arange(9.0) ** 1.2
    check_grads(lambda t, c, x: interpolate.BSpline(t, c, 2)(x), [knots, draw(6), at + 2.0])
    made = fg.jit(lambda c: interpolate.BSpline(knots, c, 2))(draw(6))
    np.testing.assert_allclose(made(5.0), interpolate.BSpline(knots, draw(6), 2)(5.0))


# --- grids ----------------------------------------------------------------------------------------

METHODS = ("linear", "nearest", "slinear", "cubic", "quintic")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_grids(method):
    grid = points(7), points(6, 1), -points(8, 2)
    random = np.random.default_rng(3)
    for ndim, trailing in itertools.product((1, 2, 3), ((), (2,))):
        values = draw((*(7, 6, 8)[:ndim], *trailing))
        low = [np.min(line) for line in grid[:ndim]]
        high = [np.max(line) for line in grid[:ndim]]
        at = random.uniform(low, high, (4, 3, ndim))
        beyond = at + (np.array(high) - low) * random.integers(-1, 2, (4, 3, 1))
        inside = np.concatenate([at.reshape(-1, ndim), [low], [high]])
        for options in ({"fill_value": None}, {"fill_value": -3.0}, {}):
            given = (grid[:ndim], values, method)
            theirs = scipy.interpolate.RegularGridInterpolator(
                *given, bounds_error=False, **options
            )
            ours = interpolate.RegularGridInterpolator(*given, bounds_error=False, **options)
            # SciPy solves for its splines of degrees 3 and 5 by iteration.
            close = 1e-3 if method in ("cubic", "quintic") else 1e-9
            for where in (at, inside, beyond):
                found, expected = ours(where), theirs(where)
                assert found.shape == expected.shape and found.dtype == expected.dtype
                scale = close * max(1.0, np.nanmax(np.abs(expected), initial=0.0))
                np.testing.assert_allclose(found, expected, atol=scale)
        one = interpolate.interpn(grid[:ndim], values, at, method)
        np.testing.assert_allclose(one, ours(at))
        staged = fg.jit(lambda v, p, n=ndim: interpolate.interpn(grid[:n], v, p, method))
        if ndim < 3:  # under jit nobody sees that the third axis descends
            np.testing.assert_allclose(staged(values, at), ours(at), rtol=1e-9, atol=1e-9)


def test_derivatives_of_grids():
    x, z, values = points(6), points(7, 1), draw((6, 7))
    at = np.random.default_rng(0).uniform([x[0], z[0]], [x[-1], z[-1]], (5, 2))
    for method in ("linear", "slinear", "cubic", "quintic"):

        def f(x, z, v, p, method=method):
            return interpolate.RegularGridInterpolator((x, z), v, method)(p)

        check_grads(f, [x, z, values, at], order=2 if method == "cubic" else 1)
    nearest = fg.grad(lambda v: np.sum(interpolate.interpn((x, z), v, at, "nearest")))(values)
    assert np.sum(nearest) == 5.0
    rows = fg.vmap(lambda v, p: interpolate.interpn((x, z), v, p))(
        np.stack([values, -values]), np.stack([at, at])
    )
    np.testing.assert_allclose(rows[1], -rows[0])
    staged = fg.jit(lambda p: interpolate.interpn((x, z), values, p))
    np.testing.assert_allclose(staged(at), interpolate.interpn((x, z), values, at))
    batch = fg.vmap(lambda t: interpolate.CubicSpline(x, values)(t))(x)
    np.testing.assert_allclose(batch, values, atol=1e-12)
    corner = fg.grad(lambda p: interpolate.interpn((x,), x**2, p)[0])(x[2:3])
    np.testing.assert_allclose(corner, (x[3] ** 2 - x[2] ** 2) / (x[3] - x[2]))
    split = interpolate.interpn((x, z), values, (at[:, 0], at[:, 1]))
    np.testing.assert_allclose(split, interpolate.interpn((x, z), values, at))
    complex_values = interpolate.interpn((x, z), values + 1j, at)
    np.testing.assert_allclose(complex_values.imag, 1.0)


# --- interp1d -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "nearest", "nearest-up", "previous", "next", "cubic"])
def test_interp1d(kind):
    x = points(6)
    mixed = np.array([2, 0, 5, 1, 4, 3])
    at = np.concatenate([x, (x[1:] + x[:-1]) / 2, x[:-1] + 0.11])
    for shape, axis in (((6,), -1), ((2, 6), -1), ((6, 2), 0), ((2, 6, 3), 1)):
        y = draw(shape)
        shuffled = np.take(y, mixed, axis)
        for given in ((x, y), (x[mixed], shuffled)):
            theirs = scipy.interpolate.interp1d(*given, kind, axis)
            ours = interpolate.interp1d(*given, kind, axis)
            assert_same(ours(at), theirs(at))
            assert_same(ours(at.reshape(1, -1)), theirs(at.reshape(1, -1)))
        for fill in (-3.0, (-1.0, 1.0), "extrapolate"):
            theirs = scipy.interpolate.interp1d(x, y, kind, axis, fill_value=fill,
                                                bounds_error=False)  # fmt: skip
            ours = interpolate.interp1d(x, y, kind, axis, fill_value=fill, bounds_error=False)
            assert_same(ours(AT), theirs(AT))
        staged = fg.jit(lambda x, y, t, a=axis: interpolate.interp1d(x, y, kind, a)(t))
        np.testing.assert_allclose(staged(x, y, at), interpolate.interp1d(x, y, kind, axis)(at))


def test_derivatives_of_interp1d():
    x, y, at = points(6), draw((6, 2)), np.array([0.9, 1.7, 3.0])
    for kind in ("linear", "cubic"):
        check_grads(lambda x, y, t, k=kind: interpolate.interp1d(x, y, k, 0)(t), [x, y, at])
    kink = fg.grad(lambda t: interpolate.interp1d(np.arange(3.0), [0.0, 1.0, 5.0])(t))(1.0)
    assert kink == 2.5
    steps = fg.grad(lambda t: interpolate.interp1d(np.arange(3.0), [0.0, 1.0, 5.0], "next")(t))
    assert steps(0.5) == 0.0


# --- mistakes -------------------------------------------------------------------------------------


def test_mistakes():
    x, y = np.arange(4.0), np.ones(4)
    for call in (
        lambda m: m.CubicSpline(x[::-1], y),
        lambda m: m.CubicSpline(x, y[:3]),
        lambda m: m.CubicSpline(x[:1], y[:1]),
        lambda m: m.CubicSpline(x + 1j, y),
        lambda m: m.CubicSpline(x, y * np.nan),
        lambda m: m.CubicSpline(np.append(x[:3], np.inf), y),
        lambda m: m.CubicSpline(x, x, bc_type="periodic"),
        lambda m: m.CubicSpline(x, y, bc_type="some"),
        lambda m: m.CubicSpline(x, y, bc_type=("natural",)),
        lambda m: m.CubicSpline(x, y, bc_type=("natural", "periodic")),
        lambda m: m.CubicSpline(x, y, bc_type=("natural", 3.0)),
        lambda m: m.CubicSpline(x, y, bc_type=("natural", (3, 0.0))),
        lambda m: m.CubicSpline(x, y, bc_type=("natural", (1, [0.0]))),
        lambda m: m.CubicHermiteSpline(x, y, y[:3]),
        lambda m: m.PchipInterpolator(x, y + 1j),
        lambda m: m.Akima1DInterpolator(x, y + 1j),
        lambda m: m.PPoly(np.ones((2, 2)), x),
        lambda m: m.PPoly(np.ones(2), x),
        lambda m: m.CubicSpline(x, y)(0.5, -1),
        lambda m: m.BSpline(x, y, 3),
        lambda m: m.BSpline(-x, y, 1),
        lambda m: m.splev(x, (x, y, 1), 2),
        lambda m: m.splev(x, (x, y, 1), 0, 4),
        lambda m: m.splev(x - 9.0, (x, y, 1), 0, 2),
        lambda m: m.make_interp_spline(x[::-1], y),
        lambda m: m.make_interp_spline(x, y[:3]),
        lambda m: m.make_interp_spline(x[:3], y[:3]),
        lambda m: m.RegularGridInterpolator((x, x), y),
        lambda m: m.RegularGridInterpolator((x[:3],), y),
        lambda m: m.RegularGridInterpolator((np.zeros(4),), y),
        lambda m: m.RegularGridInterpolator((x,), y, "some"),
        lambda m: m.RegularGridInterpolator((x,), y)([[9.0]]),
        lambda m: m.RegularGridInterpolator((x,), y)([[1.0, 1.0]]),
        lambda m: m.interp1d(x, y)(9.0),
        lambda m: m.interp1d(x, y)(-9.0),
        lambda m: m.interp1d(x, y[:3]),
        lambda m: m.interp1d(x[:, None], y),
        lambda m: m.interp1d(x, y, fill_value="extrapolate", bounds_error=True),
    ):
        for module in (scipy.interpolate, interpolate):
            with pytest.raises(ValueError):
                call(module)
    for module in (scipy.interpolate, interpolate):
        for call in (
            lambda m: m.Akima1DInterpolator(x, y, method="some"),
            lambda m: m.interp1d(x, y, "some"),
        ):
            with pytest.raises(NotImplementedError):
                call(module)
    for call in (
        lambda: interpolate.make_interp_spline(x, y, bc_type="natural"),
        lambda: interpolate.splev(x, (x, np.ones((2, 4)), 1)),
        lambda: interpolate.interpn((x,), y, [[1.0]], "pchip"),
    ):
        with pytest.raises(UnsupportedArgumentError):
            call()


def test_the_namespace_is_scipys():
    assert interpolate.griddata is scipy.interpolate.griddata
    assert {"griddata", "CubicSpline"} <= set(dir(interpolate))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_axis_of_coefficients(axis):
    c = np.random.default_rng(4).normal(size=(5, 2, 3, 4))
    x = np.arange(c.shape[axis + 1] + 1.0)
    mine = fg.scipy.interpolate.PPoly(c, x, axis=axis)
    theirs = scipy.interpolate.PPoly(c, x, axis=axis)
    at = np.array([[0.3, 1.2], [0.0, 0.9]])
    np.testing.assert_allclose(mine(at), theirs(at), rtol=1e-13)
    np.testing.assert_allclose(mine.derivative()(at), theirs.derivative()(at), rtol=1e-13)
    with pytest.raises(ValueError, match="axis=3 must be between 0 and 2"):
        fg.scipy.interpolate.PPoly(c, x, axis=3)
