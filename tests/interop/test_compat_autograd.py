"""autograd's public API on fungrad: derivatives against fungrad's own, NumPy's values, formulas.

Neither autograd nor a client of it is needed. `python -m benchmarks.clients` runs real clients.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
import warnings
from collections import OrderedDict

import numpy as onp
import pytest

import fungrad as fg
from fungrad.compat import autograd
from fungrad.compat.autograd import numpy as np
from fungrad.errors import (
    FungradError,
    MissingRuleError,
    NonScalarOutputError,
    StructureMismatchError,
)

X = onp.array([0.3, 1.2, 2.1])


def f(x, y=2.0):
    return np.sum(np.sin(x) * y) + np.prod(x)


def close(a, b, rtol=1e-12, atol=1e-12):
    onp.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


# --- operators ------------------------------------------------------------------------------------


def test_grad_and_its_kind_are_those_of_fungrad():
    close(autograd.grad(f)(X), fg.grad(f)(X))
    close(autograd.grad(f, 1)(X, 3.0), fg.grad(f, 1)(X, 3.0))
    value, slope = autograd.value_and_grad(f)(X, y=3.0)
    close(value, f(X, 3.0))
    close(slope, fg.grad(f)(X, 3.0))
    for argnum in ((0, 1), [0, 1]):
        both = autograd.grad(f, argnum)(X, 3.0)
        assert type(both) is tuple
        close(both[1], onp.sum(onp.sin(X)))
    close(autograd.hessian(f)(X), fg.hessian(f)(X))
    close(autograd.jacobian(np.cumsum)(X), onp.tril(onp.ones((3, 3))))
    close(autograd.jacobian(autograd.grad(f))(X), fg.hessian(f)(X))
    close(autograd.elementwise_grad(np.sin)(X), onp.cos(X))
    close(autograd.egrad(autograd.egrad(np.sin))(X), -onp.sin(X))
    close(autograd.deriv(lambda t: t**2 * X)(3.0), 6.0 * X)
    assert autograd.grad(f).__name__ == "f"


def test_products_are_those_with_the_matrices():
    v = onp.array([1.0, -2.0, 0.5])
    h = fg.hessian(f)(X)
    close(autograd.hessian_vector_product(f)(X, v), h @ v)
    close(autograd.hvp(f)(X, 2.0, v), h @ v)
    product, gradient = autograd.make_hvp(f)(X)
    close(product(v), h @ v)
    close(gradient, fg.grad(f)(X))
    g = lambda x: np.stack([np.sin(x[0]) * x[1], x[2] ** 2])  # noqa: E731
    j = fg.jacobian(g)(X)
    pullback, value = autograd.make_vjp(g)(X)
    close(value, g(X))
    close(pullback(v[:2]), v[:2] @ j)
    value, tangent = autograd.make_jvp(g)(X)(v)
    close(value, g(X))
    close(tangent, j @ v)
    close(autograd.make_jvp_reversemode(g)(X)(v), j @ v)
    close(autograd.vector_jacobian_product(g)(X, v[:2]), v[:2] @ j)
    close(autograd.tensor_jacobian_product(np.outer, 1)(X, X, v), onp.sum(X * v) * onp.eye(3))
    close(autograd.make_ggnvp(g)(X)(v), j.T @ j @ v)
    loss = lambda y: np.sum(y**4)  # noqa: E731
    close(autograd.make_ggnvp(g, loss)(X)(v), j.T @ (12.0 * g(X) ** 2 * (j @ v)))


def test_gradients_by_name_and_beside_other_outputs():
    gradients = autograd.multigrad_dict(f)(X)
    assert type(gradients) is OrderedDict and list(gradients) == ["x", "y"]
    close(gradients["x"], fg.grad(f)(X))
    close(gradients["y"], onp.sum(onp.sin(X)))
    close(autograd.grad_named(f, "y")(X, 3.0), onp.sum(onp.sin(X)))
    slope, aux = autograd.grad_and_aux(lambda x: (f(x), x * 2.0))(X)
    close(slope, fg.grad(f)(X))
    close(aux, 2.0 * X)
    assert type(aux) is onp.ndarray


def test_integers_are_taken_as_floats_and_one_number_has_any_shape():
    slope = autograd.grad(lambda x: np.sum(x**2))(onp.array([1, 2]))
    assert slope.dtype == float and slope.tolist() == [2.0, 4.0]
    assert autograd.grad(lambda x: x[0] ** 2 * x[1])([3, 2]) == [12.0, 9.0]
    close(autograd.grad(lambda x: x**2)(3), 6.0)
    close(autograd.grad(lambda x: np.reshape(x**2, (1, 1)))(onp.array([[3.0]])), [[6.0]])
    with pytest.raises(NonScalarOutputError):
        autograd.grad(lambda x: x**2)(X)
    with pytest.raises(TypeError):
        autograd.grad(lambda x: 3)(1.0)


def test_what_the_output_does_not_depend_on_has_gradient_zero_with_a_warning():
    independent = pytest.warns(UserWarning, match="Output seems independent of input")
    with independent as caught:
        close(autograd.grad(lambda x: np.array(3.0))(X), onp.zeros(3))
    assert caught[0].filename == __file__
    with independent:
        close(autograd.jacobian(lambda x: np.ones(2))(X), onp.zeros((2, 3)))
    with independent:  # the gradient of a linear function
        close(autograd.hessian(lambda x: np.sum(x))(X), onp.zeros((3, 3)))
    with independent:  # the inner gradient is one of y alone, and depends on x
        close(autograd.grad(lambda x: autograd.grad(lambda y: np.sum(x))(X)[0] + np.sum(x))(X), 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pullback, _ = autograd.make_vjp(lambda x: (np.ones(2), x))(X)
        close(pullback((onp.ones(2), X)), X)
        autograd.grad(lambda x: onp.array([x[0], 2.0])[0])(X)


def test_complex_conventions():
    z = 1.5 - 0.5j
    close(autograd.holomorphic_grad(np.exp)(z), onp.exp(z))
    close(autograd.grad(lambda z: np.real(z * np.conj(z)))(z), 2.0 * onp.conj(z))
    close(autograd.elementwise_grad(lambda z: np.abs(z) ** 2)(onp.array([z])), [2.0 * onp.conj(z)])


def test_elementwise_grad_takes_weights_and_trees():
    close(autograd.elementwise_grad(np.sin, 0, X)(X), X * onp.cos(X))
    close(autograd.elementwise_grad(lambda x: [x, x**2])(X), 1.0 + 2.0 * X)


def test_checkpoint_follows_branches():
    g = autograd.checkpoint(lambda x: x**3 if x > 0 else -x)
    close([autograd.grad(g)(2.0), autograd.grad(g)(-2.0)], [12.0, -1.0])


def test_unary_to_nary():
    from fungrad.compat.autograd.wrap_util import unary_to_nary

    @unary_to_nary
    def scaled(f, x, scale=1.0):
        return scale * autograd.grad(f)(x)

    close(scaled(lambda a, b: a * b, 1, scale=10.0)(2.0, 3.0), 20.0)


# --- values ---------------------------------------------------------------------------------------


def test_traced_values_are_boxes():
    from fungrad.compat.autograd.builtins import DictBox, SequenceBox
    from fungrad.compat.autograd.extend import Box
    from fungrad.compat.autograd.numpy.numpy_boxes import ArrayBox
    from fungrad.compat.autograd.tracer import getval, isbox

    seen = []

    def g(p):
        x = p["x"]
        seen.append((isinstance(x, ArrayBox), isinstance(x, Box), isbox(x), isbox(p)))
        seen.append((isinstance(p, DictBox), isinstance([x], SequenceBox), type(p)))
        seen.append((autograd.isinstance(x, onp.ndarray), autograd.type(x)))
        value = x
        while isinstance(value, ArrayBox):
            value = value._value
        seen.append((type(getval(x)), type(value)))
        return np.sum(x * getval(x)) * value[0]

    close(autograd.grad(g)({"x": X})["x"], X * X[0])
    assert seen[0] == (True, True, True, False)
    assert seen[1] == (True, True, dict)
    assert seen[2] == (True, onp.ndarray)
    assert seen[3] == (onp.ndarray, onp.ndarray)
    assert not isinstance({"x": X}, DictBox) and not isinstance(X, ArrayBox)
    close(autograd.hessian(lambda x: np.sum(getval(x) * x**2))(X), onp.diag(2.0 * X))


def test_value_of_what_stands_for_many_is_refused():
    with pytest.raises(FungradError, match="stands for many"):
        fg.vmap(lambda x: x._value)(X)


def test_flatten_of_plain_and_traced_trees():
    from fungrad.compat.autograd.misc import flatten
    from fungrad.compat.autograd.misc.flatten import flatten_func

    tree = {"b": onp.arange(4.0).reshape(2, 2), "a": 3, "c": [1.0, (2.0, X)]}
    vector, unflatten = flatten(tree)
    assert vector.tolist() == [3.0, 0.0, 1.0, 2.0, 3.0, 1.0, 2.0, *X]
    back = unflatten(2.0 * vector)
    close(back["b"], 2.0 * tree["b"])
    assert type(back["c"][1]) is tuple
    g = lambda t: {"a": t["a"] * t["b"], "b": t["c"][1][1] ** 2}  # noqa: E731
    flat, _, start = flatten_func(g, tree)
    jacobian = autograd.jacobian(flat)(start)
    assert jacobian.shape == (7, 10)
    close(jacobian[4:, 7:], onp.diag(2.0 * X))


def test_vspace():
    from fungrad.compat.autograd.extend import vspace

    space = vspace({"a": onp.ones((2, 2)), "b": 1j})
    assert space.size == 6 and len(list(space.standard_basis())) == 6
    assert space == vspace(space.zeros()) and space != vspace(1.0)
    x, y = space.randn(), space.ones()
    close(space.inner_prod(x, y), onp.sum(x["a"]) + onp.real(x["b"]) + onp.imag(x["b"]))
    close(sum(e["a"] for e in space.standard_basis()), y["a"])
    close(sum(e["b"] for e in space.standard_basis()), y["b"])
    close(space.add(x, y)["b"], x["b"] + 1.0 + 1.0j)
    close(space.scalar_mul(space.covector(x), 2.0)["b"], 2.0 * onp.conj(x["b"]))
    assert (vspace(X).shape, vspace(X).dtype) == ((3,), onp.dtype(float))
    with pytest.raises(TypeError, match="not an element"):
        vspace("word")


# --- primitives -----------------------------------------------------------------------------------


def plain(x):
    """A function that fails on anything but a plain array."""
    assert type(x) in (onp.ndarray, onp.float64, float), type(x)
    return onp.asarray(x, dtype=float)


def made(with_jvp=False):
    @autograd.primitive
    def cube(x, y):
        return plain(x) ** 3 * plain(y)

    from fungrad.compat.autograd.extend import defjvp, defvjp

    defvjp(
        cube,
        lambda ans, x, y: lambda g: g * 3.0 * x**2 * y,
        lambda ans, x, y: lambda g: np.sum(g * x**3),
    )
    if with_jvp:
        defjvp(cube, lambda t, ans, x, y: 3.0 * x**2 * y * t, lambda t, ans, x, y: t * x**3)
    return cube


def test_a_primitive_has_the_derivatives_of_its_rules():
    cube = made()
    assert cube.__name__ == "cube"
    close(cube(X, 2.0), 2.0 * X**3)
    total = lambda x, y: np.sum(cube(x, y) ** 2)  # noqa: E731
    same = lambda x, y: np.sum((x**3 * y) ** 2)  # noqa: E731
    for argnum in (0, 1, (0, 1)):
        found, expected = autograd.grad(total, argnum)(X, 2.0), fg.grad(same, argnum)(X, 2.0)
        for a, b in zip(found, expected, strict=True) if argnum == (0, 1) else [(found, expected)]:
            close(a, b)
    close(autograd.hessian(total)(X, 2.0), fg.hessian(same)(X, 2.0), rtol=1e-10)
    close(autograd.jacobian(cube)(X, 2.0), onp.diag(6.0 * X**2))
    close(autograd.jacobian(autograd.grad(total, 1))(X, 2.0), fg.jacrev(fg.grad(same, 1))(X, 2.0))
    third = autograd.jacobian(autograd.hessian(total))(X[:2], 2.0)
    close(third, fg.jacrev(fg.hessian(same))(X[:2], 2.0), rtol=1e-10)


def test_forward_rules_and_what_is_missing():
    cube = made(with_jvp=True)
    v = onp.array([1.0, -1.0, 0.5])
    value, tangent = autograd.make_jvp(cube)(X, 2.0)(v)
    close(tangent, 6.0 * X**2 * v)
    close(value, 2.0 * X**3)
    close(autograd.deriv(cube, 1)(X, 2.0), X**3)
    (both,) = fg.jvp(lambda x, y: cube(x, y), (X, 2.0), (v, 0.5))[1:]
    close(both, 6.0 * X**2 * v + 0.5 * X**3)
    close(fg.hessian(lambda x: np.sum(cube(x, 2.0)))(X), onp.diag(12.0 * X))
    bare = autograd.primitive(onp.sin)
    with pytest.raises(MissingRuleError, match="no VJP is defined for its argument 0"):
        autograd.grad(bare)(1.0)
    with pytest.raises(NotImplementedError, match="reverse mode"):
        autograd.make_jvp(made())(X, 2.0)(v)


def test_rules_may_hold_any_python_where_many_cotangents_are_pulled_back():
    @autograd.primitive
    def doubled(x):
        return 2.0 * plain(x)

    from fungrad.compat.autograd.extend import defvjp

    shapes = []

    def rule(ans, x):
        def pull(g):
            shapes.append(onp.shape(g))
            return 2.0 * plain(g) if float(onp.max(onp.abs(plain(g)))) > 0 else onp.zeros(3)

        return pull

    defvjp(doubled, rule)
    close(autograd.jacobian(lambda x: np.sin(doubled(x)))(X), onp.diag(2.0 * onp.cos(2.0 * X)))
    assert shapes == [(3,)] * 3


def test_a_rule_may_cut_and_write_into_its_cotangent():
    from fungrad.compat.autograd.extend import defvjp
    from fungrad.compat.autograd.tracer import getval

    @autograd.primitive
    def same(x):
        return plain(x)

    def rule(ans, x):
        def pull(g):
            g[0] = 0.0
            return g

        return pull

    defvjp(same, rule)
    y = autograd.grad(lambda x: np.sum(same(x)) + np.sum(x))(X)
    assert y.tolist() == [1.0, 2.0, 2.0]

    @autograd.primitive
    def square(x):
        return plain(x) ** 2

    @autograd.primitive
    def slope(x):
        return 2.0 * plain(x)

    defvjp(square, lambda ans, x: lambda g: g * slope(x))
    defvjp(slope, lambda ans, x: lambda g: getval(g) * 2.0)  # of the second order: numbers alone
    close(autograd.hessian(lambda x: np.sum(square(x)))(X), 2.0 * onp.eye(3))


def test_primitives_of_trees_names_and_keywords():
    from fungrad.compat.autograd.extend import defvjp, defvjp_argnum, defvjp_argnums

    @autograd.primitive
    def mixed(kind, pair, scale=1.0):
        a, b = pair
        return {"sum": scale * (plain(a) + plain(b)), "product": plain(a) * plain(b)}

    def rule(ans, kind, pair, scale=1.0):
        assert kind == "both" and set(ans) == {"sum", "product"}
        a, b = pair
        return lambda g: (g["sum"] * scale + g["product"] * b, g["sum"] * scale + g["product"] * a)

    defvjp(mixed, None, rule)

    def g(x, y):
        out = mixed("both", (x, y), scale=3.0)
        return np.sum(out["sum"] ** 2) + np.sum(out["product"] ** 3)

    def same(x, y):
        return np.sum((3.0 * (x + y)) ** 2) + np.sum((x * y) ** 3)

    for i in (0, 1):
        close(autograd.grad(g, i)(X, 2.0 * X), fg.grad(same, i)(X, 2.0 * X))
    close(autograd.hessian(g)(X, 2.0 * X), fg.hessian(same)(X, 2.0 * X), rtol=1e-10)

    one = autograd.primitive(lambda x, y: plain(x) * plain(y))
    defvjp_argnum(one, lambda i, ans, args, kwargs: lambda g: g * args[1 - i])
    close(autograd.grad(lambda x, y: np.sum(one(x, y)), 1)(X, 2.0 * X), X)
    asked = []
    two = autograd.primitive(lambda x, y: plain(x) * plain(y))

    def several(argnums, ans, args, kwargs):
        asked.append(argnums)
        return lambda g: [g * args[1 - i] for i in argnums]

    defvjp_argnums(two, several)
    close(autograd.grad(lambda x: np.sum(two(x, x)))(X), 2.0 * X)
    close(autograd.grad(lambda x: np.sum(two(X, x)))(X), X)
    assert asked == [(0, 1), (1,)]
    late = autograd.primitive(lambda x, y: plain(x) * plain(y))
    defvjp(late, lambda ans, x, y: lambda g: g * x, argnums=[1])
    close(autograd.grad(lambda x: np.sum(late(X, x)))(X), X)
    with pytest.raises(MissingRuleError):
        autograd.grad(lambda x: np.sum(late(x, X)))(X)


def test_linear_and_other_forward_rules():
    from fungrad.compat.autograd.extend import (
        def_linear,
        defjvp,
        defjvp_argnum,
        defjvp_argnums,
    )

    v = onp.array([1.0, -1.0, 0.5])
    product = lambda x, y: plain(x) * plain(y)  # noqa: E731
    a, b, c, d = (autograd.primitive(product) for _ in range(4))
    def_linear(a)
    defjvp(b, "same", None)
    defjvp_argnum(c, lambda i, t, ans, args, kwargs: t * args[1 - i])
    defjvp_argnums(
        d,
        lambda argnums, ts, ans, args, kwargs: sum(
            t * args[1 - i] for i, t in zip(argnums, ts, strict=True)
        ),
    )
    for g in (a, c, d):
        close(fg.jvp(lambda x, g=g: g(x, x), (X,), (v,))[1], 2.0 * X * v)
    close(fg.jvp(lambda x: b(x, x), (X,), (v,))[1], X * v)


def test_a_primitive_under_other_transforms():
    cube = made(with_jvp=True)
    rows = onp.stack([X, 2.0 * X])
    close(fg.vmap(lambda x: cube(x, 2.0))(rows), 2.0 * rows**3)
    close(fg.vmap(fg.grad(lambda x: np.sum(cube(x, 2.0))))(rows), 6.0 * rows**2)
    traced = autograd.primitive(lambda x: np.sin(x) * 2.0)
    close(fg.jit(lambda x: traced(x) + x)(X), 2.0 * onp.sin(X) + X)
    ready = cube(X, 2.0)
    close(fg.jit(lambda x: x * cube(X, 2.0))(X), X * ready)  # of constants it is a constant


def test_notrace_primitive_has_no_derivative():
    from fungrad.compat.autograd.extend import notrace_primitive

    half = notrace_primitive(lambda x: plain(x) // 2.0)
    close(autograd.grad(lambda x: np.sum(x * half(x)))(X), X // 2.0)


def test_rules_for_what_fungrad_differentiates_are_left_aside_with_a_warning():
    from fungrad.compat.autograd.extend import defjvp, defvjp

    for give in (defvjp, defjvp):
        with pytest.warns(UserWarning, match=r"rule was given for clip.*its own rule stays"):
            give(np.clip, None, lambda *args: None)
    close(autograd.grad(lambda x: np.sum(np.clip(x, 1.0, 2.0)))(X), [0.0, 1.0, 0.0])


def test_a_wrong_tree_of_cotangents_is_refused():
    from fungrad.compat.autograd.extend import defvjp

    pair = autograd.primitive(lambda p: plain(p[0]) * plain(p[1]))
    defvjp(pair, lambda ans, p: lambda g: [g])
    with pytest.raises(StructureMismatchError):
        autograd.grad(lambda x: np.sum(pair((x, x))))(X)


def test_unbroadcast():
    from fungrad.compat.autograd.numpy.numpy_vjps import unbroadcast, unbroadcast_f

    g = onp.arange(6.0).reshape(2, 3)
    close(unbroadcast(g, np.metadata(X)), g.sum(0))
    close(unbroadcast(g, np.metadata(onp.ones((2, 1)))), g.sum(1, keepdims=True))
    close(unbroadcast(g, np.metadata(onp.ones(2)), broadcast_idx=-1), g.sum(1))
    close(unbroadcast_f(1.0, lambda g: 2.0 * g)(g), 30.0)
    assert unbroadcast_f(X, lambda g: g * 1j)(X).dtype == float


# --- namespaces -----------------------------------------------------------------------------------


def test_numpy_has_numpys_names():
    assert np.exp is onp.exp and np.pi == onp.pi and np.float64 is onp.float64
    assert np.linalg.LinAlgError is onp.linalg.LinAlgError and np.fft.fftfreq is onp.fft.fftfreq
    assert np.random.default_rng is onp.random.default_rng
    assert "exp" in dir(np) and "linalg" in dir(np)
    assert np.__version__ == onp.__version__
    with pytest.raises(AttributeError):
        np.no_such_name  # noqa: B018


def test_where_takes_names_and_make_diagonal_makes_matrices():
    g = lambda x: np.sum(np.where(condition=X > 1.0, x=x**2, y=0.0))  # noqa: E731
    close(autograd.grad(g)(X), [0.0, 2.4, 4.2])
    assert np.where([False, True])[0].tolist() == [1]
    rows = onp.arange(6.0).reshape(2, 3)
    close(np.make_diagonal(rows), [onp.diag(row) for row in rows])
    close(autograd.grad(lambda x: np.sum(np.make_diagonal(x) ** 2))(X), 2.0 * X)
    with pytest.raises(NotImplementedError):
        np.make_diagonal(rows, offset=1)


def test_arrays_are_made_of_traced_values_with_and_without_interception():
    g = lambda x: np.sum(np.array([[x[0], 2.0], [x[1] * x[2], 1.0]]) ** 2)  # noqa: E731
    expected = [2.0 * X[0], 2.0 * X[1] * X[2] ** 2, 2.0 * X[1] ** 2 * X[2]]
    close(autograd.grad(g)(X), expected)
    array = np.array
    close(autograd.grad(lambda x: np.sum(array([x[0], x[1] * x[2]]) ** 2))(X), expected)
    assert type(np.array([1.0])) is onp.ndarray


def test_arrays_of_any_iterable_are_joined():
    parts = {"a": 1.0, "b": 2.0}
    for join in (np.stack, lambda xs: np.concatenate(x[None] for x in map(np.asarray, xs))):
        g = lambda p, join=join: np.sum(join(p.values()) ** 3)  # noqa: E731
        assert autograd.grad(g)(parts) == {"a": 3.0, "b": 12.0}
    rows = (X, X + 1.0)
    close(np.stack(iter(rows), axis=1), onp.stack(rows, 1))
    for name in ("vstack", "hstack", "column_stack"):
        close(getattr(np, name)(iter(rows)), getattr(onp, name)(rows))


def test_scipys_names():
    scipy = autograd.scipy
    close(autograd.grad(scipy.stats.norm.logpdf)(0.7), -0.7)
    close(autograd.grad(scipy.special.gammaln)(2.5), fg.scipy.special.digamma(2.5))
    close(autograd.grad(scipy.special.logsumexp)(onp.zeros(2)), [0.5, 0.5])
    close(autograd.grad(scipy.misc.logsumexp)(onp.zeros(2)), [0.5, 0.5])
    a = onp.array([[2.0, 0.0], [1.0, 3.0]])
    solve = lambda b: np.sum(scipy.linalg.solve_triangular(a, b, lower=True))  # noqa: E731
    close(autograd.grad(solve)(onp.ones(2)), onp.linalg.inv(a).sum(0))
    decay = lambda k: scipy.integrate.odeint(lambda y, t: -k * y, 1.0, onp.array([0.0, 1.0]))[-1, 0]  # noqa: E731
    close(autograd.grad(decay)(0.5), -onp.exp(-0.5), rtol=1e-5)


def convolved(a, b):
    """The sums as they are written down: of axes 1 of both, after axis 0 of both is summed over."""
    out = onp.zeros((a.shape[2], b.shape[2], a.shape[1] + b.shape[1] - 1))
    for i in range(a.shape[1]):
        for j in range(b.shape[1]):
            out[:, :, i + j] += onp.einsum("km,kn->mn", a[:, i], b[:, j])
    return out


def test_convolve_along_axes():
    convolve = autograd.scipy.signal.convolve
    random = onp.random.default_rng(1)
    a, b = random.normal(size=(3, 5, 2)), random.normal(size=(3, 4, 3))
    full = convolve(a, b, axes=([1], [1]), dot_axes=([0], [0]))
    close(full, convolved(a, b))
    valid = convolve(a, b, axes=([1], [-2]), dot_axes=([0], [-3]), mode="valid")
    close(valid, full[:, :, 3:5])
    shorter = convolve(b, a, axes=([1], [1]), dot_axes=([0], [0]), mode="valid")
    close(shorter, onp.swapaxes(valid, 0, 1))
    flat = convolve(a[:, :, 0], b[:, :, 0])
    expected = onp.zeros((5, 8))
    for i, j in onp.ndindex(3, 5):
        expected[i : i + 3, j : j + 4] += a[i, j, 0] * b[:, :, 0]
    close(flat, expected)
    loss = lambda a, b: np.sum(convolve(a, b, axes=([1], [1]), dot_axes=([0], [0])) ** 2)  # noqa: E731
    fg.testing.check_grads(loss, (a, b), order=1)
    middle = convolve(a, b, axes=([1], [1]), dot_axes=([0], [0]), mode="same")
    close(middle, full[:, :, 1:6])  # as scipy.signal's: the middle one of the full sums
    with pytest.raises(TypeError, match="mode"):
        convolve(X, X, mode="fill")
    with pytest.raises(TypeError, match="same number"):
        convolve(a, b[0])


def test_optimisers_minimise_trees():
    from fungrad.compat.autograd.misc.optimizers import adam, rmsprop, sgd

    loss = lambda p, i: np.sum((p["a"] - 1.0) ** 2) + (p["b"] + 2.0) ** 2  # noqa: E731
    for optimiser, steps, size in ((sgd, 300, 0.1), (rmsprop, 500, 0.01), (adam, 600, 0.05)):
        seen = []
        found = optimiser(
            autograd.grad(loss), {"a": X, "b": 0.0},
            callback=lambda p, i, g, seen=seen: seen.append((i, p["b"] + 0.0, g["b"] + 0.0)),
            num_iters=steps, step_size=size,
        )  # fmt: skip
        close(found["a"], onp.ones(3), atol=2e-2)
        close(found["b"], -2.0, atol=2e-2)
        assert len(seen) == steps
        close(seen[0], (0, 0.0, 4.0))


def test_adams_steps_are_those_of_the_paper():
    from fungrad.compat.autograd.misc.optimizers import adam

    x = adam(lambda x, i: 2.0 * x, 1.0, num_iters=2, step_size=0.1, b1=0.5, b2=0.75, eps=0.0)
    second = 1.0 - 0.1  # the first step has the length of the step size
    m, v = 0.5 * 1.0 + 0.5 * 2.0 * second, 0.75 * 1.0 + 0.25 * (2.0 * second) ** 2
    close(x, second - 0.1 * (m / 0.75) / onp.sqrt(v / (1.0 - 0.75**2)))


def test_fixed_points_have_derivatives_of_every_order():
    from fungrad.compat.autograd.misc.fixed_points import fixed_point

    step = lambda a: lambda x: 0.5 * (x + a / x)  # noqa: E731
    root = lambda a: fixed_point(step, a, 1.0, lambda x, y: np.abs(x - y), 1e-12)  # noqa: E731
    g = autograd.grad(root)
    close([root(2.0), g(2.0), autograd.grad(g)(2.0)], [2**0.5, 2**-1.5, -(2**-3.5)], rtol=1e-9)


def test_checks_of_derivatives():
    from fungrad.compat.autograd import test_util

    test_util.check_grads(f)(X, 2)
    test_util.check_grads(f, (0, 1))(X, 2.0)
    test_util.check_grads(np.sin, modes=["rev"], order=3)(0.3)
    test_util.check_vjp(np.sin, X)
    test_util.check_jvp(np.sin, X)
    test_util.combo_check(np.sum, [0])([X, onp.ones((2, 2))], axis=[None, 0])
    test_util.combo_check(np.multiply, modes=["rev"], order=1)([X], [2, X])
    test_util.check_equivalent({"a": X}, {"a": X + 1e-9})
    assert test_util.scalar_close(1.0, 1.0 + 1e-9) and not test_util.scalar_close(1.0, 1.1)
    with pytest.raises(AssertionError):
        test_util.check_equivalent(X, X + 1e-3)
    wrong = autograd.primitive(lambda x: plain(x) ** 2)
    autograd.extend.defvjp(wrong, lambda ans, x: lambda g: g * x)
    with pytest.raises(AssertionError):
        test_util.check_grads(lambda x: np.sum(wrong(x)), modes=["rev"], order=1)(X)


# --- the name autograd ----------------------------------------------------------------------------


@pytest.fixture
def nothing_imported():
    """Removes autograd from sys.modules; restores it afterwards."""
    kept = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "autograd"}
    for name in kept:
        del sys.modules[name]
    yield
    autograd.uninstall()
    sys.modules.update(kept)


def test_install_puts_it_under_the_name_autograd(nothing_imported):
    before = list(sys.meta_path)
    with autograd.install():
        assert importlib.import_module("autograd") is autograd
        import autograd.numpy.numpy_wrapper as wrapper
        import autograd.scipy.stats.norm as norm
        from autograd import grad
        from autograd.extend import primitive
        from autograd.misc import flatten
        from autograd.numpy.linalg import inv
        from autograd.numpy.numpy_boxes import ArrayBox
        from autograd.scipy.special import expit

        assert grad is fg.compat.autograd.grad and primitive is fg.compat.autograd.primitive
        assert wrapper is np and importlib.import_module("autograd.numpy") is np
        importlib.import_module("autograd.misc.flatten")
        assert autograd.misc.flatten is flatten and isinstance(flatten, types.FunctionType)
        assert norm is fg.scipy.stats.norm
        assert grad(lambda x: x * isinstance(x, ArrayBox))(2.0) == 1.0
        close(grad(lambda x: expit(x) * inv(np.array([[x]]))[0, 0])(1.0), fg.grad(
            lambda x: 1.0 / (1.0 + np.exp(-x)) / x)(1.0))  # fmt: skip
        with pytest.raises(ImportError):
            importlib.import_module("autograd.no_such_module")
        assert sys.modules["autograd.numpy"].__spec__.name == "fungrad.compat.autograd.numpy"
        autograd.install()  # again
    assert sys.meta_path == before
    assert not [name for name in sys.modules if name.partition(".")[0] == "autograd"]


def test_install_refuses_beside_the_real_one(nothing_imported):
    sys.modules["autograd"] = types.ModuleType("autograd")
    try:
        with pytest.raises(FungradError, match="was imported before"):
            autograd.install()
    finally:
        del sys.modules["autograd"]
    handle = autograd.install()
    handle.undo()
    handle.undo()
    assert "autograd" not in sys.modules


PROGRAM = """
import sys
import autograd.numpy as np
from autograd import grad

