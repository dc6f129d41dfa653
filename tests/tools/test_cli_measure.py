"""The command line's cost, profile and bench, its programs, completion and progress."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import fungrad as fg
from fungrad.cli import report
from fungrad.cli.parser import SHELLS, parser

FUNCTIONS = """
import numpy as np

def loss(w, x, scale=1.0):
    h = np.tanh(x @ w)
    return scale * np.sum(h ** 2)

def slope(w, x, scale=1.0):
    h = np.tanh(x @ w)
    return x.T @ (2.0 * scale * h * (1.0 - h * h))

def slopes(w, x, scale=1.0):
    return slope(w, x, scale), np.sum(np.tanh(x @ w) ** 2)

def named(w, x, scale=1.0):
    first, second = slopes(w, x, scale)
    return {"scale": second, "w": first}

def wrong(w, x):
    return 1.1 * slope(w, x)

def transposed(w, x):
    return slope(w, x)[:1]

def other(v, x):
    return v

def fails(w, x):
    raise KeyError("lost")

def by_keyword(w, /, *, x):
    return np.sum(x @ w)

def read(x):
    import fungrad as fg
    return x * np.frombuffer(np.asarray(fg.stop_gradient(x)).tobytes())[0]

def text(w, x):
    return "none"
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    path = tmp_path_factory.mktemp("user") / "model.py"
    path.write_text(FUNCTIONS)
    return str(path)


ARGS = ("--arg", "w=[0.1, 0.2, 0.3]", "--arg", "x=[[1, 2, 3], [4, 5, 6]]")


# -- cost -----------------------------------------------------------------------------------------


def test_cost_of_a_function_and_of_its_gradient(run, run_json):
    found = run_json("cost", "FUNC:loss", *ARGS)
    assert found["gradient"] is False and found["cost"]["transcendentals"] == 2
    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    by_hand = fg.jit(lambda w, x, s: s * np.sum(np.tanh(x @ w) ** 2)).lower(np.ones(3), x, 1.0)
    assert found["cost"]["flops"] == by_hand.cost().flops
    gradient = run_json("cost", "FUNC:loss", *ARGS, "--grad")
    assert gradient["gradient"] is True and gradient["cost"]["flops"] > found["cost"]["flops"]
    code, out, err = run("cost", "FUNC:loss", *ARGS, "--grad")
    assert (code, err) == (0, "")
    assert (
        "cost of the gradient with respect to w" in out
        and "dot_general" in out
        and "peak bytes, total" in out
    )


# -- profile --------------------------------------------------------------------------------------


def test_profile_names_the_lines(run, run_json, functions):
    code, out, err = run("profile", "FUNC:loss", *ARGS, "--grad", "--repetitions", "2")
    assert (code, err) == (0, "")
    assert "model.py:5 (loss)" in out and "h = np.tanh(x @ w)" in out and "backward" in out
    found = run_json("profile", "FUNC:loss", *ARGS, "--repetitions", "2")["profile"]
    lines = {row["what"]: row["runs"] for row in found["by_line"]}
    assert f"{functions}:5 (loss)" in lines and found["repetitions"] == 2


def test_profile_explains_where_lines_run(run, run_json):
    code, out, err = run("profile", "FUNC:loss", *ARGS, "--explain", "--repetitions", "2")
    assert (code, err) == (0, "")
    assert "speed of the function" in out and "model.py:5" in out and "what would help" in out
    found = run_json("profile", "FUNC:loss", *ARGS, "--explain", "--repetitions", "2")["profile"]
    assert found["repetitions"] == 2 and all(row["where"] for row in found["lines"])


# -- bench ----------------------------------------------------------------------------------------


def test_bench_compares_the_four(run, run_json):
    code, out, err = run("bench", "FUNC:loss", *ARGS, "--rounds", "2")
    assert (code, err) == (0, "")
    for what in ("function", "gradient", "jit", "jit of gradient"):
        assert any(line.strip().startswith(what) for line in out.splitlines())
    found = run_json("bench", "FUNC:loss", *ARGS, "--rounds", "3")
    assert [row["what"] for row in found["timings"]] == [
        "function", "gradient", "jit", "jit of gradient",
    ]  # fmt: skip
    assert found["rounds"] == 3 and found["timings"][0]["times_the_function"] == 1.0
    for row in found["timings"]:
        assert 0.0 < row["least_seconds"] <= row["seconds"] and row["calls_in_a_row"] >= 1


