"""The pattern of a linear map given as a Graph, found in one walk over its equations.

The walk enters calls, unites branches, and follows short scans step by step, longer ones until the
patterns of the carries no longer grow. The pattern holds for all values of the other inputs: only
constants, and values computed from them, are known.

Partially separable functions (Griewank and Toint 1982) begin with reads of elements: a residual
gathers the parameters of its camera, a stencil slices a grid. In the rest of the map each element
read has its own column, so few rows share one, and one reverse product computes all rows of a
group.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.control_flow.call import call
from fungrad.control_flow.reverse_with_tape import RECORDS
from fungrad.control_flow.scan import scan
from fungrad.control_flow.switch import switch
from fungrad.control_flow.while_loop import while_loop
from fungrad.control_flow.without_tape import as_scan, uses_tape, without_tape
from fungrad.custom_rules.custom_vjp_jvp import custom
from fungrad.host.external import opaque as external
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.rematerialisation.checkpoint import checkpointed
from fungrad.retracing.graph_transforms import drop_dead, joint
from fungrad.sparse.derivative import Derivative
from fungrad.sparse.patterns import (
    Pattern,
    csr,
    empty,
    equal,
    identity,
    scipy_sparse,
    stacked,
    take,
    union,
)
from fungrad.sparse.rules import Given, moves_all, spread
from fungrad.tracing.interpreter import evaluate

STEPS = 256
"""The most steps of a scan that are followed one by one."""

DENSE = 0.25
"""The share of nonzero entries above which a pattern is dense."""

KNOWN = 1 << 24
"""The most elements of a value that is computed from constants."""


class Propagation:
    """A walk over Graphs: patterns over `count` columns, and the equations that made them dense.

    Dense means relative to the number of inputs; columns may be copies of those.
    """

    def __init__(self, count: int, inputs: int) -> None:
        self.count = count
        self.inputs = inputs
        self.dense: list[Equation] = []

    def graph(
        self, graph: Graph, patterns: Sequence[Pattern | None], values: Sequence[Any]
    ) -> list[Pattern | None]:
        """The patterns of a Graph's outputs for those of its inputs; None: no dependence."""
        known = dict(graph.constants)
        known.update((v, x) for v, x in zip(graph.inputs, values, strict=True) if x is not None)
        by_atom = dict(zip(graph.inputs, patterns, strict=True))

        def given(atom: Atom) -> Given:
            if isinstance(atom, Literal):
                return Given(None, atom.value, ())
            return Given(by_atom.get(atom), known.get(atom), atom.type.shape)

        for equation in graph.equations:
            arguments = [given(atom) for atom in equation.inputs]
            if all(a.pattern is None for a in arguments):
                outputs = _computed(equation, arguments)
                known.update(zip(equation.outputs, outputs, strict=False))
                continue
            for variable, pattern in zip(
                equation.outputs, self._equation(equation, arguments), strict=True
            ):
                if variable.type.inexact:
                    by_atom[variable] = pattern
        return [given(atom).pattern for atom in graph.outputs]

    def _equation(self, equation: Equation, given: Sequence[Given]) -> Sequence[Pattern | None]:
        primitive: Any = equation.primitive
        graph: Any = equation.params.get("graph")
        # a custom rule counts as written; the walk does not enter its primal function
        if (
            primitive is call
            or primitive is checkpointed
            or (primitive is custom and all(e.primitive is external for e in graph.equations))
        ):
            return self.graph(graph, [g.pattern for g in given], [g.value for g in given])
        if primitive is switch:
            return self._switch(equation.params["branches"], given[1:])
        if primitive is scan:
            return self._scan(equation.params, given)
        if primitive is while_loop:
            first = equation.params["counts"][0]
            return self._scan(as_scan(equation.params, STEPS + 1), given[first:])
        if uses_tape(primitive):
            types = [atom.type for atom in equation.inputs]
            graph = without_tape(primitive, types, equation.params, STEPS + 1)
            outputs = self.graph(graph, [g.pattern for g in given], [g.value for g in given])
            return [*outputs, None] if primitive in RECORDS else outputs  # the tape
        outputs = spread(equation, given, self.count)
        if self._dense(outputs) and not self._dense([g.pattern for g in given]):
            self.dense.append(equation)
        return outputs

    def _dense(self, patterns: Sequence[Pattern | None]) -> bool:
        return any(p is not None and is_dense(p.nnz, p.shape[0], self.inputs) for p in patterns)

    def _switch(self, branches: Sequence[Graph], given: Sequence[Given]) -> list[Pattern | None]:
        patterns, values = [g.pattern for g in given], [g.value for g in given]
        results = [self.graph(branch, patterns, values) for branch in branches]
        return [union(outputs) for outputs in zip(*results, strict=True)]

    def _scan(self, params: dict[str, Any], given: Sequence[Given]) -> list[Pattern | None]:
        length, body = params["length"], params["body"]
        fixed, carried = params["counts"]
        constants, carry = given[:fixed], [g.pattern for g in given[fixed : fixed + carried]]
        read = given[fixed + carried :]
        first = [g.value for g in constants]

        def step(carry: Sequence[Pattern | None], xs: Sequence[Given]) -> list[Pattern | None]:
            patterns = [*(g.pattern for g in constants), *carry, *(x.pattern for x in xs)]
            values = [*first, *[None] * carried, *(x.value for x in xs)]
            return self.graph(body, patterns, values)

        if length <= STEPS:
            outputs: list[list[Pattern | None]] = []
            for i in range(length):
                at = length - 1 - i if params["reverse"] else i
                results = step(carry, [_row(g, at, length) for g in read])
                carry = results[:carried]
                outputs.append(results[carried:])
            steps = outputs[::-1] if params["reverse"] else outputs
            columns = [[step[i] for step in steps] for i in range(len(body.outputs) - carried)]
        else:
            every = [_any_row(g, length) for g in read]
            carry = self._grown(carry, lambda now: step(now, every)[:carried])
            columns = [[p] * length for p in step(carry, every)[carried:]]
        sizes = [atom.type.size for atom in body.outputs[carried:]]
        return [
            *carry,
            *(
                None if all(p is None for p in column)
                else stacked(column, [size] * length, self.count)
                for column, size in zip(columns, sizes, strict=True)
            ),
        ]  # fmt: skip

    def _grown(self, carry: Sequence[Pattern | None], step: Any) -> list[Pattern | None]:
        """The patterns of carries after so many steps that they no longer grow."""
        now = list(carry)
        while True:
            new = [union([old, found]) for old, found in zip(now, step(now), strict=True)]
            if all(equal(x, y) for x, y in zip(new, now, strict=True)):
                return now
            now = new


