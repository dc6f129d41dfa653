"""The names of scipy.integrate (`autograd.scipy.integrate`)."""

from fungrad.compat.autograd.namespaces import names_of as _names_of

__getattr__, __dir__ = _names_of(globals(), "fungrad.scipy.integrate")
