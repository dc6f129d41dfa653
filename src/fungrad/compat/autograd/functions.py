"""Autograd's primitives as one primitive of fungrad, `opaque`.

A function made a primitive is called with plain arrays, and its rules define its derivative. In
fungrad all of them are the primitive `opaque`, whose parameter is the call. Under vmap rules run
for one example after the other, since they may be any Python code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.custom_rules.closures_and_arguments import Held
from fungrad.errors import MissingRuleError
from fungrad.ir.types import Type
from fungrad.primitives.facts import EXACT
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, stack_first
from fungrad.primitives.primitive import Primitive, or_zero
from fungrad.support import pytree
from fungrad.support.lazy import Record
from fungrad.tracing.created_arrays import holds_traced
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.trace import EVAL, PLAIN, Trace, Tracer, current, registry, shape_of, typeof
from fungrad.transforms.engine.batching import BatchTrace, take_first
from fungrad.transforms.engine.reverse import VjpTrace

ARRAYS = {*PLAIN, np.ndarray}
"""The classes of arguments that are inputs of the primitive; others are passed unchanged."""


class Function:
    """A function opaque to transforms: see `primitive`."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.vjps: Callable[..., Any] | None = None
        """`(argnums, ans, args, kwargs)` -> the function from a cotangent to those of argnums."""
        self.jvps: Callable[..., Any] | None = None
        """`(argnums, tangents, ans, args, kwargs)` -> the tangent of the output."""
        functools.update_wrapper(self, f, updated=())

    def __repr__(self) -> str:
        return str(getattr(self.f, "__name__", type(self.f).__name__))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current() is EVAL:
            return self.f(*args, **kwargs)
        kinds = set(map(type, args))
        if Tracer in kinds and not kinds - ARRAYS:
            call = RecordedCall(self, None, (), kwargs)
            return call.output(opaque(*args, call=call))
        leaves, structure = pytree.flatten(args)
        passive = [None if type(leaf) in ARRAYS else Passive(leaf) for leaf in leaves]
        call = RecordedCall(self, structure, passive, kwargs)
        if not any(type(leaf) is Tracer for leaf in leaves):
            return call.alone(lambda: self.f(*args, **kwargs))
        inputs = [leaf for leaf, p in zip(leaves, passive, strict=True) if p is None]
        return call.output(opaque(*inputs, call=call))


_PLAIN_LEAVES = {*ARRAYS, str, bytes, type(None), np.dtype, type, type(Ellipsis)}
"""Classes of values that hold no others."""


class Kept(Held):
    """Runs a primitive's function or rule: to it, traced values of other transforms, which objects
    among its arguments hold, are constants. What it computes from one is boxed as that one was, as
    clients expect that unbox it.
    """

    __slots__ = ()
    writes = False  # C code gets NumPy's own arrays

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        output = super().process(primitive, args, params)
        for arg in args:
            if type(arg) is Tracer and self.stands_for(arg):
                slot = 0 if type(arg.owner) is VjpTrace else None
                if primitive.multiple:
                    return tuple([Tracer(arg.owner, o, slot) for o in output])
                return Tracer(arg.owner, output, slot)
        return output


class Passive(Record):
    """A leaf of the arguments that is not an array, such as a name: passed unchanged."""

    leaf: Any


