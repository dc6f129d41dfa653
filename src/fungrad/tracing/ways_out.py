"""The ways out where a traced value meets code that cannot be traced, with the user's own names."""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import itertools
import linecache
import sys
import textwrap
from collections import ChainMap
from collections.abc import Mapping
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any


def expression_at(code: CodeType, instruction: int) -> ast.expr | None:
    """The expression in the source of a code that an instruction belongs to; None if it is no
    expression, or the source is not known.
    """
    span = next(itertools.islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    line, last, begin, end = span
    if line is None or last is None or begin is None or end is None:
        return None
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(line, last + 1)]
    if not all(lines):
        return None
    lines[-1] = lines[-1][:end]  # columns are of bytes
    lines[0] = lines[0][begin:]
    try:
        return ast.parse(textwrap.dedent(b"".join(lines).decode()).strip(), mode="eval").body
    except (SyntaxError, UnicodeDecodeError):
        return None


def call_at(code: CodeType, instruction: int) -> ast.Call | None:
    """The call at an instruction: see `expression_at`."""
    found = expression_at(code, instruction)
    return found if isinstance(found, ast.Call) else None


def names_given_at(code: CodeType, instruction: int) -> list[str]:
    """The names in the arguments of the call at an instruction."""
    call = call_at(code, instruction)
    given = [] if call is None else [*call.args, *[keyword.value for keyword in call.keywords]]
    return [node.id for part in given for node in ast.walk(part) if isinstance(node, ast.Name)]


@functools.lru_cache(maxsize=4096)
def looked_up_at(code: CodeType, instruction: int) -> ast.expr | None:
    """The set or dict of the look-up at an instruction, `table` of `table[x]`, `x in table` and
    `table.get(x)`; None if it is none.
    """
    found = expression_at(code, instruction)
    table: ast.expr | None = None
    if isinstance(found, ast.Compare) and isinstance(found.ops[0], (ast.In, ast.NotIn)):
        table = found.comparators[0]
    elif isinstance(found, ast.Subscript):
        table = found.value
    elif isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute):
        table = found.func.value if found.func.attr in ("get", "pop", "setdefault") else None
    keys = table.func if isinstance(table, ast.Call) else None
    return keys.value if isinstance(keys, ast.Attribute) and keys.attr == "keys" else table


