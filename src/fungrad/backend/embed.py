"""Floor 6: the source of a function of ours as part of a module that knows nothing of fungrad.

A function is copied from its file without annotations, docstring and decorators; the functions it
calls follow it, modules become imports, other values literals. What cannot be written raises
`NotWritable`. Knows Python's syntax; knows no primitive.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np


class NotWritable(Exception):
    """A value that has no text of its own."""


class Embedded:
    """The imports, and the texts of values by their names, in the order they are needed in."""

    def __init__(self) -> None:
        self.imports: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self._names: dict[int, str] = {}
        self._held: list[Any] = []

    def value(self, wished: str, value: Any) -> str:
        """The expression that stands for a value; its definition is added where it needs one."""
        if isinstance(value, (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))):
            return self._number(value)
        if isinstance(value, (tuple, list)):
            inner = ", ".join(self.value(wished, item) for item in value)
            if isinstance(value, list):
                return f"[{inner}]"
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if isinstance(value, slice):
            return repr(value)
        if isinstance(value, frozenset):
            return f"frozenset({self.value(wished, tuple(sorted(value, key=repr)))})"
        if isinstance(value, dict):
            pairs = (f"{self.value(wished, k)}: {self.value(wished, v)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        return self._named(wished, value)

    def _number(self, value: Any) -> str:
        if value is Ellipsis:
            return "..."
        if isinstance(value, complex):
            return f"complex({self._number(value.real)}, {self._number(value.imag)})"
        if isinstance(value, float) and (value != value or abs(value) == float("inf")):
            return f'float("{value}")'
        return repr(value)

    def _named(self, wished: str, value: Any) -> str:
        if isinstance(value, np.dtype):
            return f'{self.module(np)}.dtype("{value.str}")'
        if isinstance(value, np.generic):
            dtype = self._named(wished, value.dtype)
            return f"{dtype}.type({self.value(wished, value.item())})"
        if isinstance(value, np.ndarray):
            return self._array(wished, value)
        if isinstance(value, types.ModuleType):
            return self.module(value)
        if isinstance(value, functools.partial):
            if value.args or value.keywords:
                raise NotWritable(repr(value))
            return self._named(wished, value.func)
        found = self._public(value)
        if found:
            return found
        value = inspect.unwrap(value) if callable(value) else value
        if isinstance(value, types.FunctionType):
            return self.function(wished, value)
        raise NotWritable(f"{value!r} of type {type(value).__name__}")

    def _array(self, wished: str, value: Any) -> str:
        if value.dtype.hasobject:
            raise NotWritable("an array of objects")
        inner = self.value(wished, value.reshape(-1).tolist())
        dtype = self._named(wished, value.dtype)
        return f"{self.module(np)}.array({inner}, {dtype}).reshape({value.shape})"

    def module(self, module: types.ModuleType) -> str:
        """The name under which a module is imported."""
        name = module.__name__
        if name.split(".")[0] == "fungrad":
            raise NotWritable(f"the module {name}")
        if name == "numpy":
            self.imports["np"] = "import numpy as np"
            return "np"
        self.imports[name] = f"import {name}"
        return name

    def _public(self, value: Any) -> str:
        """`np.sin`, `math.sqrt`, `float`: what can be reached by name."""
        name = getattr(value, "__name__", "")
        if getattr(builtins, name, None) is value:
            return str(name)
        if isinstance(value, np.ufunc):
            homes = ["numpy", "scipy.special"]
        else:
            homes = [getattr(value, "__module__", None) or ""]
        if isinstance(value, types.BuiltinFunctionType) or homes == ["_operator"]:
            homes.append("operator")
        for home in homes:
            module = None if home.startswith("fungrad") else sys.modules.get(home)
            if module is not None and getattr(module, name, None) is value:
                return f"{self.module(module)}.{name}"
        return ""

    # --- functions ----------------------------------------------------------------------------

    def function(self, wished: str, function: Callable[..., Any]) -> str:
        """The name of a function, whose text is added."""
        if id(function) in self._names:
            return self._names[id(function)]
        code: Any = function
        name = code.__name__ if code.__name__.isidentifier() else wished
        while name in self.texts:
            name += "_"
        self._names[id(function)] = name
        self._held.append(function)
        self.texts[name] = ""  # its place; what it needs is found first
        node = _stripped(_node(code))
        if isinstance(node, ast.Lambda):
            text = f"{name} = {ast.unparse(self._resolved(node, code))}"
        else:
            node.name = name
            text = ast.unparse(self._resolved(node, code))
        del self.texts[name]
        self.texts[name] = text
        return name

    def _resolved(self, node: Any, function: Any) -> Any:
        """The function's syntax, with global and captured names replaced by what they stand for."""
        captured = inspect.getclosurevars(function)
        known = {**captured.globals, **captured.nonlocals}
        local = set(function.__code__.co_varnames) | _bound_inside(node)

        class Replace(ast.NodeTransformer):
            def visit_Name(inner, name: ast.Name) -> Any:
                if name.id in local and name.id not in captured.nonlocals:
                    return name
                if name.id not in known:
                    return name
                value = known[name.id]
                if value is function:
                    text = self._names[id(function)]
                else:
                    text = self.value(name.id, value)
                return ast.parse(text, mode="eval").body

        return ast.fix_missing_locations(Replace().visit(node))


def _bound_inside(node: ast.AST) -> set[str]:
    """The names that inner functions and comprehensions bind."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            found.add(inner.arg)
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id)
        elif isinstance(inner, ast.FunctionDef):
            found.add(inner.name)
    return found


@functools.lru_cache(maxsize=64)
def _syntax(path: str) -> ast.Module:
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read())


def _node(function: Any) -> Any:
    """The syntax of a function, from its file."""
    code = function.__code__
    path = inspect.getsourcefile(function)
    if path is None:
        raise NotWritable(f"{function!r}, whose source is not at hand")
    kind = ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef
    found = []
    for node in ast.walk(_syntax(path)):
        if not isinstance(node, kind):
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        if first == code.co_firstlineno and _arguments(node) == code.co_varnames[: _count(code)]:
            found.append(node)
    if kind is ast.Lambda and len(found) > 1:
        found = [n for n in found if _same_code(n, code)]
    if not found:
        raise NotWritable(f"{function!r}, whose source was not found")
    text = ast.unparse(found[0])
    if kind is ast.Lambda:
        return ast.parse(text, mode="eval").body
    return ast.parse(text).body[0]


def _count(code: Any) -> int:
    flags = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return int(code.co_argcount + code.co_kwonlyargcount + flags)


def _arguments(node: Any) -> tuple[str, ...]:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return tuple(a.arg for a in named)


def _same_code(node: ast.Lambda, code: Any) -> bool:
    made = compile(ast.Expression(node), "<lambda>", "eval").co_consts
    return any(isinstance(c, types.CodeType) and c.co_names == code.co_names for c in made)


def _stripped(node: Any) -> Any:
    """Without annotations, docstrings and decorators."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef):
            inner.returns = None
            inner.decorator_list = []
            first = inner.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                inner.body = inner.body[1:] or [ast.Pass()]
        elif isinstance(inner, ast.arg):
            inner.annotation = None

    class Plain(ast.NodeTransformer):
        def visit_AnnAssign(self, assign: ast.AnnAssign) -> Any:
            if assign.value is None:
                return None
            return ast.Assign([assign.target], assign.value)

    return ast.fix_missing_locations(Plain().visit(node))
