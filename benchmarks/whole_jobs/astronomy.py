"""The sky: skyfield, colossus, lenstronomy."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.whole_jobs import job, row


@job("skyfield", "sidereal time and nutation", row(0.25))
def sidereal_time_and_nutation() -> Any:
    from skyfield.api import load

    ts = load.timescale(builtin=True)

    def f(p):
        t = ts.tt_jd(2459000.5, p[0])
        return t.gast

    return f


@job("skyfield", "observer on the Earth", row(40.7, -74.0, 100.0))
def observer_on_the_earth() -> Any:
    from skyfield.api import load, wgs84

    ts = load.timescale(builtin=True)
    t = ts.utc(2020, 6, 1, 12)
    return lambda p: np.sum(
        wgs84.latlon(p[0], p[1], elevation_m=p[2]).at(t).position.km * np.array([1.0, 2.0, 3.0])
    )


@job("skyfield", "osculating elements", row(7000.0, 1000.0, 500.0, -1.0, 7.0, 1.0))
def osculating_elements() -> Any:
    from skyfield.api import Distance, Velocity, load
    from skyfield.elementslib import OsculatingElements

    t = load.timescale(builtin=True).utc(2020, 6, 1)

    def f(p):
        e = OsculatingElements(Distance(km=p[:3]), Velocity(km_per_s=p[3:]), t, 398600.4418)
        return e.semi_major_axis.km / 10000.0 + e.eccentricity + e.inclination.radians

    return f


@job("colossus", "luminosity distance by Om0 and H0", row(70.0, 0.3))
def luminosity_distance_by_om0_and_h0() -> Any:
    from colossus.cosmology import cosmology

    def f(p):
        c = cosmology.Cosmology(
            name="mine",
            persistence="",
            flat=True,
            H0=p[0],
            Om0=p[1],
            Ob0=0.049,
            sigma8=0.81,
            ns=0.95,
            interpolation=False,
        )
        return c.luminosityDistance(0.5)

    return f


@job("colossus", "NFW surface density by mass and concentration", row(12.0, 5.0))
def nfw_surface_density_by_mass_and_concentration() -> Any:
    from colossus.cosmology import cosmology
    from colossus.halo import profile_nfw

    cosmology.setCosmology("planck18", persistence="")
    return lambda p: np.log(
        profile_nfw.NFWProfile(M=10 ** p[0], c=p[1], z=0.2, mdef="200c").surfaceDensity(
            np.array([50.0, 150.0, 400.0])
        )
    )


@job("colossus", "expansion rate and growth", row(0.3, 0.8))
def expansion_rate_and_growth() -> Any:
    from colossus.cosmology import cosmology

    c = cosmology.setCosmology("planck18", persistence="")
    return lambda z: np.sum(c.Hz(z) / 100 + c.Om(z) + np.log(c.rho_c(z)))


@job("lenstronomy", "ray shooting", row(1.2, 0.1, 0.05, 0.03))
def ray_shooting() -> Any:
    from lenstronomy.LensModel.lens_model import LensModel

    lens = LensModel(["SIE", "SHEAR"])
    x, y = (np.linspace(-1.5, 1.4, 6), np.linspace(-1, 1.3, 6))

    def f(p):
        bx, by = lens.ray_shooting(
            x,
            y,
            [
                {"theta_E": p[0], "e1": p[1], "e2": p[2], "center_x": 0.01, "center_y": 0.0},
                {"gamma1": p[3], "gamma2": 0.02},
            ],
        )
        return np.sum(bx**2 + by**2)

    return f


@job("lenstronomy", "magnification and time delay", row(1.2, 0.1, 0.05, 0.03))
def magnification_and_time_delay() -> Any:
    from lenstronomy.LensModel.lens_model import LensModel

    lens = LensModel(["EPL", "SHEAR"])
    x, y = (row(1.1, -0.8, 0.3), row(0.4, 0.5, -1.2))

    def f(p):
        k = [
            {
                "theta_E": p[0],
                "gamma": 2.05,
                "e1": p[1],
                "e2": p[2],
                "center_x": 0.01,
                "center_y": 0.0,
            },
            {"gamma1": p[3], "gamma2": 0.02},
        ]
        return lens.magnification(x, y, k) + lens.fermat_potential(x, y, k)

    return f


@job("lenstronomy", "surface brightness of a lensed source", row(1.2, 0.3, 2.0))
def surface_brightness_of_a_lensed_source() -> Any:
    from lenstronomy.LensModel.lens_model import LensModel
    from lenstronomy.LightModel.light_model import LightModel

    lens, light = (LensModel(["SIS"]), LightModel(["SERSIC_ELLIPSE"]))
    x, y = (np.linspace(-1.5, 1.4, 6), np.linspace(-1, 1.3, 6))

    def f(p):
        bx, by = lens.ray_shooting(x, y, [{"theta_E": p[0], "center_x": 0.0, "center_y": 0.0}])
        return light.surface_brightness(
            bx,
            by,
            [
                {
                    "amp": 1.0,
                    "R_sersic": p[1],
                    "n_sersic": p[2],
                    "e1": 0.1,
                    "e2": 0.05,
                    "center_x": 0.02,
                    "center_y": 0.03,
                }
            ],
        )

    return f
