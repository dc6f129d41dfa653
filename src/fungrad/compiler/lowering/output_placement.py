"""Output placement: the memory that a scan writes into, and the NumPy calls with `out=`.

A value is computed in its row of a stack if possible, without a copy. Without `out=` and views of
rows, a Kalman filter takes 1.9 times as long; outer products, sums of few rows and additions to
parts gain nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fungrad.compiler.lowering.array_lowering import LowerLoop, placed
from fungrad.compiler.lowering.loop_memory import LoopMemory, OutCall, by_ufunc, ufunc_call
from fungrad.compiler.lowering.numpy_expressions import WRITTEN
from fungrad.compiler.lowering.program import Copy, Expression, Iterator, Value, value
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import Type
from fungrad.primitives.contraction.dot_general import dot_general, scales
from fungrad.primitives.linalg import lapack_calls
from fungrad.primitives.linalg.cholesky_qr import cholesky
from fungrad.primitives.linalg.solve import inv, solve


class OutputPlacement(LoopMemory):
    """Decides where a scan writes its carries and stacks."""

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
        self.definitions = {v: e for e in self.steps if isinstance(e, Equation) for v in e.outputs}
        self.epilogue: list[tuple[str, list[Value], Atom]] = []
        """The writes at the end of an iteration: text, memory and value of each."""
        self.targets: dict[Variable, Value] = {}
        """The rows that values are computed in."""
        self.stack_of: dict[Value, Expression] = {}
        """The stacks, by such rows."""
        self.stacks: dict[Value, Type] = {}
        """The stacks that the loop fills, and their Types."""

    def ordered(self, array: Expression) -> Expression:
        """An array with its rows in the order of the iterations."""
        return array.then("[::-1]") if self.backwards else array

    # --- stacks ---------------------------------------------------------------------------------

    def results(self) -> list[Expression]:
        """The expressions of the stacks after the loop; stacks of carries are placed first."""
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

    @functools.cached_property
    def index(self) -> Value:
        """The number of the iteration."""
        found, order = Value("i_"), f"range({self.length})"
        over = Expression(f"reversed({order})" if self.backwards else order)
        self.iterators.append(Iterator(found, over))
        return found

    def carried(self, place: int) -> Expression:
        """The stack of a carry at the start of each iteration, in an array with the final carry."""
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
        """Makes each iteration write a row of a stack, when it computes the value or at its end."""
        row, made = self.row(rows), None
        if isinstance(atom, Variable) and atom not in self.targets:
            made = self.definitions.get(atom)
        if made is not None and out_call(made) is not None:
            self.targets[made.outputs[0]] = row
            self.stack_of[row] = array
        else:
            self.epilogue.append(("{0}[...] = {1}", [row], atom))


_LAPACK: dict[Any, Any] = {
    solve: lapack_calls.solve, inv: lapack_calls.inv, cholesky: lapack_calls.cholesky,
}  # fmt: skip
WRITTEN[solve] = lambda equation, arguments, constant: (
    None
    if equation.params["triangle"]
    else f"{constant('solve', lapack_calls.solve)}({', '.join(arguments)})"
)


OutForm = Callable[[Equation, LoopMemory], OutCall]


def _product(equation: Equation, memory: LoopMemory) -> OutCall:
    """`ndarray.dot` contracts the last axis of the first operand with the first of the second."""
    (i,), (j,) = equation.params["contract"]
    operands = [memory.read(atom) for atom in equation.inputs]
    suffixes = ["", ""]
    for n, last in enumerate((i == 0, j == 1)):
        operand = operands[n]
        if last and equation.inputs[n].type.ndim == 2 and isinstance(operand, Value):
            operands[n], suffixes[n] = memory.transposed(operand)
    text = f"{{0}}{suffixes[0]}.dot({{1}}{suffixes[1]}, {{2}})"
    return OutCall(lambda out: memory.write(text, operands, out))


def _factored(equation: Equation, memory: LoopMemory) -> OutCall:
    called = memory.constant(equation.primitive.name, _LAPACK[equation.primitive])
    operands = [memory.read(atom) for atom in equation.inputs]
    fields = ", ".join([f"{{{i}}}" for i in range(len(operands) + 1)])
    return OutCall(lambda out: memory.write(f"{called}({fields})", operands, out))


def out_call(equation: Equation) -> OutForm | None:
    """The function that makes the OutCall of an equation; None if it has none."""
    primitive: Any = equation.primitive
    if by_ufunc(equation):
        return ufunc_call
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
