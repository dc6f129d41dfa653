"""Floor 6: writes a Graph as a module of plain NumPy, which runs where there is no fungrad.

One line an equation, as it would be written by hand; loops and branches are Python's. What is no
expression is a function of ours, copied into the module (embed.py). Knows the structural
primitives; runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.backend.embed import Embedded, NotWritable
from fungrad.backend.expressions import expressed
from fungrad.errors import ArgumentError
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.optimise.passes import optimised
from fungrad.primitives.contracting import dot_general
from fungrad.primitives.indexing import ARRAY, getitem, indexed, scatter
from fungrad.primitives.scattering import index_add, index_max, index_min, index_multiply, index_set
from fungrad.structural.branch import switch, switch_pullback, switch_record
from fungrad.structural.loop import halves_of, while_loop, while_loop_pullback, while_loop_record
from fungrad.structural.retrace import differentiate
from fungrad.structural.scan import scan
from fungrad.structural.steps import order_of

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Module:
    """The functions of a module, one for each Graph."""

    def __init__(self) -> None:
        self.embedded = Embedded()
        self.functions: list[str] = []
        self._names: set[str] = set()

    def text(self) -> str:
        """The module."""
        imports = sorted(self.embedded.imports.values())
        parts = ["\n".join(imports), *self.embedded.texts.values(), *self.functions]
        return "\n\n\n".join(part for part in parts if part) + "\n"

    def fresh(self, wished: str) -> str:
        """A name for a function, its own wish if it is free."""
        name, count = wished, 1
        while name in self._names or name in self.embedded.texts:
            count += 1
            name = f"{wished}_{count}"
        self._names.add(name)
        return name

    def graph(self, graph: Graph, wished: str) -> str:
        """Writes a function of a Graph's inputs that returns a tuple; its name."""
        name = self.fresh(wished)
        function = Function(self, optimised(graph))
        inputs = [function.name(v) for v in function.graph.inputs]
        body = function.body()
        results = "".join(f"{function.read(a)}, " for a in function.graph.outputs)
        lines = [*body, f"return ({results.rstrip()})" if results else "return ()"]
        self.functions.append(f"def {name}({', '.join(inputs)}):\n" + _indented(lines))
        return name


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


class Function:
    """The statements of one Graph."""

    def __init__(self, module: Module, graph: Graph) -> None:
        self.module = module
        self.graph = graph
        self.embedded = module.embedded
        self._names: dict[int, str] = {}
        self._count = 0
        self._np = self.embedded.module(np)

    def name(self, variable: Variable, wished: str = "") -> str:
        """The name of a value: letters in the order of the equations, as the printed Graph has."""
        if id(variable) not in self._names:
            self._names[id(variable)] = wished or self._next()
        return self._names[id(variable)]

    def _next(self) -> str:
        count, letters = self._count, ""
        self._count += 1
        while True:
            letters = LETTERS[count % 26] + letters
            count = count // 26 - 1
            if count < 0:
                break
        return letters if letters not in ("as", "if", "in", "is", "or", "np") else f"{letters}_"

    def read(self, atom: Atom) -> str:
        """The text of an argument."""
        if isinstance(atom, Literal):
            text = self.embedded.value("c", atom.value)
            return f"({text})" if text.startswith("-") else text
        return self.name(atom)

    def body(self) -> list[str]:
        """The statements."""
        lines = []
        for variable, value in self.graph.constants:
            lines.append(f"{self.name(variable)} = {self.embedded.value('constant', value)}")
        for equation in self.graph.equations:
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

    def _statements(self, equation: Equation) -> list[str]:
        arguments = [self.read(atom) for atom in equation.inputs]
        write = _STATEMENTS.get(equation.primitive)
        if write is not None:
            return write(self, equation, arguments)
        results = ", ".join(self.name(v) for v in equation.outputs)
        comma = "," * equation.primitive.multiple
        return [f"{results}{comma} = {self._expression(equation, arguments)}"]

    def _expression(self, equation: Equation, arguments: list[str]) -> str:
        primitive: Any = equation.primitive
        applied = expressed(equation, arguments, self._constant)
        if applied is not None:
            return applied
        graph = equation.params.get("graph")
        if isinstance(graph, Graph) and not primitive.effect:
            return (
                f"{self.module.graph(graph, graph.name or primitive.name)}({', '.join(arguments)})"
            )
        if primitive.ufunc is not None:
            called = self.embedded.value(primitive.name, primitive.ufunc)
            weak = all(atom.type.weak for atom in equation.inputs)
            return f"{called}({', '.join(arguments)})" + ".item()" * weak
        if primitive.effect:
            raise NotWritable("to be run for what it does")
        called = self.embedded.value(primitive.name, primitive.eval)
        given = [f"{k}={self.embedded.value(k, v)}" for k, v in equation.params.items()]
        return f"{called}({', '.join([*arguments, *given])})"

    def _constant(self, wished: str, value: Any) -> str:
        if wished == "k":
            return _index_text(value)
        return self.embedded.value(wished, value)


