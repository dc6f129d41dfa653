"""scipy.spatial for traced values (`fungrad.scipy.spatial`): distances, and trees of points.

`distance`, `KDTree` and `cKDTree` are differentiable; all other names are SciPy's.
"""

from __future__ import annotations

from typing import Any

from fungrad.scipy.optional import scipy_module
from fungrad.scipy.spatial import distance as distance
from fungrad.scipy.spatial.kd_tree import KDTree as KDTree
from fungrad.scipy.spatial.kd_tree import cKDTree as cKDTree

__all__ = ["KDTree", "cKDTree", "distance"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(scipy_module("scipy.spatial"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(scipy_module("scipy.spatial"))})
