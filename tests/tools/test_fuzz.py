"""The fuzzer itself: seeds determine its programs, which reach every family of steps."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from fuzz import noise
from fuzz.campaign import Disagreement, campaign, seeds, verdict
from fuzz.case import Case
from fuzz.compare import same
from fuzz.generate import FAMILIES, Builder, generate
from fuzz.inputs import LAYOUTS, arrivals
from fuzz.minimise import minimise
from fuzz.oracle_compiler import COMPILER
from fuzz.oracle_native import NATIVE
from fuzz.oracles import ORACLES
from fuzz.steps.indexing import read
from mutation import UNMUTATED, applied, mutants

import fungrad as fg
from fungrad.compiler.passes.patterns import Rule, made
from fungrad.compiler.passes.simplify import driver
from fungrad.ir.graph import Literal
from fungrad.primitives.elementwise.family import add, div, mul, neg, sub


def test_a_seed_makes_one_program():
    for i in range(50):
        assert str(generate(f"7-{i}")) == str(generate(f"7-{i}"))


def test_programs_print_as_what_they_compute():
    for i in range(100):
        program = generate(f"8-{i}")
        case = Case(program, "8")
        if isinstance(case.expected, Exception):
            continue
        scope = {**program.plain.__globals__, "LAYOUTS": LAYOUTS, "WAYS": arrivals.WAYS}
        with np.errstate(all="ignore"):
            exec(compile(str(program), "<printed>", "exec"), scope)
            found = scope["program"](*scope["args"])
        for e, f in zip(case.expected, found, strict=True):
            np.testing.assert_array_equal(np.asarray(f), np.asarray(e))
            assert np.asarray(f).dtype == np.asarray(e).dtype


def test_programs_reach_every_family():
    steps = Counter(step.family for i in range(400) for step in generate(f"9-{i}").steps)
    assert {name for name in FAMILIES if steps[name] >= 4} == set(FAMILIES)


def test_reads_by_arrays_of_indices_stay_small():
    b = Builder(Random(0), large=True, smooth=False, values="tame")
    b.scope.update(x=np.zeros((2, 70_000)), i=np.zeros(70_000, int), j=np.zeros(5, int))
    b.names = ["x", "i", "j"]
    texts = [read(b) for _ in range(300)]
    assert not any("(x, i" in text or "(x)[i" in text for text in texts)
    assert any("(x, j" in text for text in texts)


@pytest.mark.parametrize(
    ("oracle", "seed"),
    [
        ("transposes", "20261124-23677"),  # rounded to single precision on the way
        ("differences", "20261125-22462"),  # turns many times within the step
        ("differences", "20261126-2812"),  # had a kink where two rows are equal
        ("jit", "20261130-457"),  # copies the sign of a NaN
        ("jit", "n1123a-602"),  # asks for the sign of a NaN
        ("eager", "ans-b-4478"),  # of Python's complex numbers
        ("compiled", "n1123b-2407c"),  # copies the sign of 0 / 0 minus NaN
    ],
)
def test_what_no_tolerance_covers_is_left_out(oracle, seed):
    assert not verdict(oracle, generate(seed), seed)


@pytest.mark.slow
def test_a_few_hundred_programs_agree():
    tally = campaign(seeds("tests", 0, 150))
    assert not tally.found, "\n".join(map(str, tally.found))
    agreed = {oracle for oracle, how in tally.oracles if how == "agree"}
    assert agreed == {name for name, (weight, _) in ORACLES.items() if weight}


@pytest.mark.slow
def test_a_few_hundred_programs_agree_with_their_walked_graphs():
    tally = campaign(seeds("tests", 0, 80, compiler=True))
    assert not tally.found, "\n".join(map(str, tally.found))
    assert {oracle for oracle, how in tally.oracles if how == "agree"} == set(COMPILER)
    plain = campaign(seeds("tests", 0, 0))
    assert "compiled" in str(tally) and "compiled" not in str(plain)


@pytest.mark.slow
def test_some_programs_agree_with_native_code():
    pytest.importorskip("llvmlite")
    tally = campaign(seeds("tests", 0, 35), native=True)
    assert not tally.found, "\n".join(map(str, tally.found))
    assert {oracle for oracle, how in tally.oracles if how == "agree"} == set(NATIVE)


@pytest.mark.slow
def test_the_command_runs_in_several_processes():
    command = [sys.executable, "-m", "tests.fuzz", "--seed", "jobs", "--n", "20", "--jobs", "2"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 programs" in done.stdout


# --- planted faults: each is found among a few hundred programs, and made small
# ------------------------------------------------------------------------------------------


@contextmanager
def planted(name, **rules):
    """Rules of a primitive, for the time of the block."""
    primitive = UNMUTATED[name]
    before = {rule: getattr(primitive, rule) for rule in rules}
    for rule, new in rules.items():
        object.__setattr__(primitive, rule, new)
    try:
        yield
    finally:
        for rule, old in before.items():
            object.__setattr__(primitive, rule, old)


@contextmanager
def factoring():
    """x - y is x * (1 - y / x), as exact arithmetic would have it."""

    def factored(writer, equation):
        x, y = equation.inputs
        ratio = writer.add(equation, neg, writer.add(equation, div, y, x))
        rest = writer.add(equation, add, Literal(1.0), ratio)
        return writer.add(equation, mul, x, rest)

    planted, before = Rule(made(sub), "factored", factored), driver.rules_for

    def rules_for(graph):
        of = before(graph)
        return lambda primitive: (*of(primitive), *([planted] if primitive is sub else ()))

    with patch.object(driver, "rules_for", rules_for):
        yield


def mutated(name, change):
    """One of the mutants of tests/support/mutation.py."""
    return next(applied(m) for m in mutants(UNMUTATED[name]) if change in str(m))


def nan_lost(x):
    return np.where(np.isnan(x), np.zeros_like(x), x)


FAULTS = {
    "wrong sign": ("differences", lambda: mutated("tanh", "jvp: argument 0 wrong sign")),
    "a dropped term": ("transposes", lambda: mutated("mul", "partials: argument 0 dropped")),
    "a small factor": ("transposes", lambda: mutated("reduce_sum", "vjp: argument 0 off by 0.1%")),
    "one example for all": ("vmap", lambda: mutated("mul", "first example for all")),
    "a factored sum": ("jit", factoring),
    "NaN lost": ("eager", lambda: planted("mul", eval=lambda x, y: nan_lost(x * y))),
    "the sign of zero": ("eager", lambda: planted("mul", eval=lambda x, y: x * y + 0)),
    "one ulp": ("eager", lambda: planted("div", eval=lambda x, y: x * (1.0 / y))),
    "an infinity lost": ("eager", lambda: planted("exp", eval=lambda x: np.exp(np.minimum(x, 9)))),
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_planted_faults_are_found_and_made_small(fault):
    oracle, plant = FAULTS[fault]

    def shows(program):
        with plant():
            message = verdict(oracle, program, "planted")
        return message and not verdict(oracle, program, "planted")

    programs = (generate(seed) for seed in seeds("planted", 0, 600))
    found = next((p for p in programs if shows(p)), None)
    assert found is not None, "600 programs show nothing"
    small = minimise(found, shows, seconds=10.0)
    assert small.source.count("\n") <= 5, small.source


def test_a_disagreement_of_another_process_has_its_program():
    found = Disagreement("1-5", "jit", "output 0", generate("1-5"))
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


def test_noisy_runs_that_take_too_long_are_left(monkeypatch):
    monkeypatch.setattr(noise, "SECONDS", -1.0)
    spread = noise.Spread(fg.make_jaxpr(np.sin)(1.0), [1.0])
    assert len(spread.results(1)) == 1
    with pytest.raises(noise.Outcome, match="too long"):
        spread.results(2)


def test_an_infinity_of_unknown_direction_agrees_with_any():
    unknown, known, other = complex(np.nan, np.inf), complex(-np.inf, np.inf), complex(1.0, np.inf)
    neither = complex(np.nan, 1.0)
    assert same([unknown], [known]) and same([other], [unknown]) and same([neither], [neither])
    assert not same([known], [other]) and not same([neither], [unknown])
    assert not same([neither], [known])