@pytest.mark.parametrize(
    ("name", "wrt"),
    [("slope", ["w"]), ("slopes", ["w", "scale"]), ("named", ["w", "scale"])],
)
def test_a_gradient_by_hand_is_timed_and_checked(run, run_json, name, wrt):
    command = ["bench", "FUNC:loss", *ARGS, "--arg", "scale=2.0", "--hand", f"FUNC:{name}"]
    command += ["--rounds", "1", *(text for w in wrt for text in ("--wrt", w))]
    found = run_json(*command)
    assert found["timings"][-1]["what"] == "gradient by hand"
    assert found["by_hand"]["passed"] is True and found["by_hand"]["worst_relative_error"] < 1e-12
    code, out, _ = run(*command)
    assert code == 0 and "ok      by hand against the gradient" in out


def test_a_wrong_gradient_by_hand_is_a_failed_check(run, run_json):
    command = ("bench", "FUNC:loss", *ARGS, "--hand", "FUNC:wrong", "--rounds", "1")
    code, out, _ = run(*command)
    assert code == 1 and "FAILED  by hand" in out
    assert run_json(*command, code=1)["by_hand"]["worst_relative_error"] == pytest.approx(0.1)
    assert run(*command, "--tolerance", "0.2")[0] == 0


def test_what_cannot_be_traced_is_timed_without_jit(run, run_json):
    command = ("bench", "FUNC:read", "--arg", "x=1.1", "--rounds", "1")
    code, out, err = run(*command)
    assert (code, err) == (0, "") and "jit cannot be traced" in out
    rows = {row["what"]: row for row in run_json(*command)["timings"]}
    assert "failure" in rows["jit"] and "seconds" in rows["gradient"]


def test_keyword_and_positional_only_arguments(run_json):
    found = run_json("bench", "FUNC:by_keyword", *ARGS, "--rounds", "1")
    assert all("seconds" in row for row in found["timings"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench", "FUNC:gone", *ARGS], "no function 'gone'"),
        (["bench", "FUNC:text", *ARGS], "returned a str"),
        (["bench", "FUNC:loss", *ARGS, "--hand", "FUNC:gone"], "no function 'gone'"),
        (["bench", "FUNC:loss", *ARGS, "--hand", "FUNC:other"], "no argument 'w'"),
        (["bench", "FUNC:loss", *ARGS, "--hand", "FUNC:transposed"], "did not return a gradient"),
        (["bench", "FUNC:loss", *ARGS, "--hand", "FUNC:fails"], "KeyError: 'lost'"),
        (["bench", "FUNC:loss", *ARGS, "--hand", "FUNC:wrong", "--wrt", "scale"],
         "wrong has no argument scale"),
        (["bench", "FUNC:loss", *ARGS, "--rounds", "0"], "whole number of 1 or more"),
        (["profile", "FUNC:loss", *ARGS, "--repetitions", "none"], "whole number of 1 or more"),
        (["cost", "FUNC:read", "--arg", "x=1.1"], "failed while it was being traced"),
        (["profile", "FUNC:read", "--arg", "x=1.1"], "failed while it was being profiled"),
        (["cost", "FUNC:loss"], "needs w, x"),
        (["completion", "tcsh"], "invalid choice"),
        (["completion"], "shell"),
    ],
)  # fmt: skip
def test_bad_input_gives_one_message_and_exit_code_2(run, arguments, said):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert said in err and err.startswith("fungrad") and "Traceback" not in err


@pytest.mark.parametrize("command", ["cost", "profile", "bench", "completion"])
def test_help_has_examples(run, command):
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "") and "examples:" in out and "exit codes:" in out
    assert max(map(len, out.splitlines())) <= 100


def choices():
    """The parsers of the commands, by their names."""
    (commands,) = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return commands.choices


