"""Traces that are repeated, since NumPy met a list with traced items (listed_operands.py), or a
plain array was to hold a traced value (shadows.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fungrad.tracing.listed_operands import meets_lists
from fungrad.tracing.refusals import Met
from fungrad.tracing.shadows import meets_stores

T = TypeVar("T")


def traces_again(label: Callable[[], str], f: Callable[..., Any], failed: bool = False) -> bool:
    """Whether f has to be traced once more, and the next trace of it can do more than the last.

    Args:
      label: describes the trace that has ended, an outermost one. f: the function that it ran.
      failed: whether it has raised an error.
    """
    stores = meets_stores(label, f, failed)
    return meets_lists(label, f) or stores


def repeated(run: Callable[[], T], label: Callable[[], str], f: Callable[..., Any]) -> T:
    """The result of `run()`, which traces f; it is called once more if `traces_again` says so."""
    try:
        result = run()
    except Exception:
        if not traces_again(label, f, True):
            raise
    else:
        if not Met.seen or not traces_again(label, f):
            return result
    return repeated(run, label, f)
