"""CasADi with functions written with NumPy: external functions with exact Jacobians.

CasADi's matrices have their elements in columns; a vector is one column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.interop.packages import package
from fungrad.transforms.jacobian import jacobian

casadi: Any = package("casadi")


class Callback(casadi.Callback):
    """A NumPy function as a function of CasADi's expressions (MX), differentiable at every order.

    Solvers such as IPOPT take it in objectives and constraints.

    Args:
      f: `f(a, b, ...)` of arrays, written with NumPy; it returns a number, a vector or a matrix.
      sizes: the shape of each argument of f: () or n for a number or a vector, (m, n) for a matrix.
      name: of the function in CasADi.
      order: how often it may be differentiated; 2 for solvers that use Hessians.

    Keep a reference to it as long as CasADi uses it.

    >>> import casadi, numpy as np
    >>> f = Callback(lambda x: np.sum(np.sin(x) ** 2), [3])
    >>> x = casadi.MX.sym("x", 3)
    >>> slope = casadi.Function("slope", [x], [casadi.gradient(f(x), x)])
    >>> np.array(slope(np.ones(3))).ravel().round(4)
    array([0.9093, 0.9093, 0.9093])
    """

    def __init__(
        self, f: Callable[..., Any], sizes: Sequence[Any], name: str = "f", order: int = 2
    ) -> None:
        super().__init__()
        self._f = f
        self._sizes = [(size,) if isinstance(size, int) else tuple(size) for size in sizes]
        self._order = order
        self._program = jit(self._results)
        shown = self._program(*[np.zeros(size) for size in self._sizes])
        self._shapes = [np.shape(result) for result in shown]
        self._derivative: Callback | None = None
        self.construct(name, {})

    def _results(self, *values: Any) -> tuple[Any, ...]:
        results = self._f(*values)
        return results if isinstance(results, tuple) else (results,)

    # --- what CasADi asks

    def get_n_in(self) -> int:
        return len(self._sizes)

    def get_n_out(self) -> int:
        return len(self._shapes)

    def get_sparsity_in(self, i: int) -> Any:
        return casadi.Sparsity.dense(*_matrix(self._sizes[i]))

    def get_sparsity_out(self, i: int) -> Any:
        return casadi.Sparsity.dense(*_matrix(self._shapes[i]))

    def eval(self, arguments: Any) -> list[Any]:
        values = [
            np.asarray(a, np.float64).reshape(size)
            for a, size in zip(arguments, self._sizes, strict=True)
        ]
        return [
            casadi.DM(np.asarray(result, np.float64).reshape(_matrix(shape)))
            for result, shape in zip(self._program(*values), self._shapes, strict=True)
        ]

    def has_jacobian(self) -> bool:
        return self._order > 0

    def get_jacobian(self, name: str, names_in: Any, names_out: Any, options: Any) -> Any:
        """The function (arguments, results) -> a block for each result and argument."""
        count = len(self._sizes)
        arguments = tuple(range(count))

        def blocks(*values: Any) -> tuple[Any, ...]:
            blocks_of_columns = jacobian(self._columns, arguments)(*values[:count])
            return tuple(
                np.reshape(block, (-1, _size(size)))
                for row in blocks_of_columns
                for block, size in zip(map(_transposed, row, self._sizes), self._sizes, strict=True)
            )

        if self._derivative is None:
            sizes = [*self._sizes, *self._shapes]
            self._derivative = Callback(blocks, sizes, name, self._order - 1)
        return self._derivative

    def _columns(self, *values: Any) -> tuple[Any, ...]:
        """The results, each as a vector of its columns."""
        return tuple(
            np.ravel(np.transpose(result)) if np.ndim(result) == 2 else np.reshape(result, (-1,))
            for result in self._results(*values)
        )


def _transposed(block: Any, size: tuple[int, ...]) -> Any:
    """A block of a Jacobian with the elements of the argument in columns."""
    return np.swapaxes(block, 1, 2) if len(size) == 2 else block


def _matrix(shape: Sequence[int]) -> tuple[int, int]:
    """CasADi's shape of an array: that of one column for a number or a vector."""
    return (shape[0], shape[1]) if len(shape) == 2 else (shape[0] if shape else 1, 1)


def _size(shape: Sequence[int]) -> int:
    return int(np.prod(shape))


__all__ = ["Callback"]
