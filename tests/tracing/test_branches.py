"""Branches of Python on traced values: those that vmap follows, and those that jit follows."""

from __future__ import annotations

import math
import operator
import pickle
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fungrad as fg
from fungrad import errors

# --- vmap: values common to all examples ----------------------------------------------


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
    "format": (lambda x: f"{x:.1f}".encode(), [0.0, -0.0, 0.91, 0.92, -0.9, np.inf]),
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
    np.testing.assert_array_equal(fg.vmap(lambda x: x[x > 0])(np.array([1.0, 2.0])), [[1.0], [2.0]])
    rows = np.array([[1.0, -2.0, 3.0], [4.0, -5.0, 6.0]])
    np.testing.assert_array_equal(fg.vmap(lambda x: x[x > 0])(rows), rows[:, [0, 2]])
    total = fg.vmap(fg.grad(lambda x: np.sum(x[x > 0] ** 2)))
    np.testing.assert_array_equal(total(rows), np.where(rows > 0, 2 * rows, 0.0))


def test_values_that_are_not_known_stay_an_error():
    for staged in (strict(fg.vmap(signed)), fg.make_jaxpr(fg.vmap(signed))):
        with pytest.raises(errors.AbstractBooleanError, match="only the type"):
            staged(np.array([1.5, 2.0]))


def test_a_branch_within_a_compiled_batch_is_asked_of_what_is_known():
    def f(x):
        return fg.jit(lambda y: y * 2.0)(x) if x > 0 else x

    np.testing.assert_array_equal(fg.vmap(f)(np.array([1.0, 2.0])), [2.0, 4.0])


# --- jit: a program for each path -----------------------------------------------------


def strict(f):
    return fg.jit(f, branches="error")


def guarded(f, **options):
    return fg.jit(f, branches="guard", **options)


def same(found, expected):
    """Equal trees of equal numbers, dtypes and shapes, but for the order of cotangents' sums."""
    leaves, treedef = fg.tree_util.tree_flatten(found)
    wanted, expected_def = fg.tree_util.tree_flatten(expected)
    assert treedef == expected_def
    for leaf, want in zip(leaves, wanted, strict=True):
        scale = np.max(np.abs(want), initial=0.0)
        np.testing.assert_allclose(leaf, want, rtol=1e-13, atol=1e-13 * scale)
        assert np.shape(leaf) == np.shape(want) and np.asarray(leaf).dtype == np.asarray(want).dtype


STATEMENTS = ("sin", "scale", "branch", "loop", "while", "index", "mask", "return", "call", "swap")
PROGRAMS = st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=6)
POINTS = st.lists(
    st.lists(st.sampled_from([-2.0, -0.7, 0.0, 0.3, 1.1, 1.9]), min_size=3, max_size=3).map(
        np.array
    ),
    min_size=2,
    max_size=4,
)


def program(statements, call=lambda f: f):
    """A function of a vector that does these statements, one after the other."""

    def inner(v):
        return np.cos(v) if v[1] > v[0] else v * v[1]

    called = call(inner)

    def f(x):
        y, z = x * 1.5, np.sum(x)
        for statement in statements:
            if statement == "sin":
                y = np.sin(y) + z
            elif statement == "scale":
                z = z * y[0] - 1.0
            elif statement == "branch":
                y = y * x if z > 0.1 else y - x
            elif statement == "loop":
                for i in range(abs(int(z)) % 3):
                    y = y + i * x
            elif statement == "while":
                while np.max(np.abs(y)) > 2.0:
                    y = y * 0.4
            elif statement == "index":
                z = z + [y[0], x[1] ** 2, y[2]][abs(math.floor(x[0])) % 3]
            elif statement == "mask":
                z = z + np.sum(y[y > 0.5])
            elif statement == "call":
                y = called(y)
            elif statement == "swap" and not z <= 0:
                y = y[::-1]
            elif statement == "return" and x[0] > 1.0:
                return {"early": np.sum(y) * z}
        return {"late": np.sum(y * z), "y": y}

    return f


