"""Re-rolling: the loops of Python become scans, and every bit stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fungrad as fg
from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.loops.periods import candidates, runs
from fungrad.compiler.passes.loops.reroll import reroll
from fungrad.compiler.passes.pipeline import optimised, reroll_loops
from fungrad.compiler.passes.simplify.driver import simplify_moves
from fungrad.compiler.passes.store_forwarding import forward_stores
from fungrad.control_flow.call import interpreted
from fungrad.ir.graph import Graph
from fungrad.tracing.graph_trace import evaluate
from fungrad.tree_util import tree_leaves

rng = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short loops are rolled, too."""
    monkeypatch.setattr(costs, "rerolled_equations", 20)


def lengths(graph: Graph) -> list[int]:
    """The numbers of steps of a Graph's scans."""
    return [e.params["length"] for e in graph.equations if e.primitive.name == "scan"]


def same(f: Any, *args: Any) -> Graph:
    """The rolled Graph of a function, which has the bits of the Graph that is rolled."""
    graph = fg.make_jaxpr(f)(*args)
    rolled = reroll_loops(graph)
    fg.check_graph(rolled)
    given = [np.asarray(a)[()] for a in tree_leaves(args)]
    unrolled = forward_stores(simplify_moves(graph))
    with interpreted():
        found = evaluate(unrolled, given), evaluate(rolled, given)
    for a, b in zip(*found, strict=True):
        assert (np.asarray(a).dtype, np.shape(a)) == (np.asarray(b).dtype, np.shape(b))
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return rolled


def rolled(f: Any, *args: Any, steps: list[int]) -> Graph:
    """The rolled Graph, whose scans have about so many steps: a few at the ends may be apart."""
    found = same(f, *args)
    assert len(lengths(found)) == len(steps)
    for a, b in zip(lengths(found), steps, strict=True):
        assert b - 4 <= a <= b
    return found


def left(f: Any, *args: Any) -> None:
    """The Graph is left as it is."""
    assert not lengths(same(f, *args))


# --- what a step reads ----------------------------------------------------------------------------


def test_carried_and_invariant_values():
    def f(y, v, a):
        for _ in range(20):
            y, v = y + 0.1 * v, v - a * np.sin(y)
        return y * v

    rolled(f, 1.0, 2.0, 0.3, steps=[20])
    rolled(fg.grad(f, (0, 1, 2)), 1.0, 2.0, 0.3, steps=[20, 20])


def test_items_of_arrays():
    def f(u, w):
        x = w[0, 0]
        for i in range(20):
            x = x + np.tanh(u[i]) * w[19 - i, 1] - u[-1 - i] * w[i, i % 1]
        return x

    args = rng.normal(size=20), rng.normal(size=(20, 2))
    graph = rolled(f, *args, steps=[20])
    assert not any(e.primitive.name == "stack" for e in graph.equations)
    same(fg.grad(f, (0, 1)), *args)


def test_rows_and_columns():
    def f(x, w):
        h = np.zeros(3)
        for i in range(15):
            h = np.tanh(w @ h + x[i] * x[:, 1][:3] + x[2:5, 0])
        return h

    rolled(f, rng.normal(size=(15, 3)), rng.normal(size=(3, 3)), steps=[15])

    def columns(x):
        h = np.zeros(4)
        for i in range(15):
            h = np.sin(h + x[:, i]) * x[:, 14 - i]
        return h

    rolled(columns, rng.normal(size=(4, 15)), steps=[15])


def test_items_by_iteration():
    def f(xs):
        total = 0.0
        for x in xs:
            total = np.sin(total + x) * x
        return total

    rolled(f, rng.normal(size=25), steps=[25])
    rolled(fg.grad(f), rng.normal(size=25), steps=[25, 25])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers_that_change(dtype):
    def f(y):
        for i in range(20):
            y = y + np.sin(y * (i * 0.1)) / (i + 1) - np.maximum(y, i) * np.float32(i)
        return y

    rolled(f, dtype(1.0), steps=[20])
    rolled(fg.grad(f), dtype(1.0), steps=[20, 20])


def test_exponents_that_change_stay():
    def f(y):
        for i in range(20):
            y = np.sin(y) ** i + y * 0.5
        return y

    left(f, 1.0)


def test_integers_beside_numbers_of_python():
    def f(n, x):
        for i in range(20):
            n = (n * 3 + i) % 1000
            x = x + np.where(n > i, x, n) * 0.5
        return x, n

    rolled(f, np.int64(5), 1.0, steps=[20])


def test_values_of_two_steps_before():
    def f(a, b):
        for i in range(20):
            a, b = b, np.sin(a) + 0.5 * b * i
        return a, b

    rolled(f, 1.0, 2.0, steps=[20])

    def three(a, b, c):
        out = []
        for _ in range(20):
            a, b, c = b, c, np.sin(a) * b + c
            out.append(a + c)
        return np.stack(out), c

    rolled(three, 1.0, 2.0, 0.5, steps=[20])


