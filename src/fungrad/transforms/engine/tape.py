"""The tape of reverse mode, and the backward walk along it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from numpy import float64, ndarray

from fungrad.errors import MissingRuleError
from fungrad.ir.types import Type
from fungrad.primitives.cotangents import Collected, Masked
from fungrad.primitives.elementwise.family import (
    AfterSum,
    passed,
    plain,
    scale_masked,
    whole,
)
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, sum_to
from fungrad.tracing.provenance import replayed
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, Tracer, current, shape_of
from fungrad.transforms.engine import collected
from fungrad.transforms.engine.accumulation import match

NUMBERS = object()
"""The origin of a record on floats: (primitive, second slot, first slot, derivative by the first,
derivative by the second, output slot). The second slot is 0 if there is none.
"""
ONE = object()
"""The origin of a record of a plain primitive on one strong value: (primitive, params, slot, args,
output, output slot).
"""
TWO = object()
"""The origin of a record of a plain primitive on two strong values, of which one may be a constant,
but no boolean: (primitive, second slot, first slot, args, output, output slot).
"""
READS = object()
"""The origin of a record of `getitem` by a basic index on an array; otherwise as any record."""
WHOLE = {ndarray, float64, Tracer}
"""The classes of cotangents that rules take as they are."""


class Tape(list[Any]):
    """Records of seven entries each, in one flat list.

    Records are no objects: the garbage collector would visit all of them repeatedly, a third of the
    time of a long loop.
    """

    __slots__ = ()

    def records(self) -> Iterator[tuple[Any, ...]]:
        """The records, from the first."""
        entries = iter(self)
        return zip(*[entries] * 7, strict=True)

    def backwards(self) -> Iterator[tuple[Any, ...]]:
        """The records, from the last; the entries of each come in reverse order, too."""
        entries = reversed(self)
        return zip(*[entries] * 7, strict=True)


def _missing(primitive: Any, slots: Sequence[int]) -> MissingRuleError:
    positions = ", ".join(str(i) for i, slot in enumerate(slots) if slot)
    return MissingRuleError(
        f"Reverse mode needs the derivative of the primitive `{primitive.name}` with respect to "
        f"its argument {positions}{user_line()}, but its declaration has no vjp. Give one "
        "(`vjp=...`), or declare the derivative to be zero on purpose (`cuts=True`, or None among "
        "the partials)."
    )


def walk(tape: Tape, cotangents: list[Any]) -> None:
    """Walks back along a tape, from the cotangents of the outputs to those of the inputs."""
    trace = current()
    for origin, out, output, args, slots, params, primitive in tape.backwards():
        if origin is NUMBERS:
            cotangent = cotangents[out]
            if type(cotangent) is not float:
                if cotangent is None:
                    continue
                cotangent = _of_number(cotangent)
                if type(cotangent) is Masked:
                    scales = (lambda c, z, a: c * a[0]), (lambda c, z, a: c * a[1])
                    factors = float(args), float(output)
                    _scale_masked(cotangents, cotangent, 0.0, factors, (slots, params), scales)
                    continue
            held = cotangents[slots]
            new = cotangent * args
            cotangents[slots] = new if held is None else held + new
            if params:
                held = cotangents[params]
                new = cotangent * output
                cotangents[params] = new if held is None else held + new
            continue
        if origin is TWO or origin is ONE:
            cotangent = cotangents[out]
            if cotangent is None:
                continue
            cotangents[out] = None
            if type(cotangent) not in WHOLE:
                cotangent = whole(cotangent)
                if type(cotangent) is Masked:
                    if origin is TWO:
                        slots = slots, params
                    partials = primitive.partials
                    _scale_masked(cotangents, cotangent, output, args, slots, partials)
                    continue
            if origin is TWO:
                _scale_two(cotangents, cotangent, output, args, slots, params, primitive)
                continue
            (x,) = args
            new = primitive.direct[0](cotangent, output, x)
            if new.dtype is not x.dtype:
                new = match(new, x)
            held = cotangents[slots]
            cotangents[slots] = new if held is None else held + new
            continue
        if origin is READS:
            cotangent = cotangents[out]
            if cotangent is None:
                continue
            if collected.read_of_basic(cotangents, cotangent, args, slots, params, trace):
                cotangents[out] = None
                continue
        elif origin is not None:
            replayed.set(origin)
        if type(out) is int:
            cotangent = cotangents[out]
            cotangents[out] = None
        else:
            cotangent = _of_outputs(cotangents, out)
        if cotangent is None:
            continue
        partials = primitive.partials
        if partials is None:
            _pull_back(cotangents, cotangent, output, args, slots, params, primitive, trace)
            continue
        if type(cotangent) not in WHOLE:
            cotangent = whole(cotangent)
            if type(cotangent) is Masked:
                _scale_masked(cotangents, cotangent, output, args, slots, partials)
                continue
        _scale(cotangents, cotangent, output, args, slots, partials)


def _of_number(cotangent: Any) -> Any:
    """The cotangent of a number as a float, unless it is traced or masked."""
    cotangent = whole(cotangent)
    return cotangent if type(cotangent) in (Tracer, Masked) else float(cotangent)


def _of_outputs(cotangents: list[Any], slots: Sequence[int]) -> tuple[Any, ...] | None:
    """The cotangents of several outputs, without masks; None if there are none."""
    given = tuple([plain(cotangents[slot]) if slot else None for slot in slots])
    for slot in slots:
        cotangents[slot] = None
    return given if any(c is not None for c in given) else None


def _scale_two(
    cotangents: list[Any], cotangent: Any, output: Any, args: Any, slot_x: int, slot_y: int,
    primitive: Any,
) -> None:  # fmt: skip
    """The short path of two arrays. An operand that was broadcast takes the plain path."""
    x, y = args
    by_x, by_y = primitive.direct
    shape = cotangent.shape
    if slot_x:
        if x.shape != shape:
            _scale(cotangents, cotangent, output, args, (slot_x, 0), primitive.partials)
        else:
            new = by_x(cotangent, output, x, y)
            if new.dtype is not x.dtype:
                new = match(new, x)
            held = cotangents[slot_x]
            cotangents[slot_x] = new if held is None else held + new
    if slot_y:
        if y.shape != shape:
            _scale(cotangents, cotangent, output, args, (0, slot_y), primitive.partials)
        else:
            new = by_y(cotangent, output, x, y)
            if new.dtype is not y.dtype:
                new = match(new, y)
            held = cotangents[slot_y]
            cotangents[slot_y] = new if held is None else held + new


def _scale(
    cotangents: list[Any], cotangent: Any, output: Any, args: Any, slots: Any, partials: Any
) -> None:
    """The plain path: an elementwise primitive multiplies the cotangent by its partials, and sums
    over the axes along which an operand was broadcast.
    """
    for slot, scale, arg in zip(slots, partials, args):  # noqa: B905 - the hot loop
        if not slot:
            continue
        if scale is passed:
            new = cotangent
        elif type(scale) is AfterSum:
            new, shape = scale.scale(cotangent, output, args), shape_of(arg)
            if shape_of(new) != shape:
                new = sum_to(new, shape)
            new = scale.finish(new, args)  # before the cast to a shorter dtype
        else:
            new = scale(cotangent, output, args)
        kind = type(new)
        if kind is ndarray:
            if type(arg) is not ndarray or new.dtype is not arg.dtype or new.shape != arg.shape:
                new = match(new, arg)
        elif kind is not float64 or (type(arg) is not float64 and type(arg) is not float):
            new = match(new, arg)
        held = cotangents[slot]
        cotangents[slot] = new if held is None else held + new


def _scale_masked(
    cotangents: list[Any], cotangent: Masked, output: Any, args: Any, slots: Any, partials: Any
) -> None:
    """The masked path: the products are exactly zero where the cotangent is."""
    for slot, scale, arg in zip(
        (slots,) if type(slots) is int else slots, partials, args, strict=True
    ):
        if slot:
            new = match(scale_masked(cotangent, scale, output, args), arg)
            held = cotangents[slot]
            cotangents[slot] = new if held is None else held + new


def _pull_back(
    cotangents: list[Any], cotangent: Any, output: Any, args: Any, slots: Any, params: Any,
    primitive: Any, trace: Any,
) -> None:  # fmt: skip
    """The path of all other primitives, by their pullbacks; reads and writes of elements take the
    collected path where they can (`collected`).
    """
    if primitive.undo is not None and slots[0] and trace is EVAL:
        collected.undo(cotangents, cotangent, args, slots, params, primitive)
        return
    if type(cotangent) not in WHOLE:
        cotangent = _as_rules_take_it(cotangent, primitive, args, slots, params)
    reads = primitive.collect is not None and slots[0]
    if reads and cotangents[slots[0]] is not None:
        if collected.read(cotangents, cotangent, args, slots[0], params, primitive, trace):
            return
    if primitive.vjp is None:
        raise _missing(primitive, slots)
    if type(cotangent) is Masked:
        pulled = _moved(primitive, params, cotangent, args, slots)
    else:
        pulled = primitive.vjp(cotangent, output, args, slots, **params)
    if reads and trace is EVAL and cotangents[slots[0]] is None:
        cotangents[slots[0]] = Collected(match(pulled[0], args[0]), own=True)
        return
    _add_each(cotangents, pulled, args, slots)


def _add_each(cotangents: list[Any], found: Any, args: Any, slots: Any) -> None:
    """Adds the results of a pullback, each matched to its argument."""
    for slot, new, arg in zip(slots, found, args, strict=True):
        if slot and new is not None:
            if (
                type(new) is not ndarray
                or type(arg) is not Type
                or new.shape != arg.shape
                or new.dtype is not arg.dtype
            ):
                new = match(new, arg)
            held = cotangents[slot]
            cotangents[slot] = new if held is None else held + new


def _as_rules_take_it(
    cotangent: Any, primitive: Any, args: Sequence[Any], slots: Any, params: Any
) -> Any:
    """The cotangent as an array, or masked for a primitive that only moves elements."""
    cotangent = whole(cotangent)
    if type(cotangent) is not Masked or primitive.moves:
        return cotangent
    if primitive.undo is not None and not slots[0]:
        return collected.of_first_write(cotangent, args, params)
    return cotangent.value


def _moved(
    primitive: Any, params: Any, cotangent: Masked, args: Sequence[Any], slots: Any
) -> list[Any]:
    """The pullback of a masked cotangent through a primitive that moves elements; masked, too."""
    value, mask = cotangent.value, cotangent.mask
    if shape_of(mask) != shape_of(value):
        mask = broadcast_to(mask, shape=shape_of(value))
    values = primitive.vjp(value, None, args, slots, **params)
    masks = primitive.vjp(mask, None, args, slots, **params)
    return [
        None if v is None else Masked(plain(v), plain(m))
        for v, m in zip(values, masks, strict=True)
    ]
