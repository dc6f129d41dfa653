"""Control flow: every loop and branch against the same program written with Python's own, under
transforms.

Eager fungrad differentiates Python's control flow step by step, so it is the oracle here: the two
share no code but the elementary rules, which test_rules.py checks by themselves.
"""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax
from fungrad.errors import ArgumentError, StructureMismatchError
from fungrad.ir.verifier import check_graph
from fungrad.tree_util import tree_leaves

XS = np.random.default_rng(0).normal(size=(5, 2))
W = np.array([0.3, 0.7])


def scan_staged(w, checkpoint=None, reverse=False):
    def body(h, x):
        h = np.tanh(h * w[0] + np.sum(x * w)) + h * h * x[1]
        return h, h * h

    h, ys = lax.scan(body, 0.1 * w[1], XS, checkpoint=checkpoint, reverse=reverse)
    return h + ys[0] * ys[1] * ys[4]


def scan_python(w, reverse=False):
    h, ys = 0.1 * w[1], [None] * 5
    for i in reversed(range(5)) if reverse else range(5):
        h = np.tanh(h * w[0] + np.sum(XS[i] * w)) + h * h * XS[i][1]
        ys[i] = h * h
    return h + ys[0] * ys[1] * ys[4]


def while_staged(w, checkpoint=None):
    a = np.sum(w * w) + 1.0
    return lax.while_loop(
        lambda c: np.abs(c[0] * c[0] - a) > 1e-10,
        lambda c: (0.5 * (c[0] + a / c[0]), c[1] + 1, c[2] * w[0] + np.sin(c[0])),
        (a, 0, 0.0),
        checkpoint=checkpoint,
    )[2]


def while_python(w):
    a = np.sum(w * w) + 1.0
    x, s = a, 0.0
    while np.abs(x * x - a) > 1e-10:
        x, s = 0.5 * (x + a / x), s * w[0] + np.sin(x)
    return s


def cond_staged(w):
    x = w[0] - w[1]
    y = lax.cond(x > 0, lambda v: np.sqrt(v) * w[0], lambda v: v * v * w[1], x)
    return y * lax.switch(1, [lambda v: v, lambda v: np.exp(v) * w[0], np.cos], y)


def cond_python(w):
    x = w[0] - w[1]
    y = np.sqrt(x) * w[0] if x > 0 else x * x * w[1]
    return y * (np.exp(y) * w[0])


def nested_staged(w):
    def outer(total, x):
        inner = lax.fori_loop(0, 3, lambda i, v: v * w[0] + np.sin(x[0]) * i, total)
        grown = lax.while_loop(lambda v: v < 2.0, lambda v: v * 1.5 + w[1] ** 2, np.abs(inner))
        return lax.cond(grown > 2.5, lambda: grown * w[1], lambda: grown - x[1] * w[0]), grown

    last, seen = lax.scan(outer, w[0], XS)
    return last * np.sum(seen)


def nested_python(w):
    total, seen = w[0], []
    for x in XS:
        v = total
        for i in range(3):
            v = v * w[0] + np.sin(x[0]) * i
        v = np.abs(v)
        while v < 2.0:
            v = v * 1.5 + w[1] ** 2
        seen.append(v)
        total = v * w[1] if v > 2.5 else v - x[1] * w[0]
    return total * sum(seen)


def map_staged(w):
    return np.sum(lax.map(lambda x: np.sin(x @ w) * w[0], XS))


def map_python(w):
    return sum(np.sin(x @ w) * w[0] for x in XS)


def associative_staged(w):
    a, b = lax.associative_scan(
        lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (XS[:, 0] * w[0], XS[:, 1] * w[1])
    )
    return np.sum(a * b)


def associative_python(w):
    a, b, total = 1.0, 0.0, 0.0
    for x in XS:
        a, b = a * x[0] * w[0], x[0] * w[0] * b + x[1] * w[1]
        total = total + a * b
    return total


