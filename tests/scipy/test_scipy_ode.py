"""solve_ivp and odeint: SciPy's steps, and both gradients against finite differences, each other,
and closed forms.
"""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
import scipy.integrate

import fungrad as fg
from fungrad.compiler.cost_model import costs
from fungrad.errors import (
    AbstractValueError,
    ArgumentError,
    ShapeError,
    UnsupportedArgumentError,
)
from fungrad.scipy.integrate import odeint, solve_ivp
from fungrad.testing import check_grads

METHODS = ("RK45", "RK23", "DOP853")
GRADIENTS = ("direct", "adjoint")
START = np.array([1.0, 0.3])
TIGHT = {"rtol": 1e-11, "atol": 1e-11}


def pendulum(t, y, stiffness):
    return np.array([y[1], -stiffness * np.sin(y[0]) - 0.2 * y[1] * np.cos(t)])


# --- values ---------------------------------------------------------------------------------------


SPANS = ((0.0, 5.0), (5.0, 0.0), (-1, 2))
OPTIONS = (
    {}, {"max_step": 0.3}, {"first_step": 0.01}, {"atol": [1e-3, 1e-8]}
)  # fmt: skip


@pytest.mark.parametrize(
    ("method", "span", "options"),
    [(m, SPANS[(i + j) % 3], o) for i, m in enumerate(METHODS) for j, o in enumerate(OPTIONS)],
)
def test_the_steps_are_scipys(method, span, options):
    for t_eval in (None, np.linspace(*span, 7), np.linspace(*span, 9)[2:6]):
        given = (pendulum, span, START, method, t_eval)
        expected = scipy.integrate.solve_ivp(*given, args=(1.3,), **options)
        found = solve_ivp(*given, args=(1.3,), **options)
        # The eighth order meets tolerances so easily that rounding moves its steps.
        tolerance = 1e-8 if method == "DOP853" else 1e-12
        np.testing.assert_allclose(found.t, expected.t, atol=tolerance)
        np.testing.assert_allclose(found.y, expected.y, atol=tolerance)
        assert found.y.dtype == expected.y.dtype
        assert found.status == 0 and found.success and found.message == expected.message
        if method != "DOP853":  # whose interpolants take evaluations of their own
            assert found.nfev == expected.nfev
        if t_eval is not None:
            staged = fg.jit(lambda p, given=given: solve_ivp(*given, args=(p,), **options))(1.3)
            np.testing.assert_allclose(staged.y, found.y, atol=1e-3 * tolerance)
            assert staged.nfev == found.nfev and staged["status"] == 0


def test_complex_states_and_vectorized_functions():
    matrix = np.array([[-0.25 + 0.14j, 0.33 + 0.44j], [0.2 + 0.4j, -0.1 + 0.97j]])
    y0 = [1.0 + 0j, 2.0]
    expected = scipy.integrate.solve_ivp(lambda t, y: matrix @ y, (0, 3), y0)
    for vectorized in (False, True):
        found = solve_ivp(lambda t, y: matrix @ y, (0, 3), y0, vectorized=vectorized)
        np.testing.assert_allclose(found.y, expected.y, rtol=1e-9)  # rounding moves the steps


def test_a_system_without_equations_and_an_interval_without_length():
    assert solve_ivp(lambda t, y: y, (0, 1), []).y.shape[0] == 0
    none = solve_ivp(lambda t, y: -y, (1.0, 1.0), [2.0], t_eval=[1.0])
    assert none.y.tolist() == [[2.0]]
    staged = fg.jit(lambda y: solve_ivp(lambda t, y: -y, (1.0, 1.0), y, t_eval=np.ones(1)).y)
    assert staged(np.array([2.0])).tolist() == [[2.0]]


