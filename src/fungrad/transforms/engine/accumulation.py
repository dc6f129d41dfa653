"""Cotangents brought to the type of their argument, before they are added to its cotangent."""

from __future__ import annotations

from typing import Any

from numpy import float64

from fungrad.ir.types import PYTHON_DTYPES, PYTHON_SCALARS, Type
from fungrad.primitives.cotangents import Masked
from fungrad.primitives.movement.reshape_broadcast_cast import convert, sum_to
from fungrad.tracing.trace import typeof


def match(cotangent: Any, arg: Any) -> Any:
    """The cotangent summed and cast to the shape and dtype of the argument (a value or a Type)."""
    if type(arg) is float64 and type(cotangent) is float64:
        return cotangent
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
