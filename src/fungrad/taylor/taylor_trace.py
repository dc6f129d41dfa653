"""Taylor mode: JetTrace carries the Taylor coefficients of a curve beside each primal.

A primitive's forward rule, y' = jvp(x, x'), is a differential equation, solved in Taylor arithmetic
coefficient by coefficient (Griewank & Walther, Evaluating Derivatives, section 13.2; table 13.2 has
special cases). Coefficients are computed on demand, so that a rule may refer to the series that it
defines. Only linear primitives, products, quotients, and tanh along a line (whose coefficients are
polynomials in the value) have special rules.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fungrad.control_flow.call import call
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import div, fit, mul, plain, select
from fungrad.primitives.elementwise.ufuncs import tanh
from fungrad.primitives.primitive import or_zero
from fungrad.retracing.graph_transforms import strong_type
from fungrad.tracing.aliasing import received
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.trace import Trace, Tracer, current, enter, leave, refuse_kept, typeof
from fungrad.tracing.traced_again import traced
from fungrad.transforms.engine.forward import pulled_back_twice

_LINE = 8
"""The highest order of these polynomials: beyond it their terms cancel more than one digit."""


class Series:
    """Taylor coefficients x_0, x_1, ... (derivatives over factorials), computed on demand.

    None is zero. `step(k)` computes the k-th and may read earlier ones.
    """

    __slots__ = ("known", "step")

    def __init__(self, known: list[Any], step: Callable[[int], Any]) -> None:
        self.known = known
        self.step = step

    def __getitem__(self, index: int) -> Any:
        while len(self.known) <= index:
            self.known.append(self.step(len(self.known)))
        return self.known[index]

    def straight(self, order: int) -> bool:
        """Whether it is known to be x_0 + x_1 t up to an order."""
        return self.step is _is_zero and all(term is None for term in self.known[2 : order + 1])


def _is_zero(index: int) -> Any:
    return None


class JetTrace(Trace):
    """Observes a function along a curve. A tracer's `value` is its primal, its `extra` its Series.

    Primitives that the user's function calls are solved up to `order` at once. Those that rules
    call meanwhile are solved as far as needed, and found again in `solving`, which resolves cycles
    (the rule of sin calls cos, whose rule calls sin).
    """

    __slots__ = ("order", "solving")

    def __init__(self, parent: Trace, label: Callable[[], str], order: int) -> None:
        super().__init__(parent, label)
        self.order = order
        self.solving: dict[Any, Any] | None = None

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        values: list[Any] = []
        series: list[Series | None] = []
        cuts = primitive.cuts
        for position, arg in enumerate(args):
            mine = type(arg) is Tracer and arg.owner is self
            values.append(arg.inner if mine else arg)
            cut = cuts is True or (cuts and position in cuts)
            series.append(arg.extra if mine and not cut else None)
        parent: Trace = self.parent  # type: ignore[assignment]
        if all(s is None for s in series):
            return parent.process(primitive, values, params)
        refuse_kept(self, args)
        if primitive is call:
            return tuple(evaluate(params["graph"], args))
        if self.solving is not None:
            return self._node(primitive, args, values, series, params)
        self.solving = {}
        token = enter(parent)
        try:
            made = self._node(primitive, args, values, series, params)
            return tuple(map(self._solved, made)) if primitive.multiple else self._solved(made)
        finally:
            leave(token)
            self.solving = None

    def _solved(self, value: Any) -> Any:
        """A value with all its coefficients; its primal if they are all zero."""
        if not (type(value) is Tracer and value.owner is self):
            return value
        series: Series = value.extra
        series[self.order]
        series.step = _is_zero
        return value.inner if all(c is None for c in series.known[1:]) else value

    def _node(
        self, primitive: Any, args: Any, values: Any, series: Any, params: dict[str, Any]
    ) -> Any:
        """The output of a primitive, whose series is not computed yet."""
        assert self.solving is not None
        names = tuple([(name, id(value)) for name, value in params.items()])
        key = (primitive, tuple(map(id, args)), names)
        if key in self.solving:
            return self.solving[key][0]
        parent: Trace = self.parent  # type: ignore[assignment]
        primal = parent.process(primitive, values, params)
        made: Any
        if primitive.multiple:
            slope = self._slope(primitive, args, series, params)
            made = tuple(
                [
                    Tracer(self, p, self._integral(p, i, slope)) if typeof(p).inexact else p
                    for i, p in enumerate(primal)
                ]
            )
        else:
            step = _arithmetic(primitive, primal, values, series, params, self.order)
            if step is None:
                slope = self._slope(primitive, args, series, params)
                made = Tracer(self, primal, self._integral(primal, 0, slope))
            else:
                made = Tracer(self, primal, Series([primal], step))
        self.solving[key] = (
            made,
            args,
            params,
        )  # args and params are kept, so that no other objects get their ids
        return made

    def _slope(
        self, primitive: Any, args: Any, series: Any, params: dict[str, Any]
    ) -> Callable[[], Sequence[Any]]:
        """A function that computes the derivatives y' of the outputs once, by the forward rule in
        Taylor arithmetic.
        """

        def make() -> Sequence[Any]:
            token = enter(self)
            try:
                tangents = [
                    None if s is None else self._derivative(s, arg.inner)
                    for s, arg in zip(series, args, strict=True)
                ]
                rule = primitive.jvp if primitive.jvp is not None else pulled_back_twice(primitive)
                _, tangent = rule(args, tangents, **params)
            finally:
                leave(token)
            outputs: Sequence[Any] = tangent if primitive.multiple else (tangent,)
            return outputs

        return functools.cache(make)

    def _derivative(self, series: Series, primal: Any) -> Tracer:
        """x' for a series x."""

        def step(k: int) -> Any:
            term = series[k + 1]
            return None if term is None else term * (k + 1)

        first = series[1]
        return Tracer(self, or_zero(first, primal), Series([first], step))

    def _integral(self, primal: Any, position: int, slope: Callable[[], Sequence[Any]]) -> Series:
        """The series of y, from y' and its value y_0."""

        def step(k: int) -> Any:
            slope_at = slope()[position]
            if type(slope_at) is Tracer and slope_at.owner is self:
                term = slope_at.extra[k - 1]
            else:
                term = slope_at if k == 1 else None
            return None if term is None else term * (1.0 / k)

        return Series([primal], step)


