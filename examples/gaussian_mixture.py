"""Standard errors of the means of scikit-learn's GaussianMixture, which gives none.

Needs scikit-learn. The log-likelihood is the fitted model's own score_samples.

>>> data = eruptions()
>>> model = fitted(data)
>>> slope = fg.grad(log_likelihood)(model.means_, model, data)
>>> bool(np.all(np.abs(slope) < 1e-2))                 # EM has found the maximum
True
>>> standard_errors(model, data).round(3)              # minutes of eruption and of waiting
array([[0.027, 0.592],
       [0.031, 0.456]])
>>> pull = fg.grad(lambda x: np.sum(model.score_samples(x)))(data)
>>> pull.shape                                         # and what each observation does
(272, 2)
"""

import copy

import numpy as np
from sklearn.mixture import GaussianMixture

import fungrad as fg
from fungrad.data import old_faithful


def eruptions():
    """Their durations, and the times to the next ones, in minutes: shape (272, 2)."""
    return np.stack(old_faithful(), axis=1)


def fitted(data):
    """Two components, the one of short eruptions first."""
    start = np.array([[2.0, 55.0], [4.3, 80.0]])
    return GaussianMixture(2, means_init=start, tol=1e-12, max_iter=500).fit(data)


def log_likelihood(means, model, data):
    """Of all observations, with other means than the fitted ones."""
    other = copy.copy(model)
    other.means_ = means
    return np.sum(other.score_samples(data))


def standard_errors(model, data):
    """From the curvature of the log-likelihood in the means."""
    curvature = fg.hessian(log_likelihood)(model.means_, model, data)
    size = model.means_.size
    covariance = np.linalg.inv(-curvature.reshape(size, size))
    return np.sqrt(np.diag(covariance)).reshape(model.means_.shape)
