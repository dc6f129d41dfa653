"""`to_torch`: a NumPy function as a function of PyTorch's tensors, derivatives included.

Its derivative is another such function: the pullback, compiled once for each combination of types
of arguments, and differentiable again. Tensors on the CPU are read where they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.errors import ArgumentError, MissingExtraError
from fungrad.support import pytree
from fungrad.support.lazy import imported
from fungrad.tracing.source_location import check_function, describe, user_line
from fungrad.transforms.grad import jvp, vjp
from fungrad.transforms.vmap_and_staging import vmap

try:
    torch: Any = imported("torch")
except ModuleNotFoundError as _error:
    raise MissingExtraError(
        'fg.to_torch needs PyTorch. Install it with: pip install "fungrad[torch]"'
    ) from _error

TENSORS = (torch.Tensor, torch.nn.Parameter)

STRUCTURES = 128
"""The most structures of arguments for which one function keeps its programs."""


def to_torch(f: Callable[..., Any], *, compiled: bool = True) -> Callable[..., Any]:
    """See `fungrad.engines.to_torch`."""
    check_function(f, "to_torch")
    name = getattr(f, "__name__", type(f).__name__)

    @functools.lru_cache(STRUCTURES)
    def flattened(treedef: pytree.TreeDef, tensors: tuple[int, ...], others: Any) -> _Flat:
        """The function of the tensors alone: those of the arguments `tensors`."""

        def flat(values: Any) -> Any:
            leaves = list(others.values)
            for i, value in zip(tensors, values, strict=True):
                leaves[i] = value
            args, kwargs = pytree.unflatten(treedef, leaves)
            out, made.out = pytree.flatten(f(*args, **kwargs))
            return tuple(out)

        flat.__name__ = name
        made = _Flat(flat, compiled)
        return made

    direct: dict[int, _Flat] = {}  # by the number of arguments, if all are tensors

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) in direct and all(type(x) in TENSORS for x in args):
            flat = direct[len(args)]
            return flat.tree(flat.call(*args))
        leaves, treedef = pytree.flatten((args, kwargs))
        leaves = [torch.as_tensor(x) if isinstance(x, np.ndarray) else x for x in leaves]
        tensors = tuple([i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)])
        others = _Others([None if i in tensors else x for i, x in enumerate(leaves)])
        flat = flattened(treedef, tensors, others)
        if not kwargs and len(tensors) == len(args) == len(leaves):
            direct[len(args)] = flat
        return flat.tree(flat.call(*[leaves[i] for i in tensors]))

    function.__doc__ = f"{describe(f)} for PyTorch's tensors."
    return function


class _Others:
    """The arguments that are no tensors, as a key."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self._key = tuple((type(v), v if _hashable(v) else id(v)) for v in values)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Others) and self._key == other._key


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


