"""Counts of operations and bytes."""
