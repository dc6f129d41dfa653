"""np.linalg's equations and factorisations without NumPy's overhead.

np.linalg converts arguments and sets the handling of floating-point errors in each call, which
takes two thirds of the time for small matrices. Here that is set up once. The ufuncs called
directly are private to NumPy: if they are missing, or differ from np.linalg, and for other dtypes
than float64 and complex128, np.linalg is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.primitives.linalg.matrix_parts import triangle

Function = Callable[..., Any]

_DTYPES = (np.dtype(np.float64), np.dtype(np.complex128))
SINGULAR = "Singular matrix"
_NOT_POSITIVE = "Matrix is not positive definite"
_DIVERGED = "Eigenvalues did not converge"
_NO_SVD = "SVD did not converge"


def _direct(public: Function, gufunc: Any, message: str) -> Function:
    """The same function, without NumPy's overhead around LAPACK.

    Args:
      public: the function of np.linalg.
      gufunc: the ufunc that it calls.
      message: the text of its LinAlgError; "" if it raises none.
    """
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    def call(error: str, flag: int) -> None:
        raise np.linalg.LinAlgError(message)

    errors = _make_extobj(call=call, invalid="call", over="ignore", divide="ignore", under="ignore")
    set_errors, reset = _extobj_contextvar.set, _extobj_contextvar.reset

    def run(*args: Any) -> Any:
        for a in args:
            if a.dtype not in _DTYPES:
                return public(*args)
        if not message:
            return gufunc(*args)
        token = set_errors(errors)
        try:
            return gufunc(*args)
        finally:
            reset(token)

    return run


def _fastest(public: Function, name: str, message: str = "") -> Function:
    """The direct function if it agrees with the public one on small matrices, else that one.

    Args:
      public: the function of np.linalg, or one that calls it.
      name: the ufunc that does the work.
      message: the text of its LinAlgError; "" if it raises none.
    """
    count = 2 if name == "solve" else 1
    regular, singular = [np.full((1, 1), 4.0)] * count, [np.zeros((1, 1))] * count
    found = _by_ufuncs(
        lambda ufuncs: _direct(public, getattr(ufuncs, name), message), public, regular, singular
    )
    return public if found is None else functools.wraps(public)(found)


def _by_ufuncs(
    make: Callable[[Any], Function], public: Function, *examples: Sequence[Any]
) -> Function | None:
    """`make(ufuncs)`, a function by NumPy's private ufuncs; None if NumPy lacks its parts, or if it
    does not do what the public function does with the arguments of examples.
    """
    try:
        from numpy.linalg import _umath_linalg

        made = make(_umath_linalg)
        alike = all(_alike(_outcome(made, args), _outcome(public, args)) for args in examples)
    except (ImportError, AttributeError, TypeError, ValueError):
        return None  # private parts may vanish, or take other arguments, in any release
    return made if alike else None


def _outcome(function: Function, args: Sequence[Any]) -> tuple[Any, ...] | None:
    """The results; None if it raises a LinAlgError."""
    try:
        found = function(*args)
    except np.linalg.LinAlgError:
        return None
    return found if isinstance(found, tuple) else (found,)


def _alike(found: tuple[Any, ...] | None, expected: tuple[Any, ...] | None) -> bool:
    """Whether outcomes hold the same numbers."""
    if found is None or expected is None:
        return found is expected
    return len(found) == len(expected) and all(map(np.array_equal, found, expected))


def _qr() -> Function:
    """np.linalg.qr, as the ufuncs for Householder's reflectors and for their product."""
    message = "Incorrect argument found while performing QR factorization"

    def made(ufuncs: Any) -> Function:
        reflectors = _direct(np.linalg.qr, ufuncs.qr_r_raw, message)
        product = _direct(np.linalg.qr, ufuncs.qr_reduced, message)

        def qr(a: Any) -> Any:
            if a.dtype not in _DTYPES:
                return _plain_qr(a)
            packed = np.array(a, copy=True)
            rows = min(a.shape[-2:])
            q = product(packed, reflectors(packed))
            r = packed[..., :rows, :]
            return q, np.where(triangle(r.shape[-2:], -1), np.zeros((), r.dtype), r)

        return qr

    found = _by_ufuncs(made, np.linalg.qr, [np.ones((2, 1))])
    return functools.wraps(_plain_qr)(found or _plain_qr)


def _plain_qr(a: Any) -> Any:
    return tuple(np.linalg.qr(a))


solve = _fastest(np.linalg.solve, "solve", SINGULAR)
"""`solve(a, b)` for matrices b."""
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
