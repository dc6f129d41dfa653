"""Products of small arrays as native loop nests, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native import entry
from fungrad.compiler.native.single_equations import single_kernel
from fungrad.compiler.refusal import Refused
from fungrad.primitives.contraction.dot_general import dot_general

Pair = tuple[tuple[int, ...], tuple[int, ...]]
NONE: Pair = ((), ())
LENGTHS = (1, 3, 7, 8, 16, 21, 40)
rng = np.random.default_rng(7)


def kernel(x: Any, y: Any, contract: Pair, batch: Pair = NONE) -> Any:
    graph = fg.jit(lambda x, y: dot_general(x, y, contract=contract, batch=batch)).lower(x, y).graph
    return single_kernel(graph)


def check(x: Any, y: Any, contract: Pair, batch: Pair = NONE) -> None:
    """Numbers without rounding give NumPy's result to the bit, in any order."""

    def no_fallback(*args: Any) -> Any:
        raise AssertionError("the entry did not take its arguments")

    (found,) = entry.callable(kernel(x, y, contract, batch), no_fallback)(x, y)
    wanted = dot_general.eval(x, y, contract=contract, batch=batch)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def whole(*shape: int, dtype: Any = np.float64) -> Any:
    return rng.integers(-9, 10, size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
@pytest.mark.parametrize("layout", [(1, 0), (1, 1), (0, 0), (0, 1)])
def test_matrices_of_all_lengths_and_layouts(layout: tuple[int, int], dtype: Any) -> None:
    for n, m, k in zip(LENGTHS, LENGTHS[3:] + LENGTHS[:3], LENGTHS[5:] + LENGTHS[:5], strict=True):
        x = whole(n, k, dtype=dtype) if layout[0] else whole(k, n, dtype=dtype)
        y = whole(m, k, dtype=dtype) if layout[1] else whole(k, m, dtype=dtype)
        check(x, y, ((layout[0],), (layout[1],)))


@pytest.mark.parametrize("length", LENGTHS[::2])
def test_vectors_with_matrices_and_vectors(length: int) -> None:
    for k in (1, 5, 35):
        a, v = whole(length, k), whole(k)
        check(a, v, ((1,), (0,)))
        check(v, a, ((0,), (1,)))
        check(a, whole(length), ((0,), (0,)))
        check(whole(length), a, ((0,), (0,)))
        check(v[None], a, ((1,), (1,)))
        check(a, v[:, None], ((1,), (0,)))
    check(whole(length), whole(length), ((0,), (0,)))
    check(whole(length), whole(11), NONE)


def test_many_axes_and_batches() -> None:
    for n in (1, 3, 19):
        check(whole(4, 3, n), whole(4, n, 5), ((2,), (1,)), ((0,), (0,)))
        check(whole(n, 4, 3), whole(3, 4, n), ((0, 2), (2, 0)), ((1,), (1,)))
        check(whole(2, 3, n), whole(n, 2, 3), ((0, 1), (1, 2)))
        check(whole(2, 5, n), whole(5, n, 3), ((2, 1), (1, 0)))
        check(whole(7, n), whole(7, n), NONE, ((0, 1), (0, 1)))
        check(whole(3, 2, n), whole(4, n, 2), ((2,), (1,)))


def test_sums_begin_with_zero_and_keep_what_is_not_finite() -> None:
    x, y = np.array([[-0.0, -0.0], [np.inf, 1.0]]), np.array([[1.0, np.nan], [1.0, 0.0]])
    (found,) = entry.callable(kernel(x, y, ((1,), (0,))), list)(x, y)
    assert found[0, 0] == 0.0 and not np.signbit(found[0, 0])
    np.testing.assert_array_equal(found, [[0.0, np.nan], [np.inf, np.nan]])


def test_what_is_refused() -> None:
    n = int(np.sqrt(tuned.product_terms)) + 1
    with pytest.raises(Refused, match="terms"):
        kernel(whole(n, n), whole(n), ((1,), (0,)))
    with pytest.raises(Refused, match="empty"):
        kernel(whole(3, 0), whole(0, 4), ((1,), (0,)))
    with pytest.raises(Refused, match="dot_general"):
        kernel(whole(3, dtype=bool), whole(3, dtype=bool), ((0,), (0,)))
    with pytest.raises(Refused, match="dot_general"):
        kernel(whole(3, dtype=np.float32), whole(3), ((0,), (0,)))
