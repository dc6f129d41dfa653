"""The folders stand in one order, and what a module loads stands below it: proven from the source,
names of modules in strings included, and by importing each folder alone.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Set
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
    "compiler.refusal",
    "compiler.self_check",
    "compiler.background",
    "compiler.passes",
    "compiler.loop_ir",
    "compiler.scalar",
    "compiler.numpy_backend",
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
    "slowness",
    "dask",
    "engines",
    "interop",
    "testing",
    "data",
    "graph_methods",
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
        self.asked: list[tuple[int, str]] = []
        self.imported: list[str] = []
        self.called: set[str] = set()
        self.compared: set[int] = set()
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
        self.called |= {n.id for n in (node.func, *node.args) if isinstance(n, ast.Name)}
        called = getattr(node.func, "id", "").lstrip("_")
        if called == "implements":
            self.implemented += map(ast.unparse, node.args)
        if called in BY_NAME and node.args:
            self.asked.append((node.lineno, beginning(node.args[0])))
            if called != "loaded":
                self.imported.append(self.asked[-1][1])
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if getattr(node.value, "id", "").lstrip("_") == "modules":
            self.asked.append((node.lineno, beginning(node.slice)))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self.compared.update(map(id, (node.left, *node.comparators)))
        self.generic_visit(node)


BY_NAME = ("imported", "loaded", "find_spec", "Module", "scipy_module", "package")
"""The functions that take the name of a module: of support/lazy.py, scipy/optional.py and
interop/packages.py.
"""


def beginning(node: ast.expr) -> str:
    """The text that the value of an expression is known to begin with."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr) and node.values:
        return beginning(node.values[0])
    if isinstance(node, ast.BinOp):
        return beginning(node.left)
    return ""


@functools.cache
def source(name: str) -> str:
    """The text of a module of the package."""
    return MODULES[name].read_text(encoding="utf-8")


@functools.cache
def tree(name: str) -> ast.Module:
    """The tree of a module of the package."""
    return ast.parse(source(name))


@functools.cache
def statements(name: str) -> Statements:
    """Those of a module of the package."""
    return Statements(tree(name))


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
    asked = [(line, text) for line, text in found.asked if text.split(".")[0] == "fungrad"]
    strings = [
        (node.lineno, node.value)
        for node in found.strings
        if id(node) not in found.compared and node.value.startswith("fungrad.")
    ]
    for line, text in {*asked, *strings}:
        if " " not in text:
            target = module_of(text.rstrip("."))
            if target != "__init__" or (line, text) in asked:
                lines.append((line, target))
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
        "jit = imported('fungrad').jit",
        "jit = modules['fungrad'].jit",
        "jit = loaded('fungrad').jit",
        "jit = imported('fungrad' + '.compiler.jit').jit",
        "jit = lambda name: imported(f'fungrad.{name}')",
        "backend = Module('fungrad.compiler.jit')",
    ],
)
def test_the_test_sees_what_rises(text):
    assert len(rising("tracing.graph_trace", Statements(ast.parse(text)))) == 1


def unseen(found: Statements) -> list[str]:
    """The lines of a module that could import in a way that the tests do not read: those of
    support/lazy.py do, which take full names.
    """
    lines = [
        f"line {node.lineno} imports {name}"
        for node in found.imports
        for name in roots_of(node)
        if name == "importlib" and ast.unparse(node) not in HARMLESS
    ]
    lines += [f"line {line} names {text}" for line, text in found.names if text in IMPORTERS]
    lines += [
        f"line {line} asks for {text!r}"
        for line, text in found.asked
        if text.startswith(".") or (text + ".").startswith("importlib.")
    ]
    return lines


def roots_of(node: ast.Import | ast.ImportFrom) -> set[str]:
    """The packages that an import statement asks for."""
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    return {(node.module or "").split(".")[0]}


IMPORTERS = ("import_module", "__import__", "importlib")
HARMLESS = (
    "from importlib import resources",
    "from importlib.resources import files",
    "from importlib.machinery import ModuleSpec",
)


