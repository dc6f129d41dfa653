"""scipy.stats on traced values: each method of each distribution against SciPy, finite differences,
mpmath and integrals; at the edges of supports, in the tails and for invalid parameters.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.stats as sp

import fungrad as fg
from fungrad.scipy import stats
from fungrad.scipy.stats.continuous import Continuous
from fungrad.scipy.stats.discrete import Discrete
from fungrad.testing import check_grads

INF = np.inf
# name: sets of shape parameters, the first an ordinary one; points inside of the support
LINE = {
    "norm": ([()], (0.4, -1.3)),
    "t": ([(3.5,), (0.7,), (INF,), (1e8,)], (0.4, -1.3, 0.0)),
    "cauchy": ([()], (0.4, -1.3)),
    "laplace": ([()], (0.4, -1.3)),
    "skewnorm": ([(2.0,), (-0.5,), (0.0,)], (0.4, -1.3)),
    "logistic": ([()], (0.4, -1.3, 0.0)),
    "gumbel_r": ([()], (0.4, -1.3)),
    "gumbel_l": ([()], (0.4, -1.3)),
    "gennorm": ([(2.3,), (4.0,), (0.8,)], (0.4, -1.3)),
    "expon": ([()], (0.4, 1.3)),
    "gamma": ([(2.5,), (0.4,), (1.0,)], (0.4, 2.3)),
    "chi2": ([(3.0,), (1.2,), (2.0,)], (0.4, 2.3)),
    "invgamma": ([(2.5,), (0.4,)], (0.4, 2.3)),
    "lognorm": ([(0.7,), (3.0,)], (0.4, 2.3)),
    "pareto": ([(2.5,), (0.7,)], (1.4, 2.3)),
    "weibull_min": ([(1.7,), (0.6,), (1.0,)], (0.4, 1.3)),
    "rayleigh": ([()], (0.4, 1.3)),
    "lomax": ([(2.5,), (0.7,)], (0.4, 1.3)),
    "fisk": ([(2.5,), (0.7,), (1.0,)], (0.4, 1.3)),
    "f": ([(3.0, 5.0), (1.2, 0.8), (2.0, 2.5)], (0.4, 1.3)),
    "invgauss": ([(0.8,), (3.0,)], (0.4, 1.3)),
    "halfnorm": ([()], (0.4, 1.3)),
    "halfcauchy": ([()], (0.4, 1.3)),
    "uniform": ([()], (0.4, 0.9)),
    "loguniform": ([(0.3, 2.0), (1.0, 20.0)], (0.4, 0.9)),
    "beta": ([(2.5, 1.3), (0.4, 0.5), (1.0, 1.0)], (0.4, 0.7)),
    "truncnorm": ([(-1.0, 2.0), (1.0, 3.0), (-INF, 0.5), (3.0, INF), (-5.0, -4.0)], (0.4, 1.7)),
    "vonmises": ([(2.0,), (0.0,), (300.0,)], (0.4, 2.7)),
    "wrapcauchy": ([(0.4,)], (0.4, 4.0)),
}
# name: sets of parameters, how many of the first are whole numbers, points
COUNTS = {
    "bernoulli": ([(0.3,), (0.0,), (1.0,)], 0, (1, 0)),
    "binom": ([(7, 0.3), (0, 0.3), (5, 0.0), (5, 1.0)], 1, (0, 3, 6)),
    "betabinom": ([(7, 2.0, 1.4)], 1, (0, 3, 7)),
    "poisson": ([(2.5,), (0.0,)], 0, (0, 3, 7)),
    "nbinom": ([(3.5, 0.3), (2, 1.0)], 0, (0, 3, 7)),
    "geom": ([(0.3,), (1.0,)], 0, (1, 3, 7)),
}
OF_NOTHING = {"entropy", "mean", "var", "std", "median"}
OF_PROBABILITIES = {"ppf", "isf"}
SPECIAL = np.array(
    [-INF, -30, -3, -1.5, -1, -1e-3, -1e-12, 0, 1e-12, 1e-3, 0.2, 0.5, 1 - 1e-9, 1, 1.5, 2, 2.5,
     3, 4, 7, 20.5, 30, INF, np.nan]
)  # fmt: skip
PROBABILITIES = np.array([-0.1, 0, 1e-12, 0.1, 0.3, 0.5, 0.7, 0.9, 1, 1.1, np.nan])


def methods(table, kind):
    return [(name, method) for name in table for method in getattr(stats, name).methods]


CONTINUOUS = methods(LINE, Continuous)
DISCRETE = methods(COUNTS, Discrete)


def points(method, inside):
    """The arguments in front of the parameters."""
    if method in OF_NOTHING:
        return ()
    return (np.array([0.2, 0.7]),) if method in OF_PROBABILITIES else (np.array(inside),)


def test_the_table_is_whole():
    found = {n for n, d in vars(stats).items() if isinstance(d, (Continuous, Discrete))}
    assert found == {*LINE, *COUNTS}
    for name in found:
        ours, theirs = getattr(stats, name), getattr(sp, name)
        assert name == ours.name
        assert list(ours.shapes) == [s for s in (theirs.shapes or "").split(", ") if s]
        assert all(callable(getattr(ours, method)) for method in ours.methods)


GROUPS = {
    "logpdf, pdf": {"logpdf", "pdf"},
    "logpmf, pmf": {"logpmf", "pmf"},
    "cdf, sf, logcdf, logsf": {"cdf", "sf", "logcdf", "logsf"},
    "ppf, isf, median": {"ppf", "isf", "median"},
    "entropy": {"entropy"},
    "mean, var, std": {"mean", "var", "std"},
}


def documented(name):
    """The row of docs/scipy.md for a distribution."""
    d = getattr(stats, name)
    have = [group for group, members in GROUPS.items() if members <= set(d.methods)]
    assert set(d.methods) == set().union(*(GROUPS[group] for group in have))
    shapes = " ".join(f"`{s}`" for s in d.shapes)
    return f"| `{name}` | {shapes} | {'; '.join(have)} |"


def test_the_page_lists_the_methods():
    page = (Path(__file__).parents[2] / "docs" / "scipy.md").read_text(encoding="utf-8")
    assert "\n".join(documented(name) for name in (*LINE, *COUNTS)) in page


# --- values ---------------------------------------------------------------------------------------

# SciPy's own are NaN, infinite or inexact there, and ours are the limits
BEYOND_SCIPY = {
    ("t", "entropy"), ("laplace", "logpdf"), ("truncnorm", "entropy"), ("truncnorm", "isf"),
    ("geom", "entropy"),
}  # fmt: skip


@pytest.mark.parametrize("name, method", CONTINUOUS + DISCRETE)
def test_values_are_scipys(name, method):
    ours, theirs = getattr(getattr(stats, name), method), getattr(getattr(sp, name), method)
    sets = (LINE if name in LINE else COUNTS)[name][0]
    places = [(), (0.5, 2.0)] if name in LINE else [(), (1,)]
    lead = () if method in OF_NOTHING else (
        (PROBABILITIES,) if method in OF_PROBABILITIES else (SPECIAL,)
    )  # fmt: skip
    for shapes in sets:
        for place in places:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                expected = np.asarray(theirs(*lead, *shapes, *place), float)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = ours(*lead, *shapes, *place)
            assert found.dtype == np.float64 and np.shape(found) == np.shape(expected)
            limit = np.isnan(expected) & ~np.isnan(found)
            if lead and method not in OF_PROBABILITIES:  # at infinity, where SciPy gives NaN
                limit &= np.isinf(SPECIAL)
            else:
                limit &= (name, method) in BEYOND_SCIPY
            if (name, method) in {("truncnorm", "isf"), ("f", "isf")}:
                limit |= PROBABILITIES < 0.01  # of which SciPy loses many digits
            found = np.where(limit, expected, found)
            np.testing.assert_allclose(
                found, expected, rtol=2e-9, atol=1e-13, err_msg=f"{name}.{method}{shapes}{place}"
            )


@pytest.mark.parametrize("name", [*LINE, *COUNTS])
def test_arguments_broadcast_and_are_named(name):
    ours, theirs = getattr(stats, name), getattr(sp, name)
    (shapes, *_) = (LINE if name in LINE else COUNTS)[name][0]
    x = np.array([[0.4], [2.0], [3.0]])
    rows = [np.array([s, s]) for s in shapes]
    density = "logpdf" if name in LINE else "logpmf"
    with np.errstate(all="ignore"):
        for place in ({}, {"loc": np.array([0.0, 1.0])}):
            place = {**place, "scale": np.array([2.0, 3.0])} if place and name in LINE else place
            expected = getattr(theirs, density)(x, *rows, **place)
            found = getattr(ours, density)(x, *rows, **place)
            assert found.shape == expected.shape == ((3, 2) if shapes or place else (3, 1))
            np.testing.assert_allclose(found, expected, rtol=1e-11)
            named = {**dict(zip(ours.shapes, rows, strict=True)), **place}
            np.testing.assert_array_equal(getattr(ours, density)(x, **named), found)
            np.testing.assert_array_equal(getattr(ours(**named), density)(x), found)
    assert getattr(ours, density)(np.zeros((0, 2)), *shapes).shape == (0, 2)
    assert getattr(ours, density)(1, *shapes) == getattr(ours, density)(1.0, *shapes)
    assert getattr(ours, density)([1, 1], *shapes).shape == (2,)


@pytest.mark.parametrize("name, method", CONTINUOUS + DISCRETE)
def test_dtypes_eager_staged_and_batched(name, method):
    f = getattr(getattr(stats, name), method)
    table = LINE if name in LINE else COUNTS
    shapes, inside = table[name][0][0], table[name][-1]
    for dtype in (np.float32, np.float64):
        args = [np.asarray(a, dtype) for a in (*points(method, inside), *shapes, 0)]
        eager = f(*args)
        staged = fg.jit(f)(*args)
        assert eager.dtype == staged.dtype == dtype and eager.shape == staged.shape
        np.testing.assert_allclose(staged, eager, rtol=1e-5 if dtype == np.float32 else 1e-13)
        expected = getattr(getattr(sp, name), method)(*[a.astype(float) for a in args])
        if not np.any(np.isnan(expected)):
            rtol = 1e-4 if dtype == np.float32 else 1e-9
            np.testing.assert_allclose(eager, expected, rtol=rtol, atol=rtol)
        batches = [np.stack([a, a * (1 if i else dtype(0.9))]) for i, a in enumerate(args)]
        if name in COUNTS:
            batches = [np.stack([a, a]) for a in args]
        rows = [f(*[b[i] for b in batches]) for i in range(2)]
        np.testing.assert_allclose(fg.vmap(f)(*batches), rows, rtol=1e-5)
        assert f(*points(method, inside), *shapes).dtype == np.float64


# --- derivatives ----------------------------------------------------------------------------------

NO_MOMENTS = {("cauchy", m) for m in OF_NOTHING} | {("halfcauchy", m) for m in OF_NOTHING}


@pytest.mark.parametrize("name, method", [c for c in CONTINUOUS if c not in NO_MOMENTS])
def test_derivatives_in_x_and_in_every_parameter(name, method):
    f = getattr(getattr(stats, name), method)
    (shapes, *_), inside = LINE[name]
    lead = points(method, inside)
    if method not in OF_PROBABILITIES:
        lead = tuple(x * 1.2 + 0.3 for x in lead)
    check_grads(f, [*lead, *map(np.float64, shapes), 0.3, 1.2], order=2)


FLAT = {("bernoulli", "logsf"), ("binom", "logsf")}
"""log(0) at the last value, whose differences are NaN."""


@pytest.mark.parametrize("name, method", [c for c in DISCRETE if c not in FLAT])
def test_derivatives_in_the_parameters_of_counts(name, method):
    f = getattr(getattr(stats, name), method)
    (shapes, *_), count, inside = COUNTS[name]
    lead, whole = points(method, inside), shapes[:count]
    free = [np.float64(s) for s in shapes[count:]]
    if method in {*OF_PROBABILITIES, "median"}:
        gradients = fg.grad(
            lambda *p: np.sum(f(*lead, *whole, *p)), argnums=tuple(range(len(free)))
        )
        assert not np.any(gradients(*free))
        return
    check_grads(lambda *p: f(*lead, *whole, *p), free, order=2)


def test_counts_are_constants():
    k = np.array([1.0, 2.0])
    assert not np.any(fg.grad(lambda k: np.sum(stats.poisson.logpmf(k, 2.0)))(k))
    assert not np.any(fg.grad(lambda k: np.sum(stats.poisson.cdf(k, 2.0)))(k))
    assert fg.grad(lambda n: stats.binom.logpmf(2, n, 0.3))(5.0) == 0.0
    assert fg.grad(lambda n: stats.nbinom.logpmf(2, n, 0.3))(5.0) != 0.0
    assert fg.grad(lambda loc: stats.geom.logpmf(2, 0.3, loc))(0.0) == 0.0


@pytest.mark.parametrize("name", [n for n in LINE if "ppf" in getattr(stats, n).methods])
def test_the_derivative_of_cdf_is_pdf_and_ppf_its_inverse(name):
    d = getattr(stats, name)
    for shapes in LINE[name][0]:
        with np.errstate(all="ignore"):
            q = np.array([0.0, 0.05, 0.3, 0.5, 0.8, 1.0])
            x = d.ppf(q, *shapes)
            np.testing.assert_allclose(d.cdf(x, *shapes), q, rtol=1e-8, atol=1e-12)
            np.testing.assert_allclose(d.isf(1 - q, *shapes), x, rtol=1e-8, atol=1e-12)
            slope = fg.grad(lambda x, s=shapes: np.sum(d.cdf(x, *s)))(x)
            pdf = d.pdf(x, *shapes)
            # at an end of the support the density from inside, or 0 where that is infinite
            pdf = np.where(np.isinf(pdf), 0.0, pdf)
            np.testing.assert_allclose(slope, pdf, rtol=1e-7, atol=1e-13, err_msg=str(shapes))
            minus = fg.grad(lambda x, s=shapes: np.sum(d.sf(x, *s)))(x)
            np.testing.assert_allclose(minus, -pdf, rtol=1e-7, atol=1e-13)
            inner = slice(1, -1)
            inverse = fg.grad(lambda q, s=shapes: np.sum(d.ppf(q, *s)))(q)[inner]
            np.testing.assert_allclose(inverse * pdf[inner], 1.0, rtol=1e-6)


@pytest.mark.parametrize("name", LINE)
def test_the_density_integrates_to_one(name):
    d = getattr(stats, name)
    shapes = LINE[name][0][0]
    place = (0.3, 1.2)
    low, high = (float(v) for v in getattr(sp, name).support(*shapes, *place))
    if name == "vonmises":
        (low, high), place = (-np.pi, np.pi), ()
    total, _ = scipy.integrate.quad(lambda x: d.pdf(x, *shapes, *place), low, high)
    assert total == pytest.approx(1.0, abs=1e-7)
    if "entropy" in d.methods and name not in ("cauchy", "halfcauchy"):
        value, _ = scipy.integrate.quad(lambda x: _entropy_term(d, x, shapes, *place), low, high)
        assert d.entropy(*shapes, *place) == pytest.approx(value, rel=1e-6)


def _entropy_term(d, x, shapes, *place):
    log = d.logpdf(x, *shapes, *place)
    return 0.0 if log == -INF else -np.exp(log) * log


@pytest.mark.parametrize("name", COUNTS)
def test_the_probabilities_sum_to_one(name):
    d = getattr(stats, name)
    for shapes in COUNTS[name][0]:
        k = np.arange(0, 200)
        p = d.pmf(k, *shapes)
        assert np.sum(p) == pytest.approx(1.0)
        if "cdf" in d.methods:
            np.testing.assert_allclose(d.cdf(k, *shapes), np.cumsum(p), rtol=1e-10)
            np.testing.assert_allclose(d.sf(k, *shapes) + d.cdf(k, *shapes), 1.0, rtol=1e-12)


# --- edges ----------------------------------------------------------------------------------------

OUTSIDE = {
    "expon": (-1.0,), "gamma": (-1.0,), "chi2": (-1.0,), "invgamma": (-1.0, 0.0),
    "lognorm": (-1.0, 0.0), "pareto": (-1.0, 0.5), "weibull_min": (-1.0,), "halfnorm": (-1.0,),
    "rayleigh": (-1.0,), "lomax": (-1.0,), "fisk": (-1.0,), "f": (-1.0,), "invgauss": (-1.0, 0.0),
    "loguniform": (0.2, 2.5), "halfcauchy": (-1.0,), "uniform": (-1.0, 2.0),
    "beta": (-1.0, 2.0), "truncnorm": (-1.5, 2.5), "wrapcauchy": (-0.1, 7.0),
}  # fmt: skip


@pytest.mark.parametrize("name", [*LINE, *COUNTS])
def test_outside_of_the_support_all_derivatives_are_zero(name):
    d = getattr(stats, name)
    density = "logpdf" if name in LINE else "logpmf"
    shapes = (LINE if name in LINE else COUNTS)[name][0][0]
    outside = OUTSIDE.get(name, ()) if name in LINE else (-1.0, 1.5)
    outside = np.array([*outside, INF, -INF])
    steep = name in ("norm", "laplace")  # whose logpdf has a slope at infinity
    floats = [np.float64(s) for s in shapes]
    whole = COUNTS[name][1] if name in COUNTS else 0
    for method in {density, density[3:], "cdf", "sf", "logcdf", "logsf"} & set(d.methods):
        xs = outside if method in (density, density[3:]) else outside[outside != 1.5]

        def f(x, *p, method=method):
            return getattr(d, method)(x, *p)

        if steep and method == density:
            assert not np.any(np.isnan(fg.grad(lambda x, f=f: np.sum(f(x)))(xs)))
            np.testing.assert_array_equal(f(xs), -INF)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = f(xs, *shapes)
            assert not np.any(np.isnan(value))
            if method == density:
                np.testing.assert_array_equal(value, -INF)
            args = (xs, *floats, 0.0) if name in COUNTS else (xs, *floats, 0.0, 1.0)
            wanted = tuple(i for i in range(len(args)) if not 0 < i <= whole)
            grads = fg.grad(lambda *a, f=f: np.sum(np.maximum(f(*a), -9.0)), argnums=wanted)(*args)
            _, tangent = fg.jvp(f, args, [np.ones_like(a) for a in args])
        for found in (*grads, tangent):
            np.testing.assert_array_equal(found, 0.0, err_msg=f"{method}")


def test_on_the_edge():
    slope = fg.grad(stats.expon.logpdf)
    assert (stats.expon.logpdf(0.0), slope(0.0)) == (0.0, -1.0)
    assert fg.grad(stats.uniform.cdf)(0.0) == fg.grad(stats.uniform.cdf)(1.0) == 1.0
    assert fg.grad(stats.gamma.logpdf)(0.0, 1.0) == -1.0
    with np.errstate(all="ignore"):
        assert stats.gamma.logpdf(0.0, 2.0) == -INF and stats.gamma.logpdf(0.0, 0.5) == INF
        assert fg.grad(stats.gamma.logpdf)(0.0, 2.0) == 0.0
        assert fg.grad(stats.gamma.cdf)(0.0, 0.5) == 0.0
        assert fg.grad(stats.weibull_min.logsf, argnums=(1, 3))(0.0, 0.5, 0.0, 2.0) == (0.0, 0.0)
        assert fg.grad(stats.gamma.cdf, argnums=1)(0.0, 0.5) == 0.0
        assert fg.grad(stats.beta.cdf, argnums=(1, 2))(1.0, 0.5, 2.0) == (0.0, 0.0)
    assert fg.grad(stats.laplace.logpdf)(0.0) == 0.0  # a kink: the mean of both sides
    assert fg.grad(stats.laplace.cdf)(0.0) == 0.5
    assert fg.grad(stats.vonmises.logpdf, argnums=1)(0.3, 0.0) == pytest.approx(np.cos(0.3))
    assert fg.grad(stats.poisson.logpmf, argnums=1)(0, 0.0) == -1.0
    with np.errstate(all="ignore"):
        assert fg.grad(stats.bernoulli.logpmf, argnums=1)(0, 0.0) == -1.0
        assert fg.grad(stats.bernoulli.logpmf, argnums=1)(1, 1.0) == 1.0


@pytest.mark.parametrize("name, method", [c for c in CONTINUOUS if c[1] not in OF_NOTHING])
def test_no_derivative_is_nan_at_the_ends_and_far_out(name, method):
    f = getattr(getattr(stats, name), method)
    for shapes in LINE[name][0]:
        ends = [float(v) for v in getattr(sp, name).support(*shapes)]
        points = np.array(
            (0.0, 1.0, 0.5) if method in OF_PROBABILITIES else (*ends, 0.0, 50.0, -50.0, -800.0)
        )
        args = [points, *[np.full(points.shape, p) for p in (*map(float, shapes), 0.0, 1.0)]]
        with np.errstate(all="ignore"):
            value, pull = fg.vjp(f, *args)
            slopes = np.stack(pull(np.ones_like(value)))  # of each point by each argument
            _, tangent = fg.jvp(f, args, [np.ones_like(a) for a in args])
        assert not np.any(np.isnan(slopes)), (shapes, points, slopes)
        several = np.sum(np.isinf(slopes), axis=0) > 1
        assert np.all(several | ~np.isnan(tangent)), (shapes, points, tangent)


def test_one_sided_truncation_has_no_nan():
    def f(loc, scale):
        low, high = (-INF - loc) / scale, (1.0 - loc) / scale
        return stats.truncnorm.logpdf(0.3, low, high, loc, scale)

    check_grads(f, [0.1, 1.3], order=1)
    check_grads(lambda x, b: stats.truncnorm.logpdf(x, -INF, b), [0.3, 1.0], order=2)
    check_grads(lambda loc: stats.truncnorm.logcdf(0.3, -INF, 2.0, loc), [0.1], order=2)
    for order in (fg.grad, lambda f, argnums: fg.grad(fg.grad(f, argnums), argnums)):
        assert order(stats.truncnorm.logpdf, argnums=1)(0.3, -INF, 2.0) == 0.0
        assert order(stats.truncnorm.logsf, argnums=2)(0.3, -1.0, INF) == 0.0


def test_invalid_parameters_are_nan_and_so_are_their_derivatives():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for f, args in (
            (stats.norm.logpdf, (0.3, 0.0, -1.0)), (stats.norm.logpdf, (0.3, 0.0, 0.0)),
            (stats.gamma.logpdf, (0.3, -2.0)), (stats.gamma.cdf, (0.3, -2.0)),
            (stats.uniform.pdf, (0.3, 0.0, -1.0)), (stats.truncnorm.pdf, (0.3, 2.0, 1.0)),
            (stats.beta.ppf, (0.3, -1.0, 2.0)), (stats.t.entropy, (-1.0,)),
            (stats.norm.pdf, (np.nan,)), (stats.norm.cdf, (0.3, np.nan)),
        ):  # fmt: skip
            assert np.isnan(f(*args)), f
            assert np.isnan(fg.grad(f)(*args)), f
        assert np.isnan(stats.binom.logpmf(2, 5, 1.5)) and np.isnan(stats.binom.pmf(2, 5.5, 0.3))
        assert np.isnan(fg.grad(lambda p: stats.binom.logpmf(2, 5, p))(1.5))
    found = stats.norm.logpdf(np.zeros(2), 0.0, np.array([-1.0, 1.0]))
    np.testing.assert_array_equal(np.isnan(found), [True, False])


# --- tails, against mpmath ------------------------------------------------------------------------


def _normal_mass(a, b):
    return (mpmath.erfc(a / mpmath.sqrt(2)) - mpmath.erfc(b / mpmath.sqrt(2))) / 2


TAILS = {
    ("norm", "logcdf"): (lambda x: mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2), (-40.0, 9.0)),
    ("norm", "logsf"): (lambda x: mpmath.log(mpmath.erfc(x / mpmath.sqrt(2)) / 2), (-9.0, 40.0)),
    ("logistic", "logcdf"): (lambda x: -mpmath.log1p(mpmath.exp(-x)), (-800.0, 40.0)),
    ("logistic", "logpdf"): (
        lambda x: -x - 2 * mpmath.log1p(mpmath.exp(-x)), (-700.0, -1e-3, 0.0, 700.0)
    ),
    ("laplace", "logsf"): (lambda x: mpmath.log(mpmath.exp(-x) / 2), (1.0, 800.0)),
    ("laplace", "logcdf"): (lambda x: mpmath.log1p(-mpmath.exp(-x) / 2), (1.0, 30.0)),
    ("gumbel_r", "logsf"): (lambda x: mpmath.log(-mpmath.expm1(-mpmath.exp(-x))), (-3.0, 50.0)),
    ("gumbel_l", "cdf"): (lambda x: -mpmath.expm1(-mpmath.exp(x)), (-50.0, 1.0)),
    ("cauchy", "cdf"): (lambda x: mpmath.atan2(1, -x) / mpmath.pi, (-1e9, -1e3)),
    ("expon", "logcdf"): (lambda x: mpmath.log(-mpmath.expm1(-x)), (1e-9, 0.69, 0.7, 40.0)),
    ("weibull_min", "logcdf", 1.5): (
        lambda x: mpmath.log(-mpmath.expm1(-(x ** mpmath.mpf(1.5)))), (1e-6, 10.0)
    ),
    ("lognorm", "logsf", 0.5): (
        lambda x: mpmath.log(mpmath.erfc(mpmath.log(x) * 2 / mpmath.sqrt(2)) / 2), (1e-3, 1e8)
    ),
    ("truncnorm", "logpdf", 20.0, 21.0): (
        lambda x: -x * x / 2 - mpmath.log(mpmath.sqrt(2 * mpmath.pi) * _normal_mass(20, 21)),
        (20.1, 20.9),
    ),
    ("truncnorm", "logcdf", -9.0, 9.0): (
        lambda x: mpmath.log(_normal_mass(-9, x) / _normal_mass(-9, 9)), (-8.5, 0.1, 7.0)
    ),
    ("truncnorm", "logsf", 3.0, INF): (
        lambda x: mpmath.log(_normal_mass(x, mpmath.inf) / _normal_mass(3, mpmath.inf)),
        (3.001, 30.0),
    ),
    ("halfnorm", "logsf"): (lambda x: mpmath.log(mpmath.erfc(x / mpmath.sqrt(2))), (1e-5, 40.0)),
    ("vonmises", "logpdf", 500.0): (
        lambda x: 500 * mpmath.cos(x) - mpmath.log(2 * mpmath.pi * mpmath.besseli(0, 500)),
        (1e-3, 0.5, 3.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TAILS)
def test_tails(case):
    name, method, *shapes = case
    exact, xs = TAILS[case]

    def f(x):
        return getattr(getattr(stats, name), method)(x, *shapes)

    with mpmath.workdps(420), np.errstate(all="ignore"):
        for x in xs:
            at = mpmath.mpf(x)
            np.testing.assert_allclose(f(x), float(exact(at)), rtol=1e-9, err_msg=str(x))
            slope = float(mpmath.diff(exact, at, h=mpmath.mpf(10) ** -60))
            np.testing.assert_allclose(fg.grad(f)(x), slope, rtol=1e-8, err_msg=f"slope at {x}")


def test_quantiles_far_out():
    for name in ("norm", "logistic", "laplace", "cauchy", "expon", "gumbel_r", "gumbel_l"):
        d = getattr(stats, name)
        for q in (1e-300, 1e-12):
            assert d.sf(d.isf(q)) == pytest.approx(q, rel=1e-9), name
    assert stats.truncnorm.sf(stats.truncnorm.isf(1e-30, 3.0, INF), 3.0, INF) == pytest.approx(
        1e-30, rel=1e-9
    )


def test_where_a_probability_underflows_its_logarithm_is_no_nan():
    with np.errstate(all="ignore"):
        assert stats.gamma.logsf(2000.0, 3.0) == -INF
        assert fg.grad(stats.gamma.logsf)(2000.0, 3.0) == 0.0


# --- work -----------------------------------------------------------------------------------------


def test_gradients_do_not_evaluate_log_densities():
    x, counts = np.linspace(0.1, 2.0, 7), np.arange(7)
    for f, arg, absent in (
        (lambda x: stats.gamma.logpdf(x, 2.0), x, "xlogy"),
        (stats.cauchy.logpdf, x, "log"),
        (lambda mu: stats.poisson.logpmf(counts, mu), x, "xlogy"),
    ):
        graph = fg.jit(fg.grad(lambda x, f=f: np.sum(f(x)))).lower(arg).optimised
        assert absent not in [e.primitive.name for e in graph.equations]


def test_terms_of_constant_data_are_computed_once():
    counts = np.arange(100_000) % 9
    lowered = fg.jit(lambda mu: np.sum(stats.poisson.logpmf(counts, mu))).lower(2.0)
    assert "gammaln" not in str(lowered.optimised)
