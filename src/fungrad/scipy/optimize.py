"""scipy.optimize with derivatives (`fungrad.scipy.optimize`).

The methods are SciPy's; they get the value and the gradient by one evaluation, Jacobians, and
products with the Hessian. Parameters may be trees; SciPy sees one float64 vector. Where the
function closes over traced values, the solution is differentiated by its equation (solvers.py). All
other names are SciPy's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.scipy.optional import rest_of_scipy, scipy_module
from fungrad.support import pytree
from fungrad.tracing.trace import Tracer, typeof
from fungrad.transforms.arguments import flat_results
from fungrad.transforms.grad import grad, jvp, value_and_grad
from fungrad.transforms.jacobian import hessian, jacfwd, jacrev
from fungrad.tree_parts import ravel_pytree

_optimize = scipy_module("scipy.optimize")

_VALUES_ONLY = {"nelder-mead", "powell", "cobyla", "cobyqa"}
_HESSIAN_PRODUCTS = {"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"}
_HESSIANS = {"dogleg", "trust-exact"}


class _Parameters:
    """The parameters as SciPy's vector, and back as the user's tree."""

    def __init__(self, x0: Any) -> None:
        leaves, treedef = pytree.flatten(x0)
        numbers = all(type(leaf) in (int, float, bool) for leaf in leaves)
        if numbers and _is_sequence(x0):  # [1.0, 2.0] is an array to SciPy, and so it is here
            x0 = np.atleast_1d(np.asarray(x0, np.float64))
        elif treedef is pytree.LEAF:
            x0 = np.atleast_1d(_float64(x0))
        else:
            x0 = pytree.unflatten(treedef, [_float64(leaf) for leaf in leaves])
        self.vector, self.tree = ravel_pytree(x0)
        self.plain = type(x0) is np.ndarray and x0.ndim == 1

    def restored(self, result: Any) -> Any:
        """SciPy's result with x, and its gradient, as the user's tree."""
        if not self.plain:
            gradient = getattr(result, "jac", None)
            if isinstance(gradient, np.ndarray) and gradient.shape == self.vector.shape:
                result.jac = self.tree(gradient)
            result.x = self.tree(result.x)
        return result

    def callback(self, callback: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """The user's callback, called with the user's tree."""
        if callback is None or self.plain:
            return callback
        if set(inspect.signature(callback).parameters) == {"intermediate_result"}:

            def with_result(*, intermediate_result: Any) -> Any:
                return callback(intermediate_result=self.restored(intermediate_result))

            return with_result

        def with_vector(x: Any, *rest: Any) -> Any:
            return callback(self.tree(np.asarray(x, np.float64)), *rest)

        return with_vector

    def scalar(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """fun as a function from the vector to one float64."""

        def of_vector(x: Any, *args: Any) -> Any:
            return _one_number(fun, fun(self.tree(x), *args))

        return of_vector

    def residuals(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """fun as a function from the vector to a float64 vector."""

        def of_vector(x: Any, *args: Any, **kwargs: Any) -> Any:
            return _as_vector(fun(self.tree(x), *args, **kwargs))

        return of_vector


def _is_sequence(x0: Any) -> bool:
    if type(x0) in (list, tuple):
        return all(map(_is_sequence, x0))
    return type(x0) in (int, float, bool)


def _float64(leaf: Any) -> Any:
    if typeof(leaf).dtype.kind == "c":
        raise ArgumentError(
            "SciPy's optimizers take real parameters, but a complex one was given. Give its real "
            "and imaginary parts as two, and combine them in the function."
        )
    return np.asarray(leaf, np.float64)


def _one_number(fun: Any, out: Any) -> Any:
    leaves, _ = flat_results(out)
    if len(leaves) != 1 or typeof(leaves[0]).size != 1:
        raise ArgumentError(
            f"{getattr(fun, '__name__', fun)} has to return one number, but returned "
            f"{', '.join(str(typeof(leaf)) for leaf in leaves) or 'nothing'}. Return a sum, or use "
            "least_squares for a vector of residuals."
        )
    return cast(np.reshape(leaves[0], ()), np.dtype(np.float64))


def _number(value: Any) -> Any:
    """A number for SciPy; a traced one as it is."""
    return value if type(value) is Tracer else float(value)


def _as_vector(out: Any) -> Any:
    leaves, _ = flat_results(out)
    return cast(ravel_pytree(leaves)[0], np.dtype(np.float64))


def _with_value(f: Callable[..., Any]) -> Callable[..., Any]:
    """f with its output twice: to differentiate, and unchanged as aux."""

    def twice(*args: Any, **kwargs: Any) -> Any:
        out = f(*args, **kwargs)
        return out, out

    return twice


def _constraint(constraint: Any, parameters: _Parameters) -> Any:
    """A constraint on the vector, with its Jacobian if the user gave none."""
    if isinstance(constraint, dict):
        if constraint.get("jac") is not None:
            return constraint
        f = parameters.residuals(constraint["fun"])
        return {**constraint, "fun": f, "jac": jacrev(f)}
    if isinstance(constraint, _optimize.NonlinearConstraint) and not callable(constraint.jac):
        f = parameters.residuals(constraint.fun)
        return _optimize.NonlinearConstraint(
            f, constraint.lb, constraint.ub, jac=jacrev(f), hess=constraint.hess,
            keep_feasible=constraint.keep_feasible,
        )  # fmt: skip
    return constraint


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: Any = None,
    *,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """scipy.optimize.minimize, with the derivatives that its method can use.

    Args:
      fun: `fun(x, *args)`, one real number, written with NumPy.
      x0: the start: an array of any shape, or a tree of arrays. A list of numbers is an array.
      args: more arguments of fun, which are fixed.
      method: one of SciPy's. Value and gradient come from one evaluation; newton-cg, trust-ncg,
        trust-krylov and trust-constr get products with the Hessian, dogleg and trust-exact get it.
      bounds, tol, options: as SciPy's; bounds in the order of the raveled parameters.
      constraints: as SciPy's; functions of the tree, with Jacobians by fungrad by default.
      callback: as SciPy's, called with the tree.

    Returns:
      SciPy's result; `x`, and the gradient `jac`, are trees as x0.

    Raises:
      ArgumentError: if fun does not return one number, or a parameter is complex.

    >>> def loss(p):
    ...     return (p["a"] - 1.0) ** 2 + np.sum(p["b"] ** 2)
    >>> r = minimize(loss, {"a": 0.0, "b": np.ones(2)})
    >>> bool(np.isclose(r.x["a"], 1.0)), r.x["b"].shape
    (True, (2,))
    """
    args = args if isinstance(args, tuple) else (args,)
    parameters = _Parameters(x0)
    f = parameters.scalar(fun)
    derivatives: dict[str, Any] = {}
    kind = method.lower() if isinstance(method, str) else ""
    if kind not in _VALUES_ONLY:
        both = value_and_grad(f)
        derivatives["jac"] = True
    if kind in _HESSIAN_PRODUCTS:
        derivatives["hessp"] = lambda x, p, *rest: jvp(
            grad(lambda v: f(v, *rest)), (x,), (np.asarray(p, np.float64),)
        )[1]
    if kind in _HESSIANS:
        derivatives["hess"] = hessian(f)

    def called(x: Any, *rest: Any) -> Any:
        if "jac" not in derivatives:
            return _number(f(x, *rest))
        value, gradient = both(x, *rest)
        return _number(value), gradient

    single = isinstance(constraints, dict) or hasattr(constraints, "lb")
    given = [constraints] if single else list(constraints)
    result = _optimize.minimize(
        called, parameters.vector, args=args, method=method, bounds=bounds,
        constraints=[_constraint(c, parameters) for c in given], tol=tol,
        callback=parameters.callback(callback), options=options, **derivatives,
    )  # fmt: skip
    return parameters.restored(result)


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    *,
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """scipy.optimize.root, with the Jacobian if the method uses one (hybr, lm).

    Args:
      fun: `fun(x, *args)`, an array, a list or a tree with as many numbers as x.
      x0: the start: an array, or a tree of arrays.
      args, method, tol, callback, options: as SciPy's.

    Returns:
      SciPy's result; `x` is a tree as x0.

    >>> r = root(lambda x: [x[0] + x[1] - 3.0, x[0] * x[1] - 2.0], [0.0, 5.0])
    >>> np.round(r.x, 6)
    array([1., 2.])
    """
    args = args if isinstance(args, tuple) else (args,)
    parameters = _Parameters(x0)
    f = parameters.residuals(fun)
    exact = method.lower() in ("hybr", "lm")
    both = jacfwd(_with_value(f), has_aux=True)

    def called(x: Any, *rest: Any) -> Any:
        jacobian, value = both(x, *rest)
        return value, jacobian

    result = _optimize.root(
        called if exact else f, parameters.vector, args=args, method=method,
        jac=True if exact else None, tol=tol, callback=parameters.callback(callback),
        options=options,
    )  # fmt: skip
    return parameters.restored(result)


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    *,
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """scipy.optimize.least_squares, with the Jacobian of the residuals.

    Args:
      fun: `fun(x, *args, **kwargs)`, the residuals: an array, or a tree of arrays.
      x0: the start: an array, or a tree of arrays.
      args, kwargs: more arguments of fun.
      options: SciPy's other arguments (bounds, method, loss, ...).

    Returns:
      SciPy's result; `x` is a tree as x0.

    >>> r = least_squares(lambda p: p["a"] * np.arange(3.0) - np.array([0.0, 2.0, 4.0]), {"a": 1.0})
    >>> float(np.round(r.x["a"], 6))
    2.0
    """
    parameters = _Parameters(x0)
    f = parameters.residuals(fun)
    size = parameters.vector.size

    def jacobian(x: Any, *rest: Any, **named: Any) -> Any:
        count = f(x, *rest, **named).size
        return (jacfwd if count >= size else jacrev)(f)(x, *rest, **named)

    result = _optimize.least_squares(
        f, parameters.vector, jac=jacobian, args=tuple(args), kwargs=kwargs or {}, **options
    )
    if not parameters.plain:
        result.x = parameters.tree(result.x)
    return result


def curve_fit(f: Callable[..., Any], xdata: Any, ydata: Any, p0: Any = None, **options: Any) -> Any:
    """scipy.optimize.curve_fit, with the Jacobian of the model.

    Args:
      f: `f(xdata, *parameters)`, an array of the shape of ydata.
      xdata, ydata, p0: as SciPy's.
      options: SciPy's other arguments (sigma, bounds, method, ...).

    Returns:
      (parameters, their covariance); more with full_output, as in SciPy.

    >>> x = np.arange(4.0)
    >>> parameters, _ = curve_fit(lambda x, a, b: a * np.exp(-b * x), x, 2.0 * np.exp(-x))
    >>> np.round(parameters, 6)
    array([2., 1.])
    """

    def jacobian(x: Any, *parameters: Any) -> Any:
        def model(vector: Any) -> Any:
            return _as_vector(f(x, *[vector[i] for i in range(len(parameters))]))

        return jacfwd(model)(np.asarray(parameters, np.float64))

    return _optimize.curve_fit(f, xdata, ydata, p0=p0, jac=jacobian, **options)


def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    bracket: Any = None,
    *,
    x0: Any = None,
    x1: Any = None,
    **options: Any,
) -> Any:
    """scipy.optimize.root_scalar, with the derivatives that newton (one) and halley (two) use.

    Args:
      f: `f(x, *args)`, one real number.
      args, method, bracket, x0, x1: as SciPy's; with only x0 the method is newton.
      options: SciPy's other arguments (xtol, rtol, maxiter, ...).

    >>> float(np.round(root_scalar(lambda x: x**2 - 2.0, x0=1.0).root, 6))
    1.414214
    """
    args = args if isinstance(args, tuple) else (args,)
    if method is None and bracket is None and x0 is not None and x1 is None:
        method = "newton"
    order = {"newton": 1, "halley": 2}.get(method or "", 0)

    def called(x: Any, *rest: Any) -> Any:
        def value(v: Any) -> Any:
            return _one_number(f, f(v, *rest))

        def slope(v: Any) -> Any:
            y, moved = jvp(value, (v,), (np.float64(1.0),))
            return moved, (y, moved)

        at = _float64(x)[()]
        if order == 0:
            return _number(value(at))
        if order == 1:
            return tuple(map(_number, slope(at)[1]))
        _, bent, (y, moved) = jvp(slope, (at,), (np.float64(1.0),), has_aux=True)
        return _number(y), _number(moved), _number(bent)

    return _optimize.root_scalar(
        called, args=args, method=method, bracket=bracket, x0=x0, x1=x1,
        fprime=True if order else None, fprime2=True if order == 2 else None, **options,
    )  # fmt: skip


__getattr__, __dir__ = rest_of_scipy(globals())
