"""stop_gradient, whole: identity on the value, no derivative of any order, and nothing kept."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import ArgumentError, UnconnectedError
from fungrad.tracing.trace import Tracer

SG = fg.stop_gradient


def names(graph):
    return [equation.primitive.name for equation in graph.equations]


# --- identity on the value ------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.complex128, np.int64, bool]
)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)])
def test_the_value_is_handed_on_as_the_same_object(dtype, shape):
    x = np.ones(shape, dtype)
    assert SG(x) is x
    assert SG({"x": x})["x"] is x


@pytest.mark.parametrize("value", [1.5, 2, True, 1 + 2j, "text", None, np.float32(2.0), b"bytes"])
def test_scalars_and_other_leaves_pass(value):
    assert SG(value) is value


def test_under_a_trace_a_large_buffer_is_not_copied():
    x = np.arange(4000.0)
    seen = []
    fg.grad(lambda v: (seen.append(SG(v)), v @ v)[1])(x)
    assert isinstance(seen[0], np.ndarray)
    assert np.shares_memory(seen[0], x) and not seen[0].flags.writeable
    value, _ = fg.vjp(SG, x)
    np.testing.assert_array_equal(value, x)


@pytest.mark.parametrize("transform", [fg.grad, lambda f: lambda x: fg.jvp(f, (x,), (1.0,))[1]])
def test_what_is_stopped_is_no_tracer_so_that_python_can_use_it(transform):
    import math

    def f(x):
        assert not isinstance(SG(x), Tracer)
        return x * math.sin(float(SG(x))) * (2.0 if SG(x) > 0 else 1.0)

    assert transform(f)(1.5) == 2.0 * math.sin(1.5)


def test_trees_with_every_kind_of_leaf():
    tree = {
        "w": 2.0,
        "n": 3,
        "flag": True,
        "label": "a",
        "none": None,
        "nested": [(4.0, np.ones(2))],
    }

    def f(x):
        stopped = SG({**tree, "x": x, "xs": [x, (x, None)]})
        assert stopped["n"] is tree["n"] and stopped["flag"] is True and stopped["label"] == "a"
        assert stopped["none"] is None and stopped["xs"][1][1] is None
        assert stopped["nested"][0][1] is tree["nested"][0][1]
        return x * stopped["x"] + stopped["xs"][0] + stopped["xs"][1][0] * x

    assert fg.grad(f)(3.0) == 6.0


def test_integer_leaves_come_back_untraced_under_vmap_and_grad():
    def f(x, n):
        stopped = SG((x, n))
        assert stopped[1] is n
        return stopped[0] * x * stopped[1]

    assert fg.grad(f)(2.0, 3) == 6.0
    np.testing.assert_array_equal(
        fg.vmap(fg.grad(f), in_axes=(0, None))(np.array([1.0, 2.0]), 3), [3.0, 6.0]
    )
    np.testing.assert_array_equal(
        fg.vmap(lambda x, n: SG(n) * x)(np.array([1.0, 2.0]), np.array([3, 4])), [3.0, 8.0]
    )


# --- zero derivative, in both modes, at all orders ------------------------------------


def test_reverse_mode_is_zero():
    x = np.arange(3.0)
    _, pullback = fg.vjp(SG, x)
    np.testing.assert_array_equal(pullback(np.ones(3))[0], np.zeros(3))
    assert fg.grad(lambda v: SG(v) * v)(3.0) == 3.0


def test_forward_mode_is_zero():
    x = np.arange(3.0)
    value, tangent = fg.jvp(SG, (x,), (np.ones(3),))
    np.testing.assert_array_equal(value, x)
    np.testing.assert_array_equal(tangent, np.zeros(3))
    assert fg.jvp(lambda v: SG(v) * v, (3.0,), (1.0,))[1] == 3.0


def test_both_modes_give_one_jacobian():
    def f(x):
        return np.sin(SG(x)) * x + SG(np.exp(x)) * np.cos(x)

    x = np.array([0.3, -1.2, 2.0])
    reverse = fg.vmap(fg.vjp(f, x)[1])(np.eye(3))[0]
    forward = fg.vmap(lambda t: fg.jvp(f, (x,), (t,))[1])(np.eye(3)).T
    np.testing.assert_allclose(reverse, forward, rtol=1e-15)
    np.testing.assert_allclose(np.diag(reverse), np.sin(x) - np.exp(x) * np.sin(x), rtol=1e-15)


def test_all_nested_levels_are_stopped():
    # JAX gives 6.0 too; a stop of one level alone would give 12.
    inner = fg.grad
    assert fg.grad(lambda x: x * inner(lambda y: y * SG(x * y))(2.0))(3.0) == 6.0


def test_a_stop_between_two_levels():
    def f(x):
        return fg.grad(lambda y: SG(x) * y * y * x)(x)

    assert f(3.0) == 2 * 3.0**3
    # f(x) = 2 sg(x) x x, so that f' = 4 sg(x) x
    assert fg.grad(f)(3.0) == 4 * 3.0 * 3.0


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_every_higher_derivative_of_a_stopped_function_is_zero(order):
    def forward(f):
        return lambda x: fg.jvp(f, (x,), (1.0,))[1]

    for transform in (fg.grad, forward):
        f = lambda x: SG(x**5) + 0.0 * x  # noqa: E731
        for _ in range(order):
            f = transform(f)
        assert f(1.3) == 0.0


def test_the_orders_of_vmap_jvp_and_grad():
    def f(x):
        return SG(x) ** 2 * x

    xs = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(fg.vmap(fg.grad(f))(xs), xs**2)
    np.testing.assert_array_equal(fg.grad(lambda v: np.sum(fg.vmap(f)(v)))(xs), xs**2)
    np.testing.assert_array_equal(fg.vmap(lambda x: fg.jvp(f, (x,), (1.0,))[1])(xs), xs**2)
    np.testing.assert_array_equal(fg.jvp(fg.vmap(f), (xs,), (np.ones(3),))[1], xs**2)
    np.testing.assert_array_equal(fg.vmap(SG)(xs), xs)
    np.testing.assert_array_equal(fg.vmap(fg.vmap(SG))(np.ones((2, 3))), np.ones((2, 3)))
    # forward over reverse and reverse over forward see one Hessian: d/dx (sg(x)^2) = 0
    assert fg.jvp(fg.grad(f), (2.0,), (1.0,))[1] == 0.0
    assert fg.grad(lambda x: fg.jvp(f, (x,), (1.0,))[1])(2.0) == 0.0


def test_it_is_the_zero_map_when_it_is_transposed():
    # as a linear function of the tangent, its pullback is zero and stays so under every transform
    _, pullback = fg.vjp(lambda t: fg.jvp(SG, (2.0,), (t,))[1], 1.0)
    assert pullback(1.0)[0] == 0.0


# --- order=k --------------------------------------------------------------------------


def derivatives(f, x, count, transform=fg.grad):
    result = []
    for _ in range(count):
        f = transform(f)
        result.append(float(f(x)))
    return result


def forward_derivative(f):
    return lambda x: fg.jvp(f, (x,), (1.0,))[1]


@pytest.mark.parametrize("transform", [fg.grad, forward_derivative])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_order_k_stops_that_order_and_those_above(order, transform):
    x = 1.7
    found = derivatives(lambda x: np.sin(SG(x, order=order)) + 0.0 * x, x, 4, transform)
    exact = [np.cos(x), -np.sin(x), -np.cos(x), np.sin(x)]
    expected = [value if k < order else 0.0 for k, value in enumerate(exact, start=1)]
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_order_two_keeps_the_gradient_and_stops_the_hessian():
    x = np.array([0.5, -1.0])
    f = lambda x: np.sum(np.exp(SG(x, order=2)))  # noqa: E731
    np.testing.assert_allclose(fg.grad(f)(x), np.exp(x), rtol=1e-15)
    hessian = fg.vmap(lambda t: fg.jvp(fg.grad(f), (x,), (t,))[1])(np.eye(2))
    np.testing.assert_array_equal(hessian, np.zeros((2, 2)))


def test_order_as_a_block_and_as_a_decorator():
    def block(x):
        with fg.no_gradient(order=2):
            y = np.exp(x)
        return y

    decorated = fg.no_gradient(order=2)(np.exp)
    for f in (block, decorated):
        np.testing.assert_allclose(derivatives(f, 0.5, 3), [np.exp(0.5), 0.0, 0.0], rtol=1e-15)


def test_order_k_is_of_the_map_itself_and_not_of_what_computed_its_argument():
    # d2/dx2 L(sg_2(g(x))) = L'(g) g'': later operations are linear, earlier ones unchanged.
    f = lambda x: SG(np.sin(x), order=2) ** 2  # noqa: E731
    x = 0.8
    assert fg.grad(f)(x) == 2 * np.sin(x) * np.cos(x)
    np.testing.assert_allclose(fg.grad(fg.grad(f))(x), -2 * np.sin(x) ** 2, rtol=1e-14)
    # A block stops all values computed in it: here both.
    g = fg.no_gradient(order=2)(lambda x: np.sin(x) ** 2)
    assert fg.grad(fg.grad(g))(x) == 0.0


@pytest.mark.parametrize("order", [0, -1, 1.5, True, "two"])
def test_order_has_to_be_a_positive_integer(order):
    with pytest.raises(ArgumentError, match="order"):
        SG(1.0, order=order)
    with pytest.raises(ArgumentError, match="order"):
        fg.no_gradient(order=order)


# --- in the IR ------------------------------------------------------------------------


def test_it_stands_in_the_graph_with_its_name_and_scope():
    def f(x):
        with fg.named_scope("encoder"):
            y = SG(x, "frozen")
        return y * x

    graph = fg.make_jaxpr(f)(1.0)
    assert names(graph) == ["stop_gradient", "mul"]
    assert graph.equations[0].params["name"] == "frozen"
    assert [equation.scope for equation in graph.equations] == ["encoder", ""]
    assert "stop_gradient[name=encoder/frozen]" in str(graph)
    assert fg.grad(lambda x: fg.evaluate(graph, x)[0])(3.0) == 3.0
    assert fg.jvp(lambda x: fg.evaluate(graph, x)[0], (3.0,), (1.0,))[1] == 3.0


def test_order_stands_in_the_graph_and_survives_retracing():
    graph = fg.make_jaxpr(lambda x: SG(x * x, order=2) * x)(1.0)
    assert "stop_gradient_order" in names(graph)

    def f(x):
        return fg.evaluate(graph, x)[0]

    assert fg.grad(f)(2.0) == 12.0  # 3 x^2
    # sg_2(x^2) x: its second derivative lacks the 2x of d2/dx2 x^2
    assert fg.grad(fg.grad(f))(2.0) == 8.0


def test_x_minus_stopped_x_is_not_cancelled_and_the_two_are_not_merged():
    graph = fg.make_jaxpr(lambda x: (x - SG(x)) + x / SG(x))(2.0)
    assert names(graph) == ["stop_gradient", "sub", "stop_gradient", "div", "add"]

    def f(x):
        return (x - SG(x)) + x / SG(x)

    assert f(2.0) == 1.0
    assert fg.grad(f)(2.0) == 1.5


# --- unconnected ----------------------------------------------------------------------


def test_not_connected_and_zero_can_be_told_apart():
    def stopped(x, y):
        return np.sum(SG(x)) * y

    def zero(x, y):
        return np.sum(0.0 * x) * y

    x = np.arange(3.0)
    both = (0, 1)
    np.testing.assert_array_equal(fg.grad(stopped, both)(x, 2.0)[0], np.zeros(3))
    assert fg.grad(stopped, both, unconnected="none")(x, 2.0)[0] is None
    assert fg.grad(stopped, both, unconnected="none")(x, 2.0)[1] == 3.0
    np.testing.assert_array_equal(fg.grad(zero, both, unconnected="none")(x, 2.0)[0], np.zeros(3))
    with pytest.raises(UnconnectedError, match="depend differentiably on x"):
        fg.grad(stopped, both, unconnected="error")(x, 2.0)
    fg.grad(zero, both, unconnected="error")(x, 2.0)


@pytest.mark.parametrize(
    "cut",
    [lambda x: SG(x), lambda x: np.floor(x), lambda x: x > 0, lambda x: 1.0, lambda x: np.sign(x)],
)
def test_what_has_no_derivative_is_unconnected(cut):
    assert fg.grad(lambda x: 1.0 * cut(x), unconnected="none")(1.5) is None
    assert fg.vjp(lambda x: 1.0 * cut(x), 1.5, unconnected="none")[1](1.0) == (None,)


def test_unconnected_leaves_are_named_by_their_path():
    def f(params):
        return params["used"] ** 2 + SG(params["frozen"][1])

    with pytest.raises(UnconnectedError, match=r"params\['frozen'\]\[0\]"):
        fg.grad(f, unconnected="error")({"used": 1.0, "frozen": [1.0, 2.0]})


def test_the_choice_is_checked():
    with pytest.raises(ArgumentError, match="unconnected='None'"):
        fg.grad(np.sin, unconnected="None")


def test_a_stopped_output_keeps_no_residual():
    kept = []

    def f(x):
        stopped = fg.stop_gradient(np.exp(np.sin(x)))
        kept.append(weakref.ref(stopped))
        return np.sum(stopped) + np.sum(x)

    _, pullback = fg.vjp(f, np.ones(3))
    assert kept[0]() is None
    np.testing.assert_array_equal(pullback(1.0)[0], np.ones(3))


def test_a_name_is_printed_below_its_scope():
    def f(x):
        with fg.named_scope("e_step"):
            r = fg.stop_gradient(x * 2, name="r")
            with fg.no_gradient("weights"):
                r = r * x
        return fg.checkpoint_name(r, "whole") + fg.stop_gradient(x, name="out")

    text = str(fg.make_jaxpr(f)(2.0))
    for path in ("e_step/r", "e_step/weights", "out"):
        assert f"stop_gradient[name={path}]" in text
    assert "checkpoint_name[name=whole]" in text