def summed(f):
    return lambda x: sum(np.sum(leaf) for leaf in fg.tree_util.tree_leaves(f(x)))


@pytest.mark.slow
@settings(max_examples=12)
@given(PROGRAMS, POINTS)
def test_paths_have_the_values_and_derivatives_of_plain_python(statements, points):
    f = program(statements)
    compiled = guarded(f, max_paths=500)
    loss, compiled_loss = summed(f), summed(compiled)
    slope = guarded(fg.grad(loss), max_paths=500)
    for x in points + points[::-1]:
        same(compiled(x), f(x))
        same(fg.grad(compiled_loss)(x), fg.grad(loss)(x))
        same(slope(x), fg.grad(loss)(x))
        same(fg.jvp(compiled, (x,), (x + 1.0,)), fg.jvp(f, (x,), (x + 1.0,)))
        same(fg.vmap(compiled)(np.stack([x, x])), fg.vmap(f)(np.stack([x, x])))
        same(fg.vmap(fg.grad(compiled_loss))(x[None]), fg.grad(loss)(x)[None])


@pytest.mark.slow
@settings(max_examples=6)
@given(PROGRAMS, POINTS)
def test_paths_of_nested_functions_are_those_of_the_outermost(statements, points):
    f = program(["call", *statements, "call"])
    nested = guarded(program(["call", *statements, "call"], guarded), max_paths=500)
    hessian = guarded(fg.hessian(summed(nested)), max_paths=500)
    for x in points:
        same(nested(x), f(x))
        same(hessian(x), fg.hessian(summed(f))(x))


def test_a_call_computes_and_does_everything_once():
    done = []

    def told(x):
        done.append(float(x))
        return x

    tell = fg.extend.general("told", eval=told, type=lambda x: x, effect=True)

    def f(x):
        tell(x)
        y = tell(x * 2.0)
        if y > 2.0:
            tell(x + 100.0)
            if x > 5.0:
                return y
        tell(y + 200.0)
        return y + x

    compiled = guarded(f)
    for x in (0.5, 2.0, 6.0, 6.5, 2.5, 0.25, 3.0):
        done.clear()
        expected, wanted = f(x), list(done)
        done.clear()
        assert compiled(x) == expected
        assert done == wanted
    assert len(compiled.lower(1.0).paths) == 3


def test_what_is_printed_before_a_branch_that_raises_is_printed(capsys):
    @guarded
    def f(x):
        fg.debug.print("x is {x}", x=x)
        if x < 0:
            raise ValueError("below zero")
        return x

    for x in (1.0, 2.0, -1.0, -2.0):
        if x > 0:
            assert f(x) == x
        else:
            with pytest.raises(ValueError, match="below zero"):
                f(x)
        assert capsys.readouterr().out == f"x is {x}\n"


def test_a_path_that_is_not_taken_warns_of_nothing(recwarn):
    @guarded
    def f(x):
        safe = np.log(x) if np.all(x > 0) else x
        return safe + (1.0 / x[0] if x[0] != 0 else 0.0)

    for x in (np.array([1.0, 2.0]), np.array([0.0, 2.0]), np.array([-1.0, 0.0])) * 2:
        f(x)
        fg.grad(lambda x: np.sum(f(x)))(x)
    assert not list(recwarn)


def test_a_nan_goes_where_it_goes_in_numpy():
    f = guarded(signed)
    for x in (2.0, np.nan, 0.5, -0.0, np.nan, -np.inf):
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(f(x), signed(x))
    number = guarded(lambda x: x * int(x))
    assert number(2.5) == 5.0
    for _ in range(2):
        with pytest.raises(ValueError, match="NaN to integer"):
            number(np.nan)
    assert number(2.25) == 4.5


def test_questions_without_an_answer_that_the_function_catches():
    def f(x):
        try:
            n = int(x)
        except (ValueError, OverflowError):
            n = 7
        return x * 0.0 + n if np.isfinite(x) else 1.0 * n

    compiled = guarded(f)
    for x in (1.5, np.nan, 2.5, np.inf, 1.7, np.nan, np.inf):
        assert compiled(x) == f(x)
    assert len(compiled.lower(1.5).paths) == 4


