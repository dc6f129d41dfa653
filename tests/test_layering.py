"""The folders stand in one order, and what a module loads stands below it: proven from the source,
names of modules in strings included, and by importing each folder alone.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fungrad

ROOT = Path(fungrad.__file__).parent

FOLDERS = (
    "errors",
    "support",
    "ir",
    "tracing",
    "runtime",
    "primitives",
    "transforms",
    "retracing",
    "control_flow",
    "linear_maps",
    "taylor",
    "custom_rules",
    "host",
    "debugging",
    "rematerialisation",
    "implicit",
    "rounding",
    "compiler.cost_model",
    "compiler.self_check",
    "compiler.passes",
    "compiler.lowering",
    "compiler.native",
    "compiler",
    "tree_util",
    "tree_parts",
    "numpy",
    "extend",
    "lax",
    "scipy",
    "interception",
    "config",
    "random",
    "nn",
    "optimizers",
    "fitting",
    "source_export",
    "inspect",
    "serialisation",
    "sparse",
    "dask",
    "engines",
    "testing",
    "data",
    "compat",
    "__init__",
    "demo",
    "cli",
    "__main__",
)
"""The folders and single files of the package: each may load those before it, and itself."""


def modules() -> dict[str, Path]:
    """Every module of the package, by its dotted name below `fungrad`."""
    result = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] == "__init__" and len(parts) > 1:
            parts = parts[:-1]
        result[".".join(parts)] = path
    return result


MODULES = modules()


class Statements(ast.NodeVisitor):
    """What the tests ask a module for, in one walk of its tree."""

    def __init__(self, tree: ast.Module) -> None:
        self.docstring = ast.get_docstring(tree)
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.in_functions: list[ast.Import | ast.ImportFrom] = []
        self.strings: list[ast.Constant] = []
        self.names: list[tuple[int, str]] = []
        self.implemented: list[str] = []
        self.depth = 0
        self.visit(tree)

    def visit_imports(self, node: ast.Import | ast.ImportFrom) -> None:
        self.imports.append(node)
        if self.depth:
            self.in_functions.append(node)

    visit_Import = visit_ImportFrom = visit_imports

    def visit_functions(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_functions

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring is no string of the program
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.strings.append(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.names.append((node.lineno, node.id))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.names.append((node.lineno, node.attr))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if getattr(node.func, "id", "") == "implements":
            self.implemented += map(ast.unparse, node.args)
        self.generic_visit(node)


@functools.cache
def statements(name: str) -> Statements:
    """Those of a module of the package."""
    return Statements(ast.parse(MODULES[name].read_text(encoding="utf-8")))


def folder_of(name: str) -> str:
    """The entry of FOLDERS that a module belongs to: the longest that begins its name."""
    parts = name.split(".")
    names = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next(found for found in names if found in FOLDERS)


def height(name: str) -> int:
    return FOLDERS.index(folder_of(name))


def module_of(full: str) -> str:
    """The module that a dotted name begins with, below `fungrad`."""
    below = full.split(".")[1:]
    while below and ".".join(below) not in MODULES:
        below = below[:-1]
    return ".".join(below) or "__init__"


def imported_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The full names that an import statement asks fungrad for."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        assert node.level == 0, "imports are absolute"
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in names if name.split(".")[0] == "fungrad"]


def loads(found: Statements) -> list[tuple[int, str]]:
    """The imports of a module with their lines: anywhere in it, under TYPE_CHECKING and in
    functions too, and by strings that are the name of a module or the beginning of one.
    """
    lines = [
        (node.lineno, module_of(full)) for node in found.imports for full in imported_names(node)
    ]
    for node in found.strings:
        if node.value.startswith("fungrad.") and " " not in node.value:
            target = module_of(node.value.rstrip("."))
            if target != "__init__":
                lines.append((node.lineno, target))
    return lines


def rising(name: str, found: Statements) -> list[str]:
    """The lines of a module that import from above it."""
    return [
        f"{name}, line {line}, loads {target}"
        for line, target in loads(found)
        if height(target) > height(name)
    ]


def test_every_module_stands_in_a_folder():
    assert {folder_of(name) for name in MODULES} == set(FOLDERS)


def test_modules_load_what_stands_below():
    assert [line for name in MODULES for line in rising(name, statements(name))] == []


@pytest.mark.parametrize(
    "text",
    [
        "from fungrad.compiler.jit import jit",
        "def f():\n    import fungrad.compiler.jit",
        "import importlib\ndef f():\n    return importlib.import_module('fungrad.compiler.jit')",
        "import importlib\ndef f(x):\n    return importlib.import_module(f'fungrad.scipy.{x}')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fungrad.lax import scan",
        "RULES = {'fungrad.compiler.jit': 1}",
    ],
)
def test_the_test_sees_what_rises(text):
    assert len(rising("tracing.graph_trace", Statements(ast.parse(text)))) == 1


def hidden(name: str, found: Statements) -> list[str]:
    """The lines in functions of a module that import from fungrad."""
    return [f"{name}, line {node.lineno}" for node in found.in_functions if imported_names(node)]


def test_no_import_of_ours_hides_in_a_function():
    text = "def f():\n    return lambda: g\n    def g():\n        from fungrad.lax import scan"
    assert len(hidden("tracing", Statements(ast.parse(text)))) == 1
    assert [line for name in MODULES for line in hidden(name, statements(name))] == []


def test_there_are_no_cycles():
    state: dict[str, str] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert state.get(name) != "open", " -> ".join((*path, name))
        if name in state:
            return
        state[name] = "open"
        for node in statements(name).imports:
            for full in imported_names(node):
                imported = module_of(full)
                if imported != name and not name.startswith(imported + "."):
                    visit(imported, (*path, name))
        state[name] = "done"

    for name in MODULES:
        visit(name, ())
    assert set(state) == set(MODULES)


UPWARDS = """
import importlib, json, sys, types
package = sys.modules["fungrad"] = types.ModuleType("fungrad")
package.__path__ = [{root!r}]
loaded, before = {{}}, set()
for folder, names in json.loads(sys.stdin.read()):
    for name in names:
        importlib.import_module("fungrad." + name)
    now = {{name for name in sys.modules if name.startswith("fungrad.")}}
    loaded[folder], before = sorted(now - before), now
