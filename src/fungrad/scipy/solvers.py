"""scipy.optimize's functions for functions with traced values: each as a search on plain numbers
and the equation of its result (solutions.py).

Each takes SciPy's function and its arguments by name, and returns SciPy's kind of result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.numpy.protocol.implements import if_known
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.optional import scipy_module
from fungrad.scipy.solutions import Function, dense, diagonal, solution
from fungrad.transforms.grad import grad, jvp
from fungrad.transforms.jacobian import jacfwd

_optimize = scipy_module("scipy.optimize")

Given = dict[str, Any]
"""Arguments of SciPy's function by name."""
Original = Callable[..., Any]


class Unsupported(Exception):
    """An argument of a function of scipy.optimize with which its solution has no known equation."""


def _with(f: Any, args: Any, kwargs: Any = None) -> Function:
    """A function of its first argument."""
    rest = args if isinstance(args, tuple) else (args,)
    named = kwargs or {}
    return lambda x: f(x, *rest, **named) if rest or named else f(x)


def _part(f: Any, args: Any, index: int) -> Function:
    """One of the results of a function that returns derivatives, too."""
    whole = _with(f, args)
    return lambda x: whole(x)[index]


def _float(x: Any) -> Any:
    return np.asarray(x, dtype=np.float64)


def _vector(x: Any) -> Any:
    return np.atleast_1d(_float(x))