def test_other_structures_and_dtypes_at_the_end_of_other_paths():
    @guarded
    def f(x, n):
        if n > 1:
            return [x, (x[0], n)]
        return x.astype(np.float32) if n == 1 else {"shape": np.zeros(int(x[0]))}

    for n in (0, 1, 2, 0, 1, 2):
        x = np.array([2.0, 3.0])
        same(f(x, n), f.__wrapped__(x, n))


def test_results_own_their_memory():
    f = guarded(lambda x: (x, x * 2.0) if np.all(x * 2.0 > 0) else (x, x))
    x = np.ones(3)
    for _ in range(3):
        first, second = f(x)
        first += 1.0
        second += 1.0
        np.testing.assert_array_equal(x, np.ones(3))
    third, fourth = f(-x)
    third += 5.0
    np.testing.assert_array_equal(fourth, -x)


def test_functions_without_questions_are_compiled_as_ever():
    f, plain = guarded(np.sin), fg.jit(np.sin)
    f(1.0)
    assert f.lower(1.0).paths == () and f.lower(1.0).source == plain.lower(1.0).source
    graph = fg.make_jaxpr(lambda x: f(x) + 1.0)(1.0)
    assert [e.primitive.name for e in graph.equations] == ["call", "add"]


def test_what_is_shown_of_the_paths():
    f = guarded(signed)
    for x in (2.0, 0.0):
        f(x)
    line = f"{__file__}:{signed.__code__.co_firstlineno + 2} (signed)"
    shown = f.lower(0.5)
    assert shown.paths[0] == f"bool() at {line}: True"
    assert len(shown.paths) == 2 and ", bool() at " in shown.paths[1]
    assert "mul" in repr(shown) and "sin" not in repr(shown)
    assert shown.source.count("def run(") >= 2
    assert shown.cost().flops >= 1
    assert len(f.lower(-2.0).paths) == 3
    assert f.cache_info().currsize == 1
    f.cache_clear()
    assert len(f.lower(0.5).paths) == 1
    fg.clear_caches()
    assert f.cache_info().currsize == 0 and f(3.0) == 9.0


def test_profile_shows_the_path_that_is_taken():
    profile = fg.profile(guarded(signed), repetitions=1)
    assert "sin" in str(profile(-2.0)) and "sin" not in str(profile(0.5))


# --- too many paths, and functions that do not repeat themselves ----------------------


def test_ever_new_paths_are_an_error_that_names_the_line():
    def f(x, n):
        y = x if x > 0 else -x
        return y ** int(n)

    compiled = guarded(f, max_paths=5)
    for n in range(5):
        assert compiled(2.0, n) == 2.0**n
    line = f"int() at {__file__}:{f.__code__.co_firstlineno + 2} (f) was answered 0, 1, 2, 3, ..."
    with pytest.raises(errors.BranchError) as info:
        compiled(2.0, 5)
    assert line in str(info.value) and "more than 5 paths" in str(info.value)
    assert "max_paths" in str(info.value) and "static_argnames" in str(info.value)
    assert compiled(2.0, 4) == 16.0  # the paths that are there go on
    assert compiled(np.float32(2.0), 5) == 32.0  # other types have paths of their own
    with pytest.raises(errors.BranchError):
        fg.grad(compiled)(2.0, 6)


def test_a_loop_that_runs_ever_longer_is_named():
    def f(x):
        while x > 1.0:
            x = x / 2.0
        return x

    compiled = guarded(f)
    with pytest.raises(errors.BranchError, match=r"bool\(\) at .*test_branches.py.* False, True"):
        for k in range(30):
            assert compiled(2.0**k) == 1.0
    assert compiled(2.0**15) == 1.0
    with pytest.raises(errors.BranchError):
        compiled(2.0**16)


