"""Branches that flip become one program: as many as there are, with Python's values and types."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import fungrad as fg

SCALE = 2.5
POINTS = np.random.default_rng(3).uniform(-2.0, 2.0, 40)


def values(x, count=6):
    """Numbers of both signs, without rounding errors that depend on the backend."""
    return [x * (k + 1) * 8.0 % 2.0 - 1.0 for k in range(count)]


def bent(v):
    if v < 0.0:
        return -v
    return v * v


def either(x):
    total = 0.0
    for v in values(x, 20):
        if v > 0.0:
            total = total + v * v
        else:
            total = total - 0.5 * v
    return total


def nested(x):
    total = x
    for v in values(x):
        if v > 0.0:
            if v > 0.5:
                total += v
            else:
                total += v * SCALE
        else:
            total = total - bent(v - 0.25)
    return total


def clipped(x):
    total = 0.0
    for v in values(x):
        if v < -0.5:
            v = -0.5
        elif v > 0.5:
            v = 0.5
        total += min(v, 0.25) + max(0.125, v)
    return total


def returned(x):
    return sum([bent(v) for v in values(x)])


def skipped(x):
    total = 0.0
    for v in values(x):
        if v < 0.0:
            continue
        total += np.sqrt(v)
    return total


def conditions(x):
    total = 0.0
    for v in values(x):
        if (v > 0.25 and np.sqrt(v) > 0.75) or v < -0.75:
            total = total + v
        elif -0.25 < v <= 0.25:
            total = total - 1.5
        elif not v > 0.5:
            total = total - 0.25 * v
    return total


def expressions(x):
    flipped = lambda v: v if v > 0.0 else 3.0 * v  # noqa: E731
    return sum([flipped(v) - (0.5 if v > 0.5 else v) for v in values(x)])


def signs(x):
    total = 0.0
    for v in values(x):
        sign = 1 if v > 0.0 else -1
        total = total + sign * v
    return total


def swapped(x):
    a, b = x, 2.0 * x
    for v in values(x):
        if v > 0.0:
            a, b = b, a
    return a - b


def temporary(x):
    total = 0.0
    for v in values(x):
        if v > 0.0:
            square = v * v
            total = total + square
    return total


def arrays(x):
    row = np.array([x, 2.0 * x])
    for v in values(x):
        if v > 0.0:
            row = row * 1.5
        else:
            row = row - v
    return row


def elements(x):
    row = np.zeros(6)
    for k, v in enumerate(values(x)):
        row[k] = v if v > 0.0 else 2.0 * v
    return np.sum(row)


def quiet(x):
    total = 0.0
    for v in values(x):
        total = total + (math.sqrt(v) if v > 0.0 else np.sqrt(-v))
    return total


class Model:
    """Methods, and attributes of objects."""

    def __init__(self):
        self.slope = 2.0

    def side(self, v):
        return self.slope * v

    def total(self, x):
        total = 0.0
        for v in values(x):
            if v > 0.0:
                total = total + self.side(v)
            else:
                total = total - self.slope
        return total


def counted(x):
    count, total = 0, 0.0
    for v in values(x):
        if v > 0.0:
            count += 1
            total = total + v
    if count > 3:
        total = 0.5 * total
    return total / (count + 1)


def gone(x):
    total = 0.0
    for v in values(x):
        if v > 0.75:
            last = v
        if v > 0.75:
            total = total + last
    return total


JOINED = (
    either, nested, clipped, returned, skipped, conditions, expressions, signs, swapped, temporary,
    arrays, elements, quiet, Model().total,
)  # fmt: skip
"""Functions that become one program without questions."""


def kinds(x):
    total = 0
    for v in values(x):
        if v > 0.0:
            total = total + v
    return total


def written(x):
    row = np.zeros(6)
    for k, v in enumerate(values(x)):
        if v > 0.0:
            row[k] = v
    return np.sum(row)


def shared(x):
    row = np.array([x, 2.0 * x])
    for v in values(x):
        if v > 0.0:
            other = row * 1.0
        else:
            other = row
        other[0] = v
    return row


def in_place(x):
    row = other = np.array([x, 2.0 * x])
    for v in values(x):
        if v > 0.0:
            row += v
    return other


def remembered(x):
    class Memory:
        count = 0

    total = x
    for v in values(x):
        if v > 0.0:
            Memory.count += 1
            total = total + v
    return 2.0 * total if Memory.count > 3 else total


def listed(x):
    found = []
    for v in values(x):
        if v > 0.0:
            found.append(v)
    return sum(found) / len(found) if found else 0.0 * x


def short(x):
    total = np.float32(0.5)
    for v in values(x):
        total = total * (1.1 if v > 0.0 else v)
    return total


def broken(x):
    total = 0.0
    for v in values(x):
        if v < -0.5:
            break
        total = total + v
    return total


def declared(x):
    total = 0.0

    def add(v):
        nonlocal total
        total = total + v

    for v in values(x):
        if v > 0.0:
            add(v)
    return total


APART = (kinds, written, shared, in_place, remembered, listed, short, broken, declared)
"""Functions that keep questions: a side does more than set numbers, or the types differ."""


def same(found, expected):
    assert type(found) is type(expected) or isinstance(expected, float)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("f", [*JOINED, counted, gone, *APART], ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("error", "ignore::fungrad.errors.RetraceWarning")
def test_values_are_those_of_python(f):
    compiled = fg.jit(f)
    for x in POINTS:
        for number in (float(x), x):
            same(compiled(number), f(number))


@pytest.mark.parametrize("f", JOINED, ids=lambda f: f.__name__)
def test_branches_that_flip_become_one_program(f):
    compiled = fg.jit(f)
    for x in POINTS:
        compiled(float(x))
    assert len(compiled.lower(0.5).paths) == 1 and not compiled.lower(0.5).paths[0]
    assert not compiled.apart()


@pytest.mark.parametrize("f", [either, nested, clipped, skipped, signs, arrays, counted, gone])
@pytest.mark.filterwarnings("error", "ignore::fungrad.errors.RetraceWarning")
def test_derivatives_are_those_of_python(f):
    loss = lambda x: np.sum(f(x))  # noqa: E731
    slope, through = fg.jit(fg.grad(loss)), fg.grad(fg.jit(loss))
    both = fg.jit(fg.value_and_grad(fg.jit(loss)))
    for x in POINTS[:20]:
        expected = fg.grad(loss)(x)
        for found in (slope(x), through(x), both(x)[1]):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    curve = fg.jit(fg.grad(fg.grad(loss)))
    for x in POINTS[:8]:
        np.testing.assert_allclose(curve(x), fg.grad(fg.grad(loss))(x), rtol=1e-12)


def test_a_batch_goes_both_ways():
    compiled = fg.jit(nested)
    for x in POINTS:
        compiled(x)
    np.testing.assert_allclose(fg.vmap(compiled)(POINTS), [nested(x) for x in POINTS], rtol=1e-14)


def test_a_function_that_flips_is_traced_a_few_times():
    calls = []

    def f(x):
        calls.append(1)
        return either(x)

    compiled = fg.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [compiled(float(x)) for x in POINTS]
    assert found == [either(float(x)) for x in POINTS]
    assert len(calls) - len(POINTS) < 0 and len(calls) <= 8


def test_a_side_that_is_not_taken_has_no_effects():
    done = []

    def f(x):
        total = 0.0
        for v in values(x):
            if v > 0.9:
                done.append("above")
                total = total + 1.0
            if v > 0.0:
                total = total + v
        return total

    compiled = fg.jit(f)
    for x in POINTS:
        done.clear()
        compiled(x)
        calls = list(done)
        done.clear()
        f(x)
        assert len(calls) <= len(done)


def test_a_side_that_raises_is_left_to_python():
    def f(x):
        total = 0.0
        for v in values(x):
            if v > 0.875:
                raise ValueError("above")
            if v > 0.0:
                total = total + v
        return total

    compiled = fg.jit(f)
    for x in POINTS:
        try:
            expected = f(x)
        except ValueError:
            with pytest.raises(ValueError, match="above"):
                compiled(x)
        else:
            same(compiled(x), expected)


def test_branches_of_arguments_that_do_not_flip_stay_questions():
    def f(x, n):
        if n > 3:
            return -x
        return either(x)

    compiled = fg.jit(f)
    for x in POINTS:
        compiled(float(x), 2)
    assert len(compiled.lower(0.5, 2).paths) == 1
    assert "bool()" in compiled.lower(0.5, 2).paths[0]
    assert compiled(0.5, 4) == -0.5


def test_captured_state_that_changes_is_noticed_in_joined_branches():
    scale = [2.0]

    def f(x):
        total = 0.0
        for v in values(x):
            if v > 0.0:
                total = total + scale[0] * v
        return total

    compiled = fg.jit(f)
    for x in POINTS:
        compiled(x)
    scale[0] = 3.0
    with pytest.warns(fg.errors.CapturedStateWarning, match=r"scale\[0\]"):
        found = [compiled(x) for x in [*POINTS] * 40]
    assert found[-1] == f(POINTS[-1])


def test_code_without_its_source_stays_as_it_is():
    names = {"values": values}
    exec(  # no file holds this
        "def f(x):\n total = 0.0\n for v in values(x, 20):\n"
        "  if v > 0.0: total = total + v\n return total",
        names,
    )
    compiled = fg.jit(names["f"])
    with pytest.warns(fg.errors.RetraceWarning, match="more than 16 paths"):
        found = [compiled(x) for x in POINTS]
    assert found == [names["f"](x) for x in POINTS]
    assert all("source is not at hand" in why for why in compiled.apart().values())


def test_why_branches_are_not_joined():
    for f, why in ((written, "more than set names"), (kinds, "the types i64[] and f64[]")):
        compiled = fg.jit(f)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fg.errors.RetraceWarning)
            for x in POINTS:
                compiled(x)
        ((line, text),) = compiled.apart().items()
        assert f"{__file__}:" in line and why in text
    causes = fg.explain_speed(compiled)(POINTS[0]).causes
    assert any(why in cause.message for cause in causes if cause.title == "a guard that flips")


last = 100.0
"""A global of the name that `carried` has."""


def carried(x):
    total = 0.0
    for k, v in enumerate(values(x, 12)):
        if v > 0.0:
            if k > 6:
                total = total + last  # noqa: F823
            last = v  # noqa: F841
    return total


def test_a_name_of_an_earlier_step_is_not_another_one():
    f, slope = fg.jit(carried), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fg.errors.RetraceWarning)
        for x in [*POINTS, *-POINTS]:
            try:
                expected = carried(x)
            except UnboundLocalError:
                with pytest.raises(UnboundLocalError):
                    f(x)
            else:
                same(f(x), expected)
                slope.append(x)
    assert slope


def test_a_later_path_that_writes_is_not_joined():
    def f(x, n):
        row = other = np.array([x, 2.0 * x])
        for v in values(x):
            if v > 0.0:
                row = row * 1.5
            else:
                row = other
        if n > 3:
            row[0] = 7.0
        return other

    compiled = fg.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fg.errors.RetraceWarning)
        for n in (1, 5, 1, 5):
            for x in POINTS:
                same(compiled(x, n), f(x, n))
