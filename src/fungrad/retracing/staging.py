"""Staging: a user's function of trees as a closed Graph, for jit and control flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fungrad.errors import ArgumentError, UnsupportedArgumentError
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.ir.verifier import check_graph
from fungrad.retracing.graph_transforms import closed
from fungrad.support import pytree
from fungrad.support.lazy import Record
from fungrad.tracing.aliasing import count_on
from fungrad.tracing.graph_trace import GraphTrace, stage
from fungrad.tracing.memory_order import dense, is_dense, memory_layout, one_order
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.trace import Tracer, constant_of_kept
from fungrad.transforms.arguments import flat_leaves, flat_results, has_type, leaf_type


class Staged(Record):
    """A Graph, the structure of its output, and the values of other traces that it captured.

    The captured values are the first inputs of the Graph.
    """

    graph: Graph
    out: pytree.TreeDef
    captured: list[Any]
    rows: frozenset[int] = frozenset()
    """The inputs, without captured values, that have to be in C order in memory."""
    kept: Tracer | None = None
    """A value kept from an ended transform that is a constant of the Graph, without derivative."""
    recorder: type[GraphTrace] = GraphTrace
    """The class of the trace that recorded the Graph."""

    def check_kept(self) -> None:
        """Raises LeakedTracerError if the Graph's constants may not be those of the functions that
        run.
        """
        if self.kept is not None:
            constant_of_kept(self.kept)

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

    `f` is the user's function, for messages, and `what` the kind of function that it became ("a
    jitted function"). `make` makes the trace; `rows` receives the inputs that have to be in C
    order, as in `stage`.
    """
    outs: list[pytree.TreeDef] = []

    def flat(*values: Any) -> list[Any]:
        leaves, out = flat_results(call(pytree.unflatten(treedef, values)))
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
    """The keys of the dicts of a structure, and other data of its nodes."""
    if isinstance(treedef.aux, tuple):
        yield from treedef.aux
    for child in treedef.children:
        yield from _keys(child)


def check_rows(
    staged: Staged, leaves: Sequence[Any], f: Callable[..., Any], names: Callable[[], Sequence[str]]
) -> None:
    """Raises if an argument is not in C order where that decides which views a write changes."""
    for number in staged.rows:
        shape, layout = leaves[number].shape, memory_layout(leaves[number])
        known = dense(shape) if one_order(shape) else layout.strides
        if known is None or not is_dense(shape, known):
            raise UnsupportedArgumentError(
                f"The argument {names()[number]} of {describe(f)} was given{user_line()} as an "
                "array that does not lie in memory in C order, without gaps. That decides what the "
                "compiled function reads, or who sees its writes. Give it np.ascontiguousarray(a)."
            )
        count_on(layout.c_inputs)


def types_of(tree: Any, what: str) -> tuple[list[Any], pytree.TreeDef, list[Type]]:
    """The leaves, with canonical dtypes, the structure and the leaf types of a tree of arrays and
    numbers.

    Raises:
      ArgumentError: naming the first leaf that is neither.
    """
    leaves, treedef = flat_leaves(tree)
    types = []
    for leaf, path in zip(leaves, pytree.paths(treedef), strict=True):
        type_ = leaf_type(leaf)
        if type_ is None:
            raise ArgumentError(
                f"{what}{path} is a {type(leaf).__name__}{user_line()}, not an array or a number."
            )
        types.append(type_)
    return leaves, treedef, types


def names_of(treedef: pytree.TreeDef, prefix: str) -> list[str]:
    """A name for each leaf of a tree, for messages."""
    return [prefix + path for path in pytree.paths(treedef)]