PROGRAMS = {
    "scan": (scan_staged, scan_python),
    "scan_reverse": (
        lambda w: scan_staged(w, reverse=True),
        lambda w: scan_python(w, reverse=True),
    ),
    "scan_binomial": (lambda w: scan_staged(w, "binomial"), scan_python),
    "scan_budget": (lambda w: scan_staged(w, 16), scan_python),
    "while": (while_staged, while_python),
    "while_binomial": (lambda w: while_staged(w, "binomial"), while_python),
    "while_budget": (lambda w: while_staged(w, 64), while_python),
    "cond": (cond_staged, cond_python),
    "nested": (nested_staged, nested_python),
    "map": (map_staged, map_python),
    "associative_scan": (associative_staged, associative_python),
}
each_program = pytest.mark.parametrize("name", PROGRAMS)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@each_program
@pytest.mark.parametrize("w", [W, W[::-1].copy()], ids=["w", "w_reversed"])
def test_value_and_first_derivatives(name, w):
    staged, python = PROGRAMS[name]
    close(staged(w), python(w))
    expected = fg.grad(python)(w)
    close(fg.grad(staged)(w), expected)
    close(fg.jit(fg.grad(staged))(w), expected)
    close(fg.grad(fg.jit(staged))(w), expected)
    close(fg.jvp(staged, (w,), (np.array([1.0, -2.0]),))[1], expected @ [1.0, -2.0])


def hessian_forward(f):
    return lambda w: fg.vmap(lambda v: fg.jvp(fg.grad(f), (w,), (v,))[1])(np.eye(2))


def hessian_reverse(f):
    return lambda w: np.stack([fg.grad(lambda u, i=i: fg.grad(f)(u)[i])(w) for i in range(2)])


def hessian_jvp_jvp(f):
    def entry(w, u, v):
        return fg.jvp(lambda x: fg.jvp(f, (x,), (u,))[1], (w,), (v,))[1]

    return lambda w: np.array([[entry(w, u, v) for u in np.eye(2)] for v in np.eye(2)])


@each_program
def test_second_derivatives_in_every_mix_of_modes(name):
    staged, python = PROGRAMS[name]
    expected = hessian_reverse(python)(W)
    for hessian in (hessian_forward, hessian_reverse, hessian_jvp_jvp):
        close(hessian(staged)(W), expected)
    close(fg.jit(hessian_forward(staged))(W), expected)
    close(hessian_reverse(fg.jit(staged))(W), expected)


@each_program
def test_batches_are_loops(name):
    staged, python = PROGRAMS[name]
    batch = np.random.default_rng(1).uniform(0.2, 0.9, size=(4, 2))
    close(fg.vmap(staged)(batch), [python(w) for w in batch])
    expected = [fg.grad(python)(w) for w in batch]
    close(fg.vmap(fg.grad(staged))(batch), expected)
    close(fg.jit(fg.vmap(fg.grad(staged)))(batch), expected)
    close(fg.grad(lambda b: np.sum(fg.vmap(staged)(b)))(batch), expected)


TRANSFORMS = {
    "grad": lambda f: lambda w: np.sum(fg.grad(f)(w) * np.array([1.0, 0.5])),
    "jvp": lambda f: lambda w: fg.jvp(f, (w,), (np.array([0.3, 1.0]),))[1],
    "vmap": lambda f: lambda w: np.sum(fg.vmap(f)(np.stack([w, 0.9 * w, w[::-1]]))),
    "jit": fg.jit,
}
PYTHON_TRANSFORMS = {
    **TRANSFORMS,
    "vmap": lambda f: lambda w: f(w) + f(0.9 * w) + f(w[::-1]),
    "jit": lambda f: f,
}


