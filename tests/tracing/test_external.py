"""external and pure_callback: opaque code under every transform."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import ArgumentError, MissingRuleError, StructureMismatchError

X = np.array([1.0, 2.0, 3.0])
Y = 0.5


def simulate(x, y):
    """x^2 y + x[0], in a loop, in place: nothing that could be traced."""
    assert type(x) is np.ndarray
    out = np.zeros(x.shape, np.result_type(x, y))
    for i in range(x.shape[-1]):
        out[..., i] = x[..., i] ** 2 * y
    out += x[..., :1]
    return out


def simulate_vjp(g, output, x, y):
    assert all(type(v) is np.ndarray for v in (g, output, x))
    result = 2 * x * y * g
    result[0] += g.sum()
    return result, (x * x * g).sum()


def simulate_jvp(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return 2 * x * y * dx + x * x * dy + dx[0]


def shape(x, y):
    return fg.Type(x.shape, np.result_type(x.dtype, y.dtype))


RULES = {
    "differences": {"vjp": "finite_differences"},
    "complex step": {"vjp": "complex_step"},
    "vjp": {"vjp": simulate_vjp},
    "both": {"vjp": simulate_vjp, "jvp": simulate_jvp},
}
FIRST = {
    "value": lambda f: f,
    "jit": fg.jit,
    "grad": lambda f: fg.grad(f, (0, 1)),
    "jit grad": lambda f: fg.jit(fg.grad(f, (0, 1))),
    "grad jit": lambda f: fg.grad(fg.jit(f), (0, 1)),
    "vmap": lambda f: lambda x, y: fg.vmap(f, (0, None))(np.stack([x, x + 1]), y),
    "vmap grad": lambda f: (
        lambda x, y: fg.vmap(fg.grad(f, (0, 1)), (0, None))(np.stack([x, x + 1]), y)
    ),
    "jit vmap grad": lambda f: (
        lambda x, y: fg.jit(fg.vmap(fg.grad(f, (0, 1)), (0, None)))(np.stack([x, x + 1]), y)
    ),
    "grad vmap": lambda f: (
        lambda x, y: fg.grad(lambda x, y: np.sum(fg.vmap(f, (0, None))(x, y)), (0, 1))(
            np.stack([x, x + 1]), y
        )
    ),
    "scan": lambda f: (
        lambda x, y: fg.grad(
            lambda x, y: fg.lax.scan(lambda c, v: (c + f(v * x, y), None), 0.0, np.ones(2))[0],
            (0, 1),
        )(x, y)
    ),
    "checkpoint": lambda f: fg.grad(fg.checkpoint(f), (0, 1)),
}  # fmt: skip
SECOND = {
    "jvp": lambda f: lambda x, y: fg.jvp(f, (x, y), (x, y)),
    "grad grad": lambda f: fg.grad(lambda x, y: np.sum(fg.grad(f)(x, y) ** 2), (0, 1)),
    "jvp grad": lambda f: lambda x, y: fg.jvp(fg.grad(f), (x, y), (x, y)),
    "jit jvp grad": lambda f: fg.jit(lambda x, y: fg.jvp(fg.grad(f), (x, y), (x, y))),
}


def check(rule, apply):
    opaque = fg.external(simulate, shape=shape, **RULES[rule])
    found = apply(lambda x, y: np.sum(opaque(x, y) ** 2))(X, Y)
    expected = apply(lambda x, y: np.sum((x * x * y + x[0]) ** 2))(X, Y)
    for a, b in zip(fg.trees.leaves(found), fg.trees.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        if rule != "differences" and apply in FIRST.values():
            np.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.mark.parametrize("transform", FIRST)
@pytest.mark.parametrize("rule", RULES)
def test_like_the_function_itself(rule, transform):
    check(rule, FIRST[transform])


@pytest.mark.parametrize("transform", SECOND)
@pytest.mark.parametrize("rule", ["differences", "complex step"])
def test_second_order_by_further_runs(rule, transform):
    check(rule, SECOND[transform])


def test_forward_mode_by_a_given_jvp():
    check("both", SECOND["jvp"])


def test_a_rule_that_is_external_itself_is_differentiated_in_turn():
    slope = fg.external(lambda g, y, x: g * math.cos(float(x)), vjp="finite_differences")
    sine = fg.external(lambda x: math.sin(float(x)), vjp=slope)
    np.testing.assert_allclose(fg.grad(fg.grad(sine))(1.0), -math.sin(1.0), rtol=1e-8)


def test_trees_and_none():
    f = fg.external(
        lambda p, n: {"y": p["a"] * n, "n": n},
        vjp=lambda g, out, p, n: ({"a": g["y"] * n, "b": None}, None),
        shape={"y": fg.Type((3,), float), "n": fg.Type((), int)},
    )
    p = {"a": X, "b": 2.0}
    for transform in (lambda h: h, fg.jit):
        found = transform(fg.grad(lambda p, n: np.sum(f(p, n)["y"])))(p, 4)
        np.testing.assert_array_equal(found["a"], [4.0, 4.0, 4.0])
        assert found["b"] == 0.0


def test_only_what_is_wanted_is_run():
    count = []

    def f(x, y):
        count.append(1)
        return x * x * y

    opaque = fg.external(f, vjp="finite_differences")
    fg.grad(lambda y: np.sum(opaque(np.ones(100), y)))(1.0)
    assert len(count) == 3


def test_single_precision():
    f = fg.external(lambda x: x**3, vjp="finite_differences")
    found = fg.grad(lambda x: np.sum(f(x)))(X.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, 3 * X**2, rtol=1e-3)


def test_zero_tangents():
    f = fg.external(lambda x: x**3, vjp="finite_differences")
    assert fg.jvp(f, (2.0,), (0.0,))[1] == 0.0


# --- vmap -------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [lambda f: f, fg.jit], ids=["eager", "jit"])
def test_vmap_loops_or_calls_once(transform):
    calls = []

    def f(x, y):
        calls.append((np.shape(x), np.shape(y)))
        return x + y

    def nested(**options):
        calls.clear()
        one = lambda x, y: fg.pure_callback(f, fg.Type((), float), x, y, **options)  # noqa: E731
        both = fg.vmap(fg.vmap(one, (0, None)), (None, 0))
        np.testing.assert_array_equal(transform(both)(X, np.arange(2.0)), [X, X + 1])
        return list(calls)

    assert nested() == [((), ())] * 6
    assert nested(vectorized=True) == [((2, 3), (2, 3))]
    assert nested(vmap_method="expand_dims") == [((2, 3), (2, 3))]
    assert nested(vmap_method="sequential") == [((), ())] * 6


def test_vmap_of_nothing():
    f = lambda x: fg.pure_callback(np.sin, fg.Type((2,), float), x)  # noqa: E731
    assert fg.vmap(f)(np.ones((0, 2))).shape == (0, 2)


# --- the IR -----------------------------------------------------------------------------


def test_it_is_seen_in_the_ir():
    opaque = fg.external(simulate, vjp=simulate_vjp, shape=shape)
    text = str(fg.make_jaxpr(lambda x: opaque(x, 2.0))(X))
    assert "external[host=simulate]" in text
    assert "rule=simulate" in text
    text = str(fg.make_jaxpr(fg.grad(lambda x: np.sum(opaque(x, 2.0))))(X))
    assert text.count("external[") == 2


def test_jit_runs_it_at_each_call():
    calls = []
    f = fg.jit(lambda x: fg.pure_callback(lambda v: calls.append(1) or v, fg.Type((3,), float), x))
    f(X), f(X)
    assert len(calls) == 2 and f.cache_info().misses == 1


# --- mistakes ---------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [lambda f: f, fg.jit], ids=["eager", "jit"])
def test_without_a_rule(transform):
    bare = fg.external(np.sin, shape=fg.Type((3,), float))
    called = lambda x: fg.pure_callback(np.sin, fg.Type((3,), float), x)  # noqa: E731
    for f in (bare, called):
        np.testing.assert_array_equal(transform(f)(X), np.sin(X))
        with pytest.raises(MissingRuleError, match="finite_differences"):
            transform(fg.grad(lambda x, f=f: np.sum(f(x))))(X)
        with pytest.raises(MissingRuleError, match="sin"):
            transform(lambda x, f=f: fg.jvp(f, (x,), (x,)))(X)
        assert np.all(fg.grad(lambda x, f=f: np.sum(x * f(fg.stop_gradient(x))))(X) == np.sin(X))


def test_second_order_of_an_opaque_rule():
    opaque = fg.external(simulate, vjp=simulate_vjp)
    with pytest.raises(MissingRuleError, match="simulate"):
        fg.grad(lambda x: np.sum(fg.grad(lambda x: np.sum(opaque(x, Y)))(x)))(X)


def test_without_a_shape_it_cannot_be_recorded():
    f = fg.external(np.sin, vjp="complex_step")
    np.testing.assert_allclose(fg.grad(lambda x: np.sum(f(x)))(X), np.cos(X), rtol=1e-14)
    with pytest.raises(ArgumentError, match="shape="):
        fg.jit(f)(X)


def test_another_result_than_declared():
    for wrong in (lambda x: x[:2], lambda x: (x, x), lambda x: x + 1j, lambda x: "text"):
        f = fg.external(wrong, shape=fg.Type((3,), float))
        for transform in (lambda g: g, fg.jit):
            with pytest.raises(StructureMismatchError, match="declared"):
                transform(f)(X)


@pytest.mark.parametrize("made", [lambda x: x.tobytes(), lambda x: f"{x[0]}", lambda x: [x, "a"]])
def test_results_that_are_no_numbers(made):
    f = fg.external(made, vjp="differences")
    for transform in (lambda g: g, fg.grad, lambda g: fg.grad(lambda x: np.sum(x) * len(g(x)))):
        with pytest.raises(ArgumentError, match="no derivative"):
            transform(f)(X)


def test_wrong_options_and_wrong_rules():
    with pytest.raises(ArgumentError, match="magic"):
        fg.external(np.sin, vjp="magic")
    with pytest.raises(ArgumentError, match="vmap_method"):
        fg.pure_callback(np.sin, fg.Type((3,), float), X, vmap_method="magic")
    with pytest.raises(ArgumentError, match="no shape and dtype"):
        fg.pure_callback(np.sin, (3,), X)
    f = fg.external(np.sin, vjp=lambda g, y, x: np.ones(7))
    with pytest.raises(StructureMismatchError, match="another shape"):
        fg.grad(lambda x: np.sum(f(x)))(X)
    f = fg.external(np.multiply, vjp=lambda g, z, x, y: g)
    with pytest.raises(StructureMismatchError, match="2 cotangents"):
        fg.grad(lambda x: np.sum(f(x, x)))(X)


class Model:
    """An object that compiled code takes."""

    scale = 3.0


def of_a_model(model, x, power=1.0, *, axis):
    assert axis == "first"
    return np.sum(np.asarray(x, float) ** power) * model.scale


@pytest.mark.parametrize("rule", ["differences", "finite_differences"])
def test_other_objects_and_arguments_by_name_are_constants(rule):
    f = fg.external(of_a_model, vjp=rule, shape=fg.Type((), float))
    x, of = np.array([0.5, 2.0]), Model()
    loss = lambda x: f(of, x, power=2, axis="first")  # noqa: E731
    assert loss(x) == 3.0 * np.sum(x**2)
    np.testing.assert_allclose(fg.grad(loss)(x), 6.0 * x, 1e-8)
    np.testing.assert_allclose(fg.jit(fg.grad(loss))(x), 6.0 * x, 1e-8)
    np.testing.assert_allclose(fg.vmap(fg.grad(loss))(np.stack([x, -x])), [6.0 * x, -6.0 * x], 1e-8)


def test_a_rule_of_the_user_and_traced_values_by_name():
    own = fg.external(of_a_model, vjp=lambda g, y, model, x: (None, g))
    with pytest.raises(fg.errors.ArgumentError, match="by name"):
        fg.grad(lambda x: own(Model(), x, axis="first"))(np.ones(2))
    traced = fg.external(of_a_model, vjp="differences")
    with pytest.raises(fg.errors.ArgumentError, match="by name"):
        fg.grad(lambda x: traced(Model(), np.ones(2), power=x, axis="first"))(2.0)


@pytest.mark.parametrize("vjp", ["finite_differences", "complex_step", "differences", "its own"])
def test_a_function_may_return_the_same_array_at_each_call(vjp):
    buffers = {dtype: np.empty(2, dtype) for dtype in (float, complex)}

    def square(x):
        out = buffers[complex if np.iscomplexobj(x) else float]
        np.multiply(x, x, out)
        return out

    rule = (lambda ct, out, x: 2.0 * ct * np.sqrt(out)) if vjp == "its own" else vjp
    f = fg.external(square, vjp=rule, shape=lambda x: x)
    x = np.array([0.3, 1.2])
    two = lambda x: np.sum(f(x) * f(2.0 * x))  # noqa: E731
    for transform in (lambda f: f, fg.jit):
        np.testing.assert_allclose(transform(fg.grad(two))(x), 16.0 * x**3, rtol=1e-7)
        np.testing.assert_allclose(
            transform(fg.vmap(f))(np.stack([x, 2.0 * x])), [x**2, 4.0 * x**2]
        )
        np.testing.assert_allclose(transform(lambda x: f(2.0 * x) - f(x))(x), 3.0 * x**2)
    if vjp != "its own":
        np.testing.assert_allclose(fg.jacobian(f)(x), np.diag(2.0 * x), rtol=1e-7)
        np.testing.assert_allclose(fg.jvp(f, (x,), (np.ones(2),))[1], 2.0 * x, rtol=1e-7)


def test_a_callback_may_return_the_same_array_at_each_call():
    buffer = np.empty(2)
    f = lambda x: fg.pure_callback(lambda v: np.multiply(v, v, buffer), fg.Type((2,), float), x)  # noqa: E731
    x = np.array([0.3, 1.2])
    np.testing.assert_allclose(fg.vmap(f)(np.stack([x, 2.0 * x])), [x**2, 4.0 * x**2])
    np.testing.assert_allclose(fg.jit(lambda x: f(2.0 * x) - f(x))(x), 3.0 * x**2)