def _row(given: Given, at: int, length: int) -> Given:
    """The elements of an argument that one step of a scan reads."""
    size = given.size // length
    pattern = given.pattern
    return Given(
        None if pattern is None else pattern[at * size : (at + 1) * size],
        None if given.value is None else given.value[at],
        given.shape[1:],
    )


def _any_row(given: Given, length: int) -> Given:
    """The elements of an argument that any step of a scan reads; their values are not known."""
    pattern = given.pattern
    if pattern is not None:
        size = given.size // length
        parts = [take(pattern, np.arange(i * size, (i + 1) * size)) for i in range(length)]
        pattern = union(parts)
    return Given(pattern, None, given.shape[1:])


def _computed(equation: Equation, given: Sequence[Given]) -> Sequence[Any]:
    """The results of an equation of constants, if it is small and pure; else ()."""
    primitive: Any = equation.primitive
    size = sum(v.type.size for v in equation.outputs)
    values = [g.value for g in given]
    if size > KNOWN or not primitive.pure or any(v is None for v in values):
        return ()
    if not primitive.module.startswith("fungrad.") or (not equation.params and not values):
        return ()
    with np.errstate(all="ignore"):
        outputs = primitive.eval(*values, **equation.params)
    return outputs if primitive.multiple else (outputs,)


def is_dense(entries: int, rows: int, columns: int) -> bool:
    """Whether a matrix with so many nonzero entries gains nothing from being sparse."""
    return entries > DENSE * rows * columns


def of_linear_map(
    graph: Graph, sizes: Sequence[int], known: int, inputs: int
) -> tuple[Pattern, list[Equation]]:
    """The pattern of a linear map's outputs by its vectors, and the equations that make it dense.

    Args:
      graph: takes `known` values independent of the vectors, then the vectors.
      sizes: the numbers of elements of the vectors.
      inputs: the number of inputs of which they are copies.
    """
    count = sum(sizes)
    walk = Propagation(count, inputs)
    starts = np.cumsum([0, *sizes])
    vectors = [identity(n, int(start), count) for n, start in zip(sizes, starts, strict=False)]
    values = [None] * len(graph.inputs)
    propagated = walk.graph(graph, [*[None] * known, *vectors], values)
    rows = [atom.type.size for atom in graph.outputs]
    if not propagated:
        return empty(0, count), walk.dense
    return stacked(propagated, rows, count), walk.dense


