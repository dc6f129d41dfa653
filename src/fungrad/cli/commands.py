"""The command line's commands: each takes parsed options, prints a Report, returns an exit code.

Exit codes: 0 done, 1 a check failed, 2 bad input (raised as InputError, see main.py).
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import fungrad as fg
from fungrad import demo
from fungrad.cli.derivatives import Finding, check, derivatives, gradient, leaf_labels
from fungrad.cli.parse_values import InputError
from fungrad.cli.report import (
    FAILED,
    PASSED,
    Positional,
    Report,
    answer_json,
    array_text,
    call_of,
    finish,
    head,
    number_text,
    prepared,
    progress,
    titled,
    to_be_traced,
    traced_function,
    write_json,
)
from fungrad.cli.user_function import (
    EVALUATED,
    UserCall,
    evaluate,
    quiet,
    select,
    type_text,
    user_code,
)
from fungrad.errors import ArgumentError, MissingExtraError
from fungrad.inspect.draw.draw import Picture
from fungrad.inspect.why.why import stop_text
from fungrad.ir.graph import Graph, inner_graphs
from fungrad.ir.printer import Letters
from fungrad.support import pytree

TRACED = "was being traced"


def grad_command(options: Namespace, output: TextIO) -> int:
    """`fungrad grad`: the value and the derivative at the given arguments."""
    call, names = prepared(options)
    value = evaluate(call)
    rows: Iterable[tuple[str, Any]]
    if options.order == 1:
        gradients = gradient(call, names)
        leaves, structure = pytree.flatten(gradients)
        rows = zip(leaf_labels(structure), leaves, strict=True)
    else:
        with progress("differentiating"):
            blocks = derivatives(call, names, options.order)
        gradients = {",".join(labels): block for labels, block in blocks.items()}
        rows = gradients.items()
    findings = []
    if options.check:
        findings = check(call, names)
        if options.order > 1:
            findings += check(call, names, order=options.order)[:1]
    if options.json:
        content = head(call, names) | {
            "value": value,
            "order": options.order,
            "derivative": gradients,
        }
        if options.check:
            content["check"] = [_finding_json(finding) for finding in findings]
        answer_json(content, call, output)
    else:
        report = titled(call)
        report.line(f"  value  {number_text(value)}")
        which = "gradient" if options.order == 1 else f"derivative of order {options.order}"
        report.heading(which)
        entries = ((label, type_text(leaf), array_text(leaf)) for label, leaf in rows)
        report.table(["by", "type", "entries"], entries)
        if findings:
            report.heading("check")
        _report_findings(report, findings)
        finish(report, call, output)
    return PASSED if all(finding.passed for finding in findings) else FAILED


def check_command(options: Namespace, output: TextIO) -> int:
    """`fungrad check`: the gradient against differences, and forward against reverse mode."""
    call, names = prepared(options)
    value = evaluate(call)
    with progress("checking", options.samples + 1) as advance:
        findings = check(
            call,
            names,
            options.order,
            options.samples,
            options.seed,
            options.spread,
            options.tolerance,
            advance,
        )
    passed = all(finding.passed for finding in findings)
    if options.json:
        content = head(call, names) | {
            "value": value,
            "order": options.order,
            "samples": options.samples,
            "seed": options.seed,
            "passed": passed,
            "check": [_finding_json(finding) for finding in findings],
        }
        answer_json(content, call, output)
    else:
        report = titled(call)
        report.line(f"  value  {number_text(value)}")
        report.heading(f"check by {', '.join(names)}, {options.samples} samples near the arguments")
        _report_findings(report, findings)
        finish(report, call, output)
    return PASSED if passed else FAILED


def ir_command(options: Namespace, output: TextIO) -> int:
    """`fungrad ir`: the Graph of the function, or of its gradient."""
    call, function, by = to_be_traced(options)
    if options.source is not None:
        return _source(call, function, options, output)
    with quiet(call.notes), user_code(call, TRACED):
        graph = fg.make_jaxpr(function)(*function.values)
    labels = [
        name + path
        for name in function.names
        for path in pytree.paths(pytree.structure(call.values[name]))
    ]
    pictures = [path for path in (options.html, options.svg) if path]
    if pictures:
        _draw(Picture(graph, labels, title=call.name), pictures)
    if options.json:
        content = head(call, by) | _graph_json(graph, labels)
        answer_json(content, call, output)
        return PASSED
    report = titled(call)
    if pictures:
        report.line(f"  {len(graph.equations)} equations, drawn in {' and '.join(pictures)}")
        finish(report, call, output)
        return PASSED
    shown = Letters()
    for variable, _ in graph.constants:
        shown.of(variable)
    letters = [shown.of(variable) for variable in graph.inputs]
    inputs = ", ".join(f"{a} = {b}" for a, b in zip(letters, labels, strict=True))
    count = len(graph.equations)
    report.heading(f"IR of the {traced_function(options, by)}: {count} equations; inputs {inputs}")
    here = os.path.join(os.getcwd(), "")
    text = graph.show(source=options.lines)
    report.line(text.replace(f"# {here}", "# ").replace(f", {here}", ", "))
    finish(report, call, output)
    return PASSED


def _source(call: UserCall, function: Positional, options: Namespace, output: TextIO) -> int:
    """`fungrad ir --source`: prints the compiled program, or writes a module of plain NumPy."""
    path = None if options.source == "-" else options.source
    with quiet(call.notes), user_code(call, TRACED):
        if path is None:
            text = fg.jit(function).lower(*function.values).source
        else:
            text = _module(call, function, path)
    if options.json:
        answer_json(head(call, function.by) | {"source": text}, call, output)
    elif path is None:
        print(text, file=output)
    else:
        report = titled(call)
        report.line(f"  {len(text.splitlines())} lines of plain NumPy, written to {path}")
        finish(report, call, output)
    return PASSED


def _module(call: UserCall, function: Positional, path: str) -> str:
    """Writes the module; its function has the user's name, or `NAME_gradient`."""
    name = f"{call.name}_gradient" if function.by else call.name
    try:
        return fg.to_source(function, *function.values, name=name, path=path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None


def _draw(picture: Picture, paths: Sequence[str]) -> None:
    """Writes a picture; each path has the ending of its kind."""
    for path in paths:
        try:
            picture.save(path)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}.") from None
        except (ArgumentError, MissingExtraError) as error:
            raise InputError(error.message) from None


