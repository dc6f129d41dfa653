"""Heat, batteries, aircraft, ground: ht, impedance, openap, discretize."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.whole_jobs import job, row


@job("ht", "Nusselt number in a pipe", row(20000.0, 4.0))
def nusselt_number_in_a_pipe() -> Any:
    import ht

    return lambda p: (
        ht.Nu_conv_internal(Re=p[0], Pr=p[1]) + ht.turbulent_Gnielinski(Re=p[0], Pr=p[1], fd=0.02)
    )


@job("ht", "effectiveness-NTU of an exchanger", row(5.2, 1.45, 300.0))
def effectiveness_ntu_of_an_exchanger() -> Any:
    import ht

    return lambda p: (
        ht.effectiveness_NTU_method(
            mh=p[0],
            mc=p[1],
            Cph=1860.0,
            Cpc=1900.0,
            subtype="counterflow",
            Thi=130.0,
            Tci=15.0,
            UA=p[2] * 10,
        )["Q"]
        / 100000.0
    )


@job("ht", "fin efficiency and radiation", row(2.54, 5.715, 0.38))
def fin_efficiency_and_radiation() -> Any:
    import ht

    return lambda p: (
        ht.fin_efficiency_Kern_Kraus(
            Do=p[0] / 100, D_fin=p[1] / 100, t_fin=p[2] / 1000, k_fin=200.0, h=58.0
        )
        + ht.q_rad(emissivity=0.8, T=300.0 + p[0], T2=280.0) / 1000.0
    )


@job("impedance", "Randles circuit", row(0.1, 0.2, 1.0, 0.5, 0.3))
def randles_circuit() -> Any:
    from impedance.models.circuits import CustomCircuit

    w = np.logspace(-1, 3, 7)

    def f(p):
        c = CustomCircuit("R0-p(R1,C1)-W1", initial_guess=[p[0], p[1], p[2], p[3]])
        return np.sum(np.abs(c.predict(w, use_initial=True) - p[4]) ** 2)

    return f


@job("impedance", "constant phase and Gerischer elements", row(0.1, 0.5, 0.8, 0.4, 0.9))
def constant_phase_and_gerischer_elements() -> Any:
    from impedance.models.circuits import elements as e

    w = np.logspace(-1, 3, 7)
    return lambda p: np.abs(
        e.s([e.R([p[0]], w), e.p([e.CPE([p[1], p[2]], w), e.G([p[3], p[4]], w)])])
    )


@job("impedance", "Kramers-Kronig time constants and an inductor", row(0.3, 0.9))
def kramers_kronig_time_constants_and_an_inductor() -> Any:
    from impedance.models.circuits import elements as e

    w = np.logspace(-1, 3, 7)
    return lambda p: np.sum(
        np.abs(e.K([p[0], p[1]], w) + e.L([p[0] * 0.001], w) + e.Wo([p[0], p[1]], w)) ** 2
    )


@job("openap", "drag of a climb", row(60000.0, 350.0, 20000.0, 1000.0))
def drag_of_a_climb() -> Any:
    from openap import Drag

    d = Drag(ac="A320")
    return lambda p: d.clean(mass=p[0], tas=p[1], alt=p[2], vs=p[3]) / 1000.0


@job("openap", "fuel of a flight", row(0.9, 1.0))
def fuel_of_a_flight() -> Any:
    from openap import FuelFlow

    ff = FuelFlow(ac="A320")

    def f(p):
        mass = 66000.0 * p[0]
        used = 0.0
        for alt in np.linspace(10000.0, 34000.0, 5):
            flow = ff.enroute(mass=mass, tas=400.0 * p[1], alt=alt, vs=500.0)
            used = used + flow * 60.0
            mass = mass - flow * 60.0
        return used

    return f


@job("openap", "thrust and airspeeds", row(380.0, 25000.0))
def thrust_and_airspeeds() -> Any:
    from openap import Thrust, aero

    t = Thrust(ac="A320", eng="CFM56-5B4")
    return lambda p: (
        t.climb(tas=p[0], alt=p[1], roc=1500.0) / 1000.0
        + t.cruise(tas=p[0], alt=p[1]) / 1000.0
        + aero.tas2mach(p[0] * aero.kts, p[1] * aero.ft)
    )


@job("discretize", "conductivity of cells, potential of a source", np.linspace(0.5, 2.0, 16))
def conductivity_of_cells_potential_of_a_source() -> Any:
    from discretize import TensorMesh
    from scipy.sparse.linalg import spsolve

    mesh = TensorMesh([[1.0] * 4, [1.0] * 4])
    D = mesh.face_divergence

    def f(sigma):
        A_ = D @ mesh.get_face_inner_product(sigma, invert_model=True, invert_matrix=True) @ D.T
        b = np.zeros(16)
        b[5] = 1.0
        b[10] = -1.0
        import scipy.sparse as sp

        return spsolve((A_ + 0.001 * sp.eye(16)).tocsc(), b)

    return f


@job("discretize", "interpolation of cell values", np.linspace(0.5, 2.0, 16))
def interpolation_of_cell_values() -> Any:
    from discretize import TensorMesh

    mesh = TensorMesh([[1.0, 2.0, 1.0, 0.5], [1.0] * 4])
    P = mesh.get_interpolation_matrix(np.array([[0.7, 1.2], [2.5, 3.1]]), "CC")
    G = mesh.cell_gradient
    return lambda m: np.sum((P @ np.exp(m)) ** 2) + np.sum((G @ m) ** 2)


@job("discretize", "magnetic inner products on edges", np.linspace(0.5, 2.0, 8))
def magnetic_inner_products_on_edges() -> Any:
    from discretize import TensorMesh

    mesh = TensorMesh([[1.0, 2.0], [1.0, 1.0], [1.0, 0.5]])
    C = mesh.edge_curl
    e = np.random.default_rng(0).normal(size=mesh.n_edges)
    return lambda mu: (
        e @ (C.T @ (mesh.get_face_inner_product(1 / mu) @ (C @ e)))
        + e @ (mesh.get_edge_inner_product(mu) @ e)
    )
