"""A traced value has ndarray's methods, attributes and protocols."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from surface import agrees, values

import fungrad as fg

F32, F64, C128 = np.float32, np.float64, np.complex128

METHODS = {
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "flat": lambda x: np.stack([item * i for i, item in enumerate(x.flat)]),
    "flat index": lambda x: x.flat[4],
    "reshape": lambda x: x.reshape(3, 2),
    "reshape tuple": lambda x: x.reshape((3, -1)),
    "reshape list": lambda x: x.reshape([6]),
    "reshape int": lambda x: x.reshape(-1),
    "reshape order": lambda x: x.reshape(3, 2, order="F"),
    "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten("F"),
    "transpose": lambda x: x.transpose(),
    "transpose axes": lambda x: x.transpose(1, 0),
    "transpose tuple": lambda x: x.transpose((1, 0)),
    "transpose None": lambda x: x.transpose(None),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "squeeze": lambda x: x[None].squeeze(0),
    "dot": lambda x: x.dot(np.ones(3)),
    "matmul": lambda x: x @ x.T,
    "trace": lambda x: x.trace(),
    "diagonal": lambda x: x.diagonal(1),
    "repeat": lambda x: x.repeat(2, axis=0),
    "sum": lambda x: x.sum(axis=0),
    "mean": lambda x: x.mean(),
    "max": lambda x: x.max(axis=1),
    "min": lambda x: x.min(),
    "std": lambda x: x.std(axis=0),
    "var": lambda x: x.var(ddof=1),
    "prod": lambda x: x.prod(),
    "cumsum": lambda x: x.cumsum(axis=1),
    "cumprod": lambda x: x.cumprod(),
    "argmax": lambda x: x.argmax(axis=1),
    "argmin": lambda x: x.argmin(),
    "any": lambda x: (x > 0).any(axis=0),
    "all": lambda x: (x > 0).all(),
    "round": lambda x: x.round(1),
    "clip": lambda x: x.clip(-0.5, 0.7),
    "clip one side": lambda x: x.clip(max=0.25),
    "conj": lambda x: x.conj(),
    "conjugate": lambda x: x.conjugate(),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "copy": lambda x: x.copy(),
    "astype": lambda x: x.astype(np.float32).astype(np.float64),
    "iteration": lambda x: [row * i for i, row in enumerate(x)],
    "getitem": lambda x: x[1, ::2],
    "abs": abs,
    "neg": lambda x: -x,
    "divmod": lambda x: divmod(x, 0.7),
}


@pytest.mark.parametrize("name", METHODS)
def test_method(name):
    order = 1 if "astype" in name else 2
    agrees(METHODS[name], values((2, 3)), order=0 if "astype" in name else order)


@pytest.mark.parametrize(
    "name", ["real", "imag", "conj", "conjugate", "T", "dot", "round", "trace", "sum"]
)
def test_method_of_complex_numbers(name):
    agrees(METHODS[name], values((2, 3), C128), order=1)


def test_attributes():
    seen = []

    def f(x):
        seen.append((x.shape, x.ndim, x.size, x.dtype, x.itemsize, x.nbytes, len(x)))
        return x.sum()

    x = values((2, 3), F32)
    fg.grad(f)(x)
    fg.make_jaxpr(f)(x)
    fg.vmap(f)(np.stack([x, x]))
    assert set(seen) == {((2, 3), 2, 6, np.dtype(F32), 4, 24, 2)}


def test_item_of_integers_is_a_number():
    with pytest.raises(fg.errors.AbstractValueError):
        fg.make_jaxpr(lambda x: x.item())(1)
    with pytest.raises(fg.errors.AbstractValueError):
        fg.vmap(lambda x: x.item())(np.arange(3))
    assert fg.grad(lambda x: x * (x > 1).item())(np.float64(2.0)) == 1.0


@pytest.mark.parametrize(
    "f", [lambda x: round(x, 1), lambda x: x.conjugate()], ids=["round", "conjugate"]
)
def test_results_of_a_python_float_promote_as_one(f):
    value, slope = fg.value_and_grad(lambda x: f(x) * np.float32(1.5) * x)(1.26)
    plain = f(1.26) * np.float32(1.5) * 1.26
    assert value == plain and value.dtype == plain.dtype == np.float32
    assert slope == pytest.approx(fg.jvp(lambda x: f(x) * 1.5 * x, (1.26,), (1.0,))[1], rel=1e-6)


def test_round_of_a_number_is_an_integer():
    assert fg.grad(lambda x: x * [3.0, 4.0][round(x)])(0.75) == 4.0
    agrees(lambda x: x * round(x, 1), np.float64(1.27), order=0)
    assert fg.evaluate(fg.make_jaxpr(lambda x: round(x))(1.5), 2.5)[0] == 2


def test_membership():
    assert fg.grad(lambda x: np.sum(x) * (2.0 in x))(np.array([1.0, 2.0])).tolist() == [1.0, 1.0]
    assert fg.grad(lambda x: np.sum(x) * (5.0 in x))(np.array([1.0, 2.0])).tolist() == [0.0, 0.0]
    with pytest.raises(fg.errors.AbstractBooleanError):
        fg.make_jaxpr(lambda x: 1.0 in x)(np.ones(3))


def test_membership_in_a_matrix():
    assert fg.grad(lambda x: np.sum(x) * (2.0 in x))(np.array([[1.0, 2.0]])).tolist() == [
        [1.0, 1.0]
    ]


def test_a_traced_number_prints_in_a_format():
    seen = []

    def f(x):
        seen.append(f"{x:.2f}")
        assert "f64[]" in f"{x}" + np.array_str(x)
        return x**2

    fg.grad(fg.grad(f))(1.0)
    assert seen == ["1.00"]
    with pytest.raises(fg.errors.AbstractValueError, match="format"):
        fg.make_jaxpr(f)(1.0)


@pytest.mark.parametrize("name", ["tobytes", "tofile", "byteswap"])
def test_methods_on_bytes_are_refused_by_name(name):
    with pytest.raises(fg.errors.MemoryAccessError, match=name):
        fg.grad(lambda x: getattr(x, name)(np.int64))(np.ones(3))


def test_dtypes_are_known_under_every_transform():
    seen = []

    def f(x):
        seen.append(
            (
                np.result_type(x, np.float16), np.result_type(x, 1.0),
                np.can_cast(x, np.float64),
                np.common_type(x, np.ones(2, np.float16)), np.iscomplexobj(x),
                np.isrealobj(x), x.device,
            )
        )  # fmt: skip
        return np.sum(x)

    x = np.ones(3, F32)
    fg.grad(f)(x)
    fg.make_jaxpr(f)(x)
    fg.vmap(f)(np.stack([x, x]))
    assert set(seen) == {(np.dtype(F32), np.dtype(F32), True, F32, False, True, "cpu")}


def test_the_array_namespace():
    def f(x):
        xp = x.__array_namespace__()
        assert xp is fg.numpy
        y = xp.matmul(x, xp.matrix_transpose(x)) + xp.asarray(1.0)
        return xp.sum(xp.exp(xp.concat([y, xp.zeros((1, 2), dtype=xp.float64)])) ** xp.e)

    x = values((2, 3)) / 4
    assert fg.grad(f)(x).shape == (2, 3)
    if hasattr(np, "__array_namespace_info__"):  # of NumPy 2.1
        assert fg.numpy.__array_namespace_info__().capabilities()
    assert fg.numpy.pi == np.pi and fg.numpy.float32 is np.float32 and fg.numpy.newaxis is None
    assert fg.numpy.sin is np.sin
    assert {"sin", "reshape", "at", "float64"} <= set(dir(fg.numpy))
    with pytest.raises(AttributeError):
        _ = fg.numpy.no_such_name


def test_a_method_of_a_leaked_tracer_names_the_leak():
    kept = []
    fg.jit(lambda x: kept.append(x) or np.sum(x))(np.ones((2, 2)))
    for use in (lambda x: x.T, lambda x: x.reshape(-1), lambda x: x @ x, lambda x: divmod(x, x),
    lambda x: x.dot(x),
                lambda x: x.sum(), lambda x: x.real, lambda x: x.clip(0, 1),
                lambda x: np.stack([x])):  # fmt: skip
        if kept[0].dtype.kind == "f":
            try:
                found = use(kept[0])
            except fg.errors.LeakedTracerError:
                continue
            assert found is kept[0], "a leaked tracer was computed with"


def test_import_is_cheap_and_needs_no_other_library():
    others = ("scipy", "rich", "hypothesis", "matplotlib")
    code = f"import fungrad, sys; print([m for m in {others} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
