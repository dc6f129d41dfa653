"""checkpoint: no number changes, and less is kept: measured on the tape, in the IR and in bytes."""

from __future__ import annotations

import functools
import gc
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fungrad as fg
from fungrad import lax
from fungrad.errors import ArgumentError, ItemAssignmentError
from fungrad.testing import programs

RANDOM = np.random.default_rng(0)
W = RANDOM.normal(size=(5, 5)) / 2
X = np.arange(5.0) / 5

POLICIES = {
    "default": {},
    "nothing": {"policy": fg.save_nothing},
    "everything": {"policy": fg.save_everything},
    "dots": {"policy": fg.save_dots},
    "names": {"policy": fg.save_names("h")},
    "other names": {"policy": fg.save_names("g", "k")},
    "a function": {"policy": lambda primitive, params: primitive.name == "tanh"},
    "budget 0": {"budget_bytes": 0},
    "budget 100": {"budget_bytes": 100},
    "budget 1e6": {"budget_bytes": 10**6},
}


def layer(w, x):
    h = fg.checkpoint_name(w @ x, "h")
    return np.sin(h) * np.tanh(h) + x


def model(**options):
    """Three layers; with options, checkpointed one by one, and again as closures over w."""
    if options:
        inner = fg.checkpoint(layer, **options)
        return lambda w, x: _through(fg.checkpoint(lambda x: inner(w, x) * w[0], **options), x)
    return lambda w, x: _through(lambda x: layer(w, x) * w[0], x)


def _through(f, x):
    for _ in range(3):
        x = f(x)
    return np.sum(x * x)


TRANSFORMS = {
    "value": lambda f: f,
    "grad": lambda f: fg.grad(f, (0, 1)),
    "jit grad": lambda f: fg.jit(fg.grad(f, (0, 1))),
    "grad jit": lambda f: fg.grad(fg.jit(f), (0, 1)),
    "grad grad": lambda f: fg.grad(lambda w, x: np.sum(fg.grad(f)(w, x) ** 2), (0, 1)),
    "jit grad grad": lambda f: fg.jit(
        fg.grad(lambda w, x: np.sum(fg.grad(f)(w, x) ** 2), (0, 1))
    ),
    "jvp": lambda f: lambda w, x: fg.jvp(f, (w, x), (w, x)),
    "jvp grad": lambda f: lambda w, x: fg.jvp(fg.grad(f, (0, 1)), (w, x), (w, x)),
    "grad jvp": lambda f: fg.grad(lambda w, x: fg.jvp(f, (w, x), (w, x))[1], (0, 1)),
    "vmap grad": lambda f: (
        lambda w, x: fg.vmap(fg.grad(f, (0, 1)), (None, 0))(w, np.stack([x, x + 1]))
    ),
    "grad vmap": lambda f: (
        lambda w, x: fg.grad(lambda w, x: np.sum(fg.vmap(f, (None, 0))(w, x)), (0, 1))(
            w, np.stack([x, x + 1])
        )
    ),
    "jit vmap grad": lambda f: (
        lambda w, x: fg.jit(fg.vmap(fg.grad(f, (0, 1)), (None, 0)))(w, np.stack([x, x + 1]))
    ),
}  # fmt: skip


def assert_close(found, expected, rtol=1e-13):
    assert fg.trees.structure(found) == fg.trees.structure(expected)
    for a, b in zip(fg.trees.leaves(found), fg.trees.leaves(expected), strict=True):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@functools.cache
def without_checkpoints(transform):
    return TRANSFORMS[transform](model())(W, X)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("policy", POLICIES)
def test_like_the_function_itself(policy, transform):
    found = TRANSFORMS[transform](model(**POLICIES[policy] or {"policy": None}))(W, X)
    assert_close(found, without_checkpoints(transform))


