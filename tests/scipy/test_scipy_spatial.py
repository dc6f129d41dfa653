"""fungrad.scipy.spatial: numbers are SciPy's, derivatives those of differences."""

from __future__ import annotations

import numpy as np
import pytest

scipy_distance = pytest.importorskip("scipy.spatial.distance")

import fungrad as fg  # noqa: E402 - after SciPy is known to be there
from fungrad.errors import UnsupportedArgumentError  # noqa: E402
from fungrad.scipy.spatial import distance  # noqa: E402
from fungrad.testing import check_grads  # noqa: E402

spatial = pytest.importorskip("scipy.spatial")

A = np.random.default_rng(1).uniform(0.2, 2.0, (6, 3))
B = np.random.default_rng(2).uniform(0.2, 2.0, (5, 3))
OPTIONS = {
    "minkowski": [{}, {"p": 3.0}, {"p": 1.5, "w": np.array([1.0, 0.5, 2.0])}],
    "chebyshev": [{}, {"w": np.array([1.0, 0.0, 2.0])}],
    "seuclidean": [{}, {"V": np.array([0.5, 1.0, 2.0])}],
    "mahalanobis": [{}, {"VI": np.diag([0.5, 1.0, 2.0]) + 0.1}],
}
CALLS = [(name, options) for name in distance.METRICS for options in OPTIONS.get(name, [{}])]


@pytest.mark.parametrize(("metric", "options"), CALLS)
def test_distances_of_all_pairs(metric, options):
    for f, expected, x in (
        (lambda a: distance.cdist(a, B, metric, **options), scipy_distance.cdist, (A, B)),
        (lambda a: distance.pdist(a, metric, **options), scipy_distance.pdist, (A,)),
    ):
        values = expected(*x, metric, **options)
        np.testing.assert_array_equal(f(A), values)
        found = fg.jit(f)(A)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, values, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(fg.vjp(f, A)[0], values, rtol=1e-12, atol=1e-14)
        check_grads(f, [A], order=2)
        batch = np.stack([A, 1.1 * A])
        np.testing.assert_allclose(fg.vmap(f)(batch), [f(a) for a in batch], rtol=1e-12, atol=1e-14)
    both = lambda a, b: distance.cdist(a, b, metric, **options)  # noqa: E731
    check_grads(both, [A, B], modes=["rev"])


def test_weights_and_matrices_have_derivatives():
    check_grads(lambda v: distance.cdist(A, B, "seuclidean", V=v), [np.array([0.5, 1.0, 2.0])])
    check_grads(lambda m: distance.pdist(A, "mahalanobis", VI=m @ m.T), [np.eye(3) + 0.1])
    check_grads(lambda p: distance.cdist(A, B, "minkowski", p=2.0, w=p), [np.ones(3)])


def test_the_derivative_is_zero_where_vectors_are_equal():
    same = np.ones((2, 3))
    for metric in ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "seuclidean"):
        options = {"V": np.ones(3)} if metric == "seuclidean" else {}
        f = lambda a, m=metric, o=options: np.sum(distance.cdist(a, same, m, **o))  # noqa: E731
        np.testing.assert_array_equal(fg.grad(f)(same), np.zeros((2, 3)))
    f = lambda a: np.sum(distance.cdist(a, same, "mahalanobis", VI=np.eye(3)))  # noqa: E731
    np.testing.assert_array_equal(fg.grad(f)(same), np.zeros((2, 3)))


def test_a_metric_of_ones_own():
    metric = lambda u, v: np.sum(np.sin(u - v) ** 2)  # noqa: E731
    f = lambda a: distance.cdist(a, B, metric)  # noqa: E731
    np.testing.assert_allclose(fg.jit(f)(A), scipy_distance.cdist(A, B, metric), rtol=1e-13)
    check_grads(f, [A])
    g = lambda a: distance.pdist(a, metric)  # noqa: E731
    np.testing.assert_allclose(fg.jit(g)(A), scipy_distance.pdist(A, metric), rtol=1e-13)


@pytest.mark.parametrize("count", [0, 1, 3, 10])
def test_squareform_and_back(count):
    x = np.random.default_rng(count).normal(size=count)
    f = distance.squareform
    expected = scipy_distance.squareform(x)
    np.testing.assert_array_equal(f(x), expected)
    np.testing.assert_array_equal(fg.jit(f)(x), expected)
    check_grads(f, [x], order=2)
    np.testing.assert_array_equal(fg.jit(f)(expected), x)
    check_grads(lambda d: f(d, checks=False), [expected])
    np.testing.assert_array_equal(fg.vmap(f)(np.stack([x, 2 * x]))[1], 2 * expected)


