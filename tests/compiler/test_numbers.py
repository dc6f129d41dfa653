"""Scalar programs: Python's arithmetic gives the results of the program on arrays."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from checks import OURS
from concurrent_calls import same_in_threads
from hypothesis import given, settings
from samples import SAMPLES

import fungrad as fg
from fungrad import lax
from fungrad.compiler.cost_model import costs
from fungrad.compiler.numpy_backend import python_emitter, scalar_program
from fungrad.compiler.numpy_backend.backend import build
from fungrad.compiler.numpy_backend.scalar_program import program
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.scalar import scalarise
from fungrad.compiler.scalar.structural import installed
from fungrad.primitives.elementwise.family import elementwise
from fungrad.primitives.facts import ScalarForm
from fungrad.primitives.primitive import primitives
from fungrad.testing import programs as random_programs

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def refuse(*args):
    raise AssertionError("the program gave up")


def free(patch):
    """Makes scalar programs cost less than nothing."""
    patch.setattr(scalar_program, "COSTS", scalar_program.COSTS._replace(transfer=-1e12))


def forced(graph, instead=refuse):
    """The scalar program whatever it costs; None where there is none."""
    with pytest.MonkeyPatch.context() as patch:
        free(patch)
        return program(graph, instead)


def agrees(f, *args, rtol=1e-13, instead=refuse):
    """f's Graph has a program, with the results of the reference evaluator."""
    graph = optimised(fg.make_jaxpr(f)(*args))
    run = forced(graph, instead)
    assert run is not None
    for got, want in zip(run(*args), fg.evaluate(graph, *args), strict=True):
        assert got.__class__ is want.__class__ or np.asarray(got).shape == ()
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-14)


def lorenz(y, length=20):
    def f(y):
        return np.stack(
            [10.0 * (y[1] - y[0]), y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]
        )

    def step(y, x):
        k = f(y)
        y = y + 0.01 * k + 0.005 * f(y + 0.01 * k)
        return y, (y[0] * x, y)

    end, (first, path) = lax.scan(step, y, np.linspace(0.0, 1.0, length))
    return np.sum(end) + np.sum(first) * 0.1 + np.sum(path[:, 1] ** 2)


def newton(a):
    return lax.while_loop(lambda x: np.abs(x * x - a) > 1e-9, lambda x: 0.5 * (x + a / x), a)


def nested(a):
    def outer(carry):
        x, i = carry
        y = lax.while_loop(lambda y: y < 10.0 * a, lambda y: y * (1.5 + 0.1 * x), a)
        return np.cos(x) + y * 0.01, i + 1

    return lax.while_loop(lambda c: c[1] < 4, outer, (a, 0))[0]


def branching(x):
    def step(carry, _):
        y = lax.cond(np.sum(carry) > 1.0, lambda c: c * 0.5, lambda c: np.sin(c) + 1.0, carry)
        return lax.switch(1, [np.negative, lambda c: c * 1.1], y), y[0]

    end, ys = lax.scan(step, x, None, length=7)
    return np.sum(end * end) + np.sum(ys)


def matrices(a, b):
    c = a @ b + a.T[:, ::-1]
    d = np.concatenate([c, b], axis=1).reshape(-1)[1:-1]
    return np.max(d) + np.sum(np.where(c > 0, c, np.exp(b))) + d.min()


def pieces(x):
    x = x.at[1].set(x[0] * 2.0).at[2:].add(x[:2])
    return np.sum(np.pad(x, 1)[::-1] * np.arange(6.0)) + x[np.argmax(np.ones(4)) - 0]


