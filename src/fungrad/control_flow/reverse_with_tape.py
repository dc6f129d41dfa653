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
from fungrad.primitives.movement.reshape_broadcast_cast import moveaxis, with_batch
from fungrad.primitives.primitive import Primitive, or_zero
from fungrad.retracing.graph_transforms import strong_type
from fungrad.support.lazy import Record
from fungrad.tracing.captured_arrays import NO_GUARDS
from fungrad.tracing.trace import typeof
from fungrad.transforms.engine.batching import Unbatched, take_first
from fungrad.transforms.engine.forward import pushed_forward
from fungrad.transforms.engine.reverse import linearized


class BatchedForm(Record):
    """A batch of applications of a structural primitive as one application.

    args, params: those of the one. positions: of each argument among `args`.
    arg_axes: the axis of examples of each argument, if it has one. out_axes: that of each output;
    None: all examples have the same.
    """

    args: list[Any]
    params: dict[str, Any]
    positions: Sequence[int]
    arg_axes: Sequence[int]
    out_axes: Sequence[int | None]

    def wanted(self, wanted: Sequence[bool]) -> tuple[bool, ...]:
        """The flags of the arguments as flags of `args`."""
        result = [False] * len(self.args)
        for position, want in zip(self.positions, wanted, strict=True):
            result[position] = want
        return tuple(result)

    def unbatched(self, outputs: Sequence[Any]) -> list[Any]:
        """The outputs as those of a batch rule."""
        return [
            Unbatched(o) if axis is None else _first(o, axis)
            for o, axis in zip(outputs, self.out_axes, strict=True)
        ]


def _first(x: Any, axis: int) -> Any:
    return moveaxis(x, axis, 0) if axis else x


class Rules(Record):
    """The functions from which the reverse mode of a structural primitive is derived.

    record: `(args, wanted, **params) -> (outputs, residuals)`, on arrays.
    replay: `(args, residuals, cotangents, wanted, **params) -> cotangents of the wanted args`, on
    arrays.
    batched: `(args, batched, size, **params) -> BatchedForm`, or None if a batch has none; then the
    primitive has a batch rule of its own.
    """

    record: Callable[..., Any]
    replay: Callable[..., Any]
    batched: Callable[..., BatchedForm | None]


def parted(values: Sequence[Any], wanted: Any, taped: bool) -> tuple[Any, Any, Any]:
    """The arguments, the tape (or None) and the cotangents among the inputs of a pullback."""
    count = len(wanted)
    tape = values[count] if taped else None
    return values[:count], tape, values[count + taped :]


def _spread(
    args: Sequence[Any], batched: Sequence[bool], wanted: Sequence[bool], size: int
) -> tuple[list[Any], list[bool]]:
    """The arguments, with a batch axis added if a cotangent is wanted, which differs between
    examples.
    """
    new = [
        with_batch(a, b, size) if w else a for a, b, w in zip(args, batched, wanted, strict=True)
    ]
    return new, [b or w for b, w in zip(batched, wanted, strict=True)]


def _for_output(cotangent: Any, have: bool, axis: int | None, size: int) -> Any:
    """The cotangent of an output in the form of the output, whose examples are along an axis.

    An output without one depends on no wanted argument, since these were spread: it has none to
    give, and one example of a batch of cotangents (`have`) will do.
    """
    if axis is None:
        return take_first(cotangent, 0) if have else cotangent
    whole = with_batch(cotangent, have, size)
    return moveaxis(whole, 0, axis) if axis else whole


RECORDS: dict[Any, Callable[[], Primitive]] = {}
"""For each `W_record` a function that returns W."""
PULLBACKS: dict[Any, Callable[[], Primitive]] = {}
"""For each `W_pullback` the same."""


class Reverse:
    """The reverse mode of a structural primitive W, `forward` and `vjp`, and its batch rule.

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
        RECORDS[self.record] = PULLBACKS[self.pullback] = get

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
        args, batched = _spread(args, batched, wanted, size)
        form = self.rules.batched(args, batched, size, **params)
        if form is None:
            return [*self._batch(args, batched, size, params), Unbatched(as_tape(None))]
        *outputs, tape = self.record(*form.args, wanted=form.wanted(wanted), **form.params)
        return [*form.unbatched(outputs), Unbatched(tape)]

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
        args, arg_batched = _spread(args, arg_batched, wanted, size)
        form = self.rules.batched(args, arg_batched, size, **params)
        if form is None:
            cts = [with_batch(c, b, size) for c, b in zip(cotangents, ct_batched, strict=True)]
            return self._pulled_through_batch(args, arg_batched, cts, size, wanted, params)
        types = self.get().type(*map(typeof, form.args), **form.params)
        axes = [axis for axis, t in zip(form.out_axes, types, strict=True) if t.inexact]
        pulled = self.pullback(
            *form.args,
            *(() if tape is None else (tape,)),
            *map(_for_output, cotangents, ct_batched, axes, [size] * len(axes)),
            wanted=form.wanted(wanted),
            taped=tape is not None,
            **form.params,
        )
        arg_axes = [axis for axis, want in zip(form.arg_axes, wanted, strict=True) if want]
        return list(map(_first, pulled, arg_axes))

    def _batch(self, args: Any, batched: Any, size: int, params: dict[str, Any]) -> Any:
        rule: Any = self.get().batch
        return rule(args, batched, size, **params)

    def _pulled_through_batch(
        self, args: Any, batched: Any, cts: Any, size: int, wanted: Any, params: dict[str, Any]
    ) -> list[Any]:
        """The cotangents of a batch by the derivative of W's batch rule."""
        positions = [i for i, want in enumerate(wanted) if want]

        def f(*xs: Any) -> list[Any]:
            merged = list(args)
            for position, x in zip(positions, xs, strict=True):
                merged[position] = x
            return list(self._batch(merged, batched, size, params))

        outputs, pullback = linearized(
            f, [args[i] for i in positions], lambda: f"grad of {self.name}", NO_GUARDS
        )
        given = iter(cts)
        cotangents = pullback([next(given) if typeof(o).inexact else None for o in outputs])
        return [or_zero(c, args[i]) for i, c in zip(positions, cotangents, strict=True)]

    # --- the rules of W ---------------------------------------------------------------------------

    def batch(self, args: Any, batched: Any, size: int, **params: Any) -> Any:
        form = self.rules.batched(args, batched, size, **params)
        assert form is not None
        return form.unbatched(self.apply(*form.args, **form.params))

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
        pulled = iter(
            self.pullback(*args, *held, *given, wanted=wanted, taped=tape is not None, **params)
        )
        return [next(pulled) if want else None for want in wanted]
