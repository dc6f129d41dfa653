"""Both sides of a branch as one `switch`: what converted functions call while they are traced.

A branch on a traced number stages its sides, each from the values before it. If they have the same
types and no side effects, they become a `switch`; else the branch is Python's, which asks.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from fungrad.compiler.branch_conversion import converted
from fungrad.control_flow.switch import as_branch, switch
from fungrad.ir.canonical import DOUBLE
from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.retracing.graph_transforms import strong_leaf
from fungrad.retracing.staging import Staged, stage_tree
from fungrad.support import pytree
from fungrad.tracing.aliasing import is_scalar_array
from fungrad.tracing.code_origin import is_library
from fungrad.tracing.source_location import user_source
from fungrad.tracing.trace import Tracer
from fungrad.tracing.transformed_function import TransformedFunction

_BUILTINS = frozenset(
    getattr(builtins, name)
    for name in "abs bool complex divmod float int isinstance len pow range round sum tuple".split()
)
_METHODS = frozenset("all any conj conjugate copy dot item max mean min prod std sum var".split())
"""Methods of arrays that change nothing."""
_WRITES = frozenset(
    "copyto fill_diagonal place put put_along_axis putmask save savetxt "
    "savez set_printoptions setbufsize seterr seterrcall".split()
)
"""Functions of NumPy that change something."""
_NUMBERS = (*PYTHON_SCALARS, np.generic, Tracer)
_SEQUENCES = (list, tuple, range, np.ndarray, Tracer)
_KNOWN = (*_NUMBERS, *_SEQUENCES, str, slice, dict, type, np.dtype, type(None), type(...))
MOST = 64
"""The most branches that are joined in one trace: each takes some milliseconds to compile."""


class _Differs(Exception):
    """The sides cannot be one `switch`; the text says why."""


class BranchSides:
    """The helper of functions that are converted at given lines, by file, for one trace."""

    UNBOUND = object()
    """The value of a name without one."""
    TRUE, FALSE = np.True_, np.False_

    def __init__(self, lines: dict[str, frozenset[int]]) -> None:
        self.lines = lines
        self.count = 0
        """How many branches became a `switch`."""
        self.full = False
        """Whether there were more than `MOST`."""
        self.promotes = False
        """Whether Python's numbers became numbers of arrays, since those of the other side are."""
        self.reasons: dict[str, str] = {}
        """By line, why its branch is Python's."""
        self.arrays = False
        """Whether arrays were joined: then no array may be written into, as others may share it."""
        self.codes: dict[Any, CodeType | None] = {}
        """The converted code, by file, code and lines."""
        self._within = 0
        """How many sides are staged around this one."""
        self._running: list[CodeType] = []
        """The code of the functions that the staged sides call."""

    def converted(self, f: Any) -> Any:
        """A function with its branches at the lines converted, and those of the functions that it
        calls in the same files; other functions as they are.
        """
        if isinstance(f, TransformedFunction):
            inner = self.converted(f._f)
            args, kwargs = f._options
            return f if inner is f._f else f._verb(inner, *args, **kwargs)
        if f is max or f is min:
            return functools.partial(self._extreme, f)
        if type(f) is MethodType:
            return MethodType(self.converted(f.__func__), f.__self__)
        if type(f) is functools.partial:
            return functools.partial(self.converted(f.func), *f.args, **f.keywords)
        if type(f) is not FunctionType or f.__code__.co_filename not in self.lines:
            return f
        return converted(f, self.lines[f.__code__.co_filename], self) or f

    # --- branches

    def branch(
        self,
        test: Any,
        then: Callable[..., Any],
        orelse: Callable[..., Any],
        values: Sequence[Any] = (),
    ) -> Any:
        """The result of one of two sides, which are functions of some values."""
        if type(test) is Tracer and test.shape == ():
            try:
                return self._joined(test, then, orelse, values)
            except _Differs as why:
                self.reasons.setdefault(str(user_source()), str(why))
        return then(*values) if test else orelse(*values)

    def _extreme(self, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """`max` or `min`; of two traced numbers by a branch."""
        if len(args) != 2 or kwargs or Tracer not in map(type, args):
            return f(*args, **kwargs)
        first, second = args
        test = second > first if f is max else second < first
        return self.branch(test, lambda: second, lambda: first)

    def _joined(
        self,
        test: Tracer,
        then: Callable[..., Any],
        orelse: Callable[..., Any],
        values: Sequence[Any],
    ) -> Any:
        if self.count == MOST:
            self.full = True
            raise _Differs(f"there are more than {MOST}")
        sides = [self._staged(side, values) for side in (orelse, then)]
        if sides[0].out != sides[1].out:
            raise _Differs("its sides return different structures")
        if any(side.graph.effectful for side in sides):
            raise _Differs("a side has effects")
        wanted = [self._common(*types) for types in zip(*[s.types for s in sides], strict=True)]
        captured = [value for s in sides for value in s.captured]
        starts = 0, len(sides[0].captured)
        graphs = [as_branch(s, captured, n, wanted) for s, n in zip(sides, starts, strict=True)]
        self.count += 1
        found = switch(_holds(test), *captured, branches=tuple(graphs))
        return pytree.unflatten(sides[0].out, found)

    def _staged(self, side: Callable[..., Any], values: Sequence[Any]) -> Staged:
        self._within += 1
        try:
            with np.errstate(all="ignore"):  # a side that is not taken does not warn
                call, nothing = lambda _: self._checked(side(*values)), pytree.structure(())
                return stage_tree(side, call, nothing, [], [], "a branch")
        except _Differs:
            raise
        except Exception as error:  # raised again by Python's branch, if it takes this side
            raise _Differs(f"a side cannot be traced ({type(error).__name__})") from error
        finally:
            self._within -= 1

    def _checked(self, out: Any) -> Any:
        """The results of a side: numbers, traced arrays and tuples of them."""
        if type(out) is tuple:
            return tuple(map(self._checked, out))
        if not isinstance(out, _NUMBERS) or is_scalar_array(out):
            kind = "no value" if out is self.UNBOUND else f"a {type(out).__name__}"
            raise _Differs(f"a side gives {kind}")
        self.arrays = self.arrays or _is_array(out)
        return out

    def _common(self, one: Type, other: Type) -> Type:
        """The type of a result that has these types on the sides."""
        if one == other:
            return one
        if (one.shape, one.dtype) == (other.shape, other.dtype) and one.dtype is DOUBLE:
            self.promotes = True
            return Type((), DOUBLE)
        raise _Differs(f"its sides have the types {one} and {other}")

    def bound(self, read: Callable[[], Any]) -> Any:
        """The value of a local name, if it has one."""
        try:
            return read()
        except NameError:
            return self.UNBOUND

    def truth(self, value: Any) -> Any:
        """A condition as a boolean of NumPy, not of Python."""
        if type(value) is not Tracer or value.shape != ():
            return np.bool_(bool(value))
        return strong_leaf(_holds(value), Type((), np.dtype(bool)))

    def negated(self, value: Any) -> Any:
        """`not value`."""
        if type(value) is not Tracer or value.shape != ():
            return not value
        return np.logical_not(value)

    # --- what sides do

    def number(self, value: Any) -> Any:
        """A value that `+=` does not change in place."""
        if self._within and (not isinstance(value, _NUMBERS) or _is_array(value)):
            raise _Differs(f"a side may change a {type(value).__name__}")
        return value

    def known(self, value: Any) -> Any:
        """An operand whose operators run no code of the user."""
        if self._within and not _is_known(value):
            raise _Differs(f"a side computes with a {type(value).__name__}")
        return value

    def attribute(self, value: Any, name: str) -> Any:
        """An attribute, read without running code of a class."""
        plain = isinstance(value, (ModuleType, np.ndarray, *_NUMBERS))
        method = type(inspect.getattr_static(type(value), name, None)) is FunctionType
        if self._within and not plain and not method and name not in getattr(value, "__dict__", ()):
            raise _Differs(f"a side reads .{name} of a {type(value).__name__}")
        return getattr(value, name)

    def call(self, f: Any, /, *args: Any, **kwargs: Any) -> Any:
        """The result of a function without side effects."""
        if not self._within:
            return self.converted(f)(*args, **kwargs)
        if type(f) is MethodType:
            return self.call(f.__func__, f.__self__, *args, **kwargs)
        if type(f) is FunctionType and not is_library(f.__code__.co_filename):
            pure = None if f.__code__ in self._running else converted(f, None, self)
            if pure is None:
                raise _Differs(f"a side calls {f.__name__}, which may have side effects")
            self._running.append(f.__code__)
            try:
                return pure(*args, **kwargs)
            finally:
                self._running.pop()
        if f is max or f is min:
            return self._extreme(f, *args, **kwargs)
        if not _is_pure(f, args, kwargs):
            raise _Differs(f"a side calls {getattr(f, '__name__', type(f).__name__)}")
        return f(*args, **kwargs)


def _holds(value: Tracer) -> Any:
    return value if value.dtype == np.bool_ else np.not_equal(value, 0)


def _is_known(value: Any) -> bool:
    """Whether a value is of a class whose operators change nothing."""
    if type(value) in (list, tuple):
        return all(map(_is_known, value))
    return type(value) in _KNOWN or isinstance(value, (np.ndarray, np.generic, type))


def _is_array(value: Any) -> bool:
    return type(value) is Tracer and (value.shape != () or is_scalar_array(value))


def _is_pure(f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a call of a function of Python or a library changes nothing."""
    if "out" in kwargs or not all(map(_is_known, (*args, *kwargs.values()))):
        return False
    if isinstance(f, np.ufunc):
        return len(args) <= f.nin
    module, name = getattr(f, "__module__", None) or "", getattr(f, "__name__", "")
    if module == "math" or (module.split(".")[0] == "numpy" and "random" not in module):
        return name not in _WRITES
    owner = getattr(f, "__self__", None)
    if isinstance(owner, (np.ndarray, np.generic, Tracer)):
        return name in _METHODS
    return getattr(f, "__hash__", None) is not None and f in _BUILTINS
