"""The command line: its output, its exit codes, and one message for each bad input."""

from __future__ import annotations

import array
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fungrad as fg
from fungrad.cli.main import main
from fungrad.cli.parse_values import InputError, parse_argument
from fungrad.cli.report import wrapped
from fungrad.data import old_faithful

ROOT = Path(__file__).parents[2]
EXAMPLE = f"{ROOT}/examples/old_faithful.py"
DATA = f"{ROOT}/src/fungrad/data/old_faithful.csv"
MIXTURE = ["--arg", "means=[54.6,80.1]", "--arg", "scales=[5.9,5.9]", "--arg", "share=0.36"]
MIXTURE += ["--arg", f"waiting=@{DATA}:waiting"]

FUNCTIONS = """
import numpy as np

def product(x, y, n=2):
    return x * np.sin(y) ** n

def quadratic(w, x):
    return np.sum((x @ w) ** 2)

def cubic(w):
    return w[0] ** 3 * w[1] + w[1] ** 2

def tree(parameters, scale=2.0):
    return scale * np.sum(parameters["w"] ** 2) + parameters["b"][0]

def branches(x):
    total = 0.0
    while total < 3.0:
        total = total + x * x
    return total

def relu(x):
    return np.sum(np.maximum(x, 0.0))

def changes_its_data(x, data):
    data[0] = 100.0
    return x * np.sum(data)

def keywords(x, **rest):
    return x * rest["a"]

def positional(x, /, y):
    return x * y * y

def wrong(x):
    import fungrad
    return x**2 + 3.0 * fungrad.stop_gradient(x)

def vector(x):
    return np.sin(x)

def nothing(x):
    x + 1.0

def pair(x):
    return x, x

def counts(x):
    return int(3)

def complex_value(x):
    return x * 1j

def logarithm(x):
    return np.sum(np.log(x))

def root(x):
    return np.sqrt(x)

def raises(x):
    raise KeyError("lost")

def leaves(x):
    raise SystemExit(3)

def prints(x):
    print("hello")
    return x * x

def abstract(x):
    return x if x > 0 else -x

def picks(x, labels):
    return np.sum(x[labels])

def kinked(x, t):
    return np.sum(np.where(x > t, x, t))

def fills(x):
    result = np.zeros(2)
    result[0] = x
    return result[0]

def wraps(x):
    return float(x) ** 2

async def later(x):
    return x

def no_arguments():
    return 1.0

NUMBER = 3
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    path = tmp_path_factory.mktemp("user") / "functions.py"
    path.write_text(FUNCTIONS)
    return str(path)


# -- grad -----------------------------------------------------------------------------------------


def test_grad_prints_value_and_gradient(run):
    code, out, err = run("grad", "FUNC:product", "--arg", "x=1.5", "--arg", "y=2.0", "--wrt", "y")
    assert (code, err) == (0, "")
    assert f"value  {1.5 * np.sin(2.0) ** 2:.8g}" in out
    assert f"{3.0 * np.sin(2.0) * np.cos(2.0):.8g}" in out


def test_grad_at_real_data_agrees_with_the_formula(run_json):
    found = run_json("grad", f"{EXAMPLE}:mixture", *MIXTURE, "--wrt", "means", "--wrt", "share")
    x = old_faithful().waiting[:, None]
    density = np.exp(-0.5 * ((x - [54.6, 80.1]) / 5.9) ** 2) * [0.36, 0.64]
    r = density / density.sum(axis=1, keepdims=True)
    by_means = -np.sum(r * (x - [54.6, 80.1]) / 5.9**2, axis=0)
    by_share = -(r[:, 0].sum() / 0.36 - r[:, 1].sum() / 0.64)
    np.testing.assert_allclose(found["derivative"]["means"], by_means, rtol=1e-10)
    np.testing.assert_allclose(found["derivative"]["share"], by_share, rtol=1e-10)
    constant = np.sum(np.log(density.sum(axis=1) / np.sqrt(2 * np.pi) / 5.9))
    np.testing.assert_allclose(found["value"], -constant, rtol=1e-12)


def test_the_first_argument_is_the_default(run_json):
    found = run_json("grad", "FUNC:product", "--arg", "x=1.5", "--arg", "y=2.0")
    assert found["wrt"] == ["x"]
    np.testing.assert_allclose(found["derivative"]["x"], np.sin(2.0) ** 2)


def test_defaults_may_be_left_out_and_given(run_json):
    command = ("grad", "FUNC:product", "--arg", "x=1.5", "--arg", "y=2.0")
    assert run_json(*command, "--arg", "n=3")["derivative"]["x"] == pytest.approx(np.sin(2) ** 3)
    assert run_json(*command)["arguments"] == {"x": "float", "y": "float", "n": "int"}


def test_order_2_is_the_hessian_block_by_block(run_json):
    command = ("grad", "FUNC:product", "--arg", "x=1.5", "--arg", "y=2.0", "--order", "2")
    found = run_json(*command, "--wrt", "x", "--wrt", "y", "--check")
    blocks = found["derivative"]
    assert blocks["x,x"] == pytest.approx(0.0, abs=1e-15)
    assert blocks["x,y"] == pytest.approx(np.sin(4.0))
    assert blocks["y,y"] == pytest.approx(2 * 1.5 * np.cos(4.0))
    assert len(found["check"]) == 3 and all(item["passed"] for item in found["check"])


def test_the_hessian_of_a_matrix_argument_has_its_shape(run_json):
    x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    found = run_json(
        "grad", "FUNC:quadratic", "--arg", "w=[[1, 2], [3, 4]]", "--arg", f"x={x.tolist()}",
        "--order", "2",
    )  # fmt: skip
    expected = 2 * np.einsum("ab,cd->acbd", x.T @ x, np.eye(2))
    np.testing.assert_allclose(found["derivative"]["w,w"], expected, atol=1e-12)


@pytest.mark.parametrize("order", [3, 4])
def test_higher_orders_are_symmetric_tensors(run_json, order):
    found = run_json("grad", "FUNC:cubic", "--arg", "w=[2, 3]", "--order", order)
    tensor = np.array(found["derivative"][",".join("w" * order)])
    expected = np.zeros((2,) * order)  # of w0^3 w1 + w1^2
    if order == 3:
        expected[0, 0, 0] = 6 * 3
        for place in ((0, 0, 1), (0, 1, 0), (1, 0, 0)):
            expected[place] = 6 * 2
    else:
        for place in ((0, 0, 0, 1), (0, 0, 1, 0), (0, 1, 0, 0), (1, 0, 0, 0)):
            expected[place] = 6
    np.testing.assert_allclose(tensor, expected, atol=1e-12)


def test_too_many_entries_are_refused(run):
    command = ("grad", "FUNC:vector", "--arg", "x=[1, 2]")
    code, _, err = run(
        "grad", f"{EXAMPLE}:regression", "--arg", "line=[30, 10]",
        "--arg", f"eruptions=@{DATA}:eruptions", "--arg", f"waiting=@{DATA}:waiting",
        "--wrt", "waiting", "--order", "3",
    )  # fmt: skip
    assert code == 2 and "272**3 = 20,123,648 entries" in err, command


def test_trees_keep_their_structure(run_json):
    found = run_json("grad", "FUNC:tree", "--arg", "parameters={'w': [1, 2], 'b': (3.0,)}")
    assert found["derivative"] == {"parameters": {"w": [4.0, 8.0], "b": [1.0]}}
    found = run_json(
        "grad", "FUNC:tree", "--arg", "parameters={'w': [1, 2], 'b': (3.0,)}", "--order", "2"
    )
    assert set(found["derivative"]) == {
        "parameters['b'][0],parameters['b'][0]",
        "parameters['b'][0],parameters['w']",
        "parameters['w'],parameters['w']",
    }
    assert found["derivative"]["parameters['w'],parameters['w']"] == [[4.0, 0.0], [0.0, 4.0]]


def test_python_control_flow_works(run_json):
    found = run_json("grad", "FUNC:branches", "--arg", "x=1.1", "--check", "--order", "2")
    assert found["derivative"]["x,x"] == pytest.approx(6.0)


def test_float32_stays_float32(run):
    code, out, _ = run("grad", "FUNC:relu", "--arg", "x:float32=[1, -2]")
    assert code == 0 and "float32[2]" in out and "[1, 0]" in out


def test_integer_arrays_by_dtype(run_json):
    found = run_json("grad", "FUNC:picks", "--arg", "x=[1, 2, 3]", "--arg", "labels:int=[2, 2, 0]")
    assert found["derivative"]["x"] == [1.0, 0.0, 2.0]


def test_large_arrays_are_summarised_and_whole_in_json(run, run_json, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(1.0, 1001.0))
    command = ("grad", "FUNC:logarithm", "--arg", f"x=@{tmp_path}/x.npy")
    code, out, _ = run(*command)
    assert code == 0 and "float64[1000]" in out and "min 0.001, max 1, norm " in out
    assert len(out) < 1000
    np.testing.assert_allclose(
        run_json(*command)["derivative"]["x"], 1 / np.arange(1.0, 1001.0), rtol=1e-15
    )


def test_the_users_data_is_not_changed_between_evaluations(run_json):
    found = run_json(
        "grad", "FUNC:changes_its_data", "--arg", "x=1.0", "--arg", "data=[1, 2, 3]", "--check"
    )
    assert found["derivative"]["x"] == 105.0


def test_keyword_and_positional_only_arguments(run_json):
    assert run_json("grad", "FUNC:keywords", "--arg", "x=2.0", "--arg", "a=5")["derivative"] == {
        "x": 5.0
    }
    found = run_json("grad", "FUNC:positional", "--arg", "x=2.0", "--arg", "y=3.0", "--wrt", "y")
    assert found["derivative"] == {"y": 12.0}


def test_what_the_function_prints_does_not_break_json(run, functions):
    code, out, err = run("grad", "FUNC:prints", "--arg", "x=3.0", "--json")
    assert code == 0 and json.loads(out)["derivative"] == {"x": 6.0} and "hello" in err


def test_nan_and_infinities_where_allowed_are_strings_in_json(run_json):
    found = run_json("grad", "FUNC:root", "--arg", "x=0.0", "--allow-nan")
    assert found["derivative"]["x"] == "Infinity"
    found = run_json("grad", "FUNC:root", "--arg", "x=nan", "--allow-nan")
    assert found["value"] == "NaN"
    found = run_json("grad", "FUNC:relu", "--arg", "x=[1, inf, -inf, nan]", "--allow-nan")
    assert found["derivative"]["x"][:3] == [1.0, 1.0, 0.0]


def test_warnings_are_shown_with_the_users_line(run, functions):
    code, out, err = run("grad", "FUNC:root", "--arg", "x=-1.0", "--allow-nan")
    line = FUNCTIONS.splitlines().index("    return np.sqrt(x)") + 1
    assert (code, err) == (0, "")
    assert f"warning: invalid value encountered in sqrt ({functions}:{line})" in out


# -- data files -----------------------------------------------------------------------------------


def gradient_of_sum(run_json, functions, argument):
    return run_json("grad", "FUNC:relu", "--arg", argument)["derivative"]["x"]


def test_npz_by_key_and_alone(run_json, functions, tmp_path):
    np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.ones(3))
    np.savez(tmp_path / "one.npz", a=np.ones(4))
    assert len(gradient_of_sum(run_json, functions, f"x=@{tmp_path}/two.npz:b")) == 3
    assert len(gradient_of_sum(run_json, functions, f"x=@{tmp_path}/one.npz")) == 4


@pytest.mark.parametrize(
    ("text", "selection", "shape"),
    [
        ("a,b\n1,2\n3,4\n5,6\n", "", (3, 2)),
        ("a,b\n1,2\n3,4\n5,6\n", ":b", (3,)),
        ("a,b,c\n1,2,x\n3,4,y\n", ":b,a", (2, 2)),
        ("1,2\n3,4\n", "", (2, 2)),
        ("1,2\n3,4\n", ":1", (2,)),
        ("a;b\n1;2\n", ":a", (1,)),
        ("a\tb\n1\t2\n", "", (1, 2)),
        ("\ufeffa\n1\n\n2\n", ":a", (2,)),
        ('"the, a",b\n1,2\n', ":b", (1,)),
    ],
)
def test_csv(run_json, functions, tmp_path, text, selection, shape):
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    found = gradient_of_sum(run_json, functions, f"x=@{tmp_path}/x.csv{selection}")
    assert np.shape(found) == shape


def test_csv_columns_come_in_the_order_asked_for(run_json, tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n2,3\n")
    command = ("grad", "FUNC:cubic", "--arg")
    (tmp_path / "w.csv").write_text("w\n2\n3\n")
    assert run_json(*command, f"w=@{tmp_path}/w.csv")["value"] == 8 * 3 + 9
    found = run_json(
        "grad", "FUNC:quadratic", "--arg", "w=[1, 0]", "--arg", f"x=@{tmp_path}/x.csv:b,a"
    )
    assert found["value"] == 9.0


# -- ir -------------------------------------------------------------------------------------------


def test_ir_of_the_function(run):
    code, out, _ = run("ir", "FUNC:product", "--arg", "x=1.5", "--arg", "y=2.0")
    assert code == 0
    assert "inputs a = x, b = y" in out and "{ lambda a:" in out and "= sin b" in out


def test_ir_of_the_gradient_with_source_lines(run, functions):
    arguments = ("--arg", "x=1.5", "--arg", "y=2.0", "--grad", "--wrt", "y")
    code, out, _ = run("ir", "FUNC:product", *arguments, "--lines")
    line = FUNCTIONS.splitlines().index("    return x * np.sin(y) ** n") + 1
    assert code == 0
    assert "gradient with respect to y" in out and "= cos " in out and f"{functions}:{line}" in out


def test_ir_as_json(run_json, functions):
    found = run_json("ir", "FUNC:product", "--arg", "x=1.5", "--arg", "y=2.0")
    assert [item["argument"] for item in found["inputs"]] == ["x", "y"]
    primitives = [equation["primitive"] for equation in found["equations"]]
    assert "sin" in primitives
    assert found["equations"][0]["source"].startswith(functions)
    defined = {item["name"] for item in found["inputs"] + found["constants"]}
    for equation in found["equations"]:
        variables = {name for name in equation["inputs"] if name.isalpha()}
        assert variables <= defined
        defined |= {item["name"] for item in equation["outputs"]}
    assert set(found["outputs"]) <= defined
    for equation in found["equations"]:
        assert f"{equation['outputs'][0]['name']}:" in found["text"]


def test_ir_needs_no_concrete_value_unless_the_function_does(run):
    code, _, err = run("ir", "FUNC:abstract", "--arg", "x=1.5")
    assert code == 2 and "np.where" in err and err.startswith("fungrad: abstract failed while")


# -- check ----------------------------------------------------------------------------------------


def test_check_passes(run, run_json):
    command = ("check", f"{EXAMPLE}:mixture", *MIXTURE)
    command += ("--wrt", "means", "--wrt", "scales", "--wrt", "share", "--samples", "5")
    code, out, _ = run(*command)
    assert code == 0 and "FAILED" not in out and "against central differences" in out
    found = run_json(*command)
    assert found["passed"] is True
    assert found["check"][0]["comparisons"] == 6 * 5
    assert found["check"][0]["worst_relative_error"] < 1e-7


def test_check_is_reproducible_and_moves_with_the_seed(run_json):
    command = ("check", "FUNC:product", "--arg", "x=1.5", "--arg", "y=2.0", "--wrt", "y")
    one, same, other = (run_json(*command, "--seed", seed)["check"] for seed in (1, 1, 2))
    assert one == same and one != other


def test_check_fails_on_a_gradient_that_is_not_the_derivative(run):
    code, out, err = run("check", "FUNC:wrong", "--arg", "x=1.5", "--samples", "0")
    assert (code, err) == (1, "")
    assert "FAILED" in out and ": gradient 3, central differences 6" in out
    code, out, _ = run("grad", "FUNC:wrong", "--arg", "x=1.5", "--check")
    assert code == 1 and "FAILED" in out


def test_check_is_not_misled_by_kinks(run_json):
    found = run_json("check", "FUNC:relu", "--arg", "x=[1e-9, 1, -1, 2, -3]", "--samples", "30")
    assert found["passed"] is True
    at_a_kink = run_json("check", "FUNC:relu", "--arg", "x=[0, 0]", "--samples", "0", code=0)
    assert at_a_kink["check"][0]["comparisons"] == 2
    one_sided = run_json("check", "FUNC:kinked", "--arg", "x=[1, 2, 3]", "--arg", "t=2.0")
    assert one_sided["passed"] is True and one_sided["check"][0]["not_judged"] >= 1


def test_check_of_the_hessian(run_json):
    found = run_json("check", "FUNC:cubic", "--arg", "w=[2, 3]", "--order", "2")
    assert found["passed"] is True and "order 2" in found["check"][0]["what"]


# -- bad input ------------------------------------------------------------------------------------

X, Y = ("--arg", "x=1.5"), ("--arg", "y=2.0")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["grad", "gone.py:f"], "no file 'gone.py'"),
        (["grad", "FUNC"], "names no function"),
        (["grad", "notes.txt:f"], "not a Python file"),
        (["grad", "FUNC:produkt", *X], "Did you mean 'product'?"),
        (["grad", "FUNC:NUMBER"], "has no function 'NUMBER'"),
        (["grad", "FUNC:no_arguments"], "takes no arguments"),
        (["gard", "FUNC:product"], "Did you mean grad?"),
        (["grad", "FUNC:product", "--chek"], "no argument '--chek'. Did you mean --check?"),
        (["grad", "FUNC:product", "--arg", "x"], "not NAME=VALUE"),
        (["grad", "FUNC:product", "--arg", "=3"], "not NAME=VALUE"),
        (["grad", "FUNC:product", *X, *X], "given twice"),
        (["grad", "FUNC:product", *X], "needs y; add: --arg y=..."),
        (["grad", "FUNC:product", *X, *Y, "--arg", "z=1"], "no argument 'z'"),
        (["grad", "FUNC:product", *X, *Y, "--wrt", "z"], "--wrt z"),
        (
            ["grad", "FUNC:product", *X, *Y, "--wrt", "n"],
            "cannot differentiate with respect to n: it is",
        ),
        (["grad", "FUNC:product", "--arg", "x=3", *Y], "write it as a float"),
        (["grad", "FUNC:product", "--arg", "x=[True]", *Y], "it is bool[1]"),
        (["grad", "FUNC:product", "--arg", "x=1j", *Y], "it is complex"),
        (["grad", "FUNC:product", "--arg", "x=[]", *Y], "holds no number"),
        (["grad", "FUNC:product", "--arg", "x=hello", *Y], "not a Python literal"),
        (["grad", "FUNC:product", "--arg", "x=__import__('os')", *Y], "not a Python literal"),
        (["grad", "FUNC:product", "--arg", "x=[1, [2]]", *Y], "rows of the list differ"),
        (["grad", "FUNC:product", "--arg", "x=['a']", *Y], "not a number"),
        (["grad", "FUNC:product", "--arg", "x:flot=1", *Y], "no dtype 'flot'"),
        (["grad", "FUNC:product", "--arg", "x:int=1.5", *Y], "1.5 is not a whole number"),
        (["grad", "FUNC:product", "--arg", "x:int=[1, inf]", *Y], "inf is not a whole number"),
        (["grad", "FUNC:product", "--arg", "x:int8=300", *Y], "that int8 can hold"),
        (["grad", "FUNC:product", "--arg", "x:float16=1e9", *Y], "argument x is inf"),
        (["grad", "FUNC:product", "--arg", "x:O=1", *Y], "not a numeric dtype"),
        (["grad", "FUNC:product", "--arg", "x:int='a'", *Y], "a dtype goes with numbers"),
        (["grad", "FUNC:product", "--arg", "x=nan", *Y], "argument x is nan"),
        (["grad", "FUNC:product", "--arg", "x=[1, inf]", *Y], "1 NaN or infinite value of 2"),
        (["grad", "FUNC:product", "--arg", "x=@gone.npy", *Y], "no file 'gone.npy'"),
        (["grad", "FUNC:product", "--arg", "x=@data.txt", *Y], "cannot tell the format"),
        (["grad", "FUNC:product", "--arg", "x=data.csv", *Y], "write --arg x=@data.csv"),
        (
            ["grad", "FUNC:quadratic", "--arg", "w=[1, 2]", "--arg", "x=[[1, 2, 3]]"],
            "x float64[1,3]",
        ),
        (["grad", "FUNC:vector", "--arg", "x=[1, 2]"], "shape (2,)"),
        (["grad", "FUNC:nothing", *X], "returned None"),
        (["grad", "FUNC:pair", *X], "returned a tuple"),
        (["grad", "FUNC:counts", *X], "returned int64"),
        (["grad", "FUNC:complex_value", *X], "returned complex128"),
        (["grad", "FUNC:logarithm", "--arg", "x=-1.0"], "invalid value encountered in log"),
        (["grad", "FUNC:root", "--arg", "x=0.0"], "the gradient with respect to x is inf"),
        (["grad", "FUNC:raises", *X], "KeyError: 'lost'"),
        (["grad", "FUNC:wraps", *X], "Python asked for float() of a traced value"),
        (["grad", "FUNC:later", *X], "write it as a plain `def`"),
        (["grad", "FUNC:leaves", *X], "SystemExit: 3"),
        (["check", "FUNC:root", "--arg", "x=0.0"], "NaN or infinite at the given point"),
        (["grad", "FUNC:product", *X, *Y, "--order", "0"], "whole number of 1 or more"),
        (["check", "FUNC:product", *X, *Y, "--tolerance", "0"], "1e-15 or more"),
        (["grad"], "FILE.py:func"),
        (["frobnicate"], "invalid choice"),
        ([], "COMMAND"),
    ],
)
def test_bad_input_gives_one_message_and_exit_code_2(run, arguments, said):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.startswith("fungrad") and err.count("fungrad:") <= 1 and "Traceback" not in err
    assert len(err.splitlines()) <= 3


def test_a_function_that_fills_an_array_is_differentiated(run_json):
    found = run_json("grad", "FUNC:fills", "--arg", "x=1.5")
    assert found["value"] == 1.5 and found["derivative"] == {"x": 1.0}


@pytest.mark.parametrize("dtype", ["int", "uint64", "float"])
def test_integers_of_any_size_are_values_or_input_errors(dtype):
    if dtype == "float":
        assert parse_argument("x:float=20000000000000000000") == ("x", 2e19)
    else:
        with pytest.raises(InputError, match=r"does not fit into .*int64"):
            parse_argument(f"x:{dtype}=20000000000000000000")
    with pytest.raises(InputError, match="does not fit into"):
        parse_argument(f"x:{dtype}=1{400 * '0'}")


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
@example("{0}")
def test_any_text_is_a_value_or_an_input_error(text):
    for argument in (text, f"x={text}", f"x=[{text}]", f"x:int={text}", f"x=@{text}.csv"):
        with contextlib.suppress(InputError):
            name, _ = parse_argument(argument)
            assert name.isidentifier()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "bad.py:1 is not valid Python"),
        ("import numpy\nimport nothing_like_it\ndef f(x): return x\n", "at bad.py:2"),
        ("raise SystemExit\n", "importing"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("f = max\n", "has no known signature"),
    ],
)
def test_files_that_do_not_load(run, tmp_path, text, said):
    path = tmp_path / "bad.py"
    path.write_text(text)
    code, out, err = run("grad", f"{path}:f", *X)
    assert (code, out) == (2, "") and said in err and "Traceback" not in err


def npy(shape):
    """A .npy file whose header claims a shape, and nothing behind it."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


