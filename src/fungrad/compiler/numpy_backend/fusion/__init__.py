"""Fusion: clusters of equations that run tile by tile, so that intermediates stay in cache."""
