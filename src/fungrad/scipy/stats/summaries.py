"""Functions of samples of scipy.stats: entropy, mode, rankdata, sem and gaussian_kde.

Ranks have derivative 0, on purpose; that of a mode is shared by the elements equal to it. Outside
of transforms these are SciPy's own. gaussian_kde is differentiable in the sample, the weights, the
bandwidth and the points (D. Scott, "Multivariate Density Estimation", 1992).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.host.external import pure_callback
from fungrad.ir.types import Type
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.optional import scipy_module, stands_for
from fungrad.scipy.special import logsumexp
from fungrad.scipy.special.elementary import entr, rel_entr
from fungrad.scipy.special.logsumexp_erf import ndtr
from fungrad.scipy.stats.distribution import floating
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import typeof


class ModeResult(NamedTuple):
    """The result of `mode`: the most common values, and their counts."""

    mode: Any
    count: Any


def _only_propagate(function: str, nan_policy: str) -> None:
    if nan_policy != "propagate":
        raise ArgumentError(
            f"scipy.stats.{function}(nan_policy={nan_policy!r}) was called on a traced "
            f"value{user_line()}, whose NaN are not known. Remove them before, and leave "
            "nan_policy at 'propagate'."
        )


def _last(a: Any, axis: int | None) -> Any:
    """The array with an axis moved last; the raveled array for None."""
    return np.reshape(a, (-1,)) if axis is None else np.moveaxis(a, axis, -1)


def _entropy(values: list[Any], axis: int, keepdims: bool) -> Any:
    """The entropy of numbers, divided by their sum as a constant, and after the logarithm by the
    sum of these: so a 0 makes only its own derivative infinite.
    """
    shares = [v / stop_gradient(np.sum(v, axis=axis, keepdims=True)) for v in values]
    sums = [np.sum(share, axis=axis, keepdims=keepdims) for share in shares]
    terms = entr(*shares) if len(shares) == 1 else rel_entr(*shares)
    total = np.sum(terms, axis=axis, keepdims=keepdims) / sums[0]
    if len(shares) == 1:
        return total + np.log(sums[0])
    return total + np.log(sums[1]) - np.log(sums[0])


@stands_for("scipy.stats")
def entropy(
    pk: Any,
    qk: Any = None,
    base: float | None = None,
    axis: int | None = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """The entropy of probabilities pk, -sum pk log pk, or relative to qk, sum pk log(pk / qk).

    Args:
      pk, qk: real numbers of one shape, normalised to sum 1 along the axis.
      base: of the logarithm; e if None.
      axis: the axis; all elements for None.
      nan_policy: "propagate", on traced values.
      keepdims: whether the axis is kept, with the length 1.

    Returns:
      Numbers without the axis, of a floating dtype.

    Raises:
      ValueError: if base is not positive.
      ArgumentError: for another nan_policy, on traced values.

    >>> import fungrad as fg
    >>> fg.grad(entropy)(np.array([1.0, 1.0]))
    array([0., 0.])
    """
    if base is not None and base <= 0:
        raise ValueError("`base` must be a positive number or `None`.")
    _only_propagate("entropy", nan_policy)
    values = floating("entropy", pk, *(() if qk is None else (qk,)))
    if axis is None:
        values = [np.reshape(v, (-1,)) for v in values]
    with np.errstate(all="ignore"):
        total = _entropy(values, axis or 0, keepdims)
    if keepdims and axis is None:
        total = np.reshape(total, (1,) * len(np.shape(pk)))
    return total if base is None else total / math.log(base)


@stands_for("scipy.stats")
def sem(
    a: Any,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """The standard error of the mean: the standard deviation over the root of the count.

    Args:
      a: real numbers.
      axis: the axis; all elements for None.
      ddof: the number subtracted from that of elements in the divisor of the variance.
      nan_policy: "propagate", on traced values.
      keepdims: whether the axis is kept, with the length 1.

    Returns:
      Numbers without the axis, of a floating dtype.

    Raises:
      ArgumentError: for another nan_policy, on traced values.

    >>> import fungrad as fg
    >>> fg.grad(sem)(np.array([1.0, 3.0])).round(9)
    array([-0.5, 0.5])
    """
    _only_propagate("sem", nan_policy)
    (a,) = floating("sem", a)
    count = math.prod(a.shape) if axis is None else a.shape[axis]
    return np.std(a, axis=axis, ddof=ddof, keepdims=keepdims) / math.sqrt(count)


@stands_for("scipy.stats")
def rankdata(
    a: Any,
    method: str = "average",
    *,
    axis: int | None = None,
    nan_policy: str = "propagate",
) -> Any:
    """The ranks of elements from 1 up; their derivative is 0, on purpose.

    Args:
      a: real numbers.
      method: the rank of equal elements: "average", "min", "max", "dense" or "ordinal".
      axis: the axis to rank along; all elements, as a vector, for None.
      nan_policy: "propagate", on traced values.

    Returns:
      An array of the shape of a, or a vector without axis: float64 for "average", else integers.

    Raises:
      ValueError: for an unknown method.
      ArgumentError: for another nan_policy, on traced values.

    >>> rankdata(np.array([3.0, 1.0, 1.0]))
    array([3. , 1.5, 1.5])
    """
    ranks = scipy_module("scipy.stats").rankdata
    _only_propagate("rankdata", nan_policy)
    last = _last(stop_gradient(array_of(a)), axis)
    dtype = ranks(np.zeros(1), method).dtype

    def along_last(x: Any) -> Any:
        return np.asarray(ranks(x, method, axis=-1), dtype)

    result = pure_callback(along_last, Type(last.shape, dtype), last, vectorized=True)
    return result if axis is None else np.moveaxis(result, -1, axis)


@stands_for("scipy.stats")
def mode(
    a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> Any:
    """The most common value along an axis, the least if several are.

    Args:
      a: numbers.
      axis: the axis; all elements for None.
      nan_policy: "propagate", on traced values.
      keepdims: whether the axis is kept, with the length 1.

    Returns:
      (mode, count); the derivative of the mode is shared by the elements equal to it.

    Raises:
      ArgumentError: for another nan_policy, on traced values.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: mode(a).mode)(np.array([1.0, 2.0, 2.0]))
    array([0. , 0.5, 0.5])
    """
    modes = scipy_module("scipy.stats").mode
    _only_propagate("mode", nan_policy)
    a = array_of(a)
    last = _last(a, axis)
    shape = last.shape[:-1]
    if not last.shape[-1]:  # no elements: NaN for any dtype
        return modes(np.empty(a.shape, a.dtype), axis, keepdims=keepdims)

    def along_last(x: Any) -> Any:
        modal = modes(x, axis=-1)
        return np.asarray(modal.mode, x.dtype), np.asarray(modal.count, np.int64)

    types = (Type(shape, typeof(last).dtype), Type(shape, np.dtype(np.int64)))
    value, count = pure_callback(along_last, types, stop_gradient(last), vectorized=True)
    if a.dtype.kind == "f":
        where = stop_gradient(last) == value[..., np.newaxis]
        moved = np.sum(select(where, last - value[..., np.newaxis], 0.0), axis=-1)
        value = value + moved / cast(np.maximum(count, 1), a.dtype)
    if keepdims:
        kept = tuple(1 if axis is None or i == axis % a.ndim else n for i, n in enumerate(a.shape))
        value, count = np.reshape(value, kept), np.reshape(count, kept)
    return ModeResult(value, count)


class gaussian_kde:
    """The density of a sample, smoothed by normal kernels, as scipy.stats.gaussian_kde.

    `resample` is missing: it is not a function of traced values.

    Args:
      dataset: a sample of n points in d dimensions, shape (d, n) or (n,).
      bw_method: the factor of the bandwidth: "scott" (or None), "silverman", a number, or a
        function of this object.
      weights: n weights, normalised to sum 1; None for equal ones.

    Raises:
      ShapeError: if the shapes do not fit.
      ValueError: if there are fewer points than dimensions.

    >>> import numpy as np, fungrad as fg
    >>> sample = np.array([0.0, 1.0, 4.0])
    >>> slope = fg.grad(lambda x: gaussian_kde(sample).logpdf(x)[0])(2.0)
    >>> round(float(slope), 6)
    -0.165123
    """

    def __init__(
        self,
        dataset: Any,
        bw_method: str | float | Callable[[Any], Any] | None = None,
        weights: Any = None,
    ) -> None:
        if weights is None:
            (dataset,) = floating("gaussian_kde", dataset)
        else:
            dataset, weights = floating("gaussian_kde", dataset, weights)
        self.dataset = np.atleast_2d(dataset)
        self.d, self.n = self.dataset.shape
        if self.d > self.n or self.n < 2:
            raise ValueError(
                f"gaussian_kde got {self.n} points in {self.d} dimensions, one in each column of "
                "dataset: it needs at least as many points as dimensions, and two. Transpose the "
                "dataset, if its points are in the rows."
            )
        if weights is None:
            self.weights = np.full(self.n, 1.0 / self.n, self.dataset.dtype)
        elif weights.shape != (self.n,):
            raise ShapeError(f"gaussian_kde: weights of shape {weights.shape} for {self.n} points.")
        else:
            self.weights = weights / np.sum(weights)
        self.neff = 1.0 / np.sum(np.square(self.weights))
        centred = self.dataset - np.sum(self.dataset * self.weights, axis=1, keepdims=True)
        spread = 1.0 - np.sum(np.square(self.weights))
        self._data_covariance = (centred * self.weights) @ centred.T / spread
        self.set_bandwidth(bw_method)

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Sets the factor of the bandwidth.

        Args:
          bw_method: "scott" (or None), "silverman", a number, or a function of this object.

        Raises:
          ValueError: if the method is unknown.

        >>> density = gaussian_kde(np.array([0.0, 1.0, 4.0]))
        >>> density.set_bandwidth(0.5)
        >>> density.covariance_factor()
        0.5
        """
        if bw_method is None or isinstance(bw_method, str):
            known = {None: self.scotts_factor, "scott": self.scotts_factor,
                     "silverman": self.silverman_factor}  # fmt: skip
            if bw_method not in known:
                raise ValueError(
                    "`bw_method` should be 'scott', 'silverman', a number or callable."
                )
            self.factor = known[bw_method]()
        else:
            self.factor = bw_method(self) if callable(bw_method) else bw_method
        self.covariance = self._data_covariance * np.square(self.factor)
        self._root = np.linalg.cholesky(self.covariance)

    def scotts_factor(self) -> Any:
        """Scott's rule: neff^(-1 / (d + 4))."""
        return self.neff ** (-1.0 / (self.d + 4))

    def silverman_factor(self) -> Any:
        """Silverman's rule: (neff (d + 2) / 4)^(-1 / (d + 4))."""
        return (self.neff * (self.d + 2) / 4.0) ** (-1.0 / (self.d + 4))

    def covariance_factor(self) -> Any:
        """The factor of the bandwidth."""
        return self.factor

    @property
    def inv_cov(self) -> Any:
        """The inverse of the kernels' covariance matrix."""
        return np.linalg.inv(self.covariance)

    def _points(self, points: Any) -> Any:
        """Points in columns.

        Raises:
          ShapeError: if their dimension is not that of the sample.
        """
        points = np.atleast_2d(floating("gaussian_kde", points)[0])
        if points.shape[0] == self.d:
            return points
        if points.shape == (1, self.d):
            return points.T
        raise ShapeError(
            f"gaussian_kde: points of dimension {points.shape[0]} for a sample of dimension "
            f"{self.d}."
        )

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density at each point.

        Args:
          x: points, as for `evaluate`.

        >>> density = gaussian_kde(np.array([0.0, 1.0, 4.0]))
        >>> bool(np.isclose(density.logpdf(2.0), np.log(density(2.0))).all())
        True
        """
        points = self._points(x)
        return logsumexp(_log_kernels(self._root, points, self.dataset), axis=1, b=self.weights)

    def evaluate(self, points: Any) -> Any:
        """The density at each point: the weighted sum of the kernels there.

        Args:
          points: in columns, shape (d, m), or (m,) for samples of numbers.

        Returns:
          A vector of m numbers.

        Raises:
          ShapeError: if the points' dimension is not that of the sample.

        >>> density = gaussian_kde(np.array([-1.0, 1.0]))
        >>> bool(np.isclose(density(-0.5), density(0.5)).all())
        True
        """
        return np.exp(_log_kernels(self._root, self._points(points), self.dataset)) @ self.weights

    def pdf(self, x: Any) -> Any:
        """The density at each point, another name of `evaluate`.

        Args:
          x: points, as for `evaluate`.

        >>> density = gaussian_kde(np.array([-1.0, 1.0]))
        >>> bool((density.pdf(0.5) == density(0.5)).all())
        True
        """
        return self.evaluate(x)

    __call__ = evaluate

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the density times a normal density.

        Args:
          mean: a vector of length d, or a number.
          cov: a matrix of shape (d, d), or a number.

        Returns:
          A number.

        Raises:
          ShapeError: if mean and cov are not of the dimension of the sample.
          numpy.linalg.LinAlgError: if the sum of both covariances is not positive definite.

        >>> import fungrad as fg
        >>> density = gaussian_kde(np.array([-1.0, 1.0]))
        >>> float(fg.grad(lambda mean: density.integrate_gaussian(mean, 1.0))(0.0).round(9)) + 0.0
        0.0
        """
        mean, cov = floating("gaussian_kde", mean, cov)
        mean, cov = np.atleast_1d(mean), np.atleast_2d(cov)
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise ShapeError(f"gaussian_kde: mean and cov have to be of dimension {self.d}.")
        root = np.linalg.cholesky(self.covariance + cov)
        return np.exp(_log_kernels(root, mean[:, np.newaxis], self.dataset))[0] @ self.weights

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The probability of the interval (low, high), for samples of numbers.

        Args:
          low, high: real numbers.

        Returns:
          A number.

        Raises:
          ValueError: for samples of vectors.

        >>> density = gaussian_kde(np.array([-1.0, 1.0]))
        >>> float(density.integrate_box_1d(-np.inf, 0.0).round(9))
        0.5
        """
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        width = np.sqrt(self.covariance[0, 0])
        edges = [ndtr((edge - self.dataset[0]) / width) for edge in (high, low)]
        return np.sum(self.weights * (edges[0] - edges[1]))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of the product with another estimate's density.

        Args:
          other: a density of the same dimension.

        Returns:
          A number.

        Raises:
          ValueError: if the dimensions differ.

        >>> one, two = gaussian_kde(np.array([0.0, 1.0])), gaussian_kde(np.array([0.0, 4.0]))
        >>> bool(np.isclose(one.integrate_kde(two), two.integrate_kde(one)))
        True
        """
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        root = np.linalg.cholesky(self.covariance + other.covariance)
        return (
            self.weights @ np.exp(_log_kernels(root, self.dataset, other.dataset)) @ other.weights
        )


def _log_kernels(root: Any, points: Any, centres: Any) -> Any:
    """The logarithms of the normal densities around centres, shape (points, centres); root is the
    Cholesky factor of their covariance.
    """
    white, middle = np.linalg.solve(root, points), np.linalg.solve(root, centres)
    distance = np.sum(np.square(white[:, :, np.newaxis] - middle[:, np.newaxis, :]), axis=0)
    log_root = np.sum(np.log(np.diagonal(root)))
    return distance * -0.5 - log_root - root.shape[0] * 0.5 * math.log(2.0 * math.pi)
