"""`closure_convert`: a function without closed-over traced values, which become its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fungrad.custom_rules.closures_and_arguments import captured
from fungrad.errors import StructureMismatchError
from fungrad.support import pytree
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import check_function, describe, user_line
from fungrad.tracing.transformed_function import boundary
from fungrad.transforms.arguments import Flat, flat_leaves


@boundary
def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Any, list[Any]]:
    """A function with its closed-over traced values as further arguments, as jax.closure_convert.

    >>> import fungrad as fg
    >>> def f(x):
    ...     square, values = closure_convert(lambda y: x * y**2, 1.0)
    ...     return square(3.0, *values)
    >>> float(fg.grad(f)(2.0))
    9.0

    A custom rule says how a function depends on its arguments alone: `fun`, given to a function
    with a custom rule, must not close over differentiated values.

    Args:
      fun: a function of trees of arrays and numbers.
      *example_args: arguments of the shapes and dtypes that the result is called with.

    Returns:
      The function `converted(*args, *values)`, and the list of the values, to pass after the
      arguments. The function is traced once, here.

    Raises:
      StructureMismatchError: if the function is called with other trees of arguments, or another
        number of values.
    """
    check_function(fun, "closure_convert")
    leaves, treedef = flat_leaves(example_args)
    flat = Flat(lambda values: fun(*pytree.unflatten(treedef, values)))
    graph, values = captured(flat, leaves, fun)
    out_def = flat.out

    @boundary
    def converted(*args: Any) -> Any:
        count = len(args) - len(values)
        given, given_def = flat_leaves(args[: max(count, 0)])
        if count < 0 or given_def != treedef:
            raise StructureMismatchError(
                f"The function that closure_convert made of {describe(fun)} was called with "
                f"{len(args)} arguments{user_line()}. It takes {len(example_args)}, of the trees "
                f"that it was made with, and then the {len(values)} values that were closed over."
            )
        return pytree.unflatten(out_def, evaluate(graph, [*args[count:], *given]))

    return converted, values