MIXES = (
    "grad jvp vmap, grad vmap jvp, jvp grad jit, jvp jit grad, vmap jit jvp, jit vmap grad",
    "grad jvp jit, grad jit jvp, jvp grad vmap, jvp vmap grad, vmap jit grad, jit vmap jvp",
    "grad vmap jit, jvp jit vmap, vmap grad jit, vmap jvp grad, jit grad jvp, jit jvp vmap",
    "grad jit vmap, jvp vmap jit, vmap grad jvp, vmap jvp jit, jit grad vmap, jit jvp grad",
)
"""All orders of three transforms, in parts with each order of two."""
DEEP = [(name, mix) for n, name in enumerate(PROGRAMS) for mix in MIXES[n % 4].split(", ")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mix"), DEEP)
def test_three_deep_mixes(name, mix):
    staged, python = PROGRAMS[name]
    for transform in mix.split():
        staged, python = TRANSFORMS[transform](staged), PYTHON_TRANSFORMS[transform](python)
    close(staged(W), python(W))


def test_what_a_finished_example_would_compute_reaches_nobody():
    def f(x):  # past its end, x falls to where sqrt is NaN
        return lax.while_loop(lambda x: x > 1.0, lambda x: np.sqrt(x - 1.0) * 1.2, x)

    xs = np.array([0.5, 1.5, 6.0, 40.0])
    with np.errstate(invalid="ignore"):
        close(fg.vmap(f)(xs), [f(x) for x in xs])
        close(fg.vmap(fg.grad(f))(xs), [fg.grad(f)(x) for x in xs])


def test_what_a_branch_not_taken_would_compute_reaches_nobody():
    def f(x):
        return lax.cond(x > 0, np.sqrt, lambda x: -x * x, x)

    xs = np.array([-2.0, 0.0, 4.0])
    close(fg.vmap(f)(xs), [-4.0, 0.0, 2.0])
    close(fg.vmap(fg.grad(f))(xs), [4.0, 0.0, 0.25])
    close(fg.vmap(fg.grad(fg.grad(f)))(xs), [-2.0, -2.0, -1.0 / 32.0])


def test_stop_gradient_in_a_branch_and_in_loops():
    def f(x):
        return lax.cond(x > 0, lambda x: fg.stop_gradient(x) * x, lambda x: x, x)

    assert fg.grad(f)(3.0) == 3.0
    assert fg.jvp(f, (3.0,), (1.0,))[1] == 3.0

    def g(x):
        return lax.scan(lambda c, _: (fg.stop_gradient(c) * x, None), x, None, length=3)[0]

    assert fg.grad(g)(2.0) == 8.0
    assert (
        fg.grad(lambda x: lax.while_loop(lambda c: c < 9, lambda c: fg.stop_gradient(c) * x, x))(
            2.0
        )
        == 8.0
    )


def test_newton_by_while_loop_differentiates_at_all_orders():
    def root(a):
        return lax.while_loop(lambda x: np.abs(x * x - a) > 1e-13, lambda x: 0.5 * (x + a / x), a)

    derivative, exact = root, 2.0
    for order in range(4):
        close(derivative(4.0), exact)
        derivative = fg.grad(derivative)
        exact *= (0.5 - order) / 4.0


def test_the_body_is_traced_once_however_long_the_loop():
    calls = []

    def body(c, x):
        calls.append(1)
        return c + x, None

    lax.scan(body, 0.0, np.zeros(1000))
    assert len(calls) <= 2  # a second time where the carry begins as a Python number
    graph = fg.make_jaxpr(
        lambda c: (
            lax.scan(body, c, None, length=0)[0]
            if False
            else lax.scan(lambda c, x: (c * 2.0, None), c, None, length=1_000_000)[0]
        )
    )(np.float64(1.0))
    assert len(graph.equations) == 1
    fg.check_graph(graph)


@pytest.mark.parametrize("length", [0, 1])
def test_short_loops(length):
    def f(x):
        last, ys = lax.scan(lambda c, x: (c * x, c), 2.0, x)
        return last + np.sum(ys)

    x = np.full(length, 3.0)
    assert f(x) == (2.0 if length == 0 else 8.0)
    close(fg.grad(f)(x), np.full(length, 2.0))
    assert fg.grad(lambda x: lax.while_loop(lambda c: c < 0, lambda c: c * 2, x))(3.0) == 1.0
    assert lax.fori_loop(3, 3, lambda i, c: c + i, 7) == 7


def long_loop(x, steps=7):
    return lax.fori_loop(2, 2 + steps, lambda i, c: np.sin(c) * 0.5 + i * x, x)


@pytest.mark.parametrize("steps", [1_000_000, 2_000_000_000])
@pytest.mark.parametrize("of", [lambda f: f, fg.grad, lambda f: lambda x: fg.jvp(f, (x,), (x,))])
def test_a_loop_of_known_length_keeps_no_array_of_its_steps(of, steps):
    lowered = fg.jit(of(lambda x: long_loop(x, steps))).lower(0.5)
    for graph in (lowered.graph, lowered.optimised):
        assert sum(np.asarray(value).nbytes for _, value in graph.constants) < 1_000


def test_a_loop_of_known_length_under_transforms_saved_and_written(tmp_path):
    def plain(x, steps=7):
        c = x
        for i in range(2, 2 + steps):
            c = np.sin(c) * 0.5 + i * x
        return c

    x = np.float64(0.5)
    for of in (lambda f: f, fg.grad, lambda f: fg.grad(fg.grad(f))):
        assert np.isclose(of(long_loop)(x), of(plain)(x), rtol=1e-14)
        assert np.isclose(fg.jit(of(long_loop))(x), of(plain)(x), rtol=1e-14)
        fg.save(fg.export(of(long_loop))(x), tmp_path / "loop")
        assert np.isclose(fg.load(tmp_path / "loop")(x), of(plain)(x), rtol=1e-14)
        space = {}
        exec(fg.to_source(of(long_loop), x), space)
        assert np.isclose(space["long_loop"](x), of(plain)(x), rtol=1e-14)
    batch = np.linspace(0.0, 1.0, 3)
    assert np.allclose(fg.vmap(long_loop)(batch), plain(batch), rtol=1e-14)
    told = []
    lax.fori_loop(3, 6, lambda i, c: c + i, 0, callback=lambda n, c: told.append((n, int(c))))
    assert told == [(1, 3), (2, 7), (3, 12)]


def test_traced_bounds_of_fori_loop():
    f = fg.jit(lambda n, x: lax.fori_loop(0, n, lambda i, c: c * x, 1.0))
    assert f(3, 2.0) == 8.0
    assert fg.grad(f, 1)(3, 2.0) == 12.0
    assert f(5, 2.0) == 32.0
    assert f.cache_info().misses == 1


def test_map_in_batches():
    close(lax.map(np.sin, XS, batch_size=2), np.sin(XS))
    close(lax.map(lambda t: {"s": t["a"] * 2}, {"a": XS}, batch_size=5)["s"], XS * 2)


def test_dtypes_of_carries():
    last, ys = lax.scan(lambda c, x: (c + x, c), np.float32(0), np.ones(3, np.float32))
    assert last.dtype == ys.dtype == np.float32
    last, ys = lax.scan(lambda c, x: (c + x, c), 0, np.ones(3, np.float32))
    assert last.dtype == ys.dtype == np.float32
    assert (
        fg.grad(lambda c: lax.scan(lambda c, x: (c * x, None), c, np.ones(3, np.float32))[0])(
            np.float32(2)
        ).dtype
        == np.float32
    )


def test_cumulative_operations():
    x = np.random.default_rng(2).normal(size=(4, 3))
    for ours, theirs in [
        (lax.cumsum, np.add), (lax.cumprod, np.multiply), (lax.cummax, np.maximum),
        (lax.cummin, np.minimum), (lax.cumlogsumexp, np.logaddexp),
    ]:  # fmt: skip
        close(ours(x, 1), theirs.accumulate(x, 1))
        close(ours(x, 0, reverse=True), theirs.accumulate(x[::-1], 0)[::-1])
        fg.testing.check_grads(lambda x, f=ours: f(x, 0), (x,), order=2)


# --- mistakes
# -----------------------------------------------------------------------------------------


def test_branches_that_differ():
    with pytest.raises(StructureMismatchError, match=r"f64\[3\].*f64\[\]|f64\[\].*f64\[3\]"):
        lax.cond(True, lambda: 1.0, lambda: np.ones(3))
    with pytest.raises(StructureMismatchError, match=r"first at \['a'\]"):
        lax.cond(True, lambda: {"a": np.ones(2)}, lambda: {"a": np.ones(3)})
    with pytest.raises(StructureMismatchError, match="structures differ"):
        lax.switch(0, [lambda: (1.0, 2.0), lambda: 1.0])


def test_carries_that_differ():
    with pytest.raises(StructureMismatchError, match=r"carry in \| carry out"):
        lax.scan(lambda c, x: (np.ones(2), x), 1.0, XS)
    with pytest.raises(StructureMismatchError, match="structures differ"):
        lax.scan(lambda c, x: ((c, c), x), 1.0, XS)
    with pytest.raises(StructureMismatchError, match="pair"):
        lax.scan(lambda c, x: c, 1.0, XS)
    with pytest.raises(StructureMismatchError, match="returned 1 values"):
        lax.scan(lambda c, x: (c,), 0.0, np.ones(3))
    with pytest.raises(ArgumentError, match=r"no axis to scan over at .*test_control\.py"):
        lax.scan(lambda c, x: (c, x), 0.0, 1.0)
    with pytest.raises(ArgumentError, match=r"one number of steps at .*test_control\.py"):
        lax.scan(lambda c, x: (c, x), 0.0)
    for steps in (3, np.array(3)):
        with pytest.raises(StructureMismatchError, match=r"`<lambda>` \(.*test_control\.py:\d+\)"):
            lax.fori_loop(0, steps, lambda i, c: c + 0.5, np.float32([1.0]).astype(int))
    with pytest.raises(StructureMismatchError, match="carry like the one it gets"):
        lax.while_loop(lambda c: c > 0, lambda c: np.stack([c, c]), 1.0)
    with pytest.raises(StructureMismatchError, match="one boolean"):
        lax.while_loop(lambda c: c, lambda c: c - 1, 1.0)


def test_other_mistakes():
    with pytest.raises(ArgumentError, match="one number of steps"):
        lax.scan(lambda c, x: (c, x), 1.0)
    with pytest.raises(ArgumentError, match="one number of steps"):
        lax.scan(lambda c, x: (c, x), 1.0, (np.ones(2), np.ones(3)))
    with pytest.raises(ArgumentError, match="one boolean"):
        lax.cond(np.array([True, False]), lambda: 1, lambda: 2)
    with pytest.raises(ArgumentError, match="checkpoint"):
        lax.scan(lambda c, x: (c, x), 1.0, XS, checkpoint="some")
    with pytest.raises(ArgumentError, match="one integer"):
        lax.switch(1.5, [lambda: 1])


def test_what_no_branch_maps_stays_one_value_under_vmap():
    def f(x, p):
        y, q = lax.cond(p > 0, lambda: (2.0 * x, p - 1.0), lambda: (x, p + 1.0))
        return lax.cond(q > 0, lambda: y, lambda: -y)

    batched = fg.vmap(f, in_axes=(0, None))
    program = str(fg.make_jaxpr(batched)(np.arange(3.0), 1.5))
    assert program.count("switch") == 2 and "select" not in program
    for p in (1.5, 0.5, -0.5, -1.5):
        want = np.array([f(x, p) for x in np.arange(3.0)])
        assert np.array_equal(batched(np.arange(3.0), p), want)


def test_a_structural_primitive_of_ones_own():
    runs = []

    def logged(*arrays, graph, tag):
        runs.append(tag)
        return fg.evaluate(graph, *arrays)

    logging = fg.extend.structural("logging", eval=logged)
    graph = fg.make_jaxpr(lambda x: np.sin(x) * x)(np.float64(1.0))

    def f(x):
        return logging(x, graph=graph, tag="here")[0]

    def plain(x):
        return np.sin(x) * x

    x = np.float64(0.7)
    close(fg.grad(f)(x), fg.grad(plain)(x))
    assert runs == ["here", "here"]  # forward and back, each in the way of the primitive
    close(fg.grad(fg.grad(f))(x), fg.grad(fg.grad(plain))(x))
    close(fg.jvp(f, (x,), (1.0,))[1], fg.grad(plain)(x))
    xs = np.linspace(0.1, 1.0, 3)
    close(fg.vmap(fg.grad(f))(xs), fg.vmap(fg.grad(plain))(xs))
    close(fg.jit(fg.grad(f))(x), fg.grad(plain)(x))


@pytest.mark.parametrize("what", [np.cumprod, np.sort, np.sin])
def test_a_loop_keeps_the_tapes_of_loops_inside(what):
    """A step reads the tape from a stack, whether the loop inside is run by its own program."""

    def inner(x):
        step = lambda s: (s[0] + 1, s[1] * 0.7 + 0.1 * np.sum(W * what(np.sin(x * 0.5 + s[1]))))  # noqa: E731
        return lax.while_loop(lambda s: s[0] < 3, step, (0, x))[1]

    def unrolled(x):
        y = x
        for _ in range(3):
            y = y * 0.7 + 0.1 * np.sum(W * what(np.sin(x * 0.5 + y)))
        return y

    def outer(inner, loop, x):
        return loop(0, 3, lambda i, c: c * 0.9 + 0.1 * np.sum(W * inner(x * c + i)), np.sum(x))

    def in_python(lower, upper, body, value):
        for i in range(lower, upper):
            value = body(i, value)
        return value

    x = np.array([0.3, 0.5])
    f, expected = (
        (lambda x: outer(inner, lax.fori_loop, x)),
        lambda x: outer(unrolled, in_python, x),
    )
    want = fg.grad(expected)(x)
    np.testing.assert_allclose(fg.grad(f)(x), want, rtol=1e-12)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(x), want, rtol=1e-12)


