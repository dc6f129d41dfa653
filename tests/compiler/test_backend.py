"""The backend: straight-line programs give the numbers of the reference evaluator."""

from __future__ import annotations

import contextvars
import itertools
import math
import os
import re
import warnings

import numpy as np
import pytest
from checks import OURS
from concurrent_calls import same_in_threads
from hypothesis import given, settings
from samples import SAMPLES

import fungrad as fg
from fungrad.compiler.cost_model import costs
from fungrad.compiler.numpy_backend.backend import build, source
from fungrad.compiler.passes.pipeline import optimised
from fungrad.errors import ArgumentError
from fungrad.primitives.elementwise.family import eq
from fungrad.primitives.movement.gather import scatter
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.movement.static_index import of_slice
from fungrad.runtime import buffer_pool, thread_pool
from fungrad.testing import programs

# Both sides compute the same infinities and NaN; NumPy warns on each.

RNG = np.random.default_rng(0)
LARGE = 4 * costs.small_array
N = 3 * LARGE + 17


def chain(x):
    y = np.tanh(x) * 1.5 + x**2
    z = np.where(y > 0.5, np.sqrt(np.abs(y)) / (1.0 + x * x), np.exp(-y))
    return np.maximum(z, 0.1) - fg.stop_gradient(y) ** -1 + np.hypot(x, z) ** 0.5


def rows(x, row, column):
    return np.sin(x * row) * column + np.where(x > row, x**3, row) + column


def softmax(x):
    shifted = x - np.max(x, 1, keepdims=True)
    log_p = shifted - np.log(np.sum(np.exp(shifted), 1, keepdims=True))
    return np.mean(log_p[:, 0]) + log_p * 1.5, np.mean(log_p * log_p, 0), np.max(log_p)


def pairs(q):
    d = q[:, None, :] - q[None, :, :]
    r = np.sqrt(np.sum(d * d, -1) + 0.01)
    return np.sum(d / r[:, :, None], 1), np.mean(1 / r), r.T


def mixture(x, mean):
    log_p = -0.5 * np.sum((x - mean) ** 2, -1)
    top = np.max(log_p, 1, keepdims=True)
    return np.log(np.sum(np.exp(log_p - top), 1)) + top[:, 0], np.exp(log_p - top)


def gathered(table, x):
    at = np.arange(-20, len(x) - 20) % (2 * len(table)) - len(table)
    seen, turn = table[at], table[at, 1]
    return np.sum(np.sin(seen * x), 1) * turn, np.cross(seen, x)


def put_together(x, y):
    a, b = np.stack([np.sin(x), x * x, y], 1), np.concatenate([x[None], y[None] * x, x[None]])
    first, *_, last = np.moveaxis(a, 1, 0)
    return a / np.sum(a * a, 1, keepdims=True), np.sum(b * b, 0) * first - last


