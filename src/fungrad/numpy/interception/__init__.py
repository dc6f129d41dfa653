"""Functions of NumPy, math and SciPy that are replaced while a transform traces."""