def test_modules_are_imported_by_name_in_one_place():
    for name in MODULES:
        if name != "support.lazy":
            assert unseen(statements(name)) == [], name
            assert "sys.modules" not in source(name).replace("`sys.modules`", ""), name


@pytest.mark.parametrize(
    "text",
    [
        "import importlib",
        "import importlib.util as util",
        "from importlib import import_module",
        "__import__('fungrad.compiler.jit')",
        "load = builtins.__import__",
        "imported('..compiler.jit')",
        "imported('importlib').import_module(name)",
        "find_spec('.jit')",
    ],
)
def test_the_test_sees_what_imports_elsewhere(text):
    assert unseen(Statements(ast.parse(text)))


def hidden(name: str, found: Statements) -> list[str]:
    """The lines in functions of a module that import from fungrad."""
    return [f"{name}, line {node.lineno}" for node in found.in_functions if imported_names(node)]


def test_no_import_of_ours_hides_in_a_function():
    text = "def f():\n    return lambda: g\n    def g():\n        from fungrad.lax import scan"
    assert len(hidden("tracing", Statements(ast.parse(text)))) == 1
    assert [line for name in MODULES for line in hidden(name, statements(name))] == []


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """The modules of a cycle, if there is one; a module may load the packages that it is in."""
    done: dict[str, bool] = {}

    def visit(name: str, path: list[str]) -> list[str]:
        if done.get(name) is False:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        done[name] = False
        for target in sorted(graph[name]):
            if target != name and not name.startswith(target + "."):
                found = visit(target, [*path, name])
                if found:
                    return found
        done[name] = True
        return []

    return next(filter(None, (visit(name, []) for name in graph)), [])


def test_there_are_no_cycles():
    # names of modules in strings are read as imports, too
    graph = {name: {target for _, target in loads(statements(name))} for name in MODULES}
    assert sum(map(len, graph.values())) > 1000
    assert cycle(graph) == []


def test_the_test_sees_cycles():
    late = Statements(ast.parse("later = Module('fungrad.tracing.trace')"))
    graph = {"ir.types": {target for _, target in loads(late)}, "tracing.trace": {"ir.types"}}
    assert cycle(graph) == ["ir.types", "tracing.trace", "ir.types"]
    assert cycle({**graph, "ir.types": set()}) == []


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
        needed = [NEEDS[part] for part in NEEDS if f"{name}.".startswith(f"{part}.")]
        missing = any(importlib.util.find_spec(package) is None for package in needed)
        if folder not in ("__init__", "__main__") and not missing:
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


NEEDS = {
    "scipy": "scipy",
    "dask": "dask",
    "testing": "hypothesis",
    "sparse": "scipy",
    "engines.jax": "jax",
    "engines.torch": "torch",
    "interop.casadi": "casadi",
    "interop.iminuit": "iminuit",
    "interop.lmfit": "lmfit",
    "interop.openmdao": "openmdao",
    "interop.pytensor": "pytensor",
}
"""The libraries that the modules of a folder, or one module, import with themselves."""


EXTRAS = {
    "runtime": {"threadpoolctl"},
    "compiler": {"llvmlite"},
    "compiler.native": {"llvmlite"},
    "scipy": {"scipy"},
    "inspect": {"rich", "grandalf", "mpmath", "matplotlib"},
    "fitting": {"matplotlib", "scipy"},
    "serialisation": {"scipy"},
    "sparse": {"scipy"},
    "dask": {"dask", "distributed"},
    "engines": {"jax", "torch"},
    "interop": {"astropy", "casadi", "iminuit", "lmfit", "nutpie", "openmdao", "pytensor", "scipy"},
    "testing": {"hypothesis"},
    "cli": {"rich", "matplotlib", "shtab"},
}
"""The packages, besides NumPy, that the modules of a folder import, at first use."""


def test_packages_are_imported_where_their_extra_is_used():
    used: dict[str, set[str]] = {}
    for name in MODULES:
        used.setdefault(folder_of(name), set()).update(foreign(name, statements(name)))
    assert {folder: names for folder, names in used.items() if names} == EXTRAS


