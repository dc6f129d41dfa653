"""The checks of every primitive at every sample; test_rules.py runs them, mutation.py breaks rules.

A check that fails raises AssertionError (or the error of the primitive).
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from samples import SAMPLES, Sample

import fungrad as fg
import fungrad.scipy.special.lazy_functions  # its primitives are declared when it is imported
from fungrad.ir.types import PYTHON_SCALARS
from fungrad.primitives.primitive import Primitive
from fungrad.testing import check_grads, missing_rules
from fungrad.testing.registry import all_primitives
from fungrad.tracing.trace import typeof

TAPE_ONLY = {"observe", "recompute"}
"""Marks of eager tapes, never called (`checkpoint`), and fg.digits' identity, whose vjp is none."""
OURS: dict[str, Primitive] = {
    name: primitive
    for (module, name), primitive in all_primitives().items()
    if module.startswith("fungrad.") and name not in TAPE_ONLY
}
LOOPED = [("autograd_primitive", "batch")]
"""Rules that are missing on purpose: code of the user that takes one example at a time."""
Check = Callable[[Primitive, Sample], None]


def call(primitive: Primitive, sample: Sample) -> Callable[..., Any]:
    """The primitive as a function of arrays only."""
    return lambda *args: primitive(*args, **sample.params)


def outputs(primitive: Primitive, result: Any) -> tuple[Any, ...]:
    return tuple(result) if primitive.multiple else (result,)


def inexact(value: Any) -> bool:
    return typeof(value).inexact


def active(sample: Sample) -> list[int]:
    return [i for i, arg in enumerate(sample.args) if inexact(arg)]


def differentiable(primitive: Primitive, sample: Sample) -> bool:
    """Whether a sample has derivatives, which no rule that mutation.py breaks decides."""
    if sample.order < 0 or not active(sample):
        return False  # opaque code, whose rule stands in the `custom` around it
    known = _differentiable.get(id(sample))
    if known is None:
        with np.errstate(all="ignore"):
            results = outputs(primitive, primitive(*sample.args, **sample.params))
        _differentiable[id(sample)] = known = any(inexact(r) for r in results)
    return known


_differentiable: dict[int, bool] = {}
"""By the identity of a sample in the table, which stays."""


def assert_same(found: Any, expected: Any, what: str, rtol: float = 0.0) -> None:
    """Equal in value, shape, dtype, and in being a Python number or not."""
    assert (found.__class__ in PYTHON_SCALARS) == (expected.__class__ in PYTHON_SCALARS), (
        f"{what}: {type(found)} for {type(expected)}"
    )
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype, f"{what}: dtype {found.dtype} for {expected.dtype}"
    assert found.shape == expected.shape, f"{what}: shape {found.shape} for {expected.shape}"
    if found.dtype != object:  # a tape of residuals, whose inside is its own business
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol, err_msg=what)


def tolerance(*values: Any) -> float:
    """For numbers computed in two orders."""
    widths = [
        typeof(v).dtype.itemsize // (2 if typeof(v).dtype.kind == "c" else 1)
        for v in values
        if inexact(v)
    ]
    return 1e-5 if 4 in widths else 1e-12


# --- the checks
# -----------------------------------------------------------------------------------------


def check_type(primitive: Primitive, sample: Sample) -> None:
    """The type rule agrees with the result of eval: shape, dtype, weak."""
    with np.errstate(all="ignore"):
        results = outputs(primitive, primitive.eval(*sample.args, **sample.params))
    inferred = primitive.infer([typeof(a) for a in sample.args], sample.params)
    assert inferred == tuple(typeof(r) for r in results), f"{sample}: {inferred}"


def check_staged(primitive: Primitive, sample: Sample) -> None:
    """Staged and eager results are equal, dtype and weak bit included."""
    f = call(primitive, sample)
    with np.errstate(all="ignore"):
        graph = fg.make_jaxpr(f)(*sample.args)
        fg.check_graph(graph)
        staged = fg.evaluate(graph, *sample.args)
        eager = outputs(primitive, f(*sample.args))
    for found, expected in zip(staged, eager, strict=True):
        assert_same(found, expected, f"staged {sample}")


