"""Every mistake of the design's table has its error: the class, the user's line, the cause,
the rewrite.
"""

from __future__ import annotations

import array
import collections
import functools
import math
import statistics
import sys
import warnings

import numpy as np
import pytest
from refusals import HERE, X, raised

import fungrad as fg
import fungrad.testing
from fungrad import errors
from fungrad.tracing.trace import unsupported

# --- the truth of an abstract value ---------------------------------------------------


def branch(value):
    return value if value > 0 else -value


BRANCH = f"{__file__}:{branch.__code__.co_firstlineno + 1}"


def test_if_under_vmap():
    raised(
        errors.AbstractBooleanError,
        lambda: fg.vmap(branch)(X - 2.0),
        BRANCH,
        "bool()",
        "vmap of `branch`",
        "np.where",
        "fg.lax.cond",
        "3 examples",
        "False in example 0, True in example 2",
    )


def test_if_under_staging_names_the_argument():
    raised(
        errors.AbstractBooleanError,
        lambda: fg.make_jaxpr(branch)(1.0),
        BRANCH,
        "`branch`",
        "computed from the argument value",
        "np.where",
        "fg.lax.cond",
        "without tracing",
    )


def test_the_argument_is_found_through_computations():
    def f(parameters, scale, unused):
        y = np.sin(parameters["w"]) * scale
        while y > 0:
            y = y - 1.0
        return y

    raised(
        errors.AbstractBooleanError,
        lambda: fg.make_jaxpr(f)({"w": 1.0, "b": 2.0}, 3.0, 4.0),
        "computed from the arguments parameters['w'], scale)",
        __file__,
    )


def test_under_grad_alone_if_works():
    assert fg.grad(branch)(-2.0) == -1.0
    assert fg.grad(fg.grad(lambda x: x**3 if x > 0 else x))(2.0) == 12.0
    assert fg.jvp(branch, (-2.0,), (1.0,))[1] == -1.0


def test_under_vmap_of_grad_it_does_not_where_examples_differ():
    differ = fg.vmap(fg.grad(branch))
    raised(errors.AbstractBooleanError, lambda: differ(X - 2.0), BRANCH, "vmap of")


# --- the number inside an abstract value ----------------------------------------------


@pytest.mark.parametrize(
    ("ask", "word"),
    [
        (int, "int()"),
        (float, "float()"),
        (complex, "complex()"),
        (lambda x: range(x), "an index"),
        (math.floor, "math.floor()"),
        (math.ceil, "math.ceil()"),
        (lambda x: x.item(), ".item()"),
        (lambda x: x.tolist(), ".tolist()"),
        (lambda x: [1, 2, 3][x], "an index"),
    ],
)
def test_a_number_asked_of_an_abstract_value(ask, word):
    def f(x):
        ask(x)
        return x

    place = f"{__file__}:{f.__code__.co_firstlineno + 1}"
    with pytest.raises(errors.AbstractValueError) as info:
        fg.make_jaxpr(f)(2)
    message = str(info.value)
    assert __file__ in message and ("argument x" in message)
    assert place in message or "<lambda>" in message
    assert "return it as an output" in message
    assert word in message or "item" in message


def test_a_number_asked_under_vmap():
    raised(
        errors.AbstractValueError,
        lambda: fg.vmap(lambda x: int(x) * x)(X),
        "int()",
        "1 in example 0, 2 in example 1",
        HERE,
    )


