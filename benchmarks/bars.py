"""The targets, and whether a run's figures reach them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.cases.case import ELEMENTWISE, LOOP
from benchmarks.libraries import AUTOGRAD, FUNGRAD, HAND, JAX

Ratios = Mapping[str, float]
SHORT = 20e-6
"""Seconds of a call that is mostly overhead."""
NOTHING = {"median": math.inf, "minimum": math.inf}


@dataclass(frozen=True)
class Verdict:
    """One sentence, and whether it holds."""

    text: str
    reached: bool

    def __str__(self) -> str:
        return f"{'reached' if self.reached else 'MISSED ':8} {self.text}"


def geometric_mean(ratios: Iterable[float]) -> float:
    """exp of the mean logarithm."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs))


def ratios(rows: Iterable[Mapping[str, Any]], peer: str, by: str = "median") -> dict[str, float]:
    """fungrad's time over a peer's, for the cases that have both."""
    return {
        row["case"]: row["times"][FUNGRAD][by] / row["times"][peer][by]
        for row in rows
        if peer in row["times"] and FUNGRAD in row["times"]
    }


def mean_below(title: str, found: Ratios, mean: float) -> list[Verdict]:
    """Whether the geometric mean stays below its bar."""
    if not found:
        return []
    average = geometric_mean(found.values())
    name = max(found, key=lambda name: found[name])
    text = (
        f"{title}: geometric mean of {len(found)} cases {average:.2f} (bar {mean}); "
        f"worst {name}, {found[name]:.2f}"
    )
    return [Verdict(text, average <= mean)]


def mean_and_worst(
    title: str, found: Ratios, mean: float, worst: float, short: Ratios | None = None
) -> list[Verdict]:
    """Whether the geometric mean and every single ratio stay below their bars, of which `short`
    has those of single cases.
    """
    if not found:
        return []
    average = geometric_mean(found.values())
    bars = {name: (short or {}).get(name, worst) for name in found}
    above = {name: ratio for name, ratio in found.items() if ratio > bars[name]}
    name = max(found, key=lambda name: found[name] / bars[name])
    listed = ", ".join(f"{n} {r:.2f}" for n, r in sorted(above.items(), key=lambda i: -i[1]))
    return [
        Verdict(
            f"{title}: geometric mean of {len(found)} cases {average:.2f} (bar {mean})",
            average <= mean,
        ),
        Verdict(
            f"{title}: worst {name}, {found[name]:.2f} (bar {bars[name]})"
            + (f"; above it: {listed}" if len(above) > 1 else ""),
            not above,
        ),
    ]


def times_faster(title: str, found: Ratios, factor: float) -> list[Verdict]:
    """Whether fungrad is so many times faster in every case."""
    if not found:
        return []
    name = max(found, key=lambda name: found[name])
    average = geometric_mean(found.values())
    short = sum(1 / ratio < factor for ratio in found.values())
    text = (
        f"{title}: at least {factor:g} times faster; least {name}, {1 / found[name]:.1f}; "
        f"geometric mean {1 / average:.1f}; {short} of {len(found)} below"
    )
    return [Verdict(text, short == 0)]


def of_gradients(rows: list[Mapping[str, Any]], by: str = "median") -> list[Verdict]:
    """The bars of the times of single calls, by medians or by minima."""
    note = "" if by == "median" else "by minima, "
    parallel = [row for row in rows if row["kind"] != LOOP]
    short = [row["case"] for row in rows if row["times"].get(HAND, NOTHING)[by] < SHORT]
    return [
        *mean_and_worst(
            f"{note}over hand-written NumPy",
            ratios(rows, HAND, by),
            0.6,
            1.3,
            dict.fromkeys(short, 2.0),
        ),
        *mean_below(f"{note}over jitted JAX, no tiny loops", ratios(parallel, JAX, by), 0.9),
        *times_faster(
            f"{note}large elementwise gradients against jitted JAX",
            ratios([row for row in rows if row["kind"] == ELEMENTWISE], JAX, by),
            1.5,
        ),
        *times_faster(
            f"{note}loops of tiny bodies against autograd",
            ratios([row for row in rows if row["kind"] == LOOP], AUTOGRAD, by),
            50.0,
        ),
    ]


def of_first(rows: list[Mapping[str, Any]]) -> list[Verdict]:
    """The bar of the first gradient of a process."""
    found = {
        row["case"]: row["times"][FUNGRAD]["seconds"] / row["times"][JAX]["seconds"]
        for row in rows
        if JAX in row["times"]
    }
    return times_faster("time to the first gradient against jitted JAX", found, 4.0)


def of_staging(rows: list[Mapping[str, float]]) -> list[Verdict]:
    """The bars of jit's work before the first run."""
    verdicts = []
    each = {}
    for row in rows:
        seconds = row["trace"] + row["optimise and plan"]
        each[row["equations"]] = seconds / row["equations"]
        if 9_000 <= row["equations"] <= 11_000:
            text = f"{row['equations']:,} equations traced, optimised, planned in {seconds:.2f} s"
            verdicts.append(Verdict(f"{text} (bar 1)", seconds < 1.0))
    if len(each) > 1:
        growth = each[max(each)] / each[min(each)]
        listed = ", ".join(f"{1e6 * t:.0f} us at {n:,}" for n, t in each.items())
        verdicts.append(Verdict(f"staging is linear: an equation takes {listed}", growth < 1.5))
    return verdicts


def of_memory(rows: list[Mapping[str, Any]]) -> list[Verdict]:
    """The bar of the peaks of memory."""
    found = {row["case"]: row[FUNGRAD] / row[HAND] for row in rows}
    return mean_and_worst("peak of memory over hand-written NumPy", found, 1.1, 1.1)
