"""Pages that are made at each build: the API reference (api/), and the notebooks (notebooks/).

Public names are found by looking at the modules, so that a new one appears by itself, also where it
is imported late. Functions that mirror NumPy's or SciPy's are listed; all others are documented.
"""

from __future__ import annotations

import importlib
import inspect
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import scipy.special

import fungrad as fg
from fungrad.tracing.trace import registry

GROUPS = {
    "Derivatives": "grad value_and_grad vjp jvp linearize linear_transpose jacobian jacfwd jacrev "
    "hessian hvp gauss_newton_product elementwise_grad nth_derivative jet",
    "Stopping derivatives": "stop_gradient no_gradient ablate_stops",
    "Batching, compiling, the IR": "vmap jit make_jaxpr eval_shape evaluate check_graph Graph "
    "Type named_scope",
    "Rules of your own": "custom_vjp custom_jvp external pure_callback custom_root fixed_point "
    "custom_linear_solve",
    "Memory": "checkpoint remat checkpoint_name save_nothing save_everything save_dots save_names",
    "Looking into derivatives and programs": "why draw to_source profile",
    "Files": "export save load to_source",
    "Trees": "tree_map tree_map_with_path tree_flatten tree_flatten_with_path tree_unflatten "
    "tree_leaves tree_structure tree_reduce tree_all tree_transpose ravel_pytree partition combine "
    "Partial register_dataclass register_pytree_node register_pytree_node_class",
}
INNER = {"backend", "importlib", "inspect", "ir", "optimise", "primitives", "structural"}
INNER |= {"tracing", "transforms", "trees", "tree_parts", "cli", "demo", "data"}
WHOLE = (
    "lax",
    "lax.linalg",
    "nn",
    "nn.initializers",
    "random",
    "testing",
    "extend",
    "debug",
    "tree_util",
    "optimizers",
    "sparse",
    "dask",
)
WHOLE += ("config", "errors", "compat.tf", "data")
OWN = {"config", "errors"}
SEEN: set[int] = set()


def module_of(name: str) -> ModuleType | None:
    """A namespace of fungrad, or None where this version has none of that name."""
    found: Any = fg
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except ModuleNotFoundError:
                return None
    return found if isinstance(found, ModuleType) else importlib.import_module(f"fungrad.{name}")


def ours(value: Any) -> bool:
    """Whether fungrad made it, and it is neither a module nor a type of another library."""
    module = getattr(value, "__module__", None) or type(value).__module__
    return not isinstance(value, ModuleType) and str(module).split(".")[0] == "fungrad"


def public(module: ModuleType, own: bool = False) -> list[str]:
    """The public names of a namespace; only those that it defines itself, where `own`."""
    listed = getattr(module, "__all__", None)
    names = listed if listed is not None else [n for n in dir(module) if n[0] != "_"]
    values = {n: getattr(module, n) for n in names}
    return sorted(
        n
        for n, v in values.items()
        if ours(v) and callable(v) and (not own or v.__module__ == module.__name__)
    )


def directive(module: str, name: str, value: Any) -> list[str]:
    """What documents one name."""
    if inspect.isclass(value):
        kind, options = "class", ["   :members:"]
        if issubclass(value, BaseException):
            kind = "exception"
    elif inspect.isroutine(value):
        kind, options = "function", []
    else:
        kind, options = "data", ["   :no-value:"]
    if kind == "class" and id(value) in SEEN:  # its real name would be there twice
        options.append("   :no-index:")
    SEEN.add(id(value))
    return [f".. auto{kind}:: {module}.{name}", *options, ""]


def titled(title: str, mark: str = "=") -> list[str]:
    """A heading."""
    return [title, mark * len(title), ""]


def first_words(module: ModuleType) -> list[str]:
    """What a namespace says of itself, without the floor that it stands on."""
    said = (module.__doc__ or "").split("\n\n")[0]
    said = " ".join(said.split())
    head, _, rest = said.partition(": ")
    said = rest if head.startswith("Floor") else said
    if "." not in said.split(" ")[0]:  # not the name of a module
        said = said[:1].upper() + said[1:]
    return [said.replace("`", "``"), ""] if said else []


def columns(names: Iterable[str]) -> list[str]:
    """A compact list."""
    return [" · ".join(f"``{name}``" for name in sorted(names)), ""]


def top() -> list[str]:
    """The page of `fungrad` itself."""
    names = {n for n in dir(fg) if n[0] != "_" and n not in INNER}
    rest = {n for n in names if ours(getattr(fg, n)) and callable(getattr(fg, n))}
    lines = titled("fungrad")
    for title, listed in GROUPS.items():
        lines += titled(title, "-")
        for name in filter(rest.__contains__, listed.split()):
            lines += directive("fungrad", name, getattr(fg, name))
            rest.discard(name)
    if rest:
        lines += titled("Others", "-")
        for name in sorted(rest):
            lines += directive("fungrad", name, getattr(fg, name))
    return lines


