"""KDTree and cKDTree of traced points: SciPy finds the neighbours of the plain ones, and distances
are computed from the traced points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import array_of
from fungrad.scipy.optional import scipy_module

Read = Callable[[Any, Any], Any]
"""A function of SciPy's tree, and of plain points or SciPy's other tree."""


class KDTree:
    """scipy.spatial.KDTree of points that may be traced.

    >>> import fungrad as fg
    >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
    >>> def nearest(x):
    ...     return KDTree(x).query(np.array([1.2, 0.5]))[0]
    >>> fg.grad(nearest)(points)[1].round(3)
    array([-0.371, -0.928])

    Args:
      data: the points (number, dimension).
      leafsize, compact_nodes, copy_data, balanced_tree, boxsize: as SciPy's.
    """

    def __init__(
        self,
        data: Any,
        leafsize: int = 10,
        compact_nodes: bool = True,
        copy_data: bool = False,
        balanced_tree: bool = True,
        boxsize: Any = None,
    ) -> None:
        self.data = array_of(data)
        self.n, self.m = self.data.shape
        self.leafsize, self.boxsize = leafsize, boxsize
        self._options = {
            "leafsize": leafsize, "compact_nodes": compact_nodes,
            "balanced_tree": balanced_tree, "boxsize": boxsize,
        }  # fmt: skip

    def _plain(self, values: Any) -> Any:
        return scipy_module("scipy.spatial").cKDTree(np.array(values), **self._options)

    def _answer(self, other: Any, read: Read, of_trees: bool = False) -> Any:
        """What SciPy's tree answers about plain points: integers, which jit keeps as conditions."""
        points = np.reshape(array_of(other), (-1,))
        shape, size = np.shape(other), self.n * self.m
        joined = np.concatenate([np.reshape(self.data, (-1,)), points])

        def of_values(values: Any) -> Any:
            there = np.reshape(values[size:], shape)
            return read(
                self._plain(np.reshape(values[:size], (self.n, self.m))),
                self._plain(there) if of_trees else there,
            )

        return known(joined, "scipy.spatial.KDTree", of_values)

    def _between(self, one: Any, other: Any, p: float) -> Any:
        """The distances of pairs of points."""
        apart = one - other
        if self.boxsize is not None:
            size = np.broadcast_to(np.asarray(self.boxsize, float), (self.m,))
            apart = apart - size * np.round(apart / np.where(size > 0, size, 1.0))
        return np.linalg.norm(apart, ord=p, axis=-1)

    def query(
        self, x: Any, k: Any = 1, eps: float = 0.0, p: float = 2.0,
        distance_upper_bound: float = np.inf, workers: int = 1,
    ) -> Any:  # fmt: skip
        """The distances and the indices of the k nearest points, as SciPy's."""
        indices = self._answer(
            x, lambda tree, at: tree.query(at, k, eps, p, distance_upper_bound)[1]
        )
        there = indices < self.n
        at = array_of(x)
        at = at if np.ndim(indices) < at.ndim else at[..., None, :]
        lengths = self._between(at, self.data[np.where(there, indices, 0)], p)
        return np.where(there, lengths, np.inf), indices

    def query_ball_point(
        self, x: Any, r: Any, p: float = 2.0, eps: float = 0.0, workers: int = 1,
        return_sorted: Any = None, return_length: bool = False,
    ) -> Any:  # fmt: skip
        """The indices of the points within a distance, as SciPy's."""
        single, radius = np.ndim(x) == 1, known(r, "a radius of scipy.spatial.KDTree")

        def read(tree: Any, at: Any) -> Any:
            neighbours = tree.query_ball_point(at, radius, p, eps, 1, return_sorted, return_length)
            return neighbours if return_length else _tuples(neighbours)

        answer = self._answer(x, read)
        if return_length or single:
            return answer if return_length else list(answer)
        lists = np.empty(np.shape(x)[:-1], object)
        for index in np.ndindex(lists.shape):
            each = answer
            for i in index:
                each = each[i]
            lists[index] = list(each)
        return lists

    def query_pairs(
        self, r: float, p: float = 2.0, eps: float = 0.0, output_type: str = "set"
    ) -> Any:
        """The pairs of points within a distance, as SciPy's."""
        nothing = np.zeros((0, self.m))
        radius = known(r, "a radius of scipy.spatial.KDTree")
        pairs = self._answer(
            nothing, lambda tree, _: tree.query_pairs(radius, p, eps, output_type="ndarray")
        )
        return pairs if output_type == "ndarray" else set(map(tuple, pairs.tolist()))

    def query_ball_tree(self, other: Any, r: float, p: float = 2.0, eps: float = 0.0) -> Any:
        """For each point the indices of those of another tree within a distance, as SciPy's."""
        radius = known(r, "a radius of scipy.spatial.KDTree")
        neighbours = self._answer(
            other.data, lambda one, two: _tuples(one.query_ball_tree(two, radius, p, eps)), True
        )
        return [list(each) for each in neighbours]

    def count_neighbors(self, other: Any, r: Any, p: float = 2.0) -> Any:
        """The number of pairs of points of two trees within a distance, as SciPy's."""
        radius = known(r, "a radius of scipy.spatial.KDTree")
        return self._answer(
            other.data, lambda one, two: np.asarray(one.count_neighbors(two, radius, p)), True
        )[()]


cKDTree = KDTree


def _tuples(found: Any) -> Any:
    """Lists of indices as tuples, at any depth."""
    return tuple(map(_tuples, found)) if isinstance(found, (list, np.ndarray)) else int(found)
