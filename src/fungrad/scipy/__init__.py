"""Floor 8: SciPy's namespaces for traced values (`fungrad.scipy`): special, optimize.

Both are imported when they are first asked for, and only then is SciPy, which the extra `scipy`
brings.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fungrad.scipy import optimize as optimize
    from fungrad.scipy import special as special

_LATER = ("optimize", "special")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
