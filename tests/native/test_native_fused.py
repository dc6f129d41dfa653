"""Loops over arrays as native code: values, borders, reductions, units, and required coverage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native import backend, entry, fused
from fungrad.compiler.native.fused import fused_kernel
from fungrad.compiler.native.kernel import Kernel
from fungrad.compiler.native.llvm_ir import Function
from fungrad.compiler.native.row_buffers import BufferedNest
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.refusal import Refused
from fungrad.extend import Along, Section, linear
from fungrad.ir.graph import Graph
from fungrad.tracing.interpreter import evaluate
from fungrad.tree_util import tree_leaves

rng = np.random.default_rng(7)


def graph_of(f: Callable[..., Any], *args: Any) -> Graph:
    return optimised(fg.jit(f).lower(*args).graph)


def no_fallback(*args: Any) -> Any:
    raise AssertionError("the entry did not take its arguments")


def in_pieces(kernel: Kernel, pieces: int) -> Kernel:
    """A kernel whose units are computed piece by piece, the last ones first, as threads may."""
    inner = kernel.module.functions["kernel"]
    kernel.module.functions.pop("kernel")
    kernel.module.functions["units"] = inner
    inner._head = inner._head.replace("@kernel(", "@units(")
    given = [("ptr", "arrays"), ("i64", "begin"), ("i64", "end"), ("ptr", "scratch")]
    code = Function(kernel.module, "kernel", "void", given, attributes="internal")
    arrays, _, _, scratch = code.parameters
    for piece in reversed(range(pieces)):
        ends = [code.constant(kernel.units * p // pieces, "i64") for p in (piece, piece + 1)]
        code.call("units", "void", [arrays, *ends, scratch])
    code.ret()
    return kernel._replace(units=1)  # each call computes all of them: threads must not share it


def native(f: Callable[..., Any], *args: Any, pieces: int = 0) -> list[Any]:
    """The outputs of a function by its native kernel."""
    kernel = fused_kernel(graph_of(f, *args))
    if pieces:
        kernel = in_pieces(kernel, pieces)
    leaves = [np.asarray(a) for a in args]
    return list(entry.callable(kernel, no_fallback)(*leaves))


def check(f: Callable[..., Any], *args: Any, tolerance: float = 0.0) -> None:
    """Against the Graph's equations, run one by one by NumPy."""
    with np.errstate(all="ignore"):
        expected = evaluate(graph_of(f, *args), args)
    found = native(f, *args)
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert np.shape(x) == np.shape(y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
        if tolerance:
            scale = np.max(np.abs(y[np.isfinite(y)]), initial=1e-300) if np.ndim(y) else 0.0
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale)
        else:
            np.testing.assert_array_equal(
                np.signbit(x) if np.asarray(x).dtype.kind == "f" else x,
                np.signbit(y) if np.asarray(y).dtype.kind == "f" else y,
            )
            np.testing.assert_array_equal(x, y)


LENGTHS = [*range(1, 10), 15, 16, 17, 24, 31, 32, 33, 35, 63, 64, 65, 100, 4095, 4096, 4097, 12289]


def arithmetic(x: Any, y: Any, s: Any) -> Any:
    return np.where(x > y, (x - y) * s / (1.0 + x * x), np.maximum(-x, y)), x * y - s


def differences(x: Any) -> Any:
    return np.sum(0.5 * (x[1:] - x[:-1] * x[:-1]) * (x[1:] - x[:-1]))


@pytest.mark.parametrize("n", LENGTHS)
def test_elementwise_equations_are_numpys_to_the_bit(n: int) -> None:
    check(arithmetic, rng.normal(size=n + 1), rng.normal(size=n + 1), 0.3)


@pytest.mark.parametrize("n", LENGTHS)
def test_gradients_of_differences_and_their_sum(n: int) -> None:
    check(fg.grad(differences), rng.normal(size=n + 1))
    check(fg.value_and_grad(differences), rng.normal(size=n + 1), tolerance=1e-14)


@pytest.mark.parametrize("first", [1, 4080, 4090, 4095, 4096, 4100])
def test_slices_that_begin_where_a_unit_ends(first: int) -> None:
    def f(x: Any) -> Any:
        return np.sum(x * 3.0) + np.sum(x[first:] * x[first:] * 0.25)

    check(fg.value_and_grad(f), np.round(rng.normal(size=9001) * 8))  # sums are exact


