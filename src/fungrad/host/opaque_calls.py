"""Code that cannot be traced, differentiated by differences at its nearest sound boundary.

Compiled code refuses a traced value, or reads memory that it does not have. In the mode
"differences" the error leads to a boundary: a Python function between the user's line and that
code. The program is run again, with calls of that function computed plainly on arrays, each as one
`external` with checked differences. A boundary is sound if all traced values go in by its arguments
(one that it gets elsewhere raises an error in plain code), if all results come out as its value,
and if it changes none of its arguments. One that is not sound is dropped for the next: fewest
numbers that go in first, innermost first. The last is the whole function that is transformed.

A function is replaced by giving it the code of a short one that calls the boundary: all names,
closures and classes that hold the function then call it.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from fungrad.custom_rules.closures_and_arguments import recording
from fungrad.errors import (
    AbstractBooleanError,
    AbstractValueError,
    BatchAxisError,
    ClosedOverTracerError,
    FungradError,
    GradientCheckError,
    MissingRuleError,
    NonDifferentiableInputError,
    NonScalarOutputError,
    OpaqueCallWarning,
    StructureMismatchError,
    UnconnectedError,
)
from fungrad.host.checked_differences import digits
from fungrad.host.external import External
from fungrad.ir.graph import Source
from fungrad.primitives.movement.reshape_broadcast_cast import number
from fungrad.support import forks, pytree
from fungrad.support.choices import one_of
from fungrad.support.snapshots import snapshot
from fungrad.tracing import opaque_mode
from fungrad.tracing.code_origin import is_ours, origin
from fungrad.tracing.concrete_answers import whole
from fungrad.tracing.created_arrays import Writable, Written, tracer_of
from fungrad.tracing.opaque_mode import MODES, chosen, mode, replaced_code
from fungrad.tracing.quantity_trees import Attributes
from fungrad.tracing.random_states import random_states, restore
from fungrad.tracing.reachable_values import Walk, contents, own_attributes
from fungrad.tracing.source_location import user_line, warn_user
from fungrad.tracing.subclass_arrays import OfTraced, value_of
from fungrad.tracing.trace import EVAL, Trace, Tracer, current, typeof

_OWN_MISTAKES = (
    BatchAxisError, ClosedOverTracerError, GradientCheckError, MissingRuleError,
    NonDifferentiableInputError, NonScalarOutputError, UnconnectedError, Warning,
)  # fmt: skip
"""Errors of the call of a transform itself, which no boundary repairs."""
MOST = 20_000
"""The most objects that are searched for traced values."""


# --- the traced values in a tree of objects -------------------------------------------------------


_CLOSED = {float, int, bool, complex, str, bytes, type(None), np.float64, CodeType}
_TRACED, _ARRAYS = {Tracer, Written}, {np.ndarray, Writable}
"""Sets, not tuples: `==` finds NumPy's class in both classes of arrays that can become traced."""