def npz(member):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", member)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "selection", "said"),
    [
        ("x.csv", b"", "", "is empty"),
        ("x.csv", b"a,b\n", "", "no rows"),
        ("x.csv", b"a,b\n1,2\n", ":c", "no column 'c'; it has a, b"),
        ("x.csv", b"a,b\n1,2\n3\n", "", "line 3 has 1 cells"),
        ("x.csv", b"a,b\n1,red\n", "", "column 'b' holds 'red'"),
        ("x.csv", b"a,b\n1,\n", ":b", "argument x holds 1 NaN"),
        ("x.csv", b'a\n"' + b"1" * 200_000 + b'"\n', "", "is not a table"),
        ("x.csv", b"a\nNA\n1\n", "", "argument x holds 1 NaN"),
        ("x.csv", b"\xff\xfe\x00a", "", "UTF-8"),
        ("x.npy", b"not an array", "", "not a .npy file"),
        ("x.npy", b"", "", "not a .npy file"),
        ("x.npz", b"not an archive", "", "not a .npz file"),
        ("x.npy", npy("(99999999999,)"), "", "Unable to allocate"),
        ("x.npy", npy("(1,"), "", "not a .npy file"),
        ("x.npz", npz(npy("(99999999999,)")), "", "Unable to allocate"),
        ("x.npz", npz(npy("(1,")), "", "not a .npz file"),
    ],
)
def test_bad_data_files(run, tmp_path, name, content, selection, said):
    (tmp_path / name).write_bytes(content)
    code, out, err = run("grad", "FUNC:relu", "--arg", f"x=@{tmp_path}/{name}{selection}")
    assert (code, out) == (2, "") and said in err and "Traceback" not in err


