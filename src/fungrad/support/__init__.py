"""Foundations that need Python alone: pytrees, records, imports made later."""
