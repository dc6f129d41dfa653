"""Tools that look into programs: why a gradient is zero or NaN, and what stops do to it."""
