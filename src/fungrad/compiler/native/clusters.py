"""Mixed Graphs: native clusters of the equations that loops over arrays can compute, and NumPy.

A cluster becomes one equation, which calls its native program; the Graph of these calls and the
remaining equations is compiled for NumPy. A loop is a cluster by itself; if it is refused, its body
becomes a mixed Graph. Connected equations of an odd level (`Levels`) are a cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.axis_splits import joins_or_splits
from fungrad.compiler.native.block_sums import reduction
from fungrad.compiler.native.fused import refusal_of
from fungrad.compiler.native.gathers import before_loops, writes, written
from fungrad.compiler.native.index_maps import SHORT, moved_operands, shifts
from fungrad.compiler.native.levels import Levels, costly_joins
from fungrad.compiler.native.short_axes import matrix_of, times_vector, unrollable
from fungrad.compiler.native.single_equations import separate
from fungrad.compiler.numpy_backend.program_calls import in_order, program_call
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.refusal import Refusal, refusal
from fungrad.control_flow.scan import scan
from fungrad.control_flow.while_loop import while_loop
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable, effectful
from fungrad.ir.types import Type
from fungrad.retracing.graph_transforms import memoised
from fungrad.retracing.inlining import copied, key_of_graph
from fungrad.runtime.buffer_pool import LARGE

NAME = "native_cluster"
"""The name of the primitive of a call."""
Make = Callable[[Graph], Any]
"""Makes the native program of a Graph, or its Kernel; the Refusal if it has none."""


class Reasons(dict[Equation, Refusal]):
    """Why equations are in no native program, by their identity."""

    def note(self, members: Sequence[Equation], refusal: Refusal) -> None:
        """Notes why equations are not native; the equation at fault has its own reason."""
        self.update((e, refusal) for e in members)


def with_clusters(
    graph: Graph, make: Make, least: int | None = None, reasons: Reasons | None = None,
    loops: bool = True, most: float = tuned.kernels,
) -> Graph | None:  # fmt: skip
    """The Graph with clusters replaced by calls of native programs; None if there are none.

    Args:
      graph: the Graph, after the passes.
      make: makes native programs.
      least: the fewest elements, over all equations, of a cluster; None for the usual bound.
      reasons: receives why equations are in none.
      loops: whether loops, or clusters of their bodies, are made native, too.
      most: the most clusters; equal ones count once.
    """
    reasons = Reasons() if reasons is None else reasons
    if any(map(effectful, graph.equations)):
        reasons.note(graph.equations, refusal("effects", "effects"))
        return None
    least = tuned.cluster_elements if least is None else least
    calls = _Calls(graph, make, least, reasons, most)
    for members in sorted(_clusters(graph, graph.equations, 0), key=_work, reverse=True):
        calls.take(members, 0)
    within: dict[Equation, Equation] = {}
    for equation in graph.equations:
        if equation not in calls.gone and separate(equation):
            calls.add([equation])
        if loops and equation.primitive in (scan, while_loop) and not calls.add([equation]):
            body = with_clusters(
                optimised(equation.params["body"]), make, tuned.repeated_elements, reasons
            )
            if body is not None:
                params = {**equation.params, "body": body}
                new = copied(equation, equation.inputs, equation.outputs, params)
                within[equation] = new
                reasons.update({new: reasons[equation]} if equation in reasons else {})
    if not (calls.found or within):
        return None
    left = [within.get(e, e) for e in graph.equations if e not in calls.gone]
    return graph.replace(equations=tuple(in_order([*left, *calls.found], graph)))


class Once:
    """Makes one program of Graphs that are alike: the steps of a loop that Python ran.

    Args:
      make: makes the program of a Graph.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._made: dict[Hashable, tuple[Graph, Any]] = {}
        """By key, the program and its Graph, which keeps alive what the key names."""

    def of(self, graph: Graph, *options: Hashable) -> Any:
        """The program of a Graph, made with these options."""
        key = key_of_graph(graph)
        if key is None:
            return self._make(graph, *options)
        if (key, options) not in self._made:
            self._made[key, options] = graph, self._make(graph, *options)
        return self._made[key, options][1]


