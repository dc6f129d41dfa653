"""Views and copies: NumPy's functions that share memory with an argument, one by one."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from surface_table import CASES

import fungrad as fg
from fungrad.support import pytree
from fungrad.tracing.aliasing import alias_of
from fungrad.tracing.trace import Tracer

M = np.arange(1.0, 13.0).reshape(3, 4)
COMPLEX = M + 1j

VIEWS = {
    "reshape": lambda m: m.reshape(4, 3),
    "reshape to vector": lambda m: m.reshape(-1),
    "reshape with copy": lambda m: m.reshape(-1, copy=True),
    "reshape of transpose": lambda m: m.T.reshape(-1),
    "reshape in F": lambda m: m.reshape(12, order="F"),
    "reshape of transpose in F": lambda m: m.T.reshape(12, order="F"),
    "ravel": lambda m: m.ravel(),
    "ravel of transpose": lambda m: m.T.ravel(),
    "ravel of transpose in F": lambda m: m.T.ravel("F"),
    "flatten": lambda m: m.flatten(),
    "slices": lambda m: m[1:, ::2],
    "ravel of slices": lambda m: m[1:, ::2].reshape(-1),
    "ravel of rows": lambda m: [m[1:].ravel(), m[1:].reshape(-1)],
    "of a column": lambda m: [m[:, 0].ravel(), m[:, 0].reshape(-1), m[:, :1].reshape(3)],
    "of a diagonal": lambda m: [np.diag(m).ravel(), np.diag(m).reshape(-1), np.diag(m).ravel("F")],
    "newaxis": lambda m: m[None],
    "ellipsis": lambda m: m[...],
    "no index": lambda m: m[()],
    "a NumPy integer": lambda m: m[np.int64(1)],
    "index array": lambda m: m[[0, 1]],
    "mask": lambda m: m[m > 3],
    "copy": lambda m: [m.copy(), np.copy(m), copy.copy(m), copy.deepcopy(m)],
    "astype": lambda m: [m.astype(float), m.astype(float, copy=False), m.astype(int)],
    "unary": lambda m: [+m, m.conj(), np.conj(m), m.real, np.real(m), np.real_if_close(m)],
    "diagonal": lambda m: [m.diagonal(), np.diag(m), np.linalg.diagonal(m), np.diag(m[0])],
    "flip": lambda m: [np.flip(m), np.flip(m, 0), np.fliplr(m), np.flipud(m)],
    "rot90": lambda m: [np.rot90(m, k) for k in range(4)],
    "broadcast": lambda m: [np.broadcast_to(m, (2, 3, 4)), *np.broadcast_arrays(m, 1.0)],
    "windows": lambda m: np.lib.stride_tricks.sliding_window_view(m, 2, axis=0),
    "meshgrid": lambda m: [np.meshgrid(m[0], m[1]), np.meshgrid(m[0], m[1], sparse=True)],
    "einsum": lambda m: [np.einsum(s, m) for s in ("ij->ji", "ij", "ij->i", "...")],
    "einsum of a diagonal": lambda m: np.einsum("ii->i", m[:3, :3]),
    "split": lambda m: [np.split(m, 3), np.array_split(m, 2, 1), np.hsplit(m, 2), np.vsplit(m, 3)],
    "rows": lambda m: [list(m), tuple(m.T), np.array(0.0)],
    "squeeze": lambda m: [np.squeeze(m), np.squeeze(m[:1]), m[:, :1].squeeze(1)],
    "at least": lambda m: [np.atleast_1d(m), np.atleast_2d(m[0]), np.atleast_3d(m, m[0])],
    "axes": lambda m: [m.T, m.mT, m.transpose(), np.swapaxes(m, 1, 1), np.moveaxis(m, 0, 1)],
    "joined alone": lambda m: [np.concatenate([m]), np.stack([m]), np.vstack([m]), np.dstack([m])],
    "in columns alone": lambda m: [np.column_stack([m]), np.hstack([m]), np.block([[m]])],
    "nothing to do": lambda m: [np.round(m), np.clip(m, -99, 99), np.nan_to_num(m), np.pad(m, 0)],
    "nothing to move": lambda m: [np.roll(m, 0), np.tile(m, 1), np.repeat(m, 1, 0), np.sort(m)],
    "no differences": lambda m: [np.diff(m, n=0), np.tril(m, 9), np.trim_zeros(m[0])],
    "no axes": lambda m: [np.sum(m, axis=()), np.max(m, axis=()), np.mean(m, axis=())],
    "repaired in place": lambda m: np.nan_to_num(m, copy=False),
    "picked": lambda m: [np.take(m, [0], 0), np.compress([True], m, 0), np.choose(0, [m])],
    "flat": lambda m: m.flat[:2],
}  # fmt: skip


def root(x):
    while alias_of(x) is not None and alias_of(x).base is not None:
        x = alias_of(x).base
    return x


def shares_as_numpy(f, args):
    """Compares which results share elements with which arguments, and may be written into."""
    args = [np.array(a) for a in args]
    expected = []
    for out in pytree.leaves(f(*args)):
        whole = isinstance(out, np.ndarray) and out.ndim > 0
        shared = [whole and np.may_share_memory(out, a) for a in args]
        repeated = any(out.size > a.size for a, s in zip(args, shared, strict=True) if s)
        expected.append((shared, any(shared) and out.flags.writeable and not repeated))
    checked = []

    def traced(*xs):
        for out, (shared, writeable) in zip(pytree.leaves(f(*xs)), expected, strict=True):
            handle = type(out) is Tracer
            assert [handle and root(out) is x for x in xs] == shared
            if any(shared):
                alias = alias_of(out)
                assert writeable == (alias is None or not alias.refusal)
        checked.append(True)
        return xs[0] * 0.0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fg.vjp(traced, *args)
    assert checked


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_numpys(name):
    shares_as_numpy(VIEWS[name], [M])


def test_views_of_complex_arrays():
    shares_as_numpy(lambda z: [z.real, z.imag, np.real(z), np.imag(z), z.conj(), z.T], [COMPLEX])


FLOATS = [
    name
    for name, case in CASES.items()
    if all(isinstance(a, np.ndarray) and a.dtype.kind in "fc" for a in case.args)
]


@pytest.mark.parametrize("name", sorted(FLOATS))
def test_every_function_shares_what_numpys_does(name):
    case, function = CASES[name], getattr(np, name)
    call = case.call
    shares_as_numpy(function if call is None else lambda *xs: call(function, *xs), case.args)


# --- views of one element ---------------------------------------------------------------


def _increment(x):
    a = x[..., 1]
    a += 10.0
    return np.sum(x)


def _base_written(x):
    a = x[0, ...]
    x[:] = 0.25
    return a * 1.0


def _of_a_list(x):
    d = np.array([0.5, 1.0, x[0] * x[0]])
    e = d[0, ...]
    e[...] = 7.0 * x[1]
    return d[0] * d[2]


def _by_putmask(x):
    d = x * 1.0
    np.putmask(d[0, ...], True, x[1] * x[2])
    return np.sum(d * d)


def _of_a_buffer(x):
    b = np.zeros(4)
    b[0] = 1.0
    b[..., 0] -= x[0] * x[0]
    return np.sum(b) + b[0] * x[1]


def _of_a_view(x):
    m = np.zeros((2, 2))
    row = m[1]
    e = row[..., 1]
    e[...] = x[0]
    row *= x[1]
    return e * m[1, 1] + np.sum(m)


def _of_an_array_without_axes(x):
    b = np.zeros(())
    e = b[...]
    e[...] = x[0]
    b += x[1]
    return b * e


def _an_element_is_none(x):
    a = x[1]
    a += 10.0
    return np.sum(x) + a


def _of_a_view_of_an_element(x):
    d = x * 1.0
    e = d[2, ...]
    e[...] += 1.0
    f = e[None]
    f *= 2.0
    return np.sum(d * x)


@pytest.mark.parametrize(
    "f",
    [
        _increment, _base_written, _of_a_list, _by_putmask, _of_a_buffer, _of_a_view,
        _of_an_array_without_axes, _an_element_is_none, _of_a_view_of_an_element,
    ],
)  # fmt: skip
def test_an_index_with_an_ellipsis_is_a_view_of_one_element(f):
    x = np.array([1.0, 2.0, 3.0])
    expected = f(x.copy())
    steps = 1e-6 * np.eye(3)
    slopes = np.array([(f(x + h) - f(x - h)) / 2e-6 for h in steps])
    for gradient in (fg.value_and_grad(f), fg.jit(fg.value_and_grad(f))):
        value, slope = gradient(x)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_allclose(slope, slopes, rtol=1e-6, atol=1e-8)
    value, slope = fg.jvp(f, (x,), (np.ones(3),))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(slope, slopes.sum(), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fg.jit(f)(x), expected, rtol=1e-12)
    np.testing.assert_allclose(fg.vmap(f)(np.stack([x, x])), [expected] * 2, rtol=1e-12)
    np.testing.assert_array_equal(x, [1.0, 2.0, 3.0])


def test_layouts_of_views_by_several_arrays():
    def f(x):
        return sum(np.sum(a.ravel() ** 2) for a in np.broadcast_arrays(x[:1] * 2.0, x, 3.0))

    x = np.array([1.0, 2.0, 3.0])
    assert fg.jit(f)(x) == fg.jit(f, branches="error")(x) == f(x)