# --- reads ----------------------------------------------------------------------------------------


class Reads(NamedTuple):
    """A derivative's product as a selection of elements followed by a Graph.

    Attributes:
      graph: (residuals, arrays of elements read) -> products.
      numbers: for each element read its position in the vectors, from 1; 0: it is zero.
    """

    graph: Graph
    numbers: np.ndarray


def reads(derivative: Derivative) -> Reads:
    """A product's Graph without the equations at its start that only move elements of vectors."""
    graph, count = derivative.product, derivative.residuals
    known: dict[Atom, Any] = dict(graph.constants)
    indices: dict[Atom, np.ndarray] = {}
    start = 1
    for v in graph.inputs[count:]:
        indices[v] = np.arange(start, start + v.type.size).reshape(v.type.shape)
        start += v.type.size
    rest: list[Equation] = []
    for equation in graph.equations:
        numbers = _moved(equation, indices, known)
        if numbers is None:
            rest.append(equation)
        else:
            indices.update(zip(equation.outputs, numbers, strict=True))
    read = dict.fromkeys([*[a for e in rest for a in e.inputs], *graph.outputs])
    used = [a for a in read if a in indices]
    inputs: Any = (*graph.inputs[:count], *used)
    every = [indices[i].ravel() for i in used]
    return Reads(
        drop_dead(graph.replace(inputs=inputs, equations=tuple(rest))),
        np.concatenate(every) if every else np.zeros(0, np.int64),
    )


def _moved(equation: Equation, found: dict[Atom, np.ndarray], known: dict[Atom, Any]) -> Any:
    """The numbers of an equation's results, if it only moves numbered elements."""
    all_moved = moves_all(equation)
    if all_moved is None or not equation.inputs or equation.inputs[0] not in found:
        return None
    given = [found.get(a, known.get(a)) for a in equation.inputs]
    if any(x is None for x in given):
        return None
    if all_moved and any(a not in found for a in equation.inputs):
        return None
    results = equation.primitive.eval(*given, **equation.params)
    return results if equation.primitive.multiple else (results,)


class Entries(NamedTuple):
    """The entries of a matrix as sums of entries of the map after the reads.

    Attributes:
      pattern: of the matrix.
      order: the numbers of the map's entries, in the order of the matrix.
      starts: where in `order` each entry of the matrix begins; None: each is one entry of the map.
    """

    pattern: Pattern
    order: np.ndarray
    starts: np.ndarray | None


def entries(pattern: Pattern, numbers: np.ndarray, count: int) -> Entries:
    """The entries over `count` inputs of a map with a pattern, each column a numbered input."""
    columns = numbers[pattern.indices]
    kept = columns > 0
    ends = np.concatenate([[0], np.cumsum(kept)])[pattern.indptr]
    parts = (np.flatnonzero(kept), columns[kept] - 1, ends)
    whole = scipy_sparse().csr_array(parts, shape=(len(ends) - 1, count))
    whole.sort_indices()
    first = np.ones(whole.nnz, np.bool_)
    first[1:] = whole.indices[1:] != whole.indices[:-1]
    first[whole.indptr[:-1][np.diff(whole.indptr) > 0]] = True
    if first.all():
        return Entries(csr(whole.indices, whole.indptr, count), whole.data, None)
    ends = np.concatenate([[0], np.cumsum(first)])[whole.indptr]
    return Entries(csr(whole.indices[first], ends, count), whole.data, np.flatnonzero(first))


def transposed(derivative: Derivative, graph: Graph) -> Derivative | None:
    """The derivative with the reverse products of a Graph (residuals, elements read) -> products.

    None if the Graph is not linear, as with finite differences.
    """
    count, total = derivative.residuals, len(graph.inputs)
    whole, reached = joint(graph, [i >= count for i in range(total)])
    if len(reached) < total - count:
        return None
    whole = drop_dead(whole.replace(outputs=whole.outputs[len(graph.outputs) :]))
    values = set(whole.inputs[count:total])
    atoms = [atom for equation in whole.equations for atom in equation.inputs]
    if any(atom in values for atom in (*atoms, *whole.outputs)):
        return None
    result = copy.copy(derivative)
    product = whole.replace(inputs=(*whole.inputs[:count], *whole.inputs[total:]))
    result.product = product
    result._second = jit(lambda *values: tuple(evaluate(product, values)))
    return result
