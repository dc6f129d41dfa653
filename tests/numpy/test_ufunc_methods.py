"""Ufuncs' methods and arguments: reduce, accumulate, outer, dtype=; and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from surface import agrees, values

import fungrad as fg

F32, F64, C128 = np.float32, np.float64, np.complex128
REDUCIBLE = [
    np.add,
    np.multiply,
    np.maximum,
    np.minimum,
    np.fmax,
    np.fmin,
    np.logaddexp,
    np.logaddexp2,
]
ACCUMULABLE = [np.add, np.multiply, np.maximum, np.minimum]


@pytest.mark.parametrize("ufunc", REDUCIBLE)
def test_reduce(ufunc):
    x = values((2, 3, 2))
    agrees(lambda x: ufunc.reduce(x), x)
    agrees(lambda x: ufunc.reduce(x, axis=None), x)
    agrees(lambda x: ufunc.reduce(x, axis=(0, -1)), x)
    agrees(lambda x: ufunc.reduce(x, -1, keepdims=True), x)
    agrees(lambda x: ufunc.reduce(x, axis=1, initial=0.5), x)
    agrees(lambda x: ufunc.reduce(x, axis=1), values((2, 3), F32), order=0)


@pytest.mark.parametrize("ufunc", ACCUMULABLE)
def test_accumulate(ufunc):
    agrees(lambda x: ufunc.accumulate(x), values((3, 2)))
    agrees(lambda x: ufunc.accumulate(x, axis=-1), values((2, 3)))


@pytest.mark.parametrize("dtype", [np.int8, bool, np.int64, np.uint8])
def test_reductions_of_integers_promote_as_numpys(dtype):
    x = values((2, 3), np.int64).astype(dtype)
    agrees(lambda x: np.add.reduce(x), x)
    agrees(lambda x: np.multiply.reduce(x, axis=1), x)
    agrees(lambda x: np.add.accumulate(x), x)
    agrees(lambda x: np.maximum.reduce(x), x)
    agrees(lambda x: np.logical_and.reduce(x), x)
    agrees(lambda x: np.logical_or.reduce(x, axis=-1, keepdims=True), x)


OUTER = [
    np.add, np.subtract, np.multiply, np.divide, np.power, np.maximum, np.hypot, np.arctan2,
    np.logaddexp,
]  # fmt: skip


@pytest.mark.parametrize("ufunc", OUTER)
def test_outer(ufunc):
    for left, right in (((3,), (2,)), ((), (3,)), ((3,), ()), ((2, 2), (3,)), ((0,), (2,))):
        agrees(
            lambda x, y: ufunc.outer(x, y), abs(values(left)) + 1, abs(values(right, seed=1)) + 0.5
        )


def test_outer_of_comparisons_and_lists():
    agrees(lambda x, y: np.less.outer(x, y), values((3,)), values((2,)))
    agrees(lambda x: np.multiply.outer([1.0, 2.0], x), values((2,)))


def test_a_ufunc_with_a_dtype():
    agrees(lambda x: np.add(x, x, dtype=np.float64), values((3,), F32), order=0)
    agrees(lambda x: np.exp(x, dtype=np.float32), values((3,), F32), order=0)
    agrees(lambda x: np.multiply(x, 2, dtype=np.complex128), values((3,)), order=1)
    agrees(lambda x: np.add.reduce(x, dtype=np.float64), values((3,), F32), order=0)
    agrees(lambda x: np.sin(x, where=True, out=None), values((3,)))
    agrees(lambda x: np.add(x, 1.0, casting="same_kind"), values((3,)))


def message(f, *args, error=fg.errors.UnsupportedArgumentError):
    with pytest.raises(error) as caught:
        fg.vjp(f, *args)
    text = str(caught.value)
    assert "test_ufunc_methods.py" in text
    return text


def compiled():
    """An array that compiled code makes, so that fungrad has no copy of it."""
    return np.loadtxt(["0 0 0"])


def test_writing_a_traced_value_into_an_array_of_compiled_code_says_what_to_write():
    def accumulate(x):
        total = other = compiled()
        total += x
        return other

    def scatter(x):
        np.add.at(compiled(), [0, 1], x[:2])

    for f, name in (
        (accumulate, "ufunc 'add'"),
        (scatter, "np.add.at"),
        (lambda x: np.sin(x, out=compiled()), "ufunc 'sin'"),
        (lambda x: np.add.reduce(x, out=np.loadtxt(["0"])), "ufunc 'add'"),
        (lambda x: np.divide(x, x, out=compiled(), where=x > 0), "ufunc 'divide'"),
    ):
        text = message(f, np.ones(3), error=fg.errors.ItemAssignmentError)
        assert name in text and "`a = np.array(a)`" in text


def test_what_has_no_meaning_is_refused_by_name():
    x = np.ones(4)
    text = message(lambda x: np.sin(x, where=x > 0), x)
    assert "where" in text and "np.where(" in text

    assert "np.hypot.reduce" in message(lambda x: np.hypot.reduce(x), x)
    assert "sig" in message(lambda x: np.matmul(x, x, signature="dd->d"), x)


def test_unknown_ufuncs_are_named():
    unknown = np._core.umath._ones_like
    with pytest.raises(fg.errors.UnsupportedFunctionError, match="ones_like"):
        fg.vjp(unknown, np.ones(3))


def test_ufuncs_with_two_results():
    x, y = values((4,)) * 3, values((4,), seed=1)
    agrees(np.divmod, x, y)
    agrees(np.modf, x)
    agrees(np.frexp, x)
    agrees(np.frexp, values((3,), F32), order=0)
    agrees(lambda x: divmod(x, 0.75), x)
    agrees(lambda x: divmod(7.5, x), x)
    agrees(lambda x: np.divmod(x, 3), values((4,), np.int64))
    same_signs = fg.make_jaxpr(np.modf)(np.zeros(4))
    whole = np.array([-2.0, np.inf, -np.inf, -0.0])
    found = fg.evaluate(same_signs, whole)
    assert np.array_equal(np.signbit(found[0]), np.signbit(np.modf(whole)[0]))
    assert np.array_equal(found[0], np.modf(whole)[0])


def test_float_power():
    agrees(np.float_power, abs(values((3,))) + 0.5, values((3,), seed=1))
    agrees(lambda x: np.float_power(x, 2), values((3,), F32), order=0)
    agrees(lambda x: np.float_power(x, 2), values((3,), np.int64), order=0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_derivatives_of_powers_are_the_same_compiled_where_there_are_none(dtype):
    x = np.array([-np.inf, -0.0, -1.0, np.inf, np.nan], dtype)
    for exponent in (1.5, 2.5, 0.5, -0.5, -2.5, 3):
        slopes = lambda x, p=exponent: fg.vjp(lambda x: x**p, x)[1](np.ones_like(x))[0]  # noqa: E731
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(fg.jit(slopes)(x), slopes(x))


def test_sign_of_complex_numbers_has_a_derivative():
    agrees(np.sign, values((4,), C128), order=2)
    agrees(np.sign, values((4,)), order=0)
    assert fg.jvp(np.sign, (np.complex128(0),), (np.complex128(1),))[0] == 0
