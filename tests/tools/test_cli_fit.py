"""The command line's fit: against NumPy's least squares and fg.curve_fit, its plot, bad input."""

from __future__ import annotations

import importlib
from xml.etree import ElementTree

import numpy as np
import pytest

import fungrad as fg

FUNCTIONS = """
import numpy as np

def decay(t, amplitude, rate=0.5):
    return amplitude * np.exp(-rate * t)

def plane(x, a, b, c, *, scale=1.0):
    return scale * (a * x[0] + b * x[1] + c)

def polynomial(x, *coefficients):
    return sum(c * x**i for i, c in enumerate(coefficients))

def one_too_many(x, a, b):
    return a * b * x

def total(x, a):
    return np.sum(a * x)

def logarithm(x, a):
    return np.log(a) * x

def raises(x, a):
    raise KeyError("lost")

def only(x):
    return x
"""

RNG = np.random.default_rng(5)
T = np.linspace(0.0, 4.0, 25)
Y = 2.5 * np.exp(-0.7 * T) + 0.05 * RNG.normal(size=25)
ERROR = np.linspace(0.04, 0.06, 25)


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    path = tmp_path_factory.mktemp("user") / "model.py"
    path.write_text(FUNCTIONS)
    return str(path)


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """data.csv with the columns t, error, y in the current folder."""
    rows = [",".join(map(repr, row)) for row in np.column_stack([T, ERROR, Y]).tolist()]
    (tmp_path / "data.csv").write_text("\n".join(["t,error,y", *rows]))
    monkeypatch.chdir(tmp_path)


def decay(t, amplitude, rate):
    return amplitude * np.exp(-rate * t)


def test_estimates_are_those_of_curve_fit(run, run_json):
    expected = fg.curve_fit(decay, T, Y, [1.0, 0.5])
    found = run_json("fit", "FUNC:decay", "--data", "data.csv:t,y")
    assert list(found["parameters"]) == ["amplitude", "rate"]
    low, high = expected.confidence_interval()
    for i, row in enumerate(found["parameters"].values()):
        numbers = [row[key] for key in ("estimate", "standard_error", "low", "high")]
        wanted = [expected.parameters[i], expected.standard_errors[i], low[i], high[i]]
        assert np.allclose(numbers, wanted, rtol=1e-9)
    assert np.allclose(found["covariance"], expected.covariance, rtol=1e-8)
    assert found["degrees_of_freedom"] == 23 and found["data"] == "data.csv:t,y"
    assert found["sum_of_squares"] == pytest.approx(expected.sum_of_squares)
    code, out, err = run("fit", "FUNC:decay", "--data", "@data.csv:t,y", "--p0", "[2, 1]")
    assert (code, err) == (0, "")
    assert "fit to 25 points" in out and f"{expected.parameters[0]:.6g}"[:6] in out


def test_several_columns_and_linear_least_squares(run_json, tmp_path):
    x = RNG.normal(size=(30, 2))
    y = x @ [1.5, -2.0] + 0.3 + 0.1 * RNG.normal(size=30)
    np.save("table.npy", np.column_stack([x, y]))
    found = run_json("fit", "FUNC:plane", "--data", "table.npy")["parameters"]
    design = np.column_stack([x, np.ones(30)])
    expected, squares, *_ = np.linalg.lstsq(design, y, rcond=None)
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * squares[0] / 27)
    assert list(found) == ["a", "b", "c"]
    assert np.allclose([row["estimate"] for row in found.values()], expected, rtol=1e-9)
    assert np.allclose([row["standard_error"] for row in found.values()], errors, rtol=1e-8)


def test_starts_of_any_number_of_parameters(run_json):
    arguments = ("fit", "FUNC:polynomial", "--data", "data.csv:t,y", "--p0", "[1, 1, 1]")
    found = run_json(*arguments)["parameters"]
    assert list(found) == ["p0", "p1", "p2"]
    expected = np.polynomial.polynomial.polyfit(T, Y, 2)
    assert np.allclose([row["estimate"] for row in found.values()], expected, rtol=1e-9)


