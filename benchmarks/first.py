"""The time of a new process to its first gradient, and of imports.

The child (`first_child`) prints when the result was there, an ndarray, how long what is left out
took, and its peak of memory. The parent counts from before the start of the process: the
interpreter and all imports are in it. The first turn of each library is not counted: it leaves
the bytecode of all modules, as an installed package has it, and their files in memory.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks import libraries

IMPORTED = ("numpy", "fungrad", "autograd", "jax", "torch")
CHILD = "import sys; from benchmarks.first_child import main; main(*sys.argv[1:])"


def first(name: str, label: str) -> dict[str, float]:
    """Seconds to the first gradient of a case in a library, and the process's peak in KiB."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", CHILD, name, label]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    ready, making, peak = map(float, done.stdout.split())
    return {"seconds": ready - start - making, "peak_kib": peak}


def compared(names: list[str], label: str, rounds: int) -> dict[str, Any]:
    """Medians of processes that take turns, behind a turn that does not count."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(1 + rounds):
        for name in names:
            found[name].append(first(name, label))
    return {
        name: {key: statistics.median(run[key] for run in runs[1:]) for key in runs[0]}
        for name, runs in found.items()
    }


def imports(rounds: int) -> dict[str, float]:
    """The median wall time of `python -c "import ..."`, for installed packages."""
    names = [name for name in IMPORTED if libraries.importable(name)]
    found: dict[str, list[float]] = {name: [] for name in ("nothing", *names)}
    for _ in range(rounds):
        for name, times in found.items():
            start = time.perf_counter()
            text = "pass" if name == "nothing" else f"import {name}"
            subprocess.run([sys.executable, "-c", text], check=True)
            times.append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in found.items()}