CANCELLING = ("cofactors", "cofactors_along")
"""Of one row these are 1 and 0, of which the differences are the rounding on the way there."""


def check_finite_differences(primitive: Primitive, sample: Sample) -> None:
    """Both modes, and their mixtures of order 2, against central differences."""
    if sample.order == 0 or not differentiable(primitive, sample):
        return
    moved = [i for i in range(len(sample.args)) if i not in sample.fixed]

    def f(*values: Any) -> Any:
        args = list(sample.args)
        for i, value in zip(moved, values, strict=True):
            args[i] = value
        return primitive(*args, **sample.params)

    atol = None
    if sample.name in CANCELLING:
        atol = 1e-5 if np.result_type(*sample.args) in (np.float32, np.complex64) else 1e-9
    check_grads(f, [sample.args[i] for i in moved], order=sample.order, atol=atol)


def check_inner_products(primitive: Primitive, sample: Sample) -> None:
    """<jvp t, g> == <t, vjp g>, to rounding, also where finite differences fail."""
    if not differentiable(primitive, sample):
        return
    random = np.random.default_rng(1)
    where = active(sample)

    def f(*xs: Any) -> list[Any]:
        args = list(sample.args)
        for i, x in zip(where, xs, strict=True):
            args[i] = x
        results = outputs(primitive, primitive(*args, **sample.params))
        return [r for r in results if inexact(r)]

    def like(x: Any) -> Any:
        type_ = typeof(x)
        value = random.uniform(0.5, 1.5, type_.shape)
        if type_.dtype.kind == "c":
            value = value - 1j * random.uniform(0.5, 1.5, type_.shape)
        return value.astype(type_.dtype) if type_.shape else type_.dtype.type(value)

    xs = [sample.args[i] for i in where]
    with np.errstate(all="ignore"):
        out, pullback = fg.vjp(f, *xs)
        tangents = [like(x) for x in xs]
        cotangents = [like(o) for o in out]
        moved, pushed = fg.jvp(f, xs, tangents)
        pulled = pullback(cotangents)
        plain = f(*xs)
    compiled = any(isinstance(v, fg.Graph) for v in sample.params.values())
    rtol = 1e-14 if compiled else 0.0  # a Graph and its derivatives are compiled, each as suits it
    for found, also, expected in zip(out, moved, plain, strict=True):
        assert_same(found, expected, f"the output of vjp of {sample}", rtol)
        assert_same(also, expected, f"the output of jvp of {sample}", rtol)
    for x, gradient in zip(xs, pulled, strict=True):
        assert (typeof(gradient).shape, typeof(gradient).dtype) == (
            typeof(x).shape,
            typeof(x).dtype,
        ), f"the gradient of {sample} has type {typeof(gradient)}"
    for o, tangent in zip(out, pushed, strict=True):
        assert (typeof(tangent).shape, typeof(tangent).dtype) == (
            typeof(o).shape,
            typeof(o).dtype,
        ), f"the tangent of {sample} has type {typeof(tangent)}"
    left, left_size = inner(pushed, cotangents)
    right, right_size = inner(tangents, pulled)
    assert abs(left - right) <= tolerance(*xs, *out) * max(1.0, left_size, right_size), (
        f"{sample}: <jvp t, g> = {left}, <t, vjp g> = {right}"
    )


def check_recorded_pullback(primitive: Primitive, sample: Sample) -> None:
    """A pullback recorded into a Graph equals the eager one, which may change cotangents in place
    (`undo`, `collect`).
    """
    if not differentiable(primitive, sample):
        return
    where = active(sample)

    def pulled(xs: Any, cotangents: Any) -> Any:
        def f(*xs: Any) -> list[Any]:
            args = list(sample.args)
            for i, x in zip(where, xs, strict=True):
                args[i] = x
            return [r for r in outputs(primitive, primitive(*args, **sample.params)) if inexact(r)]

        return fg.vjp(f, *xs)[1](cotangents)

    xs = [sample.args[i] for i in where]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        results = outputs(primitive, primitive(*sample.args, **sample.params))
        cotangents = [r for r in results if inexact(r)]
        eager = pulled(xs, cotangents)
        recorded = fg.evaluate(fg.make_jaxpr(pulled)(xs, cotangents), *xs, *cotangents)
    for found, expected in zip(recorded, eager, strict=True):
        found, expected = np.asarray(found), np.asarray(expected)  # a Graph may keep weak types
        assert_same(found, expected, f"the recorded pullback of {sample}", tolerance(expected))


