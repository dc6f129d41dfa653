"""Times of GradBench's functions and derivatives: `python -m benchmarks.gradbench.compare`.

fungrad, JAX and HIPS autograd run the same modules (`peers`), PyTorch its own; each call is waited
for. `first` is the first call, tracing and compilation included; the other columns are medians of
an interleaved run, and `mean` is what GradBench would score: the mean of the repetitions of the
first second, the first call among them. A peer that fails says why. Arguments choose workloads by
the start of their names.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.gradbench import peers
from benchmarks.gradbench.server import functions_of
from benchmarks.gradbench.workloads import workloads

PEERS = ("jax", "torch", "autograd")
SECONDS, ROUNDS, LIMIT = 1.0, 9, 6.0
# What a peer cannot, or would take minutes for.
MISSING = {
    "jax": {"particle rr", "saddle rr"},
    "autograd": {
        "ht small simple 100", "ht big complicated 10000", "particle fr", "particle rr",
        "saddle ff", "saddle rr", "det 10",
    },
}  # fmt: skip


def timed(run: Callable[[], Any]) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    peers.finished(run())
    return time.perf_counter() - start


def measured(runs: dict[str, Callable[[], Any]]) -> dict[str, tuple[float, float, float]]:
    """(first, median, mean of the first second) of each candidate; they take turns."""
    times = {name: [timed(run)] for name, run in runs.items()}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            if sum(times[name]) < LIMIT:
                times[name].append(timed(run))
    figures = {}
    for name, all_times in times.items():
        rest = statistics.median(all_times[1:] or all_times)
        # GradBench repeats until a second has passed: so many calls of the median's length.
        more = max(0, -int(-(SECONDS - all_times[0]) // rest))
        mean = (all_times[0] + more * rest) / (1 + more)
        figures[name] = (all_times[0], rest, mean)
    return figures


def main() -> None:
    """Prints a table, a line for each workload, function and library; in milliseconds."""
    wanted = tuple(sys.argv[1:])
    names = ["fungrad", *(peer for peer in PEERS if peers.installed(peer))]
    for peer in PEERS:
        if peer not in names:
            print(f"{peer} is not installed and left out")
    heads = "".join(f"{name + ' ' + what:>18}" for name in names for what in ("first", "", "mean"))
    print(f"{'ms':26}{'':10}{heads}", flush=True)
    for label, (module, primal, derivative, given) in workloads().items():
        if wanted and not label.startswith(wanted):
            continue
        for function in dict.fromkeys((primal, derivative)):
            runs = {}
            for name in names:
                if label in MISSING.get(name, ()) or not peers.runs(name, module):
                    continue
                table = functions_of(module)
                if name != "fungrad":
                    table = peers.functions(name, module)
                runs[name] = table[function](given)[0]
            figures = measured(runs)
            cells = [
                f"{1e3 * t:18.3f}" if name in figures else f"{'-':>18}"
                for name in names
                for t in figures.get(name, (0.0, 0.0, 0.0))
            ]
            print(f"{label:26}{function:10}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
