"""Filters of scipy.ndimage: compositions of pads and convolutions.

Computed in double precision and returned in the dtype of the input, as in SciPy. Gaussian filters
are differentiable by their width too.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import array_of, axis_indices, double_of
from fungrad.primitives.contraction.convolution import convolve_nd
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.movement.sliding_window import windows
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, shape_of

PADDING = {
    "reflect": "symmetric", "grid-mirror": "symmetric", "constant": "constant",
    "grid-constant": "constant", "nearest": "edge", "mirror": "reflect", "wrap": "wrap",
    "grid-wrap": "wrap",
}  # fmt: skip


def prepared(function: str, input: Any, output: Any) -> tuple[Any, Any]:
    """(the input in double precision, the dtype of the result).

    Raises:
      UnsupportedArgumentError: if the output is an array to write into.
    """
    x = array_of(input)
    if output is not None and (type(output) is Tracer or isinstance(output, np.ndarray)):
        raise UnsupportedArgumentError(
            f"ndimage.{function} was called with an array as output{user_line()}. Give a dtype, or "
            "nothing, and use the result."
        )
    dtype = x.dtype if output is None else np.dtype(output)
    if x.dtype.kind == "c" and dtype.kind != "c":
        dtype = np.result_type(dtype, np.complex64)
    return double_of(x), dtype


def rounded(x: Any, dtype: Any) -> Any:
    """x between two axes, as in SciPy: cast to the dtype of the result if that is integer."""
    return cast(cast(x, dtype), x.dtype) if dtype.kind in "iu" else x


def _mode(mode: Any) -> str:
    if mode not in PADDING:
        raise RuntimeError("boundary mode not supported")
    return PADDING[mode]


def padded(x: Any, widths: Sequence[tuple[int, int]], mode: Any, cval: Any) -> Any:
    kind = _mode(mode)
    if not any(map(any, widths)) or 0 in shape_of(x):
        return x
    extra: Any = {"constant_values": cval} if kind == "constant" else {}
    return np.pad(x, widths, mode=kind, **extra)  # type: ignore[call-overload]


def _window(size: int, origin: int) -> tuple[int, int]:
    """The extent of a window before and after its position.

    Raises:
      ValueError: if its position lies outside it.
    """
    if not -(size // 2) <= origin <= (size - 1) // 2:
        raise ValueError(
            "Invalid origin; origin must satisfy -(len(weights) // 2) <= origin <= "
            "(len(weights)-1) // 2"
        )
    before = size // 2 + origin
    return before, size - 1 - before


def _per_axis(value: Any, count: int, name: str) -> list[Any]:
    """One value for each axis, from a common value or a sequence."""
    if isinstance(value, (str, numbers.Number)) or value is None or np.ndim(value) == 0:
        return [value] * count
    values = list(value)
    if len(values) != count:
        raise RuntimeError(f"sequence argument `{name}` must have length equal to input rank")
    return values


def _axes(axes: Any, ndim: int) -> tuple[int, ...]:
    return tuple(range(ndim)) if axes is None else axis_indices(axes, ndim)


# --- along one axis -------------------------------------------------------------------------------


def _correlated(x: Any, weights: Any, axis: int, mode: Any, cval: Any, origin: int) -> Any:
    """The correlation of a double-precision array with a vector along an axis."""
    if not shape_of(weights)[0]:
        raise RuntimeError("no filter weights given")
    ends = _window(shape_of(weights)[0], origin)
    axis %= len(shape_of(x))
    x = np.moveaxis(x, axis, -1)
    x = padded(x, [(0, 0)] * (len(shape_of(x)) - 1) + [ends], mode, cval)
    kernel = np.reshape(weights[::-1], (*(1,) * (len(shape_of(x)) - 1), -1))
    if 0 in shape_of(x):
        return np.moveaxis(x, -1, axis)
    return np.moveaxis(convolve_nd(x, kernel, axes=1, mode="valid"), -1, axis)


def _vector(weights: Any) -> Any:
    weights = double_of(weights)
    if len(shape_of(weights)) != 1 or not shape_of(weights)[0]:
        raise RuntimeError("no filter weights given")
    return weights


def _checked_axis(axis: int, input: Any) -> int:
    return axis_indices(axis, len(shape_of(array_of(input))))[0]


def correlate1d(
    input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, origin: int = 0,
) -> Any:  # fmt: skip
    """The correlation with a vector along an axis, as scipy.ndimage.correlate1d.

    Args:
      input: an array. weights: a vector. axis: the axis. output: a dtype.
      mode: the values outside: "reflect", "constant" (cval), "nearest", "mirror" or "wrap".
      cval: the constant. origin: the shift of the window backwards.

    >>> correlate1d([1.0, 2.0, 4.0], [-1.0, 1.0])
    array([0., 1., 2.])
    """
    x, dtype = prepared("correlate1d", input, output)
    weights, axis = np.conj(_vector(weights)), _checked_axis(axis, x)
    result = _correlated(x, weights, axis, mode, cval, origin)
    return cast(result, np.result_type(dtype, np.complex64) if result.dtype.kind == "c" else dtype)


def convolve1d(
    input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, origin: int = 0,
) -> Any:  # fmt: skip
    """The convolution with a vector along an axis, as scipy.ndimage.convolve1d.

    Args:
      input, weights, axis, output, mode, cval, origin: as for correlate1d; the window is turned
        round.

    >>> convolve1d([1.0, 2.0, 4.0], [1.0, -1.0])
    array([1., 2., 0.])
    """
    weights = np.conj(_vector(weights)[::-1])
    origin = -origin - (shape_of(weights)[0] + 1) % 2
    return correlate1d(input, weights, axis, output, mode, cval, origin)


def _gaussian_kernel(sigma: Any, order: int, radius: int) -> Any:
    """Samples of a normalised Gaussian, or of its derivative, by Hermite's polynomials."""
    t = np.arange(-radius, radius + 1) / sigma
    bell = np.exp(-0.5 * t * t)
    bell = bell / np.sum(bell)
    previous, polynomial = np.zeros(2 * radius + 1), np.ones(2 * radius + 1)
    for n in range(order):
        previous, polynomial = polynomial, t * polynomial - n * previous
    return (-1.0) ** order * polynomial * bell / sigma**order


