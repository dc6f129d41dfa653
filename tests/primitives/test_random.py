"""fungrad.random: values that stay, distributions, keys, transforms, derivatives, bad arguments."""

from __future__ import annotations

import inspect
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as stats
from random_cases import CASES, COV, EXACT, FLOATS, KEY
from same_numbers import assert_same_numbers

import fungrad as fg
from fungrad import random
from fungrad.errors import ArgumentError, ShapeError
from fungrad.primitives.random import philox, rejection
from fungrad.primitives.random.bits import normal_of_bits, normal_quantile
from fungrad.random import gamma_family
from fungrad.testing import check_grads

DATA = Path(__file__).parents[1] / "data"
VALUES = json.loads((DATA / "random_values.json").read_text(encoding="utf-8"))
LINEAR_ALGEBRA = {"multivariate_normal"}
"""A product of matrices may be rounded in another order in a batch."""

# --- values ---------------------------------------------------------------------------------------


def test_every_function_has_a_case():
    public = {n for n, f in vars(random).items() if inspect.isfunction(f)}
    made = {name.split("_of_")[0] for name in CASES}
    keys = {"key", "PRNGKey", "key_data", "wrap_key_data"}
    assert public == {n for n in made if n in public} | keys
    assert set(VALUES) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_values_stay(name):
    found, expected = CASES[name](KEY), VALUES[name]
    if found.dtype.kind == "c":
        found = np.stack([found.real, found.imag])
    if name in EXACT:
        assert found.tolist() == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


def test_the_cipher_gives_the_published_words():
    # Salmon et al., the known answers of Random123 for philox4x64 with 10 rounds.
    ones = 2**64 - 1
    for key, counter, expected in (
        (
            (0, 0),
            (0, 0, 0, 0),
            "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b",
        ),
        (
            (ones, ones),
            (ones, ones, ones, ones),
            "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0",
        ),
    ):
        left, right = (np.array([k], np.uint64) for k in key)
        found = philox._philox([np.array([c], np.uint64) for c in counter], left, right)
        assert " ".join(f"{int(w[0]):016x}" for w in found) == expected


def test_many_streams_are_the_streams_one_by_one():
    keys = random.split(random.key(1), 40)
    data = np.arange(40, dtype=np.uint64)
    for count in (1, 4, 6, 64, 70):
        found = philox.streams(keys, data, 2, count)
        rows = [philox.stream(k, int(d), 2, count) for k, d in zip(keys, data, strict=True)]
        np.testing.assert_array_equal(found, np.stack(rows))


def test_long_samples_do_not_depend_on_blocks(monkeypatch):
    keys = random.split(KEY, 3)
    a = np.linspace(0.1, 9.0, 1200).reshape(3, 400)
    expected = rejection.random_log_gamma(keys, a)
    monkeypatch.setattr(rejection, "_BLOCK", 150)
    np.testing.assert_array_equal(rejection.random_log_gamma(keys, a), expected)


def test_normal_quantiles():
    p = np.concatenate([np.geomspace(1e-300, 0.1, 50), np.linspace(0.01, 0.999, 50)])
    np.testing.assert_allclose(normal_quantile(p), sp.ndtri(p), rtol=1e-14, atol=1e-16)
    assert normal_quantile(0.0) == -np.inf
    assert normal_quantile(1.0) == np.inf
    assert np.isnan(normal_quantile(np.array([-0.1, 1.5, np.nan]))).all()
    ends = np.array([2**63, 2**63 - 1], np.uint64)
    np.testing.assert_allclose(normal_of_bits(ends), sp.ndtri(2.0**-54) * np.array([1, -1]))


def test_a_longer_sample_begins_as_a_shorter_one():
    for f in (random.normal, random.uniform, lambda key, shape: random.gamma(key, 0.7, shape)):
        np.testing.assert_array_equal(f(KEY, (9,))[:4], f(KEY, (4,)))


