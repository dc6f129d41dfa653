"""NumPy's functions that apply functions, for traced values.

The user's functions run once for each slice, as in NumPy, so that they may use Python's control
flow; for other functions `fg.vmap` is the fast way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import implements, of_arrays
from fungrad.numpy.protocol.operands import array_of, axis_index
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    full,
    moveaxis,
    reshape,
    transpose,
)
from fungrad.primitives.movement.stack_iota import stack
from fungrad.support.pytree import leaves
from fungrad.tracing.trace import EVAL, Tracer, current, shape_of, typeof


@implements(np.apply_along_axis)
def apply_along_axis(
    func1d: Callable[..., Any], axis: Any, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """A function of vectors applied to each along an axis, as numpy.apply_along_axis."""
    arr = array_of(arr)
    axis = axis_index(axis, len(arr.shape))
    last = len(arr.shape) - 1
    moved = moveaxis(arr, axis, last)
    lead = shape_of(moved)[:-1]
    if 0 in lead:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    results = [array_of(func1d(moved[index], *args, **kwargs)) for index in np.ndindex(lead)]
    dtype = results[0].dtype
    stacked = stack(*[cast(r, dtype) for r in results])
    inner = shape_of(results[0])
    stacked = reshape(stacked, shape=(*lead, *inner))
    order = (*range(axis), *range(last, last + len(inner)), *range(axis, last))
    return transpose(stacked, axes=order) if order != tuple(range(len(order))) else stacked


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    """A function (array, axis) applied for one axis after another, as numpy.apply_over_axes."""
    value = array_of(a)
    ndim = len(value.shape)
    for axis in np.atleast_1d(axes).tolist():
        axis = ndim + axis if axis < 0 else axis
        result = array_of(func(value, axis))
        if len(result.shape) == ndim:
            value = result
            continue
        value = reshape(result, shape=tuple(np.insert(result.shape, axis, 1).tolist()))
        if len(value.shape) != ndim:
            raise ValueError("function is not returning an array of the correct shape")
    return value


@implements(np.piecewise)
@of_arrays
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Functions, each where its condition holds, as numpy.piecewise.

    Each function is applied to all of x; its values where its condition does not hold are ignored,
    and have no derivative.
    """
    x = array_of(x)
    if type(condlist) is Tracer or isinstance(condlist, np.ndarray):
        conditions = list(condlist) if len(shape_of(condlist)) > len(x.shape) else [condlist]
        if not x.shape and len(shape_of(condlist)) == 1:
            conditions = list(condlist)
    else:
        conditions = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
        if not (isinstance(conditions[0], (list, tuple, np.ndarray, Tracer)) or not x.shape):
            conditions = [np.asarray(conditions)]
    conditions = [_as_bool(c) for c in conditions]
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        covered = functools.reduce(np.logical_or, conditions)
        conditions.append(np.logical_not(covered))
    elif len(functions) != len(conditions):
        n = len(conditions)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    result: Any = full(shape=x.shape, value=0, dtype=typeof(x).dtype)
    for condition, function in zip(conditions, functions, strict=True):
        value = function
        if callable(function):
            with np.errstate(all="ignore"):
                value = function(x, *args, **kw)
        value = cast(array_of(value), x.dtype)
        result = select(condition, value, result)
    return result


def _as_bool(condition: Any) -> Any:
    condition = array_of(condition)
    return condition if condition.dtype == np.bool_ else condition != 0


class vectorize(np.vectorize):
    """Turns a function of numbers into a function of arrays, as numpy.vectorize.

    NumPy's own class takes traced values too; this one joins traced results to one array. The
    function runs once for each element (with a signature: for each core), as in NumPy.

    Args:
      pyfunc: the function.
      otypes: the dtypes of its outputs; those of the first call, if None.
      excluded: positions and names of arguments that are passed whole.
      signature: the axes of each argument's core, as "(m,n),(n)->(m)".

    >>> import numpy as np, fungrad as fg
    >>> relu = vectorize(lambda x: x if x > 0 else 0.0 * x)
    >>> fg.grad(lambda x: np.sum(relu(x)))(np.array([-1.0, 2.0]))
    array([0., 1.])
    """

    pyfunc: Any

    def __init__(
        self, pyfunc: Any = None, otypes: Any = None, doc: str | None = None,
        excluded: Iterable[Any] | None = None, cache: bool = False, signature: str | None = None,
    ) -> None:  # fmt: skip
        self.pyfunc = pyfunc
        self.excluded: set[Any] = set(excluded or ())
        self.otypes = otypes
        self.signature = signature
        self._numpy = functools.partial(
            np.vectorize,
            otypes=otypes,
            doc=doc,
            excluded=excluded,
            cache=cache,
            signature=signature,
        )
        if pyfunc is not None:
            self._plain = self._numpy(pyfunc)
            self.__doc__ = pyfunc.__doc__ if doc is None else doc
            self.__name__ = getattr(pyfunc, "__name__", "vectorized")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.pyfunc is None:  # used as a decorator with arguments
            return vectorize(args[0], **self._numpy.keywords)
        traced = any(type(leaf) is Tracer for leaf in leaves((args, kwargs)))
        if current() is EVAL or not traced:
            return self._plain(*args, **kwargs)
        return self._traced(args, kwargs)

    def _traced(self, args: Any, kwargs: Any) -> Any:
        named = {k: array_of(v) for k, v in kwargs.items() if k not in self.excluded}
        placed = {i: array_of(v) for i, v in enumerate(args) if i not in self.excluded}
        values = {**placed, **named}
        cores, outputs = _cores(self.signature, list(values))
        lead = np.broadcast_shapes(
            *[v.shape[: len(v.shape) - cores[key]] for key, v in values.items()]
        )
        wide = {
            key: broadcast_to(v, shape=(*lead, *v.shape[len(v.shape) - cores[key] :]))
            for key, v in values.items()
        }
        rows = []
        for index in np.ndindex(lead):
            row = [wide[i][index] if i in wide else arg for i, arg in enumerate(args)]
            words = {k: wide[k][index] if k in wide else v for k, v in kwargs.items()}
            found = self.pyfunc(*row, **words)
            rows.append(found if isinstance(found, tuple) else (found,))
        if not rows:
            raise ValueError("cannot call `vectorize` on size 0 inputs of traced values")
        results = []
        for i, column in enumerate(zip(*rows, strict=True)):
            items = [array_of(item) for item in column]
            dtype = items[0].dtype if self.otypes is None else np.dtype(self.otypes[i])
            joined = stack(*[cast(item, dtype) for item in items])
            results.append(reshape(joined, shape=(*lead, *shape_of(items[0]))))
        single = len(results) == 1 and outputs in (None, 1)
        return results[0] if single else tuple(results)


def _cores(signature: str | None, keys: list[Any]) -> tuple[dict[Any, int], int | None]:
    """The number of core axes of each argument, and of outputs (None without a signature)."""
    if signature is None:
        return dict.fromkeys(keys, 0), None
    inputs, outputs = signature.replace(" ", "").split("->")
    counts = [len([n for n in part.split(",") if n]) for part in inputs[1:-1].split("),(")]
    return dict(zip(keys, counts, strict=True)), outputs.count("(")


__all__ = ["apply_along_axis", "apply_over_axes", "piecewise", "vectorize"]
