"""Names and texts of the user's lines, for reports."""

from __future__ import annotations

import linecache
from pathlib import Path

from fungrad.ir.graph import Source


def text_of(source: Source | None) -> str:
    """The text of a line."""
    return "" if source is None else linecache.getline(source.file, source.line).strip()


def place_of(source: Source | None) -> str:
    """The name of the file and the number of the line."""
    return "(no line)" if source is None else f"{Path(source.file).name}:{source.line}"


def shortened(text: str, most: int) -> str:
    """The beginning of a long text."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
