"""The native backend: compiles Graphs to machine code if a generator accepts them, else for NumPy.

The choice depends on the Graph and the machine alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler import background
from fungrad.compiler.cost_model import costs, tuned
from fungrad.compiler.loop_ir.printer import Later
from fungrad.compiler.native import (
    entry,
    factorisations,
    lapack,
    machine_code,
    short_axes,
    symbols,
)
from fungrad.compiler.native.array_loops import LOOP_GENERATORS, longest_kernel, sequence_kernel
from fungrad.compiler.native.clusters import Once, Reasons, in_pool, with_clusters
from fungrad.compiler.native.complex_numbers import real_form
from fungrad.compiler.native.element_operations import cost, takes_halves
from fungrad.compiler.native.fused import fused_kernel, lane_kernel
from fungrad.compiler.native.generators import Generator, chosen
from fungrad.compiler.native.kernel import Kernel
from fungrad.compiler.native.short_axes import is_narrow_product, unrollable
from fungrad.compiler.native.single_equations import SINGLE, separate, single, single_kernel
from fungrad.compiler.native.tiling.tiles import tile, with_tiles
from fungrad.compiler.numpy_backend.factorised_once import factorised_once
from fungrad.compiler.passes.pipeline import expanded_size, optimised, repeats
from fungrad.compiler.refusal import Refusal, attempted, refusal
from fungrad.compiler.scalar.structural import structural
from fungrad.compiler.self_check.checked_program import CheckedBackend
from fungrad.control_flow.call import Runner, is_built
from fungrad.ir.graph import Equation, Graph
from fungrad.ir.types import Type
from fungrad.primitives.facts import factor_of_complex
from fungrad.runtime import buffer_pool
from fungrad.support.lazy import Module

GENERATORS = [*LOOP_GENERATORS, lane_kernel, fused_kernel, sequence_kernel, longest_kernel]
"""The generators of whole programs, in the order of preference."""


of_numpy: Any = Module("fungrad.compiler.numpy_backend.backend")
"""Imported when a program is needed that runs on NumPy."""


def _on_numpy(graph: Graph) -> Runner:
    program: Runner = of_numpy.NumpyBackend().compile(graph)
    return program


class Native(CheckedBackend):
    """Compiles optimised Graphs to machine code, or like the NumPy backend.

    Args:
      only_profitable: whether programs that take longer to build than they save run on NumPy.
    """

    name = "native"

    def __init__(self, only_profitable: bool = False) -> None:
        self.only_profitable = only_profitable

    def checked(
        self, graph: Graph, build: Callable[[], Runner | None], settle: Callable[[Runner], None]
    ) -> Runner | None:
        if background.state.setting == "now" or is_built(graph) or not usable():
            return super().checked(graph, build, settle)
        return background.BuiltLater(self, graph, build, settle)

    def compile(self, graph: Graph) -> Runner:
        better = optimised(graph)
        on_numpy = functools.partial(_on_numpy, better)
        if not usable():
            return on_numpy()
        if lapack.available() or factorised_once(better) is better:
            found = self._whole(better, Later(on_numpy, graph, _on_numpy))
            if not isinstance(found, Refusal):
                return found
        return self._mixed(better) or on_numpy()

    def _whole(self, graph: Graph, fallback: Later) -> Runner | Refusal:
        """The native program of an optimised Graph, or why it has none."""
        size = expanded_size(graph)
        if size > costs.native_equations and repeats(graph):
            # several calls run one Graph, which then has a program of its own
            return refusal(f"{size} equations with those of calls", "long", equations=size)
        return self._native(graph, fallback, GENERATORS)

    def loop(self, equation: Equation, steps: Runner) -> Runner | None:
        inputs: Any = equation.inputs
        graph = Graph(inputs, (), (equation,), equation.outputs)

        def on_numpy() -> Runner | None:
            found: Runner | None = of_numpy.NumpyBackend().loop(equation, steps)
            return found

        fallback = Later(lambda: on_numpy() or steps, graph, _on_numpy)
        found = self._native(graph, fallback, GENERATORS) if usable() else None
        return on_numpy() if found is None or isinstance(found, Refusal) else found

    def _native(
        self, graph: Graph, fallback: Later, generators: Sequence[Generator], times: float = 1.0,
        into: int = 0,
    ) -> Runner | Refusal:  # fmt: skip
        """The native program of a Graph, or the last reason why it has none.

        Args:
          graph: the optimised Graph.
          fallback: the NumPy program.
          generators: those that are asked, in order.
          times: how often it runs per call of the user's function.
          into: how many outputs, the first ones, are arguments.
        """

        def whole(kernel: Kernel) -> Kernel:
            """A kernel of the real form as one of the Graph."""
            return kernel._replace(inputs=graph.input_types, outputs=graph.output_types)

        def fits(kernel: Kernel) -> Refusal | None:
            unpaid = unprofitable(graph, kernel, times) if self.only_profitable else None
            return unpaid or entry.refusal_of(whole(kernel))

        real = attempted(lambda: real_form(graph)) if graph.complex else graph
        if isinstance(real, Refusal):
            graph.derived["refused"] = [real]
            return real
        found, refusals = chosen(real, generators, fits)
        if found is None:
            graph.derived["refused"] = refusals
            return refusals[-1]
        kernel = whole(found)
        instead = kernel.written(fallback) if into else fallback
        graph.derived.pop("refused", None)  # of another setting
        return entry.callable(kernel.into(into), instead)

    def _mixed(self, graph: Graph) -> Runner | None:
        """The program of a Graph with native clusters; None if it has none."""
        programs: list[Runner] = []

        def make(cluster: Graph, times: float = 1.0) -> Runner | Refusal:
            found: Runner | Refusal = once.of(cluster, times, tuple(in_pool(cluster, graph)))
            return found

        def made(cluster: Graph, times: float, reused: tuple[Type, ...]) -> Runner | Refusal:
            first, *more = cluster.equations
            loop = not more and first.primitive.multiple and not unrollable(first)
            generators: Sequence[Generator] = LOOP_GENERATORS if loop else [fused_kernel]
            if not more and separate(first):
                generators = [single_kernel]
            fallback = Later(lambda: of_numpy.build(cluster), cluster, _on_numpy)
            found = self._native(cluster, fallback, generators, times, len(reused))
            if isinstance(found, Refusal):
                return found
            programs.append(found)
            return functools.partial(_in_reused_memory, found, reused) if reused else found

        once = Once(made)

        def of_tile(part: Graph, times: float) -> Runner | None:
            return tile(part, functools.partial(make, times=times))

        in_tiles = with_tiles(factorised_once(graph), of_tile)
        graph.derived["reasons"] = reasons = Reasons()
        mixed = with_clusters(in_tiles, make, reasons=reasons) or in_tiles
        if mixed is graph:
            return None
        graph.derived["native clusters"] = programs
        program: Runner = of_numpy.build(mixed)
        return program


def _in_reused_memory(run: Runner, types: Sequence[Type], *args: Any) -> Sequence[Any]:
    """Calls a program that writes its first outputs into arrays; those are in the buffer pool."""
    made = [buffer_pool.empty(type.shape, type.dtype) for type in types]
    return [*made, *run(*args, *made)]


@machine_code.once
def usable() -> bool:
    """Whether native programs can run in this process; warns once if not."""
    reason = symbols.mismatch()
    if not reason and not machine_code.executable():
        reason = "memory cannot be made executable here"
    if reason:
        machine_code.warn_once(f"fungrad runs on NumPy, not on native code: {reason}.")
    return not reason


def unprofitable(graph: Graph, kernel: Kernel, times: float = 1.0) -> Refusal | None:
    """The refusal of a kernel that takes longer to build than CALLS calls save, each of which runs
    it `times` times.
    """
    saved = tuned.entry_ns + numpy_ns(graph) - kernel.cost_ns
    if kernel.build_ms * 1e6 <= tuned.saving_calls * times * saved:
        return None
    return refusal(f"would take {kernel.build_ms:.0f} ms to build and save "
                   f"{saved / 1e3:.1f} us a call", "time",
                   build_ms=kernel.build_ms, saved_us=saved / 1e3)  # fmt: skip


def numpy_ns(graph: Graph) -> float:
    """An estimate of the time of a Graph on NumPy, without the call itself."""
    return sum(map(_numpy_ns, graph.equations))


def _numpy_ns(equation: Equation) -> float:
    primitive: Any = equation.primitive
    held = structural(primitive)
    if held is not None:
        step = costs.scan_step if held.loop else 0.0
        return sum([(tuned.trips if trips is None else trips) * (step + numpy_ns(optimised(body)))
                    for body, trips in held.bodies(equation)])  # fmt: skip
    if primitive in short_axes.UNROLLED and (unrollable(equation) or is_narrow_product(equation)):
        return costs.numpy_call + short_axes.numpy_ns(equation)
    if primitive.module.startswith("fungrad.primitives.linalg."):
        elements = tuned.lapack_element_ns * equation.inputs[0].type.size
        arithmetic = tuned.factor_term_ns * factorisations.terms(equation)
        return tuned.lapack_ns + elements + arithmetic
    own = single(equation) if primitive in SINGLE else None
    if own is not None and own.numpy_ns is not None:
        return own.numpy_ns(equation)
    size = max([a.type.size for a in (*equation.inputs, *equation.outputs)], default=1)
    call = min(costs.numpy_call, costs.scalar_operation * size)
    each = 0.3 + 1.5 * cost(equation) + tuned.numpy_half_ns * takes_halves(equation)
    return call + size * factor_of_complex(equation) * each