CASES = {
    "gathered": (gathered, (RNG.normal(size=(40, 3)), RNG.normal(size=(5000, 3)))),
    "put_together": (put_together, (RNG.normal(size=N), RNG.normal(size=N))),
    "chain": (chain, (RNG.normal(size=N),)),
    "float32": (chain, (RNG.normal(size=N).astype(np.float32),)),
    "matrix": (chain, (RNG.normal(size=(211, 500)),)),
    "few_long_rows": (chain, (RNG.normal(size=(2, N)),)),
    "not_contiguous": (chain, (RNG.normal(size=(500, 211)).T,)),
    "complex": (lambda x: np.exp(1j * x) * x + np.abs(x), (RNG.normal(size=N) + 0.5j,)),
    "integers": (lambda x: (x * 3 + 1) % 7 - x // 2, (np.arange(N),)),
    "rows": (rows, (RNG.normal(size=(300, 200)), RNG.normal(size=200), RNG.normal(size=(300, 1)))),
    "softmax": (softmax, (RNG.normal(size=(300, 200)),)),
    "narrow_rows": (softmax, (RNG.normal(size=(3000, 7)),)),
    "pairs": (pairs, (RNG.normal(size=(160, 3)),)),
    "mixture": (mixture, (RNG.normal(size=(900, 1, 5)), RNG.normal(size=(6, 5)))),
    "rows_behind": (
        lambda x: np.sum(x * x, 0) / np.max(x, 0) + np.transpose(np.exp(x))[:, 1],
        (RNG.normal(size=(3, N)),),
    ),
    "casts": (
        lambda x: np.sum(x > 0, 1).astype(float) * np.any(x > 2.0, 1) + np.min(x, 1),
        (RNG.normal(size=(400, 100)),),
    ),
    "neighbours": (
        lambda x: 100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2,
        (RNG.normal(size=N),),
    ),
    "neighbouring_columns": (
        lambda x: np.sin(x[:, 1:] - x[:, :-1]) * x[:, 2:3],
        (RNG.normal(size=(800, 60)),),
    ),
    "three_neighbours": (
        lambda x: np.sin(x[2:] - 2.0 * x[1:-1] + x[:-2]) * x[1:-1],
        (RNG.normal(size=N),),
    ),
    "behind": (lambda x: x[1:] * np.tanh(x[:-1]) * x[1:], (RNG.normal(size=N),)),
    "grid": (
        lambda x: (x[1:, 1:] - x[:-1, :-1]) ** 2 + np.sin(x[1:, :-1] * x[:-1, 1:]),
        (RNG.normal(size=(400, 90)),),
    ),
    "dots": (
        lambda x, y: np.mean(3.0 * np.sin(x) * y + np.cos(y) ** 2 - x) * np.tanh(x),
        (RNG.normal(size=N), RNG.normal(size=N)),
    ),
    "far_apart": (lambda x: np.sin(x[5000:] * x[:-5000]), (RNG.normal(size=N),)),
    "stencil": (
        lambda x, k: sum(
            k[i] * x[i : i + 296, j : x.shape[1] - 2 + j] for i in range(4) for j in range(3)
        ),
        (RNG.normal(size=(300, 60)), RNG.normal(size=4)),
    ),
    "far_neighbours": (lambda x: np.sin(x[9:] * x[4:-5] - x[:-9]), (RNG.normal(size=N),)),
    "columns_put_together": (
        lambda x: np.cos(x[:, 3] * x[:, 1] + x[:, 0:6:2][:, 1]) * x[:, 4],
        (RNG.normal(size=(N, 6)),),
    ),
    "two_shapes": (
        lambda x, r: np.exp(np.sin(r) * 2.0 + r) + np.sin(x) * x,
        (RNG.normal(size=(3, LARGE)), RNG.normal(size=LARGE)),
    ),
}


def total(outputs):
    """A number that depends on all outputs."""
    if not isinstance(outputs, tuple):
        outputs = (outputs,)
    return sum(np.sum(np.sin(output)) for output in outputs)


def reuse_all_memory(patch):
    """Makes programs compute every array in memory of a dead operand or of the pool."""
    patch.setattr(costs, "small_array", 1)
    patch.setattr(buffer_pool, "LARGE", 1)


def run_all(graph, args):
    expected = fg.evaluate(graph, *args)
    compiled = build(optimised(graph))
    return expected, compiled(*args)


@pytest.fixture(params=[1, 2, 3], ids="threads{}".format)
def thread_count(request):
    before = thread_pool.num_threads()
    thread_pool.set_num_threads(request.param)
    yield request.param
    thread_pool.set_num_threads(before)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_agree_with_the_reference(name, thread_count):
    f, args = CASES[name]
    graphs = [fg.make_jaxpr(f)(*args)]
    if args[0].dtype.kind == "f":
        graphs.append(fg.make_jaxpr(fg.grad(lambda *xs: total(f(*xs))))(*args))
    for graph in graphs:
        for want, got in zip(*run_all(graph, args), strict=True):
            assert got.dtype == want.dtype and got.shape == want.shape
            single = got.dtype.itemsize == 4
            scale = np.max(np.abs(want))
            tolerance = 1e-5 if single else 1e-12
            np.testing.assert_allclose(got / scale, want / scale, rtol=tolerance, atol=tolerance)


@pytest.mark.numpy_backend  # reads the text of programs
def test_values_are_computed_in_memory_that_nothing_else_reads():
    def f(x):
        y = np.sin(x)  # read twice
        z = np.exp(y[::-1])  # of a view
        return (z * y + z) * x, y.reshape(2, -1) + 1.0

    x = RNG.normal(size=6000)
    lowered = fg.jit(f).lower(x)
    assert re.findall(r"v\d+ = .*", lowered.source)[:6] == [
        "v1 = sin(v0)", "v2 = v1[k1]", "v2 = exp(v2)", "v3 = v2 * v1",
        "v2 = add(v3, v2, v3)", "v2 = v2 * v0",
    ]  # fmt: skip


def blur(kernel, image):
    """A sum of nine products of slices."""
    rows, columns = image.shape[0] - 2, image.shape[1] - 2
    places = [(i, j) for i in range(3) for j in range(3)]
    return sum(kernel[i, j] * image[i : i + rows, j : j + columns] for i, j in places)


BLURRED = tuple(np.random.default_rng(1).normal(size=shape) for shape in ((3, 3), (204, 304)))


def test_an_output_that_others_read_is_made_before_more_is_added():
    n = 50_000

    def f(x):
        first = scatter(np.sin(x), shape=(n + 1,), index=of_slice(0, n, None))
        return first, index_add(first, np.cos(x), index=of_slice(1, n + 1, None))

    x = np.linspace(0.0, 1.5, n)
    for found, expected in zip(fg.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int64])
