"""The command line's output: lines and tables, as plain text, by rich, or as JSON.

Knows numbers and text; knows nothing of functions or derivatives. Rich is optional (extra `cli`):
used where it is installed and the output is a terminal; plain text has the same content.
"""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import numpy as np

from fungrad.inspect.tables import Table, aligned, rich_table

SHOWN_ENTRIES = 36
FIRST_ENTRIES = 4


class Report:
    """The findings of one command, in the order in which it is shown."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, Any]] = []

    def heading(self, text: str) -> None:
        """A line that opens a section."""
        self.parts.append(("heading", text))

    def line(self, text: str) -> None:
        """A line, or several, shown as they are."""
        self.parts.append(("line", text))

    def verdict(self, passed: bool, text: str) -> None:
        """A line that says whether something held."""
        self.parts.append(("passed" if passed else "failed", text))

    def table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[str]],
        right: frozenset[int] = frozenset(),
    ) -> None:
        """A table of texts; the columns at the places in `right` are set flush right."""
        self.parts.append(("table", (list(header), [list(row) for row in rows], right)))

    def tables(self, tables: Iterable[Table]) -> None:
        """Tables, each under its title."""
        for table in tables:
            self.heading(table.title)
            self.table(*table[1:])

    def write(self, file: TextIO) -> None:
        """Shows the report: by rich on a terminal, as plain text otherwise."""
        try:
            from rich.console import Console
        except ImportError:  # the extra `cli` is not installed
            self._write_plain(file)
            return
        console = Console(file=file, highlight=False)
        if console.is_terminal:
            self._write_rich(console)
        else:
            self._write_plain(file)

    def _write_plain(self, file: TextIO) -> None:
        width = shutil.get_terminal_size().columns if file.isatty() else None
        for kind, content in self.parts:
            if kind == "table":
                text = "\n".join(aligned(*content))
            elif kind in ("passed", "failed"):
                text = f"  {'ok    ' if kind == 'passed' else 'FAILED'}  {content}"
            else:
                text = content
            print(text if width is None else wrapped(text, width), file=file)

    def _write_rich(self, console: Any) -> None:
        from rich.text import Text

        for kind, content in self.parts:
            if kind == "table":
                console.print(rich_table(*content))
            elif kind in ("passed", "failed"):
                mark, style = ("ok    ", "green") if kind == "passed" else ("FAILED", "bold red")
                console.print(Text.assemble("  ", (mark, style), "  ", content))
            else:
                console.print(Text(content, style="bold" if kind == "heading" else ""))


def wrapped(text: str, width: int) -> str:
    """A text whose lines are broken between words, and go on under their beginning, indented.

    >>> print(wrapped("  the gradient is zero", 14))
      the gradient
        is zero
    """
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        found = textwrap.wrap(
            line, max(width, 20), initial_indent=indent, subsequent_indent=f"{indent}  ",
            break_long_words=False, break_on_hyphens=False, replace_whitespace=False,
            drop_whitespace=True,
        ) if len(line) > width else [line]  # fmt: skip
        lines += found or [""]
    return "\n".join(lines)


def number_text(value: Any) -> str:
    """A number at eight significant digits.

    >>> number_text(2 / 3), number_text(-5.0), number_text(1e-30)
    ('0.66666667', '-5', '1e-30')
    """
    return f"{float(value):.8g}"


def array_text(value: Any) -> str:
    """All entries of a small array; extremes, norm and first entries of a large one.

    >>> print(array_text(np.array([1.0, 2 / 3])))
    [1, 0.66666667]
    >>> print(array_text(np.arange(100.0)))
    min 0, max 99, norm 573.01832, first 0, 1, 2, 3
    """
    array = np.asarray(value)
    if array.size <= SHOWN_ENTRIES:
        format = {"float_kind": number_text}
        return np.array2string(array, separator=", ", formatter=format, threshold=1000)  # type: ignore[arg-type]
    first = ", ".join(number_text(entry) for entry in array.ravel()[:FIRST_ENTRIES])
    norm = np.linalg.norm(array.astype(np.float64).ravel())
    return (
        f"min {number_text(array.min())}, max {number_text(array.max())}, norm "
        f"{number_text(norm)}, first {first}"
    )


def write_json(content: Any, file: TextIO) -> None:
    """Writes valid JSON; NaN and infinities, which it lacks, become "NaN" and "Infinity"."""
    print(json.dumps(jsonable(content), indent=2, allow_nan=False), file=file)


def jsonable(value: Any) -> Any:
    """The value with arrays as nested lists.

    >>> jsonable({"w": np.array([1.0, np.inf]), "n": (np.float32(2), None)})
    {'w': [1.0, 'Infinity'], 'n': [2.0, None]}
    """
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return jsonable(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return repr(value)
