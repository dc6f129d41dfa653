# ruff: noqa: F403 - every file lists its public names in __all__
"""NumPy's namespace for traced values, as thin compositions of primitives
(`fungrad.numpy`).

`import fungrad.numpy as np` is never needed: NumPy's own functions call the ones here whenever an
argument is traced. A few functions that NumPy does not let others override take traced values only
here: `array`, `full` and `asarray` of lists of traced values, and `at`. All other names are
NumPy's: constants, dtypes, ufuncs, `zeros`, `arange`. It is a namespace of the Python array API
standard (docs/array-api.md).
"""

import functools
from typing import Any

import numpy as _numpy

from fungrad.numpy.bits import *
from fungrad.numpy.creation import *
from fungrad.numpy.differences import *
from fungrad.numpy.dtypes import *
from fungrad.numpy.elementwise import *
from fungrad.numpy.indexing import *
from fungrad.numpy.join_split import *
from fungrad.numpy.mean_var import *
from fungrad.numpy.mutation import promoted_arrays as promoted_arrays
from fungrad.numpy.products import *
from fungrad.numpy.protocol import at_updates as at_updates
from fungrad.numpy.protocol import methods as methods
from fungrad.numpy.protocol import operators as operators
from fungrad.numpy.protocol import subclass_methods as subclass_methods
from fungrad.numpy.protocol import ufunc_methods as ufunc_methods
from fungrad.numpy.reductions import *
from fungrad.numpy.repeat_pad_roll import *
from fungrad.numpy.shaping import *
from fungrad.numpy.sorting import *
from fungrad.support.lazy import imported as _imported
from fungrad.support.lazy import modules as _modules

# The signatures of the standard replace those above.
# isort: split
from fungrad.numpy.protocol.array_api import *
from fungrad.tracing.trace import registry as _registry

_LATER = ("fft", "linalg")
"""Submodules that are imported when one of their functions is first used."""


@functools.cache
def _seldom() -> None:
    """Imports the functions that few programs call, when a name is not found here."""
    found = vars(_imported(f"{__name__}.lazy_functions"))
    globals().update({name: found[name] for name in list(found) if not name.startswith("_")})


def _later(func: Any) -> Any:
    """The implementation of a function of a submodule that is not imported yet."""
    if isinstance(func, _numpy.ufunc):
        if "scipy.special" in _modules:  # the only source of SciPy's ufuncs
            _registry.scipy("special.lazy_functions")
        return _registry.ufuncs.get(func)
    package, _, name = str(getattr(func, "__module__", "")).rpartition(".")
    if package == "numpy" and name in _LATER:
        _imported(f"{__name__}.{name}")
    else:
        _seldom()
    return _registry.functions.get(func)


_registry.namespace = _modules[__name__]
_registry.later = _later


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return _imported(f"{__name__}.{name}")
    if name == "special":  # where SciPy's dispatch looks (SCIPY_ARRAY_API=1)
        return _registry.scipy("special")
    if name == "__all__":  # of `import *`
        _seldom()
        return [public for public in globals() if not public.startswith("_")]
    if name.startswith("__") and not name.startswith("__array_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _seldom()
    return globals()[name] if name in globals() else getattr(_numpy, name)


def __dir__() -> list[str]:
    _seldom()
    return sorted({*globals(), *dir(_numpy)})
