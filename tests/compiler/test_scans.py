"""Scans on arrays: equations that leave them, the code of their steps, and equal numbers."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax
from fungrad.compiler.cost_model import costs
from fungrad.compiler.numpy_backend.array_lowering import ArrayLowering
from fungrad.compiler.passes.pipeline import optimised
from fungrad.tree_util import tree_leaves, tree_map

RNG = np.random.default_rng(0)
SIZE = 9


def names(graph):
    return [e.primitive.name for e in graph.equations]


def loops_of(f, *args):
    graph = optimised(fg.make_jaxpr(f)(*args))
    fg.check_graph(graph)
    return graph, [e for e in graph.equations if e.primitive.name == "scan"]


def steps(step, start, xs, reverse=False):
    """`lax.scan` in Python, which no pass sees as a loop."""
    carry, ys = start, []
    order = range(len(xs))
    for i in reversed(order) if reverse else order:
        carry, y = step(carry, xs[i])
        ys.append(y)
    ys = ys[::-1] if reverse else ys
    return carry, tree_map(lambda *parts: np.stack(parts), *ys)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def gates(scan, w, u, start, xs, reverse=False):
    """An LSTM: slices of one array, sums that the way back carries, carries that are stacked."""

    def step(carry, x):
        h, cell = carry
        z = x @ w + h @ u
        keep, take = sigmoid(z[:SIZE]), sigmoid(z[SIZE : 2 * SIZE])
        cell = keep * cell + take * np.tanh(z[2 * SIZE :])
        h = np.tanh(cell)
        return (h, cell), (h, cell * x[0], carry[1])

    (h, cell), (hs, more, before) = scan(step, (start, start * 0.5), xs, reverse=reverse)
    return np.sum(h * cell) + np.sum(hs**2) + np.sum(more) + np.sum(np.sin(before))


def filtered(scan, a, start, xs, reverse=False):
    """Linear algebra in each step, some of which only the outputs need."""

    def step(carry, x):
        p = a @ carry @ a.T + np.eye(4) * np.exp(x[0])
        gain = np.linalg.solve(p + np.eye(4), a)
        cost = np.linalg.slogdet(p)[1] + np.sum(np.linalg.inv(p)) + x[1] * np.sin(x[0])
        return p - 0.1 * gain @ p @ gain.T, (cost, np.outer(x, x), np.stack([p, p.T]))

    end, (costs, outer, pairs) = scan(step, start, xs, reverse=reverse)
    return np.sum(end) + np.sum(costs) + np.sum(outer**2) + np.sum(pairs * pairs)


def polynomial(scan, w, start, xs, reverse=False):
    """Chains of products and sums with known values."""

    def step(c, x):
        y = -(c * x / 1.5) * w * np.exp(x) / (2.0 + x) + 0.5 * x - w + np.sin(x)
        return 0.5 * y - x, (y, 2.0 * y * x, (c[:3], x))

    end, (ys, zs, (part, same)) = scan(step, start, xs, reverse=reverse)
    return np.sum(end) + np.sum(ys * zs) + np.sum(part) + np.sum(same * same)


def swapped(scan, w, start, xs, reverse=False):
    """Carries that change places, or leave as views of each other."""

    def step(carry, x):
        a, b, c = carry
        new = np.tanh(a @ w + x)
        return (b, new, new[::-1]), (a, b * x, c)

    end, ys = scan(step, (start, start * 2.0, start - 1.0), xs, reverse=reverse)
    return sum(np.sum(np.sin(y)) for y in (*end, *ys))


def nested(scan, w, start, xs, reverse=False):
    """A scan in a scan, and one over the stack of the first."""

    def inner(c, x):
        c = np.tanh(c * w + x)
        return c, c * x

    def step(c, x):
        c, ys = scan(inner, c, np.stack([x, np.cos(x), x * x]))
        return c, (ys, np.sum(ys))

    end, (ys, sums) = scan(step, start, xs, reverse=reverse)
    return np.sum(end) + np.sum(ys**2) + np.sum(sums * sums)


def assembled(scan, w, start, xs, reverse=False):
    """Arrays put together of parts, which gradients are added to, and that NumPy repeats."""
    column = np.array([[[0.5]], [[1.0]]], xs.dtype)

    def step(c, x):
        pair = np.concatenate([x[None], c[:-1]])
        gates = np.tanh(pair * w + column)
        more = 0.5 + column * gates
        new = 0.5 * c * more[0] + more[1, ::-1] * gates[0]
        return new, (new[-1], np.outer(new[0, :3], x[:2]), np.stack([new, new[::-1] * x]))

    end, (rows, outer, pairs) = scan(step, start, xs, reverse=reverse)
    return np.sum(end) + np.sum(rows**2) + np.sum(outer * outer) + np.sum(np.sin(pairs))


def turned(scan, w, start, xs, reverse=False):
    """Products that are turned, negated and added; equations, and inverses."""
    one = np.eye(4, dtype=xs.dtype)

    def step(c, x):
        more = np.outer(c[0], x[1]) + (w @ c @ x.T).T + c @ x.T
        new = np.tanh(0.1 * (more - (-w) @ x + (-c) @ w.T - w @ c.T))
        both = one + new @ new.T
        return new, np.linalg.solve(both, c) @ np.linalg.inv(both + 1.0).T

    end, ys = scan(step, start, xs, reverse=reverse)
    return np.sum(end) + np.sum(ys * ys)


def abreast(scan, w, start, xs, reverse=False):
    """Several products, of values that other equations read, too, and of the next step's values."""
    more = w + 1.0

    def step(carry, x):
        u, v = np.tanh(carry[0] + x), np.cos(carry[1]) * 0.5
        k = np.sin(x)
        wide = np.concatenate([u * k, v * x, more * u, v * more], axis=1)
        tall = np.concatenate([v * k, w * v], axis=0)
        row = np.concatenate([u[0] * x[0], u[0] * k[0], k[1] * v[1]])
        pair = np.stack([u * w, k * k * v, u * np.exp(x)])
        new = np.sin(wide @ wide.T) @ v + tall[1:3] + pair[1] + np.sum(row)
        return (0.1 * new + u, u), (wide, row[5:], np.exp(v), pair)

    end, ys = scan(step, (start, 0.5 * start), xs, reverse=reverse)
    return sum(np.sum(np.sin(y)) for y in (*end, *ys))


