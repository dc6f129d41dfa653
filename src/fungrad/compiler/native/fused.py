"""Vector loops for Graphs of elementwise equations, moved elements and reductions.

Each output is stored, and each reduction to a number computed, by a loop nest over its elements;
those of one shape share a nest. If arrays depend on reductions along axes, there is one nest of
rows for each set of reduced axes. Work is divided into units of about 4,096 elements, for threads.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.axis_splits import with_split_axes
from fungrad.compiler.native.block_sums import Reduction, by_pairs, reduction
from fungrad.compiler.native.complex_numbers import real_form
from fungrad.compiler.native.element_operations import (
    TYPES,
    cost,
    known,
    of_python,
    takes_halves,
)
from fungrad.compiler.native.element_values import Body, KernelGraph
from fungrad.compiler.native.gathers import Write, Written, indirect, searches, written
from fungrad.compiler.native.generators import Generator
from fungrad.compiler.native.index_maps import (
    SHORT,
    WIDEST,
    FlatMaps,
    IndexMap,
    IndexMaps,
    Limit,
    Piece,
    Through,
    movable,
    moves_deeply,
)
from fungrad.compiler.native.kernel import GIVEN_UP, Kernel, kernel_function
from fungrad.compiler.native.levels import costly_joins
from fungrad.compiler.native.llvm_ir import Function, Module
from fungrad.compiler.native.loop_nests import Nest, Root
from fungrad.compiler.native.machine_code import host
from fungrad.compiler.native.row_buffers import box_nest, row_nest
from fungrad.compiler.native.rows import (
    embedded,
    for_arrays,
    reduced_loops,
    row_maps,
)
from fungrad.compiler.native.scratch_layout import whole_lines
from fungrad.compiler.native.short_axes import (
    is_narrow_product,
    times_vector,
    unrollable,
    unrolled,
    with_narrow_products,
)
from fungrad.compiler.refusal import Refusal, Refused, attempted, refusal
from fungrad.ir.graph import Atom, Equation, Graph, Variable
from fungrad.primitives.elementwise.by_elements import elementwise
from fungrad.primitives.facts import sections_of
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum, reshape
from fungrad.primitives.movement.stack_iota import unstack
from fungrad.primitives.primitive import full
from fungrad.retracing.graph_transforms import drop_dead
from fungrad.support.lazy import Record

Depends = dict[Atom, set[tuple[int, ...]]]
"""For each value, the axes of the reductions that it depends on."""


def _refusal(graph: Graph, cheap: bool = False) -> Refusal | None:
    """Why loops over arrays do not compute a Graph, by its equations; None if they may.

    Args:
      graph: the Graph.
      cheap: whether one that only moves elements, or makes one cheap NumPy call, is accepted.
    """
    for join in costly_joins(graph):
        return refusal("a join of computed parts", "layout", join)
    if len(graph.equations) == 1 and not cheap and times_vector(graph.equations[0]):
        return refusal("a single product with a vector", "moves", graph.equations[0])
    made = attempted(lambda: unrolled(with_split_axes(graph))[0])
    if isinstance(made, Refusal):
        return made
    live = drop_dead(made).equations
    own = next(filter(None, map(refusal_of, live)), None)
    if own is None and not cheap and sum(map(_work, live)) <= tuned.one_call_ns:
        return refusal("data movement only, or a single NumPy call", "moves")
    return own


def _kernel(graph: Graph) -> Kernel:
    """The kernel of a Graph: with short axes unrolled, or if its layout forbids that with loops
    along them.

    Raises:
      Refused: if the layout forbids both, or the text is too long.
    """
    if len(graph.equations) > tuned.moved_equations and moves_deeply(graph):
        raise Refused("moves of moved arrays", "long")
    graph = with_split_axes(graph)
    whole, doubtful = unrolled(graph)
    made: Kernel | Refusal = refusal("too many operations along short axes", "long")
    if _has_short_axes(whole):
        made = attempted(lambda: _Program(whole, doubtful, short=True).kernel())
    if not isinstance(made, Refusal):
        return made
    if any(unrollable(e) and not times_vector(e) for e in graph.equations):
        raise Refused(made)
    return _Program(whole, doubtful).kernel()


fused_kernel = Generator(_kernel, _refusal)
cheap_kernel = Generator(_kernel, functools.partial(_refusal, cheap=True))
"""The generator of parts of a native program, where even one move is a call less."""


def _lanes_refusal(graph: Graph) -> Refusal | None:
    """Why no loops over items with lanes along their last axis compute a Graph."""
    if not _width(graph):
        return refusal("no products of narrow arrays")
    made = attempted(lambda: with_narrow_products(graph)[0])
    if isinstance(made, Refusal):
        return made
    return next(filter(None, map(refusal_of, drop_dead(made).equations)), None)


def _width(graph: Graph) -> int:
    """The length of the last axis of the results of narrow products; 0 if they do not agree, or do
    not fit two registers, and 64 bytes.
    """
    products = [e for e in graph.equations if is_narrow_product(e)]
    found = set[int]()
    for equation in products:
        shape = equation.outputs[0].type.shape
        found.add(next((n for n in reversed(shape) if 1 < n <= WIDEST), 0))
    (width, *others) = found or {0}
    room = min(64, 2 * host().vector_bytes)
    fits = all(width * e.outputs[0].type.dtype.itemsize <= room for e in products)
    return width if not others and width in (WIDEST // 2, WIDEST) and fits else 0


def _with_lanes(graph: Graph) -> Kernel:
    return _Program(*with_narrow_products(graph), width=_width(graph)).kernel()


lane_kernel = Generator(_with_lanes, _lanes_refusal)
"""The generator of loops over items of a few numbers with products."""


def _has_short_axes(graph: Graph) -> bool:
    """Whether arrays have axes that are too short for lanes, and small enough to be unrolled."""
    longest, copies, some = 0, 0, False
    for equation in graph.equations:
        shapes = [a.type.shape for a in (*equation.inputs, *equation.outputs)]
        short = [math.prod([n for n in shape if n <= SHORT]) for shape in shapes]
        long = [math.prod(shape) // n for shape, n in zip(shapes, short, strict=True) if n]
        some = some or any(m > 1 and n > 1 for m, n in zip(long, short, strict=False))
        some = some or any(shape and shape[-1] == 1 < math.prod(shape) for shape in shapes)
        longest, copies = max([longest, *long]), copies + max(short, default=1)
    return some and longest >= tuned.unrolled_elements and copies <= tuned.unrolled_equations


def refusal_of(equation: Equation) -> Refusal | None:
    """Why loops over arrays cannot compute an equation, as data; None if they may."""
    name, atoms = equation.primitive.name, (*equation.inputs, *equation.outputs)
    if unrollable(equation):
        return None
    if len(equation.outputs) != 1 and equation.primitive is not unstack:
        return refusal(f"{name}, of several outputs", equation=equation)
    if any(a.type.dtype.kind == "c" for a in atoms):
        return _complex_refusal(equation)
    for atom in atoms:
        if atom.type.dtype not in TYPES:
            return refusal(f"{name} of {atom.type.dtype}", "dtype", equation)
    if of_python(equation):
        return refusal(f"{name} of unbounded Python integers", equation=equation)
    if any(a.type.size == 0 for a in atoms):
        return refusal(f"{name} of an empty array", equation=equation)
    if movable(equation) or indirect(equation) or searches(equation):
        return None
    if equation.primitive is reshape:
        return refusal("a reshape that joins or splits axes", "layout", equation)
    if elementwise(equation):
        fits = known(equation.primitive)
    else:
        fits = equation.primitive is full or reduction(equation) is not None
    return None if fits else refusal(name, equation=equation)


def _complex_refusal(equation: Equation) -> Refusal | None:
    """`refusal_of` an equation on complex numbers."""
    inputs = dict.fromkeys([a for a in equation.inputs if isinstance(a, Variable)])
    alone = Graph(tuple(inputs), (), (equation,), equation.outputs)
    found = attempted(lambda: real_form(alone))
    if isinstance(found, Refusal):
        return found._replace(equation=equation)
    return next(filter(None, map(refusal_of, found.equations)), None)


def _work(equation: Equation) -> float:
    """Estimated nanoseconds per element; 0 for equations that move elements, unless they add
    parts, for each of which NumPy makes a call. NumPy's reads and writes by index arrays,
    and reductions along an axis, take the time of several calls.
    """
    if movable(equation):
        return tuned.one_call_ns * sum([part.adds for part in sections_of(equation) or ()])
    if equation.primitive is full:
        return 0.0
    if elementwise(equation):
        return cost(equation)
    several = takes_halves(equation) or indirect(equation) or _along_an_axis(equation)
    return tuned.one_call_ns * (2 if several else 1)


def _along_an_axis(equation: Equation) -> bool:
    """Whether an equation reduces arrays along some of their axes, not to a number."""
    return reduction(equation) is not None and equation.outputs[0].type.size > 1


class Sum(Record):
    """One number of the result of a reduction.

    Attributes:
      reduction: the reduction.
      index_map: the index of the number in the result.
    """

    reduction: Reduction
    index_map: IndexMap

    def operands(self, indices: Sequence[IndexMap]) -> list[list[Piece]]:
        """The pieces that are reduced, for operands at some indices."""
        equation = self.reduction.equation
        axes = equation.params.get("axes", (0,))
        mine = []
        for index in indices:
            if tuple([a for i, a in enumerate(index) if i not in axes]) == self.index_map:
                mine.append([Piece(atom, index) for atom in equation.inputs])
        return mine


class _Program:
    """The functions of a kernel.

    Args:
      graph: the Graph.
      doubtful: whether its last output is the number 1.0 where the NumPy program has to do the
        work: then `finish` says so, in place of a result.
      short: whether short axes are unrolled.
      width: the length of the axis that fills the lanes, if that is one of an item.

    Raises:
      Refused: if the arrays have no such loops in common.
    """

    def __init__(
        self, graph: Graph, doubtful: bool = False, short: bool = False, width: int = 0
    ) -> None:
        live = drop_dead(graph).equations
        self.doubt = graph.outputs[-1] if doubtful else None
        graph = graph.replace(outputs=graph.outputs[: len(graph.outputs) - doubtful])
        self.graph, self.module = graph, Module()
        self.source = KernelGraph(graph, short, width)
        self.sums = self._to_numbers(live)
        self.written = self._writes()
        if width:
            self.written.update(self._sums_of_items())
        self.stored = [n for n, a in enumerate(graph.outputs)
                       if self.source.is_array(a) and n not in self.written]  # fmt: skip
        maps = [] if width else row_maps(self.source)
        every = list(enumerate(self.sums))
        self.nests = self._rows(maps) if maps else self._boxes(self.stored, self.written, every)
        if not self.nests:
            raise Refused("no array among operands and results")
        arrays = self.source.arrays
        bases = {n: arrays.get(w.base) if w.base else None for n, w in self.written.items()}
        for nest in self.nests:
            nest.bases = bases

    def _to_numbers(self, equations: Sequence[Equation]) -> list[Sum]:
        """The reductions of arrays to numbers, or to short axes."""
        sums = list[Sum]()
        for equation in equations:
            found, out = reduction(equation), equation.outputs[0]
            if found is None or self.source.is_array(out):
                continue
            if self.source.is_array(equation.inputs[0]):
                if found.type == "half":
                    raise Refused("a sum of few rows of halves", "layout", equation)
                sums += [Sum(found, index) for index in self.source.elements(out)]
        return sums

    def _writes(self) -> dict[int, Written]:
        """The outputs that are written by index arrays."""
        known, found = written(self.graph), dict[int, Written]()
        for n, atom in enumerate(self.graph.outputs):
            if atom not in known:
                continue
            base, parts = found[n] = known[atom]
            if base is not None and base not in self.source.arrays:
                raise Refused("a write into a computed array", "layout", parts[0].equation)
            if not self.source.is_array(parts[0].value):
                raise Refused("a write of few values", "small", parts[0].equation)
        return found

    def _sums_of_items(self) -> dict[int, Written]:
        """The outputs that are sums over items, and that nothing else reads: items add to them."""
        read = {a for e in self.graph.equations for a in e.inputs}
        found = dict[int, Written]()
        for n, atom in enumerate(self.graph.outputs):
            made = self.source.made.get(atom)
            if made is None or made.primitive is not reduce_sum or atom in read:
                continue
            longest = max(made.inputs[0].type.shape[axis] for axis in made.params["axes"])
            if longest > WIDEST and self.source.is_array(atom) and reduction(made):
                found[n] = Written(None, [Write(made, True)])
        ends, needed = {self.graph.outputs[n] for n in found}, for_arrays(self.source)
        for equation in self.graph.equations:
            (out, *_), maps = equation.outputs, self.source.outside
            if out in needed and out not in ends and reduced_loops(maps, equation):
                raise Refused("values that need sums over items", "layout", equation)
        return found

    def _rows(self, choices: Sequence[IndexMaps]) -> list[Nest]:
        """A nest for each choice of axes; the largest values come first, so that others join the
        nest that computes their operands.
        """
        needed = for_arrays(self.source)
        depends = self._reduced_before(choices[0], needed)
        choices = self._accumulated(choices, needed, depends)
        first = choices[0]
        alone = len(first.reduced) == sum(n > 1 for n in first.lengths)
        if alone and (math.prod(first.lengths) > tuned.reread_elements or len(choices) > 1):
            raise Refused("a second pass over a large array", "layout")
        rest = [n for n, (r, _) in enumerate(self.sums)
                if not (alone and r.equation.outputs[0] in needed)]  # fmt: skip
        if alone:  # one item: later equations on numbers run after its last phase
            self.stored = [n for n in range(len(self.graph.outputs)) if n not in self.written]
        return self._nests(*self._roots(choices, rest, depends))

    def _nests(
        self, nests: Mapping[IndexMaps, Sequence[Root]],
        beside: Sequence[tuple[int, Sum | Write | None]],
    ) -> list[Nest]:  # fmt: skip
        """The nests of roots, and of what fits into none of them: see `_roots`."""
        made: list[Nest] = [
            row_nest(self.source, maps, roots, f"rows{n}")
            for n, (maps, roots) in enumerate(nests.items())
            if roots
        ]
        made += self._boxes(
            [n for n, one in beside if one is None],
            {n: self.written[n] for n, one in beside if isinstance(one, Write)},
            [(n, one) for n, one in beside if isinstance(one, Sum)],
        )
        for n in self.written:
            if sum(n in nest.writes for nest in made) > 1:
                raise Refused("writes from different loops", "layout")
        return made

    def _reduced_before(self, maps: IndexMaps, needed: set[Atom]) -> Depends:
        """For each value, the axes of the reductions that it depends on, of those that loops over
        arrays need.
        """
        depends: Depends = {}
        for equation in self.graph.equations:
            axes = reduced_loops(maps, equation) if equation.outputs[0] in needed else ()
            own = {axes} - {()}
            for atom in equation.inputs:
                own |= depends.get(atom, set())
            depends.update((v, own) for v in equation.outputs)
        return depends

    def _roots(
        self, choices: Sequence[IndexMaps], sums: Sequence[int], depends: Depends
    ) -> tuple[dict[IndexMaps, list[Root]], list[tuple[int, Sum | Write | None]]]:
        """The roots of each nest: of the outputs, of some sums and of all writes; and what fits
        into none.

        Raises:
          Refused: if reductions along axes of two nests meet.
        """
        wanted: list[tuple[Sequence[Atom], int, Sum | Write | None]] = [
            (self.sums[n].reduction.operands, n, self.sums[n]) for n in sums
        ]
        wanted += [([self.graph.outputs[n]], n, None) for n in self.stored]
        wanted += [([w.value], n, w) for n, found in self.written.items() for w in found.writes]
        nests: dict[IndexMaps, list[Root]] = {maps: [] for maps in choices}
        beside = list[tuple[int, Sum | Write | None]]()
        for atoms, n, one in sorted(wanted, key=lambda w: -w[0][0].type.size):
            along = set().union(*[depends.get(atom, set()) for atom in atoms])
            if len(along) > 1:
                raise Refused("reductions along different axes", "layout")
            maps = next((m for m in choices if {m.reduced} == along), choices[0])
            found = embedded(self.source, maps, atoms, nests[maps])
            if isinstance(found, Refusal):
                if along:
                    raise Refused(found)
                beside.append((n, one))
                continue
            if isinstance(one, Write):
                nests[maps] += [Root(one.pieces(some[0].index_map), n, write=one) for some in found]
                continue
            if one is not None:
                found = one.operands([some[0].index_map for some in found])
            nests[maps] += [Root(p, n, one.reduction if one else None) for p in found]
        return nests, beside

    def _accumulated(
        self, choices: Sequence[IndexMaps], needed: set[Atom], depends: Depends
    ) -> Sequence[IndexMaps]:
        """Makes outputs that are sums along other axes than those of the first nest, of values in
        it, sums to which its items add; returns the choices that are left, the first one first.
        """
        read = {a for e in self.graph.equations for a in e.inputs}
        sums = dict[int, tuple[int, ...]]()
        for n in self.stored:
            atom = self.graph.outputs[n]
            made = self.source.made.get(atom)
            whole = made and made.inputs and choices[0].nest(made.inputs[0].type.shape)
            if made and made.primitive is reduce_sum and atom not in read:
                if reduction(made) and whole == choices[0].lengths:
                    sums[n] = reduced_loops(choices[0], made)
        ends = {self.source.made[self.graph.outputs[n]] for n in sums}
        others = {reduced_loops(choices[0], e) for e in self.graph.equations
                  if e.outputs[0] in needed and e not in ends}  # fmt: skip
        last = len(choices[0].lengths) - 1
        rows = [m for m in choices if m.reduced in others] or [
            m for m in choices if last in m.reduced] or choices  # fmt: skip
        first, left = rows[0], {rows[0].reduced, *others}
        for n, axes in sums.items():
            made = self.source.made[self.graph.outputs[n]]
            along = depends.get(made.inputs[0], set())
            inner = bool(along) or (last in first.reduced and last not in axes)
            if axes != first.reduced and along <= {first.reduced} and inner:
                self.stored.remove(n)
                self.written[n] = Written(None, [Write(made, True)])
            else:
                left.add(axes)
        return [first, *[m for m in choices if m.reduced in left and m is not first]]

    def _boxes(
        self, stored: Sequence[int], written: Mapping[int, Written],
        sums: Sequence[tuple[int, Sum]],
    ) -> list[Nest]:  # fmt: skip
        """A nest for each shape of outputs; reductions join one that computes their operands."""
        nests: dict[tuple[int, ...], tuple[IndexMaps, list[Root]]] = {}
        for n in stored:
            atom = self.graph.outputs[n]
            maps = self.source.maps(atom.type.shape)
            roots = nests.setdefault(maps.lengths, (maps, []))[1]
            roots += [Root([Piece(atom, p)], n) for p in maps.wholes(atom.type.shape)]
        for n, found in written.items():
            for own in found.writes:
                maps = self.source.maps(own.value.type.shape)
                roots = nests.setdefault(maps.lengths, (maps, []))[1]
                indices = maps.wholes(own.value.type.shape)
                roots += [Root(own.pieces(p), n, write=own) for p in indices]
        for maps, roots in nests.values():  # refused before reductions look for their nests
            self.source.demanded(maps, [piece for root in roots for piece in root.pieces], None)
        offsets: dict[Equation, tuple[IndexMaps, list[Root], tuple[int, ...]]] = {}
        for n, one in sums:
            equation = one.reduction.equation
            if equation not in offsets:
                offsets[equation] = self._nest(one.reduction, nests)
            maps, roots, starts = offsets[equation]
            roots += self._joined(maps, one, n, starts)
        return [box_nest(self.source, maps, roots, f"border{n}")
                for n, (maps, roots) in enumerate(nests.values())]  # fmt: skip

    def _nest(
        self, reduction: Reduction, nests: dict[tuple[int, ...], tuple[IndexMaps, list[Root]]]
    ) -> tuple[IndexMaps, list[Root], tuple[int, ...]]:
        """The nest that a reduction joins, and the index at which its array begins there."""
        shape = reduction.operands[0].type.shape
        for maps, roots in nests.values():
            if isinstance(maps, FlatMaps):
                if math.prod(shape) == maps.lengths[0]:
                    return maps, roots, (0,)
            elif len(maps.nest(shape)) == len(maps.lengths) and 1 not in maps.nest(shape):
                starts = self._offsets(maps, roots, reduction)
                if starts is not None:
                    return maps, roots, starts
        maps = self.source.maps(shape)
        roots = nests.setdefault(maps.lengths, (maps, []))[1]
        return maps, roots, (0,) * len(maps.lengths)

    def _joined(self, maps: IndexMaps, one: Sum, n: int, offsets: tuple[int, ...]) -> list[Root]:
        """The roots of a reduction in a nest."""
        shape, limits = one.reduction.operands[0].type.shape, []
        if not isinstance(maps, FlatMaps):
            ends = zip(offsets, maps.nest(shape), maps.lengths, strict=True)
            limits = [Limit(i, o, o + m) for i, (o, m, k) in enumerate(ends) if m != k]
        return [Root(pieces, n, one.reduction, tuple(limits))
                for pieces in one.operands(maps.wholes(shape, offsets))]  # fmt: skip

    def _offsets(
        self, maps: IndexMaps, roots: Sequence[Root], reduction: Reduction
    ) -> tuple[int, ...] | None:
        """The index of a nest at which an array begins such that most of its operands are computed
        there already; None if none fits.
        """
        shape = reduction.operands[0].type.shape
        if maps.nest(shape) == maps.lengths:
            return (0,) * len(maps.lengths)
        own = maps.of(maps.nest(shape))
        mine = [Piece(a, index) for a in reduction.operands for index in own.wholes(shape)]
        begin = (0,) * len(own.lengths)
        found = self.source.demanded(own, mine, None)
        aligned = {i for i, index in found if _starts(index) == begin}
        stored = [root for root in roots if root.reduction is None] or roots
        theirs = [piece for root in stored for piece in root.pieces]
        votes: Counter[tuple[int, ...]] = Counter()
        for i, index in self.source.demanded(maps, theirs, None):
            offsets = _starts(index)
            if i in aligned and len(offsets) == len(begin):
                ends = zip(offsets, own.lengths, maps.lengths, strict=True)
                if all(0 <= o and o + m <= k for o, m, k in ends):
                    votes[offsets] += 1
        return votes.most_common(1)[0][0] if votes else None

    def kernel(self) -> Kernel:
        code = kernel_function(self.module)
        unit = parts = 0
        self.partials: dict[int, tuple[int, int]] = {}
        for nest in self.nests:
            for root in nest.sums:
                self.partials[root.number] = parts, nest.units
                parts += nest.units
        scratch = whole_lines(8 * parts)
        for nest in self.nests:
            nest.copies_at = scratch
            scratch += nest.copied
            nest.write(code, unit, {n: start for n, (start, _) in self.partials.items()}, scratch)
            unit += nest.shared
            scratch += nest.shared * nest.buffer
        code.ret()
        stored = {root.number for nest in self.nests for root in nest.roots if not root.reduction}
        numbers = [n for n in range(len(self.graph.outputs)) if n not in stored]
        joined = [nest for nest in self.nests if nest.copied]
        finishes = bool(numbers or joined or self.doubt)
        if finishes:
            self._finish(numbers, joined)
        if len(self.module) > tuned.lines:
            raise Refused(f"{len(self.module)} lines of IR", "long", lines=len(self.module))
        return Kernel(
            module=self.module,
            inputs=self.graph.input_types,
            outputs=self.graph.output_types,
            units=unit,
            scratch=scratch,
            finish="finish" if finishes else "",
            cost_ns=sum(nest.cost_ns for nest in self.nests),
            constants=self.source.constants,
            loops="\n".join([nest.text for nest in self.nests]),
        )

    def _finish(self, numbers: Sequence[int], joined: Sequence[Nest]) -> None:
        """Adds up the copies of outputs, and computes and stores those that are numbers, after all
        loops.
        """
        given = [("ptr", "arrays"), ("ptr", "scratch")]
        code = Function(self.module, "finish", "i32", given, attributes="internal")
        body = Body(self.source, self.source.outside, code, {}, ())
        body.point(range(self.source.pointers))
        for nest in joined:
            nest.join(code, body)
        for n, (start, units) in self.partials.items():
            reduction, index = self.sums[n]
            at = code.at(code.parameters[1], 8 * start)
            name = by_pairs(self.module, reduction)
            value = code.call(name, reduction.type, [at, code.constant(units, "i64", 1)])
            value = reduction.result(code, value)
            body.memo[reduction.equation.outputs[0], index] = value
        for n in numbers:
            atom = self.graph.outputs[n]
            for index in self.source.elements(atom):
                x = body.value(atom, index)
                body.store(x, self.source.outputs + n, atom.type.shape, index)
        status = code.constant(0, "i32", 1)
        if self.doubt is not None:
            wrong = code.compare("une", body.value(self.doubt, ()), 0.0)
            status = code.select(wrong, code.constant(GIVEN_UP, "i32", 1), status)
        code.ret(status)


def _starts(index: IndexMap) -> tuple[int, ...]:
    """The index at which an array along all loops begins; () for other indices."""
    if any(isinstance(a, Through) for a in index):
        return ()
    along = [a for a in index if a.loop >= 0]
    if [(a.loop, a.step) for a in along] != [(i, 1) for i in range(len(along))]:
        return ()
    return tuple([-a.offset for a in along])
