"""Rewrite rules for single equations and their operands."""
