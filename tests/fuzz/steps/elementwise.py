"""Functions of each element, arithmetic, comparisons, choices, casts."""

from __future__ import annotations

from ..generate import Builder, family

REAL = (
    "np.sin({x})", "np.cos({x})", "np.tan({x})", "np.arcsin({x})", "np.arccos({x})",
    "np.arctan({x})", "np.sinh({x})",
    "np.cosh({x})", "np.tanh({x})", "np.arcsinh({x})", "np.arccosh({x})", "np.arctanh({x})",
    "np.exp({x})",
    "np.exp2({x})", "np.expm1({x})", "np.log({x})", "np.log2({x})", "np.log10({x})",
    "np.log1p({x})", "np.sqrt({x})",
    "np.cbrt({x})", "np.fabs({x})", "np.rint({x})", "np.floor({x})", "np.ceil({x})",
    "np.trunc({x})",
    "np.signbit({x})", "np.deg2rad({x})", "np.degrees({x})", "np.spacing({x})", "np.sinc({x})",
    "np.nan_to_num({x})",
    "1.0 / (1.0 + np.exp(-{x}))", "np.log1p(np.exp({x}))", "np.exp(-{x} ** 2)", "{x} % 1.0",
    "{x} // 0.5",
    "np.logaddexp({x}, 0.0)",
)  # fmt: skip
ANY = (
    "-{x}", "+{x}", "np.abs({x})", "np.square({x})", "{x} * {x}", "{x} + {x}", "{x} - {x}",
    "{x} / {x}", "{x} ** 2",
    "{x} ** 3", "{x} ** 4", "{x} ** -1", "{x} ** -2", "{x} ** 0.5", "{x} ** 1.5", "{x} ** -0.5",
    "{x} ** 0",
    "np.sign({x})", "np.reciprocal({x})", "np.conj({x})", "np.real({x})", "np.imag({x})",
    "{x}.real * 2",
    "np.isnan({x})", "np.isfinite({x})", "np.positive({x})", "{x}.copy()", "{x} + {n}",
    "{x} * {n}", "{n} * {x}",
    "{n} - {x}", "{x} - {n}", "{x} / {n}", "{n} / {x}", "({x} + {n}) - {x}", "{x} * 0.0",
    "0.0 + {x}", "{x} * {n} * 3.0",
    "({x} * {n}) / 4.0", "{x} / {n} / 2.0", "{x} + 0", "1 * {x}", "np.exp({x})", "np.sqrt({x})",
    "np.sin({x})",
    "2 ** {x}", "np.angle({x})", "np.logical_not({x})", "np.where({x}, {x}, {n})",
)  # fmt: skip
SMOOTH = (
    "np.sin({x})", "np.cos({x})", "np.tanh({x})", "np.arctan({x})", "np.exp(-np.square({x}))",
    "np.sqrt({x} ** 2 + 1.0)",
    "np.log1p({x} * {x})", "{x} / (1.0 + {x} ** 2)", "-{x}", "0.5 * {x} + 1.0",
    "np.tanh({x}) ** 3", "np.arcsinh({x})",
    "np.reciprocal(2.0 + np.sin({x}))", "np.cbrt(1.0 + {x} ** 2)", "(3.0 + np.cos({x})) ** 0.5",
    "np.log(3.0 + np.sin({x}))",
    "np.sinc({x})", "np.logaddexp({x}, 0.3)", "np.exp2(np.sin({x}))", "np.expm1(np.cos({x}))",
    "(2.0 + np.sin({x})) ** -2",
)  # fmt: skip
SMOOTH_TWO = (
    "{x} + {y}", "{x} - {y}", "np.tanh({x}) * {y}", "{x} / (1.0 + {y} ** 2)",
    "np.logaddexp({x}, {y})",
    "np.arctan2({x}, 1.0 + {y} ** 2)", "np.hypot({x}, 1.0 + {y} ** 2)", "np.sin({x}) * np.cos({y})",
    "(1.5 + np.sin({x})) ** np.tanh({y})", "np.sin({x}) * {y} + {x}",
    "np.where(np.arange(1) == 0, {x}, {y})",
)  # fmt: skip
TWO = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / {y}", "{x} * {y} + {x}", "{x} * {y} - {x} * {n}",
    "{x} - {y} * {x}",
    "{x} / {y} - {x}", "({x} + {y}) - {x}", "{x} * {n} + {y} * {n}", "{x} * {y} * {x}",
    "({x} - {y}) / {x}",
    "np.equal({x}, {y})", "{x} != {y}", "np.where({x} == {y}, {x}, {y})", "{x} ** {y}",
    "np.add({x}, {y})",
    "np.logical_and({x}, {y})", "np.logical_or({x}, {y})", "np.logical_xor({x}, {y})",
)  # fmt: skip
TWO_REAL = (
    "np.maximum({x}, {y})", "np.minimum({x}, {y})", "np.fmax({x}, {y})", "np.fmin({x}, {y})",
    "np.arctan2({x}, {y})",
    "np.hypot({x}, {y})", "np.logaddexp({x}, {y})", "np.logaddexp2({x}, {y})",
    "np.copysign({x}, {y})", "{x} < {y}",
    "{x} >= {y}", "np.where({x} > {y}, {x}, {y})", "np.where({x} > 0, {x}, {y})",
    "np.where({x} <= {n}, {y}, 0.0)",
    "{x} % {y}", "{x} // {y}", "np.fmod({x}, {y})", "np.nextafter({x}, {y})",
    "np.clip({x}, -1.0, {y})",
    "np.clip({x}, {y}, 2.0)", "np.heaviside({x}, {y})", "np.float_power({x}, {y})",
    "np.where(np.isfinite({x}), {x}, {y})",
    "np.maximum({x}, 0.0) * {y}", "np.minimum({x} * {y}, {n})", "np.exp({x} - {y})",
    "np.sqrt({x} * {x} + {y} * {y})",
    "np.clip({x}, 0.0, 1.0) * {y}",
)  # fmt: skip
INTEGERS = (
    "{x} & {y}", "{x} | {y}", "{x} ^ {y}", "~{x}", "np.gcd({x}, {y})", "np.lcm({x}, {y})",
    "{x} << 1", "{x} >> 1",
    "np.bitwise_count({x})", "{x} // {y}", "{x} % {y}", "np.ldexp(0.7, {x})", "np.invert({x})",
)  # fmt: skip
CASTS = (
    "{x}.astype(np.complex128)", "{x}.astype(bool)", "np.asarray({x}, dtype=complex)", "{x} + 0j",
    "np.float64(0.3) * {x}",
)  # fmt: skip
REAL_CASTS = (
    "{x}.astype(np.float32)", "{x}.astype(np.float64)", "{x}.astype(np.float16)",
    "{x}.astype(np.float32).astype(np.float64)", "{x}.astype(np.float16).astype(np.float32)",
    "np.float32(0.3) * {x}",
)  # fmt: skip
TO_INTEGERS = (
    "np.nan_to_num(np.clip({x}, -9, 9)).astype(np.int64)",
    "np.clip(np.nan_to_num({x}), 0, 9).astype(np.int32)",
    "np.clip(np.nan_to_num({x}), 0, 9).astype(np.uint8)",
)


