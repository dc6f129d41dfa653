"""Functions of a parameter vector with compiled derivatives: what all adapters share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.errors import ArgumentError
from fungrad.support.forks import cached_property
from fungrad.tracing.source_location import describe
from fungrad.transforms.grad import grad, value_and_grad
from fungrad.transforms.jacobian import hessian, jacfwd, jacrev


class VectorFunction:
    """A function f(p, *data) with its derivatives with respect to p, each compiled at its
    first call.

    Results are float64 arrays, and Python numbers for a function with one result.

    Args:
      f: `f(p, *data)`, one real number or an array, written with NumPy; p is float64[n].
      compiled: whether f is compiled (`fg.jit`), with branches on values followed.
    """

    def __init__(self, f: Callable[..., Any], compiled: bool = True) -> None:
        self.f = f
        self._stage: Callable[..., Any] = (
            functools.partial(jit, branches="guard") if compiled else lambda g: g
        )

    def number(self, p: Any, *data: Any) -> float:
        """f(p), one number."""
        return float(self._value(_vector(p), *data))

    def value(self, p: Any, *data: Any) -> Any:
        """f(p), an array."""
        return np.asarray(self._value(_vector(p), *data), np.float64)

    def gradient(self, p: Any, *data: Any) -> Any:
        """The gradient of one number: float64[n]."""
        return np.asarray(self._gradient(_vector(p), *data), np.float64)

    def value_and_gradient(self, p: Any, *data: Any) -> tuple[float, Any]:
        """Both in one evaluation."""
        value, gradient = self._both(_vector(p), *data)
        return float(value), np.asarray(gradient, np.float64)

    def jacobian(self, p: Any, *data: Any) -> Any:
        """The Jacobian of the flattened results, by forward mode: float64[m, n]."""
        p = _vector(p)
        return np.asarray(self._forward(p, *data), np.float64).reshape(-1, p.size)

    def adjoint_jacobian(self, p: Any, *data: Any) -> Any:
        """The same by reverse mode, for fewer results than parameters."""
        p = _vector(p)
        return np.asarray(self._reverse(p, *data), np.float64).reshape(-1, p.size)

    def hessian(self, p: Any, *data: Any) -> Any:
        """The second derivatives of one number: float64[n, n]."""
        return np.asarray(self._hessian(_vector(p), *data), np.float64)

    @cached_property
    def _value(self) -> Any:
        return self._stage(self.f)

    @cached_property
    def _gradient(self) -> Any:
        return self._stage(grad(self._scalar))

    @cached_property
    def _both(self) -> Any:
        return self._stage(value_and_grad(self._scalar))

    @cached_property
    def _forward(self) -> Any:
        return self._stage(jacfwd(self.f))

    @cached_property
    def _reverse(self) -> Any:
        return self._stage(jacrev(self.f))

    @cached_property
    def _hessian(self) -> Any:
        return self._stage(hessian(self._scalar))

    def _scalar(self, p: Any, *data: Any) -> Any:
        value = self.f(p, *data)
        if np.size(value) != 1:
            raise ArgumentError(
                f"{describe(self.f)} returns an array of shape {np.shape(value)}, but its gradient "
                "is that of one number. Return a sum."
            )
        return np.reshape(value, ())


def _vector(p: Any) -> Any:
    return np.atleast_1d(np.asarray(p, np.float64))