@pytest.mark.slow
def test_dense_output():
    times = np.array([[0.1, 0.7], [1.9, 0.0]])
    for method in METHODS:
        given = (pendulum, (0.0, 2.0), START, method, None, True)
        expected = scipy.integrate.solve_ivp(*given, args=(1.3,))
        found = solve_ivp(*given, args=(1.3,))
        np.testing.assert_allclose(found.sol(0.4), expected.sol(0.4), atol=1e-8)
        np.testing.assert_allclose(found.sol(times[0]), expected.sol(times[0]), atol=1e-8)
        assert found.sol(times).shape == (2, 2, 2)
        given = (pendulum, (0.0, 0.3), START, method, None, True)
        tolerance = 1e-7 if method == "RK23" else 1e-9
        check_grads(
            lambda p, t, given=given, tolerance=tolerance: solve_ivp(
                *given, args=(p,), rtol=tolerance, atol=tolerance
            ).sol(t),
            [1.3, np.array([0.05, 0.22])], order=1, atol=1e-4,
        )  # fmt: skip


def test_scipys_other_solvers_and_events_on_plain_arrays():
    event = lambda t, y: y[0]  # noqa: E731
    expected = scipy.integrate.solve_ivp(lambda t, y: -np.ones(1), (0, 2), [1.0], events=event)
    found = solve_ivp(lambda t, y: -np.ones(1), (0, 2), [1.0], events=event)
    np.testing.assert_allclose(found.t_events[0], expected.t_events[0])
    for method in ("Radau", "BDF", "LSODA", scipy.integrate.Radau):
        found = solve_ivp(pendulum, (0.0, 2.0), START, method, args=(1.3,))
        expected = scipy.integrate.solve_ivp(pendulum, (0.0, 2.0), START, method, args=(1.3,))
        np.testing.assert_array_equal(found.y, expected.y)


def test_a_solution_that_ends():
    def explosive(t, y, rate):
        return rate * y**2

    given = (explosive, (0.0, 2.0), [1.0])
    for t_eval in (None, np.linspace(0.0, 2.0, 9)):
        with np.errstate(all="ignore"):
            expected = scipy.integrate.solve_ivp(*given, t_eval=t_eval, args=(1.0,))
            found = solve_ivp(*given, t_eval=t_eval, args=(1.0,))
        assert found.status == expected.status == -1 and not found.success
        assert found.message == expected.message
        assert found.y.shape == expected.y.shape
        # Near the pole all depends on rounding.
        np.testing.assert_allclose(found.y[:, :4], expected.y[:, :4], rtol=1e-9)
    with np.errstate(all="ignore"):
        staged = fg.jit(lambda p: solve_ivp(*given, t_eval=np.linspace(0, 2, 9), args=(p,)))(1.0)
    assert staged.status == -1
    assert (
        np.isfinite(staged.y[0]).tolist()
        == [True] * 4 + [bool(np.isfinite(staged.y[0, 4]))] + [False] * 4
    )


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("span", [(0.0, 0.4), (0.4, 0.0)])
def test_by_everything(gradient, span):
    def final(stiffness, y0, scale):
        times = np.linspace(*span, 4) * scale
        return solve_ivp(
            pendulum, (times[0], times[-1]), y0, t_eval=times, args=(stiffness,),
            gradient=gradient, **TIGHT,
        ).y  # fmt: skip

    check_grads(final, [1.3, START, 1.1], order=1)


