"""The statements of the documentation, run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
RUN = ("custom-rules.md", "nn.md", "scipy.md", "sharp-bits.md", "why.md")


@pytest.mark.parametrize("name", RUN)
def test_the_examples_give_what_they_say(name):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    text = re.sub(r"^```.*$", "", (DOCS / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, name, str(DOCS / name), 0)
    assert len(test.examples) > 10
    report = []
    doctest.DocTestRunner(optionflags=flags).run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("name", RUN)
def test_every_section_has_an_example(name):
    sections = re.split(r"^## ", (DOCS / name).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert sections and all(">>>" in section for section in sections)


def test_links_between_pages_lead_somewhere():
    for page in DOCS.glob("*.md"):
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
