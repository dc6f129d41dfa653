"""The distributions of vectors and matrices of scipy.stats: multivariate_normal, dirichlet,
multinomial and wishart.

Methods without a formula here are SciPy's own, for plain arrays.

Source: S. Kotz, N. Balakrishnan and N. Johnson, "Continuous Multivariate Distributions" (2000).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.optional import scipy_before
from fungrad.scipy.special.elementary import xlogy
from fungrad.scipy.special.gamma_functions import digamma, gammaln
from fungrad.scipy.special.lazy_functions import multigammaln
from fungrad.scipy.stats.distribution import Family, floating
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer

_LOG_TWO_PI = math.log(2.0 * math.pi)


def _row_sum(x: Any) -> Any:
    return np.sum(x, axis=-1)


class MultivariateNormal(Family):
    """The normal distribution of vectors.

    Unlike in SciPy, mean and cov may have leading axes, which broadcast against those of x.

    >>> import numpy as np, fungrad as fg
    >>> fg.grad(multivariate_normal.logpdf)(np.array([1.0, 2.0]), None, np.eye(2))
    array([-1., -2.])
    """

    name = "multivariate_normal"
    methods = ("entropy", "logpdf", "pdf")

    def _read(self, method: str, mean: Any, cov: Any, *lead: Any) -> tuple[Any, ...]:
        """Points (with the components last), means and matrices.

        Raises:
          ShapeError: if they do not fit.
        """
        given = [v for v in (*lead, cov, mean) if v is not None]
        *rest, cov = (ready := floating(f"multivariate_normal.{method}", *given))[: len(lead) + 1]
        cov = 1.0 * cov
        if mean is not None:
            mean = ready[-1]
            dim = mean.shape[-1] if mean.ndim else 1
        else:
            dim = cov.shape[-1] if cov.ndim > 1 else 1
            mean = np.zeros(dim, cov.dtype)
        mean = np.reshape(mean, (1,)) if mean.ndim == 0 else mean
        if cov.ndim < 2:
            eye = np.eye(dim, dtype=cov.dtype)
            cov = eye * cov if cov.ndim == 0 or cov.shape == (dim,) else cov
        if cov.shape[-2:] != (dim, dim):
            raise ShapeError(
                f"scipy.stats.multivariate_normal.{method} got cov of shape {cov.shape} for "
                f"vectors of length {dim}."
            )
        points = [
            np.reshape(x, (1,)) if x.ndim == 0
            else x[:, np.newaxis] if x.ndim == 1 and dim == 1
            else x
            for x in rest
        ]  # fmt: skip
        return *points, mean, cov

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """The logarithm of the density.

        For y = x - mean it is -(y^T C^-1 y + log det C + d log 2 pi) / 2.

        Args:
          x: points, with the components on the last axis.
          mean: vectors; zero if None.
          cov: symmetric matrices C, of which the lower triangle is read; or a vector, the diagonal;
            or a number, times the identity.
          allow_singular: whether to take singular matrices too, by their pseudoinverse, with -inf
            outside their range. Their derivative is that among matrices of the same rank.

        Returns:
          A number for each point, without axes of length 1.

        Raises:
          ShapeError: if cov does not fit.
          numpy.linalg.LinAlgError: if cov is not positive definite.

        >>> import fungrad as fg
        >>> fg.grad(lambda m: multivariate_normal.logpdf(np.ones(2), m))(np.zeros(2))
        array([1., 1.])
        """
        x, mean, cov = self._read("logpdf", mean, cov, x)
        with np.errstate(all="ignore"):
            density = (_singular if allow_singular else _definite)(x - mean, cov)
        return np.squeeze(density)[()]

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """The density: the exponential of logpdf.

        Args:
          x: points, with the components on the last axis.
          mean: vectors; zero if None.
          cov: symmetric matrices, a vector or a number, as for `logpdf`.
          allow_singular: whether to take singular matrices too, as for `logpdf`.

        Returns:
          A number for each point, without axes of length 1.

        Raises:
          ShapeError: if cov does not fit.
          numpy.linalg.LinAlgError: if cov is not positive definite.

        >>> float(np.round(multivariate_normal.pdf(np.zeros(2), np.zeros(2)) * 2 * np.pi, 9))
        1.0
        """
        return np.exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: Any = None, cov: Any = 1, allow_singular: bool = True) -> Any:
        """The differential entropy in nats: (d (1 + log 2 pi) + log det C) / 2.

        Args:
          mean: vectors, of which the length is read; zero if None.
          cov: symmetric matrices C, a vector or a number, as for `logpdf`.
          allow_singular: without effect: the entropy of a singular distribution is that within its
            range.

        Returns:
          A number for each matrix.

        Raises:
          ShapeError: if cov does not fit.
          ValueError: if cov is not positive semidefinite.

        >>> import fungrad as fg
        >>> slope = fg.grad(lambda c: multivariate_normal.entropy(None, c))(np.diag([1.0, 2.0]))
        >>> slope.round(9) + 0.0
        array([[0.5 , 0.  ],
               [0.  , 0.25]])
        """
        _, cov = self._read("entropy", mean, cov)
        _, log_det, rank, _ = _pseudo(cov)
        return ((_LOG_TWO_PI + 1.0) * rank + log_det) * 0.5


def _definite(deviation: Any, cov: Any) -> Any:
    try:
        factor = np.linalg.cholesky(cov)
    except np.linalg.LinAlgError as error:
        raise _not_definite() from error
    pivots: Any = np.diagonal(stop_gradient(factor), axis1=-2, axis2=-1)
    if type(pivots) is not Tracer and pivots.size:
        least = np.square(np.min(pivots, axis=-1))
        if np.any(least <= _tolerance(cov) * np.square(np.max(pivots, axis=-1))):
            raise _not_definite()
    dim = cov.shape[-1]
    if cov.ndim == 2:  # all points are right-hand sides for one matrix
        columns = np.reshape(deviation, (-1, dim)).T
        white = np.reshape(np.linalg.solve(factor, columns).T, deviation.shape)
    else:
        white = np.linalg.solve(factor, deviation[..., np.newaxis])[..., 0]
    log_diagonal = np.log(np.diagonal(factor, axis1=-2, axis2=-1))
    return (_row_sum(np.square(white)) + dim * _LOG_TWO_PI) * -0.5 - _row_sum(log_diagonal)


def _not_definite() -> np.linalg.LinAlgError:
    return np.linalg.LinAlgError(
        f"scipy.stats.multivariate_normal got a matrix cov{user_line()} that is not positive "
        "definite up to rounding. allow_singular=True takes a singular one, by its pseudoinverse."
    )


def _tolerance(matrix: Any) -> float:
    """The share of the largest eigenvalue below which one counts as 0, as in SciPy."""
    digits = 1e3 if matrix.dtype == np.float32 else 1e6
    return digits * float(np.finfo(matrix.dtype).eps)


def _pseudo(cov: Any) -> tuple[Any, Any, Any, Any]:
    """The pseudoinverse, the logarithm of the product of the nonzero eigenvalues, their number, and
    the size below which one is 0.

    The product is a determinant with ones (times the largest eigenvalue) for the zeros, so that
    derivatives hold for equal eigenvalues.
    """
    lower = np.tril(cov)
    cov = lower + np.swapaxes(np.tril(cov, -1), -1, -2)
    values = np.linalg.eigvalsh(stop_gradient(cov))
    largest = np.max(np.abs(values), axis=-1)
    eps = largest * _tolerance(cov)
    indefinite = values[..., 0] < -eps
    if type(indefinite) is not Tracer and np.any(indefinite):
        raise ValueError("The input matrix must be symmetric positive semidefinite.")
    rank = cast(np.sum(values > eps[..., np.newaxis], axis=-1), cov.dtype)
    inverse = np.linalg.pinv(cov, rcond=_tolerance(cov), hermitian=True)
    dim = cov.shape[-1]
    null = np.eye(dim, dtype=cov.dtype) - cov @ inverse
    scale = select(largest > 0, largest, 1.0)
    filled = cov + (null + np.swapaxes(null, -1, -2)) * 0.5 * scale[..., np.newaxis, np.newaxis]
    log_det = np.linalg.slogdet(filled)[1] - (dim - rank) * np.log(scale)
    return inverse, select(indefinite, np.nan, log_det), rank, eps


def _singular(deviation: Any, cov: Any) -> Any:
    inverse, log_det, rank, eps = _pseudo(cov)
    row = deviation[..., np.newaxis, :]
    distance = (row @ inverse @ np.swapaxes(row, -1, -2))[..., 0, 0]
    fixed, basis = stop_gradient((row, cov @ inverse))
    beyond = np.sqrt(_row_sum(np.square(fixed - fixed @ np.swapaxes(basis, -1, -2))[..., 0, :]))
    density = (distance + rank * _LOG_TWO_PI + log_det) * -0.5
    return select((rank < cov.shape[-1]) & (beyond >= eps * 1e3), -np.inf, density)


multivariate_normal = MultivariateNormal()


class Dirichlet(Family):
    """The distribution of vectors on the simplex.

    >>> bool(np.isclose(dirichlet.logpdf([0.2, 0.8], [1.0, 1.0]), 0.0))
    True
    """

    name = "dirichlet"
    methods = ("cov", "entropy", "logpdf", "mean", "pdf", "var")

    def _alpha(self, method: str, alpha: Any, *lead: Any) -> list[Any]:
        """The arguments, and alpha, with NaN where it is not positive."""
        *rest, alpha = floating(f"dirichlet.{method}", *lead, alpha)
        if alpha.ndim != 1:
            raise ShapeError(f"dirichlet.{method} takes a vector alpha, not shape {alpha.shape}.")
        return [*rest, alpha * _one_or_nan(np.all(alpha > 0), alpha)]

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """The logarithm of the density: log Gamma(sum a) - sum log Gamma(a) + sum (a - 1) log x.

        Args:
          x: points, with the components on the first axis: all, or all but the last.
          alpha: a vector a of positive numbers.

        Returns:
          -inf, with derivative 0, outside the simplex (where SciPy raises). Inside, the components
          are independent variables.

        Raises:
          ShapeError: if alpha is not a vector, or x does not fit.

        >>> import fungrad as fg
        >>> fg.grad(dirichlet.logpdf)(np.array([0.25, 0.75]), np.array([2.0, 1.0]))
        array([4., 0.])
        """
        with np.errstate(all="ignore"):
            x, alpha = self._alpha("logpdf", alpha, x)
            size = alpha.shape[0]
            if x.shape[:1] == (size - 1,):
                x = np.concatenate([x, 1.0 - np.sum(x, axis=0, keepdims=True)])
            if x.shape[:1] != (size,):
                raise ShapeError(f"dirichlet.logpdf: x of shape {x.shape} for {size} components.")
            precision = max(1e-9, 10 * size * float(np.finfo(x.dtype).eps))
            inside = np.all(x >= 0, axis=0) & (np.abs(np.sum(x, axis=0) - 1.0) <= precision)
            safe = select(inside, x, 1.0 / size)
            column = np.reshape(alpha, (size,) + (1,) * (x.ndim - 1))
            constant = gammaln(np.sum(alpha)) - np.sum(gammaln(alpha))
            return select(inside, np.sum(xlogy(column - 1.0, safe), axis=0) + constant, -np.inf)

    def pdf(self, x: Any, alpha: Any) -> Any:
        """The density: the exponential of logpdf.

        Args:
          x: points, with the components on the first axis: all, or all but the last.
          alpha: a vector of positive numbers.

        Returns:
          A number for each point; 0 outside the simplex.

        Raises:
          ShapeError: if alpha is not a vector, or x does not fit.

        >>> float(np.round(dirichlet.pdf([0.25, 0.75], [2.0, 1.0]), 9))
        0.5
        """
        return np.exp(self.logpdf(x, alpha))

    def entropy(self, alpha: Any) -> Any:
        """The differential entropy in nats.

        With s = sum a it is log B(a) + (s - n) psi(s) - sum (a - 1) psi(a).

        Args:
          alpha: a vector a of n positive numbers.

        Returns:
          A number; NaN if one of alpha is not positive.

        Raises:
          ShapeError: if alpha is not a vector.

        >>> bool(np.isclose(dirichlet.entropy([1.0, 1.0]), 0.0))
        True
        """
        (alpha,) = self._alpha("entropy", alpha)
        total = np.sum(alpha)
        constant = np.sum(gammaln(alpha)) - gammaln(total)
        excess = (total - alpha.shape[0]) * digamma(total)
        return constant + excess - np.sum((alpha - 1.0) * digamma(alpha))

    def mean(self, alpha: Any) -> Any:
        """The expectations: a / sum a.

        Args:
          alpha: a vector a of positive numbers.

        Returns:
          A vector of the shape of alpha; NaN if one of alpha is not positive.

        Raises:
          ShapeError: if alpha is not a vector.

        >>> import fungrad as fg
        >>> fg.grad(lambda a: dirichlet.mean(a)[0])(np.array([1.0, 1.0]))
        array([ 0.25, -0.25])
        """
        (alpha,) = self._alpha("mean", alpha)
        return alpha / np.sum(alpha)

    def var(self, alpha: Any) -> Any:
        """The variances: a (s - a) / (s^2 (s + 1)) for s = sum a.

        Args:
          alpha: as for `mean`; so are the result and the errors.

        >>> dirichlet.var([1.5, 1.5])
        array([0.0625, 0.0625])
        """
        (alpha,) = self._alpha("var", alpha)
        total = np.sum(alpha)
        return alpha * (total - alpha) / (total * total * (total + 1.0))

    def cov(self, alpha: Any) -> Any:
        """The matrix of covariances: (diag(m) - m m^T) / (sum a + 1) for the expectations m.

        Args:
          alpha: as for `mean`, with the same errors.

        Returns:
          An array of shape (n, n).

        >>> dirichlet.cov([1.5, 1.5])
        array([[ 0.0625, -0.0625],
               [-0.0625,  0.0625]])
        """
        (alpha,) = self._alpha("cov", alpha)
        total = np.sum(alpha)
        mean = alpha / total
        return (np.diag(mean) - np.outer(mean, mean)) / (total + 1.0)


def _one_or_nan(valid: Any, like: Any) -> Any:
    return select(valid, np.ones((), like.dtype), np.nan)


dirichlet = Dirichlet()


class Multinomial(Family):
    """The distribution of the counts of n draws.

    >>> float(np.round(multinomial.pmf([1, 1], 2, [0.5, 0.5]), 12))
    0.5
    """

    name = "multinomial"
    methods = ("logpmf", "mean", "pmf")

    def _read(self, method: str, n: Any, p: Any, *lead: Any) -> list[Any]:
        """The arguments; n and x are constants. Where p does not sum to 1, it is invalid, as in
        SciPy. Before 1.18 its last element was replaced by the rest.
        """
        *rest, n, p = floating(f"multinomial.{method}", *lead, n, p)
        off = np.abs(1.0 - np.sum(p, axis=-1, keepdims=True)) > 10 * np.finfo(p.dtype).eps
        valid = n >= 0
        if scipy_before("1.18.0"):
            missing = 1.0 - np.sum(p[..., :-1], axis=-1, keepdims=True)
            p = np.concatenate([p[..., :-1], select(off, missing, p[..., -1:])], axis=-1)
        else:
            valid = valid & ~off[..., 0]
        valid = valid & np.all((p >= 0) & (p <= 1), axis=-1)
        return [*stop_gradient(rest), stop_gradient(n), p, _one_or_nan(valid, p)]

    def logpmf(self, x: Any, n: Any, p: Any) -> Any:
        """The logarithm of the probability of x: log n! + sum (x log p - log x!).

        Args:
          x, n: counts, those of x on the last axis; the derivative in them is 0, on purpose.
          p: probabilities on the last axis with the sum 1; else the result is NaN. (Before SciPy
            1.18 the rest replaces the last one.)

        Returns:
          Numbers without the last axis; -inf if the counts are not integers, or do not sum to n;
          NaN where a parameter is invalid.

        >>> import fungrad as fg
        >>> fg.grad(lambda p: multinomial.logpmf([1, 1], 2, p))(np.array([0.5, 0.5]))
        array([2., 2.])
        """
        with np.errstate(all="ignore"):
            x, n, p, one = self._read("logpmf", n, p, x)
            counts = np.all((x >= 0) & (np.floor(x) == x), axis=-1) & (_row_sum(x) == n)
            x = select(counts[..., np.newaxis], x, 0.0)
            mass = gammaln(n + 1.0) + _row_sum(xlogy(x, p) - gammaln(x + 1.0))
            return select(counts, mass, -np.inf) * one

    def pmf(self, x: Any, n: Any, p: Any) -> Any:
        """The probability of x: the exponential of logpmf.

        Args:
          x, n: counts, those of x on the last axis; the derivative in them is 0, on purpose.
          p: probabilities on the last axis with the sum 1; else the result is NaN. (Before SciPy
            1.18 the rest replaces the last one.)

        Returns:
          Numbers without the last axis; 0 if the counts are not integers, or do not sum to n.

        >>> float(np.round(multinomial.pmf([2, 0], 2, [0.5, 0.5]), 9))
        0.25
        """
        return np.exp(self.logpmf(x, n, p))

    def mean(self, n: Any, p: Any) -> Any:
        """The expectations: n p.

        Args:
          n: counts; the derivative in them is 0, on purpose.
          p: probabilities on the last axis with the sum 1; else the result is NaN. (Before SciPy
            1.18 the rest replaces the last one.)

        Returns:
          An array of the shape of p (broadcast); NaN where a parameter is invalid.

        >>> multinomial.mean(4, [0.25, 0.75])
        array([1., 3.])
        """
        n, p, one = self._read("mean", n, p)
        return n[..., np.newaxis] * p * one[..., np.newaxis]


multinomial = Multinomial()


class Wishart(Family):
    """The distribution of positive definite matrices.

    >>> float(np.round(wishart.logpdf(np.eye(2), 3.0, np.eye(2)), 6))
    -3.531024
    """

    name = "wishart"
    methods = ("logpdf", "pdf")

    def logpdf(self, x: Any, df: Any, scale: Any) -> Any:
        """The logarithm of the density.

        For dimension p, df n and scale V it is ((n - p - 1) log det x - tr(V^-1 x) - n (p log 2 +
        log det V)) / 2 - log Gamma_p(n / 2).

        Args:
          x: a symmetric positive definite matrix of shape (p, p), or several: (p, p, n).
          df: a number above p - 1.
          scale: a symmetric positive definite matrix; or a vector, the diagonal; or a number.

        Returns:
          A number for each matrix; NaN if df is too small.

        Raises:
          numpy.linalg.LinAlgError: if x or scale is not positive definite.

        >>> import fungrad as fg
        >>> fg.grad(lambda x: wishart.logpdf(x, 3.0, np.eye(2)))(np.eye(2)).round(9) + 0.0
        array([[-0.5,  0. ],
               [ 0. , -0.5]])
        """
        x, df, scale = floating("wishart.logpdf", x, df, scale)
        scale = np.diag(scale) if scale.ndim == 1 else np.reshape(scale, scale.shape or (1, 1))
        dim = scale.shape[0]
        if x.ndim < 2:
            x = np.reshape(x, (1, 1, -1)) if dim == 1 else np.eye(dim, dtype=x.dtype) * x
        matrices = np.moveaxis(x, -1, 0) if x.ndim == 3 else x
        log_x, log_scale = _log_det(matrices), _log_det(scale)
        trace = np.trace(np.linalg.solve(scale, matrices), axis1=-2, axis2=-1)
        df = df * _one_or_nan(df > dim - 1, df)
        density = (
            log_x * (df - (dim + 1.0)) - trace - df * (dim * math.log(2.0) + log_scale)
        ) * 0.5
        return np.squeeze(density - multigammaln(df * 0.5, dim))

    def pdf(self, x: Any, df: Any, scale: Any) -> Any:
        """The density: the exponential of logpdf.

        Args:
          x: a symmetric positive definite matrix of shape (p, p), or several: (p, p, n).
          df: a number above p - 1.
          scale: a symmetric positive definite matrix; or a vector, the diagonal; or a number.

        Returns:
          A number for each matrix; NaN if df is too small.

        Raises:
          numpy.linalg.LinAlgError: if x or scale is not positive definite.

        >>> float(np.round(wishart.pdf(1.0, 2.0, 1.0) * np.exp(0.5), 9))
        0.5
        """
        return np.exp(self.logpdf(x, df, scale))


def _log_det(matrix: Any) -> Any:
    """The log determinant of a positive definite matrix."""
    factor = np.linalg.cholesky(matrix)
    return _row_sum(np.log(np.diagonal(factor, axis1=-2, axis2=-1))) * 2.0


wishart = Wishart()
