"""How many operations the factorisations of matrices take, of the textbook's algorithms.

The formulas are those of Golub and Van Loan, Matrix Computations (4th edition, GVL below), and of
LAPACK Working Note 41; the leading terms, four times as much for complex numbers. Knows names and
types; runs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.ir.types import Type

Rule = Callable[[Sequence[Type], Sequence[Type], dict[str, Any]], float]


def _stack(a: Type) -> float:
    """How many matrices, times four where they are complex."""
    return math.prod(a.shape[:-2]) * (4 if a.dtype.kind == "c" else 1)


def _cubed(factor: float) -> Rule:
    """So many times n**3 for a square matrix."""
    return lambda inputs, outputs, params: factor * _stack(inputs[0]) * inputs[0].shape[-1] ** 3


def _solve(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> float:
    """LU and two substitutions, 2/3 n^3 + 2 n^2 k (GVL 3.2); one substitution, n^2 k (3.1)."""
    n, k = inputs[0].shape[-1], outputs[0].shape[-1]
    factors = _stack(inputs[0]) * 2 / 3 * n**3
    each = _stack(outputs[0]) * n**2 * k
    return each if params["triangle"] else factors + 2 * each


def _tall(a: Type) -> tuple[int, int]:
    return max(a.shape[-2:]), min(a.shape[-2:])


def _lu(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> float:
    """m n^2 - n^3 / 3 for m >= n (Working Note 41)."""
    m, n = _tall(inputs[0])
    return _stack(inputs[0]) * (m * n**2 - n**3 / 3)


def _qr(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> float:
    """Householder's reduction, and forming Q (Working Note 41, GEQRF and ORGQR)."""
    a = inputs[0]
    m, k = a.shape[-2], min(a.shape[-2:])
    large, small = _tall(a)
    reduction = 2 * large * small**2 - 2 / 3 * small**3
    return _stack(a) * (reduction + 2 * m * k**2 - 2 / 3 * k**3)


def _svd(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> float:
    """Golub and Reinsch: 14 m n^2 + 8 n^3, or with all of U 4 m^2 n + 8 m n^2 + 9 n^3 (GVL 8.6)."""
    m, n = _tall(inputs[0])
    thin = 14 * m * n**2 + 8 * n**3
    return _stack(inputs[0]) * (4 * m**2 * n + 8 * m * n**2 + 9 * n**3 if params["full"] else thin)


def _svdvals(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> float:
    """4 m n^2 - 4/3 n^3 (GVL 8.6)."""
    m, n = _tall(inputs[0])
    return _stack(inputs[0]) * (4 * m * n**2 - 4 / 3 * n**3)


def _pinv(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> float:
    """The thin SVD, and the product of its parts."""
    m, n = _tall(inputs[0])
    return _svd(inputs, outputs, {"full": False}) + _stack(inputs[0]) * 2 * m * n**2


def _sylvester(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> float:
    """Bartels and Stewart: two Schur forms of 25 n^3, 5/2 (m n^2 + m^2 n) besides (GVL 7.6)."""
    m, n = outputs[0].shape[-2:]
    return _stack(outputs[0]) * (25 * (m**3 + n**3) + 2.5 * (m * n**2 + m**2 * n))


def _roots(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> float:
    """The eigenvalues of the companion matrix."""
    p, degree = inputs[0], outputs[0].shape[-1]
    return math.prod(p.shape[:-1]) * (4 if p.dtype.kind == "c" else 1) * 10.0 * degree**3


MATRICES: dict[str, Rule] = {
    "solve": _solve,
    "inv": _cubed(2),  # Working Note 41, GETRF and GETRI
    "pinv": _pinv,
    "det": _cubed(2 / 3),  # that of its LU factors
    "slogdet": _cubed(2 / 3),
    "cholesky": _cubed(1 / 3),  # GVL 4.2
    "lu": _lu,
    "qr": _qr,
    "eigh": _cubed(9),  # GVL 8.3, symmetric QR
    "eigvalsh": _cubed(4 / 3),
    "eig": _cubed(25),  # GVL 7.5, Hessenberg QR
    "eigvals": _cubed(10),
    "svd": _svd,
    "svdvals": _svdvals,
    "sylvester": _sylvester,
    "polynomial_roots": _roots,
}

__all__ = ["MATRICES"]
