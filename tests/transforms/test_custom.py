"""custom_vjp and custom_jvp under every transform, against the same function without a rule."""

from __future__ import annotations

import functools
import math
import pickle

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import (
    ArgumentError,
    ClosedOverTracerError,
    MissingRuleError,
    StructureMismatchError,
)
from fungrad.testing import check_grads

X, Y = 1.3, 0.7
XS = np.array([0.3, 1.1, -0.4])


def plain(x, y):
    return {"a": np.sin(x) * y, "b": x}


@fg.custom_vjp
def by_vjp(x, y):
    return plain(x, y)


by_vjp.defvjp(
    lambda x, y: (by_vjp(x, y), (x, y)),
    lambda saved, g: (
        g["a"] * np.cos(saved[0]) * saved[1] + g["b"],
        g["a"] * np.sin(saved[0]),
    ),
)


@fg.custom_jvp
def by_jvp(x, y):
    return plain(x, y)


@by_jvp.defjvp
def _(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return by_jvp(x, y), {"a": np.cos(x) * y * dx + np.sin(x) * dy, "b": dx}


def total(f):
    def h(x, y):
        out = f(x, y)
        return np.sum(out["a"] * out["b"])

    return h


def of_gradient(f):
    return lambda x, y: np.sum(fg.grad(f)(x, y) ** 2)


TRANSFORMS = {
    "value": lambda f: f,
    "grad": lambda f: fg.grad(f, (0, 1)),
    "jit": fg.jit,
    "jit grad": lambda f: fg.jit(fg.grad(f, (0, 1))),
    "grad jit": lambda f: fg.grad(fg.jit(f), (0, 1)),
    "grad grad": lambda f: fg.grad(of_gradient(f), (0, 1)),
    "jit grad grad jit": lambda f: fg.jit(fg.grad(of_gradient(fg.jit(f)), (0, 1))),
    "jvp": lambda f: lambda x, y: fg.jvp(f, (x, y), (x, 2.0)),
    "jvp grad": lambda f: lambda x, y: fg.jvp(fg.grad(f), (x, y), (x, 2.0)),
    "grad jvp": lambda f: fg.grad(lambda x, y: fg.jvp(f, (x, y), (x, 2.0))[1], (0, 1)),
    "vmap": lambda f: lambda x, y: fg.vmap(f, (0, None))(np.stack([x, x + 1]), y),
    "vmap vmap": lambda f: (
        lambda x, y: fg.vmap(fg.vmap(f, (0, None)), (None, 0))(
            np.stack([x, x + 1]), np.stack([y, 3.0])
        )
    ),
    "vmap grad": lambda f: (
        lambda x, y: fg.vmap(fg.grad(f, (0, 1)), (0, None))(np.stack([x, x + 1]), y)
    ),
    "vmap jvp": lambda f: (
        lambda x, y: fg.vmap(lambda x: fg.jvp(f, (x, y), (x, 2.0)))(np.stack([x, x + 1]))
    ),
    "grad vmap": lambda f: (
        lambda x, y: fg.grad(lambda x, y: np.sum(fg.vmap(f, (0, None))(x, y)), (0, 1))(
            np.stack([x, x + 1]), y
        )
    ),
    "jit vmap grad jit": lambda f: (
        lambda x, y: fg.jit(fg.vmap(fg.grad(fg.jit(f), (0, 1)), (0, None)))(np.stack([x, x + 1]), y)
    ),
    "scan": lambda f: fg.grad(
        lambda x, y: fg.lax.scan(lambda c, v: (f(c, v), c), x, np.ones(3) * 1.1)[0] * y, (0, 1)
    ),
    "grad grad scan": lambda f: fg.grad(
        of_gradient(lambda x, y: fg.lax.scan(lambda c, v: (f(c, v * y), c), x, XS)[0]), (0, 1)
    ),
    "checkpoint": lambda f: fg.grad(fg.checkpoint(f), (0, 1)),
    "jit checkpoint": lambda f: fg.jit(fg.grad(fg.checkpoint(f), (0, 1))),
}  # fmt: skip


def assert_close(found, expected, rtol=1e-12):
    assert fg.trees.structure(found) == fg.trees.structure(expected)
    for a, b in zip(fg.trees.leaves(found), fg.trees.leaves(expected), strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", [by_vjp, by_jvp], ids=["vjp", "jvp"])
def test_like_the_function_itself(f, transform):
    apply = TRANSFORMS[transform]
    assert_close(apply(total(f))(X, Y), apply(total(plain))(X, Y))


def test_check_grads():
    check_grads(total(by_vjp), [X, Y])
    check_grads(total(by_jvp), [XS, Y])


# --- black boxes ------------------------------------------------------------------------


@fg.custom_vjp
def loop_of_floats(x):
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = math.sin(float(x[i]))
    return out


def loop_forward(x):
    assert type(x) is np.ndarray
    return loop_of_floats(x), x


def loop_backward(x, g):
    assert type(x) is np.ndarray and type(g) is np.ndarray
    result = np.zeros_like(x)
    for i in range(len(x)):
        result[i] += math.cos(float(x[i])) * float(g[i])
    return (result,)


loop_of_floats.defvjp(loop_forward, loop_backward)


def test_eager_reverse_mode_gives_arrays_to_the_users_functions():
    found = fg.grad(lambda x: np.sum(loop_of_floats(2.0 * x) ** 2))(XS)
    assert_close(found, 4.0 * np.sin(2 * XS) * np.cos(2 * XS))


def test_eager_custom_jvp_gives_arrays_as_primals():
    @fg.custom_jvp
    def f(x):
        return np.asarray(math.exp(float(x)))

    @f.defjvp
    def _(primals, tangents):
        return f(*primals), math.exp(float(primals[0])) * tangents[0]

    assert fg.grad(f)(2.0) == math.exp(2.0)
    assert fg.jvp(f, (2.0,), (1.0,))[1] == math.exp(2.0)


def test_outside_of_transforms_it_is_the_function():
    result = object()
    f = fg.custom_vjp(lambda x: result)
    f.defvjp(lambda x: (x, None), lambda _, g: (g,))
    assert f(1.0) is result


# --- the peers' bugs --------------------------------------------------------------------


def test_nested_custom_rules_under_vmap():
    @fg.custom_vjp
    def inner(x):
        return np.sin(x)

    inner.defvjp(lambda x: (inner(x), x), lambda x, g: (10.0 * g * np.cos(x),))

    @fg.custom_vjp
    def outer(x, y):
        return inner(x) * y

    def outer_forward(x, y):
        value, pullback = fg.vjp(inner, x)
        return value * y, (pullback(np.ones_like(x))[0], value, y)

    outer.defvjp(outer_forward, lambda saved, g: (g * saved[0] * saved[2], g * saved[1]))
    for transform in (lambda f: f, fg.jit):
        f = transform(fg.vmap(fg.grad(lambda x, y: outer(x, y)), (0, None)))
        assert_close(f(XS, 2.0), 20.0 * np.cos(XS))
        f = transform(fg.grad(lambda x: np.sum(fg.vmap(outer, (0, None))(x, 2.0))))
        assert_close(f(XS), 20.0 * np.cos(XS))


def test_custom_jvp_under_vmap_of_grad():
    @fg.custom_jvp
    def relu(x):
        return np.maximum(x, 0.0)

    relu.defjvps(lambda t, y, x: t * np.where(x > 0, 1.0, 0.0))
    assert_close(fg.vmap(fg.grad(relu))(XS), np.array([1.0, 1.0, 0.0]))
    assert_close(fg.vmap(fg.vmap(fg.grad(relu)))(XS[None]), np.array([[1.0, 1.0, 0.0]]))
    assert_close(fg.vmap(fg.grad(fg.grad(relu)))(XS), np.zeros(3))


@pytest.mark.parametrize("transform", [lambda f: f, fg.jit], ids=["eager", "jit"])
def test_nondiff_arguments(transform):
    @fg.custom_vjp(nondiff_argnums=(0, 2))
    def power(g, x, n):
        for _ in range(n):
            x = g(x)
        return x

    def forward(g, x, n):
        return power(g, x, n), x

    def backward(g, n, x, ct):
        assert g is np.sin and n == 2
        return (ct * np.cos(np.sin(x)) * np.cos(x),)

    power.defvjp(forward, backward)
    found = transform(fg.grad(lambda x: power(np.sin, x, 2)))(X)
    assert_close(found, math.cos(math.sin(X)) * math.cos(X))


def test_nondiff_arguments_may_be_traced_by_other_transforms():
    @fg.custom_jvp(nondiff_argnums=1)
    def scale(x, k):
        return x * k

    scale.defjvp(lambda k, primals, tangents: (scale(primals[0], k), tangents[0] * k))
    assert_close(fg.vmap(fg.grad(scale), (None, 0))(X, XS), XS)
    assert_close(fg.jit(fg.vmap(fg.grad(scale), (None, 0)))(X, XS), XS)
    with pytest.raises(ArgumentError, match="nondiff_argnums"):
        fg.grad(scale, 1)(X, Y)
    assert fg.grad(lambda k: scale(2.0, fg.stop_gradient(k)) * k)(3.0) == 6.0


def test_integers_strings_and_keywords():
    @fg.custom_vjp
    def f(x, n, mode="sin", *, flag=True):
        assert flag in (True, False)
        return {"y": getattr(np, mode)(x) * n, "count": np.asarray(n)}

    def forward(x, n, mode="sin", *, flag=True):
        return f(x, n, mode, flag=flag), (x, n, mode)

    def backward(saved, g):
        x, n, mode = saved
        assert g["count"] is None and mode == "sin"
        return g["y"] * np.cos(x) * n, None, None

    f.defvjp(forward, backward)
    for transform in (lambda g: g, fg.jit):
        found = transform(fg.grad(lambda x: f(x, n=3)["y"]))(X)
        assert_close(found, 3 * math.cos(X))
        n = np.array([1, 2])
        found = transform(fg.grad(lambda x, n: np.sum(f(x, n, flag=False)["y"])))(XS[:2], n)
        assert_close(found, n * np.cos(XS[:2]))
        _, pullback = fg.vjp(lambda x, n: f(x, n)["y"], X, 2)
        assert pullback(1.0)[1] is None


def test_second_order_straight_through():
    @fg.custom_jvp
    def hard_round(x):
        return np.round(x)

    hard_round.defjvps(lambda t, y, x: t)
    assert fg.grad(fg.grad(lambda x: hard_round(x) ** 2))(1.3) == 2.0


def test_a_method():
    class Layer:
        def __init__(self, scale):
            self.scale = scale

        @fg.custom_vjp
        def __call__(self, x):
            return self.scale * x

        __call__.defvjp(
            lambda self, x: (self.scale * x, self.scale), lambda scale, g: (None, g * scale)
        )

    assert fg.grad(Layer.__call__.__get__(Layer(3.0)))(2.0) == 3.0
    assert fg.jit(fg.grad(lambda x: Layer(3.0)(x)))(2.0) == 3.0


def test_recursion_on_a_static_number():
    @fg.custom_vjp
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    power.defvjp(lambda x, n: (power(x, n), x), lambda x, g: (g * 5.0 * x**4, None))
    for transform in (lambda f: f, fg.jit, fg.vmap):
        x = np.array([2.0]) if transform is fg.vmap else 2.0
        assert np.all(transform(fg.grad(lambda x: power(x, 5)))(x) == 80.0)


def test_rules_of_both_modes():
    f = fg.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (f(x), x), lambda x, g: (20.0 * x * g,))
    f.defjvp(lambda primals, tangents: (f(primals[0]), 30.0 * primals[0] * tangents[0]))
    assert fg.grad(f)(1.0) == 20.0
    assert fg.jvp(f, (1.0,), (1.0,))[1] == 30.0


def test_the_rule_is_told_what_is_wanted():
    seen = []

    @fg.custom_vjp
    def f(p, y):
        return p["w"] * y * p["v"]

    def forward(p, y, wanted):
        seen.append(wanted)
        return f(p, y), (p, y)

    def backward(saved, g, wanted):
        p, y = saved
        seen.append(wanted)
        return {"w": g * y * p["v"], "v": None}, (g * p["w"] * p["v"] if wanted[1] else None)

    f.defvjp(forward, backward, wanted=True)
    assert fg.grad(lambda w: f({"w": w, "v": 1.0}, 3.0))(2.0) == 3.0
    assert seen == [({"w": True, "v": False}, False)] * 2
    assert fg.jit(fg.grad(lambda y: f({"w": 2.0, "v": 1.0}, y)))(2.0) == 2.0
    assert seen[-1] == ({"w": False, "v": False}, True)


# --- closures ---------------------------------------------------------------------------


def scaled(w):
    f = fg.custom_vjp(lambda x: w * x)
    f.defvjp(lambda x: (w * x, x), lambda x, g: (g * w,))
    return f


def test_closing_over_values_of_outer_transforms():
    def outer(w):
        return fg.grad(lambda x: scaled(w)(x) ** 2)(2.0)  # 4 w^2

    assert fg.grad(outer)(3.0) == 24.0
    assert fg.grad(fg.grad(outer))(3.0) == 8.0
    assert fg.jit(fg.grad(outer))(3.0) == 24.0
    assert fg.grad(fg.jit(outer))(3.0) == 24.0
    assert_close(fg.vmap(outer)(XS), 4 * XS**2)
    assert_close(fg.vmap(fg.grad(fg.jit(outer)))(XS), 8 * XS)
    assert_close(fg.jvp(outer, (3.0,), (1.0,)), (36.0, 24.0))


def test_closing_over_a_value_of_a_program_that_is_differentiated_later():
    @fg.jit
    def f(x, z):
        return scaled(np.sin(z))(x)

    assert_close(fg.grad(f)(2.0, 3.0), math.sin(3.0))
    assert_close(fg.vmap(fg.grad(f), (None, 0))(2.0, XS), np.sin(XS))


def test_such_a_rule_may_hold_programs_of_its_own():
    @fg.jit
    def f(x, w):
        c = np.sin(w)
        h = fg.custom_vjp(lambda x: fg.jit(lambda y: y * c)(x))
        scan = lambda g: fg.lax.scan(lambda a, _: (a * c, None), g, None, length=1)[0]  # noqa: E731
        h.defvjp(lambda x: (h(x), None), lambda _, g: (scan(g),))
        return h(x)

    for transform in (lambda g: g, fg.jit):
        assert_close(transform(fg.grad(f))(2.0, 3.0), math.sin(3.0))
    assert_close(fg.vmap(fg.grad(f), (None, 0))(2.0, XS), np.sin(XS))


def test_closing_over_a_body_value_in_a_scan():
    def loss(x, ws):
        return fg.lax.scan(lambda c, w: (scaled(fg.stop_gradient(np.sin(w)))(c), None), x, ws)[0]

    assert_close(fg.grad(loss)(X, XS), np.prod(np.sin(XS)))


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f,
        fg.jit,
        lambda f: lambda w: fg.vmap(lambda z: f(w))(np.ones(2))[0],
        lambda f: lambda w: fg.vmap(lambda z: f(w * z))(np.ones(2))[0],
    ],
    ids=["eager", "jit", "vmap", "vmap of it"],
)
@pytest.mark.parametrize("verb", [fg.grad, lambda f: lambda w: fg.jvp(f, (w,), (1.0,))])
def test_closing_over_what_is_differentiated(verb, transform):
    with pytest.raises(ClosedOverTracerError, match="pass the value as an argument"):
        verb(transform(lambda w: scaled(w)(2.0)))(3.0)