CASES = {
    "scan": (lorenz, (np.array([1.0, 2.0, 3.0]),)),
    "while_loop": (newton, (3.0,)),
    "nested": (nested, (1.2,)),
    "branches": (branching, (np.array([0.3, 0.9]),)),
    "matrices": (
        matrices, (np.array([[0.5, -1.0], [2.0, 0.3]]), np.array([[1.0, 0.2], [-0.4, 2.0]])),
    ),
    "pieces": (pieces, (np.array([0.5, -1.0, 2.0, 0.3]),)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_values_gradients_and_hessians(name):
    f, args = CASES[name]
    agrees(f, *args)
    agrees(fg.value_and_grad(f), *args, rtol=1e-12)
    agrees(lambda *xs: fg.jvp(f, xs, xs)[1], *args, rtol=1e-12)
    assert np.isfinite(fg.jit(f)(*args))
    np.testing.assert_allclose(
        fg.jit(fg.hessian(f))(*args), fg.hessian(f)(*args), rtol=1e-9, atol=1e-11
    )


@pytest.mark.slow
@given(random_programs(scalar=False))
@settings(max_examples=60)
def test_random_programs(random_program):
    args = random_program.args
    positions = tuple(range(len(args)))
    for f in (random_program, fg.grad(lambda *xs: np.sum(random_program(*xs)), positions)):
        graph = optimised(fg.make_jaxpr(f)(*args))
        run = forced(graph, build(graph))
        if run is None:
            continue
        for got, want in zip(run(*args), fg.evaluate(graph, *args), strict=True):
            assert np.asarray(got).dtype == np.asarray(want).dtype
            assert np.shape(got) == np.shape(want)
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


FORMS = [p for p in primitives.values() if p.scalar is not None and p.name in SAMPLES]


@pytest.mark.parametrize("primitive", FORMS, ids=lambda p: p.name)
def test_every_form(primitive):
    """On the samples of the primitive: equal to NumPy, or left to the arrays' program."""
    checked = 0
    for sample in SAMPLES[primitive.name]:
        graph = fg.make_jaxpr(lambda *xs, s=sample: OURS[primitive.name](*xs, **s.params))(
            *sample.args
        )
        run = forced(graph, build(graph))
        if run is None:
            continue
        checked += 1
        with np.errstate(all="ignore"):
            for got, want in zip(run(*sample.args), fg.evaluate(graph, *sample.args), strict=True):
                assert np.asarray(got).dtype == np.asarray(want).dtype
                np.testing.assert_allclose(got, want, rtol=4e-16 * 4)
    assert checked


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: 1.0 / x, 0.0),
        (np.exp, 1e4),
        (np.sqrt, -1.0),
        (np.log, 0.0),
        (lambda x: x**0.5 + np.arcsin(x), -3.0),
        (lambda x: x ** (x + 0.1), -2.0),
    ],
)
def test_what_python_refuses_numpy_computes(f, x):
    graph = optimised(fg.make_jaxpr(f)(np.float64(x)))
    run = forced(graph, build(graph))
    (got,), (want,) = run(np.float64(x)), fg.evaluate(graph, np.float64(x))
    np.testing.assert_array_equal(got, want)
    with pytest.raises(AssertionError, match="gave up"):
        forced(graph)(np.float64(x))


def test_infinities_and_nan_pass_through():
    def f(x):
        return np.maximum(x, 1.0), np.minimum(x, 1.0), x * 2.0 - x, np.tanh(x), x > 1.0, np.abs(x)

    for x in (np.inf, -np.inf, np.nan, -0.0):
        agrees(f, np.float64(x))


def test_index_beyond_the_end_is_numpys_error():
    f = fg.jit(lambda x, i: x[i] * 2.0)
    assert f(np.arange(3.0), 2) == 4.0 and f(np.arange(3.0), -1) == 4.0
    with pytest.raises(IndexError):
        f(np.arange(3.0), 3)


def test_integers_do_not_wrap_silently():
    f = fg.jit(lambda n: lax.fori_loop(0, 70, lambda i, x: x * 2 + 1, n))
    with np.errstate(all="ignore"):
        want = np.int64(1)
        for _ in range(70):
            want = want * 2 + 1
    assert f(np.int64(1)) == want


def test_float32_and_large_arrays_are_left_to_arrays():
    for x in (np.ones(3, np.float32), np.ones(costs.scalar_elements + 1), np.ones(2, complex)):
        assert forced(optimised(fg.make_jaxpr(lambda x: np.sin(x) * x)(x))) is None


def test_a_tape_is_read_by_the_other_program_too():
    """Forward on numbers, backward on arrays: the residuals are turned into arrays."""
    calls = []

    def f(a):
        def body(x):
            return 0.5 * (x + a / x)

        return lax.while_loop(lambda x: np.abs(x * x - a) > 1e-9, body, a) ** 2 + calls_of(a)

    def calls_of(a):
        return lax.cond(a > 2.0, lambda a: a * a, np.sin, a)

    want = fg.grad(f)(3.0)
    graph = optimised(fg.make_jaxpr(fg.grad(f))(3.0))
    with pytest.MonkeyPatch.context() as patch:
        rules = installed.rules
        forward = {p: rule for p, rule in rules.items() if not p.name.endswith("_pullback")}
        assert len(forward) < len(rules)
        patch.setattr(installed, "rules", forward)
        free(patch)
        mixed = build(graph)
    np.testing.assert_allclose(mixed(3.0)[0], want, rtol=1e-13)
    assert not calls


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.pad(x, (2, 0)) + np.pad(x, (0, 2)),
        lambda x: np.pad(x, (1, 0)) @ np.array([1, 2, 3, 4]),
        lambda x: np.sum(np.pad(x, 1)),
        lambda x: np.cumsum(np.pad(x, 1)),
        lambda x: np.pad(x, 1) * 2 + x[0],
        lambda x: np.pad(x, 1) - np.pad(x, 1)[::-1],
    ],
)
def test_zeros_of_padding_are_of_the_dtype_that_is_padded(f):
    """Integers that no float holds: a zero of floats would round them."""
    x = np.array([2**53 + 1, 5, 7])
    graph = optimised(fg.make_jaxpr(f)(x))
    np.testing.assert_array_equal(forced(graph)(x)[0], f(x))


