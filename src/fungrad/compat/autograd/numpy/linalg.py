"""The names of numpy.linalg (`autograd.numpy.linalg`)."""

from fungrad.compat.autograd.namespaces import names_of as _names_of

__getattr__, __dir__ = _names_of(globals(), "numpy.linalg")
