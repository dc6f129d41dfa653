"""Who sees a write through another shape: NumPy's views and copies, which the order of axes in
memory decides. Eager, compiled and batched programs give NumPy's values, or say that it is unknown.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import fungrad as fg
from fungrad.errors import LeakedTracerError, UnsupportedArgumentError
from fungrad.tracing.memory_order import axes_of, by_rows, dense, reshaped

X = np.arange(1.0, 25.0).reshape(2, 3, 4)

ORDERS = {
    "C": lambda x: x * 1.0,
    "F": lambda x: x.transpose(2, 1, 0).copy().transpose(2, 1, 0),
    "last two turned": lambda x: x.transpose(0, 2, 1).copy().transpose(0, 2, 1),
    "first two turned": lambda x: x.transpose(1, 0, 2).copy().transpose(1, 0, 2),
    "in a ring": lambda x: x.transpose(1, 2, 0).copy().transpose(2, 0, 1),
    "made in F": lambda x: np.array(x, order="F"),
    "backwards": lambda x: (x * 1.0)[:, ::-1],
    "with gaps": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "broadcast": lambda x: np.broadcast_to(x[:1], (2, 3, 4)),
}

MAKES = {
    "itself": lambda x: x,
    "elementwise": lambda x: np.exp(x * 0.1) + 1.0,
    "with rows": lambda x: x * x[0, 0],
    "mixed": lambda x: x + np.ones(x.shape),
    "mixed the other way": lambda x: np.ones(x.shape) * x,
    "mixed turned": lambda x: x[:, :2, :2] * x[:, :2, :2].transpose(2, 1, 0),
    "transpose": lambda x: x.T * 1.0,
    "compared": lambda x: np.where(x > 3.0, x, -x),
    "sum": lambda x: np.sum(x, 0),
    "sum inside": lambda x: x.mean(1),
    "largest": lambda x: np.max(x, axis=2, keepdims=True),
    "cumsum": lambda x: np.cumsum(x, 1),
    "concatenate": lambda x: np.concatenate([x, x], 1),
    "concatenate mixed": lambda x: np.concatenate([np.ones(x.shape), x]),
    "stack": lambda x: np.stack([x, x], 1),
    "stack last": lambda x: np.stack([x, x * 2], -1),
    "stack rows last": lambda x: np.stack([x[0, 0], x[1, 1]], -1),
    "matmul": lambda x: x @ np.ones((4, 2)),
    "outer": lambda x: x[0, 0][:, None] * x[0, 0],
    "einsum": lambda x: np.einsum("aij,aik->akj", x, x),
    "index arrays": lambda x: x[:, [0, 2]],
    "index arrays apart": lambda x: x[[0, 1], :, [1, 0]],
    "take": lambda x: np.take(x, [0, 1], 1),
    "mask": lambda x: x[np.array([True, True])],
    "slices": lambda x: x[:, 1:] * 1.0,
    "new axis": lambda x: x[:, None] * 1.0,
    "flip": lambda x: np.flip(x, 0) + 0.0,
    "roll": lambda x: np.roll(x, 1, 0),
    "copy": lambda x: x.copy(),
    "np.copy": lambda x: np.copy(x),
    "np.array": lambda x: np.array(x),
    "np.array in F": lambda x: np.array(x, order="F"),
    "contiguous": lambda x: np.ascontiguousarray(x),
    "Fortran": lambda x: np.asfortranarray(x),
    "required": lambda x: np.require(x, requirements="F"),
    "astype": lambda x: x.astype(np.float32).astype(np.float64),
    "zeros_like": lambda x: np.zeros_like(x) + x,
    "ones_like written": lambda x: _written(np.ones_like(x), x),
    "full_like": lambda x: np.full_like(x, 2.0),
    "reshape": lambda x: x.reshape(2, 2, 6) * 1.0,
    "reshape in F": lambda x: x.reshape((6, 4), order="F") * 1.0,
    "gradient": lambda x: np.gradient(x, axis=0),
    "pad": lambda x: np.pad(x, 1),
    "delete": lambda x: np.delete(x, 0, 1),
    "adopted": lambda x: _filled(np.zeros(x.shape) + x[0, 0, 0], x),
    "added into": lambda x: _added(np.zeros(x.shape) + x[0, 0, 0], x),
    "cross": lambda x: np.cross(x[..., :3], x[..., 1:]),
    "clip": lambda x: np.clip(x, 2.0, 9.0),
}

WRITES = {
    "ravel": lambda y: y.ravel(),
    "reshape": lambda y: y.reshape(-1, 2),
    "reshape in F": lambda y: y.reshape((-1,), order="F"),
    "ravel of transpose": lambda y: y.T.ravel(),
    "reshape of a part": lambda y: y[:, 1:].reshape(-1),
}


def _written(a, x):
    a[0] = x[0, 0, 0]
    return a * 1.0


def _filled(y, x):
    y[...] = x
    return y * 1.0


def _added(y, x):
    y += x
    return y * 1.0


def _program(order, make, view):
    def program(x):
        y = make(order(x))
        if isinstance(y, np.ndarray) and not y.flags.writeable:
            return np.sum(y)
        v = view(y)
        v[1:2] = 50.0
        y[0] += x[0, 0, 0]
        y[-1] *= 2.0
        return np.sum(y * np.arange(y.size).reshape(y.shape)) + np.sum(v * 3.0) + 0.0 * x[0, 0, 0]

    return program


@pytest.mark.parametrize("view", WRITES)
@pytest.mark.parametrize("order", ORDERS)
def test_writes_are_seen_as_numpy_has_it(order, view):
    turn = [*ORDERS].index(order) + [*WRITES].index(view)  # each pair of an order and a make is met
    for name, make in list(MAKES.items())[turn % 4 :: 4]:
        program = _program(ORDERS[order], make, WRITES[view])
        try:
            expected = program(X)
        except ValueError:  # read-only
            continue
        found, _ = fg.vjp(program, X)
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=name)
        if order == "broadcast" and name in ("np.copy", "np.array"):
            continue
        np.testing.assert_allclose(fg.jit(program)(X), expected, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("make", ["transpose", "stack last", "concatenate", "sum", "take"])
def test_in_batches_and_in_loops(make):
    for order in ("C", "F", "in a ring"):
        program = _program(ORDERS[order], MAKES[make], WRITES["ravel"])
        expected = [program(X), program(X * 0.5)]
        rows = np.stack([X, X * 0.5])
        np.testing.assert_allclose(fg.vmap(program)(rows), expected)
        np.testing.assert_allclose(fg.jit(fg.vmap(program))(rows), expected)
        looped = fg.jit(lambda xs, f=program: fg.lax.scan(lambda c, x: (c, f(x * 1.0)), 0.0, xs)[1])
        np.testing.assert_allclose(looped(rows), expected)


def test_an_argument_in_another_order_is_refused_where_it_counts():
    def program(x):
        v = x.reshape(-1)
        v[0] = 5.0
        return x * 2.0

    def reader(x):
        return x.reshape(-1) * 2.0

    m = np.arange(6.0).reshape(2, 3)
    compiled = fg.jit(program)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(m)[0], [10.0, 2.0, 4.0])
        with pytest.raises(UnsupportedArgumentError, match=r"argument x .* C order"):
            compiled(np.asfortranarray(m))
    with pytest.raises(UnsupportedArgumentError, match="C order"):
        fg.grad(lambda x: np.sum(compiled(x)))(np.asfortranarray(m))
    np.testing.assert_array_equal(fg.jit(reader)(np.asfortranarray(m)), m.reshape(-1) * 2.0)


def test_an_unknown_order_is_refused_once_both_sides_are_used():
    def program(x, keep):
        y = np.fft.fft(x).real * 1.0
        v = y.reshape(-1)
        v[0] = 5.0
        return np.sum(v) + (np.sum(y) if keep else 0.0)

    m = np.arange(6.0).reshape(2, 3)
    assert fg.jit(lambda x: program(x, False))(m) == pytest.approx(program(m, False))
    with pytest.raises(LeakedTracerError, match=r"test_memory_order.py:\d+ .*\.copy\(\)"):
        fg.jit(lambda x: program(x, True))(m)

    def into_base(x):
        y = np.fft.fft(x).real * 1.0
        v = y.ravel()
        y[0] = 5.0
        return np.sum(v)

    with pytest.raises(LeakedTracerError, match="view or a copy"):
        fg.jit(into_base)(m)


def test_strides_of_other_shapes_are_numpys():
    random = np.random.default_rng(0)
    for _ in range(300):
        shape = tuple(random.choice([1, 2, 3, 4], random.integers(1, 5)).tolist())
        axes = random.permutation(len(shape))
        array = np.zeros([shape[a] for a in axes]).transpose(np.argsort(axes))
        array = array[tuple([slice(None, None, int(random.choice([1, 1, 2]))) for _ in shape])]
        strides = tuple([n // 8 for n in array.strides])
        assert by_rows(array.shape, strides) == np.array(array, order="K").flags.c_contiguous
        sizes = [d for d in range(1, array.size + 1) if array.size % d == 0]
        new = (int(random.choice(sizes)),)
        new = (*new, array.size // new[0])
        view = array.reshape(new)
        found = reshaped(array.shape, strides, new)
        assert (found is not None) == np.shares_memory(view, array)
        if found is not None:
            other = as_strided(array, new, [8 * n for n in found])
            np.testing.assert_array_equal(other, view)
    assert dense((2, 3, 4)) == (12, 4, 1)
    assert axes_of((2, 1, 3), (1, 99, 2)) == [2, 1, 0]


READS = {
    "ravel in K": lambda y: np.ravel(y, order="K"),
    "ravel in A": lambda y: y.ravel("A"),
    "flatten in k": lambda y: y.flatten("k"),
    "reshape in A": lambda y: y.reshape((-1, 1), order="A"),
    "transpose in K": lambda y: np.ravel(y.T, "K"),
    "transpose in A": lambda y: np.ravel(y.T, "a"),
    "backwards": lambda y: y[::-1].ravel("K"),
    "a part in A": lambda y: y[1:].ravel("A"),
}


@pytest.mark.parametrize("order", ORDERS)
def test_elements_are_read_in_the_order_of_memory_as_numpy_reads_them(order):
    known = dict.fromkeys(READS, 0)
    for name, make in MAKES.items():

        def program(x, reads, make=make):
            y = make(ORDERS[order](x))
            return {read: READS[read](y) for read in reads}

        def check(found, expected, name=name):
            for read, value in found.items():
                np.testing.assert_array_equal(value, expected[read], err_msg=f"{name}, {read}")
                known[read] += 1

        expected = program(X, READS)
        try:
            check(fg.vjp(lambda x: program(x, READS), X)[0], expected)
            staged = [*READS]
        except UnsupportedArgumentError:
            staged = []
            for read in READS:
                try:
                    check(fg.vjp(lambda x, r=read: program(x, [r]), X)[0], expected)
                except UnsupportedArgumentError:
                    continue
                staged.append(read)
        # What is known eagerly is one program, which is compiled once, unless a part is refused.
        for reads in (staged, *[[r] for r in READS if r not in staged]):
            try:
                check(fg.jit(lambda x, reads=reads: program(x, reads))(X), expected)
            except UnsupportedArgumentError:
                for read in reads if len(reads) > 1 else ():
                    try:
                        check(fg.jit(lambda x, r=read: program(x, [r]))(X), expected)
                    except UnsupportedArgumentError:
                        continue
    assert min(known.values()) > len(MAKES)


@pytest.mark.parametrize("order", ["K", "A"])
def test_arguments_are_read_in_the_order_of_memory_or_refused(order):
    m = np.arange(6.0).reshape(2, 3)
    deep = np.arange(12.0).reshape(2, 3, 2)
    gaps = deep[..., 0]

    def program(x):
        return np.ravel(x.T, order)

    compiled = fg.jit(program)
    for given in (m, deep, np.broadcast_to(1.0, (2, 3)), gaps, np.asfortranarray(m)):
        for run in (lambda x: fg.vjp(program, x)[0], compiled, fg.jit(lambda x: compiled(x))):
            try:
                found = run(given)
            except UnsupportedArgumentError as error:
                assert given is not m and given is not deep, error
                continue
            # An argument is a copy without gaps.
            np.testing.assert_array_equal(found, program(np.array(given, order="K")))
    np.testing.assert_array_equal(fg.vmap(compiled)(deep), [program(x) for x in deep])
    with pytest.raises(UnsupportedArgumentError, match=r"argument x .* C order"):
        compiled(np.asfortranarray(m))
    with pytest.raises(UnsupportedArgumentError, match=r"order=.*test_memory_order.*not known"):
        fg.make_jaxpr(program)(m)


def test_what_is_raveled_in_memory_order_is_a_view_where_numpy_gives_one():
    def program(x):
        y = x * 1.0
        v = np.ravel(y.T, order="K")
        v[0] = 7.0
        w = np.ravel(y.T[::-1], order="K")
        w[1] = 8.0
        z = y.T.ravel(order="f")
        z[2] = 9.0
        return y

    np.testing.assert_array_equal(fg.vjp(program, X[0])[0], program(X[0]))
    np.testing.assert_array_equal(fg.jit(program)(X[0]), program(X[0]))


def test_a_compiled_function_that_calls_one_counts_on_the_same_order():
    def program(x):
        v = x.reshape(-1)
        v[0] = 5.0
        return x * 2.0

    inner = fg.jit(program)
    m = np.arange(6.0).reshape(2, 3)
    for outer in (fg.jit(lambda x: inner(x)), fg.jit(lambda x: inner(x * 1.0))):
        np.testing.assert_array_equal(outer(m), program(m.copy()))
        with pytest.raises(UnsupportedArgumentError, match="C order"):
            outer(np.asfortranarray(m))
    with pytest.raises(UnsupportedArgumentError, match="without gaps"):
        inner(np.repeat(m, 2, 1)[:, ::2])