def value_of(node: ast.expr | None, names: Mapping[str, Any]) -> Any:
    """The value of a name, of an attribute, or of a set or dict of constants; None for others."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = value_of(node.value, names)
        if isinstance(owner, ModuleType) and node.attr in vars(owner):
            return vars(owner)[node.attr]  # np.float64 itself, which is another where it is called
        return inspect.getattr_static(owner, node.attr, None)
    keys = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
    return frozenset(key.value for key in keys if isinstance(key, ast.Constant))


_FUNCTIONS = {
    "at": 2, "copyto": 2, "fill_diagonal": 2, "place": 3, "put": 3, "put_along_axis": 4,
    "putmask": 3,
}  # fmt: skip
"""Functions that write into their first argument, and how many arguments they need at least: a
method of the same name takes fewer.
"""


def name_of_written(code: CodeType, instruction: int) -> str:
    """The source of the array that an instruction writes into: `a` of `a[i] = x`, `a.fill(x)` and
    `np.copyto(a, x)`, `out` of a call with out=; "a" if it is not known.
    """
    found = expression_at(code, instruction)
    target: ast.expr | None = None
    if isinstance(found, ast.Subscript):
        target = found.value
    elif isinstance(found, ast.Call):
        outs = [keyword.value for keyword in found.keywords if keyword.arg == "out"]
        name = found.func.attr if isinstance(found.func, ast.Attribute) else ""
        if outs:
            target = outs[0]
        elif name in _FUNCTIONS and len(found.args) >= _FUNCTIONS[name]:
            target = found.args[0]
        elif isinstance(found.func, ast.Attribute) and name in ("fill", "itemset", "put"):
            target = found.func.value
    if isinstance(target, ast.Attribute) and target.attr == "flat":
        target = target.value
    return ast.unparse(target) if target is not None and _is_name(target) else "a"


def object_array_at(code: CodeType, instruction: int, values: Mapping[str, Any]) -> str:
    """The name of the array of objects whose method is called at an instruction; else empty."""
    call = call_at(code, instruction)
    target = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    held = values.get(target.id) if isinstance(target, ast.Name) else None
    kind = getattr(getattr(held, "dtype", None), "kind", "")
    return target.id if isinstance(target, ast.Name) and kind == "O" else ""


def _is_name(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _argument(call: ast.Call, values: Mapping[str, Any]) -> str:
    """The name of the first argument of a call, a traced one if there is one."""
    given = [*call.args, *[keyword.value for keyword in call.keywords]]
    names = [node.id for node in given if isinstance(node, ast.Name)]
    traced = [
        n for n in names if str(type(values.get(n)).__module__).startswith("fungrad.tracing.")
    ]
    return next(iter([*traced, *names]), "x")


def names_in(frame: FrameType) -> Mapping[str, Any]:
    """The values of all names in the code of a frame."""
    return ChainMap(frame.f_locals, frame.f_globals, frame.f_builtins)


def _gives_numbers(call: ast.Call, names: Mapping[str, Any]) -> bool:
    """Whether a call may be that of a function from arrays and numbers to such: it is not for one
    whose result is not used, classes, methods of traced values, functions of Python's library,
    which makes texts and bytes of numbers, and those that take functions, which may find traced
    values anywhere.
    """
    given = [*call.args, *[keyword.value for keyword in call.keywords]]
    if any(type(g) is ast.Lambda or isinstance(value_of(g, names), _FUNCTION) for g in given):
        return False
    root: ast.expr = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    function, held = value_of(call.func, names), value_of(root, names)
    of_traced = not isinstance(held, ModuleType) and str(type(held).__module__).startswith(
        "fungrad."
    )
    home = str(getattr(function, "__module__", "")).partition(".")[0]
    return not (
        isinstance(function, type)
        or of_traced
        or (isinstance(function, _FUNCTION) and home in sys.stdlib_module_names - {"__main__"})
    )


_FUNCTION = FunctionType, BuiltinFunctionType


def _function_of(code: CodeType) -> str:
    """The name of the function that a code belongs to, also as a loop in it; "f" if it has none."""
    named = [name for name in code.co_qualname.split(".") if name.isidentifier()]
    return named[-1] if named and code.co_name != "<lambda>" else "f"


def ways_out(code: CodeType | None, instruction: int, values: Mapping[str, Any]) -> str:
    """Text that names the ways out of an error.

    Args:
      code: the user's code that runs; None if it is not known.
      instruction: the index of its present instruction.
      values: by name: its local variables, then the others.
    """
    call = None if code is None else call_at(code, instruction)
    function, x = "f" if code is None else _function_of(code), "x"
    if call is not None and _is_name(call.func):
        x = _argument(call, values)
        if _gives_numbers(call, values) and not _is_dropped(code, instruction):
            function = ast.unparse(call.func)
    return _named(function, x)


def _is_dropped(code: CodeType | None, instruction: int) -> bool:
    """Whether the result of the call at an instruction is not used: it changes something."""
    steps = () if code is None else dis.get_instructions(code)
    return next((s.opname for s in steps if s.offset > instruction), "") == "POP_TOP"


def ways_out_of(code: CodeType) -> str:
    """As `ways_out`, of a package's function that is transformed itself, by its code."""
    return _named(_function_of(code), next(iter(code.co_varnames[: code.co_argcount]), "x"))


def _named(function: str, x: str) -> str:
    return (
        'Ways out: `with fg.opaque("differences"):` around the derivative computes it by '
        f"differences; `fg.external({function}, vjp=...)` in place of {function} has a derivative "
        f'of yours, or "differences"; `fg.stop_gradient({x})` for {x} where no derivative is '
        "wanted."
    )
