# ruff: noqa: F403 - every file lists its public names in __all__
"""Functions of jax.lax besides control flow, imported at the first use of one of them."""

from fungrad.lax.convolution import *
from fungrad.lax.convolution_forms import *
from fungrad.lax.elementwise import *
from fungrad.lax.gather_scatter import *
from fungrad.lax.products import *
from fungrad.lax.reductions import *
from fungrad.lax.reshaping import *
from fungrad.lax.scans import *
from fungrad.lax.selection import *
from fungrad.lax.slicing import *
