"""`ArrayBox`, the class of traced arrays and numbers: fungrad's Tracer."""

from fungrad.tracing.trace import Tracer as Tracer

ArrayBox = Tracer

__all__ = ["ArrayBox"]
