"""Products of arrays: NumPy's numbers and dtypes, and derivatives, under every transform."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from surface import agrees, same, values

import fungrad as fg
from fungrad.primitives.contraction.dot_general import _matrix, dot_general, multilinear
from fungrad.primitives.elementwise.family import mul

F32, F64, C128, I64 = np.float32, np.float64, np.complex128, np.int64

MATMUL = [
    ((3,), (3,)), ((2, 3), (3,)), ((2,), (2, 3)), ((2, 3), (3, 4)), ((1, 1), (1, 1)),
    ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (1, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)),
    ((6, 5, 2, 3), (6, 5, 3, 4)), ((2, 0), (0, 3)), ((0, 2), (2, 3)), ((2, 1, 0), (0, 3)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", MATMUL)
@pytest.mark.parametrize("dtypes", [(F64, F64), (F32, F64), (C128, F64), (C128, C128)])
def test_matmul(shapes, dtypes):
    x, y = (values(s, d, i) for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True)))
    agrees(np.matmul, x, y, order=2 if dtypes == (F64, F64) else 1)


@pytest.mark.parametrize(
    "dtypes", [(I64, F64), (F32, F32), (np.int8, np.int8), (bool, bool), (I64, np.int32)]
)
def test_matmul_dtypes(dtypes):
    for shapes in (((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((2, 2, 3), (3,)), ((3,), (3,))):
        x, y = (values(s, d, i) for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True)))
        agrees(np.matmul, x, y, order=1)
        agrees(lambda x, y: x @ y, x, y, order=0)


def test_the_operator_with_arrays_on_either_side():
    a = values((3, 3))
    agrees(lambda x: a @ x @ a, values((3, 3), seed=1))
    agrees(lambda x: [[1.0, 2.0, 3.0]] @ x, values((3, 2)))
    agrees(lambda x: x @ [1.0, 2.0], values((3, 2)))


DOT = [
    ((), (3,)), ((3,), ()), ((), ()), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3,
    4)),
    ((2, 5, 3), (3,)), ((2, 5, 3), (4, 3, 2)), ((3,), (4, 3, 2)), ((2, 3), (4, 3, 2)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", DOT)
def test_dot(shapes):
    for dtypes in ((F64, F64), (F32, F64), (C128, F64)):
        x, y = (values(s, d, i) for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True)))
        agrees(np.dot, x, y, order=2 if dtypes == (F64, F64) else 1)


INNER = [
    ((), (3,)),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (2, 3)),
    ((2, 3), (4, 3)),
    ((2, 1, 3), (4, 3)),
]


@pytest.mark.parametrize("shapes", INNER)
def test_inner_and_outer_and_vdot(shapes):
    for dtype in (F64, C128):
        x, y = (values(s, dtype, i) for i, s in enumerate(shapes))
        agrees(np.inner, x, y, order=1)
        agrees(np.outer, x, y, order=1)
        if x.size == y.size:
            agrees(np.vdot, x, y, order=1 + (dtype is F64))


TENSORDOT = [
    ((2, 3), (3, 4), 1), ((2, 3, 4), (3, 4, 5), 2), ((2, 3), (4,), 0), ((2, 3), (2, 3), 2),
    ((2, 3, 4), (4, 3, 5), ([1, 2], [1, 0])), ((2, 3, 4), (4, 3, 5), ((2, 1), (0, 1))),
    ((2, 3, 2), (3, 2, 2), ([0, 1], [1, 0])), ((2, 3), (3, 2), ([0, 1], [1, 0])),
    ((4, 2), (3, 2), (-1, -1)), ((), (3,), 0), ((3, 2, 4), (4, 2, 3), ([0, 2], [2, 0])),
]  # fmt: skip


@pytest.mark.parametrize("left,right,axes", TENSORDOT)
def test_tensordot(left, right, axes):
    for dtype in (F64, C128):
        x, y = values(left, dtype), values(right, dtype, 1)
        agrees(lambda x, y: np.tensordot(x, y, axes), x, y, order=1 + (dtype is F64))


def test_kron_and_trace():
    for left, right in (
        ((2, 3), (4, 5)),
        ((2,), (3,)),
        ((2, 3), (2,)),
        ((2,), (2, 1, 2)),
        ((), (3,)),
    ):
        agrees(np.kron, values(left), values(right, seed=1))
    for k in (-2, 0, 1):
        agrees(lambda x, k=k: np.trace(x, k), values((3, 4)))
        agrees(lambda x, k=k: x.trace(k, 2, 0), values((3, 2, 4)))
    agrees(np.trace, values((3, 3), np.int8))
    agrees(lambda x: np.trace(x, dtype=np.float64), values((3, 3), F32), order=1)


@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors")
def test_cross():
    agrees(np.cross, values((3,)), values((3,), seed=1))
    agrees(np.cross, values((4, 3)), values((3,), seed=1))
    agrees(np.cross, values((2, 1, 3), C128), values((4, 3), seed=1), order=1)
    agrees(lambda x, y: np.cross(x, y, axis=0), values((3, 2)), values((3, 2), seed=1))
    agrees(lambda x, y: np.cross(x, y, 0, -1, 0), values((3, 2)), values((2, 3), seed=1))
    agrees(np.cross, values((3,), I64), values((3,), np.int8, 1))
    for left, right in ((2, 2), (2, 3), (3, 2)):
        if np.lib.NumpyVersion(np.__version__) >= "2.5.0":  # refuses two components
            with pytest.raises(ValueError, match="3-dimensional"):
                fg.vjp(np.cross, values((4, left)), values((4, right), seed=1))
            continue
        agrees(np.cross, values((4, left)), values((4, right), seed=1))
        with pytest.warns(DeprecationWarning, match="2-dimensional vectors"):
            fg.vjp(np.cross, values((4, left)), values((4, right), seed=1))
    agrees(lambda x: np.cross(x, [1, 2, 3]), values((4, 3), C128), order=1)
    with pytest.raises(ValueError, match="2 or 3"):
        fg.vjp(np.cross, values((4,)), values((4,)))
    with pytest.raises(ValueError, match="zero dimension"):
        fg.vjp(np.cross, 1.0, values((3,)))


@pytest.mark.parametrize("dtype", [F64, C128])
def test_the_products_of_vectors_and_matrices_in_stacks(dtype):
    for left, right in (((3,), (3,)), ((2, 3), (3,)), ((2, 1, 3), (4, 3))):
        agrees(np.vecdot, values(left, dtype), values(right, dtype, 1), order=1)
    agrees(
        lambda x, y: np.vecdot(x, y, axis=0),
        values((3, 2), dtype),
        values((3, 2), dtype, 1),
        order=1,
    )
    if not hasattr(np, "matvec"):
        return
    for left, right in (((2, 3), (3,)), ((2, 3), (4, 3)), ((4, 2, 3), (3,)), ((4, 2, 3), (4, 3))):
        agrees(np.matvec, values(left, dtype), values(right, dtype, 1), order=1)
    for left, right in (((2,), (2, 3)), ((4, 2), (2, 3)), ((2,), (4, 2, 3)), ((4, 2), (4, 2, 3))):
        agrees(np.vecmat, values(left, dtype), values(right, dtype, 1), order=1)


EINSUM = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij,kj->ik", (2, 3), (4, 3)),
    ("ji,jk->ik", (3, 2), (3, 4)), ("i,i", (3,), (3,)), ("i,j->ij", (3,), (2,)), ("ij,j->ij", (2,
    3), (3,)),
    ("ij,i->ij", (2, 3), (2,)), ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)), ("bij,bij->b", (2, 3, 4),
    (2, 3, 4)),
    ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)), ("ii", (3, 3)), ("ii->i", (3, 3)), ("iij->j", (3, 3,
    2)),
    ("ij->ji", (2, 3)), ("ba", (2, 3)), ("ij->", (2, 3)), ("ij->j", (2, 3)), ("...ij->...ji", (4,
    2, 3)),
    ("...i,...i", (2, 3), (2, 3)), ("...i,...i->...", (4, 1, 3), (2, 3)), ("i...,j...->ij...", (2,
    4), (3, 4)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("i,j,k->ijk", (2,), (3,), (2,)), ("ij,ij,ij->", (2, 3), (2, 3), (2, 3)), ("ij,j,j", (2, 3),
    (3,), (3,)),
    ("ijk,ik->kj", (2, 3, 4), (2, 4)), ("iij,jkk->ik", (2, 2, 3), (3, 4, 4)), ("ij,kl->", (2, 3),
    (3, 4)),
    ("ij,k->ik", (2, 3), (4,)), ("ij , jk -> i k", (2, 3), (3, 4)), (",ij->ij", (), (2, 3)), ("->",
    ()),
    ("iii", (2, 2, 2)), ("abcd,bd->ca", (2, 3, 4, 5), (3, 5)), ("ij,ij->ji", (2, 3), (2, 3)),
    ("...,...", (2, 3), (3,)), ("i...->...", (2, 3, 4)), ("ij,ij->ij", (1, 3), (2, 3)),
    ("ij,jk->ik", (2, 0), (0, 3)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
]  # fmt: skip


@pytest.mark.parametrize("text,shapes", [(e[0], e[1:]) for e in EINSUM])
def test_einsum(text, shapes):
    for dtype in (F64, C128):
        arrays = [values(s, dtype, i) for i, s in enumerate(shapes)]
        agrees(lambda *xs: np.einsum(text, *xs), *arrays, order=1 + (dtype is F64))
    for dtype in (F32, np.int8, bool):
        arrays = [values(s, dtype, i) for i, s in enumerate(shapes)]
        agrees(lambda *xs: np.einsum(text, *xs), *arrays, order=0, batch=False)


@pytest.mark.parametrize(
    "optimize",
    [
        False,
        True,
        "greedy",
        "optimal",
        ["einsum_path", (1, 2), (0, 1)],
        ["einsum_path", [0, 1, 2]],
        ("greedy", 1000),
    ],
)
def test_einsum_paths(optimize):
    arrays = [values(s, F64, i) for i, s in enumerate(((2, 3), (3, 4), (4, 2)))]
    agrees(lambda *xs: np.einsum("ij,jk,kl->il", *xs, optimize=optimize), *arrays)


def test_einsum_by_sublists():
    x, y = values((2, 3)), values((3, 4), seed=1)
    agrees(lambda x, y: np.einsum(x, [0, 1], y, [1, 2]), x, y)
    agrees(lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]), x, y)
    agrees(lambda x: np.einsum(x, [0, Ellipsis], [Ellipsis, 0]), x)
    agrees(lambda x: np.einsum(x, [27, 3]), x)
    agrees(
        lambda x, y: np.einsum("ij,jk->ik", x, y, dtype=np.float64), values((2, 3), F32), y, order=1
    )


@pytest.mark.parametrize("text,shapes", [
    ("ij,jk", ((2, 3), (4, 5))), ("ij", ((2, 3, 4),)), ("ij,jk", ((2, 3),)), ("ij->k", ((2, 3),)),
    ("ij->ii", ((2, 3),)), ("i2", ((2, 3),)), ("ijk", ((2, 3),)), ("ii", ((2, 3),)),
])  # fmt: skip
def test_einsum_refuses_what_numpy_refuses(text, shapes):
    arrays = [values(s) for s in shapes]
    with pytest.raises(ValueError):
        np.einsum(text, *arrays)
    with pytest.raises(ValueError):
        fg.make_jaxpr(lambda *xs: np.einsum(text, *xs))(*arrays)


@st.composite
def layouts(draw):
    """Two shapes and the axes of a dot_general between them, in any order."""
    labels = draw(st.permutations(range(4)))
    lengths = draw(st.lists(st.integers(0, 3), min_size=4, max_size=4))
    kinds = draw(st.lists(st.sampled_from(["x", "y", "contract", "batch"]), min_size=4, max_size=4))
    x = [i for i in labels if kinds[i] != "y"]
    y = draw(st.permutations([i for i in labels if kinds[i] != "x"]))
    pairs = {
        kind: [(x.index(i), y.index(i)) for i in labels if kinds[i] == kind]
        for kind in ("contract", "batch")
    }
    axes = {
        kind: (tuple(i for i, _ in pair), tuple(j for _, j in pair)) for kind, pair in pairs.items()
    }
    return tuple(lengths[i] for i in x), tuple(lengths[i] for i in y), axes


@pytest.mark.slow
@settings(max_examples=80)
@given(layouts(), st.sampled_from([F64, F32, C128, I64]))
def test_dot_general_of_any_layout(layout, dtype):
    left, right, axes = layout
    x, y = values(left, dtype), values(right, dtype, 1)
    names_x = [f"x{i}" for i in range(len(left))]
    names_y = [f"y{i}" for i in range(len(right))]
    for pair in axes.values():
        for i, j in zip(*pair, strict=True):
            names_y[j] = names_x[i]
    batch = [names_x[i] for i in axes["batch"][0]]
    both = {names_x[i] for pair in axes.values() for i in pair[0]}
    out = batch + [n for n in names_x if n not in both] + [n for n in names_y if n not in both]
    letters = {name: chr(97 + i) for i, name in enumerate(dict.fromkeys(names_x + names_y))}
    text = [("".join(letters[n] for n in names)) for names in (names_x, names_y, out)]
    expected = np.einsum(f"{text[0]},{text[1]}->{text[2]}", x, y)

    def f(x, y):
        return dot_general(x, y, **axes)

    same(f(x, y), expected, "dot_general")
    agrees(f, x, y, order=1)
    for axes_in in ((0, None), (None, 0)):  # agrees batches both
        many = [np.stack([a, a * 2]) if i == 0 else a for a, i in zip((x, y), axes_in, strict=True)]
        rows = np.stack([expected, expected * 2])
        same(fg.vmap(f, in_axes=axes_in)(*many), rows, f"vmap over {axes_in}")


@pytest.mark.parametrize("dtype", [F64, F32, C128, I64])
@pytest.mark.parametrize(("left", "right", "contract"), [
    ((9, 4, 8), (8, 9), ((2,), (0,))), ((9, 4, 8), (9, 8), ((2,), (1,))),
    ((9, 4, 8), (9, 4, 7), ((0, 1), (0, 1))), ((9, 4, 8), (9, 4, 7), ((1, 0), (1, 0))),
    ((9, 8), (3, 9, 8), ((0, 1), (1, 2))), ((9, 4, 8), (9, 4, 8), ((0, 1, 2), (0, 1, 2))),
    ((8, 9), (9, 4, 3), ((1,), (0,))), ((9,), (9, 8, 2), ((0,), (0,))),
    ((90,), (90,), ((0,), (0,))),
    ((9, 4, 8), (3, 4, 5), ((1,), (1,))), ((9, 0, 8), (0, 9), ((1,), (0,))),
    ((0, 9, 8), (8, 9), ((2,), (0,))), ((9, 8), (9, 8), ((0, 1), (0, 1))),
])  # fmt: skip
def test_staged_products_of_many_axes(left, right, contract, dtype):
    x, y = values(left, dtype), values(right, dtype, 1)

    def f(x, y):
        return dot_general(x, y, contract=contract, batch=((), ()))

    found, eager = fg.jit(f)(x, y), f(x, y)
    assert type(found) is type(eager) and np.shares_memory(found, x) is False
    same(found, np.tensordot(x, y, contract), "staged")
    assert found.dtype == eager.dtype and found.shape == eager.shape


def test_a_matrix_product_and_its_gradients_are_one_call_of_blas_each():
    graph = fg.make_jaxpr(fg.grad(lambda x, y: np.sum(x @ y), argnums=(0, 1)))(
        values((2, 3)), values((3, 4))
    )
    names = [equation.primitive.name for equation in graph.equations]
    assert names.count("dot_general") == 3
    assert "transpose" not in names and "reshape" not in names


def test_only_the_wanted_adjoint_is_computed():
    graph = fg.make_jaxpr(fg.grad(lambda x: np.sum(x @ np.ones((3, 4)))))(values((2, 3)))
    assert [e.primitive.name for e in graph.equations].count("dot_general") == 2


@pytest.mark.parametrize("function", [np.matmul, np.dot, np.tensordot, np.inner, np.vecdot])
def test_lengths_that_differ_are_named(function):
    x, y = values((2, 3)), values((4, 5))
    with pytest.raises(fg.errors.ShapeError, match="3"):
        fg.vjp(function, x, y)
    with pytest.raises(fg.errors.ShapeError, match=r"axis|last|length"):
        fg.make_jaxpr(lambda x, y: dot_general(x, y, contract=((1,), (0,)), batch=((), ())))(x, y)


def test_matmul_refuses_numbers_and_out():
    with pytest.raises(fg.errors.ShapeError, match="at least one axis"):
        fg.grad(lambda x: np.sum(x @ 2.0))(np.ones(3))
    with pytest.raises(fg.errors.ItemAssignmentError, match=r"np\.dot"):
        fg.grad(lambda x: np.sum(np.dot(x, x, out=np.loadtxt(["0"]))))(np.ones(3))
    with pytest.raises(fg.errors.ShapeError, match="broadcast"):
        fg.vjp(np.matmul, np.ones((2, 3, 3)), np.ones((4, 3, 3)))


cubic = multilinear(
    "cubic",
    eval=lambda x, y, z: x * y * z,
    type=lambda x, y, z: x,
    adjoints=[
        lambda ct, x, y, z: mul(ct, mul(y, z)),
        lambda ct, x, y, z: mul(ct, mul(x, z)),
        lambda ct, x, y, z: mul(ct, mul(x, y)),
    ],
)


def test_the_family_multilinear_derives_both_modes():
    agrees(cubic, values((3,)), values((3,), seed=1), values((3,), seed=2))
    agrees(lambda x: cubic(x, x, x), values((3,)))


@pytest.mark.parametrize(
    "shapes", [((2, 1), (1,)), ((1,), (1, 2)), ((3, 1), (1, 1)), ((1, 1), (1, 3))]
)
def test_products_with_one_number_keep_nan_and_infinity(shapes):
    """`ndarray.dot` has BLAS scale the other array, and 0 times NaN is 0 there."""
    for left, right in ((0.0, np.nan), (np.nan, 0.0), (np.inf, 0.0), (0.0, -np.inf)):
        x, y = np.full(shapes[0], left), np.full(shapes[1], right)
        with np.errstate(invalid="ignore"):
            found = [fg.evaluate(fg.make_jaxpr(np.matmul)(x, y), x, y)[0], fg.jit(np.matmul)(x, y)]
            found.append(
                fg.jit(lambda x, y: fg.lax.scan(lambda c, _: (c, x @ y), 0.0, None, 2)[1][0])(x, y)
            )
        for value in found:
            assert np.all(np.isnan(value)), (shapes, left, right)
    many = fg.jit(lambda x, y: np.exp(x * 2.0) @ y)(np.full((20_000, 1), np.inf), np.zeros(1))
    assert np.all(np.isnan(many))


def test_windows_are_copied_by_rows_of_the_image():
    """What lies together in memory stays together: 32 columns of an image, not 3 of a window."""
    image = values((2, 8, 34, 34), F32)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3))
    kernels = values((16, 8, 3, 3), F32, 1)
    matrix = _matrix(windows, (0, 2, 3), (1, 4, 5))
    assert matrix.T.flags.c_contiguous and matrix.shape == (2 * 32 * 32, 72)
    np.testing.assert_array_equal(matrix, windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, 72))
    found = dot_general(windows, kernels, contract=((1, 4, 5), (1, 2, 3)), batch=((), ()))
    np.testing.assert_allclose(found, np.einsum("ncyxij,ocij->nyxo", windows, kernels), 1e-5, 1e-5)
    for shape, rows, columns in (((3, 4, 5), (0, 1), (2,)), ((0, 4), (0,), (1,))):
        whole = values(shape, F64)
        for x in (whole, whole[::-1], np.asfortranarray(whole)):
            lengths = [math.prod(x.shape[i] for i in axes) for axes in (rows, columns)]
            wanted = x.transpose((*rows, *columns)).reshape(lengths)
            np.testing.assert_array_equal(_matrix(x, rows, columns), wanted)
        assert np.shares_memory(_matrix(whole, rows, columns), whole) or not whole.size
