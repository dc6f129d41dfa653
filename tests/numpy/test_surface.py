"""NumPy's surface, counted: support for traced values by plain `np.`, and the committed table."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from surface_linalg import uncounted
from surface_table import CASES, EXCLUDED, public

import fungrad as fg

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "support_table.py"
_SPEC = importlib.util.spec_from_file_location("support_table", PAGE)
assert _SPEC is not None and _SPEC.loader is not None
support_table = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(support_table)

# The differentiable functions of numpy that HIPS autograd 1.9.1 lists; linalg and fft have their
# own tests.
AUTOGRAD = """
abs absolute acos acosh add amax amin angle append arccos arccosh arcsin arcsinh arctan arctan2
arctanh array_split asin asinh astype atan atan2 atanh atleast_1d atleast_2d atleast_3d
broadcast_to clip column_stack concatenate conj conjugate cos cosh cross cumsum deg2rad degrees
diag diagonal diff divide dot dsplit einsum exp exp2 expand_dims expm1 fabs fliplr flipud fmax
fmin gradient hsplit hstack hypot imag inner kron linspace log log10 log1p log2 logaddexp
logaddexp2 matmul max maximum mean min minimum mod moveaxis multiply nan_to_num negative outer pad
partition permute_dims pow power prod rad2deg radians ravel real real_if_close reciprocal
remainder repeat reshape roll rollaxis rot90 select sin sinc sinh sort split sqrt square squeeze
stack std subtract sum swapaxes tan tanh tensordot tile trace transpose tril triu true_divide var
vsplit vstack where
""".split()


@pytest.fixture(scope="module")
def rows():
    return support_table.measured()


def test_every_public_function_is_counted_or_excluded_with_a_reason():
    names = set(public())
    assert names - set(CASES) - set(EXCLUDED) == set()
    assert not set(CASES) & set(EXCLUDED)
    assert all(EXCLUDED.values())
    assert not uncounted()  # of numpy.linalg and numpy.fft


@pytest.mark.slow
def test_at_least_98_percent_work_on_traced_values(rows):
    works, counted = support_table.coverage(rows)
    print(f"{works} of {counted} functions of NumPy work on traced values")
    assert works >= 0.98 * counted
    assert works == counted


@pytest.mark.slow
def test_every_check_of_every_function_holds(rows):
    bad = {name: row for name, row in rows.items() if any(r.startswith("no") for r in row)}
    assert not bad


@pytest.mark.slow
def test_what_the_lightest_peer_differentiates(rows):
    missing = [n for n in AUTOGRAD if hasattr(np, n) and rows[n][1] != "order 2"]
    assert not missing
    by_value = {"real_if_close"}
    assert all(
        rows[n][2] == rows[n][3] == "yes" for n in AUTOGRAD if n not in by_value and n in rows
    )


def test_full_r_and_c_take_traced_values():
    x = np.arange(3.0)
    g = fg.grad(lambda x: np.sum(fg.numpy.full((2, 2), x[1]) ** 2))(x)
    np.testing.assert_allclose(g, [0, 8, 0])
    g = fg.grad(lambda x: np.sum(fg.numpy.array([x[0], x[1] * x[2]]) ** 2))(x)
    np.testing.assert_allclose(g, [0, 8, 4])


@pytest.mark.slow
@pytest.mark.skipif(
    tuple(map(int, np.__version__.split(".")[:2])) != (2, 4), reason="the page is of NumPy 2.4"
)
def test_the_committed_table_is_current(rows):
    assert support_table.TARGET.read_text(encoding="utf-8") == support_table.text(rows)


def test_what_peers_get_wrong_is_right():
    assert fg.grad(np.std)(np.array([2.0])) == 0.0
    assert fg.grad(lambda x: x**0)(0.0) == 0.0
    x = 1.5
    hessian = fg.hessian(lambda v: np.hypot(v[0], v[1]))(np.array([x, x]))
    r = np.hypot(x, x)
    exact = np.array([[x * x, -x * x], [-x * x, x * x]]) / r**3
    np.testing.assert_allclose(hessian, exact, rtol=1e-12)


def test_text_of_traced_values():
    texts = []

    def f(x):
        texts.extend([np.array_repr(x), np.array_str(x), np.array2string(x)])
        assert f"{x}" == "[1. 1. 1.]"
        return np.sum(x)

    fg.grad(f)(np.ones(3))
    assert all("f64[3]" in t for t in texts)
