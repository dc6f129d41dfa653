"""The family `multilinear`, and the contraction `dot_general`, of which all products of arrays are
composed.

A multilinear primitive is linear in each argument alone. One adjoint is declared for each; the vjp
(of the wanted arguments only) and the jvp (a sum, with one tangent in each term) are derived.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Unpack

import numpy as np

from fungrad.errors import ShapeError
from fungrad.ir.graph import Equation
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import fit_to
from fungrad.primitives.facts import TERMS, Facts, factor_of_complex
from fungrad.primitives.movement.reshape_broadcast_cast import moveaxis, transpose
from fungrad.primitives.primitive import Primitive, Rule
from fungrad.tracing.trace import Tracer, leaked, shape_of

Axes = tuple[int, ...]
Pair = tuple[Axes, Axes]


def multilinear(
    name: str,
    *,
    eval: Rule,
    type: Rule,
    adjoints: Sequence[Rule],
    batch: Rule | None = None,
    **facts: Unpack[Facts],
) -> Primitive:
    """Declares a primitive that is linear in each of its arguments (products, contractions).

    Args:
      name: its name in the IR.
      eval: the function on NumPy values.
      type: the type rule.
      adjoints: one for each argument, `adjoint(cotangent, *args, **params)`: the cotangent of that
        argument. It may have another dtype and more axes; the backward walk casts and sums it.
      batch: the batch rule; by default a loop over the axis.
      facts: see `Primitive`.

    >>> import fungrad as fg
    >>> product = multilinear(
    ...     "product", eval=lambda x, y: x * y, type=lambda x, y: x,
    ...     adjoints=[lambda c, x, y: c * y, lambda c, x, y: c * x],
    ... )
    >>> float(fg.grad(product)(2.0, 5.0))
    5.0
    """
    adjoints = tuple(adjoints)

    def vjp(cotangent: Any, output: Any, args: Any, wanted: Any, **params: Any) -> list[Any]:
        return [
            adjoint(cotangent, *args, **params) if want else None
            for want, adjoint in zip(wanted, adjoints, strict=True)
        ]

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        output = primitive(*primals, **params)
        total: Any = None
        for i, tangent in enumerate(tangents):
            if tangent is not None:
                term = primitive(*primals[:i], tangent, *primals[i + 1 :], **params)
                total = term if total is None else total + term
        return output, None if total is None else fit_to(total, output)

    primitive: Primitive = Primitive(
        name,
        eval=eval,
        type=type,
        jvp=jvp,
        vjp=vjp,
        batch=batch,
        degree="multilinear",
        **facts,
    )
    return primitive


# --- the axes of a contraction --------------------------------------------------------------------


def _free(ndim: int, batch: Axes, contract: Axes) -> Axes:
    return tuple(i for i in range(ndim) if i not in batch and i not in contract)


def _type_dot(x: Type, y: Type, *, contract: Pair, batch: Pair) -> Type:
    _check_lengths(x.shape, y.shape, contract, batch)
    shape = (
        *(x.shape[i] for i in batch[0]),
        *(x.shape[i] for i in _free(x.ndim, batch[0], contract[0])),
        *(y.shape[i] for i in _free(y.ndim, batch[1], contract[1])),
    )
    dtype = x.dtype if x.dtype == y.dtype else np.result_type(x.dtype, y.dtype)
    return Type(shape, dtype)


def _check_lengths(x: Axes, y: Axes, contract: Pair, batch: Pair) -> None:
    for pair in (contract, batch):
        for i, j in zip(*pair, strict=True):
            if x[i] != y[j]:
                raise ShapeError(
                    f"Arrays of shapes {x} and {y} cannot be multiplied: axis {i} of the first has "
                    f"length {x[i]}, the corresponding axis {j} of the second has length {y[j]}."
                )


# --- evaluation: each layout of axes has a kernel, which calls BLAS -------------------------------


def scales(x: Any, y: Any) -> bool:
    """Whether one operand of a product has one element, and the other not.

    `ndarray.dot` would scale an array by a number then, and BLAS would compute 0 times NaN as 0.
    """
    return (x.size == 1) is not (y.size == 1)


def _dot(x: Any, y: Any) -> Any:
    return np.matmul(x, y) if scales(x, y) else x.dot(y)


@lru_cache(maxsize=1024)
def _kernel(nx: int, ny: int, contract: Pair, batch: Pair) -> Callable[[Any, Any], Any]:
    """The fastest NumPy call for a layout.

    On tiny arrays of at most two axes `ndarray.dot` takes half the time of np.matmul; it copies
    operands that BLAS cannot read.
    """
    if not batch[0]:
        if not contract[0]:
            return _outer_kernel(nx, ny)
        if len(contract[0]) == 1 and nx <= 2 and ny <= 2:
            first = contract[0][0] == nx - 1
            second = contract[1][0] == 0
            if first and second:
                return _dot
            if first:
                return lambda x, y: _dot(x, y.T)
            if second:
                return lambda x, y: _dot(x.T, y)
            return lambda x, y: _dot(x.T, y.T)
        return _flat_kernel(nx, ny, contract)
    return _batched_kernel(nx, ny, contract, batch)


def _outer_kernel(nx: int, ny: int) -> Callable[[Any, Any], Any]:
    if nx == 0 or ny == 0:
        return lambda x, y: np.multiply(x, y)
    column = (..., *([None] * ny))
    return lambda x, y: x[column] * y


def _flat_kernel(nx: int, ny: int, contract: Pair) -> Callable[[Any, Any], Any]:
    """Reshapes both operands to matrices, multiplies them, and restores the axes."""
    free_x, free_y = _free(nx, (), contract[0]), _free(ny, (), contract[1])

    def kernel(x: Any, y: Any) -> Any:
        _check_lengths(x.shape, y.shape, contract, ((), ()))
        shape_x = [x.shape[i] for i in free_x]
        shape_y = [y.shape[i] for i in free_y]
        left, right = _matrix(x, free_x, contract[0]), _matrix(y, contract[1], free_y)
        return _dot(left, right).reshape((*shape_x, *shape_y))

    return kernel


def _matrix(x: Any, rows: Axes, columns: Axes) -> Any:
    """An array as a matrix. If that takes a copy, the copy has in its rows what lies together in
    memory: windows of images are rows of images, not of windows.
    """
    shape = [math.prod([x.shape[i] for i in axes]) for axes in (rows, columns)]
    if _run(x, rows) > _run(x, columns):
        return x.transpose((*columns, *rows)).reshape(shape[::-1]).T
    return x.transpose((*rows, *columns)).reshape(shape)


def _run(x: Any, axes: Axes) -> int:
    """The number of elements that lie together in memory along the last of some axes."""
    return x.shape[axes[-1]] if axes and x.strides[axes[-1]] == x.itemsize else 1


def _batched_kernel(nx: int, ny: int, contract: Pair, batch: Pair) -> Callable[[Any, Any], Any]:
    free_x, free_y = _free(nx, batch[0], contract[0]), _free(ny, batch[1], contract[1])
    if not contract[0]:
        return _batched_outer_kernel(free_x, free_y, batch)
    order_x, order_y = (*batch[0], *free_x, *contract[0]), (*batch[1], *contract[1], *free_y)
    single = len(contract[0]) == 1
    if single and not free_x and not free_y:
        order_y = (*batch[1], *contract[1])

        def rows(x: Any, y: Any) -> Any:
            x = x.transpose(order_x)
            y = y.transpose(order_y)
            if x.dtype.kind == "c":  # np.vecdot would conjugate
                return np.matmul(x[..., None, :], y[..., None])[..., 0, 0]
            return np.vecdot(x, y)

        return rows
    if single and len(free_x) == 1 and len(free_y) == 1:
        return lambda x, y: np.matmul(
            _for_blas(x.transpose(order_x)), _for_blas(y.transpose(order_y))
        )

    def kernel(x: Any, y: Any) -> Any:
        _check_lengths(x.shape, y.shape, contract, batch)
        shape_batch = [x.shape[i] for i in batch[0]]
        shape_x = [x.shape[i] for i in free_x]
        shape_y = [y.shape[i] for i in free_y]
        length = math.prod([x.shape[i] for i in contract[0]])
        left = x.transpose(order_x).reshape(*shape_batch, math.prod(shape_x), length)
        right = y.transpose(order_y).reshape(*shape_batch, length, math.prod(shape_y))
        return np.matmul(_for_blas(left), _for_blas(right)).reshape(
            *shape_batch, *shape_x, *shape_y
        )

    return kernel


def _for_blas(x: Any) -> Any:
    """A stack of matrices that BLAS can read: x, or a copy.

    NumPy before 2.3 multiplies other matrices in its own loops, 10 to 50 times slower; the
    cotangent of a sum, which has strides of 0, is one of them.
    """
    size, (rows, columns), (by_row, by_column) = x.itemsize, x.shape[-2:], x.strides[-2:]
    if by_column == size and by_row >= size * columns:
        return x
    if by_row == size and by_column >= size * rows:
        return x
    return np.ascontiguousarray(x)


def _batched_outer_kernel(free_x: Axes, free_y: Axes, batch: Pair) -> Callable[[Any, Any], Any]:
    order_x, order_y = (*batch[0], *free_x), (*batch[1], *free_y)
    behind_x = (..., *([None] * len(free_y)))
    behind_y = (*([slice(None)] * len(batch[0])), *([None] * len(free_x)), ...)
    return lambda x, y: x.transpose(order_x)[behind_x] * y.transpose(order_y)[behind_y]


def _eval_dot(x: Any, y: Any, *, contract: Pair, batch: Pair) -> Any:
    if type(x) is Tracer or type(y) is Tracer:  # a tracer's method `dot` would call this again
        raise leaked(x if type(x) is Tracer else y)
    return _kernel(x.ndim, y.ndim, contract, batch)(x, y)


# --- adjoints: contractions of the cotangent with the other argument ------------------------------


@lru_cache(maxsize=1024)
def _adjoint_plan(
    nx: int, ny: int, contract: Pair, batch: Pair, left: bool = True
) -> tuple[bool, Pair, Pair, Axes | None]:
    """The product of `ct` and y that is the cotangent of x. With `left` ct is its first operand
    where neither order leaves the axes of x as they are.

    Returns whether ct is its first operand, its contract and batch axes, and the permutation to the
    axes of x (None if they are in order).
    """
    free_x, free_y = _free(nx, batch[0], contract[0]), _free(ny, batch[1], contract[1])
    count = len(batch[0])
    start = count + len(free_x)
    ct_batch, ct_y = tuple(range(count)), tuple(range(start, start + len(free_y)))
    # Either product leaves the batch axes, then x's free axes, and its contracted ones in y's
    # order.
    in_order_of_y = tuple(i for _, i in sorted(zip(contract[1], contract[0], strict=True)))
    layouts = ((*batch[0], *free_x, *in_order_of_y), (*batch[0], *in_order_of_y, *free_x))
    canonical = tuple(range(nx))
    first = layouts.index(canonical) == 0 if canonical in layouts else left
    layout = layouts[0] if first else layouts[1]
    permutation = None
    if layout != canonical:
        permutation = tuple(layout.index(i) for i in range(nx))
    if first:
        return True, (ct_y, free_y), (ct_batch, batch[1]), permutation
    return False, (free_y, ct_y), (batch[1], ct_batch), permutation


def _adjoint_x(ct: Any, x: Any, y: Any, *, contract: Pair, batch: Pair) -> Any:
    if not shape_of(ct):
        return _scaled(ct, y, contract)
    return _planned(ct, y, _adjoint_plan(len(shape_of(x)), len(shape_of(y)), contract, batch))


def _planned(ct: Any, y: Any, plan: tuple[bool, Pair, Pair, Axes | None]) -> Any:
    """The cotangent of x by a plan."""
    first, pair, batches, permutation = plan
    result = dot_general(*((ct, y) if first else (y, ct)), contract=pair, batch=batches)
    return result if permutation is None else transpose(result, axes=permutation)


def _scaled(ct: Any, y: Any, contract: Pair) -> Any:
    """The cotangent of x if all axes are contracted: y scaled, with its axes in x's order."""
    if len(contract[0]) <= 1:
        return y * ct
    return transpose(y * ct, axes=tuple(j for _, j in sorted(zip(*contract, strict=True))))


