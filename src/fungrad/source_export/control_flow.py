"""Rules of control flow that only exported source has.

The others are those of programs on numbers (control_flow_rules.py); the residuals of a loop's steps
are a list.
"""

from __future__ import annotations

from typing import Any

from fungrad.compiler.loop_ir.program import Block, Exit, Expression, For, Local
from fungrad.compiler.scalar.array_walk import ArrayControlFlow, handles
from fungrad.compiler.scalar.control_flow_rules import RULES
from fungrad.compiler.scalar.emitter import Elements, boxed
from fungrad.compiler.scalar.emitter import Number as Array
from fungrad.control_flow.call import call
from fungrad.control_flow.scan import scan, scan_pullback, scan_record
from fungrad.control_flow.tape_type import TAPE
from fungrad.control_flow.without_tape import without_tape
from fungrad.custom_rules.custom_vjp_jvp import custom
from fungrad.host.external import opaque
from fungrad.implicit import iteration
from fungrad.ir.graph import Equation, Graph
from fungrad.rematerialisation.checkpoint import checkpointed
from fungrad.source_export.expressions import NotWritable


def _inline(f: ArrayControlFlow, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    graph = equation.params["graph"]
    if not isinstance(graph, Graph):
        raise NotWritable("Python functions with a derivative of their own")
    elements: list[Elements] = []
    if equation.params.get("quiet") and graph.equations:
        nodes = f.block(lambda: elements.extend(f.graph(graph, inputs)))
        f.nodes.append(Block((Expression('with np.errstate(all="ignore"):'), nodes)))
        return elements
    return f.graph(graph, inputs)


def _fixed_point(f: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    params = equation.params
    constants, tol = params["constants"], f.values.value("tol", params["tol"])
    state: list[Elements] = f.initialised(inputs[constants:], [v.type for v in equation.outputs])
    settled = Local("settled")
    f.set([settled], "False", ())

    def write() -> None:
        new = f.graph(params["graph"], [*inputs[:constants], *state])
        pairs = list(zip(handles(new), handles(state), strict=True))
        near = f"np.all(np.abs(np.subtract({{}}, {{}})) <= {tol} * (1.0 + np.abs({{}})))"
        text = " and ".join([near] * len(pairs)) or "True"
        f.set([settled], text, [part for n, x in pairs for part in (n, x, x)])
        f.assign(state, new)
        tests = ["{}"] + ["not np.all(np.isfinite({}))"] * len(pairs)
        f.node(Exit, f"if {' or '.join(tests)}: break", [settled, *handles(state)])

    f.nodes.append(For(params["maxiter"], [], f.block(write)))
    said = "the iteration of a fixed point has not come to rest"
    f.node(Exit, f'if not {{}}: raise RuntimeError("{said}")', [settled])
    return state


def _scan_record(f: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    return [*RULES[scan].write(f, equation, inputs), boxed(Array("None", TAPE.dtype))]


def _scan_pullback(f: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    """The forward loop, which keeps its residuals, and the backward loop."""
    types = [atom.type for atom in equation.inputs]
    outputs: list[Elements] = f.graph(
        without_tape(scan_pullback, types, equation.params, steps=0), inputs
    )
    return outputs


def _host(f: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
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
