"""scipy.stats beyond distributions of numbers: vectors and matrices, gaussian_kde, functions of
samples; and the namespace itself: its own names, its refusals, and SciPy's names.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.stats as sp

import fungrad as fg
from fungrad.errors import ArgumentError, ShapeError, UnsupportedFunctionError
from fungrad.scipy import stats
from fungrad.testing import check_grads

RANDOM = np.random.default_rng(0)
ROOT = RANDOM.normal(size=(3, 3))
COV = ROOT @ ROOT.T + np.eye(3)
MEAN = RANDOM.normal(size=3)
X = RANDOM.normal(size=(5, 3))
INF = np.inf


def symmetric(a):
    return (a + np.swapaxes(a, -1, -2)) / 2


def same(found, expected, rtol=1e-11):
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-14)


# --- multivariate_normal --------------------------------------------------------------------------

NORMALS = [
    (X, MEAN, COV), (X[0], MEAN, COV), (X, None, COV), (X[:, 0], 0.3, 2.0), (0.4, 0.3, 2.0),
    (X, MEAN, 2.0), (X, MEAN, np.array([1.0, 2.0, 3.0])), (X, None, np.eye(3)),
    (X[:, :1], None, 2.0), (X[:0], MEAN, COV), ([1, 2], [0, 1], [[2, 1], [1, 2]]),
]  # fmt: skip


@pytest.mark.parametrize("allow_singular", [False, True])
@pytest.mark.parametrize("args", NORMALS)
def test_multivariate_normal_is_scipys(args, allow_singular):
    def f(*args):
        return stats.multivariate_normal.logpdf(*args, allow_singular=allow_singular)

    expected = sp.multivariate_normal.logpdf(*args, allow_singular=allow_singular)
    same(f(*args), expected)
    same(fg.jit(f)(*args), expected)
    frozen = stats.multivariate_normal(*args[1:], allow_singular)
    same(frozen.pdf(args[0]), np.exp(expected))
    same(frozen.entropy(), sp.multivariate_normal(*args[1:], allow_singular).entropy())
    if np.size(args[0]):
        same(fg.vmap(lambda x: f(x, *args[1:]))(np.stack([args[0], args[0]]))[1], expected)


@pytest.mark.parametrize("allow_singular", [False, True])
@pytest.mark.parametrize("cov", [COV, np.eye(3)])  # equal eigenvalues, too
def test_multivariate_normal_differentiates(cov, allow_singular):
    def f(x, mean, cov):
        return stats.multivariate_normal.logpdf(x, mean, symmetric(cov), allow_singular)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_grads(f, [X, MEAN, cov], order=2)
        check_grads(lambda c: stats.multivariate_normal.entropy(MEAN, symmetric(c)), [cov], order=2)


def test_multivariate_normal_of_singular_matrices():
    thin = RANDOM.normal(size=(3, 2))
    singular, on = thin @ thin.T, X[:, :2] @ thin.T + MEAN
    for points in (on, X):
        expected = sp.multivariate_normal.logpdf(points, MEAN, singular, allow_singular=True)
        same(
            stats.multivariate_normal.logpdf(points, MEAN, singular, allow_singular=True),
            expected,
            1e-9,
        )
    same(
        stats.multivariate_normal.entropy(MEAN, singular),
        sp.multivariate_normal.entropy(MEAN, singular),
    )

    def f(thin, z):
        return stats.multivariate_normal.logpdf(z @ thin.T, None, thin @ thin.T, True)

    check_grads(f, [thin, X[:, :2]], order=2)
    pdf = fg.grad(lambda x: np.sum(stats.multivariate_normal.pdf(x, MEAN, singular, True)))
    np.testing.assert_array_equal(pdf(X), 0.0)
    zero = stats.multivariate_normal.logpdf(np.zeros(2), None, np.zeros((2, 2)), True)
    assert zero == sp.multivariate_normal.logpdf(np.zeros(2), None, np.zeros((2, 2)), True)
    for f in (lambda x: x, fg.grad):
        with pytest.raises(np.linalg.LinAlgError, match="allow_singular"):
            f(lambda x: stats.multivariate_normal.logpdf(x, MEAN, singular))(X[0])
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite up to rounding"):
            f(lambda x: stats.multivariate_normal.logpdf(x, MEAN, -np.eye(3)))(X[0])
    with pytest.raises(ValueError, match="positive semidefinite"):
        stats.multivariate_normal.logpdf(X, MEAN, -np.eye(3), allow_singular=True)
    with pytest.raises(ShapeError, match=r"cov of shape \(2, 2\) for vectors of length 3"):
        stats.multivariate_normal.logpdf(X, MEAN, np.eye(2))


def test_multivariate_normal_in_batches():
    covs, means = np.stack([COV * (1 + i) for i in range(5)]), X * 0.1
    expected = [sp.multivariate_normal.logpdf(*a) for a in zip(X, means, covs, strict=True)]
    for allow_singular in (False, True):

        def f(x, mean, cov, allow_singular=allow_singular):
            return stats.multivariate_normal.logpdf(x, mean, cov, allow_singular)

        same(f(X, means, covs), expected)
        same(fg.vmap(f)(X, means, covs), expected)
        same(np.diagonal(f(X[:, None], means, covs)), expected)
        check_grads(lambda x, m, c, f=f: f(x, m, symmetric(c)), [X, means, covs])
        low = [a.astype(np.float32) for a in (X, means, covs)]
        assert f(*low).dtype == fg.jit(f)(*low).dtype == np.float32
        np.testing.assert_allclose(f(*low), expected, rtol=1e-4)


# --- dirichlet, multinomial, wishart --------------------------------------------------------------

ALPHA = np.array([0.7, 2.0, 3.0])
SHARES = RANDOM.dirichlet(ALPHA, 4).T


def test_dirichlet():
    for x in (SHARES, SHARES[:, 0], SHARES[:2], SHARES[:2, 1]):
        same(stats.dirichlet.logpdf(x, ALPHA), sp.dirichlet.logpdf(x, ALPHA))
        same(fg.jit(stats.dirichlet.pdf)(x, ALPHA), sp.dirichlet.pdf(x, ALPHA))
    for method in ("entropy", "mean", "var", "cov"):
        f = getattr(stats.dirichlet, method)
        same(f(ALPHA), getattr(sp.dirichlet, method)(ALPHA))
        same(fg.vmap(f)(np.stack([ALPHA, ALPHA]))[0], f(ALPHA))
        check_grads(f, [ALPHA], order=2)
    check_grads(stats.dirichlet.logpdf, [SHARES[:2], ALPHA], order=2)
    slope = fg.grad(lambda x: stats.dirichlet.logpdf(x, ALPHA))(SHARES[:, 0])
    same(slope, (ALPHA - 1) / SHARES[:, 0])
    assert stats.dirichlet.logpdf(SHARES.astype(np.float32), ALPHA.astype("f")).dtype == np.float32


def test_dirichlet_outside_of_the_simplex():
    outside = np.array([[0.5, 1.2], [0.6, -0.3], [0.1, 0.1]])
    np.testing.assert_array_equal(stats.dirichlet.logpdf(outside, ALPHA), -INF)
    pdf = fg.grad(lambda x, a: np.sum(stats.dirichlet.pdf(x, a)), argnums=(0, 1))(outside, ALPHA)
    for found in pdf:
        np.testing.assert_array_equal(found, 0.0)
    assert np.isnan(stats.dirichlet.logpdf(SHARES[:, 0], -ALPHA))
    with pytest.raises(ShapeError, match="5 components"):
        stats.dirichlet.logpdf(SHARES, np.ones(5))
    with pytest.raises(ShapeError, match="a vector alpha"):
        stats.dirichlet.mean(2.0)


P = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])


def test_multinomial():
    for x, n, p in (
        ([1, 2, 3], 6, P), ([[1, 2, 3], [6, 0, 0]], 6, P[0]), ([1, 2, 3], 5, P),
        ([1, 2, 3], -1, P), ([1.5, 1.5, 3], 6, P[0]), ([0, 0, 0], 0, P[0]),
        ([1, 2, 3], 6, [0.2, 0.3, 0.2]), ([1, 0, 3], 4, [0.5, 0.0, 0.5]),
    ):  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            expected = sp.multinomial.logpmf(x, n, p)
        for f in (stats.multinomial.logpmf, fg.jit(stats.multinomial.logpmf)):
            same(f(np.array(x), n, np.array(p)), expected)
    x = np.array([1, 2, 3])
    np.testing.assert_allclose(fg.grad(lambda p: stats.multinomial.logpmf(x, 6, p))(P[0]), x / P[0])
    check_grads(lambda p: stats.multinomial.pmf(x, 6, p / np.sum(p)), [P[0]], order=2)
    np.testing.assert_allclose(
        fg.vmap(lambda p: stats.multinomial.pmf(x, 6, p))(P), sp.multinomial.pmf(x, 6, P)
    )
    assert not np.any(fg.grad(lambda x: stats.multinomial.logpmf(x, 6, P[0]))(1.0 * x))
    assert not np.any(fg.grad(lambda p: stats.multinomial.pmf(x, 5, p))(P[0]))
    np.testing.assert_allclose(stats.multinomial.mean(6, P), 6 * P)


def test_wishart():
    pair = np.stack([COV, 2 * COV], -1)
    for x, df, scale in (
        (COV, 4.5, np.eye(3)), (pair, 4.5, COV), (2.0, 3, 1.0), (np.array([1.0, 2.0]), 3, 1.0),
        (pair, 5, np.array([1.0, 2.0, 3.0])),
    ):  # fmt: skip
        expected = sp.wishart.logpdf(x, df, scale)
        same(stats.wishart.logpdf(x, df, scale), expected)
        same(fg.jit(stats.wishart.pdf)(x, df, scale), np.exp(expected))

    def f(x, df, scale):
        return stats.wishart.logpdf(symmetric(x), df, symmetric(scale))

    check_grads(f, [COV, 4.5, np.eye(3)], order=2)
    assert np.isnan(stats.wishart.logpdf(COV, 1.5, COV))


# --- gaussian_kde ---------------------------------------------------------------------------------

SAMPLE = RANDOM.normal(size=(2, 20))
WEIGHTS = RANDOM.uniform(1, 2, 20)
POINTS = RANDOM.normal(size=(2, 6))


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("method", [None, "scott", "silverman", 0.4, lambda k: 0.3 * k.neff**-0.1])
def test_gaussian_kde_is_scipys(method, weights):
    ours, theirs = (k.gaussian_kde(SAMPLE, method, weights) for k in (stats, sp))
    other, scipys = (k.gaussian_kde(SAMPLE[:, :9] + 0.1) for k in (stats, sp))
    for points in (POINTS, POINTS[:, 0]):
        same(ours(points), theirs(points))
        same(ours.pdf(points), theirs.pdf(points))
        same(ours.logpdf(points), theirs.logpdf(points))
    cov = COV[:2, :2]
    same(ours.integrate_gaussian(MEAN[:2], cov), theirs.integrate_gaussian(MEAN[:2], cov))
    same(ours.integrate_kde(other), theirs.integrate_kde(scipys))
    for name in ("inv_cov", "covariance", "factor", "neff", "d", "n", "weights"):
        same(getattr(ours, name), getattr(theirs, name))
    same(ours.covariance_factor(), theirs.covariance_factor())


def test_gaussian_kde_of_numbers():
    ours, theirs = (k.gaussian_kde(SAMPLE[0]) for k in (stats, sp))
    same(ours.integrate_box_1d(-1, 0.4), theirs.integrate_box_1d(-1, 0.4))
    same(ours([0.1, 0.2]), theirs([0.1, 0.2]))
    check_grads(
        lambda s, a, b: stats.gaussian_kde(s).integrate_box_1d(a, b), [SAMPLE[0], -1.0, 2.0]
    )
    assert stats.gaussian_kde(SAMPLE.astype("f")).logpdf(POINTS.astype("f")).dtype == np.float32
    assert np.all(np.isfinite(ours.logpdf([1e3, -1e3])))  # where the density underflows


def test_gaussian_kde_differentiates():
    def f(sample, weights, points):
        return stats.gaussian_kde(sample, None, weights).logpdf(points)

    check_grads(f, [SAMPLE, WEIGHTS, POINTS], order=2)
    same(fg.jit(f)(SAMPLE, WEIGHTS, POINTS), f(SAMPLE, WEIGHTS, POINTS))
    same(
        fg.vmap(f)(*(np.stack([a, a]) for a in (SAMPLE, WEIGHTS, POINTS)))[1],
        fg.jit(f)(SAMPLE, WEIGHTS, POINTS),
    )
    check_grads(lambda h: stats.gaussian_kde(SAMPLE, h)(POINTS), [0.4], order=2)


def test_gaussian_kde_refuses():
    for call, text in (
        (lambda: stats.gaussian_kde(SAMPLE.T), "Transpose"),
        (lambda: stats.gaussian_kde(SAMPLE, "wide"), "bw_method"),
        (lambda: stats.gaussian_kde(SAMPLE, None, np.ones(3)), "20 points"),
        (lambda: stats.gaussian_kde(SAMPLE)(np.ones((3, 3))), "points of dimension 3"),
        (lambda: stats.gaussian_kde(SAMPLE).integrate_box_1d(0, 1), "1D"),
        (lambda: stats.gaussian_kde(SAMPLE).integrate_gaussian(0.0, 1.0), "dimension 2"),
        (lambda: stats.gaussian_kde(SAMPLE).integrate_kde(stats.gaussian_kde(SAMPLE[0])), "dimen"),
    ):
        with pytest.raises(ValueError, match=text):
            call()


# --- functions of samples -------------------------------------------------------------------------

A = np.array([[1.0, 2.0, 2.0], [3.0, 1.0, 2.0], [1.0, 5.0, 5.0]])
AXES = [None, 0, 1, -1]


def in_all_ways(g, a):
    """g(a) staged, differentiated and batched."""
    yield fg.jit(g)(a)
    yield fg.vjp(g, a)[0]
    yield fg.trees.map(lambda v: v[1], fg.vmap(g)(np.stack([a + 1, a])))


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
def test_rankdata(axis, method):
    def g(x):
        return stats.rankdata(x, method, axis=axis)

    for found in in_all_ways(g, A):
        expected = sp.rankdata(A, method, axis=axis)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    if method == "average":
        assert not np.any(fg.grad(lambda x: np.sum(g(x) ** 2))(A))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
def test_mode(axis, keepdims):
    def g(x):
        return stats.mode(x, axis=axis, keepdims=keepdims)

    for found in in_all_ways(g, A):
        for x, y in zip(found, sp.mode(A, axis=axis, keepdims=keepdims), strict=True):
            np.testing.assert_array_equal(x, y)
            assert np.asarray(x).dtype == np.asarray(y).dtype and np.shape(x) == np.shape(y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [int, float, bool, np.uint8])
def test_mode_of_nothing(dtype):
    for a in (np.zeros(0, dtype), np.zeros((0, 2), dtype)):
        expected = sp.mode(a)
        for found in (fg.jit(stats.mode)(a), fg.vjp(stats.mode, a)[0]):
            np.testing.assert_array_equal(found.mode, expected.mode, strict=True)
            np.testing.assert_array_equal(found.count, expected.count, strict=True)


def test_the_derivative_of_a_mode_is_shared():
    slope = fg.grad(lambda x: np.sum(stats.mode(x).mode))(A)
    np.testing.assert_array_equal(slope, [[0.5, 0, 0.5], [0, 1, 0.5], [0.5, 0, 0]])
    assert fg.jit(stats.mode)(A.astype(int)).mode.dtype == int


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
def test_sem_and_entropy(axis, keepdims):
    def sem(x):
        return stats.sem(x, axis=axis, keepdims=keepdims)

    def plain(x):
        return stats.entropy(x, axis=axis, keepdims=keepdims)

    def relative(x):
        return stats.entropy(x, (A[::-1] + 1).astype(x.dtype), base=2, axis=axis, keepdims=keepdims)

    for f in (sem, plain, relative):
        for found in in_all_ways(f, A):
            same(found, f(A))
        check_grads(f, [A], order=2)
        low = A.astype(np.float32)
        assert fg.jit(f)(low).dtype == f(low).dtype == np.float32
    check_grads(lambda q: stats.entropy(A, q), [A[::-1] + 1], order=2)


def test_entropy_at_zero():
    with np.errstate(all="ignore"):
        slope = fg.grad(stats.entropy)(np.array([0.0, 1.0, 1.0]))
    np.testing.assert_array_equal(slope, [INF, 0.0, 0.0])
    with pytest.raises(ValueError, match="base"):
        stats.entropy(A, base=-1)


@pytest.mark.parametrize("name", ["entropy", "sem", "mode", "rankdata"])
def test_nan_policy_of_traced_values(name):
    f = getattr(stats, name)
    with pytest.raises(ArgumentError, match=rf"{name}\(nan_policy='omit'\)"):
        fg.jit(lambda x: f(x, nan_policy="omit"))(A)
    assert not np.any(np.isnan(np.asarray(f(np.where(A == 3, np.nan, A), nan_policy="omit")[0])))


# --- the namespace --------------------------------------------------------------------------------


def test_what_is_not_here_is_scipys():
    assert stats.zscore is sp.zscore
    assert stats.norm.rvs(random_state=0) == sp.norm.rvs(random_state=0)
    assert stats.gamma.fit is not None and stats.norm(1.0).support() == (-INF, INF)
    assert stats.norm(1.0, 2.0).interval(0.9) == sp.norm(1.0, 2.0).interval(0.9)
    assert stats.vonmises.cdf(0.3, 2.0) == sp.vonmises.cdf(0.3, 2.0)
    assert stats.betabinom.cdf(3, 7, 2.0, 1.4) == sp.betabinom.cdf(3, 7, 2.0, 1.4)
    assert stats.binom.entropy(7, 0.3) == sp.binom.entropy(7, 0.3)
    assert {"norm", "entropy", "zscore", "kstest"} <= set(dir(stats))
    assert repr(stats.norm) == "<distribution norm>" == f"<distribution {stats.norm.name}>"


def test_a_method_without_a_formula_is_refused_on_traced_values():
    for f in (
        lambda x: stats.vonmises.cdf(x, 2.0),
        lambda x: stats.vonmises.ppf(x, 2.0),
        lambda x: stats.betabinom.cdf(3, 7, x, 1.4),
        lambda x: stats.binom.entropy(7, x),
    ):
        for transform in (fg.grad, fg.jit):
            with pytest.raises(
                UnsupportedFunctionError, match=r"scipy\.stats\.\w+\.\w+ was called"
            ):
                transform(f)(0.5)


def test_bad_arguments():
    for call, text in (
        (lambda: stats.gamma.logpdf(0.3), "not given a"),
        (lambda: stats.gamma.logpdf(0.3, 2.0, a=2.0), "but was given a"),
        (lambda: stats.norm.logpdf(0.3, 0.0, 1.0, 2.0), "given 3 in a row"),
        (lambda: stats.norm.logpdf(0.3, mean=2.0), r"takes \(loc=0, scale=1\), but was given mean"),
        (lambda: stats.poisson.pmf(0.3, 2.0, scale=2.0), r"takes \(mu, loc=0\)"),
        (lambda: stats.gamma(), "not given a"),
        (lambda: stats.norm.logpdf(1j), "complex"),
        (lambda: stats.norm.logpdf("x"), "x"),
    ):
        with pytest.raises(TypeError, match=text):
            call()
    with pytest.raises(AttributeError, match="_pdf"):
        stats.norm._pdf  # noqa: B018 - the access is what is tested


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(sp.norm.logpdf(x)),
        lambda x: np.sum(sp.norm.logpdf(0.3, scale=x)),
        lambda x: np.sum(sp.poisson.logpmf(3, x)),
        lambda x: sp.sem(x),
    ],
)
def test_scipys_own_take_traced_values(f):
    x = np.array([0.5, 1.5])
    check_grads(f, [x], order=2)
    np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=1e-14)
    rows = np.stack([x, x + 0.25])
    np.testing.assert_allclose(fg.vmap(f)(rows), [f(row) for row in rows], rtol=1e-14)


def test_scipys_own_without_a_counterpart_and_the_users_mistakes():
    with pytest.raises(UnsupportedFunctionError, match=r"levy_stable\.logpdf.*fg\.external"):
        fg.jit(lambda x: sp.levy_stable.logpdf(x, 1.5, 0.0), branches="error")(np.array([0.5, 1.5]))
    with pytest.raises(TypeError) as caught:  # the user's own mistake, though SciPy called him
        fg.grad(lambda x: sp.bootstrap((np.ones(3),), lambda s, axis: float(x)).standard_error)(0.5)
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.slow
def test_scipy_stats_comes_only_when_needed():
    script = (
        "import sys, numpy as np, fungrad as fg\n"
        "from fungrad.scipy import stats\n"
        "fg.grad(stats.norm.logpdf)(0.5)\n"
        "print('scipy.stats' in sys.modules)\n"
    )
    root = str(Path(fg.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={"PYTHONPATH": root}
    )
    assert done.stdout.split() == ["False"], done.stderr
