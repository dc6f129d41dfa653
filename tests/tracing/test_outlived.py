"""Values that a program keeps from an eager transform, and uses later: they are numbers where no
derivative is computed.
"""

from __future__ import annotations

import copy
import math
import threading

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import ClosedOverTracerError, LeakedTracerError

X = np.array([1.0, 2.0, 3.0])


class Cached:
    """A model that keeps what it computed first."""

    def __init__(self):
        self.kept = None

    def loss(self, x):
        if self.kept is None:
            self.kept = x * 2.0
        return np.sum(self.kept * x)


EAGER = {
    "grad": lambda f, x: fg.grad(f)(x),
    "vjp": lambda f, x: fg.vjp(f, x),
    "jvp": lambda f, x: fg.jvp(f, (x,), (x,)),
    "hessian": lambda f, x: fg.hessian(f)(x),
    "forward of reverse": lambda f, x: fg.jvp(fg.grad(f), (x,), (x,)),
}
STAGED = {
    "jit": lambda f, x: fg.jit(f)(x),
    "jit of grad": lambda f, x: fg.jit(fg.grad(f))(x),
    "make_jaxpr": lambda f, x: fg.make_jaxpr(f)(x),
    "vmap": lambda f, x: fg.vmap(f)(np.stack([x, x + 1.0])),
}


@pytest.mark.parametrize("x", [3.0, np.float64(3.0), np.array(3.0), X], ids=str)
@pytest.mark.parametrize("transform", EAGER)
def test_a_plain_call_after_an_eager_transform(transform, x):
    plain, traced = Cached(), Cached()
    EAGER[transform](traced.loss, x)
    for _ in range(2):
        found, expected = traced.loss(x), plain.loss(x)
        np.testing.assert_array_equal(found, expected)
        assert isinstance(found, (float, np.ndarray))
    with pytest.raises(LeakedTracerError):  # its derivative would be lost
        EAGER[transform](traced.loss, x)
    np.testing.assert_array_equal(copy.deepcopy(traced).loss(x), plain.loss(x))


WITHOUT_DERIVATIVES = {
    "jit": lambda f, x: fg.jit(f)(x),
    "jit without guards": lambda f, x: fg.jit(f, branches="error")(x),
    "jit of jit": lambda f, x: fg.jit(fg.jit(f))(x),
    "vmap": lambda f, x: fg.vmap(f)(x[None])[0],
    "jit of vmap": lambda f, x: fg.jit(fg.vmap(f))(x[None])[0],
    "vmap of jit": lambda f, x: fg.vmap(fg.jit(f))(x[None])[0],
}
OF_DERIVATIVES = {
    "jit of grad": lambda f, x: fg.jit(fg.grad(f))(x),
    "grad of jit": lambda f, x: fg.grad(fg.jit(f))(x),
    "jit of jacfwd": lambda f, x: fg.jit(fg.jacfwd(f))(x),
    "vmap of grad": lambda f, x: fg.vmap(fg.grad(f))(x[None]),
    "make_jaxpr": lambda f, x: fg.make_jaxpr(f)(x),
}


@pytest.mark.parametrize("later", WITHOUT_DERIVATIVES)
@pytest.mark.parametrize("transform", EAGER)
def test_a_later_function_without_derivatives_finds_what_a_plain_call_finds(transform, later):
    plain, traced = Cached(), Cached()
    plain.loss(X)
    EAGER[transform](traced.loss, X)
    found = WITHOUT_DERIVATIVES[later](traced.loss, X + 1.0)
    np.testing.assert_array_equal(found, plain.loss(X + 1.0))


@pytest.mark.parametrize("later", OF_DERIVATIVES)
@pytest.mark.parametrize("transform", EAGER)
def test_a_later_derivative_refuses_it(transform, later):
    model = Cached()
    EAGER[transform](model.loss, X)
    with pytest.raises(LeakedTracerError):
        OF_DERIVATIVES[later](model.loss, X)


@pytest.mark.parametrize("branching", [False, True])
def test_a_program_that_holds_it_has_no_derivative(branching):
    model = Cached()
    fg.grad(model.loss)(X)
    jitted = fg.jit(lambda x: model.loss(x if not branching or x[0] > 0.0 else -x))
    expected = model.loss(X)
    np.testing.assert_array_equal(jitted(X), expected)
    for derivative in (fg.grad(jitted), fg.jit(fg.grad(jitted)), fg.jacfwd(jitted)):
        with pytest.raises(LeakedTracerError):
            derivative(X)
    np.testing.assert_array_equal(fg.jit(jitted)(X), expected)
    np.testing.assert_array_equal(fg.vmap(jitted)(X[None]), [expected])