class Parts(Walk[None]):
    """The traced values in arguments: in lists, tuples, dicts, attributes of instances, closures.

    What the arguments hold is noted as it is at the call: differences run the function later, when
    the program may have written into its arrays and lists. A traced value of a transform that has
    ended, which the program has kept, is its number, unless `ended` asks for those, too.
    """

    def __init__(self, values: Any, ended: bool = False) -> None:
        super().__init__()
        self._ended = ended
        self.inputs: list[Any] = []
        self._slots: dict[int, int] = {}
        self.states: list[tuple[dict[str, Any], dict[str, int]]] = []
        """The attributes of instances, and the identities of their values."""
        self.arrays: list[tuple[Any, Any]] = []
        """Plain arrays, with digests of their contents."""
        self._held: list[tuple[Any, Any, Any]] = []
        """What dicts, lists, cells and arrays of objects hold: the owner, the key, the value."""
        self._copies: dict[int, Any] = {}
        """By identity of an array: its numbers."""
        self.is_later = False
        """Whether the call has ended, so that `rebuilt` takes the copies of arrays."""
        self.enqueue(None, values)
        self.walk(MOST)

    def enters(self, value: Any, route: None) -> bool:
        kind = type(value)
        if kind in _CLOSED or not super().enters(value, route):
            return False
        if kind is not Written and kind is not Tracer and not issubclass(kind, OfTraced):
            return True
        tracer = _tracer_in(value)
        if type(tracer) is Tracer and (self._ended or _lives(tracer)):
            self._slots[id(value)] = len(self.inputs)
            self.inputs.append(tracer)
        return False

    def visit_container(self, value: Any, route: None) -> None:
        if isinstance(value, dict):
            self._hold(value, snapshot(value))
        elif isinstance(value, list):
            self._hold_items(value, list(value))
        else:
            self.visit_instance(value, route)

    def visit_function(self, f: FunctionType, route: None) -> None:
        """Reads the closure and the defaults of a function, and its attributes."""
        for cell in f.__closure__ or ():
            for held in contents([cell]):
                self._hold(cell, {"cell_contents": held})
        self.enqueue(None, *(f.__defaults__ or ()))
        self.visit_instance(f, route)

    def visit_instance(self, value: Any, route: None) -> None:
        if isinstance(value, np.ndarray):
            if value.dtype.char == "O":
                self._hold_items(value, value.ravel().tolist())
                return
            digest = _digest(value)
            self.arrays.append((value, digest))
            if type(value) in _ARRAYS:
                self._copies[id(value)] = _copy_of(value, digest)
        elif not type(value).__module__.startswith("fungrad."):
            attributes = own_attributes(value)
            if attributes is not None:
                held = snapshot(attributes)
                self.states.append((attributes, {k: id(v) for k, v in held.items()}))
                self._hold(attributes, held)

    def _hold(self, owner: Any, held: dict[Any, Any]) -> None:
        self._held += [(owner, key, item) for key, item in held.items()]
        self.enqueue(None, *held.values())

    def _hold_items(self, owner: Any, items: list[Any]) -> None:
        self._held.append((owner, slice(None), items))
        self.enqueue(None, *items)

    def rebuilt(self, value: Any, numbers: Sequence[Any]) -> Any:
        """A value of the arguments with numbers in place of the traced values, in new tuples, and
        in the same lists, dicts and instances.
        """
        kind = type(value)
        if self.is_later and id(value) in self._copies:
            return self._copies[id(value)].copy("K")
        if kind is Tracer or kind is Written:
            slot = self._slots.get(id(value))
            return _plain_number(value) if slot is None else numbers[slot]
        if kind is Writable:
            return value.view(np.ndarray)
        if issubclass(kind, OfTraced):
            slot = self._slots.get(id(value))
            held = value_of(value) if slot is None else numbers[slot]
            return Attributes(value).around(held)
        if isinstance(value, tuple):
            items = [self.rebuilt(item, numbers) for item in value]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            return kind(*items) if hasattr(value, "_fields") else kind(items)
        return value

    @contextmanager
    def holding(self, numbers: Sequence[Any]) -> Iterator[None]:
        """A block in which the lists, dicts, instances and closures hold what they held at the
        call, with numbers in place of traced values.
        """
        changed = []
        try:
            for owner, key, value in self._held:
                of_items = type(key) is slice
                new = (
                    [self.rebuilt(item, numbers) for item in value]
                    if of_items
                    else self.rebuilt(value, numbers)
                )
                present = _held_by(owner, key)
                same = (
                    len(new) == len(present)
                    and all(a is b for a, b in zip(new, present, strict=True))
                    if of_items
                    else new is present
                )
                if not same:
                    changed.append((owner, key, present))
                    _set(owner, key, new)
            yield
            self.is_later = True
        finally:
            for owner, key, present in reversed(changed):
                _set(owner, key, present)

    def changes(self) -> str:
        """What a call has changed in its arguments, as text; empty if nothing."""
        for attributes, before in self.states:
            names = [k for k, v in snapshot(attributes).items() if before.get(k) != id(v)]
            if names or len(attributes) != len(before):
                return f"the attribute {names[0]}" if names else "attributes"
        for array, before_ in self.arrays:
            if _digest(array) != before_:
                return "an array"
        return ""


def _digest(array: np.ndarray[Any, Any]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).digest()


_shared: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
"""Copies of arrays, by what they hold: many calls get the same data."""


