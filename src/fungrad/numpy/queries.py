"""NumPy's questions about arrays, asked of traced values: dtypes, equality, memory, text.

The answers are Python's and NumPy's objects, or traced booleans; none has a derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import implements, known
from fungrad.numpy.protocol.operands import array_of
from fungrad.tracing.trace import Tracer, shape_of


@implements(np.min_scalar_type)
def min_scalar_type(a: Any) -> Any:
    """The smallest dtype that holds a number, as numpy.min_scalar_type; that of an array."""
    return np.min_scalar_type(a if not shape_of(a) and type(a) is not Tracer else _smallest(a))


def _smallest(a: Any) -> Any:
    return np.zeros(1, a.dtype) if shape_of(a) else known(a, "np.min_scalar_type")


@implements(np.real_if_close)
def real_if_close(a: Any, tol: Any = 100) -> Any:
    """The real part where all imaginary parts are small, as numpy.real_if_close.

    Which it is has to be known, since the dtype depends on it.
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
    """The order of contractions of an einsum, as numpy.einsum_path: shapes alone decide."""
    shapes = [
        np.broadcast_to(x.dtype.type(0), x.shape) if type(x) is Tracer else x for x in operands
    ]
    return np.einsum_path(*shapes, optimize=optimize)


def _shares(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """False: a traced value has no memory of its own that could be written to."""
    return a is b


may_share_memory = implements(np.may_share_memory)(_shares)
shares_memory = implements(np.shares_memory)(_shares)

# --- text -----------------------------------------------------------------------------------------


def _text(a: Any, *args: Any, **kwargs: Any) -> str:
    """The text of a traced value: its type, and the transform that traces it."""
    return repr(a)


array_repr = implements(np.array_repr)(_text)
array_str = implements(np.array_str)(_text)
array2string = implements(np.array2string)(_text)

__all__ = [
    "array2string", "array_repr", "array_str",
    "einsum_path", "may_share_memory", "min_scalar_type", "real_if_close",
    "shares_memory",
]  # fmt: skip
