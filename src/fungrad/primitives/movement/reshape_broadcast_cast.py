"""Linear primitives that move or cast elements: reshape, transpose, broadcast, concatenate, pad,
flip, convert.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import GradientCutError, ShapeError
from fungrad.ir.canonical import canonical_dtype
from fungrad.ir.graph import Equation
from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.primitives.facts import (
    EXACT,
    FIRST,
    TERMS,
    Along,
    ScalarForm,
    Section,
    straight,
    whole,
)
from fungrad.primitives.primitive import Primitive, full, general, linear, zeros
from fungrad.tracing.memory_order import of_reshape
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, shape_of, typeof

Shape = tuple[int, ...]

# --- reshape --------------------------------------------------------------------------------------


def _type_reshape(x: Type, *, shape: Shape) -> Type:
    if x.size != Type(shape, x.dtype).size:
        raise ShapeError(f"An array of shape {x.shape} cannot be reshaped to {shape}.")
    return x.with_shape(shape)


def _sections_reshape(equation: Equation) -> list[Section]:
    """An axis is kept if one of its length has as many elements before it."""
    before, after = equation.inputs[0].type.shape, equation.params["shape"]
    loops_of = {(math.prod(after[:i]), n): Along(i) for i, n in reversed([*enumerate(after)])}
    place = [FIRST if n == 1 else loops_of.get((math.prod(before[:i]), n))
             for i, n in enumerate(before)]  # fmt: skip
    return [whole(equation, place)]


reshape: Primitive = linear(
    "reshape",
    sections=_sections_reshape,
    order=of_reshape,
    view=True,
    cost=0,
    moves=True,
    # The methods take a fifth of the functions' time; the functions serve values that are no array.
    eval=lambda x, *, shape: x.reshape(shape) if type(x) is np.ndarray else np.reshape(x, shape),
    type=_type_reshape,
    transpose=lambda ct, x, *, shape: reshape(ct, shape=x.shape),
    batch=lambda args, batched, size, *, shape: reshape(args[0], shape=(size, *shape)),
)
"""`reshape(x, shape=)`: the same elements in C order; the shape is complete (no -1)."""

# --- transpose ------------------------------------------------------------------------------------


def inverse_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    """The inverse of the permutation `axes`."""
    result = [0] * len(axes)
    for position, axis in enumerate(axes):
        result[axis] = position
    return tuple(result)


transpose: Primitive = linear(
    "transpose",
    sections=lambda e: [whole(e, map(Along, inverse_permutation(e.params["axes"])))],
    view=True,
    cost=0,
    moves=True,
    eval=lambda x, *, axes: x.transpose(axes) if type(x) is np.ndarray else np.transpose(x, axes),
    type=lambda x, *, axes: x.with_shape(tuple(x.shape[a] for a in axes)),
    transpose=lambda ct, x, *, axes: transpose(ct, axes=inverse_permutation(axes)),
    batch=lambda args, batched, size, *, axes: transpose(
        args[0], axes=(0, *(axis + 1 for axis in axes))
    ),
)
"""`transpose(x, axes=)`: axis i of the result is axis axes[i] of x."""


def moveaxis(x: Any, source: int, destination: int) -> Any:
    """x with one axis moved."""
    axes = list(range(len(shape_of(x))))
    axes.insert(destination, axes.pop(source))
    return x if axes == sorted(axes) else transpose(x, axes=tuple(axes))


# --- broadcasting ---------------------------------------------------------------------------------


def _type_broadcast(x: Type, *, shape: Shape) -> Type:
    offset = len(shape) - x.ndim
    if offset < 0 or any(n not in (1, m) for n, m in zip(x.shape, shape[offset:], strict=True)):
        raise ShapeError(f"An array of shape {x.shape} cannot be broadcast to {shape}.")
    return x.with_shape(shape)


def _batch_broadcast(args: Any, batched: Any, size: int, *, shape: Shape) -> Any:
    x = prepend_axes(args[0], len(shape) + 1)
    return broadcast_to(x, shape=(size, *shape))


def _eval_broadcast(x: Any, *, shape: Shape) -> Any:
    if (
        shape_of(x) == ()
    ):  # the usual case, the cotangent of a sum, without the overhead of np.broadcast_to
        x = np.asarray(x)
        view: Any = np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
        view.flags.writeable = False
        return view
    return np.broadcast_to(x, shape)


def _sections_broadcast(equation: Equation) -> list[Section]:
    before, after = equation.inputs[0].type.shape, equation.params["shape"]
    ahead = len(after) - len(before)
    return [whole(equation, [Along(ahead + i) if n == after[ahead + i] else FIRST
                             for i, n in enumerate(before)])]  # fmt: skip


broadcast_to: Primitive = linear(
    "broadcast_to",
    sections=_sections_broadcast,
    view=True,
    cost=0,
    eval=_eval_broadcast,
    type=_type_broadcast,
    transpose=lambda ct, x, *, shape: sum_to(ct, x.shape),
    batch=_batch_broadcast,
)
"""`broadcast_to(x, shape=)`: x repeated by NumPy's broadcasting; `eval` makes a read-only view."""