def _copy_of(array: np.ndarray[Any, Any], digest: bytes) -> np.ndarray[Any, Any]:
    key = digest, array.shape, array.strides, array.dtype
    found: np.ndarray[Any, Any] | None = _shared.get(key)
    if found is None:
        found = _shared[key] = array.view(np.ndarray).copy("K")
    return found


def _tracer_in(value: Any) -> Any:
    if type(value) is Tracer:
        return value
    return tracer_of(value) if type(value) is Written else value_of(value)


_MISSING = object()
"""Stands for what is not there any more."""


def _held_by(owner: Any, key: Any) -> Any:
    """What a dict, a list, an array of objects or a cell holds now."""
    if isinstance(owner, np.ndarray):
        return owner.ravel().tolist()
    if isinstance(owner, list):
        return list(owner)
    if isinstance(owner, dict):
        return owner.get(key, _MISSING)
    try:
        return owner.cell_contents
    except ValueError:
        return _MISSING


def _set(owner: Any, key: Any, value: Any) -> None:
    if isinstance(owner, np.ndarray):
        flat = owner.reshape(-1)
        for i, item in enumerate(value):
            flat[i] = item
    elif isinstance(owner, (dict, list)):
        if value is _MISSING:
            del owner[key]
        else:
            owner[key] = value
    elif value is _MISSING:
        del owner.cell_contents
    else:
        owner.cell_contents = value


def _size(arrays: Sequence[Any]) -> tuple[float, float]:
    """A weighted sum of the numbers in arrays, and the sum of their absolute values."""
    flat = np.concatenate([np.ravel(x).astype(complex) for x in arrays])
    weighted = np.sum(flat.real * np.cos(np.arange(flat.size)) + flat.imag)
    return float(weighted), float(np.sum(np.abs(flat)))


def _lives(tracer: Tracer) -> bool:
    """Whether a traced value is of a transform that runs."""
    trace: Trace | None = current()
    while trace is not None:
        if trace is tracer.owner or trace.stands_for(tracer):
            return True
        trace = trace.parent
    return False


def if_known(value: Any) -> Any:
    """The number of an integer, traced or not; None if only its type is known."""
    if type(value) is not Tracer:
        return value
    try:
        return value.owner.concrete(value, AbstractValueError, "", whole)
    except AbstractValueError:
        return None


def _plain_number(value: Any) -> Any:
    """The number under a traced value of a transform that has ended; the value if it has none."""
    found = value
    while type(found) in _TRACED:
        found = tracer_of(found).inner if type(found) is Written else found.inner
    return value if found is None else found


# --- boundaries -----------------------------------------------------------------------------------


class _Unsound(Exception):
    """A boundary lets a traced value or an effect through."""


class Result:
    """A result of an opaque call: its numbers, and the tree that holds them. That of a pure
    function may hold other classes of arrays, too, which become plain ones.

    Raises:
      _Unsound: if it holds anything else but texts, types and None.
    """

    def __init__(self, name: str, result: Any, pure: bool) -> None:
        self._leaves, self._treedef = pytree.flatten(result)
        self._numeric: list[int] = []
        self.numbers: list[Any] = []
        for i, leaf in enumerate(self._leaves):
            if leaf is None or isinstance(leaf, (str, bytes, type, np.dtype)):
                continue
            kind = type(leaf)
            own = kind in _ARRAYS or isinstance(leaf, (*_NUMBERS, np.generic))
            if not own and not (pure and hasattr(leaf, "__array__") and kind is not Written):
                raise _Unsound(f"{name} returns a {kind.__name__}")
            array = np.asarray(leaf)
            if array.dtype.kind not in "fciub":
                raise _Unsound(f"{name} returns an array of dtype {array.dtype}")
            self._numeric.append(i)
            self.numbers.append(array)
        if not any(array.dtype.kind in "fc" for array in self.numbers):
            raise _Unsound(f"{name} returns no real or complex number")

    def is_like(self, other: Result) -> bool:
        """Whether another result has numbers at the same leaves, and the same texts."""
        return (
            self._treedef == other._treedef
            and self._numeric == other._numeric
            and all(
                mine == theirs
                for i, (mine, theirs) in enumerate(zip(self._leaves, other._leaves, strict=True))
                if i not in self._numeric
            )
        )

    def blank(self) -> Result:
        """The same without its numbers; Python's numbers keep their class."""
        copy = object.__new__(Result)
        copy._treedef, copy._numeric, copy.numbers = self._treedef, self._numeric, []
        copy._leaves = list(self._leaves)
        for i in copy._numeric:
            kind = type(copy._leaves[i])
            copy._leaves[i] = kind() if kind in _NUMBERS else np.zeros(0)
        return copy

    def filled(self, values: Sequence[Any]) -> Any:
        """The tree with other numbers, Python's where these were Python's."""
        leaves = list(self._leaves)
        for i, value in zip(self._numeric, values, strict=True):
            kind = type(leaves[i])
            if kind is float and type(value) is Tracer:
                value = number(value)
            elif kind in (int, bool) and (plain := if_known(value)) is not None:
                value = kind(plain)
            leaves[i] = value
        return pytree.unflatten(self._treedef, leaves)


