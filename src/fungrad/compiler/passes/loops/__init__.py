"""Passes over scans: dead code, invariant code, fission, residuals."""