def divided(scan, w, start, xs, reverse=False):
    """Equations with matrices that are known, before a step or before the loop."""
    more = w @ w.T + np.eye(4)

    def step(c, x):
        first = np.linalg.solve(x @ x.T + np.eye(4), np.tanh(c))
        second = np.linalg.solve(more, first + x) + np.linalg.solve(more.T + x.T @ x, c @ w)
        vector = np.linalg.solve(x + 9.0 * np.eye(4), c[0])
        return 0.3 * (second + vector), (first, vector)

    end, ys = scan(step, start, xs, reverse=reverse)
    return sum(np.sum(np.sin(y)) for y in (end, *ys))


def linear(scan, w, start, xs, reverse=False):
    """Sums of products with known matrices, of transposed values, of vectors, of single values."""
    known = np.cos(w) * 0.2
    pair = known @ w

    def step(carry, x):
        m, p = carry
        a = x @ w
        first = p @ x + p.T @ a - (p @ a) @ known.T
        second = m - (m @ a + x[0]) @ known + pair @ m - x[1]
        third = (first - x.T) + ((first @ known) @ pair - a)
        fourth = (third - third @ a) + (x - third) - np.sin(p) @ known
        last = (np.sin(p) @ known) @ pair - ((p @ known) @ pair - p)
        new = np.tanh(0.1 * (fourth @ x + last.T))
        return (np.sin(0.1 * second), new), (first, second @ known, fourth, p @ a, last)

    (m, p), ys = scan(step, (start[0], start), xs, reverse=reverse)
    return np.sum(p * p) + np.sum(np.sin(m)) + sum(np.sum(np.sin(y)) for y in ys)


def numbers(length):
    rng = np.random.default_rng(length)
    spread = np.eye(4) + 0.1 * rng.normal(size=(4, 4))
    return {
        gates: (
            rng.normal(size=(5, 3 * SIZE)), 0.3 * rng.normal(size=(SIZE, 3 * SIZE)),
            rng.normal(size=SIZE), rng.normal(size=(length, 5)),
        ),
        filtered: (0.5 * spread, spread @ spread.T, 0.3 * rng.normal(size=(length, 2))),
        polynomial: (
            rng.normal(size=70), rng.normal(size=70), rng.uniform(0.1, 1.0, size=(length, 70))
        ),
        swapped: (
            rng.normal(size=(9, 9)), rng.normal(size=9), rng.normal(size=(length, 9)),
        ),
        nested: (rng.normal(size=70), rng.normal(size=70), rng.normal(size=(length, 70))),
        assembled: (
            rng.normal(size=(2, 2, 40)), rng.normal(size=(2, 40)), rng.normal(size=(length, 40)),
        ),
        turned: (
            rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), rng.normal(size=(length, 4, 4)),
        ),
        abreast: (
            rng.normal(size=(2, 40)), rng.normal(size=(2, 40)), rng.normal(size=(length, 2, 40)),
        ),
        linear: (
            0.5 * rng.normal(size=(5, 5)), rng.normal(size=(5, 5)),
            0.5 * rng.normal(size=(length, 5, 5)),
        ),
        divided: (
            rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), rng.normal(size=(length, 4, 4)),
        ),
    }  # fmt: skip


PROGRAMS = (
    gates,
    filtered,
    polynomial,
    swapped,
    nested,
    assembled,
    turned,
    abreast,
    divided,
    linear,
)


def close(got, want, rtol=1e-9):
    for x, y in zip(tree_leaves(got), tree_leaves(want), strict=True):
        assert np.shape(x) == np.shape(y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-9)


