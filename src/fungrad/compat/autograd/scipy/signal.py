"""The names of scipy.signal (`autograd.scipy.signal`), and autograd's own `convolve`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.compat.autograd.namespaces import names_of as _names_of
from fungrad.errors import ArgumentError
from fungrad.support.lazy import modules as _modules

_names_of(_modules[__name__], "fungrad.scipy.signal")

_Axes = Sequence[Sequence[int]]


def _roles(
    ranks: tuple[int, int], dot_axes: _Axes, axes: _Axes | None
) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """For both arrays the axes that remain, those of the sum of products and those of the
    convolution.
    """
    dots = [[i % n for i in given] for given, n in zip(dot_axes, ranks, strict=True)]
    free = [[i for i in range(n) if i not in d] for n, d in zip(ranks, dots, strict=True)]
    along = free
    if axes is not None:
        along = [[i % n for i in given] for given, n in zip(axes, ranks, strict=True)]
    if len(along[0]) != len(along[1]) or len(dots[0]) != len(dots[1]):
        raise ArgumentError(f"Both arrays need the same number of axes={along}, dot_axes={dots}.")
    rest = [[i for i in f if i not in a] for f, a in zip(free, along, strict=True)]
    return rest, dots, along


def convolve(
    A: Any, B: Any, axes: _Axes | None = None, dot_axes: _Axes = ((), ()), mode: str = "full"
) -> Any:
    """The convolution of two arrays along some axes, and their product along others.

    Args:
      A, B: arrays.
      axes: the axes of A, and those of B, along which to convolve; by default all that are not in
        dot_axes, in order.
      dot_axes: the axes of A, and those of B, of a sum of products.
      mode: "full"; "same", its middle part, as long as A; or "valid", for which B is no longer than
        A, or A no longer than B.

    Returns:
      An array with the remaining axes of A, those of B, and those of the convolution.

    >>> convolve(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0]))
    array([1., 3., 5., 3.])
    """
    if mode not in ("full", "valid", "same"):
        raise ArgumentError(f"mode={mode!r} is not 'full', 'valid' or 'same'.")
    rest, dots, along = _roles((np.ndim(A), np.ndim(B)), dot_axes, axes)
    a = np.transpose(A, (*rest[0], *dots[0], *along[0]))
    b = np.transpose(B, (*rest[1], *dots[1], *along[1]))
    count, inner = len(along[0]), len(dots[0])
    ends = [tuple(range(x.ndim - count, x.ndim)) for x in (a, b)]
    sizes = [[x.shape[i] for i in end] for x, end in zip((a, b), ends, strict=True)]
    swapped = mode == "valid" and sizes[0] < sizes[1]
    if swapped:
        a, b, sizes, ends, rest = b, a, sizes[::-1], ends[::-1], rest[::-1]
    if mode != "valid":
        ends_with = [(n - 1, n - 1) if mode == "full" else (n // 2, (n - 1) // 2) for n in sizes[1]]
        a = np.pad(a, [(0, 0)] * (a.ndim - count) + ends_with)
    windows = np.lib.stride_tricks.sliding_window_view(a, tuple(sizes[1]), axis=ends[0])
    first, second = len(rest[0]), len(rest[1])
    of_windows = [*range(first, first + inner), *range(windows.ndim - count, windows.ndim)]
    of_kernel = list(range(second, second + inner + count))
    out = np.tensordot(windows, np.flip(b, ends[1]), axes=(of_windows, of_kernel))
    # (rest of a, places, rest of b) -> (rest of A, rest of B, places)
    left, places = list(range(first)), list(range(first, first + count))
    right = list(range(first + count, first + count + second))
    return np.transpose(out, (*right, *left, *places) if swapped else (*left, *right, *places))
