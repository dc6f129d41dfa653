"""Rewriting rules of single equations and their operands."""
