"""Scans on arrays, as a loop is written by hand: a line an equation in Python's own `for`.

What a step adds to a stack is written there as it is made. Other values have buffers, which what
comes later uses again; views of these stand before the loop. Knows the IR and the lines of
programs; stack_iota.py knows the stacks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Any

from fungrad.compiler.lowering.fusion.clustering import Region
from fungrad.compiler.lowering.fusion.tile_size import BLOCK
from fungrad.compiler.lowering.liveness import by_ufunc
from fungrad.compiler.lowering.loops.loop_buffer_assignment import TURNED, Places
from fungrad.compiler.lowering.loops.out_argument_calls import form
from fungrad.compiler.lowering.numpy_expressions import expressed
from fungrad.compiler.lowering.scalar.scalar_program import program
from fungrad.compiler.lowering.statement_codegen import Runner, loops, own
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.passes.rewriter import is_pure
from fungrad.control_flow.scan import scan
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import Type
from fungrad.primitives.facts import is_view
from fungrad.primitives.movement.reshape_broadcast_cast import (
    concatenate,
    reshape,
    transpose,
)
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.movement.stack_iota import stack
from fungrad.runtime.stack_reuse import COUNTED, Shelf

_JOINED = (concatenate, stack)
DROPPED = 1 << 10
"""Values of fewer elements are not dropped before the next step replaces them."""
BYTES, VIEWS = 1 << 19, 1 << 13
"""The most bytes of the stacks that a program keeps, and the most views of their rows."""


def stepwise(equation: Equation, spare: Collection[Variable], shared: bool) -> Runner | None:
    """The program of a scan, a function that returns its outputs; None where a step is better done
    on numbers.

    Args:
      equation: the scan.
      spare: inputs that may be written over.
      shared: whether outputs may be views of one array.
    """
    body = optimised(equation.params["body"])
    if program(body, _unused) is not None:
        return None
    constants = equation.params["counts"][0]
    given = {place - constants for place in own(equation.inputs, spare)}
    return _Loop(body, equation.params, shared, given).runner()


def _unused(*args: Any) -> Any:
    raise NotImplementedError


loops[scan] = stepwise


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


class _Loop(Places):
    """The lines of a scan."""

    def __init__(
        self, body: Graph, params: dict[str, Any], shared: bool, given: Collection[int]
    ) -> None:
        constants, n = params["counts"]
        super().__init__(body, body.inputs[:constants], n)
        self.length: int = params["length"]
        self.backwards: bool = params["reverse"]
        self.shared = shared
        self.given = given
        """Which carries begin in memory of the scan's own."""
        self.consts = body.inputs[:constants]
        self.carry = body.inputs[constants : constants + n]
        self.xs = body.inputs[constants + n :]
        self.after, self.ys = body.outputs[:n], body.outputs[n:]
        self.made = {id(v): e for e in self.steps if isinstance(e, Equation) for v in e.outputs}
        self.late: list[tuple[str, Atom]] = []
        """What is written at the end of a step, and where."""
        self.targets: dict[int, str] = {}
        """Where values are written as they are made."""
        self.arrays: dict[str, str] = {}
        """The stacks of rows."""
        self.filled: dict[str, Type] = {}
        """The stacks that the loop fills, whole."""
        self.parts: dict[int, tuple[str, list[str]]] = {}
        """Of values that are joined, where they stand, and the places of the parts."""
        self.spare: set[str] = set()
        """Where carries are made, while what they were before is still read."""

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
                self.rows[self.name(x)] = rows = self.ordered(f"x_{i}")
                self.running.append((self.name(x), rows))
        stacks = self.stacks()
        for equation in reversed(self.graph.equations):
            if equation.primitive in _JOINED and id(equation.outputs[0]) in self.made:
                self.join(equation)
        self.alternate()
        for equation in reversed(self.graph.equations):
            if equation.primitive is index_add:
                self.begin(equation)
        lines = self.body()
        lines += [f"{place} = {self.read(atom)}" for place, atom in self.late]
        moved = [(self.name(c), self.read(w)) for c, w in zip(self.carry, self.after, strict=True)]
        moved = [(c, w) for c, w in moved if c != w]
        moved += [(w, c) for c, w in moved if w in self.spare]
        if moved:
            lines.append(" = ".join(", ".join(side) for side in zip(*moved, strict=True)))
        words = set(re.findall(r"\w+", "\n".join(lines)))
        self.running = [(n, s) for n, s in self.running if n in words or n not in self.rows]
        given = [
            *map(self.name, (*self.consts, *self.carry)),
            *(f"x_{i}" for i in range(len(self.xs))),
        ]
        return self.program(f"run({', '.join(given)})", lines or ["pass"], stacks)

    def program(self, head: str, steps: list[str], stacks: list[str]) -> Runner:
        """The function of that head; it keeps small stacks, and the views of their rows."""
        empty = [f"{name} = {self.empty(t.shape, t)}" for name, t in self.filled.items()]
        rows = [(n, s) for n, s in self.running if s.startswith("s_")]
        make: list[str] = []
        give: list[str] = []
        if rows and self.keeps(len(rows)):
            namespace = self.namespace
            shelf = Shelf(lambda: namespace["make"]())
            namespace.update(take=shelf.take, give=shelf.give)
            names, views = ", ".join(self.filled), ", ".join(s for _, s in rows)
            both = f"({names},), list(zip({views}))"
            make = ["def make():", *_indented([*empty, f"return {both}"])]
            empty, give = ["held_ = take()", f"({names},), rows_, _ = held_"], ["give(held_)"]
            self.running = [found for found in self.running if found not in rows]
            self.running.append((f"({', '.join(n for n, _ in rows)},)", "rows_"))
            # Who changes the shape of a result in place does not change that of what is kept.
            stacks = [f"{stack}[:]" if stack in self.filled else stack for stack in stacks]
        results = ", ".join([*map(self.end, self.carry, self.after), *stacks])
        loop = [self.head(), *_indented(steps)]
        lines = [*empty, *self.before, *loop, *give, f"return [{results}]"]
        return self.function([*make, f"def {head}:", *_indented(lines)])

    def keeps(self, rows: int) -> bool:
        """Whether stacks are small, and no step gives a view of a row of theirs to anybody."""
        types = self.filled.values()
        small = (
            sum(t.size * t.dtype.itemsize for t in types) <= BYTES and rows * self.length <= VIEWS
        )
        plain = all(map(is_pure, self.graph.equations)) and not any(
            t.dtype.hasobject for t in types
        )
        return COUNTED and small and plain

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
        self.filled[f"s_{i}"] = Type((self.length, *atom.type.shape), atom.type.dtype)
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
        self.filled[name] = Type((self.length + 1, *carry.type.shape), carry.type.dtype)
        before, after = f"{name}[:-1]", f"{name}[1:]"
        if self.backwards:
            before, after = after, before
        self.before.append(f"{name}[{-self.backwards}] = {self.name(carry)}")
        self.write(self.after[place], f"y_{i}", self.ordered(after), after)
        return before

    def write(self, atom: Atom, row: str, rows: str, array: str) -> None:
        """Has each step write a value into a row of an array: as it is made, or at its end."""
        self.running.append((row, rows))
        self.rows[row] = rows
        made = self.made.get(id(atom))
        now = made is not None and (form(made) is not None or self.joins(made))
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
                and form(made) is not None
                and self.lives.bases(after) == {id(after)}
                and not held
            ):
                name = f"n_{k}"
                if k not in self.given:
                    self.before.append(f"{self.name(carry)} = {self.name(carry)}.copy()")
                self.allocate(name, carry.type.shape, carry.type)
                self.targets[id(after)] = name
                self.spare.add(name)

    def begin(self, equation: Equation) -> None:
        """Has an array that only this equation adds to be made where the sum shall stand."""
        x, (output,) = equation.inputs[0], equation.outputs
        place, made = self.targets.get(id(output)), self.made.get(id(x))
        if place is not None and made is not None and self._reads[id(x)] == 1:
            if form(equation) is not None and form(made) is not None:
                self.targets.setdefault(id(x), place)

    # --- values that are joined ---------------------------------------------------------------

    def joins(self, equation: Equation) -> bool:
        """Whether an equation joins arrays that can be written where they belong."""
        types = [a.type for a in equation.inputs]
        return equation.primitive in _JOINED and all(t.shape and not t.weak for t in types)

    def join(self, equation: Equation) -> None:
        """Has the parts of an array be written where they stand in it."""
        (output,), axis = equation.outputs, equation.params.get("axis")
        if not self.joins(equation) or id(output) in self.lives.passed - self.targets.keys():
            return
        whole = self.targets.get(id(output))
        if whole is None:
            whole = self.buffer(output.type)
        rows = dict(self.running).get(whole)
        places, start = [], 0
        for k, atom in enumerate(equation.inputs):
            index: tuple[Any, ...] = (k,)
            if axis is not None:
                stop = start + atom.type.shape[axis]
                index = (*[slice(None)] * axis, slice(start, stop))
                start = stop
            if rows is None:
                place = self.hoisted(f"{whole}[{self.constant('k', index)}]")
            else:
                place = f"{whole}_{k}"
                self.running.append((place, f"{rows}[{self.constant('k', (slice(None), *index))}]"))
            places.append(place)
            if self.made_in(atom, output, axis or 0):
                self.targets.setdefault(id(atom), place)
        self.parts[id(output)] = whole, places

    def made_in(self, atom: Atom, whole: Variable, axis: int) -> bool:
        """Whether a part is made where it stands in an array: others read it there as fast, if the
        axis along which that is joined is the first that counts.
        """
        made = self.made.get(id(atom))
        if made is None or not by_ufunc(made):
            return False
        alone = self._reads[id(atom)] == 1
        lasts = id(atom) not in self.lives.passed
        return alone or (lasts and math.prod(whole.type.shape[:axis]) == 1)

    # --- steps --------------------------------------------------------------------------------

    def dropped(self, dead: Sequence[Variable]) -> list[str]:
        self.release()
        large = [v for v in dead if v.type.size >= DROPPED]
        if not large:
            return []
        kept = {*self.still, *self.targets.values(), *map(self.name, self.graph.inputs)}
        return super().dropped([v for v in large if self.name(v) not in kept])

    def equation(self, equation: Equation) -> list[str]:
        if equation.primitive is transpose and equation.params["axes"] == (1, 0):
            source = self.read(equation.inputs[0])
            if source in self.rows:
                self._names[id(equation.outputs[0])] = self.seen(source, TURNED)
                return []
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
        if not is_view(equation):
            return None
        source = self.read(equation.inputs[0])
        if source not in self.still or not equation.outputs[0].type.shape:
            return None
        if equation.primitive is reshape and source not in self.buffers:
            return None  # it might be a copy
        return expressed(equation, [source], self.constant)

    def written(self, equation: Equation) -> list[str]:
        """The line of an equation that writes into memory that is there, if it can."""
        if len(equation.outputs) != 1:
            return []
        (output,) = equation.outputs
        target = self.targets.get(id(output))
        if target is None and id(output) in self.lives.passed:
            return []
        write = form(equation)
        if write is None:
            return []
        call = write(equation, self)
        if call.over:
            self.release()
        name = target or self.given_up(equation) or self.take(output)
        self._names[id(output)] = name
        return call.lines(name)

    def given_up(self, equation: Equation) -> str:
        """The buffer of an array that only this equation reads, to a part of which it adds."""
        x, (output,) = equation.inputs[0], equation.outputs
        if equation.primitive is not index_add or id(x) not in self.lives.ended[self.at]:
            return ""
        if id(x) not in self.taken:
            return ""
        self.taken[id(output)] = found = self.taken.pop(id(x))
        return found[1]


__all__ = ["stepwise"]
