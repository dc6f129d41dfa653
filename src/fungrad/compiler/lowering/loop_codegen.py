"""Lowers a scan on arrays to a `for` loop, as if written by hand.

Rows of stacks are computed in place. Other values use buffers, which are reused; views of them are
hoisted out of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.compiler.cost_model import costs
from fungrad.compiler.lowering.array_lowering import LowerLoop, Runner
from fungrad.compiler.lowering.fusion.clustering import FusionCluster
from fungrad.compiler.lowering.numpy_expressions import expressed
from fungrad.compiler.lowering.output_placement import OutputPlacement, out_call
from fungrad.compiler.lowering.program import (
    BUFFER,
    FRESH,
    Alloc,
    Copy,
    Expression,
    For,
    Free,
    Program,
    Return,
    Value,
    listed,
    value,
)
from fungrad.compiler.lowering.scalar.scalar_program import program
from fungrad.compiler.passes.pipeline import optimised
from fungrad.control_flow.scan import scan
from fungrad.ir.graph import Atom, Equation, Variable, last_uses
from fungrad.primitives.facts import is_view
from fungrad.primitives.movement.reshape_broadcast_cast import reshape, transpose


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


class _ScanLowering(OutputPlacement):
    """Lowers a scan."""

    def cluster_and_schedule(self) -> Sequence[Equation | FusionCluster]:
        """The steps; with clusters only if a value exceeds a tile: the loop reuses buffers, too."""
        if all(v.type.size <= costs.tile_elements for e in self.graph.equations for v in e.outputs):
            return self.graph.equations
        return super().cluster_and_schedule()

    def scan(self) -> Runner:
        """The function of the scan's arguments."""
        arrays = [Value("x_") for _ in self.xs]
        for x, array in zip(self.xs, arrays, strict=True):
            self.values[x] = self.row(self.ordered(value(array)), "v")
        results = self.results()
        self.lower()
        for text, memory, atom in self.epilogue:
            self.call(text, [*memory, self.read(atom)], kind=Copy)
        moves = self.moves()
        loop = For(self.length, self.iterators, self.freed(moves), moves)
        parameters = [*map(self.value, (*self.consts, *self.carry)), *arrays]
        return self.runner(self.program(parameters, loop, results))

    def moves(self) -> list[tuple[Value, Value]]:
        """The carried values, each with its value in the next iteration."""
        pairs = zip(self.carry, self.after, strict=True)
        return [(self.value(carry), self.bound(after)) for carry, after in pairs]

    def freed(self, moves: Sequence[tuple[Value, Value]]) -> list[Any]:
        """The nodes of the body, with large arrays freed after their last use."""
        made = {v for node in self.nodes for v in node.outputs}
        values = [found for v, found in self.values.items() if v.type.size >= costs.freed_array]
        large = made.intersection(values)
        if not large:
            return self.nodes
        nodes: list[Any] = []
        kept = [v for pair in moves for v in pair]
        for node, dead in zip(self.nodes, last_uses(self.nodes, kept), strict=True):
            nodes.append(node)
            dropped = [v for v in dead if v in large]
            if dropped:
                nodes.append(Free(dropped))
        return nodes

    def program(self, parameters: Sequence[Value], loop: For, results: list[Expression]) -> Program:
        """The program."""
        allocs: list[Any] = [Alloc(self.empty(t), (), [v]) for v, t in self.stacks.items()]
        ends = [*map(self.end, self.carry, self.after), *results]
        nodes = [*allocs, *self.preheader, loop, Return(listed(ends))]
        return Program("run", parameters, nodes, self.globals)

    def end(self, carry: Variable, after: Atom) -> Expression:
        """The expression of a final carry: an array that is no view of another."""
        own = after in self.definitions and self.liveness.bases(after) == {after}
        row = isinstance(after, Variable) and self.targets.get(after) in self.stack_of
        safe = not carry.type.shape or after is carry or (own and not row)
        found = value(self.value(carry))
        return found if safe else found.then(".copy()")

    # --- equations ------------------------------------------------------------------------------

    def equation(self, equation: Equation) -> None:
        if len(equation.outputs) != 1:
            super().equation(equation)
            return
        (output,) = equation.outputs
        found = self.view(equation)
        if found is not None:
            self.values[output] = found
        elif not self.written(equation):
            super().equation(equation)

    def view(self, equation: Equation) -> Value | None:
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
        text = expressed(equation, ["{0}"], self.constant)
        return None if text is None else self.hoisted_view(source, text)

    def written(self, equation: Equation) -> bool:
        """Computes an equation into existing memory; returns whether that is possible."""
        (output,) = equation.outputs
        target = self.targets.get(output)
        if target is None and output in self.liveness.carried:
            return False
        make = out_call(equation)
        if make is None:
            return False
        call = make(equation, self)
        if call.may_alias_input:
            self.release()
        found = target or self.assign(output)
        self.values[output] = found
        call.emit(found)
        return True
