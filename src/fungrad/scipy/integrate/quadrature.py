"""Integrals of functions and samples, as in scipy.integrate, with derivatives.

quad is SciPy's, run as opaque code. By Leibniz' rule its derivative is the integral of the
integrand's derivative, plus the integrand at the ends of the interval; that integral is of the same
kind, so all orders follow. All other functions are compositions.

Simpson's rule on uneven spacings, and the correction of the last interval where their number is
odd, are Cartwright 2017, Simpson's Rule Cumulative Integration with MS Excel and Irregularly-
spaced Data, equations 8 and 10; Romberg's table is Richardson's extrapolation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.control_flow.call import run
from fungrad.custom_rules.closures_and_arguments import captured, valueless
from fungrad.custom_rules.custom_vjp_jvp import Custom
from fungrad.errors import AbstractBooleanError, AbstractValueError, UnsupportedArgumentError
from fungrad.host.external import pure_callback
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import array_of, axis_last, float64_of, inexact_of
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.integrate.ode_adjoint import Joined, filled
from fungrad.scipy.optional import scipy_module, stands_for
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, Tracer, current, shape_of, typeof
from fungrad.tracing.transformed_function import boundary
from fungrad.transforms.grad import jvp, vjp

_FLOAT = Type((), np.float64)


def fixed_quad(
    func: Callable[..., Any], a: Any, b: Any, args: tuple[Any, ...] = (), n: int = 5
) -> Any:
    """The integral by Gauss-Legendre quadrature of n points, as scipy.integrate.fixed_quad.

    Args:
      func: `func(x, *args)`; takes a vector of points as its last axis. a, b: finite ends.
      args: more arguments of func. n: the number of points.

    Returns:
      (value, None).

    >>> value, _ = fixed_quad(np.square, 0.0, 1.0)
    >>> round(float(value), 12)
    0.333333333333
    """
    points, weights = np.polynomial.legendre.leggauss(n)
    if current() is EVAL and (np.isinf(a) or np.isinf(b)):
        raise ValueError("Gaussian quadrature is only available for finite limits.")
    x = (b - a) * (points + 1) / 2.0 + a
    return (b - a) / 2.0 * np.sum(weights * array_of(func(x, *args)), axis=-1), None


Integrand = Callable[[Sequence[Any], Any], Any]
"""(parameters, x) -> the vector of integrands."""


def _by_scipy(integrand: Integrand, size: int, options: dict[str, Any]) -> Callable[..., Any]:
    """The function of `_integral`, by SciPy and without derivatives."""
    compiled = jit(integrand)

    def run(parameters: Any, a: Any, b: Any) -> Any:
        module = scipy_module("scipy.integrate")
        if size == 1:
            value, error = module.quad(
                lambda x: float(compiled(parameters, np.float64(x))[0]), a, b, **options
            )[:2]
            return np.array([value]), np.float64(error)
        chosen = {k: v for k, v in options.items() if k in ("epsabs", "epsrel", "points")}
        value, error = module.quad_vec(
            lambda x: compiled(parameters, np.float64(x)), a, b, norm="max", **chosen
        )
        return value, np.float64(error)

    types = (Type((size,), np.float64), _FLOAT)
    return lambda parameters, a, b: pure_callback(run, types, list(parameters), a, b)


def _integral(integrand: Integrand, size: int, options: dict[str, Any]) -> Custom:
    """The function (parameters, a, b) -> (the vector of integrals, the estimate of the error)."""

    def at(parameters: Any, x: Any) -> Any:
        """The integrand at an end; 0 at infinity, which has no derivative."""
        finite = np.isfinite(x)
        return np.where(finite, integrand(parameters, np.where(finite, x, 0.0)), 0.0)

    def push(primals: Any, tangents: Any) -> Any:
        parameters, a, b = primals
        moving = [i for i, d in enumerate(tangents[0]) if d is not None]
        count = len(parameters)

        def pushed(given: Any, x: Any) -> Any:
            def of_moving(values: Any) -> Any:
                return integrand(filled(given[:count], moving, values), x)

            return jvp(of_moving, ([given[i] for i in moving],), (list(given[count:]),))[1]

        total = np.zeros(size)
        if moving:
            values = [*parameters, *[tangents[0][i] for i in moving]]
            total = total + _integral(pushed, size, options)(values, a, b)[0]
        for end, sign, tangent in ((b, 1.0, tangents[2]), (a, -1.0, tangents[1])):
            if tangent is not None:
                total = total + sign * at(parameters, end) * tangent
        return solution(parameters, a, b), (total, None)

    def forward(parameters: Any, a: Any, b: Any, wanted: Any) -> Any:
        return solution(parameters, a, b), (parameters, a, b)

    def backward(saved: Any, cotangent: Any, wanted: Any) -> Any:
        parameters, a, b = saved
        moving = [i for i, w in enumerate(wanted[0]) if w and typeof(parameters[i]).inexact]
        found: list[Any] = [None] * len(parameters)
        if moving:
            joined = Joined([parameters[i] for i in moving])

            def pulled(given: Any, x: Any) -> Any:
                values, weight = given[:-1], given[-1]
                pullback = vjp(
                    lambda p: integrand(filled(values, moving, p), x),
                    [values[i] for i in moving],
                )[1]
                return joined.join(pullback(weight)[0])

            inner = _integral(pulled, sum(joined.sizes), options)
            parts = joined.split(inner([*parameters, cotangent[0]], a, b)[0])
            found = filled(found, moving, parts)
        ends = [sign * np.sum(cotangent[0] * at(parameters, x)) for x, sign in ((a, -1), (b, 1))]
        return found, *ends

    solution = Custom(_by_scipy(integrand, size, options), ())
    solution.defjvp(push, symbolic_zeros=True)
    solution.defvjp(forward, backward, wanted=True)
    return solution


def _followed(
    flat: Callable[..., Any], func: Any, a: Any, b: Any, options: dict[str, Any], branch: Exception
) -> tuple[Graph, list[Any]]:
    """The Graph of an integrand that branches on its point, where values are known: that of one
    point, if it gives the integrand's value at each point that SciPy takes.
    """
    low, high = (known(x, "an end of scipy.integrate.quad") for x in (a, b))
    inside = np.clip(0.5 * (max(low, -1e3) + min(high, 1e3)), low, high)
    graph, closure = captured(flat, [inside], func, True)
    held = [known(value, "scipy.integrate.quad") for value in closure]

    def checked(x: float) -> float:
        value = float(known(flat(np.float64(x))[0], "scipy.integrate.quad")[0])
        same = float(next(iter(run(graph, [*held, np.float64(x)])))[0])
        if abs(value - same) > 1e-12 * (abs(value) + abs(same)):
            raise branch
        return value

    scipy_module("scipy.integrate").quad(checked, low, high, **options)
    return graph, closure


def _end(a: Any) -> Any:
    """An end of an integral; the integral does not depend on what an infinite one is made of."""
    return select(np.isinf(a), stop_gradient(a), a) if type(a) is Tracer else a


@boundary
@stands_for("scipy.integrate")
def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    *,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: Any = None,
    **options: Any,
) -> Any:
    """The integral of a function from a to b, as scipy.integrate.quad, with derivatives.

    Differentiable by a, b, args and values that func closes over, to all orders.

    Args:
      func: `func(x, *args)` -> one real number, with derivatives that can be integrated.
      args: more arguments of func.
      a, b: the ends, also infinite. points: constant points where func is not smooth.
      epsabs, epsrel, limit: as SciPy's; also for the integrals of derivatives.
      options: SciPy's others, only for plain numbers.

    Returns:
      (value, an estimate of the absolute error).

    Raises:
      UnsupportedArgumentError: for SciPy's other options under a transform.

    >>> import fungrad as fg
    >>> def moment(rate):
    ...     return quad(lambda x: x * np.exp(-rate * x), 0.0, np.inf)[0]
    >>> round(float(fg.grad(moment)(2.0)), 9)           # of 1 / rate**2
    -0.25
    """
    given = {"epsabs": epsabs, "epsrel": epsrel, "limit": limit, "points": points}
    if options:
        raise UnsupportedArgumentError(
            f"quad was called with {', '.join(options)}{user_line()} under a transform, which only "
            "supports epsabs, epsrel, limit and points. Put a weight into the function itself."
        )
    args = args if isinstance(args, tuple) else (args,)
    a, b = (_end(float64_of(x)) for x in (a, b))

    def flat(x: Any) -> list[Any]:
        value = float64_of(func(x, *args))
        return [np.reshape(value, (1,))]

    try:
        graph, closure = captured(flat, [a], func)
    except (AbstractBooleanError, AbstractValueError) as branch:  # on the point
        graph, closure = _followed(flat, func, a, b, given, branch)

    def integrand(parameters: Any, x: Any) -> Any:
        return evaluate(graph, [*parameters, x])[0]

    value, error = _integral(integrand, 1, given)(closure, a, b)
    return value[0], error


_UNFIT = "If given, length of x along axis must be the same as y."


def _points(x: Any, y: Any, axis: int) -> Any:
    """x along the last axis, as the axis of y was moved there."""
    x = array_of(x)
    if len(shape_of(x)) != 1:
        if len(shape_of(x)) != len(shape_of(y)):
            raise ValueError("If given, shape of x must be 1-D or the same as y.")
        x = np.moveaxis(x, axis, -1)
    if shape_of(x)[-1] != shape_of(y)[-1]:
        raise ValueError(_UNFIT)
    return x


def _safe(numerator: Any, denominator: Any) -> Any:
    """A quotient, 0 where the denominator is 0."""
    none = denominator == 0
    return np.where(none, 0.0, numerator / np.where(none, 1.0, denominator))


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples by the trapezoidal rule, as scipy.integrate.trapezoid.

    Differentiable by y, x and dx.

    Args:
      y: the samples, along an axis. x: their positions, or None for a distance of dx.
      dx: the distance. axis: the axis.

    >>> float(trapezoid([1.0, 2.0, 3.0]))
    4.0
    """
    return np.trapezoid(array_of(y), None if x is None else array_of(x), dx, axis)


