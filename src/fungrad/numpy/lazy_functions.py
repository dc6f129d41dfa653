# ruff: noqa: F403 - every file lists its public names in __all__
"""The part of NumPy's namespace that few programs use, imported when one does."""

from fungrad.numpy.apply_vectorize import *
from fungrad.numpy.complex_domain import *
from fungrad.numpy.diff_interp_trapezoid import *
from fungrad.numpy.dtypes import *
from fungrad.numpy.einsum_lowering import *
from fungrad.numpy.histograms import *
from fungrad.numpy.insert_delete import *
from fungrad.numpy.order_statistics import *
from fungrad.numpy.padding import *
from fungrad.numpy.polynomials import *
from fungrad.numpy.sets_and_counts import *
from fungrad.numpy.special_functions import *
from fungrad.numpy.statistics import *
