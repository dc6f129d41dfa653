"""Arguments and closed-over values of functions with custom rules.

Separates the arguments of a call into traced inputs and the rest, finds the traced values that a
function closes over, and runs it later with other values in their place.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ClosedOverTracerError, LeakedTracerError
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.retracing.graph_transforms import closed
from fungrad.retracing.interned import interned
from fungrad.support import pytree
from fungrad.tracing.aliasing import private
from fungrad.tracing.captured_arrays import own
from fungrad.tracing.graph_trace import GraphTrace, stage
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.trace import (
    Trace,
    Tracer,
    content,
    current,
    registry,
    typeof,
)
from fungrad.transforms.arguments import argument_name, flat_results, has_type, leaf_type
from fungrad.transforms.engine.batching import BatchTrace
from fungrad.transforms.engine.forward import JvpTrace
from fungrad.transforms.engine.reverse import VjpTrace


class Signature:
    """Binds keywords and defaults of a function to its positional parameters."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self._signature: inspect.Signature | None = None
        self._partial = isinstance(f, functools.partial)
        inner = f.func if isinstance(f, functools.partial) else f
        if not isinstance(inner, np.ufunc):  # its keywords (out, where) are NumPy's
            with contextlib.suppress(TypeError, ValueError):  # builtins without a signature
                self._signature = inspect.signature(f)
        parameters = self._signature.parameters.values() if self._signature else ()
        positional = all(p.kind <= p.POSITIONAL_OR_KEYWORD for p in parameters)
        self._complete = len(parameters) if positional else -1
        """The number of arguments that need no binding."""

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The positional arguments, and those that can only be passed by keyword."""
        if self._signature is None or (len(args) == self._complete and not kwargs):
            return list(args), kwargs
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if self._partial:  # its bound arguments are part of the function: rules take the others
            return list(bound.args), {k: v for k, v in bound.kwargs.items() if k in kwargs}
        return list(bound.args), bound.kwargs


class Arguments:
    """The arguments of one call: its traced leaves, `inputs`, and all others, unchanged.

    A value that is no tracer is concrete, so it is neither differentiated nor batched, and the
    function gets it unchanged: Python can loop over an integer, also under jit.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        passive: Sequence[int] = (),
    ) -> None:
        self.f = f
        self.inputs: list[Any] = []
        self.types: list[Type | None] = []
        self.passive = frozenset(i + len(args) if i < 0 else i for i in passive)
        self.active = [i for i in range(len(args)) if i not in self.passive]
        self.treedefs = [pytree.structure(arg) for arg in args]
        self.spans: list[range] = []
        leaves, self._treedef = pytree.flatten((list(args), kwargs))
        start = 0
        for treedef in self.treedefs:
            self.spans.append(range(start, start + treedef.leaf_count))
            start += treedef.leaf_count
        self.slots: list[int | None] = []
        """For each leaf its position among the inputs, or None."""
        self._rest: list[Any] = []
        copies = recording()
        for leaf in leaves:
            if type(leaf) is np.ndarray and leaf.dtype.char == "O":
                leaf = registry.operand(leaf)
            traced = type(leaf) is Tracer
            self.slots.append(len(self.inputs) if traced else None)
            self.types.append(leaf_type(leaf))
            if traced:
                self.inputs.append(leaf)
                leaf = None
            elif copies and isinstance(leaf, np.ndarray):
                leaf = leaf.copy()  # a recorded program keeps the present contents
            self._rest.append(leaf)

    def take(self) -> list[Any]:
        """Returns the inputs and drops them here: this object may outlive the call."""
        inputs, self.inputs = self.inputs, []
        return inputs

    def rebuild(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The positional and keyword arguments with other values of the inputs."""
        leaves = [
            rest if slot is None else private(values[slot])
            for slot, rest in zip(self.slots, self._rest, strict=True)
        ]
        args, kwargs = pytree.unflatten(self._treedef, leaves)
        return args, kwargs

    def parts(
        self, of_inputs: Sequence[Any], default: Callable[[Type | None], Any]
    ) -> tuple[Any, ...]:
        """One tree for each active argument, with the values that correspond to the inputs.

        Leaves that are no inputs get `default(type)`.
        """
        result = []
        for position in self.active:
            leaves = []
            for i in self.spans[position]:
                slot = self.slots[i]
                leaves.append(default(self.types[i]) if slot is None else of_inputs[slot])
            result.append(pytree.unflatten(self.treedefs[position], leaves))
        return tuple(result)

    def refuse_passive(self, wanted: Sequence[Any]) -> None:
        """Raises if a derivative is wanted of an argument that is declared to have none."""
        inside = {self.slots[i] for position in self.active for i in self.spans[position]}
        for i, slot in enumerate(self.slots):
            type_ = self.types[i]
            if (
                slot is None
                or slot in inside
                or not wanted[slot]
                or type_ is None
                or not type_.inexact
            ):
                continue
            names = [argument_name(self.f, p) for p, span in enumerate(self.spans) if i in span]
            raise ArgumentError(
                f"{describe(self.f)} is differentiated{user_line()} with respect to "
                f"{names[0] if names else 'a keyword-only argument'}, for which its rule has no "
                "place: take it out of nondiff_argnums (make it positional), or pass "
                "fg.stop_gradient(x)."
            )


def recording() -> bool:
    """Whether the present operations are recorded into a Graph."""
    return _observed(GraphTrace)


def valueless() -> bool:
    """Whether the present operations are recorded or batched, so that values may be unknown."""
    return _observed((GraphTrace, BatchTrace))


def _observed(kinds: Any) -> bool:
    trace: Trace | None = current()
    while trace is not None:
        if isinstance(trace, kinds):
            return True
        trace = trace.parent
    return False


def captured(
    f: Callable[..., Sequence[Any]],
    inputs: Sequence[Any],
    of: Callable[..., Any],
    once: bool = False,
) -> tuple[Graph, list[Any]]:
    """The Graph of a flat function, and the traced values it closes over, its first inputs.

    `once`: whether it is run for these inputs alone, so that Python may read their values.
    """
    names = [f"input {i}" for i in range(len(inputs))]
    name = getattr(of, "__name__", type(of).__name__)
    types, given = [typeof(x) for x in inputs], inputs if once else ()
    graph, values = closed(stage(f, types, names, lambda: describe(of), name, given=given))
    return interned(graph), values


class Substituted(Trace):
    """Runs a function with other values in place of traced ones that it closes over."""

    __slots__ = ("_kept", "_values")

    def __init__(self, parent: Trace, tracers: Sequence[Tracer], values: Sequence[Any]) -> None:
        super().__init__(parent, parent.label)
        self._kept = tracers
        self._values = {content(t): v for t, v in zip(tracers, values, strict=True)}

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        parent: Trace = self.parent  # type: ignore[assignment]
        return parent.process(primitive, [self.of(arg) for arg in args], params)

    def stands_for(self, tracer: Tracer) -> bool:
        return content(tracer) in self._values

    def of(self, value: Any) -> Any:
        """The substitute of a value, if it has one, else the value."""
        return own(self._values.get(content(value), value)) if type(value) is Tracer else value

    def over(self, parent: Trace) -> Substituted:
        """The same substitution above another trace."""
        values = [self._values[content(tracer)] for tracer in self._kept]
        return type(self)(parent, self._kept, values)


class Held(Substituted):
    """As Substituted; all other values that f closes over are constants: a differentiating trace's
    tracer that belongs to no trace below is replaced by its primal.
    """

    __slots__ = ()

    def stands_for(self, tracer: Tracer) -> bool:
        if super().stands_for(tracer):
            return True
        below = self.parent
        while below is not None:
            if below is tracer.owner or below.stands_for(tracer):
                return False
            below = below.parent
        return isinstance(tracer.owner, (JvpTrace, VjpTrace))

    def of(self, value: Any) -> Any:
        while (
            type(value) is Tracer and content(value) not in self._values and self.stands_for(value)
        ):
            value = own(value.inner)
        return super().of(value)


def substituted(
    tracers: Sequence[Tracer],
    values: Sequence[Any],
    f: Callable[[], Sequence[Any]],
    held: bool = False,
) -> Sequence[Any]:
    """The flat results of f, run with `values` in place of the tracers that it closes over.

    `held`: whether all other values that it closes over are constants.
    """
    if not tracers and not held:
        return f()
    trace = (Held if held else Substituted)(current(), tracers, values)
    return [trace.of(value) for value in trace.run(f)]


def user(what: str, of: Callable[..., Any], f: Callable[[], Any]) -> Any:
    """Calls a part of a user's rule; a leaked value is reported as closed over."""
    try:
        return f()
    except LeakedTracerError as error:
        raise closed_over(what, of, error.message) from error


def closed_over(what: str, of: Callable[..., Any], found: str) -> ClosedOverTracerError:
    """The error for a rule that closes over a value of the transform that uses the rule."""
    return ClosedOverTracerError(
        f"{what} of {describe(of)} used a traced value that it closes over{user_line()}. A custom "
        "rule only says how the function depends on its arguments: pass the value as an argument, "
        "and give it a derivative in the rule, or close over fg.stop_gradient(value).\nFound: "
        f"{found}"
    )


def outputs_of(f: Callable[..., Any], tree: Any) -> tuple[list[Any], pytree.TreeDef]:
    """The leaves of f's result, checked to be arrays and numbers, and their structure.

    Raises:
      LeakedTracerError: if one was kept from a transform that has ended, and a transform runs.
    """
    leaves, treedef = flat_results(tree)
    for path, leaf in zip(pytree.paths(treedef), leaves, strict=True):
        if not has_type(leaf):
            raise ArgumentError(
                f"{describe(f)} returned a {type(leaf).__name__}{path and f' at {path}'}: a "
                "function with custom rules returns arrays and numbers only."
            )
    return leaves, treedef
