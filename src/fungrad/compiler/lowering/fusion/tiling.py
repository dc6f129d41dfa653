"""How many rows a block has, and whether threads share the blocks of a region.

Where the values of a block stand: the order of their axes in memory, and their buffers.

In columns short axes come first in memory, rows and other long axes last: loops of ufuncs then run
along long axes, and a sum over a short one adds a few of them (n-body 3 times as fast, a mixture
2.5 times). A buffer has one dtype, shape, and axis of rows, and is used again for values of that
kind as soon as its own is dead; those of other kinds have its memory while it is free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion import row_access
from fungrad.compiler.lowering.fusion.clustering import FusionCluster
from fungrad.compiler.lowering.fusion.output_slices import rows_of
from fungrad.compiler.lowering.fusion.row_access import REDUCED, multiplies
from fungrad.ir.graph import Atom, Equation, Variable
from fungrad.primitives.facts import is_arithmetic, is_view
from fungrad.runtime import buffer_pool
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
blocks that the second one finds in the cache that cores share, or half of it. Without the bound
logistic regression 20000x100 takes 1.38 times the time."""
SHARED = 2_000_000
"""The cost of a region from which on threads share it: 0.4 ms, of which to wake a thread, and the
waits of two for each other, take half (measured on two cores)."""
SLOW = 4
"""The cost of an element of a function, in elements that are added or multiplied."""
LINE = 8
"""Doubles in a line of the cache: blocks begin at one place of lines, and of pages."""
WHOLE = 8
"""Blocks of fewer pages or lines are not made whole ones, so that all are of about one size.
Without whole ones a mixture 5000x10x5 takes 1.36 times the time."""


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


NARROW = 32
"""Axes of fewer elements are short."""
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
    saved = _loops(region, step, False) - _loops(region, step, True)
    read = zip(region.inputs, region.slices, strict=True)
    made = [(part.value, rows_of(part)) for parts in region.made for part in parts]
    copied = [v for v, axis in (*read, *made)
              if axis not in (None, REDUCED) and moves(v.type.shape, axis)]  # fmt: skip
    return LOOP * saved > sum(v.type.size for v in copied)


def _loops(region: FusionCluster, step: int, columns: bool) -> int:
    """How many loops the ufuncs of a region take."""
    loops = 0
    for equation, how in zip(region.equations, region.forms, strict=True):
        primitive: Any = equation.primitive
        read = [(a.type.shape, axis) for a, axis in zip(equation.inputs, how.inputs, strict=True)]
        if primitive.reduces is not None:
            (((space, axis),), reduced) = read, equation.params["axes"]
            shapes = [space, tuple([1 if i in reduced else n for i, n in enumerate(space)])]
        elif is_view(equation) or how.output == REDUCED or row_access.moves(equation):
            continue
        else:
            space, axis = equation.outputs[0].type.shape, how.output
            shapes = [(1,) * (len(space) - len(shape)) + tuple(shape) for shape, _ in read]
        block = [step if i == axis else n for i, n in enumerate(space)]
        order = memory(block, axis) if columns else range(len(space))
        loops += math.prod(space) // _run(block, shapes, order)
    return loops


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


Kind = tuple[np.dtype[Any], tuple[int, ...], int]


class Buffers:
    """The buffers of blocks of `step` rows.

    `last` says by which equation a value is read last, by identity, or made, if nothing reads it;
    `root` whose memory a view shares. `now` is the number of the equation that is done.
    """

    def __init__(
        self, step: int, in_columns: bool, last: Mapping[int, int], root: Mapping[int, int]
    ) -> None:
        self.step = step
        self.in_columns = in_columns
        self.last = last
        self.root = root
        self.now = 0
        self.kinds: dict[str, Kind] = {}
        self._times: dict[str, int] = {}
        self._free: dict[Kind, list[str]] = {}
        self._held: dict[int, list[tuple[Kind, str]]] = {}
        self._scratch: list[tuple[Kind, str]] = []

    def _kind(self, variable: Variable, axis: int) -> Kind:
        """The kind of buffer that holds a variable of this Type: dtype, shape, row axis."""
        shape = list(variable.type.shape)
        shape[axis] = self.step
        return variable.type.dtype, tuple(shape), axis

    def own(self, variable: Variable, axis: int) -> str:
        """A buffer of a block of the variable's Type, the variable's own until it is released."""
        kind = self._kind(variable, axis)
        name = self._taken(kind, self.last[id(variable)])
        self._held.setdefault(id(variable), []).append((kind, name))
        return name

    def scratch(self, variable: Variable, axis: int, count: int) -> list[str]:
        """Buffers of blocks of the variable's Type, for this equation alone."""
        kind = self._kind(variable, axis)
        names = [self._taken(kind, self.now) for _ in range(count)]
        self._scratch += [(kind, name) for name in names]
        return names

    def _taken(self, kind: Kind, end: int) -> str:
        """A buffer that is free up to an equation, and that one."""
        free = self._free.get(kind)
        name = free.pop() if free else f"b{len(self.kinds)}"
        self.kinds.setdefault(name, kind)
        self._times[name] = self._times.get(name, 0) | (2 << end) - (1 << self.now)
        return name

    def layout(self) -> buffer_pool.Layout:
        """The buffers in the memory that they need."""
        arrays = [self._array(kind) for kind in self.kinds.values()]
        return buffer_pool.packed(arrays, [self._times[name] for name in self.kinds])

    def _array(self, kind: Kind) -> buffer_pool.Array:
        dtype, shape, axis = kind
        order = memory(shape, axis) if self.in_columns else tuple(range(len(shape)))
        return shape, dtype, order

    def release(self, atoms: Sequence[Atom]) -> None:
        """Frees the buffers of values that no later equation reads."""
        for atom in atoms:
            root = self.root.get(id(atom), id(atom))
            if self.last.get(root) == self.now:
                for kind, name in self._held.pop(root, ()):
                    self._give(kind, name)

    def advance(self) -> None:
        """Goes on to the next equation."""
        for kind, name in self._scratch:
            self._give(kind, name)
        self._scratch.clear()
        self.now += 1

    def _give(self, kind: Kind, name: str) -> None:
        self._free.setdefault(kind, []).append(name)


__all__ = [
    "BLOCK",
    "NARROW",
    "Buffers",
    "arranged",
    "heavy",
    "in_columns",
    "length",
    "memory",
    "moves",
    "shared",
]
