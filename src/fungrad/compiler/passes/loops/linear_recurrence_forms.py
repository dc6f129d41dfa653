"""In a scan, what is linear in what its steps make, with known matrices, is few products.

x @ a @ b + x @ c, of which steps make x and know the rest, is x @ (a @ b + c): what is known is
multiplied and added for all steps at once. Ways back of gradients are full of such sums. Numbers
are doubles, and equal in exact arithmetic: it is done where regrouping is asked for. Knows what a
scan is made of.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from typing import Any

from fungrad.compiler.passes.loops.loop_fission import FREE
from fungrad.compiler.passes.loops.open_scan import Loop, movable, small
from fungrad.compiler.passes.rewriter import (
    SMALL,
    Renaming,
    applied,
    doubles,
    placed,
    renewed,
)
from fungrad.ir.graph import Atom, Equation, Literal, Variable
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import add, neg, sub
from fungrad.primitives.movement.diagonal_roll import from_diagonal
from fungrad.primitives.movement.reshape_broadcast_cast import transpose
from fungrad.primitives.primitive import full
from fungrad.retracing.graph_transforms import effectful
from fungrad.support.record import Record

LONG = 200
"""The most equations of a step that is looked at: each sum is weighed against all of them."""
_CALL, _ROW = 8.0, 0.15
"""What an equation for all steps at once costs, and each row of it, beside a call in each step."""
_FREE = (transpose, full)


def combined(loop: Loop) -> None:
    """Writes sums of products with known matrices in the way that takes the fewest calls."""
    if len(loop.equations) <= LONG and any(e.primitive is dot_general for e in loop.equations):
        forms = _Forms(loop)
        chosen = forms.chosen()
        if chosen:
            forms.write(chosen)


class _Form(Record):
    """A sum of products with known matrices, and a known rest.

    `terms` has, by the identity of what is multiplied and whether that is turned: it, and the
    matrix, None where it stands alone. Matrices and the rest are numbers of `_Known`.
    """

    terms: dict[tuple[int, bool], tuple[Atom, int | None]]
    rest: int | None

    def calls(self) -> int:
        """Of NumPy, in each step."""
        products = sum(by is not None for _, by in self.terms.values())
        return products + len(self.terms) - 1 + (self.rest is not None)

    def parts(self) -> list[int]:
        """What is known of it."""
        matrices = [by for _, by in self.terms.values() if by is not None]
        return matrices if self.rest is None else [*matrices, self.rest]


class _Known:
    """What is computed of what is known before a step, each once, by its number."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.parts: list[tuple[Any, tuple[int, ...]]] = []
        """An atom, or a primitive, and what it is applied to."""
        self.shapes: list[tuple[int, ...]] = []
        self._made: dict[int, Atom] = {}

    def atom(self, atom: Atom) -> int:
        """What is there anyway."""
        return self._number(atom, (), atom.type.shape, id(atom))

    def one(self, rows: int) -> int:
        """The matrix that changes nothing."""
        return self._number(full, (), (rows, rows), (full, rows))

    def apply(self, primitive: Any, *operands: int) -> int:
        """A product of matrices, a sum, a difference, an opposite, a turned matrix."""
        first, last = self.shapes[operands[0]], self.shapes[operands[-1]]
        shape = first
        if primitive is dot_general:
            shape = (*first[:-1], *last[1:])
        elif primitive is transpose:
            shape = first[::-1]
        return self._number(primitive, operands, shape, (primitive, *operands))

    def _number(
        self, what: Any, operands: tuple[int, ...], shape: tuple[int, ...], key: Hashable
    ) -> int:
        if key not in self.numbers:
            self.numbers[key] = len(self.parts)
            self.parts.append((what, operands))
            self.shapes.append(shape)
        return self.numbers[key]

    def equations(self, numbers: Collection[int]) -> int:
        """How many equations compute some of it."""
        found: set[int] = set()
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            what, operands = self.parts[number]
            if number not in found and not isinstance(what, Atom):
                found.add(number)
                waiting += operands
        return sum(self.parts[number][0] not in _FREE for number in found)

    def written(self, number: int, like: Equation, equations: list[Equation]) -> Atom:
        """The atom of a number, and the equations that make it, where there are none yet."""
        what, operands = self.parts[number]
        if isinstance(what, Atom):
            return what
        if number not in self._made:
            atoms = [self.written(operand, like, equations) for operand in operands]
            dtype = like.outputs[0].type.dtype
            if what is full:
                shape = self.shapes[number]
                ones = applied(like, full, shape=shape[:1], value=1.0, dtype=dtype)
                equations += [
                    ones,
                    applied(like, from_diagonal, *ones.outputs, offset=0, shape=shape),
                ]
            elif what is dot_general:
                contract = ((len(self.shapes[operands[0]]) - 1,), (0,))
                equations.append(applied(like, what, *atoms, contract=contract, batch=((), ())))
            else:
                params = {"axes": (1, 0)} if what is transpose else {}
                equations.append(applied(like, what, *atoms, **params))
            (self._made[number],) = equations[-1].outputs
        return self._made[number]


