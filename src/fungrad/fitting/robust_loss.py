"""The covariance of a fit by a robust loss (Huber 1981, Robust Statistics, section 7.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.transforms.grad import grad

LOSSES: dict[str, Callable[[Any], Any]] = {
    "soft_l1": lambda z: 2.0 * (np.sqrt(1.0 + z) - 1.0),
    "huber": lambda z: np.where(z <= 1.0, z, 2.0 * np.sqrt(np.where(z <= 1.0, 1.0, z)) - 1.0),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}
"""SciPy's losses, of the squared residuals in units of `f_scale`."""


def covariance_factor(residuals: Any, count: int, loss: Any, scale: float) -> float:
    """The factor of (J'J)^-1: the mean of psi**2 over the squared mean of psi', where psi is the
    derivative of the loss of a residual.

    Args:
      residuals: at the fit, a vector.
      count: the number of free parameters.
      loss: one of SciPy's names.
      scale: SciPy's `f_scale`.

    Raises:
      ArgumentError: for a loss of the user's own.
    """
    if loss not in LOSSES:
        raise ArgumentError(
            f"curve_fit knows the covariance for loss= {', '.join(LOSSES)}, not for {loss!r}. "
            "Use fg.scipy.optimize.least_squares for a loss of your own."
        )

    def total(r: Any) -> Any:
        return 0.5 * scale**2 * np.sum(LOSSES[loss]((r / scale) ** 2))

    psi = grad(total)
    score = psi(residuals)
    curvature = grad(lambda r: np.sum(psi(r)))(residuals)
    freedom = max(residuals.size - count, 1)
    return float(np.sum(score**2) / freedom / np.mean(curvature) ** 2)
