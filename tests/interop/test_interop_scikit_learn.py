"""Kernels, Gaussian processes and fitted estimators of scikit-learn, differentiated as they are."""

from __future__ import annotations

import copy

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as of_sklearn
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.mixture import GaussianMixture
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fungrad as fg

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.sin(X[:, 0]) + X[:, 1]
LABEL = (Y > 0).astype(int)
KERNELS = [
    of_sklearn.RBF([1.0, 2.0, 0.5]),
    of_sklearn.ConstantKernel(2.0) * of_sklearn.RBF(1.0) + of_sklearn.WhiteKernel(0.1),
    of_sklearn.Matern(1.0, nu=0.5),
    of_sklearn.Matern(1.0, nu=1.5),
    of_sklearn.Matern(1.0, nu=2.5),
    of_sklearn.RationalQuadratic(),
    of_sklearn.ExpSineSquared(),
    of_sklearn.DotProduct(),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_by_hyperparameters_and_inputs(kernel):
    found = fg.jacfwd(lambda theta: kernel.clone_with_theta(theta)(X[:9]))(kernel.theta)
    np.testing.assert_allclose(found, kernel(X[:9], eval_gradient=True)[1], rtol=1e-9, atol=1e-12)
    fg.testing.check_grads(lambda x: np.sum(kernel(x[None], X[1:9])), [X[0]])


def test_a_gaussian_process():
    kernel = KERNELS[1]
    process = GaussianProcessRegressor(kernel, optimizer=None).fit(X, Y)
    slope = fg.grad(process.log_marginal_likelihood)(kernel.theta)
    own = process.log_marginal_likelihood(kernel.theta, eval_gradient=True)[1]
    np.testing.assert_allclose(slope, own, rtol=1e-9)
    fast = fg.jit(fg.value_and_grad(process.log_marginal_likelihood))
    np.testing.assert_allclose(fast(kernel.theta)[1], own, rtol=1e-8)
    fg.testing.check_grads(lambda x: process.predict(x[None])[0], [X[0] + 0.1])
    fg.testing.check_grads(lambda x: process.predict(x[None], return_std=True)[1][0], [X[0] + 0.1])


@pytest.mark.parametrize(
    "estimator, method",
    [
        (LogisticRegression(), "predict_proba"),
        (PoissonRegressor(), "predict"),
        (MLPRegressor(hidden_layer_sizes=(4,), activation="tanh", max_iter=30), "predict"),
        (GaussianMixture(2, random_state=0), "score_samples"),
        (KernelRidge(kernel="rbf"), "predict"),
        (make_pipeline(StandardScaler(), Ridge()), "predict"),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_fitted_estimators_by_their_inputs(estimator, method):
    fitted = estimator.fit(X, LABEL)
    fg.testing.check_grads(lambda x: np.ravel(getattr(fitted, method)(x[None]))[-1], [X[0]])


def test_a_loss_by_the_parameters_of_an_estimator():
    fitted = LogisticRegression().fit(X, LABEL)

    def loss(w):
        model = copy.copy(fitted)
        model.coef_, model.intercept_ = w[None, :3], w[3:]
        return -np.mean(np.log(model.predict_proba(X)[np.arange(len(X)), LABEL]))

    fg.testing.check_grads(loss, [np.append(fitted.coef_, fitted.intercept_)])


def test_pairwise_kernels():
    fg.testing.check_grads(lambda gamma: np.sum(rbf_kernel(X[:5], gamma=gamma)), [0.5])