@pytest.mark.parametrize(
    ("length", "reverse"), [(1, False), (2, True), (7, False), (7, True), (40, False)]
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_scan_and_its_gradient_give_the_numbers_of_a_loop(program, length, reverse):
    args = numbers(length)[program]
    positions = tuple(range(len(args)))

    def f(scan):
        return lambda *args: program(scan, *args, reverse=reverse)

    want = fg.value_and_grad(f(steps), positions)(*args)
    close(fg.value_and_grad(f(lax.scan), positions)(*args), want)
    both = fg.jit(fg.value_and_grad(f(lax.scan), positions))
    close(both(*args), want)
    close(both(*args), want)  # its buffers are no business of the first results


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_scan_of_no_steps(program):
    args = numbers(0)[program]
    positions = tuple(range(len(args)))
    f = fg.value_and_grad(lambda *args: program(lax.scan, *args), positions)
    close(fg.jit(f)(*args), f(*args))


@pytest.mark.parametrize("program", PROGRAMS)
def test_second_derivatives_and_batches_of_scans(program):
    args = numbers(3)[program]

    def f(scan):
        return lambda start: program(scan, *args[:-2], start, args[-1])

    start = args[-2]
    tangent = np.cos(np.arange(start.size)).reshape(start.shape)
    for scan in (lax.scan, steps):
        turned = fg.grad(lambda x: np.sum(fg.grad(f(scan))(x) * tangent))  # noqa: B023
        found = fg.jit(turned)(start)
        want = turned(start) if scan is lax.scan else want  # noqa: F821
        close(found, want, rtol=1e-7)
    batch = np.stack([start, 0.5 * start, start * start])
    want = np.stack([fg.grad(f(steps))(row) for row in batch])
    close(fg.jit(fg.vmap(fg.grad(f(lax.scan))))(batch), want)
    close(fg.jit(fg.vmap(fg.jit(fg.grad(f(lax.scan)))))(batch), want)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int64])
def test_scans_of_other_dtypes(dtype):
    xs = (np.arange(5.0 * SIZE * SIZE).reshape(5, SIZE, SIZE) % 7 - 3).astype(dtype)

    def f(scan, start):
        def step(c, x):
            new = c @ x * 2 + x - c
            return new % 5 if dtype is np.int64 else new * 0.1, (new * x + 1, x.T, c)

        return scan(step, start, xs)

    close(fg.jit(lambda c: f(lax.scan, c))(xs[0]), f(steps, xs[0]), rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.bool_, np.float16])
def test_a_sum_that_a_scan_carries_keeps_its_dtype(dtype):
    def f(scan, start, xs):
        return scan(lambda c, x: (c + x * x, x[:2]), start, xs)

    start, xs = np.ones(70, dtype), (np.arange(9 * 70).reshape(9, 70) % 90).astype(dtype)
    close(fg.jit(lambda *args: f(lax.scan, *args))(start, xs), f(steps, start, xs), rtol=1e-2)


@pytest.mark.slow
def test_a_body_of_more_equations_than_python_calls_inside_of_each_other():
    def f(scan, start, xs):
        def step(c, x):
            for _ in range(1200):
                c = c * 0.999 + x
            return c, (c, np.sin(x))

        end, (ys, zs) = scan(step, start, xs)
        return np.sum(end * end) + np.sum(ys * zs)

    args = np.ones(70), np.linspace(0.0, 1.0, 140).reshape(2, 70)
    want = fg.value_and_grad(lambda *args: f(steps, *args))(*args)
    close(fg.jit(fg.value_and_grad(lambda *args: f(lax.scan, *args)))(*args), want)


WEIGHTS = np.cos(np.arange(2.0 * SIZE * SIZE)).reshape(2, SIZE, SIZE)
WELL = 3.0 * np.eye(SIZE)
OF_MATRICES = (
    lambda a, b, p, q: 0.2 * (a @ b),
    lambda a, b, p, q: 0.2 * (a @ b.T).T,
    lambda a, b, p, q: 0.2 * (a @ WEIGHTS[0] - b @ WEIGHTS[0]),
    lambda a, b, p, q: -a,
    lambda a, b, p, q: np.tanh(a * p) - b.T,
    lambda a, b, p, q: a * WEIGHTS[0, :1] + q[:, None],
    lambda a, b, p, q: np.outer(p, q),
    lambda a, b, p, q: np.concatenate([a[:4], b[4:]]),
    lambda a, b, p, q: np.stack([p, *[q] * (SIZE - 1)]),
    lambda a, b, p, q: np.sum(WEIGHTS * a, axis=0) * 0.3,
    lambda a, b, p, q: np.linalg.solve(WELL + 0.2 * np.tanh(a), b),
    lambda a, b, p, q: np.linalg.inv(WELL + 0.2 * np.tanh(a)),
)
OF_VECTORS = (
    lambda a, b, p, q: 0.3 * (a @ p),
    lambda a, b, p, q: 0.3 * (p @ b),
    lambda a, b, p, q: a[0] + b[-1] * q,
    lambda a, b, p, q: np.sum(a[:2], axis=0) - p,
    lambda a, b, p, q: np.concatenate([p[3:], q[:3]]),
)


