"""The number of rows of a tile, the sharing of tiles by threads, and the order of axes in memory.

The memory order "in columns" puts short axes first, the rows and other long axes last. The loops of
ufuncs then run along long axes, and a sum over a short axis adds a few of them (n-body runs 3 times
as fast, a mixture 2.5 times).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fungrad.compiler.cost_model import costs
from fungrad.compiler.numpy_backend.fusion import row_access
from fungrad.compiler.numpy_backend.fusion.clustering import FusionCluster
from fungrad.compiler.numpy_backend.fusion.row_access import REDUCED, multiplies
from fungrad.ir.graph import Equation
from fungrad.primitives.facts import is_arithmetic, is_view
from fungrad.runtime.blas_threads import single_in_clusters
from fungrad.runtime.kernels.reductions import one_thread
from fungrad.runtime.thread_pool import num_threads


def length(region: FusionCluster, threads: int) -> int:
    """The number of rows of a tile; all threads get the same number of tiles.

    Threads share longer tiles of vectors, unless neighbours add to the same elements: some of those
    tiles run after all others. Intermediates of wider rows would take more memory than arrays.
    """
    wide = widest(region)
    overlap = any(len({part.offset for part in parts}) > 1 for parts in region.made)
    larger = costs.shared_tile if wide == 1 and not overlap else costs.shared_tile // 2
    block = costs.tile_elements if threads == 1 else larger * costs.tile_elements
    if threads > 1 and wide > 1:
        block = max(costs.tile_elements, int(block * wide / _mean(region)))
    step = _step(region.length, wide, threads, block)
    if any(map(multiplies, region.equations)):
        step = max(step, min(costs.product_rows, 4 * costs.tile_elements // wide, region.length))
    return step


def shared(region: FusionCluster) -> bool:
    """Whether threads share a region; one thread runs a small region faster."""
    return sum(map(_cost, region.equations)) >= costs.shared_work


def heavy(equation: Equation) -> bool:
    """Whether an equation is a product of two matrices that fungrad's threads may share."""
    if not multiplies(equation) or num_threads() == 1 or not single_in_clusters():
        return False
    x, y = (atom.type for atom in equation.inputs)
    flat = x.ndim == y.ndim == 2 == equation.outputs[0].type.ndim and x.dtype == y.dtype
    return flat and one_thread(x.dtype) and _work(equation) >= costs.shared_work


def _cost(equation: Equation) -> int:
    """The elements that an equation computes or reads, weighted by its cost per element."""
    primitive: Any = equation.primitive
    if is_view(equation):
        return 0
    if primitive.reduces is not None:
        return int(equation.inputs[0].type.size)
    quick = primitive.partials is None or primitive.degree == "linear" or is_arithmetic(equation)
    return _work(equation) * (1 if quick else costs.function_work)


def widest(region: FusionCluster) -> int:
    """The number of elements of the longest row that an equation computes. Inputs of the region are
    streamed, and occupy no lasting place in cache.
    """
    found = [1]
    for variable in [equation.outputs[0] for equation in region.equations]:
        if region.axes[variable] != REDUCED:
            found.append(variable.type.size // region.length)
    return max(found)


def _mean(region: FusionCluster) -> float:
    """The mean number of elements of a row over the equations."""
    found = [_work(e) for e in region.equations if not is_view(e) and not multiplies(e)]
    return sum(found, 1) / max(len(found), 1) / region.length


def _step(length: int, wide: int, threads: int, block: int) -> int:
    """The number of rows of blocks of about equal size, the same number of blocks for each thread.

    Smaller blocks need less memory, and no thread is idle while another runs one block more.
    """
    count = -(-length * wide // block) if wide < block else length
    if threads > 1 or length * wide > costs.tile_elements:
        count = -(-count // threads) * threads
    return -(-length // min(count, length))


def _work(equation: Equation) -> int:
    """The number of elements that an equation computes. A product counts one for eight terms, but
    at least its largest operand.
    """
    size: int = equation.outputs[0].type.size
    if not multiplies(equation):
        return size
    terms: int = equation.inputs[0].type.shape[equation.params["contract"][0][0]]
    return max(size * terms // 8, *(atom.type.size for atom in equation.inputs))


Shape = Sequence[int]


def memory(shape: Shape, axis: int | None) -> tuple[int, ...]:
    """The axes of a value in the order of columns, slowest first; `axis` is its row axis."""
    short = [i for i, n in enumerate(shape) if n < costs.short_axis and i != axis]
    return (*short, *(i for i in range(len(shape)) if i not in short))


def moves(shape: Shape, axis: int | None) -> bool:
    """Whether columns change the order of a value's elements in memory."""
    long = [i for i in memory(shape, axis) if shape[i] > 1]
    return long != sorted(long)


def in_columns(region: FusionCluster, step: int) -> bool:
    """Whether columns save more time in ufunc loops than copies into and out of them cost."""
    if any(map(multiplies, region.equations)):
        return False
    saved = 0
    for equation in region.equations:
        (output,), shapes = equation.outputs, [a.type.shape for a in equation.inputs]
        space, axis = output.type.shape, region.axes[output]
        if equation.primitive.reduces is not None:
            (source,), (space,), reduced = equation.inputs, shapes, equation.params["axes"]
            axis = region.axes[source]  # type: ignore[index]
            shapes.append(tuple([1 if i in reduced else n for i, n in enumerate(space)]))
        elif is_view(equation) or axis == REDUCED or row_access.moves(equation):
            continue
        shapes = [(1,) * (len(space) - len(shape)) + tuple(shape) for shape in shapes]
        block = [step if i == axis else n for i, n in enumerate(space)]
        rows, columns = (
            _run(block, shapes, range(len(space))),
            _run(block, shapes, memory(block, axis)),
        )
        saved += math.prod(space) // rows - math.prod(space) // columns
    outside = [*region.body.inputs, *(part.value for parts in region.made for part in parts)]
    by_rows = [v for v in outside if region.axes[v] not in (None, REDUCED)]
    copied = sum(v.type.size for v in by_rows if moves(v.type.shape, region.axes[v]))
    return costs.ufunc_loop * saved > copied


def _run(block: Shape, shapes: Sequence[Shape], order: Sequence[int]) -> int:
    """The length of the inner loops over a block. Neighbouring axes are one loop if each operand
    has both or neither.
    """
    run, kind = 1, None
    for i in reversed(order):
        here = [shape[i] > 1 for shape in shapes]
        if block[i] > 1 and kind not in (None, here):
            break
        if block[i] > 1:
            run, kind = run * block[i], here
    return run