def test_bad_archives(run, tmp_path):
    np.savez(tmp_path / "two.npz", apples=np.ones(2), pears=np.ones(2))
    np.savez(tmp_path / "objects.npz", a=np.array([{}], dtype=object))
    np.savez(tmp_path / "texts.npz", a=np.array(["x"]))
    np.save(tmp_path / "alone.npz.npy", np.ones(2))
    (tmp_path / "alone.npz.npy").rename(tmp_path / "alone.npz")
    for selection, said in [
        ("two.npz", "holds 2 arrays (apples, pears)"),
        ("two.npz:apple", "Did you mean 'apples'?"),
        ("objects.npz", "not a .npz file of numbers"),
        ("texts.npz", "not numbers"),
        ("alone.npz", "not a .npz file"),
    ]:
        code, out, err = run("grad", "FUNC:relu", "--arg", f"x=@{tmp_path}/{selection}")
        assert (code, out) == (2, "") and said in err


# -- why ------------------------------------------------------------------------------------------


def test_why_names_the_cause_and_the_line(run, run_json, functions):
    code, out, err = run("why", "FUNC:wrong", "--arg", "x=2.0")
    line = FUNCTIONS.splitlines().index("    return x**2 + 3.0 * fungrad.stop_gradient(x)") + 1
    assert (code, err) == (0, "")
    assert "x: fine" in out and f"{functions}:{line}" in out and "saves 1 equation" in out
    found = run_json("why", "FUNC:counts", "--arg", "x=2.0")
    (finding,) = found["findings"]
    assert (finding["path"], finding["verdict"], finding["cause"]) == ("x", "zero", "unused")
    assert found["output"]["verdict"] == "none"


