"""Loops, branches and what else holds Graphs, as Python's own statements.

The Graphs inside are written out at their places. The residuals of the steps of a loop are a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from fungrad.control_flow.call import call
from fungrad.control_flow.reverse_with_tape import parted
from fungrad.control_flow.scan import scan, scan_pullback, scan_record
from fungrad.control_flow.scan_reverse import order_of, plan
from fungrad.control_flow.switch import switch, switch_pullback, switch_record
from fungrad.control_flow.while_loop import (
    halves_of,
    while_loop,
    while_loop_pullback,
    while_loop_record,
)
from fungrad.custom_rules.custom_vjp_jvp import custom
from fungrad.host.external import opaque
from fungrad.implicit import iteration
from fungrad.ir.graph import Equation, Graph, Variable
from fungrad.rematerialisation.checkpoint import checkpointed
from fungrad.retracing.graph_transforms import differentiate
from fungrad.source_export.expressions import NotWritable, Values, shape_text

Lines = list[str]


class Statements(Protocol):
    """Who writes the statements of a function, as far as loops and branches need him."""

    @property
    def values(self) -> Values: ...

    def name(self, variable: Variable, wished: str = "") -> str: ...

    def bind(self, variable: Variable, text: str) -> None: ...

    def letter(self) -> str: ...

    def local(self, wished: str) -> str: ...

    def inlined(self, graph: Graph, arguments: Sequence[str]) -> tuple[Lines, Lines]: ...


def indented(lines: Sequence[str]) -> Lines:
    """Statements of a block; one that does nothing, where there are none."""
    return [f"    {line}" for line in lines] or ["    pass"]


def assigned(names: Sequence[str], texts: Sequence[str]) -> Lines:
    """One statement that gives all names their values at once."""
    pairs = [(n, t) for n, t in zip(names, texts, strict=True) if n != t]
    if not pairs:
        return []
    return [f"{', '.join(n for n, _ in pairs)} = {', '.join(t for _, t in pairs)}"]


def started(names: Sequence[str], texts: Sequence[str]) -> Lines:
    """One statement for each name."""
    return [f"{name} = {text}" for name, text in zip(names, texts, strict=True)]


def packed(texts: Sequence[str]) -> str:
    """A tuple."""
    return f"({''.join(f'{text}, ' for text in texts)})"


def target(names: Sequence[str]) -> str:
    """The names that a tuple is taken apart into."""
    return "".join(f"{name}, " for name in names)


def _outputs(f: Statements, equation: Equation) -> Lines:
    return [f.name(v) for v in equation.outputs]


def _zeros(f: Statements, type_: Any) -> str:
    return f"np.zeros({shape_text(type_.shape)}{f.values.dtype_after(type_.dtype)})"


# --- Graphs that are just run ---------------------------------------------------------------------


def _inline(f: Statements, equation: Equation, arguments: Lines) -> Lines:
    graph = equation.params["graph"]
    if not isinstance(graph, Graph):
        raise NotWritable("Python functions with a derivative of their own")
    lines, texts = f.inlined(graph, arguments)
    for variable, text in zip(equation.outputs, texts, strict=True):
        f.bind(variable, text)
    if equation.params.get("quiet") and lines:
        return ['with np.errstate(all="ignore"):', *indented(lines)]
    return lines


def _fixed_point(f: Statements, equation: Equation, arguments: Lines) -> Lines:
    params = equation.params
    constants, tol = params["constants"], f.values.value("tol", params["tol"])
    state = _outputs(f, equation)
    lines, new = f.inlined(params["graph"], [*arguments[:constants], *state])
    step, settled = f.local("step"), f.local("settled")
    near = [f"np.all(np.abs(np.subtract({n}, {x})) <= {tol} * (1.0 + np.abs({x})))"
            for n, x in zip(new, state, strict=True)]  # fmt: skip
    finite = [f"not np.all(np.isfinite({x}))" for x in state]
    return [
        *started(state, arguments[constants:]),
        f"{settled} = False",
        f"for {step} in range({params['maxiter']}):",
        *indented(lines),
        f"    {settled} = {' and '.join(near) or 'True'}",
        *indented(assigned(state, new) or ["pass"]),
        f"    if {' or '.join([settled, *finite])}:",
        "        break",
        f"if not {settled}:",
        '    raise RuntimeError("the iteration of a fixed point has not come to rest")',
    ]


# --- scan -----------------------------------------------------------------------------------------


def _scan(f: Statements, equation: Equation, arguments: Lines) -> Lines:
    params = equation.params
    constants, n = params["counts"]
    names = _outputs(f, equation)[: len(params["body"].outputs)]
    state, stacks = names[:n], names[n:]
    i = f.local("step")
    lines = started(state, arguments[constants : constants + n])
    for name, variable in zip(stacks, equation.outputs[n:], strict=False):
        kind = f.values.dtype_after(variable.type.dtype)
        lines.append(f"{name} = np.empty({shape_text(variable.type.shape)}{kind})")
    rows, inputs = _rows(f, params["body"], constants + n, arguments[constants + n :], i)
    body, results = f.inlined(params["body"], [*arguments[:constants], *state, *inputs])
    body += [f"{name}[{i}] = {text}" for name, text in zip(stacks, results[n:], strict=True)]
    body += assigned(state, results[:n])
    order = order_of(params["length"], params["reverse"])
    lines.append(f"for {i} in {_range(order)}:")
    return lines + indented([*rows, *body])


def _range(order: Any) -> str:
    if order.step == 1:
        return f"range({order.stop})"
    return f"reversed(range({order.start + 1}))"


def _rows(
    f: Statements, body: Graph, at: int, arrays: Sequence[str], i: str
) -> tuple[Lines, Lines]:
    """The statements that read a step's rows of arrays, and the names that these get."""
    names = [f.letter() for _ in arrays]
    return [f"{name} = {x}[{i}]" for name, x in zip(names, arrays, strict=True)], names


