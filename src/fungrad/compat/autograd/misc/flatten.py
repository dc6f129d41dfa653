"""Trees of arrays as vectors (`autograd.misc.flatten`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fungrad.compat.autograd.wrap_util import floating
from fungrad.support import pytree
from fungrad.tree_parts import ravel_pytree


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The numbers of a tree as one vector, and the function from such a vector to the tree.

    Args:
      value: lists, tuples and dicts of arrays and numbers; dicts are taken by their sorted keys.

    >>> vector, unflatten = flatten({"b": [1.0, 2.0], "a": 3.0})
    >>> vector
    array([3., 1., 2.])
    >>> unflatten(vector)["b"]
    [array(1.), array(2.)]
    """
    return ravel_pytree(pytree.map(floating, value))


def flatten_func(
    func: Callable[..., Any], example: Any
) -> tuple[Callable[..., Any], Callable[[Any], Any], Any]:
    """A function of trees as a function of vectors: (function, unflatten, vector)."""
    vector, unflatten = flatten(example)

    def flat(x: Any, *args: Any) -> Any:
        return flatten(func(unflatten(x), *args))[0]

    return flat, unflatten, vector


__all__ = ["flatten", "flatten_func"]
