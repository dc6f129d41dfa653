"""Lowers a scan on arrays to a `for` loop, as if written by hand.

A value is computed in its row of a stack if possible, without a copy. Other values use buffers,
which are reused; views of them are hoisted out of the loop. Without `out=` and views of rows, a
Kalman filter takes 1.9 times as long; outer products, sums of few rows and additions to parts gain
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fungrad.compiler.cost_model import costs
from fungrad.compiler.loop_ir.program import (
    BUFFER,
    FRESH,
    Alloc,
    Copy,
    Expression,
    For,
    Free,
    Iterator,
    Local,
    Move,
    Program,
    Return,
    listed,
    placed,
    touched,
    value,
)
from fungrad.compiler.numpy_backend.array_lowering import LowerLoop, Runner
from fungrad.compiler.numpy_backend.liveness import by_ufunc, owns
from fungrad.compiler.numpy_backend.loop_memory import LoopMemory, write_ufunc
from fungrad.compiler.numpy_backend.numpy_expressions import expressed
from fungrad.compiler.numpy_backend.scalar_program import program
from fungrad.compiler.passes.pipeline import optimised
from fungrad.control_flow.scan import scan
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable, last_uses
from fungrad.ir.types import Type
from fungrad.primitives.contraction.dot_general import dot_general, scales
from fungrad.primitives.facts import is_view
from fungrad.primitives.linalg import lapack_calls
from fungrad.primitives.linalg.cholesky_qr import cholesky
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.movement.reshape_broadcast_cast import reshape, transpose
from fungrad.support.forks import cached_property


def lower(equation: Equation, shared: bool, lower_loop: LowerLoop) -> Runner | None:
    """The program of a scan, a function that returns its outputs; None for other equations, and if
    a step runs faster on numbers.

    Args:
      equation: the scan.
      shared: whether outputs may be views of one array.
      lower_loop: lowers the loops of its body.
    """
    if equation.primitive is not scan:
        return None
    body = optimised(equation.params["body"])
    if program(body, _unused) is not None:
        return None
    return _ScanLowering(body, equation.params, shared, lower_loop).scan()


def _unused(*args: Any) -> Any:
    raise NotImplementedError


class _ScanLowering(LoopMemory):
    """Lowers a scan, and decides where it writes its carries and stacks."""

    def __init__(
        self,
        body: Graph,
        params: dict[str, Any],
        shared: bool,
        lower_loop: LowerLoop,
    ) -> None:
        constants, n = params["counts"]
        super().__init__(body, lower_loop, body.inputs[:constants], n)
        self.length: int = params["length"]
        self.backwards: bool = params["reverse"]
        self.shared = shared
        self.consts = body.inputs[:constants]
        self.carry = body.inputs[constants : constants + n]
        self.xs = body.inputs[constants + n :]
        self.after, self.ys = body.outputs[:n], body.outputs[n:]
        self.definitions = {v: e for e in body.equations for v in e.outputs}
        self.epilogue: list[tuple[str, list[Local], Atom]] = []
        """The writes at the end of an iteration: text, memory and value of each."""
        self.targets: dict[Variable, Local] = {}
        """The rows that values are computed in."""
        self.stack_of: dict[Local, Expression] = {}
        """The stacks, by such rows."""
        self.stacks: dict[Local, Type] = {}
        """The stacks that the loop fills, and their Types."""

    def ordered(self, array: Expression) -> Expression:
        """An array with its rows in the order of the iterations."""
        return array.then("[::-1]") if self.backwards else array

    def scan(self) -> Runner:
        """The function of the scan's arguments."""
        arrays = [Local("x_") for _ in self.xs]
        for x, array in zip(self.xs, arrays, strict=True):
            self.values[x] = self.row(self.ordered(value(array)), "v")
        results = self.results()
        self.lower()
        for text, memory, atom in self.epilogue:
            self.call(text, [*memory, self.read(atom)], kind=Copy)
        pairs = zip(self.carry, self.after, strict=True)
        move = Move([(self.value(carry), self.read(after)) for carry, after in pairs])
        loop = For(self.length, self.iterators, [*self.freed(touched([move])), move])
        parameters = [*map(self.value, (*self.consts, *self.carry)), *arrays]
        return self.runner(self.program(parameters, loop, results))

    def freed(self, kept: Iterable[Local]) -> list[Any]:
        """The nodes of the body, with large arrays freed after their last use, but those kept."""
        made = {v for node in self.nodes for v in node.outputs}
        values = [found for v, found in self.values.items() if v.type.size >= costs.freed_array]
        large = made.intersection(values)
        if not large:
            return self.nodes
        nodes: list[Any] = []
        for node, dead in zip(self.nodes, last_uses(self.nodes, list(kept)), strict=True):
            nodes.append(node)
            dropped = [v for v in dead if v in large]
            if dropped:
                nodes.append(Free(dropped))
        return nodes

    def program(self, parameters: Sequence[Local], loop: For, results: list[Expression]) -> Program:
        """The program."""
        allocs: list[Any] = [
            Alloc(self.symbols.filled("empty", t), (), [v]) for v, t in self.stacks.items()
        ]
        ends = [*map(self.end, self.carry, self.after), *results]
        nodes = [*allocs, *self.preheader, loop, Return(listed(ends))]
        return Program("run", parameters, nodes, self.globals)

    def end(self, carry: Variable, after: Atom) -> Expression:
        """The expression of a final carry: an array that is no view of another."""
        own = after in self.definitions and owns(self.definitions[after])
        row = isinstance(after, Variable) and self.targets.get(after) in self.stack_of
        safe = not carry.type.shape or after is carry or (own and not row)
        final = value(self.value(carry))
        return final if safe else final.then(".copy()")

    # --- stacks ---------------------------------------------------------------------------------

    def results(self) -> list[Expression]:
        """The expressions of the stacks after the loop; stacks of carries are placed first."""
        numbers = {c: k for k, c in enumerate(self.carry) if c.type.shape}
        results = {}
        for i, atom in enumerate(self.ys):
            if atom in numbers and self.shared and self.length:
                results[i] = self.carried(numbers[atom])
        for i, atom in enumerate(self.ys):
            if i not in results:
                results[i] = self.stack(atom)
        return [results[i] for i in range(len(self.ys))]

    def filled(self, length: int, type_: Type) -> Local:
        """A stack that the loop fills."""
        stack = Local("s_")
        self.stacks[stack] = Type((length, *type_.shape), type_.dtype)
        return stack

    def stack(self, atom: Atom) -> Expression:
        """Makes the iterations write a stack; returns its expression after the loop."""
        target = self.targets.get(atom) if isinstance(atom, Variable) else None
        known = None if target is None else self.stack_of.get(target)
        if known is not None and self.shared:
            return known
        whole = self.filled(self.length, atom.type)
        fixed = isinstance(atom, Literal) or self.value(atom).invariant
        if fixed and not atom.type.dtype.hasobject:  # NumPy would iterate over an opaque sequence
            self.store_before("{0}[...] = {1}", whole, atom)
        elif not atom.type.shape:
            self.epilogue.append(("{0}[{1}] = {2}", [whole, self.index], atom))
        else:
            self.store(atom, self.ordered(value(whole)), value(whole))
        return value(whole)

    @cached_property
    def index(self) -> Local:
        """The number of the iteration."""
        local, order = Local("i_"), f"range({self.length})"
        over = Expression(f"reversed({order})" if self.backwards else order)
        self.iterators.append(Iterator((local,), over))
        return local

    def carried(self, number: int) -> Expression:
        """The stack of a carry at the start of each iteration, in an array with the final carry."""
        carry = self.carry[number]
        whole = self.filled(self.length + 1, carry.type)
        before, after = value(whole).then("[:-1]"), value(whole).then("[1:]")
        if self.backwards:
            before, after = after, before
        self.store_before(f"{{0}}[{-self.backwards}] = {{1}}", whole, carry)
        self.store(self.after[number], self.ordered(after), after)
        return before

    def store_before(self, text: str, whole: Local, atom: Atom) -> None:
        """Writes a value into a stack before the loop."""
        fields, inputs = placed([whole, self.read(atom)])
        self.preheader.append(Copy(text.format(*fields), inputs))

    def store(self, atom: Atom, rows: Expression, array: Expression) -> None:
        """Makes each iteration write a row of a stack, when it computes the value or at its end."""
        row, made = self.row(rows), None
        if isinstance(atom, Variable) and atom not in self.targets:
            made = self.definitions.get(atom)
        if made is not None and out_call(made) is not None:
            self.targets[made.outputs[0]] = row
            self.stack_of[row] = array
        else:
            self.epilogue.append(("{0}[...] = {1}", [row], atom))

    # --- equations ------------------------------------------------------------------------------

    def equation(self, equation: Equation) -> None:
        if len(equation.outputs) != 1:
            super().equation(equation)
            return
        (output,) = equation.outputs
        view = self.view(equation)
        if view is not None:
            self.values[output] = view
        elif not self.written(equation):
            super().equation(equation)

    def view(self, equation: Equation) -> Local | None:
        """The output of an equation as a view of a row or of loop-invariant memory, or None."""
        if not is_view(equation):
            return None
        source = self.read(equation.inputs[0])
        if isinstance(source, str) or source.memory is FRESH or not equation.outputs[0].type.shape:
            return None
        if source.rows is not None:
            transposed = equation.primitive is transpose and equation.params["axes"] == (1, 0)
            return self.transposed(source)[0] if transposed else None
        if equation.primitive is reshape and source.memory is not BUFFER:
            return None  # the reshape might copy
        text = expressed(equation, ["{0}"], self.symbols)
        return None if text is None else self.hoisted_view(source, text)

    def written(self, equation: Equation) -> bool:
        """Computes an equation into existing memory; returns whether that is possible."""
        (output,) = equation.outputs
        target = self.targets.get(output)
        if target is None and output in self.liveness.carried:
            return False
        write = out_call(equation)
        if write is None:
            return False
        if write is write_ufunc:
            self.release()
        local = self.values[output] = target or self.assign(output)
        write(equation, self, local)
        return True


