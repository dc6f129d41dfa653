"""JAX rules of calls, custom rules, branches, loops, and their reverse mode.

The steps of a loop have fungrad's derivatives, and JAX makes the reverse mode of the loop from
them. A differentiated `while_loop` keeps the carries of `max_steps` steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from fungrad.control_flow import scan, switch, while_loop
from fungrad.control_flow.call import call
from fungrad.custom_rules.custom_vjp_jvp import custom
from fungrad.debugging import debug_callback
from fungrad.engines.jax.elementwise import STRUCTURAL, Options, cast, jax, jnp
from fungrad.engines.jax.graphs import differentiable, run
from fungrad.errors import ArgumentError
from fungrad.implicit import iteration
from fungrad.ir.graph import Equation, Graph
from fungrad.ir.types import Type
from fungrad.rematerialisation.checkpoint import checkpointed

Structural = Callable[[Equation, Sequence[Any], Options], Sequence[Any]]


def structural(primitive: Any) -> Callable[[Structural], Structural]:
    """Makes a function the rule of a primitive that runs Graphs."""

    def enter(function: Structural) -> Structural:
        STRUCTURAL[primitive] = function
        return function

    return enter


def _typed(values: Sequence[Any], types: Sequence[Type]) -> tuple[Any, ...]:
    return tuple(cast(x, t.dtype) for x, t in zip(values, types, strict=True))


@structural(call)
def _call(equation: Equation, args: Sequence[Any], options: Options) -> Sequence[Any]:
    return run(equation.params["graph"], args, options)


@structural(checkpointed)
def _checkpoint(equation: Equation, args: Sequence[Any], options: Options) -> Sequence[Any]:
    function = jax.checkpoint(differentiable(equation.params["graph"], options))
    outputs: Sequence[Any] = function(*args)
    return outputs


@structural(custom)
def _custom(equation: Equation, args: Sequence[Any], options: Options) -> Sequence[Any]:
    return run(equation.params["graph"], args, options)


@structural(debug_callback)
def _debug(equation: Equation, args: Sequence[Any], options: Options) -> Sequence[Any]:
    host = equation.params["host"]
    jax.debug.callback(lambda *values: host.run(tuple(map(np.asarray, values))), *args)
    return ()


# --- forward --------------------------------------------------------------------------------------


def _switch_of(params: Any, args: Sequence[Any], options: Options) -> Sequence[Any]:
    branches: Sequence[Graph] = params["branches"]
    types = branches[0].output_types
    index = jnp.clip(cast(args[0], np.dtype(np.int64)), 0, len(branches) - 1).astype(jnp.int32)

    def one(graph: Graph) -> Callable[..., Any]:
        return lambda *operands: _typed(differentiable(graph, options)(*operands), types)

    outputs: Sequence[Any] = lax.switch(
        index, [one(b) for b in branches], *[jnp.asarray(x) for x in args[1:]]
    )
    return outputs


def _scan_of(params: Any, args: Sequence[Any], options: Options) -> Sequence[Any]:
    body: Graph = params["body"]
    fixed, carried = params["counts"]
    constants, carry, xs = args[:fixed], args[fixed : fixed + carried], args[fixed + carried :]
    types = body.output_types
    function = differentiable(body, options)

    def step(state: Any, x: Any) -> Any:
        found = _typed(function(*constants, *state, *(x or ())), types)
        return found[:carried], found[carried:]

    if params["checkpoint"] is not None:
        step = jax.checkpoint(step)
    last, ys = lax.scan(
        step, _typed(carry, types[:carried]), tuple(jnp.asarray(x) for x in xs),
        length=params["length"], reverse=params["reverse"],
        unroll=max(1, int(params["unroll"] or 1)),
    )  # fmt: skip
    return (*last, *ys)


class _While:
    """A while loop's constants and carry, and its condition and step as functions of a carry."""

    def __init__(self, params: Any, args: Sequence[Any], options: Options) -> None:
        asked, fixed = params["counts"]
        condition: Graph = params["cond"]
        body: Graph = params["body"]
        self.constants = args[asked : asked + fixed]
        self.types = body.output_types
        self.carry = _typed(args[asked + fixed :], self.types)
        self._asked = args[:asked]
        self._condition = condition
        self._options = options
        self._step = differentiable(body, options)

    def goes_on(self, carry: Sequence[Any]) -> Any:
        """The condition, for a carry."""
        return run(self._condition, [*self._asked, *carry], self._options)[0].reshape(())

    def step(self, carry: Sequence[Any], constants: Sequence[Any] | None = None) -> Any:
        """The next carry."""
        held = self.constants if constants is None else constants
        return _typed(self._step(*held, *carry), self.types)


def _while_of(params: Any, args: Sequence[Any], options: Options) -> Sequence[Any]:
    one = _While(params, args, options)
    outputs: Sequence[Any] = lax.while_loop(one.goes_on, one.step, one.carry)
    return outputs


@structural(iteration)
def _fixed_point(equation: Equation, args: Sequence[Any], options: Options) -> Sequence[Any]:
    """The fixed point; NaN where the steps do not converge."""
    params = equation.params
    graph, count = params["graph"], params["constants"]
    types = graph.output_types
    tol, most = params["tol"], params["maxiter"]

    def step(state: Any) -> Any:
        i, x, _ = state
        y = _typed(run(graph, [*args[:count], *x], options), types)
        close = [
            jnp.all(jnp.abs(q - p) <= tol * (1 + jnp.abs(p))) for p, q in zip(x, y, strict=True)
        ]
        return i + 1, y, functools.reduce(jnp.logical_and, close)

    start = (0, _typed(args[count:], types), False)
    _, point, done = lax.while_loop(lambda s: ~s[2] & (s[0] < most), step, start)
    return tuple(jnp.where(done, x, jnp.nan) for x in point)