class _Calls:
    """The calls of native programs that replace equations of a Graph."""

    def __init__(self, graph: Graph, make: Make, least: int, reasons: Reasons, most: float) -> None:
        self.graph, self.make, self.least, self.reasons = graph, make, least, reasons
        self.most = most
        self.made = set[Any]()
        """The programs, or modules of Kernels, that are called."""
        self.found: list[Equation] = []
        self.gone: set[Equation] = set()

    def take(self, members: Sequence[Equation], cut: int, new: bool = True) -> None:
        """Makes a cluster native, if it is new; else its parts, divided at more reductions."""
        size, most = _work(members), len(self.made) >= self.most
        if most or (len(members) < tuned.cluster_equations and size < self.least):
            count = "1 element" if size == 1 else f"{size:,} elements"
            small = f"{count}: below the {self.least:,} of a kernel"
            many = refusal(f"there are {self.most} kernels", "long", kernels=self.most)
            why = many if most else (
                refusal(small, "small", elements=size, least=self.least))  # fmt: skip
            self.reasons.note(members, why)
            return
        parts = list(_divided(members))
        if len(parts) > 1:
            for part in parts:
                self.take(part, cut)
        elif not (new and self.add(members)) and cut < 3:
            for part in sorted(_clusters(self.graph, members, cut + 1), key=_work, reverse=True):
                self.take(part, cut + 1, len(part) < len(members))

    def add(self, members: Sequence[Equation]) -> bool:
        """Makes equations native; False if they are refused."""
        inner = cluster_graph(self.graph, members)
        runner = self.make(inner)
        if isinstance(runner, Refusal):
            self.reasons.note(members, runner)
            return False
        self.made.add(getattr(runner, "module", runner))
        call = program_call(NAME, members[0], runner, inner.inputs, inner.outputs, members)
        self.found.append(call)
        self.gone.update(members)
        return True


def _divided(members: Sequence[Equation]) -> Iterator[Sequence[Equation]]:
    """Parts of a cluster that read at most READ values."""
    start, read, made = 0, set[Atom](), set[Atom]()
    for n, equation in enumerate(members):
        inputs = {a for a in equation.inputs if isinstance(a, Variable)} - made
        if n > start and len(read | inputs) > tuned.cluster_arrays:
            yield members[start:n]
            start, read, made = n, set(), set()
            inputs = {a for a in equation.inputs if isinstance(a, Variable)}
        read |= inputs
        made.update(equation.outputs)
    yield members[start:]


def _work(members: Sequence[Equation]) -> int:
    return sum(max(a.type.size for a in (*e.inputs, *e.outputs)) for e in members)


def _clusters(graph: Graph, equations: Sequence[Equation], cut: int) -> Iterator[list[Equation]]:
    """The equations of each cluster: see `_levels`."""
    level, ended = _levels(graph, equations, cut)
    _sink(graph, equations, level, ended)
    members: dict[int, list[Equation]] = {}
    for equation in equations:
        found = level[equation.outputs[0]]
        if found % 2:
            members.setdefault(found, []).append(equation)
    place = {equation: n for n, equation in enumerate(equations)}
    for found in sorted(members):
        for part in _connected(sorted(members[found], key=place.__getitem__)):
            above = _joined_by(graph, part, level, ended)
            if above is None:
                yield part
            else:
                members[above] += part


