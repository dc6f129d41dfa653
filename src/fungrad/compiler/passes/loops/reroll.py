"""Re-rolling: makes the periods of a long Graph, the traces of loops in Python, scans again.

Pattern: the same equations, of the same lines of the program, follow one another at least
`costs.rerolled_steps` times. Each operand of an equation is made at the same position of its step,
or of one of few steps before (carried); or is the same in all steps; or comes from outside of the
loop (a literal, an item of an array, a value of another loop), one for each step.
Guard: parameters are the same in all steps, but for reads that do not depend on the loop.
Replacement: one scan. Values that are read after the loop are stacked, and so are the values from
outside: items of one array in order are a slice of it. Loops in the body are found likewise.
Steps that carry nothing, whose results are joined, are no scan but one batch, also where they are
fewer equations: the body for all steps at once, as by `vmap`.
Reason: a gradient through 500 steps that read an array takes 7 us a call in place of 148, through
500 of a hidden Markov model 58 us in place of 9,202 (benchmarks/python_loops.py); that of
`np.apply_along_axis` of 100 rows of 1,000 numbers 28 us in place of 6,480 (benchmarks/cliffs.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.loops.item_stacks import Stacks, with_slices
from fungrad.compiler.passes.loops.open_scan import OpenScan, movable
from fungrad.compiler.passes.loops.traced_loops import (
    StepValue,
    TracedLoop,
    TracedLoops,
    rerolled_weight,
)
from fungrad.control_flow.scan import scan
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import PYTHON_SCALARS, Type, of_value
from fungrad.primitives.elementwise.ufuncs import power
from fungrad.primitives.movement.gather import getitem
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate
from fungrad.primitives.movement.stack_iota import stack, unstack
from fungrad.retracing.graph_transforms import drop_dead, memoised
from fungrad.retracing.inlining import Renaming, copied, placed, rewired


def reroll(graph: Graph) -> Graph:
    """The Graph with batches in place of loops whose steps are independent, and scans in place of
    other loops; without the scans if it is not much shorter with them.
    """
    joined = [len(e.inputs) for e in graph.equations if e.primitive in (stack, concatenate)]
    if max(joined, default=0) >= costs.rerolled_steps:
        batched = _with_loops(_reads_first(graph), costs.rerolled_steps, _Scan.batched)
        graph = batched or graph
    if sum(map(rerolled_weight, graph.equations)) < costs.rerolled_equations:
        return graph
    result = _with_loops(_reads_first(graph), costs.rerolled_equations, _Scan.graph)
    return result if result and 2 * _length(result) <= _length(graph) else graph


def _with_loops(
    graph: Graph, least: int, replaced: Callable[[_Scan], Graph | None]
) -> Graph | None:
    """The Graph with its loops of at least so many equations replaced; None if none is."""
    result: Graph | None = None
    for _ in range(costs.rerolled_loops):
        rerolled = _with_one_loop(graph, least, replaced)
        if rerolled is None:
            break
        result = graph = rerolled
    return result


def _reads_first(graph: Graph) -> Graph:
    """The Graph with its reads of arguments and constants at the start: steps that read the same
    items share the reads.
    """
    given = set(graph.inputs) | {v for v, _ in graph.constants}
    reads, rest = list[Equation](), list[Equation]()
    for equation in graph.equations:
        read = equation.primitive is getitem and given.issuperset(equation.inputs)
        (reads if read else rest).append(equation)
    return graph.replace(equations=(*reads, *rest))


def _length(graph: Graph) -> float:
    """The number of equations, those of inner Graphs included; long lists of atoms count, too."""

    def count() -> float:
        atoms = sum(len(e.inputs) + len(e.outputs) for e in graph.equations)
        own = len(graph.equations) + atoms / costs.rerolled_operands
        return own + sum(map(_length, graph.subgraphs()))

    result: float = memoised(graph, "length with bodies", count)
    return result


def _with_one_loop(
    graph: Graph, least: int, replaced: Callable[[_Scan], Graph | None]
) -> Graph | None:
    """The Graph with the first of its loops that can be replaced; None if it has none."""
    trace = TracedLoops(graph, least)
    loops: list[TracedLoop] = []
    for period, start, stop in trace.periods():
        if all(stop <= other.start or other.stop <= start for other in loops):
            loop = trace.loop(period, start, stop)
            if loop is not None:
                loops.append(loop)
    graphs = (replaced(_Scan(trace, x)) for x in sorted(loops, key=lambda loop: loop.start))
    return next((g for g in graphs if g is not None), None)


class _Scan:
    """The scan of a loop.

    Args:
      trace: the equations.
      loop: the loop among them.
    """

    def __init__(self, trace: TracedLoops, loop: TracedLoop) -> None:
        self.trace, self.loop = trace, loop
        self.equations = trace.equations
        self.before: list[Equation] = []
        """Equations that stack what the steps read."""
        self.items: list[Equation] = []
        """Equations that take the values of the steps from their stacks."""
        self.outside: Sequence[Equation] = ()
        self.after: Sequence[Equation] = ()
        """The equations before the loop, with those that it moves there, and after it."""
        self.constants = list(trace.graph.constants)
        self.consts: dict[Variable, tuple[Variable, Variable]] = {}
        self.carry: dict[StepValue, tuple[Variable, Atom]] = {}
        self.xs: dict[tuple[Any, ...], tuple[Variable, Any]] = {}

    def graph(self) -> Graph | None:
        """The Graph with the scan; None if values of the steps cannot be stacked."""
        made = self._made()
        return None if made is None else self._in_place([made])

    def batched(self) -> Graph | None:
        """The Graph with one batch in place of a loop whose steps are independent and whose results
        are joined; None for other loops, and for so small arrays that a call costs more.
        """
        made = self._made()
        if made is None or self.carry:
            return None
        opened = OpenScan(made)
        body, wanted = opened.equations, [v for v, _ in opened.ys if isinstance(v, Variable)]
        sizes = [atom.type.size for e in body for atom in (*e.inputs, *e.outputs)]
        largest = max(sizes) * opened.length
        if not costs.batched_elements <= largest <= costs.hoisted_stack or not all(
            map(movable, body)
        ):
            return None
        equations, stacks = opened.for_all_steps(body, wanted)
        self.constants += opened.constants
        names: Renaming = dict(zip(made.outputs, stacks, strict=True))
        self.items = [rewired(e, names) for e in self.items]
        result = self._in_place(equations)
        made_of = {e.outputs[0] for e in equations}
        left = any(e.primitive is unstack and e.inputs[0] in made_of for e in result.equations)
        return None if left else result

    def _in_place(self, equations: list[Equation]) -> Graph:
        """The Graph with equations in place of the loop."""
        whole = (*self.outside, *self.before, *equations, *self.items, *self.after)
        graph = self.trace.graph.replace(constants=tuple(self.constants), equations=whole)
        return drop_dead(with_slices(drop_dead(graph)))

    def _made(self) -> Equation | None:
        """The scan; None if values of the steps cannot be stacked."""
        loop, names = self.loop, dict[StepValue, Variable]()
        inside = [n for n in range(loop.period) if n not in loop.outside]
        body = []
        for position in inside:
            equation = self.equations[loop.start + position]
            inputs: list[Atom] | None = self._inputs(position, equation, names)
            if inputs is None:
                return None
            outputs = tuple([Variable(v.type) for v in equation.outputs])
            names.update((StepValue(position, k, 0), v) for k, v in enumerate(outputs))
            body.append(copied(equation, tuple(inputs), outputs))
        return self._replaced(body, names)

    def _step(self, n: int) -> range:
        """The equations of one step."""
        first = self.loop.start + n * self.loop.period
        return range(first, first + self.loop.period)

    def _inputs(
        self, position: int, equation: Equation, names: dict[StepValue, Variable]
    ) -> list[Atom] | None:
        """The operands of an equation of the body; None if they cannot be stacked."""
        inputs: list[Atom] = []
        for k in range(len(equation.inputs)):
            operand = self.trace.operand(self.loop, position, k)
            if isinstance(operand, StepValue):
                inputs.append(
                    names[operand] if not operand.lag else self._carried(operand, position, k)
                )
            elif isinstance(operand, list):
                x = self._of_each_step(operand, equation, k)
                if x is None:
                    return None
                inputs.append(x)
            elif isinstance(operand, Variable):
                known = self.consts.setdefault(operand, (Variable(operand.type), operand))
                inputs.append(known[0])
            else:
                inputs.append(operand)
        return inputs

    def _carried(self, value: StepValue, position: int, k: int) -> Variable:
        """The variable of a value of an earlier step, and its first values."""
        for step in range(value.lag):
            at = value._replace(lag=value.lag - step)
            atom = self.equations[self._step(step)[position]].inputs[k]
            self.carry.setdefault(at, (Variable(atom.type), atom))
        return self.carry[value][0]

    def _of_each_step(self, atoms: list[Atom], equation: Equation, k: int) -> Variable | None:
        """The variable of a value of which each step gets one."""
        literals = [a.value for a in atoms if isinstance(a, Literal)]
        if literals:
            given = _literals(literals, equation, k)
            if given is None:
                return None
            known = (str(given.dtype), given.tobytes())
            return self.xs.setdefault(known, (Variable(Type((), given.dtype)), given))[0]
        type_ = atoms[0].type
        strong = Type(type_.shape, type_.dtype)
        if type_.weak and not _same_types(equation, k, strong):
            return None
        return self.xs.setdefault(tuple(atoms), (Variable(strong), atoms))[0]

    def _replaced(self, body: list[Equation], names: dict[StepValue, Variable]) -> Equation | None:
        """The scan of a body, whose values have names."""
        loop, graph, like = self.loop, self.trace.graph, self.equations[self.loop.start]
        moved = [e for n, e in enumerate(self.equations[loop.start : loop.stop])
                 if n % loop.period in loop.outside]  # fmt: skip
        self.outside = before = [*self.equations[: loop.start], *moved]
        self.after = self.equations[loop.stop :]
        given, reverse = self._stacks(before)
        read = {a for e in (*before, *self.after) for a in e.inputs} | {*graph.outputs}
        ys = self._ys(names, read)
        if None in given or any(v.type.weak for v, _ in ys):
            return None
        outputs = [*self._carried_on(names), *[v for v, _ in ys]]
        finals = self._finals({v for _, values in ys for v in values})
        arrays = [Variable(Type((loop.times, *v.type.shape), v.type.dtype)) for v, _ in ys]
        kept = (*self.consts.values(), *self.carry.values())
        inputs = [v for v, _ in (*kept, *self.xs.values())]
        inner = Graph(tuple(inputs), (), tuple(body), tuple(outputs),
                      graph.name, graph.reassociate, graph.verify)  # fmt: skip
        arguments = [a for _, a in kept]
        counts = (len(self.consts), len(self.carry))
        params = {"body": reroll(inner), "counts": counts, "length": loop.times,
                  "reverse": reverse, "unroll": 1, "checkpoint": None}  # fmt: skip
        whole = placed(like, scan, (*arguments, *given), (*finals, *arrays), params)  # type: ignore[arg-type]
        self.items = [placed(like, unstack, (x,), tuple(values[::-1] if reverse else values), {})
                      for x, (_, values) in zip(arrays, ys, strict=True)]  # fmt: skip
        return whole

    def _stacks(self, before: list[Equation]) -> tuple[list[Atom | None], bool]:
        """The arrays of the values that each step gets one of, and whether the scan runs backwards:
        most of their pieces do.
        """
        joiner = Stacks(before)
        values = [atoms for _, atoms in self.xs.values()]
        pieces = [p for atoms in values if isinstance(atoms, list) for p in joiner.pieces(atoms)]
        reverse = 2 * sum(p.step < 0 for p in pieces) > len(pieces)
        return [self._stack(joiner, atoms, reverse) for atoms in values], reverse

    def _carried_on(self, names: dict[StepValue, Variable]) -> list[Variable]:
        """What a step carries on to the next, which reads it as of one step earlier."""
        values = [value._replace(lag=value.lag - 1) for value in self.carry]
        return [self.carry[v][0] if v.lag else names[v] for v in values]

    def _finals(self, stacked: set[Variable]) -> list[Variable]:
        """What the carries end with: a value of the last step that is in no stack, or a new one."""
        loop = self.loop
        last = self.equations[loop.stop - loop.period : loop.stop]
        ends = [(value.lag, last[value.position].outputs[value.output]) for value in self.carry]
        return [v if lag == 1 and v not in stacked else Variable(v.type) for lag, v in ends]

    def _ys(
        self, names: dict[StepValue, Variable], read: set[Atom]
    ) -> list[tuple[Variable, list[Variable]]]:
        """The values of the body that are read after the loop, each with those of all steps. What a
        carry ends with is read there without a stack.
        """
        loop, ys = self.loop, list[tuple[Variable, list[Variable]]]()
        for value, variable in names.items():
            steps = self.equations[loop.start + value.position : loop.stop : loop.period]
            values = [e.outputs[value.output] for e in steps]
            carried = value._replace(lag=1) in self.carry
            if not read.isdisjoint(values[:-1] if carried else values):
                ys.append((variable, values))
        return ys

    def _stack(self, joiner: Stacks, atoms: Any, reverse: bool) -> Atom | None:
        """The array of the values of all steps, made before the loop; None if it is too large."""
        like = self.equations[self.loop.start]
        if isinstance(atoms, np.ndarray):
            atoms = atoms[::-1] if reverse else atoms
            made = Variable(of_value(np.ascontiguousarray(atoms)))
            self.constants.append((made, _read_only(atoms)))
            return made
        equations, stacked = joiner.joined(like, atoms[::-1] if reverse else atoms)
        self.before += equations
        return stacked


def _read_only(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def _literals(values: list[Any], equation: Equation, k: int) -> np.ndarray | None:
    """Literals of the steps as an array, such that the equation computes the same with it."""
    primitive: Any = equation.primitive
    if primitive.partials is None or primitive.multiple or primitive is power:
        return None
    types = [a.type for a in equation.inputs]
    own = np.asarray(values).dtype
    others = [t.dtype for i, t in enumerate(types) if i != k and not t.weak]
    if type(values[0]) not in PYTHON_SCALARS:
        others = []
    for dtype in (*others, own):
        if not np.can_cast(own, dtype, "same_kind"):
            continue
        if _same_types(equation, k, Type((), dtype)):
            array = np.array(values, dtype)
            exact = (dtype.kind in "fc" and own.kind in "fc") or bool((array == values).all())
            return array if exact else None
    return None


def _same_types(equation: Equation, k: int, type_: Type) -> bool:
    """Whether an equation has the same outputs if an operand has another Type."""
    types = [a.type for a in equation.inputs]
    types[k] = type_
    outputs = equation.primitive.infer(types, equation.params)
    return list(outputs) == [v.type for v in equation.outputs]
