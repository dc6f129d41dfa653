"""Floor 6: the body of a region's program, for one block: which buffer holds which value.

One line an equation; ufuncs write into buffers of one block that are used again as soon as their
value is dead. Knows regions and kernels; what stands around the body is written by blocked.py.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fungrad.backend.kernels import SCRATCH, dot, hypot, logaddexp, sincos, sincos_by_tangent
from fungrad.backend.regions import Region
from fungrad.backend.rows import CASTS, ENDED, REDUCTIONS, VIEWS, Form
from fungrad.ir.graph import Atom, Equation, Literal, Variable
from fungrad.optimise.kernels import setting
from fungrad.primitives import ufuncs
from fungrad.primitives.contracting import dot_general
from fungrad.primitives.elementwise import select
from fungrad.primitives.indexing import getitem
from fungrad.primitives.shaping import broadcast_to, transpose

BLOCK = 32_768
"""Elements of a block: with a few buffers of doubles it stays in cache (benchmarks/fusion.py)."""
NARROW = 32
"""Rows of fewer elements are laid out in columns where they are broadcast or reduced."""
TALL = 4
"""Blocks are laid out in columns where they have so many times more rows than narrow ones have
elements."""

_POWERS = {2: np.square, 0.5: np.sqrt, -1: np.reciprocal}


def _widest(region: Region) -> int:
    """The number of elements of the longest row."""
    found = [1]
    for equation, how in zip(region.equations, region.forms, strict=True):
        atoms = [*zip(equation.inputs, how.inputs, strict=True), (equation.outputs[0], how.output)]
        found += [a.type.size // region.length for a, axis in atoms if axis not in (None, ENDED)]
    return max(found)


def _in_columns(region: Region, step: int) -> bool:
    """Whether rows are so narrow that the loops of ufuncs had better run across them."""
    narrow, mixed = NARROW, False
    for equation, how in zip(region.equations, region.forms, strict=True):
        shape = equation.outputs[0].type.shape
        read = [
            (a.type.shape, axis)
            for a, axis in zip(equation.inputs, how.inputs, strict=True)
            if axis is not None
        ]
        for inner, axis in [*read, (shape, how.output)]:
            if axis not in (0, ENDED):
                return False
            widths = [n for n in inner[1:] if n > 1] if axis == 0 else []
            narrow = min([narrow, *widths[-1:]])
        mixed |= equation.primitive in REDUCTIONS
        mixed |= any(a.type.shape not in ((), shape) for a in equation.inputs)
    return mixed and narrow < NARROW and step >= TALL * narrow


class Block:
    """The lines of the body, and where each value stands."""

    def __init__(self, region: Region, namespace: dict[str, Any]) -> None:
        self.region = region
        self.namespace = namespace
        self.step = min(region.length, max(1, BLOCK // _widest(region)))
        self.columns = _in_columns(region, self.step)
        self.place: dict[Any, str] = {}
        self.layout: list[tuple[tuple[int, ...], np.dtype[Any], str]] = []
        self.axes: list[int] = []
        self.free: dict[Any, list[str]] = {}
        self.lines: list[str] = []
        self.sums: dict[int, str] = {}
        self.outputs = {id(v): f"q{i}" for i, (v, _) in enumerate(region.made)}
        self.pairs = _sines_with_cosines(region)
        self.root: dict[int, int] = {}
        self.held: dict[int, tuple[Any, str]] = {}
        self.last: dict[int, int] = {}
        for index, equation in enumerate(region.equations):
            (output,) = equation.outputs
            source = id(equation.inputs[0]) if equation.primitive in VIEWS else id(output)
            self.root[id(output)] = self.root.get(source, source)
            for atom in (*equation.inputs, output):
                self.last[self.root.get(id(atom), id(atom))] = index

    def constant(self, value: Any) -> str:
        name = f"k{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def function(self, name: str, value: Any) -> str:
        self.namespace[name] = value
        return name

    def read(self, atom: Atom, axis: int | None) -> str:
        if isinstance(atom, Literal):
            return self.constant(atom.value)
        inner = self.place.get(id(atom))
        return self.place[id(atom), axis] if inner is None else inner

    def kind(self, variable: Variable, axis: int) -> tuple[np.dtype[Any], tuple[int, ...], int]:
        """What buffers of a block of the variable's Type have in common: dtype, shape, axis."""
        shape = list(variable.type.shape)
        shape[axis] = self.step
        return variable.type.dtype, tuple(shape), axis

    def buffer(self, variable: Variable, axis: int, transient: bool = False) -> str:
        """A buffer of a block of the variable's Type, the variable's own until it is released."""
        key = dtype, shape, _ = self.kind(variable, axis)
        if self.free.get(key):
            name = self.free[key].pop()
        else:
            name = f"b{len(self.layout)}"
            self.layout.append((shape, dtype, "F" if self.columns else "C"))
            self.axes.append(axis)
        if not transient:
            self.held[id(variable)] = (key, name)
        return name

    def release(self, index: int, atoms: tuple[Atom, ...]) -> None:
        """Frees the buffers of values that no later equation of the region reads."""
        for atom in atoms:
            root = self.root.get(id(atom), id(atom))
            if self.last.get(root) == index and root in self.held:
                key, name = self.held.pop(root)
                self.free.setdefault(key, []).append(name)

    def block(self, shape: tuple[int, ...], axis: int) -> str:
        """The text of a shape with the length of a block in place of that of all rows."""
        parts = ["m" if i == axis else str(n) for i, n in enumerate(shape)]
        return f"({', '.join(parts)},)"

    def write(self, equation: Equation, how: Form, index: int) -> None:
        (variable,) = equation.outputs
        primitive: Any = equation.primitive
        arguments = [self.read(a, x) for a, x in zip(equation.inputs, how.inputs, strict=True)]
        if how.output == ENDED:
            self._end(equation, arguments)
            self.release(index, equation.inputs)
            return
        output = self.outputs.get(id(variable))
        if self._by_kernel(equation, how, arguments):
            computed = False
        elif primitive in VIEWS:
            self._view(equation, how, arguments[0])
            computed = True
        elif primitive.ufunc or primitive in REDUCTIONS or primitive in CASTS:
            over = primitive.ufunc is not None
            if over:  # a ufunc may write over what it reads
                self.release(index, equation.inputs)
            target = self._target(variable, how.output)
            self._call(equation, arguments, target)
            self.place[id(variable)] = target
            computed = target != output
        else:
            name = f"t{len(self.lines)}"
            called = self._eval(primitive, equation.params)
            self.lines.append(f"{name} = {called}({', '.join(arguments)})")
            self.place[id(variable)] = name
            computed = True
        if output is not None and computed:
            self.lines.append(f"copyto({output}, {self.place[id(variable)]})")
        self.release(index, (*equation.inputs, variable))

    def _by_kernel(self, equation: Equation, how: Form, arguments: list[str]) -> bool:
        """Whether the output was written by a kernel of ours, now or before."""
        (variable,) = equation.outputs
        if id(variable) in self.place:
            return True
        partner = self.pairs.get(id(equation))
        kernel = _KERNELS.get(equation.primitive) if partner is None else _sincos()
        if kernel is None or setting() == "numpy" or not _doubles(equation):
            return False
        written = [variable] if partner is None else _sorted_pair(equation, partner)
        targets = [self._target(v, how.output) for v in written]
        scratch = [
            self.buffer(variable, how.output, transient=True) for _ in range(SCRATCH[kernel])
        ]
        called = self.function(kernel.__name__, kernel)
        self.lines.append(f"{called}({', '.join([*arguments, *targets, *scratch])})")
        for v, target in zip(written, targets, strict=True):
            self.place[id(v)] = target
            output = self.outputs.get(id(v))
            if output not in (None, target):
                self.lines.append(f"copyto({output}, {target})")
        self.free.setdefault(self.kind(variable, how.output), []).extend(scratch)
        return True

    def _target(self, variable: Variable, axis: int) -> str:
        """Where a value is written: its output, or a buffer."""
        output = self.outputs.get(id(variable))
        direct = output is not None and not self.columns
        return str(output) if direct else self.buffer(variable, axis)

    def _eval(self, primitive: Any, params: dict[str, Any]) -> str:
        if primitive is select:  # half the time of copyto with where=
            return self.function("where", np.where)
        return self.constant(functools.partial(primitive.eval, **params))

    def _end(self, equation: Equation, arguments: list[str]) -> None:
        ufunc = REDUCTIONS.get(equation.primitive, np.add)
        called = self.function(ufunc.__name__, ufunc)
        name = self.sums.setdefault(id(equation.outputs[0]), f"s{len(self.sums)}")
        if equation.primitive is dot_general:
            part = f"{self.function('dot', dot)}({', '.join(arguments)})"
        else:
            part = f"{called}.reduce({arguments[0]}, {equation.params['axes']})"
        self.lines.append(f"r = {part}")
        self.lines.append(f"{name} = r if {name} is None else {called}({name}, r)")

    def _view(self, equation: Equation, how: Form, source: str) -> None:
        (variable,) = equation.outputs
        primitive: Any = equation.primitive
        name = f"t{len(self.lines)}"
        shape = self.block(variable.type.shape, how.output)
        if primitive is transpose:
            text = f"{source}.transpose({equation.params['axes']})"
        elif primitive is broadcast_to:
            text = f"{self.function('broadcast_to', np.broadcast_to)}({source}, {shape})"
        elif primitive is getitem:
            text = f"{source}[{self.constant(equation.params['index'].entries)}]"
        else:
            text = f"{source}.reshape({shape})"
        self.lines.append(f"{name} = {text}")
        self.place[id(variable)] = name

    def _call(self, equation: Equation, arguments: list[str], target: str) -> None:
        primitive: Any = equation.primitive
        if primitive in CASTS:
            self.lines.append(f"copyto({target}, {arguments[0]}, casting='unsafe')")
        elif primitive in REDUCTIONS:
            ufunc = REDUCTIONS[primitive]
            called = self.function(ufunc.__name__, ufunc)
            axes = equation.params["axes"]
            self.lines.append(f"{called}.reduce({arguments[0]}, {axes}, None, {target})")
        else:
            ufunc, arguments = _called(equation, arguments)
            called = self.function(ufunc.__name__, ufunc)
            self.lines.append(f"{called}({', '.join(arguments)}, out={target})")


