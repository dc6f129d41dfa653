"""The page of benchmarks: its figures are those of benchmarks/RESULTS.md, and the README and
"Beside the others" quote it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks is no part of the package

from benchmarks import bars, published  # noqa: E402

DOCS = ROOT / "docs"
PAGE = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
BESIDE = (DOCS / "beside-the-others.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAIRS = list(published.pairs(published.FILE.read_text(encoding="utf-8")))
CLIFFS = [pair.ratio for pair in PAIRS if pair.table.startswith("Programs that lost a factor")]


def rows(page, of):
    """The cells of the rows of tables of which a cell is that text."""
    found = [[c.strip() for c in line.strip("|").split("|")] for line in page.splitlines()]
    return [cells for cells in found if of in cells]


def test_pairs_of_a_table():
    text = (
        "## A\n\n| us | native | NumPy's backend | JAX jit | ratio |\n|---|---|---|---|---|\n"
        "| f | 1 | 1,200 | 2 | 0.5 |\n| worst | | | | 0.5 |\n\n"
        "| | fungrad before | JAX jit | ratio | fungrad after | JAX jit | ratio |\n"
        "|---|---|---|---|---|---|---|\n| g | 4 | 2 | 2.0 | **1** | 4 us | 0.25 |\n"
        "| h | 3 | 2 | 1.5 | | | |\n| of the 1 measured again | | | 2.0 | | | 0.25 |\n"
    )
    assert list(published.pairs(text)) == [
        ("A, table 1", "f", "native", 1.0, 2.0),
        ("A, table 1", "f", "NumPy's backend", 1200.0, 2.0),
        ("A, table 2", "g", "fungrad jit", 1.0, 4.0),
        ("A, table 2", "h", "fungrad jit", 3.0, 2.0),
    ]


def test_the_programs_that_lose_are_counted():
    slower = sum(ratio > 1 for ratio in CLIFFS)
    mean = bars.geometric_mean(CLIFFS)
    assert f"**{slower} of {len(CLIFFS)} programs are slower than in JAX.**" in PAGE
    assert f"The mean ratio is {mean:.2f}." in PAGE
    assert f"Gradients of {len(CLIFFS)} programs" in BESIDE and f"**{slower} are slower\n" in BESIDE
    assert f"{mean:.2f} in the mean" in BESIDE and f"{max(CLIFFS):.2f} times at worst" in BESIDE
    assert f"Of {len(CLIFFS)} programs chosen to find slow ones, {slower} take longer" in PAGE
    (line,) = [line for line in README.splitlines() if "chosen to find slow operations" in line]
    assert f"Of {len(CLIFFS)} programs" in line and f"| {slower} |" in line
    assert f"all {len(PAIRS)} pairs" in PAGE.replace("\n", " ")


def test_the_worst_of_each_kind_are_those_of_the_results():
    worst: dict[str, float] = {}
    for pair in PAIRS:
        if pair.table.startswith("Programs that lost a factor"):
            kind = pair.case.rpartition(": ")[0]
            worst[kind] = max(worst.get(kind, 0.0), pair.ratio)
    above = [ratio for ratio in worst.values() if ratio > 1]
    most = max(above, default=0.0)
    assert most < 1.4, "list the kinds that lose more in a table"
    said = re.findall(r"Kinds that lose: .*?:", PAGE)
    assert said == ([f"Kinds that lose: {len(above)}, by at most {most:.2f}:"] if above else [])


@pytest.mark.parametrize(
    ("name", "table", "column"),
    [
        ("over jitted JAX", "The cases of `python -m benchmarks`", "native"),
        ("over jitted JAX, array functions", "Gradients of twenty array functions", "native"),
        ("over jitted JAX, everyday functions", "What is written every day, double", "native"),
        ("over jitted JAX, loops", "Loops, value and gradient", "native"),
        ("over jitted JAX, small calls", "Small calls", "native"),
        ("values and gradients of 13 loops", "Loops, value and gradient", "NumPy's backend"),
        ("5 loops of GradBench", "Loops of GradBench", "NumPy's backend"),
        ("25 everyday functions, one core", "What is written every day, double", "NumPy's backend"),
        ("35 gradients, two cores", "All cases, table 2", "fungrad jit"),
    ],
)
def test_means_and_worst_cases(name, table, column):
    chosen = [p.ratio for p in PAIRS if p.table.startswith(table) and p.column == column]
    (cells,) = rows(PAGE, name)
    place = cells.index(name)
    mean, worst = float(cells[place + 1]), float(cells[place + 2].split(",")[0])
    assert mean == pytest.approx(bars.geometric_mean(chosen), rel=0.04)  # two digits
    assert worst == pytest.approx(max(chosen), rel=0.01)


@pytest.mark.parametrize("figure", ["0.14", "0.19", "1.06, attention", "0.65", "0.68", "1.42, a H"])
def test_beside_the_others_quotes_the_page(figure):
    assert figure in BESIDE.partition("## Speed")[2]
    assert figure in PAGE


@pytest.mark.parametrize("name", ["installed size beside NumPy", "import time beyond NumPy's"])
def test_sizes_and_imports_are_the_same(name):
    assert rows(PAGE, name) == rows(BESIDE, name) != []


def test_the_modules_that_commands_name_are_there():
    named = set(re.findall(r"python -m benchmarks\.([\w.]+)", PAGE))
    assert len(named) > 10
    for name in named:
        path = ROOT.joinpath("benchmarks", *name.split("."))
        assert path.with_suffix(".py").exists() or path.joinpath("__main__.py").exists(), name
