"""Guards for Python's branches in compiled functions.

The values of the call answer Python's questions (`if x > 0`, `int(n)`), and tracing follows that
path. The paths form a tree. Each node has a program that computes the value
its question needs from the values of the nodes above, and a branch for each known answer; each leaf
has the program of the rest. A later call computes everything once, and nothing off its path. A new
answer starts a new trace, which reuses the values computed so far.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.guard_trace import GuardTrace, PathAgain, Question, impure
from fungrad.control_flow.call import Runner, call, compiled, compiled_key, run
from fungrad.errors import BranchError, RetraceWarning
from fungrad.ir.graph import Atom, Graph, Variable
from fungrad.retracing.fingerprint import fingerprint
from fungrad.retracing.graph_transforms import drop_dead
from fungrad.retracing.staging import Staged
from fungrad.support import forks, pytree
from fungrad.support.garbage import uncollected
from fungrad.support.lazy import Record
from fungrad.tracing import interception
from fungrad.tracing.concrete_answers import key, words
from fungrad.tracing.graph_trace import GraphTrace
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, Trace, current, put
from fungrad.transforms.arguments import owned

CHOICES = ("error", "guard")
MAX_PATHS = 16
SHOWN = 4
"""The number of answers that the error for too many paths shows."""
LONG = 32
"""The first call of a path with more questions than this computes equation by equation. Each
further call compiles the programs of so many questions.
"""


class Branches:
    """The setting `fg.config.branches`, for functions without a choice."""

    chosen = "guard"


def chosen(branches: str | None) -> str:
    """The choice for a function: its own, else its caller's, else the setting."""
    if branches is not None:
        return branches
    trace: Trace | None = current()
    while trace is not None:
        if isinstance(trace, GuardTrace):
            return "guard"
        trace = trace.parent
    return Branches.chosen


class UnguardedTrace(GraphTrace):
    """Records a function compiled with `branches="error"`: branches on traced values are errors."""

    __slots__ = ()
    takes_kept = True
    remedy = 'let fg.jit(f) without branches="error" make a program for each path; or '


class GuardedProgram:
    """A Graph, its compiled forms, and the numbers of the values that it returns.

    Args:
      make: makes the Graph, when it is first needed.
      returns: the numbers of its outputs.
      patience: how often it is evaluated before it is compiled.
    """

    def __init__(
        self, make: Callable[[], Graph], returns: tuple[int, ...] = (), patience: int = 0
    ) -> None:
        self._make = make
        self._patience = patience
        self.returns = returns
        self._runners: dict[Any, Runner] = {}

    @forks.cached_property
    def graph(self) -> Graph:
        """The Graph."""
        return self._make()

    def run(self, args: Sequence[Any]) -> Sequence[Any]:
        """The outputs on arrays."""
        if self._patience > 0:
            self._patience -= 1
            return evaluate(self.graph, args)
        key = compiled_key(self.graph)
        runner = self._runners.get(key)
        if runner is not None:
            return runner(*args)
        outputs = run(self.graph, args)
        self._runners[key] = compiled(self.graph)  # after the first run, which checks the program
        return outputs


class PathSection:
    """The equations of a path up to a question, or to its end, as a Graph.

    It takes and returns values by number. Other paths can need more of its values later.
    """

    def __init__(
        self,
        trace: GuardTrace,
        positions: Sequence[int],
        wanted: Iterable[int],
        whole: Graph,
        constants: Mapping[Atom, Any],
    ) -> None:
        self.whole = whole
        """The Graph of the path that it was recorded on; `constants` are its constants."""
        self.equations = tuple([trace.equations[p] for p in positions])
        self.defines = {n: trace.variables[n] for p in positions for n in trace.made[p]}
        reads = set(itertools.chain.from_iterable([trace.read[p] for p in positions]))
        self.reads = tuple(sorted(reads - self.defines.keys()))
        self.needs = {*self.reads, *wanted} - self.defines.keys()
        """The values that earlier nodes compute for it."""
        self._inputs = tuple([trace.variables[n] for n in self.reads])
        self._constants = constants

    def graph(self, outputs: tuple[Atom, ...], inputs: tuple[Variable, ...] = ()) -> Graph:
        """Its equations as a Graph with these outputs; `inputs` precede its own inputs."""
        inputs = (*inputs, *self._inputs)
        reads = [atom for equation in self.equations for atom in equation.inputs]
        known = self._constants
        constants = [
            (atom, known[atom]) for atom in dict.fromkeys([*reads, *outputs]) if atom in known
        ]
        return drop_dead(
            self.whole.replace(
                inputs=inputs,
                constants=tuple(constants),
                equations=self.equations,
                outputs=outputs,
            )
        )


