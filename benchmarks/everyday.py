"""Gradients of everyday functions, against jitted JAX: `python -m benchmarks.everyday`.

Losses, activations, normalisations, distances, pools and stencils, on arrays of 200,000 doubles or
so, with the options of NumPy that are taken without a thought: no case is written for a library.
Medians, and in brackets minima, of one interleaved run; every result is compared. `--single` takes
single precision.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.libraries import FUNGRAD, JAX, LIBRARIES, installed
from benchmarks.timing import sampled

Function = Callable[..., Any]
ROWS = (2000, 100)
IMAGE = (512, 512)
POINTS = (400, 3)


def softmax(np: Any, x: Any) -> Any:
    """Rows of probabilities."""
    e = np.exp(x - np.max(x, 1, keepdims=True))
    return e / np.sum(e, 1, keepdims=True)


def cross_entropy(np: Any, x: Any, y: Any) -> Any:
    """Of the class where y is largest."""
    z = x - np.max(x, 1, keepdims=True)
    log_p = z - np.log(np.sum(np.exp(z), 1, keepdims=True))
    return -np.mean(np.take_along_axis(log_p, np.argmax(y, 1)[:, None], 1))


def brier(np: Any, x: Any, y: Any) -> Any:
    """Squared errors of probabilities."""
    return np.mean((softmax(np, x) - y) ** 2)


def binary_cross_entropy(np: Any, x: Any, y: Any) -> Any:
    """Of logits."""
    return np.mean(np.logaddexp(0.0, x) - y * x)


def huber(np: Any, x: Any) -> Any:
    """Quadratic near zero, linear far from it."""
    return np.sum(np.where(np.abs(x) < 1.0, 0.5 * x**2, np.abs(x) - 0.5))


def hinge(np: Any, x: Any) -> Any:
    """The shortfall from a margin of one."""
    return np.mean(np.maximum(0.0, 1.0 - x))


def triplet(np: Any, x: Any, y: Any) -> Any:
    """Distances to a near against a far point."""
    near, far = np.sum((x - y) ** 2, 1), np.sum((x + y) ** 2, 1)
    return np.mean(np.maximum(0.0, 0.2 + near - far))


def gaussian(np: Any, x: Any, y: Any) -> Any:
    """The negative log-likelihood, with the logarithm of the scale."""
    return np.sum(0.5 * ((y - x) / np.exp(0.1 * x)) ** 2 + 0.1 * x)


def student(np: Any, x: Any, y: Any) -> Any:
    """The negative log-likelihood of heavy tails."""
    return np.sum(2.5 * np.log1p((y - x) ** 2 / 4.0))


def poisson(np: Any, x: Any, y: Any) -> Any:
    """The negative log-likelihood of counts, by the logarithm of the rate."""
    return np.sum(np.exp(x) - y * x)


def von_mises(np: Any, x: Any, y: Any) -> Any:
    """The negative log-likelihood of angles."""
    return -np.sum(np.cos(x - y))


def gelu(np: Any, x: Any) -> Any:
    """By the hyperbolic tangent."""
    return np.sum(0.5 * x * (1.0 + np.tanh(0.79788456 * (x + 0.044715 * x**3))))


def silu(np: Any, x: Any) -> Any:
    """x by its sigmoid."""
    return np.sum(x / (1.0 + np.exp(-x)))


def elu(np: Any, x: Any) -> Any:
    """Exponential below zero."""
    return np.sum(np.where(x > 0.0, x, np.expm1(x)))


def clipped(np: Any, x: Any) -> Any:
    """Squares of the clipped parts."""
    return np.sum(np.clip(x, -1.0, 1.0) ** 2)


def layer_norm(np: Any, x: Any, y: Any) -> Any:
    """Each row with mean zero and variance one."""
    centred = x - np.mean(x, 1, keepdims=True)
    scale = np.sqrt(np.mean(centred**2, 1, keepdims=True) + 1e-5)
    return np.sum(centred / scale * y)


def batch_norm(np: Any, x: Any, y: Any) -> Any:
    """The same of columns."""
    return np.sum((x - np.mean(x, 0)) / np.sqrt(np.var(x, 0) + 1e-5) * y)


def cosines(np: Any, x: Any, y: Any) -> Any:
    """Of the angles between rows."""
    lengths = np.sqrt(np.sum(x * x, 1)) * np.sqrt(np.sum(y * y, 1))
    return np.mean(np.sum(x * y, 1) / lengths)


def deviations(np: Any, x: Any) -> Any:
    """Standard deviations of rows."""
    return np.sum(np.std(x, 1))


def kernel(np: Any, x: Any, y: Any) -> Any:
    """Gaussian, of all pairs of points."""
    return np.sum(np.exp(-0.5 * np.sum((x[:, None] - y[None]) ** 2, -1)))


def distances(np: Any, x: Any, y: Any) -> Any:
    """Of all pairs of points."""
    return np.sum(np.sqrt(np.sum((x[:, None] - y[None]) ** 2, -1) + 1e-3))


def mean_pool(np: Any, x: Any) -> Any:
    """Squares of the means of 2 by 2 pixels."""
    n, m = x.shape
    return np.sum(np.mean(x.reshape(n // 2, 2, m // 2, 2), (1, 3)) ** 2)


def max_pool(np: Any, x: Any) -> Any:
    """Squares of the maxima of 2 by 2 pixels."""
    n, m = x.shape
    return np.sum(np.max(x.reshape(n // 2, 2, m // 2, 2), (1, 3)) ** 2)


def total_variation(np: Any, x: Any) -> Any:
    """Of an image."""
    down, right = np.diff(x, axis=0)[:, :-1], np.diff(x, axis=1)[:-1]
    return np.sum(np.sqrt(down**2 + right**2 + 1e-6))


def laplacian(np: Any, x: Any) -> Any:
    """Squares of a stencil of five points."""
    around = x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1]
    return np.sum((around - 4.0 * x[1:-1, 1:-1]) ** 2)


def heat(np: Any, x: Any) -> Any:
    """A step of diffusion on a torus."""
    around = sum(np.roll(x, shift, axis) for shift in (1, -1) for axis in (0, 1))
    return np.sum((x + 0.1 * (around - 4.0 * x)) ** 2)


FUNCTIONS: tuple[tuple[Function, tuple[tuple[int, ...], ...]], ...] = (
    *((f, (ROWS,)) for f in (huber, hinge, gelu, silu, elu, clipped, deviations)),
    *((f, (ROWS, ROWS)) for f in (cross_entropy, brier, binary_cross_entropy, triplet, gaussian)),
    *((f, (ROWS, ROWS)) for f in (student, poisson, von_mises, layer_norm, batch_norm, cosines)),
    *((f, (POINTS, POINTS)) for f in (kernel, distances)),
    *((f, (IMAGE,)) for f in (mean_pool, max_pool, total_variation, laplacian, heat)),
)
"""Each with the shapes of its arguments; it is differentiated by the first."""


def arguments(shapes: Sequence[tuple[int, ...]], dtype: Any) -> list[Any]:
    """Normal random numbers."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def gradient(name: str, f: Function) -> Function:
    """The value and the gradient of a function in a library, prepared for many calls."""
    library = LIBRARIES[name]()
    return library.prepare(library.ad.value_and_grad(lambda *args: f(library.np, *args)))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--single", action="store_true", help="single precision")
    dtype = np.float32 if parser.parse_args().single else np.float64
    names = [name for name in (FUNGRAD, JAX) if installed(name)]
    ratios: list[float] = []
    print(f"{'':24}{''.join(f'{name:>14}' for name in names)}{'ratio':>16}   ms, {np.dtype(dtype)}")
    for f, shapes in FUNCTIONS:
        args = arguments(shapes, dtype)
        calls = {name: gradient(name, f) for name in names}
        wanted = calls[names[-1]](*args)
        for got, want in zip(calls[FUNGRAD](*args), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.max(np.abs(want)))
        times = sampled({name: partial(call, *args) for name, call in calls.items()}, 25)
        medians = {name: statistics.median(values) for name, values in times.items()}
        cells = "".join(f"{1e3 * seconds:14.3f}" for seconds in medians.values())
        if JAX in times:
            ratios.append(medians[FUNGRAD] / medians[JAX])
            cells += f"{ratios[-1]:8.2f} ({min(times[FUNGRAD]) / min(times[JAX]):.2f})"
        print(f"{f.__name__.replace('_', ' '):24}{cells}")
    if ratios:
        print(f"geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
