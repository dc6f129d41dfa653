"""Replacements of functions of NumPy while a transform traces: the table.

NumPy calls no protocol of a traced value when it converts it to an array, so that `np.asarray(x)`
would be an object array, nor when it makes an array of zeros. Each function here examines its
arguments: it calls fungrad's function for traced values, NumPy's for all others. A new array can
then be written into with traced values (tracing/created_arrays.py). With dtype=object NumPy makes
object arrays of traced values. `np.take(table, i)` and others call the protocol of their array, but
not of the traced index, and none calls that of the items of a list.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from _thread import get_ident
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.ir.canonical import canonical_dtype
from fungrad.numpy.creation import array, asarray, full
from fungrad.numpy.protocol.implements import array_from
from fungrad.numpy.repeat_pad_roll import as_strided
from fungrad.support.snapshots import snapshot
from fungrad.tracing import interception
from fungrad.tracing.aliasing import array_over
from fungrad.tracing.code_origin import is_library, is_ours
from fungrad.tracing.created_arrays import (
    KINDS,
    NO_ARRAY,
    Writable,
    Written,
    holds_traced,
    view_over,
    writable,
)
from fungrad.tracing.object_arrays import Objects, objects
from fungrad.tracing.refusals import refused_memory
from fungrad.tracing.source_location import user_line
from fungrad.tracing.stand_ins import ArrayStandIn
from fungrad.tracing.subclass_arrays import OfTraced, holds_own, value_of, viewed
from fungrad.tracing.trace import (
    EVAL,
    PLAIN,
    Tracer,
    current,
    registry,
    typeof,
    unsupported,
    value_under,
)

# --- arrays of values -----------------------------------------------------------------------------


def _converting(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A function that converts a value to an array, by `ours` if the value is traced."""

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        if current() is EVAL or not args:
            return original(*args, **kwargs)
        value = args[0]
        kind = type(value)
        if kind is not np.ndarray and kind is not Writable and kind is not Objects:
            if isinstance(value, OfTraced):
                return _of_subclass(original, ours, value, args[1:], _without_like(kwargs))
            if kind not in _TRACED and kind not in _LISTS and hasattr(kind, "__array__"):
                found = value if issubclass(kind, (np.ndarray, np.generic)) else _given(value)
                if found is not value:
                    return ours(found, *args[1:], **_without_like(kwargs))
            elif holds_traced(value) and _is_number(*args[1:2], **kwargs):
                return ours(*args, **_without_like(kwargs))
        elif value.dtype.char == "O" and _is_number(*args[1:2], **kwargs) and holds_traced(value):
            if "dtype" in kwargs or len(args) > 1:
                return ours(*args, **_without_like(kwargs))
        found = original(*args, **kwargs)
        if type(found) is np.ndarray and found.dtype.char == "O" and holds_traced(found):
            return objects(found)
        ours_calls = is_ours(sys._getframe(1).f_code.co_filename)
        return found if ours_calls else _made_of(value, found)

    return function


def _of_subclass(original: Any, ours: Any, value: Any, args: Any, kwargs: Any) -> Any:
    """An instance of a subclass as an array, or as an instance where the function keeps it."""
    found = ours(value_of(value), *args, **kwargs)
    if original is not _ANY and not kwargs.get("subok"):
        return found
    return value if found is value_of(value) else viewed(type(value), found, value)


_ANY = np.asanyarray
_TRACED = {Tracer, Written}
_OURS = {Writable, ArrayStandIn}
_LISTS = {list, tuple, range, float, int, bool, complex}


def _is_number(dtype: Any = None, *, like: Any = None, **others: Any) -> bool:
    """Whether an array of traced values can have the requested dtype, if any."""
    return dtype is None or canonical_dtype(dtype).kind in KINDS


