"""Rules that hold in exact arithmetic only: the setting, `jit`'s choice, and their results."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from test_optimise import check_rewritten, names
from test_ordinary_scans import XS, C, agree, inside, loops, regrouped, steps
from test_scans import PROGRAMS, close, gates, loops_of, magic, numbers

import fungrad as fg
from fungrad import lax
from fungrad.compiler.passes.pipeline import optimised
from fungrad.errors import ArgumentError, SavedFileError
from fungrad.ir.graph import Graph
from fungrad.retracing.graph_transforms import batch, differentiate, jvp_graph
from fungrad.serialisation.graph_codec import GraphWriter, Reader

X = np.linspace(0.5, 1.5, 5)
REGROUPED = pytest.mark.usefixtures("reassociated")


@pytest.fixture
def reassociate():
    """Sets `fg.config.reassociate` for one test."""

    def choose(value):
        fg.config.reassociate = value

    yield choose
    fg.config.reassociate = False


def choice(f, *args):
    return fg.jit(f).lower(*args).optimised.reassociates


# --- the setting, and a function's own choice -----------------------------------------------------


def test_it_is_off_until_it_is_asked_for(reassociate):
    assert fg.config.reassociate is False
    f = fg.jit(np.sin)
    assert choice(f, X) is False
    reassociate(True)
    assert choice(f, X) is True
    assert fg.jit(np.sin, reassociate=False).lower(X).optimised.reassociates is False
    reassociate(False)
    assert choice(f, X) is False
    assert fg.jit(reassociate=True)(np.sin).lower(X).optimised.reassociates is True


@pytest.mark.parametrize("value", [1, "yes", np.True_])
def test_it_is_true_or_false(value):
    with pytest.raises(ArgumentError, match="True or False"):
        fg.jit(np.sin, reassociate=value)
    with pytest.raises(ArgumentError, match=r"fungrad.config.reassociate is True or False"):
        fg.config.reassociate = value
    with pytest.raises(ArgumentError):
        fg.config.reassociate = None


def graphs(graph):
    """The equations that run of a Graph, and of those inside."""
    graph = optimised(graph)
    yield graph
    for inner in graph.subgraphs():
        yield from graphs(inner)


def test_the_outermost_jit_decides_for_all_that_it_compiles():
    inner = fg.jit(np.sin, reassociate=True)

    def f(x):
        def step(c, x):
            return lax.cond(c > 0, lambda c: inner(c) * x, lambda c: c - x, c), inner(c)

        return lax.scan(step, inner(x[0]), x)

    for wanted in (True, False):
        g = fg.jit(f, reassociate=wanted)
        for h in (g, fg.jit(fg.grad(lambda x, g=g: g(x)[0]), reassociate=wanted)):
            found = list(graphs(h.lower(X).graph))
            assert len(found) > 3
            assert {graph.reassociates for graph in found} == {wanted}
        np.testing.assert_allclose(g(X)[1], f(X)[1], rtol=1e-14)
    found = graphs(fg.jit(f).lower(X).graph)
    assert {graph.reassociates for graph in found} == {False}


def test_what_is_made_of_a_graph_keeps_its_choice():
    graph = fg.jit(np.sin, reassociate=True).lower(X).graph
    halves = differentiate(graph, [True])
    for made in (*halves[:2], jvp_graph(graph, [True]).graph, batch(graph, [True], 3).graph):
        assert made.reassociate is True
    assert pickle.loads(pickle.dumps(graph)).reassociate is True
    old = graph.__getstate__()
    del old["reassociate"]  # of a Graph that was pickled before there was a choice
    again = Graph.__new__(Graph)
    again.__setstate__(old)
    assert again.reassociate is None


def test_a_jitted_function_is_pickled_saved_and_exported_with_it(tmp_path):
    f = fg.jit(np.sin, reassociate=True)
    assert pickle.loads(pickle.dumps(f)).lower(X).graph.reassociate is True
    exported = fg.export(f)(X)
    assert exported.graph.reassociate is True
    fg.save(exported, tmp_path / "f.fungrad")
    assert fg.load(tmp_path / "f.fungrad").graph.reassociate is True
    plain = fg.export(np.sin)(X)
    fg.save(plain, tmp_path / "g.fungrad")
    assert fg.load(tmp_path / "g.fungrad").graph.reassociate is None
    writer = GraphWriter(True)
    writer.graph(exported.graph)
    content = writer.graphs[0]
    with pytest.raises(SavedFileError, match="reassociate"):
        Reader([], 0).graph({**content, "reassociate": 1})
    reader = Reader([], 0)
    reader.graph({key: value for key, value in content.items() if key != "reassociate"})
    assert reader.graphs[0].reassociate is None  # of a file from before there was a choice


def test_programs_are_kept_by_the_setting(reassociate):
    def f(x):
        return np.sum(x * 2.0**60, 0)

    jitted, large = fg.jit(f), np.array([[1e290], [-1e290]]) * 1e3
    graph = fg.make_jaxpr(f)(large)
    for setting in (False, True, False, True):
        reassociate(setting)
        for _ in range(3):
            with np.errstate(over="ignore", invalid="ignore"):
                assert bool(np.isnan(jitted(large)).all()) is not setting
        assert names(optimised(graph)) == ["mul", "reduce_sum"][:: -1 if setting else 1]


# --- sums of products -----------------------------------------------------------------------------


def data(dtype=np.float64, shape=(6, 5)):
    rng = np.random.default_rng(0)
    values = rng.normal(size=shape), rng.uniform(0.5, 2.0, size=shape)
    return [v.astype(dtype) for v in values]


@REGROUPED
@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x, y: np.sum(x * y[:, :1], 1), ["getitem", "reduce_sum", "mul", "add"]),
        (lambda x, y: np.sum(x / y[0], 0), ["getitem", "reduce_sum", "div", "add"]),
        (lambda x, y: np.sum(x * (y / y[:1]), 0), ["getitem", "mul", "reduce_sum", "div", "add"]),
        (lambda x, y: np.sum(x * y[0, 0] / y[0, 1]),
         ["getitem", "getitem", "reduce_sum", "mul", "div", "add"]),
        (lambda x, y: np.sum(x * y * 3.0, 1), ["mul", "reduce_sum", "mul"]),
        (lambda x, y: np.sum(x * y / 0.3, 1), ["mul", "reduce_sum", "div"]),
        (lambda x, y: np.sum(x * -y, 1), ["mul", "reduce_sum", "mul", "add"]),
        (lambda x, y: np.sum(x * y * 0.3, 1), ["mul", "mul", "reduce_sum"]),  # may overflow without
        (lambda x, y: np.sum(x * y / 3.0, 1), ["mul", "div", "reduce_sum"]),
        (lambda x, y: np.sum(x * y[0], 1), ["getitem", "mul", "reduce_sum"]),  # another along it
        (lambda x, y: np.sum(y[:, :1] / x, 1), ["getitem", "div", "reduce_sum"]),
        (lambda x, y: np.sum(y[:, :1] * y[:1], 1), ["getitem", "getitem", "mul", "reduce_sum"]),
        (lambda x, y: np.sum((x * y[:, :1])[None], 0), ["getitem", "mul", "reduce_sum"]),  # of one
    ],
)  # fmt: skip
def test_what_is_the_same_along_a_sum_is_taken_out_of_it(f, expected):
    graph = fg.make_jaxpr(f)(*data())
    found = optimised(graph)
    fg.check_graph(found)
    assert [name for name in names(found) if name != "reshape"] == expected
    for got, want in zip(fg.evaluate(found, *data()), fg.evaluate(graph, *data()), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)
    fg.testing.check_grads(fg.jit(f), data(), order=2)


@REGROUPED
@pytest.mark.parametrize(
    "f",
    [
        lambda x, r: np.sum((x - r) * r, axis=-1),
        lambda x, r: np.sum(-x * r),
        lambda x, r: np.sum(x / r),
        lambda x, r: np.sum(x * x * r),
        lambda x, r: np.sum(np.stack([x, x]) * x[:, None], axis=1),
        lambda x, r: np.sum(np.stack([x, x]) * -3.0, axis=1),
    ],
)
def test_a_sum_is_never_minus_zero(f):
    """NumPy's sums begin with 0.0; a factor that is taken out of one may be negative."""
    for values in itertools.product((0.0, -0.0, 1.0, -2.5), repeat=3):
        x, r = np.array(values[:2]), values[2]
        with np.errstate(all="ignore"):
            expected, found = f(x, r), fg.jit(f)(x, r)
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(found[finite], expected[finite])
        assert np.array_equal(np.signbit(found)[finite], np.signbit(expected)[finite])


