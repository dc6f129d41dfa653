"""The family `structural`, and `call`, which applies a Graph, as a jitted function does.

The rules run the transformed Graph, which is made once and kept on the Graph. The backend decides
how a Graph runs on arrays (`run`); by default it is the reference evaluator.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from fungrad.control_flow.tape_type import type_of
from fungrad.ir.graph import Atom, Equation, Graph
from fungrad.ir.types import Type
from fungrad.primitives.primitive import Primitive, or_zero
from fungrad.retracing.graph_transforms import (
    Differentiated,
    batch,
    differentiate,
    jvp_graph,
    memoised,
    single_equation,
)
from fungrad.retracing.inlining import Expansion, TooMany
from fungrad.support.garbage import uncollected
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.trace import typeof
from fungrad.transforms.arguments import owned
from fungrad.transforms.engine.batching import Unbatched

Runner = Callable[..., Sequence[Any]]


class Backend:
    """Turns a checked Graph into a function of its inputs that returns its outputs: as a tuple if
    they own their memory alone, as a list if they may be views, or inputs.

    Attributes:
      name: part of the key of its programs, which are kept beside those of other backends.
    """

    name = ""

    def compile(self, graph: Graph) -> Runner:
        """The reference backend: the evaluator."""
        return lambda *args: evaluate(graph, args)

    def loop(self, equation: Equation, steps: Runner) -> Runner | None:
        """A program of a whole loop, if this backend has one that is faster than single steps.

        Args:
          equation: the loop; its inputs are variables.
          steps: runs it step by step, also when the program gives up.
        """
        return None

    def checked(
        self, graph: Graph, build: Callable[[], Runner | None], settle: Callable[[Runner], None]
    ) -> Runner | None:
        """The function that runs a program: the program itself, or one that checks it first.

        Args:
          graph: what the program computes.
          build: makes the program; None if there is none.
          settle: takes the function that shall run from the next call on.
        """
        return build()


_backend = Backend()
_INTERPRETER = Backend()
_chosen: ContextVar[Backend | None] = ContextVar("fungrad_backend", default=None)


def use(backend: Backend) -> None:
    """Sets the backend that compiles Graphs from now on."""
    global _backend
    _backend = backend


def backend() -> Backend:
    """The backend that compiles Graphs in this context."""
    return _chosen.get() or _backend


@contextmanager
def interpreted() -> Iterator[None]:
    """A block in which this thread evaluates Graphs equation by equation, also the Graphs of loops
    and branches.
    """
    token = _chosen.set(_INTERPRETER)
    try:
        yield
    finally:
        _chosen.reset(token)


def with_backend(backend: Backend, run: Callable[[], Any]) -> Any:
    """What a function returns that runs with this backend."""
    token = _chosen.set(backend)
    try:
        return run()
    finally:
        _chosen.reset(token)


def built(graph: Graph) -> Runner:
    """The program of a Graph, made once."""
    chosen = backend()
    with uncollected():
        program: Runner = memoised(graph, _built_key(graph), lambda: chosen.compile(graph))
    return program


def _built_key(graph: Graph) -> Any:
    return ("program", backend().name, graph.reassociates)


def is_built(graph: Graph) -> bool:
    """Whether a Graph has its program already."""
    return _built_key(graph) in graph.derived


def compiled(graph: Graph) -> Runner:
    """The function of arrays that runs a Graph: its program, which is checked at its first run."""
    key = compiled_key(graph)

    def make() -> Runner | None:
        return backend().checked(
            graph, functools.partial(built, graph), functools.partial(_settle, graph, key)
        )

    runner: Runner = memoised(graph, key, make)
    return runner


def compiled_key(graph: Graph) -> Any:
    """The key of a Graph's program, which depends on the settings."""
    return ("compiled", backend().name, graph.reassociates, graph.verified)


def _settle(graph: Graph, key: Any, runner: Runner) -> None:
    graph.derived[key] = runner