@settings(max_examples=40)
@given(programs(), st.sampled_from(sorted(POLICIES)), st.booleans())
def test_no_number_changes(program, policy, staged):
    """Up to the order in which the cotangents of one value are summed."""
    wrapped = fg.checkpoint(program, **POLICIES[policy])
    apply = fg.jit if staged else lambda f: f
    with np.errstate(all="ignore"):
        args = program.args
        expected = fg.value_and_grad(program, tuple(range(len(args))))(*args)
        found = apply(fg.value_and_grad(wrapped, tuple(range(len(args)))))(*args)
    for a, b in zip(fg.trees.leaves(found), fg.trees.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("policy", POLICIES)
def test_in_a_scan_and_over_a_scan(policy):
    def loss(f, outer):
        def all_(w, x):
            return np.sum(fg.lax.scan(lambda c, _: (f(w, c), None), x, None, length=4)[0] ** 2)

        return outer(all_)

    ck = lambda f: fg.checkpoint(f, **POLICIES[policy])  # noqa: E731
    expected = fg.grad(loss(layer, lambda f: f), (0, 1))(W, X)
    for f, outer in ((ck(layer), lambda f: f), (layer, ck), (ck(layer), ck)):
        assert_close(fg.grad(loss(f, outer), (0, 1))(W, X), expected)
        assert_close(fg.jit(fg.grad(loss(f, outer), (0, 1)))(W, X), expected)


def test_python_control_flow_runs_twice_on_values():
    runs = []

    @fg.checkpoint
    def f(x):
        runs.append(1)
        while x < 10.0:
            x = x * x
        return x

    assert fg.grad(f)(2.0) == fg.grad(lambda x: x**4)(2.0)
    assert len(runs) == 2
    fg.jit(fg.checkpoint(np.sin))(1.0)


def test_closures_of_several_levels():
    def f(w):
        def g(v):
            h = fg.checkpoint(lambda x: np.sin(w * v * x))
            return fg.checkpoint(lambda x: h(x) * v + w)(2.0)

        return fg.grad(g)(3.0) * w

    def plain(w):
        def g(v):
            return np.sin(w * v * 2.0) * v + w

        return fg.grad(g)(3.0) * w

    for transform in (fg.grad, lambda f: fg.grad(fg.grad(f)), lambda f: fg.jit(fg.grad(f))):
        assert_close(transform(f)(1.5), transform(plain)(1.5))
    assert_close(fg.vmap(fg.grad(f))(X), fg.vmap(fg.grad(plain))(X))


@pytest.mark.parametrize("loop", ["scan", "while", "cond", "map", "jit"])
def test_loops_that_compute_with_what_they_close_over_alone(loop):
    loops = {
        "scan": lambda step, z: lax.scan(lambda c, _: (step(c), c), z, None, length=3)[0],
        "while": lambda step, z: lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, step(c[1])), (0, z)
        )[1],
        "cond": lambda step, z: lax.cond(np.sum(z) > 0.0, step, lambda z: z, z),
        "map": lambda step, z: lax.map(step, z),
        "jit": lambda step, z: fg.jit(step)(z),
    }

    def f(k, wrap):
        w = np.sin(k)
        inner = lambda z: loops[loop](lambda c: c * np.exp(w) + w * w, z)  # noqa: E731
        return np.sum(wrap(inner)(X * k))

    wrapped = lambda k: f(k, fg.checkpoint)  # noqa: E731
    assert_close(fg.grad(wrapped)(0.7), fg.grad(lambda k: f(k, lambda inner: inner))(0.7))
    assert_close(fg.grad(fg.grad(wrapped))(0.7), fg.jit(fg.grad(fg.grad(wrapped)))(0.7))


@pytest.mark.parametrize("policy", POLICIES)
def test_loops_that_close_over_what_is_differentiated(policy):
    def f(x, wrap):
        y = np.sin(x)

        def inner(z):
            end, parts = lax.scan(lambda c, a: (np.tanh(c + a * y), c * y), z, np.stack([z, x]))
            chosen = lax.cond(np.sum(z) > 0.0, lambda z: z * y, lambda z: z - y, end)
            return chosen + np.sum(parts, 0) + fg.vmap(lambda a: a * y)(z)[1]

        return np.sum(wrap(inner)(x))

    want = fg.grad(lambda x: f(x, lambda inner: inner))(X)
    wrapped = lambda x: f(x, lambda inner: fg.checkpoint(inner, **POLICIES[policy]))  # noqa: E731
    assert_close(fg.grad(wrapped)(X), want)
    assert_close(fg.jit(fg.grad(wrapped))(X), want)


