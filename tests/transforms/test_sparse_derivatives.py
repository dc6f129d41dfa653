"""Sparse Jacobians and Hessians: sound patterns, colourings, values, SciPy's solvers."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import checks
import numpy as np
import pytest
from same_numbers import assert_same_numbers
from samples import SAMPLES

import fungrad as fg
from fungrad.errors import AbstractBooleanError, AbstractValueError, ArgumentError
from fungrad.sparse import compressed, derivative
from fungrad.sparse.patterns import LIMIT

sparse = pytest.importorskip("scipy.sparse")
pytestmark = pytest.mark.filterwarnings("ignore::fungrad.sparse.DensePatternWarning")

SMALL = 40
"""The most elements of an input whose dense Jacobian is compared."""

# --- soundness: nonzero entries are in the pattern ------------------------------------------------


def real(value: Any) -> bool:
    return isinstance(value, (np.ndarray, float)) and np.asarray(value).dtype.kind == "f"


def cases(name: str) -> list[tuple[int, int, Callable[..., Any], np.ndarray]]:
    """For the samples of a primitive: (sample, argument, function of the argument, argument).

    Elementwise primitives have one rule, which those of WIDE meet with all their samples: of the
    others the largest sample of each argument.
    """
    primitive = checks.OURS[name]
    found = []
    for number, sample in enumerate(SAMPLES[name]):
        if not checks.differentiable(primitive, sample):
            continue
        for i, arg in enumerate(sample.args):
            if not real(arg) or not 0 < np.size(arg) <= SMALL:
                continue

            def f(x: Any, i: int = i, sample: Any = sample) -> Any:
                args = list(sample.args)
                args[i] = x
                result = primitive(*args, **sample.params)
                parts = checks.outputs(primitive, result)
                kept = [p for p in parts if checks.typeof(p).dtype.kind == "f"]
                return np.concatenate([np.reshape(p, -1) for p in kept]) if kept else None

            found.append((number, i, f, np.asarray(arg, np.float64)))
    if primitive.partials is None or name in WIDE:
        return found
    return list({case[1]: case for case in sorted(found, key=lambda case: case[3].size)}.values())


WIDE = frozenset(
    """abs all_pole apart arctan2 cholesky cholesky_pullback cofactors cofactors_along cummax cummin
    cumprod det dot_general eigenspaces eigh eigvalsh fabs fmax fmin fmod hermitian_function huber
    hypot i0 imag index_max index_min index_multiply index_set irfft linear_recurrence logaddexp lu
    matrix_function maximum minimum partition power product_of_others qr reduce_logaddexp
    reduce_logaddexp2 reduce_max reduce_min reduce_prod scan scan_pullback scan_record select
    share_ties sort sparse_solve svd""".split()
)
"""Primitives whose patterns have more than the nonzero entries at some sample.

Most choose by value, which a pattern for every point cannot know; some have the dense rule alone.
The list only shrinks: one that is no longer wide has to leave it.
"""


REFUSED = (fg.errors.FungradError, np.linalg.LinAlgError)


def dense(derivative: Callable[..., Any], x: np.ndarray) -> np.ndarray | None:
    """A derivative at x, or None where there is none: the rules' own tests have that."""
    try:
        return np.reshape(derivative(x), (-1, x.size))
    except REFUSED:
        return None


def dense_jacobian(f: Callable[..., Any], x: np.ndarray) -> np.ndarray | None:
    """The Jacobian, or None where there is none."""
    try:
        value = f(x)
    except REFUSED:
        return None
    return None if value is None or not value.size else dense(fg.jacobian(f), x)


def missing(entries: np.ndarray, pattern: Any) -> bool:
    """Whether an entry beyond rounding (that of the largest one) is not in the pattern."""
    largest = np.max(np.abs(entries), initial=0.0, where=np.isfinite(entries))
    return bool(np.any((np.abs(entries) > 2e-16 * largest) & ~pattern.toarray()))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", sorted(checks.OURS))
