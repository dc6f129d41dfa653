"""The scans that everybody writes, against Python's loop: on numbers, small arrays and large ones.

Then, for each pass over loops, a scan in which it fires, and one in which its guard forbids it.
"""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax
from fungrad.compiler.passes.pipeline import optimised
from fungrad.ir.graph import Equation, Graph
from fungrad.tree_util import tree_leaves, tree_map, tree_structure, tree_unflatten

SIZES = {"a number": (), "three": (3,), "small": (200,), "large": (20_000,)}
LENGTHS = (0, 1, 2, 5)


def steps(step, start, xs, reverse=False):
    """`lax.scan` in Python."""
    carry, ys = start, []
    order = range(len(tree_leaves(xs)[0]))
    for i in reversed(order) if reverse else order:
        carry, y = step(carry, tree_map(lambda x, i=i: x[i], xs))
        ys.append(y)
    ys = ys[::-1] if reverse else ys
    return carry, tree_map(lambda *parts: np.stack(parts), *ys) if ys else None


def running_minimum(c, x):
    low, high = c
    low, high = np.minimum(low, x), np.maximum(high, x)
    return (low, high), (low, high - low)


def kalman(c, x):
    mean, variance = c
    variance = variance * 0.9 + 0.1
    gain = variance / (variance + 0.5)
    mean = mean + gain * (x - mean)
    return (mean, (1.0 - gain) * variance), (mean, gain)


def inner(c, x):
    c, ys = lax.scan(lambda c, f: (np.sin(c) * f + x, c * f), c, np.array([0.5, 0.25]))
    return c, ys[1]


ONE = lambda x: x * 0.5 + 0.1  # noqa: E731
TWO = lambda x: (x * 0.5 + 0.1, x * x + 0.2)  # noqa: E731
STEPS = {
    "sum": (lambda c, x: (c + x, None), ONE),
    "running sum": (lambda c, x: (c + x, c + x), ONE),
    "sum, read elsewhere": (lambda c, x: (c + x, np.sin(c)), ONE),
    "sum, turned": (lambda c, x: (x + c, c), ONE),
    "sum of itself": (lambda c, x: (c + c, c * x), ONE),
    "sum of a constant": (lambda c, x: (c + 1.0, x), ONE),
    "sum of products": (lambda c, x: (c + x * np.cos(x), None), ONE),
    "difference": (lambda c, x: (c - x, c), ONE),
    "product": (lambda c, x: (c * x, c), ONE),
    "average": (lambda c, x: (0.9 * c + 0.1 * x, c), ONE),
    "recurrent": (lambda c, x: (np.tanh(0.7 * c + x), c), ONE),
    "polynomial": (lambda c, x: (c * 0.5 + x, None), ONE),
    "kalman": (kalman, TWO),
    "extrema": (running_minimum, TWO),
    "counter": (lambda c, x: ((c[0] + 1, c[1] + x * c[0]), c[0]), lambda x: (0, x * 0.5)),
    "swapped": (lambda c, x: ((c[1], c[0] * x), c), TWO),
    "copied": (lambda c, x: ((c[1] + x, c[1]), c[0]), TWO),
    "unread": (lambda c, x: ((c[0] + x, np.exp(-c[1] * c[1])), c[0]), TWO),
    "constant": (lambda c, x: (c, c * x), ONE),
    "constants of two": (lambda c, x: ((c[0], c[1] * x), c[0] * c[1]), TWO),
    "replaced": (lambda c, x: (x, c), ONE),
    "output is the carry": (lambda c, x: ((d := np.sin(c) + x), d), ONE),
    "output twice": (lambda c, x: ((d := c * x), (d, d, x)), ONE),
    "outputs of xs alone": (lambda c, x: (c, np.exp(x) * x), ONE),
    "outputs of nothing": (lambda c, x: (c + x, 2.0), ONE),
    "nested": (inner, ONE),
    "chosen": (lambda c, x: (np.where(x > c, x * x, c), c > x), ONE),
    "branches": (
        lambda c, x: (lax.cond(np.sum(x) > 0.3, lambda: c + x, lambda: c * 0.5), c), ONE
    ),
}  # fmt: skip
EXACT = {
    "sum", "running sum", "sum, turned", "sum of itself", "sum of a constant", "difference",
    "product", "average", "polynomial", "kalman", "extrema", "counter", "swapped", "copied",
    "constant", "constants of two", "replaced", "output twice", "chosen", "branches",
}  # fmt: skip
"""Of operations that have one right result: jit gives the bits that the loop gives."""