def random_step(rng):
    """A step on a matrix and a vector, of equations that are chosen at random."""
    plan = rng.integers(0, 1000, size=(10, 5))

    def step(carry, x):
        matrices, vectors = [carry[0], x[0], WEIGHTS[1]], [carry[1], x[1]]
        for which, *at in plan:
            more, of = ((matrices, OF_MATRICES), (vectors, OF_VECTORS))[int(which % 3 == 0)]
            pick = [v[i % len(v)] for v, i in zip([matrices] * 2 + [vectors] * 2, at, strict=True)]
            more.append(of[which % len(of)](*pick))
        a, b, c, d = (
            v[-1 - i % len(v)] for v, i in zip([matrices, vectors] * 2, plan[0], strict=False)
        )
        return (np.tanh(a), 0.5 * b), (c, d, a.T)

    return step


@pytest.mark.parametrize("seed", range(24))
def test_random_steps_give_the_numbers_of_a_loop(seed, request):
    rng = np.random.default_rng(seed)
    step, length = random_step(rng), 1 + seed % 4
    if seed % 3 == 0:
        request.getfixturevalue("reassociated")
    args = [rng.normal(size=s) for s in ((SIZE, SIZE), SIZE)]
    stacks = [rng.normal(size=(length, *a.shape)) for a in args]

    def in_python(step, start, xs, reverse):
        return steps(step, start, list(zip(*xs, strict=True)), reverse)

    def f(scan):
        return lambda *a: scan(step, (a[0], a[1]), (a[2], a[3]), reverse=seed % 2 == 0)

    def total(scan):
        return lambda *a: sum(np.sum(np.sin(x)) for x in tree_leaves(f(scan)(*a)))

    close(fg.jit(f(lax.scan))(*args, *stacks), f(in_python)(*args, *stacks))
    found, want = (
        stage(fg.grad(total(scan), (0, 1, 2, 3)))(*args, *stacks)
        for stage, scan in ((fg.jit, lax.scan), (lambda g: g, in_python))
    )
    close(found, want, rtol=1e-7)


SUMS = (
    lambda a, b, v, k, j: (a @ k, v), lambda a, b, v, k, j: (a.T @ k, v),
    lambda a, b, v, k, j: (a @ k.T, v @ k), lambda a, b, v, k, j: (k @ a, k @ v),
    lambda a, b, v, k, j: (a + b, v - k[0]), lambda a, b, v, k, j: (a - b, k[1] - v),
    lambda a, b, v, k, j: (a - k, v @ k.T), lambda a, b, v, k, j: (k - a, k.T @ v),
    lambda a, b, v, k, j: (a @ k - b @ k, v), lambda a, b, v, k, j: (a - a @ k @ j, v @ k @ j - v),
    lambda a, b, v, k, j: (np.sin(a), v + np.cos(v)), lambda a, b, v, k, j: ((a @ k + j) @ j.T, v),
)  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_random_sums_of_products_give_the_numbers_of_a_loop(seed, request):
    rng = np.random.default_rng(seed)
    if seed % 2 == 0:
        request.getfixturevalue("reassociated")
    plan = rng.integers(0, 1000, size=(12, 5))
    start, w = rng.normal(size=(5, 5)), 0.3 * rng.normal(size=(5, 5))
    xs, one = 0.3 * rng.normal(size=(2 + seed % 3, 5, 5)), np.eye(5)

    def step(carry, x):
        found, known = [carry], [x, w, x @ w, w.T - x, one + x, w @ w + one]
        for which, i, j, k, m in plan:
            (a, v), (b, _) = (found[-1 - n % min(len(found), 3)] for n in (i, j))
            made = SUMS[which % len(SUMS)](a, b, v, known[k % 6], known[m % 6])
            found.append(tuple(0.5 * part if which % 7 == 0 else part for part in made))
        (a, v), (b, _), (c, u) = found[-1], found[-3], found[plan[0, 1] % len(found)]
        return (np.tanh(0.1 * a), np.sin(0.1 * v)), (b, c, u)

    def f(scan):
        return lambda *args: scan(step, (args[0], args[0][0]), args[1], reverse=seed % 2 == 0)

    def total(scan):
        return lambda *args: sum(np.sum(np.sin(y)) for y in tree_leaves(f(scan)(*args)))

    close(fg.jit(f(lax.scan))(start, xs), f(steps)(start, xs))
    found = fg.jit(fg.grad(total(lax.scan), (0, 1)))(start, xs)
    close(found, fg.grad(total(steps), (0, 1))(start, xs), rtol=1e-7)


# --- equations that leave the loop ----------------------------------------------------------------


def test_what_xs_alone_need_leaves_a_loop_on_small_arrays():
    args = numbers(7)[filtered]
    graph, (loop,) = loops_of(lambda *args: filtered(lax.scan, *args), *args)
    inside = names(optimised(loop.params["body"]))
    assert not {"exp", "sin"} & set(inside)
    assert {"exp", "sin"} <= set(names(graph))


