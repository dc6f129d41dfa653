"""The cost model: bounds by which the compiler chooses between programs.

The compiler uses `costs`, native code `tuned`, too. The figures are of NumPy 2 on a machine of two
cores. Each names the case of `python -m benchmarks` to time when it is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


class CostModel:
    """Sizes are counts of elements, times are nanoseconds."""

    small_array: int = 1 << 11
    """A NumPy call on arrays of at most so many elements costs more than its work: LSTM
    100x1x16x32.
    """
    folded_constant: int = 1 << 16
    """The most elements of a value that is computed at compile time: staging."""
    folded_alike: int = 1 << 21
    """The same of one that is not larger than the constants that it is computed of: log densities
    of data, whose normalisation has no parameters.
    """
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
    eager_steps: int = 256
    """The most steps of an integration that an eager derivative takes one by one, at 1.1 ms each; a
    scan of more is built first, in 0.15 s, for each call.
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
    rerolled_steps: int = 6
    """The fewest steps of such a loop: benchmarks/python_loops.py, as all of these."""
    batched_elements: int = 1 << 8
    """The fewest elements of the values of a loop whose independent steps become one batch:
    benchmarks/cliffs.py, apply_along_axis.
    """
    rerolled_lags: int = 4
    """A step reads values of at most so many steps before it, which the scan carries."""
    rerolled_operands: int = 8
    """The most operands of an equation of a step: the search compares so many columns."""
    rerolled_divisions: int = 8
    """How often a range of equations is divided in search of a loop."""
    rerolled_periods: int = 4
    """The candidates for a period for each length of equal windows."""
    rerolled_loops: int = 16
    """The most loops that are found in one Graph, each by a new search."""
    joined_items: int = 4
    """The fewest items of an array, in order, that become one slice of it: benchmarks/
    python_loops.py, written trajectory.
    """
    stacked_elements: int = 1 << 14
    """The most elements of a stack of values that are no items of one array: the same."""
    searched_chains: int = 8
    """The most chains of writes in which a read searches for its value: staging of long chains."""
    scattered_items: int = 4
    """Fewer items of a small array are written one by one: as fast as by index arrays."""
    sliced_items: int = 16
    """The most elements that slices write, per equation of a Graph whose writes are forwarded: each
    takes memory then: staging.
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
    python_lines: int = 4_000
    """The most lines of a program on Python numbers: staging."""
    listed_elements: int = 50_000
    """The most elements of a stack that is kept as a list; as an array it takes 4 to 6 times less
    time for scans of 100,000 steps, where the collector would visit a tuple for each: Lorenz 1000.
    """
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
    fused_array: int = 1 << 17
    """Equations on arrays of so many elements may be in tiles of products: smaller arrays stay in
    cache between products and kernels: MLP 32x784x64, k-means 100x10000x16.
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
    shared_product_terms: int = 3_200_000
    """Threads share tiles with a product of at least so many terms: attention 256x64."""
    searched_constant: int = 1 << 16
    """The most elements of a constant that is tested for being zero: staging."""


