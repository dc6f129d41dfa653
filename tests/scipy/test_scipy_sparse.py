"""Sparse matrices of SciPy with traced data: operations, equations, eigenvalues, whole jobs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sparse_linalg
from scipy.sparse.linalg import spsolve

import fungrad as fg
from fungrad.errors import UnsupportedArgumentError
from fungrad.scipy.sparse.linalg import Structure

ROW, COLUMN = np.array([0, 1, 2, 0, 3, 1]), np.array([0, 1, 2, 2, 1, 1])  # one of them twice
DATA = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
X = np.array([1.0, -2.0, 3.0, 0.5])
PAIR = np.arange(8.0).reshape(4, 2) + 0.3
PLAIN = sp.csr_array(np.array([[1.0, 0, 2, 0], [0, 3, 0, 0], [4, 0, 5, 0], [0, 0, 0, 6]]))
FORMATS = (sp.csr_array, sp.coo_array, sp.csc_matrix, sp.csr_matrix, sp.coo_matrix)


def with_data(matrix, data):
    matrix = matrix.copy()
    matrix.data = np.concatenate([data, matrix.data[2:] * data[0]])
    return matrix


def without_zeros(matrix):
    matrix = matrix.tocsr().copy()
    matrix.eliminate_zeros()
    return matrix


OPERATIONS = {
    "sum": lambda a: a.sum(),
    "sum of columns": lambda a: a.sum(axis=0),
    "sum of rows": lambda a: a.sum(axis=1),
    "mean": lambda a: a.mean(),
    "vector": lambda a: a @ X,
    "vectors": lambda a: a @ PAIR,
    "vector from the left": lambda a: X @ a,
    "vectors from the left": lambda a: PAIR.T @ a,
    "dot": lambda a: a.dot(X),
    "transpose": lambda a: a.T @ X,
    "conjugate": lambda a: a.conj().T @ X,
    "toarray": lambda a: a.toarray() ** 2,
    "plus a plain one": lambda a: (a + PLAIN) @ X,
    "plus its transpose": lambda a: (a + a.T).toarray() * PAIR[:, :1],
    "plus a dense one": lambda a: a + np.ones((4, 4)),
    "minus": lambda a: (PLAIN - a) @ X,
    "identity minus": lambda a: (sp.identity(4) - a) @ X,
    "times a number": lambda a: (2.5 * a / 3.0) @ X,
    "negative": lambda a: (-a) @ X,
    "absolute": lambda a: abs(a) @ X,
    "power": lambda a: a.power(2) @ X,
    "sqrt": lambda a: a.tocsr().sqrt() @ X,
    "product": lambda a: (a @ a) @ X,
    "product with a plain one": lambda a: (PLAIN @ a.T) @ X,
    "elementwise": lambda a: a.multiply(a) @ X,
    "elementwise with a plain one": lambda a: a.multiply(PLAIN) @ X,
    "elementwise with a dense one": lambda a: a.multiply(X[:, None]) @ X,
    "maximum": lambda a: a.maximum(PLAIN) @ X,
    "rows": lambda a: a.tocsr()[[0, 3, 1]] @ X,
    "a slice of rows": lambda a: a.tocsr()[1:3] @ X,
    "columns": lambda a: a.tocsr()[:, [2, 1]] @ X[:2],
    "rows and columns": lambda a: a.tocsc()[[0, 1]][:, [1, 2]] @ X[:2],
    "one element": lambda a: a.tocsr()[0, 2] ** 2,
    "csc": lambda a: a.tocsc() @ X,
    "coo": lambda a: a.tocoo() @ X,
    "dia": lambda a: a.todia() @ X,
    "bsr": lambda a: a.tobsr((2, 2)) @ X,
    "reshape": lambda a: a.reshape((2, 8)) @ np.r_[X, X],
    "diagonal": lambda a: a.diagonal(),
    "triu": lambda a: sp.triu(a) @ X,
    "tril": lambda a: sp.tril(a.tocsr(), k=-1) @ X,
    "bmat": lambda a: sp.bmat([[a, PLAIN], [None, a]]) @ np.r_[X, X],
    "block_diag": lambda a: sp.block_diag([a, PLAIN]) @ np.r_[X, X],
    "hstack": lambda a: sp.hstack([a.tocsr(), PLAIN, a.tocsr()]).tocsr() @ np.r_[X, X, X],
    "vstack": lambda a: sp.vstack([a, PLAIN]) @ X,
    "kron": lambda a: sp.kron(sp.eye(2), a) @ np.r_[X, X],
    "kron of two": lambda a: sp.kron(a, PLAIN) @ np.ones(16),
    "diags": lambda a: (sp.diags(a.diagonal()) @ a @ sp.diags(X)) @ X,
    "data set": lambda a: with_data(PLAIN, a.tocsr().data[:2]) @ X,
    "zeros dropped": lambda a: without_zeros(a) @ X,
}
OF_VECTORS = {
    "plain @ x": lambda x: PLAIN @ x,
    "x @ plain": lambda x: x @ PLAIN,
    "plain.T @ x": lambda x: PLAIN.T @ x,
    "plain @ pair": lambda x: PLAIN @ np.stack([x, x * x], 1),
    "plain * x": lambda x: sp.csr_matrix(PLAIN) * x,
    "number * plain": lambda x: (x[0] * PLAIN) @ x,
    "multiply": lambda x: PLAIN.multiply(x) @ x,
    "diags": lambda x: sp.diags([x[:3], x, 2.0 * x[1:]], [-1, 0, 1]) @ x,
    "diags_array": lambda x: sp.diags_array(x) @ PLAIN @ x,
    "spdiags": lambda x: sp.spdiags(np.stack([x, x]), [0, 1], 4, 4) @ x,
    "a sum": lambda x: PLAIN + sp.diags(x),
    "of a dense one": lambda x: sp.csr_matrix(np.outer(x, x)) @ x,
    "blocks": lambda x: sp.bsr_matrix(
        (np.stack([np.outer(x[:2], x[2:])] * 2), np.array([0, 1]), np.array([0, 1, 2])), (4, 4)
    ) @ x,
}  # fmt: skip


def total(value):
    return np.sum(np.sin(value.toarray() if sp.issparse(value) else np.asarray(value)))


def differences(f, x, step=1e-6):
    steps = step * np.eye(len(x))
    return np.array([(f(x + e) - f(x - e)) / (2 * step) for e in steps])


def agrees(f, x, batched=True):
    found, slope = fg.value_and_grad(f)(x)
    wanted = differences(f, x)
    np.testing.assert_allclose(found, f(x), rtol=1e-12)
    np.testing.assert_allclose(slope, wanted, atol=2e-5, rtol=1e-6)
    if batched:
        compiled = fg.jit(fg.grad(f))
        np.testing.assert_allclose(compiled(x), slope, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(compiled(x * 1.1), fg.grad(f)(x * 1.1), rtol=1e-10, atol=1e-10)
        pair = fg.vmap(fg.grad(f))(np.stack([x * 1.1, x]))
        np.testing.assert_allclose(pair[1], slope, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(fg.jvp(f, (x,), (x,))[1], slope @ x, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", OPERATIONS)
def test_matrices_of_traced_data(name):
    for i, kind in enumerate(FORMATS):

        def f(data, kind=kind):
            return total(OPERATIONS[name](kind((data, (ROW, COLUMN)), shape=(4, 4))))

        agrees(f, DATA, batched=i == 0)


@pytest.mark.parametrize("name", OF_VECTORS)
def test_plain_matrices_and_traced_vectors(name):
    agrees(lambda x: total(OF_VECTORS[name](x)), X)


def test_nothing_of_scipy_is_replaced_after_a_trace():
    before = dict(vars(sp._csr)), dict(vars(sp._base._spbase)), sp._sputils.asmatrix
    agrees(lambda x: total(PLAIN @ x), X, batched=False)
    assert (dict(vars(sp._csr)), dict(vars(sp._base._spbase)), sp._sputils.asmatrix) == before
    assert isinstance(sp.csr_matrix(PLAIN).sum(axis=0), np.matrix)


# --- equations --------------------------------------------------------------------------------

N = 6
D, B = np.linspace(1.0, 2.0, N), np.arange(1.0, N + 1)


def three(d):
    return sp.diags([d * 4, -d[1:], -d[:-1]], [0, 1, -1]).tocsr()


FIXED = three(D)
SOLVERS = {
    "spsolve": lambda d: spsolve(three(d), B * d),
    "spsolve of csc": lambda d: spsolve(three(d).tocsc(), B),
    "spsolve of a plain matrix": lambda d: spsolve(FIXED, d * d),
    "spsolve of columns": lambda d: spsolve(three(d), np.stack([d, B], 1)),
    "splu": lambda d: sparse_linalg.splu(three(d).tocsc()).solve(B * d),
    "splu, transposed": lambda d: sparse_linalg.splu(three(d).tocsc()).solve(d, "T"),
    "splu of a plain matrix": lambda d: sparse_linalg.splu(FIXED.tocsc()).solve(d),
    "factorized": lambda d: sparse_linalg.factorized(three(d).tocsc())(d),
    "cg": lambda d: sparse_linalg.cg(three(d), B * d, rtol=1e-13)[0],
    "cg of a plain matrix": lambda d: sparse_linalg.cg(FIXED, d, rtol=1e-13)[0],
    "gmres": lambda d: sparse_linalg.gmres(three(d), B, rtol=1e-13)[0],
    "norm": lambda d: sparse_linalg.norm(three(d)),
    "eigsh": lambda d: sparse_linalg.eigsh(
        three(d) + three(d).T, k=2, v0=np.ones(N), return_eigenvectors=False
    ),
    "eigsh's vectors": lambda d: sparse_linalg.eigsh(
        three(d) + three(d).T, k=2, which="SA", v0=np.ones(N)
    )[1] ** 2,
    "eigsh with a mass": lambda d: sparse_linalg.eigsh(
        three(d) + three(d).T, k=1, M=sp.diags(d).tocsc(), sigma=0, v0=np.ones(N)
    )[0],
}  # fmt: skip


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers(name):
    def f(d):
        return total(SOLVERS[name](d))

    agrees(f, D)
    slope = fg.grad(f)
    np.testing.assert_allclose(fg.hessian(f)(D), differences(slope, D, 1e-5), atol=1e-5, rtol=1e-5)


def test_solvers_of_complex_matrices():
    def f(d):
        a = three(d).astype(complex) + 1j * sp.diags(d)
        return np.sum(np.abs(spsolve(a.tocsc(), B + 0j)) ** 2)

    agrees(f, D)


def test_what_solvers_refuse():
    operator = sparse_linalg.LinearOperator((N, N), matvec=lambda x: 2.0 * x)
    with pytest.raises(UnsupportedArgumentError, match="LinearOperator"):
        fg.grad(lambda d: total(sparse_linalg.cg(operator, d)[0]))(D)
    with pytest.raises(UnsupportedArgumentError, match="callback="):
        fg.grad(lambda d: total(sparse_linalg.cg(FIXED, d, callback=print)[0]))(D)


def test_one_factorisation_for_a_value_and_its_gradient(monkeypatch):
    count = []
    matrix = Structure.matrix
    monkeypatch.setattr(Structure, "matrix", lambda s, data: count.append(1) or matrix(s, data))
    fg.grad(lambda d: total(spsolve(three(d), B)))(D)
    assert len(count) == 1


# --- whole jobs -------------------------------------------------------------------------------


def test_finite_elements():
    """Heat through an insulated rod of 200 elements, with a conductivity for each."""
    count = 200
    nodes = np.linspace(0.0, 1.0, count + 1)
    length = np.diff(nodes)
    left = np.arange(count)
    rows = np.stack([left, left, left + 1, left + 1])
    columns = np.stack([left, left + 1, left, left + 1])
    signs = np.array([1.0, -1.0, -1.0, 1.0])[:, None]

    def compliance(conductivity):
        entries = signs * (conductivity / length)
        stiffness = sp.coo_matrix((entries.ravel(), (rows.ravel(), columns.ravel()))).tocsr()
        load = np.zeros(count + 1)
        load[:-1] += length / 2
        load[1:] += length / 2
        free = np.arange(1, count + 1)
        heat = np.zeros(count + 1)
        heat[free] = spsolve(stiffness[free][:, free], load[free])
        return load @ heat

    k = 1.0 + 0.3 * np.sin(7.0 * nodes[1:])
    value, slope = fg.value_and_grad(compliance)(k)
    np.testing.assert_allclose(value, compliance(k), rtol=1e-12)
    for i in (0, 77, 199):
        e = np.zeros(count)
        e[i] = 1e-5
        wanted = (compliance(k + e) - compliance(k - e)) / 2e-5
        np.testing.assert_allclose(slope[i], wanted, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(fg.jit(fg.grad(compliance))(k), slope, rtol=1e-9)


def test_power_flow():
    """Newton's method for the voltages of a network of three buses, as PYPOWER does it."""
    start, end = np.array([0, 0, 1]), np.array([1, 2, 2])

    def voltages(reactance, power):
        y = 1.0 / (0.02 + 1j * reactance)
        lines = np.arange(3)
        from_ = sp.csr_matrix((np.ones(3), (lines, start)), (3, 3))
        to = sp.csr_matrix((np.ones(3), (lines, end)), (3, 3))
        incidence = from_ - to
        bus = incidence.T @ sp.diags(y) @ incidence
        angle = np.zeros(3)
        for _ in range(5):
            v = np.exp(1j * angle)
            injected = v * np.conj(bus @ v)
            slope = (
                1j * sp.diags(v) @ (sp.diags(np.conj(bus @ v)) - bus.conj() @ sp.diags(np.conj(v)))
            )
            miss = np.real(injected)[1:] - power
            step = spsolve(slope.tocsr()[1:][:, 1:].real.tocsc(), miss)
            angle = angle - np.concatenate([np.zeros(1), step])
        return angle

    x, p = np.array([0.1, 0.2, 0.15]), np.array([-0.5, 0.3])
    agrees(lambda x: np.sum(voltages(x, p) ** 2), x)
    agrees(lambda p: np.sum(voltages(x, p) ** 2), p)


def test_diagonals_whose_zeros_scipy_leaves_out():
    def f(x):
        return np.sum((sp.spdiags(x, 0, 4, 4, format="csr") @ np.ones(4)) ** 2)

    agrees(f, X)
    compiled = fg.jit(fg.grad(f))
    for x in (X, np.array([1.0, 0.0, 2.0, 3.0])):  # a second program, of other places
        np.testing.assert_allclose(compiled(x), 2 * x)
