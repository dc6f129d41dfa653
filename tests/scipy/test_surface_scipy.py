"""SciPy's surface, measured: support for traced values, and the committed table."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

scipy = pytest.importorskip("scipy")
from surface_scipy import uncounted  # noqa: E402 - after SciPy is known to be there

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def page():
    """The module that measures."""
    sys.path.insert(0, str(DOCS))
    try:
        spec = importlib.util.spec_from_file_location(
            "support_table_scipy", DOCS / "support_table_scipy.py"
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module


@pytest.fixture(scope="module")
def tables(page):
    return page.measured()


def test_every_function_has_a_call_or_a_reason():
    assert not uncounted()


@pytest.mark.slow
def test_no_check_of_any_function_fails(tables):
    bad = {n: row for rows in tables.values() for n, row in rows.items() if "no:" in str(row)}
    assert not bad


@pytest.mark.slow
def test_most_have_derivatives_of_two_orders(tables):
    rows = [row for table in tables.values() for row in table.values()]
    assert len(rows) > 200
    assert sum(row[1] == "order 2" for row in rows) > 0.85 * len(rows)


@pytest.mark.slow
@pytest.mark.skipif(
    tuple(map(int, scipy.__version__.split(".")[:2])) != (1, 17), reason="the page is of SciPy 1.17"
)
def test_the_committed_table_is_current(page, tables):
    assert page.TARGET.read_text(encoding="utf-8") == page.text(tables), (
        "run python docs/support_table_scipy.py"
    )
