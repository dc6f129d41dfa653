"""Tracing checks itself: the value of a function under a trace against that of a plain call.

Code that asks for the class of a number, for its identity, or reads its memory, can take another
path under a trace, and so compute another function. Code of other packages was not written with
traces in mind, and `(x > 0) is True`, `match` with True and keys of dicts compare identities. If
such code ran under the trace of a function's first derivative, batch or compilation, the function
is called once more, without a trace, and the two values have to agree. So it is if code catches
errors that traced numbers do not raise where their number is unknown, as that of 1 / 0.
"""

from __future__ import annotations

import builtins
import dis
import functools
import itertools
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any, TypeVar

import numpy as np

from fungrad.errors import TracingError
from fungrad.ir.graph import Source
from fungrad.support.garbage import uncollected
from fungrad.support.snapshots import snapshot
from fungrad.tracing import interception
from fungrad.tracing.code_origin import is_foreign, is_ours, origin
from fungrad.tracing.effects import muted
from fungrad.tracing.random_states import random_states, restore
from fungrad.tracing.shadows import shadowing
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.spoiled_memory import Spoiled, is_suspect
from fungrad.tracing.trace import EVAL, Tracer, current, value_under
from fungrad.tracing.ways_out import call_at, value_of

CHOICES = ("foreign", "always", "never")
DIGITS = 1e-6
"""The part of the largest number by which outputs may differ; more in low precision."""
FACTOR = 64.0
"""Values may differ by so many times the effect of a change in the last place of the arguments."""
EVENTS = 100_000
"""The most lines of two runs that are compared to find out where they part."""
CALLS = 500_000
"""The most calls and returns that are observed while a program is recorded: an observed call takes
three times as long. Of what comes later the lines of the equations are looked at.
"""


class TracingCheck:
    """The setting `fg.config.verify_tracing`."""

    runs = "foreign"


comparing: ContextVar[bool] = ContextVar("fungrad_comparing", default=False)
"""Whether a plain call runs that values are compared with: jitted functions run as they are."""

T = TypeVar("T")
Key = CodeType | tuple[Any, ...]
OBSERVED: set[Key | None] = set()
"""The functions of which a derivative was observed: their code, after the verbs of transforms."""
COMPILED: set[Key | None] = set()
"""Those of which a compilation was observed."""
BATCHED: set[Key | None] = set()
"""Those of which a batch was observed."""


def _key_of(f: Any) -> Key | None:
    """The code that a call of f runs, which is the same for all closures and methods; None if it
    runs no Python code. Functions that transforms made of it have keys of their own.
    """
    verbs: list[Any] = []
    for _ in range(20):
        inner = getattr(f, "_f", None)
        if inner is not None:
            verbs.append((type(f), getattr(f, "_verb", None)))
        else:
            inner = getattr(f, "func", None) or getattr(f, "__func__", None)
        if inner is None:
            break
        f = inner
    code = getattr(f, "__code__", None)
    if code is None:
        code = getattr(vars(type(f)).get("__call__"), "__code__", None)
    if not isinstance(code, CodeType):
        return None
    return (*verbs, code) if verbs else code


def first_call(f: Callable[..., Any], known: set[Key | None] = OBSERVED) -> Watch | None:
    """A Watch, if this is the outermost trace of a function that is not known; else None."""
    if getattr(f, "__code__", None) in known or current() is not EVAL:
        return None
    key = None if TracingCheck.runs == "never" else _key_of(f)
    if key is None or key in known:
        return None
    known.add(key)
    return Watch(f, lambda: known.discard(key))


def watched(
    f: Callable[..., Any], run: Callable[[], T], known: set[Key | None] = OBSERVED
) -> tuple[T, Watch | None, int]:
    """The result of `run`, which traces f; the Watch that has observed it, if it is the first; and
    how many arrays were spoiled before.
    """
    before, watch = Spoiled.arrays, first_call(f, known)
    if watch is None:
        return run(), None, before
    with watch.observing():
        return run(), watch, before


def suspected(
    f: Callable[..., Any], values: Sequence[Any], before: int, compiled: bool = False
) -> Watch | None:
    """A Watch that compares the values of f under a trace, if compiled code may have read the
    memory of an array that holds traced values.

    Args:
      f: the function.
      values: its outputs.
      before: `Spoiled.arrays` when the trace began.
      compiled: whether a compiled program computed the values: its constants are plain NaNs.
    """
    if Spoiled.arrays == before or TracingCheck.runs == "never":
        return None
    if Spoiled.read <= before and not any(is_suspect(v, compiled) for v in values):
        return None
    Spoiled.read = Spoiled.arrays  # the outermost trace compares
    return Watch(f, lambda: None, suspect=True) if current() is EVAL else None