print(grad(lambda x: np.sum(x**2))(3.0), sys.argv[1:], __name__)
"""


@pytest.mark.slow
def test_programs_and_modules_run_with_it(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "fungrad.compat.autograd"]
    for given in (["program.py"], ["-m", "program"]):
        done = subprocess.run(
            [*command, *given, "--much", "1"], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.stdout == "6.0 ['--much', '1'] __main__\n", done.stderr
    wrong = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert wrong.returncode == 1 and wrong.stderr.startswith("usage: ")


def test_boxes_and_spaces_have_the_tables_that_clients_write_into():
    from fungrad.compat.autograd import core, extend, tracer

    class Flagged(onp.ndarray):
        """A client's class of arrays."""

    tracer.Box.type_mappings[Flagged] = lambda x, *trace_and_node: x
    extend.VSpace.mappings[Flagged] = extend.vspace
    assert not isinstance(X, tracer.ArrayBox)
    assert core.VJPNode is tracer.VJPNode
    with pytest.raises(fg.errors.UnsupportedFunctionError, match="make_vjp"):
        tracer.VJPNode.new_root()

    def f(x):
        assert isinstance(x, tracer.ArrayBox)
        assert isinstance(x.view(Flagged), Flagged)
        assert not hasattr(x, "type_mappings")
        return onp.sum(x.reshape(1, 3).transpose(onp.array([1, 0])) ** 2)

    assert onp.array_equal(fg.grad(f)(X), 2 * X)


