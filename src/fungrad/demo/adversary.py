"""An adversarial example: the fast gradient sign method on logistic regression, attack stopped.

With margins m = x.w + b and labels y in {0, 1} the loss is mean(log(1 + exp(m)) - y m). By hand,
its gradient with respect to an input x_i is (p_i - y_i) w / n with p = sigmoid(m), and to w
mean((p - y) x). The attack moves inputs by eps sign(gradient): x' = x + eps sign(p - y) sign(w).
Training against it takes x' as given, so the gradient with respect to w is mean((p' - y) x').
Goodfellow, Shlens, Szegedy (2015), Explaining and harnessing adversarial examples, sections 4 and
5. The attack is the worst point of a ball, so the stopped gradient is the whole one (Danskin's
theorem): the stop only saves the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fungrad as fg
from fungrad.demo.claims import Array, Claim, Result

PIXELS, IMAGES, STRENGTH, STEPS, RATE = 64, 400, 0.5, 300, 0.5

Weights = dict[str, Any]


def loss(weights: Weights, images: Any, labels: Array) -> Any:
    """The mean cross entropy of logistic regression."""
    margins = images @ weights["slope"] + weights["bias"]
    return np.mean(np.logaddexp(0.0, margins) - labels * margins)


def signs(slope: Any) -> Any:
    """The direction of the attack: the largest increase of the loss in the maximum norm."""
    return np.sign(slope)


def unit(slope: Any) -> Any:
    """The largest increase in the Euclidean norm: a direction smooth in the weights."""
    return slope / np.sqrt(np.sum(slope**2, axis=1))[:, None]


def attacked(weights: Weights, images: Array, labels: Array, direction: Any = signs) -> Any:
    """The images moved in the direction of the loss's gradient."""
    return images + STRENGTH * direction(fg.grad(loss, argnums=1)(weights, images, labels))


def robust_loss(weights: Weights, images: Array, labels: Array, direction: Any = signs) -> Any:
    """The loss at the attacked images, taken as given."""
    with fg.named_scope("attack"):
        moved = fg.stop_gradient(attacked(weights, images, labels, direction), name="attack")
    return loss(weights, moved, labels)


def robust_loss_unstopped(
    weights: Weights, images: Array, labels: Array, direction: Any = signs
) -> Any:
    """The robust loss without the stop: its gradient flows through the attack."""
    return loss(weights, attacked(weights, images, labels, direction), labels)


def probabilities(weights: Weights, images: Array) -> Array:
    """The model's probability of label 1."""
    margins = images @ weights["slope"] + weights["bias"]
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * margins)))


def accuracy(weights: Weights, images: Array, labels: Array) -> float:
    """The share of images with the right label."""
    return float(np.mean((probabilities(weights, images) > 0.5) == (labels > 0.5)))


def trained(objective: Any, images: Array, labels: Array) -> Weights:
    """Gradient descent from zero (where the attack has no direction yet, so it does nothing)."""
    weights: Weights = {"slope": np.zeros(PIXELS), "bias": 0.0}
    gradient_of = fg.grad(objective)
    for _ in range(STEPS):
        slope = gradient_of(weights, images, labels)
        weights = {name: weights[name] - RATE * slope[name] for name in weights}
    return weights


def generated(generator: np.random.Generator) -> tuple[Array, Array]:
    """Two kinds of noisy images: a few pixels carry a strong signal, all others a faint one."""
    strong = np.where(np.arange(PIXELS) < 6, 1.0, 0.12)
    labels = generator.integers(0, 2, IMAGES).astype(np.float64)
    images = (2.0 * labels - 1.0)[:, None] * strong
    return images + 0.7 * generator.standard_normal((IMAGES, PIXELS)), labels


def run(seed: int) -> Result:
    """Checks attack and gradients, then attacks a plainly and a robustly trained model."""
    result = Result("An adversarial example: training takes the attack as given")
    images, labels = generated(np.random.default_rng(seed))
    plain = trained(loss, images, labels)
    wrongness = (probabilities(plain, images) - labels)[:, None]

    slope = fg.grad(loss, argnums=1)(plain, images, labels)
    result.compare(
        "gradient with respect to the images = (p - y) w / n",
        slope,
        wrongness * plain["slope"] / IMAGES,
    )
    moved = attacked(plain, images, labels)
    by_hand = images + STRENGTH * np.sign(wrongness) * np.sign(plain["slope"])
    result.compare("attack = x + eps sign(p - y) sign(w)", moved, by_hand)
    fooled = (probabilities(plain, by_hand) - labels)[:, None]
    gradient = fg.grad(robust_loss)(plain, images, labels)
    result.compare(
        "gradient with respect to the weights = mean((p' - y) x')",
        gradient["slope"],
        np.mean(fooled * by_hand, 0),
    )
    result.compare(
        "gradient with respect to the bias = mean(p' - y)", gradient["bias"], np.mean(fooled)
    )

    smooth, whole = (
        fg.grad(f)(plain, images, labels, unit)["slope"]
        for f in (robust_loss, robust_loss_unstopped)
    )
    result.compare(
        "stopped gradient = gradient through the attack (Danskin's theorem)", smooth, whole, 1e-9
    )
    result.count_equations(
        lambda w: robust_loss(w, images, labels, unit),
        lambda w: robust_loss_unstopped(w, images, labels, unit),
        plain,
    )

    robust = trained(robust_loss, images, labels)
    scores = {
        name: (
            accuracy(weights, images, labels),
            accuracy(weights, attacked(weights, images, labels), labels),
        )
        for name, weights in (("plain", plain), ("robust", robust))
    }
    for name, (clean, attack) in scores.items():
        result.found.append(
            f"{name} training: accuracy {clean:.1%}, under attack {attack:.1%} (eps {STRENGTH})"
        )
    ratio = (1.0 - scores["robust"][1]) / (1.0 - scores["plain"][1])
    result.claims.append(Claim("the attack fools the robust model far less often", ratio, 0.25))
    return result
