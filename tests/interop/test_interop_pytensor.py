"""fungrad.interop.pytensor: Ops with exact gradients, in PyTensor and in PyMC."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from fungrad.errors import ArgumentError

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")
exact = pytest.importorskip("fungrad.interop.pytensor")

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_examples_in_the_docstrings():
    found = doctest.testmod(exact)
    assert found.attempted > 4 and found.failed == 0


def test_first_and_second_derivatives():
    a, x = pt.scalar("a", dtype="float64"), pt.vector("x", dtype="float64")
    y = exact.as_op(lambda a, x: np.sum(np.exp(-a * x) * np.sin(x)))(a, x)
    theirs = pt.sum(pt.exp(-a * x) * pt.sin(x))
    at = (0.7, np.array([0.3, 1.1, 2.0]))
    for order in (0, 1, 2):
        if order == 1:
            y, theirs = pt.sum(pt.grad(y, x) ** 2), pt.sum(pt.grad(theirs, x) ** 2)
        if order == 2:
            y, theirs = pt.grad(y, a), pt.grad(theirs, a)
        found, expected = pytensor.function([a, x], [y, theirs])(*at)
        assert found == pytest.approx(expected, rel=1e-10)


def test_results_that_are_arrays_and_arguments_that_are_integers():
    x, n = pt.vector("x", dtype="float64"), pt.iscalar("n")
    y = exact.as_op(lambda x, n: np.cumsum(x) * n, ndim=1)(x, n)
    f = pytensor.function([x, n], [y, pt.grad(pt.sum(y**2), x)])
    value, slope = f(np.array([1.0, 2.0]), 3)
    np.testing.assert_array_equal(value, [3.0, 9.0])
    np.testing.assert_array_equal(slope, [72.0, 54.0])
    with pytest.raises(ArgumentError, match=r"Give ndim=1"):
        pytensor.function([x], exact.as_op(np.sin)(x))(np.ones(2))


def test_the_black_box_likelihood_of_pymcs_documentation():
    pm = pytest.importorskip("pymc")
    rng = np.random.default_rng(716743)
    x = np.linspace(0.0, 9.0, 10)
    data = 0.4 * x + 3.0 + rng.normal(size=10)

    def likelihood(m, c):  # written with NumPy, as somebody's simulator
        return np.sum(-(0.5 / 1.0**2) * (data - m * x - c) ** 2)

    with pm.Model() as model:
        m, c = pm.Uniform("m", -10.0, 10.0), pm.Uniform("c", -10.0, 10.0)
        pm.Potential("likelihood", exact.as_op(likelihood)(m, c))
    with pm.Model() as theirs:
        m, c = pm.Uniform("m", -10.0, 10.0), pm.Uniform("c", -10.0, 10.0)
        pm.Potential("likelihood", pt.sum(-0.5 * (data - m * x - c) ** 2))
    point = {"m_interval__": np.array(0.1), "c_interval__": np.array(0.4)}
    for function in ("compile_logp", "compile_dlogp"):
        np.testing.assert_allclose(
            getattr(model, function)()(point), getattr(theirs, function)()(point), rtol=1e-10
        )
    with model:
        trace = pm.sample(
            300, tune=300, chains=1, cores=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    design = np.stack([x, np.ones(10)], axis=1)
    best = np.linalg.lstsq(design, data, rcond=None)[0]
    error = np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    draws = np.array([np.mean(trace.posterior["m"]), np.mean(trace.posterior["c"])])
    assert np.all(np.abs(draws - best) < 0.4 * error)