@REGROUPED
def test_a_sum_of_products_is_a_product_of_vectors():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=300), rng.normal(size=300)
    graph = optimised(fg.make_jaxpr(lambda x, y: np.sum(x * y))(x, y))
    assert names(graph) == ["dot_general"]
    np.testing.assert_allclose(fg.evaluate(graph, x, y)[0], np.sum(x * y), rtol=1e-13)
    kept_as_they_are = [
        (lambda x, y: (x * y, np.sum(x * y)), (x, y)),  # the product is there anyway
        (lambda x, y: np.sum(x[:, None] * y[:, None], 1), (x, y)),
        (lambda x, y: np.sum(x * y), (x > 0, y > 0)),
        (lambda x, y: np.sum(x * y), (np.ones(300, np.float32), np.ones(300, np.float32))),
    ]
    for f, args in kept_as_they_are:
        assert "dot_general" not in names(optimised(fg.make_jaxpr(f)(*args)))


@REGROUPED
@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x, y: np.sum(x**2), ["dot_general"]),
        (lambda x, y: np.sum(np.square(x)) + np.sum(x**3),
         ["dot_general", "mul", "dot_general", "add"]),
        (lambda x, y: np.sum(100.0 * x**2 + y * x), ["dot_general", "mul", "dot_general", "add"]),
        (lambda x, y: np.sum(x * y - y), ["dot_general", "reduce_sum", "sub"]),
        (lambda x, y: np.sum(y - x * -3.0 * y), ["reduce_sum", "dot_general", "mul", "sub"]),
        (lambda x, y: np.sum(0.5 * x**2), ["mul", "dot_general"]),  # x . x may overflow
        (lambda x, y: np.sum(x * y / (x + 3.0)), ["add", "div", "dot_general"]),
        (lambda x, y: np.sum(x + y), ["add", "reduce_sum"]),
        (lambda x, y: np.sum(x**5), ["power", "reduce_sum"]),
        (lambda x, y: np.sum(y - x * y - x), ["sub", "reduce_sum", "dot_general", "sub"]),
        (lambda x, y: np.sum(-(x * y) - x * x), ["dot_general", "dot_general", "add", "sub"]),
        (lambda x, y: np.sum(x * y + 1.0), ["mul", "add", "reduce_sum"]),
        (lambda x, y: np.sum(x**3 + 2.0 * y), ["mul", "dot_general", "reduce_sum", "mul", "add"]),
    ],
)  # fmt: skip
def test_the_products_in_a_sum_are_products_of_vectors(f, expected):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=300), rng.normal(size=300)
    graph = fg.make_jaxpr(f)(x, y)
    found = optimised(graph)
    assert sorted(names(found)) == sorted(expected)
    (got,), (want,) = fg.evaluate(found, x, y), fg.evaluate(graph, x, y)
    np.testing.assert_allclose(got, want, rtol=1e-13)
    fg.testing.check_grads(fg.jit(f), (x[:9], y[:9]), order=2)


