"""fg.profile: the time of a function by line, scope and primitive.

Runs the Graph that jit would run several times, compiled, and equation by equation with the time of
each. The Graphs inside loops and branches are replaced by copies whose program is this interpreter,
so that their equations are timed wherever they run.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fungrad.compiler.jit import Jitted, jit
from fungrad.compiler.passes.pipeline import inline, optimised
from fungrad.control_flow.call import by_steps, compiled_key, run
from fungrad.inspect.outermost import check_outermost, check_repetitions
from fungrad.inspect.source_lines import shortened, text_of
from fungrad.inspect.speed.explanation import Explanation, explained
from fungrad.inspect.tables import Table, drawn, number, plain, seconds
from fungrad.ir.graph import Equation, Graph, Source, with_graphs
from fungrad.retracing.graph_transforms import Differentiated, drop_dead
from fungrad.retracing.inlining import copied
from fungrad.tracing.interpreter import evaluated_by
from fungrad.tracing.transformed_function import TransformedFunction
from fungrad.transforms.arguments import flat_leaves

Clock = Callable[[], int]


class Watch:
    """The equations of an optimised Graph and of the Graphs inside, with times and counts.

    Attributes:
      equations: each with its depth: 0 in the Graph itself, 1 in the body of a loop in it.
      spent: nanoseconds of each equation in the last run, without the Graphs inside.
      counts: the number of runs of each.
    """

    def __init__(self, graph: Graph, clock: Clock = time.perf_counter_ns) -> None:
        self.equations: list[tuple[Equation, int]] = []
        self.spent: dict[Equation, int] = defaultdict(int)
        self.counts: dict[Equation, int] = defaultdict(int)
        self._clock = clock
        self._inside = 0
        self._copies: dict[Graph, Graph] = {}
        self._graph = self._opened(graph, 0)

    def run(self, args: Sequence[Any]) -> list[Any]:
        """Runs the Graph, measures its times anew, and returns its outputs."""
        self.spent.clear()
        self.counts.clear()
        self._inside = 0
        return evaluated_by(self._timed, self._graph, args)

    def _opened(self, graph: Graph, depth: int) -> Graph:
        """The Graph with timed copies of the Graphs inside."""
        equations = []
        for equation in graph.equations:
            index = len(self.equations)
            params = with_graphs(equation.params, lambda inner: self._copy(inner, depth + 1))
            new = copied(equation, equation.inputs, equation.outputs, params)
            self.equations.insert(index, (new, depth))
            equations.append(new)
        return graph.replace(equations=tuple(equations))

    def _copy(self, graph: Graph, depth: int) -> Graph:
        """An equal Graph whose program, and that of its derivatives, is timed."""
        if graph in self._copies:
            return self._copies[graph]
        copy = self._copies[graph] = graph.replace()
        opened = self._opened(optimised(graph), depth)

        def compiled(*args: Any) -> list[Any]:
            start = self._clock()
            outputs = evaluated_by(self._timed, opened, args)
            self._inside += self._clock() - start
            return outputs

        copy.derived[compiled_key(copy)] = compiled
        for key, made in list(graph.derived.items()):
            if isinstance(made, Differentiated):
                forward, backward = (self._copy(half, depth) for half in made[:2])
                copy.derived[key] = Differentiated(forward, backward, made.reached)
        return copy

    def _timed(self, equation: Equation, inputs: list[Any]) -> Any:
        primitive: Any = equation.primitive
        if isinstance(equation.params.get("body"), Graph):
            by_steps(primitive, inputs, equation.params)
        outside, self._inside = self._inside, 0
        start = self._clock()
        result = primitive.eval(*inputs, **equation.params)
        self.spent[equation] += self._clock() - start - self._inside
        self.counts[equation] += 1
        self._inside = outside
        return result


FEWEST, MOST = 3, 100
BUDGET = 0.5
"""The seconds for the repetitions where their number is not given."""
SHOWN = 12
"""The number of printed rows of each table."""


class EquationTime(NamedTuple):
    """One equation: its median time in a run, without the Graphs inside, and its number of runs.

    `depth` is 0 in the function itself, 1 in the body of a loop in it; `backward` is
    `Equation.backward`.
    """

    primitive: str
    output: str
    seconds: float
    runs: int
    source: Source | None
    scope: str
    backward: int
    depth: int


class Share(NamedTuple):
    """The time of all equations of one line, scope, primitive or pass, and its share of all."""

    what: str
    seconds: float
    share: float
    runs: int


@dataclass(frozen=True)
class Profile:
    """The times of a function: the result of `fg.profile(f)(*args)`. It prints as tables.

    Attributes:
      name: of the function.
      equations: the time of each, in the order of the program.
      compiled: the median time of the compiled whole, in seconds.
      repetitions: the number of runs of which medians are taken.
      program: where each line of the compiled program runs, and its time there.
    """

    name: str
    equations: tuple[EquationTime, ...]
    compiled: float
    repetitions: int
    program: Explanation = field(repr=False)

    @property
    def seconds(self) -> float:
        """The sum of the times of all equations."""
        return sum(equation.seconds for equation in self.equations)

    @property
    def by_line(self) -> list[Share]:
        """By the user's line, `file:line (function)`, the longest first."""
        return self._shares(lambda e: "(no line)" if e.source is None else str(e.source))

    @property
    def by_scope(self) -> list[Share]:
        """By `fg.named_scope`, the longest first."""
        return self._shares(lambda e: e.scope or "(no scope)")

    @property
    def by_primitive(self) -> list[Share]:
        """By primitive, the longest first."""
        return self._shares(lambda e: e.primitive)

    @property
    def by_pass(self) -> list[Share]:
        """By pass, the longest first: "forward" for the function, "backward" for its gradient,
        "backward, order 2" for a gradient of a gradient.
        """
        return self._shares(lambda e: _pass_name(e.backward))

    def _shares(self, key: Callable[[EquationTime], str]) -> list[Share]:
        times: dict[str, float] = {}
        counts: dict[str, int] = {}
        for equation in self.equations:
            what = key(equation)
            times[what] = times.get(what, 0.0) + equation.seconds
            counts[what] = counts.get(what, 0) + equation.runs
        total = self.seconds or 1.0
        shares = [Share(what, spent, spent / total, counts[what]) for what, spent in times.items()]
        return sorted(shares, key=lambda share: -share.seconds)

    def to_dict(self) -> dict[str, Any]:
        """The profile as plain data."""
        return {
            "name": self.name,
            "seconds": self.seconds,
            "compiled_seconds": self.compiled,
            "repetitions": self.repetitions,
            "program": self.program.to_dict(),
            "by_line": [share._asdict() for share in self.by_line],
            "by_scope": [share._asdict() for share in self.by_scope],
            "by_primitive": [share._asdict() for share in self.by_primitive],
            "by_pass": [share._asdict() for share in self.by_pass],
            "equations": [
                {**e._asdict(), "source": None if e.source is None else e.source._asdict()}
                for e in self.equations
            ],
        }

    def tables(self) -> list[Table]:
        """The printed tables."""
        right = frozenset((1, 2, 3))
        whole = [
            ["equation by equation", seconds(self.seconds)],
            ["compiled", seconds(self.compiled)],
        ]
        header = ["time", "share", "runs"]
        parts = [
            Table(f"one call, median of {self.repetitions}", ["", "time"], whole, right),
            Table("by line", ["line", *header, "source"], _lines(self.by_line, self), right),
            self.program.by_line()._replace(title="by line, in the compiled program"),
        ]
        tables = (("primitive", self.by_primitive), ("scope", self.by_scope))
        for name, shares in (*tables, ("pass", self.by_pass)):
            if len(shares) > 1:
                rows = [[share.what, *_figures(share)] for share in shares[:SHOWN]]
                parts.append(Table(f"by {name}", [name, *header], [*rows, *_rest(shares)], right))
        return parts

    def __repr__(self) -> str:
        return plain(f"profile of {self.name}", self.tables())

    def __rich__(self) -> Any:
        return drawn(f"profile of {self.name}", self.tables())