def test_under_grad_int_and_indices_work():
    assert fg.grad(lambda x: x * int(x))(2.5) == 2.0
    assert fg.grad(lambda x: x * [10.0, 20.0, 30.0][int(x)])(1.5) == 20.0
    assert fg.grad(lambda x: sum(x for _ in range(int(x))))(3.0) == 3.0


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: sum(x for _ in range(x)), ("static_argnums", "range(n)")),
        (lambda x: f"{x:.3f}", ("fg.debug.print",)),
        (
            lambda x: np.sort((x * np.ones(3))[x * np.ones(3) > 0]),
            ("np.sum(x[mask])", "np.where(mask"),
        ),
        (lambda x: np.nonzero(x * np.ones(3)), ("flatnonzero(mask, size=n",)),
        (lambda x: int(x), ("static_argnums",)),
    ],
)
def test_the_cure_fits_what_was_asked(f, words):
    error = raised(errors.AbstractValueError, lambda: fg.jit(f, branches="error")(2), *words)
    assert "`if`" not in error.message
    batched = [w for w in words if w != "static_argnums"]
    error = raised(errors.AbstractValueError, lambda: fg.vmap(f)(np.arange(2)), *batched)
    assert "`if`" not in error.message and "in_axes" in error.message


# --- operations that would cut a gradient ---------------------------------------------


@pytest.mark.parametrize("cut", [float, complex])
@pytest.mark.parametrize("transform", [fg.grad, lambda f: lambda x: fg.jvp(f, (x,), (1.0,))])
def test_a_cut_gradient_is_refused(cut, transform):
    def f(x):
        cut(x)
        return x * x

    with pytest.raises((errors.GradientCutError, ValueError)) as info:
        transform(f)(1.0)
    error = info.value
    if not isinstance(
        error, errors.GradientCutError
    ):  # NumPy wraps the error of an element's float()
        error = error.__cause__
    assert isinstance(error, errors.GradientCutError)
    for word in (
        __file__,
        "fg.numpy.asarray(x, dtype=float)",
        "(fg.stop_gradient(x))",
        "silently",
        "fg.numpy.at(a)[i].set(x)",
    ):
        assert word in str(error)


# --- assignment -----------------------------------------------------------------------


def test_assignment_into_an_array_that_a_body_captured():
    def f(x):
        def body(carry, _):
            x[0] = carry
            return carry, None

        return fg.lax.scan(body, 0.0, None, length=2)[0] + np.sum(x)

    place = f"{__file__}:{f.__code__.co_firstlineno + 2}"
    raised(errors.ItemAssignmentError, lambda: fg.grad(f)(X), place, "a = np.array(a)")


@pytest.mark.parametrize(
    "advised",
    [
        lambda a, value: fg.numpy.at(a)[0].set(value),
        lambda a, value: fg.numpy.at(a)[0].add(value - a[0]),
        lambda a, value: np.where(np.arange(3) == 0, value, a),
    ],
)
def test_what_replaces_an_assignment_works_on_plain_arrays_as_well(advised):
    def f(x):
        return np.sum(advised(x, 2.0 * x[1]) ** 2)

    assert f(X) == 4 * 4.0 + 4.0 + 9.0
    assert fg.jit(f)(X) == f(X)
    np.testing.assert_allclose(fg.grad(f)(X), [0.0, 20.0, 6.0])


def test_what_replaces_asarray_with_a_dtype_works_on_plain_arrays_as_well():
    def f(x):
        return np.sum(fg.numpy.asarray(x, dtype=float) ** 2)

    assert f([1, 2, 3]) == f(X) == fg.jit(f)(X) == 14.0
    np.testing.assert_allclose(fg.grad(f)(X), 2 * X)
    np.testing.assert_allclose(fg.grad(lambda x: f([x, 2 * x]))(1.0), 10.0)


# --- traced values in installed packages ----------------------------------------------


@pytest.fixture
def package(site_packages):
    """An installed package whose compiled code asks for a float."""
    (site_packages / "some_package.py").write_text(
        "import array\n\ndef convert(x):\n    return array.array('d', [x])[0]\n\n"
        "def draw(x, canvas):\n    canvas[0] = x\n"
    )
    import some_package

    yield some_package
    del sys.modules["some_package"]