@pytest.mark.slow
def test_second_order():
    def final(stiffness, y0, gradient="direct"):
        return solve_ivp(
            pendulum, (0.0, 0.4), y0, "RK23", t_eval=np.array([0.1, 0.4]), args=(stiffness,),
            gradient=gradient, rtol=1e-7, atol=1e-7,
        ).y  # fmt: skip

    loose = {"atol": 1e-3, "rtol": 1e-3, "eps": 1e-3}
    check_grads(final, [1.3, START], order=2, **loose)

    weights, along = np.array([[0.7, -1.1], [0.4, 1.6]]), (0.8, np.array([1.2, -0.6]))

    def pushed(f):
        return lambda *xs: fg.jvp(f, xs, along)[1]

    def pulled(f):
        def slope(*xs):
            return sum(np.sum(g * t) for g, t in zip(fg.grad(f, (0, 1))(*xs), along, strict=True))

        return slope

    expected = pushed(pulled(lambda p, y: np.sum(weights * final(p, y))))(1.3, START)
    f = lambda p, y: np.sum(weights * final(p, y, "adjoint"))  # noqa: E731
    for second in (pushed(pushed(f)), pushed(pulled(f)), pulled(pushed(f)), pulled(pulled(f))):
        np.testing.assert_allclose(second(1.3, START), expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("gradient", GRADIENTS)
def test_without_t_eval(gradient):
    def final(stiffness, y0, end):
        return solve_ivp(pendulum, (0.1, end), y0, args=(stiffness,), gradient=gradient, **TIGHT).y[
            :, -1
        ]

    check_grads(final, [1.3, START, 0.5], order=1)
    assert fg.hessian(lambda y0: final(1.3, y0, 0.2)[0])(START).shape == (2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("gradient", GRADIENTS)
def test_times_between_the_ends(gradient):
    def values(times, start):
        return solve_ivp(
            pendulum, (start, 1.0), START, t_eval=times, args=(1.3,), gradient=gradient, **TIGHT
        ).y

    check_grads(values, [np.array([0.2, 0.5, 0.8]), 0.1], order=1, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("gradient", GRADIENTS)
def test_complex_derivatives(gradient):
    def rotation(rate, y0):
        return solve_ivp(
            lambda t, y: 1j * rate * y, (0.0, 0.4), y0, t_eval=[0.2, 0.4], gradient=gradient,
            **TIGHT,
        ).y  # fmt: skip

    y0 = np.array([1 + 0.5j, 0.3])
    check_grads(rotation, [1.3, y0], order=1)
    check_grads(rotation, [1.3 + 0.2j, y0], order=1)


def loss(stiffness, y0, method="RK45", gradient="direct", tolerance=1e-9):
    return np.sum(
        solve_ivp(
            pendulum, (0.0, 0.4), y0, method, t_eval=np.linspace(0, 0.4, 3), args=(stiffness,),
            gradient=gradient, rtol=tolerance, atol=tolerance,
        ).y
        ** 2
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"dense_output": True}], ids=str)
def test_eager_derivatives_by_single_steps_are_those_of_a_scan(options, monkeypatch):
    def f(p):
        found = solve_ivp(pendulum, (0.0, 1.0), p[1:], args=(p[0],), rtol=1e-4, **options)
        return np.sum((found.sol(0.5) if "dense_output" in options else found.y[:, -1]) ** 2)

    p = np.array([1.3, *START])
    wanted = (fg.grad(f), fg.hessian(f), lambda p: fg.jvp(f, (p,), (p,))[1])
    one_by_one = [g(p) for g in wanted]
    monkeypatch.setattr(costs, "eager_steps", 0)
    for found, g in zip(one_by_one, wanted, strict=True):
        np.testing.assert_allclose(found, g(p), rtol=1e-11)


@functools.cache
def gradients_by_differences():
    """Of the loss, by SciPy's solver, at (1.3, START) and at (2.0, 2 * START)."""

    def plain(p):
        given = (pendulum, (0.0, 0.4), p[1:], "DOP853", np.linspace(0, 0.4, 3))
        found = scipy.integrate.solve_ivp(*given, args=(p[0],), rtol=1e-13, atol=1e-13)
        return np.sum(found.y**2)

    def slopes(stiffness, y0):
        p, eps = np.array([stiffness, *y0]), 1e-5
        slope = [(plain(p + eps * e) - plain(p - eps * e)) / (2 * eps) for e in np.eye(3)]
        return slope[0], np.array(slope[1:])

    return slopes(1.3, START), slopes(2.0, 2 * START)


def test_solvers_of_scipy_have_the_adjoint_alone():
    for method in ("Radau", "BDF", "LSODA"):
        with pytest.raises(UnsupportedArgumentError, match="adjoint"):
            fg.grad(loss)(1.3, START, method, "direct")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "gradient"),
    [
        *[(method, "direct") for method in METHODS],
        *[(method, "adjoint") for method in ("DOP853", "Radau", "BDF", "LSODA")],
    ],
)
def test_all_transforms_agree(method, gradient):
    tolerance, rtol = 1e-7, 2e-5
    expected, second = gradients_by_differences()

    def gradients(stiffness, y0):
        return fg.grad(loss, (0, 1))(stiffness, y0, method, gradient, tolerance)

    stiffness, starts = np.array([1.3, 2.0]), np.stack([START, 2 * START])
    for found in (gradients(1.3, START), fg.jit(gradients)(1.3, START)):
        np.testing.assert_allclose(found[0], expected[0], rtol=rtol)
        np.testing.assert_allclose(found[1], expected[1], rtol=rtol)
    batched = fg.vmap(gradients)(stiffness, starts)
    np.testing.assert_allclose(batched[0], [expected[0], second[0]], rtol=rtol)
    np.testing.assert_allclose(batched[1], [expected[1], second[1]], rtol=rtol)
    _, pushed = fg.jvp(
        lambda p, y: loss(p, y, method, gradient, tolerance), (1.3, START), (1.0, START)
    )
    np.testing.assert_allclose(pushed, expected[0] + expected[1] @ START, rtol=rtol)