def prepend_axes(x: Any, ndim: int) -> Any:
    """A batched x with axes of length 1 inserted after the batch axis, up to `ndim` axes."""
    shape = shape_of(x)
    if len(shape) == ndim:
        return x
    return reshape(x, shape=(shape[0], *([1] * (ndim - len(shape))), *shape[1:]))


def aligned(args: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """The arguments of a primitive that broadcasts, with the batch axis first in all."""
    ndim = max(len(shape_of(a)) - b for a, b in zip(args, batched, strict=True))
    return [prepend_axes(a, ndim + 1) if b else a for a, b in zip(args, batched, strict=True)]


def with_batch(x: Any, batched: bool, size: int) -> Any:
    """x with the batch axis."""
    return x if batched else broadcast_to(x, shape=(size, *shape_of(x)))


def each_with_batch(args: Sequence[Any], batched: Sequence[bool], size: int) -> list[Any]:
    """The arguments, each with the batch axis."""
    return [with_batch(x, b, size) for x, b in zip(args, batched, strict=True)]


def sum_to(x: Any, shape: Shape) -> Any:
    """The transpose of broadcasting: sums x over the axes along which `shape` was repeated."""
    own = shape_of(x)
    if own == shape:
        return x
    before = (*[1] * (len(own) - len(shape)), *shape)
    axes = tuple([i for i, n in enumerate(before) if n == 1 != own[i]])
    if axes:
        x = reduce_sum(x, axes=axes)
    return x if shape_of(x) == shape else reshape(x, shape=shape)


# --- sum: the transpose of broadcasting, and so declared beside it --------------------------------


def _type_sum(x: Type, *, axes: tuple[int, ...]) -> Type:
    dtype = np.add.reduce(np.empty((0,), x.dtype)).dtype
    return Type(tuple(n for i, n in enumerate(x.shape) if i not in axes), dtype)


def _transpose_sum(ct: Any, x: Type, *, axes: tuple[int, ...]) -> Any:
    if len(axes) == len(x.shape):
        return broadcast_to(ct, shape=x.shape)
    kept = tuple([1 if i in axes else n for i, n in enumerate(x.shape)])
    return broadcast_to(reshape(ct, shape=kept), shape=x.shape)


def cost_of_reduction(equation: Equation) -> int:
    """n - m operations for n elements and m results."""
    x, result = equation.inputs[0].type, equation.outputs[0].type
    return (2 if x.dtype.kind == "c" else 1) * max(x.size - result.size, 0)


reduce_sum: Primitive = linear(
    "reduce_sum",
    rounding=TERMS,
    reduces=np.add,
    cost=cost_of_reduction,
    moves=True,
    eval=lambda x, *, axes: np.add.reduce(x, axis=axes),
    type=_type_sum,
    transpose=_transpose_sum,
    batch=lambda args, batched, size, *, axes: reduce_sum(args[0], axes=tuple(a + 1 for a in axes)),
)
"""`reduce_sum(x, axes=)`: the sum over the given axes, which are dropped."""

# --- casts ----------------------------------------------------------------------------------------


def _eval_convert(x: Any, *, dtype: np.dtype[Any]) -> Any:
    if type(x) in PYTHON_SCALARS:
        x = np.asarray(x)[()]
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    return x.astype(dtype)


CONVERSION = ScalarForm(
    {"f": "float({0})", "i": "int({0})", "b": "({0} != 0)"},
    cost="conversion",
    widens=False,
    grows=True,
)

convert: Primitive = linear(
    "convert",
    order="example",
    cost=0,
    eval=_eval_convert,
    type=lambda x, *, dtype: Type(x.shape, dtype),
    transpose=lambda ct, x, *, dtype: (
        ct if typeof(ct).dtype == np.bool_ else convert(ct, dtype=x.dtype)
    ),
    batch=lambda args, batched, size, *, dtype: convert(args[0], dtype=dtype),
    moves=True,
    scalar=CONVERSION,
)
"""`convert(x, dtype=)`: x in another floating or complex dtype; the real part if that is real. The
mask of a cotangent stays boolean.
"""

number: Primitive = linear(
    "number",
    order="example",
    cost=0,
    eval=float,
    type=lambda x: Type((), np.float64, weak=True),
    transpose=lambda ct, x: ct if typeof(ct).dtype == np.bool_ else convert(ct, dtype=x.dtype),
    batch=lambda args, batched, size: convert(args[0], dtype=np.dtype(np.float64)),
    moves=True,
    scalar=ScalarForm("float({0})"),
)
"""`number(x)`: a real number of shape () as a Python float, which promotes as one."""


def _eval_to_discrete(x: Any, *, dtype: Any) -> Any:
    value = np.asarray(x)
    if type(x) is int and value.dtype.kind != "i":  # larger than its Type says that it can be
        raise OverflowError(f"Python integer {x} out of bounds for int64")
    return value.astype(dtype)[()]


to_discrete: Primitive = general(
    "to_discrete",
    order="example",
    cost=0,
    eval=_eval_to_discrete,
    type=lambda x, *, dtype: Type(x.shape, dtype),
    batch=lambda args, batched, size, *, dtype: to_discrete(args[0], dtype=dtype),
    cuts=True,
    scalar=CONVERSION,
)
"""`to_discrete(x, dtype=)`: x as integers, booleans or other objects without a derivative."""


def cast(x: Any, dtype: Any) -> Any:
    """x in another dtype, in the machine's byte order; x itself if it has that dtype already, or if
    that is the dtype of objects: numbers stay what they are, with their derivatives.

    Raises:
      GradientCutError: if it is a dtype of texts or times, and x is traced.
    """
    type_ = typeof(x)
    dtype = canonical_dtype(dtype)
    if (type_.dtype is dtype and not type_.weak) or dtype.char == "O":
        return x
    if type_.inexact and dtype.kind in "SUTmM" and type(x) is Tracer:
        times = dtype.kind in "mM"
        raise GradientCutError(
            f"A traced value of type {type_} was made an array of {'times' if times else 'texts'}"
            f"{user_line()}: numbers that are read from them have no gradient. Take the value "
            "itself; "
            + (
                f"for whole units without a gradient, x.astype(int).astype({dtype.str[1:]!r})."
                if times
                else "for texts that are shown, fg.stop_gradient(x)."
            )
        )
    return (
        convert(x, dtype=dtype)
        if dtype.kind in "fc" and type_.inexact
        else to_discrete(x, dtype=dtype)
    )


# --- conjugation: linear over the reals -----------------------------------------------------------

conj: Primitive = linear(
    "conj",
    rounding=EXACT,
    order="example",
    cost=lambda e: e.inputs[0].type.size if e.inputs[0].type.dtype.kind == "c" else 0,
    eval=np.conj,
    type=lambda x: Type(x.shape, np.int8 if x.dtype.kind == "b" else x.dtype),
    transpose=lambda ct, x: conj(ct),
    batch=lambda args, batched, size: conj(args[0]),
)
"""The complex conjugate."""

# --- concatenate, pad, flip -----------------------------------------------------------------------


def _type_concatenate(*xs: Type, axis: int) -> Type:
    first = xs[0]
    for x in xs[1:]:
        same = x.ndim == first.ndim and all(
            n == m for i, (n, m) in enumerate(zip(x.shape, first.shape, strict=True)) if i != axis
        )
        if not same:
            raise ShapeError(
                f"Arrays of shapes {[t.shape for t in xs]} cannot be concatenated along axis "
                f"{axis}."
            )
    shape = list(first.shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    return Type(tuple(shape), np.result_type(*[x.dtype for x in xs]))


def _transpose_concatenate(ct: Any, *xs: Type, axis: int) -> Any:
    pieces = []
    start = 0
    before = (slice(None),) * axis
    for x in xs:
        stop = start + x.shape[axis]
        if type(ct) is np.ndarray:
            pieces.append(ct[(*before, slice(start, stop))] if before else ct[start:stop])
        else:
            pieces.append(slice_axis(ct, axis=axis, start=start, stop=stop))
        start = stop
    return tuple(pieces)


def _batch_concatenate(args: Any, batched: Any, size: int, *, axis: int) -> Any:
    return concatenate(*each_with_batch(args, batched, size), axis=axis + 1)


def _sections_concatenate(equation: Equation) -> list[Section]:
    box = tuple(map(range, equation.outputs[0].type.shape))
    axis, start, sections = equation.params["axis"], 0, []
    for i, atom in enumerate(equation.inputs):
        stop = start + atom.type.shape[axis]
        part = (*box[:axis], range(start, stop), *box[axis + 1 :])
        sections.append(Section(part, i, straight(len(box))))
        start = stop
    return sections


_join = np.concatenate  # np.concatenate may be replaced while a transform traces

concatenate: Primitive = linear(
    "concatenate",
    sections=_sections_concatenate,
    fresh=True,
    order="example",
    cost=0,
    moves=True,
    eval=lambda *xs, axis: _join(xs, axis),
    type=_type_concatenate,
    transpose=_transpose_concatenate,
    batch=_batch_concatenate,
)
"""`concatenate(*xs, axis=)`: arrays joined along an axis that they have."""


def stack_first(values: Sequence[Any]) -> Any:
    """Values of one shape, stacked along a new axis 0."""
    return concatenate(*[reshape(v, shape=(1, *shape_of(v))) for v in values], axis=0)


def _eval_slice(x: Any, *, axis: int, start: int, stop: int) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop),)]


