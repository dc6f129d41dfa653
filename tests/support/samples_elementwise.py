"""Samples of the elementwise primitives, by families."""

from __future__ import annotations

import numpy as np
from sampling import BOOL, C64, C128, F32, F64, I32, I64, add, draw

# --- elementwise, one argument: name -> domain, dtypes besides f64 and f32
# -------------------------------

UNARY: dict[str, tuple[float, float, str]] = {
    "exp": (-2, 2, "c"),
    "exp2": (-2, 2, ""),
    "expm1": (-2, 2, "c"),
    "log": (0.2, 3, "c"),
    "log2": (0.2, 3, "c"),
    "log10": (0.2, 3, "c"),
    "log1p": (-0.7, 2, "c"),
    "sin": (-3, 3, "c"),
    "cos": (-3, 3, "c"),
    "tan": (-1.2, 1.2, "c"),
    "arcsin": (-0.9, 0.9, "c"),
    "arccos": (-0.9, 0.9, "c"),
    "arctan": (-2, 2, "c"),
    "sinh": (-2, 2, "c"),
    "cosh": (-2, 2, "c"),
    "tanh": (-2, 2, "c"),
    "arcsinh": (-2, 2, "c"),
    "arccosh": (1.2, 3, "c"),
    "arctanh": (-0.8, 0.8, "c"),
    "deg2rad": (-2, 2, ""),
    "rad2deg": (-2, 2, ""),
    "sqrt": (0.2, 3, "c"),
    "cbrt": (0.2, 3, ""),
    "square": (-2, 2, "ci"),
    "reciprocal": (0.5, 2, "c"),
    "neg": (-2, 2, "ci"),
    "positive": (-2, 2, "ci"),
    "abs": (0.1, 2, "ci"),
    "fabs": (-2, -0.1, ""),
    "real": (-2, 2, "c"),
    "imag": (-2, 2, "c"),
    "conj": (-2, 2, "ci"),
}
for name, (low, high, kinds) in UNARY.items():
    for shape in ((), (3,), (2, 1), (0,), (2, 0, 3)):
        add(name, draw(name, shape, F64, low, high))
    add(name, draw(name, (2, 3), F32, low, high))
    add(name, np.float64(draw(name, (), F64, low, high)))
    if "c" in kinds:
        add(name, draw(name, (3,), C128, low, high))
        add(name, draw(name, (2, 2), C64, low, high))
    if "i" in kinds:
        add(name, draw(name, (2, 2), I64, -5, 5))
for dtype in (C128, C64):
    for shape in ((), (3,), (2, 2), (0,)):
        add("phase", draw("phase", shape, dtype, 0.2, 2.0))
add("phase", np.array([0j, 1 + 1j]), upto=0)
for name in ("neg", "positive", "abs"):  # Python's own operators keep Python numbers
    add(name, 1.5)
    add(name, 2 + 1j)
add("abs", draw("abs", (4,), F64, -2, -0.1))

# Without a derivative: any points will do.
FLAT: dict[str, str] = {
    "floor": "f",
    "ceil": "f",
    "trunc": "f",
    "rint": "f",
    "sign": "fi",
    "signbit": "f",
    "spacing": "f",
    "isnan": "fc",
    "isinf": "fc",
    "isfinite": "fc",
    "logical_not": "fib",
    "invert": "ib",
    "bitwise_count": "i",
}
for name, kinds in FLAT.items():
    dtypes = {"f": (F64, F32), "c": (C128,), "i": (I64, I32), "b": (BOOL,)}
    for kind in kinds:
        for dtype in dtypes[kind]:
            for shape in ((), (3,), (0, 2)):
                add(name, draw(name, shape, dtype))
for name in ("isnan", "isinf", "isfinite"):
    add(name, np.array([np.nan, 1.0, -np.inf, 2.0, 3.0]))
add("spacing", np.array([1.5, 100.0, 1e5]))  # it jumps at powers of two
add("bitwise_count", np.array([0, 1, 3, 7, 255]))

