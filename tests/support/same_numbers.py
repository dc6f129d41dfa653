"""Equality of compiled numbers with NumPy's, as the backend of the tests promises it."""

from __future__ import annotations

from typing import Any

import numpy as np

import fungrad as fg


def assert_same_numbers(found: Any, expected: Any) -> None:
    """To the bit on NumPy; natively, where elementary functions are within 2 ulp, within 4 ulp."""
    dtype = np.asarray(expected).dtype
    if fg.config.backend == "numpy" or dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps, atol=0)
