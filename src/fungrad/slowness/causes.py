"""Causes of slow functions, each with a factor that was measured here and now.

A cause is a check of one function: it gets what was measured, measures the alternative where there
is one, and returns what it found. A check costs a few runs of the function at most.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fungrad.compiler.jit import Jitted
from fungrad.compiler.passes.pipeline import optimised
from fungrad.errors import DensePatternWarning, FungradError
from fungrad.inspect.source_lines import place_of
from fungrad.inspect.speed.explanation import Explanation
from fungrad.inspect.speed.operations import Operation
from fungrad.inspect.tables import seconds
from fungrad.ir.graph import Equation, Graph, Source
from fungrad.sparse import public as sparse
from fungrad.support.lazy import Record
from fungrad.tracing.transformed_function import TransformedFunction
from fungrad.transforms.jacobian import jacfwd, jacobian, jacrev

FACTOR = 2.0
"""The least speed-up that is told."""
TRACES = 3
"""The fewest traces of a function whose arguments change."""
REPEATED = 200
"""The fewest equations of a line that a Python loop must have written."""
PERIOD, FEWEST = 40, 4
"""The most equations of a step of such a loop, and the fewest steps."""
ENTRIES = 400
"""The fewest entries of a Jacobian that may be sparse."""
DENSE = 0.25
"""The largest share of entries that are not zero in a sparse Jacobian."""
RUNS, BUDGET = 7, 0.3
"""The most runs of an alternative, and the seconds after which no other is begun."""


class Cause(Record):
    """Why a function is slow.

    Attributes:
      title: the name of the cause.
      message: what was found and measured, and what to write instead.
      factor: how many times faster the alternative was, or would be at most.
      source: the line, if it is one.
    """

    title: str
    message: str
    factor: float
    source: Source | None = None

    def __str__(self) -> str:
        return f"{self.title}: {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """The cause as plain data."""
        return {**self._asdict(), "source": self.source and self.source._asdict()}


class Case(Record):
    """A measured function.

    Attributes:
      function: as the user gave it.
      jitted: compiled.
      args, kwargs: its arguments.
      graph: its Graph, as traced.
      found: where its lines run, and their times.
      first: the seconds of tracing, building and the first call; 0 if it was traced before.
    """

    function: Callable[..., Any]
    jitted: Jitted
    args: Sequence[Any]
    kwargs: dict[str, Any]
    graph: Graph
    found: Explanation
    first: float


def median_of(run: Callable[[], Any]) -> float:
    """The median time of some runs."""
    begun, times = time.perf_counter(), list[float]()
    while len(times) < RUNS and (not times or time.perf_counter() - begun < BUDGET):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def times(factor: float) -> str:
    """A factor in words."""
    return f"{factor:.2g} times" if factor < 10 else f"{factor:.0f} times"


def eager(case: Case) -> Iterator[Cause]:
    """A function that is not compiled."""
    if isinstance(case.function, Jitted):
        return
    plain = median_of(lambda: case.function(*case.args, **case.kwargs))
    compiled = median_of(lambda: case.jitted(*case.args, **case.kwargs))
    factor = plain / compiled
    if factor >= FACTOR:
        calls = max(1, round(case.first / (plain - compiled)))
        yield Cause(
            "not compiled",
            f"{seconds(plain)} a call, {seconds(compiled)} under fg.jit: {times(factor)} faster. "
            f"The first call takes {seconds(case.first)}, which {calls:,} calls make up for.",
            factor,
        )


def retraced(case: Case) -> Iterator[Cause]:
    """A compiled function that is traced again and again."""
    changes = case.jitted.changes()
    if len(changes) < TRACES - 1:
        return
    (what, count), *_ = Counter([change.what for change in changes]).most_common()
    example = next(change for change in changes if change.what == what)
    fresh = Jitted(*case.jitted._recipe())
    start = time.perf_counter()
    fresh(*case.args, **case.kwargs)
    first = time.perf_counter() - start
    warm = median_of(lambda: fresh(*case.args, **case.kwargs))
    yield Cause(
        "traced again",
        f"{example} changed in {count} of {len(changes) + 1} traces. A trace and its build "
        f"take {seconds(first)}, a call {seconds(warm)}. Keep shapes and dtypes fixed (pad to few "
        "of them), pass changing numbers as arrays, or do without jit.",
        first / warm,
    )


def flips(case: Case) -> Iterator[Cause]:
    """A question about values, for each of whose answers there is a program."""
    paths = case.jitted.lower(*case.args, **case.kwargs).paths
    if len(paths) < 2:
        return
    call = median_of(lambda: case.jitted(*case.args, **case.kwargs))
    whole = case.found.seconds
    yield Cause(
        "a guard that flips",
        f"the questions about values have been answered in {len(paths)} ways, each with programs "
        f"of its own. A call takes {seconds(call)}, this path as one program {seconds(whole)}: "
        "np.where or fg.lax.cond make one program of all paths.",
        call / whole,
    )


def host_calls(case: Case) -> Iterator[Cause]:
    """Python functions that compiled loops call."""
    total = sum([o.seconds for o in case.found.operations]) or 1.0
    groups: dict[Source | None, list[Operation]] = {}
    for one in case.found.operations:
        if one.refusal is not None and one.refusal.code == "host" and one.runs > 1:
            groups.setdefault(one.source, []).append(one)
    for source, members in groups.items():
        spent, runs = sum([o.seconds for o in members]), sum([o.runs for o in members])
        factor = total / max(total - spent, 1e-9)
        if factor >= FACTOR:
            yield Cause(
                "a Python function in a loop",
                f"{place_of(source)}: {runs:,} calls take {spent / total:.0%} of the time, "
                f"{seconds(spent / runs)} each. Without them all else takes "
                f"{seconds(total - spent)}: at most {times(factor)} faster, more where the loop "
                "becomes native. Write the function with NumPy's functions.",
                factor,
                source,
            )


def unrolled(case: Case) -> Iterator[Cause]:
    """Python loops that wrote out their steps."""
    lines: dict[Source, list[Equation]] = {}
    for equation in optimised(case.graph).equations:
        if equation.source is not None:
            lines.setdefault(equation.source, []).append(equation)
    for source, equations in lines.items():
        if len(equations) < REPEATED:
            continue
        why = _why_not_rolled(equations)
        built = f" The first call takes {seconds(case.first)}." if case.first else ""
        yield Cause(
            "a Python loop written out",
            f"{place_of(source)} has become {len(equations):,} equations: {why}.{built} A call "
            f"takes {seconds(case.found.seconds)}.",
            max(case.first / case.found.seconds, 1.0),
            source,
        )


def _why_not_rolled(equations: Sequence[Equation]) -> str:
    """Why the equations of a line are not one loop."""
    kinds = [e.primitive.name for e in equations]
    shapes = [tuple([v.type for v in e.outputs]) for e in equations]
    for period in range(1, min(PERIOD, len(equations) // FEWEST) + 1):
        if not _repeats(kinds, period):
            continue
        if _repeats(shapes, period):
            steps = len(equations) // period
            return f"{steps:,} equal steps, which fg.lax.fori_loop or fg.lax.scan trace once"
        n = next(n for n in range(period, len(shapes)) if shapes[n] != shapes[n - period])
        before, after = (", ".join(map(str, shapes[i])) for i in (n - period, n))
        return (
            f"its steps have different shapes ({before}, then {after}): mask or pad the arrays to "
            "one shape, then fg.lax.scan traces a step once"
        )
    return (
        "its steps have different operations: choose by np.where or fg.lax.switch in them, then "
        "fg.lax.scan traces a step once"
    )


def _repeats(found: Sequence[Any], period: int) -> bool:
    return all(a == b for a, b in zip(found, found[period:], strict=False))


def dense(case: Case) -> Iterator[Cause]:
    """A dense Jacobian whose entries are mostly zero."""
    of: Any = case.jitted._f
    if not isinstance(of, TransformedFunction) or case.kwargs:
        return
    argnums = (*of._options[0], of._options[1].get("argnums", 0))[0]
    if of._verb not in (jacobian, jacfwd, jacrev) or type(argnums) is not int:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DensePatternWarning)
            pattern = sparse.jacobian_pattern(of._f, *case.args, argnums=argnums)
    except FungradError:  # a function that asks for values has none
        return
    size = pattern.shape[0] * pattern.shape[1]
    if size < ENTRIES or pattern.nnz > DENSE * size:
        return
    made = sparse.jacobian(of._f, argnums)
    made(*case.args)
    fast = median_of(lambda: made(*case.args))
    slow = median_of(lambda: case.function(*case.args))
    if slow < FACTOR * fast:
        return
    yield Cause(
        "a dense Jacobian",
        f"{pattern.nnz / size:.1%} of its {size:,} entries are not zero: {seconds(slow)}, and "
        f"{seconds(fast)} by fg.sparse.jacobian: {times(slow / fast)} faster.",
        slow / fast,
    )


CAUSES: Sequence[Callable[[Case], Iterator[Cause]]] = (
    eager, retraced, flips, host_calls, unrolled, dense,
)  # fmt: skip
