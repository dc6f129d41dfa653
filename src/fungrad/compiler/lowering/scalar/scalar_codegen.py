"""Writes a Graph of small arrays as Python on numbers: one name for each element.

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

from fungrad.compiler.lowering.scalar.scalar_expressions import (
    DTYPES,
    FLOAT,
    INT,
    LARGER,
    OPERATION,
    SMALLER,
    Form,
    expressed,
)
from fungrad.compiler.passes.pipeline import optimised
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import add, mul, neg, sub
from fungrad.primitives.elementwise.ufuncs import abs as absolute
from fungrad.primitives.elementwise.ufuncs import square
from fungrad.primitives.movement.gather import getitem
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    concatenate,
    flip,
    reduce_sum,
    reshape,
    slice_axis,
    to_discrete,
    transpose,
)
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.movement.stack_iota import stack
from fungrad.primitives.reduction.cumulative import cumprod, cumsum
from fungrad.primitives.reduction.reduce import (
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_min,
    reduce_prod,
)
from fungrad.support.lazy import ByPrimitive

SIZE = 64
"""The largest number of elements of an array that is taken apart."""
DEEPEST = 18
"""The most blocks in each other: Python has no more than 20. What is outside is run on arrays then,
and what is inside by programs of its own."""
LINES = 4_000
"""The most lines that a program may have."""
Elements = Any
"""An object array of what stands for each element: a name, or a number."""


structural = ByPrimitive(
    {
        "fungrad.control_flow.switch": "fungrad.compiler.lowering.scalar.scalar_control_flow",
        "fungrad.control_flow.call": "fungrad.compiler.lowering.scalar.scalar_control_flow",
        "fungrad.control_flow.while_loop": "fungrad.compiler.lowering.scalar.scalar_control_flow",
        "fungrad.control_flow.scan": "fungrad.compiler.lowering.scalar.scalar_control_flow",
    }
)
"""How loops and branches are written: a function of the Writer, the equation and what it reads."""
rules: dict[Any, Callable[[Writer, Equation, list[Elements]], list[Elements]]] = {}
"""How moving by index and contractions are written: indexing_and_contraction.py puts its rules
here."""


class Unsupported(Exception):
    """This Graph is not written on numbers; it is run on arrays."""


class Zero(float):
    """A zero that a scatter left: adding it changes nothing, but for the sign of a zero."""


ZERO = Zero(0.0)

_GROWS = (
    add, sub, mul, neg, square, absolute, reduce_sum, reduce_prod, dot_general, cumsum, cumprod,
    index_add, to_discrete,
)  # fmt: skip
"""What may give an integer that is larger than those that it reads."""
_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

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
        if self._indent == DEEPEST:
            raise Unsupported("too many blocks in each other")
        self.line(head)
        before = self.weight
        self._indent += 1
        self.weight = before * max(weight, 1)
        at = len(self.lines)
        write()
        if len(self.lines) == at:
            self.line("pass")
        self.weight = before
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
        _check_length(graph)
        values: dict[int, Elements] = {}
        for variable, given in zip(graph.inputs, inputs, strict=True):
            values[id(variable)] = given
        for variable, constant in graph.constants:
            _check(variable.type)
            values[id(variable)] = numbers(constant, variable.type)

        def read(atom: Atom) -> Elements:
            return numbers(atom.value, atom.type) if isinstance(atom, Literal) else values[id(atom)]

        for equation in graph.equations:
            outputs = self.equation(equation, [read(atom) for atom in equation.inputs])
            for variable, found in zip(equation.outputs, outputs, strict=True):
                values[id(variable)] = found
        return [read(atom) for atom in graph.outputs]

    def equation(self, equation: Equation, inputs: list[Elements]) -> list[Elements]:
        """Writes an equation; its outputs."""
        primitive: Any = equation.primitive
        rule = structural.of(primitive)
        if rule is not None:
            outputs: list[Elements] = rule(self, equation, inputs)
            return outputs
        outputs = self._written(equation, [self.whole(x) for x in inputs])
        self.wrapped(equation, outputs)
        return outputs

    def _written(self, equation: Equation, inputs: list[Elements]) -> list[Elements]:
        """The outputs of an equation that holds no Graph."""
        primitive: Any = equation.primitive
        for output in equation.outputs:
            _check(output.type)
        self.arrays_cost += self.weight * (150 if primitive in (*MOVES, getitem) else 450)
        form = expressed(equation)
        if form is not None:
            return [self.elementwise(equation, form, inputs)]
        if primitive in MOVES:
            return [objects(primitive.eval(*inputs, **equation.params))]
        if primitive is stack:
            return [np.stack(inputs)]
        if primitive in _REDUCE:
            return [self.reduced(equation, inputs[0])]
        found = rules.get(primitive)
        if found is None:
            raise Unsupported(primitive.name)
        return found(self, equation, inputs)

    def wrapped(self, equation: Equation, outputs: list[Elements]) -> None:
        """Gives up where an integer leaves 64 bits: NumPy's wrap around, Python's grow."""
        if equation.outputs[0].type.dtype != INT or equation.primitive not in _GROWS:
            return
        for name in flattened(outputs):
            if type(name) is str:
                self.cost += OPERATION * self.weight
                self.line(f"if not {_LOWEST} <= {name} <= {_HIGHEST}: raise OverflowError")

    def whole(self, value: Any) -> Elements:
        """The elements of a value, of a list of rows too, if they are few."""
        if isinstance(value, np.ndarray):
            return value
        _check(value.type)
        if value.type is None or value.name not in self.widths:
            raise Unsupported("a stack that is read as a whole")
        names = self.names(value.type)
        width = self.widths[value.name]
        rows = list(names.reshape(value.type.shape[0], value.width))
        before, after = ["_"] * value.start, ["_"] * (width - value.start - value.width)
        shown = [f"({', '.join([*before, *row, *after])},)" for row in rows]
        if shown:
            self.line(f"{', '.join(reversed(shown) if value.reverse else shown)}, = {value.name}")
        return names

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
        if equation.primitive is add and all(map(is_zero, parts)):
            return ZERO
        if equation.primitive is sub and is_zero(parts[1]):
            return parts[0]
        texts = [text(p) for p in parts]
        return self.named(form.write(equation, *texts), form.cost)

    def total(self, parts: Sequence[Any], template: str = "{0} + {1}") -> Any:
        """The elements put together by an operation, one after the other.

        Of zeros one is added: it makes 0.0 of -0.0.
        """
        if template == "{0} + {1}" and any(map(is_zero, parts)):
            parts = [*(p for p in parts if not is_zero(p)), ZERO]
        result = parts[0]
        for part in parts[1:]:
            result = self.named(template.format(text(result), text(part)))
        return result

    def reduced(self, equation: Equation, x: Elements) -> Elements:
        """A reduction over axes."""
        template, start = _REDUCE[equation.primitive]
        axes = equation.params["axes"]
        before, after = equation.inputs[0].type.dtype, equation.outputs[0].type.dtype
        start = None if start is None else after.type(start).item()
        rest = [i for i in range(x.ndim) if i not in axes]
        count = math.prod([x.shape[i] for i in axes])
        rows = x.transpose((*rest, *axes)).reshape(*[x.shape[i] for i in rest], count)
        result = np.empty(rows.shape[:-1], object)
        for place in np.ndindex(*result.shape):
            parts = list(rows[place])
            if before != after:  # one part alone would stay of its own kind
                parts = [start, *parts]
            elif template == "{0} + {1}" and after == FLOAT:
                parts = [*parts, ZERO]  # so NumPy's sums begin
            result[place] = self.total(parts, template) if parts else start
        return result


def text(part: Any) -> str:
    """The text of a name or a number."""
    if type(part) is str:
        return str(part)
    if (isinstance(part, float) and part < 0) or (isinstance(part, int) and part < 0):
        return f"({part!r})"
    return repr(float(part)) if isinstance(part, Zero) else repr(part)


def is_zero(part: Any) -> bool:
    """Whether an element is a zero that a scatter left."""
    return type(part) is Zero


def _check(type_: Any) -> None:
    """Refuses what is not a small array of the dtypes that Python's numbers stand for."""
    if type_.dtype not in DTYPES or type_.size > SIZE:
        raise Unsupported(str(type_))


