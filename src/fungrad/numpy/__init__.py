"""Floor 8: NumPy's functions for traced values, as thin compositions of primitives (`fungrad.numpy`)."""
from fungrad.numpy import operators as operators
