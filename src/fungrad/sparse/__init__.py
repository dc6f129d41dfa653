"""`fungrad.sparse`: sparse Jacobians and Hessians of plain NumPy functions. Needs SciPy.

The pattern is found from the traced program, columns that share no row get the same colour, and one
product with a vector computes all columns of a colour. The results are scipy.sparse arrays.
"""

from fungrad.errors import DensePatternWarning as DensePatternWarning
from fungrad.sparse.derivative import colour as colour
from fungrad.sparse.public import IpoptProblem as IpoptProblem
from fungrad.sparse.public import SparseFunction as SparseFunction
from fungrad.sparse.public import hessian as hessian
from fungrad.sparse.public import hessian_pattern as hessian_pattern
from fungrad.sparse.public import jacobian as jacobian
from fungrad.sparse.public import jacobian_pattern as jacobian_pattern
from fungrad.sparse.public import value_and_jacobian as value_and_jacobian
