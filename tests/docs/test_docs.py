"""The examples of the documentation, run; and the consistency of its pages."""

from __future__ import annotations

import doctest
import importlib.util
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import fungrad as fg

DOCS = Path(__file__).parents[2] / "docs"
MADE = ("api", "notebooks", "extensions")
ELSEWHERE = ("errors.md", "how-it-works.md", "interop/whole-jobs.md", "mistakes.md")
"""Pages that test_error_docs.py, test_how_it_works.py and test_whole_jobs.py run."""
NEEDS = {
    "digits.md": "mpmath",
    "interop/astropy.md": "astropy",
    "interop/dlpack.md": "torch",
    "interop/iminuit.md": "iminuit",
    "interop/ipopt.md": "cyipopt",
    "interop/jax.md": "jax",
    "interop/lmfit.md": "lmfit",
    "interop/numba.md": "numba",
    "interop/pandas-xarray.md": "xarray",
    "interop/processes.md": "joblib",
    "interop/progress.md": "tqdm",
    "interop/ray.md": "ray",
    "interop/scikit-learn.md": "sklearn",
    "interop/optimisers.md": "openmdao",
    "interop/pymc.md": "pymc",
    "interop/statsmodels.md": "statsmodels",
    "interop/torch.md": "torch",
    "performance.md": "threadpoolctl",
    "tutorials/fit-a-curve.md": "matplotlib",
    "tutorials/fit-several-data-sets.md": "matplotlib",
    "tutorials/fit-an-ode.md": "matplotlib",
    "tutorials/how-many-digits.md": "matplotlib",
    "tutorials/sample-a-posterior.md": "matplotlib",
    "tutorials/somebody-elses-model.md": "sklearn",
    "tutorials/train-a-network.md": "matplotlib",
}
"""The packages beyond fungrad's extras that a page imports; it runs where they are installed."""
THROUGHOUT = ("custom-rules.md", "nn.md", "scipy.md", "sharp-bits.md", "why.md")

PAGES = {
    path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(DOCS.rglob("*.md"))
    if path.relative_to(DOCS).parts[0] not in MADE
}
RUN = [name for name, text in PAGES.items() if ">>>" in text and name not in ELSEWHERE]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_the_examples_give_what_they_say(name, monkeypatch, tmp_path):
    needed = NEEDS.get(name, "numpy")
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    text = re.sub(r"^```.*$", "", PAGES[name], flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, name, str(DOCS / name), 0)
    assert len(test.examples) > 2
    session = types.ModuleType("__main__")  # so that its definitions can be pickled
    monkeypatch.setitem(sys.modules, "__main__", session)
    monkeypatch.setenv("MPLBACKEND", "svg")
    if name.startswith("tutorials/"):
        monkeypatch.chdir(tmp_path)  # for the pictures that they save
    test.globs = session.__dict__
    report = []
    with np.printoptions():
        doctest.DocTestRunner(optionflags=flags).run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("name", [name for name in PAGES if name not in ELSEWHERE])
def test_every_program_on_a_page_is_an_example_that_is_run(name):
    for language, program in re.findall(r"^```(\w+)\n(.*?)^```", PAGES[name], re.M | re.S):
        if language in ("python", "pycon"):
            assert ">>>" in program, f"{name} shows a program that no test runs:\n{program}"


@pytest.mark.parametrize("name", THROUGHOUT)
def test_every_section_has_an_example(name):
    sections = re.split(r"^## ", PAGES[name], flags=re.MULTILINE)[1:]
    assert sections and all(">>>" in section for section in sections)


def test_links_between_pages_lead_somewhere():
    for name, page in PAGES.items():
        text = re.sub(r"```.*?```|`[^`]*`", "", page, flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            if target.removeprefix("../").split("/")[0] not in MADE:  # see docs/check_site.py
                assert (DOCS / name).parent.joinpath(target).exists(), f"{name} links to {target}"


def test_the_glossary_has_every_word_once_and_the_words_that_pages_look_up():
    terms = re.findall(r"^### (.*)$", PAGES["glossary.md"], re.MULTILINE)
    places = [term.lower().replace(" ", "-") for term in terms]
    assert len(places) == len(set(places)) > 30
    compilers = PAGES["design.md"].split("## Glossary")[1].split("\n## ")[0]
    assert not {term.lower() for term in terms} & set(re.findall(r"^\| (\w+) \|", compilers, re.M))
    for name, page in PAGES.items():
        for place in re.findall(r"glossary\.md#([\w-]+)", page):
            assert place in places, f"{name} looks up {place}"


def test_the_index_lists_every_page():
    listed = set()
    for folder in ("", "interop/", "tutorials/"):
        index = f"{folder}index.md"
        for entries in re.findall(r"^```{toctree}\n(.*?)^```", PAGES[index], re.M | re.S):
            listed |= {f"{folder}{name}.md" for name in re.findall(r"<(.*)>$", entries, re.M)}
    assert set(PAGES) - {"index.md"} <= listed


ABSENT = (
    "custom_gradient", "disable_jit", "custom_vmap", "sequential_vmap", "fft.dct", "cluster.vq",
)  # fmt: skip
"""JAX's names for what fungrad writes in another way."""


@pytest.mark.parametrize("name", ABSENT)
def test_names_of_jax_that_are_left_out_stand_beside_what_to_write(name):
    table = PAGES["coming-from.md"].partition("## JAX")[2].partition("\n## ")[0]
    rows = [row.strip("|").split("|") for row in table.splitlines() if row.startswith("| ")]
    (cells,) = [cells for cells in rows if name in cells[0]]
    assert len(cells) == 3 and all(cell.strip() for cell in cells)
    assert not hasattr(fg, name) and not hasattr(fg.scipy, name.partition(".")[0])
