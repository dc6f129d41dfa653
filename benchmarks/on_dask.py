"""A loss of 1e7 rows over Dask, on two workers: time, memory, and a worker that is killed.

    python -m benchmarks.on_dask [--rows 10000000]

The data are made when they are needed, in chunks of 32 MB, so all rows are never in memory at once.
The gradient of a logistic loss by fungrad.dask is timed, in turn, beside the same written by hand
in dask.array; then it is computed while a worker is killed. Needs dask, distributed and psutil.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import dask.array as da
import distributed
import numpy as np
import psutil

import fungrad as fg
import fungrad.dask

COLUMNS, CHUNK = 20, 200_000
MEGABYTES = CHUNK * COLUMNS * 8 / 1e6


def loss(w: Any, x: Any, y: Any) -> Any:
    """The negative log-likelihood of labels."""
    z = x @ w
    return np.sum(np.logaddexp(0.0, z) - y * z)


def by_hand(w: Any, x: Any, y: Any) -> Any:
    """The loss and its gradient, in dask.array."""
    z = x @ w
    residuals = 1.0 / (1.0 + da.exp(-z)) - y
    return da.compute(da.sum(da.logaddexp(0.0, z) - y * z), x.T @ residuals)


class Peaks(threading.Thread):
    """The most memory of some processes while it runs, in MB."""

    def __init__(self, pids: list[int]) -> None:
        super().__init__()
        self._processes = [psutil.Process(pid) for pid in pids]
        self._over = threading.Event()
        self.rest = self._now()
        self.most = self.rest

    def _now(self) -> list[float]:
        return [process.memory_info().rss / 1e6 for process in self._processes]

    def run(self) -> None:
        """Looks fifty times a second."""
        while not self._over.wait(0.02):
            self.most = [max(pair) for pair in zip(self.most, self._now(), strict=True)]

    def stop(self) -> None:
        """Ends it."""
        self._over.set()
        self.join()


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """The time and the result of a call."""
    start = time.perf_counter()
    found = function()
    return time.perf_counter() - start, found


def equal(one: Any, other: Any) -> bool:
    """Whether two values and gradients are the same to the bit."""
    return bool(one[0] == other[0]) and np.array_equal(one[1], other[1])


def main() -> None:
    """Prints the findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        x = da.random.default_rng(0).normal(size=(rows, COLUMNS), chunks=(CHUNK, COLUMNS))
        y = (da.random.default_rng(1).random(rows, chunks=CHUNK) < 0.5) * 1.0
        w = 0.1 * np.random.default_rng(2).normal(size=COLUMNS)
        ours = fg.dask.value_and_grad(loss, data=(1, 2))
        ours(w, x[: 2 * CHUNK], y[: 2 * CHUNK])  # compiles
        pids = list(client.run(os.getpid).values())
        peaks = Peaks(pids)
        peaks.start()
        first = ours(w, x, y)
        peaks.stop()
        chunks = max((p - r) / MEGABYTES for p, r in zip(peaks.most, peaks.rest, strict=True))
        print(
            f"{rows:,} rows of {COLUMNS}, {rows // CHUNK} chunks of {MEGABYTES:.0f} MB\n"
            f"a worker: {max(peaks.rest):.0f} MB at rest, a peak of {max(peaks.most):.0f} MB: "
            f"{chunks:.1f} chunks more"
        )
        times: dict[str, list[float]] = {"fungrad.dask": [], "by hand": []}
        for _ in range(3):
            for name, call in (("fungrad.dask", ours), ("by hand", by_hand)):
                taken, found = seconds(lambda call=call: call(w, x, y))
                times[name].append(taken)
                if call is ours:
                    assert equal(found, first), f"the results of two calls differ: {first} {found}"
        apart = [
            np.max(np.abs(a - b)) / np.max(np.abs(b)) for a, b in zip(first, found, strict=True)
        ]
        best = {name: min(taken) for name, taken in times.items()}
        print(
            f"fungrad.dask {best['fungrad.dask']:.2f} s, by hand {best['by hand']:.2f} s: "
            f"{best['fungrad.dask'] / best['by hand']:.2f}; value apart {apart[0]:.0e}, gradient "
            f"{apart[1]:.0e}"
        )
        threading.Timer(0.3 * best["fungrad.dask"], os.kill, (pids[0], signal.SIGKILL)).start()
        again = ours(w, x, y)
        print(f"with a worker killed: {'the same bits' if equal(again, first) else 'DIFFERS'}")


if __name__ == "__main__":
    main()