def _pass_name(backward: int) -> str:
    if backward < 2:
        return "backward" if backward else "forward"
    return f"backward, order {backward}"


def _figures(share: Share) -> list[str]:
    return [seconds(share.seconds), f"{share.share:.1%}", number(share.runs)]


def _rest(shares: list[Share]) -> Iterable[list[str]]:
    rest = shares[SHOWN:]
    if rest:
        parts = [sum(column) for column in zip(*[share[1:] for share in rest], strict=True)]
        spent, part, count = parts
        yield [f"{len(rest)} more", *_figures(Share("", spent, part, int(count)))]


def _lines(shares: list[Share], found: Profile) -> list[list[str]]:
    """The rows of the table by lines, with a short name of the file and the text of the line."""
    sources = {str(e.source): e.source for e in found.equations if e.source is not None}
    rows = []
    for share in shares[:SHOWN]:
        source = sources.get(share.what)
        name = share.what
        if source is not None:
            name = str(source._replace(file=Path(source.file).name))
        rows.append([name, *_figures(share), shortened(text_of(source), 50)])
    return [*rows, *([*row, ""] for row in _rest(shares))]


def profile(
    f: Callable[..., Any], *, repetitions: int | None = None, optimise: bool = True
) -> Callable[..., Profile]:
    """A function that measures the time of f by your lines, scopes and primitives.

    >>> import numpy as np, fungrad as fg
    >>> found = fg.profile(fg.grad(lambda x: np.sum(np.sin(x) ** 2)), repetitions=3)(np.ones(5))
    >>> sorted(share.what for share in found.by_primitive)
    ['cos', 'mul', 'sin']

    Args:
      f: a function, jitted or transformed or not: `fg.grad(f)` shows the forward and backward time.
      repetitions: the number of runs to take medians of; None for as many as half a second allows.
      optimise: False to run the equations as traced (with calls inlined) instead of the optimised
        ones.

    Returns:
      A function with f's arguments that returns a `Profile`. The equations run one by one, those
      of loops once a trip; a time includes about 0.1 microseconds of measuring. The profile also
      holds the time of the compiled function, which is less where equations over large arrays are
      fused.

    Raises:
      ArgumentError: inside another transform, and where f cannot be jitted: name arguments that
        are not arrays by `fg.jit(f, static_argnames=)`.
    """
    check_repetitions(repetitions)
    jitted = f if isinstance(f, Jitted) else jit(f)

    def run_profiled(*args: Any, **kwargs: Any) -> Profile:
        check_outermost("profile", "arrays")
        graph = jitted.lower(*args, **kwargs).graph
        leaves, _ = flat_leaves(jitted._parted(args, kwargs)[1])
        start = time.perf_counter()
        run(graph, leaves)  # compiles, and warms caches
        opened = optimised(graph) if optimise else drop_dead(inline(graph))
        watch = Watch(opened)
        watch.run(leaves)
        first = time.perf_counter() - start
        count = repetitions or min(max(FEWEST, int(BUDGET / max(first, 1e-9))), MOST)
        return _measured(graph, watch, leaves, count)

    return TransformedFunction(run_profiled, profile, f, repetitions=repetitions, optimise=optimise)


def _measured(graph: Graph, watch: Watch, leaves: list[Any], repetitions: int) -> Profile:
    spent: list[dict[Equation, int]] = []
    compiled: list[float] = []
    for _ in range(repetitions):
        watch.run(leaves)
        spent.append(dict(watch.spent))
        start = time.perf_counter()
        run(graph, leaves)
        compiled.append(time.perf_counter() - start)

    def timed(equation: Equation, depth: int) -> EquationTime:
        median = statistics.median(times[equation] for times in spent) * 1e-9
        types = ", ".join(str(v.type) for v in equation.outputs)
        return EquationTime(
            equation.primitive.name, types, median, watch.counts[equation], equation.source,
            equation.scope, equation.backward, depth,
        )  # fmt: skip

    rows = [timed(e, depth) for e, depth in watch.equations if e in watch.counts]
    name = graph.name or "a function"
    whole = statistics.median(compiled)
    return Profile(name, tuple(rows), whole, repetitions, explained(graph, leaves, repetitions))
