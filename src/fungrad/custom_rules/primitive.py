"""`custom`, the primitive of functions with rules of their own.

It holds the rule of one call, and, where it is part of a Graph, the Graph of the function.
Knows rules and retracing; does not know how users declare rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from fungrad.control_flow.call import run
from fungrad.custom_rules.closures_and_arguments import recording, valueless
from fungrad.custom_rules.rule_call import BatchedRule, Rule
from fungrad.errors import StructureMismatchError
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.primitives.primitive import Primitive, zeros
from fungrad.retracing.graph_transforms import batch, strong
from fungrad.support import pytree
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.trace import EVAL, Trace, Tracer, typeof
from fungrad.transforms.engine.forward import pulled_back_twice
from fungrad.transforms.engine.reverse import linearized

_transposed: ContextVar[tuple[tuple[Any, Trace], ...]] = ContextVar(
    "fungrad_transposed", default=()
)
"""The functions whose forward rules are being transposed, each with the trace of its tangents."""


def apply(rule: Rule, inputs: Sequence[Any]) -> Any:
    """The output tree of a function with rules, under the current trace."""
    for functions, trace in _transposed.get():
        if functions is rule.functions and any(_is_above(x, trace) for x in inputs):
            # A rule that applies the function to its tangent says that the function is linear:
            # its own operations are transposed, since the rule would lead back here for ever.
            leaves = rule.run(*inputs)
            assert rule.out is not None
            return pytree.unflatten(rule.out, list(leaves))
    graph: Graph | None = None
    if recording() or (rule.functions.closes and valueless()):
        graph, rule.closure = rule.captured(inputs)
        if not recording():
            graph = None
    leaves = custom(*rule.closure, *inputs, rule=rule, graph=graph)
    assert rule.out is not None
    return pytree.unflatten(rule.out, leaves)


def _is_above(value: Any, trace: Trace) -> bool:
    """Whether a value was computed from the tracers of a trace."""
    while type(value) is Tracer:
        if value.owner is trace:
            return True
        value = value.value
    return False


def _eval(*args: Any, rule: Rule, graph: Graph | None) -> tuple[Any, ...]:
    if graph is not None:
        return tuple(run(graph, args))
    return tuple(EVAL.run(rule.run, *args))


def _type(*types: Type, rule: Rule, graph: Graph | None) -> tuple[Type, ...]:
    if graph is None:
        names = [f"input {i}" for i in range(len(types))]
        graph = stage(rule.run, types, names, lambda: describe(rule.f))
    return tuple(graph.output_types)


def _forward(args: Sequence[Any], wanted: Sequence[Any], *, rule: Rule, graph: Graph | None) -> Any:
    rule.check_wanted(wanted)
    kept = [typeof(arg) for arg in args]
    if not rule.reverse:
        return (*_linearized(rule, args, wanted), kept)
    outputs, saved, meta = rule.forward(args, [bool(w) for w in wanted])
    found = [strong(typeof(o)) for o in outputs]
    if graph is not None and found != [strong(t) for t in graph.output_types]:
        raise StructureMismatchError(
            f"The forward rule of {describe(rule.f)} returned another output than the "
            f"function{user_line()}.\n  function: {graph.output_types}\n  rule:     {found}"
        )
    return tuple(outputs), (saved, meta), kept


def _linearized(rule: Rule, args: Sequence[Any], wanted: Sequence[Any]) -> tuple[Any, Any]:
    """The outputs, and the pullback of the forward rule, which is linear in the tangents.

    The outputs leave the trace with the tangents: what computes both at once, as a jitted function
    does under jvp, hands out tracers for either.
    """
    moved = [i for i, w in enumerate(wanted) if w]
    made: list[int] = []

    def push(*given: Any) -> list[Any]:
        tangents: list[Any] = [None] * len(args)
        for i, tangent in zip(moved, given, strict=True):
            tangents[i] = tangent
        entry = (rule.functions, given[0].owner) if given else None
        token = _transposed.set((*_transposed.get(), entry) if entry else _transposed.get())
        try:
            found, pushed = rule.push(args, tangents)
        finally:
            _transposed.reset(token)
        made.append(len(found))
        return [*found, *pushed]

    at_zero = [zeros(strong(typeof(args[i]))) for i in moved]
    values, pullback = linearized(
        push, at_zero, lambda: f"the transpose of the rule of {describe(rule.f)}"
    )
    unseeded = [None] * made[0]
    return tuple(values[: made[0]]), lambda cotangents: pullback([*unseeded, *cotangents])


def _vjp(
    cotangents: Sequence[Any], saved: Any, args: Sequence[Type], wanted: Sequence[Any],
    *, rule: Rule, graph: Graph | None,
) -> list[Any]:  # fmt: skip
    if rule.reverse:
        leaves, meta = saved
        return rule.backward(leaves, meta, cotangents, [bool(w) for w in wanted])
    moved = iter(saved(cotangents))
    return [next(moved) if w else None for w in wanted]


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, rule: Rule, graph: Graph | None
) -> Any:
    if not rule.tangents:
        return pulled_back_twice(custom)(primals, tangents, rule=rule, graph=graph)
    rule.check_wanted([t is not None for t in tangents])
    return rule.push(primals, tangents)


def _batch(
    args: Sequence[Any], batched: Sequence[bool], size: int, *, rule: Rule, graph: Graph | None
) -> Any:
    if graph is not None:
        graph = batch(graph, batched, size, all_outputs=True).graph
    return custom(*args, rule=BatchedRule(rule, batched, size), graph=graph)


custom: Primitive = Primitive(
    "custom",
    eval=_eval,
    type=_type,
    jvp=_jvp,
    vjp=_vjp,
    forward=_forward,
    batch=_batch,
    multiple=True,
)
"""`custom(*closure, *inputs, rule=, graph=)`: a function with rules of its own; its
Graph where it is part of one."""
