"""The docstrings of fungrad.lax: one sentence, and each parameter."""

from __future__ import annotations

import inspect
import re

import pytest

import fungrad as fg

OURS = sorted(
    name
    for name in dir(fg.lax)
    if name[0] != "_"
    and inspect.isfunction(f := getattr(fg.lax, name))
    and f.__module__.startswith("fungrad.lax")
)


def test_there_are_functions_of_our_own():
    assert len(OURS) > 70


@pytest.mark.parametrize("name", OURS)
def test_each_parameter_is_described(name):
    f = getattr(fg.lax, name)
    text = inspect.getdoc(f) or ""
    assert re.match(r"[^\n]+", text), "no first sentence"
    section = text.partition("Args:")[2]
    found = re.findall(r"(?:^ {2}|\. )((?:\*{0,2}\w+, )*\*{0,2}\w+):", section, re.MULTILINE)
    told = {parameter.lstrip("*") for names in found for parameter in names.split(", ")}
    assert set(inspect.signature(f).parameters) <= told
