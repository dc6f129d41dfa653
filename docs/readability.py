"""Prints how hard the pages are to read: the Flesch-Kincaid grade by textstat.

    python docs/readability.py              every page; exit status 1 above grade 10
    python docs/readability.py FILE...      some pages, printed only

The grade is the number of school years that a text asks for (Kincaid et al. 1975). Code blocks,
tables, headings and pictures are taken out; a name in code counts as one short word.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import textstat

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs").glob("[it]*/*.md"),  # interop and tutorials: others are generated
)
LIMIT = 10.0

NOT_PROSE = (
    (re.compile(r"^(`{3,}).*?^\1`*$", re.MULTILINE | re.DOTALL), ""),  # code, directives
    (re.compile(r"^(\||\{\.|#).*$", re.MULTILINE), ""),  # tables, attributes, headings
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),  # pictures
    (re.compile(r"`[^`]*`"), "name"),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),  # links: their text
    (re.compile(r"^(?:[-*] |\d+\. )", re.MULTILINE), "\n"),  # items: a paragraph each
    (re.compile(r":?\s*\n\n+"), ".\n\n"),  # a paragraph ends a sentence
    (re.compile(r"([.?!])\.\n\n"), r"\1\n\n"),
    (re.compile(r"[*_]"), ""),
)


def prose(page: str) -> str:
    """The sentences of a page in Markdown."""
    for pattern, replacement in NOT_PROSE:
        page = pattern.sub(replacement, page)
    return " ".join(page.split()).lstrip(". ")


def grade(page: str) -> float:
    """The Flesch-Kincaid grade of a page in Markdown."""
    return float(textstat.flesch_kincaid_grade(prose(page)))


def main(arguments: list[str]) -> int:
    """Prints the grade of each page; 1 if one of the repository's pages is above the limit."""
    pages = [Path(name) for name in arguments] or sorted(PAGES)
    grades = {path: grade(path.read_text(encoding="utf-8")) for path in pages}
    for path, found in grades.items():
        print(f"{found:5.1f}  {path.resolve().relative_to(ROOT)}")
    if arguments:
        return 0
    hard = [path.name for path, found in grades.items() if found > LIMIT]
    if hard:
        print(f"harder to read than grade {LIMIT:.0f}: {', '.join(hard)}. Shorten their sentences.")
    return bool(hard)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