def arguments(name, shape, length):
    rng = np.random.default_rng(length + len(shape))
    x = rng.normal(size=(length, *shape))
    return STEPS[name][1](rng.normal(size=shape)[()]), x


def inexact(tree):
    return [leaf for leaf in tree_leaves(tree) if np.asarray(leaf).dtype.kind == "f"]


def agree(found, want, exact=False, rtol=1e-11):
    for x, y in zip(tree_leaves(found), tree_leaves(want), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype and x.shape == y.shape
        if exact:
            np.testing.assert_array_equal(x, y)
            assert np.array_equal(np.signbit(x), np.signbit(y)) or x.dtype == bool
        else:
            np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-11)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", STEPS)
def test_values_are_those_of_a_loop(name, size):
    step, shape = STEPS[name][0], SIZES[size]
    for length in LENGTHS:
        for reverse in (False, True) if length == LENGTHS[-1] else (False,):
            start, xs = arguments(name, shape, length)
            f = lambda start, xs, r=reverse: lax.scan(step, start, xs, reverse=r)  # noqa: E731
            want = steps(step, start, xs, reverse)
            found = fg.jit(f)(start, xs)
            if not length:
                agree(found[0], tree_map(np.asarray, start), exact=True)
                assert all(len(y) == 0 for y in tree_leaves(found[1]))
                continue
            want = want[0], None if want[1] is None else want[1]
            found = tree_map(np.asarray, found)
            agree(found, tree_map(np.asarray, want), exact=name in EXACT)
            agree(tree_map(np.asarray, f(start, xs)), found, exact=name in EXACT)


@pytest.mark.parametrize(
    ("name", "size"),
    [(name, size) for n, name in enumerate(STEPS) for size in (*SIZES,)[n % 2 :: 2]],
)
def test_derivatives_and_batches_are_those_of_a_loop(name, size):
    step, shape = STEPS[name][0], SIZES[size]
    start, xs = arguments(name, shape, 4)
    floats = inexact(start)

    def total(scan):
        def f(floats, xs):
            given = iter(floats)
            full = tree_map(lambda x: x if np.asarray(x).dtype.kind != "f" else next(given), start)
            end, ys = scan(step, full, xs)
            return sum(
                np.sum(np.sin(y * 1.0) * (1 + i)) for i, y in enumerate(tree_leaves((end, ys)))
            )

        return f

    want = fg.grad(total(steps), (0, 1))(floats, xs)
    agree(fg.grad(total(lax.scan), (0, 1))(floats, xs), want)
    agree(fg.jit(fg.grad(total(lax.scan), (0, 1)))(floats, xs), want)
    moved = (tree_map(np.cos, floats), np.sin(xs))
    want = fg.jvp(total(steps), (floats, xs), moved)
    agree(fg.jit(lambda *args: fg.jvp(total(lax.scan), *args))((floats, xs), moved), want)
    batch = np.stack([xs, 0.5 * xs])
    want = [fg.grad(total(steps), 1)(floats, x) for x in batch]
    mapped = fg.vmap(lambda x: fg.grad(total(lax.scan), 1)(floats, x))
    agree(list(fg.jit(mapped)(batch)), want)


@pytest.mark.parametrize("size", SIZES)
def test_several_xs_and_trees(size):
    shape = SIZES[size]
    rng = np.random.default_rng(0)
    xs = {"a": rng.normal(size=(3, *shape)), "b": (rng.normal(size=(3, 2)), np.arange(3))}

    def step(c, x):
        a, (b, i) = x["a"], x["b"]
        return {"h": c["h"] * b[0] + a, "n": c["n"] + i}, (a * b[1], i * 2)

    start = {"h": rng.normal(size=shape)[()], "n": 5}
    f = fg.jit(lambda start, xs: lax.scan(step, start, xs))
    agree(tree_map(np.asarray, f(start, xs)), tree_map(np.asarray, steps(step, start, xs)), True)


# --- passes: where they fire, and where they must not ---------------------------------------------


def backward(graph):
    """The Graph as if all of it were a walk back of reverse mode."""
    equations = []
    for e in graph.equations:
        params = {k: backward(v) if isinstance(v, Graph) else v for k, v in e.params.items()}
        equations.append(Equation(e.primitive, e.inputs, e.outputs, params, backward=1))
    return graph.replace(equations=tuple(equations))


def regrouped(graph):
    """The Graph with leave to regroup its sums."""
    return graph.choosing(reassociate=True)


