"""What traced numbers are to code that asks for their type: what NumPy's are.

Each question is asked of the same value without a transform, and under each transform.
"""

from __future__ import annotations

import collections
import collections.abc
import functools
import numbers
import re
from typing import Any

import numpy as np
import pytest

import fungrad as fg

A = np.array([2.0, 0.5, 3.0])
M = np.array([[2.0, 0.5], [0.25, 3.0]])
Z = np.array(2.0)

KINDS = {
    "a float": (2.0, lambda x: x),
    "a product of floats": (2.0, lambda x: x * 2.0),
    "a negative float": (2.0, lambda x: -x),
    "an absolute float": (2.0, abs),
    "a sine of a float": (2.0, np.sin),
    "an array of a float": (2.0, np.asarray),
    "a copy of a float": (2.0, np.array),
    "a power of a float": (2.0, lambda x: x**2),
    "a float64": (np.float64(2.0), lambda x: x),
    "a float32": (np.float32(2.0), lambda x: x),
    "an array without axes": (Z, lambda x: x),
    "a sum with an array without axes": (Z, lambda x: x + 1.0),
    "a sine of an array without axes": (Z, np.sin),
    "a copy of an array without axes": (Z, lambda x: x.copy()),
    "the element of an array without axes": (Z, lambda x: x[()]),
    "a view of an array without axes": (Z, lambda x: x[...]),
    "an array without axes after +=": (Z, lambda x: x.__iadd__(1.0)),
    "an element": (A, lambda a: a[0]),
    "an element from the end": (M, lambda a: a[0, -1]),
    "an element of a row": (M, lambda a: a[0][1]),
    "an item": (A, lambda a: next(iter(a))),
    "a row": (M, lambda a: a[0]),
    "a view of an element": (A, lambda a: a[..., 0]),
    "an element of a view of an element": (A, lambda a: a[..., 0][()]),
    "an element taken": (A, lambda a: np.take(a, 0)),
    "an element cast": (A, lambda a: a[0].astype(np.float32)),
    "a sum": (A, np.sum),
    "a sum by the method": (A, lambda a: a.sum()),
    "a sum over an axis": (M, lambda a: a.sum(axis=0)),
    "a sum with its axis": (A, lambda a: a.sum(keepdims=True)),
    "a mean": (A, np.mean),
    "a standard deviation": (A, np.std),
    "a maximum": (A, np.max),
    "a product": (A, np.prod),
    "a median": (A, np.median),
    "a dot product": (A, lambda a: a @ a),
    "a dot product by np.dot": (A, lambda a: np.dot(a, a)),
    "a contraction": (A, lambda a: np.einsum("i,i->", a, a)),
    "a trace": (M, np.trace),
    "a norm": (A, np.linalg.norm),
    "a determinant": (M, np.linalg.det),
    "an interpolated value": (A, lambda a: np.interp(0.5, [0.0, 1.0], a[:2])),
    "an element by where": (A, lambda a: np.where(True, a[0], 0.0)),
    "a reshaped element": (A, lambda a: a[:1].reshape(())),
    "a squeezed element": (A, lambda a: np.squeeze(a[:1])),
    "the real part of an element": (A, lambda a: a[0].real),
    "an element clipped": (A, lambda a: np.clip(a[0], 0.0, 1.0)),
    "the larger of two elements": (A, lambda a: np.maximum(a[0], a[1])),
    "a float with an element": (A, lambda a: 2.0 * a[0]),
    "an element broadcast": (A, lambda a: np.broadcast_to(a[0], ())),
    "an element in a list": (A, lambda a: [a[0], 1.0][0]),
    "an element of an array of elements": (A, lambda a: np.array([a[0], 1.0])[0]),
    "an element written and read": (A, lambda a: _written(a)[0]),
    "a view of an element written": (A, lambda a: _written(a)[0, ...]),
}
OTHERS = {
    "an int": (3, lambda x: x),
    "a bool": (True, lambda x: x),
    "a complex": (1.0 + 2.0j, lambda x: x),
    "a product of ints": (3, lambda x: x * 2),
    "a quotient of ints": (3, lambda x: x / 2),
    "an int64": (np.int64(3), lambda x: x),
    "a bool_": (np.bool_(True), lambda x: x),
    "a complex128": (np.complex128(1.0 + 2.0j), lambda x: x),
    "an element of integers": (np.arange(3), lambda a: a[1]),
    "an element of int32": (np.arange(3, dtype=np.int32), lambda a: a[1]),
    "an element of booleans": (np.array([True, False]), lambda a: a[0]),
    "an element of complex numbers": (np.array([1.0 + 2.0j]), lambda a: a[0]),
    "the imaginary part of an element": (np.array([1.0 + 2.0j]), lambda a: a[0].imag),
    "an integer without axes": (np.array(3), lambda x: x),
    "an element as an integer": (A, lambda a: a[0].astype(int)),
}


