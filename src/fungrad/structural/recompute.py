"""Floor 5: checkpoint in eager reverse mode, where Python runs on values and nothing is recorded.

The trace that differentiates gets one record for the whole function: the values of its inputs and
of what it closes over, found while it runs. The backward pass runs the function again under a trace
of its own. What a policy keeps is known by its place in the sequence of primitives, which is the
same both times.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.primitives.declare import Primitive
from fungrad.structural.calling import Substituted
from fungrad.structural.policies import Budget, Policy, save_nothing, size_in_bytes, work
from fungrad.structural.schedule import again
from fungrad.tracing.residuals import Residuals
from fungrad.tracing.trace import Trace, Tracer, current, typeof
from fungrad.transforms.reverse import VjpTrace, linearized

Flat = Callable[..., Sequence[Any]]


class Peeled(Trace):
    """Runs a function on the values under the tracers of another trace, and notes which it met."""

    __slots__ = ("met", "of_trace", "values", "wrap")

    def __init__(self, parent: Trace, of_trace: Trace, wrap: Callable[[Any], Any]) -> None:
        super().__init__(parent, parent.label)
        self.of_trace = of_trace
        self.wrap = wrap
        self.met: list[Tracer] = []
        self.values: dict[int, Any] = {}

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        parent: Trace = self.parent  # type: ignore[assignment]
        return parent.process(primitive, [self.of(arg) for arg in args], params)

    def stands_for(self, tracer: Tracer) -> bool:
        return tracer.owner is self.of_trace

    def of(self, value: Any) -> Any:
        """The value that stands for another."""
        if value.__class__ is not Tracer or not self.stands_for(value):
            return value
        if id(value) not in self.values:
            self.met.append(value)
            self.values[id(value)] = self.wrap(value.value)
        return self.values[id(value)]

    def over(self, parent: Trace) -> Peeled:
        """The same above another trace; what either meets, both know."""
        copy = Peeled(parent, self.of_trace, self.wrap)
        copy.met, copy.values = self.met, self.values
        return copy


class Saving(Trace):
    """Keeps the outputs of the primitives that a policy names, by their place in the sequence."""

    __slots__ = ("_count", "_heap", "_left", "_policy", "saved")

    def __init__(self, parent: Trace, policy: Policy) -> None:
        super().__init__(parent, parent.label)
        self._policy = policy
        self._count = 0
        self._left = policy.nbytes if isinstance(policy, Budget) else 0
        self._heap: list[tuple[float, int, int]] = []
        self.saved: dict[int, Any] = {}

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        parent: Trace = self.parent  # type: ignore[assignment]
        output = parent.process(primitive, args, params)
        self._count += 1
        if isinstance(self._policy, Budget):
            self._weigh(primitive, params, args, output)
        elif self._policy(primitive, params):
            self.saved[self._count] = output
        return output

    def _weigh(self, primitive: Any, params: dict[str, Any], args: Any, output: Any) -> None:
        """Keeps an output within the budget, in place of others that are cheaper for their size."""
        types = [typeof(o) for o in (output if primitive.multiple else (output,))]
        nbytes = size_in_bytes(types)
        cost = work(primitive, params, [typeof(arg) for arg in args], types)
        if not cost or not nbytes:
            return
        heapq.heappush(self._heap, (cost / nbytes, self._count, nbytes))
        self.saved[self._count] = output
        self._left -= nbytes
        while self._left < 0:
            _, index, freed = heapq.heappop(self._heap)
            del self.saved[index]
            self._left += freed


class Replayed(Trace):
    """Gives what was kept in the place of computing it again."""

    __slots__ = ("_count", "_saved")

    def __init__(self, parent: Trace, saved: dict[int, Any]) -> None:
        super().__init__(parent, parent.label)
        self._count = 0
        self._saved = saved

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        self._count += 1
        if self._count in self._saved:
            return self._saved[self._count]
        parent: Trace = self.parent  # type: ignore[assignment]
        return parent.process(primitive, args, params)


class _Nowhere(list[Any]):
    """A tape that keeps nothing."""

    def append(self, item: Any) -> None:
        pass


def recomputed(f: Flat, values: Sequence[Any], policy: Policy) -> Sequence[Any]:
    """The outputs of f under the current trace; one record on the tape of each reverse mode."""
    trace = current()
    if isinstance(trace, (Peeled, Substituted)):
        inner = f

        def f_over(*xs: Any) -> Sequence[Any]:
            above = trace.over(current())
            return [above.of(o) for o in above.run(inner, *xs)]

        parent: Trace = trace.parent  # type: ignore[assignment]
        results: Sequence[Any] = parent.run(
            recomputed, f_over, [trace.of(v) for v in values], policy
        )
        return results
    if not isinstance(trace, VjpTrace):
        return f(*values)
    mine = [i for i, v in enumerate(values) if v.__class__ is Tracer and v.owner is trace]
    plain = [v.value if i in mine else v for i, v in enumerate(values)]
    outputs, met, saved = trace.parent.run(_first, f, plain, mine, trace, policy)  # type: ignore[union-attr]
    tracers = [*(values[i] for i in mine), *met]
    if not tracers:
        return list(outputs)

    def again(*xs: Any) -> Sequence[Any]:
        merged = list(plain)
        for i, x in zip(mine, xs, strict=False):
            merged[i] = x
        if not met:
            return f(*merged)
        above = Substituted(current(), met, xs[len(mine) :])
        return [above.of(o) for o in above.run(f, *merged)]

    primals = [t.value for t in tracers]
    traced: Sequence[Any] = trace._record(
        recompute, {}, [t.extra for t in tracers], [typeof(p) for p in primals], outputs,
        (again, primals, saved),
    )  # fmt: skip
    return traced


def _first(
    f: Flat, plain: Sequence[Any], mine: Sequence[int], trace: Trace, policy: Policy
) -> tuple[list[Any], list[Tracer], dict[int, Any]]:
    """Runs f on values: its outputs, the tracers that it closes over, and what the policy keeps."""
    notes: list[Peeled] = []

    def below(*xs: Any) -> Sequence[Any]:
        peeled = Peeled(current(), trace, wrap)
        notes.append(peeled)
        return [peeled.of(o) for o in peeled.run(f, *xs)]

    if policy is save_nothing:

        def wrap(value: Any) -> Any:
            return value

        outputs = list(recomputed(below, plain, policy))
        return outputs, notes[0].met, {}
    saving = Saving(current(), policy)
    forgetful = VjpTrace(saving, saving.label, trace.keeper)
    forgetful.tape = _Nowhere()
    wrap = forgetful.tracer
    given = [forgetful.tracer(v) if i in mine else v for i, v in enumerate(plain)]
    found = forgetful.run(below, *given)
    outputs = [o.value if o.__class__ is Tracer and o.owner is forgetful else o for o in found]
    return outputs, notes[0].met, saving.saved


def _vjp(cotangents: Any, saved: Any, args: Any, wanted: Any) -> list[Any]:
    below, primals, kept = saved
    above = Replayed(current(), kept) if kept else current()
    keeper = Residuals(copies=False)
    try:
        _, pullback = again(above.run)(
            linearized, below, primals, lambda: "a checkpointed function", keeper
        )
        return list(pullback(cotangents))
    finally:
        keeper.release()


def _never(*args: Any, **params: Any) -> Any:
    raise AssertionError("recompute stands on tapes only")


recompute = Primitive("recompute", eval=_never, type=_never, vjp=_vjp, multiple=True, batch=_never)
"""What a checkpointed function is on the tape of an eager reverse mode; no program holds it."""
