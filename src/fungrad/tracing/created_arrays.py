"""Arrays that the program makes while a transform traces, to write traced values into.

`np.zeros(n)` calls no protocol of traced values. Its replacement (interception/numpy_functions.py)
returns a `Writable`: a subclass of ndarray, which C code, too, can use. Results that NumPy computes
from it are Writable as well. The first write of a traced value turns it, the array that owns its
memory and all views of that into `Written` arrays: each holds a tracer, which answers in its place.
Their memory is no longer used: it is spoiled (spoiled_memory.py), and has a dtype that nothing
computes with.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy import ndarray

from fungrad.errors import ItemAssignmentError
from fungrad.support import pytree
from fungrad.tracing.interception import State
from fungrad.tracing.object_arrays import Objects, objects
from fungrad.tracing.source_location import user_line
from fungrad.tracing.subclass_arrays import OfTraced, answers
from fungrad.tracing.trace import EVAL, Trace, Tracer, current, registry

KINDS = "fciub"
"""The kinds of dtypes that traced arrays may have."""


SMALL = 8_192
"""The most bytes of an array that is copied, so that it owns its memory and can be resized."""


class _Memory(ndarray):
    """A view between an ndarray and its `Writable` view. NumPy collapses chains of views of one
    class; with this class between, a plain view of the Writable has the Writable as its base.
    """

    __slots__ = ()


NO_ARRAY = "__array__ method not producing an array"
"""Words of NumPy's error for an object whose `__array__` returns a traced array."""


class _AsNdarray(type):
    """The class of Writable: code that compares classes, `type(x) == np.ndarray`, finds NumPy's."""

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is ndarray

    __hash__ = type.__hash__