class _Flat:
    """A function of a tuple of arrays with a tuple of results, as an operation of PyTorch."""

    def __init__(self, f: Callable[..., Sequence[Any]], compiled: bool) -> None:
        self.f, self.compiled = f, compiled
        self.out: Any = None
        """The structure of the results, known after the first call."""
        self._stage: Callable[[Any], Any] = (
            functools.partial(jit, branches="guard") if compiled else lambda g: g
        )
        self._program = self._stage(f)
        self._derived: dict[Any, _Flat] = {}
        self.call = _operation(self)

    def run(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The results, computed by fungrad."""
        values = tuple([_array(self.f, tensor) for tensor in tensors])
        return tuple([_tensor(y) for y in self._program(values)])

    def tree(self, results: Sequence[Any]) -> Any:
        """Results in the structure that the user's function returns."""
        if self.out is pytree.LEAF:
            return results[0]
        return pytree.unflatten(self.out, results)

    def pullback(self, moving: tuple[int, ...], counted: tuple[int, ...], count: int) -> _Flat:
        """(arguments, cotangents of the counted results) -> cotangents of the moving arguments."""

        def pull(values: Any) -> Any:
            of_moving = self._of(values[:count], moving, counted)
            pullback = vjp(of_moving, *[values[i] for i in moving])[1]
            return tuple(map(_conjugate, pullback(tuple(map(_conjugate, values[count:])))))

        return self._once("vjp", pull, moving, counted, count)

    def pushforward(self, moving: tuple[int, ...], counted: tuple[int, ...], count: int) -> _Flat:
        """(arguments, tangents of the moving ones) -> tangents of the counted results."""

        def push(values: Any) -> Any:
            of_moving = self._of(values[:count], moving, counted)
            primals = tuple([values[i] for i in moving])
            return jvp(of_moving, primals, tuple(values[count:]))[1]

        return self._once("jvp", push, moving, counted, count)

    def _of(self, values: Sequence[Any], moving: Sequence[int], counted: Sequence[int]) -> Any:
        """The function of its moving arguments, with the counted results."""

        def of_moving(*moved: Any) -> Any:
            given = list(values)
            for i, value in zip(moving, moved, strict=True):
                given[i] = value
            results = self.f(tuple(given))
            return tuple(results[i] for i in counted)

        return of_moving

    def _once(self, verb: str, f: Callable[..., Any], *key: Any) -> _Flat:
        """A function derived from this one, made once."""
        if (verb, key) not in self._derived:
            f.__name__ = f"the {verb} of {self.f.__name__}"
            self._derived[verb, key] = _Flat(f, self.compiled)
        return self._derived[verb, key]

    def batched(self, axes: tuple[int | None, ...]) -> _Flat:
        """The function over a batch along those axes of its arguments."""

        def batch(values: Any) -> Any:
            return vmap(self.f, in_axes=(axes,))(values)

        return self._once("vmap", batch, axes)


def _operation(flat: _Flat) -> Callable[..., Any]:
    """PyTorch's operation of a function: two classes, since a class that torch.func takes spends
    some 60 microseconds on each call.
    """

    def remember(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
        ctx.set_materialize_grads(False)
        ctx.results = [_inexact(y) for y in output]
        if not all(ctx.results):
            ctx.mark_non_differentiable(*[y for y in output if not _inexact(y)])

    class Rules(torch.autograd.Function):
        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            inputs, needed = ctx.saved_tensors, ctx.needs_input_grad
            moving = tuple([i for i, x in enumerate(inputs) if needed[i] and _inexact(x)])
            counted = tuple([i for i, c in enumerate(cotangents) if c is not None])
            result: list[Any] = [None] * len(inputs)
            if moving and counted:
                pull = flat.pullback(moving, counted, len(inputs))
                cotangents_of_inputs = pull.call(*inputs, *[cotangents[i] for i in counted])
                for i, cotangent in zip(moving, cotangents_of_inputs, strict=True):
                    result[i] = cotangent
            return tuple(result)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            inputs = ctx.saved_tensors
            moving = tuple([i for i, t in enumerate(tangents) if t is not None])
            counted = tuple([i for i, inexact in enumerate(ctx.results) if inexact])
            push = flat.pushforward(moving, counted, len(inputs))
            tangents_of_outputs = iter(push.call(*inputs, *[tangents[i] for i in moving]))
            return tuple(
                [next(tangents_of_outputs) if inexact else None for inexact in ctx.results]
            )

    class Eager(Rules):
        @staticmethod
        def forward(ctx: Any, *tensors: Any) -> Any:
            output = flat.run(tensors)
            remember(ctx, tensors, output)
            return output

    class Transformed(Rules):
        setup_context = staticmethod(remember)

        @staticmethod
        def forward(*tensors: Any) -> Any:
            return flat.run(tensors)

        @staticmethod
        def vmap(info: Any, in_dims: Any, *tensors: Any) -> Any:
            results = flat.batched(tuple(in_dims)).call(*tensors)
            return results, (0,) * len(results)

    for made in (Eager, Transformed):
        made.__name__ = made.__qualname__ = f"fungrad_{flat.f.__name__}"
    eager, transformed = Eager.apply, Transformed.apply
    active = torch._C._are_functorch_transforms_active

    def call(*tensors: Any) -> Any:
        return transformed(*tensors) if active() else eager(*tensors)

    return call


def _conjugate(cotangent: Any) -> Any:
    """PyTorch's cotangent of a complex number is the conjugate of fungrad's."""
    return np.conj(cotangent) if np.iscomplexobj(cotangent) else cotangent


def _inexact(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _array(f: Callable[..., Any], tensor: Any) -> Any:
    """A tensor's memory as an array."""
    if tensor.device.type != "cpu":
        raise ArgumentError(
            f"An argument of {f.__name__} is on {tensor.device}{user_line()}: fungrad computes on "
            "the CPU. Move it with tensor.cpu()."
        )
    plain = tensor.detach()
    if plain.is_neg() or plain.is_conj():
        plain = plain.resolve_conj().resolve_neg()
    if plain.dtype not in _KNOWN:
        raise ArgumentError(
            f"An argument of {f.__name__} has dtype {plain.dtype}{user_line()}, which NumPy lacks. "
            "Convert it: tensor.float()."
        )
    return plain.numpy()


_NAMES = "float64 float32 float16 complex128 complex64 bool int64 int32 int16 int8 uint8"
_KNOWN = frozenset(getattr(torch, name) for name in _NAMES.split())
"""The dtypes that NumPy has, too."""


def _tensor(array: Any) -> Any:
    """An array's memory as a tensor; a constant of the program is copied."""
    array = np.asarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())
