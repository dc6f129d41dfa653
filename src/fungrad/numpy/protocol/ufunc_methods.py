"""Methods of NumPy's ufuncs on traced values: reduce, accumulate, outer, at, out=, where=.

Installs `registry.ufunc_method`, which handles all calls but plain ones.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.ir.canonical import canonical_dtype
from fungrad.numpy.mutation.assignment import replacing, store
from fungrad.numpy.mutation.rebound_names import may_rebind
from fungrad.numpy.mutation.writing_functions import ufunc_at
from fungrad.numpy.products import CALLS
from fungrad.numpy.protocol.implements import known, widens
from fungrad.numpy.protocol.object_elements import called, is_of_python
from fungrad.numpy.protocol.operands import array_of
from fungrad.numpy.reductions import ACCUMULATE, REDUCE
from fungrad.primitives.movement.reshape_broadcast_cast import cast, reshape
from fungrad.primitives.primitive import Later
from fungrad.tracing.source_location import user_line
from fungrad.tracing.subclass_arrays import holds_own
from fungrad.tracing.trace import NO_PARAMS, Tracer, current, is_weak, registry, unsupported


def ufunc_method(ufunc: np.ufunc, method: str, inputs: Any, kwargs: dict[str, Any]) -> Any:
    """`ufunc.method(*inputs, **kwargs)` with a traced value among the arguments."""
    if is_of_python(ufunc):
        return called(ufunc, method, inputs, kwargs)
    if method == "at":
        return ufunc_at(ufunc, *inputs)
    out = kwargs.pop("out", None)
    rebinds = type(out) is tuple and may_rebind(ufunc, inputs, out, sys.getrefcount(out[0]))
    given, inputs = inputs, _prepared(inputs)
    if inputs is None or (out is not None and any(map(holds_own, out))):
        return registry.deferred(
            ufunc, method, given, kwargs if out is None else {**kwargs, "out": out}
        )
    if rebinds and method == "__call__" and not kwargs:
        return replacing(out[0], _call(ufunc, inputs, kwargs), f"ufunc '{ufunc.__name__}'")
    if out is not None and any(o is not None for o in out):
        return _written(ufunc, method, inputs, out, kwargs)
    return _computed(ufunc, method, inputs, kwargs)


def _written(ufunc: np.ufunc, method: str, inputs: Any, out: Any, kwargs: dict[str, Any]) -> Any:
    """The ufunc with its results written into the arrays of `out`, which are returned."""
    name = f"ufunc '{ufunc.__name__}'"
    if method != "__call__":
        if method == "reduce" and kwargs.get("dtype") is None and ufunc in (np.add, np.multiply):
            kwargs["dtype"] = out[0].dtype if widens(inputs[0], out[0]) else None
        return registry.into(out[0], _computed(ufunc, method, inputs, kwargs), name)
    where = kwargs.pop("where", True)
    casting = kwargs.get("casting", "same_kind")
    if where is True:
        result = _call(ufunc, inputs, kwargs)
    else:
        with np.errstate(all="ignore"):  # for elements that are not written
            result = _call(ufunc, inputs, kwargs)
    if ufunc.nout == 1:
        return store(out[0], result, casting, name, where)
    return tuple(
        [
            value if array is None else store(array, value, casting, name, where)
            for array, value in zip(out, result, strict=True)
        ]
    )


def _computed(ufunc: np.ufunc, method: str, inputs: Any, kwargs: dict[str, Any]) -> Any:
    if method == "__call__":
        return _call(ufunc, inputs, kwargs)
    if method == "outer":
        return _outer(ufunc, inputs, kwargs)
    if method in ("reduce", "accumulate"):
        known: dict[Any, Any] = REDUCE if method == "reduce" else ACCUMULATE
        logical: dict[Any, Any] = _LOGICAL if method == "reduce" else {}
        function = known.get(ufunc) or logical.get(ufunc)
        if function is not None:
            if method == "accumulate" and not array_of(inputs[0]).shape:
                raise TypeError("cannot accumulate on a scalar")
            return function(*inputs, **kwargs)
        if method == "accumulate" and ufunc.nin == 2 and ufunc.nout == 1:
            return _accumulated(ufunc, *inputs, **kwargs)
        raise UnsupportedArgumentError(
            f"np.{ufunc.__name__}.{method} was called on a traced value{user_line()}, and fungrad "
            f"has no such method. It has np.ufunc.{method} of "
            f"{', '.join(sorted(u.__name__ for u in known))}; write a loop, or use the function "
            "that it stands for."
        )
    if method == "reduceat":
        return _reduced_at(ufunc, *inputs, **kwargs)
    raise UnsupportedArgumentError(
        f"np.{ufunc.__name__}.{method} was called on a traced value{user_line()}, which has no "
        "meaning there: write slices of np.cumsum, or np.add.reduce of parts, instead."
    )


def _accumulated(ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """The ufunc of all elements up to each one along an axis, one after the other."""
    x = array_of(array) if dtype is None else cast(array_of(array), dtype)
    if not x.shape:
        raise TypeError("cannot accumulate on a scalar")
    rows = np.moveaxis(x, axis, 0)
    partial_results: list[Any] = []
    for i in range(rows.shape[0]):
        partial_results.append(
            rows[i] if not partial_results else ufunc(partial_results[-1], rows[i])
        )
    return np.moveaxis(np.stack(partial_results), 0, axis) if partial_results else x


def _reduced_at(ufunc: np.ufunc, array: Any, indices: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """The ufunc of the elements between indices, which have to be known: see np.ufunc.reduceat."""
    x = np.moveaxis(array_of(array), axis, 0)
    starts = np.asarray(known(indices, "the indices of np.ufunc.reduceat")).tolist()
    for start in starts:
        if not 0 <= start < x.shape[0]:
            raise IndexError(
                f"index {start} out-of-bounds in {ufunc.__name__}.reduceat [0, {x.shape[0]})"
            )
    given = {} if dtype is None else {"dtype": dtype}
    results = [
        ufunc.reduce(x[start : max(stop, start + 1)], axis=0, **given)
        for start, stop in zip(starts, [*starts[1:], x.shape[0]], strict=True)
    ]
    return np.moveaxis(np.stack(results), 0, axis)


def _prepared(inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    """The inputs, prepared; None if the class of one handles ufuncs itself."""
    beside = next((value for value in inputs if type(value) is Tracer), None)
    ready = tuple([registry.operand(value, beside) for value in inputs])
    return None if any(value is NotImplemented for value in ready) else ready


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    axis = kwargs.pop("axis", None)
    kwargs.pop("casting", None)
    kwargs.pop("order", None)
    kwargs.pop("subok", None)
    if kwargs:
        raise UnsupportedArgumentError(
            f"np.{ufunc.__name__} was called with "
            f"{', '.join(f'{k}=...' for k in kwargs)}{user_line()}, which fungrad does not take "
            "for traced values."
        )
    if where is not True:
        raise UnsupportedArgumentError(
            f"np.{ufunc.__name__} was called with where=...{user_line()}: without out= the other "
            f"elements would be undefined. Write np.where(condition, np.{ufunc.__name__}(x), "
            "other)."
        )
    if axis is not None:
        if ufunc not in CALLS:
            raise TypeError(f"{ufunc.__name__}() got an unexpected keyword argument 'axis'")
        return CALLS[ufunc](*inputs, axis=axis, dtype=dtype)
    if dtype is not None and ufunc.signature is None:
        wanted = canonical_dtype(dtype)
        inputs = tuple([cast(array_of(x), wanted) for x in inputs])
    return _apply(ufunc, inputs)


def _apply(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    function: Any = registry.ufuncs.get(ufunc) or registry.later(ufunc)
    if function is None:
        raise unsupported(ufunc)
    if all(map(is_weak, inputs)):
        inputs = numbers(function, inputs)
    if hasattr(function, "eval"):
        return current().process(function, inputs, NO_PARAMS)
    return function(*inputs)


def _outer(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The ufunc of every element of the first with every element of the second."""
    x, y = array_of(inputs[0]), array_of(inputs[1])
    if y.shape:
        x = reshape(x, shape=(*x.shape, *[1] * len(y.shape)))
    return _call(ufunc, (x, y), kwargs)


def _logical(identity: bool) -> Any:
    def reduce(
        a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
        initial: Any = identity, where: Any = True,
    ) -> Any:  # fmt: skip
        function = registry.functions[np.all if identity else np.any]
        a = array_of(a)
        result = function(a, axis=axis, keepdims=keepdims, where=where)
        if bool(initial) is identity:
            return result
        return np.logical_and(result, False) if identity else np.logical_or(result, True)

    return reduce


_LOGICAL = {np.logical_and: _logical(True), np.logical_or: _logical(False)}


def numbers(function: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Python numbers as a ufunc takes them: the first becomes NumPy's if the result would be
    Python's.
    """
    if isinstance(getattr(function, "eval", None), np.ufunc | Later):
        return inputs
    return (array_of(inputs[0]), *inputs[1:])


registry.ufunc_method = ufunc_method
registry.numbers = numbers
