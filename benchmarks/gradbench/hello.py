"""The eval `hello`: the square of a number, and its derivative."""

from __future__ import annotations

from typing import Any

import fungrad as fg


def square(x: Any) -> Any:
    """x^2."""
    return x * x


double = fg.grad(square)

FUNCTIONS = {
    "square": lambda given: (lambda: square(float(given)), float),
    "double": lambda given: (lambda: double(float(given)), float),
}
