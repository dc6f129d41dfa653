"""Many threads call one compiled function for a while; every number is compared.

    python -m benchmarks.stress            60 seconds with 8 threads, and with 32
    python -m benchmarks.stress 10 4       10 seconds with 4 threads

Three functions in turn: a blocked one (buffers of the pool, fungrad's own threads), a loop on
numbers, and one that raises inside a block. Exit status 1 at the first wrong number.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg

SIZES = 8
"""How many lengths the inputs have; each is one trace."""


def blocked(x: Any) -> Any:
    """Elementwise work over a large array, with reductions."""
    y = np.tanh(x) * 1.5 + x**2
    return np.sum(np.where(y > 0.5, np.sqrt(np.abs(y)), np.exp(-y)) * np.sin(x) * np.cos(x))


def looping(x: Any) -> Any:
    """A loop over a small state."""
    step = lambda c, _: (np.stack([c[1], np.sin(c[0]) - 0.1 * c[1]]) * 0.01 + c, None)  # noqa: E731
    return np.sum(fg.lax.scan(step, x[:2], None, length=200)[0] ** 2)


def main(seconds: float, count: int) -> int:
    """Runs the threads; 0 if all numbers were right."""
    functions = [fg.jit(fg.value_and_grad(blocked)), fg.jit(fg.value_and_grad(looping))]
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=100_000 + 1_000 * (i % SIZES)) for i in range(count)]
    fg.config.num_threads = max(2, fg.config.num_threads)
    expected = [[f(x) for f in functions] for x in inputs]
    end = time.perf_counter() + seconds
    calls, wrong = [0] * count, [0] * count

    def work(i: int) -> None:
        while time.perf_counter() < end and not any(wrong):
            for f, (value, slope) in zip(functions, expected[i], strict=True):
                got, gradient = f(inputs[i])
                calls[i] += 1
                wrong[i] += not (got == value and np.array_equal(gradient, slope))
            wrong[i] += not _raises(functions[0], inputs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{sum(calls)} calls by {count} threads in {seconds:.0f} s, {sum(wrong)} wrong")
    return int(any(wrong))


def _raises(f: Callable[..., Any], x: Any) -> bool:
    """Whether an infinity raises in this thread where it shall, and leaves no harm behind."""
    try:
        with np.errstate(invalid="raise"):
            f(np.full_like(x, np.inf))
    except FloatingPointError:
        return True
    return False


if __name__ == "__main__":
    duration = float((sys.argv[1:2] or ["60"])[0])
    sys.exit(max(main(duration, count) for count in map(int, sys.argv[2:] or (8, 32))))
