"""CheckedProgram: a program whose first run is compared with the evaluator's run of its Graph.

The evaluator runs the Graph as it was traced, equation by equation, by NumPy's functions. If the
outputs differ by more than the rounding of the operations explains, the caller gets the evaluator's
outputs and a MiscompiledWarning, and the Graph is evaluated from then on. The same holds if a pass
or a code generator fails. With FUNGRAD_STRICT=1 both are errors.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any

from fungrad.control_flow.call import Backend, Runner, interpreted
from fungrad.errors import MiscompiledError
from fungrad.ir.graph import Graph
from fungrad.support.lazy import Module
from fungrad.tracing.effects import EffectLog, Replaying
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import strict

comparison: Any = Module("fungrad.compiler.self_check.comparison")
evaluation_time: Any = Module("fungrad.rounding.evaluation_time")
report: Any = Module("fungrad.compiler.self_check.report")
twin: Any = Module("fungrad.compiler.self_check.twin")

LEAST_SECONDS = 0.005
"""A check may take so long in any case."""

_within: ContextVar[bool] = ContextVar("fungrad_checking", default=False)
"""Whether a program runs to be checked: then its parts are not checked on their own."""


NOT_RUN = "it has not run yet"
UNASKED = 'not compared: verify="never"'
FIRST = "the first run was compared with the evaluator's"


def checked(
    graph: Graph,
    build: Callable[[], Runner | None],
    settle: Callable[[Runner], None],
    compile: Callable[[Graph], Runner],
    seconds: float = 0.0,
) -> Runner | None:
    """The function that runs a program: by the Graph's option `verify` the program itself, or one
    that checks it. The evaluator, if the program cannot be built.

    Args:
      graph: what the program computes.
      build: makes the program; None if there is none.
      settle: takes the function that shall run from the next call on.
      compile: makes the program of another Graph in the same way.
      seconds: the time that the build has taken before.
    """
    started = time.thread_time()
    try:
        program = build()
    except Exception as error:
        if strict():
            raise
        note(graph, f"evaluated: {report.part(error)} failed")
        report.failed(graph, error)
        return evaluator(graph)
    if program is None or graph.verified == "never":
        graph.derived.setdefault("check", UNASKED)
        return program
    graph.derived.setdefault("check", NOT_RUN)
    seconds += time.thread_time() - started
    return CheckedProgram(graph, program, settle, compile, seconds)


def note(graph: Graph, text: str) -> None:
    """Keeps what is known of a Graph's program, for `lowered.checked`."""
    graph.derived["check"] = text


def evaluator(graph: Graph) -> Runner:
    """The function that evaluates a Graph equation by equation."""

    def run(*args: Any) -> Sequence[Any]:
        with interpreted():
            return evaluate(graph, args)

    return run


class CheckedProgram:
    """A program that is compared with the evaluator when it runs.

    Args:
      graph: what it computes, as traced.
      program: the program.
      settle: takes the function that shall run from the next call on.
      compile: makes the program of another Graph in the same way.
      seconds: the time that it took to build.
    """

    def __init__(
        self,
        graph: Graph,
        program: Runner,
        settle: Callable[[Runner], None],
        compile: Callable[[Graph], Runner],
        seconds: float,
    ) -> None:
        self.graph = graph
        self.program = program
        self._settle = settle
        self._compile = compile
        self._seconds = seconds
        self._always = graph.verified == "always"

    def __call__(self, *args: Any) -> Sequence[Any]:
        if _within.get():
            return self.program(*args)
        recording: Replaying = nullcontext
        replaying: Replaying = nullcontext
        if comparison.acts(self.graph):
            log = EffectLog()
            recording, replaying = log.recording, log.replaying
        token = _within.set(True)
        started = time.thread_time()
        try:
            with recording():
                results = self.program(*args)
        except (ArithmeticError, MemoryError, Warning):  # of np.errstate and of warning filters
            raise
        except Exception as error:
            _within.reset(token)
            token = _within.set(False)
            return self._after(error, args, replaying)
        finally:
            _within.reset(token)
        limit = max(LEAST_SECONDS, self._seconds + time.thread_time() - started)
        expected, wrong = self._compared(args, results, replaying, limit)
        if wrong is None:
            if not self._always:
                self._settle(self.program)
            return results
        if strict():
            raise MiscompiledError(report.message(self.graph, wrong))
        report.miscompiled(self.graph, args, wrong)
        note(self.graph, f"evaluated: {wrong}")
        self._settle(evaluator(self.graph))
        return expected

    def _after(self, error: Exception, args: Sequence[Any], replaying: Replaying) -> Sequence[Any]:
        """The evaluator's outputs, if the program has raised and the evaluator does not."""
        try:
            expected = self._evaluated(args, replaying)
        except Exception as raised:
            if type(raised) is type(error):
                raise error from None
            raise
        if strict():
            raise error
        note(self.graph, f"evaluated: {report.part(error)} failed")
        report.failed(self.graph, error)
        self._settle(evaluator(self.graph))
        return expected

    def _evaluated(self, args: Sequence[Any], replaying: Replaying) -> Sequence[Any]:
        with replaying():
            expected: Sequence[Any] = evaluation_time.evaluated(self.graph, args)
            return expected

    def _compared(
        self, args: Sequence[Any], found: Sequence[Any], replaying: Replaying, limit: float
    ) -> tuple[Sequence[Any], Any]:
        """The evaluator's outputs, and their disagreement with the program's, if any."""
        seconds = math.inf if self._always else limit
        if evaluation_time.evaluation_seconds(self.graph) <= seconds:
            try:
                expected, wrong = comparison.compared(
                    self.graph, args, found, replaying, 4 * seconds
                )
            except (evaluation_time.TooLong, MemoryError):
                pass
            else:
                note(self.graph, FIRST)
                return expected, wrong
        wrong, text = twin.compared(self.graph, args, self._compile, limit)
        note(self.graph, text)
        if wrong is not None:
            return self._evaluated(args, replaying), wrong
        return found, None


class CheckedBackend(Backend):
    """A backend whose programs are checked at their first run."""

    def checked(
        self, graph: Graph, build: Callable[[], Runner | None], settle: Callable[[Runner], None]
    ) -> Runner | None:
        return checked(graph, build, settle, self.compile)
