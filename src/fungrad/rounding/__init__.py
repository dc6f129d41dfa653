"""Rounding errors of Graphs: how far two correct evaluations of one program may differ."""