def _softening(name, scalar):
    def slope(y, x):
        return 1.0 / (x * x + 1.0) / np.sqrt(x * x + 1.0)

    return elementwise(name, lambda x: x / np.sqrt(x * x + 1.0), partials=[slope], scalar=scalar)


def test_declared_primitives_have_a_scalar_form():
    """A function, an expression, a function of math, none, and a name."""
    by_function = _softening("softened", ScalarForm(lambda x: x / math.sqrt(x * x + 1.0), "f"))
    by_text = _softening("softened_by_text", "{0} / sqrt({0} * {0} + 1.0)")
    exponential = elementwise(
        "exponential", lambda x: np.exp(x), partials=[lambda y, x: y], scalar=math.exp
    )

    x = np.array([0.3, -0.9, 2.0])
    for softened in (by_function, by_text):

        def f(x, softened=softened):
            return np.sum(softened(x) * exponential(x[::-1]))

        for g in (f, fg.grad(f), lambda x: fg.jvp(fg.grad(f), (x,), (x,))[1]):
            agrees(g, x)
        agrees(softened, np.arange(3))  # computed in floats
    other = _softening("plain_softened", None)
    assert forced(optimised(fg.make_jaxpr(other)(x))) is None
    np.testing.assert_array_equal(fg.jit(other)(x), other(x))
    with pytest.raises(TypeError, match=r"scalar='sqrt' is no expression: write .* math.sqrt"):
        _softening("odd", "sqrt")


def test_names_of_functions_do_not_meet_those_of_the_program():
    """A user's function may have the name of a variable, a builtin or a function of math."""
    x, made = np.array([0.5, 2.0]), []
    for number, name in enumerate(("v1", "x0_0", "abs", "sin", "float", "lambda")):

        def function(x, n=number):
            return 2.0 * x + n

        made.append(elementwise(name, lambda x, n=number: 2.0 * x + n, partials=[2.0],
                                scalar=function))  # fmt: skip
        function.__name__ = name

    def f(x):
        return np.sin(x) + np.abs(x - 1) + sum([g(x) for g in made])

    agrees(f, x)
    assert "f_sin(" in fg.jit(f).lower(x).source and " sin(" in fg.jit(f).lower(x).source


def test_what_is_dearer_is_refused_before_a_line_is_written(monkeypatch):
    x = np.linspace(0.1, 0.9, 40)
    matrix = np.linspace(-1.0, 1.0, 64).reshape(8, 8)
    repeated = lambda f: lambda x: lax.fori_loop(0, 5, lambda i, c: f(c), x)  # noqa: E731
    cases = [
        (np.sin, x),
        (lambda x: x + x * 2.0, x),
        (lambda x: matrix @ x, x[:8]),
        (repeated(lambda c: np.cos(c) * 0.5), x),
        (repeated(lambda c: matrix @ c), x[:8]),
    ]
    graphs = [optimised(fg.make_jaxpr(f)(x)) for f, x in cases]
    assert all(forced(graph) is not None for graph in graphs)
    assert all(program(graph, refuse) is None for graph in graphs)
    monkeypatch.setattr(scalarise.Scalariser, "graph", None)
    assert all(program(graph, refuse) is None for graph in graphs)


@pytest.mark.numpy_backend  # takes the walk away
def test_what_is_too_long_is_refused_before_a_line_is_written(monkeypatch):
    def f(x):
        for _ in range(costs.python_lines // costs.scalar_elements + 1):
            x = np.sin(x)
        return x

    xs = np.linspace(0.0, 1.0, costs.scalar_elements)
    short, long = (optimised(fg.make_jaxpr(f)(x)) for x in (xs[:2], xs))
    assert scalar_program.program(short, f) is not None
    monkeypatch.setattr(scalarise.Scalariser, "graph", None)
    assert scalar_program.program(long, f) is None
    np.testing.assert_array_equal(fg.jit(f)(xs), f(xs))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 3])