class Tuned:
    """Bounds of native code; times are nanoseconds on a machine with AVX-512. A case is a section
    of `python -m benchmarks.native --only`, unless another benchmark is named.
    """

    saving_calls: int = 10_000
    """A program has to save the time of its build in so many calls:
    `python -m benchmarks.first`.
    """
    entry_ns: float = 1_500.0
    """What an entry in machine code saves per call: small."""
    lapack_ns: float = 6_000.0
    """A factorisation on NumPy, besides its arithmetic: small."""
    lapack_element_ns: float = 5.0
    """The same for an element of its matrices: `benchmarks.cliffs`."""
    trips: int = 100
    """The assumed trip count of a loop of unknown length: loops."""
    quick_ns: tuple[float, float] = (9.0, 0.1)
    """A kernel with calls of at most so many nanoseconds, and so many per line of IR, is built
    quickly. Better code, three times as fast, would have to be called some 100,000 times to make up
    for its build: small.
    """
    quick_build: tuple[float, float] = (4.0, 0.04)
    """Milliseconds of a quick build: a constant, and the time per line of IR: first."""
    full_build: tuple[float, float] = (10.0, 0.06)
    """The same of a full build."""
    lines: int = 100_000
    """The most lines of IR that are compiled: `benchmarks.cliffs`."""
    released_ns: float = 30_000.0
    """A kernel of at least so much time runs without the interpreter's lock: two threads."""
    shared_ns: float = 60_000.0
    """Threads share a kernel of at least so much time: two threads."""
    stack_bytes: int = 1024
    """The most bytes of scratch memory that are on the stack: small."""
    cluster_elements: int = 4_096
    """The fewest elements, over all equations, of a cluster that is compiled: everyday."""
    repeated_elements: int = 512
    """The same of one that runs several times per call: loops."""
    cluster_equations: int = 12
    """A cluster of at least so many equations, of any size, is compiled: it saves NumPy calls:
    cases.
    """
    cluster_moves: int = 1
    """A cluster that is refused is divided where values have been moved so many times: each move of
    moved values multiplies the places at which values are computed: `benchmarks.cliffs`, stencils.
    """
    kernels: int = 24
    """The most kernels of one Graph; equal ones count once: `benchmarks.cliffs`."""
    cluster_arrays: int = 64
    """The most arrays that a cluster reads: a longer one, such as a sum over the steps of a loop,
    is divided in order: `benchmarks.cliffs`.
    """
    number_lines: int = 1_000
    """For programs of numbers with more lines of IR, loops over arrays are tried, too: loops."""
    signal_ns: float = 500_000.0
    """The time between two checks for signals: loops."""
    part_ns: float = 5.0
    """A call of a part: loops."""
    stored_constant: int = 1 << 16
    """The most elements of an array that is stored as a constant: cases."""
    sequence_elements: int = 64
    """The fewest elements of the largest array of a sequence: small."""
    straight_bytes: float = 8.0
    """Bytes of new memory for a nanosecond of a program without loops; one with loops may take 1:
    gradbench.
    """
    sequence_bytes: int = 1 << 25
    """The most bytes of new memory of a sequence: malloc gives more back to the system: cases."""
    product_terms: int = 1 << 16
    """The most terms of a product; the BLAS is as fast beyond: products."""
    product_tile: int = 8
    """The most registers for the results of a tile of a product: products."""
    reread_elements: int = 1 << 18
    """The most elements that one thread reduces, and reads again: everyday."""
    unrolled_elements: int = 64
    """The fewest elements of loops if short axes are unrolled: cases."""
    moved_equations: int = 300
    """A Graph of more equations is cut before its maps are followed, where values move and move
    again: `benchmarks.cliffs`, stencils.
    """
    unrolled_equations: int = 16_000
    """The most equations after unrolling of short axes: cases."""
    one_call_ns: float = 0.1
    """The time per element for which one NumPy call is as fast: everyday."""
    stacked_matrices: int = 64
    """The fewest matrices of a stack that loops over it compute: gradbench."""
    unrolled_rows: int = 6
    """The most rows of a matrix whose factorisation is unrolled: gradbench."""
    unrolled_minors: int = 5
    """The most rows of a matrix whose cofactors are polynomials: gradbench."""
    unrolled_spectra: int = 3
    """The most rows of a matrix whose eigenvalues are: `benchmarks.cliffs`, eigvalsh."""
    unrolled_terms: int = 216
    """The most terms of an unrolled product of two matrices: gradbench."""
    narrow_terms: int = 64
    """The terms, for each index of its long axis, of a product that loops over items with lanes
    along their last axis compute: `benchmarks.cliffs`, tanh(x @ w).
    """
    narrow_batch_terms: int = 256
    """The most such terms if each item has a matrix of its own: the BLAS is slow there:
    `benchmarks.cliffs`, matvec.
    """
    blas_term_ns: float = 0.08
    """A term of such a product in the BLAS: the same."""
    vector_product: int = 1_000
    """The fewest elements of a matrix whose product with a vector is a loop over it: cases."""
    matrix_ns: float = 60.0
    """NumPy's time for a product of matrices in a stack: gradbench."""
    factor_ns: float = 15.0
    """NumPy's time for an element of a factor: gradbench."""
    convolution_registers: int = 8
    """The registers of results that a step of a convolution computes: `benchmarks.cliffs`,
    convolve.
    """
    convolution_unit: int = 4096
    """The results of a unit of a convolution: two threads."""
    convolution_ns: float = 0.05
    """A term of a convolution: `benchmarks.cliffs`, convolve."""
    numpy_convolution_ns: float = 0.33
    """The same in NumPy."""
    numpy_convolution_call: float = 3_000.0
    """NumPy's call of a convolution."""
    recurrences_at_once: int = 4
    """Rows of a recurrence that run side by side: `benchmarks.cliffs`, cumulative."""
    items_at_once: int = 4
    """The most items that a step of lanes computes, value by value, as each waits for its own
    results; what it loads has to stay in registers: `benchmarks.cliffs`, products
    with small matrices.
    """
    recurrence_ns: float = 1.2
    """A step of a recurrence: `benchmarks.cliffs`, cumulative."""
    recurrence_unit: int = 1 << 13
    """The elements of a unit of recurrences: two threads."""
    numpy_accumulated_ns: float = 3.3
    """NumPy's time for an element of a cumulative operation."""
    numpy_half_ns: float = 6.0
    """NumPy's time for an element in half precision, besides that in single precision."""
    numpy_pass_ns: float = 2.0
    """NumPy's time for an element in one pass of a recurrence."""
    vector_copies: int = 10
    """The most inlined copies of an elementary function of vectors in a function: everyday."""
    known_power: int = 64
    """Powers by known integers and halves of up to this size are products:
    `benchmarks.native_functions`.
    """
    polynomial_chain: int = 6
    """The most coefficients of a polynomial in one chain of operations:
    `benchmarks.native_functions`.
    """
    number_copies: int = 2
    """The most inlined copies of an elementary function of numbers in a function; others are calls:
    loops.
    """
    block_lines: int = 1_200
    """The most instructions of a basic block that stay in their function: `benchmarks.cliffs`."""
    outlined_lines: int = 600
    """The instructions of an outlined function: `benchmarks.cliffs`."""
    numbers_in_array: int = 256
    """The most elements of an array that is made of numbers: cases."""
    short_values: int = 2_000
    """The most values at places of a nest with short axes, besides those for each equation: moves
    of moved arrays multiply them: `benchmarks.cliffs`, stencils.
    """
    moved_values: int = 300
    """The same without short axes."""
    values_of_equation: int = 2
    """The values at places for each equation of a nest: `benchmarks.cliffs`, stencils."""
    prefetched_steps: int = 2
    """Memory is prefetched so many steps of lanes ahead: everyday."""
    gathered_bytes: int = 1 << 18
    """The most bytes that are read one by one of an array's lanes: everyday."""
    followed_moves: int = 12
    """Moves of moved values, one after the other, for which their maps are followed:
    `benchmarks.cliffs`, stencils.
    """
    unit_elements: int = 4096
    """Elements of a unit of work: two threads."""
    heavy_ns: float = 0.4
    """The time of an equation that doubles the number of registers that a vector step fills:
    gradients.
    """
    long_elements: int = 50_000
    """Elements that double it, too: gradients."""
    register_values: Mapping[int, int] = MappingProxyType({64: 60, 32: 500, 16: 60})
    """Beyond so many values of a vector step each fills one register, by the bytes of a register;
    with more they would spill. Narrow ones wait for results more than for spills: gradients,
    `benchmarks.cliffs`, Chebyshev.
    """
    output_copies: int = 8
    """The most copies of outputs to which threads add: two threads."""
    values_of_copy: int = 4
    """All of them have one element for so many values, at the most: two threads."""
    vector_boxes: int = 4
    """The most boxes with separate vector loops: `benchmarks.cliffs`, stencils."""
    odd_values: int = 40
    """The most values of a nest whose vectors have an odd number of lanes, which LLVM compiles
    slowly: small.
    """
    grouped_elements: int = 1 << 14
    """The most elements of the rows of a group, which stay in the cache between phases: everyday.

    """
    rows_at_once: int = 4
    """The most rows that pass through loops together: benchmarks/machine_limit.py."""
    sums_at_once: int = 8
    """The most registers of partial sums of such rows: the same."""
    far_elements: int = 100_000
    """Beyond so many elements the rows that columns read are too far apart for the processor's
    prefetcher: memory is prefetched explicitly: everyday.
    """
    buffered_ns: float = 0.4
    """A value is buffered, or kept for later phases of rows, if computing it again takes at least
    so much time; rows run in groups if a function of one number of each does: cases.
    """
    buffered_rows: int = 8
    """The fewest rows of a unit that read a buffered value along the last loop: cases."""
    buffer_halo: int = 8
    """The most rows of a buffer beyond those of its unit: `benchmarks.cliffs`, stencils."""
    numbers: int = 256
    """The largest size of an array that is split into numbers: loops."""
    signal_steps: int = 65_536
    """Loop steps between two checks for signals: loops."""
    short_scan: int = 64
    """Scans of at most so many steps do not check for signals: loops."""
    selected: int = 4
    """The largest number of elements from which comparisons select one: loops."""
    lane_elements: int = 8
    """The fewest elements of an array for which vector code is shorter: small."""
    straight_lines: int = 1_250
    """The most lines of IR of a program without loops on such arrays, before others are tried:
    small.
    """
    loop_lines: int = 20_000
    """The most lines of IR of a program with loops: loops."""
    factor_rows: int = 160
    """The most rows and columns of a factorisation; LAPACK is as fast beyond: `benchmarks.cliffs`.

    """
    lapack_rows: int = 40
    """The most rows of a factorisation by loops where LAPACK can be called: `benchmarks.cliffs`."""
    factor_term_ns: float = 0.12
    """A multiplication and an addition of a factorisation: `benchmarks.cliffs`."""


costs = CostModel()
tuned = Tuned()
