"""`fungrad.dask`: values and derivatives of losses over Dask arrays, chunk by chunk, on a cluster.

The loss of many rows is a sum over chunks of rows, and so are its derivatives. Each task computes
one chunk's part, or the parts of all chunks that a worker holds, and the parts are added in an
order fixed at the first call: results repeat to the bit, even if a worker dies and its tasks run
elsewhere. Needs dask (the extra `dask`).
"""

from __future__ import annotations

import itertools
import math
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.config import config
from fungrad.errors import ArgumentError, MissingExtraError
from fungrad.support import pytree
from fungrad.tracing.reachable_values import contents
from fungrad.tracing.source_location import describe, user_line
from fungrad.transforms.grad import value_and_grad as _value_and_grad
from fungrad.transforms.jacobian import hessian as _hessian
from fungrad.transforms.jacobian import hvp as _hvp

FAN_IN = 8
"""The number of parts that one task adds."""

LARGE = 1 << 20
"""The bytes above which parameters are sent to the workers once, and closures warn."""

PROGRAMS = 32
"""The most compiled losses that a worker keeps."""


def _dask() -> Any:
    """The module dask with dask.array; without Dask an error that names the extra."""
    try:
        import dask
        import dask.array
    except ImportError as error:
        raise MissingExtraError(
            'fungrad.dask needs Dask. Install it with: pip install "fungrad[dask]"'
        ) from error
    return dask


