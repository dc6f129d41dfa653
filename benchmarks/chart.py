"""A run as a picture: fungrad's time over each peer's, a row for each case (matplotlib)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import bars
from benchmarks.libraries import AUTOGRAD, HAND, JAX, TORCH, importable

COLOURS = {HAND: "#222222", JAX: "#c44e52", AUTOGRAD: "#4c72b0", TORCH: "#dd8452"}


def draw(rows: list[Mapping[str, Any]], path: Path) -> None:
    """Writes the picture in the format of the file's ending."""
    if not importable("matplotlib"):
        raise SystemExit("A picture needs matplotlib: pip install 'fungrad[viz]'.")
    from matplotlib.figure import Figure

    names = [row["case"] for row in rows]
    figure = Figure(figsize=(9, 1.5 + 0.26 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.set_axisbelow(True)
    axes.grid(axis="y", color="#eeeeee")
    for peer, colour in COLOURS.items():
        found = bars.ratios(rows, peer)
        if found:
            places = [names.index(name) for name in found]
            axes.scatter([1 / r for r in found.values()], places, color=colour, label=peer, s=28)
    axes.axvline(1.0, color="#999999", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("times as fast as ...: right of 1, fungrad is faster")
    low, high = axes.get_xlim()
    ticks = [c * 10.0**e for e in range(-3, 5) for c in (1, 2, 5) if low <= c * 10.0**e <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    figure.legend(loc="outside upper center", ncols=len(COLOURS))
    figure.savefig(path)
