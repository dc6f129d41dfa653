"""Fits: `minimize` a function of a tree, `curve_fit` a model to data.

The methods are SciPy's, with derivatives by fungrad. Results print as tables. Needs the extra
`scipy`.
"""

from __future__ import annotations

import functools
import html
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.errors import ArgumentError
from fungrad.optimizers import global_norm
from fungrad.scipy import optimize
from fungrad.scipy.optional import scipy_module
from fungrad.support import pytree
from fungrad.tracing.source_location import boundary, describe
from fungrad.transforms.jacobian import jacfwd
from fungrad.tree_parts import ravel_pytree

_scipy_optimize = scipy_module("scipy.optimize")
_stdtrit = scipy_module("scipy.special").stdtrit  # scipy.stats takes a second to load

POLISHING = 100
"""The most Gauss-Newton steps after SciPy's method has stopped."""


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
        rows += [(f"x{path}", _shown(leaf)) for path, leaf in _leaves(self.x)]
        if self.jac is not None:
            rows.append(("norm of the gradient", f"{float(global_norm(self.jac)):.3g}"))
        rows.append(("iterations", str(self.iterations)))
        rows.append(("evaluations", str(self.evaluations)))
        return rows

    def __repr__(self) -> str:
        head = "Minimum" if self.success else "No minimum"
        return _table(f"{head}: {self.message}", self._rows())

    def _repr_html_(self) -> str:
        return _html_table(self.message, self._rows())


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

    >>> def rosenbrock(p):
    ...     return (1.0 - p["x"]) ** 2 + 100.0 * (p["y"] - p["x"] ** 2) ** 2
    >>> found = minimize(rosenbrock, {"x": -1.2, "y": 1.0})
    >>> {name: round(float(value), 6) for name, value in found.x.items()}
    {'x': 1.0, 'y': 1.0}
    >>> box = {"x": (None, 0.5), "y": (0.0, 9.0)}
    >>> bounded = minimize(rosenbrock, {"x": -1.2, "y": 1.0}, bounds=box)
    >>> round(float(bounded.x["x"]), 6)
    0.5
    """
    function = jit(f, branches="guard") if compiled else f
    given = args if isinstance(args, tuple) else (args,)
    called = [callback] if callback is not None else []
    if progress:
        called.append(_Progress(function, given, print if progress is True else progress))

    def after(x: Any, *rest: Any) -> None:
        for one in called:
            one(x)

    found = optimize.minimize(
        function, x0, given, method, bounds=_bounds(bounds, x0), constraints=constraints, tol=tol,
        callback=after if called else None, options=options,
    )  # fmt: skip
    return Minimum(found)


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


class CurveFit(tuple[Any, Any]):
    """The result of `curve_fit`: `parameters, covariance = fit` as in SciPy, and more.

    Attributes:
      parameters: the best ones: an array, or a tree as p0.
      covariance: float64[n, n], in the order of the raveled parameters.
      standard_errors: the roots of its diagonal, shaped as the parameters.
      names: of the parameters.
      residuals: (model - y), divided by sigma if given; an array.
      sum_of_squares: of the residuals.
      degrees_of_freedom: the number of residuals minus that of parameters.
      evaluations: the number of calls of the model.
    """

    parameters: Any
    covariance: Any
    standard_errors: Any
    names: tuple[str, ...]
    residuals: Any
    sum_of_squares: float
    degrees_of_freedom: int
    evaluations: int
    _model: Callable[[Any], Any]
    _jacobian: Callable[[Any], tuple[Any, Any]]

    def __new__(cls, parameters: Any, covariance: Any, **more: Any) -> CurveFit:
        made = super().__new__(cls, (parameters, covariance))
        made.parameters, made.covariance = parameters, covariance
        vars(made).update(more)
        return made

    def confidence_interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """(low, high) for each parameter, by Student's t; shaped as the parameters."""
        spread = self._quantile(level)
        pairs = (self.parameters, self.standard_errors)
        return (
            pytree.map(lambda p, e: p - spread * e, *pairs),
            pytree.map(lambda p, e: p + spread * e, *pairs),
        )

    def confidence_band(self, x: Any, level: float = 0.95) -> tuple[Any, Any]:
        """(low, high) for the model's mean at x, linearised in the parameters.

        The variance of f(x, p) is J C J' with the Jacobian J by the parameters and their covariance
        C (Seber and Wild 2003, Nonlinear Regression, section 5.1).
        """
        jacobian, value = self._jacobian(x)
        variance = np.einsum("ij,jk,ik->i", jacobian, self.covariance, jacobian)
        spread = (self._quantile(level) * np.sqrt(variance)).reshape(np.shape(value))
        return value - spread, value + spread

    def __call__(self, x: Any) -> Any:
        """The model at x, with the best parameters."""
        return self._model(x)

    def _quantile(self, level: float) -> float:
        return float(_stdtrit(max(self.degrees_of_freedom, 1), 0.5 + level / 2))

    def _rows(self) -> list[tuple[str, str]]:
        values, errors = ravel_pytree(self.parameters)[0], ravel_pytree(self.standard_errors)[0]
        rows = [
            (name, f"{value:.10g} +- {error:.3g}")
            for name, value, error in zip(self.names, values, errors, strict=True)
        ]
        rows.append(("sum of squares", f"{self.sum_of_squares:.10g}"))
        rows.append(("degrees of freedom", str(self.degrees_of_freedom)))
        return rows

    def __repr__(self) -> str:
        return _table("Fit: parameter +- standard error", self._rows())

    def _repr_html_(self) -> str:
        return _html_table("Fit: parameter &plusmn; standard error", self._rows())


