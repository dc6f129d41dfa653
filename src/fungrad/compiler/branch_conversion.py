"""Functions whose branches at some lines are calls, so that a trace can record both sides.

`if test: x = a` becomes `(x,) = helper.branch(test, then, orelse, (x,))`, with sides that are
functions of the names that they set. They may set local names only; the helper checks what they
read and call. A converted function has the lines, globals and cells of the original.
"""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

_HELPER = "\0helper"
"""The constant of converted code that stands for the helper."""
_SIDES = ("__then__", "__orelse__")
_PURE = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Slice,
    ast.Subscript, ast.Attribute, ast.Tuple, ast.Call, ast.keyword, ast.Starred, ast.operator,
    ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context, ast.Assign, ast.AugAssign, ast.AnnAssign,
    ast.If, ast.For, ast.While, ast.Return, ast.Pass, ast.Break, ast.Continue, ast.Expr,
)  # fmt: skip
"""The syntax of sides: it sets local names alone."""


def converted(f: FunctionType, lines: frozenset[int] | None, helper: Any) -> FunctionType | None:
    """A function with its branches at these lines as calls of the helper.

    With None for the lines all of its code becomes that of a side. Returns None for a function
    whose source is not at hand, or that is to be a side and may have side effects.
    """
    file = f.__code__.co_filename
    key = file, f.__code__, lines
    if key not in helper.codes:
        found = _module(file, "".join(linecache.getlines(file)), lines).get(f.__code__)
        helper.codes[key] = found and _helped(found, helper)
    code = helper.codes[key]
    if code is None:
        return None
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    closure = tuple([cells[name] for name in code.co_freevars])
    made = FunctionType(code, f.__globals__, f.__name__, f.__defaults__, closure)
    made.__kwdefaults__ = f.__kwdefaults__
    return functools.update_wrapper(made, f)  # type: ignore[return-value]


