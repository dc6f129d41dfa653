"""Functions of the Python array API standard that NumPy lacks, in `fungrad.numpy` alone:
`descending` orders, one bound alone, the limits of an array's dtype, and tracers' answers to the
standard's protocol.

All other functions of the standard are NumPy's own, with more arguments.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from fungrad.errors import AbstractValueError, GradientCutError
from fungrad.numpy.protocol.operands import array_of
from fungrad.tracing.concrete_answers import whole
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, shape_of, typeof

# --- order ----------------------------------------------------------------------------------------


def _ready(a: Any) -> Any:
    """A list, which may hold traced values, as an array; any other value itself."""
    return array_of(a) if isinstance(a, (list, tuple)) else a


def _stability(kind: Any, stable: bool | None) -> dict[str, Any]:
    return {"stable": True} if kind is None and stable is None else {"kind": kind, "stable": stable}


def sort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None,
    descending: bool = False,
) -> Any:  # fmt: skip
    """The elements in ascending or descending order, as numpy.sort.

    >>> sort(np.array([1.0, 3.0, 2.0]), descending=True)
    array([3., 2., 1.])
    """
    ordered = np.sort(_ready(a), axis, order=order, **_stability(kind, stable))
    return np.flip(ordered, 0 if axis is None else axis) if descending else ordered


def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None,
    descending: bool = False,
) -> Any:  # fmt: skip
    """The positions of the elements in order, as numpy.argsort, but stable by default: equal
    elements keep their order, in descending order, too.

    >>> argsort(np.array([1.0, 3.0, 3.0]), descending=True)
    array([1, 2, 0])
    """
    a, given = _ready(a), {"order": order, **_stability(kind, stable)}
    if not descending:
        return np.argsort(a, axis, **given)
    if axis is None:
        a, axis = np.ravel(a), 0
    turned = np.argsort(np.flip(a, axis), axis, **given)
    return shape_of(turned)[axis] - 1 - np.flip(turned, axis)


def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,
    max: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Clips to bounds, as numpy.clip; either may be omitted.

    >>> clip(np.array([-1.0, 0.5, 2.0]), 0.0)
    array([0. , 0.5, 2. ])
    """
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    return np.clip(_ready(a), low, high, out, **options)


# --- limits of dtypes -----------------------------------------------------------------------------


class FloatLimits:
    """The numbers of numpy.finfo, with the standard's attributes as Python numbers.

    Attributes:
      dtype: the real dtype. bits: of one number.
      eps, max, min, smallest_normal: floats. All other attributes are numpy.finfo's.
    """

    __slots__ = ("_info", "bits", "dtype", "eps", "max", "min", "smallest_normal")

    def __init__(self, info: Any) -> None:
        self._info = info
        self.dtype = info.dtype
        self.bits = int(info.bits)
        self.eps = float(info.eps)
        self.max = float(info.max)
        self.min = float(info.min)
        self.smallest_normal = float(info.smallest_normal)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_info"), name)

    def __repr__(self) -> str:
        return repr(self._info)


def _dtype_of(type: Any) -> Any:
    """A dtype, or that of an array, traced or not."""
    is_array = isinstance(type, (Tracer, np.ndarray, np.generic))
    return typeof(type).dtype if is_array else type


def finfo(type: Any, /) -> FloatLimits:
    """The limits of an inexact dtype, or of an array's.

    >>> finfo(np.float32).eps
    1.1920928955078125e-07
    """
    return FloatLimits(np.finfo(_dtype_of(type)))


def iinfo(type: Any, /) -> Any:
    """The limits of an integer dtype, or of an array's, as numpy.iinfo.

    >>> iinfo(np.zeros(2, np.int8)).max
    127
    """
    return np.iinfo(_dtype_of(type))


# --- the array object -----------------------------------------------------------------------------


def _to_device(self: Tracer, device: Any, /, *, stream: None = None) -> Tracer:
    if device != "cpu" or stream is not None:
        raise ValueError(f"Unsupported device or stream: {device!r}, {stream!r}; there is 'cpu'.")
    return self


def _dlpack(self: Tracer, **arguments: Any) -> NoReturn:
    self.owner.concrete(self, AbstractValueError, "__dlpack__()", whole)
    raise GradientCutError(
        f"Another library asked for the memory of a traced value of type {self.type}{user_line()}, "
        "by __dlpack__. That would cut its gradient silently. Call the library by fg.external or "
        "fg.pure_callback, or give it fg.stop_gradient(x)."
    )


def _dlpack_device(self: Tracer) -> tuple[int, int]:
    return np.empty(0).__dlpack_device__()


METHODS: dict[str, Any] = {
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
    "to_device": _to_device,
}


__all__ = ["argsort", "clip", "finfo", "iinfo", "sort"]
