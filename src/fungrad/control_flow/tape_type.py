"""Tapes: opaque values that hold the residuals of loops and branches."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.types import PYTHON_SCALARS, Type, of_value

TAPE = Type((), np.dtype(object))
"""The Type of a tape."""


def as_tape(residuals: Any) -> Any:
    """Residuals of any kind as one opaque value."""
    tape = np.empty((), object)
    tape[()] = residuals
    return tape


def residuals_of(tape: Any) -> Any:
    """The residuals in a tape, which may be bare: see `type_of`."""
    return tape[()] if type(tape) is np.ndarray else tape


def type_of(value: Any) -> Type:
    """The Type of a run-time value, which may be a bare tape: indexing an object array of tapes
    returns the tape itself, which has no dtype.
    """
    if issubclass(type(value), (np.ndarray, np.generic, *PYTHON_SCALARS)):
        return of_value(value)
    return TAPE
