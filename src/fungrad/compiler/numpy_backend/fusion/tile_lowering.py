"""Lowers a fusion cluster to a loop over its tiles, so that intermediates stay in cache.

The loop is one of the loop IR, as for a scan. It iterates over each tile's rows of the inputs and
outputs, and over its buffers, which are assigned by liveness. Hand-written kernels compute some
equations, such as a sine together with its cosine. The numbers equal those of the equations run one
by one; reductions over rows may differ by rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.compiler.loop_ir.program import (
    INVARIANT,
    Alloc,
    Call,
    Expression,
    For,
    Operand,
    Program,
    Return,
    Value,
    View,
    listed,
    placed,
    value,
)
from fungrad.compiler.numpy_backend.array_lowering import Runner
from fungrad.compiler.numpy_backend.fusion import tiling
from fungrad.compiler.numpy_backend.fusion.clustering import FusionCluster, Part, reach
from fungrad.compiler.numpy_backend.fusion.row_access import (
    REDUCED,
    joins,
    matrix_first,
    moves,
    multiplies,
    taken,
)
from fungrad.compiler.numpy_backend.loop_memory import LoopMemory, write_ufunc
from fungrad.compiler.numpy_backend.numpy_expressions import expressed
from fungrad.compiler.passes.simplify.driver import setting
from fungrad.ir.graph import Atom, Equation, Variable
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise import ufuncs
from fungrad.primitives.elementwise.by_elements import CASTS
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.facts import is_view, sections_of
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, reshape
from fungrad.primitives.reduction.cumulative import attains
from fungrad.primitives.reduction.reduce import reduce_max, reduce_min
from fungrad.retracing.inlining import placed as placed_like
from fungrad.runtime import buffer_pool, tiles
from fungrad.runtime.kernels import elementwise, reductions
from fungrad.runtime.thread_pool import num_threads

KERNELS: dict[Any, Any] = {
    ufuncs.logaddexp: elementwise.logaddexp,
    ufuncs.hypot: elementwise.hypot,
    select: elementwise.chosen,
}
"""The kernel of a primitive; `fungrad.extend.kernel` puts others here."""
SINGLE = {elementwise.logaddexp, elementwise.hypot}
"""Kernels that also take single precision."""


def kernel(equation: Equation) -> Any:
    """The kernel of an equation; None if NumPy is called."""
    if setting() == "numpy":
        return None
    found: Any = KERNELS.get(equation.primitive)
    if len(equation.outputs) == 2:
        found = elementwise.sincos
    dtype = equation.outputs[0].type.dtype
    if found is elementwise.chosen:
        mask, size = equation.inputs[0].type, equation.outputs[0].type
        fits = mask.dtype == np.bool_ and mask.shape == size.shape and dtype.kind in "biufc"
        return found if fits and dtype.itemsize in (1, 2, 4, 8) else None
    alike = all(a.type.dtype == dtype or a.type.weak for a in equation.inputs)
    fits = dtype == np.float64 or (dtype == np.float32 and found in SINGLE)
    return found if alike and fits else None


def sines_with_cosines(equations: Sequence[Equation]) -> list[Equation]:
    """The equations. The sine and the cosine of a value become one equation, a sine with two
    outputs, if one kernel computes both.
    """
    both = (ufuncs.sin, ufuncs.cos)
    found = {(e.primitive, e.inputs[0]): e for e in equations if e.primitive in both}
    steps, made = list[Equation](), set[Variable]()
    for equation in equations:
        pair = [found.get((primitive, equation.inputs[0])) for primitive in both]
        if equation in pair and None not in pair:
            outputs = tuple([e.outputs[0] for e in pair if e is not None])
            joint = placed_like(equation, ufuncs.sin, equation.inputs, outputs, {})
            equation = joint if kernel(joint) else equation
        if equation.outputs[-1] not in made:
            made.update(equation.outputs)
            steps.append(equation)
    return steps


class TileLowering(LoopMemory):
    """Lowers a cluster.

    Args:
      cluster: the cluster.
      tile: the number of rows of a tile; 0 for a good one.
      equations: what to lower in place of its own equations.

    Attributes:
      shared: whether threads share the tiles.
    """

    def __init__(
        self, cluster: FusionCluster, tile: int = 0, equations: Sequence[Equation] | None = None
    ) -> None:
        self.whole = cluster
        self.shared = tiling.shared(cluster)
        self.tile = tile or tiling.length(cluster, num_threads() if self.shared else 1)
        self.columns = tiling.in_columns(cluster, self.tile)
        body = cluster.body.replace(outputs=(), equations=tuple(equations or cluster.equations))
        super().__init__(body, lambda *_: None, (), 0)
        self.axes = dict(cluster.axes)
        self.tiles = Value("t")
        self.parameters: list[Value] = []
        """The arrays that the loop receives: inputs, then arrays that it writes into."""
        self.outputs: list[Any] = []
        """The nodes before the loop that allocate the outputs, and view their parts."""
        self.given: list[Value] = []
        """The arrays that the loop writes into."""
        self.buffers: list[Any] = []
        """For each buffer its (shape, dtype, memory order), and its row axis."""
        self.totals: dict[Variable, np.ufunc] = {}
        """The reductions over the rows."""
        self.stores: dict[Variable, list[tuple[Value, bool]]] = {}
        """The rows of outputs that a value is stored in, and whether it alone fills them."""
        self.targets: dict[Variable, Value] = {}
        """The rows of outputs that values are computed in."""
        self.multiplies = False
        """Whether the loop calls the BLAS, which could use several threads."""

    def cluster_and_schedule(self) -> Sequence[Equation]:
        return sines_with_cosines(self.graph.equations)

    def region(self) -> Runner:
        """The function of the cluster's inputs that returns its outputs."""
        for variable in self.graph.inputs:
            self.input(variable)
        results = [
            self.output(*pair) for pair in zip(self.whole.outputs, self.whole.made, strict=True)
        ]
        self.lower()
        count = -(-self.whole.length // self.tile)
        end = Return(value(self.tiles).then(".totals"))
        nodes = [*self.preheader, For(count, self.iterators, self.nodes), end]
        self.runner(Program("loop", [self.tiles, *self.parameters], nodes, {}))
        planned = self.planned()
        arguments = [Value() for _ in self.graph.inputs]
        fields, inputs = placed([*arguments, *self.given])
        plan = self.constant("plan", planned)
        call = f"{self.constant('in_tiles', tiles.in_tiles)}(loop, {plan}, {', '.join(fields)})"
        totals = {v: Value() for v in self.totals}
        ends = [e if isinstance(e, Expression) else value(totals[e]) for e in results]
        nodes = [*self.outputs, Call(call, inputs, list(totals.values()), unpack=True)]
        nodes.append(Return(listed(ends)))
        found: Any = self.runner(Program("region", arguments, nodes, {}))
        found.cluster, found.plan = self.whole, planned
        return found  # type: ignore[no-any-return]

    def planned(self) -> tiles.Plan:
        """The Plan for the run time."""
        reaches = [reach(parts) for parts in self.whole.made]
        shareable = all(last - first <= self.tile for first, last in reaches)
        overlap = any(first < last for first, last in reaches)
        totals = list(self.totals.values())
        return tiles.Plan(self.whole.length, self.tile, self.shared and shareable, self.buffers,
                          totals, overlap, self.multiplies)  # fmt: skip

    # --- inputs, outputs, buffers -----------------------------------------------------------------

    def rows(self, array: Value, axis: int, stem: str) -> Value:
        """The rows of each tile of an array that the loop receives."""
        return self.row(Expression(f"{{}}.rows({{}}, {axis})", (self.tiles, array)), stem)

    def input(self, variable: Variable) -> None:
        """Makes the loop read an input: its rows, or all of it; in columns as a copy."""
        axis, array = self.axes[variable], Value("x_", INVARIANT)
        self.parameters.append(array)
        moved = self.columns and tiling.moves(variable.type.shape, axis)
        found = array if axis is None else self.rows(array, axis, "v")
        if moved and axis is None:
            order = tiling.memory(variable.type.shape, axis)
            arranged = self.constant("arranged", tiles.arranged)
            found = self.hoisted_view(array, f"{arranged}({{0}}, {order})")
        elif moved:
            rows, found = found, self.assign(variable)
            self.copy(rows, found)
        self.values[variable] = found

    def output(self, whole: Variable, parts: Sequence[Part]) -> Expression | Variable:
        """Makes the loop write an output; returns its expression after the loop, or the variable of
        a reduction over the rows.
        """
        if parts[0].axis == REDUCED:
            return parts[0].value
        array = Value("s_")
        alone = len(parts) == 1
        whole_rows = alone and parts[0].place is None
        make: tuple[str, Any] = "zeros", np.zeros
        if whole_rows:
            reused = whole in self.whole.inner
            make = ("reused", buffer_pool.empty) if reused else ("empty", np.empty)
        dtype = self.constant(whole.type.dtype.name, whole.type.dtype)
        self.outputs.append(
            Alloc(f"{self.constant(*make)}({whole.type.shape}, {dtype})", (), [array])
        )
        for part in parts:
            given, inner, axis = array, Value("y_", INVARIANT), self.axes[part.value]
            if part.place is not None:
                given = Value("h_")
                index = self.constant("k", part.place)
                self.outputs.append(View(f"{{0}}[{index}]", [array], [given]))
            self.given.append(given)
            self.parameters.append(inner)
            rows = self.rows(inner, axis, "y_")
            self.stores.setdefault(part.value, []).append((rows, alone))
            if whole_rows and not (self.columns and tiling.moves(part.value.type.shape, axis)):
                self.targets[part.value] = rows
        return value(array)

    def kind(self, variable: Variable) -> Any:
        axis = self.axes[variable]
        shape = variable.type.shape
        return (*shape[:axis], self.tile, *shape[axis + 1 :]), variable.type.dtype, axis

    def buffer(self, variable: Variable) -> Value:
        shape, dtype, axis = self.kind(variable)
        order = tiling.memory(shape, axis) if self.columns else tuple(range(len(shape)))
        self.buffers.append(((shape, dtype, order), axis))
        number = len(self.buffers) - 1
        return self.row(Expression(f"{{}}.buffer({number})", (self.tiles,)), "b_")

    def target(self, variable: Variable) -> Value:
        """The memory that a value is written to: rows of its output, or a buffer."""
        found = self.values[variable] = self.targets.get(variable) or self.assign(variable)
        return found

    def copy(self, source: Operand, out: Value, spread: bool = False) -> None:
        """Adds a copy of a value; `spread` if it is broadcast along a short last axis."""
        function = reductions.spread if spread else np.copyto
        called = self.constant(function.__name__, function)
        self.write(f"{called}({{1}}, {{0}})", [source], out)

    # --- equations --------------------------------------------------------------------------------

    def equation(self, equation: Equation) -> None:
        if self.axes[equation.outputs[0]] == REDUCED:
            self.reduced(equation)
            return
        self.computed(equation)
        self.store(equation)

    def store(self, equation: Equation) -> None:
        """Adds the copies of an equation's outputs into outputs of the cluster."""
        spread = equation.primitive is broadcast_to and not self.columns
        for variable in equation.outputs:
            for rows, alone in self.stores.get(variable, ()):
                found = self.values[variable]
                if not alone:
                    add = self.constant("add", np.add)
                    self.write(f"{add}({{0}}, {{1}}, {{2}})", [rows, found], rows)
                elif rows is not found:
                    self.copy(found, rows, spread and reductions.spreads(equation))

    def computed(self, equation: Equation) -> None:
        """Adds the nodes of an equation that has rows."""
        primitive: Any = equation.primitive
        (output, *_) = equation.outputs
        function = kernel(equation)
        if function is not None:
            self.by_kernel(equation, function)
        elif multiplies(equation):
            text, operands = self.product(equation)
            self.write(f"{text}, out={{2}})", operands, self.target(output))
        elif moves(equation):
            self.moved(equation)
        elif is_view(equation):
            self.view(equation)
        elif primitive in CASTS:
            copy = f"{self.constant('copyto', np.copyto)}({{1}}, {{0}}, casting='unsafe')"
            self.write(copy, self.operands(equation), self.target(output))
        elif primitive.reduces is not None:
            self.reduce(equation, self.target(output))
        elif primitive.ufunc is not None:
            self.release()  # it may overwrite its operands
            write_ufunc(equation, self, self.target(output))
        else:
            super().equation(equation)

    def by_kernel(self, equation: Equation, function: Any) -> None:
        """Adds the call of a kernel."""
        called = self.constant(function.__name__, function)
        operands = self.operands(equation)
        out = [self.target(v) for v in equation.outputs]
        alone, over = elementwise.SCRATCH[function]
        scratch = [Variable(equation.outputs[0].type) for _ in range(alone + over)]
        self.axes.update(dict.fromkeys(scratch, self.axes[equation.outputs[0]]))
        buffers = [self.assign(v) for v in scratch[:alone]]
        own = [v for v in (*equation.outputs, *scratch) if v in self.assigned]
        held = {v: self.assigned.pop(v) for v in own}
        self.release()  # further buffers may be its operands
        self.assigned.update(held)
        buffers += [self.assign(v) for v in scratch[alone:]]
        self.liveness.ended[self.at] += scratch
        fields, inputs = placed([*operands, *out, *buffers])
        self.nodes.append(Call(f"{called}({', '.join(fields)})", inputs))

    def view(self, equation: Equation) -> None:
        """Adds a view of a tile."""
        (output,), axis = equation.outputs, self.axes[equation.outputs[0]]
        operands = [self.read(atom) for atom in equation.inputs]
        before, behind = output.type.shape[:axis], output.type.shape[axis + 1 :]
        text = None
        if equation.primitive is reshape:
            text = f"{{0}}.reshape({(*before, -1, *behind)})"
        elif equation.primitive is broadcast_to:
            length = self.row(value(self.tiles).then(".lengths()"), "m_")
            shape = ", ".join([*map(str, before), "{1}", *map(str, behind)])
            text = f"{self.constant('broadcast_to', np.broadcast_to)}({{0}}, ({shape},))"
            operands.append(length)
        else:
            text = expressed(equation, ["{0}"], self.symbols)
        assert text is not None
        fields, inputs = placed(operands)
        self.nodes.append(View(text.format(*fields), inputs, [self.value(output)]))

    def moved(self, equation: Equation) -> None:
        """Adds the nodes that gather or join rows."""
        (output,), operands = equation.outputs, [self.read(atom) for atom in equation.inputs]
        out = self.target(output)
        if joins(equation):
            copy = self.constant("copyto", np.copyto)
            for part, x in zip(sections_of(equation) or (), operands, strict=True):
                place = tuple([slice(r.start, r.stop) for r in part.box])
                self.write(f"{copy}({{1}}[{self.constant('k', place)}], {{0}})", [x], out)
            return
        axis = self.axes[output]
        order = tuple(range(output.type.ndim))
        order = tiling.memory(output.type.shape, axis) if self.columns else order
        text = f"{self.constant('taken', taken)}({{0}}, {{1}}, {axis}, {order}, {{2}})"
        self.write(text, operands, out)

    def product(self, equation: Equation) -> tuple[str, list[Operand]]:
        """The text of a matrix product by rows or over them, without the closing parenthesis, and
        its operands.
        """
        (over_x,), (over_y,) = matrix_first(equation, equation.params["contract"])
        first, second = matrix_first(equation, equation.inputs)
        x, y = self.value(first), self.value(second)
        left, right = "{0}" + ".T" * (over_x == 0), "{1}" + ".T" * (over_y == 1)
        if self.axes[second] is None:
            arrange = reductions.second(self.tile * second.type.size)
            name = self.constant(arrange.__name__, arrange)
            y, right = self.hoisted_view(y, f"{name}({{0}}{right[3:]})"), "{1}"
        self.multiplies = True
        called = reductions.product(second.type.ndim, second.type.size)
        return f"{self.constant(called.__name__, called)}({left}, {right}", [x, y]

    def reduced(self, equation: Equation) -> None:
        """Adds the nodes that reduce the rows of a tile, and combine the results of all tiles."""
        (output,), operands = equation.outputs, [self.read(atom) for atom in equation.inputs]
        ufunc = equation.primitive.reduces or np.add
        if multiplies(equation):
            text, operands = self.product(equation)
            text += ")"
        elif equation.primitive is dot_general:
            text, self.multiplies = f"{self.constant('dot', np.dot)}({{0}}, {{1}})", True
        elif ufunc is np.add and self.adds_rows(equation):
            ones = self.constant("ones", np.ones(self.tile, output.type.dtype))
            text = f"{self.constant('dot', np.dot)}({ones}[: len({{0}})], {{0}})"
        else:
            called = self.constant(ufunc.__name__, ufunc)
            text = f"{called}.reduce({{0}}, {equation.params['axes']})"
        self.add_up(output, ufunc, text, operands)

    def adds_rows(self, equation: Equation) -> bool:
        """Whether the BLAS adds up the rows of a matrix: k-means takes 0.9 times the time."""
        x, (output,) = equation.inputs[0].type, equation.outputs
        blas = self.multiplies and x.dtype == output.type.dtype and reductions.one_thread(x.dtype)
        return blas and x.ndim == 2 and equation.params["axes"] == (0,)

    def add_up(
        self, output: Variable, ufunc: np.ufunc, text: str, operands: Sequence[Operand]
    ) -> None:
        """Adds the text of a tile's reduction over the rows, which is combined with the others."""
        number, self.totals[output] = len(self.totals), ufunc
        self.call(f"{{{len(operands)}}}.total({number}, {text})", [*operands, self.tiles])

    def reduce(self, equation: Equation, out: Value) -> None:
        """Adds a reduction of each row on its own."""
        (x,), (output,), axes = equation.inputs, equation.outputs, equation.params["axes"]
        shape, ufunc = x.type.shape, equation.primitive.reduces
        called = self.constant(ufunc.__name__, ufunc)
        real = x.type.dtype.char in "fd" and not self.columns and setting() != "numpy"
        places = reductions.terms(shape, axes) if real else None
        operands = [self.read(x)]
        if (
            places is not None
            and output.type.size * self.tile // self.whole.length >= reductions.ENOUGH
        ):
            by_terms = self.constant("by_terms", reductions.by_terms)
            text = f"{by_terms}({called}, {{0}}, {self.constant('k', places)}, {{1}})"
        elif real and axes == (len(shape) - 1,) and ufunc is np.add and shape[-1] > 1:
            ones = self.constant("ones", np.ones(shape[-1], x.type.dtype))
            row_sums = reductions.row_sums(len(shape))
            text = f"{self.constant(row_sums.__name__, row_sums)}({{0}}, {ones}, out={{1}})"
            self.multiplies |= row_sums is np.matmul
        elif ufunc is np.add and self.hits(x, axes):
            text = f"{self.constant('ties', reductions.ties)}({{0}}, {axes}, {{1}})"
        else:
            text = f"{called}.reduce({{0}}, {axes}, None, {{1}})"
        self.write(text, operands, out)

    def hits(self, mask: Atom, axes: tuple[int, ...]) -> bool:
        """Whether a mask is where elements attain their extremum along axes."""
        made = {v: e for e in self.graph.equations for v in e.outputs}
        equation: Any = made.get(mask)  # type: ignore[arg-type]
        if equation is None or equation.primitive is not attains:
            return False
        x, y = equation.inputs
        while (found := made.get(y)) is not None and found.primitive is reshape:
            (y,) = found.inputs
        return (
            found is not None
            and found.primitive in (reduce_max, reduce_min)
            and (found.inputs == (x,) and found.params["axes"] == axes)
        )


def build(cluster: FusionCluster) -> Runner:
    """The function of the cluster's inputs that returns its outputs."""
    return TileLowering(cluster).region()
