"""Type inference: the Types of the outputs of primitives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.ir.graph import Atom, PrimitiveLike
from fungrad.ir.types import Type


class Inference:
    """The output Types of primitives in one Graph: equal Types are one object.

    The Types of an equation are cached by the identities of the primitive and its input Types, and
    by the parameters, since most equations of a long Graph are like an earlier one.
    """

    __slots__ = ("_held", "_known", "_types")

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[Type, ...]] = {}
        self._held: list[Any] = []
        """The objects in the keys, kept so that no other object gets their identity."""
        self._types: dict[Any, Type] = {}

    def outputs(
        self, primitive: PrimitiveLike, inputs: Sequence[Atom], params: dict[str, Any]
    ) -> tuple[Type, ...]:
        """The Types of a primitive's outputs for these inputs."""
        key: tuple[Any, ...] = (id(primitive), *[id(atom.type) for atom in inputs])
        if params:
            key += (*map(type, params.values()), *params.items())  # 1 == True == 1.0
        try:
            types = self._known.get(key)
        except TypeError:  # a parameter without a hash, such as an array
            return self._inferred(primitive, inputs, params)
        if types is None:
            types = self._known[key] = self._inferred(primitive, inputs, params)
            self._held.append((primitive, [atom.type for atom in inputs]))
        return types

    def _inferred(
        self, primitive: PrimitiveLike, inputs: Sequence[Atom], params: dict[str, Any]
    ) -> tuple[Type, ...]:
        types = primitive.infer([atom.type for atom in inputs], params)
        return tuple([self.shared(type_) for type_ in types])

    def shared(self, type_: Type) -> Type:
        """The one object for all Types equal to this one."""
        return self._types.setdefault((type_.shape, type_.dtype, type_.weak), type_)