_KERNELS: dict[Any, Any] = {ufuncs.logaddexp: logaddexp, ufuncs.hypot: hypot}


def _sincos() -> Any:
    return sincos_by_tangent if setting() == "fast" else sincos


def _doubles(equation: Equation) -> bool:
    return all(a.type.dtype == np.float64 for a in (*equation.inputs, *equation.outputs))


def _sines_with_cosines(region: Region) -> dict[int, Equation]:
    """For each sine of a value whose cosine is asked for too, by identity, the other equation."""
    found: dict[tuple[Any, int], Equation] = {}
    for equation in region.equations:
        if equation.primitive in (ufuncs.sin, ufuncs.cos):
            found.setdefault((equation.primitive, id(equation.inputs[0])), equation)
    pairs: dict[int, Equation] = {}
    for (primitive, argument), equation in found.items():
        other = found.get((ufuncs.cos, argument)) if primitive is ufuncs.sin else None
        if other is not None:
            pairs.update({id(equation): other, id(other): equation})
    return pairs


def _sorted_pair(equation: Equation, partner: Equation) -> list[Variable]:
    """The sine, then the cosine."""
    pair = [equation, partner] if equation.primitive is ufuncs.sin else [partner, equation]
    return [e.outputs[0] for e in pair]


def _called(equation: Equation, arguments: list[str]) -> tuple[np.ufunc, list[str]]:
    """The ufunc to call; powers by 2, 1/2 and -1 are those that ndarray's ** takes."""
    ufunc: Any = equation.primitive.ufunc
    exponent = equation.inputs[-1]
    if equation.primitive is ufuncs.power and isinstance(exponent, Literal):
        kind = equation.inputs[0].type.dtype.kind
        short = _POWERS.get(exponent.value) if exponent.type.weak and kind in "fc" else None
        if short is not None:
            return short, arguments[:1]
    return ufunc, arguments


__all__ = ["Block"]
