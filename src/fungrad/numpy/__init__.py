"""Floor 8: NumPy's functions for traced values, as thin compositions of primitives (`fungrad.numpy`)."""

from fungrad.numpy import operators as operators
from fungrad.numpy.contractions import (
    dot as dot,
    inner as inner,
    kron as kron,
    matmul as matmul,
    outer as outer,
    tensordot as tensordot,
    trace as trace,
    vdot as vdot,
    vecdot as vecdot,
)
from fungrad.numpy import methods as methods
