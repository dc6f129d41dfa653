"""`fungrad.sparse`: sparse Jacobians and Hessians of plain NumPy functions. Needs SciPy.

The pattern is found from the traced program, columns that share no row get the same colour, and one
product with a vector computes all columns of a colour. The results are scipy.sparse arrays.
"""

from fungrad.errors import DensePatternWarning
from fungrad.sparse.derivative import colour
from fungrad.sparse.public import (
    IpoptProblem,
    SparseFunction,
    hessian,
    hessian_pattern,
    jacobian,
    jacobian_pattern,
    value_and_jacobian,
)

__all__ = [
    "DensePatternWarning",
    "IpoptProblem",
    "SparseFunction",
    "colour",
    "hessian",
    "hessian_pattern",
    "jacobian",
    "jacobian_pattern",
    "value_and_jacobian",
]
