"""Tests of gradients for users (`fungrad.testing`).

`check_grads` and `missing_rules` need only NumPy; the strategies need Hypothesis, which is
imported when one of them is called.
"""

from fungrad.testing.gradients import check_grads as check_grads
from fungrad.testing.registry import missing_rules as missing_rules
from fungrad.testing.strategies import Program as Program
from fungrad.testing.strategies import arrays as arrays
from fungrad.testing.strategies import programs as programs
