"""An error that another package raises because of a traced value says so, with the rewrite;
one that has nothing to do with it is left alone.
"""

from __future__ import annotations

import array
import decimal
import importlib
import math
import re
import struct
import sys
import time

import numpy as np
import pytest
from scipy.optimize import _minpack

import fungrad as fg

X = np.array([0.3, 0.7])


def notes(f, error, transform=fg.grad):
    with pytest.raises(error) as caught:
        transform(f)(X)
    return getattr(caught.value, "__notes__", [])


@pytest.mark.parametrize("transform", [fg.grad, fg.jit, lambda f: lambda x: fg.jvp(f, (x,), (x,))])
@pytest.mark.parametrize(
    ("f", "error"),
    [
        (lambda x: memoryview(x), TypeError),
        (lambda x: np.frombuffer(x), TypeError),
        (lambda x: np.ndarray(2, buffer=x), TypeError),
        (lambda x: decimal.Decimal(x), TypeError),
        (lambda x: struct.pack("d", x[0]), struct.error),
        (lambda x: time.sleep(x[0]), TypeError),
        (lambda x: x.values, AttributeError),
        (lambda x: x.__array_interface__, AttributeError),
    ],
)
def test_what_a_traced_value_met_is_said_once(f, error, transform):
    (note,) = notes(f, error, transform)
    assert note.startswith("A traced value") and "fg.stop_gradient(x)" in note
    assert "fg.external" in note and "test_notes.py" in note
    (again,) = notes(lambda x: transform(f)(X), error)  # through two public functions
    assert again == note


@pytest.mark.parametrize(
    ("f", "error"),
    [
        (lambda x: x + np.ones(3), Exception),
        (lambda x: {}["a"], KeyError),
        (lambda x: [].missing, AttributeError),
        (lambda x: np.linalg.inv(np.zeros((2, 2))), np.linalg.LinAlgError),
        (lambda x: int("a"), ValueError),
    ],
)
def test_other_errors_are_left_alone(f, error):
    assert not [note for note in notes(f, error) if note.startswith("A traced value")]


def test_the_line_of_a_package_and_the_users(tmp_path, monkeypatch):
    home = tmp_path / "site-packages"
    home.mkdir()
    (home / "noted_package.py").write_text(
        "def check(x):\n    raise ValueError('not an array of floats')\n"
    )
    monkeypatch.syspath_prepend(home)
    package = importlib.import_module("noted_package")
    try:
        (note,) = notes(lambda x: package.check(x), ValueError)
        assert "of type f64[2]" in note and "noted_package.py:2 (check), called at" in note
        assert not notes(lambda x: package.check(1.0), ValueError)
    finally:
        del sys.modules["noted_package"]


def test_a_traced_value_that_a_package_holds_has_a_note(tmp_path, monkeypatch):
    home = tmp_path / "site-packages"
    home.mkdir()
    (home / "holding_package.py").write_text(
        "class Model:\n    def __init__(self, x):\n        self.x = x\n"
        "    def fit(self):\n        return check()\n"
        "def check():\n    raise ValueError('not an array of floats')\n"
    )
    monkeypatch.syspath_prepend(home)
    package = importlib.import_module("holding_package")
    try:
        (note,) = notes(lambda x: package.Model(x).fit(), ValueError)
        assert "of type f64[2]" in note
        assert "holding_package.py:7 (check), called at" in note
        assert "test_notes.py" in note
    finally:
        del sys.modules["holding_package"]


def test_advice_on_numpys_errors_names_the_users_line():
    class Strange:
        __array_ufunc__ = None

    found = notes(lambda x: x * Strange(), TypeError)
    assert found[0].startswith("Operators combine")
    assert "test_notes.py" in found[1]


NUMBERS = ("float64", "float32", "double", "half", "longdouble")


@pytest.mark.parametrize("name", NUMBERS)
def test_calls_of_numpys_classes_of_numbers_are_traced(name):
    calls = {
        "float64": lambda x: np.float64(x[0]),
        "float32": lambda x: np.float32(x[0]),
        "double": lambda x: np.double(x[0]),
        "half": lambda x: np.half(x[0]),
        "longdouble": lambda x: np.longdouble(x[0]),
    }
    kind = getattr(np, name)

    def f(x):
        found = calls[name](x)
        assert isinstance(found, kind)
        assert found.dtype == kind
        assert isinstance(kind(2), kind)
        return found.astype(float)

    assert np.array_equal(fg.grad(f)(X), [1.0, 0.0])
    assert fg.grad(lambda x: np.complex128(x[0]).real)(X)[0] == 1.0


def test_numba_compiles_with_the_originals_and_runs_its_source_on_traced_values():
    numba = pytest.importorskip("numba")

    @numba.njit
    def root(x):
        return math.sqrt(x) + np.ones(2).sum()

    @numba.njit
    def first(x):
        return x[0]

    def f(x):
        assert id(math.sqrt) != original  # a cell that held the function would be replaced, too
        return np.sum(x) * root(4.0) * math.sqrt(4.0)

    original = id(math.sqrt)
    assert fg.grad(f)(X).tolist() == [8.0, 8.0] and root(4.0) == 4.0
    assert id(math.sqrt) == original
    assert fg.grad(lambda x: first(x))(X).tolist() == [1.0, 0.0]
    np.testing.assert_allclose(fg.grad(lambda x: root(x[0]))(X), [0.5 / np.sqrt(X[0]), 0.0])
    assert first(X) == 0.3 and root(9.0) == 5.0


