"""A plugin of pytest that counts the alarms of the compiler's self-check in a run of tests, and the
runs of compiled programs whose numbers are plainly wrong.

`python -m tests.mutation_compiler --self-check` runs it with each mutant. Every run of a program,
not the first one alone, is compared with the evaluator: a number is plainly wrong if it is off by a
millionth of the largest number of its output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fungrad.compiler.self_check import checked_program
from fungrad.compiler.self_check.checked_program import CheckedProgram
from fungrad.errors import MiscompiledError
from fungrad.ir.graph import Graph
from fungrad.rounding.evaluation_time import evaluated, evaluation_seconds

TOLERANCE = 1e-6
ULP = 64.0
"""The same in units of single and half precision: of kernels, and of rounded sums."""
SECONDS = 1.0
"""Programs that the evaluator would take longer for are not compared."""

counts = {"alarms": 0, "wrong": 0, "runs": 0}


def _go_on() -> None:
    """What follows an alarm."""


at_alarm: Callable[[], None] = _go_on


def plainly_wrong(expected: Sequence[Any], found: Sequence[Any], regrouped: bool) -> bool:
    """Whether a number of the outputs is far off. Programs that regroup sums may overflow, and all
    of them close to the largest number.
    """
    for e, f in zip(map(np.asarray, expected), map(np.asarray, found), strict=True):
        if e.dtype.kind == "O":
            continue
        if e.shape != f.shape or e.dtype != f.dtype:
            return True
        if e.dtype.kind not in "fc":
            if not np.array_equal(e, f):
                return True
            continue
        finite = np.isfinite(e) & np.isfinite(f)
        with np.errstate(all="ignore"):
            large = (np.abs(e) > 0.9 * np.finfo(e.dtype).max) & (np.abs(f) > np.abs(e) * 0.9)
            large |= (np.abs(f) > 0.9 * np.finfo(e.dtype).max) & (np.abs(e) > np.abs(f) * 0.9)
            if not regrouped and np.any((np.isfinite(e) != np.isfinite(f)) & ~large):
                return True
            scale = np.max(np.abs(e), initial=0.0, where=finite)
            tolerance = max(TOLERANCE, ULP * float(np.finfo(e.dtype).eps))
            if np.any(np.abs(e - f) > tolerance * scale, where=finite & ~large):
                return True
    return False


def _compare(graph: Graph, args: Sequence[Any], found: Sequence[Any]) -> None:
    counts["runs"] += 1
    counts["wrong"] += plainly_wrong(evaluated(graph, args), found, graph.reassociates)


def watched(graph: Graph, program: Callable[..., Any]) -> Callable[..., Any]:
    """A program, each run of which is compared."""

    def run(*args: Any) -> Any:
        found = program(*args)
        if not checked_program._within.get():
            _compare(graph, args, found)
        return found

    return run


_call = CheckedProgram.__call__


def _watching(self: CheckedProgram, *args: Any) -> Any:
    if checked_program._within.get():
        return self.program(*args)
    comparable = not self.graph.effectful and evaluation_seconds(self.graph) < SECONDS
    settle = self._settle
    if comparable:
        self._settle = lambda program: settle(watched(self.graph, program))
    try:
        found = _call(self, *args)
    except MiscompiledError:
        counts["alarms"] += 1
        counts["wrong"] += 1
        at_alarm()
        raise
    if comparable:
        _compare(self.graph, args, found)
    return found


def pytest_configure(config: Any) -> None:
    CheckedProgram.__call__ = _watching  # type: ignore[method-assign]


def pytest_unconfigure(config: Any) -> None:
    if "SELF_CHECK_COUNTS" in os.environ:
        Path(os.environ["SELF_CHECK_COUNTS"]).write_text(repr(counts))
