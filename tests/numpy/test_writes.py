"""Writes into traced arrays, and the views that see them."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from fuzz.writes import CONTEXTS, Program, check

import fungrad as fg
from fungrad import extend
from fungrad.errors import (
    AbstractValueError,
    GradientCutError,
    ItemAssignmentError,
    LeakedTracerError,
)
from fungrad.primitives.movement import scatter
from fungrad.tracing import in_place as counted

X = np.array([0.5, 1.5, 2.0])


def same_as_numpy(f, *args, order=2):
    """Compares the value of f with NumPy's, and its derivatives in all modes with each other."""
    expected = f(*[np.array(a) for a in args])
    np.testing.assert_array_equal(fg.vjp(f, *args)[0], expected)
    np.testing.assert_allclose(fg.jit(f)(*args), expected, rtol=1e-14)  # jit may regroup
    stacked = [np.stack([a, a]) for a in args]
    np.testing.assert_array_equal(fg.vmap(f)(*stacked)[1], expected)
    fg.testing.check_grads(f, args, order=order)


# --- aliases --------------------------------------------------------------------------------------


def _second_name(x):
    y = x
    y += 1.0
    return np.sum(x * x)


def _view_scaled(x):
    v = x[:2]
    v *= 10.0
    return np.sum(x**2)


def _in_a_function(x):
    def scale(v):
        v *= x[1]

    scale(x)
    return np.sum(x)


def _history(x):
    u, found = x * 2.0, []
    for _ in range(3):
        u *= 1.1
        found.append(u)
    return np.sum(np.stack(found) ** 2)


def _element(x):
    x[0] = x[1] * x[2]
    x[-1] += x[0]
    return np.sum(x * x)


def _by_arrays(x):
    x[[0, 2]] *= x[1]
    x[x > 1.6] = x[0]
    x[np.array([0, 0, 1])] = x
    return np.sum(x * x * x)


def _overlapping(x):
    x[1:] = x[:-1] * 2.0
    x[::-1] = x * x
    return np.sum(x * np.arange(3.0))


def _whole(x):
    y = x * 1.0
    y[...] = x[0]
    y[()] += x
    return np.sum(y**2)


ALIASES = [_second_name, _view_scaled, _in_a_function, _history, _element, _by_arrays, _overlapping]


@pytest.mark.parametrize("f", [*ALIASES, _whole], ids=lambda f: f.__name__.strip("_"))
def test_writes_reach_every_name(f):
    same_as_numpy(f, X)


def _transposed(m):
    m.T[0, 1] = m[1, 1]
    return np.sum(m**2)


def _raveled(m):
    flat = m.ravel()
    flat[4] *= 2.0
    m[0] += flat[4]
    return np.sum(m * flat.reshape(m.shape))


def _copied(m):
    flat = m.T.ravel()
    flat[1] = 7.0
    flatter = m.flatten()
    flatter[0] = 8.0
    return np.sum(m**2) + np.sum(flat**3) + flatter[0]


def _of_a_view(m):
    row = m[1:]
    part = row[:, ::2]
    part[...] = part * m[0, 0]
    part += 1.0
    m[1, 0] = 3.0
    return np.sum(part**2) + np.sum(row * m[:2])


def _rows(m):
    for row in m:
        row += m[0]
        m[-1, 0] += row[1]
    return np.sum(m**2)


def _numbers(m):
    total = 0.0
    for number in m[0]:
        m[0, -1] += number
        total = total + number * number
    return total


def _split(m):
    left, right = np.split(m, [1], axis=1)
    left *= right[:, :1]
    right[0] = left[1]
    return np.sum(m**3)


def _expanded(m):
    np.expand_dims(m, 0)[0, 1] *= m[0]
    np.squeeze(m[:, :1])[1] = m[0, 0]
    np.atleast_3d(m)[0, 0, 0] *= 2.0
    np.swapaxes(m, 0, 1)[0] += 1.0
    np.moveaxis(m, 0, 1)[1] -= m[:, 0]
    return np.sum(m**2)


