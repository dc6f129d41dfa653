"""Products with elementwise work around them that run some rows at a time, in cache."""
