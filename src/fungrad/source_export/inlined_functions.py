"""Copies functions and classes of fungrad from their files into a module that does not import it.

Annotations and decorators are removed from their syntax trees. Each name that they do not bind is
replaced by an expression of its value.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fungrad.ir.types import Type
from fungrad.primitives.primitive import Primitive, zeros
from fungrad.source_export.expressions import NotWritable, Values, described
from fungrad.support.lazy import modules
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of, typeof

MISSING = object()
_INSTEAD = {shape_of: "np.shape", typeof: "np.asarray", zeros: "np.zeros_like", Type: "np.empty"}
"""NumPy functions that do the same for arrays; `np.empty` in place of Type."""
_ENGINE = (
    "fungrad.tracing",
    "fungrad.transforms",
    "fungrad.control_flow",
    "fungrad.retracing",
    "fungrad.support.pytree",
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.Lambda, ast.ClassDef, *_COMPREHENSIONS)


class Copies(Values):
    """Values, including functions and classes."""

    def function(self, wished: str, function: Any) -> str:
        """Adds the definition of a function; returns its name."""
        code = function.__code__
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        captured = dict(zip(code.co_freevars, cells, strict=True))
        is_lambda = code.co_name == "<lambda>"
        return self._copied(function, wished if is_lambda else code.co_name, captured)

    def type(self, type_: Any) -> str:
        """Adds the definition of a class; returns its name."""
        return self._copied(type_, type_.__name__, {})

    def _copied(self, value: Any, wished: str, captured: Mapping[str, Any]) -> str:
        if value in _INSTEAD:
            return _INSTEAD[value]
        if value.__module__.startswith(_ENGINE):
            raise NotWritable(f"{described(value)} of fungrad at run time")
        name, new = self.once(("copy", id(value)), wished, value)
        if new:
            home = vars(inspect.getmodule(value)) if isinstance(value, type) else value.__globals__
            node = _Inliner(self, captured, home).visit(copy.deepcopy(_syntax(value)))
            if isinstance(node, ast.Lambda):
                self.define(name, f"{name} = {ast.unparse(node)}")
            else:
                node.name = name
                self.define(name, ast.unparse(ast.fix_missing_locations(node)))
        return name

    def module_constant(self, name: str, value: Any, home: Mapping[str, Any]) -> str:
        """The expression of a module's global; numbers, tuples and arrays keep the name."""
        try:
            text = self.value(name, value)
        except NotWritable:  # a large table, or no text: copy the expression assigned to it
            node, home = _assigned(name, home)
            if node is None:
                raise
            text = ast.unparse(_Inliner(self, {}, home).visit(copy.deepcopy(node)))
        else:
            if re.fullmatch(r"[\w.]+", text) and not text[0].isdigit():
                return text
        own, new = self.once(("constant", name, text), name)
        if new:
            self.define(own, f"{own} = {text}")
        return own


# --- the syntax of a function in its file ---------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _parsed(path: str) -> ast.Module:
    return ast.parse(Path(path).read_bytes())


@functools.lru_cache(maxsize=256)
def _definitions(path: str) -> list[ast.AST]:
    """The functions, lambdas and classes of a file."""
    defined = (ast.FunctionDef, ast.Lambda, ast.ClassDef)
    return [node for node in ast.walk(_parsed(path)) if isinstance(node, defined)]


def _syntax(value: Any) -> Any:
    """The syntax tree of a function, lambda or class; NotWritable if there is no file."""
    try:
        definitions = _definitions(str(inspect.getsourcefile(value)))
    except (TypeError, OSError):
        raise NotWritable(f"{described(value)}, whose source is missing") from None
    matching = [node for node in definitions if _is_syntax_of(node, value)]
    if not matching:
        raise NotWritable(f"{described(value)}, whose source was not found")
    return matching[0]


def _is_syntax_of(node: Any, value: Any) -> bool:
    if isinstance(value, type):
        return isinstance(node, ast.ClassDef) and node.name == value.__qualname__
    code = value.__code__
    if not isinstance(node, ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef):
        return False
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    if first != code.co_firstlineno:
        return False
    if isinstance(node, ast.FunctionDef):
        return bool(node.name == code.co_name)
    made = compile(ast.Expression(node), "<lambda>", "eval").co_consts
    same = next(c for c in made if inspect.iscode(c))
    read = {*same.co_names, *same.co_freevars}  # names of the enclosing function are global here
    return bool(
        same.co_varnames == code.co_varnames and read == {*code.co_names, *code.co_freevars}
    )


