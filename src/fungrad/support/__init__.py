"""Foundations that need Python alone: pytrees, records, deferred imports."""
