"""Measures which of NumPy's functions work on traced values, and writes docs/support-table.md.

    python docs/support_table.py            writes the table
    python docs/support_table.py --check    fails if the committed one differs

Nothing in the table is written by hand: each function is called as tests/surface_table.py says,
under each transform, and compared with NumPy, with a loop, and with finite differences.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from surface import inexact, same  # noqa: E402
from surface_linalg import EXCLUDED as OTHERS  # noqa: E402
from surface_linalg import NAMESPACES  # noqa: E402
from surface_table import CASES, EXCLUDED, Case, public  # noqa: E402

import fungrad as fg  # noqa: E402
from fungrad.support import pytree  # noqa: E402
from fungrad.testing import check_grads  # noqa: E402

HERE = Path(__file__).resolve().parent
TARGET = HERE / "support-table.md"
COLUMNS = ("value", "reverse and forward", "vmap", "jit", "dtypes")
DTYPES = ("f4", "f8", "c8", "c16")


def function_of(function: Callable[..., Any], case: Case) -> Callable[..., Any]:
    """The call as a function of arrays alone."""
    call = case.call
    return function if call is None else lambda *args: call(function, *args)


def check_eager(f: Callable[..., Any], case: Case, expected: Any) -> str:
    """NumPy's results under reverse and forward mode."""
    same(fg.vjp(f, *case.args)[0], expected, "under vjp")
    if inexact(case.args):
        moved = [np.ones_like(a) if np.asarray(a).dtype.kind in "fc" else None for a in case.args]
        same(fg.jvp(f, case.args, moved)[0], expected, "under jvp")
    return "yes"


def check_derivatives(f: Callable[..., Any], case: Case, expected: Any) -> str:
    """Derivatives of two orders in both modes, against finite differences."""
    if not case.order:
        return "zero"
    check_grads(f, case.args, order=case.order)
    return f"order {case.order}"


def check_vmap(f: Callable[..., Any], case: Case, expected: Any) -> str:
    """All examples at once, against a loop."""
    if not case.vmap:
        return "shape depends on values"
    batches = []
    for arg in map(np.asarray, case.args):
        other = arg * 1.1 if arg.dtype.kind == "f" else arg
        batches.append(np.stack([arg, other.astype(arg.dtype)]))
    rows = [pytree.leaves(f(*[b[i] for b in batches])) for i in range(2)]
    columns = [np.stack(column) for column in zip(*rows, strict=True)]
    same(pytree.leaves(fg.vmap(f)(*batches)), columns, "under vmap")
    return "yes"


def check_staged(f: Callable[..., Any], case: Case, expected: Any) -> str:
    """The Graph, evaluated and compiled, dtypes included."""
    if not case.staged:
        return "shape depends on values"
    graph = fg.make_jaxpr(f)(*case.args)
    fg.check_graph(graph)
    same(fg.evaluate(graph, *case.args), pytree.leaves(expected), "staged")
    same(fg.jit(f)(*case.args), expected, "compiled")
    return "yes"


def check_dtypes(f: Callable[..., Any], case: Case, expected: Any) -> str:
    """Results of the dtypes that NumPy gives, for each dtype of arguments that it takes."""
    found = []
    for name in DTYPES:
        args = [a.astype(name) if np.asarray(a).dtype.kind in "fc" else a for a in case.args]
        try:
            plain = f(*args)
        except (TypeError, ValueError):  # NumPy does not take it
            continue
        same(fg.vjp(f, *args)[0], plain, f"of {name}")
        found.append(name)
    return " ".join(found)


CHECKS = (check_eager, check_derivatives, check_vmap, check_staged, check_dtypes)


def measure(function: Callable[..., Any], case: Case) -> list[str]:
    """What each check says of a function; "no" where it does not hold."""
    f = function_of(function, case)
    row = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = f(*case.args)
        for check in CHECKS:
            try:
                row.append(check(f, case, expected))
            except Exception as error:  # the table says so, and the tests name the error
                row.append(f"no: {type(error).__name__}")
    return row


def measured() -> dict[str, list[str]]:
    """The rows of all functions of the table, those of namespaces by `linalg.det`."""
    calls = {name: (getattr(np, name), CASES[name]) for name in sorted(CASES) if name in public()}
    for namespace, cases in NAMESPACES.items():
        for name in sorted(cases):
            calls[f"{namespace}.{name}"] = getattr(getattr(np, namespace), name), cases[name]
    return {name: measure(function, case) for name, (function, case) in calls.items()}


def coverage(rows: dict[str, list[str]]) -> tuple[int, int]:
    """How many of the functions that are counted work on traced values, and how many there are."""
    counted = [name for name in public() if name not in EXCLUDED]
    counted += [f"{space}.{name}" for space, calls in NAMESPACES.items() for name in calls]
    return sum(name in rows and rows[name][0] == "yes" for name in counted), len(counted)


def table_rows(page: str) -> str:
    """The rows of a page's tables."""
    lines = (HERE / page).read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.startswith("| "))


def kinks() -> dict[str, str]:
    """For the functions of NumPy that a table of kinks names, where it stands."""
    firsts = "\n".join(row.split("|")[1] for row in table_rows("kinks.md").splitlines())
    named = {getattr(np, name) for name in re.findall(r"np\.(\w+)\(", firsts)}
    found = {name: "[table](kinks.md)" for name in CASES if getattr(np, name) in named}
    for name in re.findall(r"np\.(linalg\.\w+)\(", table_rows("linalg.md")):
        found[name] = "[table](linalg.md)"
    return found


HEAD = """\
# Which of NumPy's functions work on traced values

Written by `python docs/support_table.py`, which calls each function of `numpy`, `numpy.linalg` and
`numpy.fft` by plain `np.` under every transform; a test asserts that this page is what it writes.
*value*: NumPy's results under `grad`, `vjp` and `jvp`; *reverse and forward*: up to which order the
derivatives of both modes, and of one mode inside of the other, agree with finite differences (zero:
none, on purpose); *vmap*: as a loop; *jit*: as eagerly, in a Graph and compiled, dtypes included;
*dtypes*: of arguments, with NumPy's values and dtypes; *kinks*: the page that says what the
derivative is where there is none. [SciPy's functions](support-table-scipy.md) have a page of their
own.
"""


def text(rows: dict[str, list[str]]) -> str:
    """The page."""
    works, counted = coverage(rows)
    kinked = kinks()
    reasons: dict[str, list[str]] = {}
    excluded = {name: EXCLUDED[name] for name in public() if name in EXCLUDED} | OTHERS
    for name, reason in excluded.items():
        reasons.setdefault(reason, []).append(f"`{name}`")
    without = sum(len(names) for names in reasons.values())
    lines = [
        f"Of {counted} public functions that take arrays of floats and return arrays, {works}",
        f"work ({100 * works / counted:.1f} %); {without} other names are listed below with the",
        "reason.",
        "",
        "| function | " + " | ".join((*COLUMNS, "kinks")) + " |",
        "|---" * (len(COLUMNS) + 2) + "|",
        *[f"| `np.{name}` | " + " | ".join([*row, kinked.get(name, "")]) + " |"
          for name, row in rows.items()],
        "",
        "## Not counted",
        "",
        *[f"- {reason}: {', '.join(names)}" for reason, names in reasons.items()],
    ]  # fmt: skip
    return HEAD + "\n" + "\n".join(lines) + "\n"


def main() -> int:
    """Writes the table, or compares it."""
    page = text(measured())
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text(encoding="utf-8") == page else 1
    TARGET.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
