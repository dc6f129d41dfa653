"""The derivative of one call as two compiled programs: what depends on the point, and the product.

A Jacobian's products with vectors share what does not depend on the vector: the first program
computes the outputs and the residuals, once for each point; the second one product from these.
Integers and booleans among the arguments are part of the programs: indices and masks decide the
pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from fungrad.compiler.jit import Jitted, jit
from fungrad.errors import ArgumentError
from fungrad.ir.graph import Equation, Graph, Literal
from fungrad.ir.types import Type
from fungrad.retracing.graph_transforms import split, strong
from fungrad.support import pytree
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import shape_of, typeof
from fungrad.transforms.arguments.binding import flat_leaves, leaf_type
from fungrad.transforms.engine.forward import pushed_forward
from fungrad.transforms.engine.reverse import linearized
from fungrad.transforms.jacobian import Call

Product = Callable[[Call, Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]
"""(call, leaves, vectors) -> (outputs, products), traced."""


def forward(call: Call, leaves: Sequence[Any], vectors: Sequence[Any]) -> Any:
    """The outputs, and the Jacobian times vectors of the inputs' shapes."""
    return pushed_forward(call.flat, leaves, vectors, call.label)


def reverse(call: Call, leaves: Sequence[Any], vectors: Sequence[Any]) -> Any:
    """The outputs, and vectors of the outputs' shapes times the Jacobian."""
    values, pullback = linearized(call.flat, leaves, call.label)
    return values, pullback(vectors)


def second(call: Call, leaves: Sequence[Any], vectors: Sequence[Any]) -> Any:
    """No outputs, and the Hessian of a number times vectors of the inputs' shapes."""

    def gradient(*values: Any) -> list[Any]:
        outputs, pullback = linearized(call.flat, values, call.label)
        if len(outputs) != 1 or shape_of(outputs[0]) or typeof(outputs[0]).dtype.kind != "f":
            raise ArgumentError(
                f"{call.verb} needs a function that returns one real number, but "
                f"{describe(call.f)} returned {', '.join(str(typeof(v)) for v in outputs)}."
            )
        found = pullback([np.ones((), typeof(outputs[0]).dtype)])
        return [
            np.zeros(shape_of(v), typeof(v).dtype) if g is None else g
            for v, g in zip(values, found, strict=True)
        ]

    return (), pushed_forward(gradient, leaves, vectors, call.label)[1]


def _apart(whole: Graph, known: int, outputs: int) -> bool:
    """Whether no output of a joint Graph is computed by an equation that vectors reach."""
    reached = {id(v) for v in whole.inputs[known:]}
    for equation in whole.equations:
        if any(id(atom) in reached for atom in equation.inputs):
            reached.update(map(id, equation.outputs))
    return reached.isdisjoint(map(id, whole.outputs[:outputs]))


def _arrays(whole: Graph, equations: Sequence[Equation]) -> set[int]:
    """The equations whose results are handed on: not records of loops, which are made anew, nor
    what follows from numbers alone, which the optimiser makes part of the product."""
    found: set[int] = set()
    fixed = {id(v) for v, _ in whole.constants if not v.type.shape}
    for e in equations:
        if all(isinstance(atom, Literal) or id(atom) in fixed for atom in e.inputs):
            fixed.update(map(id, e.outputs))
        elif all(v.type.dtype.kind != "O" for v in e.outputs):
            found.add(id(e))
    return found


class Arguments:
    """The leaves of one call: those that a program takes, and those that are part of it."""

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.leaves, self.treedef = flat_leaves((tuple(args), kwargs))
        self.types = [leaf_type(leaf) for leaf in self.leaves]
        self.taken = [t is not None and t.inexact for t in self.types]
        self.values = [x for x, t in zip(self.leaves, self.taken, strict=True) if t]

    @property
    def key(self) -> Any:
        """A key that differs for calls that need programs of their own."""
        fixed = [
            x.tobytes() if isinstance(x, np.ndarray) else x
            for x, taken in zip(self.leaves, self.taken, strict=True)
            if not taken
        ]
        return self.treedef, tuple(self.types), tuple(fixed)

    def with_values(self, values: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """The arguments with other values in place of the floating ones."""
        given = iter(values)
        leaves = [next(given) if t else x for x, t in zip(self.leaves, self.taken, strict=True)]
        args, kwargs = pytree.unflatten(self.treedef, leaves)
        return args, kwargs


class Derivative:
    """The two programs for the derivative of f at arguments of some types.

    Attributes:
      inputs, outputs: the types of the differentiated leaves, and of the outputs' leaves.
      product: the Graph (residuals, vectors) -> products.
      residuals: the number of residuals.
    """

    def __init__(
        self, f: Callable[..., Any], argnums: Any, given: Arguments, verb: str, kind: Product
    ) -> None:
        args, kwargs = given.with_values(given.values)
        self.call = Call(f, argnums, args, kwargs, False, verb)
        self.call.require("f", self.call.leaves, "real inputs", "Use fg.jacobian.")
        self.inputs = [typeof(leaf) for leaf in self.call.leaves]
        types = [t for t in given.types if t is not None and t.inexact]
        self._kind = kind
        if kind is reverse:
            vectors = [strong(t) for t in self._output_types(f, argnums, given, types)]
        else:
            vectors = [strong(t) for t in self.inputs]
        whole = self._staged(f, argnums, given, types, vectors)
        if not _apart(whole, len(types), len(self.outputs)):
            whole = self._staged(f, argnums, given, types, vectors, again=True)
        cut = split(whole, len(types), len(self.outputs), (), partial(_arrays, whole))
        self.product: Graph = cut.backward
        self.residuals = len(cut.backward.inputs) - len(vectors)
        first = cut.forward
        self._first: Jitted = jit(lambda *values: tuple(evaluate(first, values)))
        self._second: Jitted = jit(lambda *values: tuple(evaluate(self.product, values)))

    def _output_types(
        self, f: Callable[..., Any], argnums: Any, given: Arguments, types: Sequence[Type]
    ) -> list[Type]:
        def plain(*values: Any) -> Any:
            args, kwargs = given.with_values(values)
            call = Call(f, argnums, args, kwargs, False, self.call.verb)
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

        A loop or checkpointed function gives values and tangents together; with `again` the outputs
        are computed apart from them.
        """

        def whole(*values: Any) -> list[Any]:
            args, kwargs = given.with_values(values[: len(types)])
            call = Call(f, argnums, args, kwargs, False, self.call.verb)
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
        """The outputs at a point, and the function of vectors that gives the products there."""
        found = self._first(*values)
        outputs, residuals = found[: len(self.outputs)], found[len(self.outputs) :]
        return outputs, lambda vectors: self._second(*residuals, *vectors)


__all__ = ["Arguments", "Derivative"]