# --- distributions --------------------------------------------------------------------------------

SIZE = (20_000,)
CONTINUOUS = {
    "beta": (lambda k: random.beta(k, 0.4, 3.0, SIZE), stats.beta(0.4, 3.0)),
    "cauchy": (lambda k: random.cauchy(k, SIZE), stats.cauchy()),
    "chisquare": (lambda k: random.chisquare(k, 3.0, SIZE), stats.chi2(3.0)),
    "dirichlet": (
        lambda k: random.dirichlet(k, np.array([0.5, 1.0, 2.0]), SIZE)[:, 0], stats.beta(0.5, 3.0)
    ),
    "double_sided_maxwell": (
        lambda k: np.abs(random.double_sided_maxwell(k, 1.0, 2.0, SIZE) - 1.0),
        stats.maxwell(scale=2.0),
    ),
    "exponential": (lambda k: random.exponential(k, SIZE), stats.expon()),
    "f": (lambda k: random.f(k, 3.0, 5.0, SIZE), stats.f(3.0, 5.0)),
    "gamma_0.2": (lambda k: random.gamma(k, 0.2, SIZE), stats.gamma(0.2)),
    "gamma_1": (lambda k: random.gamma(k, 1.0, SIZE), stats.gamma(1.0)),
    "gamma_40": (lambda k: random.gamma(k, 40.0, SIZE), stats.gamma(40.0)),
    "generalized_normal": (
        lambda k: random.generalized_normal(k, 3.0, SIZE), stats.gennorm(3.0)
    ),
    "gumbel": (lambda k: random.gumbel(k, SIZE), stats.gumbel_r()),
    "laplace": (lambda k: random.laplace(k, SIZE), stats.laplace()),
    "loggamma": (lambda k: random.loggamma(k, 0.01, SIZE), stats.loggamma(0.01)),
    "logistic": (lambda k: random.logistic(k, SIZE), stats.logistic()),
    "lognormal": (lambda k: random.lognormal(k, 0.5, SIZE), stats.lognorm(0.5)),
    "maxwell": (lambda k: random.maxwell(k, SIZE), stats.maxwell()),
    "multivariate_normal": (
        lambda k: random.multivariate_normal(k, np.zeros(2), COV, SIZE) @ np.array([1.0, -2.0]),
        stats.norm(0, 2.0),
    ),
    "normal": (lambda k: random.normal(k, SIZE), stats.norm()),
    "normal32": (lambda k: random.normal(k, SIZE, np.float32), stats.norm()),
    "pareto": (lambda k: random.pareto(k, 3.0, SIZE), stats.pareto(3.0)),
    "rayleigh": (lambda k: random.rayleigh(k, 2.0, SIZE), stats.rayleigh(scale=2.0)),
    "t": (lambda k: random.t(k, 2.5, SIZE), stats.t(2.5)),
    "triangular": (
        lambda k: random.triangular(k, 0.0, 1.0, 4.0, SIZE), stats.triang(0.25, scale=4.0)
    ),
    "truncated_normal": (
        lambda k: random.truncated_normal(k, -1.0, 2.0, SIZE), stats.truncnorm(-1.0, 2.0)
    ),
    "truncated_normal_tail": (
        lambda k: random.truncated_normal(k, 8.0, np.inf, SIZE), stats.truncnorm(8.0, np.inf)
    ),
    "uniform": (lambda k: random.uniform(k, SIZE, minval=-1.0, maxval=3.0), stats.uniform(-1, 4)),
    "uniform32": (lambda k: random.uniform(k, SIZE, np.float32), stats.uniform()),
    "wald": (lambda k: random.wald(k, 2.0, SIZE), stats.invgauss(2.0)),
    "weibull_min": (
        lambda k: random.weibull_min(k, 2.0, 0.7, SIZE), stats.weibull_min(0.7, scale=2.0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUOUS)
def test_a_continuous_distribution(name):
    sample, expected = CONTINUOUS[name]
    assert stats.kstest(sample(random.key(5)), expected.cdf).pvalue > 1e-3


def fits(counts, shares):
    """Whether counts come of categories with these probabilities."""
    shares = np.asarray(shares)
    kept = shares * sum(counts) > 5
    rest = [*np.asarray(counts)[kept], np.asarray(counts)[~kept].sum()]
    expected = sum(counts) * np.array([*shares[kept], max(1 - shares[kept].sum(), 1e-9)])
    expected[-1] = max(sum(counts) - expected[:-1].sum(), 1e-9)
    if expected[-1] < 1:
        assert rest[-1] <= 5
        rest, expected = rest[:-1], expected[:-1] * sum(rest[:-1]) / expected[:-1].sum()
    return stats.chisquare(rest, expected).pvalue > 1e-3


DISCRETE = {
    "bernoulli": (lambda k: random.bernoulli(k, 0.3, SIZE), stats.bernoulli(0.3)),
    "binomial_few": (lambda k: random.binomial(k, 12, 0.9, SIZE), stats.binom(12, 0.9)),
    "binomial_many": (lambda k: random.binomial(k, 100, 0.3, SIZE), stats.binom(100, 0.3)),
    "geometric": (lambda k: random.geometric(k, 0.3, SIZE), stats.geom(0.3)),
    "multinomial": (
        lambda k: random.multinomial(k, 20, np.array([1.0, 2, 5]), shape=(*SIZE, 3))[:, 1],
        stats.binom(20, 0.25),
    ),
    "poisson_few": (lambda k: random.poisson(k, 3.0, SIZE), stats.poisson(3.0)),
    "poisson_many": (lambda k: random.poisson(k, 20.0, SIZE), stats.poisson(20.0)),
    "randint": (lambda k: random.randint(k, SIZE, -3, 7) + 3, stats.randint(0, 10)),
    "rademacher": (lambda k: random.rademacher(k, SIZE) + 1, stats.binom(2, 0.5)),
}


@pytest.mark.parametrize("name", [n for n in DISCRETE if n != "rademacher"])
def test_a_discrete_distribution(name):
    sample, expected = DISCRETE[name]
    found = np.asarray(sample(random.key(5)), int)
    counts = np.bincount(found)
    assert fits(counts, expected.pmf(np.arange(len(counts))))


def test_signs():
    assert fits(np.bincount((random.rademacher(KEY, SIZE) + 1) // 2), [0.5, 0.5])


def test_categories():
    p = np.array([0.1, 0.2, 0.0, 0.7])
    with np.errstate(divide="ignore"):
        drawn = random.categorical(KEY, np.log(p), shape=SIZE)
    assert fits(np.bincount(drawn, minlength=4), p)
    assert fits(np.bincount(random.choice(KEY, 4, SIZE, p=p * 3), minlength=4), p)
    assert fits(np.bincount(random.choice(KEY, 4, SIZE)), [0.25] * 4)
    logits = np.log(np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]]))
    found = random.categorical(KEY, logits.T, axis=0, shape=(*SIZE, 3))
    for column, row in zip(found.T, np.exp(logits), strict=True):
        assert fits(np.bincount(column), row)
    pairs = fg.vmap(lambda k: random.choice(k, 3, (2,), False, p=np.array([0.2, 0.3, 0.5])))(
        random.split(KEY, SIZE[0])
    )
    assert fits(np.bincount(pairs[:, 0]), [0.2, 0.3, 0.5])
    after_first = pairs[pairs[:, 0] == 2, 1]
    assert fits(np.bincount(after_first), [0.4, 0.6])


def test_all_orders_are_equally_likely():
    orders = fg.vmap(lambda k: random.permutation(k, 3))(random.split(KEY, 6000))
    assert fits(np.bincount(orders @ np.array([9, 3, 1]))[[5, 7, 11, 15, 19, 21]], [1 / 6] * 6)
    rows = random.permutation(KEY, np.tile(np.arange(3), (6000, 1)), axis=1, independent=True)
    assert fits(np.bincount(rows @ np.array([9, 3, 1]))[[5, 7, 11, 15, 19, 21]], [1 / 6] * 6)


def test_vectors_and_matrices():
    points = random.multivariate_normal(KEY, np.array([1.0, 2.0]), COV, (50_000,))
    np.testing.assert_allclose(points.mean(0), [1.0, 2.0], atol=0.02)
    np.testing.assert_allclose(np.cov(points.T), COV, atol=0.05)
    flat = np.array([[1.0, 1.0], [1.0, 1.0]])
    for method in ("eigh", "svd"):
        points = random.multivariate_normal(KEY, np.zeros(2), flat, (50,), method=method)
        np.testing.assert_allclose(points[:, 0], points[:, 1], atol=1e-7)
    for n, m in ((3, 3), (4, 2), (2, 4)):
        q = random.orthogonal(KEY, n, (5,), m=m)
        assert q.shape == (5, n, m)
        short = q if m >= n else np.swapaxes(q, 1, 2)
        eye = np.broadcast_to(np.eye(min(n, m)), (5, min(n, m), min(n, m)))
        np.testing.assert_allclose(short @ np.swapaxes(short, 1, 2), eye, atol=1e-12)
    traces = np.trace(random.orthogonal(KEY, 3, (20_000,)), axis1=1, axis2=2)
    np.testing.assert_allclose([traces.mean(), traces.var()], [0.0, 1.0], atol=0.03)
    points = random.ball(KEY, 3, 1.0, SIZE)
    radius = np.abs(points).sum(-1)
    assert stats.kstest(radius**3, "uniform").pvalue > 1e-3


# --- keys -----------------------------------------------------------------------------------------


def test_keys_of_seeds():
    assert random.key(-1).tolist() == [2**64 - 1, 2**64 - 1]
    assert random.key(2**64 + 5).tolist() == [5, 1]
    assert random.PRNGKey is random.key
    for seed in (7, -7, np.int32(-7)):
        np.testing.assert_array_equal(fg.jit(random.key)(np.int64(seed)), random.key(seed))
    np.testing.assert_array_equal(random.wrap_key_data(random.key_data(KEY).tolist()), KEY)


def test_split_and_folded_keys_are_independent():
    keys = np.concatenate(
        [
            random.split(KEY, 2000),
            fg.vmap(random.fold_in, in_axes=(None, 0))(KEY, np.arange(2000)),
            KEY[None],
        ]
    )
    assert len(np.unique(keys, axis=0)) == 4001
    streams = fg.vmap(lambda k: random.normal(k, (1000,)))(keys[[0, 1, 2000, 2001, 4000]])
    correlation = np.corrcoef(streams) - np.eye(5)
    assert np.abs(correlation).max() < 4 / np.sqrt(1000)
    first = fg.vmap(random.normal)(keys[:-1])  # one number of each of many keys
    assert stats.kstest(first, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 4 / np.sqrt(4000)
    np.testing.assert_array_equal(random.split(KEY, (2, 3)).reshape(6, 2), random.split(KEY, 6))


def test_keys_in_a_scan():
    def step(key, _):
        key, now = random.split(key)
        return key, random.normal(now, (2,)) + random.gamma(now, 0.5)

    _, found = fg.lax.scan(step, KEY, None, length=4)
    key, expected = KEY, []
    for _ in range(4):
        key, y = step(key, None)
        expected.append(y)
    np.testing.assert_array_equal(found, np.stack(expected))

    def folded(total, i):
        return total + random.normal(random.fold_in(KEY, i)), None

    found = fg.jit(lambda: fg.lax.scan(folded, 0.0, np.arange(5))[0])()
    assert found == sum((random.normal(random.fold_in(KEY, i)) for i in range(5)), 0.0)


def test_threads_do_not_share_a_stream():
    keys = random.split(KEY, 16)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: random.normal(k, (20_000,)), keys))
    np.testing.assert_array_equal(found, [random.normal(k, (20_000,)) for k in keys])