def test_nothing_leaves_a_loop_on_large_arrays_or_numbers():
    def f(start, xs):
        return lax.scan(lambda c, x: (c * np.sin(x), np.exp(c)), start, xs)

    for shape in ((100, 100), (2,)):
        start = np.ones(shape)
        graph, (loop,) = loops_of(f, start, np.ones((3, *shape)))
        assert {"sin", "exp"} <= set(names(loop.params["body"])), shape
    assert names(graph) == ["scan"]


def test_an_effect_stays_in_its_loop(capsys):
    def f(start, xs):
        def step(c, x):
            y = x * 2.0
            fg.debug.print("{}", y[0])
            return c + y, np.sin(y)

        return lax.scan(step, start, xs)

    xs = np.arange(210.0).reshape(3, 70)
    close(fg.jit(f)(xs[0], xs), steps(lambda c, x: (c + 2 * x, np.sin(2 * x)), xs[0], xs))
    assert capsys.readouterr().out.split() == ["0.0", "140.0", "280.0"]
    fg.jit(lambda start, xs: f(start, xs)[0][0] * 0.0)(xs[0], xs)
    assert capsys.readouterr().out.split() == ["0.0", "140.0", "280.0"]


@pytest.mark.parametrize("size", [3, 30])
def test_what_stays_for_a_branch_keeps_what_it_is_made_of(size):
    def f(scan, start, kept):
        def step(c, x):
            gate = np.sum(c) > 0.0
            y = lax.cond(gate, lambda y: y.copy(), lambda y: np.cos(y) * 2.0, c * kept)
            return start, (c * 2.0, y, x)

        return scan(step, start, np.ones((2, size, size)))[1]

    args = np.ones((size, size)), np.full((size, size), 2.0)
    close(fg.jit(lambda *args: f(lax.scan, *args))(*args), f(steps, *args))

    def loss(scan):
        return lambda *args: sum(np.sum(y * y) for y in f(scan, *args))

    close(fg.jit(fg.grad(loss(lax.scan), (0, 1)))(*args), fg.grad(loss(steps), (0, 1))(*args))


def test_residuals_of_a_loop_that_is_the_same_in_all_steps():
    def f(x):
        def step(c, _):
            y = lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, np.tanh(s[1])), (0, x))[1]
            return c, y

        return np.sum(lax.scan(step, x[:1], None, length=5)[1] ** 2)

    x = np.linspace(0.1, 1.0, 70)
    close(fg.jit(fg.grad(f))(x), fg.grad(f)(x))


def test_a_gradient_s_way_back_is_short():
    args = numbers(7)[gates]
    _, (there, back) = loops_of(fg.grad(lambda *a: gates(lax.scan, *a), (0, 1, 2)), *args)
    inside = names(optimised(there.params["body"]))
    assert [inside.count(name) for name in ("exp", "div", "tanh")] == [2, 2, 2]
    inside = names(optimised(back.params["body"]))
    assert not {"exp", "scatter", "index_add", "neg", "sub"} & set(inside)
    assert inside.count("concatenate") == 1 and inside.count("mul") <= 10 and len(inside) <= 18
    assert back.params["counts"][1] == 2  # the sums for w and u are made behind it


def test_stacks_that_are_too_large_are_not_made(monkeypatch):
    def f(start, xs):
        return lax.scan(lambda c, x: (np.tanh(c @ c.T + np.outer(x, x)), None), start, xs)[0]

    start, xs = np.eye(9), np.ones((50, 9))
    _, (loop,) = loops_of(f, start, xs)
    assert "mul" not in names(loop.params["body"])
    monkeypatch.setattr(costs, "free_stack", 10)
    _, (loop,) = loops_of(f, start, xs)
    assert "mul" in names(loop.params["body"])


@pytest.mark.parametrize("size", [70, 3000])
def test_the_way_back_makes_of_few_stacks_what_it_needs(size):
    def f(scan, w, start, xs):
        def step(c, x):
            e = np.exp(-(c * w + x))
            new = 1.0 / (1.0 + e)
            return new, np.sum(np.reshape(np.tanh(new), (2, -1))[0] ** 2)

        end, ys = scan(step, start, xs)
        return np.sum(end) + np.sum(ys * ys)

    rng = np.random.default_rng(0)
    args = rng.normal(size=size), rng.normal(size=size), rng.normal(size=(5, size))
    positions = (0, 1, 2)
    g = fg.grad(lambda *args: f(lax.scan, *args), positions)
    _, (there, _) = loops_of(g, *args)
    stacks = sum(v.type.size for v in there.outputs if v.type.ndim > 1)
    assert stacks <= 3 * args[2].size  # exp, tanh, and the carry of each step
    close(fg.jit(g)(*args), fg.grad(lambda *args: f(steps, *args), positions)(*args))
    hessian = fg.jit(fg.grad(lambda w: np.sum(g(w, *args[1:])[0] ** 2)))
    close(hessian(args[0]), fg.grad(lambda w: np.sum(g(w, *args[1:])[0] ** 2))(args[0]))


