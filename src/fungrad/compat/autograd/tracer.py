"""The names of autograd's module `tracer`."""

from __future__ import annotations

from fungrad.compat.autograd.boxes import ArrayBox, Box, getval, isbox, notrace_primitive
from fungrad.compat.autograd.extend import primitive

__all__ = ["ArrayBox", "Box", "getval", "isbox", "notrace_primitive", "primitive"]
