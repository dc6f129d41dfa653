"""fungrad.numpy as a namespace of the Python array API standard, on ndarrays and on traced values,
against the table of the standard and array-api-strict.
"""

from __future__ import annotations

import inspect
import operator
import re
import warnings
from pathlib import Path

import array_api_strict as strict
import numpy as np
import pytest
from array_api_calls import APART, CALLS, VALUE_SHAPES, D
from array_api_table import (
    ARRAY_ATTRIBUTES,
    ARRAY_METHODS,
    BINARY,
    CONSTANTS,
    KINDS,
    OPERATORS,
    PROMOTION,
    SIGNATURES,
    UNARY,
    UNARY_OPERATORS,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import fungrad as fg
from fungrad.errors import AbstractValueError
from fungrad.testing import check_grads
from fungrad.tracing.trace import Tracer

pytestmark = pytest.mark.skipif(
    tuple(map(int, np.__version__.split(".")[:2])) < (2, 3),
    reason="NumPy before 2.3 follows an older version of the standard",
)
xp = fg.numpy
xps = make_strategies_namespace(xp, api_version="2024.12")
SYMMETRIC = ("linalg.cholesky", "linalg.eigh", "linalg.eigvalsh")
NOT_ARRAYS = ("can_cast", "result_type")


@pytest.fixture(autouse=True)
def standard_of_2024():
    strict.set_array_api_strict_flags(api_version="2024.12")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
    strict.reset_array_api_strict_flags()


def of(namespace, name):
    return operator.attrgetter(name)(namespace)


def handed(namespace, value):
    """An argument of a call for a namespace."""
    if isinstance(value, D):
        return getattr(namespace, value)
    if isinstance(value, np.ndarray):
        return strict.asarray(value) if namespace is strict else value
    if isinstance(value, (tuple, list)):
        return type(value)(handed(namespace, item) for item in value)
    return value


def plain(value):
    """A result as a tree of ndarrays and Python's values."""
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if hasattr(value, "__array_namespace__"):
        return np.asarray(value._array if hasattr(value, "_array") else value)
    if isinstance(value, type(strict.float32)):
        return np.dtype(value._np_dtype)
    return value


def same(found, expected, what):
    if isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected), what
        for left, right in zip(found, expected, strict=True):
            same(left, right, what)
    elif isinstance(expected, np.ndarray):
        found = np.asarray(found)
        assert found.dtype == expected.dtype, f"{what}: {found.dtype} for {expected.dtype}"
        assert found.shape == expected.shape, f"{what}: {found.shape} for {expected.shape}"
        small = expected.dtype in (np.float32, np.complex64)
        rtol, atol = (1e-5, 1e-6) if small else (1e-12, 1e-13)
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=what)
    else:
        assert found == expected, what


# --- names and signatures -------------------------------------------------------------------------


def test_the_table_is_the_standard():
    for prefix, module in (("", strict), ("linalg.", strict.linalg), ("fft.", strict.fft)):
        for name in module.__all__:
            function = getattr(module, name, None)
            if not inspect.isfunction(function) or name.endswith("_flags") or "__" in name:
                continue
            if name in ("broadcast_shapes", "isin"):  # of 2025.12
                continue
            text = SIGNATURES[prefix + name]
            expected = inspect.signature(eval(f"lambda {text}: 0"))
            for left, right in zip(
                expected.parameters.values(),
                inspect.signature(function).parameters.values(),
                strict=True,
            ):
                assert (left.name, left.kind) == (right.name, right.kind), name
    assert set(SIGNATURES) == {*UNARY, *BINARY, *CALLS, *APART}


def test_every_name_is_there():
    assert xp.__array_api_version__ >= "2024.12"
    missing = [name for name in SIGNATURES if not callable(of(xp, name))]
    assert not missing
    for name in KINDS["all"]:
        assert np.dtype(getattr(xp, name)) == np.dtype(name)
    for name, value in CONSTANTS.items():
        assert getattr(xp, name) is value or np.array_equal(getattr(xp, name), value, True)
    x = np.ones((2, 2))
    seen = []
    for transform in (fg.vmap, fg.jit, lambda f: lambda x: fg.vjp(f, x)):
        transform(lambda x: seen.append(x) or x)(x)
    assert len(seen) == 3
    for array in (x, *seen):
        assert not [n for n in (*ARRAY_ATTRIBUTES, *ARRAY_METHODS) if not hasattr(type(array), n)]


@pytest.mark.parametrize("name", CALLS)
def test_every_argument_is_called_as_the_signature_has_it(name):
    """A check of the calls: together they hand over each argument in each way that it may go."""
    signature = inspect.signature(eval(f"lambda {SIGNATURES[name]}: 0"))
    by_name = {key for _, kwargs in CALLS[name] for key in kwargs}
    by_place = max(len(args) for args, _ in CALLS[name])
    for i, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is parameter.POSITIONAL_ONLY:
            assert parameter.name not in by_name and (
                by_place > i or parameter.default is not parameter.empty
            )
        elif parameter.kind is not parameter.VAR_POSITIONAL and parameter.name != "device":
            assert parameter.name in by_name, parameter.name
    for args, kwargs in CALLS[name]:
        signature.bind(*args, **kwargs)


