"""Replacements of SciPy's functions by those of fungrad.scipy while a transform traces.

SciPy's functions convert their arguments to ndarrays and pass them to compiled code. A function
here calls SciPy's own as long as no argument is traced, else that of `fungrad.scipy`, with the same
arguments. So do methods of interpolants that were made from plain arrays. This table imports
nothing: a module of SciPy is adapted once others have imported it, and one of fungrad is imported
when a traced value needs it.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.interception.numpy_functions import in_shadows
from fungrad.support.lazy import find_spec, imported, loaded
from fungrad.tracing import interception
from fungrad.tracing.created_arrays import Written
from fungrad.tracing.reachable_values import contents, defaults
from fungrad.tracing.source_location import instead_of_scipy, name_counterparts, user_line
from fungrad.tracing.subclass_arrays import OfTraced
from fungrad.tracing.trace import EVAL, Tracer, current, registry

TABLE = {
    "integrate": "odeint quad solve_ivp",
    "interpolate": "Akima1DInterpolator BSpline CubicHermiteSpline CubicSpline PPoly "
    "InterpolatedUnivariateSpline PchipInterpolator RegularGridInterpolator UnivariateSpline "
    "interp1d interpn make_interp_spline splev splrep",
    "linalg": "cho_factor cho_solve cholesky circulant companion coshm cosm det eig eigh "
    "eigh_tridiagonal eigvals eigvalsh eigvalsh_tridiagonal expm expm_frechet "
    "fractional_matrix_power hankel inv logm lstsq lu lu_factor lu_solve matmul_toeplitz norm "
    "orth orthogonal_procrustes pinv polar qr rq signm sinhm sinm solve solve_banded "
    "solve_circulant solve_continuous_lyapunov solve_discrete_lyapunov solve_sylvester "
    "solve_toeplitz solve_triangular solveh_banded sqrtm svd svdvals tanhm tanm toeplitz",
    "ndimage": "affine_transform convolve convolve1d correlate correlate1d gaussian_filter "
    "gaussian_filter1d gaussian_gradient_magnitude gaussian_laplace laplace map_coordinates "
    "maximum_filter median_filter minimum_filter prewitt rotate shift sobel spline_filter "
    "spline_filter1d uniform_filter uniform_filter1d zoom",
    "signal": "convolve convolve2d correlate correlate2d csd detrend fftconvolve filtfilt "
    "istft lfilter lfilter_zi oaconvolve savgol_coeffs savgol_filter sosfilt sosfilt_zi "
    "sosfiltfilt stft",
    "sparse.linalg": "bicg bicgstab cg cgs eigsh factorized gmres lgmres minres norm qmr splu "
    "spsolve",
    "spatial": "KDTree cKDTree",
    "spatial.distance": "cdist pdist squareform",
    "special": "comb diric factorial lambertw log_softmax logsumexp multigammaln perm polygamma "
    "softmax softplus spherical_in spherical_jn spherical_kn spherical_yn zeta",
    "stats": "bernoulli beta betabinom binom cauchy chi2 dirichlet entropy expon f fisk gamma "
    "gaussian_kde gennorm geom gumbel_l gumbel_r halfcauchy halfnorm invgamma invgauss laplace "
    "logistic lognorm loguniform lomax mode multinomial multivariate_normal nbinom norm pareto "
    "poisson rankdata rayleigh sem skewnorm t truncnorm uniform vonmises weibull_min wishart "
    "wrapcauchy",
}
"""By the name of the module: the names that fungrad.scipy has, too. Ufuncs need no replacement:
NumPy calls the protocol of traced values for them.
"""

KEPT_FOR_LATER = frozenset(["factorized", "splu"])
"""Functions whose results are called with traced values later."""
OF_FUNCTIONS = frozenset(["odeint", "quad", "solve_ivp"])
"""Functions that call their first argument, which may find traced values anywhere."""
WITHOUT_MEANING = frozenset(
    ["check_finite", "overwrite_a", "overwrite_b", "overwrite_x", "overwrite_ab", "overwrite_c",
     "overwrite_data", "copy", "workers", "disp", "lapack_driver", "driver"]
)  # fmt: skip
"""Arguments of SciPy that choose an algorithm, without a change of the result."""
DERIVATIVES = frozenset(["Dfun", "fprime", "fprime2", "hess", "hessp", "jac"])
"""Arguments that give derivatives, which fungrad's functions compute themselves."""


def _is_dropped(name: str, value: Any) -> bool:
    return name in WITHOUT_MEANING or (name in DERIVATIVES and value is not True)


def holds_traced(value: Any, depth: int = 3) -> bool:
    """Whether an argument is a traced value, or a list, dict or function that holds one."""
    kind = type(value)
    if kind is Tracer or kind is Written:
        return True
    if kind is float or kind is int or not depth:
        return False
    if kind in (list, tuple):
        return any(holds_traced(item, depth - 1) for item in value)
    if issubclass(kind, OfTraced):
        return True
    if kind is dict:
        return any(holds_traced(item, depth - 1) for item in list(value.values()))
    if kind is np.ndarray:
        return value.dtype.char == "O" and holds_traced(value.ravel().tolist(), depth)
    return any(holds_traced(item, depth - 1) for item in _held_by(value, kind))


