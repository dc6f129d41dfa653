"""scipy.optimize with derivatives: plain NumPy objectives, trees of parameters, one evaluation for
value and gradient.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, rosen, rosen_der

import fungrad as fg
from fungrad.errors import ArgumentError
from fungrad.scipy import optimize

START = np.array([1.3, 0.7, 0.8])
METHODS = (
    None, "Nelder-Mead", "Powell", "CG", "BFGS", "Newton-CG", "L-BFGS-B", "TNC", "COBYLA", "SLSQP",
    "trust-constr", "dogleg", "trust-ncg", "trust-exact", "trust-krylov",
)  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_minimize_by_every_method(method):
    def convex(x):  # dogleg wants a positive definite Hessian
        return np.sum(np.cosh(x - np.arange(3.0))) + 0.1 * np.sum(x) ** 2

    tol = 1e-8 if method in ("COBYLA", "trust-constr") else None
    result = optimize.minimize(convex, START, method=method, tol=tol)
    expected = scipy.optimize.minimize(convex, START, tol=1e-9).x
    np.testing.assert_allclose(result.x, expected, atol=1e-2 if method == "Powell" else 1e-3)
    assert result.x.dtype == np.float64
    assert result.success


@pytest.mark.parametrize("method", ["BFGS", "Newton-CG", "trust-krylov", "L-BFGS-B"])
def test_it_takes_the_steps_of_exact_derivatives(method):
    hess = {"hess": scipy.optimize.rosen_hess} if method in ("Newton-CG", "trust-krylov") else {}
    expected = scipy.optimize.minimize(rosen, START, jac=rosen_der, method=method, **hess)
    found = optimize.minimize(rosen, START, method=method)
    np.testing.assert_allclose(found.x, expected.x, atol=1e-4)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)
    assert abs(found.nfev - expected.nfev) <= 3


def test_value_and_gradient_come_of_one_evaluation():
    calls = []

    def f(x):
        calls.append(x)
        return np.sum((x - 1.0) ** 4)

    result = optimize.minimize(f, np.zeros(50), method="L-BFGS-B")
    assert len(calls) == result.nfev == result.njev


def test_a_tree_of_parameters():
    x = np.linspace(0.0, 1.0, 20)
    y = 2.0 * x - 0.5
    seen = []

    def loss(p, x, y):
        return np.mean((p["line"][0] * x + p["line"][1] - y) ** 2) + np.sum(p["w"] ** 2)

    start = {"line": (0.0, 1), "w": np.ones((2, 2), np.float32)}
    result = optimize.minimize(loss, start, (x, y), callback=seen.append, tol=1e-10)
    assert result.x["line"][0] == pytest.approx(2.0)
    assert result.x["line"][1] == pytest.approx(-0.5)
    assert result.x["w"].shape == (2, 2) and result.x["w"].dtype == np.float64
    assert result.jac["w"].shape == (2, 2)
    assert seen[-1]["w"].shape == (2, 2)
    loss_of = []
    optimize.minimize(
        loss, start, (x, y), method="trust-constr",
        callback=lambda p, state: loss_of.append(loss(p, x, y)),
    )  # fmt: skip
    assert loss_of[-1] < 1e-6

    def stop(intermediate_result):
        assert intermediate_result.x["w"].shape == (2, 2)
        raise StopIteration

    assert optimize.minimize(loss, start, (x, y), callback=stop).nit == 1


def test_what_scipy_takes_as_an_array_is_one():
    for start, shape in (([0, 0.5], (2,)), (2.0, (1,)), (np.float64(2.0), (1,)), ((1, 2, 3), (3,))):
        result = optimize.minimize(lambda x: np.sum((x - 3.0) ** 2), start)
        np.testing.assert_allclose(result.x, np.full(shape, 3.0), atol=1e-6)
        assert result.x.shape == shape
    square = optimize.minimize(lambda x: np.trace((x - 1.0).T @ (x - 1.0)), np.zeros((2, 2)))
    np.testing.assert_allclose(square.x, np.ones((2, 2)), atol=1e-6)
    pair = optimize.minimize(lambda p: np.sum(p[0] ** 2) + p[1] ** 2, [np.ones(2), 1.0])
    assert isinstance(pair.x, list) and pair.x[0].shape == (2,)


def test_float32_functions_are_minimized_in_float64():
    data = np.float32([1.0, 2.0])
    result = optimize.minimize(lambda x: np.sum((x.astype(np.float32) - data) ** 2), np.zeros(2))
    assert result.x.dtype == np.float64 and result.jac.dtype == np.float64


def test_a_compiled_objective():
    result = optimize.minimize(fg.jit(rosen), START)
    np.testing.assert_allclose(result.x, 1.0, atol=1e-4)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_constraints_and_bounds(method):
    def f(p):
        return (p["x"] - 1.0) ** 2 + (p["y"] - 2.5) ** 2

    def disc(p):
        return 1.0 - p["x"] ** 2 - p["y"] ** 2

    start = {"x": 0.1, "y": 0.1}
    expected = np.array([1.0, 2.5]) / np.hypot(1.0, 2.5)
    kinds = [{"type": "ineq", "fun": disc}, NonlinearConstraint(disc, 0.0, np.inf)]
    for constraint in (*kinds, [kinds[0]]):
        found = optimize.minimize(f, start, method=method, constraints=constraint, tol=1e-9)
        np.testing.assert_allclose([found.x["x"], found.x["y"]], expected, atol=1e-4)
    given = {"type": "ineq", "fun": lambda x: 1.0 - x @ x, "jac": lambda x: -2.0 * x}
    plain = optimize.minimize(
        lambda x: np.sum((x - 2.0) ** 2), np.zeros(2), method=method, constraints=given, tol=1e-9
    )
    np.testing.assert_allclose(plain.x, np.sqrt(0.5), atol=1e-4)
    straight = LinearConstraint(np.ones((1, 2)), -np.inf, 1.0)
    found = optimize.minimize(f, start, method=method, constraints=straight, bounds=[(0, 1)] * 2)
    np.testing.assert_allclose([found.x["x"], found.x["y"]], [0.0, 1.0], atol=1e-3)
    found = optimize.minimize(f, start, method=method, bounds=Bounds(0.0, 0.5))
    np.testing.assert_allclose([found.x["x"], found.x["y"]], [0.5, 0.5], atol=1e-3)


def test_control_flow_and_lists_of_traced_values():
    def f(x):
        values = np.array([x[0] - 1.0, 2.0 * x[1]])
        return np.sum(values**2) if x[0] > 0 else np.sum(values**2) + 1.0

    np.testing.assert_allclose(optimize.minimize(f, [5.0, 1.0]).x, [1.0, 0.0], atol=1e-6)


def test_mistakes():
    with pytest.raises(ArgumentError, match="has to return one number"):
        optimize.minimize(lambda x: x, np.ones(2))
    with pytest.raises(ArgumentError, match="real parameters"):
        optimize.minimize(lambda x: np.sum(np.abs(x)), np.ones(2) + 1j)


# --- root, least_squares, curve_fit, root_scalar --------------------------------------------------


@pytest.mark.parametrize("method", ["hybr", "lm", "krylov", "broyden1", "df-sane"])
def test_root(method):
    def f(x, a):
        return [x[0] + 0.5 * (x[0] - x[1]) ** 3 - a, 0.5 * (x[1] - x[0]) ** 3 + x[1]]

    found = optimize.root(f, [0.5, 0.3], 1.0, method=method)
    np.testing.assert_allclose(found.x, [0.8411639, 0.1588361], atol=1e-5)


def test_root_of_a_tree():
    calls = []

    def f(p):
        calls.append(p)
        return {"a": p["a"] ** 2 - 2.0, "b": p["b"] * p["a"] - np.array([1.0, 3.0])}

    found = optimize.root(f, {"a": 1.0, "b": np.ones(2)})
    np.testing.assert_allclose(found.x["a"], np.sqrt(2.0))
    np.testing.assert_allclose(found.x["b"], np.array([1.0, 3.0]) / np.sqrt(2.0))
    assert found.njev >= 1 and len(calls) <= found.nfev + 2


@pytest.mark.parametrize(
    "options", [{}, {"method": "lm"}, {"bounds": (0.0, 10.0)}, {"loss": "huber"}]
)
def test_least_squares(options):
    t = np.linspace(0.0, 2.0, 15)
    y = 3.0 * np.exp(-0.7 * t)
    found = optimize.least_squares(
        lambda p, t, *, y: p[0] * np.exp(-p[1] * t) - y, [1.0, 1.0], args=(t,), kwargs={"y": y},
        **options,
    )  # fmt: skip
    np.testing.assert_allclose(found.x, [3.0, 0.7], rtol=1e-6)


def test_least_squares_of_a_tree_with_fewer_residuals_than_parameters():
    found = optimize.least_squares(
        lambda p: (p["a"] * p["b"] - 2.0, np.sum(p["b"]) - 1.0), {"a": 1.0, "b": np.ones(3)}
    )
    np.testing.assert_allclose(found.x["a"] * found.x["b"], 2.0, rtol=1e-6)
    assert found.jac.shape == (4, 4)


def test_curve_fit():
    def model(x, a, b):
        return a * np.exp(-b * x)

    x = np.linspace(0.0, 2.0, 12)
    y = model(x, 2.0, 0.5) + 0.01 * np.sin(9 * x)
    for options in ({}, {"sigma": 1.0 + x}, {"bounds": (0.0, 5.0)}, {"p0": [1.0, 1.0]}):
        found, covariance = optimize.curve_fit(model, x, y, **options)
        expected, expected_covariance = scipy.optimize.curve_fit(model, x, y, **options)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        np.testing.assert_allclose(covariance, expected_covariance, rtol=1e-4)


@pytest.mark.parametrize(
    "options",
    [{"x0": 1.0}, {"x0": 1.0, "method": "newton"}, {"x0": 1.0, "method": "halley"},
     {"x0": 1.0, "x1": 2.0}, {"bracket": (0.0, 2.0)}, {"bracket": (0.0, 2.0), "method": "bisect"}],
)  # fmt: skip
def test_root_scalar(options):
    calls = []

    def f(x, a):
        calls.append(x)
        return np.cos(x) - a * x

    found = optimize.root_scalar(f, 1.0, **options)
    assert found.converged
    np.testing.assert_allclose(found.root, 0.7390851332151607, atol=1e-8)
    assert len(calls) <= found.function_calls


def test_the_namespace_is_scipys():
    assert optimize.Bounds is Bounds
    assert {"minimize", "brentq"} <= set(dir(optimize))
    assert fg.scipy.optimize is optimize
