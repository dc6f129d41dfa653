"""Floor 6: how many rows a block has.

Knows regions; writes no program.
"""

from __future__ import annotations

import math

from fungrad.backend import rows
from fungrad.backend.regions import Region
from fungrad.backend.rows import ENDED, multiplies, views
from fungrad.ir.graph import Equation

BLOCK = 32_768
"""Elements of a block: with a few buffers of doubles it stays in cache (benchmarks/fusion.py)."""
SIDE_BY_SIDE = 2
"""How many times `BLOCK` an equation has in a block in the mean, where rows have several elements
and threads share them: these meet at each call of NumPy, and wait if it is a short one."""
NUMBERS = 1.5
"""The same where rows are numbers: several buffers of a block of those stay in cache no more."""
PAGE, LINE = 512, 8
"""Doubles of a page and of a line of the cache: blocks begin at one place of them."""
WHOLE = 8
"""Blocks of fewer pages or lines are not made whole ones, so that all are of about one size."""


def length(region: Region, threads: int) -> int:
    """The number of rows of a block, of which the threads have as many each."""
    wide = _widest(region)
    block = BLOCK if threads == 1 or wide > 1 else int(NUMBERS * BLOCK)
    if threads > 1 and wide > 1:
        block = max(BLOCK, int(SIDE_BY_SIDE * BLOCK * wide / _mean(region)))
    step = _step(region.length, wide, threads, block)
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


def _mean(region: Region) -> float:
    """The number of elements of a row of an equation, in the mean."""
    found = [work(e) for e in region.equations if not views(e) and not multiplies(e)]
    return sum(found, 1) / max(len(found), 1) / region.length


def _step(length: int, widest: int, threads: int, block: int) -> int:
    """The number of rows of blocks that are about as large as each other, as many for each thread.

    Smaller blocks need less memory, and leave no thread idle while another one has a block more.
    """
    count = -(-length * widest // block) if widest < block else length
    if length * widest > BLOCK:
        count = -(-count // threads) * threads
    step = -(-length // min(count, length))
    for doubles in (PAGE, LINE):
        even = doubles // math.gcd(doubles, widest)
        if step >= WHOLE * even:
            return -(-step // even) * even
    return step


def work(equation: Equation) -> int:
    """Elements that an equation computes; eight terms of a product of matrices count as one."""
    size: int = equation.outputs[0].type.size
    if not multiplies(equation):
        return size
    terms: int = equation.inputs[0].type.shape[equation.params["contract"][0][0]]
    return size * terms // 8


__all__ = ["BLOCK", "length", "work"]
