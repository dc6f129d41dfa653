"""Checkpointing: derivatives recompute values instead of keeping them."""