def _without_like(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments without `like`: the new array is traced anyway."""
    return {k: v for k, v in kwargs.items() if k != "like"} if "like" in kwargs else kwargs


def _given(value: Any) -> Any:
    """The traced array that an object's `__array__` returns; the object itself if it has none."""
    found = value if str(type(value).__module__).startswith("dask.") else array_from(value)
    return found if type(found) is Tracer else value


def _made_of(value: Any, found: Any) -> Any:
    """NumPy's array of a value; a new array becomes a `Writable`."""
    if found is value or type(found) is not np.ndarray:
        return found
    kind = type(value)
    if kind in _OURS and not found.flags.owndata:  # NumPy dropped the class
        return value if value.shape == found.shape else value.reshape(found.shape)
    if type(found.base) is Writable:  # the same, of an object that holds it
        view = view_over(found.base, found, found.base)
        return found if view is None else view
    if kind in _LISTS or (found.flags.owndata and issubclass(kind, (np.ndarray, np.generic))):
        return writable(found)
    return found


def _require(a: Any, dtype: Any = None, requirements: Any = None) -> Any:
    """The array in a dtype and in the required order of axes in memory."""
    wanted = {str(r).upper()[:1] for r in ([requirements] if isinstance(requirements, str) else
                                           requirements or ())}  # fmt: skip
    return asarray(a, dtype, "F" if "F" in wanted else "C" if "C" in wanted else "K")


def _ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """The array in a dtype and in C order, with one axis at least, as NumPy's."""
    return array(a, dtype, copy=None, order="C", ndmin=1)


def _asfortranarray(a: Any, dtype: Any = None) -> Any:
    """The array in a dtype and in Fortran order, with one axis at least, as NumPy's."""
    return array(a, dtype, copy=None, order="F", ndmin=1)


def _asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    """The array in a dtype; raises if its numbers are known and not all finite."""
    x = asarray(a, dtype)
    value = value_under(x)
    if value is not None:
        np.asarray_chkfinite(value)
    return x


INTERCEPTED: dict[str, Callable[..., Any]] = {
    "array": array,
    "asarray": asarray,
    "asanyarray": asarray,
    "ascontiguousarray": _ascontiguousarray,
    "asfortranarray": _asfortranarray,
    "asarray_chkfinite": _asarray_chkfinite,
    "require": _require,
}
"""The names in the module numpy, and their replacements."""

# --- functions of array-likes ---------------------------------------------------------------------

NO_PROTOCOL = ("arange", "eye", "full", "tri")
"""Functions of values, which may be traced, for which NumPy calls no protocol."""

registry.functions[np.full] = full


def _of_array_likes(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls fungrad's if an argument is traced, or a list or an object array with
    traced values in it.

    NumPy calls the protocol of some arguments only: not of the items of a list, nor of a shift, an
    index or a tolerance. It would make object arrays of them.
    """

    registered, of_one = registry.functions, registry.of_one
    protocol = type(original) is type(np.sum)

    def function(*args: Any, **kwargs: Any) -> Any:
        if current() is EVAL:
            return original(*args, **kwargs)
        if protocol and args and type(args[0]) is Tracer:
            if len(args) == 1 and not kwargs and original in of_one:
                return of_one[original](*args)  # as by the protocol, in less time
            return original(*args, **kwargs)
        for arg in args:
            if holds_traced(arg):
                break
        else:
            if not kwargs or not any(map(holds_traced, kwargs.values())):
                try:
                    found = original(*args, **kwargs)
                except ValueError as error:
                    if NO_ARRAY not in str(error) or not holds_traced(given := _unpacked(args)):
                        raise
                    return function(*given, **kwargs)
                return found if not interception.copies else in_shadows(found, args, kwargs)
        ours = registered.get(original) or registry.later(original)
        if ours is None:
            raise unsupported(original)
        if protocol and any(map(_holds_others, args)):
            first = next(_writable_or_of_subclass(args), None)
            if type(first) is Writable:  # NumPy would ask it, as no class above the others
                overlay = next(x for x in _writable_or_of_subclass(args) if type(x) is not Writable)
                return overlay.__array_function__(original, (type(overlay),), args, kwargs)
            return original(*args, **kwargs)  # NumPy asks their protocol
        return ours(*args, **kwargs)

    return _named_as(function, original)


def _unpacked(value: Any) -> Any:
    """The traced arrays of objects that hold some, as columns of pandas, in lists and tuples, too;
    any other value itself.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        return kind([_unpacked(item) for item in value])
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(kind, "__array__"):
        return value
    return _given(value)


def in_shadows(found: Any, args: Any, kwargs: Any) -> Any:
    """The result of a function of plain arrays that the user or a package has called: `Writable` if
    it is new, and the trace of this thread has shadows (tracing/shadows.py).
    """
    code = sys._getframe(2).f_code
    if get_ident() not in interception.copies or is_library(code.co_filename):
        return found
    if type(found) is tuple or type(found) is list:
        return type(found)([_new(item, args) for item in found])
    return found if kwargs.get("out") is not None else _new(found, args)


def _writable_or_of_subclass(value: Any) -> Iterator[Any]:
    """The `Writable` arrays, and those of a subclass with traced values, in lists and tuples."""
    kind = type(value)
    if kind is list or kind is tuple:
        for item in value:
            yield from _writable_or_of_subclass(item)
    elif kind is Writable or issubclass(kind, OfTraced):
        yield value


_NO_OTHERS = {np.ndarray, *PLAIN}
"""Classes of items without a protocol of their own."""


def _holds_others(value: Any) -> bool:
    """Whether a list has an item of another class with NumPy's protocol."""
    kind = type(value)
    if kind is list or kind is tuple:
        return not _NO_OTHERS.issuperset(map(type, value)) and any(map(_holds_others, value))
    if kind is Tracer or kind is Written or isinstance(value, np.ndarray):
        return holds_own(value)
    return hasattr(kind, "__array_function__")


def _named_as(function: Callable[..., Any], original: Any) -> Callable[..., Any]:
    """As functools.wraps, in a sixth of the time: of hundreds of functions at the first trace."""
    function.__name__, function.__qualname__ = original.__name__, original.__qualname__
    function.__module__, function.__doc__ = original.__module__, original.__doc__
    function.__wrapped__ = original  # type: ignore[attr-defined]
    return function


def dispatched(module: Any) -> list[str]:
    """The names of a module's functions that call a protocol, or have none."""
    protocol = type(np.sum)
    found = [name for name, value in snapshot(vars(module)).items() if type(value) is protocol]
    return [*found, *NO_PROTOCOL] if module is np else found


# --- functions that make arrays -------------------------------------------------------------------

MAKERS = (
    "append", "arange", "block", "column_stack", "concat", "concatenate", "copy", "delete",
    "diagflat", "dstack", "empty", "empty_like", "eye", "fromfunction", "fromiter", "full",
    "full_like", "geomspace", "hstack", "identity", "indices", "insert", "kron", "linspace",
    "logspace", "ones", "ones_like", "outer", "pad", "repeat", "resize", "roll", "sort", "stack",
    "take", "tile", "tri", "tril", "triu", "vander", "vstack", "where", "zeros", "zeros_like",
)  # fmt: skip
"""The functions whose new arrays can be written into with traced values."""

MAY_BE_OLD = ("atleast_1d", "atleast_2d", "atleast_3d", "diag", "meshgrid", "outer", "take")
"""Functions, some of them in MAKERS, that can return an argument or a view of one."""


def _making(original: Callable[..., Any], finish: Any = None) -> Callable[..., Any]:
    """A function whose new arrays are `Writable`, unless one of fungrad's own files calls it.

    `finish(result, arguments)` converts results that are new, if not all are.
    """

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs and "like" in kwargs and type(kwargs["like"]) in _TRACED:
            kwargs = _without_like(kwargs)
        found = original(*args, **kwargs)
        if type(found) is Tracer or current() is EVAL:
            return found
        if is_ours(sys._getframe(1).f_code.co_filename) or (
            kwargs and kwargs.get("out") is not None
        ):
            return found
        if type(found) is tuple or type(found) is list:
            return type(found)([_new(item, args) for item in found])
        return writable(found) if finish is None else finish(found, args)

    return function


def _owning(found: Any, args: Any) -> Any:
    """An empty array that owns its memory at any size, so that it can be resized."""
    if type(found) is not np.ndarray or found.dtype.kind not in KINDS:
        return objects(found)
    return np.empty_like(found.view(Writable))


def _new(found: Any, args: Any) -> Any:
    """A result as a `Writable` if it is new: if it shares no memory with an argument."""
    if type(found) is not np.ndarray:
        return found
    owner = found
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
        if type(owner) is Writable:  # a view, of which NumPy has dropped the class
            view = view_over(owner, found, owner)
            return found if view is None else view
    if type(owner) is not np.ndarray or not owner.flags.owndata or 0 in found.strides:
        return found  # of foreign memory, or broadcast
    old = any(isinstance(arg, np.ndarray) and _owner(arg) is owner for arg in args)
    return found if old else writable(found)


def _owner(array: Any) -> Any:
    """The array that owns the memory of another, or the object that does, if that is no array."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array


class _InPlace(type):
    """The class of a class in place of one of NumPy's, which is called in another way. Its
    instances and subclasses are those of NumPy's class.
    """

    _original: Any
    """NumPy's class, of the class in its place and of its subclasses."""
    _make: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls._original not in cls.__bases__:  # a subclass
            return super().__call__(*args, **kwargs)
        return cls._make(*args, **kwargs)

    def __instancecheck__(cls, value: Any) -> bool:
        if cls._original in cls.__bases__:
            return isinstance(value, cls._original)
        return super().__instancecheck__(value)

    def __subclasscheck__(cls, kind: type) -> bool:
        if cls._original in cls.__bases__:
            return issubclass(kind, cls._original)
        return super().__subclasscheck__(kind)


def _in_place_of(original: Any, make: Callable[..., Any]) -> Any:
    """The class in place of one of NumPy's, whose calls are `make(original, *args, **kwargs)`."""
    names = {n: getattr(original, n) for n in ("__module__", "__qualname__", "__doc__")}
    names["__signature__"] = inspect.signature(original)
    found: Any = _InPlace(original.__name__, (original,), names)
    found._original, found._make = original, staticmethod(functools.partial(make, original))
    return found


def _vectorize(original: Any, *args: Any, **kwargs: Any) -> Any:
    """fungrad's np.vectorize, which joins traced results to one array."""
    if current() is EVAL or is_ours(sys._getframe(2).f_code.co_filename):
        return original(*args, **kwargs)
    return registry.namespace.vectorize(*args, **kwargs)


def _polynomial(original: Any, c_or_r: Any, *args: Any, **kwargs: Any) -> Any:
    """NumPy's np.poly1d of a list with traced values as an array."""
    traced = current() is not EVAL and holds_traced(c_or_r)
    return original(asarray(c_or_r) if traced else c_or_r, *args, **kwargs)


def _fromiter(original: Any) -> Any:
    """NumPy's np.fromiter, which takes traced items as well."""

    @functools.wraps(original)
    def fromiter(iter: Any, dtype: Any, count: int = -1, **kwargs: Any) -> Any:
        if current() is EVAL or canonical_dtype(dtype).kind not in KINDS:
            return original(iter, dtype, count, **kwargs)
        items = list(iter if count < 0 else itertools.islice(iter, count))
        if holds_traced(items) and len(items) >= count:
            return array(items, dtype)
        return original(items, dtype, count, **kwargs)

    return fromiter


CLASSES = {"vectorize": _vectorize, "poly1d": _polynomial}
"""The classes in place of which others are, and how these are called."""

# --- the table ------------------------------------------------------------------------------------


def _table(module: Any) -> dict[str, Callable[..., Any]]:
    """The replacements of functions of a module."""
    table = {name: _of_array_likes(getattr(module, name)) for name in dispatched(module)}
    if module is np:
        for name in {*MAKERS, *MAY_BE_OLD}:
            if hasattr(np, name):  # concat is of NumPy 2.1
                finish = _new if name in MAY_BE_OLD else None
                table[name] = _making(table.get(name) or getattr(np, name), finish)
        table["empty"] = _making(np.empty, _owning)
        table["fromiter"] = _making(_fromiter(np.fromiter))
        for name, ours in INTERCEPTED.items():
            table[name] = _converting(getattr(np, name), ours)
        for name, make in CLASSES.items():
            table[name] = _in_place_of(getattr(np, name), make)
    return table


def _of_memory(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function that arranges an array in memory, for compiled code, which then reads its memory:
    it refuses traced values. Extension classes may crash where they get no ndarray.
    """

    @functools.wraps(original)
    def function(a: Any, *args: Any, **kwargs: Any) -> Any:
        if holds_traced(a):
            asked = f"The memory (np.{name}, in compiled code)"
            raise refused_memory(typeof(array(a)), asked)
        return original(a, *args, **kwargs)

    return function


def _strided(original: Callable[..., Any]) -> Callable[..., Any]:
    """fungrad's as_strided for traced arrays."""

    @functools.wraps(original)
    def function(x: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is not EVAL and type(x) in _TRACED:
            return as_strided(x, *args, **kwargs)
        return original(x, *args, **kwargs)

    return function


_SCALARS = (
    "cdouble", "clongdouble", "complex128", "complex64", "csingle", "double", "float16", "float32",
    "float64", "half", "longdouble", "single",
)  # fmt: skip


def _scalar_class(original: Any) -> Callable[..., Any]:
    """A call of one of NumPy's classes of numbers, `np.float64(x)`, which takes traced values."""
    dtype = np.dtype(original)

    def call(*args: Any) -> Any:
        if args and current() is not EVAL and holds_traced(args[0]):
            found = asarray(args[0])
            return found.astype(dtype)[()] if type(found) is Tracer else original(*args)
        return original(*args)

    return call


def _iterator(original: Any) -> Callable[..., Any]:
    """A call of np.nditer; of a traced array alone, an iterator over its elements in its order."""

    def call(op: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is EVAL or _all_in_memory(op):
            return original(op, *args, **kwargs)
        if args or kwargs or isinstance(op, (list, tuple)):
            raise UnsupportedArgumentError(
                f"np.nditer was called on a traced value{user_line()} with other arguments, or "
                "several arrays. fungrad has np.nditer(x), which reads one array: write `for index "
                "in np.ndindex(x.shape)` with x[index], or zip of the raveled arrays."
            )
        return map(array_over, iter(asarray(op).ravel("K")))

    return call


def _all_in_memory(op: Any) -> bool:
    """Whether NumPy can iterate over operands: arrays, of objects too, are iterated over as they
    are, with the traced values that their elements are or hold.
    """
    if isinstance(op, (list, tuple)):
        return all(map(_all_in_memory, op))
    return type(op) is np.ndarray or type(op) is Objects or not holds_traced(op)


interception.register(
    np.lib.stride_tricks, {"as_strided": _strided(np.lib.stride_tricks.as_strided)}
)
_IN_ORDER = ("ascontiguousarray", "asfortranarray", "require")
_compiled = {name: _of_memory(getattr(np, name), name) for name in _IN_ORDER}
interception.register(np, _table(np), _compiled)
interception.register_calls(np, {name: _scalar_class(getattr(np, name)) for name in _SCALARS})
interception.register_calls(np, {"nditer": _iterator(np.nditer)})
interception.register(np.linalg, _table(np.linalg))
interception.register_later("numpy.fft", _table)
