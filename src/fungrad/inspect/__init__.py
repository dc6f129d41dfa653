"""Tools that look into programs: cost, profile, pictures, and why a gradient is zero or NaN."""
