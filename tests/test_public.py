"""The public names: what `import fungrad` offers is there, typed, and what comes later comes by
itself.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fungrad as fg


def type_checked_names():
    tree = ast.parse(Path(fg.__file__).read_text(encoding="utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.If)]
    (block,) = [node for node in found if ast.unparse(node.test) == "TYPE_CHECKING"]
    return {
        alias.asname: (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_what_is_imported_later_is_what_type_checkers_see():
    names = type_checked_names()
    assert set(names) == set(fg._LATER)
    for name, (module, attribute) in names.items():
        found = getattr(fg, name)
        home = importlib.import_module(module)
        expected = getattr(home, attribute, None) or sys.modules[f"{module}.{attribute}"]
        assert found is expected, name
    assert set(names) <= set(dir(fg))


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'gradient'"):
        fg.gradient  # noqa: B018 - the access is what is tested


@pytest.mark.slow
def test_import_loads_no_more_than_it_has_to():
    code = (
        "import sys, fungrad, numpy; "
        "fungrad.grad(lambda x: numpy.sum(numpy.sin(x) * x[0]))(numpy.ones(2)); "
        "print(*(m for m in ('fungrad.taylor.taylor_trace', 'fungrad.numpy.linalg', "
        "'fungrad.numpy.lazy_functions', 'fungrad.lax', 'fungrad.transforms.jacobian', 'difflib', "
        "'dataclasses', 'hypothesis', 'fungrad.numpy.padding', 'fungrad.compiler.passes.pipeline', "
        "'fungrad.compiler.passes.simplify.driver', "
        "'fungrad.compiler.numpy_backend.backend', 'fungrad.runtime.blas_threads', "
        "'rich', 'scipy', 'fungrad.testing') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


FRESH = (
    "import sys, numpy as np, fungrad as fg; names = [n for n in sys.modules if 'fungrad' in n]; "
)


@pytest.mark.parametrize(
    "code",
    [
        "assert not [n for n in names if 'fungrad.numpy' in n or 'fungrad.compiler' in n]",
        "assert fg.stop_gradient(np.ones(2)).tolist() == [1.0, 1.0]",
        "with fg.no_gradient(): fg.grad(lambda x: np.sin(x) * x)(1.0)",
        "assert fg.vmap(lambda x: x.sum())(np.ones((2, 3))).tolist() == [3.0, 3.0]",
        "fg.config.intercept = False; assert fg.grad(lambda x: np.sin(x) + x)(0.0) == 2.0",
        "from fungrad import *; assert callable(jit) and callable(vmap) and callable(grad)",
    ],
)
def test_numpy_s_functions_come_with_the_first_trace(code):
    subprocess.run([sys.executable, "-c", f"{FRESH}\n{code}"], check=True)


FIRST = """
import importlib.util, numpy as np, fungrad as fg, sys
for size in (3, 1_000_000):
    fg.jit(fg.grad(lambda x: np.sum(np.exp(x[1:]) * x[:-1])))(np.ones(size))
for name in ("control_flow.while_loop", "control_flow.scan", "compiler.passes.loops.dce_licm",
             "compiler.passes.jacobian_sparsity", "compiler.numpy_backend.array_control_flow",
             "compiler.scalar.control_flow_rules", "primitives.linalg.lapack_calls"):
    name = f"fungrad.{name}"
    assert importlib.util.find_spec(name) and name not in sys.modules, name
"""


@pytest.mark.slow
@pytest.mark.numpy_backend  # of NumPy's programs
def test_a_first_gradient_imports_nothing_of_loops_diagonals_and_lapack():
    subprocess.run([sys.executable, "-c", FIRST], check=True)


LATER = """
import numpy as np, fungrad as fg, sys
from fungrad import lax
assert not {'fungrad.numpy.lazy_functions', 'fungrad.lax.lazy_functions'} & set(sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "assert fg.grad(lambda x: np.einsum('i,i->', x, x))(np.ones(2)).tolist() == [2.0, 2.0]",
        "assert fg.numpy.einsum('i->', np.ones(2)) == 2.0 and fg.numpy.float64 is np.float64",
        "from fungrad.numpy import median, einsum; assert callable(einsum)",
        "assert {'einsum', 'nanmean', 'sin'} <= set(dir(fg.numpy))",
        "assert lax.add(1.0, 2.0) == 3.0 and not hasattr(lax, 'no_such')",
        "from fungrad.lax import dynamic_slice, scan; assert callable(dynamic_slice)",
        "from fungrad.lax import *; from fungrad.numpy import *; assert callable(add) and einsum",
        "assert {'add', 'select', 'scan', 'erf', 'linalg'} <= set(dir(lax))",
    ],
)
def test_what_few_programs_ask_for_is_imported_then(code):
    subprocess.run([sys.executable, "-c", LATER + code], check=True)


def test_help_lists_the_parameters_of_grad():
    for name in inspect.signature(fg.grad).parameters:
        assert f"\n      {name}: " in fg.grad.__doc__ or f"\n  {name}: " in inspect.getdoc(fg.grad)


def test_dir_has_public_names_alone():
    names = set(dir(fg))
    assert {"grad", "jit", "numpy", "errors", "Graph", "why", "lax", "__version__"} <= names
    extra = names - set(type_checked_names()) - set(eager_names())
    assert {name for name in extra if not name.startswith("__")} == set()


def eager_names():
    tree = ast.parse(Path(fg.__file__).read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return [a.asname for node in imports for a in node.names if a.asname and a.asname[0] != "_"]


def test_modules_that_a_star_imports_list_their_names():
    stars = {
        node.module
        for path in Path(fg.__file__).parent.rglob("*.py")
        if "import *" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
    }
    assert len(stars) > 20
    for name in stars | {"fungrad.extend", "fungrad.nn.initializers"}:
        listed = "__all__" in vars(importlib.import_module(name))
        assert listed or name.endswith("lazy_functions"), name  # which only gathers names


INSIDE = {
    "errors.md": {"ir.graph"},  # a Graph that is not well formed, made by hand
    "extending.md": {"compiler.numpy_backend.backend", "control_flow"},  # a backend of one's own
}
"""The pages that show what is not public, and what they import."""


def test_guides_import_public_modules_alone():
    root = Path(__file__).parents[1]
    made = (root / "docs" / "extensions" / "generated.py").read_text(encoding="utf-8")
    listed = [
        node.value
        for node in ast.parse(made).body
        if isinstance(node, ast.Assign | ast.AugAssign) and "WHOLE" in ast.unparse(node)
    ]
    public = {"", "numpy", *[name for node in listed for name in ast.literal_eval(node)]}
    assert {"lax", "config", "data"} <= public
    pages = [*(root / "docs").rglob("*.md"), root / "README.md", *root.glob("notebooks/*.ipynb")]
    found = set()
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"(?:from|import) fungrad\.?([a-z_.]*)", text):
            found.add(name)
            outside = name.partition(".")[0] in ("interop", "compat", "scipy")
            assert outside or name in public | INSIDE.get(page.name, set()), (page.name, name)
    assert len(found) > 15