def run(graph: Graph, args: Sequence[Any]) -> Sequence[Any]:
    """The outputs of a Graph on arrays."""
    return compiled(graph)(*args)


def whole_loop_or_steps(
    primitive: Callable[[], Primitive], steps: Callable[..., Any]
) -> Callable[..., Any]:
    """The `eval` of a loop: the backend's program of the whole loop, else `steps`."""

    def eval(*args: Any, **params: Any) -> Any:
        body = params.get("body")
        if body is None:  # a branch
            return steps(*args, **params)
        types = tuple([type_of(arg) for arg in args])
        loop = primitive()
        key = _loop_key(loop, types, params)

        def make() -> Runner | None:
            graph = single_equation(loop, types, params).replace(verify=body.verify)
            run_steps = functools.partial(steps, **params)
            return backend().checked(
                graph,
                functools.partial(backend().loop, graph.equations[0], run_steps),
                functools.partial(_settle, body, key),
            )

        runner = memoised(body, key, make)
        results = steps(*args, **params) if runner is None else runner(*args)
        return tuple(owned(results, args))

    return eval


def _loop_key(loop: Primitive, types: tuple[Type, ...], params: dict[str, Any]) -> Any:
    rest = [(k, v) for k, v in params.items() if k != "body"]
    body = params["body"]
    return ("loop", backend().name, body.reassociates, body.verified, loop, types, *rest)


def by_steps(loop: Primitive, args: Sequence[Any], params: dict[str, Any]) -> None:
    """Pins a loop, for these argument types, to the reference evaluator. Call it before the first
    run of the loop.
    """
    types = tuple([type_of(arg) for arg in args])
    memoised(params["body"], _loop_key(loop, types, params), lambda: None)


def structural(name: str, *, eval: Callable[..., Sequence[Any]], pure: bool = False) -> Primitive:
    """Declares a primitive that runs a Graph in a special way (timed, quiet, elsewhere).

    Its derivatives and batches run the transformed Graphs in the same way; they are made once and
    kept on the Graph.

    Args:
      name: its name in the IR.
      eval: `eval(*arrays, graph=, **params)`: the outputs of the Graph, as a tuple; other
        parameters are passed unchanged.
      pure: whether `eval` only runs the Graph: then compiled functions may run it once for many
        steps of a loop, and in another order.

    >>> import numpy as np, fungrad as fg
    >>> count = []
    >>> def counted(*arrays, graph):
    ...     count.append(len(graph.equations))
    ...     return fg.evaluate(graph, *arrays)
    >>> counting = structural("counting", eval=counted)
    >>> graph = fg.make_jaxpr(np.sin)(1.0)
    >>> float(fg.grad(lambda x: counting(x, graph=graph)[0])(0.0)), len(count)
    (1.0, 2)
    """

    def halves(graph: Graph, wanted: Sequence[bool], **params: Any) -> Differentiated:
        return differentiate(shared(graph), wanted)

    return structural_with(halves, name, eval=eval, pure=pure)


