"""The sections of `python -m benchmarks`: times of gradients, first gradients, imports, staging and
memory. Every section prints its rows as they come, and returns them and its verdicts.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks import bars, chart, first, libraries, staging
from benchmarks.cases import ALL, Case
from benchmarks.libraries import (
    AUTOGRAD,
    EAGER,
    FUNGRAD,
    HAND,
    JAX,
    JAX_EAGER,
    TORCH,
    TORCH_COMPILED,
)
from benchmarks.timing import sampled

COMPARED = (HAND, FUNGRAD, EAGER, JAX, JAX_EAGER, AUTOGRAD, TORCH)
FIRST = (HAND, FUNGRAD, JAX, AUTOGRAD)
TOLERANCE = 1e-6
"""Of results among libraries, over the largest element: chaotic cases differ by so much."""
SMALLEST = 2**20
"""Peaks of less memory than this are not compared: tracing's own objects are as large."""
STAGED = (1_000, 10_000, 100_000)
Rows = list[dict[str, Any]]


def wanted(options: Namespace) -> list[Case]:
    """The cases that were asked for, by parts of their names."""
    parts = [part.lower() for part in options.cases]
    return [
        case
        for case in ALL
        if (options.large or not case.large)
        and (not parts or any(part in case.name.lower() for part in parts))
    ]


def compared(options: Namespace, case: Case, names: Sequence[str]) -> list[str]:
    """Those of the libraries that run a case."""
    return [
        name
        for name in names
        if libraries.installed(name)
        and (name in (HAND, FUNGRAD) or not options.libraries or name in options.libraries)
        and not any(name.startswith(left_out) for left_out in case.without)
    ]


def load() -> float:
    """How many processes wanted to run in the last minute, for each core."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def machine(options: Namespace) -> str:
    """Versions, cores, threads and load."""
    modules = ("numpy", "scipy", "jax", "autograd", "torch")
    found = [
        f"{module} {version(module)}"
        if libraries.importable(module)
        else f"{module} is not installed and left out"
        for module in modules
    ]
    text = (
        f"Python {platform.python_version()}, {', '.join(found)}; {platform.machine()}, "
        f"{os.cpu_count()} cores; fungrad {fg.__version__} with {fg.config.num_threads} threads; "
        f"{options.blas_threads or 'the default number of'} BLAS thread(s) for all; "
        f"{'reassociated' if options.reassociate else 'nothing reassociated'}; "
        f"load for each core {load():.1f}"
    )
    if load() > 0.5:
        text += "\nThe machine is busy with other work: the figures are noisy."
    return text


@contextmanager
def progress(total: int, title: str) -> Iterator[Callable[[str], None]]:
    """A function to call at the start of each task; rich's bar where it is installed."""
    if not libraries.importable("rich") or not sys.stderr.isatty():
        yield lambda label: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total + 1)
        yield lambda label: bar.update(task, advance=1, description=f"{title}: {label}")


def calls(
    case: Case, names: Sequence[str]
) -> tuple[dict[str, Callable[[], Any]], list[bars.Verdict]]:
    """One call of the case in each library whose result is the one by hand, and who differs."""
    arguments = case.arguments()
    expected = [np.asarray(leaf) for leaf in fg.tree_leaves(case.by_hand(*arguments))]
    right, wrong = {}, []
    for name in names:
        function = libraries.prepared(name, case)
        found = [np.asarray(leaf) for leaf in fg.tree_leaves(function(*arguments))]
        difference = max(
            float(np.max(np.abs(a - b)) / np.max(np.abs(b)))
            for a, b in zip(found, expected, strict=True)
        )
        if difference <= TOLERANCE:
            right[name] = lambda f=function: f(*arguments)
        else:
            text = f"{case.name}: {name} differs from what is written by hand by {difference:.1e}"
            wrong.append(bars.Verdict(text, False))
    return right, wrong


def milliseconds(seconds: float | None) -> str:
    """A cell with three digits."""
    return f"{'-':>12}" if seconds is None else f"{1e3 * seconds:12.4g}"


def gradients(options: Namespace, show: Callable[[str], None]) -> tuple[Rows, list[bars.Verdict]]:
    """Medians and minima of single calls."""
    names = [*COMPARED, *([TORCH_COMPILED] if options.torch_compile else [])]
    names = [name for name in names if libraries.installed(name)]
    if options.libraries:
        names = [name for name in names if name in (HAND, FUNGRAD, *options.libraries)]
    show("\nGradients: median ms; fungrad jit over its peers by medians (by minima)")
    heads = "".join(f"{name:>12}" for name in names)
    show(f"{'':36}{heads}{'/ hand':>14}{'/ JAX jit':>14}{'load':>6}")
    rows: Rows = []
    wrong: list[bars.Verdict] = []
    cases = wanted(options)
    rounds, budget = (7, 0.4) if options.quick else (options.rounds, 2.0)
    with progress(len(cases), "gradients") as begin:
        for case in cases:
            begin(case.name)
            run, differing = calls(case, compared(options, case, names))
            wrong += differing
            samples = sampled(run, rounds, 0.004, budget)
            times = {
                name: {"median": statistics.median(found), "minimum": min(found)}
                for name, found in samples.items()
            }
            rows.append({"case": case.name, "kind": case.kind, "times": times, "load": load()})
            cells = [milliseconds(times[n]["median"] if n in times else None) for n in names]
            both = "".join(f"{ratio(rows[-1:], peer):>14}" for peer in (HAND, JAX))
            show(f"{case.name:36}{''.join(cells)}{both}{load():6.1f}")
    return rows, [*wrong, *bars.of_gradients(rows), *bars.of_gradients(rows, "minimum")]


