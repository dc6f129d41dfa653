"""Writes into traced arrays, and the views that see them.

A Tracer is a handle of an immutable traced value. A write computes another value, which the handle
adopts (`adopt`). The handle of a view is linked to that of its base by a `Step`, which computes the
view's value from the base's, and the base's new value from the view's. A write goes up to the root
of the views, and down to all views that share a written element.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ItemAssignmentError, LeakedTracerError
from fungrad.ir.types import Type
from fungrad.tracing.memory_order import MemoryLayout, axes_of, dense, memory_layout, one_order
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, Trace, Tracer, current, leaked, registry


class Step:
    """The two functions between the value of a base and that of its view."""

    __slots__ = ()

    def forward(self, base: Any) -> Any:
        """The value of the view, from that of the base."""
        raise NotImplementedError

    def back(self, base: Any, view: Any) -> Any:
        """The base's new value, from its old value and the view's new one."""
        raise NotImplementedError

    def apart(self, region: Any) -> bool:
        """Whether the view surely shares no element with `region`, another Step from its base."""
        return False


class Apart:
    """A step between an array and its reshaped elements, which NumPy returns as a view or as a copy
    depending on the array's memory layout.

    They are a copy if the inputs `c_inputs` are in C order. If `c_inputs` is None, the layout is
    unknown: after a write into one of the two arrays the other cannot be used.
    """

    __slots__ = ("c_inputs",)

    def __init__(self, c_inputs: frozenset[Any] | None) -> None:
        self.c_inputs = c_inputs


class Alias:
    """The arrays that share elements with a handle: its `base`, which `step` links it to, and its
    views (weak references).
    """

    views: Sequence[weakref.ref[Tracer]] = ()
    refusal = ""
    """Why the handle is read-only; empty if it is writeable."""
    limit = 8
    """The number of views above which those that no longer exist are removed."""
    memory: MemoryLayout | None = None
    """The memory layout of the handle's first value; set at the first write."""
    c_inputs: frozenset[Any] = frozenset()
    """The inputs that have to be in C order for this to be a view."""
    written: Trace | None = None
    """The trace to which a write has moved the array from the one that it was made in."""

    def __init__(self, base: Tracer | None, step: Any, refusal: str) -> None:
        self.base = base
        self.step = step
        if refusal:
            self.refusal = refusal


def alias_of(tracer: Tracer) -> Alias | None:
    """The `Alias` of a handle, if it has one."""
    return getattr(tracer, "alias", None)


def link(
    view: Tracer,
    base: Tracer,
    step: Step | Apart,
    refusal: str = "",
    c_inputs: frozenset[Any] = frozenset(),
) -> Tracer:
    """Makes a new handle a view of another handle; returns the view.

    Args:
      view: the new handle, whose value is `step.forward(base)`.
      base: the handle that it becomes a view of.
      step: the functions between their values.
      refusal: why the view is read-only, if it is: the end of "The array is ...".
      c_inputs: the inputs that have to be in C order for this to be a view.
    """
    above = getattr(base, "alias", None)
    if above is None:
        if not base.owner.shape(base):  # a number, which has no memory to share
            return view
        above = base.alias = Alias(None, None, "")
    refusal = refusal or above.refusal
    if refusal and type(step) is Apart and step.c_inputs is not None:  # a copy
        refusal = ""
    view.alias = alias = Alias(base, step, refusal)
    if c_inputs:
        alias.c_inputs = c_inputs
    views = above.views
    if type(views) is not list:
        above.views = [weakref.ref(view)]
        return view
    views.append(weakref.ref(view))
    if len(views) > above.limit:
        above.views = [ref for ref in views if ref() is not None]
        above.limit = 2 * len(above.views) + 8
    return view


def with_memory(tracer: Tracer) -> Tracer:
    """Makes a new handle of a value without axes an array, not a number; returns the handle."""
    tracer.alias = Alias(None, None, "")
    return tracer


def array_over(value: Any) -> Any:
    """A result that is an array in NumPy, also without axes: a traced number becomes one."""
    if type(value) is not Tracer or hasattr(value, "alias") or value.owner.shape(value):
        return value
    return with_memory(fresh(value))


def received(tracer: Tracer, value: Any) -> Tracer:
    """The new handle that a user's function receives for a value: an array if that is one."""
    return with_memory(tracer) if is_scalar_array(value) else tracer