@pytest.mark.slow
@pytest.mark.parametrize("gradient", GRADIENTS)
def test_what_the_function_closes_over(gradient):
    def of_tree(p):
        def fun(t, y):
            return np.tanh(p["w"] @ y) + p["b"] * p["count"]

        return np.sum(solve_ivp(fun, (0, 0.4), START, t_eval=[0.4], gradient=gradient, **TIGHT).y)

    p = {"w": np.array([[0.1, 0.5], [-0.3, 0.2]]), "b": 0.3, "count": 2}
    wrt = {"w": p["w"], "b": p["b"]}
    check_grads(lambda q: of_tree({**q, "count": 2}), [wrt], order=1)
    found = fg.jit(fg.grad(lambda q: of_tree({**q, "count": 2})))(wrt)
    eager = fg.grad(lambda q: of_tree({**q, "count": 2}))(wrt)
    np.testing.assert_allclose(found["w"], eager["w"], rtol=1e-10)


@pytest.mark.slow
def test_values_are_the_same_under_derivatives():
    times = np.linspace(0.0, 1.0, 4)
    for gradient in GRADIENTS:

        def f(p, gradient=gradient):
            return solve_ivp(
                pendulum, (0.0, 1.0), START, t_eval=times, args=(p,), gradient=gradient
            ).y

        plain = f(1.3)
        np.testing.assert_allclose(fg.jvp(f, (1.3,), (1.0,))[0], plain, rtol=1e-12)
        np.testing.assert_allclose(fg.vjp(f, 1.3)[0], plain, rtol=1e-12)


@pytest.mark.slow
def test_a_stiff_problem_by_the_adjoint():
    # Robertson's kinetics; the derivative by the first rate against central differences.
    def kinetics(t, y, rates):
        a, b, c = rates[0] * y[0], rates[1] * y[1] ** 2, rates[2] * y[1] * y[2]
        return np.stack([c - a, a - b - c, b])

    def final(rates, method="Radau"):
        return solve_ivp(
            kinetics, (0.0, 40.0), [1.0, 0.0, 0.0], method, t_eval=[40.0], args=(rates,),
            gradient="adjoint", rtol=1e-8, atol=1e-11,
        ).y[0, 0]  # fmt: skip

    rates = np.array([0.04, 3e7, 1e4])
    slopes = [
        (final(rates * (1 + 1e-4 * unit)) - final(rates * (1 - 1e-4 * unit))) / (2e-4 * rate)
        for rate, unit in zip(rates, np.eye(3), strict=True)
    ]
    for method in ("Radau", "BDF", "LSODA"):
        np.testing.assert_allclose(fg.grad(final)(rates, method), slopes, rtol=1e-5)
        pushed = fg.jvp(lambda r, m=method: final(r, m), (rates,), (rates,))[1]
        np.testing.assert_allclose(pushed, slopes @ rates, rtol=1e-5)


