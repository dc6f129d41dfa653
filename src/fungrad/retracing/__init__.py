"""Transforms of Graphs into Graphs, and staging of functions."""