def test_closing_over_a_leaked_value_says_so():
    kept = []
    fg.grad(lambda x: kept.append(x) or x**2)(1.0)
    with pytest.raises(ClosedOverTracerError, match="outside of the transform"):
        fg.grad(lambda x: scaled(kept[0])(x))(1.0)


# --- mistakes ---------------------------------------------------------------------------


def with_backward(backward):
    f = fg.custom_vjp(lambda p, y: p["w"] * np.sum(y))
    f.defvjp(lambda p, y: (f(p, y), None), lambda _, g: backward(g))
    return lambda w, y: f({"w": w}, y)


@pytest.mark.parametrize(
    "result",
    [
        lambda g: g,
        lambda g: (g,),
        lambda g: (g, np.ones(3)),
        lambda g: ({"w": np.ones(2)}, np.ones(3)),
        lambda g: ({"w": g}, np.ones(4)),
        lambda g: ({"v": g}, np.ones(3)),
        lambda g: ({"w": 1j}, np.ones(3)),
        lambda g: ({"w": "text"}, np.ones(3)),
        lambda g: None,
    ],
)
def test_a_wrong_cotangent_is_an_error(result):
    for transform in (lambda f: f, fg.jit):
        if result(1.0) is not None and result(1.0) == (1.0,) and transform is fg.jit:
            continue
        with pytest.raises(StructureMismatchError) as error:
            transform(fg.grad(with_backward(result), (0, 1)))(2.0, XS)
    if isinstance(result(1.0), tuple) and "v" not in str(error.value):
        assert "f64[3]" in str(error.value)


