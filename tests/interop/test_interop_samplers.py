"""fungrad.interop.samplers: log densities for emcee, zeus and nutpie."""

from __future__ import annotations

import doctest
import pickle

import numpy as np
import pytest

from fungrad.interop import samplers

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X @ np.array([1.0, -0.5]) + 0.5 * RNG.normal(size=40)
COVARIANCE = np.linalg.inv(X.T @ X / 0.25 + np.eye(2))
MEAN = COVARIANCE @ X.T @ Y / 0.25


def posterior(w):
    return -0.5 * np.sum((X @ w - Y) ** 2) / 0.25 - 0.5 * np.sum(w**2)


def test_the_examples_in_the_docstrings():
    found = doctest.testmod(samplers)
    assert found.attempted > 4 and found.failed == 0


@pytest.mark.parametrize("compiled", [True, False])
def test_values_gradients_and_batches(compiled):
    density = samplers.LogDensity(posterior, compiled=compiled)
    w = np.array([0.3, 0.2])
    assert density(w) == pytest.approx(posterior(w)) and type(density(w)) is float
    slope = -X.T @ (X @ w - Y) / 0.25 - w
    np.testing.assert_allclose(density.gradient(w), slope, rtol=1e-12)
    value, gradient = density.value_and_gradient(w)
    assert value == density(w)
    np.testing.assert_array_equal(gradient, density.gradient(w))
    many = density.batch(np.stack([w, 2 * w]))
    np.testing.assert_allclose(many, [posterior(w), posterior(2 * w)], rtol=1e-12)
    again = pickle.loads(pickle.dumps(density))
    assert again(w) == density(w)


def test_densities_that_are_zero_somewhere():
    density = samplers.LogDensity(lambda p: np.where(p[0] > 0, -p[0], -np.inf))
    np.testing.assert_array_equal(density.batch(np.array([[1.0], [-1.0]])), [-1.0, -np.inf])


@pytest.mark.parametrize("name", ["emcee", "zeus"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_ensemble_samplers_find_a_known_posterior(name):
    sampler = pytest.importorskip(name)
    density = samplers.LogDensity(posterior)
    np.random.seed(0)
    start = MEAN + 0.1 * RNG.normal(size=(20, 2))
    run = sampler.EnsembleSampler(20, 2, density.batch, vectorize=True, **QUIET.get(name, {}))
    run.run_mcmc(start, 800, progress=False)
    draws = run.get_chain(flat=True, discard=200)
    assert np.all(np.abs(draws.mean(axis=0) - MEAN) < 0.15 * np.sqrt(np.diag(COVARIANCE)))
    np.testing.assert_allclose(np.cov(draws.T), COVARIANCE, rtol=0.3, atol=1e-4)


QUIET = {"zeus": {"verbose": False}}


def test_nutpie_finds_a_known_posterior():
    nutpie = pytest.importorskip("nutpie")
    model = samplers.nutpie_model(posterior, 2, "w")
    trace = nutpie.sample(model, draws=500, tune=300, chains=2, seed=1, progress_bar=False)
    draws = np.asarray(trace.posterior["w"]).reshape(-1, 2)
    assert np.all(np.abs(draws.mean(axis=0) - MEAN) < 0.15 * np.sqrt(np.diag(COVARIANCE)))
    np.testing.assert_allclose(np.cov(draws.T), COVARIANCE, rtol=0.3, atol=1e-4)