def test_paths_that_raise_are_not_counted():
    @fg.jit(branches="guard", max_paths=1)
    def f(n):
        if n > 0:
            raise ValueError("above")
        return n

    assert f(-1.0) == -1.0
    g = fg.jit(f.__wrapped__, branches="guard", max_paths=2)
    for _ in range(3):
        with pytest.raises(ValueError, match="above"):
            g(1.0)
    assert g(-1.0) == -1.0


def test_a_function_that_depends_on_more_than_its_arguments_is_found():
    calls = []

    @guarded
    def f(x):
        calls.append(1)
        if len(calls) > 1:
            x = np.sin(x)
        return x if x > 0 else -x

    assert f(1.0) == 1.0
    with pytest.raises(errors.BranchError, match=r"takes another course now at .*test_branches"):
        f(-1.0)


# --- other transforms, options, threads -----------------------------------------------


def test_the_default_follows_and_a_refusal_offers_it():
    follows, slope = fg.jit(signed), fg.jit(fg.grad(signed))
    for x in (2.0, 0.5, -3.0):
        assert follows(x) == signed(x) and slope(x) == fg.grad(signed)(x)
    for f in (strict(signed), strict(fg.grad(signed))):
        with pytest.raises(errors.AbstractBooleanError, match=r'fg\.jit\(f\) without branches="er'):
            f(2.0)


def test_the_setting():
    assert fg.config.branches == "guard"
    f = fg.jit(signed)
    try:
        fg.config.branches = "error"
        assert guarded(signed)(2.0) == 4.0
        with pytest.raises(errors.AbstractBooleanError):
            f(2.0)
    finally:
        fg.config.branches = "guard"
    assert f(3.0) == 9.0 and f(0.5) == 1.5
    for bad in (True, None, "guards"):
        with pytest.raises(errors.ArgumentError, match='"error" or "guard"'):
            fg.config.branches = bad
    with pytest.raises(errors.ArgumentError, match="branches has to be"):
        fg.jit(signed, branches="guards")
    for bad in (0, 1.5, None):
        with pytest.raises(errors.ArgumentError, match="max_paths"):
            fg.jit(signed, max_paths=bad)


def test_examples_that_differ_are_refused_at_their_line():
    f = guarded(signed)
    f(2.0), f(0.5)
    line = f"{__file__}:{signed.__code__.co_firstlineno + 2}"
    for _ in range(2):
        with pytest.raises(errors.AbstractBooleanError) as info:
            fg.vmap(f)(np.array([2.0, 0.5]))
        assert line in str(info.value) and "False in example 1" in str(info.value)
    batched = guarded(fg.vmap(signed))
    for xs in ([2.0, 3.0], [0.5, -0.5], [2.0, 4.0]):
        np.testing.assert_array_equal(batched(np.array(xs)), [signed(x) for x in xs])
    with pytest.raises(errors.AbstractBooleanError, match="False in example 1"):
        batched(np.array([2.0, 0.5]))


def test_values_closed_over_from_other_transforms():
    def loss(w):
        f = guarded(lambda x: w * x if w * x > 1.0 else x * w**2)
        return f(2.0) + f(0.1)

    for w in (2.0, 0.2, 20.0):
        plain = lambda w: sum(w * x if w * x > 1.0 else x * w**2 for x in (2.0, 0.1))  # noqa: E731
        np.testing.assert_allclose(fg.grad(loss)(w), fg.grad(plain)(w))
        np.testing.assert_allclose(guarded(fg.grad(loss))(w), fg.grad(plain)(w))


def test_a_body_asks_of_what_is_known_outside():
    @guarded
    def f(w, xs):
        def step(carry, x):
            carry = carry + x if w > 0 else carry * x
            return carry, carry

        return fg.lax.scan(step, w, xs)

    for w in (1.0, -1.0):
        same(f(w, np.arange(1.0, 4.0)), (w + 6.0, w + np.array([1.0, 3.0, 6.0])) if w > 0 else
             (w * 6.0, w * np.array([1.0, 2.0, 6.0])))  # fmt: skip

    inside = guarded(lambda xs: fg.lax.scan(lambda c, x: (c + signed(x), c), 0.0, xs))
    with pytest.raises(errors.AbstractBooleanError, match="only the type"):
        inside(np.ones(3))
    called = guarded(lambda xs: fg.lax.scan(lambda c, x: (c + guarded(signed)(x), c), 0.0, xs))
    with pytest.raises(errors.AbstractBooleanError, match="only the type"):
        called(np.ones(3))


