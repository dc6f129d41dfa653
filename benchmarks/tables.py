"""The tables of RESULTS.md, of figures that `python -m benchmarks --json FILE` wrote.

python -m benchmarks.tables figures.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import bars
from benchmarks.libraries import FUNGRAD, HAND, JAX


def cases(run: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the table of single calls: medians, and ratios by medians and by minima."""
    yield "| | by hand, ms | fungrad jit | JAX jit | over hand | over JAX |"
    yield "|---|---|---|---|---|---|"
    for row in run["gradients"]:
        name, times = row["case"], row["times"]
        cells = [
            _milliseconds(times[n]["median"]) if n in times else "" for n in (HAND, FUNGRAD, JAX)
        ]
        cells += [_ratio(row, peer) for peer in (HAND, JAX)]
        yield f"| {name} | {' | '.join(cells)} |"


def verdicts(run: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the table of bars."""
    yield "| | |"
    yield "|---|---|"
    for verdict in run["verdicts"]:
        yield f"| {verdict['text']} | {'reached' if verdict['reached'] else 'missed'} |"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds >= 1.0 else f"{1e3 * seconds:.3g}"


def _ratio(row: Mapping[str, Any], peer: str) -> str:
    median, minimum = (
        bars.ratios([row], peer, by).get(row["case"]) for by in ("median", "minimum")
    )
    return "" if median is None else f"{median:.2f} ({minimum:.2f})"


def main(path: str) -> None:
    """Prints the tables."""
    run = json.loads(Path(path).read_text())
    print(run["machine"], "", *cases(run), "", *verdicts(run), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
