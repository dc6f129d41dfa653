"""Taylor mode: derivatives of higher order along curves."""
