"""Instances of a subclass of ndarray over traced values.

`x.view(Sub)` of a traced x has to be an instance of Sub, with its attributes and methods, and an
ndarray for C code, but its numbers are those of x. Its class is made from Sub:

    class Overlay(OverTraced, Sub, OfTraced)

`OfTraced` stands between Sub and ndarray. It has all methods and attributes of ndarray, and answers
them by the traced value that the instance holds, so that `super().method(...)` in Sub comes to it.
`OverTraced` stands above Sub: it hides the overlay's class. In the memory of an instance each
element is one object, whose every use is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
from numpy import ndarray, nditer

from fungrad.errors import MemoryAccessError
from fungrad.ir.canonical import PLAIN_KINDS
from fungrad.support import forks, pytree
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, registry

_VALUE = "_fungrad_value"


class _Element:
    """What compiled code finds in the memory of an overlay, as in that of `ones * [overlay]`."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "<element of an array of a subclass, whose values are traced>"


def _refuse(*_: Any) -> NoReturn:
    raise MemoryAccessError(
        f"The memory of an array of a subclass of ndarray was read{user_line()}, which has none, "
        "for its values are traced: by NumPy, which got it in a list or another sequence beside an "
        "array, or by compiled code. Give NumPy one array, np.stack(list), or let the array be a "
        "plain one, np.asarray(x)."
    )


for _name in (
    *"add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift".split(),
    *"neg pos abs invert bool int float complex index round trunc floor ceil len iter".split(),
    *"lt le gt ge eq ne call getitem contains".split(),
):
    setattr(_Element, f"__{_name}__", _refuse)
    if hasattr(int, f"__r{_name}__") or _name == "matmul":
        setattr(_Element, f"__r{_name}__", _refuse)

_ELEMENT = np.empty((), object)
_ELEMENT[()] = _Element()


def _without_memory(shape: tuple[int, ...]) -> ndarray:
    """An array of a shape whose elements are all one object that refuses every use."""
    found: ndarray = nditer(
        (_ELEMENT,), ["refs_ok", "zerosize_ok", "multi_index"], [["readonly"]], itershape=shape
    ).itviews[0]
    return found


class OfTraced(ndarray):
    """The base below a subclass: ndarray's methods, answered by the traced value.

    numpy/protocol/subclass_methods.py installs them.
    """

    __slots__ = ()