def test_patterns_hold_what_differs_from_zero(name: str) -> None:
    wide = []
    for number, argument, f, x in cases(name):
        jacobian = dense_jacobian(f, x)
        if jacobian is None:
            continue
        pattern = fg.sparse.jacobian_pattern(f, x)
        assert not missing(jacobian, pattern), (name, number, argument)
        if pattern.nnz != np.count_nonzero(jacobian):
            wide.append((number, argument))

        def loss(x: Any, f: Any = f) -> Any:
            return np.sum(np.sin(f(x)))

        hessian = dense(fg.hessian(loss), x)
        if hessian is not None:
            pattern = fg.sparse.hessian_pattern(loss, x)
            assert not missing(hessian, pattern), (name, number, argument, "Hessian")
    assert bool(wide) == (name in WIDE), wide


def test_most_samples_have_a_jacobian_to_compare_with() -> None:
    found = [
        dense_jacobian(f, x) for name in ("add", "getitem", "scan") for *_, f, x in cases(name)
    ]
    assert len(found) > 20
    assert sum(dense is None for dense in found) < 10


def test_a_lost_index_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from fungrad.sparse import patterns, rules

    def losing(pattern: Any, rows: np.ndarray) -> Any:
        return patterns.take(pattern, np.where(rows == 1, 0, rows))

    monkeypatch.setattr(rules, "take", losing)
    f: Any = lambda x: (x * 2.0)[::-1]  # noqa: E731
    pattern = fg.sparse.jacobian_pattern(f, np.ones(3))
    assert missing(fg.jacobian(f)(np.ones(3)), pattern)


# --- programs -------------------------------------------------------------------------------------


def bratu(u: Any) -> Any:
    m = int(np.sqrt(u.size))
    grid = np.pad(np.reshape(u, (m, m)), 1)
    inner = grid[1:-1, 1:-1]
    around = grid[2:, 1:-1] + grid[:-2, 1:-1] + grid[1:-1, 2:] + grid[1:-1, :-2]
    return np.ravel(4 * inner - around - 0.01 * np.exp(inner))


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def arrow(x: Any) -> Any:
    return np.sum(x[0] * x[1:] ** 2) + x[0] ** 3


def stepped(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        return np.roll(c, 1) * 0.5 + v, c[0] * v

    return np.concatenate([np.ravel(p) for p in fg.lax.scan(step, x, np.ones((4, 1)))])


def branched(x: Any) -> Any:
    return fg.lax.cond(np.sum(x) > 0, lambda x: x[::-1], lambda x: np.roll(x, 1) ** 2, x)


def shifted_while(x: Any) -> Any:
    return fg.lax.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, np.roll(c[1], 1) * c[1]), (0, x)
    )[1]


@fg.custom_jvp
def clipped(x: Any) -> Any:
    return np.clip(x, -1.0, 1.0)


clipped.defjvp(lambda primals, tangents: (clipped(*primals), tangents[0] * 0.1))


@fg.custom_vjp
def doubled(x: Any) -> Any:
    return 2.0 * x


doubled.defvjp(lambda x: (2.0 * x, None), lambda _, ct: (3.0 * np.roll(ct, 1),))

FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "bratu": (bratu, 25),
    "scan": (stepped, 6),
    "branches": (branched, 6),
    "while": (shifted_while, 6),
    "custom_jvp": (clipped, 4),
    "custom_vjp": (doubled, 4),
    "stopped": (lambda x: x * fg.stop_gradient(np.roll(x, 1)), 5),
    "gather": (lambda x: x[np.array([3, 0, 0])] * x[np.array([1, 1, 2])], 5),
    "matrix": (lambda x: np.diag([1.0, 0.0, 2.0, 3.0]) @ np.sin(x), 4),
    "two reductions": (lambda x: np.stack([np.sum(x[:3]), np.prod(x[3:])]), 20),
    "checkpoint": (fg.checkpoint(lambda x: np.sin(x) * x), 4),
    "mask": (lambda x: np.where(np.arange(6) % 2 == 0, x, np.flip(x)) * (np.arange(6) > 1), 6),
    "written": (lambda x: fg.numpy.at(np.zeros(6))[1:4].set(x[2:5] ** 2), 6),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_jacobians_equal_dense_ones(name: str, mode: str) -> None:
    f, size = FUNCTIONS[name]
    J = fg.sparse.jacobian(f, mode=mode, check=True)
    for seed in range(3):  # the pattern is global: it is found at the first point
        x = np.random.default_rng(seed).standard_normal(size)
        np.testing.assert_allclose(J(x).toarray(), fg.jacobian(f)(x), rtol=1e-12, atol=1e-14)
    assert J.pattern(x).dtype == np.bool_


