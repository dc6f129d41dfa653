"""The report of fg.digits: digits of each output, and the lines that lose them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fungrad.inspect.digits.error_sweep import DRIFT, INHERITED, LOST, VARIANCE, WEIGHT
from fungrad.inspect.digits.page import html, plot
from fungrad.inspect.digits.single_precision import Single
from fungrad.inspect.source_lines import shortened, text_of
from fungrad.inspect.tables import Table, drawn, plain

SHOWN = 12
"""The number of printed lines."""


class Line(NamedTuple):
    """What one line of the program does to the digits of the result.

    Attributes:
      file, line, text: the line; line 0 if the place is not known.
      primitive: the operation that loses most there.
      share: the part of the expected error (squared) of the result that is made by roundings of
        this line.
      lost: the digits that earlier errors lose on this line: the logarithm of how much more they
        count in the result than errors of the same relative size in the result of the line.
      condition: the condition number of that operation: the relative change of its result for a
        relative change of 1 of its operands.
    """

    file: str
    line: int
    text: str
    primitive: str
    share: float
    lost: float
    condition: float

    @property
    def place(self) -> str:
        """The name of the file and the number of the line."""
        return f"{Path(self.file).name}:{self.line}" if self.file else "(no line)"


class Output(NamedTuple):
    """The digits of one output.

    Attributes:
      path: its place in the result of the function; empty if that is the only one.
      value: the output.
      digits: the expected number of correct decimal digits; of an array, relative to the root of
        its sum of squares.
      error: the expected error: the root of its mean square over random roundings; of an array,
        the root of the sum over its elements.
      elements: the digits of each element relative to itself, if the output has few; else None.
    """

    path: str
    value: Any
    digits: float
    error: float
    elements: Any


@dataclass(frozen=True)
class Digits:
    """The result of `fg.digits(f)(*args)`; it prints as tables.

    Attributes:
      name: of the function.
      outputs: the digits of each inexact output.
      lines: the lines that round or lose digits, the worst first.
      advice: what to write instead, where a cause is known.
      remarks: operations whose inner roundings are not known, and not counted.
      check: the comparison with a run in higher precision, with `check=True`; else None.
    """

    name: str
    outputs: tuple[Output, ...]
    lines: tuple[Line, ...]
    advice: tuple[Any, ...] = ()
    remarks: tuple[str, ...] = ()
    check: Any = None
    program: Any = field(default=None, repr=False, compare=False)

    @property
    def digits(self) -> float:
        """The digits of the worst output."""
        return min((output.digits for output in self.outputs), default=math.inf)

    def single(self, tolerance: float) -> Single:
        """The lines that could compute in single precision for a wanted relative accuracy.

        Args:
          tolerance: the relative error that the worst output may have.

        Returns:
          A `Single`, which has been tried: the program ran with these lines rounded.

        Raises:
          ArgumentError: if the program does not compute in doubles.

        >>> import numpy as np, fungrad as fg
        >>> report = fg.digits(lambda x: np.sum(np.exp(x)))(np.ones(5))
        >>> len(report.single(1e-5).single), len(report.single(1e-12).single)
        (1, 0)
        """
        single: Single = self.program(tolerance)
        return single

    def plot(self, ax: Any = None) -> Any:
        """Plots the source with a bar of lost digits at each line, by Matplotlib (extra `viz`).

        Args:
          ax: Matplotlib's axes; by default new ones.

        Returns:
          The axes.
        """
        return plot(f"digits of {self.name}", self.lines, ax)

    def _repr_html_(self) -> str:
        return html(f"digits of {self.name}", repr(self), self.lines)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "name": self.name,
            "digits": self.digits,
            "outputs": [
                {
                    "path": o.path,
                    "digits": o.digits,
                    "error": o.error,
                    "elements": None if o.elements is None else np.asarray(o.elements).tolist(),
                }
                for o in self.outputs
            ],
            "lines": [line._asdict() for line in self.lines],
            "advice": [a._asdict() for a in self.advice],
            "remarks": list(self.remarks),
            "check": None if self.check is None else self.check.to_dict(),
        }

    def tables(self) -> list[Table]:
        """The printed tables."""
        rows = [[o.path or "result", f"{o.digits:.1f}", _error(o), _worst(o)] for o in self.outputs]
        header = ["output", "digits", "expected error", "worst element"]
        right = frozenset((1, 2))
        if not any(row[3] for row in rows):
            header, rows = header[:3], [row[:3] for row in rows]
        tables = [Table("expected correct digits", header, rows, right)]
        lines = [
            [
                line.place,
                f"{line.lost:.1f}",
                f"{line.share:.1%}",
                f"{line.condition:.2g}" if line.condition else "",
                line.primitive,
                shortened(line.text, 50),
            ]
            for line in self.lines[:SHOWN]
        ]
        header = ["line", "digits lost", "share of error", "condition", "operation", "source"]
        tables.append(Table("lines", header, lines, frozenset((1, 2, 3))))
        if self.advice:
            rows = [[advice.place, str(advice)] for advice in self.advice]
            tables.append(Table("what to write instead", ["line", "advice"], rows))
        if self.remarks:
            tables.append(Table("remarks", ["remark"], [[remark] for remark in self.remarks]))
        if self.check is not None:
            tables += self.check.tables()
        return tables

    def __repr__(self) -> str:
        return plain(f"digits of {self.name}", self.tables())

    def __rich__(self) -> Any:
        return drawn(f"digits of {self.name}", self.tables())


def _error(output: Output) -> str:
    return f"{output.error:.2g}"


def _worst(output: Output) -> str:
    if output.elements is None or not np.ndim(output.elements):
        return ""
    digits = np.asarray(output.elements)
    index = tuple(map(int, np.unravel_index(int(np.argmin(digits)), digits.shape)))
    return f"[{', '.join(map(str, index))}]: {digits[index]:.1f}"


def full_digits(dtype: Any) -> float:
    """The digits of a correctly rounded number."""
    return -math.log10(float(np.finfo(dtype).eps) / 2)


MEAN_LOGARITHM = 0.276
"""Minus the mean of the decimal logarithm of the size of a standard normal number."""


def digits_of(relative: Any, dtype: Any) -> Any:
    """The expected digits for an expected relative error."""
    full = full_digits(dtype)
    with np.errstate(all="ignore"):
        digits = MEAN_LOGARITHM - np.log10(relative)
    return np.clip(np.where(np.isnan(digits), 0.0, digits), 0.0, full)


def lines_of(sites: Sequence[tuple[Any, Any]], loss: float) -> tuple[Line, ...]:
    """The lines of the sites with their sums (see error_sweep), the worst first.

    Args:
      sites: pairs of a site and its sums.
      loss: the digits that the result has lost, the most that a line can have lost.
    """

    by_line: dict[Any, list[tuple[Any, Any]]] = {}
    for site, sums in sites:
        key = None if site.source is None else (site.source.file, site.source.line)
        by_line.setdefault(key, []).append((site, sums))
    variances = {
        key: sum(max(s[VARIANCE], s[DRIFT]) for _, s in found) for key, found in by_line.items()
    }
    total = sum(variances.values())
    lines = []
    for key, found in by_line.items():
        costs = [min(s[LOST], _digits(s[INHERITED])) for _, s in found]
        most = max(_digits(s[INHERITED]) for _, s in found)
        lost = max(0.0, min(sum(costs), most, loss))
        if lost > 0.3:
            site, sums = found[int(np.argmax(costs))]
        else:
            site, sums = max(found, key=lambda pair: max(pair[1][VARIANCE], pair[1][DRIFT]))
        condition = math.sqrt(sums[INHERITED] / sums[WEIGHT]) if sums[WEIGHT] else 0.0
        share = variances[key] / total if total else 0.0
        file, number = key or ("", 0)
        lines.append(
            Line(
                file,
                number,
                text_of(site.source),
                site.primitive,
                float(share),
                float(lost),
                float(condition),
            )
        )
    lines = [line for line in lines if line.share or line.lost]
    return tuple(sorted(lines, key=_rank(lines, loss), reverse=True))


def _rank(lines: Sequence[Line], loss: float) -> Any:
    """By lost digits if these explain half of the loss; else by the share of the error."""
    if sum(line.lost for line in lines) >= max(0.5 * loss, 0.5):
        return lambda line: (round(line.lost, 1), line.share)
    return lambda line: (line.share, line.lost)


def _digits(weight: float) -> float:
    return 0.5 * math.log10(weight) if weight > 1 else 0.0
