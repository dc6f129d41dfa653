"""How an array of plain numbers becomes an array of traced values.

The steps from the array that owns the memory to its views follow from their addresses and strides.
Every method of a `Written` array calls that of its tracer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from fungrad.errors import ItemAssignmentError
from fungrad.numpy.mutation.assignment import write
from fungrad.numpy.mutation.views import ComplexPart, Indexed, Positions, Transposed, step_to
from fungrad.numpy.protocol.subclass_methods import IN_PLACE, in_place
from fungrad.primitives.movement.gather import Index
from fungrad.primitives.movement.reshape_broadcast_cast import inverse_permutation, transpose
from fungrad.tracing.aliasing import Step, array_over, check_writeable, fresh, link
from fungrad.tracing.created_arrays import Writable, Written, answer_by, plain, tracer_of
from fungrad.tracing.shadows import check_replay
from fungrad.tracing.source_location import user_line
from fungrad.tracing.spoiled_memory import spoil
from fungrad.tracing.trace import Trace, Tracer, current, registry, typeof

# --- the first write of a traced value ------------------------------------------------------------


def become(target: Writable, new: Any) -> None:
    """Gives an array that was made while tracing, and all arrays of its memory, traced values.

    Args:
      target: the array, or a view of one.
      new: the value, of the same shape and dtype. If it is not traced (in a stopped region), it is
        written into memory, and nothing else changes.
    """
    check_writeable(target)
    if type(new) is not Tracer:
        np.ndarray.__setitem__(target, Ellipsis, new)
        return
    root = target.base if type(target.base) is Writable else target
    check_home(root)
    check_replay()
    living = [ref() for ref in getattr(root, "views", ())]
    views = [(view, step_between(root, view)) for view in living if view is not None]
    if root is not target:
        new = step_between(root, target).back(plain(root), new)
    handle = array_over(_with_layout_of(root, new))
    tracers = [link(fresh(step.forward(handle)), handle, step) for _, step in views]
    spoil(root.view(np.ndarray))
    answer_by(root, handle)
    for (view, _), tracer in zip(views, tracers, strict=True):
        answer_by(view, tracer)


def _with_layout_of(root: Writable, new: Tracer) -> Tracer:
    """A handle of a value with the memory layout of an array, which decides whether a reshaped
    array is a view.
    """
    if root.flags.c_contiguous:
        return fresh(new)
    axes = tuple(np.argsort([-n for n in root.strides], kind="stable").tolist())
    base = fresh(transpose(new, axes=axes))
    step = Transposed(inverse_permutation(axes))
    return link(fresh(step.forward(base)), base, step)


def check_home(root: Writable) -> None:
    """Raises if an array was made outside of the transform, or of the function being recorded."""
    home = root.home() if hasattr(root, "home") else None
    trace: Trace | None = current()
    while trace is not None and trace is not home:
        if trace.closed and home is not None:
            raise ItemAssignmentError(
                f"A traced value is written{user_line()} into an array of type {typeof(root)} that "
                f"was made outside of the function that runs: {trace.label()}. That function is "
                "recorded and runs later, so that the write would be lost. Pass the array as an "
                "argument (as a carry) and return it, or write into a copy: a = np.array(a)."
            )
        trace = trace.parent
    if trace is None:
        raise ItemAssignmentError(
            f"A traced value is written{user_line()} into an array of type {typeof(root)} that was "
            "made outside of the transform that runs, and holds plain numbers only. Write into a "
            "copy: a = np.array(a)."
        )


# --- the place of a view in the memory of another array -------------------------------------------


class PartStep(Step):
    """The step to the real or imaginary part of a complex array, and on to a view of that."""

    __slots__ = ("part", "step")

    def __init__(self, imaginary: bool, step: Step) -> None:
        self.part = ComplexPart(imaginary)
        self.step = step

    def forward(self, base: Any) -> Any:
        """The view's value."""
        return self.step.forward(self.part.forward(base))

    def back(self, base: Any, view: Any) -> Any:
        """The base with the view's elements in one of its parts."""
        return self.part.back(base, self.step.back(self.part.forward(base), view))


