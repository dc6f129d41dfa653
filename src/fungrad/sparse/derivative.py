"""The derivative of a call as two compiled programs: outputs and residuals at a point, and a
product with a vector.

Integer and boolean arguments are constants of the programs, since indices and masks determine the
pattern.

Colouring: columns of one colour share no row, so one product computes them all. A star colouring of
a symmetric matrix needs fewer colours: entry (i, j) can be read from column i or j. It is an
incremental form of algorithm 4.1 of Gebremedhin, Tarafdar, Manne and Pothen, SIAM J. Sci. Comput.
29 (2007) 1042.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from fungrad.compiler.jit import Jitted, jit
from fungrad.control_flow.call import call
from fungrad.errors import ArgumentError
from fungrad.ir.graph import Equation, Graph, Literal
from fungrad.ir.types import Type
from fungrad.retracing.graph_transforms import split, strong_type
from fungrad.sparse.patterns import Pattern, scipy_sparse
from fungrad.support import pytree
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import shape_of, typeof
from fungrad.transforms.arguments import flat_leaves, leaf_type
from fungrad.transforms.engine.forward import pushed_forward
from fungrad.transforms.engine.reverse import linearized
from fungrad.transforms.jacobian import FlatCall

Product = Callable[[FlatCall, Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]
"""(call, leaves, vectors) -> (outputs, products), traced."""


def forward(call: FlatCall, leaves: Sequence[Any], vectors: Sequence[Any]) -> Any:
    """The outputs, and the Jacobian times vectors of the inputs' shapes."""
    return pushed_forward(call.flat, leaves, vectors, call.label)


def reverse(call: FlatCall, leaves: Sequence[Any], vectors: Sequence[Any]) -> Any:
    """The outputs, and vectors of the outputs' shapes times the Jacobian."""
    values, pullback = linearized(call.flat, leaves, call.label)
    return values, pullback(vectors)


def second(call: FlatCall, leaves: Sequence[Any], vectors: Sequence[Any]) -> Any:
    """No outputs, and the Hessian of a number times vectors of the inputs' shapes."""

    def gradient(*values: Any) -> list[Any]:
        outputs, pullback = linearized(call.flat, values, call.label)
        if len(outputs) != 1 or shape_of(outputs[0]) or typeof(outputs[0]).dtype.kind != "f":
            raise ArgumentError(
                f"{call.verb} needs a function that returns one real number, but "
                f"{describe(call.f)} returned {', '.join(str(typeof(v)) for v in outputs)}."
            )
        cotangents = pullback([np.ones((), typeof(outputs[0]).dtype)])
        return [
            np.zeros(shape_of(v), typeof(v).dtype) if g is None else g
            for v, g in zip(values, cotangents, strict=True)
        ]

    return (), pushed_forward(gradient, leaves, vectors, call.label)[1]


def _apart(whole: Graph, known: int, outputs: int) -> bool:
    """Whether no output of a joint Graph is computed by an equation that vectors reach."""
    reached = set(whole.inputs[known:])
    for equation in whole.equations:
        if any(atom in reached for atom in equation.inputs):
            reached.update(equation.outputs)
    return reached.isdisjoint(whole.outputs[:outputs])


def _arrays(whole: Graph, equations: Sequence[Equation]) -> set[Equation]:
    """The equations whose results may be residuals: without loop records, which are made again, and
    values of constants only, which the optimiser folds into the product."""
    makers: set[Equation] = set()
    fixed = {v for v, _ in whole.constants if not v.type.shape}
    for e in equations:
        if all(isinstance(atom, Literal) or atom in fixed for atom in e.inputs):
            fixed.update(e.outputs)
        elif all(v.type.dtype.kind != "O" for v in e.outputs):
            makers.add(e)
    return makers