def test_a_package_that_cuts_is_named_with_the_line_that_called_it(package):
    def f(x):
        return package.convert(x)

    line = f"{__file__}:{f.__code__.co_firstlineno + 1} (f)"
    strict = functools.partial(fg.jit, branches="error")
    for transform, class_ in ((fg.grad, "GradientCutError"), (strict, "AbstractValueError")):
        error = raised(
            getattr(errors, class_),
            lambda transform=transform: transform(f)(1.0),
            f"some_package.py:4 (convert), called at {line}",
        )
        if transform is fg.grad:
            assert 'with fg.opaque("differences")' in error.message
            assert "fg.external(package.convert, vjp=...)" in error.message
            assert "fg.stop_gradient(x)" in error.message
            assert "math" not in error.message


def test_a_package_that_writes_into_an_array_is_told_apart_from_the_users_lines(package):
    error = raised(
        errors.ItemAssignmentError,
        lambda: fg.grad(lambda x: package.draw(x, np.loadtxt(["1 2 3"])) or x)(1.0),
        "some_package.py:7 (draw), called at",
        "give it fg.stop_gradient(x), as for a plot",
    )
    assert "np.zeros" not in error.message


def test_the_line_of_pythons_own_library_is_followed_by_the_users():
    def f(x):
        return statistics.NormalDist().cdf(x)

    line = f"called at {__file__}:{f.__code__.co_firstlineno + 1} (f)"
    raised(errors.GradientCutError, lambda: fg.grad(f)(1.0), line)


# --- NumPy's words --------------------------------------------------------------------


@pytest.mark.parametrize("transform", [fg.grad, fg.jit])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.isnan(np.array([x, 1.0], dtype=object)),
        lambda x: np.exp(np.array([x, 1.0], dtype=object)),
    ],
)
def test_numpys_words_about_objects_have_a_note(f, transform):
    with pytest.raises(TypeError) as caught:
        transform(lambda x: np.sum(f(x)))(2.0)
    note = caught.value.__notes__[0]
    assert "An array of objects" in note and "fg.numpy.array" in note and "np.stack" in note


def test_a_method_of_an_array_of_objects_names_the_rewrite():
    def f(x, repaired=False):
        pair = np.ndarray(2, dtype=object)  # of NumPy's own class
        pair[0], pair[1] = x, 2.0 * x
        if repaired:
            pair = np.array(pair.tolist())
        return pair.mean() + np.sum(pair.astype(float) ** 2)

    raised(errors.GradientCutError, lambda: fg.grad(f)(1.5), "pair = np.array(pair.tolist())")
    assert fg.grad(f)(1.5, True) == 1.5 + 10.0 * 1.5


# --- outputs and inputs of grad -------------------------------------------------------


def test_a_vector_output():
    raised(
        errors.NonScalarOutputError, lambda: fg.grad(np.sin)(X), "(3,)", "sin", "np.sum", "fg.vjp"
    )


def test_a_loss_with_something_beside_it():
    raised(errors.NonScalarOutputError, lambda: fg.grad(lambda x: (x, [x]))(1.0), "has_aux=True")
    for f in (lambda x: (x, x, x), lambda x: [x, x]):
        error = raised(errors.NonScalarOutputError, lambda f=f: fg.grad(f)(1.0), "fg.jacobian")
        assert "has_aux" not in error.message


def test_a_forgotten_return():
    raised(errors.NonScalarOutputError, lambda: fg.grad(lambda x: None)(1.0), "without `return`")


