"""custom_vjp and custom_jvp: functions whose derivatives are written by hand.

The interface is JAX's. In eager mode the user's functions get concrete arrays; under other
transforms, traced ones. The primitive `custom` holds the rule of one call, and inside a Graph also
the Graph of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from fungrad.control_flow.call import run
from fungrad.custom_rules.closures_and_arguments import Arguments, Signature, recording, valueless
from fungrad.custom_rules.rule_call import BatchedRule, CustomRule
from fungrad.errors import ArgumentError, MissingRuleError, StructureMismatchError
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.primitives.primitive import Primitive, zeros
from fungrad.retracing.graph_transforms import batch, strong_type
from fungrad.support import pytree
from fungrad.support.forks import cached_property
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.trace import EVAL, Trace, Tracer, current, typeof
from fungrad.tracing.transformed_function import OfFunction, boundary
from fungrad.transforms.arguments import parameter_names
from fungrad.transforms.engine.forward import pulled_back_twice
from fungrad.transforms.engine.reverse import linearized

_transposed: ContextVar[tuple[tuple[Any, Trace], ...]] = ContextVar(
    "fungrad_transposed", default=()
)
"""The functions whose forward rules are being transposed, each with the trace of its tangents."""


def apply(rule: CustomRule, inputs: Sequence[Any]) -> Any:
    """The output tree of a function with rules, under the current trace."""
    for functions, trace in _transposed.get():
        if functions is rule.functions and any(_is_above(x, trace) for x in inputs):
            # A rule that applies the function to its tangent declares the function linear: its own
            # operations are transposed, since the rule would call itself forever.
            leaves = rule.run(*inputs)
            assert rule.out is not None
            return pytree.unflatten(rule.out, list(leaves))
    graph: Graph | None = None
    if recording() or (rule.functions.closes and valueless()):
        graph, rule.closure = rule.captured(inputs)
        if not recording():
            graph = None
    leaves = custom(*rule.closure, *inputs, rule=rule, graph=graph)
    assert rule.out is not None
    return pytree.unflatten(rule.out, leaves)


def _is_above(value: Any, trace: Trace) -> bool:
    """Whether a value was computed from the tracers of a trace."""
    while type(value) is Tracer:
        if value.owner is trace:
            return True
        value = value.inner
    return False


def _eval(*args: Any, rule: CustomRule, graph: Graph | None) -> tuple[Any, ...]:
    if graph is not None:
        return tuple(run(graph, args))
    return tuple(EVAL.run(rule.run, *args))


def _type(*types: Type, rule: CustomRule, graph: Graph | None) -> tuple[Type, ...]:
    if graph is None:
        names = [f"input {i}" for i in range(len(types))]
        graph = stage(rule.run, types, names, lambda: describe(rule.f))
    return tuple(graph.output_types)


def _forward(
    args: Sequence[Any], wanted: Sequence[Any], *, rule: CustomRule, graph: Graph | None
) -> Any:
    rule.check_wanted(wanted)
    kept = [typeof(arg) for arg in args]
    if not rule.reverse:
        return (*_linearized(rule, args, wanted), kept)
    outputs, saved, meta = rule.forward(args, [bool(w) for w in wanted])
    types = [strong_type(typeof(o)) for o in outputs]
    if graph is not None and types != [strong_type(t) for t in graph.output_types]:
        raise StructureMismatchError(
            f"The forward rule of {describe(rule.f)} returned another output than the "
            f"function{user_line()}.\n  function: {graph.output_types}\n  rule:     {types}"
        )
    return tuple(outputs), (saved, meta), kept


def _linearized(rule: CustomRule, args: Sequence[Any], wanted: Sequence[Any]) -> tuple[Any, Any]:
    """The outputs, and the pullback of the forward rule, which is linear in the tangents.

    The outputs leave the trace with the tangents, since an operation that computes both at once, as
    a jitted function does under jvp, returns tracers for both.
    """
    moved = [i for i, w in enumerate(wanted) if w]
    made: list[int] = []

    def push(*given: Any) -> list[Any]:
        tangents: list[Any] = [None] * len(args)
        for i, tangent in zip(moved, given, strict=True):
            tangents[i] = tangent
        entry = (rule.functions, given[0].owner) if given else None
        token = _transposed.set((*_transposed.get(), entry) if entry else _transposed.get())
        try:
            result, pushed = rule.push(args, tangents)
        finally:
            _transposed.reset(token)
        made.append(len(result))
        return [*result, *pushed]

    at_zero = [zeros(strong_type(typeof(args[i]))) for i in moved]
    values, pullback = linearized(
        push, at_zero, lambda: f"the transpose of the rule of {describe(rule.f)}"
    )
    unseeded = [None] * made[0]
    return tuple(values[: made[0]]), lambda cotangents: pullback([*unseeded, *cotangents])


def _vjp(
    cotangents: Sequence[Any], saved: Any, args: Sequence[Type], wanted: Sequence[Any],
    *, rule: CustomRule, graph: Graph | None,
) -> list[Any]:  # fmt: skip
    if rule.reverse:
        leaves, meta = saved
        return rule.backward(leaves, meta, cotangents, [bool(w) for w in wanted])
    moved = iter(saved(cotangents))
    return [next(moved) if w else None for w in wanted]


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, rule: CustomRule, graph: Graph | None
) -> Any:
    if not rule.tangents:
        return pulled_back_twice(custom)(primals, tangents, rule=rule, graph=graph)
    rule.check_wanted([t is not None for t in tangents])
    return rule.push(primals, tangents)


def _batch(
    args: Sequence[Any],
    batched: Sequence[bool],
    size: int,
    *,
    rule: CustomRule,
    graph: Graph | None,
) -> Any:
    if graph is not None:
        graph = batch(graph, batched, size, all_outputs=True).graph
    return custom(*args, rule=BatchedRule(rule, batched, size), graph=graph)


custom: Primitive = Primitive(
    "custom",
    eval=_eval,
    type=_type,
    jvp=_jvp,
    vjp=_vjp,
    forward=_forward,
    batch=_batch,
    multiple=True,
)
"""`custom(*closure, *inputs, rule=, graph=)`: a function with custom rules; `graph` is its Graph if
it is part of another one."""


class Custom(OfFunction):
    """A function with custom rules: see `custom_vjp` and `custom_jvp`."""

    def __init__(self, f: Callable[..., Any], nondiff_argnums: Sequence[int]) -> None:
        super().__init__(f)
        self.f = f
        self.nondiff_argnums = tuple(nondiff_argnums)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.tell_wanted = False
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False
        self.closes = True
        """Whether f or its rules may close over traced values."""
        self.held: Sequence[Tracer] | None = None
        """Traced values that the rules close over, beside those of f; all are constants to the
        rules. If None, differentiation with respect to closed-over values raises an error."""

    @cached_property
    def _signature(self) -> Signature:
        return Signature(self.f)

    def defvjp(
        self, fwd: Callable[..., Any], bwd: Callable[..., Any], *, wanted: bool = False
    ) -> None:
        """Gives the reverse rule.

        Args:
          fwd: takes the function's arguments; returns the pair (output, residuals), where the
            residuals are any tree.
          bwd: takes the arguments at nondiff_argnums, the residuals and the cotangent of the
            output; returns a tuple with one cotangent for each other argument. None is zero.
          wanted: whether fwd and bwd get a keyword `wanted`, which names the cotangents that are
            needed: a tuple with one tree of booleans for each argument not in nondiff_argnums.
        """
        self.fwd, self.bwd, self.tell_wanted = fwd, bwd, wanted

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Gives the forward rule, from which reverse mode is derived by transposition.

        Args:
          jvp: takes the arguments at nondiff_argnums, a tuple of primals and a tuple of tangents;
            returns the pair (output, tangent). It has to be linear in the tangents. The tangents of
            integers and of values that are no arrays are None.
          symbolic_zeros: whether zero tangents are passed as None, too, not as arrays.
        """
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Gives the rule by one `jvp(tangent, output, *args)` or None for each argument."""

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            output = self(*primals)
            total: Any = None
            for part, tangent in zip(jvps, tangents, strict=True):
                if part is not None and tangent is not None:
                    term = part(tangent, output, *primals)
                    total = term if total is None else pytree.map(lambda x, y: x + y, total, term)
            return output, total

        if self.nondiff_argnums:
            raise ArgumentError("defjvps has no place for nondiff_argnums; use defjvp.")
        self.defjvp(rule, symbolic_zeros=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.bwd is None and self.jvp is None:
            raise MissingRuleError(
                f"{describe(self.f)} was made a custom function, but no rule was given: call its "
                "defvjp(fwd, bwd) or defjvp(rule)."
            )
        if current() is EVAL:
            return self.f(*args, **kwargs)
        positional, named = self._signature.bind(args, kwargs)
        arguments = Arguments(self.f, positional, named, self.nondiff_argnums)
        return apply(CustomRule(self, arguments), arguments.take())

    def _recipe(self) -> tuple[Any, ...]:
        rules = (self.fwd, self.bwd, self.tell_wanted, self.jvp, self.symbolic_zeros)
        return self.f, self.nondiff_argnums, rules

    def _remake(self, *recipe: Any) -> None:
        f, nondiff_argnums, rules = recipe
        self.__init__(f, nondiff_argnums)  # type: ignore[misc]
        self.fwd, self.bwd, self.tell_wanted, self.jvp, self.symbolic_zeros = rules


Custom.__call__ = boundary(Custom.__call__)  # type: ignore[method-assign]


def custom_vjp(
    f: Callable[..., Any] | None = None,
    *,
    nondiff_argnums: Sequence[int] | int = (),
    nondiff_argnames: Sequence[str] | str = (),
) -> Any:
    """A function whose reverse-mode derivative is given by `f.defvjp(fwd, bwd)`.

    >>> import numpy as np, fungrad as fg
    >>> @fg.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1.0, 1.0),))
    >>> float(fg.grad(lambda x: 5.0 * clip_gradient(x))(2.0))
    1.0

    Args:
      f: a function of trees that returns a tree of arrays and numbers. Outside of transforms it is
        called directly. Under `grad` fwd and bwd get NumPy's arrays, so they may be any Python.
      nondiff_argnums: positions of arguments without a derivative, which bwd gets first.
      nondiff_argnames: the same by name.

    Returns:
      A `Custom`. Forward mode uses the pullback of the pullback, so bwd has to be linear in the
      cotangent there; or give `defjvp`, too.

    Raises:
      MissingRuleError: when it is called before a rule was given.
      StructureMismatchError: if bwd returns other types than those of the arguments.
      ClosedOverTracerError: if f or its rule closes over a differentiated value.
    """
    return _custom(f, nondiff_argnums, nondiff_argnames)


def custom_jvp(
    f: Callable[..., Any] | None = None,
    *,
    nondiff_argnums: Sequence[int] | int = (),
    nondiff_argnames: Sequence[str] | str = (),
) -> Any:
    """A function whose derivative is given by a forward rule, `f.defjvp(rule)`, or by `f.defjvps`.

    >>> import numpy as np, fungrad as fg
    >>> @fg.custom_jvp
    ... def log1pexp(x):
    ...     return np.log1p(np.exp(x))
    >>> log1pexp.defjvps(lambda t, y, x: t * (1 - 1 / (1 + np.exp(x))))
    >>> with np.errstate(over="ignore"):
    ...     float(fg.grad(log1pexp)(1000.0))
    1.0

    Args:
      f: a function of trees that returns a tree of arrays and numbers.
      nondiff_argnums: positions of arguments without a derivative, which the rule gets first.
      nondiff_argnames: the same by name.

    Returns:
      A `Custom`. Reverse mode transposes the rule, which has to be linear in the tangents.

    Raises:
      MissingRuleError: when it is called before a rule was given.
      StructureMismatchError: if the rule returns a tangent of another type than the output.
      ClosedOverTracerError: if f or its rule closes over a differentiated value.
    """
    return _custom(f, nondiff_argnums, nondiff_argnames)


def _custom(f: Any, nondiff_argnums: Any, nondiff_argnames: Any) -> Any:
    numbers = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
    names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else tuple(nondiff_argnames)
    if f is None:
        return lambda g: _custom(g, numbers, names)
    known = parameter_names(f) if names else []
    for name in names:
        if name not in known:
            raise ArgumentError(
                f"nondiff_argnames={name!r} is no positional parameter of {describe(f)}, which "
                f"has {', '.join(known)}."
            )
    return Custom(f, tuple(sorted({*numbers, *map(known.index, names)})) if names else numbers)