def test_the_message_shows_both_trees_side_by_side():
    with pytest.raises(StructureMismatchError) as error:
        fg.grad(with_backward(lambda g: ({"w": g}, np.ones(4))), (0, 1))(2.0, XS)
    text = str(error.value)
    assert "arguments:  ({'w': f64[] (weak)}, f64[3])" in text
    assert "cotangents: ({'w': f64[]}, f64[4])" in text
    assert "first at y" in text


def test_none_is_a_zero_cotangent():
    found = fg.grad(with_backward(lambda g: (None, 2 * g * np.ones(3))), (0, 1))(2.0, XS)
    assert_close(found, (0.0, 2 * np.ones(3)))
    found = fg.grad(with_backward(lambda g: (None, None)), (0, 1), unconnected="none")(2.0, XS)
    assert found == (None, None)


def test_a_wrong_tangent_is_an_error():
    f = fg.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: (primals[0], np.ones(7)))
    for verb in (fg.grad(lambda x: np.sum(f(x))), lambda x: fg.jvp(f, (x,), (x,))):
        with pytest.raises(StructureMismatchError, match="tangent"):
            verb(XS)


def test_rules_that_return_no_pair():
    f = fg.custom_vjp(lambda x: x)
    f.defvjp(lambda x: x, lambda _, g: (g,))
    with pytest.raises(StructureMismatchError, match="pair"):
        fg.grad(f)(1.0)
    g = fg.custom_jvp(lambda x: x)
    g.defjvp(lambda primals, tangents: tangents[0])
    with pytest.raises(StructureMismatchError, match="pair"):
        fg.jvp(g, (1.0,), (1.0,))


