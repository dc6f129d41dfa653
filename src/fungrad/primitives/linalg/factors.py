"""The factors of a large matrix, for several equations: by the LAPACK in NumPy's OpenBLAS.

A regular triangle is its own factor. A Hermitian matrix that is positive definite beyond rounding
has Cholesky's; others have LU factors with NumPy's exchanges of rows. What is not finite is left to
NumPy. Factors are two arrays: the matrix that holds them, and the exchanges, of which the first is
the kind of other factors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fungrad.primitives.linalg import lapack_calls
from fungrad.primitives.linalg.substitution import BLOCK, substituted, triangle_of
from fungrad.runtime.openblas import openblas
from fungrad.support.lazy import imported

_CHOLESKY, _LOWER, _UPPER, _NUMPY = 0, -1, -2, -3
"""The kinds of factors other than LU, whose exchanges begin with 1."""
_ARGUMENTS = {"getrf": 6, "getrs": 9, "getri": 7, "potrf": 5, "potrs": 8, "potri": 5}
"""LAPACK's routines, and the numbers of their arguments."""
Routine = Callable[..., int]


def double(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The double precision in which NumPy factorises matrices of a dtype."""
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


@functools.cache
def exchanges() -> np.dtype[Any] | None:
    """The dtype of exchanges; None if there are no routines."""
    if _routines(np.dtype(np.float64)) is None or _routines(np.dtype(np.complex128)) is None:
        return None
    library: Any = openblas()
    found: np.dtype[Any] = np.dtype(library.integer)
    return found


@functools.cache
def _routines(dtype: np.dtype[Any]) -> Mapping[str, Routine] | None:
    """LAPACK's routines for a double precision, by name; None if NumPy has another LAPACK."""
    library = openblas()
    if library is None:
        return None
    ctypes = imported("ctypes")
    integer, pointer = library.integer, ctypes.c_void_p

    def called(call: Any) -> Routine:
        def run(*args: Any) -> int:
            info = integer(0)
            call(*map(given, args), ctypes.byref(info))
            return int(info.value)

        return run

    def given(arg: Any) -> Any:
        if isinstance(arg, int):
            return ctypes.byref(integer(arg))
        return arg.__array_interface__["data"][0] if isinstance(arg, np.ndarray) else arg

    routines = {}
    for name, count in _ARGUMENTS.items():
        letter = "z" if dtype.kind == "c" else "d"
        routine = library.routine(f"{letter}{name}_", None, [pointer] * count)
        if routine is None:
            return None
        routines[name] = called(routine)
    return routines


def factored(a: Any) -> tuple[Any, Any]:
    """The factors of a matrix."""
    library: Any = _routines(dtype := double(a.dtype))
    n = len(a)
    exchanged = np.zeros(n, exchanges())
    lower = triangle_of(a)
    if lower is not None and a.diagonal().all() and np.isfinite(a).all():
        exchanged[0] = _LOWER if lower else _UPPER
        return np.array(a, dtype, order="C"), exchanged
    if _hermitian(a):
        packed = np.array(a, dtype, order="C")
        failed = library["potrf"](b"U", n, packed, n)
        if not failed and _regular(packed.diagonal().real, a.diagonal().real):
            return packed, exchanged
    packed = np.array(a, dtype, order="F")
    library["getrf"](n, n, packed, n, exchanged)
    if np.isfinite(packed).all():
        return packed, exchanged
    exchanged[0] = _NUMPY
    return np.array(a, dtype, order="C"), exchanged


def _hermitian(a: Any) -> bool:
    """Whether a matrix is its adjoint, to the bit, with a positive diagonal."""
    if not ((a.diagonal().real > 0).all() and (a[0] == a[:, 0].conj()).all()):
        return False
    for start in range(0, len(a), BLOCK):
        stop = start + BLOCK
        if not (a[start:stop, :stop] == a[:stop, start:stop].conj().T).all():
            return False
    return True


def _regular(pivots: Any, diagonal: Any) -> bool:
    """Whether Cholesky's pivots are finite and not as small as rounding, as are those of matrices
    that NumPy may call singular.
    """
    least = len(pivots) * np.finfo(np.float64).eps * diagonal.max()
    return bool(np.isfinite(pivots).all() and pivots.min() ** 2 > least)


def solution(packed: Any, exchanged: Any, b: Any, *, transposed: bool) -> Any:
    """The x with a @ x = b for matrices b, of the dtype of b."""
    kind = exchanged[0]
    if kind < _CHOLESKY:
        a = packed.T if transposed else packed
        b = b.astype(packed.dtype, copy=False)
        if kind != _NUMPY:
            x = substituted(a, b, (kind == _LOWER) != transposed)
            if np.isfinite(x).all():
                return x
        return lapack_calls.solve(a, b)
    library: Any = _routines(packed.dtype)
    n, k = b.shape
    x = np.array(b, packed.dtype, order="F")
    if kind == _CHOLESKY:  # of the transpose: LAPACK's matrices are in Fortran's order
        conjugate = packed.dtype.kind == "c" and not transposed
        x = x.conj() if conjugate else x
        library["potrs"](b"U", n, k, packed, n, x, n)
        return x.conj() if conjugate else x
    _must_be_regular(packed)
    library["getrs"](b"T" if transposed else b"N", n, k, packed, n, exchanged, x, n)
    return x


def _must_be_regular(packed: Any) -> None:
    if not packed.diagonal().all():
        raise np.linalg.LinAlgError(lapack_calls.SINGULAR)


def inverse(packed: Any, exchanged: Any, *, transposed: bool, turned: bool) -> Any:
    """The inverse, or that of the transpose; the transpose of that if it is `turned`."""
    library: Any = _routines(packed.dtype)
    kind, n = exchanged[0], len(packed)
    if kind < _CHOLESKY:
        x = _inverse_without_factors(packed.T if transposed else packed, kind, transposed)
        return x.T if turned else x
    if kind == _CHOLESKY:
        x = packed.copy()
        library["potri"](b"U", n, x, n)
        _mirror(x)
        return x.conj() if transposed != turned else x
    _must_be_regular(packed)
    x = packed.copy(order="F")
    size = BLOCK * n
    library["getri"](n, x, n, exchanged, np.empty(size, packed.dtype), size)
    return np.ascontiguousarray(x.T if transposed != turned else x)


def _inverse_without_factors(a: Any, kind: int, transposed: bool) -> Any:
    if kind != _NUMPY:
        x = substituted(a, np.eye(len(a), dtype=a.dtype), (kind == _LOWER) != transposed)
        if np.isfinite(x).all():
            return x
    return lapack_calls.inv(a)


def _mirror(x: Any) -> None:
    """Makes a matrix Hermitian whose lower triangle is set."""
    for start in range(0, len(x), BLOCK):
        here, below = slice(start, start + BLOCK), slice(start + BLOCK, None)
        block = np.tril(x[here, here])
        x[here, here] = block + np.tril(block, -1).conj().T
        x[here, below] = x[below, here].conj().T


def slogdet(packed: Any, exchanged: Any) -> tuple[Any, Any]:
    """The sign of the determinant, and the logarithm of its size."""
    kind, pivots = exchanged[0], packed.diagonal()
    if kind == _NUMPY:
        sign, log = lapack_calls.slogdet(packed)
        return sign, log
    one = packed.dtype.type(1)
    if kind == _CHOLESKY:
        return one, 2 * np.log(pivots.real).sum()
    if not pivots.all():
        return 0 * one, np.float64("-inf")
    odd = kind > 0 and np.count_nonzero(exchanged != np.arange(1, len(packed) + 1)) % 2
    sizes = np.abs(pivots)
    return (-one if odd else one) * np.prod(pivots / sizes), np.log(sizes).sum()


def det(packed: Any, exchanged: Any, *, transposed: bool) -> Any:
    """The determinant, as NumPy computes it."""
    if exchanged[0] == _NUMPY:
        return lapack_calls.det(packed.T if transposed else packed)
    sign, log = slogdet(packed, exchanged)
    return sign * np.exp(log)


def cholesky(a: Any, packed: Any, exchanged: Any) -> Any:
    """Cholesky's factor of a."""
    return np.tril(packed) if exchanged[0] == _CHOLESKY else lapack_calls.cholesky(a)
