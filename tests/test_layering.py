"""Imports only point down, none hide in functions, and there are no cycles: proven from the
source.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import fungrad

ROOT = Path(fungrad.__file__).parent

# The floors, lowest first. The longest matching name counts; every module has to stand on one.
FLOORS = (
    ("errors", "support"),
    ("ir",),
    ("tracing",),
    ("runtime",),
    ("primitives",),
    ("transforms",),
    ("retracing",),
    ("control_flow",),
    ("linear_maps",),
    ("taylor", "custom_rules", "rematerialisation", "host", "implicit", "debugging"),
    ("compiler",),
    (
        "numpy",
        "scipy",
        "nn",
        "random",
        "lax",
        "extend",
        "compat",
        "config",
        "tree_util",
        "tree_parts",
    ),
    ("source_export", "inspect", "serialisation"),
    ("testing", "data", "sparse", "dask", "engines"),
    ("__init__",),
    ("demo",),
    ("cli", "__main__"),
)
HEIGHT = {name: height for height, names in enumerate(FLOORS) for name in names}


def modules() -> dict[str, ast.Module]:
    """Every module of the package, by its dotted name below `fungrad`."""
    result = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] == "__init__" and len(parts) > 1:
            parts = parts[:-1]
        result[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return result


MODULES = modules()


def package_import(node: ast.AST) -> list[str]:
    """The modules of fungrad that an import statement loads, by their names below `fungrad`."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return []
    result = []
    for name in names:
        if name.split(".")[0] != "fungrad":
            continue
        below = name.split(".")[1:]
        while below and ".".join(below) not in MODULES:
            below = below[:-1]
        result.append(".".join(below) or "__init__")
    return result


def only_for_types(tree: ast.Module) -> set[ast.AST]:
    """The nodes under `if TYPE_CHECKING:`."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for part in node.body
        for inner in ast.walk(part)
    }


def imports_of(name: str) -> list[str]:
    tree = MODULES[name]
    ignored = only_for_types(tree)
    return [m for node in ast.walk(tree) if node not in ignored for m in package_import(node)]


def floor_of(name: str) -> int:
    return HEIGHT[name.split(".")[0]]


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_down(name):
    for imported in imports_of(name):
        assert floor_of(imported) <= floor_of(name), f"{name} imports {imported}, a floor above it"


def test_what_is_imported_later_is_there_and_below():
    named = [
        (name, inner.value.removeprefix("fungrad."))
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("ByPrimitive", "Module", "_of")
        for inner in ast.walk(node)
        if isinstance(inner, ast.Constant)
        if isinstance(inner.value, str) and inner.value.startswith("fungrad.")
    ]
    assert len(named) >= 10
    for name, later in named:
        assert later in MODULES and floor_of(later) <= floor_of(name), f"{name} names {later}"


@pytest.mark.parametrize("name", MODULES)
def test_no_import_of_ours_hides_in_a_function(name):
    for node in ast.walk(MODULES[name]):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            hidden = [m for inner in ast.walk(node) for m in package_import(inner)]
            assert hidden == [], f"{name}, line {node.lineno}"


def test_there_are_no_cycles():
    state: dict[str, str] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert state.get(name) != "open", " -> ".join((*path, name))
        if name in state:
            return
        state[name] = "open"
        for imported in imports_of(name):
            if imported != name and not name.startswith(imported + "."):
                visit(imported, (*path, name))
        state[name] = "done"

    for name in MODULES:
        visit(name, ())
    assert set(state) == set(MODULES)


def test_the_ground_floors_know_only_numpy_and_the_standard_library():
    allowed = {"numpy", "fungrad"}
    for name, tree in MODULES.items():
        if floor_of(name) > HEIGHT["numpy"]:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                roots = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                roots = {(node.module or "").split(".")[0]}
            else:
                continue
            foreign = roots - allowed - sys.stdlib_module_names
            assert not foreign, f"{name} imports {foreign}"


def test_every_file_says_what_it_is():
    for name, tree in MODULES.items():
        assert ast.get_docstring(tree), f"{name} has no docstring"


def test_no_function_of_numpy_is_implemented_twice():
    seen: dict[str, str] = {}
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "implements":
                for argument in node.args:
                    text = ast.unparse(argument)
                    assert text not in seen, f"{text} is implemented in {seen[text]} and {name}"
                    seen[text] = name
    assert len(seen) > 200


def test_no_primitive_is_a_special_case_of_a_transform():
    # stop_gradient is whole in its own file: the transforms and what they stand on do not name it.
    for name, tree in MODULES.items():
        if floor_of(name) <= HEIGHT["transforms"] and name != "primitives.stop_gradient":
            for node in ast.walk(tree):
                if isinstance(node, (ast.Name, ast.Attribute)):
                    text = node.id if isinstance(node, ast.Name) else node.attr
                    assert "stop_gradient" not in text, f"{name}, line {node.lineno}"