_NUMBERS = (float, int, bool, complex)


MARK = "fungrad: the boundary"
_BOUNDARY = "<fungrad: a boundary>"
"""The file name of the code that replaces a boundary's."""


@functools.lru_cache(maxsize=256)
def _template(free: tuple[str, ...]) -> CodeType:
    """The code of a function with these free variables that calls the constant MARK."""
    names = ", ".join(free)
    uses = f"        if False:\n            ({names},)\n" if free else ""
    source = (
        f"def holder({names}):\n    def function(*args, **kwargs):\n{uses}"
        f"        target = {MARK!r}\n        return target(*args, **kwargs)\n    return function\n"
    )
    space: dict[str, Any] = {}
    exec(compile(source, _BOUNDARY, "exec"), space)
    code: CodeType = space["holder"](*[None] * len(free)).__code__
    return code


class Boundary:
    """A Python function, or several of the same code, whose calls with traced values are opaque.

    Attributes:
      whole: whether it is the function that is transformed, and so pure.
      sound: whether no call has shown the opposite.
      calls: how many calls were opaque.
      proven: whether one of them returned.
      cause: the error of a call that was not sound.
      final: whether that was a call of the function that is transformed, by the transform.
    """

    def __init__(self, code: CodeType, functions: Sequence[FunctionType], whole: bool) -> None:
        self.code = code
        self.functions = [weakref.ref(f) for f in functions]
        self.whole = whole
        self.sound = True
        self.calls = 0
        self.proven = False
        self.cause: Exception | None = None
        self.final = False
        self.name = f"{functions[0].__module__}.{code.co_qualname}"
        self._warned = False
        self._types: dict[Any, Any] = {}
        """By the types of the inputs: the types and the structure of the results."""

    def call(self, plain: FunctionType, /, *args: Any, **kwargs: Any) -> Any:
        """Calls a function, as an opaque one if traced values go in."""
        if current() is EVAL or mode() != "differences" or not self.sound:
            return plain(*args, **kwargs)
        parts = Parts((args, kwargs, plain))
        if not parts.inputs:
            return plain(*args, **kwargs)
        self.calls += 1
        caller = sys._getframe(2).f_back  # of the frame that stands for the function
        pure = self.whole and caller is not None and is_ours(caller.f_code.co_filename)
        try:
            return self._opaque(plain, parts, args, kwargs, pure)
        except _NeedsTypes:
            raise
        except Exception as error:
            self.sound, self.cause, self.final = False, error, pure
            raise

    def _opaque(self, plain: FunctionType, parts: Parts, args: Any, kwargs: Any, pure: bool) -> Any:
        key = tuple([typeof(x) for x in parts.inputs])
        recorded = recording()
        if recorded and key not in self._types:
            raise _NeedsTypes(self.name)
        first: list[Result] = []
        parts.is_later = recorded
        results: dict[bytes, tuple[float, float]] = {}

        def run(*numbers: Any) -> list[Any]:
            with parts.holding(numbers):
                result = plain(
                    *parts.rebuilt(args, numbers),
                    **{k: parts.rebuilt(v, numbers) for k, v in kwargs.items()},
                )
            found = Result(self.name, result, pure)
            if not first:
                first.append(found)
                changed = "" if pure else parts.changes()
                if changed:
                    raise _Unsound(f"{self.name} changes {changed}")
            expected = self._types[key][1] if recorded else first[0]
            if not found.is_like(expected):
                raise StructureMismatchError(
                    f"{self.name} is opaque, and returned results of another structure, or other "
                    f"texts in them, at other numbers{user_line()}."
                )
            at, size = b"".join([_digest(np.asarray(x)) for x in numbers]), _size(found.numbers)
            before = results.setdefault(at, size) if len(results) < MOST else size
            if not np.allclose(before, size, 1e-6, 1e-12 * size[1], equal_nan=True):
                raise GradientCheckError(
                    f"{self.name} is opaque, and returned other numbers for the same "
                    f"arguments{user_line()}: it is random, or reads what has changed since. Pass "
                    "it what it reads as an argument."
                )
            return found.numbers

        run.__name__ = plain.__name__
        run.__module__ = plain.__module__
        declared = list(self._types[key][0]) if recorded else None
        made = External(run, "differences", None, declared, False)
        made.report = self._report  # type: ignore[method-assign]
        found = list(made(*parts.inputs))
        if not recorded:
            self._types[key] = [typeof(y) for y in found], first[0].blank()
        self.proven = True
        return (self._types[key][1] if recorded else first[0]).filled(found)

    def _report(self, error: float) -> None:
        if self._warned:
            return
        self._warned = True
        where = Source(self.code.co_filename, self.code.co_firstlineno, self.code.co_name)
        what = "The whole function" if self.whole else "The function"
        warn_user(
            f"{what} {self.name} ({where}) contains code that cannot be traced. It is "
            f"differentiated by differences of its results, to about {digits(error)} digits, at "
            "the cost of some four calls for each number that goes into it. fg.external gives such "
            "code a derivative of its own.\n(more: fungrad explain OpaqueCallWarning)",
            OpaqueCallWarning,
        )


