"""Kernels: functions of arrays that programs on NumPy call in place of a primitive's `eval`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.simplify.driver import Kernels
from fungrad.ir.graph import Equation
from fungrad.primitives.elementwise import ufuncs
from fungrad.runtime import kernels
from fungrad.support.lazy import Record


class NumpyKernel(Record):
    """A function `function(*arguments, out, *scratch)`, which writes into `out` or returns another
    array; the number of its arrays to work in; and whether it also takes single precision.
    """

    function: Callable[..., Any]
    scratch: int = 0
    single: bool = False

    @property
    def name(self) -> str:
        """Its name in programs."""
        return getattr(self.function, "__name__", "kernel")

    def __call__(self, *arguments: Any) -> Any:
        """What the primitive's `eval` gives."""
        arrays = [np.asarray(x) for x in arguments]
        shape = np.broadcast_shapes(*[x.shape for x in arrays])
        dtype = np.result_type(*arguments[-2:])
        out, *scratch = [np.empty(shape, dtype) for _ in range(1 + self.scratch)]
        result = self.function(*arguments, out, *scratch)
        return out if result is None else result


KERNELS: dict[Any, NumpyKernel] = {ufuncs.logaddexp: NumpyKernel(kernels.logaddexp, 1, True)}
"""The kernel of a primitive; `fungrad.extend.kernel` puts others here."""


def kernel(equation: Equation) -> NumpyKernel | None:
    """The kernel of an equation; None if NumPy is called."""
    known = KERNELS.get(equation.primitive)
    if known is None or Kernels.chosen == "numpy":
        return None
    type_ = equation.outputs[0].type
    if not type_.shape or type_.size < costs.small_array:
        return None
    numbers = [a.type for a in equation.inputs if a.type.dtype != np.bool_]
    alike = all(t.dtype == type_.dtype or t.weak for t in numbers)
    fits = type_.dtype == np.float64 or (type_.dtype == np.float32 and known.single)
    return known if alike and fits else None
