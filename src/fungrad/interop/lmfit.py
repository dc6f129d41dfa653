"""lmfit with exact Jacobians: of residual functions, of models, of parameters with expressions.

lmfit minimises over internal variables, which bounds make of the parameters; it scales the
derivatives with respect to the parameters that these functions return.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.interop.packages import package
from fungrad.interop.vector_functions import VectorFunction
from fungrad.support import pytree
from fungrad.tracing import interception
from fungrad.tracing.source_location import describe
from fungrad.transforms.arguments import Static, leaf_type

lmfit: Any = package("lmfit")
_special: Any = package("scipy.special")

SMALLEST = lmfit.lineshapes.tiny
"""The size below which lmfit's `not_zero` replaces a number."""


def jacobian(objective: Any, *, compiled: bool = True) -> Callable[..., Any]:
    """The exact Jacobian of residuals with respect to the parameters that vary, as lmfit's `Dfun`.

    For the methods "leastsq" and "least_squares".

    Args:
      objective: an lmfit Model (a composite one, too), or a function `f(params, *args, **kws)` of
        lmfit's Parameters that returns the array of residuals.
      compiled: whether it is compiled; False for a function that cannot be staged.

    Returns:
      `dfun(params, *args, **kws)`: float64[m, n] for m residuals, with a column for each parameter
      that varies. Expressions are differentiated through. One such function serves any number of
      fits; it is compiled once for each kind of arguments.

    >>> import lmfit, numpy as np
    >>> model = lmfit.models.GaussianModel()
    >>> x = np.linspace(-4.0, 4.0, 41)
    >>> y = model.eval(x=x, amplitude=3.0, center=0.4, sigma=0.8) + 0.01 * np.cos(9.0 * x)
    >>> fit = model.fit(y, x=x, amplitude=1.0, fit_kws={"Dfun": jacobian(model)})
    >>> print(fit.nfev, round(fit.params["center"].value, 3))
    8 0.4
    """
    residuals = objective._residual if isinstance(objective, lmfit.Model) else objective
    return _Derivative(residuals, VectorFunction.jacobian, compiled)


def gradient(
    objective: Any, reduce_fcn: Callable[..., Any] | None = None, *, compiled: bool = True
) -> Callable[..., Any]:
    """The exact gradient of the number that lmfit's scalar methods minimise, as `Dfun`.

    For "bfgs", "lbfgsb", "cg", "newton", "tnc", "slsqp".

    Args:
      objective: as for `jacobian`; if it returns an array, its sum of squares is minimised.
      reduce_fcn: the function of the array that is given to lmfit instead of "sum of squares".
      compiled: as for `jacobian`.

    >>> import lmfit, numpy as np
    >>> start = lmfit.create_params(x={"value": -1.2, "min": -2.0}, y=1.0)
    >>> def rosenbrock(params):
    ...     x, y = params["x"], params["y"]
    ...     return (1.0 - x) ** 2 + 100.0 * (y - x**2) ** 2
    >>> fit = lmfit.minimize(rosenbrock, start, "bfgs", Dfun=gradient(rosenbrock), calc_covar=False)
    >>> print(round(fit.params["x"].value, 4), round(fit.params["y"].value, 4))
    1.0 1.0
    """
    residuals = objective._residual if isinstance(objective, lmfit.Model) else objective

    def penalty(params: Any, *args: Any, **kws: Any) -> Any:
        out = _flat(residuals(params, *args, **kws))
        if np.size(out) == 1:
            return np.reshape(out, ())
        return np.sum(out * out) if reduce_fcn is None else reduce_fcn(out)

    return _Derivative(penalty, VectorFunction.gradient, compiled)


