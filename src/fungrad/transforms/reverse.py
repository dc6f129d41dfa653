"""Floor 4: reverse mode. VjpTrace keeps a tape; `vjp` walks it backwards under whatever trace is
current.

That makes grad of grad, vmap of grad and staged grad one code path. An equation that no
differentiated
input reaches is not recorded: a stopped region keeps no residual and makes no backward equation.
Knows the protocol of primitives, and the arithmetic that sums cotangents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from fungrad.errors import MissingRuleError
from fungrad.ir.types import PYTHON_DTYPES, PYTHON_SCALARS
from fungrad.primitives.collecting import Gathered
from fungrad.primitives.elementwise import Collected, Masked, add_cotangents, plain, scale_masked
from fungrad.primitives.shaping import broadcast_to, convert, sum_to
from fungrad.tracing.aliasing import private
from fungrad.tracing.residuals import Residuals
from fungrad.tracing.scope import place_behind, replayed
from fungrad.tracing.source import user_line
from fungrad.tracing.trace import EVAL, Trace, Tracer, current, enter, leave, shape_of, typeof


class VjpTrace(Trace):
    """Observes a function under reverse mode. A tracer's `value` is its primal, its `extra` its
    slot.

    Slots count from 1; 0 stands for what is not differentiated; one slot alone is of a unary
    primitive. The tape holds one record for each equation that a differentiated input reaches:
    (primitive, params, input slots, args, output, output slot or slots, place). The place, the
    user's line and scope, is only known where a Graph records.
    """

    __slots__ = ("slots", "tape")

    def __init__(
        self, parent: Trace, label: Callable[[], str], keeper: Residuals | None = None
    ) -> None:
        super().__init__(parent, label)
        self.tape: list[tuple[Any, ...]] = []
        self.slots = 0
        if self.keeper is None:
            self.keeper = keeper

    def tracer(self, value: Any) -> Tracer:
        """A new tracer of a differentiated value."""
        self.slots += 1
        return Tracer(self, value, self.slots)

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        parent = self.parent
        if parent is EVAL and primitive.plain and not params:
            # The hottest path of the house: an elementwise primitive on arrays.
            if len(args) == 1:
                arg = args[0]
                if type(arg) is Tracer and arg.owner is self:
                    value = arg.value
                    output = primitive.eval(value)
                    self.slots = slot = self.slots + 1
                    self.tape.append((primitive, params, arg.extra, (value,), output, slot, None))
                    return Tracer(self, output, slot)
            elif len(args) == 2:
                x, y = args
                slot_x = slot_y = 0
                if type(x) is Tracer and x.owner is self:
                    slot_x = x.extra
                    x = x.value
                if type(y) is Tracer and y.owner is self:
                    slot_y = y.extra
                    y = y.value
                if (slot_x or slot_y) and type(x) is not Tracer and type(y) is not Tracer:
                    output = primitive.eval(x, y)
                    if slot_x == 0:
                        if type(x) is ndarray and 0 in primitive.reads:
                            x = self.keeper.keep(x)
                    elif slot_y == 0 and type(y) is ndarray and 1 in primitive.reads:
                        y = self.keeper.keep(y)
                    self.slots = slot = self.slots + 1
                    self.tape.append(
                        (primitive, params, (slot_x, slot_y), (x, y), output, slot, None)
                    )
                    return Tracer(self, output, slot)
        values = []
        slots = []
        active = foreign = False
        for arg in args:
            if type(arg) is Tracer:
                if arg.owner is self:
                    values.append(arg.value)
                    slots.append(arg.extra)
                    active = True
                    continue
                foreign = True
            values.append(arg)
            slots.append(0)
        if active and not primitive.plain:
            cuts = primitive.cuts
            if cuts:
                if cuts is not True:
                    slots = [0 if i in cuts else slot for i, slot in enumerate(slots)]
                active = cuts is not True and any(slots)
            if active and primitive.forward is not None:
                return self._forward(primitive, values, slots, params)
        if self.records and active:  # so that the Graph has the residual as the same constant
            values = self._kept(primitive, values, slots)
        if parent is EVAL and not foreign:
            output = primitive.eval(*values, **params)
        else:
            output = parent.process(primitive, values, params)  # type: ignore[union-attr]
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
        """The arguments, with what the program may write into as it is now."""
        if 0 not in slots:
            return values  # type: ignore[no-any-return]
        reads = primitive.reads
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
            traced = self.tracer(output)
            out = traced.extra
        origin = place_behind() if self.records else None
        self.tape.append((primitive, params, slots, args, saved, out, origin))
        return traced

    def prune(self, reached: Sequence[int]) -> None:
        """Drops the records, and so the residuals, that do not reach the given slots."""
        live = set(reached)
        kept = []
        for record in reversed(self.tape):
            out = record[5]
            if out in live if type(out) is int else not live.isdisjoint(out):
                slots: Any = record[2]
                live.update((slots,) if type(slots) is int else filter(None, slots))
                kept.append(record)
        self.tape = kept[::-1]

    def apart(self, values: Sequence[Any]) -> list[Any]:
        """The values as arrays that the tape does not hold."""
        held: set[int] = set()
        opaque = False
        for primitive, _, _, args, output, _, _ in self.tape:
            opaque = opaque or primitive.multiple or primitive.forward is not None
            for array in (*args, output):
                if type(array) is ndarray:
                    held.add(id(array))
                    held.add(id(array.base))
        return [
            v.copy("K") if type(v) is ndarray and (opaque or id(v) in held) else v for v in values
        ]

    def origin(self, tracer: Tracer) -> str:
        for primitive, _, _, _, _, out, _ in self.tape:
            if out == tracer.extra or (type(out) is list and tracer.extra in out):
                return f", made by `{primitive.name}`,"
        return ", an input of the differentiated function,"


def _missing(primitive: Any, slots: Sequence[int]) -> MissingRuleError:
    positions = ", ".join(str(i) for i, slot in enumerate(slots) if slot)
    return MissingRuleError(
        f"Reverse mode needs the derivative of the primitive `{primitive.name}` with respect to "
        f"its argument {positions}{user_line()}, but its declaration has no vjp. Give one "
        "(`vjp=...`), or declare the derivative to be zero on purpose (`cuts=True`, or None among "
        "the partials)."
    )


def backward(trace: VjpTrace, seeds: Sequence[tuple[int, Any]], wanted: int) -> list[Any]:
    """The cotangents of the slots 1 to `wanted`, None for those that nothing reaches.

    `seeds` are (slot, cotangent) pairs of the outputs.
    """
    cotangents: list[Any] = [None] * (trace.slots + 1)
    for slot, seed in seeds:
        held = cotangents[slot]
        cotangents[slot] = seed if held is None else add_cotangents(held, seed)
    if not trace.records:
        walk(trace.tape, cotangents)
    else:  # what is recorded now keeps the user's line of the equation that it comes from
        token = replayed.set(replayed.get())
        try:
            walk(trace.tape, cotangents)
            return [plain(c) for c in cotangents[1 : wanted + 1]]
        finally:
            replayed.reset(token)
    return [plain(c) for c in cotangents[1 : wanted + 1]]


def walk(tape: list[tuple[Any, ...]], cotangents: list[Any]) -> None:
    """Goes back along a tape, from the cotangents of the outputs to those of the inputs."""
    eager = current() is EVAL
    collecting = not current().records
    for primitive, params, slots, args, output, out, origin in reversed(tape):
        if origin is not None:
            replayed.set(origin)
        if type(out) is int:
            cotangent = cotangents[out]
            if cotangent is None:
                continue
            cotangents[out] = None
            if isinstance(cotangent, Collected):
                cotangent = cotangent.total()
            partials = primitive.partials
            if partials is not None:
                masked = type(cotangent) is Masked
                new: Any
                if type(slots) is int:
                    if masked:
                        new = scale_masked(cotangent, partials[0], output, args)
                    else:
                        new = partials[0](cotangent, output, args)
                    arg = args[0]
                    if (
                        type(new) is not ndarray
                        or type(arg) is not ndarray
                        or new.dtype is not arg.dtype
                    ):
                        new = match(new, arg)
                    held = cotangents[slots]
                    cotangents[slots] = new if held is None else add_cotangents(held, new)
                    continue
                for slot, scale, arg in zip(slots, partials, args):  # noqa: B905 - the hot loop
                    if slot:
                        if masked:
                            new = scale_masked(cotangent, scale, output, args)
                        else:
                            new = scale(cotangent, output, args)
                        if (
                            type(new) is not ndarray
                            or type(arg) is not ndarray
                            or new.shape != arg.shape
                            or new.dtype is not arg.dtype
                        ):
                            new = match(new, arg)
                        held = cotangents[slot]
                        cotangents[slot] = new if held is None else add_cotangents(held, new)
                continue
            if type(cotangent) is Masked and not primitive.moves:
                cotangent = cotangent.value
        else:
            cotangent = tuple([plain(cotangents[slot]) if slot else None for slot in out])
            if all(c is None for c in cotangent):
                continue
            for slot in out:
                cotangents[slot] = None
        if collecting and primitive.collect is not None and slots[0]:
            held = cotangents[slots[0]]
            if (
                held is not None
                and args[0].shape
                and plain(cotangent).dtype == args[0].dtype
                and (eager or not any(type(a) is Tracer for a in args[1:]))
            ):
                if not isinstance(held, Collected):
                    held = Collected(held) if eager else Gathered(held, args[0].shape)
                    cotangents[slots[0]] = held
                held.read(primitive, cotangent, args, params)
                continue
        if primitive.vjp is None:
            raise _missing(primitive, slots)
        if type(cotangent) is Masked:
            found = _moved(primitive, params, cotangent, args, slots)
        else:
            found = primitive.vjp(cotangent, output, args, slots, **params)
        for slot, new, arg in zip(slots, found, args, strict=True):
            if slot and new is not None:
                new = match(new, arg)
                held = cotangents[slot]
                cotangents[slot] = new if held is None else add_cotangents(held, new)


def _moved(
    primitive: Any, params: Any, cotangent: Masked, args: Sequence[Any], slots: Any
) -> list[Any]:
    """The pullback of a masked cotangent through a primitive that moves elements: masked again."""
    value, mask = cotangent.value, cotangent.mask
    if shape_of(mask) != shape_of(value):
        mask = broadcast_to(mask, shape=shape_of(value))
    values = primitive.vjp(value, None, args, slots, **params)
    masks = primitive.vjp(mask, None, args, slots, **params)
    return [
        None if v is None else Masked(plain(v), plain(m))
        for v, m in zip(values, masks, strict=True)
    ]


def match(cotangent: Any, arg: Any) -> Any:
    """The cotangent summed and cast to the shape and dtype of the argument (a value or a Type)."""
    if type(cotangent) is Masked:
        value = match(cotangent.value, arg)
        same = typeof(value).shape == typeof(cotangent.value).shape
        return Masked(value, cotangent.mask) if same else value
    if type(arg) in PYTHON_SCALARS:
        shape, dtype = (), PYTHON_DTYPES[type(arg)]
    else:
        shape, dtype = arg.shape, arg.dtype
    if cotangent.shape != shape:
        cotangent = sum_to(cotangent, shape)
    if cotangent.dtype != dtype:
        cotangent = convert(cotangent, dtype=dtype)
    return cotangent


def linearized(
    f: Callable[..., Sequence[Any]],
    inputs: Sequence[Any],
    label: Callable[[], str],
    keeper: Residuals | None = None,
    handed: bool = False,
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    """Runs a function of flat inexact arguments; returns its flat outputs and its flat pullback.

    The pullback takes one cotangent or None for each output, and gives one or None for each input.
    It may be called many times, and under other traces than the one it was made under.

    Args:
      f: the function.
      inputs: its arguments.
      label: says what this is, for messages.
      keeper: what holds the arrays of the program that the pullback needs, where that is called
        before `keeper.release()`; without one they are copied.
      handed: whether outputs and pullback go to the user: then no output is an array that the
        pullback needs, and nothing is kept that it does not need.
    """
    trace = VjpTrace(current(), label, keeper or Residuals(copies=True))
    keep = trace.keeper.keep
    tracers = [trace.tracer(keep(v) if type(v) is ndarray else private(v)) for v in inputs]
    try:
        results = list(trace.run(f, *tracers))
    except ValueError as error:
        refused = None if trace.records else trace.keeper.refused(error)
        if refused is None:
            raise
        raise refused.with_traceback(error.__traceback__) from None
    finally:
        if keeper is None and trace.parent.keeper is None:  # type: ignore[union-attr]
            trace.keeper.release()
    values = []
    slots = []
    for result in results:
        mine = type(result) is Tracer and result.owner is trace
        values.append(private(result.value if mine else result))
        slots.append(result.extra if mine else 0)
    if handed:
        trace.prune([slot for slot in slots if slot])
        if trace.parent is EVAL:
            values = trace.apart(values)

    def pullback(cotangents: Sequence[Any]) -> list[Any]:
        seeds = [(s, c) for s, c in zip(slots, cotangents, strict=True) if s and c is not None]
        return backward(trace, seeds, len(inputs))

    return values, pullback
