"""Opaque Python code inside of traced programs: external functions, callbacks."""
