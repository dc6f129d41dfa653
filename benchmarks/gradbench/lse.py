"""The eval `lse`: the logarithm of a sum of exponentials, and its gradient, the softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fungrad as fg
from fungrad import lax


def logsumexp(x: Any) -> Any:
    """log(sum(exp(x))). The two contributions of the shift cancel, so it needs no derivative."""
    shift = lax.stop_gradient(np.max(x))
    return shift + np.log(np.sum(np.exp(x - shift)))


def prepared(f: Callable[[Any], Any]) -> Callable[[Mapping[str, Any]], tuple[Any, Any]]:
    """Decodes the vector for a function of it."""

    def prepare(given: Mapping[str, Any]) -> tuple[Any, Any]:
        x = np.asarray(given["x"])
        return lambda: f(x), lambda out: out.tolist()

    return prepare


FUNCTIONS = {
    "primal": prepared(fg.jit(logsumexp)),
    "gradient": prepared(fg.jit(fg.grad(logsumexp))),
}