# --- functions that are not elementwise -----------------------------------------------------------


def strictly(name, args, kwargs):
    """The result of array-api-strict."""
    function = of(strict, name)
    return plain(function(*handed(strict, args), **handed_dict(strict, kwargs)))


def ordered(name, result):
    """unique_values may give them in any order."""
    return xp.sort(result) if name == "unique_values" else result


def handed_dict(namespace, kwargs):
    return {key: handed(namespace, value) for key, value in kwargs.items()}


@pytest.mark.parametrize("name", CALLS)
def test_on_ndarrays(name):
    for args, kwargs in CALLS[name]:
        function = of(xp, name)
        found = plain(function(*handed(xp, args), **handed_dict(xp, kwargs)))
        expected = strictly(name, args, kwargs)
        same(ordered(name, found), ordered(name, expected), f"{name}{args}{kwargs}")


def opened(name, args, kwargs):
    """A call as a function of its arrays, and the arrays."""
    arrays = []

    def emptied(value):
        if isinstance(value, np.ndarray) and not (name == "repeat" and arrays):
            arrays.append(value)
            return slice(len(arrays) - 1, None)
        if isinstance(value, (tuple, list)):
            return type(value)(emptied(item) for item in value)
        return value

    holes = emptied(args), {key: emptied(value) for key, value in kwargs.items()}

    def filled(value, given):
        if isinstance(value, slice):
            return given[value.start]
        if isinstance(value, (tuple, list)):
            return type(value)(filled(item, given) for item in value)
        return handed(xp, value)

    def f(*given):
        assert {x.__array_namespace__() for x in given if isinstance(x, Tracer)} <= {xp}
        kwargs = {key: filled(value, given) for key, value in holes[1].items()}
        return ordered(name, of(xp, name)(*filled(holes[0], given), **kwargs))

    return f, arrays


def as_list(tree):
    return [np.asarray(leaf) for leaf in fg.trees.leaves(tree)]


TRACED = [
    name for name in CALLS if any(opened(name, *each)[1] for each in CALLS[name])
]  # fmt: skip


@pytest.mark.parametrize("name", TRACED)
def test_derivatives(name):
    for args, kwargs in CALLS[name]:
        f, arrays = opened(name, args, kwargs)
        wide = any(a.dtype in (np.float64, np.complex128) for a in arrays)
        if name in NOT_ARRAYS or not wide:
            continue
        results = as_list(f(*arrays))
        if any(r.dtype in (np.float64, np.complex128) for r in results):
            g = (lambda x, f=f: f(x + x.mT)) if name in SYMMETRIC else f
            check_grads(g, arrays, order=1)


@pytest.mark.parametrize("name", TRACED)
def test_on_traced_values(name):
    for args, kwargs in CALLS[name]:
        f, arrays = opened(name, args, kwargs)
        if not arrays:
            continue
        what = f"{name}{args}{kwargs}"
        if name in NOT_ARRAYS:
            seen = []
            fg.jit(lambda *a, f=f, seen=seen: seen.append(f(*a)) or a[0])(*arrays)
            same(plain(seen[0]), strictly(name, args, kwargs), what)
            continue
        expected = as_list(f(*arrays))
        same(as_list(fg.vjp(f, *arrays)[0]), expected, f"{what} under vjp")
        if name in VALUE_SHAPES:
            with pytest.raises(AbstractValueError):
                fg.jit(f, branches="error")(*arrays)
            same(as_list(fg.jit(f)(*arrays)), expected, f"{what} under jit")
            same(as_list(fg.vmap(f)(*[np.stack([a, a]) for a in arrays])),
                 [np.stack([e, e]) for e in expected], f"{what} under vmap")  # fmt: skip
            with pytest.raises(AbstractValueError):  # the examples differ
                fg.vmap(f)(*[np.stack([a, np.zeros_like(a)]) for a in arrays])
            continue
        same(as_list(fg.jit(f)(*arrays)), expected, f"{what} under jit")
        others = [a * a.dtype.type(1.5) if a.dtype.kind in "fc" else a for a in arrays]
        batched = fg.vmap(f)(*[np.stack(pair) for pair in zip(arrays, others, strict=True)])
        rows = [np.stack(p) for p in zip(expected, as_list(f(*others)), strict=True)]
        same(as_list(batched), rows, f"{what} under vmap")


# --- elementwise functions ------------------------------------------------------------------------

QUICK = settings(max_examples=8, suppress_health_check=list(HealthCheck))
ON_BOOLEANS = (
    "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal",
    "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal", "signbit",
)  # fmt: skip