@REGROUPED
def test_complex_sums_of_products():
    z = np.array([1.0 + 2.0j, -0.5j, 3.0])
    check_rewritten(lambda z: np.sum(z * z * 2.0), (z,), ["dot_general", "mul"], rtol=1e-15)


def test_sums_of_long_products_are_staged_in_linear_time():
    def equations(length):
        def f(x, y):
            for i in range(length):
                x = x * y[i]
            return np.sum(x)

        f = fg.jit(f, reassociate=True)
        return len(f.lower(np.ones(4), np.ones(length)).optimised.equations)

    few, many = equations(40), equations(80)
    assert many < 2.2 * few


# --- loops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "left"),
    [
        (lambda c, x: (np.tanh(c) * x * np.exp(x), None), ["tanh", "mul"]),
        (lambda c, x: (x / (np.tanh(c) * np.exp(x)), None), ["tanh", "div"]),
        (lambda c, x: (np.tanh(c) / x / np.exp(x) * 3.0, None), ["tanh", "mul"]),
        (lambda c, x: (-(np.tanh(c) * x), None), ["tanh", "mul"]),
        (lambda c, x: ((np.tanh(c) + x) - np.exp(x), None), ["tanh", "add"]),
        (lambda c, x: (x - (np.tanh(c) - np.exp(x)), None), ["tanh", "sub"]),
        (lambda c, x: (np.exp(x) - (x + np.tanh(c)), None), ["tanh", "sub"]),
        (lambda c, x: (-(np.tanh(c) + x) - np.exp(x), None), ["tanh", "sub"]),
        (lambda c, x: (np.tanh(c) * x, np.tanh(c) * x * np.exp(x)), ["tanh", "mul", "mul"]),
        (lambda c, x: (np.tanh(c) * c * x, None), ["tanh", "mul", "mul"]),  # two of the step
        (lambda c, x: (np.tanh(c) * 2.0 * 3.0, None), ["tanh", "mul", "mul"]),  # two numbers
        (lambda c, x: (np.sin(np.tanh(c) * x) * np.exp(x), None), ["tanh", "mul", "sin", "mul"]),
        (lambda c, x: ((np.tanh(c) + x) * np.exp(x), None), ["tanh", "add", "mul"]),  # two groups
    ],
)
def test_what_is_known_before_a_loop_meets_first(step, left):
    f = lambda c, xs: lax.scan(step, c, xs)  # noqa: E731
    (loop,) = loops(f, C, XS, how=regrouped)[1]
    assert sorted(inside(loop)) == sorted(left)
    agree(fg.jit(f, reassociate=True)(C, XS), steps(step, C, XS))


