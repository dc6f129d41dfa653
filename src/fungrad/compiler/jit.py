"""jit. Stages a function once per types and structure of its arguments, and calls its Graph."""

from __future__ import annotations

import gc
import itertools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from operator import is_not
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import numpy as np
from numpy import ndarray

from fungrad.compiler import backend_choice, background, branch_guards
from fungrad.compiler.branch_guards import MAX_PATHS, Paths, TakenPath, UnguardedTrace
from fungrad.compiler.captured_state import CapturedState, warn_of_changes
from fungrad.compiler.guard_trace import Question
from fungrad.compiler.lowered import CacheInfo, Lowered
from fungrad.control_flow.call import call, compiled, run
from fungrad.errors import ArgumentError, RetraceWarning, TracingError
from fungrad.ir.canonical import DOUBLE, canonical
from fungrad.ir.graph import Graph, Verification
from fungrad.ir.types import Type
from fungrad.retracing import interned
from fungrad.retracing.staging import Staged, check_rows, stage_tree
from fungrad.support import forks, pytree
from fungrad.support.choices import one_of
from fungrad.support.garbage import uncollected
from fungrad.support.lazy import Module, Record
from fungrad.tracing.aliasing import is_scalar_array, with_memory
from fungrad.tracing.code_origin import is_foreign
from fungrad.tracing.graph_trace import GraphTrace
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import check_function, describe, user_line
from fungrad.tracing.spoiled_memory import Spoiled
from fungrad.tracing.trace import EVAL, Trace, current
from fungrad.tracing.tracing_check import CALLS, COMPILED, comparing, first_call, suspected
from fungrad.tracing.transformed_function import OfFunction, boundary
from fungrad.transforms.arguments import (
    SCALARS,
    Static,
    argument_name,
    check_static,
    flat_leaves,
    flat_results,
    joined,
    leaf_names,
    leaf_type,
    owned,
    parameter_names,
    plain,
    static_key,
)
from fungrad.transforms.engine.reverse import linearized

if TYPE_CHECKING:
    from fungrad.runtime import buffer_pool
else:
    buffer_pool = Module("fungrad.runtime.buffer_pool")


_all: weakref.WeakSet[Jitted] = weakref.WeakSet()
_lock = forks.lock()
"""Guards `_all`, and the caches of its members."""


def _living() -> list[Jitted]:
    """All compiled functions."""
    with _lock:
        return list(_all)


def _forget_programs() -> None:
    """Makes the next calls look up the programs of their Graphs again."""
    for jitted in _living():
        jitted._direct.clear()


backend_choice.state.listeners.append(_forget_programs)
background.listeners.append(_forget_programs)

_compared: ContextVar[tuple[Jitted, ...]] = ContextVar("fungrad_compared", default=())
"""The functions whose programs are compared now: their calls by themselves compare nothing."""

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
INTEGER = Type((), np.dtype(int))
CACHE_SIZE = 256
RETRACE_WARNING = 24


def _runs_eagerly(call: F) -> F:
    """Tells the modes of opaque code how to trace the program of a jitted function with numbers."""

    def eager(self: Jitted, args: Any, kwargs: Any, *others: Any, **options: Any) -> Any:
        static, dynamic = self._parted(args, kwargs)
        leaves, treedef = flat_leaves(dynamic)
        traced = [i for i, leaf in enumerate(leaves) if (leaf_type(leaf) or INTEGER).inexact]

        def flat(*values: Any) -> list[Any]:
            given = list(leaves)
            for i, value in zip(traced, values, strict=True):
                given[i] = value
            positional, named = joined(static, *pytree.unflatten(treedef, given))
            found = pytree.leaves(self._f(*positional, **named))
            return [leaf for leaf in found if leaf_type(leaf) is not None]

        return linearized(flat, [leaves[i] for i in traced], lambda: f"jit of {describe(self._f)}")

    call.eager = eager  # type: ignore[attr-defined]
    return call


class CallForm:
    """A number of positional arguments and names of others: for each leaf-bearing or static
    argument, in the order of the leaves, its place in the call, and whether it is static.
    """

    __slots__ = ("places",)

    def __init__(self, places: list[tuple[int, bool]]) -> None:
        self.places = places


