"""The wire protocol of GradBench: one JSON document a line in, one with the same id out.

What an evaluation raises is answered with `success` false and the text of the error; the tool goes
on. Decoding and encoding stay outside the clock, tracing and planning inside: the first repetition
pays for them.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO

EVALS = (
    "hello", "lse", "llsq", "ode", "kmeans", "gmm", "lstm", "ba", "ht", "det", "particle", "saddle",
)  # fmt: skip

Run = Callable[[], Any]
Prepared = tuple[Run, Callable[[Any], Any]]


def functions_of(name: str) -> Mapping[str, Callable[[Any], Prepared]]:
    """The functions of an eval; ValueError where there is no such eval."""
    if name not in EVALS:
        raise ValueError(f"there is no eval {name!r}; those that are: {', '.join(EVALS)}")
    return importlib.import_module(f"benchmarks.gradbench.{name}").FUNCTIONS


def repeat(run: Run, min_runs: int, min_seconds: float) -> tuple[Any, list[int]]:
    """The result, and the nanoseconds of each repetition: as many as are asked for."""
    times: list[int] = []
    while True:
        start = time.perf_counter_ns()
        result = run()
        times.append(time.perf_counter_ns() - start)
        if len(times) >= min_runs and sum(times) >= min_seconds * 1e9:
            return result, times


def evaluate(message: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to an `evaluate` message, without its id."""
    functions = functions_of(message["module"])
    if message["function"] not in functions:
        raise ValueError(
            f"the eval {message['module']!r} has no function {message['function']!r}; "
            f"those that are: {', '.join(functions)}"
        )
    given = message["input"]
    asked = given if isinstance(given, dict) else {}
    run, encode = functions[message["function"]](given)
    result, times = repeat(run, asked.get("min_runs", 1), asked.get("min_seconds", 0.0))
    timings = [{"name": "evaluate", "nanoseconds": t} for t in times]
    return {"success": True, "output": encode(result), "timings": timings}


def answer(message: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one message."""
    kind = message.get("kind")
    reply: dict[str, Any] = {"id": message["id"]}
    if kind == "start":
        return reply | {"tool": "fungrad"}
    if kind not in ("define", "evaluate"):
        return reply
    # The protocol has a place for errors, so they go there, whatever they are, and to stderr.
    try:
        if kind == "evaluate":
            return reply | evaluate(message)
        functions_of(message["module"])
    except Exception as error:
        traceback.print_exc()
        return reply | {"success": False, "error": f"{type(error).__name__}: {error}"}
    return reply | {"success": True}


def serve(incoming: TextIO, outgoing: TextIO) -> None:
    """Answers until the input ends."""
    for line in incoming:
        outgoing.write(json.dumps(answer(json.loads(line))) + "\n")
        outgoing.flush()


def main() -> None:
    """Serves stdin and stdout; stray prints go to stderr."""
    outgoing, sys.stdout = sys.stdout, sys.stderr
    serve(sys.stdin, outgoing)
