"""Equations with one large matrix factorise it once, in forward and in reverse programs.

solve, inv, det, slogdet and cholesky of a matrix, or of its transpose, become calls: the first of
them returns the factors, too, which the others take. Of several inverses one is computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fungrad.compiler.cost_model import costs, tuned
from fungrad.compiler.numpy_backend.program_calls import program_call
from fungrad.compiler.passes.pipeline import as_optimised
from fungrad.ir.graph import Atom, Equation, Graph, Variable
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.linalg import factors
from fungrad.primitives.linalg.cholesky_qr import cholesky
from fungrad.primitives.linalg.determinant import cofactors, cofactors_by, det, slogdet
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.movement.reshape_broadcast_cast import transpose
from fungrad.retracing.graph_transforms import drop_dead, memoised
from fungrad.retracing.inlining import placed
from fungrad.support.rules import Rules

_RESULTS = Rules()
"""The outputs of an equation, from the matrix, its factors, and the other inputs."""


@_RESULTS.rule(solve)
def _solve(a: Any, *given: Any, **options: Any) -> Sequence[Any]:
    return [factors.solution(*given, **options)]


@_RESULTS.rule(inv)
def _inv(a: Any, *given: Any, **options: Any) -> Sequence[Any]:
    return [factors.inverse(*given, **options)]


@_RESULTS.rule(slogdet)
def _slogdet(a: Any, *given: Any, **options: Any) -> Sequence[Any]:
    return factors.slogdet(*given)


@_RESULTS.rule(det)
def _det(a: Any, *given: Any, **options: Any) -> Sequence[Any]:
    return [factors.det(*given, **options)]


@_RESULTS.rule(cofactors)
def _cofactors(a: Any, *given: Any, **options: Any) -> Sequence[Any]:
    def invert(a: Any) -> Any:
        return factors.inverse(*given, **options, turned=False)

    value = partial(factors.det, *given, **options)
    return [cofactors_by(a.T if options["transposed"] else a, invert, lambda a: value())]


@_RESULTS.rule(cholesky)
def _cholesky(a: Any, *given: Any, **options: Any) -> Sequence[Any]:
    return [factors.cholesky(a, *given)]


_CALLS = 6
"""A call that takes or makes factors as calls of LAPACK: it looks for triangles and symmetry."""


class FactorMember(NamedTuple):
    """An equation that needs the factors of a matrix, or of each of a stack.

    Attributes:
      matrix: the matrix.
      transposed: whether the equation is one of its transpose.
      regular: a number that is false if the equation is one of the identity instead, as is that of
        the derivative of slogdet for a matrix without an inverse; None if it never is.
      equations: the equation, and the transpose of its inverse if nothing else reads that.
    """

    matrix: Variable
    transposed: bool
    regular: Atom | None
    equations: Sequence[Equation]


def with_shared_factors(graph: Graph) -> Graph:
    """The Graph, with one factorisation of each large matrix that several equations need."""
    if sum(e.primitive in _RESULTS for e in graph.equations) < 2 or factors.exchanges() is None:
        return graph

    def shared() -> Graph:
        return by_calls(graph, lambda *group: _saves(graph, *group), _call)

    result: Graph = memoised(graph, "shared factors", shared)
    return result


Held = tuple[Variable, ...]
"""What holds the factors of a matrix."""


def by_calls(
    graph: Graph, saves: Callable[[Variable, Sequence[Equation]], bool],
    call: Callable[[FactorMember, dict[Variable, Held], bool], Equation], stacks: bool = False,
) -> Graph:  # fmt: skip
    """The Graph with calls in place of equations that need the factors of a matrix.

    Args:
      graph: the Graph.
      saves: whether the equations of a matrix become calls.
      call: the call in place of an equation, from what holds the factors of matrices before it, and
        whether it is the only one of its matrix. It enters those that it returns.
      stacks: whether stacks of matrices count.
    """
    members = _members(graph, stacks)
    sharing: dict[Variable, list[Equation]] = {}
    for equation, member in members.items():
        sharing.setdefault(member.matrix, []).append(equation)
    known: dict[Variable, Held] = {}
    inverses: dict[tuple[Variable, bool], tuple[Variable, bool]] = {}
    calls: dict[Equation, Sequence[Equation]] = {}
    for equation, member in members.items():
        group = sharing[member.matrix]
        if saves(member.matrix, group):
            calls |= dict.fromkeys(member.equations, ())
            new = _inverse_again(member, inverses) or call(member, known, len(group) == 1)
            calls[equation] = [new]
    equations = [new for e in graph.equations for new in calls.get(e, [e])]
    return as_optimised(drop_dead(graph.replace(equations=tuple(equations)))) if calls else graph


def _inverse_again(
    member: FactorMember, inverses: dict[tuple[Variable, bool], tuple[Variable, bool]]
) -> Equation | None:
    """The inverse from one of the same matrix before it, which would have raised for a matrix
    without one. `inverses` are those, and whether they are transposed.
    """
    matrix, transposed, regular, equations = member
    if equations[0].primitive is not inv:
        return None
    turned, outputs = len(equations) > 1, equations[-1].outputs
    if (matrix, transposed) not in inverses:
        if regular is None:
            inverses[matrix, transposed] = outputs[0], turned
        return None
    made, other = inverses[matrix, transposed]
    *stack, row, column = range(made.type.ndim)
    axes = (*stack, row, column) if turned == other else (*stack, column, row)
    return placed(equations[-1], transpose, (made,), tuple(outputs), {"axes": axes})


def _members(graph: Graph, stacks: bool) -> dict[Equation, FactorMember]:
    """The equations that may share factors."""
    moved = [e for e in graph.equations if _turns(e) or e.primitive is select]
    made: dict[Atom, Equation] = {e.outputs[0]: e for e in moved}
    uses = Counter(a for e in graph.equations for a in e.inputs)
    uses.update(graph.outputs)
    turned = {e.inputs[0]: e for e in moved if e.primitive is transpose and uses[e.inputs[0]] == 1}
    members = {}
    for equation in graph.equations:
        if equation.primitive in _RESULTS and not equation.params.get("triangle"):
            after = turned.get(equation.outputs[0]) if equation.primitive is inv else None
            member = _member((equation, after) if after else (equation,), made, graph)
            if member is not None and (stacks or member.matrix.type.ndim == 2):
                members[equation] = member
    return members


def _turns(equation: Equation) -> bool:
    """Whether an equation exchanges the axes of matrices."""
    if equation.primitive is not transpose:
        return False
    axes: tuple[int, ...] = equation.params["axes"]
    *stack, row, column = range(len(axes)) if len(axes) > 1 else (0, 0)
    return axes == (*stack, column, row)


def _member(
    equations: Sequence[Equation], made: dict[Atom, Equation], graph: Graph
) -> FactorMember | None:
    """An equation as one that may share factors; None if it does not."""
    first = equations[0]
    matrix, *others = first.inputs
    type_, transposed, regular = matrix.type, False, None
    if type_.ndim < 2 or type_.dtype.char not in "fdFD":
        return None
    stack = type_.shape[:-2]
    if any(other.type.shape[:-2] != stack or other.type.ndim != type_.ndim
           or other.type.dtype != type_.dtype for other in others):  # fmt: skip
        return None
    while matrix in made:
        if made[matrix].primitive is transpose:
            (matrix,) = made[matrix].inputs
            transposed = not transposed
            continue
        condition, whole, otherwise = made[matrix].inputs
        each = condition.type.size == 1 or condition.type.shape == (*stack, 1, 1)
        if regular or not each or not _is_identity(otherwise, graph):
            break
        matrix, regular = whole, condition
    if matrix.type != type_ or not isinstance(matrix, Variable):
        return None
    if first.primitive in (slogdet, cholesky) and (transposed or regular):
        return None
    return FactorMember(matrix, transposed, regular, equations)


def _is_identity(atom: Atom, graph: Graph) -> bool:
    value = next((value for v, value in graph.constants if v is atom), None)
    return value is not None and bool((value == np.eye(np.shape(value)[-1])).all())


def _saves(graph: Graph, matrix: Variable, equations: Sequence[Equation]) -> bool:
    """Whether the factorisations that equations share take longer than calls, of LAPACK and for the
    equations around it, which may be one native program without them. LAPACK's inverse from factors
    takes one factorisation less than NumPy's; without one, native kernels of small matrices stay.
    """
    n, inverses = matrix.type.shape[0], sum(e.primitive in (inv, cofactors) for e in equations)
    if len(equations) < 2 or (n <= tuned.factor_rows and not inverses):
        return False
    saved = tuned.factor_term_ns * n**3 / 3 * (len(equations) - 1 + inverses)
    calls = _CALLS * tuned.lapack_ns * len(equations) + costs.numpy_call * len(graph.equations)
    return saved > calls


def _call(member: FactorMember, known: dict[Variable, Held], alone: bool) -> Equation:
    """The call in place of an equation; `known` are the factors of matrices."""
    matrix, transposed, regular, equations = member
    equation, outputs = equations[0], equations[-1].outputs
    primitive: Any = equation.primitive
    dtypes = [v.type.dtype for v in outputs]
    options = {"transposed": transposed}
    if primitive is inv:
        options["turned"] = len(equations) > 1
    factorises = matrix not in known
    if factorises:
        n, dtype = matrix.type.shape[0], factors.double(matrix.type.dtype)
        exchanged: Any = factors.exchanges()
        known[matrix] = Variable(Type((n, n), dtype)), Variable(Type((n,), exchanged))
    held = known[matrix]

    def run(a: Any, *rest: Any) -> list[Any]:
        packed, exchanged, *others = (*factors.factored(a), *rest) if factorises else rest
        if regular is not None and not others.pop():
            identity = np.eye(len(a), dtype=a.dtype)
            results: Sequence[Any] = [primitive.eval(identity, *others, **equation.params)]
        else:
            results = _RESULTS[primitive](a, packed, exchanged, *others, **options)
        arrays = [x.astype(dtype, copy=False) for x, dtype in zip(results, dtypes, strict=True)]
        return [packed, exchanged, *arrays] if factorises else arrays

    others = (*equation.inputs[1:], *(() if regular is None else (regular,)))
    inputs = (matrix, *(() if factorises else held), *others)
    made = (*held, *outputs) if factorises else outputs
    return program_call(f"{primitive.name}_by_factors", equation, run, inputs, made, (equation,))