def _type_slice(x: Type, *, axis: int, start: int, stop: int) -> Type:
    return x.with_shape((*x.shape[:axis], stop - start, *x.shape[axis + 1 :]))


def _transpose_slice(ct: Any, x: Type, *, axis: int, start: int, stop: int) -> Any:
    widths = [(0, 0)] * x.ndim
    widths[axis] = (start, x.shape[axis] - stop)
    return pad(ct, widths=tuple(widths))


def _collect_slice(total: Any, ct: Any, args: Any, *, axis: int, start: int, stop: int) -> None:
    def place(ufunc: np.ufunc, out: Any, values: Any) -> None:
        part = _eval_slice(out, axis=axis, start=start, stop=stop)
        ufunc(part, values, out=part)

    total.add(ct, place)


def _sections_slice(equation: Equation) -> list[Section]:
    place = list(straight(equation.outputs[0].type.ndim))
    place[equation.params["axis"]] = Along(equation.params["axis"], equation.params["start"])
    return [whole(equation, place)]


slice_axis: Primitive = linear(
    "slice_axis",
    sections=_sections_slice,
    view=True,
    cost=0,
    moves=True,
    eval=_eval_slice,
    type=_type_slice,
    transpose=_transpose_slice,
    collect=_collect_slice,
    batch=lambda args, batched, size, *, axis, start, stop: slice_axis(
        args[0], axis=axis + 1, start=start, stop=stop
    ),
)
"""`slice_axis(x, axis=, start=, stop=)`: a part of one axis, 0 <= start <= stop <= length."""