def test_as_much_leaves_a_loop_as_may_be_stacked(monkeypatch):
    args = numbers(7)[assembled]
    counts = []
    for free in (1 << 17, 0):
        monkeypatch.setattr(costs, "free_stack", free)
        g = fg.grad(lambda *args: assembled(lax.scan, *args), (0, 1, 2))
        _, (_, back) = loops_of(g, *args)
        counts.append(names(optimised(back.params["body"])).count("mul"))
        close(fg.jit(g)(*args), fg.grad(lambda *args: assembled(steps, *args), (0, 1, 2))(*args))
    assert counts[0] < counts[1] < 20


def test_an_effect_stays_between_sums_of_products():
    seen = []

    def step(scan):
        def told(h, x):
            once = h @ x
            if scan is lax.scan:
                fg.debug.callback(seen.append, once)
            return np.tanh(once - (once @ x) @ x.T), np.sum(h)

        return told

    rng = np.random.default_rng(0)
    start, xs = rng.normal(size=(5, 5)), rng.normal(size=(30, 5, 5))
    found = fg.jit(lambda *args: lax.scan(step(lax.scan), *args))(start, xs)
    close(found, steps(step(steps), start, xs))
    assert len(seen) == 30
    np.testing.assert_allclose(seen[0], start @ xs[0])


def test_a_singular_matrix_in_a_step_is_an_error():
    def f(start, xs):
        return lax.scan(lambda c, x: (np.linalg.solve(c - x, np.eye(9)), None), start, xs)[0]

    start, xs = np.eye(9), np.stack([0 * np.eye(9), np.eye(9)])
    for run in (
        f,
        fg.jit(f),
        fg.jit(lambda *args: fg.grad(lambda s: np.sum(f(s, args[1])))(args[0])),
    ):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            run(start, xs)
    np.testing.assert_array_equal(fg.jit(f)(start, xs[:1]), start)


def test_single_precision_in_steps_that_are_put_together():
    for program in (assembled, turned):
        args = [a.astype(np.float32) for a in numbers(5)[program]]
        g = fg.jit(fg.grad(lambda *a, p=program: p(lax.scan, *a), (0, 1, 2)))
        want = fg.grad(lambda *a, p=program: p(steps, *a), (0, 1, 2))(*args)
        for x, y in zip(g(*args), want, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-3)


# --- slices ---------------------------------------------------------------------------------------


def test_slices_that_overlap_or_differ_are_not():
    x = RNG.normal(size=12)
    for f in (
        lambda x: np.exp(x[:6]) + np.exp(x[3:9]),
        lambda x: np.exp(x[:6]) + np.sin(x[6:]),
        lambda x: np.exp(x[::2]) + np.exp(x[1::2]),
        lambda x: np.exp(x[:4]) + np.exp(x[5:9]),
        lambda x: np.sin(x[:6] * 2.0) + np.sin(x[6:] * 3.0),
        lambda x: np.exp(x[:4]) + np.exp(x[4:8]) * np.exp(x[2:6]),
    ):
        graph = optimised(fg.make_jaxpr(f)(x))
        assert [e.primitive.name for e in graph.equations].count("getitem") >= 2
        np.testing.assert_array_max_ulp(fg.jit(f)(x), f(x), 1)


def test_slices_that_fill_an_array_stand_side_by_side():
    def f(x, y, z):
        return np.sum(np.sin(np.concatenate([x, y, z], 1)[:, 1:-1]))

    def g(x):
        return np.sum(np.exp(x[:, :2]) @ np.cos(x[:, 2:4]).T) + np.sum(x[:, 4:] ** 3)

    x = RNG.normal(size=(3, 7))
    graph = optimised(fg.make_jaxpr(fg.grad(g))(x))
    assert "concatenate" in names(graph) and "index_add" not in names(graph)
    np.testing.assert_allclose(fg.jit(fg.grad(g))(x), fg.grad(g)(x), rtol=1e-14)

    def turned(x):
        return np.sum(np.exp(x[:1, ::-1])) + np.sum(np.sin(x[1:, ::-1]))

    np.testing.assert_allclose(fg.jit(fg.grad(turned))(x), fg.grad(turned)(x), rtol=1e-14)
    args = (x, x[:, :2], x[:, 3:])
    for got, want in zip(
        fg.jit(fg.grad(f, (0, 1, 2)))(*args), fg.grad(f, (0, 1, 2))(*args), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-14)


# --- memory ---------------------------------------------------------------------------------------


def test_results_of_a_scan_are_arrays_of_their_own():
    start, xs = np.ones((9, 9)), np.ones((4, 9, 9))

    def f(start, xs):
        return lax.scan(lambda c, x: (c @ x + x, (c, c @ x + x, x)), start, xs)

    for run in (f, fg.jit(f)):
        found = tree_leaves(run(start, xs))
        for i, x in enumerate(found):
            assert x.flags.writeable
            for other in (start, xs, *found[:i]):
                assert not np.shares_memory(x, other)


def magic(scan, h, xs):
    """Rounds to a multiple of 2**-10: if it is regrouped, it rounds to nothing."""
    return scan(lambda h, x: (h, (h + x) - x), h, np.full((len(xs), 1), 1.5 * 2.0**42))[1]