def _sides(low: Any, high: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Lower and upper bounds as two arrays of a shape."""
    return tuple(np.broadcast_to(_float(side), shape) for side in (low, high))


def _numbers_of(found: Any) -> tuple[Any, ...]:
    """What a search returns, of SciPy's OptimizeResult."""
    return found.x, found.get("nit", 0), found.get("nfev", 0), found.status, found.success


def _optimize_result(f: Function, found: tuple[Any, ...]) -> Any:
    """SciPy's OptimizeResult of what `solution` returns for a function."""
    x, iterations, calls, status, success = found
    return _optimize.OptimizeResult(
        x=x, success=success, status=status, fun=f(x), nfev=calls, nit=iterations, message=""
    )


# --- roots ----------------------------------------------------------------------------------------


def _zero(f: Function, x: Any, options: Any) -> Any:
    return np.reshape(_float(f(x)), np.shape(x))


def _root_results(original: Original, x: Any, report: Any) -> Any:
    iterations, calls, _, converged = report
    result = _optimize.RootResults(x, iterations, calls, 0, getattr(original, "__name__", ""))
    result.root, result.converged = x, converged
    return result


def _report_of(result: Any) -> tuple[Any, ...]:
    return result.root, result.iterations, result.function_calls, 0, result.converged


def bracketed(original: Original, given: Given) -> Any:
    """brentq, brenth, ridder, bisect, toms748."""
    f, bracket = _with(given.pop("f"), given.pop("args", ())), (given.pop("a"), given.pop("b"))
    full = given.pop("full_output", False)

    def search(functions: Any, start: Any, bracket: Any) -> Any:
        ends = [float(end) for end in bracket]
        return _report_of(original(*functions, *ends, full_output=True, **given)[1])

    x, *report = solution([f], np.float64(0.0), bracket, search, _zero)
    return (x, _root_results(original, x, report)) if full else x


def newton(original: Original, given: Given) -> Any:
    """newton and secant, of a number or of each number of an array."""
    args, x0 = given.pop("args", ()), given.pop("x0")
    full = given.pop("full_output", False)
    names = ["func", *(n for n in ("fprime", "fprime2") if given.get(n) is not None)]
    functions = [_with(given.pop(name), args) for name in names]
    starts = [x0, *([given["x1"]] if given.get("x1") is not None else [])]
    given.pop("x1", None)
    scalar = np.ndim(x0) == 0

    def search(functions: Any, start: Any, starts: Any) -> Any:
        first, *second = [float(s) if scalar else np.asarray(s, float) for s in starts]
        named = dict(zip(names[1:], functions[1:], strict=True))
        named |= {"x1": second[0]} if second else {}
        out = original(functions[0], first, full_output=True, **named, **given)
        if scalar:
            return _report_of(out[1])
        return out[0], 0, 0, 0, np.all(out[1])

    linear = dense if scalar else diagonal
    x, *report = solution(functions, np.zeros(np.shape(x0)), starts, search, _zero, linear)
    if not full:
        return x
    if not scalar:
        every = np.broadcast_to(report[-1], np.shape(x0))
        return x, every, np.zeros(np.shape(x0), bool)
    return x, _root_results(original, x, report)


def root_scalar(original: Original, given: Given) -> Any:
    """root_scalar by each of its methods."""
    f, args, slopes = given.pop("f"), given.pop("args", ()), {}
    functions = [_with(f, args)]
    for order, name in enumerate(("fprime", "fprime2"), 1):
        slope = given.pop(name, None)
        if callable(slope):
            functions.append(_with(slope, args))
            slopes[name] = len(functions) - 1
        elif slope:  # f returns the derivatives, too
            functions.append(_part(f, args, order))
            slopes[name] = len(functions) - 1
            functions[0] = _part(f, args, 0)
    starts = {n: given.pop(n) for n in ("bracket", "x0", "x1") if given.get(n) is not None}

    def search(functions: Any, start: Any, starts: Any) -> Any:
        named = {n: functions[i] for n, i in slopes.items()}
        ends = {n: [*map(float, v)] if n == "bracket" else float(v) for n, v in starts.items()}
        return _report_of(original(functions[0], **named, **ends, **given))

    x, *report = solution(functions, np.float64(0.0), starts, search, _zero)
    return _root_results(original, x, report)


def _of_system(name: str, given: Given) -> tuple[list[Function], Any, list[str]]:
    """The functions of a system of equations, the start, and the names of the functions."""
    args, jacobian = given.pop("args", ()), given.get(name)
    f = given.pop("func" if "func" in given else "fun")
    functions = [_with(f, args)]
    if callable(jacobian):
        functions.append(_with(given.pop(name), args))
    elif jacobian:
        given.pop(name)
        functions = [_part(f, args, 0), _part(f, args, 1)]
    return functions, given.pop("x0"), [name] * (len(functions) - 1)


def fsolve(original: Original, given: Given) -> Any:
    """fsolve."""
    functions, x0, names = _of_system("fprime", given)
    full = given.pop("full_output", 0)
    start = _vector(stop_gradient(x0)).ravel()

    def search(functions: Any, start: Any, options: Any) -> Any:
        named = dict(zip(names, functions[1:], strict=True))
        x, info, state, _ = original(functions[0], start, full_output=1, **named, **given)
        return x, 0, info["nfev"], state, state == 1

    x, _, calls, state, _ = solution(functions, start, (), search, _zero)
    return (x, {"nfev": calls, "fvec": functions[0](x)}, state, "") if full else x


def root(original: Original, given: Given) -> Any:
    """root by each of its methods."""
    functions, x0, names = _of_system("jac", given)
    start = _vector(stop_gradient(x0))
    if given.get("method", "hybr") in ("hybr", "lm"):
        start = start.ravel()

    def search(functions: Any, start: Any, options: Any) -> Any:
        named = dict(zip(names, functions[1:], strict=True))
        return _numbers_of(original(functions[0], start, **named, **given))

    return _optimize_result(functions[0], solution(functions, start, (), search, _zero))


def fixed_point(original: Original, given: Given) -> Any:
    """fixed_point, of a number or an array."""
    f, start = _with(given.pop("func"), given.pop("args", ())), _float(stop_gradient(given["x0"]))
    del given["x0"]

    def search(functions: Any, start: Any, options: Any) -> Any:
        return original(*functions, start, **given), 0, 0, 0, True

    def equation(f: Function, x: Any, options: Any) -> Any:
        return _zero(f, x, options) - x

    return solution([f], start, (), search, equation)[0]


# --- minima ---------------------------------------------------------------------------------------


def _stationary(f: Function, x: Any, bounds: Any) -> Any:
    """The gradient, and of numbers that it pushes out of their bounds the distance to them."""
    slope = grad(lambda z: np.reshape(_float(f(z)), ()))(x)
    if not bounds:
        return slope
    low, high = bounds
    return np.where(x - slope < low, x - low, np.where(x - slope > high, x - high, slope))


def _bounds(bounds: Any, size: int) -> Any:
    """Bounds as two arrays, or nothing."""
    if bounds is None:
        return ()
    if isinstance(bounds, _optimize.Bounds):
        low, high = bounds.lb, bounds.ub
    else:
        pairs = [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds]
        low, high = np.stack([a for a, _ in pairs]), np.stack([b for _, b in pairs])
    return _sides(low, high, (size,))


def _pairs(bounds: Any) -> Any:
    """Bounds as minimize takes them."""
    return {"bounds": _optimize.Bounds(*map(np.array, bounds))} if bounds else {}


def minimize(original: Original, given: Given) -> Any:
    """minimize without constraints."""
    constraints, args, fun = given.pop("constraints", ()), given.pop("args", ()), given.pop("fun")
    if (isinstance(constraints, dict) or not isinstance(constraints, (tuple, list))
            or len(constraints)):  # fmt: skip
        raise Unsupported
    products = given.pop("hessp", None) is not None
    given.pop("callback", None)
    functions, names = [_with(fun, args)], []
    if given.get("jac") is True:
        functions = [_part(fun, args, 0), _part(fun, args, 1)]
        names, _ = ["jac"], given.pop("jac")
    for name in ("jac", "hess"):
        if callable(given.get(name)):
            functions.append(_with(given.pop(name), args))
            names.append(name)
    start = _vector(stop_gradient(given.pop("x0"))).ravel()
    bounds = _bounds(given.pop("bounds", None), start.size)

    def search(functions: Any, start: Any, bounds: Any) -> Any:
        named = dict(zip(names, functions[1:], strict=True)) | _pairs(bounds)
        if products:
            slope = grad(functions[0])
            named["hessp"] = lambda x, p: jvp(slope, (x,), (p,))[1]
        return _numbers_of(original(functions[0], start, **named, **given))

    return _optimize_result(functions[0], solution(functions, start, bounds, search, _stationary))


def minimize_scalar(original: Original, given: Given) -> Any:
    """minimize_scalar by each of its methods."""
    f, args = given.pop("fun"), given.pop("args", ())
    limits = {n: given.pop(n) for n in ("bracket", "bounds") if given.get(n) is not None}

    def search(functions: Any, start: Any, limits: Any) -> Any:
        ends = {name: [*map(float, ends)] for name, ends in limits.items()}
        minimum = original(*functions, **ends, **given)
        return minimum.x, minimum.get("nit", 0), minimum.get("nfev", 0), 0, minimum.success

    def equation(f: Function, x: Any, limits: Any) -> Any:
        return _stationary(f, x, limits.get("bounds", ()))

    f = _with(f, args)
    x, iterations, calls, _, success = solution([f], np.float64(0.0), limits, search, equation)
    return _optimize.OptimizeResult(
        x=x, fun=f(x), success=success, nfev=calls, nit=iterations, message=""
    )


def fminbound(original: Original, given: Given) -> Any:
    """fminbound."""
    f, bounds = _with(given.pop("func"), given.pop("args", ())), (given.pop("x1"), given.pop("x2"))
    full = given.pop("full_output", 0)

    def search(functions: Any, start: Any, bounds: Any) -> Any:
        x, _, flag, calls = original(*functions, *map(float, bounds), full_output=1, **given)
        return x, 0, calls, flag, flag == 0

    x, _, calls, flag, _ = solution([f], np.float64(0.0), bounds, search, _stationary)
    return (x, f(x), flag, calls) if full else x


def fmin(original: Original, given: Given) -> Any:
    """fmin, fmin_bfgs, fmin_cg and fmin_powell, where they return the solution alone."""
    if given.pop("full_output", 0) or given.pop("retall", 0):
        raise Unsupported
    args, name = given.pop("args", ()), "func" if "func" in given else "f"
    functions = [_with(given.pop(name), args)]
    slopes = ["fprime"] if given.get("fprime") is not None else []
    functions += [_with(given.pop(n), args) for n in slopes]
    start = _vector(stop_gradient(given.pop("x0"))).ravel()

    def search(functions: Any, start: Any, options: Any) -> Any:
        named = dict(zip(slopes, functions[1:], strict=True))
        return original(functions[0], start, **named, **given), 0, 0, 0, True

    return solution(functions, start, (), search, _stationary)[0]


_LOSSES: dict[str, Function] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * ((1 + z) ** 0.5 - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.where(z <= 1, 1.0, z) ** 0.5 - 1),
    "cauchy": lambda z: np.log1p(z),
    "arctan": lambda z: np.arctan(z),
}


