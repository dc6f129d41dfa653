"""Shapes, joins, sorts."""

from __future__ import annotations

import numpy as np

from ..generate import Builder, family


@family("shaping", 10)
def shaping(b: Builder) -> str | None:
    x = b.pick()
    if x is None:
        return None
    shape = b.shape(x)
    size, ndim, rng = int(np.prod(shape)), len(shape), b.rng
    choices = [
        f"np.reshape({x}, ({size},))", f"np.transpose({x})", f"np.ravel({x})",
        f"np.expand_dims({x}, 0)",
        f"np.atleast_2d({x})", f"np.reshape({x}, {(1, *shape, 1)})", f"np.squeeze({x})",
        f"np.broadcast_to({x}, {(rng.choice((0, 1, 2, 3)), *shape)})", f"np.zeros_like({x}) + {x}",
    ]  # fmt: skip
    if ndim:
        axis = b.axis(x)
        choices += [
            f"np.flip({x}, {axis})", f"np.roll({x}, {rng.randint(-2, 3)}, {axis})",
            f"np.moveaxis({x}, 0, -1)",
            f"np.swapaxes({x}, 0, -1)", f"np.repeat({x}, 2, axis={axis})", f"np.tile({x}, 2)",
            f"np.expand_dims({x}, {axis})",
            f"np.pad({x}, 1)", f"np.pad({x}, ({rng.choice((0, 1, 2))}, 1), constant_values=0.5)",
            f"np.diff({x}, axis={axis})",
            f"np.array_split({x}, 2, axis={axis})[{rng.randrange(2)}]",
            f"np.pad({x}, 1, mode='edge')", f"np.flip({x})", f"np.pad({x}, 1, mode='wrap')",
            f"np.pad({x}, 1, mode='reflect')",
            f"np.delete({x}, 0, axis={axis})", f"np.append({x}, {x}, axis={axis})",
            f"np.insert({x}, 0, 2, axis={axis})",
        ]  # fmt: skip
        if size % 2 == 0:
            choices.append(f"np.reshape({x}, (2, {size // 2}))")
    if ndim >= 2:
        choices += [
            f"np.diagonal({x})", f"np.tril({x})", f"np.triu({x}, 1)", f"np.trace({x})",
            f"np.rot90({x})",
            f"np.swapaxes({x}, -1, -2)",
        ]  # fmt: skip
    if ndim == 1 and size < 20:
        choices += [f"np.diag({x})", f"np.outer({x}, {x})", f"np.vander({x}, 3)"]
    return rng.choice(choices)


@family("joining", 5)
def joining(b: Builder) -> str | None:
    x = b.array()
    if x is None:
        return None
    shape = b.shape(x)
    y = b.pick("f" if b.smooth else "bifc", lambda v: np.shape(v) == shape) or x
    axis, dtype = b.axis(x), "complex" if "c" in b.kind(x) + b.kind(y) else "float"
    return b.rng.choice((
        f"np.concatenate([{x}, {y}], axis={axis})", f"np.stack([{x}, {y}])",
        f"np.stack([{x}, {y}, {x}], axis=-1)",
        f"np.concatenate([{y}, {x}, {y}], axis={axis})", f"np.hstack([{x}, {y}])",
        f"np.vstack([{x}, {y}])",
        f"np.where({y} > 0, {x}, {y})" if "c" not in b.kind(x) + b.kind(y)
         else f"np.array([{x}, {y}], dtype=complex)",
        f"np.array([{x}, {y}], dtype={dtype})", f"np.concatenate([{x}, {x}[:0], {y}], axis=0)",
        f"np.column_stack([{x}, {y}])",
    ))  # fmt: skip


@family("sorting", 4)
def sorting(b: Builder) -> str | None:
    x = b.array("bif", empty=False)
    if x is None or b.smooth:
        return None
    axis, n = b.axis(x), b.rng.randint(0, 3)
    k = min(n, max(b.shape(x)[axis] - 1, 0))
    return b.rng.choice((
        f"np.sort({x}, axis={axis})", f"np.argsort({x}, axis={axis}, kind='stable')",
        f"np.sort({x})[..., ::-1]",
        f"np.partition({x}, {k}, axis={axis}).take({k}, axis={axis})",
        f"np.take_along_axis({x}, np.argsort({x}, axis={axis}, kind='stable'), axis={axis})",
        f"np.searchsorted(np.sort(np.ravel({x})), {x})",
        f"np.searchsorted(np.sort(np.ravel({x})), {x}, side='right')",
        f"np.argmax({x}, axis={axis})", f"np.argmin({x}, axis={axis})",
        f"np.median({x}, axis={axis})",
        f"np.quantile({x}, 0.3, axis={axis})", f"np.percentile({x}, 75)",
    ))  # fmt: skip
