"""The operations of a compiled function: where each runs, and its part of the measured time.

A step of a program on NumPy has a counter of its own. A kernel, a cluster in tiles or a loop on
numbers has one as a whole: its time is divided among its equations by estimates.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fungrad.compiler.native.tiling.tiles import Tiles
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.refusal import Refusal
from fungrad.control_flow.call import built, compiled, run
from fungrad.inspect.speed.placement import (
    BLAS,
    PYTHON,
    advice,
    bodies,
    in_words,
    library,
    nanoseconds,
    refusal,
)
from fungrad.inspect.speed.timed_program import Step, TimedProgram, counts_steps
from fungrad.ir.graph import Equation, Graph, Source
from fungrad.support.lazy import Record

KERNEL = "kernel"
ON_NUMBERS = 255
"""The most elements of arrays in programs on numbers, which are native as a whole or not at all."""


class Operation(Record):
    """An equation of a compiled function.

    Attributes:
      primitive: its name; "(program)" for allocations and the like.
      output: the types of its outputs.
      where: "kernel 1" for native code, "BLAS", "LAPACK", "NumPy" or "Python".
      seconds: its time in a call.
      estimated: whether it is a part of a measured time, divided by estimates.
      runs: how often it ran in a call.
      refusal: why it is not native, as data; None in a kernel.
      advice: what would help, or "".
      source: the user's line.
      scope: the names of `fg.named_scope`.
      backward: 0 in the function, 1 in its gradient, and so on.
      depth: 0 in the function itself, 1 in the body of a loop in it.
    """

    primitive: str
    output: str
    where: str
    seconds: float
    estimated: bool
    runs: int
    refusal: Refusal | None
    advice: str
    source: Source | None
    scope: str
    backward: int
    depth: int

    @property
    def native(self) -> bool:
        """Whether it runs in a kernel."""
        return self.where.startswith(KERNEL)


class NativeKernel(Record):
    """A native program: what it computes, and its code.

    Attributes:
      equations: the equations that it computes.
      program: its entry and its build.
    """

    equations: Sequence[Equation]
    program: Any

    @property
    def loops(self) -> str:
        """Its loops, with the operations of each."""
        text: str = self.program.kernel.loops
        return text or "\n".join(_listed(self.equations))

    @property
    def llvm(self) -> str:
        """The LLVM IR."""
        text: str = self.program.kernel.module.text()
        return text

    @property
    def assembly(self) -> str:
        """The machine code, as assembly."""
        text: str = self.program.assembly()
        return text

    def __repr__(self) -> str:
        return f"kernel of {len(self.equations)} equations:\n{self.loops}"


def _listed(equations: Sequence[Equation], indent: str = "") -> Iterator[str]:
    """The names of equations, loops with their bodies."""
    names: list[str] = []
    for equation in equations:
        inside = bodies(equation)
        if not inside:
            names.append(equation.primitive.name)
            continue
        if names:
            yield f"{indent}{', '.join(names)}"
            names = []
        for body, times in inside:
            yield f"{indent}{equation.primitive.name}, {times} x:"
            yield from _listed(optimised(body).equations, indent + "  ")
    if names:
        yield f"{indent}{', '.join(names)}"


class Operations:
    """The operations of a Graph, as its program runs them.

    Args:
      graph: the Graph, as traced.

    Attributes:
      kernels: the native programs, in the order of their numbers.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.kernels: list[NativeKernel] = []
        self._better = better = optimised(graph)
        self._program: Any = built(graph)
        self._timed = TimedProgram(self._program) if counts_steps(self._program) else None
        self._reasons: Mapping[Equation, Refusal] = better.derived.get("reasons", {})
        self._whole = _of_whole(better)

    def found(self) -> list[Operation]:
        """The operations, without times."""
        return self._operations([] if self._timed is None else self._timed.steps(), 0.0)

    def placed(self) -> Operations:
        """Itself, with the kernels."""
        self.found()
        return self

    def measured(
        self, args: Sequence[Any], repetitions: Callable[[float], int]
    ) -> tuple[list[Operation], float, int]:
        """The operations with their times in the fastest run, the time of the fastest run without
        counters, and the number of runs. Other programs on the machine only add to a time.

        Args:
          args: the arguments of the Graph.
          repetitions: the number of runs, given the seconds of one.
        """
        run(self.graph, args)  # it is checked, and its caches are warm
        program = compiled(self.graph)
        count = repetitions(2 * _seconds(program, args))
        whole = fastest = math.inf
        steps: list[Step] = []
        for _ in range(count):
            whole = min(whole, _seconds(program, args))
            if self._timed is not None:
                self._timed.reset()
                self._timed.run(*args)
                timed = self._timed.steps()
                spent = sum([step.seconds for step in timed])
                if spent < fastest:
                    fastest, steps = spent, timed
        return self._operations(steps, whole), whole, count

    def _operations(self, steps: Sequence[Step], whole: float) -> list[Operation]:
        self.kernels = []
        if self._timed is not None:
            return [*self._of_steps(steps, None, 0)]
        equations = self._better.equations
        if _program(self._program) is None:
            return [*self._divided(equations, whole, 1, 0, PYTHON)]
        return [*self._divided(equations, whole, 1, 0, self._kernel(self._program, equations))]

    def _kernel(self, runner: Any, members: Sequence[Equation]) -> str:
        """The name of a native program, which gets the next number."""
        self.kernels.append(NativeKernel(members, _native(runner)[0]))
        return f"{KERNEL} {len(self.kernels)}"

    def _of_steps(
        self, steps: Sequence[Step], around: Equation | None, depth: int
    ) -> Iterator[Operation]:
        """The operations of steps of a program; its own work belongs to the equation around it."""
        own = sum([step.seconds for step in steps if step.origin is None])
        merged: dict[Equation, Step] = {}
        for step in steps:
            before = merged.get(step.origin)
            if step.origin is not None:
                merged[step.origin] = step if before is None else step._replace(
                    seconds=before.seconds + step.seconds, callee=step.callee or before.callee,
                    inner=step.inner or before.inner,
                )  # fmt: skip
        if around is None and own:
            yield Operation("(program)", "", PYTHON, own, False, 1, None, "", None, "", 0, depth)
        for step in merged.values():
            yield from self._of_step(step, depth)

    def _of_step(self, step: Step, depth: int) -> Iterator[Operation]:
        origin, seconds, runs = step.origin, step.seconds, step.runs
        if "runner" in origin.params:
            members, runner = origin.params["members"], origin.params["runner"]
            tiles = isinstance(runner, Tiles)
            where = self._kernel(runner, members) if _native(runner) else ""
            yield from self._divided(members, seconds, runs, depth, where, tiles)
        elif step.inner is not None:
            inner = sum([s.seconds for s in step.inner if s.origin is not None])
            yield self._operation(origin, PYTHON, max(seconds - inner, 0.0), False, runs, depth)
            before = self._whole
            self._whole = self._reasons.get(origin, before)
            yield from self._of_steps(step.inner, origin, depth + 1)
            self._whole = before
        elif bodies(origin):
            numbers = hasattr(step.callee, "text") and not hasattr(step.callee, "program")
            where = PYTHON if numbers else ""
            yield from self._divided([origin], seconds, runs, depth, where)
        else:
            yield self._operation(origin, library(origin), seconds, False, runs, depth)

    def _divided(
        self, equations: Sequence[Equation], seconds: float, runs: int, depth: int, where: str,
        tiles: bool = False,
    ) -> Iterator[Operation]:  # fmt: skip
        """The operations of a measured part, with shares of its time by estimates; those of tiles
        call a BLAS between kernels.
        """
        rows = [*_opened(equations, runs, depth)]
        weights = [times * nanoseconds(e) for e, times, _ in rows]
        total = sum(weights) or 1.0
        for (equation, times, inner), weight in zip(rows, weights, strict=True):
            place = where or library(equation)
            if tiles and library(equation) == BLAS:
                place = BLAS
            part = seconds * weight / total
            yield self._operation(equation, place, part, len(rows) > 1, times, inner)

    def _operation(
        self, equation: Equation, where: str, seconds: float, estimated: bool, runs: int, depth: int
    ) -> Operation:
        why, help = None, ""
        if not where.startswith(KERNEL):
            why = refusal(equation, self._reasons)
            if why.code in ("small", "moves") and self._whole is not None:
                why = self._whole
            help = advice(why, equation)
            why = Refusal(equation, why.code, in_words(why, equation), why.sizes)
        types = ", ".join([str(v.type) for v in equation.outputs])
        return Operation(
            equation.primitive.name, types, where, seconds, estimated, runs, why, help,
            equation.source, equation.scope, equation.backward, depth,
        )  # fmt: skip