def test_why_takes_values_that_are_nan_or_infinite_at_the_end(run_json, functions):
    found = run_json("why", "FUNC:root", "--arg", "x=0.0")
    line = FUNCTIONS.splitlines().index("    return np.sqrt(x)") + 1
    assert found["findings"][0]["verdict"] == "inf"
    assert found["findings"][0]["source"] == {"file": functions, "line": line, "function": "root"}


def test_why_by_default_of_all_arguments(run_json):
    command = ("why", "FUNC:picks", "--arg", "x=[1, 2, 3]", "--arg", "labels:int=[2, 2, 0]")
    verdicts = {f["path"]: f["verdict"] for f in run_json(*command)["findings"]}
    assert verdicts == {"x": "fine", "labels": "none"}
    assert len(run_json(*command, "--wrt", "x")["findings"]) == 1


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["FUNC:root", "--arg", "x=nan"], "pass --allow-nan"),
        (["FUNC:raises", "--arg", "x=1.0"], "KeyError"),
        (["FUNC:missing"], "no function 'missing'"),
        (["FUNC:root", "--arg", "x=1.0", "--wrt", "z"], "no argument 'z'"),
        (["FUNC:no_arguments"], "no arguments"),
        (["FUNC:wraps", "--arg", "x=1.0"], "fg.stop_gradient"),
    ],
)
def test_why_refuses_bad_input(run, command, said):
    code, out, err = run("why", *command)
    assert (code, out) == (2, "") and said in err and "Traceback" not in err