TAKES_A_FUNCTION = {
    "grad": fg.grad, "value_and_grad": fg.value_and_grad, "jit": fg.jit, "vmap": fg.vmap,
    "jacfwd": fg.jacfwd, "jacrev": fg.jacrev, "jacobian": fg.jacobian, "hessian": fg.hessian,
    "elementwise_grad": fg.elementwise_grad, "make_jaxpr": fg.make_jaxpr,
    "vjp": lambda f: fg.vjp(f, 1.0), "jvp": lambda f: fg.jvp(f, (1.0,), (1.0,)),
    "eval_shape": lambda f: fg.eval_shape(f, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("verb", TAKES_A_FUNCTION)
def test_a_value_in_place_of_a_function_is_refused_at_once(verb):
    with pytest.raises(errors.ArgumentError) as info:
        TAKES_A_FUNCTION[verb](np.float64(3.0))
    message = info.value.message
    assert f"{verb} takes a function, and was given a float64 at {__file__}" in message
    assert "in place of its value f(x)" in message


@pytest.mark.parametrize("verb", ["grad", "value_and_grad", "jacrev", "hessian"])
def test_arguments_in_place_of_argnums_are_refused_at_once(verb):
    with pytest.raises(errors.ArgumentError, match=rf"fg\.{verb}\(f\)\(x\)"):
        getattr(fg, verb)(np.sum, X)


def test_argnums_may_be_numpys_integers():
    assert fg.grad(lambda x, y: x * y, argnums=np.int64(1))(2.0, 3.0) == 2.0


def test_argnums_of_an_argument_that_is_not_there():
    def f(x, scale=1.0):
        return x * scale

    words = ("position 2 (the first is 0)", "called with x only", "parameters are x, scale")
    raised(errors.ArgumentError, lambda: fg.grad(f, 2)(1.0), __file__, *words)
    raised(errors.ArgumentError, lambda: fg.grad(f, 1)(1.0, scale=2.0), "argnums='scale'")
    raised(errors.ArgumentError, lambda: fg.grad(f, "scal")(1.0), "the argument 'scal'", "scale")


def test_in_axes_of_another_length_or_tree():
    f = lambda x, y: x["w"] * y  # noqa: E731
    args = {"w": X}, X
    words = ("in_axes=(0, None, 0) has 3 entries", "2 positional arguments")
    raised(errors.BatchAxisError, lambda: fg.vmap(f, in_axes=(0, None, 0))(*args), *words)
    words = ("in_axes for x", "{'b': 0}", "{'w': *}")
    raised(errors.StructureMismatchError, lambda: fg.vmap(f, in_axes=({"b": 0}, 0))(*args), *words)
    raised(errors.BatchAxisError, lambda: fg.vmap(f, in_axes=("0", 0))(*args), "in_axes for x")
    raised(errors.BatchAxisError, lambda: fg.vmap(f, in_axes=(1, 0))(*args), "of x['w']", "axis 1")
    raised(errors.BatchAxisError, lambda: fg.vmap(f)({"w": X}, np.ones(2)), "3: x['w']", "2: y")


# --- operands next to a traced value --------------------------------------------------


@pytest.mark.parametrize("transform", [fg.grad, fg.jit])
@pytest.mark.parametrize(
    "other", [range(3), memoryview(X), array.array("d", X), collections.deque([1.0, 2.0, 3.0])]
)
def test_what_numpy_makes_an_array_of_does_so_beside_a_traced_value(other, transform):
    for f in (lambda x: x * other, lambda x: other * x, lambda x: np.multiply(other, x)):
        total = lambda x, f=f: np.sum(f(x))  # noqa: E731
        expected = np.asarray(other) if transform is fg.grad else np.sum(np.asarray(other) * X)
        np.testing.assert_array_equal(transform(total)(X), expected)
    np.testing.assert_array_equal(fg.grad(lambda x: np.dot(x, other))(X), np.asarray(other))


@pytest.mark.parametrize("other", [{1.0}, {"a": 1.0}, None, object()])
def test_what_is_no_array_has_a_note(other):
    for f in (lambda x: x + other, lambda x: other * x, lambda x: np.multiply(x, other)):
        with pytest.raises(TypeError) as caught:
            fg.grad(lambda x, f=f: np.sum(f(x)))(X)
        assert "Operators combine a traced value with arrays" in caught.value.__notes__[0]
    raised(errors.ArgumentError, lambda: fg.grad(lambda x: np.dot(x, other))(X), "is not an array")


def test_a_dask_array_is_refused_by_name():
    class Array:
        def __array_ufunc__(self, *args, **kwargs):
            raise AssertionError

    Array.__module__ = "dask.array.core"
    raised(errors.ArgumentError, lambda: fg.grad(lambda x: x * Array())(1.0), "value.compute()")


# --- NumPy's warnings -----------------------------------------------------------------


def warned(x):
    return np.sum(np.log(x) ** 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: fg.grad(warned)(x),
        lambda x: fg.vmap(warned)(x[None]),
        lambda x: fg.jvp(warned, (x,), (x,)),
        lambda x: fg.hessian(warned)(x),
    ],
)
def test_numpys_warnings_come_from_the_users_line(call):
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in log") as found:
        call(np.array([0.0, 1.0]))
    assert (found[0].filename, found[0].lineno) == (__file__, warned.__code__.co_firstlineno + 1)
    assert np.geterr()["divide"] == "warn" and np.geterrcall() is None


@pytest.mark.numpy_backend  # native code does not warn
@pytest.mark.parametrize("size", [2, 100, 100_000])
def test_the_first_call_of_a_compiled_function_warns(size):
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in log") as found:
        fg.jit(warned)(np.zeros(size))
        line = sys._getframe().f_lineno - 1
    assert (found[0].filename, found[0].lineno) == (__file__, line)


def test_what_numpy_does_about_errors_is_what_it_was():
    before = np.geterr(), np.geterrcall(), np.getbufsize()
    constant = np.full((100, 100), 1.5)  # of a program that sets the size of NumPy's buffers
    fg.jit(lambda x: (x * constant, np.sum(constant * x, 0)))(2.0)
    assert (np.geterr(), np.geterrcall(), np.getbufsize()) == before

    def put_back(x):
        old = np.seterr(all="ignore")
        np.log(x - 1.0)
        np.seterr(**old)
        return x

    fg.grad(put_back)(1.0)
    assert (np.geterr(), np.geterrcall(), np.getbufsize()) == before

    def kept(x):
        np.seterr(over="raise")
        return x

    try:
        fg.grad(kept)(1.0)
        assert np.geterr() == {**before[0], "over": "raise"} and np.geterrcall() is None
    finally:
        np.seterr(**before[0])


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("steps", [3, 2000])
@pytest.mark.parametrize("jitted", [False, True])
def test_loops_over_small_arrays_raise_where_errstate_asks(steps, jitted):
    def f(x):
        return fg.lax.fori_loop(0, steps, lambda i, c: c * 1e200, x)

    def total(x):
        return fg.lax.scan(lambda c, _: (c + np.sum(x * x), None), 1.0, None, length=steps)[0]

    for function in (f, total, lambda x: x * x + 1.0):
        run = fg.jit(function) if jitted else function
        x = np.array([1e200, 2.0])
        assert np.isinf(run(x)).any()
        for how in ("raise", "call"):
            with (
                np.errstate(over=how, call=lambda kind, flag: 1 / 0),
                pytest.raises((FloatingPointError, ZeroDivisionError)),
            ):
                run(x)
        with np.errstate(over="ignore", divide="raise"):
            assert np.isinf(run(x)).any()


def test_what_numpy_does_about_errors_stays_the_users_choice():
    x = np.array([0.0, 1.0])
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="in log"):
        fg.grad(warned)(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="ignore"):
            fg.grad(warned)(x)
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in log"):
            fg.grad(warned)(x)
    said = []
    with np.errstate(divide="call", call=lambda kind, flag: said.append(kind)):
        fg.vmap(warned)(x[None])
    assert said == ["divide by zero"]

    def loud(x):
        np.seterr(divide="raise")
        return x

    before = np.seterr()
    try:
        fg.grad(loud)(1.0)
        assert np.geterr()["divide"] == "raise"
    finally:
        np.seterr(**before)
        np.seterrcall(None)


