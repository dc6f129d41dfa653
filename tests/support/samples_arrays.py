"""Samples of the primitives that move, pick, reduce and contract."""

from __future__ import annotations

from typing import Any

import numpy as np
from sampling import BOOL, C64, C128, F32, F64, I32, I64, add, draw

from fungrad.primitives.movement.gather import ARRAY, Index

# --- shaping: shape, parameters
# -----------------------------------------------------------------------------

SHAPING: dict[str, list[tuple[tuple[int, ...], dict[str, Any]]]] = {
    "reshape": [
        ((), {"shape": (1, 1)}),
        ((6,), {"shape": (2, 3)}),
        ((2, 3), {"shape": (6,)}),
        ((0, 3), {"shape": (0,)}),
        ((1,), {"shape": ()}),
    ],
    "transpose": [
        ((), {"axes": ()}),
        ((2, 3), {"axes": (1, 0)}),
        ((2, 3, 1), {"axes": (2, 0, 1)}),
        ((0, 2), {"axes": (1, 0)}),
    ],
    "broadcast_to": [
        ((), {"shape": (2, 3)}),
        ((3,), {"shape": (2, 3)}),
        ((2, 1), {"shape": (4, 2, 3)}),
        ((1,), {"shape": (0,)}),
        ((2,), {"shape": (2,)}),
    ],
    "reduce_sum": [
        ((), {"axes": ()}),
        ((3,), {"axes": (0,)}),
        ((2, 3), {"axes": (1,)}),
        ((2, 3, 4), {"axes": (0, 2)}),
        ((0, 2), {"axes": (0,)}),
        ((2, 0), {"axes": (0,)}),
    ],
    "slice_axis": [
        ((4,), {"axis": 0, "start": 1, "stop": 3}),
        ((2, 3), {"axis": 1, "start": 0, "stop": 1}),
        ((2, 3), {"axis": 0, "start": 1, "stop": 1}),
    ],
    "pad": [
        ((), {"widths": ()}),
        ((3,), {"widths": ((1, 2),)}),
        ((2, 3), {"widths": ((0, 1), (2, 0))}),
        ((0,), {"widths": ((1, 1),)}),
        ((2,), {"widths": ((0, 0),)}),
    ],
    "flip": [
        ((3,), {"axes": (0,)}),
        ((2, 3), {"axes": (0, 1)}),
        ((2, 3), {"axes": (1,)}),
        ((0, 2), {"axes": (0,)}),
    ],
}
for name, rows in SHAPING.items():
    for shape, params in rows:
        add(name, draw(name, shape, F64), **params)
        add(name, draw(name, shape, C128), **params)
    add(name, draw(name, rows[1][0], F32), **rows[1][1])
    add(name, draw(name, rows[1][0], I64), **rows[1][1])
    add(name, draw(name, rows[1][0], BOOL), **rows[1][1])
for left, right, axis in (((2,), (3,), 0), ((2, 2), (2, 3), 1), ((0, 2), (1, 2), 0)):
    add("concatenate", draw("l", left, F64), draw("r", right, F64), axis=axis)
    add("concatenate", draw("l", left, F32), draw("r", right, F64), axis=axis)
    add("concatenate", draw("l", left, C128), draw("r", right, F64), axis=axis)
    add("concatenate", draw("l", left, I64), draw("r", right, I32), axis=axis)
add("concatenate", draw("l", (2, 2), F64), axis=0)
add("concatenate", *[draw(str(i), (i, 2), F64) for i in range(4)], axis=0)
for source, target in ((F64, F32), (F32, F64), (F64, C128), (C128, F64), (C128, C64), (F64, F64)):
    add("convert", draw("convert", (2, 3), source), dtype=target)
    add("convert", draw("convert", (), source), dtype=target)
add("convert", 1.5, dtype=F32)
add("convert", np.float64(1.5), dtype=F32)
for source, target in ((F64, I64), (F32, BOOL), (I64, F64), (I64, I32), (BOOL, F32), (C128, BOOL)):
    add("to_discrete", draw("to_discrete", (2, 3), source), dtype=target)
    add("to_discrete", draw("to_discrete", (), source), dtype=target)