@pytest.mark.parametrize(
    "text",
    [
        "import scipy.special",
        "def f():\n    from scipy.special import expit",
        "expit = imported('scipy.special').expit",
        "expit = scipy_module('scipy.special').expit",
        "special = Module('scipy.special')",
    ],
)
def test_the_test_sees_packages(text):
    assert foreign("nn.layers", Statements(ast.parse(text))) == {"scipy"}


def foreign(name: str, found: Statements) -> set[str]:
    """The packages that a module asks for, by strings too, besides NumPy and the standard ones."""
    roots = {root for node in found.imports for root in roots_of(node)}
    roots |= {text.split(".")[0] for text in found.imported}
    return {r for r in roots - {"numpy", "fungrad", ""} if r not in sys.stdlib_module_names}


def test_every_file_says_what_it_is():
    for name in MODULES:
        assert statements(name).docstring, f"{name} has no docstring"
    for path in Path(__file__).parent.rglob("*.py"):
        assert path.read_text(encoding="utf-8").lstrip().startswith('"""'), path.name


def test_each_folder_has_one_folder_of_tests():
    """CONTRIBUTING.md's table has every folder of the package once, and every one of tests/."""
    tests = Path(__file__).parent
    page = (tests.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([a-z]+) \| ([a-z_, /]*)\|", page.partition("Where a test belongs")[2], re.M
    )
    ours = [name.strip() for _, names in rows for name in names.split(",") if name.strip()]
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert sorted(n for n in ours if "/" not in n) == sorted(folders)
    tested = {path.parent.name for path in tests.glob("*/*.py")} - {"support"}
    assert {name for name, _ in rows} - {"tests"} == tested
    assert not {p.name for p in tests.glob("test_*.py")} - {f"test_{n}.py" for n in WHOLE}


WHOLE = ("layering", "public", "types")


def test_no_function_of_numpy_is_implemented_twice():
    seen: dict[str, str] = {}
    for name in MODULES:
        for text in statements(name).implemented:
            assert text not in seen, f"{text} is implemented in {seen[text]} and {name}"
            seen[text] = name
    assert len(seen) > 200


BY_ID = {
    "compiler.captured_state", "compiler.jit", "compiler.numpy_backend.array_lowering",
    "compiler.loop_ir.printer",
    "compiler.scalar.scalarise", "compiler.native.symbols",
    "compiler.passes.loops.traced_loops", "engines.torch", "host.opaque_calls", "interop.lmfit",
    "ir.type_inference", "numpy.mutation.memory", "primitives.stop_gradient", "retracing.inlining",
    "source_export.expressions", "source_export.inlined_functions", "taylor.taylor_trace",
    "transforms.arguments", "transforms.engine.reverse",
}  # fmt: skip
"""Modules outside of tracing that know arrays, types and functions of users by their ids."""


def test_what_graphs_hold_is_a_key_itself():
    """Variables, equations and Graphs are hashed by identity; a key by `id` could outlive them."""
    found = {
        name
        for name in MODULES
        if not name.startswith("tracing.") and "id" in statements(name).called
    }
    assert found <= BY_ID, sorted(found - BY_ID)
    assert found == BY_ID, sorted(BY_ID - found)


NAMESPACES = ("__dict__", "__globals__", "f_globals", "f_locals")
WORDS = (*NAMESPACES, "vars", "modules")
"""A file without any of them has no namespace."""
AT_ONCE = ("list", "set", "tuple")
"""Calls that read keys or values with no other thread in between; items they put into tuples."""


