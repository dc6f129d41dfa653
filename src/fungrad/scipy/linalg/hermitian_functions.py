"""Functions of Hermitian matrices by their eigenvalues, with all derivatives.

The k-th derivative of V f(w) V^H along k matrices is a sum of products with the divided differences
f[w_i0, ..., w_ik] (Y. Daleckii and S. Krein, 1951; R. Bhatia, "Matrix Analysis", 1997, section
V.3). Where eigenvalues are equal these are derivatives of f, so nothing is lost there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.linalg.cholesky_qr import hermitian_part
from fungrad.primitives.linalg.matrix_parts import aligned, result, square, swap
from fungrad.primitives.primitive import Primitive, general
from fungrad.scipy.linalg.wrap import read
from fungrad.tracing.trace import EVAL
from fungrad.transforms.hessian_products import elementwise_grad


@lru_cache(maxsize=256)
def _derivative(f: Callable[..., Any], order: int) -> Callable[..., Any]:
    """The derivative of a function of numbers, on arrays."""
    return f if order == 0 else elementwise_grad(_derivative(f, order - 1))


def _divided(f: Callable[..., Any], points: Any) -> Any:
    """f[x_0, ..., x_k] along the last axis of points, which are in ascending order.

    Where the points are close it is the Taylor expansion about their mean, of which the next term
    is kept: the first one vanishes there.
    """
    k = points.shape[-1] - 1
    if k == 0:
        return np.asarray(f(points[..., 0]))
    gap = points[..., -1] - points[..., 0]
    scale = np.maximum(np.abs(points).max(-1), 1.0)
    close = gap <= np.finfo(points.dtype).eps ** (1 / (k + 4)) * 0.1 * scale
    quotient = (_divided(f, points[..., 1:]) - _divided(f, points[..., :-1])) / np.where(
        close, 1.0, gap
    )
    middle = points.mean(-1)
    moved = points - middle[..., None]
    second = (np.square(moved).sum(-1) + np.square(moved.sum(-1))) / 2
    series = _derivative(f, k)(middle) / math.factorial(k)
    series = series + _derivative(f, k + 2)(middle) / math.factorial(k + 2) * second
    return np.where(close, series, quotient)


def _part(x: Any) -> Any:
    return (x + x.conj().mT) / 2


def _eval_hermitian(a: Any, *along: Any, f: Callable[..., Any]) -> Any:
    dtype = np.result_type(a, *along)
    leading = np.broadcast_shapes(a.shape[:-2], *[e.shape[:-2] for e in along])
    n = a.shape[-1]
    if n == 0:
        return np.zeros((*leading, 0, 0), dtype)
    w, v = np.linalg.eigh(_part(a))
    k = len(along)
    grid = np.stack(np.meshgrid(*[np.arange(n)] * (k + 1), indexing="ij"), -1)
    factors = _divided(f, w[..., np.sort(grid, -1)])
    inner = [v.conj().mT @ _part(e) @ v for e in along]
    letters = "abcdefgh"[: k + 1]
    if k == 0:
        return ((v * factors[..., None, :]) @ v.conj().mT).astype(dtype, copy=False)
    total: Any = 0.0
    for order in itertools.permutations(range(k)):
        terms = ",".join(f"...{letters[i]}{letters[i + 1]}" for i in range(k))
        spec = f"...{letters},{terms}->...{letters[0]}{letters[-1]}"
        total = total + np.einsum(spec, factors, *[inner[i] for i in order])
    return (v @ total @ v.conj().mT).astype(dtype, copy=False)


def _type_hermitian(a: Type, *along: Type, f: Any) -> Type:
    square("funm_hermitian", a)
    shapes = [a.shape, *[e.shape for e in along]]
    return Type(np.broadcast_shapes(*shapes), result(a, *along))


def _vjp_hermitian(ct: Any, y: Any, args: Any, wanted: Any, *, f: Any) -> list[Any]:
    # It is symmetric in what it is taken along, and its transpose is that of the transposed matrix.
    a, *along = [swap(x) for x in args]
    found = [None] * len(args)
    if wanted[0]:
        found[0] = hermitian_function(a, ct, *along, f=f)
    for i in range(len(along)):
        if wanted[i + 1]:
            found[i + 1] = hermitian_function(a, ct, *along[:i], *along[i + 1 :], f=f)
    return found


def _jvp_hermitian(primals: Any, tangents: Any, *, f: Any) -> tuple[Any, Any]:
    a, *along = primals
    moved: Any = None
    terms = [] if tangents[0] is None else [(a, tangents[0], *along)]
    for i, tangent in enumerate(tangents[1:]):
        if tangent is not None:
            terms.append((a, *along[:i], tangent, *along[i + 1 :]))
    for term in terms:
        value = hermitian_function(*term, f=f)
        moved = value if moved is None else moved + value
    return hermitian_function(*primals, f=f), moved


hermitian_function: Primitive = general(
    "hermitian_function",
    eval=lambda *args, f: EVAL.run(lambda: _eval_hermitian(*args, f=f)),
    type=_type_hermitian,
    vjp=_vjp_hermitian,
    jvp=_jvp_hermitian,
    batch=lambda args, batched, size, *, f: hermitian_function(*aligned(args, batched), f=f),
)
"""`hermitian_function(a, *along, f=)`: the derivative of f(a) along matrices, as many as are given;
f(a) itself where none is. It reads the Hermitian part of each."""


def funm_hermitian(a: Any, func: Callable[..., Any], lower: bool = True) -> Any:
    """func of the eigenvalues of Hermitian matrices, put back: V func(w) V^H.

    Its derivatives of all orders are right where eigenvalues are equal too, where those of eigh are
    not determined. Not in SciPy, whose funm takes any matrix and has no derivative.

    Args:
      a: Hermitian matrices (..., n, n), of which one triangle is read.
      func: an elementwise function of real numbers that can be traced, closed over plain numbers
        alone.
      lower: whether the lower triangle is read, or the upper.

    Raises:
      numpy.linalg.LinAlgError: where a is not square.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: np.trace(funm_hermitian(a, np.exp)))(np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    (a,) = read("funm_hermitian", a)
    return hermitian_function(hermitian_part(a, lower), f=func)


__all__ = ["funm_hermitian"]
