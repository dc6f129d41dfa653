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
    fused_array: int = 1 << 13
    """Elements of an array from which on equations run tile by tile: benchmarks/fusion.py."""
    lone_array: int = 400_000
    """Elements of an array from which on one equation that reads it is a cluster, so that threads
    share it: benchmarks/fusion.py.
    """
    tile_elements: int = 1 << 15
    """Elements of an array in a tile: a few such arrays of doubles stay in cache:
    benchmarks/fusion.py.
    """
    shared_tile: int = 2
    """How many times as many an equation has in the mean where threads share the tiles: these wait
    for each other at each call of NumPy: mixture 5000x10x5.
    """
    shared_work: int = 2_000_000
    """Elements, added or multiplied, from which on threads share a cluster: 0.4 ms, of which to
    wake a thread, and to wait for it, takes half: benchmarks/fusion.py.
    """
    function_work: int = 4
    """An element of a function, in elements that are added or multiplied: benchmarks/fusion.py."""
    row_elements: int = 1 << 12
    """The most elements of a row of a tile: attention 512x64."""
    row_pieces: int = 8
    """The most pieces that such a row may lie in: attention 512x64."""
    short_axis: int = 32
    """Axes of fewer elements are the slowest in memory, in a layout of columns: n-body 500."""
    ufunc_loop: int = 4
    """How many elements are copied in the time that a ufunc takes to begin a loop: n-body 500."""
    joined_parts: int = 32
    """The most parts of an array that are read, or joined, in a tile: bundle adjustment 30000."""
    product_rows: int = 128
    """The rows of a tile in which products of matrices are done, if it is not too large for that:
    attention 512x64.
    """
    fused_matrix: int = 1 << 16
    """The most elements of a matrix that rows are multiplied with in tiles, which is read again for
    each: k-means 100x10000x16.
    """
    fused_product_sum: int = 1 << 15
    """The most elements of a sum of products over the rows: k-means 100x10000x16."""
    light_product: int = 16
    """The most terms, for each element read or written by rows, of products in tiles: to read and
    write takes longer. Others are left to the BLAS's threads where it has some: attention 512x64.
    """
    shared_light_product: int = 64
    """The same where threads of ours share most clusters, and wait for each other at their end;
    those of a BLAS wait at every product: attention 256x64.
    """
    shared_product_terms: int = 3_200_000
    """The terms of a product from which on that holds: attention 256x64."""
    freed_array: int = 1 << 10
    """Elements of an array from which on a scan drops it before the next iteration replaces it:
    LSTM 50x32x64x128.
    """
    searched_constant: int = 1 << 16
    """The most elements of a constant that is searched for others than zeros: staging."""


costs = CostModel()
