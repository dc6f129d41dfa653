"""fungrad.numpy as an array API namespace: special cases, dtypes and their limits, the array
object, deviations, and libraries that follow the standard, on traced values.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import array_api_compat
import array_api_strict as strict
import numpy as np
import pytest
import scipy
from array_api_special import BINARY_CASES, TRUTH_CASES, UNARY_CASES
from array_api_table import COMPLEX, INTEGERS, KINDS, REALS, SIGNED, UNSIGNED

import fungrad as fg
from fungrad.errors import (
    AbstractBooleanError,
    AbstractValueError,
    FungradError,
    GradientCutError,
)
from fungrad.testing import check_grads

pytestmark = pytest.mark.skipif(
    tuple(map(int, np.__version__.split(".")[:2])) < (2, 3),
    reason="NumPy before 2.3 follows an older version of the standard",
)
xp = fg.numpy
DOCS = Path(__file__).parents[2] / "docs"
TRANSFORMS = {
    "jit": fg.jit,
    "vmap": lambda f: lambda *args: fg.vmap(f)(*[np.stack([a]) for a in args])[0],
    "vjp": lambda f: lambda *args: fg.vjp(f, *args)[0],
    "jvp": lambda f: lambda *args: fg.jvp(f, args, [np.ones_like(a) for a in args])[0],
}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


# --- special cases --------------------------------------------------------------------------------


def exactly(found, expected, what):
    assert np.isnan(found) == np.isnan(expected), what
    if not np.isnan(expected):
        tolerance = 8 * float(np.finfo(found.dtype).eps)
        assert float(found) == pytest.approx(float(expected), rel=tolerance, abs=0.0), what
        assert np.signbit(found) == np.signbit(expected), what


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY_CASES)
def test_special_cases_of_one_argument(name, dtype):
    x, expected = np.array(UNARY_CASES[name], dtype).T
    f = getattr(xp, name)
    for transform in (lambda f: f, *TRANSFORMS.values()):
        for given, found, wanted in zip(x, transform(f)(x), expected, strict=True):
            exactly(found, wanted, f"{name}({given}) = {found}, not {wanted}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", BINARY_CASES)
def test_special_cases_of_two_arguments(name, dtype):
    x1, x2, expected = np.array(BINARY_CASES[name], dtype).T
    f = getattr(xp, name)
    for transform in (lambda f: f, *TRANSFORMS.values()):
        for *given, found, wanted in zip(x1, x2, transform(f)(x1, x2), expected, strict=True):
            exactly(found, wanted, f"{name}{tuple(given)} = {found}, not {wanted}")


@pytest.mark.parametrize("name", TRUTH_CASES)
def test_special_cases_of_questions(name):
    x = np.array([case[0] for case in TRUTH_CASES[name]])
    expected = [case[1] for case in TRUTH_CASES[name]]
    for transform in (lambda f: f, *TRANSFORMS.values()):
        assert transform(getattr(xp, name))(x).tolist() == expected


def test_results_of_reductions_over_nothing():
    empty = np.zeros((0, 2))
    for name, expected in (("sum", 0.0), ("prod", 1.0), ("all", True), ("any", False)):
        f = getattr(xp, name)
        for g in (f, fg.jit(f), fg.vmap(f, in_axes=1)):
            assert np.all(g(empty) == expected)
    assert np.isnan(xp.mean(empty[:, 0]))


def test_orders_are_stable():
    x = np.tile(np.array([2, 0, 1]), 50)
    for f in (lambda f: f, fg.jit):
        up, down = f(xp.argsort)(x), f(lambda x: xp.argsort(x, descending=True))(x)
        assert up.tolist() == sorted(range(150), key=lambda i: x[i])
        assert down.tolist() == sorted(range(150), key=lambda i: -x[i])


# --- dtypes ---------------------------------------------------------------------------------------

KIND_OF = {
    "bool": ("bool",), "signed integer": SIGNED, "unsigned integer": UNSIGNED,
    "integral": INTEGERS, "real floating": REALS, "complex floating": COMPLEX,
    "numeric": (*INTEGERS, *REALS, *COMPLEX),
}  # fmt: skip


@pytest.mark.parametrize("kind", KIND_OF)
def test_isdtype(kind):
    for dtype in KINDS["all"]:
        wanted = dtype in KIND_OF[kind]
        assert xp.isdtype(np.dtype(dtype), kind) == wanted
        assert xp.isdtype(np.dtype(dtype), (kind, np.dtype("bool"))) == (wanted or dtype == "bool")


def test_finfo_and_iinfo():
    for dtype in (*REALS, *COMPLEX):
        expected = strict.finfo(getattr(strict, dtype))
        x = np.ones(2, dtype)
        seen = []
        fg.jit(lambda x, seen=seen: seen.append(xp.finfo(x)) or x)(x)
        for info in (
            xp.finfo(getattr(xp, dtype)),
            xp.finfo(dtype),
            xp.finfo(x),
            xp.finfo(x[0]),
            *seen,
        ):
            for name in ("bits", "eps", "max", "min", "smallest_normal"):
                value = getattr(info, name)
                assert type(value) is (int if name == "bits" else float)
                assert value == getattr(expected, name)
            assert info.dtype == dtype.replace("complex64", "float32").replace(
                "complex128", "float64"
            )
    for dtype in INTEGERS:
        expected = strict.iinfo(getattr(strict, dtype))
        for info in (xp.iinfo(getattr(xp, dtype)), xp.iinfo(np.ones(2, dtype))):
            assert (info.bits, info.max, info.min) == (expected.bits, expected.max, expected.min)
            assert info.dtype == dtype
    assert xp.finfo(xp.float64).tiny == np.finfo(float).tiny and "float64" in repr(xp.finfo(float))
    with pytest.raises(ValueError, match=r"not inexact|not compatible"):
        xp.finfo(xp.int8)
    with pytest.raises(AttributeError):
        getattr(xp.finfo(xp.float32), "largest")  # noqa: B009


@pytest.mark.parametrize("dtype", KINDS["all"])
def test_casts(dtype):
    x = np.array([[0, 1], [1, 0]], dtype)
    for other in KINDS["all"]:
        if dtype in COMPLEX and other not in COMPLEX:
            continue
        f = lambda x, other=other: xp.astype(x, getattr(xp, other))  # noqa: E731
        for transform in (lambda f: f, fg.jit, fg.vmap):
            found = transform(f)(x)
            assert found.dtype == other
            np.testing.assert_array_equal(found, x.astype(other))
    copied = xp.astype(x, x.dtype)
    assert copied is not x and xp.astype(x, x.dtype, copy=False) is x


def test_what_the_namespace_says_of_itself():
    info = xp.__array_namespace_info__()
    assert info.default_device() == "cpu" and list(info.devices()) == ["cpu"]
    assert info.default_dtypes()["real floating"] == np.float64
    assert set(info.dtypes()) >= set(KINDS["all"])
    assert set(info.dtypes(kind="real floating")) == set(REALS)
    assert info.capabilities()["boolean indexing"] is True
    seen = []
    for transform in (fg.jit, fg.vmap, TRANSFORMS["vjp"]):
        transform(lambda x: seen.append(x) or x)(np.ones(2))
    assert len(seen) == 3
    for x in seen:
        assert x.__array_namespace__(api_version="2023.12") is xp
        with pytest.raises(ValueError, match="not supported"):
            x.__array_namespace__(api_version="1999.12")


# --- the array object -----------------------------------------------------------------------------

M = np.arange(24.0).reshape(2, 3, 4)
INDICES = [
    0, -1, (1, 2, 3), (0, slice(None), -1), slice(None), slice(1, None), (..., 0),
    (..., slice(None, None, -2)), (slice(None), slice(2, 0, -1)), None, (None, 1, None),
    (slice(0, 0),), Ellipsis, (), (0, ..., slice(1, 3)), np.array([1, 0]),
    (0, np.array([2, 0]), np.array([1, 1])), (np.array([1]), 0, np.array([3])),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_indexing(index):
    expected = M[index]
    for name in ("jit", "vjp", "jvp"):
        found = TRANSFORMS[name](lambda x: x[index])(M)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == M.dtype
    batched = fg.vmap(lambda x: x[index])(np.stack([M, -M]))
    np.testing.assert_array_equal(batched, [expected, -expected])


def test_indexing_by_masks():
    mask = M % 3 == 0
    found, pull = fg.vjp(lambda x: x[x % 3 == 0], M)
    np.testing.assert_array_equal(found, M[mask])
    np.testing.assert_array_equal(pull(np.ones(8))[0], mask)
    for transform in (functools.partial(fg.jit, branches="error"), fg.vmap):
        with pytest.raises(AbstractValueError, match="boolean index"):
            transform(lambda x: x[x % 5 == 0])(M)
        fixed = transform(lambda x: x[..., [True, False, True, False]])(M)
        np.testing.assert_array_equal(fixed, M[..., ::2])


def test_attributes():
    def f(x):
        assert x.ndim == 2 and x.shape == (2, 3) and x.size == 6
        assert x.dtype == xp.float32 and x.device == "cpu"
        assert x.T.shape == x.mT.shape == (3, 2)
        assert x.to_device("cpu") is x and x.to_device(x.device, stream=None) is x
        assert x.__dlpack_device__() == np.ones(1).__dlpack_device__()
        with pytest.raises(ValueError, match="there is 'cpu'"):
            x.to_device("gpu")
        return x.mT @ x

    x = np.ones((2, 3), np.float32)
    for transform in (fg.jit, TRANSFORMS["vmap"], TRANSFORMS["vjp"]):
        assert transform(f)(x).shape == (3, 3)


def test_statements_work_in_place():
    def f(x):
        y, z = xp.asarray(x, copy=True), x
        x += 1
        x *= 2.0
        x -= y
        x /= 4
        x **= 2
        x @= xp.eye(2)
        z[0, 0] = 0.25
        return x

    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    expected = (((x + 1) * 2 - x) / 4) ** 2
    expected[0, 0] = 0.25
    for transform in (fg.jit, TRANSFORMS["vmap"], TRANSFORMS["vjp"]):
        given = x.copy()
        np.testing.assert_allclose(transform(f)(given), expected)
        np.testing.assert_array_equal(given, x)


def test_numbers_inside_arrays():
    def f(x):
        assert bool(x[0] > 0) and int(x[1]) == 2 and [5, 6, 7][(x[1] > 0).astype(int)] == 6
        return x

    assert fg.grad(lambda x: xp.sum(f(x)))(np.array([1.0, 2.5])).tolist() == [1.0, 1.0]


def test_copies():
    x = np.ones(3)
    assert xp.asarray(x, copy=False) is x and xp.asarray(x, copy=True) is not x

    def f(y):
        assert xp.asarray(x, copy=True) is not x and xp.asarray(y, copy=True).shape == (3,)
        assert xp.asarray([y[0], 1.0]).shape == (2,)
        with pytest.raises(ValueError, match="without a copy"):
            xp.asarray(y, dtype=xp.float32, copy=False)
        with pytest.raises(ValueError, match="Only 'cpu'"):
            xp.asarray(y, device="gpu")
        return y

    fg.jit(f)(x)


def test_dlpack():
    x = np.arange(3.0)
    assert xp.from_dlpack(x, device=None, copy=None) is not None
    np.testing.assert_array_equal(xp.from_dlpack(x, copy=True), x)
    assert fg.jit(lambda y: y + xp.from_dlpack(x))(x).tolist() == [0.0, 2.0, 4.0]


# --- deviations -----------------------------------------------------------------------------------


def raises(error, f, x=None):
    with pytest.raises(error):
        f(np.ones(2) if x is None else x)
    return True


def new_array(x):
    zeros = xp.zeros_like(x)
    assert issubclass(type(zeros), np.ndarray) and zeros.__array_namespace__() is np
    return x + zeros


unguarded = functools.partial(fg.jit, branches="error")

DEVIATIONS = {
    "floor_divide of infinities": lambda: (
        np.isnan(xp.floor_divide(np.inf, 1.0)) and xp.floor_divide(1.0, -np.inf) == -1.0
    ),
    "special cases of complex numbers": lambda: np.isnan(
        xp.expm1(np.array([complex(np.inf, np.inf)])).real[0]
    ),
    "clip": lambda: xp.clip(np.ones(2, np.float32), np.zeros(2)).dtype == np.float64,
    "meshgrid, broadcast_arrays": lambda: (
        type(xp.meshgrid(np.ones(2), np.ones(3))) is tuple
        and type(xp.broadcast_arrays(np.ones(2), np.ones(1))) is tuple
    ),
    "scalars": lambda: not isinstance(xp.sum(np.ones(2)), np.ndarray),
    "float and complex": lambda: all(
        raises(GradientCutError, fg.grad(lambda x, kind=kind: kind(x[0]) * x[1]))
        and raises(AbstractValueError, unguarded(lambda x, kind=kind: kind(x[0]) * x[1]))
        for kind in (float, complex)
    ),
    "DLPack": lambda: (
        raises(GradientCutError, fg.grad(xp.from_dlpack))
        and raises(GradientCutError, fg.jit(xp.from_dlpack))
        and raises(AbstractValueError, unguarded(xp.from_dlpack))
    ),
    "values under jit and vmap": lambda: (
        raises(AbstractBooleanError, unguarded(lambda x: x or x))
        and raises(FungradError, unguarded(lambda x: xp.nonzero(x)[0]))
    ),
    "new arrays": lambda: fg.jit(new_array)(np.ones(2)).tolist() == [1.0, 1.0],
}


def test_what_deviates_is_in_the_table_and_nothing_else():
    text = (DOCS / "array-api.md").read_text(encoding="utf-8")
    table = text.split("## Deviations")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \| [^|]+ \| ([^|]+) \|$", table, flags=re.MULTILINE)
    assert [name for name, _ in rows[1:]] == list(DEVIATIONS)
    assert len(DEVIATIONS) <= 10 and all(len(reason) > 10 for _, reason in rows[1:])


@pytest.mark.parametrize("name", DEVIATIONS)
def test_it_deviates(name):
    assert DEVIATIONS[name]()


def test_the_skips_of_the_published_suite_have_reasons():
    lines = (DOCS / "array-api-skips.txt").read_text(encoding="utf-8").splitlines()
    reason = ""
    tests = [line for line in lines if line and line[0] != "#"]
    assert tests and all(line.startswith("array_api_tests/test_") for line in tests)
    for line in lines:
        reason = line if line.startswith("# ") else reason if line else ""
        assert not line or reason


# --- libraries that nobody here wrote -------------------------------------------------------------


def test_array_api_compat_takes_traced_values():
    def f(x):
        assert array_api_compat.is_array_api_obj(x)
        namespace = array_api_compat.array_namespace(x, api_version="2023.12")
        assert array_api_compat.is_numpy_array(x) or namespace is xp
        assert array_api_compat.size(x) == 6 and array_api_compat.device(x) == "cpu"
        x = array_api_compat.to_device(x, "cpu")
        return namespace.linalg.vector_norm(namespace.matrix_transpose(x), axis=0) ** 2

    x = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]])
    expected = np.sum(x**2, axis=1)
    for transform in (fg.jit, TRANSFORMS["vmap"], TRANSFORMS["vjp"]):
        np.testing.assert_allclose(transform(f)(x), expected)
    check_grads(f, [x], order=2)


SCIPY = """
import warnings; warnings.simplefilter("ignore")
import numpy as np, scipy
import fungrad as fg
from fungrad.testing import check_grads
from scipy import integrate, optimize, special, stats
from scipy.spatial.transform import Rotation
x = np.array([0.3, 1.2, 0.7, 2.5, 1.9])
functions = {
    "circmean": stats.circmean, "circvar": stats.circvar,
    "cumulative_trapezoid": integrate.cumulative_trapezoid,
    "differential_entropy": stats.differential_entropy, "gmean": stats.gmean, "gstd": stats.gstd,
    "kurtosis": stats.kurtosis, "rosen": optimize.rosen,
    "rotation": lambda x: Rotation.from_rotvec(x[:3]).as_matrix(), "sem": stats.sem,
    "simpson": integrate.simpson, "skew": stats.skew, "softmax": special.softmax,
    "trapezoid": integrate.trapezoid,
}
for name, f in functions.items():
    expected = f(x)
    np.testing.assert_allclose(fg.jit(f)(x), expected, rtol=1e-12, atol=1e-12, err_msg=name)
    rows = fg.vmap(f)(np.stack([x, x[::-1] + 0.25]))
    np.testing.assert_allclose(rows[1], f(x[::-1] + 0.25), rtol=1e-12, atol=1e-12, err_msg=name)
    check_grads(f, [x], order=2)
    print(name)
