"""Machine learning: losses and one step of training, on batches."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases.case import Case, normal, one_hot, sums, uniform

RATE = 0.1


def logistic_regression(np: Any, ad: Any) -> Any:
    """The loss and its gradient by the weights."""

    def loss(w: Any, x: Any, y: Any) -> Any:
        z = x @ w
        return np.mean(np.logaddexp(0.0, z) - y * z) + 0.01 * np.sum(w * w)

    return ad.value_and_grad(loss)


def logistic_regression_by_hand(w: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """The residuals are the probabilities less the labels."""
    z = x @ w
    value = np.mean(np.logaddexp(0.0, z) - y * z) + 0.01 * (w @ w)
    residuals = 1.0 / (1.0 + np.exp(-z)) - y
    return value, x.T @ residuals / len(y) + 0.02 * w


def cross_entropy(np: Any, z: Any, y: Any) -> Any:
    """The mean over rows, by logits z and rows y of probabilities."""
    z = z - np.max(z, 1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), 1)) - np.sum(y * z, 1))


def cross_entropy_by_hand(z: Any, y: Any) -> tuple[Any, Any]:
    """The softmax less the labels."""
    z = z - np.max(z, 1, keepdims=True)
    g = np.exp(z)
    total = np.sum(g, 1, keepdims=True)
    value = np.mean(np.log(total[:, 0]) - np.sum(y * z, 1))
    g /= total
    g -= y
    g /= len(z)
    return value, g


def softmax(np: Any, ad: Any) -> Any:
    """The cross-entropy of rows of logits and its gradient."""
    return ad.value_and_grad(partial(cross_entropy, np))


def weights_of_rows(np: Any, ad: Any) -> Any:
    """The squared error of the softmax of rows, and its gradient."""

    def loss(z: Any, y: Any) -> Any:
        e = np.exp(z - np.max(z, 1, keepdims=True))
        return np.mean((e / np.sum(e, 1, keepdims=True) - y) ** 2)

    return ad.value_and_grad(loss)


def weights_of_rows_by_hand(z: Any, y: Any) -> tuple[Any, Any]:
    """The softmax's pullback takes the row's mean cotangent off."""
    p = np.exp(z - np.max(z, 1, keepdims=True))
    p /= np.sum(p, 1, keepdims=True)
    errors = p - y
    value = np.mean(errors * errors)
    errors *= 2.0 / errors.size
    errors -= np.sum(errors * p, 1, keepdims=True)
    errors *= p
    return value, errors


def layer_norm(np: Any, ad: Any) -> Any:
    """The squared error of normalised rows, and its gradient by rows, scales and shifts."""

    def loss(x: Any, scales: Any, shifts: Any, target: Any) -> Any:
        centred = x - np.mean(x, 1, keepdims=True)
        variance = np.mean(centred * centred, 1, keepdims=True)
        y = centred / np.sqrt(variance + 1e-5) * scales + shifts
        return np.mean((y - target) ** 2)

    return ad.value_and_grad(loss, (0, 1, 2))


def layer_norm_by_hand(
    x: Any, scales: Any, shifts: Any, target: Any
) -> tuple[Any, tuple[Any, ...]]:
    """The pullback takes off the mean cotangent, and its part along the normalised row."""
    width = x.shape[1]
    normed = x - np.mean(x, 1, keepdims=True)
    inverse = 1.0 / np.sqrt(np.sum(normed * normed, 1, keepdims=True) / width + 1e-5)
    normed *= inverse
    errors = normed * scales
    errors += shifts
    errors -= target
    value = np.mean(errors * errors)
    errors *= 2.0 / errors.size
    by_shifts = np.sum(errors, 0)
    by_scales = np.sum(errors * normed, 0)
    errors *= scales
    along = np.sum(errors * normed, 1, keepdims=True) / width
    errors -= np.mean(errors, 1, keepdims=True)
    errors -= normed * along
    errors *= inverse
    return value, (errors, by_scales, by_shifts)


def perceptron(np: Any, ad: Any) -> Any:
    """One step of gradient descent of a network with one hidden layer."""

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        w1, b1, w2, b2 = parameters
        return cross_entropy(np, np.tanh(x @ w1 + b1) @ w2 + b2, y)

    slopes = ad.value_and_grad(loss)

    def step(parameters: Any, x: Any, y: Any) -> Any:
        value, g = slopes(parameters, x, y)
        return value, tuple([p - RATE * s for p, s in zip(parameters, g, strict=True)])

    return step


def perceptron_by_hand(parameters: Any, x: Any, y: Any) -> tuple[Any, tuple[Any, ...]]:
    """Backpropagation."""
    w1, b1, w2, b2 = parameters
    h = np.tanh(x @ w1 + b1)
    value, g = cross_entropy_by_hand(h @ w2 + b2, y)
    back = (g @ w2.T) * (1.0 - h * h)
    g1, g2 = (x.T @ back, back.sum(0)), (h.T @ g, g.sum(0))
    return value, tuple(p - RATE * s for p, s in zip((w1, b1, w2, b2), (*g1, *g2), strict=True))


def network(batch: int, inputs: int, hidden: int) -> tuple[Any, ...]:
    """Parameters for ten classes, and a batch."""
    weights = normal(inputs, hidden, scale=0.1), normal(hidden, 10, scale=0.1)
    parameters = (weights[0], np.zeros(hidden), weights[1], np.zeros(10))
    return parameters, normal(batch, inputs, seed=1), one_hot(batch, 10)


def attention(np: Any, ad: Any) -> Any:
    """The squared error of one head, and its gradient by queries, keys and values."""

    def loss(q: Any, k: Any, v: Any, target: Any) -> Any:
        scores = q @ k.T / q.shape[1] ** 0.5
        e = np.exp(scores - np.max(scores, 1, keepdims=True))
        return np.mean((e / np.sum(e, 1, keepdims=True) @ v - target) ** 2)

    return ad.value_and_grad(loss, (0, 1, 2))


def attention_by_hand(q: Any, k: Any, v: Any, target: Any) -> tuple[Any, tuple[Any, ...]]:
    """The softmax's pullback takes the row's mean cotangent off."""
    scale = 1.0 / np.sqrt(q.shape[1])
    scores = q @ k.T
    scores *= scale
    p = np.exp(scores - np.max(scores, 1, keepdims=True))
    p /= np.sum(p, 1, keepdims=True)
    errors = p @ v - target
    g = errors * (2.0 / errors.size)
    by_scores = g @ v.T
    by_scores -= np.sum(by_scores * p, 1, keepdims=True)
    by_scores *= p
    by_scores *= scale
    return np.mean(errors * errors), (by_scores @ k, by_scores.T @ q, p.T @ g)


def boltzmann(np: Any, ad: Any) -> Any:
    """One step of contrastive divergence: the negative sample is stopped."""

    def free_energy(parameters: Any, v: Any) -> Any:
        w, a, b = parameters
        return np.mean(-(v @ a) - np.sum(np.logaddexp(0.0, v @ w + b), 1))

    def objective(parameters: Any, v: Any, u: Any, t: Any) -> Any:
        w, a, b = parameters
        h = np.where(1.0 / (1.0 + np.exp(-(v @ w + b))) > u, 1.0, 0.0)
        sample = np.where(1.0 / (1.0 + np.exp(-(h @ w.T + a))) > t, 1.0, 0.0)
        sample = ad.stop_gradient(sample)
        return free_energy(parameters, v) - free_energy(parameters, sample)

    return ad.value_and_grad(objective)


def boltzmann_by_hand(parameters: Any, v: Any, u: Any, t: Any) -> tuple[Any, tuple[Any, ...]]:
    """Hinton's rule, and the difference of the free energies."""
    w, a, b = parameters
    n = len(v)
    z = v @ w + b
    p = 1.0 / (1.0 + np.exp(-z))
    h = (p > u).astype(np.float64)
    sample = (1.0 / (1.0 + np.exp(-(h @ w.T + a))) > t).astype(np.float64)
    z_sample = sample @ w + b
    p_sample = 1.0 / (1.0 + np.exp(-z_sample))
    mean, mean_sample = v.mean(0), sample.mean(0)
    hidden = (np.sum(np.logaddexp(0.0, z_sample)) - np.sum(np.logaddexp(0.0, z))) / n
    slopes = (
        (sample.T @ p_sample - v.T @ p) / n,
        mean_sample - mean,
        p_sample.mean(0) - p.mean(0),
    )
    return (mean_sample - mean) @ a + hidden, slopes


