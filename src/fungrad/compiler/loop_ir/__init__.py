"""Programs as statements on NumPy arrays, and the printer that makes Python of them."""
