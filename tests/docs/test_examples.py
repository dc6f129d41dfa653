"""The files of examples/: their docstrings show their results."""

from __future__ import annotations

import doctest
import importlib.util
from pathlib import Path

import numpy as np
import pytest

NEEDS = {
    "gaussian_mixture": ("sklearn",),
    "kalman_filter": ("filterpy", "scipy"),
    "photovoltaics": ("pvlib", "scipy"),
    "scipy_stats": ("scipy",),
    "survival": ("lifelines",),
}
"""The examples with a session in their docstring, and their imports."""
FILES = {path.stem: path for path in (Path(__file__).parents[2] / "examples").glob("*.py")}


def test_every_session_is_run():
    assert {name for name, path in FILES.items() if ">>>" in path.read_text("utf-8")} == set(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
@pytest.mark.filterwarnings("ignore")
def test_an_example_gives_what_it_says(name):
    for package in NEEDS[name]:
        if importlib.util.find_spec(package) is None:  # the example itself imports it
            pytest.skip(f"{package} is not installed")
    spec = importlib.util.spec_from_file_location(name, FILES[name])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    with np.printoptions():
        for test in doctest.DocTestFinder(recurse=False).find(module, name):
            runner.run(test, out=report.append)
    assert runner.tries > 3 and not report, "".join(report)