FOREIGN = {
    "scan": lambda b: lax.scan(lambda c, x: (c * 2.0 + x * b, (c, b)), b, np.ones((2, 3), "f4")),
    "scan of them": lambda b: lax.scan(lambda c, x: (c + x, (x, c)), b[0] * 1.0, b),
    "fori_loop": lambda b: lax.fori_loop(0, 3, lambda i, c: c * 2.0, b),
    "while_loop": lambda b: lax.while_loop(lambda c: c[0] < 9.0, lambda c: c * b * 2.0, b),
    "swapped": lambda b: lax.while_loop(
        lambda c: c[0][0] < 9.0, lambda c: (c[1], c[0] * 2.0), (b, b * 1.0)
    ),
    "cond": lambda b: lax.cond(b[0] > 0.0, lambda c: c, lambda c: c * 2.0, b),
    "closing over": lambda b: lax.cond(b[0] < 0.0, lambda: b * 2.0, lambda: b),
    "switch": lambda b: lax.switch(1, [lambda c: c * 2.0, lambda c: c], b),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("dtype", [">f8", ">f4", ">c16"])
def test_arrays_of_the_other_byte_order_in_loops_and_branches(name, dtype):
    f = FOREIGN[name]
    foreign = np.array([1.0, 2.0, 3.0], dtype)
    if foreign.dtype.kind == "c":
        if name in ("while_loop", "swapped", "cond", "closing over"):
            f = lambda b: FOREIGN[name](b.real)  # noqa: E731
        foreign = foreign + np.array(0.5j, dtype)
    native = foreign.astype(foreign.dtype.newbyteorder("="))

    def same(found, expected):
        pairs = zip(tree_leaves(found), tree_leaves(expected), strict=True)
        for one, other in pairs:
            assert one.dtype == other.dtype and one.dtype.isnative
            np.testing.assert_array_equal(one, other)

    same(f(foreign), f(native))
    same(fg.jit(f)(foreign), f(native))
    same(fg.export(f)(native)(foreign), f(native))
    same(fg.export(f)(foreign)(native), f(native))
    if native.dtype.kind == "f":
        total = fg.grad(lambda b: sum(np.sum(y) for y in tree_leaves(f(b))))
        np.testing.assert_array_equal(total(foreign), total(native))
        np.testing.assert_array_equal(fg.jit(total)(foreign), total(native))


def test_integers_of_the_other_byte_order_in_a_loop():
    end, before = lax.scan(
        lambda c, x: (c + x, c), np.arange(3, dtype=">i4"), np.ones((2, 3), "i4")
    )
    assert end.dtype == before.dtype == np.int32
    np.testing.assert_array_equal(end, [2, 3, 4])


def _deep(kind, depth):
    """A function of a number that runs so many loops, or branches, in each other."""
    if depth == 0:
        return lambda c: c * 0.5 + 1.0
    inner = _deep(kind, depth - 1)
    if kind == "fori_loop":
        return lambda c: lax.fori_loop(0, 1, lambda i, c: inner(c), c)
    if kind == "scan":
        return lambda c: lax.scan(lambda c, x: (inner(c), c), c, np.ones(1 + (depth == 1)))[0]
    return lambda c: lax.cond(
        c < 100.0, lambda c: lax.scan(lambda c, x: (inner(c), None), c, np.ones(1))[0], np.cos, c
    )


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "depth"), [("fori_loop", 21), ("scan", 21), ("cond", 18)])
def test_more_loops_in_each_other_than_blocks_of_pythons(kind, depth):
    f = _deep(kind, depth)
    times = 2 if kind == "scan" else 1
    assert f(6.0) == fg.jit(f)(6.0) == 2.0 + 4.0 * 0.5**times
    assert fg.grad(f)(6.0) == fg.jit(fg.grad(f))(6.0) == 0.5**times
    space = {}
    exec(fg.to_source(f, 6.0), space)
    assert space["function"](6.0) == 2.0 + 4.0 * 0.5**times