class _Forms:
    """The values of a loop's step that are such sums."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.given = loop.given()
        self.known = _Known()
        self.forms: dict[int, _Form] = {}
        self.steps: list[tuple[list[int], list[int], bool, bool]] = []
        """Of equations of what is not known, the last one first: what they make and read, whether
        they are calls of NumPy, and whether they stay in any case.
        """
        for equation in loop.equations:
            read = [id(a) for a in equation.inputs if isinstance(a, Variable)]
            if equation.inputs and self.given.issuperset(read):
                self.given.update(id(v) for v in equation.outputs)
                continue
            made = [id(v) for v in equation.outputs]
            call, effect = not equation.primitive.view, effectful(equation)
            self.steps.insert(0, (made, read, call, effect))
            form = self._read(equation)
            if form is not None and self._fits(form):
                self.forms[id(equation.outputs[0])] = form

    # --- what is read -------------------------------------------------------------------------

    def _read(self, equation: Equation) -> _Form | None:
        """The form of what an equation makes."""
        atoms = (*equation.inputs, *equation.outputs)
        if len(equation.outputs) != 1 or not small(equation):
            return None
        if any(a.type.dtype != atoms[-1].type.dtype or a.type.weak for a in atoms):
            return None
        if not doubles(*atoms) or any(not 1 <= a.type.ndim <= 2 for a in atoms):
            return None
        if equation.primitive is dot_general:
            return self._product(equation)
        alike = len({a.type.shape for a in atoms}) == 1
        return self._sum(equation) if alike and equation.primitive in (add, sub) else None

    def _product(self, equation: Equation) -> _Form | None:
        """What is multiplied with a known matrix from the right, or a vector with one at all."""
        contract, batch = equation.params["contract"], equation.params["batch"]
        if batch[0] or len(contract[0]) != 1:
            return None
        (x, matrix), ((i,), (j,)) = equation.inputs, contract
        if matrix.type.ndim == 1:
            x, matrix, i, j = matrix, x, j, i
        if id(matrix) not in self.given or id(x) in self.given or matrix.type.ndim != 2:
            return None
        factor = self.known.atom(matrix)
        if j == 1:
            factor = self.known.apply(transpose, factor)
        if i < x.type.ndim - 1:
            return _Form({(id(x), True): (x, factor)}, None)
        form = self._form(x)
        terms = dict(form.terms)
        for key, (root, by) in form.terms.items():
            terms[key] = root, self._times(by, factor)
        return _Form(terms, None if form.rest is None else self._times(form.rest, factor))

    def _times(self, by: int | None, factor: int) -> int:
        return factor if by is None else self.known.apply(dot_general, by, factor)

    def _sum(self, equation: Equation) -> _Form:
        """A sum or a difference, of which what is multiplied with is added up."""
        first, second = map(self._form, equation.inputs)
        primitive, apply = equation.primitive, self.known.apply
        terms = dict(first.terms)
        for key, (root, by) in second.terms.items():
            if key in terms or primitive is sub:
                one = self.known.one(root.type.shape[0 if key[1] else -1])
                other = one if by is None else by
                mine = terms[key][1] if key in terms else None
                by = apply(neg, other)
                if key in terms:
                    by = apply(primitive, one if mine is None else mine, other)
            terms[key] = root, by
        rest = second.rest
        if first.rest is not None:
            rest = first.rest if rest is None else apply(primitive, first.rest, rest)
        elif rest is not None and primitive is sub:
            rest = apply(neg, rest)
        return _Form(terms, rest)

    def _form(self, atom: Atom) -> _Form:
        """What an atom is made of; itself, where that is not known."""
        if id(atom) in self.given:
            return _Form({}, self.known.atom(atom))
        return self.forms.get(id(atom), _Form({(id(atom), False): (atom, None)}, None))

    def _fits(self, form: _Form) -> bool:
        """Whether there is anything to compute, and what is known of it is small."""
        sizes = [math.prod(self.known.shapes[number]) for number in form.parts()]
        return bool(form.terms) and all(size <= SMALL for size in sizes)

    # --- what is chosen -----------------------------------------------------------------------

    def chosen(self) -> set[int]:
        """The values that are better computed as sums of products than as they are: of all of them
        those are left out, one by one, without which steps need no more calls.
        """
        fewest, found = self._cost(set(self.forms))
        for key in self.forms:
            if key in found:
                cost, rest = self._cost(found - {key})
                if cost <= fewest:
                    fewest, found = cost, rest
        parts = {part for key in found for part in self.forms[key].parts()}
        size = self.loop.length * sum(math.prod(self.known.shapes[part]) for part in parts)
        given = sum(a.type.size for _, a in self.loop.xs)
        return found if fewest < self._cost(set())[0] and size <= max(FREE, given) else set()

    def _cost(self, chosen: set[int]) -> tuple[float, set[int]]:
        """Calls in each step, if some values are computed as sums of products, and which of those
        are read then.
        """
        live = {id(c[2]) for c in self.loop.carry}
        calls, behind, parts, found = 0, 0, set[int](), set[int]()
        for outputs, inputs, call, effect in self.steps:
            if not effect and live.isdisjoint(outputs):
                behind += call
            elif outputs and outputs[0] in chosen:
                form = self.forms[outputs[0]]
                live.update([key for key, _ in form.terms])
                calls += form.calls()
                parts.update(form.parts())
                found.add(outputs[0])
            else:
                live.update(inputs)
                calls += call
        each = _CALL / self.loop.length + _ROW
        return calls + each * (behind + self.known.equations(parts)), found

    # --- what is written ----------------------------------------------------------------------

    def write(self, chosen: set[int]) -> None:
        """Writes the chosen values as sums of products; what is known and the same in all steps is
        computed before the loop.
        """
        loop, equations, made = self.loop, list[Equation](), list[Variable]()
        held = [(v, Variable(v.type), value) for v, value in loop.body.constants]
        names: Renaming = {**loop.fixed(), **{id(v): new for v, new, _ in held}}

        def fixed(equation: Equation) -> bool:
            return all(isinstance(a, Literal) or id(a) in names for a in equation.inputs)

        for equation in loop.equations:
            if not equation.outputs or id(equation.outputs[0]) not in chosen:
                equations.append(equation)
                if equation.inputs and fixed(equation) and movable(equation) and small(equation):
                    loop.before.append(renewed(equation, names))
                continue
            known, inside = self._written(equation)
            for one in known:
                if fixed(one):
                    loop.before.append(renewed(one, names))
                    made += one.outputs
                else:
                    equations.append(one)
            equations += inside
        loop.equations = equations
        loop.prune()
        read = {id(a) for e in loop.equations for a in e.inputs}
        loop.consts += [(v, names[id(v)]) for v in made if id(v) in read]
        outside = {id(a) for e in loop.before for a in e.inputs}
        loop.constants += [(new, value) for _, new, value in held if id(new) in outside]

    def _written(self, equation: Equation) -> tuple[list[Equation], list[Equation]]:
        """The equations of what is known of a value, and those that make it."""
        (output,) = equation.outputs
        form = self.forms[id(output)]
        known: list[Equation] = []
        made: list[Equation] = []
        parts: list[Atom] = []
        for (_, turned), (root, by) in form.terms.items():
            if by is None:
                parts.append(root)
                continue
            matrix = self.known.written(by, equation, known)
            contract = ((0 if turned else root.type.ndim - 1,), (0,))
            product = applied(
                equation, dot_general, root, matrix, contract=contract, batch=((), ())
            )
            made.append(product)
            parts += product.outputs
        if form.rest is not None:
            parts.append(self.known.written(form.rest, equation, known))
        total, *others = parts
        for part in others:
            made.append(applied(equation, add, total, part))
            (total,) = made[-1].outputs
        last = made.pop()
        made.append(placed(equation, last.primitive, last.inputs, (output,), last.params))
        return known, made


__all__ = ["combined"]
