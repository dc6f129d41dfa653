"""`to_jax`: a function of plain NumPy as a function of JAX's arrays, derivatives included."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.engines.jax import loops as loops  # its rules
from fungrad.engines.jax.graphs import differentiable, opaque, run
from fungrad.engines.jax.table import Options, jax, jnp
from fungrad.errors import ArgumentError
from fungrad.ir.graph import Graph
from fungrad.ir.types import PYTHON_DTYPES, PYTHON_SCALARS, Type
from fungrad.retracing.stage_function import Staged, stage_tree
from fungrad.support import pytree
from fungrad.tracing.source_location import check_function, describe, user_line

PLANS = 128
"""How many Graphs, for arguments of different types, one function keeps."""


def to_jax(
    f: Callable[..., Any],
    *,
    derivatives: str | None = "fungrad",
    callbacks: bool = False,
    max_steps: int | None = None,
    precision: str = "require",
) -> Callable[..., Any]:
    """See `fungrad.engines.to_jax`."""
    check_function(f, "to_jax")
    if derivatives not in ("fungrad", "jax", None):
        raise ArgumentError(f'derivatives={derivatives!r} is not "fungrad", "jax" or None.')
    if precision not in ("require", "convert"):
        raise ArgumentError(f'precision={precision!r} is not "require" or "convert".')
    options = Options(callbacks, max_steps)

    @functools.lru_cache(PLANS)
    def plan(treedef: pytree.TreeDef, types: tuple[Type, ...]) -> Staged:
        def apply(tree: Any) -> Any:
            args, kwargs = tree
            return f(*args, **kwargs)

        names = [""] * len(types)
        staged = stage_tree(f, apply, treedef, types, names, "a function for JAX")
        if precision == "require":
            _check_precision(f, staged.graph, types)
        return staged

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = pytree.flatten((args, kwargs))
        staged = plan(treedef, tuple(_type_of(f, leaf) for leaf in leaves))
        found = _function(staged.graph, options, derivatives)(*leaves)
        return pytree.unflatten(staged.out, found)

    function.__doc__ = f"{describe(f)} for JAX's arrays."
    return function


def _function(graph: Graph, options: Options, derivatives: str | None) -> Callable[..., Any]:
    if derivatives == "fungrad":
        return differentiable(graph, options)
    if derivatives == "jax":
        return lambda *args: run(graph, args, options)
    function = opaque(graph, options)

    def refuse(*args: Any) -> Any:
        raise ArgumentError(
            f"{graph.name} was given to fg.to_jax with derivatives=None, and is differentiated."
        )

    function.defvjp(refuse, refuse)
    return lambda *args: function(*map(jnp.asarray, args))


def _type_of(f: Callable[..., Any], leaf: Any) -> Type:
    """The Type of an argument: a number of Python's is weak, as in fungrad."""
    if type(leaf) in PYTHON_SCALARS:
        return Type((), PYTHON_DTYPES[type(leaf)], True)
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not hasattr(leaf, "shape") or np.dtype(dtype).kind not in "biufc":
        raise ArgumentError(
            f"An argument of {describe(f)} is a {type(leaf).__name__}{user_line()}, not an array "
            "of numbers or a number. Close over it: fg.to_jax(lambda x: f(x, option))."
        )
    return Type(tuple(leaf.shape), np.dtype(dtype))


def _check_precision(f: Callable[..., Any], graph: Graph, types: Sequence[Type]) -> None:
    """Refuses 64-bit numbers that JAX would make 32-bit without a word."""
    if jax.config.jax_enable_x64:
        return
    held = [v.type for v, _ in graph.constants] + [
        v.type for equation in graph.equations for v in equation.outputs
    ]
    wide = [
        t
        for t in (*(t for t in types if not t.weak), *held)
        if t.dtype in (np.float64, np.complex128) and not t.weak
    ]
    if wide:
        raise ArgumentError(
            f"{describe(f)} computes with {wide[0]}{user_line()}, which JAX makes 32-bit: "
            'jax.config.update("jax_enable_x64", True) keeps double precision; '
            'fg.to_jax(f, precision="convert") takes single.'
        )


__all__ = ["to_jax"]
