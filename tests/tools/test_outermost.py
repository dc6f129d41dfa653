"""Functions that look at the values of a run refuse to run in a transform, in the same words."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import ArgumentError


@pytest.mark.parametrize("verb", [fg.profile, fg.explain_speed, fg.digits, fg.why])
def test_no_transform_may_be_around(verb):
    advice = rf"fg\.{verb.__name__} needs \w+, .* as fg\.{verb.__name__}\(fg\.vmap\(f\)\)"
    with pytest.raises(ArgumentError, match=advice):
        fg.vmap(verb(np.sin))(np.ones(2))


@pytest.mark.parametrize("verb", [fg.profile, fg.explain_speed])
def test_there_is_at_least_one_run(verb):
    with pytest.raises(ArgumentError, match="1 or more, or None, not 0"):
        verb(np.sin, repetitions=0)
