"""The transforms agree with each other, at any depth, within their bounds of cost."""

from __future__ import annotations

import functools
import threading

import mpmath
import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import LeakedTracerError

X = np.array([0.3, -1.2, 2.0])
W = np.array([[0.5, -0.25, 1.0], [0.1, 0.7, -0.3], [-1.0, 0.2, 0.4]])


def f(x):
    """Three numbers to one, with every derivative."""
    return np.sum(np.tanh(W @ x) * np.cos(x)) + np.prod(x) * np.exp(-x[0] * x[2])


def vector(x):
    """Three numbers to three."""
    return np.sin(W @ x) * x[::-1] + np.stack([x[0] * x[1], x[2], 1.0 / (2.0 + x[0])])


def forward(g):
    """grad by forward mode, one direction after the other."""
    return lambda x: np.stack([fg.jvp(g, (x,), (row,))[1] for row in np.eye(x.shape[0])])


def central(g, x, step=1e-5):
    rows = [(g(x + step * e) - g(x - step * e)) / (2 * step) for e in np.eye(len(x))]
    return np.stack(rows, axis=-1)


def close(found, expected, rtol=1e-12):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


# --- the two modes --------------------------------------------------------------------


def test_reverse_and_forward_mode_agree_with_each_other_and_with_differences():
    close(fg.grad(f)(X), forward(f)(X))
    close(fg.grad(f)(X), central(f, X), rtol=1e-8)


def test_the_pullback_is_the_transposed_pushforward():
    out, pullback = fg.vjp(vector, X)
    forward_jacobian = fg.vmap(lambda t: fg.jvp(vector, (X,), (t,))[1])(np.eye(3)).T
    reverse_jacobian = fg.vmap(pullback)(np.eye(3))[0]
    close(forward_jacobian, reverse_jacobian)
    close(forward_jacobian, central(vector, X), rtol=1e-8)
    close(out, vector(X), rtol=0)


def test_all_four_hessians_agree():
    eye = np.eye(3)
    hessians = [
        fg.vmap(lambda t: fg.jvp(fg.grad(f), (X,), (t,))[1])(eye),
        fg.vmap(lambda t: fg.grad(lambda x: fg.jvp(f, (x,), (t,))[1])(X))(eye),
        fg.vmap(lambda t: fg.grad(lambda x: fg.grad(f)(x) @ t)(X))(eye),
        np.stack([forward(lambda x, t=t: fg.jvp(f, (x,), (t,))[1])(X) for t in eye]),
    ]
    numeric = central(fg.grad(f), X)
    for hessian in hessians:
        close(hessian, hessians[0])
        close(hessian, hessian.T)
        close(hessian, numeric, rtol=1e-8)


def test_a_pullback_can_be_called_again_and_is_linear():
    _, pullback = fg.vjp(vector, X)
    a, b = np.array([1.0, 2.0, -1.0]), np.array([0.5, -3.0, 0.25])
    first = pullback(a)[0]
    close(pullback(a + 2.0 * b)[0], first + 2.0 * pullback(b)[0])
    np.testing.assert_array_equal(pullback(a)[0], first)


def test_a_pullback_can_be_called_under_a_later_transform():
    _, pullback = fg.vjp(vector, X)
    jacobian = fg.vmap(pullback)(np.eye(3))[0]
    close(
        fg.grad(lambda c: np.sum(pullback(c)[0] ** 2))(np.ones(3)),
        2 * jacobian @ jacobian.T @ np.ones(3),
    )


# --- batching -------------------------------------------------------------------------


BATCH = np.stack([X, X[::-1], -X, X + 0.5])


def test_vmap_is_the_loop():
    for g in (f, vector, fg.grad(f)):
        close(fg.vmap(g)(BATCH), np.stack([g(x) for x in BATCH]))


def test_the_gradient_of_a_batch_is_the_batch_of_gradients():
    total = fg.grad(lambda xs: np.sum(fg.vmap(f)(xs)))(BATCH)
    close(total, fg.vmap(fg.grad(f))(BATCH))
    close(total, np.stack([fg.grad(f)(x) for x in BATCH]))


def test_jvp_of_vmap_is_vmap_of_jvp():
    tangents = BATCH[::-1]
    both = fg.jvp(fg.vmap(vector), (BATCH,), (tangents,))[1]
    close(both, fg.vmap(lambda x, t: fg.jvp(vector, (x,), (t,))[1])(BATCH, tangents))