def test_a_circuit_of_pennylane():
    """Its autograd interface, where PennyLane is installed."""
    pytest.importorskip("pennylane")
    done = subprocess.run(
        [sys.executable, "-c", CIRCUIT], capture_output=True, text=True, check=True, timeout=600
    )
    slope = [float(x) for x in done.stdout.split()]
    wanted = [-onp.sin(0.3) * onp.cos(0.7), -onp.cos(0.3) * onp.sin(0.7)]
    assert slope == pytest.approx(wanted)


CIRCUIT = """
from fungrad.compat import autograd
autograd.install()
import pennylane as qml
from pennylane import numpy as np
@qml.qnode(qml.device("default.qubit", wires=2), interface="autograd")
def circuit(x):
    qml.RX(x[0], wires=0); qml.RY(x[1], wires=1); qml.CNOT(wires=[0, 1])
    return qml.expval(qml.PauliZ(1))
print(*qml.grad(circuit)(np.array([0.3, 0.7], requires_grad=True)).tolist())
"""


def test_instances_of_subclasses_over_traced_values_are_boxes():
    class Tagged(onp.ndarray):
        pass

    def f(x):
        y = np.asarray(x).view(Tagged)
        assert (
            isinstance(y, autograd.tracer.ArrayBox)
            and isinstance(y, autograd.tracer.Box)
            and autograd.tracer.isbox(y)
        )
        assert not isinstance(onp.ones(2).view(Tagged), autograd.tracer.Box)
        assert type(y._value) is onp.ndarray and autograd.tracer.getval(y).tolist() == [1.0, 2.0]
        return np.sum(y * autograd.tracer.getval(y))

    assert np.asarray(fg.compat.autograd.grad(f)(np.array([1.0, 2.0]))).tolist() == [1.0, 2.0]


