"""Wrappers of functions for those of scipy.linalg, and checks of arguments.

Outside of transforms SciPy's own functions are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.linalg_products import Error, common, matrices, squares
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.linalg.finite import finite
from fungrad.scipy import optional
from fungrad.tracing.source_location import user_line

la = optional.scipy_module("scipy.linalg")
stands_for = optional.stands_for("scipy.linalg")


def refuse(function: str, advice: str, **arguments: Any) -> None:
    """Refuses arguments that are not None, False or empty.

    Raises:
      UnsupportedArgumentError: with the function, the argument and the advice.
    """
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise UnsupportedArgumentError(
                f"scipy.linalg.{function} was called with {name}={value!r} on a traced "
                f"value{user_line()}, which has no derivative here. {advice}"
            )


def read(name: str, *arrays: Any, check_finite: bool = True, square: bool = True) -> list[Any]:
    """Matrices cast to the dtype of the computation, as in SciPy.

    Raises:
      ValueError: if check_finite, and a number is not finite.
      numpy.linalg.LinAlgError: if a matrix is not square, or has too few axes.
    """
    stacks = squares(name, *arrays) if square else matrices(name, *arrays)
    stacks = common(stacks)
    return [finite(x) for x in stacks] if check_finite else stacks


def right_side(a: Any, b: Any, check_finite: bool = True) -> tuple[Any, Any, bool]:
    """A matrix and a right-hand side of its dtype, as columns, and whether it was a vector.

    Raises:
      ValueError: if their numbers of rows differ.
    """
    b = array_of(b)
    a, b = common([a, b])
    vector = len(b.shape) == 1
    rows = b.shape[0] if vector else b.shape[-2]
    if rows != a.shape[-1]:
        raise ValueError(f"shapes of a {a.shape} and b {b.shape} are incompatible")
    b = finite(b) if check_finite else b
    return a, b[..., None] if vector else b, vector


def each(function: Callable[..., Any], outputs: int, *arrays: Any) -> Any:
    """Applies a function of single matrices over the broadcast leading axes of arrays.

    Returns:
      A list of `outputs` arrays.
    """
    leading = np.broadcast_shapes(*[a.shape[:-2] for a in arrays])
    stacks = [np.broadcast_to(a, (*leading, *a.shape[-2:])) for a in arrays]
    results: list[list[Any]] = [[] for _ in range(outputs)]
    for index in np.ndindex(*leading):
        result = function(*[s[index] for s in stacks])
        for column, value in zip(results, result if outputs > 1 else (result,), strict=True):
            column.append(value)
    return [np.array(column).reshape(*leading, *np.shape(column[0])) for column in results]


__all__ = ["Error", "each", "finite", "la", "read", "refuse", "right_side", "stands_for"]
