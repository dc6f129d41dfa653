"""Convolutions in other forms, with JAX's signatures: transposed, and as patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.lax.convolution import (
    arranged,
    conv_dimension_numbers,
    conv_general_dilated,
    padding_pairs,
    sizes_of,
)
from fungrad.lax.slicing import pad
from fungrad.numpy.protocol.operands import array_of, promoted
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.sliding_window import windows
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of

_CHANNELS_LAST = {2: "", 3: "H", 4: "HW", 5: "HWD"}


def _transposed_padding(size: int, stride: int, padding: Any) -> tuple[int, int]:
    """The padding of a transposed convolution, from that of the convolution it transposes."""
    if padding == "SAME":
        total = size + stride - 2
        before = size - 1 if stride > size - 1 else -(-total // 2)
        return before, total - before
    if padding == "VALID":
        return size - 1, size + stride - 2 + max(size - stride, 0) - (size - 1)
    before, after = padding
    return size - 1 - before, size - 1 - after


def _transposed_paddings(
    sizes: Sequence[int], strides: Sequence[int], padding: Any
) -> list[tuple[int, int]]:
    if isinstance(padding, str) and padding not in ("SAME", "VALID"):
        raise ArgumentError(
            f"padding={padding!r} of conv_transpose{user_line()} is not 'SAME', 'VALID' or a "
            "sequence of pairs (before, after)."
        )
    each = [padding] * len(sizes) if isinstance(padding, str) else list(padding)
    return [_transposed_padding(*given) for given in zip(sizes, strides, each, strict=True)]


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Any:
    """A transposed convolution: a weighted kernel for each input element, `strides` apart, summed.

    Args:
      lhs: the inputs. rhs: the kernels. strides: the upsampling factor of each spatial axis.
      padding: "SAME" (strides times the lengths), "VALID", or pairs (before, after).
      rhs_dilation: steps between neighbouring elements of the kernels.
      dimension_numbers: the axes by letters; the channels last by default, as ("NHWC", "HWIO",
        "NHWC").
      transpose_kernel: whether rhs is the kernel of the convolution that this one transposes; then
        it is flipped, and its input and output features are exchanged.
      precision: taken and ignored. preferred_element_type: dtype to compute in.
      use_consistent_padding: whether pairs mean the padding of the transposed convolution, as names
        do.

    Raises:
      ShapeError, ArgumentError: as `conv_general_dilated`.

    Dumoulin and Visin 2016, A guide to convolution arithmetic for deep learning.

    >>> x, w = np.ones((1, 2, 1)), np.array([[[1.0]], [[2.0]]])
    >>> conv_transpose(x, w, (2,), "VALID").ravel()
    array([2., 1., 2., 1.])
    """
    x, w = array_of(lhs), array_of(rhs)
    ndim = len(shape_of(x))
    if dimension_numbers is None:
        if ndim not in _CHANNELS_LAST:
            raise ArgumentError(
                f"conv_transpose of an array of shape {shape_of(x)}{user_line()}: give "
                "dimension_numbers where there are more than three spatial axes."
            )
        letters = _CHANNELS_LAST[ndim]
        dimension_numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    numbers = conv_dimension_numbers(shape_of(x), shape_of(w), dimension_numbers)
    count = ndim - 2
    base = sizes_of("strides", strides, count)
    dilations = sizes_of("rhs_dilation", rhs_dilation, count)
    if isinstance(padding, str) or use_consistent_padding:
        sizes = [shape_of(w)[axis] for axis in numbers.rhs_spec[2:]]
        wide = [(k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True)]
        padding = _transposed_paddings(wide, base, padding)
    if transpose_kernel:
        w = s.flip(w, axes=numbers.rhs_spec[2:])
        w = np.swapaxes(w, numbers.rhs_spec[0], numbers.rhs_spec[1])
    given = {"preferred_element_type": preferred_element_type}
    return conv_general_dilated(x, w, (1,) * count, padding, base, dilations, numbers, **given)


def _patches(
    x: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
) -> Any:
    """The windows of an NC... array: (N, C times elements of a window, counts)."""
    batch, channels, *inner = shape_of(x)
    count = len(inner)
    kernel = sizes_of("filter_shape", tuple(filter_shape), count)
    strides = sizes_of("window_strides", window_strides, count)
    base = sizes_of("lhs_dilation", lhs_dilation, count)
    dilations = sizes_of("rhs_dilation", rhs_dilation, count)
    lengths = tuple([max((n - 1) * d + 1, 0) for n, d in zip(inner, base, strict=True)])
    pairs = padding_pairs(padding, lengths, kernel, strides, dilations)
    config = [(a, b, d - 1) for (a, b), d in zip(pairs, base, strict=True)]
    x = pad(x, 0, [(0, 0, 0), (0, 0, 0), *config])
    seen = windows(x, sizes=kernel, strides=strides, dilations=dilations)
    counts = shape_of(seen)[2 : 2 + count]
    seen = arranged(seen, (0, 1, *range(2 + count, 2 + 2 * count), *range(2, 2 + count)))
    return s.reshape(seen, shape=(batch, channels * int(np.prod(kernel, dtype=int)), *counts))


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The windows of a convolution, each as the features of its position.

    Args:
      lhs: the inputs, (N, C, *lengths).
      filter_shape: the shape of a window.
      window_strides, padding, lhs_dilation, rhs_dilation: as in `conv_general_dilated`.
      dimension_numbers, precision, preferred_element_type: as there.

    Returns:
      An array (N, C * elements of a window, *counts), with the elements of a channel together.

    >>> conv_general_dilated_patches(np.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
    array([[[0., 1., 2.], [1., 2., 3.]]])
    """
    (x,) = promoted([array_of(lhs)], preferred_element_type)
    shape = shape_of(x)
    numbers = conv_dimension_numbers(shape, (1,) * len(shape), dimension_numbers)
    patches = _patches(
        arranged(x, numbers.lhs_spec), filter_shape, window_strides, padding, lhs_dilation,
        rhs_dilation,
    )  # fmt: skip
    return arranged(patches, s.inverse_permutation(numbers.out_spec))


__all__ = ["conv_general_dilated_patches", "conv_transpose"]
