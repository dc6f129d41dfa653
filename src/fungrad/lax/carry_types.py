"""The types of carries and branches, and the errors where they do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.control_flow import scan, switch, while_loop
from fungrad.control_flow.call import call
from fungrad.errors import StructureMismatchError
from fungrad.ir.graph import Atom, Equation, Graph, Variable, inner_graphs
from fungrad.ir.types import Type
from fungrad.primitives.movement.reshape_broadcast_cast import convert, to_discrete
from fungrad.retracing.interned import interned
from fungrad.retracing.staging import Staged, names_of, stage_tree, types_of
from fungrad.support import pytree
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import current, typeof


def strong_leaf(value: Any, type_: Type) -> Any:
    """A leaf of a carry, cast to the carry's type, which is never weak."""
    own = typeof(value)
    if own == type_:
        return value
    if type(value) in (int, float, bool, complex):
        return type_.dtype.type(value)
    return (
        convert(value, dtype=type_.dtype)
        if type_.inexact
        else to_discrete(value, dtype=type_.dtype)
    )


def _promoted(before: Sequence[Type], after: Sequence[Type]) -> list[Type]:
    """The types of a carry after its Python numbers have become arrays."""
    return [
        b if not b.weak else Type((), a.dtype if a.shape == () else b.dtype)
        for b, a in zip(before, after, strict=True)
    ]