def structural_with(
    halves: Callable[..., Differentiated],
    name: str,
    *,
    eval: Callable[..., Sequence[Any]],
    pure: bool = True,
) -> Primitive:
    """A `structural` primitive whose reverse mode runs the halves of its Graph: `halves(graph,
    wanted, **params)`.
    """

    def jvp(primals: Any, tangents: Any, *, graph: Graph, **params: Any) -> Any:
        pushed = jvp_graph(graph, [t is not None for t in tangents])
        given = [t for t in tangents if t is not None]
        results = primitive(*primals, *given, graph=pushed.graph, **params)
        count = len(graph.outputs)
        out_tangents: list[Any] = [None] * count
        for position, tangent in zip(pushed.moving, results[count:], strict=True):
            out_tangents[position] = tangent
        return results[:count], out_tangents

    def forward(args: Any, wanted: Any, *, graph: Graph, **params: Any) -> Any:
        forward = halves(graph, [bool(w) for w in wanted], **params).forward
        results = primitive(*args, graph=forward, **params)
        # A residual that is an argument is returned as the caller's own value: a loop then finds
        # the residuals that do not change from step to step, and keeps one of them.
        given: dict[Atom, Any] = dict(zip(forward.inputs, args, strict=True))
        count = len(graph.outputs)
        pairs = zip(forward.outputs[count:], results[count:], strict=True)
        residuals = [given.get(atom, result) for atom, result in pairs]
        return results[:count], residuals, [typeof(arg) for arg in args]

    def vjp(
        cotangents: Any, residuals: Any, args: Any, wanted: Any, *, graph: Graph, **params: Any
    ) -> list[Any]:
        split = halves(graph, [bool(w) for w in wanted], **params)
        given = [
            or_zero(c, t) for c, t in zip(cotangents, graph.output_types, strict=True) if t.inexact
        ]
        cts = primitive(*residuals, *given, graph=split.backward, **params)
        result: list[Any] = [None] * len(args)
        for position, cotangent in zip(split.reached, cts, strict=True):
            result[position] = cotangent
        return result

    def batch_rule(args: Any, batched: Any, size: int, *, graph: Graph, **params: Any) -> Any:
        new = batch(graph, batched, size)
        outputs = primitive(*args, graph=new.graph, **params)
        return [o if b else Unbatched(o) for o, b in zip(outputs, new.flags, strict=True)]

    primitive: Primitive = Primitive(
        name,
        eval=lambda *args, graph, **params: tuple(eval(*args, graph=graph, **params)),
        type=lambda *types, graph, **params: tuple(graph.output_types),
        jvp=jvp,
        vjp=vjp,
        forward=forward,
        batch=batch_rule,
        multiple=True,
        pure=pure,
    )
    return primitive


def _eval(*args: Any, graph: Graph, quiet: bool = False) -> Sequence[Any]:
    if not quiet:
        return run(graph, args)
    with np.errstate(all="ignore"):
        return run(graph, args)


call = structural("call", eval=_eval, pure=True)
"""`call(*args, graph=, quiet=)`: the outputs of a Graph, as a tuple.

In a quiet call both branches of a choice are computed and one of them is dropped: NumPy's
floating-point warnings are off.
"""


def is_call(equation: Equation) -> bool:
    """Whether an equation only runs a Graph."""
    return equation.primitive is call and not equation.params.get("quiet")


class _CallsOfCalls(Expansion):
    """Expands the calls of Graphs that call others, so that only the innermost calls remain."""

    def called(self, equation: Equation) -> tuple[Atom, ...] | None:
        if not _calls_calls(equation):
            return None
        return self.of(equation.params["graph"], equation.inputs)


def _calls_calls(equation: Equation) -> bool:
    return is_call(equation) and any(map(is_call, equation.params["graph"].equations))


def _separate_size(graph: Graph) -> int:
    """The number of equations that `_CallsOfCalls` has to expand, with repetitions."""

    def count() -> int:
        return sum(
            _separate_size(e.params["graph"]) if _calls_calls(e) else 1 for e in graph.equations
        )

    result: int = memoised(graph, "separate size", count)
    return result


_ATTEMPTED = 1 << 12
"""The most equations that are expanded to find out whether calls have many in common."""


def shared(graph: Graph) -> Graph:
    """The Graph with nested calls expanded and equal ones shared, if that halves the number of
    equations to differentiate: `g(x) + g(2 * x)`, nested n deep, has 2**n residuals otherwise.
    """

    def make() -> Graph:
        if not any(map(_calls_calls, graph.equations)):
            return graph
        try:
            limit = min(_ATTEMPTED, _separate_size(graph) // 2)
            return _CallsOfCalls(graph, limit).expanded(graph)
        except TooMany:
            return graph

    result: Graph = memoised(graph, "shared", make)
    return result
