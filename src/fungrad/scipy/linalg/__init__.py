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
from fungrad.scipy.optional import rest_of_scipy

LinAlgError = la.LinAlgError


@stands_for
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Determinants of square matrices; det is differentiable at singular matrices too.

    The gradient of det(a) is the transposed matrix of cofactors, which needs no inverse of a.

    Args:
      a: real or complex, shape (..., n, n).
      overwrite_a: whether SciPy may write into a; without effect on traced values.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      Numbers of shape (...), of the dtype of a (float64 for integers).

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.

    >>> import numpy as np, fungrad as fg
    >>> fg.grad(det)(np.array([[1.0, 0.0], [0.0, 0.0]])).round(9) + 0.0
    array([[0., 0.],
           [0., 1.]])
    """
    return numpy_linalg.det(*read("det", a, check_finite=check_finite))


@stands_for
def norm(
    a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True
) -> Any:
    """The norm of vectors or of matrices: the root of sum |a_ij|^2 unless ord says otherwise.

    Args:
      a: real or complex, of any shape if axis and ord are None.
      ord: for vectors inf, -inf, 0 or a power p; for matrices "fro", "nuc", 1, -1, 2, -2, inf
        or -inf. None is 2 for vectors, "fro" for matrices.
      axis: the axis of vectors, or the two axes of matrices; None takes the whole array.
      keepdims: whether the axes are kept, with the length 1.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      A real number, or an array of them without the axes; its derivative is 0 where it is 0.

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.

    >>> import numpy as np, fungrad as fg
    >>> fg.grad(norm)(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """
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
    """The x that minimises |a @ x - b|, by the pseudoinverse of a.

    Args:
      a: real or complex, shape (m, n).
      b: right-hand sides, shape (m,) or (m, k).
      cond: the share of the largest singular value up to which one counts as 0; by default the
        rounding error.
      overwrite_a, overwrite_b: whether SciPy may write into them; without effect on traced
        values.
      check_finite: whether to refuse infinities and NaN.
      lapack_driver: LAPACK's routine, used by SciPy alone; without effect on traced values.

    Returns:
      (x, residuals, rank, s): x of shape (n,) or (n, k), the squared norms of a @ x - b (empty if
      m <= n or a has no full rank), the rank, and the singular values. The derivative of x holds
      at constant rank.

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.
      ValueError, numpy.linalg.LinAlgError: if the shapes do not fit; the latter on traced values.

    >>> import numpy as np, fungrad as fg
    >>> slope = lambda b: lstsq(np.array([[1.0], [2.0]]), b)[0][0]
    >>> fg.grad(slope)(np.array([1.0, 1.0])).round(9)
    array([0.2, 0.4])
    """
    a, b = array_of(a), array_of(b)
    if check_finite:
        a, b = finite(a), finite(b)
    x, residuals, rank, s = numpy_linalg.lstsq(a, b, cond)
    if len(b.shape) == 1 and residuals.shape == (1,):
        residuals = residuals[0]
    return x, residuals, rank, s


__getattr__, __dir__ = rest_of_scipy(globals())
