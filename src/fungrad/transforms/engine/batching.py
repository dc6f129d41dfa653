"""vmap. BatchTrace carries arrays whose axis 0 is the mapped axis, and applies batch rules.

A primitive without a batch rule is looped over the axis: correct, slow, and listed by
`fungrad.testing.missing_rules()`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.errors import instead_of
from fungrad.ir.types import Type
from fungrad.primitives.movement.reshape_broadcast_cast import reshape, slice_axis, stack_first
from fungrad.tracing.aliasing import private, spoil
from fungrad.tracing.concrete_answers import T, key, words
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import (
    EVAL,
    Trace,
    Tracer,
    constant_of_kept,
    current,
    enter,
    leaked,
    leave,
    put,
    reaches,
    shape_of,
    typeof,
)
from fungrad.tracing.traced_again import traced


class Unbatched:
    """An output of a batch rule of several outputs that is the same for all examples."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class BatchTrace(Trace):
    """Runs a function of one example on all examples. A tracer's `value` has the mapped axis
    first.
    """

    __slots__ = ("_is_over", "_written", "batch_size")
    takes_kept = True

    def __init__(self, parent: Trace, label: Callable[[], str], batch_size: int) -> None:
        super().__init__(parent, label)
        self.batch_size = batch_size
        self._is_over = False
        self._written: list[weakref.ref[Tracer]] = []

    def note_write(self, tracer: Tracer) -> None:
        self._written.append(weakref.ref(tracer))

    def end(self) -> None:
        """Makes the arrays of lower traces that the function has written into unusable.

        A loop over the examples would have written once for each example. The function's own arrays
        no longer exist.
        """
        for ref in self._written:
            tracer = ref()
            if tracer is not None:
                spoil(tracer, self)
        self._is_over = True

    @property
    def is_over(self) -> bool:
        return self._is_over

    def of_kept(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        """Such a value again, of which only the type, and what all examples share, may be read."""
        kept = [arg for arg in args if type(arg) is Tracer]
        for tracer in kept:
            if not self.is_over or self.parent is not EVAL or tracer.owner is not self:
                raise leaked(kept[0])
        return self.process(primitive, args, params)

    def typeof(self, tracer: Tracer) -> Type:
        type_ = typeof(tracer.inner)
        return Type(type_.shape[1:], type_.dtype)

    def shape(self, tracer: Tracer) -> tuple[int, ...]:
        return shape_of(tracer.inner)[1:]

    def concrete(
        self, tracer: Tracer, error: type[Exception], asked: str, read: Callable[[Any], T]
    ) -> T:
        """The answer, if it is the same for all examples."""

        def refused(found: str) -> Exception:
            return error(
                f"{asked} needs one value{user_line()}, but {self.label()} runs all "
                f"{self.batch_size} examples at once, {found}. "
                f"{instead_of(asked)}; or give an argument that is the same for all None in "
                "in_axes, return the value as an output, or loop instead of vmap."
            )

        def agreed(values: Any) -> T:
            if not len(values):
                raise refused("and there are none that could be asked")
            answer = read(values[0])
            if values.tobytes() == values[:1].tobytes() * len(values):
                return answer
            for i in range(1, len(values)):
                other = read(values[i])
                if key(other) != key(answer):
                    raise refused(
                        f"and they differ: {words(answer)} in example 0, {words(other)} in "
                        f"example {i}"
                    )
            return answer

        if not asked:
            raise refused("and may differ")
        return put(tracer.inner, error, asked, agreed)

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        values = []
        batched = []
        for arg in args:
            mine = type(arg) is Tracer and arg.owner is self
            values.append(arg.inner if mine else arg)
            batched.append(mine)
        parent: Trace = self.parent  # type: ignore[assignment]
        if not any(batched):
            return parent.process(primitive, values, params)
        values = [
            constant_of_kept(v) if type(v) is Tracer and not reaches(self, v) else v for v in values
        ]
        token = enter(parent)
        try:
            if primitive.batch is None:
                output = loop_rule(primitive, values, batched, self.batch_size, params)
            else:
                output = primitive.batch(values, batched, self.batch_size, **params)
        finally:
            leave(token)
        if primitive.multiple:
            return tuple(
                [o.value if type(o) is Unbatched else Tracer(self, o, None) for o in output]
            )
        return Tracer(self, output, None)


def loop_rule(
    primitive: Any, args: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]
) -> Any:
    """Applies a primitive to one example after the other."""

    def example(i: int) -> Any:
        return primitive(
            *[take_first(a, i) if b else a for a, b in zip(args, batched, strict=True)], **params
        )

    if size == 0:
        types = [typeof(a) for a in args]
        inner = [
            Type(t.shape[1:], t.dtype) if b else t for t, b in zip(types, batched, strict=True)
        ]
        empty = [Type((0, *t.shape), t.dtype).zeros() for t in primitive.infer(inner, params)]
        return tuple(empty) if primitive.multiple else empty[0]
    results = [example(i) for i in range(size)]
    if primitive.multiple:
        return tuple(stack_first(column) for column in zip(*results, strict=True))
    return stack_first(results)


def take_first(x: Any, index: int) -> Any:
    """The index-th example of a batched value."""
    shape = shape_of(x)
    return reshape(slice_axis(x, axis=0, start=index, stop=index + 1), shape=shape[1:])


def batched_call(
    f: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    mapped: Sequence[bool],
    size: int,
    label: Callable[[], str],
) -> tuple[list[Any], list[bool]]:
    """Runs a function of one example on values whose mapped axis is axis 0.

    Returns the outputs, and for each whether it has the mapped axis (as axis 0).
    """

    def run() -> tuple[list[Any], list[bool]]:
        trace = BatchTrace(current(), label, size)
        tracers = [
            Tracer(trace, private(a), None) if m else private(a)
            for a, m in zip(args, mapped, strict=True)
        ]
        outputs = []
        flags = []
        for result in trace.run(f, *tracers):
            mine = type(result) is Tracer and result.owner is trace
            outputs.append(private(result.inner if mine else result))
            flags.append(mine)
        trace.end()
        return outputs, flags

    return traced(run, label, f)
