"""`minimize`: a local minimum of a function of a tree, by SciPy's methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.errors import ArgumentError
from fungrad.fitting.tables import html_table, text_table
from fungrad.optimizers import global_norm
from fungrad.scipy import optimize
from fungrad.scipy.optional import scipy_module
from fungrad.support import pytree
from fungrad.tracing.transformed_function import boundary

_scipy_optimize = scipy_module("scipy.optimize")


class Minimum:
    """The result of `minimize`.

    Attributes:
      x: the parameters, a tree as x0.
      fun: the value there.
      jac: the gradient there, a tree as x0; None if the method uses none.
      success: whether the method reports convergence.
      message: its message.
      iterations: their number; None if the method does not count them.
      evaluations: the number of calls of the function.
      scipy: SciPy's own result.
    """

    def __init__(self, found: Any) -> None:
        self.x = found.x
        self.fun = float(found.fun)
        self.jac = found.get("jac")
        self.success = bool(found.success)
        self.message = str(found.message)
        self.iterations = found.get("nit")
        self.evaluations = int(found.nfev)
        self.scipy = found

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("value", f"{self.fun:.10g}")]
        rows += [(f"x{path}", _shown(leaf)) for path, leaf in leaves_with_paths(self.x)]
        if self.jac is not None:
            rows.append(("norm of the gradient", f"{float(global_norm(self.jac)):.3g}"))
        rows.append(("iterations", str(self.iterations)))
        rows.append(("evaluations", str(self.evaluations)))
        return rows

    def __repr__(self) -> str:
        head = "Minimum" if self.success else "No minimum"
        return text_table(f"{head}: {self.message}", self._rows())

    def _repr_html_(self) -> str:
        return html_table(self.message, self._rows())


@boundary
def minimize(
    f: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: Any = None,
    *,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    progress: bool | Callable[[str], Any] = False,
    options: dict[str, Any] | None = None,
    compiled: bool = True,
) -> Minimum:
    """A local minimum of a function, from a start: scipy.optimize.minimize.

    >>> def rosenbrock(p):
    ...     return (1.0 - p["x"]) ** 2 + 100.0 * (p["y"] - p["x"] ** 2) ** 2
    >>> found = minimize(rosenbrock, {"x": -1.2, "y": 1.0})
    >>> {name: round(float(value), 6) for name, value in found.x.items()}
    {'x': 1.0, 'y': 1.0}
    >>> box = {"x": (None, 0.5), "y": (0.0, 9.0)}
    >>> bounded = minimize(rosenbrock, {"x": -1.2, "y": 1.0}, bounds=box)
    >>> round(float(bounded.x["x"]), 6)
    0.5

    Args:
      f: `f(x, *args)`, one real number, written with NumPy.
      x0: the start: an array of any shape, a number, or a tree of them.
      args: more arguments of f, which are fixed.
      method: one of SciPy's; it gets the derivatives that it can use: the gradient, the Hessian, or
        products with it. By default BFGS; L-BFGS-B with bounds, SLSQP with constraints.
      bounds: a pair (low, high) for each parameter, in a tree as x0 or in one list in the order of
        the raveled parameters; None in a pair is no bound. Or a scipy.optimize.Bounds.
      constraints: as SciPy's; functions of the tree.
      tol, options: as SciPy's.
      callback: `callback(x)` after each iteration.
      progress: True prints the value at iterations 1 to 10, 20, 30, ... 100, 200 and so on; a
        function is called with that line instead.
      compiled: whether f is compiled (`fg.jit`), with branches on values followed. False for a
        function that cannot be staged.

    Returns:
      A Minimum, which prints.

    Raises:
      ArgumentError: if f does not return one real number, or bounds do not fit x0.
      MissingExtraError: without SciPy.
    """
    function = jit(f, branches="guard") if compiled else f
    given = args if isinstance(args, tuple) else (args,)
    called = [callback] if callback is not None else []
    if progress:
        called.append(_Progress(function, given, print if progress is True else progress))

    def after(x: Any, *rest: Any) -> None:
        for one in called:
            one(x)

    minimum = optimize.minimize(
        function, x0, given, method, bounds=_bounds(bounds, x0), constraints=constraints, tol=tol,
        callback=after if called else None, options=options,
    )  # fmt: skip
    return Minimum(minimum)


class _Progress:
    """Prints the value at iterations 1 to 10, 20, 30, ... 100, 200 and so on."""

    def __init__(self, f: Any, args: tuple[Any, ...], out: Callable[[str], Any]) -> None:
        self._f, self._args, self._out = f, args, out
        self._count = 0

    def __call__(self, x: Any) -> None:
        self._count += 1
        if self._count % 10 ** int(math.log10(self._count)) == 0:
            self._out(f"{self._count:7d}  {float(self._f(x, *self._args)):.10g}")


def _bounds(bounds: Any, x0: Any) -> Any:
    """Bounds for SciPy: Bounds, or a list of pairs for the raveled parameters."""
    if bounds is None or isinstance(bounds, _scipy_optimize.Bounds):
        return bounds
    leaves, treedef = pytree.flatten(x0)
    if treedef is pytree.LEAF or (isinstance(x0, (list, tuple)) and isinstance(bounds[0], tuple)):
        return bounds
    pairs, shape = pytree.flatten(bounds, is_leaf=_is_pair)
    if shape != treedef:
        raise ArgumentError(
            "bounds must have a pair (low, high) where x0 has a number or an array: "
            f"{pytree.difference(treedef, shape)}."
        )
    result: list[Any] = []
    for pair, leaf in zip(pairs, leaves, strict=True):
        shape_of = np.shape(leaf)
        low, high = [
            np.broadcast_to(default if end is None else end, shape_of).ravel().tolist()
            for end, default in zip(pair, (-np.inf, np.inf), strict=True)
        ]
        result += zip(low, high, strict=True)
    return result


def _is_pair(x: Any) -> bool:
    return type(x) is tuple and len(x) == 2


def leaves_with_paths(tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a tree, each with its path."""
    leaves, treedef = pytree.flatten(tree)
    return list(zip(pytree.paths(treedef), leaves, strict=True))


def _shown(leaf: Any) -> str:
    return np.array2string(np.asarray(leaf), precision=8, threshold=8, separator=", ")
