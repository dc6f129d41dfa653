"""Statements of an exported function: Python loops and branches on whole arrays.

This emitter uses the same control-flow rules as scalar programs. The residuals of a loop's steps
are a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.lowering.scalar.control_flow_rules import RULES, pulled_back
from fungrad.compiler.lowering.scalar.emitter import TAPE_DTYPE, Elements, Value, boxed
from fungrad.control_flow.call import call
from fungrad.control_flow.reverse_with_tape import parted
from fungrad.control_flow.scan import scan, scan_pullback, scan_record
from fungrad.custom_rules.custom_vjp_jvp import custom
from fungrad.host.external import opaque
from fungrad.implicit import iteration
from fungrad.ir.graph import Equation, Graph, Variable
from fungrad.ir.printer import name_of
from fungrad.ir.types import Type
from fungrad.rematerialisation.checkpoint import checkpointed
from fungrad.source_export.expressions import NotWritable, Values, shape_text

Lines = list[str]


def indented(lines: Sequence[str]) -> Lines:
    """The indented statements of a block."""
    return [f"    {line}" for line in lines]


def packed(texts: Sequence[str]) -> str:
    """The text of a tuple."""
    return f"({''.join(f'{text}, ' for text in texts)})"


def target(names: Sequence[str]) -> str:
    """The assignment target that unpacks a tuple into names."""
    return "".join(f"{name}, " for name in names)


def value(text: str, dtype: Any = TAPE_DTYPE) -> Elements:
    """The walk's form of an array: a single Value, whose handle is the text."""
    return boxed(Value(text, dtype))


def text_of(value: Elements) -> str:
    """The text of an array."""
    return str(value[()].handle)


class Statements:
    """The lines and names of a function: both walk and emitter of its loops and branches.

    Args:
      values: the module's names and values.
      reserved: names that are taken.
    """

    long_arrays = False

    def __init__(self, values: Values, reserved: Sequence[str] = ()) -> None:
        self.values = values
        self.lines: Lines = []
        self._indent = ""
        self._reserved = {*reserved, "as", "if", "in", "is", "or", "and", "def", "del", "for",
                          "not", "try", "np", "all", "any", "abs", "int", "len", "max", "min",
                          "pow", "set", "str", "sum", "zip", "map", "dir", "hex", "bin", "chr",
                          "ord", "oct", "id", "ast", "re", "os", "sys"}  # fmt: skip
        self._count = 0

    @property
    def emitter(self) -> Statements:
        return self

    # --- names and lines ------------------------------------------------------------------------

    def letter(self) -> str:
        """The next free letter, in the order of the equations, as in a printed Graph."""
        while True:
            name = name_of(self._count)
            self._count += 1
            if name not in self._reserved:
                self._reserved.add(name)
                return name if len(name) < 4 else f"v{self._count}"

    def local(self, wished: str) -> str:
        """A free name for a value that is no array."""
        name, count = wished, 1
        while name in self._reserved or name in self.values.taken:
            count += 1
            name = f"{wished}_{count}"
        self._reserved.add(name)
        return name

    def line(self, text: str) -> None:
        """Adds a statement."""
        self.lines.append(self._indent + text)

    def block(self, head: str, write: Callable[[], None]) -> None:
        """Adds a statement with a block."""
        self.line(head)
        before, self._indent = len(self.lines), self._indent + "    "
        write()
        if len(self.lines) == before:
            self.line("pass")
        self._indent = self._indent[4:]

    # --- values of the walk ---------------------------------------------------------------------

    def graph(self, graph: Graph, inputs: Sequence[Elements]) -> list[Elements]:
        """Adds the statements of a Graph; returns its outputs."""
        raise NotImplementedError

    def repeated(self, length: int | None, write: Callable[[], None]) -> None:
        write()

    def variables(self, type_: Any) -> Elements:
        is_tape = type_.dtype == TAPE_DTYPE
        return value(self.local("tape") if is_tape else self.letter(), type_.dtype)

    def whole(self, value: Elements) -> Elements:
        return value

    def zeros(self, type_: Any) -> Elements:
        kind = self.values.dtype_after(type_.dtype)
        return value(f"np.zeros({shape_text(type_.shape)}{kind})", type_.dtype)

    def assign(self, variables: Sequence[Elements], values: Sequence[Elements]) -> None:
        names, texts = map(text_of, variables), map(text_of, values)
        pairs = [(n, t) for n, t in zip(names, texts, strict=True) if n != t]
        if pairs:
            self.line(" = ".join(", ".join(side) for side in zip(*pairs, strict=True)))

    def initialised(self, values: Sequence[Elements], types: Sequence[Any]) -> list[Elements]:
        found = [self.variables(type_) for type_ in types]
        for pair in zip(found, values, strict=True):
            self.line(" = ".join(map(text_of, pair)))
        return found

    def accumulate(self, total: Elements, part: Elements, dtype: Any) -> None:
        name = text_of(total)
        self.line(f"{name} = {name} + {text_of(part)}")

    def reads(self, xs: Sequence[Elements], rows: Sequence[Elements], length: int) -> Any:
        return list(zip(map(text_of, rows), map(text_of, xs), strict=True))

    def stacks(self, made: Any, types: Sequence[Any]) -> list[Elements]:
        return list(map(self._empty, types)) if made is None else made[1:]

    def _empty(self, type_: Any) -> Elements:
        kind = self.values.dtype_after(type_.dtype)
        made = value(f"np.empty({shape_text(type_.shape)}{kind})")
        return self.initialised([made], [type_])[0]

    # --- the emitter of control flow ------------------------------------------------------------

    def rows(self, length: int, types: Sequence[Any], reverse: bool) -> list[Any]:
        """The name of the step, and the stacks of its rows."""
        whole = [Type((length, *t.shape), t.dtype) for t in types]
        return [self.local("step"), *map(self._empty, whole)]

    def append(self, rows: list[Any], values: Sequence[Value]) -> None:
        step, *stacks = rows
        for stack, row in zip(stacks, values, strict=True):
            self.line(f"{text_of(stack)}[{step}] = {row.handle}")

    def scan(self, length: int, reverse: bool, reads: Any, makes: Any, step: Any) -> None:
        i = self.local("step") if makes is None else makes[0]

        def write() -> None:
            for row, x in reads:
                self.line(f"{row} = {x}[{i}]")
            step()

        steps = f"reversed(range({length}))" if reverse else f"range({length})"
        self.block(f"for {i} in {steps}:", write)

    def while_loop(self, condition: Callable[[], Value], body: Callable[[], None]) -> None:
        place = len(self.lines)

        def write() -> None:
            go = condition().handle
            test = self.lines[place + 1 :]
            if not test or (len(test) == 1 and test[0].startswith(f"{self._indent}{go} = ")):
                head = test[0].partition(" = ")[2] if test else go
                self.lines[place:] = [f"{self._indent[4:]}while {head}:"]
            else:
                self.line(f"if not {go}:")
                self.line("    break")
            body()

        self.block("while True:", write)

    def branch(self, index: Value, branches: Sequence[Callable[[], None]]) -> None:
        """Runs one of several blocks, chosen by a boolean or a clamped integer."""
        *first, last = branches
        if not first:
            last()
        elif index.dtype.kind == "b" and len(first) == 1:
            self.block(f"if {index.handle}:", last)
            self.block("else:", *first)
        else:
            for i, write in enumerate(first):
                self.block(f"{'elif' if i else 'if'} int({index.handle}) <= {i}:", write)
            self.block("else:", last)

    def tape(self, types: Sequence[Any], single: bool) -> Value:
        if single:
            return Value("", TAPE_DTYPE)  # its only record becomes the handle
        found = Value(self.local("tape"), TAPE_DTYPE)
        self.line(f"{found.handle} = []")
        return found

    def push(self, tape: Value, values: Sequence[Value]) -> None:
        record = packed([v.handle for v in values])
        if tape.handle:
            self.line(f"{tape.handle}.append({record})")
        else:
            tape.handle = record

    def pop(self, tape: Value, variables: Sequence[Value]) -> None:
        self.line(f"{target([v.handle for v in variables])} = {tape.handle}")

    def unwind(self, tape: Value, variables: Sequence[Value], step: Callable[[], None]) -> None:
        names = target([v.handle for v in variables]) or self.local("step")
        self.block(f"for {names} in reversed({tape.handle}):", step)


