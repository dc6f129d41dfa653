"""The exception by which a generator of native code leaves a Graph to NumPy."""

from __future__ import annotations


class Refused(Exception):
    """A Graph, or a part of it, is not for native code; the message is the reason."""


__all__ = ["Refused"]
