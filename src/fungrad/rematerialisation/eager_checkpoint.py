"""checkpoint in eager reverse mode, where Python runs on values and nothing is recorded.

The differentiating trace gets one record for the whole function: the values of its inputs, and of
the tracers that it closes over, found while it runs. The backward pass runs the function again
under another trace. A kept value is identified by its position in the sequence of primitives, which
is the same in both runs. The untraced values that the function reads have to be the same, too;
`Reads` compares them.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fungrad.control_flow.loop_reverse import again
from fungrad.custom_rules.closures_and_arguments import Substituted
from fungrad.errors import ItemAssignmentError
from fungrad.ir.types import size_in_bytes
from fungrad.primitives.primitive import Primitive
from fungrad.rematerialisation.policies import Budget, Policy, save_nothing, work
from fungrad.retracing.fingerprint import fingerprint
from fungrad.tracing.captured_arrays import WriteGuards, guarded
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Trace, Tracer, content, current, typeof
from fungrad.transforms.engine.reverse import VjpTrace, linearized
from fungrad.transforms.engine.tape import Tape

Flat = Callable[..., Sequence[Any]]


class Reads:
    """The untraced values that a function reads, as a 64-bit hash for each primitive.

    The first run records them, the second run has to read the same.
    """

    __slots__ = ("_hashes", "_next", "_over")

    def __init__(self) -> None:
        self._hashes = array("q")
        self._next = -1
        self._over = False

    def again(self) -> Reads:
        """A copy for a second run, which compares."""
        copy = Reads()
        copy._hashes, copy._next = self._hashes, 0
        return copy

    def see(self, primitive: Any, args: Any, params: dict[str, Any]) -> None:
        """Records the untraced operands of a primitive, or compares them.

        Raises:
          ItemAssignmentError: if they differ from those of the first run.
        """
        if self._over:  # a part is recomputed once more, with its own comparison
            return
        seen = hash((primitive.name, fingerprint((*args, *params.values()))))
        if self._next < 0:
            self._hashes.append(seen)
            return
        if self._next >= len(self._hashes) or self._hashes[self._next] != seen:
            raise _changed(f"`{primitive.name}`{user_line()} gets other operands than before")
        self._next += 1

    def end(self) -> None:
        """Ends the recording or the comparison.

        Raises:
          ItemAssignmentError: if the second run was shorter than the first one.
        """
        self._over = True
        if 0 <= self._next < len(self._hashes):
            raise _changed(f"it ends after {self._next} of {len(self._hashes)} operations")


def _changed(how: str) -> ItemAssignmentError:
    return ItemAssignmentError(
        f"A checkpointed function, which runs again for its derivative, has changed since: {how}. "
        "An array or a number that it closes over was written into or bound anew in the meantime, "
        "or it draws random numbers. Pass such values as arguments, and make new arrays: "
        "`c = c * 2` for `c *= 2`."
    )


class Peeled(Trace):
    """Runs a function on the values under the tracers of another trace; records the tracers that it
    meets, and the other values that the function reads.
    """

    __slots__ = ("met", "of_trace", "reads", "values", "wrap")

    def __init__(
        self, parent: Trace, of_trace: Trace, wrap: Callable[[Any], Any], reads: Reads
    ) -> None:
        super().__init__(parent, parent.label)
        self.of_trace = of_trace
        self.wrap = wrap
        self.reads = reads
        self.met: list[Tracer] = []
        self.values: dict[tuple[int, int, int], Any] = {}

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        parent: Trace = self.parent  # type: ignore[assignment]
        self.reads.see(primitive, args, params)
        return parent.process(primitive, [self.of(arg) for arg in args], params)

    def stands_for(self, tracer: Tracer) -> bool:
        return tracer.owner is self.of_trace

    def of(self, value: Any) -> Any:
        """The value under a tracer of `of_trace`; any other value itself."""
        if type(value) is not Tracer or not self.stands_for(value):
            return value
        if content(value) not in self.values:
            self.met.append(value)
            self.values[content(value)] = self.wrap(value.inner)
        return self.values[content(value)]

    def over(self, parent: Trace) -> Peeled:
        """The same above another trace; both share their records."""
        copy = Peeled(parent, self.of_trace, self.wrap, self.reads)
        copy.met, copy.values = self.met, self.values
        return copy


class Again(Substituted):
    """Runs a function again, with other values in place of traced ones that it closes over."""

    __slots__ = ("reads",)

    def __init__(
        self, parent: Trace, tracers: Sequence[Tracer], values: Sequence[Any], reads: Reads
    ) -> None:
        super().__init__(parent, tracers, values)
        self.reads = reads

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        self.reads.see(primitive, args, params)
        return super().process(primitive, args, params)

    def over(self, parent: Trace) -> Again:
        """The same substitution, and the same comparison, above another trace."""
        values = [self._values[content(tracer)] for tracer in self._kept]
        return Again(parent, self._kept, values, self.reads)


class Saving(Trace):
    """Keeps the outputs of the primitives that a policy selects, by position in the sequence."""

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
        """Keeps an output within the budget; drops outputs that are cheaper for their size."""
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
    """Returns kept outputs instead of recomputing them."""

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


class _Nowhere(Tape):
    """A tape that keeps nothing."""

    __slots__ = ()

    def extend(self, items: Iterable[Any]) -> None:
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
    mine = [i for i, v in enumerate(values) if type(v) is Tracer and v.owner is trace]
    plain = [v.inner if i in mine else v for i, v in enumerate(values)]
    outputs, met, reads, saved = trace.parent.run(_first, f, plain, mine, trace, policy)  # type: ignore[union-attr]
    tracers = [*(values[i] for i in mine), *met]
    if not tracers:
        return list(outputs)

    def again(*xs: Any) -> Sequence[Any]:
        merged = list(plain)
        for i, x in zip(mine, xs, strict=False):
            merged[i] = x
        compared = reads.again()
        above = Again(current(), met, xs[len(mine) :], compared)
        results = [above.of(o) for o in above.run(f, *merged)]
        compared.end()
        return results

    primals = [t.inner for t in tracers]
    traced: Sequence[Any] = trace._record(
        recompute, {}, [t.extra for t in tracers], [typeof(p) for p in primals], outputs,
        (again, primals, saved),
    )  # fmt: skip
    return traced


def _first(
    f: Flat, plain: Sequence[Any], mine: Sequence[int], trace: Trace, policy: Policy
) -> tuple[list[Any], list[Tracer], Reads, dict[int, Any]]:
    """Runs f on values, under a reverse mode without a tape, so that it calls the same primitives
    as in the second run. Returns its outputs, the tracers that it closes over, the other values
    that it reads, and the values that the policy keeps.
    """
    notes: list[Peeled] = []
    saving = Saving(current(), policy)

    def below(keeper: WriteGuards, xs: Sequence[Any]) -> Sequence[Any]:
        forgetful = VjpTrace(current(), trace.label, keeper, _Nowhere())
        forgetful.keeper = keeper  # the outer one would keep values that are recomputed
        peeled = Peeled(forgetful, trace, forgetful.tracer, Reads())
        notes.append(peeled)
        given = [forgetful.tracer(x) if i in mine else x for i, x in enumerate(xs)]
        try:
            outputs = [peeled.of(o) for o in forgetful.run(peeled.run, f, *given)]
        except ValueError as error:
            raise (keeper.refused(error) or error).with_traceback(error.__traceback__) from None
        peeled.reads.end()
        return [o.inner if type(o) is Tracer and o.owner is forgetful else o for o in outputs]

    def guarded_below(*xs: Any) -> Sequence[Any]:
        return guarded(below, xs)

    if policy is save_nothing:
        outputs = list(recomputed(guarded_below, plain, policy))
    else:
        outputs = list(saving.run(guarded_below, *plain))
    return outputs, notes[0].met, notes[0].reads, saving.saved


def _vjp(cotangents: Any, saved: Any, args: Any, wanted: Any) -> list[Any]:
    below, primals, found = saved
    above = Replayed(current(), found) if found else current()

    def pulled(keeper: WriteGuards) -> list[Any]:
        label = lambda: "a checkpointed function"  # noqa: E731
        _, pullback = again(above.run)(linearized, below, primals, label, keeper)
        return list(pullback(cotangents))

    return guarded(pulled)


def _never(*args: Any, **params: Any) -> Any:
    raise AssertionError("recompute stands on tapes only")


recompute = Primitive("recompute", eval=_never, type=_never, vjp=_vjp, multiple=True, batch=_never)
"""A checkpointed function on the tape of an eager reverse mode; no program holds it."""
