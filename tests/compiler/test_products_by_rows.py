"""Products of matrices in regions, where a product has no threads of its own."""

from __future__ import annotations

import numpy as np
import pytest
from fake_blas import FakeBlas
from hypothesis import given, settings

import fungrad as fg
from fungrad.compiler.cost_model import costs
from fungrad.compiler.loop_ir.printer import written_out
from fungrad.compiler.numpy_backend.backend import build
from fungrad.compiler.numpy_backend.fusion import tile_lowering, tiling
from fungrad.compiler.numpy_backend.fusion.clustering import FusionCluster, cluster_and_schedule
from fungrad.compiler.passes.pipeline import optimised
from fungrad.runtime import blas_threads, thread_pool
from fungrad.runtime.kernels import reductions
from fungrad.testing import programs

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

RNG = np.random.default_rng(0)


def normal(*shape, dtype=float):
    return RNG.normal(size=shape).astype(dtype)


def attention(q, k, v, target):
    scores = q @ k.T / q.shape[1] ** 0.5
    e = np.exp(scores - np.max(scores, 1, keepdims=True))
    return np.mean((e / np.sum(e, 1, keepdims=True) @ v - target) ** 2)


def cost(centres, points):
    squares = np.sum(centres * centres, 1) - 2.0 * (points @ centres.T)
    return np.sum(np.min(squares, 1)) + np.sum(points * points)


def network(w1, b1, w2, x, y):
    z = np.tanh(x @ w1 + b1) @ w2
    z = z - np.max(z, 1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), 1)) - np.sum(y * z, 1))


def logistic(w, x, y):
    z = np.tanh(x) @ w
    return np.mean(np.logaddexp(0.0, z) - y * z)


def gram(x):
    """A matrix that is read by rows and as a whole."""
    return np.sum(np.sin(x @ x.T)) + np.sum(np.cos(x.T @ x))


def columns(x, y):
    """Products over the first axes, and rows that stand behind."""
    return np.sum(np.exp(-np.abs(x.T @ y)) * 0.1) + np.sum(np.tanh(y @ np.sin(y).T))


CASES = {
    "attention": (attention, [normal(130, 70), normal(90, 70), normal(90, 20), normal(130, 20)]),
    "k-means": (cost, [normal(40, 16), normal(500, 16)]),
    "network": (
        network,
        [normal(30, 80), normal(80), normal(80, 10), normal(300, 30), normal(300, 10)],
    ),
    "logistic": (logistic, [normal(60), normal(300, 60), normal(300)]),
    "gram": (gram, [normal(200, 45)]),
    "batches": (
        lambda x, y: np.sum(np.sin(np.einsum("ij,ij->i", x, y)[:, None] * x)),
        [normal(200, 60), normal(200, 60)],
    ),
    "vector first": (
        lambda w, x, y: np.sum(np.tanh(w @ x.T) * y) + np.sum(np.sin((y * y) @ x)),
        [normal(60), normal(300, 60), normal(300)],
    ),
    "outer": (lambda x, y: np.sum(np.sin(np.multiply.outer(x, y) @ y)), [normal(200), normal(60)]),
    "columns": (columns, [normal(150, 150), normal(150, 100)]),
    "float32": (attention, [normal(130, 70, dtype=np.float32) for _ in range(4)]),
    "complex": (
        lambda x, y: np.sum(np.abs(np.exp(0.1 * (x @ y)) @ y.T)),
        [normal(200, 30) + 1j * normal(200, 30), normal(30, 60) + 0j],
    ),
}


@pytest.fixture(
    params=[
        (1, "single"),
        (2, "single"),
        (3, "single"),
        (1, "told"),
        (2, "told"),
    ],
    ids="threads{0[0]}-{0[1]}".format,
    autouse=True,
)
def one_blas_thread(request, monkeypatch):
    """Products in clusters take one thread: all do, or the BLAS is set to one meanwhile."""
    count, how = request.param
    told = blas_threads.OneThread(FakeBlas()) if how == "told" else None
    monkeypatch.setattr(blas_threads, "one_blas_thread", lambda: told)
    monkeypatch.setattr(blas_threads._State, "single", how == "single")
    monkeypatch.setattr(thread_pool._state, "count", count)


def heavy_join():
    """Whether heavy products join regions."""
    return blas_threads.single_blas() or (
        blas_threads.single_in_clusters() and thread_pool.num_threads() > 1
    )


def same(f, args):
    graph = optimised(fg.make_jaxpr(f)(*args))
    for want, got in zip(fg.evaluate(graph, *args), build(graph)(*args), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        tolerance = 1e4 * np.finfo(want.dtype).eps
        scale = np.max(np.abs(want), initial=1e-30)
        np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=tolerance)
    return graph


def found(graph):
    return [step for step in cluster_and_schedule(graph) if isinstance(step, FusionCluster)]


def products(region):
    return sum(e.primitive.name == "dot_general" for e in region.equations)