class Change(Record):
    """What changed from one trace to the next: `what`, and in words `how`."""

    what: str
    how: str

    def __str__(self) -> str:
        return f"{self.what} ({self.how})" if self.how else self.what


class Jitted(OfFunction):
    """A function that is traced once for each types and structure of its arguments: see `jit`."""

    def __init__(
        self,
        f: Callable[..., Any],
        static_argnums: Sequence[int],
        static_argnames: Sequence[str],
        inline: bool,
        reassociate: bool | None = None,
        branches: str | None = None,
        max_paths: int = MAX_PATHS,
        verify: str | None = None,
    ) -> None:
        super().__init__(f)
        self._verify = verify
        self._branches = branches
        self._max_paths = max_paths
        self._argnums = frozenset(static_argnums)
        self._argnames = frozenset(static_argnames)
        self._has_static = bool(self._argnums or self._argnames)
        self._statics: dict[int, tuple[frozenset[int], frozenset[str]]] = {}
        self._forms: dict[Any, CallForm] = {}
        self._inline = inline
        self._reassociate = reassociate
        self._cache: OrderedDict[Any, Staged | Paths] = OrderedDict()
        with _lock:
            _all.add(self)
        self._hits = 0
        self._misses = 0
        self._streak = self._last_hits = 0
        """Traces without a call between them that found its program, and the hits before them."""
        self._last_key: Any = None
        self._state = CapturedState(f, verify)
        self._direct: dict[Any, Any] = {}
        """The fast path: programs by the classes and shapes of plain arguments, and the identities
        of dtypes other than float64, which are canonical; for trees, pairs of a program and the
        structure of the result; with keyword or static arguments after the form of the call.
        """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current() is not EVAL:
            return self._call(args, kwargs)
        if kwargs or self._has_static:
            return self._of_trees(args, kwargs)
        key: list[Any] = []
        for arg in args:
            kind = type(arg)
            if kind is ndarray:
                dtype = arg.dtype
                if dtype is not DOUBLE:
                    key.append(id(dtype))
                key.append(arg.shape)
            elif kind in SCALARS:
                key.append(kind)
            else:
                return self._of_trees(args, kwargs)
        program = self._direct.get(tuple(key))
        if program is None:
            given = [canonical(arg) for arg in args]
            if any(map(is_not, given, args)):
                return self(*given)  # programs for canonical arrays are stored
            return self._call(args, kwargs, tuple(key))
        hits = self._hits = self._hits + 1
        if hits > self._state.due and self._has_dropped():
            self._hits -= 1
            return self(*args)
        out = program(*args)
        if type(out) is tuple:  # native programs return new arrays
            return out if len(out) != 1 else out[0]
        if len(out) != 1:
            return tuple(owned(out, args))
        return _apart(out[0], args)

    def _of_trees(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The fast path for lists, tuples and dicts of plain arguments, for keyword and static
        arguments.
        """
        if self._hits >= self._state.due:
            self._has_dropped()
        leaves: list[Any] = []
        key: list[Any] = []
        if not kwargs and not self._has_static:
            if not plain(args, leaves, key):
                return self._call(args, kwargs)
        else:
            form = self._forms.get((len(args), *kwargs)) or self._form(len(args), tuple(kwargs))
            values = (*args, *kwargs.values()) if kwargs else args
            key.append(form)
            for place, static in form.places:
                arg = values[place]
                if static:
                    key.append(static_key(arg))
                elif type(arg) is ndarray and arg.dtype is DOUBLE:
                    leaves.append(arg)
                    key.append(arg.shape)
                elif not plain((arg,), leaves, key):
                    return self._call(args, kwargs)
        try:
            found = self._direct.get(tuple(key))
        except TypeError:  # a static argument that is not hashable, which the general path names
            return self._call(args, kwargs)
        if found is None:
            if any(map(is_not, map(canonical, leaves), leaves)):
                static, dynamic = self._parted(args, kwargs)
                positional, named = joined(static, *pytree.map(canonical, dynamic))
                return self(*positional, **named)
            return self._call(args, kwargs, tuple(key), trees=True)
        self._hits += 1
        program, structure = found
        out = program(*leaves)
        if type(out) is not tuple:  # native programs return new arrays
            out = owned(out, leaves)
        return out[0] if structure is pytree.LEAF else pytree.unflatten(structure, out)

    def _form(self, count: int, names: tuple[str, ...]) -> CallForm:
        """What calls with so many positional arguments and these names have in common."""
        static_at, static_names = self._static(count)
        places = [(i, i in static_at) for i in range(count)]
        places += [(count + names.index(name), name in static_names) for name in sorted(names)]
        return self._forms.setdefault((count, *names), CallForm(places))

    @boundary
    @_runs_eagerly
    def _call(self, args: Any, kwargs: Any, key: Any = None, trees: bool = False) -> Any:
        """The general path: any tree of arguments, under any trace."""
        if comparing.get():
            return self._f(*args, **kwargs)
        watch, before = first_call(self._f, COMPILED), Spoiled.arrays
        if watch is None:
            out = self._result(args, kwargs, key, trees)
            if Spoiled.arrays != before:
                watch = suspected(self._f, pytree.leaves(out), before, compiled=True)
            if watch is None:
                return out
        else:
            with watch.observing(CALLS):
                out = self._result(args, kwargs, key, trees)
            watch.doubted = watch.doubted or (watch.unseen and any(map(is_foreign, self._files())))
        static, dynamic = self._parted(args, kwargs)
        leaves, treedef = flat_leaves(dynamic)

        def flat(*values: Any) -> list[Any]:
            positional, named = joined(static, *pytree.unflatten(treedef, values))
            return pytree.leaves(self._f(*positional, **named))

        def traced() -> Any:
            return self._stage(self._key(static, dynamic, leaves, treedef), leaves)

        try:
            watch.compare(flat, leaves, pytree.leaves(out), traced)
        except TracingError:
            self.cache_clear()  # the next call is no better
            raise
        return out

    def _files(self) -> set[str]:
        """The files of the lines of the programs."""
        graphs: list[Graph] = []
        for staged in list(self._cache.values()):
            graphs += [program.graph for program, _ in _programs(staged)]
        seen: set[Graph] = set()
        sources: set[Any] = set()
        while graphs:
            graph = graphs.pop()
            if graph not in seen:
                seen.add(graph)
                sources.update([equation.source for equation in graph.equations])
                graphs += graph.subgraphs()
        return {source.file for source in sources if source is not None}

    def _result(self, args: Any, kwargs: Any, key: Any, trees: bool) -> Any:
        """The result of a call, of functions whose first call was observed, too."""
        leaves, staged, way = self._entry(args, kwargs)
        short = key is not None
        if isinstance(staged, Paths):
            if current().records:  # the recording trace answers the questions, or refuses them
                return self._f(*args, **kwargs)
            if short and not trees:
                self._remember(key, staged.direct)
            return staged.finish(way) if way else staged(*leaves)
        if staged.rows:
            check_rows(staged, leaves, self._f, lambda: self._names(self._parted(args, kwargs)[1]))
        if current() is EVAL:
            out = run(staged.graph, leaves)
            if short and not staged.rows and trees:
                self._remember(key, (compiled(staged.graph), staged.out))
            elif short and not staged.rows:
                program = compiled(staged.graph)
                flat = _is_flat(staged.out)
                self._remember(key, program if flat else _structured(program, staged.out))
            return pytree.unflatten(staged.out, owned(out, leaves))
        staged.check_kept()
        if self._inline:
            out = evaluate(staged.graph, [*staged.captured, *leaves])
        else:
            out = call(*staged.captured, *leaves, graph=staged.graph)
        return pytree.unflatten(staged.out, out)

    def _remember(self, key: Any, program: Any) -> None:
        """Stores a program for calls with plain arguments of these types."""
        if len(self._direct) >= CACHE_SIZE:
            self._direct.clear()
        self._direct[key] = program

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The Graph for arguments of these types, without running it.

        Of a function with branches it is the Graph of the path of these values; the values that
        its branches depend on are computed.
        """
        leaves, staged, way = self._entry(args, kwargs)
        if isinstance(staged, Paths):
            way = way or staged.follow(leaves)
            programs = [*(node.program for node in way.nodes), way.leaf.program]
            parts = [program.graph for program in programs if program is not None]
            return Lowered(way.leaf.whole, way.leaf.out, staged.lines(), parts, leaves)
        return Lowered(staged.graph, staged.out, args=leaves)

    def cache_info(self) -> CacheInfo:
        """Hits, misses and size of the cache of Graphs."""
        return CacheInfo(self._hits, self._misses, CACHE_SIZE, len(self._cache))

    def cache_clear(self) -> None:
        """Forgets all Graphs."""
        with _lock:
            self._cache, self._direct, self._last_key = OrderedDict(), {}, None
            self._state = CapturedState(self._f, self._verify)

    def __repr__(self) -> str:
        return f"<jit of {describe(self._f)}>"

    def _repr_html_(self) -> str:
        info = self.cache_info()
        text = f"jit of {describe(self._f)}: {info.currsize} compiled, {info.hits} calls of these"
        return f"<code>{text.replace('<', '&lt;')}</code>"

    def _recipe(self) -> tuple[Any, ...]:
        static = tuple(self._argnums), tuple(self._argnames)
        options = self._inline, self._reassociate, self._branches, self._max_paths, self._verify
        return self._f, *static, *options

    def _entry(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], Staged | Paths, TakenPath | None]:
        """The leaves of the arguments, the cache entry for their types, and, if this call traced a
        path, its state (`TakenPath`).
        """
        static, dynamic = self._parted(args, kwargs)
        leaves, treedef = flat_leaves(dynamic)
        key = self._key(static, dynamic, leaves, treedef)
        try:
            staged = self._cache.get(key)
        except TypeError:
            values = ", ".join(f"{argument_name(self._f, n)}={v!r}" for n, v in static)
            raise ArgumentError(
                f"Static arguments of {describe(self._f)} have to be hashable (numbers, strings, "
                f"tuples){user_line()}: {values}."
            ) from None
        compares = staged is None or current().records or self._hits >= self._state.due
        dropped = compares and self._has_dropped()
        if staged is not None and not dropped:
            self._hits += 1
            return leaves, staged, None
        self._misses += 1
        with uncollected():
            staged, way = self._stage(key, leaves)
        captured = staged.captured if isinstance(staged, Staged) else way and way.leaf.captured
        if not captured:  # captured values of another trace end with it
            with _lock:
                first = self._cache.setdefault(key, staged)
                while len(self._cache) > CACHE_SIZE:
                    self._cache.popitem(last=False)
            if first is not staged:  # another thread has traced it meanwhile
                return leaves, first, None
            self._notice(key)
            self._state.keep(self._hits, self._static_values())
        return leaves, staged, way

    def _has_dropped(self) -> bool:
        """Drops the programs, with a warning, if captured state has changed, and one of them with
        it. Returns whether they were dropped.
        """
        state = self._state
        changed = [] if self in _compared.get() else state.changed(self._hits)
        if not changed:
            return False
        compared = [
            (stage, *program)
            for key, entry in list(self._cache.items())
            for stage in [self._stager(*key)]
            for program in _programs(entry)
            if state.affecting(program[0].graph, changed)
        ]
        token = _compared.set((*_compared.get(), self))
        try:
            with uncollected():
                outdated = any(branch_guards.is_outdated(*program) for program in compared)
        finally:
            _compared.reset(token)
        if outdated:
            self.cache_clear()
            warn_of_changes(self._f, changed)
        elif compared:
            for _, staged, _ in compared:
                state.tolerate(staged.graph, changed)
            state.keep(self._hits, self._static_values())
        return outdated

    def _static_values(self) -> list[Any]:
        """The static arguments of all programs, and the data of their pytrees' nodes."""
        keys = list(self._cache)
        static = [static.value for key in keys for _, static in key[1]]
        return static + [data for key in keys for data in pytree.all_node_data(key[0])]

    def _key(
        self, static: Any, dynamic: Any, leaves: Sequence[Any], treedef: pytree.TreeDef
    ) -> Any:
        """What programs are kept by: calls that share it are traced alike."""
        return (
            treedef,
            static,
            tuple([self._type(leaf, dynamic, i) for i, leaf in enumerate(leaves)]),
            branch_guards.chosen(self._branches),
            tuple([i for i, leaf in enumerate(leaves) if is_scalar_array(leaf)]),
            Static(treedef),
        )

    def _parted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The static arguments with their positions or names, and the others as a tree."""
        if not self._argnums and not self._argnames:
            return (), (args, kwargs)
        static_at, static_names = self._static(len(args))
        static: Any = tuple((i, Static(a)) for i, a in enumerate(args) if i in static_at)
        static += tuple((k, Static(v)) for k, v in sorted(kwargs.items()) if k in static_names)
        positional = tuple(a for i, a in enumerate(args) if i not in static_at)
        return static, (positional, {k: v for k, v in kwargs.items() if k not in static_names})

    def _static(self, count: int) -> tuple[frozenset[int], frozenset[str]]:
        """The positions and the names of static arguments in calls with so many positional ones."""
        found = self._statics.get(count)
        if found is None:
            names = parameter_names(self._f)
            places = {i + count if i < 0 else i for i in self._argnums}
            places |= {i for i, name in enumerate(names) if name in self._argnames}
            named = self._argnames | {names[i] for i in places if i < len(names)}
            found = self._statics[count] = frozenset(places), frozenset(named)
        return found

    def _type(self, leaf: Any, dynamic: Any, index: int) -> Type:
        type_ = leaf_type(leaf)
        if type_ is not None and type_.dtype.kind not in "OV":
            return type_
        name = self._names(dynamic)[index]
        what = f"a {type(leaf).__name__}" if type_ is None else f"an array of dtype {type_.dtype}"
        advice = "close" if type_ is None else "make it one (np.asarray(x, float)), close"
        raise ArgumentError(
            f"The argument {name} of {describe(self._f)} is {what}{user_line()}, not an array of "
            f"numbers or a number: {advice} over it, or name it in static_argnames."
        )

    def _names(self, dynamic: Any) -> list[str]:
        args, kwargs = dynamic
        return leaf_names(
            self._f,
            [*range(len(args)), *sorted(kwargs)],
            [*args, *(kwargs[k] for k in sorted(kwargs))],
        )

    def _stager(
        self, treedef: pytree.TreeDef, static: Any, types: Sequence[Type], _: str,
        scalars: Sequence[int], __: Static,
    ) -> Callable[[Any], Staged]:  # fmt: skip
        """What stages f for arguments of a signature, a key of the cache, by a trace that its
        argument makes.
        """

        def apply(dynamic: Any) -> Any:
            leaves = pytree.leaves(dynamic)
            for i in scalars:
                with_memory(leaves[i])
            args, kwargs = joined(static, *dynamic)
            return self._f(*args, **kwargs)

        names = self._leaf_names(static, treedef)

        def stage(make: Callable[..., Any]) -> Staged:
            what = "a jitted function"
            rows: set[int] = set()
            traces: list[GraphTrace] = []

            def begun(parent: Trace, label: Callable[[], str]) -> GraphTrace:
                traces.append(make(parent, label))
                return traces[-1]

            staged = stage_tree(self._f, apply, treedef, types, names, what, begun, rows)
            trace, graph = traces[-1], self.choose(staged.graph)
            return staged._replace(graph=graph, kept=trace.kept, recorder=type(trace))

        return stage

    def _leaf_names(self, static: Any, treedef: pytree.TreeDef) -> list[str]:
        count = treedef.leaf_count
        if static:
            return [f"leaf {i}" for i in range(count)]
        return self._names(pytree.unflatten(treedef, list(range(count))))

    def _stage(self, key: Any, leaves: Sequence[Any]) -> tuple[Staged | Paths, TakenPath | None]:
        treedef, static, types, branches, *_ = key
        stage = self._stager(*key)
        if branches == "error":
            return stage(UnguardedTrace), None

        def check_order(staged: Staged, leaves: Sequence[Any]) -> None:
            check_rows(staged, leaves, self._f, lambda: self._leaf_names(static, treedef))

        def evaluate(leaves: Sequence[Any]) -> Any:
            outs: list[pytree.TreeDef] = []

            def flat(*values: Any) -> list[Any]:
                args, kwargs = joined(static, *pytree.unflatten(treedef, values))
                found, out = flat_results(self._f(*args, **kwargs))
                outs.append(out)
                return found

            values, _ = linearized(flat, leaves, lambda: f"jit of {name}")
            return pytree.unflatten(outs[-1], owned(values, leaves))

        strict, name = self._branches is not None, describe(self._f)
        by_eager = evaluate if all(type_.inexact for type_ in types) else None
        paths = Paths(stage, name, self._max_paths, self._inline, strict, by_eager, check_order)
        if not current().records:
            found = paths.first(leaves)
            return (found, None) if isinstance(found, Staged) else (paths, found)
        try:
            return stage(GraphTrace), None
        except TypeError:  # mostly of a branch on its arguments; the outer trace raises others
            return paths, None

    def choose(self, graph: Graph) -> Graph:
        """A Graph with the options `reassociate` and `verify` of this function, if it has them."""
        if self._reassociate is None and self._verify is None:
            return graph
        return graph.choosing(reassociate=self._reassociate, verify=self._verify)

    def _notice(self, key: Any) -> None:
        """Warns if nearly every call traces again, and names the argument that changes."""
        self._streak = self._streak + 1 if self._hits == self._last_hits else 1
        self._last_hits = self._hits
        if self._streak == RETRACE_WARNING and self._last_key is not None:
            warnings.warn(
                f"{describe(self._f)} was traced anew {RETRACE_WARNING} times in a "
                f"row{user_line()}: {self._change(self._last_key, key)} changes from call to "
                "call. Keep shapes and dtypes fixed, pass changing numbers as arrays, or do "
                "without jit.\n(more: fungrad explain RetraceWarning)",
                RetraceWarning,
                stacklevel=6,
            )
        self._last_key = key

    def changes(self) -> list[Change]:
        """What changed between the arguments of one trace and the next, among those in the cache,
        where that is known.
        """
        with _lock:
            keys = list(self._cache)
        found = [self._change(old, new) for old, new in itertools.pairwise(keys)]
        return [change for change in found if change.how]

    def _change(self, old: Any, new: Any) -> Change:
        if old[0] != new[0]:
            how = pytree.difference(old[0], new[0])
            return Change("the structure of the arguments", how)
        for (place, before), (_, after) in zip(old[1], new[1], strict=False):
            if before != after:
                name = (
                    place
                    if isinstance(place, str)
                    else (parameter_names(self._f) or [place])[place]
                )
                return Change(f"the static argument {name}", f"{before!r}, then {after!r}")
        names = self._names(pytree.unflatten(new[0], list(range(new[0].leaf_count))))
        for name, before, after in zip(names, old[2], new[2], strict=True):
            if before != after:
                return Change(f"the argument {name}", f"{before!r}, then {after!r}")
        return Change("an argument", "")


if TYPE_CHECKING:

    class Typed(Jitted, Generic[P, R]):
        """A `Jitted` with the signature of its function, for type checkers only."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

        def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered: ...