READING: dict[str, tuple[Callable[..., Any], int, int]] = {
    "stencil": (bratu, 25, 1),
    "gather": (lambda x: x[np.array([3, 0, 0])] * np.sin(x[np.array([1, 1, 2])]), 5, 1),
    "one element twice": (lambda x: x[np.array([1, 2, 3])] * x[np.array([1, 0, 3])], 5, 1),
    "wide rows": (lambda x: np.tanh(x[:12].reshape(3, 4) @ np.ones(4)) + x[12:], 15, 1),
    "put together": (lambda x: np.concatenate([x[3:], np.pad(x[:2], 1)]) ** 2, 8, 1),
    "all shared": (lambda x: np.ones((3, 4)) @ x, 4, 3),
}
"""Functions that read some elements of their argument: size of that, and groups of their rows."""


@pytest.mark.parametrize("name", [*FUNCTIONS, *READING])
def test_products_in_reverse_of_what_follows_the_reads(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, size = (FUNCTIONS.get(name) or READING[name])[:2]
    monkeypatch.setattr(compressed, "PULLBACK", 0)
    monkeypatch.setattr(compressed, "MAX_FILL", 100)
    J = fg.sparse.jacobian(f, check=True)
    x = np.random.default_rng(1).standard_normal(size)
    np.testing.assert_allclose(J(x).toarray(), fg.jacobian(f)(x), rtol=1e-12, atol=1e-14)
    if name in READING:
        assert len(J.plans.of((x,), {})[0].seeds) == READING[name][2]
        assert J.colours(x).size == size


def test_a_wider_result_keeps_its_precision() -> None:
    f: Any = lambda x: (x[1:] * x[:-1] * x[1:]).astype(np.float64) * np.pi  # noqa: E731
    g: Any = lambda x: np.exp(x[1:].astype(np.float64) * x[:-1])  # noqa: E731
    x = np.linspace(0.1, 2.0, 9, dtype=np.float32)
    for h in (f, g):
        found = fg.sparse.jacobian(h)(x)
        assert found.dtype == np.float64
        assert_same_numbers(found.toarray(), fg.jacfwd(h)(x))


def test_fewer_products_are_chosen() -> None:
    for f, size, products in (
        (bratu, 100, 1),
        (np.sin, 9, 1),
        (lambda x: x[1:] * x[:-1], 9, 2),
        (lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + x[:-1] ** 2), 9, 1),
    ):
        J, x = fg.sparse.jacobian(f, check=True), np.linspace(0.5, 1.0, size)
        np.testing.assert_allclose(J(x).toarray(), np.atleast_2d(fg.jacobian(f)(x)), rtol=1e-12)
        assert len(J.plans.of((x,), {})[0].seeds) == products
        assert J.colours(x).size == size


@pytest.mark.parametrize("f", [rosenbrock, arrow, lambda x: np.sum(np.sin(x)) + x[0] * x[-1]])
def test_hessians_equal_dense_ones(f: Callable[..., Any]) -> None:
    H = fg.sparse.hessian(f, check=True)
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal(12)
        np.testing.assert_allclose(H(x).toarray(), fg.hessian(f)(x), rtol=1e-12, atol=1e-13)