class RecordedCall:
    """One call of a function: maps inputs to its arguments, and leaves to its output."""

    def __init__(
        self,
        function: Function,
        structure: pytree.TreeDef | None,
        passive: Sequence[Passive | None],
        kwargs: dict[str, Any],
    ) -> None:
        self.function = function
        self.structure = structure
        """The tree of the arguments; None if the inputs are the arguments."""
        self.passive = passive
        self.kwargs = kwargs
        self.out: pytree.TreeDef = pytree.LEAF
        objects = [*[p.leaf for p in passive if p is not None], *kwargs.values()]
        self.open = bool(objects) and not _PLAIN_LEAVES.issuperset(map(type, objects))
        """Whether an argument is an object that may hold traced values."""

    def alone(self, f: Callable[[], Any], trace: Trace = EVAL) -> Any:
        """Runs f under a trace; to it, traced values that objects among the arguments hold are
        their values in that trace, as constants.
        """
        if not self.open:
            return f() if current() is trace else trace.run(f)
        held = Kept(trace, (), ())

        def flat() -> Any:
            leaves, structure = pytree.flatten(f())
            arrays = [registry.operand(x) if holds_traced(x) else x for x in leaves]
            return pytree.unflatten(structure, list(map(held.of, arrays)))

        return held.run(flat)

    def __repr__(self) -> str:
        return repr(self.function)

    def args(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments built from the inputs."""
        if self.structure is None:
            return tuple(inputs)
        rest = iter(inputs)
        leaves = [next(rest) if p is None else p.leaf for p in self.passive]
        made: tuple[Any, ...] = pytree.unflatten(self.structure, leaves)
        return made

    def parts(self, of_inputs: Sequence[Any]) -> list[list[Any]]:
        """The values of the inputs, grouped by argument."""
        if self.structure is None:
            return [[x] for x in of_inputs]
        rest = iter(of_inputs)
        flags = iter(self.passive)
        return [
            [next(rest) for _ in range(child.leaf_count) if next(flags) is None]
            for child in self.structure.children
        ]

    def positions(self, wanted: Sequence[Any]) -> list[int]:
        """The arguments of which an input is wanted."""
        return [i for i, part in enumerate(self.parts(wanted)) if any(part)]

    def inputs(self, position: int, tree: Any) -> list[Any]:
        """The cotangents of the inputs in one argument, from a tree like the argument."""
        assert self.structure is not None
        children = self.structure.children
        start = sum(child.leaf_count for child in children[:position])
        leaves = _matched(children[position], tree)
        flags = self.passive[start : start + len(leaves)]
        return [x for x, p in zip(leaves, flags, strict=True) if p is None]

    def output(self, leaves: Sequence[Any]) -> Any:
        """The function's result, built from its leaves."""
        return leaves[0] if self.out is pytree.LEAF else pytree.unflatten(self.out, leaves)

    def run(self, *inputs: Any) -> tuple[Any, ...]:
        """The leaves of the function's result."""
        result = self.function.f(*self.args(inputs), **self.kwargs)
        if type(result) in ARRAYS:
            return (result,)
        outputs, self.out = pytree.flatten(result)
        return tuple([registry.operand(output) for output in outputs])


def _matched(structure: pytree.TreeDef, tree: Any) -> list[Any]:
    """The leaves of a cotangent, in which a list may be a tuple, or an array of its items."""
    children = structure.children
    if not structure.leaf_count:
        return []
    sequence = type(tree) in (list, tuple) or (type(tree) in ARRAYS and np.ndim(tree) > 0)
    if structure.type in (list, tuple) and sequence and len(tree) == len(children):
        parts = map(_matched, children, tree)
        return [leaf for part in parts for leaf in part]
    return pytree.match(structure, tree, "cotangent")


def _examples(f: Callable[..., Sequence[Any]], values: Sequence[Any]) -> list[Any] | None:
    """The stacked results of f for one example after the other, if the current trace is vmap's.

    They are tracers of that trace; None where f returns None for all examples.
    """
    trace = current()
    mapped = [type(v) is Tracer and v.owner is trace for v in values]
    if type(trace) is not BatchTrace or not any(mapped):
        return None

    def stacked() -> list[Any]:
        rows = []
        for i in range(trace.batch_size):
            given = zip(values, mapped, strict=True)
            rows.append(f(*[take_first(v.inner, i) if m else v for v, m in given]))
        return [_stacked(column) for column in zip(*rows, strict=True)]

    assert trace.parent is not None
    return [None if c is None else Tracer(trace, c, None) for c in trace.parent.run(stacked)]


def _stacked(column: Sequence[Any]) -> Any:
    shapes = [shape_of(x) for x in column if x is not None]
    if not shapes:
        return None
    like = next(x for x in column if x is not None)
    full = [or_zero(x, like) for x in column]
    shape = np.broadcast_shapes(*shapes)
    return stack_first([x if shape_of(x) == shape else broadcast_to(x, shape=shape) for x in full])


def missing_rule(call: RecordedCall, kind: str, positions: Sequence[int]) -> MissingRuleError:
    """The error for a primitive without a VJP, or JVP, for arguments that are differentiated."""
    return MissingRuleError(
        f"{describe(call.function.f)} was made an autograd primitive, but no {kind} is defined for "
        f"its argument {', '.join(map(str, positions))}{user_line()}. Give one by "
        f"{'defvjp' if kind == 'VJP' else 'defjvp'}(f, ...)"
        + ("." if kind == "VJP" else ", or differentiate in reverse mode.")
    )


def _eval(*leaves: Any, call: RecordedCall) -> tuple[Any, ...]:
    if not call.open:
        return EVAL.run(call.run, *leaves)  # type: ignore[no-any-return]
    return tuple(call.alone(lambda: call.run(*leaves)))


def _type(*types: Type, call: RecordedCall) -> tuple[Type, ...]:
    names = [f"input {i}" for i in range(len(types))]
    graph = stage(call.run, types, names, lambda: describe(call.function.f))
    return tuple(graph.output_types)


def _vjp(
    cotangents: Sequence[Any], outputs: Sequence[Any], leaves: Sequence[Any], wanted: Sequence[Any],
    *, call: RecordedCall,
) -> list[Any]:  # fmt: skip
    n, m = len(cotangents), len(leaves)

    def rule(*values: Any) -> list[Any]:
        return _pulled(values[:n], values[n : 2 * n], values[2 * n :], wanted, call)

    given = [or_zero(c, o) for c, o in zip(cotangents, outputs, strict=True)]
    values = [*given, *outputs, *leaves]
    examples = _examples(rule, values)
    examples = rule(*values) if examples is None else examples
    assert len(examples) == m
    return examples


def _pulled(
    cotangents: Sequence[Any], outputs: Sequence[Any], leaves: Sequence[Any], wanted: Sequence[Any],
    call: RecordedCall,
) -> list[Any]:  # fmt: skip
    """The cotangent, or None, of each leaf of the arguments."""
    if call.function.vjps is None:
        raise missing_rule(call, "VJP", call.positions(wanted))
    own = [c.copy("K") if type(c) is np.ndarray else c for c in cotangents]  # others hold them
    args = call.args(leaves)
    positions = call.positions(wanted)

    def pulled() -> Any:
        pullback = call.function.vjps(positions, call.output(outputs), args, call.kwargs)  # type: ignore[misc]
        return list(pullback(call.output(own)))

    pulled_back = call.alone(pulled, current())
    parts: list[Any] = [None] * len(args)
    for position, part in zip(positions, pulled_back, strict=True):
        parts[position] = part
    if call.structure is None:
        return [None if p is None else registry.operand(p) for p in parts]
    flat: list[Any] = []
    for i, (mine, part) in enumerate(zip(call.parts(leaves), parts, strict=True)):
        flat += [None] * len(mine) if part is None else map(registry.operand, call.inputs(i, part))
    return flat


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call: RecordedCall) -> Any:
    outputs = opaque(*primals, call=call)
    moved = [t is not None for t in tangents]
    n, m = len(outputs), len(primals)

    def rule(*values: Any) -> list[Any]:
        args = call.args(values[n : n + m])
        positions = call.positions(moved)
        if call.function.jvps is None:
            raise missing_rule(call, "JVP", positions)
        full = [
            or_zero(t, p) if typeof(p).inexact else p
            for t, p in zip(values[n + m :], values[n : n + m], strict=True)
        ]
        pushed = call.args(full)
        out = call.output(values[:n])
        given = [pushed[i] for i in positions]
        pushed_by = call.function.jvps
        examples = call.alone(
            lambda: pushed_by(positions, given, out, args, call.kwargs), current()
        )
        return [registry.operand(t) for t in pytree.match(call.out, examples, "tangent")]

    values = [*outputs, *primals, *tangents]
    examples = _examples(rule, values)
    examples = rule(*values) if examples is None else examples
    return outputs, tuple(
        [
            t if t is None or shape_of(t) == shape_of(o) else broadcast_to(t, shape=shape_of(o))
            for t, o in zip(examples, outputs, strict=True)
        ]
    )


opaque: Primitive = Primitive(
    "autograd_primitive", eval=_eval, type=_type, vjp=_vjp, jvp=_jvp, multiple=True, rounding=EXACT
)
"""`opaque(*leaves, call=)`: the results of a function that was made a primitive."""


__all__ = ["Function", "RecordedCall", "missing_rule", "opaque"]
