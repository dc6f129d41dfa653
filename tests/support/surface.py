"""`agrees`: the checks of every function of NumPy's surface, under every transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg
from fungrad.support import pytree
from fungrad.testing import check_grads


def values(shape: tuple[int, ...], dtype: Any = np.float64, seed: int = 0) -> Any:
    """Numbers of a dtype; inexact ones are all different."""
    random = np.random.default_rng((seed, *shape))
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return random.integers(-4, 5, shape).astype(dtype)
    result = random.uniform(-2, 2, shape)
    if dtype.kind == "c":
        result = result + 1j * random.uniform(-2, 2, shape)
    return result.astype(dtype)


def same(found: Any, expected: Any, what: str) -> None:
    """The same structure, shapes, dtypes and (to rounding) numbers."""
    left, right = pytree.leaves(found), pytree.leaves(expected)
    assert len(left) == len(right), f"{what}: {len(left)} results for {len(right)}"
    for x, y in zip(left, right, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape, f"{what}: shape {x.shape} for {y.shape}"
        assert x.dtype == y.dtype, f"{what}: dtype {x.dtype} for {y.dtype}"
        wide = y.dtype.kind not in "fc" or y.dtype.itemsize // (1 + (y.dtype.kind == "c")) == 8
        tolerance = 1e-12 if wide else 1e-5
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=what)


def inexact(tree: Any) -> bool:
    return any(np.asarray(x).dtype.kind in "fc" for x in pytree.leaves(tree))


def agrees(f: Callable[..., Any], *args: Any, order: int = 2, batch: bool = True) -> None:
    """f gives NumPy's results under every transform, and right derivatives.

    Args:
      f: a function of arrays that returns a tree of arrays.
      *args: its arguments.
      order: the highest order of derivatives that is compared with differences.
      batch: whether vmap is compared with a loop.
    """
    expected = f(*args)
    same(fg.vjp(f, *args)[0], expected, "under vjp")
    moved = [np.ones_like(a) if np.asarray(a).dtype.kind in "fc" else None for a in args]
    same(fg.jvp(f, args, moved)[0], expected, "under jvp")
    graph = fg.make_jaxpr(f)(*args)
    fg.check_graph(graph)
    same(fg.evaluate(graph, *args), pytree.leaves(expected), "staged")
    if batch:
        batched = [np.stack([np.asarray(a)] * 2 + [np.asarray(a) * 2]) for a in args]
        batched = [b.astype(np.asarray(a).dtype) for a, b in zip(args, batched, strict=True)]
        rows = [pytree.leaves(f(*[b[i] for b in batched])) for i in range(3)]
        columns = [np.stack(column) for column in zip(*rows, strict=True)]
        same(pytree.leaves(fg.vmap(f)(*batched)), columns, "under vmap")
    if order and inexact(args) and inexact(expected):
        check_grads(f, args, order=order)