def _levels(
    graph: Graph, equations: Sequence[Equation], cut: int
) -> tuple[dict[Atom, int], set[Atom]]:
    """The level of each value, odd in clusters and even between them, and the values that end
    theirs: what reads such a value is in a later one.

    Args:
      graph: the Graph.
      equations: some of its equations.
      cut: 0 ends clusters at reductions of large arrays to a number, or along axes of other
        lengths than the main ones; 1 also at reductions along other axes than those, at reshapes
        that join or split axes, and at moves of values that have been moved or need a reduction; 2
        begins clusters at those, too, and ends them at joins; 3 leaves small matrices to NumPy.
    """
    level: dict[Atom, int] = {}
    available = Levels()
    ended: set[Atom] = set()
    axes, wrote, moves = _main_axes(equations), written(graph), dict[Atom, int]()
    summed: set[Atom] = set()
    """The values that need a reduction of their cluster."""
    joins = costly_joins(graph)
    for equation in equations:
        reduced = _reduced(equation)
        other = bool(reduced) and reduced != axes
        fits = refusal_of(equation) is None or (cut < 1 and joins_or_splits(equation))
        if fits and not (cut >= 3 and unrollable(equation)):
            found = available.odd(equation.inputs, later=cut >= 2 and other)
            found = max(found, available.odd(before_loops(equation), later=True))
            moved = moved_operands(equation)
            times = {a: moves.get(a, 0) * (level.get(a) == found) + (a in moved)
                     for a in equation.inputs}  # fmt: skip
            deep = max(times.values(), default=0)
            part = shifts(equation)
            ends_here = [a for a, n in times.items()
                         if n > tuned.cluster_moves or (part and a in summed)]  # fmt: skip
            if cut >= 1 and ends_here:
                ended.update(ends_here)
                found, deep = available.odd(equation.inputs, later=True), 1
            moves.update((v, deep) for v in equation.outputs)
            if reduced or any(a in summed and level.get(a) == found for a in equation.inputs):
                summed.update(equation.outputs)
            if equation in joins:
                ended.update(equation.inputs)
                found = available.odd(equation.inputs, later=True)
            if equation.outputs[0] in wrote and not writes(equation):
                levels = {level[a] for a in equation.inputs}  # of the parts of a sum
                found = min(levels) if len(levels) == 1 else found
            if equation.outputs[0] in wrote or _ends(equation, reduced, axes, cut):
                ended.add(equation.outputs[0])
        else:
            found = available.even(equation.inputs)
        level.update((v, found) for v in equation.outputs)
        available.update((v, found + (v in ended)) for v in equation.outputs)
    return level, ended


def _ends(equation: Equation, reduced: Axes, axes: Axes, cut: int) -> bool:
    """Whether what reads the result of an equation is in a later cluster."""
    unlike = any(dict(axes).get(axis, n) != n for axis, n in reduced)
    other = bool(reduced) and reduced != axes
    joins = shifts(equation) and len(equation.inputs) > 1
    return unlike or (cut >= 1 and other) or (cut >= 2 and joins) or _reduces_all(equation)


def _sink(
    graph: Graph, equations: Sequence[Equation], level: dict[Atom, int], ended: set[Atom]
) -> None:
    """Moves an equation to a later cluster if only that reads it, and does not read more elements
    then.
    """
    readers, kept = _readers(graph), ended.union(graph.outputs)
    kept |= {atom for equation in equations for atom in before_loops(equation)}
    for equation in reversed(equations):
        (out, *more) = equation.outputs
        at = level[out]
        if at % 2 == 0 or out in kept or more:
            continue
        above = {level.get(e.outputs[0], 0) for e in readers.get(out, ())}
        near = {a: a.type.size for a in equation.inputs if level.get(a, 0) == at}
        less = sum(n for n in near.values() if n > 1) <= out.type.size
        if len(above) == 1 and min(above) % 2 and min(above) > at and less:
            level[out] = min(above)


def _joined_by(
    graph: Graph, part: Sequence[Equation], level: Mapping[Atom, int], ended: set[Atom]
) -> int | None:
    """The level of the later cluster that computes a part of one instead, as it reads more of its
    values than that reads arrays; None if there is none.
    """
    made, mine, known = {v for e in part for v in e.outputs}, set(part), _readers(graph)
    if not (made.isdisjoint(ended) and made.isdisjoint(graph.outputs)):
        return None
    read = {a for e in part for a in e.inputs if a.type.size > 1} - made
    readers = [e for v in made for e in known.get(v, ()) if e not in mine]
    crossing = {a for e in readers for a in e.inputs} & made
    above = {level.get(e.outputs[0], 0) for e in readers}
    whole = {a for e in readers for a in before_loops(e)}
    if len(above) != 1 or min(above) % 2 == 0 or whole & made or len(read) >= len(crossing):
        return None
    return min(above)


Axes = tuple[tuple[int, int], ...]
"""Axes, counted from the last (-1), with their lengths."""


