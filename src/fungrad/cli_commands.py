"""The command line's commands: each takes parsed options, shows a Report, returns an exit code.

Knows all floors of the command line; knows nothing of how options are parsed. Exit codes: 0 done,
1 a check failed, 2 bad input (raised as InputError, see cli.py).
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import fungrad as fg
from fungrad import demo, trees
from fungrad.cli_derivative import Finding, check, derivatives, gradient, leaf_labels
from fungrad.cli_function import (
    EVALUATED,
    Call,
    evaluate,
    is_differentiable,
    load_call,
    quiet,
    select,
    type_text,
    user_code,
)
from fungrad.cli_input import InputError, parse_arguments
from fungrad.cli_report import Report, array_text, number_text, write_json
from fungrad.errors import ArgumentError, MissingExtraError
from fungrad.inspect.draw import Picture
from fungrad.inspect.why import stop_text
from fungrad.ir.graph import Graph, inner_graphs
from fungrad.ir.show import Names

PASSED, FAILED = 0, 1


def grad_command(options: Namespace, output: TextIO) -> int:
    """`fungrad grad`: the value and the derivative at the given arguments."""
    call, names = _prepared(options)
    value = evaluate(call)
    rows: Iterable[tuple[str, Any]]
    if options.order == 1:
        found = gradient(call, names)
        leaves, structure = trees.flatten(found)
        rows = zip(leaf_labels(structure), leaves, strict=True)
    else:
        blocks = derivatives(call, names, options.order)
        found = {",".join(labels): block for labels, block in blocks.items()}
        rows = found.items()
    findings = []
    if options.check:
        findings = check(call, names)
        if options.order > 1:
            findings += check(call, names, order=options.order)[:1]
    if options.json:
        content = _head(call, names) | {"value": value, "order": options.order, "derivative": found}
        if options.check:
            content["check"] = [_finding_json(finding) for finding in findings]
        _write_json(content, call, output)
    else:
        report = _titled(call)
        report.line(f"  value  {number_text(value)}")
        which = "gradient" if options.order == 1 else f"derivative of order {options.order}"
        report.heading(which)
        entries = ((label, type_text(leaf), array_text(leaf)) for label, leaf in rows)
        report.table(["by", "type", "entries"], entries)
        if findings:
            report.heading("check")
        _report_findings(report, findings)
        _finish(report, call, output)
    return PASSED if all(finding.passed for finding in findings) else FAILED


def check_command(options: Namespace, output: TextIO) -> int:
    """`fungrad check`: the gradient against differences, and forward against reverse mode."""
    call, names = _prepared(options)
    value = evaluate(call)
    findings = check(
        call,
        names,
        options.order,
        options.samples,
        options.seed,
        options.spread,
        options.tolerance,
    )
    passed = all(finding.passed for finding in findings)
    if options.json:
        content = _head(call, names) | {
            "value": value,
            "order": options.order,
            "samples": options.samples,
            "seed": options.seed,
            "passed": passed,
            "check": [_finding_json(finding) for finding in findings],
        }
        _write_json(content, call, output)
    else:
        report = _titled(call)
        report.line(f"  value  {number_text(value)}")
        report.heading(f"check by {', '.join(names)}, {options.samples} samples near the arguments")
        _report_findings(report, findings)
        _finish(report, call, output)
    return PASSED if passed else FAILED


def ir_command(options: Namespace, output: TextIO) -> int:
    """`fungrad ir`: the Graph of the function, or of its gradient."""
    call = _call(options)
    by = select(call, options.wrt) if options.grad or options.wrt else []
    floats = [name for name, value in call.values.items() if is_differentiable(value)]
    names = list(dict.fromkeys(by)) if options.wrt else floats
    if not names:
        raise InputError(f"{call.name} has no real float argument; there is nothing to trace.")
    evaluate(call)

    function = _Positional(call, names, by if options.grad else [])
    with quiet(call.notes), user_code(call, "was being traced"):
        graph = fg.make_jaxpr(function)(*(call.values[name] for name in names))
    labels = [
        name + path for name in names for path in trees.paths(trees.structure(call.values[name]))
    ]
    pictures = [path for path in (options.html, options.svg) if path]
    if pictures:
        _draw(Picture(graph, labels, title=call.name), pictures)
    if options.json:
        content = _head(call, by) | _graph_json(graph, labels)
        _write_json(content, call, output)
        return PASSED
    report = _titled(call)
    if pictures:
        report.line(f"  {len(graph.equations)} equations, drawn in {' and '.join(pictures)}")
        _finish(report, call, output)
        return PASSED
    shown = Names()
    for variable, _ in graph.constants:
        shown.of(variable)
    letters = [shown.of(variable) for variable in graph.inputs]
    inputs = ", ".join(f"{a} = {b}" for a, b in zip(letters, labels, strict=True))
    of = f"gradient by {', '.join(by)}" if options.grad else "function"
    report.heading(f"IR of the {of}: {len(graph.equations)} equations; inputs {inputs}")
    report.line(graph.show(source=options.source))
    _finish(report, call, output)
    return PASSED


def _draw(picture: Picture, paths: Sequence[str]) -> None:
    """Writes a picture; each path has the ending of its kind."""
    for path in paths:
        try:
            picture.save(path)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}.") from None
        except (ArgumentError, MissingExtraError) as error:
            raise InputError(error.message) from None


class _Positional:
    """A Call as a function of the named arguments in order, or its gradient by some of them."""

    def __init__(self, call: Call, names: Sequence[str], by: Sequence[str]) -> None:
        self.__name__ = call.name
        self.call, self.names, self.by = call, names, by

    def __call__(self, *inputs: Any) -> Any:
        selected = dict(zip(self.names, inputs, strict=True))
        if not self.by:
            return self.call(selected)
        rest = {name: value for name, value in selected.items() if name not in self.by}
        gradients = fg.grad(lambda part: self.call(rest | part))({n: selected[n] for n in self.by})
        return tuple(gradients[name] for name in self.by)


class _Keywords:
    """A Call as a function of named arguments."""

    def __init__(self, call: Call) -> None:
        self.__name__ = call.name
        self.call = call

    def __call__(self, **chosen: Any) -> Any:
        return self.call(chosen)


def why_command(options: Namespace, output: TextIO) -> int:
    """`fungrad why`: why the gradient by each argument is zero, NaN, infinite or fine."""
    call = _call(options)
    names = select(call, options.wrt) if options.wrt else list(call.values)
    if not names:
        raise InputError(f"{call.name} takes no arguments; there is nothing to differentiate by.")
    with quiet(call.notes), user_code(call, EVALUATED):
        found = fg.why(_Keywords(call))(**{name: call.values[name] for name in names})
    if options.json:
        _write_json(_head(call, names) | found.as_json(), call, output)
        return PASSED
    report = _titled(call)
    if found.output.verdict != "fine":
        report.line(f"  {found.output}")
    report.heading("gradient")
    for finding in found.findings:
        report.line(f"  {finding}")
    if found.stops or found.remarks:
        report.heading("stops")
    for text in [*map(stop_text, found.stops), *found.remarks]:
        report.line(f"  {text}")
    _finish(report, call, output)
    return PASSED


def demo_command(options: Namespace, output: TextIO) -> int:
    """`fungrad demo`: four uses of stop_gradient, each checked against a formula made by hand."""
    results = demo.run_all(options.seed)
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


def _call(options: Namespace) -> Call:
    return load_call(options.target, parse_arguments(options.arg), options.allow_nan)


def _prepared(options: Namespace) -> tuple[Call, list[str]]:
    call = _call(options)
    return call, select(call, options.wrt)


def _titled(call: Call) -> Report:
    report = Report()
    report.heading(f"{call.name}({call.types()})  {call.file}")
    return report


def _report_findings(report: Report, findings: Sequence[Finding]) -> None:
    for finding in findings:
        text = (
            f"{finding.what}: worst relative error {finding.error:.1e} (limit "
            f"{finding.tolerance:g}) of {finding.comparisons}"
        )
        if finding.place:
            text += f", by {finding.place}"
        if finding.error > finding.tolerance:
            text += f", where it is {number_text(finding.found)}"
            text += f" and not {number_text(finding.expected)}"
        if finding.rough:
            text += f"; {finding.rough} not judged (a bend or the edge of the domain within a step)"
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


def _head(call: Call, names: Sequence[str]) -> dict[str, Any]:
    return {
        "function": call.name,
        "file": call.file,
        "arguments": {name: type_text(value) for name, value in call.values.items()},
        "wrt": list(names),
    }


def _finish(report: Report, call: Call, output: TextIO) -> None:
    for note in call.notes:
        report.line(f"  warning: {note}")
    report.write(output)


def _write_json(content: dict[str, Any], call: Call, output: TextIO) -> None:
    write_json(content | {"warnings": call.notes}, output)


def _graph_json(graph: Graph, labels: Sequence[str]) -> dict[str, Any]:
    """A Graph as plain data, with the names of its printed form."""
    names = Names()
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


def _atom_json(names: Names, variable: Any) -> dict[str, Any]:
    return {
        "name": names.of(variable),
        "shape": list(variable.type.shape),
        "dtype": str(variable.type.dtype),
    }