class QuestionNode(PathSection):
    """A question, the program that computes its value, and the next node or leaf by answer."""

    def __init__(
        self,
        question: Question,
        trace: GuardTrace,
        positions: Sequence[int],
        whole: Graph,
        constants: Mapping[Atom, Any],
        patience: int = 0,
    ) -> None:
        super().__init__(trace, positions, [question.number], whole, constants)
        self.question = question
        self.patience = patience
        self.paths: dict[Any, QuestionNode | Leaf] = {}
        self.descriptions: dict[Any, str] = {}
        """The answers in words."""
        self.program: GuardedProgram | None = None
        """None if it computes nothing."""
        acting = [n for p in positions if trace.acts(p) for n in trace.made[p]]
        self.acts = any(map(trace.acts, positions))
        """Whether its program has effects."""
        self.return_also({question.number, *acting} & self.defines.keys())

    def return_also(self, numbers: Iterable[int]) -> None:
        """Makes its program return these values, too."""
        given = () if self.program is None else self.program.returns
        returns = tuple(sorted({*given, *numbers}))
        if self.equations and (self.program is None or returns != given):
            outputs = tuple([self.defines[n] for n in returns])
            self.program = GuardedProgram(lambda: self.graph(outputs), returns, self.patience)


class Leaf(PathSection):
    """The end of a path: the program of all equations that no question needed."""

    def __init__(
        self,
        trace: GuardTrace,
        positions: Sequence[int],
        staged: Staged,
        constants: Mapping[Atom, Any],
    ) -> None:
        whole = staged.graph
        super().__init__(trace, positions, trace.numbers(whole.outputs), whole, constants)
        self.reads = tuple(sorted(self.needs))
        self._inputs = tuple([trace.variables[n] for n in self.reads])
        self.staged = staged
        self.captured = staged.captured
        given = whole.inputs[: len(staged.captured)]
        self.program = GuardedProgram(lambda: self.graph(whole.outputs, given))
        self.out = staged.out
        self.questions = tuple(trace.questions)
        """Those of its path, with their answers."""


class TakenPath(Record):
    """The path of a call: the leaf, the nodes above it, the answers, and all values by number."""

    leaf: Leaf
    nodes: list[QuestionNode]
    answers: list[Any]
    values: dict[int, Any]
    results: list[Any] | None = None
    """The outputs, if they are computed already."""


def traced(
    stage: Callable[[Any], Staged],
    values: dict[int, Any],
    answers: Sequence[Any] = (),
    marks: Sequence[Any] = (),
    kind: type[GuardTrace] = GuardTrace,
) -> tuple[GuardTrace, Staged]:
    """The trace of a path, which keeps the values that it computes, and its Graph. The first
    answers are known.
    """
    made: list[GuardTrace] = []

    def make(parent: Trace, label: Callable[[], str]) -> GuardTrace:
        # An index is refused at first, for then arrays that it reads are traced, too.
        refuses = not made and interception.State.on
        made.append(kind(parent, label, dict(values), answers, marks, refuses))
        return made[-1]

    try:
        staged = stage(make)
    except Exception:  # np.zeros(n) raises another error than that of the index
        if len(made) > 1 or not made or not made[0].was_refused:
            raise
        staged = stage(make)
    return made[-1], staged


def is_outdated(
    stage: Callable[[Any], Staged], staged: Staged, questions: Sequence[Question] = ()
) -> bool:
    """Whether a path, with its known answers, would be another one if it were traced now. No effect
    runs. True if it is not known: of a function that raises an error now.
    """
    try:
        if issubclass(staged.recorder, GuardTrace):
            types = [variable.type for variable in staged.graph.inputs]
            values = [np.broadcast_to(np.ones((), t.dtype), t.shape) for t in types]
            answers, marks = [q.answer for q in questions], [q.mark for q in questions]
            trace, again = traced(stage, dict(enumerate(values)), answers, marks, PathAgain)
            if len(trace.questions) != len(questions):
                return True
        else:
            again = stage(staged.recorder)
    except Exception:
        return True
    return content(again.graph) != content(staged.graph)


def content(graph: Graph) -> tuple[str, int]:
    """What tells two Graphs for the same arguments apart."""
    return str(graph), fingerprint(graph)


_lock = forks.lock()
"""Guards the trees of all `Paths`."""


