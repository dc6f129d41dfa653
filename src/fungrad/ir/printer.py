"""Prints a Graph in the style of a jaxpr."""

from __future__ import annotations

from typing import Any

import numpy as np


def name_of(index: int) -> str:
    """The index-th name of a, b, ... z, ba, bb, ...: how printed graphs name variables.

    >>> [name_of(i) for i in (0, 25, 26, 27)]
    ['a', 'z', 'ba', 'bb']
    """
    letters = "abcdefghijklmnopqrstuvwxyz"
    name = letters[index % 26]
    while index >= 26:
        index //= 26
        name = letters[index % 26] + name
    return name


class Letters(dict[Any, str]):
    """Letters of variables, in the order in which they are met."""

    def of(self, atom: Any) -> str:
        """The name of a variable, or the text of a literal."""
        if hasattr(atom, "value"):
            return f"{atom.value!s}"
        return self.setdefault(atom, name_of(len(self)))

    def binder(self, variable: Any) -> str:
        """The name with the type, as in the variable's definition."""
        return f"{self.of(variable)}:{variable.type}"


def show(graph: Any, source: bool = False) -> str:
    """The text of a Graph.

    `{ lambda a:f64[3]. let b:f64[3] = sin a in (b,) }`; several equations have a line each.
    """
    return "\n".join(_lines(graph, source))


def _lines(graph: Any, source: bool) -> list[str]:
    names = Letters()
    constants = " ".join(names.binder(v) for v, _ in graph.constants)
    inputs = " ".join(names.binder(v) for v in graph.inputs)
    head = " ".join(
        ["{ lambda", *([constants + ";"] if constants else []), *([inputs] if inputs else [])]
    )
    body = [line for equation in graph.equations for line in _equation(equation, names, source)]
    outputs = "(" + ", ".join(names.of(a) for a in graph.outputs)
    outputs += ",)" if len(graph.outputs) == 1 else ")"
    one_line = f"{head}. let {body[0] if body else ''} in {outputs} }}".replace("  ", " ")
    if len(body) <= 1 and not source and len(one_line) <= 88:
        return [one_line]
    return [f"{head}. let", *("    " + line for line in body), f"  in {outputs} }}"]


def _equation(equation: Any, names: Letters, source: bool) -> list[str]:
    inputs = " ".join(names.of(a) for a in equation.inputs)
    outputs = " ".join(names.binder(v) for v in equation.outputs) or "_"
    params = _params(_in_scope(equation), source)
    text = " ".join(p for p in (f"{equation.primitive.name}{params[0]}", *params[1:]) if p)
    lines = text.split("\n")
    lines[0] = f"{outputs} = {lines[0]}"
    lines[-1] = f"{lines[-1]} {inputs}".rstrip()
    notes = []
    if equation.scope:
        notes.append(f"in {equation.scope}")
    if source and equation.source is not None:
        notes.append(str(equation.source))
    if notes:
        lines[-1] += "    # " + ", ".join(notes)
    return lines


_NAMING = frozenset({"checkpoint_name", "stop_gradient", "stop_gradient_order"})
"""The primitives whose parameter `name` is the user's name for a value."""


def _in_scope(equation: Any) -> dict[str, Any]:
    """The parameters, with the user's name for a value as a path below its scope: `outer/inner`. A
    block of that name is its scope already.
    """
    params: dict[str, Any] = equation.params
    scope, name = equation.scope, params.get("name")
    if not scope or name is None or equation.primitive.name not in _NAMING:
        return params
    path = scope if f"/{scope}".endswith(f"/{name}") else f"{scope}/{name}"
    return {**params, "name": path}


def _params(params: dict[str, Any], source: bool) -> list[str]:
    flat = {k: v for k, v in params.items() if v is not None and not holds_graph(v)}
    nested = {k: v for k, v in params.items() if holds_graph(v)}
    text = " ".join(f"{key}={value_text(value)}" for key, value in flat.items())
    if not nested:
        return [f"[{text}]"] if text else [""]
    rows = [text] if text else []
    for key, value in nested.items():
        graphs = value if isinstance(value, tuple) else (value,)
        for index, graph in enumerate(graphs):
            label = f"{key}[{index}]" if isinstance(value, tuple) else key
            inner = _lines(graph, source)
            rows.append(f"{label}={inner[0]}")
            rows.extend("  " + line for line in inner[1:])
    return ["[\n" + "\n".join("  " + row for row in rows) + "\n]"]


def holds_graph(value: Any) -> bool:
    """Whether a parameter is a Graph, or a tuple with Graphs among its items."""
    if isinstance(value, tuple):
        return any(hasattr(item, "equations") for item in value)
    return hasattr(value, "equations")


def value_text(value: Any) -> str:
    """The text of a parameter that holds no Graph."""
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, tuple):
        inner = ",".join(value_text(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, slice):
        parts = [value.start, value.stop, *([value.step] if value.step is not None else [])]
        return ":".join("" if p is None else str(p) for p in parts)
    if value is Ellipsis:
        return "..."
    if isinstance(value, str):
        return value
    if callable(value):
        return str(getattr(value, "__name__", type(value).__name__))
    return repr(value)