def _arithmetic(
    primitive: Any,
    primal: Any,
    values: Sequence[Any],
    series: Sequence[Any],
    params: dict[str, Any],
    order: int,
) -> Callable[[int], Any] | None:
    """The function that computes a coefficient of a linear primitive, a product, a quotient, or the
    hyperbolic tangent of a line; None for other primitives.
    """
    active = [i for i, s in enumerate(series) if s is not None]
    type_ = strong_type(typeof(primal))
    terms: Callable[[int], Iterator[Any]]
    if primitive is mul and series[0] is series[1]:
        terms = lambda k: _square(series[0], k)  # noqa: E731
    elif primitive.degree == "multilinear":
        terms = lambda k: _product(primitive, values, series, active, k, params)  # noqa: E731
    elif primitive is div:
        return _quotient(primal, values, series, type_)
    elif primitive is tanh and order <= _LINE and series[0].straight(order):
        return _tanh_along_a_line(primal, series[0][1])
    elif primitive is select:
        terms = lambda k: _selected(values[0], series, k)  # noqa: E731
    elif primitive.degree == "linear" and primitive.partials is not None:
        terms = lambda k: _scaled(primitive, primal, values, series, active, k)  # noqa: E731
    elif primitive.degree == "linear":
        terms = lambda k: _linear(primitive, values, series, k, params)  # noqa: E731
    else:
        return None

    def step(k: int) -> Any:
        total = _total(terms(k))
        return None if total is None else fit(total, type_)

    return step


def _total(terms: Iterator[Any]) -> Any:
    total: Any = None
    for term in terms:
        total = term if total is None else total + term
    return total


def _scaled(
    primitive: Any, primal: Any, values: Any, series: Any, active: Sequence[int], k: int
) -> Iterator[Any]:
    for i in active:
        term = series[i][k]
        if term is not None:
            yield plain(primitive.partials[i](term, primal, values))


def _linear(
    primitive: Any, values: Any, series: Any, k: int, params: dict[str, Any]
) -> Iterator[Any]:
    terms = [None if s is None else s[k] for s in series]
    if any(t is not None for t in terms):
        cuts = primitive.cuts or ()
        yield primitive(
            *[
                v if i in cuts else or_zero(t, v)
                for i, (v, t) in enumerate(zip(values, terms, strict=True))
            ],
            **params,
        )


def _selected(condition: Any, series: Any, k: int) -> Iterator[Any]:
    x, y = [None if s is None else s[k] for s in series[1:]]
    if x is not None or y is not None:
        yield select(condition, 0 if x is None else x, 0 if y is None else y)


