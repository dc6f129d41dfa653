"""How an array comes does not matter: pickled, from a file, in the other byte order, unaligned,
read-only, as a subclass, from another process. Each program has to give the plain array's results.

An array in another way is the first that a program sees (it is traced and compiled for it) or a
later one (the program is there); each argument alone, and all of them.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from arrivals import WAYS, applies

import fungrad as fg
from fungrad.errors import ArgumentError, UnsupportedArgumentError
from fungrad.ir.canonical import NUMBERS, canonical, canonical_dtype
from fungrad.runtime import buffer_pool

RNG = np.random.default_rng(7)
FIRST = (
    "pickled, protocol 5", "dtype copied", "dtype with metadata", "long long", "big-endian",
    "big-endian, in a file", "mapped, r", "read-only", "unaligned", "packed record", "Fortran",
    "strided", "reversed", "broadcast", "subclass", "another process",
)  # fmt: skip
"""The ways for which a program is compiled anew: half of them for each, in turn."""
ANEW = ("captured", "exported", "evaluated", "scan")
"""The programs that every call compiles anew."""


@pytest.fixture(autouse=True)
def _spoiled_buffers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fills the memory of buffers with NaN: what a program does not write is not right by luck."""
    take = buffer_pool.take

    def spoiled(size: int) -> buffer_pool.Arena:
        arena = take(size)
        arena.memory[:] = 255
        return arena

    monkeypatch.setattr(buffer_pool, "take", spoiled)
    yield


def nll(w: Any, x: Any, y: Any) -> Any:
    z = x @ w
    return np.sum(np.logaddexp(0, z) - y * z)


def squares(w: Any, x: Any, y: Any) -> Any:
    return np.sum((x @ w - y) ** 2)


def network(w: Any, x: Any, y: Any) -> Any:
    return np.sum((np.tanh(x @ w["a"] + w["b"]) @ w["c"] - y) ** 2)


def fused(x: Any, y: Any) -> Any:
    return np.sin(x) * y + np.exp(-x * x)


def total(x: Any, y: Any) -> Any:
    return np.sum(fused(x, y))


def softmax(x: Any, y: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum(y * e / np.sum(e, axis=1, keepdims=True))


def step(h: Any, x: Any) -> Any:
    h = np.tanh(h * 0.5 + x)
    return h, h * x


def scanned(c: Any, xs: Any) -> Any:
    return fg.lax.scan(step, c, xs)


def scan_slopes(c: Any, xs: Any) -> Any:
    return fg.grad(lambda c, xs: np.sum(scanned(c, xs)[1]), (0, 1))(c, xs)


def until(x: Any, y: Any) -> Any:
    return fg.lax.while_loop(
        lambda s: np.sum(s[0]) < 1e3,
        lambda s: (s[0] * 1.5 + abs(s[1]), s[1] * 1.0),
        (np.abs(x) + 1.0, y),
    )


def numbers(x: Any, y: Any) -> Any:
    return x * y + np.sin(x) / (2.0 + y * y)


def moved(x: Any, y: Any) -> Any:
    joined = np.concatenate([x, y[::-1]])
    return joined, np.transpose(x), np.reshape(y, -1)[::2], np.where(x > 0, x, y)


def reduced(x: Any, y: Any) -> Any:
    return np.sum(x), np.cumsum(y, axis=0), np.maximum(x, y), np.sort(x, axis=None)


def indexed(i: Any, x: Any) -> Any:
    return x[i % x.shape[0]] * 2.0, i * 3 + 1, i / 2


def written(x: Any, y: Any) -> Any:
    a = np.zeros(len(x), x.dtype)
    a[2:] = x[2:] * y[2:]
    a += y
    z = x * 1
    z[3] = 7.0
    z[4] *= y[0]
    return np.sum(a**2) + np.sum(z**2)


crossed = fg.sparse.jacobian(lambda x, y: np.sin(x) * x[::-1] + y)


def captured(x: Any, y: Any) -> Any:
    """The arrays are no arguments of the compiled function."""
    w = np.linspace(-1, 1, x.shape[1])
    return fg.jit(fg.value_and_grad(lambda w: np.sum(np.sin(x @ w) * y + y)))(w)


def captured_eagerly(x: Any, y: Any) -> Any:
    w = np.linspace(-1, 1, x.shape[1])
    return fg.value_and_grad(lambda w: np.sum(np.sin(x @ w) * y + y))(w)


def masked(x: Any, keep: Any) -> Any:
    """An infinite derivative times a mask."""
    return fg.grad(lambda x: np.sum(np.sqrt(x * keep)))(x)


def array(*shape: int, dtype: Any = float) -> Any:
    """Numbers with equal rows, so that an array of stride 0 has the same."""
    x = RNG.normal(size=shape) * 4
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=shape)
    return x.astype(dtype)


