"""Levels of values: equations of one odd level may run together."""

from __future__ import annotations

from collections.abc import Sequence

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.element_operations import cost
from fungrad.compiler.native.index_maps import SHORT, movable
from fungrad.ir.graph import Atom, Equation, Graph
from fungrad.primitives.elementwise.by_elements import elementwise
from fungrad.primitives.movement.gather import getitem
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate
from fungrad.primitives.movement.stack_iota import unstack
from fungrad.retracing.graph_transforms import memoised


class Levels(dict[Atom, int]):
    """ASAP levels: odd for equations of clusters, even for others, each as low as its operands
    allow, so that the graph of clusters is acyclic. They are kept for values: the
    result of a whole reduction has the level after that of its cluster.
    """

    def odd(self, atoms: Sequence[Atom], later: bool = False) -> int:
        """The level of a fusable equation; with `later` it is in no cluster of its operands."""
        found = [self.get(atom, 0) for atom in atoms]
        return max([1, *(x + (2 * later if x % 2 else 1) for x in found)])

    def even(self, atoms: Sequence[Atom]) -> int:
        """The level of another equation."""
        found = [self.get(atom, 0) for atom in atoms]
        return max([0, *(x + x % 2 for x in found)])


def costly_joins(graph: Graph) -> frozenset[Equation]:
    """The joins of a Graph before which their parts are stored: loops over the results would take
    as much longer as a call, because they compute values anew for each part that needs them; or
    parts are computed, and there are more than have vector loops. Slices of a join read its parts.
    Along a short axis, one loop writes all parts.
    """

    def found() -> frozenset[Equation]:
        joins, long, again = list[Equation](), set[Equation](), 0.0
        made = {v: e for e in graph.equations for v in e.outputs}
        whole_arrays = set(graph.outputs)
        parts, number = dict[Atom, tuple[int, int]](), 0
        """For each value, as bits, the parts that need it, and the joins of these."""
        for equation in reversed(graph.equations):
            of = [parts.get(v, (0, 0)) for v in equation.outputs]
            mine, whole = of[0] if len(of) == 1 else (0, 0)
            own = [a for a in dict.fromkeys(equation.inputs) if a in made]
            needed = not whole_arrays.isdisjoint(equation.outputs)
            join = needed and len(own) > 1 and equation.primitive is concatenate
            join = join and equation.outputs[0].type.shape[equation.params["axis"]] > SHORT
            slices = equation.primitive in (getitem, unstack)
            follows = join or slices or elementwise(equation) or movable(equation)
            if not slices and (needed or not follows):
                whole_arrays.update(equation.inputs)
            if not follows:
                continue
            copies = mine.bit_count() - whole.bit_count()
            again += copies * cost(equation) * equation.outputs[0].type.size
            for atom in own:
                known = parts.get(atom, (0, 0))
                part, joined = (1 << number, 1 << len(joins)) if join else (0, 0)
                parts[atom] = known[0] | mine | part, known[1] | whole | joined
                number += join
            joins += [equation] * join
            computed = any(a.type.size > SHORT and elementwise(made[a]) for a in own)
            if join and computed and len(equation.inputs) > tuned.vector_boxes:
                long.add(equation)
        return frozenset(joins if again >= tuned.entry_ns else long)

    result: frozenset[Equation] = memoised(graph, "costly joins", found)
    return result
