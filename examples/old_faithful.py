"""Models of the Old Faithful data, written with plain NumPy: this file does not import fungrad."""

import numpy as np


def mixture(means, scales, share, waiting):
    """Negative log-likelihood of a mixture of two normal distributions.

    means, scales: two numbers each, in minutes; share: of the first component, between 0 and 1;
    waiting: the times to the next eruption, in minutes.
    """
    z = (waiting[:, None] - means) / scales
    log_density = -0.5 * z**2 - np.log(scales) - 0.5 * np.log(2 * np.pi)
    log_weights = np.log(np.array([share, 1.0 - share]))
    return -np.sum(np.logaddexp.reduce(log_density + log_weights, axis=1))


def regression(line, eruptions, waiting):
    """Mean squared error of waiting = intercept + slope * eruptions, in square minutes.

    line: the intercept in minutes, and the slope.
    """
    intercept, slope = line
    residual = waiting - (intercept + slope * eruptions)
    return np.mean(residual**2)


def robust_regression(line, eruptions, waiting, width=5.0):
    """The same line under Huber's loss, quadratic up to `width` minutes and linear beyond."""
    intercept, slope = line
    size = np.abs(waiting - (intercept + slope * eruptions))
    return np.mean(np.where(size <= width, 0.5 * size**2, width * (size - 0.5 * width)))


def regression_by_hand(line, eruptions, waiting):
    """The gradient of `regression` with respect to its line, derived on paper."""
    intercept, slope = line
    residual = waiting - (intercept + slope * eruptions)
    return -2.0 / waiting.size * np.array([np.sum(residual), np.sum(residual * eruptions)])


def waiting_time(t, short, long, rate, middle):
    """The waiting time after an eruption of t minutes: a smooth step from short to long."""
    return short + (long - short) / (1 + np.exp(-rate * (t - middle)))
