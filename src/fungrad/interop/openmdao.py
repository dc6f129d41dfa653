"""OpenMDAO components of NumPy functions, with exact, sparse partial derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.errors import ArgumentError, DensePatternWarning
from fungrad.interop.packages import package
from fungrad.sparse import jacobian
from fungrad.tracing.source_location import describe

_api: Any = package("openmdao.api", "openmdao")


class ExplicitComponent(_api.ExplicitComponent):
    """An explicit component that computes outputs = f(inputs), with its partials.

    fungrad finds which partial derivatives can differ from zero, declares these, and computes them
    by one product for each colour.

    Args:
      f: `f(a, b, ...)` of arrays, written with NumPy; it returns an array, or a tuple of them.
      inputs: for each argument of f, in order, its name and a value that gives the shape.
      outputs: the names of the results.
      units: units by name.
      options: of OpenMDAO's component.

    >>> import numpy as np, openmdao.api as om
    >>> def paraboloid(x, y):
    ...     return (x - 3.0) ** 2 + x * y + (y + 4.0) ** 2 - 3.0
    >>> problem = om.Problem(reports=False)
    >>> component = ExplicitComponent(paraboloid, {"x": 3.0, "y": -4.0}, ["f"])
    >>> _ = problem.model.add_subsystem("parabola", component, promotes=["*"])
    >>> _ = problem.setup()
    >>> problem.run_model()
    >>> problem.compute_totals(["f"], ["x", "y"])["f", "x"]
    array([[-4.]])
    """

    def __init__(
        self,
        f: Callable[..., Any],
        inputs: Mapping[str, Any],
        outputs: Sequence[str],
        units: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._given = {name: np.array(value, np.float64) for name, value in inputs.items()}
        self._names, self._units = tuple(outputs), dict(units or {})

        def several(*values: Any) -> tuple[Any, ...]:
            found = f(*values)
            results = tuple(found) if isinstance(found, tuple | list) else (found,)
            if len(results) != len(self._names):
                raise ArgumentError(
                    f"{describe(f)} returns {len(results)} results, but outputs= names "
                    f"{', '.join(self._names)}."
                )
            return results

        self._program = jit(several)
        self._partials = jacobian(several, tuple(range(len(self._given))))

    def setup(self) -> None:
        """Declares the variables."""
        for name, value in self._given.items():
            self.add_input(name, val=value, units=self._units.get(name))
        results = self._program(*self._given.values())
        for name, result in zip(self._names, results, strict=True):
            self.add_output(name, val=np.asarray(result), units=self._units.get(name))

    def setup_partials(self) -> None:
        """Declares the partial derivatives that can differ from zero."""
        values = list(self._given.values())
        with warnings.catch_warnings():  # a dense block is no mistake of the user's
            warnings.simplefilter("ignore", DensePatternWarning)
            whole = self._partials.pattern(*values).tocsr()
        heights = [np.size(result) for result in self._program(*values)]
        across = _ends([value.size for value in values])
        blocks = [[whole[row, column] for column in across] for row in _ends(heights)]
        for (of, wrt), block in self._blocks(blocks):
            rows, columns = block.nonzero()
            if rows.size:
                self.declare_partials(of, wrt, rows=rows, cols=columns)

    def compute(self, inputs: Any, outputs: Any, *rest: Any) -> None:
        """The outputs."""
        results = self._program(*[np.array(inputs[name]) for name in self._given])
        for name, result in zip(self._names, results, strict=True):
            outputs[name] = result

    def compute_partials(self, inputs: Any, partials: Any, *rest: Any) -> None:
        """The partial derivatives."""
        jacobians = self._partials(*[np.array(inputs[name]) for name in self._given])
        for key, block in self._blocks(jacobians):
            if block.nnz:
                partials[key] = block.data

    def _blocks(self, tree: Any) -> list[tuple[tuple[str, str], Any]]:
        """The blocks of a Jacobian, by the names of an output and an input."""
        return [
            ((of, wrt), block.tocsr())
            for of, row in zip(self._names, tree, strict=True)
            for wrt, block in zip(self._given, row, strict=True)
        ]


def _ends(sizes: Sequence[int]) -> list[slice]:
    """The slices of parts of these sizes in a vector."""
    ends = np.cumsum(sizes)
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


__all__ = ["ExplicitComponent"]
