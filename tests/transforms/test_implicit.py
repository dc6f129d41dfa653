"""custom_root, custom_linear_solve and fixed_point against closed forms and unrolled loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse.linalg

import fungrad as fg
from fungrad.errors import ArgumentError, MissingRuleError, StructureMismatchError
from fungrad.testing import check_grads

X, Y = 1.3, 0.7
A = np.array([[3.0, 1.0], [0.5, 2.0]])
B = np.array([1.0, 2.0])


def assert_close(found, expected, tolerance=1e-12):
    for a, b in zip(fg.trees.leaves(found), fg.trees.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


TRANSFORMS = {
    "value": lambda f: f,
    "jit": fg.jit,
    "grad": lambda f: fg.grad(f, (0, 1)),
    "jit grad": lambda f: fg.jit(fg.grad(f, (0, 1))),
    "grad jit": lambda f: fg.grad(fg.jit(f), (0, 1)),
    "jvp": lambda f: lambda x, y: fg.jvp(f, (x, y), (x, y)),
    "jvp grad": lambda f: lambda x, y: fg.jvp(fg.grad(f, (0, 1)), (x, y), (x, y)),
    "grad grad": lambda f: fg.grad(lambda x, y: np.sum(fg.grad(f)(x, y) ** 2), (0, 1)),
    "vmap": lambda f: lambda x, y: fg.vmap(f, (0, None))(np.stack([x, x + 0.25]), y),
    "vmap grad": lambda f: (
        lambda x, y: fg.vmap(fg.grad(f, (0, 1)), (0, None))(np.stack([x, x + 0.25]), y)
    ),
    "grad vmap": lambda f: (
        lambda x, y: fg.grad(lambda x, y: np.sum(fg.vmap(f, (None, 0))(x, y)), (0, 1))(
            x, np.stack([y, y + 0.25])
        )
    ),
}
EAGER = ["value", "grad", "jvp"]

# --- custom_root ------------------------------------------------------------------------


def cubic(z, x, y):
    return z**3 + z * y - 3 * x


def newton(f, z):
    for _ in range(10):
        z = z - f(z) / fg.grad(f)(z)
    return z


def brent(f, z):
    assert isinstance(float(f(1.0)), float)
    return scipy.optimize.brentq(lambda v: float(f(v)), 0.0, 10.0)


def unrolled(x, y):
    z = 1.0
    for _ in range(10):
        z = z - cubic(z, x, y) / (3 * z * z + y)
    return z


def root(solve):
    return lambda x, y: fg.custom_root(
        lambda z: cubic(z, x, y), 1.0, solve, lambda g, r: r / g(1.0)
    )


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_root(transform):
    apply = TRANSFORMS[transform]
    assert_close(apply(root(newton))(X, Y), apply(unrolled)(X, Y))


@pytest.mark.parametrize("transform", EAGER)
def test_root_by_a_black_box(transform):
    apply = TRANSFORMS[transform]
    assert_close(apply(root(brent))(X, Y), apply(unrolled)(X, Y))


def test_root_of_trees_with_aux():
    def solve(f, guess):
        return {"z": np.sqrt(f({"z": np.zeros(2)})["z"] * -1.0)}, 7

    def f(a):
        x, _ = fg.custom_root(
            lambda p: {"z": p["z"] ** 2 - a}, {"z": np.ones(2)}, solve,
            lambda g, r: {"z": r["z"] / g({"z": np.ones(2)})["z"]}, has_aux=True,
        )  # fmt: skip
        return np.sum(x["z"])

    a = np.array([4.0, 9.0])
    assert_close(fg.jvp(f, (a,), (np.ones(2),))[1], 1 / 4 + 1 / 6)


def test_the_guess_has_no_derivative():
    f = lambda g: fg.custom_root(lambda z: z * z - 4.0, g, newton, lambda g, r: r / g(1.0))  # noqa: E731
    assert fg.grad(f)(1.0) == 0.0


def test_a_root_of_another_type():
    with pytest.raises(StructureMismatchError, match="types of its argument"):
        fg.grad(lambda a: fg.custom_root(lambda z: (z * a, z), 1.0, newton, None))(1.0)


# --- custom_linear_solve ----------------------------------------------------------------


def dense(matvec, b):
    return np.linalg.solve(np.stack([matvec(e) for e in np.eye(2)], 1), b)


def cramer(matvec, b):
    (p, q), (r, s) = np.stack([matvec(e) for e in np.eye(2)], 1)
    return np.stack([s * b[0] - q * b[1], p * b[1] - r * b[0]]) / (p * s - q * r)


def linear(solve, **options):
    options = {"transpose_solve": solve, **options}
    return lambda a, b: np.sum(fg.custom_linear_solve(lambda v: a @ v, b, solve, **options) ** 3)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_solve(transform):
    apply = TRANSFORMS[transform]
    expected = apply(lambda a, b: np.sum(cramer(lambda v: a @ v, b) ** 3))(A, B)
    assert_close(apply(linear(cramer))(A, B), expected)
    if transform in EAGER:
        assert_close(apply(linear(dense))(A, B), expected)


def test_symmetric_and_by_conjugate_gradients():
    def conjugate(matvec, b):
        operator = scipy.sparse.linalg.LinearOperator((2, 2), matvec, dtype=float)
        return scipy.sparse.linalg.cg(operator, b, rtol=1e-14)[0]

    def f(solve, **options):
        return lambda a, b: np.sum(
            fg.custom_linear_solve(lambda v: (a + a.T) @ v, b, solve, **options) ** 3
        )

    found = fg.grad(f(conjugate, symmetric=True), (0, 1))(A, B)
    assert_close(found, fg.grad(f(cramer, transpose_solve=cramer), (0, 1))(A, B), 1e-9)


def test_without_transpose_solve():
    f = linear(cramer, transpose_solve=None)
    assert_close(fg.jvp(f, (A, B), (A, B)), fg.jvp(linear(cramer), (A, B), (A, B)))
    with pytest.raises(MissingRuleError, match="transpose_solve"):
        fg.grad(f)(A, B)


def test_linear_solve_with_aux():
    def solve(matvec, b):
        return cramer(matvec, b), 7

    def f(b):
        x, aux = fg.custom_linear_solve(lambda v: A @ v, b, solve, solve, has_aux=True)
        assert np.all(fg.stop_gradient(aux) == 7)
        return np.sum(x)

    assert_close(fg.grad(f)(B), np.linalg.solve(A.T, np.ones(2)))


def test_check_grads():
    check_grads(linear(cramer), [A, B])
    check_grads(root(newton), [X, Y])


# --- closures of solvers ------------------------------------------------------------------


def preconditioned(by, steps=16):
    """A solver of linear equations that closes over a guessed divisor."""

    def solve(matvec, r):
        v = r / by["guess"][0]
        for _ in range(steps):
            v = v + (r - matvec(v)) / by["guess"][0]
        return v

    return solve


def closing_root(x, y):
    tree = {"slope": np.stack([6.0 + x + y, x]), "number": 7.0 + y}

    def simplified_newton(f, z):
        for _ in range(16):
            z = z - f(z) / tree["slope"][0]
        return z

    return fg.custom_root(
        lambda z: cubic(z, x, y), 1.0, simplified_newton,
        preconditioned({"guess": [tree["number"]]}),
    )  # fmt: skip


def closing_linear(a, b):
    here, back = {"guess": [np.diag(a)]}, {"guess": (1.1 * np.diag(a.T), None)}
    x = fg.custom_linear_solve(
        lambda v: a @ v, b, preconditioned(here, 40), preconditioned(back, 40)
    )
    return np.sum(x**3)


def in_scan(f):
    def total(x, y):
        return fg.lax.scan(lambda c, t: (c + f(x * t, y), None), 0.0, np.array([1.0, 1.1]))[0]

    return total


def in_loop(f):
    return lambda x, y: f(x * 1.0, y) + f(x * 1.1, y)


@pytest.mark.slow
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_solvers_of_a_root_close_over_what_is_differentiated(transform):
    apply = TRANSFORMS[transform]
    assert_close(apply(closing_root)(X, Y), apply(unrolled)(X, Y), 1e-10)
    assert_close(apply(in_scan(closing_root))(X, Y), apply(in_loop(unrolled))(X, Y), 1e-10)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_solvers_of_linear_equations_close_over_what_is_differentiated(transform):
    apply = TRANSFORMS[transform]

    def expected(a, b):
        return np.sum(cramer(lambda v: a @ v, b) ** 3)

    assert_close(apply(closing_linear)(A, B), apply(expected)(A, B), 1e-10)
    assert_close(apply(in_scan(closing_linear))(A, B), apply(in_loop(expected))(A, B), 1e-10)


def test_a_factorisation_of_what_is_differentiated():
    def f(a, b):
        inverse = np.linalg.inv(a)
        transposed = inverse.T
        solve, back = lambda matvec, r: inverse @ r, lambda matvec, r: transposed @ r
        return np.sum(fg.custom_linear_solve(lambda v: a @ v, b, solve, back) ** 3)

    def expected(a, b):
        return np.sum(np.linalg.solve(a, b) ** 3)

    for apply in TRANSFORMS.values():
        assert_close(apply(f)(A, B), apply(expected)(A, B))
    hessian = fg.hessian(expected, (0, 1))(A, B)
    assert_close(fg.hessian(f, (0, 1))(A, B), hessian)
    assert_close(fg.jit(fg.hessian(f, (0, 1)))(A, B), hessian)
    assert_close(fg.jacrev(fg.jacrev(f, (0, 1)), (0, 1))(A, B), hessian)
    assert_close(fg.jacfwd(fg.jit(fg.jacfwd(f, (0, 1))), (0, 1))(A, B), hessian)


def test_the_derivative_is_of_the_equation_alone():
    """A solver with an error from its closure: x is the solver's, dx follows from f."""

    def f(a, wrong):
        return fg.custom_root(lambda z: z - a, 1.0, lambda f, z: wrong, lambda g, r: r / g(1.0))

    for gradient in (fg.grad(f, (0, 1)), fg.jit(fg.grad(f, (0, 1))), fg.grad(fg.jit(f), (0, 1))):
        assert_close(gradient(2.0, 5.0), (1.0, 0.0))
    assert_close(fg.jvp(f, (2.0, 5.0), (1.0, 10.0)), (5.0, 1.0))


