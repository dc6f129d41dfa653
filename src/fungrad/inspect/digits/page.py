"""The source of a program with a bar of lost digits at each line: as HTML, and as a plot."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from fungrad.errors import MissingExtraError

AROUND = 2
"""The lines shown before and after those of the report."""
MOST = 60
"""The most lines shown of one file."""


class Row(NamedTuple):
    """A line of the source: its number and text, the digits lost, the share of the error."""

    number: int
    text: str
    lost: float
    share: float


def rows_of(lines: Sequence[Any]) -> dict[str, list[Row]]:
    """By the name of a file: the rows around the lines of a report."""
    files: dict[str, dict[int, Any]] = {}
    for line in lines:
        if line.file and line.line:
            files.setdefault(line.file, {})[line.line] = line
    by_line = {}
    for file, known in files.items():
        first, last = max(1, min(known) - AROUND), max(known) + AROUND
        numbers: Sequence[int] = range(first, last + 1)
        if len(numbers) > MOST:
            numbers = sorted(known)[:MOST]
        rows = []
        for number in numbers:
            line = known.get(number)
            text = linecache.getline(file, number).rstrip("\n")
            rows.append(Row(number, text, line.lost if line else 0.0, line.share if line else 0.0))
        by_line[file] = rows
    return by_line


def html(title: str, tables: str, lines: Sequence[Any]) -> str:
    """The report as HTML: the tables as text, and the source with bars."""
    parts = [f"<h4>{escape(title)}</h4>"]
    for file, rows in rows_of(lines).items():
        most = max([row.lost for row in rows], default=0.0) or 1.0
        cells = []
        for row in rows:
            width = round(100 * row.lost / most)
            bar = (
                f'<div style="background:#c44;height:0.8em;width:{width}px" '
                f'title="{row.lost:.1f} digits"></div>'
            )
            cells.append(
                f"<tr><td>{row.number}</td><td style='text-align:left'><pre style='margin:0'>"
                f"{escape(row.text)}</pre></td><td>{bar}</td><td>{row.lost:.1f}</td>"
                f"<td>{row.share:.0%}</td></tr>"
            )
        head = "<tr><th></th><th></th><th>digits lost</th><th></th><th>share of error</th></tr>"
        name = escape(Path(file).name)
        parts.append(f"<table><caption>{name}</caption>{head}{''.join(cells)}</table>")
    parts.append(f"<pre>{escape(tables)}</pre>")
    return "".join(parts)


def plot(title: str, lines: Sequence[Any], ax: Any = None) -> Any:
    """A plot of the source with a bar of lost digits at each line; returns Matplotlib's axes.

    Raises:
      MissingExtraError: without Matplotlib, the extra `viz`.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError(
            "report.plot() needs Matplotlib: pip install 'fungrad[viz]'."
        ) from None
    rows = [row for found in rows_of(lines).values() for row in found]
    if ax is None:
        _, ax = plt.subplots(figsize=(9, 0.6 + 0.24 * max(len(rows), 2)), layout="constrained")
    places = range(len(rows))
    ax.barh(places, [row.lost for row in rows], color="#cc4444", height=0.7, label="digits lost")
    ax.barh(
        places, [-row.share for row in rows], color="#4477aa", height=0.7, label="share of error"
    )
    width = max([len(row.text) for row in rows], default=0)
    texts = [f"{row.text:<{width}}  {row.number}" for row in rows]
    ax.set_yticks(places, texts, family="monospace", fontsize=8)
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.invert_yaxis()
    ax.axvline(0.0, color="black", linewidth=0.6)
    ax.set_xlabel("share of the error (left), digits lost (right)")
    ax.set_title(title)
    return ax
