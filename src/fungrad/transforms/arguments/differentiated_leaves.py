"""The leaves of a user's arguments, and which of them are differentiated.

The treatment of leaves that cannot be differentiated (`nondiff=`), and of inputs that nothing
reaches (`unconnected=`), is decided here. Knows trees, types and traces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, UnconnectedError
from fungrad.ir.types import Type
from fungrad.primitives.primitive import zeros
from fungrad.support import pytree
from fungrad.tracing.trace import EVAL, current, typeof
from fungrad.transforms.arguments.binding import (
    differentiable,
    flat_leaves,
    leaf_type,
    owned,
    refuse_leaf,
)

UNCONNECTED = ("zero", "none", "error")
NONDIFF = ("error", "none", "zero")


def check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    """Raises ArgumentError where an option is none of the allowed ones."""
    if value not in allowed:
        raise ArgumentError(f"{name}={value!r} is not one of {', '.join(map(repr, allowed))}.")


class Names(tuple[str, ...]):
    """Names that are known, where else a function finds them."""

    __slots__ = ()

    def __call__(self) -> list[str]:
        return list(self)


class Inputs:
    """The leaves of some arguments, and which of them are differentiated."""

    def __init__(
        self, parts: Sequence[Any], names: Callable[[], list[str]], transform: str, nondiff: str
    ) -> None:
        self.names = names
        self.nondiff = nondiff
        self.leaves: list[Any] = []
        self.treedefs = []
        for part in parts:
            leaves, treedef = flat_leaves(part)
            self.leaves += leaves
            self.treedefs.append(treedef)
        self.active: list[int] = []
        for i, leaf in enumerate(self.leaves):
            if differentiable(leaf):
                self.active.append(i)
            elif nondiff == "error":
                raise refuse_leaf(leaf, names()[i], transform)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "names": Names(self.names())}

    def differentiated(self) -> list[Any]:
        return [self.leaves[i] for i in self.active]

    def rebuild(self, leaves: Sequence[Any]) -> list[Any]:
        """One tree for each argument."""
        result = []
        start = 0
        for treedef in self.treedefs:
            if treedef is pytree.LEAF:
                result.append(leaves[start])
                start += 1
                continue
            stop = start + treedef.leaf_count
            result.append(pytree.unflatten(treedef, leaves[start:stop]))
            start = stop
        return result

    def with_active(self, values: Sequence[Any]) -> list[Any]:
        leaves = list(self.leaves)
        for i, value in zip(self.active, values, strict=True):
            leaves[i] = value
        return self.rebuild(leaves)

    def cotangents(
        self, found: Sequence[Any], unconnected: str, foreign: Sequence[Any] = ()
    ) -> list[Any]:
        """One tree of cotangents for each argument."""
        leaves: list[Any] = [None] * len(self.leaves)
        if self.nondiff == "zero":
            for i, leaf in enumerate(self.leaves):
                type_ = leaf_type(leaf)
                leaves[i] = None if type_ is None else zeros(type_)
        for i, value in zip(self.active, found, strict=True):
            if value is None and unconnected == "error":
                raise UnconnectedError(
                    f"The output does not depend differentiably on {self.names()[i]}: it is not "
                    "used, or only behind stop_gradient, a comparison, a rounding or an index."
                )
            if value is None and unconnected == "zero":
                type_ = typeof(self.leaves[i])
                value = zeros(Type(type_.shape, type_.dtype))
                value = value[()] if type(value) is np.ndarray else value
            leaves[i] = value
        return self.rebuild(owned(leaves, foreign) if current() is EVAL else leaves)
