"""The cause of one leaf's gradient, from the records of WhyTrace.

Zero: unused, stopped, cut, masked, inactive, kink, saturated, stationary, zero factor, cancelled.
NaN and infinity: input, constant, forward, backward, double where, overflow, with the first
equation that made one from none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fungrad.control_flow.unroll import array_of, holds_inf, holds_nan, kinks_at, sample, unfolds
from fungrad.inspect.why.recording_trace import Cut, Record, Step, WhyTrace
from fungrad.ir.graph import Source
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.reduction.cumulative import cumprod
from fungrad.primitives.reduction.reduce import reduce_prod
from fungrad.tracing.trace import value_under
from fungrad.transforms.grad import vjp

Holds = Callable[[Any], bool]

PRODUCTS = (reduce_prod, cumprod)
"""Primitives that multiply the elements of one argument with each other."""
OVERFLOW = (
    "It overflows: use a stable form (subtract the maximum, np.logaddexp, np.expm1, logarithms)."
)
DOUBLE_WHERE = (
    "The value is not used there (its cotangent is 0), but 0 times an infinite derivative is NaN. "
    "Put a safe value in before (the double where): safe = np.where(ok, x, 1.0), then "
    "np.where(ok, f(safe), 0.0)."
)


class Cause(NamedTuple):
    """A cause: one word, a sentence, the user's line, and further remarks."""

    word: str
    reason: str
    source: Source | None = None
    notes: tuple[str, ...] = ()


def at(source: Source | None) -> str:
    """` at file:line (function)`, or nothing."""
    return "" if source is None else f" at {source}"


class Paths:
    """The values that one differentiated input reaches."""

    def __init__(self, trace: WhyTrace, steps: list[Step | None], slot: int) -> None:
        self.trace, self.slot = trace, slot
        self.reached = {slot}
        self.on: list[tuple[Record, Step | None]] = []
        for record, step in zip(trace.equations, steps, strict=True):
            if not self.reached.isdisjoint(record.slots):
                self.reached.update(o for o in record.out if o)
                self.on.append((record, step))
        self.cuts = [c for c in trace.cuts if not self.reached.isdisjoint(c.slots)]

    def back(self) -> Iterator[tuple[Record, Step]]:
        """The equations between the input and the output, the last one first."""
        for record, step in reversed(self.on):
            if step is not None:
                yield record, step

    def mine(self, step: Step) -> Iterator[tuple[int, Any]]:
        """The cotangents of a step for values that the input reaches."""
        return ((s, c) for s, c in step.found.items() if s in self.reached)


def not_connected(paths: Paths, unused: str) -> Cause:
    """Why no derivative of the output comes back to an input."""
    if paths.cuts:
        return _behind(paths.cuts)
    if not paths.on:
        return Cause("unused", unused)
    last = paths.on[-1][0]
    reason = f"the result computed from it, last `{last.primitive.name}`{at(last.source)}, "
    return Cause("unused", reason + "does not reach the output", last.source)


def _behind(found: list[Cut]) -> Cause:
    """The cause where there are cuts; deliberate ones (stops) come first."""
    cuts = list(dict.fromkeys(cut._replace(slots=()) for cut in found))
    first = next((cut for cut in cuts if cut.stops), cuts[0])
    if first.stops:
        label = f' "{first.name}"' if first.name is not None else ""
        reason = f"it is used only through stop_gradient{label}{at(first.source)}"
    else:
        reason = (
            f"it is used only through `{first.what}`, which has no derivative,{at(first.source)}"
        )
    word = "stopped" if first.stops else "cut"
    return Cause(word, reason, first.source, _others(cuts, first))


def _others(cuts: list[Cut], first: Cut) -> tuple[str, ...]:
    return tuple(
        f"also through `{cut.what}`{f' {cut.name!r}' if cut.name else ''}{at(cut.source)}"
        for cut in [c for c in cuts if c is not first][:4]
    )


# --- zero ---------------------------------------------------------------------------------


