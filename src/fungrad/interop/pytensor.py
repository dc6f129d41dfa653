"""PyTensor and PyMC with functions written with NumPy: an Op whose gradient is fungrad's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.errors import ArgumentError
from fungrad.interop.packages import package
from fungrad.tracing.source_location import describe
from fungrad.transforms.grad import vjp

pytensor: Any = package("pytensor")
_tensor: Any = package("pytensor.tensor")
_graph: Any = package("pytensor.graph")


def as_op(f: Callable[..., Any], ndim: int = 0) -> Callable[..., Any]:
    """A NumPy function as a function of PyTensor's variables, differentiable at every order.

    PyMC's samplers that need gradients (NUTS) work with it: a log-likelihood goes into
    `pm.Potential`, a model's mean into any distribution.

    Args:
      f: `f(*arrays)`, one array or number of dtype float64, written with NumPy.
      ndim: the number of dimensions of its result; 0 for a log-likelihood.

    Returns:
      A function of variables and numbers; the result is a variable.

    >>> import numpy as np, pytensor, pytensor.tensor as pt
    >>> x = pt.vector("x", dtype="float64")
    >>> y = as_op(lambda x: np.sum(np.sin(x) ** 2))(x)
    >>> both = pytensor.function([x], [y, pytensor.grad(y, x)])
    >>> [value.round(4).tolist() for value in both(np.ones(2))]
    [1.4161, [0.9093, 0.9093]]
    """
    op = FunctionOp(f, (ndim,))

    @functools.wraps(f)
    def apply(*inputs: Any) -> Any:
        return op(*map(_variable, inputs))

    return apply


class FunctionOp(_graph.Op):
    """An Op of PyTensor that fungrad computes. Its pullback is another one.

    Args:
      f: a function of arrays.
      dims: the number of dimensions of each result; several results are a tuple.
    """

    __props__ = ("f", "dims")

    def __init__(self, f: Callable[..., Any], dims: Sequence[int]) -> None:
        self.f, self.dims = f, tuple(dims)
        self._program = jit(f, branches="guard")
        self._pullbacks: dict[Any, FunctionOp] = {}

    def make_node(self, *inputs: Any) -> Any:
        variables = list(map(_variable, inputs))
        results = [_tensor.TensorType("float64", shape=(None,) * ndim)() for ndim in self.dims]
        return _graph.Apply(self, variables, results)

    def perform(self, node: Any, inputs: Any, output_storage: Any, *rest: Any) -> None:
        results = self._program(*inputs)
        values = results if isinstance(results, tuple) else (results,)
        for storage, value, ndim in zip(output_storage, values, self.dims, strict=True):
            if np.ndim(value) != ndim:
                raise ArgumentError(
                    f"{describe(self.f)} returns an array of {np.ndim(value)} dimensions, but "
                    f"as_op(f, ndim={ndim}) was said. Give ndim={np.ndim(value)}."
                )
            storage[0] = np.asarray(value, np.float64)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        """The cotangents of the inputs; of integers they are undefined."""
        moving = tuple([i for i, x in enumerate(inputs) if x.type.dtype in ("float64", "float32")])
        dims = tuple([inputs[i].type.ndim for i in moving])
        key = (moving, dims, len(inputs))
        if key not in self._pullbacks:
            self._pullbacks[key] = FunctionOp(self._pull(moving, len(inputs)), dims)
        disconnected = pytensor.gradient.DisconnectedType
        known = [
            y.zeros_like() if isinstance(c.type, disconnected) else c
            for y, c in zip(outputs, cotangents, strict=True)
        ]
        pulled = self._pullbacks[key](*inputs, *known, return_list=True)
        given = dict(zip(moving, pulled, strict=True))
        undefined = pytensor.gradient.grad_undefined
        return [given[i] if i in given else undefined(self, i, x) for i, x in enumerate(inputs)]

    L_op = pullback  # its name before PyTensor 3

    def _pull(self, moving: Sequence[int], count: int) -> Callable[..., Any]:
        """(inputs, cotangents) -> cotangents of the moving inputs."""

        def pull(*values: Any) -> Any:
            def of_moving(*moved: Any) -> Any:
                given = list(values[:count])
                for i, value in zip(moving, moved, strict=True):
                    given[i] = value
                return self.f(*given)

            pullback = vjp(of_moving, *[values[i] for i in moving])[1]
            cotangents = values[count:]
            pulled = pullback(cotangents if len(cotangents) > 1 else cotangents[0])
            return pulled if len(moving) > 1 else pulled[0]

        pull.__name__ = f"the vjp of {getattr(self.f, '__name__', 'a function')}"
        return pull


def _variable(x: Any) -> Any:
    return _tensor.as_tensor_variable(x)


__all__ = ["FunctionOp", "as_op"]