def test_a_forward_rule_with_another_output():
    f = fg.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (np.ones(2) * x, None), lambda _, g: (np.sum(g),))
    with pytest.raises(StructureMismatchError, match="another output"):
        fg.grad(fg.jit(lambda x: np.sum(f(x))))(1.0)


def test_without_a_rule():
    with pytest.raises(MissingRuleError, match="defvjp"):
        fg.custom_vjp(np.sin)(1.0)


def test_what_is_no_array_cannot_be_returned():
    f = fg.custom_vjp(lambda x: "text")
    f.defvjp(lambda x: (x, None), lambda _, g: (g,))
    with pytest.raises(ArgumentError, match="str"):
        fg.jit(f)(1.0)


# --- the IR -----------------------------------------------------------------------------


def module_level(x):
    return np.sin(x)


def module_forward(x):
    return np.sin(x), x


def module_backward(x, g):
    return (100.0 * g,)


module_rule = fg.custom_vjp(module_level)
module_rule.defvjp(module_forward, module_backward)


def test_it_is_one_equation_of_the_ir_and_the_graph_can_be_pickled():
    graph = fg.make_jaxpr(lambda x: module_rule(x) * 2.0)(1.0)
    assert "custom[" in str(graph) and "rule=module_level" in str(graph)
    fg.check_graph(graph)
    loaded = pickle.loads(pickle.dumps(graph))
    assert fg.evaluate(loaded, 1.0) == [2.0 * np.sin(1.0)]
    assert fg.grad(lambda x: fg.evaluate(loaded, x)[0])(1.0) == 200.0