def is_scalar_array(value: Any) -> bool:
    """Whether a value, traced or not, is an array without axes, not a number."""
    if type(value) is Tracer:
        return hasattr(value, "alias") and not value.owner.shape(value)
    return isinstance(value, np.ndarray) and not value.ndim


def fresh(tracer: Tracer) -> Tracer:
    """A copy: another handle of the same value, which shares no elements with the first."""
    copy = Tracer(tracer.owner, tracer.inner, tracer.extra)
    return with_memory(copy) if is_scalar_array(tracer) else copy


def private(value: Any) -> Any:
    """A value that the library can keep, or pass to a user's function: a copy of a tracer."""
    return fresh(value) if type(value) is Tracer else value


def adopt(tracer: Any, new: Any, region: Step | None = None) -> None:
    """Gives a handle a new value of the same shape and dtype, and updates its base and views.

    Args:
      tracer: the handle that is written into, or an array that was made while tracing.
      new: the value, which is not a view.
      region: the step to the elements that differ, if known.

    Raises:
      ItemAssignmentError: if the array is read-only, or was made outside of a function that is
        being recorded.
    """
    if type(tracer) is not Tracer:
        registry.become(tracer, new)
        return
    alias = getattr(tracer, "alias", None)
    if alias is None:
        if tracer.owner is not current():
            check_home(tracer)
        _move(tracer, new)
        return
    check_writeable(tracer)
    path = [(tracer, new)]
    base = alias.base
    while base is not None:  # computes all values first, so that an error changes nothing
        if type(alias.step) is Apart:
            break
        if alias.c_inputs:
            count_on(alias.c_inputs)
        if base.owner is not current():
            check_home(base)
        new = alias.step.back(base, new)
        path.append((base, new))
        alias = base.alias
        base = alias.base
    if tracer.owner is not current():
        check_home(tracer)
    for handle, value in path:
        _move(handle, value)
    if base is not None:
        _part(path[-1][0])
    below: Tracer | None = None
    for handle, _ in path:
        _renew(handle, region, below)
        region = handle.alias.step
        below = handle


def refusal(tracer: Tracer) -> str:
    """Why a handle is read-only; empty if it is writeable."""
    alias = getattr(tracer, "alias", None)
    return "" if alias is None else alias.refusal


def refuse_writes(tracer: Tracer, why: str) -> None:
    """Makes a handle read-only, or, with an empty reason, writeable. Existing views stay as is."""
    if not hasattr(tracer, "alias"):
        tracer.alias = Alias(None, None, "")
    tracer.alias.refusal = why


def check_writeable(tracer: Any) -> None:
    """Raises ItemAssignmentError for a read-only handle, and ValueError, as NumPy does, for a
    read-only array that was made while tracing.
    """
    if type(tracer) is not Tracer:
        if not tracer.flags.writeable:
            raise ValueError("assignment destination is read-only")
        return
    alias = getattr(tracer, "alias", None)
    if alias is not None and alias.refusal:
        raise ItemAssignmentError(
            f"A traced array of type {tracer.type} is written into{user_line()}, and is read-only: "
            f"it is {alias.refusal}. Write into a copy of it, np.array(a)."
        )


def check_home(tracer: Tracer) -> None:
    """Raises if the running function may not write into a handle.

    A function that is recorded runs later, and any number of times. It can write only into arrays
    that are made inside of it.
    """
    trace: Trace | None = current()
    if trace is EVAL:
        raise leaked(tracer)
    while trace is not None and trace is not tracer.owner:
        if trace.closed or trace.stands_for(tracer):
            raise ItemAssignmentError(
                f"A traced array of type {tracer.type} is written into{user_line()}, but was made "
                f"outside of the function that runs: {trace.label()}. That function is recorded, "
                "and runs later, so that the write would be lost. Pass the array as an argument "
                "(as a carry) and return it, or write into a copy: a = np.array(a)."
            )
        trace.note_write(tracer)
        trace = trace.parent
    if trace is None:
        raise leaked(tracer)


def root_layout(tracer: Tracer) -> MemoryLayout:
    """The memory layout of an array that is no view: that of the handle's first value."""
    alias = getattr(tracer, "alias", None)
    if alias is not None and alias.memory is not None:
        memory: MemoryLayout = alias.memory
        return memory
    shape = tracer.shape
    if one_order(shape):
        return MemoryLayout(dense(shape))
    found = memory_layout(tracer)
    if found.strides is None:
        return found
    return MemoryLayout(dense(shape, axes_of(shape, found.strides)), found.c_inputs)


