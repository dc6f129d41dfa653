"""Floor 6: writes a Graph of small arrays as Python on numbers: one name for each element.

Moving elements costs nothing then, and an operation on a number a tenth of NumPy's on an array.
Loops and branches become Python's. A Graph with anything that has no such form raises
`Unsupported`. Knows primitives and the IR; where the numbers come from and go is the business of
programs.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.backend.scalar_forms import DTYPES, OPERATION, Form, expressed
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.optimise.passes import optimised
from fungrad.primitives.contracting import dot_general
from fungrad.primitives.declare import full
from fungrad.primitives.elementwise import add, sub
from fungrad.primitives.indexing import ARRAY, getitem, scatter
from fungrad.primitives.reducing import reduce_max, reduce_min, reduce_prod
from fungrad.primitives.scattering import index_add, index_set
from fungrad.primitives.shaping import (
    broadcast_to,
    concatenate,
    flip,
    pad,
    reduce_sum,
    reshape,
    slice_axis,
    transpose,
)
from fungrad.primitives.stacking import iota, stack, unstack

SIZE = 64
"""The largest number of elements of an array that is taken apart."""
LINES = 4_000
"""The most lines that a program may have."""
Elements = Any
"""An object array of what stands for each element: a name, or a number."""


structural: dict[Any, Callable[[Writer, Equation, list[Elements]], list[Elements]]] = {}
"""How loops and branches are written: scalar_loops.py puts its rules here."""


class Unsupported(Exception):
    """This Graph is not written on numbers; it is run on arrays."""


class Zero(float):
    """A zero that a scatter left: adding it changes nothing, but for the sign of a zero."""


ZERO = Zero(0.0)

MOVES = (reshape, transpose, broadcast_to, flip, slice_axis, concatenate)


class Writer:
    """The lines of a program on numbers, and what they cost in nanoseconds."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.cost = 0.0
        self.arrays_cost = 0.0
        self.widths: dict[str, int] = {}
        self.namespace: dict[str, Any] = {}
        self._indent = 1
        self._count = 0
        self.weight = 1

    # --- lines and names ----------------------------------------------------------------------

    def fresh(self) -> str:
        """A new name."""
        self._count += 1
        return f"v{self._count}"

    def line(self, text: str) -> None:
        """Writes a line."""
        if len(self.lines) >= LINES:
            raise Unsupported("too long")
        self.lines.append("    " * self._indent + text)

    def named(self, expression: str, cost: float = OPERATION) -> str:
        """The name of an expression's value."""
        self.cost += cost * self.weight
        name = self.fresh()
        self.line(f"{name} = {expression}")
        return name

    def block(self, head: str, write: Callable[[], None], weight: int = 1) -> None:
        """Writes an indented block."""
        self.line(head)
        self._indent += 1
        self.weight *= weight
        write()
        self.weight //= weight
        self._indent -= 1

    def names(self, type_: Any) -> Elements:
        """New names for the elements of a value of a Type."""
        if type_.dtype != object:  # the trail of an inner loop
            _check(type_)
        found = np.empty(type_.size, object)
        found[:] = [self.fresh() for _ in range(type_.size)]
        return found.reshape(type_.shape)

    def constant(self, value: Any) -> str:
        """The name of a value that the program holds."""
        name = f"k{len(self.namespace)}"
        self.namespace[name] = value
        return name

    # --- Graphs -------------------------------------------------------------------------------

    def graph(self, graph: Graph, inputs: Sequence[Elements]) -> list[Elements]:
        """Writes a Graph's equations; its outputs."""
        graph = optimised(graph)
        values: dict[int, Elements] = {}
        for variable, given in zip(graph.inputs, inputs, strict=True):
            values[id(variable)] = given
        for variable, constant in graph.constants:
            _check(variable.type)
            values[id(variable)] = _numbers(constant, variable.type)

        def read(atom: Atom) -> Elements:
            return (
                _numbers(atom.value, atom.type) if isinstance(atom, Literal) else values[id(atom)]
            )

        for equation in graph.equations:
            outputs = self.equation(equation, [read(atom) for atom in equation.inputs])
            for variable, found in zip(equation.outputs, outputs, strict=True):
                values[id(variable)] = found
        return [read(atom) for atom in graph.outputs]

    def equation(self, equation: Equation, inputs: list[Elements]) -> list[Elements]:
        """Writes an equation; its outputs."""
        primitive: Any = equation.primitive
        rule = structural.get(primitive)
        if rule is not None:
            return rule(self, equation, inputs)
        for output in equation.outputs:
            _check(output.type)
        flattened(inputs)
        self.arrays_cost += self.weight * (150 if primitive in (*MOVES, getitem) else 450)
        form = expressed(equation)
        if form is not None:
            return [self.elementwise(equation, form, inputs)]
        if primitive in MOVES:
            return [_objects(primitive.eval(*inputs, **equation.params))]
        if primitive is stack:
            return [np.stack(inputs)]
        if primitive in _REDUCE:
            return [self.reduced(equation, inputs[0])]
        found = _SPECIAL.get(primitive)
        if found is None:
            raise Unsupported(primitive.name)
        return found(self, equation, inputs)

    def elementwise(self, equation: Equation, form: Form, inputs: list[Elements]) -> Elements:
        """An expression for each element."""
        spread = np.broadcast_arrays(*inputs) if len(inputs) > 1 else inputs
        result = np.empty(spread[0].shape, object)
        flat = result.reshape(-1)
        for i, parts in enumerate(zip(*[s.reshape(-1) for s in spread], strict=True)):
            flat[i] = self.element(equation, form, parts)
        return result

    def element(self, equation: Equation, form: Form, parts: Sequence[Any]) -> Any:
        """An expression of the elements at one place."""
        if equation.primitive is add and ZERO in map(_zero, parts):
            return parts[0] if parts[1].__class__ is Zero else parts[1]
        if equation.primitive is sub and parts[1].__class__ is Zero:
            return parts[0]
        texts = [text(p) for p in parts]
        return self.named(form.write(equation, *texts), form.cost)

    def total(self, parts: Sequence[Any], template: str = "{0} + {1}") -> Any:
        """The elements put together by an operation, one after the other."""
        if template == "{0} + {1}":
            parts = [p for p in parts if p.__class__ is not Zero] or [ZERO]
        result = parts[0]
        for part in parts[1:]:
            result = self.named(template.format(text(result), text(part)))
        return result

    def reduced(self, equation: Equation, x: Elements) -> Elements:
        """A reduction over axes."""
        template, empty = _REDUCE[equation.primitive]
        if x.size and equation.inputs[0].type.dtype.kind == "b":
            raise Unsupported("a sum of booleans")
        axes = equation.params["axes"]
        rest = [i for i in range(x.ndim) if i not in axes]
        count = math.prod([x.shape[i] for i in axes])
        rows = x.transpose((*rest, *axes)).reshape(*[x.shape[i] for i in rest], count)
        result = np.empty(rows.shape[:-1], object)
        for place in np.ndindex(*result.shape):
            parts = list(rows[place])
            result[place] = self.total(parts, template) if parts else empty
        return result


