"""Primitives of linear algebra on the last two axes."""
