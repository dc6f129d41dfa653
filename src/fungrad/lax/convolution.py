"""JAX's convolutions and reductions over windows: compositions of a window view with a contraction
by BLAS or a reduction.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.lax.reductions import reduce
from fungrad.lax.slicing import pad
from fungrad.numpy.protocol.operands import array_of, promoted
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.sliding_window import window_counts, windows
from fungrad.support import pytree
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, shape_of

Sizes = tuple[int, ...]
Pairs = Sequence[tuple[int, int]]
COPIED = 1 << 20
"""The most elements of windows of which one copy serves a convolution and its gradient. Copies of
more would take much memory until then: each product makes its own.
"""


def sizes_of(what: str, given: Any, count: int) -> Sizes:
    """One positive integer for each axis; None means ones, a number the same for all axes.

    Raises:
      ArgumentError: if their number is wrong or one is below 1.
    """
    if given is None:
        return (1,) * count
    sizes = (operator.index(given),) * count if np.ndim(given) == 0 else tuple(map(int, given))
    if len(sizes) != count or any(n < 1 for n in sizes):
        raise ArgumentError(f"{what}={given!r}{user_line()}: {count} integers of at least 1.")
    return sizes


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:  # fmt: skip
    """The padding (before, after) of each axis for a name of a padding.

    "VALID" is none; "SAME" makes ceil(length / stride) windows, with an odd element of padding
    after the array, "SAME_LOWER" before.

    Args:
      in_shape, window_shape, window_strides: one integer for each axis.
      padding: "VALID", "SAME" or "SAME_LOWER".

    >>> padtype_to_pads((5,), (4,), (1,), "SAME")
    [(1, 2)]
    """
    name = padding.upper()
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    if name not in ("SAME", "SAME_LOWER"):
        raise ArgumentError(
            f"padding={padding!r}{user_line()} is not 'SAME', 'SAME_LOWER', 'VALID' or a sequence "
            "of pairs (before, after)."
        )
    pairs = []
    for n, k, stride in zip(in_shape, window_shape, window_strides, strict=True):
        total = max((-(-n // stride) - 1) * stride + k - n, 0)
        small = total // 2
        pairs.append((small, total - small) if name == "SAME" else (total - small, small))
    return pairs


def padding_pairs(
    padding: Any, lengths: Sizes, sizes: Sizes, strides: Sizes, dilations: Sizes
) -> list[tuple[int, int]]:
    """The padding (before, after) of each axis, named or given."""
    if isinstance(padding, str):
        wide = [(k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True)]
        return padtype_to_pads(lengths, wide, strides, padding)
    pairs = [(operator.index(a), operator.index(b)) for a, b in padding]
    if len(pairs) != len(lengths):
        raise ArgumentError(
            f"padding={padding!r}{user_line()}: {len(lengths)} pairs (before, after) are needed."
        )
    return pairs


# --- reductions over windows ----------------------------------------------------------------------

_REDUCTIONS: dict[Any, tuple[Callable[..., Any], Callable[[np.dtype[Any]], Any]]] = {
    np.add: (np.sum, lambda dtype: 0),
    np.multiply: (np.prod, lambda dtype: 1),
    np.maximum: (np.max, lambda dtype: -np.inf if dtype.kind == "f" else np.iinfo(dtype).min),
    np.minimum: (np.min, lambda dtype: np.inf if dtype.kind == "f" else np.iinfo(dtype).max),
}


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """A reduction over each window of an array.

    Args:
      operand: an array, or a tree of arrays of one shape that are reduced together.
      init_value: a number for each array, which fills the padding and begins each reduction.
      computation: an associative function of two arrays (of two trees); lax.add, lax.max, lax.min
        and lax.mul (NumPy's ufuncs) are fast.
      window_dimensions: the length of a window along each axis.
      window_strides, base_dilation, window_dilation: one integer for each axis, by default ones.
      padding: "VALID", "SAME", "SAME_LOWER", or a pair (before, after) for each axis.

    Returns:
      An array with the same number of axes and one element for each window, or a tree of them.

    >>> reduce_window(np.arange(5.0), -np.inf, np.maximum, (3,), (2,))
    array([2., 4.])
    """
    leaves, treedef = pytree.flatten(operand)
    inits = pytree.match(treedef, init_value, "init_value of lax.reduce_window")
    xs = [array_of(x) for x in leaves]
    ndim = len(shape_of(xs[0]))
    sizes = sizes_of("window_dimensions", tuple(window_dimensions), ndim)
    strides = sizes_of("window_strides", window_strides, ndim)
    base = sizes_of("base_dilation", base_dilation, ndim)
    dilations = sizes_of("window_dilation", window_dilation, ndim)
    # Axes with windows of one element and stride one stay as they are.
    moving = [i for i in range(ndim) if (sizes[i], strides[i]) != (1, 1)]
    order = (*[i for i in range(ndim) if i not in moving], *moving)
    seen = []
    for x, init in zip(xs, inits, strict=True):
        lengths = tuple([max((n - 1) * d + 1, 0) for n, d in zip(shape_of(x), base, strict=True)])
        pairs = padding_pairs(padding, lengths, sizes, strides, dilations)
        x = pad(x, init, [(a, b, d - 1) for (a, b), d in zip(pairs, base, strict=True)])
        part = windows(
            arranged(x, order),
            sizes=tuple([sizes[i] for i in moving]),
            strides=tuple([strides[i] for i in moving]),
            dilations=tuple([dilations[i] for i in moving]),
        )
        seen.append(part)
    axes = tuple(range(ndim, ndim + len(moving)))
    back = s.inverse_permutation(order)
    if len(seen) == 1:
        result = _reduced_fast(seen[0], axes, inits[0], computation)
        if result is not None:
            return pytree.unflatten(treedef, [arranged(result, back)])
    parts, starts = pytree.unflatten(treedef, seen), pytree.unflatten(treedef, list(inits))
    reduced = pytree.leaves(reduce(parts, starts, computation, axes))
    return pytree.unflatten(treedef, [arranged(result, back) for result in reduced])


def _reduced_fast(x: Any, axes: Sizes, init: Any, computation: Callable[[Any, Any], Any]) -> Any:
    """The reduction by one of NumPy's, or None."""
    known = _REDUCTIONS.get(computation) if type(computation) is np.ufunc else None
    if known is None or x.dtype.kind not in "fiu":
        return None
    function, identity = known
    result = function(x, axis=axes, dtype=x.dtype) if computation in (np.add, np.multiply) else (
        function(x, axis=axes)
    )  # fmt: skip
    if type(init) is not Tracer and np.all(np.equal(init, identity(x.dtype))):
        return result
    return computation(s.cast(init, x.dtype), result)


# --- convolution ----------------------------------------------------------------------------------


class ConvDimensionNumbers(NamedTuple):
    """The axes of a convolution's inputs, kernels and outputs: for each array the batch axis (of a
    kernel: outputs), the feature axis (of a kernel: inputs), and the spatial axes.
    """

    lhs_spec: Sizes
    rhs_spec: Sizes
    out_spec: Sizes


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """The axes named by letters; spatial ones in the order of the kernel's letters.

    Args:
      lhs_shape, rhs_shape: the shapes of inputs and kernels.
      dimension_numbers: letters for inputs, kernels and outputs; None for NC..., OI..., NC....

    >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    ndim = len(lhs_shape)
    if len(rhs_shape) != ndim:
        raise ShapeError(
            f"Inputs of shape {tuple(lhs_shape)} and kernels of shape {tuple(rhs_shape)}"
            f"{user_line()} need as many axes."
        )
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if dimension_numbers is None:
        same = tuple(range(ndim))
        return ConvDimensionNumbers(same, same, same)
    names = tuple(dimension_numbers)
    if len(names) != 3 or not all(isinstance(n, str) and len(n) == ndim for n in names):
        raise ArgumentError(
            f"dimension_numbers={dimension_numbers!r}{user_line()}: three names of {ndim} letters, "
            "as ('NHWC', 'HWIO', 'NHWC')."
        )
    lhs, rhs, out = names
    spatial = [letter for letter in rhs if letter not in "OI"]
    result = []
    for name, first in ((lhs, "NC"), (rhs, "OI"), (out, "NC")):
        if sorted(name) != sorted([*first, *spatial]) or len(set(name)) != ndim:
            raise ArgumentError(
                f"dimension_numbers={dimension_numbers!r}{user_line()}: {name!r} does not hold "
                f"{first[0]}, {first[1]} and {', '.join(spatial)} once each."
            )
        result.append(tuple(name.index(letter) for letter in (*first, *spatial)))
    return ConvDimensionNumbers(*result)


def _by_features(x: Any, groups: int, batch_groups: int) -> tuple[Any, int]:
    """x with groups of the batch moved to the features, and the number of feature groups."""
    if batch_groups == 1:
        return x, groups
    batch, channels, *lengths = shape_of(x)
    if groups != 1 or batch_groups < 1 or batch % batch_groups:
        raise ShapeError(
            f"A convolution in {batch_groups} groups of a batch of {batch}{user_line()}, and in "
            f"{groups} of the features: the one has to divide the batch, the other to be 1."
        )
    each = batch // batch_groups
    x = s.moveaxis(s.reshape(x, shape=(batch_groups, each, channels, *lengths)), 0, 1)
    return s.reshape(x, shape=(each, batch_groups * channels, *lengths)), batch_groups


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: None = None,
) -> Any:
    """The convolution of neural networks (a correlation: the kernel is not flipped).

    Args:
      lhs: the inputs, shape (N, C, *lengths). rhs: the kernels, (O, C // groups, *sizes).
      window_strides: steps between the windows, one for each spatial axis.
      padding: "VALID", "SAME", "SAME_LOWER", or pairs (before, after), also negative.
      lhs_dilation, rhs_dilation: steps between neighbouring elements of inputs (for transposed
        convolutions) and kernels (for dilated ones).
      dimension_numbers: the axes by letters, as ("NHWC", "HWIO", "NHWC"), for other layouts.
      feature_group_count: groups of channels that are convolved separately (C: depthwise).
      batch_group_count: groups of the batch, each with its own kernels.
      precision, out_sharding: taken and ignored. preferred_element_type: dtype to compute in.

    Returns:
      The outputs, shape (N, O, *counts).

    Raises:
      ShapeError: if the channels do not fit. ArgumentError: if other arguments do not.

    The patches-and-product form of Chellapilla, Puri and Simard 2006.

    >>> x, w = np.ones((1, 1, 4)), np.array([[[1.0, 2.0]]])
    >>> conv_general_dilated(x, w, (1,), "VALID")
    array([[[3., 3., 3.]]])
    """
    x, w = promoted([array_of(lhs), array_of(rhs)], preferred_element_type)
    ndim = len(shape_of(x))
    if ndim != len(shape_of(w)) or ndim < 2:
        raise ShapeError(
            f"A convolution of arrays of shapes {shape_of(x)} and {shape_of(w)}{user_line()}: both "
            "need two axes and the spatial ones."
        )
    of_x, of_w, of_out = conv_dimension_numbers(shape_of(x), shape_of(w), dimension_numbers)
    x, w = arranged(x, of_x), arranged(w, of_w)
    x, groups = _by_features(x, feature_group_count, batch_group_count)
    count = ndim - 2
    strides = sizes_of("window_strides", window_strides, count)
    base = sizes_of("lhs_dilation", lhs_dilation, count)
    dilations = sizes_of("rhs_dilation", rhs_dilation, count)
    _, channels, *inner = shape_of(x)
    outs, inputs, *kernel = shape_of(w)
    if groups < 1 or channels != inputs * groups or outs % groups:
        raise ShapeError(
            f"A convolution in {groups} groups of {channels} channels by kernels from {inputs} to "
            f"{outs}{user_line()}: inputs need {inputs} channels for each group, and the outputs "
            "have to be a multiple of the groups."
        )
    if isinstance(padding, str) and padding.upper() != "VALID" and any(d > 1 for d in base):
        raise ArgumentError(f"padding={padding!r} with lhs_dilation{user_line()}: give pairs.")
    lengths = tuple([max((n - 1) * d + 1, 0) for n, d in zip(inner, base, strict=True)])
    pairs = padding_pairs(padding, lengths, tuple(kernel), strides, dilations)
    config = [(a, b, d - 1) for (a, b), d in zip(pairs, base, strict=True)]
    x = pad(x, 0, [(0, 0, 0), (0, 0, 0), *config])
    y = _contracted(x, w, groups, strides, dilations)
    return arranged(y, s.inverse_permutation(of_out))


def _contracted(x: Any, w: Any, groups: int, strides: Sizes, dilations: Sizes) -> Any:
    """The convolution of NC... and OI... arrays without padding, as NC...."""
    batch, _, *lengths = shape_of(x)
    outs, inputs, *kernel = shape_of(w)
    count = len(kernel)
    counts = window_counts(tuple(lengths), tuple(kernel), strides, dilations)
    trailing = tuple(range(2 + count, 2 + 2 * count))
    in_kernel = tuple(range(1, 2 + count))
    if groups == 1:
        seen = windows(x, sizes=tuple(kernel), strides=strides, dilations=dilations)
        # Kernels first: the copies of windows are rows of adjacent elements, as are the results.
        rows = math.prod((inputs, *kernel))
        if rows * batch * math.prod(counts) > COPIED:
            y = dot_general(w, seen, contract=(in_kernel, (1, *trailing)), batch=((), ()))
            return s.moveaxis(y, 0, 1)
        seen = s.transpose(seen, axes=(1, *trailing, 0, *range(2, 2 + count)))
        seen = s.reshape(seen, shape=(rows, batch * math.prod(counts)))
        w = s.reshape(w, shape=(outs, rows))
        y = dot_general(w, seen, contract=((1,), (0,)), batch=((), ()))
        return s.moveaxis(s.reshape(y, shape=(outs, batch, *counts)), 0, 1)
    x = s.reshape(x, shape=(batch, groups, inputs, *lengths))
    w = s.reshape(w, shape=(groups, outs // groups, inputs, *kernel))
    seen = windows(x, sizes=tuple(kernel), strides=strides, dilations=dilations)
    after, in_group = tuple(a + 1 for a in (1, *trailing)), tuple(a + 1 for a in in_kernel)
    y = dot_general(seen, w, contract=(after, in_group), batch=((1,), (0,)))
    # The axes of the product: groups, batch, counts, outputs of a group.
    y = arranged(y, (1, 0, 2 + count, *range(2, 2 + count)))
    return s.reshape(y, shape=(batch, outs, *counts))


def conv_with_general_padding(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any,
    lhs_dilation: Sequence[int] | None, rhs_dilation: Sequence[int] | None,
) -> Any:  # fmt: skip
    """`conv_general_dilated` in the layout NC..., OI..., with the same arguments.

    Args:
      lhs: the images, shape (batch, channels, ...).
      rhs: the kernels, shape (new channels, channels, ...); both of one inexact dtype.
      window_strides: the steps of the kernel along each spatial axis.
      padding: "SAME", "VALID", or a pair (before, after) for each spatial axis.
      lhs_dilation, rhs_dilation: the distances of elements of images and kernels; None for 1.

    >>> x, w = np.ones((1, 1, 3)), np.ones((1, 1, 2))
    >>> conv_with_general_padding(x, w, (1,), [(1, 0)], None, None)
    array([[[1., 2., 2.]]])
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation)


def conv(lhs: Any, rhs: Any, window_strides: Sequence[int], padding: str) -> Any:
    """`conv_general_dilated` in the layout NC..., OI..., without dilations.

    Args:
      lhs: the images, shape (batch, channels, ...).
      rhs: the kernels, shape (new channels, channels, ...); both of one inexact dtype.
      window_strides: the steps of the kernel along each spatial axis.
      padding: "SAME" or "VALID".

    >>> conv(np.ones((1, 1, 3)), np.ones((1, 1, 2)), (1,), "VALID")
    array([[[2., 2.]]])
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding)


def arranged(x: Any, axes: tuple[int, ...]) -> Any:
    """x with its axes in this order."""
    return x if axes == tuple(range(len(axes))) else s.transpose(x, axes=axes)


__all__ = [
    "ConvDimensionNumbers", "conv", "conv_dimension_numbers", "conv_general_dilated",
    "conv_with_general_padding", "padtype_to_pads", "reduce_window",
]  # fmt: skip