def test_a_tree_output():
    raised(errors.NonScalarOutputError, lambda: fg.grad(lambda x: (x, x))(1.0), "(*, *)", __file__)


def test_no_number_at_all():
    raised(errors.NonScalarOutputError, lambda: fg.grad(lambda x: "text")(1.0), "str")
    raised(errors.NonScalarOutputError, lambda: fg.grad(lambda x: None)(1.0), "None")


def test_a_complex_output():
    raised(
        errors.NonScalarOutputError,
        lambda: fg.grad(lambda z: z * z)(1 + 2j),
        "complex",
        "holomorphic=True",
    )


@pytest.mark.parametrize(
    ("leaf", "word"),
    [(3, "int64"), (True, "bool"), ("text", "a str"), (np.arange(3), "int64"), (object, "a type")],
)
def test_a_leaf_that_cannot_be_differentiated(leaf, word):
    f = lambda p: 1.0  # noqa: E731
    raised(
        errors.NonDifferentiableInputError,
        lambda: fg.grad(f)({"w": [1.0, leaf]}),
        "p['w'][1]",
        word,
        "argnums",
        "nondiff='none'",
    )
    assert fg.grad(f, nondiff="none")({"w": [1.0, leaf]})["w"][1] is None


def test_an_object_that_holds_no_numbers_is_to_be_a_tree():
    class Model:
        weights = X

    for leaf in (Model(), {1.0, 2.0}):
        error = raised(
            errors.NonDifferentiableInputError,
            lambda leaf=leaf: fg.grad(lambda m: 1.0)(leaf),
            "dict, list or tuple of arrays, or register its class (fg.tree_util)",
        )
        assert "np.asarray" not in error.message