def test_trees_integers_keywords_and_methods():
    class Model:
        @fg.checkpoint
        def __call__(self, p, n, *, mode):
            assert mode == "fast"
            return {"y": p["w"] * n, "n": n}

    f = lambda w: Model()({"w": w}, 3, mode="fast")["y"]  # noqa: E731
    assert fg.grad(f)(2.0) == 3.0
    assert fg.jit(fg.grad(f))(2.0) == 3.0
    f = fg.checkpoint(lambda x: (x, 2.0))
    assert fg.grad(lambda x: f(x)[0] * f(x)[1])(1.0) == 2.0


def test_stop_gradient_inside_and_unconnected_inputs():
    f = fg.checkpoint(lambda x, y: x * fg.stop_gradient(x * y))
    for transform in (lambda g: g, fg.jit):
        assert transform(fg.grad(f, (0, 1)))(2.0, 3.0) == (6.0, 0.0)
    assert fg.grad(f, 1, unconnected="none")(2.0, 3.0) is None


def test_a_policy_or_a_budget():
    with pytest.raises(ArgumentError, match="not both"):
        fg.checkpoint(np.sin, policy=fg.save_dots, budget_bytes=10)


# --- kept values ------------------------------------------------------------------------


def elementwise(x):
    for _ in range(30):
        x = np.sin(np.cos(x))
    return x


def residual_bytes(f, *args):
    """The bytes of arrays that live between the forward and the backward pass."""
    gc.collect()
    tracemalloc.start()
    out, pullback = fg.vjp(f, *args)
    arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)  # not machine code
    held = tracemalloc.take_snapshot().filter_traces([arrays]).traces
    tracemalloc.stop()
    pullback(np.ones_like(out))
    return sum(trace.size for trace in held)


@pytest.mark.slow
def test_bytes_between_the_passes():
    x = np.ones(20_000)
    plain = residual_bytes(elementwise, x)
    assert plain > 50 * x.nbytes
    assert residual_bytes(fg.checkpoint(elementwise), x) < 2.2 * x.nbytes
    budget = residual_bytes(fg.checkpoint(elementwise, budget_bytes=10 * x.nbytes), x)
    assert 9 * x.nbytes < budget < 13 * x.nbytes
    # The input, which the pullback keeps as it was, the output, and buffers for the next call.
    assert residual_bytes(fg.jit(fg.checkpoint(elementwise)), x) < 4.4 * x.nbytes


@pytest.mark.slow
def test_peak_of_a_chain_of_checkpoints():
    x = np.ones(20_000)

    def peak(f):
        def chain(x):
            for _ in range(10):
                x = f(x)
            return np.sum(x)

        gc.collect()
        tracemalloc.start()
        fg.grad(chain)(x)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found / x.nbytes

    plain, parts = peak(elementwise), peak(fg.checkpoint(elementwise))
    assert plain > 600
    assert parts < 10 + 60 + 20  # an input each, and the intermediate values of one


def test_one_record_on_the_tape():
    lengths = []

    def f(x):
        y = fg.checkpoint(elementwise)(x)
        lengths.append(len(list(y.owner.tape.records())))
        return np.sum(y)

    fg.grad(f)(X)
    assert lengths == [1]


def products(w, x):
    for _ in range(3):
        x = np.tanh(w @ x)
    return np.sum(x)


def count_dots(policy):
    graph = fg.make_jaxpr(fg.grad(fg.checkpoint(products, **policy)))(W, X)
    return str(graph).count("dot_general")


