"""Code of one tile of a cluster: which buffer holds which value, and which kernel computes it.

One line for each equation. Ufuncs write into buffers of one tile, which are reused when their value
is dead. Hand-written kernels compute some equations, a sine together with its cosine.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion import tiling
from fungrad.compiler.lowering.fusion.clustering import FusionCluster
from fungrad.compiler.lowering.fusion.row_access import (
    CASTS,
    REDUCED,
    RowAccess,
    joins,
    matrix_first,
    moves,
    multiplies,
    part_indices,
    taken,
)
from fungrad.compiler.lowering.fusion.tiling import Buffers
from fungrad.compiler.lowering.numpy_expressions import as_ufunc
from fungrad.compiler.passes.simplify.blas_and_power_forms import setting
from fungrad.ir.graph import Atom, Equation, Literal, Variable
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise import ufuncs
from fungrad.primitives.elementwise.family import ARITHMETIC, select
from fungrad.primitives.facts import is_view
from fungrad.primitives.movement.gather import getitem
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, transpose
from fungrad.runtime.kernels import reductions
from fungrad.runtime.kernels.elementwise import (
    EXTREMA,
    SCRATCH,
    chosen,
    dot,
    fast_tangent,
    hypot,
    logaddexp,
    sincos,
    sincos_by_tangent,
)
from fungrad.runtime.thread_pool import num_threads

KERNELS: dict[Any, Any] = {
    ufuncs.logaddexp: logaddexp, ufuncs.hypot: hypot, select: chosen,
}  # fmt: skip
"""The kernel of a primitive; floors above put theirs here."""


SINGLE = (logaddexp, hypot)
"""Kernels of numbers of single precision, too."""


def kernel(equation: Equation, paired: bool) -> Any:
    """The kernel of an equation, or of a sine and its cosine; None where NumPy is called."""
    if setting() == "numpy":
        return None
    found: Any = KERNELS.get(equation.primitive)
    if paired:
        found = sincos_by_tangent if setting() == "fast" and fast_tangent() else sincos
    dtype = equation.outputs[0].type.dtype
    if found is chosen:
        mask, size = equation.inputs[0].type, equation.outputs[0].type
        fits = mask.dtype == np.bool_ and mask.shape == size.shape and dtype.kind in "biufc"
        return found if fits and dtype.itemsize in (1, 2, 4, 8) else None
    alike = all(a.type.dtype == dtype or a.type.weak for a in equation.inputs)
    fits = dtype == np.float64 or (dtype == np.float32 and found in SINGLE)
    return found if alike and fits else None


def sines_with_cosines(region: FusionCluster) -> dict[int, Equation]:
    """Pairs of a sine and a cosine of one argument: the identity of the earlier to the later
    equation.
    """
    found: dict[tuple[Any, int], Equation] = {}
    for equation in region.equations:
        if equation.primitive in (ufuncs.sin, ufuncs.cos):
            found.setdefault((equation.primitive, id(equation.inputs[0])), equation)
    pairs: dict[int, Equation] = {}
    later: set[int] = set()
    for (primitive, argument), equation in found.items():
        other = found.get((ufuncs.cos if primitive is ufuncs.sin else ufuncs.sin, argument))
        paired = other is not None and kernel(equation, paired=True) is not None
        if other is not None and paired and id(equation) not in later:
            pairs[id(equation)] = other
            later.add(id(other))
    return pairs


def sorted_pair(equation: Equation, partner: Equation) -> list[Variable]:
    """The sine, then the cosine."""
    pair = [equation, partner] if equation.primitive is ufuncs.sin else [partner, equation]
    return [e.outputs[0] for e in pair]


class Block:
    """The lines of a tile's program, and the buffer of each value."""

    def __init__(self, region: FusionCluster, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self.shared = tiling.shared(region)
        self.length = region.length
        self.step = tiling.length(region, num_threads() if self.shared else 1)
        self.columns = tiling.in_columns(region, self.step)
        self.region = region
        self.forms = {id(e): f for e, f in zip(region.equations, region.forms, strict=True)}
        self.place: dict[Any, str] = {}
        self.lines: list[str] = []
        self.sums: dict[int, str] = {}
        self.spread: set[int] = set()
        self.matrices: dict[str, str] = {}
        self.begin: list[str] = []
        self.alone = False
        """Whether a line calls the BLAS for products that it could take several threads for."""
        self.pairs = sines_with_cosines(region)
        self.elsewhere = {id(e) for e in self.pairs.values()}
        root: dict[int, int] = {}
        last: dict[int, int] = {}
        for index, equation in enumerate(region.equations):
            (output,) = equation.outputs
            source = id(equation.inputs[0]) if is_view(equation) else id(output)
            root[id(output)] = root.get(source, source)
            last.update((root.get(id(atom), id(atom)), index) for atom in self._touched(equation))
        self.buffers = Buffers(self.step, self.columns, last, root)
        self.outputs: dict[int, list[tuple[str, bool]]] = {}
        """The names of blocks of outputs, by the identity of the values that are copied, or added,
        there.
        """
        self.direct: dict[int, str] = {}
        """The outputs that are made in their places."""
        for number, parts in enumerate(region.made):
            for i, part in enumerate(parts):
                whole = len(parts) == 1 and part.place is None
                if part.axis != REDUCED:
                    name = f"q{number}_{i}"
                    self.outputs.setdefault(id(part.value), []).append((name, not whole))
                    if whole and not self.moved(part.value, part.axis):
                        self.direct[id(part.value)] = name

    def _touched(self, equation: Equation) -> tuple[Atom, ...]:
        """The values that an equation reads and makes; none where another one does its work."""
        if id(equation) in self.elsewhere:
            return ()
        partner = self.pairs.get(id(equation))
        return (*equation.inputs, *equation.outputs, *(() if partner is None else partner.outputs))

    def moved(self, variable: Variable, axis: int | None) -> bool:
        """Whether a value stands in memory in another order than outside of the region."""
        return self.columns and tiling.moves(variable.type.shape, axis)

    def constant(self, value: Any) -> str:
        name = f"k{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def function(self, name: str, value: Any) -> str:
        """The name of a function, its own if no other function has that."""
        known = self.namespace.setdefault(name, value)
        return name if known is value else self.constant(value)

    def read(self, atom: Atom, axis: int | None, dtype: np.dtype[Any] | None = None) -> str:
        """The name of a value; of a number, as one of Python or an array of a dtype."""
        if isinstance(atom, Literal):
            return self.constant(atom.value if dtype is None else np.array(atom.value, dtype))
        inner = self.place.get(id(atom))
        return self.place[id(atom), axis] if inner is None else inner

    def block(self, shape: tuple[int, ...], axis: int) -> str:
        """The text of a shape with the length of a block in place of that of all rows."""
        parts = ["m" if i == axis else str(n) for i, n in enumerate(shape)]
        return f"({', '.join(parts)},)"

    def write(self, equation: Equation, how: RowAccess) -> None:
        """Writes the lines of the next equation, and frees the buffers of what it reads last."""
        if id(equation) not in self.elsewhere:
            self._write(equation, how)
        self.buffers.release(self._touched(equation))
        self.buffers.advance()

    def _write(self, equation: Equation, how: RowAccess) -> None:
        (variable,) = equation.outputs
        primitive: Any = equation.primitive
        plain = primitive in ARITHMETIC and variable.type.inexact
        dtype = variable.type.dtype if plain else None  # NumPy converts Python's each time
        axes = zip(equation.inputs, how.inputs, strict=True)
        arguments = [self.read(a, axis, dtype) for a, axis in axes]
        if how.output == REDUCED:
            self._end(equation, self._reduced(equation, arguments))
        elif not self._by_kernel(equation, how, arguments):
            self._by_numpy(equation, how, arguments)
            self._hand_on(variable)

    def _by_numpy(self, equation: Equation, how: RowAccess, arguments: list[str]) -> None:
        """Writes the lines of an equation that has rows, and no kernel of ours."""
        (variable,) = equation.outputs
        primitive: Any = equation.primitive
        if multiplies(equation):
            target = self.place[id(variable)] = self.buffers.own(variable, how.output)
            self.lines.append(self._product(equation, arguments, f", out={target}"))
        elif moves(equation):
            self._join(equation, how, arguments)
        elif is_view(equation):
            self._view(equation, how, arguments[0])
        elif primitive.ufunc or primitive.reduces is not None or primitive in CASTS:
            if primitive.ufunc is not None:  # it may write over what it reads
                self.buffers.release(equation.inputs)
            target = self.place[id(variable)] = self.target(variable, how.output)
            self._call(equation, arguments, target)
        else:
            name = self.place[id(variable)] = f"t{len(self.lines)}"
            called = self.constant(functools.partial(primitive.eval, **equation.params))
            self.lines.append(f"{name} = {called}({', '.join(arguments)})")

    def _by_kernel(self, equation: Equation, how: RowAccess, arguments: list[str]) -> bool:
        """Writes the call of a kernel; whether there is one."""
        (variable,) = equation.outputs
        partner = self.pairs.get(id(equation))
        function = kernel(equation, partner is not None)
        if function is None:
            return False
        written = [variable] if partner is None else sorted_pair(equation, partner)
        targets = [self.target(v, how.output) for v in written]
        alone, over = SCRATCH[function]
        scratch = self.buffers.scratch(variable, how.output, alone)
        self.buffers.release(equation.inputs)
        scratch += self.buffers.scratch(variable, how.output, over)
        called = self.function(function.__name__, function)
        self.lines.append(f"{called}({', '.join([*arguments, *targets, *scratch])})")
        for v, target in zip(written, targets, strict=True):
            self.place[id(v)] = target
            self._hand_on(v)
        return True

    def target(self, variable: Variable, axis: int) -> str:
        """The memory that a value is written to: its output, or a buffer."""
        return self.direct.get(id(variable)) or self.buffers.own(variable, axis)

    def _hand_on(self, variable: Variable) -> None:
        """Copies a value to further outputs that it belongs to."""
        place = self.place[id(variable)]
        for name, added in self.outputs.get(id(variable), ()):
            if added:
                self.lines.append(f"{self.function('add', np.add)}({name}, {place}, out={name})")
            elif name != place:
                spread = id(variable) in self.spread
                copy = self.function("spread", reductions.spread) if spread else "copyto"
                self.lines.append(f"{copy}({name}, {place})")

    def _end(self, equation: Equation, text: str) -> None:
        """Reduces a tile and adds the result to that of other tiles."""
        ufunc = equation.primitive.reduces or np.add
        called = self.function(ufunc.__name__, ufunc)
        name = self.sums.setdefault(id(equation.outputs[0]), f"s{len(self.sums)}")
        place = f", out={name}" * bool(equation.outputs[0].type.shape)  # an array of its own
        self.lines.append(f"r = {text}")
        self.lines.append(f"{name} = r if {name} is None else {called}({name}, r{place})")

    def _join(self, equation: Equation, how: RowAccess, arguments: list[str]) -> None:
        """Writes rows that are gathered or joined."""
        (variable,) = equation.outputs
        target = self.place[id(variable)] = self.target(variable, how.output)
        if joins(equation):
            for place, x in zip(part_indices(equation), arguments, strict=True):
                self.lines.append(f"copyto({target}[{self.constant(place)}], {x})")
            return
        shape, axes = variable.type.shape, tuple(range(variable.type.ndim))
        order = tiling.memory(shape, how.output) if self.columns else axes
        called = self.function("taken", taken)
        self.lines.append(f"{called}({', '.join(arguments)}, {how.output}, {order}, {target})")

    def _reduced(self, equation: Equation, arguments: list[str]) -> str:
        """The text of a reduction over the rows of a tile."""
        if multiplies(equation):
            return self._product(equation, arguments)
        if equation.primitive is dot_general:
            return f"{self.function('dot', dot)}({', '.join(arguments)})"
        ufunc = equation.primitive.reduces
        called = self.function(ufunc.__name__, ufunc)
        return f"{called}.reduce({arguments[0]}, {equation.params['axes']})"

    def _product(self, equation: Equation, given: list[str], rest: str = "") -> str:
        """The text of a product of matrices, by rows or over them, with more arguments."""
        (over_x,), (over_y,) = matrix_first(equation, equation.params["contract"])
        x, y = matrix_first(equation, given)
        _, axis = matrix_first(equation, self.forms[id(equation)].inputs)
        _, second = matrix_first(equation, equation.inputs)
        x, y = x + ".T" * (over_x == 0), y + ".T" * (over_y == 1)
        if axis is None:
            y = self._matrix(y, self.step * second.type.size)
        self.alone = True
        called = reductions.product(second.type.ndim) if second.type.size > 1 else np.matmul
        return f"{self.function(called.__name__, called)}({x}, {y}{rest})"

    def _matrix(self, text: str, terms: int) -> str:
        """The name of the second factor, arranged for sums of so many terms."""
        name = self.matrices.get(text)
        if name is None:
            name = self.matrices[text] = f"c{len(self.matrices)}"
            arranged = reductions.second(terms)
            self.begin.append(f"{name} = {self.function(arranged.__name__, arranged)}({text})")
        return name

    def _view(self, equation: Equation, how: RowAccess, source: str) -> None:
        """Writes the line of a view of a block."""
        (variable,) = equation.outputs
        primitive: Any = equation.primitive
        name = f"t{len(self.lines)}"
        shape = self.block(variable.type.shape, how.output)
        if primitive is transpose:
            text = f"{source}.transpose({equation.params['axes']})"
        elif primitive is broadcast_to:
            text = f"{self.function('broadcast_to', np.broadcast_to)}({source}, {shape})"
            if reductions.spreads(equation) and not self.columns:
                self.spread.add(id(variable))
        elif primitive is getitem:
            text = f"{source}[{self.constant(equation.params['index'].entries)}]"
        else:
            text = f"{source}.reshape({shape})"
        self.lines.append(f"{name} = {text}")
        self.place[id(variable)] = name

    def _call(self, equation: Equation, arguments: list[str], target: str) -> None:
        """Writes the line of a cast, a reduction of rows or a ufunc, into a target."""
        primitive: Any = equation.primitive
        if primitive in CASTS:
            self.lines.append(f"copyto({target}, {arguments[0]}, casting='unsafe')")
        elif primitive.reduces is not None:
            self._reduce(equation, arguments[0], target)
        else:
            ufunc, arguments = as_ufunc(equation, arguments)
            called = self.function(ufunc.__name__, ufunc)
            self.lines.append(f"{called}({', '.join(arguments)}, out={target})")

    def _reduce(self, equation: Equation, source: str, target: str) -> None:
        """A reduction of rows; extrema of real numbers by their places."""
        (x,), (variable,), axes = equation.inputs, equation.outputs, equation.params["axes"]
        shape, ufunc = x.type.shape, equation.primitive.reduces
        called = self.function(ufunc.__name__, ufunc)
        real = x.type.dtype.char in "fd" and not self.columns and setting() != "numpy"
        last = real and axes == (len(shape) - 1,)
        places = reductions.terms(shape, axes) if real else None
        term = variable.type.size * self.step // self.length
        if places is not None and term >= reductions.ENOUGH:
            by_terms = self.function("by_terms", reductions.by_terms)
            text = f"{by_terms}({called}, {source}, {self.constant(places)}, {target})"
        elif last and ufunc is np.add and shape[-1] > 1:
            ones = self.constant(np.ones(shape[-1], x.type.dtype))
            row_sums = reductions.row_sums(len(shape))
            text = f"{self.function(row_sums.__name__, row_sums)}({source}, {ones}, out={target})"
            self.alone |= row_sums is np.matmul
        elif last and ufunc in EXTREMA:
            by_places = self.function(EXTREMA[ufunc].__name__, EXTREMA[ufunc])
            text = f"{by_places}({source}, {target})"
        else:
            text = f"{called}.reduce({source}, {axes}, None, {target})"
        self.lines.append(text)


__all__ = ["KERNELS", "Block", "kernel", "sines_with_cosines", "sorted_pair"]
