"""Gradients over sizes from 1 to 1e7: `python -m benchmarks.sizes [FILE.json]` measures,
`python -m benchmarks.sizes FILE.json --picture FILE.svg` draws.

Every library computes on one core, in its best form. Times are the least CPU times of one warm
call, in turns. Memory is the peak of a process during the first call at a size, and during the
second, less what it held with the arguments before: after calls at other sizes, so that libraries
and compilers are loaded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np  # noqa: E402

from benchmarks import libraries  # noqa: E402
from benchmarks.cases import elementwise, learning  # noqa: E402
from benchmarks.cases.case import ARRAYS, Case, normal  # noqa: E402
from benchmarks.libraries import AUTOGRAD, FUNGRAD, HAND, JAX, TORCH, TORCH_COMPILED  # noqa: E402

COMPARED = {
    FUNGRAD: "#1f5fa8",
    HAND: "#222222",
    JAX: "#c44e52",
    TORCH_COMPILED: "#8172b3",
    TORCH: "#dd8452",
    AUTOGRAD: "#55a868",
}
SIZES = tuple(10**k for k in range(8))
COLUMNS = 10
BURST = 0.05
"""Seconds of calls of one library before the next has its turn."""


def vector(size: int) -> tuple[Any, ...]:
    """One argument of so many numbers."""
    return (normal(size),)


def table(size: int) -> tuple[Any, ...]:
    """Weights, rows of ten features, so many numbers in all, and labels."""
    rows = max(size // COLUMNS, 1)
    return normal(COLUMNS), normal(rows, COLUMNS, seed=1), (normal(rows, seed=2) > 0) * 1.0


CASES: dict[str, tuple[Case, Callable[[int], tuple[Any, ...]]]] = {
    "sines and cosines": (
        Case("waves", elementwise.waves, elementwise.waves_by_hand, tuple, tuple),
        vector,
    ),
    "Rosenbrock": (
        Case(
            "rosenbrock",
            elementwise.rosenbrock_gradient,
            elementwise.rosenbrock_by_hand,
            tuple,
            tuple,
        ),
        vector,
    ),
    "logistic regression": (
        Case(
            "logistic",
            learning.logistic_regression,
            learning.logistic_regression_by_hand,
            tuple,
            tuple,
            ARRAYS,
        ),
        table,
    ),
}


def flat(result: Any) -> Any:
    """All numbers of a result."""
    parts = result if isinstance(result, tuple | list) else (result,)
    return np.concatenate([np.ravel(flat(p) if isinstance(p, tuple) else p) for p in parts])


def least(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The least CPU time of one call of each, in seconds."""
    best = dict.fromkeys(calls, float("inf"))
    repeats = {}
    for name, call in calls.items():
        start = time.process_time()
        call()
        repeats[name] = max(1, int(BURST / max(time.process_time() - start, 1e-6)))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(repeats[name]):
                call()
            best[name] = min(best[name], (time.process_time() - start) / repeats[name])
    return best


def times(case: str, names: list[str]) -> list[dict[str, Any]]:
    """The times of a case at each size."""
    made, arguments = CASES[case]
    compiled = {name: libraries.prepared(name, made) for name in names}
    found = []
    for size in SIZES:
        values = arguments(size)
        wanted = flat(compiled[HAND](*values))
        for name, call in compiled.items():
            np.testing.assert_allclose(flat(call(*values)), wanted, 1e-6, 1e-9, err_msg=name)
        calls = {name: partial(call, *values) for name, call in compiled.items()}
        rows = least(calls, rounds=5 if size < 10**6 else 3)
        found += [{"case": case, "size": size, "library": n, "seconds": t} for n, t in rows.items()]
        print(f"{case:22}{size:10}", {n: f"{t:.3g}" for n, t in rows.items()}, flush=True)
    return found


def memory(field: str) -> int:
    """A line of this process's status, in KiB: VmRSS now, VmHWM the peak."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith(field)))


def peaks(library: str, case: str, size: int) -> list[int]:
    """The peaks of memory of the first and the second call, less what there was before, in KiB."""
    made, arguments = CASES[case]
    call = libraries.prepared(library, made)
    for other in (1000, 2000):
        call(*arguments(other))
    values, found = arguments(size), []
    before = memory("VmRSS")
    for _ in range(2):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins here
        call(*values)
        found.append(max(memory("VmHWM") - before, 0))
    return found


def draw(found: Mapping[str, Any], path: Path) -> None:
    """A panel for each case: the time of a call over the size."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "fungrad", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, case in zip(figure.subplots(1, len(CASES), sharey=True), CASES, strict=True):
        for name, colour in COMPARED.items():
            rows = [r for r in found["times"] if (r["case"], r["library"]) == (case, name)]
            if rows:
                axes.plot(
                    [r["size"] for r in rows],
                    [r["seconds"] for r in rows],
                    color=colour,
                    label=name,
                    linewidth=2 if name == FUNGRAD else 1,
                    marker=".",
                )
        axes.set(xscale="log", yscale="log", title=case, xlabel="numbers")
        axes.grid(color="#eeeeee")
    figure.axes[0].set_ylabel("seconds of one gradient")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(COMPARED))
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    """Measures into a file, or draws one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("file", nargs="?", default="sizes.json")
    parser.add_argument("--picture", help="draw the file here")
    parser.add_argument("--peak", nargs=3, metavar=("LIBRARY", "CASE", "SIZE"))
    options = parser.parse_args()
    if options.peak:
        library, case, size = options.peak
        print(*peaks(library, case, int(size)))
    elif options.picture:
        draw(json.loads(Path(options.file).read_text(encoding="utf-8")), Path(options.picture))
    else:
        names = [name for name in COMPARED if libraries.installed(name)]
        found: dict[str, Any] = {"versions": versions(), "times": [], "memory": []}
        for case in CASES:
            found["times"] += times(case, names)
        for case in CASES:
            for name in names:
                words = [sys.executable, "-m", "benchmarks.sizes", "--peak", name, case, "10000000"]
                printed = subprocess.run(words, check=True, capture_output=True).stdout.split()
                first, second = map(int, printed[-2:])
                row = {"case": case, "library": name, "first KiB": first, "second KiB": second}
                print(row, flush=True)
                found["memory"].append(row)
        rows = (f' "{key}": {json.dumps(part)}' for key, part in found.items())
        text = "{\n" + ",\n".join(rows).replace("}, {", "},\n  {") + "\n}\n"
        Path(options.file).write_text(text, encoding="utf-8")


def versions() -> dict[str, str]:
    """The versions of what was measured."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": sys.version.split()[0], "date": time.strftime("%Y-%m-%d")}
    for name in ("numpy", "llvmlite", "jax", "autograd", "torch"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


if __name__ == "__main__":
    main()
