"""Loops in a Graph that Python ran while it was traced: periods whose steps read alike.

The equations of a step are the same, of the same lines of the program. Each operand is made at the
same position of its step or of one of few steps before; or is the same in all steps; or comes
from outside of the loop. Equations whose parameters differ from step to step may read values from
outside only: they are computed before the loop.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.loops.periods import candidates, runs
from fungrad.ir.graph import Atom, Equation, Graph, Literal, effectful
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.retracing.graph_transforms import memoised
from fungrad.retracing.inlining import is_pure, key_part


class TracedLoop(NamedTuple):
    """A loop in a Graph.

    Attributes:
      start: the first equation.
      period: the number of equations of a step.
      times: the number of steps.
      outside: the positions in a step of equations that are computed before the loop.
    """

    start: int
    period: int
    times: int
    outside: frozenset[int]

    @property
    def stop(self) -> int:
        return self.start + self.period * self.times

    @property
    def inside(self) -> int:
        """The number of equations that stay in a step."""
        return self.period - len(self.outside)


class StepValue(NamedTuple):
    """A value that a step makes, `lag` steps before it is read: its position in the step."""

    position: int
    output: int
    lag: int


def rerolled_weight(equation: Equation) -> int:
    """The number of equations of a loop that an equation counts as."""
    if equation.primitive is not dot_general:
        return 1
    (x, y), summed = [a.type for a in equation.inputs], equation.params["contract"][0]
    terms = equation.outputs[0].type.size * math.prod([x.shape[i] for i in summed])
    few = max(x.ndim, y.ndim) > 1 and terms <= costs.rerolled_terms
    return costs.rerolled_product if few else 1


class TracedLoops:
    """The equations of a Graph as numbers.

    Attributes:
      words: for each equation a number, equal for those that may be the same equation of two steps.
      params: the same for its parameters.
      maker: for each operand the number of the equation that makes it; -1 for others.
      which: which output of it; a number of its own for other operands.
      least: the fewest equations of a loop.
    """

    def __init__(self, graph: Graph, least: int) -> None:
        self.graph, self.equations, self.least = graph, graph.equations, least
        count = len(graph.equations)
        self.words = np.empty(count, np.int64)
        weights = list(map(rerolled_weight, graph.equations))
        self.before = np.concatenate([[0], np.cumsum(weights, dtype=np.int64)])
        self.params = np.empty(count, np.int64)
        self.maker = np.full((count, costs.rerolled_operands), -1, np.int64)
        self.which = np.full((count, costs.rerolled_operands), -1, np.int64)
        made: dict[Atom, tuple[int, int]] = {}
        seen: dict[Hashable, int] = {}
        for n, equation in enumerate(graph.equations):
            word = _word(equation)
            self.words[n] = seen.setdefault(n if word is None else word, len(seen))
            key = _params(equation)
            self.params[n] = seen.setdefault(("params", n) if key is None else key, len(seen))
            for k, atom in enumerate(equation.inputs[: costs.rerolled_operands]):
                if atom in made:
                    self.maker[n, k], self.which[n, k] = made[atom]
                else:
                    self.which[n, k] = seen.setdefault(_outside(atom), len(seen))
            made.update((v, (n, k)) for k, v in enumerate(equation.outputs))
        self.made = made

    def periods(self) -> Iterator[tuple[int, int, int]]:
        """Periods with their first equation and the end of the last one, the longest first."""
        periods = []
        for period in candidates(self.words):
            if period * (costs.rerolled_steps - 1) < len(self.words):
                for start, stop in runs(self._same(period)):
                    if stop - start < (costs.rerolled_steps - 1) * period:
                        break
                    if self._weight(start, stop) >= self.least:
                        periods.append((start - stop, period, start, stop + period))
        for _, period, start, stop in sorted(periods):
            yield period, start, stop

    def _weight(self, start: int, stop: int) -> int:
        return int(self.before[stop] - self.before[start])

    def _same(self, period: int) -> np.ndarray:
        """For each equation whether the one a period later may be the same of the next step."""
        same: np.ndarray = self.words[period:] == self.words[:-period]
        return same

    def loop(self, period: int, start: int, stop: int) -> TracedLoop | None:
        """The longest loop of a period within a range; None if all are too short."""
        start = self._boundary(period, start, stop)
        low, high = 0, (stop - start) // period
        for _ in range(costs.rerolled_divisions):
            first, last = start + low * period, start + high * period
            short = self._weight(first, last) < self.least
            if high - low < costs.rerolled_steps or short:
                return None
            checked = self._checked(period, start + low * period, high - low)
            if isinstance(checked, TracedLoop):
                outside = sum([self._weight(first + n, first + n + 1) for n in checked.outside])
                weight = self._weight(first, first + period) - outside
                return checked if weight * checked.times >= self.least else None
            if not 0 < checked < high - low:
                return None
            if 2 * checked < high - low:
                low += checked
            else:
                high = low + checked
        return None

    def _boundary(self, period: int, start: int, stop: int) -> int:
        """The first equation of a step: where the fewest values pass to the next step."""
        middle = start + period * ((stop - start) // period // 2)
        last: dict[tuple[int, int], int] = {}
        for n in range(middle, middle + period):
            for k in range(costs.rerolled_operands):
                maker = int(self.maker[n, k])
                if max(start, n - costs.rerolled_lags * period) <= maker:
                    shift = period * max(0, -((maker - middle) // period))
                    key = (maker + shift, int(self.which[n, k]))
                    last[key] = max(last.get(key, 0), n + shift)
        passing = np.zeros(period + 1, np.int64)  # differences
        for (maker, _), reader in last.items():
            length, first = min(reader - maker, period), (maker + 1 - start) % period
            passing[first] += 1
            passing[min(first + length, period)] -= 1
            if first + length > period:
                passing[0] += 1
                passing[first + length - period] -= 1
        return start + int(np.argmin(np.cumsum(passing[:-1])))

    def _checked(self, period: int, start: int, times: int) -> TracedLoop | int:
        """The loop of a range, or the step at which the range has to be divided; 0 if that does not
        help.
        """
        steps = slice(start, start + period * times)
        changes = np.diff(self.params[steps].reshape(times, period), axis=0) != 0
        outside = frozenset(np.flatnonzero(changes.any(axis=0)).tolist())
        loop = TracedLoop(start, period, times, outside)
        for position in range(period):
            for k in range(
                min(costs.rerolled_operands, len(self.equations[start + position].inputs))
            ):
                step = self._wrong(loop, position, k)
                if step is not None:
                    return int(np.argmax(changes[:, position])) + 1 if position in outside else step
        return loop

    def _operand(self, loop: TracedLoop, position: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        steps = slice(loop.start + position, loop.stop, loop.period)
        return self.maker[steps, k], self.which[steps, k]

    def _wrong(self, loop: TracedLoop, position: int, k: int) -> int | None:
        """The step at which an operand is not as in the steps before, 0 if it never is; None if it
        is what a loop can read.
        """
        maker, which = self._operand(loop, position, k)
        if position not in loop.outside:
            if self._same_in_all(loop, maker, which) or self._later(loop, maker, which) is not None:
                return None
        inner = maker >= loop.start
        if loop.outside:
            inner &= ~np.isin((maker - loop.start) % loop.period, list(loop.outside))
        if not inner.any():
            return None
        moved, same = np.diff(maker), np.diff(which) == 0
        kept = same & ((moved == loop.period) | (moved == 0))
        if not kept.all():
            return int(np.argmin(kept)) + 1
        return 0 if moved.any() else (int(maker[0]) - loop.start) // loop.period + 1

    def _same_in_all(self, loop: TracedLoop, maker: np.ndarray, which: np.ndarray) -> bool:
        one = (maker == maker[0]).all() and (which == which[0]).all()
        return bool(one) and int(maker[0]) < loop.start

    def _later(self, loop: TracedLoop, maker: np.ndarray, which: np.ndarray) -> StepValue | None:
        """The value of this or of an earlier step that an operand is in all steps."""
        first = int(maker[0]) - loop.start
        lag, position = -(first // loop.period), first % loop.period
        regular = (np.diff(maker) == loop.period).all() and (which == which[0]).all()
        made = regular and int(maker[0]) >= 0
        if not made or lag > costs.rerolled_lags or position in loop.outside:
            return None
        return StepValue(position, int(which[0]), lag)

    def operand(self, loop: TracedLoop, position: int, k: int) -> Atom | StepValue | list[Atom]:
        """What an operand is: the same in all steps, made by a step, or one value for each step."""
        maker, which = self._operand(loop, position, k)
        atoms = [
            e.inputs[k] for e in self.equations[loop.start + position : loop.stop : loop.period]
        ]
        if self._same_in_all(loop, maker, which):
            return atoms[0]
        return self._later(loop, maker, which) or atoms


def _word(equation: Equation) -> Hashable | None:
    """What equations of two steps have in common; None for one that is in no loop."""
    many = len(equation.inputs) > costs.rerolled_operands
    if many or effectful(equation) or not is_pure(equation):
        return None
    source = equation.source
    types = [(a.type.shape, a.type.dtype, a.type.weak, type(a) is Literal) for a in equation.inputs]
    made = [(v.type.shape, v.type.dtype, v.type.weak) for v in equation.outputs]
    line = (source.file, source.line) if source else None
    return (equation.primitive, line, equation.scope, equation.backward, *types, *made)


def _params(equation: Equation) -> Hashable | None:
    """A key of the parameters; None if they are not comparable."""
    if not equation.params:
        return ()
    key = tuple([(name, _param(value)) for name, value in equation.params.items()])
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _param(value: Any) -> Hashable:
    if isinstance(value, Graph):
        return ("graph", _text(value))
    if type(value) is tuple:
        return tuple(map(_param, value))
    key: Hashable = key_part(value)
    return key


def _text(graph: Graph) -> Hashable:
    """A key that only Graphs of the same equations share."""

    def make() -> Hashable:
        numbers: dict[Atom, int] = {}
        for variable in (*graph.inputs, *[v for e in graph.equations for v in e.outputs]):
            numbers[variable] = len(numbers)

        def atom(a: Atom) -> Hashable:
            return _outside(a) if isinstance(a, Literal) else (numbers.get(a, a), a.type)

        lines = [(_word(e), _params(e), tuple(map(atom, e.inputs))) for e in graph.equations]
        if graph.constants or any(None in line for line in lines):
            return id(graph)
        return (tuple(map(atom, graph.inputs)), *lines, tuple(map(atom, graph.outputs)))

    result: Hashable = memoised(graph, "text", make)
    return result


def _outside(atom: Atom) -> Hashable:
    """A key of an operand that no equation makes."""
    if isinstance(atom, Literal):
        return ("literal", type(atom.value), repr(atom.value))
    return ("variable", atom)