add("to_discrete", 2, dtype=F64)
add("full", shape=(2, 3), value=0, dtype=F64)
add("full", shape=(), value=1.5, dtype=F32)
add("full", shape=(0,), value=True, dtype=BOOL)

# --- stop_gradient
# -------------------------------------------------------------------------------------------

for dtype in (F64, F32, C128):
    for shape in ((), (3,), (0, 2)):
        add("stop_gradient", draw("stop", shape, dtype), name=None, upto=0)
        for order in (2, 3):
            add(
                "stop_gradient_order",
                draw("stop", shape, dtype),
                name="h",
                order=order,
                upto=order - 1,
            )

# --- stacking and rearranging ---------------------------------------------------------

for count, shape in ((1, (2,)), (3, ()), (2, (2, 3)), (2, (0,))):
    for dtype in (F64, C128):
        add("stack", *[draw(f"stack{i}", shape, dtype) for i in range(count)])
add("stack", draw("l", (2,), F32), draw("r", (2,), F64))
add("stack", draw("l", (2,), I64), draw("r", (2,), I64))
for shape in ((3,), (2, 3), (1, 0)):
    for dtype in (F64, F32, C128, I64):
        add("unstack", draw("unstack", shape, dtype))
for shape in ((0,), (3,), (2, 3), ()):
    add("iota", shape=shape)
for shape, start in (((3, 3), 0), ((5, 2), 3), ((6, 2, 3), 0), ((1,), 0), ((2, 0), 1)):
    for dtype in (F64, F32, C128):
        add("basis", shape=shape, start=start, dtype=dtype)
for shape, offset in (
    ((3, 3), 0),
    ((2, 4), 1),
    ((4, 2), -1),
    ((2, 2, 3), -1),
    ((2, 2), 5),
    ((0, 0), 0),
):
    for dtype in (F64, F32, C128, I64):
        add("diagonal", draw("diagonal", shape, dtype), offset=offset)
for shape, offset, square in (
    ((3,), 0, (3, 3)), ((2,), 1, (2, 4)), ((2, 2), -1, (3, 2)), ((0,), 0, (0, 2)),
):  # fmt: skip
    for dtype in (F64, F32, C128, I64):
        add("from_diagonal", draw("from_diagonal", shape, dtype), offset=offset, shape=square)
for shape, shifts, axes in (((3,), (1,), (0,)), ((2, 3), (1, -2), (0, 1)), ((0, 2), (1,), (1,))):
    for dtype in (F64, F32, C128, I64):
        add("roll", draw("roll", shape, dtype), shifts=shifts, axes=axes)

# --- reductions -----------------------------------------------------------------------

AXES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3,), (0,)),
    ((2, 3), (1,)),
    ((2, 3), (0, 1)),
    ((2, 3, 2), (0, 2)),
    ((1, 3), (0,)),
    ((), ()),
    ((2, 3), ()),
    ((0, 2), (1,)),
)
for name in (
    "reduce_max", "reduce_min", "reduce_prod", "reduce_logaddexp", "reduce_logaddexp2",
    "product_of_others",
):  # fmt: skip
    for shape, axes in AXES:
        add(name, draw(name, shape, F64), axes=axes)
    add(name, draw(name, (2, 3), F32), axes=(1,))
for name in ("reduce_max", "reduce_min", "reduce_prod", "product_of_others"):
    add(name, draw(name, (2, 3), I64), axes=(0,))
for name in ("reduce_prod", "product_of_others"):
    add(name, draw(name, (2, 3), C128), axes=(1,))
    for zeros in ([0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]):
        add(name, np.array(zeros), axes=(0,))
for name in ("reduce_prod", "reduce_logaddexp", "reduce_logaddexp2"):
    add(name, draw(name, (0, 2), F64), axes=(0,), upto=0)
