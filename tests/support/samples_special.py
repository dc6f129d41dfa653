"""Samples of the functions of scipy.special."""

from __future__ import annotations

import numpy as np
from sampling import F32, F64, add, draw

SPECIAL: dict[str, tuple[tuple[float, float], ...]] = {
    "digamma": ((0.5, 3),),
    "gammaln": ((0.5, 3),),
    "loggamma": ((0.5, 3),),
    "gamma": ((0.5, 3),),
    "rgamma": ((-1.6, 3),),
    "beta": ((0.5, 3), (0.6, 2)),
    "betaln": ((0.5, 3), (0.6, 2)),
    "poch": ((0.5, 3), (0.6, 2)),
    "binom": ((2.5, 4), (0.6, 1.8)),
    "gammainc": ((0.5, 3), (0.5, 3)),
    "gammaincc": ((0.5, 3), (0.5, 3)),
    "gammaincinv": ((0.5, 3), (0.2, 0.8)),
    "gammainccinv": ((0.5, 3), (0.2, 0.8)),
    "betainc": ((0.5, 3), (0.6, 2), (0.2, 0.8)),
    "betaincinv": ((0.5, 3), (0.6, 2), (0.2, 0.8)),
    "erf": ((-2, 2),),
    "erfc": ((-2, 2),),
    "erfi": ((-1.2, 1.2),),
    "erfcx": ((-1, 3),),
    "erfinv": ((-0.8, 0.8),),
    "erfcinv": ((0.2, 1.8),),
    "dawsn": ((-2, 2),),
    "ndtr": ((-2, 2),),
    "log_ndtr": ((-4, 3),),
    "ndtri": ((0.1, 0.9),),
    "ndtri_exp": ((-2, -0.3),),
    "expit": ((-3, 3),),
    "logit": ((0.1, 0.9),),
    "log_expit": ((-3, 3),),
    "xlogy": ((-2, 2), (0.3, 3)),
    "xlog1py": ((-2, 2), (-0.6, 3)),
    "entr": ((0.3, 3),),
    "rel_entr": ((0.3, 3), (0.4, 2)),
    "kl_div": ((0.3, 3), (0.4, 2)),
    "huber": ((0.5, 0.9), (1.2, 2)),
    "pseudo_huber": ((0.5, 0.9), (-2, 2)),
    "j0": ((-3, 3),),
    "j1": ((-3, 3),),
    "y0": ((0.5, 3),),
    "y1": ((0.5, 3),),
    "bessel_i0": ((-3, 3),),
    "bessel_i1": ((-3, 3),),
    "i0e": ((0.1, 3),),
    "i1e": ((-3, -0.1),),
    "k0": ((0.5, 3),),
    "k1": ((0.5, 3),),
    "k0e": ((0.5, 3),),
    "k1e": ((0.5, 3),),
    "exprel": ((-2, 2),),
    "ellipk": ((-2, 0.7),),
    "ellipe": ((-2, 0.7),),
    "spence": ((0.4, 2),),
    "expi": ((0.4, 2),),
    "exp1": ((0.4, 2),),
    "stdtr": ((0.7, 3), (-1.5, 1.5)),
    "stdtrit": ((0.7, 3), (0.2, 0.8)),
    "zeta": ((1.5, 4), (0.5, 3)),
}
for name, domains in SPECIAL.items():
    for shape in ((), (3,), (0,)):
        add(name, *[draw(f"{name}{i}", shape, F64, *d) for i, d in enumerate(domains)])
    add(name, *[draw(f"{name}{i}", (2, 1 + i % 2), F32, *d) for i, d in enumerate(domains)])
    add(name, *[np.float64(draw(f"{name}{i}", (), F64, *d)) for i, d in enumerate(domains)])
add("huber", np.array([1.0, 2.0]), np.array([0.5, -0.7]))
add("huber", np.array([1.0, 2.0]), np.array([-1.5, -2.7]))

# Without a derivative in the first arguments: these are whole numbers.
ORDERED: dict[str, tuple[tuple[int, ...], tuple[float, float]]] = {
    "jv": ((2,), (0.5, 3)),
    "yv": ((2,), (0.5, 3)),
    "yn": ((2,), (0.5, 3)),
    "iv": ((2,), (0.5, 3)),
    "ive": ((2,), (-3, -0.5)),
    "kv": ((2,), (0.5, 3)),
    "kve": ((2,), (0.5, 3)),
    "kn": ((2,), (0.5, 3)),
    "hyp0f1": ((2,), (0.5, 3)),
    "hyp1f1": ((1, 2), (-2, 2)),
    "hyp2f1": ((1, 2, 2), (-2, 0.6)),
}
for name, (orders, domain) in ORDERED.items():
    for shape in ((), (3,), (0,)):
        add(name, *orders, draw(name, shape, F64, *domain))
    add(name, *map(np.int64, orders), draw(name, (2, 1), F64, *domain))
    add(name, *[np.array([n, n + 1, n]) for n in orders], draw(name, (2, 1), F64, *domain))
    add(name, *orders, draw(name, (3,), F32, *domain))

for shape in ((), (3,), (0,)):
    add("lambertw", draw("lambertw", shape, F64, 0.2, 3), 0)
add("lambertw", draw("lambertw", (3,), np.complex128, 0.2, 3), np.array([[0], [1]]))
add("lambertw", draw("lambertw", (2,), F32, 0.2, 3), 0)
