"""Native code, NumPy's backend, hand-written NumPy and jitted JAX: `python -m benchmarks.native`.

Tables of Markdown, a section each (`--only`): array functions (gradient alone, value and gradient),
the cases of `python -m benchmarks` and of `benchmarks.everyday`, loops, small calls, what building
a program takes, and two threads over one. Times are minima of interleaved rounds: CPU time of one
pinned core, but for the threads, where it is wall time. JAX gets its own arrays, and gives them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks import cases, everyday, libraries, native_loops
from benchmarks.gradbench import descent, gmm, ode, particle, saddle, workloads
from benchmarks.libraries import HAND
from benchmarks.native_loops import chosen, least
from fungrad.compiler.cost_model import tuned
from fungrad.control_flow.call import compiled

NATIVE, NUMPY, JAX = "native", "numpy", "JAX"
Calls = dict[str, Callable[[], Any]]


# --- array functions ------------------------------------------------------------------------------


def huber(np: Any, x: Any) -> Any:
    return np.sum(np.where(np.abs(x) < 1.0, 0.5 * x**2, np.abs(x) - 0.5))


def clipped(np: Any, x: Any) -> Any:
    return np.sum(np.clip(x, -1.0, 1.0) ** 2)


def elu(np: Any, x: Any) -> Any:
    return np.sum(np.where(x > 0.0, x, np.expm1(x)))


def gelu(np: Any, x: Any) -> Any:
    return np.sum(0.5 * x * (1.0 + np.tanh(0.79788456 * (x + 0.044715 * x**3))))


def mixed(np: Any, x: Any) -> Any:
    return np.sum(np.tanh(x) * np.exp(-x * x) + np.log1p(x * x) * np.sin(x))


def sines(np: Any, x: Any) -> Any:
    for _ in range(4):
        x = 1.1 * np.sin(x) + np.cos(x)
    return np.sum(x)


def tanh_exp_sqrt(np: Any, x: Any) -> Any:
    for _ in range(4):
        x = np.sqrt(np.exp(-np.tanh(x) * 1.01 - 0.1) + 1.0)
    return np.sum(x)


def rosenbrock(np: Any, x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def real_power(np: Any, x: Any) -> Any:
    return np.sum((x * x + 1.0) ** 1.7)


def laplacian(np: Any, x: Any) -> Any:
    around = x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1]
    return np.sum((around - 4.0 * x[1:-1, 1:-1]) ** 2)


def variation(np: Any, x: Any) -> Any:
    down, right = x[1:, 1:] - x[:-1, 1:], x[1:, 1:] - x[1:, :-1]
    return np.sum(np.sqrt(down**2 + right**2 + 1e-6))


def heat(np: Any, x: Any) -> Any:
    around = sum(np.roll(x, shift, axis) for shift in (1, -1) for axis in (0, 1))
    return np.sum((x + 0.1 * (around - 4.0 * x)) ** 2)


def log_sum_exp(axis: int, np: Any, x: Any) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    return np.sum(np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top)


def softmax(np: Any, x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum((e / np.sum(e, axis=1, keepdims=True)) ** 2)


def layer_norm(np: Any, x: Any) -> Any:
    c = x - np.mean(x, axis=1, keepdims=True)
    return np.sum(np.tanh(c / np.sqrt(np.mean(c * c, axis=1, keepdims=True) + 1e-5)))


def gathered(np: Any, x: Any) -> Any:
    places = (np.arange(x.size) * 7919) % x.size
    return np.sum(np.sin(x[places]) * x)


def chain(np: Any, x: Any) -> Any:
    for _ in range(25):
        x = np.tanh(x * 1.01 + 0.1)
        x = np.sqrt(x * x + 1.0)
    return np.sum(x)


VECTOR, IMAGE = (200_000,), (512, 512)
ARRAYS: tuple[tuple[Callable[..., Any], tuple[int, ...]], ...] = (
    *((f, VECTOR) for f in (huber, clipped, elu, gelu, mixed, sines, tanh_exp_sqrt, rosenbrock)),
    *((f, (1_000_000,)) for f in (gelu, mixed, rosenbrock)),
    (real_power, VECTOR),
    *((f, IMAGE) for f in (laplacian, variation, heat)),
    (partial(log_sum_exp, 0), (25, 20_000)),
    (partial(log_sum_exp, 1), (20_000, 25)),
    *((f, (2_000, 100)) for f in (softmax, layer_norm)),
    (gathered, VECTOR),
)
"""Twenty functions of one array, of so many normal numbers."""


# --- candidates -----------------------------------------------------------------------------------


def jax() -> Any:
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax


def ours(f: Callable[..., Any], args: tuple[Any, ...]) -> Calls:
    """Calls of a compiled function on both backends; `f(np, fg)` makes it."""
    found: Calls = {}
    for backend in (NATIVE, NUMPY):
        chosen(backend)
        found[backend] = partial(fg.jit(f(np, fg)), *args)
        found[backend]()
    return found


def compared(f: Callable[..., Any], args: tuple[Any, ...]) -> Calls:
    """The same, and a call by JAX where it is installed."""
    found = ours(f, args)
    if libraries.importable("jax"):
        them = jax()
        given = them.tree_util.tree_map(them.numpy.asarray, args)
        theirs = them.jit(f(them.numpy, them))
        found[JAX] = lambda: them.block_until_ready(theirs(*given))
    return found


def arrays(transform: str) -> Iterator[tuple[str, Calls]]:
    for f, shape in ARRAYS:
        x = np.random.default_rng(0).normal(size=shape)
        wanted = lambda np, ad, f=f: getattr(ad, transform)(partial(f, np))  # noqa: E731
        yield named(f, shape), compared(wanted, (x,))


def named(f: Callable[..., Any], shape: tuple[int, ...]) -> str:
    name = getattr(f, "__name__", "log_sum_exp").replace("_", " ")
    return f"{name} {'x'.join(f'{n:g}' for n in shape)}"


def whole() -> Iterator[tuple[str, Calls]]:
    """The cases of `python -m benchmarks`."""
    for case in cases.ALL:
        if case.large:
            continue
        args = case.arguments()
        wanted = lambda np, ad, case=case: case.derivative(np, terms(ad))  # noqa: E731
        yield case.name, {HAND: partial(case.by_hand, *args), **compared(wanted, args)}


def terms(ad: Any) -> Any:
    if ad is not fg:
        return libraries.LIBRARIES[libraries.JAX]().ad
    return libraries.LIBRARIES[libraries.FUNGRAD]().ad


def every_day(dtype: Any) -> Iterator[tuple[str, Calls]]:
    for f, shapes in everyday.FUNCTIONS:
        args = tuple(everyday.arguments(shapes, dtype))
        wanted = lambda np, ad, f=f: ad.value_and_grad(partial(f, np))  # noqa: E731
        yield f.__name__.replace("_", " "), compared(wanted, args)


def loops(dtype: Any) -> Iterator[tuple[str, Calls]]:
    for name, (f, args) in native_loops.CASES.items():
        given = tuple([np.asarray(x, dtype) for x in args])
        wanted = lambda np, ad, f=f: ad.value_and_grad(partial(f, np, ad.lax))  # noqa: E731
        yield name, compared(wanted, given)


def complex_energy(xp: Any, lax: Any, z: Any) -> Any:
    return xp.sum(xp.abs(z * (1j - z)) ** 2)


def complex_square(xp: Any, lax: Any, c: Any) -> Any:
    sizes = lax.scan(lambda z, _: (z * z + c[0], xp.abs(z)), 0 * c[0], None, length=1000)[1]
    return xp.sum(sizes)


def schroedinger(xp: Any, lax: Any, psi: Any) -> Any:
    x = xp.linspace(-4.0, 4.0, len(psi))

    def step(psi: Any, _: Any) -> Any:
        second = xp.roll(psi, 1) - 2 * psi + xp.roll(psi, -1)
        return psi * xp.exp(-0.01j * x * x) + 0.05j * second, None

    return xp.sum(xp.abs(lax.scan(step, psi, None, length=50)[0]) ** 2 * x)


def complex_numbers() -> Iterator[tuple[str, Calls]]:
    rng = np.random.default_rng(0)
    for f, n in (complex_energy, 100_000), (complex_square, 1), (schroedinger, 200):
        z = 0.2 * (rng.normal(size=n) + 1j * rng.normal(size=n))
        wanted = lambda np, ad, f=f: ad.value_and_grad(partial(f, np, ad.lax))  # noqa: E731
        yield named(f, (n,)), compared(wanted, (z,))


def other(module: Any) -> Any:
    """A module of benchmarks.gradbench as JAX's program: the same text with other imports."""
    with open(module.__file__) as file:
        text = file.read().split("FUNCTIONS")[0]
    for mine, theirs in (
        ("import numpy as np", "import jax.numpy as np"),
        ("import fungrad as fg", "import jax as fg"),
        ("from fungrad import", "from jax import"),
    ):
        text = text.replace(mine, theirs)
    made = SimpleNamespace(__name__=module.__name__)
    exec(compile(text, module.__file__, "exec"), made.__dict__)
    if hasattr(made, "MODES") and module is not descent:
        theirs = other(descent)
        made.__dict__.update(MODES=theirs.MODES, minimum=theirs.minimum)
    return made


