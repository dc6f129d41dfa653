"""Methods of instances of a subclass of ndarray over traced values, and NumPy's protocols for them.

Each method of ndarray is that of the traced value. Results are instances of the subclass where
NumPy's are: views, copies, reductions and the results of ufuncs. A subclass that has
`__array_ufunc__`, `__array_function__`, `__array_wrap__` or `__array_finalize__` gets the calls
that it gets from NumPy, and reaches ndarray's behaviour by `super()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy import ndarray

from fungrad.numpy.protocol.implements import NO_VALUE
from fungrad.tracing import subclass_arrays
from fungrad.tracing.aliasing import array_over
from fungrad.tracing.created_arrays import Written, holds_traced, tracer_of, writable
from fungrad.tracing.subclass_arrays import (
    OfTraced,
    give_value,
    is_subclass,
    lifted,
    overlaid,
    value_of,
    viewed,
)
from fungrad.tracing.trace import Tracer, is_number, registry

# --- values in instances, and instances over values -----------------------------------------------


def bare(value: Any) -> Any:
    """The value under an instance of a subclass, also in lists, tuples, slices and dicts; any other
    value itself.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        return kind([bare(item) for item in value])
    if kind is dict:
        return {key: bare(item) for key, item in value.items()}
    if kind is Tracer or not issubclass(kind, ndarray) or kind is ndarray:
        return value
    if issubclass(kind, OfTraced):
        return value_of(value)
    if kind is Written:
        return tracer_of(value)
    return value.view(ndarray) if is_subclass(kind) else value


def _found_in(values: Iterable[Any]) -> list[Any]:
    """The instances of subclasses among values, in lists and tuples, too."""
    found: list[Any] = []
    for value in values:
        if type(value) in (list, tuple):
            found += _found_in(value)
        elif subclass_arrays.holds_own(value):
            found.append(value)
    return found


def _first(instances: list[Any]) -> Any:
    """The instance whose class a result gets: of the highest `__array_priority__`."""
    best = instances[0]
    for other in instances[1:]:
        if other.__array_priority__ > best.__array_priority__:
            best = other
    return best


def _like(self: Any, found: Any) -> Any:
    """A result of a method as an instance of the subclass, if it is an array."""
    if type(found) is Tracer:
        return found if is_number(found) else viewed(type(self), found, self)
    return viewed(type(self), found, self) if type(found) is ndarray else found


def _clothed(found: Any, kind: type, source: Any) -> Any:
    """The arrays of a function's result as instances of a subclass."""
    if isinstance(found, tuple) and hasattr(found, "_fields"):
        return type(found)(*[_clothed(item, kind, source) for item in found])
    if type(found) in (list, tuple):
        return type(found)([_clothed(item, kind, source) for item in found])
    if type(found) is ndarray or (type(found) is Tracer and not is_number(found)):
        return viewed(kind, found, source)
    return found


# --- ufuncs ---------------------------------------------------------------------------------------


def _handles_ufuncs(value: Any) -> bool:
    """Whether a value's class handles ufuncs itself, and is no array."""
    return (
        type(value) is not Tracer
        and not isinstance(value, (ndarray, np.generic))
        and hasattr(type(value), "__array_ufunc__")
    )


def _array_ufunc(
    self: Any, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **kwargs: Any
) -> Any:
    """`super().__array_ufunc__` of a subclass, as ndarray's."""
    if any(map(_handles_ufuncs, (*inputs, *out))):
        return NotImplemented
    if out:
        kwargs["out"] = bare(out)
    result = getattr(ufunc, method)(*bare(inputs), **bare(kwargs))
    if method == "at" or result is NotImplemented:
        return result
    if out:
        return out[0] if len(out) == 1 else out
    instances = _found_in(inputs)
    if not instances:
        return result
    wrapper = lifted(_first(instances))
    whole = method in ("__call__", "outer")  # others have no context
    if type(result) is not tuple:
        return _wrapped(wrapper, result, (ufunc, inputs, 0) if whole else None)
    return tuple([_wrapped(wrapper, f, (ufunc, inputs, i)) for i, f in enumerate(result)])


