"""scipy.spatial.distance for traced values: distances between all pairs of vectors.

A metric is a NumPy function of two stacks of vectors; formulas as in the documentation of
scipy.spatial.distance. All other names are SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.scipy.optional import rest_of_scipy, scipy_module
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, shape_of

# --- metrics: of u and v, vectors along the last axis ---------------------------------------------


def _euclidean(u: Any, v: Any) -> Any:
    return np.linalg.norm(u - v, axis=-1)


def _sqeuclidean(u: Any, v: Any) -> Any:
    return np.sum((u - v) ** 2, axis=-1)


def _seuclidean(u: Any, v: Any, V: Any) -> Any:
    return np.linalg.norm((u - v) / np.sqrt(V), axis=-1)


def _mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    away = u - v
    squared = np.sum((away @ VI) * away, axis=-1)
    return np.where(squared > 0.0, np.sqrt(np.where(squared > 0.0, squared, 1.0)), squared)


def _cityblock(u: Any, v: Any) -> Any:
    return np.sum(np.abs(u - v), axis=-1)


def _chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    away = np.abs(u - v)
    return np.max(away if w is None else np.where(np.asarray(w) > 0.0, away, 0.0), axis=-1)


def _minkowski(u: Any, v: Any, p: Any = 2.0, w: Any = None) -> Any:
    away = u - v
    return np.linalg.norm(away if w is None else away * w ** (1.0 / p), ord=p, axis=-1)


def _cosine(u: Any, v: Any) -> Any:
    lengths = np.linalg.norm(u, axis=-1) * np.linalg.norm(v, axis=-1)
    return 1.0 - np.sum(u * v, axis=-1) / lengths


def _centred(x: Any) -> Any:
    return x - np.mean(x, axis=-1, keepdims=True)


def _correlation(u: Any, v: Any) -> Any:
    return _cosine(_centred(u), _centred(v))


def _canberra(u: Any, v: Any) -> Any:
    size = np.abs(u) + np.abs(v)
    return np.sum(np.abs(u - v) / np.where(size == 0.0, 1.0, size), axis=-1)


def _braycurtis(u: Any, v: Any) -> Any:
    return np.sum(np.abs(u - v), axis=-1) / np.sum(np.abs(u + v), axis=-1)


METRICS: dict[str, Callable[..., Any]] = {
    "braycurtis": _braycurtis,
    "canberra": _canberra,
    "chebyshev": _chebyshev,
    "cityblock": _cityblock,
    "correlation": _correlation,
    "cosine": _cosine,
    "euclidean": _euclidean,
    "mahalanobis": _mahalanobis,
    "minkowski": _minkowski,
    "seuclidean": _seuclidean,
    "sqeuclidean": _sqeuclidean,
}
"""The metrics by SciPy's names."""
WEIGHTED = {"chebyshev", "minkowski"}
"""The metrics that take weights w with traced vectors."""


def _metric(function: str, name: Any, data: Any, options: dict[str, Any]) -> Callable[..., Any]:
    """The metric of a name; parameters not given are computed from all vectors."""
    if callable(name):
        return lambda u, v: _called(name, u, v, options)
    lowered = str(name).lower()
    metric = METRICS.get(lowered)
    if metric is None or (options.get("w") is not None and lowered not in WEIGHTED):
        raise UnsupportedArgumentError(
            f"{function} was called with metric={name!r} and {sorted(options)} on traced "
            f"vectors{user_line()}. Supported are {', '.join(sorted(METRICS))}, with weights "
            f"{' and '.join(sorted(WEIGHTED))}; or give a function of two vectors as the metric."
        )
    given = {k: v for k, v in options.items() if v is not None}
    if lowered == "seuclidean" and "V" not in given:
        given["V"] = np.var(data(), axis=0, ddof=1)
    if lowered == "mahalanobis" and "VI" not in given:
        given["VI"] = np.linalg.inv(np.cov(data().T)).T
    return lambda u, v: metric(u, v, **given)


def _called(metric: Callable[..., Any], u: Any, v: Any, options: dict[str, Any]) -> Any:
    """Applies a function of two vectors to all pairs of two broadcast stacks."""
    u, v = np.broadcast_arrays(u, v)
    shape = shape_of(u)
    pairs = [metric(u[index], v[index], **options) for index in np.ndindex(*shape[:-1])]
    return np.reshape(np.stack(pairs), shape[:-1]) if pairs else np.zeros(shape[:-1])


