"""Why functions are slow: fg.explain_speed and its causes."""
