"""odeint, SciPy's older function for ordinary differential equations.

SciPy's order of the arguments, and trees of states and parameters as in jax.experimental.ode.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.custom_rules.closures_and_arguments import valueless
from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import array_of, double_of, float64_of
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.integrate.initial_value import solve_ivp
from fungrad.support import pytree
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of
from fungrad.tracing.transformed_function import boundary
from fungrad.transforms.vmap_and_staging import vmap
from fungrad.tree_parts import ravel_pytree

_DEFAULT_TOLERANCE = 1.49012e-8
_IGNORED = {
    "Dfun": None, "col_deriv": 0, "full_output": 0, "ml": None, "mu": None, "tcrit": None,
    "hmin": 0.0, "ixpr": 0, "mxstep": 0, "mxhnil": 0, "mxordn": 12, "mxords": 5, "printmessg": 0,
}  # fmt: skip


def _state(y0: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    """The state as a vector, and the function that restores its tree; None for a vector, a list of
    numbers, or a number.
    """
    numbers = isinstance(y0, (list, tuple)) and all(np.ndim(leaf) == 0 for leaf in y0)
    if numbers or pytree.structure(y0) is pytree.LEAF:
        y0 = double_of(y0)
        if len(shape_of(y0)) < 2:
            return np.reshape(y0, (-1,)), None
    return ravel_pytree(pytree.map(double_of, y0))


@boundary
def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: Any = (),
    *,
    rtol: Any = None,
    atol: Any = None,
    h0: float = 0.0,
    hmax: float = 0.0,
    tfirst: bool = False,
    method: Any = "RK45",
    gradient: str = "direct",
    **options: Any,
) -> Any:
    """Solves y' = func(y, t, *args) at times t, as scipy.integrate.odeint, with derivatives.

    Differentiable by y0, args, values that func closes over, and t.

    Args:
      func: `func(y, t, *args)`, or `func(t, y, *args)` with tfirst: a tree like y.
      y0: the state at t[0]: a vector, an array of any shape, or a tree of arrays.
      t: the times of the solution, ascending or descending, shape (m,); times may repeat.
      args: more arguments of func, trees or not; a tuple, or a single argument.
      rtol, atol: 1.49012e-8 by default. h0, hmax: the first and the longest step, 0 for automatic.
      tfirst: whether func takes t first. options: SciPy's others, which are refused.
      method, gradient: as in solve_ivp. SciPy's odeint is method="LSODA" with gradient="adjoint".

    Returns:
      The states, of shape (m, n), or a tree whose leaves have the times as their first axis. After
      a failure they are NaN, with a warning if that is known.

    Raises:
      UnsupportedArgumentError: for SciPy's other arguments.

    >>> import fungrad as fg
    >>> t = np.linspace(0.0, 1.0, 3)
    >>> def final(rate):
    ...     return odeint(lambda y, t, rate: {"mass": -rate * y["mass"]}, {"mass": 1.0}, t,
    ...                   args=(rate,))["mass"][-1]
    >>> round(float(fg.grad(final)(2.0)), 6)
    -0.135335
    """
    for name, value in options.items():
        if name not in _IGNORED:
            raise TypeError(f"odeint() got an unexpected keyword argument {name!r}")
        if value is not None and value != _IGNORED[name]:
            raise UnsupportedArgumentError(
                f"odeint was called with {name}={value!r}{user_line()}, which fungrad's does not "
                "support: leave it out, or call scipy.integrate.odeint on plain arrays."
            )
    args = args if isinstance(args, tuple) else (args,)
    vector, unravel = _state(y0)
    times = float64_of(t)

    def fun(time: Any, y: Any) -> Any:
        state = y if unravel is None else unravel(y)
        slope = func(time, state, *args) if tfirst else func(state, time, *args)
        if unravel is None:
            return np.reshape(array_of(slope), (-1,))
        return ravel_pytree(pytree.map(double_of, slope))[0]

    times_asked, indices = _distinct(times)
    solution = solve_ivp(
        fun, (times[0], times[-1]), vector, method, times_asked, gradient=gradient,
        rtol=_DEFAULT_TOLERANCE if rtol is None else rtol,
        atol=_DEFAULT_TOLERANCE if atol is None else atol,
        max_step=hmax or np.inf, first_step=h0 or None,
    )  # fmt: skip
    return _states(solution, shape_of(times_asked)[0], indices, unravel)


def _distinct(times: Any) -> tuple[Any, Any]:
    """The times without repetitions, if known, and the index of each time among them."""
    if valueless():
        return times, None
    numbers = known(stop_gradient(times), "t")
    fresh = np.concatenate([[True], numbers[1:] != numbers[:-1]])
    return (times, None) if fresh.all() else (times[fresh], np.cumsum(fresh) - 1)


def _states(found: Any, count: int, indices: Any, unravel: Any) -> Any:
    ys = np.moveaxis(found.y, 0, -1)
    missing = count - shape_of(ys)[0]
    if missing:
        ys = np.concatenate([ys, np.full((missing, shape_of(ys)[1]), np.nan)])
    if not valueless() and known(found.status, "status") != 0:
        warnings.warn(
            "odeint did not reach the last time, and later states are NaN: the steps became "
            "too short. The equations may be stiff (method='LSODA', gradient='adjoint'), or their "
            "solution ends.", stacklevel=3,
        )  # fmt: skip
    if indices is not None:
        ys = ys[indices]
    return ys if unravel is None else vmap(unravel)(ys)
