"""How two results of a Graph differ, and what a check of many comes to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.replay.corpus import Observation

FAR = math.inf
SHOWN = 12


@dataclass(frozen=True)
class Difference:
    """What differs in one mode of one Graph, and by how many units in the last place of the
    largest element: infinite where it is no matter of rounding.
    """

    name: str
    mode: str
    ulp: float
    text: str

    def __str__(self) -> str:
        return f"{self.name} [{self.mode}]: {self.text}"


def distance(old: Any, new: Any) -> tuple[int, float, float]:
    """How many elements are not the same bits, and how far apart they are: in units in the last
    place of each, and of the largest. NaN is NaN, whatever its payload.
    """
    if old.dtype.kind == "c":
        parts = distance(old.real, new.real), distance(old.imag, new.imag)
        return sum(p[0] for p in parts), max(p[1] for p in parts), max(p[2] for p in parts)
    if old.dtype.kind != "f":
        count = int(np.sum(old != new))
        return count, *(FAR if count else 0.0,) * 2
    same = (old == new) & (np.signbit(old) == np.signbit(new)) | np.isnan(old) & np.isnan(new)
    if np.all(same):
        return 0, 0.0, 0.0
    finite = np.isfinite(old) & np.isfinite(new)
    count = int(np.sum(~same))
    if not np.all(finite[~same]):
        return count, FAR, FAR
    with np.errstate(all="ignore"):
        a, b = old[finite], new[finite]
        apart = np.abs(a - b)  # infinite where they are huge and of opposite signs
        each = float(np.max(apart / np.spacing(np.maximum(np.abs(a), np.abs(b)))))
        largest = float(np.max(apart) / np.spacing(np.max(np.abs(a))))
    return count, each, largest


def differences(name: str, mode: str, old: Observation, new: Observation) -> list[Difference]:
    """What of two observations differs: errors, numbers and types of outputs, bits, warnings."""
    if old.error != new.error:
        text = f"{old.error or 'no error'} before, {new.error or 'no error'} now"
        return [Difference(name, mode, FAR, text)]
    if len(old.outputs) != len(new.outputs):
        text = f"{len(old.outputs)} outputs before, {len(new.outputs)} now"
        return [Difference(name, mode, FAR, text)]
    found = []
    for i, (a, b) in enumerate(zip(old.outputs, new.outputs, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            text = f"output {i} is {b.dtype}{list(b.shape)}, was {a.dtype}{list(a.shape)}"
            found.append(Difference(name, mode, FAR, text))
            continue
        count, each, largest = distance(a, b)
        if count:
            text = f"output {i}, {a.dtype}{list(a.shape)}: {count} of {a.size} differ"
            text += f", by {each:.3g} ulp" if largest < FAR else f": {b.flat[:3]} was {a.flat[:3]}"
            text += f" ({largest:.3g} of the largest)" if largest < FAR else ""
            found.append(Difference(name, mode, largest, text))
    return found


def warned(name: str, mode: str, old: Observation, new: Observation) -> list[str]:
    """The warnings that came or went."""
    gone, come = set(old.warnings) - set(new.warnings), set(new.warnings) - set(old.warnings)
    return [
        f"{name} [{mode}]: {what} {text}"
        for what, texts in (("new:", come), ("gone:", gone))
        for text in sorted(texts)
    ]


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean; NaN of nothing."""
    logs = [math.log(ratio) for ratio in ratios if ratio > 0]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


@dataclass
class Report:
    """What a check found."""

    differences: list[Difference] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    restaged: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    facts: dict[tuple[str, str], list[tuple[str, float, float]]] = field(default_factory=dict)
    """By mode and fact: names with the values before and now."""

    def add(self, name: str, mode: str, old: Observation, new: Observation) -> None:
        """Counts one mode of one Graph."""
        self.checked[mode] += 1
        self.differences += differences(name, mode, old, new)
        self.warnings += warned(name, mode, old, new)
        for fact in old.facts.keys() & new.facts.keys():
            row = name, old.facts[fact], new.facts[fact]
            self.facts.setdefault((mode, fact), []).append(row)

    def beyond(self, ulp: float) -> list[Difference]:
        """What differs by more than so many units of the largest element, the worst first."""
        return sorted((d for d in self.differences if d.ulp > ulp), key=lambda d: -d.ulp)

    def lines(self, ulp: float = 0.0, shown: int = SHOWN) -> list[str]:
        """The report as text."""
        lines = []
        for mode, count in self.checked.items():
            other = {d.name for d in self.differences if d.mode == mode}
            far = {d.name for d in self.beyond(ulp) if d.mode == mode}
            allowed = f", {len(far)} by more than {ulp:g} ulp" if ulp else ""
            lines.append(f"{mode}: {count - len(other)} of {count} are the same bits{allowed}")
        lines += _listed("differences", list(map(str, self.beyond(ulp))), shown)
        lines += _listed("warnings", self.warnings, shown)
        lines += _listed("staged again from their programs", self.restaged, 3)
        lines += _listed("neither readable nor staged", self.lost, shown)
        for (mode, fact), rows in sorted(self.facts.items()):
            lines += _counted(mode, fact, rows) if fact in ("equations", "text") else []
        for (mode, fact), rows in sorted(self.facts.items()):
            if fact in ("compile", "run"):
                ratio = mean(new / old for _, old, new in rows)
                lines.append(f"{mode}, CPU time to {fact}: {ratio:.3f} of that of the recording")
        return lines


def _counted(mode: str, fact: str, rows: Sequence[tuple[str, float, float]]) -> list[str]:
    before, now = sum(row[1] for row in rows), sum(row[2] for row in rows)
    other = sorted((row for row in rows if row[1] != row[2]), key=lambda r: -abs(r[2] - r[1]))
    line = f"{mode}, {fact}: {before:.0f} before, {now:.0f} now; other in {len(other)}"
    return [line, *(f"  {name}: {old:.0f}, now {new:.0f}" for name, old, new in other[:4])]


def _listed(title: str, texts: Sequence[str], shown: int) -> list[str]:
    if not texts:
        return []
    rest = [f"  and {len(texts) - shown} more"] if len(texts) > shown else []
    return [f"{title}: {len(texts)}", *(f"  {text}" for text in texts[:shown]), *rest]
