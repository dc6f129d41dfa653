"""Random programs of reads, writes, views and aliases, compared with plain NumPy.

A program works on a list of arrays. Each step makes an array from others (a view, a copy, a new
one), makes an alias, or writes into one. Values have to be NumPy's exactly (with jit up to
rounding), derivatives those of a complex step through plain NumPy.

    python -m tests.fuzz.writes --programs 10000 --seed 0
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg

Step = Callable[[list[Any]], None]
SMALL = 64
"""The most elements of an array."""


class Program:
    """A random program: a function from an array of shape (2, 3) to a number."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.steps: list[tuple[str, Step]] = []
        arrays: list[Any] = [self.start()]
        for _ in range(int(self.random.integers(4, 16))):
            self._grow(arrays)
        self.weights = [self.random.integers(-2, 3, np.shape(a)) / 2.0 for a in arrays]

    def start(self) -> Any:
        """The point at which the program is made and run."""
        return np.array([[0.5, -1.0, 1.5], [0.25, 2.0, -0.75]])

    def __str__(self) -> str:
        lines = [f"    {text}" for text, _ in self.steps]
        return "\n".join(["a = [x]", *lines])

    def __call__(self, x: Any) -> Any:
        arrays = [x]
        for _, step in self.steps:
            step(arrays)
        total: Any = 0.0
        for array, weight in zip(arrays, self.weights, strict=True):
            total = total + np.sum(array * weight)
        return total

    # --- making it --------------------------------------------------------------------------------

    def _grow(self, arrays: list[Any]) -> None:
        """Adds a step that runs with NumPy."""
        while True:
            text, step = self._step(arrays)
            before = [np.array(a) for a in arrays]
            try:
                step(arrays)
            except (ValueError, IndexError):
                for a, b in zip(arrays, before, strict=False):
                    if a.flags.writeable:
                        a[...] = b
                del arrays[len(before) :]
                continue
            big = max(float(np.max(np.abs(a), initial=0.0)) for a in arrays)
            if arrays[-1].size <= SMALL and big < 1e3 and arrays[-1].ndim < 5:
                self.steps.append((text, step))
                return
            del arrays[len(before) :]
            for a, b in zip(arrays, before, strict=True):
                if a.flags.writeable:
                    a[...] = b

    def _step(self, arrays: list[Any]) -> tuple[str, Step]:
        pick = self.random.integers
        i, j = int(pick(len(arrays))), int(pick(len(arrays)))
        kind = str(self.random.choice(["view", "view", "write", "write", "write", "new", "alias"]))
        if not arrays[i].flags.writeable and kind == "write":
            kind = "view"
        return getattr(self, f"_{kind}")(arrays, i, j)

    def _alias(self, arrays: list[Any], i: int, j: int) -> tuple[str, Step]:
        return f"a.append(a[{i}])", lambda a: a.append(a[i])

    def _view(self, arrays: list[Any], i: int, j: int) -> tuple[str, Step]:
        x = arrays[i]
        index = self._index(x.shape, advanced=self.random.random() < 0.2)
        order = tuple(int(k) for k in self.random.permutation(x.ndim))
        axis = int(self.random.integers(max(x.ndim, 1)))
        shape = self._shape(x.size)
        choices: list[tuple[str, Callable[[Any], Any]]] = [
            (f"[{index}]", lambda v: v[index]),
            (f"[{index}]", lambda v: v[index]),
            (f".reshape({shape})", lambda v: v.reshape(shape)),
            (".ravel()", lambda v: v.ravel()),
            (".flatten()", lambda v: v.flatten()),
            (".T", lambda v: v.T),
            (f".transpose({order})", lambda v: v.transpose(order)),
            (f"flip {axis}", lambda v: np.flip(v, axis)),
            (f"expand {axis}", lambda v: np.expand_dims(v, axis)),
            ("squeeze", lambda v: np.squeeze(v)),
            (f"split {axis}", lambda v: np.array_split(v, 2, axis)[1]),
            ("diagonal", lambda v: np.diagonal(v)),
            ("rot90", lambda v: np.rot90(v)),
            ("atleast_3d", lambda v: np.atleast_3d(v)),
            ("broadcast_to", lambda v: np.broadcast_to(v, (2, *v.shape))),
            ("last row", lambda v: list(v)[-1]),
            ("copy", lambda v: v.copy()),
            ("np.array", lambda v: np.array(v)),
            ("asarray", lambda v: np.asarray(v)),
            ("+", lambda v: +v),
        ]
        name, view = choices[int(self.random.integers(len(choices)))]

        def step(a: list[Any]) -> None:
            found = view(a[i])
            a.append(found if np.ndim(found) else np.array([0.5]) * found)

        return f"a.append(a[{i}] {name})", step

    def _new(self, arrays: list[Any], i: int, j: int) -> tuple[str, Step]:
        shape = self._shape(int(self.random.integers(1, 7)))
        number = float(self.random.integers(-3, 4)) / 2.0
        choices: list[tuple[str, Callable[[list[Any]], Any]]] = [
            (f"a[{i}] * {number}", lambda a: a[i] * number),
            (f"a[{i}] + a[{j}]", lambda a: a[i] + a[j]),
            (f"a[{i}] * a[{j}]", lambda a: a[i] * a[j]),
            (f"np.zeros({shape})", lambda a: np.zeros(shape, a[0].dtype)),
            (f"np.full({shape}, {number})", lambda a: np.full(shape, number, a[0].dtype)),
            (f"np.ones_like(a[{i}])", lambda a: np.ones_like(a[i])),
            (f"np.concatenate(a[{i}], a[{j}])", lambda a: np.concatenate([a[i], a[j]])),
            (f"np.stack(a[{i}])", lambda a: np.stack([a[i], a[i]], -1)),
            (f"np.where(a[{i}])", lambda a: np.where(np.arange(a[i].shape[-1]) > 0, a[i], a[j])),
            (f"np.sum(a[{i}], 0)", lambda a: np.sum(a[i], axis=0, keepdims=True)),
        ]
        name, make = choices[int(self.random.integers(len(choices)))]
        return f"a.append({name})", lambda a: a.append(make(a))

    def _write(self, arrays: list[Any], i: int, j: int) -> tuple[str, Step]:
        x = arrays[i]
        index = self._index(x.shape, advanced=self.random.random() < 0.4)
        part = np.shape(x[index])
        number = float(self.random.integers(-3, 4)) / 2.0
        names, value = self._value(arrays, part)
        whole_name, whole = self._value(arrays, x.shape)
        once = float(self.random.integers(1, 5)) / 2.0
        flat = sorted({int(k) for k in self.random.integers(0, max(x.size, 1), 3)})

        def set_part(a: list[Any]) -> None:
            a[i][index] = value(a)

        def add_part(a: list[Any]) -> None:
            a[i][index] += value(a)

        def scale_part(a: list[Any]) -> None:
            a[i][index] *= once

        def add(a: list[Any]) -> None:
            a[i] += whole(a)

        def scale(a: list[Any]) -> None:
            a[i] *= number

        def put_flat(a: list[Any]) -> None:
            a[i].flat[flat] = number

        def each_row(a: list[Any]) -> None:
            for row in a[i]:
                row += 0.5

        def swap(a: list[Any]) -> None:
            a[i][0], a[i][-1] = a[i][-1] * 1.0, a[i][0] * 1.0

        choices: list[tuple[str, Step]] = [
            (f"a[{i}][{index}] = {names}", set_part),
            (f"a[{i}][{index}] = {names}", set_part),
            (f"a[{i}][{index}] += {names}", add_part),
            (f"a[{i}][{index}] += {names}", add_part),
            (f"a[{i}][{index}] *= {once}", scale_part),
            (f"a[{i}] += {whole_name}", add),
            (f"a[{i}] *= {number}", scale),
            (f"np.add(a[{i}], {whole_name}, out=a[{i}])", lambda a: np.add(a[i], whole(a), a[i])),
            (
                f"np.multiply(a[{i}], {once}, out=a[{i}], where=...)",
                lambda a: np.multiply(
                    a[i], once, out=a[i], where=np.arange(a[i].shape[-1]) % 2 == 0
                ),
            ),
            (f"np.add.at(a[{i}], {flat})", lambda a: np.add.at(a[i], [0, 0, -1], number)),
            (f"np.copyto(a[{i}], {whole_name})", lambda a: np.copyto(a[i], whole(a))),
            (f"np.put(a[{i}], {flat}, {number})", lambda a: np.put(a[i], flat, number)),
            (f"a[{i}].flat[{flat}] = {number}", put_flat),
            (f"a[{i}].fill({number})", lambda a: a[i].fill(number)),
            (f"for row in a[{i}]: row += 0.5", each_row),
            (f"a[{i}][0], a[{i}][-1] = a[{i}][-1], a[{i}][0]", swap),
            (f"np.fill_diagonal(a[{i}])", lambda a: np.fill_diagonal(a[i], number)),
        ]
        name, step = choices[int(self.random.integers(len(choices)))]
        if x.ndim < 2 and step is each_row:
            name, step = choices[0]
        return name, step

    def _value(self, arrays: list[Any], shape: tuple[int, ...]) -> tuple[str, Any]:
        """A value to write to elements of a shape: an array of the program, or a number."""
        found = [
            k
            for k, a in enumerate(arrays)
            if a.ndim <= len(shape)
            and all(n in (1, m) for n, m in zip(a.shape[::-1], shape[::-1], strict=False))
        ]
        if found and self.random.random() < 0.7:
            k = int(self.random.choice(found))
            return f"a[{k}]", lambda a: a[k]
        number = float(self.random.integers(-4, 5)) / 2.0
        if self.random.random() < 0.5:
            return f"{number}", lambda a: number
        return f"a[0].sum() * {number / 4}", lambda a: a[0].sum() * (number / 4)

    def _shape(self, size: int) -> tuple[int, ...]:
        """A random shape of so many elements."""
        shape: list[int] = []
        while size > 1 and len(shape) < 3:
            divisors = [d for d in range(2, size + 1) if size % d == 0]
            shape.append(int(self.random.choice(divisors)))
            size //= shape[-1]
        return tuple([*shape, size] if size > 1 or not shape else shape)

    def _index(self, shape: tuple[int, ...], advanced: bool) -> Any:
        """A random index of an array of a shape."""
        entries: list[Any] = []
        random = self.random
        once = advanced
        for n in shape:
            roll = random.random()
            if once and n and roll < 0.6:
                once = False
                if random.random() < 0.3:
                    entries.append(np.arange(n) % 2 == int(random.integers(2)))
                else:
                    entries.append(random.integers(-n, n, int(random.integers(1, 4))))
            elif roll < 0.3 and n:
                entries.append(int(random.integers(-n, n)))
            elif roll < 0.85:
                bounds = [None, *range(-n, n + 1)]
                start, stop = (bounds[int(random.integers(len(bounds)))] for _ in "ab")
                step = [None, None, 1, 2, -1, -2][int(random.integers(6))]
                entries.append(slice(start, stop, step))
            elif roll < 0.9:
                entries.append(slice(None))
            else:
                entries.append(None)
                entries.append(slice(None))
        if random.random() < 0.2:
            entries = [*entries[: len(entries) // 2], Ellipsis]
        return tuple(entries)


# --- the comparison -------------------------------------------------------------------------------


def check(program: Program, contexts: tuple[str, ...]) -> None:
    """Compares a program with NumPy under transforms.

    Raises:
      AssertionError: if a value or a derivative differs.
    """
    x = program.start()
    random = np.random.default_rng(0)
    t, u = random.integers(-2, 3, x.shape) / 2.0, random.integers(-2, 3, x.shape) / 2.0
    expected = float(program(x.copy()))
    slope = _slope(program, x, t)
    scale = 1.0 + abs(expected) + abs(slope)
    value, pullback = fg.vjp(program, x)
    assert value == expected, f"vjp: {value!r} for {expected!r}"
    gradient = pullback(1.0)[0]
    _close("gradient", np.sum(gradient * t), slope, scale)
    for context in contexts:
        if context == "jvp":
            found, moved = fg.jvp(program, (x,), (t,))
            assert found == expected, f"jvp: {found!r} for {expected!r}"
            _close("jvp", moved, slope, scale)
        elif context == "jit":
            found, moved = fg.jit(fg.value_and_grad(program))(x)
            _close("jit", found, expected, scale)
            _close("jit of the gradient", moved, gradient, scale)
        elif context == "vmap":
            rows = np.stack([x, x * 0.5])
            found = fg.vmap(program)(rows)
            assert found[0] == expected, f"vmap: {found[0]!r} for {expected!r}"
            _close("vmap", found[1], program(x * 0.5), scale)
            _close("vmap of the gradient", fg.vmap(fg.grad(program))(rows)[0], gradient, scale)
        elif context == "order 2":
            h = 2.0**-12
            second = (_slope(program, x + h * u, t) - _slope(program, x - h * u, t)) / (2 * h)
            found = fg.jvp(fg.grad(program), (x,), (u,))[1]
            other = fg.grad(lambda y: fg.jvp(program, (y,), (u,))[1])(x)
            np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-9 * scale)
            size = scale + float(np.max(np.abs(found)))
            np.testing.assert_allclose(np.sum(found * t), second, rtol=1e-5, atol=1e-5 * size)
        elif context == "scan":

            def looped(y: Any) -> Any:
                return np.sum(
                    fg.lax.scan(lambda c, _: (c * 0.5, program(c * 1.0)), y, None, length=2)[1]
                )

            found = expected + float(program(x * 0.5))
            _close("scan", fg.jit(looped)(x), found, scale + abs(found))
            moved = slope + 0.5 * _slope(program, x * 0.5, t)
            _close("gradient of scan", np.sum(fg.grad(looped)(x) * t), moved, scale + abs(moved))


CONTEXTS = ("jvp", "jit", "vmap", "order 2", "scan")


def _slope(program: Program, x: Any, t: Any) -> float:
    """The derivative along t, by a complex step through plain NumPy."""
    return float(program(x + 1e-30j * t).imag) / 1e-30


def _close(what: str, found: Any, expected: Any, scale: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * scale, err_msg=what)


def main() -> int:
    """Runs random programs, and shows those that differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop", type=int, default=5, help="after so many failures")
    given = parser.parse_args()
    failed, begun = 0, time.monotonic()
    for number in range(given.seed, given.seed + given.programs):
        program = Program(number)
        try:
            check(program, (CONTEXTS[number % len(CONTEXTS)],))
        except Exception:
            failed += 1
            print(f"--- program {number} ({CONTEXTS[number % len(CONTEXTS)]})\n{program}")
            traceback.print_exc(limit=-3, file=sys.stdout)
            if failed == given.stop:
                break
    print(f"{number - given.seed + 1} programs of writes and views, {failed} differ, "
          f"{time.monotonic() - begun:.0f} s")  # fmt: skip
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
