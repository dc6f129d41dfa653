# ruff: noqa: F403 - every file lists its public names in __all__
"""JAX's lax (`fungrad.lax`): structured control flow, slices at traced positions, windows and
convolutions, reductions; and NumPy's functions by JAX's names.

Special functions need SciPy, and are imported from `fungrad.scipy.special` at first use.
"""

import functools
from typing import TYPE_CHECKING, Any

from fungrad.lax.control import *
from fungrad.primitives.stop_gradient import stop_gradient as stop_gradient
from fungrad.support.lazy import imported as _imported
from fungrad.tracing.trace import registry as _registry

if TYPE_CHECKING:
    from fungrad.lax.lazy_functions import *

_IMPLICIT = ("custom_linear_solve", "custom_root")


@functools.cache
def _operations() -> dict[str, str]:
    """Imports the functions besides control flow; returns SciPy's names of JAX's functions."""
    functions = vars(_imported(f"{__name__}.lazy_functions"))
    globals().update(
        {name: functions[name] for name in list(functions) if not name.startswith("_")}
    )
    special: dict[str, str] = _imported(f"{__name__}.elementwise").SPECIAL
    return special


def __getattr__(name: str) -> Any:
    if name == "linalg":
        return _imported("fungrad.lax.linalg")
    if name in _IMPLICIT:
        return getattr(_imported("fungrad.implicit"), name)
    if name == "__all__":  # of `import *`
        _operations()
        return [public for public in globals() if not public.startswith("_")]
    if not name.startswith("_"):
        special = _operations()
        if name in special:
            return getattr(_registry.scipy("special"), special[name])
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*_operations(), *globals(), *_IMPLICIT, "linalg"})