def test_policies_choose_what_is_computed_again():
    everything = count_dots({"policy": fg.save_everything})
    assert everything == 3 + 5  # forward; cotangents of three w and two x
    assert count_dots({"policy": fg.save_dots}) == everything
    assert count_dots({}) == everything + 3
    assert count_dots({"budget_bytes": 10**6}) == everything
    assert everything < count_dots({"budget_bytes": 2 * X.nbytes}) < everything + 3


def test_named_values_are_not_computed_again():
    seen = []

    def spy(x):
        fg.debug.callback(lambda v: seen.append(1), x)
        return x

    def f(x):
        h = fg.checkpoint_name(np.exp(spy(x)), "h")
        return np.sum(np.sin(h))

    text = str(fg.make_jaxpr(fg.grad(fg.checkpoint(f, policy=fg.save_names("h"))))(X))
    assert text.count("= exp") == 2  # and again for its own derivative, which has no name
    text = str(fg.make_jaxpr(fg.grad(fg.checkpoint(f, policy=fg.save_everything)))(X))
    assert text.count("= exp") == 1
    assert_close(fg.grad(fg.checkpoint(f, policy=fg.save_names("h")))(X), fg.grad(f)(X))


def test_it_is_seen_in_the_ir_and_pickles():
    f = fg.checkpoint(layer, policy=fg.save_names("h"))
    graph = fg.make_jaxpr(fg.grad(lambda w: np.sum(f(w, X))))(W)
    fg.check_graph(graph)
    assert str(graph).count("checkpoint[") == 2
    loaded = pickle.loads(pickle.dumps(graph))
    assert_close(fg.evaluate(loaded, W), fg.evaluate(graph, W))


@pytest.mark.slow
def test_memory_of_repeated_gradients_does_not_grow():
    f = fg.grad(lambda x: np.sum(fg.checkpoint(elementwise)(x)))
    x = np.ones(1000)
    f(x)
    gc.collect()
    gc.disable()
    try:
        tracemalloc.start()
        for _ in range(20):
            f(x)
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    finally:
        gc.enable()
    assert held < 10 * x.nbytes


def test_a_loop_of_checkpoints_holds_its_constants_once():
    def f(w):
        step = fg.checkpoint(lambda c: np.sin(c * w))
        return np.sum(lax.scan(lambda c, _: (step(c), None), w + 1.0, None, length=7)[0])

    w = np.array([0.3, -0.2, 0.9])
    program = str(fg.make_jaxpr(fg.grad(f))(w)).partition("body=")[0]
    assert program.count("f64[7,3]") == 1  # the carries
    x, slope = w + 1.0, np.ones(3)
    for _ in range(7):
        x, slope = np.sin(x * w), np.cos(x * w) * (slope * w + x)
    np.testing.assert_allclose(fg.grad(f)(w), slope, rtol=1e-14)


# --- changes between the runs


def _written(n, use):
    """A function that writes into an array that its checkpointed part has read."""

    def f(x):
        c = np.ones(n)
        part = fg.checkpoint(lambda x: np.sum(use(x, c)))
        total = part(x)
        c *= 2.0
        return total + np.sum(x * c)

    return f


USES = {
    "sum": lambda x, c: np.sin(x * x + c),  # the rule of add does not read c
    "product": lambda x, c: x * x * c,
    "computed without x": lambda x, c: np.sin(c) * x**2,
    "scan": lambda x, c: lax.scan(lambda s, v: (s + np.sin(v + c), ()), 0 * x, x)[0],
    "branch": lambda x, c: x**2 if c[0] == 1.0 else x**3,
    "index": lambda x, c: x[int(c[0])] ** 2,
    "inner checkpoint": lambda x, c: fg.checkpoint(lambda x: np.sin(x + c))(x),
    "number": lambda x, c: float(c[0]) * x**2,
}


