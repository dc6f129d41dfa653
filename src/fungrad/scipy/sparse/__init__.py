"""scipy.sparse for traced values (`fungrad.scipy.sparse`): SciPy's own classes and functions.

They take traced data while a transform runs. `linalg` solves sparse equations.
"""

from __future__ import annotations

from typing import Any

from fungrad.scipy.optional import scipy_module
from fungrad.support.lazy import imported


def __getattr__(name: str) -> Any:
    if name == "linalg":
        return imported(f"{__name__}.linalg")
    return getattr(scipy_module("scipy.sparse"), name)
