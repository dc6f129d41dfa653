"""Replays recorded sessions of GradBench: `python -m benchmarks.gradbench.replay FILE...`.

The arguments are recordings: lines of JSON, `{"message": ...}` and `{"response": ...}` in turn,
gzipped or not. Outputs are compared to a relative 1e-12; NaN and infinities are refused. GradBench
itself compares to 1e-4, and lets NaN pass.
"""

from __future__ import annotations

import gzip
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.gradbench.server import answer

TOLERANCE = 1e-12
# The recorded gradient of `ode` is that of the exact solution. Runge and Kutta's differs by 3e-7
# there, of a largest entry of 7e-5 (tests/interop/test_gradbench.py has the method's own).
LIMITS = {("ode", "gradient"): 5e-3}


def differences(got: Any, want: Any, where: str = "output") -> Iterator[tuple[str, float]]:
    """Where the numbers of two JSON values stand and how far apart they are, by magnitude.

    The scale of a number is its own magnitude, and at least 1e-3 of the largest in its list.
    """
    if isinstance(want, dict):
        if not isinstance(got, dict) or set(got) != set(want):
            raise ValueError(f"{where}: an object with the keys {sorted(want)} was expected")
        for key, value in want.items():
            yield from differences(got[key], value, f"{where}.{key}")
    elif isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            raise ValueError(f"{where}: a list of {len(want)} was expected")
        largest = max((abs(w) for w in want if not isinstance(w, list | dict)), default=0.0)
        for n, (a, b) in enumerate(zip(got, want, strict=True)):
            if isinstance(b, list | dict):
                yield from differences(a, b, f"{where}[{n}]")
            else:
                yield f"{where}[{n}]", distance(a, b, 1e-3 * largest, f"{where}[{n}]")
    else:
        yield where, distance(got, want, 0.0, where)


def distance(got: Any, want: Any, floor: float, where: str) -> float:
    """|got - want| by the magnitude of want; ValueError where one is no finite number."""
    for number in (got, want):
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError(f"{where}: a number was expected, not {number!r}")
        if not math.isfinite(number):
            raise ValueError(f"{where}: {number} is not finite")
    return abs(got - want) / max(abs(want), floor, 1e-300)


def session(path: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The messages and responses of a recording."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = [json.loads(line) for line in text.splitlines()]
    for message, response in zip(lines[0::2], lines[1::2], strict=True):
        yield message["message"], response["response"]


def replay(
    path: Path, respond: Callable[[dict[str, Any]], dict[str, Any]] = answer
) -> list[tuple[str, float, str]]:
    """The worst difference of each evaluation: its name, the difference and the place.

    Raises ValueError where a response has another shape, is late, or says that it failed.
    """
    worst = []
    for message, response in session(path):
        reply = respond(message)
        if reply["id"] != message["id"] or reply.get("success") != response.get("success"):
            raise ValueError(f"{path.name}: {reply.get('error', reply)}")
        if message["kind"] != "evaluate":
            continue
        given = message["input"] if isinstance(message["input"], dict) else {}
        times = [t["nanoseconds"] for t in reply["timings"] if t["name"] == "evaluate"]
        if len(times) < given.get("min_runs", 1) or sum(times) < given.get("min_seconds", 0) * 1e9:
            raise ValueError(f"{path.name}: fewer or shorter repetitions than were asked for")
        found = max(differences(reply["output"], response["output"]), key=lambda found: found[1])
        worst.append((message["function"], found[1], found[0]))
    return worst


def main() -> None:
    """Prints a line for each evaluation; exits with 1 where one differs too much."""
    failed = False
    for name in sys.argv[1:]:
        path = Path(name)
        for function, difference, where in replay(path):
            module = path.name.partition(".")[0]
            limit = LIMITS.get((module, function), TOLERANCE)
            failed |= difference > limit
            verdict = "ok" if difference <= limit else "DIFFERS"
            print(f"{verdict:8}{module:10}{function:10}{difference:9.1e}  {where}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