def visible(batch: int, units: int, hidden: int) -> tuple[Any, ...]:
    """Parameters, a batch of bits and the uniform numbers of the sampling."""
    parameters = (normal(units, hidden, scale=0.1), normal(units, seed=1), normal(hidden, seed=2))
    bits = (uniform(batch, units) > 0.5).astype(np.float64)
    return parameters, bits, uniform(batch, hidden, seed=3), uniform(batch, units, seed=4)


def k_means(np: Any, ad: Any) -> Any:
    """The cost of centres, the sum of squared distances to the nearest, and its gradient."""

    def cost(centres: Any, points: Any) -> Any:
        squares = np.sum(centres * centres, 1) - 2.0 * (points @ centres.T)
        return np.sum(np.min(squares, 1)) + np.sum(points * points)

    return ad.value_and_grad(cost)


def k_means_by_hand(centres: Any, points: Any) -> tuple[Any, Any]:
    """Each centre is drawn to the mean of its points."""
    squares = points @ centres.T
    squares *= -2.0
    squares += np.sum(centres * centres, 1)
    nearest = np.argmin(squares, 1)
    least = np.take_along_axis(squares, nearest[:, None], 1)
    counts = np.bincount(nearest, minlength=len(centres))
    value = np.sum(least) + np.sum(points * points)
    return value, 2.0 * (counts[:, None] * centres - sums(points, nearest, len(centres)))


