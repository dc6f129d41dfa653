"""Blocks and decorators without a gradient, what they do not keep, and programs that stand on
it.
"""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest

import fungrad as fg
from fungrad.tracing.captured_arrays import NO_GUARDS
from fungrad.tracing.trace import EVAL
from fungrad.transforms.engine.reverse import VjpTrace

SG = fg.stop_gradient


def tape_of(f, *args):
    """The names of the equations that an eager reverse pass keeps, and the arrays they hold on
    to.
    """
    trace = VjpTrace(EVAL, lambda: "the test", NO_GUARDS)
    trace.run(f, *[trace.tracer(a) for a in args])
    held = [
        x
        for record in trace.tape.records()
        for x in (*record[3], record[4])
        if isinstance(x, np.ndarray)
    ]
    return [record[0].name for record in trace.tape.records()], held


def derivatives(f, x, count, transform=fg.grad):
    result = []
    for _ in range(count):
        f = transform(f)
        result.append(float(f(x)))
    return result


def forward_derivative(f):
    return lambda x: fg.jvp(f, (x,), (1.0,))[1]


# --- nothing is kept, and nothing is made ---------------------------------------------


def e_step(x, w):
    """Eight operations on the way to some weights."""
    distance = np.square(x - w)
    scores = -distance / (1.0 + np.abs(distance))
    weights = np.exp(scores)
    return weights / (1.0 + weights)


def m_loss(x, w, weights):
    return np.sum(weights * (x - w) ** 2)


X = np.linspace(-1.0, 1.0, 50)


@pytest.mark.parametrize("form", ["function", "decorator", "block"])
def test_a_stopped_region_makes_no_backward_equation_and_keeps_no_residual(form):
    @fg.no_gradient("e_step")
    def decorated(x, w):
        return e_step(x, w)

    def loss(w):
        if form == "function":
            weights = e_step(X, SG(w))
        elif form == "decorator":
            weights = decorated(X, w)
        else:
            with fg.no_gradient("e_step"):
                weights = e_step(X, w)
        return m_loss(X, w, weights)

    def constant(w, weights):
        return m_loss(X, w, weights)

    # eagerly: the tape is that of a loss whose weights are plain numbers
    stopped, held = tape_of(loss, 0.3)
    alone, _ = tape_of(lambda w: constant(w, e_step(X, 0.3)), 0.3)
    assert stopped == alone
    inside = e_step(X, 0.3)
    residuals = [h for h in held if h.shape == (50,)]
    assert any(np.array_equal(h, inside) for h in residuals)  # the weights themselves are needed
    assert not any(np.array_equal(h, np.square(X - 0.3)) and h.base is None for h in residuals[:-4])

    # staged: grad adds as many equations as it adds without the region
    graph = fg.make_jaxpr(fg.grad(loss))(0.3)
    forward = fg.make_jaxpr(loss)(0.3)
    plain = fg.make_jaxpr(fg.grad(constant))(0.3, inside)
    plain_forward = fg.make_jaxpr(constant)(0.3, inside)
    added = len(graph.equations) - len(forward.equations)
    assert added == len(plain.equations) - len(plain_forward.equations)
    if form != "function":
        assert {e.scope for e in graph.equations} == {"", "e_step"}

    # and the gradient is the one by hand
    np.testing.assert_allclose(fg.grad(loss)(0.3), np.sum(-2.0 * inside * (X - 0.3)), rtol=1e-13)


def test_without_the_stop_the_region_is_kept():
    stopped, _ = tape_of(lambda w: m_loss(X, w, e_step(X, SG(w))), 0.3)
    whole, _ = tape_of(lambda w: m_loss(X, w, e_step(X, w)), 0.3)
    assert len(whole) >= len(stopped) + 7


