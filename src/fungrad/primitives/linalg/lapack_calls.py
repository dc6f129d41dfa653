"""np.linalg's solve, inv, cholesky, det and slogdet without NumPy's overhead.

np.linalg converts arguments and sets the handling of floating-point errors in each call, which
takes two thirds of the time for small matrices. Here that is set up once. The ufuncs called
directly are private to NumPy: if they are missing, or differ from np.linalg, and for other dtypes
than float64 and complex128, np.linalg is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]

_DTYPES = (np.dtype(np.float64), np.dtype(np.complex128))
SINGULAR = "Singular matrix"
_NOT_POSITIVE = "Matrix is not positive definite"


def _written(public: Function, count: int) -> Function:
    """A function of `count` arrays that also takes an array to write its result into."""

    def run(*args: Any) -> Any:
        result = public(*args[:count])
        if len(args) == count:
            return result
        args[count][...] = result
        return args[count]

    return run


def _direct(public: Function, gufunc: Any, message: str) -> Function:
    """The same function, without NumPy's overhead around LAPACK.

    Args:
      public: the function of np.linalg.
      gufunc: the ufunc that it calls.
      message: the text of its LinAlgError; "" if it raises none.
    """
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    otherwise = _written(public, gufunc.nin)

    def call(error: str, flag: int) -> None:
        raise np.linalg.LinAlgError(message)

    errors = _make_extobj(call=call, invalid="call", over="ignore", divide="ignore", under="ignore")
    set_errors, reset = _extobj_contextvar.set, _extobj_contextvar.reset

    def run(*args: Any) -> Any:
        for a in args:
            if a.dtype not in _DTYPES:
                return otherwise(*args)
        if not message:
            return gufunc(*args)
        token = set_errors(errors)
        try:
            return gufunc(*args)
        finally:
            reset(token)

    return run


def _raises(function: Function, *args: Any) -> bool:
    try:
        function(*args)
    except np.linalg.LinAlgError:
        return True
    return False


def _fastest(public: Function, name: str, message: str = "") -> Function:
    """The direct function if it agrees with the public one on two small matrices, else that one."""
    count = 2 if name == "solve" else 1
    return functools.wraps(public)(_known(public, name, message, count) or _written(public, count))


def _known(public: Function, name: str, message: str, count: int) -> Function | None:
    """The direct function; None if NumPy lacks its parts, or they behave differently."""
    four, none = np.full((1, 1), 4.0), np.zeros((1, 1))
    try:
        from numpy.linalg import _umath_linalg

        direct = _direct(public, getattr(_umath_linalg, name), message)
        same = np.all(direct(*[four] * count) == public(*[four] * count))
        raises = _raises(direct, *[none] * count)
    except (ImportError, AttributeError, TypeError, ValueError):
        return None  # private parts may vanish, or take other arguments, in any release
    return direct if same and raises == bool(message) else None


solve = _fastest(np.linalg.solve, "solve", SINGULAR)
"""`solve(a, b)`, or `solve(a, b, out)`, for matrices b."""
inv = _fastest(np.linalg.inv, "inv", SINGULAR)
cholesky = _fastest(np.linalg.cholesky, "cholesky_lo", _NOT_POSITIVE)
det = _fastest(np.linalg.det, "det")
slogdet = _fastest(np.linalg.slogdet, "slogdet")
