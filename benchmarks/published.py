"""The ratios to jitted JAX that RESULTS.md publishes, as CSV: `python -m benchmarks.published`.

Each row is a case of a table: fungrad's time, JAX's time, in the unit of that table, and their
ratio. Where a program was measured again, the later pair counts.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("RESULTS.md")
OURS = ("fungrad jit", "native", "NumPy's backend", "fungrad before", "fungrad after")
PEER = "JAX jit"
SUMMARIES = ("geometric mean", "worst", "of the", "above")
"""How rows begin that sum up others."""


class Pair(NamedTuple):
    """A case, timed in both libraries.

    Attributes:
      table: the section, and the number of the table in it.
      case: the case.
      column: what the table calls fungrad's time.
      fungrad: fungrad's time.
      jax: JAX's time, in the same unit.
    """

    table: str
    case: str
    column: str
    fungrad: float
    jax: float

    @property
    def ratio(self) -> float:
        """Below 1 fungrad is faster."""
        return self.fungrad / self.jax


def pairs(text: str) -> Iterator[Pair]:
    """All pairs of the tables that have a column of jitted JAX."""
    numbers: Counter[str] = Counter()
    section = table = ""
    header: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("#"):
            section = line.lstrip("# ")
        if not line.startswith("|"):
            header = []
        elif not header:
            header = cells
            numbers[section] += 1
            table = f"{section}, table {numbers[section]}"
        elif not cells[0].startswith(SUMMARIES):
            yield from _row(table, header, cells)


def _row(table: str, header: list[str], cells: list[str]) -> Iterator[Pair]:
    found: dict[str, Pair] = {}
    for place, column in enumerate(header):
        if column not in OURS or PEER not in header[place:]:
            continue
        ours, peer = (_number(cells[k]) for k in (place, header.index(PEER, place)))
        if ours is not None and peer is not None:
            name = "fungrad jit" if column.startswith("fungrad") else column
            found[name] = Pair(table, cells[0], name, ours, peer)
    yield from found.values()


def _number(cell: str) -> float | None:
    """A time; None where the cell has none."""
    plain = cell.replace(",", "").strip("* us")
    return float(plain) if re.fullmatch(r"[\d.]+", plain) else None


def main() -> None:
    """Prints the rows."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["table", "case", "column", "fungrad", "jax", "ratio"])
    for pair in pairs(FILE.read_text(encoding="utf-8")):
        out.writerow([*pair, f"{pair.ratio:.3g}"])


if __name__ == "__main__":
    main()
