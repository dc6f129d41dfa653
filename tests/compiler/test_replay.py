"""Process replay: a corpus is recorded and checked, and differences are reported."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import fungrad as fg

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks is no part of the package

from benchmarks.replay import __main__ as command  # noqa: E402
from benchmarks.replay import comparing, corpus, functions, harvest, observing  # noqa: E402
from benchmarks.replay.corpus import Observation  # noqa: E402

FIVE = (
    "functions/chain 10, gradient",
    "functions/summed, gradient",
    "functions/growing of a number, gradient",
    "functions/holomorphic, value",
    "functions/ruled, gradient",
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "five.zip"
    assert command.main(["record", str(path), *FIVE]) == 0
    return path


@pytest.fixture(autouse=True)
def threads_as_before():
    before = fg.config.num_threads
    yield
    fg.config.num_threads = before


def rewritten(path, target, change):
    """A copy of a corpus with some members changed."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return str(target)


def outputs(path, mode):
    """Where the first output of the first Graph stands in a mode."""
    entry = json.loads(zipfile.ZipFile(path).read(corpus.INDEX))["entries"][0]
    return entry["observed"][mode]["outputs"][0]


def test_what_is_recorded_checks_clean(recorded, capsys):
    assert command.main(["check", str(recorded)]) == 0
    told = capsys.readouterr().out
    for mode in observing.MODES:
        assert f"{mode}: 5 of 5 are the same bits" in told
    assert "staged again from their programs: 1\n  functions/ruled, gradient" in told
    assert "jit, CPU time to compile: " in told and "differences" not in told


def test_a_recording_holds_values_that_are_right(recorded):
    entry = corpus.Reader(recorded).entry("functions/chain 10, gradient")
    (x,) = entry.inputs
    slope = fg.grad(lambda x: functions.chain(x) ** 2)(x)
    for mode, seen in entry.observed.items():
        np.testing.assert_allclose(seen.outputs[0], slope, rtol=1e-12, err_msg=mode)
        assert seen.error == "" and seen.warnings == []
    facts = entry.observed["jit"].facts
    assert facts["equations"] > 5 and facts["text"] > 100 and min(facts.values()) > 0
    assert entry.observed["evaluated"].facts["equations"] > facts["equations"]


def test_a_damaged_output_is_reported(recorded, tmp_path, capsys):
    where = outputs(recorded, "jit")

    def one_bit(name, content):
        return content[:-8] + bytes([content[-8] ^ 1]) + content[-7:] if name == where else content

    path = rewritten(recorded, tmp_path / "damaged.zip", one_bit)
    assert command.main(["check", path, "--mode", "jit"]) == 1
    told = capsys.readouterr().out
    assert "jit: 4 of 5 are the same bits" in told
    assert f"{FIVE[0]} [jit]: output 0, float64[10]: 1 of 10 differ, by 1 ulp" in told
    assert command.main(["check", path, "--mode", "jit", "--ulp", "1"]) == 0
    assert command.main(["check", path, "summed", "--mode", "jit"]) == 0


def test_another_error_other_warnings_and_other_types_are_reported():
    old = Observation([np.zeros(2)], warnings=["RuntimeWarning: overflow"], facts={"run": 1.0})
    report = comparing.Report()
    report.add("a", "jit", old, Observation(error="ValueError: no"))
    report.add("b", "jit", old, Observation([np.zeros(2, np.float32)]))
    report.add("c", "jit", old, Observation([np.zeros(2)], facts={"run": 2.0}))
    told = "\n".join(report.lines())
    assert "a [jit]: no error before, ValueError: no now" in told
    assert "b [jit]: output 0 is float32[2], was float64[2]" in told
    assert "c [jit]: gone: RuntimeWarning: overflow" in told
    assert "jit: 1 of 3 are the same bits" in told and "run: 2.000 of" in told


def test_distances():
    x = np.array([1.0, 1e-8, np.nan, np.inf])
    assert comparing.distance(x, x.copy()) == (0, 0.0, 0.0)
    y = np.array([1.0, np.nextafter(1e-8, 1.0), np.nan, np.inf])
    count, each, largest = comparing.distance(x, y)
    assert (count, each) == (1, 1.0) and 0.0 < largest < 1e-7
    assert comparing.distance(np.array([0.0]), np.array([-0.0]))[0] == 1
    assert comparing.distance(np.array([1.0]), np.array([np.nan])) == (1, np.inf, np.inf)
    assert comparing.distance(x + 1j, y + 1j)[:2] == (1, 1.0)
    assert comparing.distance(np.array([1, 2]), np.array([1, 3])) == (1, np.inf, np.inf)


def renamed(path, target, old, new):
    """A copy of a corpus with other words in its Graphs."""

    def graph(name, content):
        if not name.startswith("graphs/") or not content:
            return content
        inner = [target.with_suffix(end) for end in (".old", ".new")]
        inner[0].write_bytes(content)
        rewritten(*inner, lambda name, text: text.replace(old, new))
        return inner[1].read_bytes()

    return rewritten(path, target, graph)


def test_primitives_are_found_where_they_are_declared_today(recorded, tmp_path, capsys):
    path = renamed(recorded, tmp_path / "moved.zip", b'"fungrad.', b'"fungrad.attic.')
    assert command.main(["check", path, "--mode", "jit"]) == 0
    assert "staged again from their programs: 1" in capsys.readouterr().out


def test_a_graph_that_cannot_be_read_is_staged_again(recorded, tmp_path, capsys):
    path = renamed(recorded, tmp_path / "lost.zip", b'"mul"', b'"no_such"')
    assert command.main(["check", path]) == 0
    assert "staged again from their programs: 5" in capsys.readouterr().out


def test_a_part_of_a_corpus():
    names = [f"functions/{i}" for i in range(600)]
    quick = command.chosen(names, ["functions"], True)
    assert 60 < len(quick) < 140 and quick == command.chosen(names, [], True)
    assert command.chosen(names, ["/59", "/7"], False)[0] == "functions/7"
    assert command.chosen(names, ["samples"], False) == []


def test_graphs_are_taken_while_code_runs():
    f = fg.jit(lambda x: fg.lax.scan(lambda c, w: (c * w, c), 1.0, x)[0] + np.sum(np.sin(x)))
    (found,) = harvest.harvested(lambda: f(np.arange(1.0, 4.0)))
    graph, args = found
    np.testing.assert_allclose(fg.evaluate(graph, *args), [f(np.arange(1.0, 4.0))])
    assert harvest.harvested(lambda: fg.grad(np.sin)(1.0)) == []


@pytest.mark.slow
def test_two_source_trees_in_turns(recorded, capsys):
    src = str(Path(fg.__file__).parents[1])
    asked = ["compare", src, str(recorded), "chain", "ruled", "--rounds", "1"]
    assert command.main(asked) == 0
    told = capsys.readouterr().out
    assert "CPU time to run, new by old: " in told and "geometric mean of 1" in told
    assert "other bits: 0; left out, for one tree cannot run them: 1" in told
