"""Tables of texts, as plain lines or as rich draws them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Table(NamedTuple):
    """A table under a title; the columns with numbers in `right` are set flush right."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()


def aligned(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()
) -> list[str]:
    """The lines of a table in plain text; cells may hold several lines.

    >>> print("\\n".join(aligned(["name", "n"], [["a", "10"], ["b", "5"]], frozenset([1]))))
      name   n
      a     10
      b      5
    """
    cells = [[cell.split("\n") for cell in row] for row in [header, *rows]]
    widths = [max(len(line) for row in cells for line in row[i]) for i in range(len(header))]
    lines = []
    for row in cells:
        for index in range(max(map(len, row))):
            parts = [cell[index] if index < len(cell) else "" for cell in row]
            padded = [
                part.rjust(width) if column in right else part.ljust(width)
                for column, (part, width) in enumerate(zip(parts, widths, strict=True))
            ]
            lines.append(("  " + "  ".join(padded)).rstrip())
    return lines


def plain(title: str, tables: Sequence[Table]) -> str:
    """Tables as one text, under a common title."""
    lines = [title]
    for table in tables:
        lines.append(table.title)
        lines += aligned(table.header, table.rows, table.right)
    return "\n".join(lines)


def drawn(title: str, tables: Sequence[Table]) -> Any:
    """Tables drawn by rich, which has to be installed."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [Text(title, style="bold")]
    for table in tables:
        parts += [Text(table.title, style="bold"), rich_table(*table[1:])]
    return Group(*parts)


def rich_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()
) -> Any:
    """A table of rich, which has to be installed."""
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=None, header_style="bold cyan")
    for column, cell in enumerate(header):
        table.add_column(Text(cell), justify="right" if column in right else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def number(value: float) -> str:
    """The text of a number: integers with commas, others with four digits.

    >>> number(1234567), number(0.25)
    ('1,234,567', '0.25')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def seconds(value: float) -> str:
    """A time with its unit.

    >>> seconds(1.5), seconds(0.0123), seconds(4.56e-5), seconds(8e-8)
    ('1.5 s', '12.3 ms', '45.6 us', '80 ns')
    """
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"
