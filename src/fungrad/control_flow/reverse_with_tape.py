"""Reverse mode of loops and branches, whose residuals are no arrays.

For such a primitive W, `W_record` computes W and a tape, an opaque value that holds the residuals
of the steps taken. `W_pullback` takes W's arguments, the tape (if `taped`) and cotangents; it
returns the cotangents of the wanted arguments. Without a tape it records one first.

The pullback is the function P(a, c) = J(a)^T c of the arguments and the cotangents; the tape does
not change it. So its own derivatives ignore the tape:
  jvp along (s, d):  the gradient in a of <c, J(a) s>, plus P(a, d)
  vjp of u:          J(a) u for c, and the gradient in a of <c, J(a) u> for a.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.control_flow.call import whole_loop_or_steps
from fungrad.control_flow.tape_type import TAPE, as_tape, residuals_of
from fungrad.ir.types import Type
from fungrad.primitives.primitive import Primitive, or_zero
from fungrad.retracing.graph_transforms import strong_type
from fungrad.support.lazy import Record
from fungrad.tracing.captured_arrays import NO_GUARDS
from fungrad.tracing.trace import typeof
from fungrad.transforms.engine.forward import pushed_forward
from fungrad.transforms.engine.reverse import linearized


class Rules(Record):
    """The functions from which the reverse mode of a structural primitive is derived.

    record: `(args, wanted, **params) -> (outputs, residuals)`, on arrays.
    replay: `(args, residuals, cotangents, wanted, **params) -> cotangents of the wanted args`, on
    arrays.
    batch_record: `(args, batched, size, wanted, **params) -> outputs with the tape last`.
    batch_replay: `(args, tape or None, cotangents, arg_batched, ct_batched, size, wanted,
      **params)`, the cotangents of the wanted args, batched.
    """

    record: Callable[..., Any]
    replay: Callable[..., Any]
    batch_record: Callable[..., Any]
    batch_replay: Callable[..., Any]


def parted(values: Sequence[Any], wanted: Any, taped: bool) -> tuple[Any, Any, Any]:
    """The arguments, the tape (or None) and the cotangents among the inputs of a pullback."""
    count = len(wanted)
    tape = values[count] if taped else None
    return values[:count], tape, values[count + taped :]


class Reverse:
    """The reverse mode of a structural primitive W: its `forward` and `vjp` rules.

    Declares the primitives `W_record` and `W_pullback`. `get` returns W when it is called: W's own
    declaration needs these rules.
    """

    def __init__(self, name: str, module: str, rules: Rules, get: Callable[[], Primitive]) -> None:
        self.name = name
        self.rules = rules
        self.get = get
        self.record = Primitive(
            f"{name}_record",
            eval=whole_loop_or_steps(lambda: self.record, self.record_eval),
            type=self.record_type,
            jvp=self.record_jvp,
            vjp=self.record_vjp,
            forward=self.record_forward,
            batch=self.record_batch,
            multiple=True,
            pure=False,  # a tape keeps its arguments
            module=module,
        )
        self.pullback = Primitive(
            f"{name}_pullback",
            eval=whole_loop_or_steps(lambda: self.pullback, self.pullback_eval),
            type=self.pullback_type,
            jvp=self.pullback_jvp,
            vjp=self.pullback_vjp,
            batch=self.pullback_batch,
            multiple=True,
            pure=False,  # a tape keeps its arguments
            module=module,
        )

    def apply(self, *args: Any, **params: Any) -> Any:
        """W itself."""
        return self.get()(*args, **params)

    # --- W_record ---------------------------------------------------------------------------------

    def record_eval(self, *args: Any, wanted: Any, **params: Any) -> Any:
        outputs, residuals = self.rules.record(args, wanted, **params)
        return (*outputs, as_tape(residuals))

    def record_type(self, *types: Type, wanted: Any, **params: Any) -> Any:
        return (*self.get().type(*types, **params), TAPE)

    def record_jvp(self, primals: Any, tangents: Any, *, wanted: Any, **params: Any) -> Any:
        outputs = self.record(*primals, wanted=wanted, **params)
        _, moved = pushed_forward(
            lambda *xs: self.apply(*xs, **params), primals, tangents, lambda: f"jvp of {self.name}"
        )
        return outputs, (*moved, None)

    def record_forward(self, args: Any, slots: Any, *, wanted: Any, **params: Any) -> Any:
        return self.record(*args, wanted=wanted, **params), None, list(args)

    def record_vjp(
        self, cts: Any, _: Any, args: Any, slots: Any, *, wanted: Any, **params: Any
    ) -> Any:
        return self.vjp(cts[:-1], None, args, slots, **params)

    def record_batch(
        self, args: Any, batched: Any, size: int, *, wanted: Any, **params: Any
    ) -> Any:
        return self.rules.batch_record(args, batched, size, wanted, **params)

    # --- W_pullback -------------------------------------------------------------------------------

    def pullback_eval(self, *values: Any, wanted: Any, taped: bool, **params: Any) -> Any:
        args, tape, cotangents = parted(values, wanted, taped)
        return tuple(self.rules.replay(args, residuals_of(tape), cotangents, wanted, **params))

    def pullback_type(self, *types: Type, wanted: Any, taped: bool, **params: Any) -> Any:
        return tuple(strong_type(t) for t, w in zip(types, wanted, strict=False) if w)

    def slopes(
        self, args: Any, params: Any, tangents: Any, positions: Sequence[int]
    ) -> tuple[list[Any], Callable[[Any], list[Any]]]:
        """J(a) t as a function of the arguments at `positions`: its value and its pullback."""

        def pushed(*xs: Any) -> list[Any]:
            merged = list(args)
            for position, x in zip(positions, xs, strict=True):
                merged[position] = x
            outputs, moved = pushed_forward(
                lambda *ys: self.apply(*ys, **params),
                merged,
                tangents,
                lambda: f"jvp of {self.name}",
            )
            return [or_zero(t, o) for o, t in zip(outputs, moved, strict=True) if typeof(o).inexact]

        return linearized(
            pushed,
            [args[i] for i in positions],
            lambda: f"grad of {self.name}_pullback",
            NO_GUARDS,
        )

    def pullback_jvp(
        self, primals: Any, tangents: Any, *, wanted: Any, taped: bool, **params: Any
    ) -> Any:
        args, tape, cotangents = parted(primals, wanted, taped)
        arg_tangents, _, ct_tangents = parted(tangents, wanted, taped)
        outputs = self.pullback(*primals, wanted=wanted, taped=taped, **params)
        inner = [i for i, want in enumerate(wanted) if want]
        total: list[Any] = [None] * len(inner)
        if any(t is not None for t in arg_tangents):
            _, pull = self.slopes(args, params, arg_tangents, inner)
            total = pull(cotangents)
        if any(t is not None for t in ct_tangents):
            moved = [or_zero(t, c) for c, t in zip(cotangents, ct_tangents, strict=True)]
            held = () if tape is None else (tape,)
            more = self.pullback(*args, *held, *moved, wanted=wanted, taped=taped, **params)
            total = [m if t is None else t + m for t, m in zip(total, more, strict=True)]
        return outputs, tuple(total)

    def pullback_vjp(
        self, us: Any, _: Any, values: Any, slots: Any, *, wanted: Any, taped: bool, **params: Any
    ) -> list[Any]:
        args, _, cotangents = parted(values, wanted, taped)
        given = iter(us)
        tangents: list[Any] = [None] * len(args)
        for position, want in enumerate(wanted):
            if want:
                tangents[position] = or_zero(next(given), args[position])
        outer = [i for i in range(len(args)) if slots[i]]
        pushed, pull = self.slopes(args, params, tangents, outer)
        result: list[Any] = [None] * len(values)
        for position, cotangent in zip(outer, pull(cotangents), strict=True):
            result[position] = cotangent
        result[len(args) + taped :] = pushed
        return result

    def pullback_batch(
        self, values: Any, batched: Any, size: int, *, wanted: Any, taped: bool, **params: Any
    ) -> Any:
        args, tape, cotangents = parted(values, wanted, taped)
        arg_batched, _, ct_batched = parted(batched, wanted, taped)
        if not any(arg_batched):  # the tape is of one example, the pullback of many
            tape = None
        return self.rules.batch_replay(
            args, tape, cotangents, arg_batched, ct_batched, size, wanted, **params
        )

    # --- the rules of W ---------------------------------------------------------------------------

    def forward(self, args: Any, slots: Any, **params: Any) -> Any:
        if params.get("checkpoint") is not None:  # the backward walk records again, in parts
            return self.apply(*args, **params), None, list(args)
        results = self.record(*args, wanted=tuple(map(bool, slots)), **params)
        return results[:-1], results[-1], list(args)

    def vjp(self, cotangents: Any, tape: Any, args: Any, slots: Any, **params: Any) -> list[Any]:
        wanted = tuple(map(bool, slots))
        types = self.get().type(*[typeof(a) for a in args], **params)
        given = [or_zero(c, t) for c, t in zip(cotangents, types, strict=True) if t.inexact]
        held = () if tape is None else (tape,)
        found = iter(
            self.pullback(*args, *held, *given, wanted=wanted, taped=tape is not None, **params)
        )
        return [next(found) if want else None for want in wanted]