# --- transforms -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_batched_and_compiled_values_are_the_same(name):
    f = CASES[name]
    keys = random.split(KEY, 9)
    expected = np.stack([f(k) for k in keys])
    compiled = fg.jit(f)(KEY)
    assert_same_numbers(compiled, f(KEY))
    assert compiled.dtype == f(KEY).dtype
    shape = fg.eval_shape(f, KEY)
    assert (shape.shape, shape.dtype) == (compiled.shape, compiled.dtype)
    for found in (fg.vmap(f)(keys), fg.jit(fg.vmap(f))(keys)):
        assert found.dtype == expected.dtype
        if name in LINEAR_ALGEBRA:
            np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)
        else:
            assert_same_numbers(found, expected)
    nested = fg.vmap(fg.vmap(f))(keys[:6].reshape(2, 3, 2))
    np.testing.assert_allclose(
        nested.reshape(6, *nested.shape[2:]), expected[:6], rtol=1e-14, atol=1e-14
    )


def test_parameters_are_mapped_too():
    a = np.array([0.3, 2.0, 15.0])
    keys = random.split(KEY, 3)
    for f in (random.gamma, random.poisson, random.bernoulli):
        for axes, args in (((0, 0), (keys, a)), ((None, 0), (KEY, a)), ((0, None), (keys, 0.7))):
            rows = [
                f(*[x[i] if ax == 0 else x for x, ax in zip(args, axes, strict=True)])
                for i in range(3)
            ]
            np.testing.assert_array_equal(fg.vmap(f, in_axes=axes)(*args), rows)
    found = fg.vmap(random.binomial, in_axes=(0, None, 0))(keys, 100, np.array([0.1, 0.5, 0.7]))
    rows = [random.binomial(k, 100, p) for k, p in zip(keys, (0.1, 0.5, 0.7), strict=True)]
    np.testing.assert_array_equal(found, rows)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", FLOATS)
