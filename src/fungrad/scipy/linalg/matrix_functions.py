"""Functions of matrices (expm, logm, sqrtm, cosm, ...) and their Frechet derivatives.

The derivative L(A, E) of f is a block: f([[A, E], [0, A]]) = [[f(A), L(A, E)], [0, f(A)]] (N.
Higham, "Functions of Matrices", 2008, theorem 3.6), and L of such blocks holds the next one (N.
Higham and S. Relton, "Higher order Frechet derivatives of matrix functions and the level-2
condition number", 2014). No eigenvector is needed, so degenerate spectra do no harm.

For Hermitian matrices the k-th derivative of V f(w) V^H along k matrices is a sum of products with
the divided differences f[w_i0, ..., w_ik] (Y. Daleckii and S. Krein, 1951; R. Bhatia, "Matrix
Analysis", 1997, section V.3). For equal eigenvalues these are derivatives of f.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.numpy.linalg import inv
from fungrad.numpy.linalg_products import matrix_power
from fungrad.primitives.elementwise.ufuncs import imag, real
from fungrad.primitives.linalg.cholesky_qr import hermitian_part
from fungrad.primitives.linalg.matrix_parts import result, square, swap
from fungrad.primitives.linalg.solve import solve
from fungrad.primitives.movement.reshape_broadcast_cast import (
    aligned,
    broadcast_to,
    concatenate,
    slice_axis,
)
from fungrad.primitives.primitive import Primitive, general, or_zero, zeros
from fungrad.scipy.linalg import exponential_derivative
from fungrad.scipy.linalg.wrap import Error, each, la, read, stands_for
from fungrad.tracing.trace import EVAL, Tracer, shape_of, typeof
from fungrad.transforms.jacobian import elementwise_grad

_EPS = 1e-14
"""Eigenvalues of this size relative to the largest count as zero, where f is not smooth."""

# --- blocks ---------------------------------------------------------------------------------------


def _block(diagonal: Any, corner: Any) -> Any:
    """[[diagonal, corner], [0, diagonal]]; the corner may be None (zero)."""
    shape = shape_of(diagonal)
    if corner is not None:
        leading = np.broadcast_shapes(shape[:-2], shape_of(corner)[:-2])
        shape = (*leading, *shape[-2:])
        diagonal, corner = broadcast_to(diagonal, shape=shape), broadcast_to(corner, shape=shape)
    axis = len(shape) - 1
    nothing = zeros(Type(shape, typeof(diagonal).dtype))
    corner = nothing if corner is None else corner
    top = concatenate(diagonal, corner, axis=axis)
    return concatenate(top, concatenate(nothing, diagonal, axis=axis), axis=axis - 1)


def _corner(x: Any) -> Any:
    """The upper right quarter."""
    ndim, size = len(shape_of(x)), shape_of(x)[-1]
    top = slice_axis(x, axis=ndim - 2, start=0, stop=size // 2)
    return slice_axis(top, axis=ndim - 1, start=size // 2, stop=size)


# --- the functions of one matrix ------------------------------------------------------------------


def _principal(name: str, a: Any) -> Any:
    """SciPy's function of one matrix, real for a real matrix."""
    root = np.asarray(getattr(la, name)(a))
    if root.dtype.kind == "c" and a.dtype.kind != "c":
        if np.abs(root.imag).max() > 1e3 * np.finfo(a.dtype).eps * np.abs(root).max():
            raise Error(
                f"{name} of this real matrix is complex (it has negative eigenvalues), and the "
                f"dtype of a traced program cannot depend on its numbers: call {name} on "
                "a.astype(complex)."
            )
        root = root.real
    return root.astype(a.dtype, copy=False)


def _eval_function(a: Any, *, name: str) -> Any:
    if a.size == 0:
        return np.zeros(a.shape, a.dtype)
    if name == "expm":  # SciPy takes stacks
        return np.asarray(la.expm(a)).astype(a.dtype, copy=False)
    return each(lambda x: _principal(name, x), 1, a)[0]


def _smooth(name: str, a: Any) -> None:
    """Refuses a matrix at which the function has no derivative."""
    w = np.linalg.eigvals(a)
    size = np.abs(w.real) if name == "signm" else np.abs(w)
    if np.any(size <= _EPS * np.abs(w).max()):
        where = "on the imaginary axis" if name == "signm" else "0"
        raise Error(f"{name} has no derivative at a matrix with an eigenvalue {where}.")


