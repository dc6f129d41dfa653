"""fg.why names the planted cause of each zero or NaN, and its line; debug.trap; ablate_stops."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax
from fungrad.errors import ArgumentError, TrapError
from fungrad.extend import elementwise

X = np.array([1.0, 2.0, 3.0])
LATE = np.array([1.0, 0.0])


def line_of(f, mark="# here"):
    """The number of the marked line in a function's source."""
    lines, first = inspect.getsourcelines(f)
    return first + next(i for i, line in enumerate(lines) if mark in line)


# --- the planted causes: f(x, y), of which y is to blame -------------------------------------


def unused(x, y):
    return np.sum(x)


def dead(x, y):
    np.exp(y)  # here
    return np.sum(x)


def stopped(x, y):
    target = fg.stop_gradient(np.exp(y), "target")  # here
    return np.sum(x * target)


def stopped_block(x, y):
    with fg.no_gradient("weights"):
        weight = np.tanh(y)  # here
    return np.sum(x * weight)


def behind_argmax(x, y):
    return np.sum(x) * np.argmax(y)  # here


def behind_round(x, y):
    return np.sum(x * np.rint(y))  # here


def behind_floor(x, y):
    return np.sum(x * np.floor(y))  # here


def behind_sign(x, y):
    return np.sum(x * np.sign(y))  # here


def behind_comparison(x, y):
    return np.sum(np.where(y > 1.5, x, 0.0))  # here


def behind_cast(x, y):
    return np.sum(x * y.astype(int))  # here


def behind_argsort(x, y):
    return np.sum(x[np.argsort(y)] * X)  # here


def saturated_tanh(x, y):
    return np.sum(x * np.tanh(100.0 * y))  # here


def saturated_exp(x, y):
    return np.sum(x + np.exp(-1000.0 * y))  # here


def overflowing_sigmoid(x, y):
    z = 1e3 * y
    return np.sum(x / (1.0 + np.exp(z)))  # here


def kink_abs(x, y):
    return np.sum(x * np.abs(y - X))  # here


def inactive_relu(x, y):
    return np.sum(x * np.maximum(-y, 0.0))  # here


def masked(x, y):
    return np.sum(np.where(X > 5.0, np.sin(y), x))  # here


def zero_factor(x, y):
    gate = np.zeros(3)
    return np.sum(x + gate * y)  # here


def stationary(x, y):
    return np.sum(x + np.square(y - X))  # here


def cancelled(x, y):
    return np.sum(x + y - y)


def forward_nan(x, y):
    z = -y
    return np.sum(x * np.log(z) ** 2)  # here


def forward_inf(x, y):
    return np.sum(x + np.exp(800.0 * y))  # here


def backward_inf(x, y):
    return np.sum(x + np.sqrt(y - X))  # here


def double_where(x, y):
    root = np.sqrt(y - X)  # here
    return np.sum(x + 0.0 * root)


def double_where_product(x, y):
    z = np.abs(y - X)
    logs = np.log(z)  # here
    return np.sum(x) + np.sum(np.where(z > 0, np.eye(3) @ logs, 0.0))


def nan_constant(x, y):
    return np.sum(x) + np.sum(y * np.array([1.0, np.nan, 1.0]) * 2.0)  # here


def inf_minus_inf(x, y):
    big = np.exp(800.0 * y)  # here
    return np.sum(x + (big - big))


def in_scan(x, y):
    def step(carry, v):
        return carry + np.sum(np.floor(v)), v  # here

    return lax.scan(step, np.sum(x), y)[0]


def stopped_in_scan(x, y):
    def step(carry, v):
        return carry * fg.stop_gradient(v, "input"), v  # here

    return lax.scan(step, np.sum(x), y)[0]


def nan_in_scan(x, y):
    def step(carry, v):
        carry = carry - 2.0 * v
        return np.log(carry), carry  # here

    return lax.scan(step, 2.5, y)[0] + np.sum(x)


