"""The names of scipy.stats (`autograd.scipy.stats`)."""

from fungrad.compat.autograd.namespaces import names_of as _names_of

__getattr__, __dir__ = _names_of(globals(), "fungrad.scipy.stats")