# --- the ways out, with the user's names -------------------------------------------------


def test_the_ways_out_name_the_users_call_and_argument():
    import array

    def opaque_sum(weights):
        return sum(array.array("d", weights))

    def f(theta):
        weights = theta * 2
        return opaque_sum(weights)

    with pytest.raises(fg.errors.GradientCutError) as info:
        fg.grad(f)(np.ones(2))
    text = str(info.value)
    assert 'with fg.opaque("differences")' in text
    assert "fg.external(opaque_sum, vjp=...)" in text  # an array of Python's has no derivative
    assert "fg.stop_gradient(weights)" in text


def by_struct(x):
    return sum(v**2 for v in struct.unpack("2d", struct.pack("2d", *x)))


def by_bytes(x):
    return np.sum(np.frombuffer(x.tobytes(), dtype=float) ** 2)


def by_decimal(x):
    return sum(float(decimal.Decimal(v) ** 2) for v in x)


def by_memoryview(x):
    return sum(v * v for v in memoryview(x))


def by_callback(x):
    options = (), 1, 1e-13, 600, -10, -10, 2e-16, 100.0, None
    return np.sum(_minpack._hybrd(lambda y: y - x**2, np.ones(2), *options)[0])


OPAQUE = {f.__name__: f for f in (by_callback, by_struct, by_bytes, by_decimal, by_memoryview)}


@pytest.mark.parametrize("name", OPAQUE)
def test_the_ways_out_work_when_followed_by_the_letter(name):
    with pytest.raises(Exception, match=r".") as info:
        fg.grad(OPAQUE[name])(X)
    text = str(info.value) + "".join(getattr(info.value, "__notes__", ()))
    named = text.partition("fg.external(")[2].partition(", vjp=...)")[0]
    f = fg.external(OPAQUE[named], vjp="differences")
    np.testing.assert_allclose(fg.grad(f)(X), 2 * X, rtol=1e-9)
    with fg.opaque("differences"):
        np.testing.assert_allclose(fg.grad(OPAQUE[name])(X), 2 * X, rtol=1e-9)


def test_an_error_of_a_package_has_a_note_with_the_ways_out(site_packages):
    (site_packages / "strict_package.py").write_text(
        "def norm(values):\n    if type(values) is not list:\n"
        "        raise LookupError('a list, please')\n"
    )
    import strict_package

    def f(values):
        return strict_package.norm(values)

    with pytest.raises(LookupError) as info:
        fg.grad(f)(np.ones(2))
    (note,) = info.value.__notes__
    assert "type f64[2]" in note and f"{__file__}:{f.__code__.co_firstlineno + 1} (f)" in note
    assert "fg.external(strict_package.norm, vjp=...)" in note
    assert "fg.stop_gradient(values)" in note


def test_a_function_of_a_package_that_is_transformed_itself_is_named(site_packages):
    (site_packages / "plain_package.py").write_text(
        "import array\n\ndef size(values):\n    return total(values) ** 2\n\n"
        "def total(items):\n    return sum(array.array('d', items))\n"
    )
    import plain_package

    for f in (plain_package.size, lambda values: plain_package.size(values)):
        with pytest.raises(fg.errors.GradientCutError) as info:
            fg.grad(f)(np.ones(2))
        assert re.search(r"fg\.external\((plain_package\.)?size, vjp", str(info.value))
        assert "fg.stop_gradient(values)" in str(info.value)


def test_a_call_whose_result_is_not_used_is_no_function_of_numbers():
    class Model:
        def load(self, x):
            self.total = sum(array.array("d", x))

    def f(x):
        model = Model()
        model.load(x)
        return model.total

    def g(x):
        struct.pack_into("d", bytearray(8), 0, x[0])
        return x[0]

    for function in (f, g):
        with pytest.raises(Exception, match=r".") as info:
            fg.grad(function)(X)
        text = str(info.value) + "".join(getattr(info.value, "__notes__", ()))
        assert f"fg.external({'load' if function is f else 'g'}, vjp=...)" in text


def test_a_function_that_was_replaced_is_not_to_be_intercepted(tmp_path, monkeypatch):
    home = tmp_path / "site-packages"
    home.mkdir()
    (home / "early_package.py").write_text(
        "import array\nfrom math import sqrt\n\n"
        "def size(values):\n    return sqrt(sum(array.array('d', values)))\n"
    )
    monkeypatch.syspath_prepend(home)
    import early_package

    with pytest.raises(fg.errors.GradientCutError) as info:
        fg.grad(lambda values: early_package.size(values))(np.ones(2))
    assert "fg.intercept" not in str(info.value) and "Ways out" in str(info.value)


def test_an_unknown_function_of_numpy_names_the_ways_out(tmp_path):
    def f(x):
        np.savetxt(tmp_path / "x", x)
        return np.sum(x)

    with pytest.raises(fg.errors.UnsupportedFunctionError, match=r"numpy\.savetxt .*opaque\("):
        fg.grad(f)(X)


def test_calls_that_span_lines_and_other_statements():
    from fungrad.tracing.ways_out import ways_out

    code = compile("pass", "<nowhere>", "exec")
    assert "fg.external(f, vjp=...)" in ways_out(code, 0, {})
    assert "fg.external(f, vjp=...)" in ways_out(None, 0, {})