def test_black_boxes_see_the_values_of_what_they_close_over():
    def f(a, high):
        def brent(f, z):
            assert high > 1.0
            return scipy.optimize.brentq(lambda v: float(f(v)), 0.0, fg.stop_gradient(high))

        return fg.custom_root(lambda z: z**3 - a, 1.0, brent, lambda g, r: r / g(1.0))

    assert_close(fg.grad(f, (0, 1))(8.0, 10.0), (1 / 12, 0.0))
    assert_close(fg.grad(fg.grad(f))(8.0, 10.0), -2 / 9 * 8.0 ** (-5 / 3))


def test_solvers_that_close_over_integers_and_checkpointed():
    def f(a, n):
        def solve(f, z):
            for _ in range(int(fg.stop_gradient(n) * 3)):
                z = z - f(z) / (3 * z * z) - 0 * a * n
            return z

        return fg.custom_root(lambda z: z**3 - a, 1.5, solve, lambda g, r: r / g(1.0 + 0 * n))

    assert_close(fg.grad(f)(8.0, 10), 1 / 12)
    assert_close(fg.grad(fg.checkpoint(lambda a: f(a, 10)))(8.0), 1 / 12)
    assert_close(
        fg.vmap(fg.grad(lambda a: f(a, 10)))(np.array([8.0, 27.0])), np.array([1 / 12, 1 / 27])
    )


