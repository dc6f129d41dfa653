"""Measures which of SciPy's functions work on traced values, and writes support-table-scipy.md.

    python docs/support_table_scipy.py            writes the table
    python docs/support_table_scipy.py --check    fails if the committed one differs

Needs the extra `scipy`. The checks are those of support_table.py, the calls those of
tests/support/surface_scipy.py. SciPy's ufuncs are called as they are, all others from
fungrad.scipy.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from support_table import CHECKS, COLUMNS, DTYPES, function_of, missing, table_rows

HERE = Path(__file__).resolve().parent
TARGET = HERE / "support-table-scipy.md"
TABLE = "[table](scipy.md#kinks-and-edges)"

from surface import same  # noqa: E402 - support_table has said where the tests are
from surface_scipy import cases, unmeasured  # noqa: E402
from surface_table import Case  # noqa: E402

import fungrad as fg  # noqa: E402


def found(namespace: str, name: str) -> Callable[..., Any]:
    """The function of a name: SciPy's own where it is a ufunc."""
    first = name.split(".")[0]
    own: Any = getattr(getattr(scipy, namespace), first)
    return own if isinstance(own, np.ufunc) else getattr(getattr(fg.scipy, namespace), first)


def check_dtypes(f: Callable[..., Any], case: Case, expected: Any) -> str:
    """The dtypes of arguments for which the results have SciPy's values and dtypes."""
    kept = []
    for name in DTYPES:
        args = [np.asarray(a).astype(name) for a in case.args]
        try:
            same(fg.vjp(f, *args)[0], f(*args), f"of {name}")
        except (TypeError, ValueError, AssertionError):  # refused, or of another dtype
            continue
        kept.append(name)
    return " ".join(kept)


REFUSED = (fg.errors.MissingRuleError, fg.errors.UnsupportedFunctionError)


def measure(namespace: str, name: str, case: Case) -> list[str]:
    """The result of each check for a function; "no" if it fails."""
    f = function_of(found(namespace, name), case)
    row = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = f(*case.args)
        for check in (*CHECKS[:-1], check_dtypes):
            try:
                row.append("refused" if case.order < 0 else check(f, case, expected))
            except REFUSED:  # an error that says so, and no wrong number
                row.append("refused")
            except Exception as error:  # the table says so, and a test fails
                row.append(f"no: {type(error).__name__}")
    return row


def measured() -> dict[str, dict[str, list[str]]]:
    """The rows of all functions, by namespace."""
    return {
        namespace: {name: measure(namespace, name, calls[name]) for name in sorted(calls)}
        for namespace, calls in cases().items()
    }


def kinks() -> set[str]:
    """The names, without their namespaces, in the table of kinks."""
    kinked = (HERE / "scipy.md").read_text(encoding="utf-8").split("## Kinks and edges")[1]
    first = [row.split("|")[1] for row in table_rows("scipy.md").splitlines() if row in kinked]
    written = re.findall(r"`(?:stats\.|interpolate\.)?([\w.]+)", " ".join(first))
    return {name.removesuffix(".mode") for name in written}


def text(tables: dict[str, dict[str, list[str]]]) -> str:
    """The page."""
    every = {f"{space}.{name}": row for space in tables for name, row in tables[space].items()}
    lines = [
        "# Which of SciPy's functions work on traced values",
        "",
        "## What does not work",
        "",
        *missing(every),
        "- derivatives by some parameters, such as the order of a Bessel function: no formula is",
        "  known, and asking for one raises an error",
        "",
        "*refused*: differentiating raises an error, because no formula is known.",
        "[SciPy](scipy.md) lists functions and arguments that `fungrad.scipy` does not have.",
        "",
        "## What works",
        "",
        "`python docs/support_table_scipy.py` writes this page, and a test checks that it is up to",
        "date. The columns are those of [the table of NumPy's functions](support-table.md). The",
        "ufuncs of `scipy.special` are called by SciPy's names, all other functions are those of",
        "`fungrad.scipy`. Arguments without a derivative are held fixed. SciPy does not accept the",
        "dtypes that are missing, or it widens float32, which stays float32 here. [The page",
        "of SciPy](scipy.md) lists the derivatives at kinks.",
        "",
    ]
    kinked = kinks()
    for namespace, rows in tables.items():
        lines += [
            f"## scipy.{namespace}",
            "",
            f"{len(rows)} functions.",
            "",
            "| function | " + " | ".join((*COLUMNS, "kinks")) + " |",
            "|---" * (len(COLUMNS) + 2) + "|",
            *[
                f"| `{name}` | " + " | ".join([*row, TABLE if name in kinked else ""]) + " |"
                for name, row in rows.items()
            ],
            "",
        ]
    names = ", ".join(f"`{name}`" for name in unmeasured())
    lines += ["## Of scipy.special, not in the table", ""]
    lines += [
        "Evaluated on traced values; differentiated where [SciPy](scipy.md) says so:",
        names,
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Writes the table, or compares it."""
    page = text(measured())
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text(encoding="utf-8") == page else 1
    TARGET.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