def rows(*shape: int, dtype: Any = float) -> Any:
    """The same, with equal rows, so that an array of stride 0 has them, too."""
    x = array(*shape, dtype=dtype)
    x[:] = x[:1]
    return x


W = np.linspace(-1, 1, 20)
X = array(3000, 20)
Y = (X[:, 0] > 0).astype(float)
NETWORK = {"a": array(10, 16), "b": array(16), "c": array(16)}
F4 = np.float32

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "likelihood, tiles of products": (fg.jit(fg.value_and_grad(nll)), (W, X, Y)),
    "likelihood, eager": (fg.value_and_grad(nll, (0, 1, 2)), (W, X[:60], Y[:60])),
    "squares": (fg.jit(fg.value_and_grad(squares, (0, 1, 2))), (W, X[:1500], Y[:1500])),
    "squares, single": (
        fg.jit(fg.value_and_grad(squares)),
        (W.astype(F4), X.astype(F4), Y.astype(F4)),
    ),
    "network": (fg.jit(fg.value_and_grad(network)), (NETWORK, array(3000, 10), array(3000))),
    "elementwise, large": (fg.jit(fused), (array(20_000), array(20_000))),
    "elementwise, gradient": (fg.jit(fg.value_and_grad(total, (0, 1))), (array(9000), rows(9000))),
    "elementwise, small": (fg.jit(fused), (array(7), rows(7))),
    "elementwise, eager": (fg.value_and_grad(total, (0, 1)), (array(7), rows(7))),
    "elementwise, single": (fg.jit(fused), (array(9_000, dtype=F4), array(9_000, dtype=F4))),
    "elementwise, complex": (fg.jit(fused), (array(900, dtype=complex), array(900, dtype=complex))),
    "rows": (fg.jit(fg.value_and_grad(softmax, (0, 1))), (array(2000, 5), rows(2000, 5))),
    "scan": (scanned, (array(3), rows(50, 3))),
    "scan, jitted": (fg.jit(scanned), (array(3), rows(50, 3))),
    "scan, gradient": (fg.jit(scan_slopes), (array(3), rows(50, 3))),
    "scan, single": (fg.jit(scan_slopes), (array(3, dtype=F4), array(50, 3, dtype=F4))),
    "while": (fg.jit(until), (array(4), rows(4))),
    "numbers": (fg.jit(numbers), (np.array(1.3), np.array(2.0))),
    "numbers, int64": (fg.jit(numbers), (np.array(3), np.array(2))),
    "numbers, single": (fg.jit(numbers), (np.array(3, F4), np.array(2, F4))),
    "product": (fg.jit(np.matmul), (array(200, 80), rows(80, 90))),
    "product, small": (fg.jit(np.matmul), (array(3, 4), rows(4, 2))),
    "product, complex": (
        fg.jit(lambda x, y: np.tanh((x @ y) * 0.5) + 1),
        (array(3000, 20, dtype=complex), array(20, 4, dtype=complex)),
    ),
    "moves": (fg.jit(moved), (array(40, 30), rows(40, 30))),
    "moves, int64": (fg.jit(moved), (array(40, 30, dtype=int), rows(40, 30, dtype=int))),
    "moves, bool": (fg.jit(moved), (array(4, 3) > 0, array(4, 3) > 0)),
    "reductions": (fg.jit(reduced), (array(40, 30), rows(40, 30))),
    "reductions, uint64": (fg.jit(reduced), (np.abs(array(9, 4)).astype(np.uint64),) * 2),
    "indices": (fg.jit(indexed), (array(40, dtype=int), array(50))),
    "indices, int32": (fg.jit(indexed), (array(40, dtype=np.int32), array(50))),
    "indices, eager": (
        fg.value_and_grad(lambda i, x: np.sum(indexed(i, x)[0] ** 2), 1),
        (array(40, dtype=int), array(50)),
    ),
    "writes": (fg.grad(written, (0, 1)), (array(9), array(9))),
    "writes, jitted": (fg.jit(fg.grad(written, (0, 1))), (array(9), array(9))),
    "sparse Jacobian": (lambda x, y: crossed(x, y).toarray(), (array(40), array(40))),
    "Hessian": (fg.hessian(total, (0, 1)), (array(5), array(5))),
    "jvp": (lambda x, y: fg.jvp(fused, (x, y), (y, x)), (array(9), array(9))),
    "vjp": (lambda x, y: fg.vjp(fused, x, y)[1](x), (array(9), array(9))),
    "linear map": (lambda x, y: fg.linearize(fused, x, y)[1](y, x), (array(9), array(9))),
    "vmap": (fg.jit(fg.vmap(lambda x, y: (moved(x, y), numbers(x, y)))), (array(9, 3, 4),) * 2),
    "exported": (lambda x, y: fg.export(fused)(x, y)(x, y), (array(9), array(9))),
    "evaluated": (lambda x, y: fg.evaluate(fg.make_jaxpr(fused)(x, y), x, y), (array(9),) * 2),
    "branch": (
        fg.jit(lambda x, y: fg.lax.cond(np.sum(x) > 0, np.multiply, np.subtract, x, y)),
        (array(50), array(50)),
    ),
    "guard": (
        fg.jit(lambda x, y: x * y if np.sum(x) > 0 else x - y, branches="guard"),
        (array(50), array(50)),
    ),
    "captured": (captured, (array(900, 9), array(900))),
    "captured, eager": (captured_eagerly, (array(90, 9), array(90))),
    "mask": (masked, (np.abs(array(9)), np.arange(9) > 4)),
}  # fmt: skip


