# ruff: noqa: F403 - every file lists its public names in __all__
"""scipy.linalg for traced values (`fungrad.scipy.linalg`), with SciPy's signatures.

Outside of transforms SciPy computes; traced values ignore `overwrite_a` and similar arguments. All
names that are not written here are SciPy's. Needs SciPy when it is imported.
"""

from __future__ import annotations

from typing import Any

from fungrad.numpy import linalg as numpy_linalg
from fungrad.numpy.protocol.operands import array_of
from fungrad.scipy.linalg.eigenvalues import *
from fungrad.scipy.linalg.equations import *
from fungrad.scipy.linalg.factorisations import *
from fungrad.scipy.linalg.matrix_functions import *
from fungrad.scipy.linalg.structured import *
from fungrad.scipy.linalg.wrap import finite, la, read, stands_for

LinAlgError = la.LinAlgError


@stands_for
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinants, as scipy.linalg.det; with derivatives at singular matrices too."""
    return numpy_linalg.det(*read("det", a, check_finite=check_finite))


@stands_for
def norm(
    a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True
) -> Any:
    """The norm of vectors or matrices, as scipy.linalg.norm; its derivative is 0 where it is 0."""
    a = array_of(a)
    return numpy_linalg.norm(finite(a) if check_finite else a, ord, axis, keepdims)


@stands_for
def lstsq(
    a: Any,
    b: Any,
    cond: Any = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: Any = None,
) -> Any:
    """x of least |a @ x - b|, residuals, rank and singular values, as scipy.linalg.lstsq."""
    a, b = array_of(a), array_of(b)
    if check_finite:
        a, b = finite(a), finite(b)
    x, residuals, rank, s = numpy_linalg.lstsq(a, b, cond)
    if len(b.shape) == 1 and residuals.shape == (1,):
        residuals = residuals[0]
    return x, residuals, rank, s


def __getattr__(name: str) -> Any:
    return getattr(la, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(la)})
