"""Writes a Graph as a function in a module of plain NumPy, which runs without fungrad.

Each equation is one line, as if written by hand; loops and branches are Python's (control_flow.py).
Other primitives call fungrad's own functions, which are copied into the module
(inlined_functions.py). Writing runs nothing.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.loop_ir.printer import Printer, indented
from fungrad.compiler.loop_ir.program import Argument, Call, Copy, Local, coalesce, placed, touched
from fungrad.compiler.numpy_backend.numpy_expressions import expressed, of_integers
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.scalar.array_walk import ArrayControlFlow, handles
from fungrad.compiler.scalar.emitter import TAPE_DTYPE, Elements, boxed
from fungrad.compiler.scalar.emitter import Number as Array
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
from fungrad.source_export.control_flow import OF_CONTROL_FLOW
from fungrad.source_export.expressions import (
    NotWritable,
    TooLarge,
    Values,
    index_text,
    literal,
)
from fungrad.source_export.inlined_functions import Copies

WIDTH = 88
DEEPEST = 16
"""The maximum depth of nested loops and branches in one function."""
Known = dict[Atom, Elements]


class _Names(Printer):
    """Prints nodes; values have the letters of a printed Graph, in the order of the lines.

    Args:
      values: the module's names.
      reserved: names that are taken.
    """

    reuses = False

    def __init__(self, values: Values, reserved: Sequence[str]) -> None:
        super().__init__({})
        self._reserved = {*reserved, "ast", "np", "os", "re", "sys", "v"}
        self._values = values
        self._count = 0

    def new(self, stem: str) -> str:
        name, count = stem, 1
        taken = (self._reserved, self._values.taken, vars(builtins), keyword.kwlist)
        while any(name in names for names in taken):
            count += 1
            name = f"{stem}_{count}" if stem != "v" else self._letter()
        self._reserved.add(name)
        return name

    def _letter(self) -> str:
        self._count += 1
        name = name_of(self._count - 1)
        return name if len(name) < 4 else f"v{self._count}"

    def text(self, array: Elements) -> str:
        """The text of an array: its name, or an expression."""
        (found,) = handles([array])
        return self.name(found) if isinstance(found, Local) else found.format()


def _escaped(text: str) -> str:
    """A text for nodes, where braces are fields."""
    return text.replace("{", "{{").replace("}", "}}")


def _constant(text: str) -> Elements:
    """An array that is a text."""
    return boxed(Array(_escaped(text), TAPE_DTYPE))


class ExportedModule:
    """A module: imports, definitions, and functions, one for each Graph.

    Args:
      arrays: receives the large arrays by their names; None if they are an error.
    """

    def __init__(self, arrays: dict[str, Any] | None = None) -> None:
        self.values = Copies(arrays)
        self.functions: list[str] = []

    def text(self, head: str = "", stored: str = "") -> str:
        """The text of the module.

        Args:
          head: its docstring.
          stored: the file of the large arrays, in the module's folder.
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
        """Writes a function that computes a Graph; returns its name.

        Args:
          graph: the Graph; it is optimised first.
          name: the name of the function.
          parameters: the texts of its parameters; by default the inputs' letters.
          inputs: the local name of each input, and the expression assigned to it ("" if the name is
            a parameter).
          doc: the lines of the docstring.
          returned: returns the expression of the result, given those of the outputs; a tuple by
            default.
        """
        name = name if name.isidentifier() else "function"
        self.values.taken.add(name)
        graph = optimised(graph)
        function = ExportedFunction(self.values, self.part)
        used = {a for e in graph.equations for a in e.inputs} | {*graph.outputs}
        arguments = [_constant(local) for local, _ in inputs]
        for i, (variable, (local, source)) in enumerate(zip(graph.inputs, inputs, strict=False)):
            if source and variable in used:
                (arguments[i],) = function.call(_escaped(source), (), [variable.type])
                handles(arguments[i : i + 1])[0].stem = local
        if not inputs:
            arguments = [function.variables(v.type) for v in graph.inputs]
        outputs = function.graph(graph, arguments)
        coalesce(function.nodes, Counter([*touched(function.nodes), *handles(outputs)]))
        names = _Names(self.values, [p.split("=")[0].strip("* ") for p in parameters])
        given = list(parameters) or list(map(names.text, arguments))
        body = names.block(function.nodes, ())
        results = list(map(names.text, outputs))
        for i, atom in enumerate(graph.outputs):  # a result is the caller's to write into
            if any(v is atom and isinstance(x, np.ndarray) for v, x in graph.constants):
                results[i] += ".copy()"
        made = returned(results) if returned else f"({''.join(f'{text}, ' for text in results)})"
        _return(body, made)
        tree = ast.parse("\n".join([f"def {name}({', '.join(given)}):", *indented(body)]))
        if doc:
            tree.body[0].body.insert(0, _docstring(doc))  # type: ignore[attr-defined]
        self.functions.append(ast.unparse(tree))
        return name

    def part(self, graph: Graph) -> str:
        """Writes a function for a Graph that is nested too deeply; returns its name."""
        return self.function(graph, self.values.fresh("part"))


