"""Layers of networks as functions of their parameters: convolution, pooling, attention.

Compositions of fungrad.lax and NumPy's functions; keeps no parameters and no state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.lax.convolution import conv_general_dilated, reduce_window, sizes_of
from fungrad.nn.activations import _floats
from fungrad.nn.normalising import softmax
from fungrad.numpy.protocol.operands import array_of, promoted
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of

# --- convolution and pooling ----------------------------------------------------------------------


def conv(
    x: Any,
    kernel: Any,
    bias: Any = None,
    *,
    strides: int | Sequence[int] = 1,
    padding: Any = "VALID",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """A convolution of channels, in one, two or more spatial axes.

    Args:
      x: shape (N, C, *lengths). kernel: (O, C // groups, *sizes). bias: (O,), or None.
      strides, dilation: one integer, or one for each spatial axis.
      padding: "VALID", "SAME", or a pair (before, after) for each. groups: of channels.

    Returns:
      Shape (N, O, *counts). Other layouts: fungrad.lax.conv_general_dilated.

    >>> conv(np.ones((1, 2, 3, 3)), np.ones((4, 2, 2, 2)), padding="SAME").shape
    (1, 4, 3, 3)
    """
    count = len(shape_of(array_of(x))) - 2
    y = conv_general_dilated(
        x,
        kernel,
        sizes_of("strides", strides, count),
        padding,
        rhs_dilation=sizes_of("dilation", dilation, count),
        feature_group_count=groups,
    )
    return y if bias is None else y + np.reshape(array_of(bias), (-1, *(1,) * count))


def _pooled(x: Any, init: Any, how: Any, window: Any, strides: Any, padding: Any) -> Any:
    window = (window,) if np.ndim(window) == 0 else tuple(window)
    lead = len(shape_of(x)) - len(window)
    if lead < 0:
        raise ShapeError(f"Windows of shape {window} in an array of shape {shape_of(x)}.")
    steps = window if strides is None else sizes_of("strides", strides, len(window))
    pairs = padding if isinstance(padding, str) else [*[(0, 0)] * lead, *padding]
    ones = (1,) * lead
    return reduce_window(x, init, how, (*ones, *window), (*ones, *steps), pairs)


def max_pool(x: Any, window: Any, strides: Any = None, padding: Any = "VALID") -> Any:
    """The largest element of each window over the last axes; equal ones share the derivative.

    Args:
      x: an array, as (N, C, *lengths). window: the shape of a window, one length for each of the
        last axes. strides: steps between windows, their lengths by default.
      padding: "VALID", "SAME", or a pair (before, after) for each; it is never the largest.

    >>> max_pool(np.arange(4.0), 2)
    array([1., 3.])
    """
    x = array_of(x)
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return _pooled(x, least, np.maximum, window, strides, padding)


def min_pool(x: Any, window: Any, strides: Any = None, padding: Any = "VALID") -> Any:
    """The smallest element of each window; arguments as in `max_pool`.

    >>> min_pool(np.arange(4.0), 2)
    array([0., 2.])
    """
    x = array_of(x)
    greatest = np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).max
    return _pooled(x, greatest, np.minimum, window, strides, padding)


def avg_pool(
    x: Any, window: Any, strides: Any = None, padding: Any = "VALID",
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """The mean of each window; arguments as in `max_pool`.

    count_include_pad: whether padding counts as zeros, and not as absent.

    >>> avg_pool(np.arange(4.0), 2)
    array([0.5, 2.5])
    """
    x = _floats(x)
    total = _pooled(x, 0, np.add, window, strides, padding)
    if count_include_pad:
        return total / math.prod((window,) if np.ndim(window) == 0 else window)
    return total / _pooled(np.ones(shape_of(x), x.dtype), 0, np.add, window, strides, padding)


# --- attention ------------------------------------------------------------------------------------


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: Any = None,
    is_causal: bool = False,
) -> Any:
    """softmax(scale query key' + bias) value, head by head. Vaswani et al. 2017, equation 1.

    Args:
      query: shape (B, T, N, H): examples, places, heads, features; or (T, N, H).
      key, value: (B, S, K, H) or (S, K, H), N being a multiple of K (heads in groups share them).
      bias: added to the logits; broadcasts to (B, N, T, S). mask: booleans that broadcast to
        (B, N, T, S); what is False is not looked at. A place that may look at nothing gives zeros.
      scale: 1 / sqrt(H) by default. is_causal: whether a place looks at no later ones.

    Returns:
      An array of the shape of query (with value's features).

    Raises:
      ShapeError: where the shapes do not fit.

    >>> x = np.zeros((5, 1, 2))
    >>> dot_product_attention(x, x, x).shape
    (5, 1, 2)
    """
    q, k, v = promoted([_floats(a) for a in (query, key, value)])
    single = len(shape_of(q)) == 3
    if single:
        q, k, v = (np.expand_dims(a, 0) for a in (q, k, v))
    shapes = [shape_of(a) for a in (q, k, v)]
    if any(len(shape) != 4 for shape in shapes) or not _fits(*shapes):
        raise ShapeError(
            f"Attention of query, key and value of shapes {shapes}{user_line()}: (B, T, N, H), "
            "(B, S, K, H) and (B, S, K, H) with N a multiple of K are needed."
        )
    batch, places, heads, features = shapes[0]
    looked, groups = shapes[1][1], shapes[1][2]
    shared = (batch, groups, heads // groups, places, looked)
    # Axes: example, group, head of the group, place, feature.
    q = np.reshape(q, (batch, places, groups, heads // groups, features)).transpose(0, 2, 3, 1, 4)
    k = np.expand_dims(k.transpose(0, 2, 3, 1), 2)
    v = np.expand_dims(v.transpose(0, 2, 1, 3), 2)
    logits = np.matmul(q * (1.0 / math.sqrt(features) if scale is None else scale), k)
    full = (batch, heads, places, looked)
    if bias is not None:
        logits = logits + np.reshape(np.broadcast_to(array_of(bias), full), shared)
    where = None
    if mask is not None:
        where = np.reshape(np.broadcast_to(array_of(mask), full), shared)
    if is_causal:
        past = np.tri(places, looked, dtype=np.bool_)
        where = past if where is None else where & past
    seen = np.matmul(softmax(logits, -1, where), v).transpose(0, 3, 1, 2, 4)
    result = np.reshape(seen, (batch, places, heads, shape_of(v)[-1]))
    return result[0] if single else result


def _fits(q: Sequence[int], k: Sequence[int], v: Sequence[int]) -> bool:
    return (
        q[0] == k[0] == v[0]
        and tuple(k[1:3]) == tuple(v[1:3])
        and k[2] > 0
        and q[2] % k[2] == 0
        and q[3] == k[3]
    )


__all__ = ["avg_pool", "conv", "dot_product_attention", "max_pool", "min_pool"]
