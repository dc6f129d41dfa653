"""A run of a program beside itself with many digits: the true errors of all its values.

Each value is the program's own number and an exact one. Comparisons, integers and indices are those
of the program, so that both take the same path; a comparison that the exact numbers would decide
otherwise is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fungrad.inspect.digits.many_digits import Operations, lifted, mpmath
from fungrad.inspect.digits.opened_loops import OpenedTrace
from fungrad.inspect.source_lines import place_of, text_of
from fungrad.inspect.tables import Table
from fungrad.ir.graph import Source
from fungrad.tracing.provenance import provenance
from fungrad.tracing.trace import Trace, Tracer, typeof
from fungrad.tracing.traced_again import traced

DIGITS = 60
"""The digits of exact numbers."""
SPOILED = 0.1
"""The relative error of a value from which a first-order analysis may be wrong."""


class Branch(NamedTuple):
    """A comparison that exact numbers decide otherwise.

    Attributes:
      source: its line.
      primitive: the comparison.
      numbers: how many numbers it decides otherwise, over all runs of the line.
    """

    source: Source | None
    primitive: str
    numbers: int

    def __str__(self) -> str:
        return (
            f"{place_of(self.source)}: `{self.primitive}` decides otherwise: {text_of(self.source)}"
        )


class Check(NamedTuple):
    """The comparison of an estimate with the truth.

    Attributes:
      outputs: for each output its path, the estimated and the true digits.
      branches: comparisons that exact numbers decide otherwise.
      parted: the line of the first value that has lost all digits, from which on the analysis need
        not hold; None if estimate and truth agree within a digit.
      doubtful: the names of operations that were computed in the program's own precision.
    """

    outputs: tuple[tuple[str, float, float], ...]
    branches: tuple[Branch, ...]
    parted: Source | None
    doubtful: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether each estimate is within a digit of the truth, and no branch differs."""
        return not self.branches and all(abs(e - t) <= 1 for _, e, t in self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data."""
        return {
            "outputs": [
                {"path": path, "estimated": estimated, "true": true}
                for path, estimated, true in self.outputs
            ],
            "branches": list(map(str, self.branches)),
            "parted": None if self.parted is None else str(self.parted),
            "doubtful": list(self.doubtful),
        }

    def tables(self) -> list[Table]:
        """The printed tables."""
        rows = [[path or "result", f"{e:.1f}", f"{t:.1f}"] for path, e, t in self.outputs]
        title = f"check with {DIGITS} digits"
        tables = [Table(title, ["output", "estimated", "true"], rows, frozenset((1, 2)))]
        notes = [[str(branch)] for branch in self.branches]
        if self.parted is not None:
            where = f"{place_of(self.parted)}: {text_of(self.parted)}"
            notes.append([f"estimate and truth part at {where}"])
        if self.doubtful:
            notes.append([f"computed in the program's own precision: {', '.join(self.doubtful)}"])
        if notes:
            tables.append(Table("notes", ["note"], notes))
        return tables


class ExactTrace(OpenedTrace):
    """Runs a program, and each of its operations again with many digits."""

    __slots__ = ("branches", "operations", "spoiled")

    def __init__(self, parent: Trace, label: Callable[[], str]) -> None:
        super().__init__(parent, label)
        self.operations = Operations()
        self.branches: dict[tuple[Source | None, str], int] = {}
        self.spoiled: Source | None = None
        """The line of the first value that has lost all digits."""

    def tracer(self, value: Any, exact: Any = None) -> Tracer:
        """A value of the program, with its exact one (the same if it is None)."""
        return Tracer(self, value, lifted(value) if exact is None else exact)

    def operation(self, primitive: Any, args: Any, params: Any, mine: Sequence[bool]) -> Any:
        values = [arg.inner if own else arg for arg, own in zip(args, mine, strict=True)]
        exact = [arg.extra if own else _exact(arg) for arg, own in zip(args, mine, strict=True)]
        parent: Trace = self.parent  # type: ignore[assignment]
        output = parent.process(primitive, values, params)
        outputs = tuple(output) if primitive.multiple else (output,)
        if not any(typeof(o).inexact for o in outputs):
            self._compare(primitive, exact, params, output)
            return output
        results = self.operations.apply(primitive, exact, params, outputs)
        made = []
        for value, true in zip(outputs, results, strict=True):
            if not typeof(value).inexact:
                made.append(value)
                continue
            if self.spoiled is None and relative_error(value, true) > SPOILED:
                self.spoiled = provenance().source
            made.append(self.tracer(value, true))
        return tuple(made) if primitive.multiple else made[0]

    def _compare(self, primitive: Any, exact: Any, params: dict[str, Any], output: Any) -> None:
        """Records a comparison that exact numbers decide otherwise."""
        if primitive.partials is None or params:
            return
        try:
            true = primitive.eval(*exact)
        except (TypeError, ValueError):  # not defined for numbers of mpmath (isnan)
            return
        others = int(np.sum(np.asarray(true, bool) != np.asarray(output, bool)))
        if others:
            key = (provenance().source, primitive.name)
            self.branches[key] = self.branches.get(key, 0) + others


def _exact(value: Any) -> Any:
    return lifted(value) if typeof(value).inexact else value


def relative_error(value: Any, exact: Any) -> float:
    """The distance from an exact value over its size: roots of sums of squares."""
    mp = mpmath()
    numbers, true = (np.asarray(x, object).ravel() for x in (lifted(value), exact))
    pairs = list(zip(numbers, true, strict=True))
    size = mp.sqrt(mp.fsum(abs(y) ** 2 for _, y in pairs))
    error = mp.sqrt(mp.fsum(abs(x - y) ** 2 for x, y in pairs))
    if mp.isnan(error):
        return 0.0 if mp.isnan(size) else float("inf")
    if not error:
        return 0.0
    return float(error / size) if size else float("inf")


def exact_errors(
    flat: Callable[[Sequence[Any]], Sequence[Any]],
    leaves: Sequence[Any],
    active: Sequence[bool],
    label: Callable[[], str],
    parent: Trace,
) -> tuple[list[float], ExactTrace]:
    """The relative error of each inexact output of a function of flat arguments, and the trace."""
    mp = mpmath()
    with mp.workdps(DIGITS):
        trace = ExactTrace(parent, label)
        given = [trace.tracer(x) if a else x for x, a in zip(leaves, active, strict=True)]
        outputs = traced(lambda: trace.run(flat, given), label, flat)
        errors = []
        for output in outputs:
            if typeof(output).inexact:
                mine = type(output) is Tracer and output.owner is trace
                errors.append(relative_error(output.inner, output.extra) if mine else 0.0)
        return errors, trace
