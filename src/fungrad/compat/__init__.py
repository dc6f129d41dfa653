"""Spellings of other systems, for people who arrive from them."""
