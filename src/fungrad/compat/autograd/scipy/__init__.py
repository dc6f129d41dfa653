"""The names of SciPy's modules (`autograd.scipy`), imported at first use."""

from fungrad.compat.autograd.namespaces import add_modules as _add_modules
from fungrad.compat.autograd.namespaces import names_of as _names_of
from fungrad.support.lazy import modules as _modules

_names_of(_modules[__name__], "scipy", taken=("signal",))

_add_modules(
    __name__,
    {
        "integrate": "fungrad.scipy.integrate",
        "linalg": "fungrad.scipy.linalg",
        "misc": "fungrad.scipy.special",  # older clients import logsumexp from it
        "special": "fungrad.scipy.special",
        "stats": "fungrad.scipy.stats",
    },
)
