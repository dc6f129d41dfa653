"""Policies of `checkpoint`, which select the values to keep, and the cost of recomputing others.

A policy is a hashable function of a primitive and its parameters that returns whether the outputs
are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.ir.graph import Equation, Graph, Variable, inner_graphs
from fungrad.ir.types import Type, size_in_bytes
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.facts import NOTHING, work_of
from fungrad.primitives.primitive import Primitive, linear
from fungrad.support import pytree
from fungrad.tracing.trace import registry
from fungrad.transforms.arguments import has_type

Policy = Callable[[Any, dict[str, Any]], bool]

named: Primitive = linear(
    "checkpoint_name",
    view=True,
    cost=0,
    eval=lambda x, *, name: x,
    type=lambda x, *, name: x,
    transpose=lambda ct, x, *, name: ct,
    batch=lambda args, batched, size, *, name: named(args[0], name=name),
)
"""`checkpoint_name(x, name=)`: x itself, with a name for policies."""


def checkpoint_name(tree: Any, name: str) -> Any:
    """Gives the arrays of a tree a name, by which `save_names` keeps them under checkpoint.

    >>> import numpy as np
    >>> checkpoint_name(np.ones(2), "hidden")
    array([1., 1.])

    Args:
      tree: a tree of arrays. name: the name.
    """
    return pytree.map(lambda x: named(registry.operand(x), name=name) if has_type(x) else x, tree)


def save_nothing(primitive: Any, params: dict[str, Any]) -> bool:
    """Keeps the inputs alone; all other values are recomputed. The default.

    >>> import numpy as np, fungrad as fg
    >>> f = fg.checkpoint(np.sin, policy=save_nothing)
    >>> float(fg.grad(f)(0.0))
    1.0

    Args:
      primitive, params: those of the equation; `checkpoint` passes them.
    """
    return False


def save_everything(primitive: Any, params: dict[str, Any]) -> bool:
    """Keeps all residuals, as reverse mode without checkpoint does.

    >>> import numpy as np, fungrad as fg
    >>> f = fg.checkpoint(np.sin, policy=save_everything)
    >>> float(fg.grad(f)(0.0))
    1.0

    Args:
      primitive, params: those of the equation; `checkpoint` passes them.
    """
    return True


def save_dots(primitive: Any, params: dict[str, Any]) -> bool:
    """Keeps products of arrays (matmul, dot, tensordot, einsum), and recomputes the rest.

    >>> import numpy as np, fungrad as fg
    >>> f = fg.checkpoint(lambda w, x: np.sum(np.tanh(w @ x)), policy=save_dots)
    >>> fg.grad(f)(np.eye(2), np.zeros(2))
    array([[0., 0.],
           [0., 0.]])

    Args:
      primitive, params: those of the equation that made the residual; `checkpoint` passes them.
    """
    return primitive is dot_general


class save_names:
    """Keeps the values with the given names (see `checkpoint_name`).

    >>> save_names("hidden") == save_names("hidden")
    True
    """

    def __init__(self, *names: str) -> None:
        self.names = names
        self.__name__ = f"save_names{names}"

    def __call__(self, primitive: Any, params: dict[str, Any]) -> bool:
        return primitive is named and params["name"] in self.names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, save_names) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)


class Budget:
    """Keeps the values with the highest cost of recomputation that fit in a number of bytes."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.__name__ = f"budget({nbytes})"

    def __call__(self, primitive: Any, params: dict[str, Any]) -> bool:
        return False  # the readers of `nbytes` decide, among all values together

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Budget) and self.nbytes == other.nbytes

    def __hash__(self) -> int:
        return hash(self.nbytes)


TRANSCENDENTAL = 12
"""The cost of a transcendental function in additions: a rounded timing of NumPy's loops; only the
order of magnitude matters.
"""


def work(
    primitive: Any, params: dict[str, Any], inputs: Sequence[Type], outputs: Sequence[Type]
) -> float:
    """An estimate of the additions that an equation costs, or of the elements that it moves."""
    atoms, made = tuple(map(Variable, inputs)), tuple(map(Variable, outputs))
    return work_of_equation(Equation(primitive, atoms, made, params))


def work_of_equation(equation: Equation) -> float:
    """The same for an equation."""
    inner = sum(graph_work(graph) for graph in inner_graphs(equation))
    if inner:
        return inner * float(equation.params.get("length", 1))
    counted = work_of(equation)
    if equation.primitive.view or (counted == NOTHING and not equation.inputs):
        return 0.0
    moved = max([a.type.size for a in (*equation.inputs, *equation.outputs)], default=0)
    if counted is None:
        return float(moved)
    return float(max(counted.flops + TRANSCENDENTAL * counted.transcendentals, moved))


def graph_work(graph: Graph) -> float:
    """The work of all equations of a Graph."""
    return sum(map(work_of_equation, graph.equations))


def chosen(policy: Policy, equations: Sequence[Equation]) -> set[Equation]:
    """The equations whose outputs a policy keeps."""
    if not isinstance(policy, Budget):
        return {e for e in equations if policy(e.primitive, e.params)}
    ranked = []
    for index, e in enumerate(equations):
        outputs = [v.type for v in e.outputs]
        cost = work_of_equation(e)
        nbytes = size_in_bytes(outputs)
        if cost and nbytes:
            ranked.append((-cost / nbytes, index, nbytes))
    left = policy.nbytes
    found: set[Equation] = set()
    for _, index, nbytes in sorted(ranked):
        if nbytes <= left:
            left -= nbytes
            found.add(equations[index])
    return found