def gradbench() -> Iterator[tuple[str, Calls]]:
    """Of GradBench: initial value problems, descents within descents, and mixtures."""
    of = {fg: (ode, descent, particle, saddle, gmm)}
    if libraries.importable("jax"):
        of[jax()] = tuple(map(other, of[fg]))
    for size, steps in ((5, 1_000), (20, 100), (100_000, 10)):
        x = np.random.default_rng(0).uniform(size=size)
        wanted = lambda np, ad, s=steps: ad.grad(partial(of[ad][0].last, s=s))  # noqa: E731
        yield f"ode {size:g}, {steps} steps", compared(wanted, (x,))

    def of_particle(modes: str, np: Any, ad: Any) -> Any:
        _, d, p, *_ = of[ad]
        inner, outer = d.MODES[modes[1]], d.MODES[modes[0]]
        return lambda w: d.minimum(lambda w: p.crossing(w, inner), w, outer)

    def of_saddle(modes: str, np: Any, ad: Any) -> Any:
        _, d, _, s, _ = of[ad]
        return lambda x: s.saddle(x, d.MODES[modes[0]], d.MODES[modes[1]])

    for name, f, x in (
        ("particle", of_particle, np.float64(0.0)),
        ("saddle", of_saddle, np.ones(2)),
    ):
        yield f"{name}, forward in forward", compared(partial(f, "ff"), (x,))
        yield f"{name}, reverse in reverse", ours(partial(f, "rr"), (x,))
    for n in (1_000, 10_000):
        given = workloads.gmm(10, 25, n)
        free = {name: given[name] for name in gmm.FREE}
        wanted = lambda np, ad: ad.grad(partial(of[ad][-1].objective, m=0, gamma=1.0))  # noqa: E731
        yield f"gmm d=10 K=25, {n} points", compared(wanted, (free, given["x"]))


