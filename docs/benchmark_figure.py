"""Draws docs/static/benchmarks.svg, by `python docs/benchmark_figure.py`.

Every point is a row of benchmarks/RESULTS.md: fungrad's time over that of jitted JAX. Needs the
extra viz.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # benchmarks is no part of the package

from benchmarks import published  # noqa: E402

PANELS = (
    ("Programs that lost a factor, table 1", "126 programs chosen to find slow ones"),
    ("All cases, table 1", "35 gradients, with native code"),
    ("All cases, table 2", "the same, NumPy alone"),
)
SLOWER, FASTER = "#c44e52", "#1f5fa8"


def draw() -> Figure:
    """A panel for each table, with its cases in the order of their ratios."""
    pairs = list(published.pairs(published.FILE.read_text(encoding="utf-8")))
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (table, title) in zip(panels, PANELS, strict=True):
        ratios = sorted((pair.ratio for pair in pairs if pair.table == table), reverse=True)
        colours = [SLOWER if ratio > 1 else FASTER for ratio in ratios]
        axes.scatter(range(1, len(ratios) + 1), ratios, c=colours, s=9)
        axes.axhline(1.0, color="#777777", linewidth=1)
        axes.set_yscale("log")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(f"{colours.count(SLOWER)} of {len(ratios)} take longer (red)")
    ticks = (0.01, 0.03, 0.1, 0.3, 1, 3, 10)
    panels[0].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panels[0].minorticks_off()
    panels[0].set_ylabel("time over jitted JAX's")
    return figure


def main() -> None:
    """Writes the picture."""
    mpl.rcParams.update({"svg.hashsalt": "fungrad", "svg.fonttype": "none", "font.size": 9})
    draw().savefig(HERE / "static" / "benchmarks.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
