"""Writes into traced arrays with NumPy's aliasing: views, assignment, functions that write."""