_LAPACK: dict[Any, Any] = {
    solve: lapack_calls.solve, inv: lapack_calls.inv, cholesky: lapack_calls.cholesky,
}  # fmt: skip


OutCall = Callable[[Equation, LoopMemory, Local], None]
"""Adds the call that writes an equation's output into given memory."""


def _product(equation: Equation, memory: LoopMemory, out: Local) -> None:
    """`ndarray.dot` contracts the last axis of the first operand with the first of the second."""
    (i,), (j,) = equation.params["contract"]
    operands = [memory.read(atom) for atom in equation.inputs]
    suffixes = ["", ""]
    for n, last in enumerate((i == 0, j == 1)):
        operand = operands[n]
        if last and equation.inputs[n].type.ndim == 2 and isinstance(operand, Local):
            operands[n], suffixes[n] = memory.transposed(operand)
    memory.write(f"{{0}}{suffixes[0]}.dot({{1}}{suffixes[1]}, {{2}})", operands, out)


def _factored(equation: Equation, memory: LoopMemory, out: Local) -> None:
    called = memory.constant(equation.primitive.name, _LAPACK[equation.primitive])
    operands = [memory.read(atom) for atom in equation.inputs]
    fields = ", ".join([f"{{{i}}}" for i in range(len(operands) + 1)])
    memory.write(f"{called}({fields})", operands, out)


def out_call(equation: Equation) -> OutCall | None:
    """The OutCall of an equation; None if it has none."""
    primitive: Any = equation.primitive
    if by_ufunc(equation):
        return write_ufunc
    if primitive is dot_general:
        return _product if _multiplies(equation) else None
    triangular = equation.params.get("triangle", "") != ""
    return _factored if primitive in _LAPACK and not triangular else None


def _multiplies(equation: Equation) -> bool:
    """Whether an equation is a product of a matrix, contracted along one axis."""
    if equation.params["batch"][0] or scales(*(atom.type for atom in equation.inputs)):
        return False
    dims = [a.type.ndim for a in equation.inputs]
    single = len(equation.params["contract"][0]) == 1
    return single and all(1 <= n <= 2 for n in dims) and sum(dims) > 2
