"""numpy.ma with traced values.

`np.ma.MaskedArray` is a subclass of ndarray, written in Python. Its instances over traced values
are overlays (tracing/subclass_arrays.py) that run NumPy's own methods. A few of these call methods
of ndarray by its class, `ndarray.view(self, kind)`, which take no traced value: in an overlay they
are functions of the same code that find `_Ndarray` by the name `ndarray`.
"""

from __future__ import annotations

import dis
import functools
import itertools
import sys
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numpy import ndarray

from fungrad.interception.other_globals import Names, by_ours, with_names
from fungrad.numpy.protocol.implements import if_known
from fungrad.support.snapshots import snapshot
from fungrad.tracing import interception, subclass_arrays
from fungrad.tracing.bound_names import FURTHER, Binding, ById
from fungrad.tracing.created_arrays import Writable, Written, holds_traced, tracer_of, writable
from fungrad.tracing.stand_ins import ArrayStandIn
from fungrad.tracing.subclass_arrays import OfTraced, OverTraced, overlaid, value_of
from fungrad.tracing.trace import Tracer

_PLAIN = dict.fromkeys((Tracer, Writable, Written, ArrayStandIn), ndarray)


def _class_of(value: Any) -> Any:
    """The name `type` of numpy.ma.core: the class of a value, ndarray for traced arrays."""
    kind = type(value)
    return _PLAIN.get(kind, kind)


class _ByClass(type):
    """The class of `_Ndarray`."""

    def __getattr__(cls, name: str) -> Any:
        found = getattr(ndarray, name)
        if not callable(found):
            return found

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            kind = type(self)
            if issubclass(kind, OfTraced):
                return getattr(OfTraced, name)(self, *args, **kwargs)
            if kind is Written:
                self = tracer_of(self)
            if type(self) is Tracer:
                return getattr(self, name)(*args, **kwargs)
            if kind is Writable and name == "view":
                return _view(self, *args)
            return found(self, *args, **kwargs)

        return method

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, ndarray)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, ndarray)


def _view(array: Any, kind: Any) -> Any:
    """An array that the program makes while a transform traces, viewed as a masked array: an
    instance that traced values can be written into.
    """
    return overlaid(kind, array, array) if issubclass(kind, np.ma.MaskedArray) else array.view(kind)


class _New:
    """A new array, of which a function of np.ma asks for a view as a masked array."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def view(self, kind: Any) -> Any:
        """The view."""
        return _view(self.array, kind)


def _making(original: Any) -> Any:
    """A function that makes arrays for a function of np.ma."""
    ours = interception.replaced(original)[1]  # type: ignore[index]

    def make(*args: Any, **kwargs: Any) -> Any:
        made = writable(ours(*args, **kwargs))
        return _New(made) if type(made) is Writable else made

    return make


class _Ndarray(metaclass=_ByClass):
    """The name `ndarray` of methods that call those of ndarray by its class: each call goes to the
    method of the traced value.
    """


def _calls_by_class(code: CodeType) -> bool:
    """Whether a code loads an attribute of the global `ndarray`."""
    steps = list(dis.get_instructions(code))
    return any(
        step.opname == "LOAD_GLOBAL"
        and step.argval == "ndarray"
        and after.opname in ("LOAD_ATTR", "LOAD_METHOD")
        for step, after in itertools.pairwise(steps)
    )


def _again(function: Any) -> Any:
    """A method that finds `_Ndarray`; the method itself if it calls none of ndarray's by class."""
    if type(function) is not FunctionType or not _calls_by_class(function.__code__):
        return function
    return with_names(function, Names(function.__globals__, {"ndarray": _Ndarray}))


def _member(member: Any) -> Any:
    if isinstance(member, property):
        fget, fset = _again(member.fget), _again(member.fset)
        same = fget is member.fget and fset is member.fset
        return member if same else property(fget, fset, member.fdel, member.__doc__)
    return _again(member)


_EMPTY_LIKE = interception.original(np.empty_like)


