"""Interleaved timing: the candidates take turns, so that a drifting machine drifts for all of
them.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

LEAST = 3
"""Rounds that even the slowest candidate takes part in."""


def settle(seconds: float = 0.3) -> bool:
    """Waits until no other thread of this process works, but no longer than so many seconds.

    Threads of a BLAS look for work for 0.1 s after a product: what runs meanwhile has a core less,
    which would be booked to the candidate behind. Returns whether there was something to wait for.
    """
    waited = False
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        work, start = time.process_time(), time.perf_counter()
        time.sleep(0.01)
        if time.process_time() - work < 0.5 * (time.perf_counter() - start):
            break
        waited = True
    return waited


def sampled(
    candidates: Mapping[str, Callable[[], Any]],
    rounds: int = 40,
    seconds: float = 0.004,
    budget: float = math.inf,
) -> dict[str, list[float]]:
    """The times of one call of each candidate, in seconds, one for each round it took part in.

    Each candidate runs in bursts of about `seconds`, one burst of each in turn, `rounds` times. One
    that would take longer than `budget` seconds for that sits some rounds out. Behind one that
    leaves threads at work the next burst begins when they are at rest, with a call that does not
    count, so that its own threads are awake as in a program of its own.
    """
    repeats, turns, restless = {}, {}, {}
    for name, call in candidates.items():
        call()
        start = time.perf_counter()
        call()
        once = max(time.perf_counter() - start, 1e-7)
        repeats[name] = max(1, int(seconds / once))
        afforded = budget / (repeats[name] * once)
        turns[name] = rounds if afforded >= rounds else max(LEAST, int(afforded))
        restless[name] = settle()
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    gc.collect()
    disturbed = False
    for i in range(rounds):
        for name, call in candidates.items():
            if (i + 1) * turns[name] // rounds == i * turns[name] // rounds:
                continue
            if disturbed:
                settle()
                call()
            disturbed = restless[name]
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            samples[name].append((time.perf_counter() - start) / repeats[name])
    return samples


def interleaved(
    candidates: Mapping[str, Callable[[], Any]], rounds: int = 40, seconds: float = 0.004
) -> dict[str, float]:
    """The median time of one call of each candidate, in seconds: see `sampled`."""
    samples = sampled(candidates, rounds, seconds)
    return {name: statistics.median(values) for name, values in samples.items()}


def least_cpu_times(calls: Sequence[Callable[[], Any]], rounds: int, seconds: float) -> list[float]:
    """The least CPU time of one call of each, in seconds: each runs in bursts of about `seconds`,
    which take turns.
    """
    best = [math.inf] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            call()
            count, start = 0, time.process_time()
            while (spent := time.process_time() - start) < seconds:
                call()
                count += 1
            best[i] = min(best[i], spent / count)
    return best


def table(title: str, times: Mapping[str, float], unit: str) -> str:
    """The times and their ratios to the candidate `unit`, as text."""
    lines = [title, f"  {'':24}{'median us':>12}{'ratio':>10}"]
    for name, seconds in times.items():
        lines.append(f"  {name:24}{seconds * 1e6:12.2f}{seconds / times[unit]:10.2f}")
    return "\n".join(lines)
