"""Gradients of programs on which one operation, or one step of size, once cost a factor, beside
jitted JAX: `python -m benchmarks.cliffs`.

Every program comes in three sizes, in double and in single precision. Each number is the least CPU
time of interleaved rounds on one core, with default settings. JAX gets its own arrays, and gives
them. Words choose programs by parts of their names. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import fungrad as fg
from benchmarks.native import JAX, Calls, agree, jax, microseconds
from benchmarks.native_loops import least

AUTO = "auto"
"""The candidate with default settings."""
Made = Callable[[np.random.Generator, int], list[Any]]
"""Makes the arguments of a program for a size."""


class Cliff(NamedTuple):
    """A program, and its sizes.

    Attributes:
      name: its name in the table.
      program: `program(np, lax, *args)`, a number.
      sizes: three sizes.
      made: makes the arguments; the gradient is taken by all of floats.
    """

    name: str
    program: Callable[..., Any]
    sizes: tuple[int, int, int]
    made: Made


def normal(*shapes: Any) -> Made:
    """Arrays of normal numbers; -1 in a shape is the size."""

    def made(rng: np.random.Generator, n: int) -> list[Any]:
        return [rng.normal(size=[n if k == -1 else k for k in shape]) for shape in shapes]

    return made


def positive(*shapes: Any) -> Made:
    """The same, of positive definite matrices in the last two axes of the first array."""

    def made(rng: np.random.Generator, n: int) -> list[Any]:
        first, *rest = normal(*shapes)(rng, n)
        return [first @ first.swapaxes(-1, -2) + first.shape[-1] * np.eye(first.shape[-1]), *rest]

    return made


def with_indices(most: int, count: int, *shapes: Any) -> Made:
    """Arrays of normal numbers, and `count` arrays of -1 (the size) indices below `most`."""

    def made(rng: np.random.Generator, n: int) -> list[Any]:
        return normal(*shapes)(rng, n) + [rng.integers(0, most, n) for _ in range(count)]

    return made


# --- long programs and loops ----------------------------------------------------------------------


def sines(xp: Any, lax: Any, x: Any) -> Any:
    for _ in range(60):
        x = xp.sin(x * x)
    return xp.sum(x)


def unrolled_rnn(steps: int, xp: Any, lax: Any, w: Any, h: Any) -> Any:
    for _ in range(steps):
        h = xp.tanh(h @ w + 0.1)
    return xp.sum(h)


def packed_fit(xp: Any, lax: Any, p: Any, t: Any, y: Any) -> Any:
    model = p[0] * xp.exp(-p[1] * t) + p[2] * xp.exp(-p[3] * t)
    return xp.sum((model - y) ** 2)


def chebyshev(xp: Any, lax: Any, p: Any, x: Any) -> Any:
    x = xp.tanh(x)
    before, now, total = xp.ones_like(x), x, p[0] + p[1] * x
    for k in range(2, 30):
        before, now = now, 2 * x * now - before
        total = total + p[k] * now
    return xp.sum(total**2)


def table_in_loop(xp: Any, lax: Any, x: Any) -> Any:
    step = lambda c, i: (xp.tanh(c * 0.9 + x[i]), None)  # noqa: E731
    return lax.scan(step, x[0], xp.arange(x.shape[0]))[0]


def cholesky_in_loop(xp: Any, lax: Any, a: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        factor = xp.linalg.cholesky(c @ c.T + a)
        return 0.5 * factor, xp.sum(factor)

    return xp.sum(lax.scan(step, a, None, length=50)[1])


def solve_in_loop(xp: Any, lax: Any, a: Any, b: Any) -> Any:
    step = lambda c, _: (xp.linalg.solve(a, c) + b, None)  # noqa: E731
    return xp.sum(lax.scan(step, b, None, length=50)[0])


# --- small linear algebra -------------------------------------------------------------------------


def det(xp: Any, lax: Any, a: Any) -> Any:
    return xp.sum(xp.linalg.det(a))


def slogdet(xp: Any, lax: Any, a: Any) -> Any:
    return xp.sum(xp.linalg.slogdet(a)[1])


def inverse(xp: Any, lax: Any, a: Any) -> Any:
    return xp.sum(xp.tanh(xp.linalg.inv(a)))


def solve(xp: Any, lax: Any, a: Any, b: Any) -> Any:
    return xp.sum(xp.linalg.solve(a, b[..., None]) ** 2)


def cholesky(xp: Any, lax: Any, a: Any) -> Any:
    return xp.sum(xp.linalg.cholesky(a) ** 3)


def gaussians(xp: Any, lax: Any, a: Any, x: Any) -> Any:
    factor = xp.linalg.cholesky(a)
    z = xp.linalg.solve(factor, x[..., None])[..., 0]
    logs = xp.log(xp.diagonal(factor, axis1=-2, axis2=-1))
    return xp.sum(0.5 * xp.sum(z * z, axis=-1) + xp.sum(logs, axis=-1))


def products(xp: Any, lax: Any, a: Any, b: Any) -> Any:
    return xp.sum(xp.tanh(a @ b))


def matvec(xp: Any, lax: Any, a: Any, x: Any) -> Any:
    return xp.sum(xp.tanh((a @ x[..., None])[..., 0]))


def quadratic(xp: Any, lax: Any, a: Any, x: Any) -> Any:
    return xp.sum(xp.exp(-xp.einsum("nij,ni,nj->n", a, x, x) * 0.01))


def eigenvalues(xp: Any, lax: Any, a: Any) -> Any:
    return xp.sum(xp.tanh(xp.linalg.eigvalsh(a)))


def gaussian_process(xp: Any, lax: Any, p: Any, x: Any, y: Any) -> Any:
    distance = (x[:, None] - x[None, :]) ** 2
    kernel = xp.exp(p[0]) * xp.exp(-distance * xp.exp(p[1])) + 0.1 * xp.eye(x.shape[0])
    factor = xp.linalg.cholesky(kernel)
    weights = xp.linalg.solve(kernel, y)
    return 0.5 * y @ weights + xp.sum(xp.log(xp.diagonal(factor)))


def scipy_linalg(xp: Any) -> Any:
    return fg.scipy.linalg if xp is np else importlib.import_module("jax.scipy.linalg")


def log_density(xp: Any, lax: Any, a: Any, x: Any) -> Any:
    factor = xp.linalg.cholesky(a)
    weights = scipy_linalg(xp).cho_solve((factor, True), x)
    return 0.5 * xp.sum(x * weights) + xp.sum(xp.log(xp.diagonal(factor, axis1=-2, axis2=-1)))


def inverse_and_logarithm(xp: Any, lax: Any, a: Any, x: Any) -> Any:
    return x @ xp.linalg.inv(a) @ x + xp.linalg.slogdet(a)[1]


def triangular_systems(xp: Any, lax: Any, a: Any, x: Any) -> Any:
    found = scipy_linalg(xp).solve_triangular(xp.tril(a), x, lower=True)
    return xp.sum(xp.tanh(found))


def orthogonal(xp: Any, lax: Any, a: Any, x: Any) -> Any:
    q, r = xp.linalg.qr(a)
    return xp.sum(xp.tanh(q @ x)) + xp.sum(r**3)


def eigenvectors(xp: Any, lax: Any, a: Any, x: Any) -> Any:
    values, vectors = xp.linalg.eigh(a)
    return xp.sum(xp.log(values) * (x @ vectors) ** 2)


def singular_values(xp: Any, lax: Any, a: Any) -> Any:
    return xp.sum(xp.tanh(xp.linalg.svd(a, compute_uv=False)))


def fitted(xp: Any, lax: Any, a: Any, y: Any) -> Any:
    return xp.sum(xp.tanh(xp.linalg.lstsq(a, y)[0]))


def exponential(xp: Any, lax: Any, a: Any) -> Any:
    return xp.sum(scipy_linalg(xp).expm(a / a.shape[-1]))


# --- products and memory traffic ------------------------------------------------------------------


def logistic_regression(xp: Any, lax: Any, w: Any, x: Any, y: Any) -> Any:
    margins = (2.0 * (y > 0) - 1.0) * (x @ w)
    return xp.sum(xp.log1p(xp.exp(-margins))) + 0.1 * xp.sum(w * w)


def least_squares(xp: Any, lax: Any, w: Any, x: Any, y: Any) -> Any:
    return xp.sum((x @ w - y) ** 2)


def narrow_layer(xp: Any, lax: Any, x: Any, w: Any) -> Any:
    return xp.sum(xp.tanh(x @ w))


def attention(xp: Any, lax: Any, q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.T / q.shape[1] ** 0.5
    weights = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return xp.sum((weights / xp.sum(weights, axis=1, keepdims=True)) @ v)


# --- operations that ended a kernel ---------------------------------------------------------------


def transposed(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.tanh(x.transpose(2, 0, 1).reshape(x.shape[2], -1)) * 0.5)


def gathered_rows(xp: Any, lax: Any, x: Any, i: Any) -> Any:
    return xp.sum(xp.tanh(x[i]))


def gathered(xp: Any, lax: Any, x: Any, i: Any, j: Any) -> Any:
    return xp.sum(xp.exp(-((x[i] - x[j]) ** 2)))


def two_indices(xp: Any, lax: Any, x: Any, i: Any, j: Any) -> Any:
    return xp.sum(xp.tanh(x[i, j]))


def group_effects(xp: Any, lax: Any, mu: Any, y: Any, g: Any) -> Any:
    return xp.sum((y - mu[g]) ** 2)


def springs(xp: Any, lax: Any, x: Any, i: Any, j: Any) -> Any:
    lengths = xp.sqrt(xp.sum((x[i] - x[j]) ** 2, axis=1) + 1e-6)
    return xp.sum((lengths - 1.0) ** 2)


def cumulative_sum(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.tanh(xp.cumsum(x) * 0.01))


def cumulative_product(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.cumprod(1.0 + 0.01 * x / x.shape[0]) ** 2)


def product_of_rows(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.prod(1.0 + 0.1 * x, axis=1))


def norms(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.linalg.norm(x, axis=1))


def edge_differences(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.diff(xp.pad(x, 1, mode="edge"), axis=0) ** 2)


def interpolated(xp: Any, lax: Any, x: Any, table: Any) -> Any:
    at = xp.linspace(-3.0, 3.0, table.shape[0])
    return xp.sum(xp.interp(x, at, table) ** 2)


def convolved(xp: Any, lax: Any, x: Any, k: Any) -> Any:
    return xp.sum(xp.convolve(x, k) ** 2)


def blurred(xp: Any, lax: Any, x: Any, k: Any) -> Any:
    signal = fg.scipy.signal if xp is np else importlib.import_module("jax.scipy.signal")
    return xp.sum(signal.convolve2d(x, k, "valid") ** 2)


def images(xp: Any, lax: Any, x: Any, k: Any) -> Any:
    return xp.sum(lax.conv(x, k, (1, 1), "SAME") ** 2)


def complex_functions(xp: Any, lax: Any, x: Any) -> Any:
    z = x + 1j * xp.cos(x)
    return xp.sum(xp.abs(xp.sin(z) + xp.log(z * z + 3.0)) ** 2)


def sorted_values(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.sort(x) ** 3)


def functions(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.tanh(x) * xp.exp(-x * x))


def columns_and_rows(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.exp(xp.sum(x * x, axis=0) * 1e-3)) + xp.sum(xp.tanh(xp.sum(x, axis=1)))


def layer_norm(xp: Any, lax: Any, x: Any) -> Any:
    c = x - xp.mean(x, axis=1, keepdims=True)
    return xp.sum(xp.tanh(c / xp.sqrt(xp.mean(c * c, axis=1, keepdims=True) + 1e-5)))


def triangular_product(xp: Any, lax: Any, x: Any, y: Any) -> Any:
    return xp.sum(xp.tril(x) * y)


# --- rows in a Python loop, log densities, index arithmetic ---------------------------------------


def along_rows(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.tanh(xp.apply_along_axis(lambda row: xp.sum(row * row), 1, x) * 0.01))


def stacked_rows(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.stack([xp.tanh(x[i]) * xp.sum(x[i]) for i in range(30)]) ** 2)


def joined_parts(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.concatenate([x[i] * x[i][::-1] for i in range(30)]) ** 2)


def stats(xp: Any) -> Any:
    return fg.scipy.stats if xp is np else importlib.import_module("jax.scipy.stats")


def student(xp: Any, lax: Any, p: Any, x: Any) -> Any:
    return xp.sum(stats(xp).t.logpdf(x, xp.exp(p[0]), p[1], xp.exp(p[2])))


def cauchy(xp: Any, lax: Any, p: Any, x: Any) -> Any:
    return xp.sum(stats(xp).cauchy.logpdf(x, p[0], xp.exp(p[1])))


def counts(xp: Any, lax: Any, p: Any, x: Any, k: Any) -> Any:
    return xp.sum(stats(xp).poisson.logpmf(k, xp.exp(p[0] + 0.1 * p[1] * x)))


def products_of_rows(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.tanh(xp.prod(1.0 + 0.1 * x, axis=1)))


def log_sums(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.logaddexp.reduce(x, axis=1) ** 2)


def reflected(xp: Any, lax: Any, x: Any) -> Any:
    return xp.sum(xp.diff(xp.pad(x, 3, mode="reflect"), axis=1) ** 2)


def one_hot_entropy(xp: Any, lax: Any, x: Any, labels: Any) -> Any:
    shifted = x - xp.max(x, axis=1, keepdims=True)
    logs = shifted - xp.log(xp.sum(xp.exp(shifted), axis=1, keepdims=True))
    return -xp.sum((labels[:, None] == xp.arange(10)) * logs)


def _square(count: int) -> Made:
    return normal((count, -1, -1))


CLIFFS: tuple[Cliff, ...] = (
    Cliff("60 sines", sines, (10, 1_000, 20_000), normal((-1,))),
    Cliff("unrolled RNN of 20 steps", partial(unrolled_rnn, 20), (4, 16, 64),
          lambda rng, n: [rng.normal(size=(n, n)) / n**0.5, rng.normal(size=n)]),
    Cliff("two exponentials, packed", packed_fit, (20, 200, 5_000),
          lambda rng, n: [np.array([1.0, 0.5, 2.0, 0.1]), *normal((-1,), (-1,))(rng, n)]),
    Cliff("Chebyshev, 30 packed", chebyshev, (1, 100, 10_000), normal((30,), (-1,))),
    Cliff("table read in a loop", table_in_loop, (10, 100, 1_000), normal((-1,))),
    Cliff("cholesky in a loop", cholesky_in_loop, (3, 6, 10), positive((-1, -1))),
    Cliff("solve in a loop", solve_in_loop, (3, 7, 12),
          lambda rng, n: [rng.normal(size=(n, n)) + n * np.eye(n), rng.normal(size=n)]),
    *[Cliff(f"{name}, {count:,} matrices", f, (2, 3, most), made)
      for name, f, count, most, made in (
          ("det", det, 10_000, 5, _square(10_000)),
          ("slogdet", slogdet, 3_000, 6, _square(3_000)),
          ("inv", inverse, 3_000, 6, positive((3_000, -1, -1))),
          ("solve", solve, 3_000, 6, positive((3_000, -1, -1), (3_000, -1))),
          ("cholesky", cholesky, 3_000, 6, positive((3_000, -1, -1))),
          ("Gaussian densities", gaussians, 3_000, 5, positive((3_000, -1, -1), (3_000, -1))),
          ("matmul", products, 10_000, 8, normal((10_000, -1, -1), (10_000, -1, -1))),
          ("matvec", matvec, 10_000, 8, normal((10_000, -1, -1), (10_000, -1))),
          ("quadratic forms", quadratic, 5_000, 10, normal((5_000, -1, -1), (5_000, -1))),
          ("eigvalsh", eigenvalues, 1_000, 5, positive((1_000, -1, -1))))],
    Cliff("log density by cho_solve", log_density, (8, 64, 200), positive((-1, -1), (-1,))),
    Cliff("inv and slogdet", inverse_and_logarithm, (8, 64, 200), positive((-1, -1), (-1,))),
    Cliff("100 triangular systems", triangular_systems, (8, 32, 64),
          positive((100, -1, -1), (100, -1, 1))),
    Cliff("qr", orthogonal, (4, 32, 200), normal((-1, -1), (-1,))),
    Cliff("eigh", eigenvectors, (8, 32, 100), positive((-1, -1), (-1,))),
    Cliff("svd", singular_values, (8, 32, 100), normal((-1, -1))),
    Cliff("lstsq, 4 columns", fitted, (10, 100, 1_000), normal((-1, 4), (-1,))),
    Cliff("expm", exponential, (2, 8, 32), normal((-1, -1))),
    Cliff("Gaussian process", gaussian_process, (30, 150, 500),
          lambda rng, n: [np.array([0.1, 0.2]), *normal((-1,), (-1,))(rng, n)]),
    Cliff("logistic regression, 100 columns", logistic_regression, (100, 2_000, 20_000),
          normal((100,), (-1, 100), (-1,))),
    Cliff("least squares, 20 columns", least_squares, (100, 2_000, 50_000),
          normal((20,), (-1, 20), (-1,))),
    Cliff("tanh(x @ w), 8 columns", narrow_layer, (200, 2_000, 20_000), normal((-1, 8), (8, 8))),
    Cliff("attention, 64 columns", attention, (32, 128, 512),
          normal((-1, 64), (-1, 64), (-1, 64))),
    Cliff("reshape of a transposed array", transposed, (8, 24, 64), normal((-1, -1, -1))),
    Cliff("rows by indices", gathered_rows, (200, 2_000, 20_000),
          with_indices(1_000, 1, (1_000, 16))),
    Cliff("x[i] - x[j]", gathered, (200, 5_000, 100_000), with_indices(1_000, 2, (1_000,))),
    Cliff("a[i, j]", two_indices, (200, 5_000, 100_000), with_indices(100, 2, (100, 100))),
    Cliff("group effects", group_effects, (200, 5_000, 100_000),
          lambda rng, n: [*normal((50,), (-1,))(rng, n), rng.integers(0, 50, n)]),
    Cliff("springs in space", springs, (200, 5_000, 50_000), with_indices(5_000, 2, (5_000, 3))),
    Cliff("cumsum", cumulative_sum, (100, 2_000, 100_000), normal((-1,))),
    Cliff("cumprod", cumulative_product, (100, 2_000, 100_000), normal((-1,))),
    Cliff("prod along 5", product_of_rows, (100, 2_000, 20_000), normal((-1, 5))),
    Cliff("norm along 1", norms, (100, 5_000, 100_000), normal((-1, 1))),
    Cliff("pad by edges, diff", edge_differences, (16, 64, 256), normal((-1, -1))),
    Cliff("interp in a table of 50", interpolated, (100, 2_000, 50_000), normal((-1,), (50,))),
    Cliff("convolve by 31", convolved, (200, 2_000, 20_000), normal((-1,), (31,))),
    Cliff("convolve2d by 5x5", blurred, (32, 128, 512), normal((-1, -1), (5, 5))),
    Cliff("images by 3x3, 8 channels", images, (1, 4, 8), normal((-1, 8, 32, 32), (16, 8, 3, 3))),
    Cliff("complex log and sin", complex_functions, (100, 2_000, 50_000), normal((-1,))),
    Cliff("sort", sorted_values, (100, 2_000, 50_000), normal((-1,))),
    Cliff("tanh(x) exp(-x x)", functions, (1_000, 20_000, 200_000), normal((-1,))),
    Cliff("sums of columns and rows", columns_and_rows, (30, 300, 1_000), normal((-1, 300))),
    Cliff("layer norm", layer_norm, (20, 200, 2_000), normal((-1, 100))),
    Cliff("tril and product", triangular_product, (20, 200, 600), normal((-1, -1), (-1, -1))),
    Cliff("apply_along_axis, 100 rows", along_rows, (10, 100, 1_000), normal((100, -1))),
    Cliff("stack of 30 rows in a loop", stacked_rows, (10, 100, 1_000), normal((30, -1))),
    Cliff("join of 30 parts in a loop", joined_parts, (10, 100, 1_000), normal((30, -1))),
    Cliff("t log density", student, (100, 5_000, 100_000), normal((3,), (-1,))),
    Cliff("cauchy log density", cauchy, (100, 5_000, 100_000), normal((2,), (-1,))),
    Cliff("poisson regression", counts, (100, 5_000, 100_000), with_indices(9, 1, (2,), (-1,))),
    Cliff("prod of 100 rows", products_of_rows, (20, 200, 2_000), normal((100, -1))),
    Cliff("logaddexp.reduce of 100 rows", log_sums, (20, 200, 2_000), normal((100, -1))),
    Cliff("pad by reflection, diff", reflected, (16, 64, 256), normal((-1, -1))),
    Cliff("one-hot cross entropy of 10", one_hot_entropy, (20, 500, 10_000),
          with_indices(10, 1, (-1, 10))),
)  # fmt: skip


# --- the table ------------------------------------------------------------------------------------


def calls(cliff: Cliff, size: int, dtype: Any) -> Calls:
    """The calls of the gradient by fungrad, with default settings, and by JAX."""
    made = cliff.made(np.random.default_rng(0), size)
    args = [np.asarray(x, dtype) if x.dtype.kind == "f" else x for x in made]
    wanted = tuple([n for n, x in enumerate(args) if x.dtype.kind == "f"])
    mine = fg.jit(fg.grad(partial(cliff.program, np, fg.lax), argnums=wanted))
    them = jax()
    theirs = them.jit(them.grad(partial(cliff.program, them.numpy, them.lax), argnums=wanted))
    given = [them.numpy.asarray(x) for x in args]
    return {AUTO: partial(mine, *args), JAX: lambda: them.block_until_ready(theirs(*given))}


def table(title: str, rows: Iterator[tuple[str, Calls]]) -> None:
    """Prints the minima, the ratios, their geometric mean, and the worst."""
    print(f"\n| {title}, us | fungrad | JAX jit | fungrad / JAX |\n|---|---|---|---|")
    ratios: list[float] = []
    for name, given in rows:
        agree(name, given)
        us = least(given)
        ratios.append(us[AUTO] / us[JAX])
        cells = f"{microseconds(us[AUTO])} | {microseconds(us[JAX])} | {ratios[-1]:.2f}"
        print(f"| {name} | {cells} |", flush=True)
    above = sum(ratio > 1.0 for ratio in ratios)
    print(f"| geometric mean of {len(ratios)}; above 1.0 | | {above} | "
          f"{statistics.geometric_mean(ratios):.2f} |")  # fmt: skip
    print(f"| worst | | | {max(ratios):.2f} |", flush=True)


def main() -> None:
    """Prints a table for each precision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", help="parts of names of programs; all without any")
    parser.add_argument("--dtype", action="append", choices=["float64", "float32"])
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    fg.config.num_threads = 1
    chosen = [c for c in CLIFFS if not given.programs or any(w in c.name for w in given.programs)]
    for dtype in given.dtype or ["float64", "float32"]:
        table(f"gradient, {dtype}", (
            (f"{cliff.name}: {size:,}", calls(cliff, size, dtype))
            for cliff in chosen for size in cliff.sizes
        ))  # fmt: skip


if __name__ == "__main__":
    main()
