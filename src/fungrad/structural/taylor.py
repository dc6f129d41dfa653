"""Floor 5: Taylor mode. JetTrace carries, beside each primal, the Taylor coefficients of a curve through it.

There is one rule: a primitive's forward rule, y' = jvp(x, x'), read as a differential equation and solved in
Taylor arithmetic, one coefficient after the other (Griewank & Walther, Evaluating Derivatives, section 13.2,
where table 13.2 has its special cases). Coefficients are computed when they are asked for, so a rule may
speak of the very series that it defines. Only what the arithmetic itself is made of has its own rule: linear
primitives go coefficient by coefficient, products by Cauchy's rule, quotients by long division.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fungrad import trees
from fungrad.errors import ArgumentError, ShapeError, StructureMismatchError
from fungrad.ir.types import Type
from fungrad.primitives.declare import zeros
from fungrad.primitives.elementwise import div, fit, mul, plain, select
from fungrad.structural.call import call
from fungrad.structural.retrace import strong
from fungrad.tracing.evaluate import evaluate
from fungrad.tracing.source import boundary, describe
from fungrad.tracing.trace import EVAL, Trace, Tracer, current, enter, leave, shape_of, typeof
from fungrad.transforms.arguments import (
    argument_name,
    differentiable,
    has_type,
    leaf_type,
    matching,
    owned,
    refuse_leaf,
    results,
)
from fungrad.transforms.forward import pulled_back_twice


class Series:
    """Taylor coefficients x_0, x_1, ... (derivatives over factorials), made in order when asked for.

    None stands for zero. `step(k)` makes the k-th and may read the earlier ones.
    """

    __slots__ = ("known", "step")

    def __init__(self, known: list[Any], step: Callable[[int], Any]) -> None:
        self.known = known
        self.step = step

    def __getitem__(self, index: int) -> Any:
        while len(self.known) <= index:
            self.known.append(self.step(len(self.known)))
        return self.known[index]


def _is_zero(index: int) -> Any:
    return None


class JetTrace(Trace):
    """Observes a function along a curve. A tracer's `value` is its primal, its `extra` its Series.

    What the user's function calls is solved up to `order` at once. What rules call while that happens is
    solved as far as it is needed, and remembered in `solving` until then: that closes the circles (the
    rule of sin speaks of cos, whose rule speaks of sin).
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
            mine = arg.__class__ is Tracer and arg.owner is self
            values.append(arg.value if mine else arg)
            cut = cuts is True or (cuts and position in cuts)
            series.append(arg.extra if mine and not cut else None)
        parent: Trace = self.parent  # type: ignore[assignment]
        if all(s is None for s in series):
            return parent.process(primitive, values, params)
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
        """A value with all its coefficients; itself no tracer where they are all zero."""
        if not (value.__class__ is Tracer and value.owner is self):
            return value
        series: Series = value.extra
        series[self.order]  # noqa: B018 - computes them
        series.step = _is_zero
        return value.value if all(c is None for c in series.known[1:]) else value

    def _node(
        self, primitive: Any, args: Any, values: Any, series: Any, params: dict[str, Any]
    ) -> Any:
        """The output of a primitive, its series not computed yet."""
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
            step = _arithmetic(primitive, primal, values, series, params)
            if step is None:
                slope = self._slope(primitive, args, series, params)
                made = Tracer(self, primal, self._integral(primal, 0, slope))
            else:
                made = Tracer(self, primal, Series([primal], step))
        self.solving[key] = (made, args, params)  # args and params are held, so that their ids stay theirs
        return made

    def _slope(
        self, primitive: Any, args: Any, series: Any, params: dict[str, Any]
    ) -> Callable[[], Sequence[Any]]:
        """The derivatives y' of the outputs, by the forward rule in Taylor arithmetic; made once, late."""

        def make() -> Sequence[Any]:
            token = enter(self)
            try:
                tangents = [
                    None if s is None else self._derivative(s, arg.value)
                    for s, arg in zip(series, args, strict=True)
                ]
                rule = primitive.jvp if primitive.jvp is not None else pulled_back_twice(primitive)
                _, tangent = rule(args, tangents, **params)
            finally:
                leave(token)
            found: Sequence[Any] = tangent if primitive.multiple else (tangent,)
            return found

        return functools.cache(make)

    def _derivative(self, series: Series, primal: Any) -> Tracer:
        """x' for a series x."""

        def step(k: int) -> Any:
            term = series[k + 1]
            return None if term is None else term * (k + 1)

        first = series[1]
        return Tracer(self, zeros(strong(typeof(primal))) if first is None else first, Series([first], step))

    def _integral(self, primal: Any, position: int, slope: Callable[[], Sequence[Any]]) -> Series:
        """y for its slope y' and its value y_0."""

        def step(k: int) -> Any:
            found = slope()[position]
            if found.__class__ is Tracer and found.owner is self:
                term = found.extra[k - 1]
            else:
                term = found if k == 1 else None
            return None if term is None else term / k

        return Series([primal], step)


