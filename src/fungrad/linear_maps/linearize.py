"""linearize and linear_transpose: the linear programs inside of functions, as Graphs.

`linearize` runs a function in forward mode over a trace that computes known values and records the
equations that depend on the tangents. `linear_transpose` stages the pullback with the point as an
input; the function is linear if the pullback does not read the point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.control_flow.call import call, run
from fungrad.errors import NonLinearError, StructureMismatchError
from fungrad.ir.graph import Equation, Graph
from fungrad.ir.types import Type
from fungrad.linear_maps.linearity_check import looked_at, pulled_back, reads, worst
from fungrad.primitives.primitive import zeros
from fungrad.retracing.graph_transforms import drop_dead, strong_type
from fungrad.support import pytree
from fungrad.tracing.graph_trace import GraphTrace, stage
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import EVAL, Trace, Tracer, current, typeof
from fungrad.tracing.traced_again import traced
from fungrad.tracing.transformed_function import boundary
from fungrad.transforms.arguments import (
    Flat,
    differentiable,
    flat_leaves,
    input_type,
    leaf_names,
    leaf_type,
    matching,
    owned,
    refuse_leaf,
    results_and_aux,
)
from fungrad.transforms.engine.forward import JvpTrace, pulled_back_twice, pushed_forward


class TangentTrace(GraphTrace):
    """Records the equations that depend on its inputs; its parent computes all others, once."""

    __slots__ = ()
    takes_kept = False

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        for arg in args:
            if type(arg) is Tracer and arg.owner is self:
                return super().process(primitive, args, params)
        parent: Trace = self.parent  # type: ignore[assignment]
        return parent.process(primitive, args, params)


class LinearizeTrace(JvpTrace):
    """Forward mode that separates primal and tangent in primitives that hold Graphs, too.

    It uses their reverse rules, which have a forward part and a linear part; their forward rules
    have not.
    """

    __slots__ = ()

    def rule(self, primitive: Any) -> Callable[..., Any]:
        if primitive.forward is not None and primitive.vjp is not None and primitive.multiple:
            return pulled_back_twice(primitive)
        return super().rule(primitive)


class InlineTrace(Trace):
    """Expands calls of Graphs, so that values that depend on no input are found."""

    __slots__ = ()

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        if primitive is call:
            return tuple(evaluate(params["graph"], args))
        parent: Trace = self.parent  # type: ignore[assignment]
        return parent.process(primitive, args, params)


@boundary
def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Evaluates f once; returns its output and the linear map that pushes tangents forward.

    >>> import numpy as np
    >>> out, pushforward = linearize(lambda x: np.sin(x) * x, np.pi)
    >>> round(float(pushforward(1.0)), 12), round(float(pushforward(2.0)), 12)
    (-3.14159265359, -6.28318530718)

    Each call of that map costs only the tangent's part of `jvp`, so it pays for many tangents at
    one point (conjugate gradients, Krylov methods). Python control flow on values works in f.

    Args:
      f: a pure function of trees that returns a tree.
      *primals: its arguments. Integer and other non-differentiable leaves are constants.
      has_aux: whether f returns a pair (output, aux).

    Returns:
      (output, pushforward) or (output, pushforward, aux). `pushforward(*tangents)` takes one tree
      for each primal, with None for leaves that cannot be differentiated, and returns a tree like
      the output. It may be called many times, and under any transform.
    """
    leaves, treedef = flat_leaves(primals)
    active = [i for i, leaf in enumerate(leaves) if differentiable(leaf)]
    names = leaf_names(f, range(len(primals)), primals)
    shapes: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        full = list(leaves)
        for i, value in zip(active, values, strict=True):
            full[i] = value
        results, *shapes[:] = results_and_aux(f, f(*pytree.unflatten(treedef, full)), has_aux)
        return results

    values, graph, moving = _linear_program(
        flat, [leaves[i] for i in active], [names[i] for i in active],
        lambda: f"linearize of {describe(f)}",
    )  # fmt: skip
    count, out_def, aux_def = shapes
    moving = moving[:count]
    graph = drop_dead(graph.replace(outputs=graph.outputs[: sum(moving)]))
    out_types = [leaf_type(value) for value in values[:count]]
    passive = {i: (leaves[i], names[i]) for i in range(len(leaves)) if i not in active}
    pushforward = Pushforward(graph, treedef, passive, out_def, out_types, moving, describe(f))
    if current() is EVAL:
        values = owned(values, leaves)
    output = pytree.unflatten(out_def, values[:count])
    if has_aux:
        return output, pushforward, pytree.unflatten(aux_def, values[count:])
    return output, pushforward


