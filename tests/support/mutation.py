"""Breaks each rule of each primitive in turn, and asks whether the checks of test_rules.py notice.

    python tests/support/mutation.py            every mutant; exit status 1 where one survives
    python tests/support/mutation.py mul tanh   those of some primitives

A mutant is a primitive with one rule changed: a cotangent or tangent with the wrong sign, dropped,
or off by a tenth of a percent; a batch rule that drops, reverses or negates; a type rule with
another dtype or shape; a derivative cut, or one that is no longer cut.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from checks import CHECKS, OURS, SAMPLES, samples_of

from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import Masked, mul, neg
from fungrad.primitives.primitive import Primitive
from fungrad.tracing.trace import typeof

UNMUTATED: dict[str, Primitive] = {n: p for n, p in OURS.items() if n in SAMPLES}


class Mutant(NamedTuple):
    """One changed rule."""

    primitive: str
    rule: str
    change: str
    new: Any

    def __str__(self) -> str:
        return f"{self.primitive}.{self.rule}: {self.change}"


@contextmanager
def applied(mutant: Mutant) -> Iterator[Primitive]:
    """The primitive with the change, for the time of the block."""
    primitive = UNMUTATED[mutant.primitive]
    write = object.__setattr__
    old, old_plain = getattr(primitive, mutant.rule), primitive.plain
    write(primitive, mutant.rule, mutant.new)
    if mutant.rule == "cuts":
        rest = primitive.forward or primitive.keep or primitive.multiple
        rest = rest or primitive.partials is None
        write(primitive, "plain", not (mutant.new or rest))
    try:
        yield primitive
    finally:
        write(primitive, mutant.rule, old)
        write(primitive, "plain", old_plain)


# --- changes of one cotangent, tangent or output
# ----------------------------------------------------------


def negated(x: Any) -> Any:
    if x.__class__ is Masked:
        return Masked(neg(x.value), x.mask)
    return neg(x)


def scaled(x: Any) -> Any:
    if x.__class__ is Masked:
        return Masked(mul(x.value, 1.001), x.mask)
    return mul(x, 1.001)


def dropped(x: Any) -> Any:
    """Zero in place of a cotangent; a partial cannot answer None."""
    return Masked(mul(x.value, 0.0), x.mask) if x.__class__ is Masked else mul(x, 0.0)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "wrong sign": negated,
    "dropped": lambda x: None,
    "off by 0.1%": scaled,
}
"""Each argument gets the smallest, and one of the others in turn, which are easier to notice."""


def differentiated(primitive: Primitive) -> list[int]:
    """The positions of arguments with a derivative, as the samples show them."""
    if primitive.cuts is True:
        return []
    return sorted(
        {
            i
            for sample in samples_of(primitive)
            for i, arg in enumerate(sample.args)
            if sample.order >= 0
            and typeof(arg).inexact
            and i not in primitive.cuts
            and typeof(arg).size
        }
    )


def mutants(primitive: Primitive) -> Iterator[Mutant]:
    name = primitive.name
    if not any(
        primitive.infer([typeof(a) for a in s.args], s.params) for s in samples_of(primitive)
    ):
        return  # without outputs (a debug print) there is nothing that could be wrong
    for position in differentiated(primitive):
        for change in ("off by 0.1%", ("wrong sign", "dropped")[(position + len(name)) % 2]):
            apply = CHANGES[change]
            if primitive.vjp is not None:
                new = changed_vjp(primitive.vjp, position, apply)
                yield Mutant(name, "vjp", f"argument {position} {change}", new)
            if primitive.undo is not None:
                new = changed_undo(primitive.undo, position, apply)
                yield Mutant(name, "undo", f"argument {position} {change}", new)
            if primitive.partials is not None:
                new = changed_partials(primitive.partials, position, apply)
                yield Mutant(name, "partials", f"argument {position} {change}", new)
            if primitive.jvp is not None:
                new = changed_jvp(primitive.jvp, position, apply)
                yield Mutant(name, "jvp", f"argument {position} {change}", new)
    if differentiated(primitive):
        yield Mutant(name, "cuts", "everything is cut", True)
        if primitive.forward is not None:
            yield Mutant(name, "forward", "wrong sign", changed_forward(primitive.forward))
    if primitive.cuts is True and any(
        typeof(a).inexact for s in samples_of(primitive) for a in s.args
    ):
        if any(map(returns_inexact, samples_of(primitive))):
            yield Mutant(name, "cuts", "no longer cut", frozenset())
    if primitive.batch is not None:
        yield Mutant(name, "batch", "missing", None)
        yield Mutant(name, "batch", "examples in reverse", changed_batch(primitive, np.flip))
        yield Mutant(
            name, "batch", "first example for all", changed_batch(primitive, first_for_all)
        )
    yield Mutant(name, "type", "another dtype", changed_type(primitive, another_dtype))
    yield Mutant(name, "type", "one more axis", changed_type(primitive, another_shape))
    yield Mutant(name, "type", "weak turned", changed_type(primitive, another_weak))


def returns_inexact(sample: Any) -> bool:
    primitive = UNMUTATED[sample.name]
    types = primitive.infer([typeof(a) for a in sample.args], sample.params)
    return any(t.inexact for t in types) and any(
        typeof(a).inexact and typeof(a).size for a in sample.args
    )


def changed_vjp(vjp: Any, position: int, apply: Callable[[Any], Any]) -> Any:
    def new(cotangent: Any, output: Any, args: Any, wanted: Any, **params: Any) -> Any:
        found = list(vjp(cotangent, output, args, wanted, **params))
        if position < len(found) and found[position] is not None:
            found[position] = apply(found[position])
        return found

    return new


def changed_undo(undo: Any, position: int, apply: Callable[[Any], Any]) -> Any:
    """Of the first cotangent, which is changed in place, or of the second, which is returned."""

    def new(total: Any, args: Any, wanted: Any, **params: Any) -> Any:
        second = undo(total, args, wanted, **params)
        if position == 0:
            changed = apply(total.value)
            total.value[...] = 0 if changed is None else changed
        elif second is not None:
            return apply(second)
        return second

    return new


def changed_partials(partials: Any, position: int, apply: Callable[[Any], Any]) -> Any:
    def new(cotangent: Any, output: Any, args: Any) -> Any:
        found = partials[position](cotangent, output, args)
        changed = apply(found)
        return dropped(found) if changed is None else changed

    return (*partials[:position], new, *partials[position + 1 :])


def changed_jvp(jvp: Any, position: int, apply: Callable[[Any], Any]) -> Any:
    def new(primals: Any, tangents: Any, **params: Any) -> Any:
        tangents = list(tangents)
        if position < len(tangents) and tangents[position] is not None:
            tangents[position] = apply(tangents[position])
            if all(t is None for t in tangents):
                output, tangent = jvp(primals, list(primals), **params)
                return output, tuple([None] * len(output)) if tangent.__class__ is tuple else None
        return jvp(primals, tangents, **params)

    return new


def changed_forward(forward: Any) -> Any:
    def new(args: Any, wanted: Any, **params: Any) -> Any:
        output, saved, kept = forward(args, wanted, **params)
        return (
            (tuple(neg(o) for o in output) if output.__class__ is tuple else neg(output)),
            saved,
            kept,
        )

    return new


def first_for_all(x: Any, axis: int) -> Any:
    return np.repeat(x[:1], x.shape[0], axis)


def changed_batch(primitive: Primitive, apply: Callable[[Any, int], Any]) -> Any:
    batch = primitive.batch
    assert batch is not None

    def new(args: Any, batched: Any, size: int, **params: Any) -> Any:
        output = batch(args, batched, size, **params)
        return tuple(apply(o, 0) for o in output) if primitive.multiple else apply(output, 0)

    return new


def changed_type(primitive: Primitive, apply: Callable[[Type], Type]) -> Any:
    rule = primitive.type

    def new(*types: Type, **params: Any) -> Any:
        result = rule(*types, **params)
        return tuple(apply(t) for t in result) if primitive.multiple else apply(result)

    return new


def another_dtype(type_: Type) -> Type:
    dtype = np.dtype(np.float32 if type_.dtype != np.float32 else np.float64)
    return Type(type_.shape, dtype, type_.weak)


def another_shape(type_: Type) -> Type:
    return Type((1, *type_.shape), type_.dtype, type_.weak)


def another_weak(type_: Type) -> Type:
    return Type(type_.shape, type_.dtype, not type_.weak)


# --- the run
# ------------------------------------------------------------------------------------------------


FIRST = {"batch": "batch", "type": "type", "cuts": "finite_differences"}
"""The check that most likely notices a change of a rule; of a derivative: the inner products."""


def caught(mutant: Mutant) -> str:
    """The name of the check that notices a mutant; empty where none does."""
    first = FIRST.get(mutant.rule, "inner_products")
    if mutant.new is None:  # vmap falls back to a loop, slowly, and gives the same numbers
        first = "rules_exist"
    with applied(mutant) as primitive:
        for name in (first, *(n for n in CHECKS if n != first)):
            for sample in samples_of(primitive):
                try:
                    CHECKS[name](primitive, sample)
                except Exception:
                    return name
    return ""


def fails(name: str) -> list[str]:
    """The checks that fail without a mutant, and so would notice nothing."""
    failed = []
    for check, run in CHECKS.items():
        for sample in samples_of(UNMUTATED[name]):
            try:
                run(UNMUTATED[name], sample)
            except Exception:
                failed.append(f"{name}: {check} fails without a mutant")
    return failed


def survivors(name: str) -> tuple[int, list[str]]:
    """How many mutants a primitive has, and those that no check notices."""
    tried = list(mutants(UNMUTATED[name]))
    return len(tried), [str(mutant) for mutant in tried if not caught(mutant)]


if __name__ == "__main__":
    chosen = sys.argv[1:] or sorted(UNMUTATED)
    failed = [failure for name in chosen for failure in fails(name)]
    counts, found = zip(*map(survivors, chosen), strict=True)
    alive = [mutant for survived in found for mutant in survived]
    print(f"{sum(counts)} mutants, {len(alive)} survived")
    print("\n".join(failed + alive))
    sys.exit(1 if failed or alive or not sum(counts) else 0)