def least_squares(original: Original, given: Given) -> Any:
    """least_squares with each of its losses."""
    args, kwargs = given.pop("args", ()), given.pop("kwargs", None)
    loss, scale = given.get("loss", "linear"), given.get("f_scale", 1.0)
    if loss not in _LOSSES or given.get("jac_sparsity") is not None:
        raise Unsupported
    given.pop("callback", None)
    functions = [_with(given.pop("fun"), args, kwargs)]
    slopes = ["jac"] if callable(given.get("jac")) else []
    functions += [_with(given.pop(n), args, kwargs) for n in slopes]
    start = _vector(stop_gradient(given.pop("x0")))
    bounds = given.pop("bounds", ())
    if isinstance(bounds, _optimize.Bounds) or len(bounds):
        low, high = (bounds.lb, bounds.ub) if isinstance(bounds, _optimize.Bounds) else bounds
        bounds = _sides(low, high, start.shape)

    def cost(f: Function) -> Function:
        return lambda x: 0.5 * scale**2 * np.sum(_LOSSES[loss]((_float(f(x)) / scale) ** 2))

    def search(functions: Any, start: Any, bounds: Any) -> Any:
        named = dict(zip(slopes, functions[1:], strict=True))
        named |= {"bounds": tuple(map(np.array, bounds))} if bounds else {}
        minimum = original(functions[0], start, **named, **given)
        return minimum.x, 0, minimum.nfev, minimum.status, minimum.success

    def equation(f: Function, x: Any, bounds: Any) -> Any:
        return _stationary(cost(f), x, bounds)

    x, _, calls, status, success = solution(functions, start, bounds, search, equation)
    residuals = functions[0](x)
    return _optimize.OptimizeResult(
        x=x, cost=cost(lambda _: residuals)(x), fun=np.atleast_1d(residuals), nfev=calls,
        jac=jacfwd(lambda z: np.atleast_1d(functions[0](z)))(x), status=status,
        grad=grad(cost(functions[0]))(x), success=success, message="",
    )  # fmt: skip