def _assigned(name: str, home: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """The expression assigned to a name in a module, or in the one it imports from; that module."""
    for node in _parsed(home["__file__"]).body if "__file__" in home else ():
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                if (alias.asname or alias.name) == name and node.module in modules:
                    return _assigned(alias.name, vars(modules[node.module]))
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if [t.id for t in targets if isinstance(t, ast.Name)] == [name]:
            return getattr(node, "value", None), home
    return None, home


def _bound(scope: ast.AST) -> set[str]:
    """The names that a scope binds, without those of inner scopes."""
    names: set[str] = set()
    todo = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler)) and node.name:
            names.add(node.name)
        if not isinstance(node, _SCOPES):
            todo += ast.iter_child_nodes(node)
    return names


class _Inliner(ast.NodeTransformer):
    """Replaces each name that a function does not bind by an expression of its value."""

    def __init__(
        self, values: Copies, captured: Mapping[str, Any], home: Mapping[str, Any]
    ) -> None:
        self.values = values
        self.captured = captured
        self.home = home
        self._scopes: list[set[str]] = []

    # --- names ------------------------------------------------------------------------------------

    def _static(self, node: ast.AST) -> Any:
        """The value of a name or attribute in its module; MISSING if it is local."""
        if isinstance(node, ast.Name):
            if any(node.id in names for names in self._scopes):
                return MISSING
            return self.captured.get(node.id, self.home.get(node.id, MISSING))
        if isinstance(node, ast.Attribute):
            base = self._static(node.value)
            return MISSING if base is MISSING else getattr(base, node.attr, MISSING)
        return MISSING

    def _expression(self, text: str) -> ast.expr:
        """The syntax tree of an expression; an alias stands for a name that a local one hides."""
        local: set[str] = set().union(*self._scopes)
        while re.fullmatch(r"[\w.]+", text) and text.split(".")[0] in local:
            alias, new = self.values.once(("alias", text), text.replace(".", "_"))
            if new:
                self.values.define(alias, f"{alias} = {text}")
            text = alias
        return ast.parse(text, mode="eval").body

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._static(node)
        if value is MISSING or not isinstance(node.ctx, ast.Load):
            return node
        if node.id in self.captured:
            return self._expression(self.values.value(node.id, value))
        return self._expression(self.values.module_constant(node.id, value, self.home))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        value, base = self._static(node), self._static(node.value)
        if value is MISSING or not _is_namespace(base):
            return self.generic_visit(node)
        home = vars(base) if inspect.ismodule(base) else {}
        return self._expression(self.values.module_constant(node.attr, value, home))

    def visit_Call(self, node: ast.Call) -> Any:
        called = self._static(node.func)
        name = getattr(called, "__qualname__", "")
        if called is user_line:
            return ast.Constant("")
        if name == "cast" and called.__module__ == "typing":
            return self.visit(node.args[1])
        if name == "scipy_module" and isinstance(node.args[0], ast.Constant):
            return self._expression(self.values.module(called(node.args[0].value)))
        return self.generic_visit(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        if isinstance(node.value, ast.Call) and self._static(node.value.func) is user_line:
            return ast.Constant("")
        return self.generic_visit(node)

    # --- scopes -----------------------------------------------------------------------------------

    def _inside(self, node: Any) -> Any:
        self._scopes.append(_bound(node))
        node = self.generic_visit(node)
        self._scopes.pop()
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _inside

    def visit_Lambda(self, node: Any) -> Any:
        defaults = node.args.defaults, node.args.kw_defaults
        node.args.defaults, node.args.kw_defaults = [], []
        node = self._inside(node)
        node.args.defaults, node.args.kw_defaults = (
            [None if default is None else self.visit(default) for default in some]
            for some in defaults
        )
        return node

    def visit_FunctionDef(self, node: Any) -> Any:
        kept = [self.visit(d) for d in node.decorator_list if self._scopes or self._is_cache(d)]
        node.decorator_list, node.returns = [], None
        if ast.get_docstring(node) is not None:
            node.body[0].value.value = node.body[0].value.value.strip().split("\n")[0]
        node = self.visit_Lambda(node)
        node.decorator_list = kept
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        node.decorator_list = []
        return self.generic_visit(node)

    def _is_cache(self, node: Any) -> bool:
        called = self._static(node.func if isinstance(node, ast.Call) else node)
        return getattr(called, "__module__", "") == "functools"

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            node.annotation = ast.Name("object")
            return node
        return ast.Assign([node.target], self.visit(node.value), lineno=node.lineno)


def _is_namespace(value: Any) -> bool:
    """Whether a value is an object of fungrad whose attributes, not itself, are written."""
    if inspect.ismodule(value):
        return value.__name__.split(".")[0] == "fungrad"
    return isinstance(value, Primitive) or (
        type(value).__module__.startswith("fungrad.") and hasattr(type(value), "__getattr__")
    )
