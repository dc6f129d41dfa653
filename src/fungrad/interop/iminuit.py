"""iminuit with exact gradients, second derivatives and Hessians of its cost functions.

The cost function is differentiated as a whole, in reverse mode: a gradient costs a few evaluations,
for any number of parameters. Sums of costs, constraints and masks work as they are.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fungrad.interop.packages import package
from fungrad.interop.vector_functions import VectorFunction
from fungrad.support.snapshots import snapshot
from fungrad.tracing import interception

iminuit: Any = package("iminuit")
_cost: Any = package("iminuit.cost")


def minuit(cost: Any, *start: Any, compiled: bool = True, **options: Any) -> Any:
    """iminuit.Minuit with the exact gradient and Hessian of a cost function.

    Args:
      cost: a cost function of `iminuit.cost`, a sum of those, or a function of numbers or of one
        array, written with NumPy.
      start: the starting values, numbers or one array, as for iminuit.Minuit.
      compiled: whether the derivatives are compiled; False for a function that cannot be staged.
      options: more arguments of iminuit.Minuit: `name`, or the starting values by name.

    Returns:
      An iminuit.Minuit.

    >>> import numpy as np
    >>> from iminuit.cost import LeastSquares
    >>> x = np.linspace(0.0, 3.0, 20)
    >>> def curve(x, a, b):
    ...     return a * np.exp(-b * x)
    >>> m = minuit(LeastSquares(x, curve(x, 2.0, 0.7), 0.1, curve), a=1.0, b=1.0).migrad()
    >>> print(round(m.values["a"], 3), round(m.values["b"], 3))
    2.0 0.7
    """
    derivatives = {
        "grad": gradient(cost, compiled=compiled),
        "hessian": hessian(cost, compiled=compiled),
        "g2": g2(cost, compiled=compiled),
    }
    with warnings.catch_warnings():  # Migrad calls g2 where the Hessian is indefinite
        warnings.filterwarnings("ignore", "hessian overrides g2")
        return iminuit.Minuit(cost, *start, **derivatives, **options)


def gradient(cost: Any, *, compiled: bool = True) -> Callable[..., Any]:
    """The gradient of a cost function, as `grad` of iminuit.Minuit.

    Args:
      cost, compiled: as for `minuit`.

    Returns:
      A function of numbers or of one array, as the cost is: float64[n]. It follows changes of the
      cost's data and mask.
    """
    return _Derivative(cost, VectorFunction.gradient, compiled)


def hessian(cost: Any, *, compiled: bool = True) -> Callable[..., Any]:
    """The Hessian of a cost function, as `hessian` of iminuit.Minuit.

    Args:
      cost, compiled: as for `minuit`.

    Returns:
      A function of what the cost takes: float64[n, n].
    """
    return _Derivative(cost, VectorFunction.hessian, compiled)


def g2(cost: Any, *, compiled: bool = True) -> Callable[..., Any]:
    """The diagonal of the Hessian, as `g2` of iminuit.Minuit.

    Args:
      cost, compiled: as for `minuit`.

    Returns:
      A function of what the cost takes: float64[n].
    """

    def diagonal(function: VectorFunction, p: Any) -> Any:
        return np.diag(function.hessian(p)).copy()

    return _Derivative(cost, diagonal, compiled)


def model_gradient(model: Callable[..., Any], *, compiled: bool = True) -> Callable[..., Any]:
    """The derivatives of a model f(x, *parameters) by its parameters.

    As `grad` of the cost functions themselves, which use it in `fisher_information`, `covariance`
    and `grad`, too.

    Args:
      model: `f(x, a, b, ...)`: the array of a model, a density or a distribution function.
      compiled: as for `minuit`.

    Returns:
      `grad(x, a, b, ...)`: float64[k, m] for k parameters and m values.

    >>> model_gradient(lambda x, a, b: a + b * x)(np.array([1.0, 2.0, 3.0]), 0.5, 0.1)
    array([[1., 1., 1.],
           [1., 2., 3.]])
    """
    function = VectorFunction(lambda p, x: model(x, *[p[i] for i in range(p.shape[0])]), compiled)

    @functools.wraps(model)
    def grad(x: Any, *parameters: Any) -> Any:
        return np.ascontiguousarray(function.jacobian(parameters, np.asarray(x)).T)

    return grad


class _Derivative:
    """A derivative of a cost function, for the data that it has at each call."""

    __wrapped__: tuple[Any, ...]

    def __init__(self, cost: Any, derivative: Callable[..., Any], compiled: bool) -> None:
        # a Template leaves out bins by a mask of its values, so its shapes depend on these
        varies = any(isinstance(part, _cost.Template) for part in _items(cost))
        self._cost, self._derivative, self._compiled = cost, derivative, compiled and not varies
        self._functions: dict[bool, VectorFunction] = {}
        self._held: list[Any] = []

    def __call__(self, *parameters: Any) -> Any:
        held = list(_parts(self._cost))
        if not _same(held, self._held):
            self._held = [x.copy() if isinstance(x, np.ndarray) else x for x in held]
            self._functions = {}
            # where functions that are replaced while tracing are looked for: costs have slots
            self.__wrapped__ = tuple(filter(callable, held))
        one = len(parameters) == 1 and np.ndim(parameters[0]) == 1
        if one not in self._functions:
            self._functions[one] = VectorFunction(self._of_vector(one), self._compiled)
        return self._derivative(self._functions[one], parameters[0] if one else parameters)

    def _of_vector(self, one: bool) -> Callable[[Any], Any]:
        def of_vector(p: Any) -> Any:
            with warnings.catch_warnings():  # a traced value is no ndarray
                warnings.simplefilter("ignore", iminuit.util.PerformanceWarning)
                return self._cost(p) if one else self._cost(*[p[i] for i in range(p.shape[0])])

        return of_vector


def _items(cost: Any) -> Any:
    """The costs of a sum, or the one cost."""
    return cost if isinstance(cost, _cost.CostSum) else [cost]


def _parts(value: Any) -> Iterator[Any]:
    """What a cost function holds: arrays, models, numbers, and the parts of a sum."""
    if isinstance(value, _cost.Cost):
        slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
        for name in (*slots, *getattr(value, "__dict__", ())):
            yield from _parts(getattr(value, name, None))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _parts(item)
    else:
        yield value


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _same(held: list[Any], before: list[Any]) -> bool:
    """Whether a cost function holds what it did: equal arrays, the same other objects."""
    return len(held) == len(before) and all(map(_equal, held, before))


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return a is b or (type(a) is type(b) and isinstance(a, int | float | str) and a == b)


def _unbinned_nll(x: Any) -> Any:
    """iminuit's sum of logarithms without the sort, which only refines its rounding."""
    return -np.sum(np.log(x + np.finfo(np.float64).tiny))


def _python(dispatcher: Any) -> Callable[..., Any]:
    """The function that Numba compiled."""

    def call(*args: Any) -> Any:
        return dispatcher.py_func(*args)

    return call


_compiled = {name: f for name, f in snapshot(vars(_cost)).items() if hasattr(f, "py_func")}
interception.register(
    _cost,
    {"_unbinned_nll": _unbinned_nll, **{name: _python(f) for name, f in _compiled.items()}},
)
interception.intercept("iminuit.cost")

__all__ = ["g2", "gradient", "hessian", "minuit", "model_gradient"]
