"""`vspace`, the vector space of a value: of arrays, or of trees of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from fungrad.support import pytree
from fungrad.transforms.arguments import leaf_type


class VSpace:
    """The vector space of a value: arrays of one shape and dtype, or trees of them.

    Attributes:
      shape, dtype, iscomplex: of an array.
      size: the number of real dimensions (two for each complex number).

    >>> space = vspace(np.ones((2, 3)))
    >>> space.shape, space.size, space.zeros().shape
    ((2, 3), 6, (2, 3))
    """

    mappings: ClassVar[dict[type, Any]] = {}
    """Where clients register the spaces of their classes: not read here."""

    @classmethod
    def register(cls, kind: type, made: Any = None) -> None:
        """Registers the spaces of a class."""
        cls.mappings[kind] = made

    def __init__(self, value: Any) -> None:
        leaves, self.structure = pytree.flatten(value)
        self.types = []
        for leaf in leaves:
            type_ = leaf_type(leaf)
            if type_ is None:
                raise TypeError(
                    f"A {type(leaf).__name__} is not an element of a vector space: {leaf!r}."
                )
            self.types.append(type_)
        self.size = sum(t.size * (2 if t.dtype.kind == "c" else 1) for t in self.types)
        self.iscomplex = any(t.dtype.kind == "c" for t in self.types)
        if self.structure is pytree.LEAF:
            self.shape, self.dtype = self.types[0].shape, self.types[0].dtype
            self.ndim = len(self.shape)

    def _filled(self, fill: Callable[[Any], Any]) -> Any:
        return pytree.unflatten(self.structure, [fill(t) for t in self.types])

    def zeros(self) -> Any:
        """The zero of the space."""
        return self._filled(lambda t: np.zeros(t.shape, t.dtype))

    def ones(self) -> Any:
        """The sum of the standard basis: numbers of 1, or 1 + 1j."""
        return self._filled(
            lambda t: np.full(t.shape, 1.0 + 1.0j if t.dtype.kind == "c" else 1.0, t.dtype)
        )

    def randn(self) -> Any:
        """An element of random numbers of the standard normal distribution."""

        def fill(t: Any) -> Any:
            x = np.random.randn(*t.shape)
            return (
                x + 1j * np.random.randn(*t.shape) if t.dtype.kind == "c" else x
            ) * t.dtype.type(1)

        return self._filled(fill)

    def standard_basis(self) -> Iterator[Any]:
        """The elements with a single 1 (and, where complex, those with a single 1j)."""
        for i, type_ in enumerate(self.types):
            for unit in (1.0, 1j) if type_.dtype.kind == "c" else (1.0,):
                for place in np.ndindex(*type_.shape):
                    leaves = [np.zeros(t.shape, t.dtype) for t in self.types]
                    leaves[i][place] = unit
                    yield pytree.unflatten(self.structure, leaves)

    def add(self, x: Any, y: Any) -> Any:
        """x + y; None stands for zero."""
        if x is None or y is None:
            return y if x is None else x
        return pytree.map(lambda a, b: a + b, x, y)

    mut_add = add

    def scalar_mul(self, x: Any, scale: Any) -> Any:
        """x times a number."""
        return pytree.map(lambda a: a * scale, x)

    def covector(self, x: Any) -> Any:
        """The element of the dual space for x: its complex conjugate."""
        return pytree.map(np.conj, x)

    def inner_prod(self, x: Any, y: Any) -> Any:
        """The real inner product: the sum of x times y, elementwise, one conjugated."""
        products = pytree.map(lambda a, b: np.real(np.sum(np.conj(a) * b)), x, y)
        return sum(pytree.leaves(products))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, VSpace)
            and self.structure == other.structure
            and [(t.shape, t.dtype) for t in self.types]
            == [(t.shape, t.dtype) for t in other.types]
        )

    def __hash__(self) -> int:
        return hash((self.structure, tuple([(t.shape, t.dtype) for t in self.types])))

    def __repr__(self) -> str:
        return f"VSpace({pytree.unflatten(self.structure, self.types)})"


def vspace(value: Any) -> VSpace:
    """The vector space of an array, a number or a tree of them.

    Raises:
      TypeError: if a leaf is not an array or a number.
    """
    return VSpace(value)


class ArrayVSpace(VSpace):
    """The space of an array: see `VSpace`."""


class ComplexArrayVSpace(ArrayVSpace):
    """The space of a complex array: see `VSpace`."""


__all__ = ["ArrayVSpace", "ComplexArrayVSpace", "VSpace", "vspace"]
