"""The value under a trace against that of a plain call, where code of other packages runs."""

from __future__ import annotations

import contextlib
import importlib
import math
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fungrad as fg
from fungrad.compiler import jit
from fungrad.errors import ArgumentError, GradientCheckError, TracingError
from fungrad.tracing import tracing_check

PACKAGE = """
import random
import numpy as np

calls = []

def scaled(x):
    y = x * 1.0
    if type(y).__module__ in ("numpy", "builtins"):
        return np.sum(2.0 * y)
    return np.sum(3.0 * y)

def fine(x):
    calls.append(1)
    return np.sum(x * x)

def drawn(x):
    return np.sum(x) * np.random.normal() * random.random()

def moody(x, state=[0]):
    state[0] += 1
    return np.sum(x) * state[0]

def refused_plainly(x):
    if type(x).__module__ in ("numpy", "builtins"):
        raise TypeError("not this one")
    return np.sum(x * x)

def steep(x):
    for _ in range(60):
        x = 3.99 * x * (1.0 - x)
    return np.sum(x)

def written(x):
    x[0] = 5.0
    return np.sum(x * x)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An installed package, with the names of functions that nobody called yet."""
    folder = tmp_path / "site-packages"
    (folder / "odd_package").mkdir(parents=True)
    (folder / "odd_package" / "__init__.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(folder))
    tracing_check.OBSERVED.clear()
    tracing_check.COMPILED.clear()
    found: ModuleType = importlib.import_module("odd_package")
    yield found
    del sys.modules["odd_package"]


X = np.array([0.3, 0.4])


@pytest.mark.parametrize(
    "transform",
    [
        fg.grad, fg.value_and_grad, fg.jacobian, fg.jacfwd, fg.jacrev, fg.jit,
        lambda f: lambda x: fg.vjp(f, x),
        lambda f: lambda x: fg.jvp(f, (x,), (x,)),
        lambda f: fg.jit(fg.grad(f)),
        fg.hessian,
    ],
)  # fmt: skip
def test_another_path_is_an_error_at_its_line(package: Any, transform: Any) -> None:
    def loss(x: Any) -> Any:
        return package.fine(x) + package.scaled(x)

    for _ in range(2):  # the second call is no better
        with pytest.raises(TracingError) as found:
            transform(loss)(X)
        text = str(found.value)
        assert "test_tracing_check.py" in text and "loss" in text
        assert "odd_package/__init__.py:9 (scaled)" in text.replace("\\", "/")


def test_it_costs_one_plain_call_of_a_function(package: Any) -> None:
    def loss(x: Any) -> Any:
        return package.fine(x)

    for _ in range(3):
        fg.grad(loss)(X)
    fg.grad(lambda x: package.fine(x))(X)
    assert len(package.calls) == 3 + 1 + 2


def test_the_observation_of_long_recordings_ends(
    package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes later is known by the lines of the equations."""
    monkeypatch.setattr(jit, "CALLS", 500)
    observed: list[bool] = []

    def f(x: Any) -> Any:
        for _ in range(50):
            x = np.sin(x)
        observed.append(sys.getprofile() is not None)
        return package.scaled(x)

    with pytest.raises(TracingError):
        fg.jit(f)(X)
    assert not observed[0]
    calls: list[int] = []

    def own(x: Any) -> Any:
        calls.append(1)
        for _ in range(50):
            x = np.sin(x)
        return np.sum(x)

    fg.jit(own)(X)
    assert len(calls) == 1


def test_code_of_the_user_is_not_called_twice() -> None:
    called: list[int] = []

    def loss(x: Any) -> Any:
        called.append(1)
        return np.sum(np.sin(x))

    fg.grad(loss)(X)
    fg.jacobian(loss)(X)
    assert len(called) == 2


def is_true(x: Any) -> Any:
    return 2.0 * x if (float(x) > 0.0) is True else 3.0 * x


def has_class_bool(x: Any) -> Any:
    return 2.0 * x if type(float(x) > 0.0) is bool else 3.0 * x


def matches_true(x: Any) -> Any:
    match float(x) > 0.0:
        case True:
            return 2.0 * x
    return 3.0 * x


TABLES = [{1.5: 2.0}]


def is_key(x: Any) -> Any:
    return x * TABLES[0].get(x, 3.0)


def is_element(x: Any) -> Any:
    return x * len({x, x * 1.0})


def key_of_tuple(x: Any) -> Any:
    return x * ((1.5, 1) in {(x, 1): 0})


@pytest.mark.parametrize("f", [is_key, is_element, key_of_tuple])
@pytest.mark.parametrize(
    "transform",
    [
        fg.grad,
        lambda f: fg.jit(f),
        lambda f: lambda x: fg.vmap(f)(np.array([x, 2.0])),
        lambda f: fg.vmap(fg.grad(f), in_axes=None, axis_size=2),
    ],
    ids=["grad", "jit", "vmap", "vmap_of_grad"],
)
def test_values_that_depend_on_hashes_are_errors(f: Any, transform: Any) -> None:
    with pytest.raises(TracingError, match=rf"part at .*\({f.__name__}\)"):
        transform(f)(1.5)


@pytest.mark.parametrize("f", [is_true, has_class_bool, matches_true])
def test_values_that_depend_on_identity_with_true_are_errors(f: Any) -> None:
    assert fg.grad(f)(1.5) == 2.0
    for compiled in (fg.jit(f), fg.jit(fg.grad(f))):
        with pytest.raises(TracingError, match=rf"part at .*\({f.__name__}\)"):
            compiled(1.5)


def test_right_questions_of_identity_raise_no_error() -> None:
    def f(x: Any, option: Any = True) -> Any:
        known: dict[Any, Any] = {}
        for v in x:
            known[v] = v * v if option is True else v
        return sum(known.values())

    np.testing.assert_array_equal(fg.grad(f)(X), 2.0 * X)
    np.testing.assert_array_equal(fg.jit(fg.grad(f))(X), 2.0 * X)
    np.testing.assert_array_equal(fg.vmap(f)(np.stack([X, X])), [np.sum(X * X)] * 2)


def test_the_settings(package: Any) -> None:
    called: list[int] = []

    def loss(x: Any) -> Any:
        called.append(1)
        return np.sum(np.sin(x))

    fg.config.verify_tracing = "always"
    try:
        fg.grad(loss)(X)
        assert len(called) == 2
        fg.config.verify_tracing = "never"
        assert fg.grad(package.scaled)(X).tolist() == [3.0, 3.0]
    finally:
        fg.config.verify_tracing = "foreign"
    with pytest.raises(TracingError):
        fg.grad(package.scaled)(X)
    with pytest.raises(ArgumentError, match="verify_tracing"):
        fg.config.verify_tracing = "sometimes"


def test_random_states_are_as_before(package: Any) -> None:
    np.random.seed(3)
    random.seed(3)
    expected = [np.random.normal() * random.random(), np.random.normal(), random.random()]
    np.random.seed(3)
    random.seed(3)
    slope = fg.grad(package.drawn)(X)
    assert [slope[0], np.random.normal(), random.random()] == expected


@pytest.mark.parametrize("name", ["moody", "refused_plainly", "steep", "fine"])
def test_no_alarm(package: Any, name: str) -> None:
    f = getattr(package, name)
    fg.grad(f)(X)
    fg.jit(f)(X)


def test_the_users_arrays_are_as_before(package: Any) -> None:
    x = X.copy()
    fg.jit(lambda x: package.fine(x))(x)
    np.testing.assert_array_equal(x, X)


def test_nested_derivatives(package: Any) -> None:
    def f(x: Any) -> Any:
        return package.fine(x) ** 2

    assert fg.grad(lambda x: np.sum(fg.grad(f)(x)))(X).shape == (2,)
    assert fg.vmap(fg.grad(f))(np.stack([X, X])).shape == (2, 2)


# --- the complex step -----------------------------------------------------------------------------


def test_a_complex_step_that_drops_imaginary_parts() -> None:
    for f in (lambda x: np.asarray(x).real ** 2, lambda x: np.abs(x) ** 2, lambda x: x.real * x):
        wrapped = fg.external(f, vjp="complex_step", shape=fg.Type((), float))
        for transform in (fg.grad, fg.jit):
            g = transform(fg.grad(wrapped)) if transform is fg.jit else fg.grad(wrapped)
            with pytest.raises(GradientCheckError, match="drops imaginary parts"):
                g(3.0)


def test_a_complex_step_that_drops_a_part_of_one_argument() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(x * x) + np.sum(np.real(y) ** 2)

    wrapped = fg.external(f, vjp="complex_step", shape=fg.Type((), float))
    with pytest.raises(GradientCheckError):
        fg.grad(wrapped, (0, 1))(X, X)
    np.testing.assert_allclose(fg.grad(wrapped)(X, X), 2 * X, rtol=1e-14)


def test_right_complex_steps() -> None:
    calls: list[int] = []

    def f(x: Any) -> Any:
        calls.append(1)
        return np.exp(x) * np.sin(1e3 * x) + 1e6

    wrapped = fg.external(f, vjp="complex_step", shape=fg.Type((), float))
    expected = fg.grad(f)(0.7)
    calls.clear()
    assert fg.grad(wrapped)(0.7) == pytest.approx(expected, rel=1e-14)
    first = len(calls)
    fg.grad(wrapped)(0.8)
    assert len(calls) - first < first


def reciprocal_or_double(x: Any) -> Any:
    try:
        return 1.0 / (x - 1.0)
    except ZeroDivisionError:
        return 2.0 * x


def without_overflow(x: Any) -> Any:
    with contextlib.suppress(OverflowError):
        return (x * 1e200) ** 2
    return 2.0 * x


def log_or_double(x: Any) -> Any:
    try:
        return math.log(x - 2.0)
    except ValueError:
        return 2.0 * x


def raised_by_numpy(x: Any) -> Any:
    with np.errstate(divide="raise"):
        try:
            return np.log(x - 1.0)
        except FloatingPointError:
            return 2.0 * x


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "f", [reciprocal_or_double, without_overflow, log_or_double, raised_by_numpy]
)
def test_caught_errors_of_numbers(f: Any) -> None:
    """A compiled function and a batch do not raise them: they took the other branch, silently."""
    assert fg.value_and_grad(f)(1.0) == (2.0, 2.0)
    for transform in (fg.jit, lambda f: fg.jit(fg.grad(f)), lambda f: fg.grad(fg.jit(f))):
        with pytest.raises(fg.errors.TracingError, match="in a plain call"):
            transform(lambda x: f(x) * 1.0)(1.0)
    if f is log_or_double:  # NumPy's numbers raise no other of these errors
        with pytest.raises(fg.errors.TracingError, match="in a plain call"):
            fg.vmap(f)(np.ones(2))


def test_errors_of_numbers_that_nobody_catches_are_infinities() -> None:
    with np.errstate(all="ignore"):
        assert fg.value_and_grad(lambda x: 1.0 / x)(0.0) == (np.inf, -np.inf)
        assert fg.value_and_grad(lambda x: (x * 1e200) ** 2)(1.0) == (np.inf, np.inf)
