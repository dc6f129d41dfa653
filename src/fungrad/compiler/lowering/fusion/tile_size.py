"""How many rows a block has, and whether threads share the blocks of a region.

Knows regions; writes no program.
"""

from __future__ import annotations

import math
from typing import Any

from fungrad.compiler.lowering.fusion import row_access
from fungrad.compiler.lowering.fusion.clustering import FusionCluster
from fungrad.compiler.lowering.fusion.row_access import REDUCED, multiplies
from fungrad.ir.graph import Equation
from fungrad.primitives.facts import is_arithmetic, is_view
from fungrad.runtime.blas_threads import single_in_regions
from fungrad.runtime.kernels.reductions import one_thread
from fungrad.runtime.thread_pool import PAGE, num_threads

BLOCK = 32_768
"""Elements of a block: with a few buffers of doubles it stays in cache (benchmarks/fusion.py)."""
SIDE_BY_SIDE = 2
"""How many times `BLOCK` an equation has in a block in the mean, where threads share the blocks:
these meet at each call of NumPy, and wait if it is a short one: for longer than what does not stay
in cache takes."""
STREAM = 1 << 19
"""The most elements in a block of what several products and sums of a region read from outside:
blocks that the second one finds in the cache that cores share, or half of it."""
SHARED = 2_000_000
"""The cost of a region from which on threads share it: 0.4 ms, of which to wake a thread, and the
waits of two for each other, take half (measured on two cores)."""
SLOW = 4
"""What an element of a function costs, in elements that are added or multiplied."""
LINE = 8
"""Doubles in a line of the cache: blocks begin at one place of lines, and of pages."""
WHOLE = 8
"""Blocks of fewer pages or lines are not made whole ones, so that all are of about one size."""


def length(region: FusionCluster, threads: int) -> int:
    """The number of rows of a block, of which the threads have as many each."""
    wide = _widest(region)
    block = BLOCK if threads == 1 else SIDE_BY_SIDE * BLOCK
    if threads > 1 and wide > 1:
        block = max(BLOCK, int(block * wide / _mean(region)))
    block = min(block, STREAM * wide // _streamed(region))
    step = _step(region.length, wide, threads, block)
    if any(map(multiplies, region.equations)):
        step = max(step, min(row_access.PRODUCT, 4 * BLOCK // wide, region.length))
    return step


def shared(region: FusionCluster) -> bool:
    """Whether threads share a region: where it is too small they take longer than one."""
    return sum(map(_cost, region.equations)) >= SHARED


def heavy(equation: Equation) -> bool:
    """Whether an equation is a product of two matrices that threads of ours may share."""
    if not multiplies(equation) or num_threads() == 1 or not single_in_regions():
        return False
    x, y = (atom.type for atom in equation.inputs)
    flat = x.ndim == y.ndim == 2 == equation.outputs[0].type.ndim
    return flat and x.dtype == y.dtype and one_thread(x.dtype) and _work(equation) >= SHARED


def _cost(equation: Equation) -> int:
    """The elements that an equation computes or reads, and how slow it is."""
    primitive: Any = equation.primitive
    if is_view(equation):
        return 0
    if primitive.reduces is not None:
        return int(equation.inputs[0].type.size)
    quick = primitive.partials is None or primitive.degree == "linear" or is_arithmetic(equation)
    return _work(equation) * (1 if quick else SLOW)


def _widest(region: FusionCluster) -> int:
    """The number of elements of the longest row that an equation makes: what a product or a sum
    reads from outside of the region passes by, and takes no place in cache.
    """
    found = [1]
    for equation, how in zip(region.equations, region.forms, strict=True):
        if how.output != REDUCED:
            found.append(equation.outputs[0].type.size // region.length)
    return max(found)


def _streamed(region: FusionCluster) -> int:
    """The number of elements of the longest row that several equations read from outside."""
    reads = region.reads()
    long = [
        variable.type.size // region.length
        for variable, axis in zip(region.inputs, region.slices, strict=True)
        if axis is not None and reads[id(variable)] > 1
    ]
    return max([1, *long])


def _mean(region: FusionCluster) -> float:
    """The number of elements of a row of an equation, in the mean."""
    found = [_work(e) for e in region.equations if not is_view(e) and not multiplies(e)]
    return sum(found, 1) / max(len(found), 1) / region.length


def _step(length: int, widest: int, threads: int, block: int) -> int:
    """The number of rows of blocks that are about as large as each other, as many for each thread.

    Smaller blocks need less memory, and leave no thread idle while another one has a block more.
    """
    count = -(-length * widest // block) if widest < block else length
    if threads > 1 or length * widest > BLOCK:
        count = -(-count // threads) * threads
    step = -(-length // min(count, length))
    for doubles in (PAGE, LINE):
        even = doubles // math.gcd(doubles, widest)
        if step >= WHOLE * even:
            return -(-step // even) * even
    return step


def _work(equation: Equation) -> int:
    """Elements that an equation computes; eight terms of a product of matrices count as one, and
    each element that it reads.
    """
    size: int = equation.outputs[0].type.size
    if not multiplies(equation):
        return size
    terms: int = equation.inputs[0].type.shape[equation.params["contract"][0][0]]
    return max(size * terms // 8, *(atom.type.size for atom in equation.inputs))


__all__ = ["BLOCK", "heavy", "length", "shared"]
