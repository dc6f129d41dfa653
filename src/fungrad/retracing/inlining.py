"""Equations that take the place of others: renamed, compared, and put where a call of their Graph
stood.

Stages a user's function of trees into a closed Graph: what jit and control flow share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, UnsupportedArgumentError
from fungrad.ir.graph import (
    Atom,
    Equation,
    Graph,
    Literal,
    PrimitiveLike,
    Variable,
    inner_graphs,
)
from fungrad.ir.types import Type
from fungrad.ir.verifier import check_graph
from fungrad.primitives.movement.reshape_broadcast_cast import convert, to_discrete
from fungrad.retracing.graph_transforms import closed, kept
from fungrad.support import pytree
from fungrad.support.lazy import Record
from fungrad.tracing.aliasing import count_on
from fungrad.tracing.graph_trace import GraphTrace, stage
from fungrad.tracing.memory_order import dense, is_dense, lying, one_order
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.trace import Tracer, typeof
from fungrad.transforms.arguments import flat_leaves, has_type, leaf_type

Renaming = dict[int, Atom]


def renamed(atoms: tuple[Atom, ...], names: Renaming) -> tuple[Atom, ...]:
    """Substitutes variables; the identical tuple if nothing changes."""
    for atom in atoms:
        if id(atom) in names:
            return tuple([names.get(id(atom), atom) for atom in atoms])
    return atoms


def placed(
    like: Equation,
    primitive: PrimitiveLike,
    inputs: tuple[Atom, ...],
    outputs: tuple[Variable, ...],
    params: dict[str, Any],
) -> Equation:
    """An equation with another one's line, scope and count of backward walks."""
    return Equation(primitive, inputs, outputs, params, like.source, like.scope, like.backward)


def copied(
    equation: Equation,
    inputs: tuple[Atom, ...],
    outputs: tuple[Variable, ...],
    params: dict[str, Any] | None = None,
) -> Equation:
    """The equation with other inputs and outputs, and other parameters where given."""
    params = equation.params if params is None else params
    return placed(equation, equation.primitive, inputs, outputs, params)


def rewired(equation: Equation, names: Renaming) -> Equation:
    """The equation with renamed inputs; the identical one if nothing changes."""
    inputs = renamed(equation.inputs, names)
    return equation if inputs is equation.inputs else copied(equation, inputs, equation.outputs)


def renewed(equation: Equation, names: Renaming) -> Equation:
    """The equation with renamed inputs and new outputs, which are added to `names`."""
    outputs = tuple([Variable(v.type) for v in equation.outputs])
    new = copied(equation, renamed(equation.inputs, names), outputs)
    names.update({id(v): o for v, o in zip(equation.outputs, outputs, strict=True)})
    return new


def is_pure(equation: Equation) -> bool:
    """Whether the outputs of an equation, and of each one in its Graphs, depend on its inputs
    alone, and it keeps none of them.
    """
    if not equation.primitive.pure or not equation.params:
        return equation.primitive.pure
    return all(map(_does_nothing_else, inner_graphs(equation)))


def _does_nothing_else(graph: Graph) -> bool:
    result: bool = kept(graph, "pure", lambda: all(map(is_pure, graph.equations)))
    return result


def key_of(equation: Equation) -> Hashable:
    """A key that only equations which compute the same share; None where there is none.

    Without parameters it holds numbers and text only, which the garbage collector skips.
    """
    atoms: list[Hashable] = [
        (id(type(atom.value)), repr(atom.value)) if isinstance(atom, Literal) else id(atom)
        for atom in equation.inputs
    ]
    if equation.primitive.commutative and hash(atoms[0]) > hash(atoms[1]):
        if equation.outputs[0].type.dtype.kind != "c":
            atoms.reverse()
    if not equation.params:
        return (id(equation.primitive), *atoms)
    params = tuple([(k, _part(v)) for k, v in equation.params.items()])
    try:
        hash(params)
    except TypeError:
        return None
    return (id(equation.primitive), *atoms, params)


def _part(value: Any) -> Hashable:
    """The key of a parameter: 0.0, -0.0, 0 and False have four."""
    if isinstance(value, Graph):
        return id(value)
    if isinstance(value, (float, complex, np.generic)):
        return (type(value), repr(value))
    if type(value) is tuple:
        return tuple(map(_part, value))
    found: Hashable = (type(value), value)
    return found


class TooMany(Exception):
    """Ends an expansion that has more equations than its limit."""


