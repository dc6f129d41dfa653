"""Stacks of values, as slices where the values are items of one array in order.

The values of a loop's steps come from arrays and go to arrays: `stack(x[0], x[1], ...)` is x.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.rewriter import applied
from fungrad.ir.graph import Atom, Equation, Graph
from fungrad.primitives.movement.gather import Index, getitem
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate, reshape, transpose
from fungrad.primitives.movement.stack_iota import stack, unstack
from fungrad.retracing.inlining import Renaming, placed, renamed, rewired


class ItemRun(NamedTuple):
    """Items of an array in order, or one value.

    Attributes:
      atom: the array, or the value.
      entries: the index of the first item; () for a value.
      axis: the axis of the array along which the items follow one another.
      step: the distance of two of them; 0 for a value.
      items: their number.
    """

    atom: Atom
    entries: tuple[Any, ...]
    axis: int
    step: int
    items: int


class Stacks:
    """Makes stacks of values, of slices where the values are items of arrays.

    Args:
      equations: those that make the values.
    """

    def __init__(self, equations: Sequence[Equation]) -> None:
        self.made = {v: (e, n) for e in equations for n, v in enumerate(e.outputs)}

    def pieces(self, atoms: Sequence[Atom]) -> list[ItemRun]:
        """Values as pieces of arrays, as long as possible."""
        runs: list[ItemRun] = []
        items = [self._item(atom) for atom in atoms]
        at = 0
        while at < len(atoms):
            piece = self._longest(items, at)
            if piece is None or piece.items < costs.joined_items:
                runs.append(ItemRun(atoms[at], (), 0, 0, 1))
                at += 1
            else:
                runs.append(piece)
                at += piece.items
        return runs

    def _item(self, atom: Atom) -> tuple[Atom, tuple[Any, ...]] | None:
        """The array and the index of which a value is an item; None if it is none."""
        if atom not in self.made:
            return None
        equation, number = self.made[atom]
        if equation.primitive is unstack:
            return equation.inputs[0], (number,)
        if equation.primitive is not getitem or len(equation.inputs) > 1:
            return None
        entries = equation.params["index"].entries
        if any(e is None or e is Ellipsis for e in entries) or not any(
            type(e) is int for e in entries
        ):
            return None
        (x,) = equation.inputs
        return x, tuple([e % n if type(e) is int else e
                         for e, n in zip(entries, x.type.shape, strict=False)])  # fmt: skip

    def _longest(self, items: Sequence[Any], at: int) -> ItemRun | None:
        """The longest piece that begins with an item."""
        if items[at] is None or at + 1 == len(items) or items[at + 1] is None:
            return None
        (x, first), (other, second) = items[at], items[at + 1]
        varying = [i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b]
        if x is not other or len(first) != len(second) or len(varying) != 1:
            return None
        (axis,) = varying
        if type(first[axis]) is not int or type(second[axis]) is not int:
            return None
        step, count = second[axis] - first[axis], 1
        for item in items[at + 1 :]:
            index = (*first[:axis], first[axis] + count * step, *first[axis + 1 :])
            if item is None or item[0] is not x or item[1] != index:
                break
            count += 1
        return ItemRun(x, first, axis, step, count)

    def joined(self, like: Equation, atoms: Sequence[Atom]) -> tuple[list[Equation], Atom | None]:
        """Equations that stack values along a new axis 0, and the stack; None if it is too large
        for values that are no items.
        """
        equations: list[Equation] = []

        def made(primitive: Any, *inputs: Atom, **params: Any) -> Atom:
            equations.append(applied(like, primitive, *inputs, **params))
            return equations[-1].outputs[0]

        parts: list[Atom] = []
        singles: list[Atom] = []

        def end() -> None:
            if singles:
                parts.append(made(stack, *singles))
                singles.clear()

        pieces = self.pieces(atoms)
        if sum(p.atom.type.size for p in pieces if not p.step) > costs.stacked_elements:
            return [], None
        for piece in pieces:
            if not piece.step:
                singles.append(piece.atom)
                continue
            end()
            parts.append(self._slice(made, piece))
        end()
        return equations, parts[0] if len(parts) == 1 else made(concatenate, *parts, axis=0)

    def _slice(self, made: Any, piece: ItemRun) -> Atom:
        """The items of a piece along axis 0."""
        first, step, n = piece.entries[piece.axis], piece.step, piece.items
        stop = first + n * step
        entry = slice(first, stop if stop >= 0 else None, step)
        length = piece.atom.type.shape[piece.axis]
        if (first, step, n) == (0, 1, length):
            entry = slice(None)
        index = (*piece.entries[: piece.axis], entry, *piece.entries[piece.axis + 1 :])
        whole = all(e == slice(None) for e in index)
        part: Atom = piece.atom if whole else made(getitem, piece.atom, index=Index(index))
        axis = sum(type(e) is slice for e in index[: piece.axis])
        if axis:
            order = (axis, *[i for i in range(part.type.ndim) if i != axis])
            part = made(transpose, part, axes=order)
        return part


def with_slices(graph: Graph) -> Graph:
    """The Graph with slices of arrays in place of stacks of their items, and reads of few items."""
    joiner = Stacks(graph.equations)
    equations: list[Equation] = []
    names: Renaming = {}
    for equation in graph.equations:
        equation = rewired(equation, names)
        items = _stacked(joiner, equation)
        if items is not None and len(joiner.pieces(items)) * costs.joined_items <= len(items):
            added, stacked = joiner.joined(equation, items)
            type_ = equation.outputs[0].type
            if stacked is not None and stacked.type.shape != type_.shape:
                added.append(applied(equation, reshape, stacked, shape=type_.shape))
                (stacked,) = added[-1].outputs
            if stacked is not None and stacked.type == type_:
                equations += added
                names[equation.outputs[0]] = stacked
                continue
        equations.append(equation)
    outputs = renamed(graph.outputs, names)
    read = {a for e in equations for a in e.inputs} | set(outputs)
    return graph.replace(equations=tuple(_with_reads(equations, read)), outputs=outputs)


def _with_reads(equations: Sequence[Equation], read: set[Atom]) -> Iterator[Equation]:
    """The equations, with a read of each item that is needed of an array of many others."""
    for equation in equations:
        items = [(n, v) for n, v in enumerate(equation.outputs) if v in read]
        few = len(items) * costs.joined_items <= len(equation.outputs)
        if equation.primitive is not unstack or not few:
            yield equation
            continue
        for n, item in items:
            yield placed(equation, getitem, equation.inputs, (item,), {"index": Index((n,))})


def _stacked(joiner: Stacks, equation: Equation) -> list[Atom] | None:
    """The values that an equation stacks along axis 0, or joins along it: of one shape, which may
    have got that axis before.
    """
    if equation.primitive is stack:
        return list(equation.inputs)
    if (
        equation.primitive is not concatenate
        or equation.params["axis"]
        or len(equation.inputs) < costs.joined_items
        or len({atom.type for atom in equation.inputs}) > 1
    ):
        return None
    made = [joiner.made[a][0] for a in equation.inputs if a in joiner.made]
    if len(made) == len(equation.inputs) and all(map(_adds_axis, made)):
        return [e.inputs[0] for e in made]
    return list(equation.inputs)


def _adds_axis(equation: Equation) -> bool:
    """Whether an equation is a reshape that adds axis 0."""
    shape: tuple[int, ...] = (1, *equation.inputs[0].type.shape) if equation.inputs else ()
    return equation.primitive is reshape and equation.outputs[0].type.shape == shape
