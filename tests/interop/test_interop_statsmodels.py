"""fungrad.interop.statsmodels: exact scores and Hessians of GenericLikelihoodModel."""

from __future__ import annotations

import doctest
import io
import pickle

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import norm

statsmodels = pytest.importorskip("statsmodels.api")
base = pytest.importorskip("statsmodels.base.model")
exact = pytest.importorskip("fungrad.interop.statsmodels")

Generic = base.GenericLikelihoodModel
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(300), RNG.normal(size=(300, 2))])
TRUE = np.array([0.3, 0.7, -0.4])


def test_the_examples_in_the_docstrings():
    found = doctest.testmod(exact)
    assert found.attempted > 4 and found.failed == 0


class Probit(exact.ExactDerivatives, Generic):
    """The first example of statsmodels' documentation of GenericLikelihoodModel."""

    def loglike(self, params):
        q = 2 * self.endog - 1
        return norm.logcdf(q * np.dot(self.exog, params)).sum()


class NegativeBinomial(exact.ExactDerivatives, Generic):
    """The second: its parameters are coefficients and the dispersion."""

    def nloglikeobs(self, params):
        mu, alpha = np.exp(np.dot(self.exog, params[:-1])), params[-1]
        size = 1.0 / alpha
        prob = size / (size + mu)
        y = self.endog
        coefficients = gammaln(y + size) - gammaln(y + 1.0) - gammaln(size)
        return -(coefficients + size * np.log(prob) + y * np.log1p(-prob))

    def fit(self, start_params=None, **kwargs):
        if start_params is None:
            start_params = np.append(np.zeros(self.exog.shape[1]), 0.5)
            start_params[0] = np.log(self.endog.mean())
        return super().fit(start_params=start_params, **kwargs)


def test_the_probit_example_gives_statsmodels_own_probit():
    y = (X @ TRUE + RNG.normal(size=300) > 0).astype(float)
    fit = Probit(y, X).fit(start_params=np.zeros(3), method="newton", disp=False)
    theirs = statsmodels.Probit(y, X).fit(disp=False)
    np.testing.assert_allclose(fit.params, theirs.params, rtol=1e-6)
    np.testing.assert_allclose(fit.cov_params(), theirs.cov_params(), rtol=1e-6)
    model = Probit(y, X)
    np.testing.assert_allclose(model.score(TRUE), theirs.model.score(TRUE), rtol=1e-10)
    np.testing.assert_allclose(model.hessian(TRUE), theirs.model.hessian(TRUE), rtol=1e-10)


def counts():
    mu = np.exp(X @ TRUE)
    return RNG.poisson(mu * RNG.gamma(2.0, 0.5, size=300)).astype(float)


def test_the_negative_binomial_example_gives_statsmodels_own():
    y = counts()
    fit = NegativeBinomial(y, X, extra_params_names=["alpha"]).fit(method="bfgs", disp=False)
    theirs = statsmodels.NegativeBinomial(y, X).fit(disp=False, maxiter=200)
    np.testing.assert_allclose(fit.params, theirs.params, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(fit.bse, theirs.bse, rtol=1e-3)
    robust = NegativeBinomial(y, X, extra_params_names=["alpha"]).fit(
        method="bfgs", disp=False, cov_type="HC0"
    )
    scores = robust.model.score_obs(robust.params)
    assert scores.shape == (300, 4)
    np.testing.assert_allclose(scores.sum(0), robust.model.score(robust.params), atol=1e-9)


def test_derivatives_are_those_of_differences():
    class Plain(Generic):
        nloglikeobs = NegativeBinomial.nloglikeobs

    y, p = counts(), np.append(TRUE, 0.6)
    ours, theirs = NegativeBinomial(y, X), Plain(y, X)
    np.testing.assert_allclose(ours.score(p), theirs.score(p), rtol=1e-6)
    np.testing.assert_allclose(ours.score_obs(p), theirs.score_obs(p), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ours.hessian(p), theirs.hessian(p), rtol=1e-3, atol=1e-3)


def test_results_are_pickled():
    y = counts()
    model = NegativeBinomial(y, X, extra_params_names=["alpha"])
    fit = model.fit(method="bfgs", disp=False)
    file = io.BytesIO()
    fit.save(file)
    file.seek(0)
    again = pickle.load(file)
    np.testing.assert_array_equal(again.params, fit.params)
    np.testing.assert_allclose(again.model.hessian(fit.params), model.hessian(fit.params))