def _arithmetic(
    primitive: Any, primal: Any, values: Sequence[Any], series: Sequence[Any], params: dict[str, Any]
) -> Callable[[int], Any] | None:
    """How a coefficient of a linear primitive, a product or a quotient is made; None for the others."""
    active = [i for i, s in enumerate(series) if s is not None]
    type_ = strong(typeof(primal))
    terms: Callable[[int], Iterator[Any]]
    if primitive is mul or primitive.degree == "multilinear":
        terms = lambda k: _product(primitive, values, series, active, k, params)  # noqa: E731
    elif primitive is div:
        return _quotient(primal, values, series, type_)
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
                v if i in cuts else zeros(strong(typeof(v))) if t is None else t
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


def _along(
    f: Callable[..., Sequence[Any]],
    leaves: Sequence[Any],
    terms: Sequence[list[Any]],
    order: int,
    label: Callable[[], str],
) -> tuple[list[Any], list[list[Any]]]:
    """Runs a flat function along a curve; `terms` are derivatives of order 1, 2, ... (None is zero)."""
    trace = JetTrace(current(), label, order)
    args = []
    for leaf, derivatives in zip(leaves, terms, strict=True):
        scaled = [None if d is None else d / math.factorial(k) for k, d in enumerate(derivatives, 1)]
        constant = all(d is None for d in derivatives)
        args.append(leaf if constant else Tracer(trace, leaf, Series([leaf, *scaled], _is_zero)))
    values = []
    found = []
    for result in trace.run(f, *args):
        mine = result.__class__ is Tracer and result.owner is trace
        values.append(result.value if mine else result)
        known = result.extra.known[1:] if mine else [None] * order
        found.append(
            [None if c is None else c * math.factorial(k) for k, c in enumerate(known, 1)]
        )
    return values, found


