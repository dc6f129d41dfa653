"""Passes over Graphs: the same numbers in fewer and cheaper equations."""