@pytest.mark.filterwarnings("ignore::fungrad.errors.CapturedStateWarning")
@pytest.mark.parametrize("in_place", [False, True])
def test_a_change_of_it_is_noticed(in_place):
    model = Cached()
    fg.grad(model.loss)(X)
    jitted = fg.jit(model.loss)
    assert jitted(X) == 28.0
    if in_place:
        model.kept[:] = 1.0
    else:
        model.kept = np.ones(3)
    assert [jitted(X) for _ in range(3)][-1] == 6.0


@pytest.mark.parametrize("transform", STAGED)
def test_what_has_no_plain_value_stays_refused(transform):
    model = Cached()
    STAGED[transform](model.loss, X)
    with pytest.raises((LeakedTracerError, fg.errors.AbstractValueError)):
        float(model.loss(X))
    with pytest.raises((LeakedTracerError, fg.errors.AbstractValueError)):
        float(np.sum([model.kept[0], 1.0]))


def kept_of(x, make=lambda x: x * 2.0):
    kept = []
    fg.grad(lambda x: (kept.append(make(x)), np.sum(x))[1])(x)
    return kept[0]


USES = {
    "add": lambda a: a + 1.0,
    "reflected": lambda a: 1.0 - a,
    "power": lambda a: a**2,
    "matmul": lambda a: a @ a,
    "reflected matmul": lambda a: np.eye(3) @ a,
    "divmod": lambda a: divmod(a, 2.0),
    "negative": lambda a: -a,
    "comparison": lambda a: a > 2.0,
    "ufunc": np.sin,
    "ufunc of two": lambda a: np.add(a, a),
    "reduce": np.add.reduce,
    "function": np.sum,
    "function of a list": lambda a: np.stack([a, a]),
    "ufunc of a list": lambda a: np.exp([a, a]),
    "array": np.array,
    "asarray": np.asarray,
    "asarray of a dtype": lambda a: np.asarray(a, np.float32),
    "array of a list": lambda a: np.array([a, a]),
    "index": lambda a: a[0],
    "slice": lambda a: a[1:],
    "list": list,
    "method": lambda a: a.mean(),
    "reshape": lambda a: a.reshape(3, 1),
    "transpose": lambda a: a.T,
    "tolist": lambda a: a.tolist(),
    "float": lambda a: float(a[0]),
    "math": lambda a: math.sqrt(a[0]),
    "repr": repr,
    "str": str,
    "length of the text": lambda a: len(str(a)),
    "format": lambda a: f"{a[0]:.3f}",
    "stored number": lambda a: filled(a[0]),
    "stored list of numbers": lambda a: filled(a[:2].tolist(), slice(None)),
    "stored by flat": lambda a: put_flat(a[0]),
    "truth": lambda a: bool(a[0]),
    "interp": lambda a: np.interp(1.5, a, a),
    "where": lambda a: np.where(a > 2.0, a, 0.0),
    "concatenate": lambda a: np.concatenate([a, [1.0]]),
    "sorted": sorted,
    "max": max,
}


@pytest.mark.parametrize("use", USES)
def test_each_use_is_that_of_the_value(use):
    found, expected = USES[use](kept_of(X)), USES[use](X * 2.0)
    assert found.__class__ is expected.__class__
    np.testing.assert_array_equal(found, expected)


def test_it_is_written_into_as_an_array():
    a = kept_of(X)
    b = a
    a[0] = 7.0
    a += 1.0
    tail = a[1:]
    tail[0] = 0.0
    assert a is b
    assert a.tolist() == [8.0, 0.0, 7.0]
    with pytest.raises(ValueError, match="read-only"):  # views of it may not see the write
        kept_of(X, lambda x: (x * 2.0)[1:])[0] = 1.0


def test_writes_do_not_reach_a_pullback():
    kept = []
    _, pullback = fg.vjp(lambda x: (kept.append(x * 2.0), np.sum(kept[0] * kept[0]))[1], X)
    kept[0][:] = 0.0
    np.testing.assert_array_equal(pullback(1.0)[0], 8.0 * X)


