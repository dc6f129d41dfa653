"""The results of grad, value_and_grad, vjp and jvp, and the outputs that they accept."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fungrad as fg
from fungrad.errors import ArgumentError

X = np.array([0.5, 1.0, 2.0])
LARGE = np.linspace(0.1, 1.0, 2000)


def both(f):
    """f twice, as the tuple of its results."""
    return lambda x: (f(x), f(x))


FUNCTIONS = {
    "exp": np.exp,
    "product": lambda x: x * x,
    "view": lambda x: np.exp(x).reshape(1, -1)[:, ::-1],
    "base of a residual": lambda x: (lambda y: (y, np.sin(y.reshape(1, -1))))(x + 1.0),
    "joined": lambda x: (lambda y: (y, np.sin(y.reshape(-1, 1))))(np.concatenate([x, x])),
    "argument": lambda x: x,
    "view of the argument": lambda x: x[::-1],
    "twice": lambda x: (lambda y: (y, y, y[1:]))(np.sqrt(x)),
    "jitted": fg.jit(np.exp),
    "jitted argument": fg.jit(lambda x: (x, np.sqrt(x))),
    "scan": lambda x: fg.lax.scan(lambda c, _: (c * x, c), x, None, length=3),
    "cond": lambda x: fg.lax.cond(True, np.exp, np.sin, x),
    "checkpoint": fg.checkpoint(lambda x: np.sin(np.exp(x))),
}


@pytest.mark.parametrize("x", [X, LARGE])
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_outputs_are_the_users_own(f, x):
    """Writes into the results of vjp and linearize, and into the input, change no derivative."""

    def seeds(out):
        return fg.tree_util.tree_map(np.ones_like, out)

    expected_out, pullback = fg.vjp(f, x)
    expected = pullback(seeds(expected_out))[0].copy()
    expected_push = fg.jvp(f, (x,), (np.ones_like(x),))
    given = x.copy()
    out, pullback = fg.vjp(f, given)
    also, push = fg.linearize(f, given)
    value, tangent = fg.jvp(f, (given,), (np.ones_like(x),))
    several = [fg.tree_util.tree_leaves(tree) for tree in (out, also, value, tangent)]
    for leaves in several:
        for i, leaf in enumerate(leaves):
            assert leaf.flags.writeable and not np.shares_memory(leaf, given)
            assert not any(np.shares_memory(leaf, other) for other in leaves[i + 1 :])
            leaf[...] = np.nan
    given[:] = np.nan
    seed = fg.tree_util.tree_map(np.ones_like, expected_out)
    assert_array_equal(pullback(seed)[0], expected)
    assert_array_equal(pullback(seed)[0], expected)
    pushed = push(np.ones_like(x))
    for found, wanted in zip(
        fg.tree_util.tree_leaves(pushed), fg.tree_util.tree_leaves(expected_push[1]), strict=True
    ):
        assert_allclose(found, wanted, rtol=1e-14)


def test_the_value_and_aux_are_the_users_own():
    x = np.array([1.0, 2.0])
    zero_d = np.array(3.0)

    def f(x):
        return np.sum(x * x), {"x": x, "view": x[::-1], "exp": np.exp(x)}

    (_, aux), _ = fg.value_and_grad(f, has_aux=True)(x)
    (_, pulled, more) = fg.vjp(f, x, has_aux=True)
    for found in (aux, more, fg.jacrev(f, has_aux=True)(x)[1], fg.jvp(f, (x,), (x,), True)[2]):
        for leaf in found.values():
            assert not np.shares_memory(leaf, x)
            leaf[:] = -1.0
    assert_array_equal(x, [1.0, 2.0])
    assert_array_equal(pulled(1.0)[0], [2.0, 4.0])
    value, _ = fg.value_and_grad(lambda x: x)(zero_d)
    assert value is not zero_d and value == 3.0


@pytest.mark.parametrize("transform", [fg.jit, fg.vmap, lambda f: f])
def test_a_pullback_under_a_transform_is_that_of_plain_arrays(transform):
    def f(x):
        out, pullback = fg.vjp(np.exp, x)
        return out * pullback(out)[0]

    assert_allclose(transform(f)(X), np.exp(X) ** 3, rtol=1e-14)


DISCRETE = {
    "argmax": np.argmax,
    "count": lambda x: np.sum(x > 0.0),
    "accuracy": lambda x: np.all(x > 0.0),
    "integers": lambda x: np.sum(x).astype(int),
    "number": lambda x: 3,
    "truth": lambda x: bool(np.sum(fg.stop_gradient(x)) > 0.0),
}


@pytest.mark.parametrize("f", DISCRETE.values(), ids=DISCRETE)
@pytest.mark.parametrize("transform", [fg.grad, fg.value_and_grad, fg.hessian])
def test_outputs_without_a_derivative_are_refused(transform, f):
    with pytest.raises(ArgumentError, match=r"floating.*returned (i64|bool)"):
        transform(f)(X)


@pytest.mark.parametrize("outer", [fg.jit, fg.grad])
@pytest.mark.parametrize("f", [np.argmax, lambda x: np.sum(x > 0.0)])
def test_they_are_refused_under_transforms(outer, f):
    with pytest.raises(ArgumentError, match=r"floating.*returned (i64|bool)"):
        outer(lambda x: np.sum(fg.grad(f)(x)))(X)


def test_aux_may_be_an_integer_and_vjp_has_zero_for_it():
    gradient, aux = fg.grad(lambda x: (np.sum(x), np.argmax(x)), has_aux=True)(X)
    assert_array_equal(gradient, np.ones(3))
    assert aux == 2
    out, pullback = fg.vjp(lambda x: (np.argmax(x), np.sum(x)), X)
    assert out[0] == 2
    assert_array_equal(pullback((0, 2.0))[0], np.full(3, 2.0))
    assert_array_equal(fg.vjp(np.argmax, X)[1](0)[0], np.zeros(3))
