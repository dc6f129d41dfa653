"""np.asarray and its kin give traced arrays for traced values; NumPy's functions are its own at all
other times.
"""

from __future__ import annotations

import asyncio
import collections
import copy
import threading
import types

import numpy as np
import pytest
from surface import agrees, same, values

import fungrad as fg
from fungrad.interception.numpy_functions import INTERCEPTED, MAKERS, MAY_BE_OLD, dispatched
from fungrad.tracing.trace import Tracer

NAMES = {*INTERCEPTED, *MAKERS, *MAY_BE_OLD, *dispatched(np), "poly1d", "vectorize"}
# A dict that a traced function names is a space of names, whose functions are replaced.
ORIGINALS = types.MappingProxyType({n: getattr(np, n) for n in NAMES if hasattr(np, n)})


def untouched():
    return all(getattr(np, name) is original for name, original in ORIGINALS.items())


@pytest.mark.parametrize("name", sorted(INTERCEPTED))
def test_an_array_of_complex_traced_values_is_traced(name):
    def f(x):
        z = x * (1.0 + 2.0j)
        made = getattr(np, name)(z)
        assert type(made) is type(z) and np.iscomplexobj(made)
        return made.imag * x

    agrees(f, values((3,)))


@pytest.mark.parametrize(
    "make",
    [np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require],
)
@pytest.mark.parametrize("dtype", [float, np.float32, complex, "f8"])
def test_arrays_of_a_dtype(make, dtype):
    def f(x):
        return getattr(np, make.__name__)([x[0] * x[1], 1.0], dtype) * 2.0

    x = values((2,))
    same(fg.jit(f)(x), f(x), "jit")
    seed = np.ones(2, np.dtype(dtype))
    np.testing.assert_allclose(fg.vjp(f, x)[1](seed)[0], x[::-1] * 2.0, rtol=1e-6)


def test_dtypes_and_parts_of_complex_values():
    def parts(r):
        z = np.asarray(r * (1 + 2j))
        assert np.iscomplexobj(z) and np.issubdtype(z.dtype, np.complexfloating)
        return np.sum(z.imag)

    x = np.array([1.0, 2.0])
    assert fg.value_and_grad(parts)(x)[0] == 6.0 == fg.jit(parts)(x)
    np.testing.assert_array_equal(fg.grad(parts)(x), [2.0, 2.0])
    np.testing.assert_array_equal(fg.vmap(parts)(np.stack([x, x])), [6.0, 6.0])

    def floats(x):
        assert np.issubdtype(np.asarray(x, dtype=float).dtype, np.floating)
        return x

    fg.grad(floats)(1.0)


def test_shapes_are_those_of_numpy():
    agrees(lambda x: np.ascontiguousarray(x[0], float), values((2,)))
    agrees(lambda x: np.array(x, float, ndmin=3), values((2,)))
    agrees(lambda x: np.array([[x[0], 1.0], [x[1], x[0] * x[1]]], float), values((2,)))
    agrees(lambda x: np.array(((x, x * 2.0), (x, np.ones(2))), float), values((2,)))
    agrees(lambda x: np.sin(np.array([x[0], 1.0], float)), values((2,)))
    agrees(lambda x: np.array([np.array([x[0], 1.0]), [2.0, x[1]]], float), values((2,)))
    pair = collections.namedtuple("pair", "first second")
    agrees(lambda x: np.array(pair(x[0], x[1] * x[0]), float), values((2,)))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float32, np.complex64])
def test_dtypes_are_those_of_numpy(dtype):
    x = values((2,), dtype)
    for f in (lambda x: np.array([x[0], x[1]]), lambda x: np.array([x, x]), np.array):
        same(fg.jit(lambda x, f=f: f(x))(x), f(x), "jit")
    if np.dtype(dtype).kind in "bi":
        for f in (lambda x: np.array(x), lambda x: np.asanyarray(x)):
            same(fg.vmap(f)(x[:, None]), x[:, None], "vmap")


def test_empty_axes_are_kept():
    for shape in ((0,), (2, 0), (0, 3)):
        agrees(lambda x: np.array(x) * 2.0, values(shape))
        agrees(lambda x: np.array([x, x * 2.0]), values(shape))


def test_object_arrays_are_made_where_they_are_asked_for():
    def f(x):
        made = np.array([x[0], x[1] * x[0]], dtype=object)
        assert isinstance(made, np.ndarray) and made.dtype == object
        again = np.asarray(made, dtype=float)
        assert type(again) is Tracer
        return again

    x = values((2,))
    out, pullback = fg.vjp(f, x)
    np.testing.assert_array_equal(out, [x[0], x[1] * x[0]])
    np.testing.assert_allclose(pullback(np.ones(2))[0], [1.0 + x[1], x[0]])