def covariance(result: Any, *, absolute_sigma: bool | None = None) -> Any:
    """The covariance of the parameters that vary, by the exact Jacobian at the fit.

    For every method, those without derivatives included, for which lmfit takes differences
    by numdifftools.

    Args:
      result: a ModelResult.
      absolute_sigma: whether the weights are inverse standard deviations; otherwise the covariance
        is scaled so that the residuals have variance 1. By default what the fit was given as
        `scale_covar`.

    Returns:
      float64[n, n], in the order of `result.var_names`.

    Raises:
      LinAlgError: if the data do not determine the parameters.

    >>> import lmfit, numpy as np
    >>> model, x = lmfit.models.LinearModel(), np.arange(5.0)
    >>> fit = model.fit(2.0 * x + [0.1, -0.1, 0.0, 0.1, -0.1], x=x, slope=1.0, intercept=0.0)
    >>> print(covariance(fit).round(5))
    [[ 0.0012 -0.0024]
     [-0.0024  0.0072]]
    """
    j = _model_jacobian(result)(result.params, result.data, result.weights, **result.userkws)
    half = np.linalg.inv(np.linalg.qr(j, mode="r"))
    scaled = result.scale_covar if absolute_sigma is None else not absolute_sigma
    return half @ half.T * (result.redchi if scaled else 1.0)


def standard_errors(result: Any) -> dict[str, float]:
    """The standard errors of all parameters, those given by expressions included.

    The variance of an expression g is the product of its exact gradient and the covariance.

    Args:
      result: a ModelResult.

    Returns:
      By name; 0 for fixed ones.

    >>> import lmfit, numpy as np
    >>> model, x = lmfit.models.LinearModel(), np.arange(5.0)
    >>> fit = model.fit(2.0 * x + [0.1, -0.1, 0.0, 0.1, -0.1], x=x, slope=1.0, intercept=0.0)
    >>> {name: round(error, 4) for name, error in standard_errors(fit).items()}
    {'slope': 0.0346, 'intercept': 0.0849}
    """
    names = tuple(result.params)

    def values(params: Any) -> Any:
        return np.stack([params[name].value + 0.0 for name in names])

    slopes = _Derivative(values, VectorFunction.jacobian, compiled=False)(result.params)
    variances = np.einsum("ij,jk,ik->i", slopes, covariance(result), slopes)
    return dict(zip(names, np.sqrt(variances).tolist(), strict=True))


def confidence_band(result: Any, sigma: float = 1, **independent: Any) -> Any:
    """The half-width of the confidence band of the model's mean: lmfit's `eval_uncertainty`.

    lmfit moves each parameter by a hundredth of its standard error; this is exact.

    Args:
      result: a ModelResult.
      sigma: how many standard deviations, or a probability below 1.
      independent: independent variables of the model; by default those of the fit.

    Returns:
      An array as the model's value: value - band and value + band are the ends.

    >>> import lmfit, numpy as np
    >>> model, x = lmfit.models.LinearModel(), np.arange(5.0)
    >>> fit = model.fit(2.0 * x + [0.1, -0.1, 0.0, 0.1, -0.1], x=x, slope=1.0, intercept=0.0)
    >>> print(confidence_band(fit, x=np.array([0.0, 2.0])).round(3))
    [0.102 0.059]
    """
    kws = {**result.userkws, **independent}

    def values(params: Any) -> Any:
        return result.model.eval(params, **kws)

    value = np.asarray(values(result.params))
    slopes = _Derivative(values, VectorFunction.jacobian, compiled=False)(result.params)
    variance = np.einsum("ij,jk,ik->i", slopes, covariance(result), slopes)
    level = sigma if sigma < 1 else _special.erf(sigma / np.sqrt(2.0))
    spread = _special.stdtrit(result.ndata - result.nvarys, (level + 1.0) / 2.0)
    band = spread * np.sqrt(variance)
    return (band.view(np.complex128) if value.dtype.kind == "c" else band).reshape(value.shape)


