"""Perturbed runs of the Graph of a program: how far rounding may move its results.

A compiled program may differ from NumPy only as documented: functions within a few units in the
last place, sums in another order, BLAS and LAPACK by their own rounding. Moves, comparisons,
elementwise sums, products, quotients and roots, and integers, have to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from fungrad.control_flow import call as call_module
from fungrad.control_flow.call import Backend, use
from fungrad.rounding.evaluation_time import TooLong, evaluated
from fungrad.rounding.perturbed_evaluation import PerturbedRuns

SECONDS = 20.0
"""The time limit of the perturbed runs of one Graph, since loops over large arrays are interpreted.
"""


class Outcome(Exception):
    """Ends an oracle early: there is nothing to compare."""


@contextmanager
def running_on(backend: Backend) -> Iterator[None]:
    """Runs Graphs by a backend within the context."""
    before = call_module._backend
    use(backend)
    try:
        yield
    finally:
        use(before)


def reference() -> AbstractContextManager[None]:
    """Runs Graphs, also those of loops, by the evaluator within the context."""
    return running_on(Backend())


class Spread:
    """The results of perturbed runs of a Graph, made at first use.

    With `loose`, elementwise sums and products are moved, too, as by another order of terms.
    """

    def __init__(self, graph: Any, args: Sequence[Any], loose: bool = False) -> None:
        self.graph, self.args = graph, args
        self._perturbed = PerturbedRuns(graph, args, loose, SECONDS)
        self._base: list[Any] | None = None

    def results(self, count: int) -> list[list[Any]]:
        """The first `count` runs; the first one is not perturbed."""
        if self._base is None:
            self._base = list(map(np.asarray, evaluated(self.graph, self.args)))
        try:
            return [self._base, *map(list, self._perturbed.first(count - 1))]
        except TooLong:
            raise Outcome("perturbed runs take too long") from None
