"""Engines without their library: an error that names the extra."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import fungrad as fg


@pytest.mark.skipif(importlib.util.find_spec("jax") is not None, reason="JAX is installed")
@pytest.mark.parametrize("convert", [fg.to_jax, fg.from_jax])
def test_without_jax_the_extra_is_named(convert):
    with pytest.raises(fg.errors.MissingExtraError, match=r"fungrad\[jax\]"):
        convert(np.sin)