class Pushforward:
    """The linear map that `linearize` returns: the Graph of the tangents, without the function, so
    that it can always be pickled.
    """

    def __init__(
        self,
        graph: Graph,
        treedef: pytree.TreeDef,
        passive: dict[int, tuple[Any, str]],
        out: pytree.TreeDef,
        out_types: Sequence[Type | None],
        moving: Sequence[bool],
        name: str,
    ) -> None:
        self._recipe = graph, treedef, passive, out, out_types, moving, name
        self._known = not any(type(value) is Tracer for _, value in graph.constants)
        self._called = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Pushforward, self._recipe

    @boundary
    def __call__(self, *tangents: Any) -> Any:
        graph, treedef, passive, out, out_types, moving, name = self._recipe
        given = _tangent_leaves(name, treedef, tangents)
        for i, (leaf, path) in passive.items():
            if given[i] is not None:
                raise refuse_leaf(leaf, path, "linearize")
        active = [tangent for i, tangent in enumerate(given) if i not in passive]
        inputs = [
            zeros(type_) if tangent is None else matching(tangent, type_, "tangent")
            for tangent, type_ in zip(active, graph.input_types, strict=True)
        ]
        # Compiling pays from the second call on; values of other traces cannot be constants then.
        compiled = self._called and self._known and current() is EVAL
        self._called = True
        tangents_of_outputs = iter(run(graph, inputs) if compiled else evaluate(graph, inputs))
        pushed = [
            next(tangents_of_outputs)
            if moved
            else None
            if type_ is None
            else zeros(strong_type(type_))
            for moved, type_ in zip(moving, out_types, strict=True)
        ]
        return pytree.unflatten(out, owned(pushed, inputs) if current() is EVAL else pushed)


def _tangent_leaves(name: str, treedef: pytree.TreeDef, tangents: Any) -> list[Any]:
    """The leaves of tangents, in which None may replace the tangent of a leaf."""
    leaves, structure = pytree.flatten(tangents)
    if structure == treedef:
        return leaves
    leaves, structure = pytree.flatten(tangents, is_leaf=lambda x: x is None)
    if structure != treedef:
        raise StructureMismatchError(
            f"The tangents given to the linear map of {name} have another structure than "
            f"the primals, first at {pytree.difference(treedef, structure)}."
        )
    return leaves


def _linear_program(
    f: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    names: Sequence[str],
    label: Callable[[], str],
) -> tuple[list[Any], Graph, list[bool]]:
    """Runs a flat function; returns its outputs, the Graph of its tangents, and for each output
    whether it has one.
    """
    return traced(lambda: _traced_program(f, primals, names, label), label, f)


def _traced_program(
    f: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    names: Sequence[str],
    label: Callable[[], str],
) -> tuple[list[Any], Graph, list[bool]]:
    trace = TangentTrace(current(), label)
    tangents = [
        trace.input(strong_type(typeof(p)), name) for p, name in zip(primals, names, strict=True)
    ]
    values, pushed = trace.run(lambda: pushed_forward(f, primals, tangents, label, LinearizeTrace))
    return (
        values,
        trace.graph([t for t in pushed if t is not None]),
        [t is not None for t in pushed],
    )