def _array_function(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's functions of masked arrays: its own Python code, whose answers depend on each of the
    methods that it calls.
    """
    if func is _EMPTY_LIKE:
        return overlaid(type(self), writable(func(value_of(args[0]), *args[1:], **kwargs)), args[0])
    found = getattr(func, "_implementation", None)
    if type(found) is FunctionType:
        return by_ours(found)(*args, **kwargs)
    return OfTraced.__array_function__(self, func, types, args, kwargs)


def _address(self: Any) -> Any:
    """For `__array_finalize__`, which shares the mask of an array in the same memory."""
    if sys._getframe(1).f_globals.get("__name__") == "numpy.ma.core":
        return {"data": (ById(value_of(self)), False)}
    return OfTraced.__array_interface__.__get__(self)


def _finalize(self: Any, obj: Any) -> None:
    interception.use(_bindings())
    OverTraced.__array_finalize__(self, obj)


def _own_mask(array: Any) -> None:
    """Gives an array a mask that traced values can be written into."""
    mask = array._mask
    if type(mask) in (ndarray, ArrayStandIn):
        array._mask = writable(mask.view(ndarray).copy())


def _setitem(self: Any, index: Any, value: Any) -> None:
    if holds_traced(index) or type(np.ma.getmask(value)) is Tracer:
        _own_mask(self)
    np.ma.MaskedArray.__setitem__(self, index, value)


def _in_place(name: str) -> Any:
    """An operator that writes into the data, and into the mask where it is not known."""
    own = getattr(np.ma.MaskedArray, name)

    def method(self: Any, other: Any) -> Any:
        if type(np.ma.getmask(other)) is Tracer or if_known(value_of(self)) is None:
            _own_mask(self)
        return own(self, other)

    return method


def _filled(self: Any, fill_value: Any = None) -> Any:
    """MaskedArray.filled, which asks whether any element is masked where that is known."""
    mask = self._mask
    if type(mask) is not Tracer or self is np.ma.masked:
        return np.ma.MaskedArray.filled(self, fill_value)
    core: Any = np.ma.core
    fill = self.fill_value if fill_value is None else core._check_fill_value(fill_value, self.dtype)
    return np.where(mask, fill, self._data)


def _binary(original: Any) -> Any:
    """The call of np.ma's functions of two arrays, which asks whether any element is masked where
    that is known.
    """

    def call(self: Any, a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
        masks = np.ma.getmask(a), np.ma.getmask(b)
        if all(type(mask) is not Tracer or not mask.ndim for mask in masks):
            return original(self, a, b, *args, **kwargs)
        data = np.ma.getdata(a)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.f(data, np.ma.getdata(b), *args, **kwargs)
        mask = np.logical_or(*masks)
        found = np.where(mask, data, found).astype(found.dtype)
        made = found.view(np.ma.core.get_masked_subclass(a, b))
        made._mask = mask
        made._update_from(a if isinstance(a, np.ma.MaskedArray) else b)
        return made

    return call


def _held_by(made: Any) -> list[tuple[Any, str, Any]]:
    """What a function of numpy.ma calls, and where it holds it: in its closure, or, where older
    versions of NumPy have an object in place of the function, in the attributes.
    """
    if type(made) is FunctionType:
        return [(cell, "cell_contents", cell.cell_contents) for cell in made.__closure__ or ()]
    return [(vars(made), name, value) for name, value in snapshot(vars(made)).items()]


@functools.cache
def _bindings() -> list[Binding]:
    """What functions need that use numpy.ma."""
    core = np.ma.core
    kind, names = np.ma.MaskedArray, vars(core)
    make, binary = vars(kind)["__new__"], core._MaskedBinaryOperation
    pair = interception.replaced(names["narray"])
    assert pair is not None
    return [
        (kind, "__new__", make, staticmethod(_again(make.__func__))),
        (names, "narray", *pair),
        (names, "type", None, _class_of),
        (binary, "__call__", vars(binary)["__call__"], _binary(vars(binary)["__call__"])),
        *[
            (owner, key, own, _making(own))
            for name in ("arange", "empty", "identity", "indices", "ones", "zeros")
            for owner, key, own in _held_by(names[name])
            if interception.replaced(own) is not None
        ],
    ]


_IN_PLACE = [f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "pow")]


def _members(kind: type) -> Mapping[str, Any]:
    """What overlays of MaskedArray have in place of its own methods."""
    if kind.__module__ != "numpy.ma" or kind.__name__ != "MaskedArray":
        return {}
    own_members = snapshot(vars(kind)).items()
    members = {name: (own, _member(own)) for name, own in own_members if name != "__new__"}
    return {name: new for name, (own, new) in members.items() if new is not own} | {
        "__array_finalize__": _finalize,
        "__array_function__": _array_function,
        "__array_interface__": property(_address),
        "__setitem__": _setitem,
        "filled": _filled,
        **{name: _in_place(name) for name in _IN_PLACE},
    }


subclass_arrays.instead.append(_members)
FURTHER["numpy.ma"] = FURTHER["ma"] = _bindings
