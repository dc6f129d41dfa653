"""Facts about primitives are declared with them or entered one by one: tables are few."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fungrad as fg
from fungrad.primitives.primitive import Primitive
from fungrad.support.lazy import imported

ROOT = Path(fg.__file__).parent
FOLDERS = (
    "compiler", "control_flow", "inspect", "linear_maps", "retracing", "serialisation", "slowness",
    "source_export", "sparse", "testing",
)  # fmt: skip
MOST = 10


def elements(node: ast.AST) -> list[Any]:
    """The keys of a dict, and the elements of a set or of `dict.fromkeys`."""
    if isinstance(node, ast.Dict):
        return node.keys
    if isinstance(node, ast.Set):
        return node.elts
    if not isinstance(node, ast.Call) or not node.args:
        return []
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    known = name in ("frozenset", "set", "fromkeys")
    return getattr(node.args[0], "elts", []) if known else []


def tables() -> Iterator[str]:
    """The literals that hold three primitives or more."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = ("fungrad", *path.relative_to(ROOT).with_suffix("").parts)
            names = vars(imported(".".join(parts).removesuffix(".__init__")))
            for node in ast.walk(ast.parse(path.read_text())):
                found = []
                for key in elements(node):
                    if isinstance(key, ast.Name):
                        found.append(names.get(key.id))
                    elif isinstance(key, ast.Attribute) and isinstance(key.value, ast.Name):
                        found.append(getattr(names.get(key.value.id), key.attr, None))
                if sum(isinstance(one, Primitive) for one in found) >= 3:
                    yield f"{path.relative_to(ROOT)}, line {node.lineno}"


def test_tables_of_primitives_outside_of_their_declarations_are_few() -> None:
    found = list(tables())
    assert len(found) <= MOST, "\n".join(found)
