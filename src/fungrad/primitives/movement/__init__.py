"""Primitives that move elements and compute nothing: shapes, indices, windows."""
