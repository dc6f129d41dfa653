"""Softmax and its kin, standardisation, one-hot codes, and the losses made of them.

Exponentials are taken relative to the largest element, which is a constant to every derivative. The
elements that attain an infinite maximum share: softmax of a row of -inf is uniform, and its
gradient is finite. Knows no network.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.nn.activations import _floats, log_sigmoid
from fungrad.numpy.protocol.operands import array_of, axis_index
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
      where: booleans that broadcast to x; what is False counts as absent, and is 0 in the result.
      initial: taken, as JAX takes it, and not needed.

    >>> softmax(np.array([1e9, 1e9, -np.inf]))
    array([0.5, 0.5, 0. ])
    """
    _, terms, _ = _exponentials(_floats(x), axis, where)
    total = np.sum(terms, axis=axis, keepdims=True)
    return terms / (total if where is None else np.where(total == 0, 1, total))


def log_softmax(x: Any, axis: Any = -1, where: Any = None, initial: Any = -np.inf) -> Any:
    """The logarithm of `softmax`, without loss of small probabilities; arguments as there.

    >>> log_softmax(np.array([0.0, -1000.0]))
    array([    0., -1000.])
    """
    x = _floats(x)
    largest, terms, x = _exponentials(x, axis, where)
    finite = np.isfinite(largest)
    # Infinities of one sign share; their difference is 0 and not NaN.
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

    Where all of a is -inf the result is -inf, and its derivative 0.

    Args:
      a: an array. axis: one axis, several, or None. b: weights that broadcast to a, of any sign.
      keepdims: whether the axes stay, with length 1. return_sign: whether to return also the sign
        of the sum, and the logarithm of its absolute value; without it a negative sum gives NaN.
      where: booleans that broadcast to a; what is False counts as absent.

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
    found = [result, sign] if return_sign else [result]
    found = [cast(y, np.result_type(x.dtype, *([] if b is None else [b.dtype]))) for y in found]
    if not keepdims:
        found = [np.squeeze(y, _axes(axis, len(shape_of(y)))) for y in found]
    return tuple(found) if return_sign else found[0][()]


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return tuple([axis_index(a, ndim) for a in (axis if isinstance(axis, tuple) else (axis,))])


def logmeanexp(a: Any, axis: Any = None, keepdims: bool = False, where: Any = None) -> Any:
    """log of the mean of e^a over axes (all by default); arguments as in `logsumexp`.

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
      epsilon: keeps constant rows finite. where: booleans; only what is True enters the moments.

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
    """For each integer a row of zeros with a one at its place; all zeros where it is no class.

    Args:
      x: integers of any shape. num_classes: the length of the new axis. dtype: of the result.
      axis: where the new axis stands in the result.

    >>> one_hot(np.array([2, 0, 5]), 3)
    array([[0., 0., 1.], [1., 0., 0.], [0., 0., 0.]])
    """
    x = array_of(x)
    ndim = len(shape_of(x)) + 1
    place = axis_index(axis, ndim)
    classes = np.arange(num_classes).reshape((-1, *(1,) * (ndim - place - 1)))
    return cast(np.expand_dims(x, place) == classes, dtype)


# --- losses ---------------------------------------------------------------------------------------


def softmax_cross_entropy(logits: Any, labels: Any, axis: int = -1, where: Any = None) -> Any:
    """-sum labels log softmax(logits) over an axis: the loss of probabilities, one for each row.

    Args:
      logits, labels: arrays of one shape (they broadcast). axis: the axis of the classes.
      where: booleans; classes that are False count as absent.

    A class of label 0 costs nothing, also where its logit is -inf.

    >>> softmax_cross_entropy(np.array([[0.0, 0.0]]), np.array([[0.5, 0.5]]))
    array([0.69314718])
    """
    found = log_softmax(logits, axis, where)
    labels = array_of(labels)
    absent = (stop_gradient(labels) == 0) & (stop_gradient(found) == -np.inf)
    return -np.sum(labels * np.where(absent, 0, found), axis=axis)


def softmax_cross_entropy_with_integer_labels(logits: Any, labels: Any, axis: int = -1) -> Any:
    """-log softmax(logits) at the label of each row.

    Args:
      logits: an array. labels: integers, of its shape without the axis of the classes.
      axis: the axis of the classes.

    Raises:
      ArgumentError: where labels are no integers. ShapeError: where the shapes do not fit.

    >>> softmax_cross_entropy_with_integer_labels(np.array([[0.0, 0.0]]), np.array([1]))
    array([0.69314718])
    """
    x, labels = array_of(logits), array_of(labels)
    axis = axis_index(axis, len(shape_of(x)))
    if labels.dtype.kind not in "iu":
        raise ArgumentError(
            f"Labels of dtype {labels.dtype}{user_line()} are no integers; for probabilities there "
            "is softmax_cross_entropy."
        )
    if shape_of(labels) != (*shape_of(x)[:axis], *shape_of(x)[axis + 1 :]):
        raise ShapeError(
            f"Labels of shape {shape_of(labels)} for logits of shape {shape_of(x)} with the "
            f"classes along axis {axis}{user_line()}."
        )
    picked = np.take_along_axis(log_softmax(x, axis), np.expand_dims(labels, axis), axis)
    return -np.squeeze(picked, axis)


def sigmoid_binary_cross_entropy(logits: Any, labels: Any) -> Any:
    """-labels log sigmoid(logits) - (1 - labels) log sigmoid(-logits), element by element.

    Args:
      logits, labels: arrays that broadcast; labels are probabilities.

    >>> sigmoid_binary_cross_entropy(np.array([1000.0, -1000.0]), np.array([1.0, 1.0]))
    array([   0., 1000.])
    """
    x, labels = _floats(logits), array_of(labels)
    return -labels * log_sigmoid(x) - (1 - labels) * log_sigmoid(-x)


__all__ = [
    "log_softmax", "logmeanexp", "logsumexp", "one_hot", "sigmoid_binary_cross_entropy", "softmax",
    "softmax_cross_entropy", "softmax_cross_entropy_with_integer_labels", "standardize",
]  # fmt: skip
