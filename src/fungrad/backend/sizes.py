"""Floor 6: how many rows a block has, and whether they are laid out in columns.

Knows regions; writes no program.
"""

from __future__ import annotations

import math

from fungrad.backend import rows
from fungrad.backend.regions import Region
from fungrad.backend.rows import ENDED, REDUCTIONS, multiplies
from fungrad.ir.graph import Equation

BLOCK = 32_768
"""Elements of a block: with a few buffers of doubles it stays in cache (benchmarks/fusion.py)."""
EVEN = 8
"""Blocks of numbers begin at multiples of so many."""
NARROW = 32
"""Rows of fewer elements are laid out in columns where they are broadcast or reduced."""
TALL = 4
"""Blocks are laid out in columns where they have so many times more rows than narrow ones have
elements."""


def length(region: Region, threads: int) -> int:
    """The number of rows of a block, of which the threads have as many each."""
    wide = _widest(region)
    step = _step(region.length, wide, threads)
    if any(map(multiplies, region.equations)):
        step = max(step, min(rows.PRODUCT, 4 * BLOCK // wide, region.length))
    return step


def _widest(region: Region) -> int:
    """The number of elements of the longest row."""
    found = [1]
    for equation, how in zip(region.equations, region.forms, strict=True):
        atoms = [*zip(equation.inputs, how.inputs, strict=True), (equation.outputs[0], how.output)]
        found += [a.type.size // region.length for a, axis in atoms if axis not in (None, ENDED)]
    return max(found)


def _step(length: int, widest: int, threads: int) -> int:
    """The number of rows of blocks that are about as large as each other, as many for each thread.

    Smaller blocks need less memory, and leave no thread idle while another one has a block more.
    """
    count = -(-length * widest // BLOCK) if widest < BLOCK else length
    if count > 1:
        count = -(-count // threads) * threads
    step = -(-length // min(count, length))
    return step if widest > 1 or step < TALL * EVEN else -(-step // EVEN) * EVEN


def in_columns(region: Region, step: int) -> bool:
    """Whether rows are so narrow that the loops of ufuncs had better run across them."""
    narrow, mixed, elements, inside = NARROW, False, 0, 0
    for equation, how in zip(region.equations, region.forms, strict=True):
        if multiplies(equation):
            return False
        shape = equation.outputs[0].type.shape
        read = [
            (a.type.shape, axis)
            for a, axis in zip(equation.inputs, how.inputs, strict=True)
            if axis is not None
        ]
        for inner, axis in [*read, (shape, how.output)]:
            if axis not in (0, ENDED):
                return False
            widths = [n for n in inner[1:] if n > 1][-1:] if axis == 0 else []
            narrow = min([narrow, *widths])
            elements += math.prod(inner) * len(widths)
            inside += math.prod(inner) * sum(n < NARROW for n in widths)
        mixed |= equation.primitive in REDUCTIONS
        mixed |= any(a.type.shape not in ((), shape) for a in equation.inputs)
    return mixed and 2 * inside > elements and step >= TALL * narrow


def work(equation: Equation) -> int:
    """Elements that an equation computes; four terms of a product of matrices count as one."""
    size: int = equation.outputs[0].type.size
    if not multiplies(equation):
        return size
    terms: int = equation.inputs[0].type.shape[equation.params["contract"][0][0]]
    return size * terms // 4


__all__ = ["BLOCK", "NARROW", "TALL", "in_columns", "length", "work"]