def _radius(sigma: Any, truncate: float, radius: Any) -> int:
    if radius is None:
        width = float(known(stop_gradient(sigma), "the radius of a Gaussian kernel"))
        return int(truncate * width + 0.5)
    if not isinstance(radius, numbers.Integral) or radius < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    return int(radius)


def gaussian_filter1d(
    input: Any, sigma: Any, axis: int = -1, order: int = 0, output: Any = None,
    mode: str = "reflect", cval: Any = 0.0, truncate: float = 4.0, *, radius: Any = None,
) -> Any:  # fmt: skip
    """A Gaussian filter along an axis, or its derivative: scipy.ndimage.gaussian_filter1d.

    Differentiable by sigma too; under jit and vmap a traced sigma needs `radius`.

    Args:
      sigma: the standard deviation in elements. order: 0, or that of the derivative.
      truncate: the end of the kernel in sigmas; radius: or in elements.
      input, axis, output, mode, cval: as for correlate1d.

    >>> np.round(gaussian_filter1d([0.0, 0.0, 1.0, 0.0, 0.0], 0.5), 2)
    array([0.  , 0.11, 0.79, 0.11, 0.  ])
    """
    if order < 0:
        raise ValueError("order must be non-negative")
    kernel = _gaussian_kernel(sigma, order, _radius(sigma, truncate, radius))
    return correlate1d(input, kernel[::-1], axis, output, mode, cval, 0)


def gaussian_filter(
    input: Any, sigma: Any, order: Any = 0, output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, truncate: float = 4.0, *, radius: Any = None, axes: Any = None,
) -> Any:  # fmt: skip
    """A Gaussian filter along several axes, as scipy.ndimage.gaussian_filter.

    Args:
      input, output, cval, truncate: as for gaussian_filter1d.
      sigma, order, mode, radius: one for all axes, or one for each.
      axes: the axes that are filtered; None for all.

    >>> bool(np.isclose(np.sum(gaussian_filter(np.eye(3), 0.5)), 3.0))
    True
    """
    x, dtype = prepared("gaussian_filter", input, output)
    axes = _axes(axes, len(shape_of(x)))
    count = len(axes)
    given = (sigma, order, mode, radius)
    rows = zip(*[_per_axis(v, count, "sigma") for v in given], strict=True)
    for axis, (s, n, m, r) in zip(axes, rows, strict=True):
        if r is None and float(known(stop_gradient(s), "the radius of a Gaussian kernel")) <= 1e-15:
            continue
        x = cast(gaussian_filter1d(x, s, axis, n, None, m, cval, truncate, radius=r), x.dtype)
        x = rounded(x, dtype)
    return cast(x, dtype)


def uniform_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, origin: int = 0,
) -> Any:  # fmt: skip
    """The mean of a window along an axis, as scipy.ndimage.uniform_filter1d.

    Args:
      input, axis, output, mode, cval, origin: as for correlate1d. size: the length of the window.

    >>> uniform_filter1d([1.0, 2.0, 6.0], 3)
    array([1.33333333, 3.        , 4.66666667])
    """
    if size < 1:
        raise RuntimeError("incorrect filter size")
    x, dtype = prepared("uniform_filter1d", input, output)
    total = _correlated(x, np.ones(size), _checked_axis(axis, x), mode, cval, origin)
    return cast(total / size, dtype)


