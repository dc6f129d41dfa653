"""The choice whether what holds in exact arithmetic only may be done: the setting, and `jit`'s."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax
from fungrad.compiler.passes.pipeline import optimised
from fungrad.errors import ArgumentError, SavedFileError
from fungrad.ir.graph import Graph
from fungrad.ir.reassociation import regrouping
from fungrad.retracing.graph_transforms import batch, differentiate, push
from fungrad.serialisation.graph_codec import Reader, Writer

X = np.linspace(0.5, 1.5, 5)


@pytest.fixture
def reassociate():
    """Sets what `fg.config.reassociate` says, for one test."""

    def choose(value):
        fg.config.reassociate = value

    yield choose
    fg.config.reassociate = False


def choice(f, *args):
    return regrouping(fg.jit(f).lower(*args).optimised)


def test_it_is_off_until_it_is_asked_for(reassociate):
    assert fg.config.reassociate is False
    f = fg.jit(np.sin)
    assert choice(f, X) is False
    reassociate(True)
    assert choice(f, X) is True
    assert regrouping(fg.jit(np.sin, reassociate=False).lower(X).optimised) is False
    reassociate(False)
    assert choice(f, X) is False
    assert regrouping(fg.jit(reassociate=True)(np.sin).lower(X).optimised) is True


@pytest.mark.parametrize("value", [1, "yes", np.True_])
def test_it_is_true_or_false(value):
    with pytest.raises(ArgumentError, match="True or False"):
        fg.jit(np.sin, reassociate=value)
    with pytest.raises(ArgumentError, match=r"fg.config.reassociate has to be True or False"):
        fg.config.reassociate = value
    with pytest.raises(ArgumentError):
        fg.config.reassociate = None


def graphs(graph):
    """What is run of a Graph, and of those in it."""
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
            assert {regrouping(graph) for graph in found} == {wanted}
        np.testing.assert_allclose(g(X)[1], f(X)[1], rtol=1e-14)
    found = graphs(fg.jit(f).lower(X).graph)
    assert {regrouping(graph) for graph in found} == {False}


def test_what_is_made_of_a_graph_keeps_its_choice():
    graph = fg.jit(np.sin, reassociate=True).lower(X).graph
    halves = differentiate(graph, [True])
    for made in (*halves[:2], push(graph, [True]).graph, batch(graph, [True], 3).graph):
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
    writer = Writer(True)
    writer.graph(exported.graph)
    content = writer.graphs[0]
    with pytest.raises(SavedFileError, match="regroup"):
        Reader([], 0).graph({**content, "reassociate": 1})


# --- compiled code computes what NumPy computes ---------------------------------------------------

BIG = np.finfo(np.float64).max


def norm(x):
    s = np.max(np.abs(x))
    q = x / s
    return s * np.sqrt(np.sum(q * q))


# By what would change them: a function, and arguments of doubles at which it did.
PROGRAMS = {
    "squares in a sum": (norm, [[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0]]),
    "divisor of a sum": (lambda x: np.sum(x / np.max(x)), [np.full(4, 1e308)]),
    "factor of a sum": (lambda x, w: np.sum(x * w), [(np.full(4, 1e308), 0.25)]),
    "number before a product": (
        lambda x, y: (x / 8.0) @ y, [(np.full((2, 8), 1e308), np.ones(8))],
    ),
    "small number before a product": (
        lambda x, y: (x * 1e-10) @ y, [(np.full((2, 8), 1e300), np.full(8, 1e10))],
    ),
    "number behind a product": (
        lambda x, y: (x @ y) * 1e10, [(np.full((20, 8), 1e-300), np.full((8, 2), 1e300))],
    ),
    "x + 0x": (lambda x: x + 0 * x, [[np.inf, -np.inf, np.nan, -0.0, 1.0]]),
    "x - 3x": (lambda x: x - x * 3.0, [[np.inf, -np.inf, BIG, -0.0, 1.0]]),
    "a common factor": (
        lambda g, a, b: g * a - g * b,
        [(np.inf, 2.0, 1.0), (0.0, 1e308, -1e308), (1e-200, 1e308, -1e308)],
    ),
    "a square of both": (lambda x: x * x - x * x, [[1e200, 1.0, -0.0]]),
    "a term twice": (lambda x, y: x + y + y, [(-1e308, 1e308), (-0.0, -0.0)]),
    "a common divisor": (
        lambda a, b, t: a / t - b / t, [(1e308, -1e308, 1e10), (2.0, 1.0, 0.0)],
    ),
    "multiples": (lambda x: x * 1e308 - x * -1e308, [[0.0, -0.0, 0.5]]),
    "a zero of a factor": (
        lambda g, a, b: np.arctan2(g * a - g * b, -1.0), [(-1.0, 2.0, 2.0)],
    ),
    "a zero of a difference": (lambda x, y: np.arctan2(-(x - y), -1.0), [(1.0, 1.0)]),
    "a zero of a sum": (lambda x: np.arctan2(-(x + 1.0), -1.0), [-1.0]),
    "a multiple with 0": (lambda a: a * 0.0 - a, [[0.0, -0.0, np.inf, 2.0]]),
    "a multiple with 2": (lambda a: a - a * 2.0, [[0.0, -0.0, np.inf, 2.0]]),
    "reciprocals of powers": (
        lambda x: (x**-2, x**-3, x**-4), [[2e154, 1e103, 1e-170, -0.0, np.inf, -3.0]],
    ),
    "two numbers": (
        lambda x: (x * 1e-200 * 1e200, x * 3.0 * 7.0, 0.1 * (x * 0.3)),
        [[1e-200, 5e-324, 1e308, 0.7]],
    ),
    "twice a divisor": (lambda x, y: x / (y * 2.0), [([1.0, 1e300, 5e-324], [1e308, 1e-300, 0.7])]),
    "a factor of a row": (
        lambda x, r: np.sum(x * r, axis=1), [(np.full((2, 3), 1e308), np.full((2, 1), 0.1))],
    ),
    "a quotient twice": (
        lambda a, t, y: (a / t * y, y / t), [(1e-300, 1e10, 1e300), (0.0, 0.0, 1.0)],
    ),
    "zeros of a sum": (lambda x: np.copysign(1.0, np.sum(-x)), [[1.0, -1.0], np.zeros(100)]),
    "zeros of a product": (
        lambda x, y: np.copysign(1.0, (-x) @ y), [([[1.0, -1.0]], [1.0, 1.0])],
    ),
    "zeros beside a slice": (
        lambda x, y: (np.copysign(1.0, np.pad(y, (1, 0)) + x), x - np.pad(y, (1, 0))),
        [([-0.0, -0.0, 1.0], [2.0, -0.0])],
    ),
    "zeros around a negation": (
        lambda y: [np.copysign(1.0, k * np.pad(y, 1)) for k in (-1, -2, 2)],
        [[1.0, -0.0]],
    ),
    "zeros times a large number": (
        lambda x, y: np.pad(y, (1, 0)) * 65536.0 + x, [([1.0, -2.0, 1.0], [2.0, -0.0])],
    ),
    "a slice with zeros added": (
        lambda x, y: np.copysign(1.0, x + np.pad(y, (1, 0))), [([-0.0, -0.0, -0.0], [-0.0, 0.0])],
    ),
    "zeros of choices": (
        lambda x, y: np.copysign(1.0, np.where(x > 0, y, 0.0) + np.where(~(x > 0), x, 0.0)),
        [([1.0, -1.0, -0.0], [-0.0, -0.0, 1.0])],
    ),
    "zeros that are negated": (lambda x: np.copysign(1.0, x * 0.0 + x * -0.0), [[0.0, -0.0, 1.0]]),
    "the opposite of an integer 0": (lambda x: np.copysign(1.0, -(x * 0)), [[0.0, -0.0, -1.0]]),
    "a slice with zeros added to a sum": (
        lambda x, y: np.copysign(1.0, (x + x[::-1]) + np.pad(y, (1, 0))),
        [([-0.0, 1.0, -0.0], [-0.0, 0.0])],
    ),
    "a slice with zeros added to a choice": (
        lambda x, y: np.copysign(1.0, np.where(x > 0, 1.0, x) + np.pad(y, (1, 0))),
        [([-0.0, 1.0, -0.0], [-0.0, -0.0])],
    ),
    "a slice with zeros added to what vanishes": (
        lambda x, y: np.copysign(
            1.0,
            (x.astype(np.float64) * 1e-300 + 0.0).astype(np.float16)
            + np.pad(y.astype(np.float16), (1, 0)),
        ),
        [([-1.0, -2.0, 1.0], [-0.0, -0.0])],
    ),
}  # fmt: skip
CASES = [(name, point) for name, (_, points) in PROGRAMS.items() for point in range(len(points))]


def bits(value):
    """What a NaN is called differs: all else is to be the same."""
    value = np.asarray(value)
    assert value.dtype.kind == "f"
    return value.dtype, value.shape, np.where(np.isnan(value), np.nan, value).tobytes()


def same(got, want):
    assert [bits(x) for x in fg.tree_leaves(got)] == [bits(x) for x in fg.tree_leaves(want)]


def in_a_scan(f):
    def g(*args):
        return lax.scan(lambda c, _: (c, f(*args)), 0.0, None, length=1)[1]

    return g


def moving(f, args):
    """f in a scan whose steps read their arguments anew, so that nothing is known before it."""

    def g(*args):
        return lax.scan(lambda c, row: (c, f(*row)), 0, tuple(np.stack([a, a]) for a in args))[1]

    return g(*args) if f is None else g


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize(("name", "point"), CASES)
def test_compiled_numbers_are_numpys(name, point, dtype):
    f, points = PROGRAMS[name]
    args = points[point] if isinstance(points[point], tuple) else (points[point],)
    with np.errstate(all="ignore"):
        args = [np.asarray(a).astype(dtype) for a in args]
        want = f(*args)
        same(fg.jit(f)(*args), want)
        same(fg.jit(in_a_scan(f))(*args), [np.asarray(x)[None] for x in fg.tree_leaves(want)])
        rows = fg.jit(moving(f, args))(*args)
        same(rows, [np.stack([x, x]) for x in fg.tree_leaves(want)])
        same(fg.jit(lambda *args: fg.jit(f)(*args))(*args), want)


def test_a_sum_of_complex_numbers_with_itself_keeps_its_infinities():
    x = np.array([np.inf + 2j, 1 - np.inf * 1j, -0.0 + 0j, 3 + 4j])
    with np.errstate(invalid="ignore"):
        for f in (
            lambda x: x + x, lambda x: x * 1.0, lambda x: x / 1.0, lambda x: x * -1.0,
            lambda x: -(x * 2.0), lambda x: x / 8.0, lambda x: x * 2.0 * 3.0, lambda x: (-x) * x,
            lambda x: x**3, lambda x: x**1,
        ):  # fmt: skip
            got, want = fg.jit(f)(x), f(x)
            same((got.real, got.imag), (want.real, want.imag))


@pytest.mark.parametrize("exponent", [1.5 + 0.2j, 1j, -2 + 0j, 3 + 0j])
def test_complex_powers(exponent):
    x = np.array([0.3, 1.7, 12.0])
    for f in (
        lambda x: x**exponent,
        lambda x: lax.cond(x[0] > 0, lambda x: x**exponent, lambda x: x * 1j, x),
        lambda x: lax.scan(lambda c, x: (c, x**exponent), 0.0, x)[1],
    ):
        for args in (x, x * 1j):
            if args.dtype.kind == "c":
                f, args = (lambda z: z**exponent), args
            np.testing.assert_allclose(fg.jit(f)(args), f(args), rtol=1e-14)


def test_the_gradient_of_a_quotient_keeps_its_zero():
    def f(y):
        return np.sum(1e10 * (np.zeros(2) / y))

    y = np.array([1e-300, 1.0])
    with np.errstate(all="ignore"):
        same(fg.jit(fg.grad(f))(y), fg.grad(f)(y))


def test_programs_are_kept_by_the_setting():
    f = fg.jit(lambda x: x * 2.0**60 * 2.0**-60)
    graph, large = fg.make_jaxpr(lambda x: x * 2.0**60 * 2.0**-60)(np.ones(3)), np.full(3, 1e300)
    for setting in (False, True, False, True):
        fg.config.reassociate = setting
        try:
            for _ in range(3):
                with np.errstate(over="ignore"):
                    assert bool(np.isinf(f(large)).all()) is not setting
            assert len(optimised(graph).equations) == (0 if setting else 2)
        finally:
            fg.config.reassociate = False
