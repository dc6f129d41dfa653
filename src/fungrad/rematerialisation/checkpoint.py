"""checkpoint (remat): a function whose intermediate values are recomputed, not kept.

In a Graph it is one equation, whose derivative is the joint Graph split by a policy (see
`graph_transforms.split`). In eager reverse mode eager_checkpoint.py keeps the function itself. The
numbers do not change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.control_flow.call import run, structural_with
from fungrad.control_flow.unroll import UNFOLDED
from fungrad.custom_rules.closures_and_arguments import Arguments, captured, outputs_of, valueless
from fungrad.errors import ArgumentError
from fungrad.ir.graph import Graph
from fungrad.primitives.primitive import Primitive
from fungrad.rematerialisation.eager_checkpoint import recomputed
from fungrad.rematerialisation.policies import Budget, Policy, chosen, save_everything, save_nothing
from fungrad.retracing.graph_transforms import (
    Differentiated,
    joint,
    memoised,
    split,
)
from fungrad.support import pytree
from fungrad.tracing.trace import EVAL, current
from fungrad.tracing.transformed_function import OfFunction, boundary


def cut(graph: Graph, wanted: Sequence[Any], policy: Policy) -> Differentiated:
    """The reverse mode of a Graph; its backward half recomputes values that the policy drops."""
    mask = tuple(map(bool, wanted))

    def make() -> Differentiated:
        whole, reached = joint(graph, mask)
        saved = functools.partial(chosen, policy)
        return split(whole, len(graph.inputs), len(graph.outputs), reached, saved)

    result: Differentiated = memoised(graph, ("checkpoint", mask, policy), make)
    return result


checkpointed: Primitive = structural_with(
    cut, "checkpoint", eval=lambda *args, graph, policy: run(graph, args)
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
