"""The equations of a region that pick by masks, and their lines.

Sums with what is picked, and over it, are one with the picking. Knows regions, the functions of
masks, and the block whose lines it writes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from fungrad.compiler.lowering.fusion.clustering import FusionCluster
from fungrad.compiler.lowering.fusion.in_place_outputs import Targets
from fungrad.compiler.lowering.fusion.row_access_type import RowAccess
from fungrad.compiler.lowering.fusion.tile_buffer_assignment import Buffers
from fungrad.ir.graph import Atom, Equation, Literal, Variable
from fungrad.primitives.elementwise.family import add, mul, select
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum
from fungrad.primitives.reduction.cumulative import attains
from fungrad.runtime.kernels import masked


class TileWriter(Protocol):
    """Who writes the body of a tile, as far as masks need him."""

    region: FusionCluster
    buffers: Buffers
    targets: Targets
    columns: bool
    place: dict[Any, str]
    lines: list[str]

    def function(self, name: str, value: Any) -> str: ...

    def constant(self, value: Any) -> str: ...

    def target(self, variable: Variable, axis: int) -> str: ...


class _InPlaceOfPrimitive:
    """What two equations that are done together have for their primitive."""

    multiple = effect = cuts = view = commutative = inline = False
    pure = True
    ufunc = eval = cost = reduces = None

    def __init__(self, name: str) -> None:
        self.name = name


add_where: Any = _InPlaceOfPrimitive("add_where")
"""`x + select(mask, y, 0)`, of x, mask and y."""
sum_where: Any = _InPlaceOfPrimitive("sum_where")
"""The sum of `select(mask, y, 0)` over the rows, of mask and y."""
mul_where: Any = _InPlaceOfPrimitive("mul_where")
"""`x * select(mask, 0.5, 1.0)`, of x, mask and 0.5: what an extremum shares where two are equal."""


def _chooses(equation: Equation) -> bool:
    """Whether an equation chooses for each element by a mask of its own."""
    if equation.primitive is not select:
        return False
    mask = equation.inputs[0].type
    return mask.dtype == np.bool_ and mask.shape == equation.outputs[0].type.shape


def _picks(equation: Equation) -> bool:
    """Whether an equation gives x where a mask is true, else zero."""
    if not _chooses(equation):
        return False
    rest = equation.inputs[2]
    return (
        isinstance(rest, Literal)
        and type(rest.value) in (int, float)
        and rest.value == 0
        and math.copysign(1, rest.value) > 0
    )


def _halves(equation: Equation) -> bool:
    """Whether an equation gives a half where a mask is true, else one."""
    numbers = [a.value for a in equation.inputs[1:] if isinstance(a, Literal)]
    return _chooses(equation) and equation.outputs[0].type.inexact and numbers == [0.5, 1.0]


def _counts(equation: Equation) -> bool:
    """Whether an equation counts what is true along the last axes of a mask."""
    if equation.primitive is not reduce_sum or equation.inputs[0].type.dtype != np.bool_:
        return False
    ndim, axes = equation.inputs[0].type.ndim, equation.params["axes"]
    return 0 < len(axes) < ndim and tuple(axes) == tuple(range(ndim - len(axes), ndim))


def joined(region: FusionCluster) -> FusionCluster:
    """The region with each sum with what a mask picks, each sum of that over the rows, and each
    product with halves, as one equation, where nothing else reads what is picked.
    """
    reads = region.reads()
    picked: dict[int, tuple[Equation, RowAccess]] = {}
    steps: dict[int, tuple[Equation, RowAccess]] = {}
    for equation, how in zip(region.equations, region.forms, strict=True):
        (output,) = equation.outputs
        steps[id(output)] = equation, how
        if (_picks(equation) or _halves(equation)) and reads[id(output)] == 1:
            picked[id(output)] = equation, how
            continue
        place = next((i for i, a in enumerate(equation.inputs) if id(a) in picked), None)
        if place is None:
            continue
        pick, pick_how = picked[id(equation.inputs[place])]
        primitive = _together(equation, how, pick)
        if primitive is None:
            continue
        del steps[id(pick.outputs[0])]
        others = [i for i in range(len(equation.inputs)) if i != place]
        inputs = (*[equation.inputs[i] for i in others], *pick.inputs[:2])
        axes = (*[how.inputs[i] for i in others], *pick_how.inputs[:2])
        whole = Equation(primitive, inputs, equation.outputs, {}, equation.source)
        steps[id(output)] = whole, RowAccess(axes, how.output)
    return region._replace(
        equations=[equation for equation, _ in steps.values()],
        forms=[how for _, how in steps.values()],
    )


def _together(equation: Equation, how: RowAccess, pick: Equation) -> Any:
    """What does an equation together with the one that picks what it reads; None where none does.

    Sums and products of arrays of one Type, and sums of rows of real numbers along the first of two
    axes.
    """
    primitive, fits = _TOGETHER.get(equation.primitive, (None, _chooses))
    if primitive is None or not fits(pick):
        return None
    type_ = equation.inputs[0].type
    if primitive is sum_where:
        rows = equation.params["axes"] == how.inputs == (0,) and type_.ndim == 2
        return primitive if rows and type_.dtype.char in "fd" else None
    return primitive if all(a.type == equation.outputs[0].type for a in equation.inputs) else None


_TOGETHER: dict[Any, tuple[Any, Callable[[Equation], bool]]] = {
    add: (add_where, _picks), mul: (mul_where, _halves), reduce_sum: (sum_where, _picks),
}  # fmt: skip
"""What is done together with a choice, and with which."""


def _mask(equation: Equation) -> tuple[Atom, np.dtype[Any]] | None:
    """The mask that an equation picks by, and the dtype of what it picks; None of others."""
    primitive: Any = equation.primitive
    if primitive in (add_where, mul_where):
        mask = equation.inputs[1]
    elif primitive in (select, sum_where):
        mask = equation.inputs[0]
    else:
        return None
    bools = isinstance(mask, Variable) and mask.type.dtype == np.bool_
    return (mask, equation.outputs[0].type.dtype) if bools else None


class Masking:
    """The lines of a block that pick by masks, and what is known of these."""

    def __init__(self, block: TileWriter) -> None:
        self._block = block
        self._names: dict[int, str] = {}
        self._extrema: dict[int, tuple[int, str]] = {}
        self._one_each: dict[int, str] = {}
        self._widths: dict[int, int] = {}
        """Of masks by which more is picked than once: words as wide as that are kept."""
        picked = filter(None, map(_mask, block.region.equations))
        count = Counter((id(mask), dtype.itemsize) for mask, dtype in picked)
        for (mask, width), times in count.items():
            if times > 1 and width in masked.WIDTHS:
                self._widths.setdefault(mask, width)

    def attain(self, extremum: Variable, x: Atom, places: str) -> None:
        """Says where an extremum of the rows of x was found."""
        self._extrema[id(extremum)] = id(x), places

    def write(self, equation: Equation, how: RowAccess, given: list[str]) -> bool:
        """Whether an equation makes a mask, or picks or counts by one: then its lines are written.

        Args:
          equation: which.
          how: the axes of its rows.
          given: the texts of its inputs.
        """
        block, (variable,) = self._block, equation.outputs
        primitive: Any = equation.primitive
        rest: list[str] = []
        if primitive is attains:
            self._attained(equation)
            called = block.function("attained", masked.attained)
            text = f"{called}({given[0]}, {given[1]}"
        elif primitive in (add_where, mul_where):
            done = (
                f"added({given[0]}, {given[2]}" if primitive is add_where else f"halved({given[0]}"
            )
            text = f"{self._known(equation.inputs[1], how.inputs[1], given[1])}.{done}"
            rest = self._scratch(variable, how)
            block.buffers.release(equation.inputs[:1])
        elif _mask(equation) is not None:
            mask = equation.inputs[0]
            text = f"{self._known(mask, how.inputs[0], given[0])}.chosen({given[1]}"
            if not _picks(equation):
                width = variable.type.dtype.itemsize
                made = width in masked.WIDTHS and self._widths.get(id(mask)) != width
                rest = [given[2], *block.buffers.scratch(variable, how.output, int(made))]
        elif _counts(equation) and not block.columns:
            axes = equation.params["axes"]
            text = f"{self._known(equation.inputs[0], how.inputs[0], given[0])}.counted({axes}"
        else:
            return False
        target = block.place[id(variable)] = block.target(variable, how.output)
        block.lines.append(f"{', '.join([text, target, *rest])})")
        return True

    def _scratch(self, variable: Variable, how: RowAccess) -> list[str]:
        """Where what an array is added to, or multiplied with, is made: where the result goes, if
        that is no buffer.
        """
        direct = self._block.targets.direct.get(id(variable))
        return [direct] if direct else self._block.buffers.scratch(variable, how.output, 1)

    def summed(self, equation: Equation, how: RowAccess, given: list[str]) -> str:
        """The text of the sum of what a mask picks, over the rows."""
        dtype = self._block.constant(equation.outputs[0].type.dtype)
        known = self._known(equation.inputs[0], how.inputs[0], given[0])
        return f"{known}.summed({given[1]}, {dtype})"

    def _attained(self, equation: Equation) -> None:
        """Remembers the places of y where that is an extremum of x."""
        (x, y), (mask,) = equation.inputs, equation.outputs
        source, name = self._extrema.get(self._block.buffers.root.get(id(y), id(y)), (0, ""))
        if source == id(x) and y.type.shape == (*x.type.shape[:-1], 1):
            self._one_each[id(mask)] = name

    def _known(self, mask: Atom, axis: int | None, text: str) -> str:
        """The name of a mask with what is known of it."""
        block = self._block
        if id(mask) not in self._names:
            name = self._names[id(mask)] = f"n{len(block.lines)}"
            if not isinstance(mask, Variable) or axis is None:
                block.lines.append(f"{name} = {block.function('Mask', masked.Mask)}({text})")
                return name
            width, words = self._widths.get(id(mask)), "None"
            if width is not None:
                words = block.buffers.beside(mask, axis, np.dtype(f"i{width}"))
            one_each = self._one_each.get(id(mask), "None")
            called = block.function("known", masked.known)
            block.lines.append(f"{name} = {called}({text}, {words}, {one_each})")
        return self._names[id(mask)]


__all__ = ["Masking", "joined", "sum_where"]
