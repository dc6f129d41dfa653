"""Functions that move elements: NumPy's numbers and dtypes, and derivatives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from surface import agrees, values

import fungrad as fg
from fungrad.errors import AbstractValueError
from fungrad.testing import check_grads

F32, F64, C128, I64 = np.float32, np.float64, np.complex128, np.int64

UNARY = {
    "reshape": (lambda x: np.reshape(x, (3, -1)), (2, 3)),
    "reshape to one": (lambda x: np.reshape(x, -1), (2, 3)),
    "reshape to an int": (lambda x: np.reshape(x, 6), (2, 3)),
    "reshape fortran": (lambda x: np.reshape(x, (3, 2), order="F"), (2, 3)),
    "reshape fortran 3": (lambda x: np.reshape(x, (4, 3, 2), "F"), (2, 3, 4)),
    "reshape fortran to vector": (lambda x: np.reshape(x, -1, order="F"), (2, 3)),
    "reshape vector fortran": (lambda x: np.reshape(x, (2, 3), order="F"), (6,)),
    "reshape 0-d": (lambda x: np.reshape(x, (1, 1)), ()),
    "reshape to 0-d": (lambda x: np.reshape(x, ()), (1, 1)),
    "reshape empty": (lambda x: np.reshape(x, (0, -1)) if x.size else x.reshape(3, 0), (0, 3)),
    "reshape by numpy ints": (lambda x: np.reshape(x, np.array([3, 2])), (2, 3)),
    "ravel": (np.ravel, (2, 3)),
    "ravel fortran": (lambda x: np.ravel(x, "F"), (2, 3)),
    "ravel 0-d": (np.ravel, ()),
    "transpose": (np.transpose, (2, 3, 4)),
    "transpose axes": (lambda x: np.transpose(x, (1, -1, 0)), (2, 3, 4)),
    "transpose vector": (np.transpose, (3,)),
    "permute_dims": (lambda x: np.permute_dims(x, (1, 0)), (2, 3)),
    "matrix_transpose": (np.matrix_transpose, (4, 2, 3)),
    "swapaxes": (lambda x: np.swapaxes(x, 0, -1), (2, 3, 4)),
    "swapaxes same": (lambda x: np.swapaxes(x, 1, -2), (2, 3, 4)),
    "moveaxis": (lambda x: np.moveaxis(x, 0, -1), (2, 3, 4)),
    "moveaxis several": (lambda x: np.moveaxis(x, [0, 1], [-1, 0]), (2, 3, 4)),
    "moveaxis in place": (lambda x: np.moveaxis(x, 1, 1), (2, 3, 4)),
    "rollaxis": (lambda x: np.rollaxis(x, 2), (2, 3, 4)),
    "rollaxis on": (lambda x: np.rollaxis(x, 0, 3), (2, 3, 4)),
    "rollaxis back": (lambda x: np.rollaxis(x, 2, 1), (2, 3, 4)),
    "broadcast_to": (lambda x: np.broadcast_to(x, (4, 2, 3)), (2, 1)),
    "broadcast_to 0-d": (lambda x: np.broadcast_to(x, 3), ()),
    "broadcast_to nothing": (lambda x: np.broadcast_to(x, (0, 3)), (3,)),
    "expand_dims": (lambda x: np.expand_dims(x, 1), (2, 3)),
    "expand_dims several": (lambda x: np.expand_dims(x, (0, -1)), (2, 3)),
    "squeeze": (np.squeeze, (1, 3, 1)),
    "squeeze axis": (lambda x: np.squeeze(x, -1), (1, 3, 1)),
    "squeeze axes": (lambda x: np.squeeze(x, (0, 2)), (1, 3, 1)),
    "squeeze nothing": (np.squeeze, (2, 3)),
    "squeeze 0-d": (np.squeeze, (1, 1)),
    "split": (lambda x: np.split(x, 2), (4, 3)),
    "split axis": (lambda x: np.split(x, 3, -1), (4, 3)),
    "split at": (lambda x: np.split(x, [1, 3]), (4, 3)),
    "split beyond": (lambda x: np.split(x, [2, 9, 3]), (4, 3)),
    "split from the end": (lambda x: np.split(x, [-2, 1]), (5,)),
    "array_split": (lambda x: np.array_split(x, 3), (5,)),
    "array_split into more": (lambda x: np.array_split(x, 4), (3,)),
    "hsplit": (lambda x: np.hsplit(x, 3), (4, 3)),
    "hsplit vector": (lambda x: np.hsplit(x, [1]), (4,)),
    "vsplit": (lambda x: np.vsplit(x, 2), (4, 3)),
    "dsplit": (lambda x: np.dsplit(x, 2), (1, 2, 4)),
    "atleast_1d": (np.atleast_1d, ()),
    "atleast_2d": (np.atleast_2d, (3,)),
    "atleast_2d 0-d": (np.atleast_2d, ()),
    "atleast_3d": (np.atleast_3d, (3,)),
    "atleast_3d matrix": (np.atleast_3d, (2, 3)),
    "atleast_3d 0-d": (np.atleast_3d, ()),
    "flip": (np.flip, (2, 3)),
    "flip axis": (lambda x: np.flip(x, -1), (2, 3)),
    "flip axes": (lambda x: np.flip(x, (0, 1)), (2, 3, 2)),
    "flip 0-d": (np.flip, ()),
    "fliplr": (np.fliplr, (2, 3)),
    "flipud": (np.flipud, (2, 3)),
    **{f"rot90 {k}": (lambda x, k=k: np.rot90(x, k), (2, 3)) for k in range(-2, 5)},
    "rot90 axes": (lambda x: np.rot90(x, 1, (2, 0)), (2, 3, 4)),
    "roll": (lambda x: np.roll(x, 2), (2, 3)),
    "roll axis": (lambda x: np.roll(x, -1, 1), (2, 3)),
    "roll axes": (lambda x: np.roll(x, (1, 2), (0, 1)), (3, 4)),
    "roll one by axes": (lambda x: np.roll(x, 1, (0, -1)), (3, 4)),
    "roll 0-d": (lambda x: np.roll(x, 3), ()),
    "tile": (lambda x: np.tile(x, 2), (2, 3)),
    "tile more axes": (lambda x: np.tile(x, (2, 1, 3)), (2, 3)),
    "tile fewer axes": (lambda x: np.tile(x, 2), (2, 2, 3)),
    "tile 0-d": (lambda x: np.tile(x, (2, 2)), ()),
    "tile none": (lambda x: np.tile(x, 0), (3,)),
    "repeat": (lambda x: np.repeat(x, 2), (2, 3)),
    "repeat axis": (lambda x: np.repeat(x, 3, -1), (2, 3)),
    "repeat counts": (lambda x: np.repeat(x, [2, 0, 1], axis=1), (2, 3)),
    "repeat list of one": (lambda x: np.repeat(x, [2], axis=0), (2, 3)),
    "repeat none": (lambda x: np.repeat(x, 0, 0), (2, 3)),
    "repeat 0-d": (lambda x: np.repeat(x, 3), ()),
    "resize": (lambda x: np.resize(x, (2, 4)), (5,)),
    "resize less": (lambda x: np.resize(x, 2), (2, 2)),
    "diag": (np.diag, (3,)),
    "diag above": (lambda x: np.diag(x, 2), (3,)),
    "diag of a matrix": (np.diag, (3, 4)),
    "diag below": (lambda x: np.diag(x, -1), (3, 2)),
    "diag outside": (lambda x: np.diag(x, 7), (3, 4)),
    "diagflat": (lambda x: np.diagflat(x, -1), (2, 2)),
    "diagonal": (lambda x: np.diagonal(x, 1, 2, 0), (3, 2, 4)),
    "diagonal of a stack": (lambda x: np.diagonal(x, axis1=-2, axis2=-1), (2, 3, 4)),
    "tril": (np.tril, (3, 4)),
    "tril k": (lambda x: np.tril(x, -1), (2, 3, 3)),
    "tril vector": (np.tril, (3,)),
    "triu": (np.triu, (3, 4)),
    "triu k": (lambda x: np.triu(x, 2), (3, 4)),
    "vander": (np.vander, (3,)),
    "vander increasing": (lambda x: np.vander(x, 4, increasing=True), (3,)),
    "pad": (lambda x: np.pad(x, 1), (2, 3)),
    "pad one side": (lambda x: np.pad(x, ((0, 2), (1, 0))), (2, 3)),
    "pad pair": (lambda x: np.pad(x, (1, 2)), (3,)),
    "pad constant": (lambda x: np.pad(x, 2, constant_values=1.5), (2, 3)),
    "pad constants": (lambda x: np.pad(x, 1, constant_values=((1, 2), (3, 4))), (2, 3)),
    "pad mixed": (lambda x: np.pad(x, ((1, 0), (0, 0)), "constant", constant_values=(2, 5)), (2,
    3)),
    "pad edge": (lambda x: np.pad(x, 2, "edge"), (2, 3)),
    "pad reflect": (lambda x: np.pad(x, ((1, 1), (2, 5)), mode="reflect"), (2, 3)),
    "pad symmetric": (lambda x: np.pad(x, ((3, 1), (2, 5)), mode="symmetric"), (2, 3)),
    "pad wrap": (lambda x: np.pad(x, ((3, 1), (2, 5)), mode="wrap"), (2, 3)),
    "copy": (np.copy, (2, 3)),
    "append": (lambda x: np.append(x, [1.0, 2.0]), (2, 2)),
    "append axis": (lambda x: np.append(x, [[1.0], [2.0]], axis=1), (2, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_of_one_array(name):
    f, shape = UNARY[name]
    agrees(f, values(shape))
    agrees(f, values(shape, C128), order=1)
    if "append" not in name:
        agrees(f, values(shape, F32), order=0)
        if "pad" not in name:
            agrees(f, values(shape, I64), order=0, batch=False)
            agrees(f, values(shape, bool), order=0, batch=False)


JOINS = {
    "concatenate": (lambda *xs: np.concatenate(xs), [(2, 3), (1, 3)]),
    "concatenate axis": (lambda *xs: np.concatenate(xs, -1), [(2, 3), (2, 1), (2, 0)]),
    "concatenate flat": (lambda *xs: np.concatenate(xs, None), [(2, 3), (), (4,)]),
    "concatenate a list": (lambda *xs: np.concatenate(list(xs)), [(2,), (1,)]),
    "concatenate one": (lambda *xs: np.concatenate(xs), [(2,)]),
    "concat": (lambda *xs: np.concat(xs, axis=1), [(2, 3), (2, 1)]),
    "stack": (lambda *xs: np.stack(xs), [(2, 3), (2, 3)]),
    "stack axis": (lambda *xs: np.stack(xs, axis=-1), [(2, 3), (2, 3)]),
    "stack middle": (lambda *xs: np.stack(xs, 1), [(2, 3), (2, 3), (2, 3)]),
    "stack numbers": (lambda *xs: np.stack(xs), [(), (), ()]),
    "stack one": (lambda *xs: np.stack(xs), [(2,)]),
    "hstack": (lambda *xs: np.hstack(xs), [(2, 3), (2, 1)]),
    "hstack vectors": (lambda *xs: np.hstack(xs), [(2,), (1,)]),
    "hstack numbers": (lambda *xs: np.hstack(xs), [(), (3,)]),
    "vstack": (lambda *xs: np.vstack(xs), [(2, 3), (1, 3)]),
    "vstack vectors": (lambda *xs: np.vstack(xs), [(3,), (2, 3)]),
    "dstack": (lambda *xs: np.dstack(xs), [(2, 3), (2, 3)]),
    "dstack vectors": (lambda *xs: np.dstack(xs), [(3,), (3,)]),
    "column_stack": (lambda *xs: np.column_stack(xs), [(3,), (3, 2)]),
    "block": (lambda a, b, c, d: np.block([[a, b], [c, d]]), [(2, 2), (2, 1), (1, 2), (1, 1)]),
    "block vector": (lambda *xs: np.block(list(xs)), [(2,), (1,), ()]),
    "block mixed": (lambda a, b: np.block([[a], [b]]), [(2,), (3, 2)]),
    "append": (lambda *xs: np.append(*xs), [(2, 2), (3,)]),
    "append axis": (lambda *xs: np.append(*xs, axis=0), [(2, 2), (1, 2)]),
    "broadcast_arrays": (lambda *xs: np.broadcast_arrays(*xs), [(2, 1), (3,), ()]),
    "atleast_2d": (lambda *xs: np.atleast_2d(*xs), [(), (3,), (2, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", JOINS)
def test_of_several_arrays(name):
    f, shapes = JOINS[name]
    agrees(f, *[values(s, F64, i) for i, s in enumerate(shapes)])
    for dtypes in ((F32, F64), (F64, C128), (C128, F32), (I64, F32), (F32, bool), (np.int8, I64)):
        arrays = [values(s, dtypes[i % 2], i) for i, s in enumerate(shapes)]
        agrees(f, *arrays, order=0)
        if {F32, bool}.isdisjoint(dtypes):
            agrees(f, *arrays, order=1)


@pytest.mark.parametrize("function", [np.concatenate, np.stack, np.hstack, np.vstack])
def test_joins_take_a_dtype_and_a_traced_sequence(function):
    agrees(
        lambda x, y: function([x, y], dtype=np.float64),
        values((2, 2)),
        values((2, 2), F32, 1),
        order=1,
    )
    agrees(lambda x: function(x), values((3, 2, 2)))
    agrees(lambda x: function([x, [[1, 2], [3, 4]]]), values((2, 2)))


def test_numbers_join_as_numpys_do():
    agrees(lambda x, y: np.stack([x, 1.0, y]), np.float32(2.0), np.float32(3.0), order=1)
    agrees(lambda x: np.concatenate([x, [1]]), values((2,), F32), order=1)
    agrees(lambda x: np.stack([x, 2]), 1.5, order=2, batch=False)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data())
def test_a_chain_of_moves_is_numpys(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    steps = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=5))
    axes = [data.draw(st.integers(-3, 2)) for _ in steps]

    def f(x):
        for step, axis in zip(steps, axes, strict=True):
            axis = axis % max(np.ndim(x), 1)
            x = (
                np.transpose(x),
                np.flip(x, axis),
                np.roll(x, 1, axis),
                np.repeat(x, 2, axis),
                np.concatenate([x, 2.0 * x], axis),
                np.stack([x, x], axis) if np.ndim(x) < 4 else x,
                np.moveaxis(x, axis, 0),
                np.pad(x, 1, mode="wrap")[..., 1:],
            )[step]
        return x

    agrees(f, values(shape), order=1)


def test_shapes_are_known_under_every_transform():
    seen = []

    def f(x):
        seen.append((np.shape(x), np.ndim(x), np.size(x), np.size(x, 0), x.shape, len(x)))
        return np.sum(x)

    x = values((2, 3))
    fg.grad(f)(x)
    fg.make_jaxpr(f)(x)
    fg.vmap(f)(np.stack([x, x]))
    assert set(seen) == {((2, 3), 2, 6, 2, (2, 3), 2)}


def test_unstack():
    if hasattr(np, "unstack"):
        agrees(lambda x: np.unstack(x), values((3, 2)))
        agrees(lambda x: np.unstack(x, axis=-1), values((3, 2)))
    agrees(lambda x: fg.numpy.unstack(x, axis=1), values((3, 2)))


REFUSED = [
    (lambda x: np.reshape(x, (4, 2)), ValueError), (lambda x: np.reshape(x, (-1, -1)), ValueError),
    (lambda x: np.reshape(x, (-1, 4)), ValueError), (lambda x: np.transpose(x, (0, 0)), ValueError),
    (lambda x: np.transpose(x, (0,)), ValueError), (lambda x: np.swapaxes(x, 0, 2), IndexError),
    (lambda x: np.moveaxis(x, [0, 1], [0]), ValueError), (lambda x: np.squeeze(x, 0), ValueError),
    (lambda x: np.split(x, 4, 1), ValueError), (lambda x: np.broadcast_to(x, (2, 2)), ValueError),
    (lambda x: np.concatenate([x, x[0]]), ValueError), (lambda x: np.concatenate([]), ValueError),
    (lambda x: np.stack([x, x[0]]), ValueError), (lambda x: np.concatenate([x[0, 0], x[0, 0]]),
    ValueError),
    (lambda x: np.expand_dims(x, 5), IndexError), (lambda x: np.flip(x, 2), IndexError),
    (lambda x: np.diag(x[None]), ValueError), (lambda x: np.pad(x, -1), ValueError),
    (lambda x: np.repeat(x, [1, 2, 3], axis=0), ValueError), (lambda x: np.array_split(x, 0),
    ValueError),
]  # fmt: skip


@pytest.mark.parametrize("f,error", REFUSED)
def test_what_numpy_refuses_is_refused(f, error):
    x = values((2, 3))
    with pytest.raises(error):
        f(x)
    with pytest.raises(error):
        fg.vjp(f, x)


def test_out_that_compiled_code_made_is_refused_by_name():
    x = np.ones((2, 2))
    with pytest.raises(fg.errors.ItemAssignmentError, match=r"np\.concatenate"):
        fg.vjp(lambda x: np.concatenate([x, x], out=np.loadtxt(["0 0"] * 4)), x)


def test_outside_of_transforms_the_functions_are_numpys():
    x = values((2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fg.numpy.reshape(x, -1).base is x
        assert isinstance(fg.numpy.split(x, 3, axis=1), list)
        assert fg.numpy.concatenate([[1, 2], [3]]).tolist() == [1, 2, 3]
        assert fg.numpy.tile([1, 2], 2).tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("window", "axis"),
    [(2, 0), (3, -1), ((2, 3), None), ((2, 2), (1, 1)), ((1,), (0,)), (6, 1), (0, 1)],
)
def test_sliding_windows(window, axis):
    view = np.lib.stride_tricks.sliding_window_view
    x = np.arange(24.0).reshape(4, 6) / 7.0
    agrees(lambda x: np.sin(view(x, window, axis=axis)), x)


@pytest.mark.parametrize(("window", "axis"), [(5, 0), (-1, 0), ((2, 2, 2), None)])
def test_sliding_windows_that_do_not_fit(window, axis):
    view = np.lib.stride_tricks.sliding_window_view
    with pytest.raises(ValueError, match="window"):
        view(np.ones((4, 6)), window, axis=axis)
    with pytest.raises(ValueError, match="window"):
        fg.vjp(lambda x: view(x, window, axis=axis), np.ones((4, 6)))


@pytest.mark.parametrize("run", [fg.jit, fg.vmap, lambda f: lambda x: fg.vjp(f, x)])
def test_reshape_has_no_order_k(run):
    x = np.arange(6.0).reshape(2, 3)
    with pytest.raises(ValueError, match="not permitted for reshaping"):
        run(lambda x: np.reshape(x, 3, order="K"))(x[0])


def test_orders_that_are_all_the_same():
    for shape in ((3,), (), (1, 3), (3, 1, 1), (0, 2)):
        for order in ("K", "A", "a", "c", None):
            agrees(lambda x, o=order: np.ravel(x, order=o), values(shape))
    agrees(lambda x: x.flatten("f"), values((2, 3)))
    agrees(lambda x: x.reshape(2, 3, order="A"), values((6,)))


def each_way(f, *args):
    """f compiled, and mapped over two examples with these arguments; and NumPy's answer."""
    expected = f(*args)
    assert_same(fg.jit(f)(*args), expected)
    assert_same(fg.vjp(f, *args)[0], expected)
    rows = fg.vmap(f)(*[np.stack([a, a]) for a in args])
    assert_same(rows, np.stack([expected, expected]))


