"""fg.explain_speed: the time of a compiled function by line, where each operation runs, and why."""
