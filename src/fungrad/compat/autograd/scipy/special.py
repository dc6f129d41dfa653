"""The names of scipy.special (`autograd.scipy.special`)."""

from fungrad.compat.autograd.namespaces import names_of as _names_of

__getattr__, __dir__ = _names_of(globals(), "fungrad.scipy.special")
