"""`from_jax`: a function of jax.numpy that every transform of fungrad understands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad import trees
from fungrad.engines.jax.table import jax
from fungrad.ir.types import Type
from fungrad.structural.external import External
from fungrad.tracing.source import check_function
from fungrad.tracing.trace import typeof


def from_jax(jax_f: Callable[..., Any], *, vectorized: bool = False) -> Callable[..., Any]:
    """See `fungrad.engines.from_jax`."""
    check_function(jax_f, "from_jax")
    name = getattr(jax_f, "__name__", type(jax_f).__name__)

    def function(*args: Any) -> Any:
        leaves, treedef = trees.flatten(args)
        outs: list[Any] = []

        def flat(*values: Any) -> Any:
            found, out = jax.tree_util.tree_flatten(jax_f(*trees.unflatten(treedef, values)))
            outs[:] = [out]
            return tuple(map(jax.numpy.asarray, found))

        flat.__name__ = name
        found = _Flat(flat, vectorized)(*leaves)
        if not outs:  # compiled before: asked for the structure alone
            jax.eval_shape(flat, *[_shape(x) for x in leaves])
        return jax.tree_util.tree_unflatten(outs[0], found)

    function.__name__ = name
    return function


def _shape(x: Any) -> Any:
    type_ = typeof(x)
    return jax.ShapeDtypeStruct(type_.shape, type_.dtype)


class _Flat(External):
    """A function of JAX's, of flat arguments and results. Its pullback is another one."""

    def __init__(self, f: Callable[..., Sequence[Any]], vectorized: bool) -> None:
        compiled = jax.jit(f)

        def plain(*args: Any) -> Any:
            return tuple(np.asarray(x) for x in compiled(*args))

        def shape(*types: Any) -> Any:
            found = jax.eval_shape(f, *[jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types])
            return tuple(Type(tuple(s.shape), np.dtype(s.dtype)) for s in found)

        plain.__name__ = getattr(f, "__name__", "a function of JAX's")
        self._jax = f
        super().__init__(plain, self._pullback, None, shape, vectorized)

    def _pullback(self, cotangents: Sequence[Any], outputs: Any, *args: Any) -> Any:
        """Cotangents of the arguments, by another function of JAX's, so of every order."""
        moving = [i for i, x in enumerate(args) if typeof(x).inexact]
        counted = [i for i, c in enumerate(cotangents) if c is not None and typeof(c).inexact]

        def pull(*values: Any) -> Any:
            xs, given = values[: len(args)], iter(values[len(args) :])
            primals, pullback = jax.vjp(self._jax, *xs)
            full = [next(given) if i in counted else _zero(y) for i, y in enumerate(primals)]
            found = pullback(tuple(full))
            return tuple(found[i] for i in moving)

        pull.__name__ = f"the vjp of {self._jax.__name__}"
        found = iter(_Flat(pull, self._vectorized)(*args, *[cotangents[i] for i in counted]))
        return tuple(next(found) if i in moving else None for i in range(len(args)))

    def _backward(self, saved: Any, cotangent: Any, wanted: Any) -> Any:
        args, output = saved
        return self._pullback(cotangent, output, *args)

    def _recipe(self) -> tuple[Any, ...]:
        return self._jax, self._vectorized


def _zero(x: Any) -> Any:
    """A zero cotangent of one of JAX's arrays."""
    exact = not jax.numpy.issubdtype(x.dtype, jax.numpy.inexact)
    return np.zeros(x.shape, jax.dtypes.float0 if exact else x.dtype)


__all__ = ["from_jax"]
