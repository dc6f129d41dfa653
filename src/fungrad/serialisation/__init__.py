"""Graphs and traced functions in files."""
