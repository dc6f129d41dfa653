"""Contrastive divergence: a small restricted Boltzmann machine on bars and stripes.

With the free energy F(v) = -a.v - sum_j log(1 + exp(b_j + (v W)_j)), CD-1 descends
mean F(data) - mean F(v'), where v' is one step of Gibbs sampling from the data, held fixed. With
h = sigmoid(b + v W), the gradients by hand are mean(v' h'^T) - mean(v h^T) by W, mean(v') - mean(v)
by a, mean(h') - mean(h) by b. Hinton (2002), Training products of experts, Neural Computation 14,
eq. 5. v' is the reconstruction's probabilities (Hinton 2010, A practical guide, 3.2): smooth in the
weights, so that the gradient without the stop differs.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import fungrad as fg
from fungrad.demo.claims import Array, Claim, Result, relative_gap

SIDE, HIDDEN, STEPS, RATE = 3, 8, 1000, 0.2

Weights = dict[str, Any]


def bars_and_stripes() -> Array:
    """All distinct images of full rows or of full columns, as rows of zeros and ones."""
    images = set()
    for bits in product([0.0, 1.0], repeat=SIDE):
        rows = np.repeat(np.array(bits)[:, None], SIDE, axis=1)
        images |= {tuple(rows.ravel().tolist()), tuple(rows.T.ravel().tolist())}
    return np.array(sorted(images))


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def free_energy(weights: Weights, visible: Any) -> Any:
    """F of each row."""
    inputs = weights["hidden"] + visible @ weights["pairs"]
    return -visible @ weights["visible"] - np.sum(np.logaddexp(0.0, inputs), axis=1)


def reconstruction(weights: Weights, visible: Array, uniform: Array) -> Any:
    """One step of Gibbs sampling: hidden units are sampled, visible ones are probabilities."""
    on = uniform < sigmoid(weights["hidden"] + visible @ weights["pairs"])
    return sigmoid(weights["visible"] + on.astype(np.float64) @ weights["pairs"].T)


def contrastive(weights: Weights, data: Array, uniform: Array) -> Any:
    """The CD-1 objective, with the samples stopped."""
    with fg.named_scope("gibbs"):
        fantasy = fg.stop_gradient(reconstruction(weights, data, uniform), name="samples")
    return np.mean(free_energy(weights, data)) - np.mean(free_energy(weights, fantasy))


def contrastive_unstopped(weights: Weights, data: Array, uniform: Array) -> Any:
    """The objective without the stop: its gradient flows into the samples, which is wrong."""
    fantasy = reconstruction(weights, data, uniform)
    return np.mean(free_energy(weights, data)) - np.mean(free_energy(weights, fantasy))


def gradient_by_hand(weights: Weights, data: Array, uniform: Array) -> Weights:
    """The formulas of the module's docstring."""
    fantasy = reconstruction(weights, data, uniform)
    real = sigmoid(weights["hidden"] + data @ weights["pairs"])
    dreamt = sigmoid(weights["hidden"] + fantasy @ weights["pairs"])
    return {
        "pairs": (fantasy.T @ dreamt - data.T @ real) / len(data),
        "visible": np.mean(fantasy, axis=0) - np.mean(data, axis=0),
        "hidden": np.mean(dreamt, axis=0) - np.mean(real, axis=0),
    }


def log_likelihood(weights: Weights, data: Array) -> float:
    """The exact mean log-likelihood: the machine is small enough to sum over all images."""
    everything = np.array(list(product([0.0, 1.0], repeat=SIDE * SIDE)))
    partition = np.logaddexp.reduce(-free_energy(weights, everything))
    return float(np.mean(-free_energy(weights, data)) - partition)


def run(seed: int) -> Result:
    """Checks the gradient, trains, and measures the exact likelihood before and after."""
    result = Result("Contrastive divergence: the samples of a Boltzmann machine are stopped")
    generator = np.random.default_rng(seed)
    data = bars_and_stripes()
    weights: Weights = {
        "pairs": 0.1 * generator.standard_normal((SIDE * SIDE, HIDDEN)),
        "visible": np.zeros(SIDE * SIDE),
        "hidden": np.zeros(HIDDEN),
    }
    before = log_likelihood(weights, data)
    gradient_of = fg.grad(contrastive)
    for _ in range(STEPS):
        slope = gradient_of(weights, data, generator.random((len(data), HIDDEN)))
        weights = {name: weights[name] - RATE * slope[name] for name in weights}
    after = log_likelihood(weights, data)

    uniform = generator.random((len(data), HIDDEN))
    by_hand = gradient_by_hand(weights, data, uniform)
    gradient = gradient_of(weights, data, uniform)
    parts = {"pairs": "weights", "visible": "visible biases", "hidden": "hidden biases"}
    for name, part in parts.items():
        result.compare(
            f"gradient with respect to the {part} = hand formula", gradient[name], by_hand[name]
        )
    wrong = fg.grad(contrastive_unstopped)(weights, data, uniform)
    gap = relative_gap(wrong["pairs"], by_hand["pairs"])
    result.found.append(
        f"without stop_gradient the gradient with respect to the weights is off by {gap:.0%}"
    )
    result.count_equations(contrastive, contrastive_unstopped, weights, data, uniform)
    best = -np.log(len(data))
    result.found.append(
        f"{STEPS} steps on {len(data)} images of {SIDE} x {SIDE}: exact log-likelihood of an image "
        f"{before:.3f} -> {after:.3f} (a perfect model has {best:.3f})"
    )
    missing = (best - after) / (best - before)
    result.claims.append(
        Claim("training leaves less than half of the gap to a perfect model", missing, 0.5)
    )
    return result