def _written(a):
    b = np.zeros(3)
    b[0] = a[0]
    return b


@functools.singledispatch
def _dispatched(x):
    return "other"


@_dispatched.register
def _(x: float):
    return "float"


@_dispatched.register
def _(x: np.ndarray):
    return "array"


def _matched(x):
    match x:
        case bool():
            return "bool"
        case float():
            return "float"
        case int():
            return "int"
        case np.ndarray():
            return "array"
        case _:
            return "other"


def _raises(f):
    def asked(x):
        try:
            f(x)
        except TypeError:
            return True
        return False

    return asked


CLASSES = (
    float, int, bool, complex, np.floating, np.integer, np.complexfloating, np.bool_, np.generic,
    np.number, np.inexact, np.ndarray, np.float64, np.float32, np.int64, np.int32, np.complex128,
    numbers.Number, numbers.Complex, numbers.Real, numbers.Integral, collections.abc.Sized,
    collections.abc.Iterable, collections.abc.Collection, collections.abc.Sequence, list, str,
)  # fmt: skip
QUESTIONS = {
    **{f"isinstance {c.__name__}": functools.partial(lambda c, x: isinstance(x, c), c)
       for c in CLASSES},
    "one of several classes": lambda x: isinstance(x, (int, float)),
    "issubclass": lambda x: issubclass(x.__class__, float),
    "isscalar": np.isscalar,
    "iterable": np.iterable,
    "ndim": np.ndim,
    "has __len__": lambda x: hasattr(x, "__len__"),
    "has __iter__": lambda x: hasattr(x, "__iter__"),
    "has __contains__": lambda x: hasattr(x, "__contains__"),
    "has is_integer": lambda x: hasattr(x, "is_integer") and not isinstance(x, (int, np.integer)),
    "len raises": _raises(len),
    "iter raises": _raises(iter),
    "dispatched": _dispatched,
    "matched": _matched,
}  # fmt: skip


def answers(make, questions=QUESTIONS):
    """A function that makes a value and asks; and the list of what it found."""
    found = []

    def f(x):
        value = make(x)
        found.append({name: ask(value) for name, ask in questions.items()})
        return np.sum(value * 1.0)

    return f, found


TRANSFORMS = {
    "grad": lambda f, x: fg.vjp(f, x)[1](np.float64(1.0)),
    "jvp": lambda f, x: fg.jvp(f, (x,), (x,)),
    "second order": lambda f, x: fg.grad(lambda y: fg.jvp(f, (y,), (x,))[1])(x),
    "inside another": lambda f, x: fg.jvp(fg.grad(f), (x,), (x,)),
}
STAGED = {
    "jit": lambda f, x: fg.jit(f)(x),
    "make_jaxpr": lambda f, x: fg.make_jaxpr(f)(x),
    "jit of grad": lambda f, x: fg.jit(lambda y: fg.vjp(f, y)[1](np.float64(1.0)))(x),
    "guards": lambda f, x: fg.jit(f, branches="guard")(x),
}


def same(make, x, transform):
    plain, expected = answers(make)
    plain(x.copy() if isinstance(x, np.ndarray) else x)
    traced, found = answers(make)
    transform(traced, x)
    wrong = {name: value for name, value in found[0].items() if value != expected[0][name]}
    assert not wrong, f"differ from NumPy: {wrong}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transform", [*TRANSFORMS, *STAGED])
def test_a_traced_value_answers_as_numpys(transform, kind):
    x, make = KINDS[kind]
    if transform in ("second order", "inside another", "jit of grad") and x is not A:
        x = np.float64(x) if type(x) is np.float32 else x
    same(make, x, {**TRANSFORMS, **STAGED}[transform])


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("transform", STAGED)
def test_integers_booleans_and_complex_numbers_answer_as_numpys(transform, kind):
    if transform == "jit of grad":
        pytest.skip("they have no real derivative")
    x, make = OTHERS[kind]
    same(make, x, STAGED[transform])