def _viewed(m):
    m.view()[0] *= 3.0
    z = m + 1j * m
    pairs = z.view(float)
    pairs[:, 1] += 1.0
    z[0, 0] *= 2.0
    return np.sum(pairs**3) + np.sum(z.real * z.imag)


MATRICES = [
    _transposed, _raveled, _copied, _of_a_view, _rows, _numbers, _split, _expanded, _viewed,
]  # fmt: skip


@pytest.mark.parametrize("f", MATRICES, ids=lambda f: f.__name__.strip("_"))
def test_views_and_bases_see_each_other(f):
    same_as_numpy(f, np.array([[0.5, 1.5, 2.0], [1.25, 0.75, 0.5]]))


def test_a_copy_sees_nothing():
    def f(x):
        copies = [x.copy(), np.copy(x), x.astype(float), +x, x[[0, 1, 2]], x.flatten()]
        x[0] = 100.0
        for c in copies:
            c[1] *= 3.0
        return sum(np.sum(c) for c in copies)

    same_as_numpy(f, X)


# --- where a write ends ---------------------------------------------------------------------------


def test_the_arguments_are_private_copies():
    def f(x):
        x[0] = 9.0
        x *= 2.0
        return np.sum(x)

    x = X.copy()
    for transform in (fg.grad, fg.jit, fg.jacfwd, fg.checkpoint(fg.grad)):
        transform(f)(x)
    np.testing.assert_array_equal(x, X)

    def outer(x, transform):
        inner = transform(f)(x)
        return np.sum(x * x) + np.sum(inner)

    for transform in (fg.jit, fg.checkpoint, fg.grad):
        found = fg.grad(lambda x, t=transform: outer(x, t))(x)
        expected = 2 * X + (0 if transform is fg.grad else np.array([0.0, 2.0, 2.0]))
        np.testing.assert_array_equal(found, expected)


def test_a_write_into_an_array_of_an_outer_transform():
    def f(x):
        c = x * 2.0

        def inner(z):
            c[0] = z
            return z * c[0]

        slope = fg.grad(inner)(3.0)
        return slope * np.sum(c)

    with pytest.raises(LeakedTracerError, match="written into inside of it"):
        fg.grad(f)(X)


def test_a_body_does_not_write_into_what_it_captures():
    def f(x):
        c = x * 2.0

        def body(carry, i):
            c[0] = carry
            return carry, None

        return fg.lax.scan(body, x[0], np.arange(3))[0]

    for transform in (fg.grad, fg.jit):
        with pytest.raises(ItemAssignmentError, match=r"test_writes.py:\d+ \(body\).*outside of"):
            transform(f)(X)


def test_an_array_that_vmap_wrote_into_once_is_not_used_again():
    def f(x):
        c = x * 2.0

        def example(z):
            c[0] += 1.0
            return z * c[0]

        y = fg.vmap(example)(x)
        return np.sum(y) + c[0]

    with pytest.raises(LeakedTracerError, match="written into inside of it"):
        fg.grad(f)(X)


def test_a_float_is_not_rounded_silently():
    def f(x, k):
        k[0] = x[1]
        return np.sum(x * k)

    with pytest.raises(GradientCutError, match=r"round them and cut their gradient"):
        fg.jit(f)(X, np.arange(3))


def test_numpys_errors():
    for write, error, match in (
        (lambda x: x.__iadd__(np.ones((2, 3))), ValueError, "non-broadcastable output"),
        (lambda x: x.__iadd__(1j), TypeError, "same_kind"),
        (lambda x: x.__setitem__(3, 1.0), IndexError, "out of bounds"),
        (lambda x: x.__setitem__(slice(2), X), ValueError, "cannot be written"),
    ):
        with pytest.raises(error, match=match):
            fg.jit(write)(X)


# --- writes in place ------------------------------------------------------------------------------


Y = np.array([0.5, 1.5, 2.0])