def test_patterns_are_those_of_the_stencil() -> None:
    pattern = fg.sparse.jacobian_pattern(bratu, np.zeros(100))
    assert pattern.nnz == 5 * 100 - 4 * 10
    assert fg.sparse.jacobian(bratu).colours(np.zeros(100)).max() == 6
    assert fg.sparse.hessian_pattern(rosenbrock, np.zeros(50)).nnz == 3 * 50 - 2


def test_hessians_look_into_both_modes_of_branches_and_loops() -> None:
    def branches(x: Any) -> Any:
        return np.sum(fg.lax.cond(np.sum(x) > 0, lambda x: x**3, lambda x: np.sin(x[::-1]), x))

    def steps(x: Any) -> Any:
        return np.sum(fg.lax.scan(lambda c, v: (c * 0.5 + v**2, np.sin(v) * v), 0.0, x)[1])

    for f in (branches, steps):
        assert fg.sparse.hessian_pattern(f, np.ones(6)).nnz == 6


def test_convolutions_and_band_matrices_have_bands() -> None:
    kernel = np.array([1.0, 0.0, -1.0])
    pattern = fg.sparse.jacobian_pattern(lambda x: np.convolve(x**2, kernel, "same"), np.ones(9))
    assert pattern.nnz == 16
    solve: Any = lambda b: fg.scipy.linalg.solve_banded((1, 0), np.ones((2, 5)), b)  # noqa: E731
    np.testing.assert_array_equal(
        fg.sparse.jacobian_pattern(solve, np.ones(5)).toarray(), np.tri(5) > 0
    )


