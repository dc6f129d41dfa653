"""Atoms and minerals: ase, burnman."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.whole_jobs import job, row


@job(
    "ase",
    "Lennard-Jones energy by positions",
    row(0, 0, 0, 1.1, 0, 0.1, 0.1, 1.2, 0, 0.2, 0.3, 1.15).reshape(4, 3),
)
def lennard_jones_energy_by_positions() -> Any:
    from ase import Atoms
    from ase.calculators.lj import LennardJones

    def f(x):
        atoms = Atoms("Ar4", positions=x)
        atoms.calc = LennardJones(sigma=1.0, epsilon=1.0, rc=5.0)
        return atoms.get_potential_energy()

    return f


@job("ase", "EMT energy of a crystal by lattice constant", row(3.65))
def emt_energy_of_a_crystal_by_lattice_constant() -> Any:
    from ase.build import bulk
    from ase.calculators.emt import EMT

    def f(p):
        atoms = bulk("Cu", "fcc", a=p[0], cubic=True)
        atoms.calc = EMT()
        return atoms.get_potential_energy()

    return f


@job(
    "ase",
    "moments of inertia and a dihedral",
    row(0, 0, 0, 1.1, 0, 0.1, 0.1, 1.2, 0, 0.2, 0.3, 1.15).reshape(4, 3),
)
def moments_of_inertia_and_a_dihedral() -> Any:
    from ase import Atoms

    def f(x):
        a = Atoms("CHNO", positions=x)
        return (
            np.sum(a.get_moments_of_inertia())
            + a.get_dihedral(0, 1, 2, 3) / 100
            + a.get_angle(0, 1, 2) / 100
        )

    return f


@job("burnman", "density of forsterite", row(20000000000.0, 1800.0))
def density_of_forsterite() -> Any:
    from burnman.minerals import SLB_2011

    fo = SLB_2011.forsterite()

    def f(p):
        fo.set_state(p[0], p[1])
        return fo.density / 1000.0 + fo.alpha * 10000.0

    return f


@job("burnman", "equation of state by parameters", row(128000000000.0, 4.2))
def equation_of_state_by_parameters() -> Any:
    import burnman
    from burnman.minerals import SLB_2011

    pars = SLB_2011.forsterite().params

    def f(p):
        m = burnman.Mineral(params=dict(pars, K_0=p[0], Kprime_0=p[1]))
        m.set_state(20000000000.0, 1800.0)
        return m.density / 1000.0

    return f


@job("burnman", "seismic velocity of a rock", row(0.7, 0.3))
def seismic_velocity_of_a_rock() -> Any:
    import burnman
    from burnman.minerals import SLB_2011

    def f(x):
        rock = burnman.Composite(
            [SLB_2011.mg_perovskite(), SLB_2011.periclase()],
            [x[0] / (x[0] + x[1]), x[1] / (x[0] + x[1])],
        )
        rock.set_state(50000000000.0, 2000.0)
        return rock.v_s / 1000.0

    return f