@pytest.mark.parametrize(
    ("c", "product"),
    [
        (C.astype(np.float32), lambda c, x: np.tanh(c) * x * np.exp(x)),  # overflow on the way
        (np.linspace(0.1, 0.9, 20_000), lambda c, x: np.tanh(c) * x * np.exp(x)),  # long ones
        (np.ones(()), lambda c, x: np.tanh(c) * x * np.exp(x)),  # on numbers
        (C, lambda c, x: np.tanh(c) * 0.1 * 0.7),
    ],
)
def test_chains_of_other_sizes_and_dtypes_stay(c, product):
    def step(carry, x):  # the sine leaves the loop
        c, d = carry
        return (product(c, x[0]), np.tanh(d) + np.sin(x[1])), None

    xs = (np.arange(1.0, 4.0).reshape(3, *[1] * c.ndim) * c).astype(c.dtype), XS
    f = lambda *args: lax.scan(step, args[:2], args[2:])[0]  # noqa: E731
    (loop,) = loops(f, c, C, *xs, how=regrouped)[1]
    assert inside(loop).count("mul") == 2 and "sin" not in inside(loop)
    for got, want in zip(fg.jit(f, reassociate=True)(c, C, *xs), fg.jit(f)(c, C, *xs), strict=True):
        np.testing.assert_array_equal(got, want)


@REGROUPED
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_scan_that_may_be_regrouped_gives_the_numbers_of_a_loop(program):
    args = numbers(7)[program]
    positions = tuple(range(len(args)))
    want = fg.value_and_grad(lambda *args: program(steps, *args), positions)(*args)
    close(fg.jit(fg.value_and_grad(lambda *a: program(lax.scan, *a), positions))(*args), want)


@REGROUPED
def test_a_gradient_s_way_back_is_short():
    args = numbers(7)[gates]
    _, (there, back) = loops_of(fg.grad(lambda *a: gates(lax.scan, *a), (0, 1, 2)), *args)
    found = names(optimised(there.params["body"]))
    assert [found.count(name) for name in ("exp", "div", "tanh")] == [2, 2, 2]
    found = names(optimised(back.params["body"]))
    assert not {"exp", "neg", "scatter", "index_add", "div", "sub"} & set(found)
    assert found.count("concatenate") == 1 and found.count("mul") <= 5
    assert back.params["counts"][1] == 2  # the sums for w and u are made behind it


@pytest.mark.parametrize("size", [200, 2000])
def test_an_intended_rounding_is_lost(size):
    h, xs = np.linspace(0.1, 0.9, size), np.linspace(1.0, 2.0, 2 * size).reshape(2, size)
    f = lambda h, xs: magic(lax.scan, h, xs)  # noqa: E731
    assert not np.array_equal(fg.jit(f)(h, xs)[1], h)
    np.testing.assert_array_equal(fg.jit(f, reassociate=True)(h, xs)[1], h)