def test_unary_to_nary_is_found_where_autograd_has_it():
    slope = fg.compat.autograd.differential_operators.unary_to_nary(
        lambda f, x: fg.compat.autograd.grad(f)(x)
    )
    assert slope(lambda x, y: x * y**2, 1)(2.0, 3.0) == 12.0
    pullback, value = fg.compat.autograd.differential_operators._make_vjp(lambda x: x**2, 3.0)
    assert (pullback(1.0), value) == (6.0, 9.0)


class Marked(onp.ndarray):
    """A client's arrays, with an attribute that its operations keep (as PennyLane's tensors)."""

    def __array_finalize__(self, obj):
        self.fixed = getattr(obj, "fixed", False)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [onp.asarray(x) if isinstance(x, Marked) else x for x in inputs]
        out = onp.asarray(super().__array_ufunc__(ufunc, method, *plain, **kwargs)).view(Marked)
        out.fixed = all(x.fixed for x in inputs if isinstance(x, Marked))
        return out


def _marked(value, *trace_and_node):
    if value.fixed:
        raise ValueError("fixed")
    return autograd.tracer.ArrayBox(value, *trace_and_node)


def test_traced_values_show_the_class_that_autograd_shows():
    from fungrad.compat.autograd.numpy.numpy_boxes import ArrayBox

    seen = set()

    def g(x):
        for value in (x, x[0], np.sum(x), 2.0 * x):
            kind = value.__class__
            equal = type(value) == ArrayBox  # noqa: E721 - as clients ask
            seen.add((kind, kind.__module__, equal, str(type(value))))
            assert not isinstance(value, (onp.ndarray, onp.floating, float))
        made = np.array([[0.0]])
        assert type(made) == onp.ndarray and type(made) != list  # noqa: E721 - as clients ask
        return np.sum(x**2)

    for differentiate in (autograd.grad, autograd.hessian, autograd.jacobian, autograd.egrad):
        differentiate(g)(X)
    autograd.make_jvp(g)(X)(X)
    autograd.make_vjp(g)(X)
    assert seen == {
        (
            ArrayBox,
            "autograd.numpy.numpy_boxes",
            True,
            "<class 'autograd.numpy.numpy_boxes.ArrayBox'>",
        )
    }
    of_fungrad = []
    fg.grad(lambda x: of_fungrad.append((x.__class__, type(x).__name__)) or x[0])(X)
    assert of_fungrad[0] == (onp.ndarray, "Tracer")


