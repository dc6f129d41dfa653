"""Long loops: constant trace size, the memory of reverse mode, Newton and an adaptive ODE solver.

`python -m benchmarks.loops`. Memory is the peak that tracemalloc sees above the start (NumPy
reports its arrays to it).
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg
from fungrad import lax


def measured(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, the seconds, and the peak of memory in KiB."""
    gc.collect()
    start = time.perf_counter()
    call()
    seconds = time.perf_counter() - start
    tracemalloc.start()
    result = call()
    peak = tracemalloc.get_traced_memory()[1] / 1024
    tracemalloc.stop()
    return result, seconds, peak


def logistic(steps: int, checkpoint: Any) -> Callable[[Any], Any]:
    """A chaotic-free recurrence of `steps` steps with a carry of 100 doubles."""

    def f(w: Any) -> Any:
        def body(x: Any, _: Any) -> Any:
            return np.tanh(x * w + 0.1), None

        return np.sum(lax.scan(body, np.zeros(100), None, length=steps, checkpoint=checkpoint)[0])

    return f


def main() -> None:
    """Prints the figures."""
    start = time.perf_counter()
    last = lax.scan(lambda c, _: (c * 0.999999 + 1.0, None), 0.0, None, length=1_000_000)[0]
    print(f"scan of 1,000,000 steps: {time.perf_counter() - start:.2f} s, result {last:.6g}")
    print(f"{'steps':>8} {'residuals held':>16} {'seconds':>8} {'peak KiB':>10}")
    for steps in (100, 1_000, 10_000, 100_000):
        for checkpoint in (None, "binomial"):
            if checkpoint is None and steps > 10_000:
                continue
            gradient = fg.grad(logistic(steps, checkpoint))
            _, seconds, peak = measured(lambda g=gradient: g(np.full(100, 0.5)))
            print(f"{steps:8} {checkpoint or 'all'!s:>16} {seconds:8.2f} {peak:10.0f}")


if __name__ == "__main__":
    main()
