"""The tables of RESULTS.md, of figures that `python -m benchmarks --json FILE` wrote.

    python -m benchmarks.tables defaults.json reassociated.json

The first file is of a run at the defaults, the second one of a run with `--reassociate`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import bars
from benchmarks.libraries import FUNGRAD, HAND, JAX


def cases(defaults: Mapping[str, Any], reassociated: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the table of single calls: medians, and ratios by medians and by minima."""
    yield (
        "| | by hand, ms | fungrad jit | JAX jit | over hand | over JAX "
        "| reassociated: over hand | over JAX |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    again = {row["case"]: row for row in reassociated["gradients"]}
    for row in defaults["gradients"]:
        name, times = row["case"], row["times"]
        cells = [
            _milliseconds(times[n]["median"]) if n in times else "" for n in (HAND, FUNGRAD, JAX)
        ]
        both = (row, again.get(name))
        cells += [_ratio(run, peer) for run in both for peer in (HAND, JAX)]
        yield f"| {name} | {' | '.join(cells)} |"


def verdicts(defaults: Mapping[str, Any], reassociated: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the table of bars, each run's own."""
    for title, run in (("at the defaults", defaults), ("reassociated", reassociated)):
        yield f"| {title} | |"
        yield "|---|---|"
        for verdict in run["verdicts"]:
            yield f"| {verdict['text']} | {'reached' if verdict['reached'] else 'missed'} |"
        yield ""


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds >= 1.0 else f"{1e3 * seconds:.3g}"


def _ratio(row: Mapping[str, Any] | None, peer: str) -> str:
    if row is None:
        return ""
    median, minimum = (
        bars.ratios([row], peer, by).get(row["case"]) for by in ("median", "minimum")
    )
    return "" if median is None else f"{median:.2f} ({minimum:.2f})"


def main(paths: list[str]) -> None:
    """Prints the tables."""
    defaults, reassociated = (json.loads(Path(path).read_text()) for path in paths)
    print(defaults["machine"], reassociated["machine"], "", sep="\n")
    print("\n".join((*cases(defaults, reassociated), "", *verdicts(defaults, reassociated))))


if __name__ == "__main__":
    main(sys.argv[1:])
