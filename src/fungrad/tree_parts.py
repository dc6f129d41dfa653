"""Trees of arrays as one vector, and trees in two parts.

`ravel_pytree` turns a tree into a vector; `partition` separates the leaves that can be
differentiated from the others, and `combine` joins the parts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, StructureMismatchError
from fungrad.primitives.movement.reshape_broadcast_cast import (
    cast,
    concatenate,
    reshape,
    slice_axis,
)
from fungrad.support import pytree
from fungrad.tracing.trace import shape_of, typeof
from fungrad.transforms.arguments import differentiable, leaf_type


def ravel_pytree(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """A tree of arrays and numbers as one vector, and the inverse function.

    >>> import numpy as np
    >>> vector, unravel = ravel_pytree({"w": np.ones((2, 2)), "b": 3.0})
    >>> vector
    array([3., 1., 1., 1., 1.])
    >>> unravel(2 * vector)["w"]
    array([[2., 2.],
           [2., 2.]])

    Args:
      tree: a tree of arrays and numbers.

    Returns:
      (vector, unravel): the vector has the dtype that all leaves promote to; `unravel` returns a
      tree of the same structure, shapes and dtypes for any vector of that length. Both can be
      differentiated.

    Raises:
      ArgumentError: if a leaf is no array and no number.
    """
    leaves, treedef = pytree.flatten(tree)
    for path, leaf in zip(pytree.paths(treedef), leaves, strict=True):
        if leaf_type(leaf) is None:
            raise ArgumentError(
                f"ravel_pytree takes arrays and numbers, but the leaf {path} is a "
                f"{type(leaf).__name__}. Take it out with fg.partition first."
            )
    types = [typeof(leaf) for leaf in leaves]
    dtype = np.result_type(*[t.dtype for t in types]) if types else np.dtype(np.float64)
    length = sum(type_.size for type_ in types)
    if leaves:
        flat = [
            reshape(cast(leaf, dtype), shape=(t.size,))
            for leaf, t in zip(leaves, types, strict=True)
        ]
        vector = concatenate(*flat, axis=0)
    else:
        vector = np.zeros(0, dtype)

    def unravel(vector: Any) -> Any:
        if shape_of(vector) != (length,):
            raise StructureMismatchError(
                f"unravel takes a vector of length {length}, not an array of shape "
                f"{shape_of(vector)}."
            )
        parts = []
        start = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            for type_ in types:
                part = slice_axis(vector, axis=0, start=start, stop=start + type_.size)
                parts.append(cast(reshape(part, shape=type_.shape), type_.dtype))
                start += type_.size
        return pytree.unflatten(treedef, parts)

    return vector, unravel


def _is_hole(x: Any) -> bool:
    return x is None


def partition(tree: Any, predicate: Any = differentiable) -> tuple[Any, Any]:
    """Splits a tree into two of its shape: the leaves for which a predicate holds, and the rest.

    >>> model = {"w": 2.0, "steps": 3, "name": "net"}
    >>> params, static = partition(model)
    >>> params
    {'w': 2.0, 'steps': None, 'name': None}
    >>> combine(params, static)
    {'w': 2.0, 'steps': 3, 'name': 'net'}

    None fills the holes. With the default predicate the first tree has the leaves that can be
    differentiated (floating and complex arrays and numbers), the second integers, strings,
    functions and all others.

    Args:
      tree: any tree.
      predicate: a function of one leaf, or a tree of booleans that is a prefix of `tree`.

    Returns:
      (selected, rest); `combine(selected, rest)` returns the original tree.
    """
    leaves, treedef = pytree.flatten(tree)
    if callable(predicate):
        chosen = [bool(predicate(leaf)) for leaf in leaves]
    else:
        chosen = [
            bool(flag) for flag in pytree.broadcast_prefix(predicate, treedef, "The predicate")
        ]
    selected = [leaf if hit else None for leaf, hit in zip(leaves, chosen, strict=True)]
    rest = [None if hit else leaf for leaf, hit in zip(leaves, chosen, strict=True)]
    return pytree.unflatten(treedef, selected), pytree.unflatten(treedef, rest)


def combine(*parts: Any) -> Any:
    """Fills the holes of trees of one shape: at each place the first that is not None.

    >>> combine((1, None), (None, "a"))
    (1, 'a')

    Args:
      parts: trees of one shape, with None where a leaf is not theirs (`partition` makes such).

    Raises:
      StructureMismatchError: if the trees have different shapes.
    """
    if not parts:
        raise ArgumentError("combine takes one or more trees.")
    rows = []
    first: pytree.TreeDef | None = None
    for part in parts:
        leaves, treedef = pytree.flatten(part, _is_hole)
        if first is not None and treedef != first:
            raise StructureMismatchError(
                "combine got trees of different shapes, first at "
                f"{pytree.difference(first, treedef)}."
            )
        first = treedef
        rows.append(leaves)
    assert first is not None
    filled = [
        next((x for x in column if x is not None), None) for column in zip(*rows, strict=True)
    ]
    return pytree.unflatten(first, filled)


__all__ = ["combine", "partition", "ravel_pytree"]
