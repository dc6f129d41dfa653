"""Programs on Python numbers for Graphs of small arrays."""
