"""The stable softmax: the largest logit is subtracted, stopped, also if several are the largest.

The cross entropy of logits z with label k is log(sum(exp(z))) - z[k]. With p = softmax(z), its
gradient is p - e_k and its Hessian diag(p) - p p^T. Subtracting a constant changes none of the
three, so the shift may be stopped: its gradient cancels exactly and need not be computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fungrad as fg
from fungrad.demo.claims import Result


def cross_entropy(logits: Any, label: int) -> Any:
    """log(sum(exp(logits))) - logits[label], shifted by the stopped maximum."""
    shifted = logits - fg.stop_gradient(np.max(logits), name="top")
    return np.log(np.sum(np.exp(shifted))) - shifted[label]


def unstopped(logits: Any, label: int) -> Any:
    """The cross entropy with a differentiated maximum."""
    shifted = logits - np.max(logits)
    return np.log(np.sum(np.exp(shifted))) - shifted[label]


def naive(logits: Any, label: int) -> Any:
    """The textbook formula, which overflows."""
    return np.log(np.sum(np.exp(logits))) - logits[label]


def run(seed: int) -> Result:
    """Ties at 1000, far beyond where exp overflows."""
    result = Result("Stable softmax with tied maxima")
    logits, label = np.array([1000.0, 1000.0, 999.0, 0.0]), 2
    weights = np.array([1.0, 1.0, np.exp(-1.0), 0.0])  # exp(-1000) is 0 in double precision
    p = weights / weights.sum()

    with np.errstate(over="ignore"):
        overflowed = naive(logits, label)
    value, gradient = fg.value_and_grad(cross_entropy)(logits, label)
    result.found.append(f"logits {logits.tolist()}: two tied maxima, label {label}")
    result.found.append(f"unshifted loss {overflowed}, shifted loss {value:.15f}")
    result.compare("loss = log(2 + 1/e) + 1", value, np.log(2 + np.exp(-1)) + 1)
    result.compare("gradient = softmax - one_hot", gradient, p - np.eye(4)[label])
    result.compare(
        "the same if the maximum is not stopped, as ties share its gradient equally",
        fg.grad(unstopped)(logits, label),
        p - np.eye(4)[label],
    )

    def row(direction: Any) -> Any:
        return fg.jvp(lambda z: fg.grad(cross_entropy)(z, label), (logits,), (direction,))[1]

    hessian = fg.vmap(row)(np.eye(4))
    result.compare("Hessian = diag(p) - p p^T", hessian, np.diag(p) - np.outer(p, p))
    result.count_equations(lambda z: cross_entropy(z, label), lambda z: unstopped(z, label), logits)
    return result