@pytest.mark.parametrize(
    "shape", [(3, 4), (2, 2), (5, 17), (70, 9), (33, 130), (3, 5000), (2, 3, 19)]
)
def test_stencils(shape: tuple[int, ...]) -> None:
    inner = (slice(1, None),) * len(shape)
    outer = (slice(None, -1),) * len(shape)

    def energy(x: Any) -> Any:
        d = x[inner] - 0.5 * x[outer]
        return np.sum(d * d / (1.0 + d * d))

    check(fg.grad(energy), rng.normal(size=shape))
    check(fg.value_and_grad(energy), rng.normal(size=shape), tolerance=1e-13)


def variation(x: Any) -> Any:
    down, right = x[1:, 1:] - x[:-1, 1:], x[1:, 1:] - x[1:, :-1]
    return np.sum(np.sqrt(down * down + right * right + 1e-6))


def diffusion(x: Any) -> Any:
    around = sum(np.roll(x, shift, axis) for shift in (1, -1) for axis in (0, 1))
    return np.sum((x + 0.1 * (around - 4.0 * x)) ** 3)


def far_rows(x: Any) -> Any:
    return np.sum(np.sqrt(x[3:] ** 2 + x[:-3] ** 2 + 1.0) * x[2:-1])


def cropped(x: Any) -> Any:
    down, right = np.diff(x, axis=0)[:, :-1], np.diff(x, axis=1)[:-1]
    return np.sum(np.sqrt(down**2 + right**2 + 1e-6))


def around(x: Any) -> Any:
    down, right = np.roll(x, 1, 0) - x, np.roll(x, 1, 1) - x
    return np.sum(np.sqrt(down**2 + right**2 + 1e-6))


@pytest.mark.parametrize("f", [variation, diffusion, far_rows, cropped, around])
@pytest.mark.parametrize("shape", [(4, 3), (33, 70), (200, 31), (9, 4096)])
def test_rows_of_dear_values_are_kept(f: Any, shape: tuple[int, ...]) -> None:
    x, g = rng.normal(size=shape), fg.value_and_grad(f)
    check(fg.grad(f), x, tolerance=1e-14 if f is diffusion else 0.0)
    expected = evaluate(graph_of(g, x), [x])
    for found, y in zip(native(g, x, pieces=3), expected, strict=True):
        np.testing.assert_allclose(found, y, rtol=1e-13, atol=1e-12)


def test_what_a_stencil_reads_at_several_places_is_computed_once() -> None:
    x = rng.normal(size=(256, 256))
    (nest,) = fused._Program(graph_of(fg.grad(variation), x)).nests
    assert isinstance(nest, BufferedNest)
    assert (nest.low, nest.high) == (-1, 0)
    assert nest.direct is None
    (other,) = fused._Program(graph_of(fg.grad(cropped), x)).nests
    assert isinstance(other, BufferedNest)
    assert len(other.kept) == 2
    (wrapped,) = fused._Program(graph_of(fg.grad(around), x)).nests
    assert not isinstance(wrapped, BufferedNest) or wrapped.direct is not None
    roots = [e.outputs[0] for e in nest.source.graph.equations if e.primitive.name == "sqrt"]
    assert not any((roots[0], p.index_map) in nest.demanded for p in nest.demanded.values())
    cheap = fused._Program(graph_of(lambda x: (x[1:] - x[:-1]) * 2.0, x)).nests
    assert not any(isinstance(nest, BufferedNest) for nest in cheap)


def pairs(x: Any, y: Any) -> Any:
    return np.sum(np.exp(-0.5 * np.sum((x[:, None] - y[None]) ** 2, -1)))


def softmax_of_few(x: Any, y: Any) -> Any:
    e = np.exp(x - np.max(x, 1, keepdims=True))
    p = e / np.sum(e, 1, keepdims=True)
    return np.sum(p * p * y[: len(x)]), p, np.sum(p, 0), np.min(x, 1), np.sum(x * y[0], (0, 1))


def columns(x: Any, y: Any) -> Any:
    z = x[:, 0] * y[0, 1] + x[:, -1]
    return np.stack([z, z * x[:, 1]], 1), np.sum(z), x * 2.0 + z[:, None], x[1:] - x[:-1]


