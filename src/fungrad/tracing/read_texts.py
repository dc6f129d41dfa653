"""Whether the text of a number is read as a number again, by the source: `float("%.3f" % x)`.

Texts that Python puts together, by `%` or of several parts, are plain: they know nothing of the
traced value. So the source tells: a text that is an argument of a function that reads numbers,
at once or by a name that it has in the function, would cut the gradient as `float(x)` does.
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import numpy as np

from fungrad.tracing.trace import Tracer
from fungrad.tracing.ways_out import names_in, value_of

_READERS = frozenset(
    ["ast.literal_eval", "builtins.complex", "builtins.eval", "builtins.float", "decimal.Decimal",
     "fractions.Fraction", "json.loads", "numpy.fromstring", "numpy.genfromtxt", "numpy.loadtxt"]
)  # fmt: skip
_OF_TEXTS = frozenset(
    ["BytesIO", "StringIO", "array", "asarray", "decode", "encode", "findall", "format",
     "fullmatch", "group", "groups", "join", "lower", "lstrip", "match", "replace", "rsplit",
     "rstrip", "search", "split", "splitlines", "str", "strip", "sub", "upper"]
)  # fmt: skip
"""Functions and methods that make a text, a file or a match of texts."""
_WITHIN = (
    ast.Attribute, ast.BinOp, ast.FormattedValue, ast.IfExp, ast.JoinedStr, ast.List, ast.Starred,
    ast.Subscript, ast.Tuple, ast.keyword,
)  # fmt: skip
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)


def cuts_by_text(tracer: Tracer, frame: FrameType) -> bool:
    """Whether the text that a frame's instruction makes of a traced value is read as a number, and
    cuts a gradient that is not cut on purpose.
    """
    if tracer.shape or tracer.dtype.kind != "f" or tracer.owner.is_cut(tracer):
        return False
    readers = _readers_at(frame.f_code, frame.f_lasti)
    return any(_reads(value_of(reader, names_in(frame))) for reader in readers)


def _reads(function: Any) -> bool:
    if isinstance(function, type) and issubclass(function, np.inexact):
        return True
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', '')}"
    return name in _READERS


@functools.lru_cache(maxsize=4096)
def _readers_at(code: CodeType, instruction: int) -> tuple[ast.expr, ...]:
    """The functions that the source calls with the text that an instruction makes."""
    place = next(itertools.islice(code.co_positions(), instruction // 2, None), None)
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return ()
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    texts = [node for node in above if isinstance(node, ast.expr) and _place(node) == place]
    return tuple(_readers(texts[0], above)) if texts else ()


def _place(node: ast.expr) -> tuple[int | None, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _readers(text: ast.AST, above: dict[ast.AST, ast.AST]) -> Iterator[ast.expr]:
    while True:
        node, text = text, above[text]
        if isinstance(text, ast.Call):
            name = _name(text.func)
            if name in ("astype", "map"):
                yield from text.args[:1]
            elif node is not text.func:
                yield text.func
            if name not in _OF_TEXTS:
                return
        elif isinstance(text, ast.Assign | ast.comprehension):
            target = text.targets[0] if isinstance(text, ast.Assign) else text.target
            if isinstance(target, ast.Name):
                yield from _readers_of(target, above)
            return
        elif not isinstance(text, _WITHIN) or node is getattr(text, "slice", None):
            return


def _readers_of(target: ast.Name, above: dict[ast.AST, ast.AST]) -> Iterator[ast.expr]:
    """The functions that are called with a name, if the function gives it once."""
    scope: ast.AST = target
    while not isinstance(scope, _SCOPES):
        scope = above[scope]
    nodes = list(ast.walk(scope))
    names = [node for node in nodes if isinstance(node, ast.Name) and node.id == target.id]
    if sum(isinstance(node.ctx, ast.Store) for node in names) == 1:
        for node in nodes:
            if isinstance(node, ast.Call) and not set(names).isdisjoint(node.args):
                yield node.func


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))
