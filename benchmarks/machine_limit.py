"""Ten gradients beside what the machine can do, on one core: `python -m benchmarks.machine_limit`.

The rates of the machine are measured first: arrays of each program's size that are read, and
read and written, fused multiply-adds of a large matrix product, and elementwise functions of
arrays in the cache, each by the faster of NumPy and native code. The limit of a program is the
longer of two times: that to read its arguments and write its results once, and that to compute its
multiply-adds and functions. Only operations that the gradient cannot do without are counted.
Results are new arrays: the system clears the memory of those that are too large for what was freed.
All times are least CPU times. Words choose programs by parts of their names.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from benchmarks import THREADS

os.environ.update(dict.fromkeys(THREADS, "1"))

import numpy as np

import fungrad as fg
from benchmarks.timing import least_cpu_times
from fungrad.scipy import special

ROUNDS, BURST = 15, 0.02
IN_CACHE = 8_192
RNG = np.random.default_rng(0)
FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "ndtr": special.ndtr,
    "divide": lambda x: 1.0 / x,
}  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A loss, the arguments by which it is differentiated and others, and what it takes at least.

    `products` are fused multiply-adds; `functions` how often each of `FUNCTIONS` is computed.
    """

    name: str
    loss: Callable[..., Any]
    arguments: tuple[Any, ...]
    others: tuple[Any, ...] = ()
    products: float = 0.0
    functions: Mapping[str, float] = field(default_factory=dict)

    @property
    def written(self) -> int:
        """The bytes of the gradient."""
        return sum(a.nbytes for a in self.arguments)

    @property
    def read(self) -> int:
        """The bytes of the arguments."""
        return self.written + sum(a.nbytes for a in self.others)


def normal(*shape: int) -> Any:
    """Normal numbers."""
    return RNG.normal(size=shape)


def rosenbrock(x: Any) -> Any:
    """Rosenbrock's function of many numbers."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def log_sum_exp(x: Any) -> Any:
    """The sum of the logarithms of the rows' sums of exponentials."""
    top = fg.stop_gradient(np.max(x, 1, keepdims=True))
    return np.sum(np.log(np.sum(np.exp(x - top), 1)))


def layer_norm(x: Any, w: Any) -> Any:
    """A weighted sum of rows with mean 0 and variance 1."""
    centred = x - np.mean(x, 1, keepdims=True)
    return np.sum(w * centred / np.sqrt(np.mean(centred * centred, 1, keepdims=True) + 1e-5))


def option(spot: Any, volatility: Any) -> Any:
    """The sum of prices of call options at strike 1, time 1 and rate 0 (Black and Scholes)."""
    d = np.log(spot) / volatility + 0.5 * volatility
    return np.sum(spot * special.ndtr(d) - special.ndtr(d - volatility))


def logistic(w: Any, x: Any, y: Any) -> Any:
    """The loss of a logistic regression."""
    return np.mean(np.logaddexp(0.0, x @ w) - y * (x @ w))


def perceptron(a: Any, b: Any, x: Any, y: Any) -> Any:
    """The squared error of a network with one hidden layer."""
    return np.mean((np.tanh(x @ a) @ b - y) ** 2)


def attention(q: Any, k: Any, v: Any) -> Any:
    """The sum of squares of one attention head."""
    scores = q @ k.T
    e = np.exp(scores - fg.stop_gradient(np.max(scores, 1, keepdims=True)))
    return np.sum((e / np.sum(e, 1, keepdims=True) @ v) ** 2)


def convolved(kernel: Any, image: Any) -> Any:
    """The sum of squares of an image that is convolved with a kernel."""
    return np.sum(fg.scipy.signal.convolve2d(image, kernel, "valid") ** 2)


