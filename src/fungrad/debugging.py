"""debug.print and debug.callback, which show values under every transform; and debug.trap.

Eagerly and under `grad` they run once, in the forward pass; under `vmap` once for each example;
under `jit` whenever the compiled function runs.

debug.trap stops at the first NaN, infinity or kink of a computation. A trace below all transforms
examines the outputs of primitives; NumPy's floating-point signals report the arithmetic on plain
arrays, in rules and in the user's code.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from fungrad.control_flow.reverse_with_tape import RECORDS
from fungrad.control_flow.unroll import (
    holds_inf,
    holds_nan,
    kinks_at,
    sample,
    unfold,
    unfolds,
)
from fungrad.custom_rules.closures_and_arguments import Arguments
from fungrad.errors import TrapError
from fungrad.host.host_function import Host
from fungrad.primitives.primitive import Primitive
from fungrad.tracing.effects import muted
from fungrad.tracing.provenance import provenance
from fungrad.tracing.source_location import user_source
from fungrad.tracing.trace import Trace, current, enter, leave
from fungrad.transforms.engine.tape import walk

_SHOWN = (np.ndarray, np.generic, float)
"""The classes of values whose first numbers a message shows."""


class TrapTrace(Trace):
    """Examines the operands and outputs of each primitive."""

    __slots__ = ("inf", "kinks", "nan")
    block = True

    def __init__(self, parent: Trace, nan: bool, inf: bool, kinks: bool) -> None:
        super().__init__(parent, lambda: "the block debug.trap")
        self.records = True  # so that the tapes of reverse mode keep the user's lines
        self.nan, self.inf, self.kinks = nan, inf, kinks

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        if self.kinks and unfolds(primitive):
            return self.run(unfold, primitive, args, params)
        parent: Trace = self.parent  # type: ignore[assignment]
        if np.geterr()["invalid"] == "ignore":  # results that are dropped: a branch not taken
            return parent.process(primitive, args, params)
        with np.errstate(all="ignore"):
            output = parent.process(primitive, args, params)
        if params.get("quiet"):
            return output
        outputs = output if primitive.multiple else (output,)
        for wanted, holds, what in ((self.nan, holds_nan, "NaN"), (self.inf, holds_inf, "inf")):
            if wanted and any(map(holds, outputs)) and not any(map(holds, args)):
                self._look_inside(primitive, args, params)
                self._raise(f"{what} was made by `{primitive.name}`", args)
        if self.kinks and not _walking()[0]:
            count = kinks_at(primitive, args, params)
            if count:
                where = "one place" if count == 1 else f"{count} places"
                self._raise(f"`{primitive.name}` sits at a kink in {where}", args)
        return output

    def _look_inside(self, primitive: Any, args: Any, params: dict[str, Any]) -> None:
        """Evaluates a call, branch or loop once more, to raise at the line inside."""
        primitive = RECORDS[primitive]() if primitive in RECORDS else primitive
        if unfolds(primitive):
            params = {key: value for key, value in params.items() if key != "wanted"}
            self.run(unfold, primitive, args, params)

    def signal(self, kind: str, flag: int) -> None:
        """Called by NumPy when arithmetic on plain arrays makes a NaN or an infinity."""
        if self.nan if kind.startswith("invalid") else self.inf:
            made = "NaN" if kind.startswith("invalid") else "inf"
            self._raise(f"{made} was made ({kind})", ())

    def _raise(self, what: str, args: Sequence[Any]) -> NoReturn:
        primitive, walked, cotangent = _walking()
        source = provenance().source or user_source()
        line = f" at {source}" if source is not None else ""
        if primitive is None:
            text = f"{what}{line}"
        else:
            text = f"{what} in the backward pass of `{primitive}`{line}"
            if not args:  # arithmetic on arrays inside of the rule
                text += f", from the cotangent {sample(cotangent)}"
                args = walked
        values = ", ".join(map(sample, args))
        raise TrapError(f"{text}{f', from the values {values}' if values else ''}.")


def _walking() -> tuple[str | None, Sequence[Any], Any]:
    """The primitive of the present backward step, its arguments and its cotangent."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is walk.__code__:
            known = frame.f_locals
            args = [a for a in known["args"] if issubclass(type(a), _SHOWN)]
            cotangent = known["cotangent"]
            return known["primitive"].name, args, getattr(cotangent, "value", cotangent)
        frame = frame.f_back
    return None, (), None