class StridedStep(Step):
    """A view by strides, for plain arrays with the root's memory layout; for other values `step`
    reads the elements.
    """

    __slots__ = ("offset", "root", "shape", "step", "strides")

    def __init__(self, root: Any, view: Any, step: Step) -> None:
        size = root.itemsize
        self.root = root.shape, tuple([n // size for n in root.strides])
        self.shape = view.shape
        self.strides = tuple([n // size for n in view.strides])
        self.offset = (_address(view) - _address(root)) // size
        self.step = step

    def forward(self, base: Any) -> Any:
        """The view's value."""
        if type(base) is not np.ndarray:
            return self.step.forward(base)
        size = base.itemsize
        if (base.shape, tuple([n // size for n in base.strides])) != self.root:
            return self.step.forward(base)
        return np.asarray(_Strides(base, self.shape, self.strides, self.offset))

    def back(self, base: Any, view: Any) -> Any:
        """The base with the view's elements in their places."""
        return self.step.back(base, view)


class _Strides:
    """An object that NumPy turns into a view of an array's memory, with any strides."""

    def __init__(self, base: Any, shape: Any, strides: Any, offset: int) -> None:
        size = base.itemsize
        self.base = base
        self.__array_interface__ = {
            **base.__array_interface__,
            "data": (_address(base) + offset * size, False),
            "shape": shape,
            "strides": tuple([n * size for n in strides]),
        }


def step_between(root: Any, view: Any) -> Step:
    """The step from an array to a view of its memory."""
    if view.dtype == root.dtype:
        return _step(root, view)
    if root.dtype.kind == "c" and view.dtype == root.real.dtype:
        half = np.ndarray.view(root, np.ndarray)
        for imaginary, part in enumerate((half.real, half.imag)):
            if (_address(view) - _address(part)) % root.itemsize == 0 and all(
                n % root.itemsize == 0 for n in view.strides
            ):
                return PartStep(bool(imaginary), _step(part, view))
    raise ItemAssignmentError(
        f"A traced value is written{user_line()} into an array of dtype {root.dtype} that has a "
        f"view of dtype {view.dtype}, which would have no value then. Make the view a copy."
    )


def _step(root: Any, view: Any) -> Step:
    index = _basic_index(root, view)
    if index is not None:
        return Indexed(Index(index))
    low, high = byte_bounds(root)
    size = root.itemsize
    numbers = np.zeros((high - low) // math.gcd(size, *root.strides), np.intp)
    unit = math.gcd(size, *root.strides)

    def over(array: Any) -> Any:
        strides = [n // unit * numbers.itemsize for n in array.strides]
        offset = (_address(array) - low) // unit * numbers.itemsize
        return np.ndarray(array.shape, numbers.dtype, numbers, offset, strides)

    over(root)[...] = np.arange(root.size).reshape(root.shape)
    step = step_to(over(view), root.shape)
    return StridedStep(root, view, step) if type(step) is Positions else step


def _basic_index(root: Any, view: Any) -> tuple[Any, ...] | None:
    """The integers and slices by which an array gives a view; None if there are none."""
    if not view.size:
        return None
    offset = _address(view) - _address(root)
    axes = sorted(range(root.ndim), key=lambda i: -abs(root.strides[i]))
    starts = [0] * root.ndim
    for axis in axes:
        stride = root.strides[axis]
        if root.shape[axis] > 1 and stride:
            starts[axis], offset = divmod(offset, stride)
    entries: list[Any] = []
    rest = list(zip(view.shape, view.strides, strict=True))
    for length, stride, start in zip(root.shape, root.strides, starts, strict=True):
        composed = _slice(start, length, stride, *rest[0]) if rest else None
        if composed is not None:
            rest.pop(0)
        entries.append(start if composed is None else composed)
    if rest or not all(
        type(e) is slice or 0 <= e < n for e, n in zip(entries, root.shape, strict=True)
    ):
        return None
    index = tuple(entries) if view.ndim else (*entries, Ellipsis)  # an array, no number
    given = np.ndarray.view(root, np.ndarray)[index]
    same = given.shape == view.shape and given.strides == view.strides
    return index if same and _address(given) == _address(view) else None


def _slice(start: int, length: int, stride: int, count: int, wanted: int) -> slice | None:
    """The slice of an axis, of a length and a stride, that has `count` elements, `wanted` bytes
    apart; None if there is none.
    """
    if start < 0 or not stride or wanted % stride:
        return None
    step = wanted // stride
    last = start + step * (count - 1)
    if not step or not 0 <= last < length:
        return None
    stop = last + (1 if step > 0 else -1)
    return slice(start, stop if stop >= 0 else None, step)


def _address(array: Any) -> int:
    address: int = np.ndarray.view(array, np.ndarray).__array_interface__["data"][0]
    return address


# --- an array of traced values --------------------------------------------------------------------


def replaced(value: Any) -> Any:
    """A value with `Written` arrays replaced by their tracers, in lists and tuples, too."""
    kind = type(value)
    if kind is Written:
        return value.tracer
    if kind is list or kind is tuple:
        items = [replaced(item) for item in value]
        if any(new is not old for new, old in zip(items, value, strict=True)):
            return kind(items)
    return value


def _array_ufunc(self: Written, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    inputs = tuple([replaced(value) for value in inputs])
    return self.tracer.__array_ufunc__(ufunc, method, *inputs, **kwargs)


def _array_function(self: Written, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    out = kwargs.get("out")
    given = {k: v if v is out else replaced(v) for k, v in kwargs.items()}
    return self.tracer.__array_function__(func, types, tuple(map(replaced, args)), given)


def _special(name: str) -> Callable[..., Any]:
    def method(self: Written, *args: Any) -> Any:
        function = getattr(Tracer, name, None)
        return NotImplemented if function is None else function(tracer_of(self), *args)

    return method


_OWN = {
    "__array_finalize__", "__array_wrap__", "__class__", "__class_getitem__", "__delattr__",
    "__dir__", "__doc__", "__getattribute__", "__getstate__", "__init__", "__init_subclass__",
    "__new__", "__reduce__", "__reduce_ex__", "__setattr__", "__setstate__", "__sizeof__",
    "__subclasshook__",
}  # fmt: skip
"""Attributes of a Written array itself, not of its tracer."""


def install() -> None:
    """Sets the methods of Written."""
    for name in dir(np.ndarray):
        if name[:2] == "__" and name not in _OWN and callable(getattr(np.ndarray, name)):
            setattr(Written, name, _special(name))
    for name, ufunc in IN_PLACE.items():
        setattr(Written, f"__i{name}__", in_place(ufunc))
    own: dict[str, Any] = {
        "__array_function__": _array_function,
        "__array_ufunc__": _array_ufunc,
        "__hash__": _special("__hash__"),
        "__setitem__": write,
    }
    for name, method in own.items():
        setattr(Written, name, method)


install()
registry.become = become