# -- the program ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [[], ["grad"], ["ir"], ["check"], ["why"], ["demo"]])
def test_help_has_examples(run, command):
    code, out, err = run(*command, "--help")
    assert (code, err) == (0, "")
    assert "examples:" in out and "exit codes:" in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.slow
def test_the_module_runs_as_a_program(functions):
    command = [sys.executable, "-m", "fungrad", "grad", f"{functions}:product", *X, *Y]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "") and "gradient" in done.stdout


def test_version(run):
    code, out, _ = run("--version")
    assert code == 0 and out.startswith("fungrad 0.")


@pytest.mark.slow
def test_rich_renders_the_same_content(functions):
    pytest.importorskip("rich")
    command = [sys.executable, "-m", "fungrad", "grad", f"{functions}:product", *X, *Y, "--check"]
    outputs = {}
    for setting in ("0", "1"):
        environment = {**os.environ, "COLUMNS": "200"}
        environment.pop("NO_COLOR", None)
        environment.pop("FORCE_COLOR", None)
        if setting == "1":
            environment["FORCE_COLOR"] = "1"
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        outputs[setting] = done.stdout
    assert "\x1b[" in outputs["1"] and "\x1b[" not in outputs["0"]
    assert f"{np.sin(2.0) ** 2:.8g}" in outputs["0"] and f"{np.sin(2.0) ** 2:.8g}" in outputs["1"]


