"""The bounds by which the compiler weighs one program against another.

`costs` is the one that is used; its figures are of NumPy 2 on a machine of two cores. Each says
which case of `python -m benchmarks` to time when it is changed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class CostModel:
    """Sizes are counts of elements, times are nanoseconds."""

    small_array: int = 1 << 11
    """Arrays of no more elements cost more to call NumPy for than to compute: LSTM 100x1x16x32."""
    folded_constant: int = 1 << 16
    """The most elements of a value that is computed when a function is compiled: staging."""
    compared_constant: int = 1 << 16
    """Bytes of a constant that is compared with others: staging."""
    expanded_equations: int = 1 << 17
    """The most equations that a Graph is given by its calls: staging."""
    attempted_equations: int = 1 << 13
    """How many equations are written to see whether calls, which have more, have many of them in
    common: staging.
    """
    searched_operands: int = 8
    """How many equations up a rule looks that calls itself for what an equation reads: Python's
    stack ends, and so does what is gained. Staging of long chains.
    """
    nested_rules: int = 4
    """How many rules may write one for another. Without an end, those along a chain of equations
    write all of it anew for each of them. Staging of long chains.
    """
    hoisted_stack: int = 1 << 22
    """The most elements of a stack that is made so that a product can leave a loop: LSTM
    50x32x64x128.
    """
    free_stack: int = 1 << 17
    """Elements of stacks that may be made whatever a scan reads and makes: Kalman filter 200."""
    scalar_elements: int = 64
    """Elements of the largest array that is computed with Python's numbers: Lorenz 1000."""
    scalar_operation: float = 30
    """An operation on Python's numbers: Lorenz 1000."""
    numpy_call: float = 400
    """A call of NumPy on a small array: Lorenz 1000."""
    scan_step: float = 300
    """The overhead of a step of a scan on arrays: Lorenz 1000."""
    basis: int = 1 << 11
    """Elements of a basis below which NumPy computes all columns as fast as one: rosenbrock Hessian
    100.
    """
    diagonal: int = 1 << 10
    """Elements of a matrix that take as long as one more diagonal: rosenbrock Hessian 100."""
    searched_constant: int = 1 << 16
    """The most elements of a constant that is searched for others than zeros: staging."""


costs = CostModel()
