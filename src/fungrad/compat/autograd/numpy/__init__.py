"""NumPy's names (`autograd.numpy`).

Most are NumPy's own functions, which reach fungrad's rules through NumPy's protocols; where NumPy
has no protocol, functions that take traced values under transforms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as _numpy

from fungrad.compat.autograd.namespaces import add_modules as _add_modules
from fungrad.compat.autograd.namespaces import names_of as _names_of
from fungrad.interception import numpy_functions as _intercepted  # noqa: F401 - the table of functions
from fungrad.numpy.creation import asarray as _asarray
from fungrad.support.lazy import modules as _modules
from fungrad.tracing.trace import Tracer as _Tracer
from fungrad.tracing.trace import typeof as _typeof

_names_of(_modules[__name__], "numpy", taken=("numpy_vjps",))

_add_modules(
    __name__,
    {
        "fft": "numpy.fft",
        "linalg": "numpy.linalg",
        "numpy_boxes": "fungrad.compat.autograd.tracer",
        "numpy_vspaces": "fungrad.compat.autograd.vspaces",
        "random": "numpy.random",
    },
)

_SEQUENCES = (_numpy.ndarray, _Tracer, list, tuple)


def _of_any_iterable(join: Callable[..., Any]) -> Callable[..., Any]:
    """A function that joins the arrays of any iterable; NumPy's takes a list or a tuple only."""

    @functools.wraps(join)
    def joined(arrays: Any, *args: Any, **kwargs: Any) -> Any:
        return join(arrays if isinstance(arrays, _SEQUENCES) else list(arrays), *args, **kwargs)

    return joined


concatenate = _of_any_iterable(_numpy.concatenate)
stack = _of_any_iterable(_numpy.stack)
hstack = _of_any_iterable(_numpy.hstack)
vstack = _of_any_iterable(_numpy.vstack)
column_stack = _of_any_iterable(_numpy.column_stack)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """NumPy's `where`, with named arguments.

    >>> where(condition=[True, False], x=1.0, y=2.0)
    array([1., 2.])
    """
    return _numpy.where(condition) if x is None and y is None else _numpy.where(condition, x, y)


def make_diagonal(D: Any, offset: int = 0, axis1: int = -1, axis2: int = -2) -> Any:
    """Matrices whose diagonals are the last axis of an array.

    Raises:
      NotImplementedError: for an offset, or other axes than the last two.

    >>> make_diagonal([1.0, 2.0])
    array([[1., 0.],
           [0., 2.]])
    """
    if (offset, axis1, axis2) != (0, -1, -2):
        raise NotImplementedError("make_diagonal fills the diagonals of the last two axes.")
    D = _asarray(D)
    return D[..., None] * _numpy.eye(D.shape[-1])


def metadata(x: Any) -> tuple[tuple[int, ...], int, Any, bool]:
    """The shape, number of axes, dtype, and whether it is complex, of an array or a number.

    >>> import numpy as np
    >>> metadata(np.ones((2, 3)))
    ((2, 3), 2, dtype('float64'), False)
    """
    type_ = _typeof(x)
    return type_.shape, len(type_.shape), type_.dtype, type_.dtype.kind == "c"
