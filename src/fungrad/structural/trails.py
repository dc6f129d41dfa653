"""Floor 5: trails, the opaque values that hold the residuals of loops and branches. Knows Types."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.types import Type

TRAIL = Type((), np.dtype(object))
"""The Type of a trail."""


def as_trail(residuals: Any) -> Any:
    """Residuals of any kind as one opaque value."""
    trail = np.empty((), object)
    trail[()] = residuals
    return trail


__all__ = ["TRAIL", "as_trail"]