def text(part: Any) -> str:
    """The text of a name or a number."""
    if part.__class__ is str:
        return str(part)
    if (isinstance(part, float) and part < 0) or (isinstance(part, int) and part < 0):
        return f"({part!r})"
    return repr(float(part)) if isinstance(part, Zero) else repr(part)


def _zero(part: Any) -> Any:
    return ZERO if part.__class__ is Zero else None


def _check(type_: Any) -> None:
    """Refuses what is not a small array of the dtypes that Python's numbers stand for."""
    if type_.dtype not in DTYPES or type_.size > SIZE:
        raise Unsupported(str(type_))


def _numbers(value: Any, type_: Any) -> Elements:
    """The elements of a constant, as numbers of Python's."""
    _check(type_)
    found = np.empty(type_.size, object)
    found[:] = np.asarray(value, type_.dtype).reshape(-1).tolist()
    return found.reshape(type_.shape)


def _objects(value: Any) -> Elements:
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value
    found = np.empty((), object)
    found[()] = value
    return found


# --- moving by index, contractions ----------------------------------------------------------------


def _getitem(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    x, *arrays = inputs
    index = equation.params["index"]
    if not arrays:
        return [_objects(x[index.entries])]
    if len(arrays) != 1 or arrays[0].shape or index.entries[0] != ARRAY:
        raise Unsupported("an index array")
    if any(entry != slice(None) for entry in index.entries[1:]):
        raise Unsupported("an index array among others")
    place = text(arrays[0][()])
    result = np.empty(x.shape[1:], object)
    for at in np.ndindex(*result.shape):
        column = ", ".join(text(part) for part in x[(slice(None), *at)])
        result[at] = writer.named(f"({column},)[{place}]", OPERATION + 8 * len(x))
    return [result]


def _value(x: Elements) -> Any:
    """What is assigned to a part of an object array: NumPy would store a 0-d array as it is."""
    return x if x.ndim else x[()]


def _placed(x: Elements, index: Any) -> Any:
    return np.arange(x.size).reshape(x.shape)[index.entries]


def _scatter(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    if len(inputs) > 1:
        raise Unsupported("a scatter by index arrays")
    result = np.empty(equation.params["shape"], object)
    result[...] = ZERO
    result[equation.params["index"].entries] = _value(inputs[0])
    return [result]


def _index_set(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    if len(inputs) > 2:
        raise Unsupported("writing by index arrays")
    result = inputs[0].copy()
    result[equation.params["index"].entries] = _value(inputs[1])
    return [result]


def _index_add(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    if len(inputs) > 2:
        raise Unsupported("writing by index arrays")
    result = inputs[0].copy()
    flat = result.reshape(-1)
    places = np.ravel(_placed(result, equation.params["index"]))
    for place, value in zip(places, inputs[1].reshape(-1), strict=True):
        flat[place] = writer.total([flat[place], value])
    return [result]


def _dot(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    x, y = inputs
    contract, batch = equation.params["contract"], equation.params["batch"]
    free_x = [i for i in range(x.ndim) if i not in (*contract[0], *batch[0])]
    free_y = [i for i in range(y.ndim) if i not in (*contract[1], *batch[1])]
    left = x.transpose((*batch[0], *free_x, *contract[0]))
    right = y.transpose((*batch[1], *free_y, *contract[1]))
    shape = left.shape[: len(batch[0])]
    rows, columns = (
        left.shape[len(shape) :][: len(free_x)],
        right.shape[len(shape) :][: len(free_y)],
    )
    result = np.empty((*shape, *rows, *columns), object)
    for place in np.ndindex(*result.shape):
        at, row = place[: len(shape)], place[len(shape) : len(shape) + len(rows)]
        first = left[(*at, *row)]
        second = right[(*at, *place[len(shape) + len(rows) :])]
        pairs = zip(np.ravel(_objects(first)), np.ravel(_objects(second)), strict=True)
        terms = [f"{text(a)} * {text(b)}" for a, b in pairs if ZERO not in (_zero(a), _zero(b))]
        value = writer.named(" + ".join(terms), OPERATION * (2 * len(terms))) if terms else ZERO
        result[place] = value
    return [result]


def _full(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    primitive: Any = equation.primitive
    return [_numbers(primitive.eval(**equation.params), equation.outputs[0].type)]


def _pad(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    positions = np.arange(1, inputs[0].size + 1).reshape(inputs[0].shape)
    primitive: Any = equation.primitive
    places = primitive.eval(positions, **equation.params)
    result = np.empty(places.shape, object)
    result[...] = ZERO
    filled = places > 0
    result[filled] = inputs[0].reshape(-1)[places[filled] - 1]
    return [result]


def _unstack(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    primitive: Any = equation.primitive
    return [_objects(part) for part in primitive.eval(inputs[0], **equation.params)]


_REDUCE: dict[Any, tuple[str, Any]] = {
    reduce_sum: ("{0} + {1}", 0.0),
    reduce_prod: ("{0} * {1}", 1.0),
    reduce_max: ("{0} if {0} >= {1} or {0} != {0} else {1}", None),
    reduce_min: ("{0} if {0} <= {1} or {0} != {0} else {1}", None),
}
_SPECIAL: dict[Any, Callable[[Writer, Equation, list[Elements]], list[Elements]]] = {
    getitem: _getitem,
    scatter: _scatter,
    index_set: _index_set,
    index_add: _index_add,
    dot_general: _dot,
    full: _full,
    iota: _full,
    pad: _pad,
    unstack: _unstack,
}


def flattened(values: Sequence[Elements]) -> list[Any]:
    """All elements of some values, one after the other."""
    for value in values:
        if not isinstance(value, np.ndarray):
            raise Unsupported("a stack that is read as a whole")
    return [part for value in values for part in value.reshape(-1)]


def assigned(writer: Writer, names: Sequence[str], parts: Sequence[Any]) -> None:
    """Writes that names stand for other elements from here on."""
    changed = [(n, text(p)) for n, p in zip(names, parts, strict=True) if text(p) != n]
    if changed:
        left, right = zip(*changed, strict=True)
        writer.cost += 4 * len(left)
        writer.line(f"{', '.join(left)} = {', '.join(right)}")


__all__ = [
    "SIZE", "ZERO", "Elements", "Unsupported", "Writer", "assigned", "flattened", "structural",
    "text",
]  # fmt: skip