@pytest.mark.parametrize("kind", [k for k, (x, _) in KINDS.items() if isinstance(x, np.ndarray)])
def test_examples_of_a_batch_answer_as_numpys(kind):
    x, make = KINDS[kind]
    if x is Z:  # the examples of a vector are its elements, as in a loop
        x = np.float64(2.0)
        if "+=" in kind or "copy" in kind:
            pytest.skip("of arrays only")
    same(make, x, lambda f, x: fg.vmap(f)(np.stack([x, x])))


def test_a_branch_on_the_type_is_numpys():
    f = lambda x: 2 * x if isinstance(x, float) else 3 * x  # noqa: E731
    assert f(2.0) == 4.0
    assert fg.value_and_grad(f)(2.0) == (4.0, 2.0)
    assert fg.jvp(f, (2.0,), (1.0,)) == (4.0, 2.0)
    assert fg.jit(f)(2.0) == fg.jit(f, branches="guard")(2.0) == 4.0
    assert fg.evaluate(fg.make_jaxpr(f)(2.0), 2.0) == [4.0]
    assert fg.vmap(f)(np.array([2.0, 1.0])).tolist() == [4.0, 2.0]
    assert fg.value_and_grad(lambda a: f(a[0]))(np.array([2.0])) == (4.0, np.array([2.0]))
    assert fg.value_and_grad(f)(np.array(2.0)) == (6.0, 3.0)


def test_compiled_functions_of_numbers_and_of_arrays_without_axes_are_two():
    f = fg.jit(lambda x: 2 * x if isinstance(x, float) else 3 * x)
    for _ in range(2):
        assert f(np.float64(2.0)) == 4.0
        assert f(np.array(2.0)) == 6.0
        assert f(2.0) == 4.0


def test_whole_numbers_say_so():
    f = lambda x: x * x if x.is_integer() else x  # noqa: E731
    assert fg.grad(f)(3.0) == 6.0
    assert fg.grad(f)(3.5) == 1.0
    assert fg.grad(lambda a: f(a[0]))(np.array([3.0])) == np.array([6.0])
    with pytest.raises(fg.errors.AbstractValueError):
        fg.jit(f, branches="error")(3.0)


def test_increments_of_numbers_are_new_and_of_arrays_in_place():
    def f(x):
        y = x
        y += 1.0
        return x * y

    for x in (2.0, np.float64(2.0), np.array(2.0)):
        given = x.copy() if isinstance(x, np.ndarray) else x
        expected = f(given)
        assert fg.value_and_grad(f)(x)[0] == expected
        assert fg.jvp(f, (x,), (1.0,))[0] == expected
        assert fg.jit(f)(x) == expected


def test_a_number_shares_no_memory():
    def f(a):
        s = a[0]
        r = np.reshape(s, (1,))
        r[0] = 5.0
        return s * a[1]

    value, gradient = fg.value_and_grad(f)(A)
    assert value == f(A) == 1.0
    assert gradient.tolist() == [0.5, 2.0, 0.0]


TABLE = {1.0: 2.0, 2.5: 7.0}
FOUND = frozenset([2.5])


class Tables:
    """Tables that an instance holds."""

    def __init__(self):
        self.held = dict(TABLE)


TABLES = Tables()


def counted(x):
    counts = collections.Counter({2.5: 1.0})
    counts[x] += 2.0
    return sum(counts.values()) * len(counts) * x


def kept(x):
    memo = {0.0: 1.0}
    if x not in memo:
        memo[x] = x * x
    return memo[x]


LOOKED_UP = {
    "[]": lambda x: TABLE[x] * x,
    "of constants": lambda x: {1.0: 2.0, 2.5: 7.0}[x] * x,
    "get": lambda x: TABLE.get(x, 3.0) * x,
    "get of no key": lambda x: TABLE.get(x + 1.0, 3.0) * x,
    "in": lambda x: 2.0 * x if x in FOUND else x,
    "not in": lambda x: 2.0 * x if x not in FOUND else x,
    "in a set of constants": lambda x: 2.0 * x if x in {2.5, 4.0} else x,
    "in keys": lambda x: 2.0 * x if x in TABLES.held.keys() else x,
    "in an attribute": lambda x: TABLES.held.get(x) * x if x in TABLES.held.keys() else x,
    "among words": lambda x: {"2.5": 2.0}.get(x, 5.0) * x,
    "counted": counted,
    "kept": kept,
}