def test_a_value_of_a_transform_that_runs_is_refused_elsewhere():
    caught = []

    def work(x):
        try:
            caught.append(x + 1.0)
        except LeakedTracerError:
            caught.append("refused")

    def f(x):
        thread = threading.Thread(target=work, args=(x,))
        thread.start()
        thread.join()
        return x * x

    assert fg.grad(f)(3.0) == 6.0
    assert caught == ["refused"]


def test_rules_refuse_what_an_ended_transform_left():
    kept = []
    fg.grad(lambda x: kept.append(x) or x**2)(1.0)
    rule = fg.custom_vjp(lambda y: y * kept[0])
    rule.defvjp(lambda y: (y * kept[0], None), lambda _, g: (g * kept[0],))
    with pytest.raises(ClosedOverTracerError):
        fg.grad(lambda x: rule(x))(1.0)


class Estimator:
    """The pattern of scikit-learn: parameters are set, cloned, and fitted ones kept."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def get_params(self):
        return {"scale": self.scale}

    def set_params(self, scale):
        self.scale = scale
        return self

    def clone(self):
        parameters = {name: copy.deepcopy(v) for name, v in self.get_params().items()}
        made = type(self)(**parameters)
        assert all(made.get_params()[name] is value for name, value in parameters.items())
        return made

    @property
    def theta(self):
        return np.log(np.hstack([self.scale]))

    def likelihood(self, theta, clone=False):
        kernel = self.clone() if clone else self
        kernel.set_params(scale=np.exp(theta[0]))
        return -np.sum((X / kernel.scale) ** 2) - np.log(kernel.scale)


@pytest.mark.parametrize("clone", [False, True])
def test_cloned_estimators(clone):
    plain, traced = Estimator(), Estimator()
    theta = np.array([0.3])
    fg.grad(lambda t: traced.likelihood(t, clone))(theta)
    expected = plain.likelihood(theta, clone)
    np.testing.assert_allclose(traced.theta, plain.theta)
    np.testing.assert_allclose(traced.clone().theta, plain.clone().theta)
    np.testing.assert_allclose(
        traced.likelihood(traced.theta, clone), plain.likelihood(plain.theta, clone)
    )
    assert traced.likelihood(theta, clone) == expected
    slope = fg.grad(lambda t: traced.likelihood(t, clone))(theta)
    np.testing.assert_allclose(slope, 2 * np.sum(X**2) * np.exp(-0.6) - 1.0)


LIKELIHOODS = {
    "plain": lambda f, t: f(t),
    "grad": lambda f, t: fg.grad(f)(t),
    "vmap": lambda f, t: fg.vmap(f)(np.stack([t, t + 0.1])),
    "hessian": lambda f, t: fg.hessian(f)(t),
    "jit": lambda f, t: fg.jit(f)(t),
    "jit of grad": lambda f, t: fg.jit(fg.grad(f))(t),
    "jit of vmap": lambda f, t: fg.jit(fg.vmap(f))(np.stack([t, t + 0.1])),
}


@pytest.mark.parametrize("second", LIKELIHOODS)
@pytest.mark.parametrize("first", ["grad", "vmap", "hessian"])
def test_kept_parameters_are_looked_at_and_set_anew_under_each_transform(first, second):
    def likelihood_of(model):
        def likelihood(theta):
            kept = model.theta  # as a kernel of scikit-learn looks at how many there are
            return model.likelihood(np.reshape(theta, kept.shape)) / len(kept)

        return likelihood

    used, theta = likelihood_of(Estimator()), np.array([0.3])
    LIKELIHOODS[first](used, theta)
    found = LIKELIHOODS[second](used, theta + 0.2)
    expected = LIKELIHOODS[second](likelihood_of(Estimator()), theta + 0.2)
    np.testing.assert_array_equal(found, expected)


def test_a_value_kept_from_vmap_has_a_type_alone():
    kept = []
    fg.vmap(lambda x: kept.append(x * 2.0) or x)(np.stack([X, X + 1.0]))
    looked_at = np.log(np.hstack([kept[0], 1.0]))
    assert (looked_at.shape, len(looked_at), looked_at.dtype) == ((4,), 4, np.dtype(float))
    of_operators = (-kept[0] @ kept[0] + kept[0].sum()).astype(np.float32)
    assert (of_operators.shape, of_operators.dtype) == ((), np.dtype(np.float32))
    readings = (
        lambda: float(of_operators),
        lambda: float(looked_at[0]),
        lambda: bool(looked_at[0] > 1.0),
        lambda: fg.jit(lambda x: x + looked_at[0])(1.0),
        lambda: fg.vmap(lambda x: x + looked_at[0])(X),
        lambda: fg.grad(lambda x: x * looked_at[0])(1.0),
        lambda: np.asarray(looked_at),
        lambda: np.array([1.0, looked_at[0]]),
        lambda: looked_at[0].tolist(),
    )
    for read in readings:
        with pytest.raises(fg.errors.FungradError):
            read()


class Overwritten:
    """A model that looks at its parameters before it overwrites them."""

    def __init__(self):
        self.theta = np.ones(3)

    def loss(self, x):
        count = self.theta.shape[0] + len(np.log(np.hstack([self.theta, 1.0]))[:-1])
        self.theta = x * 2.0
        return np.sum(self.theta**2) * count


@pytest.mark.parametrize("transform", EAGER)
def test_a_kept_value_may_be_looked_at_while_another_transform_runs(transform):
    model, expected = Overwritten(), EAGER[transform](Overwritten().loss, X)
    for _ in range(2):
        for one, other in zip(np.atleast_1d(EAGER[transform](model.loss, X))[:1],
                              np.atleast_1d(expected)[:1], strict=True):  # fmt: skip
            np.testing.assert_allclose(one, other)
    with pytest.raises(LeakedTracerError):
        fg.grad(lambda x: np.sum(np.sin(model.theta) * x))(X)
    with pytest.raises(LeakedTracerError):
        fg.jvp(lambda x: np.sum(np.sin(model.theta) * x), (X,), (X,))


KEYS = {
    "str": str,
    "formatted": lambda x: f"{x:.3f}",
    "rounded": lambda x: float(fg.stop_gradient(round(x, 6))),
    "always one": lambda x: 0,
}
USED = {
    "returned": lambda kept, x: kept,
    "computed with": lambda kept, x: np.sin(kept * 2.0),
    "beside the argument": lambda kept, x: kept * x,
    "in an array": lambda kept, x: np.sum(np.array([kept, 1.0]) ** 2),
    "written into an array": lambda kept, x: np.sum(filled(kept)),
    "the larger of two": lambda kept, x: max(kept, x),
    "in a checkpoint": lambda kept, x: fg.checkpoint(lambda y: kept)(x),
    "in a jitted function": lambda kept, x: fg.jit(lambda y: kept)(x),
    "under vmap": lambda kept, x: np.sum(fg.vmap(lambda y: kept)(np.ones(2))),
    "argument of a gradient": lambda kept, x: fg.grad(np.sin)(kept),
    "returned by custom_jvp": lambda kept, x: ruled(fg.custom_jvp(lambda y: kept), kept)(x),
}
TRANSFORMED = ("in a jitted function", "under vmap", "argument of a gradient")
DERIVATIVES = {
    "grad": lambda f, x: fg.grad(f)(x),
    "vjp": lambda f, x: fg.vjp(f, x)[1](1.0),
    "jvp": lambda f, x: fg.jvp(f, (x,), (1.0,))[1],
    "linearize": lambda f, x: fg.linearize(f, x)[1](1.0),
    "grad of grad": lambda f, x: fg.grad(fg.grad(f))(x),
    "jacfwd": lambda f, x: fg.jacfwd(f)(x),
    "jet": lambda f, x: fg.nth_derivative(f, 2)(x),
    "jit": lambda f, x: fg.jit(f)(x),
    "jit of grad": lambda f, x: fg.jit(fg.grad(f))(x),
    "vmap of grad": lambda f, x: fg.vmap(fg.grad(f))(np.array([x, x])),
}


def filled(value, index=0):
    array = np.zeros(2)
    array[index] = value
    return array


def put_flat(value):
    array = np.zeros(2)
    array.flat[0] = value
    return array


def ruled(function, kept):
    function.defjvp(lambda primals, tangents: (kept, tangents[0]))
    return function


def cached(key, use):
    """A function that keeps, in a dict, a value that depends on its argument."""
    table = {}

    def f(x):
        found = key(x)
        if found not in table:
            table[found] = np.sin(x) + x
        return use(table[found], x)

    return f


def answers(function, x):
    try:
        return np.asarray(function(x))
    except (LeakedTracerError, ClosedOverTracerError, fg.errors.GradientCutError):
        return None


@pytest.mark.parametrize("use", USED)
@pytest.mark.parametrize("key", KEYS)
def test_no_derivative_is_lost_by_a_cache(key, use):
    for turn, (second, transform) in enumerate(DERIVATIVES.items()):
        again = (2.3, 1.7)[turn % 2]
        for first in ("grad", "jit"):
            f = cached(KEYS[key], USED[use])
            answers(lambda x, f=f, t=first: DERIVATIVES[t](f, x), 1.7)
            found = answers(lambda x, f=f, t=transform: t(f, x), again)
            fresh = cached(KEYS[key], USED[use])
            if second == "jit":  # it has no derivative to lose, and finds what was kept
                answers(fresh, 1.7)
            expected = answers(lambda x, f=fresh, t=transform: t(f, x), again)
            if found is not None and expected is not None:
                np.testing.assert_allclose(found, expected, 1e-12, err_msg=(first, second))
    plain = cached(KEYS[key], USED[use])
    kept = cached(KEYS[key], USED[use])
    answers(fg.grad(kept), 1.7)
    if key != "str" and use not in TRANSFORMED:  # the text is that of the trace
        assert answers(kept, 1.7) == plain(1.7)


def test_a_kept_value_may_be_returned_as_aux():
    model = Cached()
    fg.grad(model.loss)(3.0)
    slope, aux = fg.grad(lambda x: (x * x, model.kept), has_aux=True)(3.0)
    assert (slope, float(aux)) == (6.0, 6.0)
    with pytest.raises(LeakedTracerError):
        fg.grad(lambda x: (model.kept, x), has_aux=True)(3.0)


def ruled_in_reverse(kept):
    rule = fg.custom_vjp(lambda x: x * 2.0)
    rule.defvjp(lambda x: (x * 2.0, None), lambda _, g: (kept,))
    return rule


def with_a_kept_tangent(kept):
    rule = fg.custom_jvp(lambda x: x * 2.0)
    rule.defjvp(lambda primals, tangents: (primals[0] * 2.0, kept))
    return rule


RETURNED = {
    "digits": lambda kept, x: fg.digits(lambda y: kept)(x),
    "one of two to digits": lambda kept, x: fg.digits(lambda y: (y, kept))(x),
    "a cotangent": lambda kept, x: fg.grad(ruled_in_reverse(kept))(x),
    "a tangent": lambda kept, x: fg.grad(with_a_kept_tangent(kept))(x),
    "a tangent forward": lambda kept, x: fg.jvp(with_a_kept_tangent(kept), (x,), (1.0,)),
    "equation": lambda kept, x: fg.grad(
        lambda a: fg.custom_root(lambda y: kept, 1.0, lambda f, y: a, lambda g, y: y)
    )(x),
    "linear_transpose": lambda kept, x: fg.linear_transpose(lambda y: kept, x)(1.0),
    "closure_convert": lambda kept, x: fg.closure_convert(lambda y: kept, x),
}


@pytest.mark.parametrize("transform", [fg.grad, fg.jit])
@pytest.mark.parametrize("to", RETURNED)
def test_a_kept_value_is_refused_wherever_it_is_returned(to, transform):
    kept = []
    transform(lambda x: (kept.append(x * x), x * 2.0)[1])(3.0)
    with pytest.raises((LeakedTracerError, ClosedOverTracerError), match="f64"):
        RETURNED[to](kept[0], 2.0)


@pytest.mark.parametrize(
    "read", [int, bool, round, "{:.3f}".format], ids=["int", "bool", "round", "format"]
)
@pytest.mark.parametrize("raises", [False, True])
def test_a_number_kept_by_a_compiled_function_is_refused(read, raises):
    kept = []

    def f(x):
        kept.append(np.sin(x))
        if raises:
            raise OSError
        return kept[0] * x

    jitted = fg.jit(f)
    if raises:
        with pytest.raises(OSError):
            jitted(1.7)
    else:
        jitted(1.7)
    with pytest.raises(LeakedTracerError):
        fg.jit(lambda x: (read(kept[0]), x)[1])(2.0)
    with pytest.raises(LeakedTracerError):
        fg.grad(lambda x: (read(kept[0]), x)[1])(2.0)
    with pytest.raises(LeakedTracerError):
        read(kept[0])