def zero(paths: Paths) -> Cause:
    """Why a connected input's gradient is zero everywhere: where the cotangent vanished."""
    found = []
    for record, step in paths.back():
        if all(_is_zero(c) for c in step.given.values()):
            continue
        mine = list(paths.mine(step))
        reaching = [s for s in record.slots if s in paths.reached]
        if reaching and all(_is_zero(c) for _, c in mine):
            cause = _vanished(record, step, reaching)
            if cause.word == "not selected":
                cause = _picked(paths, record) or cause._replace(notes=_users(paths, record))
            if unfolds(record.primitive):  # a loop too long to unfold: use the cuts inside it
                inside = [c for c in paths.cuts if not set(c.slots).isdisjoint(reaching)]
                cause = _behind(inside) if inside else cause
            found.append(cause)
    if not found:
        return _cancelled(paths)
    # Causes are found from the output on: the first one cuts off all the others.
    first = found[0]
    notes = tuple(dict.fromkeys(f"also {c.reason}" for c in found[1:4]))
    return first._replace(notes=(*first.notes, *notes))


def _cancelled(paths: Paths) -> Cause:
    """The cause where cotangents of several paths add up to zero: the value next to the output."""
    adding: dict[int, list[Record]] = {}  # the equations that add to a slot's cotangent
    for record, step in paths.back():
        for slot, cotangent in paths.mine(step):
            if not _is_zero(cotangent):
                adding.setdefault(slot, []).append(record)
    meeting: Record | None = None
    users = adding.get(paths.slot, [])
    for record, step in paths.back():
        readers = [r for slot in record.out for r in adding.get(slot, [])]
        if readers and all(_is_zero(c) for c in step.given.values()):
            meeting, users = record, readers
            break
    paths_ = " and ".join(dict.fromkeys(f"`{r.primitive.name}`{at(r.source)}" for r in users))
    where = "it" if meeting is None else f"`{meeting.primitive.name}`{at(meeting.source)}"
    source = users[0].source if meeting is None and users else meeting and meeting.source
    reason = f"the cotangents that reach {where} from {paths_} add up to zero"
    return Cause("cancelled", reason, source or None)


def _picked(paths: Paths, record: Record) -> Cause | None:
    """The cause where an equation joins entries (concatenate, pad) and a later one picks others:
    the first equation from the output on that depends on some of its entries, and not on these.
    """
    wanted = set(record.out)
    chosen: Record | None = None
    for user, step in reversed(list(paths.back())):  # from the input on
        partly = [np.asarray(c) for s, c in step.found.items() if s in wanted]
        given = [np.asarray(c) for c in step.given.values()]
        if not any(np.any(c == 0) for c in partly) or not any(map(np.any, given)):
            continue
        wanted.update(s for s in user.out if s)
        chosen = user
        if all(map(np.all, given)):
            break
    if chosen is None:
        return None
    name, of = chosen.primitive.name, f"`{record.primitive.name}`{at(record.source)}"
    reason = f"`{name}`{at(chosen.source)} takes other entries than those that {of} makes of it"
    word = "inactive" if chosen.primitive.kink is not None else "not selected"
    return Cause(word, reason, chosen.source)


def _users(paths: Paths, record: Record) -> tuple[str, ...]:
    """The equation that uses only a part of an equation's result."""
    notes = []
    for user, step in paths.back():
        partly = [np.asarray(c) for s, c in step.found.items() if s in record.out]
        if any(np.any(c == 0) for c in partly):
            notes.append(f"`{user.primitive.name}`{at(user.source)} depends on other entries only")
    return tuple(dict.fromkeys(notes))[:3]


def _is_zero(cotangent: Any) -> bool:
    return not np.any(cotangent)


