"""Type inference: the Types of the outputs of primitives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.ir.graph import Atom, PrimitiveLike
from fungrad.ir.types import Type


class Inference:
    """The output Types of primitives in one Graph: equal Types are one object.

    The Types of an equation without parameters are cached by the identities of the primitive and
    its input Types, since most equations of a long Graph are like an earlier one.
    """

    __slots__ = ("_held", "_known", "_types")

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[Type, ...]] = {}
        self._held: list[Any] = []
        """The objects in the keys, kept so that no other object gets their identity."""
        self._types: dict[Any, Type] = {}

    def outputs(
        self, primitive: PrimitiveLike, inputs: Sequence[Atom], params: dict[str, Any]
    ) -> tuple[Type, ...]:
        """The Types of a primitive's outputs for these inputs."""
        if params:
            types = primitive.infer([atom.type for atom in inputs], params)
            return tuple([self.shared(type_) for type_ in types])
        key = (id(primitive), *[id(atom.type) for atom in inputs])
        found = self._known.get(key)
        if found is None:
            read = [atom.type for atom in inputs]
            found = tuple([self.shared(type_) for type_ in primitive.infer(read, params)])
            self._known[key] = found
            self._held.append((primitive, read))
        return found

    def shared(self, type_: Type) -> Type:
        """The one object for all Types equal to this one."""
        return self._types.setdefault((type_.shape, type_.dtype, type_.weak), type_)