def test_vmap_nests_and_takes_any_axis():
    a = np.arange(24.0).reshape(2, 3, 4) / 24
    g = lambda x: np.sin(x) @ x  # noqa: E731
    close(fg.vmap(fg.vmap(g))(a), np.array([[g(row) for row in block] for block in a]))
    close(fg.vmap(g, in_axes=1)(a[0]), fg.vmap(g)(a[0].T))
    close(fg.vmap(np.sin, in_axes=-1, out_axes=-1)(a), np.sin(a))
    close(fg.vmap(lambda x, y: x * y, in_axes=(0, None))(a, 2.0), 2.0 * a)
    close(fg.vmap(lambda x, y: x * y, in_axes=(0, None))(a, a[0]), a * a[0])


def test_vmap_of_no_examples():
    assert fg.vmap(vector)(np.zeros((0, 3))).shape == (0, 3)
    assert fg.vmap(fg.grad(f))(np.zeros((0, 3))).shape == (0, 3)


# --- nests of three -------------------------------------------------------------------

STEPS = {
    "grad": lambda g: fg.grad(lambda x: np.sum(g(x))),
    "jvp": lambda g: lambda x: fg.jvp(g, (x,), (np.cos(x),))[1],
    "vjp": lambda g: lambda x: fg.vjp(g, x)[1](np.ones(np.shape(g(x))))[0],
    "vmap": lambda g: lambda x: fg.vmap(lambda s: np.sum(g(s * x)))(np.array([1.0, 0.5, -1.0])),
    "staged": lambda g: lambda x: fg.evaluate(fg.make_jaxpr(g)(x), x)[0],
}


@pytest.mark.parametrize("third", STEPS)
@pytest.mark.parametrize("second", STEPS)
@pytest.mark.parametrize("first", STEPS)
def test_three_deep(first, second, third):
    """A nest is judged by complex-free differences of the nest of two, or by the nest without
    staging.
    """

    def base(x):
        return np.sin(x) * x + 0.5 * np.square(x) * np.sum(np.tanh(x))

    inner = STEPS[second](STEPS[first](base))
    nest = STEPS[third](inner)
    x = X * 0.5
    if third == "grad":
        expected = central(lambda v: np.sum(inner(v)), x)
    elif third == "jvp":
        expected = (inner(x + 1e-5 * np.cos(x)) - inner(x - 1e-5 * np.cos(x))) / 2e-5
    elif third == "vjp":
        expected = central(lambda v: np.sum(inner(v)), x)
    elif third == "vmap":
        expected = np.stack([np.sum(inner(s * x)) for s in (1.0, 0.5, -1.0)])
    else:
        expected = inner(x)
    close(nest(x), expected, rtol=1e-7)


# --- perturbation confusion -----------------------------------------------------------


def d(g):
    return lambda x: fg.jvp(g, (x,), (1.0,))[1]


@pytest.mark.parametrize("outer", [fg.grad, d])
@pytest.mark.parametrize("inner", [fg.grad, d])
def test_perturbations_are_not_confused(outer, inner):
    # Siskind & Pearlmutter 2005: d/dx (x * d/dy (x + y)) = 1, not 2
    assert outer(lambda x: x * inner(lambda y: x + y)(1.0))(1.0) == 1.0
    assert outer(lambda x: x * inner(lambda y: x * y)(2.0))(3.0) == 6.0
    # an inner derivative whose variable is not used
    assert outer(lambda x: x * inner(lambda y: x)(2.0))(3.0) == 0.0
    # the same variable at both levels
    assert outer(lambda x: inner(lambda y: y * y * x)(x))(3.0) == 12.0
    # three levels, all of them alive in the innermost product
    nest = outer(lambda x: inner(lambda y: outer(lambda z: x * y * y * z * z * z)(y))(x))
    assert nest(2.0) == 48 * 2.0**3  # d/dx (12 x x^3)


@pytest.mark.parametrize("outer", [fg.grad, d])
def test_a_derivative_of_a_returned_closure(outer):
    # Manzyuk et al. 2019, "Perturbation confusion in forward automatic
    # differentiation": the curried function must not keep the inner perturbation.
    def shift(offset):
        return lambda g: lambda x: g(x + offset)

    derivative = outer(lambda offset: shift(offset)(np.exp)(1.0))
    assert derivative(0.0) == np.exp(1.0)