for name in ("reduce_max", "reduce_min"):
    add(name, np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0], [3.0, 3.0, 3.0]]), axes=(1,), upto=0)
    add(name, np.array([1.0, np.nan, 2.0]), axes=(0,), upto=0)
for name in ("reduce_logaddexp", "reduce_logaddexp2"):
    for values in ([-np.inf, 0.0, 1.0], [-np.inf, -np.inf], [np.inf, 0.0, np.inf]):
        add(name, np.array(values), axes=(0,), upto=0)
for name in ("exp_difference", "exp2_difference"):
    add(name, draw(name, (2, 3), F64), draw("y", (2, 1), F64), fixed=(1,))
    add(name, draw(name, (3,), F32), draw("y", (3,), F32), fixed=(1,))
    add(name, np.array([np.inf, -np.inf, 1.0]), np.array([np.inf, -np.inf, 1.0]), upto=0)
for name in ("reduce_any", "reduce_all"):
    for dtype in (BOOL, F64, I64):
        for shape, axes in AXES:
            add(name, draw(name, shape, dtype), axes=axes)
    add(name, np.array([[True, False], [True, True], [False, False]]), axes=(1,))
for name in ("argmax", "argmin"):
    for dtype in (F64, F32, I64):
        for shape, axis in (((3,), 0), ((2, 3), 1), ((2, 3), 0), ((0, 3), 1)):
            add(name, draw(name, shape, dtype), axis=axis)
add("attains", np.array([1.0, np.nan, 2.0]), np.array([1.0, np.nan, 3.0]))
add("attains", draw("attains", (2, 3), F64), draw("attains", (3,), F64))
add("attains", draw("attains", (3,), I64), draw("attains", (3,), I64))

for dtype in (F64, F32, I64):
    add("number", draw("number", (), dtype))
add("number", np.float32(0.7))
for shape in ((3,), (1,), (0,), (2, 3), (0, 3), (2, 0), (2, 1, 3)):
    add("exact_sum", draw("exact_sum", shape, F64))
add("exact_sum", np.array([1e16, 1.0, -1e16]), upto=0)

# --- cumulative -----------------------------------------------------------------------

for name in ("cumsum", "cumprod", "cummax", "cummin"):
    for reverse in (False, True):
        for shape, axis in (((3,), 0), ((2, 3), 1), ((2, 3), 0), ((0, 2), 0), ((1,), 0)):
            add(name, draw(name, shape, F64), axis=axis, reverse=reverse)
        add(name, draw(name, (2, 3), F32), axis=1, reverse=reverse)
        add(name, draw(name, (2, 3), I64), axis=1, reverse=reverse)
    add(name, draw(name, (3,), F64), axis=0)
for name in ("cumsum", "cumprod"):
    add(name, draw(name, (2, 3), C128), axis=1, reverse=False)
add("cumprod", np.array([2.0, 0.0, 3.0, 0.0]), axis=0, reverse=False)
for name in ("cummax", "cummin"):
    for values in ([1.0, 1.0, 0.0, 1.0], [2.0, 1.0, 2.0, 3.0]):
        add(name, np.array(values), axis=0, reverse=False, upto=0)
for reverse in (False, True):
    for shape, axis in (((3,), 0), ((2, 3), 1), ((2, 3), 0), ((0, 2), 0)):
        add(
            "linear_recurrence",
            draw("a", shape, F64),
            draw("u", shape, F64),
            axis=axis,
            reverse=reverse,
        )
    add("linear_recurrence", draw("a", (3,), C128), draw("u", (3,), F64), axis=0, reverse=reverse)
add("linear_recurrence", draw("a", (70,), F64, -1, 1), draw("u", (70,), F64), axis=0, reverse=False)
add("linear_recurrence", draw("a", (3,), F32), draw("u", (3,), F32), axis=0)

# --- indexing -------------------------------------------------------------------------

