"""The current trace, Trace, Tracer, and EvalTrace, the lowest trace, where NumPy computes.

A primitive that is called asks the current trace to process it. A transform's trace keeps its
`parent`, the trace that was current when it was made; it owns its tracers by identity, and runs
primals and rules under its parent. No levels. The folders above install NumPy's functions and
Tracer's operators in `registry`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from fungrad.errors import (
    AbstractBooleanError,
    AbstractValueError,
    LeakedTracerError,
    UnsupportedFunctionError,
)
from fungrad.ir.canonical import canonical
from fungrad.ir.types import PYTHON_DTYPES, PYTHON_SCALARS, Type, of_value
from fungrad.support import pytree
from fungrad.tracing import interception
from fungrad.tracing.concrete_answers import T, ceil, floor
from fungrad.tracing.memory_order import MemoryLayout, memory_layout
from fungrad.tracing.refusals import refused_function, refused_store, stored
from fungrad.tracing.source_location import REFUSED, user_line, user_source


class Trace:
    """One observer of a running program: a transform at work."""

    __slots__ = ("__weakref__", "keeper", "label", "parent", "records")

    records: bool
    """Whether operations here are recorded in a Graph, which needs their source lines."""
    keeper: Any
    """The object whose `keep(array)` is called before an array of the program is kept: the trace
    that records a Graph, or the `Residuals` of the outermost reverse mode; else None.
    """
    closed = False
    """Whether the running function is recorded, so that it must not write into captured arrays."""

    def __init__(self, parent: Trace | None, label: Callable[[], str]) -> None:
        self.parent = parent
        self.label = label
        self.records = parent is not None and parent.records
        self.keeper = None if parent is None else parent.keeper

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        """Applies a primitive to values, some of which may be tracers of this trace."""
        raise NotImplementedError

    def typeof(self, tracer: Tracer) -> Type:
        """The Type of one of this trace's tracers."""
        value = tracer.value
        return value.owner.typeof(value) if type(value) is Tracer else of_value(value)

    def shape(self, tracer: Tracer) -> tuple[int, ...]:
        """The shape of one of this trace's tracers (its Type costs more to make)."""
        return shape_of(tracer.value)

    def dtype(self, tracer: Tracer) -> np.dtype[Any]:
        """The dtype of one of this trace's tracers."""
        value = tracer.value
        return PYTHON_DTYPES[type(value)] if type(value) in PYTHON_SCALARS else value.dtype

    def layout(self, tracer: Tracer) -> MemoryLayout:
        """The memory layout of the array under one of its tracers, batch axes first."""
        return memory_layout(tracer.value)

    def concrete(
        self, tracer: Tracer, error: type[Exception], asked: str, read: Callable[[Any], T]
    ) -> T:
        """`read(value)` of the plain value under a tracer.

        Raises `error` if there is none. `asked` names the caller in its message; it is empty if the
        caller can do without, and wants no answer that holds for the present values alone.
        """
        value = tracer.value
        if type(value) is Tracer:
            return value.owner.concrete(value, error, asked, read)
        return read(value)

    def stands_for(self, tracer: Tracer) -> bool:
        """Whether this trace substitutes another value for a tracer that it does not own."""
        return False

    def alike(self, x: Tracer, y: Tracer) -> bool:
        """Whether two of its tracers that have no derivative are known to be equal: see `alike`."""
        return alike(x.value, y.value)

    def note_write(self, tracer: Tracer) -> None:
        """Called when an array of a trace below is written into while this trace is active."""

    def origin(self, tracer: Tracer) -> str:
        """The origin of a tracer, for messages."""
        return ""

    def run(self, f: Callable[..., Any], *args: Any) -> Any:
        """Calls f with this trace as the current one.

        The outermost trace replaces functions that no protocol reaches while f runs.
        """
        if not registry.complete:
            registry.surface.load()
        if _current.get() is not EVAL or self is EVAL:
            token = _current.set(self)
            try:
                return f(*args)
            finally:
                _current.reset(token)
        try:
            interception.begin(self, f)
            token = _current.set(self)
            try:
                return f(*args)
            finally:
                _current.reset(token)
        finally:
            interception.end(self)


class EvalTrace(Trace):
    """The lowest trace: NumPy values in, NumPy values out. A tracer that reaches it has leaked."""

    __slots__ = ()

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        for arg in args:
            if type(arg) is Tracer:
                raise leaked(arg)
        return primitive.eval(*args, **params)


EVAL = EvalTrace(None, lambda: "evaluation")
_current: ContextVar[Trace] = ContextVar("fungrad_trace", default=EVAL)
current: Callable[[], Trace] = _current.get
enter = _current.set
leave = _current.reset