@boundary
def jet(
    f: Callable[..., Any], primals: Sequence[Any], series: Sequence[Any]
) -> tuple[Any, Any]:
    """Evaluates f, and all derivatives up to some order of f along a curve, at once (Taylor mode).

    The curve is x(t) = primal + sum_k series[k-1] t^k / k!; the results are f(x(0)) and the derivatives of
    f(x(t)) at t = 0. The cost grows with the square of the order, where nested `jvp` doubles with each.

    Args:
      f: a pure function of trees that returns a tree.
      primals: its arguments, as a sequence.
      series: for each primal a sequence of its derivatives of order 1, 2, ..., each a tree like the
        primal; None for a constant argument. All of one length.

    Returns:
      (output, series): the second is a tree like the output, with a list of arrays in place of each leaf.

    Raises:
      ArgumentError, StructureMismatchError.

    >>> import numpy as np
    >>> value, (first, second, third) = jet(np.exp, (0.0,), ([1.0, 0.0, 0.0],))
    >>> float(first), float(second), float(third)
    (1.0, 1.0, 1.0)
    """
    if len(primals) != len(series):
        raise StructureMismatchError(f"{len(primals)} primals, but {len(series)} series were given.")
    orders = {len(terms) for terms in series if terms is not None}
    if len(orders) > 1:
        raise ArgumentError(f"All series have to be of one length, not of the lengths {sorted(orders)}.")
    order = orders.pop() if orders else 0
    leaves: list[Any] = []
    derivatives: list[list[Any]] = []
    treedefs = []
    for position, (primal, terms) in enumerate(zip(primals, series, strict=True)):
        part, treedef = trees.flatten(primal)
        what = f"series of {argument_name(f, position)}"
        given = [[None] * len(part) if t is None else trees.match(treedef, t, what) for t in terms or [None] * order]
        for i, leaf in enumerate(part):
            leaves.append(leaf)
            derivatives.append([matching(term[i], leaf_type(leaf), "series") for term in given])
        treedefs.append(treedef)
    out_defs: list[trees.TreeDef] = []

    def flat(*values: Any) -> list[Any]:
        rest = iter(values)
        args = [trees.unflatten(d, [next(rest) for _ in range(d.leaf_count)]) for d in treedefs]
        out_leaves, out_def = results(f(*args))
        out_defs.append(out_def)
        return out_leaves

    values, found = _along(flat, leaves, derivatives, order, lambda: f"jet of {describe(f)}")
    given_terms = [term for terms in derivatives for term in terms]
    full = [
        _arrays(value, terms, given_terms) for value, terms in zip(values, found, strict=True)
    ]
    return trees.unflatten(out_defs[0], values), trees.unflatten(out_defs[0], full)


def _arrays(value: Any, terms: Sequence[Any], foreign: Sequence[Any] = ()) -> list[Any]:
    """The derivatives of a value as arrays of its type."""
    if not has_type(value):
        return [None for _ in terms]
    type_ = strong(typeof(value))
    result = [zeros(type_) if term is None else fit(term, type_) for term in terms]
    return owned(result, foreign) if current() is EVAL else result


def nth_derivative(f: Callable[..., Any], n: int) -> Callable[..., Any]:
    """The n-th derivative of a function of one number, or of every element, in one run (Taylor mode).

    Args:
      f: a function whose first argument is a number, with output of any shape, or an array, with output of
        the same shape, each element of which depends on its own input element only.
      n: the order, at least 0.

    Returns:
      A function with f's arguments that returns the derivative in place of f's output.

    Raises:
      ArgumentError, ShapeError, NonDifferentiableInputError.

    >>> import numpy as np
    >>> float(nth_derivative(np.sin, 8)(0.5)) == np.sin(0.5)
    True
    >>> nth_derivative(lambda x: x**5, 4)(np.array([1.0, 2.0]))
    array([120., 240.])
    """
    if n.__class__ is not int or n < 0:
        raise ArgumentError(f"nth_derivative takes an order n of at least 0, not {n!r}.")
    if n == 0:
        return f

    @functools.wraps(f)
    def wrapper(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not differentiable(x):
            raise refuse_leaf(x, argument_name(f, 0), "nth_derivative")
        type_ = strong(typeof(x))
        direction = matching(type_.zeros() + 1, type_, "series")
        out_defs: list[trees.TreeDef] = []

        def flat(value: Any) -> list[Any]:
            leaves, out_def = results(f(value, *args, **kwargs))
            out_defs.append(out_def)
            return leaves

        values, found = _along(
            flat, [x], [[direction, *[None] * (n - 1)]], n, lambda: f"nth_derivative of {describe(f)}"
        )
        for value in values:
            if type_.shape and shape_of(value) != type_.shape:
                raise ShapeError(
                    f"nth_derivative of {describe(f)}: the output has shape {shape_of(value)}, the argument "
                    f"{type_.shape}, so f is not elementwise. Use jet along a direction."
                )
        last = [_arrays(value, terms)[-1] for value, terms in zip(values, found, strict=True)]
        return trees.unflatten(out_defs[0], last)

    return boundary(wrapper)


__all__ = ["JetTrace", "Series", "jet", "nth_derivative"]
