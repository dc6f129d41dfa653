"""The common part of all distributions: arguments, loc and scale, the support, functions that
follow from others, and accurate logarithms.

A distribution is declared by the formulas of its standard form (loc 0, scale 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, UnsupportedFunctionError
from fungrad.numpy.protocol.implements import as_array
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.optional import scipy_module
from fungrad.support import pytree
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, typeof


def floating(function: str, *values: Any) -> list[Any]:
    """Array-like arguments as arrays of their promoted real dtype; integers count as float64.

    Raises:
      ArgumentError: if one is complex.
    """
    arrays = [as_array(value) for value in values]
    dtype = np.result_type(*arrays)
    if dtype.kind == "c":
        raise ArgumentError(
            f"scipy.stats.{function} was called with complex numbers{user_line()}, but takes real "
            "ones."
        )
    return [cast(a, dtype if dtype.kind == "f" else np.dtype(np.float64)) for a in arrays]


def log1mexp(v: Any) -> Any:
    """log(1 - exp(v)) for v <= 0, to full precision.

    Maechler, Accurately computing log(1 - exp(-|a|)) (2012).
    """
    near = v > -0.6931471805599453
    small = np.log(-np.expm1(select(near, v, -1.0)))
    return select(near, small, np.log1p(-np.exp(select(near, -1.0, v))))


def settled(value: Any) -> Any:
    """The value, with derivative 0 where it is infinite."""
    return _settled_where(np.abs(value) == np.inf, value)


def _settled_where(singular: Any, value: Any) -> Any:
    """The value, with derivative 0 where it is singular."""
    return value if singular is False else select(singular, stop_gradient(value), value)


class Family:
    """A distribution object of SciPy's: makes frozen distributions, and has SciPy's own methods
    (rvs, fit, ...), for plain arrays, where none is defined here.

    Attributes:
      name: SciPy's.
      methods: the names of the methods that take traced values.
    """

    name: str
    methods: tuple[str, ...]

    def __call__(self, *args: Any, **kwargs: Any) -> Frozen:
        return Frozen(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<distribution {self.name}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._scipy, name)

    @property
    def _scipy(self) -> Any:
        """SciPy's distribution of this name."""
        return getattr(scipy_module("scipy.stats"), self.name)


class Frozen:
    """A distribution with its parameters, as SciPy's frozen ones; x, k or q is positional."""

    def __init__(self, distribution: Family, args: Any, kwargs: dict[str, Any]) -> None:
        self.dist = distribution
        self.args = args
        self.kwds = kwargs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'Frozen' object has no attribute {name!r}")
        if name not in self.dist.methods:
            return getattr(self.dist._scipy(*self.args, **self.kwds), name)
        method = getattr(self.dist, name)

        def frozen(*lead: Any) -> Any:
            return method(*lead, *self.args, **self.kwds)

        return frozen


Formula = Callable[..., Any]

LIMITS = {
    "logpdf": (-np.inf, -np.inf),
    "logpmf": (-np.inf, -np.inf),
    "cdf": (0.0, 1.0),
    "sf": (1.0, 0.0),
    "logcdf": (-np.inf, 0.0),
    "logsf": (0.0, -np.inf),
}
"""The values of each function below and above the support."""


def _log(p: Any) -> Any:
    """log(p), and -inf with derivative 0 where p is 0."""
    return select(p == 0, -np.inf, np.log(select(p == 0, 1.0, p)))


def _positive(*shapes: Any) -> Any:
    valid = shapes[0] > 0
    for shape in shapes[1:]:
        valid = valid & (shape > 0)
    return valid


def _derived(formulas: dict[str, Formula], symmetric: bool) -> dict[str, Formula]:
    """The declared formulas, and those that follow from them.

    If logsf or logcdf is declared (and its inverse), all others are derived from it, without loss
    in either tail.
    """
    known = dict(formulas)
    inverse = known.pop("inverse", None)

    def add(name: str, formula: Formula) -> None:
        known.setdefault(name, formula)

    if symmetric:
        cdf, logcdf, ppf = known.get("cdf"), known.get("logcdf"), known.get("ppf")
        if cdf is not None:
            add("sf", lambda x, *s: cdf(-x, *s))
        if logcdf is not None:
            add("logsf", lambda x, *s: logcdf(-x, *s))
        if ppf is not None:
            add("isf", lambda q, *s: -ppf(q, *s))
    for log, plain, other in (("logsf", "sf", "cdf"), ("logcdf", "cdf", "sf")):
        if log in known:
            logarithm = known[log]
            add(plain, lambda x, *s, f=logarithm: np.exp(settled(f(x, *s))))
            add(other, lambda x, *s, f=logarithm: -np.expm1(settled(f(x, *s))))
            add(f"log{other}", lambda x, *s, f=logarithm: log1mexp(settled(f(x, *s))))
    if inverse is not None:
        by_sf = "logsf" in formulas
        add("ppf", lambda q, *s: inverse(np.log1p(-q) if by_sf else np.log(q), *s))
        add("isf", lambda q, *s: inverse(np.log(q) if by_sf else np.log1p(-q), *s))
    if "cdf" in known:
        add("sf", lambda x, *s: 1.0 - known["cdf"](x, *s))
        for name in ("cdf", "sf"):
            add(f"log{name}", lambda x, *s, f=known[name]: _log(f(x, *s)))
    if "ppf" in known:
        add("isf", lambda q, *s: known["ppf"](1.0 - q, *s))
    return known