def _of_whole(graph: Graph) -> Refusal | None:
    """Why a Graph is not one native program, if that says more than the sizes of its parts do."""
    refused: Sequence[Refusal] = graph.derived.get("refused", ())
    for one in refused:
        if one.code == "time":
            return one
    values = [*graph.inputs, *[v for e in graph.equations for v in e.outputs]]
    small = max([v.type.size for v in values], default=0) <= ON_NUMBERS
    return refused[0] if refused and small else None


def _program(runner: Any) -> Any:
    """The native program of a builtin function, or None."""
    program = getattr(runner, "__self__", None)
    return program if hasattr(program, "kernel") else None


def _native(runner: Any) -> list[Any]:
    """The native programs that a call runs: none if it runs a library."""
    called = runner.args[0] if isinstance(runner, functools.partial) else runner
    inside = list(called.__globals__.values()) if isinstance(called, Tiles) else [called]
    return [program for one in inside if (program := _program(one))]


def _opened(
    equations: Sequence[Equation], runs: int, depth: int
) -> Iterator[tuple[Equation, int, int]]:
    """The equations, those of loops instead of the loops, with their runs and depths."""
    for equation in equations:
        inside = bodies(equation)
        if not inside:
            yield equation, runs, depth
        for body, times in inside:
            yield from _opened(optimised(body).equations, runs * times, depth + 1)


def _seconds(function: Callable[..., Any], args: Sequence[Any]) -> float:
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start