def test_what_holds_no_traced_value_is_numpys():
    def f(x):
        for value in (np.ones(2), [1, 2], 3.0, (), [[1], [2]], range(3)):
            found, wanted = np.asarray(value), ORIGINALS["asarray"](value)
            assert isinstance(found, np.ndarray) and found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
        for c in (np.ones(2), outside, outside[:1], np.float64(1.0)):
            assert np.array(c) is not c
            if type(c) is not np.float64:
                assert np.asarray(c) is c and np.asarray(c, float) is c
                assert np.ascontiguousarray(c) is c and np.require(c, float) is c
                assert np.shares_memory(np.array(c, copy=None, ndmin=2), c)
        assert np.asarray(x) is x and np.array(outside, object).dtype == object
        return np.sum(x)

    outside = np.ones(2)
    fg.grad(f)(outside)


def test_the_same_array_and_a_copy():
    def f(x):
        same, copied, cast = np.asarray(x), np.array(x), np.asarray(x, float)
        for maker in (np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.asarray_chkfinite):
            assert maker(x) is x
        x[0] = x[1]
        copied[1] = 7.0
        assert same is x and cast is x and np.array(x, copy=None) is x and copied is not x
        return np.sum(same * copied * cast)

    x = values((3,))
    np.testing.assert_array_equal(
        fg.vjp(f, x)[0], np.sum([x[1] ** 2 * x[0], x[1] ** 2 * 7, x[2] ** 3])
    )
    fg.testing.check_grads(f, [x], order=2)


def test_copies_that_are_forbidden():
    def f(x):
        assert np.array(x, copy=False) is x and np.asarray(x, copy=False) is x
        for make in (
            lambda: np.array([x[0], x[1]], copy=False),
            lambda: np.array(x, np.float32, copy=False),
            lambda: np.asarray(x, complex, copy=False),
        ):
            with pytest.raises(ValueError, match="without a copy"):
                make()
        return np.sum(x)

    fg.grad(f)(values((2,)))


def test_arguments_that_say_nothing_of_traced_arrays():
    agrees(lambda x: np.array(x, order="F", subok=True, ndmin=2), values((2, 3)))
    agrees(lambda x: np.asarray(x, order="C", like=x), values((2, 3)))
    agrees(lambda x: np.array([1.0, x[0]], like=x), values((2,)))
    agrees(lambda x: np.zeros(2, like=x) + x, values((2,)))
    agrees(lambda x: np.full((2, 3), x[0]) * x[1], values((2,)))
    agrees(lambda x: np.full(2, x, dtype=np.float32), values((2,)), order=0)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_arrays_of_floats_are_traced_without_a_dtype(shape):
    def f(x):
        for name in INTERCEPTED:
            found = getattr(np, name)(x)
            assert type(found) is Tracer or type(x) is not Tracer, name
            assert found.dtype == np.float64
        x = np.asarray(x)
        assert np.issubdtype(x.dtype, np.floating) and not np.iscomplexobj(x)
        return np.sin(x) * np.asarray([x, x]).sum(axis=0)

    agrees(f, values(shape))


def test_objects_that_hand_out_a_traced_array():
    class Holder:
        def __init__(self, value):
            self.value = value

        def __array__(self, dtype=None, copy=None):
            return self.value

    def f(x):
        assert np.asarray(Holder(x)) is x
        assert np.asarray(Holder(outside)) is outside
        return np.array(Holder(x), complex) * np.asarray(Holder(outside))

    outside = values((3,), seed=1)
    agrees(f, values((3,)))


def test_a_function_of_numbers_and_one_of_rows():
    before = np.vectorize(lambda a, b: a if a > b else a * b)
    agrees(lambda x: np.vectorize(lambda a, b: a * a * b)(x, 0.5), values((2, 3)))
    x = values((3,))
    fg.testing.check_grads(lambda x: np.sum(before(x, 0.5) * 1.0), [x])
    agrees(lambda x: np.apply_along_axis(lambda r: r * r[0], 1, x), values((2, 3)))
    agrees(lambda x: np.apply_along_axis(np.sum, 0, np.zeros((2, 3)) + 1.0) * x, values((3,)))


def test_numbers_that_are_not_finite_are_refused_where_they_are_known():
    x = np.array([1.0, np.nan])
    with pytest.raises(ValueError, match="infs or NaNs"):
        fg.vjp(lambda x: np.asarray_chkfinite(x, float), x)
    same(fg.jit(lambda x: np.asarray_chkfinite(x, float))(np.ones(2)), np.ones(2), "jit")


@pytest.mark.parametrize(
    "transform",
    [
        fg.grad, fg.value_and_grad, fg.jit, fg.make_jaxpr, fg.hessian, fg.jacfwd,
        lambda f: fg.vmap(f), lambda f: fg.jit(fg.grad(f)), lambda f: fg.grad(fg.jit(f)),
    ],
)  # fmt: skip
def test_numpy_is_untouched_after_a_transform(transform):
    seen = []

    def f(x):
        seen.append(np.asarray is ORIGINALS["asarray"])
        return np.sum(np.asarray(x, float) * x)

    assert untouched()
    transform(f)(np.ones((1, 2)))
    assert untouched() and seen and not any(seen)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_numpy_is_untouched_after_an_exception(error):
    def f(x):
        raise error

    for transform in (fg.grad, fg.jit, fg.vmap, lambda f: fg.grad(fg.grad(f))):
        with pytest.raises(error):
            transform(f)(np.ones(1))
        assert untouched()


