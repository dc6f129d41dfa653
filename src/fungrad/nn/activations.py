"""Activation functions, with jax.nn's names and signatures, composed of NumPy's functions.

All are stable: no overflow, no NaN and no cancellation at large arguments, in values and in
derivatives. Formulas without a source are those of the JAX documentation of jax.nn.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.ir.types import PYTHON_SCALARS
from fungrad.numpy.protocol.operands import array_of, axis_index
from fungrad.primitives.movement.reshape_broadcast_cast import cast, slice_axis
from fungrad.primitives.special.normal_distribution import normal_cdf
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of


def _floats(x: Any) -> Any:
    """An array-like as floats: integers become doubles, as in NumPy's ufuncs."""
    array = array_of(x)
    return cast(array, np.float64) if array.dtype.kind in "iub" else array


def identity(x: Any) -> Any:
    """x itself.

    Args:
      x: any value.

    >>> float(identity(np.float64(2.0)))
    2.0
    """
    return x


def relu(x: Any) -> Any:
    """max(x, 0), with the derivative 0 at 0; an array of any shape.

    Args:
      x: real numbers, an array of any shape.

    >>> relu(np.array([-1.0, 0.0, 2.0]))
    array([0., 0., 2.])
    """
    x = array_of(x)
    return np.where(x <= 0, 0, x)[()]


def relu6(x: Any) -> Any:
    """min(max(x, 0), 6), with the derivative 0 at 0 and at 6.

    Args:
      x: real numbers, an array of any shape.

    >>> relu6(np.array([-1.0, 2.0, 7.0]))
    array([0., 2., 6.])
    """
    x = array_of(x)
    return np.where(x <= 0, 0, np.where(x >= 6, 6, x))[()]


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """x where x >= 0, else negative_slope x (so the derivative at 0 is 1).

    Args:
      x: real numbers, an array of any shape.
      negative_slope: the slope below 0; a number or an array.

    >>> leaky_relu(np.array([-1.0, 2.0]))
    array([-0.01,  2.  ])
    """
    x = _floats(x)
    return np.where(x >= 0, x, negative_slope * x)[()]


def _negative(x: Any) -> Any:
    """x where it is negative, else 0, so that exponentials of it do not overflow."""
    return np.where(x > 0, 0, x)


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x where it is positive, else alpha (e^x - 1). Clevert et al. 2015.

    Args:
      x: real numbers, an array of any shape.
      alpha: minus the limit for small x; a number or an array.

    >>> elu(np.array([-1.0, 2.0]))
    array([-0.63212056,  2.        ])
    """
    x = _floats(x)
    return np.where(x > 0, x, alpha * np.expm1(_negative(x)))[()]


def celu(x: Any, alpha: Any = 1.0) -> Any:
    """max(x, 0) + min(alpha (e^(x / alpha) - 1), 0), continuously differentiable. Barron 2017.

    Args:
      x: real numbers, an array of any shape.
      alpha: minus the limit for small x; a number or an array.

    >>> celu(np.array([-1.0, 2.0]))
    array([-0.63212056,  2.        ])
    """
    x = _floats(x)
    return np.where(x > 0, x, alpha * np.expm1(_negative(x) / alpha))[()]


def selu(x: Any) -> Any:
    """1.0507 elu(x, 1.6733): keeps mean 0 and variance 1. Klambauer et al. 2017, section 2.

    Args:
      x: real numbers, an array of any shape.

    >>> selu(np.array([-1.0, 2.0]))
    array([-1.11133074,  2.10140197])
    """
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x), to full relative precision on both sides.

    Args:
      x: real numbers, an array of any shape.

    >>> sigmoid(np.array([-1000.0, 0.0, 1000.0]))
    array([0. , 0.5, 1. ])
    """
    x = _floats(x)
    small = np.exp(np.where(x >= 0, -x, x))
    return (np.where(x >= 0, 1, small) / (1 + small))[()]


def softplus(x: Any) -> Any:
    """log(1 + e^x).

    Args:
      x: real numbers, an array of any shape.

    >>> softplus(np.array([-1000.0, 0.0, 1000.0]))
    array([0.00000000e+00, 6.93147181e-01, 1.00000000e+03])
    """
    return np.logaddexp(_floats(x), 0)


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)) = -softplus(-x).

    Args:
      x: real numbers, an array of any shape.

    >>> log_sigmoid(np.array([-1000.0, 1000.0]))
    array([-1000.,    -0.])
    """
    return -softplus(-_floats(x))


def soft_sign(x: Any) -> Any:
    """x / (1 + |x|); the derivative at 0 is 1.

    Args:
      x: real numbers, an array of any shape.

    >>> soft_sign(np.array([-1.0, 3.0]))
    array([-0.5 ,  0.75])
    """
    x = _floats(x)
    return x / (1 + np.abs(x))


def silu(x: Any) -> Any:
    """x sigmoid(x), also known as swish. Elfwing et al. 2017.

    Args:
      x: real numbers, an array of any shape.

    >>> silu(np.array([0.0, 1.0]))
    array([0.        , 0.73105858])
    """
    x = _floats(x)
    return x * sigmoid(x)


swish = silu


def mish(x: Any) -> Any:
    """x tanh(softplus(x)). Misra 2019.

    Args:
      x: real numbers, an array of any shape.

    >>> mish(np.array([0.0, 1.0]))
    array([0.        , 0.86509839])
    """
    x = _floats(x)
    return x * np.tanh(softplus(x))


def gelu(x: Any, approximate: bool = True) -> Any:
    """x times the probability that a standard normal variable is at most x. Hendrycks 2016.

    Args:
      x: an array of any shape.
      approximate: whether to use tanh (section 2 there; within 5e-4). The exact form takes about
        0.1 us an element, since NumPy has no error function.

    >>> gelu(np.array([-1.0, 1.0])), gelu(np.array([-1.0, 1.0]), approximate=False)
    (array([-0.15880801,  0.84119199]), array([-0.15865525,  0.84134475]))
    """
    x = _floats(x)
    if not approximate:
        return x * normal_cdf(x)
    # (1 + tanh(u)) / 2 = sigmoid(2 u); beyond 30 it is 0 or 1 in every dtype.
    near = np.clip(x, -30, 30)
    return x * sigmoid(math.sqrt(8.0 / math.pi) * (near + 0.044715 * (near * near * near)))


def hard_tanh(x: Any) -> Any:
    """x limited to [-1, 1], with the derivative 0 at the limits.

    Args:
      x: real numbers, an array of any shape.

    >>> hard_tanh(np.array([-3.0, 0.5, 2.0]))
    array([-1. ,  0.5,  1. ])
    """
    x = array_of(x)
    return np.where(x >= 1, 1, np.where(x <= -1, -1, x))[()]


def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6.

    Args:
      x: real numbers, an array of any shape.

    >>> hard_sigmoid(np.array([-4.0, 0.0, 4.0]))
    array([0. , 0.5, 1. ])
    """
    return relu6(_floats(x) + 3) / 6


