"""Reverse mode. VjpTrace keeps a tape; the pullback walks it backwards under the current trace.

That makes grad of grad, vmap of grad and staged grad one code path. An equation that depends on no
differentiated input is not recorded: a stopped region keeps no residual and makes no backward
equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from fungrad.ir.canonical import DOUBLE
from fungrad.ir.types import of_doubles
from fungrad.primitives.elementwise.family import plain
from fungrad.primitives.primitive import types_of
from fungrad.tracing.aliasing import private, received, with_memory
from fungrad.tracing.captured_arrays import (
    SMALL,
    CopyingGuards,
    WriteGuards,
    forget_ended,
    locked_memory,
)
from fungrad.tracing.provenance import backward_provenance, replayed
from fungrad.tracing.trace import (
    EVAL,
    NO_PARAMS,
    STRONG,
    Trace,
    Tracer,
    current,
    enter,
    leave,
    refuse_kept,
    transforming,
    typeof,
)
from fungrad.tracing.traced_again import traced
from fungrad.transforms.engine.tape import NUMBERS, ONE, READS, TWO, Tape, walk

blank = object.__new__
"""Makes a Tracer in a third of the time of a call of its class."""


class VjpTrace(Trace):
    """Observes a function under reverse mode. A tracer's `value` is its primal, its `extra` its
    slot.

    Slots count from 1; slot 0 is a value that is not differentiated. The tape (`Tape`) holds one
    record for each equation that depends on a differentiated input: (primitive, params, input
    slots, args, output, output slot or slots, place). The place, the user's line and scope, is
    known only if a Graph is recorded; or it names another form of record (`tape.NUMBERS`, ...).
    """

    __slots__ = ("note", "slots", "tape")

    def __init__(
        self,
        parent: Trace,
        label: Callable[[], str],
        keeper: WriteGuards | None = None,
        tape: Tape | None = None,
    ) -> None:
        Trace.__init__(self, parent, label)
        if locked_memory:
            forget_ended()
        self.tape = Tape() if tape is None else tape
        self.note = self.tape.extend if parent is EVAL else None
        self.slots = 0
        if self.keeper is None:
            self.keeper = keeper

    def tracer(self, value: Any) -> Tracer:
        """A new tracer of a differentiated value."""
        self.slots += 1
        return Tracer(self, value, self.slots)

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        if self.parent is not EVAL or not primitive.simple:
            return self._any(primitive, args, params)
        values = []
        slots = []
        for arg in args:
            if type(arg) is not Tracer:
                values.append(arg)
                slots.append(0)
            elif arg.owner is self:
                values.append(arg.inner)
                slots.append(arg.extra)
            else:
                return self._any(primitive, args, params)
        output = saved = primitive.eval(*values, **params)
        if primitive.keep is not None:
            values = primitive.keep(values)
            saved = None
        if 0 in slots:
            if not any(slots):
                return output
            values = self._kept(primitive, values, slots)
        self.slots = slot = self.slots + 1
        self.tape.extend((primitive, params, tuple(slots), tuple(values), saved, slot, None))
        traced = blank(Tracer)
        traced.owner = self
        traced.inner = output
        traced.extra = slot
        return traced

    def one(self, primitive: Any, x: Tracer, params: dict[str, Any] = NO_PARAMS) -> Any:
        if x.owner is not self or not primitive.simple or self.parent is not EVAL:
            return self.process(primitive, (x,), params)
        value = x.inner
        if primitive.plain and type(value) in STRONG:
            output = primitive.eval(value)
            self.slots = slot = self.slots + 1
            self.tape.extend((primitive, params, x.extra, (value,), output, slot, ONE))
        else:
            kept: Any = (value,)
            output = saved = primitive.eval(value, **params)
            if primitive.keep is not None:
                kept = primitive.keep(kept)
                saved = None
            self.slots = slot = self.slots + 1
            self.tape.extend((primitive, params, (x.extra,), kept, saved, slot, None))
        traced = blank(Tracer)
        traced.owner = self
        traced.inner = output
        traced.extra = slot
        return traced

    def item(self, getitem: Any, x: Tracer, index: Any) -> Any:
        params = index.params or {"index": index}
        value = x.inner
        if self.note is None or x.owner is not self or type(value) is not ndarray:
            return self.process(getitem, (x,), params)
        kept = of_doubles(value.shape) if value.dtype is DOUBLE else types_of((value,))
        output = value[index.entries]
        self.slots = slot = self.slots + 1
        self.note((getitem, params, (x.extra,), kept, None, slot, READS))
        traced = blank(Tracer)
        traced.owner = self
        traced.inner = output
        traced.extra = slot
        return traced

    def _any(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        """As `process`, of any primitive, under any trace."""
        values = []
        slots = []
        foreign = False
        for arg in args:
            if type(arg) is Tracer:
                if arg.owner is self:
                    values.append(arg.inner)
                    slots.append(arg.extra)
                    continue
                foreign = True
            values.append(arg)
            slots.append(0)
        cuts = primitive.cuts
        if cuts:
            slots = [0 if cuts is True or i in cuts else slot for i, slot in enumerate(slots)]
        active = any(slots)
        if active and foreign:
            refuse_kept(self, args)
        if active and primitive.forward is not None:
            return self._forward(primitive, values, slots, params)
        if self.records and active:  # the Graph then has the residual as the same constant
            values = self._kept(primitive, values, slots)
        if self.parent is EVAL and not foreign:
            output = primitive.eval(*values, **params)
        else:
            output = self.parent.process(primitive, values, params)  # type: ignore[union-attr]
        if not active:
            return output
        saved = output
        if primitive.keep is not None:
            values = primitive.keep(values)
            saved = None
        if not self.records:
            values = self._kept(primitive, values, slots)
        return self._record(primitive, params, slots, values, output, saved)

    def _kept(self, primitive: Any, values: Any, slots: Any) -> list[Any]:
        """The arguments, with arrays that the program may write into kept as they are now."""
        reads = primitive.reads
        if 0 not in slots or (reads is not None and not reads):
            return values  # type: ignore[no-any-return]
        return [
            (self.keeper.keep(value) if type(value) is ndarray else private(value))
            if not slots[i] and (reads is None or i in reads)
            else value
            for i, value in enumerate(values)
        ]

    def _forward(self, primitive: Any, values: Any, slots: Any, params: Any) -> Any:
        values = self._kept(primitive, values, slots)
        token = enter(self.parent)  # type: ignore[arg-type]
        try:
            output, saved, kept = primitive.forward(values, slots, **params)
        finally:
            leave(token)
        return self._record(primitive, params, slots, kept, output, saved)

    def _record(
        self, primitive: Any, params: Any, slots: Any, args: Any, output: Any, saved: Any
    ) -> Any:
        out: Any
        if primitive.multiple:
            traced: Any = tuple([self.tracer(o) if typeof(o).inexact else o for o in output])
            out = [t.extra if t is not o else 0 for t, o in zip(traced, output, strict=True)]
        else:
            self.slots = out = self.slots + 1
            traced = Tracer(self, output, out)
        origin = backward_provenance() if self.records else None
        record = (primitive, params, tuple(slots), tuple(args), saved, out, origin)
        self.tape.extend(record)
        return traced

    def prune(self, reached: Sequence[int]) -> None:
        """Drops the records, and so the residuals, that do not reach the given slots."""
        live = set(reached)
        kept: list[Any] = []
        for record in self.tape.backwards():
            origin, out, _, _, slots, other, _ = record
            if out in live if type(out) is int else not live.isdisjoint(out):
                if origin is NUMBERS or origin is TWO:
                    slots = slots, other
                live.update(filter(None, (slots,) if type(slots) is int else slots))
                kept.extend(record)
        self.tape = Tape(kept[::-1])
        self.note = None  # it holds the whole tape

    def apart(self, values: Sequence[Any]) -> list[Any]:
        """The values as arrays that the tape does not hold."""
        held: set[int] = set()
        opaque = False
        for primitive, _, _, args, output, _, origin in self.tape.records():
            if origin is NUMBERS:
                continue
            opaque = opaque or primitive.multiple or primitive.forward is not None
            for array in (*args, output):
                if type(array) is ndarray:
                    held.add(id(array))
                    held.add(id(array.base))
        return [
            v.copy("K") if type(v) is ndarray and (opaque or id(v) in held) else v for v in values
        ]

    def origin(self, tracer: Tracer) -> str:
        for primitive, _, _, _, _, out, _ in self.tape.records():
            if out == tracer.extra or (type(out) is list and tracer.extra in out):
                return f", made by `{primitive.name}`,"
        return ", an input of the differentiated function,"


def backward(trace: VjpTrace, seeds: Sequence[tuple[int, Any]], wanted: int) -> list[Any]:
    """The cotangents of the slots 1 to `wanted`; None if no output depends on the slot.

    `seeds` are (slot, cotangent) pairs of the outputs.
    """
    cotangents: list[Any] = [None] * (trace.slots + 1)
    for slot, seed in seeds:
        held = cotangents[slot]
        cotangents[slot] = seed if held is None else held + seed
    if not trace.records:
        walk(trace.tape, cotangents)
    else:  # backward equations keep the user's line of the forward equation
        token = replayed.set(replayed.get())
        try:
            walk(trace.tape, cotangents)
            return [plain(c) for c in cotangents[1 : wanted + 1]]
        finally:
            replayed.reset(token)
    return [plain(c) for c in cotangents[1 : wanted + 1]]


transforming.add(backward.__code__)


def _input(trace: VjpTrace, value: Any) -> Tracer:
    """The tracer of an input, which the trace keeps as it is now."""
    if type(value) is not ndarray:
        return received(trace.tracer(private(value)), value)
    if value.nbytes <= SMALL and type(trace.keeper) is WriteGuards:  # the usual case
        kept = value.copy("K")
    else:
        kept = trace.keeper.keep(value)
    return trace.tracer(kept) if value.ndim else with_memory(trace.tracer(kept))


def linearized(
    f: Callable[..., Sequence[Any]],
    inputs: Sequence[Any],
    label: Callable[[], str],
    keeper: WriteGuards | None = None,
    handed: bool = False,
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    """Runs a function of flat inexact arguments; returns its flat outputs and its flat pullback.

    The pullback takes one cotangent or None for each output (the last ones may be left out), and
    returns one or None for each input. It may be called many times, also under other traces.

    Args:
      f: the function.
      inputs: its arguments.
      label: describes the transform, for messages.
      keeper: holds the arrays of the program that the pullback needs, if the pullback is called
        before `keeper.release()`; without a keeper they are copied.
      handed: whether outputs and pullback go to the user: then outputs share no array with the
        pullback, which keeps only the records that it needs.
    """

    def run() -> tuple[VjpTrace, Sequence[Any]]:
        trace = VjpTrace(current(), label, keeper or CopyingGuards())
        tracers = [trace.tracer(v) if type(v) is float else _input(trace, v) for v in inputs]
        try:
            under: Any = trace.parent
            if under.differentiated is None:
                return trace, trace.run(f, *tracers)
            found: tuple[VjpTrace, Sequence[Any]] = under.differentiated(trace, f, tracers)
            return found
        except ValueError as error:
            refused = None if trace.records else trace.keeper.refused(error)
            if refused is None:
                raise
            raise refused.with_traceback(error.__traceback__) from None
        finally:
            trace.ended = True
            if keeper is None and trace.parent.keeper is None:  # type: ignore[union-attr]
                try:
                    trace.keeper.release()
                except BaseException:  # an interrupt has cut it short
                    trace.keeper.release()
                    raise

    trace, results = traced(run, label, f)
    values = []
    slots = []
    for result in results:
        mine = type(result) is Tracer and result.owner is trace
        value = result.inner if mine else result
        values.append(private(value) if type(value) is Tracer else value)
        slots.append(result.extra if mine else 0)
    if handed:
        trace.prune([slot for slot in slots if slot])
        if trace.parent is EVAL:
            values = trace.apart(values)

    def pullback(cotangents: Sequence[Any]) -> list[Any]:
        seeds = [(s, c) for s, c in zip(slots, cotangents, strict=False) if s and c is not None]
        return backward(trace, seeds, len(inputs))

    return values, pullback
