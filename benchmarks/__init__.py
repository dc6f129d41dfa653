"""Benchmarks: `python -m benchmarks`. Figures are ratios of medians of an interleaved run."""

import os

# Read by the numerical libraries when they are first imported, so it stands before all of them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
