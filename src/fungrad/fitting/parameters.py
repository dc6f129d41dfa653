"""The parameters of a fit: their names, and which are free, fixed, or tied to others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.fitting.minimisation import leaves_with_paths
from fungrad.scipy.optional import scipy_module
from fungrad.tracing.source_location import describe
from fungrad.transforms.jacobian import jacfwd
from fungrad.tree_parts import ravel_pytree

_scipy_optimize = scipy_module("scipy.optimize")


class Parameters:
    """All parameters as one vector, and the free ones among them, which a fit varies.

    Args:
      f: the model.
      p0: the start, or None.
      bounds: a pair of ends in the order of the vector, SciPy's Bounds, or pairs by name.
      fixed: names of parameters that keep the value of p0, or values by name.
      tied: functions of the parameters (a dict by name) by the name of the parameter they give.

    Attributes:
      names: of the numbers in the vector.
      call: the model as a function (x, parameters).
      tree: the parameters of a vector, as the user has them.
      start: the free ones at the start: float64[k].
      low, high: their bounds.
      free: their positions in the vector.
      fixed, tied: the names of the others.
    """

    def __init__(self, f: Any, p0: Any, bounds: Any, fixed: Any = None, tied: Any = None) -> None:
        ends = _ends((-np.inf, np.inf) if isinstance(bounds, Mapping) else bounds)
        start, self.names, self.call = _start(f, p0, ends)
        vector, self.tree = ravel_pytree(start)
        vector = np.array(vector, np.float64)
        size = vector.size
        low, high = (np.broadcast_to(end, size).copy() for end in ends)
        by_name = bounds if isinstance(bounds, Mapping) else {}
        for i, (lowest, highest) in self._by_position(by_name, "bounds"):
            low[i] = -np.inf if lowest is None else lowest
            high[i] = np.inf if highest is None else highest
        self._tied = dict(self._by_position(tied or {}, "tied"))
        held = fixed if isinstance(fixed, Mapping) else dict.fromkeys(fixed or ())
        self._fixed = {
            i: float(vector[i] if value is None else value)
            for i, value in self._by_position(held, "fixed")
        }
        self.free = np.array(
            [i for i in range(size) if i not in self._fixed and i not in self._tied]
        )
        if not self.free.size:
            raise ArgumentError("All parameters are fixed or tied: curve_fit has nothing to fit.")
        self.start, self.low, self.high = vector[self.free], low[self.free], high[self.free]
        self.fixed = frozenset(self.names[i] for i in self._fixed)
        self.tied = frozenset(self.names[i] for i in self._tied)

    def _by_position(self, given: Mapping[str, Any], argument: str) -> Iterator[tuple[int, Any]]:
        """What is given for the parameters of some names, by their positions."""
        for name, value in given.items():
            for i in self._positions(name, argument):
                yield i, value

    def _positions(self, name: str, argument: str) -> list[int]:
        """Those of a parameter, or of the numbers in an array."""
        positions = [i for i, n in enumerate(self.names) if n == name or n.startswith(f"{name}[")]
        if not positions:
            raise ArgumentError(
                f"{argument}= names {name!r}, but the parameters are {', '.join(self.names)}."
            )
        return positions

    def vector(self, free: Any) -> Any:
        """All parameters, from the free ones; differentiable."""
        if not self._fixed and not self._tied:
            return free
        parts: list[Any] = [None] * len(self.names)
        for j, i in enumerate(self.free):
            parts[i] = free[j]
        for i, value in self._fixed.items():
            parts[i] = value
        for i, function in self._tied.items():
            known = zip(self.names, parts, strict=True)
            parts[i] = function({name: value for name, value in known if value is not None})
        return np.stack([part + 0.0 for part in parts])

    def slopes(self, free: Any) -> Any:
        """The derivatives of all parameters with respect to the free ones: float64[n, k]."""
        return np.asarray(jacfwd(self.vector)(free), np.float64)


def _start(f: Any, p0: Any, ends: Any) -> tuple[Any, tuple[str, ...], Callable[..., Any]]:
    """The start, the names of its numbers, and the model as a function of (x, parameters)."""
    if p0 is not None and not isinstance(p0, (Sequence, np.ndarray, int, float)):  # a tree
        parts = [_numbered(path.strip(".[]'\""), leaf) for path, leaf in leaves_with_paths(p0)]
        return p0, tuple([name for part in parts for name in part]), f
    try:
        given = list(inspect.signature(f).parameters.values())[1:]
    except (TypeError, ValueError):  # a builtin without a signature
        given = []
    taken = [p for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if p0 is None:
        if not taken or len(taken) < len(given):
            raise ArgumentError(
                f"The number of parameters of {describe(f)} does not follow from its signature: "
                "give p0."
            )
        p0 = _between(ends[0], ends[1], len(taken))
    start = np.atleast_1d(np.asarray(p0, np.float64))
    named = [p.name for p in taken] if len(taken) == start.size else []
    names = tuple(named or [f"p{i}" for i in range(start.size)])
    return start, names, lambda x, p: f(x, *[p[i] for i in range(start.size)])


def _ends(bounds: Any) -> tuple[Any, Any]:
    """Lower and upper bounds."""
    pair = (bounds.lb, bounds.ub) if isinstance(bounds, _scipy_optimize.Bounds) else bounds
    return np.asarray(pair[0], np.float64), np.asarray(pair[1], np.float64)


def _between(low: Any, high: Any, count: int) -> Any:
    """SciPy's start: the middle of two bounds, a distance of 1 from one, 1 without bounds."""
    low, high = np.broadcast_to(low, count), np.broadcast_to(high, count)
    one_sided = np.where(np.isfinite(low), low + 1.0, np.where(np.isfinite(high), high - 1.0, 1.0))
    both = np.isfinite(low) & np.isfinite(high)
    return np.where(both, np.where(both, low, 0.0) / 2 + np.where(both, high, 0.0) / 2, one_sided)


def _numbered(name: str, leaf: Any) -> list[str]:
    size = np.size(leaf)
    return [name] if np.ndim(leaf) == 0 else [f"{name}[{i}]" for i in range(size)]