def assert_same(found, expected):
    np.testing.assert_array_equal(found, expected, strict=True)


def test_a_function_of_numpy_mapped_itself_takes_traced_shifts_and_indices():
    x, m, k = np.arange(4.0), np.arange(9.0).reshape(3, 3), np.array([0, 1, -2])
    for f, array in ((np.roll, x), (np.tril, m), (np.triu, m), (np.take, x), (np.trace, m)):
        expected = np.stack([f(array, n) for n in k])
        assert_same(fg.vmap(f, (None, 0))(array, k), expected)
        assert_same(fg.jit(fg.vmap(f, (None, 0)))(array, k), expected)


@pytest.mark.parametrize("f", [np.diag, np.diagonal])
def test_the_offset_that_determines_a_shape_has_to_be_known(f):
    m = np.eye(3)
    for g in (f, lambda m, k: f(np.eye(3), k)):
        transformed = fg.jit(g, branches="error")
        with pytest.raises(AbstractValueError, match=f"the offset of np.{f.__name__} .*test_shap"):
            transformed(m, 1)
    rows = fg.vmap(f, (0, None))(np.stack([m, m]), np.int64(1))
    assert_same(rows, np.stack([f(m, 1), f(m, 1)]))


def test_the_gradient_of_a_trace_of_a_traced_diagonal():
    m = np.arange(12.0).reshape(3, 4)
    slope = fg.jit(fg.grad(lambda m, k: np.sum(np.trace(m**2, k))))
    for k in (-1, 0, 3, 5):
        assert_same(slope(m, k), 2 * m * np.eye(3, 4, k))


