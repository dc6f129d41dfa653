"""Triangular systems: the BLAS's trsm on blocks, so that most of the work are products.

Where NumPy's BLAS is not OpenBLAS, NumPy solves the systems of the diagonal blocks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.primitives.linalg import lapack_calls
from fungrad.primitives.linalg.matrix_parts import triangle
from fungrad.runtime.openblas import openblas
from fungrad.support.lazy import imported

BLOCK = 128
"""The most rows of a diagonal block."""
LEAST = 48
"""Systems of more unknowns are examined for triangles."""
STACKED = 16
"""The most rows of matrices in a stack that NumPy solves in one call."""
_ROWS, _LEFT, _UPPER, _LOWER, _AS_IT_IS, _TRANSPOSED, _DIAGONAL = 101, 141, 121, 122, 111, 112, 131
"""CBLAS's constants: C order, a on the left, ..., and a diagonal that is not all ones."""


def by_numpy(a: Any, b: Any, lower: bool) -> Any:
    """x with a @ x = b for matrices b. Only one triangle of a is read."""
    n = a.shape[-1]
    if n <= BLOCK:
        return lapack_calls.solve(np.tril(a) if lower else np.triu(a), b)
    half = n // 2
    top, bottom = b[..., :half, :], b[..., half:, :]
    if lower:
        x = by_numpy(a[..., :half, :half], top, True)
        y = by_numpy(a[..., half:, half:], bottom - a[..., half:, :half] @ x, True)
    else:
        y = by_numpy(a[..., half:, half:], bottom, False)
        x = by_numpy(a[..., :half, :half], top - a[..., :half, half:] @ y, False)
    return np.concatenate([x, y], axis=-2)


@functools.wraps(by_numpy)
def substituted(a: Any, b: Any, lower: bool) -> Any:
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) if max(a.ndim, b.ndim) > 2 else ()
    result = np.result_type(a, b)
    dtype = np.dtype(np.complex128 if result.kind == "c" else np.float64)
    solve = _trsm(dtype)
    if solve is None or (stack and a.shape[-1] <= STACKED):
        return by_numpy(a, b, lower)
    if not a.diagonal(axis1=-2, axis2=-1).all():
        raise np.linalg.LinAlgError(lapack_calls.SINGULAR)
    x = np.empty((*stack, *b.shape[-2:]), dtype)
    x[...] = b
    a = a.astype(dtype, copy=False)
    if not stack:
        _substitute(solve, a, x, lower)
    elif x.size:
        a = np.broadcast_to(a, (*stack, *a.shape[-2:]))
        for index in np.ndindex(*stack):
            _substitute(solve, a[index], x[index], lower)
    return x.astype(result, copy=False)


@functools.wraps(np.linalg.solve)
def solved(a: Any, b: Any) -> Any:
    """np.linalg.solve for matrices b, by substitution if a large a is a triangle."""
    if a.ndim == 2 and len(a) > LEAST and b.dtype == a.dtype:
        lower = triangle_of(a)
        if lower is not None:
            x = substituted(a, b, lower)
            if np.isfinite(x).all():  # NumPy's factors spread NaN to other rows
                return x
    return lapack_calls.solve(a, b)


def triangle_of(a: Any) -> bool | None:
    """Whether a matrix is a lower triangle; False if it is an upper one, None if neither."""
    for lower in (False, True):
        beyond = a if lower else a.T
        if not beyond[0, -1] and _is_lower(beyond):
            return lower
    return None


def _is_lower(a: Any) -> bool:
    """Whether all elements above the diagonal are zero."""
    n = len(a)
    if n <= BLOCK:
        return not np.logical_and(a, ~triangle((n, n), 0)).any()
    half = n // 2
    if a[:half, half:].any():
        return False
    return _is_lower(a[:half, :half]) and _is_lower(a[half:, half:])


def _substitute(solve: Callable[[Any, Any, bool], None], a: Any, x: Any, lower: bool) -> None:
    """Overwrites x, in C order, by a^-1 @ x."""
    n = len(a)
    if n <= BLOCK:
        solve(a, x, lower)
        return
    half = n // 2
    first, rest = slice(0, half), slice(half, n)
    if not lower:
        first, rest = rest, first
    _substitute(solve, a[first, first], x[first], lower)
    x[rest] -= a[rest, first] @ x[first]
    _substitute(solve, a[rest, rest], x[rest], lower)


@functools.cache
def _trsm(dtype: np.dtype[Any]) -> Callable[[Any, Any, bool], None] | None:
    """The BLAS's substitution for a dtype: `run(a, x, lower)` overwrites x; or None."""
    library = openblas()
    if library is None:
        return None
    ctypes = imported("ctypes")
    flag, size, pointer = ctypes.c_int, library.integer, ctypes.c_void_p
    real = dtype.kind == "f"
    one = 1.0 if real else ctypes.c_double * 2
    types = [*[flag] * 5, size, size, ctypes.c_double if real else pointer, pointer, size, pointer,
             size]  # fmt: skip
    call = library.routine("cblas_dtrsm" if real else "cblas_ztrsm", None, types)
    if call is None:
        return None
    one = 1.0 if real else (ctypes.c_double * 2)(1.0, 0.0)
    item = dtype.itemsize

    def run(a: Any, x: Any, lower: bool) -> None:
        rows, columns = x.shape
        if not x.size:
            return
        across, along = a.strides
        turned = across == item and along != item
        if (along if not turned else across) != item or max(across, along) < rows * item:
            a = np.ascontiguousarray(a)
            across, along = a.strides
            turned = False
        leading = (along if turned else across) // item
        call(
            _ROWS, _LEFT, _LOWER if lower != turned else _UPPER,
            _TRANSPOSED if turned else _AS_IT_IS, _DIAGONAL, rows, columns, one,
            a.__array_interface__["data"][0], max(leading, rows),
            x.__array_interface__["data"][0], max(x.strides[0] // item, columns),
        )  # fmt: skip

    return run
