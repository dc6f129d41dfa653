"""How a roof should stand: pvlib's models of light, heat, panels and inverters, differentiated.

Needs pvlib and SciPy. Nothing below these examples knows of derivatives.

>>> import scipy.optimize
>>> import fungrad as fg
>>> start = np.array([10.0, 120.0])
>>> print(f"{energy(start):.2f} kWh")
19.95 kWh
>>> fg.grad(energy)(start).round(3)                    # kWh for each degree
array([0.064, 0.036])
>>> found = scipy.optimize.minimize(
...     lambda place: -energy(place), start, jac=fg.grad(lambda place: -energy(place))
... )
>>> found.x.round(1)                                   # tilt and azimuth: to the south
array([ 41.3, 180. ])
>>> print(f"{-found.fun:.2f} kWh")
23.97 kWh
"""

import numpy as np
import pvlib

ZENITH = np.array([72.0, 60.0, 50.0, 44.0, 42.0, 44.0, 50.0, 60.0, 72.0])
"""Angles of the sun from the vertical, hour by hour, in degrees."""
AZIMUTH = np.array([102.0, 116.0, 133.0, 155.0, 180.0, 205.0, 227.0, 244.0, 258.0])
PANEL = {"pdc0": 4000.0, "gamma_pdc": -0.004}
INVERTER = {"pdc0": 3800.0, "eta_inv_nom": 0.96}


def energy(place):
    """The energy of a clear day in kWh; place: tilt and azimuth of the panels in degrees."""
    tilt, azimuth = place
    sky = pvlib.clearsky.simplified_solis(90.0 - ZENITH)
    light = pvlib.irradiance.get_total_irradiance(
        tilt, azimuth, ZENITH, AZIMUTH, sky["dni"], sky["ghi"], sky["dhi"],
        dni_extra=1365.0, model="haydavies",
    )["poa_global"]  # fmt: skip
    cell = pvlib.temperature.faiman(light, 15.0, 2.0)
    direct = pvlib.pvsystem.pvwatts_dc(light, cell, **PANEL)
    return np.sum(pvlib.inverter.pvwatts(direct, **INVERTER)) / 1000.0
