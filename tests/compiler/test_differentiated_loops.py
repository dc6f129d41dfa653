"""Python's loops under `jit` and `grad`: scans before the backward walk, with the derivatives of
the recorded operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fungrad as fg
from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.loops import differentiated_loops
from fungrad.control_flow.scan import scan
from fungrad.errors import MiscompiledError
from fungrad.ir.graph import Graph
from fungrad.retracing.inlining import copied

rng = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short loops are rolled, too, and compared whatever the time."""
    monkeypatch.setattr(costs, "rerolled_equations", 20)
    monkeypatch.setattr(differentiated_loops, "evaluation_seconds", lambda graph: 0.0)


def scans(graph: Graph) -> int:
    return sum(equation.primitive is scan for equation in graph.equations)


def check(f: Any, *args: Any, rolled: bool = True) -> Graph:
    """The compiled gradient is the eager one, by a Graph of scans if `rolled`."""
    derivative = fg.value_and_grad(f, tuple(range(len(args))))
    graph: Graph = fg.jit(derivative).lower(*args).graph
    assert bool(scans(graph)) == rolled
    found, expected = fg.jit(derivative)(*args), derivative(*args)
    for a, b in zip(fg.tree_leaves(found), fg.tree_leaves(expected), strict=True):
        assert (np.asarray(a).dtype, np.shape(a)) == (np.asarray(b).dtype, np.shape(b))
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    return graph


def oscillator(y: Any, v: Any, a: Any) -> Any:
    for _ in range(40):
        y, v = y + 0.1 * v, v - a * np.sin(y)
    return y * v


def test_the_derivative_has_the_equations_of_one_step():
    graph = check(oscillator, 1.0, 2.0, 0.3)
    assert scans(graph) == 2
    assert len(graph.equations) < 40


def test_numbers_and_items_that_differ_from_step_to_step():
    def f(u, p):
        x = p[0]
        for i in range(30):
            x = x + np.tanh(u[i]) * p[1] + x * (0.01 * i)
        return x * p[2]

    check(f, rng.normal(size=30), np.array([0.5, 0.2, 2.0]))


def test_states_that_are_written_into_an_array():
    def f(y, target):
        out = np.zeros(30)
        for i in range(30):
            y = 0.9 * y + 0.1 * np.sin(y)
            out[i] = y
        return np.sum((out - target) ** 2)

    check(f, 1.0, rng.normal(size=30))


def test_arrays_and_data_that_are_not_differentiated():
    xs = rng.normal(size=(25, 3))

    def f(w):
        h = np.zeros(3)
        for x in xs:
            h = np.tanh(w @ h + x)
        return np.sum(h**2)

    check(f, rng.normal(size=(3, 3)))


def test_inner_loops_and_stopped_values():
    def f(e, mean):
        total = e * 0.0
        for m in mean:
            x = m
            for _ in range(4):
                x = x - (x - e * np.sin(x) - m) / (1 - e * np.cos(x))
            total = total + np.cos(x) * (1.0 + 0.0 * fg.stop_gradient(x))
        return total

    check(f, 0.3, np.linspace(0.1, 2.0, 20))


def test_gradients_of_gradients():
    def f(x):
        return fg.grad(oscillator)(x, 2.0, 0.3) ** 2

    check(f, 1.0)
    hessian = fg.hessian(lambda z: oscillator(z[0], z[1], 0.3))
    z = np.array([1.0, 2.0])
    np.testing.assert_allclose(fg.jit(hessian)(z), hessian(z), rtol=1e-12)


def test_a_result_beside_the_differentiated_one():
    def f(x):
        y = x
        for _ in range(30):
            y = y + 0.1 * np.sin(y)
        return y, fg.stop_gradient(y) + 1.0

    found = fg.jit(fg.grad(f, has_aux=True))(0.5)
    expected = fg.grad(f, has_aux=True)(0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


# --- where a cotangent of a scan would be zero times infinity -------------------------------------


def test_masked_cotangents():
    def f(x):
        for _ in range(20):
            x = np.where(x > 0.0, np.sqrt(x) + 1.0, 2.0)
        return np.sum(x)

    check(f, np.array([0.0, -1.0, 2.0]), rolled=False)


def test_a_mask_after_the_loop():
    known = np.arange(20) % 3 > 0

    def f(x):
        out = np.zeros(20)
        for i in range(20):
            x = x + 1.0
            out[i] = np.sqrt(x - 4.0)  # 0 at i = 3, where the slope is infinite
        return np.sum(np.where(known, out, 0.0))

    with np.errstate(all="ignore"):
        check(f, 0.0, rolled=False)


def test_values_that_the_result_does_not_depend_on():
    def f(x, z):
        for _ in range(20):
            x, z = x + 0.1 * np.sin(x), z + np.sqrt(x - x) * 0.0 + x
        return x + 0.0 * fg.stop_gradient(z)

    with np.errstate(all="ignore"):
        check(f, 1.0, 1.0, rolled=False)


def test_gradients_that_are_blocked():
    def f(x):
        for _ in range(20):
            with fg.no_gradient():
                factor = np.cos(x)
            x = x + 0.1 * np.sin(x) * factor
        return x

    check(f, 1.0)


def test_values_that_are_overwritten():
    def f(x):
        y = np.sqrt(x)
        for i in range(20):
            y[i] = 0.5 * np.sin(y[i + 1]) + i
        return np.sum(y)

    check(f, np.arange(21.0), rolled=False)


def test_branches_on_values():
    def f(x):
        for _ in range(20):
            x = x + 0.1 * np.sin(x)
            if x > 100.0:
                x = x * 0.5
        return x

    check(f, 1.0, rolled=False)


def test_effects(capsys):
    def f(x):
        for _ in range(20):
            x = x + 0.1 * np.sin(x)
            fg.debug.print("{}", x)
        return x

    fg.jit(fg.grad(f))(1.0)
    assert len(capsys.readouterr().out.split()) == 20


# --- the check ------------------------------------------------------------------------------------


def test_a_wrong_scan_is_noticed(monkeypatch):
    right = differentiated_loops.reroll_loops

    def wrong(graph: Graph) -> Graph:
        rolled = right(graph)
        (at,) = [n for n, e in enumerate(rolled.equations) if e.primitive is scan]
        found = rolled.equations[at]
        params = {**found.params, "length": found.params["length"] - 1}
        equations = list(rolled.equations)
        equations[at] = copied(found, found.inputs, found.outputs, params)
        return rolled.replace(equations=tuple(equations))

    monkeypatch.setattr(differentiated_loops, "reroll_loops", wrong)
    with pytest.raises(MiscompiledError, match="disagrees with the evaluator"):
        fg.jit(fg.grad(oscillator))(1.0, 2.0, 0.3)