def small() -> Iterator[tuple[str, Calls]]:
    x = np.linspace(-1.0, 1.0, 10)
    grad = lambda f: lambda np, ad: ad.grad(partial(f, np))  # noqa: E731
    yield "chain of 100 operations, gradient", compared(grad(chain), (x,))
    tiny = lambda np, x: np.sum(x * x * 0.5 + x)  # noqa: E731
    yield "x * x / 2 + x, sum", compared(lambda np, ad: partial(tiny, np), (x,))
    yield (
        "x * x / 2 + x, sum, value and gradient",
        compared(lambda np, ad: ad.value_and_grad(partial(tiny, np)), (x,)),
    )


SECTIONS: Mapping[str, Callable[[], Iterator[tuple[str, Calls]]]] = {
    "gradients": partial(arrays, "grad"),
    "values": partial(arrays, "value_and_grad"),
    "cases": whole,
    "everyday": partial(every_day, np.float64),
    "everyday, single": partial(every_day, np.float32),
    "loops": partial(loops, np.float64),
    "loops, single": partial(loops, np.float32),
    "complex": complex_numbers,
    "gradbench": gradbench,
    "small": small,
}


# --- tables ---------------------------------------------------------------------------------------


def agree(name: str, calls: Calls) -> None:
    """Raises where results differ."""
    results = []
    for candidate, call in calls.items():
        chosen(candidate)
        results.append([np.asarray(leaf) for leaf in fg.tree_leaves(call())])
    for found in results[1:]:
        for a, b in zip(results[0], found, strict=True):
            rest = 2e-3 if a.dtype == np.float32 else 1e-6
            size = np.max(np.abs(b), initial=1e-300)
            if not np.max(np.abs(a - b), initial=0.0) <= rest * size:
                print(f"{name}: results differ by {np.max(np.abs(a - b)) / size:.1e}", flush=True)


