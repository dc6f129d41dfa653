"""Functions and classes of ours, copied from their files into a module without fungrad.

The text stays as it is but for annotations, decorators and `# noqa`s, which go, and for the names
it does not bind, which become what they stand for. Knows Python's syntax; knows no primitive.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import sys
import textwrap
from typing import Any

from fungrad.ir.types import Type
from fungrad.primitives.primitive import Primitive, zeros
from fungrad.source_export.constants import NotWritable, Values, described
from fungrad.source_export.line_breaking import wrapped
from fungrad.source_export.python_syntax import (
    File,
    end_of,
    file_at,
    file_of,
    narrowed,
    node_of,
    parameters_of,
    start_of,
    stored,
    with_defaults,
    with_heads,
)
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of, typeof

MISSING = object()
_INSTEAD = {shape_of: ".shape", typeof: ".asarray", zeros: ".zeros_like"}
"""What does the same for arrays, with `np.empty` in place of a Type."""
_ENGINE = (
    "fungrad.tracing",
    "fungrad.transforms",
    "fungrad.control_flow",
    "fungrad.retracing",
    "fungrad.support.pytree",
)
_NOTES = re.compile(r" *# (?:fmt: \w+|type: ignore.*|noqa.*)$", re.MULTILINE)


class Copies(Values):
    """Values, and functions and classes among them."""

    def function(self, wished: str, function: Any) -> str:
        """The name of a function, whose text is added."""
        if function in _INSTEAD:
            return self.np() + _INSTEAD[function]
        code = function.__code__
        if function.__module__.startswith(_ENGINE):
            raise NotWritable(f"{described(function)} of fungrad when it runs")
        name = code.co_name if code.co_name != "<lambda>" else wished
        name, new = self.once(("function", id(function)), name, function)
        if not new:
            return name
        file, captured = file_of(code), {}
        for free, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            captured[free] = cell.cell_contents
        node = node_of(file, function)
        edits = Edits(self, file, captured, function.__globals__)
        kept = edits.kept_decorators(node)
        edits.visit(node)
        if isinstance(node, ast.Lambda):
            arguments = ast.unparse(node.args)
            body = ast.unparse(ast.parse(f"({edits.text(node.body)})", mode="eval"))
            text = f"def {name}({arguments}):\n" + "\n".join(wrapped(f"return {body}", "    "))
        else:
            text = edits.text(node).replace(f"def {node.name}(", f"def {name}(", 1)
            text = kept + with_heads(text)
        self.define(name, narrowed(text))
        return name

    def type(self, type_: Any) -> str:
        """The name of a class, whose text is added."""
        if type_ is Type:
            return f"{self.np()}.empty"
        if type_.__module__.startswith(_ENGINE):
            raise NotWritable(f"{described(type_)} of fungrad when it runs")
        module = sys.modules.get(type_.__module__)
        name, new = self.once(("class", id(type_)), type_.__name__, type_)
        if new:
            file = file_of(type_)
            found = [n for n in file.tree.body
                     if isinstance(n, ast.ClassDef) and n.name == type_.__name__]  # fmt: skip
            if not found or "." in type_.__qualname__:
                raise NotWritable(f"{described(type_)}, whose source was not found")
            edits = Edits(self, file, {}, vars(module))
            edits.visit(found[0])
            text = edits.text(found[0])
            self.define(
                name, with_heads(text.replace(f"class {type_.__name__}", f"class {name}", 1))
            )
        return name

    def named(self, name: str, value: Any, home: dict[str, Any]) -> str:
        """What a global name of a module is written as: constants keep their definition."""
        if type(value) in (bool, type(None)):
            return repr(value)
        constant = not callable(value) and not inspect.ismodule(value)
        constant = constant and not isinstance(value, Primitive)
        try:
            if not constant:
                return self.value(name, value)
        except NotWritable:
            if _assigned(name, home) is None:
                raise
        assigned = _assigned(name, home)
        origin = home if assigned is None else assigned[2]
        own, new = self.once(("global", origin.get("__name__"), name), name)
        if new:
            if assigned is None or type(value) in (dict, list):
                text = self.value(name, value)
            else:
                file, node, space = assigned
                edits = Edits(self, file, {}, space)
                edits.visit(node)
                text = edits.text(node)
            self.define(own, "\n".join(wrapped(f"{own} = {text}")))
        return own


def _assigned(name: str, home: dict[str, Any]) -> tuple[File, ast.expr, dict[str, Any]] | None:
    """The expression that a module assigns to a name, or that the one it is imported from does."""
    path = home.get("__file__")
    if not path:
        return None
    file = file_at(path)
    for node in file.tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                if (alias.asname or alias.name) == name and node.module in sys.modules:
                    return _assigned(alias.name, vars(sys.modules[node.module]))
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        if [t.id for t in targets if isinstance(t, ast.Name)] == [name]:
            value: Any = getattr(node, "value", None)
            return None if value is None else (file, value, home)
    return None


# --- what changes in a text -----------------------------------------------------------------------


class Edits(ast.NodeVisitor):
    """What has to be put in place of which stretches of a source file."""

    def __init__(
        self, values: Copies, file: File, captured: dict[str, Any], home: dict[str, Any]
    ) -> None:
        self.values = values
        self.file = file
        self.captured = captured
        self.home = home
        self._root: Any = None
        self._bound: list[set[str]] = []
        self._changes: list[tuple[tuple[int, int], tuple[int, int], str]] = []

    def text(self, node: Any) -> str:
        """The changed text of a node, its first line at the margin."""
        start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        result, place = b"", start
        for begin, stop, new in sorted(self._changes):
            if begin >= place and stop <= end:
                result += self._between(place, begin) + new.encode()
                place = stop
        whole = (result + self._between(place, end)).decode()
        whole = _NOTES.sub("", whole)
        return textwrap.dedent(" " * node.col_offset + whole)

    def _between(self, begin: tuple[int, int], end: tuple[int, int]) -> bytes:
        lines = list(self.file.lines[begin[0] - 1 : end[0]])
        lines[-1] = lines[-1][: end[1]]
        lines[0] = lines[0][begin[1] :]
        return b"".join(lines)

    def _change(self, node: Any, new: str) -> None:
        self._cut((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), new)

    def _cut(self, begin: tuple[int, int], end: tuple[int, int], new: str) -> None:
        self._changes.append((begin, end, new))

    def kept_decorators(self, node: Any) -> str:
        """The lines of those decorators of a function that are functools'; the others go."""
        self._root = node
        kept = ""
        for decorator in getattr(node, "decorator_list", ()):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if getattr(self.static(called), "__module__", "") == "functools":
                self.visit(decorator)
                kept += f"@{self.text(decorator)}\n"
        return kept

    # --- names ------------------------------------------------------------------------------------

    def static(self, node: ast.AST) -> Any:
        """The value that a name or an attribute of one has in its module; MISSING if local."""
        if isinstance(node, ast.Name):
            if any(node.id in names for names in self._bound):
                return MISSING
            return self.captured.get(node.id, self.home.get(node.id, MISSING))
        if isinstance(node, ast.Attribute):
            base = self.static(node.value)
            return MISSING if base is MISSING else getattr(base, node.attr, MISSING)
        return MISSING

    def visit_Name(self, node: ast.Name) -> None:
        value = self.static(node)
        if value is MISSING or not isinstance(node.ctx, ast.Load):
            return
        if node.id in self.captured:
            text = self.values.value(node.id, value)
        else:
            text = self.values.named(node.id, value, self.home)
        if text != node.id:
            text = self._unbound(text)
            self._change(node, f"({text})" if text.startswith("-") else text)

    def _unbound(self, text: str) -> str:
        """A global name; another one for it where a local of the function has that."""
        local: set[str] = set().union(*self._bound)
        while re.fullmatch(r"[\w.]+", text) and text.split(".")[0] in local:
            alias, new = self.values.once(("alias", text), text.replace(".", "_"))
            if new:
                self.values.define(alias, f"{alias} = {text}")
            text = alias
        return text

    def visit_Attribute(self, node: ast.Attribute) -> None:
        base = self.static(node.value)
        value = self.static(node)
        if base is MISSING or value is MISSING or not _is_namespace(base):
            self.generic_visit(node)
        elif inspect.ismodule(base):
            text = self.values.named(node.attr, value, vars(base))
            self._change(node, self._unbound(text))
        else:
            self._change(node, self._unbound(self.values.value(node.attr, value)))

    def visit_Call(self, node: ast.Call) -> None:
        called = self.static(node.func)
        name = getattr(called, "__qualname__", "")
        if called is user_line:
            self._change(node, '""')
        elif name == "cast" and called.__module__ == "typing":
            self._cut(start_of(node), start_of(node.args[1]), "")
            self._cut(end_of(node.args[1]), end_of(node), "")
            self.visit(node.args[1])
        elif name == "scipy_module" and isinstance(node.args[0], ast.Constant):
            self._change(node, self.values.module(called(node.args[0].value)))
        else:
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        # Before Python 3.12 the parts of an f-string have no places of their own.
        source = self._between(start_of(node), end_of(node)).decode()
        if "{user_line()}" in source:
            self._change(node, source.replace("{user_line()}", ""))
            return
        new = ast.fix_missing_locations(_Parts(self).visit(copy.deepcopy(node)))
        text = ast.unparse(new)
        if text != ast.unparse(node):
            self._change(node, text if '"' in text else f'f"{text[2:-1]}"')

    # --- scopes -----------------------------------------------------------------------------------

    def _inside(self, bound: set[str], nodes: Any) -> None:
        self._bound.append(bound)
        for node in nodes:
            self.visit(node)
        self._bound.pop()

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._defaults(node.args)
        self._inside(set(parameters_of(node.args)), [node.body])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._defaults(node.args)
        for argument, default in with_defaults(node.args):
            if argument.annotation is not None:
                column = argument.col_offset + len(argument.arg.encode())
                self._cut((argument.lineno, column), end_of(argument.annotation), "")
                if default is not None:
                    self._cut(end_of(argument.annotation), start_of(default), "=")
        if node.returns is not None:
            line, column = start_of(node.returns)
            before = self.file.lines[line - 1][:column].rstrip()
            self._cut((line, len(before[:-2].rstrip())), end_of(node.returns), "")
        for decorator in node.decorator_list if node is not self._root else ():
            self.visit(decorator)
        first: Any = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            said = str(first.value.value).strip().split("\n")[0]
            self._change(first, f'"""{said}"""')
        bound = set(parameters_of(node.args)) | stored(node.body)
        self._inside(bound, node.body)

    def _defaults(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            self.visit(base)
        for inner in node.body:
            if isinstance(inner, ast.AnnAssign) and inner.value is None:
                self._change(inner.annotation, "object")
            else:
                self.visit(inner)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self._change(node, "pass")
            return
        self._cut(end_of(node.target), start_of(node.value), " = ")
        self.visit(node.value)

    def _comprehension(self, node: Any) -> None:
        bound = {n.id for g in node.generators for n in ast.walk(g.target)
                 if isinstance(n, ast.Name)}  # fmt: skip
        self._inside(bound, ast.iter_child_nodes(node))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


class _Parts(ast.NodeTransformer):
    """The same for the parts of an f-string."""

    def __init__(self, edits: Edits) -> None:
        self.edits = edits

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        if isinstance(node.value, ast.Call) and self.edits.static(node.value.func) is user_line:
            return ast.Constant("")
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        value = self.edits.static(node)
        if value is MISSING:
            return node
        if node.id in self.edits.captured:
            text = self.edits.values.value(node.id, value)
        else:
            text = self.edits.values.named(node.id, value, self.edits.home)
        return ast.parse(text, mode="eval").body


def _is_namespace(value: Any) -> bool:
    """Whether a value of ours has no text of its own, but its attributes may."""
    if inspect.ismodule(value):
        return value.__name__.split(".")[0] == "fungrad"
    return isinstance(value, Primitive) or (
        type(value).__module__.startswith("fungrad.") and hasattr(type(value), "__getattr__")
    )


__all__ = ["Copies"]
