"""Draws the pictures of the tutorials, by running their pages: `python docs/figures.py [PAGE ...]`.

Each page saves its picture itself; this runs its examples where the pictures are kept. Needs the
extras of the tests.
"""

from __future__ import annotations

import doctest
import os
import re
import sys
from pathlib import Path

import matplotlib as mpl

HERE = Path(__file__).parent


def main(names: list[str]) -> int:
    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "fungrad", "font.size": 9})
    pages = [HERE / "tutorials" / f"{name}.md" for name in names]
    failed = 0
    for page in pages or sorted((HERE / "tutorials").glob("*.md")):
        text = re.sub(r"^```.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
        os.chdir(HERE / "static" / "tutorials")
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
        failed += doctest.DocTestRunner(optionflags=flags).run(test).failed
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