def _wrapped(wrapper: Any, found: Any, context: Any) -> Any:
    """A result of a ufunc, by `__array_wrap__` of an instance."""
    if type(found) is not Tracer:
        found = np.asarray(found)
    scalar = type(found) is Tracer and is_number(found)
    wrap = type(wrapper).__array_wrap__
    if wrap is OfTraced.__array_wrap__:
        return wrap(wrapper, found, context, scalar)
    found = array_over(found)
    try:
        return wrap(wrapper, found, context, scalar)
    except TypeError as error:  # of the signature that NumPy 1 had
        if "argument" not in str(error):
            raise
        return wrap(wrapper, found, context)


def _array_wrap(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    return viewed(type(self), array_over(bare(array)), self)


def deferred(ufunc: np.ufunc, method: str, inputs: Any, kwargs: dict[str, Any]) -> Any:
    """The ufunc of traced values and plain instances of subclasses, which become traced ones;
    NotImplemented if there are none, or traced ones that will be asked.
    """
    given = (*inputs, *(kwargs.get("out") or ()))
    if any(isinstance(value, OfTraced) for value in given):
        return NotImplemented
    if not any(is_subclass(type(value)) for value in given):
        return NotImplemented
    if "out" in kwargs:
        kwargs = {**kwargs, "out": lifted(kwargs["out"])}
    return getattr(ufunc, method)(*lifted(inputs), **kwargs)


# --- functions ------------------------------------------------------------------------------------

_BY_METHOD = {
    "all": "all", "amax": "max", "amin": "min", "any": "any", "argmax": "argmax",
    "argmin": "argmin", "argsort": "argsort", "around": "round", "clip": "clip",
    "compress": "compress", "cumprod": "cumprod", "cumsum": "cumsum", "diagonal": "diagonal",
    "max": "max", "mean": "mean", "min": "min", "nonzero": "nonzero", "prod": "prod",
    "ravel": "ravel", "repeat": "repeat", "reshape": "reshape", "round": "round", "std": "std",
    "sum": "sum", "squeeze": "squeeze", "swapaxes": "swapaxes", "take": "take", "trace": "trace",
    "transpose": "transpose", "var": "var",
}  # fmt: skip
"""Functions that NumPy passes on to the method of their first argument."""
_MADE_ANEW = {
    "append", "block", "column_stack", "concat", "concatenate", "dstack", "hstack", "stack",
    "union1d", "vstack",
}  # fmt: skip
"""Functions whose results get the class of arguments with a priority above that of ndarray, and no
attributes.
"""
_OF_NDARRAY = {
    "argwhere", "bincount", "broadcast_arrays", "broadcast_to", "choose", "convolve", "copy",
    "corrcoef", "correlate", "cov", "cross", "digitize", "eigvals", "eigvalsh", "einsum",
    "flatnonzero", "histogram", "in1d", "interp", "intersect1d", "iscomplex", "isin", "isreal",
    "lexsort", "ndim", "norm", "outer", "pad", "poly", "searchsorted", "select", "setxor1d",
    "shape", "sinc", "size", "sort_complex", "svdvals", "tensordot", "tril", "triu", "unwrap",
    "vander", "where",
}  # fmt: skip
"""Functions whose results are plain arrays whatever they are given."""
_ARRAYS_OF_ONE = {
    "average", "median", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod",
    "nanquantile", "nanstd", "nansum", "nanvar", "percentile", "ptp", "quantile", "trapezoid",
}  # fmt: skip
"""Functions whose results without axes are arrays of the subclass, no numbers."""
_OF_SECOND = {"lstsq", "polyval", "solve"}
"""Functions whose results get the class of the second argument alone."""
_PLAIN_RESULTS = {"eig": 0, "eigh": 0, "svd": 1}
"""By function: the position of the one result that is a plain array."""


def _array_function(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """`super().__array_function__` of a subclass, as ndarray's."""
    for kind in types or ():
        if kind is not Tracer and not issubclass(kind, ndarray):
            return NotImplemented
    name = func.__name__
    if args and isinstance(args[0], OfTraced) and name in _BY_METHOD:
        return getattr(args[0], _BY_METHOD[name])(*args[1:], **kwargs)
    instances = _found_in((*args, *kwargs.values()))
    out = kwargs.get("out")
    result = func(*bare(args), **bare(kwargs))
    if out is not None:
        return out
    if name in _OF_SECOND:
        instances = _found_in(args[1:2])
    if not instances or name in _OF_NDARRAY or func.__module__ == "numpy.fft":
        return result
    first = _first(instances)
    if name in _MADE_ANEW:
        return result if first.__array_priority__ <= 0 else _clothed(result, type(first), None)
    if name in _PLAIN_RESULTS and type(result) is not Tracer:
        parts = [_clothed(item, type(first), first) for item in result]
        parts[_PLAIN_RESULTS[name]] = result[_PLAIN_RESULTS[name]]
        return type(result)(*parts)
    return _clothed(array_over(result) if name in _ARRAYS_OF_ONE else result, type(first), first)


def lifted_function(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """A function of traced values and plain instances of subclasses; NotImplemented if there are
    traced ones, which will be asked.
    """
    if any(issubclass(kind, OfTraced) for kind in types):
        return NotImplemented
    return func(*lifted(args), **lifted(kwargs))


# --- methods --------------------------------------------------------------------------------------


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = getattr(value_of(self), name)(*bare(args), **bare(kwargs))
        return _like(self, result)

    method.__name__ = name
    return method


def _plain_method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(value_of(self), name)(*bare(args), **bare(kwargs))

    method.__name__ = name
    return method


def _attribute(name: str, arrays: bool) -> Any:
    def get(self: Any) -> Any:
        value = getattr(value_of(self), name)
        return _like(self, value) if arrays else value

    def put(self: Any, value: Any) -> None:
        setattr(value_of(self), name, bare(value))

    return property(get, put)


def _reduction(ufunc: np.ufunc) -> Callable[..., Any]:
    def method(
        self: Any, axis: Any = None, dtype: Any = None, out: Any = None, **kwargs: Any
    ) -> Any:
        given = _given(kwargs)
        if out is not None:
            given["out"] = out
        if dtype is not None:
            given["dtype"] = dtype
        return ufunc.reduce(self, axis=axis, **given)

    return method


def _bounded(ufunc: np.ufunc) -> Callable[..., Any]:
    reduce = _reduction(ufunc)

    def method(self: Any, axis: Any = None, out: Any = None, **kwargs: Any) -> Any:
        return reduce(self, axis, None, out, **kwargs)

    return method


def _accumulation(ufunc: np.ufunc) -> Callable[..., Any]:
    def method(self: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        given = {} if out is None else {"out": out}
        array = self.ravel() if axis is None else self
        return ufunc.accumulate(array, axis=0 if axis is None else axis, dtype=dtype, **given)

    return method


def _binary(ufunc: np.ufunc) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if getattr(type(other), "__array_ufunc__", ufunc) is None:
            return NotImplemented
        return ufunc(self, other)

    return method


def _reflected(ufunc: np.ufunc) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if getattr(type(other), "__array_ufunc__", ufunc) is None:
            return NotImplemented
        return ufunc(other, self)

    return method


def in_place(ufunc: np.ufunc) -> Callable[..., Any]:
    """The method of an operator like `+=`."""

    def method(self: Any, other: Any) -> Any:
        return ufunc(self, other, out=(self,))

    return method


def _unary(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda self: ufunc(self)


def _power(self: Any, other: Any, modulus: None = None) -> Any:
    return np.power(self, other)


IN_PLACE = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift,
    "matmul": np.matmul,
}  # fmt: skip
"""The ufuncs of the operators that have one in place, by the name of the operator."""
_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
_REDUCTIONS = {"sum": np.add, "prod": np.multiply}
_BOUNDED = {"max": np.maximum, "min": np.minimum, "all": np.logical_and, "any": np.logical_or}
_ARRAYS = ("T", "imag", "mT", "real")
_ATTRIBUTES = (
    "__array_interface__", "__array_struct__", "base", "ctypes", "data", "device", "dtype", "flags",
    "flat", "itemsize", "nbytes", "ndim", "shape", "size", "strides",
)  # fmt: skip
_PLAIN_METHODS = (
    "__bool__", "__complex__", "__contains__", "__dlpack__", "__dlpack_device__", "__float__",
    "__format__", "__index__", "__int__", "__len__", "argmax", "argmin", "argpartition", "argsort",
    "dump", "dumps", "fill", "item", "nonzero", "partition", "put", "resize", "round",
    "searchsorted", "sort", "tobytes", "tofile", "tolist",
)  # fmt: skip
_METHODS = (
    "__copy__", "__deepcopy__", "__getitem__", "astype", "byteswap", "choose", "clip", "compress",
    "conj", "conjugate", "copy", "diagonal", "dot", "flatten", "getfield", "ravel", "repeat",
    "reshape", "squeeze", "swapaxes", "take", "trace", "transpose",
)  # fmt: skip


def _setitem(self: Any, index: Any, value: Any) -> None:
    held, index, value = value_of(self), bare(index), bare(value)
    if type(held) is not Tracer and (holds_traced(value) or holds_traced(index)):
        held = writable(held.copy())
        give_value(self, held)
    held[index] = value


def _view(self: Any, dtype: Any = None, type: Any = None) -> Any:
    """A view as another class, or of another dtype, as ndarray.view."""
    if isinstance(dtype, builtin_type) and issubclass(dtype, ndarray):
        dtype, type = None, dtype
    held = value_of(self)
    if dtype is not None:
        held = held.view(dtype)
    elif builtin_type(held) is Tracer:
        held = array_over(held)
    if type is ndarray:
        return held
    kind = builtin_type(self) if type is None else type
    return overlaid(kind, held, self) if builtin_type(held) is Tracer else viewed(kind, held, self)


builtin_type = type


def _mean(self: Any, axis: Any = None, dtype: Any = None, out: Any = None, **kwargs: Any) -> Any:
    mean = np.add.reduce(self, axis=axis, dtype=dtype, **_given(kwargs)) / _count(self, axis)
    return mean if out is None else np.positive(mean, out=out)


def _given(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in kwargs.items() if v is not NO_VALUE}


def _var(self: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0,
         keepdims: Any = False, **kwargs: Any) -> Any:  # fmt: skip
    given = _given(kwargs)
    apart = self - np.add.reduce(self, axis=axis, keepdims=True) / _count(self, axis)
    variance = np.add.reduce(np.absolute(apart) ** 2, axis=axis, keepdims=bool(keepdims), **given)
    variance = variance / max(_count(self, axis) - ddof, 0)
    return variance if out is None else np.positive(variance, out=out)


def _count(self: Any, axis: Any) -> int:
    shape = self.shape
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis).tolist()
    count = 1
    for i in axes:
        count *= shape[i]
    return count


def _std(self: Any, *args: Any, **kwargs: Any) -> Any:
    return np.sqrt(self.var(*args, **kwargs))


def _iterate(self: Any) -> Any:
    return (self[i] for i in range(len(self)))


def _convert(self: Any, dtype: Any = None, copy: Any = None) -> Any:
    held = value_of(self)
    return held if dtype is None else held.astype(dtype)


def install() -> None:
    """Sets the methods of OfTraced."""
    own: dict[str, Any] = {
        "__array__": _convert, "__array_function__": _array_function,
        "__array_ufunc__": _array_ufunc, "__array_wrap__": _array_wrap, "__iter__": _iterate,
        "__pow__": _power, "__setitem__": _setitem, "cumprod": _accumulation(np.multiply),
        "cumsum": _accumulation(np.add), "mean": _mean, "std": _std, "var": _var, "view": _view,
    }  # fmt: skip
    for name, ufunc in (*IN_PLACE.items(), ("divmod", np.divmod)):
        own.setdefault(f"__{name}__", _binary(ufunc))
        own[f"__r{name}__"] = _reflected(ufunc)
    own |= {f"__i{name}__": in_place(ufunc) for name, ufunc in IN_PLACE.items()}
    own |= {f"__{name}__": _binary(ufunc) for name, ufunc in _COMPARISONS.items()}
    own |= {f"__{name}__": _unary(ufunc) for name, ufunc in _UNARY.items()}
    own |= {name: _reduction(ufunc) for name, ufunc in _REDUCTIONS.items()}
    own |= {name: _bounded(ufunc) for name, ufunc in _BOUNDED.items()}
    own |= {name: _attribute(name, True) for name in _ARRAYS}
    own |= {name: _attribute(name, False) for name in _ATTRIBUTES}
    own |= {name: _plain_method(name) for name in _PLAIN_METHODS}
    own |= {name: _method(name) for name in _METHODS}
    for name, member in own.items():
        setattr(OfTraced, name, member)


install()
registry.deferred = deferred
registry.lifted_function = lifted_function
