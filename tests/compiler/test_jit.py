"""jit: the same numbers, traced once for each types and structure of the arguments."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import operator
import pickle
import warnings
from collections import namedtuple

import numpy as np
import pytest
from same_numbers import assert_same_numbers

import fungrad as fg
from fungrad.compiler.jit import RETRACE_WARNING
from fungrad.compiler.passes.pipeline import PASSES, optimised
from fungrad.errors import AbstractBooleanError, ArgumentError, RetraceWarning
from fungrad.tree_util import tree_leaves

Point = namedtuple("Point", "x y")


def loss(w, x, y):
    return np.mean((np.tanh(x @ w) - y) ** 2)


RNG = np.random.default_rng(0)
W, X, Y = RNG.normal(size=3), RNG.normal(size=(5, 3)), RNG.normal(size=5)


def test_the_same_numbers_and_dtypes_as_eager():
    f = fg.jit(loss)
    assert f(W, X, Y) == pytest.approx(loss(W, X, Y), rel=1e-14)
    single = f(W.astype(np.float32), X.astype(np.float32), Y.astype(np.float32))
    assert single.dtype == np.float32
    assert f.cache_info()[1] == 2


def test_under_and_over_other_transforms():
    expected = fg.grad(loss)(W, X, Y)
    for g in (fg.grad(fg.jit(loss)), fg.jit(fg.grad(loss)), fg.jit(fg.grad(fg.jit(loss)))):
        np.testing.assert_allclose(g(W, X, Y), expected, rtol=1e-13)
    batch = np.stack([W, 2 * W])
    per_example = fg.vmap(fg.grad(fg.jit(loss)), (0, None, None))(batch, X, Y)
    np.testing.assert_allclose(per_example, [fg.grad(loss)(w, X, Y) for w in batch], rtol=1e-12)
    _, tangent = fg.jvp(fg.jit(loss), (W, X, Y), (W, None, None))
    np.testing.assert_allclose(tangent, expected @ W, rtol=1e-12)


def test_the_gradient_of_a_jitted_function_stays_staged_and_is_made_once():
    f = fg.jit(loss)
    graph = fg.check_graph(fg.make_jaxpr(fg.grad(f))(W, X, Y))
    names = [equation.primitive.name for equation in graph.equations]
    assert names.count("call") == 2
    inner = [
        equation.params["graph"]
        for equation in graph.equations
        if equation.primitive.name == "call"
    ]
    again = fg.make_jaxpr(fg.grad(f))(W, X, Y)
    assert [e.params["graph"] for e in again.equations if e.primitive.name == "call"] == inner


def test_inline_records_the_equations():
    graph = fg.make_jaxpr(fg.jit(loss, inline=True))(W, X, Y)
    assert "call" not in [equation.primitive.name for equation in graph.equations]


def test_one_trace_for_each_types_and_structure():
    traces = []

    @fg.jit
    def f(tree):
        traces.append(1)
        return {"out": tree["a"] * 2 + tree["b"][0]}

    assert f({"a": 1.0, "b": [2.0]}) == {"out": 4.0}
    assert f({"a": 3.0, "b": [5.0]}) == {"out": 11.0}
    assert len(traces) == 1
    f({"a": np.ones(2), "b": [2.0]})
    f({"a": 1.0, "b": (2.0,)})
    f({"a": 1, "b": [2.0]})
    assert len(traces) == 4
    f({"b": [2.0], "a": 1})  # f may iterate the dict
    assert len(traces) == 5
    assert f.cache_info().currsize == 5
    f.cache_clear()
    assert f.cache_info().currsize == 0


@pytest.mark.parametrize("call", [1, 2, 3])
def test_trees_of_plain_arguments_keep_their_structure_at_every_call(call):
    """The second call of a structure and its types goes straight to the program."""
    traces = []

    @fg.jit
    def f(tree, scale):
        traces.append(1)
        return fg.tree_map(lambda leaf: scale * leaf, tree), fg.tree_structure(tree).num_leaves

    x = np.arange(3.0)
    trees = [
        [x, 1.0],
        (x, 1.0),
        [(x, 1.0)],
        [x, (1.0,)],
        {"b": x, "a": [1.0, None]},
        {"a": [2.0, None], "b": x},
        {"b": x, "c": [1.0, None]},
        {1: x, 0: np.float32(2.0)},
        {1: x, 0: 2},
        [],
        Point([x], {"a": 1.0}),
    ]
    for _ in range(call):
        for tree in trees:
            found, count = f(tree, 2.0)
            leaves, structure = fg.tree_flatten(tree)
            assert fg.tree_structure(found) == structure and count == len(leaves)
            for got, leaf in zip(fg.tree_leaves(found), leaves, strict=True):
                assert np.array_equal(got, 2.0 * leaf)
                assert np.asarray(got).dtype == np.asarray(2.0 * leaf).dtype
                assert not np.shares_memory(got, x)
    assert len(traces) == 11
    info = f.cache_info()
    assert (info.misses, info.hits) == (11, 11 * call - 11)


def test_python_scalars_stay_weak():
    f = fg.jit(lambda x, s: x * s)
    assert f(np.ones(2, np.float32), 2.0).dtype == np.float32
    assert f(np.ones(2, np.float32), np.float64(2.0)).dtype == np.float64


def test_static_arguments():
    traces = []

    def power(x, n, *, name="x"):
        traces.append((n, name))
        return sum(x**k for k in range(n))

    f = fg.jit(power, static_argnums=1, static_argnames="name")
    assert f(2.0, 3) == 7.0 and f(3.0, 3) == 13.0 and f(2.0, 4, name="y") == 15.0
    assert traces == [(3, "x"), (4, "y")]
    assert fg.grad(f)(2.0, 3) == 5.0
    with pytest.raises(ArgumentError, match=r"have to be hashable .* n=\[3\]"):
        f(2.0, [3])


def test_a_traced_value_is_no_key_of_a_result():
    with pytest.raises(ArgumentError, match="a dict with a traced value as a key"):
        fg.jit(lambda x: [{x: 1.0}])(2.0)
    assert fg.jit(lambda x: {(1, "a"): x})(2.0) == {(1, "a"): 2.0}


def test_keyword_arguments_and_defaults():
    f = fg.jit(lambda x, scale=2.0, *, shift=1.0: x * scale + shift)
    assert f(3.0) == 7.0 and f(3.0, shift=0.0) == 6.0 and f(x=1.0, scale=1.0) == 2.0


def test_methods():
    class Model:
        def __init__(self, w):
            self.w = w

        @fg.jit
        def loss(self, x):
            return x * self.w

    fg.trees.register(Model, lambda m: ((m.w,), None), lambda _, c: Model(*c))
    assert Model(3.0).loss(2.0) == 6.0
    assert fg.grad(lambda w: Model(w).loss(2.0))(3.0) == 2.0


def test_closures_over_values_of_outer_transforms():
    assert fg.grad(lambda x: fg.jit(lambda y: x * y)(x))(3.0) == 6.0
    assert fg.grad(lambda x: fg.jit(lambda y: x * y)(2.0))(3.0) == 2.0
    f = fg.jit(lambda y: y * y)
    assert fg.vmap(lambda x: fg.grad(lambda y: f(y) * x)(x))(np.arange(3.0)).tolist() == [
        0.0,
        2.0,
        8.0,
    ]


def test_results_belong_to_the_user():
    table = np.arange(3.0)
    f = fg.jit(lambda x: (x, x, table, np.broadcast_to(x, (2, 3))))
    x = np.ones(3)
    out = f(x)
    for array in out:
        array += 1.0
    assert x.tolist() == [1.0] * 3 and table.tolist() == [0.0, 1.0, 2.0]
    assert out[0].tolist() == [2.0] * 3 and f(x)[2].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("size", [3, 300])
def test_results_that_are_known_before_the_call_belong_to_the_user(size):
    tangent = np.linspace(1.0, 2.0, size)
    push = fg.jit(lambda x: fg.jvp(lambda x: x[1:] * 3.0, (x,), (tangent,)))
    slope = fg.jit(fg.grad(lambda x: np.sum(x * tangent * 2.0)))
    jacobian = fg.jit(fg.jacfwd(lambda x: x))
    x = np.ones(size)
    for f in (push, slope, jacobian):
        first = fg.trees.leaves(f(x))
        kept = [np.array(y) for y in first]
        for y in first:
            y[...] = 7.0
        for y, before in zip(fg.trees.leaves(f(x)), kept, strict=True):
            np.testing.assert_array_equal(y, before)


def test_lower_shows_the_graph_and_the_program():
    lowered = fg.jit(lambda x: np.sin(x) * fg.stop_gradient(np.sin(x))).lower(np.ones(2))
    assert "stop_gradient" in str(lowered.graph)
    assert [e.primitive.name for e in lowered.optimised.equations] == ["sin", "mul"]
    assert "sin(" in lowered.source


def test_a_value_that_is_read_last_hands_its_name_on():
    def f(x, y):
        swapped = np.sin(y) - x * y
        return np.exp(swapped) * swapped, np.stack([x, swapped])

    jitted = fg.jit(f)
    lines = jitted.lower(X, Y[:3]).source.splitlines()
    made = [line.split(" = ")[0].strip() for line in lines if " = " in line]
    assert len(made) == 6 and len(set(made)) < 6 and {"v0", "v1"} <= set(made)
    assert sum("del " in line for line in lines) == 2
    before = X.copy()
    for got, want in zip(jitted(X, Y[:3]), f(X, Y[:3]), strict=True):
        assert_same_numbers(got, want)
    np.testing.assert_array_equal(X, before)


def test_passes_keep_the_numbers_and_the_grammar():
    def f(x, y):
        a = np.sin(x) + np.sin(x)
        b = fg.stop_gradient(a, name="a") * fg.jit(np.cos)(y)
        unused = np.exp(b)  # noqa: F841
        return b + fg.jit(lambda t: t * a)(y), np.where(a > 0, a, b)

    graph = fg.make_jaxpr(f)(X, Y[:3])
    expected = fg.evaluate(graph, X, Y[:3])
    for apply in PASSES:
        graph = fg.check_graph(apply(graph))
        for got, want in zip(fg.evaluate(graph, X, Y[:3]), expected, strict=True):
            np.testing.assert_array_equal(got, want)
    names = [equation.primitive.name for equation in graph.equations]
    assert names.count("sin") == 1 and "exp" not in names and "call" not in names


def test_stops_survive_until_the_derivative_is_taken():
    f = fg.jit(lambda x: x - fg.stop_gradient(x))
    assert f(3.0) == 0.0 and fg.grad(f)(3.0) == 1.0
    assert fg.jit(fg.grad(f))(3.0) == 1.0
    assert optimised(fg.make_jaxpr(fg.grad(f))(3.0)).equations is not None


def test_endless_retracing_is_noticed():
    f = fg.jit(lambda n, x: np.sum(x) * n, static_argnames="n")
    with pytest.warns(RetraceWarning, match=r"static argument n"):
        for n in range(RETRACE_WARNING + 1):
            f(n, 1.0)
    g = fg.jit(lambda scale, x: np.sum(x) * scale)
    with pytest.warns(RetraceWarning, match=r"argument x \(f64\[\d+\], then f64\[\d+\]\)"):
        for n in range(RETRACE_WARNING + 1):
            g(1.0, np.ones(n + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(50):
            g(1.0, np.ones(3))


def test_mistakes():
    with pytest.raises(AbstractBooleanError, match=r"argument x"):
        fg.jit(lambda x: x if x > 0 else -x, branches="error")(1.0)
    with pytest.raises(ArgumentError, match="static_argnames"):
        fg.jit(lambda x: x)("text")
    with pytest.raises(ArgumentError, match="returned a str"):
        fg.jit(lambda x: "text")(1.0)


def module_level(x):
    return x * 2.0


def test_pickles():
    assert pickle.loads(pickle.dumps(fg.jit(module_level)))(3.0) == 6.0
    f = fg.jit(lambda x: np.sin(x) * x)
    graph = pickle.loads(pickle.dumps(fg.make_jaxpr(fg.grad(f))(1.0)))
    assert fg.evaluate(graph, 1.0) == [fg.grad(f)(1.0)]


def test_trees_out():
    assert fg.jit(lambda p: Point(p.y, [p.x]))(Point(1.0, 2.0)) == Point(2.0, [1.0])


def test_a_callable_object_may_have_attributes_of_any_name():
    class Scaled:
        def __init__(self, scale):
            self._names, self._stage, self.lower, self.scale = (), None, None, scale

        def __call__(self, x):
            return x * self.scale

    scaled = fg.jit(Scaled(3.0))
    assert scaled(2.0) == 6.0 and scaled.scale == 3.0
    assert len(scaled.lower(2.0).graph.equations) == 1


def test_static_arguments_are_compared_with_the_types_inside_and_the_signs_of_zeros():
    f = fg.jit(lambda x, s: np.asarray(x * s[0]), static_argnums=1)
    found = [f(1, s) for s in ((1,), (1.0,), (True,), (1,))]
    assert [x.dtype for x in found] == [np.int64, np.float64, np.int64, np.int64]
    g = fg.jit(np.copysign, static_argnums=1)
    assert (float(g(2.0, 0.0)), float(g(2.0, -0.0))) == (2.0, -2.0)
    h = fg.jit(lambda x, s: x * s, static_argnums=1)
    assert np.isnan([h(1.0, float("nan")), h(1.0, np.nan), h(1.0, np.nan)]).all()


@pytest.mark.parametrize(
    "static", [{"static_argnames": "m"}, {"static_argnums": 3}, {"static_argnums": -4}]
)
def test_static_arguments_that_there_are_not_are_refused(static):
    def f(x, n=2, *, k=1):
        return x**n * k

    with pytest.raises(ArgumentError, match="its parameters are x, n, k"):
        fg.jit(f, **static)
    assert fg.jit(lambda x, **named: x ** named["n"], static_argnames="n")(2.0, n=3) == 8.0
    assert fg.jit(lambda *args: args[0] ** args[2], static_argnums=2)(2.0, 1, 3) == 8.0


def test_integers_of_more_than_64_bits_stand_beside_floats():
    x = np.array([1.0, 2.0])
    for f in (
        lambda x: x * 2**70 + 2**64,
        lambda x: x**3 / 15511210043330985984000000,
        lambda x: np.where(x > 1, x, 2**64),
        lambda x: np.sum(x < 2**70),
    ):
        np.testing.assert_array_equal(fg.jit(f)(x), f(x))


@pytest.mark.parametrize("x", [np.array([1.0, "a"], object), np.zeros(2, [("a", float)])])
def test_arrays_of_no_numbers_are_refused_by_their_dtype(x):
    with pytest.raises(ArgumentError, match=r"The argument x of .* is an array of dtype"):
        fg.jit(lambda x: x)(x)


class Marked(np.ndarray):
    pass


def test_arrays_of_a_subclass_come_back_as_arrays_of_their_own():
    x = np.arange(3.0).view(Marked)
    for f in (lambda x: x, lambda x: x[1:], lambda x: (x, x.T), lambda x: x * 2):
        for found in fg.tree_leaves((fg.jit(f)(x), fg.jit(f)({"x": x}["x"]))):
            assert type(found) is np.ndarray and not np.shares_memory(found, x)
    assert type(fg.grad(lambda x: np.sum(x**2))(x)) is np.ndarray


def test_the_text_of_a_jitted_function_names_it():
    def model(x):
        return x

    assert repr(fg.jit(model)) == f"<jit of `model` ({__file__}:{model.__code__.co_firstlineno})>"


INTEGERS = [0, 1, -1, 2, 7, -7, 63, 64, 2**40, 2**53 + 1, 2**63 - 1, -(2**63), 2**70, True, False]
OF_TWO = (
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_,
    operator.or_, operator.xor, operator.lt, operator.le, operator.eq, operator.truediv, divmod,
)  # fmt: skip


def outcome(f, *args):
    try:
        return f(*args)
    except (ArithmeticError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("f", OF_TWO)
def test_python_integers_compute_as_python_does(f):
    """They have no bound, and their quotients and rests by zero are errors."""
    run = fg.jit(lambda a, b: f(a, b))
    for a, b in itertools.product(INTEGERS, repeat=2):
        if f is operator.truediv and b == 0:
            continue  # a float, and so NumPy's inf
        found, want = outcome(run, a, b), outcome(f, a, b)
        assert found == want and type(found) is type(want)


@pytest.mark.parametrize(
    "f",
    [
        lambda a: -a, lambda a: +a, abs, lambda a: a * a, lambda a: a**2, lambda a: a**3 % 7,
        lambda a: a * a * a % 7, lambda a: a * a - a * a, lambda a: (a << 70) >> 69,
        lambda a: a * 2**70 // 3, lambda a: np.sum(a * a), lambda a: (a // 7, a % -7),
    ],
)  # fmt: skip
def test_functions_of_one_python_integer(f):
    for a in INTEGERS[:-2]:
        want = f(a)
        space = {}
        exec(fg.to_source(lambda a: f(a), a), space)
        for run in (fg.jit(f), fg.jit(fg.jit(f)), space["function"]):
            found = run(a)
            assert found == want
            assert type(found) is type(want) or f(1).__class__ is np.int64


def test_what_python_integers_cannot_be_while_compiled():
    with pytest.raises(ZeroDivisionError):
        fg.jit(lambda a, b: a // b)(7, 0)
    with pytest.raises(ValueError, match=r"2 \*\* -1 of two integers is a float"):
        fg.jit(lambda a, b: a**b)(2, -1)
    graph = fg.make_jaxpr(lambda a: np.ravel(-a))(1)
    for run in (fg.jit(lambda a: np.ravel(-a)), lambda a: fg.evaluate(graph, a)[0]):
        with pytest.raises(OverflowError, match="out of bounds for int64"):
            run(-(2**63))  # NumPy makes an array of unsigned integers of it
        assert run(1 - 2**63)[0] == 2**63 - 1
    with np.errstate(all="ignore"):
        assert fg.jit(lambda a, b: a / b)(7, 0) == np.inf
        assert fg.jit(lambda a: a * a)(np.int64(2**40)) == 0  # NumPy's wrap around


def test_python_integers_beside_arrays_are_numpys():
    for f in (lambda a, x: a * x, lambda a, x: x // a, lambda a, x: x**a, lambda a, x: x << a):
        for x in (np.arange(3), np.arange(3, dtype=np.int8), np.int64(5)):
            found, want = fg.jit(f)(3, x), f(3, x)
            np.testing.assert_array_equal(found, want)
            assert found.dtype == want.dtype
    with pytest.raises(OverflowError):
        fg.jit(lambda a, x: a * x)(2**70, np.arange(3))


@pytest.mark.parametrize("f", [lambda x: x, lambda x: x[1:], lambda x: x.T, lambda x: (x, x + 1.0)])
def test_results_share_no_memory_with_arguments_at_any_call(f):
    jitted, x = fg.jit(f), np.ones((3, 3))
    for _ in range(3):
        found = jitted(x)
        for result in found if isinstance(found, tuple) else (found,):
            assert not np.shares_memory(result, x) and result.flags.writeable


def test_a_notebook_shows_what_is_compiled():
    f = fg.jit(lambda x: x * 2.0)
    f(1.0), f(2.0), f(np.ones(2))
    page = f._repr_html_()
    assert "2 compiled, 1 calls" in page and "<lambda>" not in page


def test_a_division_of_numbers_by_zero_is_numpys():
    f = fg.jit(lambda x, y: np.sin(x) / y + 1.0)
    with np.errstate(divide="ignore"):
        assert f(1.0, 0.0) == np.inf


def scaled(x, power=1, scale=1.0, name="plain"):
    y = x["a"] ** power * scale + x["b"]
    return {"doubled": 2.0 * y} if name == "double" else (y, np.sum(y))


CALLS = {
    "keyword": lambda f, x: f(x, scale=2.0),
    "static by position": lambda f, x: f(x, 2, scale=2.0),
    "static by name": lambda f, x: f(x, 3, scale=np.float32(2.0), name="double"),
    "another order": lambda f, x: f(x, name="double", power=2),
    "all by name": lambda f, x: f(x=x, scale=np.ones(3), power=2, name="plain"),
    "positions alone": lambda f, x: f(x, True, 2.0),
}


@pytest.mark.parametrize(
    "static", [{"static_argnums": (1, 3)}, {"static_argnames": ("power", "name")}]
)
@pytest.mark.parametrize("call", CALLS)
def test_repeated_calls_with_keyword_and_static_arguments(call, static):
    traces = []

    def f(x, power=1, scale=1.0, name="plain"):
        traces.append(power)
        return scaled(x, power, scale, name)

    for numbers in (np.arange(3.0), np.arange(3.0, dtype=">f8"), np.arange(3)):
        x = {"b": numbers * 0.5, "a": numbers}
        compiled, before = fg.jit(f, **static), len(traces)
        for _ in range(4):
            found, wanted = CALLS[call](compiled, x), CALLS[call](scaled, x)
            assert type(found) is type(wanted)
            for a, b in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
                assert np.asarray(a).dtype == np.asarray(b).dtype
                np.testing.assert_allclose(a, b)
        assert len(traces) == before + 1


def test_static_values_and_names_tell_repeated_calls_apart():
    f = fg.jit(lambda x, n=1, y=0.0, z=0.0: x * n + y - z, static_argnums=1)
    for _ in range(2):
        assert f(2.0, 3) == 6.0 and f(2.0, 3.0) == 6.0 and f(2.0, n=4) == 8.0
        assert f(2.0, 3, y=1.0) == 7.0 and f(2.0, 3, z=1.0) == 5.0 and f(2.0, y=1.0) == 3.0


@dataclasses.dataclass(frozen=True)
class Setting:
    value: object


class Scaled:
    def __init__(self, x, by):
        self.x, self.by = x, by


fg.tree_util.register_pytree_node(Scaled, lambda s: ((s.x,), s.by), lambda by, x: Scaled(x[0], by))
SAME = [3, "a", None, (2, "x"), np.sin, 2.0, ((1,), 2.0), np.nan]
OTHER = [(1, True), (1, 1.0), (0.0, -0.0), ((1, 2), (1, 2.0)), ((1, True), (True, 1))]
OTHER += [
    (frozenset([1]), frozenset([1.0])),
    (Setting(1), Setting(1.0)),
    (Setting(0.0), Setting(-0.0)),
]
OTHER += [("a", b"a"), ((0,), 0), (((1,),), ((True,),)), (np.sin, np.cos), (1, np.int64(1))]
PAIRS = [*((value, value) for value in SAME), *OTHER]


@pytest.mark.parametrize("pair", range(len(PAIRS)))
def test_static_values_share_a_program_only_where_they_are_the_same(pair):
    (first, second), traces = PAIRS[pair], []
    f = fg.jit(lambda x, s: (traces.append(s), x + 1.0)[1], static_argnums=1)
    for _ in range(3):
        f(np.ones(2), first), f(np.ones(2), second)
    assert len(traces) == (1 if pair < len(SAME) else 2)


@pytest.mark.parametrize("pair", [(1, 1.0), (1, True), (0.0, -0.0)])
def test_data_of_nodes_share_a_program_only_where_they_are_the_same(pair):
    @fg.jit
    def f(tree):
        (name,) = tree if type(tree) is dict else [tree.by]
        return tree_leaves(tree)[0] * len(repr(name))

    for constant in pair * 2:
        assert f({constant: 2.0}) == f(Scaled(2.0, constant)) == 2.0 * len(repr(constant))


def test_repeated_calls_return_the_tree_of_the_first(each_backend):
    x = np.arange(3.0)
    for f in (
        lambda x: (np.sin(x),),
        lambda x: {"b": x, "a": [x + 1, (x[0], x)]},
        lambda x: [],
        fg.value_and_grad(lambda x: np.sum(x * x), argnums=(0,)),
    ):
        compiled = fg.jit(f)
        wanted = f(x)
        for _ in range(3):
            found = compiled(x)
            assert fg.tree_structure(found) == fg.tree_structure(wanted)
            for a, b in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
                np.testing.assert_allclose(a, b)
                assert not np.shares_memory(a, x)
        assert len(compiled._direct) == 1 and compiled.cache_info().hits == 2


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_rests_during_a_trace_and_goes_on_as_before(collects):
    seen = []

    def f(x):
        seen.append(gc.isenabled())
        return np.sqrt(x) if x.shape else x.no_such_attribute

    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        fg.jit(f)(np.ones(2))
        after = [gc.isenabled()]
        with pytest.raises(AttributeError):
            fg.jit(f)(1.0)
        after.append(gc.isenabled())
    finally:
        (gc.enable if before else gc.disable)()
    assert not seen[0] and after == [collects, collects]