@boundary
def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    *,
    compiled: bool = True,
    **options: Any,
) -> CurveFit:
    """Fits a model to data by least squares, with its exact Jacobian: scipy.optimize.curve_fit.

    SciPy's least_squares finds the parameters, scaled by the Jacobian; then Gauss-Newton steps
    improve the last digits, as long as they get shorter and stay within the bounds.

    Args:
      f: the model, `f(x, a, b, ...)`, or `f(x, parameters)` where p0 is a dict or another tree with
        names. It returns an array of the shape of ydata.
      xdata: passed to the model unchanged.
      ydata: the data to fit; real numbers.
      p0: the start: numbers, or a tree. By default ones, as many as f takes.
      sigma: the standard deviations of ydata, or their covariance matrix.
      absolute_sigma: whether sigma is absolute; otherwise only its ratios matter, and the
        covariance is scaled so that the residuals have variance 1.
      bounds: (low, high): numbers or arrays in the order of the raveled parameters.
      method: "trf", "dogbox" or "lm".
      compiled: whether the model is compiled (`fg.jit`).
      options: more arguments of scipy.optimize.least_squares (loss, max_nfev, ...).

    Returns:
      A CurveFit: `parameters, covariance = curve_fit(...)` works as in SciPy. It prints, has
      standard errors and confidence bands, and can be called with x.

    Raises:
      ArgumentError: if model and data do not fit together, or data are not finite.
      RuntimeError: if no minimum is found, as in SciPy.

    >>> def model(t, amplitude, rate):
    ...     return amplitude * np.exp(-rate * t)
    >>> t = np.linspace(0.0, 4.0, 9)
    >>> y = model(t, 2.5, 1.3) + 0.01 * np.cos(7.0 * np.arange(9))
    >>> curve_fit(model, t, y)
    Fit: parameter +- standard error
      amplitude           2.512662503 +- 0.00612
      rate                1.307669503 +- 0.00606
      sum of squares      0.0002824645104
      degrees of freedom  7
    """
    start, names, called = _parameters(f, p0, bounds)
    vector, tree = ravel_pytree(start)
    y = np.asarray(ydata, np.float64)
    _check_finite(ydata=y, **({} if sigma is None else {"sigma": sigma}))

    def model(p: Any, x: Any) -> Any:
        return called(x, tree(p))

    problem = _Residuals(f, model, xdata, y, sigma, compiled)
    best = problem.smallest(vector, bounds, method, options)
    rest = problem(best)
    squares, freedom = float(rest @ rest), y.size - vector.size
    covariance = _covariance(problem.jacobian(best))
    if not absolute_sigma and np.all(np.isfinite(covariance)):
        covariance = covariance * (squares / freedom) if freedom > 0 else covariance + np.inf

    def slopes_at(x: Any) -> Any:
        value = np.asarray(model(best, x))
        found = np.asarray(jacfwd(model)(best, x), np.float64)
        return found.reshape(value.size, best.size), value

    return CurveFit(
        tree(best), covariance, standard_errors=tree(np.sqrt(np.diag(covariance))), names=names,
        residuals=rest.reshape(y.shape), sum_of_squares=squares, degrees_of_freedom=freedom,
        evaluations=problem.evaluations, _model=lambda x: model(best, x), _jacobian=slopes_at,
    )  # fmt: skip


