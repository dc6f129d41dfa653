"""A fit with scipy.stats' own densities: robust regression, with its standard errors.

Needs SciPy. The errors are of Student's t distribution, so that outliers have little weight.

>>> import scipy.optimize
>>> import fungrad as fg
>>> x, y = measured()
>>> loss = lambda p: -log_likelihood(p, x, y)
>>> found = scipy.optimize.minimize(
...     loss, np.zeros(4), jac=fg.grad(loss), hess=fg.hessian(loss), method="trust-exact"
... )
>>> found.x[:2].round(2)                               # intercept and slope; made with 1 and 2
array([1.03, 2.02])
>>> spread = np.sqrt(np.diag(np.linalg.inv(fg.hessian(loss)(found.x))))
>>> spread[:2].round(3)
array([0.023, 0.041])
>>> np.polyfit(x, y, 1)[::-1].round(2)                 # least squares follow the outliers
array([1.25, 1.69])
"""

import numpy as np
from scipy import stats


def measured():
    """A line with noise, and a few outliers."""
    rng = np.random.default_rng(2)
    x = np.linspace(-1.0, 1.0, 60)
    y = 1.0 + 2.0 * x + 0.15 * rng.normal(size=60)
    y[::9] += np.linspace(4.0, 0.0, 7)
    return x, y


def log_likelihood(p, x, y):
    """p: intercept, slope, and the logarithms of the scale and of the degrees of freedom."""
    line = p[0] + p[1] * x
    return np.sum(stats.t.logpdf(y, df=np.exp(p[3]), loc=line, scale=np.exp(p[2])))
