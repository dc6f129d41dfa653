"""Writes a Graph as a function in a module of plain NumPy, which runs without fungrad.

One line an equation, as one writes it by hand; loops and branches (control_flow.py) are Python's.
All else is a function of ours, copied into the module (inlined_functions.py). Runs nothing.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.numpy_expressions import OF_INTEGERS, expressed
from fungrad.compiler.passes.pipeline import optimised
from fungrad.errors import ArgumentError
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable, inner_graphs
from fungrad.ir.printer import name_of
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.gather import indexed, scatter
from fungrad.primitives.movement.scatter import (
    index_add,
    index_max,
    index_min,
    index_multiply,
    index_set,
)
from fungrad.primitives.stop_gradient import stop, stop_order
from fungrad.rematerialisation.policies import named
from fungrad.source_export.control_flow import STATEMENTS, indented, packed, target
from fungrad.source_export.expressions import (
    NotWritable,
    TooLarge,
    index_text,
    literal,
    phrased,
    shape_text,
)
from fungrad.source_export.inlined_functions import Copies

WIDTH = 88
DEEPEST = 16
"""The most loops and branches in each other in one function."""


class Module:
    """A module: imports, definitions, and functions, one for each Graph.

    Args:
      arrays: where large arrays are put by their names; None refuses them.
    """

    def __init__(self, arrays: dict[str, Any] | None = None) -> None:
        self.values = Copies(arrays)
        self.functions: list[str] = []

    def text(self, head: str = "", stored: str = "") -> str:
        """The module.

        Args:
          head: its docstring.
          stored: the file of the large arrays, beside the module.
        """
        values, loaded = self.values, []
        if values.arrays:
            values.imports["os"] = "import os"
            loaded = [
                f'with np.load(os.path.join(os.path.dirname(__file__), "{stored}")) as _stored:',
                *[f'    {name} = _stored["{name}"]' for name in values.arrays],
            ]
        used = "\n".join((*loaded, *values.texts.values(), *self.functions))
        lines = sorted(values.imports.values())
        if re.search(r"\bnp\.", used) is None:
            lines.remove("import numpy as np")
        lines.sort(key=lambda line: line.startswith(("import numpy", "import scipy")))
        doc = [f'"""{head}"""'] * bool(head)
        top = ["\n".join(part) for part in (doc, lines, loaded) if part]
        parts = ["\n\n".join(top), *values.texts.values(), *self.functions]
        text = "\n\n\n".join(part for part in parts if part)
        return "\n".join(map(_folded, text.split("\n"))) + "\n"

    def function(
        self,
        graph: Graph,
        name: str,
        *,
        parameters: Sequence[str] = (),
        inputs: Sequence[tuple[str, str]] = (),
        doc: Sequence[str] = (),
        returned: Callable[[list[str]], str] | None = None,
    ) -> str:
        """Writes a function that computes a Graph; its name.

        Args:
          graph: the Graph, which is optimised.
          name: how the function is called.
          parameters: the list of its parameters, as text; the inputs by their letters if empty.
          inputs: for each input the local name that it gets, and what that is made of ("" where it
            is a parameter).
          doc: the lines of the docstring.
          returned: the expression of the result, made of those of the outputs; a tuple by default.
        """
        name = name if name.isidentifier() else "function"
        self.values.taken.add(name)
        graph = optimised(graph)
        reserved = [p.split("=")[0].strip("* ") for p in parameters]
        function = Function(self.values, self.part, reserved)
        unpacked = []
        used = {id(a) for e in graph.equations for a in e.inputs} | {id(a) for a in graph.outputs}
        for variable, (local, source) in zip(graph.inputs, inputs, strict=bool(inputs)):
            if not source:
                function.bind(variable, local)
            elif id(variable) in used:
                unpacked.append(f"{function.name(variable, local)} = {source}")
        given = list(parameters) or [function.name(v) for v in graph.inputs]
        body = [*unpacked, *function.constants(graph), *function.body(graph)]
        results = [function.result(graph, atom) for atom in graph.outputs]
        made = returned(results) if returned else packed(results)
        body = merged([*body, f"return {made}"])[:-1]
        if body and body[-1].startswith(f"{made} = "):
            body[-1] = f"return {body[-1].partition(' = ')[2]}"
        else:
            body.append(f"return {made}")
        tree = ast.parse("\n".join([f"def {name}({', '.join(given)}):", *indented(body)]))
        if doc:
            said = "\n".join(["", *indented(doc[1:]), "    "]) if doc[1:] else ""
            said = re.sub(" +\n", "\n", doc[0] + said)
            tree.body[0].body.insert(0, ast.Expr(ast.Constant(said)))  # type: ignore[attr-defined]
        self.functions.append(ast.unparse(tree))
        return name

    def part(self, graph: Graph) -> str:
        """Writes a function for a Graph of which there are too many in each other; its name."""
        return self.function(graph, self.values.fresh("part"))


def _folded(line: str) -> str:
    """A long line as several, where these still are one statement."""
    if len(line) <= WIDTH or "'" in line or '"' in line:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    folded = "\n".join(
        textwrap.wrap(
            line, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
        )
    )
    try:
        whole = ast.parse(textwrap.dedent(folded))
    except SyntaxError:
        return line
    return folded if len(whole.body) == 1 else line


_NAMED = re.compile(r"( *)(\w+) = (\w+)")


def merged(lines: list[str]) -> list[str]:
    """The statements with `a = x; b = a` as `b = x`, where a is not read otherwise."""
    words = Counter(word for line in lines for word in re.findall(r"\w+", line))
    lines = list(lines)
    place = 0
    while place < len(lines):
        found = _NAMED.fullmatch(lines[place])
        if found is not None and words[found[3]] == 2:
            indent, new, old = found.groups()
            before = next((i for i in range(place) if lines[i].startswith(f"{indent}{old} = ")), -1)
            between = lines[max(before, 0) : place]
            one_block = before >= 0 and all(line.startswith(indent) for line in between)
            if one_block and re.search(rf"\b{new}\b", "\n".join(between)) is None:
                made = lines[before].removeprefix(f"{indent}{old}")
                lines[before : place + 1] = [f"{indent}{new}{made}", *lines[before + 1 : place]]
                continue
        place += 1
    return lines


class Function:
    """The statements of a function, with those of the Graphs inside: its loops and branches.

    Python has no more than 20 blocks in each other: `part` writes a function for what is deeper.
    """

    def __init__(
        self, values: Copies, part: Callable[[Graph], str], reserved: Sequence[str] = ()
    ) -> None:
        self.values = values
        self._part = part
        self._depth = 0
        self._names: dict[int, str] = {}
        self._held: list[Any] = []
        self._reserved = {*reserved, "as", "if", "in", "is", "or", "and", "def", "del", "for",
                          "not", "try", "np", "all", "any", "abs", "int", "len", "max", "min",
                          "pow", "set", "str", "sum", "zip", "map", "dir", "hex", "bin", "chr",
                          "ord", "oct", "id", "ast", "re", "os", "sys"}  # fmt: skip
        self._count = 0

    # --- names ------------------------------------------------------------------------------------

    def name(self, variable: Variable, wished: str = "") -> str:
        """The name of a value: letters in the order of the equations, as the printed Graph has."""
        if id(variable) not in self._names:
            self.bind(variable, self.local(wished) if wished else self.letter())
        return self._names[id(variable)]

    def bind(self, variable: Variable, text: str) -> None:
        """Lets a value be read as a text."""
        self._names[id(variable)] = text
        self._held.append(variable)

    def letter(self) -> str:
        """The next letter that is free."""
        while True:
            name = name_of(self._count)
            self._count += 1
            if name not in self._reserved:
                self._reserved.add(name)
                return name if len(name) < 4 else f"v{self._count}"

    def local(self, wished: str) -> str:
        """A free name for something other than a value."""
        name, count = wished, 1
        while name in self._reserved or name in self.values.taken:
            count += 1
            name = f"{wished}_{count}"
        self._reserved.add(name)
        return name

    def read(self, atom: Atom, others: Sequence[Any] = ()) -> str:
        """The text of an argument, beside others of the given Types."""
        return literal(atom, others, self.values) if isinstance(atom, Literal) else self.name(atom)

    def result(self, graph: Graph, atom: Atom) -> str:
        """The text of an output, which is the caller's own where it is a constant."""
        text = self.read(atom)
        constant = any(v is atom and isinstance(x, np.ndarray) for v, x in graph.constants)
        return f"{text}.copy()" if constant else text

    # --- statements -------------------------------------------------------------------------------

    def constants(self, graph: Graph) -> list[str]:
        """The statements that make the constants of a Graph."""
        lines = []
        for variable, value in graph.constants:
            try:
                text = self.values.value("constant", value)
            except TooLarge as reason:
                raise ArgumentError(
                    f"The function holds {reason}, which is too large for a text: pass it as an "
                    'argument, or give fg.to_source a path="f.py", beside which it is written.'
                ) from None
            if text.isidentifier():
                self.bind(variable, text)
            else:
                lines.append(f"{self.name(variable)} = {text}")
        return lines

    def body(self, graph: Graph) -> list[str]:
        """The statements of the equations."""
        lines = []
        for equation in graph.equations:
            try:
                lines += self._statements(equation)
            except NotWritable as reason:
                where = f" at {equation.source}" if equation.source else ""
                raise ArgumentError(
                    f"`{equation.primitive.name}`{where} cannot be written as NumPy source: it "
                    f"needs {reason}. Leave it out of the function, or ship the function by "
                    "fg.export, which fungrad loads."
                ) from None
        return lines

    def inlined(self, graph: Graph, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """The statements of a Graph inside, and the texts of its outputs."""
        graph = optimised(graph)
        if self._depth == DEEPEST and any(True for e in graph.equations for _ in inner_graphs(e)):
            names = [self.letter() for _ in graph.outputs]
            results = f"{target(names)} = " if names else ""
            called = f"{self._part(graph)}({', '.join(arguments)})"
            return [results + called], names
        self._depth += 1
        for variable in [v for e in graph.equations for v in e.outputs]:
            self._names.pop(id(variable), None)  # the same Graph may stand at several places
        for variable, text in zip(graph.inputs, arguments, strict=True):
            self.bind(variable, text)
        self._held.append(graph)
        lines = [*self.constants(graph), *self.body(graph)]
        self._depth -= 1
        return lines, [self.read(atom) for atom in graph.outputs]

    def _statements(self, equation: Equation) -> list[str]:
        write = _STATEMENTS.get(equation.primitive) or STATEMENTS.get(equation.primitive)
        if write is not None:
            lines: list[str] = write(self, equation, [self.read(a) for a in equation.inputs])
            return lines
        types = [atom.type for atom in equation.inputs]
        plain = equation.primitive.ufunc is not None and equation.primitive is not select
        arguments = [
            self.read(atom, types[:i] + types[i + 1 :] if plain else ())
            for i, atom in enumerate(equation.inputs)
        ]
        text = self._expression(equation, arguments)
        if not equation.primitive.multiple:
            return [f"{self.name(equation.outputs[0])} = {text}"]
        results = [self.name(v) for v in equation.outputs]
        return [f"{target(results)} = {text}" if results else text]

    def _expression(self, equation: Equation, arguments: list[str]) -> str:
        primitive: Any = equation.primitive
        if primitive.effect:
            raise NotWritable("to be run for what it does")
        applied = phrased(equation, arguments, self.values)
        applied = applied or expressed(equation, arguments, self.values.value)
        if applied is not None:
            return applied
        weak = bool(equation.inputs) and all(atom.type.weak for atom in equation.inputs)
        if weak and all(atom.type.dtype.kind in "bi" for atom in equation.inputs):
            operator = OF_INTEGERS.get(primitive)
            if operator is not None:
                return operator.format(*arguments)
        if any(isinstance(p, Graph) for p in equation.params.values()):
            raise NotWritable("to run a Graph in a way of its own")
        if primitive.ufunc is not None:
            called = self.values.value(primitive.name, primitive.ufunc)
            made = type(primitive.eval) is np.ufunc
            return f"{called}({', '.join(arguments)})" + ".item()" * (
                weak and not made and equation.outputs[0].type.weak
            )
        called = self.values.value(primitive.name, primitive.eval)
        given = [f"{k}={self.values.value(k, v)}" for k, v in equation.params.items()]
        return f"{called}({', '.join([*arguments, *given])})"


# --- what writes into arrays ----------------------------------------------------------------------


def _same(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    f.bind(equation.outputs[0], arguments[0])
    return []


def _indexed(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    result = f.name(equation.outputs[0])
    place = index_text(equation.params["index"], arguments)
    return [
        f"{result} = np.zeros({shape_text(equation.params['shape'])}, bool)",
        f"{result}[{place}] = True",
    ]


_UFUNCS: dict[Any, str] = {
    scatter: "add",
    index_set: "",
    index_add: "add",
    index_multiply: "multiply",
    index_min: "minimum",
    index_max: "maximum",
}
_IN_PLACE = {"": "=", "add": "+=", "multiply": "*="}


def _written(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    result, index = f.name(equation.outputs[0]), equation.params["index"]
    ufunc, given = _UFUNCS[equation.primitive], list(zip(arguments, equation.inputs, strict=True))
    if equation.primitive is scatter:
        kind = f.values.dtype_after(equation.outputs[0].type.dtype)
        begin = f"np.zeros({shape_text(equation.params['shape'])}{kind})"
    else:
        begin = f'np.array({given.pop(0)[0]}, order="C")'
    (values, written), *rest = given
    place = index_text(index, [text for text, _ in rest])
    repeated = any(atom.type.shape for _, atom in rest)
    operator = _IN_PLACE.get(ufunc if written.type.dtype == equation.outputs[0].type.dtype else "-")
    if not ufunc or (equation.primitive is scatter and (index.unique or not repeated)):
        operator, values = "=", f"np.ascontiguousarray({values})" if repeated else values
    elif repeated and not index.unique:
        at = place if place.isidentifier() else f"np.index_exp[{place}]"
        return [f"{result} = {begin}", f"np.{ufunc}.at({result}, {at}, {values})"]
    elif operator is None:
        operator, values = "=", f"np.{ufunc}({result}[{place}], {values})"
    return [f"{result} = {begin}", f"{result}[{place}] {operator} {values}"]


_STATEMENTS: dict[Any, Any] = {
    stop: _same,
    stop_order: _same,
    named: _same,
    indexed: _indexed,
    **dict.fromkeys(_UFUNCS, _written),
}

__all__ = ["Function", "Module"]
