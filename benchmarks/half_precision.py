"""Programs and gradients in half precision: native code beside NumPy's backend and jitted JAX, on
one core: `python -m benchmarks.half_precision`.

Each number is the least CPU time of interleaved rounds. Words choose programs by parts of their
names. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.native import JAX, NATIVE, NUMPY, Calls, jax, microseconds
from benchmarks.native_loops import least

COUNT = 100_000
LINE, ROWS = (COUNT,), (1_000, COUNT // 1_000)


def _functions(xp: Any, x: Any) -> Any:
    return xp.tanh(x) * xp.exp(-x * x)


def _polynomial(xp: Any, x: Any) -> Any:
    return ((x * 0.1 + 0.2) * x + 0.3) * x + 0.4


def _softmax(xp: Any, x: Any) -> Any:
    found = xp.exp(x - xp.max(x, 1, keepdims=True))
    return found / xp.sum(found, 1, keepdims=True)


def _normalised(xp: Any, x: Any) -> Any:
    centred = x - xp.mean(x, 1, keepdims=True)
    return centred / xp.sqrt(xp.var(x, 1, keepdims=True) + 1e-3)


PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "x + 0.5 x": (lambda xp, x: x + x * 0.5, LINE),
    "tanh(x) exp(-x x)": (_functions, LINE),
    "polynomial": (_polynomial, LINE),
    "leaky relu": (lambda xp, x: xp.where(x > 0, x, x * 0.01), LINE),
    "differences": (lambda xp, x: x[1:] - x[:-1], LINE),
    "sine in float32": (lambda xp, x: xp.sin(x.astype(xp.float32)), LINE),
    "sum": (lambda xp, x: xp.sum(x), LINE),
    "sums of rows": (lambda xp, x: xp.sum(x, 1), ROWS),
    "sums of columns": (lambda xp, x: xp.sum(x * x, 0), ROWS),
    "maxima of rows": (lambda xp, x: xp.max(x, 1), ROWS),
    "softmax": (_softmax, ROWS),
    "normalised rows": (_normalised, ROWS),
    "cumulative sums": (lambda xp, x: xp.cumsum(x, 1), ROWS),
    "transposed": (lambda xp, x: xp.tanh(x.T) * 2, ROWS),
}
LOSSES: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "tanh(x) exp(-x x)": (lambda xp, x: xp.sum(_functions(xp, x)), LINE),
    "squares": (lambda xp, x: xp.sum(x * x), LINE),
    "squared differences": (lambda xp, x: xp.sum((x[1:] - x[:-1]) ** 2), LINE),
    "columns": (lambda xp, x: xp.sum(xp.exp(xp.sum(x * x, 0) * 1e-3)), ROWS),
    "rows": (lambda xp, x: xp.sum(xp.tanh(xp.sum(x, 1))), ROWS),
    "logsumexp": (lambda xp, x: xp.sum(xp.log(xp.sum(xp.exp(x), 1))), ROWS),
    "normalised rows": (lambda xp, x: xp.sum(_normalised(xp, x) ** 3), ROWS),
}


def calls(program: Callable[[Any, Any], Any], shape: tuple[int, ...], gradient: bool) -> Calls:
    """The calls of a program, or of its gradient, by each candidate."""
    them, x = jax(), np.random.default_rng(0).normal(size=shape).astype(np.float16)
    mine, theirs = partial(program, np), partial(program, them.numpy)
    if gradient:
        mine, theirs = fg.grad(mine), them.grad(theirs)
    native, on_numpy, jitted = fg.jit(mine), fg.jit(mine), them.jit(theirs)
    given = them.numpy.asarray(x)
    return {
        NATIVE: partial(native, x), NUMPY: partial(on_numpy, x),
        JAX: lambda: them.block_until_ready(jitted(given)),
    }  # fmt: skip


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", help="parts of names of programs; all without any")
    words = parser.parse_args().programs
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    fg.config.num_threads = 1
    print(
        f"| {COUNT:,} numbers in float16, us | native | NumPy | JAX jit | over NumPy | over JAX |"
    )
    print("|---|---|---|---|---|---|")
    ratios: list[tuple[float, float]] = []
    for gradient, some in ((False, PROGRAMS), (True, LOSSES)):
        for name, (program, shape) in some.items():
            if words and not any(word in name for word in words):
                continue
            with np.errstate(all="ignore"):
                us = least(calls(program, shape, gradient))
            ratios.append((us[NATIVE] / us[NUMPY], us[NATIVE] / us[JAX]))
            cells = [microseconds(us[c]) for c in (NATIVE, NUMPY, JAX)]
            cells += [f"{ratio:.2f}" for ratio in ratios[-1]]
            print(f"| {'gradient of ' * gradient}{name} | {' | '.join(cells)} |", flush=True)
    means = [statistics.geometric_mean(column) for column in zip(*ratios, strict=True)]
    print(f"| geometric mean of {len(ratios)} | | | | {means[0]:.2f} | {means[1]:.2f} |")
    worst = [max(column) for column in zip(*ratios, strict=True)]
    print(f"| worst | | | | {worst[0]:.2f} | {worst[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
