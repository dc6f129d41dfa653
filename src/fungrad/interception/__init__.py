"""The tables of functions of NumPy, math and SciPy that are replaced while a transform traces.

The first trace imports this package, which registers the tables; tracing/interception.py installs
and removes the replacements.
"""

from fungrad.interception import masked_arrays as masked_arrays
from fungrad.interception import math_functions as math_functions
from fungrad.interception import numpy_functions as numpy_functions
from fungrad.interception import other_packages as other_packages
from fungrad.interception import pandas_windows as pandas_windows
from fungrad.interception import python_numbers as python_numbers
from fungrad.interception import scipy_functions as scipy_functions
from fungrad.interception import scipy_transforms as scipy_transforms
from fungrad.interception import sparse_matrices as sparse_matrices
from fungrad.interception import statistics_functions as statistics_functions
from fungrad.tracing.trace import registry as _registry

_registry.complete = True
