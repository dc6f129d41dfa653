"""The command line: `python -m tests.fuzz --n N --seed S [--minimise]`."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date

from .campaign import Disagreement, Tally, names_for, share, verdict
from .generate import generate
from .oracles import ORACLES


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--n", type=int, default=1000, help="how many programs")
    parser.add_argument("--seed", default=f"{date.today():%Y%m%d}", help="any word; today's date")
    parser.add_argument("--start", type=int, default=0, help="the number of the first program")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--oracles", type=int, default=2, help="how many a program draws")
    parser.add_argument(
        "--compiler", action="store_true",
        help="only compiled Graphs against the same Graphs, walked: more programs of loops, of "
        "numbers and of large arrays, in less time each",
    )  # fmt: skip
    parser.add_argument(
        "--native", action="store_true",
        help="only native code against the Graphs that it is made of, walked",
    )  # fmt: skip
    parser.add_argument("--minimise", action="store_true", help="minimise disagreements")
    parser.add_argument("--show", type=int, default=10, help="how many disagreements to print")
    parser.add_argument("--program", help="one program, as SEED-NUMBER, by all oracles")
    return parser


def _all(given: argparse.Namespace) -> Tally:
    stop = given.start + given.n
    rest = given.seconds, given.oracles, given.compiler, given.native
    if given.jobs == 1:
        return share(given.seed, given.start, stop, 1, *rest)
    tally = Tally()
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        parts = [
            pool.submit(share, given.seed, given.start + job, stop, given.jobs, *rest)
            for job in range(given.jobs)
        ]
        for part in parts:
            tally.add(part.result())
    return tally


def _single(seed: str, native: bool) -> list[Disagreement]:
    program = generate(seed)
    print(program)
    found = []
    for name in names_for(seed, native) or ORACLES:
        message = verdict(name, program, seed)
        print(f"{name:14} {message or 'ok'}")
        if message:
            found.append(Disagreement(seed, name, message, program))
    return found


def _varied(found: Sequence[Disagreement]) -> list[Disagreement]:
    """One of each oracle and kind first."""
    first = {(d.oracle, d.kind): d for d in reversed(found)}
    return [*first.values(), *(d for d in found if d not in first.values())]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the chosen programs; returns 1 if a result disagrees."""
    given = _parser().parse_args(arguments)
    if given.program:
        found = _single(given.program, given.native)
    else:
        print(f"seed {given.seed}", flush=True)
        tally = _all(given)
        print(tally, flush=True)
        found = tally.found
    for one in _varied(found)[: given.show]:
        print("\n" + str(one.minimised() if given.minimise else one), flush=True)
    for one in _varied(found)[given.show :]:
        print(f"{one.seed} {one.oracle}: {one.message}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