@pytest.mark.parametrize("name", CASES)
def test_values_gradients_and_products_with_the_hessian(name):
    f, args = CASES[name]
    every = tuple(range(len(args)))
    graph = same(fg.value_and_grad(f, every), args)
    light = heavy_join() or name in ("k-means", "network", "logistic")
    assert (
        name in ("batches", "outer", "vector first")
        or not light
        or sum(map(products, found(graph))) >= 1
    )
    same(lambda *xs: fg.jvp(fg.grad(f, every), xs, xs)[1], args)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "fused_array", 2)
        patch.setattr(costs, "tile_elements", 300)
        patch.setattr(costs, "product_rows", 7)
        patch.setattr(costs, "light_product", 1000)
        patch.setattr(costs, "shared_work", 1)
        same(fg.value_and_grad(f, every), args)


def test_attention_and_k_means_are_one_region_that_keeps_no_matrix():
    for name, count in (("attention", 6), ("k-means", 2))[not heavy_join() :]:
        f, args = CASES[name]
        (region,) = found(optimised(fg.make_jaxpr(fg.value_and_grad(f, 0))(*args)))
        assert products(region) >= count - 2
        assert all(v.type.size <= max(a.size for a in args) for v in region.outputs)


@pytest.mark.parametrize(("rows", "joins"), [(256, True), (150, False)])
def test_heavier_products_join_where_threads_share_their_region(rows, joins):
    args = [normal(rows, 64) for _ in range(4)]
    graph = same(fg.value_and_grad(attention, (0, 1, 2)), args)
    assert max(map(products, found(graph))) == 6 * (joins or heavy_join())


def test_large_matrices_and_large_sums_stay_whole():
    def f(x, y):
        return np.sum(np.tanh(x @ y))

    for x in (normal(400, 3000), normal(costs.product_rows, 300)):
        args = x, normal(x.shape[1], 300)
        assert not any(map(products, found(optimised(fg.make_jaxpr(fg.grad(f, (0, 1)))(*args)))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blas_threads._State, "single", False)
        patch.setattr(blas_threads, "one_blas_thread", lambda: None)
        for f, args in CASES.values():
            assert not any(map(products, found(optimised(fg.make_jaxpr(f)(*args)))))


def test_blocks_of_products_have_many_rows():
    def f(x, y):
        return np.sum(np.sin(x @ y))

    args = normal(600, 16), normal(16, 900)
    (region,) = found(same(f, args))
    assert tiling.length(region, 1) == costs.product_rows > costs.tile_elements // 900


def test_what_a_product_reads_makes_no_blocks_smaller():
    """Nor the product with it on the way back, which finds a block where the first one has read."""

    def f(w, x, y):
        z = x @ w
        return np.mean(np.logaddexp(0.0, z) - y * z)

    args = normal(100), normal(20_000, 100), normal(20_000)
    (region,) = found(same(fg.value_and_grad(f), args))
    assert products(region) >= 2
    for count in (1, 2):
        assert 4_000 <= tiling.length(region, count)
    once = found(same(lambda w, x: np.sum(np.tanh(x @ w)), args[:2]))
    assert tiling.length(once[0], 1) >= 20_000 and tiling.length(once[0], 2) >= 10_000


def test_numbers_that_are_none():
    f, args = CASES["k-means"]
    for bad in (np.nan, np.inf):
        points = args[1].copy()
        points[7, 3] = bad
        graph = optimised(fg.make_jaxpr(fg.grad(f))(args[0], points))
        (want,), (got,) = fg.evaluate(graph, args[0], points), build(graph)(args[0], points)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


@pytest.mark.slow
@given(programs(scalar=False))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_random_programs_in_tiny_blocks(program):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blas_threads._State, "single", True)
        patch.setattr(costs, "fused_array", 2)
        patch.setattr(costs, "tile_elements", 3)
        patch.setattr(costs, "product_rows", 1)
        patch.setattr(costs, "shared_work", 1)
        f = fg.grad(lambda *xs: np.sum(program(*xs)), tuple(range(len(program.args))))
        same(f, program.args)


@pytest.mark.parametrize("terms", [0, reductions.SMALL])
def test_large_second_factors_stand_as_they_are(terms, monkeypatch):
    """Those that no BLAS reads as they stand are copied."""
    monkeypatch.setattr(reductions, "SMALL", terms)
    w, x = normal(64, 20), normal(600, 20)

    def f(x, w):
        return np.sum(np.tanh(x @ w.T) ** 2)

    for y in (w, w.T.copy().T, normal(128, 60)[::2, ::3], np.broadcast_to(w[:1], w.shape)):
        same(f, [x, y])
        same(fg.grad(f, (0, 1)), [x, y])
    (region,) = [
        s
        for s in cluster_and_schedule(optimised(fg.make_jaxpr(f)(x, w)))
        if isinstance(s, FusionCluster)
    ]
    text = written_out(tile_lowering.build(region))
    stands = terms == 0
    assert ("_for_blas(x_1.T)" in text) is stands
    assert ("ascontiguousarray(x_1.T)" in text) is not stands
    assert np.shares_memory(reductions.second(1)(w.T), w) is stands


def test_products_without_terms():
    same(lambda x, y: np.sin(x @ y) + 1.0, [normal(300, 0), normal(0, 60)])
