"""Jacobians, Hessians, products with them, linearize and linear_transpose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fungrad as fg
import fungrad.testing
from fungrad import lax
from fungrad.errors import (
    ArgumentError,
    NonDifferentiableInputError,
    NonLinearError,
    ShapeError,
    StructureMismatchError,
)
from fungrad.testing import arrays, programs

A = np.random.default_rng(0).normal(size=(3, 3))
X = np.array([0.3, -0.7, 1.1])
LAWS = settings(max_examples=25)


def close(found, expected, rtol=1e-11):
    assert fg.tree_structure(found) == fg.tree_structure(expected)
    for x, y in zip(fg.tree_leaves(found), fg.tree_leaves(expected), strict=True):
        assert np.shape(x) == np.shape(y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)


def vector(x):
    return np.sin(A @ x) * x[0]


def number(x):
    return np.sum(np.exp(A @ x)) * np.prod(x)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def determinant(m):  # Leibniz's formula: det as sums of products
    a, b, c = m
    return np.sum(
        a
        * np.stack(
            [b[1] * c[2] - b[2] * c[1], b[2] * c[0] - b[0] * c[2], b[0] * c[1] - b[1] * c[0]]
        )
    )


# --- Jacobians


def test_the_jacobian_of_a_matrix_product_is_the_matrix():
    for jac in (fg.jacfwd, fg.jacrev, fg.jacobian):
        close(jac(lambda x: A @ x)(X), A)


@LAWS
@given(programs(scalar=False, max_steps=5))
def test_forward_and_reverse_jacobians_agree(program):
    argnums = tuple(range(len(program.args)))
    forward = fg.jacfwd(program, argnums)(*program.args)
    close(forward, fg.jacrev(program, argnums)(*program.args))
    close(forward, fg.jacobian(program, argnums)(*program.args))


@LAWS
@given(programs(max_steps=4, max_args=1))
def test_hessians_are_symmetric_in_all_mixtures_of_modes(program):
    (x,) = program.args
    found = fg.hessian(program)(x)
    assert found.shape == x.shape * 2
    swapped = np.moveaxis(found, range(x.ndim), range(x.ndim, 2 * x.ndim))
    np.testing.assert_allclose(found, swapped, rtol=1e-10, atol=1e-10)
    for outer in (fg.jacfwd, fg.jacrev):
        for inner in (fg.jacfwd, fg.jacrev):
            close(outer(inner(program))(x), found, 1e-9)


def test_trees_in_and_out():
    def f(p, scale):
        return {"a": vector(p["x"]) * scale, "b": (np.sum(p["x"]) * p["s"],)}

    p = {"x": X, "s": 2.0}
    for jac in (fg.jacfwd, fg.jacrev, fg.jacobian):
        found = jac(f, argnums=(0, "scale"))(p, 3.0)
        blocks, by_scale = found["a"]
        assert blocks["x"].shape == (3, 3) and blocks["s"].shape == (3,)
        np.testing.assert_array_equal(blocks["s"], np.zeros(3))
        close(by_scale, vector(X))
        close(found["b"][0][0], {"x": np.full(3, 2.0), "s": np.float64(np.sum(X))})
        assert fg.tree_structure(jac(f)(p, scale=3.0)["a"]) == fg.tree_structure(p)


def test_aux_is_handed_back():
    def f(x):
        return vector(x), {"sum": np.sum(x), "name": "v"}

    for jac in (fg.jacfwd, fg.jacrev, fg.jacobian):
        found, aux = jac(f, has_aux=True)(X)
        close(found, fg.jacfwd(vector)(X))
        assert aux == {"sum": np.sum(X), "name": "v"}
    found, aux = fg.hessian(lambda x: (number(x), "aux"), has_aux=True)(X)
    close(found, fg.hessian(number)(X))
    assert aux == "aux"
    with pytest.raises(ArgumentError, match="pair"):
        fg.jacfwd(vector, has_aux=True)(X)


def test_holomorphic_jacobians():
    z = X + 1j * X[::-1]

    def f(z):
        return np.exp(A @ z) * z[0]

    expected = np.exp(A @ z)[:, None] * A * z[0]
    expected[:, 0] += np.exp(A @ z)
    for jac in (fg.jacfwd, fg.jacrev, fg.jacobian):
        close(jac(f, holomorphic=True)(z), expected)
    second = fg.hessian(lambda z: np.sum(f(z)), holomorphic=True)(z)
    close(second, second.T)


def test_complex_numbers_without_holomorphic():
    z = X + 1j * X[::-1]
    close(fg.jacfwd(lambda x: np.exp(1j * x))(X), np.diag(1j * np.exp(1j * X)))
    close(fg.jacrev(lambda z: np.abs(z) ** 2)(z), np.diag(2 * np.conj(z)))
    close(fg.jacobian(lambda z: np.abs(z) ** 2)(z), np.diag(2 * np.conj(z)))
    with pytest.raises(ArgumentError, match="holomorphic=True"):
        fg.jacfwd(np.exp)(z)
    with pytest.raises(ArgumentError, match="holomorphic=True"):
        fg.jacrev(lambda x: np.exp(1j * x))(X)
    for jac in (fg.jacfwd, fg.jacrev):
        with pytest.raises(ArgumentError, match="Leave holomorphic out"):
            jac(np.exp, holomorphic=True)(X)
        with pytest.raises(ArgumentError, match="complex outputs"):
            jac(np.real, holomorphic=True)(z)


def test_single_precision_stays():
    x = X.astype(np.float32)
    a = A.astype(np.float32)
    for jac in (fg.jacfwd, fg.jacrev, fg.jacobian, fg.hessian):
        assert jac(lambda x: np.sin(a @ x) * 2.0)(x).dtype == np.float32
    mixed = fg.jacfwd(lambda p: p[0] * p[1], argnums=0)((x, X))
    assert mixed[0].dtype == mixed[1].dtype == np.float64
    mixed = fg.jacrev(lambda p: p[0] * p[1], argnums=0)((x, X))
    assert (mixed[0].dtype, mixed[1].dtype) == (np.float32, np.float64)


def test_empty_arrays():
    x = np.zeros(0)
    for jac in (fg.jacfwd, fg.jacrev, fg.jacobian):
        assert jac(np.sin)(x).shape == (0, 0)
        assert jac(np.sum)(x).shape == (0,)
        assert jac(lambda y: y[:0])(X).shape == (0, 3)
        found = jac(lambda p: (p[0], ()))((X, x))
        assert (found[0][0].shape, found[0][1].shape, found[1]) == ((3, 3), (3, 0), ())
    assert fg.hessian(lambda x: np.sum(x**2))(x).shape == (0, 0)


def test_an_output_that_does_not_depend_is_zero():
    for jac in (fg.jacfwd, fg.jacrev, fg.jacobian):
        found = jac(lambda x: (np.ones(2), fg.stop_gradient(x), 3.0))(X)
        assert [f.shape for f in found] == [(2, 3), (3, 3), (3,)]
        assert not any(np.any(f) for f in found)


def test_python_control_flow_and_closures():
    def f(x):
        return x * np.sin(x) if np.sum(x) > 0 else x

    for jac in (fg.jacfwd, fg.jacrev, fg.jacobian):
        close(jac(f)(X), np.diag(np.sin(X) + X * np.cos(X)))


def test_jacobians_compose_with_every_transform():
    expected = fg.jacfwd(vector)(X)
    batch = np.stack([X, 2 * X])
    for jac in (fg.jacfwd, fg.jacrev, fg.jacobian):
        close(fg.jit(jac(vector))(X), expected)
        close(jac(fg.jit(vector))(X), expected)
        close(fg.vmap(jac(vector))(batch), np.stack([expected, fg.jacfwd(vector)(2 * X)]))
        fg.testing.check_grads(jac(vector), [X])


def test_higher_derivatives_of_a_determinant():
    # torch#192540: jacfwd(jacfwd(det)) was silently wrong.
    m = A + np.eye(3)
    cofactors = np.linalg.det(m) * np.linalg.inv(m).T
    for jac in (fg.jacfwd, fg.jacrev):
        close(jac(determinant)(m), cofactors, 1e-10)
        close(jac(np.prod)(X), np.prod(X) / X, 1e-10)
    reference = fg.jacrev(fg.jacrev(determinant))(m)
    close(fg.jacfwd(fg.jacfwd(determinant))(m), reference)
    close(fg.jacfwd(fg.jacfwd(np.prod))(np.zeros(3)), np.zeros((3, 3)))
    thrice = fg.jacfwd(fg.jacfwd(fg.jacfwd(np.prod)))(np.zeros(3))
    assert thrice[0, 1, 2] == thrice[2, 1, 0] == 1 and np.sum(thrice) == 6
    fourth = fg.jacfwd(fg.jacfwd(fg.jacfwd(determinant)))(m)
    close(fg.jacrev(fg.jacrev(fg.jacrev(determinant)))(m), fourth)


def test_perturbations_are_not_confused():
    def inner(x):
        return fg.jvp(lambda y: x * y, (1.0,), (1.0,))[1]

    assert fg.jvp(lambda x: x * inner(x), (3.0,), (1.0,))[1] == 6.0
    assert fg.jacfwd(lambda x: x * fg.jacfwd(lambda y: x + y)(1.0))(2.0) == 1.0
    assert fg.jacrev(lambda x: x * fg.jacfwd(lambda y: x * y)(1.0))(2.0) == 4.0
    out, push = fg.linearize(lambda x: x * fg.linearize(lambda y: x * y, 1.0)[1](1.0), 3.0)
    assert (out, push(1.0)) == (9.0, 6.0)


def test_the_errors_of_jacobians():
    for jac in (fg.jacfwd, fg.jacrev, fg.jacobian):
        with pytest.raises(NonDifferentiableInputError, match=r"p\['n'\]"):
            jac(lambda p: p["n"] * 1.0)({"n": 3})
        with pytest.raises(ArgumentError, match="floating or complex output"):
            jac(lambda x: np.argmax(x))(X)
        with pytest.raises(ArgumentError, match="argnums"):
            jac(vector, argnums=3)(X)


def test_the_hessian_of_rosenbrock_is_known():
    x = np.linspace(-1, 1, 7)
    expected = np.diag(-400 * x[:-1], 1) + np.diag(-400 * x[:-1], -1)
    diagonal = np.full(7, 200.0)
    diagonal[:-1] += 1200 * x[:-1] ** 2 - 400 * x[1:] + 2
    diagonal[-1] = 200.0
    diagonal[0] -= 200.0
    expected += np.diag(diagonal)
    close(fg.hessian(rosenbrock)(x), expected)
    close(fg.jit(fg.hessian(rosenbrock))(x), expected)


# --- products


def test_hvp_is_the_hessian_times_the_vector():
    v = np.array([1.0, -2.0, 0.5])
    (found,) = fg.hvp(number, (X,), (v,))
    close(found, fg.hessian(number)(X) @ v, 1e-10)
    f = lambda p, s: number(p["x"]) * s  # noqa: E731
    by_p, by_s = fg.hvp(f, ({"x": X}, 2.0), ({"x": v}, 0.0))
    close(by_p["x"], 2 * found, 1e-10)
    np.testing.assert_allclose(by_s, fg.grad(number)(X) @ v)
    close(fg.jit(lambda x, v: fg.hvp(number, (x,), (v,)))(X, v)[0], found)
    close(fg.vmap(lambda v: fg.hvp(number, (X,), (v,))[0])(np.eye(3)), fg.hessian(number)(X))


def test_gauss_newton_products():
    v = np.array([1.0, -2.0, 0.5])
    j = fg.jacobian(vector)(X)
    close(fg.gauss_newton_product(vector, (X,), (v,))[0], j.T @ j @ v)
    loss = lambda out: np.sum(np.logaddexp(0.0, out))  # noqa: E731
    h = fg.hessian(loss)(vector(X))
    found = fg.gauss_newton_product(vector, (X,), (v,), loss)
    close(found[0], j.T @ h @ j @ v)
    close(fg.jit(lambda v: fg.gauss_newton_product(vector, (X,), (v,), loss))(v), found)


@LAWS
@given(arrays(shape=(4,)), st.sampled_from(["sin", "tanh", "exp", "arctan", "square"]))
def test_elementwise_grad_is_vmap_of_grad(x, name):
    f = lambda x: getattr(np, name)(x) * x  # noqa: E731
    close(fg.elementwise_grad(f)(x), fg.vmap(fg.grad(f))(x))
    twice = fg.elementwise_grad(fg.elementwise_grad(f))
    close(twice(x), fg.vmap(fg.grad(fg.grad(f)))(x))


def test_elementwise_grad_checks_shapes():
    x = np.ones((2, 3))
    assert fg.elementwise_grad(np.multiply, argnums=(0, 1))(x, 2 * x)[0].shape == (2, 3)
    assert fg.elementwise_grad(np.sin)(x.astype(np.float32)).dtype == np.float32
    close(fg.elementwise_grad(np.floor)(x), np.zeros((2, 3)))
    close(fg.elementwise_grad(np.exp)(1j * x), np.exp(1j * x))
    with pytest.raises(ShapeError, match="not elementwise"):
        fg.elementwise_grad(np.sum)(x)
    with pytest.raises(ShapeError, match="not elementwise"):
        fg.elementwise_grad(lambda x, a: x * a, argnums="a")(x, 2.0)
    with pytest.raises(StructureMismatchError, match="one array"):
        fg.elementwise_grad(lambda x: (x, x))(x)


# --- linearize


@LAWS
@given(programs(scalar=False, max_steps=6))
def test_linearize_is_jvp(program):
    out, push = fg.linearize(program, *program.args)
    close(out, program(*program.args))
    for scale in (1.0, -2.5):
        tangents = [np.cos(a) * scale for a in program.args]
        close(push(*tangents), fg.jvp(program, program.args, tangents)[1])


def test_linearize_runs_the_function_once():
    runs = []

    def f(x):
        runs.append(1)
        return np.exp(x) if np.all(x < 9) else x

    _, push = fg.linearize(f, X)
    for _ in range(3):
        close(push(X), np.exp(X) * X)
    assert runs == [1]
    graph = fg.make_jaxpr(push)(X)
    assert [e.primitive.name for e in graph.equations] == ["mul"]


def test_linearize_takes_trees_and_leaves_of_any_kind():
    model = {"w": X, "n": 2, "name": "net", "f": np.sin}

    def f(m, y):
        return {"out": m["f"](m["w"]) * m["n"] * y, "count": 3}

    out, push = fg.linearize(f, model, 2.0)
    moved = push({"w": X, "n": None, "name": None, "f": None}, 0.0)
    assert out["count"] == 3
    close(moved["out"], np.cos(X) * X * 4)
    with pytest.raises(NonDifferentiableInputError):
        push({"w": X, "n": 1, "name": None, "f": None}, 0.0)
    with pytest.raises(StructureMismatchError):
        push(X)
    out, push, aux = fg.linearize(lambda x: (np.sin(x), "aux"), X, has_aux=True)
    assert aux == "aux"
    close(push(X), np.cos(X) * X)


def test_linearize_under_and_over_transforms():
    def product(x, v):
        _, push = fg.linearize(vector, x)
        return push(v) + push(2 * v)

    def expected(x, v):
        return 3 * fg.jvp(vector, (x,), (v,))[1]

    v = np.array([1.0, 2.0, 3.0])
    close(fg.jit(product)(X, v), expected(X, v))
    close(
        fg.vmap(product)(np.stack([X, v]), np.stack([v, X])),
        fg.vmap(expected)(np.stack([X, v]), np.stack([v, X])),
    )
    close(fg.jacrev(product)(X, v), fg.jacrev(expected)(X, v))
    _, push = fg.linearize(fg.grad(fg.jit(number)), X)
    close(fg.vmap(push)(np.eye(3)), fg.hessian(number)(X))
    close(fg.jacrev(push)(v), fg.hessian(number)(X))


def test_linearize_keeps_loops_apart():
    def f(x):
        return lax.scan(lambda c, a: (np.sin(A @ c) * a, c[0]), x, np.arange(1.0, 5.0))

    out, push = fg.linearize(f, X)
    close(out, f(X))
    close(push(X), fg.jvp(f, (X,), (X,))[1])
    names = {e.primitive.name for e in fg.make_jaxpr(push)(X).equations}
    assert "sin" not in names


# --- linear_transpose


def linear_maps():
    weights = np.arange(6.0).reshape(3, 2)
    return {
        "matrix": lambda x: A @ x,
        "index": lambda x: x[[0, 2, 0]] * 3.0 - x[0],
        "sum": lambda x: np.sum(x),
        "tree": lambda x: {"a": np.cumsum(x), "b": (x[1:] / 2.0, x @ weights)},
        "masked": lambda x: np.where(np.array([True, False, True]), x, 0.0),
        "jitted": fg.jit(lambda x: x * np.exp(A)),
        "derivative": fg.linearize(vector, X)[1],
        "scan": lambda x: lax.scan(lambda c, a: (A @ c + a, c[0]), x, np.zeros((4, 3))),
        "stopped": lambda x: fg.stop_gradient(x) * 0.0 + x,
    }


@pytest.mark.parametrize("name", linear_maps())
def test_the_transpose_is_the_adjoint_and_its_transpose_the_function(name):
    f = linear_maps()[name]
    random = np.random.default_rng(3)
    x = random.normal(size=3)
    out = f(x)
    y = fg.tree_map(lambda a: random.normal(size=np.shape(a)), out)
    transposed = fg.linear_transpose(f, X)
    (back,) = transposed(y)
    left = sum(np.sum(a * b) for a, b in zip(fg.tree_leaves(out), fg.tree_leaves(y), strict=True))
    np.testing.assert_allclose(left, np.sum(back * x), rtol=1e-11)
    again = fg.linear_transpose(lambda y: transposed(y)[0], y)
    close(again(x)[0], out)


@LAWS
@given(programs(scalar=False, max_steps=5, max_args=1))
def test_twice_transposed_derivatives_of_programs(program):
    (x,) = program.args
    out, push = fg.linearize(program, x)
    transposed = fg.linear_transpose(push, x)
    ones = np.ones_like(out)
    close(transposed(ones)[0], fg.vjp(program, x)[1](ones)[0])
    close(fg.linear_transpose(lambda y: transposed(y)[0], ones)(np.cos(x))[0], push(np.cos(x)))


def test_transposes_take_types_and_several_arguments_and_complex_numbers():
    f = lambda x, y: 2.0 * x + np.sum(y)  # noqa: E731
    transposed = fg.linear_transpose(f, fg.Type((3,), np.float64), fg.Type((2,), np.float32))
    x, y = transposed(np.ones(3))
    close(x, np.full(3, 2.0))
    close(y, np.full(2, 3.0, np.float32))
    z = X + 1j
    close(fg.linear_transpose(lambda x: z * x, z)(z)[0], z * z)
    close(fg.jit(lambda c: fg.linear_transpose(lambda x: c @ x, X)(X)[0])(A), A.T @ X)
    close(
        fg.grad(lambda c: np.sum(fg.linear_transpose(lambda x: c @ x, X)(X)[0]))(A),
        np.outer(X, np.ones(3)),
    )
    assert not np.any(fg.linear_transpose(lambda x: fg.stop_gradient(x), X)(X)[0])


@pytest.mark.parametrize(
    ("f", "says"),
    [
        (lambda x: x * x, "`mul` at"),
        (lambda x: np.sum(np.sin(x)), "`sin` at"),
        (lambda x: np.where(x > 0, x, 0.0), "`select` at"),
        (lambda x: x * fg.jit(np.exp)(x), "`exp` at"),
        (lambda x: x + 1.0, "affine"),
        (lambda x: np.argmax(x), "floating or complex outputs"),
    ],
)
def test_what_is_not_linear_is_refused_by_line(f, says):
    with pytest.raises(NonLinearError, match=says):
        fg.linear_transpose(f, X)


def test_a_transpose_checks_what_it_is_given():
    transposed = fg.linear_transpose(lambda x: (x, x[0]), X)
    with pytest.raises(StructureMismatchError):
        transposed(X)
    with pytest.raises(StructureMismatchError):
        transposed((X, X))
    with pytest.raises(StructureMismatchError, match="one tree"):
        transposed(X, 1.0)
    with pytest.raises(NonDifferentiableInputError):
        fg.linear_transpose(lambda x: x, 3)


def test_a_pushforward_gives_the_same_however_often_it_is_called():
    _, push = fg.linearize(lambda x: (np.exp(x) * np.sum(x), x[:2]), X)
    first = push(X)
    kept = fg.tree_map(np.copy, first)
    for _ in range(3):
        close(push(X), first, 1e-14)
        close(push(2 * X)[1], 2 * X[:2])
    close(first, kept)
    assert not any(np.shares_memory(a, X) for a in fg.tree_leaves(push(X)))


def test_jacfwd_through_a_branch_that_depends_on_what_a_loop_carries():
    def lowest(x, y):
        def f(y):
            return np.sum(y * y) - np.sum(x * x)

        def step(carry):
            y, value = carry
            tried = y - 0.25 * fg.grad(f)(y)
            return lax.cond(f(tried) < value, lambda: (tried, f(tried)), lambda: (y, value))

        return lax.while_loop(lambda carry: np.sum(carry[0]) > 0.1, step, (y, f(y)))[0]

    def height(x):
        return np.sum(x * x) - np.sum(lowest(x, X[::2]) ** 2)

    for jacobian in (fg.jacfwd(height), fg.jit(fg.jacfwd(height)), fg.jacrev(height)):
        close(jacobian(X), 2.0 * X)


def test_jacfwd_where_a_batch_rule_maps_the_value_with_its_tangents():
    def pair(x):
        y = fg.checkpoint(lambda x: np.sum(x) * x)(x)
        return y, y

    jacobian, value = fg.jacfwd(pair, has_aux=True)(X)
    close(value, np.sum(X) * X)
    close(jacobian, np.sum(X) * np.eye(3) + X[:, None])
    assert fg.jacfwd(pair, has_aux=True)(np.ones(0))[0].shape == (0, 0)


def tangents_of():
    return {
        "cond": lambda x: lax.cond(np.sum(x) > 0.2, np.sin, np.cos, x),
        "switch": lambda x: lax.switch(1, [np.cos, lambda x: x * x[0], np.sin], x),
        "scan": lambda x: lax.scan(lambda c, a: (c * a, np.sin(c * a)), 1.0, x)[1],
        "map": lambda x: lax.map(lambda a: lax.cond(a > 0.0, np.sin, np.cos, a), x),
        "while": lambda x: lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, np.sin(s[1])), (0, x)
        )[1],
        "checkpoint": fg.checkpoint(lambda x: np.sin(x) * x[0]),
        "jitted": fg.jit(lambda x: lax.cond(np.sum(x) > 0.2, np.sin, np.cos, x)),
    }


@pytest.mark.parametrize("name", tangents_of())
def test_linear_maps_of_loops_and_branches_are_transposed_inside_of_other_transforms(name):
    f = tangents_of()[name]
    ones, weights = np.ones(3), np.array([1.0, 2.0, -1.0])

    def by_transposing(x):
        _, push = fg.linearize(f, x)
        return fg.linear_transpose(push, x)(ones)[0]

    pulled = lambda x: fg.vjp(f, x)[1](ones)[0]  # noqa: E731
    for run in (by_transposing, fg.jit(by_transposing)):
        close(run(X), pulled(X))
    close(fg.vmap(by_transposing)(X[None])[0], pulled(X))
    second, expected = (fg.grad(lambda x, g=g: g(x) @ weights) for g in (by_transposing, pulled))
    close(second(X), expected(X))
    close(fg.jit(second)(X), expected(X))


def losses():
    def halved(carry):
        return np.sin(carry) * 0.7 + carry * carry * 0.1

    def three(step):
        return lambda x: lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, step(s[1], x, s[0])), (0, x)
        )[1]

    return {
        "while": lambda x: np.sum(three(lambda c, x, i: np.sin(c) * x + c)(x)),
        "while by values": lambda x: np.sum(
            x * lax.while_loop(lambda c: np.sum(c * c) > 0.1, halved, x)
        ),
        "cond": lambda x: lax.cond(
            np.sum(x) > 0, lambda x: np.sum(np.sin(x) * x), lambda x: np.sum(x**3), x
        ),
        "switch": lambda x: np.sum(lax.switch(1, [np.cos, lambda x: np.sin(A @ x) * x], x)),
        "cond in while": lambda x: np.sum(
            three(lambda c, x, i: lax.cond(i > 1, lambda c: np.sin(c) * x, np.square, c))(x)
        ),
        "while in cond": lambda x: lax.cond(
            x[0] > -9.0, lambda x: np.sum(three(lambda c, x, i: np.sin(c) * x)(x)), np.sum, x
        ),
        "while in scan": lambda x: np.sum(
            lax.scan(lambda c, a: (three(lambda c, _, i: np.sin(a * c))(c), c), x, X[:2])[0]
        ),
        "scan by pieces": lambda x: np.sum(
            lax.scan(lambda c, a: (np.sin(c) * x * a, (A @ c) ** 2), x, X, checkpoint=2)[1]
        ),
        "while by pieces": lambda x: np.sum(
            lax.while_loop(
                lambda s: s[0] < 5, lambda s: (s[0] + 1, np.sin(s[1]) * x), (0, x), checkpoint=2
            )[1]
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", losses())
def test_linear_maps_of_gradients_of_loops_and_branches_are_transposed(name):
    f = losses()[name]
    direction = np.array([1.0, 2.0, -1.0])

    def by_transposing(x):
        _, push = fg.linearize(fg.grad(f), x)
        return fg.linear_transpose(push, x)(direction)[0]

    def product(x):
        return fg.jvp(fg.grad(f), (x,), (direction,))[1]

    def twice(x):
        _, push = fg.linearize(product, x)
        return fg.linear_transpose(push, x)(direction)[0]

    expected = fg.hessian(f)(X) @ direction
    for run in (by_transposing, fg.jit(by_transposing)):
        close(run(X), expected)
    close(fg.vmap(by_transposing)(X[None])[0], product(X))
    third = fg.grad(lambda x: product(x) @ direction)(X)
    for run in (twice, fg.jit(twice), fg.grad(lambda x: by_transposing(x) @ direction)):
        close(run(X), third)


def quadratics():
    return {
        "while": lambda x: np.sum(
            lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, A @ s[1]), (0, x))[1] ** 2
        ),
        "sum in while": lambda x: lax.while_loop(
            lambda s: s[0] < 3,
            lambda s: (s[0] + 1, A @ s[1], s[2] + np.sum(s[1] ** 2)),
            (0, x, 0.0),
        )[2],
        "cond": lambda x: lax.cond(True, lambda x: np.sum((A @ x) ** 2), np.sum, x),
        "scan": lambda x: np.sum(lax.scan(lambda c, _: (A @ c, c[0] ** 2), x, None, length=3)[1]),
        "scan by pieces": lambda x: np.sum(
            lax.scan(lambda c, _: (A @ c, c[0] ** 2), x, None, length=3, checkpoint=1)[1]
        ),
    }


@pytest.mark.parametrize("name", quadratics())
def test_gradients_of_quadratic_functions_are_transposed(name):
    """What they compute on the way is quadratic, but does not reach the gradient."""
    f = quadratics()[name]

    def transposed(x):
        return fg.linear_transpose(fg.grad(f), X)(x)[0]

    for run in (transposed, fg.jit(transposed)):
        close(run(X), fg.hessian(f)(X) @ X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.while_loop(lambda c: np.sum(c * c) > 1.0, lambda c: 0.5 * c, 4.0 * x),
        lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, x))[1],
        lambda x: lax.cond(np.sum(x) > 0.0, lambda x: 2.0 * x, lambda x: x, x),
        fg.grad(lambda x: lax.cond(True, lambda x: np.sum(x**3), np.sum, x)),
        fg.grad(lambda x: np.sum(lax.fori_loop(0, 2, lambda i, c: c * x, x))),
        fg.grad(lambda x: np.sum(lax.while_loop(lambda c: c[0] < 2, lambda c: c * x, X + 2.0 * x))),
    ],
)
def test_loops_and_branches_that_are_not_linear_are_refused(f):
    def transposed(x):
        return fg.linear_transpose(f, X)(x)

    for run in (transposed, fg.jit(transposed)):
        with pytest.raises(NonLinearError, match="not linear in its operands"):
            run(X)


@pytest.mark.parametrize(
    ("f", "says"),
    [
        (lambda x: lax.scan(lambda c, a: (c * a, c), x[0], x)[1], "`mul` at"),
        (lambda x: lax.scan(lambda c, _: ((c[1], c[0] * c[1]), None), (x, X), None, 3)[0], "`mul`"),
        (lambda x: lax.cond(True, lambda a: a * a, lambda a: a, x), "`mul` at"),
        (lambda x: lax.cond(x[0] > 0, lambda a: a, lambda a: 2 * a, x), "`switch` at"),
        (lambda x: lax.while_loop(lambda s: np.sum(s) < 3, lambda s: s * 2, x), "`while_loop` at"),
        (lambda x: lax.fori_loop(0, 3, lambda i, c: np.sin(c), x), "`sin` at"),
    ],
)
def test_loops_and_branches_that_are_not_linear_are_refused_by_the_line_inside(f, says):
    for run in (lambda g: g, fg.jit):
        with pytest.raises(NonLinearError, match=says):
            run(lambda y: fg.linear_transpose(f, X)(y))(f(X))


def test_jacobians_of_what_returns_no_array():
    for transform in (fg.jacrev, fg.jacfwd, fg.jacobian, fg.hessian):
        assert transform(lambda x: None)(1.0) is None
        assert transform(lambda x: ())(np.ones(2)) == ()
        assert fg.jit(transform(lambda x: {}))(1.0) == {}
    assert fg.jacrev(lambda x: (x * x, None))(3.0) == (6.0, None)
