"""Many programs: draws them, judges them, counts, and keeps the disagreements."""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import fungrad as fg

from .case import Case, Outcome
from .generate import FOR_COMPILER, for_compiler, generate
from .minimise import minimise
from .oracle_compiler import COMPILER
from .oracle_native import NATIVE
from .oracles import ORACLES, drawn, judge
from .program import Program

CLEAR = 100  # programs between two clearings of the caches


@dataclass(frozen=True)
class Disagreement:
    """A program, the oracle that it fails, and the oracle's message."""

    seed: str
    oracle: str
    message: str
    program: Program

    def __reduce__(self) -> Any:
        """Processes pass only the seed, which determines the program."""
        return _of_seed, (self.seed, self.oracle, self.message)

    @property
    def kind(self) -> str:
        return kind_of(self.message)

    def minimised(self, seconds: float = 20.0) -> Disagreement:
        """The same disagreement in a smaller program."""

        def holds(program: Program) -> bool:
            return kind_of(verdict(self.oracle, program, self.seed)) == self.kind

        program = minimise(self.program, holds, seconds)
        return Disagreement(
            self.seed, self.oracle, verdict(self.oracle, program, self.seed), program
        )

    def __str__(self) -> str:
        return (
            f"# program {self.seed}, oracle {self.oracle!r}: {self.message}\n"
            "import numpy as np\nimport fungrad as fg\nfrom fungrad import lax\n"
            "from tests.fuzz.inputs import LAYOUTS, arrivals\n\n"
            "WAYS, at = arrivals.WAYS, fg.numpy.at\n"
            f"{self.program}"
        )


def kind_of(message: str) -> str:
    """The kind of a message; those with the same likely cause have the same kind."""
    words = message.split()
    if not words:
        return ""
    if words[0] == "raises":
        return " ".join(words[:2])
    if words[0] == "a":
        return message
    if words[0] == "no":
        return "no error"
    if words[0] == "output" and "[" in words[-1]:
        return "another type"
    return "another number"


def verdict(oracle: str, program: Program, seed: str) -> str:
    """The message of an oracle for a program; "" if it does not apply."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return judge(oracle, Case(program, seed))
        except Outcome:
            return ""


def _of_seed(seed: str, oracle: str, message: str) -> Disagreement:
    return Disagreement(seed, oracle, message, generate(seed))


@dataclass
class Tally:
    """The counts of a campaign, and its disagreements."""

    programs: int = 0
    large: int = 0
    seconds: float = 0.0
    families: Counter[str] = field(default_factory=Counter)
    oracles: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: list[Disagreement] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.programs += other.programs
        self.large += other.large
        self.seconds += other.seconds
        self.families += other.families
        self.oracles += other.oracles
        self.found += other.found

    def __str__(self) -> str:
        lines = [
            f"{self.programs} programs, {self.large} of them large, "
            f"{1000 * self.seconds / max(self.programs, 1):.1f} ms of CPU each, "
            f"{len(self.found)} disagreements"
        ]
        lines.append("steps: " + ", ".join(f"{n} {c}" for n, c in self.families.most_common()))
        for name in ORACLES:
            counts = {how: self.oracles[name, how] for how in ("agree", "skipped", "disagree")}
            if any(counts.values()):
                shown = ", ".join(f"{count} {how}" for how, count in counts.items())
                lines.append(f"  {name:17} {shown}")
        return "\n".join(lines)


def seeds(
    seed: str, start: int, count: int, step: int = 1, compiler: bool = False
) -> Iterator[str]:
    """The seeds of the programs of a campaign."""
    ending = FOR_COMPILER if compiler else ""
    return (f"{seed}-{i}{ending}" for i in range(start, count, step))


def campaign(
    each: Iterator[str], seconds: float = float("inf"), oracles: int = 2, native: bool = False
) -> Tally:
    """Runs the programs of some seeds until the end of the seeds or of the time."""
    tally, end, begun = Tally(), time.monotonic() + seconds, time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in each:
            if time.monotonic() > end:
                break
            one(seed, tally, oracles, native)
            if tally.programs % CLEAR == 0:
                fg.clear_caches()
    tally.seconds = time.process_time() - begun
    return tally


def share(
    seed: str, start: int, stop: int, step: int, seconds: float, oracles: int, compiler: bool,
    native: bool,
) -> Tally:  # fmt: skip
    """The part of one process in a campaign."""
    fg.config.backend = "numpy"  # oracles of native code choose it
    fg.config.verify = "first"
    os.environ["FUNGRAD_STRICT"] = "1"  # alarms of the self-check are disagreements
    return campaign(seeds(seed, start, stop, step, compiler), seconds, oracles, native)


def names_for(seed: str, native: bool) -> tuple[str, ...]:
    """The oracles for a program for the compiler; none for other programs."""
    return NATIVE if native else COMPILER if for_compiler(seed) else ()


def one(seed: str, tally: Tally, oracles: int, native: bool = False) -> None:
    """Runs one program, and counts it."""
    program = generate(seed)
    case = Case(program, seed)
    tally.programs += 1
    tally.large += program.large
    tally.families.update(step.family for step in program.steps)
    names = names_for(seed, native) or drawn(program, Random(seed), oracles)
    for name in names:
        try:
            message = judge(name, case)
        except Outcome:
            tally.oracles[name, "skipped"] += 1
            continue
        tally.oracles[name, "disagree" if message else "agree"] += 1
        if message:
            tally.found.append(Disagreement(seed, name, message, program))
