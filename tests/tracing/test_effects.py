"""Side effects happen as often as in Python, and in the same order."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax
from fungrad.extend import general

seen: list = []
X = np.array([1.0, 2.0, 3.0])
ROWS = np.linspace(0.1, 2.0, 120).reshape(3, 40)


def say(*values):
    fg.debug.callback(lambda *vs: seen.append(tuple(float(np.sum(v)) for v in vs)), *values)


def twice(x):
    say(x)
    say(x)
    return x + 1


def one_function_twice(x):
    told = lambda v: seen.append(("told", float(np.sum(v))))  # noqa: E731
    fg.debug.callback(told, x)
    fg.debug.callback(told, x)
    return x


def of_constants(x):
    say(2.0)
    say(np.ones(3) * 2.0)
    return x


def fixed_in_a_scan(x):
    def body(c, row):
        say(x * 2.0)
        return c + row, row * x

    return lax.scan(body, 0.0, X)


def rows_in_a_scan(x):
    def body(c, row):
        say(row * 2.0, x)
        say(row + 1.0)
        return c + np.sin(row), c

    return lax.scan(body, 0.0, X)


def carries_in_a_scan(x):
    def body(c, row):
        total, product = c
        say(total)
        say(product)
        return (total + row, product * row), np.sin(row)

    return lax.scan(body, (0.0, np.sum(x)), X)


def sums_in_a_scan(x):
    def body(c, row):
        term = np.outer(x, x) * row
        say(term)
        return c + term, ()

    return lax.scan(body, np.zeros((3, 3)), X)


def rows_of_arrays_in_a_scan(x):
    wide = np.sum(x) * np.ones(40)

    def body(c, row):
        say(np.sin(row) * wide, wide)
        say(c)
        return c + np.sin(row) * wide, np.outer(row, c)

    return lax.scan(body, np.zeros(40), ROWS)


def unread_in_a_scan(x):
    def body(c, row):
        d = c[1] * 1.5  # read by the effect alone
        say(d)
        return (c[0] + row, d), ()

    return lax.scan(body, (0.0, np.sum(x)), X)[0][0]


def calls_in_a_scan(x):
    @fg.jit
    def inner(v):
        say(v)
        return v * 2.0

    return lax.scan(lambda c, row: (c + inner(np.sum(x)), inner(row)), 0.0, X)


def branches_in_a_scan(x):
    def loud(v):
        say(v)
        return v

    def body(c, row):
        y = lax.cond(row > 1.5, loud, lambda v: v, np.sum(x))
        return c + lax.cond(row > 2.5, loud, lambda v: v, row), y

    return lax.scan(body, 0.0, X)


def loops_in_a_scan(x):
    def body(c, row):
        def step(i, v):
            say(x)
            return v + row

        return lax.fori_loop(0, 2, step, c), ()

    return lax.scan(body, 0.0, X)


def fixed_in_a_while(x):
    def body(s):
        say(x * 3.0)
        return s[0] + 1, s[1] * 2.0

    return lax.while_loop(lambda s: s[0] < 3, body, (0, np.sum(x)))


def only_effects(x):
    def body(c, row):
        say(row)
        return c, ()

    lax.scan(body, 0.0, X)
    return x


def in_a_call(x):
    @fg.jit
    def inner(v):
        say(v)
        return v * 2.0

    return inner(x) + inner(x) + inner(x * 2.0)


def unwanted_branch(x):
    return lax.cond(np.sum(x) > 100.0, lambda v: (say(v), v)[1], lambda v: v * 2.0, x)


def of_clusters(x):
    rows = np.resize(x, 300_000)
    say(np.sum(np.exp(rows) * np.sin(rows)) > 0.0)
    say(x)
    return np.sqrt(rows) * np.cos(rows)


PROGRAMS = (
    twice, one_function_twice, of_constants, fixed_in_a_scan, rows_in_a_scan, carries_in_a_scan,
    sums_in_a_scan, rows_of_arrays_in_a_scan, unread_in_a_scan, calls_in_a_scan,
    branches_in_a_scan, loops_in_a_scan,
    fixed_in_a_while, only_effects, in_a_call, unwanted_branch, of_clusters,
)  # fmt: skip


def walked(f):
    """The effects of the equations of f, in order."""
    seen.clear()
    out = f(X)
    return list(seen), out


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_effects_happen_as_often_and_in_the_order_of_python(f):
    expected, out = walked(f)
    compiled = fg.jit(f)
    for _ in range(2):
        found, again = walked(compiled)
        assert found == expected
        for a, b in zip(
            fg.tree_util.tree_leaves(again), fg.tree_util.tree_leaves(out), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_effects_happen_once_in_a_gradient(f):
    expected, _ = walked(f)

    def loss(x):
        return sum(np.sum(np.sin(leaf)) for leaf in fg.tree_util.tree_leaves(f(x)))

    for g in (fg.grad(loss), fg.jit(fg.grad(loss)), fg.grad(fg.jit(loss))):
        found, _ = walked(g)
        assert found == expected


count: list = []
tick = general(
    "tick",
    eval=lambda x: (count.append(float(np.sum(x))), np.full(np.shape(x), float(len(count)))[()])[1],
    type=lambda x: x,
    batch=lambda args, batched, size: tick(*args),
    cuts=True,
    effect=True,
)
"""How often it was called: its value is another one each time."""


def ticks(x):
    return tick(x) + 10.0 * tick(x)


def ticks_of_constants(x):
    return x + tick(1.0) + 10.0 * tick(1.0)


def ticks_in_a_scan(x):
    return lax.scan(lambda c, row: (c + tick(x), tick(row)), 0.0, X)


def ticks_that_nobody_reads(x):
    tick(x)
    return lax.scan(lambda c, row: (c + row, (tick(row), row)[1]), 0.0, X)


def ticks_of_a_carry(x):
    return lax.scan(lambda c, row: (c + row, tick(c)), x, X)


def ticks_of_rows(x):
    def body(c, row):
        first = np.sin(tick(row * 2.0))
        return c + first, np.cos(tick(c * first))

    return lax.scan(body, np.zeros(40) + x, ROWS)


def ticks_beside_sums(x):
    fixed = x * np.ones(40)

    def body(c, row):
        return c + np.outer(row, tick(row) + tick(fixed)), tick(fixed)

    return lax.scan(body, np.zeros((40, 40)), ROWS)


def ticks_in_a_call(x):
    inner = fg.jit(lambda v: tick(v) * 2.0)
    return lax.fori_loop(0, 3, lambda i, c: c + inner(x) + inner(x), x)


@pytest.mark.parametrize(
    "f",
    [
        ticks, ticks_of_constants, ticks_in_a_scan, ticks_that_nobody_reads, ticks_of_a_carry,
        ticks_in_a_call, ticks_of_rows, ticks_beside_sums,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_a_primitive_that_does_something_is_run_each_time(f):
    results = []
    graph = fg.make_jaxpr(f)(2.0)
    compiled = fg.jit(f)
    for run in (f, lambda x: fg.evaluate(graph, x), compiled, compiled):
        count.clear()
        values = fg.tree_util.tree_leaves(run(2.0))
        results.append((sorted(count), np.sort(np.concatenate([np.ravel(v) for v in values]))))
    for told, values in results:
        assert told == results[0][0]
        np.testing.assert_array_equal(values, results[0][1])