class _NeedsTypes(FungradError):
    """A boundary was met in a recorded program, before it has run with numbers."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is opaque, and is recorded before it has run: the types of its results are "
            "not known. Call the function once without the transform that records it."
        )


class _OfThread(threading.local):
    """What a thread has found: each thread finds its boundaries itself, so that no run is changed
    by the errors of another.
    """

    def __init__(self) -> None:
        self.boundaries: dict[CodeType, Boundary] = {}
        """By the code of their functions."""


_found = _OfThread()
_lock = forks.lock()


class _Replaced:
    """A function with the code of a boundary: how many runs of all threads need it."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.code = code = function.__code__
        self.count = 0
        plain = FunctionType(
            code, function.__globals__, function.__name__, None, function.__closure__
        )
        plain.__defaults__ = function.__defaults__
        plain.__kwdefaults__ = function.__kwdefaults__
        vars(plain)[MARK] = True
        template = _template(code.co_freevars)
        target = functools.partial(_called, code, plain)
        constants = tuple([target if c == MARK else c for c in template.co_consts])
        self.installed = template.replace(co_consts=constants)
        replaced_code[self.installed] = code
        function.__code__ = self.installed

    def restore(self) -> None:
        """Gives the function its own code again."""
        self.function.__code__ = self.code
        del replaced_code[self.installed]


_installed: dict[int, _Replaced] = {}
"""The functions that have the code of a boundary now, by their identities."""


def _called(code: CodeType, plain: FunctionType, /, *args: Any, **kwargs: Any) -> Any:
    """A call of a function that has the code of a boundary, in this thread or in another."""
    boundary = _found.boundaries.get(code)
    return plain(*args, **kwargs) if boundary is None else boundary.call(plain, *args, **kwargs)


@contextmanager
def _replaced() -> Iterator[None]:
    """A block in which calls of this thread's boundaries come to them."""
    mine: list[int] = []
    try:
        with _lock:
            for boundary in list(_found.boundaries.values()):
                for ref in boundary.functions if boundary.sound else ():
                    function = ref()
                    if function is None:
                        continue
                    if id(function) not in _installed:
                        if function.__code__ is not boundary.code:
                            continue
                        _installed[id(function)] = _Replaced(function)
                    _installed[id(function)].count += 1
                    mine.append(id(function))
        yield
    finally:
        with _lock:
            for key in mine:
                replaced = _installed[key]
                replaced.count -= 1
                if not replaced.count:
                    replaced.restore()
                    del _installed[key]