class Expansion:
    """The equations of a Graph and of those that it calls, each pure one once.

    `g(x) + g(2 * x)`, nested n deep, has n**2 different equations among 2**n. `called` says which
    calls are expanded.
    """

    def __init__(self, graph: Graph, limit: float = math.inf) -> None:
        self.limit = limit
        self.equations: list[Equation] = []
        self.constants = {id(v): (v, value) for v, value in graph.constants}
        """The constants of all Graphs, by the variables that they have there."""
        self.known: dict[Any, tuple[Atom, ...]] = {}
        """The outputs of equations and calls, by what these are."""

    def called(self, equation: Equation) -> tuple[Atom, ...] | None:
        """The outputs of a call whose equations are written; None for what stays one equation."""
        raise NotImplementedError

    def expanded(self, graph: Graph) -> Graph:
        """The Graph with its calls expanded.

        Raises:
          TooMany: where it has more equations than the limit.
        """
        outputs = self.of(graph, graph.inputs)
        return graph.replace(
            constants=tuple(self.constants.values()),
            equations=tuple(self.equations),
            outputs=outputs,
        )

    def of(self, graph: Graph, arguments: Sequence[Atom]) -> tuple[Atom, ...]:
        """Writes the equations of a Graph for some arguments; its outputs."""
        local: Renaming = {id(v): a for v, a in zip(graph.inputs, arguments, strict=True)}
        for variable, value in graph.constants:
            fresh, _ = self.constants.setdefault(id(variable), (Variable(variable.type), value))
            local[id(variable)] = fresh
        for equation in graph.equations:
            read = rewired(equation, local)
            key = key_of(read) if is_pure(read) else None
            found = None if key is None else self.known.get(key)
            if found is None:
                found = self.called(read)
                if found is None:
                    found = self._written(read)
                if key is not None:
                    self.known[key] = found
            local.update({id(v): a for v, a in zip(equation.outputs, found, strict=True)})
        return renamed(graph.outputs, local)

    def _written(self, equation: Equation) -> tuple[Atom, ...]:
        if len(self.equations) >= self.limit:
            raise TooMany
        new = renewed(equation, {})
        self.equations.append(new)
        return new.outputs


class Staged(Record):
    """A Graph, the structure of its output, and the values of other traces that it captured.

    The captured values are the first inputs of the Graph.
    """

    graph: Graph
    out: pytree.TreeDef
    captured: list[Any]
    rows: frozenset[int] = frozenset()
    """The inputs, but for what was captured, that have to lie in memory in C order."""

    @property
    def types(self) -> list[Type]:
        """The types of the outputs."""
        return self.graph.output_types


def stage_tree(
    f: Callable[..., Any],
    call: Callable[[Any], Any],
    treedef: pytree.TreeDef,
    types: Sequence[Type],
    names: Sequence[str],
    what: str,
    make: Callable[..., GraphTrace] = GraphTrace,
    rows: set[int] | None = None,
) -> Staged:
    """The Graph of `call(tree)` for a tree of the given structure and leaf types.

    `f` is the user's function, for messages, and `what` says what it has become ("a jitted
    function"); `make` makes the trace, and `rows` says how the inputs lie, as in `stage`.
    """
    outs: list[pytree.TreeDef] = []

    def flat(*values: Any) -> list[Any]:
        found, out = flat_leaves(call(pytree.unflatten(treedef, values)))
        leaves = [native(leaf) if has_type(leaf) else leaf for leaf in found]
        outs.append(out)
        if any(isinstance(key, Tracer) for key in _keys(out)):
            raise ArgumentError(
                f"{describe(f)} returned a dict with a traced value as a key, which has no number "
                f"yet: {what} returns dicts with known keys."
            )
        for path, leaf in zip(pytree.paths(out), leaves, strict=True):
            if not has_type(leaf):
                raise ArgumentError(
                    f"{describe(f)} returned a {type(leaf).__name__}{path and f' at {path}'}: "
                    f"{what} returns arrays and numbers only."
                )
        return leaves

    name = getattr(f, "__name__", type(f).__name__)
    graph, captured = closed(stage(flat, types, names, lambda: describe(f), name, make, (), rows))
    return Staged(check_graph(graph), outs[0], captured, frozenset(rows or ()))


def _keys(treedef: pytree.TreeDef) -> Iterator[Any]:
    """The keys of the dicts of a structure, and what else tells its nodes apart."""
    if isinstance(treedef.aux, tuple):
        yield from treedef.aux
    for child in treedef.children:
        yield from _keys(child)


def check_rows(
    staged: Staged, leaves: Sequence[Any], f: Callable[..., Any], names: Callable[[], Sequence[str]]
) -> None:
    """Raises where an argument is not in C order and that decides which views see a write."""
    for number in staged.rows:
        shape, found = leaves[number].shape, lying(leaves[number])
        known = dense(shape) if one_order(shape) else found.strides
        if known is None or not is_dense(shape, known):
            raise UnsupportedArgumentError(
                f"The argument {names()[number]} of {describe(f)} was given{user_line()} as an "
                "array that does not lie in memory in C order, without gaps. That decides what the "
                "compiled function reads, or who sees its writes. Give it np.ascontiguousarray(a)."
            )
        count_on(found.rows)


def types_of(tree: Any, what: str) -> tuple[list[Any], pytree.TreeDef, list[Type]]:
    """The leaves, structure and leaf types of a tree of arrays and numbers, in native byte order.

    Raises:
      ArgumentError: naming the first leaf that is neither.
    """
    found, treedef = pytree.flatten(tree)
    types, leaves = [], []
    for leaf, path in zip(found, pytree.paths(treedef), strict=True):
        type_ = leaf_type(leaf)
        if type_ is None:
            raise ArgumentError(
                f"{what}{path} is a {type(leaf).__name__}{user_line()}, not an array or a number."
            )
        leaves.append(native(leaf))
        types.append(type_ if type_.dtype.isnative else typeof(leaves[-1]))
    return leaves, treedef, types


def native(value: Any) -> Any:
    """A value, traced or not, in the machine's own order of bytes, which NumPy's results have."""
    type_ = typeof(value)
    if type_.dtype.isnative:
        return value
    dtype = type_.dtype.newbyteorder("=")
    return convert(value, dtype=dtype) if type_.inexact else to_discrete(value, dtype=dtype)


def names_of(treedef: pytree.TreeDef, prefix: str) -> list[str]:
    """A name for each leaf of a tree, for messages."""
    return [prefix + path for path in pytree.paths(treedef)]
