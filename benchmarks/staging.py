"""How long jit takes before the first run, by the number of equations; and peaks of memory."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg

NUMPY = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)


def line(equations: int) -> Callable[[Any], Any]:
    """A function of so many equations in a row."""

    def f(x: Any) -> Any:
        for _ in range(equations // 5):
            x = np.sin(x) * 1.01
            x = x + np.exp(-x)
        return x

    return f


def staged(equations: int) -> dict[str, float]:
    """Seconds of the trace, of all else before the first run, and of a run; and equations."""
    jitted, x = fg.jit(line(equations)), np.linspace(0.1, 0.9, 10)
    start = time.perf_counter()
    lowered = jitted.lower(x)
    traced = time.perf_counter()
    jitted(x)
    ran = time.perf_counter()
    jitted(x)
    again = time.perf_counter() - ran
    return {
        "equations": len(lowered.graph.equations),
        "trace": traced - start,
        "optimise and plan": ran - traced - again,
        "run": again,
    }


def peak(f: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """The peak of memory of a call, in bytes, with the arrays that were kept from the one before.

    NumPy reports its arrays to tracemalloc; those of the warm-up that live on are added, so that
    what a program keeps for its next run counts. The buffers that programs share are given up
    first: else they would count in the first case alone.
    """
    fg.clear_caches()
    gc.collect()
    tracemalloc.start()
    try:
        f(*arguments)
        gc.collect()
        kept = tracemalloc.take_snapshot().filter_traces([NUMPY])
        held = sum(trace.size for trace in kept.traces)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        f(*arguments)
        return tracemalloc.get_traced_memory()[1] - before + held
    finally:
        tracemalloc.stop()
