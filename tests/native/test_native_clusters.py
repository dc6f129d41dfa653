"""Mixed Graphs: which equations are native clusters, and that values stay NumPy's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from fuzz.oracle_native import is_native

import fungrad as fg
from fungrad import lax
from fungrad.compiler.cost_model import costs
from fungrad.compiler.native import clusters, fused
from fungrad.compiler.native.clusters import with_clusters
from fungrad.compiler.native.fused import fused_kernel
from fungrad.compiler.native.generators import chosen
from fungrad.compiler.native.index_maps import moved_operands, moves_deeply
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.refusal import Refusal, refusal
from fungrad.ir.graph import Graph
from fungrad.runtime import buffer_pool
from fungrad.tracing.interpreter import evaluate

rng = np.random.default_rng(11)


def graph_of(f: Callable[..., Any], *args: Any) -> Graph:
    return optimised(fg.jit(f).lower(*args).graph)


def taken(cluster: Graph) -> Callable[..., Any] | Refusal:
    """The program of a cluster if loops over arrays support it, else the refusal."""
    kernel, refusals = chosen(cluster, [fused_kernel])
    return refusals[-1] if kernel is None else lambda *xs: evaluate(cluster, xs)


def clustered(f: Callable[..., Any], *args: Any) -> tuple[int, list[str]]:
    """The number of clusters of a function, and the names of equations left to NumPy."""

    mixed = with_clusters(graph_of(f, *args), taken)
    assert mixed is not None
    names = [equation.primitive.name for equation in mixed.equations]
    for x, y in zip(evaluate(mixed, args), evaluate(graph_of(f, *args), args), strict=True):
        np.testing.assert_array_equal(x, y)
    return names.count("native_cluster"), [n for n in names if n != "native_cluster"]


def check(f: Callable[..., Any], *args: Any, tolerance: float = 1e-12) -> None:
    expected = evaluate(graph_of(f, *args), args)
    run = fg.jit(f)
    found = fg.tree_util.tree_leaves(run(*args))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * np.max(np.abs(y)))
    assert any(map(is_native, run.lower(*args).parts))


def network(w: Any, b: Any, v: Any, x: Any, y: Any) -> Any:
    h = np.maximum(x @ w + b, 0.0) * 1.5
    z = h @ v
    z = z - np.max(z, axis=1, keepdims=True)
    return -np.sum(y * (z - 1.0 / (np.sum(z * z, axis=1, keepdims=True) + 1.0)))


PARTS = (rng.normal(size=(30, 40)), rng.normal(size=40), rng.normal(size=(40, 5)),
         rng.normal(size=(900, 30)), rng.normal(size=(900, 5)))  # fmt: skip


@pytest.mark.slow
def test_a_network_has_a_cluster_between_its_products(native: None) -> None:
    step = fg.value_and_grad(network, argnums=(0, 1, 2))
    check(step, *PARTS)
    count, left = clustered(step, *PARTS)
    assert count == 3
    assert set(left) <= {"dot_general", "reduce_sum", "div", "neg"}


def test_a_normalised_vector_is_two_runs_over_memory(native: None) -> None:
    def f(x: Any) -> Any:
        return x / np.sqrt(np.sum(x * x + 1.0)) - 2.0 * x

    x = rng.normal(size=300_000)
    check(f, x)
    assert clustered(f, x) == (2, ["sqrt"])


def test_sums_along_several_axes_are_one_cluster(native: None) -> None:
    def mixed(mu: Any, x: Any) -> Any:
        y = (x @ mu).T.reshape(20, 5, 700)
        z = np.exp(-np.sum(y * y, 1))
        p = z / np.sum(z, 0)
        return np.sum(np.sin(-y * p[:, None]), 2)

    mu, x = rng.normal(size=(4, 100)), rng.normal(size=(700, 4))
    check(mixed, mu, x)
    count, left = clustered(mixed, mu, x)
    assert count == 1
    assert left == ["dot_general", "transpose", "reshape"]


def test_sums_along_short_rows_stay_out_of_the_cluster_of_long_rows(native: None) -> None:
    def nearest(centres: Any, points: Any) -> Any:
        squares = np.sum(centres * centres, 1) - 2.0 * (points @ centres.T)
        return np.sum(np.min(squares, 1)) + np.sum(points * points)

    args = rng.normal(size=(20, 16)), rng.normal(size=(500, 16))
    check(fg.value_and_grad(nearest), *args)
    count, left = clustered(fg.value_and_grad(nearest), *args)
    assert count == 2 and {"reduce_min", "attains", "select"}.isdisjoint(left)


def test_an_equation_of_a_cluster_has_no_kernel_of_its_own(native: None) -> None:
    def f(x: Any) -> Any:
        y = np.cumsum(x, axis=-1)
        return np.sum(y.T @ y)

    for rows in (1_000, 70_000):
        check(fg.grad(f), np.ones((rows, 2)))


def test_what_loops_do_not_know_stands_between_clusters(native: None) -> None:
    def f(x: Any) -> Any:
        y = np.cumsum(x * 2.0 - 1.0)
        z = np.sort(y * x + 1.0)
        return np.sum(z * y * y), z[::2]

    x = rng.normal(size=20_000)
    check(f, x)
    count, left = clustered(f, x)
    assert count == 3
    assert left == ["cumsum", "sort", "getitem"]


def test_inputs_in_other_layouts(native: None) -> None:
    f = fg.jit(lambda w, b, v, x, y: network(w, b, v, x, y))
    expected = network(*PARTS)
    turned = [np.asfortranarray(part) for part in PARTS]
    strided = [np.repeat(part, 2, axis=0)[::2] for part in PARTS]
    for part in strided:
        part.setflags(write=False)
    for parts in (PARTS, turned, strided):
        np.testing.assert_allclose(f(*parts), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.complex128, np.uint8])
def test_reductions_of_other_dtypes_stay_with_numpy(native: None, dtype: Any) -> None:
    x = np.arange(20_000).reshape(100, 200).astype(dtype)

    def f(x: Any) -> Any:
        return np.sum(x * x, axis=1), np.max(x.real * 2, axis=0)

    for a, b in zip(fg.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_effects_keep_their_order(native: None) -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        y = x * 2.0 + 1.0
        fg.debug.callback(lambda a: seen.append(float(a[0])), y)
        return y * x - 3.0

    x = rng.normal(size=10_000)
    np.testing.assert_array_equal(fg.jit(f)(x), (x * 2.0 + 1.0) * x - 3.0)
    assert seen == [x[0] * 2.0 + 1.0]


@pytest.mark.parametrize("seed", range(12))
def test_random_mixed_graphs(native: None, seed: int) -> None:
    draw = np.random.default_rng(seed)
    steps = [(int(draw.integers(0, 9)), int(draw.integers(0, 50)), int(draw.integers(0, 50)))
             for _ in range(12)]  # fmt: skip

    def f(x: Any, w: Any) -> Any:
        values = [x, x * 0.5 + 1.0]
        for kind, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            if kind < 2:
                values.append([a * 0.5 + b, a - 0.25 * b * b / (1.0 + b * b)][kind])
            elif kind == 2:
                values.append((a @ w) * 0.1)
            elif kind == 3:
                values.append(np.cumsum(a, axis=0) * 0.01)
            elif kind == 4:
                values.append(a / (1.0 + np.sum(np.abs(b), axis=j % 2, keepdims=True)))
            elif kind == 5:
                values.append(a - np.mean(b))
            elif kind == 6:
                values.append(np.concatenate([a[1:] - b[:-1], b[:1]]))
            elif kind == 7:
                values.append(np.sort(a, axis=0))
            else:
                values.append(np.maximum(a, b) - np.max(a, axis=1)[:, None])
        return np.sum(values[-1] * values[-2]), values[-3] + 1.0

    x, w = draw.normal(size=(300, 40)), draw.normal(size=(40, 40))
    expected = evaluate(graph_of(f, x, w), (x, w))
    for a, b in zip(fg.jit(f)(x, w), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * np.max(np.abs(b)))
    gradient = fg.grad(lambda x, w: f(x, w)[0])
    (expected_gradient,) = evaluate(graph_of(gradient, x, w), (x, w))
    scale = np.max(np.abs(expected_gradient))
    np.testing.assert_allclose(fg.jit(gradient)(x, w), expected_gradient, atol=1e-9 * scale)


def test_outer_products_are_no_reductions(native: None) -> None:
    x, y, z = np.ones(70), np.arange(90.0), np.ones((90, 90))
    f = fg.jit(lambda x, y, z: (np.tensordot(x, y, 0), z @ np.sin(z) + 1.0))
    np.testing.assert_array_equal(f(x, y, z)[0], np.outer(x, y))


def test_rows_stay_one_kernel_beside_sums_along_other_axes(native: None) -> None:
    def loss(x: Any, scale: Any, shift: Any) -> Any:
        c = x - np.mean(x, axis=1, keepdims=True)
        c = c / np.sqrt(np.mean(c * c, axis=1, keepdims=True) + 1e-5)
        return np.sum(np.tanh(c * scale + shift) ** 2)

    f, args = fg.grad(loss, argnums=(0, 1, 2)), [rng.normal(size=s) for s in ((200, 90), 90, 90)]
    check(f, *args, tolerance=1e-11)
    mixed = with_clusters(graph_of(f, *args), taken)
    assert mixed is not None
    names = [e.primitive.name for e in mixed.equations]
    assert names.count("native_cluster") == 1 and set(names) <= {"native_cluster", "reduce_sum"}
    both = graph_of(lambda x: (np.sum(np.exp(x) * 2.0, 0), np.sum(np.exp(x) * 2.0, 1)), args[0])
    assert len(fused._Program(both).nests) == 1


def test_moves_of_moved_values_are_divided(native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "rerolled_equations", 1 << 60)

    def loss(u: Any) -> Any:
        for _ in range(8):
            u = u + 0.1 * np.sin(np.roll(u, 1) - 2 * u + np.roll(u, -1))
        return np.sum(u * u)

    f, u = fg.grad(loss), rng.normal(size=200)
    check(f, u, tolerance=1e-11)
    lowered = fg.jit(f).lower(u)
    assert not lowered.refused and len(lowered.kernels) == 1


@pytest.mark.parametrize("size", [140])
def test_slices_are_added_to_an_array_by_one_kernel(native: None, size: int) -> None:
    def loss(weights: Any, image: Any) -> Any:
        n, m = image.shape[0] - 4, image.shape[1] - 4
        windows = ((i, j) for i in range(5) for j in range(5))
        blurred = sum(weights[i, j] * image[i : i + n, j : j + m] for i, j in windows)
        return np.mean(blurred**2)

    f = fg.grad(loss, (0, 1))
    args = rng.normal(size=(5, 5)), rng.normal(size=(size, size))
    check(f, *args, tolerance=1e-11)
    lowered = fg.jit(f).lower(*args)
    assert {why.equation.primitive.name for why in lowered.refused} <= {"stack", "reshape"}
    assert sum(kernel.llvm.count("define ") for kernel in lowered.kernels) <= 12


def test_only_moves_of_moved_values_are_deep() -> None:
    def added(x: Any) -> Any:
        return fg.grad(lambda x: np.sum(sum(i * x[i : i + 20] ** 2 for i in range(20))))(x)

    def rolled(x: Any) -> Any:
        for _ in range(20):
            x = np.roll(x, 1) * x
        return x

    x = np.ones(40)
    assert not moves_deeply(graph_of(added, x))
    assert moves_deeply(graph_of(rolled, x))


def test_an_array_to_which_slices_are_added_is_not_moved() -> None:
    def moved(f: Callable[..., Any], *args: Any) -> list[int]:
        equation = graph_of(f, *args).equations[-1]
        operands = moved_operands(equation)
        return [n for n, a in enumerate(equation.inputs) if a in operands]

    def added(x: Any, y: Any) -> Any:
        x = x.copy()
        x[1:3, 2:] += y
        return x

    x, y = np.ones((4, 5)), np.ones((2, 3))
    assert moved(added, x, y) == [1]
    assert moved(lambda x, y: np.concatenate([x, x[:, :3] * 2.0], axis=1), x, y) == [1]
    assert moved(lambda x: np.roll(x, 1, axis=0), x) == [0]
    assert moved(lambda x: x[1:], x) == [0]
    assert moved(lambda x: x[::-1], x) == [0]


def joined(parts: int) -> Callable[..., Any]:
    functions = (np.sin, np.cos, np.tanh, np.arctan, np.sinh, np.cosh)  # no loop of equal steps
    return lambda x: np.concatenate([f(x) for f in functions[:parts]])


def shared(x: Any) -> Any:
    waves = np.exp(np.sin(x))
    return np.concatenate([waves, np.stack([x, waves * 2.0], axis=1).reshape(-1), waves + 1.0])


@pytest.mark.parametrize(
    ("f", "size", "cut"),
    [(joined(6), 1_000, True), (joined(2), 3_000, False), (shared, 2_000, True),
     (lambda x: np.concatenate([x * 2.0, x + 1.0]), 8_000, False)],
    ids=["six computed parts", "two parts", "parts of one value", "cheap parts"],
)  # fmt: skip
def test_the_parts_of_a_join_are_stored_before_it_where_loops_over_it_are_slow(
    f: Callable[..., Any], size: int, cut: bool
) -> None:
    x = rng.normal(size=size)
    left = clustered(f, x)[1]
    assert ("concatenate" in left) is cut
    assert isinstance(taken(graph_of(f, x)), Refusal) is cut
    assert clusters.costly_joins(graph_of(f, x[:1])) == frozenset()
    for g, y in (
        (f, x), (fg.grad(lambda x: np.sum(f(x) ** 2)), x), (fg.vmap(f), x[:60].reshape(3, 20)),
    ):  # fmt: skip
        compiled = fg.jit(g)
        np.testing.assert_allclose(compiled(y), g(y), rtol=1e-13, atol=1e-13)
        assert not compiled.lower(y).refused
    slope = graph_of(fg.grad(lambda x: np.sum(f(x) ** 2)), x)
    assert not clusters.costly_joins(slope)  # slices read the parts


def smoothed(x: Any) -> Any:
    return lax.scan(lambda c, v: (c * 0.5 + v, c * v), 0.0, np.sort(x))[1]


def gathered(x: Any, places: Any) -> Any:
    return lax.scan(lambda c, i: (c * 0.5 + x[i], None), 0.0, places)[0]


def test_loops_beside_what_is_numpys_are_native(native: None) -> None:
    x = rng.normal(size=300)
    places = rng.integers(0, 300, 100)
    check(smoothed, x)
    check(fg.grad(lambda x: np.sum(smoothed(x) ** 2)), x)
    check(gathered, x, places)
    check(fg.grad(gathered), x, places)
    assert "sort" in str(fg.jit(smoothed).lower(x).refused)


def pendulums(k: Any, y: Any) -> Any:
    def step(_: Any, y: Any) -> Any:
        return y + 0.01 * np.stack([y[1], -k * np.sin(y[0])])

    return np.sum(lax.fori_loop(0, 30, step, y) ** 2)


def recurrent(w: Any, u: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        z = x @ w + h @ u
        h = np.tanh(z) * h + (1.0 - np.tanh(z)) / (1.0 + np.exp(-z))
        return h, h

    return np.sum(lax.scan(step, np.zeros(u.shape[0]), xs)[1] ** 2)


def inner(f: Any, *args: Any) -> Any:
    """The equations of the body of the loop of a function, with calls of clusters."""
    mixed = with_clusters(graph_of(f, *args), taken)
    assert mixed is not None
    (loop,) = [e for e in mixed.equations if e.primitive.name == "scan"]
    return loop.params["body"].equations


@pytest.mark.slow
def test_bodies_of_loops_over_arrays_are_mixed_graphs(native: None) -> None:
    k, y = rng.uniform(0.5, 1.5, 400), rng.normal(size=(2, 400))
    w, u, xs = (rng.normal(size=shape) * 0.2 for shape in ((8, 60), (60, 60), (20, 8)))
    check(pendulums, k, y)
    check(fg.grad(pendulums), k, y)
    check(recurrent, w, u, xs)
    check(fg.grad(recurrent, argnums=(0, 1)), w, u, xs, tolerance=1e-10)
    assert [e.primitive.name for e in inner(pendulums, k, y)].count("native_cluster") == 1


def test_many_operations_on_small_arrays_are_a_cluster():
    def steps(count: int) -> Callable[[Any, Any], Any]:
        def f(a: Any, x: Any) -> Any:
            y = x
            for i in range(count):
                y = y * x if i % 2 else y + x
            return np.sort(a), y

        return f

    a, x = np.ones(5), np.linspace(0.1, 1.0, 8)
    assert clustered(steps(14), a, x)[0] == 1
    assert with_clusters(graph_of(steps(6), a, x), taken) is None


def test_a_refused_cluster_is_not_tried_again_as_it_is() -> None:
    tried = []

    def refuse(graph: Any) -> Refusal:
        tried.append([e.primitive.name for e in graph.equations])
        return refusal("no")

    graph = graph_of(lambda x: np.sin(x) * np.exp(x) + x, rng.normal(size=5000))
    assert with_clusters(graph, refuse) is None
    assert len(tried) == 1


def test_large_values_between_clusters_are_in_the_pool(native: None) -> None:
    def f(x: Any) -> Any:
        y = np.exp(x - np.max(x))
        return y / np.sum(y)

    x = rng.normal(size=300_000)
    run = fg.jit(f)
    buffer_pool.clear()
    found = run(x)
    np.testing.assert_allclose(found, f(x), rtol=1e-14)
    assert buffer_pool.held() >= x.nbytes and found.base is None
    kept = found.copy()
    run(-x)
    np.testing.assert_array_equal(found, kept)


def test_a_part_that_joins_a_later_cluster_stays_before_it() -> None:
    def f(x: Any) -> Any:
        wide = np.ptp(x, axis=-1, keepdims=True)
        both = np.column_stack([wide, wide**2])
        return np.sum(np.real(np.tensordot(both, both, 2)))

    x = np.array([[1.0 - 2.0j, 2.0 - 1.0j]])
    graph = optimised(fg.make_jaxpr(fg.grad(f))(x))
    place = {equation: n for n, equation in enumerate(graph.equations)}
    for members in clusters._clusters(graph, graph.equations, 0):
        assert members == sorted(members, key=place.__getitem__)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(x), fg.grad(f)(x), rtol=1e-12, atol=1e-12)


def few_columns() -> Iterator[tuple[Callable[..., Any], list[Any]]]:
    """Programs in which loops with a short last one read expensive values of columns from buffers:
    a stack of tangents (3, 1), beside sums, sums along a short axis, of several dtypes."""

    def peak(p, x):
        return p[0] / p[2] * np.exp(-((x - p[1]) ** 2) / (2 * p[2] ** 2))

    p, x = np.array([1.5, 0.4, 0.8]), np.linspace(-4.0, 4.0, 41)
    yield fg.jacfwd(peak), [p, x]
    yield fg.jacfwd(lambda p, x: np.array([np.sum(peak(p, x)), np.sum(peak(p, x) ** 2)])), [p, x]

    def near(c, x):
        return np.exp(-np.sum(x * x, 1)[:, None] - np.sum(c * c, 1) + 2.0 * (x @ c.T))

    yield near, [p.reshape(1, 3) * np.ones((40, 1)), x.reshape(-1, 1) * p]
    rows, columns = np.random.default_rng(0).normal(size=(2, 64, 16))
    for single, double in (columns[:2], columns[1::-1]):
        given = [single.astype(np.float32), double, rows]
        yield lambda a, b, x: np.exp(b) * x + np.exp(a) * np.sin(a) * x, given
        yield lambda a, b, x: np.sum(np.exp(a) * x + np.exp(b) * np.sin(b) * x), given


def test_values_of_few_columns_are_computed_once():
    for f, args in few_columns():
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the self-check finds nothing
            for g in (f, fg.grad(lambda *xs, f=f: np.sum(np.sin(f(*xs))), (0, 1))):
                for found, expected in zip(
                    *map(fg.trees.leaves, (fg.jit(g)(*args), g(*args))), strict=True
                ):
                    np.testing.assert_allclose(found, expected, 2e-6, 2e-6)
