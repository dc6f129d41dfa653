"""The current trace, Trace, Tracer, and EvalTrace, the lowest trace, where NumPy computes.

A primitive that is called asks the current trace to process it. A transform's trace keeps its
`parent`, the trace that was current when it was made; it owns its tracers by identity, and runs
primals and rules under its parent. No levels. The folders above install NumPy's functions and
Tracer's operators in `registry`.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from fungrad.errors import (
    AbstractBooleanError,
    AbstractValueError,
    LeakedTracerError,
    UnsupportedFunctionError,
)
from fungrad.ir.canonical import canonical
from fungrad.ir.types import PYTHON_DTYPES, PYTHON_KINDS, PYTHON_SCALARS, Type, of_value
from fungrad.support import pytree
from fungrad.support.hooks import Hooks
from fungrad.tracing import interception
from fungrad.tracing.code_origin import is_library, is_ours
from fungrad.tracing.concrete_answers import T, ceil, floor
from fungrad.tracing.memory_order import MemoryLayout, memory_layout
from fungrad.tracing.refusals import (
    hashed,
    keyed,
    looked_up,
    refused_function,
    refused_store,
    stored,
)
from fungrad.tracing.source_location import REFUSED, begin_by, user_line, user_source

NO_PARAMS: dict[str, Any] = {}
"""The parameters of a primitive that has none; never written to."""


class Trace:
    """One observer of a running program: a transform at work."""

    __slots__ = ("__weakref__", "ended", "keeper", "label", "parent", "records", "running", "shown")

    records: bool
    """Whether operations here are recorded in a Graph, which needs their source lines."""
    keeper: Any
    """The object whose `keep(array)` is called before an array of the program is kept: the trace
    that records a Graph, or the `WriteGuards` of the outermost reverse mode; else None.
    """
    ended: bool
    """Whether the transform has ended and left each of its tracers a value (`outlived`)."""
    takes_kept: bool | None = False
    """Whether a value that the program has kept from an ended transform is a constant here: not
    beside derivatives, since its own would be lost. None if the trace around it decides.
    """
    running: bool
    """Of an outermost trace: whether its function runs. An interrupt comes after a call only, so
    that it cannot come before an assignment that begins a block.
    """
    writes = True
    """Whether traced values can be written into arrays that are made while it is current."""
    shown: type | None
    """The class that its tracers show in place of NumPy's, where neither NumPy nor SciPy asks; the
    emulation of another library sets it.
    """
    note: Callable[[tuple[Any, ...]], None] | None = None
    """Records what an operator has computed at once, of a reverse mode right above plain
    evaluation; None if each trace processes it.
    """
    differentiated: Any = None
    """`differentiated(trace, f, tracers)` runs a function under a trace of reverse mode above this
    one; returns its results and the trace of which they are, which may be another one. None: the
    trace runs it.
    """
    block = False
    """Whether it is that of a block, and of no transform: around it no function is replaced."""
    closed = False
    """Whether the running function is recorded, so that it must not write into captured arrays."""

    def __init__(self, parent: Trace | None, label: Callable[[], str]) -> None:
        self.parent = parent
        self.label = label
        self.ended = False
        self.records = parent is not None and parent.records
        self.keeper = None if parent is None else parent.keeper
        self.shown = None if parent is None else parent.shown

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        """Applies a primitive to values, some of which may be tracers of this trace."""
        raise NotImplementedError

    def one(self, primitive: Any, x: Tracer, params: dict[str, Any] = NO_PARAMS) -> Any:
        """As `process`, for a primitive of one traced value."""
        return self.process(primitive, (x,), params)

    def item(self, getitem: Any, x: Tracer, index: Any) -> Any:
        """As `process`, for x[index] by a basic index: `getitem` is the primitive."""
        return self.one(getitem, x, index.params or {"index": index})

    def typeof(self, tracer: Tracer) -> Type:
        """The Type of one of this trace's tracers."""
        value = tracer.inner
        return value.owner.typeof(value) if type(value) is Tracer else of_value(value)

    def shape(self, tracer: Tracer) -> tuple[int, ...]:
        """The shape of one of this trace's tracers (its Type costs more to make)."""
        return shape_of(tracer.inner)

    def dtype(self, tracer: Tracer) -> np.dtype[Any]:
        """The dtype of one of this trace's tracers."""
        value = tracer.inner
        return PYTHON_DTYPES[type(value)] if type(value) in PYTHON_SCALARS else value.dtype

    def layout(self, tracer: Tracer) -> MemoryLayout:
        """The memory layout of the array under one of its tracers, batch axes first."""
        return memory_layout(tracer.inner)

    def concrete(
        self, tracer: Tracer, error: type[Exception], asked: str, read: Callable[[Any], T]
    ) -> T:
        """`read(value)` of the plain value under a tracer.

        Raises `error` if there is none. `asked` names the caller in its message; it is empty if the
        caller can do without, and wants no answer that holds for the present values alone.
        """
        return put(tracer.inner, error, asked, read)

    def is_cut(self, tracer: Tracer) -> bool:
        """Whether one of its tracers is the result of `stop_gradient`: its number may be read."""
        return False

    def stands_for(self, tracer: Tracer) -> bool:
        """Whether this trace substitutes another value for a tracer that it does not own."""
        return False

    def alike(self, x: Tracer, y: Tracer) -> bool:
        """Whether two of its tracers that have no derivative are known to be equal: see `alike`."""
        return alike(x.inner, y.inner)

    def note_write(self, tracer: Tracer) -> None:
        """Called when an array of a trace below is written into while this trace is active."""

    def origin(self, tracer: Tracer) -> str:
        """The origin of a tracer, for messages."""
        return ""

    @property
    def is_over(self) -> bool:
        """Whether the transform has ended: from then on others compute with its tracers alone."""
        return self.ended

    def of_kept(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        """The result of a primitive on values, one of them its own, that the program has kept from
        transforms that have ended: such a value again.
        """
        values = [value_of_kept(arg) if type(arg) is Tracer else arg for arg in args]
        extra = next(arg.extra for arg in args if type(arg) is Tracer and arg.owner is self)
        output = primitive.eval(*values, **params)
        if primitive.multiple:
            return tuple([Tracer(self, o, extra) for o in output])
        return Tracer(self, output, extra)

    def again(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls f with this trace, which has ended, as the current one."""
        token = _current.set(self)
        try:
            return f(*args, **kwargs)
        finally:
            _current.reset(token)

    def note_kept(self, tracer: Tracer) -> None:
        """Called when a value kept from an ended transform becomes a constant here."""

    def run(self, f: Callable[..., Any], *args: Any) -> Any:
        """Calls f with this trace as the current one.

        The outermost trace replaces functions that no protocol reaches while f runs. An interrupt
        (Ctrl-C) may come between any two calls: what is set here is set inside of `try`, and what
        takes more than one call to undo is done again if it was cut short.
        """
        if not registry.complete:
            registry.installer.load()  # type: ignore[union-attr]
        before = _current.get()
        around: Any = before
        while around.block:
            around = around.parent
        if around is not EVAL or self is EVAL:
            try:
                _current.set(self)
                return f(*args)
            finally:
                _current.set(before)
        try:
            self.running = True
            interception.begin(self, f)
            _current.set(self)
            return f(*args)
        finally:
            self.running = False
            try:
                _current.set(before)
                interception.end(self)
            except BaseException:
                interception.end(self)
                raise


transforming = {Trace.run.__code__}
"""The code that runs while a transform runs; backward walks add theirs."""


class EvalTrace(Trace):
    """The lowest trace: NumPy values in, NumPy values out. A tracer that reaches it has leaked."""

    __slots__ = ()

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        for arg in args:
            if type(arg) is Tracer:
                return arg.owner.of_kept(primitive, args, params)
        return primitive.eval(*args, **params)

    def one(self, primitive: Any, x: Tracer, params: dict[str, Any] = NO_PARAMS) -> Any:
        return primitive(x, **params)


def put(value: Any, error: type[Exception], asked: str, read: Callable[[Any], T]) -> T:
    """`read` of the plain value under a value, traced or not: see `Trace.concrete`."""
    if type(value) is Tracer:
        return value.owner.concrete(value, error, asked, read)
    return read(value)


def value_under(value: Any) -> Any:
    """The number under a traced value; None if only its type is known."""
    while type(value) is Tracer:
        value = value.inner
    return value


def value_of_kept(tracer: Tracer) -> Any:
    """The plain value under a tracer that has outlived its eager transform.

    Raises:
      LeakedTracerError: if it has none.
    """
    value: Any = tracer
    while type(value) is Tracer:
        if not value.owner.ended:
            raise leaked(tracer)
        value = value.inner
    return value


def refuse_kept(trace: Trace, values: Any) -> None:
    """Raises if one of the values is of no trace that runs: beside those of a trace that does, its
    derivative would be lost.
    """
    for value in values:
        if type(value) is Tracer and value.owner is not trace:
            check_reached(value, trace)


def reaches(trace: Trace | None, tracer: Tracer) -> bool:
    """Whether a trace, or one below it, owns or substitutes a tracer."""
    while trace is not tracer.owner:
        if trace is None:
            return False
        if trace.stands_for(tracer):
            return True
        trace = trace.parent
    return True


def check_reached(tracer: Tracer, trace: Trace | None) -> None:
    """Raises LeakedTracerError unless a trace, or one below it, owns or substitutes a tracer."""
    if not reaches(trace, tracer):
        raise leaked(tracer)


def all_kept(values: Any, trace: Trace) -> bool:
    """Whether the traced ones among the values are all of transforms that have ended, and no trace
    from the given one down has others in their places, as that of a recomputed function has.
    """
    traced = [value for value in values if type(value) is Tracer]
    return all(value.owner.is_over and not reaches(trace, value) for value in traced)


def constant_of_kept(tracer: Tracer) -> Any:
    """The plain value of a tracer that has outlived its eager transform, as a constant for the
    functions that run: it is what a plain call would find.

    Raises:
      LeakedTracerError: if it has no plain value, or a derivative is computed, which would be lost.
    """
    traces: list[Trace] = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code is Trace.run.__code__:
            traces.append(frame.f_locals["self"])
        elif frame.f_code in transforming:
            raise leaked(tracer)
        frame = frame.f_back
    taken = [trace.takes_kept for trace in traces]
    if False in taken or not taken or not taken[-1]:
        raise leaked(tracer)
    value = value_of_kept(tracer)
    for trace in traces:
        trace.note_kept(tracer)
    return value


EVAL = EvalTrace(None, lambda: "evaluation")
_current: ContextVar[Trace] = ContextVar("fungrad_trace", default=EVAL)
current: Callable[[], Trace] = _current.get
interception.present.current = current
interception.present.lowest = EVAL
enter = _current.set
leave = _current.reset


def leave_ended() -> bool:
    """Makes EVAL the current trace if the outermost one has ended, and returns whether it has: a
    task or thread whose context was copied while it ran still has it as the current one.
    """
    trace = _current.get()
    while trace.parent is not EVAL and trace.parent is not None:
        trace = trace.parent
    ended = not getattr(trace, "running", True)
    if ended:
        _current.set(EVAL)
    return ended


begin_by(current, EVAL, leave_ended)


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


def may_be_plain(tracer: Tracer) -> bool:
    """Whether the eager transform of a tracer has ended, and no trace is the current one."""
    return tracer.owner.ended and current() is EVAL


def has_type_alone(tracer: Tracer) -> bool:
    """Whether the transform of a tracer has ended, and left it no value, as vmap leaves one for
    each example.
    """
    return tracer.owner.is_over and not tracer.owner.ended


def outlived(value: Any) -> Any:
    """The plain value of a tracer that has outlived its eager transform; any other value itself.

    The tracer keeps an array of its own from then on, into which the program may write. The values
    of views that were written into while traced are read-only.

    Raises:
      LeakedTracerError: if a transform runs in this thread, or if its own still runs elsewhere, or
        has no plain value, as under jit.
    """
    if type(value) is not Tracer:
        return value
    frame: Any = sys._getframe(1)
    while frame is not None:  # a rule may run under EVAL, and would lose a derivative
        if frame.f_code in transforming:
            raise leaked(value)
        frame = frame.f_back
    found = value_of_kept(value)
    if isinstance(found, np.ndarray):
        alias = getattr(value, "alias", None)
        if alias is not None and (alias.base is not None or alias.views):
            found = found.copy()
            found.flags.writeable = False
        elif value.extra is not outlived:
            value.inner, value.extra = found.copy("K"), outlived
            return value.inner
    return found


def all_outlived(tree: Any) -> Any:
    """`outlived` of each item of nested lists, tuples and dicts."""
    kind = type(tree)
    if kind is list or kind is tuple:
        return kind([all_outlived(item) for item in tree])
    if kind is dict:
        return {key: all_outlived(item) for key, item in tree.items()}
    return outlived(tree)


class _Functions(dict[Any, Callable[..., Any]]):
    """Implementations by NumPy's functions, and by the replacements of these."""

    def __missing__(self, function: Any) -> Callable[..., Any]:
        found = interception.original(function)
        if found is function:
            raise KeyError(function)
        return self[found]


class Registry(Hooks):
    """The functions that NumPy's protocols call, installed when the first trace runs, or at the
    first access.
    """

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
    operand: Callable[..., Any]
    """Converts a value that is no tracer and no Python number to an operand beside a tracer."""
    holds_traced: Callable[[Any], bool]
    """Whether a value is traced, or a list or an array of objects with a traced value in it."""
    is_subclass: Callable[[type], bool]
    """Whether a class is a subclass of ndarray that results keep."""
    deferred: Callable[[Any, str, Any, Any], Any]
    """A ufunc of traced values and instances of subclasses of ndarray."""
    lifted_function: Callable[[Any, Any, Any, Any], Any]
    """A function of NumPy's of traced values and instances of subclasses of ndarray."""
    at_once: Any
    """By the primitive of a ufunc, the function of its operands, one of them traced, that records
    the result in an eager reverse mode, or returns None; None if it has none.
    """
    numbers: Callable[[Any, Any], Any]
    """Converts operands of a ufunc that are all Python numbers, so that results are NumPy's."""

    def __init__(self) -> None:
        self.ufuncs: dict[Any, Any] = {}
        """A primitive, or a plain function composed of primitives, for each ufunc."""
        self.functions: dict[Any, Callable[..., Any]] = _Functions()
        self.of_one: dict[Any, Callable[..., Any]] = {}
        """Those that are called with one argument alone, without an array `out` to write into."""


registry = Registry()
ufuncs = registry.ufuncs
PLAIN: set[type] = {
    float, int, bool, complex, np.float64, np.float32, np.int64, np.bool_, np.complex128,
}  # fmt: skip
"""The classes of operands that need no preparation; Tracer is added below."""
STRONG = {np.ndarray, *PLAIN.difference(PYTHON_SCALARS)}
"""Classes of values that are surely not weak."""


class _NoAttribute(AttributeError, TypeError):
    """A number has no such attribute: `hasattr` expects the first, `len` the second."""


class OfArrays:
    """A method that arrays have and numbers have not."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self.function
        if is_number(instance):
            return self.missing(instance)
        return self.function.__get__(instance)

    def missing(self, instance: Any) -> Any:
        """The answer for a number."""
        name = self.function.__name__
        kind = instance.__class__.__name__
        raise _NoAttribute(
            f"object of type '{kind}' has no len()"
            if name == "__len__"
            else f"'{kind}' object has no attribute '{name}'"
        )


class OfNumbers(OfArrays):
    """A method that real numbers have and arrays have not."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self.function
        if is_number(instance) and instance.dtype.kind in "fiu":
            return self.function.__get__(instance)
        name = self.function.__name__
        raise AttributeError(f"'{instance.__class__.__name__}' object has no attribute '{name}'")


class Iterating(OfArrays):
    """`__iter__`, which numbers have not.

    `iter(x)` of a number has to raise a TypeError. If the method were missing, Python would ask for
    x[0] instead. Code that asks for the attribute (`hasattr`) has its name as a constant.
    """

    def missing(self, instance: Any) -> Any:
        """The answer for a number."""
        code = sys._getframe(2).f_code
        if "__iter__" in code.co_consts or "__iter__" in code.co_names:
            return super().missing(instance)
        return self.function.__get__(instance)


class OfOutlived(OfArrays):
    """A method of values that have outlived their transform. Traced ones have it in Python code,
    `x.__array__()`, alone: NumPy, which looks for it, too, would take no traced array from it.
    """

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.given_to(instance, sys._getframe(1))

    def given_to(self, instance: Any, frame: FrameType) -> Any:
        """The method for the code of a frame, which asks for it."""
        if instance is None:
            raise AttributeError(self.function.__name__)
        if instance.owner.is_over and current() is EVAL:
            return self.function.__get__(instance)
        if frame.f_code.co_code[frame.f_lasti] not in interception.LOADS:
            raise AttributeError(self.function.__name__)
        return functools.partial(registry.functions[np.asarray], instance)


class _TracerClass(type):
    """The class of Tracer. It shows Tracer's bases without its methods to the abstract classes of
    `collections.abc`, which look for `__len__` and `__iter__` there: they then ask the class that a
    value has in NumPy. Its name is that of the class which values of the current trace show.
    """

    @property
    def __mro__(cls) -> tuple[type, ...]:
        return (object,)

    def __repr__(cls) -> str:
        shown = _current.get().shown
        return type.__repr__(cls if shown is None else shown)

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        shown = _current.get().shown
        return "Tracer" if shown is None else shown.__name__


class Tracer(metaclass=_TracerClass):
    """A traced value: what user code holds in place of an ndarray while a transform runs.

    It behaves as an ndarray: operators, attributes, methods, NumPy's ufuncs and functions. Code
    that asks for its class in Python (`isinstance`) finds that of NumPy's value: ndarray; of a
    number, as an element or a sum, np.float64 or its kin; of a Python number float, int, bool or
    complex. `type(x)`, and compiled code, which reads the memory of ndarrays, finds Tracer.

    It is a handle: `owner`, `inner` and `extra` are one traced value, which never changes; a write
    into the array gives the handle another value (`aliasing.adopt`). Code that needs the present
    value later takes a handle of its own (`aliasing.fresh`). A value without axes is an array if it
    has an `alias`: arrays have memory, numbers have none.
    """

    __slots__ = ("__weakref__", "alias", "extra", "inner", "owner")
    __array_priority__ = 1000.0

    owner: Trace
    inner: Any
    extra: Any
    alias: Any
    """The arrays that share its elements (`aliasing.Alias`); not set if there are none, except of
    an array without axes.
    """

    def __init__(self, trace: Trace, value: Any, extra: Any) -> None:
        self.owner = trace
        self.inner = value
        self.extra = extra

    if TYPE_CHECKING:  # operators and methods are installed by fungrad.numpy

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        shown = self.owner.shown
        if shown is not None:
            asking = sys._getframe(1).f_code.co_filename
            if is_ours(asking) or not is_library(asking):
                return shown
        type_ = self.owner.typeof(self)
        if type_.shape or hasattr(self, "alias"):
            return np.ndarray
        return PYTHON_KINDS[type_.dtype.kind] if type_.weak else type_.dtype.type

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

    @OfArrays
    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of unsized object")
        return shape[0]

    def __hash__(self) -> int:
        """That of the object, as traced keys are different values; but `hash(x)` is that of the
        number, and so is that of a look-up in a set or dict which has the number as a key. A truth
        value is no more than its value.
        """
        if not is_number(self):
            return id(self)
        if hashed() or (self.dtype.kind == "b" and keyed()):
            return self.owner.concrete(self, AbstractValueError, "hash()", hash)
        numbers = looked_up()
        if not numbers:
            return id(self)
        found = self.owner.concrete(self, AbstractValueError, "a look-up in a table", numbers.get)
        return id(self) if found is None else hash(found)

    def __repr__(self) -> str:
        return words(self)

    def __bool__(self) -> bool:
        if stored() and not may_be_plain(self):
            raise refused_store(self.type)
        return self.owner.concrete(self, AbstractBooleanError, "bool()", bool)

    def __int__(self) -> int:
        if stored() and not may_be_plain(self):
            raise refused_store(self.type)
        return self.owner.concrete(self, AbstractValueError, "int()", int)

    __trunc__ = __int__

    def __index__(self) -> int:
        try:
            return self.owner.concrete(self, AbstractValueError, "an index", operator.index)
        except (AbstractValueError, TypeError):  # ndarray[i] raises another, which hides the cause
            if self.dtype.kind in "iub":
                REFUSED.index = user_source()
            raise

    def __floor__(self) -> int:
        return self.owner.concrete(self, AbstractValueError, "math.floor()", floor)

    def __ceil__(self) -> int:
        return self.owner.concrete(self, AbstractValueError, "math.ceil()", ceil)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        trace = current()
        if trace is self.owner and trace.note is not None and method == "__call__" and not kwargs:
            at_once = registry.at_once[ufuncs.get(ufunc)]
            if at_once is not None and type(self.inner) in STRONG:
                found = at_once(*inputs)
                if found is not None:
                    return found
        if trace is EVAL:
            if has_type_alone(self):
                return self.owner.again(self.__array_ufunc__, ufunc, method, *inputs, **kwargs)
            return getattr(ufunc, method)(*all_outlived(inputs), **all_outlived(kwargs))
        if method == "__call__" and not kwargs:
            function = ufuncs.get(ufunc)
            if function is not None:
                if (
                    type(self.inner) not in STRONG
                    and type(getattr(function, "eval", None)) is not np.ufunc
                    and all(map(is_weak, inputs))
                ):
                    inputs = registry.numbers(function, inputs)
                if len(inputs) == 1:
                    if type(function) is FunctionType:
                        return function(*inputs)
                    return trace.one(function, *inputs)
                for value in inputs:
                    if type(value) not in PLAIN:
                        given = inputs
                        inputs = tuple([registry.operand(v, self) for v in inputs])
                        if any(v is NotImplemented for v in inputs):
                            return registry.deferred(ufunc, method, given, {})
                        break
                if type(function) is FunctionType:
                    return function(*inputs)
                return trace.process(function, inputs, NO_PARAMS)
        return registry.ufunc_method(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if _current.get() is EVAL:
            if has_type_alone(self):
                return self.owner.again(self.__array_function__, func, types, args, kwargs)
            return func(*all_outlived(args), **all_outlived(kwargs))
        for type_ in types:
            if type_ is not Tracer and type_ is not np.ndarray:
                if not issubclass(type_, np.ndarray):
                    return NotImplemented
                if registry.is_subclass(type_):
                    return registry.lifted_function(func, types, args, kwargs)
        function = registry.functions.get(func) or registry.later(func)
        if function is None:
            raise unsupported(func)
        return function(*args, **kwargs)

    @OfOutlived
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(outlived(self), dtype)

    def __array_namespace__(self, *, api_version: Any = None) -> Any:
        np.empty(0).__array_namespace__(api_version=api_version)  # raises for an unknown version
        return registry.namespace

    @property
    def at(self) -> Any:
        """Functional updates: `x.at[index].set(value)` returns a new array."""
        return registry.at(self)


def words(tracer: Tracer) -> str:
    """What a traced value is, as `repr` shows it."""
    if tracer.owner.ended and type(tracer.inner) is not Tracer:
        return repr(tracer.inner)
    return f"Tracer({tracer.type}, {tracer.owner.label()})"


def is_number(tracer: Tracer) -> bool:
    """Whether a traced value is a number, as NumPy's sums and elements are, and no array."""
    return not (tracer.owner.shape(tracer) or hasattr(tracer, "alias"))


def is_integer(value: Any) -> bool:
    """Whether a value is a known integer, of Python's or NumPy's, and not traced."""
    return type(value) is not Tracer and isinstance(value, (int, np.integer))


PLAIN.add(Tracer)
for _leaf in (np.ndarray, *PLAIN):
    pytree.mark_leaf(_leaf)


def unsupported(func: Any) -> UnsupportedFunctionError:
    """The error for a NumPy function without an implementation, naming the nearest supported
    one.
    """
    return refused_function(func, (*registry.functions, *registry.ufuncs))


def content(tracer: Tracer) -> tuple[int, int, int]:
    """A key of a handle's value: copies of one value share it."""
    return id(tracer.owner), id(tracer.inner), id(tracer.extra)


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

    Args:
      value: an array or a number.

    Raises:
      TypeError: if the value is no array and no number.

    >>> print(typeof(np.zeros((2, 3))))
    f64[2,3]
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