def convolution(np: Any, ad: Any) -> Any:
    """A blurred image against a target: the gradient by the kernel and the image."""

    def loss(kernel: Any, image: Any, target: Any) -> Any:
        height, width = target.shape
        blurred = sum(
            kernel[i, j] * image[i : i + height, j : j + width]
            for i in range(kernel.shape[0])
            for j in range(kernel.shape[1])
        )
        return np.mean((blurred - target) ** 2)

    return ad.value_and_grad(loss, (0, 1))


def convolution_by_hand(kernel: Any, image: Any, target: Any) -> tuple[Any, tuple[Any, Any]]:
    """A correlation for the kernel, a full convolution for the image."""
    height, width = target.shape
    windows = {
        (i, j): (slice(i, i + height), slice(j, j + width)) for i, j in np.ndindex(kernel.shape)
    }
    errors = -target
    for place, window in windows.items():
        errors += kernel[place] * image[window]
    value = np.mean(errors * errors)
    errors *= 2.0 / errors.size
    by_kernel, by_image = np.empty_like(kernel), np.zeros_like(image)
    for place, window in windows.items():
        by_kernel[place] = np.sum(errors * image[window])
        by_image[window] += kernel[place] * errors
    return value, (by_kernel, by_image)


def labelled(rows: int, features: int) -> tuple[Any, ...]:
    """Weights, points and labels of two classes."""
    return normal(features), normal(rows, features, seed=1), one_hot(rows, 2)[:, 0].copy()


def logits(rows: int, classes: int) -> tuple[Any, ...]:
    """Logits and labels."""
    return normal(rows, classes), one_hot(rows, classes)


def rows_to_norm(rows: int, width: int) -> tuple[Any, ...]:
    """Rows, scales, shifts and a target."""
    scales = uniform(width, low=0.5, high=1.5, seed=1)
    return normal(rows, width), scales, normal(width, seed=2), normal(rows, width, seed=3)


def heads(length: int, width: int) -> tuple[Any, ...]:
    """Queries, keys, values and a target."""
    return tuple(normal(length, width, seed=i) for i in range(4))


def clouds(centres: int, points: int, width: int) -> tuple[Any, ...]:
    """Centres and points."""
    return uniform(centres, width, seed=1), uniform(points, width)


def picture(size: int, kernel: int) -> tuple[Any, ...]:
    """A kernel, an image and a target."""
    rest = size - kernel + 1
    return normal(kernel, kernel), normal(size, size, seed=1), normal(rest, rest, seed=2)


def case(name: str, functions: tuple[Any, Any], make: Any, sizes: Any, tiny: Any) -> Case:
    """A case by the sizes of its arguments."""
    return Case(name, *functions, partial(make, *sizes), partial(make, *tiny))


_LOGISTIC = logistic_regression, logistic_regression_by_hand
_PERCEPTRON = perceptron, perceptron_by_hand
_SOFTMAX = softmax, cross_entropy_by_hand
_WEIGHTS = weights_of_rows, weights_of_rows_by_hand
_LAYER_NORM = layer_norm, layer_norm_by_hand
_ATTENTION = attention, attention_by_hand
_BOLTZMANN = boltzmann, boltzmann_by_hand
_K_MEANS = k_means, k_means_by_hand
_CONVOLUTION = convolution, convolution_by_hand

CASES = (
    case("logistic regression 2000x30", _LOGISTIC, labelled, (2000, 30), (6, 3)),
    case("logistic regression 20000x100", _LOGISTIC, labelled, (20_000, 100), (7, 4)),
    case("logistic regression 100x5", _LOGISTIC, labelled, (100, 5), (5, 2)),
    case("MLP step 32x784x64", _PERCEPTRON, network, (32, 784, 64), (4, 5, 3)),
    case("MLP step 256x784x512", _PERCEPTRON, network, (256, 784, 512), (4, 5, 3)),
    case("softmax cross-entropy 2000x100", _SOFTMAX, logits, (2000, 100), (4, 3)),
    case("softmax 2000x100", _WEIGHTS, logits, (2000, 100), (4, 3)),
    case("layer norm 1000x256", _LAYER_NORM, rows_to_norm, (1000, 256), (4, 3)),
    case("attention 256x64", _ATTENTION, heads, (256, 64), (5, 4)),
    case("attention 512x64", _ATTENTION, heads, (512, 64), (6, 4)),
    case("RBM step 100x784x128", _BOLTZMANN, visible, (100, 784, 128), (5, 4, 3)),
    case("k-means 100x10000x16", _K_MEANS, clouds, (100, 10_000, 16), (3, 9, 2)),
    case("convolution 512x512, 5x5", _CONVOLUTION, picture, (512, 5), (7, 3)),
)
