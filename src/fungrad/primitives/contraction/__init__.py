"""Multilinear primitives: dot_general and convolutions."""
