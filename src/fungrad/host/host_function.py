"""`Host`, a Python function of NumPy arrays that is opaque to all traces.

`vmap` loops over it, or calls it once on the whole batch if it is declared `vectorized`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fungrad.custom_rules.closures_and_arguments import Arguments
from fungrad.errors import ArgumentError, StructureMismatchError
from fungrad.ir.canonical import canonical
from fungrad.ir.types import Type
from fungrad.support import pytree
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.trace import EVAL
from fungrad.transforms.arguments import leaf_type


class Sparsity(NamedTuple):
    """The declared Jacobian entries of an opaque function, for a call of it or of its rule.

    Attributes:
      of: "value", "jvp" or "vjp": the function that is called.
      declared: the user's matrices, one for each argument, or the function that makes them.
      types: the Types of the arguments, as trees.
      places: for a jvp the positions of the leaves that have a tangent; for a vjp the sizes of the
        outputs, None for one without a cotangent.
    """

    of: str
    declared: Any
    types: Sequence[Any]
    places: Sequence[int] | None = ()


class Host:
    """A call of an opaque function with the arguments of one call, on flat values.

    Args:
      f: the function; it gets the arguments as arrays and numbers, in the user's trees.
      arguments: those of the call.
      result: a tree of Types, or None if these are only known once it has run.
      vectorized: whether f takes arguments with further leading axes, the same on all.
      sparsity: the Jacobian's entries declared by `fg.external`, as a `Sparsity`, or None.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        arguments: Arguments,
        result: Any,
        vectorized: bool = False,
        sparsity: Sparsity | None = None,
    ) -> None:
        self.f = f
        self.sparsity = sparsity
        self.arguments = arguments
        self.vectorized = vectorized
        self.out: pytree.TreeDef | None = None
        self.declared: list[Type] | None = None
        if result is not None:
            found, self.out = pytree.flatten(result)
            self.declared = [declared_type(f, leaf) for leaf in found]

    def __repr__(self) -> str:
        return str(getattr(self.f, "__name__", type(self.f).__name__))

    def types(self) -> list[Type]:
        """The types of the results.

        Raises:
          ArgumentError: if they were not declared.
        """
        if self.declared is None:
            raise ArgumentError(
                f"{describe(self.f)} is recorded{user_line()} without being run, so its result has "
                "to be declared: give shape= (a fg.Type, a tree of them, or a function of the "
                "arguments' types)."
            )
        return self.declared

    def run(self, values: Sequence[Any], lead: tuple[int, ...] = ()) -> list[Any]:
        """The results for arrays; `lead` are the leading axes of a vectorized call.

        The function gets copies, which it may keep: a compiled program reuses its memory. Its
        results are copied, since its next call may write into the same arrays.
        """
        own = [x.copy() if isinstance(x, np.ndarray) else x for x in values]
        args, kwargs = self.arguments.rebuild(own)
        found = EVAL.run(lambda: self.f(*args, **kwargs))
        leaves, treedef = pytree.flatten(found)
        if self.declared is None:
            self.out = treedef
            self._check_numbers(leaves)
            return [canonical(np.array(leaf)[()]) for leaf in leaves]
        arrays = []
        for leaf, type_ in zip(leaves, self.declared, strict=False):
            shape = (*lead, *type_.shape)
            type_found = leaf_type(leaf)
            if type_found is None or type_found.shape != shape:
                break
            array = canonical(np.array(leaf))
            if not np.can_cast(array.dtype, type_.dtype, "same_kind"):
                break
            arrays.append(array.astype(type_.dtype, copy=False)[()])
        if treedef != self.out or len(arrays) != len(self.declared):
            assert self.out is not None
            expected = pytree.unflatten(self.out, self.declared)
            shown = pytree.unflatten(treedef, [leaf_type(leaf) or leaf for leaf in leaves])
            raise StructureMismatchError(
                f"{describe(self.f)} returned another result than was declared for "
                f"it{user_line()}{f' (with the leading axes {lead})' if lead else ''}.\n  "
                f"declared: {expected}\n  returned: {shown}"
            )
        return arrays

    def _check_numbers(self, leaves: Sequence[Any]) -> None:
        for leaf in leaves:
            if leaf_type(leaf) is None:
                raise ArgumentError(
                    f"{describe(self.f)} returned a {type(leaf).__name__}{user_line()}, which has "
                    "no derivative. Give fg.external a function around it that returns arrays and "
                    "numbers."
                )

    def batched(self, flags: Sequence[bool], size: int) -> Host:
        """The call for a batch."""
        return BatchedHost(self, flags, size)


class BatchedHost(Host):
    """Another Host, mapped over axis 0 of some of its values."""

    def __init__(self, inner: Host, flags: Sequence[bool], size: int) -> None:
        super().__init__(inner.f, inner.arguments, None, inner.vectorized)
        self.inner = inner
        self.flags = list(flags)
        self.size = size

    def types(self) -> list[Type]:
        return [Type((self.size, *t.shape), t.dtype) for t in self.inner.types()]

    def run(self, values: Sequence[Any], lead: tuple[int, ...] = ()) -> list[Any]:
        if self.vectorized:
            at = len(lead)
            spread = [
                x
                if b
                else np.broadcast_to(np.expand_dims(x, at), (*lead, self.size, *np.shape(x)[at:]))
                for x, b in zip(values, self.flags, strict=True)
            ]
            return self.inner.run(spread, (*lead, self.size))
        if self.size == 0:
            return [type_.zeros() for type_ in self.types()]
        rows = [
            self.inner.run([x[i] if b else x for x, b in zip(values, self.flags, strict=True)])
            for i in range(self.size)
        ]
        return [np.stack(column) for column in zip(*rows, strict=True)]


def declared_type(f: Callable[..., Any], leaf: Any) -> Type:
    """The declared Type: from a Type, an array, or any object with a shape and a dtype."""
    if isinstance(leaf, Type):
        return Type(leaf.shape, leaf.dtype)
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return Type(tuple(leaf.shape), np.dtype(leaf.dtype))
    raise ArgumentError(
        f"The result of {describe(f)} was declared as {leaf!r}, which has no shape and dtype: use "
        "fg.Type(shape, dtype)."
    )