def test_sigma_is_in_the_units_of_y(run_json):
    arguments = ("fit", "FUNC:decay", "--data", "data.csv:t,y", "--sigma")
    found = run_json(*arguments, "@data.csv:error")
    expected = fg.curve_fit(decay, T, Y, [1.0, 0.5], ERROR, absolute_sigma=True)
    assert np.allclose(found["covariance"], expected.covariance, rtol=1e-8)
    single, double = (run_json(*arguments, size)["covariance"] for size in ("0.05", "0.1"))
    assert np.allclose(np.multiply(4.0, single), double, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_plot(run, ending):
    path = f"fit.{ending}"
    code, out, err = run(
        "fit", "FUNC:decay", "--data", "data.csv:t,y", "--sigma", "0.05", "--plot", path
    )
    assert (code, err) == (0, "") and f"drawn in {path}" in out
    if ending == "svg":
        text = open(path, encoding="utf-8").read()
        ElementTree.fromstring(text)
        assert all(f"<!-- {label} -->" in text for label in ("data", "fit", "95 % confidence"))
    else:
        image = importlib.import_module("matplotlib.image").imread(path)
        assert image.shape[:2] == (480, 640) and np.ptp(image) > 0.5


def test_parameters_that_the_data_do_not_determine(run, run_json):
    arguments = ("fit", "FUNC:one_too_many", "--data", "data.csv:t,y", "--plot", "fit.svg")
    code, out, _ = run(*arguments)
    assert code == 0 and "do not determine all parameters" in out
    assert run_json(*arguments)["parameters"]["a"]["standard_error"] == "Infinity"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["FUNC:decay"], "--data"),
        (["FUNC:dekay", "--data", "data.csv:t,y"], "Did you mean 'decay'?"),
        (["gone.py:f", "--data", "data.csv"], "no file 'gone.py'"),
        (["FUNC:decay", "--data", "gone.csv"], "--data: there is no file 'gone.csv'"),
        (["FUNC:decay", "--data", "data.txt"], "--data: cannot tell the format"),
        (["FUNC:decay", "--data", "data.csv:t,z"], "no column 'z'; it has t, error, y"),
        (["FUNC:decay", "--data", "data.csv:t"], "--data data.csv:t has no columns for x and y"),
        (["FUNC:decay", "--data", "holes.csv"], "row 2 of the numbers holds nan"),
        (["FUNC:decay", "--data", "words.csv"], "line 2, column 'y' holds 'red'"),
        (["FUNC:only", "--data", "data.csv:t,y"], "only has no parameters to fit"),
        (["FUNC:polynomial", "--data", "data.csv:t,y"], "or give --p0"),
        (
            ["FUNC:decay", "--data", "data.csv:t,y", "--p0", "[1, 2, 3]"],
            "a number for each of amplitude, rate, as in --p0 '[1.0, 0.5]'",
        ),
        (["FUNC:decay", "--data", "data.csv:t,y", "--p0", "[1, inf]"], "--p0"),
        (["FUNC:decay", "--data", "data.csv:t,y", "--p0", "two"], "--p0: 'two' is not a Python"),
        (["FUNC:decay", "--data", "data.csv:t,y", "--p0", "'a'"], "--p0"),
        (["FUNC:decay", "--data", "data.csv:t,y", "--sigma", "[1, 2]"], "sigma has shape (2,)"),
        (["FUNC:total", "--data", "data.csv:t,y"], "returns an array of shape ()"),
        (["FUNC:logarithm", "--data", "data.csv:t,y", "--p0", "[-1]"], "not finite at the start"),
        (["FUNC:raises", "--data", "data.csv:t,y"], "KeyError: 'lost'"),
        (["FUNC:plane", "--data", "data.csv", "--plot", "fit.svg"], "single column x"),
        (["FUNC:decay", "--data", "data.csv:t,y", "--plot", "fit.doc"], "fit.doc cannot be"),
        (["FUNC:decay", "--data", "data.csv:t,y", "--plot", "no/fit.svg"], "cannot be written"),
    ],
)
def test_bad_input_gives_one_message_and_exit_code_2(run, tmp_path, arguments, said):
    (tmp_path / "holes.csv").write_text("t,y\n1,2\n3,\n4,5\n")
    (tmp_path / "words.csv").write_text("t,y\n1,red\n")
    code, out, err = run("fit", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.startswith("fungrad") and "Traceback" not in err and len(err.splitlines()) <= 3


@pytest.mark.parametrize(
    ("missing", "said"),
    [("scipy", "pip install 'fungrad[scipy]'"), ("matplotlib", "pip install 'fungrad[viz]'")],
)
def test_a_missing_library_is_named_with_its_extra(run, monkeypatch, missing, said):
    real = importlib.import_module

    def without(name, *rest):
        if name.split(".")[0] == missing:
            raise ImportError(f"No module named {missing!r}")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    monkeypatch.delattr(fg, "curve_fit", raising=False)
    for name in [name for name in importlib.sys.modules if name.startswith("fungrad.fitting")]:
        monkeypatch.delitem(importlib.sys.modules, name)
    code, out, err = run("fit", "FUNC:decay", "--data", "data.csv:t,y", "--plot", "fit.svg")
    assert (code, out) == (2, "") and said in err