def curve_fit(original: Original, given: Given) -> Any:
    """curve_fit with independent errors: the parameters and their covariance."""
    f, xdata, ydata = given.pop("f"), given.pop("xdata"), _float(given.pop("ydata"))
    sigma, p0 = given.pop("sigma", None), given.pop("p0", None)
    if given.pop("full_output", False) or np.ndim(sigma) > 1:
        raise Unsupported
    if p0 is None and "bounds" in given:
        raise Unsupported
    if p0 is None:
        p0 = np.ones(len(inspect.signature(f).parameters) - 1)
    start, (low, high) = _vector(stop_gradient(p0)), given.pop("bounds", (-np.inf, np.inf))
    bounds = _sides(low, high, start.shape)
    free = np.isneginf(if_known(bounds[0])).all() and np.isposinf(if_known(bounds[1])).all()
    slope = callable(given.get("jac")) and given.pop("jac") is not None
    data = [ydata, *([] if sigma is None else [_float(sigma)])]

    def model(p: Any) -> Any:
        return np.ravel(f(xdata, *[p[i] for i in range(start.size)]))

    def residuals(f: Function, data: Any) -> Function:
        return lambda p: (f(p) - np.ravel(data[0])) / (data[1] if len(data) > 1 else 1.0)

    def search(functions: Any, start: Any, options: Any) -> Any:
        data, bounds = options
        named: dict[str, Any] = {"bounds": tuple(map(np.array, bounds))} if bounds else {}
        named |= {"sigma": data[1]} if len(data) > 1 else {}
        named |= {"jac": lambda _, *p: jacfwd(functions[0])(np.array(p))} if slope else {}
        popt, pcov = original(
            lambda _, *p: functions[0](np.array(p)), np.ravel(data[0]), np.ravel(data[0]), start,
            **named, **given,
        )  # fmt: skip
        return popt, 0, 0, 0, True, pcov

    def equation(f: Function, p: Any, options: Any) -> Any:
        data, bounds = options
        return _stationary(lambda q: 0.5 * np.sum(residuals(f, data)(q) ** 2), p, bounds)

    options = data, () if free else bounds
    covariance = Type((start.size, start.size), np.float64)
    p, *_, pcov = solution([model], start, options, search, equation, more=[covariance])
    slopes, left = jacfwd(residuals(model, data))(p), residuals(model, data)(p)
    exact = np.linalg.inv(slopes.T @ slopes)
    if not given.get("absolute_sigma", False) and left.size > p.size:
        exact = exact * np.sum(left**2) / (left.size - p.size)
    return p, pcov + (exact - stop_gradient(exact))


SOLVERS: dict[str, Callable[[Original, Given], Any]] = {
    **dict.fromkeys(("brentq", "brenth", "ridder", "bisect", "toms748"), bracketed),
    **dict.fromkeys(("fmin", "fmin_bfgs", "fmin_cg", "fmin_powell"), fmin),
    "curve_fit": curve_fit, "fixed_point": fixed_point, "fminbound": fminbound, "fsolve": fsolve,
    "least_squares": least_squares, "minimize": minimize, "minimize_scalar": minimize_scalar,
    "newton": newton, "root": root, "root_scalar": root_scalar,
}  # fmt: skip
"""By the name in scipy.optimize."""
