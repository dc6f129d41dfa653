"""Where the time of a function goes, by its lines."""