def test_padded_values_keep_the_signs_of_zeros(dtype):
    x = np.where(np.arange(2 * LARGE) % 3 == 0, -0.0, 1.0).astype(dtype).reshape(-1, 2)

    def f(x):
        return np.pad(x * 3 * 2, 1), scatter(
            np.sum(x, 1) * 3, shape=(len(x) + 1,), index=of_slice(0, len(x), None)
        )

    for found, expected in zip(fg.jit(f)(x), f(x), strict=True):
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 9, 40])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.complex128, np.int32])
def test_reductions_along_the_last_axes_agree(dtype, width):
    x = (9.0 * np.random.default_rng(0).normal(size=(3000, 2, width))).astype(dtype)

    def f(x):
        y = x * 3 + x
        return [
            reduce(y, axis) * 2
            for reduce in ((np.sum, np.max, np.min) if dtype is not np.complex128 else (np.sum,))
            for axis in (-1, 1, (1, 2))
        ]

    for got, want in zip(fg.jit(f)(x), f(x), strict=True):
        assert got.dtype == want.dtype
        eps = 0 if np.dtype(dtype).kind == "i" else 8 * width * np.finfo(dtype).eps
        np.testing.assert_allclose(got, want, rtol=eps, atol=40 * eps)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_reductions_along_the_last_axis_of_special_numbers_agree():
    x = np.random.default_rng(0).choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0], (4000, 6))
    for rows in (x, x[:, :3], np.tile(x, 4)):
        for f in (np.sum, np.max, np.min):

            def of_rows(x, f=f):
                return f(x * 2.0, 1) + 1.0

            np.testing.assert_array_equal(fg.jit(of_rows)(rows), of_rows(rows))


