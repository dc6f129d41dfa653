"""Cotangents of many reads of one array under another trace, put into place all at once.

Where NumPy computes they are added in place (`elementwise.Collected`). A traced value is not
written into: the parts are held until the sum is asked for, and are then one scatter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import (
    Collected,
    Masked,
    add_cotangents,
    logical_or,
    plain,
)
from fungrad.primitives.movement.gather import ARRAY, Index, repeatable, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, concatenate, reshape
from fungrad.tracing.trace import shape_of


class Gathered(Collected):
    """The sum of a cotangent of an array of some shape and of cotangents of parts of it."""

    __slots__ = ("_begun", "_masks", "_parts", "_places", "_positions")

    def __init__(self, begun: Any, shape: tuple[int, ...]) -> None:
        self._begun = begun
        self._positions = np.arange(math.prod(shape)).reshape(shape)
        self._places: list[np.ndarray] = []
        self._parts: list[Any] = []
        self._masks: list[Any] | None = [] if type(begun) is Masked else None

    def plus(self, cotangent: Any) -> Collected:
        """Adds a cotangent of the whole array."""
        self._begun = add_cotangents(self._begun, cotangent)
        return self

    def read(self, primitive: Any, cotangent: Any, args: Any, params: dict[str, Any]) -> None:
        """Adds the cotangent of what a primitive has read, which moves elements and nothing else.

        As in the rules of one read, what index arrays do not name is exactly zero.
        """
        places = np.ravel(primitive.eval(self._positions, *args[1:], **params))
        if self._masks is not None:
            if type(cotangent) is Masked:
                mask = broadcast_to(cotangent.mask, shape=shape_of(cotangent.value))
                self._masks.append(reshape(mask, shape=places.shape))
            elif repeatable(args[1:]):
                self._masks.append(np.ones(places.shape, np.bool_))
            else:
                self._masks = None
        self._parts.append(reshape(plain(cotangent), shape=places.shape))
        self._places.append(places)

    def _placed(self, parts: Sequence[Any]) -> Any:
        size = self._positions.size
        found = scatter(
            concatenate(*parts, axis=0), np.concatenate(self._places), index=_FLAT, shape=(size,)
        )
        return reshape(found, shape=self._positions.shape)

    def total(self) -> Any:
        """The sum, which is not added to any more."""
        if not self._parts:
            return self._begun
        value = plain(self._begun) + self._placed(self._parts)
        if self._masks is not None and type(self._begun) is Masked:
            return Masked(value, logical_or(self._begun.mask, self._placed(self._masks)))
        return value

    @property
    def value(self) -> Any:  # type: ignore[override]
        """The sum without its mask."""
        return plain(self.total())


_FLAT = Index((ARRAY,))

__all__ = ["Gathered"]
