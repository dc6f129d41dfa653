"""Floor 8: NumPy's names (`autograd.numpy`).

They are NumPy's own functions, which reach fungrad's rules through NumPy's protocols, and where
NumPy has no protocol those that take traced values under transforms.
"""

from __future__ import annotations

from typing import Any

from fungrad.compat.autograd.namespaces import names_of as _names_of
from fungrad.numpy import intercepted as _intercepted  # noqa: F401 - the table of functions
from fungrad.tracing.trace import typeof as _typeof

_SUBMODULES = ("fft", "linalg", "numpy_boxes", "numpy_vjps", "numpy_vspaces", "random")

__getattr__, __dir__ = _names_of(globals(), "numpy", taken=_SUBMODULES)


def metadata(x: Any) -> tuple[tuple[int, ...], int, Any, bool]:
    """Shape, number of axes, dtype, and whether it is complex, of an array or a number.

    >>> import numpy as np
    >>> metadata(np.ones((2, 3)))
    ((2, 3), 2, dtype('float64'), False)
    """
    type_ = _typeof(x)
    return type_.shape, len(type_.shape), type_.dtype, type_.dtype.kind == "c"