def scaled(scan, h, xs):
    return scan(lambda h, x: (np.sin(h * 1e30 * x * x), None), h, xs * 1e-25)


def summed(scan, h, xs):
    """The sum of each column, which vanishes beside the sum of the others."""
    return scan(
        lambda c, x: (c + x, None), h, np.concatenate([xs * 0.0 + 1e20, xs, xs * 0.0 - 1e20])
    )


def overflowing(scan, h, xs):
    return scan(lambda c, x: (c + x, None), h * 0.0 - 1e308, xs * 0.0 + 1e308)


def divided_by_stiff(scan, h, xs):
    """Solutions with small residuals, though the matrix can hardly be inverted."""
    a = np.array([[[1.0, t], [1.0, t * (1.0 + 1e-12)]] for t in (1.1, 1.7)]) + 0.0 * xs[0, 0]
    return scan(lambda c, a: (np.linalg.solve(a, c * 0.5), c), np.ones((2, 1)) + h[0], a)


@pytest.mark.parametrize("size", [1, 3, 200, 3000])
@pytest.mark.parametrize("f", [magic, scaled, summed, overflowing, divided_by_stiff])
def test_nothing_is_regrouped(f, size):
    h, xs = np.linspace(0.1, 0.9, size), np.linspace(1.0, 2.0, 2 * size).reshape(2, size)
    found, want = fg.jit(lambda *args: f(lax.scan, *args))(h, xs), f(steps, h, xs)
    for x, y in zip(tree_leaves(found), tree_leaves(want), strict=True):
        if f is scaled:  # by a sine that is faster
            np.testing.assert_allclose(x, y, rtol=1e-14)
        else:
            np.testing.assert_array_equal(x, y)


@pytest.mark.slow
def test_the_program_of_a_long_step_takes_time_in_proportion(monkeypatch):
    asked = []
    value = ArrayLowering.value
    monkeypatch.setattr(ArrayLowering, "value", lambda *args: asked.append(1) or value(*args))

    def f(x, n):
        def step(c, _):
            for k in range(n):
                c = c * 1.01 + x * x[k % 10]
            return c, np.sum(c)

        return np.sum(lax.scan(step, x, None, length=3)[0])

    x, counts = np.linspace(0.1, 0.9, 100), []
    for n in (40, 80):
        asked.clear()
        g = fg.grad(functools.partial(f, n=n))
        np.testing.assert_allclose(fg.jit(g)(x), g(x), rtol=1e-10)
        counts.append(len(asked))
    assert counts[1] < 2.5 * counts[0]


@pytest.mark.parametrize("length", [1, 5, 70, 300, 60_000])
def test_a_scan_reads_one_stack_twice(length):
    """The program on numbers gives the rows of a step one name each, whoever reads them."""

    def f(x):
        _, ys = lax.scan(lambda c, a: (np.tanh(c + a), (c * a, c)), x[0], x)
        twice = ((ys, x), (x, ys[0]))
        back, zs = lax.scan(
            lambda c, row: (np.tanh(c * row[0][0][0] + row[1][1]), c * row[1][0] - row[0][1]),
            x[0],
            twice,
            reverse=True,
        )
        return back + np.sum(zs)

    x = np.cos(np.arange(float(length)))
    np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=1e-12)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(x), fg.grad(f)(x), rtol=1e-9, atol=1e-12)


def test_a_constant_of_a_body_may_leave_it_for_another_scan():
    weights = np.cos(np.arange(90.0))

    def f(x):
        c, ys = lax.scan(lambda c, a: (np.tanh(c * a), (weights, np.sin(a))), x[0], x)
        step = lambda c, row: (c * row[0] + row[1], None)  # noqa: E731
        return np.sum(lax.scan(step, x[0], ys, reverse=True)[0] * c)

    x = np.sin(np.arange(360.0)).reshape(4, 90)
    np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=1e-12)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(x), fg.grad(f)(x), rtol=1e-9, atol=1e-12)


def test_what_is_added_to_zeros_is_no_negative_zero():
    def f(x, y):
        return np.pad(x * x, (0, 3)) + np.pad(y, (3, 0))

    x, y = np.arange(3.0), np.full(3, -0.0)
    assert not np.any(np.signbit(f(x, y)))
    assert not np.any(np.signbit(fg.jit(f)(x, y)))


