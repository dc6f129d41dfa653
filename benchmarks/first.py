"""What a new process takes to its first gradient: `python -m benchmarks.first LIBRARY CASE`.

The child prints when the result was there, how long it made arguments, and its peak of memory.
The parent counts from before the start of the process: the interpreter and all imports are in it.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks import cases, libraries

IMPORTED = ("numpy", "fungrad", "autograd", "jax", "torch")


def main() -> None:
    """The child."""
    name, label = sys.argv[1:]
    case = next(case for case in cases.ALL if case.name == label)
    start = time.monotonic()
    arguments = case.arguments()
    making = time.monotonic() - start
    libraries.prepared(name, case)(*arguments)
    ready = time.monotonic()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"ready": ready, "making": making, "peak_kib": peak}))


def first(name: str, label: str) -> dict[str, float]:
    """Seconds to the first gradient of a case in a library, and the process's peak in KiB."""
    start = time.monotonic()
    command = [sys.executable, "-m", __name__, name, label]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    return {"seconds": told["ready"] - start - told["making"], "peak_kib": told["peak_kib"]}


def compared(names: list[str], label: str, rounds: int) -> dict[str, Any]:
    """Medians of processes that take turns."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            found[name].append(first(name, label))
    return {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for name, runs in found.items()
    }


def imports(rounds: int) -> dict[str, float]:
    """The median wall time of `python -c "import ..."`, for what is installed."""
    names = [name for name in IMPORTED if libraries.importable(name)]
    found: dict[str, list[float]] = {name: [] for name in ("nothing", *names)}
    for _ in range(rounds):
        for name, times in found.items():
            start = time.perf_counter()
            text = "pass" if name == "nothing" else f"import {name}"
            subprocess.run([sys.executable, "-c", text], check=True)
            times.append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in found.items()}


if __name__ == "__main__":
    main()
