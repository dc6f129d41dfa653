"""Whether the times by line add up: `python -m benchmarks.explain`.

Explains the gradients of `benchmarks.everyday` and the cases of `python -m benchmarks` (those whose
names contain a word of `--only`), and prints for each the time of one call, the sum of the times
of its operations over it, the share in native code, and the operations outside of kernels that have
no reason (there should be none). `--cost` times `fg.profile`'s measured program with its counters
over the same program without them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks import cases, everyday
from benchmarks.libraries import FUNGRAD, LIBRARIES
from benchmarks.timing import sampled
from fungrad.control_flow.call import built
from fungrad.inspect.speed.timed_program import TimedProgram, counts_steps
from fungrad.inspect.tables import seconds

LEAST, MOST = 0.90, 1.05
"""The bounds of the sum of the times of operations, over the time of the program."""


def programs() -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """The name, function and arguments of each program."""
    for f, shapes in everyday.FUNCTIONS:
        args = everyday.arguments(shapes, np.float64)
        yield f.__name__, fg.value_and_grad(lambda *args, f=f: f(np, *args)), args
    library = LIBRARIES[FUNGRAD]()
    for case in cases.ALL:
        if not case.large:
            yield case.name, case.derivative(library.np, library.ad), case.arguments()


def overhead(lowered: Any) -> float:
    """The time of a program with counters, over that without."""
    program: Any = built(lowered.graph)
    if not counts_steps(program):
        return 1.0
    timed = TimedProgram(program)
    times = sampled(
        {"plain": lambda: program(*lowered.args), "timed": lambda: timed.run(*lowered.args)}, 9
    )
    return min(times["timed"]) / min(times["plain"])


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[""], help="words of names")
    parser.add_argument("--cost", action="store_true", help="the time of the counters, too")
    options = parser.parse_args()
    right = count = 0
    print(f"{'':34}{'one call':>12}{'by line':>9}{'native':>8}   without a reason")
    for name, function, args in programs():
        if not any(word in name for word in options.only):
            continue
        lowered = fg.jit(function).lower(*args)
        found = lowered.explain()
        ratio = sum(one.seconds for one in found.operations) / found.seconds
        silent = [
            one.primitive
            for one in found.operations
            if one.source and not one.native and not (one.refusal and one.refusal.reason)
        ]
        count, right = count + 1, right + (LEAST <= ratio <= MOST and not silent)
        cost = f"  {overhead(lowered):.2f}" if options.cost else ""
        figures = f"{seconds(found.seconds):>12}{ratio:9.0%}{found.native:8.0%}"
        print(f"{name:34}{figures}{cost}   {', '.join(silent)}", flush=True)
    print(f"{right} of {count} between {LEAST:.0%} and {MOST:.0%}, each operation with a reason")


if __name__ == "__main__":
    main()
