"""Results as tables: plain text, and HTML for notebooks."""

from __future__ import annotations

import html

Rows = list[tuple[str, str]]


def text_table(head: str, rows: Rows) -> str:
    """Rows of a name and a value, below a heading."""
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{width}}  {value}" for name, value in rows]
    return "\n".join([head, *lines])


def html_table(head: str, rows: Rows) -> str:
    """The same as HTML; the heading may hold entities."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in rows
    )
    return f"<table><caption>{head}</caption>{cells}</table>"
