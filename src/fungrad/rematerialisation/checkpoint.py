"""checkpoint (remat): a function whose intermediate values are recomputed, not kept.

In a Graph it is one equation, whose derivative is the joint Graph split by a policy (see
`graph_transforms.split`). In eager reverse mode eager_checkpoint.py keeps the function itself. The
numbers do not change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.control_flow.call import run
from fungrad.control_flow.unroll import UNFOLDED
from fungrad.custom_rules.closures_and_arguments import Arguments, captured, outputs_of, valueless
from fungrad.errors import ArgumentError
from fungrad.ir.graph import Atom, Graph
from fungrad.ir.types import Type
from fungrad.primitives.primitive import Primitive, or_zero
from fungrad.rematerialisation.eager_checkpoint import recomputed
from fungrad.rematerialisation.policies import Budget, Policy, chosen, save_everything, save_nothing
from fungrad.retracing.graph_transforms import (
    Differentiated,
    batch,
    joint,
    jvp_graph,
    memoised,
    split,
)
from fungrad.support import pytree
from fungrad.tracing.source_location import boundary
from fungrad.tracing.trace import EVAL, current, typeof
from fungrad.tracing.transformed_function import OfFunction


def cut(graph: Graph, wanted: Sequence[Any], policy: Policy) -> Differentiated:
    """The reverse mode of a Graph; its backward half recomputes values that the policy drops."""
    mask = tuple(map(bool, wanted))

    def make() -> Differentiated:
        whole, reached = joint(graph, mask)
        saved = functools.partial(chosen, policy)
        return split(whole, len(graph.inputs), len(graph.outputs), reached, saved)

    result: Differentiated = memoised(graph, ("checkpoint", mask, policy), make)
    return result


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, graph: Graph, policy: Policy) -> Any:
    pushed = jvp_graph(graph, [t is not None for t in tangents])
    moved = [t for t in tangents if t is not None]
    results = checkpointed(*primals, *moved, graph=pushed.graph, policy=policy)
    count = len(graph.outputs)
    out_tangents: list[Any] = [None] * count
    for position, tangent in zip(pushed.moving, results[count:], strict=True):
        out_tangents[position] = tangent
    return results[:count], out_tangents


def _forward(args: Sequence[Any], wanted: Sequence[Any], *, graph: Graph, policy: Policy) -> Any:
    forward = cut(graph, wanted, policy).forward
    results = checkpointed(*args, graph=forward, policy=policy)
    # A residual that is an argument is returned as the caller's own value: a loop then finds the
    # residuals that do not change from step to step, and keeps one of them.
    given: dict[Atom, Any] = dict(zip(forward.inputs, args, strict=True))
    count = len(graph.outputs)
    residuals = [
        given.get(atom, result)
        for atom, result in zip(forward.outputs[count:], results[count:], strict=True)
    ]
    return results[:count], residuals, [typeof(arg) for arg in args]


def _vjp(
    cotangents: Sequence[Any], residuals: Any, args: Sequence[Type], wanted: Sequence[Any],
    *, graph: Graph, policy: Policy,
) -> list[Any]:  # fmt: skip
    halves = cut(graph, wanted, policy)
    given = [
        or_zero(c, t) for c, t in zip(cotangents, graph.output_types, strict=True) if t.inexact
    ]
    found = checkpointed(*residuals, *given, graph=halves.backward, policy=policy)
    result: list[Any] = [None] * len(args)
    for position, cotangent in zip(halves.reached, found, strict=True):
        result[position] = cotangent
    return result


def _batch(
    args: Sequence[Any], batched: Sequence[bool], size: int, *, graph: Graph, policy: Policy
) -> Any:
    return checkpointed(
        *args, graph=batch(graph, batched, size, all_outputs=True).graph, policy=policy
    )


checkpointed: Primitive = Primitive(
    "checkpoint",
    eval=lambda *args, graph, policy: tuple(run(graph, args)),
    type=lambda *types, graph, policy: tuple(graph.output_types),
    jvp=_jvp,
    vjp=_vjp,
    forward=_forward,
    batch=_batch,
    multiple=True,
)
"""`checkpoint(*args, graph=, policy=)`: the outputs of a Graph. Never inlined, so that no pass
merges recomputed equations with the originals."""
UNFOLDED.add(checkpointed)


class Checkpointed(OfFunction):
    """A function that the backward pass recomputes: see `checkpoint`."""

    def __init__(self, f: Callable[..., Any], policy: Policy) -> None:
        super().__init__(f)
        self._policy = policy

    def _recipe(self) -> tuple[Any, ...]:
        return self._f, self._policy

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current() is EVAL or self._policy is save_everything:
            return self._f(*args, **kwargs)
        f = self._f
        arguments = Arguments(f, args, kwargs)
        out: list[pytree.TreeDef] = []

        def flat(*values: Any) -> list[Any]:
            new_args, new_kwargs = arguments.rebuild(values)
            leaves, treedef = outputs_of(f, f(*new_args, **new_kwargs))
            out[:] = [treedef]
            return leaves

        inputs = arguments.take()
        leaves: Sequence[Any]
        if valueless():
            graph, closure = captured(flat, inputs, f, once=True)
            leaves = checkpointed(*closure, *inputs, graph=graph, policy=self._policy)
        else:
            leaves = recomputed(flat, inputs, self._policy)
        return pytree.unflatten(out[0], leaves)


Checkpointed.__call__ = boundary(Checkpointed.__call__)  # type: ignore[method-assign]


def checkpoint(
    f: Callable[..., Any] | None = None,
    *,
    policy: Policy | None = None,
    budget_bytes: int | None = None,
    prevent_cse: bool = True,
    static_argnums: int | Sequence[int] = (),
) -> Any:
    """The function f, of which reverse mode keeps only the inputs for the backward pass.

    >>> import numpy as np, fungrad as fg
    >>> float(fg.grad(fg.checkpoint(lambda x: np.sin(np.sin(x))))(0.0))
    1.0

    The backward pass recomputes f, so that reverse mode through a chain of n checkpointed parts
    keeps n inputs and the intermediate values of one part. The numbers do not change.

    Args:
      f: a function of trees that returns a tree of arrays and numbers; pure, since it runs twice.
        It may close over differentiated values.
      policy: selects values to keep: `save_nothing` (the default), `save_everything`, `save_dots`,
        `save_names("a", "b")`, or a hashable function (primitive, params) -> bool.
      budget_bytes: in place of a policy: keeps the values with the highest cost of recomputation
        for their size, up to this number of bytes for each call of f (without the inputs).
      prevent_cse: accepted as in JAX; recomputed values are never merged with the originals.
      static_argnums: accepted as in JAX; f always gets untraced values unchanged.

    Raises:
      ArgumentError: if both a policy and a budget are given.
    """
    if policy is not None and budget_bytes is not None:
        raise ArgumentError("checkpoint takes a policy or budget_bytes, not both.")
    if budget_bytes is not None:
        policy = Budget(budget_bytes)
    used = save_nothing if policy is None else policy
    return (lambda g: Checkpointed(g, used)) if f is None else Checkpointed(f, used)


remat = checkpoint