class OverTraced:
    """The base above a subclass: what the overlay hides from it."""

    __slots__ = ()

    _fungrad_plain: type[ndarray]
    """The subclass itself."""

    def __init_subclass__(cls, **options: Any) -> None:
        """An overlay is no subclass that the subclass has to register."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self._fungrad_plain

    def __array_finalize__(self: Any, obj: Any) -> None:
        if not holds_value(self):
            if obj is None or (type(obj) is ndarray and obj.base is _ELEMENT):
                return
            if isinstance(obj, OfTraced):
                raise MemoryAccessError(
                    f"A view was made{user_line()} of the memory of a {type(self).__name__} of "
                    "traced values, which has none, by code that does not support traced values: a "
                    "method of ndarray called by its class, or compiled code. Call the method of "
                    "the array, or give it fg.stop_gradient(np.asarray(x))."
                )
            give_value(self, ndarray.view(self, ndarray))  # of plain numbers, viewed by NumPy
        super().__array_finalize__(obj)  # type: ignore[misc]


def holds_value(array: Any) -> bool:
    """Whether an overlay has its value: it has none while it is made."""
    try:
        object.__getattribute__(array, _VALUE)
    except AttributeError:
        return False
    return True


def value_of(array: Any) -> Any:
    """The value that an overlay holds: a traced one, or a plain array that becomes one when a
    traced value is written into it.
    """
    found = object.__getattribute__(array, _VALUE)
    answer = answers.get(type(found))
    return found if answer is None else answer(found)


def give_value(array: Any, value: Any) -> None:
    """Lets an overlay hold another value."""
    object.__setattr__(array, _VALUE, value)


answers: dict[type, Callable[[Any], Any]] = {}
"""By the class of arrays that traced values were written into: what answers for one."""
instead: list[Callable[[type], Mapping[str, Any]]] = []
"""Functions that return, for a class, the members that overlays of it, and of its subclasses, have
in place of its own.
"""
_overlays: dict[type, type] = {}
_lock = forks.lock()


def overlay(kind: type) -> Any:
    """The class of instances of a subclass of ndarray over traced values."""
    found = _overlays.get(kind)
    if found is not None:
        return found
    if issubclass(kind, OfTraced):
        return kind
    with _lock:
        if kind not in _overlays:
            names = {
                "__slots__": (_VALUE,),
                "__module__": kind.__module__,
                "__qualname__": kind.__qualname__,
                "__doc__": kind.__doc__,
                "_fungrad_plain": kind,
            }
            for base in reversed(kind.__mro__):
                for members in instead:
                    names |= members(base)
            meta: Any = type(kind)
            made = meta(kind.__name__, (OverTraced, kind, OfTraced), names)
            if not pytree.is_container(kind):
                pytree.mark_leaf(made, value_of)
            _overlays[kind] = made
    return _overlays[kind]


def overlaid(kind: type, value: Any, source: Any) -> Any:
    """An instance of a subclass of ndarray over a value, made as `source` is viewed as it.

    Args:
      kind: the subclass, or its overlay.
      value: a traced array, or a plain one.
      source: what `__array_finalize__` gets; None for an array that is made anew.
    """
    made: Any = _without_memory(value.shape).view(overlay(kind))
    give_value(made, value)
    made.__array_finalize__(source)
    return made


def viewed(kind: type, value: Any, source: Any) -> Any:
    """A value, traced or not, as an instance of a subclass: an overlay if it is traced."""
    if type(value) is Tracer:
        return overlaid(kind, value, source)
    plain: type = getattr(kind, "_fungrad_plain", kind)
    made: Any = np.asarray(value).view(plain)
    if source is not value:
        made.__array_finalize__(source)
    return made


_KINDS: dict[type, bool] = {ndarray: False}


def _is_of_numpy(kind: type) -> bool:
    package = kind.__module__.partition(".")[0]
    if kind is ndarray or kind.__module__.startswith("numpy.ma"):
        return False
    return package in ("fungrad", "numpy")


def is_subclass(kind: type) -> bool:
    """Whether a class is a subclass of ndarray that traced values keep: none of fungrad's own, nor
    of NumPy's or derived from these, which call ndarray's methods by its class.
    """
    found = _KINDS.get(kind)
    if found is None:
        found = (
            issubclass(kind, ndarray)
            and kind not in PLAIN_KINDS
            and not issubclass(kind, OfTraced)
            and not any(_is_of_numpy(k) for k in kind.__mro__)
        )
        _KINDS[kind] = found
    return found


def holds_own(value: Any) -> bool:
    """Whether a value is an instance of a subclass of ndarray, of traced values or not."""
    return _has_own_protocol(type(value))


def _has_own_protocol(kind: type) -> bool:
    return is_subclass(kind) or issubclass(kind, OfTraced)


def lifted(value: Any) -> Any:
    """A plain instance of a subclass as an overlay, also in lists, tuples and dicts; any other
    value itself.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        items = [lifted(item) for item in value]
        return kind(items) if any(map(_differ, items, value)) else value
    if kind is dict:
        return {key: lifted(item) for key, item in value.items()}
    if kind is ndarray or not is_subclass(kind):
        return value
    return overlaid(kind, value.view(ndarray), value)


def _differ(new: Any, old: Any) -> bool:
    return new is not old


def has_arithmetic(kind: Any) -> bool:
    """Whether a subclass of ndarray has its own arithmetic, as units have."""
    return (
        kind.__mul__ is not ndarray.__mul__ or kind.__array_ufunc__ is not ndarray.__array_ufunc__
    )


registry.is_subclass = _has_own_protocol