def _scan_record(f: Statements, equation: Equation, arguments: Lines) -> Lines:
    return [*_scan(f, equation, arguments), f"{f.name(equation.outputs[-1])} = None"]


def _scan_pullback(f: Statements, equation: Equation, arguments: Lines) -> Lines:
    """The steps once more, with what they leave behind, and then back."""
    params, wanted = equation.params, equation.params["wanted"]
    body, (constants, n) = params["body"], params["counts"]
    args, _, given = parted(arguments, wanted, params["trailed"])
    how, out = plan(body, params["counts"], wanted), body.output_types
    i, trail = f.local("step"), f.local("trail")
    state = [f.letter() for _ in range(n)]
    rows, inputs = _rows(f, body, constants + n, args[constants + n :], i)
    forward, results = f.inlined(how.halves.forward, [*args[:constants], *state, *inputs])
    order = order_of(params["length"], params["reverse"])
    lines = [f"{trail} = []", *started(state, args[constants : constants + n])]
    lines.append(f"for {i} in {_range(order)}:")
    lines += indented([*rows, *forward, f"{trail}.append({packed(results[len(out) :])})",
                       *assigned(state, results[:n])])  # fmt: skip
    inexact = [k for k in range(n) if out[k].inexact]
    names = dict(zip([k for k, w in enumerate(wanted) if w], _outputs(f, equation), strict=True))
    types = body.input_types
    for k, name in names.items():
        if k < constants:
            lines.append(f"{name} = {_zeros(f, types[k])}")
        elif k >= constants + n:
            whole = type(types[k])((params["length"], *types[k].shape), types[k].dtype)
            lines.append(f"{name} = {_zeros(f, whole)}")
    cts = [names.get(constants + k) or f.letter() for k in inexact]
    lines += started(cts, given[: len(inexact)])
    reads, y_names = _rows(f, body, 0, given[len(inexact) :], i)
    held = [f.letter() for _ in results[len(out) :]]
    back, found = f.inlined(how.halves.backward, [*held, *cts, *y_names])
    by_input = dict(zip(how.halves.reached, found, strict=True))
    popped = f"{target(held)} = {trail}.pop()" if held else f"{trail}.pop()"
    steps = [popped, *reads, *back]
    for k, name in names.items():
        if k in by_input and k < constants:
            steps.append(f"{name} = {name} + {by_input[k]}")
        elif k in by_input and k >= constants + n:
            steps.append(f"{name}[{i}] = {by_input[k]}")
    steps += assigned(cts, [by_input.get(constants + k) or _zeros(f, out[k]) for k in inexact])
    return [*lines, f"for {i} in {_range(order[::-1])}:", *indented(steps)]


# --- while ----------------------------------------------------------------------------------------


def _loop(f: Statements, equation: Equation, state: Lines, arguments: Lines, trail: str) -> Lines:
    """The loop; with a trail, it lists there what the steps leave behind."""
    params = equation.params
    first, second = params["counts"]
    n = len(state)
    graph = params["body"]
    if trail:
        graph = halves_of(params["wanted"], graph, params["counts"]).forward
    test, (holds,) = f.inlined(params["cond"], [*arguments[:first], *state])
    body, results = f.inlined(graph, [*arguments[first : first + second], *state])
    body += [f"{trail}.append({packed(results[n:])})"] * bool(trail)
    body += assigned(state, results[:n])
    lines = started(state, arguments[first + second : first + second + n])
    lines += [f"{trail} = []"] * bool(trail)
    if not test:
        return [*lines, f"while {holds}:", *indented(body)]
    if len(test) == 1 and test[0].startswith(f"{holds} = "):
        return [*lines, f"while {test[0].partition(' = ')[2]}:", *indented(body)]
    return [*lines, "while True:", *indented([*test, f"if not {holds}:", "    break", *body])]


def _while(f: Statements, equation: Equation, arguments: Lines) -> Lines:
    return _loop(f, equation, _outputs(f, equation), arguments, "")


def _while_record(f: Statements, equation: Equation, arguments: Lines) -> Lines:
    trail = f.name(equation.outputs[-1], "trail")
    *state, _ = _outputs(f, equation)
    return _loop(f, equation, state, arguments, trail)


