"""Equal Graphs are one, so that loops in eager functions are transformed and compiled once."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import fungrad as fg
from fungrad.control_flow import call
from fungrad.lax import cond, scan, while_loop
from fungrad.retracing import interned as module
from fungrad.retracing.interned import interned
from fungrad.scipy.integrate import solve_ivp

X = np.linspace(0.1, 0.5, 3)


def recorded(constant, number):
    return fg.make_jaxpr(lambda x: np.sin(x * constant) + number)(X)


def test_equal_graphs_are_one():
    first, second = recorded(np.arange(3.0), 2.0), recorded(np.arange(3.0), 2.0)
    assert first is not second
    assert interned(first) is interned(second) is first


def test_constants_may_be_numbers():
    graph = recorded(np.arange(3.0), 2.0)
    variable = graph.constants[0][0]

    def with_constant(value):
        return graph.replace(constants=((variable, value),))

    assert interned(with_constant(0.5)) is interned(with_constant(0.5))
    assert interned(with_constant(0.0)) is not interned(with_constant(-0.0))


@pytest.mark.parametrize(
    "other",
    [
        recorded(np.arange(1.0, 4.0), 2.0),
        recorded(np.arange(3), 2.0),
        recorded(-np.zeros(3), 2.0),
        recorded(np.arange(3.0), -0.0),
        recorded(np.arange(3.0), 0.0),
        recorded(np.arange(3.0), np.float32(2)),
        fg.make_jaxpr(lambda x: np.sin(x * np.arange(3.0)) + 2.0)(X),  # another line
        recorded(np.arange(3.0), 2.0).replace(verify="never"),
    ],
)
def test_what_differs_stays_apart(other):
    assert interned(recorded(np.arange(3.0), 2.0)) is not interned(other)


def test_long_constants_and_functions_are_not_kept():
    long = [recorded(np.zeros((1000, 3)), 1.0) for _ in range(2)]
    assert interned(long[0]) is not interned(long[1])

    def told(x):
        fg.debug.callback(lambda y: None, x)
        return x * 2.0

    graphs = [fg.make_jaxpr(told)(1.0) for _ in range(2)]
    kept = [weakref.ref(interned(graph)) for graph in graphs]
    del graphs
    gc.collect()
    assert [ref() for ref in kept] == [None, None]


def test_programs_of_loops_are_made_once(monkeypatch):
    builds = []
    backend = type(call.backend())
    compile = backend.compile
    monkeypatch.setattr(
        backend, "compile", lambda self, graph: builds.append(graph) or compile(self, graph)
    )

    def loss(x, scale):
        def step(y, t):
            y = cond(y[0] > 0.0, lambda y: np.tanh(y * scale + t), lambda y: y, y)
            return y, np.sum(y)

        y, sums = scan(step, x, np.arange(4.0))
        y, _ = while_loop(lambda c: c[1] < 3, lambda c: (np.sin(c[0]) * scale, c[1] + 1), (y, 0))
        return np.sum(y) + np.sum(sums)

    def differences(scale):
        moved = [loss(X + e, scale) - loss(X - e, scale) for e in 1e-6 * np.eye(3)]
        return np.array(moved) / 2e-6

    for scale in (0.7, 1.1):  # a constant of the bodies
        assert np.allclose(fg.grad(loss)(X, scale), differences(scale), rtol=1e-6)
    made = len(builds)
    for scale in (0.7, 1.1):
        assert np.allclose(fg.grad(loss)(X, scale), differences(scale), rtol=1e-6)
    assert len(builds) == made


def test_an_array_that_is_written_between_calls_is_another_constant():
    weights = np.ones(3)

    def loss(x):
        return np.sum(scan(lambda y, _: (np.sin(y * weights), None), x, length=3)[0])

    before = fg.grad(loss)(X)
    weights[1] = 0.5
    after = fg.grad(loss)(X)
    assert before[0] == after[0]
    assert np.isclose(
        after[1], fg.grad(lambda y: np.sin(0.5 * np.sin(0.5 * np.sin(0.5 * y))))(X[1])
    )


def test_loops_over_other_arrays_share_their_graphs():
    index = np.array([2, 0, 1])

    def by_loops(matrix, x):
        y = scan(lambda c, _: (np.sin(matrix @ c[index]), None), x, length=3)[0]
        y = while_loop(lambda c: np.sum(c * matrix[0]) < 9.0, lambda c: c + abs(matrix @ c), y)
        return np.sum(y)

    def plain(matrix, x):
        for _ in range(3):
            x = np.sin(matrix @ x[index])
        while np.sum(x * matrix[0]) < 9.0:
            x = x + abs(matrix @ x)
        return np.sum(x)

    kept = []
    for k in range(3):
        matrix = np.eye(3) + 0.1 * (k + np.arange(9.0)).reshape(3, 3)
        assert np.isclose(by_loops(matrix, X), plain(matrix, X), rtol=1e-12)
        assert np.allclose(fg.grad(by_loops, 1)(matrix, X), fg.grad(plain, 1)(matrix, X))
        assert np.allclose(fg.grad(by_loops)(matrix, X), fg.grad(plain)(matrix, X))
        kept.append(set(module._graphs))
    assert kept[0] == kept[1] == kept[2]


def test_adjoints_of_differential_equations_are_compiled_once():
    def energy(y0):
        found = solve_ivp(
            lambda t, y: -y, (0.0, 1.0), y0, t_eval=[0.5, 1.0], gradient="adjoint", rtol=1e-6
        )
        return np.sum(found.y)

    fg.clear_caches()
    assert not module._graphs
    kept = []
    for _ in range(2):
        assert np.allclose(fg.grad(energy)(np.ones(1)), np.exp(-0.5) + np.exp(-1.0), rtol=1e-4)
        kept.append(set(module._graphs))
    assert kept[0] == kept[1] != set()
