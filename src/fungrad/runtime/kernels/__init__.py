"""Kernels on arrays that generated programs call instead of NumPy's functions."""