"""


SKLEARN = """
import warnings; warnings.simplefilter("ignore")
import numpy as np, sklearn
import fungrad as fg
from fungrad.testing import check_grads
from sklearn.metrics import pairwise
sklearn.set_config(array_api_dispatch=True, assume_finite=True)
x = np.random.default_rng(0).normal(size=(4, 3))
y = x[:2] + np.linspace(0.3, 0.9, 6).reshape(2, 3)
for name in ("euclidean_distances", "linear_kernel", "polynomial_kernel", "rbf_kernel",
             "sigmoid_kernel"):
    f = getattr(pairwise, name)
    np.testing.assert_allclose(fg.jit(f)(x, y), f(x, y), rtol=1e-7, err_msg=name)
    rows = fg.vmap(f)(np.stack([x, 2 * x]), np.stack([y, y]))
    np.testing.assert_allclose(rows[1], f(2 * x, y), rtol=1e-7, err_msg=name)
    check_grads(f, [x, y], order=2)
    print(name)
"""


def before(version, *needed):
    return tuple(map(int, version.split(".")[:2])) < needed


def printed(program):
    """The words that a program prints that sets SCIPY_ARRAY_API before it imports."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.skipif(
    before(scipy.__version__, 1, 17),
    reason="SciPy before 1.17 follows the standard in fewer of these functions",
)
def test_functions_of_scipy_run_on_traced_values_as_they_are():
    assert len(printed(SCIPY)) == 14


@pytest.mark.slow
@pytest.mark.skipif(
    before(scipy.__version__, 1, 17) or before(version("scikit-learn"), 1, 9),
    reason="scikit-learn before 1.9 follows the standard in fewer of these functions",
)
def test_kernels_of_scikit_learn_run_on_traced_values_as_they_are():
    assert len(printed(SKLEARN)) == 5


@pytest.mark.parametrize("home", ["array_api_compat", "scipy._lib.array_api_compat"])
def test_the_namespace_of_traced_and_plain_arrays_together(home):
    helpers = pytest.importorskip(f"{home}.common._helpers")
    original = helpers.array_namespace
    runs = []  # under the trace, and the plain call that it may be compared with

    def f(x):
        plain = np.ones(2)
        seen = []
        runs.append(seen)
        for arrays in ((x,), (x, plain), (plain, x), (x, 1.0, None), (plain, x, plain[0])):
            seen.append(helpers.array_namespace(*arrays))
        assert helpers.array_namespace(plain) is original(plain)
        return np.sum(x)

    fg.grad(f)(np.ones(2))
    assert len(runs[0]) == 5 and all(found is fg.numpy for found in runs[0])
    assert helpers.array_namespace is original