def table(title: str, rows: Iterator[tuple[str, Calls]], words: list[str]) -> None:
    """Prints the minima of a section, the ratios, and their means."""
    heads = "native / JAX | NumPy's / JAX | native / by hand"
    print(f"\n| {title}, us | native | NumPy's backend | JAX jit | by hand | {heads} |")
    print(f"|{'---|' * 8}")
    pairs = (NATIVE, JAX), (NUMPY, JAX), (NATIVE, HAND)
    ratios: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}
    for name, calls in rows:
        if words and not any(word in name for word in words):
            continue
        agree(name, calls)
        us = least(calls)
        cells = [microseconds(us[n]) if n in us else "" for n in (NATIVE, NUMPY, JAX, HAND)]
        for (one, two), found in ratios.items():
            known = one in us and two in us
            cells.append(f"{us[one] / us[two]:.3g}" if known else "")
            found += [us[one] / us[two]] if known else []
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    for title, of in (("geometric mean", statistics.geometric_mean), ("worst", max)):
        cells = [f"{of(found):.3g}" if found else "" for found in ratios.values()]
        print(f"| {title} | | | | | {' | '.join(cells)} |", flush=True)


def microseconds(us: float) -> str:
    """A cell."""
    return f"{us:,.0f}" if us >= 100.0 else f"{us:.3g}"


def builds(words: list[str]) -> None:
    """CPU time of lowering and compiling, ours without files, over JAX's."""
    os.environ["FUNGRAD_CACHE"] = "0"
    chosen(NATIVE)
    them = jax()
    print("\n| built, ms | native | JAX jit | ratio |\n|---|---|---|---|")
    ratios = []
    for f, shape in ARRAYS:
        x = np.random.default_rng(0).normal(size=shape)
        if words and not any(word in named(f, shape) for word in words):
            continue
        best = {NATIVE: np.inf, JAX: np.inf}
        given = them.numpy.asarray(x)
        for _ in range(4):
            start = time.process_time()
            compiled(fg.jit(fg.value_and_grad(lambda x, f=f: f(np, x))).lower(x).graph)
            middle = time.process_time()
            them.jit(them.value_and_grad(lambda x, f=f: f(them.numpy, x))).lower(given).compile()
            end = time.process_time()
            for name, spent in ((NATIVE, middle - start), (JAX, end - middle)):
                best[name] = min(best[name], 1e3 * spent)
        ratios.append(best[NATIVE] / best[JAX])
        print(f"| {named(f, shape)} | {best[NATIVE]:.1f} | {best[JAX]:.1f} | {ratios[-1]:.2f} |")
    print(f"| geometric mean | | | {statistics.geometric_mean(ratios):.2f} |", flush=True)