class _Residuals:
    """model(p, xdata) - y in units of their deviations, as a float64 vector of the vector p.

    Attributes:
      evaluations: the number of computations.
    """

    def __init__(self, f: Any, model: Any, xdata: Any, y: Any, sigma: Any, compiled: bool) -> None:
        whiten = _whitening(sigma, y)

        def residuals(p: Any) -> Any:
            value = model(p, xdata)
            if np.shape(value) != y.shape:
                raise ArgumentError(
                    f"{describe(f)} returns an array of shape {np.shape(value)}, but ydata has "
                    f"shape {y.shape}. A model returns one number for each number of ydata."
                )
            return whiten(np.ravel(value) - y.ravel())

        stage: Callable[[Any], Any] = (
            functools.partial(jit, branches="guard") if compiled else lambda g: g
        )
        self._values, self._slopes = stage(residuals), stage(jacfwd(residuals))
        self.evaluations = 0

    def __call__(self, p: Any) -> Any:
        self.evaluations += 1
        return np.asarray(self._values(p), np.float64)

    def jacobian(self, p: Any) -> Any:
        return np.asarray(self._slopes(p), np.float64)

    def smallest(self, start: Any, bounds: Any, method: str, options: dict[str, Any]) -> Any:
        """The vector with the smallest sum of squares: SciPy's, polished."""
        tight = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15, "max_nfev": 2000 * max(start.size, 1)}
        found = _scipy_optimize.least_squares(
            self, start, self.jacobian, bounds, method, **{"x_scale": "jac", **tight, **options}
        )
        if not found.success:
            raise RuntimeError(f"curve_fit found no minimum: {found.message} Give a nearer p0.")
        if np.any(found.active_mask) or options.get("loss", "linear") != "linear":
            return found.x
        return self._polished(found.x, bounds)

    def _polished(self, p: Any, bounds: Any) -> Any:
        """Gauss-Newton steps from a minimum, as long as they get shorter.

        SciPy's methods stop when the sum of squares no longer falls, with half of the digits
        correct; these steps end at the rounding errors of the residuals.
        """
        low, high = _ends(bounds)
        last = np.inf
        for _ in range(POLISHING):
            j = self.jacobian(p)
            scale = np.linalg.norm(j, axis=0)
            scale = np.where(scale > 0, scale, 1.0)
            step = np.linalg.lstsq(j / scale, -self(p), rcond=None)[0]
            length = float(np.linalg.norm(step))
            new = p + step / scale
            if not length < 0.95 * last or np.any(new < low) or np.any(new > high):
                return p
            p, last = new, length
        return p


def _parameters(f: Any, p0: Any, bounds: Any) -> tuple[Any, tuple[str, ...], Callable[..., Any]]:
    """The start, the names of its numbers, and the model as a function of (x, parameters)."""
    if p0 is not None and not isinstance(p0, (Sequence, np.ndarray, int, float)):  # a tree
        parts = [_numbered(path.strip(".[]'\""), leaf) for path, leaf in _leaves(p0)]
        return p0, tuple([name for part in parts for name in part]), f
    try:
        found = list(inspect.signature(f).parameters.values())[1:]
    except (TypeError, ValueError):  # a builtin without a signature
        found = []
    taken = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if p0 is None:
        if not taken or len(taken) < len(found):
            raise ArgumentError(
                f"The number of parameters of {describe(f)} does not follow from its signature: "
                "give p0."
            )
        p0 = _between(*_ends(bounds), len(taken))
    start = np.atleast_1d(np.asarray(p0, np.float64))
    named = [p.name for p in taken] if len(taken) == start.size else []
    names = tuple(named or [f"p{i}" for i in range(start.size)])
    return start, names, lambda x, p: f(x, *[p[i] for i in range(start.size)])