def test_trees_give_blocks() -> None:
    def f(p: Any) -> Any:
        return {"a": p["u"][1:] * p["v"][0], "b": np.sin(p["v"])}

    p = {"u": np.arange(1.0, 5.0), "v": np.arange(3.0)}
    found, want = fg.sparse.jacobian(f)(p), fg.jacobian(f)(p)
    for a, b in itertools.product("ab", "uv"):
        assert isinstance(found[a][b], sparse.csr_array)
        np.testing.assert_allclose(found[a][b].toarray(), want[a][b])
    blocks = fg.sparse.hessian(lambda x, y: np.sum(x * y[:2] ** 2), argnums=(0, 1))(
        np.ones(2), np.ones(3)
    )
    np.testing.assert_allclose(blocks[0][1].toarray(), [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    np.testing.assert_allclose(blocks[1][1].toarray(), np.diag([2.0, 2.0, 0.0]))


def test_integers_among_the_arguments_decide_the_pattern() -> None:
    J = fg.sparse.jacobian(lambda x, where, scale: x[where] * scale)
    x = np.arange(4.0)
    for where in ([0, 2], [3, 3]):
        got = J(x, np.array(where), 2.0)
        np.testing.assert_allclose(got.toarray(), 2.0 * np.eye(4)[where])
    np.testing.assert_allclose(J(x, np.array([0, 2]), 5.0).toarray(), 5.0 * np.eye(4)[[0, 2]])


@pytest.mark.numpy_backend
def test_value_and_formats_and_single_precision() -> None:
    x = np.arange(4, dtype=np.float32)
    y, J = fg.sparse.value_and_jacobian(np.sin, format="csc")(x)
    assert y.dtype == J.dtype == np.float32 and J.format == "csc"
    np.testing.assert_array_equal(y, np.sin(x))
    np.testing.assert_allclose(J.toarray(), np.diag(np.cos(x)), rtol=1e-6)


@pytest.mark.parametrize("shape", [(0,), (1,), (), (2, 3)])
def test_shapes(shape: tuple[int, ...]) -> None:
    x = np.ones(shape)
    J = fg.sparse.jacobian(lambda x: x * 3.0)(x)
    np.testing.assert_allclose(J.toarray(), 3.0 * np.eye(x.size))


def test_results_are_the_callers_own() -> None:
    J = fg.sparse.jacobian(np.sin)
    first = J(np.zeros(3))
    first.indices[:] = 0
    first.data[:] = 9.0
    np.testing.assert_allclose(J(np.zeros(3)).toarray(), np.eye(3))
    pattern = J.pattern(np.zeros(3))
    pattern.indices[:] = 0
    np.testing.assert_allclose(J(np.zeros(3)).toarray(), np.eye(3))


def test_they_pickle() -> None:
    J = pickle.loads(pickle.dumps(fg.sparse.jacobian(bratu, mode="forward")))
    np.testing.assert_allclose(J(np.zeros(9)).toarray(), fg.jacobian(bratu)(np.zeros(9)))
    assert J.colours(np.zeros(9)).size == 9


# --- opaque functions -----------------------------------------------------------------------------

STENCIL = np.array([1.0, -2.0, 1.0])
BAND = sparse.diags_array([np.ones(8), np.ones(9), np.ones(8)], offsets=[-1, 0, 1])


def simulated(x: Any, p: Any) -> Any:
    assert type(x) is np.ndarray
    return np.convolve(x**2, STENCIL, "same") * p


def simulated_vjp(g: Any, y: Any, x: Any, p: Any) -> Any:
    return 2 * x * np.convolve(g * p, STENCIL, "same"), np.sum(g * simulated(x, 1.0))


def simulated_jvp(primals: Any, tangents: Any) -> Any:
    (x, p), (dx, dp) = primals, tangents
    moved = 0.0 if dx is None else np.convolve(2 * x * dx, STENCIL, "same") * p
    return moved + (0.0 if dp is None else simulated(x, dp))


OPAQUE: dict[str, dict[str, Any]] = {
    "differences": {"vjp": "finite_differences"},
    "complex step": {"vjp": "complex_step"},
    "vjp": {"vjp": simulated_vjp},
    "jvp": {"vjp": simulated_vjp, "jvp": simulated_jvp},
}


@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1, 0)])
@pytest.mark.parametrize("rule", OPAQUE)
@pytest.mark.parametrize("sparsity", [(BAND, None), lambda x, p: (BAND.toarray(), None), None])
def test_declared_patterns_of_opaque_functions(rule: str, sparsity: Any, argnums: Any) -> None:
    x = np.random.default_rng(0).standard_normal(9)
    f = fg.external(simulated, shape=fg.Type((9,), float), sparsity=sparsity, **OPAQUE[rule])
    J = fg.sparse.jacobian(f, argnums, check=True)
    want = fg.jacobian(lambda x, p: fg.numpy.convolve(x**2, STENCIL, "same") * p, argnums)(x, 1.5)
    found = J(x, 1.5)
    one = isinstance(argnums, int)
    for a, b in zip([found] if one else found, [want] if one else want, strict=True):
        np.testing.assert_allclose(a.toarray(), np.reshape(b, (9, -1)), rtol=1e-8, atol=1e-8)
    of_x = 81 if sparsity is None else 25
    sizes = {0: of_x, 1: 9}
    assert J.pattern(x, 1.5).nnz == sum(sizes[i] for i in ([argnums] if one else argnums))


def test_a_batch_of_opaque_calls_has_blocks() -> None:
    def cell(x: Any, p: Any) -> Any:
        return np.array([x[0] * x[1] * p[0], x[1] ** 2 + p[0]])

    rows, p = np.random.default_rng(0).standard_normal((4, 2)), np.ones(1)
    for sparsity, entries in ((None, 16), ((np.array([[1, 1], [0, 1]]), None), 12)):
        f = fg.external(
            cell, vjp="complex_step", shape=lambda x, p: fg.Type(x.shape, x.dtype),
            sparsity=sparsity,
        )  # fmt: skip
        for argnums, nnz in ((0, entries), (1, 8)):
            J = fg.sparse.jacobian(fg.vmap(f, (0, None)), argnums, check=True)
            assert J.pattern(rows, p).nnz == nnz
            want = fg.jacobian(
                fg.vmap(lambda x, p: np.stack([x[0] * x[1] * p[0], x[1] ** 2 + p[0]]), (0, None)),
                argnums,
            )(rows, p)
            np.testing.assert_allclose(J(rows, p).toarray(), np.reshape(want, (8, -1)), atol=1e-12)


