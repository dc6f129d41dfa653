"""NumPy's functions about dtypes, shared memory and text, for traced values.

Their results are objects of Python and NumPy, without derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import implements, known, of_arrays
from fungrad.numpy.protocol.operands import array_of
from fungrad.tracing.trace import Tracer, shape_of, typeof, words
from fungrad.tracing.traced_text import text_of


def _stand_in(value: Any) -> Any:
    """The dtype of a traced value, a Python number for a weak one; any other value itself."""
    if type(value) is not Tracer:
        return value
    type_ = typeof(value)
    return type_.zeros() if type_.weak else type_.dtype


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that NumPy promotes the arguments to, as np.result_type."""
    return np.result_type(*[_stand_in(x) for x in arrays_and_dtypes])


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether a cast is allowed by a casting rule, as np.can_cast."""
    return np.can_cast(typeof(from_).dtype if type(from_) is Tracer else from_, to, casting)


@implements(np.common_type)
def common_type(*arrays: Any) -> Any:
    """The inexact scalar type that the arrays have in common, as np.common_type."""
    return np.common_type(*[np.empty(0, array_of(x).dtype) for x in arrays])


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex, as np.iscomplexobj."""
    return bool(array_of(x).dtype.kind == "c")


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex, as np.isrealobj."""
    return bool(array_of(x).dtype.kind != "c")


@implements(np.min_scalar_type)
def min_scalar_type(a: Any) -> Any:
    """The smallest dtype that holds a number, as numpy.min_scalar_type; an array's own dtype."""
    return np.min_scalar_type(a if not shape_of(a) and type(a) is not Tracer else _smallest(a))


def _smallest(a: Any) -> Any:
    return np.zeros(1, a.dtype) if shape_of(a) else known(a, "np.min_scalar_type")


@implements(np.real_if_close)
@of_arrays
def real_if_close(a: Any, tol: Any = 100) -> Any:
    """The real part if all imaginary parts are small, as numpy.real_if_close.

    The values have to be known, since the dtype depends on them.
    """
    a = array_of(a)
    if a.dtype.kind != "c":
        return a
    if tol > 1:
        tol = np.finfo(a.dtype).eps * tol
    real = known(
        np.imag(a),
        "np.real_if_close (its dtype depends on the values)",
        lambda imaginary: bool(np.all(np.absolute(imaginary) < tol)),
    )
    return np.real(a) if real else a


@implements(np.einsum_path)
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    """The order of contractions of an einsum, as numpy.einsum_path; it depends on shapes alone."""
    shapes = [
        np.broadcast_to(x.dtype.type(0), x.shape) if type(x) is Tracer else x for x in operands
    ]
    return np.einsum_path(*shapes, optimize=optimize)


def _shares(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """Whether both are one object: a traced value has no memory that it could share."""
    return a is b


may_share_memory = implements(np.may_share_memory)(_shares)
shares_memory = implements(np.shares_memory)(_shares)

# --- text -----------------------------------------------------------------------------------------


def _text(original: Callable[..., str]) -> Callable[..., str]:
    def text(a: Any, *args: Any, **kwargs: Any) -> str:
        """The text of a traced value: its type and transform."""
        return text_of(a, words(a), lambda value: original(value, *args, **kwargs))

    return implements(original)(text)


array_repr = _text(np.array_repr)
array_str = _text(np.array_str)
array2string = _text(np.array2string)


__all__ = [
    "array2string",
    "array_repr",
    "array_str",
    "can_cast",
    "common_type",
    "einsum_path",
    "iscomplexobj",
    "isrealobj",
    "may_share_memory",
    "min_scalar_type",
    "real_if_close",
    "result_type",
    "shares_memory",
]
