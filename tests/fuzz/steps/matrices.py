"""Linear algebra of well-conditioned matrices, and Fourier transforms."""

from __future__ import annotations

import numpy as np

from ..generate import Builder, family


def _square(b: Builder) -> str | None:
    return b.pick(
        "f" if b.smooth else "fc",
        lambda v: np.ndim(v) >= 2 and np.shape(v)[-1] == np.shape(v)[-2] < 30,
    )


@family("linalg", 4)
def matrix(b: Builder) -> str | None:
    x = _square(b)
    if x is None:
        y = b.array("f", 2)
        if y is None or b.shape(y)[-1] > 20:
            return None
        return f"np.swapaxes({y}, -1, -2) @ {y}"
    n = b.shape(x)[-1]
    good = (
        f"(np.tanh({x}) / {max(2 * n, 1)} + np.eye({n}))"
        if b.kind(x) == "f"
        else f"({x} + {4 * n} * np.eye({n}))"
    )
    sym = f"({good} + np.swapaxes({good}, -1, -2))"
    if b.kind(x) == "f" and b.rng.random() < 0.4:
        return b.rng.choice((f"np.linalg.cholesky({sym})", f"np.linalg.eigvalsh({sym})",
        f"np.linalg.slogdet({good})[1]",
                             f"np.linalg.svd({good}, compute_uv=False)",
                             f"np.linalg.qr({good})[1]", f"np.linalg.matrix_power({good}, 3)",
                             f"np.linalg.pinv({good})",
                             f"np.linalg.norm({x}, axis=(-2, -1))"))  # fmt: skip
    y = b.pick(
        "f",
        lambda v: np.ndim(v) >= 2 and np.shape(v)[-2] == n and np.shape(v)[:-2] == b.shape(x)[:-2],
    )
    right = y or f"np.eye({n})"
    return b.rng.choice((f"np.linalg.inv({good})", f"np.linalg.solve({good}, {right})",
    f"np.linalg.det({good})", f"{good} @ {right}",
                         f"np.linalg.det({x})"))  # fmt: skip


@family("fourier", 1)
def fourier(b: Builder) -> str | None:
    x = b.array("f" if b.smooth else "fc", empty=False)
    if x is None or (b.kind(x) == "f" and np.asarray(b.value(x)).dtype != np.float64):
        return None
    if b.smooth:
        return f"np.abs(np.fft.rfft({x})) ** 2"
    names = ("fft", "ifft", "rfft") if b.kind(x) == "f" else ("fft", "ifft", "irfft")
    return f"np.fft.{b.rng.choice(names)}({x}, axis={b.axis(x)})"
