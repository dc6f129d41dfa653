"""Floor 6: scans on arrays, as a loop is written by hand: a line an equation in Python's own `for`.

What a step adds to a stack is written there as it is made. Other values have buffers, which what
comes later uses again; views of these stand before the loop. Knows the IR and the lines of
programs; stacking.py knows the stacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.backend.blocks import as_ufunc
from fungrad.backend.expressions import expressed
from fungrad.backend.lifetimes import Lifetimes, by_ufunc
from fungrad.backend.lines import Lines, Runner, loops
from fungrad.backend.programs import program
from fungrad.backend.regions import Region
from fungrad.backend.sizes import BLOCK
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import Type
from fungrad.optimise.passes import optimised
from fungrad.primitives.contracting import dot_general
from fungrad.primitives.indexing import getitem
from fungrad.primitives.shaping import concatenate, reshape, transpose
from fungrad.structural.scan import scan

DROPPED = 1 << 10
"""Values of fewer elements are not dropped before the next step replaces them."""

_COLUMN = (slice(None), None)
_KEYWORD = ("maximum", "minimum")
"""Ufuncs that want the place of the result by its name."""


def stepwise(equation: Equation, shared: bool = True) -> Runner | None:
    """The program of a scan, a function that returns its outputs; None where a step is better done
    on numbers.

    Args:
      equation: the scan.
      shared: whether outputs may be views of one array.
    """
    body = optimised(equation.params["body"])
    if program(body, _unused) is not None:
        return None
    return _Loop(body, equation.params, shared).runner()


def _unused(*args: Any) -> Any:
    raise NotImplementedError


loops[scan] = stepwise


def _is_product(equation: Equation) -> bool:
    """Whether an equation is what `ndarray.dot` makes an array of."""
    if equation.primitive is not dot_general or equation.params["batch"][0]:
        return False
    dims = [a.type.ndim for a in equation.inputs]
    alone = len(equation.params["contract"][0]) == 1 and all(1 <= n <= 2 for n in dims)
    return alone and sum(dims) > 2


def _writes(equation: Equation) -> bool:
    """Whether an equation can write what it makes into memory that is there."""
    return by_ufunc(equation) or _is_product(equation) or _is_outer(equation)


def _is_outer(equation: Equation) -> bool:
    """Whether an equation multiplies each element of a vector with each of another."""
    params = equation.params
    if equation.primitive is not dot_general or params["batch"][0] or params["contract"][0]:
        return False
    return all(a.type.ndim == 1 for a in equation.inputs)


class _Loop(Lines):
    """The lines of a scan."""

    def __init__(self, body: Graph, params: dict[str, Any], shared: bool) -> None:
        super().__init__(body, None)  # rows and buffers are nobody else's to write over
        constants, n = params["counts"]
        self.length: int = params["length"]
        self.backwards: bool = params["reverse"]
        self.shared = shared
        self.consts = body.inputs[:constants]
        self.carry = body.inputs[constants : constants + n]
        self.xs = body.inputs[constants + n :]
        self.after, self.ys = body.outputs[:n], body.outputs[n:]
        self.made = {id(v): e for e in self.steps if isinstance(e, Equation) for v in e.outputs}
        self.lives = Lifetimes(self.steps, body, n)
        self.before: list[str] = []
        """Lines before the loop."""
        self.running: list[tuple[str, str]] = []
        """Names of a step, and what they run over."""
        self.late: list[tuple[str, Atom]] = []
        """What is written at the end of a step, and where."""
        self.targets: dict[int, str] = {}
        """Where values are written as they are made."""
        self.arrays: dict[str, str] = {}
        """The stacks of rows."""
        self.parts: dict[int, tuple[str, list[str]]] = {}
        """Of values that are joined, where they stand, and the places of the parts."""
        self.still = {self.name(v) for v in (*self.consts, *(v for v, _ in body.constants))}
        """Names of what is the same memory in all steps."""
        self.spare: set[str] = set()
        """Where carries are made, while what they were before is still read."""
        self.views: dict[str, str] = {}
        self.buffers: list[str] = []
        self.taken: dict[int, tuple[Any, str]] = {}
        self.free: dict[Any, list[str]] = {}

    def scheduled(self) -> Sequence[Equation | Region]:
        """Regions are for arrays of several blocks: buffers are used again here, too."""
        if all(v.type.size <= BLOCK for e in self.graph.equations for v in e.outputs):
            return self.graph.equations
        return super().scheduled()

    def runner(self) -> Runner:
        """The function of the scan's arguments."""
        read = {id(a) for e in self.graph.equations for a in e.inputs}
        read.update(id(a) for a in self.graph.outputs)
        for i, x in enumerate(self.xs):
            if id(x) in read:
                self.running.append((self.name(x), self.ordered(f"x_{i}")))
        stacks = self.stacks()
        for equation in reversed(self.graph.equations):
            if equation.primitive is concatenate and id(equation.outputs[0]) in self.made:
                self.join(equation)
        self.alternate()
        lines = self.body()
        lines += [f"{place} = {self.read(atom)}" for place, atom in self.late]
        moved = [(self.name(c), self.read(w)) for c, w in zip(self.carry, self.after, strict=True)]
        moved = [(c, w) for c, w in moved if c != w]
        moved += [(w, c) for c, w in moved if w in self.spare]
        if moved:
            lines.append(" = ".join(", ".join(side) for side in zip(*moved, strict=True)))
        given = [
            *map(self.name, (*self.consts, *self.carry)),
            *(f"x_{i}" for i in range(len(self.xs))),
        ]
        return self.function(
            [
                f"def run({', '.join(given)}):",
                *(f"    {line}" for line in self.before),
                f"    {self.head()}",
                *(f"        {line}" for line in lines or ["pass"]),
                f"    return [{', '.join([*map(self.end, self.carry, self.after), *stacks])}]",
            ]
        )

    def head(self) -> str:
        """The line that begins the loop."""
        if not self.running:
            return f"for _ in range({self.length}):"
        names, arrays = zip(*self.running, strict=True)
        over = arrays[0] if len(arrays) == 1 else f"zip({', '.join(arrays)})"
        return f"for {', '.join(names)} in {over}:"

    def end(self, carry: Variable, after: Atom) -> str:
        """The expression of a carry behind the loop: a view of nothing."""
        own = self.lives.bases(after) == {id(after)} and id(after) in self.made
        row = self.targets.get(id(after), "") in self.arrays
        safe = not carry.type.shape or after is carry or (own and not row)
        return self.name(carry) if safe else f"{self.name(carry)}.copy()"

    def ordered(self, array: str) -> str:
        """An array, its rows in the order of the steps."""
        return f"{array}[::-1]" if self.backwards else array

    # --- stacks -------------------------------------------------------------------------------

    def stacks(self) -> list[str]:
        """The expressions of the stacks behind the loop; those of carries come first."""
        places = {id(c): k for k, c in enumerate(self.carry) if c.type.shape}
        found = {}
        for i, atom in enumerate(self.ys):
            if id(atom) in places and self.shared and self.length:
                found[i] = self.carried(i, places[id(atom)])
        for i, atom in enumerate(self.ys):
            if i not in found:
                found[i] = self.stack(i, atom)
        return [found[i] for i in range(len(self.ys))]

    def stack(self, i: int, atom: Atom) -> str:
        """Has the steps write a stack; the expression of it behind the loop."""
        known = self.arrays.get(self.targets.get(id(atom), ""))
        if known is not None and self.shared:
            return known
        self.allocate(f"s_{i}", (self.length, *atom.type.shape), atom.type)
        still = isinstance(atom, Literal) or self.name(atom) in self.still
        if still and not atom.type.dtype.hasobject:  # NumPy would look into what is opaque
            self.before.append(f"s_{i}[...] = {self.read(atom)}")
        elif not atom.type.shape:
            if ("i_", self.steps_in_order()) not in self.running:
                self.running.append(("i_", self.steps_in_order()))
            self.late.append((f"s_{i}[i_]", atom))
        else:
            self.write(atom, f"y_{i}", self.ordered(f"s_{i}"), f"s_{i}")
        return f"s_{i}"

    def steps_in_order(self) -> str:
        """The expression of the indices of the steps."""
        order = f"range({self.length})"
        return f"reversed({order})" if self.backwards else order

    def carried(self, i: int, place: int) -> str:
        """The stack of what each step finds as a carry, in one array with what it leaves."""
        name, carry = f"s_{i}", self.carry[place]
        self.allocate(name, (self.length + 1, *carry.type.shape), carry.type)
        before, after = f"{name}[:-1]", f"{name}[1:]"
        if self.backwards:
            before, after = after, before
        self.before.append(f"{name}[{-self.backwards}] = {self.name(carry)}")
        self.write(self.after[place], f"y_{i}", self.ordered(after), after)
        return before

    def write(self, atom: Atom, row: str, rows: str, array: str) -> None:
        """Has each step write a value into a row of an array: as it is made, or at its end."""
        self.running.append((row, rows))
        made = self.made.get(id(atom))
        now = made is not None and (_writes(made) or self.joins(made))
        if now and id(atom) not in self.targets:
            self.targets[id(atom)] = row
            self.arrays[row] = array
        else:
            self.late.append((f"{row}[...]", atom))

    def alternate(self) -> None:
        """Has carries that nothing else holds be made in two arrays in turn."""
        for k, (carry, after) in enumerate(zip(self.carry, self.after, strict=True)):
            made = self.made.get(id(after))
            others = [b for j, a in enumerate(self.after) if j != k for b in self.lives.bases(a)]
            held = {id(carry), id(after)} & {*others, *self.targets}
            if (
                made is not None
                and _writes(made)
                and self.lives.bases(after) == {id(after)}
                and not held
            ):
                name = f"n_{k}"
                self.before.append(f"{self.name(carry)} = {self.name(carry)}.copy()")
                self.allocate(name, carry.type.shape, carry.type)
                self.targets[id(after)] = name
                self.spare.add(name)

    def allocate(self, name: str, shape: tuple[int, ...], type_: Type) -> None:
        """Makes an array without values before the loop."""
        dtype = self.constant(type_.dtype.name, type_.dtype)
        self.before.append(f"{name} = {self.constant('empty', np.empty)}({shape}, {dtype})")

    # --- values that are joined ---------------------------------------------------------------

    def joins(self, equation: Equation) -> bool:
        """Whether an equation joins arrays that can be written where they belong."""
        return equation.primitive is concatenate and not any(a.type.weak for a in equation.inputs)

    def join(self, equation: Equation) -> None:
        """Has the parts of an array be written where they stand in it."""
        (output,), axis = equation.outputs, equation.params["axis"]
        if not self.joins(equation) or id(output) in self.lives.passed - self.targets.keys():
            return
        whole = self.targets.get(id(output))
        if whole is None:
            whole = self.buffer(output.type)
        rows = dict(self.running).get(whole)
        places, start = [], 0
        for k, atom in enumerate(equation.inputs):
            part = slice(start, start + atom.type.shape[axis])
            start = part.stop
            index = (*[slice(None)] * axis, part)
            if rows is None:
                place = self.hoisted(f"{whole}[{self.constant('k', index)}]")
            else:
                place = f"{whole}_{k}"
                self.running.append((place, f"{rows}[{self.constant('k', (slice(None), *index))}]"))
            places.append(place)
            made = self.made.get(id(atom))
            if made is not None and by_ufunc(made) and self._reads[id(atom)] == 1:
                self.targets.setdefault(id(atom), place)
        self.parts[id(output)] = whole, places

    # --- steps --------------------------------------------------------------------------------

    def dropped(self, dead: list[Variable]) -> list[str]:
        kept = {*self.still, *self.targets.values(), *map(self.name, self.graph.inputs)}
        self.release()
        large = [v for v in dead if v.type.size >= DROPPED and self.name(v) not in kept]
        return super().dropped(large)

    def release(self) -> None:
        """Gives back the buffers of what nothing reads behind this step."""
        for base in self.lives.ended[self.at]:
            if base in self.taken:
                kind, name = self.taken.pop(base)
                self.free.setdefault(kind, []).append(name)

    def equation(self, equation: Equation) -> list[str]:
        view = self.view(equation)
        if view is not None:
            self._names[id(equation.outputs[0])] = self.hoisted(view)
            return []
        joined = self.parts.get(id(equation.outputs[0])) if equation.outputs else None
        if joined is not None:
            whole, places = joined
            self._names[id(equation.outputs[0])] = whole
            named = zip(places, map(self.read, equation.inputs), strict=True)
            return [f"{place}[...] = {name}" for place, name in named if place != name]
        return self.written(equation) or super().equation(equation)

    def view(self, equation: Equation) -> str | None:
        """The expression of a view of memory that is the same in all steps."""
        if equation.primitive not in (getitem, reshape, transpose) or len(equation.inputs) != 1:
            return None
        source = self.read(equation.inputs[0])
        if source not in self.still or not equation.outputs[0].type.shape:
            return None
        if equation.primitive is reshape and source not in self.buffers:
            return None  # it might be a copy
        return expressed(equation, [source], self.constant)

    def hoisted(self, expression: str) -> str:
        """The name of an expression that is computed before the loop."""
        if expression not in self.views:
            self.views[expression] = name = f"h_{len(self.views)}"
            self.before.append(f"{name} = {expression}")
            self.still.add(name)
        return self.views[expression]

    def written(self, equation: Equation) -> list[str]:
        """The line of an equation that writes into memory that is there, if it can."""
        if len(equation.outputs) != 1:
            return []
        (output,) = equation.outputs
        target = self.targets.get(id(output))
        if target is None and id(output) in self.lives.passed:
            return []
        if by_ufunc(equation):
            ufunc, arguments = as_ufunc(equation, self.operands(equation))
            self.release()  # it may write over what it reads
            called = self.constant(ufunc.__name__, ufunc)
        elif _is_outer(equation):
            x, y = map(self.read, equation.inputs)
            column = f"{x}[{self.constant('k', _COLUMN)}]"
            arguments = [self.hoisted(column) if x in self.still else column, y]
            called = self.constant("multiply", np.multiply)
        elif _is_product(equation):
            left, *arguments = self.factors(equation)
            called = f"{left}.dot"
        else:
            return []
        name = target or self.take(output)
        self._names[id(output)] = name
        place = f"out={name}" if called in _KEYWORD else name
        return [f"{called}({', '.join([*arguments, place])})"]

    def factors(self, equation: Equation) -> list[str]:
        """What is multiplied, the contracted axis last in the first, and first in the second."""
        (i,), (j,) = equation.params["contract"]
        x, y = equation.inputs
        turned = [x.type.ndim == 2 and i == 0, y.type.ndim == 2 and j == 1]
        names = []
        for atom, turn in zip((x, y), turned, strict=True):
            name = self.read(atom)
            text = f"{name}.T"
            names.append(name if not turn else self.hoisted(text) if name in self.still else text)
        return names

    def take(self, variable: Variable) -> str:
        """A buffer for a value, until that is read no more."""
        kind = variable.type.shape, variable.type.dtype
        name = self.free[kind].pop() if self.free.get(kind) else self.buffer(variable.type)
        self.taken[id(variable)] = kind, name
        return name

    def buffer(self, type_: Type) -> str:
        """The name of a new buffer."""
        name = f"b_{len(self.buffers)}"
        self.buffers.append(name)
        self.still.add(name)
        self.allocate(name, type_.shape, type_)
        return name


__all__ = ["stepwise"]
