"""Causes of slow functions: each is found where it is, and not where it is not.

The least factor is zero here: what is found must not depend on times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fungrad as fg
from fungrad.slowness import causes
from fungrad.slowness.causes import Cause


@pytest.fixture(autouse=True)
def at_any_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "FACTOR", 0.0)
    monkeypatch.setattr(causes, "RUNS", 1)


def found(f: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Cause]:
    report = fg.explain_speed(f, repetitions=1)(*args, **kwargs)
    assert all(cause.title in repr(report) for cause in report.causes)
    return {cause.title: cause for cause in report.causes}


def test_a_compiled_function_has_no_cause() -> None:
    assert found(fg.jit(np.sin), np.ones(3)) == {}


def test_an_eager_gradient_is_compared_with_the_compiled_one() -> None:
    one = found(fg.grad(lambda x: np.sum(np.sin(x) ** 2)), np.ones(3))["not compiled"]
    assert "under fg.jit" in one.message and "calls make up for" in one.message
    assert one.factor > 0.0 and one.to_dict()["title"] == "not compiled"


def test_arguments_that_change_are_named() -> None:
    f = fg.jit(lambda scale, x: np.sum(x) * scale)
    for n in range(3, 7):
        f(2.0, np.ones(n))
    one = found(f, 2.0, np.ones(9))["traced again"]
    assert one.message.startswith("the argument x (f64[3], then f64[4]) changed in 4 of 5 traces")
    assert f.changes()[0] == ("the argument x", "f64[3], then f64[4]")
    twice = fg.jit(np.sin)
    twice(1.0), twice(np.ones(3))
    assert found(twice, 1.0) == {}


def test_static_arguments_that_change_are_named() -> None:
    f = fg.jit(lambda x, n: x**n, static_argnames="n")
    for n in range(4):
        f(2.0, n=n)
    assert "the static argument n (0, then 1) changed" in found(f, 2.0, n=0)["traced again"].message


def test_a_guard_with_two_answers() -> None:
    f = fg.jit(lambda x: np.sin(x) if x > 0 else np.cos(x), branches="guard")
    f(1.0)
    assert "a guard that flips" not in found(f, 1.0)
    f(-1.0)
    assert "in 2 ways" in found(f, 1.0)["a guard that flips"].message


def test_python_functions_in_loops() -> None:
    def step(c: Any, x: Any) -> Any:
        return c * 0.5 + fg.pure_callback(np.cbrt, x, x), None

    f = fg.jit(lambda x: fg.lax.scan(step, 0.0, x)[0])
    one = found(f, np.ones(9))["a Python function in a loop"]
    assert one.source is not None and one.source.function == "step"
    assert "test_slowness.py" in one.message and "9 calls" in one.message
    alone = fg.jit(lambda x: fg.pure_callback(np.cbrt, x, x) * 2.0)
    assert found(alone, np.ones(9)) == {}


LOOPS: dict[str, Callable[[Any, int], Any]] = {
    "equal steps, which fg.lax.fori_loop": lambda x, i: np.sin(x) * 0.9 + np.cos(x),
    "different shapes (f64[99], then f64[98])": lambda x, i: x[1:] + np.sin(x[:-1]) * 0.1,
    "different operations": lambda x, i: np.sin(x) + x if i * i % 11 == 3 else np.tanh(x) * x,
}


@pytest.mark.parametrize("why", LOOPS)
def test_python_loops_that_are_written_out(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "REPEATED", 50)

    def f(x: Any) -> Any:
        for i in range(30):
            x = LOOPS[why](x, i)
        return x

    assert why in found(fg.jit(f), np.ones(100))["a Python loop written out"].message
    assert found(fg.jit(np.sin), np.ones(3)) == {}


def test_sparse_jacobians_and_hessians_are_measured() -> None:
    f = fg.jit(fg.jacobian(lambda x: x[1:] ** 2 - x[:-1]))
    one = found(f, np.ones(50))["a dense Jacobian"]
    assert (
        one.message.startswith("4.0% of its 2,450 entries") and "fg.sparse.jacobian" in one.message
    )
    g = fg.jit(fg.hessian(lambda x: np.sum(x[1:] ** 2 * x[:-1])))
    assert "fg.sparse." in found(g, np.ones(50))["a dense Jacobian"].message
    assert found(fg.jit(fg.jacobian(np.cumsum)), np.ones(50)) == {}
    assert found(fg.jit(fg.jacobian(np.sin)), np.ones(5)) == {}