def ratio(row: Rows, peer: str) -> str:
    """fungrad's time over a peer's, by medians and by minima."""
    median, minimum = (list(bars.ratios(row, peer, by).values()) for by in ("median", "minimum"))
    return f"{median[0]:.2f} ({minimum[0]:.2f})" if median else "-"


def first_gradients(
    options: Namespace, show: Callable[[str], None]
) -> tuple[Rows, list[bars.Verdict]]:
    """Seconds of new processes to their first gradient, and their peaks of memory."""
    names = [name for name in FIRST if libraries.installed(name)]
    show("\nFrom the start of a process to its first gradient: ms (peak of memory, MiB)")
    show(f"{'':36}{''.join(f'{name:>18}' for name in names)}")
    rows: Rows = []
    cases = wanted(options)
    with progress(len(cases), "first gradients") as begin:
        for case in cases:
            begin(case.name)
            some = compared(options, case, names)
            times = first.compared(some, case.name, 1 if options.quick else 3)
            rows.append({"case": case.name, "kind": case.kind, "times": times})
            cells = [
                f"{1e3 * times[n]['seconds']:10.0f} {times[n]['peak_kib'] / 1024:6.0f}M"
                if n in times
                else f"{'-':>18}"
                for n in names
            ]
            show(f"{case.name:36}{''.join(cells)}")
    return rows, bars.of_first(rows)


def imports(options: Namespace, show: Callable[[str], None]) -> tuple[Rows, list[bars.Verdict]]:
    """The times of imports."""
    found = first.imports(3 if options.quick else 9)
    show("\nImports, whole processes: ms")
    show("  ".join(f"{name} {1e3 * seconds:.0f}" for name, seconds in found.items()))
    return [found], []


def stagings(options: Namespace, show: Callable[[str], None]) -> tuple[Rows, list[bars.Verdict]]:
    """The time of jit before the first run, by the number of equations."""
    show("\nBefore the first run: ms")
    rows: Rows = []
    staging.staged(STAGED[0])
    for equations in STAGED[:2] if options.quick else STAGED:
        row = min(
            (staging.staged(equations) for _ in range(2 if options.quick else 3)),
            key=lambda row: row["trace"] + row["optimise and plan"],
        )
        rows.append(row)
        parts = "  ".join(f"{k} {1e3 * v:.1f}" for k, v in row.items() if k != "equations")
        show(f"{row['equations']:>8,} equations  {parts}")
    return rows, bars.of_staging(rows)


def memory(options: Namespace, show: Callable[[str], None]) -> tuple[Rows, list[bars.Verdict]]:
    """Peaks of a compiled gradient and of that by hand."""
    show("\nPeak of memory, MiB")
    show(f"{'':36}{HAND:>12}{FUNGRAD:>12}{'ratio':>8}")
    rows: Rows = []
    for case in wanted(options):
        arguments = case.arguments()
        by_hand = staging.peak(case.by_hand, arguments)
        if by_hand < SMALLEST:
            continue
        ours = staging.peak(libraries.prepared(FUNGRAD, case), arguments)
        rows.append({"case": case.name, HAND: by_hand, FUNGRAD: ours})
        cells = f"{by_hand / 2**20:12.1f}{ours / 2**20:12.1f}{ours / by_hand:8.2f}"
        show(f"{case.name:36}{cells}")
    return rows, bars.of_memory(rows)


SECTIONS = {
    "gradients": gradients,
    "first": first_gradients,
    "imports": imports,
    "staging": stagings,
    "memory": memory,
}


def main(options: Namespace) -> None:
    """Runs the sections and prints what they found, the verdicts last."""
    to = sys.stderr if options.json == "-" else sys.stdout

    def show(text: str) -> None:
        print(text, file=to, flush=True)

    show(machine(options))
    results: dict[str, Any] = {"machine": machine(options)}
    verdicts: list[bars.Verdict] = []
    for name in options.only or SECTIONS:
        results[name], found = SECTIONS[name](options, show)
        verdicts += found
    show(f"\nBars (load for each core {load():.1f})")
    for verdict in verdicts:
        show(str(verdict))
    results["verdicts"] = [{"text": v.text, "reached": v.reached} for v in verdicts]
    if options.json:
        text = json.dumps(results, indent=1)
        print(text) if options.json == "-" else Path(options.json).write_text(text + "\n")
    if options.picture and results.get("gradients"):
        chart.draw(results["gradients"], Path(options.picture))