def _vanished(record: Record, step: Step, reaching: list[int]) -> Cause:
    name = record.primitive.name
    where = at(record.source)
    values = ", ".join(sample(a) for a, s in zip(record.args, record.slots, strict=True) if s)
    kinks = kinks_at(record.primitive, record.args, record.params)
    if record.primitive is select:
        reason = f"`where`{where} never selects the branch that holds it"
        return Cause("masked", reason, record.source)
    if kinks:
        reason = f"`{name}`{where} is at a kink, where its derivative is taken to be 0 ({values})"
        return Cause("kink", reason, record.source, ("docs/kinks.md lists these choices",))
    given = [a for a, s in zip(record.args, record.slots, strict=True) if s not in reaching]
    if record.primitive.kink is not None and _is_one_of(record.outputs[0], given):
        other = ", ".join(map(sample, given))
        reason = f"`{name}`{where} returns the other argument, {other}, everywhere (not {values})"
        return Cause("inactive", reason, record.source)
    if record.primitive.degree == "multilinear" or record.primitive in PRODUCTS:
        others = list(map(array_of, given))
        if not others or any(o is None or not np.any(o) for o in others):
            reason = f"`{name}`{where} multiplies it by zero"
            return Cause("zero factor", reason, record.source)
        reason = f"the cotangent underflows in `{name}`{where}"
        return Cause("saturated", reason, record.source)
    if record.primitive.degree:
        reason = f"`{name}`{where} passes on none of its entries that the output depends on"
        return Cause("not selected", reason, record.source)
    flat = f"the derivative of `{name}`{where} is 0 at {values}"
    if _vanishes_beyond(record, step, reaching):
        return Cause("saturated", f"saturated: {flat}", record.source)
    if record.primitive.partials is not None:
        return Cause("stationary", f"stationary: {flat}", record.source)
    return Cause("zero derivative", flat, record.source)


def _is_one_of(output: Any, given: Sequence[Any]) -> bool:
    """Whether an output equals one of the arguments everywhere."""
    output = value_under(output)
    return any(np.all(np.equal(output, value_under(other))) for other in given)


def _vanishes_beyond(record: Record, step: Step, reaching: list[int]) -> bool:
    """Whether a zero derivative stays zero for larger arguments, unlike at a stationary point."""
    values = [array_of(a) for a in record.args]
    active = [v for v, s in zip(values, record.slots, strict=True) if s in reaching]
    if any(v is None for v in values) or not any(np.any(v) for v in active):
        return False
    given = [step.given.get(slot) for slot in record.out]
    with np.errstate(all="ignore"):
        _, pullback = vjp(
            lambda *args: record.primitive(*args, **record.params),
            *[1.5 * v for v in values if v is not None],
        )
        seeds = tuple(
            np.ones_like(o) if g is None else g for g, o in zip(given, record.outputs, strict=True)
        )
        pulled = pullback(seeds if record.primitive.multiple else seeds[0])
    pairs = zip(pulled, record.slots, strict=True)
    return all(_is_zero(c) for c, slot in pairs if slot in reaching)


def _overflows(record: Record) -> bool:
    """Whether an equation makes an infinity from finite numbers, or numbers that could be."""
    args = list(map(value_under, record.args))
    try:
        with np.errstate(over="raise", invalid="ignore", divide="ignore", under="ignore"):
            record.primitive.eval(*args, **record.params)
    except (FloatingPointError, OverflowError):
        return True
    return False


# --- NaN and infinity ---------------------------------------------------------------------


def not_finite(paths: Paths, holds: Holds, leaf: Any) -> Cause:
    """The cause of a NaN (or infinity) in a gradient: the equation that made it first."""
    what = "NaN" if holds is holds_nan else "an infinity"
    for record, step in paths.back():
        if any(holds(c) for c in step.given.values()):
            continue
        if not any(holds(c) for _, c in paths.mine(step)):
            continue
        bad = [a for a in (*record.args, *record.outputs) if holds(a)]
        if bad:
            return _forward(paths, record, holds)
        return _backward(paths, record, step, holds, what)
    if holds(leaf):
        return Cause("input", f"the input itself holds {what}")
    reason = f"cotangents of different paths add up to {what}"
    cause = Cause("backward", reason)
    return _with_infinity(paths, cause) if holds is holds_nan else cause


def _with_infinity(paths: Paths, cause: Cause) -> Cause:
    for record, step in paths.back():
        if any(holds_inf(c) for c in step.given.values()):
            continue
        if any(holds_inf(c) for _, c in paths.mine(step)):
            note = f"the infinity comes from `{record.primitive.name}`{at(record.source)}"
            return cause._replace(source=record.source, notes=(*cause.notes, note))
    return cause


