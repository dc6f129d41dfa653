"""The collected path of the backward walk: cotangents of reads and writes of elements, summed in
place.

A read of few elements of a large array costs the elements, not the array: the array's cotangent is
one sum (`Collected`), to which each read adds its part. A write in an eager gradient changes that
sum in place (the primitive's rule `undo`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.primitives.cotangents import Collected, Masked
from fungrad.primitives.movement.gather import Gathered
from fungrad.tracing.trace import EVAL, Trace, Tracer
from fungrad.transforms.engine.accumulation import match


def read_of_basic(
    cotangents: list[Any], cotangent: Any, args: Any, slots: Any, params: Any, trace: Trace
) -> bool:
    """Adds the plain cotangent of a read by a basic index to that of the array, the usual case of a
    loop; returns whether it could.
    """
    kind = type(cotangent)
    if kind is not np.ndarray and kind is not np.float64:
        return False
    (slot,) = slots
    held = cotangents[slot]
    entries = params["index"].entries
    if type(held) is Collected:
        total = held.value
        if total.dtype is not cotangent.dtype:
            return False
        part = total[entries]
        if type(part) is np.ndarray:  # a view
            part += cotangent
        else:
            total[entries] = part + cotangent
        held.mask = held.cleared = None
        return True
    (array,) = args
    if held is not None or trace is not EVAL or array.dtype is not cotangent.dtype:
        return False
    total = np.zeros(array.shape, array.dtype)
    total[entries] = cotangent
    cotangents[slot] = Collected(total, own=True)
    return True


def read(
    cotangents: list[Any], cotangent: Any, args: Any, slot: int, params: Any, primitive: Any,
    trace: Trace,
) -> bool:  # fmt: skip
    """Adds the cotangent of a read to that of the array, which has one; returns whether it could.

    A trace that records a Graph has its own equations for that.
    """
    array = args[0]
    dtype = (cotangent.value if type(cotangent) is Masked else cotangent).dtype
    if trace.records or not array.shape or dtype != array.dtype:
        return False
    held = cotangents[slot]
    if trace is EVAL:
        if not isinstance(held, Collected):
            held = cotangents[slot] = Collected(held)
        primitive.collect(held, cotangent, args, **params)
        return True
    if any(type(a) is Tracer for a in args[1:]):
        return False
    if not isinstance(held, Gathered):
        held = cotangents[slot] = Gathered(held, array.shape)
    held.read(primitive, cotangent, args, params)
    return True


def undo(
    cotangents: list[Any], cotangent: Any, args: Any, slots: Any, params: Any, primitive: Any
) -> None:
    """The pullback of a write into an array, in place: the cotangent of the array after the write
    becomes that of the array before it.
    """
    if not isinstance(cotangent, Collected):
        cotangent = Collected(cotangent.value if type(cotangent) is Masked else cotangent)
    of_values = primitive.undo(cotangent, args, slots, **params)
    held = cotangents[slots[0]]
    cotangents[slots[0]] = cotangent if held is None else held + cotangent.total()
    if of_values is not None:
        held = cotangents[slots[1]]
        new = match(of_values, args[1])
        cotangents[slots[1]] = new if held is None else held + new


def of_first_write(cotangent: Masked, args: Sequence[Any], params: Any) -> Any:
    """The cotangent of the first write into an array; masked if a later write replaced elements, or
    may have, where one of them is by arrays of indices.
    """
    if cotangent.cleared is None or len(args) > 2:
        return cotangent
    mask = np.ones(cotangent.value.shape, np.bool_)
    mask[cotangent.cleared] = False
    return cotangent.value if np.all(mask[params["index"].entries]) else cotangent
