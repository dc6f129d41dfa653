"""Functions of blocks of numbers that generated programs call in place of NumPy's own."""
