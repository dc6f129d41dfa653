"""NumPy's protocols, operators and methods for traced values."""
