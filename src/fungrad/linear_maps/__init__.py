"""linearize and linear_transpose: the linear programs inside of functions."""
