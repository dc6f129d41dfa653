"""Passes over Graphs: the same results by fewer and cheaper equations."""
