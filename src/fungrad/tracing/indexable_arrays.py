"""Arrays from outside that traced values index: a[i] of an ndarray that a function finds.

NumPy asks an index for its number, which a traced one may not have, and no protocol lets it answer
otherwise. Then the function is traced once more, while the places through which it finds arrays
(globals, closures, defaults, attributes, items: bound_names.py) hold views of them whose a[i] takes
traced indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numpy import ndarray

from fungrad.errors import AbstractValueError
from fungrad.support import pytree
from fungrad.tracing import interception
from fungrad.tracing.created_arrays import KINDS, holds_traced
from fungrad.tracing.refusals import Met
from fungrad.tracing.repeated_traces import traces_again
from fungrad.tracing.source_location import refused_index
from fungrad.tracing.trace import EVAL, current, registry

T = TypeVar("T")


class Indexable(ndarray):
    """A view of an ndarray, read by traced indices, too."""

    __slots__ = ("own",)

    own: ndarray
    """The array itself; not set for arrays that NumPy made from this one."""

    def __getitem__(self, index: Any) -> Any:
        if current() is not EVAL and holds_traced(index):
            return registry.read(plain(self), index)
        return ndarray.__getitem__(self, index)

    def __repr__(self) -> str:
        return repr(plain(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return plain(self).__reduce_ex__(protocol)


def plain(array: Indexable) -> ndarray:
    """The array itself, the same object each time: a Graph knows its constants by identity."""
    try:
        return array.own
    except AttributeError:
        return array.view(ndarray)


pytree.mark_leaf(Indexable, plain)


def indexable(value: Any) -> Any:
    """The view of an ndarray of numbers that traced values may index; any other value itself."""
    if type(value) is not ndarray or not value.ndim or value.dtype.kind not in KINDS:
        return value
    view = value.view(Indexable)
    view.own = value
    return view


def _of_an_array(error: IndexError | AbstractValueError) -> bool:
    """Whether an error is that of an ndarray that was indexed by a traced value."""
    if isinstance(error, AbstractValueError):  # as a transform inside of this one raises it
        return error.indexes_array
    return refused_index(error) is not None


def _unchanged(value: Any) -> Any:
    return value


def traced_twice(
    run: Callable[[Callable[[Any], Any]], T], label: Callable[[], str], f: Callable[..., Any]
) -> T:
    """`run(given)`, which traces f. If a traced value indexes an ndarray in it, once more, with all
    arrays that f finds, and those that `given` is called with, as `Indexable`; also for the other
    reasons of repeated_traces.py.
    """
    try:
        result = run(_unchanged)
    except Exception as error:
        if traces_again(label, f, True):
            return traced_twice(run, label, f)
        indexes = isinstance(error, (IndexError, AbstractValueError)) and _of_an_array(error)
        if not indexes or not interception.State.on:
            raise
    else:
        if not Met.seen or not traces_again(label, f):
            return result
        return traced_twice(run, label, f)
    made: dict[int, tuple[Any, Any]] = {}

    def of(value: Any) -> tuple[Any, Any] | None:
        if type(value) is Indexable:
            return plain(value), value
        if type(value) is not ndarray:
            return None
        if id(value) not in made:
            made[id(value)] = value, indexable(value)
        pair = made[id(value)]
        return None if pair[1] is value else pair

    with interception.replacing(label, f, of):
        return run(indexable)
