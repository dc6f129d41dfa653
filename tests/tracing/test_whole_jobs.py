"""The whole jobs of docs/interop/whole-jobs.md, each where its packages are installed."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "interop" / "whole-jobs.md"
SECTIONS = dict(
    section.split("\n", 1) for section in re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.M)[1:]
)


@pytest.mark.slow
@pytest.mark.parametrize("name", SECTIONS)
def test_a_whole_job(name):
    text = re.sub(r"^```.*$", "", SECTIONS[name], flags=re.MULTILINE)
    for package in sorted(set(re.findall(r"^>>> (?:from|import) (\w+)", text, re.MULTILINE))):
        pytest.importorskip(package)
    test = doctest.DocTestParser().get_doctest(text, {}, name, str(PAGE), 0)
    assert len(test.examples) > 5
    report: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    doctest.DocTestRunner(optionflags=flags).run(test, out=report.append)
    assert not report, "".join(report)