def test_jvp_of_an_integer():
    raised(
        errors.NonDifferentiableInputError,
        lambda: fg.jvp(lambda n: n, (3,), (1,)),
        "jvp",
        "n",
        "int64",
    )


# --- NumPy's surface ------------------------------------------------------------------


def test_an_unsupported_function():
    raised(
        errors.UnsupportedFunctionError,
        lambda: fg.grad(lambda x: np.sum(np.isnat(x)))(X),
        "isnat",
        "fungrad.extend",
        HERE,
    )


def test_a_function_of_a_like_name_is_named_and_no_other():
    near = "nearest supported function by name is numpy.isnan"
    assert near in unsupported(np.isnat).message
    for function in (np.save, np.busday_offset):
        assert "nearest" not in unsupported(function).message


def test_an_output_buffer():
    raised(
        errors.ItemAssignmentError,
        lambda: fg.grad(lambda x: np.sum(np.sin(x, out=np.loadtxt(["1 2 3"]))))(X),
        "ufunc 'sin'",
    )


# --- leaks ----------------------------------------------------------------------------


@pytest.mark.parametrize("transform", ["grad", "jit", "vmap", "make_jaxpr"])
def test_a_leak_names_the_transform(transform):
    kept = []

    def leaky(x):
        kept.append(np.sin(x))
        return np.sum(x)

    birth = f"{__file__}:{leaky.__code__.co_firstlineno + 1}"
    arg = np.ones((2, 3)) if transform == "vmap" else X
    getattr(fg, transform)(leaky)(arg)
    error = raised(
        errors.LeakedTracerError,
        lambda: fg.grad(lambda x: np.sum(x * np.cos(kept[0])))(X),
        "`leaky`",
        HERE,
        "f64[3]",
        "has_aux",
        "fg.stop_gradient",
    )
    if transform == "make_jaxpr":  # the Graph knows the line of every equation
        assert birth in error.message and "`sin`" in error.message
    if transform == "grad":
        assert "`sin`" in error.message


def test_a_traced_number_as_a_shape():
    with pytest.raises(TypeError) as caught:
        fg.jit(lambda n: np.zeros(n), branches="error")(3)
    assert "static_argnames" in caught.value.__notes__[0]
