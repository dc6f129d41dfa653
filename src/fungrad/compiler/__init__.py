"""jit: from a recorded Graph to a program of NumPy calls."""