@pytest.fixture
def in_place(monkeypatch):
    """Whether each write so far was done in place."""
    found = []

    def spy(x):
        given = counted.to_change(x)
        found.append(given is not None)
        return given

    monkeypatch.setattr(scatter, "to_change", spy)
    return found


TRANSFORMS = {
    "vjp": lambda f, x: fg.vjp(f, x)[0],
    "grad of grad": lambda f, x: fg.grad(lambda y: np.sum(fg.grad(lambda z: np.sum(f(z)))(y)))(x),
    "jvp": lambda f, x: fg.jvp(f, (x,), (np.ones_like(x),))[1],
    "vmap": lambda f, x: fg.vmap(f)(np.stack([x, 2.0 * x])),
}


def _filled(x):
    out = x * 0.0
    for i in range(len(x)):
        out[i] = np.sin(x[i]) * x[-1]
    return out


@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_nobody_else_holds_is_written_into_in_place(name, in_place):
    x = np.linspace(0.1, 1.0, 20)
    expected = TRANSFORMS[name](lambda x: np.sin(x) * x[-1], x)
    np.testing.assert_allclose(TRANSFORMS[name](_filled, x), expected, rtol=1e-12)
    if sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)():
        writes = [*range(20)]
        assert sum(in_place) >= len(writes) - 1, name


def _held_by_a_residual(x):
    out = x * 2.0
    y = np.sin(out)
    out[0] = x[1]
    return np.sum(y * out)


def _held_as_an_output(x):
    out = np.exp(x)
    out[0] = x[1]
    return np.sum(out * np.sum(x))


def _held_by_a_copy(x):
    out = x * 2.0
    before = np.array(out)
    out[1:] = x[0]
    return np.sum(before * out)


def _held_by_a_view(x):
    out = x * 2.0
    tail = out[1:]
    out[1] = x[0] ** 2
    return np.sum(tail**3)


def _updated_functionally(x):
    out = x * 2.0
    new = fg.numpy.at(fg.numpy.at(out)[0].set(x[1]))[1].add(x[2])
    return np.sum(out * new)


def _with_itself(x):
    out = x * 2.0
    out[...] = out
    out[np.array([2, 0, 1])] = out
    return np.sum(out * x)


def _with_index_arrays(x):
    out = x * 2.0
    out[np.array([0, 2, 0])] = x**2
    out[out > 2.0] = x[0]
    return np.sum(out * x)


def _of_what_a_block_stopped(x):
    out = x * 2.0
    known = fg.stop_gradient(out)
    out[0] = x[1] ** 2
    return np.sum(known * out)


@pytest.mark.parametrize(
    "f",
    [
        _held_by_a_residual,
        _held_as_an_output,
        _held_by_a_copy,
        _held_by_a_view,
        _updated_functionally,
        _with_itself,
        _with_index_arrays,
        _of_what_a_block_stopped,
    ],
)
def test_what_somebody_else_holds_is_copied_first(f):
    with pytest.MonkeyPatch.context() as without:
        without.setattr(counted, "COUNTED", False)
        value, gradient = fg.value_and_grad(f)(Y)
        forward = fg.jvp(f, (Y,), (Y,))
    found = fg.value_and_grad(f)(Y)
    np.testing.assert_array_equal(found[0], value)
    np.testing.assert_array_equal(found[1], gradient)
    np.testing.assert_array_equal(fg.jvp(f, (Y,), (Y,)), forward)
    if f is not _of_what_a_block_stopped:
        same_as_numpy(f, Y)


@pytest.mark.parametrize("size", [3, 3000])  # small arrays are copied by a trace, large ones kept
def test_no_array_of_the_user_is_written_into(size, in_place):
    x = np.linspace(0.1, 1.0, size)
    constant = np.ones(size)
    before = x.copy()

    def f(x):
        x[0] = 3.0
        y = x * constant
        y[1] = x[2]
        return np.sum(y**2)

    for run in (
        lambda: fg.grad(f)(x),
        lambda: fg.jvp(f, (x,), (constant,)),
        lambda: fg.vmap(f)(x[None]),
        lambda: fg.vmap(fg.grad(f))(x[None]),
    ):
        run()
        np.testing.assert_array_equal(x, before)
        np.testing.assert_array_equal(constant, np.ones(size))


