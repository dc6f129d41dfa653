"""The 27 nonlinear regressions of the Statistical Reference Datasets of the National Institute of
Standards and Technology (public domain): data, starting values, certified parameters and standard
deviations, and the models.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

DATA = json.loads(
    (Path(__file__).parents[1] / "data" / "nist_strd.json").read_text(encoding="utf-8")
)
"""By the name of the data set."""


def _rise(x, a, b):
    return a * (1 - np.exp(-b * x))


def _decay(x, a, b, c):
    return np.exp(-a * x) / (b + c * x)


def _three_exponentials(x, a, b, c, d, e, f):
    return a * np.exp(-b * x) + c * np.exp(-d * x) + e * np.exp(-f * x)


def _two_peaks(x, a, b, c, d, e, f, g, h):
    peaks = c * np.exp(-(((x - d) / e) ** 2)) + f * np.exp(-(((x - g) / h) ** 2))
    return a * np.exp(-b * x) + peaks


def _cubics(x, a, b, c, d, e, f, g):
    return (a + b * x + c * x**2 + d * x**3) / (1 + e * x + f * x**2 + g * x**3)


def _waves(x, a, b, c, d, e, f, g, h, i):
    turn = 2 * np.pi * x
    year = b * np.cos(turn / 12) + c * np.sin(turn / 12)
    second = e * np.cos(turn / d) + f * np.sin(turn / d)
    return a + year + second + h * np.cos(turn / g) + i * np.sin(turn / g)


MODELS = {
    "Bennett5": lambda x, a, b, c: a * (b + x) ** (-1 / c),
    "BoxBOD": _rise,
    "Chwirut1": _decay,
    "Chwirut2": _decay,
    "DanWood": lambda x, a, b: a * x**b,
    "ENSO": _waves,
    "Eckerle4": lambda x, a, b, c: a / b * np.exp(-0.5 * ((x - c) / b) ** 2),
    "Gauss1": _two_peaks,
    "Gauss2": _two_peaks,
    "Gauss3": _two_peaks,
    "Hahn1": _cubics,
    "Kirby2": lambda x, a, b, c, d, e: (a + b * x + c * x**2) / (1 + d * x + e * x**2),
    "Lanczos1": _three_exponentials,
    "Lanczos2": _three_exponentials,
    "Lanczos3": _three_exponentials,
    "MGH09": lambda x, a, b, c, d: a * (x**2 + x * b) / (x**2 + x * c + d),
    "MGH10": lambda x, a, b, c: a * np.exp(b / (x + c)),
    "MGH17": lambda x, a, b, c, d, e: a + b * np.exp(-x * d) + c * np.exp(-x * e),
    "Misra1a": _rise,
    "Misra1b": lambda x, a, b: a * (1 - (1 + b * x / 2) ** (-2)),
    "Misra1c": lambda x, a, b: a * (1 - (1 + 2 * b * x) ** (-0.5)),
    "Misra1d": lambda x, a, b: a * b * x / (1 + b * x),
    "Nelson": lambda x, a, b, c: a - b * x[0] * np.exp(-c * x[1]),
    "Rat42": lambda x, a, b, c: a / (1 + np.exp(b - c * x)),
    "Rat43": lambda x, a, b, c, d: a / (1 + np.exp(b - c * x)) ** (1 / d),
    "Roszman1": lambda x, a, b, c, d: a - b * x - np.arctan(c / (x - d)) / np.pi,
    "Thurber": _cubics,
}
"""By the name of the data set: the model f(x, a, b, ...)."""

TRANSFORMED = {"Nelson": np.log}
"""The function of y that is fitted, where it is not y."""


def problem(name):
    """The model, x and y of a data set."""
    data = DATA[name]
    y = TRANSFORMED.get(name, np.array)(np.array(data["y"]))
    return MODELS[name], np.array(data["x"]), y