def test_types_stay():
    x = np.ones(3, np.float32)
    f = fg.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, None), lambda _, g: (np.asarray(g, np.float64) * 2,))
    assert fg.grad(lambda x: np.sum(f(x)))(x).dtype == np.float32


def test_complex_numbers():
    f = fg.custom_vjp(lambda z: z * z)
    f.defvjp(lambda z: (f(z), z), lambda z, g: (2 * z * g,))
    assert_close(
        fg.grad(lambda z: np.real(f(z)))(1 + 2j), fg.grad(lambda z: np.real(z * z))(1 + 2j)
    )


@pytest.mark.parametrize(
    "f",
    [
        fg.jit(lambda x: np.sin(x) * x),
        fg.checkpoint(lambda x: np.sin(x) * x),
        lambda x: fg.lax.cond(x[0] > 0.0, lambda x: np.sin(x) * x, np.cos, x),
        lambda x: fg.lax.scan(lambda c, a: (c * a, np.sin(a) * a), 1.0, x)[1],
        lambda x: fg.lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, np.sin(s[1])), (0, x))[
            1
        ],
    ],
    ids=["jit", "checkpoint", "cond", "scan", "while"],
)
def test_a_forward_rule_may_push_through_what_gives_output_and_tangent_at_once(f):
    custom = fg.custom_jvp(lambda x: f(x))
    custom.defjvp(lambda primals, tangents: fg.jvp(f, primals, tangents))
    loss, ours = (lambda x: np.sum(f(x) ** 2)), (lambda x: np.sum(custom(x) ** 2))
    for of in (fg.grad, fg.hessian, lambda f: fg.jacrev(fg.grad(f))):
        want = of(loss)(XS)
        assert_close(of(ours)(XS), want)
        assert_close(fg.jit(of(ours))(XS), want)
        assert_close(fg.vmap(of(ours))(XS[None])[0], want)


