"""The fuzzer itself: its programs are what their seeds say, and reach every family of steps."""

from __future__ import annotations

from collections import Counter

import numpy as np
from fuzz.case import Case
from fuzz.generate import FAMILIES, generate


def test_a_seed_makes_one_program():
    for i in range(50):
        assert str(generate(f"7-{i}")) == str(generate(f"7-{i}"))


def test_programs_print_as_what_they_compute():
    for i in range(100):
        program = generate(f"8-{i}")
        case = Case(program, "8")
        if isinstance(case.expected, Exception):
            continue
        scope = {**program.plain.__globals__, "LAYOUTS": __import__("fuzz.inputs").inputs.LAYOUTS}
        with np.errstate(all="ignore"):
            exec(compile(str(program), "<printed>", "exec"), scope)
            found = scope["program"](*scope["args"])
        for e, f in zip(case.expected, found, strict=True):
            np.testing.assert_array_equal(np.asarray(f), np.asarray(e))
            assert np.asarray(f).dtype == np.asarray(e).dtype


def test_programs_reach_every_family():
    steps = Counter(step.family for i in range(400) for step in generate(f"9-{i}").steps)
    assert {name for name in FAMILIES if steps[name] >= 4} == set(FAMILIES)