def whole(name: str) -> list[str]:
    """A namespace whose functions are all documented."""
    module = module_of(name)
    if module is None:
        return []
    lines = titled(f"fungrad.{name}") + first_words(module)
    for item in public(module, own=name in OWN):
        lines += directive(f"fungrad.{name}", item, getattr(module, item))
    others = [
        n
        for n in dir(module)
        if n[0] != "_" and isinstance(getattr(module, n), numpy.ufunc) and hasattr(numpy, n)
    ]
    return lines + ([*titled("NumPy's", "-"), *columns(others)] if others else [])


def mirrors(of: ModuleType) -> list[str]:
    """The names of NumPy's, or SciPy's, functions that reach fungrad on traced values."""
    table = {**registry.functions, **registry.ufuncs}

    def known(value: Any) -> bool:
        return callable(value) and getattr(value, "__hash__", None) is not None and value in table

    return [n for n in dir(of) if n[0] != "_" and known(getattr(of, n))]


def numpy_page() -> list[str]:
    """fungrad.numpy: what is not NumPy's in full, and the names of the rest."""
    lines = [
        *titled("fungrad.numpy"),
        "Plain ``np.`` is all that code needs: these functions reach fungrad on traced values by",
        "NumPy's own protocols. ``fungrad.numpy`` has the same names, for code that names its",
        "namespace, and a few of its own. Which transforms each works under is measured in",
        ":doc:`../support-table`.",
        "",
    ]
    module = importlib.import_module("fungrad.numpy")
    own = [n for n in public(module) if not hasattr(numpy, n)]
    lines += titled("Not in NumPy", "-") if own else []
    for name in own:
        lines += directive("fungrad.numpy", name, getattr(module, name))
    for part in ("", ".linalg", ".fft"):
        importlib.import_module(f"fungrad.numpy{part}")
        target = importlib.import_module(f"numpy{part}")
        lines += titled(f"As numpy{part}", "-") + columns(mirrors(target))
    return lines


def scipy_page() -> list[str]:
    """fungrad.scipy: each namespace that there is, what mirrors SciPy's ufuncs as a list."""
    lines = titled("fungrad.scipy") + first_words(fg.scipy)
    for name in sorted(n for n in dir(fg.scipy) if n[0] != "_"):
        module = getattr(fg.scipy, name)
        if not isinstance(module, ModuleType) or not module.__name__.startswith("fungrad.scipy."):
            continue
        lines += titled(f"fungrad.scipy.{name}", "-") + first_words(module)
        if name == "special":
            lines += ["SciPy's own ufuncs, which take traced values:", ""]
            lines += columns(mirrors(scipy.special))
        listed = public(module, own=getattr(module, "__all__", None) is None)
        for item in listed:
            lines += directive(module.__name__, item, getattr(module, item))
    return lines


def write(path: Path, lines: list[str]) -> None:
    """Writes a page, if it has changed."""
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def reference(target: Path) -> None:
    """All pages of the reference."""
    target.mkdir(exist_ok=True)
    SEEN.clear()
    pages: dict[str, Callable[[], list[str]]] = {"fungrad": top}
    pages |= {"numpy": numpy_page, "scipy": scipy_page}
    pages |= {name: lambda name=name: whole(name) for name in WHOLE}
    made = {name: lines for name, make in pages.items() if (lines := make())}
    for name, lines in made.items():
        write(target / f"{name}.rst", lines)
    index = [
        *titled("API reference"),
        "Public are the names on these pages, the command line, and the modules of",
        "``fungrad.interop`` and ``fungrad.compat`` that the guides import. Every other module may",
        "change with any version.",
        "",
        "The pages are made from the docstrings, whose examples the tests run.",
        "",
        ".. toctree::",
        "   :maxdepth: 1",
        "",
        *[f"   {name}" for name in made],
    ]
    write(target / "index.rst", index)


def notebooks(source: Path, target: Path) -> None:
    """Copies of the notebooks, with the outputs that they hold, and the page that lists them."""
    target.mkdir(exist_ok=True)
    found = sorted(source.glob("*.ipynb"))
    for path in found:
        shutil.copyfile(path, target / path.name)
    write(
        target / "index.md",
        [
            (source / "README.md").read_text(encoding="utf-8"),
            "```{toctree}",
            ":hidden:",
            "",
            *[path.stem for path in found],
            "```",
        ],
    )


def make(app: Any) -> None:
    """What Sphinx calls before it looks for pages."""
    here = Path(app.srcdir)
    reference(here / "api")
    notebooks(here.parent / "notebooks", here / "notebooks")


def setup(app: Any) -> dict[str, Any]:
    """Has the pages made at the start of each build."""
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
