"""The cases of `python -m benchmarks`, at small sizes: fungrad agrees with what is written by
hand, to rounding. Nothing is timed; the bars are tested on figures made up here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import fungrad as fg

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks is no part of the package

from benchmarks import __main__ as command  # noqa: E402
from benchmarks import (  # noqa: E402
    adbench,
    bars,
    branches,
    cases,
    element_loops,
    everyday,
    libraries,
    python_loops,
    staging,
    suite,
    tables,
    timing,
)
from benchmarks.gradbench import ba, gmm, ht, lstm, workloads  # noqa: E402
from benchmarks.libraries import AUTOGRAD, EAGER, FUNGRAD, HAND, JAX  # noqa: E402


@pytest.mark.parametrize("name", [FUNGRAD, EAGER])
@pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.name)
def test_by_hand(case, name):
    arguments = case.tiny()
    expected = case.by_hand(*arguments)
    found = libraries.prepared(name, case)(*arguments)
    assert fg.tree_structure(found) == fg.tree_structure(expected)
    for got, right in zip(fg.tree_leaves(found), fg.tree_leaves(expected), strict=True):
        got, right = np.asarray(got), np.asarray(right)
        assert got.shape == right.shape and got.dtype == right.dtype == np.float64
        assert np.any(right != 0.0)
        np.testing.assert_allclose(got, right, rtol=0, atol=1e-10 * np.max(np.abs(right)))


@pytest.mark.parametrize(
    ("f", "shapes"), everyday.FUNCTIONS, ids=lambda x: getattr(x, "__name__", "")
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_written_every_day(f, shapes, dtype):
    args = everyday.arguments(shapes, dtype)
    wanted = everyday.gradient(EAGER, f)(*args)
    eps = np.finfo(dtype).eps
    for got, want in zip(everyday.gradient(FUNGRAD, f)(*args), wanted, strict=True):
        assert got.dtype == want.dtype == dtype
        scale = np.max(np.abs(want))
        np.testing.assert_allclose(got, want, rtol=0, atol=400 * eps * scale)


@pytest.mark.parametrize("case", branches.CASES, ids=lambda case: case[0])
def test_questions_of_compiled_functions(case):
    _, f, plain, arguments = case
    for of in (f, plain), (fg.grad(f), fg.grad(plain)):
        found = [call() for call in branches.candidates(*of, arguments(10)).values() for _ in "ab"]
        for result in found:
            np.testing.assert_allclose(result, found[0], rtol=1e-13)


def test_names_are_unique_and_leave_arguments_alone():
    assert len({case.name for case in cases.ALL}) == len(cases.ALL)
    for case in cases.ALL:
        arguments = case.tiny()
        case.by_hand(*arguments)
        before, after = fg.tree_leaves(case.tiny()), fg.tree_leaves(arguments)
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)), case.name


@pytest.mark.slow
def test_every_candidate_takes_turns(monkeypatch):
    monkeypatch.setattr(timing, "settle", lambda: False)
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    samples = timing.sampled(calls, rounds=4, seconds=0.0)
    assert order[4:] == list("abababab")
    assert all(len(found) == 4 and min(found) >= 0.0 for found in samples.values())
    slow = timing.sampled({"a": lambda: None}, rounds=9, seconds=0.0, budget=0.0)
    assert len(slow["a"]) == timing.LEAST


@pytest.mark.slow
def test_a_burst_begins_when_other_threads_are_at_rest(monkeypatch):
    used = iter([0.0, 0.010, 0.010, 0.020, 0.020, 0.0201])  # two busy looks, one idle
    now = iter(x * 0.01 for x in range(100))
    monkeypatch.setattr(timing.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(timing.time, "process_time", lambda: next(used))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(now))
    assert timing.settle()
    assert list(used) == []
    monkeypatch.undo()
    order = []
    leaves = iter([True, False, *[True] * 3])  # a leaves threads at work, b does not
    monkeypatch.setattr(timing, "settle", lambda: order.append("settled") or next(leaves))
    timing.sampled({name: lambda name=name: order.append(name) for name in "ab"}, 3, 0.0)
    assert order[6:] == ["a", "settled", "b", "b"] * 3 and list(leaves) == []


def row(name, kind, **times):
    return {
        "case": name,
        "kind": kind,
        "times": {k: {"median": v, "minimum": v} for k, v in times.items()},
    }


def test_verdicts():
    rows = [
        row("good", cases.ARRAYS, **{FUNGRAD: 1.0, HAND: 2.0, JAX: 4.0}),
        row("bad", cases.ELEMENTWISE, **{FUNGRAD: 1.31, HAND: 1.0, JAX: 1.0}),
        row("loop", cases.LOOP, **{FUNGRAD: 1.0, HAND: 1.0, JAX: 0.001, AUTOGRAD: 60.0}),
    ]
    found = {verdict.text: verdict.reached for verdict in bars.of_gradients(rows)}
    assert list(found.values()) == [False, False, True, False, True]
    texts = list(found)
    assert "0.87" in texts[0] and "worst bad, 1.31 (bar 1.3)" in texts[1]
    assert "2 cases 0.57" in texts[2]  # the tiny loop is not compared with JAX
    assert "least bad, 0.8" in texts[3] and "least loop, 60.0" in texts[4]
    short = [row("short", cases.ARRAYS, **{FUNGRAD: 1.9e-5, HAND: 1e-5})]
    mean, worst = bars.of_gradients(short)
    assert not mean.reached and worst.reached and "1.90 (bar 2.0)" in worst.text
    first = [{"case": "a", "times": {FUNGRAD: {"seconds": 1.0}, JAX: {"seconds": 3.9}}}]
    assert not bars.of_first(first)[0].reached
    rates = [
        {"equations": n, "trace": s, "optimise and plan": s}
        for n, s in ((1_000, 0.02), (10_000, 0.2), (100_000, 4.0))
    ]
    assert [v.reached for v in bars.of_staging(rates)] == [True, False]
    assert [v.reached for v in bars.of_memory([{"case": "a", FUNGRAD: 1.2, HAND: 1.0}])] == [
        False,
        False,
    ]
    assert bars.of_gradients([]) == bars.of_first([]) == bars.of_memory([]) == []


@pytest.mark.slow
def test_peaks_count_arrays():
    size = 100_000
    once = staging.peak(lambda x: x + 1.0, (np.ones(size),))
    assert 8 * size <= once < 8 * size + 50_000
    chain = fg.jit(lambda x: np.sum(np.sin(np.cos(x) * 1.1)))
    first, second = (staging.peak(chain, (np.ones(size),)) for _ in range(2))
    assert min(first, second) > 0.8 * max(first, second) > 0  # buffers count both times
    kept = []
    assert staging.peak(lambda x: kept.append(x + 1.0), (np.ones(size),)) >= 16 * size


def test_staging_counts_its_equations():
    assert staging.staged(100)["equations"] == 100


def test_loops_over_elements_give_the_same_both_ways(capsys, monkeypatch):
    monkeypatch.setattr(element_loops, "ROUNDS", 1)
    element_loops.main(count=20, characters=4, compiled=(5,))  # also compares the results
    assert len(capsys.readouterr().out.splitlines()) == 10
    lstm = element_loops._of_lstm(2, 5)
    assert lstm["f"]() > 0 and [g.shape for g in lstm["gradient"]()] == [(4, 56), (3, 14)]


def test_python_loops_are_their_scans(monkeypatch):
    monkeypatch.setattr(python_loops, "ROUNDS", 1)
    assert len(python_loops.CASES) == 12
    case = python_loops.Case(python_loops.driven, (np.linspace(0.0, 1.0, 60), 0.3))
    assert python_loops.measured(case).difference < 1e-12


@pytest.mark.slow
def test_command_line(capsys):
    options = command.options(["newton", "--quick", "--json", "--library", "none"])
    assert {case.name.partition(" ")[0] for case in suite.wanted(options)} == {"Newton"}
    assert not any(case.large for case in suite.wanted(command.options([])))
    given = "--only gradients --only memory --quick --json --library none"
    suite.main(command.options([*given.split(), "rosenbrock 10"]))
    told = json.loads(capsys.readouterr().out)
    assert {found["case"] for found in told["gradients"]} == {"rosenbrock 10", "rosenbrock 1000"}
    assert all(set(found["times"]) == {FUNGRAD, HAND} for found in told["gradients"])
    assert told["verdicts"] and all(isinstance(v["reached"], bool) for v in told["verdicts"])


def test_tables_of_results(tmp_path, capsys):
    times = {FUNGRAD: 2e-3, HAND: 4e-3}
    verdict = {"text": "a bar", "reached": False}
    run = {"machine": "m", "gradients": [row("a", cases.ARRAYS, **times)], "verdicts": [verdict]}
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(run))
    tables.main(str(path))
    printed = capsys.readouterr().out
    assert "| a | 4 | 2 |  | 0.50 (0.50) |  |" in printed
    assert "| a bar | missed |" in printed


def test_derivatives_of_adbench_by_hand():
    free = workloads.gmm(3, 4, 6)
    x = free["x"]
    free = {name: free[name] for name in gmm.FREE}
    calls = {
        "fungrad": lambda: fg.grad(gmm.objective)(free, x, 2, 0.7),
        "by hand": lambda: adbench.gmm_by_hand(free, x, 2, 0.7),
    }
    adbench.agree(calls)
    arguments = ba.decoded(workloads.ba(2, 3, 5))
    calls = {
        "fungrad": lambda: ba.entries(*arguments),
        "by hand": lambda: adbench.ba_by_hand(*arguments),
    }
    adbench.agree(calls)
    arguments = tuple(workloads.lstm(2, 4, 3).values())
    calls = {
        "fungrad": lambda: lstm.gradient(*arguments),
        "by hand": lambda: adbench.lstm_by_hand(*arguments),
    }
    adbench.agree(calls)


@pytest.mark.parametrize("simple", [True, False])
def test_derivatives_of_a_hand_by_hand(simple):
    given = workloads.ht(12, 5, simple)
    data, us = given["data"], np.asarray(given["us"]).reshape(-1, 2)
    arguments = given["theta"], us, data["model"], data, tuple(data["model"]["parents"])
    calls = {
        "fungrad": lambda: ht.jacobian(*arguments, False),
        "by hand": lambda: adbench.ht_by_hand(*arguments),
    }
    adbench.agree(calls)