def rate(x, n=2):
    return x**n


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (np.sin, np.cos),
        (functools.partial(rate, n=3), lambda x: 3.0 * x**2),
        (functools.partial(np.multiply, 2.0), lambda x: 2.0),
        (rate, lambda x: 2.0 * x),
    ],
)
@pytest.mark.parametrize("transform", [fg.grad, lambda f: fg.jit(fg.grad(f)), lambda f: jvp_of(f)])
def test_ufuncs_and_partial_functions(f, slope, transform):
    """Their keyword defaults are no arguments of the rules."""
    defaults = () if f is not rate else (2,)
    reverse = fg.custom_vjp(f)
    reverse.defvjp(
        lambda x, *more: (f(x), (x, more)),
        lambda saved, g: (5.0 * g * slope(saved[0]), *[None for _ in saved[1]]),
    )
    forward = fg.custom_jvp(f)
    forward.defjvp(lambda primals, tangents: (f(primals[0]), 5.0 * tangents[0] * slope(primals[0])))
    parts = fg.custom_jvp(f)
    parts.defjvps(lambda t, y, x, *more: 5.0 * t * slope(x), *[None for _ in defaults])
    for g in (reverse, forward, parts):
        assert float(transform(g)(X)) == pytest.approx(5.0 * slope(X))
        assert float(g(X)) == f(X)


def jvp_of(f):
    """The derivative in forward mode."""
    return lambda x: fg.jvp(f, (x,), (1.0,))[1]


def test_keywords_of_the_call_reach_the_rules_of_a_partial_function():
    f = fg.custom_vjp(functools.partial(rate, n=3))
    f.defvjp(lambda x, n=7: (x**n, (x, n)), lambda saved, g: (g * saved[1],))
    assert float(fg.grad(f)(X)) == 7.0
    assert float(fg.grad(lambda x: f(x, n=4))(X)) == 4.0


@pytest.mark.parametrize("transform", [lambda f: f, fg.jit, lambda f: lambda x: batch_of(f, x)])
def test_a_forward_rule_that_applies_the_function_to_the_tangent(transform):
    """The function is linear then, and its operations are transposed."""

    @fg.custom_jvp
    def minus(x):
        return -x

    @minus.defjvp
    def rule(primals, tangents):
        return minus(*primals), minus(*tangents)

    assert float(transform(fg.grad(minus))(X)) == -1.0
    assert float(transform(fg.grad(lambda x: minus(x) ** 3))(X)) == pytest.approx(-3.0 * X**2)
    second = transform(fg.grad(fg.grad(lambda x: minus(x * x) ** 3)))(X)
    assert float(second) == pytest.approx(-30.0 * X**4)
    assert float(transform(fg.grad(lambda x: fg.jvp(minus, (x * x,), (x,))[1]))(X)) == -1.0
    assert float(fg.grad(lambda x: np.sum(fg.vmap(minus)(np.stack([x, x]))))(X)) == -2.0
    np.testing.assert_array_equal(fg.jacrev(fg.jit(minus))(np.ones(2)), -np.eye(2))


