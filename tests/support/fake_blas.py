"""An OpenBLAS for tests, which records the numbers of threads that are set."""

from __future__ import annotations


class FakeBlas:
    """Uses the number of threads that was set."""

    def __init__(self, count=4):
        self.count = count
        self.told = []

    def get(self):
        return self.count

    def set(self, count):
        self.told.append(count)
        self.count = count