@pytest.mark.slow
def test_it_works_without_rich(functions):
    program = (
        "import sys; sys.modules['rich'] = None; from fungrad.cli.main import main; "
        f"sys.exit(main(['grad', {functions + ':product'!r}, '--arg', 'x=1.5', '--arg', 'y=2.0']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "gradient" in done.stdout


def test_full_tracebacks_on_request(functions, monkeypatch):
    monkeypatch.setenv("FUNGRAD_TRACEBACK", "full")
    with pytest.raises(Exception, match="KeyError"):
        main(["grad", f"{functions}:raises", *X])


# -- the README -----------------------------------------------------------------------------------


def readme_commands():
    """The commands in the README's console blocks, each with the output shown below it."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    found = []
    for index, line in enumerate(lines):
        if line.startswith("$ fungrad "):
            end = next(i for i in range(index, len(lines)) if lines[i].startswith("```"))
            stop = next((i for i in range(index + 1, end) if lines[i].startswith("$ ")), end)
            found.append((line[2:], lines[index + 1 : stop]))
    return found


def test_the_readme_shows_commands():
    assert len(readme_commands()) >= 2


@pytest.mark.parametrize(("command", "shown"), readme_commands())
def test_the_readme_shows_what_the_commands_print(run, monkeypatch, command, shown):
    monkeypatch.chdir(ROOT)
    code, out, err = run(*shlex.split(command)[1:])
    assert (code, err) == (0, "")
    printed = [" ".join(line.split()) for line in out.replace(f"{ROOT}/", "").splitlines()]
    wanted = [" ".join(line.split()) for line in shown if line.strip() not in ("", "...")]
    # Rounding differs between processors, and with it the worst error and its place.
    printed, wanted = ([line.split(": worst")[0] for line in lines] for lines in (printed, wanted))
    assert [line for line in wanted if line not in printed] == []


def test_the_first_command_of_the_readme_is_one_of_those():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    first = next(line for line in lines if re.match("python3 -m venv.* && .venv/bin/pip", line))
    assert "pip install -q . &&" in first
    assert first.split(".venv/bin/")[-1] in {command for command, _ in readme_commands()}


# -- explain ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["GradientCutError", "gradientcuterror"])
def test_explain_shows_both_programs_of_an_error(run, name):
    code, out, _ = run("explain", name)
    assert code == 0 and out.startswith("GradientCutError\n")
    assert "Fails:" in out and 'fg.grad(lambda x: array.array("d", [x])[0] ** 2)(1.0)' in out
    assert "Repaired:" in out and "fg.stop_gradient(x)" in out


def test_explain_lists_all_errors_and_knows_what_a_message_names(run):
    _, out, _ = run("explain")
    with pytest.raises(fg.errors.FungradError) as caught:
        fg.grad(lambda x: array.array("d", [x])[0])(1.0)
    command = str(caught.value).splitlines()[-1]
    assert command == "(more: fungrad explain GradientCutError)"
    assert "GradientCutError\n  A traced value was turned into a Python number" in out
    assert json.loads(run("explain", "ShapeError", "--json")[1]).keys() == {"ShapeError"}
    assert "pad to few shapes" in run("explain", "RetraceWarning")[1]


def test_explain_of_no_error_is_bad_input(run):
    code, _, err = run("explain", "GradientCut")
    assert code == 2 and "Did you mean GradientCutError?" in err


# -- paths and widths ------------------------------------------------------------------------------


def test_paths_below_the_current_folder_are_relative(run, tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text("import numpy as np\ndef f(x):\n    return np.sin(x)\n")
    monkeypatch.chdir(tmp_path)
    _, out, _ = run("grad", "model.py:f", "--arg", "x=1.0")
    assert out.splitlines()[0] == "f(x float)  model.py"
    _, out, _ = run("ir", "model.py:f", "--arg", "x=1.0", "--lines")
    assert "# model.py:3 (f)" in out and str(tmp_path) not in out
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    _, out, _ = run("grad", "../model.py:f", "--arg", "x=1.0")
    assert out.splitlines()[0].endswith(str(tmp_path / "model.py"))


def test_plain_lines_break_between_words():
    text = "  x: zero, the cotangents that reach it from `mul` at file.py:7 add up to zero"
    lines = wrapped(text, 60).splitlines()
    assert len(lines) == 2 and max(map(len, lines)) <= 60 and lines[1].startswith("    ")
    assert " ".join(line.strip() for line in lines) == text.strip()
    assert wrapped("a" * 90, 60) == "a" * 90 and wrapped("short\n\n  more", 60) == "short\n\n  more"


def test_a_gradient_that_is_nan_names_fungrad_why(run, tmp_path):
    (tmp_path / "model.py").write_text("import numpy as np\ndef f(x):\n    return x ** 0.5\n")
    code, _, err = run("grad", f"{tmp_path}/model.py:f", "--arg", "x=0.0")
    assert code == 2 and "`fungrad why` with the same arguments" in err