def _while_pullback(f: Statements, equation: Equation, arguments: Lines) -> Lines:
    params, wanted = equation.params, equation.params["wanted"]
    body, (first, constants) = params["body"], params["counts"]
    args, trail, given = parted(arguments, wanted, params["trailed"])
    lines: Lines = []
    if trail is None:
        trail = f.local("trail")
        lines = _loop(f, equation, [f.letter() for _ in body.outputs], list(args), trail)
    halves = halves_of(wanted, body, params["counts"])
    types = [atom.type for atom in equation.inputs]
    inexact = [i for i, t in enumerate(body.output_types) if t.inexact]
    names = dict(zip([k for k, w in enumerate(wanted) if w], _outputs(f, equation), strict=True))
    lines += [f"{name} = {_zeros(f, types[k])}" for k, name in names.items()
              if k < first + constants]  # fmt: skip
    cts = [names.get(first + constants + i) or f.letter() for i in inexact]
    lines += started(cts, given)
    count = len(halves.forward.outputs) - len(body.outputs)
    held = [f.letter() for _ in range(count)]
    back, found = f.inlined(halves.backward, [*held, *cts])
    by_input = dict(zip(halves.reached, found, strict=True))
    sums = [f"{name} = {name} + {by_input[k - first]}" for k, name in names.items()
            if first <= k < first + constants and k - first in by_input]  # fmt: skip
    new = [by_input.get(constants + i) or _zeros(f, body.output_types[i]) for i in inexact]
    lines.append(f"for {target(held) or f.local('step')} in reversed({trail}):")
    return lines + indented([*back, *sums, *assigned(cts, new)])


# --- branches -------------------------------------------------------------------------------------


def _chosen(equation: Equation, index: str, blocks: Sequence[Lines]) -> Lines:
    """One of several blocks, by a boolean or a clamped integer."""
    if len(blocks) == 1:
        return list(blocks[0])
    if equation.inputs[0].type.dtype.kind == "b" and len(blocks) == 2:
        return [f"if {index}:", *indented(blocks[1]), "else:", *indented(blocks[0])]
    lines: Lines = []
    for i, lines_of_one in enumerate(blocks[:-1]):
        lines += [f"{'elif' if i else 'if'} int({index}) <= {i}:", *indented(lines_of_one)]
    return [*lines, "else:", *indented(blocks[-1])]


def _switch(f: Statements, equation: Equation, arguments: Lines) -> Lines:
    index, *operands = arguments
    names, blocks = _outputs(f, equation), []
    for branch in equation.params["branches"]:
        lines, texts = f.inlined(branch, operands)
        blocks.append([*lines, *assigned(names, texts)])
    return _chosen(equation, index, blocks)


def _switch_record(f: Statements, equation: Equation, arguments: Lines) -> Lines:
    index, *operands = arguments
    trail = f.name(equation.outputs[-1], "trail")
    *names, _ = _outputs(f, equation)
    blocks = []
    for branch in equation.params["branches"]:
        forward = differentiate(branch, equation.params["wanted"][1:]).forward
        lines, texts = f.inlined(forward, operands)
        made = [*texts[: len(names)], packed(texts[len(names) :])]
        blocks.append([*lines, *assigned([*names, trail], made)])
    return _chosen(equation, index, blocks)


def _switch_pullback(f: Statements, equation: Equation, arguments: Lines) -> Lines:
    params, wanted = equation.params, equation.params["wanted"]
    (index, *operands), trail, given = parted(arguments, wanted, params["trailed"])
    names, blocks = _outputs(f, equation), []
    positions = [i for i, want in enumerate(wanted[1:]) if want]
    for branch in params["branches"]:
        halves = differentiate(branch, wanted[1:])
        count = len(branch.outputs)
        if trail is None:
            lines, results = f.inlined(halves.forward, operands)
            held = results[count:]
        else:
            held = [f.letter() for _ in halves.forward.outputs[count:]]
            lines = [f"{target(held)} = {trail}"] if held else []
        back, found = f.inlined(halves.backward, [*held, *given])
        by_input = dict(zip(halves.reached, found, strict=True))
        made = [by_input.get(i) or _zeros(f, branch.input_types[i]) for i in positions]
        blocks.append([*lines, *back, *assigned(names, made)])
    return _chosen(equation, index, blocks)


def _host(f: Statements, equation: Equation, arguments: Lines) -> Lines:
    raise NotWritable(f"the Python function `{equation.params['host']}`, which is not traced")


STATEMENTS: dict[Any, Any] = {
    call: _inline,
    checkpointed: _inline,
    custom: _inline,
    opaque: _host,
    iteration: _fixed_point,
    scan: _scan,
    scan_record: _scan_record,
    scan_pullback: _scan_pullback,
    while_loop: _while,
    while_loop_record: _while_record,
    while_loop_pullback: _while_pullback,
    switch: _switch,
    switch_record: _switch_record,
    switch_pullback: _switch_pullback,
}

__all__ = ["STATEMENTS"]