def outer(x: Any, y: Any) -> Any:
    z = x[:, None, :] * y[: len(x), :, None]
    return np.sum(z * z, 2), np.sum(z, (0, 2)), np.max(z, 1)


def items(x: Any, y: Any) -> Any:
    a, b, c = x.T
    return np.stack([a * b, b * c - a, c], 1) * 2.0, np.sum(b), [row * 2.0 for row in y[:2]]


@pytest.mark.parametrize("f", [fg.grad(pairs), softmax_of_few, columns, outer, items])
@pytest.mark.parametrize("n", [64, 131, 4100])
def test_short_axes_are_written_out(f: Any, n: int) -> None:
    x, y = (
        rng.normal(size=(n, 3)),
        rng.normal(size=(4100 if f in (softmax_of_few, outer) else 130, 3)),
    )
    graph = graph_of(f, x, y)
    assert fused._Program(graph, short=True).kernel()
    expected = evaluate(graph, [x, y])
    for found, want in zip(native(f, x, y, pieces=2), expected, strict=True):
        assert np.shape(found) == np.shape(want)
        np.testing.assert_allclose(found, want, rtol=1e-13, atol=1e-12)


def test_diagonals_and_columns_of_a_large_matrix() -> None:
    check(lambda a: (np.sin(np.diagonal(a)) * a[:, 3], np.sum(np.diagonal(a, 7))),
          rng.normal(size=(200, 200)), tolerance=1e-14)  # fmt: skip


@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lanes_whose_elements_are_adjacent_in_memory(width: int, dtype: Any) -> None:
    def f(x: Any) -> Any:
        columns = [x[::-1, n] * 2.0 + x[:, n - 1] for n in range(width)]
        return np.stack(columns, 1), np.stack(columns[::-1], 1)

    x = rng.normal(size=(131, width)).astype(dtype)
    for found, want in zip(native(f, x), f(x), strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1, 400), 0), ((3, 400), 0), ((400, 3), 1), ((400, 1), 1), ((20, 1, 30), 1)],
)
def test_sums_of_zeros_below_zero_are_zero(shape: tuple[int, ...], axis: int) -> None:
    check(lambda x: np.sum(np.exp(x) * x, axis), np.full(shape, -0.0))


def test_special_numbers_along_short_axes() -> None:
    x = np.array([[np.nan, 1.0, -0.0], [np.inf, -np.inf, 0.0], [0.0, -0.0, 5e-324]] * 40)
    check(lambda x: (np.max(x, 1) + 0.0, np.min(x, 1) + 0.0, np.sum(x, 1) * 2.0), x)
    small = (x > 0).astype(np.int32)
    check(lambda x, y: (np.sum(y > 0, 1) + x[:, 0], np.max(y, 1) * 2), np.nan_to_num(x), small)


mirror = linear(
    "mirror", eval=lambda x: x[..., ::-1], type=lambda x: x, transpose=lambda ct, x: mirror(ct),
    sections=lambda e: [mirrored(e.inputs[0].type.shape)],
)  # fmt: skip
"""Moves elements, and is none of fungrad's own."""


def mirrored(shape: tuple[int, ...]) -> Section:
    last = len(shape) - 1
    place = (*map(Along, range(last)), Along(last, shape[last] - 1, -1))
    return Section(tuple(map(range, shape)), 0, place)


@pytest.mark.parametrize("shape", [(7,), (50,), (4097,), (9, 40)])
def test_moved_elements(shape: tuple[int, ...]) -> None:
    x, y = rng.normal(size=shape), rng.normal(size=shape)
    check(lambda x, y: np.roll(x, 2, -1) * y + np.roll(y, -1, 0), x, y)
    if x.ndim == 2:
        check(lambda x, y: np.roll(x, (1, -2), (0, -1)) * y - x * 2.0, x, y)
        check(lambda x, y: np.diagonal(x, 1) * 2.0 + np.diagonal(y[:, 1:]), x, y)
    check(lambda x, y: mirror(x) * y - x * 2.0, x, y)
    check(lambda x, y: np.flip(x, -1) * y - x[::-1], x, y)
    check(lambda x, y: np.concatenate([x[..., 3:], y, x * 2.0], -1) + 1.0, x, y)
    check(lambda x, y: np.flip(np.concatenate([x, y * 2.0], -1), -1) * 3.0, x, y)
    check(lambda x, y: np.pad(x * y, 1) - 1.0, x, y)
    check(lambda x, y: np.where(x > 0, x, y)[..., 1:3] * 2.0, x, y)
    check(lambda x, y: x.T * 2.0 + y.T, x, y)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int32, np.bool_])