def _product(
    primitive: Any, values: Any, series: Any, active: Sequence[int], k: int, params: dict[str, Any]
) -> Iterator[Any]:
    """Cauchy's product: the sum over all ways to share k among the active factors."""
    for shares in _shares(k, len(active)):
        factors = list(values)
        for i, share in zip(active, shares, strict=True):
            factors[i] = values[i] if share == 0 else series[i][share]
        if all(factor is not None for factor in factors):
            yield primitive(*factors, **params)


def _square(series: Any, k: int) -> Iterator[Any]:
    """Cauchy's product of a series with itself: its terms are equal in pairs."""
    pairs = [(series[j], series[k - j]) for j in range((k + 1) // 2)]
    half = _total(x * y for x, y in pairs if x is not None and y is not None)
    if half is not None:
        yield half * 2
    if k % 2 == 0 and series[k // 2] is not None:
        yield series[k // 2] * series[k // 2]


def _shares(total: int, count: int) -> Iterator[tuple[int, ...]]:
    if count == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _shares(total - first, count - 1):
            yield (first, *rest)


def _quotient(
    primal: Any, values: Sequence[Any], series: Sequence[Any], type_: Type
) -> Callable[[int], Any]:
    """Long division: z y = x, solved for the k-th coefficient of z."""
    x, y = series
    earlier: list[Any] = [primal]

    def step(k: int) -> Any:
        rest = None if x is None else x[k]
        if y is not None:
            for j in range(1, k + 1):
                if y[j] is not None and earlier[k - j] is not None:
                    term = y[j] * earlier[k - j]
                    rest = -term if rest is None else rest - term
        earlier.append(None if rest is None else fit(rest / values[1], type_))
        return earlier[k]

    return step


def _tanh_along_a_line(y: Any, direction: Any) -> Callable[[int], Any]:
    """The coefficients of tanh(x_0 + x_1 t): x_1^k / k! times the k-th derivative.

    In w = 1 - y^2, by Horner's scheme: there the terms do not cancel where w is small.
    """
    type_ = strong_type(typeof(y))

    @functools.cache
    def power(k: int) -> Any:
        return direction if k == 1 else power(k // 2) * power(k - k // 2)

    def step(k: int) -> Any:
        lowest, *others = [c / math.factorial(k) for c in _derivative_of_tanh(k)]
        w = 1.0 - y * y
        total: Any = 0.0
        for coefficient in reversed(others):
            total = (total + coefficient) * w
        total = (total + lowest) * w
        return fit((total * y if k % 2 == 0 else total) * power(k), type_)

    return step


@functools.cache
def _derivative_of_tanh(k: int) -> tuple[int, ...]:
    """The k-th derivative of y = tanh x: the coefficients of w, w^2, ..., times y for even k.

    From y' = w and w' = -2 y w: that of w^m is -2 m y w^m, and that of y w^m is
    (2 m + 1) w^(m + 1) - 2 m w^m.
    """
    if k == 1:
        return (1,)
    before = _derivative_of_tanh(k - 1)
    falling = [-2 * m * c for m, c in enumerate(before, 1)]
    if k % 2 == 0:
        return tuple(falling)
    rising = [(2 * m + 1) * c for m, c in enumerate(before, 1)]
    return tuple(a + b for a, b in zip([*falling, 0], [0, *rising], strict=True))


def along(
    f: Callable[..., Sequence[Any]],
    leaves: Sequence[Any],
    terms: Sequence[list[Any]],
    order: int,
    label: Callable[[], str],
) -> tuple[list[Any], list[list[Any]]]:
    """Runs a flat function along a curve; `terms` are derivatives of order 1, 2, ... (None is
    zero).
    """
    return traced(lambda: _along(f, leaves, terms, order, label), label, f)


def _along(
    f: Callable[..., Sequence[Any]],
    leaves: Sequence[Any],
    terms: Sequence[list[Any]],
    order: int,
    label: Callable[[], str],
) -> tuple[list[Any], list[list[Any]]]:
    trace = JetTrace(current(), label, order)
    args = []
    for leaf, derivatives in zip(leaves, terms, strict=True):
        scaled = [
            None if d is None else d / math.factorial(k) for k, d in enumerate(derivatives, 1)
        ]
        constant = all(d is None for d in derivatives)
        tracer = Tracer(trace, leaf, Series([leaf, *scaled], _is_zero))
        args.append(leaf if constant else received(tracer, leaf))
    values = []
    series = []
    for result in trace.run(f, *args):
        mine = type(result) is Tracer and result.owner is trace
        values.append(result.inner if mine else result)
        known = result.extra.known[1:] if mine else [None] * order
        series.append(
            [None if c is None else c * math.factorial(k) for k, c in enumerate(known, 1)]
        )
    return values, series