# --- fixed_point ------------------------------------------------------------------------


def step(z, x, y):
    return np.cos(z * y) * x * 0.3


def fixed(x, y):
    return fg.fixed_point(lambda z, x: step(z, x, y), 0.5, x, tol=1e-13)


def iterated(x, y):
    z = 0.5
    for _ in range(40):
        z = step(z, x, y)
    return z


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_fixed_point(transform):
    apply = TRANSFORMS[transform]
    assert_close(apply(fixed)(X, Y), apply(iterated)(X, Y), 1e-10)


def test_fixed_point_of_a_tree():
    def f(m):
        x = fg.fixed_point(
            lambda s: {"p": 0.1 * m @ s["p"] + s["q"], "q": 0.2 * s["p"]},
            {"p": B, "q": B}, tol=1e-14,
        )  # fmt: skip
        return np.sum(x["p"]) + np.sum(x["q"] ** 2)

    assert fg.grad(f)(A).shape == (2, 2)
    x = fg.fixed_point(lambda p: 0.1 * A @ p + B, B, tol=1e-14)
    assert_close(x, np.linalg.solve(np.eye(2) - 0.1 * A, B))
    g = lambda m: np.sum(fg.fixed_point(lambda p: 0.1 * m @ p + B, B, tol=1e-14) ** 2)  # noqa: E731
    check_grads(g, [A])


def test_it_is_one_equation_however_many_steps():
    text = str(fg.make_jaxpr(fixed)(X, Y))
    assert text.count("fixed_point[") == 1


def test_without_rest():
    with pytest.raises(ArgumentError, match="maxiter=1000"):
        fg.fixed_point(lambda x: -x, 1.0)
    with pytest.raises(ArgumentError, match="infinity"):
        fg.grad(lambda a: fg.fixed_point(lambda x: a * x * x, 2.0))(3.0)
    with pytest.raises(ArgumentError, match="positive"):
        fg.fixed_point(np.cos, 1.0, tol=0.0)
