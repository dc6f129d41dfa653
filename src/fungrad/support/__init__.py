"""What the rest stands on and Python alone provides: pytrees, records, imports made later."""
