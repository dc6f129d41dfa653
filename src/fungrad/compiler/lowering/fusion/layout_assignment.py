"""Values laid out in columns: short axes first in memory, rows and other long axes last.

Loops of ufuncs then run along long axes, and a sum over a short one adds a few of them. Knows
regions; writes no program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion import gather_concat_roll
from fungrad.compiler.lowering.fusion.clustering import FusionCluster
from fungrad.compiler.lowering.fusion.output_slices import rows_of
from fungrad.compiler.lowering.fusion.row_access import multiplies
from fungrad.compiler.lowering.fusion.row_access_type import REDUCED
from fungrad.primitives.facts import is_view

NARROW = 32
"""Axes of fewer elements are short."""
BUFFERS = 1024, 256
"""Elements of the buffers of ufuncs where loops are short, and where they are long."""
LONG = 300
"""Loops of more elements are long."""
LOOP = 4
"""How many elements are copied into columns in the time that a loop of a ufunc takes to begin."""

Shape = Sequence[int]


def memory(shape: Shape, axis: int | None) -> tuple[int, ...]:
    """The axes of a value in memory, the slowest first, where `axis` has its rows."""
    short = [i for i, n in enumerate(shape) if n < NARROW and i != axis]
    return (*short, *(i for i in range(len(shape)) if i not in short))


def moves(shape: Shape, axis: int | None) -> bool:
    """Whether the elements of a value stand in another order in columns."""
    long = [i for i in memory(shape, axis) if shape[i] > 1]
    return long != sorted(long)


def in_columns(region: FusionCluster, step: int) -> bool:
    """Whether the loops that are saved make up for what is copied into columns, and out of them."""
    if any(map(multiplies, region.equations)):
        return False
    saved = _loops(region, step, False)[0] - _loops(region, step, True)[0]
    read = zip(region.inputs, region.slices, strict=True)
    made = [(part.value, rows_of(part)) for parts in region.made for part in parts]
    copied = [v for v, axis in (*read, *made)
              if axis not in (None, REDUCED) and moves(v.type.shape, axis)]  # fmt: skip
    return LOOP * saved > sum(v.type.size for v in copied)


def buffer(region: FusionCluster, step: int, columns: bool) -> int | None:
    """How many elements the buffers of ufuncs shall have in a region, None where it has no need.

    NumPy copies what it broadcasts, and what has gaps, to buffers of 8,192 elements, so that its
    loops are as long as that. Where they are long as it is the copies are most of the work.
    """
    loops, elements = _loops(region, step, columns)
    blocks = -(-region.length // step) * len(region.equations)
    if not columns and loops <= blocks:
        return None
    return BUFFERS[elements > LONG * loops]


def _loops(region: FusionCluster, step: int, columns: bool) -> tuple[int, int]:
    """How many loops the ufuncs of a region take, and the elements in all of them."""
    loops = elements = 0
    for equation, how in zip(region.equations, region.forms, strict=True):
        primitive: Any = equation.primitive
        read = [(a.type.shape, axis) for a, axis in zip(equation.inputs, how.inputs, strict=True)]
        if primitive.reduces is not None:
            (((space, axis),), reduced) = read, equation.params["axes"]
            shapes = [space, tuple([1 if i in reduced else n for i, n in enumerate(space)])]
        elif is_view(equation) or how.output == REDUCED or gather_concat_roll.moves(equation):
            continue
        else:
            space, axis = equation.outputs[0].type.shape, how.output
            shapes = [(1,) * (len(space) - len(shape)) + tuple(shape) for shape, _ in read]
        block = [step if i == axis else n for i, n in enumerate(space)]
        order = memory(block, axis) if columns else range(len(space))
        loops += math.prod(space) // _run(block, shapes, order)
        elements += math.prod(space)
    return loops, elements


def _run(block: Shape, shapes: Sequence[Shape], order: Sequence[int]) -> int:
    """The length of the loops over a block: axes are one where all operands have both or none."""
    run, kind = 1, None
    for i in reversed(order):
        here = [shape[i] > 1 for shape in shapes]
        if block[i] > 1 and kind not in (None, here):
            break
        if block[i] > 1:
            run, kind = run * block[i], here
    return run


def arranged(x: Any, order: Sequence[int]) -> Any:
    """x with its axes in this order in memory."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


__all__ = ["NARROW", "arranged", "buffer", "in_columns", "memory", "moves"]