@pytest.mark.slow
def test_second_order_by_scipys_solvers():
    def final(rate, y0):
        return solve_ivp(
            lambda t, y: -rate * y**2, (0.0, 1.0), [y0], "BDF", t_eval=[1.0], gradient="adjoint",
            rtol=1e-9, atol=1e-9,
        ).y[0, 0]  # fmt: skip

    for second in (fg.grad(fg.grad(final)), fg.jacfwd(fg.grad(final)), fg.jacfwd(fg.jacfwd(final))):
        np.testing.assert_allclose(second(1.5, 1.0), 2 / 2.5**3, rtol=1e-6)


# --- odeint ---------------------------------------------------------------------------------------


def ground(t, y, *args):
    return y[0]


def apex(t, y, *args):
    return y[1]


def fall(t, y, gravity):
    return np.array([y[1], -gravity + 0.0 * y[0]])


def under_vjp(span, options):
    found = []

    def solved(y):
        found.append(fg.stop_gradient(solve_ivp(pendulum, span, y, **options)))
        return y

    fg.vjp(solved, START)
    return found[0]


@pytest.mark.parametrize("terminal", [True, 2, False])
def test_events_are_scipys(terminal):
    def crossing(t, y, *args):
        return np.sin(y[0] - 0.2)

    crossing.terminal, crossing.direction = terminal, 0
    down = lambda t, y, *args: y[1] + 0.1 * t  # noqa: E731
    down.direction = -1.0
    for span in ((0.0, 9.0), (9.0, 0.0)):
        for t_eval in (None, np.linspace(*span, 7)):
            options = {"t_eval": t_eval, "args": (1.3,), "events": [crossing, down]}
            expected = scipy.integrate.solve_ivp(pendulum, span, START, **options)
            result = under_vjp(span, options)
            for name in ("t", "y"):
                np.testing.assert_allclose(result[name], expected[name], atol=1e-9)
            for name in ("t_events", "y_events"):
                for ours, theirs in zip(result[name], expected[name], strict=True):
                    np.testing.assert_allclose(ours, np.reshape(theirs, ours.shape), atol=1e-9)
            assert result.status == expected.status and result.message == expected.message
            assert result.nfev == expected.nfev


@pytest.mark.slow
def test_derivatives_of_events():
    def flight(speed, gravity):
        ground.terminal, ground.direction = True, -1.0
        found = solve_ivp(
            fall, (0.0, 50.0), np.array([1e-12 + 0.0 * speed, speed]), args=(gravity,),
            events=[ground, apex], dense_output=True, rtol=1e-10, atol=1e-10,
        )  # fmt: skip
        assert found.t.shape[0] == found.y.shape[1] and found.status == 1
        top = found.t_events[1][0]
        return found.t_events[0][0], top, found.y_events[1][0][0], found.t[-1], found.sol(top)[0]

    speed, gravity = 3.0, 9.81
    for i, exact in enumerate(
        (
            lambda v, g: 2 * v / g,
            lambda v, g: v / g,
            lambda v, g: v**2 / (2 * g),
            lambda v, g: 2 * v / g,
            lambda v, g: v**2 / (2 * g),
        )
    ):
        given = (speed, gravity)
        ours = fg.grad(lambda v, g, i=i: flight(v, g)[i], (0, 1))(*given)
        np.testing.assert_allclose(ours, fg.grad(exact, (0, 1))(*given), rtol=1e-6)
        pushed = fg.jvp(lambda v, g, i=i: flight(v, g)[i], given, (1.0, 1.0))[1]
        np.testing.assert_allclose(pushed, sum(ours), rtol=1e-8)
    second = fg.grad(fg.grad(lambda v: flight(v, gravity)[2]))(speed)
    np.testing.assert_allclose(second, 1 / gravity, rtol=1e-6)