def refuse_suspected(f: Callable[..., Any], values: Sequence[Any], before: int) -> None:
    """Raises an error if a batch of values of f is suspected: see `suspected`.

    Raises:
      TracingError: if it is.
    """
    if suspected(f, values, before) is not None:
        error = TracingError(
            f"Values of {describe(f)} under vmap{user_line()} were computed from the memory of an "
            "array that holds traced values, which compiled code has read. Give that code "
            "fg.stop_gradient(x), call it by fg.external, or by fg.pure_callback, or in "
            '`with fg.opaque("differences"):`.'
        )
        error.function = f
        raise error


def compare_suspected(
    f: Callable[..., Any],
    run: Callable[[], tuple[Sequence[Any], Any]],
    flat: Callable[..., Sequence[Any]],
    leaves: Sequence[Any],
    values: Sequence[Any],
    before: int,
) -> None:
    """Compares the values that `run` gave, as `observed`, if `suspected` says so.

    Raises:
      TracingError: if the values differ.
    """
    watch = suspected(f, values, before)
    if watch is not None:
        watch.compare(flat, leaves, values, run)


def observed(
    f: Callable[..., Any],
    run: Callable[[], tuple[Sequence[Any], Any]],
    flat: Callable[..., Sequence[Any]],
    leaves: Sequence[Any],
) -> Any:
    """The result of `run`: the outputs of f under a trace, and what the trace made. The outputs are
    compared with those of a plain call if the first trace of f has to be.

    Args:
      f: the user's function.
      run: runs it under the trace.
      flat: f as a function of flat arguments that returns flat outputs.
      leaves: the arguments.

    Raises:
      TracingError: if the values differ.
    """
    (values, made), watch, before = watched(f, run)
    if watch is not None:
        watch.compare(flat, leaves, values, run)
    elif Spoiled.arrays != before:
        compare_suspected(f, run, flat, leaves, values, before)
    return values, made


class Watch:
    """Observes whether code runs under a trace that may take another path there, and compares the
    values then: code of other packages, and code that asks for identities.

    Args:
      f: the user's function.
      forget: makes the next trace of f the first one.
      suspect: compares the values whatever ran.
    """

    def __init__(
        self, f: Callable[..., Any], forget: Callable[[], None], suspect: bool = False
    ) -> None:
        self.f = f
        self._forget = forget
        self._spoiled = Spoiled.arrays
        self.doubted = suspect or TracingCheck.runs == "always"
        """Whether the values have to be compared."""
        self.unseen = False
        """Whether the observation has ended before the trace."""
        self._states = random_states()

    @contextmanager
    def observing(self, most: int | None = None) -> Iterator[None]:
        """A block in which f runs under the trace; at most so many calls and returns are seen."""
        if self.doubted or sys.getprofile() is not None:
            yield
            return

        left = most or -1

        def seen(frame: FrameType, event: str, arg: Any) -> None:
            nonlocal left
            left -= 1
            if not left:
                self.unseen = True
                sys.setprofile(None)
            if event == "call" and _may_part(frame) and current() is not EVAL:
                self.doubted = True
                sys.setprofile(None)

        seen.sees_imports = False  # type: ignore[attr-defined]
        sys.setprofile(seen)
        try:
            yield
        finally:
            sys.setprofile(None)

    def compare(
        self,
        flat: Callable[..., Sequence[Any]],
        leaves: Sequence[Any],
        values: Sequence[Any],
        traced: Callable[[], Any],
    ) -> None:
        """Compares the values of the trace with those of a plain call.

        Args:
          flat: f as a function of flat arguments that returns flat outputs.
          leaves: the arguments.
          values: the outputs under the trace.
          traced: calls f under the trace once more.

        Raises:
          TracingError: naming the first line at which the two runs part.
        """
        doubted = self.doubted or interception.has_shadows(self.f)
        if not doubted and suspected(self.f, values, self._spoiled, True) is None:
            return
        try:
            self._compare(flat, leaves, values, traced)
        except TracingError:
            self._forget()  # the next call is no better
            raise

    def _compare(
        self,
        flat: Callable[..., Sequence[Any]],
        leaves: Sequence[Any],
        values: Sequence[Any],
        traced: Callable[[], Any],
    ) -> None:
        after = random_states()
        try:
            plain = self._plain(flat, leaves)
            if plain is None or agree(values, plain, 0.0):
                return
            again = self._plain(flat, leaves)
            if again is None or not agree(plain, again, 0.0):
                return  # it differs from itself
            moved = self._plain(flat, near := [_moved(leaf) for leaf in leaves])
            further = self._plain(flat, [_moved(leaf) for leaf in near])
            if moved is None or further is None:
                return
            # The value at a single point, a key of a dict, is no measure of rounding.
            distance = min(_distance(plain, moved), _distance(moved, further))
            if agree(values, plain, distance):
                return
            where = self._parting(flat, leaves, traced)
        finally:
            restore(after)
        shown, expected = _first(values, plain)
        error = TracingError(
            f"The value of {describe(self.f)} under a trace is {shown}, and {expected} in a plain "
            f"call{user_line()}{where}. So its derivative would be that of another function. Code "
            "that asks for the class of its numbers or for their identity (`is True`, keys of "
            "dicts), reads their memory, or catches an error that traced numbers do not raise "
            "(1 / 0), does that. Give it fg.stop_gradient(x) where no "
            "derivative is wanted, or wrap the function that contains "
            'the line by fg.external(f, vjp="finite_differences"). fg.config.verify_tracing = '
            '"never" leaves the check out.'
        )
        error.function = self.f
        raise error

    def _plain(self, flat: Callable[..., Sequence[Any]], leaves: Sequence[Any]) -> Any:
        """The outputs of a plain call; None if it raises."""
        restore(self._states)
        given = [x.copy() if isinstance(x, np.ndarray) else x for x in leaves]
        token, uncompiled = muted.set(True), comparing.set(True)
        try:
            with np.errstate(all="ignore"), shadowing(self.f):
                return list(flat(*given))
        except TracingError:  # of a derivative in f
            raise
        except Exception:  # the trace did what a plain call cannot do
            return None
        finally:
            muted.reset(token)
            comparing.reset(uncompiled)

    def _parting(
        self, flat: Callable[..., Sequence[Any]], leaves: Sequence[Any], traced: Callable[[], Any]
    ) -> str:
        """The first line at which a traced and a plain run do something else, as text."""
        runs = []
        for run in (traced, lambda: self._plain(flat, leaves)):
            restore(self._states)
            lines = _Lines()
            with lines.recorded():
                run()
            runs.append(lines.events)
        before: Source | None = None
        for one, other in zip(*runs, strict=False):
            if one[:3] != other[:3]:
                break
            if not _same_numbers(one[3], other[3]):
                break
            before = Source(one[0], one[1], one[2])
        return "" if before is None else f". The two runs part at {before}"


