"""Opaque code of the host inside of traced programs: external functions, callbacks."""
