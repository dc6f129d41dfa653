"""Names of SciPy that fungrad.scipy has, too, take traced values while a transform traces; they are
SciPy's own at all other times, and with plain arguments.
"""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
from types import MappingProxyType

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import UnsupportedArgumentError
from fungrad.interception.scipy_functions import TABLE

pytest.importorskip("scipy")

integrate, interpolate, linalg, ndimage, signal, special, stats = (
    importlib.import_module(f"scipy.{part}")
    for part in (
        "integrate", "interpolate", "linalg", "ndimage", "signal", "special", "stats",
    )
)  # fmt: skip
# A dict that a traced function names is a space of names, whose functions are replaced.
ORIGINALS = MappingProxyType({
    (part, name): getattr(importlib.import_module(f"scipy.{part}"), name, None)
    for part, names in TABLE.items()
    for name in names.split()
})  # fmt: skip
bound_norm, bound_inv = stats.norm, linalg.inv

X = np.array([0.3, 0.7, 1.1])
A = np.array([[2.0, 0.3, 0.1], [0.4, 1.5, -0.2], [0.0, 0.3, 1.2]])


def untouched():
    return bound_norm is stats.norm and all(
        getattr(sys.modules[f"scipy.{part}"], name, None) is original
        for (part, name), original in ORIGINALS.items()
    )


def names_of_both(part):
    """The names of SciPy's and fungrad's namespaces with different objects."""
    theirs = importlib.import_module(f"scipy.{part}")
    ours = importlib.import_module(f"fungrad.scipy.{part}")
    for name in dir(ours):
        here, there = getattr(ours, name, None), getattr(theirs, name, None)
        if name[0] != "_" and there is not None and here is not there:
            if not isinstance(there, (np.ufunc, type(sys))):
                yield name


@pytest.mark.parametrize("part", TABLE)
def test_the_table_has_all_that_both_have(part):
    pytest.importorskip(f"fungrad.scipy.{part}")
    missing = set(names_of_both(part)) - set(TABLE[part].split())
    assert not missing
    for name in TABLE[part].split():
        assert hasattr(importlib.import_module(f"fungrad.scipy.{part}"), name)