class DataParallel:
    """The value and derivatives of a loss whose data are Dask arrays: see `value_and_grad`."""

    def __init__(
        self, loss: Callable[..., Any], data: int | Sequence[int], reduce: str, by: str
    ) -> None:
        if reduce not in ("sum", "mean"):
            raise ArgumentError(f'reduce={reduce!r} is not "sum" or "mean".')
        if by not in ("auto", "chunk", "worker"):
            raise ArgumentError(f'by={by!r} is not "auto", "chunk" or "worker".')
        self.data = (data,) if isinstance(data, int) else tuple(data)
        if not self.data or min(self.data) < 1:
            raise ArgumentError(
                f"data={data!r} must be positions of Dask arrays among the arguments; position 0 "
                "is that of the parameters."
            )
        self.loss = loss
        self.reduce = reduce
        self.by = by
        self._tokens: dict[str, str] = {}
        self._groups: dict[Any, list[list[int]]] = {}
        self._held: tuple[tuple[str, ...], list[Any]] = ((), [])
        """The names of the arrays that were last persisted here, and these, held by workers."""
        _dask()
        _warn_of_closure(loss)

    def __repr__(self) -> str:
        return f"<value_and_grad of {describe(self.loss)} over Dask arrays>"

    def __call__(self, params: Any, *args: Any) -> tuple[Any, Any]:
        """The value of the loss, and its gradient, a tree like the parameters."""
        return self._computed("value_and_grad", params, (), args)

    def delayed(self, params: Any, *args: Any) -> Any:
        """The pair (value, gradient) as one lazy Dask value; its two items are lazy, too."""
        whole = self._whole("value_and_grad", params, (), args)
        return _dask().delayed(_value_and_tree, pure=True, nout=2)(whole)

    def hvp(self, params: Any, vector: Any, *args: Any) -> Any:
        """The Hessian of the loss at the parameters, times a vector, a tree like them."""
        return self._computed("hvp", params, (vector,), args)[1]

    def hessian(self, params: Any, *args: Any) -> Any:
        """The Hessian of the loss, as `fg.hessian` returns it: for few parameters."""
        return self._computed("hessian", params, (), args)[1]

    def _computed(
        self, what: str, params: Any, vectors: Sequence[Any], args: Sequence[Any]
    ) -> tuple[Any, Any]:
        (result,) = _dask().compute(self._whole(what, params, vectors, args))
        return _value_and_tree(result)

    def _whole(self, what: str, params: Any, vectors: Sequence[Any], args: Sequence[Any]) -> Any:
        """The sum of all chunks' parts, as a Dask value."""
        dask = _dask()
        chunks, first = self._chunks(args)
        rows = first.chunks[0]
        total = sum(rows)
        weights = [n / total if self.reduce == "mean" else 1.0 for n in rows]
        rest = [None if i + 1 in self.data else arg for i, arg in enumerate(args)]
        token = self._tokens.setdefault(what, f"fungrad-{uuid.uuid4().hex}")
        program = _ChunkDerivative(self.loss, what, token)
        given = _sent((params, tuple(vectors), rest))
        part = dask.delayed(_part, pure=False)
        parts = []
        for group, worker in self._grouped(first):
            held = [[chunk[i] for chunk in chunks] for i in group]
            with _on(worker):
                part_of_group = part(program, given, self.data, held, [weights[i] for i in group])
            parts.append(part_of_group)
        add = dask.delayed(_added, pure=False)
        while len(parts) > 1:
            parts = [add(parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
        return parts[0]

    def _chunks(self, args: Sequence[Any]) -> tuple[list[list[Any]], Any]:
        """The chunks of each data argument, as Dask values, and the first array."""
        arrays: list[Any] = []
        for position in self.data:
            if position > len(args):
                raise ArgumentError(
                    f"data={self.data} names argument {position}, but {len(args) + 1} arguments "
                    f"were given{user_line()}."
                )
            array = _dask_array(args[position - 1], position)
            first = arrays[0] if arrays else array
            if array.chunks[0] != first.chunks[0]:
                raise ArgumentError(
                    f"The Dask arrays at positions {self.data[0]} and {position} have other chunks "
                    f"along axis 0{user_line()}: {_short(first.chunks[0])} and "
                    f"{_short(array.chunks[0])}. Rechunk one: y.rechunk({{0: X.chunks[0]}})."
                )
            arrays.append(array)
        if self.by == "worker":
            arrays = self._persisted(arrays)
        lazy = [array.to_delayed(optimize_graph=_futures(array) is None) for array in arrays]
        return [chunks.ravel().tolist() for chunks in lazy], arrays[0]

    def _persisted(self, arrays: list[Any]) -> list[Any]:
        """The arrays in the memory of workers, where they stay until others are given."""
        if _client() is None or all(_futures(array) is not None for array in arrays):
            return arrays
        names = tuple([array.name for array in arrays])
        if self._held[0] != names:
            import distributed

            held = list(_client().persist(arrays))
            wait: Any = distributed.wait
            wait(held)
            self._held = names, held
        return self._held[1]

    def _grouped(self, array: Any) -> list[tuple[list[int], str | None]]:
        """The chunks of each task, and its preferred worker."""
        futures = None if self.by == "chunk" else _futures(array)
        workers = [] if futures is None else _workers(futures)
        # Groups are kept, so that sums have the same order at each call, also while chunks of a
        # worker that died are computed anew.
        groups = None if futures is None else self._groups.get(array.name)
        if groups is None and not (workers and all(workers)):
            if self.by == "worker":
                raise ArgumentError(
                    f'by="worker" needs workers that hold the data{user_line()}: client = '
                    'distributed.Client(). Use by="chunk" without one.'
                )
            return [([i], None) for i in range(len(array.chunks[0]))]
        if groups is None:
            by_worker: dict[str | None, list[int]] = {}
            for i, worker in enumerate(workers):
                by_worker.setdefault(worker, []).append(i)
            groups = self._groups[array.name] = list(by_worker.values())
        return [(group, workers[group[0]]) for group in groups]


def value_and_grad(
    loss: Callable[..., Any],
    *,
    data: int | Sequence[int] = 1,
    reduce: str = "sum",
    by: str = "auto",
) -> DataParallel:
    """The value and the gradient of a loss over Dask arrays, by the first argument.

    Args:
      loss: `loss(params, *args) -> number`, of a tree of NumPy arrays and of rows of data. It is
        called with one chunk of each data argument at a time.
      data: the position, or positions, of the arguments that are Dask arrays (or xarray's
        DataArrays of them), chunked alike along axis 0.
      reduce: "sum" if the loss is a sum over rows; "mean" if it is a mean over rows, so that chunks
        are weighted by their rows.
      by: "chunk": one task for each chunk, for data that are read when needed; "worker": one task
        for all chunks that a worker holds in memory, which costs the scheduler less: data that
        are not persisted are persisted at the first call, until other data are given; "auto": by
        worker if all chunks are in memory.

    Returns:
      A function from (params, *args) to (value, gradient), with the methods `delayed` (the same as
      a Dask value), `hvp(params, vector, *args)` and `hessian(params, *args)`. Each worker compiles
      the loss once for each shape of a chunk. SciPy's optimisers take it with `jac=True`.

    Raises:
      MissingExtraError: without Dask.
      ArgumentError: if the arrays' chunks do not fit, or have unknown sizes.
    """
    return DataParallel(loss, data, reduce, by)


class _ChunkDerivative:
    """A derivative of a loss, compiled once in each process."""

    __slots__ = ("loss", "token", "what")

    def __init__(self, loss: Callable[..., Any], what: str, token: str) -> None:
        self.loss = loss
        self.what = what
        self.token = token

    def __call__(self, params: Any, vectors: Sequence[Any], args: Sequence[Any]) -> Any:
        """(value, derivative) of one chunk."""
        compiled = _programs.get(self.token)
        if compiled is None:
            compiled = _programs[self.token] = jit(_DERIVATIVES[self.what](self.loss))
            while len(_programs) > PROGRAMS:
                _programs.popitem(last=False)
        return compiled(params, vectors, args)

    def __dask_tokenize__(self) -> str:
        return self.token


def _derivative_first(loss: Callable[..., Any]) -> Callable[..., Any]:
    return lambda params, vectors, args: _value_and_grad(loss)(params, *args)


def _derivative_product(loss: Callable[..., Any]) -> Callable[..., Any]:
    def run(params: Any, vectors: Any, args: Any) -> Any:
        of_params = lambda p: loss(p, *args)  # noqa: E731
        return 0.0, _hvp(of_params, (params,), tuple(vectors))[0]

    return run


def _derivative_second(loss: Callable[..., Any]) -> Callable[..., Any]:
    return lambda params, vectors, args: (0.0, _hessian(loss)(params, *args))


_DERIVATIVES: dict[str, Callable[..., Any]] = {
    "value_and_grad": _derivative_first,
    "hvp": _derivative_product,
    "hessian": _derivative_second,
}
_programs: OrderedDict[str, Any] = OrderedDict()


def _part(
    program: _ChunkDerivative,
    given: tuple[Any, Sequence[Any], Sequence[Any]],
    data: Sequence[int],
    chunks: Sequence[Sequence[Any]],
    weights: Sequence[float],
) -> Any:
    """The sum of the parts of some chunks; runs in a worker."""
    params, vectors, rest = given
    threads = config.num_threads
    if threads > 1:
        config.num_threads = 1  # the workers run in parallel
    total = None
    for held, weight in zip(chunks, weights, strict=True):
        args = list(rest)
        for position, chunk in zip(data, held, strict=True):
            # a chunk from another worker may be unaligned, and NumPy sums that in another order
            args[position - 1] = np.require(chunk, requirements="A")
        value, derivative = program(params, vectors, args)
        leaves, structure = pytree.flatten(derivative)
        if weight != 1.0:
            value, leaves = weight * value, [weight * leaf for leaf in leaves]
        part = (value, leaves, structure)
        total = part if total is None else _added([total, part])
    return total


def _added(parts: Sequence[Any]) -> Any:
    """The sum of some parts, in their order."""
    value, leaves, structure = parts[0]
    for other, others, _ in parts[1:]:
        value = value + other
        leaves = [x + y for x, y in zip(leaves, others, strict=True)]
    return value, leaves, structure


def _value_and_tree(whole: Any) -> tuple[Any, Any]:
    """The value and the derivative of all chunks."""
    value, leaves, structure = whole
    return value, pytree.unflatten(structure, leaves)


def _dask_array(value: Any, position: int) -> Any:
    """The Dask array of an argument, checked."""
    dask = _dask()
    array = getattr(value, "variable", value) if not isinstance(value, dask.array.Array) else value
    array = getattr(array, "data", array) if not isinstance(array, dask.array.Array) else array
    if not isinstance(array, dask.array.Array):
        raise ArgumentError(
            f"The argument at position {position} is a {type(value).__name__}{user_line()}, not a "
            "Dask array (or an xarray.DataArray of one). Make it one: dask.array.from_array(x, "
            "chunks=(rows, -1)), or take its position out of data=."
        )
    if any(math.isnan(n) for axis in array.chunks for n in axis):
        raise ArgumentError(
            f"The Dask array at position {position} has chunks of unknown sizes{user_line()}. "
            "Compute them first: X = X.compute_chunk_sizes()."
        )
    if not array.ndim or any(len(axis) > 1 for axis in array.chunks[1:]):
        axes = ", ".join(f"{i}: -1" for i, axis in enumerate(array.chunks) if i and len(axis) > 1)
        raise ArgumentError(
            f"The Dask array at position {position} (shape {array.shape}) has to be chunked along "
            f"axis 0 alone{user_line()}: X.rechunk({{{axes}}})."
        )
    return array


def _sent(given: Any) -> Any:
    """The arguments of every task; large ones are sent to the workers once."""
    size = sum(np.asarray(x).nbytes for x in pytree.leaves(given) if x is not None)
    client = _client()
    if client is not None and size > LARGE:
        return client.scatter([given], broadcast=True, hash=False)[0]
    return _dask().delayed(given, pure=False, traverse=False) if size > LARGE else given


def _client() -> Any:
    """The distributed client of this process, if there is one."""
    try:
        from distributed import get_client
    except ImportError:  # dask without distributed: its own threads or processes compute
        return None
    try:
        return get_client()
    except ValueError:
        return None


def _futures(array: Any) -> list[Any] | None:
    """The futures of an array's chunks; None if it is not persisted."""
    if _client() is None:
        return None
    import distributed

    futures_of: Any = distributed.futures_of
    keys = [(array.name, i, *[0] * (array.ndim - 1)) for i in range(len(array.chunks[0]))]
    held = {future.key: future for future in futures_of(array)}
    return [held[key] for key in keys] if held.keys() >= set(keys) else None


def _workers(futures: Sequence[Any]) -> list[str | None]:
    """The worker that holds each chunk; None for a chunk that is in no worker's memory."""
    where = _client().who_has(futures)
    return [min(where.get(future.key) or (), default=None) for future in futures]


def _on(worker: str | None) -> Any:
    """A context in which tasks prefer a worker."""
    dask = _dask()
    if worker is None:
        return dask.annotate()
    return dask.annotate(workers=[worker], allow_other_workers=True)


def _warn_of_closure(loss: Callable[..., Any]) -> None:
    """Warns of large arrays in the loss, which are sent to the workers with it."""
    cells = contents(getattr(loss, "__closure__", None) or ())
    defaults = [*(getattr(loss, "__defaults__", None) or ())]
    values = itertools.chain(cells, defaults, getattr(loss, "args", ()))
    size = sum(v.nbytes for v in values if isinstance(v, np.ndarray))
    if size > LARGE:
        warnings.warn(
            f"{describe(loss)} holds {size / 1e6:.1f} MB of arrays, which go to the workers with "
            "the function. Pass them as arguments.",
            UserWarning,
            stacklevel=4,
        )


def _short(sizes: Sequence[int]) -> str:
    head = ", ".join(map(str, sizes[:4]))
    return f"({head}{', ...' if len(sizes) > 4 else ''})"


__all__ = ["DataParallel", "value_and_grad"]