def inner(xs: Any, ys: Any) -> tuple[float, float]:
    terms = [np.sum(np.asarray(x) * y) for x, y in zip(xs, ys, strict=True)]
    return float(np.real(sum(terms))), float(
        sum(np.sum(np.abs(np.asarray(x) * y)) for x, y in zip(xs, ys, strict=True))
    )


def stacked(x: Any, size: int, scaled: bool = False) -> Any:
    """A batch of different values: the first is x itself, the others have its elements in turn.

    Where turned elements would leave the domain (of positive definite matrices) they are scaled.
    """
    x = np.asarray(x)
    if scaled:
        return np.stack([x * (1 + i / 4) for i in range(size)]).astype(x.dtype)
    if x.dtype == bool:
        return np.stack([x ^ bool(i % 2) for i in range(size)])
    turned = [np.roll(x.ravel(), i).reshape(x.shape) for i in range(size)]
    if x.dtype.kind == "c":
        turned = [t + i * (1 + 2j) / 64 for i, t in enumerate(turned)]
    elif x.dtype.kind == "f":
        turned = [t + i / 64 for i, t in enumerate(turned)]
    return np.stack(turned).astype(x.dtype)


SCALED = {
    "checked",
    "cholesky",
    "digitize",
    "frechet",
    "full_rank",
    "hermitian_function",
    "matrix_function",
    "solve_banded",
    "sparse_eigsh",
    "sparse_solve",
}
"""Primitives of conditions and matrices that leave their domain if elements are rotated."""


def check_batch(primitive: Primitive, sample: Sample) -> None:
    """The batch rule is the loop, for every combination of batched arguments (16 at most)."""
    if not sample.args:
        return
    f = call(primitive, sample)
    size = 4
    # A tape of residuals is one for all examples, and only pullbacks read it.
    kept = [
        i for i, o in enumerate(outputs(primitive, f(*sample.args))) if typeof(o).dtype != object
    ]

    def g(*args: Any) -> tuple[Any, ...]:
        found = outputs(primitive, f(*args))
        return tuple(found[i] for i in kept)

    combinations = [c for c in itertools.product((True, False), repeat=len(sample.args)) if any(c)]
    for flags in combinations[:16]:
        scaled = primitive.name in SCALED
        args = [
            stacked(a, size, scaled) if b else a for a, b in zip(sample.args, flags, strict=True)
        ]
        with np.errstate(all="ignore"):
            found = outputs(
                primitive, fg.vmap(f, in_axes=tuple(0 if b else None for b in flags))(*args)
            )
            rows = [
                outputs(primitive, f(*[a[i] if b else a for a, b in zip(args, flags, strict=True)]))
                for i in range(size)
            ]
        for value, column in zip(found, zip(*rows, strict=True), strict=True):
            assert_same(
                value, np.stack(column), f"vmap of {sample}, {flags}", rtol=tolerance(value)
            )


def check_rules_exist(primitive: Primitive, sample: Sample) -> None:
    """No transform has to fall back or to give up."""
    lacking = [rule for name, rule in missing_rules("fungrad.") if name == primitive.name]
    assert not lacking, f"{primitive.name} has no {lacking}"


CHECKS: dict[str, Check] = {
    "type": check_type,
    "staged": check_staged,
    "inner_products": check_inner_products,
    "recorded_pullback": check_recorded_pullback,
    "finite_differences": check_finite_differences,
    "batch": check_batch,
    "rules_exist": check_rules_exist,
}


def samples_of(primitive: Primitive) -> Iterator[Sample]:
    yield from SAMPLES.get(primitive.name, [])
