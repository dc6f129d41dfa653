"""Fewer stacks between two scans, such as the forward and the backward scan of a gradient.

It saves memory, not time: what only the second scan needs, and what it can compute cheaply from
other stacks, it computes itself.
"""

from __future__ import annotations

from collections import Counter

from fungrad.compiler.passes.loops.open_scan import computed, movable, on_numbers
from fungrad.compiler.passes.rewriter import Renaming, copied, renamed, renewed, rewired
from fungrad.control_flow.scan import scan
from fungrad.control_flow.scan_reverse import parts
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import Type
from fungrad.primitives.facts import is_arithmetic
from fungrad.retracing.graph_transforms import effectful, pruned


def lighter(graph: Graph) -> Graph:
    """The Graph with fewer stacks between its scans."""
    if sum(e.primitive is scan for e in graph.equations) < 2:
        return graph
    equations = list(graph.equations)
    for later in range(len(equations)):
        if equations[later].primitive is not scan:
            continue
        made = {id(v): i for i, e in enumerate(equations[:later]) for v in e.outputs}
        for first in sorted({made[id(a)] for a in equations[later].inputs if id(a) in made}):
            if _alike(equations[first], equations[later]):
                reads = Counter(id(a) for e in equations for a in e.inputs)
                reads.update(id(a) for a in graph.outputs)
                pair = _Pair(equations[first], equations[later], reads)
                equations[first], equations[later] = pair.rewritten()
    return graph.replace(equations=tuple(equations))


def _alike(first: Equation, later: Equation) -> bool:
    """Whether two equations are scans of the same length, on arrays."""
    if first.primitive is not scan or first.params["length"] != later.params["length"]:
        return False
    return not any(on_numbers(e.params["body"]) for e in (first, later))


