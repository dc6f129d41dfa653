"""What the page "Try it" computes of a function: value, gradient, IR, digits and points to draw.

Runs in the browser, in a Python compiled to WebAssembly, and in the tests.
"""

from __future__ import annotations

import json
import linecache
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg

FILE = "your program"
POINTS = 121
_WIDTH = 3.0


def examine(source: str) -> str:
    """The results of a program, as JSON.

    Args:
      source: a program that defines `f` and `at`, the point to look at.

    Returns:
      An object with `error`, or with `value`, `gradient`, `ir`, `digits` and `curve`: x, f and its
      derivative, if `at` is a number, else the entries of the gradient.
    """
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(compile(source, FILE, "exec"), names)
        missing = [name for name in ("f", "at") if name not in names]
        if missing:
            raise NameError(f"The program has to define {' and '.join(missing)}.")
        return json.dumps(_results(names["f"], names["at"]))
    except Exception as error:  # shown on the page
        lines = traceback.format_exception_only(error)
        return json.dumps({"error": "".join(lines).strip()})


def _results(f: Callable[[Any], Any], at: Any) -> dict[str, Any]:
    x = float(at) if np.ndim(at) == 0 else np.asarray(at, np.float64)
    value, gradient = fg.value_and_grad(f)(x)
    return {
        "value": _text(value),
        "gradient": _text(gradient),
        "ir": str(fg.jit(f).lower(x).graph),
        "digits": str(fg.digits(f)(x)),
        "curve": _curve(f, x) if np.ndim(x) == 0 else _bars(gradient),
    }


def _text(value: Any) -> str:
    return np.array2string(np.asarray(value), precision=12, threshold=40)


def _curve(f: Callable[[Any], Any], at: float) -> dict[str, Any]:
    xs = np.linspace(at - _WIDTH, at + _WIDTH, POINTS)
    derivative = fg.value_and_grad(f)
    pairs = []
    with np.errstate(all="ignore"):
        for x in xs:
            try:
                pairs.append([float(part) for part in derivative(float(x))])
            except (ArithmeticError, ValueError):  # outside of the domain of f
                pairs.append([float("nan"), float("nan")])
    ys, slopes = np.array(pairs).T
    return {"x": xs.tolist(), "f": _finite(ys), "df": _finite(slopes), "at": at}


def _bars(gradient: Any) -> dict[str, Any]:
    entries = np.ravel(gradient)[:POINTS]
    return {"x": list(range(len(entries))), "df": _finite(entries)}


def _finite(values: Any) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