def _held_by(value: Any, kind: type) -> Iterable[Any]:
    """The values that a function closes over, or that are bound to it."""
    if kind is FunctionType:
        return *defaults(value), *contents(value.__closure__ or ())
    if issubclass(kind, functools.partial):
        return *value.args, *value.keywords.values(), value.func
    if kind.__module__.startswith("scipy.sparse."):
        return vars_of(value)
    bound = getattr(value, "__self__", None) if callable(value) else None
    return () if bound is None or isinstance(bound, ModuleType) else vars_of(bound)


def vars_of(value: Any) -> list[Any]:
    """The values of the attributes of an instance."""
    return list(getattr(value, "__dict__", {}).values())


_COMPOSED = "fungrad.scipy.", "fungrad.numpy.", "fungrad.primitives."
"""The packages whose functions call SciPy's themselves."""


def _given(args: Any, kwargs: Any) -> bool:
    """Whether an argument is traced, and the caller is no function of fungrad's."""
    return (
        current() is not EVAL
        and any(holds_traced(arg) for arg in (*args, *kwargs.values()))
        and not str(sys._getframe(2).f_globals.get("__name__")).startswith(_COMPOSED)
    )


def _module(part: str) -> ModuleType:
    return imported(f"fungrad.scipy.{part}")


def _ours(part: str, name: str) -> Any:
    return getattr(_module(part), name)


def _counterpart(part: str, name: str) -> str:
    """See `name_counterparts`."""
    if find_spec(f"fungrad.scipy.{part.partition('.')[0]}") is None:
        return ""
    ours: Any = _module(part)
    theirs: Any = loaded(f"scipy.{part}")
    for word in name.split(".") if name else ():
        ours, theirs = getattr(ours, word, None), getattr(theirs, word, None)
        if ours is None or ours is theirs:
            return ""
    return f"{part}.{name}" if name else part


@functools.cache
def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _call(full: str, ours: Any, original: Any, args: Any, kwargs: Any) -> Any:
    """Calls fungrad's function with SciPy's arguments, except those in WITHOUT_MEANING.

    Raises:
      UnsupportedArgumentError: if another argument is given that fungrad's function does not have.
    """
    theirs, mine = _signature(original), _signature(ours)
    if theirs is None or mine is None:
        return ours(*args, **kwargs)
    try:
        bound = theirs.bind(*args, **kwargs)
    except TypeError:
        return ours(*args, **kwargs)  # raises the error
    kinds = {p.kind for p in (*mine.parameters.values(), *theirs.parameters.values())}
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return ours(*args, **{k: v for k, v in kwargs.items() if not _is_dropped(k, v)})
    passed: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if name in mine.parameters:
            passed[name] = value
        elif not _is_dropped(name, value) and value is not theirs.parameters[name].default:
            raise UnsupportedArgumentError(
                f"{full} was called on a traced value with {name}={value!r}{user_line()}, which "
                "fungrad's function does not have: leave it out, or wrap SciPy's by fg.external."
            )
    first = [name for name, p in mine.parameters.items() if p.kind is p.POSITIONAL_ONLY]
    given = [passed.pop(name) for name in first if name in passed]
    return ours(*given, **passed)


def _function(part: str, name: str, original: Any) -> Callable[..., Any]:
    later, calls = name in KEPT_FOR_LATER, name in OF_FUNCTIONS

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        given = _given(args, kwargs) or (later and _is_users())
        if not given and calls and current() is not EVAL and args and callable(args[0]):
            try:
                return original(_telling(args[0]), *args[1:], **kwargs)
            except _Met:
                given = True
        if given:
            return _call(f"scipy.{part}.{name}", _ours(part, name), original, args, kwargs)
        found = original(*args, **kwargs)
        return found if not interception.copies else in_shadows(found, args, kwargs)

    return function


def _is_users() -> bool:
    """Whether a transform traces, and the caller is neither SciPy nor fungrad."""
    name = str(sys._getframe(2).f_globals.get("__name__"))
    return current() is not EVAL and not name.startswith((*_COMPOSED, "scipy."))


def _class(part: str, name: str, original: Any) -> Any:
    """A replacement of a class, whose instances are SciPy's, or fungrad's for traced values."""
    meta: Any = type(original)

    class Meta(meta):  # type: ignore[misc]
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original) or type(instance) is _ours(part, name)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if _given(args, kwargs):
                return _call(f"scipy.{part}.{name}", _ours(part, name), original, args, kwargs)
            return original(*args, **kwargs)

    names = {n: getattr(original, n) for n in ("__module__", "__qualname__", "__doc__")}
    return Meta(name, (original,), names)