def test_functions_with_rules_and_checkpoints_ask_of_their_arguments():
    rule = fg.custom_vjp(signed)
    rule.defvjp(lambda x: (signed(x), x), lambda x, g: (g * (10.0 if x > 0 else 20.0),))
    forward = fg.custom_jvp(signed)
    forward.defjvp(lambda p, t: (signed(*p), t[0] * (10.0 if p[0] > 0 else 20.0)))
    scale = 2.0
    kept = fg.checkpoint(lambda x: signed(x) * scale if x > 0 else x**3)
    for f in (rule, forward, kept):
        compiled, slope = guarded(f), guarded(fg.grad(f))
        for x in (2.0, 0.5, -3.0, 3.0, -0.5):
            np.testing.assert_allclose(compiled(x), f(x))
            np.testing.assert_allclose(slope(x), fg.grad(f)(x))
        with pytest.raises(errors.AbstractBooleanError, match="only the type"):
            strict(f)(2.0)
    # both at once: the values of a closure, and of the arguments
    outer = guarded(fg.grad(lambda w: fg.checkpoint(lambda x: x * w if x > w else w**2)(2.0 * w)))
    assert (outer(1.0), outer(-1.0), outer(3.0)) == (4.0, -2.0, 12.0)


def test_recording_transforms_do_not_know_the_values():
    f = guarded(signed)
    f(2.0)
    for record in (
        fg.make_jaxpr(f),
        strict(f),
        fg.export(f),
        strict(lambda x: fg.vmap(f)(x[None])),
    ):
        with pytest.raises(errors.AbstractBooleanError, match="only the type") as info:
            record(2.0)
        assert __file__ in str(info.value)


def test_static_arguments_methods_and_keywords():
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @fg.jit(static_argnames="power", branches="guard")
        def __call__(self_scale, x, *, power=1):
            y = x**power
            return y if y > 1.0 else -y

    f = Model.__dict__["__call__"]
    for power in (1, 2):
        for x in (0.5, 2.0):
            expected = x**power if x**power > 1.0 else -(x**power)
            assert f(0.0, x, power=power) == expected


def test_a_mask_of_one_number():
    f = guarded(lambda x: np.sum(x[x * 2.0 > 0] ** 2))
    assert [f(x) for x in (3.0, -1.0, 2.0)] == [9.0, 0.0, 4.0]


def test_writes_and_integer_questions():
    @guarded
    def f(x, n):
        out = 0.0 * x
        for i in range(int(n)):
            out[i] = x[i] if x[i] > 0 else 0.0
        return np.sum(out**2)

    def plain(x, n):
        return sum(x[i] ** 2 for i in range(n) if x[i] > 0)

    for n in (1, 3, 2, 3):
        for x in (np.array([1.0, 2.0, 3.0]), np.array([-1.0, 2.0, -3.0])):
            np.testing.assert_allclose(f(x, n), plain(x, n))


def test_pickles_know_how_to_follow():
    f = pickle.loads(pickle.dumps(fg.jit(signed, branches="guard", max_paths=2)))
    assert f(2.0) == 4.0 and f(0.5) == 1.5
    with pytest.raises(errors.BranchError, match="more than 2 paths"):
        f(-2.0)


def test_inline_programs():
    f = guarded(signed, inline=True)
    for x in (2.0, 0.5, -2.0, 2.5, 0.25, -3.0):
        assert f(x) == signed(x)
        assert fg.grad(f)(x) == fg.grad(signed)(x)