def _vectors(name: str, x: Any) -> Any:
    x = array_of(x)
    if len(shape_of(x)) != 2:
        raise ValueError(f"{name} must be a 2-dimensional array.")
    return x if x.dtype.char in "dD" else cast(x, np.dtype(np.float64))


def _refuse_out(function: str, out: Any) -> None:
    if out is not None:
        raise UnsupportedArgumentError(
            f"{function} was called with out=... on traced vectors{user_line()}. Use the result."
        )


# --- SciPy's functions ----------------------------------------------------------------------------


def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """Distances of each vector of one set to each of another, as scipy.spatial.distance.cdist.

    Args:
      XA: vectors along its rows, shape (m, k). XB: shape (n, k).
      metric: a name of METRICS or a function of two vectors. kwargs: p and w of minkowski, w of
        chebyshev, V of seuclidean, VI of mahalanobis; arguments of your own function.

    Returns:
      The distances, float64[m, n]. The derivative of a norm is 0 where two vectors are equal.

    Raises:
      UnsupportedArgumentError: for metrics of truth values, other weights and `out`.

    >>> cdist([[0.0, 0.0]], [[3.0, 4.0], [6.0, 8.0]])
    array([[ 5., 10.]])
    """
    if not any(type(array_of(x)) is Tracer for x in (XA, XB, *_arrays(kwargs))):
        return scipy_module("scipy.spatial.distance").cdist(XA, XB, metric, out=out, **kwargs)
    _refuse_out("cdist", out)
    a, b = _vectors("XA", XA), _vectors("XB", XB)
    if shape_of(a)[1] != shape_of(b)[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension)")
    measure = _metric("cdist", metric, lambda: np.concatenate([a, b]), kwargs)
    return measure(a[:, None, :], b[None, :, :])


def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """Distances of the pairs of a set of vectors, as scipy.spatial.distance.pdist.

    Args:
      X: vectors along its rows, shape (m, k). metric, kwargs: as of `cdist`.

    Returns:
      The distances of the pairs i < j, row by row: float64[m * (m - 1) / 2].

    >>> pdist([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0]])
    array([5., 3., 4.])
    """
    if not any(type(array_of(x)) is Tracer for x in (X, *_arrays(kwargs))):
        return scipy_module("scipy.spatial.distance").pdist(X, metric, out=out, **kwargs)
    _refuse_out("pdist", out)
    x = _vectors("X", X)
    first, second = np.triu_indices(shape_of(x)[0], 1)
    return _metric("pdist", metric, lambda: x, kwargs)(x[first], x[second])


def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    """Converts a vector of distances to a matrix, or back, as scipy.spatial.distance.squareform.

    Args:
      X: distances as from `pdist`, or a symmetric matrix of them with zeros on its diagonal, which
        is not checked if traced.
      force: "tovector" or "tomatrix", to require the other kind of X.

    >>> squareform(np.array([5.0, 3.0, 4.0]))
    array([[0., 5., 3.],
           [5., 0., 4.],
           [3., 4., 0.]])
    """
    x = array_of(X)
    if type(x) is not Tracer:
        return scipy_module("scipy.spatial.distance").squareform(X, force, checks)
    shape = shape_of(x)
    for kind, ndim in (("tomatrix", 1), ("tovector", 2)):
        if force.lower() == kind and len(shape) != ndim:
            raise ValueError(f"Forcing {kind!r} but input X is not of {ndim} axes.")
    if len(shape) == 2:
        if shape[0] != shape[1]:
            raise ValueError("The matrix argument must be square.")
        return x[np.triu_indices(shape[0], 1)]
    if len(shape) != 1:
        raise ValueError(
            f"The first argument must be one or two dimensional array. A {len(shape)}-dimensional "
            "array is not permitted"
        )
    count = int(np.ceil(np.sqrt(2 * shape[0])))
    if count * (count - 1) != 2 * shape[0]:
        raise ValueError("Incompatible vector size. It must be a binomial coefficient n choose 2.")
    if not shape[0]:
        return np.zeros((1, 1), x.dtype)
    indices = np.zeros((count, count), np.intp)
    indices[np.triu_indices(count, 1)] = np.arange(shape[0])
    return np.where(np.eye(count, dtype=bool), np.zeros((), x.dtype), x[indices + indices.T])


def _arrays(options: dict[str, Any]) -> list[Any]:
    return [v for v in options.values() if not callable(v) and v is not None]


__getattr__, __dir__ = rest_of_scipy(globals())