# --- reverse --------------------------------------------------------------------------------------

FORWARD: dict[str, Callable[[Any, Sequence[Any], Options], Sequence[Any]]] = {
    "switch": _switch_of,
    "scan": _scan_of,
    "while_loop": _while_of,
}


def _pulled(name: str) -> Structural:
    """The pullback of a loop or branch, by JAX from its forward rule."""

    def pull(equation: Equation, values: Sequence[Any], options: Options) -> Sequence[Any]:
        params = dict(equation.params)
        wanted, taped = params.pop("wanted"), params.pop("taped")
        args, cotangents = list(values[: len(wanted)]), values[len(wanted) + taped :]
        if name == "while_loop":
            return _while_pullback(params, args, cotangents, wanted, options)
        chosen = [i for i, want in enumerate(wanted) if want]

        def function(*moving: Any) -> Any:
            given = list(args)
            for i, x in zip(chosen, moving, strict=True):
                given[i] = x
            outputs = FORWARD[name](params, given, options)
            return [x for x in outputs if jnp.issubdtype(x.dtype, jnp.inexact)]

        primals, pullback = jax.vjp(function, *[jnp.asarray(args[i]) for i in chosen])
        pulled: Sequence[Any] = pullback(
            [cast(c, x.dtype) for c, x in zip(cotangents, primals, strict=True)]
        )
        return pulled

    return pull


def _recorded(name: str) -> Structural:
    """The results of a loop, and a number for its tape: the pullback runs the loop again."""

    def record(equation: Equation, args: Sequence[Any], options: Options) -> Sequence[Any]:
        params = {k: v for k, v in equation.params.items() if k != "wanted"}
        return (*FORWARD[name](params, args, options), jnp.zeros((), jnp.int8))

    return record


def _while_pullback(
    params: Any, args: Sequence[Any], cotangents: Sequence[Any], wanted: Any, options: Options
) -> Sequence[Any]:
    """Runs the loop with a buffer of carries, then back; NaN if the buffer is too short."""
    most = options.max_steps
    if most is None:
        raise ArgumentError(
            "fg.to_jax needs max_steps= to differentiate a while_loop in reverse: XLA has to know "
            "the number of carries to keep. Pass the most steps that the loop can take."
        )
    one = _While(params, args, options)
    kept = tuple(jnp.zeros((most, *t.shape), t.dtype) for t in one.types)

    def forward(state: Any) -> Any:
        i, carry, buffers = state
        written = [b.at[i].set(x, mode="drop") for b, x in zip(buffers, carry, strict=True)]
        return i + 1, one.step(carry), tuple(written)

    zero = jnp.zeros((), jnp.int32)
    count, _, buffers = lax.while_loop(
        lambda s: one.goes_on(s[1]), forward, (zero, one.carry, kept)
    )
    moving = [i for i, t in enumerate(one.types) if t.inexact]
    constants = [jnp.asarray(x) for x in one.constants]
    fixed = [i for i, x in enumerate(constants) if jnp.issubdtype(x.dtype, jnp.inexact)]

    def back(state: Any) -> Any:
        i, flowing, total = state
        carry = [b[i] for b in buffers]

        def step(*values: Any) -> Any:
            given, now = list(constants), list(carry)
            for i, x in zip(fixed, values, strict=False):
                given[i] = x
            for i, x in zip(moving, values[len(fixed) :], strict=True):
                now[i] = x
            totals = one.step(now, given)
            return [totals[i] for i in moving]

        primals = [*[constants[p] for p in fixed], *[carry[p] for p in moving]]
        totals = jax.vjp(step, *primals)[1](list(flowing))
        added = [t + x for t, x in zip(total, totals, strict=False)]
        return i - 1, tuple(totals[len(fixed) :]), tuple(added)

    flowing = tuple(cast(c, one.types[p].dtype) for c, p in zip(cotangents, moving, strict=True))
    total = tuple(jnp.zeros_like(constants[p]) for p in fixed)
    _, flowing, total = lax.while_loop(lambda s: s[0] >= 0, back, (count - 1, flowing, total))
    poison = jnp.where(count > most, jnp.nan, 0.0)
    asked, constant_count = params["counts"]
    totals = {asked + p: x for p, x in zip(fixed, total, strict=True)}
    totals |= {asked + constant_count + p: x for p, x in zip(moving, flowing, strict=True)}
    arguments = [jnp.asarray(x) for x in args]
    return [
        (totals[i] + poison).astype(arguments[i].dtype)
        if i in totals
        else jnp.zeros_like(arguments[i])
        for i, want in enumerate(wanted)
        if want
    ]


def _direct(name: str) -> Structural:
    return lambda equation, args, options: FORWARD[name](equation.params, args, options)


for _module, _name in ((switch, "switch"), (scan, "scan"), (while_loop, "while_loop")):
    STRUCTURAL[getattr(_module, _name)] = _direct(_name)
    STRUCTURAL[getattr(_module, f"{_name}_record")] = _recorded(_name)
    STRUCTURAL[getattr(_module, f"{_name}_pullback")] = _pulled(_name)
