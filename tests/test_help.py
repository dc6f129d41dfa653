"""The docstrings of lax and modules of SciPy: one sentence, and each parameter."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

MODULES = {
    "lax": 70,
    "scipy.linalg": 40,
    "scipy.signal": 20,
    "scipy.special": 15,
    "scipy.stats": 30,
}
"""The modules whose docstrings are complete, and the least number of their functions."""


def functions(module: str) -> dict[str, Callable[..., Any]]:
    """The public functions that are defined in a module, and methods of its objects and classes.

    Those of `wrap` serve the module itself.
    """
    whole = f"fungrad.{module}"
    found: dict[str, Callable[..., Any]] = {}

    def add(candidates: Iterator[tuple[str, Any]]) -> None:
        for name, f in candidates:
            ours = inspect.isfunction(f) and f.__module__.startswith(whole)
            if ours and name[0] != "_" and not f.__module__.endswith(".wrap"):
                found[f.__qualname__] = f

    public = importlib.import_module(whole)
    names = [name for name in dir(public) if name[0] != "_"]
    values = {name: getattr(public, name) for name in names}
    add(iter(values.items()))
    for value in values.values():
        class_ = value if inspect.isclass(value) else type(value)
        if class_.__module__.startswith(whole):
            for base in class_.__mro__:
                add(iter(vars(base).items()))
    return found


OURS = {module: functions(module) for module in MODULES}
CASES = [(module, name) for module in MODULES for name in sorted(OURS[module])]


@pytest.mark.parametrize("module", MODULES)
def test_there_are_functions_of_our_own(module):
    assert len(OURS[module]) > MODULES[module]


@pytest.mark.parametrize(("module", "name"), CASES)
def test_each_parameter_is_described(module, name):
    f = OURS[module][name]
    text = inspect.getdoc(f) or ""
    assert re.match(r"[^\n]+", text), "no first sentence"
    section = text.partition("Args:")[2]
    found = re.findall(r"(?:^ {2}|\. )((?:\*{0,2}\w+, )*\*{0,2}\w+):", section, re.MULTILINE)
    told = {parameter.lstrip("*") for names in found for parameter in names.split(", ")}
    assert set(inspect.signature(f).parameters) - {"self"} <= told


@pytest.mark.parametrize(("module", "name"), [case for case in CASES if "scipy" in case[0]])
def test_functions_of_scipy_say_what_they_compute_and_show_it(module, name):
    text = inspect.getdoc(OURS[module][name]) or ""
    sentence = text.partition("\n")[0]
    assert not re.search(r"\b[Aa]s scipy\.|: see ", sentence), "names its twin only"
    assert "Args:" not in text or ">>> " in text, "no example"
