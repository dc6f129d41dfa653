"""How NumPy's protocols, operators and methods reach the functions of traced values."""