def batch_of(f, x):
    """The first result of a batch."""
    return fg.vmap(f)(np.stack([np.float64(x), 2.0 * x]))[0]


@pytest.mark.parametrize("n", [3, 5000])
def test_a_backward_rule_may_write_into_its_cotangent(n):
    double = fg.custom_vjp(lambda x: 2.0 * x)

    def backward(_, g):
        g *= 2.0
        return (g,)

    double.defvjp(lambda x: (2.0 * x, None), backward)
    gradient = fg.grad(lambda x: np.sum((x + double(x)) * np.ones(n)))(np.ones(n))
    np.testing.assert_array_equal(gradient, np.full(n, 3.0))


def test_arguments_without_a_derivative_may_be_named():
    @fg.custom_vjp(nondiff_argnames=("power",))
    def f(x, power):
        return x**power

    f.defvjp(lambda x, power: (x**power, x), lambda power, x, g: (g * power * x ** (power - 1),))
    assert fg.grad(f)(3.0, 2) == 6.0 == fg.jit(fg.grad(lambda x: f(x, power=2)))(3.0)

    g = fg.custom_jvp(lambda scale, x: scale * x, nondiff_argnames="scale")
    g.defjvp(lambda scale, primals, tangents: (scale * primals[0], scale * tangents[0]))
    assert fg.grad(g, 1)(4.0, 5.0) == 4.0
    with pytest.raises(ArgumentError, match="'scal' is no positional parameter"):
        fg.custom_vjp(lambda scale, x: x, nondiff_argnames="scal")


# --- closure_convert ------------------------------------------------------------------------------


def _by_a_rule(w, scale):
    def g(x, tree):
        return {"a": np.sin(w * x) + tree["k"] * scale, "b": 3}

    converted, values = fg.closure_convert(g, 1.0, {"k": 2.0})

    @fg.custom_vjp
    def apply(x, *values):
        return converted(x, {"k": x}, *values)["a"]

    def backward(kept, ct):
        return fg.vjp(lambda x, *v: converted(x, {"k": x}, *v)["a"], *kept)[1](ct)

    apply.defvjp(lambda x, *v: (apply(x, *v), (x, *v)), backward)
    assert converted(2.0, {"k": 1.0}, *values)["b"] == 3
    return apply(3.0, *values)


def test_closed_over_values_become_arguments_of_a_rule():
    def plain(w, scale):
        return np.sin(w * 3.0) + 3.0 * scale

    for argument in (0, 1):
        for order in (1, 2):
            f, g = _by_a_rule, plain
            for _ in range(order):
                f, g = fg.grad(f, argument), fg.grad(g, argument)
            expected = g(2.0, 0.5)
            np.testing.assert_allclose([f(2.0, 0.5), fg.jit(f)(2.0, 0.5)], expected, rtol=1e-15)
            rows = fg.vmap(f, (0, None))(np.array([2.0, 1.0]), 0.5)
            np.testing.assert_allclose(rows, [expected, g(1.0, 0.5)], rtol=1e-14, atol=1e-15)


def test_closure_convert_without_traced_values():
    converted, values = fg.closure_convert(lambda x: x * X0, np.ones(2))
    assert values == [] and converted(np.array([1.0, 2.0])).tolist() == [3.0, 6.0]


X0 = 3.0


def test_a_converted_function_checks_its_arguments():
    def f(w):
        converted, values = fg.closure_convert(lambda x: x * w, 1.0)
        return converted(1.0, 2.0, *values)

    with pytest.raises(StructureMismatchError, match=r"It takes 1, .* and then the 1 values"):
        fg.grad(f)(1.0)
