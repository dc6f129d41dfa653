"""Checkpointing: values that a derivative computes again instead of keeping them."""
