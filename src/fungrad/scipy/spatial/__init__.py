"""scipy.spatial for traced values (`fungrad.scipy.spatial`): distances, and trees of points.

`distance`, `KDTree` and `cKDTree` are differentiable; all other names are SciPy's.
"""

from __future__ import annotations

from fungrad.scipy.optional import rest_of_scipy
from fungrad.scipy.spatial import distance as distance
from fungrad.scipy.spatial.kd_tree import KDTree as KDTree
from fungrad.scipy.spatial.kd_tree import cKDTree as cKDTree

__all__ = ["KDTree", "cKDTree", "distance"]


__getattr__, __dir__ = rest_of_scipy(globals())