@pytest.mark.parametrize("n", [5, 33, 5000])
def test_other_dtypes(dtype: Any, n: int) -> None:
    x = (rng.normal(size=n) * 3).astype(dtype)
    y = (rng.normal(size=n) * 3).astype(dtype)
    check(lambda x, y: (x > y, np.where(x == y, x, y) * 1.5, x * y + x), x, y)
    if dtype == np.float32:
        check(lambda x, y: (np.sum(x * y + 2.0), x[1:] * 2.0), x, y, tolerance=1e-5)
    else:
        check(lambda x, y: (np.sum(x * y + x), (x & y)[1:] | x[:-1]), x, y)


def test_special_numbers() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1.5, -2.0] * 5)
    y = np.repeat(x[:8], 5)
    check(lambda x, y: (x + y, x * y, x / y, np.maximum(x, y), np.minimum(x, y), np.sign(x)), x, y)
    check(lambda x, y: (np.where(x < y, x, -y), np.abs(x) <= y, np.sqrt(x) - 0.0), x, y)
    check(lambda x: [np.maximum(x, n) * 1.0 for n in (1.0, -0.0, 0.0, np.inf, np.nan)], x)
    check(lambda x: [np.minimum(n, x) + 0.0 for n in (1.0, -0.0, 0.0, -np.inf, np.nan)], x)
    check(lambda x: (np.minimum(x, 1.0) * 2.0, np.clip(x, -1.0, 1.0) * 2.0), x)


@pytest.mark.parametrize(
    "shape", [(3, 5), (4, 25), (25, 100), (7, 1000), (2, 3, 40), (40, 8), (6, 6), (5, 17), (5, 31)]
)
@pytest.mark.parametrize("axis", [0, -1])
def test_reductions_along_an_axis_and_what_follows(shape: tuple[int, ...], axis: int) -> None:
    def centred(x: Any) -> Any:
        c = x - np.mean(x, axis=axis, keepdims=True)
        return c / np.sqrt(np.mean(c * c, axis=axis, keepdims=True) + 1e-3)

    x, w = rng.normal(size=shape), rng.normal(size=shape)
    check(centred, x, tolerance=1e-13)
    check(lambda x: (x - np.max(x, axis=axis, keepdims=True)) * 2.0, x)
    check(lambda x: np.min(x * 2.0, axis=axis) + 1.0, x)
    check(lambda x: x - np.sum(x * 0.5, axis=axis, keepdims=True), np.round(8.0 * x))
    check(fg.value_and_grad(lambda x: np.sum(w * centred(x))), x, tolerance=1e-12)


def test_a_vector_reduced_and_read_again() -> None:
    for n in (3, 40, 1000):
        x = rng.normal(size=n)
        check(lambda x: (x / np.sum(x * x), np.max(x) * 2.0), x, tolerance=1e-13)


@pytest.mark.parametrize("n", [10, 4096, 50_001])
def test_sums_do_not_depend_on_units_and_their_order(n: int) -> None:
    x = rng.normal(size=n)
    one = native(fg.value_and_grad(differences), x)
    for pieces in (2, 3, 7):
        other = native(fg.value_and_grad(differences), x, pieces=pieces)
        assert [a.tobytes() for a in map(np.asarray, one)] == [
            a.tobytes() for a in map(np.asarray, other)
        ]


