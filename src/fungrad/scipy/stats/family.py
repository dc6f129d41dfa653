"""The base of all objects named like a distribution of SciPy's, whether of numbers
or of arrays; arguments as real arrays; what is exact in the logarithm. Knows no distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.numpy.protocol.implements import as_array
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.optional import scipy_module
from fungrad.tracing.source_location import user_line


def floating(function: str, *values: Any) -> list[Any]:
    """Array-like arguments as arrays of the one real dtype that NumPy promotes them to; integers
    count as float64.

    Raises:
      ArgumentError: where one is complex.
    """
    arrays = [as_array(value) for value in values]
    dtype = np.result_type(*arrays)
    if dtype.kind == "c":
        raise ArgumentError(
            f"scipy.stats.{function} was called with complex numbers{user_line()}, but takes real "
            "ones."
        )
    return [cast(a, dtype if dtype.kind == "f" else np.dtype(np.float64)) for a in arrays]


def log1mexp(v: Any) -> Any:
    """log(1 - exp(v)) of v <= 0, to full precision.

    Maechler, Accurately computing log(1 - exp(-|a|)) (2012).
    """
    near = v > -0.6931471805599453
    small = np.log(-np.expm1(select(near, v, -1.0)))
    return select(near, small, np.log1p(-np.exp(select(near, -1.0, v))))


def settled(value: Any) -> Any:
    """The value, with derivatives 0 where it is infinite."""
    return select(np.abs(value) == np.inf, stop_gradient(value), value)


class Family:
    """An object with a name of SciPy's: gives frozen distributions, and SciPy's own methods (rvs,
    fit, ...) where there are none here, which take plain arrays.

    Attributes:
      name: SciPy's.
      methods: the names of the methods that take traced values.
    """

    name: str
    methods: tuple[str, ...]

    def __call__(self, *args: Any, **kwargs: Any) -> Frozen:
        return Frozen(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<distribution {self.name}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._scipy, name)

    @property
    def _scipy(self) -> Any:
        """SciPy's distribution of this name."""
        return getattr(scipy_module("scipy.stats"), self.name)


class Frozen:
    """A distribution with its parameters, as SciPy's frozen ones; x, k or q is given by place."""

    def __init__(self, distribution: Family, args: Any, kwargs: dict[str, Any]) -> None:
        self.dist = distribution
        self.args = args
        self.kwds = kwargs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'Frozen' object has no attribute {name!r}")
        if name not in self.dist.methods:
            return getattr(self.dist._scipy(*self.args, **self.kwds), name)
        method = getattr(self.dist, name)

        def frozen(*lead: Any) -> Any:
            return method(*lead, *self.args, **self.kwds)

        return frozen
