"""np.linalg's equations and factorisations without NumPy's overhead.

np.linalg converts arguments and sets the handling of floating-point errors in each call, which
takes two thirds of the time for small matrices. Here that is set up once. The ufuncs called
directly are private to NumPy: if they are missing, or differ from np.linalg, and for other dtypes
than float64 and complex128, np.linalg is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fungrad.primitives.linalg.matrix_parts import triangle

Function = Callable[..., Any]

_DTYPES = (np.dtype(np.float64), np.dtype(np.complex128))
SINGULAR = "Singular matrix"
_NOT_POSITIVE = "Matrix is not positive definite"
_DIVERGED = "Eigenvalues did not converge"
_NO_SVD = "SVD did not converge"


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
    """The direct function if it agrees with the public one on small matrices, else that one.

    Args:
      public: the function of np.linalg, or one that calls it.
      name: the ufunc that does the work.
      message: the text of its LinAlgError; "" if it raises none.
    """
    count = 2 if name == "solve" else 1
    return functools.wraps(public)(_known(public, name, message, count) or _written(public, count))


def _known(public: Function, name: str, message: str, count: int) -> Function | None:
    """The direct function; None if NumPy lacks its parts, or they behave differently."""
    four, none = np.full((1, 1), 4.0), np.zeros((1, 1))
    try:
        from numpy.linalg import _umath_linalg

        direct = _direct(public, getattr(_umath_linalg, name), message)
        same = _alike(direct(*[four] * count), public(*[four] * count))
        raises = _raises(direct, *[none] * count)
    except (ImportError, AttributeError, TypeError, ValueError):
        return None  # private parts may vanish, or take other arguments, in any release
    return direct if same and raises == _raises(public, *[none] * count) else None


def _alike(found: Any, expected: Any) -> bool:
    """Whether arrays, or tuples of arrays, hold the same numbers."""
    pairs = zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)], strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


def _qr() -> Function:
    """np.linalg.qr, as the ufuncs for Householder's reflectors and for their product."""
    message = "Incorrect argument found while performing QR factorization"
    try:
        from numpy.linalg import _umath_linalg

        reflectors = _direct(np.linalg.qr, _umath_linalg.qr_r_raw, message)
        product = _direct(np.linalg.qr, _umath_linalg.qr_reduced, message)
        ones = np.ones((2, 1))
        known = _alike(_by_reflectors(reflectors, product, ones), np.linalg.qr(ones))
    except (ImportError, AttributeError, TypeError, ValueError):
        known = False  # as in `_known`

    def qr(a: Any) -> Any:
        if not known or a.dtype not in _DTYPES:
            return _plain_qr(a)
        return _by_reflectors(reflectors, product, a)

    return functools.wraps(_plain_qr)(qr)


def _plain_qr(a: Any) -> Any:
    return tuple(np.linalg.qr(a))


def _by_reflectors(reflectors: Function, product: Function, a: Any) -> tuple[Any, Any]:
    packed = np.array(a, copy=True)
    rows = min(a.shape[-2:])
    q = product(packed, reflectors(packed))
    r = packed[..., :rows, :]
    return q, np.where(triangle(r.shape[-2:], -1), np.zeros((), r.dtype), r)


solve = _fastest(np.linalg.solve, "solve", SINGULAR)
"""`solve(a, b)`, or `solve(a, b, out)`, for matrices b."""
inv = _fastest(np.linalg.inv, "inv", SINGULAR)
cholesky = _fastest(np.linalg.cholesky, "cholesky_lo", _NOT_POSITIVE)
det = _fastest(np.linalg.det, "det")
slogdet = _fastest(np.linalg.slogdet, "slogdet")


def _of_option(public: Function, option: str, names: Mapping[bool, str], message: str) -> Function:
    """A function with an option that names the ufunc."""
    found = {
        value: _fastest(functools.partial(public, **{option: value}), name, message)
        for value, name in names.items()
    }

    def run(a: Any, **given: bool) -> Any:
        return found[given[option]](a)

    return functools.wraps(public)(run)


def _eigh(a: Any, *, lower: bool) -> Any:
    return tuple(np.linalg.eigh(a, "L" if lower else "U"))


def _eigvalsh(a: Any, *, lower: bool) -> Any:
    return np.linalg.eigvalsh(a, "L" if lower else "U")


def _svd(a: Any, *, full: bool) -> Any:
    return tuple(np.linalg.svd(a, full))


def _svdvals(a: Any) -> Any:
    return np.linalg.svd(a, compute_uv=False)


qr = _qr()
"""`qr(a)`: the reduced factorisation."""
eigh = _of_option(_eigh, "lower", {True: "eigh_lo", False: "eigh_up"}, _DIVERGED)
"""`eigh(a, lower=)`."""
eigvalsh = _of_option(_eigvalsh, "lower", {True: "eigvalsh_lo", False: "eigvalsh_up"}, _DIVERGED)
svd = _of_option(_svd, "full", {True: "svd_f", False: "svd_s"}, _NO_SVD)
"""`svd(a, full=)`."""
svdvals = _fastest(_svdvals, "svd", _NO_SVD)