def loops(f, *args, how=lambda graph: graph):
    """The optimised Graph, and its scans."""
    graph = optimised(how(fg.make_jaxpr(f)(*args)))
    fg.check_graph(graph)
    return graph, [e for e in graph.equations if e.primitive.name == "scan"]


def inside(loop):
    return [e.primitive.name for e in optimised(loop.params["body"]).equations]


C, XS = np.linspace(0.1, 0.9, 200), np.linspace(0.1, 2.0, 600).reshape(3, 200)


@pytest.mark.parametrize(
    ("step", "left"),
    [
        (lambda c, x: (np.tanh(c) + np.exp(x), None), ["tanh", "add"]),  # before it
        (lambda c, x: (np.tanh(np.exp(x) * c), None), ["mul", "tanh"]),
        (lambda c, x: (np.exp(c) * x, np.exp(c)), ["exp", "mul"]),
    ],
)
def test_what_the_state_does_not_need_leaves_a_scan(step, left):
    f = lambda c, xs: lax.scan(step, c, xs)  # noqa: E731
    (loop,) = loops(f, C, XS)[1]
    assert inside(loop) == left
    agree(fg.jit(f)(C, XS), steps(step, C, XS))


def test_sums_of_products_leave_a_scan_where_nothing_else_reads_them():
    """As one product of the stacks, of cotangents; sums of stacked values go with them."""
    start, xs = np.zeros((4, 4)), XS[:, :20].reshape(3, 5, 4)
    product = lambda x: x.T @ np.sin(x)  # noqa: E731
    for step, carried, made in (
        (lambda c, x: (c + product(x), None), 0, "dot_general"),
        (lambda c, x: (product(x) + c, x), 0, "dot_general"),
        (lambda c, x: (c + product(x), np.sin(c)), 1, ""),  # the carry is read elsewhere
        (lambda c, x: (c + (p := product(x)), p), 1, ""),
        (lambda c, x: (c + (p := product(x)), p @ c), 1, ""),
        (lambda c, x: ((n := c + product(x)), n), 1, ""),  # the sum is read elsewhere
        (lambda c, x: (c - product(x), x), 1, ""),
        (lambda c, x: (c + c, x), 1, ""),
    ):
        f = lambda c, xs, step=step: lax.scan(step, c, xs)  # noqa: E731
        graph, found = loops(f, start, xs, how=backward)
        assert sum(loop.params["counts"][1] for loop in found) == carried
        assert not made or made in [e.primitive.name for e in graph.equations]
        want = steps(step, start, xs)
        agree(tree_unflatten(tree_structure(want), fg.evaluate(graph, start, xs)), want)
        agree(fg.jit(f)(start, xs), want)
        assert sum(loop.params["counts"][1] for loop in loops(f, start, xs)[1]) == 1


def test_sums_of_what_a_scan_stacks_leave_it_with_its_products():
    def step(c, x):
        s = np.sin(x)
        return (c[0] + x.T @ s, c[1] + s), None

    start, xs = (np.zeros((4, 4)), np.zeros((5, 4))), XS[:, :20].reshape(3, 5, 4)
    graph, found = loops(lambda c, xs: lax.scan(step, c, xs)[0], start, xs, how=backward)
    assert not found and {"dot_general", "reduce_sum"} <= {
        e.primitive.name for e in graph.equations
    }
    agree(tuple(fg.evaluate(graph, *start, xs)), steps(step, start, xs)[0])


def test_a_carry_that_nothing_reads_is_dropped_with_what_it_needs():
    def step(c, x):
        a, b, d = c
        return (a + x, np.exp(b) * a, d * 2.0), d

    for f, carries in (
        (lambda c, xs: lax.scan(step, (c, c, c), xs)[0][0], 1),
        (lambda c, xs: lax.scan(step, (c, c, c), xs)[0][1], 2),  # which reads the first
        (lambda c, xs: lax.scan(step, (c, c, c), xs)[1], 1),
        (lambda c, xs: lax.scan(step, (c, c, c), xs)[0], 3),
    ):
        (loop,) = loops(f, C, XS)[1]
        assert loop.params["counts"][1] == carries
        agree(fg.jit(f)(C, XS), f(C, XS))