@functools.lru_cache(maxsize=64)
def _module(file: str, text: str, lines: frozenset[int] | None) -> dict[CodeType, CodeType]:
    """The converted code of the functions of a source file, by their code."""
    try:
        tree = ast.parse(text, file)
        before = _codes(compile(tree, file, "exec", dont_inherit=True))
        converter = _Converter(lines)
        after = _codes(compile(converter.visit(tree), file, "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return {}
    found = {p: code for p, code in after.items() if code and p[1:] not in converter.impure}
    return {code: found[place] for place, code in before.items() if code and place in found}


def _codes(module: CodeType) -> dict[tuple[str, str, int], CodeType | None]:
    """The code of functions by qualified name, name and line; None where two have the same."""
    found: dict[tuple[str, str, int], CodeType | None] = {}
    todo = [module]
    for code in todo:
        if code.co_name not in _SIDES:
            place = code.co_qualname, code.co_name, code.co_firstlineno
            found[place] = None if place in found else code
        todo += [part for part in code.co_consts if isinstance(part, CodeType)]
    return found


def _helped(code: CodeType, helper: Any, name: str = "") -> CodeType:
    """The code with the helper as a constant, and its sides under its own name."""
    name = name if code.co_name in _SIDES else code.co_name
    constants = [
        _helped(c, helper, name) if isinstance(c, CodeType) else helper if c == _HELPER else c
        for c in code.co_consts
    ]
    return code.replace(co_consts=tuple(constants), co_name=name)


class _Fill(ast.NodeTransformer):
    """Puts nodes in the place of names of a template."""

    def __init__(self, at: ast.AST, parts: dict[str, Any]) -> None:
        self.at, self.parts = at, parts

    def visit(self, node: ast.AST) -> Any:
        name = getattr(node.value if isinstance(node, ast.Expr) else node, "id", None)
        if name in self.parts:
            return self.parts[name]
        return ast.copy_location(self.generic_visit(node), self.at)


def _made(template: str, at: ast.AST, **parts: Any) -> list[Any]:
    """The statements of a text, at the line of a node; `_X_` are the helper and the parts."""
    named = {f"_{name}_": part for name, part in parts.items()}
    named["_H_"] = ast.copy_location(ast.Constant(_HELPER), at)
    return [_Fill(at, named).visit(statement) for statement in ast.parse(template).body]


def _expression(template: str, at: ast.AST, **parts: Any) -> Any:
    return _made(template, at, **parts)[0].value


class _Converter(ast.NodeTransformer):
    """Converts the branches at some lines, and all branches within their sides."""

    def __init__(self, lines: frozenset[int] | None) -> None:
        self.lines = lines
        self.within = lines is None
        """Whether the code is that of a side."""
        self.scope: list[ast.AST] = []
        """All nodes of the function as it was."""
        self.impure: set[tuple[str, int]] = set()
        """The names and lines of functions that a side cannot call."""

    def visit_FunctionDef(self, node: Any) -> Any:
        body = node.body if isinstance(node.body, list) else [node.body]
        if self.lines is None and not _is_pure(body):
            self.impure |= {_place(n) for n in ast.walk(node) if isinstance(n, _FUNCTIONS)}
            return node
        outer, self.scope = self.scope, list(ast.walk(node))
        node.body = self.visit(body[0]) if node.body is not body else self.block(body, ends=True)
        self.scope = outer
        return node

    visit_Lambda = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        node.body = [self.visit(n) if isinstance(n, ast.FunctionDef) else n for n in node.body]
        return node

    def chosen(self, test: ast.expr) -> bool:
        """Whether the branch with this test is converted."""
        lines = range(test.lineno, (test.end_lineno or test.lineno) + 1)
        return bool(self.scope) and (self.within or not (self.lines or set()).isdisjoint(lines))

    # --- statements

    def block(self, nodes: Sequence[Any], ends: bool = False, repeats: bool = False) -> list[Any]:
        """Statements, converted; after them the function ends, or the body of a loop."""
        made: list[Any] = []
        for i, node in enumerate(nodes):
            rest = nodes[i + 1 :]
            if isinstance(node, ast.If):
                found = self.joined(node, rest, ends, repeats) if self.chosen(node.test) else None
                if found is not None:
                    return [*made, *found]
                node.test = self.visit(node.test)
                node.body = self.block(node.body, ends and not rest, repeats and not rest)
                node.orelse = self.block(node.orelse, ends and not rest, repeats and not rest)
            elif isinstance(node, ast.For | ast.While):
                head = "iter" if isinstance(node, ast.For) else "test"
                setattr(node, head, self.checked(self.visit(getattr(node, head))))
                node.body = self.block(node.body, repeats=True)
            else:
                node = self.visit(node)
            made.append(node)
        return made

    def joined(self, node: ast.If, rest: Any, ends: bool, repeats: bool) -> list[Any] | None:
        """An `if` statement and those after it, with functions as sides; None if it stays."""
        body, orelse, rest = _alternatives(node, rest, ends, repeats)
        nodes = [n for statement in (*body, *orelse) for n in ast.walk(statement)]
        returns = any(isinstance(n, ast.Return) for n in nodes)
        names = sorted({n.id for n in nodes if isinstance(n, ast.Name) and _is_set(n)})
        if returns and not (ends and _returns(body) and _returns(orelse)):
            return None
        if _jumps([*body, *orelse]) or not _is_pure(nodes) or self.shares(names):
            return None
        live = [] if returns else self.live(names, nodes)
        stored = f"({''.join(f'{name}, ' for name in live)})"
        back = "" if returns else f"return {stored}"
        given = "".join([f"_H_.bound(lambda: {name}), " for name in names])
        call = f"_H_.branch(_test_, __then__, __orelse__, ({given}))"
        template = [
            *[f"if 0: {name} = 0" for name in names if name not in live],  # still a local name
            f"def __then__({', '.join(names)}):\n _body_\n {back}",
            f"def __orelse__({', '.join(names)}):\n _orelse_\n {back}",
            f"{'return' if returns else f'{stored} ='} {call}",
            *[f"if {name} is _H_.UNBOUND: del {name}" for name in live],
        ]
        test = self.test(node.test)
        sides = [self.side(part, lambda p: self.block(p, returns)) for part in (body, orelse)]
        made = _made("\n".join(template), node, test=test, body=sides[0], orelse=sides[1])
        return [*made, *self.block(rest, ends, repeats)]

    def shares(self, names: Sequence[str]) -> bool:
        """Whether inner functions, or others, may share some of these names."""
        inner = [n for f in self.scope[1:] if isinstance(f, _FUNCTIONS) for n in ast.walk(f)]
        declared = any(isinstance(n, ast.Global | ast.Nonlocal) for n in self.scope)
        return declared or any(getattr(n, "id", None) in names for n in inner)

    def live(self, names: Sequence[str], nodes: Sequence[ast.AST]) -> list[str]:
        """Those of the names that are used outside of these nodes."""
        others = set(self.scope) - set(nodes)
        used = {getattr(n, "id", None) or getattr(n, "arg", None) for n in others}
        return [name for name in names if name in used]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not self.within or not isinstance(node.target, ast.Name):
            return node
        old = _expression(f"_H_.number({node.target.id})", node)
        value = ast.copy_location(ast.BinOp(old, node.op, self.checked(node.value)), node)
        return ast.copy_location(ast.Assign([node.target], value), node)

    # --- expressions

    def side(self, node: Any, convert: Callable[[Any], Any]) -> Any:
        """Code that runs on one side only."""
        within, self.within = self.within, True
        made = convert(node)
        self.within = within
        return made

    def test(self, node: Any) -> Any:
        """A condition, of which only the truth matters."""
        if isinstance(node, ast.BoolOp) and _is_pure(node.values[1:]):
            first, *others = node.values
            last = others[0] if len(others) == 1 else ast.BoolOp(node.op, others)
            last = self.side(ast.copy_location(last, node), self.test)
            template = (
                "_H_.branch(_a_, lambda: _H_.TRUE, lambda: _H_.truth(_b_))"
                if isinstance(node.op, ast.Or)
                else "_H_.branch(_a_, lambda: _H_.truth(_b_), lambda: _H_.FALSE)"
            )
            return _expression(template, node, a=self.test(first), b=last)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _expression("_H_.negated(_a_)", node, a=self.test(node.operand))
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            terms = [node.left, *node.comparators]
            if all(isinstance(term, ast.Name | ast.Constant) for term in terms[1:-1]):
                steps = zip(terms, node.ops, terms[1:], strict=False)
                parts: list[ast.expr] = [
                    ast.copy_location(ast.Compare(a, [o], [b]), node) for a, o, b in steps
                ]
                return self.test(ast.copy_location(ast.BoolOp(ast.And(), parts), node))
        return self.visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if not self.chosen(node.test) or not _is_pure([node.body, node.orelse]):
            return self.generic_visit(node)
        a, b = [self.side(part, self.visit) for part in (node.body, node.orelse)]
        template = "_H_.branch(_test_, lambda: _a_, lambda: _b_)"
        return _expression(template, node, test=self.test(node.test), a=a, b=b)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if self.within:
            node.args.insert(0, node.func)
            node.func = _expression("_H_.call", node)
        else:
            node.func = _expression("_H_.converted(_f_)", node, f=node.func)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.generic_visit(node)
        if not self.within or not isinstance(node.ctx, ast.Load):
            return node
        return _expression(f"_H_.attribute(_a_, {node.attr!r})", node, a=node.value)

    def operands(self, node: Any) -> Any:
        """An operator; in a side, the helper checks its operands."""
        self.generic_visit(node)
        for name in ("left", "right", "operand", "value"):
            if isinstance(part := getattr(node, name, None), ast.AST):
                setattr(node, name, self.checked(part))
        if isinstance(node, ast.Compare):
            node.comparators = [self.checked(part) for part in node.comparators]
        return node

    visit_BinOp = visit_UnaryOp = visit_Compare = visit_Subscript = operands

    def checked(self, node: Any) -> Any:
        """A value that code computes with."""
        plain = not self.within or isinstance(node, ast.Constant)
        return node if plain else _expression("_H_.known(_a_)", node, a=node)


_FUNCTIONS = (ast.FunctionDef, ast.Lambda)


def _place(node: Any) -> tuple[str, int]:
    """The name and the first line of the code of a function."""
    first = min([node, *getattr(node, "decorator_list", ())], key=lambda n: n.lineno)
    return getattr(node, "name", "<lambda>"), first.lineno


def _is_set(node: ast.AST) -> bool:
    """Whether a name, element or attribute is assigned to."""
    return isinstance(getattr(node, "ctx", None), ast.Store)


def _is_pure(nodes: Sequence[ast.AST]) -> bool:
    """Whether code sets local names alone."""
    return all(
        isinstance(n, _PURE) and (isinstance(n, ast.Name | ast.Tuple) or not _is_set(n))
        for node in nodes
        for n in ast.walk(node)
    )


def _alternatives(
    node: ast.If, rest: Sequence[Any], ends: bool, repeats: bool
) -> tuple[list[Any], list[Any], list[Any]]:
    """The sides of an `if` statement, with what runs after one side alone, and what after both."""
    body, orelse, rest = list(node.body), list(node.orelse), list(rest)
    for side, other in ((body, orelse), (orelse, body)):
        skips = bool(side) and repeats and isinstance(side[-1], ast.Continue)
        if skips or (ends and _returns(side)):
            other += rest
            rest = []
        if skips:
            side.pop()
    nothing = [ast.copy_location(ast.Pass(), node)]
    return body or nothing, orelse or nothing, rest


def _jumps(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements leave a step of a loop around them."""
    return any(
        isinstance(n, ast.Break | ast.Continue)
        or (isinstance(n, ast.If) and _jumps([*n.body, *n.orelse]))
        for n in statements
    )


def _returns(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements end in a return on all paths."""
    last = statements[-1] if statements else None
    if isinstance(last, ast.If):
        return _returns(last.body) and _returns(last.orelse)
    return isinstance(last, ast.Return)
