"""The family of elementwise primitives, and NumPy's ufuncs as its members."""
