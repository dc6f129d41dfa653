"""Loops with arrays in the carry as one native program: kernels of the body's parts, called in
order.

A body is divided into clusters, as a mixed Graph is; products and inner loops are separate parts. A
generator makes a kernel of each. Intermediates between parts are in scratch memory. A step reads
the carry where the step before wrote it, and writes stacked results directly into the outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native import equal_values, factorisations, lapack, matrix_factors
from fungrad.compiler.native.clusters import NAME, Once, cluster_graph, with_clusters
from fungrad.compiler.native.fused import cheap_kernel
from fungrad.compiler.native.generators import Generator, chosen
from fungrad.compiler.native.kernel import MOST_ARRAYS, Kernel, kernel_function
from fungrad.compiler.native.llvm_ir import Module, Value
from fungrad.compiler.native.programs import long_kernel, scalar_kernel
from fungrad.compiler.native.scratch_layout import packed, whole_lines
from fungrad.compiler.native.single_equations import (
    large_kernel,
    single_kernel,
    stacked_product,
)
from fungrad.compiler.numpy_backend.program_calls import program_call
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.refusal import Refusal, Refused, attempted, refusal
from fungrad.compiler.scalar.structural import structural
from fungrad.control_flow.loop_bodies import parts
from fungrad.control_flow.scan import scan
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import Type
from fungrad.primitives.movement.reshape_broadcast_cast import reshape, transpose
from fungrad.retracing.inlining import copied, placed
from fungrad.runtime.buffer_pool import LARGE

FREE = 8 * LARGE
"""Bytes of new memory that a program with loops may have in any case: they stay in the cache."""


def _small(graph: Graph) -> Kernel:
    """The program of numbers; that of loops over arrays if its text is half of a long one's.

    Raises:
      Refused: if loops over arrays have large intermediates: then each loop is a program.
    """
    made = scalar_kernel(graph)
    alone = sum([equation.outputs[0].type.size == 1 for equation in graph.equations])
    most = tuned.number_lines
    shorter = alone < most < len(made.module)  # loops over arrays do not shorten numbers
    other = attempted(lambda: loop_kernel(graph)) if shorter else made
    if isinstance(other, Kernel) and 2 * len(other.module) < len(made.module):
        return other
    if isinstance(other, Refusal) and other.code == "memory":
        raise Refused(other)
    return made


def _loops_refusal(graph: Graph) -> Refusal | None:
    """Why a Graph is not one of loops, or with factorisations."""
    first = graph.equations[0].primitive if len(graph.equations) == 1 else None
    if first not in (scan, None) or not any(map(_takes_time, graph.equations)):
        return refusal("neither a scan nor a factorisation", "moves")
    return None


def _loops(graph: Graph) -> Kernel:
    """The kernel of a Graph with loops.

    Raises:
      Refused: if a part has none, or for large intermediates for little work.
    """
    first = graph.equations[0].primitive if len(graph.equations) == 1 else None
    mine = set(graph.equations[0].outputs)
    own = len(mine & {*graph.outputs}) == len(graph.outputs)
    made = _scan(graph) if first is scan and own else _sequence(graph)
    if len(made.module) > tuned.loop_lines:
        raise Refused(f"{len(made.module)} lines of IR", "long", lines=len(made.module))
    loops = any(structural(e.primitive) for e in graph.equations)
    most = made.cost_ns * (1.0 if loops else tuned.straight_bytes)
    if made.scratch > max(FREE, most):  # the pool keeps values between programs
        raise Refused(f"{made.scratch} bytes of new memory", "memory", bytes=made.scratch)
    return made


def _takes_time(equation: Equation) -> bool:
    """Whether an equation is a loop, or a factorisation that else is a call of LAPACK."""
    return structural(equation.primitive) is not None or _factorises(equation)


def _factorises(equation: Equation) -> bool:
    """Whether an equation is a factorisation that else is a call of LAPACK."""
    own = factorisations.factorised(equation) or matrix_factors.by_lapack(equation)
    return own or lapack.by_lapack(equation)


def _part(graph: Graph, large: bool = False) -> Kernel | Refusal:
    """The kernel of a part; why it has none.

    Args:
      graph: the part.
      large: whether the BLAS may compute it.
    """
    (first, *_) = graph.equations
    loop = structural(first.primitive) is not None
    generators = LOOP_GENERATORS if loop else ARRAY_GENERATORS
    if large:
        generators = (large_kernel, *generators, stacked_product)
    kernel, refusals = chosen(graph, generators)
    if kernel is not None:
        return kernel
    last = refusals[-1]
    return last._replace(equation=last.equation or first)


def _stack_refusal(graph: Graph) -> Refusal | None:
    """Why a Graph is not one equation on stacked matrices."""
    (equation, *more) = graph.equations
    if more or equation.primitive not in OF_STACKS:
        return refusal(equation.primitive.name, equation=equation)
    if max(a.type.ndim for a in (*equation.inputs, *equation.outputs)) < 3:
        return refusal("a matrix that is not in a stack", equation=equation)
    return None


def _stack(graph: Graph) -> Kernel:
    """The kernel of an equation on stacked matrices, as a scan over them."""
    (equation,) = graph.equations
    atoms = dict.fromkeys([a for a in equation.inputs if not isinstance(a, Literal)])
    depth, (length,) = max((a.type.ndim, a.type.shape[:1]) for a in atoms)
    rows = [a for a in atoms if a.type.ndim == depth and a.type.shape[0] == length]
    others = [a for a in atoms if a not in rows]
    inner = {a: Variable(Type(a.type.shape[a in rows :], a.type.dtype)) for a in (*others, *rows)}
    outputs = tuple([Variable(Type(v.type.shape[1:], v.type.dtype)) for v in equation.outputs])
    repeated = [a for a in others if a.type.ndim == depth]  # of length 1
    matrices = {a: Variable(Type(a.type.shape[1:], a.type.dtype)) for a in repeated}
    views = [placed(equation, reshape, (inner[a],), (v,), {"shape": v.type.shape})
             for a, v in matrices.items()]  # fmt: skip
    given = tuple([a if isinstance(a, Literal) else matrices.get(a, inner[a])
                   for a in equation.inputs])  # fmt: skip
    whole = (*views, copied(equation, given, outputs))
    body = Graph(tuple(inner.values()), (), whole, outputs)
    params = {"body": body, "counts": (len(others), 0), "length": length, "reverse": False,
              "unroll": 1, "checkpoint": None}  # fmt: skip
    loop = placed(equation, scan, (*others, *rows), equation.outputs, params)
    return _scan(graph.replace(equations=(loop,)))


def _sequence_refusal(graph: Graph) -> Refusal | None:
    """Why a Graph is not a sequence of parts that are worth a call each."""
    most = max([v.type.size for e in graph.equations for v in e.outputs], default=0)
    if len(graph.equations) < 2 or most < tuned.sequence_elements:
        return refusal(f"a sequence of arrays of {most} elements", "small", elements=most)
    return None


def _in_order(graph: Graph) -> Kernel:
    """The kernel of a Graph whose parts are kernels.

    Raises:
      Refused: if a part has none, or for large intermediates, which the buffer pool keeps, or for
        very much memory.
    """
    made = _sequence(graph)
    kept = set(graph.outputs)
    inner = [v.type.nbytes for e in graph.equations for v in e.outputs if v not in kept]
    if made.scratch > (LARGE if max(inner, default=0) >= LARGE else tuned.sequence_bytes):
        raise Refused(f"{made.scratch} bytes of new memory", "memory", bytes=made.scratch)
    return made


def _longest_refusal(graph: Graph) -> Refusal | None:
    """Why a Graph is not one program of numbers, however long: its loops over arrays have too much
    memory together, and are programs of their own.
    """
    refused = long_kernel.refusal(graph)
    found: Any = refused or attempted(lambda: loop_kernel(graph))
    return refused or (found if isinstance(found, Refusal) and found.code == "memory" else None)


small_kernel = Generator(_small)
loop_kernel = Generator(_loops, _loops_refusal)
sequence_kernel = Generator(_in_order, _sequence_refusal)
OF_STACKS = frozenset((*factorisations.RULES, *factorisations.LIGHT, *lapack.RULES,
                       *matrix_factors.KERNELS, *equal_values.RULES))  # fmt: skip
"""The primitives of which a stack is a loop over its matrices."""
LOOP_GENERATORS = (small_kernel, loop_kernel)
"""The generators of one loop."""
longest_kernel = Generator(long_kernel.write, _longest_refusal)
"""A program of numbers of any length, where loops over arrays are not possible."""
ARRAY_GENERATORS = (
    single_kernel, cheap_kernel, Generator(_stack, _stack_refusal), scalar_kernel,
)  # fmt: skip
"""The generators of a part without loops."""


class _Writer:
    """Writes a function that calls kernels.

    Args:
      graph: the Graph with the function's arguments and results.
      within: bytes of scratch memory for the kernels that it calls.

    Attributes:
      code: the function.
      scratch: the bytes of its scratch memory.
      pointers: the pointers to the arrays of the Graph, by identity.
    """

    def __init__(self, graph: Graph, within: int) -> None:
        self.graph, self.module = graph, Module()
        self.code = kernel_function(self.module, "i32")
        self.scratch, self.cost, self.constants = 0, 0.0, list[Any]()
        self.loops: list[str] = []
        self.names: dict[Module, Mapping[str, str]] = {}
        """The names here of the functions of kernels that are called already."""
        self.within = self.room(within)
        self.pointers: dict[Atom, Value] = {v: self.array(n) for n, v in enumerate(graph.inputs)}
        self.pointers.update((v, self.constant(x)) for v, x in graph.constants)

    def array(self, place: int) -> Value:
        """The pointer to an array that the function receives."""
        return self.code.load(self.code.at(self.code.parameters[0], place, "ptr"), "ptr")

    def result(self, place: int) -> Value:
        return self.array(len(self.graph.inputs) + place)

    def constant(self, array: Any) -> Value:
        self.constants.append(np.asarray(array))
        return self.result(len(self.graph.outputs) + len(self.constants) - 1)

    def pointer(self, atom: Atom) -> Value:
        if isinstance(atom, Literal):
            return self.constant(np.asarray(atom.value, atom.type.dtype))
        return self.pointers[atom]

    def room(self, size: int) -> Value:
        """The pointer to new scratch memory."""
        found = self.code.at(self.code.parameters[3], self.scratch)
        self.scratch += whole_lines(size)
        return found

    def table(self, kernel: Kernel) -> Value:
        """A table for the pointers that a kernel receives, with those of its constants."""
        count = len(kernel.inputs) + len(kernel.outputs)
        if count + len(kernel.constants) > MOST_ARRAYS:
            raise Refused(f"{count} arrays in a part of a loop")
        table = Value(f"%{self.code.label('table')}", "ptr")
        self.code.first(f"alloca [{count + len(kernel.constants)} x ptr]", table.text)
        for n, array in enumerate(kernel.constants):
            self.put(table, count + n, self.constant(array))
        return table

    def put(self, table: Value, place: int, pointer: Value) -> None:
        self.code.store(pointer, self.code.at(table, place, "ptr"))

    def call(self, kernel: Kernel, table: Value) -> None:
        """Runs a kernel, and returns its status if that is not 0."""
        code, names = self.code, self.names.get(kernel.module)
        if names is None:
            names = self.names[kernel.module] = self.module.absorb(kernel.module)
        given = [table, *[code.constant(n, "i64") for n in (0, kernel.units)], self.within]
        self.cost += kernel.cost_ns + tuned.part_ns
        if kernel.units > 1 and kernel.cost_ns >= tuned.shared_ns:
            shared = [Value(f"@{names['kernel']}", "ptr"), table, *given[2:]]
            code.call("fg_share", "void", shared)
        else:
            status = code.call(names["kernel"], "i32" if kernel.interruptible else "void", given)
        if kernel.interruptible:
            self.end(status)
        if kernel.finish:
            self.end(code.call(names[kernel.finish], "i32", [table, self.within]))

    def end(self, status: Value) -> None:
        """Returns from the function if a status is not 0."""
        self.code.ret_unless(self.code.compare("eq", status, 0), status)

    def kernel(self) -> Kernel:
        self.code.ret(self.code.constant(0, "i32"))
        return Kernel(
            self.module, self.graph.input_types, self.graph.output_types, scratch=self.scratch,
            cost_ns=self.cost, interruptible=True, constants=self.constants,
            loops="\n".join(self.loops),
        )  # fmt: skip


def _sequence(graph: Graph) -> Kernel:
    """The kernel of a Graph, which calls those of its parts."""
    steps, known = _steps(graph)
    made = _Writer(graph, max([part.scratch for part, *_ in steps if part], default=0))
    made.pointers.update((i, made.constant(array)) for i, array in known.items())
    own = {v for kernel, _, outputs in steps if kernel for v in outputs}
    for place, atom in enumerate(graph.outputs):
        if atom in own and atom not in made.pointers:
            made.pointers[atom] = made.result(place)
    _assign(made, steps)
    for step in steps:
        _call(made, *step)
    there = set[Atom]()
    for place, atom in enumerate(graph.outputs):
        if atom in own and atom not in there:
            there.add(atom)
        else:
            made.code.copy(made.result(place), made.pointer(atom), atom.type.nbytes)
    return made.kernel()


_Step = tuple[Kernel | None, Sequence[Atom], Sequence[Atom]]
"""The kernel of a part, its inputs and its outputs; None for an array that is reshaped."""


def _steps(graph: Graph) -> tuple[list[_Step], dict[Atom, Any]]:
    """The parts of a Graph in order, and the values that are known already.

    Raises:
      Refused: if a part has no kernel, or the parts have too many lines of IR.
    """
    found = list[_Step]()
    known, lines, modules = dict[Atom, Any](), 0, set[Module]()
    large = lapack.available() and any(map(_factorises, graph.equations))
    make = Once(partial(_part, large=large)).of
    graph = _with_copies(matrix_factors.by_calls(graph), make) if large else graph
    clustered = with_clusters(graph, make, 0, loops=False, most=math.inf)
    for equation in (clustered or graph).equations:
        primitive, params, (out, *more) = equation.primitive, equation.params, equation.outputs
        runner = params.get("runner")
        part = runner if isinstance(runner, Kernel) else None
        inputs: Sequence[Atom] = equation.inputs
        outputs: Sequence[Atom] = equation.outputs
        if part is None:
            small = all(v.type.size <= tuned.stored_constant for v in equation.outputs)
            if not inputs and small and hasattr(primitive, "eval"):
                made = primitive.eval(**params)
                values = made if primitive.multiple else [made]
                for v, value in zip(equation.outputs, values, strict=True):
                    known[v] = np.asarray(value, v.type.dtype)
                continue
            if primitive is not reshape and (more or out.type.size):
                alone = cluster_graph(graph, [equation])
                own = make(alone)
                if isinstance(own, Refusal):
                    raise Refused(own)
                part, inputs, outputs = own, alone.inputs, alone.outputs
        found.append((part, inputs, outputs))
        if part is None:  # a reshaped array, or one without elements
            continue
        lines += 0 if part.module in modules else len(part.module)
        modules.add(part.module)
        if lines > tuned.loop_lines:
            raise Refused(f"more than {tuned.loop_lines} lines of IR", "long", lines=lines)
    return found, known


def _with_copies(graph: Graph, make: Callable[[Graph], Any]) -> Graph:
    """The Graph with calls of kernels in place of transposes of large matrices, which loops over
    elements do not read column by column.
    """
    calls = {}
    for equation in graph.equations:
        if equation.primitive is transpose and lapack.LARGE[transpose].refusal(equation) is None:
            alone = cluster_graph(graph, [equation])
            kernel, given, found = make(alone), alone.inputs, alone.outputs
            calls[equation] = program_call(NAME, equation, kernel, given, found, [equation])
    return graph.replace(equations=tuple([calls.get(e, e) for e in graph.equations]))


def _call(
    made: _Writer, kernel: Kernel | None, inputs: Sequence[Atom], outputs: Sequence[Atom]
) -> None:
    """Writes the call of a part."""
    if kernel is None:
        made.pointers[outputs[0]] = made.pointer(inputs[0])
        return
    table = made.table(kernel)
    for n, atom in enumerate((*inputs, *outputs)):
        made.put(table, n, made.pointer(atom))
    made.call(kernel, table)
    made.loops += [kernel.loops] if kernel.loops else []


def _assign(made: _Writer, steps: Sequence[_Step]) -> None:
    """Gives the intermediates memory; those with disjoint lifetimes may share it."""
    root, born, last = dict[Atom, Atom](), dict[Atom, int](), dict[Atom, int]()
    inner = list[Atom]()
    for now, (kernel, inputs, outputs) in enumerate(steps):
        if kernel is None:
            root[outputs[0]] = root.get(inputs[0], inputs[0])
        else:
            inner += [v for v in outputs if v not in made.pointers]
            born.update((v, now) for v in outputs)
        last.update((root.get(atom, atom), now) for atom in (*inputs, *outputs))
    last.update((root.get(atom, atom), len(steps)) for atom in made.graph.outputs)
    sizes, spans = [v.type.nbytes for v in inner], [(born[v], last[v]) for v in inner]
    offsets, size = packed(sizes, spans)
    memory = made.room(size)
    for v, offset in zip(inner, offsets, strict=True):
        made.pointers[v] = made.code.at(memory, offset)


def _scan(graph: Graph) -> Kernel:
    """The kernel of a scan."""
    (equation,) = graph.equations
    params, results = equation.params, {v: n for n, v in enumerate(graph.outputs)}
    body, length, (first, count) = optimised(params["body"]), params["length"], params["counts"]
    places = [results.get(v) for v in equation.outputs]
    carried = body.outputs[:count]
    stacked = [(atom, n) for atom, n in zip(body.outputs, places, strict=True) if n is not None]
    stacked = stacked[sum(n is not None for n in places[:count]) :]
    computed = {v for e in body.equations for v in e.outputs}
    rows = [atom if atom in computed else 0 for atom, _ in stacked]
    own = [atom for atom in carried if atom not in rows]
    kernel = _sequence(body.replace(outputs=(*own, *[atom for atom, _ in stacked])))
    made = _Writer(graph, kernel.scratch)
    code, table = made.code, made.table(kernel)
    given = parts(list(map(made.pointer, equation.inputs)), (first, count))
    for n, pointer in enumerate((*given.consts, *given.carry)):
        made.put(table, n, pointer)
    inputs, stacks = len(body.inputs), len(body.inputs) + len(own)
    sums = []
    for n, atom in enumerate(own):  # two alternating buffers
        both = [made.room(atom.type.nbytes) for _ in range(2)]
        made.put(table, inputs + n, both[0])
        sums.append(code.add(*[code.convert("ptrtoint", pointer, "i64") for pointer in both]))
    moving = [(first + count + n, array) for n, array in enumerate(given.xs)]
    moving += [(stacks + n, made.result(place)) for n, (_, place) in enumerate(stacked)]
    types = [v.type for v in (*body.inputs[first + count :], *[atom for atom, _ in stacked])]

    def entry(place: int, type: str = "ptr") -> Value:
        return code.load(code.at(table, place, "ptr"), type)

    def step(index: Value) -> None:
        at = code.sub(length - 1, index) if params["reverse"] else index
        for (place, array), type_ in zip(moving, types, strict=True):
            made.put(table, place, code.at(array, code.mul(at, type_.nbytes)))
        made.call(kernel, table)
        for n, atom in enumerate(carried):
            found = stacks + rows.index(atom) if atom in rows else inputs + own.index(atom)
            made.put(table, first + n, entry(found))
        for n, both in enumerate(sums):
            other = code.sub(both, entry(inputs + n, "i64"))
            code.store(other, code.at(table, inputs + n, "ptr"))
        often = 1 << int(tuned.signal_ns / made.cost).bit_length()
        if length > often:
            due = code.compare("eq", code.binary("and", index, often - 1), often - 1)
            code.if_else(due, lambda: made.end(code.call("fg_signalled", "i32", [])))

    code.for_range(0, length, step)
    made.cost *= length
    made.loops = [f"for {length} steps:", *[f"  {line}" for line in kernel.loops.split("\n")]]
    for n, found in enumerate(places[:count]):
        if found is not None:
            code.copy(made.result(found), entry(first + n), carried[n].type.nbytes)
    return made.kernel()