def test_shifts_and_diagonals_may_be_traced():
    x, m, i = np.arange(5.0), np.arange(9.0).reshape(3, 3), np.int64
    for shift in (0, 2, -7):
        each_way(lambda x, s: np.roll(x, s), x, i(shift))
        each_way(lambda s: np.roll(x, s), i(shift))
        each_way(lambda s: np.roll(x[:0], s), i(shift))
        each_way(lambda m, s: np.roll(m, (s, 1), 1), m, i(shift))
    each_way(lambda m, s: np.roll(m, s, (0, 1)), m, np.array([1, -2]))
    each_way(lambda m, s: np.roll(m, s), m, np.array([1, -2]))
    for k in (0, 1, -2, 9):
        each_way(lambda m, k: np.tril(m, k), m, i(k))
        each_way(lambda k: np.triu(m, k), i(k))
        each_way(lambda k: np.eye(3, 4, k, np.float32), i(k))
        each_way(lambda m, k: np.trace(m[:2], k), m, i(k))
        each_way(lambda k: np.trace(m[:, :2], k), i(k))
        each_way(lambda k: np.tri(3, k=k), i(k))
    f = fg.vmap(lambda x, s: np.roll(x, s) ** 2, in_axes=(None, 0))
    slopes = fg.jacrev(lambda x: f(x, np.array([1, 3])))(x)
    np.testing.assert_array_equal(slopes[1], np.roll(np.diag(2 * x), 3, axis=0))