def _check_length(graph: Graph) -> None:
    """Refuses what will be too long before a line of it is written: an elementwise equation writes
    one for each element, but for sums with zeros.
    """
    count = 0
    for equation in graph.equations:
        primitive: Any = equation.primitive
        if primitive.partials is not None and primitive not in (add, sub):
            count += equation.outputs[0].type.size
            if count > LINES:
                raise Unsupported("too long")


def numbers(value: Any, type_: Any) -> Elements:
    """The elements of a constant, as numbers of Python's."""
    _check(type_)
    if type(value) is int and not _LOWEST <= value <= _HIGHEST:
        raise Unsupported("an integer of more than 64 bits")
    found = np.empty(type_.size, object)
    found[:] = np.asarray(value, type_.dtype).reshape(-1).tolist()
    return found.reshape(type_.shape)


def objects(value: Any) -> Elements:
    """A value as an object array."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value
    found = np.empty((), object)
    found[()] = value
    return found


_REDUCE: dict[Any, tuple[str, Any]] = {
    reduce_any: ("bool({0} or {1})", False),
    reduce_all: ("bool({0} and {1})", True),
    reduce_sum: ("{0} + {1}", 0.0),
    reduce_prod: ("{0} * {1}", 1.0),
    reduce_max: (LARGER, None),
    reduce_min: (SMALLER, None),
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
    "SIZE", "ZERO", "Elements", "Unsupported", "Writer", "assigned", "flattened", "is_zero",
    "numbers", "objects", "rules", "structural", "text",
]  # fmt: skip
