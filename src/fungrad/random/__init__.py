# ruff: noqa: F403 - every file lists its public names in __all__
"""jax.random's functions over NumPy's Philox (`fungrad.random`): keys, and samples as functions of
a key and parameters, differentiable if the distribution is continuous.
"""

from fungrad.random.continuous import *
from fungrad.random.discrete import *
from fungrad.random.gamma_family import *
from fungrad.random.keys import *
