"""Arrays of the program that a trace keeps: later writes into them have no effect."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fungrad as fg
from fungrad.errors import ItemAssignmentError
from fungrad.tracing.captured_arrays import SMALL, CopyingGuards, WriteGuards, own, same_bits

LARGE = SMALL // 8 + 1
"""The fewest doubles of an array that is not copied."""


def in_place(c, x):
    """Reads c, with weights 1, 2, 4, and writes into it."""
    total = 0.0
    for _ in range(3):
        total = total + np.sum(x * x * x * c) + np.sum(np.where(c > 1.5, x, c) * x)
        c *= 2.0
    return total


def anew(c, x):
    """The same without writing."""
    total = 0.0
    for _ in range(3):
        total = total + np.sum(x * x * x * c) + np.sum(np.where(c > 1.5, x, c) * x)
        c = c * 2.0
    return total


EAGER = {
    "grad": fg.grad,
    "value": lambda f: lambda x: fg.value_and_grad(f)(x)[1],
    "vjp": lambda f: lambda x: fg.vjp(f, x)[1](1.0)[0],
    "jacrev": fg.jacrev,
    "jacobian": fg.jacobian,
    "vmap": lambda f: lambda x: fg.vmap(fg.grad(f))(np.stack([x, 2.0 * x])),
    "hvp": lambda f: lambda x: fg.hvp(f, (x,), (np.ones_like(x),))[0],
    "jvp of vjp": lambda f: (
        lambda x: fg.jvp(lambda x: fg.vjp(f, x)[1](1.0)[0], (x,), (np.ones_like(x),))[1]
    ),
    "grad of grad": lambda f: fg.grad(lambda x: np.sum(fg.grad(f)(x) ** 2)),
}
RECORDED = {
    "jit": lambda f: fg.jit(fg.grad(f)),
    "grad of jit": lambda f: fg.grad(fg.jit(f)),
    "jit of grad of grad": lambda f: fg.jit(EAGER["grad of grad"](f)),
    "make_jaxpr": lambda f: lambda x: fg.evaluate(fg.make_jaxpr(fg.grad(f))(x), x)[0],
    "linearize": lambda f: lambda x: fg.linearize(f, x)[1](np.ones_like(x)),
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (np.ones_like(x),))[1],
}


@pytest.mark.parametrize("transform", [*EAGER.values(), *RECORDED.values()])
@pytest.mark.parametrize("captured", [True, False])
def test_an_array_that_is_written_into_between_reads(transform, captured):
    x = np.array([0.5, 1.0, -2.0])
    work = np.ones(3)
    wrong = transform(lambda v: in_place(work if captured else np.ones(3), v))(x)
    assert_array_equal(wrong, transform(lambda v: anew(np.ones(3), v))(x))


@pytest.mark.parametrize("transform", RECORDED.values())
def test_a_large_one_in_a_recorded_program(transform):
    x = np.linspace(0.0, 1.0, LARGE)
    wrong = transform(lambda v: in_place(np.ones(LARGE), v))(x)
    assert_allclose(wrong, transform(lambda v: anew(np.ones(LARGE), v))(x), rtol=1e-14)


@pytest.mark.parametrize("transform", [t for n, t in EAGER.items() if "jac" not in n])
def test_a_write_into_a_large_one_raises_with_the_users_line(transform):
    x = np.linspace(0.0, 1.0, LARGE)
    c = np.ones(LARGE)
    with pytest.raises(ItemAssignmentError, match=r"test_residuals.py:\d+ \(in_place\).*f64\["):
        transform(lambda v: in_place(c, v))(x)
    assert c.flags.writeable
    assert_array_equal(c, np.ones(LARGE))
    right = transform(lambda v: anew(c, v))(x)
    assert np.all(np.isfinite(right))
    c += 1.0  # writeable again


@pytest.mark.parametrize("n", [4, LARGE])
def test_what_reverse_mode_does_not_need_may_be_written_into(n):
    c = np.zeros(n)

    def f(x):
        total = 0.0
        for i in range(3):
            c[:] = i
            total = total + np.sum((x + c) - 2.0 * x) + np.sum(np.where(x > 0, c, x))
        return total

    assert_array_equal(fg.grad(f)(np.ones(n)), -3.0 * np.ones(n))


@pytest.mark.parametrize("n", [4, LARGE])
def test_the_argument_itself_under_another_name(n):
    x = np.full(n, 3.0)

    def f(v):
        y = np.sum(v * v)
        x[:] = 0.0
        return y

    if n < LARGE:
        assert_array_equal(fg.grad(f)(x), np.full(n, 6.0))
    else:
        with pytest.raises(ItemAssignmentError):
            fg.grad(f)(x)
        assert_array_equal(x, np.full(n, 3.0))


@pytest.mark.parametrize("n", [4, LARGE])
def test_a_pullback_is_of_what_the_arrays_held_when_it_was_made(n):
    x, c = np.full(n, 2.0), np.full(n, 5.0)
    _, pullback = fg.vjp(lambda v: v * v * c, x)
    assert c.flags.writeable and x.flags.writeable
    x[:] = 0.0
    c *= 0.0
    assert_array_equal(pullback(np.ones(n))[0], np.full(n, 20.0))
    _, push = fg.linearize(lambda v: v * v * c, x)
    c += 1.0
    assert_array_equal(push(np.ones(n)), np.zeros(n))


@pytest.mark.parametrize("rows", [2, LARGE])
@pytest.mark.parametrize("write", ["view", "base"])
def test_views_are_kept_with_what_they_are_views_of(rows, write):
    base = np.ones((2, rows, 3))
    view = base[1].T

    def f(x, change):
        y = np.sum((view @ x[:rows]) ** 2) if rows > 2 else np.sum(x * view[0] * x)
        if change and write == "view":
            view[0, 0] = 9.0
        elif change:
            base[1] *= 0.0
        return y

    x = np.ones(rows)
    expected = fg.grad(lambda v: f(v, False))(x)
    if rows > 2:
        with pytest.raises(ItemAssignmentError):
            fg.grad(lambda v: f(v, True))(x)
        assert view.flags.writeable and base.flags.writeable
    else:
        assert_array_equal(fg.grad(lambda v: f(v, True))(x), expected)


def test_flags_are_put_back_as_they_were_also_after_errors():
    a, b, c = np.ones((3, LARGE))[0], np.ones(LARGE), np.ones(2 * LARGE)
    view = c[:LARGE]  # writeable over a read-only owner
    b.flags.writeable = False
    c.flags.writeable = False

    def f(x, fails):
        y = np.sum(x * x * a * b * view)
        assert not a.flags.writeable and not view.flags.writeable
        if fails:
            raise KeyError("of the user")
        return y + fg.grad(lambda v: np.sum(v * v * a))(x)[0]

    for fails in (False, True, False):
        try:
            fg.grad(f)(np.ones(LARGE), fails)
        except KeyError:
            assert fails
        flags = [v.flags.writeable for v in (a, b, c, view)]
        assert flags == [True, False, False, True]


def test_read_only_as_long_as_any_thread_needs_it():
    c = np.ones(LARGE)
    inside, done = threading.Event(), threading.Event()

    def waits(x):
        y = np.sum(x * c)
        inside.set()
        assert done.wait(60)
        return y

    user = threading.Thread(target=lambda: fg.grad(waits)(np.ones(LARGE)))
    user.start()
    assert inside.wait(60)
    assert_array_equal(fg.grad(lambda x: np.sum(x * c))(np.ones(LARGE)), c)
    assert not c.flags.writeable
    done.set()
    user.join()
    assert c.flags.writeable


def test_large_arrays_that_cannot_be_made_read_only_are_copied():
    class Foreign:  # memory of another library
        def __init__(self, array):
            self.array = array
            self.__array_interface__ = array.__array_interface__

    memory = np.ones(LARGE)
    c = np.asarray(Foreign(memory))
    assert c.base is not None and not isinstance(c.base, np.ndarray)
    wrong = fg.grad(lambda x: in_place(c, x))(np.ones(LARGE))
    assert_array_equal(wrong, fg.grad(lambda x: anew(np.ones(LARGE), x))(np.ones(LARGE)))


@pytest.mark.parametrize("mapped", [True, False])
def test_files_mapped_to_memory_and_buffers(mapped, tmp_path):
    if mapped:
        c = np.memmap(tmp_path / "numbers", float, "w+", shape=(LARGE,))
    else:
        c = np.frombuffer(bytearray(8 * LARGE), float)
    c[:] = 1.0
    with pytest.raises(ItemAssignmentError):
        fg.grad(lambda x: in_place(c, x))(np.ones(LARGE))
    c[:] = 2.0
    assert_array_equal(fg.grad(lambda x: np.sum(x * c))(np.ones(LARGE)), c)


def test_a_large_repeated_array_is_copied_as_one_element():
    once = np.array([3.0])
    repeated = np.broadcast_to(once, (1000 * LARGE,))
    kept = CopyingGuards()
    copy = kept.keep(repeated)
    kept.release()
    assert copy.strides == (0,) and copy[0] == 3.0 and not np.shares_memory(copy, once)


def test_no_copy_is_made_of_a_large_array():
    c = np.ones((LARGE, 2), order="F")
    kept = WriteGuards()
    assert kept.keep(c) is c and kept.keep(c) is c
    kept.release()
    small = kept.keep(c[:3].T)
    assert small.flags.f_contiguous == c[:3].T.flags.f_contiguous


@pytest.mark.parametrize("n", [4, LARGE])
@pytest.mark.parametrize("order", [1, 2])
def test_a_stopped_value_is_no_window_on_the_trace(n, order):
    def f(x):
        y = np.exp(x)
        stopped = fg.stop_gradient(y)
        if n < LARGE:
            stopped[:] = 0.0
        else:
            with pytest.raises(ValueError, match="read-only"):
                stopped[:] = 0.0
        return np.sum(y * y)

    x = np.linspace(0.0, 1.0, n)
    if order == 1:
        assert_allclose(fg.grad(f)(x), 2.0 * np.exp(2.0 * x))
        assert_allclose(fg.jvp(f, (x,), (x,))[1], np.sum(x * 2.0 * np.exp(2.0 * x)))
    else:
        assert_allclose(fg.hvp(f, (x,), (x,))[0], x * 4.0 * np.exp(2.0 * x))


@pytest.mark.parametrize("value", [np.nan, -0.0, 2.5])
@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.longdouble, complex])
def test_a_constant_that_was_written_into_while_it_was_traced(value, dtype):
    c = np.array([0.0, 1.0], dtype)

    def f(x):
        c[:] = [0.0, 1.0]
        y = x + 1.0 / (c + 1.0)
        c[0] = value
        return y + np.copysign(1.0, c.real) if dtype is not complex else y + c

    x = np.ones(2)
    assert_array_equal(fg.jit(f)(x), f(x))
    assert_array_equal(fg.evaluate(fg.make_jaxpr(f)(x), x)[0], f(x))


@pytest.mark.parametrize(
    "dtype", [bool, np.int8, np.float16, float, np.longdouble, complex, np.clongdouble, "M8[s]"]
)
def test_bits_are_compared(dtype):
    x = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype)
    assert same_bits(x, x.copy()) and same_bits(x[:, ::2], x[:, ::2].copy())
    assert same_bits(x[0, 0:1].reshape(()), x[0, 0:1].copy().reshape(()))
    changed = x.copy()
    changed[1, 2] = x[0, 1]
    assert not same_bits(x, changed) and not same_bits(x, x[:1])
    if x.dtype.kind in "fc":
        for special in (np.nan, -0.0):
            changed[1, 0] = special
            assert same_bits(changed, changed.copy()) and not same_bits(changed[1:, :1], x[1:, :1])


def test_what_user_code_gets_to_read():
    small, large = np.ones(3), np.ones(LARGE)
    assert own(1.0) == 1.0
    assert own(small).flags.writeable and not np.shares_memory(own(small), small)
    assert not own(large).flags.writeable and np.shares_memory(own(large), large)
