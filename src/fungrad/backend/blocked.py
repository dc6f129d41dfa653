"""Floor 6: runs a cluster block by block, so that its intermediates stay in cache.

The program of a cluster is Python source: for each block one line a ufunc, writing into buffers of
one block that are used again as soon as their value is dead. Blocks are shared among threads. Knows
clusters and threads; the numbers are those of the same ufuncs unblocked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.backend import threads
from fungrad.backend.clusters import Cluster
from fungrad.ir.graph import Atom, Equation, Literal, Variable
from fungrad.ir.types import Type
from fungrad.primitives.elementwise import select
from fungrad.primitives.ufuncs import power

BLOCK = 16_384
"""Elements of a block: with a few buffers of doubles it stays in the second-level cache."""
SHARED = 400_000
"""Elements times equations of a cluster from which on it is shared among threads."""

_POWERS = {2: np.square, 0.5: np.sqrt, -1: np.reciprocal}


def build(cluster: Cluster) -> Callable[..., tuple[Any, ...]]:
    """The function of the cluster's inputs that returns its outputs."""
    text, namespace = written(cluster)
    exec(compile(text, "<cluster>", "exec"), namespace)
    run: Callable[..., tuple[Any, ...]] = namespace["cluster"]
    return run


def _sliced(type_: Type, shape: tuple[int, ...]) -> bool:
    """Whether a block of the cluster reads a part of this value, along axis 0, and not all of
    it.
    """
    return type_.ndim == len(shape) and type_.shape[0] == shape[0]


class _Writer:
    """Writes the body of a cluster: which buffer holds which value."""

    def __init__(self, cluster: Cluster, namespace: dict[str, Any]) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.place: dict[int, str] = {}
        self.dtypes: list[np.dtype[Any]] = []
        self.free: dict[np.dtype[Any], list[str]] = {}
        self.lines: list[str] = []
        self.last: dict[int, int] = {}
        for index, equation in enumerate(cluster.equations):
            for atom in equation.inputs:
                self.last[id(atom)] = index

    def constant(self, value: Any) -> str:
        name = f"k{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def read(self, atom: Atom) -> str:
        return self.constant(atom.value) if isinstance(atom, Literal) else self.place[id(atom)]

    def release(self, equation: Equation, index: int) -> None:
        """Frees the buffers of values that no later equation of the cluster reads."""
        for atom in {id(a): a for a in equation.inputs}.values():
            name = self.place.get(id(atom), "")
            if self.last[id(atom)] == index and name.startswith("b"):
                self.free.setdefault(atom.type.dtype, []).append(name)

    def buffer(self, dtype: np.dtype[Any]) -> str:
        if self.free.get(dtype):
            return self.free[dtype].pop()
        self.dtypes.append(dtype)
        return f"b{len(self.dtypes) - 1}"

    def write(self, equation: Equation, index: int, output: str | None) -> None:
        variable: Variable = equation.outputs[0]
        arguments = [self.read(a) for a in equation.inputs]
        chooses = equation.primitive is select
        if not chooses:  # a ufunc may write over what it reads; a choice may not
            self.release(equation, index)
        target = output or self.buffer(variable.type.dtype)
        if chooses:
            condition, yes, no = arguments
            self.lines.append(f"copyto({target}, {no})")
            self.lines.append(f"copyto({target}, {yes}, where={condition})")
            self.release(equation, index)
        else:
            ufunc, arguments = _called(equation, arguments)
            self.namespace[ufunc.__name__] = ufunc
            self.lines.append(f"{ufunc.__name__}({', '.join(arguments)}, out={target})")
        self.place[id(variable)] = target


def _called(equation: Equation, arguments: list[str]) -> tuple[np.ufunc, list[str]]:
    """The ufunc to call; powers by 2, 1/2 and -1 are those that ndarray's ** takes."""
    ufunc: Any = equation.primitive.ufunc
    exponent = equation.inputs[-1]
    if equation.primitive is power and isinstance(exponent, Literal):
        kind = equation.inputs[0].type.dtype.kind
        short = _POWERS.get(exponent.value) if exponent.type.weak and kind in "fc" else None
        if short is not None:
            return short, arguments[:1]
    return ufunc, arguments


def written(cluster: Cluster) -> tuple[str, dict[str, Any]]:
    """The text of the program of a cluster, and the names that it reads."""
    shape = cluster.shape
    namespace: dict[str, Any] = {
        "empty": np.empty,
        "copyto": np.copyto,
        "share": threads.share,
        "num_threads": threads.num_threads,
    }
    writer = _Writer(cluster, namespace)
    sliced = {id(v): _sliced(v.type, shape) for v in cluster.inputs}
    pure = all(v.type.shape in ((), shape) for v in cluster.inputs)
    inner: list[str] = []
    for i, variable in enumerate(cluster.inputs):
        part = sliced[id(variable)]
        if part:
            inner.append(f"p{i} = x{i}[i:j]")
        writer.place[id(variable)] = f"p{i}" if part else f"x{i}"
    outputs = {id(v): f"q{i}" for i, v in enumerate(cluster.outputs)}
    inner += [f"q{i} = o{i}[i:j]" for i in range(len(cluster.outputs))]
    for index, equation in enumerate(cluster.equations):
        writer.write(equation, index, outputs.get(id(equation.outputs[0])))
    row = int(np.prod(shape[1:], dtype=int))
    rows = max(1, BLOCK // max(1, row))
    arguments = ", ".join(f"x{i}" for i in range(len(cluster.inputs)))
    size = Type(shape, np.float64).size
    namespace["dtypes"] = [v.type.dtype for v in cluster.outputs]
    namespace["buffer_dtypes"] = writer.dtypes
    lines = [f"def cluster({arguments}):"]
    lines += [f"    r{i} = o{i} = empty({shape}, dtypes[{i}])" for i in range(len(cluster.outputs))]
    lines.append(f"    n, step, tail = {shape[0]}, {rows}, {shape[1:]}")
    if pure and len(shape) > 1:
        arrays = [i for i, v in enumerate(cluster.inputs) if sliced[id(v)]]
        contiguous = " and ".join(f"x{i}.flags.c_contiguous" for i in arrays) or "True"
        lines.append(f"    if {contiguous}:")
        lines.append(f"        n, step, tail = {size}, {BLOCK}, ()")
        lines += [f"        x{i} = x{i}.reshape(-1)" for i in arrays]
        lines += [f"        o{i} = o{i}.reshape(-1)" for i in range(len(cluster.outputs))]
    lines.append("    def work(start, stop):")
    lines.append("        size = min(step, stop - start)")
    lines += [
        f"        a{i} = empty((size, *tail), buffer_dtypes[{i}])"
        for i in range(len(writer.dtypes))
    ]
    lines.append("        for i in range(start, stop, step):")
    lines.append("            j = min(i + step, stop)")
    lines += [f"            b{i} = a{i}[: j - i]" for i in range(len(writer.dtypes))]
    lines += [f"            {line}" for line in inner + writer.lines]
    many = size * len(cluster.equations) >= SHARED
    lines.append(f"    share(work, n, step, {'num_threads()' if many else '1'})")
    lines.append(f"    return ({', '.join(f'r{i}' for i in range(len(cluster.outputs)))},)")
    return "\n".join(lines), namespace
