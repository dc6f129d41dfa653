"""Special functions and their derivatives by NumPy alone."""