def _index_text(index: Any) -> str:
    """An index as one writes it: `1:, None`."""
    entries = index if isinstance(index, tuple) else (index,)
    return ", ".join(map(_entry_text, entries)) or "()"


def _entry_text(entry: Any) -> str:
    if isinstance(entry, slice):
        parts = [entry.start, entry.stop] + ([] if entry.step is None else [entry.step])
        return ":".join("" if part is None else str(part) for part in parts)
    return "..." if entry is Ellipsis else repr(entry)


def _as_tuple(place: str) -> str:
    """An index as it stands outside of brackets."""
    return f"np.index_exp[{place}]"


def _filled(index: Any, arrays: Sequence[str]) -> str:
    given = iter(arrays)
    return ", ".join(next(given) if e is ARRAY or e == ARRAY else _entry_text(e)
                     for e in index.entries) or "()"  # fmt: skip


# --- indexing, contractions -----------------------------------------------------------------------


def _getitem(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    x, *arrays = arguments
    if equation.inputs[0].type.weak or isinstance(equation.inputs[0], Literal):
        x = f"np.asarray({x})"
    place = _filled(equation.params["index"], arrays)
    return [f"{f.name(equation.outputs[0])} = {x}[{place}]"]


def _indexed(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    result = f.name(equation.outputs[0])
    place = _filled(equation.params["index"], arguments)
    return [f"{result} = np.zeros({equation.params['shape']}, bool)", f"{result}[{place}] = True"]


def _scatter(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    values, *arrays = arguments
    result, index = f.name(equation.outputs[0]), equation.params["index"]
    dtype = f.embedded.value("dtype", equation.outputs[0].type.dtype)
    begin = f"{result} = np.zeros({equation.params['shape']}, {dtype})"
    place = _filled(index, arrays)
    if index.unique or not any(a.type.shape for a in equation.inputs[1:]):
        return [begin, f"{result}[{place}] = {values}"]
    return [begin, f"np.add.at({result}, {_as_tuple(place)}, {values})"]


def _written(ufunc: str) -> Any:
    def write(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
        x, values, *arrays = arguments
        result, place = f.name(equation.outputs[0]), _filled(equation.params["index"], arrays)
        begin = f"{result} = np.array({x}, order='C')"
        if not ufunc:
            return [begin, f"{result}[{place}] = np.ascontiguousarray({values})"
                    if any(a.type.shape for a in equation.inputs[2:])
                    else f"{result}[{place}] = {values}"]  # fmt: skip
        return [begin, f"np.{ufunc}.at({result}, {_as_tuple(place)}, {values})"]

    return write


def _dot(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    result = f.name(equation.outputs[0])
    short = expressed(equation, arguments, f._constant)
    if short is not None:
        return [f"{result} = {short}"]
    contract, batch = equation.params["contract"], equation.params["batch"]
    nx, ny = (atom.type.ndim for atom in equation.inputs)
    letters = iter(LETTERS)
    x = [next(letters) for _ in range(nx)]
    y = [next(letters) for _ in range(ny)]
    for i, j in (*zip(*batch, strict=True), *zip(*contract, strict=True)):
        y[j] = x[i]
    free = [x[i] for i in range(nx) if i not in (*batch[0], *contract[0])]
    free += [y[j] for j in range(ny) if j not in (*batch[1], *contract[1])]
    out = "".join([*(x[i] for i in batch[0]), *free])
    spec = f"{''.join(x)},{''.join(y)}->{out}"
    return [f"{result} = np.einsum('{spec}', {', '.join(arguments)}, optimize=True)"]


# --- loops and branches ---------------------------------------------------------------------------


def _outputs(f: Function, equation: Equation) -> list[str]:
    return [f.name(v) for v in equation.outputs]


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)},)" if names else "()"


def _scan(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    params = equation.params
    constants, n = params["counts"]
    body = f.module.graph(params["body"], "step")
    consts, carry = arguments[:constants], arguments[constants : constants + n]
    xs = arguments[constants + n :]
    outputs = _outputs(f, equation)
    state, stacks = outputs[:n], outputs[n:]
    lines = [f"{name} = {start}" for name, start in zip(state, carry, strict=True)]
    for name, variable in zip(stacks, equation.outputs[n:], strict=True):
        dtype = f.embedded.value("dtype", variable.type.dtype)
        lines.append(f"{name} = np.empty({variable.type.shape}, {dtype})")
    steps = order_of(params["length"], params["reverse"])
    lines.append(f"for i_ in {steps!r}:")
    given = ", ".join([*consts, *state, *(f"{x}[i_]" for x in xs)])
    targets = [*state, *(f"{name}[i_]" for name in stacks)]
    lines.append(f"    {', '.join(targets)}, = {body}({given})" if targets else "    pass")
    return lines


def _while(f: Function, equation: Equation, arguments: list[str], trail: str = "") -> list[str]:
    params = equation.params
    first, second = params["counts"]
    cond = f.module.graph(params["cond"], "condition")
    body: Graph = params["body"]
    if trail:
        body = halves_of(params["wanted"], body, params["counts"]).forward
    step = f.module.graph(body, "step")
    consts, more = arguments[:first], arguments[first : first + second]
    state = _outputs(f, equation)[: len(arguments) - first - second]
    lines = [f"{n} = {x}" for n, x in zip(state, arguments[first + second :], strict=True)]
    lines.append(f"while {cond}({', '.join([*consts, *state])})[0]:")
    rest = ", *held_" if trail else ","
    lines.append(f"    {', '.join(state)}{rest} = {step}({', '.join([*more, *state])})")
    if trail:
        lines = [f"{trail} = []", *lines, f"    {trail}.append(held_)"]
    return lines


def _while_loop(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    return _while(f, equation, arguments)


def _while_record(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    return _while(f, equation, arguments, f.name(equation.outputs[-1]))


def _while_pullback(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    params = equation.params
    wanted, body, counts = params["wanted"], params["body"], params["counts"]
    if not params["trailed"]:
        raise NotWritable("its steps run again (checkpoint=)")
    first, constants = counts
    halves = halves_of(wanted, body, counts)
    back = f.module.graph(halves.backward, "back")
    trail, given = arguments[len(wanted)], arguments[len(wanted) + 1 :]
    inexact = [i for i, t in enumerate(body.output_types) if t.inexact]
    outputs = iter(_outputs(f, equation))
    lines, totals = [], {}
    for i, (type_, want) in enumerate(zip(_types(equation), wanted, strict=False)):
        if want and i < first + constants:
            name = next(outputs)
            dtype = f.embedded.value("dtype", type_.dtype)
            lines.append(f"{name} = np.zeros({type_.shape}, {dtype})[()]")
            if i >= first:
                totals[i - first] = name
    cts = [f"ct_{i}" for i in inexact]
    lines += [f"{name} = {x}" for name, x in zip(cts, given, strict=True)]
    lines.append(f"for held_ in reversed({trail}):")
    found = {i: f"found_{i}" for i in halves.reached}
    arrow = ", ".join(found.values())
    lines.append(f"    {arrow + ', = ' if found else ''}{back}({', '.join(['*held_', *cts])})")
    for i, name in totals.items():
        if i in found:
            lines.append(f"    {name} = {name} + {found[i]}")
    for i, name in zip(inexact, cts, strict=True):
        at = constants + i
        lines.append(f"    {name} = {found[at] if at in found else f'{name} * 0'}")
    for i, want in enumerate(wanted[first + constants :]):
        if want:
            lines.append(f"{next(outputs)} = ct_{i}")
    return lines


def _types(equation: Equation) -> list[Any]:
    return [atom.type for atom in equation.inputs]


def _chosen(f: Function, index: str, names: Sequence[str]) -> str:
    return f"{_tuple(names)}[min(max(int({index}), 0), {len(names) - 1})]"


def _switch(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    index, *operands = arguments
    names = [f.module.graph(branch, "branch") for branch in equation.params["branches"]]
    applied = f"{_chosen(f, index, names)}({', '.join(operands)})"
    return [f"{', '.join(_outputs(f, equation))}, = {applied}"]


def _switch_record(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    index, *operands = arguments
    wanted = equation.params["wanted"][1:]
    halves = [differentiate(branch, wanted).forward for branch in equation.params["branches"]]
    names = [f.module.graph(half, "branch") for half in halves]
    *outputs, trail = _outputs(f, equation)
    applied = f"{_chosen(f, index, names)}({', '.join(operands)})"
    return [f"{', '.join([*outputs, f'*{trail}'])}, = {applied}"]


def _switch_pullback(f: Function, equation: Equation, arguments: list[str]) -> list[str]:
    params = equation.params
    wanted, branches = params["wanted"], params["branches"]
    if not params["trailed"]:
        raise NotWritable("its branch run again (checkpoint=)")
    trail, given = arguments[len(wanted)], arguments[len(wanted) + 1 :]
    positions = [i for i, want in enumerate(wanted[1:]) if want]
    names = []
    for branch in branches:
        halves = differentiate(branch, wanted[1:])
        found = dict(zip(halves.reached, halves.backward.outputs, strict=True))
        types = [equation.inputs[1 + i].type for i in positions]
        outputs: list[Atom] = []
        constants = list(halves.backward.constants)
        for i, type_ in zip(positions, types, strict=True):
            if i in found:
                outputs.append(found[i])
            else:
                zero = Variable(type_)
                constants.append((zero, type_.zeros()))
                outputs.append(zero)
        back = halves.backward
        graph = Graph(back.inputs, tuple(constants), back.equations, tuple(outputs), back.name)
        names.append(f.module.graph(graph, "back"))
    applied = f"{_chosen(f, arguments[0], names)}({', '.join([f'*{trail}', *given])})"
    return [f"{', '.join(_outputs(f, equation))}, = {applied}"]


_STATEMENTS: dict[Any, Any] = {
    getitem: _getitem,
    indexed: _indexed,
    scatter: _scatter,
    index_set: _written(""),
    index_add: _written("add"),
    index_multiply: _written("multiply"),
    index_min: _written("minimum"),
    index_max: _written("maximum"),
    dot_general: _dot,
    scan: _scan,
    while_loop: _while_loop,
    while_loop_record: _while_record,
    while_loop_pullback: _while_pullback,
    switch: _switch,
    switch_record: _switch_record,
    switch_pullback: _switch_pullback,
}