def _may_part(frame: FrameType) -> bool:
    """Whether a call may compute something else under a trace: code of another package asks a
    traced value for something, a set or a dict asks for its hash, or the code compares identities.
    """
    code, caller = frame.f_code, frame.f_back
    if is_ours(code.co_filename):
        asks = caller.f_code.co_filename if caller is not None else code.co_filename
        if is_foreign(asks):
            return True
        return code.co_name in _ASKED and not is_ours(asks) and _reads(code, caller)
    return origin(code.co_filename) == "user" and (_asks_identity(code) or catches(code))


_ASKED = frozenset([Tracer.__hash__.__name__, "_str", "_repr"])
"""The methods whose answer for a traced value is not that for its number."""


def _reads(code: CodeType, caller: FrameType | None) -> bool:
    """Whether a set or a dict asks for the hash, or the code asks for a text by `str` or `repr`.

    What compiled code reads in that text, as `re` does, are words for the traced value.
    """
    if code is Tracer.__hash__.__code__:
        return True
    if code not in (Tracer.__str__.__code__, Tracer.__repr__.__code__) or caller is None:
        return False
    call = call_at(caller.f_code, caller.f_lasti)
    names = ChainMap(caller.f_locals, caller.f_globals, vars(builtins))
    asked = value_of(call.func, names) if call is not None else None
    return asked is str or asked is repr


@functools.lru_cache(maxsize=4096)
def _asks_identity(code: CodeType) -> bool:
    """Whether code compares with True, False or bool by identity: `is True`, `case True`, and
    `type(flag) is bool`.
    """
    constants = code.co_consts
    if "bool" not in code.co_names and not any(c is True or c is False for c in constants):
        return False
    pairs = itertools.pairwise(dis.get_instructions(code))
    return any(b.opname == "IS_OP" and _is_truth(a.argval) for a, b in pairs)


_OF_NUMBERS = frozenset(
    ["ArithmeticError", "Exception", "FloatingPointError", "OverflowError", "ValueError",
     "ZeroDivisionError"]
)  # fmt: skip
"""The errors that Python's numbers, `math` and `np.errstate` raise, and their bases."""