def _reduced(equation: Equation) -> Axes:
    """The axes along which an equation reduces an array to an array; () if they are short."""
    if times_vector(equation):
        which, axis = matrix_of(equation)
        length = equation.inputs[which].type.shape[axis]
        return () if length <= SHORT else ((axis - 2, length),)
    if reduction(equation) is None or equation.outputs[0].type.size == 1:
        return ()
    shape = equation.inputs[0].type.shape
    found = [a for a in equation.params["axes"] if shape[a] > 1]
    short = max([shape[a] for a in found], default=1) <= SHORT
    return () if short else tuple([(a - len(shape), shape[a]) for a in found])


def _main_axes(equations: Sequence[Equation]) -> Axes:
    """The axes of most reduced elements, among reductions that equally large arrays need; without
    any, those of the first product with a vector.
    """
    work: Counter[Axes] = Counter()
    needed: dict[Atom, int] = {}
    for equation in reversed(equations):
        size = max([v.type.size for v in equation.outputs])
        size = max([size, *[needed.get(v, 0) for v in equation.outputs]])
        for atom in equation.inputs:
            needed[atom] = max(size, needed.get(atom, 0))
        most = max([a.type.size for a in equation.inputs], default=0)
        if most and size >= most:
            work[_reduced(equation)] += most
    del work[()]
    products = [_reduced(equation) for equation in equations if times_vector(equation)]
    return max(work, key=work.__getitem__, default=(*products, ())[0])


def _reduces_all(equation: Equation) -> bool:
    """Whether an equation reduces a large array to a number: its readers pass over memory again."""
    whole = equation.outputs[0].type.size == 1 and reduction(equation) is not None
    return whole and equation.inputs[0].type.size > tuned.cluster_elements


def _connected(equations: Sequence[Equation]) -> Iterator[list[Equation]]:
    """Groups of equations that read each other, or the same arrays."""
    root: dict[Atom, Atom] = {}

    def find(atom: Atom) -> Atom:
        while root.setdefault(atom, atom) is not atom:
            root[atom] = root[root[atom]]
            atom = root[atom]
        return atom

    for equation in equations:
        out = equation.outputs[0]
        root.update((v, find(out)) for v in equation.outputs if not equation.inputs)
        root.update((v, find(out)) for v in equation.outputs[1:])
        for atom in equation.inputs:
            if isinstance(atom, Variable) and (atom.type.size > 1 or atom in root):
                root[find(atom)] = find(out)
    groups: dict[Atom, list[Equation]] = {}
    for equation in equations:
        groups.setdefault(find(equation.outputs[0]), []).append(equation)
    yield from groups.values()


def _readers(graph: Graph) -> Mapping[Atom, Sequence[Equation]]:
    """The equations that read each value of a Graph."""

    def found() -> Mapping[Atom, Sequence[Equation]]:
        readers: dict[Atom, list[Equation]] = {}
        for equation in graph.equations:
            for atom in equation.inputs:
                readers.setdefault(atom, []).append(equation)
        return readers

    result: Mapping[Atom, Sequence[Equation]] = memoised(graph, "readers", found)
    return result


def cluster_graph(graph: Graph, members: Sequence[Equation]) -> Graph:
    """Some equations as a Graph: its inputs come from outside, its outputs are read outside."""
    mine = set(members)
    made = {v for e in members for v in e.outputs}
    constants = {v: (v, value) for v, value in graph.constants}
    read = [a for e in members for a in e.inputs if not isinstance(a, Literal)]
    inputs = {a: a for a in read if a not in made and a not in constants}
    readers, kept = _readers(graph), set(graph.outputs)
    outputs = [v for e in members for v in e.outputs
               if v in kept or any(r not in mine for r in readers.get(v, ()))]  # fmt: skip
    outputs.sort(key=lambda v: v in kept or v.type.nbytes < LARGE)  # see `in_pool`
    used = {a: constants[a] for a in read if a in constants}
    return Graph(tuple(inputs.values()), tuple(used.values()), tuple(members), tuple(outputs),
                 graph.name, graph.reassociate)  # fmt: skip


def in_pool(cluster: Graph, graph: Graph) -> list[Type]:
    """The types of the first outputs of a cluster that can be in the buffer pool: they are large,
    and only equations of the Graph read them.
    """
    kept = set(graph.outputs)
    inner = [a not in kept and a.type.nbytes >= LARGE for a in cluster.outputs]
    return cluster.output_types[: (*inner, False).index(False)]
