"""Forward mode. JvpTrace carries a tangent beside each primal; None is the zero tangent.

A general primitive without a jvp is pushed forward by the pullback of its pullback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.errors import MissingRuleError
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import plain
from fungrad.primitives.primitive import zeros
from fungrad.tracing.aliasing import private, received
from fungrad.tracing.captured_arrays import WriteGuards, guarded
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Trace, Tracer, current, enter, leave, refuse_kept, typeof
from fungrad.tracing.traced_again import traced
from fungrad.transforms.engine.accumulation import match
from fungrad.transforms.engine.reverse import linearized


class JvpTrace(Trace):
    """Observes a function under forward mode. A tracer's `value` is its primal, its `extra` its
    tangent.
    """

    __slots__ = ()

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        primals: list[Any] = []
        tangents: list[Any] = []
        cuts = primitive.cuts
        active = foreign = False
        for position, arg in enumerate(args):
            if type(arg) is Tracer and arg.owner is self:
                primals.append(arg.inner)
                if cuts is True or (cuts and position in cuts):
                    tangents.append(None)
                else:
                    tangents.append(arg.extra)
                    active = True
            else:
                foreign = foreign or type(arg) is Tracer
                primals.append(arg)
                tangents.append(None)
        parent: Trace = self.parent  # type: ignore[assignment]
        if not active:
            return parent.process(primitive, primals, params)
        if foreign:
            refuse_kept(self, args)
        token = enter(parent)
        try:
            output, tangent = self.rule(primitive)(primals, tangents, **params)
        finally:
            leave(token)
        if primitive.multiple:
            return tuple(
                [
                    o if t is None else Tracer(self, o, t)
                    for o, t in zip(output, tangent, strict=True)
                ]
            )
        return output if tangent is None else Tracer(self, output, tangent)

    def rule(self, primitive: Any) -> Callable[..., Any]:
        """The rule that pushes tangents through a primitive."""
        jvp: Callable[..., Any] | None = primitive.jvp
        return jvp if jvp is not None else pulled_back_twice(primitive)


def pulled_back_twice(primitive: Any) -> Callable[..., Any]:
    """A jvp rule derived from the vjp rule: the pullback is linear, and its own pullback is the
    pushforward.
    """
    if primitive.vjp is None:
        raise MissingRuleError(
            f"Forward mode met the primitive `{primitive.name}`{user_line()}, whose declaration "
            "has neither a jvp nor a vjp. Give one, or declare the derivative to be zero on "
            "purpose (`cuts=True`)."
        )

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        moved = [i for i, t in enumerate(tangents) if t is not None]
        wanted = [t is not None for t in tangents]
        if primitive.forward is not None:
            output, saved, kept = primitive.forward(primals, wanted, **params)
        else:
            output = saved = primitive(*primals, **params)
            kept = primals if primitive.keep is None else primitive.keep(primals)

        def pull(*cotangents: Any) -> list[Any]:
            given: Any = list(cotangents) if primitive.multiple else cotangents[0]
            pulled = primitive.vjp(given, saved, kept, wanted, **params)
            return [
                zeros(_strong(kept[i])) if pulled[i] is None else match(plain(pulled[i]), kept[i])
                for i in moved
            ]

        outputs = output if primitive.multiple else (output,)
        at_zero = [zeros(_strong(o)) for o in outputs]

        def push(keeper: WriteGuards) -> list[Any]:
            label = lambda: f"the jvp of `{primitive.name}`"  # noqa: E731
            _, pulled_back = linearized(pull, at_zero, label, keeper)
            return pulled_back([tangents[i] for i in moved])

        pushed = guarded(push)
        return (output, tuple(pushed)) if primitive.multiple else (output, pushed[0])

    return jvp


def _strong(value: Any) -> Type:
    type_ = value if isinstance(value, Type) else typeof(value)
    return Type(type_.shape, type_.dtype)


def _input(trace: JvpTrace, primal: Any, tangent: Any) -> Any:
    """What a function receives for an input."""
    if tangent is None:
        return private(primal)
    if type(primal) is float and type(tangent) is not Tracer:  # the usual case
        return Tracer(trace, primal, tangent)
    return received(Tracer(trace, private(primal), private(tangent)), primal)


def pushed_forward(
    f: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    label: Callable[[], str],
    kind: type[JvpTrace] = JvpTrace,
) -> tuple[list[Any], list[Any]]:
    """Runs a function of flat arguments with tangents (None is zero); returns flat outputs and
    their tangents.
    """

    def run() -> tuple[list[Any], list[Any]]:
        trace = kind(current(), label)
        args = [_input(trace, p, t) for p, t in zip(primals, tangents, strict=True)]
        outputs = []
        out_tangents = []
        try:
            results = trace.run(f, *args)
        finally:
            trace.ended = True
        for result in results:
            mine = type(result) is Tracer and result.owner is trace
            outputs.append(private(result.inner if mine else result))
            out_tangents.append(private(result.extra) if mine else None)
        return outputs, out_tangents

    return traced(run, label, f)
