"""The optimiser: every rule fires on its example and changes no number; loops get lighter."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings

import fungrad as fg
from fungrad import lax
from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.pipeline import PASSES, inline, optimised
from fungrad.compiler.passes.rewriter import Writer, apply_rules
from fungrad.compiler.passes.simplify.arithmetic import KERNELS
from fungrad.compiler.passes.simplify.driver import (
    ELEMENTWISE,
    RULES,
    rules_for,
    simplify,
)
from fungrad.compiler.passes.simplify.reassociation import REGROUPED
from fungrad.control_flow.call import shared
from fungrad.ir.graph import Graph
from fungrad.primitives.primitive import Primitive
from fungrad.retracing.graph_transforms import differentiate
from fungrad.support import pytree
from fungrad.testing import programs

SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, 1e308, -1e308, 5e-324, np.inf, -np.inf, np.nan])
OTHER = np.array([3.0, -0.0, 0.5, 7.0, 10.0, 1e-3, 2.0, 2.0, -1.0, 1.0])
MATRIX = np.arange(6.0).reshape(2, 3)
PLAIN = np.array([1.5, -0.25, 3.0, 2.0])
TALL = np.arange(1.0, 41.0).reshape(20, 2)


# By the reason of each rule: a function, its arguments, and the primitives that are left of it.
EXAMPLES = {
    "x * 1 is x": (lambda x: (x * 1.0) + 3.0, (SPECIAL,), ["add"]),
    "a cast or reshape to its type": (lambda x: np.reshape(x, (10,)) + 3.0, (SPECIAL,), ["add"]),
    "an identity transpose": (lambda x: np.transpose(x, (0, 1)) + 1.0, (MATRIX,), ["add"]),
    "the last of two reshapes": (
        lambda x: np.reshape(np.reshape(x, (3, 2)), (6,)), (MATRIX,), ["reshape"],
    ),
    "one permutation for two": (
        lambda x: np.transpose(np.transpose(x[None], (1, 2, 0)), (2, 1, 0)),
        (MATRIX,), ["reshape", "transpose"],
    ),
    "a product with a transposed matrix is one along its other axis": (
        lambda x: (x.T @ x) @ x.T, (MATRIX,), ["dot_general", "dot_general"],
    ),
    "a diagonal of a product needs no others": (
        lambda x: np.diagonal(x @ x.T), (MATRIX,), ["dot_general"],
    ),
    "all elements in order: a reshape": (lambda x: x[:, None, :], (MATRIX,), ["reshape"]),
    "slice_axis is getitem": (
        lambda x: np.diff(x, axis=1), (MATRIX,), ["getitem", "getitem", "sub"],
    ),
    "a pad is a scatter": (
        lambda x: np.pad(x, ((0, 1), (2, 0))), (MATRIX,), ["scatter"],
    ),
    "a slice of a slice is one": (
        lambda x: x[1:, :-1][..., 1:-1], (np.arange(18.0).reshape(3, 6),), ["getitem"],
    ),
    "- -x is x": (lambda x: np.negative(-x) + 3.0, (SPECIAL,), ["add"]),
    "-x * y is -(x * y)": (lambda x, y: -((-x) * y), (SPECIAL, OTHER), ["mul"]),
    "x + -y is x - y": (lambda x, y: y + (-x), (SPECIAL, OTHER), ["sub"]),
    "a select of a select is one": (
        lambda x, y: np.where(
            x > 0.0, np.where(x > 0.0, x, y), np.where(x > 0.0, x * y, y + 1.0),
        ), (SPECIAL, OTHER), ["gt", "add", "select"],
    ),
    "neg and mul apply to the selected operand": (
        lambda x, y: np.where(x > 0.0, np.where(x > 0.0, y[0], y) * -2.0, y), (SPECIAL, OTHER),
        ["gt", "getitem", "mul", "select"],
    ),
    "complementary selects, added, are one": (
        lambda x, y: np.where(x > 0.0, y, 0.0) + np.where(~(x > 0.0), x, 0.0), (SPECIAL, OTHER),
        ["gt", "select", "add"],
    ),
    "x / 8 is x * 0.125": (lambda x: x / 8.0, (SPECIAL,), ["mul"]),
    "x.T * 2 is (x * 2).T": (lambda x: np.transpose(x.T * -2.0), (MATRIX,), ["mul"]),
    "the zeros of a scatter are not added": (
        lambda x, y: fg.grad(lambda z: np.sum(z[1:] ** 2 * y[1:]) + np.sum(np.sin(z)))(x),
        (OTHER, OTHER), ["index_add"],
    ),
    "slices that cover zeros are concatenated": (
        lambda x: fg.grad(lambda z: np.sum(np.sin(z[:2])) + np.sum(z[2:] * x[2:]))(x),
        (OTHER,), ["getitem", "getitem", "cos", "concatenate"],
    ),
    "a uniform array is a number": (
        lambda x: fg.grad(np.sum)(x) * x, (SPECIAL,), [],
    ),
    "NumPy broadcasts by itself": (
        lambda x, y: np.broadcast_to(x, (2, 10)) * y, (OTHER, np.ones((2, 10))), ["mul"],
    ),
    "in a derivative, sum(x / r) is sum(x * (1 / r)) where r is constant in each sum": (
        lambda x, r: fg.vjp(lambda r: x / r, r)[1](np.ones((20, 2)))[0],
        (TALL * 2.0**1018, np.array([2.0, -0.5]) * 2.0**30),
        ["div", "mul", "reduce_sum", "div", "neg"],
    ),
    "in a derivative, a @ (2 * x) is 2 * (a @ x) where the product has fewer elements": (
        lambda x, w: fg.grad(lambda w: np.sum((x @ w) ** 2))(w), (TALL, PLAIN[:2]),
        ["dot_general", "dot_general", "mul"],
    ),
    "in a derivative, a @ x + b @ x is (a + b) @ x": (
        lambda x, w: fg.vjp(lambda w: (x @ w, x @ w), w)[1]((x[:, 0], x[:, 1]))[0],
        (TALL, PLAIN[:2]), ["getitem", "getitem", "add", "dot_general"],
    ),
}  # fmt: skip


# The same of rules for other kernels than NumPy's.
OF_KERNELS = {
    "x ** 3 is x * x * x, within 2 ulp": (
        lambda x: (x**3, x**4.0), (SPECIAL,), ["power", "mul", "mul"],
    ),
}  # fmt: skip

# The same of a rule that holds in exact arithmetic only, at numbers where it does.
OF_REGROUPING = {
    "sum(x * r) is sum(x) * r, and sum(x * y + z) is x . y + sum(z)": (
        lambda x, y: (np.sum(x * x[:, :1], 1), np.sum(y * (y + 1.0))), (TALL, PLAIN),
        ["getitem", "reduce_sum", "reshape", "mul", "add", "add", "dot_general"],
    ),
}  # fmt: skip

COMPLEX = SPECIAL + 1j * OTHER
HALF = OTHER.astype(np.float16)
# By the reason of each rule: functions and arguments for which it is asked, but does not hold,
# mostly as a number would be another.
FORBIDDEN = {
    "x * 1 is x": [(lambda x: x * 1.0, COMPLEX), (lambda x: x * 2.0, SPECIAL)],
    "a cast or reshape to its type": [(lambda x: x.astype(np.float32), OTHER)],
    "an identity transpose": [(lambda x: x.T, MATRIX)],
    "a diagonal of a product needs no others": [
        (lambda x: np.diagonal(x @ x.T, 1), MATRIX),
        (lambda x: np.diagonal(x @ x.T[:, :1]), MATRIX),
        (lambda x: (lambda y: (y, np.diagonal(y)))(x @ x.T), MATRIX),
        (lambda x: np.diagonal(np.stack([x, x]) @ np.stack([x.T, x.T]), 0, 1, 2), MATRIX),
    ],
    "all elements in order: a reshape": [
        (lambda x: x[::-1], MATRIX), (lambda x: fg.vjp(lambda x: x[::-1], x)[1](x)[0], MATRIX),
        (lambda x: x[1:], MATRIX), (lambda x: np.pad(x, 1), MATRIX),
    ],
    "a slice of a slice is one": [(lambda x: x[::-1][1:], MATRIX)],
    "-x * y is -(x * y)": [
        (lambda x: (-x) * x, COMPLEX), (lambda x: (-x) * 2.0, np.arange(3, dtype=np.uint8)),
    ],
    "x + -y is x - y": [
        (lambda x: x - (-x), np.arange(3, dtype=np.uint8) * 1),
        (lambda x: -np.real(x) + x * complex(0.0, -1.0), np.array([0j, complex(-0.0, 0.0)])),
    ],
    "a select of a select is one": [
        (lambda x: np.where(x > 1.0, np.where(x > 0.0, x, 1.0), 2.0), OTHER),
    ],
    "neg and mul apply to the selected operand": [
        (lambda x: np.where(x > 0.0, np.where(x > 0.0, x, x + 1.0) * x, 2.0), OTHER),
    ],
    "complementary selects, added, are one": [
        (lambda x: np.where(x > 0.0, x, 1.0) + np.where(~(x > 0.0), x, 0.0), OTHER),
        (lambda x: np.where(x > 0.0, x, 0.0) + np.where(~(x > 0.0), x, -0.0), OTHER),
        (lambda x: np.where(x > 0.0, x, 0.0) + np.where(x <= 0.0, x, 0.0), OTHER),
        (lambda x: np.where(x > 0.0, x, 0.0) + np.where(~(x > 1.0), x, 0.0), OTHER),
    ],
    "x / 8 is x * 0.125": [
        (lambda x: x / 3.0, OTHER), (lambda x: x / 8.0, COMPLEX), (lambda x: x / 2.0**100, OTHER),
        (lambda x: x / 2.0**16, HALF), (lambda x: x / 2.0**15, HALF),
        (lambda x: x / 2.0**-20, HALF),
    ],
    "x.T * 2 is (x * 2).T": [(lambda x: (x.T, x.T * 2.0), MATRIX)],
    "the zeros of a scatter are not added": [
        (lambda x: np.pad(x, (1, 0)) - np.pad(x, (0, 1)) * x[0] - x[1], OTHER),
        (lambda x: (lambda p: (p, x[0] + p))(np.pad(x, 1)), OTHER),
        (lambda x: x + np.pad(x[1:], (1, 0)), OTHER),
    ],
    "slices that cover zeros are concatenated": [
        (lambda x: fg.grad(lambda z: np.sum(np.exp(z[:6])) + np.sum(np.sin(z[5:])))(x), OTHER),
        (lambda x: fg.grad(lambda z: np.sum(np.exp(z[:4])) + np.sum(np.sin(z[6:])))(x), OTHER),
        (lambda x: fg.grad(
            lambda z: np.sum(np.exp(z[:5])) + np.sum(np.sin(z[4:7])) + np.sum(z[8:] ** 2)
        )(x), OTHER),
    ],
    "a uniform array is a number": [
        (lambda x: x * np.array([0.0, -0.0]), np.ones(2)),
        (lambda x: x * np.ones((3, 1)), np.ones(2)),
    ],
    "in a derivative, sum(x / r) is sum(x * (1 / r)) where r is constant in each sum": [
        (lambda x: np.sum(x / x[:, :1], 1), TALL),
        (lambda x: fg.grad(lambda r: np.sum(r * (x / x[::-1])))(x[0]), TALL),
        (lambda x: fg.grad(lambda r: np.sum(x / r))(x[0]), TALL.astype(np.float16)),
        (lambda x: (lambda z, pull: (z, *pull(np.ones((20, 2)))))(*fg.vjp(lambda r: x / r, x[0])),
         TALL),
    ],
    "in a derivative, a @ (2 * x) is 2 * (a @ x) where the product has fewer elements": [
        (lambda x: x[0] @ (2.0 * x[1]), TALL),
        (lambda x: fg.grad(lambda w: 0.25 * np.sum((x @ w) ** 2))(x[0]), TALL),
        (lambda x: fg.grad(lambda w: 1e300 * np.sum((x @ w) ** 2))(x[0]), TALL * 1e-150),
        (lambda x: fg.grad(lambda w: np.sum((x.T @ w) ** 2))(x[:, 0]), TALL),
    ],
    "in a derivative, a @ x + b @ x is (a + b) @ x": [
        (lambda x: x @ x[0] + x @ x[1], TALL),
        (lambda x: fg.grad(lambda w: np.sum(np.sin(x @ w) + np.sin(x[::-1] @ w)))(x[0]), TALL),
        (lambda x: fg.grad(lambda w: np.sum(np.sin(x @ w) + np.sin(w @ x)))(x[0]), TALL[:2]),
    ],
    "NumPy broadcasts by itself": [(lambda x: np.sin(np.broadcast_to(x, (2, 10))), OTHER)],
    "x ** 3 is x * x * x, within 2 ulp": [
        (lambda x: x**5, OTHER), (lambda x: x**-3, OTHER), (lambda x: x**3, COMPLEX),
        (lambda x: x**3, np.arange(3)), (lambda x: x ** (3 + 0j), OTHER),
        (lambda x: x**1.5j, COMPLEX),
    ],
    "sum(x * r) is sum(x) * r, and sum(x * y + z) is x . y + sum(z)": [
        (lambda x: np.sum(x * x[0], 1), TALL), (lambda x: np.sum(x * 0.5, 1), TALL),
        (lambda x: np.sum(x * x[:, :1], 1), TALL.astype(np.float32)),
        (lambda x: np.sum(x / 2.5), PLAIN), (lambda x: np.sum(2.5 / x), PLAIN),
        (lambda x: np.sum(x * x), np.arange(3)), (lambda x: np.sum(x**5), PLAIN),
        (lambda x: (lambda p: (p, np.sum(p)))(x * (x + 1.0)), PLAIN),
    ],
}  # fmt: skip
NEVER_FORBIDDEN = {
    "a product with a transposed matrix is one along its other axis",
    "slice_axis is getitem", "a pad is a scatter", "- -x is x",
    "the last of two reshapes", "one permutation for two",
}  # fmt: skip


def names(graph):
    return [equation.primitive.name for equation in graph.equations]


def check_rewritten(f, args, expected, **tolerance):
    """The optimised Graph has the expected primitives, in any order, and the same results."""
    graph = fg.make_jaxpr(f)(*args)
    found = optimised(graph)
    fg.check_graph(found)
    assert sorted(names(found)) == sorted(expected)
    for got, want in zip(fg.evaluate(found, *args), fg.evaluate(graph, *args), strict=True):
        np.testing.assert_allclose(got, want, **tolerance)


def traced(f, args, regroup=False):
    return fg.make_jaxpr(f)(*args).choosing(reassociate=regroup)


ALL = {**EXAMPLES, **OF_KERNELS, **OF_REGROUPING}


@pytest.mark.parametrize("reason", ALL)
def test_rule(reason):
    f, args, left = ALL[reason]
    graph = traced(f, args, reason in OF_REGROUPING)
    found = optimised(graph)
    fg.check_graph(found)
    if "index_add" in left:
        assert "index_add" in names(found) and "scatter" not in names(found)
    else:
        assert names(found) == left and found.show() != graph.show()
    assert reason in asked(graph)[0]
    with np.errstate(all="ignore"):
        results = zip(fg.evaluate(found, *args), fg.evaluate(graph, *args), strict=True)
    for got, want in results:
        np.testing.assert_array_equal(got, want)
        assert np.asarray(got).dtype == np.asarray(want).dtype
        numbers = ~np.isnan(want)  # the sign of NaN is nobody's business
        np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])
    if reason in OF_REGROUPING:
        assert reason not in asked(traced(f, args))[1]


@pytest.mark.parametrize("reason", ALL)
def test_a_rule_in_compiled_programs(reason):
    programs = [ALL[reason][:2], *[(f, args) for f, *args in FORBIDDEN.get(reason, ())]]
    for f, args in programs:
        with np.errstate(all="ignore"):
            got = fg.jit(f, reassociate=reason in OF_REGROUPING)(*args)
            want = fg.evaluate(fg.make_jaxpr(f)(*args), *args)
        for x, y in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
            np.testing.assert_allclose(
                x, y, rtol=1e-5 if np.asarray(y).dtype.itemsize < 8 else 1e-12
            )


def asked(graph):
    """The reasons of the rules that held for some equation of a Graph, and of those asked."""
    held, of = set(), set()

    class Watched:
        def __init__(self, rule):
            self.rule, self.of = rule, rule.of

        def applied(self, writer, equation):
            of.add(self.rule.reason)
            result = self.rule.applied(writer, equation)
            if result is not None:
                held.add(self.rule.reason)
            return result

    rules = functools.cache(lambda p: tuple(map(Watched, rules_for(graph)(p))))
    apply_rules(inline(graph), rules)
    return held, of


FORBIDDING = [(reason, i) for reason, examples in FORBIDDEN.items() for i in range(len(examples))]


@pytest.mark.parametrize(("reason", "place"), FORBIDDING)
def test_a_rule_that_is_asked_where_it_does_not_hold(reason, place):
    f, *args = FORBIDDEN[reason][place]
    held, of = asked(traced(f, args, reason in OF_REGROUPING))
    assert reason in of and reason not in held


def test_every_rule_has_an_example_and_one_that_its_guard_forbids():
    assert {rule.reason for rule in (*RULES, *ELEMENTWISE)} == set(EXAMPLES)
    assert {rule.reason for rule in KERNELS} == set(OF_KERNELS)
    assert {rule.reason for rule in REGROUPED} == set(OF_REGROUPING)
    assert set(FORBIDDEN) == set(ALL) - NEVER_FORBIDDEN


def assert_all_rules_were_asked(graph):
    """No rule would have matched an equation whose operands come from no primitive it names."""
    graph = inline(graph)
    everywhere = apply_rules(graph, lambda p: [r._replace(of=()) for r in rules_for(graph)(p)])
    assert simplify(graph).show() == everywhere.show()


@pytest.mark.parametrize("reason", ALL)
def test_rules_are_asked_where_they_may_hold(reason):
    f, args, _ = ALL[reason]
    assert_all_rules_were_asked(traced(f, args, reason in OF_REGROUPING))


@pytest.mark.slow
@given(programs(scalar=False))
@settings(max_examples=60)
def test_rules_are_asked_where_they_may_hold_in_any_program(program):
    args = program.args
    f = fg.grad(lambda *xs: np.sum(program(*xs)), tuple(range(len(args))))
    for regroup in (True, False):
        assert_all_rules_were_asked(traced(f, args, regroup))


def test_no_multiplication_by_zero_and_no_sum_with_zero_is_dropped():
    graph = optimised(fg.make_jaxpr(lambda x: (x * 0.0, x + 0.0, x - x))(SPECIAL))
    assert names(graph) == ["mul", "add", "sub"]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32])
def test_what_is_not_of_the_dtype_of_its_product_keeps_its_sign(dtype):
    x = np.array([0, 1, 1, 0], dtype)
    for f in (lambda x: -(x * 1.0), lambda x: x * np.float64(-1.0), lambda x: -((x > 0) * 1.0)):
        got, want = fg.jit(f)(x), f(x)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_integers_wrap_before_they_meet_floats(dtype):
    x = np.array([0, 3, 100, 127, 128], np.uint8).astype(dtype)
    y = np.array([1.0, -2.0, 0.0, 3.0, 4.0])
    for f in (
        lambda x, y: 2 * x * 2.0,
        lambda x, y: -x * 1.5,
        lambda x, y: y - (-x),
        lambda x, y: -(y * dtype(3)),
        lambda x, y: -((y + 5.0) / 0),
    ):
        with np.errstate(divide="ignore", over="ignore"):
            np.testing.assert_array_equal(fg.jit(f)(x, y), f(x, y))


def test_complex_multiples_of_numbers_are_numpys():
    for f in (lambda x: np.cumsum(1j * np.mean(x)), lambda x: np.ravel(x[0] + 2j)):
        np.testing.assert_array_equal(fg.jit(f)(np.ones(4)), f(np.ones(4)))
    assert fg.jit(lambda x: 1j * x)(2.0).__class__ is complex


def test_integers_and_booleans_keep_their_arithmetic():
    x = np.array([100, -128, 0], np.int8)
    for f in (lambda x: np.negative(-x), lambda x: (-x) * x, lambda x: x + x, lambda x: x * 2 * 2):
        graph = fg.make_jaxpr(f)(x)
        (got,), (want,) = fg.evaluate(optimised(graph), x), fg.evaluate(graph, x)
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_factors_become_one_only_where_the_dtype_holds_it(dtype):
    x = np.array([0.5, 1.5], dtype)
    for f, scale in (
        (lambda x: x * 1e-3 * 1000.0 * 900.0, 1.0),
        (lambda x: x * 2.0 * 40_000.0, 0.1),
        (lambda x: x * 1e-3 * 2e-3, 1000.0),
    ):
        (got,) = fg.evaluate(optimised(fg.make_jaxpr(f)(x)), x * dtype(scale))
        assert got.dtype == dtype
        with np.errstate(over="ignore"):
            expected = f(x * dtype(scale))
        np.testing.assert_allclose(got, expected, rtol=8 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("exponent", [3, 4, 3.0])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_products_for_powers_are_within_2_ulp_and_overflow_alike(dtype, exponent):
    """Of all numbers of half precision; of others at all exponents, and where powers overflow."""
    limits = np.finfo(dtype)
    if dtype is np.float16:
        x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    else:
        rng = np.random.default_rng(0)
        scales = np.exp2(
            np.arange(limits.minexp - limits.nmant, limits.maxexp, dtype=np.longdouble)
        )
        x = (scales[:, None] * rng.uniform(1.0, 2.0, 40)).astype(dtype).reshape(-1)
        for edge in (limits.max, limits.tiny, limits.smallest_subnormal):
            root = np.longdouble(edge) ** (np.longdouble(1) / int(exponent))
            x = np.append(x, (root * np.linspace(0.999, 1.001, 2001)).astype(dtype))
        x = np.concatenate([x, -x, [0.0, -0.0, np.inf, -np.inf, np.nan]]).astype(dtype)
    with np.errstate(all="ignore"):
        found = fg.jit(lambda x: x**exponent)(x)
        exact = np.longdouble(x) ** int(exponent)
        rounded = exact.astype(dtype)
    assert found.dtype == dtype
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(rounded)[numbers])
    largest = np.longdouble(limits.max)
    apart = 2 * largest * limits.eps
    assert np.all(np.isinf(found[np.abs(exact) > largest + apart]))
    assert np.all(np.isfinite(found[np.abs(exact) < largest - apart]))
    finite = np.abs(exact) < largest - apart
    with np.errstate(under="ignore"):
        ulp = np.maximum(np.spacing(np.abs(rounded[finite])), limits.smallest_subnormal)
    assert np.all(np.abs(found[finite] - exact[finite]) <= 2 * np.longdouble(ulp))


@pytest.mark.parametrize("exponent", [3, 4, 3.0])
def test_integer_powers_as_products(exponent):
    x = np.array([0.3, -1.7, 12.0, 1e-20, -3.3e7])
    graph = fg.make_jaxpr(lambda x: x**exponent)(x)
    assert "mul" in names(optimised(graph))
    exact = np.array([float(np.longdouble(v) ** int(exponent)) for v in x])
    (got,) = fg.evaluate(optimised(graph), x)
    assert np.all(np.abs(got - exact) <= 2 * np.spacing(np.abs(exact)))
    before = fg.config.kernels
    fg.config.kernels = "numpy"
    try:
        assert names(optimised(graph)) == ["power"]
    finally:
        fg.config.kernels = before
    with pytest.raises(fg.errors.ArgumentError, match="has to be"):
        fg.config.kernels = "quick"


def test_transposed_products():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 5)), rng.normal(size=(5, 5))
    stacks = np.stack([x, y]), np.stack([y, x, x - y, y])
    examples = [
        (lambda x, y: (x @ y).T + 1.0, (x, y)),
        (lambda x, y: np.einsum("aij,bjk->kabi", x, y), stacks),
        (lambda x, y: np.swapaxes(x @ y, 1, 2) * 2.0, (stacks[0], stacks[0])),
        (lambda x, y: (x @ y).T + (y @ x).T, (x, y)),
        (lambda x, y: (lambda p: p.T + p)(x @ y), (x, y)),
    ]
    for f, args in examples:
        graph = fg.make_jaxpr(f)(*args)
        found = optimised(graph)
        fg.check_graph(found)
        for got, want in zip(fg.evaluate(found, *args), fg.evaluate(graph, *args), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        if args[0].ndim == 2:
            fg.testing.check_grads(fg.jit(f), args, order=2)
            batch = [np.stack([a, a + 1.0]) for a in args]
            for got, want in zip(
                *(np.atleast_1d(g(fg.vmap(f))(*batch)) for g in (fg.jit, lambda f: f)), strict=True
            ):
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@given(programs(scalar=False))
@settings(max_examples=60)
def test_every_pass_leaves_a_graph_that_is_one(program):
    args = program.args
    f = fg.grad(lambda *xs: np.sum(program(*xs)), tuple(range(len(args))))
    graph = fg.make_jaxpr(f)(*args)
    want = fg.evaluate(graph, *args)
    for apply in PASSES:
        graph = apply(graph)
        fg.check_graph(graph)
    for x, y in zip(fg.evaluate(graph, *args), want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)


# --- loops ----------------------------------------------------------------------------------------


def wasteful_scan(w, xs):
    def step(carry, x):
        h, unread, count = carry
        new = np.tanh(h * np.exp(w) + x * np.sum(w * 2.0))
        return (new, unread + np.sin(h), count + 1), (h * 2.0, unread)

    (h, _, _), (ys, _) = lax.scan(step, (w, w, 0), xs)
    return np.sum(h), ys


def wasteful_while(a):
    def body(carry):
        x, y, unread = carry
        return x * 2.0, y + np.sin(a) * x, unread * np.cos(x)

    return lax.while_loop(lambda c: c[0] < 100.0, body, (a, a, a))[1]


def test_a_scan_carries_what_is_read_and_computes_constants_before():
    w, xs = np.array([0.3, -0.2]), np.arange(8.0).reshape(4, 2)
    graph = optimised(fg.make_jaxpr(wasteful_scan)(w, xs))
    (scan,) = [e for e in graph.equations if e.primitive.name == "scan"]
    assert scan.params["counts"][1] == 1 and len(scan.outputs) == 2
    body = names(optimised(scan.params["body"]))
    assert "exp" not in body and "reduce_sum" not in body and "sin" not in body
    assert "exp" in names(graph)
    for got, want in zip(fg.jit(wasteful_scan)(w, xs), wasteful_scan(w, xs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)
    first = fg.jit(fg.grad(lambda w: wasteful_scan(w, xs)[0]))(w)
    np.testing.assert_allclose(first, fg.grad(lambda w: wasteful_scan(w, xs)[0])(w), rtol=1e-13)


def test_a_while_loop_too():
    graph = optimised(fg.make_jaxpr(wasteful_while)(1.5))
    (branch,) = [e for e in graph.equations if e.primitive.name == "switch"]
    steps = branch.params["branches"][1]
    (loop,) = [e for e in steps.equations if e.primitive.name == "while_loop"]
    assert len(loop.outputs) == 2
    assert names(loop.params["body"]).count("sin") == 0 and "sin" in names(steps)
    for f in (wasteful_while, fg.grad(wasteful_while), fg.grad(fg.grad(wasteful_while))):
        np.testing.assert_allclose(fg.jit(f)(1.5), f(1.5), rtol=1e-13)


def inverted(a, go):
    body = lambda c: (c[0] + 1, c[1] @ np.linalg.inv(a))  # noqa: E731
    return lax.while_loop(lambda c: c[0] < go, body, (0, a))[1]


def test_what_may_raise_is_not_computed_for_a_loop_that_makes_no_step():
    singular = np.zeros((2, 2))
    for f in (inverted, fg.jit(inverted)):  # a number of a closure, and of an argument
        np.testing.assert_array_equal(fg.jit(lambda a, f=f: f(a, 0))(singular), singular)
        np.testing.assert_array_equal(fg.jit(f)(singular, 0), singular)
        with pytest.raises(np.linalg.LinAlgError):
            fg.jit(f)(singular, 1)
        with pytest.raises(np.linalg.LinAlgError):
            fg.jit(lambda a, f=f: f(a, 1))(singular)


@pytest.mark.numpy_backend
def test_what_may_warn_is_not_computed_for_a_loop_that_makes_no_step():
    limits = np.array([0.0, 1.0, 3.0])

    def f(a, count):
        body = lambda c: (c[0] + 1.0, c[1] * 0.5 + np.log10(a))  # noqa: E731
        return lax.while_loop(lambda c: c[0] < np.take(limits, count), body, (0.0, a))[1]

    def scanned(a):
        return lax.scan(lambda c, x: (c * x + np.log10(a), None), a, np.zeros((0, 200)))[0]

    a = np.resize([-1.0, 4.0], 200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(fg.jit(f)(a, 0), a)
        np.testing.assert_array_equal(fg.jit(lambda a: f(a, np.int64(0)))(a), a)
        np.testing.assert_array_equal(fg.jit(scanned)(a), a)
    for count in (1, 2):
        with np.errstate(invalid="ignore"):
            want = f(a, count)
        with pytest.warns(RuntimeWarning, match="invalid value"):
            np.testing.assert_allclose(fg.jit(f)(a, count), want, rtol=1e-15)


def test_a_loop_that_is_known_to_make_a_step_needs_no_branch():
    def f(a, tolerance):
        return lax.while_loop(
            lambda c: (c[0] < 5) & (c[1] > 1e-6),
            lambda c: (c[0] + 1, np.max(np.abs(c[2])) * tolerance, c[2] * np.exp(a)),
            (0, np.inf, a),
        )[2]

    graph = optimised(fg.make_jaxpr(f)(np.array([-0.5, 0.1]), 0.5))
    assert names(graph)[0] == "exp" and "switch" not in names(graph)
    agree = fg.jit(f)(np.array([-0.5, 0.1]), 0.5)
    np.testing.assert_allclose(agree, f(np.array([-0.5, 0.1]), 0.5), rtol=1e-15)


def test_what_a_loop_reads_otherwise_stands_before_it_without_a_branch():
    def f(a, n):
        body = lambda c: (c[0] + 1, c[1] + a.T.reshape(6))  # noqa: E731
        return lax.while_loop(lambda c: c[0] < n, body, (0, np.zeros(6)))[1]

    graph = optimised(fg.make_jaxpr(f)(np.ones((2, 3)), 2))
    assert names(graph) == ["transpose", "reshape", "while_loop"]
    np.testing.assert_array_equal(fg.jit(f)(np.ones((2, 3)), 2), np.full(6, 2.0))


def test_a_print_in_a_loop_is_not_dropped(capsys):
    def f(x):
        def step(carry, _):
            fg.debug.print("{}", carry[1])
            return (carry[0], carry[1] + 1), None

        return lax.scan(step, (x, 0), None, length=3)[0][0]

    assert fg.jit(f)(2.0) == 2.0
    assert capsys.readouterr().out.split() == ["0", "1", "2"]


def recurrent(w, u, b, xs):
    def step(h, x):
        h = np.tanh(x @ w + h @ u + b)
        return h, h

    _, hs = lax.scan(step, np.zeros(3), xs)
    return np.sum(hs * hs)


RECURRENT = tuple(
    np.random.default_rng(0).normal(size=shape) * 0.5 for shape in [(2, 3), (3, 3), (3,), (6, 2)]
)


def test_outer_products_are_elementwise_outside_of_loops():
    product = lambda x, y: x[:, None] @ y[None]  # noqa: E731
    for f, rest in ((np.outer, ["mul"]), (product, ["add", "mul"])):  # 0.0 + (-0.0) is 0.0
        check_rewritten(lambda x, y, f=f: f(x, y) * 2.0, (OTHER, OTHER), ["reshape", "mul", *rest])
    zeros = np.array([0.0, -0.0, 1.0])
    for f in (np.outer, product):
        np.testing.assert_array_equal(
            np.signbit(fg.jit(f)(zeros, -zeros)), np.signbit(f(zeros, -zeros))
        )
    check_rewritten(lambda x: x[:, None, None] @ x[:, None, None], (OTHER,),
                    ["reshape", "dot_general"])  # fmt: skip

    def loss(a, b):  # the slope of a is a sum over the steps
        step = lambda x, _: (np.linalg.solve(a, x) + b, None)  # noqa: E731
        return np.sum(fg.lax.scan(step, b, None, length=5)[0])

    graph = optimised(fg.make_jaxpr(fg.grad(loss, (0, 1)))(np.eye(3) + 1.0, np.ones(3)))
    assert names(graph).count("dot_general") == 1


def test_products_of_a_recurrence_leave_its_loop():
    graph = optimised(fg.make_jaxpr(fg.grad(recurrent, (0, 1, 2, 3)))(*RECURRENT))
    loops = [e for e in graph.equations if e.primitive.name == "scan"]
    assert len(loops) == 2
    inside = [names(optimised(loop.params["body"])).count("dot_general") for loop in loops]
    assert inside == [2, 2]  # x @ w, h @ u; on the way back the slopes of x and h
    assert names(graph).count("dot_general") == 2  # the slopes of w and u
    fg.check_graph(graph)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrence_and_its_derivatives_keep_their_numbers(reverse):
    def f(w, u, b, xs):
        end, (hs, _) = lax.scan(
            lambda h, x: (np.sin(x @ w + h @ u + b), (h, x @ w)), b, xs, reverse=reverse
        )
        return np.sum(hs**2) + np.sum(end)

    args = RECURRENT
    positions = (0, 1, 2, 3)
    np.testing.assert_allclose(fg.jit(f)(*args), f(*args), rtol=1e-13)
    got, want = fg.jit(fg.grad(f, positions))(*args), fg.grad(f, positions)(*args)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)
    many = fg.jit(fg.vmap(fg.grad(f, 1), (None, 0, None, None)))
    stacked = np.stack([args[1], args[1] * 0.5])
    for one, row in zip(stacked, many(args[0], stacked, *args[2:]), strict=True):
        np.testing.assert_allclose(row, fg.grad(f, 1)(args[0], one, *args[2:]), rtol=1e-11)
    np.testing.assert_allclose(
        fg.jit(fg.hessian(f, 2))(*args), fg.hessian(f, 2)(*args), rtol=1e-9, atol=1e-11
    )


def test_what_constants_determine_is_computed_once():
    table = np.arange(6.0).reshape(2, 3)

    traced = fg.make_jaxpr(lambda x, t: x @ np.sin(t).T)(np.ones(3), table)
    constant = Graph(
        traced.inputs[:1], ((traced.inputs[1], table),), traced.equations, traced.outputs
    )
    found = optimised(constant)
    assert names(found) == ["dot_general"]
    np.testing.assert_array_equal(fg.evaluate(found, np.ones(3))[0], np.sin(table).sum(1))


def test_constants_that_go_wrong_are_left_to_the_run():
    zero = np.zeros(3)
    traced = fg.make_jaxpr(lambda x, t: x + np.log(t))(np.ones(3), zero)
    constant = Graph(
        traced.inputs[:1], ((traced.inputs[1], zero),), traced.equations, traced.outputs
    )
    assert names(optimised(constant)) == ["log", "add"]


def test_products_and_sums_are_shared_whatever_the_order():
    graph = optimised(fg.make_jaxpr(lambda x, y: (x * y + 1.0) * (y * x + 1.0))(OTHER, OTHER))
    assert names(graph) == ["mul", "add", "mul"]
    graph = optimised(fg.make_jaxpr(lambda x, y: (x - y) / (y - x))(OTHER, OTHER))
    assert names(graph) == ["sub", "sub", "div"]
    number = 2.5  # numbers are told apart by their types, too
    graph = optimised(fg.make_jaxpr(lambda x: (np.exp(x + number), np.sin(number + x)))(OTHER))
    assert names(graph) == ["add", "exp", "sin"]
    graph = optimised(
        fg.make_jaxpr(lambda x: (x + number, x + np.float64(number)))(OTHER.astype("f4"))
    )
    assert names(graph) == ["add", "add"]
    assert [str(t.dtype) for t in graph.output_types] == ["float32", "float64"]


LONG = {
    "products": lambda y, x, k: y * x,
    "numbers": lambda y, x, k: 1.0001 * (y * x[k % 3]),
    "quotients": lambda y, x, k: y / 1.0001,
    "one divisor": lambda y, x, k: y / x[0],
    "sums": lambda y, x, k: y + x * x[k % 3],
    "differences": lambda y, x, k: np.sin(x * k) - y,
    "negations": lambda y, x, k: -(y + 1.5),
    "choices": lambda y, x, k: np.clip(y * 1.0001, -2.0, 2.0 + k),
}


@pytest.fixture
def short_stack():
    """The number of frames that a test may have below its own: 350, not some 900."""
    before, frames = sys.getrecursionlimit(), len(inspect.stack(0))
    sys.setrecursionlimit(frames + 350)
    yield 350
    sys.setrecursionlimit(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*[(name, np.float64) for name in LONG],
     *[(name, np.float32) for name in ("numbers", "quotients", "choices")]],
)  # fmt: skip
def test_programs_may_be_longer_than_pythons_stack(name, dtype, short_stack):
    """Rules follow the operands of an equation to a bounded depth, and keep the numbers."""

    def f(x):
        y = x
        for k in range(short_stack + 100):
            y = LONG[name](y, x, k)
        return np.sum(y)

    x = np.linspace(0.999, 1.001, 5).astype(dtype)
    rtol = 1e-3 if dtype == np.float32 else 1e-9
    found = fg.jit(f)(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, f(x), rtol=rtol)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(x), fg.grad(f)(x), rtol=rtol, atol=rtol)


@pytest.mark.slow
def test_rules_that_write_for_one_another_come_to_an_end():
    """The equations grow with the steps of a chain, not with their square, whatever its length."""

    def f(x, steps):
        y = x
        for k in range(steps):
            y = 1.0001 * (y * x[k % 3]) / x[0]
        return np.sum(y)

    x = np.linspace(0.999, 1.001, 5)
    counts = []
    for steps in (50, 100):
        g = fg.grad(functools.partial(f, steps=steps))
        counts.append(len(optimised(fg.make_jaxpr(g)(x)).equations))
        np.testing.assert_allclose(fg.jit(g)(x), g(x), rtol=1e-9)
    assert counts[1] < 2.2 * counts[0]


def test_a_gradient_by_many_items_is_looked_through_once(monkeypatch):
    """The elements of a chain of sums into zeros are counted as it grows, not from its start."""
    asked = []
    definition = Writer.definition
    monkeypatch.setattr(Writer, "definition", lambda *args: asked.append(1) or definition(*args))

    def f(t):
        y = t[:3]
        for k in range(len(t)):
            y = np.sin(y) * t[k]
        return np.sum(y)

    counts = []
    for size in (40, 80):
        asked.clear()
        t = np.linspace(0.9, 1.1, size)
        np.testing.assert_allclose(fg.jit(fg.grad(f))(t), fg.grad(f)(t), rtol=1e-10)
        counts.append(len(asked))
    assert counts[1] < 2.2 * counts[0]


def test_equations_that_nothing_changes_are_those_that_were_traced():
    graph = fg.make_jaxpr(lambda x: np.exp(np.negative(-x)) + np.sin(x) * x)(OTHER)
    _, _, exp, sin, mul, add = graph.equations
    found = optimised(graph).equations
    assert [e.primitive.name for e in found] == ["exp", "sin", "mul", "add"]
    assert [e is old for e, old in zip(found, (exp, sin, mul, add), strict=True)] == [
        False, True, True, True,
    ]  # fmt: skip
    assert exp.inputs != found[0].inputs == graph.inputs


def test_weights_of_a_recurrence_over_a_batch_are_one_product():
    rng = np.random.default_rng(0)
    w, u, xs = rng.normal(size=(2, 3)), rng.normal(size=(3, 3)) * 0.5, rng.normal(size=(6, 4, 2))

    def f(w, u, xs):
        def step(h, x):
            h = np.tanh(x @ w + h @ u)
            return h, h

        return np.sum(lax.scan(step, np.zeros((4, 3)), xs)[1] ** 2)

    graph = optimised(fg.make_jaxpr(fg.grad(f, (0, 1)))(w, u, xs))
    loops = [e for e in graph.equations if e.primitive.name == "scan"]
    assert [loop.params["counts"][1] for loop in loops] == [1, 1]
    for got, want in zip(
        fg.jit(fg.grad(f, (0, 1)))(w, u, xs), fg.grad(f, (0, 1))(w, u, xs), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-12)


BINARY = (
    np.add, np.subtract, np.multiply, np.divide, np.power, np.maximum, np.arctan2, np.hypot,
    np.logaddexp, np.remainder, np.copysign,
)  # fmt: skip


@pytest.mark.parametrize("outer", BINARY, ids=lambda ufunc: ufunc.__name__)
@pytest.mark.parametrize("reduce", [np.sum, np.mean, np.max], ids=lambda f: f.__name__)
def test_reductions_of_two_ufuncs(outer, reduce):
    x, y = np.linspace(0.6, 1.9, 7), np.linspace(1.7, 0.4, 7)
    z = np.linspace(0.3, 1.1, 7)
    turn = BINARY.index(outer) + ("sum", "mean", "max").index(reduce.__name__)
    lasts = (z, x, 2, 1.5, -1.0)
    for n, inner in enumerate(BINARY, turn):  # the three reductions see all five together
        one, other = lasts[n % 5], lasts[(n + 2) % 5]
        for f in (
            lambda x, y, inner=inner, last=one: reduce(outer(inner(x, y), last)),
            lambda x, y, inner=inner, last=other: reduce(outer(last, inner(x, y))),
        ):
            g = fg.value_and_grad(f, (0, 1))
            with np.errstate(all="ignore"):
                want, got = pytree.leaves(g(x, y)), pytree.leaves(fg.jit(g)(x, y))
            for a, b in zip(want, got, strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12, err_msg=inner.__name__)


# Results that may be -0.0 where zeros are added, or multiplied: functions of x and y.
ZEROS = {
    "a sum": lambda x, y: (x + y) + np.pad(x[1:], (1, 0)),
    "a difference": lambda x, y: x - np.pad(y[1:] * 2.0, (1, 0)),
    "what is too small": lambda x, y: (
        (x * 1e-300 + 0.0).astype(np.float32) + np.pad(y[1:].astype(np.float32), (1, 0))
    ),
    "a choice": lambda x, y: np.where(y > 1.0, 1.0, x) + np.pad(y[1:], (1, 0)),
    "the other choice": lambda x, y: np.where(y > 1.0, x, 1.0) + np.pad(y[1:], (1, 0)),
    "a product with the integer 0": lambda x, y: (-x) * 0 + y * 0,
    "a negated product with it": lambda x, y: (-x) * 0,
    "choices side by side": lambda x, y: np.where(x > 0.0, y, 0.0) + np.where(~(x > 0.0), x, 0.0),
    "stretches": lambda x, y: np.pad(x[:3], (0, 7)) + np.pad(y[3:], (3, 0)),
    "stretches, the later first": lambda x, y: np.pad(y[3:], (3, 0)) + np.pad(x[:3], (0, 7)),
}


@pytest.mark.parametrize("name", ZEROS)
def test_zeros_have_the_signs_that_numpy_gives_them(name):
    minus = np.full(10, -0.0)
    for x, y in ((minus, minus), (OTHER, minus), (minus, OTHER), (-OTHER, OTHER), (OTHER, -OTHER)):
        got, want = fg.jit(ZEROS[name])(x, y), ZEROS[name](x, y)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_arrays_of_one_number_that_overflow_are_left_to_the_run():
    def f(x):
        return fg.grad(lambda z: np.sum(z * 1e308))(x) * 10.0

    assert "mul" in names(optimised(fg.make_jaxpr(f)(np.ones(3))))
    assert np.all(np.isinf(fg.jit(f)(np.ones(3))))


def test_what_is_broadcast_keeps_its_dtype_beside_others():
    f, y = lambda x, y: np.broadcast_to(x, (3,)) >= y, np.full(3, 0.1, np.float32)
    np.testing.assert_array_equal(fg.jit(f)(0.1, y), f(0.1, y))


def test_constants_of_the_same_bits_are_told_apart_by_their_types():
    c = np.arange(4.0)

    def f(x):
        return (x + c, x + c.view(np.int64), np.reshape(x, (2, 2)) + np.reshape(c, (2, 2)))

    for got, want in zip(fg.jit(f)(OTHER[:4]), f(OTHER[:4]), strict=True):
        np.testing.assert_array_equal(got, want)


def test_parameters_are_told_apart_by_the_signs_of_zeros():
    f = fg.jit(lambda x: (np.full_like(x, 0.0), np.full_like(x, -0.0)))
    assert [bool(np.signbit(part).any()) for part in f(OTHER)] == [False, True]


def test_two_effects_are_two():
    seen = []

    def f(x):
        fg.debug.callback(seen.append, x)
        fg.debug.callback(seen.append, x)
        return x + 1.0

    fg.jit(f)(2.0)
    assert len(seen) == 2


def test_what_is_made_of_a_graph_is_kept_by_the_setting_of_its_kernels():
    graph = fg.make_jaxpr(lambda x: x**3)(OTHER)
    assert names(optimised(graph)) == ["power", "mul"]
    fg.config.kernels = "numpy"
    try:
        assert names(optimised(graph)) == ["power"]
    finally:
        fg.config.kernels = "auto"


# --- calls that repeat ----------------------------------------------------------------------------


def twofold(depth, second):
    """g(x) + g(second(x)) of a function of the same form, and so on."""
    g = fg.jit(np.sin)
    for _ in range(depth):
        g = fg.jit(lambda x, g=g: g(x) + g(second(x)))
    return g


@pytest.mark.parametrize(("dtype", "count"), [(np.float64, 2), (np.complex128, 4), (np.float32, 4)])
def test_equal_numbers_beside_doubles_are_one(dtype, count):
    tenth = np.float64(0.1)

    def f(x):
        return x * 0.1, x * tenth, x == 0.1, x == tenth

    x = np.array([0.1, 0.3]).astype(dtype)
    assert len(optimised(fg.make_jaxpr(f)(x)).equations) == count
    for got, want in zip(fg.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


def test_a_call_of_the_same_arguments_is_expanded_once():
    graph = fg.make_jaxpr(twofold(40, lambda x: x))(0.5)
    assert len(inline(graph).equations) == 41
    np.testing.assert_allclose(fg.jit(twofold(40, lambda x: x))(0.5), 2.0**40 * np.sin(0.5))


def test_calls_in_calls_have_their_equations_in_common():
    """2**25 calls, of 26 arguments at each depth."""
    f = twofold(25, lambda x: 2 * x)
    x = np.array([0.3, 0.001])
    assert len(inline(fg.make_jaxpr(f)(x)).equations) < 1000
    factors = 2.0 ** np.arange(26)
    want = [math.comb(25, k) for k in range(26)] @ np.sin(factors[:, None] * x)
    np.testing.assert_allclose(f(x), want, rtol=1e-9)


def residuals(f, *args):
    """How many values the reverse mode of a called function keeps."""
    (equation,) = fg.make_jaxpr(f)(*args).equations
    forward = differentiate(shared(equation.params["graph"]), [True]).forward
    return len(forward.outputs) - 1


@pytest.mark.slow
def test_calls_in_calls_have_their_residuals_in_common():
    """2**depth calls are of depth + 1 arguments, and one residual each is enough."""
    x = np.array([0.3, 0.001])
    kept = [residuals(twofold(depth, lambda x: 2 * x), x) for depth in (6, 12, 24)]
    assert kept == [7, 13, 25]
    f = twofold(24, lambda x: 2 * x)
    factors = 2.0 ** np.arange(25)
    terms = [math.comb(24, k) for k in range(25)] * factors
    np.testing.assert_allclose(
        fg.grad(lambda x: np.sum(f(x)))(x), terms @ np.cos(factors[:, None] * x), rtol=1e-9
    )
    second = -(terms * factors) @ np.sin(factors[:, None] * x)
    found = fg.jit(fg.hessian(lambda x: np.sum(f(x))))(x)
    np.testing.assert_allclose(found, np.diag(second), rtol=1e-9)


def test_calls_of_other_arguments_keep_residuals_of_their_own():
    f = np.sin
    for _ in range(6):
        f = fg.jit(lambda x, g=f: g(np.sin(x)) + g(np.cos(x)))
    assert residuals(f, 0.5) > 2**6
    step = 1e-6
    want = (f(0.5 + step) - f(0.5 - step)) / (2 * step)
    np.testing.assert_allclose(fg.grad(f)(0.5), want, rtol=1e-6)


def test_calls_of_few_equations_in_common_stay_calls_when_differentiated():
    g = fg.jit(lambda x: fg.jit(np.sin)(x) + 1.0)
    graph = fg.make_jaxpr(lambda x: g(x) * g(x + 1.0))(0.5)
    assert shared(graph) is graph


def test_calls_that_do_something_are_differentiated_each_time():
    seen = []

    @fg.jit
    def inner(x):
        fg.debug.callback(lambda x: seen.append(float(x)), x)
        return np.sin(x)

    f = inner
    for _ in range(5):
        f = fg.jit(lambda x, g=f: g(x) + g(x))
    assert fg.grad(f)(0.5) == 32 * np.cos(0.5)
    assert seen == [0.5] * 32


def test_an_array_of_a_called_function_is_one_constant():
    weights = np.array([0.5, 2.0])
    f = twofold(6, lambda x: x * weights)
    graph = inline(fg.make_jaxpr(f)(weights))
    assert len(graph.constants) == 6 and len(graph.equations) < 200
    whole = twofold(6, lambda x: x * weights)
    np.testing.assert_array_equal(
        f(weights), fg.evaluate(fg.make_jaxpr(whole)(weights), weights)[0]
    )


def test_a_call_that_does_something_is_expanded_each_time():
    seen = []

    @fg.jit
    def g(x):
        fg.debug.callback(lambda x: seen.append(float(x)), x)
        return np.sin(x)

    fg.jit(lambda x: g(x) + g(x))(0.5)
    assert seen == [0.5, 0.5]


@pytest.mark.slow
def test_calls_stay_calls_where_they_would_be_too_many_equations(monkeypatch):
    monkeypatch.setattr(costs, "expanded_equations", 100)
    x = np.linspace(0.0, 1.0, 3)
    f, whole = (twofold(9, lambda x, k=k: x * 0.5 ** next(k)) for k in map(itertools.count, (2, 2)))
    graph = fg.make_jaxpr(f)(x)
    assert 0 < len(inline(graph).equations) <= 100
    monkeypatch.setattr(costs, "expanded_equations", 1 << 17)
    monkeypatch.setattr(costs, "repeated_equations", 1 << 17)
    assert len(inline(fg.make_jaxpr(whole)(x)).equations) > 1_000
    monkeypatch.setattr(costs, "expanded_equations", 100)
    np.testing.assert_array_equal(f(x), whole(x))
    for transform in (lambda f: fg.grad(lambda x: np.sum(f(x))), fg.vmap, fg.jacobian):
        np.testing.assert_allclose(fg.jit(transform(f))(x), transform(f)(x))


def test_a_large_graph_of_several_calls_is_compiled_once(monkeypatch):
    def doubled(f):
        return fg.jit(lambda x: f(f(x)))

    def nested(depth):
        f = fg.jit(lambda x: np.sin(x) + 0.1)
        for _ in range(depth):
            f = doubled(f)
        return f

    x = np.linspace(0.0, 1.0, 3)
    for depth in (4, 8, 14):
        graph = inline(fg.make_jaxpr(nested(depth))(x))
        assert len(graph.equations) == (32 if depth == 4 else 512 if depth == 8 else 2)
    monkeypatch.setattr(costs, "repeated_equations", 8)
    f = nested(5)
    for transform in (lambda f: f, lambda f: fg.grad(lambda x: np.sum(f(x))), fg.vmap, fg.jacobian):
        np.testing.assert_allclose(fg.jit(transform(f))(x), transform(f)(x), rtol=1e-13)


def test_what_the_passes_make_of_constants_is_folded_where_it_is_small():
    def largest(x):
        return np.max(x, axis=1, initial=-np.inf)

    assert names(optimised(fg.make_jaxpr(largest)(np.ones((3, 4))))) == ["reduce_max", "maximum"]
    slope = fg.grad(lambda x, i: np.mean(np.take_along_axis(x, i, 1)))
    for rows, left in ((4, 0), (4000, 1)):
        graph = optimised(fg.make_jaxpr(slope)(np.ones((rows, 3)), np.zeros((rows, 1), int)))
        assert names(graph).count("broadcast_to") == left


@pytest.mark.numpy_backend
def test_numbers_that_overflow_are_left_to_the_run_which_warns():
    inner = fg.jit(np.exp)
    compiled = fg.jit(lambda x: x + inner(1000.0))
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="overflow"):
            assert np.all(np.isposinf(compiled(np.zeros(200))))


def test_parameters_of_zero_and_of_minus_zero_are_two():
    signed = Primitive(
        "signed",
        eval=lambda x, zero: np.copysign(x, zero),
        type=lambda x, zero: x,
        vjp=lambda ct, y, x, zero: (ct,),
        batch=lambda args, batched, size, zero: signed(args[0], zero=zero),
    )
    x = np.array([1.5, -2.0])
    for f in (
        lambda x: (signed(x, zero=0.0), signed(x, zero=-0.0)),
        lambda x: (signed(x, zero=(0.0, 1)[0]), signed(x, zero=np.float64(-0.0))),
    ):
        first, second = fg.jit(f)(x)
        np.testing.assert_array_equal(first, np.abs(x))
        np.testing.assert_array_equal(second, -np.abs(x))


def test_numbers_are_divided_by_what_they_are_divided_by():
    for f in (lambda x: 8.0 / x, lambda x: 1.0 / x, lambda x: 2.0 / x + 0.5):
        np.testing.assert_array_equal(fg.jit(f)(OTHER), f(OTHER))


def test_what_others_read_is_not_computed_again():
    graph = optimised(fg.make_jaxpr(lambda x: (x * 2.0, -(x * 2.0)))(SPECIAL))
    assert names(graph) == ["mul", "neg"]
