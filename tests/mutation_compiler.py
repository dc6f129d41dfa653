"""Breaks the compiler in one place at a time, and asks whether the tests of that place notice.

    python -m tests.mutation_compiler                    every mutant; exit status 1 if one survives
    python -m tests.mutation_compiler --only shelf pool  those with such words in their names
    python -m tests.mutation_compiler --list             their names
    python -m tests.mutation_compiler --alive            those that are known to survive, instead
    python -m tests.mutation_compiler --self-check       what the compiler itself notices of them

A mutant is a copy of the package with one snippet of its source replaced: a guard dropped, operands
swapped, a bound off by one, a buffer used again too early. The tests that have to fail with it are
named beside it, in mutants_passes.py, mutants_backend.py and mutants_native.py; mutants_alive.py
has those that no test notices, and why.
"""

from __future__ import annotations

import argparse
import ast
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "src" / "fungrad"
SUPPORT = str(HERE / "support")
if SUPPORT not in sys.path:
    sys.path.insert(0, SUPPORT)

from mutants import Mutant  # noqa: E402
from mutants_alive import ALIVE  # noqa: E402
from mutants_backend import MUTANTS as OF_BACKEND  # noqa: E402
from mutants_native import MUTANTS as OF_NATIVE  # noqa: E402
from mutants_passes import MUTANTS as OF_PASSES  # noqa: E402

MUTANTS: tuple[Mutant, ...] = (*OF_PASSES, *OF_BACKEND, *OF_NATIVE)
SLOW = (
    "longer_than_pythons_stack", "reductions_of_two_ufuncs", "in_any_program", "long_step",
    "second_derivatives", "random_programs", "more_equations_than_python_calls", "with_the_hessian",
)  # fmt: skip
"""Words in the names of tests that take seconds, and find nothing that quicker ones do not."""
MEANT = ("intended_rounding_is_lost",)
"""The same of tests of programs that `reassociate` changes by far, as it says."""
RUN_AS_PROGRAMS = {
    "test_optimise.py::test_rule": "test_optimise.py::test_a_rule_in_compiled_programs",
}
"""Tests that walk the Graphs of a pass, and those that run the same as compiled programs: what the
self-check notices is seen in these alone.
"""
SECONDS = 60
"""A mutant whose tests take more CPU time has sent them into a loop: they have noticed it."""
WAIT = 900
"""The same of tests that wait for something that does not happen."""
_RUN = """
import resource, sys, fungrad, pytest
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
assert fungrad.__file__.startswith(sys.argv[1]), fungrad.__file__
sys.exit(pytest.main(sys.argv[3:]))
"""


class NotRun(Exception):
    """The tests did not run to an end, so that they say nothing."""


def found(mutant: Mutant) -> int:
    """How often the source has the snippet."""
    return (PACKAGE / mutant.file).read_text(encoding="utf-8").count(mutant.old)


@functools.cache
def file_of(name: str) -> Path:
    """The file of tests of this name, in whichever folder it is."""
    return next(HERE.rglob(name), HERE / name)


