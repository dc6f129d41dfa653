"""The tape of reverse mode, and the backward walk along it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy import float64, ndarray

from fungrad.errors import MissingRuleError
from fungrad.ir.types import PYTHON_DTYPES, PYTHON_SCALARS, Type
from fungrad.primitives.elementwise.family import (
    AfterSum,
    Collected,
    Masked,
    add_cotangents,
    passed,
    plain,
    scale_masked,
    whole,
)
from fungrad.primitives.movement.gather import Gathered
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, convert, sum_to
from fungrad.tracing.provenance import replayed
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, Tracer, current, shape_of, typeof


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
    eager = trace is EVAL
    collecting = not trace.records
    for origin, out, output, args, slots, params, primitive in tape.backwards():
        if origin is not None:
            replayed.set(origin)
        if type(out) is int:
            cotangent = cotangents[out]
            if cotangent is None:
                continue
            cotangents[out] = None
            masked = False
            if type(cotangent) is not ndarray and type(cotangent) is not float64:
                if isinstance(cotangent, Collected) and not (eager and primitive.undo is not None):
                    cotangent = cotangent.total()
                masked = type(cotangent) is Masked
            partials = primitive.partials
            if partials is not None:
                new: Any
                if unary := type(slots) is int:
                    partials = ((slots, partials[0], args[0]),)
                else:
                    partials = zip(slots, partials, args)  # noqa: B905 - the hot loop
                for slot, scale, arg in partials:
                    if not slot:
                        continue
                    finish = None
                    if masked:
                        new = scale_masked(cotangent, scale, output, args)
                    elif scale is passed:
                        new = cotangent
                    else:
                        if type(scale) is AfterSum:
                            finish, scale = scale.finish, scale.scale
                        new = scale(cotangent, output, args)
                    kind = type(new)
                    if kind is ndarray:
                        if (
                            type(arg) is not ndarray
                            or new.dtype is not arg.dtype
                            or not (unary or new.shape == arg.shape)
                        ):
                            new = match(new, arg)
                    elif kind is not float64 or not (type(arg) is float64 or type(arg) is float):
                        new = match(new, arg)
                    if finish is not None:
                        new = finish(new, args)
                    held = cotangents[slot]
                    if held is None:
                        cotangents[slot] = new
                    elif kind is not Masked and (type(held) is ndarray or type(held) is float64):
                        cotangents[slot] = held + new
                    else:
                        cotangents[slot] = add_cotangents(held, new)
                continue
            if masked and not primitive.moves:
                first = primitive.undo is not None and not slots[0]
                cotangent = _left(cotangent, args, params) if first else cotangent.value
                masked = type(cotangent) is Masked
        else:
            masked = False
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
                and (cotangent.value if masked else cotangent).dtype == args[0].dtype
                and (eager or not any(type(a) is Tracer for a in args[1:]))
            ):
                if not isinstance(held, Collected):
                    held = Collected(held) if eager else Gathered(held, args[0].shape)
                    cotangents[slots[0]] = held
                held.read(primitive, cotangent, args, params)
                continue
        if eager and primitive.undo is not None:
            if slots[0]:
                if not isinstance(cotangent, Collected):
                    cotangent = Collected(cotangent)
                new = primitive.undo(cotangent, args, slots, **params)
                held = cotangents[slots[0]]
                if held is None:
                    cotangents[slots[0]] = cotangent
                else:
                    cotangents[slots[0]] = add_cotangents(held, cotangent.total())
                if new is not None:
                    new = match(new, args[1])
                    held = cotangents[slots[1]]
                    cotangents[slots[1]] = new if held is None else add_cotangents(held, new)
                continue
            cotangent = whole(cotangent)
        if primitive.vjp is None:
            raise _missing(primitive, slots)
        if type(cotangent) is Masked:
            found = _moved(primitive, params, cotangent, args, slots)
        else:
            found = primitive.vjp(cotangent, output, args, slots, **params)
        if eager and primitive.collect is not None and slots[0] and cotangents[slots[0]] is None:
            cotangents[slots[0]] = Collected(match(found[0], args[0]), own=True)
            continue
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
                cotangents[slot] = new if held is None else add_cotangents(held, new)


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


def _left(cotangent: Masked, args: Sequence[Any], params: Any) -> Any:
    """The cotangent of the first write into an array; masked if a later write replaced elements, or
    may have, where one of them is by arrays of indices.
    """
    if cotangent.cleared is None or len(args) > 2:
        return cotangent
    mask = np.ones(cotangent.value.shape, np.bool_)
    mask[cotangent.cleared] = False
    return cotangent.value if np.all(mask[params["index"].entries]) else cotangent


def match(cotangent: Any, arg: Any) -> Any:
    """The cotangent summed and cast to the shape and dtype of the argument (a value or a Type)."""
    if type(arg) is Type and type(cotangent) is not Masked:  # the usual case
        if cotangent.shape == arg.shape and cotangent.dtype is arg.dtype:
            return cotangent
    if type(cotangent) is Masked:
        value = match(cotangent.value, arg)
        same = typeof(value).shape == typeof(cotangent.value).shape
        return Masked(value, cotangent.mask, cotangent.cleared) if same else value
    if type(arg) in PYTHON_SCALARS:
        shape, dtype = (), PYTHON_DTYPES[type(arg)]
    else:
        shape, dtype = arg.shape, arg.dtype
    if cotangent.shape != shape:
        cotangent = sum_to(cotangent, shape)
    if cotangent.dtype != dtype:
        cotangent = convert(cotangent, dtype=dtype)
    return cotangent