def set_layout(tracer: Tracer, found: MemoryLayout) -> None:
    """Sets the memory layout of a new array, which shares no elements."""
    if not hasattr(tracer, "alias"):
        tracer.alias = Alias(None, None, "")
    tracer.alias.memory = found


def _move(tracer: Tracer, new: Tracer) -> None:
    """Gives a handle another value. Its memory layout stays."""
    trace = tracer.owner
    if len(trace.shape(tracer)) > 1:
        if getattr(tracer, "alias", None) is None:
            tracer.alias = Alias(None, None, "")
        if tracer.alias.memory is None and tracer.alias.base is None:
            tracer.alias.memory = root_layout(tracer)
    if new.owner is not trace:
        alias = getattr(tracer, "alias", None)
        if alias is None:
            alias = tracer.alias = Alias(None, None, "")
        tracer.owner = alias.written = new.owner
    tracer.inner = new.inner
    tracer.extra = new.extra


def spoil(tracer: Tracer, trace: Trace) -> None:
    """Makes a handle, and its views, leaked values of a trace: their use raises an error."""
    alias = tracer.alias if hasattr(tracer, "alias") else Alias(None, None, "")
    tracer.alias = alias
    tracer.owner = alias.written = trace
    for ref in alias.views:
        view = ref()
        if view is not None:
            spoil(view, trace)


class Unknown(Trace):
    """The owner of arrays that a write may have changed. Their use raises an error."""

    __slots__ = ("_below", "_line")

    def __init__(self, below: Trace, line: str) -> None:
        super().__init__(None, below.label)
        self._below = below
        self._line = line

    def typeof(self, tracer: Tracer) -> Type:
        return self._below.typeof(tracer)

    def shape(self, tracer: Tracer) -> tuple[int, ...]:
        return self._below.shape(tracer)

    def dtype(self, tracer: Tracer) -> Any:
        return self._below.dtype(tracer)

    def layout(self, tracer: Tracer) -> MemoryLayout:
        return MemoryLayout(None)

    def concrete(self, tracer: Tracer, *question: Any) -> Any:
        raise leaked(tracer)

    def refused(self, tracer: Tracer) -> LeakedTracerError:
        return LeakedTracerError(
            f"An array of type {self.typeof(tracer)} is used{user_line()} that may share its "
            f"memory with one that was written into{self._line}, its elements in another shape. "
            "NumPy's reshape and ravel return a view or a copy depending on the order of axes in "
            "memory, which is not known for this traced array. Write a.reshape(shape).copy() for a "
            "copy, or np.ascontiguousarray(a) before for a view."
        )


def _part(view: Tracer) -> None:
    """Unlinks a written array from the array that it may be a view of."""
    base, step = view.alias.base, view.alias.step
    view.alias.base = view.alias.step = None
    above = base.alias
    above.views = [ref for ref in above.views if ref() is not view]
    if step.c_inputs is not None:
        count_on(step.c_inputs)
        return
    while above.base is not None:
        base, above = above.base, above.base.alias
    _forget(base, user_line())


def _forget(tracer: Tracer, line: str) -> None:
    """Makes an array, and all that may share its memory, unusable, since it is unknown whether a
    write has changed them.
    """
    if type(tracer.owner) is not Unknown:
        tracer.owner = Unknown(tracer.owner, line)
    for ref in tracer.alias.views:
        view = ref()
        if view is not None:
            _forget(view, line)


def count_on(c_inputs: frozenset[Any]) -> None:
    """Tells the recording traces that these inputs have to be in C order."""
    trace: Trace | None = current()
    while trace is not None:
        if hasattr(trace, "count_on"):
            trace.count_on(c_inputs)
        trace = trace.parent


def _renew(tracer: Tracer, region: Step | None, but: Tracer | None) -> None:
    """Updates the views of a handle, and their views, from its new value; `but` is up to date."""
    for ref in tracer.alias.views:
        view = ref()
        if view is None or view is but:
            continue
        step = view.alias.step
        if type(step) is Apart:
            if step.c_inputs is None:
                _forget(view, user_line())
            else:
                count_on(step.c_inputs)
            continue
        if region is not None and step.apart(region):
            continue
        if view.alias.c_inputs:
            count_on(view.alias.c_inputs)
        _move(view, step.forward(tracer))
        _renew(view, None, None)