def test_threads_find_paths_together():
    @guarded
    def f(x, n):
        total = x
        for i in range(int(n)):
            total = total * 1.5 + (i if total > 3.0 else x)
        return total, total * 2.0

    f = fg.jit(f.__wrapped__, branches="guard", max_paths=200)
    calls = [(x, n) for x in (0.1, 1.0, 3.0) for n in range(6)] * 4
    random = np.random.default_rng(0)
    random.shuffle(calls)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda call: f(*call), calls))
    for (x, n), result in zip(calls, found, strict=True):
        np.testing.assert_allclose(result, f.__wrapped__(x, int(n)), rtol=1e-15)
    assert len(f.lower(0.1, 0).paths) == len(set(f.lower(0.1, 0).paths)) <= 18


def test_a_compiled_function_follows_the_branches_that_its_caller_follows():
    inner = fg.jit(signed)

    def f(x):
        return inner(x) * 2.0 if x > 0.5 else inner(x)

    followed = fg.jit(f, branches="guard")
    slope = fg.jit(fg.grad(f), branches="guard")
    for x in (2.0, 0.7, 0.1, -3.0):
        scale = 2.0 if x > 0.5 else 1.0
        assert followed(x) == signed(x) * scale
        assert slope(x) == pytest.approx(fg.grad(signed)(x) * scale, rel=1e-15)
    with pytest.raises(errors.AbstractBooleanError):
        strict(f)(2.0)  # its own branches do not
    with pytest.raises(errors.AbstractBooleanError):
        guarded(lambda x: strict(signed)(x))(2.0)


# --- first calls ----------------------------------------------------------------------