def test_what_is_the_same_in_all_steps_is_computed_before_a_loop():
    def scanned(c, xs):
        return lax.scan(lambda s, x: (s * np.sin(c) + x, None), c, xs)[0]

    def stepping(c, xs):
        return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * np.sin(c)), (0, c))[1]

    def solved(c, xs):  # raises where a singular matrix is never met
        a = np.outer(c[:3], c[:3])
        body = lambda s: (s[0] + 1, np.linalg.inv(a) @ s[1])  # noqa: E731
        return lax.while_loop(lambda s: s[0] < 0, body, (0, c[:3]))[1]

    for f, name, moved in ((scanned, "sin", True), (stepping, "sin", True), (solved, "inv", False)):
        graph = loops(f, C, XS)[0]
        assert (name in [e.primitive.name for e in graph.equations]) is moved
        agree(fg.jit(f)(C, XS), f(C, XS))


def test_residuals_that_are_cheap_are_made_again_and_dear_ones_are_kept():
    def gradient(step):
        return fg.grad(lambda c, xs: np.sum(np.sin(lax.scan(step, c, xs)[0])))

    cheap = gradient(lambda c, x: (c * c * x, None))
    there, back = loops(cheap, C, XS)[1]
    assert len(there.params["body"].outputs) == 2  # of residuals the carry alone
    dear = gradient(lambda c, x: (np.exp(np.sin(c)) * x, None))
    there, back = loops(dear, C, XS)[1]
    assert not {"exp", "sin"} & set(inside(back))
    for g in (cheap, dear):
        agree(fg.jit(g)(C, XS), g(C, XS))


@pytest.mark.parametrize(
    "values, elements",
    [
        (lambda c: (c * c, c * 2.0, c[:2] * 3.0), 200),  # all are made of c
        (lambda c: (np.exp(np.mean(c)) * c.shape[0], np.max(c) - 1.0), 2),  # of two narrow ones
        (lambda c: (np.sum(c) * np.ones(200), np.sum(c) - np.arange(200.0)), 1),
        (lambda c: (np.exp(c)[:3], np.exp(c)[7:9]), 5),  # narrower than their operands
    ],
)
def test_the_fewest_bytes_cross_from_a_scan_to_another(values, elements):
    def f(scan, start, xs):
        def first(c, x):
            c = np.sin(c) * x
            return c, values(c)

        end, ys = scan(first, start, xs)
        return scan(lambda t, ys: (t + sum(np.sum(np.cos(y)) for y in ys), None), start, ys)[0], end

    args = np.linspace(0.1, 1.0, 200), np.linspace(0.9, 1.1, 1000).reshape(5, 200)
    there, _ = loops(lambda *args: f(lax.scan, *args), *args)[1]
    assert sum(v.type.size for v in there.outputs[1:]) == 5 * elements
    agree(fg.jit(lambda *args: f(lax.scan, *args))(*args), f(steps, *args))


def test_results_do_not_share_memory_with_rows_of_stacks():
    """Carries that leave a loop are arrays of their own, though steps write rows of stacks."""

    def step(c, x):
        d = np.tanh(c) + x
        return d[::-1], (d, d[::-1])

    want = steps(step, C, XS)
    for f in (lambda c, xs: lax.scan(step, c, xs), fg.jit(lambda c, xs: lax.scan(step, c, xs))):
        end, (rows, turned) = f(C, XS)
        end[:] = 7.0
        agree((rows, turned), want[1])
        again = f(C, XS)
        rows[:] = 5.0
        agree(again, want)


def test_results_of_loops_are_arrays_of_their_own():
    """An argument that a loop returns as it is, a row of xs, one value for two carries."""
    start, xs = np.ones(300), np.ones((5, 300))
    left = lax.while_loop(lambda c: c[0] < 0.0, np.sin, start)
    row, _ = lax.scan(lambda c, x: (x[::-1], None), start, xs)
    pair, _ = lax.scan(lambda c, x: ((c[0] + x,) * 2, None), (start, start), xs)
    assert not np.shares_memory(left, start) and not np.shares_memory(row, xs)
    assert not np.shares_memory(*pair)


@pytest.mark.parametrize(
    "read",
    [
        lambda y, c: fg.numpy.at(y)[0].add(np.sum(c)) * y + np.sum(y),
        lambda y, c: np.cumsum(np.reshape(y.T, -1)),
    ],
    ids=["added to, and read again", "reshaped where that is a copy"],
)
def test_memory_of_the_body_holds_what_is_read(read):
    def step(c, x):
        y = np.sin(c) * x
        return c * 0.5 + y, read(y, c)

    start, xs = np.linspace(0.0, 1.0, 60).reshape(6, 10), np.linspace(1.0, 2.0, 5)
    found = fg.jit(lambda c, xs: lax.scan(step, c, xs))(start, xs)
    agree(found, steps(step, start, xs))
