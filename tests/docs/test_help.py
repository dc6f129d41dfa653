"""Docstrings: one sentence, then an example for fungrad's own names, and each parameter."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fungrad as fg

MODULES = {
    "compat.autograd": 15,
    "extend": 2,
    "lax": 70,
    "nn": 30,
    "optimizers": 15,
    "random": 30,
    "scipy.integrate": 2,
    "scipy.linalg": 40,
    "scipy.ndimage": 20,
    "scipy.signal": 15,
    "scipy.special": 15,
    "scipy.stats": 30,
    "tree_util": 15,
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


def missing(f: Callable[..., Any]) -> str:
    """What the docstring of a function lacks."""
    text = inspect.getdoc(f) or ""
    section = text.partition("Args:")[2]
    found = re.findall(r"(?:^ +|[.;] )((?:\*{0,2}\w+, )*\*{0,2}\w+):", section, re.MULTILINE)
    told = {parameter.lstrip("*") for names in found for parameter in names.split(", ")}
    lacks = sorted(set(inspect.signature(f).parameters) - {"self"} - told)
    if not re.match(r"[^\n]*[.:]\n?", text):
        lacks.append("(a first sentence on one line)")
    return ", ".join(lacks)


@pytest.mark.parametrize("module", MODULES)
def test_each_function_begins_with_a_sentence_and_describes_its_parameters(module):
    found = functions(module)
    assert len(found) > MODULES[module]
    lacks = {name: what for name, f in found.items() if (what := missing(f))}
    assert not lacks


@pytest.mark.parametrize("module", MODULES)
def test_functions_of_modules_say_what_they_compute_and_show_it(module):
    texts = {name: inspect.getdoc(f) or "" for name, f in functions(module).items()}
    if module in ("scipy.linalg", "scipy.signal", "scipy.special", "scipy.stats"):
        twin = re.compile(r".*(\b[Aa]s scipy\.|: see )")
        assert not [name for name, text in texts.items() if twin.match(text)]
    if module != "lax":
        assert not [n for n, text in texts.items() if "Args:" in text and ">>> " not in text]


def test_help_of_each_verb_begins_with_a_sentence_and_an_example():
    verbs = {}
    for name in dir(fg):
        f = inspect.unwrap(getattr(fg, name))
        if inspect.isfunction(f) and f.__module__.startswith("fungrad"):
            verbs[name] = f
    assert len(verbs) > 60
    for name, f in verbs.items():
        sentence, example = (inspect.getdoc(f) or "").split("\n\n")[:2]
        assert sentence.endswith(".") and sentence.count("\n") == 0, name
        assert example.startswith(">>> "), name
    assert not {name: what for name, f in verbs.items() if (what := missing(f))}