@boundary
def linear_transpose(f: Callable[..., Any], *primals: Any) -> Callable[..., tuple[Any, ...]]:
    """The transpose of a linear function: <f x, y> = <x, f' y> for all x and y, unconjugated.

    >>> import numpy as np
    >>> transposed = linear_transpose(lambda x: 2.0 * x[:2], np.zeros(3))
    >>> transposed(np.array([1.0, 10.0]))
    (array([ 2., 20.,  0.]),)

    f may be composed of all functions that are linear in its arguments (sums, indexing, products
    with constants, FFTs, solves by a constant matrix). A derivative that is zero on purpose
    (`stop_gradient`, rounding) counts as zero.

    Args:
      f: a linear function of trees that returns a tree. It is traced once, without values.
      *primals: its arguments, of which only the types matter: arrays, `Type`s, or anything with a
        shape and a dtype.

    Returns:
      A function that takes a tree like f's output, and returns a tuple with one tree for each
      primal.

    Raises:
      NonLinearError: naming the line that is not linear.
    """
    leaves, treedef = pytree.flatten(primals)
    names = leaf_names(f, range(len(primals)), primals)
    types = [strong_type(input_type(leaf, name)) for leaf, name in zip(leaves, names, strict=True)]
    for leaf, type_, name in zip(leaves, types, names, strict=True):
        if not type_.inexact:
            raise refuse_leaf(leaf, name, "linear_transpose")

    def inlined(values: Sequence[Any]) -> Any:
        return InlineTrace(current(), label).run(f, *pytree.unflatten(treedef, values))

    flat = Flat(inlined)
    label = lambda: f"linear_transpose of {describe(f)}"  # noqa: E731
    graph = stage(flat, types, names, label, getattr(f, "__name__", ""))
    out_types = [strong_type(type_) for type_ in graph.output_types]
    for type_ in out_types:
        if not type_.inexact:
            raise NonLinearError(
                f"linear_transpose needs floating or complex outputs, but {describe(f)} returns "
                f"{type_}."
            )
    transposed, reached = pulled_back(graph)
    if reads(transposed, len(types)):
        culprit = worst(looked_at(graph, [True] * len(types)))
        if isinstance(culprit, Equation):
            where = f" at {culprit.source}" if culprit.source else ""
            raise NonLinearError(
                f"{describe(f)} is not linear: the equation `{culprit.primitive.name}`{where} is "
                "not linear in its operands."
            )
    _refuse_affine(f, graph)

    return Transposed(transposed, reached, treedef, types, flat.out, out_types)


class Transposed:
    """The function that `linear_transpose` returns: a Graph, and the structures of its trees."""

    def __init__(
        self,
        graph: Graph,
        reached: Sequence[bool],
        treedef: pytree.TreeDef,
        types: Sequence[Type],
        out: pytree.TreeDef,
        out_types: Sequence[Type],
    ) -> None:
        self._graph = graph
        self._reached = reached
        self._treedef = treedef
        self._types = types
        self._out = out
        self._out_types = out_types

    @boundary
    def __call__(self, *cotangents: Any) -> tuple[Any, ...]:
        if len(cotangents) != 1:
            raise StructureMismatchError(
                f"A transposed function takes one tree, the output's; {len(cotangents)} were given."
            )
        given = pytree.match(self._out, cotangents[0], "cotangent")
        checked = [
            zeros(t) if c is None else matching(c, t, "cotangent")
            for c, t in zip(given, self._out_types, strict=True)
        ]
        unread = [t.zeros() for t in self._types]
        cotangents_of_inputs = iter(evaluate(self._graph, [*unread, *checked]))
        results = [
            next(cotangents_of_inputs) if hit else zeros(t)
            for hit, t in zip(self._reached, self._types, strict=True)
        ]
        result: tuple[Any, ...] = pytree.unflatten(
            self._treedef, owned(results, checked) if current() is EVAL else results
        )
        return result


def _refuse_affine(f: Callable[..., Any], graph: Graph) -> None:
    """Raises NonLinearError if a function is not zero at zero; skipped if constants are traced."""
    if current() is not EVAL or any(type(value) is Tracer for _, value in graph.constants):
        return
    with np.errstate(all="ignore"):
        values = evaluate(graph, [type_.zeros() for type_ in graph.input_types])
    if any(np.any((value != 0) & (value == value)) for value in map(np.asarray, values)):
        raise NonLinearError(
            f"{describe(f)} is not linear but affine: it is not zero at zero. Transpose the "
            "difference lambda x: f(x) - f(0), or leave the constant term out."
        )