@pytest.mark.parametrize("name", LOOKED_UP)
def test_a_table_finds_the_number_that_is_equal(name, monkeypatch):
    f = LOOKED_UP[name]
    jitted = fg.jit(f)

    def asked(call, *args):
        monkeypatch.setattr(TABLES, "held", dict(TABLE))
        return call(*args)

    for x in (1.0, 2.5, 1.0):
        expected = asked(f, x)
        slope = 2 * x if name == "kept" else expected / x
        assert asked(jitted, x) == expected
        for transform in (fg.grad, fg.jacfwd, lambda f: fg.grad(fg.jit(f))):
            assert asked(transform(f), x) == slope


def test_equal_keys_that_are_traced_are_different():
    def f(x, y):
        table = {0.5: 1.0}
        table[x] = x * 2.0
        table[y] = y * 3.0
        return table[x] * table[y] * len(table)

    assert fg.grad(f, argnums=(0, 1))(2.0, 2.0) == (36.0, 36.0)
    assert fg.jit(f)(2.0, 2.0) == 72.0


def test_a_table_asked_for_a_value_that_has_no_number():
    with pytest.raises(fg.errors.AbstractValueError, match="a look-up in a table"):
        fg.vmap(LOOKED_UP["get"])(np.array([1.0, 2.5]))
    assert fg.vmap(LOOKED_UP["among words"])(np.array([1.0, 2.5])).tolist() == [5.0, 12.5]


@pytest.mark.parametrize(
    "read",
    [
        lambda x: float(f"{x[0]:.17g}") * x[1],
        lambda x: complex(f"{x[0]:.3f}").real * x[1],
        lambda x: np.sum(np.array([f"{v:.3f}" for v in x], dtype=float) * x),
        lambda x: np.sum(x.astype(str).astype(float) * x),
        lambda x: np.sum(x.astype("S30").astype(float) * x),
        lambda x: float(f"{x[0]:8.3f}".strip()) * x[1],
        lambda x: float(f"{x[0]:8.3f}"[2:]) * x[1],
        lambda x: float(f"{x[0]:.3e}".split("e")[0]) * x[1],
        lambda x: float(f"{x[0]:.3e}".partition("e")[0].replace(",", ".")) * x[1],
    ],
)
@pytest.mark.parametrize("transform", [fg.grad, fg.jacfwd, fg.jit, lambda f: fg.jit(fg.grad(f))])
def test_numbers_read_from_formatted_texts_are_refused(read: Any, transform: Any) -> None:
    with pytest.raises(fg.errors.GradientCutError, match="text"):
        transform(read)(np.array([0.7, -0.3, 1.4]))


SECOND = np.timedelta64(1, "s")
TIMES = np.array([10, 20, 30], "m8[s]")


def of_date(x: Any) -> Any:
    start = np.datetime64("2026-11-28T00:00:00")
    return (start + np.timedelta64(10, "s") * x[0] - start) / SECOND


def multiplied_in_place(x: Any) -> Any:
    times = TIMES.copy()
    times *= x
    return np.sum(times / SECOND)


@pytest.mark.parametrize(
    "f",
    [
        of_date,
        multiplied_in_place,
        lambda x: x[0] * np.timedelta64(10, "s") / SECOND,
        lambda x: np.timedelta64(10, "s") / x[0] / SECOND,
        lambda x: SECOND / (x[0] * np.timedelta64(10, "s")),
        lambda x: np.sum(TIMES * x / SECOND),
        lambda x: np.sum(np.divide(TIMES, x) / SECOND),
        lambda x: np.sum(np.multiply(x, TIMES, out=TIMES.copy()) / SECOND),
        lambda x: np.sum((10.0 * x).astype("m8[s]") / SECOND),
    ],
)
@pytest.mark.parametrize(
    "transform",
    [
        fg.grad,
        lambda f: lambda x: fg.jvp(f, (x,), (x,)),
        fg.jit,
        lambda f: fg.jit(fg.grad(f)),
        lambda f: lambda x: fg.vmap(f)(x[None]),
    ],
)
def test_times_beside_traced_floats_are_refused(f: Any, transform: Any) -> None:
    """NumPy rounds them to whole units: forward mode gave rounded derivatives, or 0."""
    x = np.array([2.0, 3.0, 1.5])
    assert np.isfinite(f(x))
    with pytest.raises(fg.errors.GradientCutError, match="time"):
        transform(f)(x)