def test_odeint_is_scipys():
    t = np.array([0.0, 0.5, 0.5, 2.0])
    for y0 in ([1.0, 2.0], 1.0, np.float32([1.0])):
        expected = scipy.integrate.odeint(lambda y, t, a: -a * y * t, y0, t, (1.5,))
        found = odeint(lambda y, t, a: -a * y * t, y0, t, (1.5,))
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert found.shape == expected.shape and found.dtype == expected.dtype
    first = odeint(lambda t, y: -y * t, [1.0], t, tfirst=True)
    np.testing.assert_allclose(first[:, 0], np.exp(-(t**2) / 2), atol=1e-6)
    down = odeint(lambda y, t: -y, [1.0], -t, args=())
    np.testing.assert_allclose(down[:, 0], np.exp(t), rtol=1e-6)
    staged = fg.jit(lambda t: odeint(lambda y, t: -y, [1.0], t))(t)
    np.testing.assert_allclose(staged[:, 0], np.exp(-t), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("gradient", GRADIENTS)
def test_odeint_of_trees(gradient):
    t = np.array([0.0, 0.2, 0.4])

    def total(p, y0):
        def func(y, t, p):
            return {"x": -p["rate"] * y["x"], "z": y["x"] @ y["z"]}

        out = odeint(func, y0, t, p, rtol=1e-10, atol=1e-10, gradient=gradient)
        assert out["x"].shape == (3, 2, 2)
        return np.sum(out["z"] ** 2) + np.sum(out["x"][-1])

    check_grads(total, [{"rate": 2.0}, {"x": np.eye(2) * 0.5, "z": np.ones(2)}], order=1)
    by_time = fg.grad(lambda t: odeint(lambda y, t: -y * t, 1.0, t, rtol=1e-10, atol=1e-10)[-1, 0])(
        np.array([0.2, 1.0])
    )
    value = np.exp(-(1.0 - 0.04) / 2)
    np.testing.assert_allclose(by_time, [0.2 * value, -value], rtol=1e-7)


def test_odeint_by_lsoda():
    t = np.linspace(0.0, 1.0, 3)

    def final(rate):
        return odeint(
            lambda y, t: -rate * (y - np.cos(t)), 0.0, t, method="LSODA", gradient="adjoint"
        )[-1, 0]

    slope = (final(1000.1) - final(999.9)) / 0.2
    np.testing.assert_allclose(fg.grad(final)(1000.0), slope, rtol=1e-2)


# --- mistakes -------------------------------------------------------------------------------------


def test_mistakes():
    def decay(t, y):
        return -y

    for call in (
        lambda f: f(decay, (0, 1), [[1.0]]),
        lambda f: f(decay, (0, 1), [np.nan]),
        lambda f: f(decay, (0, 1), [1.0], t_eval=[0.5, 2.0]),
        lambda f: f(decay, (0, 1), [1.0], t_eval=[0.5, 0.2]),
        lambda f: f(decay, (0, 1), [1.0], t_eval=[[0.5]]),
        lambda f: f(decay, (0, 1), [1.0], max_step=-1.0),
        lambda f: f(decay, (0, 1), [1.0], first_step=-1.0),
        lambda f: f(decay, (0, 1), [1.0], atol=-1.0),
        lambda f: f(decay, (0, 1), [1.0], atol=[1.0, 1.0]),
        lambda f: f(decay, (0, 1), [1.0], method="RK4"),
    ):
        for solver in (scipy.integrate.solve_ivp, solve_ivp):
            with pytest.raises(ValueError):
                call(solver)
    with pytest.warns(UserWarning, match="rtol"):
        solve_ivp(decay, (0, 1), [1.0], rtol=1e-20)
    with pytest.raises(ArgumentError, match="gradient='discrete'"):
        solve_ivp(decay, (0, 1), [1.0], gradient="discrete")
    with pytest.raises(ShapeError, match="has to return an array of the shape"):
        solve_ivp(lambda t, y: np.ones(3), (0, 1), [1.0])
    with pytest.raises(AbstractValueError, match="t_eval"):
        fg.jit(lambda y: solve_ivp(decay, (0, 1), y).y, branches="error")(np.ones(1))
    with pytest.raises(AbstractValueError, match="t_eval"):
        fg.vmap(lambda y: solve_ivp(decay, (0, 1), y).y)(np.array([[1.0], [2.0]]))
    with pytest.raises(UnsupportedArgumentError, match="events"):
        fg.grad(
            lambda a: solve_ivp(decay, (0, 1), [a], events=lambda t, y: y[0], gradient="adjoint").y[
                0, -1
            ]
        )(1.0)
    with pytest.raises(AbstractValueError, match="t_eval"):
        fg.jit(
            lambda a: solve_ivp(decay, (0, 1), [a], events=lambda t, y: y[0]).y, branches="error"
        )(1.0)
    with pytest.raises(UnsupportedArgumentError, match="dense_output"):
        fg.grad(
            lambda a: solve_ivp(decay, (0, 1), [a], dense_output=True, gradient="adjoint").sol(0.5)[
                0
            ]
        )(1.0)
    with pytest.raises(UnsupportedArgumentError, match="mxstep"):
        odeint(lambda y, t: -y, 1.0, [0.0, 1.0], mxstep=5)
    with pytest.raises(TypeError, match="unexpected keyword"):
        odeint(lambda y, t: -y, 1.0, [0.0, 1.0], tolerance=5)
    with pytest.warns(UserWarning, match="did not reach"), np.errstate(all="ignore"):
        out = odeint(lambda y, t: y**2, 1.0, [0.0, 0.5, 2.0])
    assert np.isfinite(out[:2]).all() and np.isnan(out[2]).all()


@pytest.mark.slow
def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for gradient in GRADIENTS:
            f = lambda p, g=gradient: loss(p, START, "RK45", g, 1e-6)  # noqa: E731
            fg.jit(fg.grad(f))(1.3)
            fg.vmap(f)(np.array([1.0, 30.0]))


def test_derivatives_where_only_a_call_finds_the_traced_value():
    times = np.linspace(0.0, 1.0, 3)
    weights = np.array([0.3, -1.0, 0.7])

    class System:  # as packages hold the user's function
        def __init__(self, update):
            self.held = {"update": {"of": {"system": update}}}

        def right(self, t, y):
            return self.held["update"]["of"]["system"](t, y)

    def f(p, **options):
        system = System(lambda t, y: np.array([y[1], -p[0] * np.sin(y[0]) - p[1] * y[1] + 0.2]))
        found = scipy.integrate.solve_ivp(
            lambda t, y: system.right(t, y), (0.0, 1.0), [0.5, 0.0], t_eval=times, **options
        )
        return np.sum(weights * found.y[0])

    def variations(t, z):
        """The equations of y, of dy/dp and of its symmetric second derivatives."""
        y, d, dd = z[:2], z[2:6].reshape(2, 2), z[6:].reshape(2, 2, 2)
        sine, cosine = np.sin(y[0]), np.cos(y[0])
        e0, e1 = np.eye(2)
        slope = -sine * e0 - p[0] * cosine * d[0] - y[1] * e1 - p[1] * d[1]
        mixed = -cosine * np.outer(e0, d[0]) - np.outer(e1, d[1])
        bend = mixed + mixed.T + p[0] * sine * np.outer(d[0], d[0])
        bend = bend - p[0] * cosine * dd[0] - p[1] * dd[1]
        moved = np.array([y[1], -p[0] * sine - p[1] * y[1] + 0.2])
        return np.concatenate([moved, d[1], slope, dd[1].ravel(), bend.ravel()])

    p = np.array([1.0, 0.4])
    exact = scipy.integrate.solve_ivp(
        variations, (0.0, 1.0), [0.5, *[0.0] * 13], "DOP853", t_eval=times, rtol=1e-12, atol=1e-14
    ).y
    first, second = exact[2:4] @ weights, (exact[6:10] @ weights).reshape(2, 2)
    of = functools.partial(f, rtol=1e-7, atol=1e-9)
    for gradient in (fg.grad(of), fg.jacfwd(of)):
        assert np.allclose(gradient(p), first, rtol=0, atol=1e-5 * np.abs(first).max())
    hessian = fg.jit(fg.hessian(of))(p)
    assert np.allclose(hessian, second, rtol=0, atol=1e-5 * np.abs(second).max())
    assert np.allclose(hessian, hessian.T, rtol=1e-12)