def test_stacks_and_carries_without_elements(length, reverse):
    none, xs = np.zeros(0), np.zeros((length, 2, 0))

    def bare(start):
        return lax.scan(lambda c, _: (c * 2.0, (none, c)), start, None, length, reverse)[1]

    def several(start):
        return lax.scan(
            lambda c, x: (c * 2.0, (x * 2.0, np.outer(c, none), c)), start, xs, reverse=reverse
        )

    def repeated(start):
        return lax.fori_loop(0, length, lambda i, c: c * 2.0, start)

    def slope(start):
        return fg.grad(lambda c: np.sum(repeated(c)) + np.sum(several(c)[0]))(start)

    for start in (np.zeros(0), np.ones(2)):
        for f in (bare, several, slope):
            agrees(f, start)
            found, want = (fg.trees.leaves(g(start)) for g in (fg.jit(f), f))
            for x, y in zip(found, want, strict=True):
                np.testing.assert_array_equal(x, y)


def test_many_threads_call_one_program():
    f = fg.jit(fg.grad(lorenz))
    starts = [np.array([1.0, 2.0, 3.0 + i]) for i in range(4)]
    same_in_threads(f, starts, 30)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 3, 7])
def test_long_stacks_are_arrays_filled_by_chunks(reverse, length, monkeypatch):
    monkeypatch.setattr(costs, "listed_elements", 1)
    monkeypatch.setattr(python_emitter, "CHUNK", 3)

    def f(y, xs):
        def step(c, x):
            c = np.sin(c) * x[0] + np.array([0.1, -0.2]) * x[1]
            return c, (c[0] * x, c)

        end, (ys, path) = lax.scan(step, y, xs, reverse=reverse)
        return np.sum(end) + np.sum(ys), path

    y = np.array([0.3, -0.7])
    xs = np.linspace(-1.0, 1.0, 2 * length).reshape(length, 2)
    agrees(f, y, xs)
    agrees(fg.grad(lambda y, xs: f(y, xs)[0], (0, 1)), y, xs, rtol=1e-12)


def test_a_long_loop_holds_its_residuals_in_arrays():
    def f(y):
        return lax.scan(lambda c, _: (np.sin(c) * 0.9 + 0.1, None), y, None, length=60_000)[0]

    run = fg.jit(fg.grad(f))
    run(0.3)
    tracemalloc.start()
    try:
        run(0.3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3e6  # a double of each step, and a chunk of tuples


LOGICAL, WHOLE = np.array([True, True, False]), np.array([2**40, 3, -(2**62), -7])


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: np.any(x[:1]) * 2.0 + x, np.array([-4.0, 1.0])),
        (lambda x: np.all(x[3:]) * x, WHOLE),
        (lambda x: np.concatenate([x, np.any(x[1:2], keepdims=True)]), WHOLE),
        (lambda x: np.logical_and.reduce(x[:1] * 0.5) + 1, WHOLE),
        (lambda x: np.prod(x[:1]) / 2 + np.sum(x[:1]), LOGICAL),
        (lambda x: np.sum(x[:0]) // 2, LOGICAL),
        (lambda x: np.dot(x, x) * 1.5, LOGICAL),
        (lambda x: np.vdot(x, x) + 1, LOGICAL),
    ],
)
def test_logical_values_and_numbers_keep_their_kind(f, x):
    """One value alone, or a sum of logical values, which is a logical value."""
    want, found = f(x), fg.jit(f)(x)
    assert np.asarray(found).dtype == np.asarray(want).dtype
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * x * x > 0,
        lambda x: np.dot(x, x) * 1.0,
        lambda x: (x * 6364136223846793005 + 1442695040888963407) % 1000,
        lambda x: (np.sum(x + x[::-1] * 3) + x[2]) / 3.0,
        lambda x: np.prod(x) * 0.5,
        lambda x: np.cumprod(x)[-1] / 2 + np.cumsum(x + x)[-1] / 2,
        lambda x: np.abs(x - x + np.iinfo(np.int64).min) * 1.0,
        lambda x: lax.fori_loop(0, 9, lambda i, c: c * c + i, x) % 7,
        lambda x: (
            lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + 1, s[1] + s[1]), (0, x))[1] > 0
        ),
        lambda x: np.where(x * x, 1.0, 2.0),
    ],
)
def test_integers_wrap_around_as_numpys_do(f):
    np.testing.assert_array_equal(fg.jit(f)(WHOLE), f(WHOLE))