def leaves(tree: Any) -> list[Any]:
    return [leaf for leaf in fg.tree_leaves(tree) if leaf is not None]


def check(found: Any, expected: Any, single: bool) -> None:
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        assert type(one) is type(other), (type(one), type(other))
        dtype = np.asarray(one).dtype
        assert dtype is canonical_dtype(dtype) and dtype == np.asarray(other).dtype
        bound = 1e-4 if single else 1e-9
        size = np.max(np.abs(other), initial=0.0) if dtype.kind in "fc" else 0.0
        np.testing.assert_allclose(one, other, rtol=bound, atol=bound * size)


def changed(tree: Any, way: str) -> Any:
    return fg.tree_map(WAYS[way], tree)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_do_not_depend_on_how_arrays_come(name: str) -> None:
    f, args = PROGRAMS[name]
    first = FIRST[[*PROGRAMS].index(name) % 2 :: 2]
    single = any(np.asarray(x).dtype == F4 for x in leaves(args))
    with np.errstate(all="ignore"):
        expected = f(*args)
        choices = [*[(i,) for i in range(len(args))], tuple(range(len(args)))]
        for way in first if name in ANEW else WAYS:
            for places in choices:
                if not all(applies(way, x) for i in places for x in leaves(args[i])):
                    continue
                given = [changed(x, way) if i in places else x for i, x in enumerate(args)]
                try:
                    check(f(*given), expected, single)
                    if way in first and places == choices[-1 - (len(way) % 2)]:
                        fg.clear_caches()
                        check(f(*given), expected, single)
                        check(f(*args), expected, single)
                except Exception as error:
                    error.add_note(f"with the argument(s) {places} {way}")
                    raise


def test_a_pickled_label_keeps_its_gradient() -> None:
    """The first call of a compiled likelihood, with labels from a pickle."""
    for y in (pickle.loads(pickle.dumps(Y)), Y.view(np.dtype("f8", metadata={"unit": "m"}))):
        value, slope = fg.jit(fg.value_and_grad(nll))(W, X, y)
        z = X @ W
        np.testing.assert_allclose(slope, X.T @ (1 / (1 + np.exp(-z)) - Y), rtol=1e-9)
        np.testing.assert_allclose(value, nll(W, X, Y))


# --- the door itself ------------------------------------------------------------------------------


@pytest.mark.parametrize("char", [*np.typecodes["AllInteger"], *np.typecodes["AllFloat"], "?"])
def test_each_dtype_of_numbers_has_one_object(char: str) -> None:
    known = canonical_dtype(char)
    assert known == np.dtype(char) and known is np.dtype(known.name)
    for dtype in (
        np.dtype(char), np.dtype(char, copy=True), np.dtype(char).type,
        np.dtype(char, metadata={"a": 1}), np.dtype(char).newbyteorder("S"),
        pickle.loads(pickle.dumps(np.dtype(char))),
    ):  # fmt: skip
        assert canonical_dtype(dtype) is known and fg.Type((), dtype).dtype is known
    assert known in NUMBERS.values()


