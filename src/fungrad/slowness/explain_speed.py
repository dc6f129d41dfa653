"""fg.explain_speed: why a function is slow, by line, with measured times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fungrad.compiler.jit import Jitted, jit
from fungrad.control_flow.call import run
from fungrad.inspect.outermost import check_outermost, check_repetitions
from fungrad.inspect.speed.explanation import Explanation
from fungrad.slowness.causes import CAUSES, Case
from fungrad.tracing.transformed_function import TransformedFunction


def explain_speed(
    f: Callable[..., Any], *, repetitions: int | None = None
) -> Callable[..., Explanation]:
    """A function that tells where f's operations run, how long they take, and why.

    >>> import numpy as np, fungrad as fg
    >>> found = fg.explain_speed(lambda x: np.sort(x)[0], repetitions=3)(np.ones(9))
    >>> found.operations[-1].where
    'NumPy'

    Args:
      f: a function, jitted or transformed or not: `fg.grad(f)` explains the gradient.
      repetitions: the number of runs; None for as many as half a second allows.

    Returns:
      A function with f's arguments that returns an `Explanation` of the compiled function: for each
      of your lines the operations, where they run (a native kernel, a BLAS, LAPACK, NumPy, Python),
      the measured time, why they are not native, and what would help. Its `causes` say why it is
      slow as a whole, where that is known: it is not compiled, or traced again and again; a Python
      loop was written out; a guard flips; a loop calls Python; a Jacobian is sparse. Each states
      the factor that an alternative gained, measured with these arguments.

    Raises:
      ArgumentError: inside another transform, and where f cannot be jitted: name arguments that
        are not arrays by `fg.jit(f, static_argnames=)`.
    """
    check_repetitions(repetitions)
    jitted = f if isinstance(f, Jitted) else jit(f)

    def run_explained(*args: Any, **kwargs: Any) -> Explanation:
        check_outermost("explain_speed", "arrays")
        known, start = jitted.cache_info().misses, time.perf_counter()
        lowered = jitted.lower(*args, **kwargs)
        run(lowered.graph, lowered.args)
        new = jitted.cache_info().misses > known
        first = time.perf_counter() - start if new else 0.0
        explanation: Explanation = lowered.explain(repetitions)
        case = Case(f, jitted, args, kwargs, lowered.graph, explanation, first)
        causes = [one for check in CAUSES for one in check(case)]
        return replace(explanation, causes=tuple(sorted(causes, key=lambda one: -one.factor)))

    return TransformedFunction(run_explained, explain_speed, f, repetitions=repetitions)