def _ends(bounds: Any) -> tuple[Any, Any]:
    """Lower and upper bounds."""
    pair = (bounds.lb, bounds.ub) if isinstance(bounds, _scipy_optimize.Bounds) else bounds
    return np.asarray(pair[0], np.float64), np.asarray(pair[1], np.float64)


def _between(low: Any, high: Any, count: int) -> Any:
    """SciPy's start: the middle of two bounds, a distance of 1 from one, 1 without bounds."""
    low, high = np.broadcast_to(low, count), np.broadcast_to(high, count)
    one_sided = np.where(np.isfinite(low), low + 1.0, np.where(np.isfinite(high), high - 1.0, 1.0))
    both = np.isfinite(low) & np.isfinite(high)
    return np.where(both, np.where(both, low, 0.0) / 2 + np.where(both, high, 0.0) / 2, one_sided)


def _numbered(name: str, leaf: Any) -> list[str]:
    size = np.size(leaf)
    return [name] if np.ndim(leaf) == 0 else [f"{name}[{i}]" for i in range(size)]


def _check_finite(**arrays: Any) -> None:
    for name, value in arrays.items():
        bad = np.flatnonzero(~np.isfinite(np.asarray(value, np.float64)))
        if bad.size:
            raise ArgumentError(
                f"{name} is not finite at {bad.size} places, first at {bad[0]}. Leave those out: "
                "ok = np.isfinite(y); curve_fit(f, x[ok], y[ok])."
            )


def _whitening(sigma: Any, y: Any) -> Callable[[Any], Any]:
    """Divides residuals by their standard deviations, or by the Cholesky factor of a covariance."""
    if sigma is None:
        return lambda r: r
    sigma = np.asarray(sigma, np.float64)
    if sigma.shape == (y.size, y.size):
        inverse = np.linalg.inv(np.linalg.cholesky(sigma))
        return lambda r: inverse @ r
    if sigma.shape not in ((), y.shape):
        raise ArgumentError(
            f"sigma has shape {sigma.shape}, but ydata has shape {y.shape}: give one standard "
            "deviation for each number of ydata, or the covariance matrix of all."
        )
    return lambda r: r / sigma.ravel() if sigma.ndim else r / sigma


def _covariance(j: Any) -> Any:
    """(J'J)^-1 by the singular values of J; infinite if the data do not determine a parameter."""
    scale = np.linalg.norm(j, axis=0)
    if j.shape[0] < j.shape[1] or not np.all(scale > 0):
        return np.full((j.shape[1], j.shape[1]), np.inf)
    _, s, vt = np.linalg.svd(j / scale, full_matrices=False)
    if s[-1] <= np.finfo(np.float64).eps * max(j.shape) * s[0]:
        return np.full((j.shape[1], j.shape[1]), np.inf)
    half = (vt.T / s) / scale[:, None]
    return half @ half.T


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    leaves, treedef = pytree.flatten(tree)
    return list(zip(pytree.paths(treedef), leaves, strict=True))


def _shown(leaf: Any) -> str:
    return np.array2string(np.asarray(leaf), precision=8, threshold=8, separator=", ")


def _table(head: str, rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{width}}  {value}" for name, value in rows]
    return "\n".join([head, *lines])


def _html_table(head: str, rows: list[tuple[str, str]]) -> str:
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in rows
    )
    return f"<table><caption>{head}</caption>{cells}</table>"


__all__ = ["CurveFit", "Minimum", "curve_fit", "minimize"]