def test_dtypes_of_other_things_stay_as_they_are() -> None:
    for dtype in (np.dtype("U3"), np.dtype([("a", "i1")]), np.dtype(object), np.dtype("M8[s]")):
        assert canonical_dtype(dtype) is dtype
    assert canonical_dtype([("a", "i1")]) == np.dtype([("a", "i1")])


@pytest.mark.parametrize("way", WAYS)
def test_canonical_arrays_have_the_same_numbers(way: str) -> None:
    for x in (array(3, 4), array(3, 4, dtype=F4), array(5, dtype=int), array(2) > 0, np.array(1.5)):
        if applies(way, x):
            given = WAYS[way](x)
            found = canonical(given)
            assert type(found) is np.ndarray and found.dtype is x.dtype
            np.testing.assert_array_equal(found, x)
            assert np.shares_memory(found, given) or not given.dtype.isnative
            assert canonical(found) is found


def test_numbers_of_numpy_get_the_class_of_their_dtype() -> None:
    assert type(canonical(np.longlong(3))) is np.int64 and canonical(np.longlong(3)) == 3
    for value in (np.float64(1.0), np.str_("a"), 1.0, None, "a", np.datetime64("2020-01-01")):
        assert canonical(value) is value
    assert type(fg.jit(lambda x: x + 1)(np.ulonglong(3))) is np.uint64


def test_results_of_pickled_functions_are_canonical() -> None:
    scale = array(3, dtype=F4)
    graph = pickle.loads(pickle.dumps(fg.make_jaxpr(lambda x: x.astype(F4) * scale)(array(3))))
    for found in (
        fg.evaluate(graph, array(3))[0],
        fg.jit(lambda x: fg.evaluate(graph, x))(X[0, :3])[0],
    ):
        assert found.dtype is np.dtype(F4)
    assert all(value.dtype is v.type.dtype for v, value in graph.constants)


def test_a_constant_in_the_other_byte_order_is_held_once() -> None:
    data = array(30).astype(">f8")
    graph = fg.make_jaxpr(lambda x: (x * data + data, np.sum(data * x), data))(1.0)
    ((_, held),) = graph.constants
    assert held.dtype is np.dtype(float)


def test_casts_keep_the_numbers_in_the_machines_byte_order() -> None:
    x = array(3)
    for f in (lambda x: x.astype(">f8"), lambda x: np.asarray(x, ">f4"), lambda x: x.astype(">i4")):
        for g in (fg.jit(f), lambda x, f=f: fg.vmap(f)(x[None])[0]):
            found = g(x)
            assert found.dtype.isnative and found.dtype == f(x).dtype.newbyteorder("=")
            np.testing.assert_array_equal(found, f(x))


def test_matrices_are_refused() -> None:
    with pytest.raises(ArgumentError, match="own arithmetic"):
        fg.jit(lambda x: x * 2)(np.matrix(np.eye(2)))
    with pytest.raises(ArgumentError, match="own arithmetic"):
        fg.grad(lambda x: np.sum(x * np.matrix(np.eye(2))))(np.eye(2))


# --- arrays of objects ----------------------------------------------------------------------------


def test_object_arrays_of_numbers_are_numbers() -> None:
    x = array(3)
    for numbers in ([1, 2.5, np.float32(3)], [True, 2, 3], [2**70, 1, 0]):
        objects = np.array(numbers, object)
        plain = objects.astype(float)
        for f in (fg.grad, lambda f: fg.jit(fg.grad(f)), lambda f: fg.jit(fg.jacobian(f))):
            found = f(lambda x, c=objects: np.sum(x**2 * c))(x)
            np.testing.assert_allclose(found, 2 * x * plain)
        np.testing.assert_array_equal(fg.jit(lambda x, c=objects: x * c)(x), x * plain)