def _docstring(lines: Sequence[str]) -> ast.Expr:
    said = "\n".join(["", *indented(lines[1:]), "    "]) if lines[1:] else ""
    return ast.Expr(ast.Constant(re.sub(" +\n", "\n", lines[0] + said)))


def _return(body: list[str], made: str) -> None:
    """Adds the return statement; where the last statement makes the result, in its place."""
    if body and body[-1].startswith(f"{made} = "):
        body[-1] = f"return {body[-1].partition(' = ')[2]}"
    else:
        body.append(f"return {made}")


def _folded(line: str) -> str:
    """A long line, folded if it remains one statement."""
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


class ExportedFunction(ArrayControlFlow):
    """The nodes of a function.

    Python allows 20 nested blocks: `part` writes a function of its own for a deeper Graph.
    """

    def __init__(self, values: Copies, part: Callable[[Graph], str]) -> None:
        super().__init__(values)
        self.values = values
        self._part = part
        self._depth = 0

    def graph(self, graph: Graph, inputs: Sequence[Elements]) -> list[Elements]:
        graph = optimised(graph)
        if self._depth == DEEPEST and any(True for e in graph.equations for _ in inner_graphs(e)):
            text = f"{self._part(graph)}({', '.join(['{}'] * len(inputs))})"
            types = [atom.type for atom in graph.outputs]
            return self.call(text, handles(inputs), types, unpack=True)
        self._depth += 1
        known: Known = dict(zip(graph.inputs, inputs, strict=True))
        for variable, constant in graph.constants:
            known[variable] = self._constant(variable, constant)
        for equation in graph.equations:
            try:
                made = self._equation(equation, known)
            except NotWritable as reason:
                where = f" at {equation.source}" if equation.source else ""
                raise ArgumentError(
                    f"`{equation.primitive.name}`{where} cannot be written as NumPy source: it "
                    f"needs {reason}. Leave it out of the function, or ship the function by "
                    "fg.export, which fungrad loads."
                ) from None
            known.update(zip(equation.outputs, made, strict=True))
        self._depth -= 1
        return [self._read(atom, known) for atom in graph.outputs]

    def _constant(self, variable: Variable, constant: Any) -> Elements:
        try:
            text = self.values.value("constant", constant)
        except TooLarge as reason:
            raise ArgumentError(
                f"The function holds {reason}, which is too large for a text: pass it as an "
                'argument, or give fg.to_source a path="f.py", beside which it is written.'
            ) from None
        if text.isidentifier():
            return _constant(text)
        return self.call(_escaped(text), (), [variable.type])[0]

    def _read(self, atom: Atom, known: Known, others: Sequence[Any] = ()) -> Elements:
        """An operand, beside others of the given Types."""
        if isinstance(atom, Literal):
            text = _escaped(literal(atom, others, self.values))
            return boxed(Array(text, atom.type.dtype))
        return known[atom]

    def _equation(self, equation: Equation, known: Known) -> list[Elements]:
        """Adds the nodes of an equation; returns its outputs."""
        inputs = [self._read(a, known) for a in equation.inputs]
        if equation.primitive in OF_CONTROL_FLOW:
            made: list[Elements] = OF_CONTROL_FLOW[equation.primitive](self, equation, inputs)
            return made
        if equation.primitive in _SAME:
            return inputs
        if equation.primitive.ufunc is not None and equation.primitive is not select:
            types = [atom.type for atom in equation.inputs]
            for i, atom in enumerate(equation.inputs):
                inputs[i] = self._read(atom, known, types[:i] + types[i + 1 :])
        operands = handles(inputs)
        if equation.primitive in _UFUNCS:
            return self._written(equation, operands)
        fields, values = placed(operands)
        text = self._expression(equation, fields)
        variables = [self.variables(v.type) for v in equation.outputs]
        multiple = bool(equation.primitive.multiple)
        self.nodes.append(Call(text, values, handles(variables), unpack=multiple))
        return variables

    def _expression(self, equation: Equation, arguments: list[str]) -> str:
        primitive: Any = equation.primitive
        if primitive.effect:
            raise NotWritable("to run for its effect")
        applied = expressed(equation, arguments, self.names)
        if applied is not None:
            return applied
        weak = bool(equation.inputs) and all(atom.type.weak for atom in equation.inputs)
        if weak and all(atom.type.dtype.kind in "bi" for atom in equation.inputs):
            operator = of_integers(equation)
            if operator is not None:
                return operator.format(*arguments)
        if any(isinstance(p, Graph) for p in equation.params.values()):
            raise NotWritable("to run a Graph by its own rule")
        if primitive.ufunc is not None:
            called = self.names.constant(primitive.name, primitive.ufunc)
            made = type(primitive.eval) is np.ufunc
            return f"{called}({', '.join(arguments)})" + ".item()" * (
                weak and not made and equation.outputs[0].type.weak
            )
        called = self.names.constant(primitive.name, primitive.eval)
        given = [f"{k}={self.names.constant(k, v)}" for k, v in equation.params.items()]
        return f"{called}({', '.join([*arguments, *given])})"

    def _written(self, equation: Equation, operands: list[Argument]) -> list[Elements]:
        """Adds the nodes of a write into a new array."""
        output, types = equation.outputs[0].type, [atom.type for atom in equation.inputs]
        if equation.primitive in (scatter, indexed):
            made = self.call(self.names.filled("zeros", output), (), [output])
        else:
            made = self.call('np.array({}, order="C")', operands[:1], [output])
            operands, types = operands[1:], types[1:]
        (result, *arguments), inputs = placed([*handles(made), *operands])
        self.nodes.append(Copy(_stored(equation, result, arguments, types), inputs))
        return made


