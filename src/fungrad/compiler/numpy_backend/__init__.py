"""From an optimised Graph to the text of a program on NumPy."""
