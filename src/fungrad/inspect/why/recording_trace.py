"""WhyTrace, a reverse mode that records everything, and its backward walk.

It computes the same values as grad, and also keeps the cuts, the user's lines and all cotangents;
calls, branches and loops are unfolded into their equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fungrad.control_flow.unroll import size_of, unfold, unfolds
from fungrad.inspect.why.ablate_stops import inner_cuts
from fungrad.ir.graph import Equation, Source
from fungrad.primitives.elementwise.family import plain, whole
from fungrad.primitives.stop_gradient import stop
from fungrad.tracing.concrete_answers import T
from fungrad.tracing.provenance import provenance
from fungrad.tracing.trace import Trace, Tracer, enter, leave, typeof
from fungrad.transforms.engine.tape import Tape, walk

MOST_EQUATIONS = 100_000
"""The limit of recorded equations: a loop that would exceed it stays one equation."""


class Record(NamedTuple):
    """One equation that a differentiated input reaches, with its values."""

    primitive: Any
    params: dict[str, Any]
    slots: list[int]
    """The slot of each argument; 0 if it is not differentiated."""
    args: tuple[Any, ...]
    outputs: tuple[Any, ...]
    out: list[int]
    tape: tuple[Any, ...]
    """The tape entry for reverse mode's walk."""
    source: Source | None
    scope: str


class Cut(NamedTuple):
    """A place where a value that depends on a differentiated input has no derivative."""

    what: str
    name: str | None
    """The name of a stop; None for other cuts."""
    stops: bool
    slots: tuple[int, ...]
    source: Source | None


class Step(NamedTuple):
    """The backward step of one record: cotangents of its outputs and inputs."""

    given: dict[int, Any]
    found: dict[int, Any]
    error: str = ""
    """The error that the rule raised; its cotangents are NaN then."""


class WhyTrace(Trace):
    """Records a function as VjpTrace does, and keeps the values that explain its derivative.

    It is not a VjpTrace, so that a checkpointed function is recorded like any other.
    """

    __slots__ = ("cuts", "equations", "slots")

    def __init__(self, parent: Trace, label: Callable[[], str]) -> None:
        super().__init__(parent, label)
        self.records = True
        self.slots = 0
        self.equations: list[Record] = []
        self.cuts: list[Cut] = []

    def tracer(self, value: Any) -> Tracer:
        """A new tracer of a differentiated value."""
        self.slots += 1
        return Tracer(self, value, self.slots)

    def concrete(
        self, tracer: Tracer, error: type[Exception], asked: str, read: Callable[[Any], T]
    ) -> T:
        source = provenance().source
        self.cuts.append(Cut(f"Python's {asked}", None, False, (tracer.extra,), source))
        return super().concrete(tracer, error, asked, read)

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        parent: Trace = self.parent  # type: ignore[assignment]
        mine = [type(arg) is Tracer and arg.owner is self for arg in args]
        if not any(mine):
            return parent.process(primitive, args, params)
        if unfolds(primitive):
            left, size = MOST_EQUATIONS - len(self.equations), size_of(primitive, params)
            if size <= left:
                return self.run(unfold, primitive, args, params, left // max(size, 1))
            self._look_inside(primitive, args, mine, params)
        values = [arg.inner if own else arg for arg, own in zip(args, mine, strict=True)]
        slots = [arg.extra if own else 0 for arg, own in zip(args, mine, strict=True)]
        source, scope, _ = provenance()
        slots = self._left(primitive, params, slots, source)
        if not any(slots):
            return parent.process(primitive, values, params)
        kept: Any = values
        if primitive.forward is not None:
            token = enter(parent)
            try:
                output, saved, kept = primitive.forward(values, slots, **params)
            finally:
                leave(token)
        else:
            output = saved = parent.process(primitive, values, params)
            if primitive.keep is not None:
                kept, saved = primitive.keep(values), None
        return self._keep(primitive, params, slots, values, kept, output, saved, source, scope)

    def _left(
        self, primitive: Any, params: dict[str, Any], slots: list[int], source: Source | None
    ) -> list[int]:
        """The slots of operands, 0 for those that the primitive cuts off; records these."""
        cuts = primitive.cuts
        lost = [s for i, s in enumerate(slots) if s and (cuts is True or i in (cuts or ()))]
        if not lost:
            return slots
        name = params.get("name")
        self.cuts.append(Cut(primitive.name, name, primitive is stop, tuple(lost), source))
        return [] if cuts is True else [0 if slot in lost else slot for slot in slots]

    def _look_inside(
        self, primitive: Any, args: Any, mine: list[bool], params: dict[str, Any]
    ) -> None:
        """Records the cuts inside a loop that is too long to be unfolded."""
        equation = Equation(primitive, (), (), params)
        for position, (arg, own) in enumerate(zip(args, mine, strict=True)):
            for cut in inner_cuts(equation, position) if own else ():
                name, stops = cut.params.get("name"), cut.primitive is stop
                self.cuts.append(Cut(cut.primitive.name, name, stops, (arg.extra,), cut.source))

    def _keep(
        self, primitive: Any, params: Any, slots: list[int], values: Any, kept: Any, output: Any,
        saved: Any, source: Source | None, scope: str,
    ) -> Any:  # fmt: skip
        outputs = tuple(output) if primitive.multiple else (output,)
        traced = tuple(
            self.tracer(o) if not primitive.multiple or typeof(o).inexact else o for o in outputs
        )
        out = [t.extra if type(t) is Tracer else 0 for t in traced]
        whole: Any = out if primitive.multiple else out[0]
        tape = (primitive, params, slots, kept, saved, whole, None)
        self.equations.append(
            Record(primitive, params, slots, tuple(values), outputs, out, tape, source, scope)
        )
        return traced if primitive.multiple else traced[0]


class _Slots(dict[int, Any]):
    """Cotangents by slot; None for slots without one."""

    def __missing__(self, slot: int) -> None:
        return None


def walked_back(
    trace: WhyTrace, seeds: Sequence[tuple[int, Any]]
) -> tuple[list[Step | None], dict[int, Any]]:
    """The backward step of each record (None if not reached), and the cotangents by slot."""
    total = _Slots()
    for slot, seed in seeds:
        total[slot] = seed if total[slot] is None else total[slot] + seed
    steps: list[Step | None] = [None] * len(trace.equations)
    for index in range(len(steps) - 1, -1, -1):
        record = trace.equations[index]
        given = {slot: total[slot] for slot in record.out if slot and total[slot] is not None}
        if not given:
            continue
        local: Any = _Slots(given)
        error = ""
        try:
            walk(Tape(record.tape), local)
        except Exception as raised:  # part of the explanation
            error = f"{type(raised).__name__}: {raised}"
            local = _Slots(given)
            for slot, arg in zip(record.slots, record.args, strict=True):
                if slot:
                    local[slot] = np.full(typeof(arg).shape, np.nan, typeof(arg).dtype)[()]
        totals = {s: whole(local[s]) for s in set(record.slots) if s and local[s] is not None}
        for slot, cotangent in totals.items():
            held = total[slot]
            total[slot] = cotangent if held is None else held + cotangent
        steps[index] = Step(
            {s: plain(c) for s, c in given.items()}, {s: plain(c) for s, c in totals.items()}, error
        )
    return steps, {slot: plain(c) for slot, c in total.items()}
