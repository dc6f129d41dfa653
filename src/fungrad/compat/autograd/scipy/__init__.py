"""The names of SciPy's modules (`autograd.scipy`), which are imported when asked for."""

from fungrad.compat.autograd.namespaces import add_modules as _add_modules
from fungrad.compat.autograd.namespaces import names_of as _names_of

__getattr__, __dir__ = _names_of(globals(), "scipy", taken=("signal",))

_add_modules(
    __name__,
    {
        "integrate": "fungrad.scipy.integrate",
        "linalg": "fungrad.scipy.linalg",
        "misc": "fungrad.scipy.special",  # where older clients find logsumexp
        "special": "fungrad.scipy.special",
        "stats": "fungrad.scipy.stats",
    },
)