def _distribution(part: str, name: str, original: Any) -> Any:
    """A replacement of a distribution: it has the same state, and methods that take traced
    arguments, too.
    """

    def method(of: str) -> Callable[..., Any]:
        @functools.wraps(getattr(original, of))
        def function(self: Any, *args: Any, **kwargs: Any) -> Any:
            if _given(args, kwargs):
                ours = _ours(part, name)
                if hasattr(type(ours), of):  # other names are SciPy's again
                    return getattr(ours, of)(*args, **kwargs)
            return getattr(super(made, self), of)(*args, **kwargs)

        return function

    kind = type(original)
    public = [n for n in dir(original) if n[0] != "_" and inspect.ismethod(getattr(original, n))]
    methods = {of: method(of) for of in ("__call__", *public) if hasattr(kind, of)}
    made: Any = type(kind.__name__, (kind,), {"__module__": kind.__module__, **methods})
    distribution = object.__new__(made)
    vars(distribution).update(vars(original))
    return distribution


_LIKE: dict[str, Callable[[Any, Any], Any]] = {
    "PPoly": lambda ours, made: ours.PPoly._made(made.c, made.x, made.extrapolate, made.axis),
    "BSpline": lambda ours, made: ours.BSpline._made(
        (made.t, made.c), (made.k, made.extrapolate, made.axis)
    ),
    "UnivariateSpline": lambda ours, made: (
        None if made.ext else ours.BSpline._made(made._eval_args[:2], (made._eval_args[2], True, 0))
    ),
    "interp1d": lambda ours, made: ours.interp1d(
        made.x,
        made.y,
        made._kind,
        made.axis,
        bounds_error=made.bounds_error,
        fill_value="extrapolate" if made._extrapolate else made.fill_value,
    ),
    "RegularGridInterpolator": lambda ours, made: ours.RegularGridInterpolator(
        made.grid, made.values, made.method, made.bounds_error, made.fill_value
    ),
}
"""By the name of a class of scipy.interpolate: makes fungrad's interpolant from SciPy's."""


def _register_methods(name: str, kind: type) -> None:
    """Lets methods of plain interpolants of a class take traced arguments, too."""
    for method in ("__call__", "integrate"):
        home = next((base for base in kind.__mro__ if method in vars(base)), None)
        if home is not None:
            function = _method(name, kind, method, vars(home)[method])
            interception.register_methods(home, {method: function})


def _method(name: str, kind: type, method: str, original: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self, kind) and _given(args, kwargs):
            ours = getattr(_LIKE[name](_module("interpolate"), self), method, None)
            if ours is not None:
                return ours(*args, **kwargs)
        return original(self, *args, **kwargs)

    return function


def _replacements(part: str) -> Callable[[ModuleType], Mapping[str, Any]]:
    def make(module: ModuleType) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in TABLE[part].split():
            original = vars(module).get(name)
            if isinstance(original, FunctionType):
                found[name] = _function(part, name, original)
            elif isinstance(original, type):
                found[name] = _class(part, name, original)
            elif original is not None:
                found[name] = _distribution(part, name, original)
        for name in _LIKE if part == "interpolate" else ():
            _register_methods(name, getattr(module, name))
        return found

    return make


SEARCHES = (
    "basinhopping brute differential_evolution direct dual_annealing fmin_cobyla fmin_l_bfgs_b "
    "fmin_ncg fmin_slsqp fmin_tnc shgo"
).split()
"""The functions of scipy.optimize that compare values of a function to select a point, and have no
equation of it in fungrad.scipy.solvers.
"""
SOLVERS = (
    "bisect brenth brentq curve_fit fixed_point fmin fmin_bfgs fmin_cg fmin_powell fminbound "
    "fsolve least_squares minimize minimize_scalar newton ridder root root_scalar toms748"
).split()
"""The functions of scipy.optimize that fungrad.scipy.solvers has."""


class _Met(Exception):
    """A function that was given to scipy.optimize has returned a traced value."""


def _solver(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """A function of scipy.optimize whose solution is differentiated by its equation, where it
    depends on traced values. A search would select one of the points that it chose itself, without
    the derivative of the solution.
    """
    parameters = list(inspect.signature(original).parameters)

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        if current() is EVAL:
            return original(*args, **kwargs)
        given = dict(zip(parameters, args, strict=False)) | kwargs
        first = parameters[0]
        if len(args) > len(parameters) or not callable(given.get(first)):
            return original(*args, **kwargs)
        if not any(holds_traced(value) for value in given.values()):
            try:
                return original(**given | {first: _telling(given[first])})
            except _Met:
                pass
        solvers = imported("fungrad.scipy.solvers")
        if name in SOLVERS:
            try:
                return solvers.SOLVERS[name](original, given)
            except solvers.Unsupported:
                pass
        raise instead_of_scipy("optimize", name, None)

    return function


def _telling(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that raises where its result is traced."""

    @functools.wraps(f, updated=())
    def function(*args: Any, **kwargs: Any) -> Any:
        found = f(*args, **kwargs)
        if holds_traced(found):
            raise _Met
        return found

    return function


def _solvers(module: ModuleType) -> dict[str, Any]:
    own = vars(module)
    return {name: _solver(name, own[name]) for name in (*SEARCHES, *SOLVERS) if name in own}


interception.register_later("scipy.optimize", _solvers)
registry.scipy = _module
name_counterparts(_counterpart)
for _part in TABLE:
    interception.register_later(f"scipy.{_part}", _replacements(_part))