def leaked(tracer: Tracer) -> LeakedTracerError:
    """The error for a tracer that outlived its transform, or the one that its owner has for it."""
    if hasattr(tracer.owner, "refused"):
        return tracer.owner.refused(tracer)  # type: ignore[no-any-return]
    alias = getattr(tracer, "alias", None)
    made = tracer.owner.origin(tracer)
    if alias is not None and alias.written is tracer.owner:
        made = ", made outside of this transform and written into inside of it,"
    return LeakedTracerError(
        f"A value of type {tracer.owner.typeof(tracer)}{made} was "
        f"used{user_line()}, outside of the transform that made it: {tracer.owner.label()}. Its "
        "value belongs to that call alone (and to its thread). Return it from the function "
        "(has_aux=True for extra outputs), or keep fg.stop_gradient(value) instead."
    )


class _Functions(dict[Any, Callable[..., Any]]):
    """Implementations by NumPy's functions, and by the replacements of these."""

    def __missing__(self, function: Any) -> Callable[..., Any]:
        found = interception.original(function)
        if found is function:
            raise KeyError(function)
        return self[found]


class Registry:
    """The functions that NumPy's protocols call, installed by the folders above when the first
    trace runs, or at the first access.
    """

    complete = False
    surface: Any
    """The module that installs all functions, and then sets `complete`."""
    ufunc_method: Callable[..., Any]
    later: Callable[[Any], Callable[..., Any] | None]
    """Looks for a function in submodules that are imported only when needed."""
    scipy: Callable[[str], Any]
    """Imports a module of fungrad.scipy, by its name there."""
    into: Callable[..., Any]
    """Writes a value into the array `out` for a named function; returns `out`."""
    namespace: Any
    at: Callable[[Any], Any]
    read: Callable[[Any, Any], Any]
    """Returns `array[index]` of an array that was made while tracing, by a traced index."""
    write: Callable[[Any, Any, Any], None]
    """Does `array[index] = value` with traced values."""
    flat: Callable[[Any, Any], Any]
    """Returns `array.flat` of an array that was made while tracing."""
    become: Callable[[Any, Any], None]
    """Gives an array that was made while tracing a traced value."""
    operand: Callable[[Any], Any]
    """Converts a value that is no tracer and no Python number to an operand beside a tracer."""
    numbers: Callable[[Any, Any], Any]
    """Converts operands of a ufunc that are all Python numbers, so that results are NumPy's."""

    def __init__(self) -> None:
        self.ufuncs: dict[Any, Any] = {}
        """A primitive, or a plain function composed of primitives, for each ufunc."""
        self.functions: dict[Any, Callable[..., Any]] = _Functions()

    def __getattr__(self, name: str) -> Any:
        if name == "surface" or self.complete:
            raise AttributeError(name)
        self.surface.load()
        return object.__getattribute__(self, name)


registry = Registry()
ufuncs = registry.ufuncs
NO_PARAMS: dict[str, Any] = {}
"""The parameters of a primitive that has none; never written to."""
PLAIN: set[type] = {
    float, int, bool, complex, np.float64, np.float32, np.int64, np.bool_, np.complex128,
}  # fmt: skip
"""The classes of operands that need no preparation; Tracer is added below."""
STRONG = {np.ndarray, *PLAIN.difference(PYTHON_SCALARS)}
"""Classes of values that are surely not weak."""


