"""The names of numpy.fft (`autograd.numpy.fft`)."""

from fungrad.compat.autograd.namespaces import names_of as _names_of

__getattr__, __dir__ = _names_of(globals(), "numpy.fft")