def in_cond(x, y):
    return lax.cond(
        np.sum(X) > 0,
        lambda a, b: np.sum(a * np.rint(b)),  # here
        lambda a, b: np.sum(a * b),
        x,
        y,
    )


def in_while(x, y):
    def body(state):
        i, total = state
        return i + 1, total * np.sum(np.ceil(y))  # here

    return lax.while_loop(lambda state: state[0] < 2, body, (0, np.sum(x)))[1]


def in_checkpoint(x, y):
    @fg.checkpoint
    def inner(a, b):
        return np.sum(a * fg.stop_gradient(b, "kept"))  # here

    return inner(x, y)


CASES = [
    (unused, "zero", "unused"), (dead, "zero", "unused"), (stopped, "zero", "stopped"),
    (stopped_block, "zero", "stopped"), (behind_argmax, "zero", "cut"),
    (behind_round, "zero", "cut"), (behind_floor, "zero", "cut"), (behind_sign, "zero", "cut"),
    (behind_comparison, "zero", "cut"), (behind_cast, "zero", "cut"),
    (behind_argsort, "zero", "cut"), (saturated_tanh, "zero", "saturated"),
    (saturated_exp, "zero", "saturated"), (overflowing_sigmoid, "nan", "overflow"),
    (kink_abs, "zero", "kink"), (inactive_relu, "zero", "inactive"), (masked, "zero", "masked"),
    (zero_factor, "zero", "zero factor"), (stationary, "zero", "stationary"),
    (cancelled, "zero", "cancelled"), (forward_nan, "nan", "forward"),
    (forward_inf, "inf", "forward"), (backward_inf, "inf", "backward"),
    (double_where, "nan", "double where"), (nan_constant, "nan", "constant"),
    (double_where_product, "nan", "double where"),
    (inf_minus_inf, "nan", "overflow"), (in_scan, "zero", "cut"),
    (stopped_in_scan, "zero", "stopped"), (nan_in_scan, "nan", "forward"),
    (in_cond, "zero", "cut"), (in_while, "zero", "cut"), (in_checkpoint, "zero", "stopped"),
]  # fmt: skip

