"""Copies of dicts that other threads may change: namespaces of modules and classes, attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def snapshot(space: Mapping[Any, Any]) -> dict[Any, Any]:
    """What a dict, or the namespace of a class, holds now.

    The copy is one call of C, in which no other thread runs. A loop over the dict itself ends with
    "dictionary changed size during iteration" if another thread imports a module meanwhile; so may
    `list(space.items())`, since the garbage collection of a new tuple can run other code.
    """
    return dict.copy(space) if isinstance(space, dict) else space.copy()  # type: ignore[attr-defined]
