"""The derivative of the matrix exponential along a matrix, for stacks of matrices at once.

A. Al-Mohy and N. Higham, "Computing the Frechet derivative of the matrix exponential, with an
application to condition number estimation" (2009), algorithm 6.4: a Pade approximant and repeated
squaring, in the arithmetic of pairs [A, E], which stand for A + t E to first order in t.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from fungrad.primitives.linalg.lapack_calls import solve

_BOUNDS = {3: 1.08e-2, 5: 2.00e-1, 7: 7.83e-1, 9: 1.78, 13: 4.74}
"""The largest 1-norm for which an approximant of a degree is exact to rounding: table 6.1."""
STACKED = 64
"""The most rows of matrices that are computed at once: larger ones need much memory."""


@lru_cache(maxsize=8)
def _coefficients(degree: int) -> Any:
    """Those of A^0, A^2, A^4, A^6 (and A^8) in sums of even powers.

    The numerator of the approximant is V + A U, the denominator V - A U. For degree 13
    U = A^6 W + X and V = A^6 Y + Z: the rows are W, X, Y and Z, else U and V.
    """
    b = [1.0]
    for j in range(degree):
        b.append(b[-1] * (degree - j) / ((j + 1) * (2 * degree - j)))
    if degree < 13:
        return np.array([b[1::2], b[::2]])
    return np.array([[0.0, *b[9::2]], b[1:9:2], [0.0, *b[8:13:2]], b[0:8:2]])


def derivative(a: Any, e: Any) -> Any:
    """d/dt expm(a + t e) at t = 0, for matrices of the same shape and dtype."""
    n = a.shape[-1]
    dtype = np.result_type(a, np.float64)
    norms = np.abs(a).sum(-2).max(-1, initial=0)
    largest = norms.max(initial=0)
    degree = next((m for m, bound in _BOUNDS.items() if largest <= bound), 13)
    halvings = np.zeros(norms.shape, int)
    if largest > _BOUNDS[13] and np.isfinite(largest):
        with np.errstate(divide="ignore"):
            wanted = np.ceil(np.log2(norms / _BOUNDS[13]))
        halvings = np.maximum(wanted, 0).astype(int)
        a, e = [np.ldexp(1.0, -halvings)[..., None, None] * x for x in (a, e)]
    sums = _coefficients(degree)
    powers = np.empty((sums.shape[1], *a.shape[:-1], 2 * n), dtype)
    powers[0, ..., :n], powers[0, ..., n:] = np.eye(n), 0.0
    pair = np.concatenate([a, e], axis=-1, dtype=dtype)
    _product(pair, pair, powers[1])
    for k in range(2, len(powers)):
        _product(powers[1], powers[k - 1], powers[k])
    found = (sums @ powers.reshape(len(powers), -1)).reshape(len(sums), *pair.shape)
    if degree == 13:
        found[1] += _product(powers[3], found[0])
        found[3] += _product(powers[3], found[2])
        found = found[1::2]
    odd, even = _product(pair, found[0]), found[1]
    numerator, denominator = even + odd, even - odd
    pair[..., :n] = value = solve(denominator[..., :n], numerator[..., :n])
    right = numerator[..., n:] - denominator[..., n:] @ value
    pair[..., n:] = solve(denominator[..., :n], right)
    for done in range(halvings.max(initial=0)):
        squared, left = _product(pair, pair), (done < halvings)[..., None, None]
        pair = np.where(left, squared, pair) if a.ndim > 2 else squared
    return pair[..., n:]


def _product(x: Any, y: Any, out: Any = None) -> Any:
    """The product of pairs: [A, E] [B, F] = [A B, A F + E B]."""
    n = x.shape[-2]
    out = np.matmul(x[..., :n], y, out=out)
    out[..., n:] += x[..., n:] @ y[..., :n]
    return out
