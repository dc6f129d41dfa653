"""x[mask] of an unknown mask, which can be computed with, reduced, and written back.

The number of elements depends on the mask. But what is computed for each element is computed for
all, and the mask chooses what counts: `x[mask] += v` writes np.where(mask, x + v, x), and
`np.sum(x[mask] ** 2)` is np.sum(x**2, where=mask). Operands are numbers, arrays of the other axes,
and what the same mask selects. Two masks that are computed from the same values by the same
equations count as the same: x[x > 0] = y[x > 0]. Any other operation needs the elements, and raises
the error of the read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from fungrad.errors import AbstractValueError
from fungrad.numpy.protocol.operands import axis_indices
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import cast, reshape
from fungrad.primitives.runtime_check import checked
from fungrad.tracing.aliasing import fresh
from fungrad.tracing.trace import Tracer, alike, shape_of, typeof

_EXTREMES = (np.max, np.min)
"""NumPy's own functions: under a trace, its names may stand for others."""


class Selection(NDArrayOperatorsMixin):
    """The elements of `values` where a traced mask holds; the mask has the leading axes.

    Its axes are one of unknown length, axis 0, for all axes of the mask, and the other axes of the
    values.
    """

    __slots__ = ("error", "mask", "values")
    __array_priority__ = 2000.0

    def __init__(self, values: Any, mask: Tracer, error: AbstractValueError) -> None:
        self.values = values
        self.mask = mask
        self.error = error

    def by(self, mask: Any) -> bool:
        """Whether a mask is the one of this selection, or is computed alike."""
        return alike(mask, self.mask)

    def refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises the error of the line that read the elements, which are not known."""
        raise self.error

    __array__ = refuse

    @property
    def rest(self) -> tuple[int, ...]:
        """The lengths of the axes after axis 0."""
        return shape_of(self.values)[self.mask.ndim :]

    @property
    def ndim(self) -> int:
        """The number of axes, as of an ndarray."""
        return 1 + len(self.rest)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype, as of an ndarray."""
        return typeof(self.values).dtype

    @property
    def size(self) -> Any:
        """The number of elements, a traced number."""
        return np.count_nonzero(self.mask) * math.prod(self.rest)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        into = kwargs.pop("out", (self,))
        if method == "reduce" and ufunc in _UFUNCS and into == (self,):
            return _FUNCTIONS[_UFUNCS[ufunc]](*inputs, **{"axis": 0} | kwargs)
        if method != "__call__" or kwargs or ufunc.nout != 1 or into != (self,):
            self.refuse()
        if ufunc is np.matmul:
            return self.product(*inputs)
        return self.each(ufunc, *inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rule = _FUNCTIONS.get(func)
        return self.refuse() if rule is None else rule(*args, **kwargs)

    def each(self, function: Callable[..., Any], *inputs: Any, **kwargs: Any) -> Selection:
        """The elementwise function of selected elements."""
        result = function(*[self._operand(value) for value in inputs], **kwargs)
        if shape_of(result) != shape_of(self.values):
            self.refuse()
        return Selection(result, self.mask, self.error)

    def _operand(self, value: Any) -> Any:
        if type(value) is Selection:
            return value.values if self.by(value.mask) else self.refuse()
        shape = np.shape(value)
        if len(shape) == self.ndim and shape[0] == 1:  # of a reduction that keeps its axes
            shape = shape[1:]
            value = np.reshape(value, shape)
        return value if len(shape) < self.ndim else self.refuse()

    def cleared(self, value: Any = 0) -> Any:
        """The values, with another one where the mask does not hold."""
        return select(self.along(), self.values, typeof(self.values).dtype.type(value))

    def along(self) -> Any:
        """The mask with an axis of length 1 for each of the other axes."""
        return reshape(self.mask, shape=(*self.mask.shape, *(1,) * len(self.rest)))

    def over(
        self, function: Callable[..., Any], axis: Any, keepdims: Any = False, **others: Any
    ) -> Any:
        """A reduction along axes, by NumPy's function: a selection again without axis 0."""
        if "where" in others:
            self.refuse()
        axes = axis_indices(tuple(range(self.ndim)) if axis is None else axis, self.ndim)
        lead = self.mask.ndim
        along = tuple([i + lead - 1 for i in axes if i])
        if 0 not in axes:
            reduced = function(self.values, axis=along, keepdims=keepdims, **others)
            return Selection(reduced, self.mask, self.error)
        along = (*range(lead), *along)
        if function in _EXTREMES:
            reduced = self._extremum(function, along, keepdims, **others)
        else:
            reduced = function(
                self.values, axis=along, keepdims=keepdims, where=self.along(), **others
            )
        return reshape(reduced, shape=(1, *shape_of(reduced)[lead:])) if keepdims else reduced

    def _extremum(self, function: Any, axes: Any, keepdims: Any, **others: Any) -> Any:
        """The largest or the smallest element; an error if there is none, when it runs."""
        dtype = self.dtype
        if others or dtype.kind not in "fiub":
            self.refuse()
        ends = (-np.inf, np.inf) if dtype.kind == "f" else (False, True)
        if dtype.kind in "iu":
            ends = (np.iinfo(dtype).min, np.iinfo(dtype).max)
        values = self.cleared(ends[_EXTREMES.index(function)])
        message = (
            "zero-size array to a reduction without identity: the mask of x[mask] holds nowhere"
        )
        return checked(
            function(values, axis=axes, keepdims=keepdims), np.any(self.mask), message=message
        )

    def product(self, x: Any, y: Any) -> Any:
        """x @ y: the sum over the selected elements, or a product for each of them."""
        if type(x) is type(y) is Selection and x.ndim == y.ndim == 1 and x.by(y.mask):
            return np.sum(x.cleared() * y.cleared())
        if type(x) is Selection and x.ndim == 2 and x.mask.ndim == 1 and type(y) is not Selection:
            return Selection(np.matmul(x.values, y), x.mask, x.error)
        return self.refuse()

    def quantile(self, function: Any, *given: Any, axis: Any = None, keepdims: Any = False,
                  **others: Any) -> Any:  # fmt: skip
        """A quantile: that which ignores NaN, of values that are NaN where the mask is false."""
        if self.ndim > 1 or axis not in (None, 0) or keepdims or self.dtype.kind not in "fiub":
            self.refuse()
        values = self.values
        if self.dtype.kind != "f":
            values = cast(values, np.float64)
        ordinary = Selection(values, self.mask, self.error)
        quantiles = function(ordinary.cleared(np.nan), *given, **others)
        return select(np.any(np.isnan(values), where=self.mask), np.nan, quantiles)

    def __getitem__(self, index: Any) -> Any:
        if type(index) is Selection and index.dtype == np.bool_ and index.ndim == 1:
            if self.by(index.mask):
                return Selection(self.values, self.mask & index.values, self.error)
        return self.refuse()

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        if name == "T" and self.ndim == 1:
            return self
        function = _METHODS.get(name)
        return self.refuse() if function is None else functools.partial(function, self)

    __array__ = __bool__ = __float__ = __int__ = __index__ = refuse
    __len__ = __iter__ = __setitem__ = refuse

    def __repr__(self) -> str:
        return f"x[mask] of a mask {self.mask!r}"


# --- NumPy's functions of selections --------------------------------------------------------------


def _given(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments without those that are None: NumPy's defaults, such as out=None."""
    return {key: value for key, value in kwargs.items() if value is not None}


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a reduction of NumPy's that takes `where`."""

    def rule(a: Any, axis: Any = None, *more: Any, **kwargs: Any) -> Any:
        given = _given(kwargs)
        if type(a) is not Selection or more or "out" in given:
            return _first(a, axis, *more, *kwargs.values()).refuse()
        return a.over(function, axis, **given)

    return rule


def _first(*values: Any) -> Selection:
    """The first selection among the arguments of a function."""
    return next(value for value in values if type(value) is Selection)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: _first(*args, *kwargs.values()).each(
        function, *args, **_given(kwargs)
    )


def _of_numbers(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a function that ignores NaN, for selections without other axes."""

    def rule(a: Selection, axis: Any = None, **kwargs: Any) -> Any:
        if a.ndim > 1:
            return a.refuse()
        numbers = Selection(a.values, a.mask & ~np.isnan(a.values), a.error)
        return reduce(numbers, axis, **kwargs)

    return rule


def _count_nonzero(a: Selection, axis: Any = None, *, keepdims: Any = False) -> Any:
    return _SUM(a.each(np.not_equal, a, 0), axis, keepdims=keepdims)


def _ptp(a: Selection, axis: Any = None, **kwargs: Any) -> Any:
    return _MAX(a, axis, **kwargs) - _MIN(a, axis, **kwargs)


def _average(a: Any, axis: Any = None, weights: Any = None, **kwargs: Any) -> Any:
    if weights is None and not kwargs:
        return _MEAN(a, axis)
    both = type(a) is type(weights) is Selection
    if not both or kwargs or a.ndim > 1 or weights.ndim > 1:
        return _first(a, weights).refuse()
    return np.sum(a * weights) / np.sum(weights)


def _norm(x: Selection, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord not in (None, 1, 2):  # zeros beside the elements do not change these
        return x.refuse()
    if x.ndim == 1 and axis in (None, 0, -1):
        return np.linalg.norm(x.cleared(), ord, axis=axis, keepdims=keepdims)
    if x.ndim == 2 and axis in (1, -1) and x.mask.ndim == 1:
        return x.over(lambda values, axis, **_: np.linalg.norm(values, ord, axis), 1)
    return x.refuse()


def _dot(a: Any, b: Any) -> Any:
    return _first(a, b).product(a, b)


def _size(a: Selection, axis: Any = None) -> Any:
    if axis is None:
        return a.size
    return np.count_nonzero(a.mask) if axis_indices(axis, a.ndim) == (0,) else a.refuse()


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{f: _reduction(f) for f in (np.all, np.any, np.max, np.mean, np.min, np.prod, np.std, np.sum,
                                  np.var)},
    **{f: _elementwise(f) for f in (np.angle, np.clip, np.imag, np.isclose, np.nan_to_num, np.real,
                                    np.real_if_close, np.round, np.sinc, np.where)},
    np.average: _average,
    np.count_nonzero: _count_nonzero,
    np.dot: _dot,
    np.inner: _dot,
    np.linalg.norm: _norm,
    np.median: lambda a, *args, **kwargs: a.quantile(np.nanmedian, *args, **kwargs),
    np.ndim: lambda a: a.ndim,
    np.percentile: lambda a, *args, **kwargs: a.quantile(np.nanpercentile, *args, **kwargs),
    np.ptp: _ptp,
    np.quantile: lambda a, *args, **kwargs: a.quantile(np.nanquantile, *args, **kwargs),
    np.size: _size,
}  # fmt: skip
_FUNCTIONS |= {
    np.amax: _FUNCTIONS[np.max],
    np.amin: _FUNCTIONS[np.min],
    np.around: _FUNCTIONS[np.round],
    np.nanmax: _of_numbers(_FUNCTIONS[np.max]),
    np.nanmean: _of_numbers(_FUNCTIONS[np.mean]),
    np.nanmin: _of_numbers(_FUNCTIONS[np.min]),
    np.nanprod: _of_numbers(_FUNCTIONS[np.prod]),
    np.nanstd: _of_numbers(_FUNCTIONS[np.std]),
    np.nansum: _of_numbers(_FUNCTIONS[np.sum]),
    np.nanvar: _of_numbers(_FUNCTIONS[np.var]),
}
_SUM, _MEAN, _MAX, _MIN = (_FUNCTIONS[f] for f in (np.sum, np.mean, *_EXTREMES))
_UFUNCS = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min,
           np.logical_and: np.all, np.logical_or: np.any}  # fmt: skip
"""For ufuncs the function of NumPy's that is their `reduce`."""
_METHODS: dict[str, Callable[..., Any]] = {
    **{name: _FUNCTIONS[getattr(np, name)] for name in (
        "all any clip dot max mean min prod round std sum var").split()},
    "astype": lambda a, dtype, **kwargs: a.each(lambda x: cast(x, dtype), a),
    "conj": lambda a: a.each(np.conj, a),
    "copy": lambda a, *args: a,
}  # fmt: skip


def row_and_mask(x: Any, index: Any) -> tuple[Any, Any]:
    """x[i, mask] as x[i] and the mask; for another index the arguments themselves."""
    if type(index) is tuple and index and is_mask(index[-1]):
        *before, mask = index
        if before and all(type(entry) is int for entry in before):
            return x[tuple(before)], mask
    return x, index


def is_mask(index: Any) -> bool:
    """Whether an index is a traced mask."""
    return type(index) is Tracer and index.dtype == np.bool_


def selected(x: Any, mask: Any, error: AbstractValueError) -> Selection:
    """x[mask] of a mask that is not known.

    Raises:
      AbstractValueError: `error`, if it is no mask of the array's leading axes.
    """
    if not is_mask(mask) or not mask.ndim:
        raise error
    if mask.shape != x.shape[: mask.ndim]:
        raise error
    return Selection(fresh(x) if type(x) is Tracer else x.copy(), fresh(mask), error)
