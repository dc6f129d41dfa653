"""Code generation of a cluster: a Python program that runs it tile by tile, so that intermediates
stay in cache.

A tile takes one line for each equation; ufuncs write into buffers of one tile, which are reused
when their value is dead; reductions over the rows add up over tiles. Threads share the tiles. The
numbers are those of the equations run one by one, reductions over rows to rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion import tiling
from fungrad.compiler.lowering.fusion.clustering import FusionCluster
from fungrad.compiler.lowering.fusion.output_slices import Part, reach, rows_of
from fungrad.compiler.lowering.fusion.row_access import (
    REDUCED,
)
from fungrad.compiler.lowering.fusion.tile_codegen import Block
from fungrad.compiler.lowering.printer import defined
from fungrad.runtime import blas_threads, buffer_pool, thread_pool

_keys = itertools.count()


def build(region: FusionCluster) -> Callable[..., tuple[Any, ...]]:
    """The function of the region's inputs that returns its outputs."""
    text, namespace = written(region)
    found: Any = defined(text, "<region>", namespace, "region")
    found.cluster = region
    return found  # type: ignore[no-any-return]


def _part(name: str, axis: int, stop: str) -> str:
    return f"{name}[{':, ' * axis}{stop}]"


def written(region: FusionCluster) -> tuple[str, dict[str, Any]]:
    """The text of the program of a region, and the names that it reads."""
    namespace: dict[str, Any] = {
        "empty": np.empty,
        "zeros": np.zeros,
        "copyto": np.copyto,
        "arranged": tiling.arranged,
        "share": thread_pool.share,
        "num_threads": thread_pool.num_threads,
        "take": buffer_pool.take,
        "give": buffer_pool.give,
        "key": next(_keys),
    }
    writer = Block(region, namespace)
    begin, read = _inputs(writer)
    for equation, how in zip(region.equations, region.forms, strict=True):
        writer.write(equation, how)
    begin += writer.begin
    made = _Outputs(writer)
    namespace["layout"] = writer.buffers.layout()
    namespace["size"] = buffer_pool.size_of(namespace["layout"])
    namespace["step"] = writer.step
    namespace["shared"] = writer.shared and made.shareable
    count = "num_threads()" if namespace["shared"] else "1"
    arguments = ", ".join(f"x{i}" for i in range(len(region.inputs)))
    lines = [f"def region({arguments}):", *_indented(1, begin + made.begin)]
    lines.append("    def work(start, stop):")
    lines += _indented(2, [f"{name} = None" for name in (*writer.sums.values(), *made.edges)])
    lines += ["        arena = take(size)", "        try:"]
    body = [*_arrays(writer), f"for i in range(start, stop, {writer.step}):"]
    body += _indented(1, _block(writer) + read + made.read + writer.lines + made.after)
    lines += _indented(3, body)
    lines += ["        finally:", "            give(arena)"]
    found = "".join(f"{name}, " for name in (*writer.sums.values(), *made.edges))
    lines.append(f"        return ({found}start,)")
    shared = [f"parts = share(work, {region.length}, {writer.step}, {count})"]
    if writer.alone and blas_threads.alone() is not None:
        namespace["alone"] = blas_threads.alone()
        shared = ["with alone:", *_indented(1, shared)]
    lines += _indented(1, shared)
    lines += _indented(1, _totals(writer) + made.joined())
    lines.append(f"    return ({', '.join(f'o{i}' for i in range(len(region.outputs)))},)")
    return "\n".join(lines), namespace


def _indented(depth: int, lines: list[str]) -> list[str]:
    return [f"{'    ' * depth}{line}" for line in lines]


def _arrays(writer: Block) -> list[str]:
    names = " ".join(f"a{i}," for i in range(len(writer.buffers.kinds)))
    return [f"{names} = arena.arrays(key, layout)"] if names else []


def _block(writer: Block) -> list[str]:
    """The lines that find the rows of a block, and the part of the buffers that they need."""
    lines = [f"j = min(i + {writer.step}, stop)", "m = j - i"]
    kinds = writer.buffers.kinds.values()
    if kinds:
        lines += [f"if m == {writer.step}:", *(f"    b{i} = a{i}" for i in range(len(kinds)))]
        parts = [_part(f"a{i}", axis, ":m") for i, (_, _, axis) in enumerate(kinds)]
        lines += ["else:", *(f"    b{i} = {part}" for i, part in enumerate(parts))]
    return lines