def test_an_array_is_not_overwritten_by_way_of_itself():
    def f(i):
        j = i + 0
        j[j] = i * 10
        return j

    x = np.array([[2, 0, 1], [1, 2, 0]])
    np.testing.assert_array_equal(fg.vmap(f)(x), [f(row) for row in x])


def _frozen_eval(x):
    y = x * 1.0
    y.flags.writeable = False
    return y


frozen = extend.general(
    "frozen",
    eval=_frozen_eval,
    type=lambda x: x,
    vjp=lambda ct, y, args, wanted: [ct],
    batch=lambda args, batched, size: frozen(args[0]),
)


def test_an_array_that_is_read_only_is_copied():
    def f(x):
        y = frozen(x)
        y[0] = x[1] * 3.0
        return np.sum(y)

    np.testing.assert_array_equal(fg.grad(f)(Y), [0.0, 4.0, 1.0])
    np.testing.assert_array_equal(fg.vmap(f)(Y[None]), [4.5 + 1.5 + 2.0])


def test_cotangents_of_what_was_overwritten_are_cleared_in_place():
    def f(x):
        out = x * x
        for i in range(len(x)):
            out[i] = out[i] * out[i - 1]  # reads and writes in turn
        y = fg.numpy.at(out)[np.array([1, 1])].add(x[:2])
        return np.sum(y * x)

    check = np.linspace(0.5, 1.5, 6)
    np.testing.assert_allclose(fg.grad(f)(check), fg.jit(fg.grad(f))(check), rtol=1e-12)
    fg.testing.check_grads(f, (check,), order=2)


def test_without_counts_of_references_every_write_copies(monkeypatch, in_place):
    monkeypatch.setattr(counted, "COUNTED", False)
    np.testing.assert_allclose(fg.vjp(_filled, Y)[0], np.sin(Y) * Y[-1])
    assert in_place and not any(in_place)


def test_a_broadcast_view_of_an_array_made_while_tracing():
    def f(x):
        made = np.full((3,), -1.5)
        view = np.broadcast_to(made, (2, 3))
        made[0] = x[0]
        return np.sum(view * x)

    same_as_numpy(f, X)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_random_programs_of_writes_and_views(part):
    for seed in range(part, 80, 5):
        check(Program(seed), (CONTEXTS[part],))


def test_ravel_of_what_lies_in_another_order_is_a_copy():
    def f(x):
        turned = x.T * 1.0  # in F order, as its operand
        flat = turned.ravel()
        flat[1] = 100.0
        np.add.at(turned, [0, 1], 1.0)
        return np.sum(turned * np.arange(6.0).reshape(3, 2)) + np.sum(flat)

    x = np.arange(6.0).reshape(2, 3)
    assert fg.value_and_grad(f)(x)[0] == f(x)
    assert fg.vmap(f)(x[None])[0] == f(x)
    fg.testing.check_grads(f, [x.copy()], modes=["rev"], order=1)


def test_an_array_keeps_its_order_in_memory_when_a_view_is_written():
    def f(x):
        np.fill_diagonal(x.T, 7.0)
        flat = x.ravel()  # still a view
        x *= 2.0
        return np.sum(flat * np.arange(6.0))

    x = np.arange(6.0).reshape(2, 3)
    assert fg.value_and_grad(f)(x)[0] == f(x.copy())


# --- masks that are not known ---------------------------------------------------------------------

MASK_X = np.array([1.0, -2.0, 3.0, 0.5])
MASK_Y = np.array([1.5, 4.0, 9.0, 0.25])


def _by_two_masks(x, y):
    z = x * 1.0
    z[z > 0] = y[z > 0]
    return z


def _by_composed_masks(x, y):
    out = x * 1.0
    out[(x > 0) & ~(y < 1.0)] *= y[(x > 0) & ~(y < 1.0)]
    return out