def test_wrong_declarations_are_refused() -> None:
    def of(sparsity: Any) -> Any:
        f = fg.external(
            np.cumsum, vjp="complex_step", shape=fg.Type((4,), float), sparsity=sparsity
        )
        return fg.sparse.jacobian(f, check=True)(np.arange(1.0, 5.0))

    np.testing.assert_allclose(of(np.tri(4)).toarray(), np.tri(4))
    with pytest.raises(ArgumentError, match="too narrow"):
        of(np.eye(4))
    for wrong in (np.eye(3), (np.eye(4), None), np.ones((3, 4))):
        with pytest.raises(ArgumentError, match=r"sparsity= of `cumsum`.*arguments are c128"):
            of(wrong)


def test_a_tangent_that_is_stopped_still_counts() -> None:
    @fg.custom_jvp
    def f(x: Any) -> Any:
        return x * 2.0

    f.defjvp(lambda primals, tangents: (f(*primals), fg.stop_gradient(tangents[0]) * 3.0))
    J = fg.sparse.jacobian(f, mode="forward", check=True)
    np.testing.assert_allclose(J(np.ones(3)).toarray(), 3.0 * np.eye(3))


# --- colourings -----------------------------------------------------------------------------------


def random_pattern(seed: int, rows: int, columns: int, symmetric: bool = False) -> Any:
    rng = np.random.default_rng(seed)
    dense = rng.random((rows, columns)) < rng.uniform(0.02, 0.5)
    return sparse.csr_array(dense | dense.T if symmetric else dense)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("group", [derivative.columns, derivative._columns])
def test_columns_of_a_colour_share_no_row(seed: int, group: Callable[[Any], np.ndarray]) -> None:
    pattern = random_pattern(seed, 12, 15)
    groups, dense = group(pattern), pattern.toarray()
    for i, j in itertools.combinations(range(15), 2):
        assert groups[i] != groups[j] or not np.any(dense[:, i] & dense[:, j])


@pytest.mark.parametrize("seed", range(20))
def test_star_colourings_have_no_path_of_two_colours(seed: int) -> None:
    pattern = random_pattern(seed, 10, 10, symmetric=True)
    groups, dense = derivative.star(pattern), pattern.toarray()
    np.fill_diagonal(dense, False)
    near = [np.flatnonzero(row).tolist() for row in dense]
    for b, c in zip(*np.nonzero(dense), strict=True):
        assert groups[b] != groups[c]
        for a, d in itertools.product(near[b], near[c]):
            if len({a, b, c, d}) == 4:
                assert len({groups[k] for k in (a, b, c, d)}) > 2


@pytest.mark.parametrize("seed", range(10))
def test_every_entry_of_a_random_hessian_is_read_right(seed: int) -> None:
    pattern = random_pattern(seed, 14, 14, symmetric=True)
    weights = np.triu(pattern.toarray() * np.random.default_rng(seed).standard_normal((14, 14)))
    f: Any = lambda x: np.sin(x) @ (weights @ np.cos(x))  # noqa: E731
    x = np.random.default_rng(seed + 1).standard_normal(14)
    H = fg.sparse.hessian(f, check=True)
    np.testing.assert_allclose(H(x).toarray(), fg.hessian(f)(x), rtol=1e-11, atol=1e-12)


def test_an_arrow_needs_two_colours() -> None:
    groups = fg.sparse.hessian(arrow).colours(np.ones(300))
    assert groups.max() == 1


