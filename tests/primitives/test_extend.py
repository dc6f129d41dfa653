"""Primitives of users: compiled functions treat them as they treat fungrad's own."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
import types

import numpy as np
import pytest

import fungrad as fg
import fungrad.scipy.special as sp
from fungrad import extend, lax
from fungrad.compiler.passes.pipeline import optimised
from fungrad.errors import ArgumentError
from fungrad.primitives.elementwise import family, ufuncs
from fungrad.primitives.primitive import primitives
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
    assert re.search(r"power\(\w+, v1, v1\)", new.source)
    assert new.source == fg.jit(f(lambda x: np.power(10.0, x))).lower(x).source
    assert fg.jit(f(exp10))(x) == fg.jit(f(lambda x: np.power(10.0, x)))(x)
    gradient, plain = fg.jit(fg.grad(f(exp10)))(x), fg.grad(f(exp10))(x)
    np.testing.assert_allclose(gradient, plain, rtol=1e-13)


@pytest.mark.numpy_backend  # its programs call kernels
def test_a_kernel_of_a_user_runs_in_programs():
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
    extend.kernel(log2cosh, by_exp, scratch=1)
    assert re.search(r"v1 = by_exp\(v1\)", fg.jit(f).lower(x).source)
    assert "by_exp(" not in fg.jit(f).lower(x.astype(np.float32)).source
    np.testing.assert_allclose(fg.jit(f)(x), before[0], rtol=1e-13)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(x), before[1], rtol=1e-13)
    assert sum(shape[0] for _, shape, _, _ in shapes) >= x.size
    assert all(k == "d" and a == b and not over for k, a, b, over in shapes)
    extend.kernel(log2cosh, by_exp, scratch=1, single=True)
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


# --- names ----------------------------------------------------------------------------------------

HAS_NATIVE = importlib.util.find_spec("llvmlite") is not None


@pytest.fixture(params=["numpy", "native"])
def backend(request):
    """Both backends."""
    if request.param == "native" and not HAS_NATIVE:
        pytest.skip("needs llvmlite")
    before = fg.config.backend
    fg.config.backend = request.param
    yield request.param
    fg.config.backend = before


@pytest.fixture
def anew():
    """Takes back the names that a test declares, so that another may declare them, too."""
    before = set(primitives)
    yield
    for key in set(primitives) - before:
        del primitives[key]


def test_a_logarithm_of_the_users_is_not_numpys(backend, anew):
    log = extend.elementwise(
        "log",
        lambda x: np.log(np.maximum(x, 1e-30)),
        partials=[lambda y, x: 1 / np.maximum(x, 1e-30)],
    )

    def f(x):
        return log(x) * 2.0

    expected = 2.0 * math.log(1e-30)
    assert f(0.0) == fg.jit(f)(0.0) == expected
    assert fg.jit(fg.grad(f))(0.0) == fg.grad(f)(0.0) == 2.0 * (1 / 1e-30)
    zeros = np.zeros(20_000)
    assert (fg.jit(f)(zeros) == expected).all()
    found = fg.jit(lambda x: np.sum(np.log(x + 1.0) + f(x)))(zeros)
    assert found == pytest.approx(20_000 * expected, rel=1e-12)
    assert (fg.lax.scan(lambda c, x: (c, f(x)), 0.0, zeros[:9])[1] == expected).all()


def test_a_root_of_the_users_is_not_numpys_in_a_loop(backend, anew):
    sqrt = extend.elementwise("sqrt", lambda x: np.sqrt(x + 1.0), partials=[lambda y, x: 0.5 / y])

    def f(x):
        return lax.scan(lambda c, _: (sqrt(c), None), x, None, length=4)[0]

    expected, slope = 3.0, 1.0
    for _ in range(4):
        expected = math.sqrt(expected + 1.0)
        slope *= 0.5 / expected
    assert f(3.0) == fg.jit(f)(3.0) == pytest.approx(expected, rel=1e-15)
    assert fg.grad(f)(3.0) == fg.jit(fg.grad(f))(3.0) == pytest.approx(slope, rel=1e-14)


def test_a_logistic_function_of_the_users_is_not_scipys_in_a_sparse_jacobian(backend, anew):
    expit = extend.elementwise("expit", lambda x: 2 * x, partials=[2.0])
    found = fg.sparse.jacobian(lambda x: expit(x) * x[::-1])(np.linspace(-1, 1, 3))
    assert found.toarray().tolist() == [[2.0, 0.0, -2.0], [0.0, 0.0, 0.0], [2.0, 0.0, -2.0]]


NATIVE = sorted(
    ["add", "maximum", "floor", "lt", "isnan", "power", "exp", "arctan2", "erf", "gammaln", "abs"]
)


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("count", [1, 2])
def test_no_name_makes_a_primitive_ours(backend, anew, name, count):
    """Primitives of one and of two arguments, on numbers, arrays, in loops, and on complex ones."""
    if count == 1:
        own = extend.elementwise(name, lambda x: x * 3.0 - 1.0, partials=[3.0])
    else:
        own = extend.elementwise(name, lambda x, y: x * 3.0 - y, partials=[3.0, -1])

    def f(x):
        return own(*[x, 2.0 * x][:count]) + 1.0

    def g(x):
        return (x * 3.0 - (1.0 if count == 1 else 2.0 * x)) + 1.0

    for x in (0.25, np.linspace(-1.0, 1.0, 5), np.linspace(-1.0, 1.0, 20_000) * (1 + 2j)):
        np.testing.assert_array_equal(fg.jit(f)(x), g(x))
        if not np.iscomplexobj(x):
            loop = lax.scan(lambda c, x: (c, f(x)), 0.0, np.atleast_1d(x)[:9])[1]
            np.testing.assert_array_equal(loop, g(np.atleast_1d(x)[:9]))


def test_a_loop_of_the_users_is_not_ours(anew):
    """Names of primitives that record residuals, in the tools that look into them."""
    graph = fg.make_jaxpr(np.sin)(1.0)
    for name in ("scan_record", "switch_record", "scan", "while_loop_pullback", "fixed_point"):
        own = extend.structural(
            name, eval=lambda *arrays, graph: fg.evaluate(graph, *arrays), pure=True
        )

        def f(x, own=own):
            return own(x, graph=graph)[0]

        assert fg.grad(f)(0.0) == 1.0
        assert fg.jit(f).lower(1.0).cost().transcendentals == 1
        with pytest.raises(FloatingPointError), fg.debug.trap():
            f(np.inf)


# --- native forms ---------------------------------------------------------------------------------


def _wise(name, function, slope):
    def eval(x):
        found = np.vectorize(function, otypes=[float])(x)
        return found.astype(np.result_type(x)) if np.ndim(x) else np.result_type(x).type(found)

    return extend.elementwise(name, eval, partials=[slope])


@pytest.mark.skipif(not HAS_NATIVE, reason="needs llvmlite")
def test_a_native_form_runs_in_the_place_of_eval(native, anew):
    calls = []

    def eval(x):
        calls.append(x)
        return math.log1p(math.exp(-abs(x)))

    tail = _wise("exp", eval, lambda y, x: np.exp(-y) - 1.0)
    extend.native_form(tail, lambda x: np.log1p(np.exp(-np.abs(x))))
    assert tail(2.0) == pytest.approx(math.log1p(math.exp(-2.0)), rel=1e-15) and calls

    def f(x):
        return tail(x) * 2.0 + np.exp(x)

    def loop(x):
        return lax.scan(lambda c, _: (tail(c), c), x, None, length=6)

    for dtype in (np.float64, np.float32):
        x = np.linspace(-5.0, 5.0, 3001).astype(dtype)
        compiled = fg.jit(f)
        compiled(x)  # the first run is compared with `eval`
        calls.clear()
        found = compiled(x)
        assert found.dtype == dtype and not calls
        expected = 2.0 * np.log1p(np.exp(-np.abs(x))) + np.exp(x)
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps)
    compiled = fg.jit(loop)
    compiled(0.5)
    calls.clear()
    ends, steps = compiled(0.5)
    assert not calls
    expected = [0.5]
    for _ in range(6):
        expected.append(math.log1p(math.exp(-expected[-1])))
    np.testing.assert_allclose([*steps, ends], expected, rtol=1e-15)
    assert fg.jit(fg.grad(tail))(0.5) == pytest.approx(math.exp(-math.log1p(math.exp(-0.5))) - 1.0)


@pytest.mark.skipif(not HAS_NATIVE, reason="needs llvmlite")
def test_a_native_form_that_cannot_be_written_leaves_eval(native, anew):
    """One of another shape, and one with what native code does not know, run as `eval`."""
    for n, form in enumerate((lambda x: np.stack([x, x]), lambda x: np.spacing(x), lambda x: 1)):
        cosine = _wise(f"cosine{n}", math.cos, lambda y, x: -np.sin(x))
        extend.native_form(cosine, form)
        x = np.linspace(-1.0, 1.0, 3000)
        np.testing.assert_array_equal(fg.jit(lambda x, f=cosine: f(x) + x)(x), cosine(x) + x)


def test_native_forms_are_for_elementwise_primitives_without_one():
    with pytest.raises(ArgumentError, match=r"`reversing` is not elementwise.*no native form"):
        extend.native_form(reversing, lambda x: x)
    for primitive in (ufuncs.exp, family.add):
        with pytest.raises(ArgumentError, match=f"`{primitive.name}` has a native form"):
            extend.native_form(primitive, np.exp)


def test_a_primitive_belongs_to_the_module_whose_code_declares_it(monkeypatch):
    """Also where a function of the module has the name of one of fungrad's families."""
    module = types.ModuleType("module_with_declarations")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    source = """
from fungrad import extend

def special(name):
    return extend.elementwise(name, lambda x: 2 * x, partials=[2.0])

class Declared:
    def __init__(self, name):
        self.primitive = extend.general(name, eval=lambda x: x, type=lambda x: x, cuts=True)
"""
    exec(compile(source, "module_with_declarations.py", "exec"), vars(module))
    for made in (module.special("twice"), module.Declared("once").primitive):
        assert made.module == "module_with_declarations"
        monkeypatch.delitem(primitives, (made.module, made.name))
