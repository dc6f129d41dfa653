"""Programs on numbers of whole Graphs: arrays are taken apart, and put together again.

A program is made where it costs less than the ufuncs of the arrays' program would. What Python's
numbers refuse (a division by zero, an overflow, a root of a negative number), the arrays' program
does from the start. Knows the Writer; knows no primitive.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.program_text import defined
from fungrad.compiler.lowering.scalar import indexing_and_contraction  # noqa: F401 - its rules
from fungrad.compiler.lowering.scalar.scalar_codegen import (
    SIZE,
    Elements,
    Unsupported,
    Writer,
    flattened,
    text,
)
from fungrad.compiler.lowering.scalar.scalar_expressions import BOOL, DTYPES, FLOAT, INT, NAMES
from fungrad.compiler.lowering.scalar.tuple_stacks import HELD, LISTED, Stack, rows
from fungrad.control_flow.tape_type import TRAIL, as_trail
from fungrad.ir.graph import Equation, Graph, Literal, Variable

Program = Callable[..., Sequence[Any]]

_CASTS = {FLOAT: "float", INT: "int", BOOL: "bool"}
_SCALARS = {FLOAT: "float64", INT: "int64", BOOL: "bool_"}
_CALL, _ELEMENT = 300, 25
"""Nanoseconds of taking an array apart or putting one together, and of each element."""


class Trail:
    """The residuals of a loop, a tuple of numbers for each step, with the types they stand for."""

    __slots__ = ("rows", "single", "types")

    def __init__(self, types: Sequence[Any], single: bool = False) -> None:
        self.types = types
        self.single = single
        self.rows: list[Any] = []

    def arrays(self, row: Sequence[Any]) -> list[Any]:
        """The residuals of a step as the arrays' program wants them."""
        result, start = [], 0
        for type_ in self.types:
            part = row[start : start + type_.size]
            start += type_.size
            if type_.dtype == object:
                result.append(as_trail(part[0]))
            else:
                result.append(np.array(part, type_.dtype).reshape(type_.shape)[()])
        return result

    def __iter__(self) -> Iterator[Any]:
        return iter(self.arrays(self.rows[0])) if self.single else map(self.arrays, self.rows)

    def __reversed__(self) -> Iterator[Any]:
        return map(self.arrays, reversed(self.rows))


def trail_of(value: Any) -> Trail:
    """The Trail in an opaque value; another kind is for the arrays' program."""
    found = value[()] if isinstance(value, np.ndarray) else value
    if type(found) is not Trail:
        raise ValueError("the residuals of another program")
    return found


def program(graph: Graph, instead: Program) -> Program | None:
    """The program of an optimised Graph; None where numbers cannot do it, or not faster.

    Args:
      graph: the Graph.
      instead: what does the work where the program gives up.
    """
    try:
        body, namespace = _written(graph)
    except Unsupported:
        return None
    namespace["instead"] = instead
    return defined(body, f"<numbers {graph.name}>", namespace)


def of_equation(equation: Equation, instead: Program) -> Program | None:
    """The program of one equation as a function of its inputs."""
    outputs = tuple(Variable(v.type) for v in equation.outputs)
    arguments = tuple(Variable(a.type) for a in equation.inputs)
    given = tuple(
        a if isinstance(a, Literal) else v for a, v in zip(equation.inputs, arguments, strict=True)
    )
    alone = Equation(equation.primitive, given, outputs, equation.params, equation.source)
    return program(Graph(arguments, (), (alone,), outputs), instead)


def _written(graph: Graph) -> tuple[str, dict[str, Any]]:
    writer = Writer()
    arguments = [f"x{i}" for i in range(len(graph.inputs))]
    values = [_input(writer, name, v) for name, v in zip(arguments, graph.inputs, strict=True)]
    outputs = writer.graph(graph, values)
    results = [_output(o, atom.type) for o, atom in zip(outputs, graph.outputs, strict=True)]
    used = set(re.findall(r"\w+", "\n".join([*writer.lines, *results])))
    begin = []
    io = 0.0
    for name, value, variable in zip(arguments, values, graph.inputs, strict=True):
        taken = _taken_apart(name, value, variable, used)
        if taken:
            begin.append(taken)
            io += _CALL + _ELEMENT * variable.type.size
    io += sum(_CALL + _ELEMENT * atom.type.size for atom in graph.outputs)
    if writer.cost + io > writer.arrays_cost:
        raise Unsupported("arrays are faster")
    given = ", ".join(arguments)
    lines = [
        f"def run({given}):",
        "    try:",
        *(f"        {line}" for line in begin),
        *(f"    {line}" for line in writer.lines),
        f"        return [{', '.join(results)}]",
        "    except (ZeroDivisionError, OverflowError, ValueError, IndexError):",
        f"        return instead({given})",
    ]
    namespace = {
        **NAMES, **writer.namespace, "array": np.array, "float64": np.float64, "int64": np.int64,
        "bool_": np.bool_, "Trail": Trail, "trail_of": trail_of, "as_trail": as_trail,
        "rows": rows, "islice": itertools.islice, "empty": np.empty,
    }  # fmt: skip
    return "\n".join(lines), namespace


def _input(writer: Writer, name: str, variable: Variable) -> Any:
    """What stands for an input: its elements, or the list of its rows if it has many."""
    type_ = variable.type
    if type_ == TRAIL:
        found: Elements = np.empty((), object)
        found[()] = f"{name}_t"
        return found
    if type_.dtype not in DTYPES or type_.size > HELD:
        raise Unsupported(str(type_))
    if type_.size > SIZE:
        width = type_.size // type_.shape[0]
        writer.widths[f"{name}r"] = width
        return Stack(f"{name}r", type_, 0, width, False, type_.size > LISTED)
    found = np.empty(type_.size, object)
    found[:] = [f"{name}_{i}" for i in range(type_.size)]
    return found.reshape(type_.shape)


def _taken_apart(name: str, value: Any, variable: Variable, used: set[str]) -> str:
    """The line that makes the numbers of an input, if any of them is used."""
    type_ = variable.type
    if isinstance(value, Stack):
        line = f"{name}r = {name}.reshape({type_.shape[0]}, {value.width})"
        line += "" if value.array else ".tolist()"
        return line if value.name in used else ""
    parts = flattened([value])
    if not used.intersection(parts):
        return ""
    if type_ == TRAIL:
        return f"{name}_t = trail_of({name})"
    if type_.shape == ():
        return f"{name}_0 = {_CASTS[type_.dtype]}({name})"
    return f"{', '.join(parts)}, = {name}.ravel().tolist()"


def _output(value: Any, type_: Any) -> str:
    """The expression that makes an output of its numbers."""
    if type_ == TRAIL:
        return f"as_trail({text(value[()])})"
    if isinstance(value, Stack):
        columns = f"{value.start}:{value.start + value.width}"
        if value.array:
            order = "::-1" if value.reverse else ":"
            return f"{value.name}[{order}, {columns}].copy().reshape({type_.shape})"
        found = f"reversed({value.name})" if value.reverse else value.name
        part = f"[row[{columns}] for row in {found}]"
        return f"array({part}, '{type_.dtype.name}').reshape({type_.shape})"
    parts = [text(part) for part in flattened([value])]
    if type_.shape == ():
        return parts[0] if type_.weak else f"{_SCALARS[type_.dtype]}({parts[0]})"
    made = f"array(({''.join(f'{p}, ' for p in parts)}), '{type_.dtype.name}')"
    return made if len(type_.shape) == 1 else f"{made}.reshape({type_.shape})"


__all__ = ["Program", "of_equation", "program"]