def test_colour_by_kind() -> None:
    pattern = np.array([[1, 1, 1], [0, 1, 0], [0, 0, 1]])
    assert fg.sparse.colour(pattern).max() == 2
    assert fg.sparse.colour(pattern, "rows").tolist() == [0, 1, 1]
    assert fg.sparse.colour(pattern | pattern.T, "symmetric").max() == 1
    with pytest.raises(ArgumentError, match="not symmetric"):
        fg.sparse.colour(pattern, "symmetric")
    with pytest.raises(ArgumentError, match="kind='x'"):
        fg.sparse.colour(pattern, "x")


# --- SciPy's solvers ------------------------------------------------------------------------------


def test_least_squares_and_newton() -> None:
    from scipy.optimize import least_squares
    from scipy.sparse.linalg import spsolve

    u, J = np.zeros(64), fg.sparse.jacobian(bratu, format="csc")
    for _ in range(6):
        u = u - spsolve(J(u), bratu(u))
    assert np.max(np.abs(bratu(u))) < 1e-12
    found = least_squares(bratu, np.zeros(64), jac=fg.sparse.jacobian(bratu), gtol=1e-12)
    np.testing.assert_allclose(found.x, u, atol=1e-8)


@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_stiff_equations(method: str) -> None:
    from scipy.integrate import solve_ivp

    def f(t: Any, y: Any) -> Any:
        return -50.0 * (y - np.cos(t)) + np.roll(y, 1) - y

    y = np.linspace(0.0, 1.0, 12)
    J = fg.sparse.jacobian(f, argnums=1, format="csc")
    with_jacobian = solve_ivp(f, (0.0, 1.0), y, method=method, jac=J, rtol=1e-8, atol=1e-10)
    without = solve_ivp(f, (0.0, 1.0), y, method=method, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(with_jacobian.y[:, -1], without.y[:, -1], rtol=1e-6)


def test_trust_constr() -> None:
    from scipy.optimize import NonlinearConstraint, minimize

    def c(x: Any) -> Any:
        return x[:-1] * x[1:]

    constraint = NonlinearConstraint(
        c, 0.5, np.inf, jac=fg.sparse.jacobian(c), hess=fg.sparse.hessian(lambda x, v: v @ c(x))
    )
    found = minimize(
        rosenbrock, np.full(6, 1.2), method="trust-constr", jac=fg.grad(rosenbrock),
        hess=fg.sparse.hessian(rosenbrock), constraints=[constraint],
    )  # fmt: skip
    np.testing.assert_allclose(found.x, np.ones(6), atol=1e-5)


def test_ipopt_problem() -> None:
    c: Any = lambda x: x[1:] * np.sin(x[:-1])  # noqa: E731
    problem = fg.sparse.IpoptProblem(rosenbrock, c, np.ones(5))
    x, v = np.random.default_rng(0).random(5), np.arange(4.0)
    rows, columns = problem.jacobianstructure()
    J = sparse.coo_array((problem.jacobian(x), (rows, columns)), shape=(4, 5)).toarray()
    np.testing.assert_allclose(J, fg.jacobian(c)(x))
    rows, columns = problem.hessianstructure()
    lower = sparse.coo_array((problem.hessian(x, v, 0.5), (rows, columns)), shape=(5, 5)).toarray()
    want = fg.hessian(lambda x: 0.5 * rosenbrock(x) + v @ c(x))(x)
    np.testing.assert_allclose(lower, np.tril(want), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(problem.gradient(x), fg.grad(rosenbrock)(x))
    free = fg.sparse.IpoptProblem(rosenbrock, None, np.ones(5))
    assert free.hessian(x, np.zeros(0), 1.0).shape == free.hessianstructure()[0].shape


# --- errors ---------------------------------------------------------------------------------------


def test_dense_patterns_name_the_operation_and_its_line() -> None:
    J = fg.sparse.jacobian(lambda x: np.linalg.inv(np.reshape(x, (4, 4)) + np.eye(4)))
    with pytest.warns(fg.sparse.DensePatternWarning, match="256 of 256 entries") as seen:
        J(np.zeros(16))
    assert "test_sparse_derivatives.py" in str(seen[0].message)


def test_patterns_beyond_the_limit_are_refused() -> None:
    size = int(np.sqrt(LIMIT)) + 10
    with pytest.raises(ArgumentError, match="sparsity pattern needs"):
        fg.sparse.jacobian_pattern(lambda x: np.ones((size, 1)) * np.sum(x), np.zeros(size))


def test_a_given_pattern() -> None:
    x = np.arange(1.0, 5.0)
    full = fg.sparse.jacobian(np.cumsum, pattern=np.tril(np.ones((4, 4))), check=True)
    np.testing.assert_allclose(full(x).toarray(), np.tril(np.ones((4, 4))))
    narrow = fg.sparse.jacobian(np.cumsum, pattern=np.eye(4), check=True)
    with pytest.raises(ArgumentError, match="too narrow"):
        narrow(x)
    with pytest.raises(ArgumentError, match=r"shape \(3, 3\), but the matrix has \(4, 4\)"):
        fg.sparse.jacobian(np.cumsum, pattern=np.eye(3))(x)
    with pytest.raises(ArgumentError, match="too narrow"):
        fg.sparse.hessian(rosenbrock, pattern=np.eye(4), check=True)(x)


@pytest.mark.parametrize(
    ("f", "x", "error", "words"),
    [
        (lambda x: x if x[0] > 0 else -x, np.ones(2), AbstractBooleanError, "x"),
        (lambda x: x[x > 0], np.ones(2), fg.errors.FungradError, "mask"),
        (np.sin, np.ones(2) * 1j, ArgumentError, "real inputs"),
        (lambda x: x * 1j, np.ones(2), ArgumentError, "real outputs"),
        (np.sin, np.arange(3), fg.errors.NonDifferentiableInputError, "x"),
    ],
)
def test_refused_functions(
    f: Callable[..., Any], x: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        fg.sparse.jacobian(f)(x)


def test_other_refusals() -> None:
    with pytest.raises(ArgumentError, match="one real number"):
        fg.sparse.hessian(np.sin)(np.ones(2))
    with pytest.raises(ArgumentError, match="mode='sideways'"):
        fg.sparse.jacobian(np.sin, mode="sideways")
    with pytest.raises(AbstractValueError, match="cannot be part of a traced function"):
        fg.jit(lambda x: fg.sparse.jacobian(np.sin)(x))(np.ones(2))


# --- repeated calls -------------------------------------------------------------------------------


def chained(z, weights, power=2):
    """Products of neighbours; a sum by an index array."""
    return weights * z[1:] ** power * z[:-1] + z[np.array([0, 0, 1, 2])] * z[2]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, ">f8"])
@pytest.mark.parametrize("small", [True, False])
def test_repeated_calls_agree_with_the_dense_derivative(monkeypatch, small, dtype):
    if not small:
        monkeypatch.setattr(compressed.costs, "small_array", 0)
    rng = np.random.default_rng(0)
    J = fg.sparse.jacobian(chained)
    H = fg.sparse.hessian(lambda z, w: np.sum(chained(z, w) ** 2))
    dense = fg.hessian(lambda z, w: np.sum(chained(z, w) ** 2))
    for power in (2, 3, 2, 2):  # numbers that are no floats are constants of a plan
        z, weights = rng.normal(size=5).astype(dtype), rng.normal(size=4).astype(dtype)
        rest = 1e-5 if dtype is np.float32 else 1e-12
        for found, wanted in (
            (J(z, weights, power), fg.jacobian(chained)(z, weights, power)),
            (J(z, weights), fg.jacobian(chained)(z, weights)),
            (J(z, weights=weights), fg.jacobian(chained)(z, weights)),
            (H(z, weights), dense(z, weights)),
        ):
            assert found.has_canonical_format and found.dtype == wanted.dtype
            np.testing.assert_allclose(found.toarray(), wanted, rtol=rest, atol=rest)
            found.data[:], found.indices[:], found.indptr[:] = 7.0, 0, 0  # the caller owns it
