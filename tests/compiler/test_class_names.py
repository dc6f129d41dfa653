"""Each class name has one meaning in the compiler."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import fungrad

ROOT = Path(fungrad.__file__).parent
FOLDERS = ("compiler", "control_flow", "ir", "retracing", "runtime", "source_export")
PROTOCOLS = {"Rows", "Writer"}
"""Interfaces with the name of the class that has them."""


def test_no_two_classes_have_one_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(path.relative_to(ROOT)))
    assert len(found) > 100
    repeated = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert set(repeated) == PROTOCOLS, repeated
