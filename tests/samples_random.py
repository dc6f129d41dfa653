"""Samples of the primitives of random numbers, and of the derivatives by which samples move."""

from __future__ import annotations

import numpy as np
from sampling import F32, F64, add, draw

SLOPES: dict[str, tuple[tuple[dict[str, int], ...], tuple[tuple[float, float], ...]]] = {
    "polygamma": (({"order": 0}, {"order": 2}), ((0.5, 12),)),
    "gamma_slope": (({"order": 1}, {"order": 2}), ((0.5, 8), (-2, 2.5))),
    "beta_slope": (
        ({"m": 1, "n": 0}, {"m": 0, "n": 1}, {"m": 1, "n": 1}),
        ((0.5, 3), (0.6, 2), (0.2, 0.8)),
    ),
}
for name, (all_orders, domains) in SLOPES.items():
    for orders in all_orders:
        for shape in ((), (3,), (0,)):
            add(
                name, *[draw(f"{name}{i}", shape, F64, *d) for i, d in enumerate(domains)], **orders
            )
        arrays = [draw(f"{name}{i}", (2, 1 + i % 2), F32, *d) for i, d in enumerate(domains)]
        add(name, *arrays, upto=1, **orders)
        add(
            name, *[float(draw(f"{name}{i}", (), F64, *d)) for i, d in enumerate(domains)], **orders
        )

for dtype in (F64, F32):
    a = draw("quantile", (3,), dtype, 0.5, 6)
    add("log_gamma_quantile", a, a, draw("quantile", (2, 3), dtype, -1, 2), fixed=(1, 2))
add("log_gamma_quantile", np.array([0.7, 2.0]), np.array([0.9, 2.0]), np.float64(0.3), fixed=(1, 2))
add("log_gamma_quantile", np.zeros((0,)), np.ones((0,)), np.zeros((0,)))