class _Derivative:
    """A derivative of a function of Parameters, by those that vary.

    Args:
      f: `f(params, *args, **kws)`.
      derivative: the method of VectorFunction that computes it.
      compiled: whether it is compiled.
    """

    def __init__(self, f: Callable[..., Any], derivative: Any, compiled: bool) -> None:
        self.__name__ = f"derivative of {describe(f)}"
        self.__wrapped__ = f  # where functions that are replaced while tracing are looked for
        self._f, self._derivative, self._compiled = f, derivative, compiled
        self._functions: dict[Any, VectorFunction] = {}

    def __call__(self, params: Any, *args: Any, **kws: Any) -> Any:
        leaves, treedef = pytree.flatten((args, kws))
        arrays = [leaf if leaf_type(leaf) is not None else None for leaf in leaves]
        others = [None if a is not None else b for a, b in zip(arrays, leaves, strict=True)]
        varying = [p.name for p in params.values() if p.vary]
        fixed = [p.name for p in params.values() if not p.vary and p.expr is None]
        limits = [(p.name, p.min, p.max, p.expr) for p in params.values() if p.expr is not None]
        signature = (Static(treedef), *map(_identity, others))
        key = (signature, *map(tuple, (varying, fixed, limits)))
        if key not in self._functions:
            self._functions[key] = self._made(params, varying, fixed, treedef, others)
        values = [np.float64(params[name].value) for name in varying]
        held = [np.float64(params[name].value) for name in fixed]
        return self._derivative(self._functions[key], values, held, arrays)

    def __deepcopy__(self, memo: Any) -> _Derivative:
        return self  # lmfit copies its arguments; the compiled functions stay

    def _made(
        self, params: Any, varying: Sequence[str], fixed: Sequence[str], treedef: Any, others: Any
    ) -> VectorFunction:
        pattern = copy.deepcopy(params)

        def of_vector(p: Any, held: Any, arrays: Any) -> Any:
            values = {name: p[i] for i, name in enumerate(varying)}
            values.update(zip(fixed, held, strict=True))
            leaves = [b if a is None else a for a, b in zip(arrays, others, strict=True)]
            args, kws = pytree.unflatten(treedef, leaves)
            return _flat(self._f(_with_values(pattern, values), *args, **kws))

        return VectorFunction(of_vector, self._compiled)


class _TracedParameter(lmfit.Parameter):
    """A Parameter with a traced value, which NumPy's functions take."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        values = [x.value if isinstance(x, lmfit.Parameter) else x for x in inputs]
        return getattr(ufunc, method)(*values, **kwargs)


def _with_values(params: Any, values: dict[str, Any]) -> Any:
    """A copy of Parameters with these values, and with those of the expressions that use them."""
    made = copy.deepcopy(params)
    symbols = made._asteval.symtable
    for name, value in values.items():
        made[name]._val = symbols[name] = value
    pending = {name for name, par in made.items() if par.expr is not None}

    def evaluate(name: str) -> None:
        pending.discard(name)
        for used in made[name]._expr_deps:
            if used in pending:
                evaluate(used)
        symbols[name] = made[name].value

    for name in list(pending):
        evaluate(name)
    for par in made.values():
        par.__class__ = _TracedParameter
    return made


def _flat(out: Any) -> Any:
    """Residuals as one real vector, complex ones as pairs of numbers, as lmfit takes them."""
    out = np.ravel(out)
    if np.iscomplexobj(out):
        return np.ravel(np.stack([np.real(out), np.imag(out)], axis=1))
    return out


def _identity(value: Any) -> Any:
    """A key for an argument that is no array: equal ones share compiled functions."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def _model_jacobian(result: Any) -> Any:
    if not isinstance(result, lmfit.model.ModelResult):
        raise ArgumentError(
            f"covariance takes the ModelResult of Model.fit, not a {type(result).__name__}. For a "
            "Minimizer, jacobian(residual)(result.params, *args) is the Jacobian."
        )
    for held in result.kws.values():
        if isinstance(held, _Derivative) and held._derivative is VectorFunction.jacobian:
            return held
    return jacobian(result.model)


def _not_zero(value: Any) -> Any:
    """lmfit's `not_zero` without a conversion to a Python float."""
    return np.copysign(np.maximum(SMALLEST, np.abs(value)), value)


interception.register(lmfit.lineshapes, {"not_zero": _not_zero})
interception.intercept("lmfit")  # the built-in models call it through objects of lmfit's

__all__ = ["confidence_band", "covariance", "gradient", "jacobian", "standard_errors"]
