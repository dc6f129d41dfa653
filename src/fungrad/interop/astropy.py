"""astropy.modeling with exact Jacobians of models, compound, custom, tied and bounded ones."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from fungrad.compiler.jit import jit
from fungrad.errors import ArgumentError
from fungrad.interop.packages import package
from fungrad.transforms.jacobian import jacfwd


def exact_derivatives(model: Any) -> Any:
    """A copy of a model with exact derivatives, which astropy's fitters use.

    Functions of tied parameters are differentiated, too: astropy leaves them out. Limits are those
    of the parameters. The fitted model is of the same kind.

    Args:
      model: a FittableModel of numbers, also a compound or custom one, with or without units. What
        `evaluate` calls is written with NumPy.

    Raises:
      ArgumentError: if a parameter is an array.
      MissingExtraError: without astropy.

    >>> import numpy as np
    >>> from astropy.modeling import fitting, models
    >>> x = np.linspace(-1.0, 1.0, 20)
    >>> y = 2.0 * np.exp(-0.5 * (x / 0.3) ** 2) + 1.0
    >>> start = models.Gaussian1D(1.0, 0.1, 0.5) | models.Shift(0.5)
    >>> fit = fitting.TRFLSQFitter()(exact_derivatives(start), x, y)
    >>> print(fit.parameters.round(4) + 0.0)
    [2.  0.  0.3 1. ]
    """
    package("astropy.modeling")
    copied = model.copy()
    for name in copied.param_names:
        if getattr(copied, name).shape not in ((), (1,)):
            raise ArgumentError(
                f"The parameter {name} is an array of shape {getattr(copied, name).shape}, but "
                "exact_derivatives takes models whose parameters are numbers."
            )
    if not hasattr(copied, "_exact_compiled"):
        copied.__class__ = _exact_class(cast(Any, type(copied)))
        copied._exact_compiled = _Compiled()
    return copied


@functools.cache
def _exact_class(base: type) -> type:
    """A subclass of a class of models, with exact derivatives."""

    def fit_deriv(model: Any) -> Any:
        return functools.partial(_derivatives, model)

    def reduce(model: Any) -> Any:
        return _empty, (base,), model.__dict__

    members = {
        "fit_deriv": property(fit_deriv), "col_fit_deriv": True, "__reduce__": reduce,
        "__module__": base.__module__, "__doc__": base.__doc__,
    }  # fmt: skip
    return types.new_class(base.__name__, (base,), exec_body=lambda names: names.update(members))


def _empty(base: type) -> Any:
    return object.__new__(_exact_class(base))


class _Compiled(dict[Any, Callable[..., Any]]):
    """Compiled functions, which a model and its copies share: fitters copy the model."""

    def __deepcopy__(self, memo: Any) -> _Compiled:
        return self

    def __reduce__(self) -> Any:
        return _Compiled, ()


def _derivatives(model: Any, *args: Any) -> Any:
    """The derivatives with respect to each parameter, along the first axis.

    Args:
      model: the model.
      args: its inputs, then its parameters.
    """
    inputs = [np.asarray(x, np.float64) for x in args[: model.n_inputs]]
    parameters = np.array([np.squeeze(p) for p in args[model.n_inputs :]], np.float64)
    limits = np.array([model.bounds[name] for name in model.param_names], np.float64)  # None: nan
    ties = {name: tie for name, tie in model.tied.items() if tie}
    key = (tuple(ties.items()), limits.tobytes())
    if key not in model._exact_compiled:
        limits = np.where(np.isnan(limits), [-np.inf, np.inf], limits)
        model._exact_compiled[key] = _rows(_of_vector(model, ties, limits))
    derivatives = np.asarray(model._exact_compiled[key](parameters, *inputs), np.float64)
    return derivatives.reshape(len(parameters), *np.broadcast_shapes(*[x.shape for x in inputs]))


def _rows(f: Callable[..., Any]) -> Callable[..., Any]:
    """The compiled derivatives of f(p, *inputs) by p: one row for each number of p."""
    jacobian = jacfwd(f)
    made: Callable[..., Any] = jit(
        lambda p, *inputs: np.moveaxis(jacobian(p, *inputs), -1, 0), branches="guard"
    )
    return made


def _of_vector(model: Any, ties: Mapping[str, Any], limits: Any) -> Any:
    names = model.param_names

    def evaluate(p: Any, *inputs: Any) -> Any:
        bounded = p if np.isinf(limits).all() else np.clip(p, limits[:, 0], limits[:, 1])
        values = dict(zip(names, bounded, strict=True))
        for name, tie in ties.items():
            tied = tie(_Model(model, values))
            values[name] = tied.value if isinstance(tied, _Parameter) else tied
        return model.evaluate(*inputs, *values.values())

    return evaluate


class _Parameter(NDArrayOperatorsMixin):
    """A parameter in a function of a tied one: its value, or the parameter itself as a number."""

    unit = None

    def __init__(self, value: Any) -> None:
        self.value = self.quantity = value

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **options: Any) -> Any:
        plain = [x.value if isinstance(x, _Parameter) else x for x in args]
        return getattr(ufunc, method)(*plain, **options)


class _Model:
    """What a function of a tied parameter gets: the model, with the values of this call."""

    def __init__(self, model: Any, values: Mapping[str, Any]) -> None:
        self._model, self._values = model, values

    def __getattr__(self, name: str) -> Any:
        if name in self._values:
            return _Parameter(self._values[name])
        return getattr(self._model, name)

    def __getitem__(self, index: int | str) -> Any:
        names = self._model.submodel_names
        wanted = names.index(index) if isinstance(index, str) else range(len(names))[index]
        begin = sum(len(self._model[i].param_names) for i in range(wanted))
        part = self._model[wanted]
        end = begin + len(part.param_names)
        values = dict(zip(part.param_names, list(self._values.values())[begin:end], strict=True))
        return _Model(part, values)


__all__ = ["exact_derivatives"]
