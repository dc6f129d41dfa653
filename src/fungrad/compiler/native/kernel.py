"""Kernel: what a generator of native code hands over; Refused: that it leaves a Graph to NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.native.llvm_ir import Module
from fungrad.ir.types import Type
from fungrad.support.lazy import Record

LINES = 5_000
"""The most lines of IR that are worth their compiling."""
GIVEN_UP = 2
"""The result of an interruptible kernel that leaves its work to NumPy."""

SHORT = 0.1
"""Nanoseconds of a call, for each line of IR, up to which a kernel is built quickly: better code,
three times as fast, would have to be called some 100,000 times to make up for its build."""
QUICK, WELL = (4.0, 0.04), (8.0, 0.09)
"""Milliseconds of a build: of any, and of each line of IR."""


class Kernel(Record):
    """A native program without its entry: an internal function, and what its caller has to know.

    The function is `void @kernel(ptr %arrays, i64 %begin, i64 %end, ptr %scratch)`. `arrays` holds
    pointers to the data of the inputs, then of the outputs, then of the constants; all are in C
    order and aligned, and an output has memory of its own. Begin and end are the units to compute.

    Attributes:
      module: holds the function.
      inputs: the types of the arguments.
      outputs: the types of the results.
      units: into how many pieces the work can be cut: 1 where it runs at once.
      scratch: bytes that all units share, not set to zero.
      finish: the name of an internal function `void(ptr %arrays, ptr %scratch)` that runs at the
        end, in one thread; or "".
      cost_ns: what a call takes, roughly, in one thread.
      interruptible: whether the function is `i32 @kernel(...)` and calls `i32 @fg_signalled()` from
        time to time: it returns at once what that gives if it is not 0, -1 where memory ran out,
        and GIVEN_UP where the NumPy program has to do the work. It has one unit, and no `finish`.
      constants: arrays that the function reads, in C order.
    """

    module: Module
    inputs: Sequence[Type]
    outputs: Sequence[Type]
    units: int = 1
    scratch: int = 0
    finish: str = ""
    cost_ns: float = 0.0
    interruptible: bool = False
    constants: Sequence[Any] = ()

    def into(self) -> Kernel:
        """The kernel that writes its arrays, which stand before its numbers, into arguments behind
        the inputs.
        """
        arrays = [type for type in self.outputs if type.shape]
        rest: Any = self.outputs[len(arrays) :]
        return self._replace(inputs=[*self.inputs, *arrays], outputs=rest)

    def written(self, runner: Callable[..., Any]) -> Callable[..., Any]:
        """What does the work of `into` by a function of the inputs."""
        count = len(self.inputs)

        def run(*args: Any) -> Any:
            found = runner(*args[:count])
            for place, x in zip(args[count:], found, strict=False):
                place[...] = x
            return found[len(args) - count :]

        return run

    @property
    def quick(self) -> bool:
        """Whether its code runs for so short a time that the quicker build is the better one."""
        return self.cost_ns < SHORT * len(self.module)

    @property
    def build_ms(self) -> float:
        """An estimate of the time that LLVM takes to build it."""
        fixed, line = QUICK if self.quick else WELL
        return fixed + line * len(self.module)


class Refused(Exception):
    """A Graph, or a part of it, is not for native code; the message is the reason."""