# --- from an error to a boundary ------------------------------------------------------------------


def _functions_of(frames: Sequence[FrameType]) -> dict[int, list[FunctionType]]:
    """The functions that run the code of each frame, by its identity: one, or the closures of one
    definition.

    The garbage collector knows them all, but for those that gc.freeze() has hidden: these are
    looked for by their names, and among the caller's values. It reads every object of the process,
    so that all frames share one search.
    """
    codes = {id(frame.f_code): frame.f_code for frame in frames}
    found: dict[int, dict[int, FunctionType]] = {key: {} for key in codes}
    with _lock:  # another thread may replace one
        near = gc.get_referrers(*codes.values())
        if gc.get_freeze_count():
            near += [item for frame in frames for item in _near(frame)]
        pairs = [(f.__code__, f) for f in near if type(f) is FunctionType]
        pairs += [(r.code, r.function) for r in _installed.values()]
    for code, f in pairs:
        if id(code) in found and MARK not in vars(f):
            found[id(code)][id(f)] = f
    return {key: list(functions.values()) for key, functions in found.items()}


def _near(frame: FrameType) -> list[Any]:
    """The functions under the name of a frame's code, and among the values of its caller."""
    first, *names = frame.f_code.co_qualname.split(".")
    value = frame.f_globals.get(first)
    for name in names:
        value = getattr(value, "__dict__", {}).get(name)
    caller = frame.f_back
    near = [value, *(() if caller is None else list(caller.f_locals.values()))]
    found = []
    for item in near:
        found.append(item)
        for name in ("__func__", "fget", "__wrapped__"):
            found.append(getattr(item, name, None))
    return found


_NO_CALL = 0x20 | 0x80 | 0x200
"""The flags of generators and coroutines: they do not return at once."""
FEW = 8
"""The most closures of one definition that become a boundary: more are those of a decorator."""


_Candidate = tuple[float, int, CodeType, list[FunctionType]]


def _candidates(error: BaseException) -> list[_Candidate]:
    """The functions between the transform and an error: the numbers that go in, the depth as a
    negative number, the code, and its functions.
    """
    frames: list[FrameType] = []
    traceback = error.__traceback__
    while traceback is not None:
        code, file = traceback.tb_frame.f_code, traceback.tb_frame.f_code.co_filename
        foreign = origin(file) not in ("fungrad", "numpy", "python") and file != _BOUNDARY
        if foreign and not code.co_flags & _NO_CALL:
            frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    functions_of = _functions_of(frames)
    found: list[_Candidate] = []
    depth = 0
    for frame in frames:
        code = frame.f_code
        functions = functions_of[id(code)]
        if not 0 < len(functions) <= FEW:
            continue
        depth += 1
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
        names = [*code.co_varnames[:count], *code.co_freevars]
        parts = Parts([frame.f_locals.get(name) for name in names], ended=True)
        size = sum([typeof(x).size for x in parts.inputs])
        if size or depth == 1:
            found.append((size or np.inf, -depth, code, functions))
    return found


def _next_boundary(
    error: BaseException, candidates: Sequence[_Candidate], dropped: set[CodeType]
) -> Boundary | None:
    """The next boundary to be tried after an error; None if none is left."""
    traced = any(c[0] < np.inf for c in candidates)
    found = [c for c in candidates if traced and c[2] not in dropped]
    if not found:
        f = getattr(error, "function", None)  # of a TracingError, outside of the function
        while not isinstance(f, FunctionType) and f is not None:
            f = getattr(f, "_f", None) or getattr(f, "__func__", None)
        if f is None or f.__code__ in dropped:
            return None
        return Boundary(f.__code__, [f], True)
    _, depth, code, functions = min(found, key=lambda c: c[:2])
    whole = depth == max(c[1] for c in candidates)
    known = _found.boundaries.get(code)
    if known is not None:
        known.functions = [weakref.ref(f) for f in functions]
        known.whole = whole
        return known
    return Boundary(code, functions, whole)