CALLS = {
    "special.logsumexp": lambda x: special.logsumexp(x, axis=0, keepdims=True),
    "special.softmax": lambda x: special.softmax(x, axis=-1),
    "special.multigammaln": lambda x: special.multigammaln(x[0] + 4.0, 2),
    "linalg.solve": lambda x: linalg.solve(A * x[0], x, check_finite=False),
    "linalg.expm": lambda x: linalg.expm(A * x[1]),
    "linalg.toeplitz": lambda x: linalg.toeplitz(x),
    "linalg.lu_solve": lambda x: linalg.lu_solve(linalg.lu_factor(A * x[2]), X),
    "linalg.inv, bound before": lambda x: bound_inv(A * x[1], False, True),
    "signal.convolve": lambda x: signal.convolve(x, [1.0, 2.0]),
    "ndimage.gaussian_filter1d": lambda x: ndimage.gaussian_filter1d(x, 1.0),
    "integrate.quad": lambda x: integrate.quad(lambda s: s * x[0], 0.0, 1.0)[0],
    "integrate.quad of args": lambda x: integrate.quad(lambda s, a: s * a, 0, 1, args=(x[1],))[0],
    "integrate.quad of a partial": lambda x: integrate.quad(
        functools.partial(lambda a, s: s * a, x[1]), 0.0, 1.0
    )[0],
    "integrate.simpson": lambda x: integrate.simpson(x),
    "interpolate.CubicSpline": lambda x: interpolate.CubicSpline(np.arange(3.0), x)(0.5),
    "stats.norm.logpdf": lambda x: stats.norm.logpdf(X, loc=x[0], scale=x[1]),
    "stats.norm, bound before": lambda x: bound_norm.cdf(x),
    "stats.norm, frozen": lambda x: stats.norm(x[0], 2.0).logpdf(X),
    "stats.norm, frozen without": lambda x: stats.norm(0.1, 0.5).logpdf(x),
    "stats.gamma.sf": lambda x: stats.gamma.sf(x, 2.0),
    "stats.poisson.logpmf": lambda x: stats.poisson.logpmf(3, x),
    "stats.multivariate_normal.logpdf": lambda x: stats.multivariate_normal.logpdf(X, x, A @ A.T),
    "stats.multivariate_normal, frozen": lambda x: stats.multivariate_normal(x, A @ A.T).logpdf(X),
    "stats.entropy": lambda x: stats.entropy(x / np.sum(x)),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_take_traced_values(name):
    f = CALLS[name]
    expected = f(X)
    np.testing.assert_allclose(fg.jit(f)(X), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fg.vjp(f, X)[0], expected, rtol=1e-9, atol=1e-12)
    forward, backward = fg.jacfwd(f)(X), fg.jacrev(f)(X)
    np.testing.assert_allclose(forward, backward, rtol=1e-7, atol=1e-9)
    steps = [(f(X + h) - f(X - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(np.moveaxis(backward, -1, 0), steps, rtol=1e-5, atol=1e-7)
    assert untouched()


def test_plain_arguments_go_to_scipy():
    rng = np.random.default_rng(0)

    def f(x):
        assert special.logsumexp is not ORIGINALS["special", "logsumexp"]
        assert special.logsumexp(np.zeros(2)) == ORIGINALS["special", "logsumexp"](np.zeros(2))
        spline = interpolate.CubicSpline(np.arange(3.0), X)
        assert type(spline) is ORIGINALS["interpolate", "CubicSpline"]
        assert isinstance(spline, interpolate.CubicSpline)
        assert issubclass(interpolate.CubicSpline, interpolate.PPoly)
        assert isinstance(stats.norm, stats.rv_continuous)
        assert stats.norm.rvs(size=2, random_state=rng).shape == (2,)
        assert stats.norm.name == "norm" and stats.norm.interval(0.5)[1] > 0
        assert issubclass(type(stats.norm(0.0, 1.0).logpdf(X)), np.ndarray)
        with pytest.raises(np.linalg.LinAlgError):
            linalg.inv(np.zeros((2, 2)))
        return x

    fg.grad(f)(1.0)
    fg.jit(f)(1.0)
    assert untouched()


def test_an_argument_that_ours_does_not_have_is_refused():
    with pytest.raises(UnsupportedArgumentError, match=r"scipy\.\w+\.\w+ .*test_of_scipy"):
        fg.grad(lambda x: np.sum(ndimage.laplace(A * x, axes=(0,))))(1.0)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_scipy_is_untouched_after_an_exception(error):
    def f(x):
        assert linalg.inv is not ORIGINALS["linalg", "inv"]
        raise error

    for transform in (fg.grad, fg.jit, fg.vmap, fg.hessian):
        with pytest.raises(error):
            transform(f)(np.ones(1))
        assert untouched()


@pytest.mark.slow
def test_nothing_of_scipy_is_imported_for_it():
    code = (
        "import sys, fungrad as fg, numpy as np\n"
        "fg.grad(lambda x: np.sum(x))(np.ones(2))\n"
        "assert not [m for m in sys.modules if m.startswith('scipy')]\n"
        "import scipy.special\n"
        "original = scipy.special.logsumexp\n"
        "fg.grad(lambda x: np.sum(x))(np.ones(2))\n"
        "assert not [m for m in sys.modules if m.startswith('fungrad.scipy')]\n"
        "assert fg.grad(lambda x: scipy.special.logsumexp(x))(np.ones(2))[0] == 0.5\n"
        "assert scipy.special.logsumexp is original\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- SciPy's own functions, and objects made from plain arrays ----------------------------------

DIRECT = {
    "logsumexp": (special.logsumexp, X),
    "norm.logpdf": (stats.norm.logpdf, X),
    "entropy": (stats.entropy, X),
    "inv": (linalg.inv, A @ A.T),
    "det": (linalg.det, A @ A.T),
    "pearsonr": (lambda x: stats.pearsonr(x, np.array([1.0, 3.0, 2.0])).statistic, X),
    "pvalue of pearsonr": (lambda x: stats.pearsonr(x, np.array([1.0, 3.0, 2.0]))[1], X),
}


@pytest.mark.parametrize("name", DIRECT)
def test_functions_that_are_transformed_themselves(name):
    f, x = DIRECT[name]
    expected = f(x)
    np.testing.assert_allclose(fg.jit(f)(x), expected, rtol=1e-12)
    np.testing.assert_allclose(fg.vjp(f, x)[0], expected, rtol=1e-12)
    found = fg.vmap(f)(np.stack([x, 1.1 * x]))
    np.testing.assert_allclose(found, [expected, f(1.1 * x)], rtol=1e-12)
    np.testing.assert_allclose(fg.jacfwd(f)(x), fg.jit(fg.jacrev(f))(x), rtol=1e-9, atol=1e-12)
    direction = np.linspace(-1.0, 1.0, x.size).reshape(x.shape)
    step = (f(x + 1e-6 * direction) - f(x - 1e-6 * direction)) / 2e-6
    np.testing.assert_allclose(fg.jvp(f, (x,), (direction,))[1], step, rtol=1e-6, atol=1e-8)
    assert untouched()


KNOTS = np.array([0.0, 0.7, 1.5, 2.0, 3.1, 4.0])
VALUES = np.array([[1.0, -2.0, 3.0, 0.5, 0.1, 1.0], [0.3, 0.2, -1.0, 2.0, 1.0, 0.3]])
MADE = {
    "CubicSpline": interpolate.CubicSpline(KNOTS, VALUES[0]),
    "CubicSpline of rows": interpolate.CubicSpline(KNOTS, VALUES, axis=1),
    "a periodic one": interpolate.CubicSpline(KNOTS, VALUES[1], bc_type="periodic"),
    "one that ends": interpolate.CubicSpline(KNOTS, VALUES[0], extrapolate=False),
    "its derivative": interpolate.CubicSpline(KNOTS, VALUES[0]).derivative(),
    "PchipInterpolator": interpolate.PchipInterpolator(KNOTS, VALUES[0]),
    "Akima1DInterpolator": interpolate.Akima1DInterpolator(KNOTS, VALUES[0]),
    "PPoly": interpolate.PPoly(VALUES[:, :5], KNOTS),
    "make_interp_spline": interpolate.make_interp_spline(KNOTS, VALUES.T, k=4),
    "BSpline of rows": interpolate.make_interp_spline(KNOTS, VALUES, axis=1),
    "UnivariateSpline": interpolate.UnivariateSpline(KNOTS, VALUES[0], s=0),
    "interp1d": interpolate.interp1d(KNOTS, VALUES, fill_value="extrapolate"),
    "RegularGridInterpolator": (
        lambda f: lambda x: f(np.stack([x, 0.2 * x], axis=-1))
    )(interpolate.RegularGridInterpolator((KNOTS, np.arange(2.0)), VALUES.T)),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_interpolants_that_were_made_of_plain_arrays(name):
    f = MADE[name]
    points = np.array([0.3, 1.1, 2.5])
    h = 1e-6
    for x in (points, points[1], points.reshape(3, 1)):
        expected = f(x)
        for found in (fg.jit(f)(x), fg.vjp(f, x)[0], fg.jit(lambda x, f=f: f(x))(x)):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
        step = (f(x + h) - f(x - h)) / (2 * h)
        ones = np.ones_like(x)
        np.testing.assert_allclose(fg.jvp(f, (x,), (ones,))[1], step, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(fg.vmap(f)(points), [f(x) for x in points], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(fg.jacrev(f)(1.1), fg.jacfwd(f)(1.1), rtol=1e-12)
    assert untouched() and type(f(points)) is np.ndarray


def test_integrals_of_interpolants():
    f = MADE["CubicSpline"]
    area = lambda x: f.integrate(0.2, x)  # noqa: E731
    assert fg.grad(area)(2.5) == pytest.approx(float(f(2.5)), rel=1e-12)
    assert fg.jit(area)(2.5) == pytest.approx(float(f.integrate(0.2, 2.5)), rel=1e-12)


OTHER_METHODS = {
    "fit": lambda v: stats.norm.fit(v)[1],
    "nnlf": lambda v: stats.norm.nnlf((v[0], v[1]), X),
    "moment": lambda v: stats.gamma.moment(2, v[0]),
    "interval": lambda v: stats.norm.interval(0.9, v[0], v[1])[0],
    "expect": lambda v: stats.norm(v[0], v[1]).expect(lambda t: t**2),
    "rvs": lambda v: stats.norm.rvs(v[0], v[1], random_state=3),
    "variance": lambda v: stats.gamma.stats(v[0], v[1])[1],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER_METHODS)
def test_methods_of_distributions_that_ours_do_not_have(name):
    f, h = OTHER_METHODS[name], 1e-6
    expected = [(f(X + step) - f(X - step)) / (2 * h) for step in h * np.eye(3)]
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(fg.grad(f)(X), expected, rtol=1e-6, atol=1e-7)
        tangent = fg.jvp(f, (X,), (np.ones(3),))[1]
    np.testing.assert_allclose(tangent, np.sum(expected), rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_the_infinite_end_of_an_integral_has_no_derivative():
    f = lambda v: integrate.quad(lambda t: np.exp(-v[0] * t**2), -np.inf * v[1], np.inf)[0]  # noqa: E731
    slope = -0.5 * np.sqrt(np.pi) * X[0] ** -1.5
    with np.errstate(invalid="ignore"):
        for run in (fg.grad(f), fg.jit(fg.grad(f)), fg.jacfwd(f)):
            np.testing.assert_allclose(run(X), [slope, 0.0, 0.0], rtol=1e-6, atol=1e-9)
        second = fg.hessian(f)(X)
    np.testing.assert_allclose(second[0, 0], -1.5 * slope / X[0], rtol=1e-5)
    assert np.all(second[1:] == 0)
