"""float(x), complex(x), x.item(), x.tolist() and cmath on traced numbers."""

from __future__ import annotations

import array
import cmath
import math

import numpy as np
import pytest

import fungrad as fg


def as_float(x):
    return float(x) ** 2


def as_text(x):
    return float(x) ** 2 if f"{float(x):.1f}" == "1.5" else 0.0


def of_one_element(x):
    return float(np.sum(np.ones(1) * x)) ** 2


def mapped(x):
    return sum(map(float, [x, 2 * x])) ** 2 / 9


class Unit:
    """Its number goes through `__float__`, as that of a quantity."""

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)


PROGRAMS = {
    "float": as_float,
    "format": as_text,
    "percent": lambda x: x**2 if "%.1f %s %d" % (x, "a", x) == "1.5 a 1" else 0.0,  # noqa: UP031
    "percent of one": lambda x: x**2 if "%.2e" % x == "1.50e+00" else 0.0,  # noqa: UP031
    "positional": lambda x: x**2 if np.format_float_positional(x, precision=1) == "1.5" else 0.0,
    "scientific": lambda x: x**2 if np.format_float_scientific(x) == "1.5e+00" else 0.0,
    "float of an array": of_one_element,
    "map(float)": mapped,
    "__float__": lambda x: float(Unit(x)) ** 2,
    "item": lambda x: np.sum(x).item() ** 2,
    "item of an index": lambda x: (np.ones((2, 2)) * x).item((1, 0)) ** 2,
    "item of a flat index": lambda x: (np.ones((2, 2)) * x).item(3) ** 2,
    "tolist": lambda x: (np.ones(2) * x).tolist()[1] ** 2,
    "tolist of lists": lambda x: (np.ones((2, 2)) * x).tolist()[1][0] ** 2,
    "tolist of a number": lambda x: np.sum(x).tolist() ** 2,
    "complex": lambda x: (complex(x) * complex(x)).real,
    "complex of parts": lambda x: abs(complex(0.0, x)) ** 2,
    "cmath": lambda x: cmath.exp(2 * cmath.log(x + 0j)).real,
    "cmath.polar": lambda x: cmath.polar(complex(0.0, x))[0] ** 2,
    "cmath.rect": lambda x: cmath.rect(x**2, 0.0).real,
    "math": lambda x: math.fabs(float(x)) ** 2 if math.isfinite(float(x)) else 0.0,
    "round": lambda x: float(x) ** 2 if round(float(x)) == 2 else 0.0,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_derivatives(name):
    f = PROGRAMS[name]
    value, slope = fg.value_and_grad(f)(1.5)
    assert np.isclose(value, 2.25) and np.isclose(f(1.5), 2.25)
    assert np.isclose(slope, 3.0)
    assert np.isclose(fg.jvp(f, (1.5,), (1.0,))[1], 3.0)
    assert np.isclose(fg.grad(fg.grad(f))(1.5), 2.0)
    assert np.isclose(fg.jit(fg.grad(f), branches="guard")(1.5), 3.0)


@pytest.mark.parametrize("name", ["float", "item", "tolist of lists", "complex", "cmath"])
def test_batched_and_recorded(name):
    f, xs = PROGRAMS[name], np.array([0.5, 1.5])
    assert np.allclose(fg.vmap(fg.grad(f))(xs), 2 * xs)
    assert np.isclose(fg.jit(f)(1.5), 2.25)


def test_an_item_of_a_buffer_that_is_written_later():
    def f(x):
        buffer = np.zeros(1)
        buffer[0] = x
        first = buffer.item()
        buffer[0] = 3.0
        return first * buffer.item() * float(buffer)

    with pytest.warns(DeprecationWarning) if np.ndim(0) else _nothing():
        assert fg.grad(f)(2.0) == 9.0


def _nothing():
    import contextlib

    return contextlib.nullcontext()


def test_the_class_float_stays_itself():
    def f(x):
        assert isinstance(1.0, float) and not isinstance(1, float)
        assert issubclass(np.float64, float)
        assert float("1e3") == 1000.0 and 0.0 == 0.0
        assert np.zeros(2, dtype=float).dtype == np.dtype(float) == np.float64
        assert float == float and {float: 1}[float] == 1  # noqa: E721
        assert float.__name__ == "float" and repr(float) == "<class 'float'>"
        return float(x) * 2

    assert fg.grad(f)(1.0) == 2.0
    assert "float" not in globals()


def identity(x):
    return 2.0 * x if float is float else float(x)


def test_code_that_compares_the_class_keeps_it():
    space = {"np": np}
    exec("def f(x):\n    return 2.0 * x if type(1.0) is float else 3.0 * x\n", space)
    assert fg.grad(space["f"])(1.0) == 2.0 and "float" not in space


def test_numbers_do_not_cut_a_gradient_in_compiled_code():
    import array

    with pytest.raises(fg.errors.GradientCutError):
        fg.grad(lambda x: array.array("d", [x])[0])(1.0)


def test_wrong_arguments():
    with pytest.raises(TypeError):
        fg.grad(lambda x: float(x * np.ones(2)))(1.0)
    with pytest.raises(ValueError, match="size 1"):
        fg.grad(lambda x: (x * np.ones(2)).item())(1.0)
    with pytest.raises(TypeError):
        fg.grad(lambda x: float(x + 1j))(1.0)


def test_a_remainder_is_no_text():
    assert fg.grad(lambda x: (7.0 % x) * (x % np.float64(4.0)))(1.5) == 1.0 - 4 * 1.5
    with pytest.raises(fg.errors.GradientCutError):
        fg.grad(lambda x: array.array("d", [x])[0] % 2.0)(1.5)