def _sign(a: Any) -> Any:
    """The matrix sign by Newton's iteration, robust to repeated eigenvalues."""
    x = a
    for _ in range(100):
        inverse = np.linalg.inv(x)
        scale = np.sqrt(np.linalg.norm(inverse) / np.linalg.norm(x))
        scale = scale if abs(scale - 1.0) > 1e-2 else 1.0
        last, x = x, 0.5 * (scale * x + inverse / scale)
        if np.abs(x - last).max() <= 1e-14 * np.abs(x).max():
            break
    return x


def _frechet_of_one(name: str, a: Any, e: Any) -> Any:
    if name == "expm":
        return exponential_derivative.derivative(a, e)
    _smooth(name, a)
    if name == "sqrtm":
        x = _principal(name, a)
        return la.solve_sylvester(x, x, e)
    if name == "signm":
        sign = _sign(a)
        n = a @ sign
        return la.solve_sylvester(n, n, e - sign @ e @ sign)
    size = np.abs(e).max()
    if size == 0:
        return np.zeros_like(e)
    scale = np.abs(a).max() / size
    return _corner(_principal(name, _block(a, e * scale))) / scale


def _eval_frechet(a: Any, e: Any, *, name: str) -> Any:
    dtype = np.result_type(a, e)
    if a.size == 0 or e.size == 0:
        return np.zeros(np.broadcast_shapes(a.shape, e.shape), dtype)
    a, e = a.astype(dtype, copy=False), e.astype(dtype, copy=False)
    if name == "expm" and a.shape[-1] <= exponential_derivative.STACKED:
        a, e = np.broadcast_arrays(a, e)
        return exponential_derivative.derivative(a, e).astype(dtype, copy=False)
    return each(lambda x, y: _frechet_of_one(name, x, y), 1, a, e)[0].astype(dtype, copy=False)


def _type_function(a: Type, *, name: str) -> Type:
    square(name, a)
    return Type(a.shape, result(a))


def _jvp_frechet(primals: Any, tangents: Any, *, name: str) -> tuple[Any, Any]:
    a, e = primals
    da, de = tangents
    moved = None if de is None else frechet(a, de, name=name)
    if da is not None:
        moved = _corner(frechet(_block(a, da), _block(e, de), name=name))
    return frechet(a, e, name=name), moved


def _vjp_frechet(ct: Any, y: Any, args: Any, wanted: Any, *, name: str) -> list[Any]:
    # Transposed by tr(C^T A^i E A^j F A^k) = tr((A^k C^T A^i E A^j) F), term by term of a series.
    a, e = swap(args[0]), swap(args[1])
    ct_e = frechet(a, ct, name=name) if wanted[1] else None
    if not wanted[0]:
        return [None, ct_e]
    return [_corner(frechet(_block(a, e), _block(ct, None), name=name)), ct_e]


frechet: Primitive = general(
    "frechet",
    eval=_eval_frechet,
    type=lambda a, e, *, name: Type(np.broadcast_shapes(a.shape, e.shape), result(a, e)),
    vjp=_vjp_frechet,
    jvp=_jvp_frechet,
    batch=lambda args, batched, size, *, name: frechet(*aligned(args, batched), name=name),
)
"""`frechet(a, e, name=)`: the derivative of a matrix function at a along e. A. Al-Mohy and N.
Higham, "Computing the Frechet derivative of the matrix exponential, with an application to
condition number estimation" (2009), for expm; sqrtm and signm (C. Kenney and A. Laub, 1991) by
their Sylvester equations."""

matrix_function: Primitive = general(
    "matrix_function",
    eval=_eval_function,
    type=_type_function,
    vjp=lambda ct, y, args, wanted, *, name: [frechet(swap(args[0]), ct, name=name)],
    jvp=lambda primals, tangents, *, name: (
        matrix_function(*primals, name=name),
        frechet(primals[0], or_zero(tangents[0], primals[0]), name=name),
    ),
    batch=lambda args, batched, size, *, name: matrix_function(args[0], name=name),
)
"""`matrix_function(a, name=)`: expm, logm, sqrtm or signm of square matrices, as SciPy's; real
for real a."""

# --- SciPy's names --------------------------------------------------------------------------------


def _one(name: str, a: Any) -> Any:
    return matrix_function(*read(name, a), name=name)