def _apart(result: Any, args: tuple[Any, ...]) -> Any:
    """A result that nothing else writes to: a copy of a view, of a constant or of an argument."""
    if type(result) is ndarray:
        if result.base is not None or not result.flags.writeable:
            return result.copy()
        for arg in args:
            if arg is result:
                return result.copy()
    return result


def _programs(entry: Staged | Paths) -> list[tuple[Staged, Sequence[Question]]]:
    """What is staged for arguments of one signature, with the questions of its paths."""
    if isinstance(entry, Staged):
        return [(entry, ())]
    return [(leaf.staged, leaf.questions) for leaf in entry.leaves()]


def _is_flat(out: pytree.TreeDef) -> bool:
    """Whether a result is one leaf, or a tuple of several."""
    return out is pytree.LEAF or (out.type is tuple and out.is_flat and len(out.children) > 1)


def _structured(program: Any, out: pytree.TreeDef) -> Callable[..., tuple[Any]]:
    """The program whose only result is the tree of the results of another."""

    def run(*args: Any) -> tuple[Any]:
        found = program(*args)
        return (pytree.unflatten(out, found if type(found) is tuple else owned(found, args)),)

    return run


def clear_caches() -> None:
    """Frees the memory that compiled functions cache, so that they compile again.

    >>> clear_caches()

    It holds Graphs, programs and their machine code, buffers and stacks. Calls that run now end
    first.
    """
    background.drop()
    for jitted in _living():
        jitted.cache_clear()
    interned.forget()
    gc.collect()  # Graphs and their programs hold each other
    backend_choice.free()
    buffer_pool.clear()


