"""gaussian_kde, the density of a sample smoothed by normal kernels. Knows linear algebra,
and no distribution.

Differentiable in the sample, the weights, the bandwidth and the points.

Source: D. Scott, "Multivariate Density Estimation" (1992).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.scipy.special import logsumexp
from fungrad.scipy.special.error_functions import ndtr
from fungrad.scipy.stats.family import floating


class gaussian_kde:
    """The density of a sample, smoothed by normal kernels, as scipy.stats.gaussian_kde.

    `resample` is not here: drawing is no function of traced values.

    Args:
      dataset: a sample of n points in d dimensions, shape (d, n) or (n,).
      bw_method: the factor of the bandwidth: "scott" (or None), "silverman", a number, or a
        function of this object.
      weights: n weights, which are made to sum to 1; equal ones if None.

    Raises:
      ShapeError: where the shapes do not fit.
      ValueError: where there are fewer points than dimensions.

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
                "dataset: it needs as many points as dimensions, and two. Transpose the dataset, "
                "if its points are in the rows."
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
        """Sets the factor of the bandwidth: see the class.

        Raises:
          ValueError: where the method is not known.
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
          ShapeError: where they have another dimension than the sample.
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
        """The logarithm of the density at points, in columns: an array of one number for each."""
        points = self._points(x)
        return logsumexp(_log_kernels(self._root, points, self.dataset), axis=1, b=self.weights)

    def evaluate(self, points: Any) -> Any:
        """The density at points, in columns: an array of one number for each."""
        return np.exp(_log_kernels(self._root, self._points(points), self.dataset)) @ self.weights

    def pdf(self, x: Any) -> Any:
        """The density at points: `evaluate`."""
        return self.evaluate(x)

    __call__ = evaluate

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the density times a normal density.

        Args:
          mean: a vector of length d, or a number.
          cov: a matrix of shape (d, d), or a number.
        """
        mean, cov = floating("gaussian_kde", mean, cov)
        mean, cov = np.atleast_1d(mean), np.atleast_2d(cov)
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise ShapeError(f"gaussian_kde: mean and cov have to be of dimension {self.d}.")
        root = np.linalg.cholesky(self.covariance + cov)
        return np.exp(_log_kernels(root, mean[:, np.newaxis], self.dataset))[0] @ self.weights

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The probability of (low, high), for samples of numbers."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        width = np.sqrt(self.covariance[0, 0])
        edges = [ndtr((edge - self.dataset[0]) / width) for edge in (high, low)]
        return np.sum(self.weights * (edges[0] - edges[1]))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of the product with another estimate's density."""
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
