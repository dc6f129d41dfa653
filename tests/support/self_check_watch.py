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
from fungrad.rounding.evaluation_time import evaluation_seconds
from fungrad.rounding.perturbed_evaluation import evaluated

TOLERANCE = 1e-6
SECONDS = 1.0
"""Programs that the evaluator would take longer for are not compared."""

counts = {"alarms": 0, "wrong": 0, "runs": 0}


def plainly_wrong(expected: Sequence[Any], found: Sequence[Any], regrouped: bool) -> bool:
    """Whether a number of the outputs is far off. Programs that regroup sums may overflow."""
    for e, f in zip(map(np.asarray, expected), map(np.asarray, found), strict=True):
        if e.dtype.kind == "O":
            continue
        if e.shape != f.shape or e.dtype != f.dtype:
            return True
        if e.dtype.kind not in "fc":
            if not np.array_equal(e, f):
                return True
            continue
        finite = np.isfinite(e)
        if regrouped:
            finite &= np.isfinite(f)
        elif not np.array_equal(finite, np.isfinite(f)):
            return True
        scale = np.max(np.abs(e), initial=0.0, where=finite)
        with np.errstate(all="ignore"):
            if np.any(np.abs(e - f) > TOLERANCE * scale, where=finite):
                return True
    return False


def watched(graph: Graph, program: Callable[..., Any]) -> Callable[..., Any]:
    """A program, each run of which is compared."""

    def run(*args: Any) -> Any:
        found = program(*args)
        if not checked_program._within.get():
            counts["runs"] += 1
            counts["wrong"] += plainly_wrong(evaluated(graph, args), found, graph.reassociates)
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
        return _call(self, *args)
    except MiscompiledError:
        counts["alarms"] += 1
        counts["wrong"] += 1
        raise


def pytest_configure(config: Any) -> None:
    CheckedProgram.__call__ = _watching  # type: ignore[method-assign]


def pytest_unconfigure(config: Any) -> None:
    Path(os.environ["SELF_CHECK_COUNTS"]).write_text(repr(counts))