@pytest.fixture
def registered():
    """Marked in the table of boxes."""
    from fungrad.ir.canonical import PLAIN_KINDS

    autograd.tracer.ArrayBox.type_mappings[Marked] = _marked
    yield
    del autograd.tracer.ArrayBox.type_mappings[Marked]
    PLAIN_KINDS.discard(Marked)


def test_arrays_of_a_registered_class_are_boxed_by_it(registered):
    x, weights = X.view(Marked), onp.array([1.0, 2.0, 3.0]).view(Marked)
    weights.fixed = True
    assert type(weights * weights) is Marked
    for order in (lambda x: weights * x, lambda x: x * weights, lambda x: onp.multiply(weights, x)):
        close(autograd.grad(lambda x, order=order: np.sum(np.sin(order(x))))(x), fg.grad(
            lambda x: np.sum(np.sin(onp.asarray(weights) * x)))(X))  # fmt: skip
    close(autograd.hessian(lambda x: np.sum(weights * x**3))(x), onp.diag(6.0 * X * [1, 2, 3]))
    close(autograd.grad(lambda x: np.sum(np.concatenate([weights, x])))(x), onp.ones(3))
    with pytest.raises(ValueError, match="fixed"):
        autograd.grad(np.sum)(weights)


class Program:
    """An object with parameters, as a circuit has."""

    def __init__(self, parameters):
        self.parameters = parameters


