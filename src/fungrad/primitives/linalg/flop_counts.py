"""The numbers of operations of factorisations of matrices, by the textbook's algorithms.

The formulas are the leading terms of Golub and Van Loan, Matrix Computations (4th edition, GVL
below), and of LAPACK Working Note 41 (WN41); times four for complex numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fungrad.ir.graph import Equation
from fungrad.ir.types import Type

Rule = Callable[[Equation], float]


def _stack(a: Type) -> float:
    """The number of matrices, times four if they are complex."""
    return math.prod(a.shape[:-2]) * (4 if a.dtype.kind == "c" else 1)


def cubed(factor: float) -> Rule:
    """A cost of `factor` times n**3 for a square matrix."""

    def cost(equation: Equation) -> float:
        a = equation.inputs[0].type
        return factor * _stack(a) * a.shape[-1] ** 3

    return cost


def solve(equation: Equation) -> float:
    """LU and two substitutions, 2/3 n^3 + 2 n^2 k (GVL 3.2); one substitution, n^2 k (3.1)."""
    a, x = equation.inputs[0].type, equation.outputs[0].type
    n, k = a.shape[-1], x.shape[-1]
    factors = _stack(a) * 2 / 3 * n**3
    each = _stack(x) * n**2 * k
    return each if equation.params["triangle"] else factors + 2 * each


def _tall(a: Type) -> tuple[int, int]:
    return max(a.shape[-2:]), min(a.shape[-2:])


def lu(equation: Equation) -> float:
    """m n^2 - n^3 / 3 for m >= n (WN41)."""
    a = equation.inputs[0].type
    m, n = _tall(a)
    return _stack(a) * (m * n**2 - n**3 / 3)


def qr(equation: Equation) -> float:
    """Householder's reduction, and forming Q (WN41, GEQRF and ORGQR)."""
    a = equation.inputs[0].type
    m, k = a.shape[-2], min(a.shape[-2:])
    large, small = _tall(a)
    reduction = 2 * large * small**2 - 2 / 3 * small**3
    return _stack(a) * (reduction + 2 * m * k**2 - 2 / 3 * k**3)


def _thin_svd(a: Type) -> float:
    """Golub and Reinsch: 14 m n^2 + 8 n^3 (GVL 8.6)."""
    m, n = _tall(a)
    return _stack(a) * (14 * m * n**2 + 8 * n**3)


def svd(equation: Equation) -> float:
    """The thin one, or with all of U 4 m^2 n + 8 m n^2 + 9 n^3 (GVL 8.6)."""
    a = equation.inputs[0].type
    m, n = _tall(a)
    whole = _stack(a) * (4 * m**2 * n + 8 * m * n**2 + 9 * n**3)
    return whole if equation.params["full"] else _thin_svd(a)


def svdvals(equation: Equation) -> float:
    """4 m n^2 - 4/3 n^3 (GVL 8.6)."""
    a = equation.inputs[0].type
    m, n = _tall(a)
    return _stack(a) * (4 * m * n**2 - 4 / 3 * n**3)


def pinv(equation: Equation) -> float:
    """The thin SVD, and the product of its parts."""
    a = equation.inputs[0].type
    m, n = _tall(a)
    return _thin_svd(a) + _stack(a) * 2 * m * n**2


def sylvester(equation: Equation) -> float:
    """Bartels and Stewart: two Schur forms of 25 n^3, 5/2 (m n^2 + m^2 n) besides (GVL 7.6)."""
    x = equation.outputs[0].type
    m, n = x.shape[-2:]
    return _stack(x) * (25 * (m**3 + n**3) + 2.5 * (m * n**2 + m**2 * n))


def roots(equation: Equation) -> float:
    """The eigenvalues of the companion matrix."""
    p, degree = equation.inputs[0].type, equation.outputs[0].type.shape[-1]
    return math.prod(p.shape[:-1]) * (4 if p.dtype.kind == "c" else 1) * 10.0 * degree**3