ROW, PICK = np.array([0, 2, -1]), np.array([[1], [0]])
INDICES: tuple[tuple[tuple[int, ...], tuple[Any, ...], tuple[Any, ...]], ...] = (
    ((), (Ellipsis,), ()),
    ((3,), (1,), ()),
    ((3,), (-1,), ()),
    ((4,), (slice(None, None, -2),), ()),
    ((2, 3), (slice(1, None), 0), ()),
    ((2, 3), (None, Ellipsis, None, 1), ()),
    ((3,), (slice(2, 1),), ()),
    ((0, 2), (slice(None), 1), ()),
    ((3,), (ARRAY,), (ROW,)),
    ((3,), (ARRAY,), (np.array([], int),)),
    ((3, 2), (ARRAY,), (PICK,)),
    ((2, 3), (slice(None), ARRAY), (ROW,)),
    ((3, 3), (ARRAY, ARRAY), (ROW, PICK)),
    ((3, 2, 3), (ARRAY, slice(None), ARRAY), (ROW, ROW)),
    ((2, 3, 4), (1, slice(None), ARRAY), (ROW,)),
    ((3, 2), (ARRAY, None, 0), (ROW,)),
    ((2, 3), (Ellipsis, ARRAY), (np.array(1),)),
)
for shape, entries, arrays in INDICES:
    index = Index(entries)
    specimen = np.zeros(shape)[index.fill(arrays)]
    add("indexed", *arrays, index=index, shape=shape)
    for dtype in (F64, C128, I64) if len(shape) == 2 else (F64, F32):
        add("getitem", draw("getitem", shape, dtype), *arrays, index=index)
        add("scatter", draw("scatter", specimen.shape, dtype), *arrays, index=index, shape=shape)
add("getitem", draw("getitem", (4,), F64), np.array([3, 0]), index=Index((ARRAY,), unique=True))
add(
    "scatter",
    draw("s", (2,), F64),
    np.array([3, 0]),
    index=Index((ARRAY,), unique=True),
    shape=(4,),
)

add("indexed", np.array([0, 1, 2]), np.array([0, 0, 1]), index=Index((ARRAY, ARRAY)), shape=(3, 2))

# --- contractions ---------------------------------------------------------------------

NO = ((), ())
DOTS: tuple[tuple[tuple[int, ...], tuple[int, ...], Any, Any], ...] = (
    ((3,), (3,), ((0,), (0,)), NO),
    ((2, 3), (3, 2), ((1,), (0,)), NO),
    ((2, 3), (2, 3), ((0,), (0,)), NO),
    ((2, 3), (4, 3), ((1,), (1,)), NO),
    ((3, 2), (2, 3), ((0,), (1,)), NO),
    ((2, 3), (3,), ((1,), (0,)), NO),
    ((3,), (3, 2), ((0,), (0,)), NO),
    ((2,), (3,), NO, NO),
    ((), (3,), NO, NO),
    ((), (), NO, NO),
    ((2, 3), (2, 3), ((0, 1), (0, 1)), NO),
    ((2, 3), (3, 2), ((0, 1), (1, 0)), NO),
    ((2, 3, 2), (3, 2, 2), ((1, 2), (0, 1)), NO),
    ((2, 3, 2), (2, 2, 3), ((2, 1), (0, 2)), NO),
    ((2, 3), (2, 3), ((1,), (1,)), ((0,), (0,))),
    ((2, 3, 4), (2, 4, 3), ((2,), (1,)), ((0,), (0,))),
    ((3, 2), (2, 3), NO, ((0,), (1,))),
    ((2, 3, 2), (2, 3), NO, ((0, 1), (0, 1))),
    ((2, 3, 2, 2), (2, 2, 3), ((1, 3), (2, 1)), ((0,), (0,))),
    ((0, 3), (3, 2), ((1,), (0,)), NO),
    ((2, 0), (0, 2), ((1,), (0,)), NO),
)
for i, (left, right, contract, batch) in enumerate(DOTS):
    for dtype in (F64, (F32, C128)[i % 2]):
        add(
            "dot_general",
            draw("l", left, dtype),
            draw("r", right, dtype),
            contract=contract,
            batch=batch,
        )
