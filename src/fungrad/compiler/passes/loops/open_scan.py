"""A scan under rewriting: the equations of its body, and those before and after the loop."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.rewriter import applied
from fungrad.ir.graph import (
    Atom,
    Equation,
    Graph,
    Variable,
    effectful,
    free_variables,
    inner_graphs,
)
from fungrad.ir.types import Type
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import add
from fungrad.primitives.movement.reshape_broadcast_cast import convert
from fungrad.retracing.graph_transforms import batch, drop_dead
from fungrad.retracing.inlining import Renaming, copied, is_pure, placed, renamed, renewed, rewired


class Term(NamedTuple):
    """The sum of a term of a carried sum over all steps, as operations on stacks.

    Attributes:
      equation: the term's equation in the body; None if it has none.
      inputs: the operands of the first operation.
      operations: primitives and their parameters; each but the first takes the result before.
    """

    equation: Equation | None
    inputs: tuple[Atom, ...]
    operations: Sequence[tuple[Any, dict[str, Any]]]


class OpenScan:
    """A scan under rewriting: pairs of a variable of the body and its counterpart outside."""

    def __init__(self, equation: Equation) -> None:
        params = equation.params
        body: Graph = params["body"]
        constants, n = params["counts"]
        self.equation, self.body, self.length = equation, body, params["length"]
        self.consts = list(zip(body.inputs[:constants], equation.inputs, strict=False))
        at = constants + n
        self.carry = list(
            zip(
                body.inputs[constants:at], equation.inputs[constants:at], body.outputs,
                equation.outputs, strict=False,
            )
        )  # fmt: skip
        """Each carry before a step, before the first step, after a step, after the last step."""
        self.xs = list(zip(body.inputs[at:], equation.inputs[at:], strict=True))
        self.ys = list(zip(body.outputs[n:], equation.outputs[n:], strict=True))
        self.equations = list(body.equations)
        self.before: list[Equation] = []
        self.constants: list[tuple[Variable, Any]] = []
        """Constants that the equations in `before` read."""
        self.sums: list[Equation] = []
        """Sums of stacks, which run after the scan."""
        self.names: Renaming = {}
        """Outputs of the scan that are known without running it."""

    def rewritten(self) -> list[Equation]:
        """The equations that replace the scan."""
        if not (self.before or self.sums or self.names):
            return [self.equation]
        loop, later = self.scan(), [rewired(e, self.names) for e in self.sums]
        return [*self.before, *([loop] if loop.outputs or effectful(loop) else []), *later]

    def scan(self) -> Equation:
        """The rewritten scan."""
        inputs = [v for v, _ in self.consts] + [c[0] for c in self.carry] + [v for v, _ in self.xs]
        outputs = [c[2] for c in self.carry] + [v for v, _ in self.ys]
        body = drop_dead(
            self.body.replace(
                inputs=tuple(inputs), equations=tuple(self.equations), outputs=tuple(outputs)
            )
        )
        given = [a for _, a in self.consts] + [c[1] for c in self.carry] + [a for _, a in self.xs]
        results = [c[3] for c in self.carry] + [v for _, v in self.ys]
        counts = (len(self.consts), len(self.carry))
        params = {**self.equation.params, "body": body, "counts": counts}
        return copied(self.equation, tuple(given), tuple(results), params)

    def prune(self) -> None:
        """Drops the equations that nothing reads."""
        ends = (*(c[2] for c in self.carry), *(v for v, _ in self.ys))
        self.equations = list(drop_dead(Graph((), (), tuple(self.equations), ends)).equations)

    def made(self) -> dict[Atom, Equation]:
        """The equation of each value of the body."""
        return {v: e for e in self.equations for v in e.outputs}

    def reads(self) -> Counter[Atom]:
        """The number of uses of each value of the body, as an operand or an output."""
        reads = Counter(a for e in self.equations for a in e.inputs)
        reads.update(c[2] for c in self.carry)
        reads.update(v for v, _ in self.ys)
        return reads

    # --- invariants and stacks ----------------------------------------------------------------

    def invariants(self) -> set[Atom]:
        """Values that are the same in all steps, by identity: constants of loop and body."""
        return {v for v, _ in (*self.consts, *self.body.constants)}

    def fixed(self) -> Renaming:
        """The invariant inputs: variable of the body to its atom outside."""
        return dict(self.consts)

    def stacks(self) -> Renaming:
        """The stacked values: variable of the body to its stack outside."""
        return {v: a for v, a in (*self.ys, *self.xs) if isinstance(v, Variable)}

    def stack(self, value: Atom) -> Atom:
        """The stack of a value of the body; the loop stacks it if it did not yet."""
        for inner, outer in (*self.xs, *self.ys):
            if inner is value:
                return outer
        stack = Variable(Type((self.length, *value.type.shape), value.type.dtype))
        self.ys.append((value, stack))
        return stack

    def sink_sum(self, item: Any, *terms: Term) -> None:
        """Writes the final value of a carry after the loop: its initial value plus sums.

        A sum has the source line of its term if that is known, else the scan's.
        """
        _, total, _, output = item
        dtype = output.type.dtype
        for n, term in enumerate(terms):
            like = term.equation or self.equation
            made, inputs = list[Equation](), term.inputs
            for primitive, params in term.operations:
                made.append(applied(like, primitive, *inputs, **params))
                inputs = made[-1].outputs
            if made[-1].outputs[0].type.dtype != dtype:  # NumPy sums short integers in long ones
                made.append(applied(like, convert, *made[0].outputs, dtype=dtype))
            results = (output,) if n == len(terms) - 1 else (Variable(output.type),)
            self.sums += *made, placed(like, add, (total, *made[-1].outputs), results, {})
            (total,) = results

    def for_all_steps(
        self, equations: Sequence[Equation], wanted: Sequence[Variable]
    ) -> tuple[list[Equation], list[Atom]]:
        """Vectorises equations of the body over all steps; also returns the stacks of the wanted
        values.

        Their operands are known outside of the body, or are its constants.
        """
        fixed, stacks = self.fixed(), self.stacks()
        constants = {v for v, _ in self.body.constants}
        inputs = tuple([v for v in free_variables(equations) if v not in constants])
        alone = self.body.replace(inputs=inputs, equations=tuple(equations), outputs=tuple(wanted))
        flags = [v not in fixed for v in inputs]
        many = batch(drop_dead(alone), flags, self.length, True).graph
        outer = [fixed.get(v) or stacks[v] for v in inputs]
        names: Renaming = dict(zip(many.inputs, outer, strict=True))
        for variable, value in many.constants:
            names[variable] = held = Variable(variable.type)
            self.constants.append((held, value))
        new = [renewed(inner, names) for inner in many.equations]
        return new, list(renamed(many.outputs, names))


def computed(
    wanted: Sequence[Atom],
    made: dict[Atom, Equation],
    given: Callable[[Atom], bool],
    allowed: Callable[[Equation], bool],
) -> list[Equation] | None:
    """The equations, in order, that compute some values from given ones; None if one of the
    equations is not allowed.
    """
    makers: dict[Atom, Equation] = {}
    waiting = [*reversed(wanted)]
    while waiting:
        atom = waiting[-1]
        if atom in makers or given(atom):
            waiting.pop()
            continue
        equation = made.get(atom)
        if equation is None or not allowed(equation):
            return None
        missing = [a for a in equation.inputs if a not in makers and not given(a)]
        if not missing:
            makers[atom] = equation
        waiting += reversed(missing)
    return list(makers.values())


def small(equation: Equation) -> bool:
    """Whether an equation's NumPy call costs more than its work."""
    return all(a.type.size <= costs.small_array for a in (*equation.inputs, *equation.outputs))


def movable(equation: Equation) -> bool:
    """Whether an equation can be vectorised over all steps."""
    primitive: Any = equation.primitive
    if primitive.batch is None or not equation.outputs:
        return False
    return is_pure(equation) and not any(True for _ in inner_graphs(equation))


def on_numbers(body: Graph) -> bool:
    """Whether a body is so small that it runs faster on Python numbers."""
    numbers, arrays = 0.0, float(costs.scan_step)
    for equation in body.equations:
        primitive: Any = equation.primitive
        atoms = (*equation.inputs, *equation.outputs)
        if primitive.module == "fungrad.primitives.linalg.solve" or any(
            a.type.size > costs.scalar_elements for a in atoms
        ):
            return False
        if equation.primitive.view:
            continue
        work = max((a.type.size for a in atoms), default=0)
        if equation.primitive is dot_general:
            x = equation.inputs[0].type
            work = (
                2
                * equation.outputs[0].type.size
                * math.prod(x.shape[i] for i in equation.params["contract"][0])
            )
        numbers += costs.scalar_operation * work
        arrays += costs.numpy_call
    return numbers <= arrays