def _eval_pad(x: Any, *, widths: tuple[tuple[int, int], ...]) -> Any:
    shape = tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True))
    result = np.zeros(shape, x.dtype)
    result[tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, widths, strict=True))] = x
    return result


def _type_pad(x: Type, *, widths: tuple[tuple[int, int], ...]) -> Type:
    return x.with_shape(tuple(n + b + a for n, (b, a) in zip(x.shape, widths, strict=True)))


def _transpose_pad(ct: Any, x: Type, *, widths: tuple[tuple[int, int], ...]) -> Any:
    for axis, (before, _) in enumerate(widths):
        if shape_of(ct)[axis] != x.shape[axis]:
            ct = slice_axis(ct, axis=axis, start=before, stop=before + x.shape[axis])
    return ct


def _sections_pad(equation: Equation) -> list[Section]:
    lengths = zip(equation.inputs[0].type.shape, equation.params["widths"], strict=True)
    box = tuple([range(before, before + n) for n, (before, _) in lengths])
    return [Section(box, 0, straight(len(box)))]


pad: Primitive = linear(
    "pad",
    sections=_sections_pad,
    order="rows",
    cost=0,
    moves=True,
    eval=_eval_pad,
    type=_type_pad,
    transpose=_transpose_pad,
    batch=lambda args, batched, size, *, widths: pad(args[0], widths=((0, 0), *widths)),
)
"""`pad(x, widths=)`: x with zeros around it; widths holds (before, after) for each axis."""


def _sections_flip(equation: Equation) -> list[Section]:
    shape = equation.outputs[0].type.shape
    axes = {axis % len(shape) for axis in equation.params["axes"]}
    turned = [Along(i, n - 1, -1) if i in axes else Along(i) for i, n in enumerate(shape)]
    return [whole(equation, turned)]


flip: Primitive = linear(
    "flip",
    sections=_sections_flip,
    view=True,
    cost=0,
    moves=True,
    eval=lambda x, *, axes: np.flip(x, axes),
    type=lambda x, *, axes: x,
    transpose=lambda ct, x, *, axes: flip(ct, axes=axes),
    batch=lambda args, batched, size, *, axes: flip(args[0], axes=tuple(a + 1 for a in axes)),
)
"""`flip(x, axes=)`: the elements in reverse order along the axes."""

__all__ = [
    "aligned", "broadcast_to", "cast", "concatenate", "conj", "convert", "flip", "full",
    "inverse_permutation", "moveaxis", "number", "pad", "prepend_axes", "reduce_sum", "reshape",
    "slice_axis", "stack_first", "sum_to", "to_discrete", "transpose", "zeros",
]  # fmt: skip