class Paths:
    """The tree of programs of a compiled function for arguments of one signature.

    Args:
      stage: traces the function into a Graph, by a trace that its argument makes.
      name: the function's name, for messages.
      limit: the largest number of paths.
      strict: whether one path more is an error; else its calls are evaluated.
      evaluate: the result for the leaves of arguments by an eager trace; None if there is none for
        their types: then calls beyond the limit are traced without compiling.
      check_order: raises if a leaf does not lie in memory as a Graph takes it to.
      inline: whether programs are recorded equation by equation under other transforms.
    """

    def __init__(
        self,
        stage: Callable[[Any], Staged],
        name: str,
        limit: int,
        inline: bool,
        strict: bool,
        evaluate: Callable[[Sequence[Any]], Any] | None,
        check_order: Callable[[Staged, Sequence[Any]], None],
    ) -> None:
        self._stage = stage
        self._name = name
        self._limit = limit
        self._check_order = check_order
        self._strict = strict
        self._evaluate = evaluate
        self._warned = False
        self._inline = inline
        self.root: QuestionNode | Leaf | None = None
        self.count = 0

    def __call__(self, *leaves: Any) -> Any:
        """The result for the leaves of arguments."""
        way = self.follow(leaves, self._evaluate is not None)
        if way is None and self._evaluate is not None:
            return self._evaluate(leaves)
        return self.finish(way)

    def direct(self, *leaves: Any) -> tuple[Any]:
        """The result, as a program of one output returns it."""
        return (self(*leaves),)

    def follow(self, leaves: Sequence[Any], gives_up: bool = False) -> Any:
        """Goes from question to question, and traces a path if an answer is new.

        Returns the `TakenPath`; with `gives_up` None for a path beyond the limit, before any
        effect, where no transform runs.
        """
        values = dict(enumerate(leaves))
        nodes: list[QuestionNode] = []
        answers: list[Any] = []
        place = self.root
        plain = current() is EVAL
        while isinstance(place, QuestionNode):
            program = place.program
            if program is not None:
                try:
                    args = [values[n] for n in place.reads]
                except KeyError:  # another thread's path needs more values since this call began
                    return self.trace(values, answers, nodes)
                given = program.run(args) if plain else self._recorded(program, args)
                if len(given) == 1:
                    values[program.returns[0]] = given[0]
                else:
                    values.update(zip(program.returns, given, strict=True))
            nodes.append(place)
            q = place.question
            try:
                value = values[q.number]
                answer = q.read(value) if plain else put(value, q.error, q.asked, q.read)
            except Exception as error:  # such as int(nan): also an answer, which f may catch
                answer = error
            end = place.paths.get(key(answer))
            if end is None:
                keep = isinstance(answer, Exception) or self._has_room(place, answer)
                if gives_up and plain and not keep and not any(node.acts for node in nodes):
                    return None
                return self.trace(values, answers, nodes, keep)
            answers.append(answer)
            place = end
        if place is None or not values.keys() >= place.needs:
            return self.trace(values, answers, nodes)
        return TakenPath(place, nodes, answers, values)

    def first(self, leaves: Sequence[Any]) -> TakenPath | Staged:
        """Traces the first path; without a question on it the Graph is all that there is."""
        trace, staged = traced(self._stage, dict(enumerate(leaves)))
        return self._path(trace, staged) if trace.questions else staged

    def trace(
        self,
        values: dict[int, Any],
        answers: list[Any],
        nodes: list[QuestionNode],
        keep: bool = True,
    ) -> TakenPath:
        """Traces the path that the values take; the first answers are known."""
        marks = [node.question.mark for node in nodes]
        with uncollected():
            return self._path(*traced(self._stage, values, answers, marks), keep)

    def _path(self, trace: GuardTrace, staged: Staged, keep: bool = True) -> TakenPath:
        """The path of a trace, added to the tree if it is to be kept."""
        trace.count()
        evaluates = not keep or len(trace.questions) > LONG
        constants: dict[Atom, Any] = dict(staged.graph.constants)
        parts: list[QuestionNode] = []
        have: set[int] = set()
        start = 0
        for q in trace.questions:
            positions = trace.needed([q.number], trace.effects(start, q.position), have)
            patience = len(parts) // LONG
            parts.append(QuestionNode(q, trace, positions, staged.graph, constants, patience))
            have.update(parts[-1].defines)
            start = q.position
        wanted = trace.numbers(staged.graph.outputs)
        rest = trace.needed(wanted, trace.effects(start, len(trace.equations)), have)
        leaf = Leaf(trace, rest, staged, constants)
        trace.compute(leaf.reads)
        results = None
        if evaluates and not staged.captured and current() is EVAL:
            results = trace.results(staged.graph.outputs)
        values, trace.known = trace.known, {}
        replies = [q.answer for q in trace.questions]
        if keep and not staged.captured:  # captured values of another trace end with it
            parts = self._keep(parts, replies, leaf)
        return TakenPath(leaf, parts, replies, values, results)

    def _keep(
        self, parts: list[QuestionNode], answers: list[Any], leaf: Leaf
    ) -> list[QuestionNode]:
        """Adds a path to the tree; returns the nodes of the tree along it."""
        keys = [key(answer) for answer in answers]
        with _lock:
            nodes: list[QuestionNode] = []
            place = self.root
            for part, answer in zip(parts, keys, strict=True):
                node = part if place is None else place
                if not isinstance(node, QuestionNode) or node.question.mark != part.question.mark:
                    raise impure(self._name, part.question.line)
                nodes.append(node)
                place = node.paths.get(answer)
            if isinstance(place, QuestionNode):
                raise impure(self._name, place.question.line)
            later = set(leaf.needs)
            for node, part in zip(nodes[::-1], parts[::-1], strict=True):
                node.return_also(later & node.defines.keys())
                later |= part.needs
            if place is None:  # else another thread was first
                self.count += 1
            ends: list[Any] = [*nodes, place or leaf][1:]
            for node, answer, end in list(zip(nodes, answers, ends, strict=True))[::-1]:
                node.descriptions[key(answer)] = words(answer)
                node.paths[key(answer)] = end
            self.root = self.root or (nodes[0] if nodes else leaf)
        return nodes

    def finish(self, way: TakenPath) -> Any:
        """Runs the leaf's program; returns the call's result."""
        leaf = way.leaf
        if leaf.staged.rows:
            count = len(leaf.whole.inputs) - len(leaf.captured)
            self._check_order(leaf.staged, [way.values[n] for n in range(count)])
        args = [*leaf.captured, *[way.values[n] for n in leaf.reads]]
        if way.results is not None:
            out = owned(way.results, list(way.values.values()))
        elif current() is EVAL:
            out = owned(leaf.program.run(args), args)
        else:
            leaf.staged.check_kept()
            out = self._recorded(leaf.program, args)
        return out[0] if leaf.out is pytree.LEAF else pytree.unflatten(leaf.out, out)

    def _recorded(self, program: GuardedProgram, args: Sequence[Any]) -> list[Any]:
        if self._inline:
            return evaluate(program.graph, args)
        return list(call(*args, graph=program.graph))

    def _has_room(self, place: QuestionNode, answer: Any) -> bool:
        """Whether one more path is within the limit.

        Raises:
          BranchError: if it is not, and this is strict; else it warns once.
        """
        if self.count < self._limit:
            return True
        if not self._strict and self._warned:
            return False
        forks: dict[str, list[str]] = {}
        for node in self.nodes():
            said = [*node.descriptions.values(), *([words(answer)] if node is place else [])]
            if len(said) > 1:
                line = f"{node.question.asked}{node.question.line}"
                forks.setdefault(line, []).extend(said)
        line, said = max(forks.items(), key=lambda item: len(item[1]))
        said = list(dict.fromkeys(said))
        text = (
            f"{self._name} takes more than {self._limit} paths for arguments of the same "
            f"types{user_line()}: {line} was answered {', '.join(said[:SHOWN])}"
            f"{', ...' if len(said) > SHOWN else ''}. Each answer that is new "
            f"{'makes a program' if self._strict else 'is evaluated, at each call from now on'}: "
            "raise max_paths of fg.jit, name the argument in static_argnames, write the branch as "
            "np.where or the loop as fg.lax.while_loop, or call the function without jit."
        )
        if self._strict:
            raise BranchError(text)
        self._warned = True
        warnings.warn(f"{text}\n(more: fungrad explain RetraceWarning)", RetraceWarning, 6)
        return False

    def leaves(self) -> list[Leaf]:
        """The ends of the paths."""
        ends = [end for node in self.nodes() for end in node.paths.values()]
        return [end for end in (self.root, *ends) if isinstance(end, Leaf)]

    def nodes(self) -> list[QuestionNode]:
        """All nodes, from the root down."""
        found: list[QuestionNode] = []
        todo = [self.root]
        while todo:
            place = todo.pop()
            if isinstance(place, QuestionNode):
                found.append(place)
                todo.extend(list(place.paths.values())[::-1])
        return found

    def lines(self) -> list[str]:
        """The paths in words: the questions with their lines, and the answers."""
        found: list[str] = []
        todo: list[tuple[Any, tuple[str, ...]]] = [(self.root, ())]
        while todo:
            place, text = todo.pop()
            if isinstance(place, QuestionNode):
                q = place.question
                for answer, end in list(place.paths.items())[::-1]:
                    todo.append((end, (*text, f"{q.asked}{q.line}: {place.descriptions[answer]}")))
            else:
                found.append(", ".join(text))
        return found
