"""Primitives that reduce axes, or accumulate along one."""
