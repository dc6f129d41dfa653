"""JAX's products of arrays: dot_general, dot and batch_matmul."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.numpy.protocol.operands import array_of, axis_indices
from fungrad.primitives.contraction import dot_general as contracting
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of


def dot_general(
    lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """The sum of products over the contracted axes, for each index of the batch axes.

    Args:
      lhs, rhs: arrays. dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of
        rhs)). precision: ignored; products have the full precision of their dtype.
      preferred_element_type: the dtype to compute in.

    Returns:
      An array whose axes are the batch axes, the others of lhs, the others of rhs.

    >>> dot_general(np.ones((2, 3)), np.ones((3, 4)), (([1], [0]), ([], []))).shape
    (2, 4)
    """
    x, y = array_of(lhs), array_of(rhs)
    if preferred_element_type is not None:
        x, y = s.cast(x, preferred_element_type), s.cast(y, preferred_element_type)
    (cx, cy), (bx, by) = dimension_numbers
    nx, ny = len(shape_of(x)), len(shape_of(y))
    contract = (axis_indices(tuple(cx), nx), axis_indices(tuple(cy), ny))
    batch = (axis_indices(tuple(bx), nx), axis_indices(tuple(by), ny))
    if any(len(a) != len(b) for a, b in (contract, batch)):
        raise ArgumentError(f"dimension_numbers={dimension_numbers}{user_line()} are not in pairs.")
    return contracting.dot_general(x, y, contract=contract, batch=batch)


def dot(
    lhs: Any, rhs: Any, *, dimension_numbers: Any = None, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: None = None,
) -> Any:  # fmt: skip
    """The product of vectors and matrices; with `dimension_numbers`, `dot_general`.

    Args:
      lhs, rhs: vectors or matrices; with `dimension_numbers` arrays of any shape.
      dimension_numbers: ((lhs contracted, rhs contracted), (lhs batch, rhs batch)), axes of each.
      precision: ignored: products have the precision of their dtype.
      preferred_element_type: the dtype of the result.
      out_sharding: None.

    >>> float(dot(np.array([1.0, 2.0]), np.array([3.0, 4.0])))
    11.0
    """
    x, y = array_of(lhs), array_of(rhs)
    if dimension_numbers is None:
        nx, ny = len(shape_of(x)), len(shape_of(y))
        if not (1 <= nx <= 2 and 1 <= ny <= 2):
            raise ShapeError(
                f"lax.dot of arrays of shapes {shape_of(x)} and {shape_of(y)}{user_line()}: it "
                "takes vectors and matrices; lax.dot_general takes any."
            )
        dimension_numbers = (([nx - 1], [0]), ([], []))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """The products of two stacks of matrices with the same leading axes.

    Args:
      lhs: shape (..., n, k).
      rhs: shape (..., k, m), with the same leading axes.
      precision: ignored: products have the precision of their dtype.

    >>> batch_matmul(np.ones((2, 3, 4)), np.ones((2, 4, 5))).shape
    (2, 3, 5)
    """
    x, y = array_of(lhs), array_of(rhs)
    if shape_of(x)[:-2] != shape_of(y)[:-2] or min(len(shape_of(x)), len(shape_of(y))) < 2:
        raise ShapeError(
            f"lax.batch_matmul of stacks of shapes {shape_of(x)} and {shape_of(y)}{user_line()}: "
            "the leading axes have to be the same. np.matmul broadcasts."
        )
    return np.matmul(x, y)


__all__ = ["batch_matmul", "dot", "dot_general"]
