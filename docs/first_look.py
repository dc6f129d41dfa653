"""Draws docs/static/first-look.svg, the picture of the README: `python docs/first_look.py`.

Left a function and its gradient, right the fit of the README; every number comes from this run.
Needs the extras scipy and viz.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import fungrad as fg
from fungrad.data import old_faithful

HERE = Path(__file__).parent


def ripple(x):
    """A function of one number, in plain NumPy."""
    return np.sin(3 * x) * np.exp(-(x**2) / 2)


def waiting_time(t, short, long, rate, middle):
    """The README's model: a smooth step between two waiting times."""
    return short + (long - short) / (1 + np.exp(-rate * (t - middle)))


def draw(path: Path) -> None:
    mpl.rcParams.update({"svg.hashsalt": "fungrad", "font.size": 9, "axes.spines.top": False})
    mpl.rcParams["axes.spines.right"] = False
    figure = Figure(figsize=(8.6, 3.1), layout="constrained")
    left, right = figure.subplots(1, 2)

    x = np.linspace(-3.0, 3.0, 241)
    slopes = fg.elementwise_grad(ripple)(x)
    left.axhline(0.0, color="#cccccc", linewidth=0.8)
    left.plot(x, ripple(x), color="#1f5fa8", label="f(x) = sin(3x) exp(-x²/2)")
    left.plot(x, slopes, color="#c44e52", linestyle="--", label="its gradient, fg.grad(f)(x)")
    left.set(xlabel="x", ylim=(-2.2, 4.2))
    left.legend(frameon=False, loc="upper left")

    eruptions, waiting = old_faithful()
    fit = fg.curve_fit(waiting_time, eruptions, waiting, p0=[54, 80, 3, 3])
    t = np.linspace(1.5, 5.2, 200)
    low, high = fit.confidence_band(t)
    right.plot(eruptions, waiting, ".", color="#999999", markersize=3, label="272 eruptions")
    right.fill_between(t, low, high, color="#1f5fa8", alpha=0.25, linewidth=0)
    right.plot(t, fit(t), color="#1f5fa8", label="fit, with 95 % confidence band")
    right.set(xlabel="duration of an eruption / minutes", ylabel="waiting time / minutes")
    right.legend(frameon=False, loc="upper left")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(HERE / "static" / "first-look.svg")
