"""The public verbs vmap, make_jaxpr, eval_shape and evaluate.

They flatten trees, check axes and types, call batching or staging, and rebuild trees. `batched`
takes a batch in chunks, so that one chunk at a time is in memory: arrays that are no ndarrays but
can be sliced (np.memmap, Zarr, HDF5) are read chunk by chunk.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, overload

import numpy as np

from fungrad.errors import ArgumentError, BatchAxisError
from fungrad.ir.canonical import canonical
from fungrad.ir.graph import Graph
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, moveaxis
from fungrad.support import pytree
from fungrad.tracing.aliasing import received
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.interpreter import evaluate as _evaluate
from fungrad.tracing.quantity_trees import by_example
from fungrad.tracing.shadows import shadowed
from fungrad.tracing.source_location import check_function, describe, user_line
from fungrad.tracing.spoiled_memory import Spoiled
from fungrad.tracing.trace import EVAL, Tracer, current, shape_of
from fungrad.tracing.tracing_check import BATCHED, refuse_suspected, watched
from fungrad.tracing.transformed_function import TransformedFunction, boundary
from fungrad.transforms.arguments import (
    argument_name,
    flat_leaves,
    flat_results,
    has_type,
    input_type,
    leaf_names,
    owned,
)
from fungrad.transforms.engine.batching import batched_call

P = ParamSpec("P")
Progress = Callable[[int, int], Any]
"""Called after each chunk with the number of finished examples, and of all."""


def is_array_like(value: Any) -> bool:
    """Whether a value has a shape and slices: a Zarr array is a dataclass as well."""
    return hasattr(value, "shape") and hasattr(value, "__getitem__")


def check_chunk(chunk: Any, what: str) -> None:
    """Raises ArgumentError unless `chunk` is a positive number of examples."""
    if isinstance(chunk, bool) or not isinstance(chunk, (int, np.integer)) or chunk < 1:
        raise ArgumentError(f"{what}={chunk!r} is not a positive number of examples{user_line()}.")


def chunks_of(
    leaves: Sequence[Any], axes: Sequence[int | None], size: int, chunk: int
) -> Iterator[tuple[int, list[Any]]]:
    """(end, leaves cut to the chunk's examples) for each chunk; one empty chunk for no examples.

    Leaves whose axis is None are passed whole.
    """
    for start in range(0, max(size, 1), chunk):
        stop = min(start + chunk, size)
        yield (
            stop,
            [
                x if axis is None else _cut(x, axis, start, stop)
                for x, axis in zip(leaves, axes, strict=True)
            ],
        )


def _cut(x: Any, axis: int, start: int, stop: int) -> Any:
    """Examples start to stop of an array-like, read into memory."""
    axis = axis + len(x.shape) if axis < 0 else axis
    part = x[(*[slice(None)] * axis, slice(start, stop))]
    return part if type(part) is Tracer else np.asarray(part)


def joined(parts: Sequence[Any], axes: Sequence[int | None]) -> Any:
    """The results of all chunks, concatenated leaf by leaf; for axis None the first chunk's."""
    leaves = [pytree.leaves(part) for part in parts]
    whole = [
        column[0] if axis is None else np.concatenate(column, axis=axis)
        for column, axis in zip(zip(*leaves, strict=True), axes, strict=True)
    ]
    return pytree.unflatten(pytree.structure(parts[0]), whole)


def batched(
    f: Callable[P, Any],
    size: int,
    in_axes: Any = 0,
    *,
    reduce: str = "concatenate",
    progress: Progress | None = None,
) -> Callable[..., Any]:
    """A function that calls f, a function of many examples, on chunks of `size` examples.

    >>> import numpy as np
    >>> import fungrad as fg
    >>> loss = lambda w, x: np.sum((x * w - 1.0) ** 2)
    >>> gradient = batched(fg.grad(loss), 1000, (None, 0), reduce="sum")
    >>> float(gradient(2.0, np.ones(2500)))
    5000.0

    f sees one chunk at a time, so data may be larger than memory: np.memmap, Zarr and HDF5 arrays,
    anything with a shape and slices, are read chunk by chunk.

    Args:
      f: a function of trees of arrays with the examples along an axis.
      size: the most examples of a chunk.
      in_axes: the axis of the examples, or None for an argument that all chunks get whole: for all
        positional arguments, or a sequence with one entry for each, which may be a prefix tree of
        it. Keyword arguments are cut along axis 0.
      reduce: "concatenate": joins the results along axis 0; "sum": their sum, in the order of the
        chunks; "mean": their mean, weighted by the number of examples of each chunk.
      progress: called as `progress(done, total)` after each chunk.

    Raises:
      BatchAxisError: if arguments have different numbers of examples.
      ArgumentError: if `size` or `reduce` is not valid.
    """
    check_function(f, "batched")
    check_chunk(size, "size")
    if reduce not in ("concatenate", "sum", "mean"):
        raise ArgumentError(f'reduce={reduce!r} is not "concatenate", "sum" or "mean".')

    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = pytree.flatten((args, kwargs), is_array_like)
        axes = _input_axes(f, in_axes, treedef)
        names = functools.partial(_input_names, f, args, kwargs)
        total = _batch_size("batched", f, leaves, axes, names, None)
        parts, whole, before = [], None, 0
        for stop, values in chunks_of(leaves, axes, total, size):
            positional, named = pytree.unflatten(treedef, values)
            part = f(*positional, **named)
            if reduce == "concatenate":
                parts.append(part)
            else:
                weight = (stop - before) / total if reduce == "mean" and total else 1.0
                if weight != 1.0:
                    part = pytree.map(lambda x, w=weight: w * x, part)
                whole = part if whole is None else pytree.map(lambda x, y: x + y, whole, part)
            before = stop
            if progress is not None:
                progress(stop, total)
        if reduce != "concatenate":
            return whole
        return parts[0] if len(parts) == 1 else joined(parts, [0] * len(pytree.leaves(parts[0])))

    return TransformedFunction(run, batched, f, size, in_axes, reduce=reduce, progress=progress)


if TYPE_CHECKING:

    class Vmapped(Generic[P]):
        """A function with the parameters of f, each of any type: where f takes a float, an array.

        Type checkers apply the first signature, and show both.
        """

        @overload
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
        @overload
        def __call__(  # type: ignore[overload-cannot-match]
            self, *args: P.args, **kwargs: P.kwargs
        ) -> Any: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


def vmap(
    f: Callable[P, Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    *,
    chunk: int | None = None,
    progress: Progress | None = None,
) -> Vmapped[P]:
    """Turns a function of one example into a function of a batch, which runs all examples at once.

    >>> import numpy as np
    >>> vmap(np.dot)(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([1., 4.])

    Args:
      f: a function of trees of arrays.
      in_axes: the axis to map, an integer or None (the same for all examples), for all positional
        arguments, or a sequence with one entry for each, which may be a prefix tree of it. Keyword
        arguments are mapped along axis 0.
      out_axes: the position of the mapped axis in the outputs: an integer, None for outputs that do
        not depend on the example, or a prefix tree.
      axis_size: the number of examples, if no argument is mapped.
      chunk: the most examples that are run at once; None for all. With it, mapped arguments may be
        anything with a shape and slices: np.memmap, Zarr and HDF5 arrays.
      progress: called as `progress(done, total)` after each chunk.

    Raises:
      BatchAxisError: if axes do not exist or have different sizes.
    """
    check_function(f, "vmap")
    if isinstance(in_axes, (float, np.ndarray)):
        raise BatchAxisError(
            f"in_axes of vmap takes integers or None, not {type(in_axes).__name__}{user_line()}. "
            "Arguments go to the function that vmap returns: fg.vmap(f)(x)."
        )
    if chunk is not None:
        check_chunk(chunk, "chunk")

    def by_chunks(*args: Any, **kwargs: Any) -> Any:
        with by_example():
            leaves, treedef = pytree.flatten((args, kwargs), is_array_like)
        axes = _input_axes(f, in_axes, treedef)
        names = functools.partial(_input_names, f, args, kwargs)
        size = _batch_size("vmap", f, leaves, axes, names, axis_size)
        parts = []
        before = 0
        for stop, values in chunks_of(leaves, axes, size, chunk or 1):
            positional, named = pytree.unflatten(treedef, values)
            whole = vmap(f, in_axes, out_axes, None if axis_size is None else stop - before)
            parts.append(whole(*positional, **named))
            before = stop
            if progress is not None:
                progress(stop, size)
        if len(parts) == 1:
            return parts[0]
        return joined(parts, _prefix(out_axes, pytree.structure(parts[0]), "out_axes"))

    def run(*args: Any, **kwargs: Any) -> Any:
        with by_example():
            leaves, treedef = flat_leaves((args, kwargs))
        axes = _input_axes(f, in_axes, treedef)
        names = functools.partial(_input_names, f, args, kwargs)
        size = _batch_size("vmap", f, leaves, axes, names, axis_size)
        mapped = [axis is not None for axis in axes]
        moved = [
            moveaxis(x, _normal(axis, len(shape_of(x))), 0) if axis is not None else x
            for x, axis in zip(leaves, axes, strict=True)
        ]
        shapes: list[pytree.TreeDef] = []

        def flat(*values: Any) -> list[Any]:
            positional, named = pytree.unflatten(treedef, shadowed(values))
            results = f(*positional, **named)
            with by_example():
                out_leaves, out_def = flat_results(results)
            shapes.append(out_def)
            return out_leaves

        def traced(values: Sequence[Any], size: int) -> tuple[list[Any], list[bool]]:
            return batched_call(flat, values, mapped, size, lambda: f"vmap of {describe(f)}")

        run_all = functools.partial(traced, moved, size)
        (outputs, flags), watch, before = watched(f, run_all, BATCHED)
        if Spoiled.arrays != before:
            refuse_suspected(f, outputs, before)
        if watch is not None and size:
            one = [x[:1] if m else x for x, m in zip(moved, mapped, strict=True)]
            watch.compare(
                flat, _example(moved, mapped), _example(outputs, flags), lambda: traced(one, 1)
            )
        out = _prefix(out_axes, shapes[0], "out_axes")
        placed = [
            _place(x, flag, axis, size, f)
            for x, flag, axis in zip(outputs, flags, out, strict=True)
        ]
        return pytree.unflatten(shapes[0], owned(placed, leaves) if current() is EVAL else placed)

    options = {} if chunk is None else {"chunk": chunk, "progress": progress}
    call = run if chunk is None else by_chunks
    vmapped: Any = TransformedFunction(call, vmap, f, in_axes, out_axes, axis_size, **options)
    return vmapped  # type: ignore[no-any-return]


def _input_axes(f: Callable[..., Any], in_axes: Any, treedef: pytree.TreeDef) -> list[int | None]:
    """The axis of each leaf of the positional arguments, and 0 for each leaf of the keywords."""
    positional, named = treedef.children
    count = len(positional.children)
    several = isinstance(in_axes, (tuple, list))
    if several and len(in_axes) != count:
        raise BatchAxisError(
            f"in_axes={in_axes!r} has {len(in_axes)} entries, but {describe(f)} was called with "
            f"{count} positional arguments{user_line()}. It has one for each; keyword arguments "
            "are mapped along axis 0."
        )
    axes: list[int | None] = []
    for i, part in enumerate(positional.children):
        name = argument_name(f, i)
        axes += _prefix(in_axes[i] if several else in_axes, part, f"in_axes for {name}")
    return axes + [0] * named.leaf_count


def _input_names(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    keywords = sorted(kwargs)
    parts = [*args, *(kwargs[key] for key in keywords)]
    return leaf_names(f, [*range(len(args)), *keywords], parts)


def _prefix(axes: Any, treedef: pytree.TreeDef, what: str) -> list[int | None]:
    result = pytree.broadcast_prefix(axes, treedef, what)
    for axis in result:
        if axis is not None and not isinstance(axis, (int, np.integer)):
            raise BatchAxisError(
                f"{what} has to hold integers or None (not mapped), not {axis!r}{user_line()}."
            )
    return result


def _example(values: Sequence[Any], mapped: Sequence[bool]) -> list[Any]:
    """The first example of arrays whose mapped axis is axis 0."""
    return [x[0] if m else x for x, m in zip(values, mapped, strict=True)]


def _normal(axis: int, ndim: int) -> int:
    return axis + ndim if axis < 0 else axis


def _batch_size(
    verb: str,
    f: Callable[..., Any],
    leaves: Any,
    axes: Any,
    names: Callable[[], list[str]],
    axis_size: int | None,
) -> int:
    sizes: dict[int, list[int]] = {}
    for i, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        if axis is None:
            continue
        shape = shape_of(leaf) if has_type(leaf) else getattr(leaf, "shape", None)
        if shape is None or not -len(shape) <= axis < len(shape):
            what = f"has shape {shape}" if shape is not None else f"is a {type(leaf).__name__}"
            raise BatchAxisError(
                f"{verb} of {describe(f)} cannot map axis {axis} of {names()[i]}, which "
                f"{what}{user_line()}. Use None in in_axes for arguments that are the same for "
                "all examples."
            )
        sizes.setdefault(shape[axis], []).append(i)
    if axis_size is not None:
        sizes.setdefault(axis_size, [])
    if not sizes:
        raise BatchAxisError(
            f"{verb} of {describe(f)} has no mapped argument{user_line()}"
            f"{'; pass axis_size' if verb == 'vmap' else ''}."
        )
    if len(sizes) > 1:
        raise _different_sizes(verb, f, sizes, leaves, axes, names(), axis_size)
    return next(iter(sizes))


def _different_sizes(
    verb: str, f: Callable[..., Any], sizes: dict[int, list[int]], leaves: Any, axes: Any,
    names: list[str], axis_size: int | None,
) -> BatchAxisError:  # fmt: skip
    """The error for mapped axes of different sizes, with the size of each argument."""
    groups = []
    for n, indices in sizes.items():
        where = [f"{names[i]} (shape {shape_of(leaves[i])}, axis {axes[i]})" for i in indices]
        groups.append(f"{n}: {', '.join(where + ['axis_size'] * (n == axis_size))}")
    return BatchAxisError(
        f"{verb} of {describe(f)} got mapped axes of different sizes{user_line()}: "
        f"{'; '.join(groups)}. Use None in in_axes for arguments that are the same for all "
        "examples."
    )


def _place(x: Any, batched: bool, axis: int | None, size: int, f: Callable[..., Any]) -> Any:
    """An output with its mapped axis at the position that out_axes names."""
    if not batched:
        if axis is None or not has_type(x):
            return x
        x = broadcast_to(x, shape=(size, *shape_of(x)))
    elif axis is None:
        raise BatchAxisError(
            f"out_axes is None for an output of {describe(f)} that differs between examples."
        )
    ndim = len(shape_of(x))
    if not -ndim <= axis < ndim:
        raise BatchAxisError(
            f"out_axes={axis} for an output of shape {shape_of(x)}, mapped axis included."
        )
    return moveaxis(x, 0, _normal(axis, ndim))


def _staged(
    f: Callable[..., Any], static_argnums: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Graph, pytree.TreeDef]:
    static = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums)
    static = {_normal(i, len(args)) for i in static}
    dynamic = [i for i in range(len(args)) if i not in static]
    parts = [*(args[i] for i in dynamic), *kwargs.values()]
    leaves, treedef = pytree.flatten(parts)
    names = leaf_names(f, [*dynamic, *kwargs], parts)
    types = [input_type(leaf, name) for leaf, name in zip(leaves, names, strict=True)]
    shapes: list[pytree.TreeDef] = []

    def flat(*values: Any) -> list[Any]:
        new = iter(pytree.unflatten(treedef, list(map(received, values, leaves))))
        positional = [a if i in static else next(new) for i, a in enumerate(args)]
        named = {key: next(new) for key in kwargs}
        out_leaves, out_def = flat_results(f(*positional, **named))
        shapes.append(out_def)
        for path, leaf in zip(pytree.paths(out_def), out_leaves, strict=True):
            if not has_type(leaf):
                raise ArgumentError(
                    f"{describe(f)} returned a {type(leaf).__name__}{path and f' at {path}'}: a "
                    "traced function returns arrays and numbers only."
                )
        return out_leaves

    name = getattr(f, "__name__", type(f).__name__)
    return stage(flat, types, names, lambda: describe(f), name), shapes[0]


def make_jaxpr(
    f: Callable[P, Any], static_argnums: int | Sequence[int] = ()
) -> Callable[..., Graph]:
    """A function that traces `f` on arguments of given types and returns its Graph.

    >>> import numpy as np
    >>> make_jaxpr(np.sin)(np.zeros(3))
    { lambda a:f64[3]. let b:f64[3] = sin a in (b,) }

    Args:
      f: a pure function of trees of arrays and numbers.
      static_argnums: positions of arguments that are passed to f untraced.

    Returns:
      A function with f's arguments, of which only the types matter (a `Type`, or anything with a
      shape and a dtype, will do). The Graph prints as a jaxpr and can be pickled.

    Raises:
      AbstractBooleanError, AbstractValueError: if f needs the number of a traced value.
    """
    check_function(f, "make_jaxpr")

    def run(*args: Any, **kwargs: Any) -> Graph:
        return _staged(f, static_argnums, args, kwargs)[0]

    return TransformedFunction(run, make_jaxpr, f, static_argnums)


@boundary
def eval_shape(f: Callable[P, Any], *args: Any, **kwargs: Any) -> Any:
    """The types of the output of f, as a tree of `Type`, without computing anything.

    >>> import numpy as np
    >>> eval_shape(lambda x: x @ x.T, np.zeros((3, 2), np.float32))
    f32[3,3]

    Args:
      f: a function of trees of arrays and numbers.
      *args, **kwargs: its arguments; a `Type` may take the place of an array.

    Raises:
      ShapeError, AbstractValueError: as under `jit`.
    """
    check_function(f, "eval_shape")
    graph, treedef = _staged(f, (), args, kwargs)
    return pytree.unflatten(treedef, graph.output_types)


@boundary
def evaluate(graph: Graph, *args: Any) -> list[Any]:
    """The outputs of a Graph for the given inputs. A value is dropped after its last use.

    >>> import numpy as np
    >>> evaluate(make_jaxpr(np.square)(1.0), 3.0)
    [np.float64(9.0)]

    On traced values it retraces the Graph, which can so be differentiated and batched.

    Args:
      graph: what `make_jaxpr` returns. args: an array or number for each of its inputs.

    Returns:
      One array or number for each output. They are new arrays, which share no memory with the
      arguments, the constants of the Graph or each other.

    Raises:
      ArgumentError: if an argument is no array and no number.
      StructureMismatchError: if their number differs from that of the Graph's inputs.
    """
    for position, arg in enumerate(args):
        if not has_type(arg):
            raise ArgumentError(
                f"Argument {position} of fg.evaluate is a {type(arg).__name__}{user_line()}, not "
                "an array or a number. Make it one by np.asarray(x)."
            )
    results = _evaluate(graph, [canonical(arg) for arg in args])
    return owned(results, args) if current() is EVAL else results
