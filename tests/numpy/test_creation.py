"""Arrays made from traced values, and from their shapes alone."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from surface import agrees, same, values

import fungrad as fg

F32, F64, C128 = np.float32, np.float64, np.complex128


@pytest.mark.parametrize("function", [np.zeros_like, np.ones_like, np.empty_like])
def test_of_the_shape_of_a_traced_array_is_an_ndarray(function):
    seen = []

    def f(x):
        like = function(x)
        seen.append((isinstance(like, np.ndarray), like.shape, like.dtype))
        assert function(x, dtype=np.int8).dtype == np.int8
        assert function(x, shape=(4,)).shape == (4,)
        like[...] = 2.0
        return np.sum(x * like)

    x = values((2, 3), F32)
    assert np.all(fg.grad(f)(x) == 2.0)
    fg.make_jaxpr(f)(x)
    fg.vmap(f)(np.stack([x, x]))
    assert set(seen) == {(True, (2, 3), np.dtype(F32))}


def test_a_mask_made_in_place_works_unchanged():
    def f(x):
        mask = np.zeros_like(x)
        mask[1:] = 1.0
        return np.sum(x * mask)

    assert fg.grad(f)(np.ones(3)).tolist() == [0.0, 1.0, 1.0]
    assert fg.evaluate(fg.make_jaxpr(f)(np.ones(3)), np.ones(3)) == [2.0]


def test_full():
    agrees(lambda x: fg.numpy.full((2, 3), x), 1.5, batch=False)
    agrees(lambda x: fg.numpy.full(3, x), np.float32(1.5), order=1)
    agrees(lambda x: fg.numpy.full((2, 3), x), values((3,)))
    agrees(lambda x: fg.numpy.full((2, 3), x, dtype=np.float32), values((3,)), order=0)
    agrees(lambda x: np.full_like(x, 2.5), values((3,)), order=0, batch=False)
    agrees(lambda x: fg.numpy.full_like(x, x[0]), values((3,)))
    agrees(lambda x: fg.numpy.full_like(np.ones((2, 2)), x), 2.0, batch=False)
    agrees(lambda x: np.full(3, x) * 2.0, np.float64(1.5))


def test_array_and_asarray():
    agrees(lambda x, y: fg.numpy.array([[x, y], [1.0, 2.0]]), np.float64(1.5), np.float64(2.5))
    agrees(lambda x: fg.numpy.array([x, x * 2.0]), values((2,)))
    agrees(lambda x: fg.numpy.array((x[0], x[1] ** 2)), values((2,)))
    agrees(lambda x: fg.numpy.asarray(x, np.float32), values((2,)), order=0)
    agrees(lambda x: fg.numpy.array(x, ndmin=3), values((2,)))
    agrees(lambda x: fg.numpy.array(x, dtype=np.complex128), values((2,)), order=1)
    same(fg.numpy.array([[1, 2]]), np.array([[1, 2]]), "outside")
    assert fg.numpy.array([1, 2], dtype=np.int8).dtype == np.int8
    assert fg.numpy.asarray([1.0, 2.0]).tolist() == [1.0, 2.0]


def test_arrays_of_traced_numbers():
    agrees(lambda x: np.array([x[0] * x[1], x[1]]) * 2.0, values((2,)))
    agrees(lambda x: np.sum(np.sin(np.array([x[0] * x[1], x[1]]))), values((2,)))
    agrees(lambda x: np.array([[x[0], 1.0], [2.0, x[1]]]) @ np.ones(2), values((2,)))
    agrees(lambda x: np.stack([np.array([x[0], x[1]]), x]), values((2,)))
    agrees(lambda x: np.array([x, x * 2.0]), values((2,)))
    agrees(lambda x: np.concatenate([[x[0], 1.0], [x[1]]]), values((2,)))
    agrees(lambda x: np.array([np.hypot(x[0], x[1]), np.arctan2(x[0], x[1])]), values((2,)))


@pytest.mark.parametrize(
    "kind", ["exp", "log1p", "sqrt", "tanh", "arctan", "cbrt", "expm1", "square", "rad2deg"]
)
def test_the_methods_that_numpys_object_loops_call(kind):
    ufunc = getattr(np, kind)
    agrees(lambda x: ufunc(np.array([x[0], x[1] + 1.0])), values((2,)) + 3.0)


LINSPACE = [
    {}, {"num": 5}, {"num": 1}, {"num": 0}, {"num": 4, "endpoint": False},
    {"num": 1, "endpoint": False},
    {"num": 3, "axis": -1}, {"num": 3, "dtype": np.float32},
]  # fmt: skip


@pytest.mark.parametrize("options", LINSPACE)
def test_linspace(options):
    agrees(lambda a, b: np.linspace(a, b, **options), 1.5, 4.0, order=1, batch=False)
    agrees(lambda a, b: np.linspace(a, b, **options), values((2, 3)), values((3,), seed=1), order=1)
    if "dtype" not in options:
        agrees(
            lambda a, b: np.linspace(a, b, **options), values((), C128), values((), seed=1), order=0
        )


def test_linspace_gives_its_step_and_integers():
    agrees(lambda a, b: np.linspace(a, b, 5, retstep=True), np.float64(1.0), np.float64(4.0))
    agrees(lambda a, b: np.linspace(a, b, 7, dtype=int), np.float64(1.0), np.float64(4.5), order=0)
    agrees(lambda a, b: np.linspace(a, b, 4), np.float32(1.0), np.float32(3.0), order=0)


def test_logspace_and_geomspace():
    agrees(lambda a, b: np.logspace(a, b, 4), np.float64(0.5), np.float64(1.5))
    agrees(
        lambda a, b: np.logspace(a, b, 4, endpoint=False, base=2.0),
        np.float64(0.5),
        np.float64(1.5),
    )
    agrees(lambda a, b: np.geomspace(a, b, 4), np.float64(0.5), np.float64(8.0))
    agrees(lambda a, b: np.geomspace(a, b, 3), np.float64(-0.5), np.float64(-8.0))
    agrees(lambda a, b: np.geomspace(a, b, 4, axis=-1), np.array([0.5, 2.0]), np.array([8.0, 4.0]))


@pytest.mark.filterwarnings("ignore:invalid value")
def test_geomspace_of_complex_and_negative_ends():
    z = np.complex128
    agrees(lambda a, b: np.geomspace(a, b, 4), z(1 + 1j), z(16 - 3j))
    agrees(lambda a, b: np.geomspace(a, b, 4), z(1j), z(-16))
    agrees(lambda a, b: np.geomspace(a, b, 3), np.float64(-1.0), z(100j), order=1)
    agrees(lambda a, b: np.geomspace(a, b, 3), np.float64(-1.0), np.float64(1000.0), order=0)
    agrees(lambda a: np.geomspace(a, 8.0, 3, dtype=np.complex64), np.float32(-2.0), order=0)
    ends = np.array([-2.0, 3.0]), np.array([-20.0, 30.0])
    agrees(lambda a, b: np.geomspace(a, b, 4, endpoint=False, axis=1), *ends)
    agrees(lambda a: np.geomspace(a, 9, 0), np.float64(3.0), order=0)
    for run in (fg.jit, fg.jacfwd):
        with pytest.raises(ValueError, match="cannot include zero"):
            run(lambda a: np.geomspace(a, 1.0, 3))(0.0)


def test_the_step_of_one_number_is_nan():
    found, step = fg.vjp(lambda x: np.linspace(x, 2 * x, 1, retstep=True), np.ones(2))[0]
    assert found.shape == (1, 2)
    assert np.ndim(step) == 0 and np.isnan(step)


def test_powers_of_a_number_of_pythons_have_the_dtype_of_the_exponents():
    for dtype in (np.float16, np.float32, np.complex64):
        agrees(lambda a: np.logspace(a, a + 1, 3), values((2,), dtype), order=0)
        agrees(lambda a: np.linspace(a, 2, 3), values((2,), dtype), order=0)
        agrees(lambda a: np.logspace(a, 2, 3, base=np.float64(2)), values((2,), dtype), order=0)


def test_meshgrid():
    for options in ({}, {"indexing": "ij"}, {"sparse": True}, {"sparse": True, "indexing": "ij"}):
        agrees(
            lambda x, y, options=options: np.meshgrid(x, y, **options), values((2,)), values((3,))
        )
        agrees(
            lambda x, y, z, options=options: np.meshgrid(x, y, z, **options),
            values((2,)),
            values((3,)),
            values((1,)),
            order=1,
        )
    agrees(lambda x: np.meshgrid(x), values((2,)))
    agrees(lambda x, y: np.meshgrid(x, y), np.float64(2.0), values((3,)))


def test_at_puts_traced_values_into_plain_arrays():
    def f(x):
        a = fg.numpy.at(np.zeros(3))[1].set(x)
        return np.sum(fg.numpy.at(a)[1:].add(x) ** 3)

    assert f(2.0) == 64.0 + 8.0
    assert fg.grad(f)(2.0) == 4.0 * (2 * 3 * 2.0**2) + 3 * 2.0**2


WRITERS = [
    lambda a, x: np.copyto(a, x),
    lambda a, x: np.place(a, a > 0, x),
    lambda a, x: np.put(a, [0], x),
    lambda a, x: np.putmask(a, a > 0, x),
    lambda a, x: np.fill_diagonal(a, x[0]),
    lambda a, x: np.put_along_axis(a, np.zeros((1, 2), int), x[:1], 0),
]


@pytest.mark.parametrize("write", WRITERS)
def test_what_writes_into_an_array_of_the_outside_writes_into_a_copy(write):
    a, x = np.ones((2, 2)), np.array([[1.5, 2.5], [3.5, 4.5]])

    def f(x):
        write(a, x)
        return np.sum(a**3)

    found = fg.value_and_grad(f)(x), fg.jit(fg.value_and_grad(f))(x)
    np.testing.assert_array_equal(a, 1.0)
    assert found[0][0] == found[1][0] == f(x)
    assert found[0][1].any() and np.array_equal(found[0][1], found[1][1])


def put(a, x, index):
    a[index] = x
    return np.sum(a)


@pytest.mark.parametrize("index", [0, slice(None), slice(1, 2)])
def test_putting_traced_values_into_an_ndarray_of_the_outside_names_the_line(index):
    x = np.ones(np.zeros(3)[index].shape)
    for transform in (lambda f: fg.vjp(f, x), lambda f: fg.make_jaxpr(f)(x)):
        with pytest.raises(
            fg.errors.ItemAssignmentError, match=r"test_creation.py.*\(put\).*np.array\(a\)"
        ):
            transform(lambda x: put(np.loadtxt(["1 2 3"]), x, index))


def test_lists_of_traced_arrays_are_stacked_whole():
    def f(x):
        return np.concatenate([[x, x * 2.0], [x, np.ones(2)]])

    agrees(f, values((2,)))
    agrees(lambda x: x * [x[0], 1.0], values((2,)))
    agrees(lambda x: fg.numpy.sum([[x, x], [x, [1, 2]]]), values((2,)))
    graph = fg.make_jaxpr(lambda x: fg.numpy.asarray([x, x * 2.0]))(np.ones(100))
    assert [e.primitive.name for e in graph.equations] == ["mul", "stack"]


def test_numbers_beside_traced_values_in_an_object_array():
    agrees(lambda x: np.sin(fg.numpy.array([x[0], 1.0])), values((2,)))
    with pytest.raises(TypeError) as caught:
        fg.vjp(lambda x: np.sin(np.array([x[0], 1.0], dtype=object)), values((2,)))
    assert "fg.numpy.array" in caught.value.__notes__[0]


def test_copies_of_a_traced_value_are_itself():
    agrees(lambda x: copy.copy(x) * copy.deepcopy(x) * np.copy(x) * x.copy(), values((2,)))
    if hasattr(np, "astype"):
        agrees(lambda x: np.astype(x, np.float32), values((2,)), order=0)
    agrees(lambda x: fg.numpy.astype(x, np.complex128), values((2,)), order=1)


RANGES = {
    "stop": lambda x: np.arange(x * 2.2) * x,
    "start": lambda x: np.arange(x, 5.0) ** 2,
    "step": lambda x: np.arange(0.0, 5.0, step=x) ** 2,
    "down": lambda x: np.arange(4.0, 1.0 * x, -x),
    "empty": lambda x: np.arange(x, 0.0),
    "whole": lambda x: np.arange(np.floor(x * 2.5).astype(int), dtype=float) * x,
    "dtype": lambda x: np.arange(2.1 * x, dtype=np.float32) * x,
}


@pytest.mark.parametrize("name", RANGES)
def test_arange_between_traced_ends(name):
    f, x = RANGES[name], np.float64(1.5)
    expected = f(x)
    slopes = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6
    for transform in (lambda f: f, fg.jit):
        value, slope = transform(lambda x: fg.jvp(f, (x,), (1.0,)))(x)
        assert np.array_equal(value, expected) and value.dtype == expected.dtype
        if name != "dtype":
            np.testing.assert_allclose(slope, slopes, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(fg.vmap(f)(np.array([x, x]))[1], expected)


def test_an_arange_of_a_count_that_is_not_known_is_refused():
    with pytest.raises(fg.errors.AbstractValueError, match=r"np\.arange"):
        fg.jit(lambda x: np.arange(x), branches="error")(3.0)
    with pytest.raises(fg.errors.AbstractValueError, match=r"np\.arange"):
        fg.vmap(lambda x: np.arange(x))(np.array([1.0, 2.0]))
