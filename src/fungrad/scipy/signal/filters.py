"""Recursive filters of scipy.signal, and functions based on them.

A filter is a convolution with b followed by the primitive `all_pole`, SciPy's lfilter with only a.
Its derivatives are filters again: forwards for tangents, backwards in time for cotangents.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.custom_rules.closures_and_arguments import valueless
from fungrad.errors import UnsupportedArgumentError
from fungrad.ir.types import Type
from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import array_of, axis_index, axis_last
from fungrad.primitives.contraction.convolution import convolve_nd
from fungrad.primitives.movement.reshape_broadcast_cast import (
    cast,
    concatenate,
    flip,
    prepend_axes,
    slice_axis,
)
from fungrad.primitives.primitive import Primitive, zeros
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.optional import scipy_module, stands_for
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of, typeof

# --- the recursion --------------------------------------------------------------------------------


def _eval_all_pole(a: Any, u: Any) -> Any:
    dtype = np.result_type(a, u)
    lead = np.broadcast_shapes(a.shape[:-1], u.shape[:-1])
    one = np.ones(1, dtype)
    lfilter = scipy_module("scipy.signal").lfilter
    if not u.shape[-1] or not math.prod(lead):
        return np.zeros((*lead, u.shape[-1]), dtype)
    if a.ndim == 1:
        return lfilter(one, np.concatenate([one, a]), u.astype(dtype))
    rows_a = np.broadcast_to(a, (*lead, a.shape[-1])).reshape(math.prod(lead), a.shape[-1])
    rows_u = np.broadcast_to(u, (*lead, u.shape[-1])).reshape(math.prod(lead), u.shape[-1])
    result = np.empty(rows_u.shape, dtype)
    for i, (row_a, row_u) in enumerate(zip(rows_a, rows_u, strict=True)):
        result[i] = lfilter(one, np.concatenate([one, row_a]), row_u.astype(dtype))
    return result.reshape(*lead, u.shape[-1])


def _type_all_pole(a: Type, u: Type) -> Type:
    lead = np.broadcast_shapes(a.shape[:-1], u.shape[:-1])
    return Type((*lead, u.shape[-1]), np.result_type(a.dtype, u.dtype))


def _delayed(y: Any, count: int) -> Any:
    """y after `count` zeros along the last axis."""
    type_ = typeof(y)
    return concatenate(zeros(Type((*type_.shape[:-1], count), type_.dtype)), y, axis=type_.ndim - 1)


def _vjp_all_pole(ct: Any, y: Any, args: Any, wanted: Any) -> list[Any]:
    a = args[0]
    last = len(shape_of(ct)) - 1
    w = flip(all_pole(a, flip(ct, axes=(last,))), axes=(last,))
    if not wanted[0]:
        return [None, w]
    count = shape_of(a)[-1]
    if not shape_of(w)[-1] or not count:
        lead = shape_of(w)[:-1]
        return [zeros(Type((*lead, count), typeof(w).dtype)), w]
    # Over lags 0 ... count of y before w; lag 0 does not belong to a.
    lags = convolve_nd(_delayed(y, count), flip(w, axes=(last,)), axes=1, mode="valid")
    lags = slice_axis(lags, axis=last, start=0, stop=count)
    return [-flip(lags, axes=(last,)), w]


def _jvp_all_pole(primals: Any, tangents: Any) -> tuple[Any, Any]:
    a, u = primals
    da, du = tangents
    y = all_pole(a, u)
    moved = du
    length, count = shape_of(y)[-1], shape_of(a)[-1]
    if da is not None and length and count:
        full = convolve_nd(_delayed(y, 1), da, axes=1, mode="full")
        term = -slice_axis(full, axis=len(shape_of(full)) - 1, start=0, stop=length)
        moved = term if du is None else du + term
    return y, None if moved is None else all_pole(a, moved)


def _batch_all_pole(args: Any, batched: Any, size: int) -> Any:
    ndim = max(len(shape_of(x)) - b for x, b in zip(args, batched, strict=True))
    return all_pole(
        *[prepend_axes(x, ndim + 1) if b else x for x, b in zip(args, batched, strict=True)]
    )


all_pole: Primitive = Primitive(
    "all_pole",
    cost=lambda e: 2 * e.outputs[0].type.size * e.inputs[0].type.shape[-1],
    eval=_eval_all_pole,
    type=_type_all_pole,
    jvp=_jvp_all_pole,
    vjp=_vjp_all_pole,
    batch=_batch_all_pole,
)
"""`all_pole(a, u)`: y[n] = u[n] - sum over k >= 1 of a[k - 1] y[n - k], along the last axes; the
others broadcast."""

# --- filters --------------------------------------------------------------------------------------


def _floating(*arrays: Any) -> list[Any]:
    dtype = np.result_type(*[x.dtype for x in arrays])
    if dtype.kind not in "fc":
        raise NotImplementedError(f"input type '{dtype}' not supported")
    return [cast(x, dtype) for x in arrays]


def _coefficients(name: str, x: Any) -> Any:
    x = array_of(x)
    if len(shape_of(x)) != 1 or not shape_of(x)[0]:
        raise ValueError(f"Parameter {name} is not a non-empty 1d array, since {shape_of(x)=}!")
    return x


def _extended(x: Any, length: int) -> Any:
    """x with zeros appended along the last axis."""
    missing = length - shape_of(x)[-1]
    if missing <= 0:
        return x
    blank = np.zeros((*shape_of(x)[:-1], missing), x.dtype)
    return np.concatenate([x, blank], axis=-1)


@stands_for("scipy.signal")
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """The filter a[0] y[k] + a[1] y[k - 1] + ... = b[0] x[k] + b[1] x[k - 1] + ... along an axis.

    Differentiable by b, a, x and zi.

    Args:
      b, a: vectors, numerator and denominator; a[0] scales both.
      x: the signal, real or complex.
      axis: that of the signal.
      zi: the initial conditions, with max(len(a), len(b)) - 1 elements along axis; zeros if None.

    Returns:
      y, or with zi (y, the final conditions).

    Raises:
      ValueError: if the shapes do not fit.

    >>> import fungrad as fg
    >>> lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0])
    array([1.  , 0.5 , 0.25])
    >>> float(fg.grad(lambda p: lfilter([1.0], [1.0, -p], [1.0, 0.0, 0.0])[-1])(0.5))
    1.0
    """
    b, a, x = _coefficients("b", b), _coefficients("a", a), array_of(x)
    if not shape_of(x):
        raise ValueError("x must be at least 1-D")
    order = max(shape_of(a)[0], shape_of(b)[0]) - 1
    given = [b, a, x, *([] if zi is None else [array_of(zi)])]
    b, a, x, *rest = _floating(*given)
    x, axis = axis_last(x, axis)
    length = shape_of(x)[-1]
    b, a = b / a[0], a / a[0]
    tail: Any = None
    if rest:
        tail = _conditions(rest[0], axis, (*shape_of(x)[:-1], order))
    shape = (1,) * (len(shape_of(x)) - 1)
    forced = _extended(convolve_nd(x, np.reshape(b, (*shape, -1)), axes=1, mode="full"),
                       length + order) if length else _extended(x, order)  # fmt: skip
    if rest and order:
        forced = forced + _extended(tail, length + order)
    y = all_pole(a[1:], forced[..., :length]) if shape_of(a)[0] > 1 else forced[..., :length]
    filtered = np.moveaxis(y, -1, axis)
    if not rest:
        return filtered
    final = forced[..., length:]
    if shape_of(a)[0] > 1 and length:
        back = convolve_nd(y, np.reshape(a, (*shape, -1)), axes=1, mode="full")
        final = final - _extended(back, length + order)[..., length : length + order]
    return filtered, np.moveaxis(final, -1, axis)


def _conditions(zi: Any, axis: int, shape: tuple[int, ...]) -> Any:
    if len(shape_of(zi)) != len(shape):
        raise ValueError(
            f"Dimensions of parameters x and zi must match, but x has {len(shape)} and zi "
            f"{len(shape_of(zi))}!"
        )
    zi = np.moveaxis(zi, axis, -1)
    fits = all(n in (1, m) for n, m in zip(shape_of(zi), shape, strict=True))
    if not fits or shape_of(zi)[-1] != shape[-1]:
        raise ValueError(
            f"Unexpected shape for parameter zi: expected {shape}, found {shape_of(zi)}."
        )
    return np.broadcast_to(zi, shape)


def lfilter_zi(b: Any, a: Any) -> Any:
    """The initial conditions with which a filter answers a step by its steady state at once.

    Args:
      b, a: vectors, numerator and denominator.

    Returns:
      A vector of max(len(a), len(b)) - 1 numbers.

    >>> lfilter_zi([1.0], [1.0, -0.5])
    array([1.])
    """
    b, a = _coefficients("b", b), _coefficients("a", a)
    b, a = b / a[0], a / a[0]
    order = max(shape_of(a)[0], shape_of(b)[0]) - 1
    b, a = _extended(b, order + 1), _extended(a, order + 1)
    dtype = np.result_type(a.dtype, b.dtype)
    companion = np.eye(order, dtype=dtype) - np.eye(order, k=1, dtype=dtype)
    matrix = companion + a[1:, None] @ np.eye(1, order, dtype=dtype)
    return np.linalg.solve(matrix, (b[1:] - a[1:] * b[0])[:, None])[:, 0]


def _padded(x: Any, padtype: Any, padlen: Any, taps: int) -> tuple[int, Any]:
    """(the width of the padding, the signal with it along the last axis)."""
    if padtype not in ("even", "odd", "constant", None):
        raise ValueError(
            f"Unknown value '{padtype}' given to padtype. padtype must be 'even', 'odd', "
            "'constant', or None."
        )
    edge = 0 if padtype is None else 3 * taps if padlen is None else padlen
    if shape_of(x)[-1] <= edge:
        raise ValueError(
            f"The length of the input vector x must be greater than padlen, which is {edge}."
        )
    return edge, edge_extension(x, padtype, edge)


def edge_extension(x: Any, kind: Any, edge: int) -> Any:
    """x with `edge` elements before and after along the last axis: "even", "odd", "constant"."""
    if not edge or kind is None:
        return x
    before, after = x[..., edge:0:-1], x[..., -2 : -(edge + 2) : -1]
    if kind == "odd":
        before, after = 2 * x[..., :1] - before, 2 * x[..., -1:] - after
    elif kind == "constant":
        before, after = x[..., :1] + 0 * before, x[..., -1:] + 0 * after
    return np.concatenate([before, x, after], axis=-1)


def _both_ways(x: Any, edge: int, filtered: Any) -> Any:
    """A filter forwards and backwards along the last axis, each starting in its steady state."""
    y = filtered(x, x[..., :1])
    y = filtered(y[..., ::-1], y[..., -1:])[..., ::-1]
    return y[..., edge : shape_of(y)[-1] - edge]


@stands_for("scipy.signal")
def filtfilt(
    b: Any, a: Any, x: Any, axis: int = -1, padtype: Any = "odd", padlen: Any = None,
    method: str = "pad", irlen: Any = None,
) -> Any:  # fmt: skip
    """A filter forwards and then backwards, which shifts no phase.

    Args:
      b, a: vectors, numerator and denominator.
      x: the signal, real or complex.
      axis: that of the signal.
      padtype: the continuation beyond the ends: "odd", "even", "constant" or None.
      padlen: its length; by default 3 max(len(a), len(b)).
      method: "pad"; SciPy's "gust" only for plain arrays.
      irlen: the length of the impulse response, which SciPy's "gust" reads.

    Returns:
      An array of the shape of x.

    Raises:
      ValueError: for an unknown padtype, and for a signal not longer than the padding.
      UnsupportedArgumentError: for method="gust", on traced values.

    >>> bool(np.allclose(filtfilt([0.5], [1.0, -0.5], np.ones(8)), 1.0))
    True
    """
    if method != "pad":
        raise UnsupportedArgumentError(
            f"filtfilt(method={method!r}){user_line()} under a transform: only 'pad' is supported."
        )
    b, a, x = np.atleast_1d(array_of(b)), np.atleast_1d(array_of(a)), array_of(x)
    x, axis = axis_last(x, axis)
    taps = max(shape_of(a)[0], shape_of(b)[0])
    edge, x = _padded(x, padtype, padlen, taps)
    zi = lfilter_zi(b, a)
    y = _both_ways(x, edge, lambda u, first: lfilter(b, a, u, zi=zi * first)[0])
    return np.moveaxis(y, -1, axis)


# --- sections -------------------------------------------------------------------------------------


def _sections(sos: Any) -> Any:
    sos = array_of(sos)
    if len(shape_of(sos)) != 2 or shape_of(sos)[1] != 6:
        raise ValueError("sos array must be shape (n_sections, 6)")
    if not valueless() and not np.all(known(stop_gradient(sos), "sos")[:, 3] == 1):
        raise ValueError("sos[:, 3] should be all ones")
    return sos


@stands_for("scipy.signal")
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """A filter in second-order sections, each of which filters the output of the one before.

    Args:
      sos: rows (b0, b1, b2, 1, a1, a2), one a section.
      x: the signal, real or complex.
      axis: that of the signal.
      zi: the initial conditions, of the shape of x with 2 elements along axis, for each section.

    Returns:
      y, or with zi (y, the final conditions).

    Raises:
      ValueError: if the shapes do not fit.

    >>> sosfilt([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]], [1.0, 0.0, 0.0])
    array([1.  , 0.5 , 0.25])
    """
    sos, y = _sections(sos), array_of(x)
    given = [sos, y, *([] if zi is None else [array_of(zi)])]
    sos, y, *rest = _floating(*given)
    axis = axis_index(axis, len(shape_of(y)))
    shape = list(shape_of(y))
    shape[axis] = 2
    if rest and shape_of(rest[0]) != (shape_of(sos)[0], *shape):
        raise ValueError(
            f"Invalid zi shape. With axis={axis}, an input with shape {shape_of(y)}, and an sos "
            f"array with {shape_of(sos)[0]} sections, zi must have shape "
            f"{(shape_of(sos)[0], *shape)}, got {shape_of(rest[0])}."
        )
    finals = []
    for i in range(shape_of(sos)[0]):
        if not rest:
            y = lfilter(sos[i, :3], sos[i, 3:], y, axis)
            continue
        y, final = lfilter(sos[i, :3], sos[i, 3:], y, axis, rest[0][i])
        finals.append(final)
    return (y, np.stack(finals)) if rest else y


def sosfilt_zi(sos: Any) -> Any:
    """The initial conditions with which sections answer a step by their steady state at once.

    Args:
      sos: rows (b0, b1, b2, 1, a1, a2), one a section.

    Returns:
      An array of shape (sections, 2).

    >>> sosfilt_zi([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]])
    array([[1., 0.]])
    """
    sos = _sections(sos)
    scale, states = 1.0, []
    for i in range(shape_of(sos)[0]):
        b, a = sos[i, :3], sos[i, 3:]
        states.append(scale * lfilter_zi(b, a))
        scale = scale * np.sum(b) / np.sum(a)
    return np.stack(states)


@stands_for("scipy.signal")
def sosfiltfilt(sos: Any, x: Any, axis: int = -1, padtype: Any = "odd", padlen: Any = None) -> Any:
    """Second-order sections forwards and then backwards, which shift no phase.

    The length of the padding is SciPy's, which depends on the number of zeros in sos; under jit and
    vmap it is not known, and taken as 0.

    Args:
      sos: rows (b0, b1, b2, 1, a1, a2), one a section.
      x: the signal, real or complex.
      axis: that of the signal.
      padtype: the continuation beyond the ends: "odd", "even", "constant" or None.
      padlen: its length.

    Returns:
      An array of the shape of x.

    Raises:
      ValueError: for an unknown padtype, and for a signal not longer than the padding.

    >>> bool(np.allclose(sosfiltfilt([[0.5, 0, 0, 1, -0.5, 0]], np.ones(12)), 1.0))
    True
    """
    sos, x = _sections(sos), array_of(x)
    x, axis = axis_last(x, axis)
    taps = 2 * shape_of(sos)[0] + 1
    if not valueless():
        last = known(stop_gradient(sos), "sos")
        taps -= min(int((last[:, 2] == 0).sum()), int((last[:, 5] == 0).sum()))
    edge, x = _padded(x, padtype, padlen, taps)
    zi = sosfilt_zi(sos)
    zi = np.reshape(zi, (shape_of(zi)[0], *(1,) * (len(shape_of(x)) - 1), 2))
    y = _both_ways(x, edge, lambda u, first: sosfilt(sos, u, zi=zi * first)[0])
    return np.moveaxis(y, -1, axis)
