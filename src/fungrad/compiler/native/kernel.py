"""Kernel: a native program without its entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.llvm_ir import Function, Module, Value
from fungrad.ir.graph import Atom, Graph
from fungrad.ir.types import Type
from fungrad.support.lazy import Record

MOST_ARRAYS = 250
"""The most arguments, results and constants: their pointers are on the stack."""
GIVEN_UP = 2
"""The status of a program that leaves its work to NumPy."""


class Kernel(Record):
    """A native program without its entry: an internal function, and how to call it.

    The function is `void @kernel(ptr %arrays, i64 %begin, i64 %end, ptr %scratch)`. `arrays` holds
    pointers to the data of the inputs, then of the outputs, then of the constants. All are in C
    order and aligned, and an output overlaps no other array. A call computes the units of work from
    begin to end.

    Attributes:
      module: holds the function.
      inputs: the types of the arguments.
      outputs: the types of the results.
      units: the number of units of work, which threads share; 1 if the work cannot be divided.
      scratch: bytes of memory that all units share, not set to zero.
      finish: the name of an internal function `i32(ptr %arrays, ptr %scratch)` that runs at the
        end, in one thread, and returns 0 or GIVEN_UP; or "".
      cost_ns: a rough estimate of a call's time in one thread.
      interruptible: whether the function is `i32 @kernel(...)` and calls `i32 @fg_signalled()` from
        time to time. It returns that status at once if it is not 0, -1 if memory ran out, and
        GIVEN_UP if the NumPy program has to do the work. It has one unit, and no `finish`.
      constants: arrays that the function reads, in C order.
      filled: the number of arguments, the last ones, that the function writes into.
      loops: its loops, with the operations in each, one on a line; "" if it has none over arrays.
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
    filled: int = 0
    loops: str = ""

    def into(self, count: int) -> Kernel:
        """The kernel that writes its first outputs into arguments after the inputs."""
        written, rest = self.outputs[:count], self.outputs[count:]
        return self._replace(inputs=[*self.inputs, *written], outputs=rest, filled=count)

    def written(self, runner: Callable[..., Any]) -> Callable[..., Any]:
        """A function with the arguments of `into`, which calls a function of the inputs."""
        count = len(self.inputs)

        def run(*args: Any) -> Any:
            found = runner(*args[:count])
            for place, x in zip(args[count:], found, strict=False):
                place[...] = x
            return found[len(args) - count :]

        return run

    @property
    def quick(self) -> bool:
        """Whether its code runs for so short a time that the quick build is better."""
        fixed, line = tuned.quick_ns
        return self.cost_ns < fixed + line * len(self.module)

    @property
    def build_ms(self) -> float:
        """An estimate of the time that LLVM takes to build it."""
        fixed, line = tuned.quick_build if self.quick else tuned.full_build
        return fixed + line * len(self.module)


def pointers_to(code: Function, graph: Graph, atoms: Sequence[Atom]) -> list[Value]:
    """The pointers to inputs, outputs or constants of a kernel's Graph."""
    arrays = [*graph.inputs, *graph.outputs, *dict(graph.constants)]
    at = [code.at(code.parameters[0], arrays.index(atom), "ptr") for atom in atoms]
    return [code.load(pointer, "ptr", 1) for pointer in at]


def kernel_of(graph: Graph, module: Module, **facts: Any) -> Kernel:
    """The kernel of a Graph; `facts` are attributes beside its arrays."""
    constants = [value for _, value in graph.constants]
    return Kernel(module, graph.input_types, graph.output_types, constants=constants, **facts)


def kernel_function(module: Module, result: str = "void") -> Function:
    """The function of a kernel, without a body; it returns `i32` if it is interruptible."""
    parameters = [("ptr", "arrays"), ("i64", "begin"), ("i64", "end"), ("ptr", "scratch")]
    return Function(module, "kernel", result, parameters, attributes="internal")
