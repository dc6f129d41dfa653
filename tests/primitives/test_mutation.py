"""The checks of test_rules.py, which show the rules as they are to pass, notice broken ones."""

from __future__ import annotations

import pytest
from mutation import UNMUTATED, survivors


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(UNMUTATED))
def test_every_mutant_is_caught(name):
    count, alive = survivors(name)
    assert count >= 3 or name == "debug_callback"
    assert alive == []