def _unboxed(x):
    """One box less, as PennyLane takes it off the results of its rules."""
    return x._value if isinstance(x, autograd.tracer.ArrayBox) else x


def _objects(items):
    """An array of objects, as C code makes of boxes."""
    found = onp.empty(len(items), object)
    found[:] = items
    return found


@pytest.mark.parametrize("collect", [tuple, list, np.array, _objects])
def test_a_rule_reads_the_boxes_that_an_object_holds(collect):
    """The object goes to the primitive beside its parameters; the rule computes with its own."""
    plain = []

    @autograd.primitive
    def run(parameters, program):
        values = [x._value for x in program.parameters]
        plain.append(not any(isinstance(x, autograd.tracer.ArrayBox) for x in values))
        return onp.sin(autograd.tracer.getval(program.parameters[0])) * parameters[1] ** 3

    def pulled(ans, parameters, program):
        def pull(g):
            x, y = program.parameters
            return collect([_unboxed(np.cos(x) * y**3) * g, 3 * np.sin(x) * y**2 * g])

        return pull

    autograd.extend.defvjp(run, pulled, argnums=[0])

    def f(p):
        parameters = [p[0] * p[1], p[1]]
        return run(parameters, Program(parameters))

    def direct(p):
        return np.sin(p[0] * p[1]) * p[1] ** 3

    p = onp.array([0.4, 1.3])
    close(autograd.grad(f)(p), fg.grad(direct)(p))
    assert all(plain)
    close(autograd.jacobian(autograd.grad(f))(p), fg.hessian(direct)(p))
