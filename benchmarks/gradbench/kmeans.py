"""The eval `kmeans`: the cost of centroids, and Newton's direction.

The Hessian is diagonal, so that its product with ones is its diagonal: one forward mode over the
reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fungrad as fg


def cost(points: Any, centroids: Any) -> Any:
    """The sum of the squared distances of the points from their nearest centroids."""
    # |p - c|^2 less |p|^2, which is the same for all c; argmin has no derivative.
    far = np.sum(centroids**2, axis=1) - (2.0 * points) @ centroids.T
    nearest = centroids[np.argmin(far, axis=1)]
    return np.sum((nearest - points) ** 2)


def direction(points: Any, centroids: Any) -> Any:
    """The gradient by the centroids, divided by the diagonal of the Hessian."""
    gradient, diagonal = fg.jvp(
        lambda c: fg.grad(cost, argnums=1)(points, c), (centroids,), (np.ones_like(centroids),)
    )
    return gradient / diagonal


def prepared(f: Callable[..., Any]) -> Callable[[Mapping[str, Any]], tuple[Any, Any]]:
    """Decodes points and centroids for a function of them."""

    def prepare(given: Mapping[str, Any]) -> tuple[Any, Any]:
        points, centroids = np.asarray(given["points"]), np.asarray(given["centroids"])
        return lambda: f(points, centroids), lambda out: out.tolist()

    return prepare


FUNCTIONS = {"cost": prepared(fg.jit(cost)), "dir": prepared(fg.jit(direction))}