def _simpson(y: Any, steps: Any, dx: Any) -> Any:
    """The sum over pairs of intervals along the last axis, of even number; steps None means dx."""
    left, middle, right = y[..., :-2:2], y[..., 1:-1:2], y[..., 2::2]
    if steps is None:
        return np.sum(left + 4.0 * middle + right, axis=-1) * (dx / 3.0)
    h, k = steps[..., ::2], steps[..., 1::2]
    terms = left * (2.0 - _safe(k, h)) + middle * (h + k) * _safe(h + k, h * k)
    return np.sum((h + k) / 6.0 * (terms + right * (2.0 - _safe(h, k))), axis=-1)


def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples by Simpson's rule, as scipy.integrate.simpson.

    For an even number of samples the last interval has the parabola through the last three.

    Args:
      y: samples. x: their points, 1-D or of the shape of y. dx: their distance, without x.
      axis: the axis to integrate along.

    Raises:
      ValueError: if x does not fit.

    >>> float(simpson([0.0, 1.0, 4.0]))
    2.6666666666666665
    """
    y, axis = axis_last(y, axis)
    if x is not None:
        x = _points(x, y, axis)
    count = shape_of(y)[-1]
    if count < 2:
        return np.sum(y * 0.0, axis=-1)
    steps = None if x is None else np.diff(x)
    if count % 2:
        return _simpson(y, steps, dx)
    if count == 2:
        return 0.5 * (dx if steps is None else steps[..., 0]) * (y[..., 0] + y[..., 1])
    result = _simpson(y[..., :-1], None if steps is None else steps[..., :-1], dx)
    if steps is None:
        steps = np.float64(1.0) * dx * np.ones(2)
    h, k = steps[..., -2], steps[..., -1]
    result = result + _safe(2 * k**2 + 3 * h * k, 6 * (k + h)) * y[..., -1]
    result = result + _safe(k**2 + 3.0 * h * k, 6 * h) * y[..., -2]
    return result - _safe(k**3, 6 * h * (h + k)) * y[..., -3]


def cumulative_trapezoid(
    y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None
) -> Any:
    """The running integral by the trapezoidal rule, as scipy.integrate.cumulative_trapezoid.

    Args:
      y: the samples, along an axis. x: their positions, or None for a distance of dx.
      dx: the distance. axis: the axis.
      initial: None, or 0 for a first element of 0.

    >>> cumulative_trapezoid([1.0, 2.0, 3.0], initial=0)
    array([0. , 1.5, 4. ])
    """
    y, axis = axis_last(y, axis)
    if not shape_of(y)[-1]:
        raise ValueError("At least one point is required along `axis`.")
    steps = dx if x is None else np.diff(_points(x, y, axis))
    result = np.cumsum(steps * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)
    if initial is not None:
        if initial != 0:
            raise ValueError("`initial` must be `None` or `0`.")
        result = np.concatenate([np.zeros((*shape_of(y)[:-1], 1), result.dtype), result], axis=-1)
    return np.moveaxis(result, -1, axis)


def _first_of_two(y: Any, steps: Any) -> Any:
    """The integral over each interval by the parabola through its ends and the next point."""
    h, k = steps[..., :-1], steps[..., 1:]
    short, ratio = h / (h + k), h / k
    product = short * ratio
    terms = (3 - short) * y[..., :-2] + (3 + product + short) * y[..., 1:-1]
    return h / 6 * (terms - product * y[..., 2:])


def cumulative_simpson(
    y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None
) -> Any:
    """The running integral by Simpson's rule, as scipy.integrate.cumulative_simpson.

    Args:
      y: samples. x: their points, ascending; 1-D or of the shape of y. dx: a number, or an array
        like y with one element along axis. axis: that of the samples.
      initial: None, or the first value.

    Raises:
      ValueError: if x is not ascending, or a shape does not fit.

    >>> cumulative_simpson([0.0, 1.0, 4.0], initial=0)
    array([0.        , 0.33333333, 2.66666667])
    """
    y, axis = axis_last(y, axis)
    y = inexact_of(y)
    shape = shape_of(y)
    if x is not None:
        x = _points(x, y, axis)
        steps = np.diff(x)
        if not valueless() and np.any(known(stop_gradient(steps), "x") <= 0):
            raise ValueError("Input x must be strictly increasing.")
    else:
        steps = _along(dx, shape, axis, "dx") * np.ones(shape[-1] - 1)
    if shape[-1] < 3:
        result = np.cumsum(steps * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)
    else:
        steps = np.broadcast_to(steps, (*shape[:-1], shape[-1] - 1))
        before = _first_of_two(y, steps)
        after = _first_of_two(y[..., ::-1], steps[..., ::-1])[..., ::-1]
        indices = np.arange(shape[-1] - 1)
        by_next = np.minimum(indices, shape[-1] - 3)
        by_previous = np.maximum(indices - 1, 0)
        even = np.logical_and(indices % 2 == 0, indices < shape[-1] - 2)
        result = np.cumsum(np.where(even, before[..., by_next], after[..., by_previous]), axis=-1)
    if initial is not None:
        start = np.broadcast_to(_along(initial, shape, axis, "initial"), (*shape[:-1], 1))
        result = np.concatenate([start, result + start], axis=-1)
    return np.moveaxis(result, -1, axis)


def _along(value: Any, shape: tuple[int, ...], axis: int, name: str) -> Any:
    """An argument that is one number, or has one for each line along the axis, with that axis last.

    `shape` is that of the lines, with the axis last.
    """
    value = array_of(value)
    if not shape_of(value):
        return value
    if len(shape_of(value)) == len(shape):
        value = np.moveaxis(value, axis, -1)
        if shape_of(value) == (*shape[:-1], 1):
            return value
    raise ValueError(
        f"If provided, `{name}` must either be a scalar or have the same shape as `y` but with "
        "only 1 point along `axis`."
    )


def romb(y: Any, dx: Any = 1.0, axis: int = -1, show: Any = False) -> Any:
    """The integral of 2**k + 1 samples by Romberg's method, as scipy.integrate.romb.

    Args:
      y: 2**k + 1 samples, along an axis. dx: their distance. axis: the axis. show: False.

    >>> float(romb([0.0, 1.0, 4.0, 9.0, 16.0]))
    21.333333333333332
    """
    if show:
        raise ValueError("romb prints no table: `show` has to be False.")
    y, _ = axis_last(y, axis)
    intervals = shape_of(y)[-1] - 1
    if intervals < 1 or intervals & (intervals - 1):
        raise ValueError("Number of samples must be one plus a non-negative power of 2.")
    step = intervals
    width = step * dx
    row = [(y[..., 0] + y[..., -1]) / 2.0 * width]
    while step > 1:
        inner = np.sum(y[..., step // 2 :: step], axis=-1)
        above, row = row, [0.5 * (row[0] + width * inner)]
        for j, value in enumerate(above, 1):
            row.append(row[-1] + (row[-1] - value) / (4**j - 1))
        step //= 2
        width = width / 2.0
    return row[-1]
