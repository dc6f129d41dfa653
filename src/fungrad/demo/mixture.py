"""EM for two normal components on the waiting times of Old Faithful; the E-step is stopped.

With r_ik the probability that component k made x_i (E-step), the M-step raises
Q = mean_i sum_k r_ik log(pi_k N(x_i; mu_k, sigma_k)) with r held fixed: stop_gradient(r). By hand,
with z = (x - mu) / sigma: dQ/dmu_k = mean_i r_ik z_ik / sigma_k, dQ/dlogit = mean_i r_i1 - pi_1,
dQ/dlog sigma_k = mean_i r_ik (z_ik^2 - 1); and this is also the gradient of the mean log-likelihood
itself (Fisher's identity). Each M-step is one Newton step on Q: the EM gradient algorithm of Lange
(1995), J. R. Statist. Soc. B 57, 425-437. Its Hessian sees r stopped as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fungrad as fg
from fungrad.data import old_faithful
from fungrad.demo.claims import Array, Claim, Result, relative_gap

# normalmixEM(faithful$waiting) of R's mixtools: Benaglia et al. (2009), J. Statist. Software 32(6).
PUBLISHED = {"means": [54.61489, 80.09109], "scales": [5.871241, 5.867718], "share": [0.3608868]}
START = np.array([52.0, 82.0, np.log(6.0), np.log(6.0), 0.0])
MOST_STEPS = 200


def log_joint(parameters: Any, x: Array) -> Any:
    """log(pi_k N(x_i; mu_k, sigma_k)), one row for each observation.

    parameters: two means, two log standard deviations, the logit of the first share.
    """
    means, log_scales, logit = parameters[:2], parameters[2:4], parameters[4]
    z = (x[:, None] - means) / np.exp(log_scales)
    log_shares = -np.logaddexp(0.0, np.stack([-logit, logit]))
    return log_shares - log_scales - 0.5 * z**2 - 0.5 * np.log(2 * np.pi)


def responsibilities(parameters: Any, x: Array) -> Any:
    """The E-step: the probability that observation i comes from component k."""
    joint = log_joint(parameters, x)
    return np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])


def log_likelihood(parameters: Any, x: Array) -> Any:
    """The mean log-likelihood of the observations."""
    return np.mean(np.logaddexp.reduce(log_joint(parameters, x), axis=1))


def expected(parameters: Any, x: Array) -> Any:
    """Q: the expected complete log-likelihood; its gradient does not enter the E-step."""
    with fg.named_scope("e_step"):
        r = fg.stop_gradient(responsibilities(parameters, x), name="responsibilities")
    return np.mean(np.sum(r * log_joint(parameters, x), axis=1))


def expected_unstopped(parameters: Any, x: Array) -> Any:
    """Q without the stop: its gradient also flows through the E-step, which is wrong."""
    joint = log_joint(parameters, x)
    return np.mean(np.sum(responsibilities(parameters, x) * joint, axis=1))


def gradient_by_hand(parameters: Array, x: Array) -> Array:
    """The formulas of the module's docstring."""
    means, scales = parameters[:2], np.exp(parameters[2:4])
    share = 1.0 / (1.0 + np.exp(-parameters[4]))
    densities = np.exp(-0.5 * ((x[:, None] - means) / scales) ** 2) / scales
    r = densities * np.array([share, 1.0 - share])
    r = r / r.sum(axis=1, keepdims=True)
    z = (x[:, None] - means) / scales
    by_means = np.mean(r * z / scales, axis=0)
    by_log_scales = np.mean(r * (z**2 - 1.0), axis=0)
    return np.concatenate([by_means, by_log_scales, [np.mean(r[:, 0]) - share]])


def hessian(parameters: Array, x: Array) -> Array:
    """The Hessian of Q with the E-step stopped, by a batched pullback of the gradient."""
    _, pullback = fg.vjp(lambda p: fg.grad(expected)(p, x), parameters)
    rows: Array = fg.vmap(lambda row: pullback(row)[0])(np.eye(parameters.size))
    return rows


def fit(x: Array) -> tuple[Array, int]:
    """The maximum of the likelihood and the number of EM steps that it took."""
    parameters = START
    for step in range(1, MOST_STEPS + 1):
        move = np.linalg.solve(hessian(parameters, x), fg.grad(expected)(parameters, x))
        parameters = parameters - move
        if np.max(np.abs(move)) < 1e-10:
            return parameters, step
    return parameters, MOST_STEPS


def run(seed: int) -> Result:
    """Checks the gradient of the M-step, fits, and compares with the published fit."""
    result = Result("EM on Old Faithful: the M-step does not differentiate the E-step")
    x = old_faithful().waiting
    by_hand = gradient_by_hand(START, x)
    result.compare("M-step gradient = hand formula", fg.grad(expected)(START, x), by_hand)
    result.compare(
        "M-step gradient = gradient of the log-likelihood (Fisher's identity)",
        fg.grad(log_likelihood)(START, x),
        by_hand,
    )
    wrong = relative_gap(fg.grad(expected_unstopped)(START, x), by_hand)
    result.found.append(f"without stop_gradient the M-step's gradient is off by {wrong:.1%}")
    result.count_equations(lambda p: expected(p, x), lambda p: expected_unstopped(p, x), START)

    parameters, steps = fit(x)
    means, scales = parameters[:2], np.exp(parameters[2:4])
    share = 1.0 / (1.0 + np.exp(-parameters[4]))
    total = x.size * log_likelihood(parameters, x)
    result.found.append(
        f"{x.size} waiting times, {steps} EM steps: means {means[0]:.3f} and {means[1]:.3f} min, "
        f"deviations {scales[0]:.3f} and {scales[1]:.3f}, shares {share:.3f} and {1 - share:.3f}, "
        f"log-likelihood {total:.3f}"
    )
    largest = float(np.max(np.abs(fg.grad(log_likelihood)(parameters, x))))
    result.claims.append(Claim("the gradient of the likelihood vanishes there", largest, 1e-9))
    published = np.concatenate([PUBLISHED["means"], PUBLISHED["scales"], PUBLISHED["share"]])
    ours = np.concatenate([means, scales, [share]])
    result.claims.append(
        Claim(
            "the fit is the one published for R's mixtools (5 to 7 digits)",
            float(np.max(np.abs(ours / published - 1.0))),
            1e-5,
        )
    )
    return result