print(json.dumps(loaded))
"""
"""Imports the modules of one folder after another, the lowest first, without the package's own
__init__, which loads all that a user needs: what each loads that those below it have not.
"""


def test_each_folder_loads_nothing_from_above():
    folders = {}
    for name in MODULES:
        folder = folder_of(name)
        missing = folder in NEEDS and importlib.util.find_spec(NEEDS[folder]) is None
        if folder not in ("__init__", "__main__") and not missing and name[:11] != "engines.jax":
            folders.setdefault(folder, []).append(name)
    assert len(folders) > 30
    code = UPWARDS.format(root=str(ROOT))
    given = json.dumps(sorted(folders.items(), key=lambda item: height(item[0])))
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for folder, names in json.loads(done.stdout).items():
        above = [m for m in map(module_of, names) if height(m) > height(folder)]
        around = [m for m in above if folder.startswith(f"{m}.")]  # the packages that it is in
        assert above == around, folder


NEEDS = {"scipy": "scipy", "dask": "dask", "testing": "hypothesis", "sparse": "scipy"}
"""The libraries that a folder imports with its own modules."""


EXTRAS = {"compiler.native.machine_code": {"llvmlite"}}
"""The places where the core imports the package of an extra, at first use."""


def test_the_core_knows_only_numpy_and_the_standard_library():
    allowed = {"numpy", "fungrad"}
    for name in MODULES:
        if height(name) > FOLDERS.index("interception"):
            continue
        for node in statements(name).imports:
            if isinstance(node, ast.Import):
                roots = {alias.name.split(".")[0] for alias in node.names}
            else:
                roots = {(node.module or "").split(".")[0]}
            foreign = roots - allowed - sys.stdlib_module_names - EXTRAS.get(name, set())
            assert not foreign, f"{name} imports {foreign}"


def test_every_file_says_what_it_is():
    for name in MODULES:
        assert statements(name).docstring, f"{name} has no docstring"


def test_no_function_of_numpy_is_implemented_twice():
    seen: dict[str, str] = {}
    for name in MODULES:
        for text in statements(name).implemented:
            assert text not in seen, f"{text} is implemented in {seen[text]} and {name}"
            seen[text] = name
    assert len(seen) > 200


def test_no_primitive_is_a_special_case_of_a_transform():
    # stop_gradient is complete in its own file: transforms and lower folders do not name it.
    for name in MODULES:
        if height(name) <= FOLDERS.index("transforms") and name != "primitives.stop_gradient":
            for line, text in statements(name).names:
                assert "stop_gradient" not in text, f"{name}, line {line}"