def elements(name, place, dtype):
    """Numbers that a function takes as its argument of this place."""
    if dtype == "bool":
        return st.booleans()
    if np.dtype(dtype).kind in "iu":
        low = 0 if np.dtype(dtype).kind == "u" or (name, place) == ("pow", 1) else -9
        if "shift" in name:
            low = 0
        high = 3 if name == "pow" else 7 if "shift" in name else 9
        numbers = st.integers(low, high)
        zero = place == 1 and name in ("floor_divide", "remainder")
        return numbers.filter(bool) if zero else numbers
    width = 32 if dtype in ("float32", "complex64") else 64
    real = st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.0, 2.5, -3.75, 0.125, 7.0, np.inf, np.nan])
    if "complex" in dtype:
        return st.builds(complex, *[st.sampled_from([0.5, -1.25, 2.0, 0.75])] * 2)
    assert width in (32, 64)
    return real


def result_dtype(name, *dtypes):
    """The dtype by the standard's promotion rules."""
    if name in ON_BOOLEANS:
        return "bool"
    found = PROMOTION[dtypes[0], dtypes[-1]]
    if name in ("abs", "imag", "real") and "complex" in found:
        return {"complex64": "float32", "complex128": "float64"}[found]
    return found


def check_elementwise(name, args):
    function = getattr(xp, name)
    found = function(*args)
    dtypes = [str(a.dtype) for a in args]
    assert found.dtype == result_dtype(name, *dtypes)
    assert found.shape == np.broadcast_shapes(*[a.shape for a in args])
    same(plain(found), strictly(name, args, {}), name)
    method = {**OPERATORS, **UNARY_OPERATORS}.get(name)
    for f in (function, operator.methodcaller(method, *args[1:]) if method else function):
        f = (lambda *a, m=method: getattr(a[0], m)(*a[1:])) if f is not function else f
        expected = plain(found)
        same(plain(fg.jit(f)(*args)), expected, f"{name} under jit")
        same(plain(fg.vjp(f, *args)[0]), expected, f"{name} under vjp")
        ones = [np.stack([a, a]) for a in args]
        same(plain(fg.vmap(f)(*ones)), np.stack([expected] * 2), f"{name} under vmap")


@pytest.mark.slow
@pytest.mark.parametrize("name", UNARY)
@QUICK
@given(data=st.data())
def test_unary(name, data):
    dtype = data.draw(st.sampled_from(KINDS[UNARY[name]]))
    shape = xps.array_shapes(min_dims=0, max_dims=2, max_side=3)
    x = data.draw(xps.arrays(getattr(xp, dtype), shape, elements=elements(name, 0, dtype)))
    check_elementwise(name, [np.asarray(x)])


@pytest.mark.parametrize("name", BINARY)
@QUICK
@given(data=st.data())
def test_binary(name, data):
    kinds = KINDS[BINARY[name]]
    first = data.draw(st.sampled_from(kinds))
    second = data.draw(st.sampled_from([k for k in kinds if (first, k) in PROMOTION]))
    shapes = data.draw(xps.mutually_broadcastable_shapes(2, max_dims=2, max_side=3)).input_shapes
    args = [
        np.asarray(data.draw(xps.arrays(getattr(xp, d), s, elements=elements(name, i, d))))
        for i, (d, s) in enumerate(zip((first, second), shapes, strict=True))
    ]
    check_elementwise(name, args)


@pytest.mark.parametrize("name", [n for n in OPERATORS if n not in ("divide",)])
def test_operators_with_python_numbers_keep_the_dtype(name):
    method = OPERATORS[name]
    reflected = f"__r{method[2:]}"
    for dtype in KINDS[BINARY[name]]:
        kind = np.dtype(dtype).kind
        x = np.array([1, 0, 1] if kind == "b" else [3, 1, 2]).astype(dtype)
        other = {"b": True, "i": 2, "u": 2, "f": 2.0, "c": 2.0}[kind]
        for way in (method, reflected) if name not in ON_BOOLEANS else (method,):
            expected = plain(getattr(strict.asarray(x), way)(other))
            f = lambda x, way=way, other=other: getattr(x, way)(other)  # noqa: E731
            for found in (f(x), fg.jit(f)(x), fg.vmap(f)(x), fg.vjp(f, x)[0]):
                same(plain(found), expected, f"{way} of {dtype}")


@pytest.mark.parametrize("pair", PROMOTION)
def test_promotion(pair):
    a, b = (np.ones(1, dtype) for dtype in pair)
    assert xp.result_type(*pair) == PROMOTION[pair]
    seen = []
    fg.jit(lambda a, b: seen.append(xp.result_type(a, b)) or a)(a, b)
    assert seen == [PROMOTION[pair]]
    assert fg.jit(lambda a, b: xp.where(a == b, a, b))(a, b).dtype == PROMOTION[pair]
    assert fg.jit(lambda a, b: xp.concat([a, b]))(a, b).dtype == PROMOTION[pair]


def test_the_skips_are_whole_names_of_tests():
    """The published suite compares whole names: a part of one skips nothing."""
    text = (Path(__file__).parents[2] / "docs" / "array-api-skips.txt").read_text(encoding="utf-8")
    names = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert names and len(set(names)) == len(names)
    for name in names:
        assert re.fullmatch(r"array_api_tests/test_\w+\.py::test_\w+(\[.+\])?", name), name
        assert name.count("(") == name.count(")"), name