LINE, ROWS = 1_000_000, (2_000, 100)
PROGRAMS = [
    Program("squares, 10,000,000", lambda x: np.sum(x * x), (normal(10_000_000),)),
    Program("Rosenbrock, 1,000,000", rosenbrock, (normal(LINE),)),
    Program(
        "tanh(x) exp(-x x), 100,000", lambda x: np.sum(np.tanh(x) * np.exp(-x * x)),
        (normal(100_000),), functions={"tanh": 1e5, "exp": 1e5},
    ),
    Program("log-sum-exp, 2,000 x 100", log_sum_exp, (normal(*ROWS),), functions={"exp": 2e5}),
    Program("layer norm, 2,000 x 100", layer_norm, (normal(*ROWS),), (normal(*ROWS),)),
    Program(
        "Black-Scholes, 1,000,000", option,
        (np.exp(0.1 * normal(LINE)), 0.2 + 0.1 * RNG.random(LINE)),
        functions={"log": LINE, "divide": LINE, "ndtr": 2 * LINE, "exp": 2 * LINE},
    ),
    Program(
        "logistic regression, 20,000 x 100", logistic, (normal(100),),
        (normal(20_000, 100), RNG.integers(0, 2, 20_000) * 1.0), 4e6, {"exp": 2e4},
    ),
    Program(
        "perceptron, 256 x 784 x 512", perceptron, (normal(784, 512) / 28, normal(512, 10)),
        (normal(256, 784), normal(256, 10)), 256 * 512 * (2 * 784 + 3 * 10), {"tanh": 256 * 512},
    ),
    Program(
        "attention, 512 x 64", attention, (normal(512, 64) / 8, normal(512, 64), normal(512, 64)),
        (), 6 * 512 * 512 * 64, {"exp": 512 * 512},
    ),
    Program(
        "convolution, 512 x 512 by 5 x 5", convolved, (normal(5, 5),), (normal(512, 512),),
        2 * 25 * 508 * 508,
    ),
]  # fmt: skip


def least(*calls: Callable[[], Any]) -> float:
    """The least CPU time of the fastest of some calls, in seconds."""
    for call in calls:
        call()
    return min(least_cpu_times(calls, ROUNDS, BURST))


@cache
def moving_time(read: int, written: int) -> float:
    """Seconds in which so many bytes are read and written: as many as are written by a ufunc or a
    copy, the others by a dot product.
    """
    x, y, z = (
        np.ones(written // 8),
        np.ones((read - written) // 16),
        np.ones((read - written) // 16),
    )
    copied = least(lambda: x + x, x.copy, lambda: np.negative(x))
    return copied + (least(lambda: np.dot(y, z)) if y.size else 0.0)


@cache
def product_time() -> float:
    """Seconds a fused multiply-add."""
    x = normal(768, 768)
    return least(lambda: x @ x) / 768**3


@cache
def function_time(name: str) -> float:
    """Seconds a number of an elementwise function."""
    f, x, out = FUNCTIONS[name], 0.5 * normal(IN_CACHE), np.empty(IN_CACHE)
    if name in ("log", "divide"):
        x = np.exp(x)
    compiled, chosen = fg.jit(f), fg.config.backend
    calls = [lambda: compiled(x)]
    if isinstance(f, np.ufunc):
        calls.append(lambda: f(x, out=out))
    fg.config.backend = "native"
    try:
        return least(*calls) / IN_CACHE
    finally:
        fg.config.backend = chosen


def limit(program: Program) -> float:
    """The least time of a program on this machine, in seconds."""
    computed = program.products * product_time() if program.products else 0.0
    computed += sum(count * function_time(name) for name, count in program.functions.items())
    return max(moving_time(program.read, program.written), computed)


def measured(program: Program) -> float:
    """The least CPU time of the compiled gradient, in seconds."""
    by = tuple(range(len(program.arguments)))
    gradient, given = fg.jit(fg.grad(program.loss, by)), (*program.arguments, *program.others)
    return least(lambda: gradient(*given))


def main() -> None:
    """Prints the table."""
    words = sys.argv[1:]
    fg.config.num_threads = 1
    print("| gradient | limit, ms | fungrad, ms | over the limit |\n|---|---|---|---|")
    ratios: list[float] = []
    for program in PROGRAMS:
        if words and not any(word in program.name for word in words):
            continue
        bound, time = limit(program), measured(program)
        ratios.append(time / bound)
        print(
            f"| {program.name} | {bound * 1e3:.3g} | {time * 1e3:.3g} | {ratios[-1]:.2f} |",
            flush=True,
        )
    within = sum(ratio <= 1.5 for ratio in ratios)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"| geometric mean; {within} of {len(ratios)} within 1.5 | | | {mean:.2f} |\n")
    print(f"one multiply-add {product_time() * 1e9:.4f} ns; " + ", ".join(
        f"{name} {function_time(name) * 1e9:.2f} ns" for name in FUNCTIONS
    ))  # fmt: skip
    many = PROGRAMS[0].read
    alone, both = [many * 1e-9 / moving_time(many, written) for written in (0, many)]
    print(f"beyond the caches {alone:.1f} GB/s are read, {both:.1f} GB/s read and written anew")


if __name__ == "__main__":
    main()
