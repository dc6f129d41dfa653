"""The table of mutants of the compiler fits the source, and the tests notice some of them."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import Counter

import patched_code
import pytest
from mutation_compiler import (
    ALIVE,
    HERE,
    MUTANTS,
    NotRun,
    found,
    killed,
    missing,
    package,
    passes,
)

ERROR_FUNCTION = "runtime/kernels: the error function of -0.0 is 0.0"
# The quickest of several parts: all of them take minutes, see CONTRIBUTING.md.
QUICK = (
    "native/scratch_layout: arrays that are live at one time share memory",
    "loops/reroll: exponents are numbers as others",
)
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def test_each_snippet_stands_in_the_source_once():
    assert [(m.name, found(m)) for m in MUTANTS if found(m) != 1] == []


def test_the_tests_of_each_mutant_are_there():
    assert {m.name: missing(m) for m in MUTANTS if missing(m)} == {}
    assert [m.name for m in MUTANTS if not m.tests] == []


def test_each_mutant_is_another_program():
    assert [name for name, count in Counter(m.name for m in MUTANTS).items() if count > 1] == []
    assert [m.name for m in MUTANTS if m.old == m.new] == []
    assert set(ALIVE) <= set(BY_NAME)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_mutant_is_killed(name):
    assert killed(BY_NAME[name])


@pytest.mark.slow
def test_what_is_no_mutant_survives():
    mutant = BY_NAME[ERROR_FUNCTION]
    tests = ("test_reroll.py::test_items_of_arrays",)
    assert not killed(mutant._replace(new=mutant.old, tests=tests))


@pytest.mark.slow
def test_tests_that_do_not_run_say_nothing():
    with package() as folder, pytest.raises(NotRun):
        passes(folder, ("test_buffers.py::test_that_is_not_there",))


def test_the_code_of_functions_is_exchanged(tmp_path, monkeypatch):
    """In place, also of a function that another one has made; not what an import computes."""
    (tmp_path / "broken.py").write_text(
        "TABLE = {1: 2}\ndef outer(n):\n    def inner(x):\n        return x + n\n    return inner\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import broken

    file, made = str(tmp_path / "broken.py"), broken.outer(3)
    frozen = gc.get_freeze_count()
    assert patched_code.apply(file, "x + n", "x - n") == 2
    assert gc.get_freeze_count() >= frozen > 0
    assert made(1) == broken.outer(3)(1) == -2
    with pytest.raises(patched_code.NotInFunctions):
        patched_code.apply(file, "1: 2", "1: 3")


@pytest.mark.slow
def test_the_self_check_notices_a_mutant_in_a_fork():
    name = "shapes_and_constants: a part is subtracted without its sign"
    command = [sys.executable, "-m", "tests.mutation_compiler", "--self-check", "--only", name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent, check=False)
    assert "noticed" in done.stdout and done.returncode == 0
