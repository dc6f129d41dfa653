"""Measures which of NumPy's functions work on traced values, and writes docs/support-table.md.

    python docs/support_table.py            writes the table
    python docs/support_table.py --check    fails if the committed one differs

Nothing in the table is written by hand: each function is called as
tests/support/surface_table.py says, under each transform, and compared with NumPy, with a loop,
and with finite differences.
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
sys.path.insert(0, str(ROOT / "tests" / "support"))

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
    """The result of each check for a function; "no" if it fails."""
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

{works} of {counted} public functions that take arrays of floats and return arrays work with plain
`np.` under `grad`, `vjp` and `jvp` ({share:.1f} %).

## What does not work

"""
TABLE = """\
## What works

`python docs/support_table.py` writes this page. It calls each function of `numpy`,
`numpy.linalg` and `numpy.fft` under every transform. A test checks that the page is up
to date. The columns mean:

- *value*: the results under `grad`, `vjp` and `jvp` are NumPy's.
- *reverse and forward*: up to this order, the derivatives of both modes, and of one mode inside of
  the other, agree with finite differences. "zero" means that the derivative is zero on purpose.
- *vmap*: the results are those of a loop.
- *jit*: the results of the [Graph](glossary.md#graph) and of the compiled function are NumPy's,
  dtypes included.
- *dtypes*: the results have NumPy's values and dtypes for arguments of these dtypes.
- *kinks*: the page that defines the derivative at a [kink](glossary.md#kink).

[SciPy's functions](support-table-scipy.md) have their own page.

"""


def missing(rows: dict[str, list[str]]) -> list[str]:
    """Which functions do not work, and where: the lines of a list."""
    found: dict[str, list[str]] = {}
    for name, row in rows.items():
        for column, told in zip(COLUMNS[:-1], row[:-1], strict=True):
            if told.startswith(("no", "refused", "shape")):
                found.setdefault(f"{column}: {told}", []).append(f"`{name}`")
    joined: dict[str, list[str]] = {}
    for told, names in found.items():  # columns that the same functions lack are one line
        column, why = told.split(": ", 1)
        joined.setdefault(f"{why}: {', '.join(names)}", []).append(column)
    return [f"- {', '.join(columns)}: {told}" for told, columns in joined.items()]


def text(rows: dict[str, list[str]]) -> str:
    """The page."""
    works, counted = coverage(rows)
    kinked = kinks()
    reasons: dict[str, list[str]] = {}
    excluded = {name: EXCLUDED[name] for name in public() if name in EXCLUDED} | OTHERS
    for name, reason in excluded.items():
        reasons.setdefault(reason, []).append(f"`{name}`")
    dates = ", ".join(reasons.pop("dates"))
    lines = [
        *missing({f"np.{name}": row for name, row in rows.items()}),
        f"- everywhere: dates: {dates}",
        "",
        TABLE + "| function | " + " | ".join((*COLUMNS, "kinks")) + " |",
        "|---" * (len(COLUMNS) + 2) + "|",
        *[f"| `np.{name}` | " + " | ".join([*row, kinked.get(name, "")]) + " |"
          for name, row in rows.items()],
        "",
        "## Not measured",
        "",
        f"{sum(map(len, reasons.values()))} functions are not counted:",
        "",
        *[f"- {reason}: {', '.join(names)}" for reason, names in reasons.items()],
    ]  # fmt: skip
    head = HEAD.format(works=works, counted=counted, share=100 * works / counted)
    return head + "\n".join(lines) + "\n"


def main() -> int:
    """Writes the table, or compares it."""
    page = text(measured())
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text(encoding="utf-8") == page else 1
    TARGET.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
