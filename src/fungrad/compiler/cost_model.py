"""The cost model: bounds by which the compiler chooses between programs.

The compiler uses `costs`; its figures are of NumPy 2 on a machine of two cores. Each names the case
of `python -m benchmarks` to time when it is changed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class CostModel:
    """Sizes are counts of elements, times are nanoseconds."""

    small_array: int = 1 << 11
    """A NumPy call on arrays of at most so many elements costs more than its work: LSTM
    100x1x16x32.
    """
    folded_constant: int = 1 << 16
    """The most elements of a value that is computed at compile time: staging."""
    expanded_equations: int = 1 << 17
    """The most equations of a Graph after inlining of its calls: staging."""
    attempted_equations: int = 1 << 13
    """The most equations that inlining of a larger call tries, in case many are shared: staging."""
    repeated_equations: int = 1 << 9
    """The most equations of a Graph that is written for each of several calls; a larger one is
    compiled once and called: staging of functions that call others twice, which call others twice.
    """
    native_equations: int = 1 << 12
    """The most equations of a native program, after inlining of its calls, in which several calls
    run one Graph; a larger one calls the native programs of its parts: the same.
    """
    rerolled_equations: int = 300
    """The fewest equations of a loop that Python ran, which becomes a scan again: benchmarks/
    python_loops.py.
    """
    rerolled_product: int = 16
    """A product of at most `rerolled_terms` terms, which ends a kernel, counts as so many equations
    of such a loop: benchmarks/cliffs.py, unrolled RNN.
    """
    rerolled_terms: int = 1 << 16
    searched_operands: int = 8
    """The most definitions that a recursive rule follows upwards; further ones gain little and use
    Python's stack: staging of long chains.
    """
    nested_rules: int = 4
    """The deepest nesting of rules whose equations match rules again. Without a limit, rules along
    a chain of equations would rewrite all of it for each of them: staging of long chains.
    """
    hoisted_stack: int = 1 << 22
    """The most elements of a stack that is made so that a product can leave a loop: LSTM
    50x32x64x128.
    """
    free_stack: int = 1 << 17
    """Elements of new stacks that are always allowed; more only up to those that the scan reads:
    Kalman filter 200.
    """
    scalar_elements: int = 64
    """The most elements of an array that is computed with Python numbers: Lorenz 1000."""
    scalar_operation: float = 30
    """An operation on Python numbers: Lorenz 1000."""
    numpy_call: float = 400
    """A NumPy call on a small array: Lorenz 1000."""
    scan_step: float = 300
    """The overhead of a step of a scan on arrays: Lorenz 1000."""
    basis: int = 1 << 11
    """A basis of fewer elements stays a matrix: NumPy computes all columns as fast as one:
    rosenbrock Hessian 100.
    """
    diagonal: int = 1 << 10
    """Elements of a matrix that take as long as one more diagonal: rosenbrock Hessian 100."""
    fused_array: int = 1 << 13
    """Equations on arrays of so many elements may be in tiles of products: attention 512x64."""
    pooled_bytes: int = 1 << 22
    """An intermediate array of at least so many bytes is in memory of the pool; malloc reuses
    smaller ones: rosenbrock 1e+06.
    """
    tile_elements: int = 1 << 15
    """Half of the elements of an array in a tile; a few such arrays of doubles stay in cache:
    k-means 100x10000x16.
    """
    product_rows: int = 128
    """The fewest rows of a tile with matrix products, unless it becomes too large: attention
    512x64.
    """
    fused_matrix: int = 1 << 16
    """The most elements of a matrix that multiplies the rows of tiles, and is read again for each
    tile: k-means 100x10000x16.
    """
    fused_product_sum: int = 1 << 15
    """The most elements of a sum of products over the rows: k-means 100x10000x16."""
    light_product: int = 16
    """The most terms per element read or written of a product that runs in tiles: memory takes
    longer than the terms. Others are left to the BLAS's threads, if any: attention 512x64.
    """
    shared_light_product: int = 64
    """The same limit for large products: threads of the pool wait for each other once per cluster,
    those of a BLAS at every product: attention 256x64.
    """
    shared_product_terms: int = 3_200_000
    """A product of at least so many terms is large in that sense: attention 256x64."""
    freed_array: int = 1 << 10
    """A scan frees an array of at least so many elements before the next iteration replaces it:
    LSTM 50x32x64x128.
    """
    searched_constant: int = 1 << 16
    """The most elements of a constant that is tested for being zero: staging."""


costs = CostModel()