def test_a_value_of_the_first_step():
    def f(x):
        first = None
        for _ in range(20):
            y = np.sin(x) * 1.5
            first = y if first is None else first
            x = y * first + x
        return x

    rolled(f, 1.0, steps=[20])


def test_a_value_from_too_many_steps_before():
    def f(x):
        xs = [x * i for i in range(1, 9)]
        for _ in range(80):
            xs.append(np.sin(xs[-8]) * 1.25 - xs[-1])
        return xs[-1]

    left(f, 1.0)


def test_another_output_of_the_step_before():
    first = [True, True, False, True, False, False, True, False, True, True] * 3

    def f(x):
        for is_first in first:
            a, b = np.stack([x, x * 0.5])
            x = np.sin(a if is_first else b) * 1.5
        return x

    same(f, 1.0)


def test_an_operand_that_changes_its_place_divides_the_loop():
    def f(x, y):
        for i in range(40):
            z = x if i < 20 else y
            x, y = np.sin(z) * 1.5, np.cos(x) + y * 0.5
        return x + y

    same(f, 1.0, 2.0)


# --- what is read behind a loop -------------------------------------------------------------------


def test_written_and_appended_values():
    def f(y):
        out, rows = np.zeros(20), []
        for i in range(20):
            y = 0.9 * y + np.sin(y)
            out[i] = y
            rows.append(y * 2)
        return np.sum(out * out), np.array(rows), out[3], out[-2]

    rolled(f, 1.0, steps=[20])

    def loss(y):
        total, rows, third, last = f(y)
        return total + np.sum(rows) * third + last

    rolled(fg.grad(loss), 1.0, steps=[20] * 2)


def test_a_loop_over_the_results_of_another():
    def f(y):
        ys = []
        for _ in range(20):
            y = 0.9 * y + np.sin(y)
            ys.append(y)
        total = y * 0.0
        for i in reversed(range(20)):
            total = np.cos(total * ys[i]) + ys[19 - i]
        return total

    rolled(f, 1.0, steps=[20, 20])


def test_nested_loops():
    def f(x, times):
        total = 0.0
        for t in times:
            z = t
            for _ in range(5):
                z = z - (z - x * np.sin(z) - t) / (1 - x * np.cos(z))
            total = total + z * z
        return total

    rolled(f, 0.3, np.linspace(0.1, 2, 12), steps=[12])

    def inner(x):
        for i in range(8):
            y = x * i
            for _ in range(30):
                y = np.sin(y) * 1.5 + x
            x = x + 0.1 * y
        return x

    loop = [e for e in same(inner, 0.5).equations if e.primitive.name == "scan"][-1]
    assert loop.params["length"] == 7
    assert lengths(loop.params["body"]) == [30]


def test_loops_of_scans_and_branches():
    def f(x):
        for _ in range(12):
            x, _ = fg.lax.scan(lambda c, _: ((np.sin(c[0]) + c[1], c[1]), None), (x, x), length=3)[
                0
            ]
            x = fg.lax.cond(x > 0.5, lambda v: v * 0.5, lambda v: v + 1.0, x)
        return x

    assert lengths(same(f, 0.5))[-1] in (11, 12)


def test_different_lines_are_different_steps():
    text = "def f(x):\n" + "    x = np.sin(x) * 1.5 + x\n" * 20 + "    return x\n"
    names: dict[str, Any] = {"np": np}
    exec(compile(text, "<lines>", "exec"), names)
    left(names["f"], 1.0)


def test_effects_and_large_values_stay():
    def told(x):
        for _ in range(20):
            x = np.sin(x) * 1.5
            fg.debug.print("{}", x)
        return x

    left(told, 1.0)

    seen = []
    noted = fg.extend.general(
        "noted_in_a_loop", eval=lambda x: seen.append(x) or x * 1.5, type=lambda x: x, effect=True
    )

    def notes(x):
        for _ in range(20):
            x = np.sin(noted(x))
        return x

    left(notes, 1.0)

    def network(x, weights):
        for w in weights:
            x = np.tanh(w @ x) * 0.5 + x
        return x

    weights = [rng.normal(size=(60, 60)) / 9 for _ in range(20)]
    left(network, rng.normal(size=60), weights)  # a stack would copy them all
    small = [w[:4, :4] for w in weights]
    rolled(network, rng.normal(size=4), small, steps=[20])


def test_short_programs_and_other_settings(monkeypatch):
    def f(x):
        for _ in range(20):
            x = np.sin(x) * 1.5 + x
        return x

    monkeypatch.setattr(costs, "rerolled_equations", 300)
    left(f, 1.0)
    graph = fg.make_jaxpr(f)(1.0)
    assert reroll(graph) is graph

    def network(w, h):  # each product ends a kernel
        for _ in range(20):
            h = np.tanh(h @ w + 0.1)
        return h

    rolled(network, np.eye(16), np.ones(16), steps=[19])
    left(network, np.eye(300), np.ones(300))