# --- rules only of exported source ----------------------------------------------------------------


def _inline(f: Statements, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    graph = equation.params["graph"]
    if not isinstance(graph, Graph):
        raise NotWritable("Python functions with a derivative of their own")
    found: list[Elements] = []
    if equation.params.get("quiet") and graph.equations:
        f.block('with np.errstate(all="ignore"):', lambda: found.extend(f.graph(graph, inputs)))
        return found
    return f.graph(graph, inputs)


def _fixed_point(f: Statements, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    params = equation.params
    constants, tol = params["constants"], f.values.value("tol", params["tol"])
    state = f.initialised(inputs[constants:], [v.type for v in equation.outputs])
    step, settled = f.local("step"), f.local("settled")

    def write() -> None:
        new = f.graph(params["graph"], [*inputs[:constants], *state])
        pairs = list(zip(map(text_of, new), map(text_of, state), strict=True))
        near = [
            f"np.all(np.abs(np.subtract({n}, {x})) <= {tol} * (1.0 + np.abs({x})))"
            for n, x in pairs
        ]
        f.line(f"{settled} = {' and '.join(near) or 'True'}")
        f.assign(state, new)
        finite = [f"not np.all(np.isfinite({x}))" for _, x in pairs]
        f.line(f"if {' or '.join([settled, *finite])}:")
        f.line("    break")

    f.line(f"{settled} = False")
    f.block(f"for {step} in range({params['maxiter']}):", write)
    f.line(f"if not {settled}:")
    f.line('    raise RuntimeError("the iteration of a fixed point has not come to rest")')
    return state


def _scan_record(f: Statements, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    return [*RULES[scan].write(f, equation, inputs), value("None")]


def _scan_pullback(f: Statements, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    """The forward loop, which keeps its residuals, and the backward loop."""
    params = dict(equation.params, checkpoint=None)
    wanted, taped = params.pop("wanted"), params.pop("taped")
    args, _, given = parted(inputs, wanted, taped)
    variables = tuple(Variable(a.type) for a in equation.inputs[: len(args)])
    outputs = tuple(Variable(t) for t in scan.infer([v.type for v in variables], params))
    loop = Equation(scan, variables, outputs, params, equation.source)
    return pulled_back(f, Graph(variables, (), (loop,), outputs), wanted, [*args, *given])


def _host(f: Statements, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    raise NotWritable(f"the Python function `{equation.params['host']}`, which is not traced")


OF_CONTROL_FLOW: dict[Any, Any] = {
    **{primitive: rule.write for primitive, rule in RULES.items()},
    call: _inline,
    checkpointed: _inline,
    custom: _inline,
    opaque: _host,
    iteration: _fixed_point,
    scan_record: _scan_record,
    scan_pullback: _scan_pullback,
}
"""The rules of primitives that hold Graphs."""