def test_narrow_floats(name, dtype):
    if dtype == np.float16 and name == "multivariate_normal":
        with pytest.raises((TypeError, ArgumentError)):  # numpy.linalg has no such Cholesky
            FLOATS[name](KEY, dtype=dtype)
        return
    found = FLOATS[name](KEY, dtype=dtype)
    assert found.dtype == dtype
    assert fg.jit(lambda k: FLOATS[name](k, dtype=dtype))(KEY).dtype == dtype
    assert np.isfinite(found).all()
    assert FLOATS[name](KEY).dtype == np.float64


def test_uniform_numbers_are_below_one():
    for dtype in (np.float64, np.float32, np.float16):
        u = random.uniform(KEY, (50_000,), dtype)
        assert u.min() >= 0
        assert u.max() < 1
        assert stats.kstest(u.astype(float), "uniform").statistic < 0.01
    assert len(np.unique(random.uniform(KEY, (50_000,), np.float16))) == 2**11


def test_shapes():
    assert random.normal(KEY).shape == ()
    assert random.normal(KEY, 3).shape == (3,)
    assert random.normal(KEY, (0, 2)).shape == (0, 2)
    assert random.gamma(KEY, np.ones((2, 1)), (3, 2, 4)).shape == (3, 2, 4)
    assert random.gamma(KEY, np.ones((0,))).shape == (0,)
    assert random.beta(KEY, np.ones((2, 1)), np.ones(3)).shape == (2, 3)
    assert random.dirichlet(KEY, np.ones((2, 3)), (4, 2)).shape == (4, 2, 3)
    assert random.multinomial(KEY, np.array([5, 6]), np.ones(3) / 3).shape == (2, 3)
    assert random.permutation(KEY, np.ones((2, 3)), axis=1).shape == (2, 3)
    assert random.choice(KEY, np.ones((4, 3)), (2, 2), axis=1).shape == (4, 2, 2)
    assert random.choice(KEY, 3, (0,)).shape == (0,)
    assert random.poisson(KEY, 3.0, dtype=np.float32).dtype == np.float32
    assert random.randint(KEY, (), 0, 200, np.uint8).dtype == np.uint8


