"""Floor 6: products with matrices leave scans, where one large product does the work of many small.

What a scan multiplies of each x with a constant is multiplied before it, for all steps at once; a
sum of products that it carries is one product of the stacks behind it, as in backpropagation
through time by hand. Sums are equal to rounding. Knows `scan` and contractions.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import Type
from fungrad.optimise.rewrite import Renaming, copied, placed, renamed
from fungrad.primitives.contracting import dot_general
from fungrad.primitives.elementwise import add
from fungrad.primitives.shaping import reduce_sum
from fungrad.structural.retrace import batch
from fungrad.structural.scan import scan

LARGEST = 1 << 22
"""The most elements of a stack that is made to this end."""


def stacked(graph: Graph) -> Graph:
    """The Graph with the products of its scans before and behind them."""
    if not any(e.primitive is scan for e in graph.equations):
        return graph
    equations: list[Equation] = []
    for equation in graph.equations:
        if equation.primitive is scan and equation.params["length"] > 1:
            equations += _Loop(equation).rewritten()
        else:
            equations.append(equation)
    return Graph(graph.inputs, graph.constants, tuple(equations), graph.outputs, graph.name)


class _Loop:
    """A scan that is taken apart: its body's equations, and what stands before and behind it."""

    def __init__(self, equation: Equation) -> None:
        params = equation.params
        body: Graph = params["body"]
        constants, n = params["counts"]
        self.equation, self.body, self.length = equation, body, params["length"]
        self.consts = list(zip(body.inputs[:constants], equation.inputs, strict=False))
        at = constants + n
        self.carry = list(
            zip(
                body.inputs[constants:at], equation.inputs[constants:at], body.outputs,
                equation.outputs, strict=False,
            )
        )  # fmt: skip
        self.xs = list(zip(body.inputs[at:], equation.inputs[at:], strict=True))
        self.ys = list(zip(body.outputs[n:], equation.outputs[n:], strict=True))
        self.equations = list(body.equations)
        self.before: list[Equation] = []
        self.behind: list[Equation] = []

    def rewritten(self) -> list[Equation]:
        """The equations in place of the scan."""
        self._multiply_before()
        self._sum_behind()
        if not self.before and not self.behind:
            return [self.equation]
        inputs = [v for v, _ in self.consts] + [c[0] for c in self.carry] + [v for v, _ in self.xs]
        outputs = [c[2] for c in self.carry] + [v for v, _ in self.ys]
        body = Graph(
            tuple(inputs), self.body.constants, tuple(self.equations), tuple(outputs),
            self.body.name,
        )  # fmt: skip
        given = [a for _, a in self.consts] + [c[1] for c in self.carry] + [a for _, a in self.xs]
        results = [c[3] for c in self.carry] + [v for _, v in self.ys]
        params = {
            **self.equation.params,
            "body": body,
            "counts": (len(self.consts), len(self.carry)),
        }
        loop = copied(self.equation, tuple(given), tuple(results), params)
        return [*self.before, loop, *self.behind]

    # --- before -------------------------------------------------------------------------------

    def _multiply_before(self) -> None:
        stacks: dict[int, Atom] = {id(v): a for v, a in self.xs}
        fixed: dict[int, Atom] = {id(v): a for v, a in self.consts}
        inside = []
        for equation in self.equations:
            (output,) = equation.outputs if len(equation.outputs) == 1 else (None,)
            known = [id(a) in stacks or id(a) in fixed for a in equation.inputs]
            if (
                equation.primitive is dot_general
                and output is not None
                and all(known)
                and sum(id(a) in stacks for a in equation.inputs) == 1
                and output.type.size * self.length <= LARGEST
            ):
                outer = tuple([stacks.get(id(a)) or fixed[id(a)] for a in equation.inputs])
                flags = [id(a) in stacks for a in equation.inputs]
                self.xs.append((output, self._for_all_steps(equation, outer, flags)))
            else:
                inside.append(equation)
        self.equations = inside

    def _for_all_steps(
        self, equation: Equation, given: tuple[Atom, ...], flags: list[bool]
    ) -> Variable:
        """Writes the batched equation before the loop; its output."""
        arguments = tuple([Variable(a.type) for a in equation.inputs])
        alone = Graph(
            arguments, (), (copied(equation, arguments, equation.outputs),), equation.outputs
        )
        many = batch(alone, flags, self.length).graph
        names: Renaming = {id(v): a for v, a in zip(many.inputs, given, strict=True)}
        for inner in many.equations:
            outputs = tuple([Variable(v.type) for v in inner.outputs])
            inputs = renamed(inner.inputs, names)
            self.before.append(placed(equation, inner.primitive, inputs, outputs, inner.params))
            names.update({id(v): o for v, o in zip(inner.outputs, outputs, strict=True)})
        (result,) = renamed(many.outputs, names)
        assert isinstance(result, Variable)
        return result

    # --- behind -------------------------------------------------------------------------------

    def _sum_behind(self) -> None:
        made = {id(v): e for e in self.equations for v in e.outputs}
        reads = Counter(id(a) for e in self.equations for a in e.inputs)
        reads.update(id(c[2]) for c in self.carry)
        reads.update(id(v) for v, _ in self.ys)
        kept: list[Any] = []
        dropped: set[int] = set()
        later: list[tuple[Any, Equation, Variable]] = []
        for item in self.carry:
            term = self._added(item, made, reads)
            product = made.get(id(term)) if term is not None else None
            if term is None or reads[id(term)] != 1 or not self._product(product):
                if term is not None:
                    later.append((item, made[id(item[2])], term))
                kept.append(item)
                continue
            assert product is not None
            dropped |= {id(product), id(made[id(item[2])])}
            left, right = (self._stack(a) for a in product.inputs)
            first, second = product.params["contract"]
            pairs = ((0, *(i + 1 for i in first)), (0, *(i + 1 for i in second)))
            self._finish(item, dot_general, (left, right), contract=pairs, batch=((), ()))
        available = {id(v) for v, _ in (*self.xs, *self.ys)}
        for item, equation, term in later:
            if id(term) in available and dropped:
                kept = [k for k in kept if k is not item]
                dropped.add(id(equation))
                self._finish(item, reduce_sum, (self._stack(term),), axes=(0,))
        self.carry = kept
        self.equations = [e for e in self.equations if id(e) not in dropped]

    def _added(self, item: Any, made: dict[int, Equation], reads: Counter[int]) -> Variable | None:
        """What each step adds to a carry that nothing else reads."""
        carry, _, output, _ = item
        equation = made.get(id(output))
        if equation is None or equation.primitive is not add or reads[id(output)] != 1:
            return None
        if reads[id(carry)] != 1 or not any(a is carry for a in equation.inputs):
            return None
        (term,) = [a for a in equation.inputs if a is not carry] or [carry]
        if isinstance(term, Literal) or term is carry or term.type != carry.type:
            return None
        return term

    def _product(self, equation: Equation | None) -> bool:
        if equation is None or equation.primitive is not dot_general:
            return False
        if equation.params["batch"][0]:
            return False
        fixed = {id(v) for v, _ in self.consts} | {id(v) for v, _ in self.body.constants}
        return all(
            isinstance(a, Variable)
            and id(a) not in fixed
            and a.type.ndim > 0
            and a.type.size * self.length <= LARGEST
            for a in equation.inputs
        )

    def _stack(self, value: Atom) -> Atom:
        """What a value of the body is in all steps."""
        for inner, outer in (*self.xs, *self.ys):
            if inner is value:
                return outer
        stack = Variable(Type((self.length, *value.type.shape), value.type.dtype))
        self.ys.append((value, stack))
        return stack

    def _finish(self, item: Any, primitive: Any, inputs: tuple[Atom, ...], **params: Any) -> None:
        """Writes behind the loop what a carry is at its end."""
        _, start, _, output = item
        total = Variable(primitive.infer([a.type for a in inputs], params)[0])
        like = self.equation
        self.behind.append(placed(like, primitive, inputs, (total,), params))
        self.behind.append(placed(like, add, (start, total), (output,), {}))