def test_nothing_of_a_stopped_region_stays_in_memory():

    big = np.ones(200_000)

    def loss(w):
        with fg.no_gradient():
            y = w
            for _ in range(20):
                y = np.sin(y * big)
        return np.sum(y * w)

    fg.grad(loss)(1.0)
    tracemalloc.start()
    fg.vjp(loss, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * big.nbytes  # the twenty intermediate arrays would be 20 times it


# --- programs that stand on it --------------------------------------------------------


def test_straight_through_estimator_of_second_order():
    f = lambda x: (x + SG(np.round(x) - x)) ** 2  # noqa: E731
    assert f(1.3) == 1.0
    assert fg.grad(f)(1.3) == 2.0
    assert fg.grad(fg.grad(f))(1.3) == 2.0
    assert fg.jvp(fg.grad(f), (1.3,), (1.0,))[1] == 2.0


def test_magic_box_of_dice():
    # Foerster et al. 2018: exp(x - sg(x)) is 1; its derivatives are those of the likelihood ratio.
    box = lambda x: np.exp(x - SG(x))  # noqa: E731
    assert box(0.7) == 1.0
    assert derivatives(box, 0.7, 4) == [1.0, 1.0, 1.0, 1.0]
    assert derivatives(box, 0.7, 4, forward_derivative) == [1.0, 1.0, 1.0, 1.0]

    def objective(
        theta,
    ):  # E[a^2] for a Bernoulli action, all outcomes enumerated by its sampled weight
        p = 1.0 / (1.0 + np.exp(-theta))
        terms = [SG(q) * box(np.log(q)) * reward for q, reward in ((p, 3.0), (1.0 - p, 1.0))]
        return terms[0] + terms[1]

    def exact(theta):
        p = 1.0 / (1.0 + np.exp(-theta))
        return 3.0 * p + (1.0 - p)

    for f, g in ((objective, exact), (fg.grad(objective), fg.grad(exact))):
        np.testing.assert_allclose(f(0.4), g(0.4), rtol=1e-12)
    np.testing.assert_allclose(
        fg.grad(fg.grad(objective))(0.4), fg.grad(fg.grad(exact))(0.4), rtol=1e-12
    )


def test_stable_softmax_with_tied_maxima():
    def softmax(x, stop):
        m = np.max(x)
        e = np.exp(x - (SG(m) if stop else m))
        return e / np.sum(e)

    x = np.array([2.0, 2.0, -1.0])
    cotangent = np.array([0.3, -0.2, 0.5])
    p = softmax(x, True)
    by_hand = p * (cotangent - p @ cotangent)
    for stop in (True, False):
        f = lambda x, stop=stop: softmax(x, stop) @ cotangent  # noqa: E731
        np.testing.assert_allclose(fg.grad(f)(x), by_hand, atol=1e-15)
        hessian = fg.vmap(lambda t, f=f: fg.jvp(fg.grad(f), (x,), (t,))[1])(np.eye(3))
        assert np.all(np.isfinite(hessian))
        np.testing.assert_allclose(hessian, hessian.T, atol=1e-15)

    def equations(stop):
        return len(fg.make_jaxpr(fg.grad(lambda x: softmax(x, stop) @ cotangent))(x).equations)

    assert equations(True) < equations(False)


def test_reinforce_surrogate_and_natural_target():
    # A stopped target in a temporal difference error: only the prediction learns.
    def td(w, features, following, reward):
        target = reward + 0.9 * SG(following @ w)
        return 0.5 * (features @ w - target) ** 2

    w, a, b = np.array([0.5, -1.0]), np.array([1.0, 2.0]), np.array([0.0, 1.0])
    delta = a @ w - (1.0 + 0.9 * b @ w)
    np.testing.assert_allclose(fg.grad(td)(w, a, b, 1.0), delta * a, rtol=1e-14)


# --- the block and the decorator ------------------------------------------------------


def test_what_is_computed_in_a_block_is_stopped_and_what_is_only_passed_is_not():
    def f(x):
        with fg.no_gradient("region"):
            y = x * x
            same = x
        return y * same

    assert fg.grad(f)(3.0) == 9.0
    assert fg.jvp(f, (3.0,), (1.0,))[1] == 9.0


def test_a_decorated_function_hands_everything_on_stopped():
    @fg.no_gradient()
    def passes(x, *, scale=1.0):
        """Passes."""
        return {"same": x, "more": [x * scale]}

    assert passes.__doc__ == "Passes."
    assert fg.grad(lambda x: passes(x)["same"] * x)(3.0) == 3.0
    assert fg.grad(lambda x: passes(x, scale=2.0)["more"][0] * x)(3.0) == 6.0
    assert passes(2.0) == {"same": 2.0, "more": [2.0]}


def test_one_block_object_can_be_entered_again_and_inside_itself():
    region = fg.no_gradient("again")

    def f(x):
        with region:
            y = x * 2.0
            with region:
                z = y * x
            w = y + z
        with region:
            v = w * w
        return v * x

    expected = (2 * 3.0 + 2 * 9.0) ** 2
    assert fg.grad(f)(3.0) == expected
    assert fg.grad(f)(3.0) == expected


def test_a_recursive_decorated_function():
    @fg.no_gradient()
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    assert fg.grad(lambda x: power(x, 4) * x)(2.0) == 16.0


def test_an_error_inside_a_block_leaves_it():
    region = fg.no_gradient()

    def f(x):
        try:
            with region:
                raise KeyError("inside")
        except KeyError:
            pass
        return x * x

    assert fg.grad(f)(3.0) == 6.0
    with pytest.raises(KeyError), region:
        raise KeyError("outside")
    assert fg.grad(lambda x: x * x)(3.0) == 6.0


def test_a_block_outside_of_any_transform_does_nothing():
    with fg.no_gradient("nothing"):
        assert np.sin(1.0) == np.sin(1.0)
        assert isinstance(np.exp(np.ones(2)), np.ndarray)


def test_a_transform_inside_a_block_still_differentiates():
    def f(x):
        with fg.no_gradient():
            slope = fg.grad(lambda y: y**3)(x)
        return slope * x

    assert fg.grad(f)(2.0) == 12.0  # 3 x^2, held constant


def test_blocks_under_vmap_and_inside_nested_gradients():
    def f(x):
        with fg.no_gradient():
            y = np.exp(x)
        return y * x * x

    xs = np.array([0.1, 0.5])
    np.testing.assert_allclose(fg.vmap(fg.grad(f))(xs), 2 * np.exp(xs) * xs, rtol=1e-15)
    np.testing.assert_allclose(fg.vmap(fg.grad(fg.grad(f)))(xs), 2 * np.exp(xs), rtol=1e-15)


def test_one_block_object_in_many_threads():
    region = fg.no_gradient("shared")
    inside = threading.Barrier(4, timeout=60)
    found = {}

    def work(index):
        def f(x):
            with region:
                inside.wait()  # all four are in the block, and leave it in any order
                y = x * (index + 1.0)
                inside.wait()
            return y * x

        found[index] = [float(fg.grad(f)(2.0)) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: [2.0 * (i + 1)] * 5 for i in range(4)}


def test_the_decorator_without_parentheses():
    @fg.no_gradient
    def baseline(x):
        """The mean."""
        return np.mean(x)

    assert baseline.__name__ == "baseline" and baseline.__doc__ == "The mean."
    x = np.array([1.0, 3.0])
    assert baseline(x) == 2.0
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(x * baseline(x)))(x), [2.0, 2.0])
    assert fg.no_gradient("name", order=2).order == 2
