"""Samples of the primitives that sort, search and convolve, of I0, I1 and the roots."""

from __future__ import annotations

import numpy as np
from sampling import BOOL, C64, C128, F32, F64, I32, I64, add, draw

PLACES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((4,), 0),
    ((2, 3), 1),
    ((3, 2), 0),
    ((2, 3, 2), 1),
    ((1,), 0),
    ((0, 2), 0),
    ((2, 0), 0),
)
TIES = np.array([[1.0, 2.0, 1.0, 2.0, 1.0], [0.0, 0.0, 3.0, -1.0, 3.0]])


def order_of(shape: tuple[int, ...], axis: int) -> np.ndarray:
    return np.argsort(draw("order", shape, F64), axis=axis)


for shape, axis in PLACES:
    for dtype in (F64, F32, C128):
        x = draw("sort", shape, dtype)
        add("sort", x, axis=axis)
        add("permuted", x, order_of(shape, axis), axis=axis)
        add("permuted", x, order_of(shape, axis), axis=axis, inverse=True)
        add("share_ties", x, draw("keys", shape, F64), axis=axis, fixed=(1,))
        for kind in (None, "stable"):
            add("argsort", x, axis=axis, kind=kind)
    if shape[axis]:
        add("partition", draw("partition", shape, F64), kth=(shape[axis] // 2,), axis=axis)
        add("partition", draw("partition", shape, F32), kth=(0, shape[axis] - 1), axis=axis)
        add("argpartition", draw("partition", shape, F64), kth=(shape[axis] // 2,), axis=axis)
    add("lexsort", draw("first", shape, I64), draw("second", shape, F64), axis=axis)
    add("lexsort", draw("first", shape, F32), axis=axis)
for dtype in (I64, BOOL):
    add("sort", draw("sort", (2, 3), dtype), axis=1)
    add("argsort", draw("sort", (2, 3), dtype), axis=0, kind=None)
    add("partition", draw("sort", (2, 3), dtype), kth=(1,), axis=1)
    add("lexsort", draw("sort", (3,), dtype), axis=0)
add("sort", TIES, axis=1, upto=0)
add("sort", TIES, axis=0, upto=0)
add("sort", np.array([2.0, np.nan, 1.0, np.nan]), axis=0, upto=0)
add("partition", TIES, kth=(2,), axis=1, upto=0)
for shape, axis in (((5, 2), 0), ((2, 5), 1), ((2, 5, 2), 1)):
    keys = np.sort(draw("keys", shape, I32, 0, 1), axis=axis)
    for dtype in (F64, F32, C128):
        add("share_ties", draw("x", shape, dtype), keys, axis=axis)
add("share_ties", draw("x", (4,), F64), np.array([1.0, 1.0, np.nan, np.nan]), axis=0, fixed=(1,))

for right in (False, True):
    for edges in (np.array([-1.5, -0.5, 0.0, 1.0]), np.array([1.0, 0.0, -0.5, -1.5])):
        for shape in ((), (3,), (2, 3), (0,)):
            add("digitize", edges, draw("v", shape, F64), right=right)
            add("digitize", edges.astype(F32), draw("v", shape, F32), right=right)
    rows = np.array([[-1.0, 0.0, 1.0], [1.0, 0.0, -1.0]])
    add("digitize", rows, draw("v", (2, 3), F64), right=right, lead=1)
    add("digitize", np.array([-1, 0, 2]), draw("v", (2,), I64), right=right)
for dtype in (F64, F32, C128, I64):
    for shape in ((), (3,), (2, 0)):
        x = draw("checked", shape, dtype)
        add("checked", x, x == x, message="{} is wrong", fixed=(1,))
        add("checked", x, np.True_, message="wrong", fixed=(1,))

for dtype, wanted in ((F64, "i8"), (F32, "u4"), (I64, "f4"), (C128, "u8"), (I32, "i1")):
    for shape in ((3,), (2, 0), (2, 4)):
        add("bitcast", draw("bitcast", shape, dtype), dtype=np.dtype(wanted))
add("bitcast", draw("bitcast", (), F64), dtype=I64)

for side in ("left", "right"):
    for shape in ((), (3,), (2, 3), (0,)):
        edges = np.array([-1.5, -0.5, 0.0, 0.0, 1.0])
        add("searchsorted", edges, draw("v", shape, F64), side=side)
        add("searchsorted", edges.astype(F32), draw("v", shape, F32), side=side)
        add("searchsorted", np.array([-1, 0, 2]), draw("v", shape, I64), side=side)
    rows = np.sort(draw("rows", (2, 4), F64), axis=1)
    add("searchsorted", rows, draw("v", (2, 3), F64), side=side, lead=1)
    add("searchsorted", rows, draw("v", (2,), F64), side=side, lead=1)
    add("searchsorted", np.zeros((2, 0)), draw("v", (2, 3), F64), side=side, lead=1)

LENGTHS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((4,), (2,)),
    ((3,), (3,)),
    ((2, 4), (3,)),
    ((4,), (2, 3)),
    ((2, 1, 4), (3, 1)),
    ((1,), (1,)),
    ((0, 4), (2,)),
)
for mode in ("full", "valid"):
    for left, right in LENGTHS:
        add("convolve_nd", draw("x", left, F64), draw("y", right, F64), axes=1, mode=mode)
    add("convolve_nd", draw("x", (4,), F32), draw("y", (2,), F64), axes=1, mode=mode)
    add("convolve_nd", draw("x", (4,), F32), draw("y", (2,), F32), axes=1, mode=mode)
    add("convolve_nd", draw("x", (2, 4), C128), draw("y", (2,), F64), axes=1, mode=mode)
    add("convolve_nd", draw("x", (4,), C64), draw("y", (2,), C64), axes=1, mode=mode)
    add("convolve_nd", draw("x", (2, 4), I64), draw("y", (2,), I64), axes=1, mode=mode)
add("convolve_nd", draw("x", (2,), F64), draw("y", (4,), F64), axes=1, mode="full")

for name in ("i0", "i1"):
    for shape in ((), (3,), (2, 1), (0,)):
        add(name, draw(name, shape, F64, -3, 3))
        add(name, draw(name, shape, F32, -3, 3))
    add(name, np.float64(1.5))
    add(name, 1.5)
    add(name, draw(name, (3,), I64))
    add(name, np.array([0.0, -0.3, 0.7, 7.9, -9.0]))
    add(name, np.array([-600.0, 600.0]), upto=0)

for p in (
    [1.0, -3.0, 1.0],
    [2.0, 1.0, 3.0, -1.0],
    [1.0, 2.0],
    [3.0],
    [[1.0, 0.0, 1.0], [1, -3, 2]],
):
    add("polynomial_roots", np.array(p))
add("polynomial_roots", np.array([1.0, 2.0 - 1j, 0.5j]))
add("polynomial_roots", np.array([1.0, -3.0, 1.0], F32))
