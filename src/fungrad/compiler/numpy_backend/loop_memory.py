"""Memory of a loop's iteration, a step or a tile: buffers, rows of arrays, and views of them.

A buffer is reused when its value is dead. Views of loop-invariant memory are hoisted; for views of
rows, the loop iterates over a view of the stack. Values may share memory, so liveness is analysed
for memory, not for values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.compiler.loop_ir.program import (
    BUFFER,
    INVARIANT,
    ROW,
    Alloc,
    Argument,
    Expression,
    Iterator,
    Local,
    View,
)
from fungrad.compiler.numpy_backend.array_lowering import ArrayLowering, LowerLoop
from fungrad.ir.graph import Equation, Graph, Variable
from fungrad.ir.types import Type


class LoopMemory(ArrayLowering):
    """Lowers the body of a loop, and assigns the memory that it writes into.

    Args:
      body: the body.
      lower_loop: lowers the loops among its equations.
      consts: its inputs that are the same in all iterations.
      carried: the number of its outputs that are carries.
    """

    def __init__(
        self, body: Graph, lower_loop: LowerLoop, consts: Sequence[Variable], carried: int
    ) -> None:
        super().__init__(body, lower_loop, carried)
        self.preheader: list[Any] = []
        """Nodes before the loop."""
        self.iterators: list[Iterator] = []
        self.fixed = {*consts, *(v for v, _ in body.constants)}
        """Variables that are the same in all iterations."""
        for variable in consts:
            self.value(variable).memory = INVARIANT
        self.assigned: dict[Variable, tuple[Any, Local]] = {}
        """For each variable in a buffer, the key of the buffer (see `kind`), and the buffer."""
        self.free: dict[Any, list[Local]] = {}
        self._views: dict[tuple[Local, str], Local] = {}
        """The hoisted views, by the viewed value and the text."""

    def lower(self) -> None:
        """Adds the nodes of all equations, and releases buffers of dead values after each."""
        for at, equation in enumerate(self.graph.equations):
            self.at = at
            self.step(equation)
            self.release()

    # --- views ----------------------------------------------------------------------------------

    def row(self, rows: Expression, stem: str = "y_") -> Local:
        """A loop variable that iterates over a stack."""
        local = Local(stem, ROW, rows)
        self.iterators.append(Iterator((local,), rows))
        return local

    def hoisted_view(self, source: Local, text: str) -> Local:
        """A view of loop-invariant memory, hoisted out of the loop, once for each text."""
        view = self._views.get((source, text))
        if view is None:
            view = self._views[source, text] = Local("h_", INVARIANT)
            self.preheader.append(View(text, [source], [view]))
        return view

    def transposed(self, source: Local) -> tuple[Local, str]:
        """A matrix and the suffix that transposes it: "" for a hoisted view or an iterated row."""
        if source.invariant:
            return self.hoisted_view(source, "{0}.T"), ""
        if source.rows is None:
            return source, ".T"
        view = self._views.get((source, ".T"))
        if view is None:
            view = self.row(source.rows.then(".transpose(0, 2, 1)"), source.stem)
            self._views[source, ".T"] = view
        return view, ""

    # --- buffers --------------------------------------------------------------------------------

    def allocate(self, value: Local, type_: Type) -> Local:
        """Allocates memory before the loop."""
        self.preheader.append(Alloc(self.symbols.filled("empty", type_), (), [value]))
        return value

    def kind(self, variable: Variable) -> Any:
        """The key of the buffers that a variable can use: their shape and dtype."""
        return variable.type.shape, variable.type.dtype

    def buffer(self, variable: Variable) -> Local:
        """A new buffer for values of a variable's kind."""
        return self.allocate(Local("b_", BUFFER), variable.type)

    def assign(self, variable: Variable) -> Local:
        """A buffer for a variable, until its last use."""
        kind = self.kind(variable)
        buffer = self.free[kind].pop() if self.free.get(kind) else self.buffer(variable)
        self.assigned[variable] = kind, buffer
        return buffer

    def release(self) -> None:
        """Releases the buffers of values that are dead after this step."""
        for base in self.liveness.ended[self.at]:
            if base in self.assigned:
                kind, buffer = self.assigned.pop(base)
                self.free.setdefault(kind, []).append(buffer)

    def write(self, text: str, operands: Sequence[Argument], out: Local) -> None:
        """Adds a call that writes into `out`, the last field of its text."""
        self.call(text, [*operands, out])


def write_ufunc(equation: Equation, memory: LoopMemory, out: Local) -> None:
    """Adds the call of a ufunc, whose output may be in the memory of an operand."""
    memory.call(*memory.ufunc(equation, memory.operands(equation), out))