@pytest.mark.parametrize("kind", ["while", "scan"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_loops_in_loops_that_begin_with_pythons_numbers(kind, dtype):
    """Types as ever; with ordinary dtypes each body is traced once, however deep."""
    calls = []

    def nest(depth, x):
        def body(carry):
            calls.append(depth)
            i, total = carry
            return i + 1, total + (x * total + x if depth == 0 else nest(depth - 1, x))

        if kind == "scan":
            return lax.scan(lambda c, _: (body(c), ()), (0, 0), None, length=2)[0][1]
        return lax.while_loop(lambda c: c[0] < 2, body, (0, 0))[1]

    def plain(depth, x):
        total = np.zeros((), dtype)
        for _ in range(2):
            total = total + (x * total + x if depth == 0 else plain(depth - 1, x))
        return total

    x = np.asarray(2, dtype)
    for depth in (0, 1, 3):
        found = fg.jit(lambda x, depth=depth: nest(depth, x))(x)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, plain(depth, x))
    if dtype == "int64":
        calls.clear()
        fg.make_jaxpr(lambda x: nest(12, x))(x)
        assert len(calls) == 13
    else:
        found = fg.grad(lambda x: nest(2, x))(x)
        step = np.float64(1e-6)
        wanted = (plain(2, np.float64(2) + step) - plain(2, np.float64(2) - step)) / (2 * step)
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_loops_in_loops_of_floats_are_traced_once():
    calls = []

    def nest(depth, x):
        def body(carry):
            calls.append(depth)
            inner = nest(depth - 1, x + carry[1]) if depth else x
            return carry[0] + 1, carry[1] + inner

        return lax.while_loop(lambda c: c[0] < 2, body, (0, 0.0))[1]

    fg.make_jaxpr(lambda x: nest(20, x))(1.0)
    assert len(calls) == 21


@pytest.mark.parametrize(("zero", "times"), [(0, 2), (0.0, 1), (np.float64(0.0), 1)])
def test_a_carry_that_becomes_another_dtype_doubles_how_often_its_body_is_traced(zero, times):
    """Its Python code may look at the dtype: it is run with both. Carries in the outer loop's dtype
    change no more.
    """
    calls = []

    def nest(depth, x):
        def body(carry):
            calls.append((depth, np.result_type(carry[1])))
            i, total = carry
            return i + 1, total + (nest(depth - 1, x) if depth else x * total + x)

        return lax.while_loop(lambda c: c[0] < 2, body, (0, zero))[1]

    graph = fg.make_jaxpr(lambda x: nest(4, x))(1.0)
    assert [sum(d == depth for d, _ in calls) for depth in range(5)] == [
        times**n for n in range(5, 0, -1)
    ]
    assert graph.output_types == fg.make_jaxpr(lambda x: x)(np.float64(1.0)).output_types
    calls.clear()

    def handed_on(depth, total, x):
        def body(carry):
            calls.append((depth, None))
            i, total = carry
            return i + 1, handed_on(depth - 1, total, x) if depth else total + x

        return lax.while_loop(lambda c: c[0] < 2, body, (0, total))[1]

    assert fg.jit(lambda x: handed_on(4, zero, x))(0.5) == 16.0
    assert len(calls) == {1: 5, 2: 20}[times]  # n * (n + 3) / 2 of n loops


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_loops_of_small_floats_that_count_in_pythons_numbers_are_traced_once(dtype):
    calls = []

    def nest(depth, total, x, at):
        def body(carry):
            calls.append(depth)
            i, total = carry
            place = (at + i) % 3
            if depth:
                return i + 1, nest(depth - 1, total, x, place)
            return i + 1, total + x[place] * x[-1 - i]

        return lax.while_loop(lambda c: c[0] < 2, body, (0, total))[1]

    def plain(depth, total, x, at):
        for i in range(2):
            place = (at + i) % 3
            if depth:
                total = plain(depth - 1, total, x, place)
            else:
                total = total + x[place] * x[-1 - i]
        return total

    x = np.array([0.5, 1.5, 2.0]).astype(dtype)
    found = fg.jit(lambda x: nest(3, x[0], x, 0))(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, plain(3, x[0], x, 0), rtol=1e-3)
    calls.clear()
    fg.make_jaxpr(lambda x: nest(12, x[0], x, 0))(x)
    assert len(calls) == 13


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_a_number_of_pythons_in_a_carry_that_branches_and_calls_read(dtype):
    """It is an array in all that the body calls, too."""

    def f(x):
        def body(carry):
            i, total = carry
            inner = fg.jit(lambda v: v * 2 + i)(i + 1)
            chosen = lax.cond(i < 1, lambda: i * 3, lambda: inner - i)
            rows = lax.scan(lambda c, _: (c + i, c * i), i, None, length=2)
            return i + 1, total + x[chosen % 3] * (rows[1][1] > 0) + x[rows[0] % 3]

        return lax.while_loop(lambda c: c[0] < 3, body, (0, x[0]))[1]

    x, total = np.array([1, 2, 3]).astype(dtype), np.array(1).astype(dtype)
    for i in range(3):
        inner = (i + 1) * 2 + i
        chosen = i * 3 if i < 1 else inner - i
        total = total + x[chosen % 3] * ((i + i) * i > 0) + x[(3 * i) % 3]
    found = fg.jit(f)(x)
    assert (found.dtype, found) == (total.dtype, total)
    check_graph(fg.make_jaxpr(f)(x))
    assert fg.vmap(f)(np.stack([x, x])).tolist() == [total, total]


def test_pythons_numbers_that_meet_small_floats_in_a_loop_become_those():
    x = np.ones(3, np.float32)

    def f(x):
        def inner(c, v):
            return c + v, c

        def outer(c, _):
            return c + lax.scan(inner, 0.0, x)[0], c

        return lax.scan(outer, 0.0, None, length=2)

    last, carries = fg.jit(f)(x)
    assert (last.dtype, carries.dtype) == (np.float32, np.float32)
    assert last == 6.0


def test_an_error_in_a_loop_in_loops_is_the_users():
    def nest(depth):
        def body(c):
            if not depth:
                raise ZeroDivisionError("the user's")
            return c + nest(depth - 1)

        return lax.while_loop(lambda c: c < 2, body, 0)

    with pytest.raises(ZeroDivisionError, match="the user's"):
        nest(10)


C0 = np.array(-1.5)


def constant_rows(x):
    """A scan, some outputs of which depend on no argument, with steps that are run again."""
    carry, rows = lax.scan(lambda c, v: (v, C0), C0, x, checkpoint="binomial")
    return np.sum(np.logaddexp(rows, x)) + carry


def constant_carry(x):
    """As `constant_rows`, of the carry."""
    (t, y), _ = lax.scan(
        lambda c, v: ((c[0] + 1.0, c[1] * v), None), (0.0, 1.0), x, checkpoint="binomial"
    )
    return t * y


def constant_time(x):
    """A while loop, one carried value of which depends on no argument."""
    t, y = lax.while_loop(lambda c: c[0] < 3.0, lambda c: (c[0] + 1.0, c[1] * x[0]), (0.0, 1.0))
    return t * y * x[1]


@pytest.mark.parametrize("f", [constant_rows, constant_carry, constant_time])
def test_batches_of_gradients_by_outputs_that_depend_on_nothing(f):
    xs = np.array([[0.5, 1.0, 2.0], [1.5, -1.0, 0.25]])
    expected = [fg.grad(f)(x) for x in xs]
    close(fg.vmap(fg.grad(f))(xs), expected)
    close(fg.jit(fg.vmap(fg.grad(f)))(xs), expected)
