"""How an equation is done by rows: along which axes they lie.

Knows neither equations nor primitives.
"""

from __future__ import annotations

from fungrad.support.record import Record

REDUCED = -1
"""In place of an axis: the output has no rows, it is complete after the last of them."""


class RowAccess(Record):
    """The axis of the rows of each input (None: it is read as a whole), and that of the output."""

    inputs: tuple[int | None, ...]
    output: int


__all__ = ["REDUCED", "RowAccess"]
