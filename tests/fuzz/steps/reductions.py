"""Sums, products, extrema, means, cumulative forms."""

from __future__ import annotations

from ..generate import Builder, family

SMOOTH = ("sum", "mean", "cumsum")
REDUCTIONS = (
    "sum", "sum", "sum", "mean", "max", "min", "prod", "var", "std", "any", "all", "cumsum",
    "cumprod", "argmax", "ptp",
    "nansum", "nanmax", "nanmean", "count_nonzero", "average", "nanmin", "nanprod",
)  # fmt: skip
WHOLE = {"cumsum", "cumprod"}


@family("reductions", 12)
def reduction(b: Builder) -> str | None:
    x = b.pick()
    if x is None:
        return None
    name = b.rng.choice(SMOOTH if b.smooth else REDUCTIONS)
    ndim = len(b.shape(x))
    options = ""
    if ndim and (name in WHOLE or b.rng.random() < 0.7):
        options += f", axis={b.axis(x)}"
        if name not in WHOLE and name not in ("argmax", "average") and b.rng.random() < 0.3:
            options += ", keepdims=True"
    elif ndim > 1 and name in ("sum", "max", "mean") and b.rng.random() < 0.5:
        options += ", axis=(0, -1)"
    if name == "sum" and not b.smooth and b.rng.random() < 0.1:
        options += ", initial=1.0"
    masked = name in ("sum", "max") and b.rng.random() < 0.1
    if masked and b.kind(x) == "f" and not b.smooth:
        options += f", where={x} > 0" + (", initial=-1.0" if name == "max" else "")
    return f"np.{name}({x}{options})"


@family("idioms", 4)
def idiom(b: Builder) -> str | None:
    """Common idioms: norms, softmax, scaled sums, log-sum-exp, standard scores."""
    x = b.array("f", empty=False)
    y = None if x is None else b.like(x, "f")
    if x is None or y is None:
        return None
    if b.smooth:
        return b.rng.choice((
            f"np.exp({x}) / np.sum(np.exp({x}), axis=-1, keepdims=True)",
            f"np.sum({x} * {y}, axis=-1)", f"np.sum({x} * 0.25)", f"np.mean(({x} - {y}) ** 2)",
            f"np.sum(({x} - {y}) * {y}, axis=-1)", f"np.log(np.sum(np.exp({x}), axis=-1))",
            f"np.sqrt(np.sum({x} ** 2 + 1.0, axis=-1))", f"np.sum({x} / 8.0, axis=0) * 3.0",
        ))  # fmt: skip
    return b.rng.choice((
        f"np.exp({x} - np.max({x}, axis=-1, keepdims=True))",
        f"np.exp({x}) / np.sum(np.exp({x}), axis=-1, keepdims=True)",
        f"np.max({x}) + np.log(np.sum(np.exp({x} - np.max({x}))))",
        f"np.max(np.abs({x})) * np.sqrt(np.sum(({x} / np.max(np.abs({x}))) ** 2))",
        f"np.sum({x} / np.max({x}))",
        f"({x} - np.mean({x}, axis=-1, keepdims=True)) / np.std({x}, axis=-1, keepdims=True)",
        f"np.sum({x} * {y}, axis=-1)", f"np.sum({x} * 0.25)",
        f"np.sum({x} / 8.0, axis=0) * {b.number()}",
        f"np.mean(({x} - {y}) ** 2)", f"np.sum(({x} - {y}) * {y}, axis=-1)",
        f"np.sqrt(np.sum({x} ** 2, axis=-1))",
        f"np.sum(np.where({x} > 0, {x}, 0.0))", f"np.sum(np.maximum({x}, {y}), axis=0)",
        f"np.log(np.sum(np.exp({x}), axis=-1))",
        f"np.sum({x} * (np.arange({b.shape(x)[-1]}) == 1), axis=-1)", f"np.linalg.norm({x})",
        f"np.sum(np.abs({x}))",
    ))  # fmt: skip
