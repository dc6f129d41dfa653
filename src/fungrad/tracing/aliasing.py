"""Floor 2: writes into traced arrays, and the views that see them.

A Tracer is a handle of an immutable traced value. A write computes another value, which the handle
adopts (`adopt`). A view is a handle that is linked to that of its base by a `Step`, which says how
the view's value comes from the base's, and how the base changes when the view does. A write goes up
to the root of the views, and down to all that see what was written. Knows traces; the steps
themselves are made of primitives, on the floors above.
"""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from numpy import empty, empty_like, ndarray

from fungrad.errors import ItemAssignmentError
from fungrad.tracing.source import user_line
from fungrad.tracing.trace import EVAL, Trace, Tracer, current, leaked, registry


class Step(Protocol):
    """How a view's value and its base's follow from each other."""

    def forward(self, base: Any) -> Any:
        """The value of the view, from that of the base."""

    def back(self, base: Any, view: Any) -> Any:
        """The value of the base, from the one that it had and the view's new one."""

    def apart(self, region: Any) -> bool:
        """Whether the view surely shares no element with `region`, another Step from its base."""


class Alias:
    """What a handle shares its elements with: `base` by `step`, and views (weak references).

    `refusal` says why the handle is read-only, and is empty where it may be written into.
    """

    __slots__ = ("base", "limit", "memory", "refusal", "step", "views", "written")

    def __init__(self, base: Tracer | None, step: Any, refusal: str) -> None:
        self.base = base
        self.step = step
        self.refusal = refusal
        self.views: list[weakref.ref[Tracer]] = []
        self.limit = 8
        """How many views there may be before those that are gone are looked for."""
        self.memory: Any = None
        """A plain array that lies in memory as the handle's first value did, once it is written."""
        self.written: Trace | None = None
        """The trace to which a write has moved the array from the one that it was made in."""


def alias_of(tracer: Tracer) -> Alias | None:
    """What a handle shares its elements with, if it is linked at all."""
    return getattr(tracer, "alias", None)


def link(view: Tracer, base: Tracer, step: Step, refusal: str = "") -> Tracer:
    """Makes a handle that nobody else holds a view of another; gives the view.

    Args:
      view: has the value `step.forward(base)`.
      base: the handle that it is a view of.
      step: how they follow from each other.
      refusal: why the view is read-only, if it is: the end of "The array is ...".
    """
    above = getattr(base, "alias", None)
    if above is None:
        above = base.alias = Alias(None, None, "")
    view.alias = Alias(base, step, refusal or above.refusal)
    views = above.views
    views.append(weakref.ref(view))
    if len(views) > above.limit:
        above.views = [ref for ref in views if ref() is not None]
        above.limit = 2 * len(above.views) + 8
    return view


def fresh(tracer: Tracer) -> Tracer:
    """Another handle of the same value, which shares no elements with it: a copy."""
    return Tracer(tracer.owner, tracer.value, tracer.extra)


def private(value: Any) -> Any:
    """A value that the library holds on to, or hands over to a function of the user's."""
    return fresh(value) if type(value) is Tracer else value


def adopt(tracer: Any, new: Any, region: Step | None = None) -> None:
    """Gives a handle a new value of the same shape and dtype, and all that share its elements.

    Args:
      tracer: the handle that is written into, or an array that was made while tracing.
      new: the value, which is not a view of anything.
      region: the step to the elements that differ, where that is known.

    Raises:
      ItemAssignmentError: where the array is read-only, or was made outside of a function that is
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
    while base is not None:  # first all values, so that an error changes nothing
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
    below: Tracer | None = None
    for handle, _ in path:
        _renew(handle, region, below)
        region = handle.alias.step
        below = handle


def refusal(tracer: Tracer) -> str:
    """Why a handle is read-only; empty where it may be written into."""
    alias = getattr(tracer, "alias", None)
    return "" if alias is None else alias.refusal


def refuse_writes(tracer: Tracer, why: str) -> None:
    """Makes a handle read-only, or with an empty reason writeable; views that there are stay."""
    if not hasattr(tracer, "alias"):
        tracer.alias = Alias(None, None, "")
    tracer.alias.refusal = why


def check_writeable(tracer: Any) -> None:
    """Raises ItemAssignmentError for a view that is read-only; for an array that was made while
    tracing ValueError, as NumPy.
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
    """Raises where a handle may not be written into by the function that runs now.

    Where that is recorded to run another number of times, or at another time, the array has to be
    made inside of it.
    """
    trace: Trace | None = current()
    if trace is EVAL:
        raise leaked(tracer)
    while trace is not None and trace is not tracer.owner:
        if trace.closed or trace.stands_for(tracer):
            raise ItemAssignmentError(
                f"A traced array of type {tracer.type} is written into{user_line()} by a function "
                f"that it was made outside of: {trace.label()}. That function is recorded, and "
                "not run here, so that the write would reach nobody. Hand the array over as an "
                "argument (as a carry) and return it, or write into a copy: a = np.array(a)."
            )
        trace.note_write(tracer)
        trace = trace.parent
    if trace is None:
        raise leaked(tracer)


def root_memory(tracer: Tracer) -> Any:
    """A plain array, of any numbers, that lies in memory as an array that is no view.

    It lies as the first value of the handle did; where that is recorded, and has no numbers, in C
    order.
    """
    alias = getattr(tracer, "alias", None)
    if alias is not None and alias.memory is not None:
        return alias.memory
    shape = tracer.shape
    value: Any = tracer
    while type(value) is Tracer:
        value = value.value
    if type(value) is ndarray and value.ndim >= len(shape) > 1 and value.size:
        example = value[(0,) * (value.ndim - len(shape))]  # of a batch
        if example.shape == shape:
            return empty_like(example, tracer.dtype)
    return empty(shape, tracer.dtype)


def _move(tracer: Tracer, new: Tracer) -> None:
    """A handle takes another value over. Its elements lie in memory as before."""
    if tracer.ndim > 1:
        if getattr(tracer, "alias", None) is None:
            tracer.alias = Alias(None, None, "")
        if tracer.alias.memory is None and tracer.alias.base is None:
            tracer.alias.memory = root_memory(tracer)
    if new.owner is not tracer.owner:
        alias = getattr(tracer, "alias", None)
        if alias is None:
            alias = tracer.alias = Alias(None, None, "")
        alias.written = new.owner
    tracer.owner = new.owner
    tracer.value = new.value
    tracer.extra = new.extra


def spoil(tracer: Tracer, trace: Trace) -> None:
    """Makes a handle, and its views, leaked values of a trace: it raises where it is used."""
    alias = tracer.alias if hasattr(tracer, "alias") else Alias(None, None, "")
    tracer.alias = alias
    tracer.owner = alias.written = trace
    for ref in alias.views:
        view = ref()
        if view is not None:
            spoil(view, trace)


def _renew(tracer: Tracer, region: Step | None, but: Tracer | None) -> None:
    """Gives the views of a handle, and theirs, the values that follow from its new one."""
    for ref in tracer.alias.views:
        view = ref()
        if view is None or view is but:
            continue
        step = view.alias.step
        if region is not None and step.apart(region):
            continue
        _move(view, step.forward(tracer))
        _renew(view, None, None)


__all__ = [
    "Alias", "Step", "adopt", "alias_of", "check_home", "check_writeable", "fresh", "link",
    "private", "refusal", "refuse_writes", "root_memory", "spoil",
]  # fmt: skip