class Arguments:
    """The leaves of one call: floating ones are inputs of a program, others constants of it."""

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.leaves, self.treedef = flat_leaves((tuple(args), kwargs))
        self.types = [leaf_type(leaf) for leaf in self.leaves]
        self.taken = [t is not None and t.inexact for t in self.types]
        self.values = [x for x, t in zip(self.leaves, self.taken, strict=True) if t]

    @property
    def key(self) -> Any:
        """The key of a program: structure, types and the values of its constants."""
        fixed = [
            x.tobytes() if isinstance(x, np.ndarray) else x
            for x, taken in zip(self.leaves, self.taken, strict=True)
            if not taken
        ]
        return self.treedef, tuple(self.types), tuple(fixed)

    def with_values(self, values: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """The arguments with other floating values."""
        given = iter(values)
        leaves = [next(given) if t else x for x, t in zip(self.leaves, self.taken, strict=True)]
        args, kwargs = pytree.unflatten(self.treedef, leaves)
        return args, kwargs


class Derivative:
    """The two programs for the derivative of f at arguments of some types.

    Attributes:
      inputs, outputs: the types of the differentiated leaves, and of the outputs' leaves.
      first: the Graph (values) -> (outputs, residuals).
      product: the Graph (residuals, vectors) -> products.
      residuals: the number of residuals.
    """

    def __init__(
        self, f: Callable[..., Any], argnums: Any, given: Arguments, verb: str, kind: Product
    ) -> None:
        args, kwargs = given.with_values(given.values)
        self.call = FlatCall(f, argnums, args, kwargs, False, verb)
        self.call.require("f", self.call.leaves, "real inputs", "Use fg.jacobian.")
        self.inputs = [typeof(leaf) for leaf in self.call.leaves]
        types = [t for t in given.types if t is not None and t.inexact]
        self._kind = kind
        if kind is reverse:
            vectors = [strong_type(t) for t in self._output_types(f, argnums, given, types)]
        else:
            vectors = [strong_type(t) for t in self.inputs]
        whole = self._staged(f, argnums, given, types, vectors)
        if not _apart(whole, len(types), len(self.outputs)):
            whole = self._staged(f, argnums, given, types, vectors, again=True)
        cut = split(whole, len(types), len(self.outputs), (), partial(_arrays, whole))
        self.product: Graph = cut.backward
        self.residuals = len(cut.backward.inputs) - len(vectors)
        self.first = first = cut.forward
        self._first: Jitted = jit(lambda *values: tuple(evaluate(first, values)))
        self._second: Jitted = jit(lambda *values: tuple(evaluate(self.product, values)))

    def _output_types(
        self, f: Callable[..., Any], argnums: Any, given: Arguments, types: Sequence[Type]
    ) -> list[Type]:
        def plain(*values: Any) -> Any:
            args, kwargs = given.with_values(values)
            call = FlatCall(f, argnums, args, kwargs, False, self.call.verb)
            return call.flat(*call.leaves)

        graph = stage(plain, types, [""] * len(types), self.call.label)
        return graph.output_types

    def _staged(
        self,
        f: Callable[..., Any],
        argnums: Any,
        given: Arguments,
        types: Sequence[Type],
        vectors: Sequence[Type],
        again: bool = False,
    ) -> Graph:
        """The Graph (values, vectors) -> (outputs, products).

        A loop or checkpointed function computes values and tangents together; with `again` the
        outputs are computed separately.
        """

        def whole(*values: Any) -> list[Any]:
            args, kwargs = given.with_values(values[: len(types)])
            call = FlatCall(f, argnums, args, kwargs, False, self.call.verb)
            outputs, products = self._kind(call, call.leaves, values[len(types) :])
            if again:
                outputs = call.flat(*call.leaves)
            self.structure = call.outputs
            self.outputs = [typeof(v) for v in outputs]
            if any(t.dtype.kind != "f" for t in self.outputs):
                call.require("f", outputs, "real outputs", "Use fg.jacobian.")
            shapes = self.outputs if self._kind is forward else self.inputs
            return [
                *outputs,
                *(
                    np.zeros(t.shape, t.dtype) if p is None else p
                    for p, t in zip(products, shapes, strict=True)
                ),
            ]

        names = [""] * (len(types) + len(vectors))
        return stage(whole, [*types, *vectors], names, self.call.label)

    def at(self, values: Sequence[Any]) -> tuple[Sequence[Any], Callable[[Sequence[Any]], Any]]:
        """The outputs at a point, and the function from vectors to products there."""
        result = self._first(*values)
        outputs, residuals = result[: len(self.outputs)], result[len(self.outputs) :]
        return outputs, lambda vectors: self._second(*residuals, *vectors)

    def traced_at(self, values: Sequence[Any]) -> Any:
        """What `at` returns, in a function that is traced: calls of the two Graphs."""
        result = call(*values, graph=self.first)
        outputs, residuals = result[: len(self.outputs)], result[len(self.outputs) :]
        return outputs, lambda vectors: call(*residuals, *vectors, graph=self.product)


FEW = 2_000
"""A star colouring is always tried up to so many columns: it takes a few ms."""

UNEVEN = 2.0
"""The ratio of colours to a row's mean entries above which a larger matrix is star-coloured."""


def columns(pattern: Pattern) -> np.ndarray:
    """Groups 0, 1, ... of columns, such that no two columns of a group share a row.

    Greedy: each column gets the first group that fits.
    """
    try:
        from scipy.optimize._numdiff import group_columns
    except ImportError:  # SciPy's function is private
        return _columns(pattern)
    if not pattern.shape[1]:
        return np.zeros(0, np.int64)
    groups = group_columns(pattern, order=np.arange(pattern.shape[1]))
    return np.asarray(groups, np.int64)


def _columns(pattern: Pattern) -> np.ndarray:
    """`columns` in plain Python."""
    of_column = pattern.tocsc()
    groups = np.zeros(pattern.shape[1], np.int64)
    used: list[set[int]] = [set() for _ in range(pattern.shape[0])]
    for j in range(pattern.shape[1]):
        rows = of_column.indices[of_column.indptr[j] : of_column.indptr[j + 1]]
        taken = set().union(*[used[i] for i in rows])
        group = 0
        while group in taken:
            group += 1
        groups[j] = group
        for i in rows:
            used[i].add(group)
    return groups


def star(pattern: Pattern) -> np.ndarray:
    """Groups of the columns of a symmetric matrix, such that each path of 4 columns has 3 colours.

    Columns i and j with an entry (i, j) have different colours. Greedy, by falling degree.
    """
    size = pattern.shape[0]
    indptr, indices = pattern.indptr.tolist(), pattern.indices.tolist()
    around = [[i for i in indices[indptr[v] : indptr[v + 1]] if i != v] for v in range(size)]
    colours = [-1] * size
    seen: list[dict[int, list[int]]] = [{} for _ in range(size)]
    """For each vertex its coloured neighbours, by colour."""
    closed: list[set[int]] = [set() for _ in range(size)]
    """For each coloured vertex the colours that would end a path of two colours through it."""
    for v in sorted(range(size), key=lambda v: -len(around[v])):
        taken = set()
        for w in around[v]:
            if colours[w] < 0:
                continue
            taken.add(colours[w])
            if len(seen[v][colours[w]]) > 1:
                taken.update(seen[w])  # w - v - w', w like w': v unlike w's neighbours
            else:
                taken |= closed[w]
        colour = 0
        while colour in taken:
            colour += 1
        colours[v] = colour
        for x in around[v]:
            same = seen[x].setdefault(colour, [])
            same.append(v)
            if colours[x] >= 0 and len(same) > 1:  # x lies between two of a colour
                for w in same if len(same) == 2 else (v,):
                    closed[w].add(colours[x])
        for same in seen[v].values():
            if len(same) > 1:
                for w in same:
                    closed[w].add(colour)
    return np.array(colours, np.int64)


def symmetric(pattern: Pattern) -> np.ndarray:
    """Groups of the columns of a symmetric matrix: a star colouring where it may have fewer.

    If all rows have about the same number of entries, plain column groups are hardly more, and are
    found much faster.
    """
    groups = columns(pattern)
    even = groups.max(initial=-1) + 1 <= UNEVEN * pattern.nnz / max(pattern.shape[0], 1)
    if not groups.size or (even and groups.size > FEW):
        return groups
    stars = star(pattern)
    return stars if stars.max() < groups.max() else groups


def colour(pattern: Any, kind: str = "columns") -> np.ndarray:
    """Groups of columns, or rows, of a sparse matrix that one product computes together.

    Args:
      pattern: a matrix, sparse or dense; its entries are those not zero.
      kind: "columns": no two columns of a group share a row; "rows": no two rows of a group share a
        column; "symmetric": each entry of a symmetric matrix can be read from one of two columns.

    Returns:
      An integer array with the group, 0, 1, ..., of each column (row).

    >>> colour(np.array([[1, 1, 0], [0, 1, 1]]))
    array([0, 1, 0])
    """
    matrix = scipy_sparse().csr_array(pattern)
    matrix = scipy_sparse().csr_array(matrix != 0)
    if kind == "columns":
        return columns(matrix)
    if kind == "rows":
        return columns(matrix.T.tocsr())
    if kind == "symmetric":
        if matrix.shape[0] != matrix.shape[1] or (matrix != matrix.T).nnz:
            raise ArgumentError(f"The pattern of shape {matrix.shape} is not symmetric.")
        return symmetric(matrix)
    raise ArgumentError(f'kind={kind!r} is not "columns", "rows" or "symmetric".')
