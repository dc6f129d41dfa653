"""Jacobian matrices that are diagonals stay diagonals."""
