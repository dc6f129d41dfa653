"""fungrad.interop.iminuit: exact derivatives of iminuit's cost functions, and fits with them."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from scipy.stats import expon, norm, truncexpon, truncnorm

iminuit = pytest.importorskip("iminuit")
cost = pytest.importorskip("iminuit.cost")
exact = pytest.importorskip("fungrad.interop.iminuit")


def test_the_examples_in_the_docstrings():
    found = doctest.testmod(exact)
    assert found.attempted > 5
    assert found.failed == 0


RNG = np.random.default_rng(1)
SAMPLE = np.append(RNG.normal(1.0, 0.1, 300), RNG.exponential(1.0, 500))
SAMPLE = SAMPLE[(SAMPLE > 0.0) & (SAMPLE < 2.0)]
COUNTS, EDGES = np.histogram(SAMPLE, bins=40, range=(0.0, 2.0))
X = np.linspace(0.1, 1.0, 30)
Y = 2.0 * np.exp(-1.5 * X) + 0.05 * RNG.normal(size=30)


def density(x, share, mu, sigma, tau):
    return share * norm.pdf(x, mu, sigma) + (1.0 - share) * np.exp(-x / tau) / tau


def extended(x, signal, background, mu, sigma, tau):
    values = signal * norm.pdf(x, mu, sigma) + background * np.exp(-x / tau) / tau
    return signal + background, values


def cumulative(x, share, mu, sigma, tau):
    return share * norm.cdf(x, mu, sigma) + (1.0 - share) * (1.0 - np.exp(-x / tau))


def scaled(x, signal, background, mu, sigma, tau):
    return signal * norm.cdf(x, mu, sigma) + background * (1.0 - np.exp(-x / tau))


def curve(x, a, b):
    return a * np.exp(-b * x)


def logarithm(x, share, mu, sigma, tau):
    return np.log(density(x, share, mu, sigma, tau))


SHAPE = {"share": 0.4, "mu": 1.05, "sigma": 0.13, "tau": 0.9}
YIELDS = {"signal": 250.0, "background": 420.0, "mu": 1.05, "sigma": 0.13, "tau": 0.9}


def weighted():
    counts = np.stack([COUNTS * 1.3, COUNTS * 1.7], axis=-1)
    return cost.ExtendedBinnedNLL(counts, EDGES, scaled)


def template():
    parts = [np.diff(norm.cdf(EDGES, 1.0, 0.1)), np.diff(expon.cdf(EDGES, 0.0, 1.0))]
    return cost.Template(COUNTS, EDGES, [np.round(300 * parts[0]) + 1, np.round(400 * parts[1])])


COSTS = {
    "least squares": (cost.LeastSquares(X, Y, 0.05, curve), {"a": 1.8, "b": 1.2}),
    "robust": (cost.LeastSquares(X, Y, 0.05, curve, loss="soft_l1"), {"a": 1.8, "b": 1.2}),
    "own loss": (cost.LeastSquares(X, Y, 0.05, curve, loss=np.arctan), {"a": 1.9, "b": 1.4}),
    "unbinned": (cost.UnbinnedNLL(SAMPLE, density), SHAPE),
    "logarithmic": (cost.UnbinnedNLL(SAMPLE, logarithm, log=True), SHAPE),
    "extended": (cost.ExtendedUnbinnedNLL(SAMPLE, extended), YIELDS),
    "binned": (cost.BinnedNLL(COUNTS, EDGES, cumulative), SHAPE),
    "binned density": (cost.BinnedNLL(COUNTS, EDGES, density, use_pdf="approximate"), SHAPE),
    "extended binned": (cost.ExtendedBinnedNLL(COUNTS, EDGES, scaled), YIELDS),
    "weighted": (weighted(), YIELDS),
    "template": (template(), {"x0": 280.0, "x1": 450.0}),
    "constraint": (cost.NormalConstraint(["a", "b"], [2.0, 1.4], [0.1, 0.2]), {"a": 1.8, "b": 1.2}),
    "correlated constraint": (
        cost.NormalConstraint(["a", "b"], [2.0, 1.4], [[0.1, 0.05], [0.05, 0.2]]),
        {"a": 1.8, "b": 1.2},
    ),
    "sum": (
        cost.LeastSquares(X, Y, 0.05, curve)
        + cost.UnbinnedNLL(SAMPLE, density)
        + cost.NormalConstraint("tau", 1.0, 0.1)
        + 3.0,
        {"a": 1.8, "b": 1.2, **SHAPE},
    ),
}


def differences(f, p):
    steps = 1e-5 * np.eye(len(p)) * np.abs(p)
    return np.stack([(f(*(p + s)) - f(*(p - s))) / (2 * np.max(s)) for s in steps])


@pytest.mark.parametrize("name", COSTS)
def test_derivatives_of_cost_functions(name):
    function, start = COSTS[name]
    p = np.array(list(start.values()))
    gradient = exact.gradient(function)
    np.testing.assert_allclose(gradient(*p), differences(function, p), rtol=1e-6, atol=1e-5)
    second = exact.hessian(function)(*p)
    expected = differences(gradient, p)
    np.testing.assert_allclose(second, expected, rtol=1e-5, atol=1e-5 * np.max(np.abs(second)))
    np.testing.assert_array_equal(exact.g2(function)(*p), np.diag(second))


@pytest.mark.parametrize("name", [n for n in COSTS if "constraint" not in n])
def test_fits_find_the_same_minimum(name):
    function, start = COSTS[name]
    plain = iminuit.Minuit(function, **start).migrad()
    given = exact.minuit(function, **start).migrad()
    assert plain.valid and given.valid
    assert given.fval == pytest.approx(plain.fval, rel=1e-6, abs=1e-3)
    assert given.ngrad > 0
    for parameter in start:
        error = plain.errors[parameter]
        assert abs(given.values[parameter] - plain.values[parameter]) < 0.03 * error
        assert given.errors[parameter] == pytest.approx(error, rel=0.05)


def test_gradients_of_models_serve_the_cost_functions():
    plain = cost.UnbinnedNLL(SAMPLE, density)
    given = cost.UnbinnedNLL(SAMPLE, density, grad=exact.model_gradient(density))
    p = np.array(list(SHAPE.values()))
    assert given.has_grad
    np.testing.assert_allclose(given.grad(*p), exact.gradient(plain)(*p), rtol=1e-10)
    binned = cost.BinnedNLL(COUNTS, EDGES, cumulative, grad=exact.model_gradient(cumulative))
    np.testing.assert_allclose(binned.grad(*p), exact.gradient(binned)(*p), rtol=1e-10)
    best = iminuit.Minuit(given, **SHAPE).migrad()
    np.testing.assert_allclose(
        np.sqrt(np.diag(given.covariance(*best.values))), np.array(best.errors), rtol=0.4
    )


def test_data_and_masks_may_change():
    function = cost.LeastSquares(X, Y, 0.05, curve)
    gradient = exact.gradient(function)
    first = gradient(1.8, 1.2)
    for change in ("mask", "y", "loss"):
        if change == "mask":
            function.mask = X > 0.4
        elif change == "y":
            function.y = 1.1 * Y
        else:
            function.loss = "soft_l1"
        found = gradient(1.8, 1.2)
        assert not np.allclose(found, first)
        expected = differences(function, np.array([1.8, 1.2]))
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        first = found
    constraint = cost.NormalConstraint("a", 1.0, 0.5)
    gradient = exact.gradient(constraint)
    assert gradient(2.0)[0] == pytest.approx(8.0)
    constraint.value = [1.5]
    assert gradient(2.0)[0] == pytest.approx(4.0)


def test_functions_of_numbers_and_of_one_array():
    def rosenbrock(x, y):
        return (1.0 - x) ** 2 + 100.0 * (y - x**2) ** 2

    m = exact.minuit(rosenbrock, x=-1.0, y=2.0)
    m.limits["x"] = (-2.0, 2.0)
    m.errordef = 1.0
    assert m.migrad().valid
    np.testing.assert_allclose(m.values, [1.0, 1.0], atol=2e-3)
    m = exact.minuit(lambda p: rosenbrock(p[0], p[1]), np.array([-1.0, 2.0]), name=("x", "y"))
    m.errordef = 1.0
    np.testing.assert_allclose(m.migrad().values, [1.0, 1.0], atol=2e-3)
    assert m.nhessian > 0 or m.hesse().nhessian > 0


def test_the_example_of_iminuits_documentation():
    # a truncated normal peak over a truncated exponential: iminuit's tutorial on cost functions
    def cdf(x, s, mu, sigma, slope):
        low, high = norm.cdf((0.0 - mu) / sigma), norm.cdf((2.0 - mu) / sigma)
        peak = (norm.cdf((x - mu) / sigma) - low) / (high - low)
        return s * peak + (1.0 - s) * (1.0 - np.exp(-x / slope)) / (1.0 - np.exp(-2.0 / slope))

    start = {"s": 0.5, "mu": 0.9, "sigma": 0.2, "slope": 0.8}
    p = np.array([0.4, 1.0, 0.1, 1.0])
    theirs = 0.4 * truncnorm.cdf(EDGES, -10.0, 10.0, 1.0, 0.1)
    theirs = theirs + 0.6 * truncexpon.cdf(EDGES, 2.0, 0.0, 1.0)
    np.testing.assert_allclose(cdf(EDGES, *p), theirs, rtol=1e-12)
    m = exact.minuit(cost.BinnedNLL(COUNTS, EDGES, cdf), **start)
    m.limits["s", "mu"] = (0.0, 1.0), (0.0, 2.0)
    m.limits["sigma", "slope"] = (1e-3, None)
    assert m.migrad().valid
    plain = iminuit.Minuit(cost.BinnedNLL(COUNTS, EDGES, cdf), **start)
    plain.limits["s", "mu"] = (0.0, 1.0), (0.0, 2.0)
    plain.limits["sigma", "slope"] = (1e-3, None)
    plain.migrad()
    np.testing.assert_allclose(m.values, plain.values, rtol=1e-3)
    m.minos()
    plain.minos()
    for name in start:
        assert m.merrors[name].upper == pytest.approx(plain.merrors[name].upper, rel=0.02)
