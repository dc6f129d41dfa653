"""A shorter twin of a program: the same equations with fewer rows and fewer steps.

A check that would take longer than the build of a program runs the twin instead. Large axes get
shorter everywhere: in types, in parameters, in constants and arguments, in the Graphs of loops. The
twin is a Graph of its own, which is verified; if the shorter lengths do not fit together there is
no twin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from fungrad.compiler.self_check.comparison import acts
from fungrad.compiler.self_check.comparison import compared as compare
from fungrad.control_flow.call import Runner
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import PYTHON_DTYPES, Type
from fungrad.ir.verifier import check_graph
from fungrad.primitives.elementwise.family import add, logical_and, lt
from fungrad.primitives.movement.static_index import Index
from fungrad.primitives.primitive import Primitive
from fungrad.retracing.inlining import copied
from fungrad.rounding.agreement import Disagreement
from fungrad.rounding.evaluation_time import TooLong, evaluation_seconds
from fungrad.support.lazy import Module

loops: Any = Module("fungrad.control_flow.while_loop")

LARGE = 256
"""An axis or a loop of at least so many elements or steps can be shortened."""
KEPT = 1 << 14
"""Arrays keep about so many elements, so that they are still compiled as large ones."""
FEWEST = 16
"""Axes and loops keep at least so many elements or steps."""
LANES = 64
"""The new length of an axis has the same remainder by so many, so that the rests of vector loops
stay."""
AROUND = 8
"""Lengths and limits of slices that differ from a shortened length by up to so many follow it."""
STEPS = 20
"""The most steps of a loop of unknown length."""


class NoTwin(Exception):
    """The program cannot be shortened."""


def compared(
    graph: Graph, args: Sequence[Any], compile: Callable[[Graph], Runner], seconds: float
) -> tuple[Disagreement | None, str]:
    """How the compiled twin of a program disagrees with the evaluated one; and what was compared,
    in words.

    Args:
      graph: the program.
      args: its arguments.
      compile: compiles a Graph as the program was.
      seconds: the limit of the evaluator's time.
    """
    try:
        short, given, changes = shortened(graph, args, seconds)
        program = compile(short)
        with np.errstate(all="ignore"):
            results = program(*given)
        _, wrong = compare(short, given, results, nullcontext, 8 * seconds)
    except (NoTwin, TooLong, MemoryError) as reason:
        return None, f"not compared: {reason or 'the evaluator takes longer than the build'}"
    except Exception as error:  # of the twin's numbers, such as a singular matrix
        return None, f"not compared: a shorter twin raises {type(error).__name__}"
    return wrong, f"a shorter twin was compared with the evaluator's run: {changes}"


def shortened(graph: Graph, args: Sequence[Any], seconds: float) -> tuple[Graph, list[Any], str]:
    """The twin, its arguments, and the changed lengths in words.

    Raises:
      NoTwin: if the program cannot be shortened to take so many seconds in the evaluator.
    """
    if acts(graph):
        raise NoTwin("it has effects, or calls opaque functions")
    lengths: dict[int, int] = {}
    _lengths_of(graph, lengths)
    shorter: dict[int, int] = {}
    for length in sorted(lengths, reverse=True):
        kept = max(FEWEST, min(length, -(-KEPT // max(1, lengths[length]))))
        kept += (length - kept) % LANES
        follows = any(larger - length <= AROUND for larger in shorter)
        if kept < length and not follows:
            shorter[length] = kept
    writer = _Shortened(shorter)
    try:
        short = check_graph(writer.graph(graph, given=True))
        given = [writer.value(arg, v.type) for arg, v in zip(args, graph.inputs, strict=True)]
    except NoTwin:
        raise
    except Exception as error:  # lengths that do not fit together
        raise NoTwin(f"its lengths cannot be shortened ({error})") from None
    if not writer.changes or evaluation_seconds(short) > 4 * seconds:
        raise NoTwin("the evaluator takes longer than the build, also for fewer rows and steps")
    return short, given, ", ".join(writer.changes)


def _lengths_of(graph: Graph, lengths: dict[int, int]) -> None:
    """The large lengths of axes and loops, each with the elements of an array beside one of it."""
    waiting, seen = [graph], {graph}
    while waiting:
        current = waiting.pop()
        made = [v for equation in current.equations for v in equation.outputs]
        for variable in (*current.inputs, *[v for v, _ in current.constants], *made):
            for length in variable.type.shape:
                if length >= LARGE:
                    beside = variable.type.size // length
                    lengths[length] = max(lengths.get(length, 1), beside)
        for equation in current.equations:
            steps = equation.params.get("length")
            if type(steps) is int and steps >= LARGE:
                lengths[steps] = KEPT  # a loop is as good with few steps
        for inner in current.subgraphs():
            if inner not in seen:
                seen.add(inner)
                waiting.append(inner)


class _Shortened:
    """Writes a Graph with shorter lengths.

    Args:
      lengths: by the old ones.
    """

    def __init__(self, lengths: dict[int, int]) -> None:
        self.lengths = lengths
        self.changes: dict[str, None] = {}
        """The changed lengths, in words."""
        self._graphs: dict[Graph, Graph] = {}

    def length(self, number: int) -> int:
        """A length, or a limit of an index."""
        if number < 0:
            return -self.length(-number)
        length = self.lengths.get(number)
        if length is not None:
            self.changes[f"{length} for {number}"] = None
            return length
        for old, new in self.lengths.items():
            if abs(number - old) <= AROUND:
                return new + number - old
        for old, new in self.lengths.items():
            if number > old and number % old == 0:
                return number // old * new
        return number

    def param(self, value: Any) -> Any:
        """The value of a parameter."""
        if type(value) is int:
            return self.length(value)
        if type(value) is slice:
            return slice(*[None if n is None else self.length(n) for n in
                           (value.start, value.stop, value.step)])  # fmt: skip
        if type(value) is tuple:
            return tuple(map(self.param, value))
        if isinstance(value, Graph):
            return self.graph(value)
        if isinstance(value, Index):
            return Index(self.param(value.entries), value.unique)
        if isinstance(value, Type):
            return self.type(value)
        return value

    def type(self, type_: Type) -> Type:
        """A type with shorter axes."""
        if type_.dtype.kind == "O":
            raise NoTwin("it reads the residuals of another program")
        return Type(tuple(map(self.length, type_.shape)), type_.dtype, type_.weak)

    def value(self, value: Any, type_: Type) -> Any:
        """The first elements of an array; indices stay within shorter axes."""
        if not type_.shape:
            return value
        shortened = np.asarray(value)[tuple([slice(self.length(n)) for n in type_.shape])]
        if shortened.dtype.kind in "iu" and shortened.size:
            for old, new in self.lengths.items():
                if new <= shortened.max() < old:
                    shortened = shortened % new
        return np.array(shortened, order="C")

    def graph(self, graph: Graph, given: bool = False) -> Graph:
        """The Graph; `given` says that it is the program itself, whose inputs are arguments."""
        known = self._graphs.get(graph)
        if known is not None:
            return known
        names: dict[Atom, Atom] = {}

        def new(variable: Variable) -> Variable:
            made = names[variable] = Variable(self.type(variable.type))
            return made

        inputs = tuple(map(new, graph.inputs))
        constants = tuple([(new(v), self.value(value, v.type)) for v, value in graph.constants])
        equations: list[Equation] = []
        for equation in graph.equations:
            params = {key: self.param(value) for key, value in equation.params.items()}
            atoms = tuple([names.get(atom, atom) for atom in equation.inputs])
            primitive: Any = equation.primitive
            types = primitive.infer([atom.type for atom in atoms], params)
            outputs = tuple(map(Variable, types))
            names.update(zip(equation.outputs, outputs, strict=True))
            made = copied(equation, atoms, outputs, params)
            endless = "cond" in params and primitive is loops.while_loop
            equations.append(self.with_fewer_steps(made) if endless else made)
        made_graph = graph.replace(
            inputs=inputs,
            constants=constants,
            equations=tuple(equations),
            outputs=tuple([names.get(atom, atom) for atom in graph.outputs]),
        )
        self._graphs[graph] = made_graph
        return made_graph

    def with_fewer_steps(self, equation: Equation) -> Equation:
        """A loop of unknown length that ends after STEPS steps."""
        self.changes[f"at most {STEPS} steps of a loop"] = None
        integer = Type((), PYTHON_DTYPES[int], weak=True)

        def counted(graph: Graph, write: Callable[[Variable, Sequence[Atom]], Any]) -> Graph:
            count = Variable(integer)
            more, outputs = write(count, graph.outputs)
            return graph.replace(
                inputs=(*graph.inputs, count), equations=(*graph.equations, *more), outputs=outputs
            )

        def condition(count: Variable, outputs: Sequence[Atom]) -> Any:
            few = _equation(lt, count, Literal(STEPS))
            both = _equation(logical_and, outputs[0], few.outputs[0])
            return (few, both), both.outputs

        def body(count: Variable, outputs: Sequence[Atom]) -> Any:
            after = _equation(add, count, Literal(1))
            return (after,), (*outputs, *after.outputs)

        params = {
            **equation.params,
            "cond": counted(equation.params["cond"], condition),
            "body": counted(equation.params["body"], body),
        }
        inputs = (*equation.inputs, Literal(0))
        return copied(equation, inputs, (*equation.outputs, Variable(integer)), params)


def _equation(primitive: Primitive, *inputs: Atom) -> Equation:
    (type_,) = primitive.infer([atom.type for atom in inputs], {})
    return Equation(primitive, inputs, (Variable(type_),), {})