def uniform_filter(
    input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """The mean of a window over several axes, as scipy.ndimage.uniform_filter.

    Args:
      input, output, cval, axes: as for correlate.
      mode, origin, size: one for all axes, or one for each.

    >>> float(uniform_filter(9.0 * np.eye(3))[1, 1])
    3.0
    """
    x, dtype = prepared("uniform_filter", input, output)
    axes = _axes(axes, len(shape_of(x)))
    rows = zip(*[_per_axis(v, len(axes), "size") for v in (size, mode, origin)], strict=True)
    for axis, (n, m, o) in zip(axes, rows, strict=True):
        if n > 1:
            x = rounded(uniform_filter1d(x, int(n), axis, None, m, cval, o), dtype)
    return cast(x, dtype)


# --- several axes ---------------------------------------------------------------------------------


def correlate(
    input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """The correlation with weights of the same ndim, as scipy.ndimage.correlate.

    Args:
      input: an array. weights: an array of as many axes as are filtered.
      output, mode, cval: as for correlate1d. origin: the shift of the window, one for all axes or
        each.
      axes: the axes that are filtered; None for all.

    >>> correlate(np.eye(2), np.ones((2, 2)), mode="constant")
    array([[1., 1.],
           [1., 2.]])
    """
    return _nd("correlate", input, weights, output, mode, cval, origin, axes, False)


def convolve(
    input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """The convolution with weights of the same ndim, as scipy.ndimage.convolve.

    Args:
      input, weights, output, mode, cval, origin, axes: as for correlate; the window is turned
        round.

    >>> convolve(np.eye(2), np.ones((2, 2)), mode="constant")
    array([[2., 1.],
           [1., 1.]])
    """
    return _nd("convolve", input, weights, output, mode, cval, origin, axes, True)


def _nd(
    name: str, input: Any, weights: Any, output: Any, mode: Any, cval: Any, origin: Any, axes: Any,
    flip: bool,
) -> Any:  # fmt: skip
    x, dtype = prepared(name, input, output)
    weights = double_of(weights)
    ndim, sizes = len(shape_of(x)), shape_of(weights)
    axes = tuple(sorted(_axes(axes, ndim)))
    if len(sizes) != len(axes):
        raise RuntimeError(f"weights.ndim ({len(sizes)}) must match len(axes) ({len(axes)}).")
    if 0 in sizes:
        raise RuntimeError("no filter weights given")
    widths = [(0, 0)] * ndim
    for axis, size, o in zip(axes, sizes, _per_axis(origin, len(sizes), "origin"), strict=True):
        widths[axis] = _window(size, -o - (size + 1) % 2 if flip else o)
    if not flip:
        weights = np.conj(weights)[(slice(None, None, -1),) * len(sizes)]
    shape = [1] * ndim
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    kernel = np.reshape(weights, shape)
    wide = padded(x, widths, mode, cval)
    result = convolve_nd(wide, kernel, axes=ndim, mode="valid") if 0 not in shape_of(x) else x
    return cast(result, np.result_type(dtype, np.complex64) if result.dtype.kind == "c" else dtype)


def _ranked(name: str, reduced: Callable[..., Any], what: str, shown: str) -> Callable[..., Any]:
    def ranked(
        input: Any, size: Any = None, footprint: Any = None, output: Any = None,
        mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None,
    ) -> Any:  # fmt: skip
        if footprint is not None or size is None:
            raise UnsupportedArgumentError(
                f"ndimage.{name} was called without a size, or with a footprint{user_line()}: give "
                "the size of a box, one number or one for each axis."
            )
        x = array_of(input)
        prepared(name, x, output)
        axes = _axes(axes, len(shape_of(x)))
        sizes = [int(n) for n in _per_axis(size, len(axes), "size")]
        widths = [(0, 0)] * len(shape_of(x))
        origins = _per_axis(origin, len(axes), "origin")
        for axis, n, o in zip(axes, sizes, origins, strict=True):
            widths[axis] = _window(n, o)
        wide = np.moveaxis(padded(x, widths, mode, cval), axes, tuple(range(-len(axes), 0)))
        ones = (1,) * len(axes)
        seen = windows(wide, sizes=tuple(sizes), strides=ones, dilations=ones)
        flat = np.reshape(seen, (*shape_of(seen)[: -len(axes)], math.prod(sizes)))
        result = np.moveaxis(reduced(flat), tuple(range(-len(axes), 0)), axes)
        return cast(result, x.dtype if output is None else np.dtype(output))

    ranked.__name__ = ranked.__qualname__ = name
    ranked.__doc__ = f"""The {what} of a box around each element, as scipy.ndimage.{name}.

    Ties share the derivative equally. All windows are kept, so memory is size times that of the
    input.

    Args:
      input: an array. size: the lengths of the box, one for all axes or each. footprint: None.
      output, mode, cval, origin, axes: as for correlate.

    Raises:
      UnsupportedArgumentError: without a size, or with a footprint.

    >>> {name}(np.array([1.0, 4.0, 2.0, 3.0]), 3)
    array([{shown}])
    """
    return ranked


def _upper_median(x: Any) -> Any:
    return np.sort(x, axis=-1)[..., shape_of(x)[-1] // 2]


maximum_filter = _ranked(
    "maximum_filter", lambda x: np.max(x, axis=-1), "largest element", "4., 4., 4., 3."
)
minimum_filter = _ranked(
    "minimum_filter", lambda x: np.min(x, axis=-1), "smallest element", "1., 1., 2., 2."
)
median_filter = _ranked("median_filter", _upper_median, "median, the upper one,", "1., 2., 3., 3.")
