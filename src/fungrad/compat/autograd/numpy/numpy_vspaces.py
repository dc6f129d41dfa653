"""The spaces of real and of complex arrays."""

from fungrad.compat.autograd.vspaces import VSpace


class ArrayVSpace(VSpace):
    """The space of an array: see `VSpace`."""


class ComplexArrayVSpace(ArrayVSpace):
    """The space of a complex array: see `VSpace`."""


__all__ = ["ArrayVSpace", "ComplexArrayVSpace"]
