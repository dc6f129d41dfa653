"""GuardTrace, which records a function and answers Python's questions about its values.

A question is a use of a traced value that needs its numbers (`if x > 0`, `int(n)`). The trace has
values for the inputs. At a question it runs the equations that the value depends on, each once, and
the effects before it. Values have numbers: the inputs, then the outputs of the equations in the
order of recording, which is the same as long as the answers are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import islice
from typing import Any

from fungrad.errors import BranchError
from fungrad.ir.graph import Atom, Graph, Variable, effectful
from fungrad.retracing.graph_transforms import drop_dead
from fungrad.support.lazy import Module, Record
from fungrad.tracing.concrete_answers import T
from fungrad.tracing.graph_trace import GraphTrace
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Trace, Tracer, check_reached, current, enter, leave, put

differentiated_loops: Any = Module("fungrad.compiler.passes.loops.differentiated_loops")
pipeline: Any = Module("fungrad.compiler.passes.pipeline")


class Question(Record):
    """A question about the value of this number, after `position` equations; `read` answers it."""

    number: int
    position: int
    asked: str
    error: type[Exception]
    read: Callable[[Any], Any]
    line: str
    mark: Any
    """The equations since the question before: paths that share it are the same up to here."""
    answer: Any


class GuardTrace(GraphTrace):
    """Records, and answers Python's questions from the values of its inputs."""

    __slots__ = (
        "_constants", "_counted", "_depends", "_effects", "_makers", "_marked", "_marks",
        "_numbers", "_ran", "_seen", "answers", "known", "made", "marks", "questions", "read",
        "refuses_indices", "rolled", "variables", "was_refused",
    )  # fmt: skip
    takes_kept = True

    def __init__(
        self,
        parent: Trace,
        label: Callable[[], str],
        known: dict[int, Any],
        answers: Sequence[Any],
        marks: Sequence[Any],
        refuses_indices: bool = False,
    ) -> None:
        super().__init__(parent, label)
        self.refuses_indices = refuses_indices
        """Whether indices are refused first: then arrays that are indexed can become traced."""
        self.was_refused = False
        self.rolled = False
        """Whether loops were recorded that scans replace."""
        self.known = known
        """Values by number; those computed for a question are added."""
        self.answers = answers
        """The answers to the first questions."""
        self.marks = marks
        """The marks of the questions reached already: as many as answers, or one more."""
        self.questions: list[Question] = []
        self.variables: list[Variable] = []
        """All numbered values."""
        self.read: list[tuple[int, ...]] = []
        """By position: the numbers of the values that the equation reads."""
        self.made: list[range] = []
        """By position: the numbers of its outputs."""
        self._marks: list[Any] = []
        """By position: the primitive and the numbers of its inputs, -1 for those without one."""
        self._marked = 0
        """Where in `_marks` the equations since the question before begin."""
        self._numbers: dict[Atom, int] = {}
        self._makers: list[int] = []
        """By number: the position of the equation, -1 for inputs."""
        self._depends: list[bool] = []
        """By number: whether the value depends on inputs or effects."""
        self._counted = 0
        self._effects: list[int] = []
        self._ran = 0
        """The effects among this many first equations have happened."""
        self._constants: dict[Atom, Any] = {}
        self._seen = 0

    def concrete(
        self, tracer: Tracer, error: type[Exception], asked: str, read: Callable[[Any], T]
    ) -> T:
        if not asked:
            return super().concrete(tracer, error, asked, read)
        check_reached(tracer, current())
        self.count()
        number, i, position = self._numbers[tracer.extra], len(self.questions), self._counted
        if not self._depends[number]:  # the same in each call
            self.compute([number])
            return put(self.known[number], error, asked, read)
        if asked == "an index" and self.refuses_indices and not self._ran:
            self.was_refused = True
            refusal = error(f"{asked} of a traced value{user_line()}")
            refusal.indexes_array = True  # type: ignore[attr-defined]
            raise refusal
        mark = (asked, number, *self._marks[self._marked :])
        self._marked = len(self._marks)
        line = user_line()
        answer: Any = None

        def noted() -> None:
            question = Question(number, position, asked, error, read, line, mark, answer)
            self.questions.append(question)

        if i < len(self.marks):
            self._ran = position
            if self.marks[i] != mark:
                raise impure(self.label(), line)
        if i < len(self.answers):
            answer = self.answers[i]
            noted()
            if isinstance(answer, Exception):
                raise answer
            return answer  # type: ignore[no-any-return]
        self.compute([number], effects=True)
        try:
            answer = put(self.known[number], error, asked, read)
        except Exception as refused:  # such as int(nan), which is an answer, too
            answer = refused
            raise
        finally:
            noted()
        return answer  # type: ignore[no-any-return]

    def count(self) -> None:
        """Numbers the values recorded since the last call."""
        if not self._counted and not self.variables:
            self.variables.extend(self.inputs)
            self._makers.extend([-1] * len(self.inputs))
            self._depends.extend([True] * len(self.inputs))
            self._numbers.update((v, n) for n, v in enumerate(self.inputs))
        numbers, depends, makers = self._numbers, self._depends, self._makers
        number = len(makers)
        for position in range(self._counted, len(self.equations)):
            equation = self.equations[position]
            inputs = tuple([numbers.get(atom, -1) for atom in equation.inputs])
            read = inputs if -1 not in inputs else tuple([n for n in inputs if n >= 0])
            acts = effectful(equation)
            if acts:
                self._effects.append(position)
            moves = acts or True in [depends[n] for n in read]
            first = number
            for variable in equation.outputs:
                numbers[variable] = number
                makers.append(position)
                depends.append(moves)
                number += 1
            self.variables += equation.outputs
            self.read.append(read)
            self._marks.append(equation.primitive)
            self._marks += inputs
            self.made.append(range(first, number))
        self._counted = len(self.equations)

    def differentiated(self, trace: Any, f: Callable[..., Any], tracers: Sequence[Tracer]) -> Any:
        """Runs a function under reverse mode; its long loops are scans in the results."""
        starts, first = [tracer.inner for tracer in tracers], len(self.equations)
        results = trace.run(f, *tracers)
        if self.questions or not pipeline.may_have_loops(self.equations[first:]):
            return trace, results
        self.count()
        if self._effects:  # the values may depend on them
            return trace, results

        def values(variables: Sequence[Variable]) -> list[Any]:
            self.compute(self.numbers(variables))
            return [self._value(variable) for variable in variables]

        args = (self, trace, starts, first, results, values)
        found = differentiated_loops.rolled(*args)
        self.rolled |= found[0] is not trace
        return found

    def graph(self, outputs: Sequence[Any], name: str = "") -> Graph:
        graph = super().graph(outputs, name)
        return drop_dead(graph) if self.rolled and not self.questions else graph

    def numbers(self, atoms: Iterable[Atom]) -> list[int]:
        """The numbers of atoms, except literals and constants."""
        found = [self._numbers.get(atom) for atom in atoms]
        return [n for n in found if n is not None]

    def needed(
        self, wanted: Iterable[int], effects: Sequence[int], have: Container[int]
    ) -> list[int]:
        """The positions of the equations that values and effects depend on, except those whose
        values are in `have`.
        """
        makers, reads = self._makers, self.read
        found = set(effects)
        todo = [n for n in wanted if n not in have]
        for position in found:
            todo += [n for n in reads[position] if n not in have]
        while todo:
            position = makers[todo.pop()]
            if position >= 0 and position not in found:
                found.add(position)
                todo += [n for n in reads[position] if n not in have]
        return sorted(found)

    def effects(self, start: int, end: int) -> list[int]:
        """The positions of the effects among the equations from one position to another."""
        return self._effects[bisect_left(self._effects, start) : bisect_left(self._effects, end)]

    def acts(self, position: int) -> bool:
        """Whether the equation at a position has an effect."""
        return bool(self.effects(position, position + 1))

    def compute(self, wanted: Sequence[int], effects: bool = False) -> None:
        """Computes values; with `effects`, runs the effects before them that have not run yet."""
        known = self.known
        pending = self.effects(self._ran, self._counted) if effects else []
        positions = self.needed(wanted, pending, known)
        if effects:
            self._ran = self._counted
        fresh = islice(self.constants.values(), self._seen, None)
        self._constants.update(fresh)
        self._seen = len(self.constants)
        token = enter(self.parent)  # type: ignore[arg-type]
        try:
            for position in positions:
                equation = self.equations[position]
                read = self.read[position]
                inputs = (
                    [known[n] for n in read]
                    if len(read) == len(equation.inputs)
                    else [self._value(atom) for atom in equation.inputs]
                )
                result = equation.primitive(*inputs, **equation.params)
                made = self.made[position]
                if equation.primitive.multiple:
                    known.update(zip(made, result, strict=True))
                else:
                    known[made.start] = result
        finally:
            leave(token)

    def results(self, outputs: Sequence[Atom]) -> list[Any]:
        """The values of the outputs, after all effects that have not happened yet."""
        self.compute(self.numbers(outputs), effects=True)
        return [self._value(atom) for atom in outputs]

    def _value(self, atom: Atom) -> Any:
        if not isinstance(atom, Variable):
            return atom.value
        number = self._numbers.get(atom)
        return self._constants[atom] if number is None else self.known[number]


class PathAgain(GuardTrace):
    """Records a known path again, by its known answers. A further question, and so an effect, is an
    error.
    """

    __slots__ = ()

    def compute(self, wanted: Sequence[int], effects: bool = False) -> None:
        if effects:
            raise impure(self.label(), user_line())
        super().compute(wanted)


def impure(name: str, line: str) -> BranchError:
    """The error for a function that records other equations after the same answers."""
    return BranchError(
        f"{name} was traced before, and takes another course now{line}, though all its questions "
        "had the same answers so far. It depends on something that is no argument: a global that "
        "changes, a counter, numbers of np.random. Make it an argument."
    )
