"""Products of matrices, einsum, convolutions."""

from __future__ import annotations

import numpy as np

from ..generate import Builder, broadcasts, family

WORK = 20_000_000


def fits(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    """Whether `x @ y` is defined."""
    if not x or not y:
        return False
    return x[-1] == (y[-2] if len(y) > 1 else y[0]) and broadcasts(x[:-2], y[:-2])


@family("matmul", 6)
def matmul(b: Builder) -> str | None:
    x = b.array()
    if x is None:
        return None
    shape = b.shape(x)
    y = b.pick("f" if b.smooth else "bifc", lambda v: fits(shape, np.shape(v)))
    n = b.number()
    if y is None or b.rng.random() < 0.2:
        if len(shape) != 2 or shape[0] ** 2 * shape[1] > WORK:
            return None
        return b.rng.choice((f"{x} @ {x}.T", f"{x} @ {x}.T * {n}", f"({x} / 8.0) @ {x}.T"))
    if np.prod(shape) * (b.shape(y)[-1] if len(b.shape(y)) > 1 else 1) > WORK:
        return None
    return b.rng.choice((
        f"{x} @ {y}", f"np.matmul({x}, {y})", f"np.dot({x}, {y})", f"({x} @ {y}) * {n}",
        f"({x} * {n}) @ {y}",
        f"{x} @ ({y} * {n})", f"{x} @ {y} + 1.0",
        f"np.tanh({x} @ {y})" if b.kind(x) + b.kind(y) != "cc" else f"{x} @ {y}",
    ))  # fmt: skip


@family("einsum", 3)
def einsum(b: Builder) -> str | None:
    x = b.array()
    if x is None:
        return None
    shape = b.shape(x)
    y = b.pick("f" if b.smooth else "bifc", lambda v: np.shape(v) == shape) or x
    if int(np.prod(shape)) * max(shape) > WORK:
        return None
    if len(shape) == 1:
        return b.rng.choice((f"np.einsum('i,i->', {x}, {y})", f"np.einsum('i,j->ij', {x}, {y})",
        f"np.einsum('i,i->i', {x}, {y})",
                             f"np.inner({x}, {y})", f"np.vdot({x}, {y})",
                             f"np.convolve({x}, {y}[:3])", f"np.outer({x}, {y})",
                             f"np.correlate({x}, {y}[:2])",
                             f"np.kron({x}[:4], {y}[:4])"))  # fmt: skip
    if len(shape) == 2:
        return b.rng.choice((f"np.einsum('ij,ij->i', {x}, {y})",
        f"np.einsum('ij,kj->ik', {x}, {y})", f"np.einsum('ij->ji', {x})",
                             f"np.einsum('ij->j', {x})", f"np.tensordot({x}, {y}, 2)",
                             f"np.einsum('ij,ij', {x}, {y})",
                             f"np.einsum('ij,ik->jk', {x}, {y})",
                             f"np.vecdot({x}, {y})"))  # fmt: skip
    if len(shape) == 3:
        return b.rng.choice((f"np.einsum('ijk,ijk->jk', {x}, {y})",
        f"np.einsum('ijk,ilk->ijl', {x}, {y})",
                             f"np.einsum('ijk->kij', {x})",
                             f"np.einsum('bij,bkj->bik', {x}, {y})"))  # fmt: skip
    return None