# -- completion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_a_completion_names_every_command_and_option(run, shell):
    pytest.importorskip("shtab")
    code, script, err = run("completion", shell)
    assert (code, err) == (0, "")
    for command, options in choices().items():
        assert command in script
        for action in options._actions:
            for name in (name for name in action.option_strings if name.startswith("--")):
                assert (f"-l {name[2:]}" if shell == "fish" else name) in script
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_completion_without_shtab_names_the_extra(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    code, out, err = run("completion", "bash")
    assert (code, out) == (2, "") and "pip install 'fungrad[cli]'" in err


def completed(script, words, folder):
    """The completions of bash after some words."""
    ask = (
        f"{script}\nCOMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; "
        '_shtab_fungrad; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", ask], capture_output=True, text=True, check=True, cwd=folder
    )
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to ask")
def test_bash_completes(run, tmp_path):
    pytest.importorskip("shtab")
    (tmp_path / "model.py").write_text("def loss(w): ...\n")
    (tmp_path / "data.csv").write_text("")
    _, script, _ = run("completion", "bash")
    assert {"grad", "bench", "completion"} <= set(completed(script, ["fungrad", ""], tmp_path))
    for words, offered in [
        (["fungrad", "pro"], ["profile"]),
        (["fungrad", "bench", "--h"], ["--help", "--hand"]),
        (["fungrad", "completion", "z"], ["zsh"]),
        (["fungrad", "grad", "mo"], ["model.py"]),
        (["fungrad", "bench", "--hand", "mo"], ["model.py"]),
        (["fungrad", "grad", "--order", ""], []),
        (["fungrad", "demo", "--s"], ["--seed"]),
    ]:
        assert sorted(completed(script, words, tmp_path)) == sorted(offered), words


# -- the compiled program --------------------------------------------------------------------------


def test_the_compiled_program_is_printed(run, run_json):
    command = ("ir", "FUNC:loss", *ARGS, "--source")
    code, out, err = run(*command)
    assert (code, err) == (0, "") and out.startswith("def run(")
    assert run_json(*command)["source"] == out.rstrip("\n")


@pytest.mark.parametrize(("option", "name"), [([], "loss"), (["--grad"], "loss_gradient")])
def test_the_program_is_written_as_a_module_of_its_own(run, tmp_path, option, name):
    target = tmp_path / "compiled.py"
    code, out, err = run("ir", "FUNC:loss", *ARGS, *option, "--source", target)
    assert (code, err) == (0, "") and "lines of plain NumPy" in out
    assert "import fungrad" not in target.read_text(encoding="utf-8")
    module = {}
    exec(target.read_text(encoding="utf-8"), module)
    w, x = np.array([0.1, 0.2, 0.3]), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    h = np.tanh(x @ w)
    found = module[name](w, x, 1.0)
    if option:
        np.testing.assert_allclose(found, x.T @ (2.0 * h * (1.0 - h * h)), rtol=1e-12)
    else:
        np.testing.assert_allclose(found, np.sum(h**2), rtol=1e-12)


def test_a_program_that_cannot_be_written(run, tmp_path):
    code, out, err = run("ir", "FUNC:loss", *ARGS, "--source", tmp_path / "gone" / "x.py")
    assert (code, out) == (2, "") and "cannot be written" in err


# -- progress and rich -----------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_for_terminals_only(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with report.progress("working", 2) as advance:
        advance()
    assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize("total", [2, None])
def test_progress_without_rich_clears_its_line(monkeypatch, total):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with contextlib.suppress(KeyError), report.progress("working", total) as advance:
        advance()
        advance()
        raise KeyError
    shown = sys.stderr.getvalue()
    assert ("working 2 of 2" if total else "working 2") in shown
    assert shown.endswith("\r\x1b[2K")


def test_progress_by_rich(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    before = set(threading.enumerate())
    with report.progress("working", 2) as advance:
        advance()
        assert before.issuperset(threading.enumerate())  # none that would be in the times
    assert "working" in sys.stderr.getvalue()


@pytest.mark.slow
def test_rich_renders_the_same_content(functions):
    pytest.importorskip("rich")
    wanted = {"cost": "transcendentals", "profile": "equation by equation", "bench": "jit of"}
    commands = [[name, f"{functions}:loss", *ARGS] for name in wanted]
    commands[-1] += ["--rounds", "1"]
    code = f"from fungrad.cli.main import main\nfor words in {commands}: assert main(words) == 0"
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"COLUMNS": "200"}
    texts = []
    for extra in ({}, {"FORCE_COLOR": "1"}):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment | extra
        )
        assert (done.returncode, done.stderr) == (0, "")
        texts.append(done.stdout)
    assert "\x1b[" not in texts[0] and "\x1b[" in texts[1]
    assert all(words in text for words in wanted.values() for text in texts)


def test_digits_names_the_lines(run, run_json, functions, tmp_path):
    arguments = [
        "digits",
        f"{functions}:loss",
        "--arg",
        "w=[0.5, 0.1]",
        "--arg",
        "x=[[1, 2], [3, 4]]",
    ]
    code, text, err = run(*arguments, "--check", "--plot", str(tmp_path / "digits.svg"))
    assert (code, err) == (0, "")
    assert "expected correct digits" in text and "np.tanh(x @ w)" in text
    assert "check with 60 digits" in text
    assert (tmp_path / "digits.svg").read_text(encoding="utf-8").startswith("<?xml")
    found = run_json(*arguments, "--grad", "--wrt", "w", "--inputs", "4")
    assert found["gradient"] and 2 < found["digits"]["digits"] < 6