def test_paths_beyond_the_limit_are_traced_with_one_warning():
    def f(x, n):
        return x ** int(n)

    compiled = fg.jit(f, max_paths=3)
    found = [compiled(2.0, n) for n in range(3)]
    with pytest.warns(errors.RetraceWarning, match=r"more than 3 paths .*int\(\) at .*0, 1, 2, 3"):
        found.append(compiled(2.0, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found += [compiled(2.0, 4), compiled(2.0, 1)]
        assert fg.grad(compiled)(2.0, 5) == 80.0
    assert found == [1.0, 2.0, 4.0, 8.0, 16.0, 2.0]
    assert len(compiled.lower(2.0, 1).paths) == 3


def test_paths_beyond_the_limit_are_evaluated_with_the_types_of_compiled_ones():
    held = np.zeros(2)

    def f(x, rows):
        held[0] = x
        rows[1] = x * held[0]
        for row in (1.0, -2.0, 3.0):
            x = np.sin(x) if x > row * rows[0] else x * rows[1]
        return {"x": x, "rows": rows, "number": 3, "same": rows}

    compiled = fg.jit(f, max_paths=1)
    slope = fg.jit(fg.grad(lambda x, rows: f(x, rows)["x"]), max_paths=1)
    with pytest.warns(errors.RetraceWarning, match="is evaluated, at each call"):
        for x, first in ((0.3, 1.0), (-0.7, 1.0), (-0.7, -1.0), (2.0, 0.5), (0.3, 1.0)):
            rows = np.array([first, 4.0])
            found, expected = compiled(x, rows), f(x, rows.copy())
            held[0] = 0.0
            assert rows[1] == 4.0 and found["rows"] is not found["same"]
            assert found["x"] == pytest.approx(expected["x"], rel=1e-14)
            assert np.array_equal(found["rows"], expected["rows"]) and found["number"] == 3
            assert {k: type(v) for k, v in found.items()} == {
                "x": np.float64, "rows": np.ndarray, "number": int, "same": np.ndarray
            }  # fmt: skip
            both = slope(x, rows), fg.grad(lambda x, rows: f(x, rows)["x"])(x, rows)
            assert both[0] == pytest.approx(both[1], rel=1e-14)
            assert held[0] == 0.0
    assert len(compiled.lower(0.3, np.array([1.0, 4.0])).paths) == 1


def test_effects_beyond_the_limit_happen_once(capsys):
    @fg.jit(max_paths=1)
    def f(x):
        fg.debug.print("x is {x}", x=x)
        y = x if x > 0 else -x
        fg.debug.print("y is {y}", y=y)
        return y

    assert f(1.0) == 1.0
    with pytest.warns(errors.RetraceWarning):
        assert f(-1.0) == 1.0
    assert capsys.readouterr().out == "x is 1.0\ny is 1.0\nx is -1.0\ny is 1.0\n"


ROW = np.array([1.0, 10.0, 100.0])


def test_an_index_of_an_array_is_traced_and_asks_nothing():
    def f(x, i):
        y = x * ROW[i]
        return y if x > 0 else -y

    compiled = fg.jit(f)
    for x in (2.0, -2.0):
        for i in range(3):
            assert compiled(x, i) == 2.0 * 10.0**i
    assert len(compiled.lower(2.0, 0).paths) == 2
    for shaped in (
        lambda n: np.zeros(n), lambda n: np.ones((n, 2)), lambda n: ROW[:n],
        lambda n: np.reshape(np.ones(6), (n, -1)), lambda n: fg.jit(lambda m: np.zeros(m) + 1.0)(n),
    ):  # fmt: skip
        for jitted in (fg.jit(shaped), guarded(shaped)):
            for n in (3, 2):
                np.testing.assert_array_equal(jitted(n), shaped(n))
    ranges = fg.jit(lambda x, n: sum(x * ROW[k] for k in range(n)))
    assert [ranges(2.0, n) for n in (1, 2, 3)] == [2.0, 22.0, 222.0]


def test_questions_about_constants_are_no_guards():
    def f(x):
        zeros = np.zeros_like(x)
        return x * 2.0 if np.all(zeros == 0.0) else x

    compiled = fg.jit(f)
    assert compiled(3.0) == 6.0 and compiled(-3.0) == -6.0
    assert compiled.lower(3.0).paths == ()


def test_a_path_of_many_questions_is_evaluated_first():
    def f(x):
        total = 0.0 * x
        for k in range(100):
            total = total + np.sin(x * k) if x * k < 60.0 else total * 0.5
        return total, x

    compiled = fg.jit(f)
    for x in (0.3, 0.31, 2.0, 0.32, 2.1, 0.33, 2.2, 2.2, 0.3):
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-13)
    slope = fg.jit(fg.grad(lambda x: f(x)[0]))
    for x in (0.3, 2.0, 0.3):
        np.testing.assert_allclose(slope(x), fg.grad(lambda x: f(x)[0])(x), rtol=1e-12)


def test_memory_order_of_arguments_of_functions_with_branches():
    def f(x):
        flat = x.reshape(-1)
        flat[0] = 7.0
        return np.sum(x**2) if x[0, 0] > 0 else x[0, 1]

    compiled = fg.jit(f)
    assert compiled(np.ones((2, 3))) == f(np.ones((2, 3)))
    with pytest.raises(errors.UnsupportedArgumentError, match="C order"):
        compiled(np.ones((3, 2)).T)


def test_the_hash_of_a_number_is_an_answer():
    f = lambda x: x * (hash(float(x)) % 7)  # noqa: E731
    for x in (0.7, 0.9):
        assert fg.jit(f)(x) == f(x) and fg.jit(fg.grad(f))(x) == hash(x) % 7


def test_a_path_with_many_questions_is_recorded_in_linear_time():
    """The calls for each question are as many in a path of 600 questions as in one of 300."""

    def steps(x, count):
        for _ in range(count):
            x = x + 0.1 * np.sin(x)
            if np.sum(x * x) > 1e9:
                x = 0.5 * x
        return np.sum(x)

    found = []
    for count in (300, 600):
        f = fg.jit(fg.grad(lambda x, count=count: steps(x, count)))
        calls = [0]

        def called(*_, calls=calls):
            calls[0] += 1

        sys.setprofile(called)
        try:
            f(np.ones(2))
        finally:
            sys.setprofile(None)
        found.append(calls[0] / count)
        np.testing.assert_allclose(f(np.ones(2)), f(np.ones(2)))
    assert found[1] < 1.1 * found[0]
    assert found[1] < 2600  # calls and returns, C's functions as well