def test_another_thread_keeps_numpys_behaviour():
    inside, done = threading.Event(), threading.Event()
    found = []

    def other():
        inside.wait(60)
        found.append(np.asarray([1.0, 2.0]))
        found.append(np.array([1, 2], dtype=object))
        fg.grad(lambda x: np.asarray(x, float) * 2.0)(1.0)  # ends while the first still runs
        done.set()

    def f(x):
        inside.set()
        assert done.wait(60)
        return np.asarray(x, float) * 3.0

    thread = threading.Thread(target=other)
    thread.start()
    assert fg.grad(f)(1.0) == 3.0
    thread.join()
    assert untouched()
    np.testing.assert_array_equal(found[0], [1.0, 2.0])
    assert found[1].dtype == object


def test_a_function_that_the_user_puts_in_a_module_stays():
    def other(value, dtype=None):
        return ORIGINALS["asarray"](value, dtype)

    def f(x):
        found = np.asarray
        np.asarray = other
        assert np.asarray is other
        np.asarray = found  # as unittest.mock.patch does
        return x * 2.0

    assert fg.grad(f)(1.0) == 2.0
    assert untouched()
    np.asarray = other
    try:
        fg.grad(lambda x: x if np.asarray is other else 0.0 * x)(1.0)
        assert np.asarray is other
    finally:
        np.asarray = ORIGINALS["asarray"]


def test_modules_have_their_own_class_and_names_again():
    seen = []

    def f(x):
        seen.append(type(np) is types.ModuleType)
        assert vars(np)["asarray"] is ORIGINALS["asarray"]
        assert isinstance(np, types.ModuleType) and copy.copy(np) is np
        return x

    fg.grad(f)(1.0)
    assert seen == [False] and type(np) is types.ModuleType


def test_another_thread_that_does_not_trace_gets_plain_arrays():
    found = []

    def f(x):
        thread = threading.Thread(target=lambda: found.extend((np.zeros(2), np.array([1.0]))))
        thread.start()
        thread.join()
        assert type(np.zeros(2)) is not np.ndarray
        return x * 2.0

    fg.grad(f)(1.0)
    assert [type(a) for a in found] == [np.ndarray, np.ndarray]


def test_numpy_is_untouched_beside_generators_and_tasks():
    def halves(x):
        yield np.asarray(x) / 2.0
        yield np.zeros(2)

    kept = []

    def f(x):
        kept.append(halves(x))
        return next(kept[-1]) * x

    assert fg.grad(f)(3.0) == 3.0
    assert untouched() and type(next(kept[0])) is np.ndarray

    async def one(x):
        slope = fg.grad(f)(x)
        await asyncio.sleep(0)
        assert untouched() and type(np.zeros(2)) is np.ndarray
        return slope

    async def both():
        return await asyncio.gather(one(1.0), one(2.0))

    assert asyncio.run(both()) == [1.0, 2.0]
    assert untouched()


def test_a_module_that_is_imported_while_a_transform_traces_binds_numpys_functions(
    tmp_path, monkeypatch
):
    (tmp_path / "imported_while_tracing.py").write_text(
        "import numpy as np\nfrom numpy import array, zeros\nTABLE = np.zeros(3)\n"
        "def made():\n    return np.zeros(3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def f(x):
        import imported_while_tracing as other

        assert other.zeros is ORIGINALS["zeros"] and other.array is ORIGINALS["array"]
        assert type(other.TABLE) is np.ndarray and type(other.made()) is not np.ndarray
        return x

    fg.grad(f)(1.0)


def test_functions_of_the_host_keep_numpys_behaviour():
    def host(x):
        assert type(np.asarray([x])) is np.ndarray
        return np.asarray(x) * 2.0

    def f(x):
        return fg.pure_callback(host, x, x)

    assert fg.vmap(f)(np.ones(2)).tolist() == [2.0, 2.0]
    assert untouched()


def test_the_setting_turns_it_off():
    assert fg.config.intercept
    fg.config.intercept = False
    try:
        seen = []
        fg.grad(lambda x: seen.append(np.asarray is ORIGINALS["asarray"]) or x)(1.0)
        assert seen == [True]
    finally:
        fg.config.intercept = True
    with pytest.raises(fg.errors.ArgumentError, match="True or False"):
        fg.config.intercept = 2


def test_functions_of_lists_of_objects_that_hold_traced_arrays():
    class Column:
        def __init__(self, values):
            self.values = values

        def __array__(self, dtype=None, copy=None):
            return self.values

    def f(x):
        rows = np.column_stack([Column(x), np.ones(3), Column(x * 2.0)])
        return np.sum(np.concatenate((Column(x), [1.0])) ** 2) + np.sum(rows[:, 0] * rows[:, 2])

    x = np.arange(3.0)
    np.testing.assert_array_equal(fg.grad(f)(x), 6.0 * x)
    np.testing.assert_array_equal(fg.vmap(f)(x[None]), [f(x)])
