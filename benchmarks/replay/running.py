"""Records, checks and serves a corpus: what the commands do, with the fungrad that is imported."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import platform
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

import fungrad as fg
from benchmarks.replay import corpus
from benchmarks.replay.comparing import Report
from benchmarks.replay.corpus import Entry, Reader, Unreadable
from benchmarks.replay.observing import COMPILED, MODES, THREADS, flat, observe, primitives

Choice = Callable[[Sequence[str]], list[str]]
Load = Callable[[], Any]
CLEAR = 50
"""Programs between two times that what is compiled is forgotten."""


def record(where: str, choice: Choice, groups: Collection[str] = ()) -> None:
    """Writes a corpus of the programs that are chosen, of all groups or of some, and prints what
    it holds.
    """
    programs = importlib.import_module("benchmarks.replay.programs")
    path, start = corpus.path_of(where), time.process_time()
    importlib.import_module("benchmarks.replay.functions")
    writer = corpus.Writer(path, about())
    left_out: Counter[str] = Counter()
    staged_again, seen = [], set[str]()
    for count, program in enumerate(programs.programs(groups or programs.GROUPS), 1):
        if not choice([program.name]):
            continue
        if program.function is None:
            left_out[program.error] += 1
            continue
        try:
            exported, inputs = flat(program.function, program.args)
        except Exception as error:  # counted and said: the program is none that can be staged
            left_out[f"{type(error).__name__}: {str(error)[:80]}"] += 1
            continue
        seen |= primitives(exported.graph)
        try:
            content = corpus.saved(exported)
        except fg.errors.ArgumentError as error:  # it holds rules or callbacks of Python's
            if not program.quick:
                left_out[str(error).partition(", because ")[2].partition(" at ")[0]] += 1
                continue
            content = b""
            staged_again.append(program.name)
        entry = Entry(program.name, content, inputs, {})
        load = _from_file(entry) if content else _staged(program)
        assert load is not None, program.name  # it was written just now
        entry.observed = {mode: observe(load, inputs, mode) for mode in MODES}
        writer.add(entry)
        if count % CLEAR == 0:
            fg.clear_caches()
    missing = sorted(corpus.declared().keys() - seen)
    writer.index |= {"left out": left_out, "missing primitives": missing}
    writer.close()
    groups = Counter(item["name"].partition("/")[0] for item in writer.index["entries"])
    size, took = path.stat().st_size / 2**20, time.process_time() - start
    print(f"{groups.total()} Graphs in {path}, {size:.1f} MiB, {took:.0f} s of CPU")
    print(", ".join(f"{group} {count}" for group, count in groups.items()))
    print(f"{len(seen)} primitives; {len(missing)} are not among them: {', '.join(missing[:20])}")
    print(f"held as programs, for they cannot be saved: {len(staged_again)}")
    print(f"left out: {left_out.total()}")
    for reason, count in left_out.most_common():
        print(f"  {count}: {reason}")


def about() -> dict[str, Any]:
    """What a recording depends on."""
    root = Path(fg.__file__).parents[2]
    asked = ["git", "-C", str(root), "rev-parse", "HEAD"]
    revision = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "revision": revision,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": THREADS,
    }


def check(where: str, choice: Choice, modes: Sequence[str], restage: bool = False) -> Report:
    """Compiles the Graphs of a corpus again and compares what they give.

    Args:
      where: the corpus.
      choice: which of its names are checked.
      modes: which ways to run them.
      restage: whether all are staged from their programs again, in place of what was saved.
    """
    reader, report = Reader(corpus.path_of(where)), Report()
    importlib.import_module("benchmarks.replay.functions")  # it declares a primitive
    for count, name in enumerate(choice(reader.names), 1):
        entry = reader.entry(name)
        load = None if restage or not entry.graph else _from_file(entry)
        if load is None:
            program = _program(name)
            report.restaged.append(name)
            if program is None or program.function is None:
                report.lost.append(name)
                continue
            load = _staged(program)
        for mode in modes:
            report.add(name, mode, entry.observed[mode], observe(load, entry.inputs, mode))
        if count % CLEAR == 0:
            fg.clear_caches()
    return report


def serve(where: str, asked: TextIO, told: TextIO) -> None:
    """Answers names with the CPU times of compiling and running that Graph; null with all names.

    What it cannot run has no times. Times are those of one process: `compare` asks two in turns.
    """
    reader = Reader(corpus.path_of(where))
    importlib.import_module("benchmarks.replay.functions")
    for line in asked:
        name = json.loads(line)
        answer: dict[str, Any] = {"names": reader.names}
        if name is not None:
            answer = {}
            entry = reader.entry(name)
            load = _from_file(entry) if entry.graph else None
            seen = observe(load, entry.inputs, COMPILED) if load else None
            if seen is not None and not seen.error:
                text = b"".join(np.asarray(x).tobytes() for x in seen.outputs)
                answer = {key: seen.facts[key] for key in ("compile", "run")}
                answer["hash"] = int(hashlib.sha256(text).hexdigest()[:12], 16)
        told.write(json.dumps(answer) + "\n")
        told.flush()


def _from_file(entry: Entry) -> Load | None:
    """What loads the Graph of an entry, anew at each call; None where this fungrad cannot."""
    try:
        corpus.loaded(entry.graph)
    except Unreadable:
        return None
    return lambda: corpus.loaded(entry.graph)


def _staged(program: Any) -> Load:
    return lambda: flat(program.function, program.args)[0]


def _program(name: str) -> Any:
    """The program of a name, where there still is one."""
    group = name.partition("/")[0]
    return _programs(group).get(name)


@functools.cache
def _programs(group: str) -> dict[str, Any]:
    made = importlib.import_module("benchmarks.replay.programs").programs([group])
    return {program.name: program for program in made}


__all__ = ["MODES", "check", "record", "serve"]