class Writable(ndarray, metaclass=_AsNdarray):
    """An array of plain numbers that may become one of traced values."""

    __slots__ = ("home", "stand_in", "tracer", "views")

    home: weakref.ref[Trace]
    """The trace that was current when the array was made; not set for views."""
    stand_in: Writable
    """A second view of the memory, whose plain views have a Writable as their base."""
    tracer: Tracer
    """The tracer that answers for the array; set if it is `Written`."""
    views: list[weakref.ref[Writable]]
    """The views of the memory that this array owns; not set if there were none."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return ndarray

    def __array_finalize__(self, obj: Any) -> None:
        if type(obj) is Writable:
            if type(self.base) is Writable:
                note_view(self)
            else:
                self.home = weakref.ref(current())

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if return_scalar:
            return array[()]
        if type(array) is not ndarray or array.base is None:
            return writable(array)
        if type(array.base) is Writable:  # a view, in which NumPy has dropped axes
            array = array.view(Writable)
            note_view(array)
        return array

    def __getitem__(self, index: Any) -> Any:
        if type(index) not in _NEVER and current() is not EVAL and holds_traced(index):
            return registry.read(self, index)
        return ndarray.__getitem__(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.dtype.char != "O" and (holds_traced(value) or holds_traced(index)):
            registry.write(self, index, value)
            return
        try:
            ndarray.__setitem__(self, index, value)
        except ValueError as error:
            if NO_ARRAY not in str(error):
                raise
            registry.write(self, index, registry.operand(value))

    def fill(self, value: Any) -> None:
        """ndarray.fill, also with a traced value."""
        if holds_traced(value):
            registry.write(self, Ellipsis, value)
        else:
            ndarray.fill(self, value)

    def put(self, ind: Any, v: Any, mode: Any = "raise") -> None:
        """ndarray.put, also with traced values and traced positions."""
        if holds_traced(v) or holds_traced(ind):
            registry.functions[np.put](self, ind, v, mode)
        else:
            ndarray.put(self, ind, v, mode)

    @property
    def real(self) -> Any:
        """ndarray.real, into which traced values can be written."""
        return ndarray.real.__get__(self)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Any:
        """ndarray.imag, into which traced values can be written."""
        return ndarray.imag.__get__(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind == "c" and holds_traced(value):
            self.imag[...] = value
        else:
            ndarray.imag.__set__(self, value)  # type: ignore[attr-defined]

    @property
    def flat(self) -> Any:
        """ndarray.flat, into which traced values can be written while a transform traces."""
        elements = ndarray.flat.__get__(self)
        return elements if current() is EVAL else registry.flat(self, elements)

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[...] = value

    def __repr__(self) -> str:
        return repr(self.view(ndarray))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.view(ndarray).__reduce_ex__(protocol)


def note_view(view: Writable) -> None:
    """Adds a weak reference to a view to the list of the array that owns its memory."""
    owner: Any = view.base
    try:
        owner.views.append(weakref.ref(view))
    except AttributeError:
        owner.views = [weakref.ref(view)]


def view_over(root: Writable, array: ndarray, start: ndarray) -> Writable | None:
    """A `Writable` view of the memory of another that has the elements that an array has of an
    array `start`, whose memory layout is the root's. None if the root has gaps or shares elements.
    """
    if 0 in start.strides or root.strides != start.strides:
        return None
    rows = root.transpose(sorted(range(root.ndim), key=lambda i: -root.strides[i]))
    if not rows.flags.c_contiguous:
        return None
    offset = array.__array_interface__["data"][0] - start.__array_interface__["data"][0]
    view = ndarray.__new__(Writable, array.shape, array.dtype, rows, offset, array.strides)
    note_view(view)
    view.flags.writeable = array.flags.writeable
    return view


tracer_of = vars(Writable)["tracer"].__get__
"""The tracer that answers for an array."""
_set_tracer = vars(Writable)["tracer"].__set__
_set_class = vars(object)["__class__"].__set__
_set_dtype = vars(ndarray)["dtype"].__set__


class Written(Writable):
    """An array that a traced value was written into: its tracer answers in its place."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return Written
        tracer = tracer_of(self)
        return tracer if name == "tracer" else getattr(tracer, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(tracer_of(self), name, value)

    def __array_finalize__(self, obj: Any) -> None:
        if type(obj) is Written:
            raise ItemAssignmentError(
                f"A view was made{user_line()} of the memory of an array that a traced value has "
                "been written into, by code that does not support traced values. Give it "
                "fg.stop_gradient(a)."
            )


def writable(array: Any) -> Any:
    """A new array as a `Writable`, into which traced values can be written.

    Returns the array itself if no transform traces, if it is no plain array of numbers or objects,
    or if fg.config.intercept is False.
    """
    if type(array) is ndarray and array.dtype.kind in KINDS and State.on:
        trace = current()
        if trace is not EVAL and trace.writes:
            if array.nbytes <= SMALL:
                return array.view(Writable).copy("K")
            made = array.view(_Memory).view(Writable)
            made.home = weakref.ref(trace)
            return made
    return objects(array)


def plain(array: Writable) -> ndarray:
    """A plain ndarray over the same memory, whose base is a Writable."""
    if type(array.base) is ndarray:
        try:
            array = array.stand_in
        except AttributeError:
            array.stand_in = array.view(ndarray).view(_Memory).view(Writable)
            array = array.stand_in
    return array.view(ndarray)


def unwrapped(value: Any) -> Any:
    """The tracer of a `Written` array, a plain view of a `Writable` one; any other value itself."""
    kind = type(value)
    if kind is Writable:
        return plain(value)
    return tracer_of(value) if kind is Written else value


def answer_by(array: Writable, tracer: Tracer) -> None:
    """Lets a tracer answer for an array from now on. The array's memory is not read any more."""
    array.setflags(write=False)
    _set_dtype(array, np.dtype((np.void, array.itemsize)))
    _set_tracer(array, tracer)
    _set_class(array, Written)


_NEVER: set[type] = {
    float, int, bool, complex, slice, type(None), type(Ellipsis), Writable,
    np.float64, np.int64, np.bool_, np.complex128,
}  # fmt: skip
"""Types of values and indices in which there are no traced values."""


def holds_traced(value: Any) -> bool:
    """Whether a value is traced, or a nested list or an object array with a traced value in it."""
    kind = type(value)
    if kind in _NEVER:
        return False
    if kind is Tracer or kind is Written:
        return True
    if kind is ndarray or kind is Objects:
        return value.dtype.char == "O" and any(map(holds_traced, value.ravel().tolist()))
    if not isinstance(value, (list, tuple)):
        return isinstance(value, OfTraced)
    if Tracer in map(type, value):  # the usual case
        return True
    return not _NEVER.issuperset(map(type, value)) and any(map(holds_traced, value))


answers[Written] = tracer_of
registry.holds_traced = holds_traced
pytree.mark_leaf(Objects, lambda array: array.view(ndarray))
pytree.mark_leaf(Writable, plain)
pytree.mark_leaf(Written, tracer_of)