def _backward(paths: Paths, record: Record, step: Step, holds: Holds, what: str) -> Cause:
    given = next(iter(step.given.values()))
    values = ", ".join(map(sample, record.args))
    reason = (
        f"{what} is born in the backward pass of `{record.primitive.name}`{at(record.source)}, "
        f"from the values {values} and the cotangent {sample(given)}"
    )
    first = next(c for _, c in paths.mine(step) if holds(c))
    notes = _first(record, first, (*record.args, given), holds)
    cause = Cause("backward", reason, record.source, notes)
    if step.error:
        return Cause("raised", f"{reason}: its derivative raised {step.error}", record.source)
    if holds is not holds_nan:
        return cause
    given_array, found_array = np.asarray(given), np.asarray(first)
    if given_array.shape == found_array.shape:
        masked = bool(np.any(given_array[np.isnan(found_array)] == 0))
    else:
        masked = bool(np.any(given_array == 0))
    if any(map(holds_inf, record.outputs)) and _overflows(record):
        return cause._replace(word="overflow", notes=(*notes, OVERFLOW))
    if masked:
        return cause._replace(word="double where", notes=(*notes, DOUBLE_WHERE))
    return _with_infinity(paths, cause)


def _first(record: Record, found: Any, args: Sequence[Any], holds: Holds) -> tuple[str, ...]:
    """The first bad entry of an elementwise equation, and the values there."""
    array = array_of(found)
    values = [array_of(arg) for arg in args]
    elementwise = record.primitive.partials is not None
    if not elementwise or array is None or not array.ndim or any(v is None for v in values):
        return ()
    known = [v for v in values if v is not None]
    if any(v.ndim and v.shape != array.shape[array.ndim - v.ndim :] for v in known):
        return ()
    bad = np.argwhere(np.isnan(array) if holds is holds_nan else np.isinf(array))
    place = tuple(int(i) for i in bad[0])
    there = ", ".join(str(np.broadcast_to(v, array.shape)[place]) for v in known)
    return (f"first at {list(place)}, from {there}; {len(bad)} of {array.size} entries",)


def born(trace: WhyTrace, slots: list[int], holds: Holds) -> Cause | None:
    """The first equation that made a NaN (or infinity) from none, going back from some slots."""
    maker = {slot: record for record in trace.equations for slot in record.out if slot}
    for slot in slots:
        if slot in maker:
            return _traced_back(maker, maker[slot], holds)
    return None


def _traced_back(maker: dict[int, Record], record: Record, holds: Holds) -> Cause:
    what = "NaN" if holds is holds_nan else "an infinity"
    while True:
        bad = [(s, a) for s, a in zip(record.slots, record.args, strict=True) if holds(a)]
        if not bad:
            break
        slot = next((s for s, _ in bad if s), 0)
        name = record.primitive.name
        if not slot:
            reason = f"a constant of `{name}`{at(record.source)} holds {what}"
            return Cause("constant", reason, record.source)
        if slot not in maker:
            reason = f"the input that `{name}`{at(record.source)} reads holds {what}"
            return Cause("input", reason, record.source)
        record = maker[slot]
    values = ", ".join(map(sample, record.args))
    reason = (
        f"{what} is born in the forward pass by `{record.primitive.name}`{at(record.source)} "
        f"from {values}"
    )
    bad_output = next((o for o in record.outputs if holds(o)), None)
    cause = Cause("forward", reason, record.source, _first(record, bad_output, record.args, holds))
    infinite = [s for s, a in zip(record.slots, record.args, strict=True) if holds_inf(a)]
    if holds is holds_nan and infinite:
        if infinite[0] in maker:
            earlier = _traced_back(maker, maker[infinite[0]], holds_inf)
            return cause._replace(notes=(*cause.notes, earlier.reason))
    return cause


def _forward(paths: Paths, record: Record, holds: Holds) -> Cause:
    maker = {slot: r for r in paths.trace.equations for slot in r.out if slot}
    return _traced_back(maker, record, holds)


# --- kinks --------------------------------------------------------------------------------


def kinks(paths: Paths) -> tuple[str, ...]:
    """Remarks on the equations on the way to the output whose values sit at a kink."""
    notes = []
    for record, _ in paths.back():
        count = kinks_at(record.primitive, record.args, record.params)
        if count:
            places = "one place" if count == 1 else f"{count} places"
            notes.append(
                f"at a kink: `{record.primitive.name}`{at(record.source)} has a tie in {places}"
            )
    return tuple(dict.fromkeys(notes))[:5]
