"""scipy.special for traced values (`fungrad.scipy.special`).

SciPy's own ufuncs take traced values, so a function can call `scipy.special.gammaln(x)`. This
package has versions for traced values of the functions that SciPy writes in Python (logsumexp,
softmax, zeta, ...); all other names are SciPy's. Functions without SciPy, and the error functions,
which import it when needed, are imported here; lazy_functions.py has the others.
"""

from __future__ import annotations

from typing import Any

from fungrad.scipy.optional import scipy_module, scipy_special
from fungrad.scipy.special import logsumexp_erf
from fungrad.scipy.special.logsumexp_erf import log_softmax, logsumexp, softmax
from fungrad.support.lazy import imported as _imported
from fungrad.support.lazy import modules as _modules

__all__ = ["log_softmax", "logsumexp", "softmax"]

_special = scipy_special()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    later = vars(logsumexp_erf.sp).get(name)
    if later is not None and "scipy.special" not in _modules:
        return later
    rest = _imported("fungrad.scipy.special.lazy_functions")
    return vars(rest)[name] if name in rest.__all__ else getattr(_special, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(scipy_module("scipy.special"))})