def check_same(
    what: str, left: str, right: str, first: Sequence[Type], second: Sequence[Type], treedef: Any
) -> None:
    """Raises StructureMismatchError with both types if leaf types differ."""
    for path, a, b in zip(pytree.paths(treedef), first, second, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            rows = [
                f"    {p or 'the value'}: {x} | {y}"
                for p, x, y in zip(pytree.paths(treedef), first, second, strict=True)
            ]
            raise StructureMismatchError(
                f"{what}{user_line()}: the types differ, first at {path or 'the value itself'}.\n"
                f"  {left} | {right}\n" + "\n".join(rows)
            )


def check_tree(what: str, expected: pytree.TreeDef, got: pytree.TreeDef) -> None:
    """Raises StructureMismatchError, naming the first difference, if structures differ."""
    if expected != got:
        raise StructureMismatchError(
            f"{what}{user_line()}: the structures differ, first at "
            f"{pytree.difference(expected, got)}.\n  {expected}\n  {got}"
        )


_ORDINARY = frozenset(map(np.dtype, ("bool", "int64", "float64", "complex128")))
"""The dtypes that promote with a Python number as with an array of its dtype."""

Stage = Callable[[Sequence[Type]], Staged]


def _settled(stage: Stage, types: list[Type]) -> tuple[Staged, list[Type]]:
    """Stages a body until its carry's types are stable: Python numbers become arrays."""
    for _ in range(len(types) + 2):
        staged = stage(types)
        out = staged.types[: len(types)]
        settled = _promoted(types, out) if len(out) == len(types) else types
        if settled == types:
            break
        firm = _as_arrays(staged, types, settled)
        if firm is not None:
            return firm, settled
        types = settled
    return staged, types


def _as_arrays(staged: Staged, types: Sequence[Type], settled: Sequence[Type]) -> Staged | None:
    """A staged body with the Python numbers of its carry replaced by arrays; None if it has to be
    staged again for that. So nested loops are staged once each.
    """
    if any(before.dtype != after.dtype for before, after in zip(types, settled, strict=True)):
        return None
    graph, captured = staged.graph, len(staged.captured)
    rest = len(graph.inputs) - captured - len(types)
    flags = [*[False] * captured, *(t.weak for t in types), *[False] * rest]
    firm = _firm(graph, flags)
    return None if firm is None else staged._replace(graph=firm)


def _firm(graph: Graph, flags: Sequence[bool]) -> Graph | None:
    """The Graph with arrays for some Python numbers; None if that changes another dtype."""
    names: dict[Atom, Atom] = {}

    def renew(variable: Variable, type_: Type) -> Variable:
        names[variable] = new = Variable(type_)
        return new

    def renamed(atoms: Sequence[Atom]) -> tuple[Atom, ...]:
        return tuple([names.get(atom, atom) for atom in atoms])

    inputs = tuple(
        [
            renew(v, Type(v.type.shape, v.type.dtype)) if flag and v.type.weak else v
            for v, flag in zip(graph.inputs, flags, strict=True)
        ]
    )
    equations = []
    for equation in graph.equations:
        changed = [atom in names for atom in equation.inputs]
        if any(changed):
            read = renamed(equation.inputs)
            params = _params(equation, changed)
            types = None if params is None else _inferred(equation, read, params)
            if params is None or types is None:
                return None
            outputs = tuple(
                [
                    v if v.type == type_ else renew(v, type_)
                    for v, type_ in zip(equation.outputs, types, strict=True)
                ]
            )
            equation = Equation(
                equation.primitive, read, outputs, params, equation.source, equation.scope,
                equation.backward,
            )  # fmt: skip
        equations.append(equation)
    return graph.replace(inputs=inputs, equations=tuple(equations), outputs=renamed(graph.outputs))


def _inferred(
    equation: Equation, inputs: Sequence[Atom], params: dict[str, Any]
) -> Sequence[Type] | None:
    """The types of an equation's outputs for other inputs; None if a dtype or shape changes or
    might change: operands promote each other, except indices and inputs of inner Graphs.
    """
    promotes = params is equation.params and "index" not in params
    dtypes = {atom.type.dtype for atom in (*inputs, *equation.outputs)}
    if promotes and not dtypes <= _ORDINARY:
        return None
    try:
        types: Sequence[Type] = equation.primitive.infer([atom.type for atom in inputs], params)
    except Exception:  # refuses the array: staged again with it, the user's function raises
        return None
    same = all(
        (t.shape, t.dtype) == (v.type.shape, v.type.dtype)
        for t, v in zip(types, equation.outputs, strict=True)
    )
    return types if same else None


def _params(equation: Equation, changed: Sequence[bool]) -> dict[str, Any] | None:
    """The parameters of an equation, with arrays for Python numbers in its inner Graphs."""
    params = equation.params
    if not any(True for _ in inner_graphs(equation)):
        return params
    primitive = equation.primitive
    fed: dict[str, Sequence[bool]]
    if primitive is while_loop.while_loop:
        first, second = params["counts"]
        carry = changed[first + second :]
        fed = {
            "cond": [*changed[:first], *carry],
            "body": [*changed[first : first + second], *carry],
        }
    elif primitive is scan.scan:
        fed = {"body": changed}
    elif primitive is switch.switch:
        fed = {"branches": changed[1:]}
    elif primitive is call:
        fed = {"graph": changed}
    else:
        return None
    named = dict(params)
    for key, flags in fed.items():
        whole = params[key]
        graphs = [_firm(graph, flags) for graph in (whole if type(whole) is tuple else (whole,))]
        if any(graph is None for graph in graphs):
            return None
        named[key] = tuple(graphs) if type(whole) is tuple else graphs[0]
    return named


def carry_body(
    f: Callable[..., Any], call: Callable[[Any], Any], init: Any, extra: Any, what: str
) -> tuple[Staged, list[Any], pytree.TreeDef, list[Type]]:
    """Stages a body whose output begins with the next carry, with stable types of the carry."""
    leaves, treedef, types = types_of(init, "init")
    _, extra_def, extra_types = extra
    both = pytree.structure((0, 0))
    whole = pytree.TreeDef(both.type, both.aux, (treedef, extra_def))
    names = [*names_of(treedef, "carry"), *names_of(extra_def, "x")]

    def stage(types: Sequence[Type]) -> Staged:
        return shared(stage_tree(f, call, whole, [*types, *extra_types], names, what, rows=set()))

    staged, types = _settled(stage, types)
    return staged, [strong_leaf(x, t) for x, t in zip(leaves, types, strict=True)], treedef, types


def shared(staged: Staged) -> Staged:
    """A part of a loop with the Graph of the first that was equal. In eager functions, the arrays
    of floats that it closes over are captured values, so that other numbers make no other Graph.
    """
    graph = staged.graph
    if not current().records and staged.kept is None:
        closed_over = [(v, x) for v, x in graph.constants if _is_data(x)]
        if closed_over:
            count = len(staged.captured)
            inputs = (*graph.inputs[:count], *[v for v, _ in closed_over], *graph.inputs[count:])
            rest = tuple([(v, x) for v, x in graph.constants if not _is_data(x)])
            graph = graph.replace(inputs=inputs, constants=rest)
            staged = staged._replace(captured=[*staged.captured, *[x for _, x in closed_over]])
    return staged._replace(graph=interned(graph))


def _is_data(constant: Any) -> bool:
    """Whether a constant is an array of numbers that no index or shape depends on."""
    return isinstance(constant, np.ndarray) and constant.dtype.kind in "fc"