@pytest.mark.parametrize("rows", [2, 3])
def test_sums_of_few_rows_in_a_scan(rows):
    start = 0.1 + np.eye(50)

    def negative_zeros(scan, xs):
        return scan(lambda c, x: (np.tanh(c @ c), np.sum(x * c[0, 0], 0)), start, xs)[1]

    def one_row(scan, xs):
        def step(c, x):
            row = np.exp(x[0]) * c[0]
            return np.tanh(c @ c + x[0]), np.sum(np.broadcast_to(row, (rows, 50)), 0) * 2.0

        return scan(step, start, xs)[1]

    xs = RNG.normal(size=(4, rows, 50))
    for f, given in ((negative_zeros, np.full((4, rows, 50), -0.0)), (one_row, xs)):
        found = fg.jit(functools.partial(f, lax.scan))(given)
        wanted = f(steps, given)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_sums_in_a_backward_rule_keep_the_range_of_their_dtype():
    large = np.full(7, 1e38, np.float32)
    xs = RNG.normal(size=(7, 4))

    @fg.custom_vjp
    def f(x):
        return x * 2.0

    def backward(_, cotangent):
        def step(c, x):
            return (c[0] + x[0], c[1] + x[1] @ x[1]), None

        return (sum(lax.scan(step, (cotangent, cotangent), (large, xs))[0]),)

    f.defvjp(lambda x: (x * 2.0, None), backward)
    wanted = 1.0 + np.sum(large, dtype=float)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(1.0), wanted, rtol=1e-15)


# Reads at an index of the step: their cotangents are stacked, and scattered once.

READER = np.random.default_rng(1)
PLACES = READER.integers(0, SIZE, size=30)
MORE_PLACES = READER.integers(0, SIZE, size=(30, 4))
TABLE = READER.normal(size=(SIZE, 3))


def reads_of_elements(scan, table):
    return scan(lambda c, i: (c * 0.9 + np.sin(table[i, 0]), None), 0.1, PLACES)[0]


def reads_of_rows(scan, table):
    return scan(lambda c, i: (np.tanh(c + table[i]), c * 2.0), np.ones(3), PLACES)


def reads_of_several_rows(scan, table):
    return scan(
        lambda c, i: (np.tanh(c + np.sum(table[i] ** 2, axis=0)), c), np.ones(3), MORE_PLACES
    )


def reads_at_two_places(scan, table):
    def step(c, i):
        return c * table[i, 1] + table[(i + 1) % SIZE, 2] * table[0, 0], None

    return scan(step, 0.5, PLACES)[0]


def reads_from_the_end(scan, table):
    return scan(lambda c, i: (c * 0.5 + table[-1 - i, i % 3], None), 0.5, PLACES)[0]


def reads_of_columns(scan, table):
    return scan(lambda c, i: (c * 0.5 + table[:, i % 3], None), np.ones(SIZE), PLACES)[0]


def reads_of_what_is_carried(scan, table):
    def step(c, i):
        return c * 0.9 + table * c[i, 1], c[i]

    return scan(step, table, PLACES)


READS = {
    reads_of_elements: True, reads_of_rows: True, reads_of_several_rows: True,
    reads_at_two_places: True, reads_from_the_end: True, reads_of_columns: False,
    reads_of_what_is_carried: False,
}  # fmt: skip


def summed(found):
    return sum(np.sum(np.sin(leaf)) for leaf in tree_leaves(found))


def in_python(step, start, xs):
    carry, ys = start, []
    for x in xs:
        carry, y = step(carry, x)
        ys.append(y)
    return carry, None if ys[0] is None else np.stack(ys)


@pytest.mark.parametrize("program", READS)
def test_cotangents_of_reads_are_scattered_behind_the_loop(program):
    def f(table):
        return summed(program(lax.scan, table))

    wanted = fg.grad(lambda table: summed(program(in_python, table)))(TABLE)
    close(fg.jit(fg.grad(f))(TABLE), wanted)
    _, loops = loops_of(fg.grad(f), TABLE)
    inside = {name for loop in loops for name in names(loop.params["body"])}
    assert ("scatter" not in inside) == READS[program]


@pytest.mark.parametrize("program", READS)
def test_second_derivatives_and_batches_of_reads(program):
    def f(scan, table):
        return summed(program(scan, table))

    def along(scan, table):
        return fg.jvp(fg.grad(functools.partial(f, scan)), (table,), (np.cos(table),))[1]

    close(fg.jit(functools.partial(along, lax.scan))(TABLE), along(in_python, TABLE))
    tables = np.stack([TABLE, TABLE + 0.5, -TABLE])
    many = fg.jit(fg.vmap(fg.grad(functools.partial(f, lax.scan))))(tables)
    for one, table in zip(many, tables, strict=True):
        close(one, fg.grad(functools.partial(f, in_python))(table))


def test_a_sum_of_scattered_values_that_the_program_carries_keeps_its_order():
    def counts(weights):
        def step(c, both):
            i, w = both
            return c.at[i].add(w), None

        return lax.scan(step, np.zeros(SIZE), (PLACES, weights))[0]

    weights = READER.normal(size=30) * 10.0 ** READER.integers(-12, 12, size=30)
    wanted = np.zeros(SIZE)
    for i, w in zip(PLACES, weights, strict=True):
        wanted[i] += w
    assert np.array_equal(fg.jit(counts)(weights), wanted)


def test_large_values_are_scattered_in_the_loop():
    rows = np.zeros((3, costs.hoisted_stack // 30 + 1))

    def f(rows):
        return lax.scan(lambda c, i: (c + np.sum(rows[i] ** 2), None), 0.0, PLACES % 3)[0]

    _, loops = loops_of(fg.grad(f), rows)
    assert any("scatter" in names(loop.params["body"]) for loop in loops)
