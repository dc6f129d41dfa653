"""Records a corpus of Graphs, checks it with the code at hand, or times two source trees on it."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import replay

QUICK = 6


def chosen(names: Sequence[str], words: Sequence[str], quick: bool) -> list[str]:
    """The names that have one of the words in them; for a quick look one of six, always the same
    ones.
    """
    found = [name for name in names if not words or any(word in name for word in words)]
    return [name for name in found if not quick or zlib.crc32(name.encode()) % QUICK == 0]


def options(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="write a corpus with the code at hand")
    check = commands.add_parser("check", help="compile a corpus again and compare to the bit")
    compare = commands.add_parser("compare", help="time another source tree and this one in turns")
    compare.add_argument("old", help="the other tree's src, as OLD/src")
    serve = commands.add_parser("serve")  # what `compare` starts
    for command in (record, check, compare, serve):
        command.add_argument("file", help="the corpus, or a folder for corpus.zip")
    for command in (record, check, compare):
        command.add_argument("words", nargs="*", help="parts of names; all without any")
        command.add_argument("--quick", action="store_true", help=f"one Graph of {QUICK}")
    check.add_argument("--mode", action="append", help="evaluated, jit or written")
    check.add_argument("--ulp", type=float, default=0.0, help="units of the largest allowed")
    check.add_argument("--show", type=int, default=12, help="how many differences are printed")
    check.add_argument("--restage", action="store_true", help="stage the programs again")
    compare.add_argument("--rounds", type=int, default=3, help="turns of each tree (3)")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Runs a command; 1 where something differs."""
    asked = options(given)
    if asked.command == "compare":
        return compare(asked)
    from benchmarks.replay import running  # it imports fungrad

    if asked.command == "record":
        groups = {word.partition("/")[0] for word in asked.words if "/" in word}
        narrow = all("/" in word for word in asked.words)
        running.record(
            asked.file,
            lambda names: chosen(names, asked.words, asked.quick),
            groups if narrow else (),
        )
        return 0
    if asked.command == "serve":
        running.serve(asked.file, sys.stdin, sys.stdout)
        return 0
    report = running.check(
        asked.file,
        lambda names: chosen(names, asked.words, asked.quick),
        asked.mode or running.MODES,
        asked.restage,
    )
    print("\n".join(report.lines(asked.ulp, asked.show)))
    return int(bool(report.beyond(asked.ulp) or report.lost))


def compare(asked: argparse.Namespace) -> int:
    """Ratios of the CPU times of this source tree to another's, in turns, in two processes."""
    from benchmarks.replay import comparing

    here = Path(replay.__file__).parents[2]
    workers = [_worker(src, here, asked.file) for src in (Path(asked.old), here / "src")]
    names = chosen(_ask(workers[0], None)["names"], asked.words, asked.quick)
    _ask(workers[1], None)
    rows: dict[str, list[tuple[float, str]]] = {"compile": [], "run": []}
    other, skipped = 0, 0
    for name in names:
        best: list[dict[str, Any]] = [{}, {}]
        for _ in range(asked.rounds):
            for found, worker in zip(best, workers, strict=True):
                for key, value in _ask(worker, name).items():
                    found[key] = min(value, found.get(key, value))
        if not all("run" in found for found in best):
            skipped += 1
            continue
        other += best[0]["hash"] != best[1]["hash"]
        for fact, ratios in rows.items():
            ratios.append((best[1][fact] / best[0][fact], name))
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.wait()
    for fact, ratios in rows.items():
        ratios.sort()
        mean = comparing.mean(ratio for ratio, _ in ratios)
        print(f"CPU time to {fact}, new by old: {mean:.3f} in the geometric mean of {len(ratios)}")
        for ratio, name in (*ratios[-8:][::-1], *ratios[:3]):
            print(f"  {ratio:7.2f} {name}")
    print(f"other bits: {other}; left out, for one tree cannot run them: {skipped}")
    return 0


def _worker(src: Path, here: Path, file: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(src.resolve()), str(here)])
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.replay", "serve", str(Path(file).resolve())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=here,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def _ask(worker: subprocess.Popen[str], name: str | None) -> dict[str, Any]:
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write(json.dumps(name) + "\n")
    worker.stdin.flush()
    found: dict[str, Any] = json.loads(worker.stdout.readline())
    return found


if __name__ == "__main__":
    sys.exit(main())