class Distribution(Family):
    """A family of distributions, as an instance in SciPy: its methods take the parameters last.

    Args:
      name: SciPy's.
      shapes: the names of the shape parameters, separated by blanks.
      support: the ends of the support, or a function from the shapes to them.
      open: whether the lower end, where the density is 0, is excluded.
      inner: a point inside the support, for all parameters.
      everywhere: whether the formula of logpdf also holds for infinite x.
      infinite: a function of (y, *shapes): where in the support the logarithm of the density is
        infinite, if elsewhere than at its ends.
      valid: a function that checks the shapes; None if all have to be positive.
      symmetric: whether the density is even.
      integers: the names of integer shapes, which are constants.
      formulas: functions of the standard form, of (x, *shapes), (q, *shapes) or (*shapes);
        `inverse` is the inverse of logsf or logcdf, the declared one.

    Attributes:
      shapes: the names of the shape parameters.

    >>> import fungrad as fg
    >>> from fungrad.scipy import stats
    >>> float(fg.grad(stats.norm.logpdf)(1.0, loc=0.5))
    -0.5
    >>> stats.gamma(2.0, scale=3.0).mean(), stats.beta.shapes
    (np.float64(6.0), ('a', 'b'))
    """

    _parameters_of_place: tuple[str, ...]
    _densities: tuple[str, ...]
    _by_scipy: tuple[str, ...] = ()
    """Methods that SciPy computes, also for traced values."""

    def __init__(
        self,
        name: str,
        shapes: str = "",
        *,
        support: tuple[Any, Any] | Callable[..., tuple[Any, Any]] = (-np.inf, np.inf),
        open: bool = False,
        inner: float = 0.5,
        everywhere: bool = False,
        infinite: Formula | None = None,
        valid: Callable[..., Any] | None = None,
        symmetric: bool = False,
        integers: tuple[str, ...] = (),
        **formulas: Formula,
    ) -> None:
        self.name = name
        self.shapes = tuple(shapes.split())
        self._support: Formula = support if callable(support) else lambda *_: support
        self._open = open
        self._inner = inner
        self._everywhere = everywhere
        self._infinite = infinite
        self._valid = valid or (_positive if self.shapes else None)
        self._integers = tuple(s in integers for s in self.shapes)
        self._parameters = (*self.shapes, *self._parameters_of_place)
        self._formulas = _derived(formulas, symmetric)
        methods = {*self._formulas, *self._densities, *self._by_scipy}
        methods |= {name for name, by in (("median", "ppf"), ("std", "var")) if by in methods}
        self.methods = tuple(sorted(methods))

    def __call__(self, *args: Any, **kwargs: Any) -> Frozen:
        self._read("__call__", args, kwargs)
        return Frozen(self, args, kwargs)

    def _read(self, method: str, args: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The shape parameters, loc and scale; None in the place of a default."""
        names = self._parameters
        given = dict(zip(names, args, strict=False))
        unknown = [name for name in kwargs if name not in names or name in given]
        given.update(kwargs)
        missing = [name for name in self.shapes if name not in given]
        if unknown or missing or len(args) > len(names):
            raise TypeError(
                f"{self.name}.{method} takes ({', '.join((*self.shapes, *self._defaults()))})"
                + (f", and was not given {', '.join(missing)}" if missing else "")
                + (f", but was given {', '.join(unknown)}" if unknown else "")
                + (f", but was given {len(args)} in a row" if len(args) > len(names) else "")
            )
        return tuple(given.get(name) for name in names)

    def _defaults(self) -> list[str]:
        return [f"{name}={int(name == 'scale')}" for name in self._parameters_of_place]

    def _prepared(self, method: str, lead: Any, args: Any, kwargs: Any) -> tuple[Any, ...]:
        """lead (None if a method has none), the list of shapes, and the parameters of place, all of
        one dtype.
        """
        values = [lead, *self._read(method, args, kwargs)]
        given = [v for v in values if v is not None]
        ready = iter(floating(f"{self.name}.{method}", *given) if given else [])
        lead, *rest = [None if v is None else next(ready) for v in values]
        count = len(self.shapes)
        shapes = [
            stop_gradient(s) if i else s for i, s in zip(self._integers, rest[:count], strict=True)
        ]
        return lead, shapes, *rest[count:]

    def _formula(self, method: str) -> Formula:
        """The formula of a method.

        Raises:
          UnsupportedFunctionError: if there is none.
        """
        formula = self._formulas.get(method)
        if formula is None:
            raise UnsupportedFunctionError(
                f"scipy.stats.{self.name}.{method} was called on a traced value{user_line()}, but "
                f"fungrad has no formula for it, only for {', '.join(self.methods)}. Call it on "
                "fg.stop_gradient(x) if you need no gradient, or wrap SciPy's by fg.external, "
                "which takes finite differences."
            )
        return formula

    def _call(
        self, how: Formula, method: str, lead: tuple[Any, ...], args: Any, kwargs: Any
    ) -> Any:
        """A method's value; without a formula SciPy's, for plain values."""
        traced = any(type(leaf) is Tracer for leaf in pytree.leaves((lead, args, kwargs)))
        if traced or method in self._formulas or method in self._by_scipy:
            return how(method, *lead, args, kwargs)
        return getattr(self._scipy, method)(*lead, *args, **kwargs)

    def _validity(self, shapes: list[Any], scale: Any = None) -> Any:
        """1, or NaN where a parameter is invalid, a factor that makes both values and derivatives
        NaN; None without parameters.
        """
        valid = self._valid(*shapes) if self._valid is not None else None
        if scale is not None:
            valid = scale > 0 if valid is None else valid & (scale > 0)
        if valid is None:
            return None
        return cast(select(valid, 1.0, np.nan), typeof([*shapes, scale][0]).dtype)

    def _on_support(
        self,
        method: str,
        y: Any,
        shapes: list[Any],
        outside: Any = None,
        less: Any = None,
        closed: bool = True,
    ) -> Any:
        """The formula of a method at y, minus `less`, and its limits beyond the support and where
        `outside`.

        There the formula is evaluated at an inner point, so that its values and derivatives do not
        matter; likewise where its logarithm is infinite. The ends belong to the support if it is
        `closed`. NaN counts as inside, and passes through every formula.
        """
        lower, upper = self._support(*shapes)
        low = _beyond(y, lower, -1.0, self._open or not closed)
        high = _beyond(y, upper, 1.0, not closed)
        either = low | high if outside is None else low | high | outside
        below, above = LIMITS[method]
        inside = self._formula(method)(select(either, self._inner, y), *shapes)
        inside = inside if less is None else inside - less
        if method in self._densities:
            inside = _settled_where(self._singular(method, y, shapes), inside)
        elif method.startswith("log"):
            inside = settled(inside)
        if below == above:
            result = select(either, below, inside)
        else:
            result = select(low, below, select(high, above, inside))
        return cast(result, typeof(y).dtype)

    def _singular(self, method: str, y: Any, shapes: list[Any]) -> Any:
        """Where in the support the logarithm of the density is infinite: its formula is evaluated
        at the ends alone, not at all y. Numbers that overflow do not count.
        """
        if self._infinite is not None:
            return self._infinite(y, *shapes)
        found: Any = False
        for bound in self._support(*shapes):
            if not is_infinite(bound):
                end = np.float64(bound) if type(bound) is float else stop_gradient(bound)
                value = self._formula(method)(end, *map(stop_gradient, shapes))
                found = found | ((y == bound) & (np.abs(value) == np.inf))
        return found

    def _at(self, method: str, x: Any, args: Any, kwargs: Any) -> Any:
        raise NotImplementedError

    def _quantile(self, method: str, q: Any, args: Any, kwargs: Any) -> Any:
        raise NotImplementedError

    def _moment(self, method: str, args: Any, kwargs: Any) -> Any:
        raise NotImplementedError

    def cdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The probability of values up to x; its derivative in x is the density if continuous.

        Args:
          x: real numbers.
          *args, **kwargs: the shape parameters, loc, and scale if continuous, which broadcast
            against x.

        Returns:
          Numbers in [0, 1], of the common floating dtype; NaN where a parameter is invalid.

        Raises:
          TypeError: for missing or unknown parameters.
          UnsupportedFunctionError: if there is no formula, on traced values.

        >>> import fungrad as fg
        >>> from fungrad.scipy.stats import uniform
        >>> float(fg.grad(uniform.cdf)(0.5, scale=2.0))
        0.5
        """
        return self._call(self._at, "cdf", (x,), args, kwargs)

    def sf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The probability of values above x: 1 - cdf without cancellation.

        Args:
          x, *args, **kwargs: as for `cdf`, with the same errors.

        >>> import fungrad as fg
        >>> from fungrad.scipy.stats import uniform
        >>> float(fg.grad(uniform.sf)(0.5, scale=2.0))
        -0.5
        """
        return self._call(self._at, "sf", (x,), args, kwargs)

    def logcdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of cdf; -inf, with the derivative 0, where that is 0.

        Args:
          x, *args, **kwargs: as for `cdf`, with the same errors.

        >>> import fungrad as fg
        >>> from fungrad.scipy.stats import uniform
        >>> float(fg.grad(uniform.logcdf)(0.5))
        2.0
        """
        return self._call(self._at, "logcdf", (x,), args, kwargs)

    def logsf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of sf; -inf, with the derivative 0, where that is 0.

        Args:
          x, *args, **kwargs: as for `cdf`, with the same errors.

        >>> import fungrad as fg
        >>> from fungrad.scipy.stats import expon
        >>> float(fg.grad(expon.logsf)(3.0))
        -1.0
        """
        return self._call(self._at, "logsf", (x,), args, kwargs)

    def ppf(self, q: Any, *args: Any, **kwargs: Any) -> Any:
        """The quantiles: the (least) x with cdf(x) = q (or more).

        Args:
          q: probabilities in [0, 1]; NaN comes of others.
          *args, **kwargs: the shape parameters, loc, and scale if continuous, which broadcast
            against q.

        Returns:
          Numbers of the common floating dtype; of a discrete distribution the derivative is 0.

        >>> import fungrad as fg
        >>> from fungrad.scipy.stats import uniform
        >>> float(fg.grad(uniform.ppf)(0.5, scale=2.0))
        2.0
        """
        return self._call(self._quantile, "ppf", (q,), args, kwargs)

    def isf(self, q: Any, *args: Any, **kwargs: Any) -> Any:
        """The upper quantiles: the (least) x with sf(x) = q (or less).

        Args:
          q, *args, **kwargs: as for `ppf`.

        >>> import fungrad as fg
        >>> from fungrad.scipy.stats import expon
        >>> float(fg.grad(expon.isf)(0.5))
        -2.0
        """
        return self._call(self._quantile, "isf", (q,), args, kwargs)

    def median(self, *args: Any, **kwargs: Any) -> Any:
        """The x with cdf(x) = 1/2, or the least with more.

        Args:
          *args, **kwargs: the shape parameters, loc, and scale if continuous.

        Returns:
          Numbers of the parameters' broadcast shape; NaN where one is invalid.

        >>> from fungrad.scipy.stats import uniform
        >>> float(uniform.median(1.0, 4.0))
        3.0
        """
        return self.ppf(0.5, *args, **kwargs)

    def entropy(self, *args: Any, **kwargs: Any) -> Any:
        """The entropy in nats: the expectation of -logpdf (the differential entropy) or -logpmf.

        Args:
          *args, **kwargs: as for `median`.

        >>> import fungrad as fg
        >>> from fungrad.scipy.stats import norm
        >>> float(fg.grad(lambda scale: norm.entropy(0.0, scale))(2.0))
        0.5
        """
        return self._call(self._moment, "entropy", (), args, kwargs)

    def mean(self, *args: Any, **kwargs: Any) -> Any:
        """The expectation.

        Args:
          *args, **kwargs: as for `median`.

        >>> import fungrad as fg
        >>> from fungrad.scipy.stats import gamma
        >>> float(fg.grad(gamma.mean)(2.0, scale=3.0))
        3.0
        """
        return self._call(self._moment, "mean", (), args, kwargs)

    def var(self, *args: Any, **kwargs: Any) -> Any:
        """The variance: the expectation of (x - mean)^2.

        Args:
          *args, **kwargs: as for `median`.

        >>> import fungrad as fg
        >>> from fungrad.scipy.stats import gamma
        >>> float(fg.grad(gamma.var)(2.0, scale=3.0))
        9.0
        """
        return self._call(self._moment, "var", (), args, kwargs)

    def std(self, *args: Any, **kwargs: Any) -> Any:
        """The standard deviation: the square root of the variance.

        Args:
          *args, **kwargs: as for `median`.

        >>> import fungrad as fg
        >>> from fungrad.scipy.stats import norm
        >>> float(fg.grad(lambda scale: norm.std(0.0, scale))(2.0))
        1.0
        """
        return np.sqrt(self.var(*args, **kwargs))


def is_infinite(bound: Any) -> bool:
    """Whether a bound of a support is infinite for all parameters."""
    return type(bound) is float and not np.isfinite(bound)


def _beyond(y: Any, bound: Any, side: float, open: bool) -> Any:
    """Whether y lies beyond a bound, on its side (-1 or 1); infinite y always does."""
    if side < 0:
        beyond = y <= bound if open else y < bound
    else:
        beyond = y >= bound if open else y > bound
    finite = type(bound) is float and not is_infinite(bound)
    return beyond if finite else beyond | (y == side * np.inf)