@pytest.mark.parametrize("n", [3, 2_000])
@pytest.mark.parametrize("use", USES)
def test_what_is_written_into_between_the_runs_is_right_or_raises(use, n):
    n = 3 if use == "scan" else n
    x = np.linspace(0.5, 1.0, n)
    f = _written(n, USES[use])

    def twice(x):
        return np.sum(fg.grad(f)(x) ** 2)

    for transform in (fg.grad(f), fg.grad(twice), lambda x: fg.vjp(f, x)[1](1.0)):
        with pytest.raises(ItemAssignmentError, match=r"(?s)changed since: .*c = c \* 2"):
            transform(x)

    def plain(x):
        return np.sum(USES[use](x, np.ones(n))) + np.sum(x * np.full(n, 2.0))

    wanted = fg.grad(plain)(x)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(x), wanted)
    np.testing.assert_allclose(fg.vmap(fg.grad(f))(x[None])[0], wanted)
    wanted = fg.grad(lambda x: np.sum(fg.grad(plain)(x) ** 2))(x)
    np.testing.assert_allclose(fg.jit(fg.grad(twice))(x), wanted)


def test_the_message_names_the_line_that_reads():
    with pytest.raises(ItemAssignmentError, match=r"`add` at .*test_checkpoint\.py:\d+ \(<lambda>"):
        fg.grad(_written(3, USES["sum"]))(np.ones(3))


def test_inside_the_body_of_a_scan():
    """A body runs once, recorded: captured arrays keep their values."""
    c = np.ones(2)

    def f(x):
        def body(carry, _):
            part = fg.checkpoint(lambda v: np.sin(v + c))(carry)
            c[:] = c * 2.0
            return part, ()

        return np.sum(lax.scan(body, x, None, length=3)[0])

    held = c.copy()
    once = fg.grad(lambda x: np.sum(np.sin(np.sin(np.sin(x + 1) + 1) + 1)))(X[:2])
    np.testing.assert_allclose(fg.grad(f)(X[:2]), once)
    assert not np.array_equal(c, held)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_read_may_be_made_anew_in_each_run(policy):
    """Arrays that the function makes itself are compared by value, NaN and -0.0 too."""
    given = np.array([np.nan, 1.0, -0.0, 2.0, np.inf])

    def f(x):
        c = np.where(np.isfinite(given), given, 1.0)
        c *= 2.0
        wide = np.broadcast_to(c, (3, 5))
        return np.sum(x * c * wide) + np.sum(np.where(given > 0, x, given * x)[1:]) * np.float32(2)

    found = fg.grad(fg.checkpoint(f, **POLICIES[policy]))(X)
    np.testing.assert_allclose(found, fg.grad(f)(X))


def test_random_numbers_that_are_drawn_again_raise():
    random = np.random.default_rng(0)
    f = fg.checkpoint(lambda x: np.sum(x * x * random.normal(size=3)))
    with pytest.raises(ItemAssignmentError, match="draws random numbers"):
        fg.grad(f)(np.ones(3))
    g = fg.checkpoint(lambda x: np.sum(np.sin(x)) if random.random() < -1 else steps(x))
    counts = iter((3, 2))

    def steps(x):
        for _ in range(next(counts)):
            x = np.sin(x)
        return x

    with pytest.raises(ItemAssignmentError, match="ends after 2 of 3 operations"):
        fg.grad(g)(1.0)


@pytest.mark.slow
def test_large_arrays_that_are_made_inside_are_not_held_between_the_runs():
    c = np.ones(100_000)

    def f(x):
        for _ in range(20):
            x = fg.checkpoint(lambda x: np.sum(np.sin(x * c) * np.cos(c)) / c.size)(x)
        return x

    fg.grad(f)(0.5)
    gc.collect()
    tracemalloc.start()
    fg.grad(f)(0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * c.nbytes


@pytest.mark.parametrize("copy", [np.array, np.copy, lambda v: np.pad(v, 1)[1:-1]])
def test_a_copy_of_what_a_checkpointed_function_closes_over(copy):
    def f(x):
        v = x * 3.0
        return np.sum(fg.checkpoint(lambda y: y * copy(v))(x))

    x = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(fg.grad(f)(x), 6.0 * x)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(x), 6.0 * x)
    np.testing.assert_allclose(fg.hessian(f)(x), 6.0 * np.eye(3))
