"""The names of SciPy's modules (`autograd.scipy`), which are imported when asked for."""

from fungrad.compat.autograd.namespaces import names_of as _names_of

__getattr__, __dir__ = _names_of(
    globals(), "scipy", taken=("integrate", "linalg", "misc", "signal", "special", "stats")
)
