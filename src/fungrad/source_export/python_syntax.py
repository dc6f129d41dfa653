"""The syntax of functions as their files have it, and the layout of changed texts.

Knows Python's syntax; knows nothing of what the functions do.
"""

from __future__ import annotations

import ast
import functools
import inspect
from typing import Any

from fungrad.source_export.constants import NotWritable, described
from fungrad.source_export.line_breaking import wrapped
from fungrad.support.record import Record


class File(Record):
    """A source file: its lines, as bytes, which is what positions in syntax count."""

    tree: ast.Module
    lines: list[bytes]


@functools.lru_cache(maxsize=256)
def file_at(path: str) -> File:
    """A file of Python, read once."""
    with open(path, "rb") as file:
        text = file.read()
    return File(ast.parse(text), text.splitlines(keepends=True))


def file_of(value: Any) -> File:
    """The file that a function or class was written in; NotWritable where there is none."""
    try:
        path = inspect.getsourcefile(value)
        return file_at(str(path))
    except (TypeError, OSError):
        raise NotWritable(f"{described(value)}, whose source is not at hand") from None


def start_of(node: Any) -> tuple[int, int]:
    """The line and column at which a node begins."""
    return node.lineno, node.col_offset


def end_of(node: Any) -> tuple[int, int]:
    """The line and column at which a node ends."""
    return node.end_lineno, node.end_col_offset


def parameters_of(arguments: ast.arguments) -> tuple[str, ...]:
    """The names of all parameters, those of `*` and `**` last."""
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return tuple(a.arg for a in named)


def with_defaults(arguments: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """Each parameter with its default, None where it has none."""
    named = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(named) - len(arguments.defaults))
    found = list(zip(named, [*missing, *arguments.defaults], strict=True))
    found += list(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
    return found + [(a, None) for a in (arguments.vararg, arguments.kwarg) if a is not None]


def stored(body: Any) -> set[str]:
    """The names that statements bind, not those that functions inside of them bind."""
    found: set[str] = set()
    todo = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Lambda):
            pass
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            pass
        else:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.ExceptHandler) and node.name:
                found.add(node.name)
            todo += ast.iter_child_nodes(node)
    return found


def node_of(file: File, function: Any) -> Any:
    """The syntax of a function in its file."""
    code = function.__code__
    kind = ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef
    flags = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + flags]
    found = []
    for node in ast.walk(file.tree):
        if isinstance(node, kind) and parameters_of(node.args) == names:
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            if first == code.co_firstlineno:
                found.append(node)
    if kind is ast.Lambda and len(found) > 1:
        found = [n for n in found if _names_of(n) == code.co_names]
    if not found:
        raise NotWritable(f"{described(function)}, whose source was not found")
    return found[0]


def _names_of(node: Any) -> Any:
    made = compile(ast.Expression(node), "<lambda>", "eval").co_consts
    return next(c.co_names for c in made if hasattr(c, "co_names"))


def narrowed(text: str) -> str:
    """The text with those lines broken that new names have made too long."""
    lines = text.split("\n")
    for place in [i for i, line in enumerate(lines) if len(line) > 100][::-1]:
        line = lines[place]
        indent = line[: len(line) - len(line.lstrip())]
        new = [*lines[:place], *wrapped(line.strip(), indent), *lines[place + 1 :]]
        try:
            same = ast.dump(ast.parse("\n".join(new))) == ast.dump(ast.parse(text))
        except SyntaxError:  # a part of a statement whose brackets stand on other lines
            continue
        lines = new if same else lines
    return "\n".join(lines)


def with_heads(text: str) -> str:
    """The text with the heads of functions, which lost their annotations, laid out anew."""
    lines = text.split("\n")
    tree = ast.parse(text)
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    for node in sorted(nodes, key=lambda n: -n.lineno):
        head = lines[node.lineno - 1 : node.body[0].lineno - 1]
        if len(head) == 1 or any("#" in line for line in head):
            continue
        new = f"def {node.name}({ast.unparse(node.args)}):"
        lines[node.lineno - 1 : node.body[0].lineno - 1] = wrapped(new, " " * node.col_offset)
    return "\n".join(lines)


__all__ = [
    "File",
    "end_of",
    "file_at",
    "file_of",
    "narrowed",
    "node_of",
    "parameters_of",
    "start_of",
    "stored",
    "with_defaults",
    "with_heads",
]