def test_times_beside_traced_integers_and_as_numbers() -> None:
    dates = np.datetime64("2026-11-28T00:00:00") + TIMES
    assert fg.jit(lambda n: np.timedelta64(3, "s") * n / SECOND)(2) == 6.0
    assert fg.vmap(lambda i: np.take(TIMES, i) / SECOND)(np.array([2, 0])).tolist() == [30.0, 10.0]
    whole = fg.value_and_grad(lambda x: x * ((4.5 * x).astype(int).astype("m8[s]") / SECOND))
    assert whole(np.float64(2.0)) == (18.0, 9.0)
    assert fg.grad(lambda x: np.sum(x * ((dates - dates[0]) / SECOND)))(2.0) == 30.0


@pytest.mark.parametrize("transform", [fg.grad, fg.jacfwd, fg.jit])
def test_numbers_found_in_the_words_for_a_traced_value_are_refused(transform: Any) -> None:
    """`re` reads the words "Tracer(f64[], ...)", and finds 64."""
    for text in (str, repr):
        with pytest.raises(fg.errors.TracingError, match="a plain"):
            transform(lambda x: float(re.findall(r"[\d.]+", text(x))[0]) * x)(1.5)  # noqa: B023


def test_formatted_texts_are_those_of_the_numbers() -> None:
    def f(x: Any) -> Any:
        texts = [f"{v:.1f}" for v in x]
        parts = texts[0].split(".")
        kept = (texts[1] == "-0.3") + float(texts[2].startswith("1")) + int(parts[1])
        return np.sum(x) * (len(texts[0]) + kept + ("0" in texts[0].strip("-").partition(".")[0]))

    x = np.array([0.7, -0.3, 1.4])
    assert f(x) == fg.jit(f)(x) == fg.value_and_grad(f)(x)[0]
    moved = x + 10.0
    compiled = fg.jit(f)
    assert [compiled(x), compiled(moved)] == [f(x), f(moved)]


def by_sign(x: Any) -> Any:
    sums: Any = collections.defaultdict(float)
    for v in x:
        sums[v > 0.0] += v * v
    return sums[True] * 2.0 + sums[False] + len({v > 5.0 for v in x})


@pytest.mark.parametrize("x", [np.array([0.7, -0.3, 1.4]), np.array([-0.9, 0.8, -6.0])])
def test_truth_values_are_keys_by_their_values(x: Any) -> None:
    slope = np.where(x > 0.0, 4.0, 2.0) * x
    for f in (by_sign, fg.jit(by_sign)):
        value, found = fg.value_and_grad(f)(x)
        np.testing.assert_allclose(value, by_sign(x))
        np.testing.assert_allclose(found, slope)
        np.testing.assert_allclose(fg.jit(fg.grad(f))(x), slope)
        np.testing.assert_allclose(fg.jacfwd(f)(x), slope)
        np.testing.assert_allclose(fg.hessian(f)(x), np.diag(slope / x))
    compiled = fg.jit(by_sign)
    for argument in (x, -x, x + 3.0):
        np.testing.assert_allclose(compiled(argument), by_sign(argument))
    with pytest.raises(fg.errors.AbstractValueError):
        fg.vmap(by_sign)(np.stack([x, -x]))


def test_a_compiled_function_is_compared_with_its_plain_call_under_a_derivative() -> None:
    def f(x: Any) -> Any:
        sums: Any = collections.defaultdict(float)
        for v in x:
            sums[np.sign(v)] += v * v  # each traced number is a key of its own
        return sums[1.0] * 2.0 + sums[-1.0]

    for transform in (fg.grad, fg.jacfwd, fg.hessian):
        with pytest.raises(fg.errors.TracingError):
            transform(fg.jit(f))(np.array([0.7, -0.3, 1.4]))
