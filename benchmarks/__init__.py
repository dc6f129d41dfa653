"""Benchmarks: `python -m benchmarks`. Figures are ratios of medians of an interleaved run."""

import os

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Read by the numerical libraries when they are first imported: set here, before all of them."""
DEFAULT_THREADS, REASSOCIATE = "BENCHMARKS_DEFAULT_THREADS", "BENCHMARKS_REASSOCIATE"
"""Set by `python -m benchmarks`, for the processes that it starts, too: where the BLAS may have its
own number of threads, and where fungrad may reassociate."""
LIMITED = [name for name in THREADS[:2] if name not in os.environ]
"""Variables that the user did not set: they become one thread."""
if not os.environ.get(DEFAULT_THREADS):
    os.environ.update(dict.fromkeys(LIMITED, "1"))
