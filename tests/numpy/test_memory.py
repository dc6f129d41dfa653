"""A traced array is an ndarray to `isinstance`; its flags and strides are those of an array of its
own, and its memory is refused.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import numbers
import pickle

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import ItemAssignmentError, MemoryAccessError, UnsupportedArgumentError
from fungrad.tracing.trace import Tracer

TRANSFORMS = {
    "grad": lambda f: fg.grad(lambda x: np.sum(f(x))),
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (x,)),
    "jit": fg.jit,
    "vmap": lambda f: lambda x: fg.vmap(f)(x[None]),
    "order 2": lambda f: fg.hessian(lambda x: np.sum(f(x))),
    "jit of grad": lambda f: fg.jit(fg.grad(lambda x: np.sum(f(x)))),
}


@pytest.fixture(params=TRANSFORMS)
def inside(request):
    """Runs a check on a traced array of shape (2, 3) under one transform."""

    def run(check, shape=(2, 3)):
        seen = []

        def f(x):
            assert type(x) is Tracer
            check(x)
            seen.append(1)
            return x * 2.0

        TRANSFORMS[request.param](f)(np.ones(shape))
        assert seen

    return run


def test_a_traced_array_is_an_ndarray_and_no_number(inside):
    def check(x):
        assert isinstance(x, np.ndarray) and x.__class__ is np.ndarray
        for other in (numbers.Number, np.floating, np.generic, float, list, np.matrix):
            assert not isinstance(x, other)

        match x:
            case float() | list():
                raise AssertionError
            case np.ndarray():
                pass

    inside(check)
    inside(check, (1,))


def test_what_dispatches_on_the_class_finds_an_ndarray(inside):
    @functools.singledispatch
    def kind(x):
        return "object"

    kind.register(np.ndarray, lambda x: "array")
    inside(lambda x: kind(x) == "array" or pytest.fail(kind(x)))


def test_copies_and_dataclasses_take_a_traced_array(inside):
    @dataclasses.dataclass
    class Holder:
        array: np.ndarray

    def check(x):
        for made in (
            copy.copy(x),
            copy.deepcopy(x),
            copy.deepcopy([x])[0],
            dataclasses.asdict(Holder(x))["array"],
            dataclasses.replace(Holder(x)).array,
            copy.deepcopy(Holder(x)).array,
        ):
            assert type(made) is Tracer and made.shape == x.shape

    inside(check)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_traced_array_is_not_pickled(protocol):
    def f(x):
        pickle.dumps([x], protocol)
        return x

    with pytest.raises(MemoryAccessError, match=r"test_memory\.py:\d+ \(f\)"):
        fg.grad(f)(1.0)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 3), (1, 2, 1)])
def test_flags_and_strides_are_those_of_an_array_in_c_order(inside, shape):
    own = np.ones(shape)
    names = (
        "C", "F", "O", "W", "A", "X", "B", "CA", "FA", "FNC", "FORC", "BEHAVED", "CARRAY",
        "FARRAY", "CONTIGUOUS", "FORTRAN", "C_CONTIGUOUS", "OWNDATA", "WRITEABLE",
    )  # fmt: skip

    def check(x):
        assert x.strides == own.strides or 0 in shape
        assert x.base is None and x.flags == x.flags
        if 0 not in shape and 1 not in shape:
            assert [x.flags[name] for name in names] == [own.flags[name] for name in names]
            assert x.flags.num == own.flags.num and repr(x.flags) == repr(own.flags)
            assert x.flags.c_contiguous and x.flags.forc
        with pytest.raises(KeyError):
            x.flags["Z"]
        assert not hasattr(x.flags, "z")

    inside(check, shape)


def test_a_traced_array_is_locked_and_unlocked_as_numpys(inside):
    for lock in (
        lambda a, w: setattr(a.flags, "writeable", w),
        lambda a, w: a.flags.__setitem__("W", w),
        lambda a, w: a.setflags(write=w),
    ):

        def check(x, lock=lock):
            own = np.ones((2, 3))
            for a in (own, x):
                view = a.view()
                lock(view, False)
                assert not view.flags.writeable and a.flags.writeable
                part = view[1:]
                assert part.flags.writeable is False
                part.flags.writeable = True  # the array that has the memory is not locked
                part[0] = -1.0
                a.flags.writeable = False
                lock(part, False)
                with pytest.raises(ValueError):
                    part.flags.writeable = True
                a.flags.writeable = True
                with pytest.raises((ValueError, ItemAssignmentError)):
                    view[0] = 5.0
                a[0] = 4.0
                lock(view, True)
                lock(view, True)
                view[0] += 1.0
                copy = np.array(view)
                lock(view, False)
                copy[0] += 1.0
                assert copy.flags.writeable
                names = ("W", "B", "CA", "FA", "BEHAVED", "CARRAY", "FARRAY", "FNC")
                found = [view.flags[name] for name in names]
                assert found == [False] * 7 + [False]

        inside(check)


def test_other_flags_of_a_traced_array_are_not_set(inside):
    def check(x):
        x.flags.aligned = True
        x.setflags(align=True, uic=False)
        for change in (
            lambda: setattr(x.flags, "aligned", False),
            lambda: x.setflags(uic=True),
            lambda: np.broadcast_to(x, (4, 2, 3)).setflags(align=False),
        ):
            with pytest.raises(UnsupportedArgumentError, match=r"test_memory\.py"):
                change()
        with pytest.raises(AttributeError):
            x.flags.c_contiguous = True

    inside(check)


def test_a_traced_array_shares_memory_with_itself_alone(inside):
    plain = np.ones(3)

    def check(x):
        for asked in (np.shares_memory, np.may_share_memory):
            assert asked(x, x) and not asked(x, x * 1.0)
            assert not asked(x, plain) and not asked(plain, x)

    inside(check)


@pytest.mark.parametrize("name", ["data", "ctypes"])
def test_memory_is_refused_by_name(inside, name):
    def check(x):
        assert not hasattr(x, name)
        with pytest.raises(MemoryAccessError, match=name) as caught:
            getattr(x, name)
        assert "fg.external" in str(caught.value) and "test_memory.py" in str(caught.value)

    inside(check)


def test_a_shape_may_be_a_traced_array_of_integers():
    def f(x):
        n = np.array([2, 3]) * (x[0] > 0.0)
        return np.reshape(x, n)

    assert fg.jvp(f, (np.ones(6),), (np.ones(6),))[1].shape == (2, 3)


def test_a_class_that_hashes_its_bytes_can_be_hashed(inside):
    class Hashed:
        def __init__(self, x):
            self.x = x

        def __hash__(self):
            return hash(self.x.tobytes(order="C"))

    def check(x):
        y = x * 1.0
        assert hash(Hashed(x)) == hash(Hashed(x)) != hash(Hashed(y))
        assert hash(Hashed(x)) != hash(Hashed(np.ones((2, 3))))
        y[0, 0] = 2.0
        before = hash(Hashed(y))
        y[0, 1] = 2.0
        assert hash(Hashed(y)) != before
        with pytest.raises(MemoryAccessError):
            x.tobytes()

    inside(check)


def test_what_a_cache_keeps_for_equal_numbers_is_no_other_transforms():
    class Mesh:
        def __init__(self):
            self.kept = {}

        def area(self, vertices):
            class Key:
                def __hash__(self):
                    return hash(vertices.tobytes())

            key = hash(Key())
            if key not in self.kept:
                self.kept[key] = np.sum(vertices**2)
            return self.kept[key]

    mesh, x = Mesh(), np.array([1.0, 2.0])
    assert mesh.area(x) == 5.0
    for _ in range(2):
        assert fg.grad(mesh.area)(x).tolist() == [2.0, 4.0]
    assert fg.hessian(mesh.area)(x).tolist() == [[2.0, 0.0], [0.0, 2.0]]
