"""The eval `ba`: bundle adjustment's residuals and their sparse Jacobian.

The parameters that an observation sees are gathered into [15, p]; two pullbacks with constant
cotangents give both rows of every observation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy as plain  # the pattern is no function of the parameters

import fungrad as fg

CAMERA, POINT, SEEN = 11, 3, 15


def projected(seen: Any, feats: Any) -> tuple[Any, Any]:
    """The two weighted reprojection errors [p] of observations with parameters [15, p]."""
    rotation, centre, (focal, u0, v0, k1, k2) = seen[0:3], seen[3:6], seen[6:11]
    point, weight = seen[11:14], seen[14]
    x, y, z = point - centre
    square = np.sum(rotation * rotation, axis=0)
    # At |r| = 0 the limits are those of X + r x X; the argument of the root is kept from 0.
    turned = square > 0.0
    angle = np.sqrt(np.where(turned, square, 1.0))
    cosine, sine = np.cos(angle), np.sin(angle)
    one, by_sine = np.where(turned, cosine, 1.0), np.where(turned, sine / angle, 1.0)
    by_cosine = np.where(turned, (1.0 - cosine) / (angle * angle), 0.0)
    a, b, c = rotation
    along = by_cosine * (a * x + b * y + c * z)
    x2 = one * x + by_sine * (b * z - c * y) + along * a
    y2 = one * y + by_sine * (c * x - a * z) + along * b
    z2 = one * z + by_sine * (a * y - b * x) + along * c
    e, f = x2 / z2, y2 / z2
    radius = e * e + f * f
    stretch = focal * (1.0 + radius * (k1 + k2 * radius))
    return weight * (stretch * e + u0 - feats[0]), weight * (stretch * f + v0 - feats[1])


def gathered(cameras: Any, points: Any, weights: Any) -> Any:
    """What each observation sees: camera i mod n, point i mod m, weight i, as [15, p]."""
    which = np.arange(weights.shape[0])
    return np.concatenate(
        [
            np.take(cameras, which % cameras.shape[1], axis=1),
            np.take(points, which % points.shape[1], axis=1),
            weights[None, :],
        ]
    )


def residuals(cameras: Any, points: Any, weights: Any, feats: Any) -> tuple[Any, Any]:
    """The reprojection errors [2, p] and the errors of the weights [p]."""
    errors = np.stack(projected(gathered(cameras, points, weights), feats))
    return errors, 1.0 - weights * weights


def entries(cameras: Any, points: Any, weights: Any, feats: Any) -> Any:
    """The Jacobian's nonzero entries in the order of its rows."""
    seen = gathered(cameras, points, weights)
    _, pull = fg.vjp(lambda s: projected(s, feats), seen)
    ones, zeros = np.ones_like(weights), np.zeros_like(weights)
    rows = np.stack([pull((ones, zeros))[0], pull((zeros, ones))[0]])
    return np.concatenate([np.transpose(rows, (2, 0, 1)).reshape(-1), -2.0 * weights])


def pattern(n: int, m: int, p: int) -> tuple[Any, Any]:
    """The offsets of the rows and the columns of the entries."""
    which = plain.arange(p)
    columns = plain.empty((p, 2, SEEN), dtype=plain.int64)
    columns[:, :, :CAMERA] = ((which % n) * CAMERA)[:, None, None] + plain.arange(CAMERA)
    first = n * CAMERA + (which % m) * POINT
    columns[:, :, CAMERA : CAMERA + POINT] = first[:, None, None] + plain.arange(POINT)
    of_weights = n * CAMERA + m * POINT + which
    columns[:, :, -1] = of_weights[:, None]
    rows = plain.concatenate([plain.arange(2 * p) * SEEN, 2 * p * SEEN + plain.arange(p + 1)])
    return rows, plain.concatenate([columns.reshape(-1), of_weights])


_residuals, _entries = fg.jit(residuals), fg.jit(entries)


def decoded(given: Mapping[str, Any]) -> tuple[Any, ...]:
    """The parameters and features, replicated, one observation, camera or point a column."""
    counts = (given["n"], given["m"], given["p"])
    cameras, points, feats = (
        np.tile(np.asarray(given[name])[:, None], (1, count))
        for name, count in zip(("cam", "x", "feat"), counts[:2] + counts[2:], strict=True)
    )
    return cameras, points, np.full(counts[2], given["w"]), feats


def prepare_objective(given: Mapping[str, Any]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """The residuals; of them GradBench reads the first."""
    arguments = decoded(given)

    def encode(out: Any) -> Any:
        errors, weight_errors = out
        return {
            "reproj_error": {"elements": errors[:, 0].tolist(), "repeated": given["p"]},
            "w_err": {"element": float(weight_errors[0]), "repeated": given["p"]},
        }

    return lambda: _residuals(*arguments), encode


def prepare_jacobian(given: Mapping[str, Any]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """The whole sparse matrix; of it GradBench reads the first 30 of each and the last."""
    arguments = decoded(given)
    counts = (given["n"], given["m"], given["p"])

    def encode(out: Any) -> Any:
        (rows, columns), values = out
        parts = {"rows": rows, "cols": columns, "vals": values}
        return {name: [*part[:30].tolist(), part[-1].item()] for name, part in parts.items()}

    return lambda: (pattern(*counts), _entries(*arguments)), encode


FUNCTIONS = {"objective": prepare_objective, "jacobian": prepare_jacobian}
