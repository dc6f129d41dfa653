"""Matrices with nonzero diagonals only: the computed entries, and equal numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fungrad as fg
from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.diagonals import (
    COLUMNS,
    ROWS,
    Diagonal,
    Diagonals,
    Progression,
    steps_of,
)
from fungrad.compiler.passes.pipeline import optimised
from fungrad.extend import linear
from fungrad.primitives.facts import straight, whole
from fungrad.primitives.movement.static_index import Index, selected
from fungrad.testing import programs

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

RNG = np.random.default_rng(0)
W = RNG.normal(size=(7, 60))
X = RNG.normal(size=60)
PAIR = RNG.normal(size=(8, 7))


@pytest.fixture
def everywhere(monkeypatch):
    """Small matrices become diagonals, too, and those of many diagonals."""
    monkeypatch.setattr(costs, "basis", 1)
    monkeypatch.setattr(costs, "diagonal", 0)


turned = linear(
    "turned", eval=lambda x: np.swapaxes(x, -1, -2), type=lambda x: x,
    transpose=lambda ct, x: turned(ct), batch=lambda args, batched, size: turned(args[0]),
    sections=lambda e: [whole(e, (*straight(e.inputs[0].type.ndim)[:-2],
                                  *straight(e.inputs[0].type.ndim)[:-3:-1]))],
)  # fmt: skip
"""The transpose of square matrices, declared by somebody else."""

VECTORS = {
    "turned elsewhere": lambda x: turned(np.reshape(x[:36] * x[24:], (6, 6))) ** 2,
    "elementwise": lambda x: np.sin(x) * x / (2.0 + x**2) - x,
    "slices": lambda x: x[2:] - 2.0 * x[1:-1] + x[:-2] + np.exp(x[1:-1]),
    "steps": lambda x: np.tanh(x[::3]) * x[1::3],
    "backwards": lambda x: x[::-1] * np.cos(x),
    "one element": lambda x: x[5] * x + x[-1],
    "none": lambda x: x[3:3] * 2.0,
    "choice": lambda x: np.where(x > 0.0, x**2, 0.1 * x),
    "relu": lambda x: np.maximum(x, 0.0) * 3.0,
    "numbers": lambda x: (x * 2.0 - 1.0) / 4.0,
    "periodic": lambda x: np.concatenate([x[-1:], x, x[:1]])[2:] - np.sin(x),
    "rolled": lambda x: np.roll(x, 2) * x + np.roll(x, -1) - np.roll(x, 60),
    "rolled grid": lambda x: np.roll(np.reshape(x, (6, 10)), (1, 2), (0, 1)) ** 2,
    "rolled rows": lambda x: np.roll(np.reshape(x, (6, 10)), -2, 0) ** 2,
    "flipped rows": lambda x: np.flip(np.reshape(x, (6, 10)), 0) ** 2,
    "broadcast": lambda x: np.broadcast_to(x, (3, 60)) * 2.0,
    "on a diagonal": lambda x: np.diagonal(np.reshape(x[:36], (6, 6))) ** 2,
    "written": lambda x: fg.numpy.at(x * x)[1:4].set(x[3:6]),
    "added": lambda x: fg.numpy.at(x * x)[1:4].add(x[3:6]),
    "padded": lambda x: np.pad(x, (2, 3)) * np.arange(65.0),
    "square": lambda x: np.reshape(x, (6, 10)).T * np.arange(6.0),
    "rows of a matrix": lambda x: np.reshape(x, (6, 10))[2] * 2.0,
    "inner product": lambda x: W @ np.tanh(x),
    "layer": lambda x: np.tanh(W @ (x * 2.0)),
    "from the right": lambda x: (x**2) @ W.T,
    "slice of a product": lambda x: W[:, 1:] @ (x[1:] * x[:-1]),
    "sum": lambda x: np.sum(x**3, keepdims=True) * x,
    "sums of parts": lambda x: np.sum(np.reshape(x, (6, 10)) ** 2, 1),
    "stacked": lambda x: np.stack([x, x**2]),
    "cumulative": lambda x: np.cumsum(x * x),
    "beside a dense one": lambda x: np.cumsum(x) - x * x,
    "onto a dense one": lambda x: np.cos(x) * 3.0 + x * np.sum(x * x),
    "twice": lambda x: np.outer(x[:5], x[5:8]),
    "unlike dtypes": lambda x: x.astype(np.float32) * np.float64(2.0),
    "complex": lambda x: np.real(x * (1.0 + 2.0j)),
    "constant": lambda x: np.ones(3) * np.sum(x * 0.0),
}
NUMBERS = {
    "rosenbrock": lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2),
    "elementwise": lambda x: np.sum(np.sin(x) * np.exp(x)),
    "chain": lambda x: np.sum(np.cos(x[2:] - 2.0 * x[1:-1] + x[:-2])),
    "steps": lambda x: np.sum(x[::2] ** 2 * x[1::2] ** 3),
    "quadratic": lambda x: np.sum((x[1:] - x[:-1]) ** 2),
    "network": lambda x: np.sum(np.tanh(W @ x) ** 2) + np.sum(x**4),
    "grid": lambda x: np.sum(np.diff(np.reshape(x, (6, 10)), axis=0) ** 4),
    "outer": lambda x: np.sum(x) ** 2 + np.sum(x**2) * x[0],
}


@pytest.mark.parametrize("transform", [fg.jacfwd, fg.jacrev])
@pytest.mark.parametrize("name", VECTORS)
def test_jacobians(name, transform, everywhere):
    jacobian = transform(VECTORS[name])
    compiled = fg.jit(jacobian)
    found, expected = compiled(X), jacobian(X)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)
    assert found.dtype == expected.dtype
    fg.check_graph(compiled.lower(X).optimised)


@pytest.mark.parametrize("name", NUMBERS)
def test_hessians(name, everywhere):
    hessian = fg.hessian(NUMBERS[name])
    compiled = fg.jit(hessian)
    np.testing.assert_allclose(compiled(X), hessian(X), rtol=1e-13, atol=1e-13)
    third = fg.jacfwd(hessian)
    short = X[:12] if name != "network" and name != "grid" else None
    if short is not None:
        np.testing.assert_allclose(fg.jit(third)(short), third(short), rtol=1e-12, atol=1e-12)
        rows = np.stack([short, -short])
        np.testing.assert_allclose(
            fg.jit(fg.vmap(hessian))(rows), np.stack([hessian(r) for r in rows]), rtol=1e-12,
            atol=1e-12,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble])
def test_dtypes(dtype, everywhere):
    hessian = fg.hessian(NUMBERS["rosenbrock"])
    found = fg.jit(hessian)(X.astype(dtype))
    assert found.dtype == dtype
    tolerance = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(found, hessian(X.astype(dtype)), rtol=tolerance, atol=tolerance)


def test_a_sum_of_two_dtypes_is_as_exact_as_the_wider(everywhere):
    x = X.astype(np.float32)

    def f(x):
        return (x.astype(np.float64) * X + np.roll(x, 1)) * X.astype(np.float32)

    for transform in (fg.jacfwd, fg.jacrev):
        jacobian = transform(lambda x: f(x) * np.float32(1.1))
        np.testing.assert_allclose(fg.jit(jacobian)(x), jacobian(x), rtol=1e-15, atol=1e-15)


def test_a_holomorphic_function(everywhere):
    z = X[:9] + 1j * X[9:18]
    jacobian = fg.jacfwd(lambda z: np.exp(z) * z[::-1], holomorphic=True)
    np.testing.assert_allclose(fg.jit(jacobian)(z), jacobian(z), rtol=1e-14)


def test_diagonals_that_fall_together_are_added(everywhere):
    def f(x, y):
        return np.tanh(np.sin(y[None]) + y) * x

    jacobian = fg.jacfwd(f, (0, 1))
    args = np.float64(0.3), np.array([0.55])
    for found, expected in zip(fg.jit(jacobian)(*args), jacobian(*args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-15)
    lapped = fg.jacfwd(lambda x: (np.pad(x[:8], (0, 4)) + np.sin(x[:12]))[:5])
    np.testing.assert_allclose(fg.jit(lapped)(X), lapped(X), rtol=1e-15)


def test_diagonals_that_are_read_twice(everywhere):
    def root(a):
        step = lambda s: (s[0] - (s[0] * s[0] - a) / (2.0 * s[0]), s[1] + 1)  # noqa: E731
        return fg.lax.while_loop(lambda s: s[1] < 5, step, (a, 0))[0]

    for transform in (fg.jacfwd, fg.jacrev):
        for f in (lambda x: (x, x), root) if transform is fg.jacfwd else (lambda x: (x, x),):
            jacobian = transform(f)
            found, expected = fg.jit(jacobian)(X[:9] ** 2 + 1.0), jacobian(X[:9] ** 2 + 1.0)
            np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_several_arguments(everywhere):
    def f(x, y):
        return np.sum(x[1:] * y[:-1] ** 2 + np.sin(x[:-1])) + np.sum(PAIR @ x * y[0])

    hessian = fg.hessian(f, (0, 1))
    x, y = X[:7], X[7:14]
    for row, expected in zip(fg.jit(hessian)(x, y), hessian(x, y), strict=True):
        for block, other in zip(row, expected, strict=True):
            np.testing.assert_allclose(block, other, rtol=1e-13, atol=1e-13)


@pytest.mark.slow
@given(programs(scalar=False, max_steps=6))
@settings(max_examples=40)
def test_random_programs(program):
    before = costs.basis, costs.diagonal
    costs.basis, costs.diagonal = 1, 0
    try:
        argnums = tuple(range(len(program.args)))
        for transform in (fg.jacfwd, fg.jacrev):
            jacobian = transform(program, argnums)
            found, expected = fg.jit(jacobian)(*program.args), jacobian(*program.args)
            for block, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(block, other, rtol=1e-9, atol=1e-9)
    finally:
        costs.basis, costs.diagonal = before


def largest(jacobian, *args):
    """The primitives that make arrays as large as the result."""
    graph = optimised(fg.make_jaxpr(jacobian)(*args))
    size = max(v.type.size for v in graph.outputs)
    return [e.primitive.name for e in graph.equations if e.outputs[0].type.size >= size]


def test_only_diagonals_are_computed():
    x = np.linspace(0.0, 1.0, 200)
    for transform in (fg.jacfwd, fg.jacrev):
        assert largest(transform(VECTORS["elementwise"]), x) == ["scatter", "reshape"]
    assert largest(fg.hessian(NUMBERS["rosenbrock"]), x) == [
        "scatter", "index_add", "index_add", "index_add", "reshape",
    ]  # fmt: skip
    weights = RNG.normal(size=(150, 200))
    names = largest(fg.jacfwd(lambda x: np.tanh(weights @ x)), x)
    assert "dot_general" not in names and names.count("mul") <= 1


def test_what_does_not_pay_is_left():
    assert "scatter" not in largest(fg.jacfwd(VECTORS["elementwise"]), X[:9])
    many = largest(fg.jacfwd(lambda x: sum(np.sin(np.roll(x, i)) for i in range(9))), X)
    assert many.count("scatter") == 1 and many.count("reshape") < 18


def test_an_infinity_spoils_no_other_column():
    x = np.linspace(1.0, 2.0, 60)
    x[7] = np.inf
    found = fg.jit(fg.jacfwd(lambda x: x * x))(x)
    expected = np.diag(2.0 * x)
    np.testing.assert_array_equal(found, expected)


def test_inside_loops(everywhere):
    def step(y, _):
        slopes = fg.jacfwd(lambda y: np.sin(y) * y[::-1])(y)
        return y - np.linalg.solve(slopes + 10.0 * np.eye(len(y)), np.cos(y)), None

    def last(y):
        return fg.lax.scan(step, y, None, length=4)[0]

    np.testing.assert_allclose(fg.jit(last)(X[:9]), last(X[:9]), rtol=1e-13)
    gradient = fg.grad(lambda y: np.sum(last(y) ** 2))
    np.testing.assert_allclose(fg.jit(gradient)(X[:9]), gradient(X[:9]), rtol=1e-11)


# --- diagonals ------------------------------------------------------------------------------------

SIDE = st.integers(1, 7)
ENTRY = st.one_of(
    st.integers(-1, 0),
    st.builds(
        slice,
        st.one_of(st.none(), st.integers(-8, 8)),
        st.one_of(st.none(), st.integers(-8, 8)),
        st.sampled_from([None, 1, 2, 3, -1, -2]),
    ),
)


@pytest.mark.slow
@given(st.lists(SIDE, min_size=1, max_size=3), st.data())
@settings(max_examples=300)
def test_steps_are_what_numpy_reads(lengths, data):
    entries = [data.draw(ENTRY) for _ in lengths]
    whole = np.arange(np.prod(lengths)).reshape(lengths)
    read = np.ravel(whole[tuple(entries)])
    ranges, _ = selected(Index(tuple(entries)), tuple(lengths))
    steps = steps_of(lengths, ranges)
    if steps is not None:
        np.testing.assert_array_equal(steps.start + steps.step * np.arange(steps.length), read)
        if read.size:
            np.testing.assert_array_equal(np.ravel(whole)[steps.slice()], read)
    else:
        assert len(lengths) > 1 and read.size != 1


DIAGONAL = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(-3, 3), st.integers(-3, 3))


@pytest.mark.slow
@given(DIAGONAL, st.integers(1, 6), ENTRY, st.sampled_from([ROWS, COLUMNS]))
@settings(max_examples=300)
def test_a_diagonal_is_cut_as_numpy_cuts_it(places, count, entry, side):
    row, column, down, right = places
    rows, columns = row + down * np.arange(count), column + right * np.arange(count)
    if (down, right) == (0, 0) or min(rows.min(), columns.min()) < 0:
        return
    shape = int(rows.max()) + 1, int(columns.max()) + 2
    matrix = np.zeros(shape)
    matrix[rows, columns] = values = np.arange(1.0, count + 1.0)
    steps = steps_of(shape[side:][:1], selected(Index((entry,)), shape[side:][:1])[0])
    assert steps is not None
    if isinstance(entry, int):
        entry = slice(entry, entry + 1 or None)
    expected = matrix[:, entry] if side else matrix[entry]
    if not expected.size:
        return
    diagonal = Diagonal(Progression(row, down, count), Progression(column, right, count))
    found = diagonal.cut(side, steps)
    left = np.zeros(expected.size)
    if found is not None:
        diagonal, kept = found
        left[diagonal.flat(expected.shape[1]).slice()] = values[kept.slice()]
    np.testing.assert_array_equal(left.reshape(expected.shape), expected)
    if found is not None:
        back = np.zeros(matrix.size)
        back[diagonal.moved(side, steps).flat(shape[1]).slice()] = values[kept.slice()]
        other = np.zeros(shape)
        other[(slice(None), entry) if side else entry] = expected
        np.testing.assert_array_equal(back.reshape(shape), other)


def test_shapes():
    diagonal = Diagonal(Progression(0, 1, 6), Progression(0, 1, 6))
    diagonals = Diagonals((6, 2, 3), 6, 6, np.dtype(float), {diagonal: None})
    assert diagonals.split == 1
    assert diagonals.reshaped((2, 3, 6)).split == 2
    assert diagonals.reshaped((4, 9)) is None
    turned = diagonals.transposed((1, 2, 0), (2, 3, 6))
    assert (turned.rows, turned.columns, turned.split) == (6, 6, 2)
    assert diagonals.transposed((1, 0, 2), (2, 6, 3)) is None
    assert diagonals.sides((0,)) == (True, False)
    assert diagonals.sides((1, 2)) == (False, True)
    assert diagonals.sides((1,)) is None


def test_what_has_no_output_stays_in_a_jacobian(capsys):
    def f(x):
        fg.debug.print("first {}", x[0])
        return np.sin(x) * x

    np.testing.assert_allclose(
        fg.jit(fg.jacfwd(f))(X), np.diag(np.sin(X) + X * np.cos(X)), rtol=1e-14, atol=1e-14
    )
    assert capsys.readouterr().out == f"first {X[0]}\n"


BESIDE = {
    "a difference": lambda x: fg.jacfwd(np.sin)(x) - fg.jacfwd(np.tanh)(x),
    "numbers over it": lambda x: 2.0 / fg.jacfwd(np.exp)(x),
    "a product from the left": lambda x: W @ fg.jacfwd(np.sin)(x),
    "a product from the right": lambda x: fg.jacfwd(np.sin)(x) @ W.T,
}


@pytest.mark.parametrize("name", BESIDE)
def test_functions_of_a_jacobian(name):
    f = BESIDE[name]
    np.testing.assert_allclose(fg.jit(f)(X), f(X), rtol=1e-14)
