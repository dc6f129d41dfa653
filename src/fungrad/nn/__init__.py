# ruff: noqa: F403 - every file lists its public names in __all__
"""jax.nn's functions for networks, as compositions: activations, softmax and losses,
convolution, pooling, attention, initializers (`fungrad.nn`). All are pure functions.
"""

from fungrad.nn import initializers as initializers
from fungrad.nn.activations import *
from fungrad.nn.layers import *
