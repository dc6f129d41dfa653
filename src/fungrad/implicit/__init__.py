"""Solvers and fixed points, differentiated by the implicit function theorem."""
