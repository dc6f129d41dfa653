"""Where the values of a scan are written as they are made: rows of stacks, two arrays that carries
take turns in, and parts of arrays that are joined.

A copy to such a place is saved where the value can be made in it. Knows the memory of loops, and
what can be written by `out=`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from typing import Any

from fungrad.compiler.lowering.array_lowering import LowerLoop, placed
from fungrad.compiler.lowering.liveness import by_ufunc
from fungrad.compiler.lowering.loops.loop_buffer_assignment import LoopMemory
from fungrad.compiler.lowering.loops.out_argument_calls import out_call
from fungrad.compiler.lowering.program import (
    Call,
    Copy,
    Expression,
    Iterator,
    Value,
    value,
)
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import Type
from fungrad.primitives.movement.reshape_broadcast_cast import (
    concatenate,
)
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.movement.stack_iota import stack

_JOINED = (concatenate, stack)


class OutputPlacement(LoopMemory):
    """Decides where a scan writes what it carries and stacks."""

    def __init__(
        self,
        body: Graph,
        params: dict[str, Any],
        shared: bool,
        donated: Collection[int],
        lower_loop: LowerLoop,
    ) -> None:
        constants, n = params["counts"]
        super().__init__(body, lower_loop, body.inputs[:constants], n)
        self.length: int = params["length"]
        self.backwards: bool = params["reverse"]
        self.shared = shared
        self.donated = donated
        """Which carries begin in memory of the scan's own."""
        self.consts = body.inputs[:constants]
        self.carry = body.inputs[constants : constants + n]
        self.xs = body.inputs[constants + n :]
        self.after, self.ys = body.outputs[:n], body.outputs[n:]
        self.definitions = {v: e for e in self.steps if isinstance(e, Equation) for v in e.outputs}
        self.epilogue: list[tuple[str, list[Value], Atom]] = []
        """What is written at the end of an iteration: the text, the memory, the value."""
        self.targets: dict[Variable, Value] = {}
        """Where values are written as they are made."""
        self.stack_of: dict[Value, Expression] = {}
        """The stacks, by the rows that values are written into as they are made."""
        self.stacks: dict[Value, Type] = {}
        """The stacks that the loop fills, whole."""
        self.parts: dict[Variable, tuple[Value, list[Value]]] = {}
        """Of values that are joined, where they stand, and the places of the parts."""
        self.alternating: set[Value] = set()
        """Where carries are made, while what they were before is still read."""

    def place(self) -> list[Expression]:
        """Decides all places; the expressions of the stacks behind the loop."""
        results = self.results()
        for equation in reversed(self.graph.equations):
            if equation.primitive in _JOINED and equation.outputs[0] in self.definitions:
                self.join(equation)
        self.alternate()
        for equation in reversed(self.graph.equations):
            if equation.primitive is index_add:
                self.begin(equation)
        return results

    def ordered(self, array: Expression) -> Expression:
        """An array, its rows in the order of the iterations."""
        return array.then("[::-1]") if self.backwards else array

    # --- stacks ---------------------------------------------------------------------------------

    def results(self) -> list[Expression]:
        """The expressions of the stacks behind the loop; those of carries come first."""
        places = {c: k for k, c in enumerate(self.carry) if c.type.shape}
        found = {}
        for i, atom in enumerate(self.ys):
            if atom in places and self.shared and self.length:
                found[i] = self.carried(places[atom])
        for i, atom in enumerate(self.ys):
            if i not in found:
                found[i] = self.stack(atom)
        return [found[i] for i in range(len(self.ys))]

    def filled(self, length: int, type_: Type) -> Value:
        """A stack that the loop fills."""
        found = Value("s_")
        self.stacks[found] = Type((length, *type_.shape), type_.dtype)
        return found

    def stack(self, atom: Atom) -> Expression:
        """Has the iterations write a stack; the expression of it behind the loop."""
        target = self.targets.get(atom) if isinstance(atom, Variable) else None
        known = None if target is None else self.stack_of.get(target)
        if known is not None and self.shared:
            return known
        whole = self.filled(self.length, atom.type)
        fixed = isinstance(atom, Literal) or self.value(atom).invariant
        if fixed and not atom.type.dtype.hasobject:  # NumPy would look into what is opaque
            self.store_before("{0}[...] = {1}", whole, atom)
        elif not atom.type.shape:
            self.epilogue.append(("{0}[{1}] = {2}", [whole, self.index], atom))
        else:
            self.store(atom, self.ordered(value(whole)), value(whole))
        return value(whole)

    @functools.cached_property
    def index(self) -> Value:
        """Which iteration it is."""
        found, order = Value("i_"), f"range({self.length})"
        over = Expression(f"reversed({order})" if self.backwards else order)
        self.iterators.append(Iterator((found,), over))
        return found

    def carried(self, place: int) -> Expression:
        """The stack of what each iteration finds as a carry, in one array with what it leaves."""
        carry = self.carry[place]
        whole = self.filled(self.length + 1, carry.type)
        before, after = value(whole).then("[:-1]"), value(whole).then("[1:]")
        if self.backwards:
            before, after = after, before
        self.store_before(f"{{0}}[{-self.backwards}] = {{1}}", whole, carry)
        self.store(self.after[place], self.ordered(after), after)
        return before

    def store_before(self, text: str, whole: Value, atom: Atom) -> None:
        """Writes a value into a stack before the loop."""
        fields, inputs = placed([whole, self.read(atom)])
        self.preheader.append(Copy(text.format(*fields), inputs))

    def store(self, atom: Atom, rows: Expression, array: Expression) -> None:
        """Has each iteration write a value into a row of a stack: as it is made, or at its end."""
        row, made = self.row(rows), None
        if isinstance(atom, Variable) and atom not in self.targets:
            made = self.definitions.get(atom)
        if made is not None and (out_call(made) is not None or self.joins(made)):
            self.targets[made.outputs[0]] = row
            self.stack_of[row] = array
        else:
            self.epilogue.append(("{0}[...] = {1}", [row], atom))

    def alternate(self) -> None:
        """Has carries that nothing else holds be made in two arrays in turn."""
        bases = self.liveness.bases
        for k, (carry, after) in enumerate(zip(self.carry, self.after, strict=True)):
            made = self.definitions.get(after) if isinstance(after, Variable) else None
            if made is None or out_call(made) is None or bases(after) != {after}:
                continue
            (output,) = made.outputs
            others = {b for j, a in enumerate(self.after) if j != k for b in bases(a)}
            if not {carry, output}.isdisjoint({*others, *self.targets}):
                continue
            before = self.value(carry)
            if k not in self.donated:
                self.preheader.append(Call("{0}.copy()", [before], [before]))
            target = self.allocate(Value("n_"), Type(carry.type.shape, carry.type.dtype))
            self.targets[output] = target
            self.alternating.add(target)

    def begin(self, equation: Equation) -> None:
        """Has an array that only this equation adds to be made where the sum shall stand."""
        x, (output,) = equation.inputs[0], equation.outputs
        if not isinstance(x, Variable) or self.uses[x] != 1 or output not in self.targets:
            return
        made = self.definitions.get(x)
        if made is not None and out_call(equation) is not None and out_call(made) is not None:
            self.targets.setdefault(x, self.targets[output])

    # --- values that are joined -----------------------------------------------------------------

    def joins(self, equation: Equation) -> bool:
        """Whether an equation joins arrays that can be written where they belong."""
        types = [a.type for a in equation.inputs]
        return equation.primitive in _JOINED and all(t.shape and not t.weak for t in types)

    def join(self, equation: Equation) -> None:
        """Has the parts of an array be written where they stand in it."""
        (output,), axis = equation.outputs, equation.params.get("axis")
        if not self.joins(equation) or output in self.liveness.carried - self.targets.keys():
            return
        whole = self.targets.get(output) or self.buffer(output.type)
        places, start = [], 0
        for k, atom in enumerate(equation.inputs):
            index: tuple[Any, ...] = (k,)
            if axis is not None:
                stop = start + atom.type.shape[axis]
                index = (*[slice(None)] * axis, slice(start, stop))
                start = stop
            if whole.rows is None:
                place = self.hoisted_view(whole, f"{{0}}[{self.constant('k', index)}]")
            else:
                rows = self.constant("k", (slice(None), *index))
                place = self.row(whole.rows.then(f"[{rows}]"))
            places.append(place)
            if isinstance(atom, Variable) and self.made_in(atom, output, axis or 0):
                self.targets.setdefault(atom, place)
        self.parts[output] = whole, places

    def made_in(self, atom: Variable, whole: Variable, axis: int) -> bool:
        """Whether a part is made where it stands in an array: others read it there as fast, if the
        axis along which that is joined is the first that counts.
        """
        made = self.definitions.get(atom)
        if made is None or not by_ufunc(made):
            return False
        alone = self.uses[atom] == 1
        lasts = atom not in self.liveness.carried
        return alone or (lasts and math.prod(whole.type.shape[:axis]) == 1)


__all__ = ["OutputPlacement"]
