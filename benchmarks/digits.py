"""A network trained on scikit-learn's digits by Adam: `python -m benchmarks.digits`.

Layers of 64, 64 and 10 units, minibatches of 64, 20 epochs: the program of the tutorial, in each
library that is installed, with its own Adam, from the same start over the same batches. Each time
is the least CPU time of interleaved rounds on one core, compilation apart. `--single` takes single
precision, `--rounds N` says how many there are.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import fungrad as fg
from fungrad import nn, optimizers
from fungrad.data.minibatches import minibatches

SIZES, BATCH, EPOCHS, RATE = (64, 64, 10), 64, 20, 1e-3
Params = list[dict[str, Any]]
Batches = list[tuple[Any, Any]]
Training = Callable[[Params, Batches], Params]
"""The parameters after a step of Adam for each batch, as NumPy's arrays."""


def initial(rng: np.random.Generator, dtype: Any) -> Params:
    """Weights that keep the variance of the layer before, and no bias."""
    return [
        {"w": (rng.normal(size=(m, n)) / np.sqrt(m)).astype(dtype), "b": np.zeros(n, dtype)}
        for m, n in pairwise(SIZES)
    ]


def network(xp: Any, params: Params, x: Any) -> Any:
    """The scores of the ten digits."""
    *hidden, last = params
    for layer in hidden:
        x = xp.tanh(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]


def compiled(library: Any, xp: Any, optimizer: Any, functions: Any, cross_entropy: Any) -> Training:
    """A whole step compiled: `functions` is the module of `apply_updates`."""

    def loss(params: Params, x: Any, labels: Any) -> Any:
        return xp.mean(cross_entropy(network(xp, params, x), labels))

    @library.jit
    def step(params: Params, state: Any, x: Any, labels: Any) -> Any:
        value, grads = library.value_and_grad(loss)(params, x, labels)
        updates, state = optimizer.update(grads, state, params)
        return functions.apply_updates(params, updates), state, value

    def train(params: Params, batches: Batches) -> Params:
        state = optimizer.init(params)
        for x, labels in batches:
            params, state, _ = step(params, state, x, labels)
        return params

    return train


def of_fungrad() -> Training:
    """The whole step compiled, as in the tutorial."""
    entropy = nn.softmax_cross_entropy_with_integer_labels
    return compiled(fg, np, optimizers.adam(RATE), optimizers, entropy)


def of_jax() -> Training:
    """optax's Adam, and the whole step compiled."""
    import jax
    import jax.numpy as jnp
    import optax

    jax.config.update("jax_enable_x64", True)
    entropy = optax.softmax_cross_entropy_with_integer_labels
    train = compiled(jax, jnp, optax.adam(RATE), optax, entropy)

    def between_arrays(params: Params, batches: Batches) -> Params:
        trained = train(jax.tree.map(jnp.asarray, params), batches)
        return jax.tree.map(np.asarray, trained)

    return between_arrays


def of_autograd() -> Training:
    """The Adam of autograd.misc.optimizers."""
    import autograd
    import autograd.numpy as anp
    from autograd.misc.optimizers import adam
    from autograd.scipy.special import logsumexp

    def train(params: Params, batches: Batches) -> Params:
        def loss(params: Params, i: int) -> Any:
            x, labels = batches[i]
            scores = network(anp, params, x)
            right = scores[anp.arange(len(labels)), labels]
            return anp.mean(logsumexp(scores, axis=1) - right)

        return adam(autograd.grad(loss), params, num_iters=len(batches), step_size=RATE)

    return train


def of_torch() -> Training:
    """Modules and torch.optim.Adam, not compiled."""
    import torch

    torch.set_num_threads(1)

    def train(params: Params, batches: Batches) -> Params:
        layers = [torch.nn.Linear(m, n) for m, n in pairwise(SIZES)]
        model = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1])
        model.to(torch.float64 if params[0]["w"].dtype == np.float64 else torch.float32)
        with torch.no_grad():
            for layer, start in zip(layers, params, strict=True):
                layer.weight.copy_(torch.from_numpy(start["w"].T))
                layer.bias.copy_(torch.from_numpy(start["b"]))
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
        for x, labels in batches:
            optimizer.zero_grad()
            scores = model(torch.from_numpy(x))
            torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels)).backward()
            optimizer.step()
        weights = [(m.weight.detach().numpy().T, m.bias.detach().numpy()) for m in layers]
        return [{"w": w, "b": b} for w, b in weights]

    return train


LIBRARIES: dict[str, tuple[tuple[str, ...], Callable[[], Training]]] = {
    "fungrad": ((), of_fungrad),
    "JAX, optax": (("jax", "optax"), of_jax),
    "autograd": (("autograd",), of_autograd),
    "PyTorch": (("torch",), of_torch),
}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.digits", description=__doc__)
    parser.add_argument("--single", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from sklearn.datasets import load_digits

    dtype = np.float32 if options.single else np.float64
    pictures, digits = load_digits(return_X_y=True)
    pictures = (pictures / 16.0).astype(dtype)
    test = np.arange(len(digits)) % 5 == 0
    start = initial(np.random.default_rng(0), dtype)
    batches = list(minibatches((pictures[~test], digits[~test]), BATCH, rng=1, epochs=EPOCHS))
    trainings, first = {}, {}
    for name, (modules, make) in LIBRARIES.items():
        if all(importlib.util.find_spec(module) for module in modules):
            trainings[name] = make()
            began = time.process_time()
            trainings[name](start, batches[:1])
            first[name] = time.process_time() - began
    least, ends = dict.fromkeys(trainings, np.inf), {}
    for _ in range(options.rounds):
        for name, train in trainings.items():
            began = time.process_time()
            ends[name] = train(start, batches)
            least[name] = min(least[name], time.process_time() - began)
    print(f"{len(batches)} steps, {np.dtype(dtype).name}; CPU seconds on one core")
    print(f"{'':12} {'first step':>11} {'training':>9} {'fungrad over it':>16} {'accuracy':>9}")
    for name, end in ends.items():
        scores = network(np, end, pictures[test])
        accuracy = np.mean(np.argmax(scores, axis=1) == digits[test])
        ratio = least["fungrad"] / least[name]
        print(f"{name:12} {first[name]:11.2f} {least[name]:9.4f} {ratio:16.2f} {accuracy:9.4f}")


if __name__ == "__main__":
    main()