@pytest.mark.parametrize(
    "transform",
    [fg.jit, fg.grad, lambda f: fg.jit(fg.grad(f)), lambda f: fg.jit(fg.jacobian(f)),
     lambda f: fg.jit(fg.hessian(f)), fg.vmap],
)  # fmt: skip
def test_object_arrays_of_arrays_are_refused(transform: Any) -> None:
    points = np.empty(2, object)
    points[:] = [np.arange(3.0), np.ones(3)]
    x = np.ones((4, 2)) if transform is fg.vmap else np.array([0.5, 1.0])
    with pytest.raises(ArgumentError, match=r"dtype object.*ndarray.*np\.stack"):
        transform(lambda p: np.linalg.norm(points - p))(x)


def test_views_in_the_other_byte_order_are_refused() -> None:
    for transform in (fg.jit, fg.grad):
        with pytest.raises(UnsupportedArgumentError, match="the machine's byte order"):
            transform(lambda x: x.view(">i8"))(array(3))


def test_arrays_in_the_other_byte_order_take_traced_values() -> None:
    data = array(3).astype(">f4")

    def f(x: Any) -> Any:
        out = np.zeros_like(data)
        out[:2] = x[:2]
        out += data
        return np.sum(out * data)

    x = array(3)
    for found in (fg.grad(f)(x), fg.jit(fg.grad(f))(x)):
        np.testing.assert_allclose(found, [data[0], data[1], 0.0], rtol=1e-6)


def _into_out(x, dtype):
    total = np.asanyarray(np.add(x[0], x[1]))
    np.subtract(x[1] ** 2, x[0], out=total, casting="unsafe", dtype=dtype)
    return total[()]


OF_DTYPES = {
    "ufunc": lambda x, d: np.subtract(x, x * x, dtype=d),
    "out": _into_out,
    "sum": lambda x, d: np.sum(x * x, dtype=d),
    "mean": lambda x, d: np.mean(x * x, dtype=d),
    "var": lambda x, d: np.var(x, dtype=d),
    "cumsum": lambda x, d: np.cumsum(x * x, dtype=d),
    "reduce": lambda x, d: np.add.reduce(x * x, dtype=d),
    "accumulate": lambda x, d: np.multiply.accumulate(x, dtype=d),
    "astype": lambda x, d: (x * x).astype(d),
    "asarray": lambda x, d: np.asarray(x, dtype=d) ** 2,
    "array": lambda x, d: np.array([x[0] * x[1], x[2]], dtype=d),
    "concatenate": lambda x, d: np.concatenate([x * x, x], dtype=d, casting="same_kind"),
    "full": lambda x, d: np.full(3, x[0] * x[1], dtype=d),
    "linspace": lambda x, d: np.linspace(x[0], x[1] ** 2, 4, dtype=d),
    "einsum": lambda x, d: np.einsum("i,i->", x, x, dtype=d, casting="same_kind"),
    "cov": lambda x, d: np.cov(x, dtype=d),
    "nansum": lambda x, d: np.nansum(x * x, dtype=d),
}
"""Functions of a dtype."""


@pytest.mark.parametrize("name", OF_DTYPES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_class_of_dtypes_stands_for_its_dtype(name, dtype):
    def loss(x, given):
        return np.sum(OF_DTYPES[name](x, given) ** 2)

    x, kind = np.array([0.5, -1.5, 2.0]), type(np.dtype(dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert loss(x, kind) == loss(x, dtype)
        for run in (fg.grad, lambda f: fg.jit(fg.grad(f), static_argnums=1), fg.hessian):
            expected = run(loss)(x, dtype)
            assert np.any(expected)
            np.testing.assert_array_equal(run(loss)(x, kind), expected)
        rows = fg.vmap(lambda x: fg.jvp(lambda x: loss(x, kind), (x,), (x,))[1])(np.stack([x, x]))
        np.testing.assert_allclose(rows[1], fg.grad(loss)(x, dtype) @ x, rtol=1e-5)


@pytest.mark.parametrize(
    "name", ["ufunc", "sum", "mean", "cumsum", "reduce", "concatenate", "linspace", "nansum"]
)
def test_the_dtype_of_objects_keeps_derivatives(name):
    def loss(x, dtype):
        return np.sum(OF_DTYPES[name](x, dtype) ** 2)

    x = np.array([0.5, -1.5, 2.0])
    for run in (fg.grad, lambda f: fg.jit(fg.grad(f), static_argnums=1), fg.hessian):
        expected = run(loss)(x, float)
        assert np.any(expected)
        np.testing.assert_allclose(run(loss)(x, object), expected, rtol=1e-14)
