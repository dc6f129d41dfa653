"""Layers of networks as functions of their parameters: convolution, pooling, attention; softmax
and its relatives, standardisation, one-hot codes, and losses.

Compositions of fungrad.lax and NumPy's functions; they keep no parameters and no state.

Exponentials are taken relative to the largest element, which is a constant to every derivative.
The elements with an infinite maximum share: softmax of a row of -inf is uniform, and its gradient
is finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.lax.convolution import conv_general_dilated, reduce_window, sizes_of
from fungrad.nn.activations import _floats, log_sigmoid
from fungrad.numpy.protocol.operands import array_of, axis_index, promoted
from fungrad.primitives.elementwise.family import eq
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.reduction.reduce import exp_difference
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of


def _exponentials(x: Any, axis: Any, where: Any) -> tuple[Any, Any, Any]:
    """The maximum m and e^(x - m), 0 where excluded; and x, with -inf where excluded."""
    if where is not None:
        x = np.where(where, x, -np.inf)
    largest = np.max(stop_gradient(x), axis=axis, keepdims=True, initial=-np.inf)
    terms = exp_difference(x, largest)
    return largest, terms if where is None else np.where(where, terms, 0), x


def softmax(x: Any, axis: Any = -1, where: Any = None, initial: Any = -np.inf) -> Any:
    """e^x divided by its sum over an axis.

    Args:
      x: an array. axis: one axis, several, or None for all.
      where: booleans that broadcast to x; elements where it is False are ignored, and 0 in the
        result.
      initial: ignored; a parameter of JAX's.

    >>> softmax(np.array([1e9, 1e9, -np.inf]))
    array([0.5, 0.5, 0. ])
    """
    _, terms, _ = _exponentials(_floats(x), axis, where)
    total = np.sum(terms, axis=axis, keepdims=True)
    return terms / (total if where is None else np.where(total == 0, 1, total))


def log_softmax(x: Any, axis: Any = -1, where: Any = None, initial: Any = -np.inf) -> Any:
    """The logarithm of `softmax`, accurate for small probabilities; arguments as there.

    Args:
      x, axis, where, initial: as for `softmax`; the result is -inf where `where` is False.

    >>> log_softmax(np.array([0.0, -1000.0]))
    array([    0., -1000.])
    """
    x = _floats(x)
    largest, terms, x = _exponentials(x, axis, where)
    finite = np.isfinite(largest)
    # Infinities of one sign share; their difference is 0, not NaN.
    both = np.where(eq(stop_gradient(x), largest), 0, -np.inf)
    shifted = np.where(finite, x - np.where(finite, largest, 0), both)
    total = np.sum(terms, axis=axis, keepdims=True)
    result = shifted - np.log(total if where is None else np.where(total == 0, 1, total))
    return cast(result if where is None else np.where(where, result, -np.inf), x.dtype)


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False,
    where: Any = None,
) -> Any:  # fmt: skip
    """log of the sum of b e^a over axes (all by default).

    If all of a is -inf, the result is -inf, and its derivative 0.

    Args:
      a: an array. axis: one axis, several, or None. b: weights that broadcast to a, of any sign.
      keepdims: whether the axes stay, with length 1. return_sign: whether to return the logarithm
        of the absolute value of the sum, and its sign; otherwise a negative sum is NaN.
      where: booleans that broadcast to a; elements where it is False are ignored.

    >>> float(np.round(logsumexp(np.array([1000.0, 1000.0])), 9))
    1000.693147181
    """
    x = _floats(a)
    if b is not None:
        x, b = np.broadcast_arrays(x, array_of(b))
    if where is not None:
        x = np.broadcast_to(x, np.broadcast_shapes(shape_of(x), np.shape(where)))
    largest, terms, _ = _exponentials(x, axis, where)
    terms = np.where(largest == -np.inf, 0, terms)
    total = np.sum(terms if b is None else terms * b, axis=axis, keepdims=True)
    sign = np.sign(total)
    if return_sign:
        total = np.where(sign < 0, -total, total)
    else:
        total = np.where(sign < 0, np.nan, total)
    zero = sign == 0
    result = np.where(zero, -np.inf, np.log(np.where(zero, 1, total)) + largest)
    results = [result, sign] if return_sign else [result]
    results = [cast(y, np.result_type(x.dtype, *([] if b is None else [b.dtype]))) for y in results]
    if not keepdims:
        results = [np.squeeze(y, _axes(axis, len(shape_of(y)))) for y in results]
    return tuple(results) if return_sign else results[0][()]


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return tuple([axis_index(a, ndim) for a in (axis if isinstance(axis, tuple) else (axis,))])


def logmeanexp(a: Any, axis: Any = None, keepdims: bool = False, where: Any = None) -> Any:
    """log of the mean of e^a over axes (all by default); arguments as in `logsumexp`.

    Args:
      a: an array. axis: one axis, several, or None.
      keepdims: whether the axes stay, with length 1.
      where: booleans that broadcast to a; elements where it is False are ignored, and not counted.

    >>> float(logmeanexp(np.array([3.0, 3.0])))
    3.0
    """
    x = _floats(a)
    ones = np.ones(shape_of(x)) if where is None else np.where(where, np.ones(shape_of(x)), 0)
    total = logsumexp(x, axis=axis, keepdims=keepdims, where=where)
    count = np.sum(ones, axis=axis, keepdims=keepdims)
    return cast(total - np.log(count), x.dtype)


def standardize(
    x: Any, axis: Any = -1, mean: Any = None, variance: Any = None, epsilon: Any = 1e-5,
    where: Any = None,
) -> Any:  # fmt: skip
    """(x - mean) / sqrt(variance + epsilon) along an axis.

    Args:
      x: an array. axis: one axis, several, or None for all. mean, variance: of x by default.
      epsilon: keeps constant rows finite. where: booleans that select elements for the moments.

    >>> standardize(np.array([1.0, 2.0, 3.0]), epsilon=0.0)
    array([-1.22474487,  0.        ,  1.22474487])
    """
    x = _floats(x)
    chosen = {} if where is None else {"where": where}
    if mean is None:
        mean = np.mean(x, axis=axis, keepdims=True, **chosen)
    if variance is None:
        variance = np.mean((x - mean) ** 2, axis=axis, keepdims=True, **chosen)
    return (x - mean) / np.sqrt(variance + epsilon)


def one_hot(x: Any, num_classes: int, *, dtype: Any = np.float64, axis: int = -1) -> Any:
    """For each integer a row of zeros with a one at its position; all zeros out of range.

    Args:
      x: integers of any shape. num_classes: the length of the new axis. dtype: of the result.
      axis: the position of the new axis in the result.

    >>> one_hot(np.array([2, 0, 5]), 3)
    array([[0., 0., 1.], [1., 0., 0.], [0., 0., 0.]])
    """
    x = array_of(x)
    ndim = len(shape_of(x)) + 1
    axis = axis_index(axis, ndim)
    classes = np.arange(num_classes).reshape((-1, *(1,) * (ndim - axis - 1)))
    return cast(np.expand_dims(x, axis) == classes, dtype)


# --- losses ---------------------------------------------------------------------------------------


def softmax_cross_entropy(logits: Any, labels: Any, axis: int = -1, where: Any = None) -> Any:
    """-sum labels log softmax(logits) over an axis: the cross entropy of each row.

    Args:
      logits, labels: arrays of one shape (they broadcast); labels are probabilities.
      axis: the axis of the classes. where: booleans; classes where it is False are ignored.

    A class of label 0 costs nothing, even if its logit is -inf.

    >>> softmax_cross_entropy(np.array([[0.0, 0.0]]), np.array([[0.5, 0.5]]))
    array([0.69314718])
    """
    log_probabilities = log_softmax(logits, axis, where)
    labels = array_of(labels)
    absent = (stop_gradient(labels) == 0) & (stop_gradient(log_probabilities) == -np.inf)
    return -np.sum(labels * np.where(absent, 0, log_probabilities), axis=axis)


def softmax_cross_entropy_with_integer_labels(logits: Any, labels: Any, axis: int = -1) -> Any:
    """-log softmax(logits) at the label of each row.

    Args:
      logits: an array. labels: integers, of its shape without the axis of the classes.
      axis: the axis of the classes.

    Raises:
      ArgumentError: if labels are not integers. ShapeError: if the shapes do not fit.

    >>> softmax_cross_entropy_with_integer_labels(np.array([[0.0, 0.0]]), np.array([1]))
    array([0.69314718])
    """
    x, labels = array_of(logits), array_of(labels)
    axis = axis_index(axis, len(shape_of(x)))
    if labels.dtype.kind not in "iu":
        raise ArgumentError(
            f"Labels of dtype {labels.dtype}{user_line()} are not integers; use "
            "softmax_cross_entropy for probabilities."
        )
    if shape_of(labels) != (*shape_of(x)[:axis], *shape_of(x)[axis + 1 :]):
        raise ShapeError(
            f"Labels of shape {shape_of(labels)} for logits of shape {shape_of(x)} with the "
            f"classes along axis {axis}{user_line()}."
        )
    picked = np.take_along_axis(log_softmax(x, axis), np.expand_dims(labels, axis), axis)
    return -np.squeeze(picked, axis)


def sigmoid_binary_cross_entropy(logits: Any, labels: Any) -> Any:
    """-labels log sigmoid(logits) - (1 - labels) log sigmoid(-logits), elementwise.

    Args:
      logits, labels: arrays that broadcast; labels are probabilities.

    >>> sigmoid_binary_cross_entropy(np.array([1000.0, -1000.0]), np.array([1.0, 1.0]))
    array([   0., 1000.])
    """
    x, labels = _floats(logits), array_of(labels)
    return -labels * log_sigmoid(x) - (1 - labels) * log_sigmoid(-x)


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
    """A convolution over one or more spatial axes, summed over channels.

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
        last axes. strides: steps between windows, by default the window's lengths.
      padding: "VALID", "SAME", or a pair (before, after) for each; it counts as -inf.

    >>> max_pool(np.arange(4.0), 2)
    array([1., 3.])
    """
    x = array_of(x)
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return _pooled(x, least, np.maximum, window, strides, padding)


def min_pool(x: Any, window: Any, strides: Any = None, padding: Any = "VALID") -> Any:
    """The smallest element of each window; arguments as in `max_pool`.

    Args:
      x, window, strides, padding: as for `max_pool`; padding counts as inf.

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

    count_include_pad: whether padding counts as zeros; otherwise it is ignored.

    Args:
      x, window, strides, padding: as for `max_pool`; padding counts as zeros.
      count_include_pad: whether padding is counted; otherwise the mean is that of the elements of
        x.

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
      query: shape (B, T, N, H): examples, positions, heads, features; or (T, N, H).
      key, value: (B, S, K, H) or (S, K, H), with N a multiple of K (groups of heads share them).
      bias: added to the logits; broadcasts to (B, N, T, S). mask: booleans that broadcast to
        (B, N, T, S); pairs where it is False are excluded. A position without any is zero.
      scale: 1 / sqrt(H) by default. is_causal: whether positions attend to no later ones.

    Returns:
      An array of the shape of query (with value's features).

    Raises:
      ShapeError: if the shapes do not fit.

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
    batch, length, heads, features = shapes[0]
    looked, groups = shapes[1][1], shapes[1][2]
    shared = (batch, groups, heads // groups, length, looked)
    # Axes: example, group, head of the group, position, feature.
    q = np.reshape(q, (batch, length, groups, heads // groups, features)).transpose(0, 2, 3, 1, 4)
    k = np.expand_dims(k.transpose(0, 2, 3, 1), 2)
    v = np.expand_dims(v.transpose(0, 2, 1, 3), 2)
    logits = np.matmul(q * (1.0 / math.sqrt(features) if scale is None else scale), k)
    full = (batch, heads, length, looked)
    if bias is not None:
        logits = logits + np.reshape(np.broadcast_to(array_of(bias), full), shared)
    where = None
    if mask is not None:
        where = np.reshape(np.broadcast_to(array_of(mask), full), shared)
    if is_causal:
        past = np.tri(length, looked, dtype=np.bool_)
        where = past if where is None else where & past
    seen = np.matmul(softmax(logits, -1, where), v).transpose(0, 3, 1, 2, 4)
    result = np.reshape(seen, (batch, length, heads, shape_of(v)[-1]))
    return result[0] if single else result


def _fits(q: Sequence[int], k: Sequence[int], v: Sequence[int]) -> bool:
    return (
        q[0] == k[0] == v[0]
        and tuple(k[1:3]) == tuple(v[1:3])
        and k[2] > 0
        and q[2] % k[2] == 0
        and q[3] == k[3]
    )


__all__ = [
    "avg_pool", "conv", "dot_product_attention", "log_softmax", "logmeanexp", "logsumexp",
    "max_pool", "min_pool", "one_hot", "sigmoid_binary_cross_entropy", "softmax",
    "softmax_cross_entropy", "softmax_cross_entropy_with_integer_labels", "standardize",
]  # fmt: skip
