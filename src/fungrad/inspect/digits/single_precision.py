"""Which lines of a program could compute in single precision, for a wanted accuracy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.inspect.digits.opened_loops import OpenedTrace
from fungrad.inspect.source_lines import place_of, text_of
from fungrad.inspect.tables import Table, plain
from fungrad.ir.graph import Source
from fungrad.primitives.facts import EXACT, rounding_of
from fungrad.support.lazy import Record
from fungrad.tracing.provenance import provenance
from fungrad.tracing.trace import Trace, Tracer, typeof
from fungrad.tracing.traced_again import traced

RATIO = float(np.finfo(np.float32).eps / np.finfo(np.float64).eps)
"""How much larger the rounding errors of single precision are."""
Key = tuple[str, int]
"""The file and the number of a line."""


class PrecisionTrace(OpenedTrace):
    """Runs a program, and rounds the results of operations on some lines to single precision."""

    __slots__ = ("lines",)

    def __init__(self, parent: Trace, label: Callable[[], str], lines: frozenset[Key]) -> None:
        super().__init__(parent, label)
        self.lines = lines

    def operation(self, primitive: Any, args: Any, params: Any, mine: Sequence[bool]) -> Any:
        parent: Trace = self.parent  # type: ignore[assignment]
        source = provenance().source
        rounds = source is not None and (source.file, source.line) in self.lines
        values = [arg.inner if own else arg for arg, own in zip(args, mine, strict=True)]
        if rounds and rounding_of(primitive) != EXACT:
            values = list(map(to_single, values))
        output = parent.process(primitive, values, params)
        outputs = tuple(output) if primitive.multiple else (output,)
        made = tuple(
            [
                Tracer(self, to_single(o) if rounds else o, None) if typeof(o).inexact else o
                for o in outputs
            ]
        )
        return made if primitive.multiple else made[0]


def to_single(value: Any) -> Any:
    """A value of doubles, with its numbers rounded to single precision."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fc":
        single = np.complex64 if value.dtype.kind == "c" else np.float32
        return value.astype(single).astype(value.dtype)
    return float(np.float32(value)) if type(value) is float else value


class Single(Record):
    """The lines that may compute in single precision: the result of `report.single(tolerance)`.

    Attributes:
      tolerance: the wanted relative accuracy.
      single: the lines that may be of single precision, as sources.
      double: those that have to stay in double precision, the most sensitive first.
      expected: the expected relative error of the worst output.
      measured: its largest relative error found by rounding the lines in a run.
    """

    tolerance: float
    single: tuple[Source, ...]
    double: tuple[Source, ...]
    expected: float
    measured: float

    def __repr__(self) -> str:
        rows = [[place_of(s), "float32", text_of(s)] for s in self.single]
        rows += [[place_of(s), "float64", text_of(s)] for s in self.double]
        title = (
            f"precision for a relative error of {self.tolerance:.1e}: "
            f"expected {self.expected:.1e}, measured {self.measured:.1e}"
        )
        return plain(title, [Table("lines", ["line", "dtype", "source"], rows)])


def single_lines(
    variances: Mapping[Source, float],
    tolerance: float,
    run: Callable[[frozenset[Key]], float],
) -> Single:
    """The largest set of lines whose rounding to single precision keeps the tolerance.

    Args:
      variances: the expected squared relative error that each line makes in double precision.
      tolerance: the wanted relative accuracy.
      run: the relative error of a run in which the lines are rounded.
    """
    order = sorted(variances, key=lambda source: variances[source])
    double = sum(variances.values())
    chosen: list[Source] = []
    total = double
    for source in order:
        more = variances[source] * RATIO**2
        if total + more > tolerance**2:
            break
        total += more
        chosen.append(source)
    measured = run(frozenset(map(_key, chosen)))
    while chosen and measured > tolerance:  # first-order estimates are not bounds
        total -= variances[chosen.pop()] * RATIO**2
        measured = run(frozenset(map(_key, chosen)))
    rest = [source for source in reversed(order) if source not in chosen]
    expected = float(np.sqrt(max(total, double)))
    return Single(tolerance, tuple(chosen), tuple(rest), expected, measured)


def _key(source: Source) -> Key:
    return (source.file, source.line)


def rounded_run(
    flat: Callable[[Sequence[Any]], Sequence[Any]],
    leaves: Sequence[Any],
    active: Sequence[bool],
    label: Callable[[], str],
    parent: Trace,
    lines: frozenset[Key],
) -> list[Any]:
    """The outputs of a function of flat arguments with some lines in single precision."""
    trace = PrecisionTrace(parent, label, lines)
    given = [Tracer(trace, x, None) if a else x for x, a in zip(leaves, active, strict=True)]
    with np.errstate(all="ignore"):
        outputs = traced(lambda: trace.run(flat, given), label, flat)
    return [o.inner if type(o) is Tracer and o.owner is trace else o for o in outputs]
