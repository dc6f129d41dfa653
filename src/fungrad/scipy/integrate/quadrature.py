"""Integrals of functions, as scipy.integrate.quad, with derivatives.

quad is SciPy's, run as opaque code. By Leibniz' rule its derivative is the integral of the
integrand's derivative, plus the integrand at the ends of the interval; that integral is of the same
kind, so all orders follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.control_flow.call import run
from fungrad.custom_rules.closures_and_arguments import captured
from fungrad.custom_rules.custom_vjp_jvp import Custom
from fungrad.errors import AbstractBooleanError, AbstractValueError, UnsupportedArgumentError
from fungrad.host.external import pure_callback
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import float64_of
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.integrate.ode_adjoint import Joined, filled
from fungrad.scipy.optional import scipy_module, stands_for
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, typeof
from fungrad.tracing.transformed_function import boundary
from fungrad.transforms.grad import jvp, vjp

_FLOAT = Type((), np.float64)


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
