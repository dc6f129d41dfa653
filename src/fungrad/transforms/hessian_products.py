"""Products with Hessians and Gauss-Newton matrices, and elementwise derivatives.

All are compositions of the transforms below. Knows their flat forms and public verbs; knows no
primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ShapeError, StructureMismatchError
from fungrad.ir.types import Type
from fungrad.primitives.primitive import zeros
from fungrad.support import pytree
from fungrad.tracing.captured_arrays import Residuals
from fungrad.tracing.source_location import boundary, describe
from fungrad.tracing.trace import EVAL, current, shape_of, typeof
from fungrad.tracing.transformed_function import Transformed
from fungrad.transforms.arguments.binding import check_differentiated, owned
from fungrad.transforms.engine.reverse import linearized
from fungrad.transforms.grad import grad, jvp, vjp
from fungrad.transforms.jacobian import Call


@boundary
def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
    """The Hessian of f times a vector, without the Hessian: forward mode over reverse mode.

    Args:
      f: a pure function of trees that returns one real number.
      primals: its arguments, as a sequence; all are differentiated.
      tangents: one tree for each primal, as in `jvp`.

    Returns:
      A tuple with one tree for each primal. It costs a small multiple of one gradient.

    >>> import numpy as np
    >>> hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
    (array([ 6., 12.]),)
    """
    gradient = grad(f, argnums=tuple(range(len(primals))))
    product: tuple[Any, ...] = jvp(gradient, primals, tangents)[1]
    return product


@boundary
def gauss_newton_product(
    f: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    loss: Callable[[Any], Any] | None = None,
) -> tuple[Any, ...]:
    """The Gauss-Newton matrix J' H J times a vector: J of f, H the Hessian of a loss at f's output.

    Positive semidefinite for a convex loss, and without f's second derivatives (Schraudolph, Fast
    curvature matrix-vector products, Neural Computation 14, 2002).

    Args:
      f: a pure function of trees that returns a tree of real arrays (residuals, logits).
      primals: its arguments, as a sequence; all are differentiated.
      tangents: one tree for each primal, as in `jvp`.
      loss: a function of f's output that returns one number; by default half the sum of squares,
        for which H is the identity.

    Returns:
      A tuple with one tree for each primal.

    >>> import numpy as np
    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gauss_newton_product(lambda x: a @ x, (np.zeros(2),), (np.array([1.0, 0.0]),))
    (array([10., 14.]),)
    """
    out, pushed = jvp(f, primals, tangents)
    if loss is not None:
        (pushed,) = hvp(loss, (out,), (pushed,))
    _, pullback = vjp(f, *primals)
    product: tuple[Any, ...] = pullback(pushed)
    return product


def elementwise_grad(
    f: Callable[..., Any], argnums: int | str | Sequence[int | str] = 0
) -> Callable[..., Any]:
    """The derivative of an elementwise function at every element, by one reverse pass.

    It is the gradient of the sum of f's output, which is the derivative of each element where each
    output element depends on its own input element only. May be applied again and again.

    Args:
      f: a function that takes and returns arrays of one shape.
      argnums: which argument, or arguments, to differentiate with respect to; each of the output's
        shape.

    Raises:
      ShapeError: where f's output has another shape than the argument, so that it is
        not elementwise.

    >>> import numpy as np
    >>> elementwise_grad(np.sin)(np.array([0.0, np.pi]))
    array([ 1., -1.])
    """

    check_differentiated(f, argnums, "elementwise_grad")

    def run(*args: Any, **kwargs: Any) -> Any:
        call = Call(f, argnums, args, kwargs, False, "elementwise_grad")
        keeper = Residuals(copies=False)
        try:
            values, pullback = linearized(call.flat, call.leaves, call.label, keeper)
            if call.outputs is not pytree.LEAF:
                raise StructureMismatchError(
                    f"elementwise_grad needs a function that returns one array, but {describe(f)} "
                    f"returned {call.outputs}."
                )
            out = typeof(values[0])
            for leaf, name in zip(call.leaves, call.names, strict=True):
                if shape_of(leaf) != out.shape:
                    raise ShapeError(
                        f"elementwise_grad of {describe(f)}: the output has shape {out.shape}, but "
                        f"{name} has {shape_of(leaf)}, so f is not elementwise in it. Use "
                        "jacobian, or grad of a sum."
                    )
            ones = np.ones(out.shape, out.dtype)
            slopes = [
                zeros(Type(out.shape, typeof(leaf).dtype)) if slope is None else slope
                for leaf, slope in zip(call.leaves, pullback([ones]), strict=True)
            ]
        finally:
            keeper.release()
        return pytree.unflatten(call.inputs, owned(slopes) if current() is EVAL else slopes)

    return Transformed(run, elementwise_grad, f, argnums)


__all__ = ["elementwise_grad", "gauss_newton_product", "hvp"]
