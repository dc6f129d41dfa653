"""The native backend: compiles Graphs to machine code if a generator accepts them, else for NumPy.

The choice depends on the Graph and the machine alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.cost_model import costs
from fungrad.compiler.loop_ir.printer import Later
from fungrad.compiler.native import (
    convolutions,
    entry,
    factorisations,
    machine_code,
    recurrences,
    short_axes,
    symbols,
)
from fungrad.compiler.native.array_loops import loop_kernel, sequence_kernel, small_kernel
from fungrad.compiler.native.clusters import Reasons, in_pool, with_clusters
from fungrad.compiler.native.complex_numbers import real_form
from fungrad.compiler.native.convolutions import convolution_kernel, convolves
from fungrad.compiler.native.element_operations import cost
from fungrad.compiler.native.fused import fused_kernel
from fungrad.compiler.native.kernel import Kernel, Refusal, Refused
from fungrad.compiler.native.programs import long_kernel
from fungrad.compiler.native.recurrences import recurrence_kernel, recurrent
from fungrad.compiler.native.short_axes import unrollable
from fungrad.compiler.native.tiles import with_tiles
from fungrad.compiler.numpy_backend.backend import NumpyBackend, build
from fungrad.compiler.passes.pipeline import expanded_size, optimised, repeats
from fungrad.compiler.scalar.structural import structural
from fungrad.compiler.self_check.checked_program import CheckedBackend
from fungrad.control_flow.call import Runner
from fungrad.ir.graph import Equation, Graph
from fungrad.ir.types import Type
from fungrad.primitives.facts import factor_of_complex
from fungrad.runtime import buffer_pool

Generator = Callable[[Graph], Kernel]
LOOPS: Sequence[Generator] = small_kernel, loop_kernel
GENERATORS: list[Generator] = [*LOOPS, fused_kernel, sequence_kernel, long_kernel]
"""Functions that make a kernel of a Graph, in the order in which they are tried; each raises
Refused for Graphs that it does not support.
"""
CALLS = 10_000
"""A program has to save the time of its build in so many calls."""
CALL = 1_500.0
"""Nanoseconds per call that an entry in machine code saves."""
LAPACK_CALL = 6_000.0
"""Nanoseconds of a factorisation on NumPy, besides its arithmetic."""
TRIPS = 100
"""The assumed trip count of a loop of unknown length."""


_NUMPY = NumpyBackend()


class Native(CheckedBackend):
    """Compiles optimised Graphs to machine code, or like the NumPy backend.

    Args:
      only_profitable: whether programs that take longer to build than they save run on NumPy.
    """

    name = "native"

    def __init__(self, only_profitable: bool = False) -> None:
        self.only_profitable = only_profitable

    def compile(self, graph: Graph) -> Runner:
        better = optimised(graph)
        on_numpy = functools.partial(_NUMPY.compile, better)
        fallback = Later(on_numpy, graph, _NUMPY.compile)
        return self._whole(better, fallback) or self._mixed(better) or on_numpy()

    def _whole(self, graph: Graph, fallback: Later) -> Runner | None:
        """The native program of an optimised Graph; None if it is long because several calls run
        one Graph, which then has a program of its own.
        """
        if expanded_size(graph) > costs.native_equations and repeats(graph):
            return None
        return self._native(graph, fallback)

    def loop(self, equation: Equation, steps: Runner) -> Runner | None:
        inputs: Any = equation.inputs
        graph = Graph(inputs, (), (equation,), equation.outputs)

        def on_numpy() -> Runner | None:
            return _NUMPY.loop(equation, steps)

        fallback = Later(lambda: on_numpy() or steps, graph, _NUMPY.compile)
        return self._native(graph, fallback) or on_numpy()

    def _native(
        self, graph: Graph, fallback: Later, generators: Sequence[Generator] | None = None,
        times: float = 1.0, into: int = 0,
    ) -> Runner | None:  # fmt: skip
        """The native program of a Graph; None if it runs on NumPy.

        Args:
          graph: the optimised Graph.
          fallback: the NumPy program.
          generators: the generators to try; None for all.
          times: how often it runs per call of the user's function.
          into: how many outputs, the first ones, are arguments.
        """
        if not usable():
            return None
        refused: list[Refusal] = []
        graph.derived["refused"] = refused
        for generator in GENERATORS if generators is None else generators:
            try:
                kernel = generator(real_form(graph))
                more = kernel.outputs[len(kernel.outputs) - kernel.doubtful :]
                outputs = [*graph.output_types, *more]
                kernel = kernel._replace(inputs=graph.input_types, outputs=outputs)
                if self.only_profitable:
                    weigh(graph, kernel, times)
                instead = kernel.written(fallback) if into else fallback
                run = entry.callable(kernel.into(into), instead)
                run = _Unless(run, instead) if kernel.doubtful else run
            except Refused as reason:
                refused.append(reason.refusal)
            else:
                graph.derived.pop("refused", None)  # another thread may have built it, too
                return run
        return None

    def _mixed(self, graph: Graph) -> Runner | None:
        """The program of a Graph with native clusters; None if it has none."""
        if not usable():
            return None
        programs: list[Runner] = []

        def make(cluster: Graph, times: float = 1.0, into: int = 0) -> Runner | None:
            first, *more = cluster.equations
            loop = not more and first.primitive.multiple and not unrollable(first)
            generators: Sequence[Generator] = LOOPS if loop else [fused_kernel]
            if not more and (recurrent(first) or convolves(first)):
                generators = [recurrence_kernel, convolution_kernel]
            fallback = Later(functools.partial(build, cluster), cluster, _NUMPY.compile)
            reused = [] if into else in_pool(cluster, graph)
            found = self._native(cluster, fallback, generators, times, into or len(reused))
            if found is not None:
                programs.append(found)
                if reused:
                    return functools.partial(_in_reused_memory, found, reused)
            return found

        in_tiles = with_tiles(graph, make)
        graph.derived["reasons"] = reasons = Reasons()
        mixed = with_clusters(in_tiles, make, reasons=reasons) or in_tiles
        if mixed is graph:
            return None
        graph.derived["native clusters"] = programs
        return build(mixed)


def _in_reused_memory(run: Runner, types: Sequence[Type], *args: Any) -> Sequence[Any]:
    """Calls a program that writes its first outputs into arrays; those are in the buffer pool."""
    made = [buffer_pool.empty(type.shape, type.dtype) for type in types]
    return [*made, *run(*args, *made)]


class _Unless:
    """A native program, unless its last result says that another one has to do the work."""

    def __init__(self, run: Any, instead: Runner) -> None:
        self.run, self.instead, self.__self__ = run, instead, run.__self__

    def __call__(self, *args: Any) -> Sequence[Any]:
        *found, doubtful = self.run(*args)
        return self.instead(*args) if doubtful else found


@machine_code.once
def usable() -> bool:
    """Whether native programs can run in this process; warns once if not."""
    reason = symbols.mismatch()
    if not reason and not machine_code.executable():
        reason = "memory cannot be made executable here"
    if reason:
        machine_code.warn_once(f"fungrad runs on NumPy, not on native code: {reason}.")
    return not reason


def weigh(graph: Graph, kernel: Kernel, times: float = 1.0) -> None:
    """Raises Refused if building a kernel takes longer than CALLS calls save, each of which runs it
    `times` times.
    """
    saved = CALL + numpy_ns(graph) - kernel.cost_ns
    if kernel.build_ms * 1e6 > CALLS * times * saved:
        raise Refused(f"would take {kernel.build_ms:.0f} ms to build and save "
                      f"{saved / 1e3:.1f} us a call", "time",
                      build_ms=kernel.build_ms, saved_us=saved / 1e3)  # fmt: skip


def numpy_ns(graph: Graph) -> float:
    """An estimate of the time of a Graph on NumPy, without the call itself."""
    return sum(map(_numpy_ns, graph.equations))


def _numpy_ns(equation: Equation) -> float:
    held = structural(equation.primitive)
    if held is None and unrollable(equation):
        return costs.numpy_call + short_axes.numpy_ns(equation)
    if equation.primitive.module.startswith("fungrad.primitives.linalg."):
        return LAPACK_CALL + factorisations.TERM * factorisations.terms(equation)
    if recurrent(equation):
        return costs.numpy_call + recurrences.numpy_ns(equation)
    if convolves(equation):
        return convolutions.numpy_ns(equation)
    if held is None:
        size = max([a.type.size for a in (*equation.inputs, *equation.outputs)], default=1)
        call = min(costs.numpy_call, costs.scalar_operation * size)
        return call + size * factor_of_complex(equation) * (0.3 + 1.5 * cost(equation))
    step = costs.scan_step if held.loop else 0.0
    return sum([(TRIPS if trips is None else trips) * (step + numpy_ns(optimised(body)))
                for body, trips in held.bodies(equation)])  # fmt: skip
