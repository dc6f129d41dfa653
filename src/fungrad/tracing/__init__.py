"""Tracing: calls of primitives in a running Python program become values and equations."""
