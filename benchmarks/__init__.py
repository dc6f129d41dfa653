"""Benchmarks: `python -m benchmarks.eager`. Every figure is a ratio of medians of one interleaved run."""