def test_vander_multiplies_as_numpy_does():
    for x in (np.array([complex(0.0, -0.0), 1e155 + 1e155j, -2j]), np.array([0.1, 1e103, -0.0])):
        with np.errstate(all="ignore"):
            for n in (0, 1, 5):
                expected, found = np.vander(x, n), fg.jit(lambda x, n=n: np.vander(x, n))(x)
                assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes())


PADS = {
    "linear_ramp": [{}, {"end_values": (1.5, -2)}, {"end_values": ((1, 2), (3, 4))}],
    "maximum": [{}, {"stat_length": 2}],
    "minimum": [{"stat_length": (1, 2)}],
    "mean": [{}, {"stat_length": 1}],
    "median": [{"stat_length": (2, 3)}],
    "reflect": [{"reflect_type": "odd"}],
    "symmetric": [{"reflect_type": "odd"}],
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", PADS)
def test_borders_made_of_values(mode):
    for options in PADS[mode]:

        def f(x, width, options=options):
            return np.pad(x, width, mode, **options)

        uneven, even = ((1, 2), (7, 0)), 3
        for shape, width, dtypes in (
            ((2, 3), uneven, (F64, C128, np.uint8)), ((2, 3), even, (F32, np.int8, bool)),
            ((3, 1), uneven, (F32, np.int8, bool)), ((3, 1), even, (F64, C128, np.uint8)),
        ):  # fmt: skip
            if F64 in dtypes:
                check_grads(lambda x, w=width: f(x, w), [values(shape)], order=2)
            for dtype in dtypes:
                each_way(lambda x, w=width: f(x, w), values(shape, dtype))
        for shape in ((0, 2), (0, 0)):
            each_way(lambda x: f(x, ((0, 0), (0, 0))), values(shape))
            with pytest.raises(ValueError, match="can't extend empty axis 0"):
                fg.jit(lambda x: f(x, 1))(values(shape))


def test_borders_that_a_function_writes():
    def write(vector, width, axis, options):
        vector[: width[0]] = options.get("value", 10.0)
        if width[1]:
            vector[-width[1] :] = vector[width[0]] * 2

    for x in (values((3,)), values((2, 3)), np.arange(6).reshape(2, 3)):
        each_way(lambda x: np.pad(x, 2, write), x)
        each_way(lambda x: np.pad(x, (0, 1), write, value=3), x)
    check_grads(lambda x: np.pad(x, 2, write), [values((2, 3))], order=2)
    each_way(lambda x: np.pad(x, 2, "empty")[2:-2], values((3,)))
    for x, options in ((values((2,)), {"mode": "bad"}), (values((2,)), {"stat_length": 1})):
        for run in (lambda f: f, fg.jit, lambda f: lambda *args: fg.vjp(f, *args)):
            with pytest.raises(ValueError, match="mode '"):
                run(lambda x, o=options: np.pad(x, 1, **o))(x)


def test_ends_of_ramps_have_derivatives():
    def f(x, ends):
        return np.pad(x, 2, "linear_ramp", end_values=ends)

    check_grads(f, [values((2, 3)), np.array([1.0, 2.0])], order=2)
    check_grads(f, [values((2, 3)), np.array([[1.0, 2.0], [3.0, 4.0]])], order=2)


def test_a_number_repeated_along_its_axis():
    each_way(lambda x: np.repeat(x, 3), 2.0)
    each_way(lambda x: np.repeat(x, 3, axis=0), np.float64(2.0))
    each_way(lambda x: np.repeat(x, [2], axis=-1), np.float64(2.0))
    each_way(lambda x: np.squeeze(x, 0), np.array(2.0))


@pytest.mark.parametrize("value", [0.0, -0.0, complex(0.0, -0.0), complex(-0.0, 0.0)])
@pytest.mark.parametrize("run", [fg.jit, lambda f: lambda x: fg.vjp(f, x)[0]])
def test_zeros_around_an_array_keep_their_sign(run, value):
    x = np.array([0.5, 1.5]) * (1.0 if type(value) is float else 1j)
    want = np.pad(x, 1, constant_values=value)
    padded = run(lambda x: np.pad(x, 1, constant_values=value))(x)
    windowed = run(lambda x: fg.lax.pad(x, value, [(1, 1, 0)]))(x)
    for found in (padded, windowed):
        np.testing.assert_array_equal(found, want)
        np.testing.assert_array_equal(np.signbit(found.real), np.signbit(want.real))
        np.testing.assert_array_equal(np.signbit(found.imag), np.signbit(want.imag))
