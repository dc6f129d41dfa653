"""Branches of Python's on traced values: those that vmap follows."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fungrad as fg
from fungrad import errors

# --- vmap: what all examples agree on -------------------------------------------------


def signed(x):
    """A branch whose sides have other values and other slopes."""
    if x > 1.0:
        return x**2
    if x > -1.0:
        return 3.0 * x
    return np.sin(x)


QUESTIONS = {
    "bool": (bool, [0.0, -0.0, 1.0, 0.5, np.nan, np.inf]),
    "int": (int, [0.0, -0.0, 0.9, -0.9, 1.2, 1.7, -3.5]),
    "trunc": (math.trunc, [0.0, -0.9, 1.2, 1.7]),
    "floor": (math.floor, [0.0, -0.0, 0.9, -0.9, 1.2, 1.7, -3.5]),
    "ceil": (math.ceil, [0.0, -0.0, 0.9, -0.9, 1.2, 1.7, -3.5]),
    "index": (operator.index, [0, 1, -3, 2**40]),
    "item": (lambda n: n.item(), [0, 1, -3, True, False]),
    "format": (lambda x: float(f"{x:.1f}"), [0.0, -0.0, 0.91, 0.92, -0.9, np.inf]),
    "positions": (lambda x: np.flatnonzero(np.stack([x, 1.0 - x])).tolist(), [0.0, 1.0, -0.0]),
}


@given(st.sampled_from(sorted(QUESTIONS)), st.data())
def test_vmap_gives_the_answer_that_all_examples_give(name, data):
    ask, numbers = QUESTIONS[name]
    batch = np.array(data.draw(st.lists(st.sampled_from(numbers), min_size=1, max_size=4)))
    answers = []

    def f(x):
        answers.append(ask(x))
        return x

    each = [ask(x) for x in batch]
    if all(repr(answer) == repr(each[0]) for answer in each):
        np.testing.assert_array_equal(fg.vmap(f)(batch), batch)
        assert answers == each[:1] and type(answers[0]) is type(each[0])
    else:
        other = next(i for i, answer in enumerate(each) if repr(answer) != repr(each[0]))
        with pytest.raises(TypeError, match=f"in example 0, .* in example {other}[.]") as info:
            fg.vmap(f)(batch)
        assert isinstance(info.value, (errors.AbstractBooleanError, errors.AbstractValueError))
        assert "np.where" in str(info.value) or name != "bool"


@pytest.mark.parametrize("low", [1.5, -0.5, -3.0])
def test_derivatives_of_the_side_that_all_examples_take(low):
    xs = low + np.linspace(0.0, 0.4, 5)
    for _ in range(3):
        np.testing.assert_array_equal(fg.vmap(signed)(xs), [signed(x) for x in xs])
    slopes, curves = fg.vmap(fg.grad(signed)), fg.vmap(fg.grad(fg.grad(signed)))
    np.testing.assert_array_equal(slopes(xs), [fg.grad(signed)(x) for x in xs])
    np.testing.assert_array_equal(curves(xs), [fg.grad(fg.grad(signed))(x) for x in xs])
    whole = fg.grad(lambda xs: np.sum(fg.vmap(signed)(xs)))
    np.testing.assert_array_equal(whole(xs), slopes(xs))
    _, tangents = fg.jvp(fg.vmap(signed), (xs,), (np.ones(5),))
    np.testing.assert_array_equal(tangents, slopes(xs))


def test_nested_vmap_asks_every_example():
    nested = fg.vmap(fg.vmap(signed))
    agreed = np.array([[1.5, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(nested(agreed), agreed**2)
    crossed = fg.vmap(lambda x: fg.vmap(lambda y: y if x * y > 0 else -y)(agreed[0]))
    np.testing.assert_array_equal(crossed(agreed[0]), [agreed[0]] * 2)
    for differing in ([[1.5, 0.0], [1.5, 1.5]], [[1.5, 1.5], [0.0, 0.0]], [[1.5, 1.5], [1.5, 0.0]]):
        with pytest.raises(errors.AbstractBooleanError, match=r"True in example 0, False in"):
            nested(np.array(differing))


def test_what_is_not_mapped_has_its_own_value():
    f = fg.vmap(lambda x, n: x * n if n > 1 else x, in_axes=(0, None))
    np.testing.assert_array_equal(f(np.arange(3.0), 2), [0.0, 2.0, 4.0])


def test_no_examples_have_no_answer():
    with pytest.raises(errors.AbstractBooleanError, match="there are none that could be asked"):
        fg.vmap(signed)(np.ones(0))


def test_a_nan_is_no_number_for_any_example():
    with pytest.raises(ValueError, match="NaN to integer"):
        fg.vmap(lambda x: x * int(x))(np.full(3, np.nan))
    with pytest.raises(ValueError, match="NaN to integer"):
        fg.vmap(lambda x: x * int(x))(np.array([1.0, np.nan]))


def test_arrays_are_asked_for_their_truth_as_numpy_does():
    with pytest.raises(ValueError, match="ambiguous"):
        fg.vmap(lambda x: 1.0 if x > 0 else 2.0)(np.ones((2, 3)))


def test_masks_that_all_examples_share():
    rows = np.array([[1.0, -2.0, 3.0], [4.0, -5.0, 6.0]])
    np.testing.assert_array_equal(fg.vmap(lambda x: x[x > 0])(rows), rows[:, [0, 2]])
    total = fg.vmap(fg.grad(lambda x: np.sum(x[x > 0] ** 2)))
    np.testing.assert_array_equal(total(rows), np.where(rows > 0, 2 * rows, 0.0))


def test_values_that_are_not_known_stay_an_error():
    for staged in (fg.jit(fg.vmap(signed)), fg.make_jaxpr(fg.vmap(signed))):
        with pytest.raises(errors.AbstractBooleanError, match="only known as a type"):
            staged(np.array([1.5, 2.0]))


def test_a_branch_within_a_compiled_batch_is_asked_of_what_is_known():
    def f(x):
        return fg.jit(lambda y: y * 2.0)(x) if x > 0 else x

    np.testing.assert_array_equal(fg.vmap(f)(np.array([1.0, 2.0])), [2.0, 4.0])
