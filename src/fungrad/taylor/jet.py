"""The public verbs of Taylor mode: jet, nth_derivative.

They flatten trees, check arguments, run the function along a curve, and rebuild trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.errors import ArgumentError, ShapeError, StructureMismatchError
from fungrad.primitives.elementwise.family import fit
from fungrad.primitives.primitive import full, zeros
from fungrad.retracing.graph_transforms import strong_type
from fungrad.support import pytree
from fungrad.taylor.taylor_trace import along
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import EVAL, current, shape_of, typeof
from fungrad.tracing.transformed_function import TransformedFunction, boundary
from fungrad.transforms.arguments import (
    Flat,
    argument_name,
    differentiable,
    flat_leaves,
    has_type,
    leaf_type,
    matching,
    owned,
    rebuilt,
    refuse_leaf,
)


@boundary
def jet(f: Callable[..., Any], primals: Sequence[Any], series: Sequence[Any]) -> tuple[Any, Any]:
    """Evaluates f and its derivatives along a curve, up to some order, at once (Taylor mode).

    >>> import numpy as np
    >>> value, (first, second, third) = jet(np.exp, (0.0,), ([1.0, 0.0, 0.0],))
    >>> float(first), float(second), float(third)
    (1.0, 1.0, 1.0)

    The curve is x(t) = primal + sum_k series[k-1] t^k / k!; the results are f(x(0)) and the
    derivatives of f(x(t)) at t = 0. The cost grows with the square of the order; that of nested
    `jvp` doubles with each order.

    Args:
      f: a pure function of trees that returns a tree.
      primals: its arguments, as a sequence.
      series: for each primal a sequence of its derivatives of order 1, 2, ..., each a tree like the
        primal; None for a constant argument. All have the same length.

    Returns:
      (output, series): the second is a tree like the output, with a list of arrays in place of each
      leaf.

    Raises:
      ArgumentError, StructureMismatchError.
    """
    if len(primals) != len(series):
        raise StructureMismatchError(
            f"{len(primals)} primals, but {len(series)} series were given."
        )
    orders = {len(terms) for terms in series if terms is not None}
    if len(orders) > 1:
        raise ArgumentError(
            f"All series have to be of one length, not of the lengths {sorted(orders)}."
        )
    order = orders.pop() if orders else 0
    leaves: list[Any] = []
    derivatives: list[list[Any]] = []
    treedefs = []
    for position, (primal, terms) in enumerate(zip(primals, series, strict=True)):
        part, treedef = flat_leaves(primal)
        what = f"series of {argument_name(f, position)}"
        given = [
            [None] * len(part) if t is None else pytree.match(treedef, t, what)
            for t in terms or [None] * order
        ]
        for i, leaf in enumerate(part):
            leaves.append(leaf)
            derivatives.append([matching(term[i], leaf_type(leaf), "series") for term in given])
        treedefs.append(treedef)
    flat = Flat(lambda values: f(*rebuilt(values, treedefs)))
    values, coefficients = along(flat, leaves, derivatives, order, lambda: f"jet of {describe(f)}")
    given_terms = [term for terms in derivatives for term in terms]
    full = [
        _arrays(value, terms, given_terms)
        for value, terms in zip(values, coefficients, strict=True)
    ]
    return pytree.unflatten(flat.out, values), pytree.unflatten(flat.out, full)


def _arrays(value: Any, terms: Sequence[Any], foreign: Sequence[Any] = ()) -> list[Any]:
    """The derivatives of a value as arrays of its type."""
    if not has_type(value):
        return [None for _ in terms]
    type_ = strong_type(typeof(value))
    result = [zeros(type_) if term is None else fit(term, type_) for term in terms]
    return owned(result, foreign) if current() is EVAL else result


def nth_derivative(f: Callable[..., Any], n: int) -> Callable[..., Any]:
    """The n-th derivative of a function of one number, or of every element, in one Taylor run.

    >>> import numpy as np
    >>> round(float(nth_derivative(np.exp, 8)(0.0)), 12)
    1.0
    >>> nth_derivative(lambda x: x**5, 4)(np.array([1.0, 2.0]))
    array([120., 240.])

    Args:
      f: a function whose first argument is a number, with output of any shape, or an array, with
        output of the same shape, each element of which depends on its own input element only.
      n: the order, at least 0.

    Returns:
      A function with f's arguments that returns the derivative in place of f's output.

    Raises:
      ArgumentError, ShapeError, NonDifferentiableInputError.
    """
    if type(n) is not int or n < 0:
        raise ArgumentError(f"nth_derivative takes an order n of at least 0, not {n!r}.")
    if n == 0:
        return f

    def run(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not differentiable(x):
            raise refuse_leaf(x, argument_name(f, 0), "nth_derivative")
        type_ = strong_type(typeof(x))
        direction = full(shape=type_.shape, value=1, dtype=type_.dtype)
        flat = Flat(lambda values: f(*values, *args, **kwargs))
        values, coefficients = along(
            flat,
            [x],
            [[direction, *[None] * (n - 1)]],
            n,
            lambda: f"nth_derivative of {describe(f)}",
        )
        for value in values:
            if type_.shape and shape_of(value) != type_.shape:
                raise ShapeError(
                    f"nth_derivative of {describe(f)}: the output has shape {shape_of(value)}, the "
                    f"argument {type_.shape}, so f is not elementwise. Use jet along a direction."
                )
        last = [
            _arrays(value, terms)[-1] for value, terms in zip(values, coefficients, strict=True)
        ]
        return pytree.unflatten(flat.out, last)

    return TransformedFunction(run, nth_derivative, f, n)
