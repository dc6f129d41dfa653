"""Stand-ins for ufuncs and plain ndarrays, which see lists with traced items and traced indices
before NumPy does: np.exp([x, 1.0]), a * [x, 1.0], a.dot([x, 1.0]), a[i].

NumPy makes an object array of such a list, and asks an index for its number. traced_again.py
decides when stand-ins are in use. Arrays that the function makes, which are `Writable`, get the
same methods then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from fungrad.support import pytree
from fungrad.tracing.bound_names import Binding
from fungrad.tracing.created_arrays import KINDS, Writable, holds_traced, writable
from fungrad.tracing.created_arrays import plain as plain_view
from fungrad.tracing.interception import PairOf
from fungrad.tracing.trace import EVAL, Tracer, current, registry


class ArrayStandIn(ndarray):
    """A view of an ndarray, which takes traced indices and lists with traced items, too."""

    __slots__ = ("own",)

    own: ndarray
    """The array itself; not set for arrays that NumPy made from this one."""

    def __getitem__(self, index: Any) -> Any:
        if current() is not EVAL and holds_traced(index):
            return registry.read(plain(self), index)
        return ndarray.__getitem__(self, index)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return stand_in(func(*bare(args), **bare(kwargs)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _array_ufunc(self, ufunc, method, *inputs, **kwargs)

    def __repr__(self) -> str:
        return repr(plain(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return plain(self).__reduce_ex__(protocol)


def plain(array: ArrayStandIn) -> ndarray:
    """The array itself, the same object each time: a Graph knows its constants by identity."""
    try:
        return array.own
    except AttributeError:
        return array.view(ndarray)


pytree.mark_leaf(ArrayStandIn, plain)


def stand_in(value: Any) -> Any:
    """The view of an ndarray of numbers; any other value itself."""
    if type(value) is not ndarray or value.dtype.kind not in KINDS:
        return value
    view = value.view(ArrayStandIn)
    view.own = value
    return view


def each(give: Callable[[Any], Any], found: Any) -> Any:
    """`give` of a result of a ufunc, or of each of them."""
    return tuple(map(give, found)) if type(found) is tuple else give(found)


def bare(value: Any) -> Any:
    """The ndarray of a stand-in, also in lists, tuples and dicts; any other value itself."""
    kind = type(value)
    if kind is ArrayStandIn:
        return plain(value)
    if kind is list or kind is tuple:
        return kind([bare(item) for item in value])
    if kind is dict:
        return {key: bare(item) for key, item in value.items()}
    return value


def pairs(arrays: bool) -> PairOf:
    """A function that returns the pair of a ufunc or an array and its stand-in for either of them,
    else None: the same pair each time. `arrays`: whether arrays have stand-ins.
    """
    made: dict[int, tuple[Any, Any]] = {}

    def pair_of(value: Any) -> tuple[Any, Any] | None:
        kind = type(value)
        if kind is ArrayStandIn:
            return plain(value), value
        if kind is UfuncStandIn:
            return value.ufunc, value
        if kind is not np.ufunc and (kind is not ndarray or not arrays):
            return None
        if id(value) not in made:
            made[id(value)] = value, UfuncStandIn(value) if kind is np.ufunc else stand_in(value)
        pair = made[id(value)]
        return None if pair[1] is value else pair

    return pair_of


def converted(value: Any) -> Any:
    """A list or tuple with traced items as an array; any other value itself."""
    listed = isinstance(value, (list, tuple)) and holds_traced(value)
    return registry.functions[np.asarray](value) if listed else value


class UfuncStandIn:
    """A ufunc that takes lists with traced items. It equals the ufunc, and is one to isinstance."""

    __slots__ = ("ufunc",)

    def __init__(self, ufunc: np.ufunc) -> None:
        self.ufunc = ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return each(stand_in, self.ufunc(*map(converted, args), **kwargs))

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return np.ufunc

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.ufunc, name)
        if name not in ("accumulate", "at", "outer", "reduce", "reduceat"):
            return found

        @functools.wraps(found)
        def method(*args: Any, **kwargs: Any) -> Any:
            return found(*map(converted, args), **kwargs)

        return method

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.ufunc

    def __hash__(self) -> int:
        return hash(self.ufunc)

    def __repr__(self) -> str:
        return repr(self.ufunc)

    def __reduce__(self) -> Any:
        return _itself, (self.ufunc,)


def _itself(ufunc: np.ufunc) -> np.ufunc:
    return ufunc


def _array_ufunc(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    given = kwargs.get("out")
    inputs, kwargs = bare(inputs), bare(kwargs)
    if current() is not EVAL:
        inputs = tuple(map(converted, inputs))
        for value in inputs:
            if type(value) is Tracer:
                return value.__array_ufunc__(ufunc, method, *inputs, **kwargs)
    if given is not None:
        kwargs["out"] = tuple(map(_memory, kwargs["out"]))
    found = getattr(ufunc, method)(*map(_memory, inputs), **kwargs)
    if given is not None:
        return given[0] if len(given) == 1 else given
    return each(writable if type(self) is Writable else stand_in, found)


def _memory(value: Any) -> Any:
    """A plain view of a `Writable` array; any other value itself."""
    return plain_view(value) if type(value) is Writable else value


def _method(name: str) -> Callable[..., Any]:
    """A method of ndarray, by NumPy's function of that name if it gets traced values."""
    own, function = getattr(ndarray, name), getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is EVAL or not any(map(holds_traced, (*args, *kwargs.values()))):
            return own(self, *args, **kwargs)
        return registry.functions[function](bare(self), *args, **kwargs)

    return method


def _contains(self: Any, item: Any) -> bool:
    return bool(np.any(self == item))


_BY_NAME = ("choose", "clip", "compress", "dot", "repeat", "searchsorted", "take")
METHODS = {"__contains__": _contains, **{name: _method(name) for name in _BY_NAME}}
"""The methods that take lists with traced items; operators call `__array_ufunc__`."""
for _class in (ArrayStandIn, Writable):
    for _name, _function in METHODS.items():
        setattr(_class, _name, _function)
OF_WRITABLE: Binding = (Writable, "__array_ufunc__", None, _array_ufunc)
"""The place of the same in `Writable` arrays, while stand-ins are in use."""
