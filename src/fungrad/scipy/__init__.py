"""SciPy's namespaces for traced values (`fungrad.scipy`): integrate, interpolate, linalg, ndimage,
optimize, signal, sparse, spatial, special, stats.

They, and SciPy itself (the extra `scipy`), are imported at first use.
"""

from typing import TYPE_CHECKING, Any

from fungrad.support.lazy import imported as _imported

if TYPE_CHECKING:
    from fungrad.scipy import integrate as integrate
    from fungrad.scipy import interpolate as interpolate
    from fungrad.scipy import linalg as linalg
    from fungrad.scipy import ndimage as ndimage
    from fungrad.scipy import optimize as optimize
    from fungrad.scipy import signal as signal
    from fungrad.scipy import sparse as sparse
    from fungrad.scipy import spatial as spatial
    from fungrad.scipy import special as special
    from fungrad.scipy import stats as stats

_LATER = (
    "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial",
    "special", "stats",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return _imported(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
