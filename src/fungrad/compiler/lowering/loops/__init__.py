"""Scans and while_loops as Python loops that write in place."""