def test_tracers_of_outer_transforms_are_constants_of_inner_ones():
    def outer(x):
        constant = np.sin(x)

        def inner(y):
            return y * y * constant * x

        return (
            fg.grad(inner)(3.0)
            + fg.jvp(inner, (3.0,), (1.0,))[1]
            + np.sum(fg.vmap(lambda y: y * constant)(np.ones(2)))
        )

    # 12 x sin x + 2 sin x
    x = 0.7
    close(fg.grad(outer)(x), 12 * (np.sin(x) + x * np.cos(x)) + 2 * np.cos(x))
    close(fg.vmap(fg.grad(outer))(np.array([x, 1.0]))[0], fg.grad(outer)(x))


def test_a_staged_function_closes_over_outer_tracers():
    def outer(x):
        graph = fg.make_jaxpr(lambda y: y * y * np.cos(x))(2.0)
        return fg.evaluate(graph, 3.0)[0]

    close(fg.grad(outer)(0.4), -9.0 * np.sin(0.4))


# --- leaks ----------------------------------------------------------------------------


def leak(transform):
    kept = []
    transform(lambda x: (kept.append(np.sin(x)), np.sum(x * x))[1])
    return kept[0]


TRANSFORMS = {
    "grad": lambda g: fg.grad(g)(X),
    "vjp": lambda g: fg.vjp(g, X),
    "jvp": lambda g: fg.jvp(g, (X,), (X,)),
    "vmap": lambda g: fg.vmap(g)(BATCH),
    "make_jaxpr": lambda g: fg.make_jaxpr(g)(X),
}
USES = {
    "operator": lambda x: x + 1.0,
    "reflected": lambda x: 1.0 + x,
    "ndarray": lambda x: np.ones(3) * x,
    "unary": lambda x: -x,
    "ufunc": np.sin,
    "function": np.sum,
    "method": lambda x: x.sum(),
    "index": lambda x: x[0],
}
LATER = {
    "later gradient": lambda x: fg.grad(lambda y: np.sum(y * x))(X),
    "later graph": lambda x: fg.make_jaxpr(lambda y: y * x)(X),
    "later batch": lambda x: fg.vmap(lambda y: np.sum(y * x))(BATCH),
}


@pytest.mark.parametrize("use", [*USES, *LATER])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_leaked_tracer_is_refused_wherever_it_turns_up(transform, use):
    value, uses = leak(TRANSFORMS[transform]), {**USES, **LATER}
    derives_nothing = use in USES or use == "later batch"
    if derives_nothing and transform in ("grad", "vjp", "jvp"):  # it is a plain value then
        np.testing.assert_array_equal(uses[use](value), uses[use](np.sin(X)))
        return
    with pytest.raises(LeakedTracerError, match="outside of the transform"):
        found = uses[use](value)
        np.asarray(found)  # after vmap it has a shape, but no numbers


def test_a_tracer_of_another_thread_is_refused():
    def g(x):
        caught = []

        def work():
            try:
                np.sin(x)
            except LeakedTracerError as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert len(caught) == 1
        return x * x

    assert fg.grad(g)(3.0) == 6.0


def test_after_an_error_inside_no_transform_is_left_on():
    def broken(x):
        np.sin(x)
        raise KeyError("mine")

    for transform in TRANSFORMS.values():
        with pytest.raises(KeyError, match="mine"):
            transform(broken)
        assert isinstance(np.sin(X), np.ndarray)
        assert fg.grad(lambda x: x * x)(3.0) == 6.0


# --- exactness ------------------------------------------------------------------------


def test_eight_nested_gradients_of_exp_are_exact():
    g = np.exp
    for _ in range(8):
        g = fg.grad(g)
        np.testing.assert_allclose(g(0.7), np.exp(0.7), rtol=1e-12)


def test_three_nested_gradients_of_tanh_are_exact():
    g = fg.grad(fg.grad(fg.grad(np.tanh)))
    for x in (-2.0, -0.3, 0.0, 0.5, 1.7):
        exact = float(mpmath.diff(mpmath.tanh, x, 3))
        np.testing.assert_allclose(g(x), exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", range(1, 6))
def test_high_derivatives_against_mpmath(order):
    def g(x):
        return np.sin(x) * np.exp(-x) / (1.0 + x * x)

    exact = mpmath.diff(
        lambda x: mpmath.sin(x) * mpmath.exp(-x) / (1 + x * x), mpmath.mpf("0.4"), order
    )
    for transform in (fg.grad, d):
        h = functools.reduce(lambda h, _: transform(h), range(order), g)
        np.testing.assert_allclose(h(0.4), float(exact), rtol=1e-12)