def _into_zeros(x, y):
    out = np.zeros(4)
    out[x > 0] += np.sqrt(y[x > 0])
    return out


def _into_zeros_by_both(x, y):
    out = np.zeros(4)
    mask = x > 0
    out[mask] += 2.0 * y[mask]
    out[~mask] -= y[~mask]
    return out * x


def _numbers_into_zeros(x, y):
    out = np.zeros(4)
    out[x > 0] += 3.0
    return out * y


def _into_a_row(x, y):
    out = np.zeros((2, 4))
    out[0][x > 0] += y[x > 0]
    out[1, x > 0] = y[x > 0]
    out[1, x > 0] -= 0.5
    return out * x


def _after_a_write(x, y):
    z = x * 1.0
    z[z > 0] -= 0.7
    z[z > 0] = y[z > 0]
    return z


MASKED = [
    _by_two_masks, _by_composed_masks, _into_zeros, _into_zeros_by_both, _numbers_into_zeros,
    _into_a_row, _after_a_write,
]  # fmt: skip


@pytest.mark.parametrize("f", MASKED, ids=lambda f: f.__name__[1:])
def test_equal_masks_are_one_mask(f):
    x, y = MASK_X, MASK_Y
    expected = f(x, y)
    stacks = np.stack([x, x[::-1]]), np.stack([y, y[::-1]])
    batched = np.stack([expected, f(x[::-1], y[::-1])])
    same_as_numpy(f, x, y)
    np.testing.assert_array_equal(fg.jit(f, branches="guard")(x, y), expected)
    np.testing.assert_array_equal(fg.vmap(f)(*stacks), batched)
    np.testing.assert_array_equal(fg.jit(fg.vmap(f))(*stacks), batched)
    for jacobian in (fg.jacrev, fg.jacfwd):
        of_both = jacobian(f, argnums=(0, 1))
        wanted = of_both(x, y)
        for found in (
            fg.jit(of_both)(x, y),
            jacobian(fg.jit(f), argnums=(0, 1))(x, y),
            [both[0] for both in fg.vmap(of_both)(*stacks)],
        ):
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-14)


def _of_an_older_value(x):
    z = x * 1.0
    kept = z[z > 0]
    z -= 2.0
    z[z > 0] = kept
    return z


def _of_another_limit(x):
    z = x * 1.0
    z[x > 0.0] = x[x > 0.5]
    return z


def _of_the_other_sign(x):
    z = x * 1.0
    z[x > -0.0] = x[x > 0.0]
    return z


@pytest.mark.parametrize("f", [_of_an_older_value, _of_another_limit, _of_the_other_sign])
def test_masks_that_may_differ_are_told_apart(f):
    with pytest.raises(AbstractValueError, match="boolean index"):
        fg.jit(f, branches="error")(MASK_X)


def test_masks_of_a_batch_are_compared_by_their_values():
    def f(x, limit):
        z = x * 1.0
        z[x > 0.0] = x[x > limit]
        return z

    stack = np.stack([MASK_X, -MASK_X])
    np.testing.assert_array_equal(fg.vmap(f, in_axes=(0, None))(stack, 0.2), stack)
    with pytest.raises(AbstractValueError, match="boolean index"):
        fg.vmap(f, in_axes=(0, None))(stack, 0.7)


def test_plain_arrays_made_while_tracing_are_read_by_traced_integers():
    def f(x, i):
        table = np.arange(12.0).reshape(3, 4)
        row = table[i]
        row[1] = x
        return row * table[i, 2] + table[0, 0]

    expected = np.array([4.0, 2.5, 6.0, 7.0]) * 6.0
    for i in (1, np.array(1)):
        np.testing.assert_array_equal(fg.jit(f)(2.5, i), expected)
        np.testing.assert_array_equal(
            fg.vmap(f, in_axes=(0, None))(np.full(2, 2.5), i)[1], expected
        )
    rows = fg.vmap(f, in_axes=(None, 0))(2.5, np.array([1, 2]))
    np.testing.assert_array_equal(rows, [f(2.5, 1), f(2.5, 2)])