class _Outputs:
    """The lines that handle outputs: before all tiles, in each, and after all.

    Where the slices of two threads overlap, the first tile of a thread adds to an array of its own,
    an edge, which is added at the end: threads need not wait for each other, and the numbers do not
    depend on their order.
    """

    def __init__(self, writer: Block) -> None:
        self.writer = writer
        self.begin: list[str] = []
        self.read: list[str] = []
        self.after: list[str] = []
        self.edges: dict[str, tuple[int, int, int]] = {}
        region = writer.region
        reaches = [reach(parts) for parts in region.made]
        self.shareable = all(last - first <= writer.step for first, last in reaches)
        for number, (whole, parts) in enumerate(zip(region.outputs, region.made, strict=True)):
            if parts[0].axis == REDUCED:
                continue
            shape, dtype = whole.type.shape, writer.constant(whole.type.dtype)
            direct = len(parts) == 1 and parts[0].place is None
            made = "empty" if direct else "zeros"
            self.begin.append(f"o{number} = {made}({shape}, {dtype})")
            for i, part in enumerate(parts):
                if part.place is not None:
                    self.begin.append(f"w{number}_{i} = o{number}[{_index(part)}]")
            first, last = reaches[number]
            if first == last or not self.shareable:
                self.read += self._blocks(number, parts)
            else:
                self._edge(number, shape, dtype, parts)

    def _blocks(self, number: int, parts: list[Part]) -> list[str]:
        """The lines that name the parts of a block."""
        lines = []
        for i, part in enumerate(parts):
            whole = f"o{number}" if part.place is None else f"w{number}_{i}"
            lines.append(f"q{number}_{i} = {_part(whole, rows_of(part), 'i:j')}")
        return lines

    def _edge(self, number: int, shape: tuple[int, ...], dtype: str, parts: list[Part]) -> None:
        """The lines that name the parts of a block, in the first of a thread those of an edge."""
        first, last = reach(parts)
        e, axis = f"e{number}", parts[0].axis
        lengths = [f"m + {last - first}" if i == axis else str(n) for i, n in enumerate(shape)]
        self.edges[e] = (number, first, last)
        own = [f"e = zeros(({', '.join(lengths)},), {dtype})"]
        for i, part in enumerate(parts):
            rows = f"{part.offset - first}:{part.offset - first} + m"
            own.append(f"q{number}_{i} = e[{_index(part, rows)}]")
        own.append(f"{e} = {_part('e', axis, f':{last - first}')}")
        own.append(f"r{number} = {_part('e', axis, f'{last - first}:')}")
        self.read += ["if i == start > 0:", *_indented(1, own), "else:"]
        self.read += _indented(1, self._blocks(number, parts))
        rows = _part(f"o{number}", axis, f"i + {last}:j + {last}")
        self.after.append(f"if i == start > 0: {rows} = r{number}")

    def joined(self) -> list[str]:
        """The lines that add the edges, which stand behind other results of a thread."""
        lines = []
        for place, (number, first, last) in enumerate(
            self.edges.values(), start=len(self.writer.sums)
        ):
            axis = self.writer.region.made[number][0].axis
            rows = _part(f"o{number}", axis, f"part[-1] + {first}:part[-1] + {last}")
            lines.append(f"for part in parts[1:]: {rows} += part[{place}]")
        return lines


def _index(part: Part, rows: str | None = None) -> str:
    """The text of the index of a part, with other rows."""
    entries = [_entry(entry) for entry in part.place or ()]
    if rows is not None:
        entries = entries or [":"] * part.value.type.ndim
        entries[part.axis] = rows
    return ", ".join(entries)


def _entry(entry: Any) -> str:
    if not isinstance(entry, slice):
        return str(entry)
    parts = (entry.start, entry.stop, *(() if entry.step is None else (entry.step,)))
    return ":".join("" if part is None else str(part) for part in parts)


def _inputs(writer: Block) -> tuple[list[str], list[str]]:
    """The lines that prepare the inputs before all blocks, and in each."""
    begin, read = [], []
    for i, (variable, axis) in enumerate(
        zip(writer.region.inputs, writer.region.slices, strict=True)
    ):
        moved = writer.moved(variable, axis)
        if axis is None:
            if moved:
                order = tiling.memory(variable.type.shape, axis)
                begin.append(f"x{i} = arranged(x{i}, {order})")
            writer.place[id(variable), axis] = f"x{i}"
            continue
        read.append(f"p{i} = {_part(f'x{i}', axis, 'i:j')}")
        writer.place[id(variable), axis] = f"p{i}"
        if moved:
            name = writer.buffers.own(variable, axis)
            read.append(f"copyto({name}, p{i})")
            writer.place[id(variable), axis] = name
    return begin, read


def _totals(writer: Block) -> list[str]:
    """The lines that add up what the threads found, in their order."""
    lines = []
    by_variable = {id(e.outputs[0]): e for e in writer.region.equations}
    names = {id(parts[0].value): f"o{i}" for i, parts in enumerate(writer.region.made)}
    for position, variable in enumerate(writer.sums):
        name = names[variable]
        ufunc = by_variable[variable].primitive.reduces or np.add
        place = f", out={name}" * bool(by_variable[variable].outputs[0].type.shape)
        both = f"{writer.function(ufunc.__name__, ufunc)}({name}, part[{position}]{place})"
        lines.append(f"{name} = parts[0][{position}]")
        lines.append(f"for part in parts[1:]: {name} = {both}")
    return lines