def hard_silu(x: Any) -> Any:
    """x hard_sigmoid(x), also known as hard swish. Howard et al. 2019.

    Args:
      x: real numbers, an array of any shape.

    >>> hard_silu(np.array([-4.0, 1.0, 4.0]))
    array([-0.        ,  0.66666667,  4.        ])
    """
    x = _floats(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x^2 + b)) / 2, a softplus without exponentials. Barron 2021.

    Computed from the larger root, so that nothing cancels for negative x.

    Args:
      x: real numbers, an array of any shape.
      b: the larger, the wider the bend at 0; a number or an array.

    >>> squareplus(np.array([-1e9, 0.0]))
    array([1.e-09, 1.e+00])
    """
    x = _floats(x)
    b = cast(b, x.dtype) if type(b) in PYTHON_SCALARS else array_of(b)
    root = np.hypot(x, np.sqrt(b))
    positive = x >= 0
    large = np.where(positive, root + x, root - x)
    safe = np.where(large == 0, 1, large)
    return np.where(positive, large / 2, (b / 2) / safe)[()]


def glu(x: Any, axis: int = -1) -> Any:
    """The first half along an axis, times the sigmoid of the second. Dauphin et al. 2016.

    Args:
      x: an array. axis: an axis of even length.

    Raises:
      ShapeError: if the length of the axis is odd.

    >>> glu(np.array([1.0, 2.0, 0.0, 0.0]))
    array([0.5, 1. ])
    """
    x = _floats(x)
    axis = axis_index(axis, len(shape_of(x)))
    length = shape_of(x)[axis]
    if length % 2:
        raise ShapeError(f"glu along an axis of odd length {length}{user_line()}.")
    first = slice_axis(x, axis=axis, start=0, stop=length // 2)
    return first * sigmoid(slice_axis(x, axis=axis, start=length // 2, stop=length))


def tanh(x: Any) -> Any:
    """The hyperbolic tangent: `np.tanh`.

    Args:
      x: real numbers, an array of any shape.

    >>> float(tanh(0.0))
    0.0
    """
    return np.tanh(x)


def sparse_plus(x: Any) -> Any:
    """0 for x <= -1, x for x >= 1, and (x + 1)^2 / 4 between: softplus with a finite support.

    Args:
      x: real numbers, an array of any shape.

    >>> sparse_plus(np.array([-2.0, 0.0, 3.0]))
    array([0.  , 0.25, 3.  ])
    """
    x = _floats(x)
    inner = np.where((x <= -1) | (x >= 1), 0, x)  # its square must not overflow
    return np.where(x <= -1, 0, np.where(x >= 1, x, (inner + 1) ** 2 / 4))[()]


def sparse_sigmoid(x: Any) -> Any:
    """0 for x <= -1, 1 for x >= 1, and (x + 1) / 2 between: the derivative of sparse_plus.

    Its own derivative is 0 at -1 and 1 (Blondel, Martins and Niculae 2019, section 6.2).

    Args:
      x: real numbers, an array of any shape.

    >>> sparse_sigmoid(np.array([-2.0, 0.0, 3.0]))
    array([0. , 0.5, 1. ])
    """
    x = _floats(x)
    return np.where(x <= -1, 0, np.where(x >= 1, 1, (x + 1) / 2))[()]


def log1mexp(x: Any) -> Any:
    """log(1 - e^-x) for x >= 0, precise for small and for large x; NaN below 0. Maechler 2012.

    Args:
      x: real numbers, 0 or more, an array of any shape.

    >>> log1mexp(np.array([1e-20, 50.0]))
    array([-4.60517019e+01, -1.92874985e-22])
    """
    x = _floats(x)
    small = x < math.log(2.0)
    near = np.log(-np.expm1(-np.where(small, x, 1)))
    return np.where(small, near, np.log1p(-np.exp(-np.where(small, 1, x))))[()]


__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh",
    "identity", "leaky_relu", "log1mexp", "log_sigmoid", "mish", "relu", "relu6", "selu",
    "sigmoid", "silu", "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid", "squareplus",
    "swish", "tanh",
]  # fmt: skip