def test_rows_in_pieces() -> None:
    def soft(x: Any) -> Any:
        y = x - np.max(x, axis=1, keepdims=True)
        return np.sum(y * y / np.sum(y * y, axis=1, keepdims=True)), y

    x = rng.normal(size=(3000, 21))
    one, two = (native(soft, x, pieces=pieces) for pieces in (1, 5))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_sums_are_as_exact_as_pairwise_ones() -> None:
    x = rng.random(1_000_003)
    (found,) = native(lambda x: np.sum(x * 1.0 + 0.1), x)
    exact = float(np.sum((x + 0.1).astype(np.longdouble)))
    assert abs(found - exact) <= 20 * np.finfo(float).eps * exact


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [2, 7, 33, 4101])
def test_functions_within_2_ulp_wherever_they_stand(dtype: Any, n: int) -> None:
    x = (rng.normal(size=n) * 2).astype(dtype)
    functions = (np.exp, np.expm1, np.tanh, np.sin, np.cos, np.arctan)

    def f(x: Any) -> Any:
        return tuple([function(x) for function in functions]), np.log(np.abs(x)), np.log1p(x * x)

    found = native(f, x)
    exact = x.astype(np.longdouble)
    expected = [function(exact) for function in functions]
    expected += [np.log(np.abs(exact)), np.log1p((x * x).astype(np.longdouble))]
    for a, b in zip(found, expected, strict=True):
        error = np.abs(a.astype(np.longdouble) - b)
        assert np.all(error <= 2.5 * np.spacing(np.abs(b).astype(dtype)))
    reversed_ = native(f, x[::-1].copy())
    for a, b in zip(found, reversed_, strict=True):
        np.testing.assert_array_equal(a, b[::-1])


NATIVE: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "gelu": (lambda x: np.sum(0.5 * x * (1.0 + np.tanh(0.8 * (x + 0.04 * x**3)))), (20_000,)),
    "huber": (lambda x: np.sum(np.where(np.abs(x) < 1, 0.5 * x**2, np.abs(x) - 0.5)), (20_000,)),
    "clip": (lambda x: np.sum(np.clip(x, -1.0, 1.0) ** 2), (20_000,)),
    "elu": (lambda x: np.sum(np.where(x > 0.0, x, np.expm1(x))), (20_000,)),
    "products": (lambda x: np.sum(np.exp(-x * x) * np.sin(x)) + np.sum(np.log1p(x * x)), (20_000,)),
    "rosenbrock": (
        lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), (20_000,)
    ),
    "variation": (
        lambda x: np.sum(
            np.sqrt((x[1:, 1:] - x[:-1, 1:]) ** 2 + (x[1:, 1:] - x[1:, :-1]) ** 2 + 1e-6)
        ),
        (100, 120),
    ),
    "laplacian": (
        lambda x: np.sum(
            (x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1] - 4 * x[1:-1, 1:-1]) ** 2
        ),
        (100, 120),
    ),
    "rolls": (lambda x: np.sum((np.roll(x, 1) - 2.0 * x + np.roll(x, -1)) ** 2), (20_000,)),
    "logsumexp of rows": (lambda x: np.sum(np.log(np.sum(np.exp(x), axis=1))), (300, 25)),
    "logsumexp of columns": (lambda x: np.sum(np.log(np.sum(np.exp(x), axis=0))), (25, 300)),
    "softmax": (
        lambda x: np.sum(
            (np.exp(x - np.max(x, 1, keepdims=True))
             / np.sum(np.exp(x - np.max(x, 1, keepdims=True)), 1, keepdims=True)) ** 2
        ),
        (300, 25),
    ),
    "layer norm": (
        lambda x: np.sum(
            np.tanh((x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1e-3))
        ),
        (300, 25),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NATIVE)
def test_gradients_that_must_be_native(name: str) -> None:
    f, shape = NATIVE[name]
    x = rng.normal(size=shape)
    check(fg.value_and_grad(f), x, tolerance=2e-12)
    check(fg.grad(f), x.astype(np.float32), tolerance=2e-3)


