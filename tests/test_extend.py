"""Primitives of users: compiled functions treat them as they treat fungrad's own."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fungrad as fg
import fungrad.scipy.special as sp
from fungrad import extend, lax
from fungrad.compiler.passes.pipeline import optimised
from fungrad.errors import ArgumentError
from fungrad.retracing.inlining import is_pure

XS = np.linspace(0.1, 2.0, 50 * 200).reshape(50, 200)
cube = extend.elementwise("cube", lambda x: x**3, partials=[lambda y, x: 3 * x**2])
reversing = extend.linear(
    "reversing",
    eval=lambda x: x[::-1].copy(),
    type=lambda x: x,
    transpose=lambda ct, x: (ct[::-1],),
)
counted: list[float] = []


def _tallied(x):
    counted.append(float(np.sum(x)))
    return x * len(counted)


tally = extend.general("tally", eval=_tallied, type=lambda x: x, cuts=True, effect=True)


@pytest.mark.parametrize(
    "op",
    [pytest.param(np.exp, marks=pytest.mark.numpy_backend), sp.erfcx, cube],
    ids=["numpy", "scipy", "user"],
)
def test_what_xs_determine_leaves_a_scan_whoever_declared_it(op):
    def f(x, xs):
        return lax.scan(lambda c, x: (c * 0.5 + op(x), c), x, xs)

    graph = optimised(fg.make_jaxpr(f)(XS[0], XS))
    (loop,) = [e for e in graph.equations if e.primitive.name == "scan"]
    assert [e.primitive.name for e in loop.params["body"].equations] == ["mul", "add"]
    end, before = fg.jit(f)(XS[0], XS)
    c, found = XS[0], []
    for x in XS:
        found.append(c)
        c = c * 0.5 + op(x)
    np.testing.assert_array_equal(end, c)
    np.testing.assert_array_equal(before, np.stack(found))


def test_what_constants_determine_is_computed_once():
    known = np.arange(1.0, 4.0)
    for op in (np.exp, sp.erfcx, cube, reversing):
        graph = optimised(fg.make_jaxpr(lambda x, op=op: x * op(known))(known))
        assert [e.primitive.name for e in graph.equations] == ["mul"]


def test_an_effect_stays_where_it_is_and_runs_as_often_as_the_program_says():
    def f(x):
        c = tally(np.ones(3)) + tally(np.ones(3))  # not one, though they read the same
        tally(x)  # not dropped, though nothing reads it
        return lax.scan(lambda c, _: (c + tally(np.ones(3)), None), c, None, length=3)[0] + x

    for run in (f, fg.jit(f)):
        for _ in range(2):
            counted.clear()
            found = run(np.zeros(3))
            assert counted == [3.0, 3.0, 0.0, 3.0, 3.0, 3.0]
            np.testing.assert_array_equal(found, np.full(3, 1.0 + 2.0 + 4.0 + 5.0 + 6.0))


def test_a_primitive_that_runs_a_graph_is_as_pure_as_that():
    def scanned(body):
        return fg.make_jaxpr(lambda x: lax.scan(body, x, None, length=2)[0])(1.0)

    def printed(c, _):
        fg.debug.print("{}", c)
        return c, None

    def called(c, _):
        return fg.pure_callback(lambda v: v, c, c), None

    for body, pure in ((lambda c, _: (cube(c), None), True), (printed, False), (called, False)):
        (loop,) = [e for e in scanned(body).equations if e.primitive.name == "scan"]
        assert is_pure(loop) is pure


def test_structural_primitives_of_users_are_pure_where_they_say_so():
    graph = fg.make_jaxpr(np.sin)(1.0)

    def run(*arrays, graph):
        return fg.evaluate(graph, *arrays)

    for name, pure in (("plainly", True), ("in_a_way", False)):
        primitive = extend.structural(name, eval=run, pure=pure)
        outer = fg.make_jaxpr(lambda x, p=primitive: p(x, graph=graph)[0])(1.0)
        assert [is_pure(e) for e in outer.equations] == [pure]


# --- a function that NumPy lacks: one declaration of six lines -----------------------------

exp10 = extend.elementwise(
    "exp10",
    lambda x: np.power(10.0, x),
    partials=[lambda y, x: y * np.log(10.0)],
    inline=True,
)


def test_a_new_function_has_derivatives_and_batches():
    fg.testing.check_grads(exp10, [np.linspace(-1.0, 1.0, 5)], order=2)
    rows = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
    np.testing.assert_array_equal(fg.vmap(exp10)(rows), 10.0**rows)
    np.testing.assert_allclose(fg.grad(fg.grad(exp10))(0.5), 10**0.5 * np.log(10.0) ** 2)


def test_a_new_function_is_fused_as_numpys_are():
    def f(op):
        return lambda x: np.sum(op(np.sin(x)) * 2.0 + x)

    x = np.linspace(-1.0, 1.0, 100_000)
    new = fg.jit(f(exp10)).lower(x)
    assert re.search(r"power\(\w+, b_0, b_0\)", new.source)
    assert new.source == fg.jit(f(lambda x: np.power(10.0, x))).lower(x).source
    assert fg.jit(f(exp10))(x) == fg.jit(f(lambda x: np.power(10.0, x)))(x)
    gradient, plain = fg.jit(fg.grad(f(exp10)))(x), fg.grad(f(exp10))(x)
    np.testing.assert_allclose(gradient, plain, rtol=1e-13)


@pytest.mark.numpy_backend  # its programs call kernels
def test_a_kernel_of_a_user_runs_in_tiles():
    shapes = []
    log2cosh = extend.elementwise(
        "log2cosh", lambda x: np.logaddexp(x, -x), partials=[lambda y, x: np.tanh(x)]
    )

    def by_exp(x, out, t):
        shapes.append((x.dtype.char, x.shape, t.shape, np.shares_memory(x, out)))
        np.abs(x, out)
        np.multiply(out, -2.0, t)
        np.exp(t, t)
        np.log1p(t, t)
        np.add(out, t, out)

    x = np.linspace(-30.0, 30.0, 100_000)
    f = lambda x: np.sum(log2cosh(np.sin(x) * x) * x)  # noqa: E731
    before = fg.jit(f)(x), fg.jit(fg.grad(f))(x)
    fg.clear_caches()
    extend.kernel(log2cosh, by_exp, scratch=(0, 1))
    assert re.search(r"by_exp\(b_\d, b_\d, b_\d\)", fg.jit(f).lower(x).source)
    assert "by_exp(" not in fg.jit(f).lower(x.astype(np.float32)).source
    np.testing.assert_allclose(fg.jit(f)(x), before[0], rtol=1e-13)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(x), before[1], rtol=1e-13)
    assert sum(shape[0] for _, shape, _, _ in shapes) >= x.size
    assert all(k == "d" and a == b and not over for k, a, b, over in shapes)
    extend.kernel(log2cosh, by_exp, scratch=(0, 1), single=True)
    fg.clear_caches()
    assert "by_exp(" in fg.jit(f).lower(x.astype(np.float32)).source
    with pytest.raises(ArgumentError, match="`reversing` is not elementwise"):
        extend.kernel(reversing, by_exp)


def test_a_new_function_leaves_loops_and_runs_on_numbers():
    def f(x, xs):
        return lax.scan(lambda c, x: (c * 0.5 + exp10(x), c), x, xs)

    graph = optimised(fg.make_jaxpr(f)(XS[0], XS))
    (loop,) = [e for e in graph.equations if e.primitive.name == "scan"]
    assert [e.primitive.name for e in loop.params["body"].equations] == ["mul", "add"]
    assert "pow(10.0, x0_0)" in fg.jit(lambda x: exp10(x) * 2.0).lower(1.5).source
    assert fg.jit(lambda x: exp10(x) * 2.0)(1.5) == 2.0 * 10.0**1.5


def test_a_new_function_is_counted_and_exported():
    x = np.ones(30)
    found = fg.jit(lambda x: exp10(x) + 1.0).lower(x).cost()
    assert (found.flops, found.transcendentals, found.unknown) == (30, 30, {})
    text = fg.to_source(lambda x: exp10(x) + 1.0, x)
    assert "10.0 ** x" in text and "exp10" not in text
    assert extend.elementwise("tripled", lambda x: 3 * x, partials=[3], cost=1).cost == 1


def test_lines_of_users_are_kept_where_a_function_is_taken_in():
    graph = optimised(fg.make_jaxpr(lambda x: exp10(x))(1.0))
    assert [(e.primitive.name, e.source.file) for e in graph.equations] == [("power", __file__)]
    (equation,) = graph.equations
    here = test_lines_of_users_are_kept_where_a_function_is_taken_in.__code__.co_firstlineno
    assert equation.source.line == here + 1


def test_what_cannot_be_recorded_says_whose_eval_it_is():
    branching = extend.elementwise(
        "branching", lambda x: x if np.all(x > 0) else -x, partials=[None], inline=True
    )
    assert branching(1.0) == 1.0
    with pytest.raises(fg.errors.FungradError, match="eval of `branching`, declared inline"):
        fg.jit(branching)(np.ones(3))