class Tracer:
    """A traced value: what user code holds in place of an ndarray while a transform runs.

    It behaves as an ndarray: operators, attributes, methods, NumPy's ufuncs and functions;
    `isinstance(x, np.ndarray)` holds. Code that asks for its class in Python finds ndarray;
    `type(x)`, and compiled code, which reads the memory of ndarrays, finds Tracer. It is a handle:
    `owner`, `value` and `extra` are one traced value, which never changes; a write into the array
    gives the handle another value (`aliasing.adopt`). Code that needs the present value later takes
    a handle of its own (`aliasing.fresh`).
    """

    __slots__ = ("__weakref__", "alias", "extra", "owner", "value")
    __array_priority__ = 1000.0

    owner: Trace
    value: Any
    extra: Any
    alias: Any
    """The arrays that share its elements (`aliasing.Alias`); not set if there are none."""

    def __init__(self, trace: Trace, value: Any, extra: Any) -> None:
        self.owner = trace
        self.value = value
        self.extra = extra

    if TYPE_CHECKING:  # operators and methods are installed by fungrad.numpy

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return np.ndarray

    @property
    def type(self) -> Type:
        """The shape, dtype and weak bit."""
        return self.owner.typeof(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, as of an ndarray."""
        return self.owner.shape(self)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype, as of an ndarray."""
        return self.owner.dtype(self)

    @property
    def ndim(self) -> int:
        """The number of axes, as of an ndarray."""
        return len(self.owner.shape(self))

    @property
    def size(self) -> int:
        """The number of elements, as of an ndarray."""
        return self.owner.typeof(self).size

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of an array without axes")
        return shape[0]

    def __iter__(self) -> Iterator[Any]:
        # A 0-d value has to refuse before the first item: NumPy asks whether it is a sequence.
        return iter([self[i] for i in range(len(self))])

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"Tracer({self.type}, {self.owner.label()})"

    def __bool__(self) -> bool:
        if stored():
            raise refused_store(self.type)
        return self.owner.concrete(self, AbstractBooleanError, "bool()", bool)

    def __int__(self) -> int:
        if stored():
            raise refused_store(self.type)
        return self.owner.concrete(self, AbstractValueError, "int()", int)

    __trunc__ = __int__

    def __index__(self) -> int:
        try:
            return self.owner.concrete(self, AbstractValueError, "an index", operator.index)
        except AbstractValueError:  # ndarray[i] replaces this error by one that hides the cause
            REFUSED.index = user_source()
            raise

    def __floor__(self) -> int:
        return self.owner.concrete(self, AbstractValueError, "math.floor()", floor)

    def __ceil__(self) -> int:
        return self.owner.concrete(self, AbstractValueError, "math.ceil()", ceil)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        trace = current()
        if trace is EVAL:
            raise leaked(_first_tracer((inputs, kwargs), self))
        if method == "__call__" and not kwargs:
            function = ufuncs.get(ufunc)
            if function is not None:
                if (
                    type(self.value) not in STRONG
                    and type(getattr(function, "eval", None)) is not np.ufunc
                    and all(map(is_weak, inputs))
                ):
                    inputs = registry.numbers(function, inputs)
                for value in inputs if len(inputs) > 1 else ():
                    if type(value) not in PLAIN:
                        inputs = tuple([registry.operand(v) for v in inputs])
                        if any(v is NotImplemented for v in inputs):
                            return NotImplemented
                        break
                if type(function) is FunctionType:
                    return function(*inputs)
                return trace.process(function, inputs, NO_PARAMS)
        return registry.ufunc_method(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if _current.get() is EVAL:
            raise leaked(_first_tracer((args, kwargs), self))
        for type_ in types:
            if type_ is not Tracer and not issubclass(type_, np.ndarray):
                return NotImplemented
        function = registry.functions.get(func) or registry.later(func)
        if function is None:
            raise unsupported(func)
        return function(*args, **kwargs)

    def __array_namespace__(self, *, api_version: Any = None) -> Any:
        np.empty(0).__array_namespace__(api_version=api_version)  # raises for an unknown version
        return registry.namespace

    @property
    def at(self) -> Any:
        """Functional updates: `x.at[index].set(value)` returns a new array."""
        return registry.at(self)


PLAIN.add(Tracer)
for _leaf in (np.ndarray, *PLAIN):
    pytree.mark_leaf(_leaf)


def _first_tracer(tree: Any, default: Tracer) -> Tracer:
    found = [leaf for leaf in pytree.leaves(tree) if type(leaf) is Tracer]
    return found[0] if found else default


def unsupported(func: Any) -> UnsupportedFunctionError:
    """The error for a NumPy function without an implementation, naming the nearest supported
    one.
    """
    return refused_function(func, (*registry.functions, *registry.ufuncs))


def content(tracer: Tracer) -> tuple[int, int, int]:
    """A key of a handle's value: copies of one value share it."""
    return id(tracer.owner), id(tracer.value), id(tracer.extra)


def arrived(value: Any) -> Any:
    """A value from outside, canonical (`canonical`). A trace that records gets it as it is: it
    knows arrays by identity, and makes those that it holds canonical itself.
    """
    return value if current().records else canonical(value)


def alike(x: Any, y: Any) -> bool:
    """Whether two values are surely equal: one value, equal arrays, or computed alike."""
    if type(x) is Tracer and type(y) is Tracer:
        return content(x) == content(y) or (x.owner is y.owner and x.owner.alike(x, y))
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return bool(np.array_equal(x, y))
    return False


def typeof(value: Any) -> Type:
    """The Type of any value, traced or not.

    Raises:
      TypeError: if the value is no array and no number.
    """
    if type(value) is Tracer:
        tracer: Tracer = value
        return tracer.owner.typeof(tracer)
    return of_value(value)


def is_weak(value: Any) -> bool:
    """Whether a value, traced or not, is a Python number."""
    kind = type(value)
    return kind in PYTHON_SCALARS or (kind is Tracer and value.owner.typeof(value).weak)


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of any value, traced or not."""
    return () if type(value) in PYTHON_SCALARS else value.shape