def test_pools_of_images_and_their_gradients_agree():
    x = np.random.default_rng(0).normal(size=(128, 192))
    for pool_of in (np.mean, np.max, np.sum, np.min):

        def loss(x, pool_of=pool_of):
            return np.sum(pool_of(x.reshape(64, 2, 96, 2), (1, 3)) ** 2)

        found, wanted = fg.jit(fg.value_and_grad(loss))(x), fg.value_and_grad(loss)(x)
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-13)
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("thread_count", [1, 2])
@pytest.mark.parametrize("shift", [0, 1, -1, 7, -250, 301])
@pytest.mark.parametrize("shape", [(300, 90), (90, 300, 3), (40_000,)])
def test_arrays_are_rolled_between_regions(shape, shift, thread_count, monkeypatch):
    monkeypatch.setattr(fg.config, "num_threads", thread_count)
    x = np.random.default_rng(0).normal(size=shape)

    def f(x):
        y = sum(np.roll(x, shift, axis) for axis in range(x.ndim)) - 2.0 * x
        z = np.roll(np.sin(y), shift, -1) * np.roll(y, -shift, 0)
        return z, np.roll(x, shift, 0), np.roll(x * 2.0, shift) + np.roll(x, (1, 2), (0, -1))

    for got, want in zip(fg.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got, want)
    gradient = fg.grad(lambda x: np.sum(f(x)[0] ** 2))
    np.testing.assert_allclose(fg.jit(gradient)(x), gradient(x), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("error::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize(
    ("dtype", "thread_count"),
    [(np.float64, 1), (np.float64, 2), (np.float64, 3), (np.float32, 2), (np.complex128, 3)],
    indirect=["thread_count"],
)
def test_sums_of_parts(dtype, thread_count):
    """Across the rows where threads meet: equal from run to run, at both orders and under vmap."""
    kernel, image = (a.astype(dtype) for a in BLURRED)

    def loss(kernel, image):
        return np.sum(np.abs(blur(kernel, image)) ** 2)

    def second(kernel, image):
        return fg.jvp(lambda i: fg.grad(loss, 1)(kernel, i), (image,), (np.cos(image),))[1]

    for f in (fg.grad(loss, (0, 1)), second):
        found = [fg.tree_leaves(fg.jit(f)(kernel, image)) for _ in range(3)]
        for want, *got in zip(fg.tree_leaves(f(kernel, image)), *found, strict=True):
            scale = np.max(np.abs(want))
            for each in got:
                np.testing.assert_array_equal(each, got[0])
                tolerance = 1e-4 if dtype is np.float32 else 1e-12
                np.testing.assert_allclose(each / scale, want / scale, atol=tolerance)
    batch = np.stack([image, image * 2.0])
    mapped = fg.jit(fg.vmap(fg.grad(loss, 1), (None, 0)))(kernel, batch)
    each = [fg.grad(loss, 1)(kernel, one) for one in batch]
    np.testing.assert_allclose(mapped, each, rtol=1e-4 if dtype is np.float32 else 1e-10)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_infinities_and_nan_touch_is_the_same(thread_count):
    x = RNG.normal(size=(300, 200))
    x[7, 3], x[149:151, 5], x[299, 199] = np.inf, np.nan, -np.inf
    f = fg.grad(lambda x: np.sum((x[2:, 1:] - x[:-2, :-1]) ** 2 * x[1:-1, 1:]))
    np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=1e-12, atol=1e-12)


@pytest.mark.numpy_backend
def test_names_are_used_again_when_nothing_reads_them(monkeypatch):
    monkeypatch.setattr(costs, "rerolled_equations", math.inf)  # a program of all the steps

    def f(x):
        for k in range(50):
            y, unread = np.sin(x), np.linalg.svd(x)
            part = np.divmod(y + 1.5, 0.75 + k / 100)[k % 2]
            x = np.exp(-part) * x + y[::-1] * unread.S
        return x, y

    x = RNG.normal(size=(3, 3))
    text = source(fg.jit(f).lower(x).optimised)
    assert len(set(re.findall(r"\bv\d+\b", text))) < 10 < text.count("svd")
    for got, want in zip(fg.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)


def test_prints_stay_in_their_order(capsys):
    def f(x):
        parts = [np.dot(x, x) * k for k in range(6)]
        for k, part in enumerate(parts):
            fg.debug.print(f"{k} {{}}", part[0, 0] * 0.0)
        return sum(parts)

    fg.jit(f)(np.ones((200, 200)))
    assert capsys.readouterr().out.split()[::2] == [str(k) for k in range(6)]


