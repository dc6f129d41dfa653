"""`from_jax`: a function of jax.numpy that every transform of fungrad understands."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.engines.jax.table import jax
from fungrad.host.external import External
from fungrad.ir.types import Type
from fungrad.support import pytree
from fungrad.tracing.source_location import check_function
from fungrad.tracing.trace import typeof

STRUCTURES = 32
"""How many structures of arguments one function keeps compiled functions for."""


def from_jax(jax_f: Callable[..., Any], *, vectorized: bool = False) -> Callable[..., Any]:
    """See `fungrad.engines.from_jax`."""
    check_function(jax_f, "from_jax")
    name = getattr(jax_f, "__name__", type(jax_f).__name__)

    @functools.lru_cache(STRUCTURES)
    def flattened(treedef: pytree.TreeDef) -> tuple[_Flat, dict[Any, Any]]:
        """The function of flat arguments, and by their shapes the structure of its results."""
        outs: dict[Any, Any] = {}

        def flat(*values: Any) -> Any:
            found, out = jax.tree_util.tree_flatten(jax_f(*pytree.unflatten(treedef, values)))
            outs[tuple(np.shape(x) for x in values)] = out
            return tuple(map(jax.numpy.asarray, found))

        flat.__name__ = name
        return _Flat(flat, vectorized), outs

    def function(*args: Any) -> Any:
        leaves, treedef = pytree.flatten(args)
        flat, outs = flattened(treedef)
        types = [typeof(x) for x in leaves]
        shapes = tuple(t.shape for t in types)
        if shapes not in outs:
            jax.eval_shape(
                flat.jax_function, *[jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types]
            )
        return jax.tree_util.tree_unflatten(outs[shapes], flat(*leaves))

    function.__name__ = name
    return function


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
        self.jax_function = f
        self._pulls: dict[Any, _Flat] = {}
        super().__init__(plain, self._pullback, None, shape, vectorized)

    def _pullback(self, cotangents: Sequence[Any], outputs: Any, *args: Any) -> Any:
        """Cotangents of the arguments, by another function of JAX's, so of every order."""
        moving = [i for i, x in enumerate(args) if typeof(x).inexact]
        counted = [i for i, c in enumerate(cotangents) if c is not None and typeof(c).inexact]

        key = (len(args), tuple(moving), tuple(counted))
        if key not in self._pulls:  # kept, so that JAX compiles it once
            self._pulls[key] = self._pull(*key)
        found = iter(self._pulls[key](*args, *[cotangents[i] for i in counted]))
        return tuple(next(found) if i in moving else None for i in range(len(args)))

    def _pull(self, count: int, moving: Sequence[int], counted: Sequence[int]) -> _Flat:
        """(arguments, cotangents of the counted results) -> cotangents of the moving arguments."""

        def pull(*values: Any) -> Any:
            given = iter(values[count:])
            primals, pullback = jax.vjp(self.jax_function, *values[:count])
            full = [next(given) if i in counted else _zero(y) for i, y in enumerate(primals)]
            found = pullback(tuple(full))
            return tuple(found[i] for i in moving)

        pull.__name__ = f"the vjp of {self.jax_function.__name__}"
        return _Flat(pull, self._vectorized)

    def _backward(self, saved: Any, cotangent: Any, wanted: Any) -> Any:
        args, output = saved
        return self._pullback(cotangent, output, *args)

    def _recipe(self) -> tuple[Any, ...]:
        return self.jax_function, self._vectorized


def _zero(x: Any) -> Any:
    """A zero cotangent of one of JAX's arrays."""
    exact = not jax.numpy.issubdtype(x.dtype, jax.numpy.inexact)
    return np.zeros(x.shape, jax.dtypes.float0 if exact else x.dtype)


__all__ = ["from_jax"]