# --- elementwise, two arguments: name -> both domains, dtypes besides f64 and f32
# --------------------------

PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((), (2, 2)),
    ((0, 3), (1,)),
    ((1,), (2, 1)),
)
BINARY: dict[str, tuple[tuple[float, float], tuple[float, float], str]] = {
    "add": ((-2, 2), (-2, 2), "cib"),
    "sub": ((-2, 2), (-2, 2), "ci"),
    "mul": ((-2, 2), (-2, 2), "cib"),
    "div": ((-2, 2), (0.5, 2), "ci"),
    "power": ((0.3, 2), (-2, 2), "c"),
    "arctan2": ((0.2, 2), (-2, 2), ""),
    "hypot": ((0.2, 2), (-2, 2), ""),
    "complex_of": ((-2, 2), (-2, 2), ""),
    "maximum": ((-2, 2), (-2.3, 2.1), "i"),
    "minimum": ((-2, 2), (-2.3, 2.1), "i"),
    "fmax": ((-2, 2), (-2.3, 2.1), "i"),
    "fmin": ((-2, 2), (-2.3, 2.1), "i"),
    "copysign": ((0.2, 2), (-2, -0.1), ""),
    "heaviside": ((0.1, 2), (-2, 2), ""),
    "remainder": ((3.1, 3.4), (1.1, 1.4), "i"),
    "fmod": ((-3.4, -3.1), (1.1, 1.4), "i"),
    "logaddexp": ((-2, 2), (-2.3, 2.1), ""),
    "logaddexp2": ((-2, 2), (-2.3, 2.1), ""),
    "nextafter": ((0.5, 2), (3, 4), ""),
}
for name, (first, second, kinds) in BINARY.items():
    for left, right in PAIRS:
        add(name, draw(f"{name}0", left, F64, *first), draw(f"{name}1", right, F64, *second))
    if name != "nextafter":
        add(name, draw(f"{name}0", (3,), F32, *first), draw(f"{name}1", (2, 1), F32, *second))
    add(name, draw(f"{name}0", (2,), F64, *first), np.float64(draw(f"{name}1", (), F64, *second)))
    if "c" in kinds:
        add(name, draw(f"{name}0", (3,), C128, *first), draw(f"{name}1", (2, 1), C128, *second))
        add(name, draw(f"{name}0", (3,), C128, *first), draw(f"{name}1", (3,), F64, *second))
    if "i" in kinds:
        add(name, draw(f"{name}0", (3,), I64, -5, 5), draw(f"{name}1", (2, 1), I64, 1, 3))
        add(name, draw(f"{name}0", (3,), I32, -5, 5), draw(f"{name}1", (3,), F64, *second))
    if "b" in kinds:
        add(name, draw(f"{name}0", (3,), BOOL), draw(f"{name}1", (3,), BOOL))
# Python scalars are weak: they leave the other argument's dtype alone, and stay weak among
# themselves.
for name in ("add", "sub", "mul", "div", "power", "maximum", "remainder"):
    first, second, _ = BINARY[name]
    add(name, draw(f"{name}0", (3,), F32, *first), 1.25)
    add(name, 3.3, draw(f"{name}1", (2,), F32, *second))
for name in ("add", "sub", "mul", "div", "power", "remainder"):
    add(name, 3.25, 1.5)
    add(name, 4, 3)
    add(name, 4, 1.5)
for exponent in (0, 1, 2, 3, -1, 0.5, 2.5):
    add("power", draw("power", (3,), F64, 0.3, 2), exponent)
for exponent in (0, 1, 2, 3):
    add("power", draw("power", (4,), F64, -2, -0.2), exponent)
    add("power", draw("power", (3,), I64, 1, 3), exponent)