def threads(words: list[str]) -> None:
    """Wall time of two threads over one, where one takes over a millisecond."""
    print("\n| wall time, ms | one thread | two | ratio |\n|---|---|---|---|")
    chosen(NATIVE)
    ratios = []
    for f, shape in (*ARRAYS, (sines, (1_000_000,)), (tanh_exp_sqrt, (1_000_000,))):
        if words and not any(word in named(f, shape) for word in words):
            continue
        x = np.random.default_rng(0).normal(size=shape)
        run = fg.jit(fg.value_and_grad(lambda x, f=f: f(np, x)))
        best = {1: np.inf, 2: np.inf}
        for _ in range(60):
            for count in best:
                fg.config.num_threads = count
                run(x)
                start = time.perf_counter()
                run(x)
                best[count] = min(best[count], 1e3 * (time.perf_counter() - start))
        if best[1] > 1.0:
            ratios.append(best[2] / best[1])
            print(f"| {named(f, shape)} | {best[1]:.2f} | {best[2]:.2f} | {ratios[-1]:.2f} |",
                  flush=True)  # fmt: skip
    print(f"| geometric mean | | | {statistics.geometric_mean(ratios):.2f} |", flush=True)


def products_in_loops(words: list[str]) -> None:
    """CPU time of a recurrent network's gradient: products as loop nests, and by the BLAS."""
    print("\n| 100 steps, us | terms | loop nests | BLAS | ratio |\n|---|---|---|---|---|")
    chosen(NATIVE)
    rng, most = np.random.default_rng(0), tuned.product_terms
    for rows, n in ((1, 128), (4, 64), (1, 256), (4, 128), (16, 64), (32, 64), (4, 256), (1, 512)):
        name = f"{rows}x{n}"
        if words and not any(word in name for word in words):
            continue
        w, h = rng.normal(size=(n, n)) / n**0.5, rng.normal(size=(rows, n))
        xs, calls = rng.normal(size=(100, rows, n)), {}
        for way, terms in (("nest", 1 << 30), ("BLAS", 0)):
            tuned.product_terms = terms
            step = lambda h, x, w: (np.tanh(h @ w + x), None)  # noqa: E731
            last = lambda w, h=h, xs=xs, f=step: fg.lax.scan(partial(f, w=w), h, xs)[0]  # noqa: E731
            calls[way] = partial(fg.jit(fg.grad(lambda w, f=last: np.sum(f(w)))), w)
            calls[way]()
        us = dict.fromkeys(calls, np.inf)
        for _, (way, call) in itertools.product(range(20), calls.items()):
            start = time.process_time()
            call()
            us[way] = min(us[way], 1e6 * (time.process_time() - start))
        cells = f"{us['nest']:,.0f} | {us['BLAS']:,.0f} | {us['nest'] / us['BLAS']:.2f}"
        print(f"| {name} | {rows * n * n:,} | {cells} |", flush=True)
    tuned.product_terms = most


def main() -> None:
    """Prints the chosen sections."""
    others = {"builds": builds, "products": products_in_loops}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="parts of names of cases; all without any")
    parser.add_argument("--only", action="append", choices=[*SECTIONS, *others, "threads"])
    given = parser.parse_args()
    wanted = given.only or [*SECTIONS, *others, "threads"]
    if "threads" in wanted:
        threads(given.cases)
        wanted.remove("threads")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    fg.config.num_threads = 1
    for title in wanted:
        if title in others:
            others[title](given.cases)
        else:
            table(title, SECTIONS[title](), given.cases)


if __name__ == "__main__":
    main()
