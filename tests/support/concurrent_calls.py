"""Threads of the user that call one function at the same time."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np


def same_in_threads(f: Any, inputs: Any, times: int) -> None:
    """Many threads call one function, each with its own input, and get the results of one."""
    expected = [f(x) for x in inputs]
    wrong = []

    def work(i: int) -> None:
        for _ in range(times):
            if not np.array_equal(f(inputs[i]), expected[i]):
                wrong.append(i)

    users = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert wrong == []
