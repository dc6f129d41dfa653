"""Loops over the elements of arrays: `python -m benchmarks.element_loops`.

ADBench's LSTM as its NumPy program is written (slices of gates, states in a list), loops of reads
`x[i]`, and loops of writes `out[i] = f(x[i])` against the same loop with a list and np.stack, eager
and compiled. Times are minima of CPU time of one interleaved run: what is compared is work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.gradbench.workloads import lstm

ROUNDS = 7
COMPILED = (100, 400, 1600)
"""How many writes are compiled."""


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def _layer(weight: Any, bias: Any, hidden: Any, cell: Any, x: Any) -> tuple[Any, Any]:
    gates = np.concatenate((x, hidden, x, hidden)) * weight + bias
    n = hidden.shape[0]
    forget, taken = _sigmoid(gates[0:n]), _sigmoid(gates[n : 2 * n])
    out, change = _sigmoid(gates[2 * n : 3 * n]), np.tanh(gates[3 * n :])
    cell = cell * forget + taken * change
    return out * np.tanh(cell), cell


def lstm_loss(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """The objective of ADBench's LSTM, character by character and layer by layer."""
    states = list(state)
    total = 0.0
    for t in range(len(sequence) - 1):
        x = sequence[t] * extra[0]
        for i in range(0, len(states), 2):
            x, cell = _layer(main[i], main[i + 1], states[i], states[i + 1], x)
            states[i], states[i + 1] = x, cell
        y = x * extra[1] + extra[2]
        total = total + np.sum(sequence[t + 1] * (y - np.log(np.sum(np.exp(y)) + 2.0)))
    return -total / sequence[1:].size


def reads(x: Any) -> Any:
    """A loop of reads."""
    total = 0.0
    for i in range(len(x)):
        total = total + np.sin(x[i]) * x[i]
    return total


def of_a_list(*numbers: Any) -> Any:
    """The same loop over a list of numbers."""
    total = 0.0
    for number in numbers:
        total = total + np.sin(number) * number
    return total


def writes(x: Any) -> Any:
    """A loop of writes."""
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = np.sin(x[i]) * x[i]
    return np.sum(out**2)


def stacked(x: Any) -> Any:
    """The same loop with a list."""
    return np.sum(np.stack([np.sin(x[i]) * x[i] for i in range(len(x))]) ** 2)


def written_sines(x: Any) -> Any:
    """A loop of writes in which little is computed."""
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = np.sin(x[i])
    return np.sum(out)


def stacked_sines(x: Any) -> Any:
    """The same loop with a list."""
    return np.sum(np.stack([np.sin(x[i]) for i in range(len(x))]))


def minima(candidates: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """The least CPU time of one call of each candidate, which take turns, in seconds."""
    found = dict.fromkeys(candidates, float("inf"))
    for _ in range(ROUNDS):
        for name, call in candidates.items():
            start = time.process_time()
            call()
            found[name] = min(found[name], time.process_time() - start)
    return found


def _line(title: str, times: Mapping[str, float], unit: str) -> None:
    listed = ", ".join(
        f"{name} {1e3 * t:.2f} ms ({t / times[unit]:.2f})" for name, t in times.items()
    )
    print(f"{title}: {listed}")


def _of_lstm(layers: int, characters: int) -> dict[str, Callable[[], Any]]:
    given = lstm(layers, characters)
    arguments = [given[name] for name in ("main_params", "extra_params", "state", "sequence")]
    gradient = fg.grad(lstm_loss, argnums=(0, 1))
    return {"f": lambda: lstm_loss(*arguments), "gradient": lambda: gradient(*arguments)}


def _compiled(x: Any) -> None:
    for title, transform in (("value", lambda f: f), ("gradient", fg.grad)):
        first: dict[str, float] = {}
        programs = {"np.stack": fg.jit(transform(stacked)), "writes": fg.jit(transform(writes))}
        for name, program in programs.items():
            start = time.process_time()
            program(x)
            first[name] = time.process_time() - start
        _line(f"first call of the {title} of {len(x)} writes, compiled", first, "np.stack")
        calls = {n: lambda program=p: program(x) for n, p in programs.items()}  # type: ignore[misc]
        _line(f"{title} of {len(x)} writes, compiled", minima(calls), "np.stack")


def main(count: int = 10_000, characters: int = 1024, compiled: Sequence[int] = COMPILED) -> None:
    """Prints the times, each with its ratio to a reference of the same line."""
    for layers in (2, 4):
        _line(f"LSTM l{layers}_c{characters}, eager", minima(_of_lstm(layers, characters)), "f")
    x = np.linspace(0.1, 1.0, count)
    numbers = list(x)
    by_list = fg.grad(of_a_list, argnums=tuple(range(count)))
    np.testing.assert_allclose(fg.grad(reads)(x), by_list(*numbers), rtol=1e-12)
    calls = {"list": lambda: by_list(*numbers), "reads": lambda: fg.grad(reads)(x)}
    _line(f"gradient of {count} reads, eager", minima(calls), "list")
    for title, ours, theirs in (
        ("writes", writes, stacked),
        ("writes of sines", written_sines, stacked_sines),
    ):
        np.testing.assert_allclose(fg.grad(ours)(x), fg.grad(theirs)(x), rtol=1e-12)
        calls = {"np.stack": lambda f=theirs: fg.grad(f)(x), "writes": lambda f=ours: fg.grad(f)(x)}
        _line(f"gradient of {count} {title}, eager", minima(calls), "np.stack")
    for size in compiled:
        _compiled(np.linspace(0.1, 1.0, size))
    square = fg.grad(lambda x: x * x)
    calls = {"1000 gradients of x * x": lambda: [square(2.0) for _ in range(1000)]}
    _line("outermost eager calls", minima(calls), "1000 gradients of x * x")


if __name__ == "__main__":
    main()