@overload
def jit(
    f: np.ufunc,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    inline: bool = False,
    reassociate: bool | None = None,
    branches: str | None = None,
    max_paths: int = MAX_PATHS,
    verify: str | None = None,
) -> Typed[..., Any]: ...


@overload
def jit(
    f: Callable[P, R],
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    inline: bool = False,
    reassociate: bool | None = None,
    branches: str | None = None,
    max_paths: int = MAX_PATHS,
    verify: str | None = None,
) -> Typed[P, R]: ...


@overload
def jit(
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    inline: bool = False,
    reassociate: bool | None = None,
    branches: str | None = None,
    max_paths: int = MAX_PATHS,
    verify: str | None = None,
) -> Callable[[Callable[P, R]], Typed[P, R]]: ...


def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    inline: bool = False,
    reassociate: bool | None = None,
    branches: str | None = None,
    max_paths: int = MAX_PATHS,
    verify: str | None = None,
) -> Any:
    """Compiles f: traces it once for each types and structure of its arguments.

    >>> import numpy as np
    >>> square = jit(lambda x: x * x)
    >>> square(np.arange(3.0)), square.cache_info().misses
    (array([0., 1., 4.]), 1)
    >>> halve = jit(lambda n: n // 2 if n % 2 == 0 else 3 * n + 1)
    >>> halve(10), halve(7)
    (5, 22)

    Args:
      f: a pure function of trees of arrays and numbers.
      static_argnums: positions of arguments that are not traced; f is traced once for each of their
        values, which have to be hashable.
      static_argnames: names of such arguments.
      inline: whether, under another transform, the equations of f are recorded one by one instead
        of as one call.
      reassociate: whether rewrites that hold in exact arithmetic only are allowed for speed. They
        can overflow or return NaN where f does not. None means `fg.config.reassociate`. It holds
        for the functions that f calls too, jitted ones included. docs/performance.md lists the
        rules.
      branches: how Python's questions about traced values (`if x > 0`, `range(n)`) are handled:
        "guard" answers them with the values of the call, and compiles a program for each path that
        the answers lead to; "error" refuses them; None means `fg.config.branches`, which is
        "guard", but calls beyond `max_paths` are evaluated, with a warning, not refused.
      max_paths: the most paths that are compiled for arguments of the same types.
      verify: which runs of a program are compared with the evaluator: "first", "always" or "never";
        None means `fg.config.verify`.

    Returns:
      A `Jitted`, with `lower(*args)`, `cache_info()` and `cache_clear()`.

    Raises:
      ArgumentError: if f has no such static argument, a call's static argument is not hashable,
        another argument is no array and no number, or an option has no such value.
      BranchError: if a function with `branches="guard"` takes more paths than `max_paths`.
    """
    nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    if not isinstance(reassociate, bool | None):
        raise ArgumentError(f"reassociate has to be True or False, not {reassociate!r}.")
    if branches is not None:
        one_of(branch_guards.CHOICES, branches, "branches")
    if verify is not None:
        one_of(Verification.CHOICES, verify, "verify")
    if not isinstance(max_paths, int) or max_paths < 1:
        raise ArgumentError(f"max_paths has to be a whole number of 1 or more, not {max_paths!r}.")
    if f is None:
        return lambda g: jit(
            g, static_argnums=nums, static_argnames=names, inline=inline, reassociate=reassociate,
            branches=branches, max_paths=max_paths, verify=verify,
        )  # fmt: skip
    check_function(f, "jit")
    if nums or names:
        check_static(f, nums, names)
    return Jitted(f, nums, names, inline, reassociate, branches, max_paths, verify)