# --- compiled -------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["native", "numpy"])
def test_compiled_gradients(backend, monkeypatch):
    if backend == "native":
        pytest.importorskip("llvmlite")
    monkeypatch.setattr(fg.config, "backend", backend)

    def f(p, u):
        x, out = p[0], np.zeros(30)
        for i in range(30):
            x = x + 0.1 * (np.tanh(u[i]) - p[1] * x)
            out[i] = x
        return np.sum(out**2)

    args = np.array([0.1, 0.3]), rng.normal(size=30)
    g = fg.grad(f, (0, 1))
    assert len(lengths(optimised(fg.make_jaxpr(g)(*args)))) == 2
    for a, b in zip(fg.jit(g)(*args), g(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_warnings_are_at_the_line_of_the_step(monkeypatch):
    monkeypatch.setattr(fg.config, "backend", "numpy")

    def f(x):
        for _ in range(20):
            x = np.exp(x) * 1.5
        return x

    with pytest.warns(RuntimeWarning, match="overflow") as caught:
        fg.jit(f)(np.ones(3))
    assert {w.filename for w in caught} == {__file__}


# --- random loops ---------------------------------------------------------------------------------


# --- independent steps ----------------------------------------------------------------------------


def test_independent_steps_are_one_batch():
    x = rng.normal(size=(10, 400))

    def rows(x):
        return np.stack([np.tanh(x[i]) * (i + 1.0) for i in range(10)])

    def parts(x):
        return np.concatenate([x[i] * x[i, ::-1] for i in range(10)])

    def written(x):
        y = np.zeros(10)
        for i in range(10):
            y[i] = np.max(x[i] * x[0])
        return y

    for f in (rows, parts, written, lambda x: np.apply_along_axis(np.max, 1, x)):
        found = same(f, x)
        assert len(found.equations) <= 6 and not lengths(found)
        gradient = fg.grad(lambda x, f=f: np.sum(f(x) ** 2))
        np.testing.assert_allclose(fg.jit(gradient)(x), gradient(x), rtol=1e-12)


def test_steps_that_stay():
    def alone(x):  # nothing joins the results
        first, *_, last = [np.tanh(x[i]) for i in range(10)]
        return first - last

    few = rng.normal(size=(10, 4))
    assert len(same(lambda x: np.stack([np.tanh(x[i]) for i in range(10)]), few).equations) > 10
    assert len(same(alone, rng.normal(size=(10, 400))).equations) > 10


def random_loop(seed: int) -> tuple[Any, tuple[Any, ...]]:
    """A function of two arrays with a random loop, perhaps in another, and code around it."""
    r = np.random.default_rng(seed)
    steps, inner = int(r.integers(8, 20)), int(r.integers(1, 4))
    shape = [(), (3,)][r.integers(2)]
    plan = [tuple(r.integers(0, 12, 4).tolist()) for _ in range(r.integers(3, 9))]
    before, behind = r.integers(0, 3, 2)

    def made(kind: int, i: int, p: Any, q: Any, item: Any) -> Any:
        if kind < 2:
            return np.sin(p) + q if kind else p * 0.5 - item
        if kind < 4:
            return q * (0.1 * i) + p if kind == 2 else np.maximum(p, item) * 0.9
        return np.where(q > 0.1 * i, p, -q) if kind == 4 else p / (1.0 + q * q)

    def step(values: list[Any], i: int, x: Any, y: Any) -> None:
        new: list[Any] = []
        for kind, a, b, c in plan:
            both = values + new
            item = (x[i], x[-1 - i], y[i // 2, i % 2])[c % 3]
            new.append(made(kind % 6, i, values[a % len(values)], both[b % len(both)], item))
        values[:] = [*values[1:], new[-1]] if plan[0][1] % 3 else new[-len(values) :]

    def f(x: Any, y: Any) -> Any:
        values = [x[0], np.tanh(y[0, 0]), x[1] * 0.5]
        for _ in range(before):
            values[0] = np.cos(values[0])
        found = []
        for i in range(steps):
            for _ in range(inner):
                step(values, i, x, y)
            found.append(values[-1])
        total = values[0] + values[1]
        for _ in range(behind):
            total = np.sin(total)
        return np.sum(total) + np.sum(np.stack(found) * 0.5) if plan[0][2] % 2 else np.sum(total)

    return f, (r.normal(size=(steps, *shape)), r.normal(size=(steps, 2, *shape)))


def check_random(seed: int) -> int:
    """The scans of a random loop and of its gradient."""
    f, args = random_loop(seed)
    with np.errstate(all="ignore"):
        return len(lengths(same(f, *args))) + len(lengths(same(fg.grad(f, (0, 1)), *args)))


def test_random_loops():
    assert sum(check_random(seed) > 0 for seed in range(6)) >= 4


@pytest.mark.slow
def test_more_random_loops():
    for seed in range(100, 106):
        check_random(seed)


# --- periods --------------------------------------------------------------------------------------


def test_periods_of_words():
    words = np.array([9, 8, *[1, 2, 3] * 10, 7, *[1, 1, 1, 4] * 8, 5])
    found = candidates(words)
    assert {3, 4} <= set(found)
    assert next(runs(words[3:] == words[:-3])) == (2, 29)
    assert candidates(np.arange(50)) == []