def _filled(b: Builder, templates: tuple[str, ...], kinds: str) -> str | None:
    x = b.pick(kinds)
    if x is None:
        return None
    template = b.rng.choice(templates)
    y = b.like(x, kinds) if "{y}" in template else ""
    if y is None:
        return None
    python = [n for n in (x, y) if n and type(b.value(n)) in (int, float, complex, bool)]
    if python and any(sign in template for sign in ("*", "/", "%", "<<", ">>", "~", "np.")):
        return None  # Python's own arithmetic: other errors, other types
    if "** 0.5" in template and not b.shape(x):
        return None  # NumPy's roots of arrays are roots, of numbers powers: -0.0 and -inf differ
    if "**" in template and b.kind(x) == "b":
        return None  # NumPy's squares of booleans are int8 in arrays and int64 without one
    if ".copy()" in template or ".astype(" in template or ".real" in template:
        if not hasattr(b.value(x), "astype"):
            return None
    return template.format(x=x, y=y, n=b.number())


@family("elementwise", 24)
def one(b: Builder) -> str | None:
    if b.smooth:
        return _filled(b, SMOOTH, "f")
    return _filled(b, REAL, "bif") if b.rng.random() < 0.5 else _filled(b, ANY, "bifc")


@family("arithmetic", 20)
def two(b: Builder) -> str | None:
    if b.smooth:
        return _filled(b, SMOOTH_TWO, "f")
    return _filled(b, TWO_REAL, "bif") if b.rng.random() < 0.5 else _filled(b, TWO, "bifc")


@family("integers", 3)
def integers(b: Builder) -> str | None:
    return None if b.smooth else _filled(b, INTEGERS, "bi")


@family("casts", 4)
def casts(b: Builder) -> str | None:
    if b.smooth:
        return None
    if b.rng.random() < 0.3:
        return _filled(b, TO_INTEGERS, "f")
    return _filled(b, CASTS, "bifc") if b.rng.random() < 0.5 else _filled(b, REAL_CASTS, "bif")
