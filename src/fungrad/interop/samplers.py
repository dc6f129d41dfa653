"""Log densities for samplers: emcee, zeus, nutpie, and any that takes a function of a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.interop.packages import package
from fungrad.interop.vector_functions import VectorFunction
from fungrad.transforms.vmap_and_staging import vmap


class LogDensity:
    """A log density of a parameter vector, compiled, with its gradient, for one vector or many.

    For emcee and zeus give `density.batch` with `vectorize=True`; for samplers that take a value
    and a gradient `density.value_and_gradient`.

    Args:
      f: `f(p)`, the log of a density up to a constant: one number, -inf where it is zero; p is
        float64[n].
      compiled: whether it is compiled; False for a function that cannot be staged.

    >>> import numpy as np
    >>> density = LogDensity(lambda p: -0.5 * np.sum(p**2))
    >>> density(np.ones(2))
    -1.0
    >>> density.batch(np.eye(2))
    array([-0.5, -0.5])
    >>> density.value_and_gradient(np.ones(2))
    (-1.0, array([-1., -1.]))
    """

    def __init__(self, f: Callable[[Any], Any], *, compiled: bool = True) -> None:
        self._f, self._compiled = f, compiled
        self._function = VectorFunction(f, compiled)
        self._batch = jit(vmap(f)) if compiled else vmap(f)

    def __call__(self, p: Any) -> float:
        """The log density at p."""
        return self._function.number(p)

    def gradient(self, p: Any) -> Any:
        """Its gradient: float64[n]."""
        return self._function.gradient(p)

    def value_and_gradient(self, p: Any) -> tuple[float, Any]:
        """Both in one evaluation."""
        return self._function.value_and_gradient(p)

    def batch(self, points: Any) -> Any:
        """The log densities of the rows of float64[k, n]: float64[k], in one call.

        A density that branches on values has to say so by np.where or fg.lax.cond.
        """
        return np.asarray(self._batch(np.asarray(points, np.float64)), np.float64)

    def __reduce__(self) -> Any:  # samplers send it to other processes, which compile it again
        return _density, (self._f, self._compiled)


def _density(f: Callable[[Any], Any], compiled: bool) -> LogDensity:
    return LogDensity(f, compiled=compiled)


def nutpie_model(f: Callable[[Any], Any], size: int, name: str = "x") -> Any:
    """A model for nutpie.sample.

    Args:
      f: the log density, as for LogDensity; also one.
      size: the number of parameters.
      name: of the parameter vector in the trace.

    Returns:
      nutpie's PyFuncModel. `nutpie.sample(model)` runs its threads at a time, one call of Python
      after another.

    Raises:
      MissingExtraError: without nutpie.
    """
    compiled_pyfunc = package("nutpie.compiled_pyfunc")
    density = f if isinstance(f, LogDensity) else LogDensity(f)

    def expanded(*seeds: Any) -> Callable[..., dict[str, Any]]:
        return lambda p, **data: {name: np.asarray(p, np.float64)}

    return compiled_pyfunc.from_pyfunc(
        ndim=size, make_logp_fn=lambda: density.value_and_gradient, make_expand_fn=expanded,
        expanded_dtypes=[np.dtype(np.float64)], expanded_shapes=[(size,)], expanded_names=[name],
    )  # fmt: skip


__all__ = ["LogDensity", "nutpie_model"]