add("power", draw("power", (3,), C128, 0.3, 2), 2)
add("arctan2", draw("arctan2", (3,), F64, -2, -0.3), draw("arctan2", (3,), F64, -2, -0.3))
add("fmod", draw("fmod", (3,), F64, 3.1, 3.4), draw("fmod", (3,), F64, -1.4, -1.1))
add("remainder", draw("remainder", (3,), F64, -3.4, -3.1), draw("remainder", (3,), F64, 1.1, 1.4))
add("copysign", draw("copysign", (3,), F64, -2, -0.3), draw("copysign", (3,), F64, 0.1, 2))
add("fmax", np.array([1.0, np.nan, np.nan]), np.array([np.nan, 2.0, np.nan]), upto=0)
add("fmin", np.array([1.0, np.nan, np.nan]), np.array([np.nan, 2.0, np.nan]), upto=0)
add("heaviside", np.array([0.0, 1.0, -1.0]), np.array([0.5, 0.25, 0.75]), upto=0)
add("heaviside", np.array([0.0, 1.0, -1.0]), np.array([0.5, 0.25, 0.75]), fixed=(0,))
add("ldexp", draw("ldexp", (3,), F64), draw("ldexp", (3,), I64, -2, 3))
add("ldexp", draw("ldexp", (2, 1), F32), draw("ldexp", (3,), I32, -2, 3))
# Ties and other kinks: the two modes have to agree there, as docs/kinks.md says.
for name in ("maximum", "minimum", "fmax", "fmin", "hypot", "arctan2"):
    add(name, np.array([0.0, 1.0, -1.0]), np.array([0.0, 1.0, 2.0]), upto=0)
for name in ("abs", "fabs"):
    add(name, np.array([0.0, 1.0, -1.0]), upto=0)
add("abs", np.array([0.0, 3 + 4j]), upto=0)
add("logaddexp", np.array([-np.inf, 0.0, np.inf]), np.array([-np.inf, -np.inf, 1.0]), upto=0)
add("power", np.array([0.0, 0.0, 2.0]), np.array([1.0, 2.0, 0.0]), upto=0)

for name in ("floor_divide",):
    for dtype in (F64, F32, I64):
        add(name, draw(f"{name}0", (2, 3), dtype, 1, 9), draw(f"{name}1", (3,), dtype, 1, 3))
    add(name, draw(f"{name}0", (3,), F32, 1, 9), 2)
    add(name, 7, 2)
    add(name, 7.5, 2.0)
for name in ("lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_xor"):
    for dtype in (F64, F32, I64, BOOL):
        for left, right in (((3,), (3,)), ((2, 1), (3,)), ((), (2,)), ((0,), (1,))):
            add(name, draw(f"{name}0", left, dtype), draw(f"{name}1", right, dtype))
    add(name, draw(f"{name}0", (3,), F32), 0.5)
for name in ("lt", "le", "gt", "ge", "eq", "ne"):
    add(name, np.array([1.0, 2.0]), np.array([1.0, 3.0]))
for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm", "left_shift", "right_shift"):
    for dtype in (I64, I32):
        add(name, draw(f"{name}0", (3,), dtype, 0, 9), draw(f"{name}1", (2, 1), dtype, 1, 3))
for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    add(name, draw(f"{name}0", (3,), BOOL), draw(f"{name}1", (3,), BOOL))

for condition, left, right in (
    ((3,), (3,), (3,)), ((2, 1), (3,), ()), ((), (2,), (2,)), ((2, 3), (), ()), ((0,), (1,), ()),
):  # fmt: skip
    for dtype in (F64, F32, C128):
        add(
            "select",
            draw("select", condition, BOOL),
            draw("x", left, dtype),
            draw("y", right, dtype),
        )
add("select", draw("select", (3,), BOOL), draw("x", (3,), F32), 0)
add("select", draw("select", (3,), BOOL), draw("x", (3,), I64), draw("y", (3,), F64))
for dtype in (F64, F32):
    for shape in ((), (3,), (0, 2)):
        add("frexp_exponent", draw("frexp_exponent", shape, dtype))
for shape in ((), (3,), (2, 1), (0,)):
    add("root", draw("root", shape, F64, 0.2, 3))
add("root", draw("root", (2, 3), F32, 0.2, 3))
add("root", draw("root", (2,), C128, 0.2, 3))