@contextmanager
def trap(nan: bool = True, inf: bool = True, kinks: bool = False) -> Iterator[None]:
    """A block that raises at the first NaN or infinity, in the forward or backward pass.

    It examines the values of every primitive under fungrad's transforms, and NumPy's own arithmetic
    on plain arrays. If a NaN leaves a jitted function or a loop, it finds the equation inside. Code
    under `np.errstate(invalid="ignore")` is not examined.

    Args:
      nan: whether a NaN from operands without one is an error.
      inf: whether an infinity from finite operands is an error.
      kinks: whether values at a kink (docs/kinks.md) are an error, in the forward pass.

    Raises:
      TrapError: naming the primitive, the user's line and the values.

    >>> import numpy as np, fungrad as fg
    >>> with fg.debug.trap():
    ...     fg.grad(np.sqrt)(0.0)
    Traceback (most recent call last):
        ...
    fungrad.errors.TrapError: inf was made (divide by zero) in the backward pass of `sqrt` ...
    """
    trace = TrapTrace(current(), nan, inf, kinks)
    handler: Any = trace.signal
    token = enter(trace)
    try:
        with np.errstate(divide="call", over="call", invalid="call", call=handler):
            yield
    finally:
        leave(token)


def _eval(*args: Any, host: Host) -> tuple[Any, ...]:
    if not muted.get():
        host.run(args)
    return ()


debug_callback: Primitive = Primitive(
    "debug_callback",
    eval=_eval,
    type=lambda *types, host: (),
    batch=lambda args, batched, size, *, host: debug_callback(
        *args, host=host.batched(batched, size)
    ),
    cuts=True,
    multiple=True,
    effect=True,
)
"""`debug_callback(*args, host=)`: runs a Python function for its effect; has no result."""


def callback(f: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Calls a Python function with the values of traced arguments.

    Args:
      f: a function of arrays; its result is dropped.
      *args: trees of arrays, and of other objects, which are passed unchanged.
      ordered: accepted as in JAX; the calls always happen in the order of the program.
      **kwargs: as args.

    >>> import fungrad as fg
    >>> seen = []
    >>> def f(x):
    ...     fg.debug.callback(lambda v: seen.append(float(v)), x)
    ...     return x * x
    >>> float(fg.grad(f)(3.0)), seen
    (6.0, [3.0])
    """

    def quiet(*values: Any, **named: Any) -> tuple[()]:
        f(*values, **named)
        return ()

    arguments = Arguments(f, args, kwargs)
    host = Host(quiet, arguments, ())
    debug_callback(*arguments.take(), host=host)


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Prints the values of traced arguments, formatted by `str.format`.

    Args:
      fmt: the format, as `"x = {}"` or `"loss {loss:.3f}"`.
      *args: trees of arrays and other objects.
      ordered: accepted as in JAX; the lines always come in the order of the program.
      **kwargs: as args, by name.

    >>> import fungrad as fg
    >>> def f(x):
    ...     fg.debug.print("x is {}", x)
    ...     return x * x
    >>> float(fg.grad(fg.jit(f))(3.0))
    x is 3.0
    6.0
    """

    def show(*values: Any, **named: Any) -> None:
        builtins.print(fmt.format(*values, **named))

    callback(show, *args, ordered=ordered, **kwargs)


__all__: Sequence[str] = ["callback", "print", "trap"]