@stands_for
def expm(A: Any) -> Any:
    """The exponential of square matrices: the sum of A^k / k!.

    Args:
      A: real or complex, shape (..., n, n).

    Returns:
      An array of the shape of A, in its floating dtype.

    Raises:
      ValueError: for infinities and NaN, on traced values.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: np.trace(expm(a)))(np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    return _one("expm", A)


@stands_for
def expm_frechet(
    A: Any, E: Any, method: Any = None, compute_expm: bool = True, check_finite: bool = True
) -> Any:
    """The exponential of A, and its derivative along E: d/dt expm(A + t E) at t = 0.

    The method is Al-Mohy and Higham's (2009), see `frechet`.

    Args:
      A: real or complex, shape (..., n, n).
      E: the direction, of the shape of A.
      method: SciPy's algorithm; without effect on traced values.
      compute_expm: whether to return the exponential too.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      The derivative, of the shape of A, or the pair of expm(A) and it.

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.

    >>> import fungrad as fg
    >>> along = lambda e: expm_frechet(np.zeros((1, 1)), e, compute_expm=False)[0, 0]
    >>> fg.grad(along)(np.array([[3.0]]))
    array([[1.]])
    """
    A, E = read("expm_frechet", A, E, check_finite=check_finite)
    along = frechet(A, E, name="expm")
    return (matrix_function(A, name="expm"), along) if compute_expm else along


@stands_for
def logm(A: Any, disp: Any = None) -> Any:
    """The principal logarithm of square matrices: expm(logm(A)) = A.

    Args:
      A: as for `expm`; so are the result and the errors.
      disp: whether SciPy warns of inaccuracy or returns an estimate; without effect on traced
        values.

    Raises:
      numpy.linalg.LinAlgError: on traced values, if the logarithm of a real matrix is complex, or
        if differentiated at a singular matrix.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: logm(a)[0, 0])(np.array([[4.0]])).round(9)
    array([[0.25]])
    """
    return _one("logm", A)


@stands_for
def sqrtm(A: Any, disp: Any = None, blocksize: Any = None) -> Any:
    """The principal square root of square matrices: sqrtm(A) @ sqrtm(A) = A.

    The derivative along E solves X @ L + L @ X = E for the root X.

    Args:
      A: as for `expm`; so are the result and the errors.
      disp: whether SciPy warns of inaccuracy or returns an estimate; without effect on traced
        values.
      blocksize: SciPy's; without effect on traced values.

    Raises:
      numpy.linalg.LinAlgError: on traced values, if the root of a real matrix is complex, or if
        differentiated at a singular matrix.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: sqrtm(a)[0, 0])(np.array([[4.0]]))
    array([[0.25]])
    """
    return _one("sqrtm", A)


@stands_for
def signm(A: Any, disp: Any = None) -> Any:
    """The matrix sign: A @ (A @ A)^(-1/2), with the eigenvalues 1 and -1.

    Args:
      A: as for `expm`; so are the result and the errors.
      disp: whether SciPy warns of inaccuracy or returns an estimate; without effect on traced
        values.

    Raises:
      numpy.linalg.LinAlgError: if differentiated where an eigenvalue has the real part 0.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: signm(a)[0, 1])(np.diag([1.0, -1.0])).round(9) + 0.0
    array([[0., 1.],
           [0., 0.]])
    """
    return _one("signm", A)


def _of_angle(a: Any) -> tuple[Any, Any]:
    """The exponentials of i a and -i a."""
    turned = a * 1j
    return matrix_function(turned, name="expm"), matrix_function(-turned, name="expm")


@stands_for
def cosm(A: Any) -> Any:
    """The cosine of square matrices: (expm(i A) + expm(-i A)) / 2.

    Args:
      A: as for `expm`; so are the result and the errors.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: cosm(a)[0, 0])(np.array([[np.pi / 2]])).round(9)
    array([[-1.]])
    """
    (A,) = read("cosm", A)
    if A.dtype.kind == "c":
        return sum(_of_angle(A)) * 0.5
    return real(matrix_function(A * 1j, name="expm"))


@stands_for
def sinm(A: Any) -> Any:
    """The sine of square matrices: (expm(i A) - expm(-i A)) / 2i.

    Args:
      A: as for `expm`; so are the result and the errors.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: sinm(a)[0, 0])(np.zeros((1, 1)))
    array([[1.]])
    """
    (A,) = read("sinm", A)
    if A.dtype.kind == "c":
        plus, minus = _of_angle(A)
        return (plus - minus) * -0.5j
    return imag(matrix_function(A * 1j, name="expm"))


@stands_for
def tanm(A: Any) -> Any:
    """The tangent of square matrices: the solution x of cosm(A) @ x = sinm(A).

    Args:
      A: as for `expm`; so are the result and the errors.

    Raises:
      numpy.linalg.LinAlgError: if cosm(A) is singular.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: tanm(a)[0, 0])(np.zeros((1, 1)))
    array([[1.]])
    """
    return solve(cosm(A), sinm(A), triangle="")


@stands_for
def coshm(A: Any) -> Any:
    """The hyperbolic cosine of square matrices: (expm(A) + expm(-A)) / 2.

    Args:
      A: as for `expm`; so are the result and the errors.

    >>> coshm(np.zeros((1, 1)))
    array([[1.]])
    """
    (A,) = read("coshm", A)
    return (matrix_function(A, name="expm") + matrix_function(-A, name="expm")) * 0.5


@stands_for
def sinhm(A: Any) -> Any:
    """The hyperbolic sine of square matrices: (expm(A) - expm(-A)) / 2.

    Args:
      A: as for `expm`; so are the result and the errors.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: sinhm(a)[0, 0])(np.zeros((1, 1)))
    array([[1.]])
    """
    (A,) = read("sinhm", A)
    return (matrix_function(A, name="expm") - matrix_function(-A, name="expm")) * 0.5


@stands_for
def tanhm(A: Any) -> Any:
    """The hyperbolic tangent of square matrices: the solution x of coshm(A) @ x = sinhm(A).

    Args:
      A: as for `expm`; so are the result and the errors.

    Raises:
      numpy.linalg.LinAlgError: if coshm(A) is singular.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: tanhm(a)[0, 0])(np.zeros((1, 1)))
    array([[1.]])
    """
    return solve(coshm(A), sinhm(A), triangle="")


@stands_for
def fractional_matrix_power(A: Any, t: Any) -> Any:
    """Powers of square matrices: products for a whole number t, else expm(t logm(A)).

    Args:
      A: as for `expm`; so are the result and the errors.
      t: a real number.

    Raises:
      numpy.linalg.LinAlgError: on traced values, if the logarithm of a real matrix is complex, or
        if differentiated at a singular matrix, for t not a whole number.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: fractional_matrix_power(a, 2)[0, 0])(np.array([[3.0]]))
    array([[6.]])
    """
    (A,) = read("fractional_matrix_power", A)
    if type(t) is not Tracer and isinstance(t, (int, float)) and t == math.floor(t):
        return matrix_power(A, int(t)) if t >= 0 else inv(matrix_power(A, -int(t)))
    return matrix_function(matrix_function(A, name="logm") * t, name="expm")


@lru_cache(maxsize=256)
def _derivative(f: Callable[..., Any], order: int) -> Callable[..., Any]:
    """The derivative of a function of numbers, on arrays."""
    return f if order == 0 else elementwise_grad(_derivative(f, order - 1))


def _divided(f: Callable[..., Any], points: Any) -> Any:
    """f[x_0, ..., x_k] along the last axis of points, which are in ascending order.

    For close points it is the Taylor expansion about their mean to second order; the first order
    vanishes there.
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
    # The derivative is symmetric in its directions; its transpose is that of the transposed matrix.
    a, *along = [swap(x) for x in args]
    cotangents = [None] * len(args)
    if wanted[0]:
        cotangents[0] = hermitian_function(a, ct, *along, f=f)
    for i in range(len(along)):
        if wanted[i + 1]:
            cotangents[i + 1] = hermitian_function(a, ct, *along[:i], *along[i + 1 :], f=f)
    return cotangents


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
"""`hermitian_function(a, *along, f=)`: the derivative of f(a) along the given matrices, or f(a)
itself without any. It reads the Hermitian part of each."""


def funm_hermitian(a: Any, func: Callable[..., Any], lower: bool = True) -> Any:
    """A function of Hermitian matrices by their eigenvalues: V func(w) V^H.

    Its derivatives of all orders are also right for equal eigenvalues, where those of eigh are
    undetermined. Not in SciPy, whose funm takes any matrix and has no derivative.

    Args:
      a: Hermitian matrices (..., n, n), of which one triangle is read.
      func: an elementwise function of real numbers that can be traced and closes over plain numbers
        only.
      lower: whether the lower triangle is read, or the upper.

    Returns:
      An array of the shape of a, in its floating dtype.

    Raises:
      ValueError: for infinities and NaN.
      numpy.linalg.LinAlgError: if a is not square.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: np.trace(funm_hermitian(a, np.exp)))(np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    (a,) = read("funm_hermitian", a)
    return hermitian_function(hermitian_part(a, lower), f=func)


__all__ = [
    "coshm",
    "cosm",
    "expm",
    "expm_frechet",
    "fractional_matrix_power",
    "funm_hermitian",
    "logm",
    "signm",
    "sinhm",
    "sinm",
    "sqrtm",
    "tanhm",
    "tanm",
]