def _adjoint_y(ct: Any, x: Any, y: Any, *, contract: Pair, batch: Pair) -> Any:
    if not shape_of(ct):
        return _scaled(ct, x, (contract[1], contract[0]))
    return _planned(ct, x, _adjoint_plan_y(len(shape_of(x)), len(shape_of(y)), contract, batch))


@lru_cache(maxsize=1024)
def _adjoint_plan_y(
    nx: int, ny: int, contract: Pair, batch: Pair
) -> tuple[bool, Pair, Pair, Axes | None]:
    """As `_adjoint_plan`, for y: its arguments are exchanged, the axes of ct are not."""
    count = len(batch[0])
    free_x = len(_free(nx, batch[0], contract[0]))
    first, pair, batches, permutation = _adjoint_plan(
        ny, nx, (contract[1], contract[0]), (batch[1], batch[0]), left=False
    )
    ct_x = tuple(range(count, count + free_x))
    pair = (ct_x, pair[1]) if first else (pair[0], ct_x)
    return first, pair, batches, permutation


# --- batching -------------------------------------------------------------------------------------


def _shift(axes: Axes) -> Axes:
    return tuple(i + 1 for i in axes)


def _batch_dot(args: Any, batched: Any, size: int, *, contract: Pair, batch: Pair) -> Any:
    x, y = args
    if all(batched):
        contract = (_shift(contract[0]), _shift(contract[1]))
        batch = ((0, *_shift(batch[0])), (0, *_shift(batch[1])))
        return dot_general(x, y, contract=contract, batch=batch)
    count = len(batch[0])
    if batched[0]:
        contract, batch = (_shift(contract[0]), contract[1]), (_shift(batch[0]), batch[1])
        return moveaxis(dot_general(x, y, contract=contract, batch=batch), count, 0)
    contract, batch = (contract[0], _shift(contract[1])), (batch[0], _shift(batch[1]))
    free_x = len(shape_of(x)) - len(contract[0]) - count
    free_y = len(shape_of(y)) - len(contract[1]) - count - 1
    if count == 0 and free_y == 0:
        return dot_general(y, x, contract=(contract[1], contract[0]), batch=batch)
    return moveaxis(dot_general(x, y, contract=contract, batch=batch), count + free_x, 0)


def _cost_of_dot(equation: Equation) -> float:
    """2 m n k, a product and a sum each (Golub and Van Loan, Matrix Computations, 1.1)."""
    x = equation.inputs[0].type
    inner: int = math.prod([x.shape[axis] for axis in equation.params["contract"][0]])
    return 2 * equation.outputs[0].type.size * inner * factor_of_complex(equation)


dot_general: Primitive = multilinear(
    "dot_general",
    rounding=TERMS,
    fresh=True,
    order="example",
    cost=_cost_of_dot,
    eval=_eval_dot,
    type=_type_dot,
    adjoints=[_adjoint_x, _adjoint_y],
    batch=_batch_dot,
)
"""`dot_general(x, y, contract=(axes of x, of y), batch=(axes of x, of y))`: the sum of products
over the contracted axes, for each index of the batch axes. The axes of the result are the batch
axes as listed, then the free axes of x, then those of y, in ascending order. Complex numbers are
not conjugated."""