class _Keywords:
    """A Call as a function of named arguments."""

    def __init__(self, call: UserCall) -> None:
        self.__name__ = call.name
        self.call = call

    def __call__(self, **chosen: Any) -> Any:
        return self.call(chosen)


def why_command(options: Namespace, output: TextIO) -> int:
    """`fungrad why`: why the gradient of each argument is zero, NaN, infinite or fine."""
    call = call_of(options)
    names = select(call, options.wrt) if options.wrt else list(call.values)
    if not names:
        raise InputError(f"{call.name} takes no arguments; there is nothing to differentiate by.")
    with quiet(call.notes), user_code(call, EVALUATED):
        explanation = fg.why(_Keywords(call))(**{name: call.values[name] for name in names})
        if explanation.error is not None:
            raise explanation.error
    if options.json:
        answer_json(head(call, names) | explanation.as_json(), call, output)
        return PASSED
    report = titled(call)
    if explanation.output.verdict != "fine":
        report.line(f"  {explanation.output}")
    report.heading("gradient")
    for finding in explanation.findings:
        report.line(f"  {finding}")
    if explanation.stops or explanation.remarks:
        report.heading("stops")
    for text in [*map(stop_text, explanation.stops), *explanation.remarks]:
        report.line(f"  {text}")
    finish(report, call, output)
    return PASSED


def demo_command(options: Namespace, output: TextIO) -> int:
    """`fungrad demo`: four uses of stop_gradient, checked against formulas derived by hand."""
    with progress("demos", len(demo.DEMOS)) as advance:
        results = demo.run_all(options.seed, advance)
    passed = all(claim.holds for result in results for claim in result.claims)
    if options.json:
        content = {
            "passed": passed,
            "demos": [
                {
                    "title": result.title,
                    "found": result.found,
                    "seconds": result.seconds,
                    "checks": [
                        {
                            "claim": claim.text,
                            "error": claim.error,
                            "tolerance": claim.tolerance,
                            "holds": claim.holds,
                        }
                        for claim in result.claims
                    ],
                }
                for result in results
            ],
        }
        write_json(content, output)
        return PASSED if passed else FAILED
    report = Report()
    for result in results:
        report.heading(f"{result.title}  ({result.seconds:.1f} s)")
        for text in result.found:
            report.line(f"  {text}")
        for claim in result.claims:
            figures = f"({claim.error:.2g}, at most {claim.tolerance:g})"
            report.verdict(claim.holds, f"{claim.text} {figures}")
    count = sum(len(result.claims) for result in results)
    held = sum(claim.holds for result in results for claim in result.claims)
    report.heading(f"{held} of {count} checks hold")
    report.write(output)
    return PASSED if passed else FAILED


def _report_findings(report: Report, findings: Sequence[Finding]) -> None:
    for finding in findings:
        text = (
            f"{finding.what}: worst relative error {finding.error:.1e} (limit "
            f"{finding.tolerance:g}) of {finding.comparisons}"
        )
        if finding.place:
            text += f", for {finding.place}"
        if finding.error > finding.tolerance:
            one, _, other = finding.what.partition(" against ")
            text += f": {one} {number_text(finding.found)}, {other} {number_text(finding.expected)}"
        if finding.rough:
            text += f"; {finding.rough} not judged (a kink or the edge of the domain within a step)"
        report.verdict(finding.passed, text)


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "what": finding.what,
        "passed": finding.passed,
        "worst_relative_error": finding.error,
        "tolerance": finding.tolerance,
        "at": finding.place,
        "found": finding.found,
        "expected": finding.expected,
        "comparisons": finding.comparisons,
        "not_judged": finding.rough,
    }


def _graph_json(graph: Graph, labels: Sequence[str]) -> dict[str, Any]:
    """A Graph as plain data, with the names of its printed form."""
    names = Letters()
    constants = [_atom_json(names, variable) for variable, _ in graph.constants]
    inputs = [_atom_json(names, variable) for variable in graph.inputs]
    for item, label in zip(inputs, labels, strict=False):
        item["argument"] = label
    equations = [
        {
            "primitive": equation.primitive.name,
            "inputs": [names.of(atom) for atom in equation.inputs],
            "outputs": [_atom_json(names, variable) for variable in equation.outputs],
            "params": {key: repr(value) for key, value in equation.params.items()},
            "graphs": [_graph_json(inner, []) for inner in inner_graphs(equation)],
            "scope": equation.scope,
            "backward": equation.backward,
            "source": None if equation.source is None else str(equation.source),
        }
        for equation in graph.equations
    ]
    outputs = [names.of(atom) for atom in graph.outputs]
    return {
        "inputs": inputs,
        "constants": constants,
        "equations": equations,
        "outputs": outputs,
        "text": graph.show(),
    }


def _atom_json(names: Letters, variable: Any) -> dict[str, Any]:
    return {
        "name": names.of(variable),
        "shape": list(variable.type.shape),
        "dtype": str(variable.type.dtype),
    }