WAYS = {
    "eager": lambda f: f,
    "jit": fg.jit,
    "jit inside": lambda f: lambda x, y: 2.0 * fg.jit(f)(x, y),
    "vmap": lambda f: lambda x, y: np.sum(fg.vmap(f)(np.stack([x, x]), np.stack([y, y]))),
    "scan": lambda f: (
        lambda x, y: lax.scan(lambda carry, _: (carry + f(x, y), 0.0), 0.0, np.zeros(2))[0]
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("f", "verdict", "cause"), CASES, ids=lambda v: getattr(v, "__name__", v))
def test_the_planted_cause_and_its_line(f, verdict, cause, way):
    found = fg.why(WAYS[way](f))(X, X.copy())["y"]
    assert (found.verdict, found.cause) == (verdict, cause), str(found)
    if "# here" in inspect.getsource(f):
        assert found.source is not None, str(found)
        assert (found.source.file, found.source.line) == (__file__, line_of(f)), str(found)
        assert f"{__file__}:{line_of(f)}" in str(found)


@pytest.mark.parametrize(("f", "verdict", "cause"), CASES, ids=lambda v: getattr(v, "__name__", v))
def test_the_verdict_is_what_grad_gives(f, verdict, cause):
    with np.errstate(all="ignore"):
        gradient = fg.grad(f, argnums=1)(X, X.copy())
    kind = (
        "nan" if np.isnan(gradient).any()
        else "inf" if np.isinf(gradient).any()
        else "fine" if gradient.any() else "zero"
    )  # fmt: skip
    assert kind == verdict


def test_names_of_stops_and_what_they_save():
    found = fg.why(stopped)(X, X)
    assert '"target"' in found["y"].reason
    (stop,) = found.stops
    assert (stop.name, stop.source.line) == ("target", line_of(stopped))
    assert (stop.equations, stop.nbytes) == (1, 24)  # the exp; without the stop it would be kept
    assert "saves 1 equation (24 bytes" in str(found)


def test_what_a_stop_in_a_jitted_scan_saves():
    @fg.jit
    def f(x, y):
        def step(carry, v):
            return carry * fg.stop_gradient(np.exp(v) + 1.0, "weight"), None

        return lax.scan(step, np.sum(x), y)[0]

    (stop,) = fg.why(f)(X, X).stops
    assert (stop.name, stop.equations, stop.nbytes) == ("weight", 2, 2 * 8 * 3)


def test_python_control_flow_is_followed_and_its_stops_are_not_counted():
    def f(x, y):
        if x[0] > 0:
            return np.sum(x * fg.stop_gradient(y, "taken"))
        return np.sum(y)

    found = fg.why(f)(X, X)
    assert found["y"].cause == "stopped"
    assert found.stops == [] and "cannot be staged" in found.remarks[0]


def test_fine_gradients_mention_kinks_and_zeros():
    found = fg.why(lambda x: np.sum(np.maximum(x, 2.0)))(X)["x"]
    assert (found.verdict, found.cause) == ("fine", "kink")
    assert "1 of its 3 entries are 0" in found.reason and "one place" in found.notes[0]
    found = fg.why(lambda x: np.max(x) + np.sum(np.sort(x)))(np.array([1.0, 2.0, 2.0]))["x"]
    assert len(found.notes) == 2
    assert fg.why(lambda x: np.sum(x * x))(X)["x"].cause == "connected"


def test_leaves_that_can_have_no_gradient():
    found = fg.why(lambda p, n: p["w"] * n)({"w": 2.0, "k": np.arange(3)}, 3)
    assert [(f.path, f.verdict) for f in found.findings] == [
        ("p['k']", "none"), ("p['w']", "fine"), ("n", "none"),
    ]  # fmt: skip


def test_argnums_keywords_and_outputs_of_many_numbers():
    found = fg.why(lambda x, y: x * y, argnums=1)(X, X)
    assert [f.path for f in found.findings] == ["y"]
    found = fg.why(lambda x, *, scale: {"a": x * scale, "b": 3})(X, scale=2.0)
    assert [(f.path, f.verdict) for f in found.findings] == [("x", "fine"), ("scale", "fine")]
    assert fg.why(lambda x: np.argmax(x))(X).output.verdict == "none"


def test_nan_in_the_value_alone_is_told_of():
    found = fg.why(lambda x: np.sum(np.log(x)))(-X)
    assert found["x"].verdict == "fine"
    assert (found.output.verdict, found.output.cause) == ("nan", "forward")
    assert "log" in str(found)


def test_nan_in_the_input():
    found = fg.why(lambda x: np.sum(x * x))(np.array([1.0, np.nan]))["x"]
    assert (found.verdict, found.cause) == ("nan", "input")


def test_the_first_bad_entry_is_shown():
    found = fg.why(lambda x: np.sum(np.sqrt(x)))(np.array([4.0, 0.0, 0.0]))["x"]
    assert found.notes == ("first at [1], from 0.0, 1.0; 2 of 3 entries",)
    found = fg.why(lambda x: np.sum(np.log(x) ** 2))(np.array([4.0, -2.0]))["x"]
    assert found.notes == ("first at [1], from -2.0; 1 of 2 entries",)


def test_the_double_where_advice_is_given():
    assert "double where" in str(fg.why(double_where)(X, X.copy())["y"])


def test_it_evaluates_once_and_stages_at_most_once():
    calls = []

    def f(x):
        calls.append(type(x[0]).__name__)
        fg.debug.callback(lambda v: calls.append("value"), x)
        return np.sum(fg.stop_gradient(x) * x)

    fg.why(f)(X)
    assert calls.count("value") == 1 and len(calls) == 3


def test_results_are_plain_data():
    found = fg.why(stopped)(X, X)
    data = json.loads(json.dumps(found.as_json()))
    assert data["findings"][1]["source"]["line"] == line_of(stopped)
    assert data["stops"][0]["name"] == "target" and data["function"] == "stopped"
    assert repr(found) == str(found)
    with pytest.raises(KeyError):
        found["z"]


def test_inside_of_another_transform_there_is_nothing_to_see():
    with pytest.raises(ArgumentError, match="outside"):
        fg.vmap(lambda x: len(fg.why(np.sin)(x).findings))(X)


LONG = [case for case in CASES if case[0] in (in_scan, stopped_in_scan, in_while, in_cond)]


@pytest.mark.parametrize("wrap", [lambda f: f, fg.jit])
@pytest.mark.parametrize(("f", "verdict", "cause"), LONG, ids=lambda v: getattr(v, "__name__", v))
def test_long_loops_stay_one_equation_and_are_looked_into(f, verdict, cause, wrap, monkeypatch):
    monkeypatch.setattr("fungrad.inspect.why.recording_trace.MOST_EQUATIONS", 1)
    found = fg.why(wrap(f))(X, X.copy())
    assert found["x"].verdict == "fine"
    assert (found["y"].verdict, found["y"].cause) == (verdict, cause)
    assert found["y"].source.line == line_of(f)


def test_a_while_loop_of_many_steps_goes_on_as_one_equation(monkeypatch):
    def f(x):
        return lax.while_loop(lambda c: c[0] < 50, lambda c: (c[0] + 1, c[1] * x), (0, 1.0))[1]

    monkeypatch.setattr("fungrad.inspect.why.recording_trace.MOST_EQUATIONS", 20)
    found = fg.why(f)(1.01)["x"]
    expected = float(fg.grad(f)(1.01))
    assert found.verdict == "fine" and f"{expected:.3g}" in found.reason


def test_what_is_not_selected_names_who_selects():
    def f(x):
        return np.max(np.stack([x, 5.0]))

    found = fg.why(f)(1.0)["x"]
    assert (found.verdict, found.cause) == ("zero", "inactive")
    assert "`reduce_max`" in found.reason and "`stack`" in found.reason


def test_stops_that_vmap_puts_in_are_not_shown():
    def f(x):
        return lax.cond(x > 2.0, lambda v: np.log(v), lambda v: v * 2.0, x)

    assert fg.why(lambda xs: np.sum(fg.vmap(f)(xs)))(X).stops == []


# --- debug.trap -------------------------------------------------------------------------------


def log_of(x):
    y = x * 1.0
    return np.sum(np.log(y))  # here


def root_of(x):
    return np.sum(np.sqrt(x))  # here


def rooted(x):
    return np.sum(np.where(x > 0, np.sqrt(x), 0.0))


def trapped(f, *words, **options):
    with pytest.raises(TrapError) as info:
        with fg.debug.trap(**options):
            f()
    for word in words:
        assert word in info.value.message, info.value.message


@pytest.mark.parametrize(
    "way", [fg.value_and_grad, lambda f: fg.jit(fg.value_and_grad(f)), lambda f: fg.grad(fg.jit(f))]
)
def test_trap_names_the_forward_line(way):
    line = f"{__file__}:{line_of(log_of)}"
    trapped(lambda: way(log_of)(LATE), "inf was made by `log`", line, "[1, 0]")
    trapped(lambda: way(log_of)(-X), "NaN was made by `log`", line)


@pytest.mark.parametrize("way", [fg.grad, lambda f: fg.grad(fg.jit(f)), fg.value_and_grad])
def test_trap_names_the_forward_line_of_a_backward_step(way):
    trapped(
        lambda: way(root_of)(LATE), "inf was made", "backward pass",
        f"{__file__}:{line_of(root_of)}",
    )  # fmt: skip


def test_trap_looks_into_loops():
    def while_log(x):
        def body(c):
            return c[0] + 1, np.log(c[1])  # here

        return lax.while_loop(lambda c: c[0] < 3, body, (0, x))[1]

    trapped(lambda: fg.grad(while_log)(0.5), "`log`", f":{line_of(while_log)}")
    trapped(lambda: fg.grad(nan_in_scan)(X, X), "`log`", f":{line_of(nan_in_scan)}")


def test_trap_hears_of_plain_arrays():
    trapped(lambda: np.log(LATE), "divide by zero", __file__)
    trapped(lambda: LATE / LATE, "NaN was made (invalid")


def test_trap_lets_through_what_is_fine():
    with fg.debug.trap():
        gradient = fg.grad(rooted)(LATE)
        np.testing.assert_array_equal(gradient, [0.5, 0.0])
        np.testing.assert_array_equal(fg.grad(lambda x: np.sum(x))(np.array([np.nan])), [1.0])
        for masked in (fg.grad(fg.jit(rooted)), fg.jit(fg.grad(rooted))):
            np.testing.assert_array_equal(masked(LATE), [0.5, 0.0])
        picked = fg.vmap(lambda v: lax.cond(v > 0, np.log, lambda u: 2.0 * u, v))
        np.testing.assert_array_equal(picked(LATE), [0.0, 0.0])
        for kink in (np.linalg.norm, np.prod, lambda x: np.sum(np.hypot(x, x))):
            fg.grad(kink)(np.zeros(2))
        with np.errstate(invalid="ignore", divide="ignore"):
            assert np.isinf(np.log(0.0))
    with fg.debug.trap(inf=False):
        assert np.isinf(fg.grad(root_of)(LATE)[1])


def test_trap_at_kinks_only_when_asked():
    f = fg.grad(lambda x: np.sum(np.abs(x)))
    trapped(lambda: f(LATE), "`abs` sits at a kink in one place", kinks=True)
    with fg.debug.trap():
        np.testing.assert_array_equal(f(LATE), [1.0, 0.0])


def test_trap_leaves_nothing_behind():
    before = np.geterr(), np.geterrcall()
    trapped(lambda: fg.grad(root_of)(LATE))
    assert (np.geterr(), np.geterrcall()) == before
    with np.errstate(divide="ignore"):
        assert np.isinf(fg.grad(root_of)(LATE)[1])


# --- ablate_stops -----------------------------------------------------------------------------


def two_stops(x):
    a = fg.stop_gradient(x, "a")
    with fg.no_gradient("b"):
        b = np.square(x)
    return x * a * b


@pytest.mark.parametrize("way", [lambda f: f, fg.jit])
def test_ablation_gives_the_gradient_without_the_stops(way):
    f = way(two_stops)
    gradient = {
        names: float(fg.grad(fg.ablate_stops(f, names))(3.0)) for names in ("a", "b", ("a", "b"))
    }
    assert float(fg.grad(f)(3.0)) == 27.0
    assert gradient == {"a": 54.0, "b": 81.0, ("a", "b"): 108.0}
    assert float(fg.grad(fg.ablate_stops(f))(3.0)) == 108.0
    assert float(fg.ablate_stops(f, "a")(3.0)) == float(f(3.0))
    assert float(fg.jit(fg.grad(fg.ablate_stops(f)))(3.0)) == 108.0


def test_ablation_in_loops_forward_mode_vmap_and_orders():
    def f(x, y):
        return stopped_in_scan(x, y)

    np.testing.assert_allclose(
        fg.grad(fg.ablate_stops(f, "input"), argnums=1)(X, X),
        fg.grad(lambda x, y: np.sum(x) * np.prod(y), argnums=1)(X, X),
    )
    square = fg.ablate_stops(lambda x: x * fg.stop_gradient(x, order=2))
    assert float(fg.grad(fg.grad(square))(3.0)) == 2.0
    ablated = fg.ablate_stops(two_stops)
    assert float(fg.jvp(ablated, (3.0,), (1.0,))[1]) == 108.0
    np.testing.assert_allclose(fg.vmap(fg.grad(ablated))(X), 4.0 * X**3)


def test_a_name_that_no_stop_has():
    with pytest.raises(ArgumentError, match=r"no stop named 'c'.*'a', 'b'"):
        fg.grad(fg.ablate_stops(two_stops, "c"))(3.0)


def line_at(f, offset):
    return f.__code__.co_firstlineno + offset


def test_where_paths_meet_that_cancel():
    def f(x):
        a = np.sin(x)
        y = 2.0 * a
        return np.sum(a * 2.0 - y)

    found = fg.why(f)(np.ones(2))["x"]
    assert (found.cause, found.source.line) == ("cancelled", line_at(f, 1))
    assert f"reach `sin` at {__file__}:{line_at(f, 1)} (f)" in found.reason
    for offset in (2, 3):
        assert f"`mul` at {__file__}:{line_at(f, offset)} (f)" in found.reason

    def g(x):
        return np.sum(x * 2.0) - np.sum(2.0 * x)

    found = fg.why(g)(np.ones(2))["x"]
    assert (found.cause, found.source.line) == ("cancelled", line_at(g, 1))
    assert "reach it from `mul`" in found.reason


def test_what_takes_other_entries_is_named_and_not_what_puts_them_together():
    def largest(x, y):
        z = np.concatenate([x, y])
        z = 2.0 * z.reshape(2, 2)
        return np.max(z)

    found = fg.why(largest)(np.ones(2), np.array([3.0, 4.0]))["x"]
    assert (found.cause, found.source.line) == ("inactive", line_at(largest, 3))
    assert "`reduce_max`" in found.reason and "`concatenate`" in found.reason

    def padding(x):
        z = np.pad(x, 2)
        return np.sum(z[:2] * 3.0)

    found = fg.why(padding)(np.ones(2))["x"]
    assert (found.cause, found.source.line) == ("not selected", line_at(padding, 2))
    assert f"`pad` at {__file__}:{line_at(padding, 1)} (padding)" in found.reason

    def second(x, y):
        z = np.stack([x, y])
        return np.sum(z[1])

    found = fg.why(second)(np.ones(2), np.ones(2))["x"]
    assert (found.cause, found.source.line) == ("not selected", line_at(second, 2))


# --- primitives of others -----------------------------------------------------------------

SIGMOID = elementwise("sigmoid", lambda x: 0.5 + 0.5 * np.tanh(0.5 * x),
                      partials=[lambda y, x: y * (1.0 - y)])  # fmt: skip
HINGE = elementwise("hinge", lambda x: np.maximum(x, 0.0), partials=[lambda y, x: x > 0.0],
                    kink=lambda x: x == 0.0)  # fmt: skip
CUBED = elementwise("cubed", lambda x: x**3, partials=[lambda y, x: 3.0 * x * x])


@pytest.mark.parametrize(
    ("f", "x", "verdict", "cause"),
    [
        (SIGMOID, 800.0, "zero", "saturated"),
        (CUBED, 0.0, "zero", "stationary"),
        (HINGE, 0.0, "zero", "kink"),
        (lambda x: 0.0 * CUBED(x), 1e200, "nan", "overflow"),
        (fg.scipy.special.erf, 30.0, "zero", "saturated"),
        (fg.scipy.special.cosdg, 180.0, "zero", "stationary"),
    ],
)
def test_causes_are_found_of_any_primitive(f, x, verdict, cause):
    found = fg.why(lambda x: np.sum(f(x)))(np.array([x]))["x"]
    assert (found.verdict, found.cause) == (verdict, cause), str(found)


def test_a_notebook_shows_the_findings_as_a_table():
    found = fg.why(lambda w, x: np.sum(np.round(w) * x))(np.ones(2), np.ones(2))
    page = found._repr_html_()
    assert page.count("<tr>") == 3 and "<td>w</td><td><b>zero</b></td>" in page
    assert "&lt;lambda&gt;" in page and "<lambda>" not in page