def test_wide_ranges_of_integers():
    lowest, highest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    wide = random.randint(KEY, SIZE, lowest, highest)
    assert stats.kstest(wide / 2.0**63, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    unsigned = random.randint(KEY, (1000,), np.uint64(2**63), np.uint64(2**64 - 1), np.uint64)
    assert unsigned.min() >= 2**63
    assert fg.jit(lambda n: random.randint(KEY, (), 0, n))(np.int64(1)) == 0


def test_impossible_parameters_give_nan_or_minus_one():
    assert np.isnan(random.gamma(KEY, -1.0))
    assert random.gamma(KEY, 0.0) == 0.0
    assert (
        random.poisson(KEY, -1.0)
        == random.binomial(KEY, 5, 1.5)
        == random.geometric(KEY, 0.0)
        == -1
    )
    assert random.binomial(KEY, 5, 1.0) == 5
    for n in (np.inf, 1e30, np.nan):
        assert random.binomial(KEY, n, 0.5) == -1
    assert random.geometric(KEY, 1.0) == 1


# --- derivatives ----------------------------------------------------------------------------------

FORMULAS = {
    "uniform": (lambda a, b: random.uniform(KEY, (3,), minval=a, maxval=b), [0.3, 2.0]),
    "truncated_normal": (lambda a, b: random.truncated_normal(KEY, a, b, (3,)), [-0.5, 1.5]),
    "truncated_normal_tail": (lambda a, b: random.truncated_normal(KEY, a, b, (3,)), [2.0, 3.0]),
    "lognormal": (lambda a: random.lognormal(KEY, a, (3,)), [0.7]),
    "pareto": (lambda a: random.pareto(KEY, a, (3,)), [2.5]),
    "rayleigh": (lambda a: random.rayleigh(KEY, a, (3,)), [2.5]),
    "weibull_min": (lambda a, b: random.weibull_min(KEY, a, b, (3,)), [2.5, 0.8]),
    "triangular": (lambda a, b, c: random.triangular(KEY, a, b, c, (3,)), [0.0, 1.0, 3.0]),
    "double_sided_maxwell": (
        lambda a, b: random.double_sided_maxwell(KEY, a, b, (3,)), [0.5, 2.0]
    ),
    "wald": (lambda a: random.wald(KEY, a, (3,)), [1.5]),
    "multivariate_normal": (
        lambda m, c: random.multivariate_normal(KEY, m, c + c.T, (2,)), [np.ones(2), COV / 2]
    ),
    "through_a_scale": (lambda m, s: m + s * random.normal(KEY, (3,)), [0.3, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_are_differentiated(name):
    f, args = FORMULAS[name]
    check_grads(f, [np.asarray(a) for a in args], order=2)


FROM_GAMMA = {
    "gamma": (lambda a: random.gamma(KEY, a), [np.array([0.3, 1.0, 8.0])]),
    "loggamma": (lambda a: random.loggamma(KEY, a), [np.array([0.05, 1.0, 8.0])]),
    "beta": (lambda a, b: random.beta(KEY, a, b), [np.array([0.4, 3.0]), np.array([2.0, 0.7])]),
    "dirichlet": (lambda a: random.dirichlet(KEY, a, (2,)), [np.array([0.4, 1.0, 3.0])]),
    "chisquare": (lambda df: random.chisquare(KEY, df), [np.array([1.0, 7.0])]),
    "t": (lambda df: random.t(KEY, df), [np.array([1.5, 7.0])]),
    "f": (lambda m, n: random.f(KEY, m, n, (2,)), [2.5, 6.0]),
    "generalized_normal": (lambda p: random.generalized_normal(KEY, p, (3,)), [1.7]),
    "ball": (lambda p: random.ball(KEY, 2, p, (2,)), [1.7]),
}


@pytest.fixture
def by_inversion(monkeypatch):
    """Gamma samples as quantiles of numbers that belong to the key: functions of the parameter,
    whose finite differences are the derivatives that rejection samples have to have.
    """

    def sample(key, a):
        a = np.asarray(a, np.float64)
        return np.log(sp.gammaincinv(a, random.uniform(key, a.shape, minval=0.1, maxval=0.9)))

    monkeypatch.setattr(gamma_family, "random_log_gamma", sample)


@pytest.mark.parametrize("name", FROM_GAMMA)
def test_implicit_reparameterisation(name, by_inversion):
    f, args = FROM_GAMMA[name]
    check_grads(f, [np.asarray(a) for a in args], order=2)


def test_the_slope_of_a_gamma_sample_is_that_of_its_quantile():
    a = np.array([0.05, 0.5, 1.0, 3.0, 40.0, 1000.0])
    x = random.gamma(KEY, a)
    slope = fg.grad(lambda a: np.sum(random.gamma(KEY, a)))(a)
    upper = x > a
    step = 1e-4 * a

    def quantile(a):
        u, v = sp.gammainc(A, x), sp.gammaincc(A, x)
        return np.where(upper, sp.gammainccinv(a, v), sp.gammaincinv(a, u))

    A = a
    f = [quantile(a + k * step) for k in (-2, -1, 1, 2)]
    expected = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)
    np.testing.assert_allclose(slope, expected, rtol=1e-8)


def test_gradients_of_expectations():
    def mean(f, a, size=40_000):
        return fg.grad(lambda a: np.mean(f(a, (size,))))(a)

    for a in (0.3, 4.0):
        found = mean(lambda a, s: random.gamma(KEY, a, s) ** 2, a)
        np.testing.assert_allclose(found, 2 * a + 1, rtol=0.05)  # E x^2 = a (a + 1)
    found = mean(lambda a, s: random.beta(KEY, a, 2.0, s), 1.0)
    np.testing.assert_allclose(found, 2 / 9, rtol=0.03)  # E x = a / (a + b)
    found = mean(lambda df, s: random.t(KEY, df, s) ** 2, 9.0)
    np.testing.assert_allclose(found, -2 / 49, rtol=0.1)  # E x^2 = df / (df - 2)


def test_gradients_in_other_transforms():
    def loss(a, key):
        return np.sum(random.gamma(key, a, (3,)))

    keys, a = random.split(KEY, 4), 1.3
    rows = [fg.grad(loss)(a, k) for k in keys]
    np.testing.assert_allclose(fg.vmap(fg.grad(loss), in_axes=(None, 0))(a, keys), rows, rtol=1e-13)
    np.testing.assert_allclose(fg.jit(fg.grad(loss))(a, keys[0]), rows[0], rtol=1e-13)
    np.testing.assert_allclose(fg.grad(fg.checkpoint(loss))(a, keys[0]), rows[0], rtol=1e-13)
    np.testing.assert_allclose(fg.jvp(lambda a: loss(a, keys[0]), (a,), (1.0,))[1], rows[0])
    assert fg.grad(lambda a: np.sum(random.gamma(KEY, a)))(np.float32([0.5])).dtype == np.float32
    assert np.isfinite(fg.grad(fg.grad(lambda a: random.loggamma(KEY, a)))(0.01))


@pytest.mark.parametrize("name", ["poisson", "bernoulli", "geometric"])
def test_counts_have_no_gradient(name):
    f = getattr(random, name)
    assert fg.grad(lambda a: np.sum(f(KEY, a, (3,)) * 1.0) + a)(0.5) == 1.0
    logits = np.zeros(3)
    found = fg.grad(lambda x: np.sum(x[random.categorical(KEY, x, shape=(5,))]))(logits)
    assert found.sum() == 5.0


# --- bad arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: random.normal(0), ArgumentError, r"number 0 .*fg\.random\.key\(0\)"),
        (lambda: random.gamma(np.int64(3), 1.0), ArgumentError, r"fg\.random\.key\(3\)"),
        (lambda: random.split(None), ArgumentError, "NoneType was given as a key"),
        (lambda: random.normal(np.random.default_rng(0)), ArgumentError, "Generator was given"),
        (lambda: random.normal(np.ones(2)), ArgumentError, r"f64\[2\].*u64\[2\]"),
        (lambda: random.normal(np.zeros(2, np.uint32)), ArgumentError, r"u32\[2\].*u64\[2\]"),
        (lambda: random.normal(random.split(KEY)), ArgumentError, r"fg\.vmap"),
        (lambda: random.key(0.5), ArgumentError, "seed has to be an integer, not 0.5"),
        (lambda: random.key(np.arange(2)), ArgumentError, r"not an array of shape \(2,\)"),
        (lambda: random.key(2**128), ArgumentError, "128 bits"),
        (lambda: random.fold_in(KEY, 0.5), ArgumentError, "one integer"),
        (lambda: random.fold_in(KEY, np.arange(3)), ArgumentError, "vmap"),
        (lambda: random.wrap_key_data([1.0, 2.0]), ArgumentError, "last axis of length 2"),
        (lambda: random.bits(KEY, (2,), np.int64), ArgumentError, "unsigned"),
        (lambda: random.normal(KEY, (2,), int), ArgumentError, "int64"),
        (lambda: random.poisson(KEY, 1.0, dtype=complex), ArgumentError, "complex128"),
        (lambda: random.gamma(KEY, 1j), ArgumentError, "has to be real"),
        (lambda: random.gamma(KEY, np.ones(3), (2,)), ShapeError, r"random\.gamma|loggamma"),
        (lambda: random.normal(KEY, (-1,)), ShapeError, r"\(-1,\)"),
        (lambda: random.uniform(KEY, (), minval=np.ones(2)), ShapeError, "shape"),
        (lambda: random.dirichlet(KEY, 1.0), ShapeError, "vector"),
        (lambda: random.multinomial(KEY, 3, 0.5), ArgumentError, "vector"),
        (lambda: random.randint(KEY, (2,), 3, 3), ArgumentError, "no integer is at least 3"),
        (lambda: random.randint(KEY, (2,), 0.0, 3), ArgumentError, "have to be integers"),
        (lambda: random.randint(KEY, (2,), 0, 300, np.uint8), ArgumentError, "do not fit"),
        (lambda: random.permutation(KEY, 3.0), ArgumentError, "takes an array"),
        (lambda: random.choice(KEY, 3, (4,), replace=False), ArgumentError, "without replacement"),
        (lambda: random.choice(KEY, 0, (4,)), ArgumentError, "4 elements of 0"),
        (lambda: random.choice(KEY, 3, (4,), p=np.ones(2)), ShapeError, r"\(2,\) for 3"),
        (lambda: random.categorical(KEY, np.zeros(3), shape=(4,), replace=False), ArgumentError,
         "4 different indices of 3"),
        (lambda: random.categorical(KEY, np.zeros((2, 0))), ArgumentError, "no categories"),
        (lambda: random.multivariate_normal(KEY, np.zeros(2), np.eye(3)), ShapeError, "covariance"),
        (lambda: random.multivariate_normal(KEY, np.zeros(2), COV, method="qr"), ArgumentError,
         "cholesky"),
    ],
)  # fmt: skip
def test_a_bad_argument(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "test_random.py" in str(caught.value)
