"""Floor 6: runs a region block by block, so that its intermediates stay in cache.

The program of a region is Python source: for each block of rows one line an equation, ufuncs
writing into buffers of one block that are used again as soon as their value is dead; a reduction
over the rows is added up from block to block. Blocks are shared among threads. Knows regions, the
pool and threads. The numbers are those of the same equations unblocked, sums over the rows to
rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.backend import pool, threads
from fungrad.backend.blocks import Block
from fungrad.backend.regions import SHARED, Region
from fungrad.backend.rows import ENDED, REDUCTIONS

_keys = itertools.count()


def build(region: Region) -> Callable[..., tuple[Any, ...]]:
    """The function of the region's inputs that returns its outputs."""
    text, namespace = written(region)
    exec(compile(text, "<region>", "exec"), namespace)
    run: Callable[..., tuple[Any, ...]] = namespace["region"]
    return run


def _part(name: str, axis: int, stop: str) -> str:
    return f"{name}[{':, ' * axis}{stop}]"


def written(region: Region) -> tuple[str, dict[str, Any]]:
    """The text of the program of a region, and the names that it reads."""
    namespace: dict[str, Any] = {
        "empty": np.empty,
        "zeros": np.zeros,
        "copyto": np.copyto,
        "in_columns": np.asfortranarray,
        "share": threads.share,
        "num_threads": threads.num_threads,
        "take": pool.take,
        "give": pool.give,
        "key": next(_keys),
    }
    writer = Block(region, namespace)
    begin, read = _inputs(writer)
    for index, (equation, how) in enumerate(zip(region.equations, region.forms, strict=True)):
        writer.write(equation, how, index)
    rows = {id(e.outputs[0]): f.output for e, f in zip(region.equations, region.forms, strict=True)}
    names = {id(v): f"o{i}" for i, (v, _) in enumerate(region.made)}
    types: dict[str, Any] = {}
    for whole, (variable, place) in zip(region.outputs, region.made, strict=True):
        name = names[id(variable)]
        if rows[id(variable)] == ENDED:
            continue
        read.append(f"q{name[1:]} = {_part(name, rows[id(variable)], 'i:j')}")
        begin += _allocated(name, whole.type.shape, place)
        types[name] = whole.type.dtype
    namespace["types"] = types
    namespace["layout"] = tuple(writer.layout)
    namespace["size"] = pool.size_of(writer.layout)
    work = sum(e.outputs[0].type.size for e in region.equations)
    count = "num_threads()" if work >= SHARED else "1"
    arguments = ", ".join(f"x{i}" for i in range(len(region.inputs)))
    buffers = range(len(writer.layout))
    lines = [f"def region({arguments}):", *(f"    {line}" for line in begin)]
    lines.append("    def work(start, stop):")
    lines += [f"        {name} = None" for name in writer.sums.values()]
    lines.append("        arena = take(size)")
    lines.append("        try:")
    if buffers:
        lines.append(
            f"            {' '.join(f'a{i},' for i in buffers)} = arena.arrays(key, layout)"
        )
    lines.append(f"            for i in range(start, stop, {writer.step}):")
    lines.append(f"                j = min(i + {writer.step}, stop)")
    lines.append("                m = j - i")
    if buffers:
        lines.append(f"                if m == {writer.step}:")
        lines += [f"                    b{i} = a{i}" for i in buffers]
        lines.append("                else:")
        lines += [
            f"                    b{i} = {_part(f'a{i}', writer.axes[i], ':m')}" for i in buffers
        ]
    lines += [f"                {line}" for line in read + writer.lines]
    lines.append("        finally:")
    lines.append("            give(arena)")
    lines.append(f"        return ({' '.join(f'{name},' for name in writer.sums.values())})")
    lines.append(f"    parts = share(work, {region.length}, {writer.step}, {count})")
    lines += _totals(writer, names)
    results = [f"w{i}" if place else f"o{i}" for i, (_, place) in enumerate(region.made)]
    lines.append(f"    return ({', '.join(results)},)")
    return "\n".join(lines), namespace


def _allocated(name: str, shape: tuple[int, ...], place: Any) -> list[str]:
    """The lines that make an output; where it is a part, of an array that is zero elsewhere."""
    if place is None:
        return [f"{name} = empty({shape}, types['{name}'])"]
    whole = f"w{name[1:]}"
    index = ", ".join(f"{e.start or ''}:{'' if e.stop is None else e.stop}" for e in place)
    if len(shape) != 1:
        return [f"{whole} = zeros({shape}, types['{name}'])", f"{name} = {whole}[{index}]"]
    start, stop, _ = place[0].indices(shape[0])
    lines = [f"{whole} = empty({shape}, types['{name}'])", f"{name} = {whole}[{start}:{stop}]"]
    lines += [f"{whole}[:{start}] = 0"] * (start > 0)
    return lines + [f"{whole}[{stop}:] = 0"] * (stop < shape[0])


def _inputs(writer: Block) -> tuple[list[str], list[str]]:
    """What is done with the inputs before all blocks, and in each."""
    begin, read = [], []
    for i, (variable, axis) in enumerate(
        zip(writer.region.inputs, writer.region.slices, strict=True)
    ):
        wide = variable.type.ndim > 1
        if axis is None:
            if writer.columns and wide:
                begin.append(f"x{i} = in_columns(x{i})")
            writer.place[id(variable), axis] = f"x{i}"
            continue
        read.append(f"p{i} = {_part(f'x{i}', axis, 'i:j')}")
        writer.place[id(variable), axis] = f"p{i}"
        if writer.columns and variable.type.size > writer.region.length:
            name = writer.buffer(variable, axis, transient=True)
            read.append(f"copyto({name}, p{i})")
            writer.place[id(variable), axis] = name
    return begin, read


def _totals(writer: Block, names: dict[int, str]) -> list[str]:
    """The lines that add up what the threads found, in their order."""
    lines = []
    by_variable = {id(e.outputs[0]): e for e in writer.region.equations}
    for position, variable in enumerate(writer.sums):
        name = names[variable]
        ufunc = REDUCTIONS.get(by_variable[variable].primitive, np.add).__name__
        lines.append(f"    {name} = parts[0][{position}]")
        lines.append(f"    for part in parts[1:]: {name} = {ufunc}({name}, part[{position}])")
    return lines
