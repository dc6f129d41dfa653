"""An OpenBLAS for tests, which notes what it is told."""

from __future__ import annotations


class FakeBlas:
    """Takes as many threads as it is told to."""

    def __init__(self, count=4):
        self.count = count
        self.told = []

    def get(self):
        return self.count

    def set(self, count):
        self.told.append(count)
        self.count = count