def test_what_is_refused_says_so():
    with pytest.raises(UnsupportedArgumentError, match="hamming"):
        fg.grad(lambda a: np.sum(distance.cdist(a, B, "hamming")))(A)
    with pytest.raises(UnsupportedArgumentError, match="with weights"):
        fg.grad(lambda a: np.sum(distance.pdist(a, "cosine", w=np.ones(3))))(A)
    with pytest.raises(UnsupportedArgumentError, match="out="):
        fg.grad(lambda a: np.sum(distance.pdist(a, out=np.empty(15))))(A)
    with pytest.raises(ValueError, match="number of columns"):
        fg.grad(lambda a: np.sum(distance.cdist(a, B[:, :2])))(A)
    with pytest.raises(ValueError, match="2-dimensional"):
        fg.grad(lambda a: np.sum(distance.pdist(a)))(A[0])
    with pytest.raises(ValueError, match="Incompatible"):
        fg.grad(lambda a: np.sum(distance.squareform(a)))(np.ones(4))
    with pytest.raises(ValueError, match="Forcing"):
        fg.grad(lambda a: np.sum(distance.squareform(a, "tovector")))(np.ones(3))


def test_other_names_are_scipys():
    assert distance.hamming is scipy_distance.hamming
    assert fg.scipy.spatial.distance is distance
    assert fg.scipy.spatial.ConvexHull is __import__("scipy.spatial").spatial.ConvexHull
    assert "jaccard" in dir(distance) and "KDTree" in dir(fg.scipy.spatial)


# --- trees of points ------------------------------------------------------------------------------

P, Q = A[:, :2] * 1.5, B[:3, :2] * 1.5
TREES = {
    "query": lambda T, x: T(x).query(Q, k=2)[0],
    "one point": lambda T, x: T(x).query(Q[0])[0],
    "traced points": lambda T, x: T(x).query(x[:2] * 1.1, k=[1, 3], p=1)[0],
    "a box": lambda T, x: T(x, boxsize=[3.0, 4.0]).query(Q, k=2)[0],
    "a bound": lambda T, x: np.exp(-T(x).query(Q, k=4, distance_upper_bound=0.7)[0]),
    "maximum": lambda T, x: T(x).query(Q, p=np.inf)[0],
    "ball": lambda T, x: [np.sum(x[i] ** 2) for i in T(x).query_ball_point(Q, 1.0)],
    "one ball": lambda T, x: x[T(x).query_ball_point(Q[0], 1.5)],
    "numbers": lambda T, x: T(x).query_ball_point(Q, 1.0, return_length=True) * np.sum(x),
    "pairs": lambda T, x: [np.sum((x[i] - x[j]) ** 2) for i, j in sorted(T(x).query_pairs(1.2))],
    "two trees": lambda T, x: [
        np.sum((x[i] - Q) ** 2) for i in range(6) for _ in T(x).query_ball_tree(T(Q), 1.2)[i]
    ],
    "count": lambda T, x: T(x).count_neighbors(T(Q), 1.2) * x,
    "class": lambda T, x: x**2 if isinstance(T(x), T) and T(x).n == 6 else x,
}


@pytest.mark.parametrize("tree", ["KDTree", "cKDTree"])
@pytest.mark.parametrize("name", TREES)
def test_trees_of_traced_points(tree, name):
    def f(x):
        return np.sum(np.asarray(TREES[name](getattr(spatial, tree), x)) ** 2)

    check_grads(f, [P])
    assert np.isclose(fg.value_and_grad(f)(P)[0], f(P))
    compiled = fg.jit(fg.grad(f))
    for x in (P, P * 1.001, P[::-1]):
        np.testing.assert_allclose(compiled(x), fg.grad(f)(x))
    np.testing.assert_allclose(fg.vmap(f)(np.stack([P, P * 1.0001])), [f(P), f(P * 1.0001)])


def test_jit_keeps_neighbours_as_conditions_and_not_positions():
    def f(x):
        traces.append(0)
        return np.sum(spatial.KDTree(x).query(Q)[0])

    traces: list[int] = []
    compiled = fg.jit(fg.grad(f))
    compiled(P)
    before = len(traces)
    compiled(P * 1.0001)
    assert len(traces) == before
