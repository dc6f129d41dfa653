"""Samples of the primitives that scipy.signal, scipy.ndimage and scipy.interpolate stand on."""

from __future__ import annotations

from sampling import C128, F32, F64, add, draw

for mode in ("full", "valid"):
    for axes, shapes in (
        (1, [((5,), (3,)), ((2, 5), (3,)), ((2, 1, 4), (3, 4)), ((6,), (5,)), ((2, 6), (1, 5))]),
        (2, [((4, 5), (2, 3)), ((2, 4, 3), (2, 2)), ((4, 4), (2, 4, 3)), ((3, 4), (3, 4))]),
        (3, [((2, 3, 3), (1, 2, 2))]),
    ):
        for x, y in shapes:
            add("convolve_nd", draw("cx", x, F64), draw("cy", y, F64), axes=axes, mode=mode)
    pair = draw("cx", (4, 3), C128), draw("cy", (2, 2), C128)
    add("convolve_nd", *pair, axes=2, mode=mode)
    add("convolve_nd", draw("cx", (2, 4), F32), draw("cy", (2,), F32), axes=1, mode=mode)
    add("convolve_nd", draw("cx", (0, 4), F64), draw("cy", (1, 2), F64), axes=1, mode=mode)
    add("convolve_nd", draw("cx", (4, 3), int), draw("cy", (2, 2), F64), axes=2, mode=mode)
add("convolve_nd", draw("cx", (2, 3), F64), draw("cy", (3, 5), F64), axes=2, mode="full")

for a, u in (
    ((2,), (6,)), ((1,), (2, 4)), ((3,), (2,)), ((2, 2), (4,)), ((2, 2), (2, 4)), ((0,), (3,)),
    ((2,), (0,)), ((2, 1), (3, 1, 4)),
):  # fmt: skip
    add("all_pole", draw("a", a, F64, -0.6, 0.6), draw("u", u, F64))
add("all_pole", draw("a", (2,), F32, -0.6, 0.6), draw("u", (2, 4), F32))
add("all_pole", draw("a", (2,), F64, -0.6, 0.6), draw("u", (4,), C128))
add("all_pole", draw("a", (2,), C128, -0.4, 0.4), draw("u", (4,), C128))
