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

U64, U32 = np.dtype(np.uint64), np.dtype(np.uint32)
KEY = np.array([7, 2**63 + 5], U64)
WORDS = np.array([0, 1, 2**11, 2**63, 2**64 - 1, 0x0123456789ABCDEF, 0xFEDCBA9876543210], U64)
HALVES = np.array([0, 1, 2**8, 2**31, 2**32 - 1, 0x01234567, 0xFEDCBA98], U32)

for dtype, shape in (
    (U64, ()),
    (U64, (3,)),
    (U32, (2, 3)),
    (np.dtype(np.uint8), (11,)),
    (U64, (0,)),
):
    add("random_bits", KEY, 3, shape=shape, dtype=dtype, purpose=0)
add("random_bits", np.stack([KEY, KEY + U64.type(1)]), np.array([2**64 - 1, 4], U64), shape=(5,),
    dtype=U64, purpose=2)  # fmt: skip
for name in ("uniform_of_bits", "normal_of_bits"):
    for words in (WORDS, HALVES, WORDS[:0], WORDS[5], HALVES[5]):
        add(name, words)
add("high_product", WORDS, WORDS[::-1].copy())
add("high_product", WORDS[:, None], WORDS[5])
for shape in ((), (3,), (0,)):
    add("normal_quantile", draw("quantile", shape, F64, 0.01, 0.99))
add("normal_quantile", draw("quantile", (2, 2), F32, 0.1, 0.9))
add("normal_quantile", np.array([1e-9, 1 - 1e-9]), upto=0)

for dtype in (F64, F32):
    add("random_log_gamma", KEY, draw("alpha", (3,), dtype, 0.2, 5), upto=0)
add("random_log_gamma", np.stack([KEY, KEY[::-1]]), draw("alpha", (2, 3), F64, 0.2, 5), upto=0)
add("random_log_gamma", KEY, np.array([0.0, -1.0, np.nan, 1e-3]), upto=0)
add("random_poisson", KEY, np.array([0.0, 0.5, 9.0, 10.0, 25.0, 1e6, -1.0, np.nan, 1e19]))
add("random_poisson", KEY, np.float64(30.0))
add(
    "random_binomial",
    KEY,
    np.array([0.0, 10.0, 90.0, 1e6, -1.0]),
    np.array([0.5, 0.9, 0.4, 0.5, 0.5]),
)
add("random_binomial", KEY, np.zeros((0,)), np.zeros((0,)))