@functools.lru_cache(maxsize=4096)
def catches(code: CodeType) -> bool:
    """Whether code catches errors of numbers, by `except` or `contextlib.suppress`."""
    if _OF_NUMBERS.isdisjoint(code.co_names):
        return False
    return "suppress" in code.co_names or any(
        instruction.opname == "CHECK_EXC_MATCH" for instruction in dis.get_instructions(code)
    )


def are_caught() -> bool:
    """Whether the user's functions that run under the innermost trace catch errors of numbers."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    while frame is not None and not is_ours(frame.f_code.co_filename):
        if catches(frame.f_code):
            return True
        frame = frame.f_back
    return False


def _is_truth(value: Any) -> bool:
    return value is True or value is False or (type(value) is str and value == "bool")


class _Lines:
    """Records the lines that run outside of fungrad and NumPy, with the numbers that they see."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, str, dict[str, Any]]] = []

    @contextmanager
    def recorded(self) -> Iterator[None]:
        before = sys.gettrace()
        with uncollected():  # finalizers and callbacks of the collector are no part of a run
            sys.settrace(self._called)
            try:
                yield
            finally:
                sys.settrace(before)

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        outside = origin(frame.f_code.co_filename) in ("package", "user")
        return self._line if outside else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" and len(self.events) < EVENTS:
            code = frame.f_code
            numbers = {k: _number(v) for k, v in snapshot(frame.f_locals).items()}
            known = {k: v for k, v in numbers.items() if v is not None}
            self.events.append((code.co_filename, frame.f_lineno, code.co_name, known))
        return self._line


def _number(value: Any) -> float | None:
    """A number that stands for a value: itself, or the sum of the sizes of its elements."""
    value = value_under(value)
    try:
        if isinstance(value, (bool, int, float, complex, np.number, np.ndarray)):
            with np.errstate(all="ignore"):
                return float(np.sum(np.abs(np.asarray(value, complex))))
    except (TypeError, ValueError, OverflowError):  # of objects, and of more than a float holds
        return None
    return None


def _same_numbers(one: dict[str, float], other: dict[str, float]) -> bool:
    return all(
        np.isclose(one[k], other[k], rtol=1e-6, atol=0.0, equal_nan=True)
        for k in one.keys() & other.keys()
    )


def agree(values: Sequence[Any], others: Sequence[Any], distance: float) -> bool:
    """Whether two lists of outputs agree, up to rounding and a distance."""
    if len(values) != len(others):
        return False
    return all(_near(v, o, distance) for v, o in zip(values, others, strict=True))


def _near(value: Any, other: Any, distance: float) -> bool:
    try:
        v, o = np.asarray(value), np.asarray(other)
    except ValueError:
        return True
    if v.dtype.kind not in "biufc" or o.dtype.kind not in "biufc":
        return True
    if v.shape != o.shape:
        return False
    with np.errstate(all="ignore"):
        finite = np.isfinite(v) & np.isfinite(o)
        if not np.array_equal(v[~finite], o[~finite], equal_nan=True):
            return False
        coarsest = max(np.finfo(x.dtype).eps if x.dtype.kind in "fc" else 0.0 for x in (v, o))
        part = max(DIGITS, float(coarsest) ** 0.5) if coarsest else 0.0
        largest = np.max(np.abs(o), initial=0.0, where=finite)
        return bool(np.all(np.abs(v - o * 1.0) <= part * largest + FACTOR * distance, where=finite))


def _moved(leaf: Any) -> Any:
    """An argument, each number of it moved to its next but one neighbour."""
    found = np.asarray(leaf)
    if found.dtype.kind != "f":
        return leaf
    moved = found + 2 * np.spacing(found)
    return moved.astype(found.dtype) if isinstance(leaf, np.ndarray) else type(leaf)(moved)


def _distance(values: Sequence[Any], others: Sequence[Any]) -> float:
    """The largest distance of two lists of outputs."""
    found = 0.0
    with np.errstate(all="ignore"):
        for v, o in zip(map(np.asarray, values), map(np.asarray, others), strict=True):
            if v.shape == o.shape and v.dtype.kind in "fc":
                found = max(found, float(np.nanmax(np.abs(v - o), initial=0.0)))
    return found


def _first(values: Sequence[Any], others: Sequence[Any]) -> tuple[str, str]:
    """The first outputs that differ, as text."""
    for v, o in zip(values, others, strict=False):
        if not _near(v, o, 0.0):
            return np.array2string(np.asarray(v), threshold=6), np.array2string(
                np.asarray(o), threshold=6
            )
    return f"{len(values)} outputs", f"{len(others)}"