REFUSED = {
    "scan": lambda x: fg.lax.scan(lambda c, a: (c + a, c), 0.0, x)[1],
    "cumsum": lambda x: np.cumsum(x * 2.0) * 3.0,
    "sort": lambda x: np.sort(x) * 2.0 + 1.0,
    "one call": lambda x: x + 1.0,
    "only moves": lambda x: np.concatenate([x[1:], x]),
    "complex": lambda x: (x * 1j + 2.0) * x,
    "reductions along different axes": lambda x: (
        x.reshape(4, 6) - x.reshape(4, 6).sum(0) - x.reshape(4, 6).sum(1)[:, None]
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused(name: str) -> None:
    with pytest.raises(Refused):
        fused_kernel(graph_of(REFUSED[name], rng.normal(size=24)))


@pytest.mark.parametrize("reduce", [np.sum, np.max, np.min])
def test_a_reduction_alone_is_a_kernel_along_an_axis(reduce: Any) -> None:
    x = rng.normal(size=(2_000, 5))
    for axis in (0, 1):
        check(lambda x, axis=axis: reduce(x, axis=axis), x, tolerance=1e-13)
    with pytest.raises(Refused, match="a single NumPy call"):
        fused_kernel(graph_of(reduce, x))


def test_the_elements_of_a_reduction_count_in_the_choice_of_the_build() -> None:
    f = lambda x: np.sin(np.sum(x))  # noqa: E731
    assert not fused_kernel(graph_of(f, np.ones(100_000))).quick
    assert fused_kernel(graph_of(f, np.ones(100))).quick


def test_a_primitive_of_the_users_is_not_taken_by_its_name() -> None:
    exp = fg.extend.elementwise("exp", lambda x: x * 3.0, partials=[lambda ct, y, args: ct * 3.0])
    with pytest.raises(Refused, match=r"^exp$"):
        fused_kernel(graph_of(lambda x: exp(x) * 2.0 + x, rng.normal(size=24)))


def test_empty_arrays_are_refused() -> None:
    with pytest.raises(Refused, match="empty"):
        fused_kernel(graph_of(lambda x: x * 2.0 + 1.0, np.zeros((0, 3))))


def random_function(seed: int) -> tuple[Callable[..., Any], list[np.ndarray[Any, Any]]]:
    """A function of arrays of one shape, made at random, and its arguments."""
    draw = np.random.default_rng(seed)
    ndim = int(draw.integers(1, 4))
    shape = tuple(int(n) for n in draw.choice([1, 2, 3, 5, 9, 17, 40, 70], size=ndim))
    steps = [(int(draw.integers(0, 12)), int(draw.integers(0, 100)), int(draw.integers(0, 100)))
             for _ in range(int(draw.integers(2, 9)))]  # fmt: skip

    def f(*xs: Any) -> Any:
        values = list(xs)
        for kind, i, j in steps:
            x, y = values[i % len(values)], values[j % len(values)]
            axis = i % ndim
            n = shape[axis]
            cut: list[Any] = [slice(None)] * ndim
            cut[axis] = slice(1, n)
            before: list[Any] = [slice(None)] * ndim
            before[axis] = slice(0, n - 1)
            if kind < 3:
                values.append([x + y, x * y, x - 0.5 * y][kind])
            elif kind == 3:
                values.append(np.where(x > y, x, y / (1.0 + x * x)))
            elif kind == 4:
                values.append(np.roll(x, j % 5 - 2, axis))
            elif kind == 5:
                values.append(np.flip(x, axis) - y)
            elif kind in (6, 7) and n > 1:
                z = np.concatenate([x[tuple(cut)] * y[tuple(before)], y[tuple(cut)]], axis)
                values.append(z[tuple([slice(0, m) for m in shape])] + x)
            elif kind == 8:
                values.append(x - np.max(y, axis=axis, keepdims=True))
            elif kind == 9 and n > 1:
                z = x + 0.0
                z[tuple(cut)] = z[tuple(cut)] - y[tuple(before)]
                values.append(z)
            elif kind == 10:
                values.append(x * y[(slice(0, 1),) * ndim] + 1.0)
            else:
                values.append(np.maximum(x, -y))
        return values[-1], values[len(values) // 2] * 2.0

    return f, [draw.normal(size=shape) for _ in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 150, 50))
def test_random_graphs(start: int) -> None:
    ran = 0
    for seed in range(start, start + 50):
        f, args = random_function(seed)
        try:
            check(f, *args)
            ran += 1
        except Refused:
            pass
    assert ran >= 30


@pytest.mark.parametrize(("n", "dtype"), [(9, float), (10, float), (15, float), (23, np.float32)])
def test_few_elements_are_one_vector(n: int, dtype: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        found = [np.sin(x), np.tanh(x) * y[::-1], np.exp(x) ** y, np.log(y), np.arctan2(x, y)]
        return *found, np.where(x > 0, np.cbrt(x), y), (x * 3).astype(np.int64) % 5, x[1:] > y[:-1]

    drawn = np.random.default_rng(n)  # exp(x) ** y multiplies the rounding of exp(x) by y
    x, y = drawn.normal(size=n).astype(dtype), np.exp(drawn.normal(size=n)).astype(dtype)
    for a, b in zip(native(f, x, y), f(x, y), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=8 * float(np.finfo(dtype).eps))


# Small arrays made of numbers: gradients by parameters that are packed in one vector.

TIMES = np.linspace(0.0, 5.0, 1000)
DATA = 2.0 * np.exp(-TIMES) + 0.3


def decay(p):
    return p[0] * np.exp(-p[1] * TIMES) + p[2] * np.cos(p[3] * TIMES) - DATA


def doses(p):
    total = 0.0
    for i in range(p.size):
        total = total + p[i] * np.exp(-0.1 * (i + 1) * TIMES)
    return np.sum((total - DATA) ** 2)


def shares(p):
    weights = np.exp(-p[0] * TIMES)
    shares = weights / np.sum(weights)
    return shares, np.stack([np.sum(weights * TIMES), np.max(weights) + p[1]])


def packed_in_two(p):
    value = np.sum(decay(p) ** 2)
    moments = np.array([value, np.sum(decay(p)), 1.0])
    return np.concatenate([moments * p[:3], np.flip(moments)[:2]]), value


PACKED = {
    "gradient": (fg.grad(lambda p: np.sum(decay(p) ** 2)), [1.5, 0.8, 0.2, 1.1]),
    "value and gradient": (
        fg.value_and_grad(lambda p: np.mean(np.abs(decay(p))) + p @ p), [1.5, 0.8, 0.2, 1.1],
    ),
    "hessian": (fg.hessian(lambda p: np.sum(decay(p) ** 2)), [1.5, 0.8, 0.2, 1.1]),
    "forty": (fg.grad(doses), list(np.linspace(1.0, 0.1, 40))),
    "beside an array of sums": (shares, [0.7, 1.1]),
    "moved and computed with": (packed_in_two, [1.5, 0.8, 0.2, 1.1]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", PACKED)
def test_small_arrays_are_made_of_numbers_after_the_loops(case, dtype):
    f, values = PACKED[case]
    p = np.array(values, dtype)
    close = 1e-10 if dtype == np.float64 else 1e-3
    for a, b in zip(native(f, p), tree_leaves(f(p)), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=close, atol=close * np.max(np.abs(b)))


def test_moves_of_moved_arrays_end_before_they_multiply() -> None:
    def f(u: Any, k: Any) -> Any:
        for _ in range(12):
            u = u + k * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
        return np.sum(u * u)

    graph = optimised(fg.make_jaxpr(fg.grad(f, (0, 1)))(np.ones(120), 0.2))
    with pytest.raises(Refused, match="moves of moved arrays"):
        fused_kernel(graph)


def standardised(v: Any) -> Any:
    return (v - np.mean(v, axis=-1, keepdims=True)) / np.std(v, axis=-1, keepdims=True)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("shape", [(1, 2), (1, 9)])
def test_buffered_values_that_depend_on_no_loop(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "GENERATORS", [fused.cheap_kernel])
    monkeypatch.setattr(tuned, "cluster_elements", 0)
    x, w = rng.normal(size=shape), rng.normal(size=shape)

    def pulled_back(v: Any, w: Any) -> Any:
        return fg.vjp(lambda v: standardised(v / 3.0), v)[1](w)[0]

    found = fg.jit(pulled_back)(x, w)
    np.testing.assert_allclose(found, pulled_back(x, w), rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("shape", [(64, 64), (67, 64)])
def test_reductions_that_end_a_group_of_rows(shape: tuple[int, ...]) -> None:
    w = rng.normal(size=shape)

    def f(v: Any) -> Any:
        return np.sum(np.cumsum(standardised(v), -1) * np.mean(v, 0, keepdims=True) * w)

    x = rng.normal(size=shape)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(x), fg.grad(f)(x), rtol=1e-9, atol=1e-9)


def test_items_of_small_arrays_beside_arrays_of_one_shape() -> None:
    p, q, x = rng.normal(size=3), rng.normal(size=(2, 3)), rng.normal(size=5_000)
    check(lambda p, q, x: (x * p[1] + q[1, 0], p[2] - 1.0), p, q, x)