@functools.cache
def functions(file: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse(file_of(file).read_text(encoding="utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))


def node(test: str) -> str:
    """The full name of a test for pytest."""
    file, separator, name = test.partition("::")
    return f"{file_of(file)}{separator}{name}"


def missing(mutant: Mutant) -> list[str]:
    """The tests that are named but not there."""
    parts = [test.split("[")[0].partition("::") for test in mutant.tests]
    return [
        f"{file}::{name}"
        for file, _, name in parts
        if not file_of(file).exists() or (name and name not in functions(file))
    ]


@contextmanager
def package(mutant: Mutant | None = None) -> Iterator[Path]:
    """A folder with a copy of the package, in which the mutant is applied."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder) / "fungrad"
        # With its byte code, but that which is just being written; the mutant's is too old.
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.pyc.*"))
        if mutant is not None:
            file = copy / mutant.file
            file.write_text(file.read_text(encoding="utf-8").replace(mutant.old, mutant.new))
        yield Path(folder)


def passes(folder: Path, tests: Sequence[str]) -> bool:
    """Whether tests pass with the package in a folder, in SECONDS for each file.

    Raises:
      NotRun: where pytest ended otherwise than with tests that passed or failed.
    """
    options = ["-q", "-x", "-p", "no:cacheprovider", "-o", "addopts="]
    options += ["-k", f"not ({' or '.join(SLOW)})"]
    nodes = [node(test) for test in tests]
    command = [sys.executable, "-c", _RUN, str(folder), str(SECONDS * len(tests)), *options, *nodes]
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # loading them takes seconds
    try:
        done = subprocess.run(
            command, cwd=HERE.parent, env=environment, capture_output=True, text=True,
            timeout=WAIT * len(tests), check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    if done.returncode < 0:
        return False  # native code that crashes, and loops that do not end, are noticed, too
    if done.returncode not in (0, 1):
        raise NotRun(f"{' '.join(tests)}: {done.stdout[-3000:]}{done.stderr[-1000:]}")
    return done.returncode == 0


def noticed(mutant: Mutant) -> dict[str, Any] | None:
    """What the self-check of the compiler finds in the tests of a mutant that changes what runs
    when its module is imported: the number of its alarms, and of runs of programs with plainly
    wrong numbers (`self_check_watch`). None if the tests crash.
    """
    with package(mutant) as folder:
        counts = folder / "counts"
        options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-p", "self_check_watch"]
        options += ["-k", f"not ({' or '.join((*SLOW, *MEANT))})"]
        nodes = [node(test) for test in mutant.tests]
        paths = [str(folder), SUPPORT, os.environ.get("PYTHONPATH", "")]
        path = os.pathsep.join(filter(None, paths))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"SELF_CHECK_COUNTS": str(counts), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        seconds = str(4 * SECONDS * len(nodes))
        subprocess.run(
            [sys.executable, "-c", _RUN, str(folder), seconds, *options, *nodes],
            cwd=HERE.parent, env=environment, capture_output=True, timeout=WAIT * len(nodes),
            check=False,
        )  # fmt: skip
        found: dict[str, Any] | None = (
            ast.literal_eval(counts.read_text(encoding="utf-8")) if counts.exists() else None
        )
        return found


def run_as_programs(mutant: Mutant) -> Mutant:
    """The mutant with the tests that run its programs, first."""
    more = [RUN_AS_PROGRAMS[test] for test in mutant.tests if test in RUN_AS_PROGRAMS]
    return mutant._replace(tests=(*more, *mutant.tests))


def check_the_self_check(mutants: Sequence[Mutant]) -> int:
    """Prints what the self-check notices of each mutant: in forks of one process, some seconds of
    CPU time each. The status is 1 if it notices less than 90 % of those with wrong numbers.
    """
    os.environ |= {"FUNGRAD_STRICT": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    import pytest  # the tests' modules are imported in this process
    from self_check_runs import Runs

    count: Counter[str] = Counter()
    mutants = [run_as_programs(mutant) for mutant in mutants]

    def report(mutant: Mutant, found: dict[str, Any] | None) -> None:
        if found is not None and found["end"] == "import":
            found = noticed(mutant)
        if found is None or found.get("end") == "crash":
            word = "CRASHED "
        elif found["alarms"]:
            word = "noticed "
        else:
            word = "MISSED  " if found["wrong"] else "no wrong"
        count[word] += 1
        print(word, mutant.name, found, flush=True)

    files = sorted({test.partition("::")[0].split("[")[0] for m in mutants for test in m.tests})
    options = ["-qq", "-s", "-p", "no:cacheprovider", "-o", "addopts=", "-p", "self_check_watch"]
    pytest.main([*options, *map(node, files)], plugins=[Runs(mutants, report, (*SLOW, *MEANT))])
    print(", ".join(f"{word.strip()} {n}" for word, n in count.items()))
    return 0 if count["noticed "] >= 9 * count["MISSED  "] else 1


def killed(mutant: Mutant) -> bool:
    """Whether the tests of a mutant fail with it."""
    with package(mutant) as folder:
        return not passes(folder, mutant.tests)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation_compiler")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="mutants with one of these words")
    parser.add_argument("--jobs", type=int, default=1, help="how many run at once")
    parser.add_argument("--alive", action="store_true", help="those that are known to survive")
    parser.add_argument(
        "--self-check", action="store_true", help="what the compiler's self-check notices"
    )
    parser.add_argument("--list", action="store_true", help="only say what there is")
    return parser.parse_args()


def main() -> int:
    """Runs the table, or a part of it."""
    given = _arguments()
    chosen = [m for m in MUTANTS if not given.only or any(w in m.name for w in given.only)]
    chosen = [m for m in chosen if (m.name in ALIVE) is given.alive]
    if given.list:
        print("\n".join(": ".join(filter(None, (m.name, ALIVE.get(m.name)))) for m in chosen))
        return 0
    if given.self_check:
        return check_the_self_check(chosen)
    tests = sorted({test for m in chosen for test in m.tests})
    with package() as folder:  # tests that fail anyway would notice nothing
        if not passes(folder, tests):
            print("The tests fail without a mutant.")
            return 2
    survived = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for mutant, dead in zip(chosen, pool.map(killed, chosen), strict=True):
            print("killed  " if dead else "SURVIVED", mutant.name, flush=True)
            survived += [] if dead else [mutant.name]
    print(f"{len(chosen)} mutants, {len(survived)} survived")
    return 1 if survived or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
