"""Functions of packages that know nothing of fungrad: right, or refused; never wrong.

The packages of the test extra are run; with all of them installed (`third_party_cases.py`) the
whole table is.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # benchmarks is no part of the package

from benchmarks import third_party
from benchmarks.third_party_cases import PACKAGES

REFUSED = json.loads(Path(__file__).with_name("third_party_refused.json").read_text("utf-8"))
"""By package and aspect: the functions that raise an error. All others are right, so that a
function which is lost names itself."""


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.filterwarnings("ignore")
def test_no_derivative_of_a_package_is_wrong(package):
    pytest.importorskip(package)
    rows = list(third_party.findings([package], third_party.measured))
    assert rows
    wrong = [
        f"{row['function']}, {aspect}: {row[aspect]['why']}"
        for row in rows
        for aspect in third_party.ASPECTS
        if row[aspect]["is"] == "wrong"
    ]
    assert not wrong, "\n".join(wrong)
    lost = [
        f"{row['function']}, {aspect}: {row[aspect]['why']}"
        for row in rows
        for aspect in third_party.ASPECTS
        if row[aspect]["is"] == "refused"
        and row["function"] not in REFUSED[package].get(aspect, ())
    ]
    assert not lost, "\n".join(lost)


def test_each_function_stands_in_the_table_once():
    for package, generator in PACKAGES.items():
        try:
            importlib.import_module(package)
        except ImportError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = [name for name, _, _ in generator()]
        assert len(set(names)) == len(names), package


def test_what_is_measured_is_told_apart():
    at = np.array([0.5, 2.0])

    def cut(x):
        raise ValueError("the first line\nand the second")

    found = third_party.measured(lambda x: x**3, at)
    assert {aspect: found[aspect]["is"] for aspect in found} == dict.fromkeys(found, "right")
    assert tuple(found) == third_party.ASPECTS
    right, expected = np.array([1.0, 2.0]), third_party.FIRST
    verdict = lambda run: third_party.verdict(run, right, expected)  # noqa: E731
    assert verdict(lambda: right * (1.0 + 1e-7))["is"] == "right"
    assert verdict(lambda: right * 1.001)["is"] == "wrong"
    assert verdict(lambda: right * np.nan)["is"] == "wrong"
    assert verdict(lambda: right[:1])["is"] == "wrong"
    assert verdict(lambda: cut(right)) == {"is": "refused", "why": "ValueError: the first line"}


def test_differences_are_the_derivative():
    f = lambda x: np.stack([np.sin(x[0]) * x[1], np.exp(x[1]), x[0] ** 3])  # noqa: E731
    x = np.array([0.4, 1.5])
    expected = [[np.cos(0.4) * 1.5, np.sin(0.4)], [0.0, np.exp(1.5)], [3 * 0.4**2, 0.0]]
    np.testing.assert_allclose(third_party.differences(f, x).value, expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(third_party.differences(np.tanh, 0.3).value, 1 - np.tanh(0.3) ** 2)


@pytest.mark.parametrize(("noise", "found"), [(1e-9, "right"), (1e-6, "right"), (0.1, "unjudged")])
def test_noise_of_a_function_is_no_wrong_derivative(noise, found):
    f = lambda x: np.exp(x) + noise * np.sin(1e9 * x)  # noqa: E731
    value, doubt = third_party.differences(f, 0.7)
    assert third_party.verdict(lambda: np.exp(0.7), value, 1e-5, doubt)["is"] == found
    wrong = {"right": "wrong"}.get(found, found)
    assert third_party.verdict(lambda: np.exp(0.7) * 1.1, value, 1e-5, doubt)["is"] == wrong


def test_the_table_counts_by_package():
    right, wrong = {"is": "right", "why": ""}, {"is": "wrong", "why": ""}
    rows = [
        {"package": "one", "function": "f", "eager": right, "vmap": right},
        {"package": "one", "function": "g", "eager": right, "vmap": wrong},
        {"package": "two", "function": "h", "eager": right, "vmap": right},
    ]
    lines = list(third_party.table(rows, ("eager", "vmap")))
    assert lines[2:] == [
        "| one | 2 | 2 | 1 |", "| two | 1 | 1 | 1 |", "| **all** | 3 | 3 | 2 |",
        "| **wrong** | | 0 | 1 |",
    ]  # fmt: skip
