"""Loops and branches with bodies of their own, rules, stops, checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..generate import Builder, family

INNER = {"loops", "branches", "rules"}


def _inner(b: Builder) -> Any:
    if b.depth >= 2 or b.rng.random() < 0.8:
        return lambda name: name not in INNER
    return None


def _same_type(b: Builder, value: Any) -> Any:
    """Picks a value for the next carry of this type."""
    dtype, shape = np.asarray(value).dtype, np.shape(value)

    def choose() -> str | None:
        return b.pick(
            "bifc", lambda v: hasattr(v, "dtype") and np.shape(v) == shape and v.dtype is dtype
        )

    return choose


def _carry(b: Builder) -> str | None:
    return b.pick(
        "f" if b.smooth else "ifc",
        lambda v: hasattr(v, "dtype") and v.dtype.isnative and np.size(v) <= 20_000,
    )


@family("loops", 4)
def scanned(b: Builder) -> str | None:
    if b.depth >= 2:
        return None
    carry, xs = _carry(b), b.array("f" if b.smooth else "bifc", empty=False)
    if carry is None or xs is None or b.shape(xs)[0] > 3000:
        return None
    start, row = b.value(carry), b.value(xs)[0]
    if np.size(start) * b.shape(xs)[0] > b.limit():
        return None
    chosen = _same_type(b, start)

    def result() -> str | None:
        next_, out = chosen(), b.pick()
        return None if next_ is None or out is None else f"{next_}, {out}"

    body = b.body((start, row), result, families=_inner(b))
    if body is None:
        return None
    options = b.rng.choice(("", "", "", ", reverse=True", ", checkpoint='binomial'", ", unroll=2"))
    return f"lax.scan({body}, {carry}, {xs}{options})#2"


@family("loops", 4)
def counted(b: Builder) -> str | None:
    if b.depth >= 2:
        return None
    carry = _carry(b)
    if carry is None:
        return None
    start = b.value(carry)
    count = b.rng.choice((0, 1, 3, 4))
    if b.rng.random() < 0.5:
        body = b.body((np.int64(0), start), _same_type(b, start), families=_inner(b))
        return None if body is None else f"lax.fori_loop(0, {count}, {body}, {carry})"
    inner = b.body((start,), _same_type(b, start), families=_inner(b))
    if inner is None:
        return None
    limit = (
        ""
        if b.smooth or b.kind(carry) == "c"
        else b.rng.choice(("", "", f" & (np.sum(s[1]) < {b.number()})"))
    )
    going, step = f"(s[0] < {count}){limit}", f"(s[0] + 1, {inner}(s[1]))"
    return f"lax.while_loop(lambda s: {going}, lambda s: {step}, (0, {carry}))[1]"


@family("loops", 4)
def mapped(b: Builder) -> str | None:
    xs = b.array("f" if b.smooth else "bifc", empty=False)
    if xs is None or b.depth >= 2 or b.shape(xs)[0] > 500:
        return None
    body = b.body((b.value(xs)[0],), lambda: b.pick(), families=_inner(b))
    return None if body is None else f"lax.map({body}, {xs})"


@family("branches", 3)
def branched(b: Builder) -> str | None:
    if b.depth >= 2:
        return None
    x = _carry(b)
    p = b.pick("bif", lambda v: np.size(v) > 0)
    if x is None or p is None:
        return None
    start = b.value(x)
    yes = b.body((start,), _same_type(b, start), families=_inner(b))
    no = b.body((start,), _same_type(b, start), families=_inner(b))
    if yes is None or no is None:
        return None
    if b.kind(p) == "i" and b.rng.random() < 0.5:
        return f"lax.switch(np.max({p}) % 3, [{yes}, {no}, {yes}], {x})"
    if b.smooth:
        return f"lax.cond({b.rng.choice(('True', 'False'))}, {yes}, {no}, {x})"
    return f"lax.cond(np.sum({p}) > {b.number()}, {yes}, {no}, {x})"


@family("rules", 3)
def wrapped(b: Builder) -> str | None:
    """A function of one array under checkpoint, an inner jit, or a rule of its own."""
    if b.depth >= 2:
        return None
    x = _carry(b)
    if x is None:
        return None
    start = b.value(x)
    how = b.rng.choice(
        ("checkpoint", "jit") if b.smooth else ("checkpoint", "jit", "custom_jvp", "custom_vjp")
    )
    if how in ("checkpoint", "jit"):
        body = b.body((start,), lambda: b.pick(), families=_inner(b))
        return None if body is None else f"fg.{how}({body})({x})"
    if b.kind(x) not in "fc":
        return None
    body = b.body((start,), _same_type(b, start), families=_inner(b), closed=True)
    if body is None:
        return None
    rule = b.fresh("rule")
    n = b.rng.choice(
        ("2", "np.float16(0.5)", "(x * x)", "np.where(x == 0, 1, 0).astype(np.result_type(x))")
    )
    if how == "custom_jvp":
        derivative = f"lambda p, t, f={body}: (f(p[0]), (lambda x: t[0] * {n})(p[0]))"
        b.between = [f"{rule} = fg.custom_jvp({body})", f"{rule}.defjvp({derivative})"]
    else:
        halves = f"lambda x, f={body}: (f(x), x), lambda x, t: (t * {n},)"
        b.between = [f"{rule} = fg.custom_vjp({body})", f"{rule}.defvjp({halves})"]
    return f"{rule}({x})"


@family("stops", 2)
def stopped(b: Builder) -> str | None:
    if b.smooth:
        return None
    x = b.pick()
    return (
        None
        if x is None
        else b.rng.choice(
            (
                f"fg.stop_gradient({x})",
                f"{x} - fg.stop_gradient({x})",
                f"{x} * fg.stop_gradient({x})",
            )
        )
    )