SPECIAL = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 5e-324, 1e-300, 1e300, 2.0**53]
BIG = [0, 1, -1, 7, 2**53 + 1, 2**62, -(2**63), 2**63 - 1]
EXACT = (
    np.negative, np.add, np.subtract, np.multiply, np.divide, np.less, np.less_equal, np.greater,
    np.greater_equal, np.equal, np.not_equal, np.square, np.reciprocal, np.absolute, np.fabs,
    np.maximum, np.minimum, np.remainder, np.isnan, np.isinf, np.isfinite, np.copysign, np.fmod,
    np.sqrt, np.logical_and, np.logical_or, np.logical_not,
)  # fmt: skip


def same_bits(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        assert np.array_equal(np.signbit(got) | (got != got), np.signbit(want) | (want != want))


@pytest.mark.parametrize("ufunc", EXACT, ids=lambda ufunc: ufunc.__name__)
def test_special_values_give_the_bits_that_numpy_gives(ufunc):
    """Of floats, integers that no float holds, and truth values, in every mixture."""
    kinds = [list(map(np.float64, SPECIAL)), list(map(np.int64, BIG)), [np.True_, np.False_]]
    written = 0
    for chosen in itertools.product(kinds, repeat=ufunc.nin):
        try:
            graph = optimised(fg.make_jaxpr(lambda *args: ufunc(*args))(*[x[1] for x in chosen]))
        except fg.errors.ShapeError:  # NumPy knows no negative truth values
            continue
        run = forced(graph, build(graph))
        if run is None:
            continue
        written += 1
        for args in itertools.product(*chosen):
            with np.errstate(all="ignore"):
                same_bits(run(*args)[0], ufunc(*args))
    assert written


def in_scan(x):
    return lax.scan(lambda c, y: (c * y, c), x[0], x[1:])


def in_for(x):
    return lax.fori_loop(0, 2, lambda i, c: c * x[1] + x[2] * i, x[0])


def in_while(x):
    step = lambda s: (s[0] * x[1] + x[2], s[1] + 1)  # noqa: E731
    return lax.while_loop(lambda s: s[1] < 2, step, (x[0], 0))[0]


ROWS = [
    np.array([0.0, -0.0, 0.0, -0.0, 0.0, -0.0]),
    np.full(6, -0.0),
    np.array([-0.0, np.inf, 0.0, np.nan, -0.0, 1.0]),
    np.array([np.inf, -0.0, 1.0, -0.0, -np.inf, 3.0]),
    np.array([1e300, 1e8, -1e300, 5e-324, -5e-324, 2.0]),
]


@pytest.mark.parametrize(
    "f",
    [
        np.sum, np.prod, np.max, np.min, np.cumsum, np.cumprod, np.mean,
        lambda x: np.sum(x.reshape(2, 3), axis=0),
        lambda x: np.sum(x[:1]),
        lambda x: x[:3] @ x[3:],
        lambda x: x[:4].reshape(2, 2) @ np.array([[0.0, 1.0], [1.0, 0.0]]),
        lambda x: np.pad(x, 1) + np.pad(-x, 1),
        lambda x: np.pad(x, 1) - np.pad(x, 1)[::-1],
        lambda x: lax.scan(lambda c, x: (np.maximum(c, x), np.minimum(c, x)), x[0], x[1:]),
        lambda x: lax.scan(lambda c, x: (c + x, c * x), -x[0], x[1:]),
        lambda x: lax.fori_loop(0, 3, lambda i, c: c * x[1] - x[i], x[0]),
        lambda x: lax.cond(x[0] >= 0.0, lambda x: -x, lambda x: x * x, x),
        lambda x: fg.vjp(in_scan, x)[1]((x[1], x[1:])),
        lambda x: fg.vjp(in_for, x)[1](x[2]),
        lambda x: fg.vjp(in_while, x)[1](x[3]),
    ],
)  # fmt: skip
def test_special_values_in_programs_have_the_bits_of_the_evaluator(f):
    for x in ROWS:
        with np.errstate(all="ignore"):
            graph = optimised(fg.make_jaxpr(f)(x))
            run = forced(graph, build(graph))
            assert run is not None
            for got, want in zip(run(x), fg.evaluate(graph, x), strict=True):
                same_bits(got, want)


def test_a_counter_that_wraps_around_ends_its_loop():
    def f(x):
        return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] + 1, s[1] + 1.0), (x, 0.0))[1]

    start = np.int64(2**63 - 3)
    with np.errstate(all="ignore"):
        assert f(start) == fg.jit(f)(start) == 3.0