def test_what_a_region_reads_is_there_before_it_runs():
    def f(x):  # elementwise, then a reduction, then elementwise over its result
        y = np.exp(x) + 1.0
        total = np.sum(y)
        z = y / total
        return z - np.mean(z) * x, np.sin(x) * np.cos(x)

    x = RNG.normal(size=N)
    for want, got in zip(*run_all(fg.make_jaxpr(f)(x), (x,)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_inputs_and_outputs_are_not_written_to():
    x = RNG.normal(size=N)
    before = x.copy()
    f = fg.jit(lambda x: (np.sin(x) + 1.0, x * 2.0 - 1.0))
    first = f(x)
    kept = [array.copy() for array in first]
    f(2 * x)
    np.testing.assert_array_equal(x, before)
    for array, copy in zip(first, kept, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_many_threads_of_the_user(thread_count):
    f = fg.jit(fg.grad(lambda x: np.sum(chain(x))))
    inputs = [RNG.normal(size=N) for _ in range(4)]
    same_in_threads(f, inputs, 5)


def test_errstate_reaches_the_threads(thread_count):
    f = fg.jit(lambda x: np.log(x) * 2.0 + 1.0 / x)
    x = np.zeros(16 * LARGE)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        f(x)
    np.testing.assert_array_equal(f(x + 1.0), 1.0)  # the pool lives on


def test_a_forked_child_has_threads_of_its_own():
    f = fg.jit(lambda x: np.sin(x) * np.cos(x) + x)
    x = RNG.normal(size=16 * LARGE)
    expected = f(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking a process with threads
        child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(f(x), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_settings():
    before = fg.config.num_threads
    fg.config.num_threads = before + 1
    assert thread_pool.num_threads() == fg.config.num_threads == before + 1
    fg.config.num_threads = before
    with pytest.raises(ArgumentError, match="no setting 'threads'; it has num_threads"):
        fg.config.threads = 2


@pytest.mark.parametrize("total", [1, 2, 7, 9, 16, 17, 100, 1000])
@pytest.mark.parametrize("step", [1, 5, 8, 32])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_stretches_make_up_the_whole_and_are_alike(total, step, count):
    found = thread_pool.share(lambda start, stop: (start, stop), total, step, count)
    assert found[0][0] == 0 and found[-1][1] == total and len(found) <= count
    assert all(before[1] == after[0] for before, after in itertools.pairwise(found))
    lengths = [stop - start for start, stop in found]
    assert min(lengths) > 0 and max(lengths) - min(lengths) <= 2 * math.gcd(step, thread_pool.PAGE)


def test_errors_of_other_threads_are_raised():
    def work(start, stop):
        if start == 0:  # the part of another thread
            raise KeyError(start)

    with pytest.raises(KeyError):
        thread_pool.share(work, 2 * thread_pool.PAGE, thread_pool.PAGE, 2)


def test_context_variables_reach_the_other_threads():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(3)
    page = thread_pool.PAGE
    assert thread_pool.share(lambda start, stop: variable.get(), 2 * page, page, 2) == [3, 3]


def test_number_of_threads_is_checked():
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(ArgumentError):
            thread_pool.set_num_threads(wrong)


@pytest.mark.slow
@given(programs(scalar=False))
@settings(max_examples=60)
def test_random_programs_in_reused_memory(program):
    with pytest.MonkeyPatch.context() as patch:
        reuse_all_memory(patch)
        functions = [
            program,
            fg.grad(lambda *xs: np.sum(program(*xs)), tuple(range(len(program.args)))),
        ]
        for f in functions:
            graph = fg.make_jaxpr(f)(*program.args)
            for want, got in zip(*run_all(graph, program.args), strict=True):
                assert np.shape(got) == np.shape(want)
                np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", CASES)
def test_the_cases_in_reused_memory(name):
    f, args = CASES[name]
    cut = tuple(a[..., :23] if a.shape[-1] > 23 else a for a in args)
    with pytest.MonkeyPatch.context() as patch:
        reuse_all_memory(patch)
        for want, got in zip(*run_all(fg.make_jaxpr(f)(*cut), cut), strict=True):
            rtol, atol = (1e-6, 0.0) if got.dtype.itemsize == 4 else (1e-13, 1e-15)
            np.testing.assert_allclose(
                got, want, rtol=rtol, atol=atol * np.max(np.abs(want), initial=0.0)
            )
        if cut[0].dtype.kind == "f":
            slopes = fg.grad(lambda *xs: total(f(*xs)), tuple(range(len(cut))))
            for want, got in zip(*run_all(fg.make_jaxpr(slopes)(*cut), cut), strict=True):
                scale = np.max(np.abs(want))
                tolerance = 1e-4 if got.dtype.itemsize == 4 else 1e-12
                np.testing.assert_allclose(got / scale, want / scale, atol=tolerance)


def test_rows_that_are_added_by_number_and_nothing_else_is(thread_count):
    numbers = RNG.integers(0, 10, 10_000)
    x, table = RNG.normal(size=(10_000, 16)), RNG.normal(size=(10, 16))
    f = fg.grad(lambda table: np.sum((table[numbers] - x) ** 2))
    np.testing.assert_allclose(fg.jit(f)(table), f(table), rtol=1e-10)


def test_rows_are_gathered_and_added_by_number(thread_count):
    table, x = CASES["gathered"][1]
    at = RNG.integers(-40, 40, 5000)

    def cost(table, x, at):
        seen = table[at]
        return np.sum(np.sin(seen) * x) + np.sum(np.sin(np.sum(seen * x, 1)))

    f = fg.grad(cost, (0, 1))
    graph = fg.make_jaxpr(f)(table, x, at)
    for want, got in zip(*run_all(graph, (table, x, at)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    with pytest.raises(IndexError):
        fg.jit(f)(table, x, np.where(at == at[-1], 40, at))
    fg.testing.check_grads(lambda t: fg.jit(cost)(t, x, at), (table,), order=2)
    each = fg.vmap(fg.jit(f), (0, None, None))(np.stack([table, 2.0 * table]), x, at)
    np.testing.assert_allclose(each[0][1], f(2.0 * table, x, at)[0], rtol=1e-12)


ELEMENTWISE = [name for name in SAMPLES if OURS[name].partials is not None]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_elementwise_primitive_in_reused_memory(name):
    primitive = OURS[name]
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        reuse_all_memory(patch)
        for sample in SAMPLES[name]:

            def f(*args, params=sample.params):
                value = primitive(*args, **params)
                return value, eq(value, value)

            for want, got in zip(
                *run_all(fg.make_jaxpr(f)(*sample.args), sample.args), strict=True
            ):
                assert np.asarray(got).dtype == np.asarray(want).dtype
                single = np.asarray(want).dtype in (np.float32, np.complex64)
                np.testing.assert_allclose(got, want, rtol=1e-6 if single else 1e-14)


@pytest.mark.numpy_backend  # native code takes none
def test_buffers_are_used_again_held_within_bounds_and_freed():
    fg.clear_caches()
    assert buffer_pool.held() == 0
    f = fg.jit(lambda x: np.sum(chain(x)))
    x = RNG.normal(size=buffer_pool.LARGE // 8)
    f(x)
    held = buffer_pool.held()
    assert 0 < held <= buffer_pool.LIMIT
    f(x)
    assert buffer_pool.held() == held
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        f(np.full(x.size, np.inf))
    assert buffer_pool.held() == held  # given back on an error too
    assert f.cache_info().currsize == 1
    fg.clear_caches()
    assert buffer_pool.held() == 0 and f.cache_info().currsize == 0
    assert f(x) == f(x)
    huge = buffer_pool.take(buffer_pool.LIMIT + 1)
    buffer_pool.give(huge)
    assert buffer_pool.held() <= buffer_pool.LIMIT


def test_results_are_never_in_the_pool():
    f = fg.jit(lambda x: (np.exp(x) + x, np.sum(x * x), (x * 2.0)[:5], np.sin(x).reshape(-1, 1)))
    x = RNG.normal(size=N)
    first = f(x)
    copies = [np.copy(part) for part in first]
    for _ in range(3):
        f(x + 1.0)
    for part, copy in zip(first, copies, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_an_error_leaves_the_next_run_right(thread_count):
    f = fg.jit(lambda x: np.sqrt(np.log(x)) * 2.0 + x)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        f(np.zeros(16 * LARGE))
    np.testing.assert_allclose(f(np.full(N, np.e)), 2.0 + np.e)


def swapped(n, x, y):
    """Two arrays that change places at each of n steps, one that stays, one that nothing reads."""

    def step(state):
        i, a, b, kept, _ = state
        return i + 1, np.sin(b) + a * 0.5, np.cos(a) * b - a, kept, a + b

    return fg.lax.while_loop(lambda state: state[0] < n, step, (0, x, y, x, y))


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_loops_over_their_own_carries(steps, thread_count):
    x, y = RNG.normal(size=(2, N))
    given = x.copy(), y.copy()
    found = fg.jit(swapped)(steps, x, y)
    again = fg.jit(swapped)(steps, x, y)
    for want, got, other in zip(swapped(steps, x, y), found, again, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        assert got is not other
    np.testing.assert_array_equal(given, (x, y))
    arrays = [a for a in found if np.ndim(a)]
    assert all(a.flags.writeable for a in arrays)
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
    assert not any(np.shares_memory(a, b) for a in arrays for b in (x, y))

    def last(x, y):
        return np.sum(swapped(3, x, y)[2] ** 2)

    slopes = fg.grad(last, (0, 1))
    for want, got in zip(slopes(x, y), fg.jit(slopes)(x, y), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_loops_whose_carries_are_seen_elsewhere_keep_them():
    seen = []

    def f(x):
        def step(state):
            i, x = state
            x = np.sin(x) * 1.5 + x
            fg.debug.callback(seen.append, x)
            return i + 1, x

        return fg.lax.while_loop(lambda state: state[0] < 3, step, (0, x))[1]

    x = RNG.normal(size=N)
    result = fg.jit(f)(x)
    for found in seen:
        x = np.sin(x) * 1.5 + x
        np.testing.assert_allclose(found, x, rtol=1e-12)
    assert len(seen) == 3
    np.testing.assert_array_equal(result, seen[-1])


def test_scans_that_begin_with_what_others_read(thread_count):
    def alone(x, rows):
        return fg.lax.scan(lambda c, row: (np.tanh(c) * row, None), np.sin(x) * 2.0, rows)[0]

    def kept(x, rows):
        start = np.sin(x) * 2.0
        return fg.lax.scan(lambda c, row: (np.tanh(c) * row, None), start, rows)[0], start

    rng = np.random.default_rng(0)
    x, rows = rng.normal(size=LARGE), rng.normal(size=(5, 1))
    for f in (alone, kept):
        for argument in (x, 2.0 * x, x):
            found, want = (
                fg.tree_leaves(fg.jit(f)(argument, rows)),
                fg.tree_leaves(f(argument, rows)),
            )
            for a, b in zip(found, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_mapped_loop_and_one_with_products(thread_count):
    def f(x, w):
        def step(state):
            x, total = state
            x = np.tanh(x @ w) + x * 0.5
            return x, total + np.sum(x * x)

        return fg.lax.while_loop(lambda state: state[1] < 1e5, step, (x, 0.0))

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 120, 90)), rng.normal(size=(90, 90))
    for got, want in zip(fg.jit(f)(x[0], w), f(x[0], w), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)
    mapped = fg.jit(fg.vmap(f, (0, None)))(x, w)
    for i in range(3):
        for got, want in zip(mapped, f(x[i], w), strict=True):
            np.testing.assert_allclose(got[i], want, rtol=1e-10)


@pytest.mark.filterwarnings("ignore:overflow")
def test_results_of_regions_share_no_memory(thread_count):
    def f(x, w):
        y = x @ w
        z = np.sin(y) + y * y
        u = z @ w
        v = np.tanh(u) * z
        return z, v, (v @ w) * 2.0 - 1.0, np.exp(u).T

    x, w = RNG.normal(size=(150, 150)), RNG.normal(size=(150, 150))
    copies = x.copy(), w.copy()
    compiled = build(optimised(fg.make_jaxpr(f)(x, w)))
    first = compiled(x, w)
    kept = [a.copy() for a in first]
    compiled(x + 1.0, w)
    for want, got, copy in zip(f(x, w), first, kept, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(got, copy)
    np.testing.assert_array_equal((x, w), copies)
    assert not any(np.shares_memory(a, b) for i, a in enumerate(first) for b in first[:i])


@pytest.mark.numpy_backend  # reads the text of programs
def test_the_source_shows_what_a_program_calls():
    def scanned(w, xs):
        return fg.lax.scan(lambda c, x: (np.tanh(w @ c + x), c), np.zeros(30), xs)

    text = fg.jit(scanned).lower(np.eye(30), np.ones((50, 30))).source
    assert "\n# scan of run\n" in text and "def scan(" in text and "tanh(" in text
    text = fg.jit(lambda x: np.sum(np.exp(x[1:]) * x[:-1])).lower(np.ones(10_000)).source
    assert "v1 = exp(v1)\n" in text and "v0 = multiply(v1, v0, v1)\n" in text

    def chosen(x):
        return fg.lax.cond(x[0] > 0, np.sin, lambda x: np.cos(x) * np.exp(x), x)

    text = fg.jit(chosen).lower(np.ones(100_000)).source
    assert "def branches0(" in text and "cos(" in text
    assert "def branches1(v0):\n    v0 = sin(v0)" in text

    def doubled(x):
        return fg.lax.while_loop(lambda c: c[0] < 10.0, lambda c: np.sin(c) + 2.0 * c, x)

    text = fg.jit(doubled).lower(np.ones(100_000)).source
    assert "    while cond(v0)[0]:\n" in text and "# cond of run.while_loop\n" in text
    assert "# body of run.while_loop" in text and "sin(" in text


def test_the_source_is_that_of_the_program_on_numbers_where_it_runs():
    text = fg.jit(lambda x: np.sum(np.sin(x) * x)).lower(np.ones(2)).source
    assert "x0_0, x0_1, = x0.ravel().tolist()" in text and "sin(x0_0)" in text


def test_one_number_in_two_dtypes():
    single, double = np.arange(50, dtype=np.float32), np.arange(60.0)
    found = fg.jit(lambda a, b: (a * 0.3, b * 0.3))(single, double)
    for value, expected in zip(found, (single * 0.3, double * 0.3), strict=True):
        assert value.dtype == expected.dtype
        np.testing.assert_array_equal(value, expected)


def test_a_cosine_that_is_only_added_to_an_output():
    def f(x):
        sine = np.sin(x * 2.0)
        return sine, index_add(np.exp(x * 2.0), np.cos(x * 2.0), index=of_slice(None, None, None))

    x = np.random.default_rng(0).normal(size=50_000)
    for found, wanted in zip(fg.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_kernels_of_doubles_are_given_no_others(dtype):
    x = np.random.default_rng(0).normal(size=50_000)
    y = np.full(50_000, 100 if dtype is np.int8 else 1.1, dtype)
    for f in (lambda x, y: np.hypot(x * 2.0, y) * 2.0, lambda x, y: np.logaddexp(x * 2.0, y) * 2.0):
        np.testing.assert_allclose(fg.jit(f)(x, y), f(x, y), rtol=1e-15)