def _untried_boundary(
    error: Exception, dropped: set[CodeType], tried: set[CodeType], calls: dict[Boundary, int]
) -> Boundary | None:
    """The next boundary that was neither tried nor called: an error of one that was called came
    from inside or beside of it. The others are dropped.
    """
    candidates = _candidates(error)
    found = _next_boundary(error, candidates, dropped)
    while found is not None:
        if found.code not in tried and found.calls == calls.get(found, found.calls):
            return found
        dropped.add(found.code)
        found = _next_boundary(error, candidates, dropped)
    return None


def _drop_unsound(dropped: set[CodeType]) -> list[Boundary]:
    """Drops the boundaries that turned out to be unsound, and returns them.

    Raises:
      Exception: the cause of one that cannot be replaced by another.
    """
    known = _found.boundaries
    unsound = [boundary for boundary in known.values() if not boundary.sound]
    for boundary in unsound:
        known.pop(boundary.code, None)
        dropped.add(boundary.code)
        if boundary.final and boundary.cause is not None:
            raise boundary.cause
    return unsound


def attempt(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """`f(*args, **kwargs)` of a public function. If it is outside of all transforms, and the mode
    is "differences", code that cannot be traced is replaced by boundaries, one after the other.

    A function that records programs has an attribute `eager`, which takes the same arguments and
    runs the program with numbers: this gives the types of results.
    """
    if current() is not EVAL or mode() != "differences":
        return f(*args, **kwargs)
    states, dropped, tried = random_states(), set[CodeType](), set[CodeType]()
    eager, known = getattr(f, "eager", None), _found.boundaries
    while True:
        calls = {boundary: boundary.calls for boundary in known.values()}
        failed: Exception | None = None
        result = None
        try:
            with _replaced():
                result = f(*args, **kwargs)
        except Exception as error:
            failed = error
        unsound = _drop_unsound(dropped)
        if failed is None and not unsound:
            return result
        failed = failed or unsound[0].cause
        assert failed is not None
        if isinstance(failed, _OWN_MISTAKES) and not unsound:
            raise failed
        restore(states)
        if eager is not None:
            if isinstance(failed, AbstractBooleanError):
                raise failed
            attempt(eager, args, kwargs)
            eager = None
            restore(states)
            continue
        if isinstance(failed, _NeedsTypes):
            raise failed
        for boundary, before in calls.items():
            if boundary.calls == before and not boundary.proven:
                dropped.add(boundary.code)  # its functions are made anew in each run
                known.pop(boundary.code, None)
        found = _untried_boundary(failed, dropped, tried, calls)
        if found is None:
            raise failed
        tried.add(found.code)
        known[found.code] = found


# --- the setting ----------------------------------------------------------------------------------


def choose(value: str) -> None:
    """Sets the mode of this process.

    Raises:
      ArgumentError: if there is no such mode.
    """
    opaque_mode.opaque.setting = one_of(MODES, value, "The setting opaque")
    opaque_mode.opaque.attempt = attempt


class opaque:
    """A block in which code that cannot be traced is handled in a way of its own.

    Args:
      mode: "error": it raises an error. "differences": the nearest function around it whose calls
        are sound is computed plainly, and differentiated by checked differences of its results
        (`fg.external(f, vjp="differences")`). A warning names it once, with the digits.

    Raises:
      ArgumentError: if there is no such mode.

    >>> import array, warnings
    >>> import numpy as np
    >>> import fungrad as fg
    >>> def total(x):  # an array of Python's holds plain numbers
    ...     return sum(array.array("d", x)) ** 2
    >>> with fg.opaque("differences"), warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fg.grad(total)(np.array([1.0, 2.0])).round(6)
    array([6., 6.])
    """

    def __init__(self, mode: str) -> None:
        self._mode = one_of(MODES, mode, "The mode of fg.opaque")
        self._tokens: list[Any] = []

    def __enter__(self) -> opaque:
        opaque_mode.opaque.attempt = attempt
        self._tokens.append(chosen.set(self._mode))
        return self

    def __exit__(self, *error: object) -> None:
        chosen.reset(self._tokens.pop())
