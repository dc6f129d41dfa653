"""What every primitive is tested on: arguments and parameters, by families.

`SAMPLES[name]` lists the samples of a primitive. Its derivatives are compared with
finite differences up to `order` (0 at a kink: there the modes are compared with each other),
moving all arguments but the `fixed` ones. To add a primitive, add a line to its family's table
below; test_rules.py fails until there is one.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

F32, F64, C64, C128 = (np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))
I32, I64, BOOL = (np.dtype(t) for t in (np.int32, np.int64, np.bool_))


class Sample(NamedTuple):
    """Arguments and parameters of a call of a primitive."""

    name: str
    args: tuple[Any, ...]
    params: dict[str, Any]
    order: int = 2
    fixed: tuple[int, ...] = ()

    def __repr__(self) -> str:
        args = ", ".join(
            f"{a.dtype.name}{list(a.shape)}" if hasattr(a, "dtype") else repr(a) for a in self.args
        )
        return f"{self.name}({args}; {self.params})"


SAMPLES: dict[str, list[Sample]] = {}


def add(
    primitive: str, /, *args: Any, upto: int = 2, fixed: tuple[int, ...] = (), **params: Any
) -> None:
    """One more sample of a primitive."""
    SAMPLES.setdefault(primitive, []).append(Sample(primitive, args, params, upto, fixed))


def draw(key: str, shape: Sequence[int], dtype: Any, low: float = -2.0, high: float = 2.0) -> Any:
    """Numbers of a dtype in a domain; the same ones in every run, and distinct from each other."""
    random = np.random.default_rng(zlib.crc32(f"{key}{shape}{dtype}".encode()))
    dtype = np.dtype(dtype)
    shape = tuple(shape)
    if dtype == BOOL:
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return random.integers(int(np.ceil(low)), int(high) + 1, shape).astype(dtype)
    # Evenly spread and shuffled, so that no two are closer than finite differences can tell.
    size = int(np.prod(shape, dtype=int))
    grid = low + (high - low) * (np.arange(size) + random.uniform(0.25, 0.75, size)) / max(size, 1)
    values = random.permutation(grid).reshape(shape)
    if dtype.kind == "c":
        values = values + 1j * random.uniform(0.2, 0.9, shape)
    return values.astype(dtype)


# --- elementwise, one argument: name -> domain, dtypes besides f64 and f32
# -------------------------------

UNARY: dict[str, tuple[float, float, str]] = {
    "exp": (-2, 2, "c"), "exp2": (-2, 2, ""), "expm1": (-2, 2, "c"), "log": (0.2, 3, "c"),
    "log2": (0.2, 3, "c"), "log10": (0.2, 3, "c"), "log1p": (-0.7, 2, "c"), "sin": (-3, 3, "c"),
    "cos": (-3, 3, "c"), "tan": (-1.2, 1.2, "c"), "arcsin": (-0.9, 0.9, "c"),
    "arccos": (-0.9, 0.9, "c"),
    "arctan": (-2, 2, "c"), "sinh": (-2, 2, "c"), "cosh": (-2, 2, "c"), "tanh": (-2, 2, "c"),
    "arcsinh": (-2, 2, "c"), "arccosh": (1.2, 3, "c"), "arctanh": (-0.8, 0.8, "c"),
    "deg2rad": (-2, 2, ""),
    "rad2deg": (-2, 2, ""), "sqrt": (0.2, 3, "c"), "cbrt": (0.2, 3, ""), "square": (-2, 2, "ci"),
    "reciprocal": (0.5, 2, "c"), "neg": (-2, 2, "ci"), "positive": (-2, 2, "ci"),
    "abs": (0.1, 2, "ci"),
    "fabs": (-2, -0.1, ""), "real": (-2, 2, "c"), "imag": (-2, 2, "c"), "conj": (-2, 2, "ci"),
}  # fmt: skip
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
for name in ("neg", "positive", "abs"):  # Python's own operators keep Python numbers
    add(name, 1.5)
    add(name, 2 + 1j)
add("abs", draw("abs", (4,), F64, -2, -0.1))

# Without a derivative: any points will do.
FLAT: dict[str, str] = {
    "floor": "f", "ceil": "f", "trunc": "f", "rint": "f", "sign": "fi", "signbit": "f",
    "spacing": "f",
    "isnan": "fc", "isinf": "fc", "isfinite": "fc", "logical_not": "fib", "invert": "ib",
}  # fmt: skip
for name, kinds in FLAT.items():
    dtypes = {"f": (F64, F32), "c": (C128,), "i": (I64, I32), "b": (BOOL,)}
    for kind in kinds:
        for dtype in dtypes[kind]:
            for shape in ((), (3,), (0, 2)):
                add(name, draw(name, shape, dtype))
for name in ("isnan", "isinf", "isfinite"):
    add(name, np.array([np.nan, 1.0, -np.inf, 2.0, 3.0]))
add("spacing", np.array([1.0, 100.0, 1e5]))

# --- elementwise, two arguments: name -> both domains, dtypes besides f64 and f32
# --------------------------

PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 2)), ((0, 3), (1,)), ((1,),
(2, 1)), )  # fmt: skip
BINARY: dict[str, tuple[tuple[float, float], tuple[float, float], str]] = {
    "add": ((-2, 2), (-2, 2), "cib"), "sub": ((-2, 2), (-2, 2), "ci"), "mul": ((-2, 2), (-2, 2),
    "cib"),
    "div": ((-2, 2), (0.5, 2), "ci"), "power": ((0.3, 2), (-2, 2), "c"),
    "arctan2": ((0.2, 2), (-2, 2), ""), "hypot": ((0.2, 2), (-2, 2), ""),
    "maximum": ((-2, 2), (-2.3, 2.1), "i"), "minimum": ((-2, 2), (-2.3, 2.1), "i"),
    "fmax": ((-2, 2), (-2.3, 2.1), "i"), "fmin": ((-2, 2), (-2.3, 2.1), "i"),
    "copysign": ((0.2, 2), (-2, -0.1), ""), "heaviside": ((0.1, 2), (-2, 2), ""),
    "remainder": ((3.1, 3.4), (1.1, 1.4), "i"), "fmod": ((-3.4, -3.1), (1.1, 1.4), "i"),
    "logaddexp": ((-2, 2), (-2.3, 2.1), ""), "logaddexp2": ((-2, 2), (-2.3, 2.1), ""),
    "nextafter": ((0.5, 2), (3, 4), ""),
}  # fmt: skip
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

# --- shaping: shape, parameters
# -----------------------------------------------------------------------------

SHAPING: dict[str, list[tuple[tuple[int, ...], dict[str, Any]]]] = {
    "reshape": [((), {"shape": (1, 1)}), ((6,), {"shape": (2, 3)}), ((2, 3), {"shape": (6,)}),
                ((0, 3), {"shape": (0,)}), ((1,), {"shape": ()})],
    "transpose": [((), {"axes": ()}), ((2, 3), {"axes": (1, 0)}), ((2, 3, 1), {"axes": (2, 0, 1)}),
                  ((0, 2), {"axes": (1, 0)})],
    "broadcast_to": [((), {"shape": (2, 3)}), ((3,), {"shape": (2, 3)}), ((2, 1),
    {"shape": (4, 2, 3)}),
                     ((1,), {"shape": (0,)}), ((2,), {"shape": (2,)})],
    "reduce_sum": [((), {"axes": ()}), ((3,), {"axes": (0,)}), ((2, 3), {"axes": (1,)}),
                   ((2, 3, 4), {"axes": (0, 2)}), ((0, 2), {"axes": (0,)}), ((2, 0),
                   {"axes": (0,)})],
    "slice_axis": [((4,), {"axis": 0, "start": 1, "stop": 3}), ((2, 3),
    {"axis": 1, "start": 0, "stop": 1}),
                   ((2, 3), {"axis": 0, "start": 1, "stop": 1})],
    "pad": [((), {"widths": ()}), ((3,), {"widths": ((1, 2),)}), ((2, 3), {"widths": ((0, 1),
    (2, 0))}),
            ((0,), {"widths": ((1, 1),)}), ((2,), {"widths": ((0, 0),)})],
    "flip": [((3,), {"axes": (0,)}), ((2, 3), {"axes": (0, 1)}), ((2, 3), {"axes": (1,)}),
             ((0, 2), {"axes": (0,)})],
}  # fmt: skip
for name, rows in SHAPING.items():
    for shape, params in rows:
        add(name, draw(name, shape, F64), **params)
        add(name, draw(name, shape, C128), **params)
    add(name, draw(name, rows[1][0], F32), **rows[1][1])
    add(name, draw(name, rows[1][0], I64), **rows[1][1])
    add(name, draw(name, rows[1][0], BOOL), **rows[1][1])
for left, right, axis in (((2,), (3,), 0), ((2, 2), (2, 3), 1), ((0, 2), (1, 2), 0)):
    add("concatenate", draw("l", left, F64), draw("r", right, F64), axis=axis)
    add("concatenate", draw("l", left, F32), draw("r", right, F64), axis=axis)
    add("concatenate", draw("l", left, C128), draw("r", right, F64), axis=axis)
    add("concatenate", draw("l", left, I64), draw("r", right, I32), axis=axis)
add("concatenate", draw("l", (2, 2), F64), axis=0)
add("concatenate", *[draw(str(i), (i, 2), F64) for i in range(4)], axis=0)
for source, target in ((F64, F32), (F32, F64), (F64, C128), (C128, F64), (C128, C64), (F64, F64)):
    add("convert", draw("convert", (2, 3), source), dtype=target)
    add("convert", draw("convert", (), source), dtype=target)
add("convert", 1.5, dtype=F32)
add("convert", np.float64(1.5), dtype=F32)
for source, target in ((F64, I64), (F32, BOOL), (I64, F64), (I64, I32), (BOOL, F32), (C128, BOOL)):
    add("to_discrete", draw("to_discrete", (2, 3), source), dtype=target)
    add("to_discrete", draw("to_discrete", (), source), dtype=target)
add("to_discrete", 2, dtype=F64)
add("full", shape=(2, 3), value=0, dtype=F64)
add("full", shape=(), value=1.5, dtype=F32)
add("full", shape=(0,), value=True, dtype=BOOL)

# --- stop_gradient
# -------------------------------------------------------------------------------------------

for dtype in (F64, F32, C128):
    for shape in ((), (3,), (0, 2)):
        add("stop_gradient", draw("stop", shape, dtype), name=None, upto=0)
        for order in (2, 3):
            add(
                "stop_gradient_order",
                draw("stop", shape, dtype),
                name="h",
                order=order,
                upto=order - 1,
            )
