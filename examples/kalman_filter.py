"""The noise of a Kalman filter of filterpy by maximum likelihood, with derivatives of its own code.

Needs filterpy and SciPy. `log_likelihood` runs the filter as its documentation shows it.

>>> import scipy.optimize
>>> import fungrad as fg
>>> seen = track()
>>> start = np.log([0.1, 0.1])
>>> found = scipy.optimize.minimize(
...     lambda p: -log_likelihood(p, seen), start, jac=fg.grad(lambda p: -log_likelihood(p, seen))
... )
>>> np.exp(found.x).round(3)                           # the noise of the motion, and of the sensor
array([0.023, 0.223])
>>> bool(log_likelihood(found.x, seen) > log_likelihood(start, seen) + 5.0)
True
>>> spread = np.sqrt(np.diag(np.linalg.inv(-fg.hessian(log_likelihood)(found.x, seen))))
>>> spread.round(2)                                    # standard errors of the two logarithms
array([0.76, 0.2 ])
"""

import numpy as np
from filterpy.common import Q_discrete_white_noise
from filterpy.kalman import KalmanFilter

DT = 0.5


def track(steps=60):
    """Places of a body that is pushed at random, measured with noise."""
    rng = np.random.default_rng(4)
    speed = np.cumsum(0.3 * DT * rng.normal(size=steps))
    return np.cumsum(DT * speed) + 0.5 * rng.normal(size=steps)


def log_likelihood(noise, seen):
    """Of measured places; noise: logarithms of the variances of the motion and of the sensor."""
    motion, sensor = np.exp(noise)
    kalman = KalmanFilter(dim_x=2, dim_z=1)
    kalman.F = np.array([[1.0, DT], [0.0, 1.0]])
    kalman.H = np.array([[1.0, 0.0]])
    kalman.P = np.eye(2)
    kalman.Q = Q_discrete_white_noise(2, DT, motion)
    kalman.R = np.array([[sensor]])
    total = 0.0
    for z in seen:
        kalman.predict()
        kalman.update(z)
        total = total + kalman.log_likelihood
    return total