class _Pair:
    """Two scans, the first of which leaves stacks that the second alone reads."""

    def __init__(self, first: Equation, later: Equation, reads: Counter[int]) -> None:
        self.first, self.later = first, later
        self.body: Graph = first.params["body"]
        n = first.params["counts"][1]
        inner = parts(self.body.inputs, first.params["counts"])
        outer = parts(first.inputs, first.params["counts"])
        self.made = {id(v): e for e in self.body.equations for v in e.outputs}
        self.ys = list(zip(self.body.outputs[n:], first.outputs[n:], strict=True))
        xs = parts(later.inputs, later.params["counts"]).xs
        count = Counter(map(id, xs))
        self.left = [
            (v, o) for v, o in self.ys
            if isinstance(v, Variable) and 0 < count[id(o)] == reads[id(o)]
        ]  # fmt: skip
        """The values that only the second scan reads."""
        gone = {id(o) for _, o in self.left}
        self.consts: Renaming = {id(v): a for v, a in zip(inner.consts, outer.consts, strict=True)}
        self.known: Renaming = {id(v): o for v, o in self.ys if id(o) not in gone}
        self.known.update({id(v): a for v, a in zip(inner.xs, outer.xs, strict=True)})
        """Stacks that are there anyway, and the first scan's own xs."""
        self.core = self._core(
            [*self.body.outputs[:n], *(v for v, o in self.ys if id(o) not in gone)]
        )

    def _core(self, ends: list[Atom]) -> set[int]:
        """The values that the first scan itself needs."""
        needed = set(map(id, ends))
        for equation in reversed(self.body.equations):
            if effectful(equation) or any(id(v) in needed for v in equation.outputs):
                needed.update(id(a) for a in equation.inputs)
                needed.update(id(v) for v in equation.outputs)
        return needed

    def rewritten(self) -> tuple[Equation, Equation]:
        """The two scans."""
        crossing = self._crossing()
        if crossing is None:
            return self.first, self.later
        length = self.first.params["length"]
        stacks = {id(v): Variable(Type((length, *v.type.shape), v.type.dtype)) for v in crossing}
        stacks.update({id(v): o for v, o in self.left if id(v) in stacks})
        return self._first(crossing, stacks), self._later(crossing, stacks)

    def _first(self, crossing: list[Variable], stacks: dict[int, Variable]) -> Equation:
        n = self.first.params["counts"][1]
        gone = {id(o) for _, o in self.left}
        ys = [(v, o) for v, o in self.ys if id(o) not in gone]
        ys += [(v, stacks[id(v)]) for v in crossing]
        body = self.body
        outputs = (*body.outputs[:n], *(v for v, _ in ys))
        new = pruned(body.replace(outputs=outputs))
        results = (*self.first.outputs[:n], *(o for _, o in ys))
        return copied(self.first, self.first.inputs, results, {**self.first.params, "body": new})

    def _later(self, crossing: list[Variable], stacks: dict[int, Variable]) -> Equation:
        body: Graph = self.later.params["body"]
        constants, n = self.later.params["counts"]
        gone = {id(o): v for v, o in self.left}
        inner, outer = parts(body.inputs, (constants, n)), parts(self.later.inputs, (constants, n))
        again = self._again(crossing)
        read = {id(a): a for e in again for a in e.inputs}
        read.update({id(v): v for v in gone.values()})
        names: Renaming = {}
        more_consts: list[tuple[Variable, Atom]] = []
        more_xs: list[tuple[Variable, Atom]] = []
        for key, atom in read.items():
            stack = stacks.get(key) or self.known.get(key)
            if key in self.consts or stack is not None:
                names[key] = new = Variable(atom.type)
                pair = (new, self.consts[key] if stack is None else stack)
                (more_consts if stack is None else more_xs).append(pair)
        held = [(v, x) for v, x in self.body.constants if id(v) in read]
        names.update({id(v): v for v, _ in held})
        equations = [renewed(equation, names) for equation in again]
        given: Renaming = {
            id(x): names[id(gone[id(o)])] for x, o in zip(inner.xs, outer.xs, strict=True)
            if id(o) in gone
        }  # fmt: skip
        for equation in body.equations:
            equations.append(rewired(equation, given))
        kept = [(x, o) for x, o in zip(inner.xs, outer.xs, strict=True) if id(o) not in gone]
        consts = [*zip(inner.consts, outer.consts, strict=True), *more_consts]
        xs = [*kept, *more_xs]
        carry = list(zip(inner.carry, outer.carry, strict=True))
        inputs, arguments = (
            zip(*consts, *carry, *xs, strict=True) if consts or carry or xs else ((), ())
        )
        new_body = body.replace(
            inputs=tuple(inputs),
            constants=(*body.constants, *held),
            equations=tuple(equations),
            outputs=renamed(body.outputs, given),
        )
        params = {**self.later.params, "body": new_body, "counts": (len(consts), n)}
        return copied(self.later, tuple(arguments), self.later.outputs, params)

    # --- which stacks -------------------------------------------------------------------------

    def _allowed(self, equation: Equation) -> bool:
        """Whether the second scan may recompute an equation."""
        if not movable(equation) or len(equation.outputs) != 1:
            return False
        if id(equation.outputs[0]) not in self.core:
            return True
        return equation.primitive.view or is_arithmetic(equation)

    def _given(self, atom: Atom) -> bool:
        key = id(atom)
        held = any(v is atom for v, _ in self.body.constants)
        return isinstance(atom, Literal) or key in self.consts or key in self.known or held

    def _crossing(self) -> list[Variable] | None:
        """The values to stack between the scans; None where they are those stacked now."""
        values = {id(v): v for v, _ in self.left if isinstance(v, Variable)}
        before = set(values)
        while self._replaced(values):
            pass
        order = {key: i for i, key in enumerate(self.made)}
        for key in sorted(values, key=lambda key: -order.get(key, -1)):
            value = values.pop(key)
            if self._computable([value], values) is None:
                values[key] = value
        return None if set(values) == before else list(values.values())

    def _replaced(self, values: dict[int, Variable]) -> bool:
        """Stacks one value in place of those computed from it, if it is not larger."""
        made: dict[int, list[Variable]] = {}
        sources: dict[int, Variable] = {}
        for value in values.values():
            if self._given(value):
                del values[id(value)]
                return True
            source = self._source(value)
            if source is not None:
                sources[id(source)] = source
                made.setdefault(id(source), []).append(value)
        for key, replaced in made.items():
            size = 0 if key in values else sources[key].type.size
            if size <= sum(v.type.size for v in replaced):
                for value in replaced:
                    del values[id(value)]
                values[key] = sources[key]
                return True
        return False

    def _source(self, value: Variable) -> Variable | None:
        """The single value that another is a view of, or is computed from for the second scan
        alone.
        """
        equation = self.made.get(id(value))
        if equation is None or not self._allowed(equation):
            return None
        if id(value) in self.core and not equation.primitive.view:
            return None
        read = [a for a in equation.inputs if isinstance(a, Variable) and not self._given(a)]
        return read[0] if len({id(a) for a in read}) == 1 else None

    def _computable(
        self, wanted: list[Variable], values: dict[int, Variable]
    ) -> list[Equation] | None:
        """The equations, in order, that compute some values from others; None if impossible."""

        def given(atom: Atom) -> bool:
            return id(atom) in values or self._given(atom)

        return computed(wanted, self.made, given, self._allowed)

    def _again(self, crossing: list[Variable]) -> list[Equation]:
        """The equations that the second scan repeats."""
        wanted = [v for v, _ in self.left if isinstance(v, Variable)]
        found = self._computable(wanted, {id(v): v for v in crossing})
        assert found is not None
        return found