def _is_namespace(node: ast.AST, names: Set[str]) -> bool:
    """Whether an expression is a namespace of a module, a class, an object or a frame."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "vars" or "'__dict__'" in map(ast.unparse, node.args)
    if isinstance(node, ast.Attribute):
        return node.attr in NAMESPACES
    return isinstance(node, ast.Name) and node.id in names


class Loops(ast.NodeVisitor):
    """The lines that loop over a namespace itself, which other threads may change meanwhile."""

    def __init__(self, source: ast.Module) -> None:
        self.found: list[str] = []
        self.names: set[str] = set()
        """Variables of the function that hold namespaces."""
        self.at_once: set[int] = set()
        self.visit(source)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.names |= {"modules"} & {alias.name for alias in node.names}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before = self.names
        self.names = before | {
            ast.unparse(target)
            for inner in ast.walk(node)
            if isinstance(inner, ast.Assign) and _is_namespace(inner.value, set())
            for target in inner.targets
        }
        self.generic_visit(node)
        self.names = before

    def visit_Starred(self, node: ast.Starred) -> None:
        self.at_once.add(id(node.value))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:  # names & space.keys()
        self.at_once |= {id(node.left), id(node.right)}
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if getattr(node.func, "id", "") in AT_ONCE:
            self.at_once.update(map(id, node.args))
        if isinstance(node.func, ast.Attribute):
            way = node.func.attr
            if way == "items" or (way in ("keys", "values") and id(node) not in self.at_once):
                self.note(node.func.value)
        self.generic_visit(node)

    def visit_loops(self, node: ast.For | ast.comprehension) -> None:
        self.note(node.iter)
        self.generic_visit(node)

    visit_For = visit_comprehension = visit_loops

    def note(self, looped: ast.expr) -> None:
        if _is_namespace(looped, self.names):
            self.found.append(f"line {looped.lineno} loops over {ast.unparse(looped)}")


@pytest.mark.parametrize(
    "text",
    [
        "found = [k for k, v in vars(module).items() if f(v)]",
        "found = list(vars(module).items())",
        "found = any(map(f, value.__dict__.values()))",
        "def f(base):\n    own = vars(base)\n    return [n for n in own if n]",
        "def f(x):\n    own = getattr(x, '__dict__', {})\n    for k, v in own.items(): g(k)",
        "from fungrad.support.lazy import modules\nfor name in modules: load(name)",
    ],
)
def test_the_test_sees_loops_over_namespaces(text):
    assert len(Loops(ast.parse(text)).found) == 1


def test_namespaces_are_read_at_once():
    """Other threads import modules: `support.snapshots`."""
    some = [name for name in MODULES if any(word in source(name) for word in WORDS)]
    assert len(some) > 50
    assert [(name, line) for name in some for line in Loops(tree(name)).found] == []


def test_no_primitive_is_a_special_case_of_a_transform():
    # stop_gradient is complete in its own file: transforms and lower folders do not name it.
    for name in MODULES:
        if height(name) <= FOLDERS.index("transforms") and name != "primitives.stop_gradient":
            for line, text in statements(name).names:
                assert "stop_gradient" not in text, f"{name}, line {line}"


CALLS = """
import sys
import numpy as np
import fungrad as fg
fg.config.backend = {backend!r}
def f(x):
    return np.sum(np.sin(x) * x)
def other(x):
    return np.sum(np.cos(x) * x)
x, files = np.array([0.1, 0.2, 0.3]), []
def note(frame, event, arg):
    if event == "call" and "fungrad" in frame.f_code.co_filename:
        files.append(frame.f_code.co_filename)
for _ in range(2):
    {warm}
sys.setprofile(note)
{call}
sys.setprofile(None)
print(len(files), len(set(files)))
"""
"""Counts the calls, and the files that they are in, of a gradient of three primitives."""


def counted(backend, warm, call):
    """The numbers of calls and of files."""
    script = CALLS.format(backend=backend, warm=warm, call=call)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    calls, files = map(int, done.stdout.split())
    return calls, files


def test_an_eager_gradient_takes_a_short_way():
    calls, files = counted("auto", "fg.grad(f)(x)", "fg.grad(f)(x)")
    assert 0 < calls <= 90 and 0 < files <= 15


@pytest.mark.parametrize(("backend", "most"), [("numpy", 68), ("native", 79)])
def test_a_first_compiled_gradient_meets_no_part_that_it_does_not_use(backend, most):
    if backend == "native":
        pytest.importorskip("llvmlite")
    files = counted(backend, "fg.jit(fg.grad(other))(x)", "fg.jit(fg.grad(f))(x)")[1]
    assert 0 < files <= most