for one, two in ((F32, F64), (F64, C128), (I64, F64), (I64, I64)):
    contract = ((1,), (0,))
    add("dot_general", draw("l", (2, 3), one), draw("r", (3, 2), two), contract=contract, batch=NO)

# --- writing by index -----------------------------------------------------------------

AGAIN = np.array([0, 2, 0, -1])  # names elements more than once
WRITES: tuple[tuple[tuple[int, ...], tuple[Any, ...], tuple[Any, ...]], ...] = (
    ((3,), (1,), ()),
    ((), (Ellipsis,), ()),
    ((2, 3), (slice(None), slice(0, 2)), ()),
    ((3,), (ARRAY,), (AGAIN,)),
    ((2, 3), (slice(None), ARRAY), (AGAIN,)),
    ((3, 3), (ARRAY, ARRAY), (AGAIN, np.array([[1], [0]]))),
    ((3, 2), (ARRAY,), (np.array([], int),)),
    ((0, 2), (slice(None), 1), ()),
)
for name in ("index_set", "index_add", "index_multiply", "index_max", "index_min"):
    for shape, entries, arrays in WRITES:
        index = Index(entries)
        specimen = np.zeros(shape)[index.fill(arrays)]
        for dtype in (F64, F32) if len(shape) == 1 else (F64,):
            x, values = draw(name, shape, dtype), draw(f"{name}v", specimen.shape, dtype)
            add(name, x, values, *arrays, index=index)
        ints = draw(name, shape, I64), draw(f"{name}v", specimen.shape, I64)
        add(name, *ints, *arrays, index=index)
    once = Index((ARRAY,), unique=True)
    add(name, draw(name, (4,), F64), draw("v", (2,), F64), np.array([3, 0]), index=once)
for name in ("index_set", "index_add", "index_multiply"):
    values = draw("v", (4,), C128)
    add(name, draw(name, (3,), C128), values, AGAIN, index=Index((ARRAY,)))
for name in ("index_max", "index_min"):
    tied = np.array([1.0, 2.0, 1.0, 1.0])
    add(name, np.ones(3), tied, AGAIN, index=Index((ARRAY,)), upto=0)
for values in ([0.0, 2.0, 3.0, 4.0], [0.0, 2.0, 0.0, 4.0]):
    index = Index((ARRAY,))
    add("index_multiply", draw("x", (3,), F64), np.array(values), AGAIN, index=index)
for dtype in (F64, I64):
    for shape in ((5,), (2, 3), (0,)):
        add("stable_order", draw("stable_order", shape, dtype))
add("stable_order", np.array([2, 1, 2, 1, 1]))

# --- windows and the Gaussian ---------------------------------------------------------------------

for shape, sizes, strides, dilations in (
    ((6,), (3,), (2,), (1,)),
    ((2, 7), (2,), (3,), (2,)),
    ((4, 5), (2, 3), (1, 2), (2, 1)),
    ((2, 2, 3), (1, 2), (1, 1), (1, 1)),
    ((2,), (3,), (1,), (1,)),
    ((0, 3), (2,), (1,), (1,)),
    ((), (), (), ()),
):
    for dtype in (F64, F32, C128, I64):
        x = draw("windows", shape, dtype)
        add("windows", x, sizes=sizes, strides=strides, dilations=dilations)
for shape, lengths, strides, dilations in (
    ((2, 3), (6,), (2,), (1,)),
    ((2, 2, 2), (7,), (3,), (2,)),
    ((2, 2, 2, 3), (4, 5), (1, 2), (2, 1)),
    ((0, 3), (2,), (1,), (1,)),
):
    for dtype in (F64, F32, C128, I64):
        x = draw("overlap_add", shape, dtype)
        add("overlap_add", x, lengths=lengths, strides=strides, dilations=dilations)
for shape in ((), (3,), (2, 1), (0,)):
    for dtype in (F64, F32):
        add("normal_cdf", draw("normal_cdf", shape, dtype))
add("normal_cdf", draw("normal_cdf", (3,), I64))
add("normal_cdf", 0.5)
