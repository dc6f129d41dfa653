"""fungrad.interop.openmdao and casadi: exact derivatives inside of optimisers' models."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import ArgumentError

# --- OpenMDAO -------------------------------------------------------------------------------------


@pytest.fixture
def om():
    return pytest.importorskip("openmdao.api")


@pytest.fixture
def component(om):
    return pytest.importorskip("fungrad.interop.openmdao").ExplicitComponent


def paraboloid(x, y):
    return (x - 3.0) ** 2 + x * y + (y + 4.0) ** 2 - 3.0


def test_the_examples_in_the_docstrings_of_openmdao(component):
    module = pytest.importorskip("fungrad.interop.openmdao")
    found = doctest.testmod(module)
    assert found.attempted > 5 and found.failed == 0


def test_the_first_example_of_openmdaos_documentation(om, component):
    problem = om.Problem(reports=False)
    made = component(paraboloid, {"x": 3.0, "y": -4.0}, ["f_xy"])
    problem.model.add_subsystem("parabola", made, promotes=["*"])
    problem.driver = om.ScipyOptimizeDriver(optimizer="SLSQP", disp=False)
    problem.model.add_design_var("x", lower=-50, upper=50)
    problem.model.add_design_var("y", lower=-50, upper=50)
    problem.model.add_objective("f_xy")
    problem.setup()
    problem.run_driver()
    assert problem.get_val("f_xy")[0] == pytest.approx(-82.0 / 3.0)
    assert problem.get_val("x")[0] == pytest.approx(20.0 / 3.0, rel=1e-5)
    assert problem.get_val("y")[0] == pytest.approx(-22.0 / 3.0, rel=1e-5)


def test_partials_are_sparse_and_exact(om, component):
    def rod(u, k):
        flux = k * np.diff(u)
        return np.diff(flux), np.sum(flux**2)

    made = component(rod, {"u": np.linspace(0.0, 1.0, 30) ** 2, "k": np.ones(29)}, ["r", "e"])
    problem = om.Problem(reports=False)
    problem.model.add_subsystem("rod", made, promotes=["*"])
    problem.setup(force_alloc_complex=False)
    problem.run_model()
    data = problem.check_partials(out_stream=None, method="fd", step=1e-6)["rod"]
    for key in (("r", "u"), ("r", "k"), ("e", "u"), ("e", "k")):
        np.testing.assert_allclose(data[key]["J_fwd"], data[key]["J_fd"], rtol=2e-4, atol=1e-4)
    entries = {
        (of.split(".")[-1], wrt.split(".")[-1]): len(info["rows"])
        for (of, wrt), info in made._subjacs_info.items()
        if info["rows"] is not None
    }
    assert entries["r", "u"] == 3 * 28 and entries["r", "k"] == 2 * 28


def test_units_and_wrong_numbers_of_outputs(om, component):
    problem = om.Problem(reports=False)
    made = component(
        lambda d, t: d / t, {"d": 10.0, "t": 2.0}, ["v"], units={"d": "m", "t": "s", "v": "m/s"}
    )
    problem.model.add_subsystem("speed", made, promotes=["*"])
    problem.setup()
    problem.set_val("d", 36.0, units="km")
    problem.run_model()
    assert problem.get_val("v", units="km/h")[0] == pytest.approx(64800.0)
    with pytest.raises(ArgumentError, match="returns 1 results, but outputs= names a, b"):
        wrong = om.Problem(reports=False)
        wrong.model.add_subsystem("wrong", component(np.sin, {"x": 1.0}, ["a", "b"]))
        wrong.setup()
        wrong.run_model()


# --- CasADi ---------------------------------------------------------------------------------------


@pytest.fixture
def casadi():
    return pytest.importorskip("casadi")


@pytest.fixture
def callback(casadi):
    return pytest.importorskip("fungrad.interop.casadi").Callback


def test_the_examples_in_the_docstrings_of_casadi(callback):
    module = pytest.importorskip("fungrad.interop.casadi")
    found = doctest.testmod(module)
    assert found.attempted > 4 and found.failed == 0


def test_jacobians_and_hessians_of_several_arguments(casadi, callback):
    def f(x, a):
        return np.sum(a @ np.sin(x)) + a[0, 1] * x[0] ** 2

    ours = callback(f, [3, (2, 3)])
    x, a = casadi.MX.sym("x", 3), casadi.MX.sym("a", 2, 3)
    theirs = casadi.sum1(a @ casadi.sin(x)) + a[0, 1] * x[0] ** 2
    point = [np.array([0.3, 1.0, 2.0]), np.arange(6.0).reshape(2, 3)]
    for make in (casadi.gradient, lambda y, v: casadi.hessian(y, v)[0]):
        for variable in (x, a) if make is casadi.gradient else (x,):
            found = casadi.Function("f", [x, a], [make(ours(x, a), variable)])(*point)
            expected = casadi.Function("g", [x, a], [make(theirs, variable)])(*point)
            np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-12)


def test_results_that_are_matrices(casadi, callback):
    ours = callback(lambda x: np.outer(x, x**2), [2])
    x = casadi.MX.sym("x", 2)
    theirs = x @ (x**2).T
    point = np.array([0.7, 1.3])
    for order in range(2):
        y, z = ours(x), theirs
        if order:
            y, z = casadi.jacobian(y, x), casadi.jacobian(z, x)
        found = casadi.Function("f", [x], [y])(point)
        np.testing.assert_allclose(
            np.array(found), np.array(casadi.Function("g", [x], [z])(point)), rtol=1e-12
        )


def test_ipopt_solves_with_exact_hessians(casadi, callback):
    objective = callback(
        lambda x: (1.0 - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2, [2], "rosen"
    )
    ring = callback(lambda x: np.stack([x[0] ** 2 + x[1] ** 2, x[0] * x[1]]), [2], "ring")
    x = casadi.MX.sym("x", 2)
    quiet = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes"}}
    solver = casadi.nlpsol("s", "ipopt", {"x": x, "f": objective(x), "g": ring(x)}, quiet)
    found = solver(x0=[-1.0, 0.5], lbg=[-np.inf, -np.inf], ubg=[1.5, 10.0])
    assert solver.stats()["success"] and solver.stats()["iter_count"] < 60
    y = np.array(found["x"]).ravel()
    assert y @ y <= 1.5 + 1e-6 and float(found["f"]) < 0.05


def test_the_first_example_of_cyipopts_documentation():
    cyipopt = pytest.importorskip("cyipopt")
    start, low = np.array([1.0, 5.0, 5.0, 1.0]), np.ones(4)
    problem = fg.sparse.IpoptProblem(
        lambda x: x[0] * x[3] * np.sum(x[:3]) + x[2],
        lambda x: np.array([np.prod(x), np.dot(x, x)]),
        start,
    )
    solver = cyipopt.Problem(
        n=4, m=2, problem_obj=problem, lb=low, ub=5.0 * low, cl=[25.0, 40.0], cu=[2e19, 40.0]
    )
    solver.add_option("print_level", 0)
    solver.add_option("sb", "yes")
    x, information = solver.solve(start)
    assert information["status"] == 0
    np.testing.assert_allclose(x, [1.0, 4.74299963, 3.82114998, 1.37940829], rtol=1e-6)