# --- writes into arrays ---------------------------------------------------------------------------


_UFUNCS: dict[Any, str] = {
    indexed: "",
    scatter: "add",
    index_set: "",
    index_add: "add",
    index_multiply: "multiply",
    index_min: "minimum",
    index_max: "maximum",
}
_IN_PLACE = {"": "=", "add": "+=", "multiply": "*="}


def _stored(equation: Equation, result: str, arguments: list[str], types: Sequence[Any]) -> str:
    """The statement that stores the first argument at the index of the others."""
    primitive, index = equation.primitive, equation.params["index"]
    if primitive is indexed:
        return f"{result}[{index_text(index.entries, arguments)}] = True"
    ufunc, (values, *arrays) = _UFUNCS[primitive], arguments
    text = index_text(index.entries, arrays)
    repeated = any(type_.shape for type_ in types[1:])
    operator = _IN_PLACE.get(ufunc if types[0].dtype == equation.outputs[0].type.dtype else "-")
    if not ufunc or (primitive is scatter and (index.unique or not repeated)):
        operator, values = "=", f"np.ascontiguousarray({values})" if repeated else values
    elif repeated and not index.unique:
        at = text if text in arrays else f"np.index_exp[{text}]"
        return f"np.{ufunc}.at({result}, {at}, {values})"
    elif operator is None:
        operator, values = "=", f"np.{ufunc}({result}[{text}], {values})"
    return f"{result}[{text}] {operator} {values}"


_SAME = {stop, stop_order, named}
